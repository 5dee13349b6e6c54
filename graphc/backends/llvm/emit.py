"""A planned function as one LLVM module.

    i32 @graphc.entry(ptr buffers, ptr dims, ptr arena, ptr pool)

as `loops/entry.py` writes it. The same function and target always give the same text.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.llvm.entries import ENTRY
from graphc.backends.llvm.epoch import add_epoch
from graphc.backends.llvm.profile import Instrument
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import CALLER, Code, Module
from graphc.backends.loops.entry import ENTRY_PARAMETERS, write_entry
from graphc.ir.core import Function, Operation
from graphc.runtime.signature import Signature, runs_epochs


def emit_function(function: Function, signature: Signature, target: Target) -> str:
    """The module of `graphc.entry`; that of a training step has `graphc.epoch` too."""
    return _module_text(Module(target.triple), function, signature, target, None)


def emit_profiled(
    function: Function, signature: Signature, target: Target
) -> tuple[str, Sequence[Operation]]:
    """The module that notes the time of every operation, and the operations (`profile.py`)."""
    module = Module(target.triple)
    instrument = Instrument(module, target)
    text = _module_text(module, function, signature, target, instrument)
    return text, instrument.operations


def _module_text(
    module: Module,
    function: Function,
    signature: Signature,
    target: Target,
    instrument: Instrument | None,
) -> str:
    add_entry(module, function, signature, target, linkage="", instrument=instrument)
    if runs_epochs(signature):
        add_epoch(module, signature, target, ENTRY)
    return module.text()


def add_entry(
    module: Module,
    function: Function,
    signature: Signature,
    target: Target,
    *,
    linkage: str,
    instrument: Instrument | None = None,
) -> None:
    """Writes `graphc.entry` and everything it calls."""
    around = None if instrument is None else instrument.around
    body = write_entry(module, function, signature, target.machine, around)
    assert isinstance(body, Code)
    linkage = f"{linkage} " if linkage else ""
    parameters = ", ".join(map(str, ENTRY_PARAMETERS))
    module.add_function(f"define {linkage}i32 @{ENTRY}({parameters}) nounwind {CALLER}", body)
    if instrument is not None:
        instrument.finish()
