"""`gc.train` by several members: as by one, each taking its share of every minibatch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

import graphc as gc
from graphc.driver.options import CompileOptions
from graphc.driver.statistics import precompute
from graphc.learn import agreement
from graphc.learn.learner import Learner
from graphc.learn.source import Data
from tests.support.compiling import load_backend

T = TypeVar("T")
Array = np.ndarray
PATIENCE = 60.0
DENSE = """
    x = Input(5)
    t = Input(3)
    W = Parameter(4, 5)
    b = Parameter(4, 1)
    V = Parameter(3, 4)
    e = SquareError(t, Times(V, Tanh(Plus(Times(W, x), b))), tag=criteria)
    s = SumElements(t, tag=eval)
"""
DROPPED = DENSE.replace("Tanh(Plus(Times(W, x), b))", "Dropout(Tanh(Plus(Times(W, x), b)))")
NORMALISED = """
    x = Input(5)
    t = Input(3)
    W = Parameter(3, 5)
    s = Parameter(3, 1)
    o = Parameter(3, 1)
    m = Parameter(3, 1, needGradient=false)
    v = Parameter(3, 1, needGradient=false)
    h = BatchNormalization(Times(W, x), s, o, m, v, normalizationTimeConstant=20)
    e = SquareError(t, Dropout(h), tag=criteria)
"""
TABLE = """
    x = SparseInput(9)
    t = Input(2)
    D = Parameter(2, 9)
    e = SquareError(t, Times(D, x), tag=criteria)
"""
LOOP = """
    x = Input(3)
    t = Input(2)
    W = Parameter(2, 3)
    R = Parameter(2, 2)
    h = Tanh(Plus(Times(W, x), Times(R, PastValue(2, 1, h))))
    e = SquareError(t, h, tag=criteria)
"""
DIGITS = Path(__file__).parents[3] / "examples" / "digits"
RNG = np.random.default_rng(5)
X, T_, T2 = (RNG.standard_normal((19, n)) for n in (5, 3, 2))
ROWS = {"x": X, "t": T_}
DROPPED_LOOP = LOOP.replace("SquareError(t, h", "SquareError(t, Dropout(h)")
LENGTHS = (4, 1, 3, 5, 2, 4, 3)
STEPS = {
    "x": [RNG.standard_normal((n, 3)) for n in LENGTHS],
    "t": [RNG.standard_normal((n, 2)) for n in LENGTHS],
}
WORDS = {"x": (RNG.integers(0, 9, 19).tolist(), list(range(20))), "t": T2}
LEFT_OUT: dict[str, object] = {"dropout": 0.4}
MOMENTUM = gc.SGD(learning_rate=0.05, momentum=0.9, l2=0.01)


def network(text: str) -> gc.Network:
    net = gc.loads(text)
    assert isinstance(net, gc.Network)
    return net


def together(
    count: int,
    work: Callable[[int, gc.comm.Communicator], T],
    shards: int = 0,
    wire: str = "full",
) -> list[T]:
    """The members' results; the first error is raised."""
    members = gc.comm.threads(count, PATIENCE, shards, wire)
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(work, i, member) for i, member in enumerate(members)]
        return [future.result() for future in futures]


@dataclass
class Training:
    """One training by any number of members."""

    text: str
    data: Data
    learner: Learner | Callable[[], Learner] = MOMENTUM
    backend: str = "numpy"
    options: dict[str, object] = field(default_factory=dict[str, object])

    def alone(self) -> tuple[gc.Network, Sequence[gc.EpochRecord]]:
        return self.member(0, None)

    def of(self, members: int, shards: int) -> list[tuple[gc.Network, Sequence[gc.EpochRecord]]]:
        """What each of the members has trained, a minibatch computed in so many shards."""
        if members == 1:
            return [self.member(0, gc.comm.alone(shards))]
        return together(members, self.member, shards)

    def member(
        self, _: int, member: gc.comm.Communicator | None
    ) -> tuple[gc.Network, Sequence[gc.EpochRecord]]:
        net = network(self.text)
        learner = self.learner() if callable(self.learner) else self.learner
        options: dict[str, object] = {"precision": "f64", "epochs": 2, **self.options}
        records = gc.train(
            net,
            self.data,
            learner=learner,
            backend=self.backend,
            threads=1,
            comm=member,
            **options,  # type: ignore[arg-type]
        )
        return net, records


def require_equal(training: Training, members: int, tolerance: float = 1e-11) -> None:
    single, expected = training.alone()
    trained = together(members, training.member)
    for net, records in trained:
        for name, value in single.parameters.items():
            np.testing.assert_allclose(net.parameters[name], value, tolerance, tolerance)
            assert np.array_equal(net.parameters[name], trained[0][0].parameters[name])
        for record, other in zip(records, expected, strict=True):
            assert record.samples == other.samples
            np.testing.assert_allclose(record.criterion, other.criterion, tolerance)
            for name, average in other.evaluations.items():
                np.testing.assert_allclose(record.evaluations[name], average, tolerance)


