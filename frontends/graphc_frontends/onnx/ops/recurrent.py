"""RNN, GRU and LSTM: loops over time, in one direction or both.

The products with the inputs of all steps are made at once, before the loop. ONNX puts the gates of
an LSTM in the order input, output, forget, cell, and those of a GRU update, reset, hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import dtype_of, mistake, shape_of

Activation = Callable[[Any], Any]


@dataclass(frozen=True)
class Settings:
    """The attributes that the three share.

    clip  values before activations are cut to this distance from 0; None: they are not
    """

    direction: str
    activations: Sequence[Activation]
    clip: float | None
    hidden: int

    def before(self, x: Any) -> Any:
        return x if self.clip is None else gc.clip(x, -self.clip, self.clip)


@dataclass(frozen=True)
class Direction:
    """The parameters of one direction, with the activations of its gates."""

    weights: Any
    recurrent: Any
    bias: Any | None
    peepholes: Any | None
    state: tuple[Any, ...]
    activations: Sequence[Activation]
    backwards: bool

    def biases(self) -> tuple[Any, Any]:
        """Those of the products with inputs and with the state."""
        if self.bias is None:
            return 0, 0
        half = int(shape_of(self.bias)[0]) // 2  # type: ignore[arg-type]
        return self.bias[:half], self.bias[half:]


Step = Callable[[Settings, Direction, tuple[Any, ...], Any], tuple[Any, ...]]
"""(settings, direction, state, the step's products with its inputs) -> the state after it."""


# --- activations ---------------------------------------------------------------------------------


def _affine(alpha: float, beta: float) -> Activation:
    return lambda x: alpha * x + beta


_ACTIVATIONS: dict[str, tuple[Callable[[float, float], Activation], float, float]] = {
    "relu": (lambda a, b: gc.relu, 0, 0),
    "tanh": (lambda a, b: gc.tanh, 0, 0),
    "sigmoid": (lambda a, b: gc.sigmoid, 0, 0),
    "affine": (_affine, 1, 0),
    "leakyrelu": (lambda a, b: lambda x: gc.where(x < 0, a * x, x), 0.01, 0),
    "thresholdedrelu": (lambda a, b: lambda x: gc.where(x > a, x, 0), 1, 0),
    "scaledtanh": (lambda a, b: lambda x: a * gc.tanh(b * x), 1, 1),
    "hardsigmoid": (lambda a, b: lambda x: gc.clip(a * x + b, 0.0, 1.0), 0.2, 0.5),
    "elu": (lambda a, b: lambda x: gc.where(x < 0, a * gc.expm1(gc.minimum(x, 0)), x), 1, 0),
    "softsign": (lambda a, b: lambda x: x / (1 + gc.abs(x)), 0, 0),
    "softplus": (lambda a, b: gc.softplus, 0, 0),
}
"""By name: what makes the function of its alpha and beta, and the values of these by default."""

_TAKES_BETA = ("affine", "scaledtanh", "hardsigmoid")
_TAKES_ALPHA = (*_TAKES_BETA, "leakyrelu", "thresholdedrelu", "elu")


def _activations(
    names: Sequence[str] | None,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    default: Sequence[str],
    directions: int,
) -> list[Activation]:
    """The functions of all directions, one after the other."""
    given_alphas, given_betas = iter(alphas or ()), iter(betas or ())
    found: list[Activation] = []
    for name in names or [*default] * directions:
        known = _ACTIVATIONS.get(name.lower())
        if known is None:
            raise mistake("not-supported", f"the activation {name} is not supported")
        make, alpha, beta = known
        if name.lower() in _TAKES_ALPHA:
            alpha = next(given_alphas, alpha)
        if name.lower() in _TAKES_BETA:
            beta = next(given_betas, beta)
        found.append(make(alpha, beta))
    return found


# --- the loop ------------------------------------------------------------------------------------


def _run(
    settings: Settings,
    direction: Direction,
    xs: Any,
    lengths: Any | None,
    step: Step,
    bias: Any,
) -> tuple[Any, tuple[Any, ...]]:
    """(the states of all steps, those after the last): xs [steps, samples, inputs]."""
    products = xs @ gc.transpose(direction.weights) + bias
    steps = shape_of(xs)[0]

    def one(before: tuple[Any, ...], given: Any) -> tuple[Any, Any]:
        product, is_there = given
        after = step(settings, direction, before, product)
        if is_there is None:
            return after, after[0]
        kept = tuple(gc.where(is_there, a, b) for a, b in zip(after, before, strict=True))
        return kept, gc.where(is_there, after[0], 0)

    there = None
    if lengths is not None:
        numbers = gc.reshape(gc.arange(steps, dtype="i32"), (steps, 1, 1))
        there = numbers < gc.reshape(gc.cast(lengths, "i32"), (1, -1, 1))
    last, hs = gc.scan(one, direction.state, (products, there), reverse=direction.backwards)
    return hs, last


def _directions(
    settings: Settings,
    weights: Any,
    recurrent: Any,
    bias: Any | None,
    peepholes: Any | None,
    states: Sequence[Any],
) -> Iterator[Direction]:
    count = 2 if settings.direction == "bidirectional" else 1
    each = len(settings.activations) // count
    for i in range(count):
        yield Direction(
            weights[i],
            recurrent[i],
            None if bias is None else bias[i],
            None if peepholes is None else peepholes[i],
            tuple(s[i] for s in states),
            settings.activations[i * each : (i + 1) * each],
            backwards=i == 1 or settings.direction == "reverse",
        )


def _outputs(
    settings: Settings,
    layout: int,
    x: Any,
    parameters: tuple[Any, Any, Any | None, Any | None],
    lengths: Any | None,
    initial: Sequence[Any | None],
    step: Step,
    bias_of: Callable[[Direction], Any],
) -> tuple[Any, ...]:
    """Y [steps, directions, samples, hidden] and the last states, or by samples with `layout`."""
    xs = gc.transpose(x, (1, 0, 2)) if layout else x
    samples = shape_of(xs)[1]
    count = 2 if settings.direction == "bidirectional" else 1
    shape = (count, samples, settings.hidden)
    states = [
        gc.zeros(shape, dtype_of(x)) if s is None else (gc.transpose(s, (1, 0, 2)) if layout else s)
        for s in initial
    ]
    made = [
        _run(settings, d, xs, lengths, step, bias_of(d))
        for d in _directions(settings, *parameters, states)
    ]
    ys = gc.stack([hs for hs, _ in made], 1)
    lasts = [gc.stack([last[k] for _, last in made]) for k in range(len(states))]
    if layout:
        return gc.transpose(ys, (2, 0, 1, 3)), *(gc.transpose(s, (1, 0, 2)) for s in lasts)
    return ys, *lasts


def _settings(
    direction: str,
    activations: Sequence[str] | None,
    alphas: Sequence[float] | None,
    betas: Sequence[float] | None,
    default: Sequence[str],
    clip: float | None,
    recurrent: Any,
) -> Settings:
    directions = 2 if direction == "bidirectional" else 1
    found = _activations(activations, alphas, betas, default, directions)
    return Settings(direction, found, clip, int(shape_of(recurrent)[-1]))  # type: ignore[arg-type]


# --- the cells -----------------------------------------------------------------------------------


@operator("RNN")
def rnn(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    *,
    direction: str,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float | None = None,
    layout: int = 0,
    hidden_size: int | None = None,
) -> object:
    settings = _settings(
        direction, activations, activation_alpha, activation_beta, ["tanh"], clip, r
    )

    def step(s: Settings, d: Direction, state: tuple[Any, ...], product: Any) -> tuple[Any, ...]:
        (h,) = state
        return (d.activations[0](s.before(product + h @ gc.transpose(d.recurrent))),)

    return _outputs(settings, layout, x, (w, r, b, None), lengths, [initial_h], step, _summed_bias)


def _summed_bias(direction: Direction) -> Any:
    first, second = direction.biases()
    return first + second


@operator("GRU")
def gru(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    *,
    direction: str,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
    hidden_size: int | None = None,
) -> object:
    settings = _settings(
        direction, activations, activation_alpha, activation_beta, ["sigmoid", "tanh"], clip, r
    )

    def step(s: Settings, d: Direction, state: tuple[Any, ...], product: Any) -> tuple[Any, ...]:
        (h,) = state
        gate, squash = d.activations
        n = settings.hidden
        of_state = d.biases()[1]
        by_state = h @ gc.transpose(d.recurrent[: 2 * n])
        hidden_bias = 0 if d.bias is None else of_state[2 * n :]
        if d.bias is not None:
            by_state = by_state + of_state[: 2 * n]
        z = gate(s.before(product[:, :n] + by_state[:, :n]))
        reset = gate(s.before(product[:, n : 2 * n] + by_state[:, n:]))
        of_hidden = gc.transpose(d.recurrent[2 * n :])
        if linear_before_reset:
            inner = reset * (h @ of_hidden + hidden_bias)
        else:
            inner = (reset * h) @ of_hidden + hidden_bias
        candidate = squash(s.before(product[:, 2 * n :] + inner))
        return ((1 - z) * candidate + z * h,)

    return _outputs(
        settings,
        layout,
        x,
        (w, r, b, None),
        lengths,
        [initial_h],
        step,
        lambda d: d.biases()[0],
    )


@operator("LSTM")
def lstm(
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    initial_h: Any = None,
    initial_c: Any = None,
    p: Any = None,
    *,
    direction: str,
    activations: Sequence[str] | None = None,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    clip: float | None = None,
    input_forget: int = 0,
    layout: int = 0,
    hidden_size: int | None = None,
) -> object:
    default = ["sigmoid", "tanh", "tanh"]
    settings = _settings(
        direction, activations, activation_alpha, activation_beta, default, clip, r
    )

    def step(s: Settings, d: Direction, state: tuple[Any, ...], product: Any) -> tuple[Any, ...]:
        h, c = state
        gate, squash, shown = d.activations
        n = settings.hidden
        gates = product + h @ gc.transpose(d.recurrent)
        i, o, f, g = (gates[:, k * n : (k + 1) * n] for k in range(4))

        def seen(gate: Any, k: int, cell: Any) -> Any:
            """A gate that sees the cell, where there are peepholes."""
            if d.peepholes is None:
                return s.before(gate)
            return s.before(gate + d.peepholes[k * n : (k + 1) * n] * cell)

        at_i = gate(seen(i, 0, c))
        at_f = 1 - at_i if input_forget else gate(seen(f, 2, c))
        c = at_f * c + at_i * squash(s.before(g))
        at_o = gate(seen(o, 1, c))
        return at_o * shown(c), c

    return _outputs(
        settings, layout, x, (w, r, b, p), lengths, [initial_h, initial_c], step, _summed_bias
    )
