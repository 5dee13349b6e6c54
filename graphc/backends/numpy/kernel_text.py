"""One `kernel` as Python: temporaries, the loop over blocks, a numpy call for each scalar op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graphc.backends.numpy.linear_kernel import (
    Constant,
    Dims,
    Fold,
    Index,
    Input,
    Item,
    Output,
    ScalarOp,
    Size,
    operands_of,
    record,
)
from graphc.backends.numpy.names import Names
from graphc.backends.numpy.scalars import Recorder, callee, extra_operand, is_helper
from graphc.backends.numpy.schedule import Phase, Register, Schedule, ToResult, schedule
from graphc.backends.numpy.text import Constants, Lines, dtype_text, number_text
from graphc.ir.core import Operation
from graphc.ir.placement import AddressKind
from graphc.ir.types import Dim, TensorType, bound_of
from graphc.ops.parts import Part

ExtentText = Callable[[Dim], str]

CHAIN = 256
"""Numbers that are added one after the other, at most: errors of sums grow with these."""

_FOLDS = {"add": "np.add", "maximum": "np.maximum", "minimum": "np.minimum"}


@dataclass(frozen=True)
class Buffer:
    """An array of the emitted function: its name, and the memory it is in.

    `index` is the offset in the arena, or the number of the argument or result; `type` is that of
    the value which the memory was made for (a view has the type of its source).
    """

    name: str
    kind: AddressKind
    index: int
    type: TensorType

    def overlaps(self, other: Buffer) -> bool:
        if self.kind != other.kind:
            return False
        if self.kind != "arena":
            return self.index == other.index
        return (
            self.index < other.index + other.type.bound_bytes
            and other.index < self.index + self.type.bound_bytes
        )


def shape_text(dims: Dims, extent: ExtentText) -> str:
    """The tuple of extents: `(N, 10)`, `(N,)`, `()`."""
    parts = [extent(d) for d in dims]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _is_number(item: Item) -> bool:
    """Whether the item's text is a number, without axes to fold along."""
    return isinstance(item, Size) or (isinstance(item, Constant) and len(item.values) == 1)


def _is_rounded(fold: Fold) -> bool:
    """Whether the order of additions shows in the result."""
    return fold.name == "add" and fold.dtype.is_float


