"""Which operation of one function is which of another: what a comparison of the two stands on.

Operations that compute the same from the same arguments are pairs; then, from the results
backwards, those that the same becomes of; then neighbours of pairs. So what is between two edits
stays paired, however long it is. In graphs the nodes' names decide first. Nothing is paired twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from graphc.ir.core import Block, Function, Operation, RegionKind, Trait, Value
from graphc.ir.names import operands_of_arguments
from graphc.ir.params import print_params

Key = int
MOST_READERS = 64
"""Of a value by whose readers pairs are looked for: to read what everybody reads says little, and
looking through all of them for each of them takes the square of their number."""


@dataclass(eq=False)
class Pairing:
    """From the first function to the second."""

    operations: dict[Operation, Operation] = field(default_factory=dict)
    values: dict[Value, Value] = field(default_factory=dict)


def pair_functions(a: Function, b: Function) -> Pairing:
    """The pairs of two functions and of the bodies of their paired operations."""
    pairing = Pairing()
    for argument in a.arguments:
        other = b.argument(argument.name or "")
        if other is not None:
            pairing.values[argument] = other
    work = [(a.block, b.block)]
    results = ([r.name for r in a.results], [r.name for r in b.results])
    while work:
        left, right = work.pop()
        outermost = left is a.block
        _Blocks(left, right, pairing, results if outermost else None).pair(
            named=outermost and a.kind is RegionKind.GRAPH
        )
        for op in left:
            partner = pairing.operations.get(op)
            if partner is not None and op.regions and partner.regions:
                _pair_arguments(op, partner, pairing)
                work.append((op.regions[0].block, partner.regions[0].block))
    return pairing


def _pair_arguments(op: Operation, partner: Operation, pairing: Pairing) -> None:
    """Arguments stand for operands, so those of paired operands are pairs; then the rest in order.

    An operand that is read twice has two arguments: each is paired once.
    """
    operands = operands_of_arguments(op, op.regions[0])
    others = operands_of_arguments(partner, partner.regions[0])
    free = list(partner.regions[0].block.arguments)
    rest: list[Value] = []
    for argument in op.regions[0].block.arguments:
        wanted = pairing.values.get(operands[argument]) if argument in operands else None
        found = next((a for a in free if wanted is not None and others.get(a) is wanted), None)
        if found is None:
            rest.append(argument)
        else:
            free.remove(found)
            pairing.values[argument] = found
    for argument in rest:
        found = next((a for a in free if a.type == argument.type), None)
        if found is not None:
            free.remove(found)
            pairing.values[argument] = found


class _Blocks:
    """Two blocks whose arguments are paired already; `results` names the returned values."""

    def __init__(
        self,
        a: Block,
        b: Block,
        pairing: Pairing,
        results: tuple[Sequence[str], Sequence[str]] | None,
    ) -> None:
        self.a, self.b, self.pairing, self.results = a, b, pairing, results
        self.taken: set[Operation] = set()
        self.known: dict[Hashable, Key] = {}

    def pair(self, *, named: bool) -> None:
        if named:
            self._by_key(_name, _name)
        else:
            self._by_key(*self._forward())
            self._by_key(*self._backward())
            self._by_key(_name_and_kind, _name_and_kind)
        self._by_neighbours(same_kind=True)
        self._by_key(_name_and_types, _name_and_types)
        self._by_neighbours(same_kind=False)
        self._terminators()

    def _match(self, a: Operation, b: Operation) -> None:
        self.pairing.operations[a] = b
        self.taken.add(b)
        self.pairing.values.update(zip(a.results, b.results, strict=False))

    def _rest(self) -> tuple[list[Operation], list[Operation]]:
        left = [op for op in self.a if op not in self.pairing.operations]
        return left, [op for op in self.b if op not in self.taken]

    def _by_key(
        self,
        key_a: Callable[[Operation], Hashable | None],
        key_b: Callable[[Operation], Hashable | None],
    ) -> None:
        """Pair what is left and has the same key, the first with the first."""
        left, right = self._rest()
        waiting: dict[Hashable, list[Operation]] = defaultdict(list)
        for op in reversed(right):
            waiting[key_b(op)].append(op)
        for op in left:
            key = key_a(op)
            if key is not None and waiting.get(key):
                self._match(op, waiting[key].pop())

    # --- keys ------------------------------------------------------------------------------------

    def _number(self, what: Hashable) -> Key:
        return self.known.setdefault(what, len(self.known))

    def _forward(self) -> tuple[Callable[[Operation], Key], Callable[[Operation], Key]]:
        """What an operation computes, from the arguments on."""
        argument: dict[Value, Key] = {}
        for i, v in enumerate(self.a.arguments):
            argument[v] = self._number(("argument", i))
            if v in self.pairing.values:
                argument[self.pairing.values[v]] = argument[v]
        for i, v in enumerate(self.b.arguments):
            argument.setdefault(v, self._number(("other argument", i)))
        keys = {**self._computed(self.a, argument), **self._computed(self.b, argument)}
        return keys.__getitem__, keys.__getitem__

    def _computed(self, block: Block, known: dict[Value, Key]) -> dict[Operation, Key]:
        values = dict(known)
        keys: dict[Operation, Key] = {}
        for op in block:
            reads = tuple(values[v] for v in op.operands)
            keys[op] = self._number((*_own(op), reads, self._bodies(op)))
            for value in op.results:
                values[value] = self._number((keys[op], value.index))
        return keys

    def _bodies(self, op: Operation) -> tuple[Key, ...]:
        keys: list[Key] = []
        for region in op.regions:
            for block in region.blocks:
                inner = {v: self._number(("inner", i)) for i, v in enumerate(block.arguments)}
                keys.append(self._number(tuple(self._computed(block, inner).values())))
        return tuple(keys)

    def _backward(self) -> tuple[Callable[[Operation], Key], Callable[[Operation], Key]]:
        """What becomes of an operation's results, up to what is handed out."""
        names_a, names_b = self.results or ((), ())
        keys = {**self._becomes(self.a, names_a), **self._becomes(self.b, names_b)}
        return keys.__getitem__, keys.__getitem__

    def _becomes(self, block: Block, names: Sequence[str]) -> dict[Operation, Key]:
        keys: dict[Operation, Key] = {}
        for op in reversed(list(block)):
            uses: list[tuple[int, Key, Hashable]] = []
            for value in op.results:
                for user, place in value.uses:
                    slot = names[place] if place < len(names) and _returns(user) else str(place)
                    uses.append((value.index, keys[user], slot))
            keys[op] = self._number((*_own(op), tuple(sorted(uses, key=repr))))
        return keys

    # --- neighbours ------------------------------------------------------------------------------

    def _by_neighbours(self, *, same_kind: bool) -> None:
        """Pair what is left and reads, or is read by, pairs."""
        found = True
        while found:
            left, _ = self._rest()
            # Towards the results and back, so that one sweep follows a chain of any length.
            found = sum(self._nearest(op, same_kind) for op in [*left, *reversed(left)]) > 0

    def _nearest(self, op: Operation, same_kind: bool) -> bool:
        if op in self.pairing.operations:
            return False
        votes: dict[Operation, int] = defaultdict(int)
        for candidate, weight in [*self._readers(op), *self._makers(op, same_kind)]:
            votes[candidate] += weight
        fitting = {
            other: weight + _likeness(op, other)
            for other, weight in votes.items()
            if other not in self.taken and _may_pair(op, other, same_kind)
        }
        if not fitting:
            return False
        self._match(op, max(fitting, key=fitting.__getitem__))
        return True

    def _readers(self, op: Operation) -> Iterable[tuple[Operation, int]]:
        """What reads the partners of the values that `op` reads."""
        for index, value in enumerate(op.operands):
            partner = self.pairing.values.get(value)
            uses = partner.uses if partner is not None else ()
            for user, place in uses if len(uses) <= MOST_READERS else ():
                if user.block is self.b and (place == index or user.opdef.is_variadic):
                    yield user, 2

    def _makers(self, op: Operation, same_kind: bool) -> Iterable[tuple[Operation, int]]:
        """What makes the values that the partners of the readers of `op` read."""
        for value in op.results:
            for user, index in value.uses:
                partner = self.pairing.operations.get(user)
                if partner is None or index >= len(partner.operands):
                    continue
                if user.opdef.is_variadic and same_kind:
                    continue  # operands of these have no fixed places
                maker = partner.operands[index].op
                if maker is not None and maker.block is self.b:
                    yield maker, 3

    def _terminators(self) -> None:
        left, right = self.a.terminator, self.b.terminator
        if left is not None and right is not None and left not in self.pairing.operations:
            self._match(left, right)


