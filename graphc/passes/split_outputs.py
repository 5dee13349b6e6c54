"""Splits the outputs of a layer over the members of a training: each has some, for all samples.

    %z = matmul %h, %W {transpose_b = true} : tensor<NxVxf32>      %h [N, H], %W [V, H]
becomes, for `split-outputs{parameters = ["W"], member = 0, members = 2}`,
    %h.all = all_gather %h {members = 2, total = NALL} : tensor<NALLxHxf32>
    %z = matmul %h.all, %W {transpose_b = true} : tensor<NALLxV/2xf32>

It runs on a whole step, behind gradients and update. What depends on a split parameter is computed
for all members' samples and a part of the outputs; what folds the outputs (a softmax's maximum and
sum, a norm of the gradient) is folded over the members; a product that sums over them, the gradient
of what lies below, is added over the members, of which each takes its own samples. A gradient of
the split parameter is whole where it is made, so that `all_reduce` loses it, and its owner updates
it. Parameters that are added to the outputs are split with them.

Every value has up to three forms: `own`, as before, of this member's samples; `whole`, of all
members' samples; `part`, of those and a part of one axis. One is made of another where something
asks for it. What cannot be split is refused: the function computes the same or there is an error.
O(operations), once more for each parameter that is found to be split too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.clone import clone_shallow, empty_like
from graphc.ir.codegen import (
    Broadcast,
    Contraction,
    Elementwise,
    Extent,
    Fill,
    Position,
    Reduction,
    View,
)
from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, Operation, Trait, Value
from graphc.ir.dims import Dim, Symbol, bound_elements
from graphc.ir.types import TensorType
from graphc.ops.communication import (
    ALL_REDUCE,
    Fold,
    all_fold,
    all_gather,
    all_reduce,
    own_samples,
    reduce_scatter,
)
from graphc.ops.constant import ConstantParams, IotaParams, constant, iota
from graphc.ops.contraction import MatmulParams
from graphc.ops.elementwise import add
from graphc.ops.movement import TRANSPOSE, TransposeParams, reshape, slice_axis, transpose
from graphc.ops.reduction import ReduceParams, broadcast
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.member_place import SHARD

Form = int | None
"""The axis of a part; None for a whole."""


@dataclass(frozen=True)
class Part:
    """Which of so many outputs a member has."""

    member: int
    members: int

    def of(self, size: int) -> tuple[int, int]:
        """The first one, and the one behind the last."""
        return size * self.member // self.members, size * (self.member + 1) // self.members


class _AlsoSplit(Exception):
    """A parameter is updated by parts: it has to be split too."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def split_outputs(
    module: Module, function: Function, parameters: Sequence[str], part: Part
) -> tuple[Function, list[str]]:
    """A function whose arguments of these names, and what a learner keeps of them, are parts, and
    the names of all arguments that are. GraphcError `not-supported`."""
    names = list(parameters)
    while True:
        try:
            splitting = _Splitting(function, names, part)
            made = splitting.made()
        except _AlsoSplit as more:
            names.append(more.name)
            continue
        known = {d.name for d in module.dims}
        module.dims.extend(d for d in splitting.totals.values() if d.name not in known)
        return made, splitting.arguments


