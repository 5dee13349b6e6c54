"""Operations, values, blocks, regions, functions, modules: the graph itself.

One `Operation` class serves all kinds; kinds differ by their `OpDef` record. Types, params,
locations and OpDefs are frozen, only the graph changes, and only through the methods here, which
keep every value's uses exact. The classes refer to each other, so they share one file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, TypeVar

import numpy as np

from graphc.ir.codegen import Category
from graphc.ir.params import NoParams, Params
from graphc.ir.placement import Address, Workspace
from graphc.ir.types import Symbol, TensorType, Type
from graphc.support.diagnostics import InternalError
from graphc.support.source import UNKNOWN, Location

Array = np.ndarray
P = TypeVar("P", bound=Params)


class Trait(Enum):
    """Yes/no facts that passes may rely on."""

    PURE = "no effect besides its results; may be merged, moved and removed"
    COMMUTATIVE = "its two operands may be exchanged"
    TERMINATOR = "ends its block"
    RETURN = "ends a function"
    ROOT = "kept even if nobody uses its result"
    LOOKS_AHEAD = "a node whose column may need later columns of its sequence"


class Level(Enum):
    """Which of the three levels an operation belongs to."""

    NODE = "node"
    TENSOR = "tensor"
    KERNEL = "kernel"


InferRule = Callable[[Sequence[Type], Any], Sequence[Type]]
Reference = Callable[..., Array | tuple[Array, ...]]
VjpRule = Callable[["IRBuilder", "Operation", "Value"], "Sequence[Value | None]"]
JvpRule = Callable[["IRBuilder", "Operation", "Sequence[Value | None]"], "Sequence[Value]"]
ExpandRule = Callable[..., "Value"]
RefineRule = Callable[[Sequence[Any], Any], Sequence[Any]]
RegionTypes = Callable[[Sequence["Region"], Any], Sequence[Type]]
CheckRule = Callable[["Operation"], "Iterable[str]"]
WorkspaceRule = Callable[["Operation"], "Sequence[TensorType]"]


class NotDifferentiable(Enum):
    """Why an operation has no vjp: the derivative is zero everywhere, or there is none."""

    ZERO = "piecewise constant: no gradient flows through it"
    NONE = "not differentiable"


@dataclass(frozen=True, eq=False)
class OpDef:
    """Everything the compiler knows of one kind of operation.

    name         text-form name; node ops start with `node.`
    summary      one sentence, for docs and messages
    operands     operand names for messages; a last name ending in `*` takes any number
    infer        (operand types, params) -> result types; raises TypeRuleError; verified against
    params       the class of its settings: what it computes
    schedule     the class of its schedule: how it is computed, which changes no result
    reference    numpy meaning: (params, *arrays) -> array (or tuple); never shared with `codegen`;
                 structured ops: (params, body, results, *arrays) -> tuple, where `body` runs the
                 region on arrays and `results` are zeros of the results' types
    typed_reference  node ops that have to know what their operands are images of: as `reference`,
                 with the operands' types between the params and the arrays
    codegen      category and its rule, what backends implement
    vjp          (builder, op, cotangent of the result) -> cotangent per operand (None: no gradient)
    jvp          (builder, op, tangent per operand (None: zero)) -> terms of the result's tangent;
                 required of every operation that has a vjp
    traits       facts for passes
    expand       node ops: emits the tensor ops that compute it
    expand_training  node ops that compute something else while they are trained: as `expand`, with
                 the training call in place of the element type (ops/nodes/training.py)
    draw         node ops that are random while they are trained: (builder, op, training call) ->
                 the numbers [N, rows] of all columns, a last operand of `expand_training`
    expand_sequences  node ops whose columns look at other columns: as `expand`, where columns are
                 steps of sequences, with their layout in place of the element type
                 (ops/nodes/sequence_columns.py)
    gap_values   node ops, and what they follow from: of each operand the value that is taken for it
                 where a gap between sequences lies, None as it is. Whatever stands in a gap could
                 overflow or be divided by, and 0 times infinity would reach a gradient as nan
    refine       node ops: operand types -> what they say about each operand's unknown sizes
    region_types structured ops: (regions, params) -> result types, in place of what `infer` returns
    check        rules beyond types (regions); yields messages
    workspace    the arrays that backends need besides operands and results to compute an operation
                 by its schedule; `plan-memory` places them, and no meaning depends on them
    constraints  numbered sentences that `infer` enforces
    equation     the mathematics, for docs
    source       where it is defined (book equation, paper)
    ndl          names of the function of NDL that takes the operands and settings as they are, the
                 one of messages first; from it front ends make the function and a method. For an
                 element-wise tensor operation the node is made too (ops/nodes/pointwise.py)
    array        name of the function of arrays that it is, `gc.NAME`
    origin       node ops of another distribution (ops/nodes/plugged.py): which one it is
    """

    name: str
    summary: str
    operands: tuple[str, ...]
    infer: InferRule
    codegen: Category
    vjp: VjpRule | NotDifferentiable
    params: type[Params] = NoParams
    schedule: type[Params] = NoParams
    reference: Reference | None = None
    typed_reference: Reference | None = None
    jvp: JvpRule | None = None
    traits: frozenset[Trait] = frozenset({Trait.PURE})
    level: Level = Level.TENSOR
    expand: ExpandRule | None = None
    expand_training: ExpandRule | None = None
    draw: ExpandRule | None = None
    expand_sequences: ExpandRule | None = None
    gap_values: tuple[float | None, ...] = ()
    refine: RefineRule | None = None
    region_types: RegionTypes | None = None
    check: CheckRule | None = None
    workspace: WorkspaceRule | None = None
    constraints: tuple[str, ...] = ()
    equation: str = ""
    source: str = ""
    ndl: tuple[str, ...] = ()
    array: str = ""
    origin: str = ""

    @property
    def is_variadic(self) -> bool:
        return bool(self.operands) and self.operands[-1].endswith("*")

    def accepts_count(self, count: int) -> bool:
        """Whether `count` operands are allowed."""
        if self.is_variadic:
            return count >= len(self.operands) - 1
        return count == len(self.operands)

    def operand_name(self, index: int) -> str:
        if self.is_variadic and index >= len(self.operands) - 1:
            return f"{self.operands[-1][:-1]}{index - len(self.operands) + 1}"
        return self.operands[index] if index < len(self.operands) else str(index)

    def has(self, trait: Trait) -> bool:
        return trait in self.traits

    def result_types(
        self, operands: Sequence[Type], params: Params, regions: Sequence[Region] = ()
    ) -> tuple[Type, ...]:
        """What the results must be; raises TypeRuleError when the operands do not fit."""
        inferred = self.infer(operands, params)
        return tuple(inferred if self.region_types is None else self.region_types(regions, params))

    def __repr__(self) -> str:
        return f"<OpDef {self.name}>"


class Value:
    """A typed result or block argument; knows every operand slot that reads it.

    name   the node's or the argument's, by which users and passes find it
    label  what the text calls it without a name, where `location.node` says less; for people alone
    """

    __slots__ = ("_uses", "index", "label", "name", "owner", "type")

    def __init__(self, type: Type, owner: Operation | Block, index: int, name: str | None) -> None:
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name
        self.label: str | None = None
        self._uses: dict[tuple[Operation, int], None] = {}

    @property
    def tensor(self) -> TensorType:
        """Its type, where only tensors come: everywhere but at the node level."""
        if isinstance(self.type, TensorType):
            return self.type
        raise InternalError(f"{self._described()} is a {self.type}, a tensor is required")

    @property
    def op(self) -> Operation | None:
        """The operation that makes it, None for a block argument."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def definition(self) -> Operation:
        """The operation that makes it, where no block argument can come."""
        if isinstance(self.owner, Operation):
            return self.owner
        raise InternalError(f"{self._described()} is made by no operation")

    @property
    def called(self) -> str:
        """What the text calls it, but for a suffix: `H1`, `H1.mul` for a part of H1, `mul`."""
        op = self.op
        if self.name or self.label or op is None:
            return self.name or self.label or "argument"
        node = op.location.node
        return f"{node}.{op.opdef.name}" if node else op.opdef.name

    def call_like(self, other: Value) -> None:
        """Take over what `other` is called, its name too."""
        self.name, self.label = other.name, other.called

    @property
    def uses(self) -> tuple[tuple[Operation, int], ...]:
        """(operation, operand index) of each read, in the order they were added."""
        return tuple(self._uses)

    @property
    def has_uses(self) -> bool:
        return bool(self._uses)

    def users(self) -> tuple[Operation, ...]:
        """The operations that read it, each once."""
        return tuple(dict.fromkeys(op for op, _ in self._uses))

    def replace_all_uses(self, new: Value) -> None:
        """Let every reader of this value read `new`."""
        for op, index in self.uses:
            op.set_operand(index, new)

    def _described(self) -> str:
        made_by = f"result {self.index} of {self.op.opdef.name}" if self.op else "a block argument"
        return f"%{self.name or '?'}, {made_by},"

    def __repr__(self) -> str:
        return f"<Value %{self.name or '?'}: {self.type}>"