@pytest.mark.parametrize(
    ("text", "data", "backend", "members"),
    [
        (DENSE, ROWS, "numpy", 4),
        (DENSE, ROWS, "llvm", 2),
        (DROPPED, ROWS, "numpy", 4),
        (TABLE, WORDS, "numpy", 4),
        (TABLE, WORDS, "llvm", 2),
    ],
)
def test_members_train_as_one(
    text: str, data: dict[str, object], backend: str, members: int
) -> None:
    """19 samples by 6: of the last one, all but one of the members have none."""
    if isinstance(loaded := load_backend(backend), str):
        pytest.skip(loaded)
    require_equal(
        Training(text, data, backend=backend, options={"minibatch": 6, **LEFT_OUT}), members
    )


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_members_train_sequences_as_one(backend: str) -> None:
    training = Training(LOOP, STEPS, backend=backend, options={"minibatch": 5})
    require_equal(training, 2)


@pytest.mark.parametrize(
    ("text", "data", "minibatch", "backend"),
    [
        (DENSE, ROWS, 7, "numpy"),
        (DROPPED, ROWS, 7, "llvm"),
        (NORMALISED, ROWS, 7, "llvm"),
        (TABLE, WORDS, 7, "llvm"),
        (DROPPED_LOOP, {n: [*s, s[0]] for n, s in STEPS.items()}, 4, "llvm"),
    ],
)
def test_shards_have_the_same_bits_for_any_number_of_members(
    text: str, data: dict[str, object], minibatch: int, backend: str
) -> None:
    """In f32, where another order of sums shows."""
    if isinstance(loaded := load_backend(backend), str):
        pytest.skip(loaded)
    options: dict[str, object] = {"precision": "f32", "minibatch": minibatch, **LEFT_OUT}
    training = Training(text, data, backend=backend, options=options)
    ((single, expected),) = training.of(1, shards=4)
    for net, records in [*training.of(2, shards=4), *training.of(4, shards=4)]:
        assert [r.criterion for r in records] == [r.criterion for r in expected]
        for name, value in single.parameters.items():
            assert np.array_equal(net.parameters[name], value)
    if text is NORMALISED:  # by the samples of a shard
        return
    ((_, other),) = training.of(1, shards=0)
    assert other[-1].criterion == pytest.approx(expected[-1].criterion, rel=1e-5)


def test_four_members_stop_and_two_go_on_with_the_same_bits(tmp_path: Path) -> None:
    options: dict[str, object] = {"precision": "f32", "minibatch": 8}
    whole = Training(DENSE, ROWS, options=options)
    ((expected, _),) = whole.of(1, shards=4)
    seen: list[int] = []
    progress = gc.Progress(
        minibatch=lambda done, total: seen.append(done), should_stop=lambda: len(seen) > 6
    )
    checkpoints = gc.Checkpoints(tmp_path / "here", resume=True)
    options["checkpoints"] = checkpoints
    replace(whole, options={**options, "progress": progress}).of(4, shards=4)
    for net, _ in replace(whole, options=options).of(2, shards=4):
        for name, value in expected.parameters.items():
            assert np.array_equal(net.parameters[name], value)


@pytest.mark.parametrize(("members", "shards"), [(2, 3), (4, 2), (3, 4), (1, -2)])
def test_shards_are_a_power_of_two_that_the_members_divide(members: int, shards: int) -> None:
    with pytest.raises(gc.GraphcError, match=f"power of two that {members} members divide"):
        gc.comm.threads(members, shards=shards)


def test_statistics_have_the_same_bits_for_any_number_of_members() -> None:
    """5000 samples are 5 calls: of four shards the first has two."""
    x = np.random.default_rng(0).standard_normal((5000, 5)) + 3

    def values(_: int, member: gc.comm.Communicator | None) -> dict[str, Array]:
        net = network("x = Input(5)\nm = Mean(x)\ns = InvStdDev(x)")
        precompute(net.model, {"x": x}, CompileOptions("numpy"), member)
        return {name: net.model.exactly(name) for name in ("m", "s")}

    one, four = values(0, None), values(0, gc.comm.alone(4))
    for found in [*together(2, values, 4), *together(4, values, 4)]:
        assert all(np.array_equal(found[name], four[name]) for name in one)
    for found in together(3, values):
        for name, value in one.items():
            np.testing.assert_allclose(found[name], value, 1e-12)


@pytest.mark.parametrize(
    "learner",
    [
        gc.Adam(0.01),
        gc.SGD(learning_rate=0.05, clip=gc.ClipGlobalNorm(0.5)),
        lambda: gc.SteppingHeuristic(1e-3),
    ],
)
def test_members_train_as_one_by_any_learner(learner: Learner | Callable[[], Learner]) -> None:
    require_equal(Training(DENSE, ROWS, learner, options={"minibatch": 8}), 2)


def test_members_train_as_one_in_f32() -> None:
    require_equal(Training(DENSE, ROWS, options={"precision": "f32", "minibatch": 8}), 2, 2e-5)


