"""Guarded memory finds what it is for: accesses outside, and results that depend on garbage."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import graphc as gc
from graphc.backends import BACKENDS
from tests.support.compiling import call, compile_for, load_backend, parse
from tests.support.guarded import GuardedFunction, guarded_buffers
from tests.support.guarded_memory import GARBAGE, GuardedMemory, Side
from tests.support.seed_runs import judged

ROOT = Path(__file__).parents[3]
TEXT = """
dim N <= 50
func @f(%x: tensor<Nx7xf32> input, %w: tensor<7x5xf32> parameter) -> (y: tensor<Nx5xf32>) {
  %e = exp %x : tensor<Nx7xf32>
  %p = matmul %e, %w : tensor<Nx5xf32>
  %y = tanh %p : tensor<Nx5xf32>
  return %y
}
"""
ACCESS = """
import ctypes
from tests.support.guarded_memory import GuardedMemory
buffer = GuardedMemory({side!r}).bytes(100, 4)
{protect}
ctypes.memset(buffer.array.ctypes.data + {offset}, 0, 1)
"""


@pytest.mark.parametrize(
    ("side", "offset", "protect", "dies"),
    [
        ("end", 99, "", False),
        ("end", 100, "", True),
        ("start", 0, "", False),
        ("start", -1, "", True),
        ("start", 0, "buffer.protect()", True),
    ],
)
def test_an_access_outside_ends_the_process(
    side: Side, offset: int, protect: str, *, dies: bool
) -> None:
    text = ACCESS.format(side=side, offset=offset, protect=protect)
    ended = subprocess.run([sys.executable, "-c", text], cwd=ROOT, check=False)
    assert ended.returncode == (-signal.SIGSEGV if dies else 0)


def test_a_write_between_a_buffer_and_its_guard_is_found() -> None:
    memory = GuardedMemory("end")
    buffer = memory.bytes(100, 64)
    assert memory.problems() == []
    buffer.pages[-1] = 0
    assert memory.problems() == ["bytes beside buffer 0 of 1 were written"]
    memory.close()


@pytest.mark.parametrize("samples", [0, 1, 50])
def test_guarded_calls_compute_what_others_do(samples: int) -> None:
    arguments = {
        "x": np.random.default_rng(1).normal(size=(samples, 7)).astype(np.float32),
        "w": np.random.default_rng(2).normal(size=(7, 5)).astype(np.float32),
    }
    got: list[np.ndarray] = []
    for guarded in (False, True):
        backend = load_backend("llvm")
        if guarded:
            with guarded_buffers():
                backend = load_backend("llvm")
        assert not isinstance(backend, str)
        compiled, signature = compile_for(backend, parse(TEXT))
        got.append(call(compiled, signature, arguments, {"N": samples})["y"])
    np.testing.assert_array_equal(got[0], got[1])


def test_a_result_that_is_not_written_is_found() -> None:
    with guarded_buffers():
        backend = load_backend("llvm")
    assert not isinstance(backend, str)
    compiled, _ = compile_for(backend, parse(TEXT))
    x, w = np.ones((2, 7), np.float32), np.ones((7, 5), np.float32)
    with pytest.raises(AssertionError, match="`y` depends on where buffers lie or on what they"):
        compiled([x, w], [np.ones((2, 5), np.float32)], {"N": 1})


def test_networks_run_in_guarded_memory_too() -> None:
    network = gc.loads("x = Input(2)\nz = Exp(x, tag=output)")
    with (
        guarded_buffers(),
        patch.object(GuardedFunction, "__call__", side_effect=AssertionError("guarded")),
        pytest.raises(AssertionError, match="guarded"),
    ):
        gc.compile(network)(x=np.ones((3, 2)))


def test_the_backend_is_put_back() -> None:
    before = BACKENDS["llvm"]
    with guarded_buffers():
        assert BACKENDS["llvm"] is not before
    assert BACKENDS["llvm"] is before


def test_garbage_of_both_ends_differs() -> None:
    assert GARBAGE["end"] != GARBAGE["start"]


def test_a_crash_is_a_problem_of_its_seed() -> None:
    verdicts = list(judged("tests.unit.support.crashing", [1, 2, 3], ["llvm"]))
    assert [v.seed for v in verdicts] == [1, 2, 3]
    assert [v.problem for v in verdicts if v.seed != 2] == ["", None]
    assert "SIGSEGV" in (verdicts[1].problem or "")
