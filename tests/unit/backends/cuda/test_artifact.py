"""Files of kernels: what they hold, that they are compiled, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphc.backends.base import EmitRequest, Emitter
from graphc.backends.cuda.artifact import emit_cu, emit_cubin, emit_ptx
from graphc.backends.cuda.compiler import compile_text
from graphc.backends.cuda.host import emit_host
from graphc.ir.machine import GPUS
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse
from tests.support.cuda.sample import Planned, planned
from tests.support.cuda.tools import needs_nvrtc

TURNED = """
dim N <= 64

func @net(%x: tensor<Nx4x3xf32> input, %w: tensor<3x4xf32> parameter) \
-> (y: tensor<3xNx4xf32>, v: tensor<4x3xf32>) {
  %y = transpose %x {permutation = [2, 0, 1]} : tensor<3xNx4xf32>
  %v = transpose %w {permutation = [1, 0]} : tensor<4x3xf32>
  return %y, %v
}
"""


def function(launch: str = "graph") -> Planned:
    made, signature = planned(parse(TURNED), GPUS["sm_90"])
    made.launch = launch  # type: ignore[assignment]
    return made, signature


def request(target: str) -> EmitRequest:
    return EmitRequest("net", {}, "{}", target)


def comment_of(text: str) -> list[str]:
    return [line.removeprefix("//").strip() for line in text.split("\n\n")[0].splitlines()]


def test_the_text_begins_with_what_a_call_launches() -> None:
    text = emit_cu(*function(), request("sm_90")).decode("ascii")
    said = comment_of(text)
    assert said[0].startswith("net: the kernels of a network")
    assert "nvcc -arch=sm_90" in said[1]
    assert "N <= 64" in " ".join(said)
    (listed,) = [line for line in said if "-> " in line]
    for part in ("x", "w", "y", "v", "`y` = move.transpose", "`v` = move.transpose"):
        assert part in listed


def test_the_text_says_which_blocks_have_to_run_at_once() -> None:
    for launch, is_said in (("grid", True), ("graph", False)):
        said = " ".join(comment_of(emit_cu(*function(launch), request("sm_90")).decode("ascii")))
        assert ("wait for each other" in said) == ("blocks at once" in said) == is_said


def test_each_kernel_says_what_it_is_for() -> None:
    text = emit_cu(*function(), request("sm_90")).decode("ascii")
    starts = re.findall(r'((?://.*\n)+)extern "C" __global__', text)
    assert len(starts) == text.count("__global__")
    said = "".join(starts)
    assert re.search(r"`y` = move\.transpose : tensor<3xNx4xf32>, <text>:5:\d+", said)


def test_text_that_could_leave_a_comment_does_not() -> None:
    made, signature = function()
    for op in made.block:
        if op.results:
            op.results[0].name = "ä\\\nint wrong = ;\n\\"
    text = emit_cu(made, signature, request("sm_90")).decode("ascii")
    assert "<U+00E4><U+005C><U+000A>int wrong" in text
    assert "\nint wrong" not in text


@needs_nvrtc
@pytest.mark.parametrize("launch", ["graph", "grid", "block"])
def test_the_text_is_what_the_image_is_made_of(launch: str) -> None:
    text = emit_cu(*function(launch), request("sm_80")).decode("ascii")
    image = compile_text(text, "sm_80")
    assert set(image.resources) == set(re.findall(r"__launch_bounds__\([\d, ]+\) (\w+)\(", text))
    assert emit_cubin(*function(launch), request("sm_80")) == image.code


@needs_nvrtc
def test_ptx_is_for_the_architecture_that_was_asked_for() -> None:
    text = emit_ptx(*function(), request("sm_89")).decode("ascii")
    assert ".target sm_89" in text
    assert ".entry run_" in text


@needs_nvrtc
def test_the_program_in_c_has_an_image_for_each_architecture() -> None:
    made, signature = function()
    given = EmitRequest("net", {"w": np.ones((3, 4), np.float32)}, "{}", "sm_80,sm_90")
    text = emit_host(made, signature, given).decode("ascii")
    for arch in ("sm_80", "sm_90"):
        assert f"uint64_t image_{arch}[]" in text
    assert '#define ARCHITECTURES "sm_80, sm_90"' in text


@pytest.mark.parametrize(("emit", "what"), [(emit_cubin, "a cubin"), (emit_ptx, "PTX")])
def test_what_is_of_one_architecture_is_refused_for_several(emit: Emitter, what: str) -> None:
    with pytest.raises(GraphcError, match=rf"{what} is of one architecture.*sm_80,sm_90"):
        emit(*function(), request("sm_80,sm_90"))
