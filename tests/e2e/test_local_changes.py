"""One node more changes the lines of that node, in the text of every stage and of training."""

from __future__ import annotations

from difflib import SequenceMatcher
from pathlib import Path

import pytest

from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ops import default_context
from tests.support.commands import graphc

EXAMPLES = Path(__file__).parents[2] / "examples"
LSTM = (EXAMPLES / "lstm.ndl").read_text(encoding="utf-8")
NETWORKS = {
    "digits": (EXAMPLES / "digits" / "digits.ndl").read_text(encoding="utf-8"),
    "lstm": f"{LSTM}\n{(EXAMPLES / 'adding' / 'adding.ndl').read_text(encoding='utf-8')}",
}
EDITS = {
    "digits": ("t2 = Times(W2, L1)", "L1t = Tanh(L1)\nt2 = Times(W2, L1t)"),
    "lstm": ("i = Sigmoid(Plus(ai,", "i = Tanh(i0)\n  i0 = Sigmoid(Plus(ai,"),
}
ANONYMOUS = {
    "digits": ("t2 = Times(W2, L1)", "t2 = Times(W2, Tanh(L1))"),
    "lstm": ("hidden = LSTM(features, 2", "hidden = LSTM(Tanh(features), 2"),
}


def dumped(folder: Path, text: str, *options: str) -> str:
    path = folder / "net.ndl"
    path.write_text(text, encoding="utf-8")
    done = graphc("dump", path, *options)
    assert done.code == 0, done.err
    return done.out


def edited(name: str, edit: tuple[str, str]) -> str:
    assert NETWORKS[name].count(edit[0]) == 1
    return NETWORKS[name].replace(*edit)


def changed_lines(old: str, new: str) -> int:
    """The lines with a `-` or a `+` in a comparison of the two texts."""
    a, b = old.splitlines(), new.splitlines()
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return sum(
        (i2 - i1) + (j2 - j1) for tag, i1, i2, j1, j2 in matcher.get_opcodes() if tag != "equal"
    )


# What is computed does change in a few places: the gradient goes through one node more, and may
# have to keep its value; a buffer more moves others in memory.
@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("digits", ("--stage", "nodes"), 3),
        ("digits", ("--stage", "tensor"), 3),
        ("digits", ("--stage", "tensor", "--train"), 16),
        ("digits", ("--stage", "kernels"), 8),
        ("digits", ("--stage", "kernels", "--train"), 40),
        ("lstm", ("--stage", "nodes"), 3),
        ("lstm", ("--stage", "tensor"), 3),
        ("lstm", ("--stage", "tensor", "--train"), 22),
        ("lstm", ("--stage", "kernels"), 8),
        ("lstm", ("--stage", "kernels", "--train"), 70),
    ],
)
def test_one_node_more_changes_few_lines(
    name: str, options: tuple[str, ...], most: int, tmp_path: Path
) -> None:
    old = dumped(tmp_path, NETWORKS[name], *options)
    new = dumped(tmp_path, edited(name, EDITS[name]), *options)
    assert 0 < changed_lines(old, new) <= most


@pytest.mark.parametrize("name", NETWORKS)
def test_a_node_without_a_name_changes_few_lines_too(name: str, tmp_path: Path) -> None:
    """Nodes that nobody has named are counted in the call of the macro that they are in."""
    options = ("--stage", "tensor")
    old = dumped(tmp_path, NETWORKS[name], *options)
    new = dumped(tmp_path, edited(name, ANONYMOUS[name]), *options)
    assert 0 < changed_lines(old, new) <= (3 if name == "digits" else 28)


@pytest.mark.parametrize("stage", ["tensor", "kernels"])
@pytest.mark.parametrize("name", NETWORKS)
def test_names_stay_when_the_text_is_read(name: str, stage: str, tmp_path: Path) -> None:
    text = dumped(tmp_path, NETWORKS[name], "--stage", stage, "--train")
    context = default_context()
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    assert print_module(module) == text


def test_values_are_called_by_what_they_belong_to(tmp_path: Path) -> None:
    text = dumped(tmp_path, NETWORKS["digits"], "--stage", "kernels", "--train")
    names = ("L1.a.y.broadcast", "d.W2", "d.L1.h", "W2.new", "velocity.W2.new", "CE.exp")
    assert [n for n in names if f"%{n} " not in text] == []
