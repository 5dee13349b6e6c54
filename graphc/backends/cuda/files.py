"""The kinds of files that the backend makes. None of them needs a GPU."""

from __future__ import annotations

from collections.abc import Mapping

from graphc.backends.base import EmitRequest, FileKind
from graphc.ir.core import Function
from graphc.runtime.signature import Signature


def _cu(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.cuda.artifact import emit_cu

    return emit_cu(function, signature, request)


def _cubin(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.cuda.artifact import emit_cubin

    return emit_cubin(function, signature, request)


def _ptx(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    from graphc.backends.cuda.artifact import emit_ptx

    return emit_ptx(function, signature, request)


FILE_KINDS: Mapping[str, FileKind] = {
    "cu": FileKind(".cu", "kernels for NVIDIA's GPUs as readable CUDA C++", _cu, is_compiled=False),
    "cubin": FileKind(
        ".cubin", "compiled kernels for one GPU", _cubin, is_text=False, is_compiled=False
    ),
    "ptx": FileKind(".ptx", "kernels in NVIDIA's portable assembly", _ptx, is_compiled=False),
}
