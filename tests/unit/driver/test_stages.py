"""Which stage computes what, and what members exchange between stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from graphc.driver.stages import cut
from graphc.ir.core import Module, Trait
from graphc.ir.evaluate import evaluate
from graphc.runtime.stages import Exchange
from tests.support.compiling import parse

Array = np.ndarray

STEP = """\
dim N <= 4
dim NALL <= 4
func @f(%h: tensor<Nx2xf64> input, %t: tensor<Nx3xf64> input, %W: tensor<3x2xf64> parameter,
    %v: tensor<3x2xf64> state)
    -> (e: tensor<1x1xf64>, W: tensor<3x2xf64> updates %W, v: tensor<3x2xf64> updates %v) {
  %t_all = all_gather %t {members = 1, total = NALL} : tensor<NALLx3xf64>
  %h_all = all_gather %h {members = 1, total = NALL} : tensor<NALLx2xf64>
  %turned = neg %t_all : tensor<NALLx3xf64>
  %two = constant {type = tensor<3x2xf64>, value = [0.5]} : tensor<3x2xf64>
  %slower = mul %two, %v : tensor<3x2xf64>
  %z = matmul %h_all, %W {transpose_b = true} : tensor<NALLx3xf64>
  %m = reduce_max %z {axes = [1]} : tensor<NALLx1xf64>
  %max = all_fold %m {members = 1, by = "maximum"} : tensor<NALLx1xf64>
  %maxima = broadcast %max {dims = [NALL, 3]} : tensor<NALLx3xf64>
  %d = sub %z, %maxima : tensor<NALLx3xf64>
  %exp = exp %d : tensor<NALLx3xf64>
  %s = reduce_sum %exp {axes = [1]} : tensor<NALLx1xf64>
  %sum = all_fold %s {members = 1} : tensor<NALLx1xf64>
  %sums = broadcast %sum {dims = [NALL, 3]} : tensor<NALLx3xf64>
  %share = div %exp, %sums : tensor<NALLx3xf64>
  %g = add %share, %turned : tensor<NALLx3xf64>
  %both = mul %share, %d : tensor<NALLx3xf64>
  %weighted = mul %turned, %both : tensor<NALLx3xf64>
  %mine = reduce_sum %weighted {axes = [0, 1]} : tensor<1x1xf64>
  %e = all_reduce %mine {members = 1} : tensor<1x1xf64>
  %dW = matmul %g, %h_all {transpose_a = true} : tensor<3x2xf64>
  %total = all_reduce %dW {members = 1} : tensor<3x2xf64>
  %v_new = add %slower, %total : tensor<3x2xf64>
  %W_new = sub %W, %v_new : tensor<3x2xf64>
  return %e, %W_new, %v_new
}
"""


def names_of(module: Module) -> list[str]:
    (function,) = module.functions
    return [op.opdef.name for op in function.block if not op.opdef.has(Trait.TERMINATOR)]


def run(
    stages: Sequence[Module],
    meetings: Sequence[Sequence[Exchange]],
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
) -> dict[str, Array]:
    """One after the other, of one member, who gets what it gives; updates are made in place."""
    held = dict(arrays)
    for module, exchanges in zip(stages, [*meetings, ()], strict=True):
        (function,) = module.functions
        made = evaluate(function, held, sizes)
        for info in function.results:
            held[info.updates or info.name] = made[info.name]
        for exchange in exchanges:
            for gives, gets in zip(exchange.gives, exchange.gets, strict=True):
                held[gets] = held[gives]
    return held


def test_stages_together_are_the_function() -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "h": rng.random((4, 2)),
        "t": rng.random((4, 3)),
        "W": rng.random((3, 2)),
        "v": rng.random((3, 2)),
    }
    sizes = {"N": 4, "NALL": 4}
    module = parse(STEP)
    (function,) = module.functions
    expected = evaluate(function, arrays, sizes)
    found = run(*cut(module, function), arrays, sizes)
    for name, value in expected.items():
        assert np.array_equal(found[name], value)


def test_collectives_share_meetings_and_light_arithmetic_is_where_it_is_read() -> None:
    module = parse(STEP)
    stages, meetings = cut(module, module.functions[0])
    # The labels travel with the hidden layer, the criterion with the gradient: others wait for
    # those, nothing for these.
    kinds = [[(e.kind, len(e.gives)) for e in exchanges] for exchanges in meetings]
    assert kinds == [[("gather", 2)], [("maximum", 1)], [("add", 1)], [("sum", 2)]]
    first, second, third, fourth, last = map(names_of, stages)
    assert first == []
    assert second == ["matmul", "reduce_max"]
    assert third == ["broadcast", "sub", "exp", "reduce_sum"]
    assert {"neg", "sub", "div", "matmul"} <= set(fourth)
    assert "exp" not in fourth  # it is not light: what stage 2 has made is read
    assert sorted(last) == ["add", "constant", "mul", "sub"]
    given = [[a.name for a in m.functions[0].arguments] for m in stages]
    assert "v" not in given[0] + given[1] + given[2] + given[3]


@pytest.mark.parametrize("returned", ["%slower", "%v"])
def test_an_update_comes_behind_what_reads_its_argument(returned: str) -> None:
    """What is returned as it is, or computed again where it is read, reads the old one."""
    text = STEP.replace("-> (e:", "-> (old: tensor<3x2xf64>, e:").replace(
        "return %e", "return %old, %e"
    )
    text = text.replace("  return", f"  %old = add {returned}, %two : tensor<3x2xf64>\n  return")
    module = parse(text)
    (function,) = module.functions
    rng = np.random.default_rng(0)
    shapes = {"h": (4, 2), "t": (4, 3), "W": (3, 2), "v": (3, 2)}
    arrays = {name: rng.random(shape) for name, shape in shapes.items()}
    sizes = {"N": 4, "NALL": 4}
    expected = evaluate(function, arrays, sizes)
    found = run(*cut(module, function), arrays, sizes)
    for name, value in expected.items():
        assert np.array_equal(found[name], value)


def test_a_function_without_collectives_is_one_stage() -> None:
    text = "func @f(%x: tensor<2xf64> input) -> (y: tensor<2xf64>) {\n  return %x\n}\n"
    module = parse(text)
    stages, meetings = cut(module, module.functions[0])
    assert len(stages) == 1
    assert meetings == []
