"""Excerpts in documents: a page changes when what the commands print changes, and only then."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.excerpts import WIDTH, ExcerptError, between, filled, parse, run, selected

NETWORK = "x = Input(3, tag=feature)\nz = Tanh(x, tag=output)\n"


def page(*marker: str, block: str = "") -> str:
    lines = "".join(f"{line}\n" for line in marker)
    return f"before\n\n<!-- excerpt\n{lines}-->\n{block}<!-- end of excerpt -->\n\nbehind\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.ndl").write_text(NETWORK, encoding="utf-8")
    return tmp_path


def test_the_block_is_what_the_command_prints(folder: Path) -> None:
    text = filled(page("$ graphc dump net.ndl", "show: tanh"), folder)
    assert text.startswith(
        "before\n\n<!-- excerpt\n$ graphc dump net.ndl\nshow: tanh\n-->\n\n```\n"
    )
    assert "$ graphc dump net.ndl\n  …\n  %z = node.tanh %x" in text
    assert text.endswith("…\n```\n\n<!-- end of excerpt -->\n\nbehind\n")


def test_filling_twice_changes_nothing(folder: Path) -> None:
    once = filled(page("$ graphc dump net.ndl"), folder)
    assert filled(once, folder) == once


def test_a_stale_block_is_replaced(folder: Path) -> None:
    stale = page("$ graphc dump net.ndl", block="\n```\n%z = node.sigmoid %x\n```\n\n")
    assert "sigmoid" not in filled(stale, folder)


def test_commands_share_a_folder_and_hidden_ones_show_nothing(folder: Path) -> None:
    hidden = page("$ sed s/Tanh/Sigmoid/ net.ndl > other.ndl", "hide:")
    shown = page("$ graphc diff net.ndl other.ndl")
    text = filled(hidden + shown, folder)
    assert text.startswith(hidden)
    assert "+   %z = node.sigmoid" in text


def test_what_is_on_stderr_is_shown_where_stdout_goes_into_a_file(folder: Path) -> None:
    printed = run("graphc dump net.ndl --stage tensor --timing > net.gir", folder)
    assert "expand-nodes" in printed
    assert "tanh" in (folder / "net.gir").read_text(encoding="utf-8")


def test_lines_that_a_drop_leaves_empty_are_left_out(folder: Path) -> None:
    text = filled(page("$ graphc dump net.ndl", "drop: ^ *%x.*|: matrix.*"), folder)
    assert "```\n$ graphc dump net.ndl\ngraph @network {\n  %z = node.tanh %x" in text
    assert "node.input" not in text
    assert "matrix" not in text.partition("-->")[2]


def test_an_operation_is_shown_with_its_body() -> None:
    text = "head {\n  %a = kernel %x {\n    %b = neg\n  }\n  %c = neg\n}".splitlines()
    assert selected(text, "kernel") == ["  …", *text[1:4], "…"]


def test_a_range_ends_at_the_first_match() -> None:
    assert between(["a", "b {", "}", "}"], "^b", "^}") == ["b {", "}"]


def test_long_lines_are_cut(folder: Path) -> None:
    long = "x" * WIDTH
    (folder / "net.ndl").write_text(NETWORK.replace("x", long), encoding="utf-8")
    lines = filled(page("$ graphc dump net.ndl"), folder).splitlines()
    assert max(map(len, lines)) == WIDTH
    assert any(line.endswith(" …") for line in lines)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        (("$ graphc dump net.ndl", "show: frobnicate"), "nothing matches `frobnicate`"),
        (("$ graphc dump net.ndl", "lines: graph to nowhere"), "nothing matches `graph` to"),
        (("$ graphc dump missing.ndl",), "ended with 2"),
        (("$ rm net.ndl",), "a command of graphc is required, got `rm net.ndl`"),
    ],
)
def test_what_does_not_work_is_an_error(
    marker: tuple[str, ...], message: str, folder: Path
) -> None:
    with pytest.raises(ExcerptError, match=message):
        filled(page(*marker), folder)


@pytest.mark.parametrize("line", ["shown: x", "lines: x", "graphc dump net.ndl"])
def test_an_unknown_word_in_a_marker_is_an_error(line: str) -> None:
    with pytest.raises(ExcerptError, match="is required, got"):
        parse(f"{line}\n")
