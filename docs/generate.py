"""Writes the pages that are made from the code: `python docs/generate.py`.

`docs/errors.md` comes from the list of diagnostics, `docs/ops.md` from the operations' records. In
`docs/tour.md` and `docs/glossary.md` the excerpts between markers are made, and pictures
(tests/support/excerpts.py). A test compares the files with what this would write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

from graphc.ir.core import Level, NotDifferentiable, OpDef
from graphc.ir.params import Params, describe_annotation, field_types, print_value
from graphc.ops import ALL_OPS
from graphc.ops.nodes.layout import display_name
from graphc.support.slugs import SLUGS
from tests.support.excerpts import filled
from tests.support.op_examples import example

FOLDER = Path(__file__).parent
DIGITS = FOLDER.parent / "examples" / "digits"
WITH_EXCERPTS = ("glossary.md", "tour.md")
NOTE = "<!-- Made by docs/generate.py; do not edit. -->"

ERRORS_HEAD = """\
# Error messages

Every message of graphc carries one of these names in brackets:

    error[shape-mismatch]: Times requires the columns of A to match the rows of B, got 32 and 64
      --> net.ndl:3:5
      |
    3 | t = Times(W, x)
      |     ^^^^^^^^^^^

The sentence says what is required and what came instead. The names stay the same from version to
version, the sentences may become better. Commands end with exit code 3 after such an error, in
Python it is the exception `graphc.GraphcError` with the messages in `diagnostics`.

What may not be meant but can be used is a `warning[name]`. Commands print it on stderr, unless `-q`
says so, and go on. In Python it is a `graphc.GraphcWarning`, with the messages in `diagnostics`
too, for Python's `warnings`: `warnings.simplefilter("error", gc.GraphcWarning)` makes it an
exception, `"ignore"` silences it.
"""

OPS_HEAD = """\
# Operations

Everything that can stand in the intermediate representation ([its text form](ir.md)), by level.
`graphc opt --list ops` prints the same list for the version at hand. An operand that ends in `*`
stands for any number of them; a parameter without `=` has to be given.

The examples are what the compiler prints: a tensor operation on small operands, with the function
that computes its gradient by the operation's rule; a node in a network, and what it becomes.
"""

LEVELS = {
    Level.NODE: (
        "Nodes",
        "One for each function of NDL. A node is a matrix, rows x columns, one column per sample. "
        "Nodes are expanded into tensor operations and differentiated there.",
    ),
    Level.TENSOR: (
        "Tensor operations",
        "What nodes are made of, and what passes rewrite. *Gradient* says whether one flows "
        "through: *yes* by a rule, *zero* where the operation is piecewise constant, *none* where "
        "asking for one is an error.",
    ),
    Level.KERNEL: (
        "Kernel operations",
        "What remains after `fuse-kernels`. `at` says where a result lives after `plan-memory`.",
    ),
}


def pages() -> dict[str, str]:
    """The generated pages by file name."""
    return {"errors.md": errors_page(), "ops.md": ops_page(), **pages_with_excerpts()}


def pages_with_excerpts() -> dict[str, str]:
    """The pages in which commands are run, and the pictures that they draw."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for file in ("digits.ndl", "train.txt"):
            copy(DIGITS / file, folder)
        texts = {name: (FOLDER / name).read_text(encoding="utf-8") for name in WITH_EXCERPTS}
        filled_in = {name: filled(text, folder) for name, text in texts.items()}
        pictures = sorted(folder.glob("*.svg"))
        drawn = {f"pictures/{p.name}": p.read_text(encoding="utf-8") for p in pictures}
        return {**filled_in, **drawn}


def errors_page() -> str:
    rows = [(f"`{slug}`", meaning) for slug, meaning in SLUGS.items()]
    return f"{NOTE}\n{ERRORS_HEAD}\n{_table(('name', 'meaning'), rows)}"


def ops_page() -> str:
    parts = [NOTE + "\n" + OPS_HEAD]
    for level, (title, text) in LEVELS.items():
        parts.append(f"## {title}\n\n{text}\n")
        parts.extend(_entry(op) for op in ALL_OPS if op.level is level)
    return "\n".join(parts)


def _entry(op: OpDef) -> str:
    """One operation: heading, sentence, facts."""
    facts = [
        ("NDL", display_name(op) if op.level is Level.NODE else ""),
        ("operands", ", ".join(f"`{name}`" for name in op.operands)),
        ("parameters", "; ".join(_parameters(op.params))),
        ("schedule", "; ".join(_parameters(op.schedule))),
        ("equation", op.equation),
        ("requires", "; ".join(op.constraints)),
        ("gradient", _gradient(op)),
        ("category", type(op.codegen).__name__),
        ("source", op.source),
    ]
    lines = [f"* {what}: {text}" for what, text in facts if text]
    text = f"### `{op.name}`\n\n{_sentence(op.summary)}\n\n" + "\n".join(lines) + "\n"
    shown = example(op)
    return f"{text}\n```gir\n{shown}\n```\n" if shown else text


def _parameters(params: type[Params]) -> Iterable[str]:
    types = field_types(params)
    for f in fields(params):
        kind = describe_annotation(types[f.name]).replace("|", "\\|")
        yield f"`{f.name}{_default(f)}` ({kind})"


def _default(f: Field[object]) -> str:
    return "" if f.default is MISSING else f" = {print_value(f.default)}"


def _gradient(op: OpDef) -> str:
    if op.level is Level.NODE:
        return "of its expansion" if op.expand is not None else ""
    match op.vjp:
        case NotDifferentiable.ZERO:
            return "zero"
        case NotDifferentiable.NONE:
            return "none"
        case _:
            return "yes"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    for name, text in pages().items():
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
