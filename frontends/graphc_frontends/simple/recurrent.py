"""SIMPLERNN and CLASSLM: layers that read what they were one step before (book 3.2.1, 2.6).

A recurrent layer is f(U·x + W·past), without a bias. What is not recurrent in CLASSLM has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphc_frontends.simple.parts import Parts

if TYPE_CHECKING:
    from graphc.builder import Node


def simple_recurrent(parts: Parts) -> None:
    """Recurrent layers, a product, criteria."""
    options = parts.options
    sizes, last = options.layer_sizes, options.hidden
    x = _layers(parts, parts.features(sparse=options.sparse_input), has_biases=False)
    w = parts.weights(f"W{last}", sizes[-1], sizes[-2])
    labels = parts.labels(sizes[-1])
    parts.criteria(labels, parts.times(w, x), "criterion", "eval")
    parts.node("times", w, x, name="outputs", tags=["output"])
    parts.unused_prior(labels)


def class_recurrent(parts: Parts) -> None:
    """Recurrent layers, and the probability of a word as that of its class times that in it."""
    sizes, last = parts.options.layer_sizes, parts.options.hidden
    x = _layers(parts, parts.features(sparse=True), has_biases=True)
    # Words are columns: those of a class lie side by side.
    w = parts.weights(f"W{last}", sizes[-2], sizes[-1])
    criterion = parts.class_criteria(x, w, sizes[-2])
    parts.builder.add_tag(criterion, "output")
    labels = parts.builder.find("labels")
    assert labels is not None
    parts.unused_prior(labels)


def _layers(parts: Parts, x: Node, *, has_biases: bool) -> Node:
    options = parts.options
    sizes = options.layer_sizes
    for layer in range(options.hidden):
        u = parts.weights(f"U{layer}", sizes[layer + 1], sizes[layer])
        if layer + 1 in options.recurrent_layer:
            w = parts.weights(f"W{layer}", sizes[layer + 1], sizes[layer + 1])
            past = parts.past(sizes[layer + 1])
            total = parts.plus(parts.times(u, x), parts.times(w, past))
            h = parts.nonlinear(total, layer)
            parts.bind([past], h)
        else:
            total = parts.times(u, x)
            if has_biases:
                total = parts.plus(total, parts.bias(f"B{layer}", sizes[layer + 1]))
            h = parts.nonlinear(total, layer)
        x = parts.dropped(h)
    return x
