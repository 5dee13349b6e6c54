"""Update rules and what goes with them, judged by plain numpy written from the formulas.

The network's gradient is the sum of its inputs, exactly, so that f32 is judged as closely as f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import find_compiler
from graphc.learn.clipping import Clip
from graphc.learn.rated import RatedLearner
from graphc.learn.step import TrainingStep

Array = np.ndarray
BACKENDS = ["reference", "numpy", "llvm"]
NOMINAL = 4
SIZES = (4, 4, 3, 1, 4, 2, 4, 4)

SUMS = """
    x = Input(6)
    y = Input(1)
    W = Parameter(1, 6)
    V = Parameter(1, 1)
    e = SumElements(Plus(Times(W, x), Times(V, y)), tag=criteria)
"""


def minibatches(seed: int = 0) -> list[dict[str, Array]]:
    """Numbers with few digits, whose sums f32 holds exactly; the second of x is always 0."""
    rng = np.random.default_rng(seed)
    found: list[dict[str, Array]] = []
    for size in SIZES:
        x = rng.integers(-16, 17, (size, 6)) / 8
        x[:, 1] = 0.0
        found.append({"x": x, "y": rng.integers(-16, 17, (size, 1)) / 8})
    return found


# --- the judge ---


@dataclass
class Plain:
    """A rule in numpy. Numbers of a call: its samples, its place from 0."""

    rate: float
    states: dict[str, dict[str, Array]] = field(default_factory=dict)

    def __call__(self, name: str, w: Array, g: Array, samples: int, place: int) -> Array:
        raise NotImplementedError

    def state(self, kind: str, name: str, start: Array) -> Array:
        return self.states.setdefault(kind, {}).setdefault(name, start)


@dataclass
class PlainSGD(Plain):
    momentum_per_sample: float = 0.0

    def __call__(self, name: str, w: Array, g: Array, samples: int, place: int) -> Array:
        mu = self.momentum_per_sample**samples
        v = self.state("v", name, np.zeros_like(w))
        v = self.states["v"][name] = (1 - mu) * self.rate * g + mu * v
        return w - v


@dataclass
class PlainAdaGrad(Plain):
    normalise: bool = True

    def __call__(self, name: str, w: Array, g: Array, samples: int, place: int) -> Array:
        s = self.states.setdefault("s", {})
        s[name] = s.get(name, 0) + g**2
        root = np.sqrt(s[name] + 1e-16)
        a = (1 / root).mean() if self.normalise and root.size else 1.0
        return w - self.rate / a * (g / root)


@dataclass
class PlainRmsProp(Plain):
    normalise: bool = True
    gamma: float = 0.99
    inc: float = 1.2
    dec: float = 0.75
    low: float = 0.1
    high: float = 10.0

    def __call__(self, name: str, w: Array, g: Array, samples: int, place: int) -> Array:
        r = self.state("r", name, g**2)
        size = self.state("size", name, np.full_like(w, 0.02))
        sign = self.state("sign", name, np.zeros_like(w))
        r = self.states["r"][name] = self.gamma * r + (1 - self.gamma) * g**2
        same = np.sign(g) * sign > 0
        size = np.where(
            same, np.minimum(size * self.inc, self.high), np.maximum(size * self.dec, self.low)
        )
        self.states["size"][name], self.states["sign"][name] = size, np.sign(g)
        m = size / np.sqrt(r + 1e-6)
        return w - self.rate / (m.mean() if self.normalise and m.size else 1.0) * (g * m)


@dataclass
class PlainAdam(Plain):
    """`rate` is of an update, unless it is `per_sample`."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    decay: float = 0.0
    per_sample: bool = False

    def __call__(self, name: str, w: Array, g: Array, samples: int, place: int) -> Array:
        g = g / samples
        rate = self.rate * samples if self.per_sample else self.rate
        m = self.state("m", name, np.zeros_like(w))
        v = self.state("v", name, np.zeros_like(w))
        m = self.states["m"][name] = self.beta1 * m + (1 - self.beta1) * g
        v = self.states["v"][name] = self.beta2 * v + (1 - self.beta2) * g**2
        t = place + 1
        step = m / (1 - self.beta1**t) / (np.sqrt(v / (1 - self.beta2**t)) + self.epsilon)
        return w - rate * self.decay * w - rate * step


