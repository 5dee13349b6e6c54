"""Sums of members that go on beside the backward pass: the bits of those behind it."""

from __future__ import annotations

import _thread
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

import graphc as gc
from graphc.driver import members as driver
from graphc.learn.learner import Learner
from graphc.passes.overlap_sums import OverlapSums
from graphc.runtime.communicators.communicator import Communicator
from tests.support.commands import graphc
from tests.support.compiling import require_backend

T = TypeVar("T")
Array = np.ndarray
BACKENDS = ("numpy", "llvm", "c")
PATIENCE = 60.0
TEXT = """
    x = Input(5)
    t = Input(3)
    W = Parameter(8, 5)
    b = Parameter(8, 1)
    U = Parameter(8, 8)
    V = Parameter(3, 8)
    h = Tanh(Plus(Times(W, x), b))
    e = SquareError(t, Times(V, Tanh(Times(U, h))), tag=criteria)
    s = SumElements(t, tag=eval)
"""
SIZES = [8 * (8 + 8 + 24), 8 * (64 + 8), 8 * 40]
"""Bytes of the sums: e, s and V; U and b; W. Each array begins at a multiple of 64."""
NORMALISED = """
    x = Input(5)
    t = Input(3)
    W = Parameter(8, 5)
    s = Parameter(8, 1, init=fixedValue, value=1)
    o = Parameter(8, 1, init=fixedValue, value=0)
    m = Parameter(8, 1, needGradient=false)
    r = Parameter(8, 1, needGradient=false)
    V = Parameter(3, 8)
    h = BatchNormalization(Times(W, x), s, o, m, r, expAvgFactor=0.25)
    e = SquareError(t, Times(V, Tanh(h)), tag=criteria)
"""


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full with 192 bytes: V with what is there before it, U, W."""
    monkeypatch.setattr(driver, "OverlapSums", lambda: OverlapSums(192))


def together(work: Sequence[Callable[[], T]]) -> list[T]:
    """Each in a thread of its own; the first error is raised."""
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(one) for one in work]]


def data(samples: int) -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {"x": rng.standard_normal((samples, 5)), "t": rng.standard_normal((samples, 3))}


def compiled(
    net: gc.Network,
    member: Communicator | None,
    backend: str = "numpy",
    learner: Learner | None = None,
) -> gc.TrainingStep:
    step = gc.compile_training(
        net,
        learner=learner or gc.SGD(learning_rate=0.1, momentum=0.9),
        batch=8,
        backend=backend,
        precision="f64",
        threads=1,
        comm=member,
    )
    step.nominal = 8
    return step


def network(text: str = TEXT) -> gc.Network:
    net = gc.loads(text)
    assert isinstance(net, gc.Network)
    return net


def trained(
    members: Sequence[Communicator],
    cuts: Sequence[int],
    backend: str,
    learner: Learner | None = None,
    text: str = TEXT,
) -> list[tuple[dict[str, Array], list[float]]]:
    """The parameters and criteria of each member after three minibatches of eight samples."""
    whole = data(24)

    def one(member: Communicator) -> tuple[dict[str, Array], list[float]]:
        net = network(text)
        step = compiled(net, member, backend, learner)
        a, b = ((0, *cuts, 8)[member.rank + i] for i in (0, 1))
        calls = [{n: v[8 * k + a : 8 * k + b] for n, v in whole.items()} for k in range(3)]
        losses = [float(step(**call)["e"]) for call in calls]
        return dict(net.parameters), losses

    return together([lambda m=m: one(m) for m in members])


@pytest.mark.parametrize(
    ("learner", "cuts", "backend", "text"),
    [
        *((None, (4,), backend, TEXT) for backend in BACKENDS),
        *((None, (0, 5), backend, TEXT) for backend in BACKENDS),
        (gc.Adam(0.1), (1, 1), "llvm", TEXT),
        (gc.SGD(learning_rate=0.1, clip=gc.ClipGlobalNorm(0.5)), (4,), "llvm", TEXT),
        *((None, (3, 6), backend, NORMALISED) for backend in BACKENDS),
    ],
)
def test_sums_beside_the_backward_pass_have_the_bits_of_those_behind(
    learner: Learner | None, cuts: Sequence[int], backend: str, text: str
) -> None:
    """Of two and three members, some without samples."""
    require_backend(backend)
    count = len(cuts) + 1
    behind = trained(gc.comm.threads(count, PATIENCE), cuts, backend, learner, text)
    beside = trained(gc.comm.threads(count, PATIENCE, overlap=True), cuts, backend, learner, text)
    assert beside[0][1] == behind[0][1]
    for parameters, losses in beside:
        assert losses == beside[0][1]
        for name, value in behind[0][0].items():
            assert np.array_equal(parameters[name], value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_members_take_the_step_of_one(backend: str) -> None:
    require_backend(backend)
    ((single, losses),) = trained([gc.comm.alone()], (), backend)
    for parameters, found in trained(gc.comm.threads(2, PATIENCE, overlap=True), (3,), backend):
        np.testing.assert_allclose(found, losses, 1e-12)
        for name, value in single.items():
            np.testing.assert_allclose(parameters[name], value, 1e-12, 1e-13)


def test_numbers_of_fewer_bits_have_the_bits_of_those_behind() -> None:
    """Each number is rounded to bf16 by itself, whichever sum it is in."""
    behind = trained(gc.comm.threads(2, PATIENCE, wire="bf16"), (4,), "numpy")
    beside = trained(gc.comm.threads(2, PATIENCE, wire="bf16", overlap=True), (4,), "numpy")
    for name, value in behind[0][0].items():
        for parameters, _ in beside:
            assert np.array_equal(parameters[name], value)


def test_numbers_of_one_bit_keep_what_they_leave_out() -> None:
    """A sum is of the same numbers each time: with what was left out it comes near."""
    members = gc.comm.threads(2, PATIENCE, wire="1bit", overlap=True)
    beside = trained(members, (4,), "llvm")
    ((single, _),) = trained([gc.comm.alone()], (), "llvm")
    assert all(np.array_equal(beside[0][0][n], beside[1][0][n]) for n in single)
    off = [np.abs(beside[0][0][n] - v).max() / np.abs(v).max() for n, v in single.items()]
    assert 1e-6 < max(off) < 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("samples", [29, 1])
def test_epochs_have_the_bits_of_those_behind(backend: str, samples: int) -> None:
    """Many minibatches in one native call; with one sample some member has none."""
    require_backend(backend)

    def one(member: Communicator) -> dict[str, Array]:
        net = network()
        learner = gc.SGD(0.05, momentum=0.9)
        given = {"epochs": 3, "minibatch": min(8, samples), "backend": backend, "threads": 1}
        gc.train(net, data(samples), learner=learner, comm=member, **given)  # type: ignore[arg-type]
        return dict(net.parameters)

    found = [
        together([lambda m=m: one(m) for m in gc.comm.threads(2, PATIENCE, overlap=overlap)])
        for overlap in (False, True)
    ]
    for name, value in found[0][0].items():
        assert all(np.array_equal(member[name], value) for member in found[1])


class Alone:
    """A member whose other one has what it has itself, and what its sums are asked of."""

    overlap = True

    def __init__(self) -> None:
        self.rank, self.size = 0, 2
        self.sizes: list[int] = []
        self.threads: set[int] = set()
        self.fails_at = -1
        self.waits_for: threading.Event | None = None
        self.is_adding = False

    def all_reduce(self, array: Array) -> None:
        if array.dtype.kind != "f":  # how many samples there are
            array *= 2
            return
        self.is_adding = True
        self.threads.add(threading.get_ident())
        self.sizes.append(array.nbytes)
        if self.waits_for is not None:
            assert self.waits_for.wait(PATIENCE)
        if len(self.sizes) - 1 == self.fails_at:
            raise OSError("the link is cut")
        array *= 2
        self.is_adding = False


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_other_thread_adds_the_last_layer_first(backend: str) -> None:
    require_backend(backend)
    member = Alone()
    step = compiled(network(), member, backend)
    for _ in range(2):
        step(**data(4))
    assert member.sizes == SIZES * 2
    assert len(member.threads) == 1
    assert member.threads != {threading.get_ident()}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fails_at", range(3))
def test_a_sum_that_is_not_made_ends_the_step_and_begins_no_other(
    backend: str, fails_at: int
) -> None:
    """Nothing is updated, and the next call makes a step."""
    require_backend(backend)
    member, other = Alone(), Alone()
    nets = [network(), network()]
    step, twin = (compiled(net, m, backend) for net, m in zip(nets, (member, other), strict=True))
    before = {name: value.copy() for name, value in nets[0].parameters.items()}
    member.fails_at = fails_at
    with pytest.raises(OSError, match="the link is cut"):
        step(**data(4))
    assert member.sizes == SIZES[: fails_at + 1]
    for name, value in before.items():
        assert np.array_equal(nets[0].parameters[name], value)
    member.fails_at = -1
    step(**data(4))
    twin(**data(4))
    for name, value in nets[1].parameters.items():
        assert np.array_equal(nets[0].parameters[name], value)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_interrupt_ends_the_step_when_nothing_is_added_any_more(backend: str) -> None:
    """Sums write into the memory of the call, so that they are waited for."""
    require_backend(backend)
    member, net = Alone(), network()
    step = compiled(net, member, backend)
    step(**data(4))
    member.sizes.clear()
    member.waits_for = threading.Event()
    before = {name: value.copy() for name, value in net.parameters.items()}

    def disturb() -> None:
        while not member.is_adding:
            pass
        threading.Event().wait(0.5)  # the step waits for the sum by then
        _thread.interrupt_main()
        assert member.waits_for is not None
        threading.Timer(0.2, member.waits_for.set).start()

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    with pytest.raises(KeyboardInterrupt):
        step(**data(4))
    disturbing.join()
    assert member.waits_for.is_set()
    assert not member.is_adding
    for name, value in before.items():
        assert np.array_equal(net.parameters[name], value)
    member.sizes.clear()
    step(**data(4))
    assert member.sizes == SIZES


SEQUENCES = """
    x = Input(3)
    t = Input(2)
    W = Parameter(6, 3)
    R = Parameter(6, 6)
    V = Parameter(2, 6)
    p = PastValue(6, 1, h)
    h = Tanh(Plus(Times(W, x), Times(R, p)))
    e = SquareError(t, Times(V, h), tag=criteria)
