"""`minimize`: steps of a learner downhill on a function of arrays.

Loss and gradient are one compiled function, the learner's rule (`ops/learners.py`) on all arrays
is another. The learner observes a loss before it gives the size of the step that follows, so here
the stepping heuristic is exactly its Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from numbers import Integral
from typing import Any

import numpy as np

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import DType
from graphc.learn.learner import Learner, require_learner
from graphc.ops.constant import full_like
from graphc.ops.learner_terms import NEUTRAL, Terms, clip_norms, updated
from graphc.ops.learners import Rule
from graphc.ops.movement import reshape
from graphc.support.arguments import function, kind_error
from graphc.support.diagnostics import fail
from graphc.tensor.function import ArrayFunction, as_function
from graphc.tensor.numeric import choose, convert
from graphc.tensor.tensor import Tensor
from graphc.tensor.transforms import value_and_grad
from graphc.tensor.trees import Structure, flatten, unflatten

Array = np.ndarray


@dataclass(frozen=True)
class Minimum:
    """Where the steps ended.

    x       as `x0`: an array, or containers of arrays
    loss    the function's value there, for the last of the batches
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
    batches: Iterable[Sequence[object]] | None = None,
    mask: object = None,
    progress: Callable[[int, float], object] = lambda step, loss: None,
) -> Minimum:
    """Go from `x0` downhill on `f(x, *arguments)`, a function of arrays whose value is one number.

    x0         an array or float, or tuples, lists and dicts of them; left as it is
    learner    any; its rates are per call, and a call is one sample
    steps      how many are taken
    tolerance  no more steps are taken once none has moved an element by more than this; 0: all are
    batches    further arguments of `f`, other ones for each step: `f(x, *arguments, *batch)`; the
               steps end with the last batch
    mask       which elements move: as `x0`, with arrays of truth values that broadcast to its own;
               None in the place of an array, or of them all, lets all its elements move
    progress   called with the number of each step, from 0, and the loss before it; True ends the
               steps before this one

    `f` may be a plain function or a `gc.function`, whose backend and precision are then used. A
    loss that is no number ends the steps: GraphcError `not-a-number`.
    """
    _check(learner, steps, tolerance)
    _require_several(arguments, "arguments")
    function(progress, "progress")
    try:
        further = repeat(()) if batches is None else iter(batches)
    except TypeError:
        raise kind_error("batches", "a list of lists of arguments", batches) from None
    base = as_function(f)
    slope = value_and_grad(base)
    point = _Point.of(base, learner, x0, mask)
    losses: list[float] = []
    given = tuple(arguments)
    for step, batch in zip(range(steps), further, strict=False):
        given = (*arguments, *_require_several(batch, "each of batches"))
        value, gradient = slope(point.value, *given)
        loss = float(value)
        _require_number(loss, step)
        if progress(step, loss) is True:
            break
        losses.append(loss)
        learner.observe(loss)
        old = point.x
        point.move(gradient)
        if tolerance and _largest_move(old, point.x) <= tolerance:
            break
    loss = float(base(point.value, *given))
    _require_number(loss, len(losses))
    return Minimum(point.value, loss, np.array(losses))


