"""Files that the UCI reader must refuse: each with the slug and the place of every mistake."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from graphc.data.uci import Columns, FeatureBlock, LabelBlock, read_uci
from graphc.support.diagnostics import GraphcError

BLOCKS = [
    FeatureBlock("features", Columns(0, 2)),
    LabelBlock("labels", Columns(2, 1), 3, ("a", "b", "c")),
]

Place = tuple[str, int, int]

# content of a file -> slug, line and column of every error
CELLS: dict[str, tuple[bytes, list[Place]]] = {
    "word for a number": (b"1 x a\n", [("bad-data", 1, 3)]),
    "two bad cells in a line": (b"y x a\n", [("bad-data", 1, 1), ("bad-data", 1, 3)]),
    "bad cells in two lines": (b"1 x a\n1 2 b\nz 2 c\n", [("bad-data", 1, 3), ("bad-data", 3, 1)]),
    "bad number and bad label": (b"1 x q\n", [("bad-data", 1, 3), ("label", 1, 5)]),
    "underscore": (b"1_000 2 a\n", [("bad-data", 1, 1)]),
    "underscore in a long number": (b"1_000_000_000_000.5 2 a\n", [("bad-data", 1, 1)]),
    "decimal comma": (b"1,5 2 a\n", [("bad-data", 1, 1)]),
    "Arabic digits": ("١٢ 2 a\n".encode(), [("bad-data", 1, 1)]),
    "full-width digits": ("1 \uff11\uff12 a\n".encode(), [("bad-data", 1, 3)]),
    "place after other scripts": ("١٢ x a\n".encode(), [("bad-data", 1, 1), ("bad-data", 1, 4)]),
    "hexadecimal": (b"0x10 2 a\n", [("bad-data", 1, 1)]),
    "hexadecimal float": (b"0x1.8p3 2 a\n", [("bad-data", 1, 1)]),
    "nan with a payload": (b"nan(1) 2 a\n", [("bad-data", 1, 1)]),
    "Microsoft's infinity": (b"1.#INF 2 a\n", [("bad-data", 1, 1)]),
    "almost nan": (b"na 2 a\n", [("bad-data", 1, 1)]),
    "too large": (b"1e400 2 a\n", [("bad-data", 1, 1)]),
    "too large for float32": (b"1e39 2 a\n", [("bad-data", 1, 1)]),
    "too large without exponent": (b"1" + b"0" * 39 + b" 2 a\n", [("bad-data", 1, 1)]),
    "too long": (b"0." + b"1" * 2000 + b" 2 a\n", [("bad-data", 1, 1)]),
    "sign alone": (b"- 2 a\n", [("bad-data", 1, 1)]),
    "two signs": (b"--1 2 a\n", [("bad-data", 1, 1)]),
    "sign behind": (b"1- 2 a\n", [("bad-data", 1, 1)]),
    "point alone": (b". 2 a\n", [("bad-data", 1, 1)]),
    "two points": (b"1.2.3 2 a\n", [("bad-data", 1, 1)]),
    "exponent without digits": (b"1e 2 a\n", [("bad-data", 1, 1)]),
    "exponent with a point": (b"1e1.5 2 a\n", [("bad-data", 1, 1)]),
    "exponent alone": (b"e5 2 a\n", [("bad-data", 1, 1)]),
    "quotes": (b'"1" 2 a\n', [("bad-data", 1, 1)]),
    "letter for a digit": (b"1O 2 a\n", [("bad-data", 1, 1)]),
    "complex number": (b"1+2j 2 a\n", [("bad-data", 1, 1)]),
    "comment": (b"# 2 a\n", [("bad-data", 1, 1)]),
    "after blanks": (b"   \t x 2 a\n", [("bad-data", 1, 6)]),
    "in the last line without its end": (b"1 2 a\n1 2a a", [("bad-data", 2, 3)]),
    "after a byte order mark": (b"\xef\xbb\xbf1 x a\n", [("bad-data", 1, 3)]),
    "after CR LF": (b"1 2 a\r\n1 x a\r\n", [("bad-data", 2, 3)]),
    "unknown label": (b"1 2 d\n", [("label", 1, 5)]),
    "label in capitals": (b"1 2 A\n", [("label", 1, 5)]),
    "long unknown label": (b"1 2 abcdefghijk\n", [("label", 1, 5)]),
    "label that starts as a known one": (b"1 2 ab\n", [("label", 1, 5)]),
    "bad columns in two lines": (
        b"1 2 a\n1 a\n1 2 3 a\n",
        [("bad-data", 2, 3), ("bad-data", 3, 7)],
    ),
    "commas in some lines": (b"1 2 a\n1,2,a\n", [("bad-data", 2, 1)]),
    "too few columns in all lines": (b"1 2\n3 4\n", [("bad-data", 1, 1)]),
    "NUL": (b"1 2 a\n1 \x00 a\n", [("bad-data", 2, 3)]),
    "NUL at the end": (b"1 2 a\n\x00\x00", [("bad-data", 2, 1)]),
    "escape character": (b"1 \x1b[31m2 a\n", [("bad-data", 1, 3)]),
    "vertical tab": (b"1 2\x0ba\n", [("bad-data", 1, 4)]),
    "UTF-16": ("1 2 a\n".encode("utf-16"), [("bad-data", 1, 1)]),
    "UTF-16 big-endian": (b"\xfe\xff" + "1 2 a\n".encode("utf-16-be"), [("bad-data", 1, 1)]),
    "UTF-16 without mark": ("1 2 a\n".encode("utf-16-le"), [("bad-data", 1, 2)]),
    "UTF-32": ("1 2 a\n".encode("utf-32"), [("bad-data", 1, 1)]),
    "Latin-1": (b"1 2 \xe9\n", [("bad-data", 1, 5)]),
    "truncated UTF-8": (b"1 2 a\n1 2 \xc3", [("bad-data", 2, 5)]),
    "lone CR": (b"1 2 a\r1 2 b\r", [("bad-data", 1, 6)]),
    "lone CR in the second line": (b"1 2 a\r\n1 2\r b\n", [("bad-data", 2, 4)]),
    "gzip": (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03", [("bad-data", 1, 2)]),
}


@pytest.mark.parametrize("name", CELLS)
def test_every_mistake_is_reported_at_its_place(tmp_path: Path, name: str) -> None:
    content, expected = CELLS[name]
    path = tmp_path / "data.txt"
    path.write_bytes(content)
    with pytest.raises(GraphcError) as caught:
        read_uci(path, BLOCKS)
    found = [(d.slug, d.span.line, d.span.column) for d in caught.value.diagnostics if d.span]
    assert found == expected
    assert all(d.span.file == str(path) for d in caught.value.diagnostics if d.span)


@pytest.mark.parametrize("content", [b"", b"\n\n", b" \t\r\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n"])
def test_a_file_without_data_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes(content)
    with pytest.raises(GraphcError, match="at least one line with data is required"):
        read_uci(path, BLOCKS)


@pytest.mark.parametrize("label", ["3", "-1", "1.0", "01", "+1", "1e0", "a"])
def test_without_a_mapping_a_label_is_an_integer_below_the_classes(
    tmp_path: Path, label: str
) -> None:
    path = tmp_path / "data.txt"
    path.write_text(f"{label}\n")
    with pytest.raises(GraphcError, match="an integer from 0 to 2 is required as label"):
        read_uci(path, [LabelBlock("y", Columns(0, 1), 3)])


def test_the_message_quotes_the_cell_and_shows_the_line(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("1 2 a\n0.5 1,5 b\n")
    with pytest.raises(GraphcError) as caught:
        read_uci(path, BLOCKS)
    assert str(caught.value).splitlines() == [
        "error[bad-data]: a number with a decimal point, not a comma, is required in column 1 "
        "(`features`), got `1,5`",
        f"  --> {path}:2:5",
        "  |",
        "2 | 0.5 1,5 b",
        "  |     ^^^",
    ]


def test_control_characters_of_a_long_cell_are_escaped_and_cut(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_bytes(b"\x7f" + b"x" * 5000 + b" 2 a\n")
    with pytest.raises(GraphcError) as caught:
        read_uci(path, BLOCKS)
    assert r"got `\x7fxxx" in str(caught.value)
    assert len(str(caught.value)) < 500 + len(str(path))


def test_a_folder_a_device_and_a_missing_file_are_one_error_each(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero"), tmp_path / "none.txt", Path("with\0nul")):
        with pytest.raises(GraphcError) as caught:
            read_uci(path, BLOCKS)
        assert [d.slug for d in caught.value.diagnostics] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_one_error(tmp_path: Path) -> None:
    path = tmp_path / "data.txt"
    path.write_text("1 2 a\n")
    path.chmod(0)
    with pytest.raises(GraphcError) as caught:
        read_uci(path, BLOCKS)
    assert [d.slug for d in caught.value.diagnostics] == ["file"]
