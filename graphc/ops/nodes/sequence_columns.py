"""Which columns of a minibatch of sequences are real, and which of them belong together.

A minibatch of S sequences side by side has T * S columns; column t S + s is step t of slot s. Two
tables [T, S] say where the sequence of each column begins and ends: its steps are begin, …,
end - 1. In a gap, a column without a sequence, begin is past the end. Sequences of any lengths may
follow each other in a slot, and one that begins before 0 goes on from the previous call.

Most nodes compute a column from the same column of what they read, and need none of this. One that
looks at other columns has a rule `expand_sequences`, which gets a `SequenceColumns`.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.codegen import Extent, Reduction
from graphc.ir.core import Function, IRBuilder, Operation, Value
from graphc.ir.dims import part_of, product_of
from graphc.ir.types import Dim, DType, Symbol, TensorType
from graphc.ops.constant import constant, extent, full_like, iota
from graphc.ops.elementwise import (
    GREATER_EQUAL,
    LESS,
    LOGICAL_AND,
    MINIMUM,
    add,
    cast,
    compare,
    maximum,
    mul,
    select,
    sub,
)
from graphc.ops.indexed import sparse_product
from graphc.ops.movement import reshape
from graphc.ops.reduction import broadcast, identity_of, reduce_sum

TIME_DIM = "T"
SEQUENCES_DIM = "S"
COLUMNS_DIM = "N"
SEGMENTS_DIM = "C"
_ONE = TensorType((1, 1), DType.I32)
BEGIN = "sequence.begin"
END = "sequence.end"


class SequenceColumns:
    """The layout of one function's minibatch; its tables are arguments of the function.

    carry    sequences go on from the call before: what its last steps left are arguments
    segment  if not 0, T is a multiple of it, and loops go through as many steps at a time
    carried  what the last steps of this call leave, by the names of those arguments
    """

    def __init__(
        self,
        function: Function,
        time: int,
        sequences: int,
        *,
        carry: bool = False,
        segment: int = 0,
    ) -> None:
        self.function = function
        self.carry = carry
        self.carried: dict[str, Value] = {}
        self.segment = segment
        self.time = Symbol(TIME_DIM, -(-time // segment) * segment if segment else time)
        self.segments = part_of(SEGMENTS_DIM, self.time, segment) if segment else None
        self.sequences = Symbol(SEQUENCES_DIM, sequences)
        self.columns = product_of(COLUMNS_DIM, (self.time, self.sequences))
        table = TensorType((self.time, self.sequences), DType.I32)
        self._begin = function.add_argument(BEGIN, table, "input")
        self._end = function.add_argument(END, table, "input")
        self._masks: dict[int, Value] = {}

    @property
    def dims(self) -> tuple[Symbol, Symbol, Symbol]:
        return self.time, self.sequences, self.columns

    def over_time(self, b: IRBuilder, x: Value) -> Value:
        """`x` [N, …] as [T, S, …]."""
        return reshape(b, x, (self.time, self.sequences, *x.tensor.dims[1:]))

    def as_columns(self, b: IRBuilder, x: Value) -> Value:
        """`x` [T, S, …] as [N, …]."""
        return reshape(b, x, (self.columns, *x.tensor.dims[2:]))

    def neighbour(self, b: IRBuilder, steps: int) -> Value:
        """i1[T, S, 1]: whether step t + `steps` is a step of the same sequence; 0: whether t is."""
        if steps not in self._masks:
            with b.at(b.location.within("sequence")):
                inside = self._is_inside(b, steps)
                self._masks[steps] = reshape(b, inside, (self.time, self.sequences, 1))
        return self._masks[steps]

    def _is_inside(self, b: IRBuilder, steps: int) -> Value:
        """i1[T, S] of `neighbour`."""
        table = self.table
        if steps == 0:
            return is_real(b, self._begin, self._end)
        if steps < 0:
            t = sub(b, iota(b, 0, table), constant(b, -steps, table))
            return compare(b, GREATER_EQUAL, t, self._begin)
        t = add(b, iota(b, 0, table), constant(b, steps, table))
        return compare(b, LESS, t, self._end)

    def left_behind(self, name: str, steps: int, type: TensorType) -> Value:
        """The value [S, rows] that a node had `steps` steps before this call's first one."""
        name = left_behind_name(name, steps)
        return self.function.argument(name) or self.function.add_argument(name, type, "carried")

    def masked(self, b: IRBuilder, x: Value, gap: float = 0) -> Value:
        """`x` [N, …] with `gap` in the gaps, whatever stood there; no gradient flows to a gap."""
        return select(b, self._real(b, x.tensor.dims), x, full_like(b, gap, x))

    def shifted(self, b: IRBuilder, x: Value, steps: int, default: float) -> Value:
        """For each column of `x` [N, rows] the one `steps` steps later in its sequence, or default.

        What a previous or next call has of the sequence is 0.
        """
        slots = mul(b, self._extent(b, self.sequences), constant(b, steps, _ONE))
        place = self._index_type(1)
        index = add(b, iota(b, 0, place), broadcast(b, slots, place.dims))
        inside = reshape(b, self.neighbour(b, steps), place.dims)
        inside = broadcast(b, inside, x.tensor.dims)
        return select(b, inside, self._columns_at(b, x, index), full_like(b, default, x))

    def reversed(self, b: IRBuilder, x: Value) -> Value:
        """`x` [N, rows] with the columns of each sequence the other way round."""
        first, end = self.span(b)
        time = iota(b, 0, self.table)
        mirrored = sub(b, sub(b, add(b, first, end), full_like(b, 1, time)), time)
        return self._columns_at(b, x, self.places(b, mirrored, 1))

    def span(self, b: IRBuilder) -> tuple[Value, Value]:
        """i32[T, S]: first step of the column's sequence in this call, and one past its last."""
        steps = broadcast(b, self._extent(b, self.time), self.table.dims)
        first = maximum(b, self._begin, full_like(b, 0, self._begin))
        return first, b.emit_one(MINIMUM, self._end, steps)

    def places(self, b: IRBuilder, steps: Value, count: int) -> Value:
        """i32[N, count]: the columns at `count` steps i32[T, S, …] of the slot; -1 in gaps."""
        type = TensorType((self.time, self.sequences, count), DType.I32)
        slots = broadcast(b, self._extent(b, self.sequences, 3), type.dims)
        steps = reshape(b, steps, type.dims)
        place = add(b, mul(b, steps, slots), iota(b, 1, type))
        real = broadcast(b, self.neighbour(b, 0), type.dims)
        place = select(b, real, place, full_like(b, -1, place))
        return reshape(b, place, self._index_type(count).dims)

    @property
    def table(self) -> TensorType:
        """i32[T, S]: one number for each column."""
        return self._begin.tensor

    def _index_type(self, count: int) -> TensorType:
        return TensorType((self.columns, count), DType.I32)

    def _columns_at(self, b: IRBuilder, x: Value, index: Value) -> Value:
        """The columns of `x` at index [N, 1], 0 where it is outside."""
        one = constant(b, 1.0, TensorType(index.tensor.dims, x.tensor.dtype))
        return sparse_product(b, one, x, index)

    def _extent(self, b: IRBuilder, dim: Symbol, rank: int = 2) -> Value:
        """The size of a dim, one i32; f64 holds every size exactly."""
        one = TensorType((1,) * rank, DType.F64)
        return cast(b, extent(b, dim, one), DType.I32)

    def mask_reductions(self, made: Sequence[Operation]) -> None:
        """Let the operations `made`, in order, see only real columns where they fold columns.

        Sums take gaps as 0, a maximum as -inf, and so on; the number of columns is that of the
        real ones.
        """
        for op in made:
            match op.opdef.codegen:
                case Reduction() as how if self._folds_columns(op):
                    x = op.operands[0]
                    at = IRBuilder.before(op)
                    type = x.tensor
                    real = self._real(at, type.dims)
                    rest = constant(at, identity_of(how, type.dtype), type)
                    op.set_operand(0, select(at, real, x, rest))
                case Extent() if getattr(op.params, "dim", None) == self.columns:
                    op.replace_with([self._count(IRBuilder.before(op), op)])
                case _:
                    pass

    def _folds_columns(self, op: Operation) -> bool:
        dims = op.operands[0].tensor.dims
        return any(dims[axis] == self.columns for axis in op.params.axes)  # type: ignore[attr-defined]

    def _real(self, b: IRBuilder, dims: Sequence[Dim]) -> Value:
        """i1 of `dims`, one of which is N: whether the column is real."""
        axis = list(dims).index(self.columns)
        shape: list[Dim] = [1] * len(dims)
        shape[axis] = self.columns
        with b.at(b.location.within("sequence")):
            return broadcast(b, reshape(b, self.neighbour(b, 0), shape), dims)

    def _count(self, b: IRBuilder, op: Operation) -> Value:
        type = op.result.tensor
        real = cast(b, reshape(b, self.neighbour(b, 0), (self.columns, 1)), type.dtype)
        return reshape(b, reduce_sum(b, real, (0, 1)), type.dims)


def count_columns(b: IRBuilder, end: Value, type: TensorType) -> Value:
    """How many columns are real, one number of `type`, by the table of the sequences' ends."""
    real = cast(b, compare(b, LESS, full_like(b, 0, end), end), type.dtype)
    return reshape(b, reduce_sum(b, real, (0, 1)), type.dims)


def is_real(b: IRBuilder, begin: Value, end: Value) -> Value:
    """i1[T, S]: whether a column belongs to a sequence, by the tables of those."""
    t = iota(b, 0, begin.tensor)
    after = compare(b, GREATER_EQUAL, t, begin)
    return b.emit_one(LOGICAL_AND, after, compare(b, LESS, t, end))


def left_behind_name(name: str, steps: int) -> str:
    """What the state of sequences calls the value of the node `name`, `steps` steps back."""
    return f"{name}.past{steps}"