"""


def test_the_order_of_sums_does_not_depend_on_bounds() -> None:
    """A member that compiles again for longer sequences than the others' begins the same sums."""
    member = Alone()
    net = network(SEQUENCES)
    step = gc.compile_training(
        net, learner=gc.SGD(0.1), time=4, sequences=2, backend="numpy", precision="f64", comm=member
    )
    rng = np.random.default_rng(0)
    found: list[list[int]] = []
    for length in (3, 200):
        given = {"x": [rng.standard_normal((length, 3))], "t": [rng.standard_normal((length, 2))]}
        step(**given)
        found.append([*member.sizes])
        member.sizes.clear()
    assert len(found[0]) > 1
    assert found[0] == found[1]


@pytest.mark.parametrize("overlap", [False, True])
def test_the_sums_of_a_small_network_stay_one(
    overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "OverlapSums", OverlapSums)
    member = Alone()
    member.overlap = overlap
    compiled(network(), member)(**data(4))
    assert member.sizes == [sum(SIZES)]
    assert member.threads == {threading.get_ident()}


@pytest.mark.parametrize("backend", ["reference", "cuda"])
def test_backends_that_are_cut_add_nothing_beside(backend: str) -> None:
    require_backend(backend)
    with pytest.raises(gc.GraphcError, match=f"llvm, c or numpy.*got {backend}") as raised:
        compiled(network(), Alone(), backend)
    assert [d.slug for d in raised.value.diagnostics] == ["not-supported"]


