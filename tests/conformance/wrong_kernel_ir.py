"""Wrong uses of control, of operations with bodies and of those at kernel level, as IR text."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.wrong_ir_forms import fused, in_kernel, in_loop, update, use, whole

_WINDOWS = "axis = 1, sizes = [2, 2], strides = [1, 1]"
_TWO_PLACES = "at arena:0, arena:64 "

WRONG_KERNEL_IR: Mapping[str, tuple[str, ...]] = {
    # control
    "return": (
        whole("return %a // error@-1: parse: declares 0 results but returns 1"),
        whole(
            "return // error: graph-structure: a terminator must be the last operation\n  return"
        ),
        whole("return %q // error: undefined-name: value %q is not defined"),
        whole("return {axis = 1} // error: bad-value: no parameter `axis`"),
        whole("// error@-1: graph-structure: a block must end in a terminator"),
        whole(
            "%y = return : tensor<3x5xf32> // error: graph-structure: gives nothing, but is marked"
        ),
    ),
    "yield": (
        whole("yield // error: graph-structure: cannot end a function"),
        "yield // error: graph-structure: a terminator must be the last operation of its block",
        "yield %q // error: undefined-name: value %q is not defined",
        "yield {axis = 1} // error: bad-value: no parameter `axis`",
        in_kernel("yield %x // error@-3: graph-structure: is marked tensor<3x5xf32>", "5x3xf32"),
    ),
    "kernel": (
        in_kernel(
            "%z = exp %a : tensor<3x5xf32> // error: graph-structure: in this region\n  yield %z"
        ),
        in_kernel("yield %x, %x // error@-3: graph-structure: is marked tensor<3x5xf32>"),
        in_kernel(
            "%z = matmul %x, %x {transpose_b = true} : tensor<3x3xf32> "
            "// error@-3: graph-structure: `matmul` cannot stand in a kernel\n  yield %x"
        ),
        in_kernel(
            "%z = slice %x {starts = [0, 1], stops = [3, 4], steps = [1, 1]} : tensor<3x3xf32> "
            "// error@-3: graph-structure: `slice` takes a part of what is no argument, or is read "
            "whole too\n  yield %x"
        ),
        in_kernel(
            "%z = slice %x {starts = [0, 0], stops = [3, 5], steps = [1, 2]} : tensor<3x3xf32> "
            "// error@-3: graph-structure: `slice` cannot stand in a kernel\n  yield %x"
        ),
        in_kernel(
            "%z = exp %x : tensor<3x5xf32>\n"
            "  %c = concat %z, %z {axis = 1} : tensor<3x10xf32>\n"
            "  %d = exp %c : tensor<3x10xf32> "
            "// error@-5: graph-structure: `concat` joins parts that the body reads\n  yield %x"
        ),
        in_kernel(
            "%z = reduce_max %x {axes = [0]} : tensor<1x5xf32>\n"
            "  %c = concat %z, %z {axis = 1} : tensor<1x10xf32> "
            "// error@-4: graph-structure: `concat` joins what is folded\n  yield %x"
        ),
        in_kernel(
            "%z = constant {type = tensor<5xf32>, value = [0.0]} : tensor<5xf32> "
            "// error@-3: graph-structure: requires values of one rank\n  yield %x"
        ),
        in_kernel(
            "yield %x // error@-3: graph-structure: cuts one of 2 axes, got 7",
            at="schedule {parallel = 7, chunk = 1} ",
        ),
        in_kernel("yield %x // error@-3: graph-structure: 1 results but 2 places", at=_TWO_PLACES),
    ),
    "gemm.fused": (
        fused(
            "yield %x // error@-3: graph-structure: a chunk is at least 1 long, got 0",
            'schedule {parallel = "cols"}',
        ),
        fused(
            "%0 = reduce_max %x {axes = [1]} : tensor<3x1xf32>\n"
            "  %1 = broadcast %0 {dims = [3, 3]} : tensor<3x3xf32>\n"
            "  yield %1 // error@-5: graph-structure: over anything but all rows"
        ),
        fused(
            "%0 = reduce_sum %x {axes = [0]} : tensor<1x3xf32>\n"
            "  %1 = broadcast %0 {dims = [3, 3]} : tensor<3x3xf32>\n"
            "  yield %1 // error@-5: graph-structure: a reduction that the body reads"
        ),
        fused(
            "%0 = reduce_sum %x {axes = [0]} : tensor<1x3xf32>\n"
            "  %1 = exp %x : tensor<3x3xf32>\n"
            "  yield %1 // error@-5: graph-structure: chunks of columns for sums",
            'schedule {parallel = "rows", chunk = 3}',
        ),
        fused(
            "%0 = matmul %x, %x : tensor<3x3xf32>\n"
            "  yield %0 // error@-4: graph-structure: `matmul`, which cannot stand in a kernel"
        ),
        use(
            'gemm.fused %a, %b schedule {parallel = "cols", chunk = 8} : tensor<3x5xf32>',
            "shape-mismatch",
            "requires the inner dimensions to agree",
        ),
    ),
    "loop": (
        in_loop(
            "ill-typed",
            "a first dim of 3, got tensor<2x3x5xf32>",
            numbers="count = 3, sequences = 1, carried = 1",
        ),
        in_loop("ill-typed", "got 2 operands", numbers="count = 2, sequences = 2, carried = 1"),
        in_loop(
            "ill-typed",
            "of at least 0, got 2, 1 and -1",
            numbers="count = 2, sequences = 1, carried = -1",
        ),
        in_loop(
            "ill-typed",
            "of at least 0, got -2, 1 and 1",
            numbers="count = -2, sequences = 1, carried = 1",
        ),
        in_loop("bad-value", "`count` is required", numbers="sequences = 1, carried = 1"),
        in_loop(
            "graph-structure",
            "passes tensor<3x5xf32> as operand 0 but its block takes tensor<5xf32>",
            element="5xf32",
            body="yield %u, %u",
        ),
        in_loop(
            "graph-structure",
            "gives tensor<3x5xf32>, but is marked tensor<3x5xf32>, tensor<2x3x5xf32>",
            body="yield %e",
        ),
        in_loop(
            "graph-structure",
            "carries tensor<3x5xf32> but yields tensor<5xf32>",
            types="tensor<5xf32>, tensor<2x3x5xf32>",
            body="%z = constant {type = tensor<5xf32>, value = [0.0]} : tensor<5xf32>\n"
            "  yield %z, %e",
        ),
        in_loop("graph-structure", "not defined before its use", body="yield %a, %e", at=2),
        in_loop(
            "graph-structure",
            "gives tensor<3x5xf32>, tensor<2x3x5xf32>, but is marked",
            types="tensor<3x5xf32>, tensor<3x5xf32>",
        ),
        in_loop(
            "graph-structure",
            "has 2 results but 1 places",
            places="at arena:0 ",
        ),
        in_loop(
            "graph-structure",
            "carried value 0 is not what stack 3 keeps",
            numbers="count = 2, sequences = 1, carried = 1, history = [3]",
        ),
    ),
    # products with windows and pooling
    "conv": (
        use(
            "conv %v, %s {axis = 0, strides = [1, 1]} : tensor<2x5xf32>",
            "ill-typed",
            "for one or two axes from 0 on, within the rank 1, got [1, 1]",
        ),
        use(
            "conv %t, %s {axis = 0, strides = [0]} : tensor<2x5xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        use("conv %t, %s {axis = 0, strides = []} : tensor<2x5xf32>", "ill-typed", "got []"),
        use("conv %t, %s {axis = -1, strides = [1]} : tensor<2x5xf32>", "ill-typed", "from -1 on"),
        use("conv %i, %s {axis = 0, strides = [1]} : tensor<2x5xi32>", "ill-typed", "elements of"),
        use(
            "conv %d, %s {axis = 0, strides = [1]} : tensor<2x5xf64>",
            "ill-typed",
            "requires operands of one element type, got tensor<3x5xf64> and tensor<4x3x5xf32>",
        ),
        use(
            "conv %n, %s {axis = 0, strides = [1]} : tensor<Nx5xf32>",
            "ill-typed",
            "requires known extents, got [N] in tensor<Nx5xf32>",
        ),
        use(
            "conv %a, %s {axis = 0, strides = [1]} : tensor<0x5xf32>",
            "bad-value",
            "requires windows that fit into [3], got [4]",
        ),
        use(
            "conv %a, %r {axis = 0, strides = [1]} : tensor<2x5xf32>",
            "shape-mismatch",
            "requires weights of 1 sizes, the channels [5] and features, got tensor<3x5xf32> and",
        ),
        use(
            "conv %t, %k {axis = 0, strides = [1]} : tensor<4xf32>",
            "shape-mismatch",
            "and features, got tensor<5x3xf32> and tensor<2x3xf32>",
        ),
        use(
            "conv %t, %s {axis = 0, strides = [1], low = [1]} : tensor<3x5xf32>",
            "bad-value",
            "requires low and high of at least 0 for 1 axes, got [1] and []",
        ),
        use(
            "conv %t, %s {axis = 0, strides = [1], low = [-1], high = [0]} : tensor<1x5xf32>",
            "bad-value",
            "got [-1] and [0]",
        ),
        use(
            "conv %t, %s {axis = 0, strides = [1], block = 8} : tensor<2x5xf32>",
            "ill-typed",
            "requires weights in blocks of 8, got dims [4, 3, 5]",
        ),
        use(
            'conv %t, %s {axis = 0, strides = [1]} schedule {parallel = "rows", chunk = 4} '
            ": tensor<2x5xf32>",
            "bad-value",
            'the schedule of conv: parameter `parallel` requires "images" or none, got "rows"',
        ),
        use(
            'conv %t, %s {axis = 0, strides = [1]} schedule {parallel = "images"} '
            ": tensor<2x5xf32>",
            "graph-structure",
            "a chunk is at least 1 long, got 0",
        ),
        use(
            "conv %t, %s {axis = 0, strides = [1], low = [1], high = [0]} at arena:0 "
            ": tensor<3x5xf32>",
            "graph-structure",
            "requires a workspace of tensor<1x6x3xf32>, got none",
        ),
        use(
            "conv %t, %s {axis = 0, strides = [1]} workspace tensor<6x3xf32> : tensor<2x5xf32>",
            "parse",
            "`at` is required here, got `:`",
        ),
        use(
            "conv %t, %s {axis = 0, strides = [1]} at here:0 : tensor<2x5xf32>",
            "bad-value",
            "a place is one of arena, result, argument, carried, stack, got `here`",
        ),
    ),
    "conv.data_grad": (
        use(
            "conv.data_grad %o, %s {axis = 0, extents = [5], strides = [1]} : tensor<5x5xf32>",
            "shape-mismatch",
            "requires [3] windows over [5] and weights of the features [4]",
        ),
        use(
            "conv.data_grad %k, %s {axis = 0, extents = [4], strides = [1]} : tensor<4x5xf32>",
            "shape-mismatch",
            "the features [3], last of them before one size, got tensor<2x3xf32> and",
        ),
        use(
            "conv.data_grad %o, %s {axis = 0, extents = [2], strides = [1]} : tensor<2x5xf32>",
            "bad-value",
            "requires windows that fit into [2], got [3]",
        ),
        use(
            "conv.data_grad %o, %s {axis = 0, extents = [4, 4], strides = [1]} : tensor<4x4x5xf32>",
            "ill-typed",
            "requires one size and one extent for each axis, got [3] and [4, 4]",
        ),
        use(
            "conv.data_grad %o, %s {axis = 0, extents = [4], strides = [0]} : tensor<4x5xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        use(
            "conv.data_grad %o, %s {axis = 2, extents = [4], strides = [1]} : tensor<4x5xf32>",
            "ill-typed",
            "from 2 on, within the rank 2",
        ),
        use(
            "conv.data_grad %n, %s {axis = 0, extents = [4], strides = [1]} : tensor<4x5xf32>",
            "ill-typed",
            "requires known extents, got [N]",
        ),
        use(
            "conv.data_grad %o, %d {axis = 0, extents = [4], strides = [1]} : tensor<4x5xf32>",
            "ill-typed",
            "requires operands of one element type",
        ),
        use(
            "conv.data_grad %o, %s {axis = 0, extents = [4], strides = [1], block = 4} "
            ": tensor<4x5xf32>",
            "ill-typed",
            "requires weights in blocks of 4, got dims [4, 3, 5]",
        ),
        use(
            "conv.data_grad %o, %s {axis = 0, strides = [1]} : tensor<4x5xf32>",
            "bad-value",
            "`exte",
        ),
        use(
            "conv.data_grad %o, %s {axis = 0, extents = [4], strides = [1]} : tensor<5x5xf32>",
            "graph-structure",
            "gives tensor<4x5xf32>, but is marked",
        ),
        use(
            "conv.data_grad %o, %s {axis = 0, extents = [4], strides = [1]} "
            'schedule {parallel = "cols", chunk = 2} : tensor<4x5xf32>',
            "bad-value",
            'requires "images" or none, got "cols"',
        ),
        use(
            f"conv.data_grad %o, %s {{axis = 0, extents = [4], strides = [1]}} {_TWO_PLACES}"
            ": tensor<4x5xf32>",
            "graph-structure",
            "has 1 results but 2 places",
        ),
    ),
    "conv.weight_grad": (
        use(
            "conv.weight_grad %t, %o {axis = 0, sizes = [3], strides = [1]} : tensor<3x3x4xf32>",
            "shape-mismatch",
            "requires results of dims [3] and features, got tensor<5x3xf32> and tensor<2x4xf32>",
        ),
        use(
            "conv.weight_grad %t, %v {axis = 0, sizes = [1], strides = [1]} : tensor<1x3xf32>",
            "shape-mismatch",
            "requires results of dims [5] and features, got tensor<5x3xf32> and tensor<5xf32>",
        ),
        use(
            "conv.weight_grad %t, %o {axis = 0, sizes = [6], strides = [1]} : tensor<6x3x4xf32>",
            "bad-value",
            "requires windows that fit into [5], got [6]",
        ),
        use(
            "conv.weight_grad %t, %o {axis = 0, sizes = [0], strides = [1]} : tensor<0x3x4xf32>",
            "bad-value",
            "requires windows that fit into [5], got [0]",
        ),
        use(
            "conv.weight_grad %t, %o {axis = 0, sizes = [4, 4], strides = [1]} : tensor<4x3x4xf32>",
            "ill-typed",
            "requires one size and one extent for each axis, got [4, 4] and [5]",
        ),
        use(
            "conv.weight_grad %t, %o {axis = 0, sizes = [4], strides = [-1]} : tensor<4x3x4xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        use(
            "conv.weight_grad %n, %o {axis = 0, sizes = [4], strides = [1]} : tensor<4x5x4xf32>",
            "ill-typed",
            "requires known extents, got [N]",
        ),
        use(
            "conv.weight_grad %t, %i {axis = 0, sizes = [4], strides = [1]} : tensor<4x3x5xf32>",
            "ill-typed",
            "requires operands of one element type",
        ),
        use(
            "conv.weight_grad %t, %o {axis = 0, sizes = [4], strides = [1]} "
            'schedule {parallel = "rows", chunk = 5} : tensor<4x3x4xf32>',
            "graph-structure",
            "a chunk has to divide the 12 rows of one column of a window, got 5",
        ),
        use(
            "conv.weight_grad %t, %o {axis = 0, sizes = [4], strides = [1]} "
            'schedule {parallel = "columns", chunk = 1} : tensor<4x3x4xf32>',
            "bad-value",
            'requires "rows" or "images" or none, got "columns"',
        ),
        use(
            "conv.weight_grad %t, %o {axis = 0, sizes = [4], strides = [1]} schedule {chunk = 4} "
            ": tensor<4x3x4xf32>",
            "graph-structure",
            "a schedule with a chunk says what is cut into them",
        ),
        use(
            "conv.weight_grad %t {axis = 0} : tensor<4x3x4xf32>", "bad-value", "`sizes` is required"
        ),
    ),
    "pool": (
        use(
            f'pool %w {{scalar_op = "mean", {_WINDOWS}}} : tensor<2x3x5xf32>',
            "bad-value",
            "requires a scalar op of add, maximum, minimum, got mean",
        ),
        use(
            'pool %w {scalar_op = "add", axis = 1, sizes = [5, 2], strides = [1, 1]} '
            ": tensor<2x0x5xf32>",
            "bad-value",
            "requires windows that fit into [4, 6], got [5, 2]",
        ),
        use(
            'pool %w {scalar_op = "add", axis = 1, sizes = [2], strides = [1, 1]} : '
            "tensor<2x3x5xf32>",
            "bad-value",
            "requires windows that fit into [4, 6], got [2]",
        ),
        use(
            'pool %w {scalar_op = "add", axis = 1, sizes = [2, 2], strides = [1, 0]} '
            ": tensor<2x3x5xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        use(
            'pool %w {scalar_op = "add", axis = 2, sizes = [2, 2], strides = [1, 1]} '
            ": tensor<2x3x5xf32>",
            "ill-typed",
            "from 2 on, within the rank 3",
        ),
        use(
            'pool %w {scalar_op = "add", axis = 0, sizes = [1, 1, 1], strides = [1, 1, 1]} '
            ": tensor<2x4x6xf32>",
            "ill-typed",
            "for one or two axes from 0 on",
        ),
        use(
            'pool %n {scalar_op = "add", axis = 0, sizes = [2], strides = [1]} : tensor<Nx5xf32>',
            "ill-typed",
            "requires known extents, got [N] in tensor<Nx5xf32>",
        ),
        use(
            'pool %i {scalar_op = "add", axis = 0, sizes = [2], strides = [1]} : tensor<2x5xi32>',
            "ill-typed",
            "requires elements of f32, f64",
        ),
        use(f"pool %w {{{_WINDOWS}}} : tensor<2x3x5xf32>", "bad-value", "`scalar_op` is required"),
        use(
            f'pool %w {{scalar_op = "add", {_WINDOWS}}} schedule {{parallel = "rows", chunk = 1}} '
            ": tensor<2x3x5xf32>",
            "bad-value",
            'requires "images" or none, got "rows"',
        ),
        use(
            f'pool %w {{scalar_op = "add", {_WINDOWS}}} at arena:-1 : tensor<2x3x5xf32>',
            "parse",
            "an offset or an index",
        ),
        use(
            f'pool %w {{scalar_op = "add", {_WINDOWS}}} : tensor<2x4x6xf32>',
            "graph-structure",
            "giv",
        ),
    ),
    "pool.max_grad": (
        use(
            "pool.max_grad %t, %o, %k {axis = 0, sizes = [4], strides = [1]} : tensor<5x3xf32>",
            "shape-mismatch",
            "requires tensor<2x3xf32>, one element for each window, got tensor<2x4xf32>",
        ),
        use(
            "pool.max_grad %t, %k, %o {axis = 0, sizes = [4], strides = [1]} : tensor<5x3xf32>",
            "shape-mismatch",
            "requires tensor<2x3xf32>, one element for each window, got tensor<2x4xf32>",
        ),
        use(
            "pool.max_grad %d, %a, %a {axis = 0, sizes = [1], strides = [1]} : tensor<3x5xf64>",
            "shape-mismatch",
            "requires tensor<3x5xf64>, one element for each window, got tensor<3x5xf32>",
        ),
        use(
            "pool.max_grad %t, %k, %k {axis = 0, sizes = [6], strides = [1]} : tensor<5x3xf32>",
            "bad-value",
            "requires windows that fit into [5], got [6]",
        ),
        use(
            "pool.max_grad %t, %k, %k {axis = 0, sizes = [4], strides = [0]} : tensor<5x3xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        use(
            "pool.max_grad %n, %g, %g {axis = 0, sizes = [4], strides = [1]} : tensor<Nx5xf32>",
            "ill-typed",
            "requires known extents, got [N]",
        ),
        use(
            "pool.max_grad %t, %k {axis = 0, sizes = [4], strides = [1]} : tensor<5x3xf32>",
            "graph-structure",
            "requires the operands (x, y, dy), got 2",
        ),
        use(
            "pool.max_grad %t, %k, %k {axis = 0, sizes = [4], strides = [1]} "
            "schedule {parallel = 0, chunk = 1} : tensor<5x3xf32>",
            "bad-value",
            'requires "images" or none, got 0',
        ),
        use(
            "pool.max_grad %t, %k, %k {axis = 0, sizes = [4], strides = [1]} : tensor<2x3xf32>",
            "graph-structure",
            "gives tensor<5x3xf32>, but is marked",
        ),
    ),
    "pool.sum_grad": (
        use(
            "pool.sum_grad %k {axis = 0, extents = [6], sizes = [4], strides = [1]} "
            ": tensor<6x3xf32>",
            "shape-mismatch",
            "requires tensor<3x3xf32>, one element for each window of extents [6], got tensor<2x3x",
        ),
        use(
            "pool.sum_grad %k {axis = 0, extents = [3], sizes = [4], strides = [1]} "
            ": tensor<3x3xf32>",
            "bad-value",
            "requires windows that fit into [3], got [4]",
        ),
        use(
            "pool.sum_grad %k {axis = 0, extents = [5, 3], sizes = [4], strides = [1]} "
            ": tensor<5x3xf32>",
            "bad-value",
            "requires windows that fit into [5, 3], got [4]",
        ),
        use(
            "pool.sum_grad %k {axis = 0, extents = [5], sizes = [4], strides = [0]} "
            ": tensor<5x3xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        use(
            "pool.sum_grad %n {axis = 0, extents = [5], sizes = [4], strides = [1]} "
            ": tensor<5x5xf32>",
            "ill-typed",
            "requires known extents, got [N]",
        ),
        use(
            "pool.sum_grad %j {axis = 0, extents = [5], sizes = [4], strides = [1]} "
            ": tensor<5x5xi32>",
            "ill-typed",
            "requires elements of f32, f64",
        ),
        use(
            "pool.sum_grad %k {axis = 0, sizes = [4], strides = [1]} : tensor<5x3xf32>",
            "bad-value",
            "`extents` is required",
        ),
        use(
            "pool.sum_grad %k {axis = 0, extents = [5], sizes = [4], strides = [1]} "
            'schedule {parallel = "images", chunk = -1} : tensor<5x3xf32>',
            "graph-structure",
            "a chunk is at least 1 long, got -1",
        ),
        use(
            "pool.sum_grad %k {axis = 0, extents = [5], sizes = [4], strides = [1]} "
            ": tensor<2x3xf32>",
            "graph-structure",
            "gives tensor<5x3xf32>, but is marked",
        ),
    ),
    "update_rows": (
        update(
            "ill-typed",
            "lookups of three operands each, got 4 operands for 1 tables and 1 numbers",
            operands="%t, %f, %g, %k",
        ),
        update("ill-typed", "for 0 tables and 2 numbers", numbers="tables = 0, numbers = 2"),
        update("ill-typed", "for 5 tables and 0 numbers", numbers="tables = 5, numbers = 0"),
        update("ill-typed", "elements of f32, f64, got ", operands="%i, %f, %g, %k, %j"),
        update("ill-typed", "requires tables of rank 2, got ", operands="%v, %f, %g, %k, %j"),
        update(
            "ill-typed",
            "requires tensor<5x3xf32>, got tensor<3x5xf32>",
            operands="%t, %a, %g, %k, %j",
            numbers="tables = 2, numbers = 0",
        ),
        update(
            "ill-typed",
            "requires tensor<1x1xf32>, got tensor<1x5xf32>",
            operands="%t, %c, %g, %k, %j",
        ),
        update(
            "ill-typed",
            "requires tensor<3x5xi32>, got tensor<3x5xi64>",
            operands="%t, %f, %a, %k, %l",
        ),
        update("ill-typed", "requires an index of rank 2, got ", operands="%t, %f, %g, %k, %v"),
        update(
            "ill-typed",
            "requires tensor<2x5xf32>, got tensor<3x5xf32>",
            operands="%t, %f, %a, %k, %j",
        ),
        update(
            "ill-typed",
            "requires tensor<2x3xf32>, got tensor<2x4xf32>",
            operands="%t, %f, %g, %o, %j",
        ),
        update(
            "ill-typed",
            "requires tensor<2x5xf32>, got tensor<2x3xf32>",
            numbers="tables = 1, numbers = 1, columns = true",
        ),
        update("bad-value", "`tables` is required", numbers="numbers = 1"),
        update(
            "graph-structure",
            "must take tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x1xf32>, got tensor<1x3xf32>, te",
            taken="%w0: tensor<1x3xf32>, %g0: tensor<1x3xf32>",
        ),
        update(
            "graph-structure",
            "must yield 1 times tensor<1x3xf32>, got tensor<1x1xf32>",
            body="yield %r0",
        ),
        update("graph-structure", "must yield 1 times tensor<1x3xf32>, got nothing", body="yield"),
        update(
            "graph-structure",
            "`reduce_sum` cannot stand in its block, only what is element by element",
            body="%z = reduce_sum %g0 {axes = [0]} : tensor<1x3xf32>\n  yield %z",
        ),
        update("graph-structure", "but is marked tensor<3x5xf32>", table="3x5xf32"),
        update(
            "graph-structure",
            "requires a workspace of tensor<2x5xi32>, tensor<5xi32>, tensor<5xi32>, "
            "tensor<1xi32>, tensor<1x5x32xf32>, got none",
            places="at argument:0 ",
        ),
        "%y = update_rows %t, %f, %g, %k, %j {tables = 1, numbers = 1} : tensor<5x3xf32> "
        "// error: graph-structure: requires one region with one block",
    ),
    "copy": (
        use("copy %a : tensor<5x3xf32>", "graph-structure", "gives tensor<3x5xf32>"),
        use("copy : tensor<5x3xf32>", "graph-structure", "(x), got 0"),
        use("copy %q : tensor<3x5xf32>", "undefined-name", "value %q is not defined"),
        use("copy %a at here:0 : tensor<3x5xf32>", "bad-value", "a place is one of"),
        use(f"copy %a {_TWO_PLACES}: tensor<3x5xf32>", "graph-structure", "but 2 places"),
        use("copy %a at 1 : tensor<3x5xf32>", "parse", "a place (arena, result"),
    ),
    "laid": (
        use(
            "laid %a {dims = [15], permutation = [0]} : tensor<3x5xf32>",
            "graph-structure",
            "gives tensor<15xf32>",
        ),
        use(
            "laid %a {dims = [5, 2], permutation = [1, 0]} : tensor<2x5xf32>",
            "shape-mismatch",
            "requires as many elements as before, got tensor<3x5xf32> for [5, 2]",
        ),
        use(
            "laid %a {dims = [3, 5], permutation = [1, 1]} : tensor<5x3xf32>",
            "ill-typed",
            "requires a permutation of the 2 axes, got [1, 1]",
        ),
        use(
            "laid %a {dims = [3, 5]} : tensor<3x5xf32>",
            "bad-value",
            "`permutation`",
        ),
        use(
            "laid %q {dims = [3, 5], permutation = [1, 0]} : tensor<5x3xf32>",
            "undefined-name",
            "value %q is not defined",
        ),
    ),
}
"""By operation."""
