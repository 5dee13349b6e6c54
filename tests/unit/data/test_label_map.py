"""The mapping file made of the labels that data have."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.data.label_map import create_label_map
from graphc.data.labels import read_label_mapping
from graphc.support.diagnostics import GraphcError


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_labels_stand_in_the_order_of_their_first(tmp_path: Path) -> None:
    first = write(tmp_path, "1", "1 b 2\n1 a 3\n\n1 b 4\n")
    second = write(tmp_path, "2", "5 1.0 6\n5 a 6\n5 1 6\n5 ü 6")
    target = tmp_path / "map"
    assert create_label_map([first, second], 1, target) == ("b", "a", "1.0", "1", "ü")
    assert target.read_text(encoding="utf-8") == "b\na\n1.0\n1\nü\n"
    assert read_label_mapping(target) == ("b", "a", "1.0", "1", "ü")


def test_other_spellings_of_tables_are_read_too(tmp_path: Path) -> None:
    data = write(tmp_path, "data", 'x,kind\n1,"no"\n2,yes\n')
    assert create_label_map(data, 1, tmp_path / "map") == ("no", "yes")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("1 a\n2\n", (2, 1), "labels are in column 1, this line has 1 columns"),
        ("1,a\n2,\n", (2, 3), "a label of one word is required, got ''"),
        ('1,a\n2,"b c"\n', (2, 4), "a label of one word is required, got 'b c'"),
        ("1 a\n1 b\n1 c\n1 d\n", (4, 3), "at most 3 labels are expected, `d` is one more"),
    ],
)
def test_what_makes_no_mapping_is_refused_and_the_old_one_stays(
    tmp_path: Path, text: str, place: tuple[int, int], message: str
) -> None:
    data, target = write(tmp_path, "data", text), write(tmp_path, "map", "old\n")
    with pytest.raises(GraphcError, match=message) as raised:
        create_label_map(data, 1, target, classes=3)
    span = raised.value.diagnostics[0].span
    assert span is not None
    assert (span.file, span.line, span.column) == (str(data), *place)
    assert target.read_text() == "old\n"


def test_no_label_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="at least one label is required"):
        create_label_map(write(tmp_path, "data", "\n\n"), 0, tmp_path / "map")