def test_several_shards_of_a_member_and_split_layers_are_refused() -> None:
    first, _ = gc.comm.threads(2, PATIENCE, shards=4, overlap=True)
    with pytest.raises(gc.GraphcError, match="a shard each"):
        compiled(network(), first)
    first, _ = gc.comm.threads(2, PATIENCE, overlap=True)
    with pytest.raises(gc.GraphcError, match="leave out overlap"):
        gc.compile_training(network(), learner=gc.SGD(0.1), comm=first, split="V")


def test_members_have_to_ask_for_the_same() -> None:
    members = [gc.comm.threads(2, PATIENCE)[0], *gc.comm.threads(2, PATIENCE, overlap=True)[1:]]
    meeting = members[0]._meeting  # type: ignore[attr-defined]
    object.__setattr__(members[1], "_meeting", meeting)

    def one(member: Communicator) -> str:
        with pytest.raises(gc.GraphcError) as raised:
            gc.train(network(), data(8), learning_rate=0.1, comm=member)
        return str(raised.value)

    for text in together([lambda m=m: one(m) for m in members]):
        assert "communicator (member 1)" in text


def test_the_option_of_the_command_line_is_for_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.ndl").write_text(TEXT, encoding="utf-8")
    Path("rows.txt").write_text("1 2 3 4 5 1 2 3\n", encoding="utf-8")
    words = "train net.ndl --data rows.txt --features 0:5 --labels 5:8 -o out.safetensors"
    done = graphc(*words.split(), "--learning-rate", "1", "--comm-overlap")
    assert done.code == 2
    assert "--comm-overlap is for members: give --comm too" in done.err


def test_random_loads_of_both_threads_change_nothing() -> None:
    """Whoever is late: sums take from no time to longer than the step."""
    behind = trained(gc.comm.threads(2, PATIENCE), (4,), "llvm")
    delays = itertools.cycle([0.0, 0.003, 0.0, 0.0, 0.01])

    class Late:
        def __init__(self, member: Communicator) -> None:
            self.rank, self.size, self.overlap = member.rank, member.size, True
            self._member = member

        def all_reduce(self, array: Array) -> None:
            threading.Event().wait(next(delays))
            self._member.all_reduce(array)

    members = [Late(member) for member in gc.comm.threads(2, PATIENCE)]
    for parameters, losses in trained(members, (4,), "llvm"):
        assert losses == behind[0][1]
        assert all(np.array_equal(parameters[n], v) for n, v in behind[0][0].items())
