"""Rewriting by named patterns.

A `Pattern` is a name, the operation it starts from, and a function that looks at one operation and
either returns the values that stand for its results or None. The driver applies patterns until
nothing fires, with a worklist, a bound on steps, and a trace of what fired where. New operations
take the location of the one they replace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphc.ir.core import Block, IRBuilder, OpDef, Operation, Trait, Value
from graphc.ir.printer import print_operation
from graphc.support.diagnostics import InternalError

Rewrite = Callable[[IRBuilder, Operation], "Sequence[Value] | None"]


@dataclass(frozen=True)
class Pattern:
    """`rewrite` replaces an operation of kind `root` (of any kind for None)."""

    name: str
    root: OpDef | None
    rewrite: Rewrite


@dataclass(frozen=True, slots=True)
class Firing:
    """One application: which pattern, on which operation (as text)."""

    pattern: str
    operation: str


def apply_patterns(
    block: Block,
    patterns: Iterable[Pattern],
    *,
    max_steps_per_op: int = 32,
    trace: list[Firing] | None = None,
) -> int:
    """Apply `patterns` in `block` until none fires; the number of applications.

    Raises InternalError naming the patterns when the bound on steps is exceeded: two of them
    undo each other.
    """
    table: dict[OpDef | None, list[Pattern]] = {}
    for pattern in patterns:
        table.setdefault(pattern.root, []).append(pattern)
    work: dict[Operation, None] = dict.fromkeys(reversed(list(block)))
    budget = max_steps_per_op * (len(block) + 1)
    last: list[str] = []
    fired = 0
    while work:
        op, _ = work.popitem()
        if op.block is not block:
            continue
        if _is_dead(op):
            operands = op.operands
            op.erase()
            work.update(dict.fromkeys(_looks_new(operands)))
            continue
        pattern = _fire(op, [*table.get(op.opdef, ()), *table.get(None, ())], work, trace)
        if pattern is None:
            continue
        fired += 1
        last = [*last[-3:], pattern.name]
        if fired > budget:
            raise InternalError(f"patterns do not come to rest: {', '.join(dict.fromkeys(last))}")
    return fired


def _fire(
    op: Operation,
    patterns: Sequence[Pattern],
    work: dict[Operation, None],
    trace: list[Firing] | None,
) -> Pattern | None:
    block = op.block
    assert block is not None
    for pattern in patterns:
        before, after = op.previous, op.next
        values = pattern.rewrite(IRBuilder.before(op), op)
        if values is None:
            continue
        if trace is not None:
            trace.append(Firing(pattern.name, print_operation(op)))
        touched = [*(u for v in op.results for u in v.users())]
        operands = op.operands
        op.replace_with(values)
        touched.extend(_looks_new((*operands, *values)))
        made = block.first if before is None else before.next
        while made is not after and made is not None:
            touched.append(made)
            made = made.next
        work.update(dict.fromkeys(touched))
        return pattern
    return None


def _looks_new(values: Iterable[Value]) -> Iterator[Operation]:
    """The operations to look at again once some of `values` have lost or gained a reader.

    Their makers may be dead; an only reader that is left may take over what it reads.
    """
    for value in values:
        if value.op is not None:
            yield value.op
        if len(value.uses) == 1:
            yield from value.users()


def _is_dead(op: Operation) -> bool:
    pure = op.opdef.has(Trait.PURE) and not op.opdef.has(Trait.TERMINATOR)
    return pure and not any(v.has_uses for v in op.results)
