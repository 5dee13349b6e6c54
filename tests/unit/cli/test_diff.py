"""`graphc diff`: networks and IR text next to each other."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.commands import NETWORK, graphc, train, write_network

EDITED = NETWORK.replace("z = Plus(t, b)", "s = Plus(t, b)\nz = Tanh(s)")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old.ndl", tmp_path / "new.ndl"
    old.write_text(NETWORK, encoding="utf-8")
    new.write_text(EDITED, encoding="utf-8")
    return old, new


def marked(text: str) -> list[str]:
    return [line for line in text.splitlines() if line[0] in "+-" and line[:3] not in "---+++"]


def test_an_edit_is_a_few_lines_and_code_one(pair: tuple[Path, Path]) -> None:
    done = graphc("diff", *pair)
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith(f"--- {pair[0]}\n+++ {pair[1]}\n")
    assert marked(done.out) == [
        "+   %s = node.plus %t, %b : matrix<2x*>",
        '-   %z = node.plus %t, %b {tags = ["output"]} : matrix<2x*>',
        '+   %z = node.tanh %s {tags = ["output"]} : matrix<2x*>',
    ]
    assert done.out.endswith("// operations: 1 added, 0 removed, 1 changed, 7 same\n")


@pytest.mark.parametrize("more", [(), ("--stage", "tensor"), ("--stage", "kernels", "--train")])
def test_no_difference_is_no_text_and_code_zero(
    pair: tuple[Path, Path], more: tuple[str, ...]
) -> None:
    done = graphc("diff", pair[0], pair[0], *more)
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize("stage", ["tensor", "kernels"])
@pytest.mark.parametrize("more", [(), ("--train",), ("--nodes", "z")])
def test_later_stages_differ_by_little(
    pair: tuple[Path, Path], stage: str, more: tuple[str, ...]
) -> None:
    done = graphc("diff", *pair, "--stage", stage, *more)
    assert done.code == 1
    assert any("tanh" in line for line in marked(done.out))
    assert len(marked(done.out)) <= 16


def test_a_trained_model_is_the_network_that_it_came_from(tmp_path: Path) -> None:
    train(tmp_path)
    assert graphc("diff", tmp_path / "net.safetensors", tmp_path / "net.ndl").code == 0


def test_ir_text_is_compared_as_it_stands_and_with_networks(pair: tuple[Path, Path]) -> None:
    text = pair[0].with_suffix(".gir")
    text.write_text(graphc("dump", pair[0], "--stage", "tensor").out, encoding="utf-8")
    assert graphc("diff", text, pair[0], "--stage", "tensor").code == 0
    assert graphc("diff", text, pair[1], "--stage", "tensor").code == 1
    refused = graphc("diff", text, pair[0])
    assert refused.code == 2
    assert "two networks or two functions are required" in refused.err
    text.write_text(graphc("dump", pair[0]).out, encoding="utf-8")
    assert graphc("diff", text, pair[0]).code == 0
    assert graphc("diff", text, pair[0], "--stage", "kernels").code == 0


def test_what_passes_change_is_shown_without_a_second_file(tmp_path: Path) -> None:
    text = tmp_path / "f.gir"
    text.write_text(
        "func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {\n"
        "  %a = exp %x : tensor<2xf32>\n  %b = exp %x : tensor<2xf32>\n"
        "  %c = add %a, %b : tensor<2xf32>\n  return %c\n}\n",
        encoding="utf-8",
    )
    done = graphc("diff", text, "-p", "cse")
    assert done.code == 1
    assert marked(done.out) == [
        "-   %b = exp %x : tensor<2xf32>",
        "-   %c = add %a, %b : tensor<2xf32>",
        "+   %c = add %a, %a : tensor<2xf32>",
    ]
    assert graphc("diff", text, "-p", "dce").code == 0


def test_context_is_as_wide_as_asked_for(pair: tuple[Path, Path]) -> None:
    none, all_ = (graphc("diff", *pair, "--context", n).out for n in ("0", "99"))
    assert len(none.splitlines()) == 3 + 2 + 3 + none.count("…") - 1
    assert "…" not in all_
    assert len(all_.splitlines()) == 3 + 1 + 7 + 3


@pytest.mark.parametrize("stage", ["nodes", "tensor"])
def test_a_drawing_marks_what_is_different(pair: tuple[Path, Path], stage: str) -> None:
    forward = graphc("diff", *pair, "--stage", stage, "--format", "dot")
    back = graphc("diff", *reversed(pair), "--stage", stage, "--format", "dot")
    assert (forward.code, back.code) == (1, 1)
    assert outlines(forward.out, "green") == outlines(back.out, "red")
    assert len(outlines(forward.out, "green")) == 1
    assert outlines(forward.out, "red") == []
    changed = len(outlines(forward.out, "orange"))
    assert changed == len(outlines(back.out, "orange")) > 0
    same = graphc("diff", pair[0], pair[0], "--stage", stage, "--format", "dot")
    assert (same.code, re.findall(r"color=(green|red|orange)", same.out)) == (0, [])


def outlines(dot: str, colour: str) -> list[str]:
    """The functions of the shapes with this outline."""
    shapes = re.findall(rf'label="([^"]*)".*, color={colour}, penwidth=3\]', dot)
    return sorted(shape.split("\\n")[1].split(" ")[0] for shape in shapes)


def test_a_drawing_without_graphviz_is_marked_too(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    done = graphc("diff", *pair, "--format", "svg")
    found = [
        rect.get("stroke") for rect in ElementTree.fromstring(done.out).iter() if "rect" in rect.tag
    ]
    assert found.count("green") == 1
    assert found.count("orange") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "a second file B is required, or passes to run by -p"),
        (("-p", "csee"), "did you mean `cse`"),
        (("-p", "cse", "--train"), "need --stage tensor or kernels"),
        (("-p", "cse", "--stage", "tensor", "--train", "--nodes", "z"), "leave out --nodes"),
    ],
)
def test_wrong_command_lines_are_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = graphc("diff", write_network(tmp_path), *options)
    assert done.code == 2
    assert message in done.err


def test_wrong_ir_text_is_refused_with_its_place(tmp_path: Path) -> None:
    text = tmp_path / "f.gir"
    text.write_text("func @f() {\n  return %x\n}\n", encoding="utf-8")
    done = graphc("diff", text, text)
    assert done.code == 3
    assert f"{text}:2:10" in done.err
    text.write_text("", encoding="utf-8")
    assert "requires a function, it has none" in graphc("diff", text, text).err


def test_modules_of_several_functions_have_no_drawing(tmp_path: Path) -> None:
    text = tmp_path / "f.gir"
    function = "func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {\n  return %x\n}\n"
    text.write_text(function + function.replace("@f", "@g"), encoding="utf-8")
    done = graphc("diff", text, text, "--format", "svg")
    assert done.code == 2
    assert "a drawing requires one function of each, got 2" in done.err