@dataclass(frozen=True)
class Around:
    """What is around a rule: thresholds and weights per sample."""

    elements: float = math.inf
    norm: float = math.inf
    all_norm: float = math.inf
    l2: float = 0.0
    l1: float = 0.0


def numpy_step(
    rule: Plain,
    around: Around,
    parameters: dict[str, Array],
    gradients: Mapping[str, Array],
    place: int,
    samples: int,
) -> None:
    """Clip, L2, update, L1."""
    whole = math.sqrt(sum(float((g**2).sum()) for g in gradients.values()))
    for name, g in gradients.items():
        w = parameters[name]
        g = np.clip(g, -around.elements * samples, around.elements * samples)
        norm = math.sqrt(float((g**2).sum()))
        if norm > around.norm * samples:
            g = g * (around.norm * samples / norm)
        if whole > around.all_norm * samples:
            g = g * (around.all_norm * samples / whole)
        w = rule(name, w, g + around.l2 * samples * w, samples, place)
        shrink = (
            around.l1 * samples * (rule.rate if not is_per_update(rule) else rule.rate / NOMINAL)
        )
        parameters[name] = np.sign(w) * np.maximum(np.abs(w) - shrink, 0) if shrink else w


def is_per_update(rule: Plain) -> bool:
    return isinstance(rule, PlainAdam) and not rule.per_sample


CASES: Mapping[str, tuple[RatedLearner, Callable[[], Plain], Around]] = {
    "sgd": (
        gc.SGD(0.4, 0.9),
        lambda: PlainSGD(0.1, momentum_per_sample=0.9**0.25),
        Around(),
    ),
    "adagrad": (gc.AdaGrad(0.4), lambda: PlainAdaGrad(0.1), Around()),
    "adagrad, not normalised": (
        gc.AdaGrad(learning_rate_per_sample=0.1, normalise=False),
        lambda: PlainAdaGrad(0.1, normalise=False),
        Around(),
    ),
    "rmsprop": (gc.RmsProp(0.4), lambda: PlainRmsProp(0.1), Around()),
    "rmsprop, other numbers": (
        gc.RmsProp(0.4, gamma=0.7, grow=1.5, shrink=0.5, least=0.05, most=0.12, normalise=False),
        lambda: PlainRmsProp(
            0.1, normalise=False, gamma=0.7, inc=1.5, dec=0.5, low=0.05, high=0.12
        ),
        Around(),
    ),
    "adam": (gc.Adam(0.1), lambda: PlainAdam(0.1), Around()),
    "adam, other numbers": (
        gc.Adam(learning_rate_per_sample=0.03, beta1=0.5, beta2=0.75, epsilon=0.01),
        lambda: PlainAdam(0.03, beta1=0.5, beta2=0.75, epsilon=0.01, per_sample=True),
        Around(),
    ),
    "adamw": (gc.AdamW(0.1, decay=0.3), lambda: PlainAdam(0.1, decay=0.3), Around()),
    "clipped elements": (
        gc.SGD(0.4, clip=gc.ClipElements(0.3)),
        lambda: PlainSGD(0.1),
        Around(elements=0.3),
    ),
    "clipped norm": (
        gc.SGD(0.4, 0.5, clip=gc.ClipNorm(0.4)),
        lambda: PlainSGD(0.1, momentum_per_sample=0.5**0.25),
        Around(norm=0.4),
    ),
    "clipped global norm": (
        gc.SGD(0.4, clip=gc.ClipGlobalNorm(0.5)),
        lambda: PlainSGD(0.1),
        Around(all_norm=0.5),
    ),
    "l1": (gc.SGD(0.4, l1=0.2), lambda: PlainSGD(0.1), Around(l1=0.2)),
    "l1, l2 and clipping": (
        gc.AdaGrad(0.4, l1=0.1, l2=0.3, clip=gc.ClipNorm(0.6)),
        lambda: PlainAdaGrad(0.1),
        Around(l1=0.1, l2=0.3, norm=0.6),
    ),
    "adam with all": (
        gc.Adam(0.1, l1=0.5, l2=0.3, clip=gc.ClipGlobalNorm(0.6)),
        lambda: PlainAdam(0.1),
        Around(l1=0.5, l2=0.3, all_norm=0.6),
    ),
}


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_several_updates_are_those_of_the_formulas(name: str, backend: str, precision: str) -> None:
    compare_updates(name, backend, precision)


@pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
@pytest.mark.parametrize("name", CASES)
def test_and_in_c(name: str) -> None:
    compare_updates(name, "c", "f32")


def compare_updates(name: str, backend: str, precision: str) -> None:
    learner, make_rule, around = CASES[name]
    net = gc.loads(SUMS)
    step = gc.compile_training(
        net, learner=learner, batch=NOMINAL, backend=backend, precision=precision
    )
    wanted = {n: np.array(v, np.float64) for n, v in net.parameters.items()}
    rule = make_rule()
    close = {"f32": 2e-5, "f64": 1e-11}[precision]
    for place, data in enumerate(minibatches()):
        step(**data)
        gradients = {"W": data["x"].sum(axis=0)[None], "V": data["y"].sum(axis=0)[None]}
        numpy_step(rule, around, wanted, gradients, place, len(data["x"]))
        for n, value in net.parameters.items():
            np.testing.assert_allclose(value, wanted[n], rtol=close, atol=close, err_msg=n)


@pytest.mark.parametrize("backend", BACKENDS)
def test_samples_of_sequences_are_their_steps_without_gaps(backend: str) -> None:
    learner = gc.Adam(
        learning_rate_per_sample=0.02, l2=0.3, l1=0.2, clip=gc.ClipElements(0.4), epsilon=0.1
    )
    rule, around = PlainAdam(0.02, epsilon=0.1, per_sample=True), Around(0.4, l2=0.3, l1=0.2)
    net = gc.loads(SUMS)
    step = gc.compile_training(
        net, learner=learner, time=5, sequences=3, backend=backend, precision="f64"
    )
    wanted = {n: np.array(v, np.float64) for n, v in net.parameters.items()}
    for place, lengths in enumerate([(5, 1, 3), (2, 2), (4, 5, 1)]):
        rng = np.random.default_rng(place)
        data = {n: [rng.standard_normal((t, r)) for t in lengths] for n, r in (("x", 6), ("y", 1))}
        step(**data)
        whole = {n: np.concatenate(arrays) for n, arrays in data.items()}
        gradients = {"W": whole["x"].sum(axis=0)[None], "V": whole["y"].sum(axis=0)[None]}
        numpy_step(rule, around, wanted, gradients, place, sum(lengths))
        for n, value in net.parameters.items():
            np.testing.assert_allclose(value, wanted[n], rtol=1e-11, atol=1e-11)


def test_the_thresholds_of_the_cases_are_met_and_missed() -> None:
    """Otherwise the cases above would say nothing about clipping."""
    norms = [np.linalg.norm(d["x"].sum(axis=0)) / len(d["x"]) for d in minibatches()]
    assert min(norms) < 0.6 < max(norms) or min(norms) > 0.6
    elements = np.abs(np.concatenate([d["x"].sum(axis=0) / len(d["x"]) for d in minibatches()]))
    assert (elements < 0.3).any() and (elements > 0.3).any()


# --- whole epochs in native code ---

