"""PyTorch as a judge from outside (`make judge`): values, gradients and directional derivatives.

PyTorch is no dependency of graphc, not even for development; where it is missing all of this is
skipped.
"""
