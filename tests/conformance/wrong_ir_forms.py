"""How a wrong use of an operation is written, with the one message that it gets.

A use is what stands in the body of a function with the arguments of `ARGUMENTS`; the comment
`// error: slug: substring` announces the message as golden files do.
"""

from __future__ import annotations

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


def text_of(wrong: str) -> str:
    """The module in which a use stands; the use itself if it is a whole function."""
    if wrong.startswith("func"):
        return wrong
    arguments = ", ".join(f"%{name}: tensor<{type}> input" for name, type in ARGUMENTS.items())
    return f"dim N <= 8\n\nfunc @main({arguments}) {{\n  {wrong}\n  return\n}}\n"


def whole(body: str) -> str:
    """A whole function, where the end of it is what is wrong."""
    return f"func @main(%a: tensor<3x5xf32> input) {{\n  {body}\n}}\n"


def in_kernel(body: str, type: str = "3x5xf32", *, at: str = "") -> str:
    """A kernel over %a, or %t for its type, with this body on the third line after its name."""
    argument = next(name for name, t in ARGUMENTS.items() if t == type)
    head = f"%y = kernel %{argument} {at}: tensor<3x5xf32>"
    return f"{head}\n  {{\n  ^(%x: tensor<{type}>):\n  {body}\n  }}"


def fused(body: str, schedule: str = 'schedule {parallel = "cols", chunk = 8}') -> str:
    """A product of %a and %t with this body on the third line after its name."""
    head = f"%y = gemm.fused %a, %t {schedule} : tensor<3x3xf32>"
    return f"{head}\n  {{\n  ^(%x: tensor<3x3xf32>):\n  {body}\n  }}"


def in_loop(
    slug: str,
    message: str,
    *,
    numbers: str = "count = 2, sequences = 1, carried = 1",
    types: str = "tensor<3x5xf32>, tensor<2x3x5xf32>",
    element: str = "3x5xf32",
    body: str = "yield %u, %e",
    at: int = 0,
    places: str = "",
) -> str:
    """A loop over %r that carries %a, the message `at` lines behind its first one."""
    error = f" // error: {slug}: {message}"
    lines = [
        f"%h, %y = loop %r, %a {{{numbers}}} {places}: {types} {{",
        f"  ^(%e: tensor<{element}>, %u: tensor<3x5xf32>):",
        f"  {body}",
        "  }",
    ]
    lines[at] += error
    return "\n".join(lines)


def update(
    slug: str,
    message: str,
    *,
    operands: str = "%t, %f, %g, %k, %j",
    numbers: str = "tables = 1, numbers = 1",
    taken: str = "%w0: tensor<1x3xf32>, %g0: tensor<1x3xf32>, %r0: tensor<1x1xf32>",
    body: str = "yield %g0",
    table: str = "5x3xf32",
    places: str = "",
) -> str:
    """A learner's rule on rows of %t that %j looks up, the message at its first line."""
    return (
        f"%y = update_rows {operands} {{{numbers}}} {places}: tensor<{table}> {{ "
        f"// error: {slug}: {message}\n  ^({taken}):\n  {body}\n  }}"
    )


def use(line: str, slug: str, message: str) -> str:
    """One operation, the message at its line."""
    return f"%y = {line} // error: {slug}: {message}"
