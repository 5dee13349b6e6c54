"""Reading inputs and writing outputs of a compiled network."""

from __future__ import annotations

import errno
import io
import resource
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphc.data.arrays import read_array, write_array
from graphc.support.diagnostics import GraphcError

NO_INPUT = io.BytesIO()
TYPES = ["<f2", "<f4", ">f4", "<f8", ">f8", "<i2", ">i4", "<i8", "<u1", "<u8", "|b1"]


def npy_bytes(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    content = header.encode("latin-1")
    size = 2 if version == b"\x01\x00" else 4
    return b"\x93NUMPY" + version + len(content).to_bytes(size, "little") + content + data


def fields(descr: str = "'<f4'", order: str = "False", shape: str = "(1, 2)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def read_bytes(tmp_path: Path, content: bytes) -> np.ndarray:
    path = tmp_path / "input"
    path.write_bytes(content)
    return read_array(path, stdin=NO_INPUT)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_that_numpy_wrote_is_read(tmp_path: Path, dtype: str, order: str) -> None:
    array = np.asarray(np.arange(12).reshape(4, 3) % 7, dtype, order=order)
    read = read_bytes(tmp_path, npy_bytes(array))
    np.testing.assert_array_equal(read, array)
    assert read.dtype == (np.float32 if dtype[1:] in ("f2", "f4") else np.float64)
    assert read.dtype.isnative
    assert read.flags.c_contiguous
    assert read.flags.writeable


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((), (1, 1)), ((5,), (1, 5)), ((5, 1), (5, 1)), ((2, 3, 4), (2, 12)), ((0, 3), (0, 3))],
)
def test_the_first_of_several_dimensions_counts_samples(
    tmp_path: Path, shape: tuple[int, ...], rows: tuple[int, int]
) -> None:
    array = np.arange(np.ones(shape).size, dtype=np.float32).reshape(shape)
    read = read_bytes(tmp_path, npy_bytes(array))
    assert read.shape == rows
    np.testing.assert_array_equal(read.ravel(), array.ravel())


@pytest.mark.parametrize(
    "header",
    [
        "{'shape': (1, 2), 'fortran_order': False, 'descr': '<f4'}",
        '{"descr":"<f4","fortran_order":False,"shape":(1,2)}',
        "  { 'descr' : '<f4' , 'fortran_order' : False , 'shape' : ( 1 , 2 , ) , }   \n",
    ],
)
@pytest.mark.parametrize("version", [b"\x01\x00", b"\x02\x00", b"\x03\x00"])
def test_other_spellings_of_the_header_are_read(
    tmp_path: Path, header: str, version: bytes
) -> None:
    data = np.array([1.5, -2], "<f4").tobytes()
    np.testing.assert_array_equal(read_bytes(tmp_path, npy(header, data, version)), [[1.5, -2]])


