"""Diagnostics: what the user sees of them, suggestions, and the list of slugs."""

from __future__ import annotations

import copy
import pickle
import textwrap
import warnings

import pytest

from graphc.support.diagnostics import (
    MAX_LINE,
    MAX_SHOWN,
    BackendUnavailable,
    Diagnostic,
    DiagnosticSink,
    GraphcError,
    GraphcWarning,
    Note,
    Severity,
    fail,
    printable,
    render,
    suggestion,
    warn,
)
from graphc.support.slugs import SLUGS
from graphc.support.source import Location, SourceFile, Span

NET = SourceFile("net.ndl", "x = Input(784)\n\th = Times(W, x)\n")


def error(message: str, span: Span | None = None, **more: object) -> Diagnostic:
    return Diagnostic(Severity.ERROR, "parse", message, span, **more)  # type: ignore[arg-type]


def test_a_diagnostic_shows_its_line_with_carets_and_label() -> None:
    d = error("requires this", NET.span(0, 1), label="here", notes=(Note("also", NET.span(4, 9)),))
    assert render([d]) == textwrap.dedent(
        """\
        error[parse]: requires this
          --> net.ndl:1:1
          |
        1 | x = Input(784)
          | ^ here
          note: also, from net.ndl:1:5"""
    )


def test_the_caret_stays_under_its_column_after_a_tab() -> None:
    lines = render([error("m", NET.span(20, 25))]).splitlines()
    assert lines[3] == "2 |  h = Times(W, x)"
    assert lines[4] == "  |      ^^^^^"


def test_the_gutter_is_as_wide_as_the_line_number() -> None:
    source = SourceFile("t", "\n" * 99 + "abc")
    assert render([error("m", source.span(100, 101))]).splitlines()[2:] == [
        "    |",
        "100 | abc",
        "    |  ^",
    ]


def test_control_characters_of_a_source_line_are_not_printed() -> None:
    source = SourceFile("t", "a\x1b[31mb\x07c\u202ed")
    text = render([error("m", source.span(0, 1))])
    assert "1 | a?[31mb?c?d" in text


def test_control_characters_in_messages_labels_notes_and_file_names_are_escaped() -> None:
    source = SourceFile("a\x1b]0;x\x07.ndl", "abc")
    span = source.span(0, 1)
    text = render([error("m\x1b[2J", span, label="l\r", notes=(Note("n\x9b", span),))])
    assert text == "".join(c for c in text if c.isprintable() or c == "\n")
    assert r"m\x1b[2J" in text


def test_a_note_without_a_place_stands_alone() -> None:
    assert render([error("m", None, notes=(Note("remember"),))]) == (
        "error[parse]: m\n  note: remember"
    )


def test_a_diagnostic_whose_source_is_not_at_hand_shows_only_its_place() -> None:
    assert render([error("m", Span("no such file", 3, 4, 5))]) == (
        "error[parse]: m\n  --> no such file:3:4"
    )


def test_a_place_past_the_end_of_its_line_gets_one_caret() -> None:
    source = SourceFile("t", "abc")
    assert render([error("m", Span("t", 1, 10**12, 10**12 + 5, source))]).splitlines()[-1] == (
        "  |    ^"
    )


@pytest.mark.parametrize("column", [1, 80, 500, 921, 1000])
def test_a_long_line_is_cut_around_the_caret(column: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(1000))
    source = SourceFile("t", line)
    shown, caret = render([error("m", source.span(column - 1, column))]).splitlines()[3:]
    assert len(shown) <= MAX_LINE + len("1 | ") + 2
    assert shown[caret.index("^")] == line[column - 1]
    assert ("…" in shown[:6]) == (column > MAX_LINE)


def test_carets_of_a_long_span_end_with_the_part_that_is_shown() -> None:
    source = SourceFile("t", "a" * 100_000)
    shown, caret = render([error("m", source.span(0, 100_000))]).splitlines()[3:]
    assert len(caret) <= len(shown)


def test_diagnostics_come_sorted_by_place_those_without_one_first() -> None:
    spans = [Span("b", 1, 1, 2), Span("a", 10, 1, 2), Span("a", 9, 5, 6), Span("a", 9, 4, 5), None]
    text = render([error(str(i), s) for i, s in enumerate(spans)])
    messages = [line for line in text.splitlines() if line.startswith("error")]
    assert messages == [f"error[parse]: {i}" for i in (4, 3, 2, 1, 0)]


def test_diagnostics_of_one_place_keep_their_order() -> None:
    span = Span("a", 1, 1, 2)
    text = render([error(m, span) for m in "cab"])
    assert [line[-1] for line in text.splitlines() if line.startswith("error")] == list("cab")


