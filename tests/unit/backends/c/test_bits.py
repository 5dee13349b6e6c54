"""The C writer and LLVM's give the same bits: the algorithms are the same, one instruction each.

The judge is LLVM's code for the same machine. What is compared shares the loops, not the writers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import find_compiler
from graphc.backends.c import runtime as c_runtime
from graphc.backends.c.target import c_host, c_target
from graphc.backends.llvm import runtime as llvm_runtime
from graphc.backends.llvm.runtime import compile_function as compile_by_llvm
from graphc.backends.native import NativeFunction
from graphc.driver.options import CompileOptions
from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.ir.types import DType
from graphc.learn.step import compile_training_step
from tests.conformance.check import module_of, operands_for
from tests.support.c_functions import compile_together
from tests.support.compiling import call, load_backend, lowered_for
from tests.support.op_table import ROWS, Case, N, Row
from tests.support.random_functions import make_function
from tests.support.random_loops import make_loops

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.skipif(find_compiler() is None, reason="no C compiler"),
]

EACH = 7
"""Of the uses of an operation in the table, one in so many; the shapes stand in a fixed order."""


def assert_same(name: str, got: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    """The same bits; of nan any."""
    for result, value in wanted.items():
        mine, judge = np.ascontiguousarray(got[result]), np.ascontiguousarray(value)
        if mine.dtype.kind == "f":
            mine, judge = np.where(mine == mine, mine, 0), np.where(judge == judge, judge, 0)
            assert np.array_equal(np.isnan(got[result]), np.isnan(value)), f"{name}: {result}"
        assert mine.tobytes() == judge.tobytes(), f"{name}: {result}"


def both(modules: Sequence[Module]) -> Iterator[tuple[NativeFunction, NativeFunction]]:
    """Each function by C and by LLVM."""
    backend = load_backend("c")
    assert not isinstance(backend, str)
    lowered = [lowered_for(backend, module) for module in modules]
    for mine, (function, signature) in zip(compile_together(lowered), lowered, strict=True):
        yield mine, compile_by_llvm(function, signature, c_host())


def uses(row: Row, dtype: DType) -> list[Case]:
    return [case for case in row.cases(dtype) if case.samples == 5][::EACH]


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("start", range(4))
def test_operations(start: int, dtype: DType) -> None:
    rows = [row for row in ROWS if dtype in row.dtypes][start::4]
    chosen = [(row, case) for row in rows for case in uses(row, dtype)]
    assert len(chosen) >= 20
    pairs = both([module_of(row, case) for row, case in chosen])
    for (row, case), (mine, judge) in zip(chosen, pairs, strict=True):
        for fill in ("ordinary", "special") if case.types else ("ordinary",):
            given = {f"x{i}": x for i, x in enumerate(operands_for(row, case, fill, 1))}
            sizes = {N.name: case.samples}
            results = [call(f, f.signature, given, sizes) for f in (mine, judge)]
            assert_same(f"{row.op.name} {case.name} {fill}", *results)


def test_random_functions() -> None:
    made = [make_function(seed, exact=False) for seed in range(40)]
    pairs = both([clone_module(m.module) for m in made])
    for seed, (one, (mine, judge)) in enumerate(zip(made, pairs, strict=True)):
        results = [call(f, f.signature, one.arguments, one.sizes) for f in (mine, judge)]
        assert_same(f"seed {seed}", *results)


def test_random_loops() -> None:
    made = [make_loops(seed) for seed in range(20)]
    pairs = both([clone_module(m.module) for m in made])
    for seed, (one, (mine, judge)) in enumerate(zip(made, pairs, strict=True)):
        results = [call(f, f.signature, one.arguments, one.sizes) for f in (mine, judge)]
        assert_same(f"seed {seed}", *results)


NETWORKS = {
    "layers": """
x = Input(37, tag=feature)
y = Input(5, tag=label)
W = LearnableParameter(70, 37, init=uniform, initValueScale=1)
V = LearnableParameter(5, 70, init=uniform, initValueScale=1)
b = LearnableParameter(70, 1, init=uniform, initValueScale=1)
h = Sigmoid(Plus(Times(W, x), b))
z = Times(V, h)
ce = CrossEntropyWithSoftmax(y, z, tag=criterion)
""",
    "images": """
x = ImageInput(9, 8, 2, tag=feature)
y = Input(3, tag=label)
K = LearnableParameter(6, 18, init=uniform, initValueScale=1)
V = LearnableParameter(3, 96, init=uniform, initValueScale=1)
c = Convolution(K, x, 3, 3, 6, 1, 1, zeroPadding=true)
p = MaxPooling(RectifiedLinear(c), 2, 2, 2, 2)
z = Times(V, Dropout(p))
ce = CrossEntropyWithSoftmax(y, z, tag=criterion)
""",
    "recurrent": """
x = Input(7, tag=feature)
y = Input(3, tag=label)
W = LearnableParameter(20, 7, init=uniform, initValueScale=1)
R = LearnableParameter(20, 20, init=uniform, initValueScale=1)
V = LearnableParameter(3, 20, init=uniform, initValueScale=1)
h = Tanh(Plus(Times(W, x), Times(R, PastValue(20, h))))
z = Times(V, h)
ce = CrossEntropyWithSoftmax(y, z, tag=criterion)
""",
}


def training(name: str, backend: str, precision: str) -> dict[str, np.ndarray]:
    """Losses and parameters after some minibatches on invented data."""
    network = gc.loads(NETWORKS[name])
    rng = np.random.default_rng(3)
    features = {"layers": 37, "images": 144, "recurrent": 7}[name]
    classes = {"layers": 5}.get(name, 3)
    lengths = [4, 9, 1, 6, 5] if name == "recurrent" else [12] * 5
    x = [rng.standard_normal((n, features)).astype(precision) for n in lengths]
    y = [np.eye(classes, dtype=precision)[rng.integers(0, classes, n)] for n in lengths]
    learner = gc.SGD(0.1, momentum=0.9)
    options = CompileOptions(
        backend=backend,
        precision=DType(precision.replace("loat", "")),
        time=9 if name == "recurrent" else 0,
        sequences=5 if name == "recurrent" else 1,
        machine=c_host().machine,
    )
    step = compile_training_step(network.model, learner, options, dropout=0.25)
    calls = [(x, y)] * 3 if name == "recurrent" else zip(x, y, strict=True)
    losses = [step(x=a, y=b)["ce"] for a, b in calls]
    return {"losses": np.asarray(losses), **network.model.values}


@pytest.mark.parametrize(
    ("name", "precision"), list(itertools.product(NETWORKS, ["float32", "float64"]))
)
def test_training(name: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Masked loads, which C has not, add what is left of a row in another order. Both get schedules
    # for a machine without them, and LLVM's code is for that machine too.
    monkeypatch.setattr(llvm_runtime, "host_target", c_host)
    mine, judge = (training(name, backend, precision) for backend in ("c", "llvm"))
    assert set(mine) == set(judge)
    assert_same(name, mine, judge)


def test_the_machine_without_fused_products() -> None:
    """The narrowest machine, by both."""
    backend = load_backend("c")
    assert not isinstance(backend, str)
    target = c_target("x86-64") if c_host().triple.startswith("x86_64") else c_host()
    made = [make_function(seed, exact=False) for seed in range(40, 50)]
    for one in made:
        function, signature = lowered_for(backend, clone_module(one.module))
        mine = c_runtime.compile_function(function, signature, target)
        judge = compile_by_llvm(function, signature, target)
        results = [call(f, signature, one.arguments, one.sizes) for f in (mine, judge)]
        assert_same("narrow", *results)
