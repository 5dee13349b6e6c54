"""The pass that makes a training step of gradients, for a learner."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.driver.compile import run_passes
from graphc.driver.options import CompileOptions
from graphc.driver.pipelines import OPTIMISE
from graphc.ir.printer import print_module
from graphc.ir.types import TensorType
from graphc.learn.learner import Learner
from graphc.ops import default_context
from graphc.ops.learners import LEARNERS, Rule
from graphc.ops.nodes.plugged import described
from graphc.passes import pipeline
from graphc.passes.apply_learner import ApplyLearner
from graphc.passes.rule_text import body_of, require_rows
from graphc.support.diagnostics import GraphcError, fail


def update_pass(
    learner: Learner, trained: Callable[[], Sequence[TensorType]], seed: int
) -> ApplyLearner:
    """The pass that makes a step of gradients.

    trained  gives the types of the trained parameters, for a rule that is in no table: it goes with
             the pass as text
    """
    rule, terms = learner.rule, learner.terms
    bodies: list[str] = []
    if LEARNERS.get(rule.name) is not rule:
        types = [*trained()]
        if rule.lazy:  # rows, and columns, of a table are updated by themselves
            types += [t.with_dims((1, d)) for t in types for d in t.dims]
        bodies = [_body(rule, type) for type in dict.fromkeys(types)]
    return ApplyLearner(
        rule.name,
        terms.clip,
        terms.l2,
        terms.noise,
        terms.l1,
        seed if terms.noise else 0,
        tuple(bodies),
        rule.lazy and bool(bodies),
    )


def _body(rule: Rule, type: TensorType) -> str:
    """The rule for parameters of this type as text. What a trace leaves behind, such as constants
    that are brought into a shape, is simplified: after the update nothing is."""
    try:
        body = body_of(rule, type)
    except GraphcError:
        raise
    except Exception as error:  # of a function of somebody else's
        message = f"the update rule `{rule.name}` raises {described(error)}"
        raise fail("argument-type", message) from error
    run_passes(body, pipeline(OPTIMISE), default_context(), CompileOptions())
    if rule.lazy:
        require_rows(body)
    return print_module(body)