def test_at_most_twenty_are_shown_and_the_rest_counted() -> None:
    text = render([error(f"number {i}", Span("a", i, 1, 2)) for i in range(1, 31)])
    assert text.count("error[") == MAX_SHOWN == 20
    assert text.endswith("\n… and 10 more")
    assert "number 21" not in text


def test_many_warnings_do_not_hide_an_error() -> None:
    span = Span("a", 1, 1, 2)
    warnings = [Diagnostic(Severity.WARNING, "parse", "w", span)] * 30
    text = render([*warnings, error("the mistake", Span("a", 99, 1, 2))])
    assert "the mistake" in text


def test_the_macro_call_path_becomes_notes() -> None:
    call = Location(NET.span(0, 1))
    sink = DiagnosticSink()
    sink.error("parse", "m", Location(NET.span(16, 17), call), notes=[Note("first")])
    assert [n.message for n in sink.diagnostics[0].notes] == ["first", "in the macro called here"]
    assert sink.diagnostics[0].notes[1].span == call.span


def test_a_slug_that_is_not_listed_is_refused() -> None:
    with pytest.raises(ValueError, match="no-such-slug"):
        error("m").__class__(Severity.ERROR, "no-such-slug", "m")


def test_the_slugs_are_listed_in_order() -> None:
    assert list(SLUGS) == sorted(SLUGS)


def test_warnings_alone_raise_nothing() -> None:
    sink = DiagnosticSink()
    sink.warning("parse", "m")
    sink.raise_if_errors()
    assert not sink.has_errors


def test_a_sink_with_an_error_raises_everything_that_it_holds() -> None:
    sink = DiagnosticSink()
    sink.warning("parse", "a warning")
    sink.error("parse", "an error")
    with pytest.raises(GraphcError) as caught:
        sink.raise_if_errors()
    assert caught.value.diagnostics == tuple(sink.diagnostics)
    assert "a warning" in str(caught.value)


def test_fail_makes_an_error_with_one_diagnostic() -> None:
    problem = fail("bad-value", "requires 1, got 2", NET.span(0, 1), label="2")
    assert [d.slug for d in problem.diagnostics] == ["bad-value"]
    assert "^ 2" in str(problem)


@pytest.mark.parametrize("kind", [GraphcError, BackendUnavailable, GraphcWarning])
def test_errors_and_warnings_are_the_same_behind_pickle(kind: type[GraphcError]) -> None:
    """As processes hand them on to others."""
    problem = kind([error("requires 1", NET.span(0, 1), notes=(Note("here"),))])
    pickled = pickle.loads(pickle.dumps(problem))  # noqa: S301  # made here
    for made in (pickled, copy.deepcopy(problem)):
        assert type(made) is kind
        assert made.diagnostics == problem.diagnostics
        assert str(made) == str(problem)


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("Sigmod", ["Sigmoid", "Tanh"], "; did you mean `Sigmoid`?"),
        ("SIGMOID", ["Sigmoid"], "; did you mean `Sigmoid`?"),
        ("q", ["Sigmoid", "Tanh"], ""),
        ("x", [], ""),
    ],
)
def test_a_near_name_is_suggested_in_any_case(name: str, known: list[str], expected: str) -> None:
    assert suggestion(name, known) == expected


def test_long_names_and_long_lists_are_not_searched() -> None:
    assert suggestion("a" * 100_000, ["a" * 99_999]) == ""
    assert suggestion("target", [*(f"n{i}" for i in range(5000)), "targets"]) == ""


def test_printable_keeps_letters_of_any_script_and_spaces() -> None:
    assert printable("größe 値 ok") == "größe 値 ok"


def test_warnings_are_given_to_python_at_the_users_line() -> None:
    sink = DiagnosticSink()
    sink.warning("parse", "take care", NET.span(0, 1))
    sink.warning("parse", "and here")
    with pytest.warns(GraphcWarning) as caught:
        warn(sink.diagnostics)
    (warning,) = caught
    assert isinstance(warning.message, GraphcWarning)
    assert warning.message.diagnostics == tuple(sink.diagnostics)
    assert "take care" in str(warning.message)
    assert "net.ndl:1:1" in str(warning.message)
    assert warning.filename == __file__


def test_errors_are_no_warnings_for_python() -> None:
    warn([error("a mistake")])  # a warning would be an error here


def test_python_shows_a_warning_once_for_each_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            warn([Diagnostic(Severity.WARNING, "parse", "again")])
    assert len(caught) == 1
