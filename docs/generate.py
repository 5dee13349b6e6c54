"""Writes the files that are made from the code: `python docs/generate.py`.

`docs/errors.md` comes from the list of diagnostics, `docs/ops.md` from the operations' records, and
the stubs (.pyi) for type checkers from functions that are made of records too. In `README.md`,
`docs/ndl.md`, `docs/network.md`, `docs/tensor.md` and `docs/onnx.md` the lists of functions between
two comments are made, in `docs/toolkit.md` the tables of keys; in `docs/tour.md`,
`docs/schedules.md` and `docs/glossary.md` the excerpts between markers, and pictures
(tests/support/excerpts.py). A test compares the files with what this would write.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from inspect import Parameter, Signature
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

import graphc
from graphc.config.keys import Key, Required
from graphc.ir.core import Level, NotDifferentiable, OpDef
from graphc.ir.params import Params, describe_annotation, field_types, print_value
from graphc.ops import ALL_OPS
from graphc.ops.nodes.layout import display_name
from graphc.support.slugs import SLUGS
from graphc.tensor.functions import FUNCTIONS
from graphc.toolkit.action import Block
from graphc.toolkit.actions import ACTIONS
from graphc.toolkit.sgd import AUTO_BLOCK, SGD_BLOCK
from graphc.toolkit.top import TOP_KEYS
from graphc_frontends.ndl.functions import FUNCTION_BY_NAME, Function
from graphc_frontends.ndl.functions import FUNCTIONS as NDL_FUNCTIONS
from graphc_frontends.network.functions import Functions
from graphc_frontends.onnx.operators import operators
from tests.support.excerpts import filled
from tests.support.op_examples import example

ROOT = Path(__file__).parents[1]
DIGITS = ROOT / "examples" / "digits"
WITH_EXCERPTS = ("docs/glossary.md", "docs/schedules.md", "docs/tour.md")
LIST_START = "<!-- functions: made by docs/generate.py -->"
LIST_END = "<!-- end of functions -->"
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


MODULE_HEAD = '''\
"""Made by docs/generate.py from what graphc/__init__.py finds; do not edit."""

from collections.abc import Sequence
from typing import Any

import numpy as np

'''
METHODS_HEAD = '''\
"""Made by docs/generate.py from the nodes' records; do not edit."""

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode, Operand, Tags

class Functions(NetworkBase):
    """One method for each of `NODE_FUNCTIONS`."""
