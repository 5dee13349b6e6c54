"""From a kernel's body to loop nests: axes merged, levels counted, sweeps and kept values planned.

In three steps: the body is read into items over the kernel's axes (`kernel_body.py`); results are
grouped by the space that they iterate over; each group becomes one nest. Linear in the body and the
number of levels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from graphc.ir.core import Operation
from graphc.ir.types import Dim, DType, bound_elements
from graphc.ops.epilogue import product_groups
from graphc.ops.parts import Part
from graphc.ops.schedules import NestSchedule, Schedule, nest_schedules, schedule_of
from graphc.passes.analysis.costs import formula_cost
from graphc.passes.analysis.kernel_body import (
    BodyItem,
    BodyRoot,
    KernelBody,
    read_body,
    walked_axes,
)
from graphc.passes.analysis.loopnest import (
    Apply,
    ArrayAccess,
    Chunking,
    Index,
    Keep,
    Load,
    Nest,
    Reduce,
    Rows,
    Size,
    Statement,
    Store,
    Sweep,
    Work,
)
from graphc.support.diagnostics import GraphcError, InternalError, fail

HEAVY = 4
"""From this weight on a value is kept for later sweeps rather than computed again."""

MAX_ROW_BYTES = 16384
"""Longest row that is kept in a buffer of its own."""

MAX_KEPT_BYTES = 32768
"""All such buffers of one nest together: they lie on the stack."""


def nests_of(kernel: Operation) -> tuple[Nest, ...]:
    """The loop nests of a `kernel` operation, in the order in which they have to run."""
    body = read_body(kernel)
    groups: dict[frozenset[int], list[BodyRoot]] = {}
    for root in body.roots:
        groups.setdefault(root.space, []).append(root)
    order = sorted(groups, key=lambda space: (-len(space), sorted(space)))
    schedule = schedule_of(kernel)
    given = nest_schedules(kernel.schedule)
    if given and len(given) != len(order):
        raise misfit(kernel, f"{len(order)} nests, got {len(given)}")
    wanted = given or [None] * len(order)
    made = [
        _Planner(body, space, groups[space], schedule, given=how)
        for space, how in zip(order, wanted, strict=True)
    ]
    try:
        return tuple(planner.nest() for planner in made)
    except NestMisfit as problem:
        raise misfit(kernel, str(problem)) from None


def misfit(op: Operation, what: str) -> GraphcError:
    """The error for a schedule of nests that does not fit the operation."""
    message = f"the schedule of `{op.opdef.name}` requires {what}"
    return fail("bad-schedule", message, op.location)


class NestMisfit(Exception):
    """What a schedule of a nest would have to have, and what it has."""


def epilogue_pitch(product: Operation) -> int:
    """Elements from row to row of a chunk of the product of a `gemm.fused`."""
    schedule = schedule_of(product)
    if schedule is not None and schedule.parallel == "cols":
        return schedule.chunk
    return bound_elements(product_groups(product).cols)


def epilogue_nest(product: Operation) -> Nest:
    """The nest of the body of a `gemm.fused`: rows and lanes, whatever their extents.

    Operand 0 is a chunk of the product, with rows at `epilogue_pitch`; the others are those behind
    the factors. It runs on rectangles, so nothing that it walks is merged with another.
    """
    body = read_body(product)
    rows = len(product_groups(product).rows)
    axes = sorted(body.extents)
    groups = [tuple(a for a in axes if a < rows), tuple(a for a in axes if a >= rows)]
    schedule = schedule_of(product)
    part = {} if schedule is None else {0 if schedule.parallel == "rows" else 1: schedule.chunk}
    given = next(iter(nest_schedules(product.schedule)), None)
    pitch = epilogue_pitch(product)
    planner = _Planner(body, frozenset(axes), body.roots, None, groups, part, pitch, given)
    try:
        return planner.nest()
    except NestMisfit as problem:
        raise misfit(product, str(problem)) from None


class _Planner:
    """Builds the nest of the roots that share one space.

    A space without the axis that is cut gives a nest of one piece.

    groups  the axes of each dim, where that is not for the planner to decide
    part    the most indices that one call computes of a dim
    pitch   elements from row to row of operand 0, where it is not a dense array
    given   how the nest is computed, where that was chosen before
    """

    def __init__(
        self,
        body: KernelBody,
        space: frozenset[int],
        roots: Sequence[BodyRoot],
        schedule: Schedule | None = None,
        groups: list[tuple[int, ...]] | None = None,
        part: Mapping[int, int] | None = None,
        pitch: int = 0,
        given: NestSchedule | None = None,
    ) -> None:
        self.body = body
        self.roots = roots
        self.part = part or {}
        self.pitch = pitch
        self.schedule = schedule if schedule is not None and schedule.parallel in space else None
        self.needed = _needed_items(body, roots)
        self.groups = self._merged(sorted(space)) if groups is None else groups
        self.given = given
        self.dim_of = {axis: d for d, group in enumerate(self.groups) for axis in group}
        self.lane = len(self.groups) - 1
        self.statements: list[Statement] = []
        self.stores: list[Store] = []

    def nest(self) -> Nest:
        if self.given is not None:
            self._take_loops(self.given)
        dims = tuple(Size.of(self.body.extents[a] for a in group) for group in self.groups)
        bounds = tuple(self._bound(group) for group in self.groups)
        self._write_statements()
        wanted = None if self.given is None else self.given.keep
        sweeps, keeps = _plan_sweeps(self.statements, self.stores, self.lane, bounds, wanted)
        heads, rows = _plan_rows(self.statements, self.stores, self.lane, len(sweeps))
        return Nest(
            dims,
            bounds,
            tuple(self._reach(d, bound) for d, bound in enumerate(bounds)),
            tuple(self.statements),
            tuple(self.stores),
            heads,
            rows,
            sweeps,
            keeps,
            self._cut(),
            tuple(self.groups),
        )

    def _take_loops(self, given: NestSchedule) -> None:
        """The loops that a schedule asks for: those of the planner, or these taken apart where
        nothing is folded."""
        widest, wanted = self.groups, list(given.loops)
        folded = frozenset[int]().union(*(self.body.items[n].reduced for n in self.needed))
        apart = [group for group in widest if group not in wanted]
        is_same = [a for g in wanted for a in g] == [a for g in widest for a in g]
        fits = is_same and all(any(set(g) <= set(w) for w in widest) and g for g in wanted)
        if not fits or any(folded & set(group) for group in apart) or (apart and self.pitch):
            shown = [list(group) for group in widest]
            raise NestMisfit(
                f"loops {shown} or these taken apart where nothing is folded, got "
                f"{[list(group) for group in wanted]}"
            )
        self.groups = wanted
        self.dim_of = {axis: d for d, group in enumerate(wanted) for axis in group}
        self.lane = len(wanted) - 1

    def _bound(self, axes: Iterable[int]) -> int:
        """The elements of these axes together, at most."""
        return bound_elements(self.body.extents[a] for a in axes)

    def _reach(self, dim: int, bound: int) -> int:
        if self.schedule is not None and self.groups[dim][0] == self.schedule.parallel:
            return min(bound, self.schedule.chunk * self._bound(self.groups[dim][1:]))
        return min(bound, self.part.get(dim, bound))

    def _cut(self) -> Chunking | None:
        if self.schedule is None:
            return None
        axis = self.schedule.parallel
        assert isinstance(axis, int)
        group = self.groups[self.dim_of[axis]]
        inner = Size.of(self.body.extents[a] for a in group[1:])
        extent = Size.of((self.body.extents[axis],))
        return Chunking(self.dim_of[axis], inner, extent, self.schedule.chunk)

    def _merged(self, axes: list[int]) -> list[tuple[int, ...]]:
        """Neighbouring axes that everything walks together, as groups; one begins where the work
        is cut, and where an array is of which a part is walked."""
        walked: list[frozenset[int]] = [walked_axes(root.type) for root in self.roots]
        parts = [self.body.items[n].part for n in self.needed] + [r.part for r in self.roots]
        cut = {part.axis for part in parts if part is not None}
        alone: set[int] = set()
        chunking = self.schedule.parallel if self.schedule is not None else -1
        for number in self.needed:
            item = self.body.items[number]
            if isinstance(item.work, Load):
                walked.append(item.axes)
            elif isinstance(item.work, Reduce):
                walked.append(item.reduced)
            elif isinstance(item.work, Index):
                alone.add(item.work.dim)
        groups: list[tuple[int, ...]] = []
        for axis in axes:
            before = groups[-1][-1] if groups else -1
            together = before >= 0 and all((before in w) == (axis in w) for w in walked)
            together &= not any(before < c <= axis for c in cut)
            if together and axis != chunking and not {before, axis} & alone:
                groups[-1] = (*groups[-1], axis)
            else:
                groups.append((axis,))
        return groups

    def _dims(self, axes: Iterable[int]) -> frozenset[int]:
        return frozenset(self.dim_of[a] for a in axes)

    def _access(self, access: ArrayAccess, dims: Sequence[Dim], part: Part | None) -> ArrayAccess:
        """`access` with its strides: the extents of the array's own dims further in.

        dims  those that are walked, of the array or of a part
        """
        whole = dims if part is None else part.whole.dims
        strides: list[Size | None] = [None] * len(self.groups)
        inner: list[Dim] = []
        for d in reversed(range(len(self.groups))):
            own = [whole[a] for a in self.groups[d] if dims[a] != 1]
            if own:
                strides[d] = Size.of(inner)
                inner.extend(own)
        offset = Size(0)
        if part is not None and part.start:
            offset = Size(part.start) * Size.of(whole[part.axis + 1 :])
        if self.pitch and (access.kind, access.index) == ("operand", 0) and strides[0] is not None:
            strides[0] = Size(self.pitch)
        return ArrayAccess(access.kind, access.index, access.dtype, tuple(strides), offset)

    def _write_statements(self) -> None:
        new: dict[int, int] = {}
        for number in self.needed:
            item = self.body.items[number]
            if isinstance(item.work, Reduce) and self._dims(item.reduced) != frozenset(
                (self.lane,)
            ):
                continue  # an outer reduction: part of its store
            new[number] = self._statement(item, tuple(new[a] for a in item.args))
        for root in self.roots:
            place = ArrayAccess("result", root.result, root.type.dtype, ())
            access = self._access(place, root.type.dims, root.part)
            if root.item in new:
                self.stores.append(Store(new[root.item], access))
            else:
                self.stores.append(self._combined(self.body.items[root.item], new, access))

    def _combined(self, item: BodyItem, new: dict[int, int], access: ArrayAccess) -> Store:
        """The store of an outer reduction; lanes that it folds too are folded first."""
        assert isinstance(item.work, Reduce)
        (arg,) = item.args
        if arg not in new:
            raise InternalError("a kernel uses the result of an outer reduction")
        value = new[arg]
        if self.lane in self._dims(item.reduced):
            value = self._statement(item, (value,))
        return Store(value, access, item.work)

    def _statement(self, item: BodyItem, args: tuple[int, ...]) -> int:
        work, dims, level = item.work, self._dims(item.axes), self._level(args)
        if isinstance(work, Load):
            work = Load(self._access(work.access, item.access_dims, item.part))
        elif isinstance(work, Index):
            work = Index(self.dim_of[work.dim])
        elif isinstance(work, Reduce):
            dims, level = frozenset(range(self.lane)), level + 1
        weight = _cost(work, args)
        below = item.is_below_maximum
        self.statements.append(
            Statement(work, args, item.dtype, dims, level, weight, below, item.source)
        )
        return len(self.statements) - 1

    def _level(self, args: tuple[int, ...]) -> int:
        return max((self.statements[a].level for a in args), default=0)


def _needed_items(body: KernelBody, roots: Sequence[BodyRoot]) -> list[int]:
    """The items that the roots depend on, in body order."""
    needed: set[int] = set()
    work = [root.item for root in roots]
    while work:
        number = work.pop()
        if number not in needed:
            needed.add(number)
            work.extend(body.items[number].args)
    return sorted(needed)


def _cost(work: Work, args: tuple[int, ...]) -> int:
    return formula_cost(work.rule, work.params, len(args)) if isinstance(work, Apply) else 1


def _plan_sweeps(
    statements: list[Statement],
    stores: list[Store],
    lane: int,
    bounds: Sequence[int],
    wanted: Sequence[int] | None,
) -> tuple[tuple[Sweep, ...], tuple[Keep, ...]]:
    """What each sweep computes, reads back and leaves for later ones.

    wanted  the operations whose values are kept, None: as it costs least
    """
    if lane < 0:
        return (), ()
    reduces = [i for i, s in enumerate(statements) if isinstance(s.work, Reduce)]
    level_of = [s.level for s in statements]
    in_lanes = [lane in s.dims for s in statements]
    lane_stores = [i for i, s in enumerate(stores) if lane in s.access.dims]
    levels = [level_of[i] - 1 for i in reduces] + [level_of[stores[i].value] for i in lane_stores]
    count = max(levels, default=-1) + 1

    keeps = _Keeps(statements, stores, lane_stores, count - 1, lane, bounds[lane], wanted)
    first: dict[int, int] = {}  # lane statement -> the sweep that computes it first
    sweeps: list[tuple[list[int], list[int], list[int], list[int]]] = []
    for sweep in range(count):
        folded = [i for i in reduces if level_of[i] - 1 == sweep]
        written = [i for i in lane_stores if level_of[stores[i].value] == sweep]
        pending = [statements[i].args[0] for i in folded] + [stores[i].value for i in written]
        reload: set[int] = set()
        compute: set[int] = set()
        while pending:
            number = pending.pop()
            if not in_lanes[number] or number in reload or number in compute:
                continue
            if number in first and keeps.place(number):
                reload.add(number)
            else:
                compute.add(number)
                pending.extend(statements[number].args)
        for number in compute:
            first.setdefault(number, sweep)
        sweeps.append((sorted(reload), sorted(compute), folded, written))

    kept = {keep.value for keep in keeps.chosen if keep.access not in _own_accesses(keep, stores)}
    planned = tuple(
        Sweep(
            tuple(reload),
            tuple(compute),
            tuple(n for n in compute if n in kept and first[n] == index),
            tuple(folded),
            tuple(written),
        )
        for index, (reload, compute, folded, written) in enumerate(sweeps)
    )
    return planned, tuple(keeps.chosen)


def _own_accesses(keep: Keep, stores: list[Store]) -> list[ArrayAccess]:
    """Results that hold exactly this value: keeping it there needs no extra write."""
    return [s.access for s in stores if s.value == keep.value and s.combine is None]


class _Keeps:
    """Decides once for each value whether and where it is kept."""

    def __init__(
        self,
        statements: list[Statement],
        stores: list[Store],
        lane_stores: list[int],
        last: int,
        lane: int,
        bound: int,
        wanted: Sequence[int] | None,
    ) -> None:
        self._wanted = wanted
        self.statements = statements
        self.chosen: list[Keep] = []
        self._decided: dict[int, bool] = {}
        self._bound = bound
        self._bytes = 0
        dims = frozenset(range(lane + 1))
        whole = [stores[i] for i in lane_stores if stores[i].access.dims == dims]
        self._whole = [s for s in whole if s.combine is None]
        self._last = [s for s in self._whole if statements[s.value].level == last]

    def place(self, number: int) -> bool:
        """Whether the value is kept; chooses the place when first asked."""
        if number not in self._decided:
            self._decided[number] = self._choose(number)
        return self._decided[number]

    def _choose(self, number: int) -> bool:
        statement = self.statements[number]
        is_wanted = self._wanted is not None and statement.source in self._wanted
        if not is_wanted if self._wanted is not None else statement.weight < HEAVY:
            return False
        own = next((s.access for s in self._whole if s.value == number), None)
        access = own or self._free_result(statement.dtype)
        if access is None:
            size = self._bound * statement.dtype.itemsize
            if size > MAX_ROW_BYTES or self._bytes + size > MAX_KEPT_BYTES:
                if is_wanted:
                    raise NestMisfit(
                        f"kept rows of at most {MAX_ROW_BYTES} bytes, {MAX_KEPT_BYTES} "
                        f"in all, got {size} for operation {statement.source}"
                    )
                return False
            self._bytes += size
        self.chosen.append(Keep(number, access))
        return True

    def _free_result(self, dtype: DType) -> ArrayAccess | None:
        """A result of this type that is written in the last sweep only, and not yet taken."""
        taken = {keep.access for keep in self.chosen}
        free = (s.access for s in self._last if s.access not in taken and s.access.dtype is dtype)
        return next(free, None)


def _plan_rows(
    statements: list[Statement], stores: list[Store], lane: int, sweeps: int
) -> tuple[tuple[tuple[int, ...], ...], tuple[Rows, ...]]:
    """Where each value without lanes is computed and each store without lanes happens."""
    depth_of_row = max(lane, 0)
    heads: list[list[int]] = [[] for _ in range(depth_of_row + 1)]
    compute: list[list[int]] = [[] for _ in range(sweeps + 1)]
    store: list[list[int]] = [[] for _ in range(sweeps + 1)]
    for number, statement in enumerate(statements):
        if lane in statement.dims or isinstance(statement.work, Reduce):
            continue
        if statement.level > 0:
            compute[statement.level].append(number)
        else:
            heads[max(statement.dims, default=-1) + 1].append(number)
    for number, written in enumerate(stores):
        if lane < 0 or lane not in written.access.dims:
            store[statements[written.value].level].append(number)
    rows = tuple(Rows(tuple(c), tuple(s)) for c, s in zip(compute, store, strict=True))
    return tuple(map(tuple, heads)), rows
