"""The call for a sum over members, of what the caller of an entry hands over for it:

    struct {
      int32_t (*all_reduce)(void *context, void *data, int64_t count, int32_t bytes);
      void *context;
    }

`all_reduce` puts the sums of all members' arrays into an array of `count` floats of 4 or 8 `bytes`
and returns 0; anything else ends the function. So compiled code knows no MPI.
"""

from __future__ import annotations

from graphc.backends import native
from graphc.backends.loops.control import offset
from graphc.backends.loops.values import I32, PTR, Val, constant, index
from graphc.backends.loops.writer import Writer

NO_SUM = constant(native.NO_SUM, I32)


def emit_all_reduce(code: Writer, adder: Val, data: Val, size: int, width: int) -> Val:
    """The status, 0 or `NO_SUM`, behind the sum of `size` bytes of floats of `width` bytes.

    adder  the address of the struct
    """
    function = code.load(PTR, adder, 8)
    context = code.load(PTR, offset(code, adder, "i64", index(1)), 8)
    given = (context, data, index(size // width), constant(width, I32))
    (failed,) = code.invoke_for(function, given, (I32,))
    has_sum = code.compare("eq", failed, constant(0, I32))
    return code.select(has_sum, constant(0, I32), NO_SUM)
