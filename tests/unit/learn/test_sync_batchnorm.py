"""BatchNormalization over the samples of all members: as one member with the whole minibatch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.learn.step import TrainingStep
from graphc.support.diagnostics import fail
from tests.support.compiling import require_backend
from tests.unit.learn.test_members_training import MOMENTUM, network, together

Array = np.ndarray
Found = tuple[list[float], dict[str, Array]]
NATIVE = pytest.mark.parametrize("backend", ["numpy", "llvm"])
RNG = np.random.default_rng(11)


LARGE = "init=uniform, initValueScale=20"


def normalised(x: str, channels: int, number: int, options: str) -> str:
    """A node `nNUMBER` with parameters of its own."""
    names = [f"{letter}{number}" for letter in "somv"]
    kinds = [LARGE, LARGE, f"needGradient=false, {LARGE}", f"needGradient=false, {LARGE}"]
    lines = [
        f"{name} = Parameter({channels}, 1, {kind})"
        for name, kind in zip(names, kinds, strict=True)
    ]
    call = f"n{number} = BatchNormalization({x}, {', '.join(names)}, {options})"
    return "\n    ".join([*lines, call])


DENSE = f"""
    x = Input(5)
    t = Input(3)
    W = Parameter(4, 5, {LARGE})
    a = Times(W, x)
    {normalised("a", 4, 0, "normalizationTimeConstant=20")}
    U = Parameter(6, 4, {LARGE})
    h = Times(U, Tanh(n0))
    {normalised("h", 6, 1, "expAvgFactor=0.25, epsilon=0.01")}
    V = Parameter(3, 6, {LARGE})
    e = SquareError(t, Times(V, Dropout(Tanh(n1))), tag=criteria)
    s = SumElements(n1, tag=eval)
"""
IMAGES = f"""
    x = ImageInput(5, 4, 2)
    t = Input(3)
    K = Parameter(3, 18, {LARGE})
    c = Convolution(K, x, 3, 3, 3, 1, 1)
    {normalised("c", 3, 0, "spatial=true")}
    V = Parameter(3, 18, {LARGE})
    e = SquareError(t, Times(V, RectifiedLinear(n0)), tag=criteria)
"""
LOOP = f"""
    x = Input(3)
    t = Input(2)
    {normalised("x", 3, 0, "normalizationTimeConstant=20")}
    W = Parameter(2, 3, {LARGE})
    R = Parameter(2, 2, {LARGE})
    h = Tanh(Plus(Times(W, n0), Times(R, PastValue(2, 1, h))))
    {normalised("h", 2, 1, "expAvgFactor=0.5")}
    e = SquareError(t, n1, tag=criteria)
