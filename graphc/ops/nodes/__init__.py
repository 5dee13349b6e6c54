"""The node level: one operation per NDL function. Nodes are expanded, never differentiated."""

from __future__ import annotations

from graphc.ops.nodes import (
    attention,
    chains,
    classes,
    columns,
    criteria,
    delays,
    dropout,
    elementwise,
    images,
    leaves,
    lookup,
    mixtures,
    negatives,
    normalisation,
    pointwise,
    products,
    selection,
    shapes,
    statistics,
)
from graphc.ops.nodes.interface import node_functions

OPS = (
    *leaves.OPS,
    *products.OPS,
    *pointwise.OPS,
    *elementwise.OPS,
    *shapes.OPS,
    *images.OPS,
    *columns.OPS,
    *selection.OPS,
    *criteria.OPS,
    *classes.OPS,
    *mixtures.OPS,
    *negatives.OPS,
    *lookup.OPS,
    *chains.OPS,
    *attention.OPS,
    *statistics.OPS,
    *dropout.OPS,
    *normalisation.OPS,
    *delays.OPS,
)

NODE_FUNCTIONS = node_functions(OPS)
"""The functions that front ends make by themselves."""