class Operation:
    """One node of the IR. Create with `Block.append`/`IRBuilder.emit`, remove with `erase`.

    schedule   how it is computed; a pass that decides so replaces it
    placement  where each of the results lives; empty until `plan-memory`
    workspace  the arrays that it works in, and where they lie; empty until `plan-memory`
    """

    __slots__ = (
        "_next",
        "_operands",
        "_previous",
        "block",
        "location",
        "opdef",
        "params",
        "placement",
        "regions",
        "results",
        "schedule",
        "workspace",
    )

    def __init__(
        self,
        opdef: OpDef,
        operands: Iterable[Value],
        result_types: Iterable[Type],
        params: Params | None = None,
        *,
        regions: Iterable[Region] = (),
        schedule: Params | None = None,
        placement: Sequence[Address] = (),
        workspace: Sequence[Workspace] = (),
        location: Location = UNKNOWN,
        names: Sequence[str | None] = (),
    ) -> None:
        self.opdef = opdef
        self.params = params if params is not None else opdef.params()
        self.schedule = schedule if schedule is not None else opdef.schedule()
        self.placement = tuple(placement)
        self.workspace = tuple(workspace)
        self.location = location
        self.block: Block | None = None
        self._previous: Operation | None = None
        self._next: Operation | None = None
        self._operands: list[Value] = []
        for index, value in enumerate(operands):
            self._operands.append(value)
            value._uses[(self, index)] = None
        self.results = [
            Value(t, self, i, names[i] if i < len(names) else None)
            for i, t in enumerate(result_types)
        ]
        self.regions = list(regions)
        for region in self.regions:
            region.owner = self

    @property
    def operands(self) -> tuple[Value, ...]:
        return tuple(self._operands)

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def params_as(self, kind: type[P]) -> P:
        """Its params, of the class that the caller knows from its OpDef."""
        if isinstance(self.params, kind):
            return self.params
        raise InternalError(self._requires("params", kind, self.params))

    def schedule_as(self, kind: type[P]) -> P:
        """Its schedule, of the class that the caller knows from its OpDef."""
        if isinstance(self.schedule, kind):
            return self.schedule
        raise InternalError(self._requires("a schedule", kind, self.schedule))

    def _requires(self, what: str, kind: type[Params], given: Params) -> str:
        names = ", ".join(f"%{v.name or '?'}" for v in self.results)
        made = f"{self.opdef.name} that makes {names}" if names else self.opdef.name
        return f"{made} has {what} {type(given).__name__}, {kind.__name__} is required"

    @property
    def next(self) -> Operation | None:
        return self._next

    @property
    def previous(self) -> Operation | None:
        return self._previous

    def needed_workspace(self) -> tuple[TensorType, ...]:
        """The arrays that it works in by its schedule, whether or not they have a place yet."""
        rule = self.opdef.workspace
        return tuple(rule(self)) if rule is not None else ()

    def set_operand(self, index: int, value: Value) -> None:
        self._operands[index]._uses.pop((self, index))
        self._operands[index] = value
        value._uses[(self, index)] = None

    def set_operands(self, values: Iterable[Value]) -> None:
        """Replace the whole operand list."""
        self._drop_operands()
        for index, value in enumerate(values):
            self._operands.append(value)
            value._uses[(self, index)] = None

    def _drop_operands(self) -> None:
        for index, value in enumerate(self._operands):
            value._uses.pop((self, index))
        self._operands = []

    def replace_with(self, values: Sequence[Value]) -> None:
        """Let readers of its results read `values`, then erase it."""
        for old, new in zip(self.results, values, strict=True):
            if old.name is not None and new.name is None:
                new.name = old.name
            new.label = new.label or old.label
            old.replace_all_uses(new)
        self.erase()

    def erase(self) -> None:
        """Remove it from its block; its results must be unused."""
        for value in self.results:
            if value.has_uses:
                raise ValueError(f"{self.opdef.name} is still used and cannot be erased")
        self.drop_references()
        if self.block is not None:
            self.block.unlink(self)

    def drop_references(self) -> None:
        """Forget operands here and in nested regions, so that cyclic graphs can be erased."""
        work: list[Operation] = [self]
        while work:
            op = work.pop()
            op._drop_operands()
            for region in op.regions:
                work.extend(inner for block in region.blocks for inner in block)

    def __repr__(self) -> str:
        return f"<Operation {self.opdef.name}>"