"""
ROWS = {"x": 3 + RNG.standard_normal((23, 5)), "t": RNG.standard_normal((23, 3))}
PIXELS = {"x": RNG.standard_normal((13, 40)), "t": RNG.standard_normal((13, 3))}
LENGTHS = (4, 1, 3, 7, 2, 4, 3)
STEPS = {
    "x": [RNG.standard_normal((n, 3)) for n in LENGTHS],
    "t": [RNG.standard_normal((n, 2)) for n in LENGTHS],
}
LONG = {
    name: [RNG.standard_normal((n, rows)) for n in (37, 3, 2, 5, 9, 4, 1, 2, 6, 28)]
    for name, rows in (("x", 3), ("t", 2))
}
TRAININGS: dict[str, tuple[str, dict[str, Any], int]] = {
    "dense": (DENSE, ROWS, 7),
    "images": (IMAGES, PIXELS, 5),
    "sequences": (LOOP, STEPS, 3),
}
OTHERS = {"long": (LOOP, LONG, 8)}


def train(what: str, member: gc.comm.Communicator | None, backend: str, **options: Any) -> Found:
    """The criterion of each epoch, and the parameters in the end."""
    text, data, minibatch = (TRAININGS | OTHERS)[what]
    net = network(text)
    given: dict[str, Any] = {"precision": "f64", "epochs": 2, "dropout": 0.25, **options}
    records = gc.train(
        net,
        data,
        learner=MOMENTUM,
        minibatch=minibatch,
        backend=backend,
        threads=1,
        comm=member,
        sync_batchnorm=member is not None and given.pop("sync", True),
        **given,
    )
    return [r.criterion for r in records], dict(net.parameters)


def require_close(found: Sequence[Found], expected: Found, tolerance: float) -> None:
    """All of `found` have the same bits, and those of `expected` nearly."""
    for criteria, parameters in found:
        assert criteria == found[0][0]
        np.testing.assert_allclose(criteria, expected[0], tolerance)
        for name, value in expected[1].items():
            assert np.isfinite(value).all()
            np.testing.assert_allclose(parameters[name], value, tolerance, tolerance)
            assert np.array_equal(parameters[name], found[0][1][name])


@pytest.mark.parametrize(
    ("what", "members", "backend"),
    [
        *((what, 3, backend) for what in TRAININGS for backend in ("reference", "numpy", "llvm")),
        ("dense", 2, "llvm"),
        ("dense", 2, "cuda"),
        ("images", 2, "c"),
        ("sequences", 2, "c"),
    ],
)
def test_members_normalise_as_one_with_the_whole_minibatch(
    what: str, members: int, backend: str
) -> None:
    """The last minibatch has 2 samples, 3 or one sequence: of three members some have none."""
    require_backend(backend)
    alone = train(what, None, backend)
    require_close(together(members, lambda _, m: train(what, m, backend)), alone, 1e-12)
    ((other, _), *_) = together(members, lambda _, m: train(what, m, "numpy", sync=False))
    assert not np.allclose(other, alone[0], 1e-3)


@pytest.mark.parametrize(
    ("what", "members", "backend"),
    [
        *((what, 2, backend) for what in TRAININGS for backend in ("numpy", "llvm")),
        *((what, 3, "llvm") for what in TRAININGS),
        ("dense", 2, "reference"),
        ("images", 2, "c"),
        ("dense", 2, "cuda"),
    ],
)
def test_in_f32_too(what: str, members: int, backend: str) -> None:
    require_backend(backend)
    alone = train(what, None, backend, precision="f32")
    found = together(members, lambda _, m: train(what, m, backend, precision="f32"))
    require_close(found, alone, 2e-5)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("members", [2, 4])
def test_sequences_dealt_by_length(members: int, backend: str) -> None:
    """Who has one long sequence normalises by the short ones of the others, too."""
    require_backend(backend)
    alone = train("long", None, backend)
    require_close(together(members, lambda _, m: train("long", m, backend)), alone, 1e-12)


@pytest.mark.parametrize(("precision", "tolerance"), [("f64", 1e-12), ("f32", 2e-5)])
def test_truncated_sequences(precision: str, tolerance: float) -> None:
    """In the last calls of a minibatch some have columns, and no step of a sequence in them."""
    options = {"truncate": 2, "precision": precision}
    alone = train("sequences", None, "llvm", **options)
    found = together(2, lambda _, m: train("sequences", m, "llvm", **options))
    require_close(found, alone, tolerance)


@pytest.mark.parametrize(
    ("what", "backend"), [*((what, "llvm") for what in TRAININGS), ("dense", "numpy")]
)
def test_shards_have_the_bits_of_any_number_of_members(what: str, backend: str) -> None:
    """In f32, where another order of sums shows; 4 shards of minibatches that end with fewer."""
    require_backend(backend)
    exact = train(what, None, backend)
    alone = train(what, gc.comm.alone(shards=4), backend, precision="f32")
    np.testing.assert_allclose(alone[0], exact[0], 2e-5)
    for members in (2, 4):
        for found in together(members, lambda _, m: train(what, m, backend, precision="f32"), 4):
            assert found[0] == alone[0]
            for name, value in alone[1].items():
                assert np.array_equal(found[1][name], value)


@pytest.mark.parametrize(
    ("wire", "backend"), [("bf16", "reference"), ("bf16", "llvm"), ("1bit", "numpy")]
)
def test_statistics_travel_whole_where_gradients_do_not(wire: str, backend: str) -> None:
    """At a rate of 0 running values are all that a training changes."""
    require_backend(backend)

    def run(member: gc.comm.Communicator | None, rate: float) -> Found:
        net = network(DENSE)
        step = gc.compile_training(
            net,
            learner=gc.SGD(rate),
            batch=8,
            backend=backend,
            precision="f64",
            comm=member,
            sync_batchnorm=member is not None,
        )
        rank, size = (0, 1) if member is None else (member.rank, member.size)
        some = {name: array[rank:8:size] for name, array in ROWS.items()}
        step.nominal = 8
        return [float(step(**some)["e"]) for _ in range(3)], dict(net.parameters)

    still = together(2, lambda _, m: run(m, 0.0), wire=wire)
    require_close(still, run(None, 0.0), 1e-12)
    moved = together(2, lambda _, m: run(m, 0.01), wire=wire)
    require_close(moved, moved[0], 1e-12)
    assert not np.array_equal(moved[0][1]["W"], run(None, 0.01)[1]["W"])


@NATIVE
def test_a_training_goes_on_from_a_checkpoint_with_the_same_bits(
    backend: str, tmp_path: Path
) -> None:
    def run(member: gc.comm.Communicator, epochs: int, name: str) -> Found:
        checkpoints = gc.Checkpoints(tmp_path / name, resume=True)
        return train("dense", member, backend, epochs=epochs, checkpoints=checkpoints)

    whole = together(2, lambda _, m: run(m, 3, "whole"))
    together(2, lambda _, m: run(m, 2, "parts"))
    for (criteria, parameters), expected in zip(
        together(2, lambda _, m: run(m, 3, "parts")), whole, strict=True
    ):
        assert criteria[-1] == expected[0][-1]
        for name, value in expected[1].items():
            assert np.array_equal(parameters[name], value)


@NATIVE
@pytest.mark.parametrize(
    ("precision", "mean", "tolerance"), [("f64", 1e8, 1e-7), ("f32", 1e4, 1e-3), ("f32", 0, 1e-6)]
)
def test_a_mean_far_from_zero_costs_no_digits_of_the_variance(
    precision: str, mean: float, tolerance: float, backend: str
) -> None:
    """Sums of squares would have none left, with a deviation of 1: of f32 a mean of 10^4 rounds
    each number by up to 5e-4."""
    require_backend(backend)
    text = f"""
        x = Input(2)
        {normalised("x", 2, 0, "epsilon=0")}
        e = SumElements(n0, tag=criteria)
    """
    x = mean + RNG.standard_normal((9, 2))

    def run(_: int, member: gc.comm.Communicator) -> Array:
        net = network(text)
        step = gc.compile_training(
            net,
            learner=gc.SGD(0.0),
            batch=9,
            backend=backend,
            precision=precision,
            comm=member,
            sync_batchnorm=True,
        )
        step(x=x[member.rank :: member.size])
        return net.parameters["v0"]

    for inverse in together(2, run):
        np.testing.assert_allclose(inverse[:, 0], 1 / x.std(0), tolerance)


@NATIVE
def test_equal_numbers_have_no_variance_below_zero(backend: str) -> None:
    """The difference of two sums may round to less than 0, whose root is no number."""
    require_backend(backend)
    text = f"""
        x = Input(64)
        {normalised("x", 64, 0, "epsilon=1e-12")}
        e = SumElements(n0, tag=criteria)
    """
    x = np.repeat(1e4 * RNG.standard_normal((1, 64)), 1001, axis=0)

    def run(_: int, member: gc.comm.Communicator) -> Array:
        net = network(text)
        step = gc.compile_training(
            net, learner=gc.SGD(0.0), batch=1001, backend=backend, comm=member, sync_batchnorm=True
        )
        step(x=x[member.rank :: member.size])
        return net.parameters["v0"]

    for inverse in together(3, run):
        assert np.isfinite(inverse).all()


@NATIVE
@pytest.mark.parametrize("cuts", [(0, 0, 8), (0, 5, 8)])
def test_members_that_split_a_layer_may_normalise_by_all(backend: str, cuts: Sequence[int]) -> None:
    require_backend(backend)

    def run(member: gc.comm.Communicator | None) -> Found:
        net, is_alone = network(DENSE), member is None
        step = gc.compile_training(
            net,
            learner=MOMENTUM,
            batch=8,
            backend=backend,
            precision="f64",
            comm=member,
            sync_batchnorm=not is_alone,
            split=() if is_alone else "V",
        )
        step.nominal = 8
        some = slice(0, 8) if member is None else slice(*cuts[member.rank : member.rank + 2])
        given = {name: array[some] for name, array in ROWS.items()}
        criteria = [float(step(**given)["e"]) for _ in range(3)]
        step.gather()
        return criteria, dict(net.parameters)

    require_close(together(2, lambda _, m: run(m)), run(None), 1e-12)


def test_one_member_or_a_network_without_the_node_need_nothing() -> None:
    alone = train("dense", None, "numpy")
    require_close([train("dense", gc.comm.alone(), "numpy")], alone, 1e-15)
    plain = "x = Input(5)\nW = Parameter(3, 5)\ne = SumElements(Times(W, x), tag=criteria)"

    def run(member: gc.comm.Communicator | None) -> Array:
        net = network(plain)
        step = gc.compile_training(
            net, learner=gc.SGD(0.1), comm=member, sync_batchnorm=member is not None
        )
        step(x=ROWS["x"])
        return net.parameters["W"]

    for found in together(2, lambda _, m: run(m)):
        assert found.shape == (3, 5)


class Twin:
    """One of two members with the same data; the sum of this number, of floats, fails."""

    rank, size = 0, 2

    def __init__(self, failing: int = -1) -> None:
        self.failing, self.sums = failing, 0

    def all_reduce(self, array: Array) -> None:
        if array.dtype.kind == "f":
            self.sums += 1
            if self.sums - 1 == self.failing:
                raise fail("training", f"sum {self.failing} is not there")
        array *= 2


def twins(
    net: gc.Network, backend: str, member: Twin, *, sync: bool = True, precision: str = "f32"
) -> TrainingStep:
    return gc.compile_training(
        net,
        learner=MOMENTUM,
        batch=8,
        backend=backend,
        precision=precision,
        comm=member,
        sync_batchnorm=sync,
    )


BRANCHES = f"""
    x = Input(5)
    t = Input(3)
    W = Parameter(4, 5, {LARGE})
    U = Parameter(4, 5, {LARGE})
    a = Times(W, x)
    {normalised("a", 4, 0, "expAvgFactor=0.5")}
    h = Times(U, x)
    {normalised("h", 4, 1, "expAvgFactor=0.5")}
    V = Parameter(3, 4, {LARGE})
    e = SquareError(t, Times(V, Plus(Tanh(n0), Tanh(n1))), tag=criteria)