LEARNERS: Mapping[str, RatedLearner] = {
    name: learner for name, (learner, _, _) in CASES.items()
} | {
    "warm-up and cosine": gc.SGD(gc.Warmup(3, gc.Cosine(0.5, 6, 0.1)), 0.5),
    "adam along steps": gc.Adam(gc.StepDecay(0.1, 3, 0.5)),
    "noise": gc.SGD(0.1, noise=0.3),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_native_epoch_is_the_single_calls_bit_for_bit(name: str) -> None:
    rng = np.random.default_rng(1)
    data = {"x": rng.random((23, 6)).astype(np.float32), "y": rng.random((23, 1)).astype("f4")}
    nets = [gc.loads(SUMS) for _ in range(2)]
    whole, single = (
        gc.compile_training(n, learner=LEARNERS[name], batch=NOMINAL, seed=3) for n in nets
    )
    for _ in range(2):
        whole.run_epoch(data)
        for start in range(0, 23, NOMINAL):
            single(**{n: a[start : start + NOMINAL] for n, a in data.items()})
    for n, value in nets[0].parameters.items():
        assert value.tobytes() == nets[1].parameters[n].tobytes(), n
    assert not np.array_equal(nets[0].parameters["W"], gc.loads(SUMS).parameters["W"])


# --- noise ---

FLAT = """
    x = Input(60)
    y = Input(60)
    W = Parameter(1, 60, init=fixedValue, value=0)
    V = Parameter(1, 60, init=fixedValue, value=0)
    e = SumElements(Plus(Times(W, x), Times(V, y)), tag=criteria)
"""
NO_SLOPE = {"x": np.zeros((2, 60)), "y": np.zeros((2, 60))}


def drawn(seed: int = 5, steps: int = 60, **options: str) -> list[Array]:
    """What noise alone makes of the parameters, step by step: [steps, 2, 60]."""
    net = gc.loads(FLAT)
    given = {"backend": "numpy", "precision": "f64"} | options
    learner = gc.SGD(0.0, noise=0.5)
    step = gc.compile_training(net, learner=learner, batch=2, seed=seed, **given)  # type: ignore[arg-type]
    found: list[Array] = []
    for _ in range(steps):
        step(**NO_SLOPE)
        found.append(np.stack([net.parameters["W"][0], net.parameters["V"][0]]))
    return found


def test_noise_is_normal_and_of_its_own_at_every_step_and_parameter() -> None:
    path = np.array(drawn())
    noise = np.diff(path, axis=0, prepend=0) / 0.5
    count = noise.size
    assert abs(noise.mean()) < 4 / math.sqrt(count)
    assert abs(noise.var() - 1) < 4 * math.sqrt(2 / count)
    assert abs((noise**4).mean() - 3) < 4 * math.sqrt(96 / count)
    for a, b in (
        (noise[:-1], noise[1:]),  # steps
        (noise[:, 0], noise[:, 1]),  # parameters
        (noise[:, :, :-1], noise[:, :, 1:]),  # elements
    ):
        assert abs((a * b).mean()) < 4 / math.sqrt(a.size)
    assert len(np.unique(noise)) == count


def test_noise_is_the_same_on_all_backends_and_follows_the_seed() -> None:
    wanted = drawn(steps=3)[-1]
    for backend in BACKENDS:
        for precision, close in (("f64", 1e-12), ("f32", 1e-5)):
            found = drawn(steps=3, backend=backend, precision=precision)[-1]
            np.testing.assert_allclose(found, wanted, rtol=close, atol=close)
    assert not np.allclose(drawn(seed=6, steps=3)[-1], wanted)


def test_noise_goes_on_where_another_step_stopped() -> None:
    wanted = drawn(steps=3)
    net = gc.loads(FLAT)
    step = gc.compile_training(
        net, learner=gc.SGD(0.0, noise=0.5), batch=2, seed=5, backend="numpy", precision="f64"
    )
    step.steps = 2
    step(**NO_SLOPE)
    np.testing.assert_allclose(net.parameters["W"][0], (wanted[2] - wanted[1])[0], atol=1e-15)


# --- numbers that change ---


def test_every_number_may_change_by_epoch_in_one_compiled_step() -> None:
    learner = gc.AdamW(
        "0.1:0.05",
        beta1="0.9:0.5",
        beta2="0.99:0.9",
        epsilon="1e-8:0.1",
        decay="0:0.5",
        l1="0:0.2",
        l2="0.5:0",
        clip=gc.ClipNorm("0.5:2"),
    )
    assert learner.changes() == [0, 1]
    assert learner.at(1) == gc.AdamW(
        0.05, beta1=0.5, beta2=0.9, epsilon=0.1, decay=0.5, l1=0.2, l2=0.0, clip=gc.ClipNorm(2.0)
    )
    trained, stepped = gc.loads(SUMS), gc.loads(SUMS)
    rng = np.random.default_rng(3)
    data = {"x": rng.random((8, 6)), "y": rng.random((8, 1))}
    given = {"backend": "numpy", "precision": "f64"}
    gc.train(
        trained,
        data,
        epochs=2,
        minibatch=4,
        learner=learner,
        shuffle=False,
        **given,  # type: ignore[arg-type]
    )
    step = gc.compile_training(stepped, learner=learner, batch=4, **given)  # type: ignore[arg-type]
    for epoch in range(2):
        step.learner = learner.at(epoch)
        for part in (slice(0, 4), slice(4, 8)):
            step(x=data["x"][part], y=data["y"][part])
    np.testing.assert_array_equal(trained.parameters["W"], stepped.parameters["W"])


@pytest.mark.parametrize(
    "other",
    [
        gc.SGD(1.0),
        gc.Adam(1.0, l1=0.1),
        gc.Adam(1.0, clip=gc.ClipElements(1)),
        gc.Adam(1.0, noise=0.1),
    ],
)
def test_what_is_compiled_in_cannot_be_replaced(other: RatedLearner) -> None:
    step = gc.compile_training(
        gc.loads(SUMS), learner=gc.Adam(1.0, l2=0.1, clip=gc.ClipNorm(1)), backend="numpy"
    )
    with pytest.raises(gc.GraphcError, match=r"the step was compiled (for|with)"):
        step.learner = other
    step.learner = gc.Adam(0.5)  # without the terms: they change nothing


def test_a_learner_without_terms_takes_no_numbers_for_them() -> None:
    step = gc.compile_training(gc.loads(SUMS), learner=gc.SGD(1.0), backend="numpy")
    taken = [a.name for a in step.signature.with_role("hyperparameter")]
    assert taken == ["learning_rate", "momentum"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gc.AdaGrad(),
        lambda: gc.AdaGrad(0.1, learning_rate_per_sample=0.1),
        lambda: gc.Adam(0.1, beta1=1.0),
        lambda: gc.Adam(0.1, beta2="0.9:1"),
        lambda: gc.Adam(0.1, epsilon=0.0),
        lambda: gc.AdamW(0.1, decay=-1.0),
        lambda: gc.RmsProp(0.1, gamma=1.0),
        lambda: gc.RmsProp(0.1, least=0.0),
        lambda: gc.RmsProp(0.1, shrink=math.inf),
        lambda: gc.SGD(0.1, l1=-0.1),
        lambda: gc.SGD(0.1, noise=math.nan),
        lambda: gc.ClipNorm(0.0),
        lambda: gc.ClipElements("1:-1"),
        lambda: gc.ClipGlobalNorm(math.inf),
        lambda: gc.Cosine(0.1, 0),
        lambda: gc.Cosine(-0.1, 10),
        lambda: gc.StepDecay(0.1, 10, 2.0),
        lambda: gc.Warmup(0, 0.1),
        lambda: gc.Warmup(10, math.nan),
    ],
)
def test_numbers_out_of_range_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(gc.GraphcError) as raised:
        make()
    assert [d.slug for d in raised.value.diagnostics] == ["bad-value"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: gc.SGD(0.1, clip=0.5),  # type: ignore[arg-type]
        lambda: gc.AdaGrad(0.1, normalise="no"),  # type: ignore[arg-type]
        lambda: gc.Adam(0.1, lazy="yes"),  # type: ignore[arg-type]
    ],
)
def test_other_kinds_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(gc.GraphcError) as raised:
        make()
    assert [d.slug for d in raised.value.diagnostics] == ["argument-type"]


