"""Wrong uses of every tensor operation as IR text, each with the one message that it gets.

A use is what stands in the body of a function with the arguments of `ARGUMENTS`; the comment
`// error: slug: substring` announces the message as golden files do. At least `LEAST` uses for each
operation; those that stand alone in kernels take over the uses of the operation they are a form of.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.ops.kernel import FORMS

LEAST = 5

ARGUMENTS = {
    "a": "3x5xf32",
    "b": "3x5xf32",
    "d": "3x5xf64",
    "t": "5x3xf32",
    "i": "3x5xi32",
    "l": "3x5xi64",
    "p": "3x5xi1",
    "v": "5xf32",
    "c": "1x5xf32",
    "r": "2x3x5xf32",
    "w": "2x4x6xf32",
    "s": "4x3x5xf32",
    "j": "2x5xi32",
    "n": "Nx5xf32",
    "m": "Nx5xi32",
    "o": "2x4xf32",
    "f": "1x1xf32",
    "g": "2x5xf32",
    "k": "2x3xf32",
}


def text_of(use: str) -> str:
    """The module in which a use stands; the use itself if it is a whole function."""
    if use.startswith("func"):
        return use
    arguments = ", ".join(f"%{name}: tensor<{type}> input" for name, type in ARGUMENTS.items())
    return f"dim N <= 8\n\nfunc @main({arguments}) {{\n  {use}\n  return\n}}\n"


def _main(body: str) -> str:
    """A whole function, where the end of it is what is wrong."""
    return f"func @main(%a: tensor<3x5xf32> input) {{\n  {body}\n}}\n"


def _kernel(body: str, type: str = "3x5xf32", *, at: str = "") -> str:
    """A kernel over %a, or %t for its type, with this body on the third line after its name."""
    argument = next(name for name, t in ARGUMENTS.items() if t == type)
    head = f"%y = kernel %{argument} {at}: tensor<3x5xf32>"
    return f"{head}\n  {{\n  ^(%x: tensor<{type}>):\n  {body}\n  }}"


def _fused(body: str, settings: str = 'split = ["cols", 8]') -> str:
    """A product of %a and %t with this body on the third line after its name."""
    head = f"%y = gemm.fused %a, %t {{{settings}}} : tensor<3x3xf32>"
    return f"{head}\n  {{\n  ^(%x: tensor<3x3xf32>):\n  {body}\n  }}"


def _loop(
    slug: str,
    message: str,
    *,
    numbers: str = "count = 2, sequences = 1, carried = 1",
    types: str = "tensor<3x5xf32>, tensor<2x3x5xf32>",
    element: str = "3x5xf32",
    body: str = "yield %u, %e",
    at: int = 0,
) -> str:
    """A loop over %r that carries %a, the message `at` lines behind its first one."""
    error = f" // error: {slug}: {message}"
    lines = [
        f"%h, %y = loop %r, %a {{{numbers}}} : {types} {{",
        f"  ^(%e: tensor<{element}>, %u: tensor<3x5xf32>):",
        f"  {body}",
        "  }",
    ]
    lines[at] += error
    return "\n".join(lines)


def _update(
    slug: str,
    message: str,
    *,
    operands: str = "%t, %f, %g, %k, %j",
    numbers: str = "tables = 1, numbers = 1",
    taken: str = "%w0: tensor<1x3xf32>, %g0: tensor<1x3xf32>, %r0: tensor<1x1xf32>",
    body: str = "yield %g0",
    table: str = "5x3xf32",
) -> str:
    """A learner's rule on rows of %t that %j looks up, the message at its first line."""
    types = [table, "2x5xi32", "5xi32", "5xi32", "5x32xf32"]
    marked = ", ".join(f"tensor<{type}>" for type in types)
    return (
        f"%y, %slot, %rows, %places, %sums = update_rows {operands} {{{numbers}}} : {marked} {{ "
        f"// error: {slug}: {message}\n  ^({taken}):\n  {body}\n  }}"
    )


def _use(line: str, slug: str, message: str) -> str:
    """One operation, the message at its line."""
    return f"%y = {line} // error: {slug}: {message}"


def _unary(name: str, accepted: str, *, wrong: str, result: str = "3x5xf32") -> tuple[str, ...]:
    """`accepted` and `wrong`: arguments of element types that fit and that do not."""
    return (
        _use(f"{name} : tensor<{result}>", "graph-structure", "requires the operands (x), got 0"),
        _use(
            f"{name} %{accepted}, %{accepted} : tensor<{result}>",
            "graph-structure",
            "requires the operands (x), got 2",
        ),
        _use(f"{name} %{accepted} : tensor<5x3xf32>", "graph-structure", "is marked tensor<5x3xf3"),
        _use(f"{name} %{accepted} {{axis = 0}} : tensor<{result}>", "bad-value", "no parameter"),
        _use(f"{name} %q : tensor<{result}>", "undefined-name", "value %q is not defined"),
        _use(
            f"{name} %{wrong} : tensor<{ARGUMENTS[wrong]}>", "ill-typed", "requires elements of f32"
        ),
    )


def _binary(
    name: str, *, wrong: str, result: str = "f32", operands: str = "x, y", of: str = "a"
) -> tuple[str, ...]:
    """`of`: an argument of a type that fits, `wrong`: of one that does not."""
    marked = f"3x5x{result}"
    return (
        _use(
            f"{name} %{of} : tensor<{marked}>",
            "graph-structure",
            f"requires the operands ({operands}), got 1",
        ),
        _use(f"{name} %{of}, %{of}, %{of} : tensor<{marked}>", "graph-structure", "got 3"),
        _use(
            f"{name} %{of}, %{'t' if of == 'a' else 'd'} : tensor<{marked}>",
            "ill-typed",
            "requires operands of one type, got tensor<3x5x",
        ),
        _use(f"{name} %{of}, %{wrong} : tensor<{marked}>", "ill-typed", "operands of one type"),
        _use(f"{name} %{of}, %{of} : tensor<3x1x{result}>", "graph-structure", "is marked tensor<"),
        _use(f"{name} %{of}, %{of} {{axis = 0}} : tensor<{marked}>", "bad-value", "no parameter"),
    )


def _arithmetic(name: str) -> tuple[str, ...]:
    truth = _use(f"{name} %p, %p : tensor<3x5xi1>", "ill-typed", "requires elements of f32, f64")
    return (*_binary(name, wrong="d"), truth)


def _logic(name: str) -> tuple[str, ...]:
    wrong = _use(f"{name} %a, %a : tensor<3x5xf32>", "ill-typed", "requires elements of i1")
    return (*_binary(name, wrong="a", result="i1", of="p"), wrong)


