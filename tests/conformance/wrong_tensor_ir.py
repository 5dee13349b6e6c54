"""Wrong uses of every tensor operation without regions, as IR text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphc.ir.codegen import Elementwise
from tests.conformance.wrong_ir_forms import ARGUMENTS, use
from tests.support.op_table import FLOATS, ROWS

_SLICE = "starts = [0, 0], stops = [3, 5], steps = [1, 1]"
_PAD = "low = [0, 0], high = [1, 0], inner = [0, 0]"
_WINDOWS = "axis = 1, sizes = [2, 2], strides = [1, 1]"
_EXTENTS = "axis = 0, extents = [5], strides = [1]"


def _depthwise(own: str = "", of_long: str = "") -> Callable[..., str]:
    """The settings of a depthwise convolution along axis 1, some of them changed; `of_long`: what
    differs where the elements of a window are far apart."""

    def text(**changes: str) -> str:
        numbers = {"strides": "[1]", "low": "[0]", "high": "[0]", "dilations": "[1]", **changes}
        first = of_long if of_long and numbers["dilations"] == "[9]" else own
        return f"axis = 1, {first}{', '.join(f'{k} = {v}' for k, v in numbers.items())}"

    return text


def _unary(name: str, accepted: str, *, wrong: str, result: str = "3x5xf32") -> tuple[str, ...]:
    """`accepted` and `wrong`: arguments of element types that fit and that do not."""
    return (
        use(f"{name} : tensor<{result}>", "graph-structure", "requires the operands (x), got 0"),
        use(
            f"{name} %{accepted}, %{accepted} : tensor<{result}>",
            "graph-structure",
            "requires the operands (x), got 2",
        ),
        use(f"{name} %{accepted} : tensor<5x3xf32>", "graph-structure", "is marked tensor<5x3xf3"),
        use(f"{name} %{accepted} {{axis = 0}} : tensor<{result}>", "bad-value", "no parameter"),
        use(f"{name} %q : tensor<{result}>", "undefined-name", "value %q is not defined"),
        use(
            f"{name} %{wrong} : tensor<{ARGUMENTS[wrong]}>", "ill-typed", "requires elements of f32"
        ),
    )


def _binary(
    name: str, *, wrong: str, result: str = "f32", operands: str = "x, y", of: str = "a"
) -> tuple[str, ...]:
    """`of`: an argument of a type that fits, `wrong`: of one that does not."""
    marked = f"3x5x{result}"
    return (
        use(
            f"{name} %{of} : tensor<{marked}>",
            "graph-structure",
            f"requires the operands ({operands}), got 1",
        ),
        use(f"{name} %{of}, %{of}, %{of} : tensor<{marked}>", "graph-structure", "got 3"),
        use(
            f"{name} %{of}, %{'t' if of == 'a' else 'd'} : tensor<{marked}>",
            "ill-typed",
            "requires operands of one type, got tensor<3x5x",
        ),
        use(f"{name} %{of}, %{wrong} : tensor<{marked}>", "ill-typed", "operands of one type"),
        use(f"{name} %{of}, %{of} : tensor<3x1x{result}>", "graph-structure", "is marked tensor<"),
        use(f"{name} %{of}, %{of} {{axis = 0}} : tensor<{marked}>", "bad-value", "no parameter"),
    )


def _binary_of_integers(name: str) -> tuple[str, ...]:
    marked = "3x5xi32"
    return (
        use(f"{name} %i : tensor<{marked}>", "graph-structure", "the operands (x, y), got 1"),
        use(f"{name} %i, %i, %i : tensor<{marked}>", "graph-structure", "got 3"),
        use(f"{name} %i, %a : tensor<{marked}>", "ill-typed", "requires operands of one type"),
        use(f"{name} %i, %i : tensor<3x1xi32>", "graph-structure", "is marked tensor<"),
        use(f"{name} %i, %i {{axis = 0}} : tensor<{marked}>", "bad-value", "no parameter"),
        use(f"{name} %a, %a : tensor<3x5xf32>", "ill-typed", "requires elements of i32, i64"),
        use(f"{name} %p, %p : tensor<3x5xi1>", "ill-typed", "requires elements of i32, i64"),
    )


def _arithmetic(name: str) -> tuple[str, ...]:
    truth = use(f"{name} %p, %p : tensor<3x5xi1>", "ill-typed", "requires elements of f32, f64")
    return (*_binary(name, wrong="d"), truth)


def _logic(name: str) -> tuple[str, ...]:
    wrong = use(f"{name} %a, %a : tensor<3x5xf32>", "ill-typed", "requires elements of i1")
    return (*_binary(name, wrong="a", result="i1", of="p"), wrong)


def _reduction(name: str) -> tuple[str, ...]:
    return (
        use(f"{name} %a {{axes = [2]}} : tensor<3x1xf32>", "ill-typed", "ascending axes below"),
        use(f"{name} %a {{axes = [1, 0]}} : tensor<1x1xf32>", "ill-typed", "got [1, 0]"),
        use(f"{name} %a {{axes = [1, 1]}} : tensor<3x1xf32>", "ill-typed", "got [1, 1]"),
        use(f"{name} %a {{axes = [-1]}} : tensor<3x1xf32>", "ill-typed", "got [-1]"),
        use(f"{name} %a : tensor<3x1xf32>", "bad-value", "parameter `axes` is required"),
        use(f'{name} %a {{axes = "all"}} : tensor<3x1xf32>', "bad-value", "a list of an integer"),
        use(f"{name} %p {{axes = [1]}} : tensor<3x1xi1>", "ill-typed", "requires elements of f32"),
        use(f"{name} %a {{axes = [1]}} : tensor<3xf32>", "graph-structure", "gives tensor<3x1xf"),
    )


WRONG_TENSOR_IR: Mapping[str, tuple[str, ...]] = {
    # constants
    "constant": (
        use(
            "constant {type = tensor<2x2xf32>, value = [1.0, 2.0]} : tensor<2x2xf32>",
            "ill-typed",
            "one value or one per element of tensor<2x2xf32>, got 2",
        ),
        use(
            "constant {type = tensor<2xi32>, value = [1.5]} : tensor<2xi32>",
            "ill-typed",
            "requires values that fit i32",
        ),
        use(
            "constant {type = tensor<2xi1>, value = [1]} : tensor<2xi1>",
            "ill-typed",
            "requires values that fit i1",
        ),
        use(
            "constant {type = tensor<Nx2xf32>, value = [1.0, 2.0]} : tensor<Nx2xf32>",
            "ill-typed",
            "requires one value",
        ),
        use("constant {value = [1.0]} : tensor<2xf32>", "bad-value", "`type` is required"),
        use(
            "constant %a {type = tensor<2xf32>, value = [1.0]} : tensor<2xf32>",
            "graph-structure",
            "got 1",
        ),
        use(
            "constant {type = tensor<2xf32>, value = [1.0]} : tensor<3xf32>",
            "graph-structure",
            "is marked tensor<3xf32>",
        ),
    ),
    "iota": (
        use("iota {type = tensor<2x3xi32>, axis = 2} : tensor<2x3xi32>", "ill-typed", "axis belo"),
        use("iota {type = tensor<2x3xi32>, axis = -1} : tensor<2x3xi32>", "ill-typed", "got -1"),
        use("iota {type = tensor<2xi1>, axis = 0} : tensor<2xi1>", "ill-typed", "elements of f32"),
        use("iota {type = tensor<2xi32>} : tensor<2xi32>", "bad-value", "`axis` is required"),
        use("iota %a {type = tensor<2xi32>, axis = 0} : tensor<2xi32>", "graph-structure", "got"),
        use("iota {type = tensor<i32>, axis = 0} : tensor<i32>", "ill-typed", "axis below 0"),
    ),
    "extent": (
        use("extent {dim = N, type = tensor<2xf32>} : tensor<2xf32>", "ill-typed", "one element"),
        use("extent {dim = N, type = tensor<1xi32>} : tensor<1xi32>", "ill-typed", "elements of"),
        use("extent {type = tensor<1xf32>} : tensor<1xf32>", "bad-value", "`dim` is required"),
        use('extent {dim = "N", type = tensor<f32>} : tensor<f32>', "bad-value", "`dim` requires"),
        use("extent %a {dim = N, type = tensor<f32>} : tensor<f32>", "graph-structure", "got 1"),
        use("extent {dim = N, type = tensor<f32>} : tensor<1xf32>", "graph-structure", "is marke"),
    ),
    # element by element
    **{n: _arithmetic(n) for n in ("add", "sub", "mul", "div", "maximum", "minimum")},
    "power": (
        *_binary("power", wrong="d"),
        use("power %i, %i : tensor<3x5xi32>", "ill-typed", "requires elements of f32, f64"),
    ),
    "neg": _unary("neg", "a", wrong="p"),
    "abs": _unary("abs", "a", wrong="p"),
    "round_bf16": _unary("round_bf16", "a", wrong="d"),
    **{
        row.op.name: _unary(row.op.name, "a", wrong="i")
        for row in ROWS
        if isinstance(row.op.codegen, Elementwise)
        and (row.op.operands, row.dtypes) == (("x",), FLOATS)
    },
    **{
        n: _binary(n, wrong="d", result="i1")
        for n in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    },
    **{n: _logic(n) for n in ("logical_and", "logical_or")},
    **{
        n: _binary_of_integers(n)
        for n in ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
    },
    "bitwise_not": _unary("bitwise_not", "i", wrong="p", result="3x5xi32")[:5],
    "bitcast": (
        use("bitcast %a {dtype = f64} : tensor<3x5xf64>", "ill-typed", "type of as many bits"),
        use("bitcast %a {dtype = i1} : tensor<3x5xi1>", "ill-typed", "type of as many bits"),
        use("bitcast %p {dtype = i1} : tensor<3x5xi1>", "ill-typed", "requires elements of f32"),
        use("bitcast %a : tensor<3x5xi32>", "bad-value", "parameter `dtype` is required"),
        use("bitcast {dtype = i32} : tensor<3x5xi32>", "graph-structure", "(x), got 0"),
        use(
            "bitcast %a {dtype = i32} : tensor<15xi32>", "graph-structure", "is marked tensor<15xi"
        ),
    ),
    "logical_not": (
        *_unary("logical_not", "p", wrong="i", result="3x5xi1")[:5],
        use("logical_not %a : tensor<3x5xf32>", "ill-typed", "requires elements of i1"),
    ),
    "clip": (
        use("clip %a, %b : tensor<3x5xf32>", "graph-structure", "(x, low, high), got 2"),
        use("clip %a, %t, %b : tensor<3x5xf32>", "ill-typed", "requires operands of one type"),
        use("clip %a, %b, %d : tensor<3x5xf32>", "ill-typed", "requires operands of one type"),
        use("clip %p, %p, %p : tensor<3x5xi1>", "ill-typed", "requires elements of f32"),
        use("clip %a, %b, %a : tensor<5x3xf32>", "graph-structure", "is marked tensor<5x3xf32>"),
        use("clip %a, %b, %q : tensor<3x5xf32>", "undefined-name", "value %q is not defined"),
    ),
    "select": (
        use("select %a, %a, %b : tensor<3x5xf32>", "ill-typed", "condition of type tensor<3x5xi1>"),
        use("select %p, %a, %d : tensor<3x5xf32>", "ill-typed", "requires choices of one type"),
        use("select %p, %t, %t : tensor<5x3xf32>", "ill-typed", "condition of type tensor<5x3xi1>"),
        use("select %p, %a : tensor<3x5xf32>", "graph-structure", "got 2"),
        use("select %p, %a, %b : tensor<3x5xi1>", "graph-structure", "is marked tensor<3x5xi1>"),
        use("select %p, %a, %q : tensor<3x5xf32>", "undefined-name", "value %q is not defined"),
    ),
    "cast": (
        use("cast %a : tensor<3x5xf64>", "bad-value", "parameter `dtype` is required"),
        use('cast %a {dtype = "f64"} : tensor<3x5xf64>', "bad-value", "`dtype` requires"),
        use("cast %a {dtype = f64} : tensor<3x5xf32>", "graph-structure", "gives tensor<3x5xf64>"),
        use("cast {dtype = f64} : tensor<3x5xf64>", "graph-structure", "(x), got 0"),
        use("cast %a {dtype = f64} : tensor<15xf64>", "graph-structure", "is marked tensor<15xf"),
    ),
    "drop": (
        use("drop %a {rate = 1.5} : tensor<3x5xf32>", "bad-value", "a rate from 0 to 1, got 1.5"),
        use("drop %a : tensor<3x5xf32>", "bad-value", "parameter `rate` is required"),
        use("drop %i {rate = 0.5} : tensor<3x5xi32>", "ill-typed", "requires elements of f32"),
        use("drop {rate = 0.5} : tensor<3x5xf32>", "graph-structure", "(x), got 0"),
        use("drop %a {rate = 0.5} : tensor<5x3xf32>", "graph-structure", "is marked tensor<5x3"),
    ),
    "running_statistic": (
        use(
            "running_statistic %a, %b {momentum = -1.0} : tensor<3x5xf32>",
            "bad-value",
            "a momentum from 0 to 1, got -1",
        ),
        use(
            "running_statistic %a, %b : tensor<3x5xf32>",
            "bad-value",
            "parameter `momentum` is required",
        ),
        use(
            "running_statistic %a, %t {momentum = 0.5} : tensor<3x5xf32>",
            "ill-typed",
            "requires operands of one type",
        ),
        use(
            "running_statistic %a {momentum = 0.5} : tensor<3x5xf32>",
            "graph-structure",
            "(running, seen, mean*), got 1",
        ),
        use(
            "running_statistic %a, %a, %a, %a {momentum = 0.5} : tensor<3x5xf32>",
            "ill-typed",
            "requires one mean or none, got 2",
        ),
        use(
            "running_statistic %i, %i {momentum = 0.5} : tensor<3x5xi32>",
            "ill-typed",
            "requires elements of f32",
        ),
    ),
    "stop_gradient": _unary("stop_gradient", "a", wrong="i")[:5],
    # reductions
    **{n: _reduction(n) for n in ("reduce_sum", "reduce_max", "reduce_min")},
    "broadcast": (
        use("broadcast %a {dims = [6, 5]} : tensor<6x5xf32>", "shape-mismatch", "grown from 1"),
        use("broadcast %v {dims = [3, 5]} : tensor<3x5xf32>", "shape-mismatch", "the same rank"),
        use("broadcast %n {dims = [8, 5]} : tensor<8x5xf32>", "shape-mismatch", "grown from 1"),
        use("broadcast %c {dims = [3, -5]} : tensor<3x5xf32>", "shape-mismatch", "got tensor<1x5"),
        use("broadcast %c : tensor<3x5xf32>", "bad-value", "parameter `dims` is required"),
        use("broadcast %c {dims = [3, 5]} : tensor<4x5xf32>", "graph-structure", "gives tensor<3"),
    ),
    # movement
    "reshape": (
        use("reshape %a {dims = [4, 4]} : tensor<4x4xf32>", "shape-mismatch", "as many elements"),
        use("reshape %n {dims = [40]} : tensor<40xf32>", "shape-mismatch", "as many elements"),
        use("reshape %n {dims = [N, N]} : tensor<NxNxf32>", "shape-mismatch", "as many elements"),
        use("reshape %a : tensor<15xf32>", "bad-value", "parameter `dims` is required"),
        use("reshape %a {dims = [15]} : tensor<15xf64>", "graph-structure", "gives tensor<15xf32"),
        use("reshape %a, %b {dims = [15]} : tensor<15xf32>", "graph-structure", "got 2"),
    ),
    "transpose": (
        use("transpose %a {permutation = [0]} : tensor<3xf32>", "ill-typed", "of the 2 axes"),
        use("transpose %a {permutation = [0, 0]} : tensor<3x3xf32>", "ill-typed", "a permutation"),
        use("transpose %a {permutation = [1, 2]} : tensor<5x3xf32>", "ill-typed", "got [1, 2]"),
        use("transpose %a {permutation = [-1, 0]} : tensor<5x3xf32>", "ill-typed", "got [-1, 0]"),
        use("transpose %a : tensor<5x3xf32>", "bad-value", "`permutation` is required"),
        use("transpose %a {permutation = [1, 0]} : tensor<3x5xf32>", "graph-structure", "gives"),
    ),
    "slice": (
        use(
            "slice %n {starts = [1, 0], stops = [N, 5], steps = [1, 1]} : tensor<Nx5xf32>",
            "graph-structure",
            "gives tensor<NM1x5xf32>",
        ),
        use(
            "slice %n {starts = [1, 0], stops = [N, 5], steps = [2, 1]} : tensor<Nx5xf32>",
            "bad-value",
            "requires a step of 1 where a part is taken of the dimension N",
        ),
        use(
            "slice %n {starts = [0, 0], stops = [2, 5], steps = [1, 1]} : tensor<2x5xf32>",
            "ill-typed",
            "requires 2 elements of N in every call, which is not shown: give `behind` a dim that "
            "is N - 2, got 0",
        ),
        use(
            "slice %n {starts = [N, 0], stops = [2, 5], steps = [1, 1], behind = [N, 0]} : "
            "tensor<2x5xf32>",
            "ill-typed",
            "a dim that is N - 2, got N",
        ),
        use(
            "slice %a {starts = [0, 0], stops = [3, 5], steps = [1, 1], behind = [0]} : "
            "tensor<3x5xf32>",
            "ill-typed",
            "requires `behind` of no axis or all 2",
        ),
        use(
            "slice %a {starts = [0], stops = [3], steps = [1]} : tensor<3x5xf32>",
            "ill-typed",
            "start, stop and step of 2 axes",
        ),
        use(
            "slice %a {starts = [0, 0], stops = [3, 6], steps = [1, 1]} : tensor<3x6xf32>",
            "bad-value",
            "0 <= start <= stop <= 5",
        ),
        use(
            "slice %a {starts = [2, 0], stops = [1, 5], steps = [1, 1]} : tensor<0x5xf32>",
            "bad-value",
            "0 <= start <= stop <= 3",
        ),
        use(
            "slice %a {starts = [0, 0], stops = [3, 5], steps = [1, 0]} : tensor<3x5xf32>",
            "bad-value",
            "a step of at least 1",
        ),
        use("slice %a {starts = [0, 0]} : tensor<3x5xf32>", "bad-value", "`stops` is required"),
        use(f"slice %a {{{_SLICE}}} : tensor<3x4xf32>", "graph-structure", "gives tensor<3x5xf32>"),
    ),
    "pad": (
        use(
            "pad %n {low = [1, 0], high = [0, 0], inner = [0, 0]} : tensor<Nx5xf32>",
            "graph-structure",
            "gives tensor<NA1x5xf32>",
        ),
        use(
            "pad %n {low = [0, 0], high = [0, 0], inner = [1, 0]} : tensor<Nx5xf32>",
            "ill-typed",
            "requires nothing between elements of N, got 1",
        ),
        use(
            "pad %a {low = [1], high = [1], inner = [0]} : tensor<5x5xf32>",
            "ill-typed",
            "low, high and inner of 2 axes",
        ),
        use(
            "pad %a {low = [-1, 0], high = [0, 0], inner = [0, 0]} : tensor<2x5xf32>",
            "bad-value",
            "amounts of at least 0",
        ),
        use("pad %a {low = [0, 0]} : tensor<3x5xf32>", "bad-value", "parameter `high` is required"),
        use(f"pad %a {{{_PAD}, value = x}} : tensor<4x5xf32>", "parse", ""),
        use(f"pad %a {{{_PAD}}} : tensor<3x5xf32>", "graph-structure", "gives tensor<4x5xf32>"),
        use(f"pad {{{_PAD}}} : tensor<4x5xf32>", "graph-structure", "(x), got 0"),
    ),
    "concat": (
        use("concat {axis = 0} : tensor<3x5xf32>", "ill-typed", "at least one operand"),
        use("concat %a, %b {axis = 2} : tensor<3x5xf32>", "ill-typed", "axis below the rank 2"),
        use("concat %a, %t {axis = 0} : tensor<8x5xf32>", "shape-mismatch", "agree but for axis 0"),
        use("concat %a, %d {axis = 0} : tensor<6x5xf32>", "shape-mismatch", "operands that agree"),
        use("concat %n, %a {axis = 0} : tensor<Nx5xf32>", "graph-structure", "gives tensor<NA3x5"),
        use("concat %n, %a, %a {axis = 0} : tensor<Nx5xf32>", "ill-typed", "requires two operands"),
        use("concat %a, %b : tensor<6x5xf32>", "bad-value", "parameter `axis` is required"),
        use("concat %a, %b {axis = 0} : tensor<3x10xf32>", "graph-structure", "gives tensor<6x5"),
    ),
    "reverse": (
        use("reverse %a {axes = [2]} : tensor<3x5xf32>", "ill-typed", "ascending axes below"),
        use("reverse %a {axes = [1, 0]} : tensor<3x5xf32>", "ill-typed", "got [1, 0]"),
        use("reverse %a {axes = [-1]} : tensor<3x5xf32>", "ill-typed", "got [-1]"),
        use("reverse %a : tensor<3x5xf32>", "bad-value", "parameter `axes` is required"),
        use("reverse %a {axes = [1]} : tensor<5x3xf32>", "graph-structure", "gives tensor<3x5xf"),
        use("reverse %a, %b {axes = [1]} : tensor<3x5xf32>", "graph-structure", "got 2"),
    ),
    "patches": (
        use(
            "patches %w {axis = 1, sizes = [5, 2], strides = [1, 1]} : tensor<2x1x5x5x2xf32>",
            "bad-value",
            "requires a window of 1 to 4, got 5",
        ),
        use(
            "patches %w {axis = 1, sizes = [0, 2], strides = [1, 1]} : tensor<2x5x5x0x2xf32>",
            "bad-value",
            "requires a window of 1 to 4, got 0",
        ),
        use(
            "patches %w {axis = 2, sizes = [2, 2], strides = [1, 1]} : tensor<2x4x6xf32>",
            "ill-typed",
            "one size and one stride for each of the axes from 2 on",
        ),
        use(
            "patches %w {axis = 1, sizes = [2, 2], strides = [1]} : tensor<2x3x5x2x2xf32>",
            "ill-typed",
            "got 2 and 1",
        ),
        use(
            "patches %w {axis = 1, sizes = [2, 2], strides = [1, 0]} : tensor<2x3x5x2x2xf32>",
            "bad-value",
            "strides of at least 1",
        ),
        use("patches %w {axis = 1} : tensor<2x4x6xf32>", "bad-value", "`sizes` is required"),
        use(
            f"patches %w {{{_WINDOWS}}} : tensor<2x4x6xf32>", "graph-structure", "gives tensor<2x3"
        ),
    ),
    "overlap_add": (
        use(
            "overlap_add %s {axis = 0, extents = [9], strides = [1]} : tensor<9x5xf32>",
            "shape-mismatch",
            "requires the windows of extents [9]",
        ),
        use(
            "overlap_add %s {axis = 0, extents = [6], strides = [0]} : tensor<6x5xf32>",
            "bad-value",
            "strides of at least 1",
        ),
        use(
            "overlap_add %s {axis = 0, extents = [6], strides = [1, 1]} : tensor<6x5xf32>",
            "ill-typed",
            "got 1 and 2",
        ),
        use(
            "overlap_add %s {axis = 2, extents = [6], strides = [1]} : tensor<4x3xf32>",
            "ill-typed",
            "one size and one stride for each",
        ),
        use("overlap_add %s {axis = 0} : tensor<6x5xf32>", "bad-value", "`extents` is required"),
        use(f"overlap_add {{{_EXTENTS}}} : tensor<6x5xf32>", "graph-structure", "got 0"),
    ),
    **{
        name: (
            use(
                f"{name} {given} {{{numbers(strides='[1, 1, 1]')}}} : {result}",
                "ill-typed",
                "requires one or two walked axes from 1 on, then one of channels",
            ),
            use(
                f"{name} {given} {{{numbers(low='[0, 0]')}}} : {result}",
                "ill-typed",
                "requires a stride, a dilation, low and high for each of 1 axes",
            ),
            use(
                f"{name} {given} {{{numbers(dilations='[0]')}}} : {result}",
                "bad-value",
                "requires strides and dilations of at least 1",
            ),
            use(
                f"{name} {given} {{{numbers(dilations='[9]')}}} : {result}",
                "bad-value",
                "requires windows that fit into",
            ),
            use(
                f"{name} {wrong} {{{numbers()}}} : {result}",
                "shape-mismatch",
                "requires dims [",
            ),
            use(f"{name} %r, %d {{{numbers()}}} : {result}", "ill-typed", "of one element type"),
            use(
                f"{name} {given} {{{numbers()}}} : tensor<3xf32>",
                "graph-structure",
                f"gives {result}, but is marked",
            ),
        )
        for name, given, wrong, numbers, result in (
            ("depthwise", "%r, %g", "%r, %k", _depthwise(), "tensor<2x2x5xf32>"),
            (
                "depthwise_data_grad",
                "%r, %g",
                "%s, %k",
                _depthwise("extents = [4], "),
                "tensor<2x4x5xf32>",
            ),
            (
                "depthwise_weight_grad",
                "%r, %r",
                "%r, %s",
                _depthwise("sizes = [1], ", "sizes = [2], "),
                "tensor<1x5xf32>",
            ),
        )
    },
    # looked-up sums
    "gather": (
        use("gather %a, %b : tensor<3x5xf32>", "ill-typed", "requires elements of i32"),
        use("gather %a, %l : tensor<3x5xf32>", "ill-typed", "requires elements of i32"),
        use("gather %i, %i : tensor<3x5xi32>", "ill-typed", "requires elements of f32, f64"),
        use(
            "gather %a, %j : tensor<2x5xf32>",
            "shape-mismatch",
            "equal numbers of rows, got 3 and 2",
        ),
        use("gather %v, %i : tensor<3x5xf32>", "ill-typed", "operands of rank 2"),
        use("gather %n, %i : tensor<3x5xf32>", "shape-mismatch", "numbers of rows, got N and 3"),
        use("gather %a : tensor<3x5xf32>", "graph-structure", "(x, index), got 1"),
    ),
    "top_indices": (
        use("top_indices %a {count = 6} : tensor<3x6xi32>", "bad-value", "a count from 1 to the 5"),
        use("top_indices %a {count = 0} : tensor<3x0xi32>", "bad-value", "columns, got 0"),
        use("top_indices %a : tensor<3x2xi32>", "bad-value", "parameter `count` is required"),
        use("top_indices %i {count = 2} : tensor<3x2xi32>", "ill-typed", "elements of f32, f64"),
        use("top_indices %v {count = 2} : tensor<2xi32>", "ill-typed", "an operand of rank 2"),
        use("top_indices %a {count = 2} : tensor<3x2xf32>", "graph-structure", "is marked tensor"),
        use("top_indices %a, %b {count = 2} : tensor<3x2xi32>", "graph-structure", "got 2"),
    ),
    "scatter_add": (
        use("scatter_add %a, %j {size = 7} : tensor<3x7xf32>", "shape-mismatch", "got 3 and 2"),
        use("scatter_add %t, %i {size = 7} : tensor<5x7xf32>", "shape-mismatch", "got 5 and 3"),
        use("scatter_add %a, %i {size = -1} : tensor<3x7xf32>", "bad-value", "size of at least 0"),
        use("scatter_add %a, %b {size = 7} : tensor<3x7xf32>", "ill-typed", "elements of i32"),
        use("scatter_add %a, %i : tensor<3x7xf32>", "bad-value", "parameter `size` is required"),
        use(
            "scatter_add %a, %i {size = 7} : tensor<3x5xf32>",
            "graph-structure",
            "gives tensor<3x7xf",
        ),
    ),
    "sparse_product": (
        use("sparse_product %a, %t, %j : tensor<3x3xf32>", "shape-mismatch", "dims of x and index"),
        use(
            "sparse_product %a, %d, %i : tensor<3x5xf32>", "ill-typed", "requires one element type"
        ),
        use("sparse_product %a, %t, %a : tensor<3x3xf32>", "ill-typed", "elements of i32"),
        use("sparse_product %a, %v, %i : tensor<3x5xf32>", "ill-typed", "operands of rank 2"),
        use(
            "sparse_product %a, %i : tensor<3x5xf32>", "graph-structure", "(x, table, index), got 2"
        ),
        use(
            "sparse_product %a, %t, %i : tensor<3x5xf32>",
            "graph-structure",
            "gives tensor<3x3xf32>",
        ),
    ),
    "sampled_product": (
        use(
            "sampled_product %a, %t, %i : tensor<3x5xf32>",
            "shape-mismatch",
            "widths of x and table",
        ),
        use("sampled_product %a, %b, %j : tensor<2x5xf32>", "shape-mismatch", "numbers of rows"),
        use(
            "sampled_product %a, %d, %i : tensor<3x5xf32>", "ill-typed", "requires one element type"
        ),
        use("sampled_product %a, %b, %l : tensor<3x5xf32>", "ill-typed", "elements of i32"),
        use(
            "sampled_product %a, %b, %i {columns = true} : tensor<3x5xf32>",
            "shape-mismatch",
            "widths of",
        ),
        use(
            "sampled_product %a, %b, %i {columns = 1} : tensor<3x5xf32>",
            "bad-value",
            "`columns` requ",
        ),
    ),
    "transposed_sparse_product": (
        use(
            "transposed_sparse_product %a, %t, %i {size = 7} : tensor<7x3xf32>",
            "shape-mismatch",
            "of rows",
        ),
        use(
            "transposed_sparse_product %a, %b, %j {size = 7} : tensor<7x5xf32>",
            "shape-mismatch",
            "x and index",
        ),
        use(
            "transposed_sparse_product %a, %b, %i {size = -7} : tensor<7x5xf32>",
            "bad-value",
            "a size of at",
        ),
        use(
            "transposed_sparse_product %a, %b, %i : tensor<7x5xf32>",
            "bad-value",
            "`size` is required",
        ),
        use(
            "transposed_sparse_product %a, %d, %i {size = 7} : tensor<7x5xf32>",
            "ill-typed",
            "one element type",
        ),
        use(
            "transposed_sparse_product %a, %b, %i {size = 7} : tensor<5x7xf32>",
            "graph-structure",
            "gives ten",
        ),
    ),
    # products
    "matmul": (
        use("matmul %a, %b : tensor<3x5xf32>", "shape-mismatch", "the inner dimensions to agree"),
        use("matmul %n, %n : tensor<NxNxf32>", "shape-mismatch", "got 5 and N"),
        use("matmul %a, %v : tensor<3xf32>", "ill-typed", "requires two"),
        use(
            "matmul %a, %d {transpose_b = true} : tensor<3x3xf32>", "ill-typed", "one element type"
        ),
        use("matmul %i, %i {transpose_b = true} : tensor<3x3xi32>", "ill-typed", "elements of f32"),
        use(
            "matmul %a, %t {contract = 0} : tensor<3x3xf32>", "ill-typed", "contract of at least 1"
        ),
        use(
            "matmul %r, %s {batch = 1} : tensor<2x3x5xf32>", "shape-mismatch", "equal batch dimens"
        ),
        use("matmul %a, %t : tensor<5x5xf32>", "graph-structure", "gives tensor<3x3xf32>"),
        use("matmul %a : tensor<3x3xf32>", "graph-structure", "(a, b), got 1"),
    ),
    "random_uniform": (
        use("random_uniform %i, %i : tensor<3x5xf32>", "ill-typed", "requires elements of i64"),
        use("random_uniform %a, %a : tensor<3x5xf32>", "ill-typed", "requires elements of i64"),
        use("random_uniform %l, %i : tensor<3x5xf32>", "ill-typed", "operands of one type"),
        use("random_uniform %l : tensor<3x5xf32>", "graph-structure", "(counter, key), got 1"),
        use("random_uniform %l, %l : tensor<3x5xf64>", "graph-structure", "gives tensor<3x5xf32>"),
    ),
}
"""By operation."""
