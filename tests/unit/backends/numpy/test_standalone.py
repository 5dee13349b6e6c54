"""The Python file: it runs without graphc, checks its inputs, and is a command."""

# ruff: noqa: E501  # the text form has one line per function head

from __future__ import annotations

import ast
import builtins
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from graphc.backends.base import EmitRequest
from graphc.backends.numpy import BACKEND
from graphc.backends.numpy.emit import RESERVED
from graphc.backends.signature import make_signature
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse

TEXT = """\
dim N <= 4

func @evaluate(%features: tensor<Nx3xf32> input, %"W.0": tensor<2x3xf32> parameter) -> (z: tensor<Nx2xf32>, s: tensor<1x2xf32>) arena 0 {
  %h = gemm %features, %"W.0" {transpose_b = true} at result:0 : tensor<Nx2xf32>
  %k = kernel %h at result:1 : tensor<1x2xf32> {
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


def emit(text: str = TEXT, name: str = "small") -> bytes:
    module = parse(text)
    (function,) = module.functions
    parameters = {a.name or "": WEIGHTS for a in function.arguments[1:]}
    request = EmitRequest(name, parameters, INFO)
    return BACKEND.emit["py"].make(function, make_signature(module, function), request)


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
    assert small.info() == json.loads(INFO) | {"arena_bytes": small.ARENA_BYTES}


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
    assert command(path, "--info").stdout.startswith(INFO.removesuffix("}"))
    assert len(command(path, "--output", "s", text="1 0 0\n").stdout.split()) == 2


def test_the_arena_is_that_of_the_file_with_what_its_kernels_need(small: ModuleType) -> None:
    """The plan's arena is 0: what there is are temporaries of the kernel."""
    size = small.info()["arena_bytes"]
    assert size == small.ARENA_BYTES == small.new_arena().nbytes > 0
    z, s = np.empty((4, 2), np.float32), np.empty((1, 2), np.float32)
    arguments = (np.ones((4, 3), np.float32), WEIGHTS, z, s)
    small.small(4, small.new_arena(), *arguments)
    with pytest.raises(TypeError, match="buffer is too small"):
        small.small(4, small.new_arena()[: size - 64], *arguments)


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


def names_in(text: bytes) -> list[str]:
    """Every identifier of the text: what it reads, writes, defines and imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name)
            case _:
                pass
    return sorted(found)


@pytest.mark.parametrize("name", [n for n in names_in(emit()) if n != "s"])  # a result has it
def test_nodes_may_be_called_like_anything_in_the_file(name: str) -> None:
    for role in ("features", '"W.0"', "h", "z"):
        text = emit(TEXT.replace(f"%{role}", f'%"{name}"').replace(f"({role}:", f'("{name}":'))
        file: dict[str, Any] = {"__name__": "emitted"}
        exec(compile(text, "emitted", "exec"), file)  # noqa: S102  # as an import of it does
        outputs = file["run"](np.array([[1, 0, 0]]))
        np.testing.assert_array_equal(outputs[name if role == "z" else "z"], [[1, 0.5]])


@pytest.mark.parametrize("name", names_in(emit()))
def test_the_file_may_be_called_like_anything_in_it(name: str) -> None:
    file: dict[str, Any] = {"__name__": "emitted"}
    exec(compile(emit(name=name), "emitted", "exec"), file)  # noqa: S102
    np.testing.assert_array_equal(file["run"](np.eye(3))["z"], WEIGHTS.T)


def test_every_name_of_python_that_the_file_uses_is_reserved() -> None:
    used = {name for name in names_in(emit()) if hasattr(builtins, name)} - {"__name__"}
    assert used <= RESERVED


def test_an_input_keeps_a_name_of_python_that_the_file_does_not_use() -> None:
    assert b"def run(input):" in emit(TEXT.replace("%features", "%input"))
