"""The machine's mathematical library over arrays, in a wider type: it judges the functions.

The loop is compiled, so that all 2^32 inputs of an f32 function take minutes.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable
from functools import cache

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import host_target

NAMES = {"power": "pow", "arctan": "atan"}
"""What C calls a word of the vocabulary, where it is another name."""

_LOOP = """
define void @loop({parameters}, ptr %y, i64 %n) {{
entry:
  %empty = icmp eq i64 %n, 0
  br i1 %empty, label %done, label %body
body:
  %i = phi i64 [ 0, %entry ], [ %following, %body ]
{loads}
  %result = call {type} inttoptr (i64 {address} to ptr)({arguments})
  %at = getelementptr {type}, ptr %y, i64 %i
  store {type} %result, ptr %at
  %following = add i64 %i, 1
  %more = icmp ult i64 %following, %n
  br i1 %more, label %body, label %done
done:
  ret void
}}
"""


def library_function(name: str, *operands: np.ndarray) -> np.ndarray:
    """The C function in f64, or in the 80-bit type where the operands have that."""
    wide = np.longdouble if operands[0].dtype == np.longdouble else np.float64
    arrays = [np.ascontiguousarray(x, wide) for x in operands]
    result = np.empty(arrays[0].shape, wide)
    pointers = [a.ctypes.data for a in (*arrays, result)]
    _loop(name, len(arrays), wide is np.longdouble)(*pointers, result.size)
    return result


@cache
def _loop(name: str, count: int, is_long: bool) -> Callable[..., None]:
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    function = getattr(library, NAMES.get(name, name) + ("l" if is_long else ""))
    address = ctypes.cast(function, ctypes.c_void_p).value
    type_ = "x86_fp80" if is_long else "double"
    loads = [
        f"  %p{k} = getelementptr {type_}, ptr %x{k}, i64 %i\n  %v{k} = load {type_}, ptr %p{k}"
        for k in range(count)
    ]
    text = _LOOP.format(
        parameters=", ".join(f"ptr %x{k}" for k in range(count)),
        loads="\n".join(loads),
        type=type_,
        address=address,
        arguments=", ".join(f"{type_} %v{k}" for k in range(count)),
    )
    target = host_target()
    text = f'target triple = "{target.triple}"\n{text}'
    loaded = engine.load(engine.object_code(text, target), ["loop"], target)
    run = engine.function(loaded, "loop", None, *[ctypes.c_void_p] * (count + 1), ctypes.c_int64)

    def call(*arguments: int) -> None:
        run(*arguments)
        assert loaded.keep

    return call
