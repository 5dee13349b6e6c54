"""Methods that make nodes which look along time."""

from __future__ import annotations

from frontends.network.base import NetworkBase
from frontends.network.node import NetworkNode


class Recurrence(NetworkBase):
    """Delays."""

    def past_value(
        self,
        x: NetworkNode | None = None,
        *,
        rows: int = 0,
        time_step: int = 1,
        default_hidden_activity: float = 0.1,
        name: str | None = None,
    ) -> NetworkNode:
        """X some steps earlier. Without `x`, bind it later: `net.set_operand(node, 0, x)`."""
        settings = {
            "rows": rows,
            "time_step": time_step,
            "default_hidden_activity": default_hidden_activity,
        }
        return self._add("past_value", (x,), settings, name, ())

    def future_value(
        self,
        x: NetworkNode | None = None,
        *,
        rows: int = 0,
        time_step: int = 1,
        default_hidden_activity: float = 0.1,
        name: str | None = None,
    ) -> NetworkNode:
        """X some steps later. Without `x`, bind it later: `net.set_operand(node, 0, x)`."""
        settings = {
            "rows": rows,
            "time_step": time_step,
            "default_hidden_activity": default_hidden_activity,
        }
        return self._add("future_value", (x,), settings, name, ())
