"""Cutting text into records."""

from __future__ import annotations

import pytest

from graphc.config.lookup import merged
from graphc.config.records import elements, is_block, records
from graphc.config.text import Text
from graphc.support.diagnostics import GraphcError
from graphc.support.source import SourceFile


def text(chars: str) -> Text:
    return Text.of(SourceFile("f.config", chars))


def pairs(chars: str) -> list[tuple[str, str]]:
    return [(r.key.chars, r.value.chars) for r in records(text(chars))]


def runs(chars: str) -> list[tuple[str, int]]:
    return [(t.chars, n) for t, n in elements(text(chars))]


@pytest.mark.parametrize(
    ("chars", "expected"),
    [
        ("a=1", [("a", "1")]),
        ("a = 1 ; b\t=\t2", [("a", "1"), ("b", "2")]),
        ("a=1,b=2\r\nc=3\nd=4", [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]),
        ("verbose", [("verbose", "true")]),
        ("a=;b=2", [("b", "2")]),
        ("a=b=c", [("a", "b=c")]),
        ("a=x y z", [("a", "x y z")]),
        ("s=[x=1;y=2] t=3", [("s", "[x=1;y=2]"), ("t", "3")]),
        ("s[x=1]", [("s", "[x=1]")]),
        ("s=\n[\nx=1\n]", [("s", "[\nx=1\n]")]),
        ("s\n[\nx=1\n]", [("s", "[\nx=1\n]")]),
        ('a="x;y";b=2', [("a", '"x;y"'), ("b", "2")]),
        ("[x=1;y=2]", [("x", "1"), ("y", "2")]),
        ("[|x=1|y=2;3]", [("x", "1"), ("y", "2;3")]),
        ("s=[a=[b=[c=1]]]", [("s", "[a=[b=[c=1]]]")]),
        ("s=[a={]", [("s", "[a={]")]),
        ("", []),
        (" ;;,\n", []),
        ("ndl=[F(x) { y=1 }]", [("ndl", "[F(x) { y=1 }]")]),
    ],
)
def test_a_set_is_cut_into_keys_and_values(chars: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(chars) == expected


@pytest.mark.parametrize(
    ("chars", "expected"),
    [
        ("1", [("1", 1)]),
        ("2:50*2:2", [("2", 1), ("50", 2), ("2", 1)]),
        ("0.8*10:3.2:", [("0.8", 10), ("3.2", 1)]),
        ('10:"this is a test":1.25', [("10", 1), ("this is a test", 1), ("1.25", 1)]),
        (r"{|c:\x\new.txt|12*3|1e-12}", [(r"c:\x\new.txt", 1), ("12", 3), ("1e-12", 1)]),
        ("{\na\nb*2\n}", [("a", 1), ("b", 2)]),
        ("{1 : 2}", [("1", 1), ("2", 1)]),
        ("{-1:2}", [("-1", 1), ("2", 1)]),
        ("{.5:.25}", [(".5", 1), (".25", 1)]),
        ("{-1-2}", [("-1-2", 1)]),
        ("{;./a;../b}", [("./a", 1), ("../b", 1)]),
        ("{./a:../b}", [("./a", 1), ("../b", 1)]),
        ("{$dir$/a:b}", [("$dir$/a", 1), ("b", 1)]),
        ('"a:b"*2:c', [("a:b", 2), ("c", 1)]),
        ("[x=1]*2:[x=2]", [("[x=1]", 2), ("[x=2]", 1)]),
        ("*.txt", [("*.txt", 1)]),
        ("a*b", [("a*b", 1)]),
        ("", []),
        ("::", []),
    ],
)
def test_a_list_is_cut_into_elements(chars: str, expected: list[tuple[str, int]]) -> None:
    assert runs(chars) == expected


@pytest.mark.parametrize(
    ("chars", "place", "message"),
    [
        ("a=1\nb=[x=1", "f.config:2:3", "a `]` is required that closes this `[`"),
        ('a="x', "f.config:1:3", 'a `"` is required'),
        ("a=1\n]", "f.config:2:1", "`]` closes nothing"),
        ("a=1]", "f.config:1:4", "`]` closes nothing"),
        ("=1", "f.config:1:1", "a key is required before a value"),
        ("[x=1]\n[y=1]", "f.config:1:1", "a key is required before a value"),
        ("x(y)=1", "f.config:1:2", "a key without brackets"),
    ],
)
def test_text_that_is_no_set_is_one_error(chars: str, place: str, message: str) -> None:
    with pytest.raises(GraphcError) as caught:
        pairs(chars)
    (found,) = caught.value.diagnostics
    assert (str(found.span), found.slug) == (place, "parse")
    assert message in found.message


@pytest.mark.parametrize("times", ["0", "99999999999", "3000000000"])
def test_an_element_stands_a_sensible_number_of_times(times: str) -> None:
    with pytest.raises(GraphcError, match="a number of times"):
        runs(f"1*{times}")


@pytest.mark.parametrize(
    ("chars", "expected"),
    [("[a]", True), ("{a}", True), ("[a][b]", False), ("(a)", False), ("a", False), ("", False)],
)
def test_a_block_is_one_pair_of_brackets(chars: str, expected: bool) -> None:
    assert is_block(text(chars)) is expected


def test_sets_of_one_key_are_merged_and_other_values_replaced() -> None:
    entries = merged([text("a=1;s=[x=1;y=2];A=2;l={1;2};S=[y=3];l={4}")])
    assert list(entries) == ["a", "s", "l"]
    assert entries["a"].value.chars == "2"
    assert entries["l"].value.chars == "{4}"
    inner = merged(entries["s"].parts)
    assert {k: e.value.chars for k, e in inner.items()} == {"x": "1", "y": "3"}


def test_a_value_that_is_no_set_replaces_a_set() -> None:
    assert merged([text("s=[x=1];s=2")])["s"].parts[0].chars == "2"
    assert [p.chars for p in merged([text("s=2;s=[x=1]")])["s"].parts] == ["[x=1]"]
