"""`graphc dump`: the stages of a network as text."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ops import default_context
from tests.support.commands import NETWORK, graphc, train, write_network

RECURRENT = """
x = Input(2, tag=feature)
p = PastValue(2, 1, h)
s = Plus(x, p)
h = Sigmoid(s)
OutputNodes = (h)
"""


def parses(text: str) -> bool:
    context = default_context()
    parse_module(text, context)
    return not context.sink.has_errors


def test_the_nodes_are_shown_with_their_sizes(tmp_path: Path) -> None:
    done = graphc("dump", write_network(tmp_path))
    assert done.code == 0
    assert '%z = node.plus %t, %b {tags = ["output"]} : matrix<2x*>' in done.out
    assert parses(done.out)


def test_a_model_file_shows_the_network_it_came_from(tmp_path: Path) -> None:
    train(tmp_path)
    of_model = graphc("dump", tmp_path / "net.safetensors")
    assert of_model.out == graphc("dump", tmp_path / "net.ndl").out


def test_a_recurrent_network_is_shown_at_its_first_stage(tmp_path: Path) -> None:
    done = graphc("dump", write_network(tmp_path, RECURRENT))
    assert done.code == 0
    assert "node.past_value %h" in done.out


def test_a_recurrent_network_is_drawn_with_a_box_round_its_loop(tmp_path: Path) -> None:
    network = write_network(tmp_path, RECURRENT)
    assert 'label="loop forward in time"' in graphc("dump", network, "--format", "dot").out
    if shutil.which("dot") is not None:
        drawn = graphc("dump", network, "--format", "svg")
        assert drawn.code == 0
        assert drawn.out.rstrip().endswith("</svg>")


@pytest.mark.parametrize("stage", ["tensor", "kernels"])
def test_later_stages_are_drawn_operation_by_operation(tmp_path: Path, stage: str) -> None:
    network = write_network(tmp_path)
    options = ("--stage", stage, "--nodes", "z")
    drawn = graphc("dump", network, "--format", "dot", *options)
    assert drawn.code == 0
    text = graphc("dump", network, *options).out
    operations = [line for line in text.splitlines() if line.startswith("  ") and line[2] != " "]
    arguments = [a for a in ("%features:", "%W:", "%b:") if a in text]
    bodies = text.count("\n  ^(") + text.count("\n  }")
    labels = [line for line in drawn.out.splitlines() if "label=" in line]
    assert len(labels) == len(operations) + len(arguments) - bodies
    assert any("features\\ninput Nx2xf32" in line for line in labels)
    assert any("kernel: " in line for line in labels) == (stage == "kernels")


def test_a_drawing_shows_one_module(tmp_path: Path) -> None:
    options = ("--stage", "tensor", "--after", "all")
    done = graphc("dump", write_network(tmp_path), "--format", "dot", *options)
    assert done.code == 2


@pytest.mark.parametrize("stage", ["tensor", "kernels"])
@pytest.mark.parametrize("more", [(), ("--train",)])
def test_later_stages_are_ir_text(tmp_path: Path, stage: str, more: tuple[str, ...]) -> None:
    done = graphc("dump", write_network(tmp_path), "--stage", stage, *more)
    assert done.code == 0
    assert "func @main(" in done.out
    assert ("arena" in done.out) == (stage == "kernels")
    assert ("velocity" in done.out) == bool(more)
    assert parses(done.out)


@pytest.mark.parametrize("stage", ["tensor", "kernels", "schedule"])
def test_factors_in_bf16_are_shown_where_they_are_rounded(tmp_path: Path, stage: str) -> None:
    network = write_network(tmp_path)
    assert "round_bf16" not in graphc("dump", network, "--stage", stage).out
    done = graphc("dump", network, "--stage", stage, "--contraction", "bf16")
    assert "= round_bf16 %" in done.out
    assert parses(done.out)


def test_networks_with_statistics_are_shown_without_data(tmp_path: Path) -> None:
    text = NETWORK + "m = Mean(features)\nd = Minus(features, m)\n"
    done = graphc("dump", write_network(tmp_path, text), "--stage", "tensor", "--nodes", "d")
    assert done.code == 0
    assert "%m: tensor<2x1xf32> parameter" in done.out


def test_precision_and_bound_are_in_the_text(tmp_path: Path) -> None:
    done = graphc(
        *("dump", write_network(tmp_path), "--stage", "tensor", "--precision", "double"),
        *("--bound", "7"),
    )
    assert done.out.startswith("dim N <= 7\n")
    assert "f32" not in done.out


def test_after_all_shows_the_text_after_each_pass(tmp_path: Path) -> None:
    done = graphc("dump", write_network(tmp_path), "--stage", "kernels", "--after", "all")
    heads = [line for line in done.out.splitlines() if line.startswith("// ----- after ")]
    assert heads[0] == "// ----- after infer-shapes"
    assert heads[-1].startswith("// ----- after plan-memory")


def test_after_a_pass_stops_there(tmp_path: Path) -> None:
    done = graphc("dump", write_network(tmp_path), "--stage", "kernels", "--after", "fuse-kernels")
    assert "kernel" in done.out
    assert "arena" not in done.out


def test_after_an_unknown_pass_is_refused(tmp_path: Path) -> None:
    done = graphc("dump", write_network(tmp_path), "--stage", "kernels", "--after", "fuse-kernel")
    assert done.code == 2
    assert "did you mean `fuse-kernels`" in done.err


def test_timing_tells_what_each_pass_did(tmp_path: Path) -> None:
    done = graphc("dump", write_network(tmp_path), "--stage", "kernels", "--timing")
    assert "expand-nodes: changed" in done.err
    assert "in all" in done.err


def test_options_of_later_stages_are_refused_for_nodes(tmp_path: Path) -> None:
    assert graphc("dump", write_network(tmp_path), "--train").code == 2


def test_a_network_without_outputs_says_what_to_do(tmp_path: Path) -> None:
    network = write_network(tmp_path, "x = Input(2)\nh = Sigmoid(x)\n")
    done = graphc("dump", network, "--stage", "tensor")
    assert done.code == 3
    assert "--nodes" in done.err
    assert graphc("dump", network, "--stage", "tensor", "--nodes", "h").code == 0


HUGE = """
x = Input(2000000000)
W = LearnableParameter(2000000000, 2000000000)
m = Mean(x)
z = Times(W, Minus(x, m))
OutputNodes = (z)
"""


@pytest.mark.parametrize("stage", ["nodes", "tensor"])
def test_a_network_too_large_for_any_memory_is_shown(tmp_path: Path, stage: str) -> None:
    done = graphc("dump", write_network(tmp_path, HUGE), "--stage", stage)
    assert (done.code, done.err) == (0, "")
    assert "2000000000" in done.out


def test_kernels_that_no_machine_holds_are_a_limit(tmp_path: Path) -> None:
    done = graphc("dump", write_network(tmp_path, HUGE), "--stage", "kernels")
    assert done.code == 3
    assert "error[limit]" in done.err


def test_locations_read_back_to_the_same_text(tmp_path: Path) -> None:
    options = ("--stage", "kernels", "--print-locations")
    shown = graphc("dump", write_network(tmp_path), *options).out
    assert "yield" in shown
    again = parse_module(shown, default_context())
    assert print_module(again, locations=True) == shown


def test_bounds_on_steps_and_sequences_can_be_given(tmp_path: Path) -> None:
    path = write_network(tmp_path, RECURRENT)
    given = graphc("dump", path, "--stage", "tensor", "--time", "7", "--sequences", "3")
    assert given.out.startswith("dim T <= 7\ndim S <= 3\ndim N = T * S\n")
    assert graphc("dump", path, "--stage", "tensor").out.startswith("dim T <= 64\ndim S <= 1\n")


@pytest.mark.parametrize(
    ("name", "got"),
    [("net.txt", "`.txt`"), ("net.safetensor", "did you mean `safetensors`?"), ("net", "got none")],
)
def test_a_file_of_another_kind_is_told_all_suffixes(tmp_path: Path, name: str, got: str) -> None:
    path = tmp_path / name
    path.write_text("x = Input(2)\n")
    done = graphc("dump", path)
    assert done.code == 3
    assert "one of the suffixes .ndl, .safetensors" in done.err
    assert got in done.err


def test_the_text_for_a_gpu_names_what_it_launches(tmp_path: Path) -> None:
    network = write_network(tmp_path)
    done = graphc("dump", network, "--stage", "cuda", "--machine", "sm_80", "--train")
    assert done.code == 0, done.err
    assert "written by graphc for sm_80" in done.out
    assert "net.ndl:" in done.out
    assert "__global__ void" in done.out
    levels = graphc("dump", network, "--stage", "cuda", "--after", "all").out
    assert "// ----- after plan-memory" in levels
    assert "__global__" not in levels


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--machine", "x86-64"), "requires a GPU such as sm_90"),
        (("--format", "svg"), "--stage cuda is text"),
    ],
)
def test_text_for_a_gpu_is_for_one(tmp_path: Path, given: tuple[str, str], message: str) -> None:
    done = graphc("dump", write_network(tmp_path), "--stage", "cuda", *given)
    assert done.code == 2
    assert message in done.err
