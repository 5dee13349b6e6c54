"""Recurrent networks on sequences, from NDL to trained numbers: every way in, every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gc

Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm")
TOLERANCES = {"f64": 1e-11, "f32": 2e-5}
"""Relative to the largest number: a packed sequence against the same one alone."""

RECURRENT = """
    features = Input(3, tag=feature)
    labels = Input(2, tag=label)
    Wx = Parameter(4, 3, init=gaussian, initValueScale=5)
    Wh = Parameter(4, 4, init=gaussian, initValueScale=5)
    Wg = Parameter(4, 4, init=gaussian, initValueScale=5)
    b = Parameter(4, 1, init=fixedValue, value=0.1)
    Wo = Parameter(2, 4, init=gaussian, initValueScale=5)
    past = PastValue(4, h, timeStep=1, defaultHiddenActivity=0.3)
    far = PastValue(4, h, timeStep=3)
    from_past = Times(Wh, past)
    from_far = Times(Wg, far)
    a = Times(Wx, features)
    s1 = Plus(a, from_past)
    s2 = Plus(s1, from_far)
    s = Plus(s2, b)
    h = Tanh(s)
    before = PastValue(4, h, timeStep=2)
    both = Plus(h, before)
    z = Times(Wo, both, tag=output)
    ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
    err = ErrorPrediction(labels, z, tag=eval)
