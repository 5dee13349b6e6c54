from __future__ import annotations

import math

import pytest

from graphc.ir.core import Function
from graphc.ir.parser import parse_module
from graphc.ops import default_context
from graphc.ops.constant import ConstantParams
from graphc.passes.fold_constants import constant_of, fold


def function(body: str, result: str) -> Function:
    context = default_context()
    text = (
        f"dim N <= 8\nfunc @f(%x: tensor<2xf32> input) -> (z: {result}) {{\n{body}\nreturn %z\n}}"
    )
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    return module.functions[0]


def constant(name: str, value: str, type: str = "tensor<2xf32>") -> str:
    return f"{name} = constant {{type = {type}, value = [{value}]}} : {type}\n"


def folded(body: str, result: str = "tensor<2xf32>", max_elements: int = 4096) -> ConstantParams:
    f = function(body, result)
    assert fold(f, max_elements) == 1
    found = constant_of(f.returned[0])
    assert found is not None
    return found


def test_numbers_are_rounded_as_their_element_type_rounds() -> None:
    text = constant("%a", "0.1") + constant("%b", "0.2") + "%z = add %a, %b : tensor<2xf32>"
    assert folded(text).value == (0.30000001192092896,)


def test_the_sign_of_zero_is_kept() -> None:
    (value,) = folded(constant("%a", "0.0") + "%z = neg %a : tensor<2xf32>").value
    assert math.copysign(1, value) == -1


def test_zeros_of_both_signs_stay_two_elements() -> None:
    text = constant("%a", "0.0, -0.0") + "%z = abs %a : tensor<2xf32>"
    assert folded(text).value == (0.0,)
    text = constant("%a", "0.0, -0.0") + "%z = neg %a : tensor<2xf32>"
    assert str(folded(text).value) == "(-0.0, 0.0)"


@pytest.mark.parametrize(
    ("op", "value"), [("log", math.nan), ("sqrt", math.nan), ("exp", 0.36787944)]
)
def test_what_is_no_number_folds_without_a_warning(op: str, value: float) -> None:
    (found,) = folded(constant("%a", "-1.0") + f"%z = {op} %a : tensor<2xf32>").value
    assert found == pytest.approx(value, rel=1e-6, nan_ok=True)


def test_a_scalar_of_rank_0_folds() -> None:
    text = constant("%a", "3.0", "tensor<f32>") + "%z = mul %a, %a : tensor<f32>"
    assert folded(text, "tensor<f32>").value == (9.0,)


def test_a_reduction_counts_every_element_behind_one_number() -> None:
    text = constant("%a", "2.0", "tensor<3x4xf32>") + (
        "%z = reduce_sum %a {axes = [0, 1]} : tensor<1x1xf32>"
    )
    assert folded(text, "tensor<1x1xf32>").value == (24.0,)


def test_a_reduction_over_nothing_gives_its_identity() -> None:
    text = constant("%a", "2.0", "tensor<0x4xf32>") + (
        "%z = reduce_max %a {axes = [0]} : tensor<1x4xf32>"
    )
    assert folded(text, "tensor<1x4xf32>").value == (-math.inf,)


def test_truth_values_fold_to_truth_values() -> None:
    text = constant("%a", "1.0, 3.0") + constant("%b", "2.0") + "%z = less %a, %b : tensor<2xi1>"
    assert folded(text, "tensor<2xi1>").value == (True, False)


def test_large_arrays_are_left_alone() -> None:
    text = constant("%a", "1.0, 2.0") + "%z = exp %a : tensor<2xf32>"
    assert fold(function(text, "tensor<2xf32>"), 1) == 0


def test_one_number_folds_at_any_size() -> None:
    text = constant("%a", "1.0", "tensor<Nx2xf32>") + "%z = neg %a : tensor<Nx2xf32>"
    assert folded(text, "tensor<Nx2xf32>", 1).value == (-1.0,)


def test_a_value_that_reads_an_argument_is_left_alone() -> None:
    text = constant("%a", "1.0") + "%z = add %a, %x : tensor<2xf32>"
    assert fold(function(text, "tensor<2xf32>")) == 0
