"""Which operations of a tensor-level block become one kernel, and in which order the steps run.

The facts only; `fuse_kernels.py` rewrites by them. Three kinds of operation:

  free      constants, positions, extents and broadcasts: repeated in every kernel that reads them,
            since making them again costs nothing and storing them costs memory traffic. One that
            something outside kernels reads (a product, a view, `return`) is computed once besides.
            Slices that kernels alone read, in place (`ops/parts.py`), if `parts` are asked for.
  computed  element-wise operations and reductions: each is in exactly one kernel. So is a `concat`
            of values that one kernel can make, if `parts` are asked for.
  single    everything else (products, transpositions, views, `return`): a step of its own.

Algorithm: one walk in program order puts each computed operation into the kernels of its
producers, merging them, as long as the kernel stays legal; otherwise it opens a new one. Each time
the bytes of the values read are saved. A second walk merges kernels that read the same full-size
value. A third moves operations towards the only kernel that reads them where that means fewer bytes
written and read: `y (1 - y)`, needed by a gradient, goes there if `y` is stored anyway.

Cycles are impossible because each step has a level and every edge between two steps rises: a kernel
may be lifted to a higher level while its readers are higher still (the check is one comparison per
reader, no search). Linear, but for a bounded amount of work per merge.

Legal kernels, beyond what `graphc/ops/kernel.py` asks for
  K1  at most `limit` operations in the body, one rank, one iteration space: in each dim the
      extents are equal or 1
  K2  a reduction reads the full iteration space
  K3  a reduction over anything but the innermost axis alone is read outside the kernel only
  K4  a value varies in leading dims only (`[N,1]` and `[1,1]` in a `[N,10]` kernel, not
      `[1,10]`), so it is computed once per turn of an outer loop and never again
  K5  a value that leaves the kernel and is no reduction is full in every dim but the innermost,
      and there too if its extent may be 0; so each element of it is written exactly once
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from graphc.ir.codegen import (
    FUSABLE,
    Broadcast,
    Elementwise,
    Extent,
    Fill,
    Position,
    Reduction,
)
from graphc.ir.core import Block, Operation, Value
from graphc.ir.types import Dim
from graphc.ops.parts import part_taken, parts_joined
from graphc.passes.analysis.costs import value_bytes
from graphc.passes.analysis.iteration import (
    dims_of,
    is_row_reduction,
    iteration_dims,
    merge_dims,
    varies_in_leading_dims,
)
from graphc.support.graphs import topological_order

MAX_FREE_CHAIN = 8
"""Broadcasts of broadcasts that are repeated; a longer chain is cut by computing one of them."""

MAX_READERS_TO_LIFT = 64
"""A kernel with more steps after it keeps its level: checking them all would not stay linear."""


@dataclass(frozen=True, slots=True)
class FusionGroups:
    """The steps of a block in the order they run, and what leaves the kernels.

    steps    members of a kernel in program order, or one single operation
    kernels  whether the step of the same index is a kernel
    free     operations that a kernel repeats when it reads them
    leaving  values computed in a kernel and read outside it
    """

    steps: tuple[tuple[Operation, ...], ...]
    kernels: tuple[bool, ...]
    free: frozenset[Operation]
    leaving: frozenset[Value]


@dataclass(eq=False, slots=True)
class _Group:
    """A step while it grows. A group merged into another one points to it by `into`."""

    level: int
    space: tuple[Dim, ...] | None  # None: no kernel
    members: list[Operation] = field(default_factory=list)
    cost: int = 0
    reduces: bool = False
    readers: dict[_Group, None] = field(default_factory=dict)
    apart: dict[_Group, None] = field(default_factory=dict)
    """Groups it reads a K3 value from."""
    into: _Group | None = None


def fusion_groups(block: Block, limit: int, *, parts: bool = True) -> FusionGroups:
    """Group the operations of `block`, at most `limit` to a kernel.

    parts  kernels read and write parts of arrays
    """
    grouping = _Grouping(block, limit, parts=parts)
    for op in block:
        if op in grouping.joining:
            grouping.place_joining(op)
        elif op in grouping.computed:
            grouping.place(op)
        elif op not in grouping.free:
            grouping.place_single(op)
    grouping.merge_siblings()
    grouping.move_to_readers()
    return grouping.finish()


class _Grouping:
    """The state of the two walks.

    joining  those that write parts, into whose kernel all of them have to go
    """

    def __init__(self, block: Block, limit: int, *, parts: bool) -> None:
        self._limit = limit
        self._group_of: dict[Operation, _Group] = {}
        self._groups: list[_Group] = []
        self._source: dict[Value, Value | None] = {}
        self._chain: dict[Value, int] = {}
        self.free: set[Operation] = set()
        self.computed: set[Operation] = set()
        self.joining: set[Operation] = set()
        self._position: dict[Operation, int] = {}
        for index, op in enumerate(block):
            self._position[op] = index
            if isinstance(op.opdef.codegen, FUSABLE):
                self._classify(op)
            elif parts:
                self._classify_part(op)
        self._readers: dict[Operation, list[Operation]] = {}
        for op in block:
            if op in self.computed or op not in self.free:
                for value in self._sources(op):
                    if value.op is not None:
                        self._readers.setdefault(value.op, []).append(op)

    # --- values behind free operations -----------------------------------------------------------

    def _classify(self, op: Operation) -> None:
        category = op.opdef.codegen
        behind: Value | None = None
        chain = 0
        if isinstance(category, Broadcast):
            behind = self._behind(op.operands[0])
            chain = self._chain.get(op.operands[0], 0) + 1
        is_free = isinstance(category, Broadcast | Fill | Position | Extent)
        if is_free and chain <= MAX_FREE_CHAIN:
            self.free.add(op)
            self._source[op.result] = behind
            self._chain[op.result] = chain
            if all(isinstance(user.opdef.codegen, FUSABLE) for user in op.result.users()):
                return
        self.computed.add(op)

    def _classify_part(self, op: Operation) -> None:
        if part_taken(op) and all(isinstance(u.opdef.codegen, FUSABLE) for u in op.result.users()):
            (x,) = op.operands
            if x.op not in self.free:
                self.free.add(op)
                self._source[op.result] = x
                self._chain[op.result] = 1
        elif parts_joined(op):
            made = [v.op for v in op.operands]
            if all(m in self.computed and _is_elementwise(m) for m in made):
                self.joining.add(op)

    def _behind(self, value: Value) -> Value | None:
        """The computed value or argument that `value` repeats; None for a constant."""
        return self._source.get(value, value)

    def _sources(self, op: Operation) -> Iterator[Value]:
        """What `op` reads from other steps; a single operation reads its operands as they are."""
        fusable = isinstance(op.opdef.codegen, FUSABLE)
        for value in op.operands:
            source = self._behind(value) if fusable else value
            if source is not None:
                yield source

    def _producers(self, op: Operation) -> dict[_Group, int]:
        """The groups that `op` reads from, and the bytes read from each."""
        read: dict[_Group, int] = {}
        for value in self._sources(op):
            if value.op is not None:
                group = self._find(value.op)
                read[group] = read.get(group, 0) + value_bytes(value)
        return read

    def _find(self, op: Operation) -> _Group:
        return _resolve(self._group_of[op])

    # --- the walk in program order ---------------------------------------------------------------

    def place_single(self, op: Operation) -> None:
        producers = self._producers(op)
        self._open(op, producers, None)

    def place_joining(self, op: Operation) -> None:
        """Into the kernel of its parts, if they can be in one."""
        producers = self._producers(op)
        if self._is_legal(list(producers), op, producers):
            self.computed.add(op)
            self.place(op)
        else:
            self.place_single(op)

    def place(self, op: Operation) -> None:
        producers = self._producers(op)
        candidates = [g for g in producers if g.space is not None]
        candidates.sort(key=lambda g: -producers[g])
        joined = self._choose(op, candidates, producers)
        if not joined:
            self._open(op, producers, iteration_dims(op))
            return
        group = self._merge(joined, self._level(joined, producers), op)
        group.members.append(op)
        group.cost += self._cost(op)
        group.reduces |= isinstance(op.opdef.codegen, Reduction)
        self._group_of[op] = group
        self._connect(op, group, producers)

    def _choose(
        self, op: Operation, candidates: list[_Group], producers: Iterable[_Group]
    ) -> list[_Group]:
        """All candidates if that is legal, otherwise as many as fit, the biggest saving first."""
        if candidates and self._is_legal(candidates, op, producers):
            return candidates
        joined: list[_Group] = []
        for group in candidates:
            if self._is_legal([*joined, group], op, producers):
                joined.append(group)
        return joined

    def _open(
        self, op: Operation, producers: Iterable[_Group], space: tuple[Dim, ...] | None
    ) -> None:
        group = _Group(self._level([], producers), space, [op], self._cost(op))
        group.reduces = isinstance(op.opdef.codegen, Reduction)
        self._groups.append(group)
        self._group_of[op] = group
        self._connect(op, group, producers)

    def _connect(self, op: Operation, group: _Group, producers: Iterable[_Group]) -> None:
        for producer in producers:
            other = _resolve(producer)
            if other is not group:
                other.readers[group] = None
        for value in self._sources(op):
            if value.op is not None and _is_result_only(value.op):
                group.apart[self._find(value.op)] = None

    def _cost(self, op: Operation) -> int:
        """Body operations: itself and the free ones it reads."""
        chains = (self._chain.get(v, 0) + 1 for v in op.operands if v in self._source)
        return 1 + sum(chains)

    @staticmethod
    def _level(joined: Sequence[_Group], producers: Iterable[_Group]) -> int:
        """The lowest level that is at least that of `joined` and above all other producers."""
        own = max((g.level for g in joined), default=1)
        return max([own, *(p.level + 1 for p in producers if p not in joined)])

    # --- what is legal ---------------------------------------------------------------------------

    def _is_legal(
        self, joined: Sequence[_Group], op: Operation | None, producers: Iterable[_Group]
    ) -> bool:
        """Whether `joined` and `op` may be one kernel."""
        own_cost = 0 if op is None else self._cost(op)
        if sum(g.cost for g in joined) + own_cost > self._limit:
            return False
        space = self._common_space(joined, op)
        if space is None or self._must_stay_apart(joined, op):
            return False
        level = self._level(joined, producers)
        if not all(_can_lift(g, level, joined) for g in joined):
            return False
        return self._parts_fit(joined, op, space)

    @staticmethod
    def _common_space(joined: Sequence[_Group], op: Operation | None) -> tuple[Dim, ...] | None:
        """K1 and K2."""
        parts = [g.space for g in joined if g.space is not None]
        fixed = [g.space for g in joined if g.reduces]
        if op is not None:
            parts.append(iteration_dims(op))
            if isinstance(op.opdef.codegen, Reduction):
                fixed.append(parts[-1])
        space: tuple[Dim, ...] | None = parts[0]
        for part in parts[1:]:
            space = None if space is None else merge_dims(space, part)
        return space if all(f == space for f in fixed) else None

    def _must_stay_apart(self, joined: Sequence[_Group], op: Operation | None) -> bool:
        """K3."""
        for group in joined:
            if any(_resolve(other) in joined for other in group.apart):
                return True
        if op is None:
            return False
        return any(
            v.op is not None and _is_result_only(v.op) and self._find(v.op) in joined
            for v in self._sources(op)
        )

    def _parts_fit(
        self, joined: Sequence[_Group], op: Operation | None, space: tuple[Dim, ...]
    ) -> bool:
        """K4 and K5; members of a group whose space stays the same have been checked before."""
        members = [m for g in joined if g.space != space for m in g.members]
        if op is not None:
            members.append(op)
        return all(self._fits(m, space, joined, op) for m in members)

    def _fits(
        self,
        member: Operation,
        space: tuple[Dim, ...],
        joined: Sequence[_Group],
        op: Operation | None,
    ) -> bool:
        if isinstance(member.opdef.codegen, Reduction):
            return True  # K2 has been checked
        dims = iteration_dims(member)
        if dims == space:
            return True
        if not varies_in_leading_dims(dims, space):
            return False
        if dims[:-1] == space[:-1] and isinstance(space[-1], int) and space[-1] > 0:
            return True
        return all(
            reader is op or (reader in self._group_of and self._find(reader) in joined)
            for reader in self._readers.get(member, ())
        )

    # --- merging ---------------------------------------------------------------------------------

    def _merge(self, joined: Sequence[_Group], level: int, op: Operation | None) -> _Group:
        space = self._common_space(joined, op)
        group = max(joined, key=lambda g: len(g.members))
        for other in joined:
            if other is group:
                continue
            group.members.extend(other.members)
            group.cost += other.cost
            group.reduces |= other.reduces
            group.readers.update(other.readers)
            group.apart.update(other.apart)
            other.into = group
        group.level = level
        group.space = space
        group.readers.pop(group, None)
        return group

    def merge_siblings(self) -> None:
        """Merge kernels of one level and space that read the same value at full size."""
        first: dict[tuple[Value, int, tuple[Dim, ...]], _Group] = {}
        for group in self._groups:
            if group.into is not None or group.space is None:
                continue
            for member in list(group.members):
                for value in self._sources(member):
                    here = _resolve(group)
                    assert here.space is not None
                    if value.op in self._group_of and self._find(value.op) is here:
                        continue
                    if dims_of(value) != here.space:
                        continue
                    other = _resolve(first.setdefault((value, here.level, here.space), here))
                    if other is not here and self._is_legal([other, here], None, ()):
                        self._merge([other, here], here.level, None)

    # --- moving operations to their readers -------------------------------------------------

    def move_to_readers(self) -> None:
        """Move what only one later kernel reads into that, where it saves memory traffic."""
        for group in self._groups:
            if group.into is not None or group.space is None:
                continue
            group.members.sort(key=self._position.__getitem__)
            for member in reversed(list(group.members)):
                moved = self._find(member) is not group  # with a later member
                target = None if moved else self._only_reader(member, group)
                if target is not None:
                    self._move(member, group, target)

    def _only_reader(self, member: Operation, group: _Group) -> _Group | None:
        """The one other kernel that reads the element-wise `member`; None for any other case."""
        if not isinstance(member.opdef.codegen, Elementwise):
            return None
        readers = {self._find(r) for r in self._readers.get(member, ())}
        if len(readers) != 1 or group in readers:
            return None
        (target,) = readers
        return target if target.space is not None else None

    def _move(self, member: Operation, group: _Group, target: _Group) -> None:
        cone = self._cone(member, group)
        cost = sum(self._cost(m) for m in cone)
        if cost + target.cost > self._limit or not self._cone_fits(cone, target):
            return
        moved = self._traffic_of_moving(cone, group, target)
        if moved is None or moved >= 2 * value_bytes(member.result):
            return
        group.members = [m for m in group.members if m not in cone]
        group.cost -= cost
        target.members.extend(cone)
        target.cost += cost
        self._group_of.update(dict.fromkeys(cone, target))

    def _cone(self, member: Operation, group: _Group) -> dict[Operation, None]:
        """`member`, and those before it in the group that nothing else reads."""
        cone = {member: None}
        before = group.members[: group.members.index(member)]
        for op in reversed(before):
            readers = self._readers.get(op, ())
            if isinstance(op.opdef.codegen, Elementwise) and all(r in cone for r in readers):
                cone[op] = None
        return cone

    @staticmethod
    def _cone_fits(cone: Iterable[Operation], target: _Group) -> bool:
        """K1 and K4; the space of `target` stays as it is, and nothing of the cone leaves it."""
        space = target.space
        assert space is not None
        dims = [iteration_dims(m) for m in cone]
        return all(merge_dims(d, space) == space and varies_in_leading_dims(d, space) for d in dims)

    def _traffic_of_moving(
        self, cone: dict[Operation, None], group: _Group, target: _Group
    ) -> int | None:
        """Bytes that are read and written more if `target` computes the cone; None if it cannot."""
        read = {v for m in target.members for v in self._sources(m)}
        traffic = 0
        for value in dict.fromkeys(v for m in cone for v in self._sources(m)):
            if value.op in cone:
                continue
            if value not in read:
                traffic += value_bytes(value)
            if value.op is None or self._find(value.op) is not group:
                continue
            if all(self._find(r) is group for r in self._readers[value.op]):
                if iteration_dims(value.op) != group.space:
                    return None  # K5
                traffic += value_bytes(value)
        return traffic

    # --- the result ------------------------------------------------------------------------------

    def finish(self) -> FusionGroups:
        groups = [g for g in self._groups if g.into is None and g.members]
        for group in groups:
            group.members.sort(key=self._position.__getitem__)
        groups.sort(key=lambda g: self._position[g.members[-1]])
        inputs: dict[_Group, dict[_Group, None]] = {}
        leaving: set[Value] = set()
        for group in groups:
            read = inputs[group] = {}
            for member in group.members:
                for value in self._sources(member):
                    if value.op is not None and (producer := self._find(value.op)) is not group:
                        read[producer] = None
                        leaving.add(value)
        order = topological_order(groups, lambda g: inputs[g])
        assert order is not None, "levels rise along every edge"
        return FusionGroups(
            tuple(tuple(g.members) for g in order),
            tuple(g.space is not None for g in order),
            frozenset(self.free),
            frozenset(leaving),
        )


def _resolve(group: _Group) -> _Group:
    root = group
    while root.into is not None:
        root = root.into
    while group.into is not None:  # shorten the way for the next look-up
        following = group.into
        group.into = root
        group = following
    return root


def _is_result_only(op: Operation) -> bool:
    if isinstance(op.opdef.codegen, Reduction):
        return not is_row_reduction(op)
    return bool(parts_joined(op))


def _is_elementwise(op: Operation | None) -> bool:
    return op is not None and isinstance(op.opdef.codegen, Elementwise)


def _can_lift(group: _Group, level: int, joined: Sequence[_Group]) -> bool:
    """Whether `group` may rise to `level`: its readers are higher, or merged with it."""
    if group.level == level:
        return True
    if len(group.readers) > MAX_READERS_TO_LIFT:
        return False
    return all(r.level > level or r in joined for r in map(_resolve, group.readers))
