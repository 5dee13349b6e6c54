"""Copies of images with zeros around them, a column at a time, so that threads share the columns.

`padded_image.py` has memory for one image and copies images there in turns. Here every image has
its own, which several chunks of a convolution read.
"""

from __future__ import annotations

from graphc.backends.loops import memory
from graphc.backends.loops.control import add, loop_if_any, mul, offset, sub, when
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import I64, PTR, Val, element_of, index
from graphc.backends.loops.writer import ModuleWriter
from graphc.ir.machine import Machine
from graphc.passes.analysis.loopnest import Chunking, Size
from graphc.passes.analysis.window_products import Convolution

CHUNK_BYTES = 65536
"""Of columns that are copied together: some microseconds."""


def padding_chunks(what: Convolution) -> Chunking:
    """How the columns of all images are cut for threads."""
    columns = Size(what.images.factor * what.extents[0], what.images.symbols)
    length = max(1, CHUNK_BYTES // (what.column * what.dtype.itemsize))
    return Chunking(0, Size(), columns, length)


def emit_padding(module: ModuleWriter, machine: Machine, what: Convolution) -> str:
    """`@name` of `void (images, copies, sizes of what.symbols()…, begin, end)`, which makes the
    columns from `begin` to `end` of all copies."""
    code, element = module.body(), element_of(what.dtype)
    s, lanes = LaneScalars(code, has_fma=machine.has_fma), machine.lanes(what.dtype)
    columns, length = what.inner[0], what.inner[1] * what.channels
    above = what.low[1] * what.channels
    images, copies, begin, end = (
        Val("%a", PTR),
        Val("%b", PTR),
        Val("%begin", I64),
        Val("%end", I64),
    )
    with loop_if_any(code, begin, end, 1, []) as turn:
        assert turn is not None
        goal = offset(code, copies, element, mul(code, turn.index, index(what.column)))
        image = code.binary("udiv", turn.index, index(what.extents[0]))
        column = code.binary("urem", turn.index, index(what.extents[0]))
        column = sub(code, column, index(what.low[0]))
        # Columns before the image are large unsigned numbers.
        with when(code, code.compare("uge", column, index(columns)), []):
            memory.clear(s, goal, what.column, lanes, element)
        with when(code, code.compare("ult", column, index(columns)), []):
            place = add(code, mul(code, image, index(columns)), column)
            source = offset(code, images, element, mul(code, place, index(length)))
            memory.clear(s, goal, above, lanes, element)
            goal = offset(code, goal, element, index(above))
            memory.copy(s, goal, source, length, lanes, what.dtype)
            goal = offset(code, goal, element, index(length))
            memory.clear(s, goal, what.column - above - length, lanes, element)
    code.leave()
    sizes = [Val(f"%d{i}", I64) for i in range(len(what.symbols()))]
    return module.add("padding", [images, copies, *sizes, begin, end], code)
