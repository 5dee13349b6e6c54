"""`recompute`: the same numbers, whatever gradients of loops compute again, and less memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.passes.loop_gradient import RECOMPUTE, Recompute
from tests.e2e.test_recurrent import AHEAD, PARAMETERS, RECURRENT, network, padded, sequences
from tests.support.guarded import guarded_buffers

Array = np.ndarray

# Much is computed in a step out of little that comes from outside it.
DEEP = """
    x = Input(2, tag=feature)
    R = Parameter(40, 40, init=gaussian)
    p = PastValue(40, h)
    a = Tanh(Times(R, p))
    b = Tanh(Times(R, a))
    c = Tanh(Times(R, b))
    d = Tanh(Times(R, c))
    W = Parameter(40, 2)
    h = Plus(d, Times(W, x))
    loss = SumElements(h, tag=criterion)
"""


def flat(results: Mapping[str, Any]) -> dict[str, Array]:
    return {n: np.concatenate(v) if isinstance(v, list) else v for n, v in results.items()}


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
@pytest.mark.parametrize("text", [RECURRENT, AHEAD], ids=["back", "ahead"])
def test_every_choice_gives_the_same_results(text: str, backend: str) -> None:
    net, given = network(text), sequences()
    arrays = {n: padded(v) for n, v in given.items()}
    lengths = [len(x) for x in given["features"]]
    wanted: list[dict[str, Array]] = []
    for mode in RECOMPUTE:
        exe = gc.compile(
            net,
            outputs=["ce", "z"],
            gradients=[*PARAMETERS, "features"],
            backend=backend,
            precision="f64",
            time=16,
            sequences=4,
            recompute=mode,
        )
        found = [flat(exe(**given)), flat(exe(**arrays, lengths=lengths))]
        wanted = wanted or found
        for results, expected in zip(found, wanted, strict=True):
            for name, value in expected.items():
                np.testing.assert_allclose(
                    results[name], value, rtol=1e-10, atol=1e-11, err_msg=f"{mode}: {name}"
                )


def test_segments_serve_any_number_of_steps_and_more_than_the_bound() -> None:
    net = network()
    exe = gc.compile(net, gradients=["Wh"], outputs=["ce"], time=9, recompute="sqrt")
    plain = gc.compile(net, gradients=["Wh"], outputs=["ce"], time=9, recompute="none")
    for steps in (1, 2, 3, 8, 9, 10, 40):
        one = sequences((steps,))
        found, wanted = exe(**one), plain(**one)
        assert found["ce"] == pytest.approx(wanted["ce"], rel=1e-4)
        np.testing.assert_allclose(found["gradient.Wh"], wanted["gradient.Wh"], atol=1e-4)


# Two bounds whose segments divide each other's steps, and three that do not.
@pytest.mark.parametrize(("bound", "steps"), [(9, 10), (4, 7), (4, 9), (5, 8), (12, 25)])
@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_a_call_beyond_the_bound_is_cut_into_the_wider_functions_segments(
    bound: int, steps: int, backend: str
) -> None:
    given = sequences((steps, 2, steps - 1), seed=steps)
    found: list[dict[str, Array]] = []
    choices: tuple[tuple[Recompute, int], ...] = (("none", 32), ("sqrt", bound))
    for mode, time in choices:
        net = network()
        step = gc.compile_training(
            net,
            learner=gc.SGD(0.1),
            backend=backend,
            precision="f64",
            time=time,
            recompute=mode,
        )
        step.nominal = 32
        with guarded_buffers():  # what it compiles now reads nothing that it has not written
            results = [flat(step(**given)), flat(step(**sequences((3,))))]
        found.append({**results[0], "then": results[1]["ce"], **net.parameters})
    for name, value in found[0].items():
        np.testing.assert_allclose(found[1][name], value, rtol=1e-10, atol=1e-12, err_msg=name)


def test_a_call_that_carries_and_is_beyond_the_bound_goes_on_where_the_last_one_ended() -> None:
    net = network()
    (features,) = sequences((27,))["features"]
    whole = gc.compile(net, outputs=["z"], precision="f64", time=32)(features=features)["z"]
    parts = gc.compile(
        net, outputs=["z"], gradients=["Wh"], precision="f64", time=4, recompute="sqrt"
    )
    cuts = ((0, 3), (3, 10), (10, 27))
    made = [parts(features=features[a:b], carry=True)["z"] for a, b in cuts]
    np.testing.assert_allclose(np.concatenate(made), whole, rtol=1e-11)


def test_segments_carry_on_from_call_to_call() -> None:
    net = network()
    whole = gc.compile(net, outputs=["z"], precision="f64", time=16)
    (features,) = sequences((11,))["features"]
    parts = gc.compile(
        net, outputs=["z"], gradients=["Wh"], precision="f64", time=16, recompute="sqrt"
    )
    made = [parts(features=features[a:b], carry=True)["z"] for a, b in ((0, 5), (5, 6), (6, 11))]
    np.testing.assert_allclose(np.concatenate(made), whole(features=features)["z"], rtol=1e-11)


def test_a_step_of_much_computation_keeps_less() -> None:
    net = gc.loads(DEEP)
    arenas = {
        mode: gc.compile(
            net, outputs=["loss"], gradients=["R", "W"], time=256, sequences=8, recompute=mode
        ).signature.arena_bytes
        for mode in RECOMPUTE
    }
    assert arenas["auto"] <= arenas["none"]
    assert arenas["sqrt"] < 0.5 * arenas["none"]


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(gc.GraphcError, match="recompute is one of auto, none, all, sqrt, got"):
        gc.compile(network(), outputs=["z"], recompute="some")  # type: ignore[arg-type]


def test_training_steps_take_it_too() -> None:
    losses: list[list[float]] = []
    for mode in ("none", "sqrt"):
        net = network()
        step = gc.compile_training(
            net, learner=gc.SGD(0.1), time=16, sequences=4, precision="f64", recompute=mode
        )
        losses.append([float(step(**sequences(seed=i))["ce"]) for i in range(3)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-10)
