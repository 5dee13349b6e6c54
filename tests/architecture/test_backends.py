"""Backends implement categories of operations: none knows an operation by its record or its name.

What they import of `graphc.ops` are the classes of params and the functions that take an operation
apart, which belong to a category as much as the category's own fields do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from graphc.ir.core import OpDef

ROOT = Path(__file__).parents[2]
BACKENDS = sorted((ROOT / "graphc" / "backends").rglob("*.py"))

ALLOWED = {
    "graphc/backends/loops/update_rows.py": {"YIELD"},
}


def holds_records(found: object) -> bool:
    """Whether it is an operation's record, several, or a module, which has some."""
    if isinstance(found, tuple):
        return any(isinstance(item, OpDef) for item in found)
    return isinstance(found, OpDef | ModuleType | None)


def known_operations(tree: ast.AST) -> Iterator[str]:
    """The records of operations that a module imports, and comparisons with operations' names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("graphc.ops"):
            module = import_module(node.module or "")
            for alias in node.names:
                if holds_records(getattr(module, alias.name, None)):
                    yield alias.name
        elif isinstance(node, ast.Import):
            yield from (a.name for a in node.names if a.name.startswith("graphc.ops"))
        elif isinstance(node, ast.Compare | ast.Match):
            read = [node.subject] if isinstance(node, ast.Match) else [node.left, *node.comparators]
            yield from (ast.unparse(e) for e in read if ast.unparse(e).endswith("opdef.name"))


@pytest.mark.parametrize("path", BACKENDS, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_backend_knows_no_operation(path: Path) -> None:
    allowed = ALLOWED.get(path.relative_to(ROOT).as_posix(), set())
    found = set(known_operations(ast.parse(path.read_text(encoding="utf-8"))))
    assert found == allowed


@pytest.mark.parametrize(
    "text",
    [
        "from graphc.ops.loop import LOOP",
        "from graphc.ops import ALL_OPS",
        "from graphc.ops import loop",
        "import graphc.ops.loop",
        'is_loop = op.opdef.name == "loop"',
        'match op.opdef.name:\n    case "loop":\n        pass',
    ],
)
def test_each_way_to_know_an_operation_would_be_found(text: str) -> None:
    assert len(list(known_operations(ast.parse(text)))) == 1


def test_params_and_parts_of_operations_may_be_known() -> None:
    text = "from graphc.ops.loop import LoopParams, LoopParts, loop_parts"
    assert list(known_operations(ast.parse(text))) == []
