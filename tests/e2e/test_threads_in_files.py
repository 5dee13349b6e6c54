"""Files with threads: a library's pool, a pool of the caller's own, a program's `--threads`."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import find_compiler
from graphc.driver.artifact import ArtifactRequest, emit
from graphc.driver.options import CompileOptions
from tests.support.native import backward_pool

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")

LARGE = """
features = Input(200, tag=feature)
W0 = Parameter(300, 200)
h = Sigmoid(Times(W0, features))
W1 = Parameter(20, 300)
z = Times(W1, h, tag=output)
"""
SMALL = """
features = Input(2, tag=feature)
W = Parameter(3, 2)
z = Times(W, features, tag=output)
"""
SAMPLES = 100


def _data() -> np.ndarray:
    return np.random.default_rng(2).standard_normal((SAMPLES, 200)).astype(np.float32)


def _files(text: str, folder: Path, *kinds: str) -> dict[str, Path]:
    network = gc.loads(text, seed=1)
    request = ArtifactRequest(kinds, folder / "net", version="0.1.0", name="net")
    return emit(network.model, request, CompileOptions(batch=128))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    if find_compiler() is None:
        pytest.skip("no C compiler")
    made = _files(LARGE, tmp_path_factory.mktemp("library"), "so", "header")
    loaded = ctypes.CDLL(str(made["so"]))
    loaded.net_pool_create.restype = ctypes.c_void_p
    loaded.net_pool_destroy.argtypes = [ctypes.c_void_p]
    loaded.net_arena_bytes.restype = ctypes.c_int64
    return loaded


def _run(library: ctypes.CDLL, pool: int | None) -> np.ndarray:
    x, z = _data(), np.full((SAMPLES, 20), np.nan, np.float32)
    room = np.empty(library.net_arena_bytes() + 64, np.uint8)
    arena = room.ctypes.data + -room.ctypes.data % 64
    pointers = (ctypes.c_void_p(p) for p in (x.ctypes.data, z.ctypes.data, arena, pool))
    assert library.net_run_with(ctypes.c_int64(SAMPLES), *pointers) == 0
    return z


def test_a_library_makes_pools_and_computes_the_same_with_them(library: ctypes.CDLL) -> None:
    alone = _run(library, None)
    assert np.isfinite(alone).all()
    for threads in (0, 1, 2, 3, 8):
        pool = library.net_pool_create(threads)
        assert pool is not None
        for _ in range(20):
            np.testing.assert_array_equal(_run(library, pool), alone)
        library.net_pool_destroy(pool)


def test_a_pool_may_be_the_callers_own(library: ctypes.CDLL) -> None:
    with backward_pool() as (pool, counts):
        np.testing.assert_array_equal(_run(library, pool), _run(library, None))
    assert counts and min(counts) >= 2


@needs_compiler
def test_a_program_computes_the_same_with_any_number_of_threads(tmp_path: Path) -> None:
    program = _files(LARGE, tmp_path, "exe")["exe"]
    np.save(tmp_path / "x.npy", _data())

    def output(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [str(program), *arguments, str(tmp_path / "x.npy")]
        given = {**os.environ, **environment}
        return subprocess.run(command, env=given, capture_output=True, text=True, check=False)

    alone = output("--threads", "1")
    assert alone.returncode == 0 and len(alone.stdout.splitlines()) == SAMPLES
    for threads in ("2", "3", "8"):
        assert output("--threads", threads).stdout == alone.stdout
        assert output(GRAPHC_NUM_THREADS=threads).stdout == alone.stdout
    assert output().stdout == alone.stdout
    wrong = output("--threads", "0")
    assert wrong.returncode == 2
    assert "--threads: a whole number from 1 to 1024 required, got `0`" in wrong.stderr
    wrong = output(GRAPHC_NUM_THREADS="x")
    assert wrong.returncode == 2
    assert "GRAPHC_NUM_THREADS: a whole number from 1 to 1024 required, got `x`" in wrong.stderr
    assert output("--threads", "2", GRAPHC_NUM_THREADS="x").stdout == alone.stdout
    assert output("--help", GRAPHC_NUM_THREADS="x").returncode == 0


def test_what_is_little_work_needs_no_threads(tmp_path: Path) -> None:
    made = _files(SMALL, tmp_path, "obj", "header")
    assert b"pool" not in made["obj"].read_bytes()
    assert "pool" not in made["header"].read_text()