class Block:
    """Operations in order (a doubly linked list) and the arguments they may read."""

    __slots__ = ("_count", "_first", "_last", "arguments", "region")

    def __init__(
        self, argument_types: Iterable[Type] = (), names: Sequence[str | None] = ()
    ) -> None:
        self.region: Region | None = None
        self._first: Operation | None = None
        self._last: Operation | None = None
        self._count = 0
        self.arguments: list[Value] = []
        for index, type in enumerate(argument_types):
            self.add_argument(type, names[index] if index < len(names) else None)

    def add_argument(self, type: Type, name: str | None = None) -> Value:
        value = Value(type, self, len(self.arguments), name)
        self.arguments.append(value)
        return value

    def __iter__(self) -> Iterator[Operation]:
        """The operations in order; the current one may be erased while iterating."""
        op = self._first
        while op is not None:
            following = op._next
            yield op
            op = following

    def __len__(self) -> int:
        return self._count

    @property
    def first(self) -> Operation | None:
        return self._first

    @property
    def last(self) -> Operation | None:
        return self._last

    @property
    def terminator(self) -> Operation | None:
        last = self._last
        return last if last is not None and last.opdef.has(Trait.TERMINATOR) else None

    @property
    def end(self) -> Operation:
        """The terminator of a block that is complete."""
        if (terminator := self.terminator) is not None:
            return terminator
        raise InternalError("the block has no terminator")

    def append(self, op: Operation) -> Operation:
        return self.insert_before(None, op)

    def insert_before(self, anchor: Operation | None, op: Operation) -> Operation:
        """Put `op` before `anchor`, at the end for None."""
        if op.block is not None:
            raise ValueError(f"{op.opdef.name} is already in a block")
        if anchor is not None and anchor.block is not self:
            raise ValueError(f"{anchor.opdef.name}, the place to insert at, is not in this block")
        previous = self._last if anchor is None else anchor._previous
        op.block, op._previous, op._next = self, previous, anchor
        if previous is None:
            self._first = op
        else:
            previous._next = op
        if anchor is None:
            self._last = op
        else:
            anchor._previous = op
        self._count += 1
        return op

    def unlink(self, op: Operation) -> Operation:
        """Take `op` out without touching its edges."""
        if op.block is not self:
            raise ValueError(f"{op.opdef.name} is not in this block")
        before, after = op._previous, op._next
        if before is None:
            self._first = after
        else:
            before._next = after
        if after is None:
            self._last = before
        else:
            after._previous = before
        op.block = op._previous = op._next = None
        self._count -= 1
        return op

    def reorder(self, order: Sequence[Operation]) -> None:
        """Put the block's operations, all of them, in this order."""
        complete = len(order) == self._count == len(set(order))
        if not complete or any(op.block is not self for op in order):
            raise ValueError("reorder needs exactly the block's operations")
        for op in order:
            self.unlink(op)
        for op in order:
            self.append(op)


