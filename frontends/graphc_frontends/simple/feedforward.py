"""SIMPLENET: fully connected layers, one after the other (book 3.2.1).

Names say how a node is computed: `W0*features+B0` is the sum that the layer H1 is made of. The last
product is called after one layer too few (`W2*H1` multiplies H2), as in the toolkit.
"""

from __future__ import annotations

from graphc_frontends.simple.parts import Parts

_NORMALISED = ("MeanOfFeatures", "InvStdOfFeatures", "MVNormalizedFeatures")


def feedforward(parts: Parts) -> None:
    """features → H1 → … → HLast, with criteria on HLast."""
    options = parts.options
    sizes, last = options.layer_sizes, options.hidden
    x = parts.features(names=_NORMALISED)
    for layer in range(last):
        w = parts.weights(f"W{layer}", sizes[layer + 1], sizes[layer])
        b = parts.bias(f"B{layer}", sizes[layer + 1])
        product = f"W{layer}*{f'H{layer}' if layer else 'features'}"
        total = parts.plus(parts.times(w, x, product), b, f"{product}+B{layer}")
        h = parts.nonlinear(total, layer, f"H{layer + 1}")
        x = parts.dropped(h, f"DropH{layer + 1}")
    w = parts.weights(f"W{last}", sizes[-1], sizes[-2])
    b = parts.bias(f"B{last}", sizes[-1])
    output = parts.plus(parts.times(w, x, f"W{last}*H{last - 1}"), b, "HLast")
    labels = parts.labels(sizes[-1])
    parts.criteria(labels, output)
    parts.output_or_likelihood(output, labels, "Prior")
    parts.node("softmax", output, name="PosteriorProb")
