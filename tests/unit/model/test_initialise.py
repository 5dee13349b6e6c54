"""Initial values: ranges, deviations, fixed bits, independence, and matrices from text files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.model.initialise import initial_value, read_matrix
from graphc.support.diagnostics import Diagnostic, GraphcError

NOWHERE = Path("nowhere")


def drawn(kind: str, rows: int, cols: int, *, scale: float = 1.0, index: int = 0) -> np.ndarray:
    return initial_value(kind, rows, cols, scale=scale, folder=NOWHERE, seed=1, index=index)


def error_in(folder: Path, data: bytes) -> Diagnostic:
    (folder / "w.txt").write_bytes(data)
    with pytest.raises(GraphcError) as error:
        read_matrix(folder, "w.txt")
    (diagnostic,) = error.value.diagnostics
    return diagnostic


def matrix_of(folder: Path, data: bytes) -> list[list[float]]:
    (folder / "w.txt").write_bytes(data)
    return read_matrix(folder, "w.txt").tolist()


# Random and fixed values


@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_a_drawn_value_is_a_matrix_of_f32_in_c_order(kind: str) -> None:
    value = drawn(kind, 3, 5)
    assert (value.dtype, value.shape) == (np.dtype(np.float32), (3, 5))
    assert value.flags.c_contiguous
    assert value.flags.writeable


@pytest.mark.parametrize("scale", [1.0, 0.5, 20.0])
def test_uniform_values_fill_their_range_evenly(scale: float) -> None:
    value = drawn("uniform", 100, 200, scale=scale) / (0.05 * scale)
    assert -1 <= value.min() < -0.999
    assert 0.999 < value.max() <= 1
    counts, _ = np.histogram(value, bins=20, range=(-1, 1))
    # 20,000 draws in 20 bins: 1000 in each, deviation 31.
    assert np.abs(counts - 1000).max() < 125


@pytest.mark.parametrize(("cols", "scale"), [(1, 1.0), (100, 1.0), (100, 3.0)])
def test_gaussian_values_have_their_deviation(cols: int, scale: float) -> None:
    value = drawn("gaussian", 40_000 // cols, cols, scale=scale).astype(np.float64)
    unit = value / (0.2 * scale / np.sqrt(cols))
    assert abs(unit.mean()) < 0.02
    assert abs(unit.std() - 1) < 0.02
    # The share within one, two and three deviations.
    for bound, share in ((1, 0.6827), (2, 0.9545), (3, 0.9973)):
        assert abs(np.mean(np.abs(unit) < bound) - share) < 0.01


def test_gaussian_neighbours_are_independent() -> None:
    value = drawn("gaussian", 1, 100_000).astype(np.float64).reshape(-1, 2)
    assert abs(np.corrcoef(value[:, 0], value[:, 1])[0, 1]) < 0.02
    assert abs(np.corrcoef(value[:, 0] ** 2, value[:, 1] ** 2)[0, 1]) < 0.02


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("kind", ["uniform", "gaussian"])
def test_more_rows_begin_with_the_same_values(kind: str, count: int) -> None:
    long = drawn(kind, 9, 1)
    np.testing.assert_array_equal(drawn(kind, count, 1), long[:count])


def test_uniform_values_are_these_for_ever() -> None:
    value = initial_value("uniform", 2, 2, folder=NOWHERE, seed=1, index=0)
    assert [float(x).hex() for x in value.reshape(-1)] == [
        "0x1.9c3cf00000000p-6",
        "0x1.74166c0000000p-5",
        "0x1.c507340000000p-6",
        "0x1.036aaa0000000p-5",
    ]


def test_gaussian_values_are_these_for_ever_but_for_the_last_bit() -> None:
    value = initial_value("gaussian", 2, 2, folder=NOWHERE, seed=1, index=0)
    np.testing.assert_allclose(
        value.reshape(-1),
        [0.22632795572280884, -0.06697673350572586, 0.09958138316869736, -0.2236480563879013],
        rtol=2e-7,
    )


def test_each_parameter_and_each_seed_has_values_of_its_own() -> None:
    values = {
        initial_value("uniform", 2, 2, folder=NOWHERE, seed=seed, index=index).tobytes()
        for seed in range(4)
        for index in range(4)
    }
    assert len(values) == 16


def test_a_fixed_value_has_the_digits_of_f64() -> None:
    value = initial_value("fixed_value", 2, 3, value=0.1, folder=NOWHERE, seed=1, index=0)
    np.testing.assert_array_equal(value, np.full((2, 3), 0.1))


def test_the_scale_does_not_change_a_fixed_value() -> None:
    value = initial_value("fixed_value", 1, 1, value=2, scale=9, folder=NOWHERE, seed=1, index=0)
    assert value.tolist() == [[2.0]]


@pytest.mark.parametrize("number", [1e39, -1e39, float("inf"), float("nan")])
def test_a_value_beyond_f32_is_refused(number: float) -> None:
    with pytest.raises(GraphcError, match="beyond f32") as error:
        initial_value("fixed_value", 1, 1, value=number, folder=NOWHERE, seed=1, index=0)
    assert error.value.diagnostics[0].slug == "bad-value"


def test_a_scale_beyond_f32_is_refused() -> None:
    with pytest.raises(GraphcError, match="beyond f32"):
        drawn("uniform", 1, 1, scale=float("inf"))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(
        GraphcError, match="uniform, gaussian, fixed_value or from_file, got `zero`"
    ):
        drawn("zero", 1, 1)


@pytest.mark.parametrize(("rows", "cols"), [(0, 1), (1, 0), (-1, 1)])
def test_dims_that_are_not_inferred_yet_are_refused(rows: int, cols: int) -> None:
    with pytest.raises(ValueError, match="inferred before"):
        drawn("uniform", rows, cols)


# Matrices from files


def test_the_shape_of_the_file_replaces_the_declared_one(tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text("1 2 3\n4 5 6\n")
    value = initial_value("from_file", 7, 0, path="w.txt", folder=tmp_path, seed=1, index=0)
    assert (value.dtype, value.tolist()) == (np.dtype(np.float64), [[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize(
    "data",
    [
        b"1 2.5\n-3 4e-1\n",
        b"1 2.5\n-3 4e-1",
        b"1 2.5\r\n-3 4e-1\r\n",
        b"1 2.5\r-3 4e-1\r",
        b"\xef\xbb\xbf1 2.5\n-3 4e-1\n",
        b"\n  +1.\t 2.50  \n\n-3.0 .4 \n \t \n",
    ],
)
def test_these_files_hold_the_same_matrix(tmp_path: Path, data: bytes) -> None:
    assert matrix_of(tmp_path, data) == [[1, 2.5], [-3, 0.4]]


@pytest.mark.parametrize(
    ("data", "place", "end_column", "part"),
    [
        (b"1 2\n3 x4 5\n", "w.txt:2:3", 5, "a number is required, got `x4`"),
        (b"1 2\r\n3 1_0\r\n", "w.txt:2:3", 6, "got `1_0`"),
        (b"1 nan", "w.txt:1:3", 6, "got `nan`"),
        (b"1,5 2", "w.txt:1:1", 4, "got `1,5`"),
        (b"0x10", "w.txt:1:1", 5, "got `0x10`"),
        (b"1 2 # note", "w.txt:1:5", 6, "got `#`"),
        ("1 \N{ARABIC-INDIC DIGIT ONE}".encode(), "w.txt:1:3", 5, "a number is required"),
        (b"1\xa02", "w.txt:1:1", 4, "a row of numbers is required"),
        (b"\x0c", "w.txt:1:1", 2, "a row of numbers is required"),
        (b"1 --2", "w.txt:1:3", 6, "got `--2`"),
        (b"1 .", "w.txt:1:3", 4, "got `.`"),
        (b"1\n2\n1e400", "w.txt:3:1", 6, "a number within f32 is required, got `1e400`"),
        (b"1e39", "w.txt:1:1", 5, "a number within f32 is required"),
        (
            b"1 2\n\n3\n",
            "w.txt:3:1",
            2,
            "each row must have 2 numbers as the first one, this has 1",
        ),
        (b"1\n2 3\n", "w.txt:2:1", 4, "this has 2"),
        (b"1 ." + b"1" * 64, "w.txt:1:3", 68, "a number is required, got `.111"),
    ],
)
def test_a_mistake_is_shown_at_its_place(
    tmp_path: Path, data: bytes, place: str, end_column: int, part: str
) -> None:
    diagnostic = error_in(tmp_path, data)
    assert diagnostic.slug == "bad-data"
    assert part in diagnostic.message
    assert diagnostic.span is not None
    assert str(diagnostic.span).endswith(place)
    assert diagnostic.span.end_column == end_column


@pytest.mark.parametrize("data", [b"", b"\n \n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(tmp_path: Path, data: bytes) -> None:
    assert "at least one row of numbers" in error_in(tmp_path, data).message


def test_utf_16_is_refused(tmp_path: Path) -> None:
    assert "NUL bytes (UTF-16?)" in error_in(tmp_path, "1 2\n".encode("utf-16")).message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match=r"cannot read .*gone.txt") as error:
        read_matrix(tmp_path, "gone.txt")
    assert error.value.diagnostics[0].slug == "file"


@pytest.mark.parametrize("name", ["", "../w.txt", "a/../w.txt"])
def test_a_file_outside_the_folder_of_the_model_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "w.txt").write_text("1")
    (tmp_path / "a").mkdir()
    with pytest.raises(GraphcError, match="a file name without"):
        read_matrix(tmp_path / "a", name)


def test_an_absolute_path_needs_permission(tmp_path: Path) -> None:
    path = tmp_path / "w.txt"
    path.write_text("1")
    settings = {"path": str(path), "folder": tmp_path, "seed": 1, "index": 0}
    with pytest.raises(GraphcError, match="got the absolute"):
        initial_value("from_file", 1, 1, **settings)  # pyright: ignore[reportArgumentType]
    value = initial_value("from_file", 1, 1, allow_absolute=True, **settings)  # pyright: ignore[reportArgumentType]
    assert value.tolist() == [[1.0]]
