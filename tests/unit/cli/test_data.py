"""Data as `graphc train` and `eval` take them: CSV, pipes, widths that do not fit, nan."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from tests.support.commands import COLUMNS, Done, graphc, train, write_data, write_network


def evaluate(tmp_path: Path, data: Path | str, *more: str | Path, stdin: bytes = b"") -> Done:
    options = ("--backend", "reference", "--json", *more)
    columns = () if "--features" in more else COLUMNS
    network = write_network(tmp_path)
    return graphc("eval", network, "--data", data, *columns, *options, stdin=stdin)


def averages(done: Done) -> dict[str, float]:
    assert done.code == 0, done.err
    return json.loads(done.out)["averages"]


@pytest.fixture
def text(tmp_path: Path) -> bytes:
    return write_data(tmp_path).read_bytes()


@pytest.fixture
def expected(tmp_path: Path) -> dict[str, float]:
    return averages(evaluate(tmp_path, write_data(tmp_path)))


@pytest.mark.parametrize("separator", [b",", b";", b"\t"])
@pytest.mark.parametrize("header", [b"", b"x y label\n"])
def test_csv_with_and_without_a_header_is_read(
    tmp_path: Path, text: bytes, expected: dict[str, float], separator: bytes, header: bytes
) -> None:
    path = tmp_path / "data.csv"
    path.write_bytes((header + text).replace(b" ", separator))
    assert averages(evaluate(tmp_path, path)) == expected


def test_data_come_from_a_pipe(tmp_path: Path, text: bytes, expected: dict[str, float]) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(text,), daemon=True).start()
    assert averages(evaluate(tmp_path, path)) == expected


def test_data_come_from_standard_input(
    tmp_path: Path, text: bytes, expected: dict[str, float]
) -> None:
    assert averages(evaluate(tmp_path, "-", stdin=text)) == expected


def test_labels_of_a_mapping_come_from_a_pipe(tmp_path: Path, expected: dict[str, float]) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(b"0\n1\n",), daemon=True).start()
    assert averages(evaluate(tmp_path, write_data(tmp_path), "--label-mapping", path)) == expected


@pytest.mark.parametrize("source", ["-", os.devnull])
def test_empty_data_are_one_clear_error(tmp_path: Path, source: str) -> None:
    done = train(tmp_path, "--data", source)
    assert done.code == 3
    name = "<stdin>" if source == "-" else source
    assert f"at least one line with data is required, {name} has none" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--features", "0:1"), "--features 0:1: `features` requires 2 columns, got 1"),
        (("--features", "0:3"), "--features 0:3: `features` requires 2 columns, got 3"),
        (("--classes", "3"), "--classes 3: `labels` requires 2 classes, got 3"),
        (("--classes", "1"), "--classes 1: `labels` requires 2 classes, got 1"),
    ],
)
def test_a_width_that_does_not_fit_names_its_option(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = train(tmp_path, *options)
    assert done.code == 2
    assert message in done.err


def test_a_width_of_numbers_as_labels_names_its_option(tmp_path: Path) -> None:
    columns = ("--features", "0:2", "--labels", "1:3")
    done = evaluate(tmp_path, write_data(tmp_path), *columns)
    assert done.code == 2
    assert "--labels 1:3: `labels` requires 2 columns, got 3" in done.err


def test_a_mapping_of_another_length_names_its_option(tmp_path: Path) -> None:
    mapping = tmp_path / "mapping.txt"
    mapping.write_text("0\n1\n2\n")
    columns = ("--features", "0:2", "--labels", "2", "--label-mapping", mapping)
    done = evaluate(tmp_path, write_data(tmp_path), *columns)
    assert done.code == 2
    assert f"--label-mapping {mapping}: `labels` requires 2 classes, got 3" in done.err


@pytest.mark.parametrize("cell", ["nan", "-inf", "Infinity"])
def test_a_number_that_is_not_finite_is_shown_with_its_line(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "odd.txt"
    path.write_text(f"1 2 0\n1 {cell} 1\n{cell} 1 1\n")
    done = train(tmp_path, "--data", path)
    assert f"a number that is not finite in column 1 (`features`): `{cell}`" in done.err
    assert f"{path}:2:3" in done.err
    assert f"{path} has 2 such numbers" in done.err


def test_finite_numbers_bring_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_text("1e30 1e-30 0\n123456789012345678901234567890 -0.0 1\n")
    assert "warning" not in evaluate(tmp_path, path).err