"""


@pytest.mark.parametrize("backend", ["numpy", "llvm", "reference"])
@pytest.mark.parametrize(
    ("text", "precision", "nodes"),
    [(DENSE, "f32", 2 * 2), (DENSE, "f64", 2 * 3), (BRANCHES, "f32", 2), (BRANCHES, "f64", 3)],
)
def test_how_often_members_meet(text: str, precision: str, nodes: int, backend: str) -> None:
    """Of two with parameters before them, one behind the other or side by side."""
    require_backend(backend)
    some = {name: array[:8] for name, array in ROWS.items()}
    for sync, sums in ((False, 1), (True, 1 + nodes)):
        member = Twin()
        twins(network(text), backend, member, sync=sync, precision=precision)(**some)
        assert member.sums == sums


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm", "c", "cuda"])
@pytest.mark.parametrize("failing", [0, 3, 4])
def test_an_error_of_any_sum_is_that_of_the_call(backend: str, failing: int) -> None:
    """Nothing is updated, running values neither, and the next call is not of another mind."""
    require_backend(backend)
    some = {name: array[:8] for name, array in ROWS.items()}
    net, member = network(DENSE), Twin(failing)
    step = twins(net, backend, member)
    before = {name: array.copy() for name, array in net.parameters.items()}
    with pytest.raises(gc.GraphcError, match=f"sum {failing} is not there"):
        step(**some)
    for name, array in before.items():
        assert np.array_equal(net.parameters[name], array)
    assert np.isfinite(float(step(**some)["e"]))
    assert member.sums == failing + 1 + 5


# --- programs ------------------------------------------------------------------------------------

DRAWN = {
    "W": RNG.standard_normal((4, 5)),
    "V": RNG.standard_normal((15, 2)),
    "scale": 1 + RNG.random(5),
    "bias": RNG.random(5),
    "mean": RNG.standard_normal(5),
    "variance": 1 + RNG.random(5),
}
GIVEN = {"x": 2 + RNG.standard_normal((11, 3, 4)), "labels": RNG.standard_normal((11, 2))}


def rows(x: Any, W: Any, V: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    """Statistics over an axis of three rows for each sample, twice."""
    h = gc.reshape(x, (x.shape[0] * 3, 4)) @ W
    h = gc.tanh(gc.batch_normalization(h, scale, bias, mean, variance, momentum=0.75))
    return gc.dropout(gc.reshape(h, (x.shape[0], 15)), 0.25) @ V


def channels(x: Any, W: Any, V: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    """Channels in the middle: [N, 5, 3]."""
    h = gc.transpose(x @ W, (0, 2, 1))
    h = gc.batch_normalization(h, scale, bias, mean, variance, axis=1, momentum=0.5)
    return gc.reshape(gc.tanh(h), (x.shape[0], 15)) @ V


def program(rule: Any, samples: str = "N", dtype: str = "f64") -> gc.Program:
    bounds = {"N": 11} if samples == "N" else {}
    drawn = {name: value.astype(dtype.replace("f", "float")) for name, value in DRAWN.items()}
    return gc.program(rule, {"x": f"{samples}x3x4x{dtype}"}, parameters=drawn, bounds=bounds)


@NATIVE
@pytest.mark.parametrize(("rule", "members"), [(rows, 2), (channels, 3)])
def test_programs(rule: Any, members: int, backend: str) -> None:
    require_backend(backend)

    def run(member: gc.comm.Communicator | None, *, sync: bool = True) -> Found:
        net = program(rule)
        records = gc.train(
            *(net, GIVEN),
            loss="squared_error",
            learner=gc.SGD(0.05, momentum=0.5),
            epochs=2,
            minibatch=5,
            backend=backend,
            threads=1,
            comm=member,
            sync_batchnorm=member is not None and sync,
        )
        return [r.criterion for r in records], dict(net.parameters)

    alone = run(None)
    require_close(together(members, lambda _, m: run(m)), alone, 1e-11)
    ((other, _), *_) = together(members, lambda _, m: run(m, sync=False))
    assert not np.allclose(other, alone[0], 1e-3)


def step_of(net: gc.Program, member: gc.comm.Communicator | None, backend: str) -> TrainingStep:
    step = gc.compile_training(
        net,
        loss="squared_error",
        learner=gc.SGD(0.05, momentum=0.5),
        backend=backend,
        comm=member,
        sync_batchnorm=member is not None,
    )
    step.nominal = 11
    return step


@pytest.mark.parametrize(
    ("backend", "cuts"),
    [
        *((backend, (0, 0, 1, 11)) for backend in ("reference", "numpy", "llvm")),
        *((backend, (0, 4, 11)) for backend in ("c", "cuda")),
    ],
)
def test_programs_by_members_with_other_numbers_of_samples(
    backend: str, cuts: Sequence[int]
) -> None:
    """One of three has none, whose mean is no number."""
    require_backend(backend)
    parts = [slice(a, b) for a, b in pairwise(cuts)]

    def run(member: gc.comm.Communicator | None) -> Found:
        net, some = program(channels), slice(None) if member is None else parts[member.rank]
        step = step_of(net, member, backend)
        given = {name: array[some] for name, array in GIVEN.items()}
        return [float(step(**given)["loss"]) for _ in range(3)], dict(net.parameters)

    require_close(together(len(parts), lambda _, m: run(m)), run(None), 1e-11)


@pytest.mark.parametrize(
    ("backend", "cuts"),
    [
        *((backend, (0, 0, 1, 11)) for backend in ("reference", "numpy", "llvm")),
        *((backend, (0, 4, 11)) for backend in ("c", "cuda")),
    ],
)
def test_programs_in_f32(backend: str, cuts: Sequence[int]) -> None:
    require_backend(backend)
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    given = {name: array.astype(np.float32) for name, array in GIVEN.items()}

    def run(member: gc.comm.Communicator | None) -> Found:
        some = slice(None) if member is None else parts[member.rank]
        net = program(channels, dtype="f32")
        step = step_of(net, member, backend)
        its = {name: array[some] for name, array in given.items()}
        return [float(step(**its)["loss"]) for _ in range(3)], dict(net.parameters)

    require_close(together(len(parts), lambda _, m: run(m)), run(None), 2e-5)


@pytest.mark.parametrize(("dtype", "sums"), [("f32", 1 + 2), ("f64", 1 + 3)])
def test_how_often_members_meet_for_programs(dtype: str, sums: int) -> None:
    member = Twin()
    step = step_of(program(channels, dtype=dtype), member, "numpy")
    step(**{name: array.astype(dtype.replace("f", "float")) for name, array in GIVEN.items()})
    assert member.sums == sums


@NATIVE
def test_programs_of_fixed_sizes(backend: str) -> None:
    """Two members with 4 samples each are one with 8."""
    require_backend(backend)

    def run(member: gc.comm.Communicator | None) -> Found:
        net = program(channels, "8" if member is None else "4")
        step = step_of(net, member, backend)
        some = slice(0, 8) if member is None else slice(member.rank, 8, 2)
        given = {name: array[some] for name, array in GIVEN.items()}
        return [float(step(**given)["loss"]) for _ in range(3)], dict(net.parameters)

    require_close(together(2, lambda _, m: run(m)), run(None), 1e-11)


@NATIVE
def test_a_statistic_of_parameters_is_that_of_one(backend: str) -> None:
    """Rows of weights are no samples: all members have them, whatever samples each has."""
    require_backend(backend)

    def rule(x: Any, W: Any, mean: Any, variance: Any) -> Any:
        return x @ gc.batch_normalization(W, 1.0, 0.0, mean, variance, momentum=0.5)

    def run(member: gc.comm.Communicator | None) -> Found:
        drawn = {name: DRAWN[name].copy() for name in ("W", "mean", "variance")}
        net = gc.program(rule, {"x": "Nx4xf64"}, parameters=drawn, bounds={"N": 11})
        step = step_of(net, member, backend)
        some = slice(None) if member is None else (slice(0, 2), slice(2, 11))[member.rank]
        given = {"x": GIVEN["x"][some, 0], "labels": np.ones((11, 5))[some]}
        return [float(step(**given)["loss"]) for _ in range(3)], dict(net.parameters)

    require_close(together(2, lambda _, m: run(m)), run(None), 1e-11)


def test_onnx_files(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")
    from onnx import helper

    from tests.support.onnx_models import model, saved

    held = {name: DRAWN[name].astype(np.float32) for name in DRAWN}
    held["V"] = held["V"][:5]
    columns = ["scale", "bias", "mean", "variance"]
    nodes = [
        helper.make_node("MatMul", ["x", "W"], ["h"]),
        helper.make_node("BatchNormalization", ["h", *columns], ["b"], momentum=0.5),
        helper.make_node("MatMul", ["b", "V"], ["y"]),
    ]
    path = saved(model(nodes, {"x": ["n", 4]}, ["y"], held), tmp_path)
    x, labels = GIVEN["x"][:, 0].astype(np.float32), GIVEN["labels"].astype(np.float32)

    def run(member: gc.comm.Communicator | None) -> Found:
        net = gc.load_program(path, bounds={"n": 11})
        step = step_of(net, member, "numpy")
        some = slice(None) if member is None else slice(member.rank, None, 2)
        criteria = [float(step(x=x[some], labels=labels[some])["loss"]) for _ in range(3)]
        return criteria, dict(net.parameters)

    require_close(together(2, lambda _, m: run(m)), run(None), 2e-5)


# --- wrong uses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slug", "said", "given"),
    [
        ("bad-option", "give comm=", {"sync_batchnorm": True}),
        ("argument-type", "True or False", {"sync_batchnorm": "global"}),
        (
            "bad-option",
            "leave out sync_batchnorm",
            {
                "sync_batchnorm": True,
                "comm": gc.comm.alone(),
                "averaging": gc.ModelAveraging(100),
            },
        ),
    ],
)
def test_what_it_does_not_go_with(slug: str, said: str, given: dict[str, Any]) -> None:
    with pytest.raises(gc.GraphcError, match=said) as raised:
        gc.train(network(DENSE), ROWS, learner=MOMENTUM, **given)
    assert raised.value.diagnostics[0].slug == slug
    if "averaging" not in given:
        for net, loss in ((network(DENSE), None), (program(rows), "squared_error")):
            with pytest.raises(gc.GraphcError, match=said) as raised:
                gc.compile_training(net, learner=MOMENTUM, loss=loss, **given)
            assert raised.value.diagnostics[0].slug == slug


def test_all_members_have_to_want_it() -> None:
    def run(member: gc.comm.Communicator) -> str:
        with pytest.raises(gc.GraphcError) as raised:
            gc.train(
                *(network(DENSE), ROWS),
                learner=MOMENTUM,
                comm=member,
                sync_batchnorm=member.rank == 1,
            )
        return str(raised.value)

    for text in together(2, lambda _, m: run(m)):
        assert "sync_batchnorm" in text or "settings" in text
