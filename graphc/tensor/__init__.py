"""Functions of arrays: Python functions traced into the IR, their derivatives, and calls of both.

shapes -> numeric -> indexing -> tracing -> tensor -> functions, and
tensor -> function -> derivatives -> transforms -> jacobian, gradient_check; function -> scan
"""