EIGHT = b"\0" * 8
MALFORMED: dict[str, tuple[bytes, str]] = {
    "only the magic": (b"\x93NUMPY", "bad-data"),
    "no length": (b"\x93NUMPY\x01\x00", "bad-data"),
    "half a header": (npy(fields(), EIGHT)[:40], "bad-data"),
    "version 9": (npy(fields(), EIGHT, b"\x09\x00"), "not-supported"),
    "header of a gigabyte": (b"\x93NUMPY\x02\x00\x00\x00\x00\x40{", "limit"),
    "empty header": (npy("", EIGHT), "bad-data"),
    "no dictionary": (npy("[1, 2]", EIGHT), "bad-data"),
    "no shape": (npy("{'descr': '<f4', 'fortran_order': False}", EIGHT), "bad-data"),
    "a call in the header": (npy(fields(shape="(exit(), 2)"), EIGHT), "bad-data"),
    "a fourth field": (npy(fields()[:-2] + "'x': 1}", EIGHT), "bad-data"),
    "a field twice": (npy(fields()[:-2] + "'shape': (1, 2)}", EIGHT), "bad-data"),
    "text behind the dictionary": (npy(fields() + "; x", EIGHT), "bad-data"),
    "nesting": (npy("(" * 2000 + ")" * 2000, EIGHT), "bad-data"),
    "negative dimension": (npy(fields(shape="(-1, 2)"), EIGHT), "bad-data"),
    "dimension that is no integer": (npy(fields(shape="(1.0, 2)"), EIGHT), "bad-data"),
    "dimension of many digits": (npy(fields(shape="(" + "9" * 500 + ",)"), EIGHT), "bad-data"),
    "empty dimension": (npy(fields(shape="(1,,2)"), EIGHT), "bad-data"),
    "33 dimensions": (npy(fields(shape="(" + "1, " * 33 + ")"), b"\0" * 4), "bad-data"),
    "huge shape": (npy(fields(shape="(65536, 65536)"), EIGHT), "bad-data"),
    "shape that wraps around": (npy(fields(shape="(4294967296, 4294967296)"), EIGHT), "limit"),
    "huge shape of nothing": (npy(fields(shape=f"(0, {10**17})")), "limit"),
    "data too short": (npy(fields(), EIGHT[:7]), "bad-data"),
    "data too long": (npy(fields(), EIGHT + b"\0"), "bad-data"),
    "objects": (npy(fields("'|O'"), EIGHT), "not-supported"),
    "records": (npy(fields("[('a', '<f4')]"), EIGHT), "not-supported"),
    "strings": (npy(fields("'<U1'"), EIGHT), "not-supported"),
    "complex numbers": (npy(fields("'<c8'"), EIGHT), "not-supported"),
    "long doubles": (npy(fields("'<f16'"), EIGHT), "not-supported"),
    "times": (npy(fields("'<M8[s]'"), EIGHT), "not-supported"),
    "f1": (npy(fields("'<f1'"), EIGHT), "not-supported"),
    "no order": (npy(fields(order="None"), EIGHT), "bad-data"),
    "zip archive": (b"PK\x03\x04" + b"\0" * 60, "bad-data"),
    "a magic with a slip": (b"\x93NUMPX\x01\x00", "bad-data"),
    "ragged text": (b"1 2\n3\n", "bad-data"),
    "a word in text": (b"1 2\n3 x\n", "bad-data"),
    "commas in some lines": (b"1 2\n1,2\n", "bad-data"),
    "nothing": (b"", "bad-data"),
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("through", ["file", "stdin"])
def test_a_malformed_file_is_one_clear_error(tmp_path: Path, name: str, through: str) -> None:
    content, slug = MALFORMED[name]
    with pytest.raises(GraphcError) as caught:
        if through == "file":
            read_bytes(tmp_path, content)
        else:
            read_array("-", stdin=io.BytesIO(content))
    assert [d.slug for d in caught.value.diagnostics] == [slug]
    assert ("input" if through == "file" else "<stdin>") in str(caught.value)


@given(st.binary(max_size=200))
def test_no_bytes_behind_the_magic_raise_anything_else(content: bytes) -> None:
    try:
        read_array("-", stdin=io.BytesIO(b"\x93NUMPY\x01\x00\x76\x00" + content))
    except GraphcError:
        pass


def test_a_promise_of_much_data_takes_no_memory(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(GraphcError, match="17179869184 bytes, 8 follow"):
        read_bytes(tmp_path, npy(fields(shape="(65536, 65536)"), EIGHT))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


def test_text_is_read_from_a_file_and_from_standard_input(tmp_path: Path) -> None:
    text = b"\n1 2\t3\r\n4 5e-1 nan"
    expected = [[1, 2, 3], [4, 0.5, np.nan]]
    np.testing.assert_array_equal(read_bytes(tmp_path, text), expected)
    np.testing.assert_array_equal(read_array("-", stdin=io.BytesIO(text)), expected)


def test_npy_is_recognised_on_standard_input() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(read_array("-", stdin=io.BytesIO(npy_bytes(array))), array)


def test_the_place_in_standard_input_is_given() -> None:
    with pytest.raises(GraphcError, match="<stdin>:2:3"):
        read_array("-", stdin=io.BytesIO(b"1 2\n3 x\n"))


arrays = hnp.arrays(
    st.sampled_from([np.dtype(np.float32), np.dtype(np.float64)]),
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=5),
)


@pytest.mark.parametrize("name", ["out.txt", "out.npy"])
def test_what_was_written_reads_the_same(tmp_path: Path, name: str) -> None:
    @given(arrays)
    def check(array: np.ndarray) -> None:
        write_array(tmp_path / name, array, stdout=io.BytesIO())
        read = read_array(tmp_path / name, stdin=NO_INPUT)
        np.testing.assert_array_equal(read.astype(array.dtype), array)
        np.testing.assert_array_equal(
            np.signbit(read) & (read == 0), np.signbit(array) & (array == 0)
        )

    check()


@given(hnp.arrays(np.float32, (3, 2)))
def test_standard_output_gets_text(array: np.ndarray) -> None:
    stdout = io.BytesIO()
    write_array("-", array, stdout=stdout)
    lines = stdout.getvalue().decode().splitlines()
    assert lines == [" ".join(f"{v:.9g}" for v in row) for row in array.tolist()]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 2), (0, 3)])
