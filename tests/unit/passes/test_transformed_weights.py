"""Weights of the model that lie transformed for Winograd's algorithm: where, and that results keep
their bits where it was chosen before, and are exact where it is chosen for that."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends.native import NativeFunction
from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.ir.core import Module
from graphc.ir.machine import MACHINES
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.ops.convolution import CONV, ConvParams
from graphc.passes.manager import PassManager
from graphc.runtime.layouts import transformed
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import load_backend, parse

Array = np.ndarray


def text(
    edge: int, channels: int, features: int, dtype: str = "f32", bound: int = 3, again: str = ""
) -> str:
    """Weights as those of a file: [features, channels, 3, 3]."""
    x, y = (f"tensor<Nx{edge}x{edge}x{n}x{dtype}>" for n in (channels, features))
    padded = f"tensor<Nx{edge + 2}x{edge + 2}x{channels}x{dtype}>"
    k, t = f"{features}x{channels}x3x3x{dtype}", f"3x3x{channels}x{features}x{dtype}"
    return f"""
dim N <= {bound}
func @f(%x: {x} input, %K: tensor<{k}> parameter) -> (y: {y}) {{
  %t = transpose %K {{permutation = [2, 3, 1, 0]}} : tensor<{t}>
  %p = pad %x {{low = [0, 1, 1, 0], high = [0, 1, 1, 0], inner = [0, 0, 0, 0]}} : {padded}
  %w = patches %p {{axis = 1, sizes = [3, 3], strides = [1, 1]}}
    : tensor<Nx{edge}x{edge}x3x3x{channels}x{dtype}>
  %y = matmul %w, %t {{contract = 3}} : {y}
  {again}return %y
}}
"""


def kernels(source: str, machine: str, *, freeze: bool) -> tuple[Module, Signature]:
    """Read back from its text, as a person would give it."""
    module = parse(source)
    passes = pipelines.kernels(MACHINES[machine], freeze=freeze)
    PassManager(passes, verify=True, check_claim=True).run(module, default_context())
    module = parse(print_module(module))
    return module, make_signature(module, module.functions[0])


def results(
    source: str, backend: str, machine: str, x: Array, k: Array, *, freeze: bool, threads: int = 1
) -> Array:
    loaded = load_backend(backend)
    if isinstance(loaded, str):
        pytest.skip(loaded)  # says why the backend is not there
    module, signature = kernels(source, machine, freeze=freeze)
    assert bool(signature.arguments[1].windows) == freeze
    function = loaded.compile(module.functions[0], signature)
    if isinstance(function, NativeFunction):
        function.threads = threads
    y = np.full((*x.shape[:3], len(k)), np.nan, x.dtype)
    function([x, *signature.model_arrays({"K": k}).values()], [y], {"N": len(x)})
    return y


def arrays(edge: int, channels: int, features: int, dtype: str, images: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(edge)
    element = np.float32 if dtype == "f32" else np.float64
    x = rng.standard_normal((images, edge, edge, channels)).astype(element)
    return x, rng.standard_normal((features, channels, 3, 3)).astype(element)


def exact(x: Array, k: Array) -> Array:
    assert CONV.reference is not None
    params = ConvParams(1, (1, 1), (1, 1), (1, 1))
    weights = k.transpose(2, 3, 1, 0)
    return np.asarray(CONV.reference(params, x.astype(np.float64), weights.astype(np.float64)))


@pytest.mark.parametrize(
    ("backend", "machine", "channels", "features", "dtype"),
    [
        ("llvm", "x86-64", 16, 16, "f32"),
        ("llvm", "x86-64-v3", 17, 48, "f32"),
        ("llvm", "x86-64-v3", 16, 20, "f32"),  # in rows of all features
        ("llvm", "x86-64-v3", 16, 24, "f64"),
        ("llvm", "x86-64-v4", 64, 96, "f32"),  # parts of features
        ("llvm", "x86-64-v4", 16, 16, "f64"),
        ("c", "x86-64-v3", 17, 64, "f32"),
    ],
)
def test_weights_that_are_transformed_before_give_the_same_bits(
    backend: str, machine: str, channels: int, features: int, dtype: str
) -> None:
    source = text(13, channels, features, dtype)
    for images in (0, 1, 3):
        x, k = arrays(13, channels, features, dtype, images)
        given = results(source, backend, machine, x, k, freeze=False)
        for threads in (1, 3):
            before = results(source, backend, machine, x, k, freeze=True, threads=threads)
            np.testing.assert_array_equal(before, given)


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize(
    ("edge", "channels", "features", "dtype"),
    [(6, 16, 32, "f32"), (8, 33, 20, "f64"), (7, 256, 256, "f32")],
)
def test_small_images_take_it_too(
    edge: int, channels: int, features: int, dtype: str, backend: str
) -> None:
    source = text(edge, channels, features, dtype, bound=9)
    whole, k = arrays(edge, channels, features, dtype, 9)
    wanted, made = exact(whole, k), dict[int, Array]()
    for images in (1, 9):
        made[images] = results(source, backend, "x86-64-v3", whole[:images], k, freeze=True)
        largest, eps = np.abs(wanted).max(), np.finfo(whole.dtype).eps
        np.testing.assert_allclose(made[images], wanted[:images], rtol=0, atol=16 * eps * largest)
    np.testing.assert_array_equal(made[1], made[9][:1])


@pytest.mark.parametrize(
    ("edge", "channels", "features", "is_transformed"),
    [
        (6, 16, 16, True),
        (5, 256, 256, False),  # few results
        (7, 255, 256, False),  # the last tiles compute half of theirs again
        (7, 256, 256, True),
        (8, 15, 64, False),
        (8, 64, 15, False),
    ],
)
def test_which_convolutions_take_it(
    edge: int, channels: int, features: int, is_transformed: bool
) -> None:
    module, signature = kernels(text(edge, channels, features), "x86-64-v3", freeze=True)
    assert ("transformed = true" in print_module(module)) == is_transformed
    assert bool(signature.arguments[1].windows) == is_transformed


def test_weights_that_something_else_reads_stay_as_they_are() -> None:
    again = "%z = exp %K : tensor<16x16x3x3xf32>\n  "
    source = text(12, 16, 16, again=again).replace("-> (", "-> (z: tensor<16x16x3x3xf32>, ")
    source = source.replace("return %y", "return %z, %y")
    module, signature = kernels(source, "x86-64-v3", freeze=True)
    assert "winograd = true" in print_module(module)
    assert not signature.arguments[1].windows


def test_the_transformation_is_that_of_the_paper() -> None:
    """G g Gᵀ (Lavin and Gray, Fast algorithms for convolutional neural networks, 2015)."""
    matrix = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    weights = np.random.default_rng(3).standard_normal((2, 3, 3, 4, 5))
    wanted = np.einsum("ai,bj,nijcf->nabcf", matrix, matrix, weights)
    np.testing.assert_allclose(transformed(weights), wanted.reshape(2, 16, 4, 5), atol=1e-12)


WEIGHTS = "%K: tensor<16x16x3x3xf32> parameter"


def test_transformed_weights_of_an_input_are_refused() -> None:
    module, _ = kernels(text(12, 16, 16), "x86-64-v3", freeze=True)
    source = print_module(module)
    assert WEIGHTS in source
    module = parse(source.replace(WEIGHTS, WEIGHTS.replace("parameter", "input")))
    with pytest.raises(GraphcError, match="`laid` requires a parameter"):
        make_signature(module, module.functions[0])
    line = next(row for row in source.splitlines() if " = laid " in row)
    name = line.split(" = ")[0].strip()
    dims = line.split(" : ")[1]
    source = source.replace(f"{line}\n", "").replace(f"{name},", "%K,").replace(f"{name} ", "%K ")
    module = parse(source.replace(WEIGHTS, f"%K: {dims} input"))
    with pytest.raises(GraphcError, match="`conv` with transformed weights requires a parameter"):
        make_signature(module, module.functions[0])


def test_transformed_weights_are_those_of_the_algorithm() -> None:
    module, _ = kernels(text(12, 16, 16), "x86-64-v3", freeze=True)
    source, context = print_module(module).replace("winograd = true, ", ""), default_context()
    verify_module(parse_module(source, context), context.sink)
    (found,) = context.sink.diagnostics
    assert "`transformed` is for weights of a `conv` with `winograd`" in found.message
