"""`gc.learner`: a learner whose update rule is a Python function of arrays.

    def heavy_ball(gradient, parameter, state, settings):
        velocity = settings["friction"] * state["velocity"] - settings["learning_rate"] * gradient
        return parameter + velocity, {"velocity": velocity}

    learner = gc.learner(heavy_ball, states=("velocity",), settings={"friction": 0.9},
                         learning_rate=0.1)

The function is traced for every size of parameter, and goes into the training step as the rules of
graphc do: forward, backward and update are one function, on every backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from graphc.ir.core import Function, IRBuilder, Value
from graphc.ir.types import TensorType, TypeRuleError
from graphc.learn.clipping import Clip
from graphc.learn.curves import Curve, Rate
from graphc.learn.numbers import Number, Range, Update, along, read_number
from graphc.learn.rated import RatedLearner, number_along
from graphc.learn.schedule import Rates, Schedule
from graphc.ops.learners import Rule
from graphc.passes.rule_text import inlined
from graphc.support import arguments
from graphc.support.diagnostics import fail
from graphc.tensor.caller import definition_location
from graphc.tensor.promotion import is_number
from graphc.tensor.tensor import Tensor
from graphc.tensor.tracing import Trace, Traced

RuleFunction = Callable[[Any, Any, dict[str, Any], dict[str, Any]], tuple[Any, dict[str, Any]]]
"""(gradient, parameter, state, settings) -> (parameter, state), of arrays as in `gc.function`."""

GIVEN = ("learning_rate", "samples", "update")
"""Settings that every function has."""
PREFIX = "setting."
"""In the names of the step's arguments, which nodes and terms have their part in."""
ANY = Range(least=-math.inf, open=True)


def learner(
    function: RuleFunction,
    *,
    states: Sequence[str] = (),
    settings: Mapping[str, Rate] | None = None,
    learning_rate: Rate | None = None,
    learning_rate_per_sample: Rate | None = None,
    clip: Clip | None = None,
    l2: Rates = 0.0,
    noise: Rates = 0.0,
    l1: Rates = 0.0,
    lazy: bool = False,
) -> TracedLearner:
    """A learner with a rule of one's own: `function(gradient, parameter, state, settings)` returns
    the new parameter and state.

    gradient  of the criterion's sum over the minibatch, in the parameter's shape
    state     an array of that shape by each name of `states`, all 0 at the start; the function
              returns as many
    settings  numbers by name, as arrays (1, 1): `learning_rate` per sample, `samples` of this call,
              `update`, which counts calls from 1, and those that are given here: numbers, lists
              over epochs or curves
    lazy      of a table that is only looked up in, the function gets the rows that are looked up,
              and the others stay; it has to be element by element

    The rest is as in every learner. The function is traced: it uses `gc` functions and operators,
    and is Python only at compile time. GraphcError for what cannot be traced or does not fit.
    """
    arguments.function(function, "function")
    named = tuple(arguments.texts(states, "states"))
    numbers = {} if settings is None else settings
    arguments.table(numbers, "settings", "numbers")
    _require_names([*named, *numbers])
    return TracedLearner(
        learning_rate,
        learning_rate_per_sample=learning_rate_per_sample,
        clip=clip,
        l2=l2,
        noise=noise,
        l1=l1,
        function=function,
        states=named,
        settings=numbers,
        lazy=arguments.truth(lazy, "lazy"),
    )


@dataclass(frozen=True)
class TracedLearner(RatedLearner):
    """What `learner` makes."""

    function: RuleFunction = field(kw_only=True)
    states: tuple[str, ...] = field(default=(), kw_only=True)
    settings: Mapping[str, Rate] = field(default_factory=dict[str, Rate], kw_only=True)
    lazy: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        read = {
            name: given if isinstance(given, Curve) else read_number(given, name, ANY)
            for name, given in self.settings.items()
        }
        object.__setattr__(self, "settings", read)

    @property
    def rule(self) -> Rule:
        name = getattr(self.function, "__name__", "rule")
        update = TracedUpdate(self.function, self.states)
        numbers = tuple(map(_argument, (*GIVEN, *self.settings)))
        return Rule(name, "", self.states, numbers, update, self.lazy)

    @property
    def follows_updates(self) -> bool:
        """The function may ask for the number of the update."""
        return True

    def numbers(
        self, rate: Number, samples: int, nominal: int, update: Update
    ) -> dict[str, Number]:
        own = {name: number_along(given, update) for name, given in self.settings.items()}
        count = along(lambda u: u + 1.0, update)
        numbers = {"learning_rate": rate, "samples": samples, "update": count, **own}
        return {_argument(name): number for name, number in numbers.items()}

    def at(self, epoch: int) -> Self:
        chosen = {
            name: given.at(epoch) if isinstance(given, Schedule) else given
            for name, given in self.settings.items()
        }
        return replace(super().at(epoch), settings=chosen)

    def changes(self) -> list[int]:
        own = [s.changes() for s in self.settings.values() if isinstance(s, Schedule)]
        return sorted({*super().changes(), *(epoch for starts in own for epoch in starts)})


