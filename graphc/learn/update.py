"""The pass that makes a training step of gradients, for a learner."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.types import DType
from graphc.learn.learner import Learner
from graphc.model.model import Model
from graphc.ops.learners import LEARNERS
from graphc.ops.nodes.layout import node_type, tensor_type
from graphc.passes.apply_learner import ApplyLearner
from graphc.passes.rule_text import body_text


def update_pass(
    model: Model, learner: Learner, trained: Sequence[str], dtype: DType, seed: int
) -> ApplyLearner:
    """The pass that makes a step of gradients; a rule that is in no table goes with it as text."""
    rule, terms = learner.rule, learner.terms
    bodies: list[str] = []
    if LEARNERS.get(rule.name) is not rule:
        nodes = [op for name in trained if (op := model.find(name)) is not None]
        types = dict.fromkeys(tensor_type(node_type(op), 0, dtype) for op in nodes)
        bodies = [body_text(rule, type) for type in types]
    return ApplyLearner(
        rule.name,
        terms.clip,
        terms.l2,
        terms.noise,
        terms.l1,
        seed if terms.noise else 0,
        tuple(bodies),
    )
