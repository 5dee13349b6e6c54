"""Where the time of calls goes: each operation of the kernel level with its work and its source.

A `Profile` in the options of a compilation makes the function note the time of every operation.
It then has one row for each: how often it ran, for how long, how much it computed and moved, and
the nodes and lines of the network that it came from.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphc.ir.codegen import FREE, Loop
from graphc.ir.core import Block, Function, Module, Operation, RegionKind
from graphc.ir.types import TensorType
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.nodes.layout import display_name
from graphc.passes.analysis.costs import Cost, walk_costs
from graphc.passes.loop_gradient import LABEL
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.signature import Signature
from graphc.support.source import Location, Span

if TYPE_CHECKING:
    from graphc.backends.base import Recorder

_NO_NAME = re.compile(r"(.*\.)?unnamed[0-9]+")


@dataclass(frozen=True)
class ProfileRow:
    """One operation in all calls. Of a loop the time that its body's operations do not take.

    operation  its name and extents, as `gemm N x 512 x 792`
    nodes      the nodes of the network that it computes, gradients `d.NAME`, or `update of`
               parameters; a node without a name is its function in a node that has one
    lines      where these stand in the source, as file:line
    depth      loops around it
    dtype      element type of its first result
    """

    operation: str
    nodes: tuple[str, ...]
    lines: tuple[str, ...]
    calls: int
    seconds: float
    cost: Cost
    depth: int
    dtype: str

    @property
    def label(self) -> str:
        """For a row of a table: the nodes if there are any."""
        return ", ".join(self.nodes) or self.operation


@dataclass(frozen=True)
class TraceEvent:
    """One execution. row: index among the profile's rows; None: a call of the whole function."""

    row: int | None
    start: float
    seconds: float


class Profile:
    """Collects the times of the functions that are compiled with it.

    keep_events  also when each operation ran, for a trace; of the first million
    """

    def __init__(self, *, keep_events: bool = False) -> None:
        self.keep_events = keep_events
        self.functions: list[ProfiledFunction] = []

    def add(
        self, compiled: CompiledFunction, recorder: Recorder, source: Source
    ) -> ProfiledFunction:
        """A function that was compiled for the profile."""
        made = ProfiledFunction(compiled, recorder, source)
        self.functions.append(made)
        return made

    def reset(self) -> None:
        """Forget all calls so far."""
        for f in self.functions:
            f.reset()

    @property
    def calls(self) -> int:
        return sum(f.calls for f in self.functions)

    @property
    def seconds(self) -> float:
        """Of all calls, in native code."""
        return sum(f.seconds for f in self.functions)

    def rows(self) -> list[ProfileRow]:
        """Of all functions that were called, one after the other."""
        return [row for f in self.functions if f.calls for row in f.rows()]

    def events(self) -> list[TraceEvent]:
        """By their start."""
        found: list[TraceEvent] = []
        first = 0
        for f in self.functions:
            if f.calls:
                found += f.events(first)
                first += len(f.recorder.operations)
        return sorted(found, key=lambda e: (e.start, -e.seconds))


@dataclass(frozen=True)
class Source:
    """What a profiled function was made of. network: the module with the nodes, if there is one."""

    function: Function
    signature: Signature
    network: Module | None = None


class ProfiledFunction(CompiledFunction):
    """A `CompiledFunction` that counts its calls."""

    def __init__(self, compiled: CompiledFunction, recorder: Recorder, source: Source) -> None:
        self.recorder = recorder
        self._compiled = compiled
        self._source = source
        self._sizes: Counter[tuple[tuple[str, int], ...]] = Counter()
        self._spans: list[tuple[int, int]] = []
        self._many = compiled.run_minibatches
        if self._many is not None:
            self.run_minibatches = self._run_minibatches

    def __call__(
        self,
        arguments: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        sizes: Mapping[str, int],
    ) -> None:
        """Run once; see `CompiledFunction`."""
        start = self.recorder.ticks()
        self._compiled(arguments, results, sizes)
        self._spans.append((start, self.recorder.ticks()))
        self._sizes[tuple(sizes.items())] += 1

    def _run_minibatches(
        self,
        arguments: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        order: np.ndarray,
        size: int,
        done: np.ndarray,
    ) -> None:
        """Run once for every minibatch; see `graphc.runtime.compiled.RunMinibatches`."""
        assert self._many is not None
        start = self.recorder.ticks()
        try:
            self._many(arguments, results, order, size, done)
        finally:
            self._spans.append((start, self.recorder.ticks()))
            (dim,) = self._source.signature.dims
            whole, rest = divmod(len(order), size)
            through = int(done[0])
            self._sizes[(dim.name, size),] += min(whole, through)
            if rest and through > whole:
                self._sizes[(dim.name, rest),] += 1

    def use_threads(self, threads: int) -> None:
        self._compiled.use_threads(threads)

    def add_over(self, communicator: Communicator) -> None:
        self._compiled.add_over(communicator)
        self.is_shared = True

    def reset(self) -> None:
        """Forget the calls so far."""
        self.recorder.reset()
        self._sizes.clear()
        self._spans.clear()

    @property
    def calls(self) -> int:
        return sum(self._sizes.values())

    @property
    def seconds(self) -> float:
        return sum(b - a for a, b in self._spans) * self.recorder.seconds_per_tick()

    def rows(self) -> list[ProfileRow]:
        """One for each operation that has a time, in the order of the function."""
        names = _names_by_place(self._source.network)
        work = self._work()
        per_tick = self.recorder.seconds_per_tick()
        ticks, calls = self.recorder.totals()
        around = _loops_around(self._source.function.block)
        own = dict(zip(self.recorder.operations, ticks.tolist(), strict=True))
        for op, taken in zip(self.recorder.operations, ticks.tolist(), strict=True):
            if around[op]:
                own[around[op][-1]] -= taken
        return [
            ProfileRow(
                describe(op),
                nodes_of(op, names, self._source.signature),
                lines_of(op),
                count,
                max(own[op], 0) * per_tick,
                work.get(op, Cost()),
                len(around[op]),
                _first_dtype(op),
            )
            for op, count in zip(self.recorder.operations, calls.tolist(), strict=True)
        ]

    def events(self, first_row: int) -> list[TraceEvent]:
        """The executions that were kept, rows counted from `first_row`, and the calls."""
        per_tick = self.recorder.seconds_per_tick()
        found = [TraceEvent(None, a * per_tick, (b - a) * per_tick) for a, b in self._spans]
        for row, start, stop in self.recorder.events().tolist():
            seconds = (stop - start) * per_tick
            found.append(TraceEvent(first_row + row, start * per_tick, seconds))
        return found

    def _work(self) -> dict[Operation, Cost]:
        """Of each operation in all calls."""
        total: dict[Operation, Cost] = {}
        for sizes, count in self._sizes.items():
            for op, times, one in walk_costs(self._source.function.block, dict(sizes)):
                total[op] = total.get(op, Cost()).plus(one.times(times * count))
        return total