def _own(op: Operation) -> tuple[Hashable, ...]:
    """What an operation says of itself; its places in memory depend on all others."""
    types = tuple(str(v.type) for v in op.results)
    return op.opdef.name, print_params(op.params), print_params(op.schedule), types


def _name(op: Operation) -> Hashable | None:
    return op.results[0].name if op.results else None


def _name_and_kind(op: Operation) -> Hashable | None:
    name = _name(op)
    return None if name is None else (op.opdef.name, name)


def _name_and_types(op: Operation) -> Hashable | None:
    name = _name(op)
    return None if name is None else (name, *(v.type for v in op.results))


def _returns(op: Operation) -> bool:
    return op.opdef.has(Trait.RETURN)


def _may_pair(op: Operation, other: Operation, same_kind: bool) -> bool:
    if op.opdef.has(Trait.TERMINATOR) or other.opdef.has(Trait.TERMINATOR):
        return False
    if same_kind:
        return op.opdef is other.opdef
    # One kind in place of another: it makes the same of something, and is not another node's.
    named = _name(op) is not None and _name(other) is not None
    return not named and [v.type for v in op.results] == [v.type for v in other.results]


def _likeness(op: Operation, other: Operation) -> int:
    same = sum(x == y for x, y in zip(_own(op), _own(other), strict=True))
    return same + (3 if _name(op) is not None and _name(op) == _name(other) else 0)
