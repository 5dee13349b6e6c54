"""Which matrices of the model a function takes in panels, and that its numbers stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends import BACKENDS
from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.ir.core import Module
from graphc.ir.machine import MACHINES, Machine
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.runtime.layouts import in_panels
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse

Array = np.ndarray
TEXT = """
dim N <= {bound}
func @f(%x: tensor<Nx{k}x{dtype}> input, %W: tensor<{k}x{n}x{dtype}> {role}
       ) -> (y: tensor<Nx{n}x{dtype}>) {{
  %y = matmul %x, %W : tensor<Nx{n}x{dtype}>
  {more}return %y
}}
"""


def text(n: int, k: int, bound: int = 40, role: str = "parameter", **more: str) -> str:
    fields = {"dtype": "f32", "more": "", **more}
    return TEXT.format(n=n, k=k, bound=bound, role=role, **fields)


def kernels(source: str, machine: Machine, *, freeze: bool) -> tuple[Module, Signature]:
    module = parse(source)
    passes = pipelines.kernels(machine, freeze=freeze)
    PassManager(passes, verify=True, check_claim=True).run(module, default_context())
    return module, make_signature(module, module.functions[0])


@pytest.mark.parametrize(
    ("columns", "width", "panels"), [(6, 3, 2), (7, 3, 3), (3, 3, 1), (8, 3, 3)]
)
def test_panels_hold_every_column_and_the_last_ones_to_the_end(
    columns: int, width: int, panels: int
) -> None:
    matrix = np.arange(5.0 * columns).reshape(5, columns)
    made = in_panels(matrix, width)
    assert made.shape == (panels, 5, width)
    for i in range(columns // width):
        np.testing.assert_array_equal(made[i], matrix[:, i * width : (i + 1) * width])
    np.testing.assert_array_equal(made[-1], matrix[:, -width:])


@pytest.mark.parametrize(
    ("backend", "machine", "dtype"),
    [
        *(("llvm", m, d) for m in ("x86-64-v2", "x86-64-v3", "x86-64-v4") for d in ("f32", "f64")),
        ("c", "x86-64-v3", "f32"),
    ],
)
@pytest.mark.parametrize(("n", "k", "bound"), [(300, 70, 40), (137, 530, 2), (512, 140, 40)])
def test_products_have_the_same_bits_for_any_number_of_rows(
    n: int, k: int, bound: int, machine: str, dtype: str, backend: str
) -> None:
    made = {}
    for freeze in (False, True):
        module, signature = kernels(
            text(n, k, bound, dtype=dtype), MACHINES[machine], freeze=freeze
        )
        assert bool(signature.arguments[1].panel) == freeze
        made[freeze] = BACKENDS[backend]().compile(module.functions[0], signature), signature
    element = np.float32 if dtype == "f32" else np.float64
    rng = np.random.default_rng(n)
    w = rng.standard_normal((k, n)).astype(element)
    for rows in (m for m in (0, 1, 2, 3, 7, 13, 40) if m <= bound):
        x = rng.standard_normal((rows, k)).astype(element)
        results: list[Array] = []
        for function, signature in made.values():
            y = np.full((rows, n), np.nan, element)
            (held,) = signature.model_arrays({"W": w}).values()
            assert not held.ctypes.data % 64 or not signature.arguments[1].panel
            function([x, held], [y], {"N": rows})
            results.append(y)
        np.testing.assert_array_equal(results[1], results[0])
        exact = x.astype(np.float64) @ w.astype(np.float64)
        np.testing.assert_allclose(results[0], exact, atol=1e-3 if dtype == "f32" else 1e-9)


@pytest.mark.parametrize("machine", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_panels_may_have_any_number_of_vectors(rows: int, machine: str) -> None:
    for n in (300, 330, 480, 512):  # 300: a tile of one row is wider on AVX-512
        source = text(n, 70).replace("Nx", f"{rows}x").replace("dim N <= 40\n", "")
        module, signature = kernels(source, MACHINES[machine], freeze=True)
        assert signature.arguments[1].panel
        function = BACKENDS["llvm"]().compile(module.functions[0], signature)
        rng = np.random.default_rng(n)
        x, w = rng.standard_normal((rows, 70)), rng.standard_normal((70, n))
        y, (panels,) = np.empty((rows, n), np.float32), signature.model_arrays({"W": w}).values()
        function([x.astype(np.float32), panels], [y], {})
        np.testing.assert_allclose(y, x @ w, atol=1e-4)


MACHINE = MACHINES["x86-64-v3"]


@pytest.mark.parametrize(
    "source",
    [
        text(300, 70, role="input"),
        text(100, 70),
        text(300, 70, more="%z = exp %W : tensor<70x300xf32>\n  ")
        .replace("-> (", "-> (z: tensor<70x300xf32>, ")
        .replace("return %y", "return %z, %y"),
    ],
    ids=["an input", "short rows", "another reader"],
)
def test_what_stays_as_it_is(source: str) -> None:
    module, signature = kernels(source, MACHINE, freeze=True)
    assert not any(a.panel for a in signature.arguments)
    assert '"panels"' not in str(module)


def test_a_matrix_in_a_loop_is_packed() -> None:
    source = """
