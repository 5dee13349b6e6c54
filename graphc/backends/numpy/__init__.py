"""The numpy backend: a planned function as readable Python source that needs numpy only."""

from __future__ import annotations

from graphc.backends.base import Backend, CompiledFunction, FileKind
from graphc.backends.numpy.runtime import compile_function
from graphc.backends.numpy.standalone import emit_py
from graphc.ir.core import Function
from graphc.runtime.signature import Signature


def _compile(function: Function, signature: Signature) -> CompiledFunction:
    return compile_function(function, signature)


BACKEND = Backend(
    name="numpy",
    summary="readable numpy source; needs no compiler",
    stage="kernels",
    compile=_compile,
    emit={
        "py": FileKind(".py", "a Python module that needs only numpy", emit_py, is_compiled=False)
    },
    adds=True,
)