'''
LINE = 100

GROUPS = {
    "leaves": "input image_input sparse_input sparse_image_input parameter image_parameter "
    "constant",
    "products": "times transpose_times diag_times scale element_times row_element_times "
    "column_element_times column_times khatri_rao_product lookup_table",
    "element-wise": "",  # and all that stands nowhere else
    "columns": "softmax log_softmax hardmax layer_normalization top_k top_k_rows "
    "cos_distance cos_distance_with_negative_samples gmm_log_likelihood",
    "shapes": "reshape row_slice row_stack row_repeat transpose diagonal time_reverse",
    "images": "convolution max_pooling average_pooling",
    "sums": "sum_elements sum_column_elements matrix_l1_reg matrix_l2_reg",
    "criteria": "square_error cross_entropy cross_entropy_with_softmax "
    "class_based_cross_entropy_with_softmax logistic crf error_prediction",
    "statistics": "mean inv_std_dev per_dim_mean_var_normalization "
    "per_dim_mean_var_de_normalization batch_normalization",
    "time": "past_value future_value attention",
}
"""Methods of `Network` by group; the functions of NDL have the same names, without underscores."""

ARRAY_GROUPS = {
    "operators": "`+ - * / ** @`, unary `-`, `abs`, `< <= > >= == !=`, `& \\| ~` of truth values",
    "elements": "",  # and all that stands nowhere else
    "the operators' names": "`add subtract multiply divide matmul negative absolute abs power less "
    "less_equal greater greater_equal equal not_equal logical_and logical_or logical_not`",
    "over axes": "`sum mean max min softmax log_softmax layer_normalization "
    "cross_correlate windows conv conv_transpose depthwise_conv "
    "depthwise_conv_transpose maxpool top_k`",
    "at computed places": "`take take_along_axis add_along_axis`",
    "shapes": "`reshape transpose expand_dims squeeze broadcast_to concatenate stack flip pad`, "
    "indexing",
    "constants": "`zeros ones full eye arange`; `full` also of a traced number, `arange` up to a "
    "size that calls decide",
    "random numbers": "`random_uniform`, of a place, a step and a seed",
    "steps": "`scan`",
    "derivatives": "`grad value_and_grad vjp jvp jacobian hessian check_gradient stop_gradient`",
}
"""Functions of arrays by group."""


def files() -> dict[str, str]:
    """The generated files by their paths from the project's root."""
    return {
        "docs/errors.md": errors_page(),
        "docs/ops.md": ops_page(),
        "frontends/graphc_frontends/network/functions.pyi": methods_stub(),
        "graphc/__init__.pyi": module_stub(),
        "README.md": with_list("README.md", groups_text()),
        "docs/ndl.md": with_list("docs/ndl.md", _ndl_table()),
        "docs/tensor.md": with_list("docs/tensor.md", _arrays_table()),
        "docs/network.md": with_list("docs/network.md", _methods_table()),
        "docs/onnx.md": with_list("docs/onnx.md", _onnx_operators()),
        "docs/toolkit.md": with_list("docs/toolkit.md", _toolkit_tables()),
        **pages_with_excerpts(),
    }


def _onnx_operators() -> str:
    """The operators of ONNX that have a handler, by domain."""
    domains: dict[str, list[str]] = {}
    for domain, name in operators():
        domains.setdefault(domain, []).append(f"`{name}`")
    lines = [
        f"{f'Of `{domain}`: ' if domain else ''}{', '.join(names)}."
        for domain, names in sorted(domains.items())
    ]
    return "\n".join(textwrap.fill(line, 100) + "\n" for line in lines)


def pages_with_excerpts() -> dict[str, str]:
    """The pages in which commands are run, and the pictures that they draw."""
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for file in ("digits.ndl", "train.txt"):
            copy(DIGITS / file, folder)
        texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in WITH_EXCERPTS}
        filled_in = {name: filled(text, folder) for name, text in texts.items()}
        pictures = sorted(folder.glob("*.svg"))
        drawn = {f"docs/pictures/{p.name}": p.read_text(encoding="utf-8") for p in pictures}
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


def with_list(page: str, text: str) -> str:
    """The page with this list of functions between the comments that hold its place."""
    before, start, rest = (ROOT / page).read_text("utf-8").partition(f"{LIST_START}\n")
    _, end, after = rest.partition(LIST_END)
    return f"{before}{start}{text}{end}{after}"


def grouped() -> dict[str, list[str]]:
    """The methods of each group."""
    groups = {title: names.split() for title, names in GROUPS.items()}
    listed = {name for names in groups.values() for name in names}
    every = [op.name.removeprefix("node.") for op in ALL_OPS if op.level is Level.NODE]
    groups["element-wise"] += [name for name in every if name not in listed]
    return groups


def groups_text() -> str:
    """The functions of NDL as indented lines."""
    lines: list[str] = []
    for title, names in grouped().items():
        first = f"    {title.capitalize():<16}"
        text = "  ".join(map(_in_ndl, names))
        lines.append(textwrap.fill(text, LINE, initial_indent=first, subsequent_indent=" " * 20))
    return "\n" + "\n".join(lines) + "\n\n"


def _in_ndl(method: str) -> str:
    key = method.replace("_", "")
    return next(n for n in FUNCTION_BY_NAME[key].names if n.lower() == key)


def _methods_table() -> str:
    rows = [(title, f"`{' '.join(names)}`") for title, names in grouped().items()]
    return _table(("group", "methods"), rows)


def _arrays_table() -> str:
    listed = {name for text in ARRAY_GROUPS.values() for name in re.findall(r"\w+", text)}
    others = " ".join(name for name in FUNCTIONS if name not in listed)
    groups = {**ARRAY_GROUPS, "elements": f"`{others}`"}
    return _table(("", ""), groups.items())


def _ndl_table() -> str:
    head = ("function", "arguments", "options and defaults", "in the book", "supported")
    return _table(head, map(_ndl_row, NDL_FUNCTIONS))


def _ndl_row(function: Function) -> Sequence[str]:
    options = ", ".join(
        f"`{o.name}`" + ("" if o.default == "" else f" {str(o.default).lower()}")
        for o in function.options
    )
    names = ", ".join(f"`{name}`" for name in function.names)
    supported = "yes" if function.op else "not yet"
    return names, f"`{function.arguments}`", options, "yes" * function.in_book, supported


def methods_stub() -> str:
    methods = {n: m for n, m in vars(Functions).items() if not n.startswith("_")}
    return METHODS_HEAD + "".join(stub(name, method, "    ") for name, method in methods.items())


def module_stub() -> str:
    """Of `graphc`: where the names are from, then the functions of arrays."""
    of_networks = dict.fromkeys(
        ("Network", "load_dbn", "simple_network"), "graphc_frontends.network"
    )
    homes: dict[str, str] = {**vars(graphc)["_HOMES"], **of_networks}
    imports = sorted([("graphc.tensor.shapes", "Axes"), *((h, name) for name, h in homes.items())])
    lines = [
        f"from {home} import {name}{f' as {name}' if name in homes else ''}\n"
        for home, name in imports
    ]
    modules = [f"from graphc import {name} as {name}\n" for name in vars(graphc)["_MODULES"]]
    functions = [stub(name, FUNCTIONS[name], "") for name in sorted(FUNCTIONS)]
    return (
        f"{MODULE_HEAD}{''.join(modules)}{''.join(lines)}\n__version__: str\n{''.join(functions)}"
    )


def stub(name: str, function: object, indent: str) -> str:
    """The declaration of a function with the first sentence of its documentation."""
    assert callable(function)
    sentence = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ")
    signature, inside = inspect.signature(function), f"{indent}    "
    head = f"{indent}def {name}{_one_line(signature)}"
    if len(head) + 1 > LINE:
        head = f"{indent}def {name}{_several_lines(signature, indent)}"
    text = textwrap.fill(
        f'"""{sentence}"""', LINE - 4, initial_indent=inside, subsequent_indent=inside
    )
    return f"\n{head}:\n{text}\n"


def _one_line(signature: Signature) -> str:
    return f"({', '.join(_parameters_of(signature))}) -> {signature.return_annotation}"


def _several_lines(signature: Signature, indent: str) -> str:
    lines = "".join(f"{indent}    {each},\n" for each in _parameters_of(signature))
    return f"(\n{lines}{indent}) -> {signature.return_annotation}"


def _parameters_of(signature: Signature) -> Iterable[str]:
    """Each parameter as source; annotations are text already."""
    starred = False
    for p in signature.parameters.values():
        if p.kind is Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        kind = "" if p.annotation is Parameter.empty else f": {p.annotation}"
        default = "" if p.default is Parameter.empty else f" = {p.default!r}"
        yield f"{p.name}{kind}{default}"


# --- the toolkit's keys ---------------------------------------------------------------------------

TOOLKIT_TESTS = (
    "tests/unit/toolkit/test_commands.py",
    "tests/unit/toolkit/test_checked_first.py",
    "tests/unit/toolkit/test_parallel.py",
)
SGD_TESTS = "tests/unit/toolkit/test_sgd_block.py"
SGD_TEST = "test_a_key_makes_its_part_of_the_plan"
BASE_TEST = "test_a_network_is_trained_and_measured"


def _toolkit_tables() -> str:
    """The actions with their keys, then the keys of blocks and of the top level; with each key the
    test that has it."""
    of_sgd, tests = _tests_of_keys()
    parts = [f"### The top level\n\n{_keys_table(TOP_KEYS, tests)}\n"]
    blocks: dict[str, Block] = {}
    for action in ACTIONS:
        parts.append(f"### {', '.join(f'`{name}`' for name in action.names)}\n\n")
        names = [f"`{block.name}`" for block in action.blocks]
        sets = f" Sets: {', '.join(names)}." if names else ""
        parts.append(f"{_sentence(action.doc)}{sets}\n\n")
        if action.keys:
            parts.append(f"{_keys_table(action.keys, tests)}\n")
        blocks |= {block.name: block for block in action.blocks}
    for block in blocks.values():
        parts.append(f"### The set `{block.name}`\n\n{_sentence(block.doc)}\n\n")
        own = tests | of_sgd if block in (SGD_BLOCK, AUTO_BLOCK) else tests
        parts.append(f"{_keys_table(block.keys, own)}\n")
    return "".join(parts)


def _keys_table(keys: Iterable[Key[object]], tests: Mapping[str, str]) -> str:
    rows = []
    for key in keys:
        doc = f"{key.doc} (no effect: {key.ignored})" if key.ignored else key.doc
        test = tests[key.name.lower()]
        cells = (f"`{key.name}`", key.kind, _key_default(key), doc, f"`{test}`")
        rows.append([cell.replace("|", "\\|") for cell in cells])
    return _table(("key", "value", "default", "what it says", "test"), rows)


def _key_default(key: Key[object]) -> str:
    """A default as a configuration writes it; nothing where there is none to write."""
    if key.written:
        return key.written
    match key.default:
        case Required():
            return "required"
        case None:
            return ""
        case bool():
            return str(key.default).lower()
        case tuple():
            return ":".join(map(str, key.default))
        case float() if key.default == float("inf"):
            return "1#INF"
        case _:
            return str(key.default)


def _tests_of_keys() -> tuple[dict[str, str], dict[str, str]]:
    """For each key, in lower case, the first test that has it: those of SGD, and all commands'."""
    found: dict[str, str] = {}
    text = (ROOT / SGD_TESTS).read_text("utf-8")
    for match in re.finditer(r'^    "(\w+)": \(', text, re.MULTILINE):
        found[match[1].lower()] = SGD_TEST
    of_sgd, found = found, {}
    text = (ROOT / TOOLKIT_TESTS[0]).with_name("conftest.py").read_text("utf-8")
    for match in re.finditer(r"(\w+)=", text):
        found.setdefault(match[1].lower(), BASE_TEST)
    for page in TOOLKIT_TESTS:
        text = (ROOT / page).read_text("utf-8")
        for function in ast.parse(text).body:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                lines = text.splitlines()[_first_line(function) - 1 : function.end_lineno]
                for match in re.finditer(r"(\w+)=", "\n".join(lines)):
                    found.setdefault(match[1].lower(), function.name)
    return of_sgd, found


def _first_line(function: ast.FunctionDef) -> int:
    """Of a function, or of the decorators above it."""
    return min([function.lineno, *(d.lineno for d in function.decorator_list)])


def main() -> None:
    for name, text in files().items():
        path = ROOT / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