func @f(%x: tensor<9x1x300xf32> input, %W: tensor<300x300xf32> parameter,
        %h: tensor<1x300xf32> input) -> (y: tensor<1x300xf32>) {
  %y = loop %W, %x, %h {count = 9, sequences = 1, carried = 1} : tensor<1x300xf32> {
  ^(%V: tensor<300x300xf32>, %e: tensor<1x300xf32>, %s: tensor<1x300xf32>):
    %0 = matmul %s, %V : tensor<1x300xf32>
    %1 = add %0, %e : tensor<1x300xf32>
    yield %1
  }
  return %y
}
"""
    module, signature = kernels(source, MACHINE, freeze=True)
    assert signature.arguments[1].panel
    function = BACKENDS["llvm"]().compile(module.functions[0], signature)
    rng = np.random.default_rng(1)
    x, h = rng.standard_normal((9, 1, 300)), rng.standard_normal((1, 300))
    w = rng.standard_normal((300, 300)) / 20
    y, (panels,) = np.empty((1, 300), np.float32), signature.model_arrays({"W": w}).values()
    function([x.astype(np.float32), panels, h.astype(np.float32)], [y], {})
    for e in x:
        h = h @ w + e
    np.testing.assert_allclose(y, h, atol=1e-4)


def test_panels_of_what_is_no_parameter_are_refused() -> None:
    module, _ = kernels(text(300, 70), MACHINE, freeze=True)
    source = str(module).replace(" parameter", " input")
    with pytest.raises(GraphcError, match="requires a parameter as its second operand"):
        make_signature(parse(source), parse(source).functions[0])


def test_an_unknown_machine_is_an_error() -> None:
    context = default_context()
    PassManager(pipeline('pack-parameters{machine = "x86"}')).passes[0].run(
        parse(text(300, 70)), context
    )
    with pytest.raises(GraphcError, match="requires a machine out of"):
        context.sink.raise_if_errors()


CONVOLUTION = """
dim N <= 3
func @f(%x: tensor<Nx6x7x2xf32> input, %K: tensor<32x18xf32> {role}
       ) -> (y: tensor<Nx4x5x32xf32>) {{
  %k = reshape %K {{dims = [32, 2, 3, 3]}} : tensor<32x2x3x3xf32>
  %t = transpose %k {{permutation = [2, 3, 1, 0]}} : tensor<3x3x2x32xf32>
  %p = patches %x {{axis = 1, sizes = [3, 3], strides = [1, 1]}} : tensor<Nx4x5x3x3x2xf32>
  %y = matmul %p, %t {{contract = 3}} : tensor<Nx4x5x32xf32>
  {more}return %y
}}
"""


@pytest.mark.parametrize("backend", ["llvm", "c", "numpy"])
def test_weights_of_a_convolution_lie_as_it_reads_them(backend: str) -> None:
    source = CONVOLUTION.format(role="parameter", more="")
    results: dict[bool, Array] = {}
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 6, 7, 2)).astype(np.float32)
    k = rng.standard_normal((32, 18)).astype(np.float32)
    for freeze in (False, True):
        module, signature = kernels(source, MACHINE, freeze=freeze)
        assert ("move.transpose" in str(module)) != freeze
        assert signature.arguments[1].shape == ((2, 3, 3, 2, 16) if freeze else (32, 18))
        function = BACKENDS[backend]().compile(module.functions[0], signature)
        results[freeze] = np.full((3, 4, 5, 32), np.nan, np.float32)
        function([x, *signature.model_arrays({"K": k}).values()], [results[freeze]], {"N": 3})
    np.testing.assert_array_equal(results[True], results[False])


@pytest.mark.parametrize(
    ("role", "more"),
    [("input", ""), ("parameter", "%z = exp %K : tensor<32x18xf32>\n  ")],
    ids=["an input", "another reader"],
)
def test_weights_that_are_transposed_in_a_call(role: str, more: str) -> None:
    source = CONVOLUTION.format(role=role, more=more)
    if more:
        source = source.replace("-> (", "-> (z: tensor<32x18xf32>, ").replace(
            "return", "return %z,"
        )
    module, _ = kernels(source, MACHINE, freeze=True)
    assert "laid" not in str(module)


@pytest.mark.parametrize("change", ["role", "reader"])
def test_laid_is_of_a_parameter_that_nothing_else_reads(change: str) -> None:
    module, _ = kernels(CONVOLUTION.format(role="parameter", more=""), MACHINE, freeze=True)
    source = str(module).replace(" parameter", " input")
    if change == "reader":
        line = (
            "%K {dims = [2, 16, 2, 3, 3], permutation = [0, 3, 4, 2, 1]} : tensor<2x3x3x2x16xf32>"
        )
        assert line in str(module)
        source = str(module).replace(f"laid {line}", f"laid {line}\n  %u = laid {line}")
    with pytest.raises(GraphcError, match="requires a parameter that nothing else reads"):
        make_signature(parse(source), parse(source).functions[0])
