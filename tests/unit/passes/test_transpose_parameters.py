"""Which parameters a frozen function takes transposed, and that nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.passes.transpose_parameters import SUFFIX
from graphc.runtime.signature import TRANSPOSED
from tests.support.compiling import parse

TEXT = """
dim N <= 8
func @f(%x: tensor<Nx4xf32> input, %W: tensor<3x4xf32> parameter,
        %v: tensor<1x4xf32> parameter{more}
       ) -> ({results}) {{
  {body}
}}
"""
PRODUCT = "%y = matmul %x, %W {transpose_b = true} : tensor<Nx3xf32>"


def passed(text: str) -> Module:
    module = parse(text)
    PassManager(pipeline("transpose-parameters"), verify=True, check_claim=True).run(
        module, default_context()
    )
    return module


def roles(module: Module) -> dict[str | None, str]:
    (function,) = module.functions
    return {a.name: r for a, r in zip(function.arguments, function.roles, strict=True)}


def text(body: str, results: str = "y: tensor<Nx3xf32>", more: str = "") -> str:
    return TEXT.format(body=body, results=results, more=more)


def test_a_matrix_that_products_turn_is_taken_turned() -> None:
    module = passed(text(f"{PRODUCT}\n  return %y"))
    assert roles(module) == {"x": "input", "W.transposed": "transposed", "v": "parameter"}
    assert "%y = matmul %x, %W.transposed : tensor<Nx3xf32>" in str(module)


def test_a_transposition_is_the_argument_then() -> None:
    body = """%t = transpose %W {permutation = [1, 0]} : tensor<4x3xf32>
  %y = matmul %x, %t : tensor<Nx3xf32>
  return %y"""
    module = passed(text(body))
    assert roles(module)["W.transposed"] == "transposed"
    assert "= transpose" not in str(module)


LOOKUP = "%y = index.sparse_product %x, %W, %i {columns = true} : tensor<Nx3xf32>"
INDEX = ", %i: tensor<Nx4xi32> input"


def test_a_table_whose_columns_are_looked_up_is_taken_turned() -> None:
    module = passed(text(f"{LOOKUP}\n  return %y", more=INDEX))
    assert roles(module)["W.transposed"] == "transposed"
    assert "index.sparse_product %x, %W.transposed, %i : tensor<Nx3xf32>" in str(module)
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(5, 4)).astype("f"), rng.normal(size=(3, 4)).astype("f")
    index = rng.integers(0, 4, (5, 4)).astype(np.int32)
    v = np.zeros((1, 4), np.float32)
    given = {"x": x, "W.transposed": w.T, "v": v, "i": index}
    found = evaluate(module.functions[0], given, {"N": 5})["y"]
    expected = np.einsum("nk,dnk->nd", x.astype(float), w.astype(float)[:, index])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "results"),
    [
        (f"{PRODUCT}\n  %z = exp %W : tensor<3x4xf32>\n  return %y, %z",
         "y: tensor<Nx3xf32>, z: tensor<3x4xf32>"),
        (f"{PRODUCT}\n  %z = matmul %y, %W : tensor<Nx4xf32>\n  return %z", "z: tensor<Nx4xf32>"),
        (f"{PRODUCT}\n  return %y, %W", "y: tensor<Nx3xf32>, z: tensor<3x4xf32>"),
        (f"{PRODUCT}\n  %z = matmul %W, %W {{transpose_b = true}} : tensor<3x3xf32>\n"
         "  return %y, %z", "y: tensor<Nx3xf32>, z: tensor<3x3xf32>"),
        ("%y = matmul %x, %v {transpose_b = true} : tensor<Nx1xf32>\n  return %y",
         "y: tensor<Nx1xf32>"),
    ],
    ids=["an element-wise use", "another product", "a result", "both factors", "a single row"],
)  # fmt: skip
def test_what_something_reads_as_it_is_stays(body: str, results: str) -> None:
    before = str(parse(text(body, results)))
    assert str(passed(text(body, results))) == before


def test_what_the_function_updates_stays() -> None:
    new = "%w = constant {type = tensor<3x4xf32>, value = [0.0]} : tensor<3x4xf32>"
    results = "y: tensor<Nx3xf32>, w: tensor<3x4xf32> updates %W"
    given = text(f"{PRODUCT}\n  {new}\n  return %y, %w", results)
    assert str(passed(given)) == str(parse(given))


def test_a_parameter_stays_where_its_new_name_is_taken() -> None:
    taken = ", %W.transposed: tensor<3x4xf32> parameter"
    given = text(f"{PRODUCT}\n  return %y", more=taken)
    assert str(passed(given)) == str(parse(given))


def test_the_numbers_keep_their_bits() -> None:
    rng = np.random.default_rng(0)
    x, w, v = (rng.standard_normal(s).astype(np.float32) for s in ((5, 4), (3, 4), (1, 4)))
    body = text(f"{PRODUCT}\n  return %y")
    (before,), (after,) = parse(body).functions, passed(body).functions
    expected = evaluate(before, {"x": x, "W": w, "v": v}, {"N": 5})
    got = evaluate(after, {"x": x, "W.transposed": w.T, "v": v}, {"N": 5})
    np.testing.assert_array_equal(got["y"], expected["y"])


def test_a_signature_knows_the_name() -> None:
    assert SUFFIX == TRANSPOSED
