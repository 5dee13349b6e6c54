"""Things that may not stand in the source, found in the syntax tree rather than by text search.

Everything a file or a user supplies is data here: nothing unpickles, evaluates or runs a shell.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(p for folder in ("graphc", "frontends") for p in (ROOT / folder).rglob("*.py"))

FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "yaml", "code", "codeop"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "print", "input"}
FORBIDDEN_ATTRIBUTES = {
    ("os", "system"),
    ("os", "popen"),
    ("np", "prod"),  # wraps around without a word: np.prod([2**32, 2**32]) == 0
    ("numpy", "prod"),
    ("tempfile", "mktemp"),
}
FORBIDDEN_KEYWORDS = {("shell", True), ("allow_pickle", True)}

# file -> calls allowed there, and why
ALLOWED: dict[str, set[str]] = {
    # Runs the Python module that this backend has just written; its text is made of numbers,
    # numbered names and numpy calls, names out of a file only as sanitised by names.py.
    "graphc/backends/numpy/runtime.py": {"exec", "compile"},
}


def offences(tree: ast.AST, allowed: set[str]) -> Iterator[str]:
    """What the tree holds of the lists above, as `line: what`."""
    for node in ast.walk(tree):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [a.name for a in node.names if a.name.partition(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").partition(".")[0]
            found = [module] if module in FORBIDDEN_MODULES else []
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS - allowed:
                found = [f"{node.func.id}()"]
            found += [
                f"{k.arg}={k.value.value}"
                for k in node.keywords
                if isinstance(k.value, ast.Constant)
                and (k.arg, k.value.value) in FORBIDDEN_KEYWORDS
            ]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            name = (node.value.id, node.attr)
            found = [".".join(name)] if name in FORBIDDEN_ATTRIBUTES else []
        for what in found:
            yield f"{node.lineno}: {what}"


def offences_in(text: str, allowed: set[str] | None = None) -> list[str]:
    return list(offences(ast.parse(text), allowed or set()))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_forbidden_primitive_is_used(path: Path) -> None:
    allowed = ALLOWED.get(path.relative_to(ROOT).as_posix(), set())
    assert offences_in(path.read_text(encoding="utf-8"), allowed) == []


def test_the_allow_list_names_files_that_exist() -> None:
    assert [name for name in ALLOWED if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from marshal import loads",
        "eval('1')",
        "exec('1')",
        "os.system('ls')",
        "subprocess.run('ls', shell=True)",
        "np.prod(shape)",
        "np.load(path, allow_pickle=True)",
        "print('x')",
    ],
)
def test_each_forbidden_primitive_would_be_found(text: str) -> None:
    assert len(offences_in(text)) == 1


def test_ordinary_code_is_left_alone() -> None:
    assert offences_in("import re\nre.compile('x')\nmodel.eval()\nmath.prod(shape)") == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
