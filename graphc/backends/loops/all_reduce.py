"""The call for a sum over members, of what the caller of an entry hands over for it, of which
`artifacts/members.py` has all:

    struct {
      int32_t (*all_reduce)(void *context, int32_t number, void *data, int64_t count,
                            int32_t bytes);
      void *context;
      …
    }

`all_reduce` puts the sums of all members' arrays into an array of `count` floats of 4 or 8 `bytes`
and returns 0; anything else ends the function. `number` counts the sums of the function, from 0 in
their order. So compiled code knows no MPI.
"""

from __future__ import annotations

from graphc.artifacts import members
from graphc.backends.loops.control import offset
from graphc.backends.loops.values import I32, PTR, Val, constant, index
from graphc.backends.loops.writer import Writer

NO_SUM = constant(members.NO_SUM, I32)


def emit_all_reduce(code: Writer, adder: Val, number: int, data: Val, size: int, width: int) -> Val:
    """The status, 0 or `NO_SUM`, behind a sum of `size` bytes of floats of `width` bytes.

    adder   the address of the struct
    number  which of the function's sums it is
    """
    function = code.load(PTR, adder, 8)
    context = code.load(PTR, offset(code, adder, "i64", index(1)), 8)
    given = (context, constant(number, I32), data, index(size // width), constant(width, I32))
    (failed,) = code.invoke_for(function, given, (I32,))
    has_sum = code.compare("eq", failed, constant(0, I32))
    return code.select(has_sum, constant(0, I32), NO_SUM)
