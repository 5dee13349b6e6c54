"""Networks on a GPU as programs in C, over an emulated driver: results, and what they refuse."""

from __future__ import annotations

from ctypes.util import find_library
from pathlib import Path

import numpy as np
import pytest

from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.ir.core import Function
from graphc.ops import default_context
from graphc.passes.manager import PassManager
from graphc.runtime.signature import Signature
from tests.support.compiling import parse
from tests.support.cuda.building import missing
from tests.support.cuda.emulator import emulated_machine
from tests.support.cuda.hosts import built, call, emulated_host

pytestmark = pytest.mark.skipif(missing() != "", reason=missing() or "all is there")

LOOP = """
dim T <= 8

func @net(%x: tensor<Tx4xf32> input, %a0: tensor<4xf32> input, %b0: tensor<4xf32> parameter) \
-> (y: tensor<Tx4xf32>, b: tensor<4xf32>, d: tensor<4xf32>) {
  %a, %b, %c, %y = loop %x, %a0, %b0, %a0 {count = T, sequences = 1, carried = 3} \
: tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<Tx4xf32> {
  ^(%xt: tensor<4xf32>, %p: tensor<4xf32>, %q: tensor<4xf32>, %r: tensor<4xf32>):
    yield %q, %r, %xt, %p
  }
  return %y, %b, %c
}
"""


def lowered(text: str, launch: str = "auto") -> tuple[Function, Signature]:
    module = parse(text)
    passes = pipelines.kernels(emulated_machine("sm_90"))
    PassManager(passes, verify=True).run(module, default_context())
    (function,) = module.functions
    function.launch = launch  # type: ignore[assignment]
    return function, make_signature(module, function)


def shifted(x: np.ndarray, a0: np.ndarray, b0: np.ndarray) -> list[np.ndarray]:
    """What LOOP says, step by step."""
    a, b, c, kept = a0, b0, a0, []
    for step in x:
        kept.append(a)
        a, b, c = b, c, step
    return [np.array(kept).reshape(-1, 4), b, c]


X = np.arange(1, 33, dtype=np.float32).reshape(8, 4)
A0, B0 = np.full(4, -1, np.float32), np.array([0.5, -2.25, np.inf, 1e-40], np.float32)


@pytest.mark.parametrize("launch", ["graph", "grid", "block"])
def test_steps_and_loops_give_what_the_function_says(launch: str, tmp_path: Path) -> None:
    function, signature = lowered(LOOP, launch)
    library = built(emulated_host(function, signature, {"b0": B0}), tmp_path, "net")
    for count in (0, 1, 3, 8):
        out = [np.zeros((count, 4), np.float32), np.zeros(4, np.float32), np.zeros(4, np.float32)]
        got = call(library, signature.name, [X[:count], A0, *out], [[count], [count]])
        assert not isinstance(got, str), got
        for result, expected in zip(got[2:], shifted(X[:count], A0, B0), strict=True):
            np.testing.assert_array_equal(result, expected)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Signature]:
    function, signature = lowered(LOOP)
    text = emulated_host(function, signature, {"b0": B0}, ["sm_80", "sm_90"])
    return built(text, tmp_path_factory.mktemp("host"), "net"), signature


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("devices=0", "5: the driver knows no GPU"),
        ("devices=-1", "5: the driver cannot be used: it is refused"),
        ("release=11080", "5: the driver is too old: it is of CUDA 11.8, this code needs 12.0"),
        ("capability=75", "5: this is code for sm_80, sm_90, the GPU Emulated is sm_75"),
        ("capability=120", "5: this is code for sm_80, sm_90, the GPU Emulated is sm_120"),
        ("memory=700", "6: {bytes} bytes of the GPU's memory are required, 700 of 700 are free"),
        ("fault=700", "7: a kernel failed, start the program anew: an illegal memory access was "
         "encountered"),
    ],
)  # fmt: skip
def test_what_cannot_run_says_why(
    library: tuple[Path, Signature], settings: str, said: str
) -> None:
    path, signature = library
    needed = 256 * 7  # an arena and six arrays, each from a multiple of 256
    arrays = [X, A0, X.copy(), A0.copy(), A0.copy()]
    assert call(path, signature.name, arrays, [[8]], settings) == said.format(bytes=needed)


def test_without_a_driver_the_program_says_so(
    library: tuple[Path, Signature], tmp_path: Path
) -> None:
    if find_library("cuda") is not None:
        pytest.skip("there is a driver")
    path, signature = library
    arrays = [X, A0, X.copy(), A0.copy(), A0.copy()]
    said = call(path, signature.name, arrays, [[8]], driver=tmp_path)
    assert isinstance(said, str)
    assert said.startswith("5: no driver of an NVIDIA GPU: libcuda.so.1: cannot open")


def test_code_of_an_earlier_gpu_of_the_series_is_taken(library: tuple[Path, Signature]) -> None:
    path, signature = library
    arrays = [X, A0, np.zeros((8, 4), np.float32), A0.copy(), A0.copy()]
    for capability in (80, 86, 89, 90):
        got = call(path, signature.name, arrays, [[8]], f"capability={capability}")
        assert not isinstance(got, str), got
        np.testing.assert_array_equal(got[2], shifted(X, A0, B0)[0])


@pytest.mark.parametrize(("count", "status"), [(-1, 1), (9, 1)])
def test_a_wrong_call_has_the_status_of_the_interface(
    library: tuple[Path, Signature], count: int, status: int
) -> None:
    path, signature = library
    said = call(path, signature.name, [X, A0, X.copy(), A0.copy(), A0.copy()], [[count]])
    assert isinstance(said, str)
    assert said.startswith(f"{status}: the number of samples")
