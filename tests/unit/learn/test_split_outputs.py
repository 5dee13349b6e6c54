"""Members that split an output layer: as one that has all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import graphc as gc
from graphc.ir.core import Trait
from graphc.ir.printer import print_module
from graphc.learn.checkpoint import Checkpoint
from graphc.learn.learner import Learner
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.compiling import load_backend, parse

T = TypeVar("T")
Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm", "c")

LAYER = """
    x = Input(5)
    t = Input(7)
    U = Parameter(4, 5)
    W = Parameter(7, 4)
    b = Parameter(7, 1)
    z = Plus(Times(W, Tanh(Times(U, x))), b)
    e = CrossEntropyWithSoftmax(t, z, tag=criteria)
    r = ErrorPrediction(t, z, tag=eval)
"""
PLAIN = """
    x = Input(5)
    t = Input(7, tag=label)
    U = Parameter(4, 5)
    W = Parameter(7, 4)
    z = Times(W, Tanh(Times(U, x)))
    e = CrossEntropyWithSoftmax(t, z, tag=criteria)
    r = ErrorPrediction(t, z, tag=eval)
"""
NORMALISED = """
    x = Input(5)
    t = Input(7)
    W = Parameter(7, 5)
    s = Parameter(7, 1)
    b = Parameter(7, 1)
    m = Parameter(7, 1)
    v = Parameter(7, 1)
    z = BatchNormalization(Times(W, x), s, b, m, v, eval=false, spatial=false)
    e = CrossEntropyWithSoftmax(t, z, tag=criteria)
"""
LOOP = """
    x = Input(3)
    t = Input(7)
    U = Parameter(4, 3)
    R = Parameter(4, 4)
    W = Parameter(7, 4)
    h = Tanh(Plus(Times(U, x), Times(R, PastValue(4, 1, h))))
    e = CrossEntropyWithSoftmax(t, Times(W, h), tag=criteria)
