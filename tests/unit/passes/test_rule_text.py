"""Rules as text: what `apply-learner` reads from bodies is the rule that they were made of."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.context import Context
from graphc.ir.core import Function
from graphc.ir.evaluate import evaluate
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.types import DType, TensorType
from graphc.ops import default_context
from graphc.ops.learner_terms import Terms
from graphc.ops.learners import LEARNERS, SGD, Rule
from graphc.passes import pipeline
from graphc.passes.apply_learner import ApplyLearner, apply_learner
from graphc.passes.rule_text import body_of, rule_of
from graphc.support.diagnostics import GraphcError

Array = np.ndarray
TYPE = TensorType((3, 4), DType.F64)
GRADIENTS = """
func @main(%W: tensor<3x4xf64> parameter, %V: tensor<2x1xf64> parameter, %g: tensor<3x4xf64> input,
    %h: tensor<2x1xf64> input)
  -> (gradient.W: tensor<3x4xf64>, gradient.V: tensor<2x1xf64>) {
  return %g, %h
}
"""


def function() -> Function:
    return parse_module(GRADIENTS, default_context()).functions[0]


def results(made: Function) -> dict[str, Array]:
    """Of random arguments, the same for the same names."""
    given: dict[str, Array] = {}
    for argument in made.arguments:
        seed = sum(map(ord, argument.name or ""))
        shape = argument.tensor.shape({})
        given[argument.name or ""] = np.random.default_rng(seed).uniform(0.1, 0.9, shape)
    return evaluate(made, given, {})


def texts(rule: Rule) -> tuple[str, ...]:
    types = (TYPE, TensorType((2, 1), DType.F64))
    return tuple(print_module(body_of(rule, t)) for t in types)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_rule_from_its_text_makes_the_same_update(name: str) -> None:
    rule = LEARNERS[name]
    read = rule_of("another", texts(rule), default_context())
    assert (read.states, read.numbers) == (rule.states, rule.numbers)
    one, other = function(), function()
    terms = Terms("norm", l2=True, l1=True)
    assert apply_learner(one, rule, terms) == apply_learner(other, read, terms) == 2
    wanted, found = results(one), results(other)
    assert list(found) == list(wanted)
    for result, value in wanted.items():
        np.testing.assert_array_equal(found[result], value)


def test_the_pass_with_bodies_is_read_from_its_text() -> None:
    bodies = texts(SGD)
    text = str(ApplyLearner("mine", bodies=bodies))
    (read,) = pipeline(text)
    assert read == ApplyLearner("mine", bodies=bodies)
    module = parse_module(GRADIENTS, default_context())
    context = default_context()
    assert read.run(module, context).changed
    assert module.functions[0].argument("velocity.V") is not None


def run(bodies: tuple[str, ...]) -> Context:
    context = default_context()
    ApplyLearner("mine", bodies=bodies).run(parse_module(GRADIENTS, default_context()), context)
    return context


@pytest.mark.parametrize(
    ("bodies", "message"),
    [
        (texts(SGD)[:1], "`mine` has no body for tensor<2x1xf64>, the type of `V`"),
        (("func @rule(",), "mine:1"),
        ((texts(SGD)[0].replace("%gradient", "%slope"),), "require gradient, parameter"),
        ((texts(SGD)[0], texts(LEARNERS["adam"])[1]), "and then the same arguments"),
    ],
    ids=["a type is missing", "no text", "other names", "two rules"],
)
def test_bodies_that_do_not_fit_are_one_error(bodies: tuple[str, ...], message: str) -> None:
    with pytest.raises(GraphcError) as raised:
        run(bodies)
    assert message in str(raised.value)
    assert len(raised.value.diagnostics) == 1