"""
PARAMETERS = ("Wx", "Wh", "Wg", "b", "Wo")
LENGTHS = (5, 1, 7, 3)

AHEAD = RECURRENT.replace(
    "both = Plus(h, before)", "next = FutureValue(4, h)\nboth = Plus(h, next)"
)


def network(text: str = RECURRENT) -> Any:
    return gc.loads(text, seed=3)


def sequences(lengths: tuple[int, ...] = LENGTHS, seed: int = 0) -> dict[str, list[Array]]:
    """The label says whether the first feature was positive in the step before."""
    rng = np.random.default_rng(seed)
    features = [rng.standard_normal((n, 3)) for n in lengths]
    was = [np.concatenate([[False], x[:-1, 0] > 0]) for x in features]
    return {"features": features, "labels": [np.eye(2)[w.astype(int)] for w in was]}


def padded(arrays: list[Array], gap: float = np.nan) -> Array:
    out = np.full((max(map(len, arrays)), len(arrays), arrays[0].shape[1]), gap)
    for s, array in enumerate(arrays):
        out[: len(array), s] = array
    return out


def in_slots(data: dict[str, list[Array]]) -> tuple[dict[str, Array], Array]:
    """Slot 0: sequences 0 and 1 with a gap between; slot 1: a gap, 2; slot 2: 3. Gaps are nan."""
    places = [(0, 0), (7, 0), (1, 1), (0, 2)]
    flags = np.full((9, 3), 4 + 8)
    packed = {name: np.full((9, 3, lists[0].shape[1]), np.nan) for name, lists in data.items()}
    for i, (t, s) in enumerate(places):
        n = len(data["features"][i])
        flags[t : t + n, s] = 0
        flags[t, s] |= 1
        flags[t + n - 1, s] |= 2
        for name, lists in data.items():
            packed[name][t : t + n, s] = lists[i]
    return packed, flags


def close(got: object, wanted: object, precision: str) -> None:
    expected = np.asarray(wanted)
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCES[precision] * scale)  # type: ignore[arg-type]


# --- three ways in, one meaning ------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_packed_sequences_give_what_each_gives_alone(backend: str, precision: str) -> None:
    exe = gc.compile(
        network(),
        ["ce", "z", "err"],
        gradients=[*PARAMETERS, "features"],
        backend=backend,
        precision=precision,
        time=8,
        sequences=4,
    )
    data = sequences()
    alone = [
        exe(features=x, labels=y) for x, y in zip(data["features"], data["labels"], strict=True)
    ]
    packed, flags = in_slots(data)
    ways = {
        "list": exe(**data),
        "lengths": exe(**{n: padded(a) for n, a in data.items()}, lengths=LENGTHS),
        "flags": exe(**packed, flags=flags),
    }
    for results in ways.values():
        for name in ("ce", "err"):
            close(results[name], sum(float(r[name]) for r in alone), precision)
        for name in PARAMETERS:
            close(results.gradients[name], sum(r.gradients[name] for r in alone), precision)
    for name in ("z", "gradient.features"):
        for i, (t, s) in enumerate([(0, 0), (7, 0), (1, 1), (0, 2)]):
            wanted, n = alone[i][name], LENGTHS[i]
            close(ways["list"][name][i], wanted, precision)
            close(ways["lengths"][name][:n, i], wanted, precision)
            close(ways["flags"][name][t : t + n, s], wanted, precision)


def test_columns_of_the_book_are_the_same_minibatch() -> None:
    exe = gc.compile(network(), ["z"], time=9, sequences=3)
    packed, flags = in_slots(sequences())
    z = exe(features=packed["features"], flags=flags)["z"]
    columns = exe(features=packed["features"].reshape(27, 3), flags=flags)["z"]
    np.testing.assert_array_equal(columns, z.reshape(27, 2))


def test_longer_and_more_sequences_than_the_bounds_compile_again() -> None:
    exe = gc.compile(network(), ["z"], time=2, backend="numpy")
    small = gc.compile(network(), ["z"], time=8, sequences=4, backend="numpy")
    data = sequences()["features"]
    for got, wanted in zip(exe(features=data)["z"], small(features=data)["z"], strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert {d.name: d.bound for d in exe.signature.dims} == {"T": 8, "S": 4, "N": 32}


def test_a_network_without_memory_takes_sequences_where_time_is_asked_for() -> None:
    text = "x = Input(3)\nz = Softmax(x, tag=output)\nl = SumElements(z, tag=output)"
    exe = gc.compile(gc.loads(text), time=8, sequences=4, backend="numpy")
    results = exe(x=sequences()["features"])
    assert [z.shape for z in results["z"]] == [(n, 3) for n in LENGTHS]
    assert results["l"] == pytest.approx(sum(LENGTHS), rel=1e-6)


WORDS = """
    words = Input(20, tag=feature)
    labels = Input(2, tag=label)
    E = Parameter(4, 20, init=gaussian, initValueScale=5)
    R = Parameter(4, 4, init=gaussian, initValueScale=5)
    O = Parameter(2, 4, init=gaussian, initValueScale=5)
    past = PastValue(4, h)
    word = Times(E, words)
    memory = Times(R, past)
    s = Plus(word, memory)
    h = Tanh(s)
    z = Times(O, h, tag=output)
    ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_sequences_are_the_dense_ones(backend: str) -> None:
    rng = np.random.default_rng(4)
    indices = [rng.integers(0, 20, n) for n in LENGTHS]
    sparse = [(i, np.arange(len(i) + 1)) for i in indices]
    dense = [np.eye(20)[i] for i in indices]
    labels = sequences()["labels"]
    found: list[dict[str, Array]] = []
    for text, words in ((WORDS, dense), (WORDS.replace("= Input(20", "= SparseInput(20"), sparse)):
        net = network(text)
        step = step_of(net, backend=backend, time=8, sequences=4)
        for carry in (False, True, True):
            step(words=words, labels=labels, carry=carry)
        gc.train(net, {"words": words, "labels": labels}, minibatch=3, learning_rate=0.1, epochs=2)
        found.append({name: np.array(value) for name, value in net.parameters.items()})
    for name, value in found[0].items():
        close(found[1][name], value, "f32")


