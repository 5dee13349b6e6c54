"""A call that a signal ends anywhere, as Ctrl-C does, leaves nothing wrong to calls after it."""

from __future__ import annotations

import numpy as np

import graphc as gc
from tests.support.interrupts import interrupted_everywhere

SUMS = "x = Input(1)\np = PastValue(1, s, defaultHiddenActivity=0)\ns = Plus(x, p, tag=output)"


def test_lengths_of_an_interrupted_call_are_not_those_of_the_next() -> None:
    exe = gc.compile(gc.loads(SUMS), time=4, sequences=2)
    x = np.ones((4, 2, 1), np.float32)
    wanted = [[1, 1], [2, 2], [3, 0], [4, 0]]
    for lengths in ([4, 2], [4, 2], [1, 3], [4, 2]):
        exe(x=x, lengths=lengths)
    for _ in interrupted_everywhere(lambda: exe(x=x, lengths=[2, 3]), "runtime/repeated_call"):
        assert exe(x=x, lengths=[4, 2])["s"][:, :, 0].tolist() == wanted


def test_a_carried_state_is_that_before_or_after_an_interrupted_call() -> None:
    exe = gc.compile(gc.loads(SUMS), time=4, sequences=2)
    x, options = np.ones((2, 2, 1), np.float32), {"lengths": [2, 1], "carry": True}
    for _ in range(4):
        exe(x=x, **options)
    calls = 4
    for _ in interrupted_everywhere(lambda: exe(x=x, **options), "runtime/sequence_state"):
        state = exe.state
        assert state is not None
        sums = state["s.past1"][:, 0]
        assert sums.tolist() == state["sequence.steps"].tolist()
        assert sums[0] in (2 * calls, 2 * calls + 2)
        calls = int(sums[0]) // 2 + 1
        assert exe(x=x, **options)["s"][:, 0, 0].tolist() == [2 * calls - 1, 2 * calls]


def test_numbers_of_an_interrupted_step_are_not_those_of_the_next() -> None:
    """The learning rate is the same for all; the momentum follows from the samples of a call."""
    net = gc.loads(
        "x = Input(2)\nt = Input(1)\nW = Parameter(1, 2, init=fixedValue)\n"
        "e = SquareError(t, Times(W, x), tag=criterion)"
    )
    step = gc.compile_training(net, learner=gc.SGD(0.1, momentum=0.9), batch=4)
    W, velocity = net.parameters["W"], step.learner_state["velocity.W"]
    rng = np.random.default_rng(0)
    four, three = (
        {"x": rng.random((n, 2), np.float32), "t": np.ones((n, 1), np.float32)} for n in (4, 3)
    )

    def after(data: dict[str, np.ndarray]) -> list[np.ndarray]:
        W[...], velocity[...] = 1, 0.5
        step(**data)
        return [W.copy(), velocity.copy()]

    for _ in range(3):
        wanted = after(four)
    for _ in interrupted_everywhere(lambda: step(**three), "runtime/call_numbers"):
        np.testing.assert_array_equal(after(four), wanted)