class _Splitting:
    """One walk over a function."""

    def __init__(self, function: Function, names: Sequence[str], part: Part) -> None:
        self.old, self.part, self.names = function, part, names
        self.new = empty_like(function)
        self.b = IRBuilder(self.new.block)
        self.totals: dict[str, Symbol] = {}
        self.arguments: list[str] = []
        self._own: dict[Value, Value] = {}
        self._forms: dict[tuple[Value, Form], Value] = {}
        self._native: dict[Value, Form] = {}  # of values that are not `own` by nature
        self._uniform: set[Value] = set()  # the same on all members

    def made(self) -> Function:
        old = self.old
        for argument, role in zip(old.arguments, old.roles, strict=True):
            name = argument.name or ""
            is_split = self._is_split(name, role)
            type = argument.tensor
            if is_split:
                self._require_enough(name, type)
                type = type.with_dims(self._dims(type.dims, 0))
                self.arguments.append(name)
            value = self.new.add_argument(name, type, role)
            if is_split:
                self._native[argument], self._forms[argument, 0] = 0, value
            else:
                self._own[argument] = value
                is_kept = role == "state" and not argument.tensor.symbols()
                if is_kept or (role in ("parameter", "hyperparameter") and name != SHARD):
                    self._uniform.add(argument)
        for op in old.block:
            with self.b.at(op.location):
                if op.opdef.has(Trait.TERMINATOR):
                    self._return(op)
                elif op.opdef is ALL_REDUCE:
                    self._all_reduce(op)
                else:
                    self._operation(op)
                self._call(op)
        return self.new

    def _require_enough(self, name: str, type: TensorType) -> None:
        outputs = type.dims[0] if type.rank else "no"
        if not isinstance(outputs, int) or outputs < self.part.members:
            message = f"`{name}` has {outputs} outputs, too few for {self.part.members} members"
            raise fail("bad-option", message)

    def _is_split(self, name: str, role: str) -> bool:
        if role == "state":
            return any(name.endswith(f".{n}") for n in self.names)
        return role == "parameter" and name in self.names

    def _call(self, op: Operation) -> None:
        """New values are called as the old ones."""
        for value in op.results:
            made = self._own.get(value) or self._forms.get((value, self._native.get(value)))
            if made is not None and made.op is not None and not made.name:
                made.name, made.label = value.name, value.label

    # --- sizes -----------------------------------------------------------------------------------

    def _total(self, dim: Symbol) -> Symbol:
        """How many there are of all members."""
        if dim.name not in self.totals:
            name, members = f"{dim.name}ALL", self.part.members
            self.totals[dim.name] = Symbol(name, dim.bound * members)
        return self.totals[dim.name]

    def _dims(self, dims: Sequence[Dim], form: Form) -> tuple[Dim, ...]:
        made = [self._total(d) if isinstance(d, Symbol) else d for d in dims]
        if form is not None:
            size = dims[form]
            if not isinstance(size, int):
                raise self._refused("the samples are split already")
            start, stop = self.part.of(size)
            made[form] = stop - start
        return tuple(made)

    def _refused(self, why: str, op: Operation | None = None) -> GraphcError:
        where = ""
        if op is not None and op.results:
            node = op.location.node or op.results[0].called
            where = f" at `{node}` ({op.opdef.name})"
        named = ", ".join(f"`{n}`" for n in self.names)
        message = f"the outputs of {named} cannot be split over members: {why}{where}"
        return fail("not-supported", message)

    # --- forms -----------------------------------------------------------------------------------

    def _own_form(self, value: Value, op: Operation) -> Value:
        if value in self._own:
            return self._own[value]
        form = self._native[value]
        if form is not None:
            raise self._refused("it needs all of them together", op)
        symbols = value.tensor.symbols()
        if not symbols:
            raise self._refused("a sum over all samples meets one over a member's own", op)
        if value.tensor.dims[0] is not symbols[0] or len(symbols) != 1:
            raise self._refused("samples have to be along the first axis", op)
        whole = self._forms[value, None]
        self._own[value] = own_samples(self.b, whole, self.part.members, symbols[0])
        return self._own[value]

    def _form(self, value: Value, form: Form, reader: Operation) -> Value:
        """The whole, or a part of an axis, with all that has to be made for it."""
        work = [(value, form)]
        while work:
            wanted = work[-1]
            if wanted in self._forms:
                work.pop()
                continue
            missing = [n for n in self._needed(*wanted, reader) if n not in self._forms]
            if missing:
                work.extend(missing)
                continue
            self._forms[wanted] = self._make(*wanted, reader)
            work.pop()
        return self._forms[value, form]

    def _needed(self, value: Value, form: Form, reader: Operation) -> list[tuple[Value, Form]]:
        """The forms that this one is computed of; none where it is handed over."""
        native = self._native.get(value)
        if value in self._native and native is not None:
            raise self._refused("it reads them along another axis", reader)
        op = value.op
        if op is None or not self._is_computed(value, op, form):
            return []
        if isinstance(op.opdef.codegen, Broadcast):
            (x,) = op.operands
            grown = form is None or x.tensor.dims[form] != value.tensor.dims[form]
            return [(x, None if grown else form)]
        return [(x, form) for x in op.operands]

    def _is_computed(self, value: Value, op: Operation, form: Form) -> bool:
        """Whether it is computed again, of less than it has itself."""
        match op.opdef.codegen:
            case Fill():
                return len(op.params_as(ConstantParams).value) == 1
            case Position():
                axis = op.params_as(IotaParams).axis
                return not isinstance(value.tensor.dims[axis], Symbol)
            case Broadcast():
                return True
            case Elementwise():
                return form is not None or value in self._uniform
            case _:
                return False

    def _make(self, value: Value, form: Form, reader: Operation) -> Value:
        op, b = value.op, self.b
        dims = self._dims(value.tensor.dims, form)
        type = value.tensor.with_dims(dims)
        if op is not None and self._is_computed(value, op, form):
            made = [self._forms[n] for n in self._needed(value, form, reader)]
            match op.opdef.codegen:
                case Fill():
                    return constant(b, op.params_as(ConstantParams).value[0], type)
                case Position():
                    return self._positions(op.params_as(IotaParams).axis, value, form, type)
                case Broadcast():
                    return broadcast(b, made[0], dims)
                case _:
                    return b.emit(op.opdef, made, op.params).result
        if (value, None) in self._forms and form is not None:
            return slice_axis(b, self._forms[value, None], form, *self._bounds(value, form))
        symbols, own = value.tensor.symbols(), self._own[value]
        if not symbols:
            if value not in self._uniform:
                raise self._refused("they meet a number of a member's own samples", reader)
            return own if form is None else slice_axis(b, own, form, *self._bounds(value, form))
        if len(symbols) != 1 or value.tensor.dims[0] is not symbols[0] or form == 0:
            raise self._refused("samples have to be along the first axis", reader)
        columns = (0, 0) if form is None else self._bounds(value, form)
        if form is not None and value.tensor.rank != 2:
            raise self._refused("they meet what is no matrix", reader)
        return all_gather(b, own, self.part.members, self._total(symbols[0]), columns)

    def _positions(self, axis: int, value: Value, form: Form, type: TensorType) -> Value:
        made = iota(self.b, axis, type)
        if form is None or axis != form:
            return made
        return add(self.b, made, constant(self.b, self._bounds(value, form)[0], type))

    def _bounds(self, value: Value, axis: int) -> tuple[int, int]:
        size = value.tensor.dims[axis]
        assert isinstance(size, int)
        return self.part.of(size)

    # --- operations ------------------------------------------------------------------------------

    def _operation(self, op: Operation) -> None:
        native = {x: self._native[x] for x in op.operands if x in self._native}
        if not native:
            self._keep(op)
            return
        parts = {x: axis for x, axis in native.items() if axis is not None}
        match op.opdef.codegen:
            case Contraction() if parts:
                self._product(op, parts)
            case Elementwise() if parts:
                axes = set(parts.values())
                if len(axes) != 1:
                    raise self._refused("it reads them along two axes", op)
                self._again(op, axes.pop())
            case Elementwise() if self._meets_no_own(op):
                self._again(op, None)
            case Broadcast() | Reduction() | View():
                self._moved(op, native[op.operands[0]])
            case _ if op.opdef is TRANSPOSE:
                self._moved(op, native[op.operands[0]])
            case _:
                self._keep(op)

    def _meets_no_own(self, op: Operation) -> bool:
        return all(
            x in self._native or x in self._uniform or _is_number_of_samples(x) for x in op.operands
        )

    def _keep(self, op: Operation) -> None:
        """As it was, of this member's samples."""
        copy = clone_shallow(op)
        copy.set_operands(self._own_form(x, op) for x in op.operands)
        self.b.block.append(copy)
        self._own.update(zip(op.results, copy.results, strict=True))
        if self._is_uniform(op):
            self._uniform.update(op.results)

    def _is_uniform(self, op: Operation) -> bool:
        if not all(x in self._uniform for x in op.operands):
            return False
        match op.opdef.codegen:
            case Extent():
                return False
            case Position():
                axis = op.params_as(IotaParams).axis
                return not isinstance(op.result.tensor.dims[axis], Symbol)
            case Elementwise() | Broadcast() | Fill():
                return True
            case _:
                return not any(v.tensor.symbols() for v in (*op.operands, *op.results))

    def _become(self, op: Operation, form: Form, value: Value) -> None:
        self._native[op.result], self._forms[op.result, form] = form, value

    def _again(self, op: Operation, form: Form) -> None:
        operands = [self._form(x, form, op) for x in op.operands]
        self._become(op, form, self.b.emit(op.opdef, operands, op.params).result)

    def _moved(self, op: Operation, form: Form) -> None:
        """A broadcast, reduction, reshape or transposition of one operand."""
        (x,), b = op.operands, self.b
        value, dims = self._forms[x, form], op.result.tensor.dims
        match op.opdef.codegen:
            case Broadcast():
                self._become(op, form, broadcast(b, value, self._dims(dims, form)))
            case View():
                axis = form if form is None else self._axis_after(op, form)
                self._become(op, axis, reshape(b, value, self._dims(dims, axis)))
            case Reduction(scalar_op=by):
                made = b.emit(op.opdef, [value], op.params).result
                if form is not None and form in op.params_as(ReduceParams).axes:
                    self._become(op, None, self._folded(made, by))
                else:
                    self._become(op, form, made)
            case _:
                order = op.params_as(TransposeParams).permutation
                axis = form if form is None else order.index(form)
                self._become(op, axis, transpose(b, value, order))

    def _folded(self, value: Value, by: Fold) -> Value:
        if by == "add" and not value.tensor.symbols() and value.tensor.dtype.is_float:
            return all_reduce(self.b, [value], self.part.members)[0]
        return all_fold(self.b, value, self.part.members, by)

    def _axis_after(self, op: Operation, axis: int) -> int:
        """Where a reshape leaves the axis, which it may not join or cut."""
        before, after = op.operands[0].tensor.dims, op.result.tensor.dims
        count = bound_elements(before[:axis])
        for place, size in enumerate(after):
            if size == before[axis] and bound_elements(after[:place]) == count:
                return place
        raise self._refused("it joins them with others", op)

    def _product(self, op: Operation, parts: dict[Value, int]) -> None:
        x, y = op.operands
        params = op.params_as(MatmulParams)
        found = [(i, parts[v]) for i, v in enumerate((x, y)) if v in parts]
        roles = [_role(params, i, op.operands[i].tensor.rank, axis) for i, axis in found]
        (kind, place), *more = roles
        if more and (kind, *more) != ("inner", ("inner", place)):
            raise self._refused("two factors of a product have them", op)
        first = found[0][0]
        forms: list[Form] = [None, None]
        for index, axis in found:
            forms[index] = axis
        if not more and kind != "free":
            rank = op.operands[1 - first].tensor.rank
            forms[1 - first] = _axis(params, 1 - first, rank, kind, place)
        factors = [self._form(v, form, op) for v, form in zip((x, y), forms, strict=True)]
        made = self.b.emit(op.opdef, factors, op.params).result
        if kind != "inner":
            free = x.tensor.rank - params.batch - params.contract
            axis = place if kind == "batch" else params.batch + place + (free if first else 0)
            self._become(op, axis, made)
            return
        symbols = op.result.tensor.symbols()
        if not symbols:
            self._become(op, None, self._folded(made, "add"))
        elif len(symbols) == 1 and op.result.tensor.dims[0] is symbols[0]:
            self._own[op.result] = reduce_scatter(self.b, made, self.part.members, symbols[0])
        else:
            raise self._refused("samples have to be along the first axis", op)

    # --- what members add, and what they give ----------------------------------------------------

    def _all_reduce(self, op: Operation) -> None:
        """What is complete already is not added."""
        added = [x for x in op.operands if x not in self._native]
        sums = all_reduce(self.b, [self._own[x] for x in added], self.part.members) if added else []
        found = dict(zip(added, sums, strict=True))
        for x, result in zip(op.operands, op.results, strict=True):
            if x in found:
                self._own[result] = found[x]
                self._uniform.add(result)
                continue
            form = self._native[x]
            self._become_value(result, form, self._forms[x, form])

    def _become_value(self, value: Value, form: Form, made: Value) -> None:
        self._native[value], self._forms[value, form] = form, made

    def _return(self, op: Operation) -> None:
        values: list[Value] = []
        split = set(self.arguments)
        for info, value in zip(self.old.results, op.operands, strict=True):
            form = self._native.get(value)
            if info.updates in split:
                values.append(self._form(value, 0, op))
                continue
            if form is not None:
                argument = self.old.argument(info.updates or "")
                role = self.old.roles[argument.index] if argument is not None else ""
                if form == 0 and role == "parameter":
                    raise _AlsoSplit(info.name)
                raise self._refused(f"`{info.name}` would be split along its columns")
            if value in self._native:
                values.append(self._forms[value, None])
            else:
                values.append(self._own[value])
        copy = clone_shallow(op)
        copy.set_operands(values)
        self.b.block.append(copy)


