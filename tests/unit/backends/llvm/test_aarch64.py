"""Code for 64-bit ARM is right: it runs in an emulator, where there is one."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import graphc as gc
from graphc.backends.signature import make_signature
from graphc.driver.compile import lower
from graphc.driver.options import CompileOptions
from graphc.ir.clone import clone_module
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType
from graphc.learn.step import training_passes
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.commands import graphc, write_network
from tests.support.compiling import KERNEL_PIPELINE
from tests.support.emulated import Emulator, call_emulated, find_emulator
from tests.support.native import random_arguments
from tests.support.random_functions import make_function

PLAIN = """
features = Input(37, tag=feature)
labels = Input(11, tag=label)
W0 = Parameter(40, 37)
B0 = Parameter(40, 1)
W1 = Parameter(11, 40)
h = {activation}(Plus(Times(W0, features), B0))
z = Times(W1, h, tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
"""
IMAGES = """
features = ImageInput(9, 8, 2, tag=feature)
labels = Input(6, tag=label)
K = Parameter(5, 18)
W = Parameter(6, 45)
c = Convolution(K, features, 3, 3, 5, 1, 1, zeroPadding=false)
p = MaxPooling(RectifiedLinear(c), 2, 2, 2, 2)
z = Times(W, p, tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
"""
NETWORKS = {
    "sigmoid": PLAIN.format(activation="Sigmoid"),
    "tanh": PLAIN.format(activation="Tanh"),
    "images": IMAGES,
}


@pytest.fixture(scope="module")
def emulator() -> Emulator:
    found = find_emulator()
    if found is None:
        pytest.skip("needs aarch64-linux-gnu-gcc and qemu-aarch64")
    return found


@pytest.mark.parametrize("seed", range(8))
def test_random_functions_give_what_the_references_do(
    seed: int, emulator: Emulator, tmp_path: Path
) -> None:
    made = make_function(seed, exact=True)
    expected = evaluate(made.function, made.arguments, made.sizes)
    module = clone_module(made.module)
    PassManager(pipeline(KERNEL_PIPELINE)).run(module, default_context())
    (function,) = module.functions
    signature = make_signature(module, function)
    got = call_emulated(emulator, tmp_path, function, signature, made.arguments, made.sizes)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_training_step_gives_what_the_references_do(
    name: str, dtype: DType, emulator: Emulator, tmp_path: Path
) -> None:
    options = CompileOptions(batch=32, precision=dtype)
    _, passes = training_passes(gc.loads(NETWORKS[name]).model, gc.SGD(0.1, momentum=0.9), options)
    lowered = lower(gc.loads(NETWORKS[name]).model, passes, options)
    sizes = {"N": 13}
    given = random_arguments(lowered.signature, sizes)
    expected = evaluate(lowered.function, given, sizes)
    got = call_emulated(emulator, tmp_path, lowered.function, lowered.signature, given, sizes)
    allowed = 2e-4 if dtype is DType.F32 else 1e-11
    for result, value in expected.items():
        np.testing.assert_allclose(got[result], value, rtol=allowed, atol=allowed, err_msg=result)


def test_a_program_gives_what_the_network_does(
    emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", f"{emulator.compiler} -static")
    network, rows = write_network(tmp_path), b"0.5 -1\n2 0.25\n"
    done = graphc("compile", network, "-o", tmp_path / "net", "--target", "aarch64")
    assert done.code == 0, done.err
    ended = subprocess.run(
        [emulator.runner, tmp_path / "net"], input=rows, capture_output=True, check=True
    )
    here = graphc("run", network, stdin=rows).out
    np.testing.assert_allclose(np.loadtxt(ended.stdout.splitlines()), np.loadtxt(here.splitlines()))


@pytest.mark.skipif(platform.machine() == "aarch64", reason="gcc makes code for this processor")
def test_a_compiler_for_another_processor_is_said_to_be_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "gcc")
    done = graphc("compile", write_network(tmp_path), "-o", tmp_path / "net", "--target", "aarch64")
    assert done.code == 3
    assert "CC=aarch64-linux-gnu-gcc" in done.err
    assert not (tmp_path / "net").exists()
