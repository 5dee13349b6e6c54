from __future__ import annotations

import pytest

from graphc.passes import PASSES, pipeline, read_options
from graphc.passes.eliminate_common_subexpressions import EliminateCommonSubexpressions
from graphc.passes.eliminate_dead_code import EliminateDeadCode
from graphc.support.diagnostics import GraphcError


def test_a_pipeline_is_its_passes_in_order() -> None:
    assert pipeline("cse, dce") == [EliminateCommonSubexpressions(), EliminateDeadCode()]


def test_options_stand_in_braces() -> None:
    wanted = [EliminateCommonSubexpressions(64)]
    assert pipeline("cse{max_constant_elements = 64}") == wanted


def test_a_pass_prints_as_it_is_written() -> None:
    text = "cse{max_constant_elements = 64}"
    assert [str(p) for p in pipeline(text)] == [text]


def test_options_take_the_literals_of_the_text_form() -> None:
    text = 'a = [1, 2.5], b = "x,y", c = f32, d = tensor<2x3xf32>, e = none'
    found = read_options(text)
    assert [str(v) for v in found.values()] == [
        "[1, 2.5]",
        "x,y",
        "f32",
        "tensor<2x3xf32>",
        "None",
    ]


@pytest.mark.parametrize(
    "text", ["a", "a =", "a = 1 b = 2", "a = 1, a = 2", "= 1", "a = {", "a = N"]
)
def test_what_is_no_option_is_an_error(text: str) -> None:
    with pytest.raises(GraphcError):
        read_options(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("csee", "did you mean"),
        ("cse{max = 1}", "max_constant_elements"),
        ('cse{max_constant_elements = "x"}', "an integer"),
        ("cse{max_constant_elements = 1", "unbalanced"),
    ],
)
def test_a_mistake_in_a_pipeline_is_named(text: str, message: str) -> None:
    with pytest.raises(GraphcError, match=message):
        pipeline(text)


def test_a_name_may_stand_for_a_pipeline() -> None:
    assert pipeline("clean", {"clean": "cse, dce"}) == pipeline("cse, dce")


def test_every_pass_is_in_the_table_under_its_own_name() -> None:
    assert all(cls.name == name and cls.summary for name, cls in PASSES.items())
