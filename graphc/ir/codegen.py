"""Categories: what a backend has to know of an operation. Backends implement these, never op names.

Inside a kernel every value has the kernel's rank, with extent 1 in the dims it does not vary in,
so `Elementwise`, `Broadcast`, `Reduction`, `Fill`, `Position` and `Extent` need no index maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphc.ir.scalar import ScalarRule


@dataclass(frozen=True)
class Elementwise:
    """Each result element is `rule` of the operands' elements at the same place."""

    rule: ScalarRule


@dataclass(frozen=True)
class Broadcast:
    """Extent 1 repeated to the result's extent: the same element again, no work."""


@dataclass(frozen=True)
class Reduction:
    """Folds the dims in `params.axes` to extent 1 with `word`, starting from `identity`."""

    word: Literal["add", "maximum", "minimum"]
    identity: float


@dataclass(frozen=True)
class Fill:
    """A constant: `params.value` holds one element for all, or every element."""


@dataclass(frozen=True)
class Position:
    """Each element is its own index along `params.axis`."""


@dataclass(frozen=True)
class Extent:
    """One element: the size of the dimension `params.dim` in this call, as a number."""


@dataclass(frozen=True)
class View:
    """The same elements in the same order under another shape; no data moves."""


@dataclass(frozen=True)
class Permutation:
    """Dims reordered by `params.permutation`; data moves."""


@dataclass(frozen=True)
class Copy:
    """The same elements at another place in memory."""


@dataclass(frozen=True)
class Contraction:
    """Matrix product of two rank-2 operands with `params.transpose_a` and `transpose_b`."""


@dataclass(frozen=True)
class Structured:
    """An operation with regions (`kernel`, later `loop`, `if`); backends know each by itself."""


@dataclass(frozen=True)
class Terminator:
    """Ends a block and hands values out."""


@dataclass(frozen=True)
class NodeLevel:
    """A node: never reaches a backend, it is expanded first."""


Category = (
    Elementwise
    | Broadcast
    | Reduction
    | Fill
    | Position
    | Extent
    | View
    | Permutation
    | Copy
    | Contraction
    | Structured
    | Terminator
    | NodeLevel
)

FUSABLE = (Elementwise, Broadcast, Reduction, Fill, Position, Extent)
"""Categories that may stand inside a kernel."""