def _is_number_of_samples(value: Value) -> bool:
    """Whether there is one number for each sample, which is sent to all sooner than waited for."""
    first, *others = value.tensor.dims or (1,)
    return isinstance(first, Symbol) and all(d == 1 for d in others)


def _role(params: MatmulParams, index: int, rank: int, axis: int) -> tuple[str, int]:
    """What an axis of a factor is: `batch`, `free` or `inner`, and the how manyth of these."""
    if axis < params.batch:
        return "batch", axis
    axis -= params.batch
    free = rank - params.batch - params.contract
    if params.transpose_a if index == 0 else not params.transpose_b:
        return ("inner", axis) if axis < params.contract else ("free", axis - params.contract)
    return ("free", axis) if axis < free else ("inner", axis - free)


def _axis(params: MatmulParams, index: int, rank: int, kind: str, place: int) -> int:
    """The axis of a factor with this role."""
    axes = {_role(params, index, rank, axis): axis for axis in range(rank)}
    return axes[kind, place]


@dataclass(frozen=True)
class SplitOutputs(Pass):
    """`parameters`: of the layer, the outputs along their first axis; `member` of `members` has
    its part of them."""

    name: ClassVar[str] = "split-outputs"
    summary: ClassVar[str] = "split a layer's outputs over the members of a training"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    parameters: tuple[str, ...] = ()
    member: int = 0
    members: int = 1

    def run(self, module: Module, context: Context) -> PassOutcome:
        part = Part(self.member, self.members)
        changed = False
        for index, function in enumerate(module.functions):
            if any(function.argument(name) is not None for name in self.parameters):
                module.functions[index], _ = split_outputs(module, function, self.parameters, part)
                changed = True
        return PassOutcome(changed)
