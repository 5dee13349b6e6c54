"""The node level: one operation per NDL function. Nodes are expanded, never differentiated."""

from __future__ import annotations

from graphc.ops.nodes import criteria, delays, elementwise, leaves, products, statistics

OPS = (
    *leaves.OPS,
    *products.OPS,
    *elementwise.OPS,
    *criteria.OPS,
    *statistics.OPS,
    *delays.OPS,
)
