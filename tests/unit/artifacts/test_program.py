"""The generated executable: what it reads, writes, refuses, and says."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import stat
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path

import numpy as np
import pytest

from graphc.artifacts.interface import exported_symbols
from graphc.artifacts.program import program_sources
from graphc.runtime.signature import Argument, Dimension, Result, Signature
from graphc.support.diagnostics import GraphcError
from tests.support.c_networks import Tool, Workshop, affine, network

Run = Callable[..., subprocess.CompletedProcess[bytes]]


def run_in(folder: Path, program: Path) -> Run:
    def run(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [str(program), *arguments]
        return subprocess.run(command, input=data, cwd=folder, capture_output=True, check=False)

    return run


@pytest.fixture
def run(workshop: Workshop, tmp_path: Path) -> Run:
    """z = 2 x + 1 with three columns of f32, in blocks of at most four samples."""
    return run_in(tmp_path, workshop.program(affine()))


@pytest.fixture
def run_f64(workshop: Workshop, tmp_path: Path) -> Run:
    return run_in(tmp_path, workshop.program(affine("fake64", "f64")))


@pytest.fixture
def run_many(workshop: Workshop, tmp_path: Path) -> Run:
    """Two inputs with samples and one without; two outputs with samples and one without."""
    fake = network(
        "many",
        [("a", "f32", ("N", 2)), ("b", "f64", ("N", 1)), ("bias", "f32", (1, 2))],
        [("sum", "f32", ("N", 2)), ("b.out", "f64", ("N", 1)), ("total", "f64", (1, 1))],
        "out_total[0] = 0;"
        "for (i = 0; i < n * 2; i++) out_sum[i] = in_a[i] + in_bias[i % 2];"
        "for (i = 0; i < n; i++) { out_b_out[i] = in_b[i]; out_total[0] += in_b[i]; }",
    )
    return run_in(tmp_path, workshop.program(fake))


@pytest.fixture
def two_files(tmp_path: Path) -> list[str]:
    (tmp_path / "a.txt").write_text("1 2\n3 4\n")
    (tmp_path / "b.txt").write_text("0.1\n10\n")
    (tmp_path / "bias.txt").write_text("100 200\n")
    return ["--input", "a=a.txt", "--input", "b=b.txt", "--input", "bias=bias.txt"]


def npy(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def table(rows: int) -> np.ndarray:
    return np.arange(rows * 3, dtype=np.float64).reshape(rows, 3)


def text(array: np.ndarray) -> bytes:
    return "".join(" ".join(f"{v:.9g}" for v in row) + "\n" for row in array).encode()


def assert_refused(
    done: subprocess.CompletedProcess[bytes], code: int, message: str, output: bytes = b""
) -> None:
    assert done.stderr.decode() == message + "\n"
    assert (done.returncode, done.stdout) == (code, output)


# Samples in


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 8, 9, 41])
def test_any_number_of_samples_is_computed_in_blocks(rows: int, run: Run) -> None:
    done = run(data=text(table(rows)))
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == text(2 * table(rows) + 1)


@pytest.mark.parametrize("rows", [0, 1, 4, 5, 41])
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("source", ["file", "pipe"])
def test_npy_of_both_types_and_orders_is_read(
    rows: int, dtype: str, order: str, source: str, run: Run, tmp_path: Path
) -> None:
    data = npy(np.asarray(table(rows), dtype=dtype, order="F" if order == "F" else "C"))
    (tmp_path / "x.bin").write_bytes(data)
    done = run("x.bin") if source == "file" else run("-", data=data)
    assert (done.returncode, done.stdout) == (0, text(2 * table(rows) + 1))


def test_npy_version_2_is_read(run: Run) -> None:
    assert run(data=npy(table(2), (2, 0))).stdout == text(2 * table(2) + 1)


@pytest.mark.parametrize(
    "data",
    [
        b"0 1 2\r\n3 4 5\r\n",
        b"\xef\xbb\xbf0 1 2\n3 4 5\n",
        b"\n\n 0\t1  2 \n \n3 4 5",
        b"0 1 2\r3 4 5\r",
        b"+0 1.0 .2e1\n3. 40e-1 0.000005E6",
    ],
    ids=["crlf", "bom", "blanks", "cr", "forms"],
)
def test_text_of_every_form_gives_the_same_numbers(data: bytes, run: Run) -> None:
    done = run(data=data)
    assert (done.returncode, done.stdout) == (0, b"1 3 5\n7 9 11\n")


def test_numbers_are_read_to_the_last_bit(run_f64: Run) -> None:
    rng = np.random.default_rng(7)
    values = np.concatenate(
        [
            rng.normal(size=300) * 10.0 ** rng.integers(-300, 300, 300),
            np.round(rng.normal(size=300), 6),
            [5e-324, 1.7976931348623157e308 / 4, 2.0**53 + 2, 0.1, 1e22, 1e23, -0.0],
        ]
    )
    values = values[: len(values) // 3 * 3].reshape(-1, 3)
    done = run_f64(
        "--format",
        "raw",
        data="\n".join(" ".join(map(repr, map(float, r))) for r in values).encode(),
    )
    np.testing.assert_array_equal(np.frombuffer(done.stdout).reshape(-1, 3), 2 * values + 1)


def test_infinities_and_nan_are_numbers(run: Run) -> None:
    assert run(data=b"inf -Infinity NaN\n").stdout == b"inf -inf nan\n"


def test_raw_numbers_are_read_and_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(table(5).astype("<f4").tobytes())
    done = run("--raw", "x", "--format=raw")
    np.testing.assert_array_equal(np.frombuffer(done.stdout, "<f4").reshape(5, 3), 2 * table(5) + 1)


def test_columns_pick_the_input_out_of_a_wider_file(run: Run) -> None:
    data = b"cat 0 1 2 x\ndog 3 4 5 y\n"
    assert run("--columns", "1:3", data=data).stdout == b"1 3 5\n7 9 11\n"


@pytest.mark.parametrize("order", ["C", "F"])
def test_columns_pick_the_input_out_of_npy(order: str, run: Run) -> None:
    wide = np.asarray(np.arange(12.0).reshape(2, 6), order="F" if order == "F" else "C")
    assert run("--columns", "2", data=npy(wide)).stdout == text(2 * wide[:, 2:5] + 1)


def test_an_input_has_an_option_of_its_name(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0 1 2\n")
    assert run("--features", "x").stdout == run("--FEATURES=x").stdout == b"1 3 5\n"


def test_names_of_files_may_begin_with_a_dash_after_two(run: Run, tmp_path: Path) -> None:
    (tmp_path / "-x").write_bytes(b"0 1 2\n")
    assert run("--", "-x").stdout == b"1 3 5\n"


def test_the_first_block_is_written_before_the_input_ends(workshop: Workshop) -> None:
    program = str(workshop.program(affine()))
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(text(table(4)))
        process.stdin.flush()
        assert process.stdout.readline() == b"1 3 5\n"
        process.stdin.close()
        process.stdout.read()


def test_a_block_of_one_answers_every_line(workshop: Workshop) -> None:
    command = [str(workshop.program(affine())), "--block", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in (b"0 1 2\n", b"1 1 1\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline() == text(2 * np.array([line.split()], dtype=float) + 1)
        process.stdin.close()


# Refused samples


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1 2\n", "<stdin>:1:4: 3 columns required, got 2"),
        (b"1 2 3\n1 2 3 4 5\n", "<stdin>:2:7: 3 columns required, got more"),
        (b"1 2 x1\n", "<stdin>:1:5: `x1` is not a number"),
        (b"\r\n1 0x1p3 2\r\n", "<stdin>:2:3: `0x1p3` is not a number"),
        (b"\xef\xbb\xbf1 1_0 2", "<stdin>:1:3: `1_0` is not a number"),
        (b"1 nan(1) 2", "<stdin>:1:3: `nan(1)` is not a number"),
        (b"1 1e 2", "<stdin>:1:3: `1e` is not a number"),
        (b"1 . 2", "<stdin>:1:3: `.` is not a number"),
        (b"1 1e400 2", "<stdin>:1:3: `1e400` is too large for a number"),
        (b"1 -1e39 2", "<stdin>:1:3: `-1e39` is too large for the input's type f32"),
        (
            b"1,2,3\n",
            "<stdin>:1:1: `1,2,3` is not a number (columns are separated by blanks or tabs)",
        ),
        (b"\xff\xfe1\x00", "<stdin>:1:1: text has to be UTF-8, this is UTF-16"),
        (
            b"1 2\x00 3\n",
            "<stdin>:1:4: a zero byte: this is neither text nor .npy (raw numbers need --raw)",
        ),
        (b"1 \x1b[2J 3\n", "<stdin>:1:3: `?[2J` is not a number"),
        (b"1 2 " + b"7" * 5000, f"<stdin>:1:5: `{'7' * 40}`... is too long for a number or label"),
    ],
)
def test_text_that_is_wrong_is_refused_with_its_place(data: bytes, message: str, run: Run) -> None:
    assert_refused(run(data=data), 3, f"fake: {message}")


HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }"


def with_header(header: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy(np.zeros((2, 4))), "3 columns required, got 4"),
        (npy(np.zeros((2, 2))), "3 columns required, got 2"),
        (npy(np.zeros(5)), "3 columns required, got 1"),
        (npy(np.zeros((1, 2, 3))), "an array of two dimensions [samples, columns] is required"),
        (npy(np.zeros((2, 3), "<i4")), "element type '<f4' or '<f8' required, got '<i4'"),
        (npy(np.zeros((2, 3), ">f4")), "element type '<f4' or '<f8' required, got '>f4'"),
        (b"\x93NUMPY\x03\x00", ".npy version 1.0 or 2.0 required, got 3.0"),
        (b"\x93NUMPY\x01", "the .npy header is truncated"),
        (with_header(HEADER)[:30], "the .npy header is truncated"),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff",
            "a .npy header of at most 65536 bytes required, got 4294967295",
        ),
        (
            with_header(HEADER.replace("(2,", "(999999999999999999,")),
            "the header's shape is impossibly large",
        ),
        (
            with_header(HEADER.replace("2, 3", "9" * 25 + ", 3")),
            "the .npy header is malformed (structured types are not read)",
        ),
        (
            with_header(HEADER.replace("'<f8'", "[('a', '<f8')]")),
            "the .npy header is malformed (structured types are not read)",
        ),
        (
            with_header(HEADER.replace("'shape'", "'descr'")),
            "the .npy header is malformed (structured types are not read)",
        ),
        (
            with_header(HEADER.replace("}", "'descr': '<f8'}"), bytes(48)),
            "the .npy header is malformed (structured types are not read)",
        ),
        (with_header("\x00" * 20), "the .npy header is malformed (it holds a zero byte)"),
        (
            npy(np.full((1, 3), 1e39)),
            "sample 0, column 0: 1e+39 is too large for the input's type f32",
        ),
    ],
)
def test_npy_that_is_wrong_is_refused(data: bytes, message: str, run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(data)
    assert_refused(run("x.npy"), 3, f"fake: x.npy: {message}")
    assert_refused(run(data=data), 3, f"fake: <stdin>: {message}")


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_truncated_or_longer_npy_file_is_refused_before_it_is_read(
    order: str, run: Run, tmp_path: Path
) -> None:
    data = npy(np.asarray(table(3), order="F" if order == "F" else "C"))
    (tmp_path / "short.npy").write_bytes(data[:-1])
    (tmp_path / "long.npy").write_bytes(data + b"x")
    what = "bytes of data required by its header, got"
    assert_refused(
        run("short.npy"), 3, f"fake: short.npy: the .npy file is truncated: 72 {what} 71"
    )
    assert_refused(run("long.npy"), 3, f"fake: long.npy: the .npy file is too long: 72 {what} 73")


def test_a_truncated_npy_from_a_pipe_names_the_sample(run: Run) -> None:
    done = run(data=npy(table(6))[:-1])
    message = "fake: <stdin>: the .npy file is truncated: it ends in sample 5 of 6"
    assert_refused(done, 3, message, text(2 * table(4) + 1))


def test_bytes_after_an_npy_from_a_pipe_are_refused(run: Run) -> None:
    done = run(data=npy(table(2)) + b"x")
    assert_refused(
        done, 3, "fake: <stdin>: the .npy file is too long: there are bytes after the data"
    )


def test_a_header_that_promises_much_takes_no_memory(run: Run) -> None:
    header = HEADER.replace("(2,", "(9999999999999999,")
    done = run("--columns", "0", data=with_header(header, bytes(24)))
    message = "fake: <stdin>: the .npy file is truncated: it ends in sample 1 of 9999999999999999"
    assert_refused(done, 3, message)


def test_raw_bytes_that_are_no_whole_sample_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(13))
    what = "raw samples of 12 bytes required"
    assert_refused(run("--raw", "x"), 3, f"fake: x: {what}, got a file of 13")
    assert_refused(run("--raw", data=bytes(13)), 3, f"fake: <stdin>: {what}, the last one has 1")


def test_files_that_cannot_be_read_are_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert_refused(run("no\x1bne"), 3, "fake: no?ne: cannot be read: No such file or directory")
    assert_refused(run("folder"), 3, "fake: folder: cannot be read: Is a directory")


def test_lines_of_different_lengths_are_refused_beside_picked_columns(run: Run) -> None:
    done = run("--columns", "1", data=b"0 1 2 3 4\n0 1 2 3\n")
    assert_refused(done, 3, "fake: <stdin>:2:8: 5 columns required, got 4")
    done = run("--columns", "3", data=b"0 1 2 3 4\n")
    assert_refused(done, 3, "fake: <stdin>:1:10: at least 6 columns required, got 5")


# Outputs


def test_npy_output_is_chosen_by_the_name(run: Run, tmp_path: Path) -> None:
    assert run("-o", "z.npy", data=text(table(9))).stdout == b""
    result = np.load(tmp_path / "z.npy")
    assert result.dtype == np.dtype("<f4")
    np.testing.assert_array_equal(result, 2 * table(9) + 1)


def test_npy_goes_to_a_pipe_too(run: Run) -> None:
    done = run("--format", "npy", data=text(table(9)))
    np.testing.assert_array_equal(np.load(io.BytesIO(done.stdout)), 2 * table(9) + 1)


def test_no_samples_give_an_empty_npy(run: Run) -> None:
    assert np.load(io.BytesIO(run("--format", "npy").stdout)).shape == (0, 3)


def test_f64_is_written_with_all_its_digits(run_f64: Run) -> None:
    assert run_f64(data=b"0.1 0.05 0\n").stdout == b"1.2 1.1000000000000001 1\n"


def test_argmax_prints_the_first_largest_column(run: Run) -> None:
    done = run("--argmax", data=b"1 3 2\n5 5 1\n-1 -2 -3\n0 nan 9\n")
    assert done.stdout == b"1\n0\n0\n1\n"


def test_argmax_in_npy_is_a_column_of_integers(run: Run) -> None:
    done = run("--argmax", "--format", "npy", data=b"1 3 2\n5 5 6\n")
    result = np.load(io.BytesIO(done.stdout))
    assert result.dtype == np.dtype("<i8")
    assert result.tolist() == [[1], [2]]


def test_a_failure_leaves_the_old_output_and_no_other_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "z.txt").write_text("old")
    done = run("-o", "z.txt", data=text(table(9)) + b"bad\n")
    assert done.returncode == 3
    assert (tmp_path / "z.txt").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["z.txt"]


def test_a_replaced_file_keeps_its_mode_and_a_link_its_target(run: Run, tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "real.txt").chmod(0o640)
    (tmp_path / "link.txt").symlink_to("real.txt")
    assert run("-o", "link.txt", data=b"0 0 0\n").returncode == 0
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "1 1 1\n"
    assert stat.S_IMODE((tmp_path / "real.txt").stat().st_mode) == 0o640


@pytest.fixture
def listening() -> Generator[None]:
    """Children are not told to ignore interrupts, as those of a shell's background job are."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_an_interrupt_removes_the_unfinished_file(workshop: Workshop, tmp_path: Path) -> None:
    command = [str(workshop.program(affine())), "-o", str(tmp_path / "z.txt"), "--block=1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b"0 0 0\n")
        process.stdin.flush()
        while not any(tmp_path.iterdir()):
            assert process.poll() is None
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        assert process.wait() == -signal.SIGINT
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["text", "npy", "raw"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_reported(form: str, run: Run, workshop: Workshop) -> None:
    message = "cannot be written: No space left on device"
    data = text(table(2))
    done = run("--format", form, "-o", "/dev/full", data=data)
    assert_refused(done, 3, f"fake: /dev/full: {message}")
    with Path("/dev/full").open("wb") as full:
        command = [str(workshop.program(affine())), "--format", form]
        again = subprocess.run(
            command, input=data, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (again.returncode, again.stderr.decode()) == (3, f"fake: <stdout>: {message}\n")


def test_an_output_folder_that_is_missing_is_reported(run: Run) -> None:
    done = run("-o", "none/z.txt")
    assert_refused(done, 3, "fake: none/z.txt: cannot be written: No such file or directory")


# Several inputs and outputs


def test_outputs_with_samples_are_joined(run_many: Run, two_files: list[str]) -> None:
    done = run_many(*two_files)
    assert done.stdout == b"101 202 0.10000000000000001\n103 204 10\n"


def test_joined_npy_has_the_wider_type(run_many: Run, two_files: list[str]) -> None:
    result = np.load(io.BytesIO(run_many(*two_files, "--format=npy").stdout))
    assert result.dtype == np.dtype("<f8")
    assert result.tolist() == [[101, 202, 0.1], [103, 204, 10]]


def test_one_input_may_be_standard_input(run_many: Run, two_files: list[str]) -> None:
    done = run_many(*two_files[2:], data=b"0 0\n0 0\n")
    assert done.stdout == b"100 200 0.10000000000000001\n100 200 10\n"


def test_each_output_goes_where_it_is_sent(
    run_many: Run, two_files: list[str], tmp_path: Path
) -> None:
    done = run_many(
        *two_files, "--output", "sum=s.npy", "--output", "B.OUT", "--output=total=t.txt"
    )
    assert done.stdout == b"0.10000000000000001\n10\n"
    assert np.load(tmp_path / "s.npy").tolist() == [[101, 202], [103, 204]]
    assert (tmp_path / "t.txt").read_text() == "10.1\n"


def test_no_output_file_appears_if_one_fails(
    run_many: Run, two_files: list[str], tmp_path: Path
) -> None:
    before = sorted(p.name for p in tmp_path.iterdir())
    done = run_many(*two_files, "--output", "sum=s.txt", "--output", "total=none/t.txt")
    assert done.returncode == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_an_output_over_all_samples_needs_one_block(
    run_many: Run, two_files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("1 2\n" * 5)
    (tmp_path / "b.txt").write_text("1\n" * 5)
    assert run_many(*two_files, "-q").returncode == 0
    message = (
        "an output over all samples together is computed in one call of at most 4 samples, got more"
    )
    assert_refused(run_many(*two_files, "--output", "total"), 3, f"many: {message}", b"4\n")


def test_an_output_over_no_samples_is_computed(
    run_many: Run, two_files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "b.txt").write_text("")
    assert run_many(*two_files, "--output", "total").stdout == b"0\n"


@pytest.mark.parametrize(("a", "b"), [(1, 2), (3, 2), (4, 5), (9, 8)])
def test_inputs_of_different_lengths_are_refused(
    a: int, b: int, run_many: Run, two_files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("1 2\n" * a)
    (tmp_path / "b.txt").write_text("1\n" * b)
    done = run_many(*two_files, "-q")
    less, more = ("a", "b") if a < b else ("b", "a")
    what = f"`{less}` ends after {min(a, b)}, `{more}` has more"
    assert_refused(done, 3, f"many: the inputs need the same number of samples: {what}")


def test_an_input_without_samples_has_its_rows(
    run_many: Run, two_files: list[str], tmp_path: Path
) -> None:
    for rows in (0, 2):
        (tmp_path / "bias.txt").write_text("1 2\n" * rows)
        done = run_many(*two_files)
        assert_refused(done, 3, "many: bias.txt: 1 rows required for input `bias`")


def test_a_network_without_samples_is_computed_once(workshop: Workshop, tmp_path: Path) -> None:
    fake = network("once", [], [("w", "f32", (2, 2))], "for (i = 0; i < 4; i++) out_w[i] = i;")
    assert run_in(tmp_path, workshop.program(fake))().stdout == b"0 1\n2 3\n"


def test_strange_names_of_nodes_are_only_names(workshop: Workshop, tmp_path: Path) -> None:
    name = 'x*/system("touch stolen")/*'
    fake = network(
        "main",
        [(name, "f32", ("N", 1)), ("memcpy", "f32", ("N", 1))],
        [("int", "f32", ("N", 1)), ("%s%n\x1b", "f32", ("N", 1))],
        "for (i = 0; i < n; i++) { out_int[i] = in_memcpy[i]; out__s_n_[i] = 1; }",
    )
    run = run_in(tmp_path, workshop.program(fake))
    (tmp_path / "x").write_text("5\n")
    done = run("--input", f"{name}=x", "--memcpy", "x")
    assert (done.returncode, done.stdout) == (0, b"5 1\n")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x"]


# Labels, times, descriptions


def test_labels_that_are_numbers_are_counted(run: Run) -> None:
    data = b"0 9 1 1\n2 1 2 9\n1 9 1 1\n"
    done = run("--label", "0", "--argmax", data=data)
    assert done.stdout == b"0\n2\n0\n"
    assert done.stderr == b"accuracy 66.67%: 1 errors in 3 samples\n"


def test_labels_that_are_names_are_counted(run: Run, tmp_path: Path) -> None:
    (tmp_path / "names").write_bytes(b"cat\r\ndog\r\n owl \r\n")
    data = b"9 1 1 cat\n1 1 9 dog\n1 1 9 owl\n1 9 1 dog\n1 9 1 dog\n"
    done = run("--label", "3", "--labels", "names", "--columns", "0:3", "-q", data=data)
    assert (done.stdout, done.stderr) == (b"", b"accuracy 80.00%: 1 errors in 5 samples\n")


@pytest.mark.parametrize("order", ["C", "F"])
def test_labels_in_npy_are_counted(order: str, run: Run) -> None:
    rows = np.array([[9, 0, 1, 1], [1, 2, 1, 9], [1, 2, 9, 1]], order="F" if order == "F" else "C")
    done = run("--label=1", "-q", data=npy(rows.astype("<f4")))
    assert done.stderr == b"accuracy 66.67%: 1 errors in 3 samples\n"


def test_accuracy_of_nothing_is_said_so(run: Run) -> None:
    assert run("--label", "0").stderr == b"accuracy: no samples\n"


@pytest.mark.parametrize("label", ["3", "-1", "1.5", "nan", "cat"])
def test_labels_outside_the_classes_are_refused(label: str, run: Run) -> None:
    message = f"fake: <stdin>:1:7: `{label}` is not a label of the network's classes (see --labels)"
    assert_refused(run("--label", "3", data=f"1 2 3 {label}\n".encode()), 3, message)


def test_more_labels_than_classes_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "names").write_text("a\nb\nc\nd\n")
    done = run("--label", "0", "--labels", "names")
    assert_refused(done, 3, "fake: names: 3 labels required, one for each class, got more")


def test_times_are_of_the_computation_with_best_and_median(run: Run) -> None:
    done = run("--time", "--repeat", "3", "-q", data=text(table(9)))
    number = r"\d+\.\d{3}"
    pattern = (
        rf"9 samples, computed in best {number} ms \({number} us a sample\), "
        rf"median {number} ms \({number} us a sample\), 3 passes\n"
    )
    assert re.fullmatch(pattern, done.stderr.decode())
    assert run("--time", data=b"").stderr.startswith(b"0 samples, computed in ")


def test_info_shows_a_table_and_the_json_of_the_object(run: Run) -> None:
    shown = run("--info").stdout.decode()
    assert "input   features  f32  3 numbers a sample" in shown
    assert "isa     x86-64" in shown
    assert json.loads(run("--info=json").stdout)["name"] == "fake"


@pytest.mark.parametrize("option", ["--info", "--help"])
def test_control_characters_of_names_do_not_reach_the_terminal(
    option: str, workshop: Workshop, tmp_path: Path
) -> None:
    fake = network(
        "rude",
        [("a\x1b[2J\nb", "f32", ("N", 1))],
        [("\x9bz\x7f", "f32", ("N", 1)), ("größe", "f32", ("N", 1))],
        "for (i = 0; i < n; i++) { out__z_[i] = 0; out_gr__e[i] = 0; }",
    )
    shown = run_in(tmp_path, workshop.program(fake))(option).stdout
    lines = [line.split() for line in shown.split(b"\n")]
    assert [b"input", rb"a\x1B[2J\x0Ab", b"f32", b"1", b"numbers", b"a", b"sample"] in lines
    assert [b"output", rb"\xC2\x9Bz\x7F", b"f32", b"1", b"numbers", b"a", b"sample"] in lines
    assert "größe".encode() in shown
    ports = [line for line in shown.split(b"\n") if b"numbers a sample" in line]
    assert len({line.index(b"f32") for line in ports}) == 1


def test_help_and_version_name_network_and_compiler(run: Run) -> None:
    shown = run("--help").stdout.decode()
    assert shown.startswith("usage: fake [OPTIONS] [FILE]")
    assert max(len(line) for line in shown.splitlines()) <= 90
    assert run("--version").stdout == b"fake (graphc 0.1.0)\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nonsense"], "no such option: `--nonsense`; see --help"),
        (["-x"], "no such option: `-x`; see --help"),
        (["a", "b"], "one FILE required, got `a` and `b`"),
        (["-o"], "-o needs a value; see --help"),
        (["--input", "x=y"], "--input: the network has no input `x`"),
        (["--input", "features"], "--input: NAME=FILE required, got `features`"),
        (["--features=a", "--features=b"], "input `features` is given twice"),
        (["--features=a", "b"], "every input has its file already, got also `b`"),
        (["--output", "y"], "--output: the network has no output `y`"),
        (["--output=z", "--output=z=b"], "output `z` is given twice"),
        (
            ["--output=z", "-o", "b"],
            "-o is for all outputs together: give --output NAME=FILE instead",
        ),
        (["--format=csv"], "--format: text, npy or raw required, got `csv`"),
        (["--columns=1:4"], "--columns: input `features` has 3 columns, got `1:4`"),
        (["--columns=x"], "--columns: a whole number from 0 to 2147483647 required, got `x`"),
        (["--block=0"], "--block: a whole number from 1 to 4 required, got `0`"),
        (["--block=5"], "--block: a whole number from 1 to 4 required, got `5`"),
        (
            ["--repeat", "99999999999999999999999"],
            "--repeat: a whole number from 1 to 1000000 required, got `99999999999999999999999`",
        ),
        (["--labels=x"], "--labels needs --label COLUMN"),
        (
            ["--label=4"],
            "--label: column 4 is not there beside the 3 columns of `features`; see --columns",
        ),
        (["--raw", "--columns=1"], "--columns needs text or .npy samples"),
        (
            ["--raw", "--label=1"],
            "--label needs text or .npy samples, and an output for every sample",
        ),
    ],
)
def test_wrong_use_is_explained(arguments: list[str], message: str, run: Run) -> None:
    assert_refused(run(*arguments), 2, f"fake: {message}")


