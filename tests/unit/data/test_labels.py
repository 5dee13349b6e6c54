"""The label mapping file, and looking labels up."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.data.labels import read_label_mapping
from graphc.support.diagnostics import GraphcError


def read(tmp_path: Path, content: bytes) -> tuple[str, ...]:
    path = tmp_path / "labels.txt"
    path.write_bytes(content)
    return read_label_mapping(path)


def places(error: GraphcError) -> list[tuple[str, int, int]]:
    return [(d.slug, d.span.line, d.span.column) for d in error.diagnostics if d.span]


@pytest.mark.parametrize(
    "content",
    [
        b"zero\none\n",
        b"zero\none",
        b"zero\r\none\r\n",
        b"\xef\xbb\xbfzero\none\n",
        b"  zero\t\none \n",
        b"zero\none\n\n\n",
    ],
)
def test_spelling_of_line_ends_and_blanks_makes_no_difference(
    tmp_path: Path, content: bytes
) -> None:
    assert read(tmp_path, content) == ("zero", "one")


def test_labels_may_be_of_any_script(tmp_path: Path) -> None:
    assert read(tmp_path, "é\n٣\n零\n".encode()) == ("é", "٣", "零")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\na\n", [("duplicate-name", 3, 1)]),
        (b"a\n b\na\nb\n", [("duplicate-name", 3, 1), ("duplicate-name", 4, 1)]),
        (b"a\n\nb\n", [("bad-data", 2, 1)]),
        (b"a b\n", [("bad-data", 1, 3)]),
        (b"a\n\x00\n", [("bad-data", 2, 1)]),
        (b"a\nb\xff\n", [("bad-data", 2, 2)]),
        (b"\xff\xfea\x00\n\x00", [("bad-data", 1, 1)]),
        (b"a\rb\r", [("bad-data", 1, 2)]),
    ],
)
def test_a_malformed_mapping_is_refused_with_its_place(
    tmp_path: Path, content: bytes, expected: list[tuple[str, int, int]]
) -> None:
    with pytest.raises(GraphcError) as caught:
        read(tmp_path, content)
    assert places(caught.value) == expected


@pytest.mark.parametrize("content", [b"", b"\n", b" \t\n", b"\xef\xbb\xbf"])
def test_a_mapping_without_labels_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(GraphcError, match="at least one label is required"):
        read(tmp_path, content)


def test_the_second_of_two_equal_labels_names_the_first(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match=r"first here, from .*labels\.txt:1:1"):
        read(tmp_path, b"a\na\n")


def test_a_missing_mapping_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(GraphcError) as caught:
        read_label_mapping(tmp_path / "none.txt")
    assert [d.slug for d in caught.value.diagnostics] == ["file"]
