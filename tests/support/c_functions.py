"""Functions compiled by the C backend, many to an object: a compiler takes long to start."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.c import runtime
from graphc.backends.c.emit import emit_together
from graphc.backends.c.target import c_host
from graphc.backends.native import NativeFunction
from graphc.ir.core import Function
from graphc.runtime.signature import Signature


def compile_together(functions: Sequence[tuple[Function, Signature]]) -> list[NativeFunction]:
    """The functions, in one object for this machine."""
    code = runtime.object_code(emit_together(functions, c_host()))
    return runtime.load_together(code, [signature for _, signature in functions])
