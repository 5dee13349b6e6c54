"""Gradients compared with differences: the key `gradientcheck` and the action `devtest`."""

from __future__ import annotations

from functools import partial

from graphc import api
from graphc.config.lookup import Scope
from graphc.data.reader import EpochRequest, Reader
from graphc.driver.prepare import draw, infer
from graphc.driver.statistics import BATCH, precompute
from graphc.learn.source import blocks_of
from graphc.model.model import Model
from graphc.support.diagnostics import fail
from graphc.testing.selftest import self_test
from graphc.toolkit.action import Action, Run, Session


def check_gradients(
    model: Model,
    reader: Reader,
    minibatch: int,
    criterion: str | None,
    digits: int,
    session: Session,
) -> None:
    """Compare gradients on the first minibatch of a reader, after computing the statistics over all
    of its data. GraphcError `not-differentiable` unless all agree to so many digits."""
    model = model.frozen()
    infer(model)
    draw(model)
    precompute(model, partial(blocks_of, reader, BATCH), session.options)
    block = next(iter(reader.blocks(EpochRequest(size=minibatch, minibatch=minibatch))))
    backend = session.options.backend
    report = api.check_training_gradient(
        model, block, digits=digits, criterion=criterion, backend=backend
    )
    session.report.line(f"Gradient check passed: {report}")


def plan_self_test(_scope: Scope, session: Session) -> Run:
    """`devtest`: the gradients of small networks of graphc's own, on what computes here."""

    def run() -> None:
        found = self_test([session.options.backend])
        for line in str(found).splitlines():
            session.report.line(line)
        if not found.passed:
            message = "gradients differ from differences in the networks that are marked"
            raise fail("not-differentiable", message)

    return run


SELF_TEST = Action(("devtest",), "compare gradients with differences", (), plan_self_test)
