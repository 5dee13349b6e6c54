"""Gradients compared with differences: the key `gradientcheck` and the action `devtest`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc import api
from graphc.config.lookup import Scope
from graphc.data.reader import EpochRequest, Reader
from graphc.driver.options import CompileOptions
from graphc.learn.gradient_check import Slope, slopes
from graphc.model.model import Model
from graphc.support.diagnostics import fail
from graphc.toolkit.action import Action, Report, Run, Session

DIGITS = 6
NETWORK = """
features = Input(4, tag=feature)
labels = Input(3, tag=label)
W0 = Parameter(5, 4, initValueScale=10)
b0 = Parameter(5, 1, initValueScale=10)
t0 = Times(W0, features)
p0 = Plus(t0, b0)
h0 = Sigmoid(p0)
W1 = Parameter(5, 5, initValueScale=10)
t1 = Times(W1, h0)
h1 = Tanh(t1)
m1 = ElementTimes(h0, h1)
W2 = Parameter(3, 5, initValueScale=10)
z = Times(W2, m1, tag=output)
CE = CrossEntropyWithSoftmax(labels, z, tag=criteria)
"""


def check_gradients(
    model: Model,
    reader: Reader,
    minibatch: int,
    criterion: str | None,
    digits: int,
    session: Session,
) -> None:
    """Compare gradients on the first minibatch of a reader. GraphcError `bad-value` unless all
    agree to so many digits."""
    block = next(iter(reader.blocks(EpochRequest(size=minibatch, minibatch=minibatch))))
    found = slopes(model, block, session.options, criterion)
    _report(found, digits, session.report)


def _report(found: Sequence[Slope], digits: int, report: Report) -> None:
    wrong = [slope for slope in found if not slope.agrees(digits)]
    largest = max(abs(slope.gradient - slope.difference) for slope in found)
    parameters = len({slope.parameter for slope in found})
    said = f"{len(found)} elements of {parameters} parameters, largest difference {largest:.3g}"
    if wrong:
        first = wrong[0]
        raise fail(
            "bad-value",
            f"gradients do not agree with differences to {digits} digits: element {first.element} "
            f"of `{first.parameter}` is {first.gradient:.8g}, the slope {first.difference:.8g}; "
            f"{len(wrong)} of {said}",
        )
    report.line(f"Gradient check passed: {said}")


def plan_self_test(scope: Scope, session: Session) -> Run:
    """`devtest`: the gradients of a network of graphc's own, on what computes here."""

    def run() -> None:
        generator = np.random.default_rng(7)
        data = {
            "features": generator.uniform(-1, 1, (6, 4)),
            "labels": np.eye(3)[generator.integers(0, 3, 6)],
        }
        options = CompileOptions(backend=session.options.backend, cache=session.options.cache)
        _report(slopes(api.loads(NETWORK).model, data, options), DIGITS, session.report)

    return run


SELF_TEST = Action(("devtest",), "compare gradients with differences", (), plan_self_test)