def describe(op: Operation) -> str:
    """The operation's name and extents: of a product rows x columns x inner."""
    if isinstance(op.params, MatmulParams):
        a, b = (v.tensor for v in op.operands[:2])
        roles = groups(op.params, a, b)
        parts = ["*".join(map(str, d)) for d in (roles.rows, roles.cols, roles.inner)]
        batch = f"{'*'.join(map(str, roles.batch))} of " if roles.batch else ""
        return f"{op.opdef.name} {batch}{' x '.join(parts)}"
    if isinstance(op.opdef.codegen, Loop):
        return "loop"
    types = [v.type for v in (*op.results, *op.operands) if isinstance(v.type, TensorType)]
    largest = max(types, key=lambda t: t.bound_elements, default=None)
    extents = "x".join(map(str, largest.dims)) if largest is not None else ""
    return f"{op.opdef.name} {extents}".rstrip()


Names = Mapping[tuple[Span, ...], list[str]]


def nodes_of(op: Operation, names: Names, signature: Signature) -> tuple[str, ...]:
    """The nodes that an operation stands for: by where they were written, else what it updates; of
    a gradient what it is of."""
    if op.results and all(result.called.startswith(LABEL) for result in op.results):
        return tuple(dict.fromkeys(result.called for result in op.results))
    found: dict[str, None] = {}
    for location in _locations(op):
        for name in names.get(_place(location), ()):
            found[name] = None
    if not found:
        for place in op.placement:
            if place.kind == "argument" and place.index < len(signature.arguments):
                argument = signature.arguments[place.index]
                if argument.role == "parameter":
                    found[f"update of {argument.name}"] = None
    return tuple(found)


def lines_of(op: Operation) -> tuple[str, ...]:
    """file:line of every place that the operation came from, those of fused ones included."""
    spans = [location.span for location in _locations(op)]
    return tuple(dict.fromkeys(f"{s.file}:{s.line}" for s in spans if s is not None))


def _locations(op: Operation) -> list[Location]:
    """Of the operation, of those merged into it, and of those in a kernel's body."""
    if isinstance(op.opdef.codegen, Loop):
        return []
    inside = [inner for region in op.regions for inner in region.block]
    # Equal constants are one, wherever they were written.
    own = [op, *(inner for inner in inside if not isinstance(inner.opdef.codegen, FREE))]
    return [part for o in own for part in (o.location, *o.location.merged) if part.is_known]


def _place(location: Location) -> tuple[Span, ...]:
    """The text, and the macro calls around it."""
    assert location.span is not None
    return (location.span, *location.call_path())


def _names_by_place(network: Module | None) -> Names:
    """The names of a network's nodes by where they were written."""
    found: dict[tuple[Span, ...], list[str]] = {}
    functions = network.functions if network is not None else ()
    graphs = [f for f in functions if f.kind is RegionKind.GRAPH]
    for op in (op for f in graphs for op in f.block):
        if op.location.is_known and op.results:
            found.setdefault(_place(op.location), []).append(_shown_name(op))
    return found


def _shown_name(op: Operation) -> str:
    """The node's name; of one without, its function and the first named node that it is part of."""
    name = op.result.name or ""
    user, seen = op, {op}
    while _NO_NAME.fullmatch(user.result.name or "unnamed0"):
        users = [u for u in user.result.users() if u not in seen and u.results]
        if not users:
            return name
        user = users[0]
        seen.add(user)
    return name if user is op else f"{display_name(op.opdef)} in {user.result.name}"


def _loops_around(block: Block) -> dict[Operation, tuple[Operation, ...]]:
    """The loops around each operation, the innermost last."""
    found: dict[Operation, tuple[Operation, ...]] = {}
    pending: list[tuple[Block, tuple[Operation, ...]]] = [(block, ())]
    while pending:
        inside, loops = pending.pop()
        for op in inside:
            found[op] = loops
            if isinstance(op.opdef.codegen, Loop):
                pending.append((op.regions[0].block, (*loops, op)))
    return found


def _first_dtype(op: Operation) -> str:
    types = [v.type for v in op.results]
    return str(types[0].dtype) if types and isinstance(types[0], TensorType) else ""
