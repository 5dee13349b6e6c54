"""Values through sets in sets, variables, and what an error says."""

from __future__ import annotations

import math

import pytest

from graphc.config.assemble import assemble_text
from graphc.config.lookup import Scope
from graphc.support.diagnostics import GraphcError, fail

CONFIG = """
root=/data
name=demo
precision=default
train=[
  modelPath=$root$/$name$.dnn
  SGD=[ minibatchSize=25; maxEpochs=two; rates=0.5:0.2*20:0.1 ]
  reader=[ file=train.txt; name=inner; other=$name$ ]
]
"""


def top(text: str = CONFIG) -> Scope:
    return Scope.top(assemble_text(text, "f.config"))


def test_a_key_is_looked_for_from_the_inside_out() -> None:
    sgd = top().section("train").section("SGD")
    value = sgd.find("MODELPATH")
    assert value is not None
    assert value.text() == "/data/demo.dnn"
    assert value.searched == ["train.SGD", "train"]
    assert str(value.span) == "f.config:6:13"


def test_a_variable_is_looked_for_where_the_value_stands() -> None:
    scope = top().section("train").section("reader")
    assert scope.require("other").text() == "inner"
    assert scope.require("modelPath").text() == "/data/demo.dnn"


def test_a_set_found_further_out_is_read_as_if_it_stood_where_it_is_asked_for() -> None:
    scope = top("SGD=[a=1]\ntrain=[b=2]").section("train").section("SGD")
    assert scope.require("b").integer() == 2


def test_default_counts_as_absent() -> None:
    assert top().find("precision") is None
    assert top("a=1;s=[a=default]").section("s").require("a").integer() == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", 1.0),
        ("-2.5e-3", -2.5e-3),
        (".5", 0.5),
        ("1.", 1.0),
        ("1#INF", math.inf),
        ("-1.#inf", -math.inf),
        ("inf", math.inf),
        ('"3"', 3.0),
    ],
)
def test_a_number(value: str, expected: float) -> None:
    assert top(f"a={value}").require("a").number() == expected


@pytest.mark.parametrize("value", ["x", "1e999", "0x10", "1_000", "1 2", "nan", "--1"])
def test_what_is_no_number(value: str) -> None:
    with pytest.raises(GraphcError, match="`a` requires a number, got"):
        top(f"a={value}").require("a").number()


@pytest.mark.parametrize("value", ["t", "true", "True", "TRUE", "T", "1"])
def test_true(value: str) -> None:
    assert top(f"a={value}").require("a").truth() is True


@pytest.mark.parametrize("value", ["f", "false", "False", "FALSE", "F", "0", '""'])
def test_false(value: str) -> None:
    assert top(f"a={value}").require("a").truth() is False


def test_a_key_alone_is_true() -> None:
    assert top("verbose").require("verbose").truth() is True


def test_lists() -> None:
    sgd = top().section("train").section("SGD")
    assert sgd.require("rates").numbers() == [(0.5, 1), (0.2, 20), (0.1, 1)]
    assert top("a=2:50*2:2").require("a").integers() == [2, 50, 50, 2]
    assert top('a="x y":z').require("a").texts() == ["x y", "z"]


def test_an_error_says_where_the_value_stands_and_was_looked_for() -> None:
    with pytest.raises(GraphcError) as caught:
        top().section("train").section("SGD").require("maxEpochs").integer()
    (found,) = caught.value.diagnostics
    assert str(found.span) == "f.config:7:37"
    assert found.message == "`maxEpochs` requires a whole number, got `two`"
    assert found.notes[0].message == "`maxEpochs` stands in train.SGD"
    with pytest.raises(GraphcError) as caught:
        top().section("train").section("SGD").require("root").number()
    (found,) = caught.value.diagnostics
    assert found.notes[0].message.endswith("looked for in train.SGD, train, the top level")


