"""Documents: generated ones are what the code gives, and the examples in all of them work."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import graphc
from graphc.backends import BACKENDS
from graphc.ir.codegen import Category
from graphc.ir.context import Context
from graphc.ir.core import ArgumentRole, Level, Trait
from graphc.ir.placement import ADDRESS_KINDS
from graphc.ops import default_context
from graphc.passes import PASSES
from graphc.passes.invariants import Invariant
from tests.support.text_form import broken_rules, parsed

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md"),
]
GENERATED = (
    "docs/errors.md",
    "docs/ops.md",
    "frontends/graphc_frontends/network/functions.pyi",
    "graphc/__init__.pyi",
    "README.md",
    "docs/ndl.md",
    "docs/tensor.md",
    "docs/network.md",
    "docs/onnx.md",
    "docs/toolkit.md",
    "docs/glossary.md",
    "docs/schedules.md",
    "docs/tour.md",
    "docs/pictures/difference.svg",
    "docs/pictures/kernels.svg",
    "docs/pictures/network.svg",
)

# Languages of code blocks that are run here; others are text for people.
NOT_RUN = {
    "": "text",
    "ebnf": "a grammar",
    "sh": "commands for a shell; test_readme.py runs those of the README",
}
SKIPPED = {
    "README.md": "test_readme.py runs its examples beside the data that they need",
}


def examples(language: str) -> Iterator[tuple[str, str]]:
    """Every block in this language, as (page:line, text)."""
    for page in PAGES:
        if page.name in SKIPPED:
            continue
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            if match[1] == language:
                line = text.count("\n", 0, match.start(2)) + 1
                yield f"{page.relative_to(ROOT)}:{line}", match[2]


def each(language: str) -> pytest.MarkDecorator:
    found = list(examples(language))
    return pytest.mark.parametrize(
        "text", [text for _, text in found], ids=[place for place, _ in found]
    )


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    """What `docs/generate.py` would write; it is a script and no package."""
    pages: dict[str, str] = runpy.run_path(str(DOCS / "generate.py"))["files"]()
    return pages


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_file_is_what_the_code_gives(name: str, generated: dict[str, str]) -> None:
    written = (ROOT / name).read_text(encoding="utf-8")
    assert written == generated[name], "run `python docs/generate.py`"


def test_all_generated_files_are_compared(generated: dict[str, str]) -> None:
    assert tuple(generated) == GENERATED


@each("gir")
def test_ir_examples_parse_and_verify(text: str) -> None:
    assert broken_rules(parsed(text)) == []


@each("ndl")
def test_networks_load(text: str) -> None:
    graphc.loads(text)


@each("mel")
def test_edits_are_understood(text: str) -> None:
    graphc.edits(text, check_only=True)


@each("python")
def test_python_examples_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "example.py"
    program.write_text(text, encoding="utf-8")
    runpy.run_path(str(program))


def test_every_language_of_examples_is_run_or_known_to_be_text() -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    languages = set(re.findall(r"^```(\w*)\n.*?^```", text, re.MULTILINE | re.DOTALL))
    assert languages - set(NOT_RUN) <= {"gir", "mel", "ndl", "python"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    links: list[str] = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("name", ["architecture.md", "glossary.md", "ir.md", "tour.md"])
def test_paths_that_are_named_exist(name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    folders = "graphc|frontends|tests|docs|passes|backends|driver|runtime|ir|ops"
    paths = re.findall(rf"`((?:{folders})/[\w./]+)`", text)
    missing = [p for p in paths if not (ROOT / p).exists() and not (ROOT / "graphc" / p).exists()]
    assert missing == []


def test_the_grammar_names_every_kind_of_token_and_role() -> None:
    text = (DOCS / "ir.md").read_text(encoding="utf-8")
    grammar = re.findall(r"^```ebnf\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]
    wanted = {
        "input",
        "parameter",
        "state",
        "hyperparameter",
        "carried",
        "updates",
        "arena",
        "loc",
        "from",
        "dim",
    }
    wanted |= {"f32", "f64", "i32", "i64", "i1", "graph", "func", "tensor<", "matrix<"}
    assert {word for word in wanted if f'"{word}"' not in grammar} == set()


def test_every_pass_that_ir_md_names_exists() -> None:
    text = (DOCS / "ir.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z]+-[a-z]+)`", text))
    assert named <= set(PASSES)


def test_the_glossary_has_every_public_word_of_the_ir() -> None:
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    words = {category.__name__ for category in get_args(Category)}
    words |= {level.value for level in Level} | {trait.name for trait in Trait}
    words |= (
        {invariant.name for invariant in Invariant}
        | set(ADDRESS_KINDS)
        | set(get_args(ArgumentRole))
    )
    words |= set(BACKENDS)
    assert {word for word in words if f"`{word}`" not in page} == set()


def test_every_operation_of_the_ir_is_on_the_page() -> None:
    context: Context = default_context()
    page = (DOCS / "ops.md").read_text(encoding="utf-8")
    assert [name for name in context.ops if f"### `{name}`" not in page] == []


def test_the_methods_of_a_network_are_those_on_its_page() -> None:
    page = (DOCS / "network.md").read_text(encoding="utf-8")
    methods = {name for name in dir(graphc.Network) if not name.startswith("_")}
    inside = {
        "apply",
        "edited",
        "kept_on_error",
        "node_class",
        "operand_name",
        "staged_save",
    }  # what front ends use
    assert methods - inside - set(re.findall(r"\w+", page)) == set()
    table = re.search(r"^\| group .*?<!--", page, re.MULTILINE | re.DOTALL)
    assert table is not None
    listed = {name for row in re.findall(r"`(.+)`", table.group()) for name in row.split()}
    assert listed - methods == set()
