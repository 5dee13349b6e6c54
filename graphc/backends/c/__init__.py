"""The C backend: vector code written as C, compiled by the system's compiler or handed over.

The algorithms are those of the LLVM backend (`backends/loops`), and so are the results, bit for
bit, on the same `Machine`, which masks no memory here. `docs/c.md` says how the files are compiled.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.backends.base import (
    Backend,
    CompiledFunction,
    Content,
    EmitRequest,
    FileKind,
    KeptCode,
)
from graphc.backends.c.target import c_target
from graphc.ir.core import Function
from graphc.ir.machine import Machine
from graphc.runtime.signature import Signature
from graphc.support.phases import Phases


def _compile(function: Function, signature: Signature) -> CompiledFunction:
    from graphc.backends.c.runtime import compile_function

    return compile_function(function, signature)


def _make(function: Function, signature: Signature, phases: Phases) -> bytes:
    from graphc.backends.c.runtime import make_code

    return make_code(function, signature, phases)


def _load(code: bytes, signature: Signature, phases: Phases) -> CompiledFunction:
    from graphc.backends.c.runtime import load_function

    with phases.measure("load"):
        return load_function(code, signature)


def _versions(name: str) -> Mapping[str, str]:
    from graphc.backends.c.runtime import versions

    return versions(name)


def _emit_c(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.c.artifact import emit_artifact

    with request.phases.measure("emit"):
        target = c_target(request.target)
        return emit_artifact(function, signature, target, request).encode("ascii")


def _fill_c(text: bytes, signature: Signature, request: EmitRequest) -> Content:
    from graphc.backends.c.artifact import large_arrays
    from graphc.backends.c.large_data import FilledText

    arrays = large_arrays(signature, request)
    return FilledText(text, arrays) if arrays else [text]


def _isa(target: str) -> str:
    return c_target(target).isa


def _machine(target: str) -> Machine:
    return c_target(target).machine


BACKEND = Backend(
    name="c",
    summary="C with vector extensions: one file, or calls through the system's compiler",
    stage="kernels",
    compile=_compile,
    emit={"c": FileKind(".c", "one C file with the parameters in it", _emit_c, fill=_fill_c)},
    isa=_isa,
    machine=_machine,
    code=KeptCode(_make, _load, _versions),
    adds=True,
)
