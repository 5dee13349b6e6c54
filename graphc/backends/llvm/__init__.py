"""The LLVM backend: vector code written as LLVM IR text, compiled to objects, loaded or stored.

Calls from Python, `.ll`, `.s` and `.o` come from one emitter. No optimisation passes run: the text
is what they would make. `docs/numerics.md` has the accuracy of the mathematical functions.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.backends.base import (
    Backend,
    CompiledFunction,
    Content,
    EmitRequest,
    FileKind,
    Keep,
    KeptCode,
    MachinePeak,
    PoolCode,
    Profiling,
    Recorder,
    TableRows,
)
from graphc.backends.llvm.target import Target, host_target, target_named
from graphc.backends.llvm.thread_pool import has_pool
from graphc.data.plain_rows import ReadRows
from graphc.ir.core import Function
from graphc.ir.machine import Machine
from graphc.runtime.signature import Signature
from graphc.support.phases import Phases


def _compile(function: Function, signature: Signature) -> CompiledFunction:
    from graphc.backends.llvm.runtime import compile_function

    return compile_function(function, signature)


def _make(function: Function, signature: Signature, phases: Phases) -> bytes:
    from graphc.backends.llvm.runtime import make_code

    return make_code(function, signature, phases=phases)


def _load(code: bytes, signature: Signature, phases: Phases) -> CompiledFunction:
    from graphc.backends.llvm.runtime import load_function

    with phases.measure("load"):
        return load_function(code, signature, host_target())


def _versions(name: str) -> Mapping[str, str]:
    from graphc.backends.llvm import engine

    target = target_named(name)
    return {
        "llvm": engine.version(),
        "target": f"{target.triple} {target.cpu}",
        "caches": f"{target.machine.l1} {target.machine.l2}",
        "features": target.features.replace(",", "\n"),
    }


def _profiled(
    function: Function, signature: Signature, phases: Phases, keep_events: bool
) -> tuple[CompiledFunction, Recorder]:
    from graphc.backends.llvm.recorder import compile_profiled

    return compile_profiled(function, signature, phases, keep_events)


def _peak() -> MachinePeak:
    from graphc.backends.llvm.machine_peak import measure_machine_peak

    return measure_machine_peak()


def _keep_pools_by(keep: Keep) -> None:
    from graphc.backends.llvm.thread_pools import keep_pools_by

    keep_pools_by(keep)


def _make_table_rows() -> bytes:
    from graphc.backends.llvm import engine
    from graphc.backends.llvm.table_rows import table_rows_text

    return engine.object_code(table_rows_text(host_target()), host_target())


def _load_table_rows(code: bytes) -> ReadRows:
    from graphc.backends.llvm.table_rows import load_table_rows

    return load_table_rows(code, host_target())


def _text(
    function: Function,
    signature: Signature,
    request: EmitRequest,
    *,
    reserved: bool = False,
) -> tuple[str, Target]:
    from graphc.backends.llvm.artifact import emit_artifact

    with request.phases.measure("emit"):
        target = target_named(request.target)
        return emit_artifact(function, signature, target, request, reserved=reserved), target


def _emit_ll(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    return _text(function, signature, request)[0].encode()


def _emit_asm(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.llvm import engine

    text, target = _text(function, signature, request)
    with request.phases.measure("assembly"):
        return engine.assembly(text, target).encode()


def _emit_obj(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.llvm import engine

    text, target = _text(function, signature, request, reserved=True)
    return engine.object_code(text, target, request.phases)


def _fill_obj(code: bytes, signature: Signature, request: EmitRequest) -> Content:
    from graphc.backends.llvm.artifact import large_arrays
    from graphc.backends.llvm.large_data import filled

    return filled(code, large_arrays(signature, request))


def _isa(target: str) -> str:
    return target_named(target).isa


def _machine(target: str) -> Machine:
    return target_named(target).machine


def _has_threads(target: str) -> bool:
    return has_pool(target_named(target))


BACKEND = Backend(
    name="llvm",
    summary="native code through LLVM: calls from Python, objects, assembly",
    stage="kernels",
    compile=_compile,
    emit={
        "ll": FileKind(".ll", "LLVM IR as text", _emit_ll),
        "asm": FileKind(".s", "assembly", _emit_asm),
        "obj": FileKind(
            ".o",
            "an object file with the same interface",
            _emit_obj,
            is_text=False,
            fill=_fill_obj,
        ),
    },
    isa=_isa,
    machine=_machine,
    has_threads=_has_threads,
    code=KeptCode(_make, _load, _versions),
    profile=Profiling(_profiled, _peak),
    table_rows=TableRows(_make_table_rows, _load_table_rows),
    pool=PoolCode(_keep_pools_by),
    adds=True,
)