@pytest.mark.parametrize(("wire", "above"), [("bf16", 1.005), ("1bit", 1.1)])
def test_members_whose_gradients_travel_in_fewer_bits_learn_as_one(wire: str, above: float) -> None:
    cells = np.loadtxt(DIGITS / "train.txt")
    data = {"features": cells[:, :64], "labels": np.eye(10)[cells[:, 64].astype(int)]}
    options: dict[str, object] = {"precision": "f32", "minibatch": 32, "epochs": 8}
    text = (DIGITS / "digits.ndl").read_text(encoding="utf-8")
    training = Training(text, data, gc.SGD(1.0, 0.9), options=options)
    _, expected = training.alone()
    first, second = together(2, training.member, wire=wire)
    assert first[1][-1].criterion < above * expected[-1].criterion < 0.2 * expected[0].criterion
    for name, value in first[0].parameters.items():
        assert np.array_equal(second[0].parameters[name], value)


def test_members_choose_and_measure_as_one() -> None:
    """Rates and sizes follow from trials, of which all members see the same criteria."""
    options: dict[str, object] = {
        "minibatch": 4,
        "epochs": 4,
        "validation": ROWS,
        "control": [gc.AdjustAfterEpoch(), gc.KeepBest()],
    }
    require_equal(Training(DENSE, ROWS, options=options), 2)


def test_each_member_goes_through_a_reader_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "rows.npz"
    np.savez(path, x=X, t=T_)
    training = Training(DENSE, ROWS, options={"minibatch": 8})

    def member(
        _: int, communicator: gc.comm.Communicator | None
    ) -> tuple[gc.Network, Sequence[gc.EpochRecord]]:
        reader = gc.readers.npz(path, order=gc.readers.Order(seed=3))
        return replace(training, data=reader).member(0, communicator)

    single, _ = member(0, None)
    for net, _ in together(2, member):
        np.testing.assert_allclose(net.parameters["W"], single.parameters["W"], 1e-11)


def test_the_first_member_writes_checkpoints_and_all_go_on_from_them(tmp_path: Path) -> None:
    """Stopped where one of them is asked to, inside of an epoch."""
    whole = Training(DENSE, ROWS, options={"minibatch": 6})
    uninterrupted = together(2, whole.member)

    def part(asked: int) -> Callable[[int, gc.comm.Communicator], gc.Network]:
        def member(number: int, communicator: gc.comm.Communicator) -> gc.Network:
            folder = tmp_path / str(number if asked else 0)
            folder.mkdir(exist_ok=True)
            seen: list[int] = []
            progress = gc.Progress(
                minibatch=lambda done, total: seen.append(done),
                should_stop=lambda: number == 1 and len(seen) == asked,
            )
            checkpoints = gc.Checkpoints(folder / "here", resume=True)
            options = {**whole.options, "progress": progress, "checkpoints": checkpoints}
            return replace(whole, options=options).member(number, communicator)[0]

        return member

    stopped = together(2, part(6))
    assert [path.name for path in (tmp_path / "0").iterdir()] == ["here", "here.1"]
    assert not list((tmp_path / "1").iterdir())
    for before, after, net in zip(stopped, together(2, part(0)), uninterrupted, strict=True):
        for name, value in net[0].parameters.items():
            assert np.array_equal(after.parameters[name], value)
            assert not np.array_equal(before.parameters[name], value)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"data": {"x": X + 1, "t": T_}}, "data"),
        ({"options": {"minibatch": 7}}, "minibatch"),
        ({"options": {"minibatch": 7, "seed": 3}, "data": {"x": X + 1, "t": T_}}, "minibatch"),
        ({"text": DENSE.replace("Parameter(4, 1)", "Parameter(4, 1, init=zero)")}, "network"),
    ],
)
def test_members_that_train_something_else_are_told_what(
    other: dict[str, object], what: str
) -> None:
    training = Training(DENSE, ROWS, options={"minibatch": 8})

    def member(number: int, communicator: gc.comm.Communicator) -> str:
        with pytest.raises(gc.GraphcError) as raised:
            replace(training, **(other if number else {})).member(number, communicator)
        return str(raised.value)

    for message in together(3, member):
        assert "members require the same training, other than on member 0 are: " in message
        assert f"{what} (members 1, 2)" in message
        assert ("data (members 1, 2)" in message) == ("data" in other)


def test_members_of_another_version_are_told_so_before_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Own(threading.local):
        """The version that a thread takes itself for."""

        text = agreement.VERSION

        def __str__(self) -> str:
            return self.text

        def encode(self) -> bytes:
            return self.text.encode()

    monkeypatch.setattr(agreement, "VERSION", own := Own())

    def member(number: int, communicator: gc.comm.Communicator) -> str:
        own.text = "0.0.9" if number == 2 else "0.1.0"
        said = {"data": b"1"} if number == 2 else {"data": b"2", "more": b"3"}
        with pytest.raises(gc.GraphcError) as raised:
            agreement.require_agreement(communicator, said)
        return str(raised.value)

    for number, message in enumerate(together(3, member)):
        here = "0.0.9" if number == 2 else "0.1.0"
        assert f"other than on member 0 are: graphc (here {here}) (member 2); settings" in message
