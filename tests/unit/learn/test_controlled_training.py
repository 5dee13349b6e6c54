"""Training with rules between epochs, windows, validation data and readers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest

import graphc as gc
from graphc.builder import GraphBuilder
from graphc.data.reader import Block, EpochRequest
from graphc.learn.shuffle import permutation
from tests.support.networks import classes, classifier
from tests.support.training import Blocks, untimed, values

Array = np.ndarray
SAMPLES = 50


def train(net: GraphBuilder, data: object = None, **options: object) -> list[gc.EpochRecord]:
    defaults = {"epochs": 4, "minibatch": 8, "learning_rate": 0.5, "backend": "numpy", "seed": 3}
    data = classes(SAMPLES) if data is None else data
    return gc.train(net, data, **{**defaults, **options})  # type: ignore[arg-type]


# --- windows -------------------------------------------------------------------------------------


SUM = """
    x = Input(1)
    y = Input(1)
    W = Parameter(1, 1, init=fixedValue, value=1)
    e = SquareError(y, Times(W, x), tag=criteria)
"""


def visited(epochs: int, size: int, samples: int, *, shuffle: bool) -> list[list[int]]:
    """The samples of each epoch in order: with rate 0 the criterion of sample n is 2^n."""
    net = gc.loads(SUM)
    data = {"x": np.sqrt(2 * 2.0 ** np.arange(samples))[:, None], "y": np.zeros((samples, 1))}
    found: list[list[int]] = [[]]

    def part(part: object) -> None:
        for criterion in part.values["e"]:  # type: ignore[attr-defined]
            assert float(criterion) == pytest.approx(2.0 ** round(math.log2(criterion)))
            found[-1].append(round(math.log2(criterion)))

    def epoch(_: object) -> None:
        found.append([])

    gc.train(
        net,
        data,
        epochs=epochs,
        minibatch=1,
        learning_rate=0,
        epoch_size=size,
        shuffle=shuffle,
        seed=7,
        precision="f64",
        backend="numpy",
        progress=gc.Progress(part=part, epoch=epoch),
    )
    return found[:-1]


def test_windows_follow_each_other_and_begin_again_at_the_end() -> None:
    assert visited(4, 3, 8, shuffle=False) == [[0, 1, 2], [3, 4, 5], [6, 7, 0], [1, 2, 3]]
    assert visited(2, 20, 8, shuffle=False)[1][:5] == [4, 5, 6, 7, 0]


def test_a_pass_over_the_data_is_shuffled_as_a_whole() -> None:
    passes = [permutation(7, p, 8).tolist() for p in range(2)]
    assert list(chain(*visited(4, 4, 8, shuffle=True))) == passes[0] + passes[1]
    assert list(chain(*visited(5, 3, 8, shuffle=True))) == (passes[0] + passes[1])[:15]


def test_a_window_of_all_data_is_an_epoch() -> None:
    one, other = classifier(), classifier()
    assert untimed(train(one)) == untimed(train(other, epoch_size=SAMPLES))
    assert values(one) == values(other)


def test_windows_of_sequences_are_counted_in_sequences() -> None:
    net = gc.loads(
        "x = Input(1)\ny = Input(1)\nW = Parameter(1, 1)\nh = PastValue(1, 1, x)\n"
        "e = SquareError(y, Times(W, h), tag=criteria)"
    )
    lists = [np.ones((n, 1)) for n in (3, 5, 2)]
    records = gc.train(
        net,
        {"x": lists, "y": lists},
        epochs=3,
        epoch_size=2,
        minibatch=1,
        learning_rate=0.1,
        shuffle=False,
        backend="numpy",
    )
    assert [r.samples for r in records] == [8, 5, 7]


# --- validation, stopping, keeping the best ------------------------------------------------------


def test_validation_is_what_evaluate_says_of_the_parameters_after_the_epoch() -> None:
    data = classes(20, seed=9)
    net = classifier()
    records = train(net, epochs=2, validation=data)
    measured = gc.evaluate(net, data, backend="numpy")
    found = records[-1].validation
    assert found is not None and found.samples == 20
    assert found.criterion == pytest.approx(measured["ce"], rel=1e-6)
    assert found.evaluations == {"err": pytest.approx(measured["err"])}
    assert records[0].validation != found


def test_validation_changes_no_bit_of_the_training() -> None:
    one, other = classifier(), classifier()
    train(one)
    train(other, validation=classes(7))
    assert values(one) == values(other)


def test_training_ends_after_epochs_without_improvement() -> None:
    events: list[gc.Event] = []
    records = train(
        classifier(),
        epochs=20,
        learning_rate=0,
        control=gc.EarlyStopping(patience=3),
        validation=classes(9),
        progress=gc.Progress(event=events.append),
    )
    assert len(records) == 4
    assert [(e.kind, e.epoch) for e in events] == [("finished", 4)]
    assert "no improvement in 3 epochs" in events[0].purpose


@pytest.mark.parametrize("node", [None, "err"])
def test_the_parameters_of_the_best_epoch_are_kept(node: str | None) -> None:
    data = classes(20, seed=9)
    seen: list[dict[str, bytes]] = []
    net = classifier()
    progress = gc.Progress(epoch=lambda _: seen.append(values(net)))
    control = gc.KeepBest(node=node)
    records = train(
        net,
        epochs=8,
        learning_rate="1:1:1:30",  # so large that later epochs are worse
        validation=data,
        control=control,
        progress=progress,
    )
    found = [r.validation for r in records if r.validation is not None]
    reached = [v.criterion if node is None else v.evaluations[node] for v in found]
    best = reached.index(min(reached))
    assert best != len(records) - 1
    assert values(net) == seen[best]


def test_an_unknown_node_is_named_with_a_near_one_before_anything_is_trained() -> None:
    started: list[object] = []
    progress = gc.Progress(start=started.append)
    with pytest.raises(gc.GraphcError, match=r"`er` is no criterion.*`err`"):
        train(classifier(), control=gc.KeepBest(node="er"), progress=progress)
    assert started == []


# --- rates and sizes -----------------------------------------------------------------------------


def test_an_undone_epoch_leaves_parameters_and_velocity_as_they_were() -> None:
    data = classes(SAMPLES)
    states: list[dict[str, bytes]] = []
    net = classifier()
    records = train(
        net,
        data,
        epochs=6,
        learning_rate=20.0,
        momentum=0.9,
        shuffle=False,
        control=gc.AdjustAfterEpoch(decrease=0.01),
        progress=gc.Progress(epoch=lambda _: states.append(values(net))),
    )
    bad = [n for n, r in enumerate(records) if r.undone]
    assert bad, "no epoch made it worse"
    for n in bad:
        assert states[n] == states[n - 1]
        if n + 1 < len(records):
            now, before = records[n + 1], records[n]
            rate = 0.01 * before.learning_rate_per_sample
            assert now.learning_rate_per_sample == pytest.approx(rate)


def test_a_training_that_leaves_the_numbers_is_undone_where_a_rule_wants_that() -> None:
    """The rate that makes parameters infinite is 1e30 times the one before."""
    net = gc.loads(SUM)
    x = np.random.default_rng(0).standard_normal((16, 1)).astype(np.float32)
    records = gc.train(
        net,
        {"x": x, "y": 3 * x},
        epochs=4,
        minibatch=4,
        learning_rate=0.01,
        shuffle=False,
        backend="numpy",
        control=gc.AdjustAfterEpoch(
            increase_if_improves_more_than=0, increase=1e30, decrease=1e-30
        ),
    )
    undone = [r for r in records if r.undone]
    assert undone and math.isnan(undone[0].criterion)
    assert np.isfinite(net.parameters["W"]).all()


def test_training_ends_below_the_smallest_rate() -> None:
    events: list[gc.Event] = []
    records = train(
        classifier(),
        epochs=50,
        learning_rate=1e-7,
        control=gc.AdjustAfterEpoch(reduce_if_improves_less_than=0.5, decrease=0.1),
        progress=gc.Progress(event=events.append),
    )
    rates = [r.learning_rate_per_sample for r in records]
    assert rates == pytest.approx([1.25e-8, 1.25e-8, 1.25e-9])
    assert events[-1].kind == "finished" and "below 1e-09" in events[-1].purpose
    assert len(train(classifier(), learning_rate=0, minimum_rate=1e-9)) == 0
    assert len(train(classifier(), learning_rate=0)) == 4


def test_a_search_leaves_everything_as_it_was() -> None:
    """The rate that it finds, given to a training without a search, gives the same bits."""
    searched = classifier()
    events: list[gc.Event] = []
    records = train(
        searched,
        epochs=3,
        momentum=0.9,
        control=gc.SearchBeforeEpoch(minibatches=3),
        progress=gc.Progress(event=events.append),
    )
    assert records[0].learning_rate_per_sample == 0.5 / 8
    rates = [r.learning_rate_per_sample for r in records]
    assert rates[1:] == [e.value for e in events if e.kind == "rate-found"]
    assert next(e.purpose for e in events if e.kind == "rate-trial") == "base"
    given = classifier()
    again = gc.train(
        given,
        classes(SAMPLES),
        epochs=3,
        minibatch=8,
        learning_rate_per_sample=rates,
        momentum=0.9,
        backend="numpy",
        seed=3,
    )
    assert [r.criterion for r in again] == [r.criterion for r in records]
    assert values(given) == values(searched)


def test_a_search_from_the_first_epoch_on_needs_no_listed_rate() -> None:
    records = train(classifier(), epochs=2, control=gc.SearchBeforeEpoch(listed=0, minibatches=2))
    assert records[0].learning_rate_per_sample != 0.5 / 8


def test_minibatches_grow_while_the_rate_per_sample_stays() -> None:
    data = classes(600)
    records = train(
        classifier(),
        data,
        epochs=3,
        minibatch=64,
        learning_rate_per_sample=0.001,
        learning_rate=None,
        control=gc.AdaptiveMinibatch(minibatches=4, margin=50.0, maximum=256),
    )
    assert records[0].minibatch == 64
    assert [r.minibatch for r in records[1:]] == [256, 256]
    assert {r.learning_rate_per_sample for r in records} == {0.001}


def test_a_learner_that_chooses_its_rate_takes_no_other() -> None:
    with pytest.raises(gc.GraphcError, match="chooses its step size itself"):
        gc.train(
            classifier(),
            classes(8),
            learner=gc.SteppingHeuristic(),
            control=gc.AdjustAfterEpoch(),
        )


@pytest.mark.parametrize(
    "control",
    [
        [gc.AdjustAfterEpoch(), gc.SearchBeforeEpoch()],
        [gc.KeepBest(), gc.KeepBest()],
        [3],
        3,
        gc.KeepBest,
    ],
)
def test_other_controls_are_refused(control: object) -> None:
    with pytest.raises(gc.GraphcError):
        train(classifier(), control=control)


# --- readers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch_size", [0, 24])
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("knows", [True, False])
def test_a_reader_trains_as_its_samples_in_memory_do(
    epoch_size: int, backend: str, knows: bool
) -> None:
    data = classes(SAMPLES)
    one, other = classifier(), classifier()
    options = {"shuffle": False, "epoch_size": epoch_size, "backend": backend, "momentum": 0.9}
    expected = train(one, data, **options)
    records = train(other, Blocks(data, knows=knows), **options)
    assert untimed(records) == untimed(expected)
    assert values(one) == values(other)


@pytest.mark.parametrize("epoch_size", [0, 24])
def test_a_reader_of_the_library_shuffles_as_data_in_memory_are(epoch_size: int) -> None:
    data = {name: array.astype(np.float32) for name, array in classes(SAMPLES).items()}
    one, other = classifier(), classifier()
    expected = train(one, data, epoch_size=epoch_size)
    order = gc.readers.Order(seed=3)
    records = train(other, gc.readers.from_arrays(data, order=order), epoch_size=epoch_size)
    assert untimed(records) == untimed(expected)
    assert values(one) == values(other)


def test_a_reader_validates_and_gives_statistics() -> None:
    text = """
        features = Input(6)
        labels = Input(3, tag=label)
        z = Times(Parameter(3, 6), PerDimMeanVarNormalization(
            features, Mean(features), InvStdDev(features)))
        ce = CrossEntropyWithSoftmax(labels, z, tag=criteria)
    """
    data = classes(SAMPLES)
    nets = [gc.loads(text), gc.loads(text)]
    sources = [data, Blocks(data)]
    found = [
        train(net, source, validation=source, shuffle=False)
        for net, source in zip(nets, sources, strict=True)
    ]
    for a, b in zip(*found, strict=True):
        assert a.criterion == pytest.approx(b.criterion, rel=1e-6)
        assert a.validation is not None and b.validation is not None
        assert a.validation.criterion == pytest.approx(b.validation.criterion, rel=1e-5)


def test_a_reader_that_breaks_minibatches_is_refused() -> None:
    class Odd(Blocks):
        def blocks(self, request: EpochRequest) -> Iterator[Block]:
            return super().blocks(replace(request, minibatch=3))

    with pytest.raises(gc.GraphcError, match="multiple of the minibatch 8"):
        train(classifier(), Odd(classes(SAMPLES)))


def test_a_reader_without_samples_is_refused() -> None:
    with pytest.raises(gc.GraphcError, match="at least one sample"):
        train(classifier(), Blocks(classes(0), knows=False))


def test_what_is_neither_data_nor_reader_is_refused() -> None:
    with pytest.raises(gc.GraphcError, match="arrays by name, or a reader"):
        train(classifier(), [1, 2])
    with pytest.raises(gc.GraphcError, match="validation requires"):
        train(classifier(), validation=3)


# --- adaptation ----------------------------------------------------------------------------------

SOFT = """
    features = Input(6)
    labels = Input(3, tag=label)
    z = Times(Parameter(3, 6), features)
    p = Softmax(z)
    ce = CrossEntropyWithSoftmax(labels, z, tag=criteria)
