"""The CUDA backend: kernels for NVIDIA's GPUs, as text that NVRTC compiles and CuPy launches.

Everything but running needs no GPU: text, compiled code, programs in C. `docs/gpu.md` says how it
is used and what was measured.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.backends.base import Backend, CompiledFunction, EmitRequest, FileKind, KeptCode
from graphc.ir.core import Function
from graphc.ir.machine import GpuMachine
from graphc.runtime.signature import Signature
from graphc.support.phases import Phases


def _compile(function: Function, signature: Signature) -> CompiledFunction:
    phases = Phases()
    return _load(_make(function, signature, phases), signature, phases)


def _make(function: Function, signature: Signature, phases: Phases) -> bytes:
    from graphc.backends.cuda.loading import make_code

    return make_code(function, signature, phases)


def _load(code: bytes, signature: Signature, phases: Phases) -> CompiledFunction:
    from graphc.backends.cuda.loading import load_function

    with phases.measure("load"):
        return load_function(code, signature)


def _emit_cu(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.cuda.artifact import emit_cu

    return emit_cu(function, signature, request)


def _emit_ptx(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.cuda.artifact import emit_ptx

    return emit_ptx(function, signature, request)


def _emit_cubin(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.cuda.artifact import emit_cubin

    return emit_cubin(function, signature, request)


def _emit_host(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.cuda.host import emit_host

    return emit_host(function, signature, request)


def _versions(target: str) -> Mapping[str, str]:
    from graphc.backends.cuda.platform import platform

    return {"compiler": platform().versions(), "gpu": str(_machine(target))}


def _machine(target: str) -> GpuMachine:
    from graphc.backends.cuda.platform import platform
    from graphc.backends.cuda.target import NATIVE, gpus_named

    here = platform().machine() if target == NATIVE else None
    return here or gpus_named(target)[0]


def _isa(target: str) -> str:
    """The architecture, of files for several all of them."""
    from graphc.backends.cuda.target import NATIVE, gpus_named

    machines = [_machine(target)] if target == NATIVE else gpus_named(target)
    return ",".join(machine.arch for machine in machines)


def _missing() -> str:
    from graphc.backends.cuda.platform import platform

    return platform().missing()


BACKEND = Backend(
    name="cuda",
    summary="kernels for NVIDIA's GPUs: calls from Python through CuPy, text, compiled code",
    stage="kernels",
    compile=_compile,
    emit={
        "cu": FileKind(".cu", "CUDA C++ of the kernels", _emit_cu, is_compiled=False),
        "ptx": FileKind(
            ".ptx",
            "PTX of the kernels, for GPUs to come",
            _emit_ptx,
            is_compiled=False,
            one_target=True,
        ),
        "cubin": FileKind(
            ".cubin",
            "the kernels for one GPU",
            _emit_cubin,
            is_text=False,
            is_compiled=False,
            one_target=True,
        ),
        "host": FileKind(".cuda.c", "one C file that runs the network on a GPU", _emit_host),
    },
    isa=_isa,
    machine=_machine,
    code=KeptCode(_make, _load, _versions),
    missing=_missing,
)
