"""Wrong uses of what the members of a training exchange, as IR text."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.wrong_ir_forms import use

WRONG_COLLECTIVE_IR: Mapping[str, tuple[str, ...]] = {
    "all_reduce": (
        use("all_reduce %a : tensor<3x5xf32>", "bad-value", "`members` is required"),
        use("all_reduce %a {members = -1} : tensor<3x5xf32>", "bad-value", "1 member or more"),
        use("all_reduce %i {members = 2} : tensor<3x5xi32>", "ill-typed", "elements of f32"),
        "%y, %z = all_reduce %a, %d {members = 2} : tensor<3x5xf32>, tensor<3x5xf64> "
        "// error: ill-typed: one element type",
        use("all_reduce %n {members = 2} : tensor<Nx5xf32>", "ill-typed", "the same for all"),
        use("all_reduce %a {members = 2} : tensor<5x3xf32>", "graph-structure", "is marked tensor"),
    ),
    "all_reduce_start": (
        use("all_reduce_start %a : tensor<3x5xf32>", "bad-value", "`members` is required"),
        use("all_reduce_start %i {members = 2} : tensor<3x5xi32>", "ill-typed", "elements of f32"),
        use("all_reduce_start %n {members = 2} : tensor<Nx5xf32>", "ill-typed", "the same for all"),
        use(
            "all_reduce_start %a {members = 2} : tensor<3x5xf32>",
            "graph-structure",
            "requires one all_reduce_finish",
        ),
        "%s0 = all_reduce_start %a {members = 2} : tensor<3x5xf32> "
        "// error: graph-structure: no other reader\n"
        "%y = all_reduce_finish %s0 : tensor<3x5xf32>\n"
        "%z = neg %s0 : tensor<3x5xf32>",
    ),
    "all_reduce_finish": (
        use("all_reduce_finish %i : tensor<3x5xi32>", "ill-typed", "elements of f32"),
        use(
            "all_reduce_finish %a : tensor<3x5xf32>",
            "graph-structure",
            "requires all results of one all_reduce_start",
        ),
        "%s0, %t0 = all_reduce_start %a, %b {members = 2} : tensor<3x5xf32>, tensor<3x5xf32>\n"
        "%y, %z = all_reduce_finish %t0, %s0 : tensor<3x5xf32>, tensor<3x5xf32> "
        "// error: graph-structure: in their order",
        "%s0, %t0 = all_reduce_start %a, %b {members = 2} : tensor<3x5xf32>, tensor<3x5xf32>\n"
        "%y = all_reduce_finish %s0 : tensor<3x5xf32> "
        "// error: graph-structure: requires all results",
        "%s0 = all_reduce_start %a {members = 2} : tensor<3x5xf32>\n"
        "%y = all_reduce_finish %s0 : tensor<5x3xf32> // error: graph-structure: is marked tensor",
    ),
    "all_fold": (
        use("all_fold %a : tensor<3x5xf32>", "bad-value", "`members` is required"),
        use("all_fold %a {members = 0} : tensor<3x5xf32>", "bad-value", "1 member or more"),
        use("all_fold %a {members = 2} : tensor<5x3xf32>", "graph-structure", "is marked tensor"),
        use('all_fold %a {members = 2, by = "mean"} : tensor<3x5xf32>', "bad-value", "by"),
        use("all_fold %l {members = 2, by = 3} : tensor<3x5xi64>", "bad-value", "by"),
    ),
    "all_gather": (
        use("all_gather %n {members = 2} : tensor<Nx5xf32>", "bad-value", "`total` is required"),
        use("all_gather %n {total = 8} : tensor<8x5xf32>", "bad-value", "`members` is required"),
        use("all_gather %n {members = 0, total = 8} : tensor<8x5xf32>", "bad-value", "1 member"),
        use(
            "all_gather %n {members = 2, total = 8, start = 3, stop = 6} : tensor<8x3xf32>",
            "bad-value",
            "the columns of a matrix",
        ),
        use(
            "all_gather %n {members = 2, total = 8} : tensor<Nx5xf32>",
            "graph-structure",
            "is marked tensor",
        ),
    ),
    "reduce_scatter": (
        use("reduce_scatter %n {members = 2} : tensor<Nx5xf32>", "bad-value", "`own` is required"),
        use("reduce_scatter %n {own = 2} : tensor<2x5xf32>", "bad-value", "`members` is required"),
        use("reduce_scatter %n {members = 0, own = 2} : tensor<2x5xf32>", "bad-value", "1 member"),
        use("reduce_scatter %i {members = 2, own = 2} : tensor<2x5xi32>", "ill-typed", "f32"),
        use(
            "reduce_scatter %n {members = 2, own = 2} : tensor<Nx5xf32>",
            "graph-structure",
            "is marked tensor",
        ),
    ),
    "own_samples": (
        use("own_samples %n {members = 2} : tensor<Nx5xf32>", "bad-value", "`own` is required"),
        use("own_samples %n {own = 2} : tensor<2x5xf32>", "bad-value", "`members` is required"),
        use("own_samples %n {members = 0, own = 2} : tensor<2x5xf32>", "bad-value", "1 member"),
        use("own_samples %n {members = 2, own = -1} : tensor<2x5xf32>", "bad-value", "own"),
        use(
            "own_samples %n {members = 2, own = 2} : tensor<Nx5xf32>",
            "graph-structure",
            "is marked tensor",
        ),
    ),
}
"""By operation."""
