"""The entry of a long function is written in parts."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc
from graphc.backends.llvm.text import Module
from graphc.backends.loops import entry
from graphc.driver.options import CompileOptions
from graphc.driver.profile import Profile
from graphc.learn.step import compile_training_step

pytestmark = pytest.mark.llvm

PLAIN = """x = Input(5)
t = Input(3)
W0 = Parameter(4, 5)
W1 = Parameter(3, 4)
b = Parameter(4, 1)
h = Sigmoid(Plus(Times(W0, x), b))
z = Times(W1, h)
c = CrossEntropyWithSoftmax(t, z, tag=criterion)
"""
RECURRENT = """x = Input(5)
t = Input(3)
W0 = Parameter(4, 5)
R = Parameter(4, 4)
W1 = Parameter(3, 4)
p = PastValue(4, 1, h)
h = Tanh(Plus(Times(W0, x), Times(R, p)))
z = Times(W1, h)
c = CrossEntropyWithSoftmax(t, z, tag=criterion)
"""
RANDOM = np.random.default_rng(8)
X = RANDOM.standard_normal((6, 5)).astype(np.float32)
T = np.eye(3, dtype=np.float32)[RANDOM.integers(0, 3, 6)]


def trained(text: str, time: int, profile: Profile | None = None) -> list[np.ndarray]:
    network = gc.loads(text)
    options = CompileOptions(batch=8, time=time, profile=profile)
    step = compile_training_step(network.model, gc.SGD(0.1, momentum=0.9), options)
    for _ in range(3):
        step(x=[X], t=[T]) if time else step(x=X, t=T)
    return [network.parameters[name] for name in ("W0", "W1")]


@pytest.mark.parametrize(("text", "time"), [(PLAIN, 0), (RECURRENT, 6)])
@pytest.mark.parametrize("operations", [1, 2, 3, 7])
def test_a_function_in_parts_computes_the_same_bits(
    text: str, time: int, operations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = trained(text, time)
    monkeypatch.setattr(entry, "PART_OPERATIONS", operations)
    for a, b in zip(trained(text, time), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_times_of_all_parts_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, parts = Profile(), Profile()
    trained(PLAIN, 0, whole)
    monkeypatch.setattr(entry, "PART_OPERATIONS", 2)
    trained(PLAIN, 0, parts)
    assert [r.operation for r in parts.rows()] == [r.operation for r in whole.rows()]
    assert {r.calls for r in parts.rows()} == {3}


def test_what_is_made_for_a_key_is_made_once() -> None:
    module, made = Module("t"), []

    def make() -> str:
        made.append(1)
        return "@name"

    assert [module.once(("k", 1), make) for _ in range(3)] == ["@name"] * 3
    assert module.once(("k", 2), make) == "@name"
    assert len(made) == 2
