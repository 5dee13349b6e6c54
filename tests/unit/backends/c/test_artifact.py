"""A network as one C file: compiled without warnings for every target, and called as C would."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import Compiler, find_compiler
from graphc.backends.abi import STATUS
from graphc.driver.artifact import ArtifactRequest, emit
from graphc.driver.options import CompileOptions, parse_precision

compiler = find_compiler()
pytestmark = pytest.mark.skipif(compiler is None, reason="no C compiler")
CROSS = shutil.which("aarch64-linux-gnu-gcc")
STRICT = ("-std=c11", "-O3", "-Wall", "-Wextra", "-Werror", "-fPIC")

NETWORK = """
x = ImageInput(7, 6, 2, tag=feature)
K = LearnableParameter(5, 18, init=uniform, initValueScale=1)
W = LearnableParameter(33, 45, init=uniform, initValueScale=1)
c = MaxPooling(RectifiedLinear(Convolution(K, x, 3, 3, 5, 1, 1, zeroPadding=true)), 2, 2, 2, 2)
z = Softmax(Times(W, c), tag=output)
y = Cosine(z, tag=output)
"""


def made(
    tmp_path: Path, target: str, *kinds: str, precision: str = "f32", text: str = NETWORK
) -> dict[str, Path]:
    network = gc.loads(text)
    options = CompileOptions(precision=parse_precision(precision), batch=16)
    request = ArtifactRequest(kinds, tmp_path / "net", target=target, version="0", name="net")
    return emit(network.model, request, options)


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("target", ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_files_compile_without_warnings_and_need_no_library(
    tmp_path: Path, target: str, precision: str
) -> None:
    (file,) = made(tmp_path, target, "c", precision=precision).values()
    assert compiler is not None
    flags = [] if target == "aarch64" else [f"-march={target}"]
    command = CROSS if target == "aarch64" else compiler.path
    if command is None:
        pytest.skip("no compiler for aarch64")
    subprocess.run(
        [command, *STRICT, *flags, "-x", "c", "-c", file, "-o", tmp_path / "n.o"], check=True
    )
    shown = subprocess.run(["nm", tmp_path / "n.o"], check=True, capture_output=True, text=True)
    seen = {tuple(line.split()[-2:]) for line in shown.stdout.splitlines()}
    assert {name for kind, name in seen if kind == "U"} <= {"memcpy", "memset"}
    assert {name for kind, name in seen if kind == "T"} == {
        f"net_{part}" for part in ("run", "arena_bytes", "status", "info")
    }


def test_a_file_says_which_processor_it_is_for(tmp_path: Path) -> None:
    (file,) = made(tmp_path, "x86-64-v3", "c").values()
    other = ["-march=x86-64"] if compiler is not None and "x86" in _machine(compiler) else []
    assert compiler is not None
    done = subprocess.run(
        [compiler.path, *STRICT, *other, "-x", "c", "-c", file, "-o", tmp_path / "n.o"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "compile it with -march=x86-64-v3" in done.stderr


def _machine(found: Compiler) -> str:
    done = subprocess.run([found.path, "-dumpmachine"], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_file_computes_what_the_network_does(tmp_path: Path) -> None:
    paths = made(tmp_path, "native", "c", "header")
    assert (
        "net_run(int64_t n, const float *in_x, float *out_z, float *out_y, void *arena)"
        in " ".join(paths["header"].read_text().split())
    )
    source = tmp_path / "net.c"
    library_file = tmp_path / "net.so"
    assert compiler is not None
    command = [compiler.path, *STRICT, "-march=native", "-shared", source, "-o", library_file]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(library_file))
    library.net_arena_bytes.restype = ctypes.c_int64
    library.net_status.restype = library.net_info.restype = ctypes.c_char_p
    size = library.net_arena_bytes()
    raw = np.zeros(size + 64, np.uint8)
    arena = raw[-raw.ctypes.data % 64 :]
    x = np.random.default_rng(0).standard_normal((5, 84)).astype(np.float32)
    z, y = (np.zeros((5, 33), np.float32) for _ in range(2))
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, z, y, arena)]
    assert library.net_run(ctypes.c_int64(5), *pointers) == 0
    wanted = gc.compile(gc.loads(NETWORK), backend="numpy")(x=x)
    np.testing.assert_allclose(z, wanted["z"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(y, wanted["y"], rtol=1e-4, atol=1e-6)
    assert library.net_run(ctypes.c_int64(17), *pointers) == 1
    assert library.net_run(ctypes.c_int64(5), None, *pointers[1:]) == 2
    odd = ctypes.c_void_p(arena.ctypes.data + 8)
    assert library.net_run(ctypes.c_int64(5), *pointers[:3], odd) == 3
    odd = ctypes.c_void_p(x.ctypes.data + 1)
    assert library.net_run(ctypes.c_int64(4), odd, *pointers[1:]) == 4
    assert [library.net_status(i).decode() for i in range(len(STATUS))] == list(STATUS)
    assert b'"outputs":[{"name":"z"' in library.net_info()


def test_sizes_that_follow_from_the_call_are_computed(tmp_path: Path) -> None:
    """Samples of other columns: three of two rows become two of three, so calls are even."""
    text = "x = Input(2, tag=feature)\nz = Reshape(x, 3, tag=output)\n"
    paths = made(tmp_path, "native", "c", "header", text=text)
    library_file = tmp_path / "net.so"
    assert compiler is not None
    command = [compiler.path, *STRICT, "-march=native", "-shared", paths["c"], "-o", library_file]
    subprocess.run(command, check=True)
    library = ctypes.CDLL(str(library_file))
    x, z = np.arange(12, dtype=np.float32).reshape(6, 2), np.zeros((4, 3), np.float32)
    arena = np.zeros(4096, np.uint8)
    places = (x.ctypes.data, z.ctypes.data, arena.ctypes.data + -arena.ctypes.data % 64)
    pointers = [ctypes.c_void_p(p) for p in places]
    assert library.net_run(ctypes.c_int64(6), *pointers) == 0
    np.testing.assert_array_equal(z, x.reshape(4, 3))
    assert library.net_run(ctypes.c_int64(5), *pointers) == 1


def test_the_same_network_gives_the_same_file_in_any_folder(tmp_path: Path) -> None:
    found: set[bytes] = set()
    for name in "ab":
        (tmp_path / name).mkdir()
        (file,) = made(tmp_path / name, "x86-64-v3", "c").values()
        found.add(file.read_bytes())
    assert len(found) == 1