# --- sequences that go on ------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("stretch", [1, 2, 4])
def test_stretches_that_carry_on_make_the_whole_sequence(backend: str, stretch: int) -> None:
    exe = gc.compile(network(), ["z"], backend=backend, precision="f64", time=8, sequences=4)
    data = sequences()["features"]
    whole = exe(features=data)["z"]
    parts = [
        exe(features=[x[t : t + stretch] for x in data], carry=True)["z"]
        for t in range(0, max(LENGTHS), stretch)
    ]
    for s, wanted in enumerate(whole):
        close(np.concatenate([part[s] for part in parts]), wanted, "f64")
    exe.state = None
    again = exe(features=[x[:stretch] for x in data], carry=True)["z"]
    for got, wanted in zip(again, parts[0], strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_state_goes_from_one_executable_to_another() -> None:
    first, second = (gc.compile(network(), ["z"], time=4, backend="numpy") for _ in range(2))
    x = sequences()["features"][2]
    first(features=x[:4], carry=True)
    second.state = first.state
    got = second(features=x[4:], carry=True)["z"]
    np.testing.assert_array_equal(got, first(features=x[4:], carry=True)["z"])


def test_what_is_carried_is_constant_in_the_gradient() -> None:
    """Differences are taken with the state of the unmoved weights."""
    net = network()
    exe = gc.compile(net, ["ce"], gradients=["Wx"], precision="f64", time=8, backend="numpy")
    x, y = (lists[0] for lists in sequences((6,)).values())
    exe(features=x[:3], labels=y[:3], carry=True)
    state, weights = exe.state, net.parameters["Wx"]

    def results() -> Any:
        exe.state = state
        return exe(features=x[3:], labels=y[3:], carry=True)

    gradient, original = results().gradients["Wx"], weights.copy()
    for index in ((0, 0), (3, 2)):
        losses: list[float] = []
        for distance in (1e-2, -1e-2):
            weights[index] += distance
            losses.append(float(results()["ce"]))
            weights[...] = original
        assert gradient[index] == pytest.approx((losses[0] - losses[1]) / 2e-2, rel=1e-3)


def test_a_network_that_looks_ahead_cannot_go_on() -> None:
    exe = gc.compile(network(AHEAD), ["z"], time=4, backend="numpy")
    x = sequences()["features"][0]
    exe(features=x)
    with pytest.raises(gc.GraphcError, match="FutureValue `next`, which needs the steps to come"):
        exe(features=x, carry=True)
    assert exe.state is None


# --- training ------------------------------------------------------------------------------------


def step_of(net: Any, **options: Any) -> Any:
    learner = gc.SGD(learning_rate_per_sample=0.1, momentum_per_sample=0.9, l2=0.01)
    return gc.compile_training(net, learner=learner, precision="f64", **options)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_learns_the_same_however_sequences_lie(backend: str) -> None:
    """L2 and momentum count steps, so gaps must not count."""
    data = sequences()
    packed, flags = in_slots(data)
    found: list[dict[str, Array]] = []
    for inputs in (data, {**packed, "flags": flags}):
        net = network()
        step = step_of(net, backend=backend, time=9, sequences=4)
        for _ in range(2):
            step(**inputs)
        found.append({**net.parameters})
    for name in PARAMETERS:
        close(found[0][name], found[1][name], "f64")


def test_a_step_carries_on_like_a_call() -> None:
    net = network()
    step = step_of(net, time=4)
    data = sequences((7,))
    exe = gc.compile(net, ["ce"], precision="f64", time=4)
    for part in (slice(0, 4), slice(4, 7)):
        inputs = {name: lists[0][part] for name, lists in data.items()}
        exe.state = step.state
        wanted = exe(**inputs, carry=True)["ce"]
        assert step(**inputs, carry=True)["ce"] == pytest.approx(float(wanted), rel=1e-12)
    step.state = None
    assert step.state is None
    assert "velocity.Wh" in step.learner_state


def many(count: int = 60) -> dict[str, list[Array]]:
    lengths = np.random.default_rng(1).integers(2, 9, count)
    return sequences(tuple(int(n) for n in lengths), seed=2)


@pytest.mark.parametrize("truncate", [0, 3])
def test_training_learns_what_was_one_step_ago(truncate: int) -> None:
    net, data = network(), many()
    before = gc.evaluate(net, data)
    records = gc.train(
        net, data, epochs=15, minibatch=8, learning_rate=0.5, momentum=0.5, truncate=truncate
    )
    steps = sum(map(len, data["features"]))
    assert [r.samples for r in records] == [steps] * 15
    assert records[-1].criterion < 0.5 * records[0].criterion
    after = gc.evaluate(net, data, sequences=7)
    assert after["ce"] < 0.4 * before["ce"]
    assert after["err"] < 0.15


def test_stretches_as_long_as_the_sequences_are_whole_sequences() -> None:
    data = many(10)
    found: list[dict[str, Array]] = []
    for truncate in (0, 8):
        net = network()
        rate = {"learning_rate_per_sample": 0.05}
        gc.train(net, data, minibatch=4, truncate=truncate, precision="f64", **rate)  # type: ignore[arg-type]
        found.append({**net.parameters})
    for name in PARAMETERS:
        close(found[0][name], found[1][name], "f64")


def test_rates_refer_to_a_minibatch_of_average_length() -> None:
    (record,) = gc.train(network(), sequences((2, 4)), minibatch=2, learning_rate=0.6)
    assert record.learning_rate_per_sample == pytest.approx(0.6 / 6)


def test_averages_are_over_steps() -> None:
    data, net = sequences(), network()
    exe = gc.compile(net, ["ce", "err"], time=8, backend="numpy")
    total = [exe(features=x, labels=y) for x, y in zip(*data.values(), strict=True)]
    measured = gc.evaluate(net, data, backend="numpy", sequences=2)
    for name in ("ce", "err"):
        wanted = sum(float(r[name]) for r in total) / sum(LENGTHS)
        assert measured[name] == pytest.approx(wanted, rel=1e-5)


def test_measuring_stretch_by_stretch_gives_the_same() -> None:
    net, data = network(), many(10)
    whole = gc.evaluate(net, data, precision="f64", backend="numpy")
    parts = gc.evaluate(net, data, precision="f64", backend="numpy", truncate=3, sequences=4)
    for name, value in whole.items():
        assert parts[name] == pytest.approx(value, rel=1e-12)


def test_statistics_are_those_of_all_steps() -> None:
    text = RECURRENT.replace(
        "a = Times(Wx, features)",
        "m = Mean(features)\nv = InvStdDev(features)\n"
        "n = PerDimMVNorm(features, m, v)\na = Times(Wx, n)",
    )
    net, data = network(text), sequences()
    gc.train(net, data, learning_rate=0.0, minibatch=2, backend="numpy")
    steps = np.concatenate(data["features"])
    np.testing.assert_allclose(net.parameters["m"][:, 0], steps.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(net.parameters["v"][:, 0], 1 / steps.std(axis=0), rtol=1e-5)


def test_statistics_of_what_looks_along_time_are_over_steps_too() -> None:
    text = "x = Input(2)\np = PastValue(2, x, defaultHiddenActivity=0)\nm = Mean(p)\n"
    text += "v = InvStdDev(p)\nn = PerDimMVNorm(p, m, v, tag=output)"
    net: Any = gc.loads(text)
    lists = [x[:, :2] for x in sequences()["features"]]
    net.precompute(x=lists)
    steps = np.concatenate([np.concatenate([np.zeros((1, 2)), x[:-1]]) for x in lists])
    np.testing.assert_allclose(net.parameters["m"][:, 0], steps.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(net.parameters["v"][:, 0], 1 / steps.std(axis=0), rtol=1e-5)


# --- refused -------------------------------------------------------------------------------------


def test_training_takes_lists_of_sequences() -> None:
    array = {n: padded(a, 0.0) for n, a in sequences().items()}
    with pytest.raises(gc.GraphcError, match="features requires a list of sequences, one array"):
        gc.train(network(), array, learning_rate=0.1, backend="numpy")


def test_features_and_labels_of_different_length_are_refused() -> None:
    data = sequences()
    data["labels"][2] = data["labels"][2][:-1]
    with pytest.raises(gc.GraphcError, match="sequence 2 has 7 steps in features but 6 in labels"):
        gc.train(network(), data, learning_rate=0.1, backend="numpy")


def test_truncating_is_for_sequences() -> None:
    text = "x = Input(3)\nl = Input(3)\nw = Parameter(3, 3)\nz = Times(w, x)\n"
    net = gc.loads(text + "ce = CrossEntropyWithSoftmax(l, z, tag=criterion)")
    data = {"x": np.eye(3), "l": np.eye(3)}
    with pytest.raises(gc.GraphcError, match="truncate is for sequences"):
        gc.train(net, data, learning_rate=0.1, truncate=2)


@pytest.mark.parametrize(("option", "value"), [("time", -1), ("sequences", 0), ("time", 2**31)])
def test_bounds_are_checked(option: str, value: int) -> None:
    with pytest.raises(gc.GraphcError, match=f"{option} requires"):
        gc.compile(network(), ["z"], **{option: value})  # type: ignore[arg-type]
