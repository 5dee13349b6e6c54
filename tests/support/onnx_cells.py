"""Recurrent layers as functions of arrays: some are cells of ONNX and others nearly are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc

Array = np.ndarray

H = 3
"""Units of the cells below."""


def layer(change: str) -> Callable[..., Any]:
    """A layer of cells that differ from an LSTM, a GRU or an RNN by a little."""

    def f(x: Any, h: Any, c: Any, w: Any, r: Any, b: Any, p: Any) -> Any:
        def gates(xt: Any, state: Any, count: int) -> list[Any]:
            sums = xt @ w[:, : count * H] + state @ r[:, : count * H] + b[: count * H]
            return [sums[:, k * H : (k + 1) * H] for k in range(count)]

        def lstm(before: Any, xt: Any) -> Any:
            c, h = before
            i, f, g, o = gates(xt, h, 4)
            seen = 0 if change == "cell not seen" else p * c
            i, f = gc.sigmoid(seen + i), gc.sigmoid(f)
            c = gc.tanh(g) * i + c * (1 - i if change == "coupled" else f)
            o = gc.tanh(o) if change == "other gate" else gc.sigmoid(o + c * p)
            h = (c if change == "open cell" else gc.tanh(c)) * o
            return (c, h), (c if change == "cells shown" else h)

        def gru(h: Any, xt: Any) -> Any:
            z, r1 = map(gc.sigmoid, gates(xt, h, 2))
            of_x, of_h = xt @ w[:, 2 * H : 3 * H], r[:, 2 * H : 3 * H]
            if change == "reset after":
                n = gc.tanh(of_x + r1 * (h @ of_h + b[:H]))
            else:
                n = gc.tanh(of_x + (r1 * h) @ of_h + b[:H])
            h = z * n + (1 - z) * h if change == "turned round" else z * h + (1 - z) * n
            return h, h

        def rnn(h: Any, xt: Any) -> Any:
            (s,) = gates(xt, h, 1)
            h = gc.relu(s + h) if change == "skips" else gc.relu(s)
            return h, h

        of_kind = {"lstm": (lstm, (c, h)), "gru": (gru, h), "rnn": (rnn, h)}
        step, start = of_kind[CELLS[change]]
        last, hs = gc.scan(step, start, x, reverse=change == "backwards")
        return {"hs": hs, "last": last[1] if CELLS[change] == "lstm" else last}

    return f


_CHANGES = {
    "lstm": {
        "as it is": "LSTM",
        "backwards": "LSTM",
        "cell not seen": "LSTM",
        "coupled": "Scan",
        "other gate": "Scan",
        "open cell": "Scan",
        "cells shown": "Scan",
    },
    "gru": {"reset before": "GRU", "reset after": "GRU", "turned round": "Scan"},
    "rnn": {"rectified": "RNN", "skips": "Scan"},
}
"""What the loop is in a file, by what was changed."""

CELLS = {change: cell for cell, kinds in _CHANGES.items() for change in kinds}
KINDS = {change: kind for kinds in _CHANGES.values() for change, kind in kinds.items()}


def cell_cases(change: str, path: Path) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:
    """Writes the file of a layer; what it is given, and what it has to give."""
    rng = np.random.default_rng(0)

    def normal(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
        return {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}

    weights = normal({"w": (2, 4 * H), "r": (H, 4 * H), "b": (4 * H,), "p": (H,)})
    inputs = {"x": "TxBx2", "h": f"Bx{H}", "c": f"Bx{H}"}
    program = gc.program(layer(change), inputs, parameters=weights, bounds={"T": 9})
    gc.export_onnx(program, path)
    call = gc.compile(program, backend="numpy")
    for steps, samples in ((1, 1), (5, 2)):
        given = normal({"x": (steps, samples, 2), "h": (samples, H), "c": (samples, H)})
        yield given, call(**given)
