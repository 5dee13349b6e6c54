"""The statements of a loop nest at one place, as lines of C; the body of a product with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graphc.backends.cuda.kernel import size_text
from graphc.backends.cuda.module import C_TYPES, CudaModule
from graphc.backends.cuda.scalars import DeviceScalars
from graphc.backends.cuda.text import CudaCode
from graphc.backends.loops.values import I32, I64, LaneType, Val, constant, element_of, lane_type
from graphc.ir.types import DType, Symbol
from graphc.passes.analysis.loopnest import (
    Apply,
    ArrayAccess,
    ExtentOf,
    Index,
    Load,
    Nest,
    Number,
    Reduce,
    Size,
    Store,
)
from graphc.support.diagnostics import InternalError

ArrayKey = tuple[str, int]
"""The kind and number of an access."""


@dataclass(frozen=True)
class Names:
    """What the lines around call what a nest works on.

    arrays   pointers
    sizes    the sizes of dims of the call
    indices  of each dim of the nest
    integer  the type of sizes and indices: I32 or I64
    """

    arrays: Mapping[ArrayKey, str]
    sizes: Mapping[str, str]
    indices: Sequence[str]
    integer: LaneType = I64


class Element:
    """Writes values at the place that the indices name, each once, when it is first asked for.

    values  of statements, by their numbers; whoever puts some there has computed them otherwise
    """

    def __init__(self, nest: Nest, scalars: DeviceScalars, names: Names) -> None:
        self.nest = nest
        self.scalars = scalars
        self.names = names
        self.values: dict[int, Val] = {}

    def require(self, numbers: Iterable[int]) -> None:
        """Has these values, and all that they are made of, computed."""
        pending, needed = list(numbers), set[int]()
        while pending:
            number = pending.pop()
            if number not in needed and number not in self.values:
                needed.add(number)
                pending.extend(self.nest.statements[number].args)
        for number in sorted(needed):
            value = self._computed(number)
            self.values[number] = value
            if self.nest.statements[number].is_below_maximum:
                self.scalars.note_at_most_zero(value)

    def value(self, number: int) -> Val:
        self.require((number,))
        return self.values[number]

    def text(self, number: int) -> str:
        """The value of a statement as an operand of C."""
        return CudaCode.use(self.value(number))

    def place(self, access: ArrayAccess) -> str:
        """The number of the element in its array."""
        terms: list[str] = []
        for index, stride in zip(self.names.indices, access.strides, strict=True):
            if stride == Size():
                terms.append(index)
            elif stride is not None:
                terms.append(f"{index} * {size_text(stride, self.names.sizes)}")
        return " + ".join(terms) or "0"

    def there(self, access: ArrayAccess) -> str:
        """The element itself."""
        return f"{self.names.arrays[access.kind, access.index]}[{self.place(access)}]"

    def _computed(self, number: int) -> Val:
        statement = self.nest.statements[number]
        type_ = lane_type(element_of(statement.dtype))
        match statement.work:
            case Load(access):
                return self.scalars.thread.value(type_, self.there(access))
            case Apply(rule, params):
                return rule(self.scalars, params, *(self.values[a] for a in statement.args))
            case Number(value):
                return constant(value, type_)
            case Index(dim):
                return self._counted(self.names.indices[dim], statement.dtype)
            case ExtentOf(Symbol() as dim):
                return self._counted(self.names.sizes[dim.name], statement.dtype)
            case ExtentOf(int() as extent):
                return constant(extent, type_)
            case ExtentOf():
                raise InternalError("an extent is a number or a dim of the call")
            case Reduce():
                raise InternalError("a reduction is made by those who walk over what it folds")

    def _counted(self, name: str, dtype: DType) -> Val:
        return self.scalars.cast(Val(name, self.names.integer), dtype)


@dataclass(frozen=True)
class BodyText:
    """The body of a product, for its element in row `indices[0]` and column `indices[1]`.

    whole    lines for what is the same for all elements
    column   for what depends on the column alone
    row      for what depends on the row alone
    element  for the rest, and what stores results
    sums     the stores that sum over the rows, with the text of what the element adds to each

    Each part reads names of those before it, so they stand in that order or further out.
    """

    whole: list[str]
    column: list[str]
    row: list[str]
    element: list[str]
    sums: list[tuple[Store, str]] = field(default_factory=list)


def body_text(
    module: CudaModule, nest: Nest, names: Names, product: str, contraction: str
) -> BodyText:
    """The body of a product, from its `epilogue_nest`; `product`: what its element is called.

    Uses the header "words". Elements are read before those in the same place are written.
    """
    module.use("words")
    code = CudaCode(module)
    element = Element(nest, DeviceScalars(code, contraction=contraction), names)
    # The product stands innermost, also where its only row or column is the same for all.
    inner = set[int]()
    for number, statement in enumerate(nest.statements):
        work = statement.work
        if isinstance(work, Load) and (work.access.kind, work.access.index) == ("operand", 0):
            element.values[number] = Val(product, lane_type(element_of(statement.dtype)))
            inner.add(number)
        elif isinstance(work, Reduce) or not inner.isdisjoint(statement.args):
            inner.add(number)
    parts: list[list[str]] = []
    for dims in (frozenset[int](), frozenset((1,)), frozenset((0,))):
        element.require(
            n for n, s in enumerate(nest.statements) if s.dims == dims and n not in inner
        )
        parts.append(code.taken())
    sums = [(s, element.text(s.value)) for s in nest.stores if s.combine is not None]
    stores = [(s, element.text(s.value)) for s in nest.stores if s.combine is None]
    lines = [*code.taken(), *(f"{element.there(s.access)} = {text};" for s, text in stores)]
    whole, column, row = parts
    return BodyText(whole, column, row, lines, sums)


def integer_type(*bounds: int) -> LaneType:
    """What counts and addresses as many elements as the largest of these."""
    return I32 if max(bounds, default=0) < 2**31 else I64


def pointer_type(dtype: DType, *, is_written: bool) -> str:
    """`const float *`, or `float *` of what a kernel writes."""
    return f"{C_TYPES[dtype]} *" if is_written else f"const {C_TYPES[dtype]} *"