def test_numpy_reads_what_was_written(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.ones(shape).size) % 2).reshape(shape).astype(dtype)
    write_array(tmp_path / "out.npy", array, stdout=io.BytesIO())
    read = np.load(tmp_path / "out.npy", allow_pickle=False)
    assert read.shape == array.shape
    np.testing.assert_array_equal(read, array)
    assert (tmp_path / "out.npy").stat().st_size % 64 == array.nbytes % 64


def test_integers_are_written_without_a_point() -> None:
    stdout = io.BytesIO()
    write_array("-", np.array([[1, -2]]), stdout=stdout)
    assert stdout.getvalue() == b"1 -2\n"


def test_no_rows_are_an_empty_text() -> None:
    stdout = io.BytesIO()
    write_array("-", np.empty((0, 4), np.float32), stdout=stdout)
    assert stdout.getvalue() == b""


@pytest.mark.parametrize("array", [np.array(["x"]), np.array([1j]), np.array([None])])
def test_what_is_no_number_is_not_written(tmp_path: Path, array: np.ndarray) -> None:
    with pytest.raises(GraphcError, match="an array of numbers is required"):
        write_array(tmp_path / "out.npy", array, stdout=io.BytesIO())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_a_device_and_a_missing_file_are_one_error_each(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "none"):
        with pytest.raises(GraphcError) as caught:
            read_array(path, stdin=NO_INPUT)
        assert [d.slug for d in caught.value.diagnostics] == ["file"]


def test_an_output_in_a_missing_folder_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="cannot write"):
        write_array(tmp_path / "none" / "out.txt", np.zeros((1, 1)), stdout=io.BytesIO())


class FailingStream(io.BytesIO):
    """A stream whose every call to read or write fails with one error."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self.error = error

    def read(self, size: int | None = -1, /) -> bytes:
        raise self.error

    def write(self, data: object, /) -> int:
        raise self.error


def test_a_full_disk_behind_standard_output_is_an_error() -> None:
    stdout: BinaryIO = FailingStream(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(GraphcError, match="cannot write standard output: No space left"):
        write_array("-", np.zeros((1, 1)), stdout=stdout)


def test_a_broken_pipe_is_left_to_the_caller() -> None:
    with pytest.raises(BrokenPipeError):
        write_array("-", np.zeros((1, 1)), stdout=FailingStream(BrokenPipeError()))


def test_standard_input_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(GraphcError, match="cannot read standard input"):
        read_array("-", stdin=FailingStream(OSError(errno.EIO, "Input/output error")))
