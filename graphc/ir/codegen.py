"""Categories: what a backend has to know of an operation. Backends implement these, never op names.

Inside a kernel every value has the kernel's rank, with extent 1 in the dims it does not vary in,
so `Elementwise`, `Broadcast`, `Reduction`, `Fill`, `Position` and `Extent` need no index maps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from graphc.ir.scalar import ScalarRule
from graphc.ir.types import Dim, TensorType


@dataclass(frozen=True)
class Elementwise:
    """Each result element is `rule` of the operands' elements at the same place."""

    rule: ScalarRule


@dataclass(frozen=True)
class Broadcast:
    """Extent 1 repeated to the result's extent: the same element again, no work."""


@dataclass(frozen=True)
class Reduction:
    """Folds the dims in `params.axes` to extent 1 with `scalar_op`, starting from `identity`."""

    scalar_op: Literal["add", "maximum", "minimum"]
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
class AffineIndex:
    """An index along one axis, as the index of a box decides it: start + Σ step · i[dim].

    terms     (dim of the box, step) pairs, steps above 0
    backward  counted from the axis's end: extent - 1 - (start + Σ step · i[dim])
    """

    start: Dim = 0
    terms: tuple[tuple[int, int], ...] = ()
    backward: bool = False


@dataclass(frozen=True)
class AffineCopy:
    """Elements of one operand to places of the result, over all indices of a box.

    box     the box's extents
    source  one `AffineIndex` per axis of the operand, target one per axis of the result
    """

    operand: int
    box: tuple[Dim, ...]
    source: tuple[AffineIndex, ...]
    target: tuple[AffineIndex, ...]


CopyRule = Callable[[Any, Sequence[TensorType], TensorType], Sequence[AffineCopy]]


@dataclass(frozen=True)
class StridedCopy:
    """Elements at other places, by affine copies.

    copies  (params, operand types, result type) -> the copies
    fill    params -> what elements have that no copy writes; None where all are written
    adds    elements that meet at one place are added, starting from 0, in the order of the box
    """

    copies: CopyRule
    fill: Callable[[Any], float] | None = None
    adds: bool = False


@dataclass(frozen=True)
class Copy:
    """The same elements at another place in memory."""


@dataclass(frozen=True)
class Contraction:
    """A product of matrices; `params` is a `MatmulParams` (ops/contraction.py)."""


Role = Literal["result", "data_grad", "weight_grad"]
"""Which part of a convolution is computed from the other two."""


@dataclass(frozen=True)
class WindowProduct:
    """A part of a convolution; `ops.convolution.conv_shape` says what the settings mean."""

    role: Role


@dataclass(frozen=True)
class ChannelProduct:
    """A part of a depthwise convolution; `ops.depthwise.depthwise_shape` says what the settings
    mean."""

    role: Role


Folding = Literal["fold", "max_grad", "sum_grad"]
"""A fold of windows, the slope of an extreme of theirs, or that of their sum."""


@dataclass(frozen=True)
class WindowReduction:
    """A fold of windows or its gradient; `ops.pooling.pool_shape` says what the settings mean."""

    folding: Folding


@dataclass(frozen=True)
class IndexedSum:
    """Sums of products in which one axis is looked up; the last operand is the index, [N, K] i32.

    subscripts  params -> one text per operand (without the index), then the result's. `n`, `k`
                and `d` are walked; `i` is index[n, k]. An index outside its axis contributes 0
                (as a factor) or nothing (as a place).

    For each n, k, d in this order: result[…] += product of operands[…], starting from 0.
    """

    subscripts: Callable[[Any], tuple[str, ...]]


@dataclass(frozen=True)
class Selection:
    """The columns of the `params.count` largest elements of each row of a matrix, in order."""


@dataclass(frozen=True)
class Kernel:
    """A body of `FUSABLE` operations on the operands, all of one rank; it yields the results."""


@dataclass(frozen=True)
class FusedProduct:
    """A product of the first two operands, and a body as a kernel's that reads it and the rest."""


@dataclass(frozen=True)
class Loop:
    """A body that runs once for each step; `ops.loop.loop_parts` says what it reads and keeps."""


@dataclass(frozen=True)
class RowUpdate:
    """A learner's update of the rows of tables that lookups read (`ops/update_rows.py`)."""


@dataclass(frozen=True)
class Collective:
    """Sums over all members, who wait for each other. The results lie side by side in memory, in
    the order of the operands: they are added in one go.

    part  `whole`; or `start`, behind which others may be computed, and `finish`, which waits for
          what was started and gives it out where it lies
    """

    part: Literal["whole", "start", "finish"] = "whole"


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
    | StridedCopy
    | Copy
    | Contraction
    | WindowProduct
    | ChannelProduct
    | WindowReduction
    | IndexedSum
    | Selection
    | Kernel
    | FusedProduct
    | Loop
    | RowUpdate
    | Collective
    | Terminator
    | NodeLevel
)

FUSABLE = (Elementwise, Broadcast, Reduction, Fill, Position, Extent)
"""Categories that may stand inside a kernel."""

WITH_BODY = (Kernel, FusedProduct, Loop, RowUpdate)
"""Categories of operations that have a region."""

FREE = (Fill, Position, Extent, Broadcast, View)
"""Categories that cost nothing to compute again: no work, or none that is not done anyway."""
