"""Large arrays in C files: every bit arrives, in text that any compiler of C11 has to take."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import require_compiler
from graphc.backends.c.large_data import ROW, FilledText, declaration, string_rows
from graphc.driver.artifact import ArtifactRequest, emit
from graphc.driver.options import CompileOptions
from graphc.support.diagnostics import InternalError

STRICT = ("-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror")
RANDOM = np.random.default_rng(5)


def library(source: Path, *flags: str) -> ctypes.CDLL:
    made = source.with_suffix(".so")
    command = [require_compiler().path, "-O1", "-fPIC", "-shared", *flags, source, "-o", made]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(made))


def held(tmp_path: Path, *arrays: np.ndarray) -> list[bytes]:
    """What a program in C finds in these arrays."""
    named = {f"array{i}": a for i, a in enumerate(arrays)}
    text = "".join(declaration(name, a.nbytes, 64) for name, a in named.items())
    text += "".join(f"const void *get_{name}(void) {{ return {name}; }}\n" for name in named)
    source = tmp_path / "data.c"
    source.write_bytes(b"".join(FilledText(text.encode(), named)))
    lines = source.read_bytes().split(b"\n")
    assert max(map(len, lines)) < 4096
    assert b"??" not in source.read_bytes()
    code = library(source, *STRICT)
    found: list[bytes] = []
    for name, array in named.items():
        get = code[f"get_{name}"]
        get.restype = ctypes.c_void_p
        assert get() % 64 == 0
        found.append(ctypes.string_at(get(), array.nbytes))
    return found


def test_every_byte_arrives_behind_every_other(tmp_path: Path) -> None:
    pairs = np.array([*itertools.product(range(256), repeat=2)], np.uint8)
    texts = np.frombuffer(b'??=??/"\\n\\0123456789%d\0' * 99, np.uint8)
    arrays = [pairs, texts, RANDOM.integers(0, 256, 5 * ROW + 1, np.uint8)]
    assert held(tmp_path, *arrays) == [a.tobytes() for a in arrays]


def test_every_bit_of_a_number_arrives(tmp_path: Path) -> None:
    bits = np.array([0, 1 << 31, 0x7FC00001, 0xFFA5A5A5, 0x7F800001, 1, 0x7F800000], np.uint32)
    halves = np.array([0x7FC1, 0x8000, 0xFF81], np.uint16)
    numbers = np.array([np.nan, -0.0, 5e-324, 1 / 3, np.inf])
    numbers.view(np.uint64)[0] += 77
    whole = np.array([-(2**63), 2**63 - 1, 0], np.int64)
    arrays = [np.resize(a, 4000) for a in (bits.view(np.float32), halves, numbers, whole)]
    assert held(tmp_path, *arrays) == [a.tobytes() for a in arrays]


def test_rows_of_zeros_are_empty() -> None:
    array = np.zeros(3 * ROW, np.uint8)
    array[2 * ROW] = 65
    zeros = b"\\0" * (ROW - 1)
    assert b"".join(string_rows(array)) == b'    "",\n    "",\n    "A' + zeros + b'",\n'


def test_a_text_can_be_gone_through_again_and_knows_its_places() -> None:
    text = FilledText(declaration("a", 3, 64).encode(), {"a": np.array([1, 2, 3], np.uint8)})
    assert b"".join(text) == b"".join(text)
    with pytest.raises(InternalError, match="the place of an array in a C file is not found"):
        b"".join(FilledText(b"int x;\n", text.arrays))


def test_parameters_of_a_file_are_what_they_were(tmp_path: Path) -> None:
    """Large ones, and small ones with nans, whose bits no number says."""
    odd = np.array([0, 1 << 31, 0x7FC00001, 0xFFA5A5A5, 0x3F800001], np.uint32).view(np.float32)
    arrays: dict[str, np.ndarray] = {
        "few": odd,
        "many": np.resize(odd, 40000),
        "wide": RANDOM.normal(size=9000),
        "whole": RANDOM.integers(-(2**31), 2**31, 20000, np.int32),
        "small": RANDOM.normal(size=7),
    }
    net = gc.program(
        lambda n, **given: {name: array[n.shape[0] :] for name, array in given.items()},
        {"n": "N"},
        parameters=arrays,
        bounds={"N": 4},
    )
    source = tmp_path / "net.c"
    emit(net, ArtifactRequest(["c"], source, name="net"), CompileOptions())
    assert b"nan" not in source.read_bytes()
    code = library(source, "-std=c11", "-march=native", "-Wall", "-Wextra", "-Werror")
    code.net_arena_bytes.restype = ctypes.c_int64
    memory = np.zeros(code.net_arena_bytes() + 64, np.uint8)
    made = {name: np.zeros(len(a) - 1, a.dtype) for name, a in arrays.items()}
    given = np.zeros(1, np.float32)
    places = [a.ctypes.data for a in (given, *made.values())]
    places.append(memory.ctypes.data + -memory.ctypes.data % 64)
    assert code.net_run(ctypes.c_int64(1), *map(ctypes.c_void_p, places)) == 0
    for name, array in made.items():
        assert array.tobytes() == arrays[name][1:].tobytes(), name
