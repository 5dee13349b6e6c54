"""`minimize`: steps of a learner downhill on a function of arrays.

Loss and gradient are one compiled function, the learner's rule (`ops/learners.py`) on all arrays
is another. The learner observes a loss before it gives the size of the step that follows, so here
the stepping heuristic is exactly its Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import DType, TensorType
from graphc.learn.learner import Learner
from graphc.ops.constant import full_like
from graphc.ops.elementwise import add, mul
from graphc.ops.learners import LEARNERS
from graphc.ops.learners import Learner as Rule
from graphc.ops.movement import reshape
from graphc.support.diagnostics import fail
from graphc.tensor.function import ArrayFunction, as_function
from graphc.tensor.numeric import convert
from graphc.tensor.tensor import Tensor
from graphc.tensor.transforms import value_and_grad
from graphc.tensor.trees import flatten, unflatten

Array = np.ndarray


@dataclass(frozen=True)
class Minimum:
    """Where the steps ended.

    x       as `x0`: an array, or containers of arrays
    loss    the function's value there
    losses  its value before each step, f64[steps]
    """

    x: Any
    loss: float
    losses: Array

    @property
    def steps(self) -> int:
        return len(self.losses)


def minimize(
    f: Callable[..., Any],
    x0: Any,
    *,
    learner: Learner,
    steps: int = 1000,
    tolerance: float = 0.0,
    arguments: Sequence[object] = (),
    progress: Callable[[int, float], None] = lambda step, loss: None,
) -> Minimum:
    """Go from `x0` downhill on `f(x, *arguments)`, a function of arrays whose value is one number.

    x0         an array or float, or tuples, lists and dicts of them; left as it is
    learner    `SGD` or `SteppingHeuristic`; its rates are per call
    steps      how many are taken
    tolerance  no more steps are taken once none has moved an element by more than this; 0: all are
    progress   called with the number of each step, from 0, and the loss before it

    `f` may be a plain function or a `gc.function`, whose backend and precision are then used. A
    loss that is no number ends the steps: GraphcError `not-a-number`.
    """
    _check(learner, steps, tolerance)
    base = as_function(f)
    slope = value_and_grad(base)
    leaves, structure = flatten(x0)
    x: list[Any] = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
    rule = LEARNERS[learner.rule]
    states: list[Any] = []
    step_of = _step_function(base, rule, learner.l2, len(x))
    losses: list[float] = []
    for step in range(steps):
        loss, gradient = slope(unflatten(structure, x), *arguments)
        _require_number(float(loss), step)
        losses.append(float(loss))
        progress(step, float(loss))
        learner.observe(float(loss))
        slopes, _ = flatten(gradient)
        if not states:
            states = [np.zeros_like(g)[()] for _ in rule.states for g in slopes]
        numbers = learner.settings(1, 1)
        settings = [float(numbers[name]) for name in rule.settings]
        moved = step_of(*x, *slopes, *states, *settings)
        old, x, states = x, list(moved[: len(x)]), list(moved[len(x) :])
        if tolerance and _largest_move(old, x) <= tolerance:
            break
    found = unflatten(structure, x)
    loss = float(base(found, *arguments))
    _require_number(loss, len(losses))
    return Minimum(found, loss, np.array(losses))


def _check(learner: object, steps: object, tolerance: object) -> None:
    """For callers without a type checker too."""
    if not isinstance(learner, Learner):
        raise fail("argument-type", f"a learner is required, got {type(learner).__name__}")
    if not isinstance(steps, int) or steps < 0:
        raise fail("bad-value", f"steps requires a whole number of at least 0, got {steps!r}")
    if not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise fail(
            "bad-value", f"tolerance requires a finite number of at least 0, got {tolerance!r}"
        )


def _require_number(loss: float, step: int) -> None:
    if not math.isfinite(loss):
        raise fail(
            "not-a-number",
            f"the loss is {loss} after {step} steps; a smaller rate or another start may help",
        )


def _largest_move(old: Sequence[Any], new: Sequence[Any]) -> float:
    moves = [np.abs(np.subtract(b, a)) for a, b in zip(old, new, strict=True)]
    return max((float(np.max(m, initial=0.0)) for m in moves), default=0.0)


# --- the compiled update -------------------------------------------------------------------------


def _step_function(base: ArrayFunction, rule: Rule, l2: float, count: int) -> ArrayFunction:
    """(arrays, gradients, states, settings) to (arrays, states), in the options of `base`.

    All are laid out one after the other, states kind by kind: calls with arrays alone are quick.
    """

    def step(*given: Any) -> tuple[Tensor, ...]:
        tensors = [t for t in given if isinstance(t, Tensor)]
        kinds = len(rule.states)
        x, slopes = tensors[:count], tensors[count : 2 * count]
        states = tensors[2 * count : (2 + kinds) * count]
        settings = dict(zip(rule.settings, tensors[(2 + kinds) * count :], strict=True))
        new: list[list[Tensor]] = []
        for i in range(count):
            own = [states[k * count + i] for k in range(kinds)]
            new.append(_updated(rule, l2, x[i], slopes[i], own, settings))
        return tuple(parts[k] for k in range(1 + kinds) for parts in new)

    def make(_base: ArrayFunction) -> Callable[..., object]:
        return step

    return base.derive(("minimize", rule.name, l2, count), make)


def _updated(
    rule: Rule,
    l2: float,
    x: Tensor,
    slope: Tensor,
    states: Sequence[Tensor],
    settings: dict[str, Tensor],
) -> list[Tensor]:
    """The new array, then its new states."""
    trace, b = x.trace, x.trace.builder
    type = x.value.type
    assert isinstance(type, TensorType)
    numbers = {
        name: _one_element(b, number.value, type.rank, type.dtype)
        for name, number in settings.items()
    }
    gradient = slope.value
    if l2:
        gradient = add(b, gradient, mul(b, full_like(b, l2, gradient), x.value))
    new, new_states = rule.update(b, x.value, gradient, [s.value for s in states], numbers)
    return [Tensor(trace, value) for value in (new, *new_states)]


def _one_element(b: IRBuilder, number: Value, rank: int, dtype: DType) -> Value:
    """A number as rules take their settings: one element with the rank of the parameter."""
    return reshape(b, convert(b, number, dtype), (1,) * rank)
