"""Announced diagnostics: reading the comments, and comparing in both directions."""

from __future__ import annotations

from graphc.cli.expectations import Expected, complaints, expected_diagnostics
from graphc.support.diagnostics import Diagnostic, Severity
from graphc.support.source import Span


def found(slug: str, message: str, line: int | None) -> Diagnostic:
    span = Span("net.ndl", line, 1, 2) if line is not None else None
    return Diagnostic(Severity.ERROR, slug, message, span)


def test_a_comment_at_the_end_of_a_line_announces_for_that_line() -> None:
    text = "a = 1\nb = Foo(a)  # error: unknown-function: did you mean `F`?\n"
    assert expected_diagnostics(text, "#") == [
        Expected("error", "unknown-function", "did you mean `F`?", 2, 2)
    ]


def test_several_announcements_fit_on_one_line() -> None:
    text = "x // error: parse: one // warning: cycle: two"
    assert [(e.severity, e.slug, e.substring) for e in expected_diagnostics(text, "//")] == [
        ("error", "parse", "one"),
        ("warning", "cycle", "two"),
    ]


def test_offsets_and_none_move_the_place() -> None:
    text = "# error@+2: parse: a\n# error@-1: parse: b\n# error@none: parse: c"
    assert [e.line for e in expected_diagnostics(text, "#")] == [3, 1, None]


def test_ordinary_comments_announce_nothing() -> None:
    assert expected_diagnostics("x = 1 # an error here would be bad\n# errors: none", "#") == []


def test_what_was_announced_and_came_is_no_complaint() -> None:
    expected = expected_diagnostics("x # error: parse: one\ny # error: parse: two", "#")
    reported = [found("parse", "number two", 2), found("parse", "number one", 1)]
    assert complaints(expected, reported, "net.ndl") == []


def test_a_missing_diagnostic_is_a_complaint_at_its_comment() -> None:
    expected = expected_diagnostics("\nx # error: parse: one", "#")
    assert complaints(expected, [], "net.ndl") == [
        "net.ndl:2: announced but not reported: error: parse: one"
    ]


def test_an_unannounced_diagnostic_is_a_complaint_at_its_place() -> None:
    assert complaints([], [found("parse", "one", 4)], "net.ndl") == [
        "net.ndl:4:1: reported but not announced: error: parse: one"
    ]


def test_wrong_line_wrong_slug_and_wrong_text_do_not_match() -> None:
    expected = expected_diagnostics("x # error: parse: one", "#")
    for other in (
        found("parse", "one", 2),
        found("cycle", "one", 1),
        found("parse", "two", 1),
        found("parse", "one", None),
    ):
        assert len(complaints(expected, [other], "net.ndl")) == 2


def test_one_announcement_stands_for_one_diagnostic() -> None:
    expected = expected_diagnostics("x # error: parse: one", "#")
    twice = [found("parse", "one", 1), found("parse", "one", 1)]
    assert len(complaints(expected, twice, "net.ndl")) == 1