# --- tables that are looked up in ---

TABLE = """
    words = SparseInput(9)
    t = Input(2)
    D = Parameter(2, 9)
    e = SumElements(ElementTimes(t, Times(D, words)), tag=criteria)
"""


def looked_up(seed: int) -> tuple[tuple[list[int], list[int]], Array, Array]:
    """Words of three samples, what they meet, and the gradient of the table."""
    rng = np.random.default_rng(seed)
    words, t = rng.integers(0, 9, 3), rng.integers(-8, 9, (3, 2)) / 8
    gradient = np.zeros((2, 9))
    for word, row in zip(words, t, strict=True):
        gradient[:, word] += row
    return (words.tolist(), [0, 1, 2, 3]), t, gradient


def table_step(learner: RatedLearner, backend: str) -> tuple[gc.Network, TrainingStep]:
    net = gc.loads(TABLE)
    assert isinstance(net, gc.Network)
    step = gc.compile_training(net, learner=learner, batch=3, backend=backend, precision="f64")
    return net, step


def move_looked_up(rule: Plain, w: Array, g: Array, words: Sequence[int], place: int) -> None:
    """The rule on each column that is looked up, alone."""
    for word in sorted(set(words)):
        w[:, word] = rule(f"column {word}", w[:, word], g[:, word], 3, place)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("learner", "make_rule"),
    [
        (gc.AdaGrad(0.3, normalise=False), lambda: PlainAdaGrad(0.1, normalise=False)),
        (gc.RmsProp(0.3, normalise=False), lambda: PlainRmsProp(0.1, normalise=False)),
        (gc.Adam(0.1, lazy=True), lambda: PlainAdam(0.1)),
        (gc.AdamW(0.1, lazy=True, decay=0.2), lambda: PlainAdam(0.1, decay=0.2)),
    ],
    ids=["adagrad", "rmsprop", "adam", "adamw"],
)
def test_lazy_rules_move_what_is_looked_up(
    learner: RatedLearner, make_rule: Callable[[], Plain], backend: str
) -> None:
    net, step = table_step(learner, backend)
    wanted, rule = np.array(net.parameters["D"]), make_rule()
    for place in range(6):
        words, t, gradient = looked_up(place)
        step(words=words, t=t)
        move_looked_up(rule, wanted, gradient, words[0], place)
        np.testing.assert_allclose(net.parameters["D"], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_elements_of_looked_up_gradients_are_clipped_too(backend: str) -> None:
    net, step = table_step(gc.SGD(0.3, clip=gc.ClipElements(0.1)), backend)
    wanted = np.array(net.parameters["D"])
    for place in range(4):
        words, t, gradient = looked_up(place)
        step(words=words, t=t)
        wanted -= 0.1 * np.clip(gradient, -0.3, 0.3)
    np.testing.assert_allclose(net.parameters["D"], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("learner", "make_rule"),
    [
        (gc.AdaGrad(0.3), lambda: PlainAdaGrad(0.1)),
        (gc.RmsProp(0.3), lambda: PlainRmsProp(0.1)),
        (gc.Adam(0.1), lambda: PlainAdam(0.1)),
    ],
    ids=["adagrad", "rmsprop", "adam"],
)
def test_other_rules_move_the_whole_table(
    learner: RatedLearner, make_rule: Callable[[], Plain]
) -> None:
    net, step = table_step(learner, "llvm")
    wanted, rule = np.array(net.parameters["D"]), make_rule()
    for place in range(6):
        words, t, gradient = looked_up(place)
        step(words=words, t=t)
        wanted = rule("D", wanted, gradient, 3, place)
    np.testing.assert_allclose(net.parameters["D"], wanted, rtol=1e-10, atol=1e-10)


# --- functions of arrays ---


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (2, 3, 2), ()])
@pytest.mark.parametrize("name", CASES)
def test_minimize_uses_the_same_rules(name: str, shape: tuple[int, ...]) -> None:
    learner, make_rule, around = CASES[name]
    if not isinstance(make_rule(), PlainAdam) and learner.learning_rate is not None:
        learner = learner.with_rate_per_sample(0.1)
    rule = make_rule()
    if isinstance(rule, PlainSGD):
        rule = replace(rule, momentum_per_sample=getattr(learner, "momentum", 0) or 0.0)
    if is_per_update(rule):  # a call is a whole minibatch of one sample
        around = replace(around, l1=around.l1 * NOMINAL)
    slope = np.random.default_rng(2).integers(-8, 9, shape) / 4
    start = {"a": np.random.default_rng(3).random(shape), "b": np.ones((2, 1))}
    wanted = {n: np.array(v) for n, v in start.items()}

    @gc.function(precision="f64", backend="numpy")
    def f(x: dict[str, Array], slope: Array) -> object:
        return gc.sum(x["a"] * slope) + 0.5 * gc.sum(x["b"])

    found = gc.minimize(f, start, learner=learner, steps=5, arguments=[np.asarray(slope)])
    for place in range(5):
        numpy_step(rule, around, wanted, {"a": slope, "b": np.full((2, 1), 0.5)}, place, 1)
    for n, value in found.x.items():
        np.testing.assert_allclose(value, wanted[n], rtol=1e-10, atol=1e-10)


