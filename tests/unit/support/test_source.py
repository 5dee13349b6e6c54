"""Source files, spans and locations: offsets to lines and columns, macro call paths, merging."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.support.source import (
    MAX_MERGED,
    NOT_AT_HAND,
    UNKNOWN,
    Location,
    SourceFile,
    Span,
    merge_locations,
)


def place(line: int, file: str = "net.ndl") -> Location:
    return Location(Span(file, line, 1, 2))


@given(st.text(alphabet="ab\n\r\té", max_size=40))
def test_every_offset_has_the_position_that_counting_gives(text: str) -> None:
    source = SourceFile("t", text)
    for offset in range(len(text) + 1):
        before = text[:offset]
        line, column = source.position(offset)
        assert line == before.count("\n") + 1
        assert column == offset - (before.rfind("\n") + 1) + 1


@given(st.text(alphabet="ab\n\r", max_size=40))
def test_line_texts_are_the_lines_without_their_ends(text: str) -> None:
    source = SourceFile("t", text)
    lines = [line.rstrip("\r") for line in text.split("\n")]
    assert [source.line_text(n) for n in range(1, len(lines) + 1)] == lines


def test_there_is_no_text_before_the_first_and_after_the_last_line() -> None:
    source = SourceFile("t", "a\nb")
    assert source.line_text(0) is None
    assert source.line_text(3) is None


def test_a_span_covers_its_characters() -> None:
    span = SourceFile("t", "h = Times(W, x)\nz = h").span(4, 9)
    assert (span.line, span.column, span.end_column) == (1, 5, 10)


def test_a_span_over_several_lines_ends_with_its_first() -> None:
    span = SourceFile("t", "ab\ncd").span(1, 5)
    assert (span.line, span.column, span.end_column) == (1, 2, 3)


@given(st.text(alphabet="a\n", max_size=10), st.integers(0, 10), st.integers(0, 10))
def test_a_span_is_never_empty(text: str, start: int, length: int) -> None:
    start = min(start, len(text))
    span = SourceFile("t", text).span(start, min(start + length, len(text)))
    assert span.end_column > span.column >= 1


def test_a_span_is_written_as_file_line_column() -> None:
    assert str(Span("net.ndl", 3, 5, 9)) == "net.ndl:3:5"


def test_the_source_does_not_count_in_the_equality_of_spans() -> None:
    assert Span("t", 1, 1, 2, SourceFile("t", "a")) == Span("t", 1, 1, 2, SourceFile("t", "b"))


def test_a_span_without_a_source_shows_the_line_of_python_code() -> None:
    own_first_line = Span(__file__, 1, 1, 2).line_text()
    assert own_first_line is not None
    assert own_first_line.startswith('"""Source files')


@pytest.mark.parametrize("name", ["no such file", "", "a\0b", "\ud800", "/"])
def test_a_name_that_is_no_file_has_no_line(name: str) -> None:
    assert Span(name, 1, 1, 2).line_text() is None


def test_a_span_that_was_only_read_about_shows_no_file() -> None:
    assert Span(__file__, 1, 1, 2, NOT_AT_HAND).line_text() is None


def test_the_call_path_goes_from_the_inner_macro_call_outwards() -> None:
    outer = Location(Span("net.ndl", 20, 1, 2))
    inner = Location(Span("macros.ndl", 10, 1, 2), outer)
    body = Location(Span("macros.ndl", 3, 1, 2), inner)
    assert [str(s) for s in body.call_path()] == ["macros.ndl:10:1", "net.ndl:20:1"]


def test_a_location_without_span_is_unknown() -> None:
    assert not UNKNOWN.is_known
    assert str(UNKNOWN) == "unknown"


def test_merging_nothing_known_gives_the_unknown_location() -> None:
    assert merge_locations([UNKNOWN, UNKNOWN]) == UNKNOWN


def test_merging_equal_locations_gives_that_location() -> None:
    assert merge_locations([place(1), UNKNOWN, place(1)]) == place(1)


def test_the_first_known_location_leads_a_merged_one() -> None:
    merged = merge_locations([UNKNOWN, place(2), place(1)])
    assert merged == Location(place(2).span, None, (place(1),))


def test_merging_merged_locations_gives_one_flat_list() -> None:
    left = merge_locations([place(1), place(2)])
    right = merge_locations([place(3), place(2), place(4)])
    merged = merge_locations([left, right])
    assert merged.span == place(1).span
    assert merged.merged == (place(2), place(3), place(4))


@pytest.mark.parametrize("count", [MAX_MERGED + 1, MAX_MERGED + 2, 10_000])
def test_a_merged_location_keeps_a_bounded_number_of_others(count: int) -> None:
    location = UNKNOWN
    for line in range(1, count + 1):
        location = merge_locations([location, place(line)])
    assert location.merged == tuple(place(n) for n in range(2, MAX_MERGED + 2))