class KernelText:
    """Writes one kernel. Loop-local names are `start` and `stop`; blocks of `x` are `x_block`."""

    def __init__(
        self,
        op: Operation,
        inputs: Sequence[Buffer],
        outputs: Sequence[Buffer],
        extent: ExtentText,
        names: Names,
        constants: Constants,
        lines: Lines,
    ) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._extent = extent
        self._names = names
        self._constants = constants
        self._lines = lines
        self._result_dims = [v.type.dims for v in op.results if isinstance(v.type, TensorType)]
        self._plan: Schedule = schedule(
            record(op, Recorder),
            self._result_dims,
            lambda r, i: outputs[r].overlaps(inputs[i]),
        )
        self._registers: list[str] = []
        self._blocks: dict[str, str] = {}
        self._leaves: dict[Item, str] = {}
        self._piles: dict[Item, str] = {}
        self.helpers: dict[str, None] = {}

    def write(self, scratch: int) -> int:
        """Write the lines; temporaries start at byte `scratch`. Returns the bytes they take."""
        plan, lines = self._plan, self._lines
        self._comment()
        used = self._define_registers(scratch)
        if plan.axis is None:
            self._phase(Phase.INSIDE)
            self._copies(plan.copies)
            return used
        inside = [c for c in plan.copies if plan.varies(c.item)]
        self._fixed_leaves()
        self._phase(Phase.BEFORE)
        if plan.steps(Phase.INSIDE) or inside:
            self._start_accumulators()
            extent = self._extent(plan.kernel.space[plan.axis])
            lines.add(f"for start in range(0, {extent}, {plan.rows}):")
            lines.indent()
            lines.add(f"stop = min(start + {plan.rows}, {extent})")
            self._shorten_registers()
            self._phase(Phase.INSIDE)
            self._copies(inside)
            lines.dedent()
            self._add_piles()
        self._phase(Phase.AFTER)
        self._copies([c for c in plan.copies if not plan.varies(c.item)])
        return used

    def _fixed_leaves(self) -> None:
        """Positions and sizes that all blocks share; defined even where the loop never turns."""
        items = [o for step in self._plan.kernel.steps for o in operands_of(step)]
        for item in [*items, *(o.item for o in self._plan.kernel.results)]:
            if isinstance(item, Index | Size) and not self._plan.varies(item):
                self._leaf(item)

    def _comment(self) -> None:
        made = ", ".join(o.name for o in self._outputs)
        read = ", ".join(dict.fromkeys(i.name for i in self._inputs))
        self._lines.add(f"# {made}" + (f" from {read}" if read else ""))

    # --- memory ------------------------------------------------------------------------------

    def _define_registers(self, scratch: int) -> int:
        used = 0
        for register in self._plan.registers:
            name = self._names.fresh(f"t{register.index}")
            self._registers.append(name)
            shape = shape_text(register.dims, self._extent)
            if self._is_blocked(register):
                shape = self._block_shape(register.dims, str(self._plan.rows))
            place = f"{dtype_text(register.dtype)}, arena, {scratch + used}"
            self._lines.add(f"{name} = np.ndarray({shape}, {place})")
            used += -(-self._plan.register_bytes(register) // 64) * 64
        return used

    def _is_blocked(self, register: Register) -> bool:
        return self._plan.axis is not None and register.dims[self._plan.axis] != 1

    def _block_shape(self, dims: Dims, rows: str) -> str:
        parts = [rows if i == self._plan.axis else self._extent(d) for i, d in enumerate(dims)]
        return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"

    def _shorten_registers(self) -> None:
        """The last block may have fewer rows."""
        blocked = [
            n
            for n, r in zip(self._registers, self._plan.registers, strict=True)
            if self._is_blocked(r)
        ]
        if not blocked:
            return
        self._lines.add(f"if stop - start < {self._plan.rows}:")
        self._lines.indent()
        for name in blocked:
            self._lines.add(f"{name} = {name}[{self._slice(': stop - start')}]")
        self._lines.dedent()

    def _start_accumulators(self) -> None:
        for step in self._plan.steps(Phase.INSIDE):
            if self._plan.accumulates(step):
                assert isinstance(step, Fold)
                self._lines.add(f"{self._whole(step)}.fill({number_text(step.identity)})")
                if _is_rounded(step):
                    self._piles[step] = self._names.fresh(f"{self._whole(step)}_parts")
                    self._lines.add(f"{self._piles[step]} = []")

    def _add_piles(self) -> None:
        for fold, parts in self._piles.items():
            total = self._whole(fold)
            self._lines.add(f"while {parts}:")
            self._lines.indent()
            self._lines.add(f"np.add({total}, {parts}.pop()[1], out={total})")
            self._lines.dedent()

    def _slice(self, rows: str) -> str:
        return ", ".join([":"] * (self._plan.axis or 0) + [rows])

    # --- operands ----------------------------------------------------------------------------

    def _text(self, item: Item) -> str:
        """The array or number that holds the item here."""
        match item:
            case Input():
                return self._seen(self._inputs[item.index].name, item, item.part)
            case Constant():
                return self._constant(item)
            case Index() | Size():
                return self._leaf(item)
            case _:
                return self._target(item)

    def _target(self, item: Item) -> str:
        spot = self._plan.spots[item]
        if isinstance(spot, ToResult):
            return self._seen(self._outputs[spot.index].name, item)
        return self._registers[spot.index]

    def _whole(self, item: Item) -> str:
        spot = self._plan.spots[item]
        if isinstance(spot, ToResult):
            return self._outputs[spot.index].name
        return self._registers[spot.index]

    def _seen(self, name: str, item: Item, part: Part | None = None) -> str:
        """The rows of this block, for what varies along the axis, of a part of an array."""
        if part is not None:
            ends = f"{part.start}:{part.start + part.extent}"
            name = f"{name}[{':, ' * part.axis}{ends}]"
        if not self._plan.varies(item):
            return name
        if name not in self._blocks:
            self._blocks[name] = self._names.fresh(f"{name.split('[')[0]}_block")
            self._lines.add(f"{self._blocks[name]} = {name}[{self._slice('start:stop')}]")
        return self._blocks[name]

    def _constant(self, item: Constant) -> str:
        if len(item.values) == 1:
            return self._constants.number(item.values[0], item.dtype)
        shape = [d for d in item.dims if isinstance(d, int)]
        return self._seen(self._constants.array(item.values, shape, item.dtype), item)

    def _leaf(self, item: Index | Size) -> str:
        if item not in self._leaves:
            if isinstance(item, Size):
                name = self._names.fresh("extent")
                value = f"{dtype_text(item.dtype)}({self._extent(item.of)})"
            else:
                name = self._names.fresh("index")
                value = self._index(item)
            self._lines.add(f"{name} = {value}")
            self._leaves[item] = name
        return self._leaves[item]

    def _index(self, item: Index) -> str:
        span = "start, stop" if self._plan.varies(item) else self._extent(item.dims[item.axis])
        steps = f"np.arange({span}).astype({dtype_text(item.dtype)})"
        shape: list[int] = [-1 if i == item.axis else 1 for i in range(len(item.dims))]
        return steps if len(shape) == 1 else f"{steps}.reshape({', '.join(map(str, shape))})"

    # --- steps -------------------------------------------------------------------------------

    def _phase(self, phase: Phase) -> None:
        for step in self._plan.steps(phase):
            if isinstance(step, ScalarOp):
                self._scalar_op(step)
            else:
                self._fold(step)

    def _scalar_op(self, scalar_op: ScalarOp) -> None:
        operands = [self._text(a) for a in scalar_op.args]
        if extra_operand(scalar_op):
            operands.append(extra_operand(scalar_op))
        target = self._target(scalar_op)
        function = callee(scalar_op)
        if is_helper(scalar_op):
            self.helpers[function] = None
        self._lines.add(f"{function}({', '.join([*operands, f'out={target}'])})")

    def _fold(self, fold: Fold) -> None:
        source = self._text(fold.source)
        if fold.source.dims != fold.over or _is_number(fold.source):
            blocked = self._plan.axis is not None and fold.over[self._plan.axis] != 1
            shape = (
                self._block_shape(fold.over, "stop - start")
                if blocked
                else shape_text(fold.over, self._extent)
            )
            source = f"np.broadcast_to({source}, {shape})"
        if self._is_long(fold):
            self.helpers["sum_over"] = None
            self._fold_part(fold, f"sum_over({source}, {fold.axes})")
            return
        ufunc = _FOLDS[fold.name]
        axes = str(fold.axes[0]) if len(fold.axes) == 1 else str(fold.axes)
        options = [source, f"axis={axes}", "keepdims=True"]
        if not fold.dtype.is_float:
            options.append(f"dtype={dtype_text(fold.dtype)}")  # numpy would widen a sum
        if fold.name != "add":
            options.append(f"initial={number_text(fold.identity)}")
        if self._plan.accumulates(fold):
            self._fold_part(fold, f"{ufunc}.reduce({', '.join(options)})")
            return
        options.append(f"out={self._target(fold)}")
        self._lines.add(f"{ufunc}.reduce({', '.join(options)})")

    def _is_long(self, fold: Fold) -> bool:
        """Whether numpy by itself would add many numbers one after the other."""
        longest = [
            self._plan.rows if axis == self._plan.axis else bound_of(fold.over[axis])
            for axis in fold.axes
            if axis < len(fold.over) - 1
        ]
        return _is_rounded(fold) and max(longest, default=0) > CHAIN

    def _fold_part(self, fold: Fold, part: str) -> None:
        """Put a fold, or that of a block, where it belongs."""
        ufunc = _FOLDS[fold.name]
        if not self._plan.accumulates(fold):
            self._lines.add(f"np.copyto({self._target(fold)}, {part})")
        elif fold in self._piles:
            self.helpers["pile"] = None
            self._lines.add(f"pile({self._piles[fold]}, {part})")
        else:
            total = self._whole(fold)
            self._lines.add(f"{ufunc}({total}, {part}, out={total})")

    # --- results that are not computed in place ------------------------------------------------

    def _copies(self, copies: Sequence[Output]) -> None:
        saved = {item: self._save(item) for item in self._overwritten(copies)}
        for copy in copies:
            item, target = copy.item, self._outputs[copy.index].name
            if self._plan.varies(item) or copy.part is not None:
                target = self._seen(target, item, copy.part)
            self._lines.add(f"np.copyto({target}, {saved.get(item) or self._text(item)})")

    def _overwritten(self, copies: Sequence[Output]) -> list[Item]:
        """Inputs to copy whose memory another of these copies writes."""
        return [
            copy.item
            for copy in copies
            if isinstance(copy.item, Input)
            and any(
                other.index != copy.index
                and self._outputs[other.index].overlaps(self._inputs[copy.item.index])
                for other in copies
            )
        ]

    def _save(self, item: Item) -> str:
        name = self._names.fresh("saved")
        self._lines.add(f"{name} = np.array({self._text(item)})")
        return name