"""
RNG = np.random.default_rng(0)
CALLS = [
    (RNG.standard_normal((9, 5)), np.eye(7)[RNG.integers(0, 7, 9)]),
    (RNG.standard_normal((9, 5)), RNG.random((9, 7))),
    (RNG.standard_normal((9, 5)), np.eye(7)[RNG.integers(0, 7, 9)]),
]
MOMENTUM = gc.SGD(learning_rate=0.1, momentum=0.9, l2=0.01)


class OnlySums:
    """A communicator that adds, and nothing else."""

    def __init__(self, member: gc.comm.Communicator) -> None:
        self.rank, self.size = member.rank, member.size
        self._member = member

    def all_reduce(self, array: Array) -> None:
        self._member.all_reduce(array)


def network(text: str) -> gc.Network:
    net = gc.loads(text)
    assert isinstance(net, gc.Network)
    return net


def together(count: int, work: Callable[[int, gc.comm.Communicator], T]) -> list[T]:
    members = gc.comm.threads(count, 30.0)
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(work, i, member) for i, member in enumerate(members)]
        return [future.result() for future in futures]


Trained = tuple[list[tuple[float, float]], dict[str, Array]]


def steps(
    learner: Learner,
    backend: str,
    precision: str,
    ends: Sequence[int],
    member: gc.comm.Communicator | None = None,
    text: str = LAYER,
    calls: Sequence[tuple[Array, Array]] = CALLS,
) -> Trained:
    """Criteria, and all arrays afterwards."""
    net = network(text)
    step = gc.compile_training(
        net,
        learner=learner,
        backend=backend,
        precision=precision,
        batch=9,
        threads=1,
        comm=member,
        split="W" if member is not None else (),
    )
    step.nominal = 9
    here = slice(*ends) if member is None else slice(ends[member.rank], ends[member.rank + 1])
    results = [step(x=x[here], t=t[here]) for x, t in calls]
    assert step.is_split == (member is not None)
    step.gather()
    arrays = {n: np.array(v) for n, v in {**net.parameters, **step.learner_state}.items()}
    return [(float(r["e"]), float(r["r"])) for r in results], arrays


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("learner", "cuts", "precision"),
    [
        (MOMENTUM, (0, 4, 9), "f64"),
        (MOMENTUM, (0, 4, 9), "f32"),
        (gc.Adam(0.1), (0, 0, 6, 9), "f64"),
        (gc.SGD(learning_rate=0.1, clip=gc.ClipGlobalNorm(0.5)), (0, 3, 9), "f64"),
        (gc.SGD(learning_rate=0.1, noise=0.1, l1=0.01), (0, 3, 9), "f64"),
    ],
)
def test_members_take_the_step_of_one(
    backend: str, learner: Learner, cuts: Sequence[int], precision: str
) -> None:
    """7 outputs of 2 and 3 members; a member without samples; dense labels in the second call."""
    loaded = load_backend(backend)
    if isinstance(loaded, str):
        pytest.skip(loaded)
    criteria, arrays = steps(learner, backend, precision, (0, 9))
    relative, absolute = (1e-12, 1e-13) if precision == "f64" else (1e-5, 1e-6)
    all_members = together(
        len(cuts) - 1, lambda _, member: steps(learner, backend, precision, cuts, member)
    )
    for found, its in all_members:
        np.testing.assert_allclose(found, criteria, relative)
        for name, array in arrays.items():
            np.testing.assert_allclose(its[name], array, relative, absolute)
            assert np.array_equal(its[name], all_members[0][1][name])


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("cuts", [(0, 4, 9), (0, 9, 9)])
def test_class_numbers_and_rows_are_labels_of_a_layer_without_bias(
    backend: str, cuts: Sequence[int]
) -> None:
    """In turn, so that a call does not go by what the one before it was given."""
    numbers = [RNG.integers(0, 7, 9) for _ in range(4)]
    data = [RNG.standard_normal((9, 5)) for _ in numbers]
    rows = [np.eye(7)[n] for n in numbers]
    every = [(x, rows[i]) for i, x in enumerate(data)]
    in_turn = [(x, numbers[i] if i % 2 else rows[i]) for i, x in enumerate(data)]
    criteria, arrays = steps(MOMENTUM, backend, "f64", (0, 9), None, PLAIN, every)
    for found, its in together(
        2, lambda _, member: steps(MOMENTUM, backend, "f64", cuts, member, PLAIN, in_turn)
    ):
        np.testing.assert_allclose(found, criteria, 1e-12)
        for name, array in arrays.items():
            np.testing.assert_allclose(its[name], array, 1e-12, 1e-13)


def test_a_communicator_that_only_adds_is_enough() -> None:
    criteria, arrays = steps(MOMENTUM, "numpy", "f64", (0, 9))
    for found, its in together(
        2, lambda _, member: steps(MOMENTUM, "numpy", "f64", (0, 4, 9), OnlySums(member))
    ):
        np.testing.assert_allclose(found, criteria, 1e-12)
        for name, array in arrays.items():
            np.testing.assert_allclose(its[name], array, 1e-12, 1e-13)


LENGTHS = (4, 1, 3, 5, 2, 4)
STEPS: dict[str, object] = {
    "x": [RNG.standard_normal((n, 3)) for n in LENGTHS],
    "t": [np.eye(7)[RNG.integers(0, 7, n)] for n in LENGTHS],
}
ROWS: dict[str, object] = {"x": RNG.standard_normal((19, 5)), "t": RNG.integers(0, 7, 19)}
LABELLED = LAYER.replace("t = Input(7)", "t = Input(7, tag=label)")


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize(("text", "data", "minibatch"), [(LABELLED, ROWS, 6), (LOOP, STEPS, 2)])
def test_a_training_and_what_it_measures(
    backend: str, text: str, data: dict[str, object], minibatch: int, tmp_path: Path
) -> None:
    """Class numbers and sequences of other lengths on each member; validation and checkpoints have
    all outputs, and a training goes on from one."""

    def train(
        member: gc.comm.Communicator | None, epochs: int, name: str = "", *, resume: bool = False
    ) -> tuple[list[float], dict[str, Array]]:
        net = network(text)
        records = gc.train(
            net,
            data,
            learner=MOMENTUM,
            epochs=epochs,
            minibatch=minibatch,
            backend=backend,
            precision="f64",
            threads=1,
            validation=data,
            checkpoints=gc.Checkpoints(tmp_path / name, resume=resume) if name else None,
            comm=member,
            split="w" if member is not None else (),
        )
        valid = [r.validation.criterion for r in records if r.validation is not None]
        return [*(r.criterion for r in records), *valid], dict(net.parameters)

    criteria, parameters = train(None, 3)
    for found, its in together(2, lambda _, member: train(member, 3)):
        np.testing.assert_allclose(found, criteria, 1e-11)
        for name, array in parameters.items():
            np.testing.assert_allclose(its[name], array, 1e-11, 1e-12)
    together(2, lambda _, member: train(member, 2, "c"))
    for found, its in together(2, lambda _, member: train(member, 3, "c", resume=True)):
        np.testing.assert_allclose(found, criteria, 1e-11)
        for name, array in parameters.items():
            np.testing.assert_allclose(its[name], array, 1e-11, 1e-12)


@dataclass
class Kept:
    """Checkpoints in memory, and one to go on from."""

    first: Checkpoint | None = None
    written: list[Checkpoint] = field(default_factory=list[Checkpoint])

    def newest(self) -> Checkpoint | None:
        return self.first

    def write(self, checkpoint: Checkpoint) -> None:
        values = {n: np.array(a) for n, a in checkpoint.values.items()}
        learner = {n: np.array(a) for n, a in checkpoint.learner.items()}
        self.written.append(replace(checkpoint, values=values, learner=learner))


def test_checkpoints_inside_an_epoch_have_all_outputs_and_are_gone_on_from() -> None:
    def train(
        member: gc.comm.Communicator | None, first: Checkpoint | None = None
    ) -> list[Checkpoint]:
        kept = Kept(first)
        gc.train(
            network(LABELLED),
            ROWS,
            learner=MOMENTUM,
            epochs=2,
            minibatch=6,
            backend="numpy",
            precision="f64",
            checkpoints=gc.Checkpoints(kept, minutes=0, resume=first is not None),
            comm=member,
            split="W" if member is not None else (),
        )
        return kept.written

    def compare(wanted: Sequence[Checkpoint], found: Sequence[Checkpoint]) -> None:
        assert [c.steps for c in found] == [c.steps for c in wanted]
        for one, other in zip(wanted, found, strict=True):
            arrays = {**one.values, **one.learner}
            assert {"W", "b", "velocity.W", "velocity.b"} <= arrays.keys()
            for name, array in {**other.values, **other.learner}.items():
                np.testing.assert_allclose(array, arrays[name], 1e-11, 1e-12)

    alone = train(None)
    written, none = together(2, lambda _, member: train(member))
    assert not none
    assert len(alone) == 8  # four minibatches in each of two epochs
    compare(alone, written)
    inside = written[1]
    rest, _ = together(2, lambda _, member: train(member, inside))
    compare(alone[2:], rest)


@pytest.mark.parametrize(
    ("split", "text", "count", "slug", "said"),
    [
        ("W", NORMALISED, 2, "not-supported", "a number of a member's own samples at `z`"),
        ("V", LAYER, 2, "missing-node", "V"),
        ("x", LAYER, 2, "bad-option", "parameters that are trained"),
        ("U", LAYER, 2, "not-supported", "along its columns"),
        ("W", LAYER, 8, "bad-option", "7 outputs, too few for 8 members"),
    ],
)
def test_what_cannot_be_split_is_refused(
    split: str, text: str, count: int, slug: str, said: str
) -> None:
    def refused(_: int, member: gc.comm.Communicator) -> tuple[str, str]:
        with pytest.raises(gc.GraphcError) as raised:
            gc.compile_training(network(text), learner=MOMENTUM, comm=member, split=split)
        return raised.value.diagnostics[0].slug, str(raised.value)

    for found, text_of in together(count, refused):
        assert found == slug
        assert said in text_of


def test_what_splitting_does_not_go_with() -> None:
    def slug_of(**given: object) -> str:
        with pytest.raises(gc.GraphcError) as raised:
            gc.compile_training(network(LAYER), learner=MOMENTUM, split="W", **given)  # type: ignore[arg-type]
        return raised.value.diagnostics[0].slug

    assert slug_of() == "bad-option"
    assert slug_of(comm=gc.comm.alone(shards=2)) == "bad-option"
    assert slug_of(comm=gc.comm.threads(2, wire="bf16")[0]) == "bad-option"


def test_members_that_average_and_programs_split_nothing() -> None:
    def slug_of(model: gc.Network | gc.Program, data: object, **given: object) -> str:
        with pytest.raises(gc.GraphcError) as raised:
            member = gc.comm.alone()
            gc.train(model, data, learner=MOMENTUM, epochs=1, split="W", comm=member, **given)  # type: ignore[arg-type]
        return raised.value.diagnostics[0].slug

    x, t = CALLS[0]
    data = {"x": x, "t": t}
    assert slug_of(network(LAYER), data, averaging=gc.ModelAveraging(9)) == "bad-option"

    def loss(x: Any, W: Any) -> Any:
        return gc.sum((x @ W) ** 2)

    program = gc.program(loss, {"x": "Nx5xf64"}, parameters={"W": x[:5, :2]})
    assert slug_of(program, {"x": x}) == "not-supported"


# --- in the IR ---

STEP = """\
dim N <= 8
func @f(%h: tensor<Nx4xf64> input, %W: tensor<7x4xf64> parameter)
    -> (s: tensor<1x1xf64>, W: tensor<7x4xf64> updates %W) {
  %z = matmul %h, %W {transpose_b = true} : tensor<Nx7xf64>
  %m = reduce_max %z {axes = [1]} : tensor<Nx1xf64>
  %s = reduce_sum %m {axes = [0, 1]} : tensor<1x1xf64>
  %g = matmul %z, %h {transpose_a = true} : tensor<7x4xf64>
  %total, %sum = all_reduce %s, %g {members = 2} : tensor<1x1xf64>, tensor<7x4xf64>
  %new = sub %W, %sum : tensor<7x4xf64>
  return %total, %new
}
"""


def test_a_step_before_and_after() -> None:
    module = parse(STEP)
    passes = pipeline('split-outputs{parameters = ["W"], member = 1, members = 2}, dce')
    PassManager(passes, verify=True).run(module, default_context())
    (function,) = module.functions
    names = [op.opdef.name for op in function.block if not op.opdef.has(Trait.TERMINATOR)]
    wanted = "all_gather matmul reduce_max all_fold reduce_sum matmul sub"
    assert names == wanted.split()
    text = print_module(module)
    assert "%W: tensor<4x4xf64> parameter" in text
    assert "tensor<NALLx4xf64>" in text
