"""From a stack of layers to a network with its values.

Layers and criteria are those of SIMPLENET; only the names of products say each layer's number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphc.support.diagnostics import fail
from graphc_frontends.dbn.reading import OUTPUT, Stack
from graphc_frontends.simple.options import SimpleOptions
from graphc_frontends.simple.parts import Parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphc.builder import GraphBuilder, Node

_LINEAR = frozenset([OUTPUT, "rbmisalinearbernoulli"])
_NORMALISED = ("MeanOfFeatures", "InvStdOfFeatures", "MVNormalizedFeatures")


@dataclass(frozen=True)
class DbnOptions:
    """What a stack does not say: as in `SimpleOptions`.

    output_layer_size  rows of the output layer that a stack without one gets, -1: as many as its
                       last layer has
    """

    layer_types: str | Sequence[str] = "Sigmoid"
    training_criterion: str = "CrossEntropyWithSoftmax"
    eval_criterion: str = "ErrorPrediction"
    init_value_scale: float = 1.0
    uniform_init: bool = True
    need_prior: bool = False
    add_dropout_nodes: bool = False
    output_layer_size: int = -1


def build(builder: GraphBuilder, stack: Stack, options: DbnOptions) -> None:
    """Make the network of a stack. GraphcError for options that are wrong."""
    parts = Parts(builder, _as_simple(stack, options))
    values: dict[str, np.ndarray] = {}
    x = _features(parts, stack, values)
    for index, layer in enumerate(stack.layers):
        values |= {f"W{index}": layer.weights, f"B{index}": layer.bias}
        is_output = stack.is_complete and index == len(stack.layers) - 1
        x = _affine(parts, x, index, layer.weights.shape, "HLast" if is_output else None)
        if layer.kind not in _LINEAR:
            h = parts.nonlinear(x, index, f"H{index + 1}")
            x = parts.dropped(h, f"DropH{index + 1}")
    sizes = parts.options.layer_sizes
    if not stack.is_complete:
        x = _affine(parts, x, len(stack.layers), (sizes[-1], sizes[-2]), "HLast")
    labels = parts.labels(sizes[-1])
    parts.criteria(labels, x)
    parts.output_or_likelihood(x, labels, "Prior")
    if stack.prior is not None:
        values["Prior"] = stack.prior
    builder.sink.raise_if_errors()
    builder.model.adopt(values)


def _as_simple(stack: Stack, options: DbnOptions) -> SimpleOptions:
    """The choices for layers of the stack's sizes; with a prior in the file it is used."""
    rows = [layer.weights.shape[0] for layer in stack.layers]
    if not stack.is_complete:
        if options.output_layer_size == 0 or options.output_layer_size < -1:
            message = "output_layer_size requires a size from 1 or -1"
            raise fail("bad-option", f"{message}, got {options.output_layer_size}")
        rows.append(rows[-1] if options.output_layer_size == -1 else options.output_layer_size)
    return SimpleOptions(
        layer_sizes=(stack.layers[0].weights.shape[1], *rows),
        layer_types=options.layer_types,
        training_criterion=options.training_criterion,
        eval_criterion=options.eval_criterion,
        init_value_scale=options.init_value_scale,
        uniform_init=options.uniform_init,
        apply_mean_var_norm=True,
        need_prior=options.need_prior or stack.prior is not None,
        add_dropout_nodes=options.add_dropout_nodes,
    ).checked()


def _features(parts: Parts, stack: Stack, values: dict[str, np.ndarray]) -> Node:
    """The features, with mean and deviation of a frame repeated for every frame of context."""
    frames = stack.layers[0].weights.shape[1] // len(stack.mean)
    with np.errstate(divide="ignore"):
        inverse = (1 / stack.deviation).astype(np.float32)
    values["MeanOfFeatures"] = np.tile(stack.mean, (frames, 1))
    values["InvStdOfFeatures"] = np.tile(inverse, (frames, 1))
    return parts.features(names=_NORMALISED)


def _affine(parts: Parts, x: Node, index: int, size: tuple[int, ...], name: str | None) -> Node:
    """W·x + B, called `name` or after its parts."""
    rows, cols = size
    w = parts.weights(f"W{index}", rows, cols)
    b = parts.bias(f"B{index}", rows)
    product = f"W{index}*H{index}"
    return parts.plus(parts.times(w, x, product), b, name or f"{product}+B{index}")
