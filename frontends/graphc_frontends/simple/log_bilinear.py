"""LBLM: the log-bilinear model, linear all the way (book 3.2.1).

The features and those of some steps before, each times a matrix of its own, are added; then linear
layers follow.
"""

from __future__ import annotations

from graphc_frontends.simple.parts import Parts


def log_bilinear(parts: Parts) -> None:
    """A sum over `ma_order` steps back, linear layers, a product, criteria."""
    options = parts.options
    sizes, last = options.layer_sizes, options.hidden
    has_table = int(options.lookup_table_order > 0)
    rows = sizes[1] * options.lookup_table_order if has_table else sizes[0]
    # The table's name is spelt as the toolkit spells it.
    features = x = parts.looked_up(parts.features(), "Lookuptatble")
    for steps in range(1, options.ma_order + 1):
        past = parts.node(
            "past_value", features, name=f"pastValue{steps}", rows=rows, time_step=steps,
            default_hidden_activity=options.default_hidden_activity,
        )  # fmt: skip
        x = parts.plus(x, parts.times(parts.weights(f"DD{steps}", rows, rows), past))
    x = parts.dropped(x)
    for layer in range(has_table, last):
        size = sizes[layer + 1]
        x = parts.times(parts.weights(f"U{layer}", size, rows), x)
        if layer + 1 in options.recurrent_layer:
            w = parts.weights(f"R{layer + 1}", size, size)
            past = parts.past(size)
            x = parts.plus(parts.times(w, past), x)
            parts.bind([past], x)
        x = parts.dropped(parts.plus(x, parts.bias(f"bi{layer}", size)))
        rows = size
    w = parts.weights(f"W{last}", sizes[-1], rows)
    labels = parts.labels(sizes[-1])
    parts.criteria(labels, parts.times(w, x))
    parts.node("times", w, x, name="outputs", tags=["output"])
    parts.unused_prior(labels)