def test_several_inputs_need_their_names(run_many: Run, two_files: list[str]) -> None:
    assert run_many().returncode == 2
    done = run_many(*two_files[4:], "--a=-", "--b=-")
    assert_refused(done, 2, "many: only one input can come from standard input")
    done = run_many(*two_files, "--output=sum", "--output=total")
    assert_refused(done, 2, "many: outputs `sum` and `total` cannot both go to standard output")


def test_a_processor_without_the_instructions_is_refused(
    workshop: Workshop, tool: Tool, tmp_path: Path
) -> None:
    fake = affine()
    info = fake.info.replace('"x86-64"', '"x86-64-v3"')
    sources = program_sources(fake.signature, info=info)
    # No processor at hand lacks these, so the question is replaced by its answer.
    sources["table.c"], found = re.subn(
        r'return __builtin_cpu_supports\("sse3"\) .*"avx2".*;', "return 0;", sources["table.c"]
    )
    assert found == 1
    for name, source in sources.items():
        (tmp_path / name).write_text(source)
    objects = [*sorted(tmp_path.glob("*.c")), workshop.compile_object(fake)]
    subprocess.run([tool("gcc"), "-std=c99", *objects, "-o", tmp_path / "out"], check=True)
    done = subprocess.run([tmp_path / "out"], capture_output=True, check=False, input=b"")
    message = "the program is compiled for x86-64-v3, which this processor does not have"
    assert_refused(done, 4, f"fake: {message}")