def _reduction(name: str) -> tuple[str, ...]:
    return (
        _use(f"{name} %a {{axes = [2]}} : tensor<3x1xf32>", "ill-typed", "ascending axes below"),
        _use(f"{name} %a {{axes = [1, 0]}} : tensor<1x1xf32>", "ill-typed", "got [1, 0]"),
        _use(f"{name} %a {{axes = [1, 1]}} : tensor<3x1xf32>", "ill-typed", "got [1, 1]"),
        _use(f"{name} %a {{axes = [-1]}} : tensor<3x1xf32>", "ill-typed", "got [-1]"),
        _use(f"{name} %a : tensor<3x1xf32>", "bad-value", "parameter `axes` is required"),
        _use(f'{name} %a {{axes = "all"}} : tensor<3x1xf32>', "bad-value", "a list of an integer"),
        _use(f"{name} %p {{axes = [1]}} : tensor<3x1xi1>", "ill-typed", "requires elements of f32"),
        _use(f"{name} %a {{axes = [1]}} : tensor<3xf32>", "graph-structure", "gives tensor<3x1xf"),
    )


_SLICE = "starts = [0, 0], stops = [3, 5], steps = [1, 1]"
_PAD = "low = [0, 0], high = [1, 0], inner = [0, 0]"
_WINDOWS = "axis = 1, sizes = [2, 2], strides = [1, 1]"
_TWO_PLACES = '{at = ["arena:0", "arena:64"]} '
_EXTENTS = "axis = 0, extents = [5], strides = [1]"

