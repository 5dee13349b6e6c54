"""The functions of a compiled object that are called from outside, by name: which there are.

Known without anything of what writes them, which a process that finds its code in the cache never
loads.
"""

from __future__ import annotations

from graphc.runtime.signature import Argument, Result, Signature

ENTRY = "graphc.entry"
EPOCH = "graphc.epoch"


def entries(signature: Signature) -> tuple[str, ...]:
    """The names of a function's entries."""
    return (ENTRY, EPOCH) if runs_epochs(signature) else (ENTRY,)


def runs_epochs(signature: Signature) -> bool:
    """Whether `graphc.epoch` is written: for training steps on dense samples.

    Sequences and sparse inputs need a new layout for every call, which Python makes.
    """
    if (
        signature.sequences is not None
        or signature.sparse
        or not signature.with_role("hyperparameter")
    ):
        return False
    dims = signature.dims
    if len(dims) != 1 or dims[0].factors:
        return False
    inputs, hyperparameters = signature.with_role("input"), signature.with_role("hyperparameter")
    return (
        bool(inputs)
        and all(len(i.shape) == 2 and i.shape[0] == dims[0].name for i in inputs)
        and all(isinstance(i.shape[1], int) for i in inputs)
        and all(_is_number(p) for p in (*hyperparameters, *signature.fresh_results))
    )


def _is_number(spec: Argument | Result) -> bool:
    return spec.shape == (1, 1)