def test_a_failing_computation_is_an_internal_error(workshop: Workshop, tmp_path: Path) -> None:
    fake = network("bad", [("x", "f32", ("N", 1))], [("z", "f32", ("N", 1))], "return 7;")
    done = run_in(tmp_path, workshop.program(fake))("-o", "z", data=b"1\n")
    assert_refused(done, 4, "bad: the computation failed with status 7: not done")
    assert list(tmp_path.iterdir()) == []


# What graphc refuses to build, and the C code itself


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        (Signature("n", (), (), (), 0), "no output"),
        (
            Signature(
                "n", (), (Argument("x", "i64", (1,), "input"),), (Result("z", "f32", (1,)),), 0
            ),
            "f32 or f64, got i64 `x`",
        ),
        (
            Signature("n", (Dimension("N", 2),), (), (Result("z", "f32", (3, "N")),), 0),
            "samples first",
        ),
        (
            Signature(
                "n", (Dimension("N", 2), Dimension("T", 2)), (), (Result("z", "f32", ("N",)),), 0
            ),
            "one dimension of samples, got N, T",
        ),
        (Signature("n", (), (), (Result("z", "f32", (0, 3)),), 0), "`z` has none"),
    ],
)
def test_networks_that_no_table_of_samples_fits_are_refused(
    signature: Signature, message: str
) -> None:
    with pytest.raises(GraphcError, match=message) as caught:
        program_sources(signature, info="{}")
    assert caught.value.diagnostics[0].slug == "not-supported"