_TENSOR: Mapping[str, tuple[str, ...]] = {
    # constants
    "constant": (
        _use(
            "constant {type = tensor<2x2xf32>, value = [1.0, 2.0]} : tensor<2x2xf32>",
            "ill-typed",
            "one value or one per element of tensor<2x2xf32>, got 2",
        ),
        _use(
            "constant {type = tensor<2xi32>, value = [1.5]} : tensor<2xi32>",
            "ill-typed",
            "requires values that fit i32",
        ),
        _use(
            "constant {type = tensor<2xi1>, value = [1]} : tensor<2xi1>",
            "ill-typed",
            "requires values that fit i1",
        ),
        _use(
            "constant {type = tensor<Nx2xf32>, value = [1.0, 2.0]} : tensor<Nx2xf32>",
            "ill-typed",
            "requires one value",
        ),
        _use("constant {value = [1.0]} : tensor<2xf32>", "bad-value", "`type` is required"),
        _use(
            "constant %a {type = tensor<2xf32>, value = [1.0]} : tensor<2xf32>",
            "graph-structure",
            "got 1",
        ),
        _use(
            "constant {type = tensor<2xf32>, value = [1.0]} : tensor<3xf32>",
            "graph-structure",
            "is marked tensor<3xf32>",
        ),
    ),
    "iota": (
        _use("iota {type = tensor<2x3xi32>, axis = 2} : tensor<2x3xi32>", "ill-typed", "axis belo"),
        _use("iota {type = tensor<2x3xi32>, axis = -1} : tensor<2x3xi32>", "ill-typed", "got -1"),
        _use("iota {type = tensor<2xi1>, axis = 0} : tensor<2xi1>", "ill-typed", "elements of f32"),
        _use("iota {type = tensor<2xi32>} : tensor<2xi32>", "bad-value", "`axis` is required"),
        _use("iota %a {type = tensor<2xi32>, axis = 0} : tensor<2xi32>", "graph-structure", "got"),
        _use("iota {type = tensor<i32>, axis = 0} : tensor<i32>", "ill-typed", "axis below 0"),
    ),
    "extent": (
        _use("extent {dim = N, type = tensor<2xf32>} : tensor<2xf32>", "ill-typed", "one element"),
        _use("extent {dim = N, type = tensor<1xi32>} : tensor<1xi32>", "ill-typed", "elements of"),
        _use("extent {type = tensor<1xf32>} : tensor<1xf32>", "bad-value", "`dim` is required"),
        _use('extent {dim = "N", type = tensor<f32>} : tensor<f32>', "bad-value", "`dim` requires"),
        _use("extent %a {dim = N, type = tensor<f32>} : tensor<f32>", "graph-structure", "got 1"),
        _use("extent {dim = N, type = tensor<f32>} : tensor<1xf32>", "graph-structure", "is marke"),
    ),
    # element by element
    **{n: _arithmetic(n) for n in ("add", "sub", "mul", "div", "maximum", "minimum")},
    "power": (
        *_binary("power", wrong="d"),
        _use("power %i, %i : tensor<3x5xi32>", "ill-typed", "requires elements of f32, f64"),
    ),
    "neg": _unary("neg", "a", wrong="p"),
    "abs": _unary("abs", "a", wrong="p"),
    **{n: _unary(n, "a", wrong="i") for n in ("exp", "log", "sqrt", "tanh", "sigmoid")},
    **{n: _unary(n, "a", wrong="i") for n in ("sin", "cos", "floor", "erf", "expm1", "log1p")},
    **{
        n: _binary(n, wrong="d", result="i1")
        for n in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
    },
    **{n: _logic(n) for n in ("logical_and", "logical_or")},
    "logical_not": (
        *_unary("logical_not", "p", wrong="i", result="3x5xi1")[:5],
        _use("logical_not %a : tensor<3x5xf32>", "ill-typed", "requires elements of i1"),
    ),
    "select": (
        _use(
            "select %a, %a, %b : tensor<3x5xf32>", "ill-typed", "condition of type tensor<3x5xi1>"
        ),
        _use("select %p, %a, %d : tensor<3x5xf32>", "ill-typed", "requires choices of one type"),
        _use(
            "select %p, %t, %t : tensor<5x3xf32>", "ill-typed", "condition of type tensor<5x3xi1>"
        ),
        _use("select %p, %a : tensor<3x5xf32>", "graph-structure", "got 2"),
        _use("select %p, %a, %b : tensor<3x5xi1>", "graph-structure", "is marked tensor<3x5xi1>"),
        _use("select %p, %a, %q : tensor<3x5xf32>", "undefined-name", "value %q is not defined"),
    ),
    "cast": (
        _use("cast %a : tensor<3x5xf64>", "bad-value", "parameter `dtype` is required"),
        _use('cast %a {dtype = "f64"} : tensor<3x5xf64>', "bad-value", "`dtype` requires"),
        _use("cast %a {dtype = f64} : tensor<3x5xf32>", "graph-structure", "gives tensor<3x5xf64>"),
        _use("cast {dtype = f64} : tensor<3x5xf64>", "graph-structure", "(x), got 0"),
        _use("cast %a {dtype = f64} : tensor<15xf64>", "graph-structure", "is marked tensor<15xf"),
    ),
    "stop_gradient": _unary("stop_gradient", "a", wrong="i")[:5],
    # reductions
    **{n: _reduction(n) for n in ("reduce_sum", "reduce_max", "reduce_min")},
    "broadcast": (
        _use("broadcast %a {dims = [6, 5]} : tensor<6x5xf32>", "shape-mismatch", "grown from 1"),
        _use("broadcast %v {dims = [3, 5]} : tensor<3x5xf32>", "shape-mismatch", "the same rank"),
        _use("broadcast %n {dims = [8, 5]} : tensor<8x5xf32>", "shape-mismatch", "grown from 1"),
        _use("broadcast %c {dims = [3, -5]} : tensor<3x5xf32>", "shape-mismatch", "got tensor<1x5"),
        _use("broadcast %c : tensor<3x5xf32>", "bad-value", "parameter `dims` is required"),
        _use("broadcast %c {dims = [3, 5]} : tensor<4x5xf32>", "graph-structure", "gives tensor<3"),
    ),
    # movement
    "reshape": (
        _use("reshape %a {dims = [4, 4]} : tensor<4x4xf32>", "shape-mismatch", "as many elements"),
        _use("reshape %n {dims = [40]} : tensor<40xf32>", "shape-mismatch", "as many elements"),
        _use("reshape %n {dims = [N, N]} : tensor<NxNxf32>", "shape-mismatch", "as many elements"),
        _use("reshape %a : tensor<15xf32>", "bad-value", "parameter `dims` is required"),
        _use("reshape %a {dims = [15]} : tensor<15xf64>", "graph-structure", "gives tensor<15xf32"),
        _use("reshape %a, %b {dims = [15]} : tensor<15xf32>", "graph-structure", "got 2"),
    ),
    "transpose": (
        _use("transpose %a {permutation = [0]} : tensor<3xf32>", "ill-typed", "of the 2 axes"),
        _use("transpose %a {permutation = [0, 0]} : tensor<3x3xf32>", "ill-typed", "a permutation"),
        _use("transpose %a {permutation = [1, 2]} : tensor<5x3xf32>", "ill-typed", "got [1, 2]"),
        _use("transpose %a {permutation = [-1, 0]} : tensor<5x3xf32>", "ill-typed", "got [-1, 0]"),
        _use("transpose %a : tensor<5x3xf32>", "bad-value", "`permutation` is required"),
        _use("transpose %a {permutation = [1, 0]} : tensor<3x5xf32>", "graph-structure", "gives"),
    ),
    "slice": (
        _use(
            "slice %n {starts = [1, 0], stops = [N, 5], steps = [1, 1]} : tensor<Nx5xf32>",
            "ill-typed",
            "requires all of the dimension N, got 1:N",
        ),
        _use(
            "slice %a {starts = [0], stops = [3], steps = [1]} : tensor<3x5xf32>",
            "ill-typed",
            "start, stop and step of 2 axes",
        ),
        _use(
            "slice %a {starts = [0, 0], stops = [3, 6], steps = [1, 1]} : tensor<3x6xf32>",
            "bad-value",
            "0 <= start <= stop <= 5",
        ),
        _use(
            "slice %a {starts = [2, 0], stops = [1, 5], steps = [1, 1]} : tensor<0x5xf32>",
            "bad-value",
            "0 <= start <= stop <= 3",
        ),
        _use(
            "slice %a {starts = [0, 0], stops = [3, 5], steps = [1, 0]} : tensor<3x5xf32>",
            "bad-value",
            "a step of at least 1",
        ),
        _use("slice %a {starts = [0, 0]} : tensor<3x5xf32>", "bad-value", "`stops` is required"),
        _use(
            f"slice %a {{{_SLICE}}} : tensor<3x4xf32>", "graph-structure", "gives tensor<3x5xf32>"
        ),
    ),
    "pad": (
        _use(
            "pad %n {low = [1, 0], high = [0, 0], inner = [0, 0]} : tensor<Nx5xf32>",
            "ill-typed",
            "requires the dimension N to stay whole",
        ),
        _use(
            "pad %a {low = [1], high = [1], inner = [0]} : tensor<5x5xf32>",
            "ill-typed",
            "low, high and inner of 2 axes",
        ),
        _use(
            "pad %a {low = [-1, 0], high = [0, 0], inner = [0, 0]} : tensor<2x5xf32>",
            "bad-value",
            "amounts of at least 0",
        ),
        _use(
            "pad %a {low = [0, 0]} : tensor<3x5xf32>", "bad-value", "parameter `high` is required"
        ),
        _use(f"pad %a {{{_PAD}, value = x}} : tensor<4x5xf32>", "parse", ""),
        _use(f"pad %a {{{_PAD}}} : tensor<3x5xf32>", "graph-structure", "gives tensor<4x5xf32>"),
        _use(f"pad {{{_PAD}}} : tensor<4x5xf32>", "graph-structure", "(x), got 0"),
    ),
    "concat": (
        _use("concat {axis = 0} : tensor<3x5xf32>", "ill-typed", "at least one operand"),
        _use("concat %a, %b {axis = 2} : tensor<3x5xf32>", "ill-typed", "axis below the rank 2"),
        _use(
            "concat %a, %t {axis = 0} : tensor<8x5xf32>", "shape-mismatch", "agree but for axis 0"
        ),
        _use("concat %a, %d {axis = 0} : tensor<6x5xf32>", "shape-mismatch", "operands that agree"),
        _use(
            "concat %n, %a {axis = 0} : tensor<Nx5xf32>", "ill-typed", "a fixed size along axis 0"
        ),
        _use("concat %a, %b : tensor<6x5xf32>", "bad-value", "parameter `axis` is required"),
        _use("concat %a, %b {axis = 0} : tensor<3x10xf32>", "graph-structure", "gives tensor<6x5"),
    ),
    "reverse": (
        _use("reverse %a {axes = [2]} : tensor<3x5xf32>", "ill-typed", "ascending axes below"),
        _use("reverse %a {axes = [1, 0]} : tensor<3x5xf32>", "ill-typed", "got [1, 0]"),
        _use("reverse %a {axes = [-1]} : tensor<3x5xf32>", "ill-typed", "got [-1]"),
        _use("reverse %a : tensor<3x5xf32>", "bad-value", "parameter `axes` is required"),
        _use("reverse %a {axes = [1]} : tensor<5x3xf32>", "graph-structure", "gives tensor<3x5xf"),
        _use("reverse %a, %b {axes = [1]} : tensor<3x5xf32>", "graph-structure", "got 2"),
    ),
    "windows": (
        _use(
            "windows %w {axis = 1, sizes = [5, 2], strides = [1, 1]} : tensor<2x1x5x5x2xf32>",
            "bad-value",
            "requires a window of 1 to 4, got 5",
        ),
        _use(
            "windows %w {axis = 1, sizes = [0, 2], strides = [1, 1]} : tensor<2x5x5x0x2xf32>",
            "bad-value",
            "requires a window of 1 to 4, got 0",
        ),
        _use(
            "windows %w {axis = 2, sizes = [2, 2], strides = [1, 1]} : tensor<2x4x6xf32>",
            "ill-typed",
            "one size and one stride for each of the axes from 2 on",
        ),
        _use(
            "windows %w {axis = 1, sizes = [2, 2], strides = [1]} : tensor<2x3x5x2x2xf32>",
            "ill-typed",
            "got 2 and 1",
        ),
        _use(
            "windows %w {axis = 1, sizes = [2, 2], strides = [1, 0]} : tensor<2x3x5x2x2xf32>",
            "bad-value",
            "strides of at least 1",
        ),
        _use("windows %w {axis = 1} : tensor<2x4x6xf32>", "bad-value", "`sizes` is required"),
        _use(
            f"windows %w {{{_WINDOWS}}} : tensor<2x4x6xf32>", "graph-structure", "gives tensor<2x3"
        ),
    ),
    "overlap_add": (
        _use(
            "overlap_add %s {axis = 0, extents = [9], strides = [1]} : tensor<9x5xf32>",
            "shape-mismatch",
            "requires the windows of extents [9]",
        ),
        _use(
            "overlap_add %s {axis = 0, extents = [6], strides = [0]} : tensor<6x5xf32>",
            "bad-value",
            "strides of at least 1",
        ),
        _use(
            "overlap_add %s {axis = 0, extents = [6], strides = [1, 1]} : tensor<6x5xf32>",
            "ill-typed",
            "got 1 and 2",
        ),
        _use(
            "overlap_add %s {axis = 2, extents = [6], strides = [1]} : tensor<4x3xf32>",
            "ill-typed",
            "one size and one stride for each",
        ),
        _use("overlap_add %s {axis = 0} : tensor<6x5xf32>", "bad-value", "`extents` is required"),
        _use(f"overlap_add {{{_EXTENTS}}} : tensor<6x5xf32>", "graph-structure", "got 0"),
    ),
    # looked-up sums
    "take": (
        _use("take %a, %b : tensor<3x5xf32>", "ill-typed", "requires elements of i32"),
        _use("take %a, %l : tensor<3x5xf32>", "ill-typed", "requires elements of i32"),
        _use("take %i, %i : tensor<3x5xi32>", "ill-typed", "requires elements of f32, f64"),
        _use(
            "take %a, %j : tensor<2x5xf32>", "shape-mismatch", "equal numbers of rows, got 3 and 2"
        ),
        _use("take %v, %i : tensor<3x5xf32>", "ill-typed", "operands of rank 2"),
        _use("take %n, %i : tensor<3x5xf32>", "shape-mismatch", "numbers of rows, got N and 3"),
        _use("take %a : tensor<3x5xf32>", "graph-structure", "(x, index), got 1"),
    ),
    "put_add": (
        _use("put_add %a, %j {size = 7} : tensor<3x7xf32>", "shape-mismatch", "got 3 and 2"),
        _use("put_add %t, %i {size = 7} : tensor<5x7xf32>", "shape-mismatch", "got 5 and 3"),
        _use("put_add %a, %i {size = -1} : tensor<3x7xf32>", "bad-value", "size of at least 0"),
        _use("put_add %a, %b {size = 7} : tensor<3x7xf32>", "ill-typed", "elements of i32"),
        _use("put_add %a, %i : tensor<3x7xf32>", "bad-value", "parameter `size` is required"),
        _use(
            "put_add %a, %i {size = 7} : tensor<3x5xf32>", "graph-structure", "gives tensor<3x7xf"
        ),
    ),
    "lookup_sum": (
        _use("lookup_sum %a, %t, %j : tensor<3x3xf32>", "shape-mismatch", "dims of x and index"),
        _use("lookup_sum %a, %d, %i : tensor<3x5xf32>", "ill-typed", "requires one element type"),
        _use("lookup_sum %a, %t, %a : tensor<3x3xf32>", "ill-typed", "elements of i32"),
        _use("lookup_sum %a, %v, %i : tensor<3x5xf32>", "ill-typed", "operands of rank 2"),
        _use("lookup_sum %a, %i : tensor<3x5xf32>", "graph-structure", "(x, table, index), got 2"),
        _use("lookup_sum %a, %t, %i : tensor<3x5xf32>", "graph-structure", "gives tensor<3x3xf32>"),
    ),
    "lookup_dot": (
        _use("lookup_dot %a, %t, %i : tensor<3x5xf32>", "shape-mismatch", "widths of x and table"),
        _use("lookup_dot %a, %b, %j : tensor<2x5xf32>", "shape-mismatch", "numbers of rows"),
        _use("lookup_dot %a, %d, %i : tensor<3x5xf32>", "ill-typed", "requires one element type"),
        _use("lookup_dot %a, %b, %l : tensor<3x5xf32>", "ill-typed", "elements of i32"),
        _use(
            "lookup_dot %a, %b, %i {columns = true} : tensor<3x5xf32>",
            "shape-mismatch",
            "widths of",
        ),
        _use(
            "lookup_dot %a, %b, %i {columns = 1} : tensor<3x5xf32>", "bad-value", "`columns` requ"
        ),
    ),
    "lookup_outer": (
        _use("lookup_outer %a, %t, %i {size = 7} : tensor<7x3xf32>", "shape-mismatch", "of rows"),
        _use(
            "lookup_outer %a, %b, %j {size = 7} : tensor<7x5xf32>", "shape-mismatch", "x and index"
        ),
        _use("lookup_outer %a, %b, %i {size = -7} : tensor<7x5xf32>", "bad-value", "a size of at"),
        _use("lookup_outer %a, %b, %i : tensor<7x5xf32>", "bad-value", "`size` is required"),
        _use(
            "lookup_outer %a, %d, %i {size = 7} : tensor<7x5xf32>", "ill-typed", "one element type"
        ),
        _use(
            "lookup_outer %a, %b, %i {size = 7} : tensor<5x7xf32>", "graph-structure", "gives ten"
        ),
    ),
    # products
    "matmul": (
        _use("matmul %a, %b : tensor<3x5xf32>", "shape-mismatch", "the inner dimensions to agree"),
        _use("matmul %n, %n : tensor<NxNxf32>", "shape-mismatch", "got 5 and N"),
        _use("matmul %a, %v : tensor<3xf32>", "ill-typed", "requires two"),
        _use(
            "matmul %a, %d {transpose_b = true} : tensor<3x3xf32>", "ill-typed", "one element type"
        ),
        _use(
            "matmul %i, %i {transpose_b = true} : tensor<3x3xi32>", "ill-typed", "elements of f32"
        ),
        _use(
            "matmul %a, %t {contract = 0} : tensor<3x3xf32>", "ill-typed", "contract of at least 1"
        ),
        _use(
            "matmul %r, %s {batch = 1} : tensor<2x3x5xf32>", "shape-mismatch", "equal batch dimens"
        ),
        _use("matmul %a, %t : tensor<5x5xf32>", "graph-structure", "gives tensor<3x3xf32>"),
        _use("matmul %a : tensor<3x3xf32>", "graph-structure", "(a, b), got 1"),
    ),
    "random_uniform": (
        _use("random_uniform %i, %i : tensor<3x5xf32>", "ill-typed", "requires elements of i64"),
        _use("random_uniform %a, %a : tensor<3x5xf32>", "ill-typed", "requires elements of i64"),
        _use("random_uniform %l, %i : tensor<3x5xf32>", "ill-typed", "operands of one type"),
        _use("random_uniform %l : tensor<3x5xf32>", "graph-structure", "(counter, key), got 1"),
        _use("random_uniform %l, %l : tensor<3x5xf64>", "graph-structure", "gives tensor<3x5xf32>"),
    ),
    # control
    "return": (
        _main("return %a // error@-1: parse: declares 0 results but returns 1"),
        _main(
            "return // error: graph-structure: a terminator must be the last operation\n  return"
        ),
        _main("return %q // error: undefined-name: value %q is not defined"),
        _main("return {axis = 1} // error: bad-value: no parameter `axis`"),
        _main("// error@-1: graph-structure: a block must end in a terminator"),
        _main(
            "%y = return : tensor<3x5xf32> // error: graph-structure: gives nothing, but is marked"
        ),
    ),
    "yield": (
        _main("yield // error: graph-structure: cannot end a function"),
        "yield // error: graph-structure: a terminator must be the last operation of its block",
        "yield %q // error: undefined-name: value %q is not defined",
        "yield {axis = 1} // error: bad-value: no parameter `axis`",
        _kernel("yield %x // error@-3: graph-structure: is marked tensor<3x5xf32>", "5x3xf32"),
    ),
    "kernel": (
        _kernel(
            "%z = exp %a : tensor<3x5xf32> // error: graph-structure: in this region\n  yield %z"
        ),
        _kernel("yield %x, %x // error@-3: graph-structure: is marked tensor<3x5xf32>"),
        _kernel(
            "%z = matmul %x, %x {transpose_b = true} : tensor<3x3xf32> "
            "// error@-3: graph-structure: `matmul` cannot stand in a kernel\n  yield %x"
        ),
        _kernel(
            "%z = constant {type = tensor<5xf32>, value = [0.0]} : tensor<5xf32> "
            "// error@-3: graph-structure: requires values of one rank\n  yield %x"
        ),
        _kernel("yield %x // error@-3: graph-structure: a place is", at='{at = ["arena:x"]} '),
        _kernel("yield %x // error@-3: graph-structure: 1 results but 2 places", at=_TWO_PLACES),
    ),
    "gemm.fused": (
        _fused("yield %x // error@-3: graph-structure: requires a split", "transpose_a = false"),
        _fused(
            'yield %x // error@-3: graph-structure: cuts "rows" or "cols", got \'diagonals\'',
            'split = ["diagonals", 8]',
        ),
        _fused(
            "%0 = reduce_max %x {axes = [1]} : tensor<3x1xf32>\n"
            "  %1 = broadcast %0 {dims = [3, 3]} : tensor<3x3xf32>\n"
            "  yield %1 // error@-5: graph-structure: over anything but all rows"
        ),
        _fused(
            "%0 = reduce_sum %x {axes = [0]} : tensor<1x3xf32>\n"
            "  %1 = broadcast %0 {dims = [3, 3]} : tensor<3x3xf32>\n"
            "  yield %1 // error@-5: graph-structure: a reduction that the body reads"
        ),
        _fused(
            "%0 = reduce_sum %x {axes = [0]} : tensor<1x3xf32>\n"
            "  %1 = exp %x : tensor<3x3xf32>\n"
            "  yield %1 // error@-5: graph-structure: parts of columns for sums",
            'split = ["rows", 3]',
        ),
        _fused(
            "%0 = matmul %x, %x : tensor<3x3xf32>\n"
            "  yield %0 // error@-4: graph-structure: `matmul`, which cannot stand in a kernel"
        ),
        _use(
            'gemm.fused %a, %b {split = ["cols", 8]} : tensor<3x5xf32>',
            "shape-mismatch",
            "requires the inner dimensions to agree",
        ),
    ),
    "loop": (
        _loop(
            "ill-typed",
            "a first dim of 3, got tensor<2x3x5xf32>",
            numbers="count = 3, sequences = 1, carried = 1",
        ),
        _loop("ill-typed", "got 2 operands", numbers="count = 2, sequences = 2, carried = 1"),
        _loop(
            "ill-typed",
            "of at least 0, got 2, 1 and -1",
            numbers="count = 2, sequences = 1, carried = -1",
        ),
        _loop(
            "ill-typed",
            "of at least 0, got -2, 1 and 1",
            numbers="count = -2, sequences = 1, carried = 1",
        ),
        _loop("bad-value", "`count` is required", numbers="sequences = 1, carried = 1"),
        _loop(
            "graph-structure",
            "passes tensor<3x5xf32> as operand 0 but its block takes tensor<5xf32>",
            element="5xf32",
            body="yield %u, %u",
        ),
        _loop(
            "graph-structure",
            "gives tensor<3x5xf32>, but is marked tensor<3x5xf32>, tensor<2x3x5xf32>",
            body="yield %e",
        ),
        _loop(
            "graph-structure",
            "carries tensor<3x5xf32> but yields tensor<5xf32>",
            types="tensor<5xf32>, tensor<2x3x5xf32>",
            body="%z = constant {type = tensor<5xf32>, value = [0.0]} : tensor<5xf32>\n"
            "  yield %z, %e",
        ),
        _loop("graph-structure", "not defined before its use", body="yield %a, %e", at=2),
        _loop(
            "graph-structure",
            "gives tensor<3x5xf32>, tensor<2x3x5xf32>, but is marked",
            types="tensor<3x5xf32>, tensor<3x5xf32>",
        ),
        _loop(
            "graph-structure",
            "has 2 results but 1 places",
            numbers='count = 2, sequences = 1, carried = 1, at = ["arena:0"]',
        ),
        _loop(
            "graph-structure",
            "carried value 0 is not what stack 3 keeps",
            numbers="count = 2, sequences = 1, carried = 1, history = [3]",
        ),
    ),
    # products with windows and pooling
    "conv": (
        _use(
            "conv %v, %s {axis = 0, strides = [1, 1]} : tensor<2x5xf32>",
            "ill-typed",
            "for one or two axes from 0 on, within the rank 1, got [1, 1]",
        ),
        _use(
            "conv %t, %s {axis = 0, strides = [0]} : tensor<2x5xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        _use("conv %t, %s {axis = 0, strides = []} : tensor<2x5xf32>", "ill-typed", "got []"),
        _use("conv %t, %s {axis = -1, strides = [1]} : tensor<2x5xf32>", "ill-typed", "from -1 on"),
        _use("conv %i, %s {axis = 0, strides = [1]} : tensor<2x5xi32>", "ill-typed", "elements of"),
        _use(
            "conv %d, %s {axis = 0, strides = [1]} : tensor<2x5xf64>",
            "ill-typed",
            "requires operands of one element type, got tensor<3x5xf64> and tensor<4x3x5xf32>",
        ),
        _use(
            "conv %n, %s {axis = 0, strides = [1]} : tensor<Nx5xf32>",
            "ill-typed",
            "requires known extents, got [N] in tensor<Nx5xf32>",
        ),
        _use(
            "conv %a, %s {axis = 0, strides = [1]} : tensor<0x5xf32>",
            "bad-value",
            "requires windows that fit into [3], got [4]",
        ),
        _use(
            "conv %a, %r {axis = 0, strides = [1]} : tensor<2x5xf32>",
            "shape-mismatch",
            "requires weights of 1 sizes, the channels [5] and features, got tensor<3x5xf32> and",
        ),
        _use(
            "conv %t, %k {axis = 0, strides = [1]} : tensor<4xf32>",
            "shape-mismatch",
            "and features, got tensor<5x3xf32> and tensor<2x3xf32>",
        ),
        _use(
            "conv %t, %s {axis = 0, strides = [1], low = [1]} : tensor<3x5xf32>",
            "bad-value",
            "requires low and high of at least 0 for 1 axes, got [1] and []",
        ),
        _use(
            "conv %t, %s {axis = 0, strides = [1], low = [-1], high = [0]} : tensor<1x5xf32>",
            "bad-value",
            "got [-1] and [0]",
        ),
        _use(
            "conv %t, %s {axis = 0, strides = [1], block = 8} : tensor<2x5xf32>",
            "ill-typed",
            "requires weights in blocks of 8, got dims [4, 3, 5]",
        ),
        _use(
            'conv %t, %s {axis = 0, strides = [1], split = ["rows", 4]} : tensor<2x5xf32>',
            "graph-structure",
            "a split cuts \"images\", got 'rows'",
        ),
        _use(
            'conv %t, %s {axis = 0, strides = [1], split = ["images", 0]} : tensor<2x5xf32>',
            "graph-structure",
            "the length of a part, at least 1, got ['images', 0]",
        ),
        _use(
            "conv %t, %s {axis = 0, strides = [1], low = [1], high = [0]} : tensor<3x5xf32>",
            "graph-structure",
            "gives tensor<3x5xf32>, tensor<6x3xf32>, but is marked tensor<3x5xf32>",
        ),
        "%y, %room = conv %t, %s {axis = 0, strides = [1], low = [1], high = [0], "
        'split = ["images", 1]} : tensor<3x5xf32>, tensor<6x3xf32> '
        "// error: graph-structure: zeros around its images cannot be cut",
        _use(
            'conv %t, %s {axis = 0, strides = [1], at = ["here"]} : tensor<2x5xf32>',
            "graph-structure",
            "a place is",
        ),
    ),
    "conv.image": (
        _use(
            "conv.image %o, %s {axis = 0, extents = [5], strides = [1]} : tensor<5x5xf32>",
            "shape-mismatch",
            "requires [3] windows over [5] and weights of the features [4]",
        ),
        _use(
            "conv.image %k, %s {axis = 0, extents = [4], strides = [1]} : tensor<4x5xf32>",
            "shape-mismatch",
            "the features [3], last of them before one size, got tensor<2x3xf32> and",
        ),
        _use(
            "conv.image %o, %s {axis = 0, extents = [2], strides = [1]} : tensor<2x5xf32>",
            "bad-value",
            "requires windows that fit into [2], got [3]",
        ),
        _use(
            "conv.image %o, %s {axis = 0, extents = [4, 4], strides = [1]} : tensor<4x4x5xf32>",
            "ill-typed",
            "requires one size and one extent for each axis, got [3] and [4, 4]",
        ),
        _use(
            "conv.image %o, %s {axis = 0, extents = [4], strides = [0]} : tensor<4x5xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        _use(
            "conv.image %o, %s {axis = 2, extents = [4], strides = [1]} : tensor<4x5xf32>",
            "ill-typed",
            "from 2 on, within the rank 2",
        ),
        _use(
            "conv.image %n, %s {axis = 0, extents = [4], strides = [1]} : tensor<4x5xf32>",
            "ill-typed",
            "requires known extents, got [N]",
        ),
        _use(
            "conv.image %o, %d {axis = 0, extents = [4], strides = [1]} : tensor<4x5xf32>",
            "ill-typed",
            "requires operands of one element type",
        ),
        _use(
            "conv.image %o, %s {axis = 0, extents = [4], strides = [1], block = 4} "
            ": tensor<4x5xf32>",
            "ill-typed",
            "requires weights in blocks of 4, got dims [4, 3, 5]",
        ),
        _use("conv.image %o, %s {axis = 0, strides = [1]} : tensor<4x5xf32>", "bad-value", "`exte"),
        _use(
            "conv.image %o, %s {axis = 0, extents = [4], strides = [1]} : tensor<5x5xf32>",
            "graph-structure",
            "gives tensor<4x5xf32>, but is marked",
        ),
        _use(
            'conv.image %o, %s {axis = 0, extents = [4], strides = [1], split = ["cols", 2]} '
            ": tensor<4x5xf32>",
            "graph-structure",
            "a split cuts \"images\", got 'cols'",
        ),
        _use(
            f"conv.image %o, %s {{axis = 0, extents = [4], strides = [1], {_TWO_PLACES[1:-2]}}} "
            ": tensor<4x5xf32>",
            "graph-structure",
            "has 1 results but 2 places",
        ),
    ),
    "conv.weights": (
        _use(
            "conv.weights %t, %o {axis = 0, sizes = [3], strides = [1]} : tensor<3x3x4xf32>",
            "shape-mismatch",
            "requires results of dims [3] and features, got tensor<5x3xf32> and tensor<2x4xf32>",
        ),
        _use(
            "conv.weights %t, %v {axis = 0, sizes = [1], strides = [1]} : tensor<1x3xf32>",
            "shape-mismatch",
            "requires results of dims [5] and features, got tensor<5x3xf32> and tensor<5xf32>",
        ),
        _use(
            "conv.weights %t, %o {axis = 0, sizes = [6], strides = [1]} : tensor<6x3x4xf32>",
            "bad-value",
            "requires windows that fit into [5], got [6]",
        ),
        _use(
            "conv.weights %t, %o {axis = 0, sizes = [0], strides = [1]} : tensor<0x3x4xf32>",
            "bad-value",
            "requires windows that fit into [5], got [0]",
        ),
        _use(
            "conv.weights %t, %o {axis = 0, sizes = [4, 4], strides = [1]} : tensor<4x3x4xf32>",
            "ill-typed",
            "requires one size and one extent for each axis, got [4, 4] and [5]",
        ),
        _use(
            "conv.weights %t, %o {axis = 0, sizes = [4], strides = [-1]} : tensor<4x3x4xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        _use(
            "conv.weights %n, %o {axis = 0, sizes = [4], strides = [1]} : tensor<4x5x4xf32>",
            "ill-typed",
            "requires known extents, got [N]",
        ),
        _use(
            "conv.weights %t, %i {axis = 0, sizes = [4], strides = [1]} : tensor<4x3x5xf32>",
            "ill-typed",
            "requires operands of one element type",
        ),
        _use(
            'conv.weights %t, %o {axis = 0, sizes = [4], strides = [1], split = ["rows", 5]} '
            ": tensor<4x3x4xf32>",
            "graph-structure",
            "a part has to divide the 12 rows of one column of a window, got 5",
        ),
        _use(
            'conv.weights %t, %o {axis = 0, sizes = [4], strides = [1], split = ["images", 1]} '
            ": tensor<4x3x4xf32>",
            "graph-structure",
            "a split cuts \"rows\", got 'images'",
        ),
        _use(
            'conv.weights %t, %o {axis = 0, sizes = [4], strides = [1], split = ["rows"]} '
            ": tensor<4x3x4xf32>",
            "graph-structure",
            "at least 1, got ['rows']",
        ),
        _use("conv.weights %t {axis = 0} : tensor<4x3x4xf32>", "bad-value", "`sizes` is required"),
    ),
    "pool": (
        _use(
            f'pool %w {{word = "mean", {_WINDOWS}}} : tensor<2x3x5xf32>',
            "bad-value",
            "requires a word of add, maximum, minimum, got mean",
        ),
        _use(
            'pool %w {word = "add", axis = 1, sizes = [5, 2], strides = [1, 1]} '
            ": tensor<2x0x5xf32>",
            "bad-value",
            "requires windows that fit into [4, 6], got [5, 2]",
        ),
        _use(
            'pool %w {word = "add", axis = 1, sizes = [2], strides = [1, 1]} : tensor<2x3x5xf32>',
            "bad-value",
            "requires windows that fit into [4, 6], got [2]",
        ),
        _use(
            'pool %w {word = "add", axis = 1, sizes = [2, 2], strides = [1, 0]} '
            ": tensor<2x3x5xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        _use(
            'pool %w {word = "add", axis = 2, sizes = [2, 2], strides = [1, 1]} '
            ": tensor<2x3x5xf32>",
            "ill-typed",
            "from 2 on, within the rank 3",
        ),
        _use(
            'pool %w {word = "add", axis = 0, sizes = [1, 1, 1], strides = [1, 1, 1]} '
            ": tensor<2x4x6xf32>",
            "ill-typed",
            "for one or two axes from 0 on",
        ),
        _use(
            'pool %n {word = "add", axis = 0, sizes = [2], strides = [1]} : tensor<Nx5xf32>',
            "ill-typed",
            "requires known extents, got [N] in tensor<Nx5xf32>",
        ),
        _use(
            'pool %i {word = "add", axis = 0, sizes = [2], strides = [1]} : tensor<2x5xi32>',
            "ill-typed",
            "requires elements of f32, f64",
        ),
        _use(f"pool %w {{{_WINDOWS}}} : tensor<2x3x5xf32>", "bad-value", "`word` is required"),
        _use(
            f'pool %w {{word = "add", {_WINDOWS}, split = ["rows", 1]}} : tensor<2x3x5xf32>',
            "graph-structure",
            "a split cuts \"images\", got 'rows'",
        ),
        _use(
            f'pool %w {{word = "add", {_WINDOWS}, at = ["arena:-1"]}} : tensor<2x3x5xf32>',
            "graph-structure",
            "a place is",
        ),
        _use(f'pool %w {{word = "add", {_WINDOWS}}} : tensor<2x4x6xf32>', "graph-structure", "giv"),
    ),
    "pool.slope": (
        _use(
            "pool.slope %t, %o, %k {axis = 0, sizes = [4], strides = [1]} : tensor<5x3xf32>",
            "shape-mismatch",
            "requires tensor<2x3xf32>, one element for each window, got tensor<2x4xf32>",
        ),
        _use(
            "pool.slope %t, %k, %o {axis = 0, sizes = [4], strides = [1]} : tensor<5x3xf32>",
            "shape-mismatch",
            "requires tensor<2x3xf32>, one element for each window, got tensor<2x4xf32>",
        ),
        _use(
            "pool.slope %d, %a, %a {axis = 0, sizes = [1], strides = [1]} : tensor<3x5xf64>",
            "shape-mismatch",
            "requires tensor<3x5xf64>, one element for each window, got tensor<3x5xf32>",
        ),
        _use(
            "pool.slope %t, %k, %k {axis = 0, sizes = [6], strides = [1]} : tensor<5x3xf32>",
            "bad-value",
            "requires windows that fit into [5], got [6]",
        ),
        _use(
            "pool.slope %t, %k, %k {axis = 0, sizes = [4], strides = [0]} : tensor<5x3xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        _use(
            "pool.slope %n, %g, %g {axis = 0, sizes = [4], strides = [1]} : tensor<Nx5xf32>",
            "ill-typed",
            "requires known extents, got [N]",
        ),
        _use(
            "pool.slope %t, %k {axis = 0, sizes = [4], strides = [1]} : tensor<5x3xf32>",
            "graph-structure",
            "requires the operands (x, y, dy), got 2",
        ),
        _use(
            "pool.slope %t, %k, %k {axis = 0, sizes = [4], strides = [1], split = [0, 1]} "
            ": tensor<5x3xf32>",
            "graph-structure",
            'a split cuts "images", got 0',
        ),
        _use(
            "pool.slope %t, %k, %k {axis = 0, sizes = [4], strides = [1]} : tensor<2x3xf32>",
            "graph-structure",
            "gives tensor<5x3xf32>, but is marked",
        ),
    ),
    "pool.spread": (
        _use(
            "pool.spread %k {axis = 0, extents = [6], sizes = [4], strides = [1]} "
            ": tensor<6x3xf32>",
            "shape-mismatch",
            "requires tensor<3x3xf32>, one element for each window of extents [6], got tensor<2x3x",
        ),
        _use(
            "pool.spread %k {axis = 0, extents = [3], sizes = [4], strides = [1]} "
            ": tensor<3x3xf32>",
            "bad-value",
            "requires windows that fit into [3], got [4]",
        ),
        _use(
            "pool.spread %k {axis = 0, extents = [5, 3], sizes = [4], strides = [1]} "
            ": tensor<5x3xf32>",
            "bad-value",
            "requires windows that fit into [5, 3], got [4]",
        ),
        _use(
            "pool.spread %k {axis = 0, extents = [5], sizes = [4], strides = [0]} "
            ": tensor<5x3xf32>",
            "ill-typed",
            "requires strides of at least 1",
        ),
        _use(
            "pool.spread %n {axis = 0, extents = [5], sizes = [4], strides = [1]} "
            ": tensor<5x5xf32>",
            "ill-typed",
            "requires known extents, got [N]",
        ),
        _use(
            "pool.spread %j {axis = 0, extents = [5], sizes = [4], strides = [1]} "
            ": tensor<5x5xi32>",
            "ill-typed",
            "requires elements of f32, f64",
        ),
        _use(
            "pool.spread %k {axis = 0, sizes = [4], strides = [1]} : tensor<5x3xf32>",
            "bad-value",
            "`extents` is required",
        ),
        _use(
            'pool.spread %k {axis = 0, extents = [5], sizes = [4], strides = [1], split = ["images"'
            "]} : tensor<5x3xf32>",
            "graph-structure",
            "at least 1, got ['images']",
        ),
        _use(
            "pool.spread %k {axis = 0, extents = [5], sizes = [4], strides = [1]} "
            ": tensor<2x3xf32>",
            "graph-structure",
            "gives tensor<5x3xf32>, but is marked",
        ),
    ),
    "update_rows": (
        _update(
            "ill-typed",
            "lookups of three operands each, got 4 operands for 1 tables and 1 numbers",
            operands="%t, %f, %g, %k",
        ),
        _update("ill-typed", "for 0 tables and 2 numbers", numbers="tables = 0, numbers = 2"),
        _update("ill-typed", "for 5 tables and 0 numbers", numbers="tables = 5, numbers = 0"),
        _update("ill-typed", "elements of f32, f64, got ", operands="%i, %f, %g, %k, %j"),
        _update("ill-typed", "requires tables of rank 2, got ", operands="%v, %f, %g, %k, %j"),
        _update(
            "ill-typed",
            "requires tensor<5x3xf32>, got tensor<3x5xf32>",
            operands="%t, %a, %g, %k, %j",
            numbers="tables = 2, numbers = 0",
        ),
        _update(
            "ill-typed",
            "requires tensor<1x1xf32>, got tensor<1x5xf32>",
            operands="%t, %c, %g, %k, %j",
        ),
        _update(
            "ill-typed",
            "requires tensor<3x5xi32>, got tensor<3x5xi64>",
            operands="%t, %f, %a, %k, %l",
        ),
        _update("ill-typed", "requires an index of rank 2, got ", operands="%t, %f, %g, %k, %v"),
        _update(
            "ill-typed",
            "requires tensor<2x5xf32>, got tensor<3x5xf32>",
            operands="%t, %f, %a, %k, %j",
        ),
        _update(
            "ill-typed",
            "requires tensor<2x3xf32>, got tensor<2x4xf32>",
            operands="%t, %f, %g, %o, %j",
        ),
        _update(
            "ill-typed",
            "requires tensor<2x5xf32>, got tensor<2x3xf32>",
            numbers="tables = 1, numbers = 1, columns = true",
        ),
        _update("bad-value", "`tables` is required", numbers="numbers = 1"),
        _update(
            "graph-structure",
            "must take tensor<1x3xf32>, tensor<1x3xf32>, tensor<1x1xf32>, got tensor<1x3xf32>, te",
            taken="%w0: tensor<1x3xf32>, %g0: tensor<1x3xf32>",
        ),
        _update(
            "graph-structure",
            "must yield 1 times tensor<1x3xf32>, got tensor<1x1xf32>",
            body="yield %r0",
        ),
        _update("graph-structure", "must yield 1 times tensor<1x3xf32>, got nothing", body="yield"),
        _update(
            "graph-structure",
            "`reduce_sum` cannot stand in its block, only what is element by element",
            body="%z = reduce_sum %g0 {axes = [0]} : tensor<1x3xf32>\n  yield %z",
        ),
        _update("graph-structure", "but is marked tensor<3x5xf32>", table="3x5xf32"),
        _update(
            "graph-structure",
            "has 5 results but 1 places",
            numbers='tables = 1, numbers = 1, at = ["argument:0"]',
        ),
        "%y, %slot, %rows, %places, %sums = update_rows %t, %f, %g, %k, %j "
        "{tables = 1, numbers = 1} : tensor<5x3xf32>, tensor<2x5xi32>, tensor<5xi32>, "
        "tensor<5xi32>, tensor<5x32xf32> "
        "// error: graph-structure: requires one region with one block",
    ),
    "copy": (
        _use("copy %a : tensor<5x3xf32>", "graph-structure", "gives tensor<3x5xf32>"),
        _use("copy : tensor<5x3xf32>", "graph-structure", "(x), got 0"),
        _use("copy %q : tensor<3x5xf32>", "undefined-name", "value %q is not defined"),
        _use('copy %a {at = ["here"]} : tensor<3x5xf32>', "graph-structure", "a place is"),
        _use(f"copy %a {_TWO_PLACES}: tensor<3x5xf32>", "graph-structure", "but 2 places"),
        _use("copy %a {at = [1]} : tensor<3x5xf32>", "bad-value", "`at` requires"),
    ),
}

WRONG_IR: Mapping[str, tuple[str, ...]] = {
    **_TENSOR,
    # At kernel level the same rules hold, and results may have places.
    **{
        form.name: tuple(
            use.replace(f"= {op.name} ", f"= {form.name} ") for use in _TENSOR[op.name]
        )
        for op, form in FORMS.items()
    },
}
"""By operation."""
