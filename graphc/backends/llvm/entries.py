"""The functions of a compiled object that are called from outside, by name: which there are.

Known without anything of what writes them, which a process that finds its code in the cache never
loads.
"""

from __future__ import annotations

from graphc.runtime.signature import Signature, runs_epochs

ENTRY = "graphc.entry"
EPOCH = "graphc.epoch"


def entries(signature: Signature) -> tuple[str, ...]:
    """The names of a function's entries."""
    return (ENTRY, EPOCH) if runs_epochs(signature) else (ENTRY,)