"""


@pytest.mark.parametrize("source", ["memory", "reader"])
def test_adaptation_mixes_the_labels_with_what_the_network_said_first(source: str) -> None:
    data = classes(SAMPLES)
    net, mixed = gc.loads(SOFT, seed=4), gc.loads(SOFT, seed=4)
    p = gc.compile(net, "p", precision="f64", backend="numpy")(features=data["features"])["p"]
    given = {**data, "labels": 0.7 * data["labels"] + 0.3 * p}
    expected = train(mixed, given, precision="f64", shuffle=False)
    records = train(
        net,
        data if source == "memory" else Blocks(data),
        precision="f64",
        shuffle=False,
        adaptation=gc.Adaptation("p", 0.3),
    )
    for a, b in zip(records, expected, strict=True):
        assert a.criterion == pytest.approx(b.criterion, rel=1e-12)


def test_adaptation_to_another_network_takes_its_outputs() -> None:
    data = classes(SAMPLES)
    other = gc.loads(SOFT, seed=9)
    p = gc.compile(other, "p", precision="f64", backend="numpy")(features=data["features"])["p"]
    given = {**data, "labels": 0.5 * data["labels"] + 0.5 * p}
    one, two = gc.loads(SOFT, seed=4), gc.loads(SOFT, seed=4)
    expected = train(one, given, precision="f64")
    adaptation = gc.Adaptation("p", 0.5, label="labels", reference=other)
    records = train(two, data, precision="f64", adaptation=adaptation)
    assert records[-1].criterion == pytest.approx(expected[-1].criterion, rel=1e-12)


def test_labels_of_sequences_are_mixed() -> None:
    text = """
        x = Input(2)
        y = Input(2, tag=label)
        z = Plus(Times(Parameter(2, 2), x), Times(Parameter(2, 2), PastValue(2, 1, z)))
        p = Softmax(z)
        ce = CrossEntropyWithSoftmax(y, z, tag=criteria)
    """
    rng = np.random.default_rng(1)
    x = [rng.standard_normal((n, 2)) for n in (4, 2, 5)]
    y = [np.eye(2)[rng.integers(0, 2, len(item))] for item in x]
    one, two = gc.loads(text, seed=4), gc.loads(text, seed=4)
    p = gc.compile(one, "p", precision="f64", backend="numpy")(x=x)["p"]
    mixed = [0.25 * a + 0.75 * b for a, b in zip(y, p, strict=True)]
    expected = train(one, {"x": x, "y": mixed}, precision="f64", minibatch=2)
    options = {"precision": "f64", "minibatch": 2, "adaptation": gc.Adaptation("p", 0.75)}
    records = train(two, {"x": x, "y": y}, **options)
    assert records[-1].criterion == pytest.approx(expected[-1].criterion, rel=1e-12)


def test_wrong_adaptations_are_refused() -> None:
    data = classes(8)
    for wrong in (
        lambda: gc.Adaptation("p", 1.5),
        lambda: gc.Adaptation("p", 0.5, reference=3),
        lambda: train(gc.loads(SOFT), data, adaptation=gc.Adaptation("q", 0.5)),
        lambda: train(gc.loads(SOFT), data, adaptation=gc.Adaptation("features", 0.5)),
        lambda: train(gc.loads(SUM), data, adaptation=gc.Adaptation("e", 0.5)),
        lambda: train(gc.loads(SOFT), data, adaptation="p"),
    ):
        with pytest.raises(gc.GraphcError):
            wrong()
