"""The Python file: it runs without graphc, checks its inputs, and is a command."""

# ruff: noqa: E501  # the text form has one line per function head

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from graphc.backends.base import EmitRequest
from graphc.backends.numpy import BACKEND
from graphc.backends.signature import make_signature
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse

TEXT = """\
dim N <= 4

func @evaluate(%features: tensor<Nx3xf32> input, %"W.0": tensor<2x3xf32> parameter) -> (z: tensor<Nx2xf32>, s: tensor<1x2xf32>) arena 0 {
  %h = gemm %features, %"W.0" {transpose_b = true, at = ["result:0"]} : tensor<Nx2xf32>
  %k = kernel %h {at = ["result:1"]} : tensor<1x2xf32> {
  ^(%a: tensor<Nx2xf32>):
    %0 = sigmoid %a : tensor<Nx2xf32>
    %1 = reduce_sum %0 {axes = [0]} : tensor<1x2xf32>
    yield %1
  }
  return %h, %k
}
"""
WEIGHTS = np.array([[1, 2, 3], [0.5, -1, 0.1]], np.float32)
INFO = '{"abi":1,"name":"small"}'


def emit(text: str = TEXT) -> bytes:
    module = parse(text)
    (function,) = module.functions
    request = EmitRequest("small", {"W.0": WEIGHTS}, INFO)
    return BACKEND.emit["py"](function, make_signature(module, function), request)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "small.py"
    file.write_bytes(emit())
    return file


@pytest.fixture
def small(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("small", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def command(path: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    # -I: an isolated interpreter that sees neither this folder nor graphc's.
    return subprocess.run(
        [sys.executable, "-I", str(path), *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_file_mentions_no_import_of_graphc() -> None:
    assert b"import graphc" not in emit()


def test_emitting_twice_gives_the_same_bytes() -> None:
    assert emit() == emit()


def test_run_gives_every_output_by_name(small: ModuleType) -> None:
    x = np.array([[1, 0, 0], [0, 1, 0]], np.float32)
    outputs = small.run(x)
    np.testing.assert_array_equal(outputs["z"], x @ WEIGHTS.T)
    assert outputs["s"].shape == (1, 2)


def test_inputs_may_be_given_by_name_and_in_other_numbers(small: ModuleType) -> None:
    assert small.run(features=[[1, 0, 0]])["z"].tolist() == [[1.0, 0.5]]


def test_info_is_the_artifact_s_record(small: ModuleType) -> None:
    assert small.info() == json.loads(INFO)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 4)), r"features requires \[N, 3\], got \[2, 4\]"),
        (np.zeros(3), r"one sample is features\[None, :\]"),
        (np.zeros((5, 3)), "N is at most 4, got 5"),
        (np.zeros((1, 3), complex), "requires numbers"),
        (np.array([["a", "b", "c"]]), "requires numbers"),
    ],
)
def test_an_input_that_does_not_fit_is_a_value_error(
    small: ModuleType, array: np.ndarray, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        small.run(array)


def test_the_command_reads_text_from_standard_input_in_any_number_of_samples(path: Path) -> None:
    done = command(path, text="1 0 0\n\n0 1 0\n" * 3)
    assert done.stderr == ""
    assert done.stdout == "1 0.5\n2 -1\n" * 3


def test_the_command_reads_and_writes_npy(path: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.eye(3))
    done = command(path, str(tmp_path / "in.npy"), "-o", str(tmp_path / "out.npy"))
    assert (done.returncode, done.stdout) == (0, "")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), WEIGHTS.T)


def test_the_command_prints_another_output_and_the_info(path: Path) -> None:
    assert command(path, "--info").stdout == INFO + "\n"
    assert len(command(path, "--output", "s", text="1 0 0\n").stdout.split()) == 2


@pytest.mark.parametrize("text", ["1 2\n", "1 2 3\n1 2\n", "a b c\n"])
def test_the_command_refuses_bad_samples_in_one_line(path: Path, text: str) -> None:
    done = command(path, text=text)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1


def test_no_samples_give_no_lines(path: Path) -> None:
    done = command(path, text="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_training_step_is_refused() -> None:
    text = TEXT.replace('%"W.0": tensor<2x3xf32> parameter', '%"W.0": tensor<2x3xf32> state')
    with pytest.raises(GraphcError, match="not its training"):
        emit(text)
