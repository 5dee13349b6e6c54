"""Update rules of learners, as formulas that emit tensor operations.

A rule takes gradient, parameter, states and numbers to the new parameter and states. Gradients are
of the criterion's sum over the minibatch, rates are per sample (the toolkit's convention) where a
rule does not say otherwise. `learner_terms.py` has what goes with any rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.ir.core import IRBuilder, Value
from graphc.ops.formula import Formula, largest, mean, smallest, sqrt, where

UpdateRule = Callable[
    [IRBuilder, Value, Value, Sequence[Value], Mapping[str, Value]], tuple[Value, list[Value]]
]
State = Mapping[str, Formula]
FormulaRule = Callable[[Formula, Formula, State, State], tuple[Formula, State]]
"""(gradient, parameter, state, numbers) -> (parameter, state)"""

ADAGRAD_FLOOR = 1e-16
RMSPROP_FLOOR = 1e-6
RMSPROP_FIRST_SIZE = 0.02


@dataclass(frozen=True)
class Rule:
    """What is compiled into a training step for every parameter.

    states   one tensor of the parameter's shape each, zero at start
    numbers  given at every call: tensors of one element with the parameter's rank
    update   (builder, gradient, parameter, states, numbers) -> (the new parameter, new states)
    lazy     where the gradient is a sum of lookups, the rule is for the rows that are looked up:
             the others keep their states too (the toolkit's rule of momentum with sparse gradients)
    """

    name: str
    summary: str
    states: tuple[str, ...]
    numbers: tuple[str, ...]
    update: UpdateRule
    lazy: bool = False


@dataclass(frozen=True)
class Written:
    """The `update` of a rule that is written as a formula."""

    rule: FormulaRule
    states: tuple[str, ...]

    def __call__(
        self,
        b: IRBuilder,
        gradient: Value,
        parameter: Value,
        states: Sequence[Value],
        numbers: Mapping[str, Value],
    ) -> tuple[Value, list[Value]]:
        new, new_states = self.rule(
            Formula(b, gradient),
            Formula(b, parameter),
            {name: Formula(b, s) for name, s in zip(self.states, states, strict=True)},
            {name: Formula(b, n) for name, n in numbers.items()},
        )
        return new.value, [new_states[name].value for name in self.states]


def _sgd(g: Formula, w: Formula, state: State, numbers: State) -> tuple[Formula, State]:
    """v ← (1 - μ) lr g + μ v;  w ← w - v: momentum of unit gain, the rate folded into v."""
    rate, momentum = numbers["learning_rate"], numbers["momentum"]
    velocity = (1 - momentum) * rate * g + momentum * state["velocity"]
    return w - velocity, {"velocity": velocity}


def _stepping(g: Formula, w: Formula, state: State, numbers: State) -> tuple[Formula, State]:
    """d ← β g + (1 - β) d;  w ← w - s d."""
    size, beta = numbers["learning_rate"], numbers["beta"]
    rest = 1 - beta
    direction = beta * g + rest * state["direction"]
    return w - size * direction, {"direction": direction}


def _adagrad(
    g: Formula, w: Formula, state: State, numbers: State, *, normalised: bool
) -> tuple[Formula, State]:
    """s ← s + g²;  w ← w - lr / a · g / √(s + 1e-16), a the mean of 1 / √(s + 1e-16), or 1."""
    squares = state["squares"] + g * g
    root = sqrt(squares + ADAGRAD_FLOOR)
    rate = numbers["learning_rate"]
    if normalised:
        rate = rate / mean(1 / root)
    return w - rate * (g / root), {"squares": squares}


def _rmsprop(
    g: Formula, w: Formula, state: State, numbers: State, *, normalised: bool
) -> tuple[Formula, State]:
    """r ← γ r + (1 - γ) g²;  the element's size grows where its sign stays, else it shrinks;
    m = size / √(r + 1e-6);  w ← w - lr / a · m g, a the mean of m, or 1.

    A size is never 0 once it was computed, so 0 says that the element is new.
    """
    known = state["size"] > 0.0
    squared, gamma = g * g, numbers["gamma"]
    average = gamma * where(known, state["average"], squared) + (1 - gamma) * squared
    before = where(known, state["size"], RMSPROP_FIRST_SIZE)
    sign = where(g > 0.0, 1.0, where(g < 0.0, -1.0, 0.0 * g))
    size = where(
        sign * state["sign"] > 0.0,
        smallest(before * numbers["grow"], numbers["most"]),
        largest(before * numbers["shrink"], numbers["least"]),
    )
    multiplier = size / sqrt(average + RMSPROP_FLOOR)
    rate = numbers["learning_rate"]
    if normalised:
        rate = rate / mean(multiplier)
    new = w - rate * (multiplier * g)
    return new, {"average": average, "size": size, "sign": sign}


def _adam(g: Formula, w: Formula, state: State, numbers: State) -> tuple[Formula, State]:
    """With ĝ = g / N:  m ← β₁ m + (1 - β₁) ĝ;  v ← β₂ v + (1 - β₂) ĝ²;
    w ← w - lr (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε), in the t-th update."""
    beta1, beta2 = numbers["beta1"], numbers["beta2"]
    average = g * numbers["share"]
    first = beta1 * state["first"] + (1 - beta1) * average
    second = beta2 * state["second"] + (1 - beta2) * (average * average)
    root = sqrt(second * numbers["correction2"]) + numbers["epsilon"]
    step = numbers["learning_rate"] * numbers["correction1"]
    return w - step * (first / root), {"first": first, "second": second}


def _adamw(g: Formula, w: Formula, state: State, numbers: State) -> tuple[Formula, State]:
    """w ← (1 - lr λ) w, then Adam's step: the decay does not go through the moments."""
    kept = (1 - numbers["learning_rate"] * numbers["decay"]) * w
    return _adam(g, kept, state, numbers)


def _rule(
    name: str,
    summary: str,
    states: tuple[str, ...],
    numbers: tuple[str, ...],
    formula: FormulaRule,
    *,
    lazy: bool = False,
) -> Rule:
    return Rule(name, summary, states, numbers, Written(formula, states), lazy)


SGD = _rule(
    "sgd",
    "stochastic gradient descent with unit-gain momentum",
    ("velocity",),
    ("learning_rate", "momentum"),
    _sgd,
    lazy=True,
)
STEPPING_HEURISTIC = _rule(
    "stepping-heuristic",
    "steps along a moving average of gradients, their size chosen from the losses",
    ("direction",),
    ("learning_rate", "beta"),
    _stepping,
)
ADAGRAD = _rule(
    "adagrad",
    "each element's rate falls with the sum of its squared gradients",
    ("squares",),
    ("learning_rate",),
    lambda g, w, state, numbers: _adagrad(g, w, state, numbers, normalised=False),
    lazy=True,
)
NORMALISED_ADAGRAD = _rule(
    "normalised-adagrad",
    "AdaGrad whose multipliers have the mean 1 over a parameter",
    ADAGRAD.states,
    ADAGRAD.numbers,
    lambda g, w, state, numbers: _adagrad(g, w, state, numbers, normalised=True),
)
RMSPROP = _rule(
    "rmsprop",
    "gradients over their root mean square, times sizes that follow the signs",
    ("average", "size", "sign"),
    ("learning_rate", "gamma", "grow", "shrink", "least", "most"),
    lambda g, w, state, numbers: _rmsprop(g, w, state, numbers, normalised=False),
    lazy=True,
)
NORMALISED_RMSPROP = _rule(
    "normalised-rmsprop",
    "RmsProp whose multipliers have the mean 1 over a parameter",
    RMSPROP.states,
    RMSPROP.numbers,
    lambda g, w, state, numbers: _rmsprop(g, w, state, numbers, normalised=True),
)
_ADAM_NUMBERS = (
    "learning_rate",
    "beta1",
    "beta2",
    "epsilon",
    "share",
    "correction1",
    "correction2",
)
ADAM = _rule(
    "adam",
    "averages of gradients over roots of averages of their squares",
    ("first", "second"),
    _ADAM_NUMBERS,
    _adam,
)
ADAMW = _rule(
    "adamw",
    "Adam with decay of the parameters beside it",
    ("first", "second"),
    (*_ADAM_NUMBERS, "decay"),
    _adamw,
)
LAZY_ADAM = replace(ADAM, name="lazy-adam", lazy=True)
LAZY_ADAMW = replace(ADAMW, name="lazy-adamw", lazy=True)

LEARNERS: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        SGD,
        STEPPING_HEURISTIC,
        ADAGRAD,
        NORMALISED_ADAGRAD,
        RMSPROP,
        NORMALISED_RMSPROP,
        ADAM,
        LAZY_ADAM,
        ADAMW,
        LAZY_ADAMW,
    )
}
"""The rules that `apply-learner` knows by name."""
