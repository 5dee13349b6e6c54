"""Compiles a planned function for calls from Python and loads the object."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from graphc.backends.llvm import engine
from graphc.backends.llvm.entries import ENTRY, EPOCH, entries
from graphc.backends.llvm.target import Target, host_target
from graphc.backends.llvm.thread_pools import pool_address
from graphc.backends.native import ENTRY_TYPES, EPOCH_TYPES, NativeFunction
from graphc.ir.core import Function
from graphc.runtime.signature import Signature, runs_epochs
from graphc.support.phases import Phases


def make_code(
    function: Function,
    signature: Signature,
    target: Target | None = None,
    phases: Phases | None = None,
) -> bytes:
    """The object of a planned function, for this machine unless said otherwise."""
    from graphc.backends.llvm.emit import emit_function

    phases = phases or Phases()
    with phases.measure("emit"):
        target = target or host_target()
        text = emit_function(function, signature, target)
    return engine.object_code(text, target, phases)


def compile_function(
    function: Function, signature: Signature, target: Target | None = None
) -> NativeFunction:
    """Emits, compiles and loads a planned function, for this machine unless said otherwise."""
    target = target or host_target()
    return load_function(make_code(function, signature, target), signature, target)


def load_function(code: bytes, signature: Signature, target: Target) -> NativeFunction:
    """Loads an object into this process and gives its function."""
    return loaded_function(code, signature, engine.load(code, entries(signature), target))


def loaded_function(code: bytes, signature: Signature, loaded: engine.Loaded) -> NativeFunction:
    """The function of an object that is in this process."""
    entry = engine.function(loaded, ENTRY, ctypes.c_int32, *ENTRY_TYPES)
    epoch: Callable[..., int] | None = None
    if runs_epochs(signature):
        epoch = engine.function(loaded, EPOCH, ctypes.c_int32, *EPOCH_TYPES)
    return NativeFunction(code, signature, entry, pool_address, loaded, epoch)
