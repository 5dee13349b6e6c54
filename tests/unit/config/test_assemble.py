"""Files, included files and arguments become one text with its places."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.config.assemble import assemble, assemble_text
from graphc.config.listing import as_data, as_text
from graphc.config.lookup import Scope
from graphc.support.diagnostics import GraphcError, GraphcWarning


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")


def values(*arguments: str) -> dict[str, str]:
    top = Scope.top(assemble(arguments))
    return {e.key.chars: e.value.chars for e in top.entries.values()}


def test_later_files_and_arguments_override_earlier_ones(folder: Path) -> None:
    write(folder, "a.config", "x=1\ny=1\nz=1\n")
    write(folder, "b.config", "y=2\nz=2")
    assert values("configFile=a.config+b.config", "z=3") == {"x": "1", "y": "2", "z": "3"}
    assert values("CONFIGFILE=a.config", "z=3", "configfile=b.config")["z"] == "2"


def test_an_argument_merges_into_a_set(folder: Path) -> None:
    write(folder, "a.config", "train=[SGD=[maxEpochs=1;rate=2]]")
    top = Scope.top(assemble(["configFile=a.config", "train=[SGD=[maxEpochs=3]]"]))
    sgd = top.section("train").section("SGD")
    assert sgd.require("maxEpochs").integer() == 3
    assert sgd.require("rate").integer() == 2
    assert str(sgd.require("maxEpochs").span) == "<command line>:2:23"
    assert str(sgd.require("rate").span) == "a.config:1:30"


def test_included_files_stand_in_their_place(folder: Path) -> None:
    write(folder, "a.config", "x=1\ns=[\n  include=sub/b.config\n  z=3\n]\n")
    write(folder, "sub/b.config", "x=2\nz=2\ninclude=c.config\n")
    write(folder, "sub/c.config", "deep=1")
    scope = Scope.top(assemble(["configFile=a.config"])).section("s")
    assert [scope.require(k).integer() for k in ("x", "z", "deep")] == [2, 3, 1]
    assert scope.require("deep").span.file.endswith("sub/c.config")


def test_a_second_include_leaves_nothing_and_warns(folder: Path) -> None:
    write(folder, "a.config", "include=c.config\nx=2\ninclude=b.config+c.config\n")
    write(folder, "b.config", "include=c.config\n")
    write(folder, "c.config", "x=1")
    with pytest.warns(GraphcWarning, match=r"c\.config is there already") as caught:
        assert values("configFile=a.config") == {"x": "2"}
    assert "2 more" not in str(caught[0].message)


def test_files_that_include_each_other_end(folder: Path) -> None:
    write(folder, "a.config", "include=b.config\nx=1")
    write(folder, "b.config", "include=a.config\ny=1")
    with pytest.warns(GraphcWarning, match="not read again"):
        assert values("configFile=a.config") == {"x": "1", "y": "1"}


def test_a_file_given_twice_is_an_error(folder: Path) -> None:
    write(folder, "a.config", "x=1")
    with pytest.raises(GraphcError, match="given twice"):
        assemble(["configFile=a.config+./a.config"])


@pytest.mark.parametrize(
    ("text", "place"),
    [("configFile=none.config", "<command line>:1"), ("configFile=a.config", "a.config:2:9")],
)
def test_a_file_that_is_not_there_is_named(folder: Path, text: str, place: str) -> None:
    write(folder, "a.config", "x=1\ninclude=none.config")
    with pytest.raises(GraphcError) as caught:
        assemble([text])
    (found,) = caught.value.diagnostics
    assert found.slug == "file"
    assert "none.config" in found.message
    assert str(found.span).startswith(place)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("x=1 # note", "1"),
        ("x=1\t#note", "1"),
        ("# y=2\nx=1", "1"),
        ("x=1#INF", "1#INF"),
        ('x="a #b"\nz=1', None),
    ],
)
def test_comments(line: str, expected: str | None) -> None:
    if expected is None:  # quotes do not protect a `#`, so they are not closed
        with pytest.raises(GraphcError, match="is required that closes"):
            Scope.top(assemble_text(line))
        return
    assert Scope.top(assemble_text(line)).require("x").text() == expected


def test_a_hash_of_the_command_line_begins_no_comment() -> None:
    assert values("title=run #3") == {"title": "run #3"}


def test_a_file_that_is_no_text_is_an_error(folder: Path) -> None:
    (folder / "a.config").write_bytes(b"x=\xff")
    with pytest.raises(GraphcError, match="UTF-8"):
        assemble(["configFile=a.config"])


def test_the_listing_reads_back_as_the_same_configuration(folder: Path) -> None:
    write(folder, "a.config", "v=7\nx=$v$\ns=[a=1;t=[|b=2|c=3]]\nndl=[F(x) {\n y=1\n}]\n")
    top = Scope.top(assemble(["configFile=a.config", "s=[a=5]"]))
    again = Scope.top(assemble_text(as_text(top, resolve=False)))
    assert _plain(as_data(top, resolve=False)) == _plain(as_data(again, resolve=False))
    resolved = as_data(top, resolve=True)
    assert [r["value"] for r in resolved if r["key"] == "x"] == ["7"]
    assert "<command line>:2:4" in as_text(top, resolve=False)


def _plain(records: object) -> object:
    """Keys and values, without places."""
    if not isinstance(records, list):
        return records
    return [(r["key"], _plain(r.get("entries")), r.get("value")) for r in records]
