"""Functions of arrays: Python functions traced into the IR, their derivatives, and calls of both.

value -> numeric -> tracing -> tensor -> functions -> function -> transforms -> gradient_check
"""