class Region:
    """Blocks owned by an operation or a function."""

    __slots__ = ("blocks", "owner")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.owner: Operation | Function | None = None
        self.blocks: list[Block] = []
        for block in blocks:
            self.add_block(block)

    def add_block(self, block: Block) -> Block:
        block.region = self
        self.blocks.append(block)
        return block

    @property
    def block(self) -> Block:
        """The only block."""
        (block,) = self.blocks
        return block


class IRBuilder:
    """Emits operations before `anchor`, or at the end of `block`, at the current location.

    Result types are inferred, so an operation it emits fits its operands.
    """

    def __init__(self, block: Block, anchor: Operation | None = None) -> None:
        self.block = block
        self.anchor = anchor
        self.location: Location = UNKNOWN

    @staticmethod
    def before(op: Operation) -> IRBuilder:
        """A builder that inserts before `op` and uses its location."""
        if op.block is None:
            raise ValueError(f"{op.opdef.name} is in no block")
        builder = IRBuilder(op.block, op)
        builder.location = op.location
        return builder

    @contextmanager
    def at(self, location: Location) -> Generator[None]:
        """Operations emitted inside get this location."""
        saved, self.location = self.location, location
        try:
            yield
        finally:
            self.location = saved

    def emit(
        self,
        opdef: OpDef,
        operands: Iterable[Value] = (),
        params: Params | None = None,
        *,
        regions: Sequence[Region] = (),
        names: Sequence[str | None] = (),
    ) -> Operation:
        """Insert an operation. Raises TypeRuleError when its type rule refuses the operands."""
        values = list(operands)
        settings = params if params is not None else opdef.params()
        types = opdef.result_types([v.type for v in values], settings, regions)
        op = Operation(
            opdef, values, types, settings, regions=regions, location=self.location, names=names
        )
        return self.block.insert_before(self.anchor, op)

    def emit_one(
        self, opdef: OpDef, *operands: Value, params: Params | None = None, name: str | None = None
    ) -> Value:
        """Insert an operation with one result and return that."""
        return self.emit(opdef, operands, params, names=(name,)).result


