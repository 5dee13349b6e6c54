"""The node level: one operation per NDL function. Nodes are expanded, never differentiated."""

from __future__ import annotations

from graphc.ops.nodes import (
    chains,
    columns,
    criteria,
    delays,
    elementwise,
    leaves,
    products,
    shapes,
    statistics,
)

OPS = (
    *leaves.OPS,
    *products.OPS,
    *elementwise.OPS,
    *shapes.OPS,
    *columns.OPS,
    *criteria.OPS,
    *chains.OPS,
    *statistics.OPS,
    *delays.OPS,
)
