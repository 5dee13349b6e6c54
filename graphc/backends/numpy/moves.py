"""A rearrangement as Python lines: a fill where it needs one, then an assignment per copy.

    np.copyto(y[:, 2:8:2], x[:, ::-1])

Axes of an array that follow one loop each are slices. Windows read their operand through a view
with strides; elements that are added go window offset by window offset.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.loops.affine import fill_of
from graphc.backends.numpy.kernel_text import ExtentText, shape_text
from graphc.backends.numpy.names import Names
from graphc.backends.numpy.text import Constants, Lines
from graphc.ir.codegen import AffineCopy, AffineIndex, StridedCopy
from graphc.ir.params import Params
from graphc.ir.types import Dim, TensorType
from graphc.support.diagnostics import InternalError

Array = tuple[str, TensorType]
"""The name of an array in the text, and its type."""


class MoveText:
    """Writes rearrangements; `extent` gives the text of a dim."""

    def __init__(
        self, extent: ExtentText, names: Names, constants: Constants, lines: Lines
    ) -> None:
        self._extent = extent
        self._names = names
        self._constants = constants
        self._lines = lines

    def write(
        self, how: StridedCopy, params: Params, operands: Sequence[Array], result: Array
    ) -> None:
        """The lines of one; operands and result are names of arrays with their types."""
        out, type = result
        fill = fill_of(how, params, type.dtype)
        if fill is not None:
            self._lines.add(f"{out}.fill({self._constants.number(fill, type.dtype)})")
        for copy in how.copies(params, [t for _, t in operands], type):
            if how.adds:
                self._sum(copy, result, operands[copy.operand])
            else:
                self._copy(copy, result, operands[copy.operand])

    def _copy(self, copy: AffineCopy, out: Array, x: Array) -> None:
        target, order = self._part(out, copy.target, copy.box, {})
        if any(len(place.terms) > 1 for place in copy.source):
            source, walked = self._view(x[0], copy), list(range(len(copy.box)))
        else:
            source, walked = self._part(x, copy.source, copy.box, {})
        self._lines.add(f"np.copyto({target}, {_reordered(source, walked, order)})")

    def _sum(self, copy: AffineCopy, out: Array, x: Array) -> None:
        """Elements that meet differ in the later term of an axis, an offset in a window. Where the
        offset is larger the earlier term is smaller: the order of the box has it first."""
        if any(len(place.terms) > 2 for place in copy.target):
            raise InternalError(f"a sum over more than windows: {copy}")
        offsets = [dim for place in copy.target for dim, _ in place.terms[1:]]
        loops = {dim: self._names.fresh("offset") for dim in sorted(offsets)}
        for dim, name in loops.items():
            last = self._less_one(copy.box[dim])
            self._lines.add(f"for {name} in range({last}, -1, -1):")
            self._lines.indent()
        target, order = self._part(out, copy.target, copy.box, loops)
        source, walked = self._part(x, copy.source, copy.box, loops)
        self._lines.add(f"{target} += {_reordered(source, walked, order)}")
        for _ in loops:
            self._lines.dedent()

    def _part(
        self, array: Array, places: Sequence[AffineIndex], box: Sequence[Dim], loops: dict[int, str]
    ) -> tuple[str, list[int]]:
        """The part of an array that a box covers, and the dim of the box along each axis.

        `loops` names the indices of the dims whose loops the line stands in.
        """
        text, type = array
        flips = ["::-1" if place.backward else ":" for place in places]
        if "::-1" in flips:
            text += f"[{', '.join(flips)}]"
        parts: list[str] = []
        order: list[int] = []
        for place, whole in zip(places, type.dims, strict=True):
            fixed = [_scaled(loops[dim], step) for dim, step in place.terms if dim in loops]
            walked = [(dim, step) for dim, step in place.terms if dim not in loops]
            if not walked:
                parts.append(_total(*self._start(place.start, fixed)))
                continue
            ((dim, step),) = walked
            order.append(dim)
            is_whole = (place.start, fixed, box[dim], step) == (0, [], whole, 1)
            parts.append(":" if is_whole else self._range(place.start, fixed, box[dim], step))
        if any(part != ":" for part in parts):
            text += f"[{', '.join(parts)}]"
        return text, order

    def _less_one(self, dim: Dim) -> str:
        return str(dim - 1) if isinstance(dim, int) else f"{self._extent(dim)} - 1"

    def _start(self, start: Dim, fixed: Sequence[str]) -> tuple[int, list[str]]:
        """A number and the terms that are added to it."""
        return (start, [*fixed]) if isinstance(start, int) else (0, [*fixed, self._extent(start)])

    def _range(self, first: Dim, fixed: Sequence[str], dim: Dim, step: int) -> str:
        """The slice of `dim` elements; its stop is never negative, which counts from the end."""
        start, terms = self._start(first, fixed)
        if isinstance(dim, int):
            stop = _total(start + dim * step, terms)
        else:
            stop = _total(start, [*terms, _scaled(self._extent(dim), step)])
        bounds = f"{_total(start, terms)}:{stop}"
        return bounds if step == 1 else f"{bounds}:{step}"

    def _view(self, x: str, copy: AffineCopy) -> str:
        """The operand as an array of the box's shape."""
        if any(place.backward for place in copy.source):
            raise InternalError(f"windows that go backwards: {copy}")
        if any(place.start for place in copy.source):
            x = f"{x}[{', '.join(f'{self._extent(place.start)}:' for place in copy.source)}]"
        steps = self._names.fresh("steps")
        strides: list[list[str]] = [[] for _ in copy.box]
        for axis, place in enumerate(copy.source):
            for dim, step in place.terms:
                strides[dim].append(_scaled(f"{steps}[{axis}]", step))
        shape = shape_text(copy.box, self._extent)
        # Two at least, since two loops share an axis: the text is a tuple.
        distances = ", ".join(_total(0, terms) for terms in strides)
        view = self._names.fresh("view")
        self._lines.add(f"{steps} = {x}.strides")
        self._lines.add(f"{view} = np.lib.stride_tricks.as_strided(")
        self._lines.indent()
        self._lines.add(f"{x}, {shape}, ({distances})")
        self._lines.dedent()
        self._lines.add(")")
        return view


def _scaled(name: str, step: int) -> str:
    return name if step == 1 else f"{name} * {step}"


def _total(number: int, terms: Sequence[str]) -> str:
    return " + ".join([*terms, *([str(number)] if number or not terms else [])])


def _reordered(text: str, walked: list[int], wanted: list[int]) -> str:
    """The array, whose axes follow the dims `walked`, with axes that follow `wanted`."""
    if sorted(walked) != sorted(wanted):
        raise InternalError(f"a copy between axes that follow {walked} and {wanted}")
    if walked == wanted:
        return text
    return f"{text}.transpose({', '.join(str(walked.index(dim)) for dim in wanted)})"
