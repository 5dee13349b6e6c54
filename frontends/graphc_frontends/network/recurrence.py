"""Methods that make nodes which look along time, and the forward references that close cycles.

A cycle needs a node that is read before it is made. A delay made without a node is that: it stands
for an earlier value from then on, and `bind` says of what.

    before = net.past_value(32)
    h = before.bind(net.tanh(W @ x + R @ before + b))

Binding was chosen over a block (`with net.recurrence():`) since a cycle is a property of the graph
and not of a stretch of code: the delay can be handed to a function that builds a cell, several
cycles may be open at once, and one that is forgotten is an error at the line that made it.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.support.diagnostics import fail
from graphc.support.source import UNKNOWN
from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode


class Recurrence(NetworkBase):
    """Delays."""

    def past_value(
        self,
        x: NetworkNode | int = 0,
        *,
        rows: int = 0,
        time_step: int = 1,
        default_hidden_activity: float = 0.1,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """X some steps earlier: the node, or a forward reference to be bound.

        x     the node; or the rows of one that is not made yet (0: those of the node that it is
              bound to), then `bind` has to follow: `h = before.bind(expression)`
        rows  what `x` has to have, 0 for whatever it has
        time_step                how many steps earlier, at least 1
        default_hidden_activity  the value where that is before the sequence
        """
        return self._delay("past_value", x, rows, time_step, default_hidden_activity, name, tag)

    def future_value(
        self,
        x: NetworkNode | int = 0,
        *,
        rows: int = 0,
        time_step: int = 1,
        default_hidden_activity: float = 0.1,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """X some steps later, else as `past_value`; the default value stands behind the end."""
        return self._delay("future_value", x, rows, time_step, default_hidden_activity, name, tag)

    def _delay(
        self,
        op: str,
        x: NetworkNode | int,
        rows: int,
        time_step: int,
        default_hidden_activity: float,
        name: str | None,
        tag: str | Sequence[str],
    ) -> NetworkNode:
        waits = isinstance(x, int) and not isinstance(x, bool)
        if not waits:  # no other number: it could be meant as rows or as a constant
            self._checked(op, UNKNOWN, x)
        settings = {
            "rows": rows or (x if waits else 0),
            "time_step": time_step,
            "default_hidden_activity": default_hidden_activity,
        }
        return self._add(op, None if waits else (x,), settings, name, tag)

    def _bind(self, delay: NetworkNode, x: NetworkNode) -> NetworkNode:
        """What `NetworkNode.bind` does."""
        location = self._checked("bind", UNKNOWN, delay, x)
        if delay.op not in ("past_value", "future_value"):
            message = f"bind requires a past_value or future_value, `{delay.name}` is {delay.op}"
            raise fail("argument-type", message, location)
        (source,) = delay.operation.operands
        if source is not delay.operation.result:
            message = f"`{delay.name}` is bound to `{source.name}` already"
            raise fail("bad-value", f"{message}; net.set_operand changes what it reads", location)
        if x is delay:
            message = f"bind requires another node than `{delay.name}` itself"
            raise fail("bad-value", message, location)
        self.set_operand(delay, 0, x)
        return x