def test_minimize_leaves_masked_elements_whatever_the_rule_does_to_them() -> None:
    @gc.function(precision="f64", backend="numpy")
    def f(x: Array) -> object:
        return gc.sum(x * x)

    mask = np.array([True, False, True])
    learner = gc.AdamW(0.1, decay=0.5, l1=0.1)
    found = gc.minimize(f, np.ones(3), learner=learner, steps=3, mask=mask)
    assert found.x[1] == 1.0
    assert (found.x[[0, 2]] < 1.0).all()


def test_minimize_takes_no_noise() -> None:
    with pytest.raises(gc.GraphcError, match="noise is for the parameters of networks"):
        gc.minimize(lambda x: gc.sum(x * x), np.ones(3), learner=gc.SGD(0.1, noise=0.1))


# --- what is no number ---


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("clip", [gc.ClipElements(1), gc.ClipNorm(1), gc.ClipGlobalNorm(1)])
def test_clipping_hides_no_gradient_that_is_no_number(clip: Clip, backend: str) -> None:
    net = gc.loads(SUMS)
    step = gc.compile_training(
        net, learner=gc.Adam(0.1, clip=clip, l1=0.1), batch=NOMINAL, backend=backend
    )
    x = np.zeros((1, 6))
    x[0, 2] = np.nan
    step(x=x, y=np.ones((1, 1)))
    assert np.isnan(net.parameters["W"][0, 2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_infinite_gradient_is_cut_off_by_elements(backend: str) -> None:
    net = gc.loads(SUMS)
    before = net.parameters["W"].copy()
    learner = gc.SGD(learning_rate_per_sample=0.5, clip=gc.ClipElements(2))
    step = gc.compile_training(net, learner=learner, batch=NOMINAL, backend=backend)
    step(x=np.full((1, 6), -np.inf), y=np.ones((1, 1)))
    np.testing.assert_allclose(net.parameters["W"], before + 1.0, rtol=1e-6)