def test_a_missing_key_names_the_sets_searched_and_a_near_name() -> None:
    with pytest.raises(GraphcError) as caught:
        top().section("train").section("SGD").require("minibatchSiz")
    (found,) = caught.value.diagnostics
    assert found.message == (
        "the key `minibatchSiz` is required; searched in train.SGD, train, the top level; "
        "did you mean `minibatchSize`?"
    )


def test_keys_that_nobody_asked_for_are_warnings() -> None:
    scope = top("a=1\nmodelPth=x\ns=[minibatchSizes=3\nb=$v$]\nv=2\nother=[zz=1]")
    scope.find("a")
    section = scope.section("s")
    for key in ("modelPath", "minibatchSize"):
        section.find(key)
    section.require("b").text()
    found = list(scope.unused())
    assert [str(d.span) for d in found] == ["f.config:2:1", "f.config:3:4"]
    assert "did you mean `modelpath`?" in found[0].message.lower()
    assert "did you mean `minibatchsize`?" in found[1].message.lower()


@pytest.mark.parametrize(
    ("text", "slug", "message"),
    [
        ("a=$b$", "undefined-name", "`$b$` has no value"),
        ("a=$nam$;name=x", "undefined-name", "did you mean `name`?"),
        ("a=$a$", "recursion", "stands for itself"),
        ("a=$b$;b=$c$;c=$b$", "recursion", "`a` → `b` → `c` → `b`"),
        ("a=x$", "parse", "a `$` alone"),
        ("a=$b c$", "parse", "a `$` alone"),
        ("a=$s$;s=[\nx=1\n]", "bad-value", "requires a value of one line"),
    ],
)
def test_variables_that_stand_for_nothing(text: str, slug: str, message: str) -> None:
    with pytest.raises(GraphcError) as caught:
        top(text).require("a").text()
    (found,) = caught.value.diagnostics
    assert found.slug == slug
    assert message in found.message
    assert found.span is not None
    assert found.span.file == "f.config"


def test_a_key_that_names_itself_means_the_one_further_out() -> None:
    scope = top("dim=3;s=[dim=$dim$;t=[dim=$Dim$0]]").section("s").section("t")
    assert scope.require("dim").integer() == 30


def test_a_bomb_of_variables_is_an_error() -> None:
    lines = ["v0=" + "x" * 100] + [f"v{i}=" + f"$v{i - 1}$" * 10 for i in range(1, 12)]
    with pytest.raises(GraphcError) as caught:
        top("\n".join(lines)).require("v11").text()
    assert caught.value.diagnostics[0].slug == "limit"


def test_a_bomb_of_nothing_is_an_error() -> None:
    lines = ['v0=""'] + [f"v{i}=" + f"$v{i - 1}$" * 10 for i in range(1, 30)]
    with pytest.raises(GraphcError) as caught:
        top("\n".join(lines)).require("v29").text()
    assert caught.value.diagnostics[0].slug in ("limit", "undefined-name")


def test_sets_may_not_be_nested_endlessly() -> None:
    scope = top("s=" + "[s=" * 200 + "1" + "]" * 200)
    with pytest.raises(GraphcError, match="sets may be nested"):
        for _ in range(200):
            scope = scope.section("s")


def test_a_list_may_not_be_endless() -> None:
    value = top("a=x*2000000000").require("a")
    with pytest.raises(GraphcError, match="elements"):
        value.texts()
    assert top("a=1*2000000000").require("a").numbers() == [(1.0, 2000000000)]


def test_a_variable_may_stand_for_a_set() -> None:
    scope = top("a=$s$;s=[x=1]").section("a")
    assert scope.require("x").integer() == 1


def test_what_is_no_set_is_an_error() -> None:
    with pytest.raises(GraphcError, match="`a` requires a set"):
        top("a=1").section("a")


def test_an_error_without_a_place_is_that_of_the_set() -> None:
    section = top("a=1\ns=[b=2]").section("s")
    with pytest.raises(GraphcError) as caught, section.blamed():
        raise fail("bad-value", "b and c do not go together")
    (found,) = caught.value.diagnostics
    assert str(found.span) == "f.config:2:3"
    assert found.notes[0].message == "the values are those of s"
