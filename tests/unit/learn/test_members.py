"""Several who train together, each with a part of every minibatch: as one with all of it."""

from __future__ import annotations

import ctypes
import itertools
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest

import graphc as gc
from graphc.driver.members import cut
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType, Symbol, TensorType, TypeRuleError
from graphc.learn.learner import Learner
from graphc.ops import default_context
from graphc.ops.communication import ALL_REDUCE, AllReduceParams
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.runtime.device_arrays import DeviceArray
from tests.support.compiling import parse, require_backend
from tests.support.cuda.emulator import EmulatedDevice

T = TypeVar("T")
Array = np.ndarray
Data = dict[str, object]
BACKENDS = ("reference", "numpy", "llvm", "c")
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
LINEAR = """
    x = Input(5)
    t = Input(3)
    V = Parameter(3, 5)
    e = SquareError(t, Times(V, x), tag=criteria)
"""
TABLE = """
    x = SparseInput(9)
    t = Input(2)
    D = Parameter(2, 9)
    e = SquareError(t, Times(D, x), tag=criteria)
"""


def network(text: str) -> gc.Network:
    net = gc.loads(text)
    assert isinstance(net, gc.Network)
    return net


def minibatches(inputs: int, *, whole: bool = False) -> list[tuple[Array, Array]]:
    rng = np.random.default_rng(3)
    made: list[tuple[Array, Array]] = []
    for _ in range(3):
        x, t = rng.standard_normal((8, inputs)), rng.standard_normal((8, 3))
        made.append((np.rint(4 * x), np.rint(4 * t)) if whole else (x, t))
    return made


def together(work: Sequence[Callable[[], T]]) -> list[T]:
    """Each in a thread of its own; the first error is raised."""
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(one) for one in work]]


def train(
    text: str,
    learner: Learner,
    backend: str,
    parts: Sequence[Sequence[Data]],
    batch: int,
    members: Sequence[gc.comm.Communicator] | None = None,
) -> list[tuple[gc.Network, list[float]]]:
    """One member for each list of calls: its network afterwards, and its criteria.

    batch  samples of a minibatch of all together
    """
    members = members or gc.comm.threads(len(parts), PATIENCE)

    def member(number: int) -> tuple[gc.Network, list[float]]:
        net = network(text)
        step = gc.compile_training(
            net,
            learner=learner,
            batch=batch,
            backend=backend,
            precision="f64",
            threads=1,
            comm=members[number] if len(parts) > 1 else None,
        )
        step.nominal = batch
        return net, [float(step(**data)["e"]) for data in parts[number]]

    return together([lambda i=i: member(i) for i in range(len(parts))])


def cut_rows(minibatch: tuple[Array, Array], cuts: Sequence[int]) -> list[Data]:
    x, t = minibatch
    ends = (*cuts, len(x))
    return [{"x": x[a:b], "t": t[a:b]} for a, b in zip((0, *cuts), ends, strict=True)]


def calls_of(minibatch: Sequence[tuple[Array, Array]], cuts: Sequence[int]) -> list[list[Data]]:
    """The calls of each member."""
    return [list(calls) for calls in zip(*(cut_rows(m, cuts) for m in minibatch), strict=True)]


MOMENTUM = gc.SGD(learning_rate=0.1, momentum=0.9, l2=0.01)
CLIPPED = gc.SGD(learning_rate=0.1, clip=gc.ClipGlobalNorm(0.5))


@pytest.mark.parametrize(
    ("learner", "cuts", "backend"),
    [
        *((MOMENTUM, (2, 4, 6), backend) for backend in BACKENDS),
        (MOMENTUM, (4,), "numpy"),
        (MOMENTUM, (1, 1), "numpy"),
        (MOMENTUM, (4,), "cuda"),
        (gc.Adam(0.1), (1, 1), "llvm"),
        (gc.Adam(0.1), (4,), "numpy"),
        (CLIPPED, (4,), "numpy"),
        (gc.SGD(learning_rate=0.1, l1=0.1), (3,), "numpy"),
    ],
)
def test_members_take_the_step_of_one_with_all_samples(
    learner: Learner, cuts: Sequence[int], backend: str
) -> None:
    require_backend(backend)
    data = minibatches(5)
    ((single, losses),) = train(DENSE, learner, backend, calls_of(data, ()), 8)
    members = train(DENSE, learner, backend, calls_of(data, cuts), 8)
    for net, found in members:
        np.testing.assert_allclose(found, losses, 1e-12)
        for name, value in single.parameters.items():
            np.testing.assert_allclose(net.parameters[name], value, 1e-12, 1e-13)
            assert np.array_equal(net.parameters[name], members[0][0].parameters[name])