class RegionKind(Enum):
    """GRAPH: no order, cycles allowed, names are node names. SSA: definition before use."""

    GRAPH = "graph"
    SSA = "func"


CONTRACTION_MODES = ("fma", "off", "tf32", "bf16")
ContractionMode = Literal["fma", "off", "tf32", "bf16"]
"""Whether native code may round a product and a sum once together, and the factors of matrix
products of f32 before: where a GPU is faster with fewer bits, or everywhere (docs/numerics.md)."""

LAUNCH_MODES = ("auto", "graph", "grid", "block")
LaunchMode = Literal["auto", "graph", "grid", "block"]
"""How a GPU runs a function: as many kernels, as one of many blocks, as one block (docs/gpu.md)."""

ArgumentRole = Literal[
    "input", "parameter", "transposed", "state", "hyperparameter", "carried", "kept"
]


@dataclass(frozen=True, slots=True)
class ResultInfo:
    """A result's name, and the argument whose memory it takes over (a learner's update)."""

    name: str
    updates: str | None = None


@dataclass(eq=False)
class Function:
    """A named region. A graph has no arguments and no results: its nodes are the network."""

    name: str
    kind: RegionKind
    body: Region = field(default_factory=lambda: Region([Block()]))
    roles: list[ArgumentRole] = field(default_factory=list)
    results: list[ResultInfo] = field(default_factory=list)
    location: Location = UNKNOWN
    arena: int | None = None  # bytes of scratch memory, set by plan-memory
    contraction: ContractionMode = "fma"
    launch: LaunchMode = "auto"

    def __post_init__(self) -> None:
        self.body.owner = self

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def arguments(self) -> list[Value]:
        return self.block.arguments

    def add_argument(self, name: str, type: Type, role: ArgumentRole) -> Value:
        self.roles.append(role)
        return self.block.add_argument(type, name)

    def argument(self, name: str) -> Value | None:
        return next((a for a in self.arguments if a.name == name), None)

    def drop_unread(self, arguments: Collection[Value]) -> None:
        """Take away those of its arguments that nothing reads."""
        kept = [a.index for a in self.arguments if a.has_uses or a not in arguments]
        self.roles[:] = [self.roles[i] for i in kept]
        self.block.arguments[:] = [self.arguments[i] for i in kept]
        for index, argument in enumerate(self.arguments):
            argument.index = index

    @property
    def returned(self) -> tuple[Value, ...]:
        """The values that the terminator hands out."""
        terminator = self.block.terminator
        return terminator.operands if terminator is not None else ()


class Module:
    """What is compiled: functions, and the bounded dimensions they share."""

    def __init__(self, functions: Iterable[Function] = (), dims: Iterable[Symbol] = ()) -> None:
        self.functions: list[Function] = list(functions)
        self.dims: list[Symbol] = list(dims)

    def function(self, name: str) -> Function | None:
        return next((f for f in self.functions if f.name == name), None)

    def __str__(self) -> str:
        from graphc.ir.printer import print_module  # the printer reads these classes

        return print_module(self)
