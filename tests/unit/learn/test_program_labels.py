"""Class numbers as labels of programs: those of no class are refused, and nothing is updated.

What right ones give is judged in `test_program_step.py` and in `tests/torch`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.learn.losses import LOSSES
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import JUDGED

Array = np.ndarray
WEIGHTS = np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
X = np.random.default_rng(1).normal(size=(8, 4)).astype("f4")
GOOD = np.array([0, 1, 2, 1, 0, 2, 2, 1])
MEASURE: dict[str, Any] = {"loss": "softmax_cross_entropy", "measure": "classification_error"}
OUTSIDE = {
    "above": (3, "got 3 for sample 5"),
    "below": (-1, "got -1 for sample 5"),
    "far": (1 + 2**40, "got 1099511627777 for sample 5"),  # 1 as i32 and as u8
}


def net() -> gc.Program:
    return gc.program(lambda x, w: x @ w, {"x": "Nx4"}, parameters={"w": WEIGHTS.copy()})


def wrong(number: int) -> Array:
    labels = GOOD.copy()
    labels[5] = number
    return labels


def own_holds(number: int, dtype: str) -> bool:
    return np.iinfo(dtype).min <= number <= np.iinfo(dtype).max


@pytest.mark.parametrize("backend", [b for b in JUDGED if b != "reference"])
@pytest.mark.parametrize("kind", ["i64", "i32", "u8", "i8"])
def test_numbers_of_no_class_are_refused_and_nothing_is_updated(kind: str, backend: str) -> None:
    own = f"{kind[0]}{int(kind[1:]) // 8}"
    program, options = net(), {"labels": f"Nx{kind}", "backend": backend, **MEASURE}
    step = gc.compile_training(program, learner=gc.SGD(0.5), batch=8, **options)
    for labels in (GOOD, *[GOOD.astype(own)] * 3):  # the last one goes the shorter way
        step(x=X, labels=labels)
    held = program.parameters["w"].copy()
    for number, said in OUTSIDE.values():
        labels = wrong(number)
        given = [labels, *([labels.astype(own)] * 2 if own_holds(number, own) else [])]
        for each in given:
            with pytest.raises(GraphcError, match=f"class numbers from 0 to 2, {said}"):
                step(x=X, labels=each)
        with pytest.raises(GraphcError, match=said):
            step.run_epoch({"x": X, "labels": labels}, minibatch=4)
        with pytest.raises(GraphcError, match=said):
            gc.evaluate(program, {"x": X, "labels": labels}, **options)
        np.testing.assert_array_equal(program.parameters["w"], held)
    step(x=X, labels=GOOD)
    assert np.any(program.parameters["w"] != held)


@pytest.mark.parametrize("backend", [b for b in JUDGED if b != "reference"])
def test_of_sequences_the_place_is_said(backend: str) -> None:
    program = gc.program(
        lambda x, w: x @ w, {"x": "NxTx4"}, parameters={"w": WEIGHTS.copy()}, bounds={"T": 4}
    )
    step = gc.compile_training(
        program, learner=gc.SGD(0.5), loss="cross_entropy", labels="NxTxi32", backend=backend
    )
    x, labels = X.reshape(2, 4, 4), GOOD.reshape(2, 4).astype("i4")
    labels[1, 2] = 7
    with pytest.raises(GraphcError, match=r"got 7 for place \[1, 2\]"):
        step(x=x, labels=labels)
    np.testing.assert_array_equal(program.parameters["w"], WEIGHTS)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_each_member_refuses_its_own(backend: str) -> None:
    comms = gc.comm.threads(2)

    def said(member: int) -> str:
        step = gc.compile_training(
            net(),
            learner=gc.SGD(0.5),
            labels="Nxi32",
            backend=backend,
            comm=comms[member],
            **MEASURE,
        )
        step(x=X[:4], labels=GOOD[:4])
        with pytest.raises(GraphcError) as caught:
            step(x=X[:4], labels=GOOD[:4] + 1 + member)
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        found = [*pool.map(said, range(2))]
    assert [text.split("got ")[1] for text in found] == ["3 for sample 2", "3 for sample 1"]


def test_a_loss_of_ones_own_takes_any_numbers() -> None:
    """As it leaves out what is padded."""

    def loss(output: Any, labels: Any) -> Any:
        hit = gc.expand_dims(labels, 1) == gc.arange(3, dtype="i32")
        return -gc.sum(gc.where(hit, gc.log_softmax(output), 0.0), 1)

    step = gc.compile_training(net(), learner=gc.SGD(0.5), loss=loss, labels="Nxi32")
    scores = X @ WEIGHTS
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    wanted = -np.delete(logs[np.arange(8), GOOD], 5).sum()
    np.testing.assert_allclose(step(x=X, labels=wrong(-100))["loss"], wanted, 1e-5)


def test_the_kept_code_of_a_loss_that_takes_any_numbers_is_other_code() -> None:
    """The same IR, once with classes to look for and once without."""
    for loss in ("softmax_cross_entropy", LOSSES["softmax_cross_entropy"]):
        step = gc.compile_training(net(), learner=gc.SGD(0.5), loss=loss, labels="Nxi32")
        if isinstance(loss, str):
            with pytest.raises(GraphcError, match="got -1 for sample 5"):
                step(x=X, labels=wrong(-1))
        else:
            assert np.isfinite(step(x=X, labels=wrong(-1))["loss"])