class MemberThere:
    """A member whose GPU is emulated: arrays of the device are those of this process."""

    def __init__(self, member: gc.comm.Communicator) -> None:
        self.rank, self.size = member.rank, member.size
        self.here: list[int] = []
        self.there: list[tuple[int, int]] = []
        self._member = member

    def all_reduce(self, array: Array) -> None:
        self.here.append(array.size)
        self._member.all_reduce(array)

    def all_reduce_there(self, array: DeviceArray, stream: int) -> None:
        self.there.append((array.shape[0], stream))
        pointer = ctypes.cast(array.address, ctypes.POINTER(ctypes.c_double))
        self._member.all_reduce(np.ctypeslib.as_array(pointer, array.shape))


@pytest.mark.parametrize("backend", ["cuda"])
def test_sums_of_members_with_gpus_stay_there(backend: str) -> None:
    """W, b, V, e and s lie in multiples of 64 bytes; only the number of samples comes here."""
    require_backend(backend)
    data = minibatches(5)
    ((single, losses),) = train(DENSE, MOMENTUM, "numpy", calls_of(data, ()), 8)
    members = [MemberThere(member) for member in gc.comm.threads(2, PATIENCE)]
    trained = train(DENSE, MOMENTUM, backend, calls_of(data, (4,)), 8, members)
    for net, found in trained:
        np.testing.assert_allclose(found, losses, 1e-12)
        for name, value in single.parameters.items():
            np.testing.assert_allclose(net.parameters[name], value, 1e-12, 1e-13)
            assert np.array_equal(net.parameters[name], trained[0][0].parameters[name])
    for member in members:
        assert member.here == [1] * 3
        assert member.there == [(24 + 8 + 16 + 8 + 8, EmulatedDevice.handle)] * 3