@dataclass(frozen=True)
class TracedUpdate:
    """The `update` of a rule that is a Python function."""

    python: RuleFunction
    states: tuple[str, ...]

    def __call__(
        self,
        b: IRBuilder,
        gradient: Value,
        parameter: Value,
        states: Sequence[Value],
        numbers: Mapping[str, Value],
    ) -> tuple[Value, list[Value]]:
        function = self.traced(parameter.tensor, list(numbers))
        new, *rest = inlined(b, function, [gradient, parameter, *states, *numbers.values()])
        return new, rest

    def traced(self, type: TensorType, numbers: Sequence[str]) -> Function:
        """The function for parameters of this type: of gradient, parameter, states and numbers."""
        trace = Trace("rule", type.dtype, location=definition_location(self.python))
        one = type.with_dims((1,) * type.rank)

        def given(name: str, type: TensorType) -> Tensor:
            return Tensor(trace, trace.argument(name, type))

        try:
            made = self.python(
                given("gradient", type),
                given("parameter", type),
                {name: given(name, type) for name in self.states},
                {name.removeprefix(PREFIX): given(name, one) for name in numbers},
            )
            return trace.finish(self._checked(trace, type, made))
        finally:
            trace.is_open = False

    def _checked(self, trace: Trace, type: TensorType, made: object) -> list[Value]:
        """The new parameter and states, in order."""
        location = trace.location
        if not isinstance(made, tuple) or len(made) != 2 or not isinstance(made[1], dict):
            wanted = "a rule requires (parameter, state) as its result, state a dict by name"
            raise fail("argument-type", f"{wanted}, got {arguments.kind_of(made)}", location)
        new, state = made
        if set(state) != set(self.states):
            wanted, got = (", ".join(map(str, n)) or "none" for n in (self.states, state))
            raise fail("argument-type", f"a rule requires the states {wanted}, got {got}", location)
        values = [_value(trace, new, "the new parameter")]
        values += [_value(trace, state[n], f"the new state `{n}`") for n in self.states]
        for name, value in zip(("parameter", *self.states), values, strict=True):
            if value.type != type:
                message = f"a rule requires {type} for `{name}`, got {value.type}"
                raise fail("shape-mismatch", message, location)
        if trace.held:
            message = "a rule requires arrays of at most 64 elements beside its arguments"
            raise fail("argument-type", message, location)
        return values


def _argument(setting: str) -> str:
    """What the step's argument for a setting is called."""
    return setting if setting == "learning_rate" else PREFIX + setting


def _value(trace: Trace, given: object, what: str) -> Value:
    if not (isinstance(given, Traced) or is_number(given)):
        got = arguments.kind_of(given)
        raise fail("argument-type", f"{what} requires an array, got {got}", trace.location)
    try:
        return trace.lift_one(given)  # type: ignore[arg-type]  # one of the two
    except TypeRuleError as problem:
        raise fail(problem.slug, problem.message, trace.location) from None


def _require_names(names: Sequence[str]) -> None:
    for name in names:
        if not name.isidentifier():
            message = "a name of letters, digits and _ is required for a state or setting, got "
            raise fail("bad-value", f"{message}`{name}`")
    if len({*names, *GIVEN}) < len(names) + len(GIVEN):
        message = f"states and settings require names of their own, none of {', '.join(GIVEN)}"
        raise fail("bad-value", f"{message}; got {', '.join(names)}")
