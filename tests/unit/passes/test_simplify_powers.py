"""What a power becomes has the bits of the power, for every kind of base."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType
from graphc.passes.simplify import simplify
from tests.support.compiling import parse
from tests.support.judges import make_operand


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("exponent", ["0.0", "-0.0", "1.0", "2.0", "-1.0"])
def test_a_constant_power_keeps_its_bits(exponent: str, dtype: DType) -> None:
    type = f"tensor<2000x{dtype}>"
    text = (
        f"func @f(%x: {type} input) -> (z: {type}) {{\n"
        f"  %c = constant {{type = {type}, value = [{exponent}]}} : {type}\n"
        f"  %z = power %x, %c : {type}\n  return %z\n}}\n"
    )
    before, after = parse(text).functions[0], parse(text).functions[0]
    assert simplify(after) == 1
    x = make_operand(np.random.default_rng(1), (2000,), dtype, "special", tame=False)
    want, got = (evaluate(f, {"x": x}, {})["z"] for f in (before, after))
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    assert (np.signbit(got) == np.signbit(want))[number].all()
