"""Epochs of programs: judged by numpy, by a loop over the step, and by trainings that go on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.learn.shuffle import permutation
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import JUDGED

Array = np.ndarray
LOSS: dict[str, Any] = {"loss": "softmax_cross_entropy", "output": "logits"}
MEASURED: dict[str, Any] = {**LOSS, "measure": "classification_error"}


def pictures(x: Any, kernel: Any, dense: Any) -> Any:
    h = gc.maxpool(gc.tanh(gc.conv(x, kernel)), 2)
    return {"logits": gc.reshape(h, (x.shape[0], 16)) @ dense}


def images(bound: int = 4) -> gc.Program:
    rng = np.random.default_rng(1)
    drawn = {"kernel": rng.normal(size=(3, 3, 1, 2)), "dense": rng.normal(size=(16, 3))}
    return gc.program(pictures, {"x": "Nx6x6x1xf64"}, parameters=drawn, bounds={"N": bound})


def dense(x: Any, w: Any, b: Any) -> Any:
    return {"logits": x @ w + b}


def rows(bound: int = 256) -> gc.Program:
    drawn = {"w": np.linspace(-1, 1, 12).reshape(4, 3), "b": np.zeros(3)}
    return gc.program(dense, {"x": "Nx4xf64"}, parameters=drawn, bounds={"N": bound})


def data(samples: int, *sizes: int) -> dict[str, Array]:
    rng = np.random.default_rng(samples)
    x = rng.normal(size=(samples, *sizes))
    return {"x": x, "labels": np.eye(3)[x.reshape(samples, prod(sizes))[:, :3].argmax(1)]}


def equal(one: gc.Program, other: gc.Program) -> bool:
    return all(np.array_equal(one.parameters[n], v) for n, v in other.parameters.items())


@pytest.mark.parametrize("backend", JUDGED)
def test_epochs_of_images_are_the_calls_of_their_minibatches(backend: str) -> None:
    """In native code, too, where an input has four axes and the last minibatch is shorter."""
    given, net, other = data(11, 6, 6, 1), images(), images()
    learner = gc.SGD(0.3, momentum=0.5)
    records = gc.train(
        net, given, learner=learner, epochs=2, minibatch=4, backend=backend, seed=3, **MEASURED
    )
    step = gc.compile_training(other, learner=learner, batch=4, backend=backend, **MEASURED)
    for epoch in range(2):
        order = _order(epoch)
        made = [
            step(**{name: array[order[i : i + 4]] for name, array in given.items()})
            for i in (0, 4, 8)
        ]
        total = sum(float(m["loss"]) for m in made)
        assert records[epoch].criterion == total / 11
        wrong = sum(float(m["classification_error"]) for m in made)
        assert records[epoch].evaluations == {"classification_error": wrong / 11}
    assert equal(net, other)


def _order(epoch: int) -> Array:
    return permutation(3, epoch, 11)


def test_training_and_measuring_are_those_of_numpy() -> None:
    given, net = data(9, 4), rows()
    records = gc.train(
        net,
        given,
        learning_rate=0.5,
        epochs=3,
        minibatch=4,
        shuffle=False,
        validation=given,
        **MEASURED,
    )
    w, b = np.linspace(-1, 1, 12).reshape(4, 3), np.zeros(3)

    def judged() -> tuple[float, float]:
        z = given["x"] @ w + b
        logs = z - np.log(np.exp(z).sum(1, keepdims=True))
        wrong = (z.argmax(1) != given["labels"].argmax(1)).mean()
        return -float((logs * given["labels"]).sum()) / 9, float(wrong)

    for record in records:
        for part in (slice(0, 4), slice(4, 8), slice(8, 9)):
            x, t = given["x"][part], given["labels"][part]
            z = np.exp(x @ w + b)
            slope = z / z.sum(1, keepdims=True) - t
            w, b = w - 0.5 / 4 * x.T @ slope, b - 0.5 / 4 * slope.sum(0)
        loss, wrong = judged()
        assert record.validation is not None
        assert record.validation.criterion == pytest.approx(loss)
        assert record.validation.evaluations == {"classification_error": pytest.approx(wrong)}
    np.testing.assert_allclose(net.parameters["w"], w, rtol=1e-12)
    loss, wrong = judged()
    found = gc.evaluate(net, given, batch=2, **MEASURED)
    assert found == {"loss": pytest.approx(loss), "classification_error": pytest.approx(wrong)}
    numbers = {"x": given["x"], "labels": given["labels"].argmax(1)}
    alone = gc.evaluate(net, numbers, labels="Nxi64", measure="classification_error")
    assert alone == {"classification_error": pytest.approx(wrong)}


def test_the_first_of_several_largest_outputs_is_the_class() -> None:
    net = gc.program(lambda x: x * 1.0, {"x": "Nx3"})
    x = np.array([[1, 1, 0], [1, 1, 0], [0, 2, 2], [np.nan, 0, 0], [-1, -1, -1]], np.float32)
    labels = np.array([0, 1, 1, 0, 0], np.int32)  # right, wrong, right, no class, right
    given = {"x": x, "labels": labels}
    found = gc.evaluate(net, given, labels="Nxi32", measure="classification_error")
    assert found == {"classification_error": pytest.approx(2 / 5)}


def test_a_reader_s_columns_get_the_shapes_of_the_inputs() -> None:
    given, one, other = data(10, 6, 6, 1), images(), images()
    flat = {"x": given["x"].reshape(10, 36), "labels": given["labels"].argmax(1)}
    reader = gc.readers.from_arrays(
        flat, classes={"labels": 3}, order=gc.readers.Order(None), dtype=np.float64
    )
    options: dict[str, Any] = {**MEASURED, "learning_rate": 0.2, "minibatch": 4, "shuffle": False}
    gc.train(one, given, epochs=2, **options)
    (record, _) = gc.train(other, reader, epochs=2, validation=reader, **options)
    assert equal(one, other) and record.samples == 10 and record.validation is not None
    assert gc.evaluate(one, reader, **MEASURED) == gc.evaluate(other, given, **MEASURED)
    column = gc.readers.from_arrays(flat, dtype=np.float64)
    by_number = gc.evaluate(one, column, labels="Nxi32", **MEASURED)
    assert by_number == pytest.approx(gc.evaluate(one, given, **MEASURED))


@pytest.mark.parametrize("learner", ["momentum", "adam"])
def test_who_goes_on_from_a_checkpoint_has_the_same_bits(learner: str, tmp_path: Path) -> None:
    rule = gc.SGD(0.2, momentum=0.9) if learner == "momentum" else gc.Adam(0.05)
    given, file = data(10, 4), tmp_path / "c.safetensors"
    options: dict[str, Any] = {**MEASURED, "minibatch": 4, "learner": rule}
    whole, stopped, later = rows(), rows(), rows()
    records = gc.train(whole, given, epochs=4, **options)
    checkpoints = gc.Checkpoints(file)
    gc.train(stopped, given, epochs=2, checkpoints=checkpoints, **options)
    assert equal(gc.load_program(file), stopped) and not equal(stopped, whole)
    again = gc.train(
        later, given, epochs=4, checkpoints=replace(checkpoints, resume=True), **options
    )
    assert equal(later, whole)
    assert [r.criterion for r in again] == [r.criterion for r in records]
    with pytest.raises(GraphcError, match="other is: network"):
        gc.train(
            rows(), given, epochs=5, checkpoints=replace(checkpoints, resume=True),
            **{**options, "train": "w"},
        )  # fmt: skip


def test_controls_and_patterns_are_those_of_networks() -> None:
    given, net = data(20, 4), rows()
    records = gc.train(
        net,
        given,
        epochs=30,
        learning_rate=1.0,
        minibatch=20,
        train="w",
        validation=given,
        control=[
            gc.KeepBest(node="classification_error"),
            gc.EarlyStopping(node="classification_error", patience=2),
        ],
        **MEASURED,
    )
    assert len(records) < 30
    best = min(r.validation.evaluations["classification_error"] for r in records if r.validation)
    assert gc.evaluate(net, given, **MEASURED)["classification_error"] == pytest.approx(best)
    assert not net.parameters["b"].any()


@pytest.mark.parametrize("backend", JUDGED)
def test_members_train_a_program_as_one_does(backend: str) -> None:
    """Each with its part of a minibatch, none of the last one; all have the same bits."""
    given = data(7, 6, 6, 1)
    cuts = (slice(0, 3), slice(3, 7)), (slice(0, 1), slice(1, 1))
    learner = gc.Adam(0.1, clip=gc.ClipGlobalNorm(0.5))
    options: dict[str, Any] = {"learner": learner, "backend": backend, **MEASURED}

    def part(member: int) -> tuple[gc.Program, list[Any]]:
        net = images()
        step = gc.compile_training(net, comm=members[member], batch=4, **options)
        step.nominal = 7
        made = [step(**{n: a[p[member]] for n, a in given.items()}) for p in cuts]
        return net, [{n: float(v) for n, v in m.items()} for m in made]

    members = gc.comm.threads(2, 60.0)
    with ThreadPoolExecutor(2) as pool:
        (one, said), (other, also) = pool.map(part, range(2))
    assert equal(one, other) and said == also
    alone = images(7)
    step = gc.compile_training(alone, batch=7, **options)
    for p, found in zip((slice(0, 7), slice(0, 1)), said, strict=True):
        wanted = step(**{n: a[p] for n, a in given.items()})
        for name, value in found.items():
            assert value == pytest.approx(float(wanted[name]), rel=1e-9)
    for name, value in alone.parameters.items():
        np.testing.assert_allclose(one.parameters[name], value, 1e-8, 1e-10)


def test_a_whole_training_by_members_is_that_of_one() -> None:
    given, alone, members = data(11, 4), rows(), gc.comm.threads(2, 60.0)
    options: dict[str, Any] = {"learning_rate": 0.3, "epochs": 2, "minibatch": 5, **MEASURED}
    records = gc.train(alone, given, validation=given, **options)

    def member(number: int) -> tuple[gc.Program, Any]:
        net = rows()
        made = gc.train(net, given, validation=given, comm=members[number], **options)
        return net, made

    with ThreadPoolExecutor(2) as pool:
        (one, said), (other, _) = pool.map(member, range(2))
    assert equal(one, other)
    for mine, wanted in zip(said, records, strict=True):
        assert mine.samples == wanted.samples == 11
        assert mine.criterion == pytest.approx(wanted.criterion, rel=1e-9)
        assert mine.validation.evaluations == wanted.validation.evaluations


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "measure": ({"measure": "clasification_error"}, "did you mean `classification_error`"),
    "measure type": ({"measure": {"e": 3}}, "a name or a function of output and labels"),
    "name": ({"measure": {"loss": "squared_error"}}, "a name besides `loss`"),
    "no loss": ({"loss": None, "measure": "squared_error"}, "give loss="),
    "dropout": ({"dropout": 0.5}, "dropout: for networks"),
    "truncate": ({"truncate": 3}, "truncate: for networks"),
    "time": ({"time": 3}, "time= is for networks"),
    "criterion": ({"criterion": "e"}, "a program has a loss"),
    "adaptation": ({"adaptation": gc.Adaptation("z", 0.5)}, "adaptation: for networks"),
    "node": ({"control": gc.KeepBest(node="Err")}, "Err"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_said(case: str) -> None:
    options, message = WRONG[case]
    net = rows()
    given: dict[str, Any] = {"learning_rate": 0.1, "epochs": 2, **LOSS, **options}
    with pytest.raises(GraphcError, match=message):
        gc.train(net, data(5, 4), **given)
    assert equal(net, rows())


def test_data_and_programs_that_do_not_fit_are_refused() -> None:
    given, fixed = (
        data(5, 4),
        gc.program(dense, {"x": "5x4xf64"}, parameters=dict(rows().parameters)),
    )
    endless = {**given, "x": np.where(given["x"] > 0, np.inf, 0)}
    options: dict[str, Any] = {"learning_rate": 0.1, **LOSS}
    with pytest.raises(GraphcError, match="a dim of samples as the first axis of each input"):
        gc.train(fixed, given, **options)
    with pytest.raises(GraphcError, match="measuring requires a dim of samples"):
        gc.evaluate(fixed, given, **LOSS)
    with pytest.raises(GraphcError, match=r"labels requires shape \(N, 3\)"):
        gc.train(rows(), {**given, "labels": np.zeros((5, 2))}, **options)
    with pytest.raises(GraphcError, match="labels"):
        gc.train(rows(), {"x": given["x"]}, **options)
    with pytest.raises(GraphcError, match="at least one sample"):
        gc.train(rows(), data(0, 4), **options)
    with pytest.raises(GraphcError, match="in the data `x` is inf in sample 0"):
        gc.train(rows(), endless, **options)
    with pytest.raises(GraphcError, match="names= is for networks"):
        gc.evaluate(rows(), given, "loss", **LOSS)
    model = gc.loads("x = Input(2)\ne = SumElements(x, tag=criteria)")
    with pytest.raises(GraphcError, match="as_inference= are for programs"):
        gc.evaluate(model, given, measure="squared_error")


def test_random_numbers_of_a_program_are_refused_for_members() -> None:
    def noisy(x: Any, n: Any, w: Any) -> Any:
        kept = gc.random_uniform((x.shape[0], 4), n[0]) < 0.5
        return {"logits": gc.where(kept, x, 0.0) @ w}

    drawn = {"w": np.linspace(-1, 1, 12).reshape(4, 3)}
    net = gc.program(noisy, {"x": "Nx4xf64", "n": "1xi64"}, parameters=drawn, bounds={"N": 4})
    with pytest.raises(GraphcError, match="members cannot share a program's random numbers"):
        gc.compile_training(net, comm=gc.comm.threads(2)[0], learner=gc.SGD(0.1), **LOSS)
