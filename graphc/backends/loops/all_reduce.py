"""The calls for sums over members, of what the caller of an entry hands over for them, of which
`artifacts/members.py` has what files know:

    struct {
      int32_t (*all_reduce)(void *context, int64_t sum, void *data, int64_t count, int32_t bytes);
      void *context;
      int64_t rank, size;
      int32_t (*start)(void *context, int64_t sum, void *data, int64_t count, int32_t bytes);
      int32_t (*finish)(void *context, int64_t sum);
    }

`all_reduce` puts the sums of all members' arrays into an array of `count` floats of 4 or 8 `bytes`
and returns 0; anything else ends the function. `start` begins that, and `finish` returns when it is
done: in between nobody else reads or writes the array. `sum` is the number of the sum among those
of the function. So compiled code knows no MPI.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.artifacts import members
from graphc.backends.loops.control import offset
from graphc.backends.loops.values import I32, PTR, Val, constant, index
from graphc.backends.loops.writer import Writer

NO_SUM = constant(members.NO_SUM, I32)
ALL_REDUCE, CONTEXT = members.WORDS["all_reduce"], members.WORDS["context"]
START, FINISH = len(members.WORDS), len(members.WORDS) + 1
"""The words of the struct."""


def emit_sum(
    code: Writer, adder: Val, function: int, number: int, data: Val, size: int, width: int
) -> Val:
    """The status, 0 or `NO_SUM`, behind the sum of `size` bytes of floats of `width` bytes, or
    behind its start.

    adder     the address of the struct
    function  which one of it: ALL_REDUCE or START
    number    of the sum
    """
    given = (index(number), data, index(size // width), constant(width, I32))
    return _called(code, adder, function, given)


def emit_finish(code: Writer, adder: Val, number: int) -> Val:
    """The status behind a sum that was begun."""
    return _called(code, adder, FINISH, (index(number),))


def _called(code: Writer, adder: Val, word: int, given: Sequence[Val]) -> Val:
    function, context = (
        code.load(PTR, offset(code, adder, "i64", index(at)), 8) for at in (word, CONTEXT)
    )
    (failed,) = code.invoke_for(function, (context, *given), (I32,))
    has_sum = code.compare("eq", failed, constant(0, I32))
    return code.select(has_sum, constant(0, I32), NO_SUM)