def test_the_program_compiles_without_warnings(tool: Tool, tmp_path: Path) -> None:
    fake = affine()
    for name, source in program_sources(fake.signature, info=fake.info).items():
        (tmp_path / name).write_text(source)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Wconversion", "-Wshadow"]
    units = sorted(p.name for p in tmp_path.glob("*.c"))
    command = [tool("gcc"), *flags, "-Wno-overlength-strings", "-O2", "-c", *units]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_function_of_the_program_meets_one_of_a_network() -> None:
    fake = affine("gcp")
    sources = program_sources(fake.signature, info=fake.info)
    fixed = "".join(t for n, t in sources.items() if n not in {"table.c", "artifact.h"})
    assert not [s for s in exported_symbols("gcp") if re.search(rf"\b{s}\b", fixed)]


def malformed() -> list[bytes]:
    """Truncations of a small .npy file, flipped bytes of its header, and wrong text."""
    rng = np.random.default_rng(11)
    good = npy(np.asfortranarray(table(2)))
    truncated = [good[:length] for length in range(0, len(good), 3)]
    flipped: list[bytes] = []
    for place in range(6, 76):
        changed = bytearray(good)
        changed[place] = int(rng.integers(0, 256))
        flipped.append(bytes(changed))
    cells = [b"\x00", b"\xff" * 3000, b"1e99999999999999999999", b"." * 2000, b"-", b"e", b"%n%s"]
    return [*truncated, *flipped, *[b"1 2 " + c + b"\n" for c in cells], b"1 " * 100_000]


def test_malformed_files_meet_no_sanitizer_report(workshop: Workshop, tmp_path: Path) -> None:
    run = run_in(tmp_path, workshop.sanitized_program(affine()))
    for data in malformed():
        (tmp_path / "x").write_bytes(data)
        for arguments in (["x"], ["-o", "z.npy"], ["x", "--columns=0", "--label=1", "--argmax"]):
            done = run(*arguments, data=data)
            assert done.returncode in {0, 3}, (data[:100], done.stderr)
            assert b"Sanitizer" not in done.stderr
            assert b"runtime error" not in done.stderr


def test_good_files_meet_no_sanitizer_report(workshop: Workshop, tmp_path: Path) -> None:
    run = run_in(tmp_path, workshop.sanitized_program(affine()))
    (tmp_path / "x").write_bytes(npy(np.asfortranarray(table(9))))
    for arguments in (["x"], ["x", "-o", "z.npy"], ["--info"], ["--help"], ["x", "--repeat=2"]):
        done = run(*arguments)
        assert (done.returncode, done.stderr) == (0, b"")