def test_sums_that_are_exact_have_the_bits_of_one() -> None:
    """One step from whole numbers: no order of additions changes them."""
    data, backend = minibatches(5, whole=True)[:1], "numpy"
    learner = gc.SGD(learning_rate=1.0)
    text = LINEAR.replace("Parameter(3, 5)", "Parameter(3, 5, init=fixedValue, value=2)")
    ((single, _),) = train(text, learner, backend, calls_of(data, ()), 8)
    for net, _ in train(text, learner, backend, calls_of(data, (2, 4, 6)), 8):
        assert np.array_equal(net.parameters["V"], single.parameters["V"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_that_no_member_looks_up_stay_with_what_the_learner_keeps(backend: str) -> None:
    """Words of the first minibatch have a velocity, with which only those that come again move."""
    require_backend(backend)
    rng = np.random.default_rng(1)
    calls: list[list[Data]] = [[], [], []]
    for words in ([0, 0, 3, 8], [3, 5, 5, 5], [8, 8, 8, 8]):
        t = rng.standard_normal((4, 2))
        for number, (a, b) in enumerate([(0, 4), (0, 2), (2, 4)]):
            offsets = list(range(b - a + 1))
            calls[number].append({"x": (words[a:b], offsets), "t": t[a:b]})
    learner = gc.SGD(learning_rate=0.1, momentum=0.9)
    ((single, _),) = train(TABLE, learner, backend, calls[:1], 4)
    for net, _ in train(TABLE, learner, backend, calls[1:], 4):
        np.testing.assert_allclose(net.parameters["D"], single.parameters["D"], 1e-12)


NORMALISED = """
    x = Input(5)
    W = Parameter(3, 5)
    s = Parameter(3, 1, init=fixedValue, value=1)
    o = Parameter(3, 1, init=fixedValue, value=0)
    m = Parameter(3, 1, needGradient=false)
    v = Parameter(3, 1, needGradient=false)
    e = SumElements(BatchNormalization(Times(W, x), s, o, m, v, expAvgFactor=FACTOR), tag=criteria)
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("samples", "factor"), [(7, "1"), (3, "0.25")])
def test_running_values_are_averages_over_all_members_samples(
    backend: str, samples: int, factor: str
) -> None:
    """Of members with other numbers of samples, and without any; W stays. Each normalises by its
    own samples."""
    require_backend(backend)
    x, cuts = np.random.default_rng(2).standard_normal((samples, 5)), (0, 1, 3, samples)
    calls: list[list[Data]] = [[{"x": x[a:b]}] for a, b in itertools.pairwise(cuts)]
    text = NORMALISED.replace("FACTOR", factor)
    before = network(text).parameters
    y = x @ before["W"].T
    parts = [y[a:b] for a, b in itertools.pairwise(cuts) if b > a]
    weights = [len(part) / samples for part in parts]
    mean = sum(w * p.mean(0) for w, p in zip(weights, parts, strict=True))
    inverse = sum(w / np.sqrt(p.var(0) + 1e-5) for w, p in zip(weights, parts, strict=True))
    for net, _ in train(text, gc.SGD(0.0), backend, calls, 4):
        for name, seen in (("m", mean), ("v", inverse)):
            old = before[name][:, 0]
            expected = old + float(factor) * (seen - old)
            np.testing.assert_allclose(net.parameters[name][:, 0], expected, 1e-10, 1e-12)


def test_a_member_that_does_not_come_is_an_error() -> None:
    first, _ = gc.comm.threads(2, 0.05)
    with pytest.raises(gc.GraphcError, match="member 0 of 2 waited"):
        first.all_reduce(np.zeros(3))


def test_members_that_add_what_does_not_fit_are_told_so() -> None:
    members = gc.comm.threads(2, PATIENCE)

    def added(number: int) -> str:
        with pytest.raises(gc.GraphcError) as raised:
            members[number].all_reduce(np.zeros(3 + number))
        return str(raised.value)

    assert all(
        "float64[3], float64[4]" in text
        for text in together([lambda i=i: added(i) for i in (0, 1)])
    )


def test_a_communicator_is_required_to_be_one() -> None:
    with pytest.raises(gc.GraphcError) as raised:
        gc.compile_training(network(LINEAR), learner=gc.SGD(0.1), comm=4)  # type: ignore[arg-type]
    assert [d.slug for d in raised.value.diagnostics] == ["argument-type"]


# --- in the IR ---

DENSE_TYPE = TensorType((2, 3), DType.F64)

STEP = """\
func @f(%x: tensor<2x3xf64> input, %W: tensor<2x3xf64> parameter)
    -> (ce: tensor<1x1xf64>, gradient.W: tensor<2x3xf64>) {
  %p = mul %x, %W : tensor<2x3xf64>
  %ce = reduce_sum %p {axes = [0, 1]} : tensor<1x1xf64>
  return %ce, %x
}
"""


class Numbered:
    """A communicator of one's own with a number that may be wrong, as one counted from 1."""

    def __init__(self, rank: object, size: object) -> None:
        self.rank, self.size = rank, size

    def all_reduce(self, array: Array) -> None:
        raise AssertionError("nothing is added")


@pytest.mark.parametrize(
    ("rank", "size"), [(2, 2), (-1, 2), (0, 0), ("0", "2"), (None, None), (0.0, 2.0)]
)
def test_a_rank_that_no_member_has_is_refused(rank: object, size: object) -> None:
    """It was an error of numpy's, of an operation, or of nothing at all."""
    net, data = network(DENSE), {"x": np.ones((4, 5)), "t": np.ones((4, 3))}
    member: Any = Numbered(rank, size)
    said = re.escape(f"from 0 to size - 1, got rank {rank!r} of size {size!r}")
    for call in (
        lambda: gc.compile_training(net, learner=gc.SGD(0.1), comm=member),
        lambda: gc.train(net, data, learning_rate=0.1, comm=member),
        lambda: gc.evaluate(net, data, comm=member),
    ):
        with pytest.raises(gc.GraphcError, match=said):
            call()


def test_halves_have_only_what_they_need() -> None:
    module = parse(STEP)
    passes = pipeline('apply-learner{learner = "sgd", members = 2}')
    PassManager(passes, verify=True).run(module, default_context())
    before, after = (half.functions[0] for half in cut(module, module.functions[0]))
    assert [a.name for a in before.arguments] == ["x", "W"]
    assert "x" not in [a.name for a in after.arguments]
    x, w = np.full((2, 3), 2.0), np.ones((2, 3))
    sums = evaluate(before, {"x": x, "W": w}, {})
    numbers = {"learning_rate": np.ones((1, 1)), "momentum": np.zeros((1, 1))}
    given = {"W": w, "velocity.W": np.zeros((2, 3)), **numbers}
    given |= {name: 2 * value for name, value in sums.items()}
    got = evaluate(after, given, {})
    assert got["ce"].item() == 2 * x.sum()
    np.testing.assert_array_equal(got["W"], w - 2 * x)


@pytest.mark.parametrize(
    ("types", "members", "problem"),
    [
        ([DENSE_TYPE], -1, "1 member"),
        ([], 2, "at least one operand"),
        ([DENSE_TYPE.with_dims((Symbol("N", 4), 3))], 2, "the same for all members"),
        ([DENSE_TYPE.with_dtype(DType.I32)], 2, "i32"),
        ([DENSE_TYPE, DENSE_TYPE.with_dtype(DType.F32)], 2, "one element type"),
    ],
)
def test_what_cannot_be_added_is_refused(
    types: list[TensorType], members: int, problem: str
) -> None:
    with pytest.raises(TypeRuleError, match=problem):
        ALL_REDUCE.infer(types, AllReduceParams(members))