@dataclass
class _Point:
    """Where the steps are: the arrays, and what the learner's rule keeps of each."""

    learner: Learner
    update: ArrayFunction
    structure: Structure
    x: list[Any]
    masks: Sequence[Array]
    states: list[Any]
    steps: int = 0

    @staticmethod
    def of(base: ArrayFunction, learner: Learner, x0: object, mask: object) -> _Point:
        leaves, structure = flatten(x0)
        x = [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
        masks = _masks(mask, leaves, structure)
        update = _step_function(base, learner.rule, learner.terms, len(x))
        return _Point(learner, update, structure, x, masks, [])

    @property
    def value(self) -> Any:
        """As `x0`."""
        return unflatten(self.structure, self.x)

    def move(self, gradient: object) -> None:
        """One step of the learner."""
        rule = self.learner.rule
        slopes, _ = flatten(gradient)
        if not self.states:
            self.states = [np.zeros_like(g)[()] for _ in rule.states for g in slopes]
        numbers = NEUTRAL | self.learner.hyperparameters(1, 1, self.steps)
        self.steps += 1
        hyperparameters = [float(numbers[n]) for n in _names(rule, self.learner.terms)]
        moved = self.update(*self.x, *slopes, *self.states, *hyperparameters, *self.masks)
        count = len(self.x)
        self.x, self.states = list(moved[:count]), list(moved[count:])


def _check(learner: object, steps: object, tolerance: object) -> None:
    """For callers without a type checker too."""
    if require_learner(learner).terms.noise:
        raise fail("bad-option", "noise is for the parameters of networks: minimize takes none")
    if not isinstance(steps, Integral) or steps < 0:
        raise fail("bad-value", f"steps requires a whole number of at least 0, got {steps!r}")
    if not isinstance(tolerance, int | float) or not 0 <= tolerance < math.inf:
        raise fail(
            "bad-value", f"tolerance requires a finite number of at least 0, got {tolerance!r}"
        )


def _require_several(given: Sequence[object], what: str) -> Sequence[object]:
    """Arguments in a list: one array alone would be taken apart into its rows."""
    if not isinstance(given, list | tuple):
        raise kind_error(what, "a list or tuple of arguments", given)
    return given


def _require_number(loss: float, step: int) -> None:
    if not math.isfinite(loss):
        raise fail(
            "not-a-number",
            f"the loss is {loss} after {step} steps; a smaller rate or another start may help",
        )


def _masks(mask: object, leaves: Sequence[object], structure: Structure) -> list[Array]:
    """An array of truth values for each leaf; none at all without a mask."""
    if mask is None:
        return []
    flat, found = flatten(mask)
    if found != structure:
        raise fail("argument-type", "a mask requires the structure of x0")
    return [_one_mask(m, np.shape(leaf)) for m, leaf in zip(flat, leaves, strict=True)]  # type: ignore[arg-type]


def _one_mask(mask: object, shape: tuple[int, ...]) -> Array:
    array = np.asarray(True if mask is None else mask)
    if array.dtype != np.bool_:
        raise fail("argument-type", f"a mask requires truth values, got {array.dtype}")
    try:
        return np.broadcast_to(array, shape).copy()
    except ValueError:
        raise fail("shape-mismatch", f"a mask of {shape} is required, got {array.shape}") from None


def _largest_move(old: Sequence[Any], new: Sequence[Any]) -> float:
    moves = [np.abs(np.subtract(b, a)) for a, b in zip(old, new, strict=True)]
    return max((float(np.max(m, initial=0.0)) for m in moves), default=0.0)


# --- the compiled update -------------------------------------------------------------------------


def _names(rule: Rule, terms: Terms) -> tuple[str, ...]:
    """The numbers of a step."""
    return (*rule.numbers, *terms.numbers)


def _step_function(base: ArrayFunction, rule: Rule, terms: Terms, count: int) -> ArrayFunction:
    """(arrays, gradients, states, numbers[, masks]) to (arrays, states), in the options of `base`.

    All are laid out one after the other, states kind by kind: calls with arrays alone are quick.
    """

    def step(*given: Any) -> tuple[Tensor, ...]:
        rest = iter(given)
        x, slopes = _taken(rest, count), _taken(rest, count)
        states = [_taken(rest, count) for _ in rule.states]
        names = _names(rule, terms)
        numbers = dict(zip(names, _taken(rest, len(names)), strict=True))
        masks = list(rest) or [None] * count
        trace, b = x[0].trace, x[0].trace.builder
        gradients = [_masked(b, g.value, m) for g, m in zip(slopes, masks, strict=True)]
        if terms.clip in ("norm", "global-norm"):
            gradients = _clipped(b, terms, gradients, numbers)
        new: list[list[Tensor]] = []
        for i, gradient in enumerate(gradients):
            tables = [x[i].value, *(kind[i].value for kind in states)]
            made = _updated(b, rule, terms, gradient, tables, numbers)
            if (mask := masks[i]) is not None:
                made[0] = choose(b, mask.value, made[0], x[i].value)
            new.append([Tensor(trace, value) for value in made])
        return tuple(parts[k] for k in range(1 + len(rule.states)) for parts in new)

    def make(_base: ArrayFunction) -> Callable[..., object]:
        return step

    return base.derive(("minimize", rule, terms, count), make)


def _masked(b: IRBuilder, gradient: Value, mask: Tensor | None) -> Value:
    """Not a product: what does not move may have a gradient that is no number."""
    if mask is None:
        return gradient
    return choose(b, mask.value, gradient, full_like(b, 0.0, gradient))


def _clipped(
    b: IRBuilder, terms: Terms, gradients: Sequence[Value], numbers: Mapping[str, Tensor]
) -> list[Value]:
    """With their norms held to the threshold. Arrays of any rank meet as columns."""
    columns = [reshape(b, g, (g.tensor.bound_elements, 1)) for g in gradients]
    made = clip_norms(b, terms, columns, _as_elements(b, numbers, columns[0]))
    return [reshape(b, c, g.tensor.dims) for c, g in zip(made, gradients, strict=True)]


def _taken(given: Iterator[Tensor], count: int) -> list[Tensor]:
    return list(islice(given, count))


def _updated(
    b: IRBuilder,
    rule: Rule,
    terms: Terms,
    gradient: Value,
    tables: Sequence[Value],
    numbers: Mapping[str, Tensor],
) -> list[Value]:
    """The new array, then its new states."""
    return updated(b, rule, terms, gradient, tables, _as_elements(b, numbers, gradient))


def _as_elements(b: IRBuilder, numbers: Mapping[str, Tensor], like: Value) -> dict[str, Value]:
    type = like.tensor
    return {n: _one_element(b, v.value, type.rank, type.dtype) for n, v in numbers.items()}


def _one_element(b: IRBuilder, number: Value, rank: int, dtype: DType) -> Value:
    """A number as rules take their hyperparameters: one element with the rank of the parameter."""
    return reshape(b, convert(b, number, dtype), (1,) * rank)
