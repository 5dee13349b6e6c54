"""Names with a wildcard: which nodes one means, and how names are carried over to another one.

    L1.*  with  L2.*     L1.W -> L2.W, L1.BFF.FF.T -> L2.BFF.FF.T
    *.W   with  *.V      L1.W -> L1.V

A pattern has one `*` at most, which stands for any text. With one, letters count as they are
written; a plain name is that of a node in any case, as everywhere else (the toolkit's rule). A node
whose name has a `*` itself, such as `W0*features`, is meant by just this name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphc.ir.core import Operation
from graphc.model.model import Model
from graphc.support.diagnostics import GraphcError, fail, suggestion
from graphc.support.source import UNKNOWN, Location

WILDCARD = "*"


@dataclass(frozen=True)
class Pattern:
    """`head*tail`, or the plain name `head` where `tail` is None."""

    head: str
    tail: str | None = None

    @property
    def has_wildcard(self) -> bool:
        return self.tail is not None

    def __str__(self) -> str:
        return self.head if self.tail is None else f"{self.head}{WILDCARD}{self.tail}"

    def middle(self, name: str) -> str | None:
        """What `*` stands for in this name, None if the name is not meant."""
        tail = self.tail or ""
        is_long = len(name) >= len(self.head) + len(tail)
        if is_long and name.startswith(self.head) and name.endswith(tail):
            return name[len(self.head) : len(name) - len(tail)]
        return None

    def filled(self, middle: str) -> str:
        """The name with this text for `*`."""
        return self.head if self.tail is None else f"{self.head}{middle}{self.tail}"


def parse_pattern(text: str, where: Location = UNKNOWN) -> Pattern:
    """The pattern that a text is; GraphcError `bad-value` for an empty one, or several `*`."""
    head, *rest = text.split(WILDCARD)
    if len(rest) > 1:
        message = f"a pattern has one `{WILDCARD}` at most, got {len(rest)} in `{text[:80]}`"
        raise fail("bad-value", message, where)
    if not text:
        raise fail("bad-value", "a name of at least one character is required", where)
    return Pattern(head, *rest)


def matching(model: Model, text: str, where: Location = UNKNOWN) -> list[Operation]:
    """The nodes that a pattern means, in the order of the network; `missing-node` for none."""
    op = model.find(text)
    if op is not None:
        return [op]
    pattern = parse_pattern(text, where)
    found = [op for op in model.graph.block if pattern.middle(op.result.name or "") is not None]
    if not found or not pattern.has_wildcard:
        raise no_node(model, text, where)
    return found


def no_node(model: Model, text: str, where: Location) -> GraphcError:
    """The error that no node is called so."""
    if WILDCARD in text:
        message = f"no node of the network is called as `{text}` says"
        return fail("missing-node", message, where)
    near = suggestion(text, [op.result.name or "" for op in model.graph.block])
    return fail("missing-node", f"the network has no node `{text}`{near}", where)


def carried_over(
    model: Model, old: str, new: str, where: Location = UNKNOWN
) -> list[tuple[Operation, str]]:
    """The nodes that `old` means, each with the name that `new` makes of its name.

    GraphcError `missing-node` for no node, `bad-value` where one has a wildcard and the other none.
    """
    nodes = matching(model, old, where)
    if model.find(old) is not None:
        if WILDCARD in new and WILDCARD not in old:
            message = f"`{new}` has a `{WILDCARD}`, so `{old}` needs one that it stands for"
            raise fail("bad-value", message, where)
        return [(nodes[0], new)]
    source, target = parse_pattern(old, where), parse_pattern(new, where)
    if not target.has_wildcard:
        message = f"`{old}` may be several nodes, so their new names need a `{WILDCARD}`, "
        raise fail("bad-value", f"{message}got `{new}`", where)
    middles = [source.middle(op.result.name or "") or "" for op in nodes]
    return [(op, target.filled(m)) for op, m in zip(nodes, middles, strict=True)]


def by_name(nodes: Iterable[Operation]) -> dict[str, Operation]:
    """Nodes by their names in lower case."""
    return {(op.result.name or "").lower(): op for op in nodes}
