"""The training loop: epochs, schedules, order of samples, stopping, and what happens to NaN."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import graphc as gc
from graphc.learn.loop import EpochRecord, Progress
from graphc.learn.shuffle import minibatches, permutation
from tests.support.networks import PlainClassifier, classes, classifier

Array = np.ndarray
SAMPLES = 50


def bytes_of(net: object) -> dict[str, bytes]:
    assert isinstance(net, gc.Network)
    return {name: value.tobytes() for name, value in net.parameters.items()}


def test_epochs_are_those_of_plain_numpy_in_the_stated_order() -> None:
    """Two rates, two sizes, a short last minibatch, momentum and l2 at once."""
    net, data = classifier(), classes(SAMPLES)
    gc.compile_training(net, learner=gc.SGD(learning_rate=0), precision="f64", backend="numpy")
    plain = PlainClassifier(dict(net.parameters))
    records = gc.train(
        net,
        data,
        epochs=3,
        minibatch="16:20",
        learning_rate="0.8*2:0.4",
        momentum=[0.9],
        l2=0.001,
        seed=5,
        precision="f64",
        backend="numpy",
    )
    for epoch, (size, rate) in enumerate([(16, 0.8), (20, 0.8), (20, 0.4)]):
        order, total = permutation(5, epoch, SAMPLES), 0.0
        for part in minibatches(SAMPLES, size):
            chosen = {n: a[order[part]] for n, a in data.items()}
            mu = 0.9 ** (len(chosen["features"]) / size)
            total += plain.step(**chosen, rate=rate / size, momentum=mu, l2=0.001)
        assert records[epoch].criterion == pytest.approx(total / SAMPLES, rel=1e-12)
        assert records[epoch].learning_rate_per_sample == rate / size
    for name, value in net.parameters.items():
        np.testing.assert_allclose(value, plain.parameters[name], rtol=1e-11, atol=1e-12)


def test_a_record_has_averages_per_sample() -> None:
    data = classes(SAMPLES)
    (record,) = gc.train(
        classifier(), data, minibatch=SAMPLES, learning_rate=0.0, precision="f64", backend="numpy"
    )
    measured = gc.compile(classifier(), ["ce", "err"], backend="numpy", precision="f64")(**data)
    assert record.epoch == 1 and record.samples == SAMPLES
    assert record.criterion == pytest.approx(measured["ce"] / SAMPLES, rel=1e-12)
    assert record.evaluations == {"err": measured["err"] / SAMPLES}


def test_equal_seeds_train_alike_and_others_do_not() -> None:
    found: list[dict[str, bytes]] = []
    for seed in (1, 1, 2):
        net = classifier()
        gc.train(net, classes(SAMPLES), learning_rate=1, minibatch=8, seed=seed, backend="numpy")
        found.append(bytes_of(net))
    assert found[0] == found[1] != found[2]


def test_every_epoch_has_another_order() -> None:
    orders = [permutation(1, epoch, SAMPLES).tolist() for epoch in range(3)]
    assert orders[0] != orders[1] != orders[2]
    assert all(sorted(order) == list(range(SAMPLES)) for order in orders)


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        (0.5, [0.5, 0.5, 0.5]),
        ([1, 0.5], [1, 0.5, 0.5]),
        ("2*2:1", [2, 2, 1]),
    ],
)
def test_rates_are_numbers_lists_or_text(rates: object, expected: list[float]) -> None:
    records = gc.train(
        classifier(),
        classes(8),
        epochs=3,
        minibatch=8,
        learning_rate_per_sample=rates,  # type: ignore[arg-type]
        backend="numpy",
    )
    assert [r.learning_rate_per_sample for r in records] == expected


def test_no_epochs_are_no_records_and_no_change() -> None:
    net = classifier()
    before = bytes_of(net)
    assert gc.train(net, classes(8), epochs=0, learning_rate=1, backend="numpy") == []
    assert bytes_of(net) == before


# --- progress ------------------------------------------------------------------------------------


@dataclass
class Watcher:
    """Notes what it is told; asks to stop after so many minibatches."""

    stop_after: int = 10**9
    seen: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    records: list[EpochRecord] = field(default_factory=list[EpochRecord])

    def progress(self) -> Progress:
        return Progress(
            minibatch=lambda done, total: self.seen.append((done, total)),
            epoch=self.records.append,
            should_stop=lambda: len(self.seen) >= self.stop_after,
        )


def test_a_stop_asked_for_at_the_end_of_an_epoch_begins_no_other() -> None:
    watcher = Watcher()
    progress = Progress(epoch=watcher.records.append, should_stop=lambda: len(watcher.records) >= 2)
    records = gc.train(
        classifier(),
        classes(20),
        epochs=5,
        minibatch=8,
        learning_rate=1,
        backend="numpy",
        progress=progress,
    )
    assert [r.samples for r in records] == [20, 20]


def test_progress_is_told_after_every_minibatch_and_epoch() -> None:
    watcher = Watcher()
    records = gc.train(
        classifier(),
        classes(20),
        epochs=2,
        minibatch=8,
        learning_rate=1,
        backend="numpy",
        progress=watcher.progress(),
    )
    assert watcher.seen == [(8, 20), (16, 20), (20, 20)] * 2
    assert watcher.records == records


def test_training_stops_after_a_whole_minibatch_when_asked() -> None:
    watcher, net, data = Watcher(stop_after=4), classifier(), classes(20)
    records = gc.train(
        net,
        data,
        epochs=9,
        minibatch=8,
        learning_rate=1,
        seed=3,
        backend="numpy",
        progress=watcher.progress(),
    )
    assert [r.samples for r in records] == [20, 8]
    assert watcher.seen[-1] == (8, 20)
    plain = classifier()
    step = gc.compile_training(plain, learner=gc.SGD(learning_rate=1), batch=8, backend="numpy")
    for epoch, count in enumerate([3, 1]):
        order = permutation(3, epoch, 20)
        for part in list(minibatches(20, 8))[:count]:
            step(**{n: a[order[part]] for n, a in data.items()})
    assert bytes_of(net) == bytes_of(plain)


@pytest.mark.parametrize(("minibatch", "backend"), [(8, "numpy"), (20, "numpy"), (20, "llvm")])
def test_a_stop_at_the_end_of_an_epoch_starts_no_other(minibatch: int, backend: str) -> None:
    watcher = Watcher(stop_after=-(-20 // minibatch))
    records = gc.train(
        classifier(),
        classes(20),
        epochs=9,
        minibatch=minibatch,
        learning_rate=1,
        backend=backend,
        progress=watcher.progress(),
    )
    assert [r.samples for r in records] == [20]


# --- what is not a number ------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_criterion_that_is_no_number_leaves_the_last_good_parameters(
    backend: str, bad: float
) -> None:
    data = classes(SAMPLES)
    good = classifier()
    gc.train(good, data, epochs=2, minibatch=16, learning_rate=1, seed=1, backend=backend)
    net = classifier()
    watcher = Watcher()
    spoilt = data["features"].copy()

    def spoil(record: EpochRecord) -> None:
        """From the third epoch on, one number of the network is none."""
        if record.epoch == 2:
            watcher.records.append(record)
            kept.update(bytes_of(net))
            net.parameters["W1"][0, 0] = bad

    kept: dict[str, bytes] = {}
    with pytest.raises(gc.GraphcError) as raised:
        gc.train(
            net,
            {**data, "features": spoilt},
            epochs=5,
            minibatch=16,
            learning_rate=1,
            seed=1,
            backend=backend,
            progress=Progress(epoch=spoil),
        )
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.slug == "not-a-number"
    assert "`ce` is not a finite number in epoch 3; the parameters are those after epoch 2" in (
        diagnostic.message
    )
    assert kept == bytes_of(good)
    found = bytes_of(net)
    assert {n for n in found if found[n] != kept[n]} == {"W1"}  # what the test itself spoilt


def test_a_rate_that_is_far_too_large_leaves_finite_parameters() -> None:
    net = gc.loads("""
        x = Input(3)
        y = Input(1)
        W = Parameter(1, 3)
        t = Times(W, x)
        c = SquareError(y, t, tag=criteria)
    """)
    x = np.random.default_rng(0).standard_normal((64, 3)) * 10
    with pytest.raises(gc.GraphcError) as raised:
        gc.train(
            net,
            {"x": x, "y": np.ones((64, 1))},
            epochs=50,
            minibatch=8,
            learning_rate=10.0,
            backend="numpy",
        )
    assert [d.slug for d in raised.value.diagnostics] == ["not-a-number"]
    assert np.all(np.isfinite(net.parameters["W"]))


def test_a_spoilt_sample_in_the_first_epoch_leaves_the_initial_parameters() -> None:
    net, data = classifier(), classes(SAMPLES)
    before = bytes_of(net)
    data["features"][37, 2] = np.nan
    with pytest.raises(gc.GraphcError) as raised:
        gc.train(net, data, epochs=2, minibatch=8, learning_rate=1, backend="numpy")
    assert [d.slug for d in raised.value.diagnostics] == ["not-a-number"]
    assert bytes_of(net) == before


# --- what is given wrongly -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "slug"),
    [
        ({"learning_rate": None}, "bad-value"),
        ({"learning_rate_per_sample": 0.1}, "bad-value"),
        ({"learning_rate": -1.0}, "bad-value"),
        ({"learning_rate": "0.1:x"}, "parse"),
        ({"learning_rate": []}, "bad-value"),
        ({"minibatch": 0}, "bad-value"),
        ({"minibatch": 2.5}, "bad-value"),
        ({"minibatch": "8:x"}, "parse"),
        ({"momentum": 1.0}, "bad-value"),
        ({"momentum": 0.9, "momentum_per_sample": 0.9}, "bad-value"),
        ({"epochs": -1}, "bad-value"),
        ({"epochs": 1.5}, "bad-value"),
        ({"precision": "f16"}, "bad-option"),
        ({"backend": "cuda9"}, "bad-option"),
    ],
    ids=str,
)
def test_a_bad_setting_is_one_error_before_any_work(changes: dict[str, object], slug: str) -> None:
    net = classifier()
    before = bytes_of(net)
    hyperparameters: dict[str, object] = {"learning_rate": 1.0, "minibatch": 8, "backend": "numpy"}
    with pytest.raises(gc.GraphcError) as raised:
        gc.train(net, classes(8), **{**hyperparameters, **changes})  # type: ignore[arg-type]
    assert [d.slug for d in raised.value.diagnostics] == [slug]
    assert bytes_of(net) == before


@pytest.mark.parametrize(
    ("data", "slug"),
    [
        ({"features": classes(8)["features"]}, "input"),
        ({**classes(8), "labels": classes(7)["labels"]}, "input"),
        ({**classes(8), "labels": np.ones((8, 4))}, "input"),
        (classes(0), "input"),
        ([classes(8)["features"]], "argument-type"),
    ],
    ids=["missing", "other number", "other size", "none", "no mapping"],
)
def test_data_that_do_not_fit_are_one_error(data: object, slug: str) -> None:
    with pytest.raises(gc.GraphcError) as raised:
        gc.train(classifier(), data, learning_rate=1, backend="numpy")  # type: ignore[arg-type]
    assert [d.slug for d in raised.value.diagnostics] == [slug]


def test_data_may_hold_more_than_the_network_takes() -> None:
    data = {**classes(8), "weights": np.ones((3, 1))}
    assert len(gc.train(classifier(), data, learning_rate=1, backend="numpy")) == 1


def test_a_thing_that_is_no_network_is_an_error() -> None:
    with pytest.raises(gc.GraphcError, match="a network is required, got int"):
        gc.train(3, classes(8), learning_rate=1)  # type: ignore[arg-type]
