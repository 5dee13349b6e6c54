"""What labels as class numbers cost next to one-hot rows that are there already.

    python -m bench.class_numbers [--backend llvm] [--seconds 2] [--json FILE]

A training step, a measuring call and an epoch of the same network with either kind of labels, in
turns, each the least of many; both have to give the same bits. A ratio below 1 is faster than rows.
`784-256-10 x 32` is a network of 784 inputs, 256 hidden values and 10 classes for 32 samples;
`8-16-10 x 8*4` has a recurrent layer for 4 sequences of up to 8 steps, and an epoch of it has
lengths that differ from minibatch to minibatch.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc
from bench.versions import version_of

Array = np.ndarray
Row = dict[str, Any]
Run = Callable[[], object]

SIZES = (
    (64, 0, 10, 32),
    (64, 0, 10, 256),
    (784, 256, 10, 32),
    (784, 256, 10, 256),
    (64, 0, 1000, 32),
    (64, 0, 10000, 350),
)
LOOPS = ((8, 16, 10, 8, 4), (16, 32, 1000, 16, 8))
MINIBATCHES = 8


def network(inputs: int, hidden: int, classes: int, *, recurrent: bool) -> gc.Network:
    net = gc.Network()
    x, t = net.input("x", inputs, tag="feature"), net.input("t", classes, tag="label")
    below, width = x, inputs
    if hidden:
        below = net.parameter("U", hidden, inputs) @ x + net.parameter("a", hidden)
        width = hidden
    if recurrent:
        past = net.past_value(hidden)
        below = past.bind(net.tanh(below + net.parameter("R", hidden, hidden) @ past))
    elif hidden:
        below = net.sigmoid(below)
    z = net.parameter("W", classes, width) @ below + net.parameter("b", classes)
    net.cross_entropy_with_softmax(t, z, name="CE", tag="criterion")
    net.error_prediction(t, z, name="wrong", tag="evaluation")
    return net


def least(runs: list[Run], seconds: float) -> list[float]:
    """Of one call of each, by turns of about a millisecond."""
    for run in [*runs] * 4:  # compiles, and finds the shorter way of calls like each other
        run()
    start = time.perf_counter()
    runs[0]()
    repeats = max(1, int(1e-3 / (time.perf_counter() - start)))
    found = [float("inf")] * len(runs)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, run in enumerate(runs):
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            found[i] = min(found[i], (time.perf_counter() - start) / repeats)
    return found


def measured(
    name: str,
    nets: list[gc.Network],
    data: list[dict[str, Any]],
    bounds: dict[str, Any],
    **how: Any,
) -> list[Row]:
    """`data` of an epoch, with rows and with numbers; calls are of its first minibatch."""
    seconds = how.pop("seconds")
    learner = gc.SGD(learning_rate=1e-4, momentum=0.9)
    steps = [gc.compile_training(net, learner=learner, **bounds, **how) for net in nets]
    runs = [gc.compile(net, ["CE", "wrong"], **bounds, **how) for net in nets]
    count = bounds.get("sequences") or bounds["batch"]
    firsts = [{n: value[:count] for n, value in each.items()} for each in data]
    ways: dict[str, list[Run]] = {
        "step": [lambda s=s, d=d: s(**d) for s, d in zip(steps, firsts, strict=True)],
        "measure": [lambda r=r, d=d: r(**d) for r, d in zip(runs, firsts, strict=True)],
        "epoch": [
            lambda s=s, d=d: s.run_epoch(d, minibatch=count)
            for s, d in zip(steps, data, strict=True)
        ],
    }
    rows: list[Row] = []
    for what, either in ways.items():
        ours = least(either, seconds)
        rows.append(
            {
                "size": name,
                "what": what,
                "rows_us": ours[0] * 1e6,
                "numbers_us": ours[1] * 1e6,
                "ratio": ours[1] / ours[0],
            }
        )
    _require_same(runs, firsts)
    return rows


def _require_same(runs: list[Any], given: list[dict[str, Any]]) -> None:
    """The same bits of one network's parameters, which both kinds are computed with."""
    found = [runs[0](**each)["CE"] for each in given]
    if found[0] != found[1]:
        raise AssertionError(f"rows give {found[0]}, class numbers {found[1]}")


def of_samples(inputs: int, hidden: int, classes: int, samples: int, **how: Any) -> list[Row]:
    rng = np.random.default_rng(0)
    count = samples * MINIBATCHES
    x = rng.standard_normal((count, inputs)).astype(np.float32)
    numbers = rng.integers(0, classes, count)
    rows = np.zeros((count, classes), np.float32)
    rows[np.arange(count), numbers] = 1
    nets = [network(inputs, hidden, classes, recurrent=False) for _ in range(2)]
    name = f"{inputs}-{f'{hidden}-' * bool(hidden)}{classes} x {samples}"
    data: list[dict[str, Any]] = [{"x": x, "t": rows}, {"x": x, "t": numbers}]
    return measured(name, nets, data, {"batch": samples}, **how)


def of_sequences(
    inputs: int, hidden: int, classes: int, steps: int, count: int, **how: Any
) -> list[Row]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, steps + 1, count * MINIBATCHES)
    x = [rng.standard_normal((n, inputs)).astype(np.float32) for n in lengths]
    numbers = [rng.integers(0, classes, n) for n in lengths]
    eye = np.eye(classes, dtype=np.float32)
    nets = [network(inputs, hidden, classes, recurrent=True) for _ in range(2)]
    name = f"{inputs}-{hidden}-{classes} x {steps}*{count}"
    rows: list[dict[str, Any]] = [{"x": x, "t": [eye[n] for n in numbers]}, {"x": x, "t": numbers}]
    return measured(name, nets, rows, {"time": steps, "sequences": count}, **how)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--backend", default="llvm")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    how: dict[str, Any] = {"backend": given.backend, "threads": 1, "seconds": given.seconds}
    print(f"{'size':>18} {'':>8} {'rows us':>10} {'numbers us':>11} {'ratio':>7}")
    rows: list[Row] = []
    work = [lambda s=s: of_samples(*s, **how) for s in SIZES]
    work += [lambda s=s: of_sequences(*s, **how) for s in LOOPS]
    for each in work:
        for row in each():
            print(
                f"{row['size']:>18} {row['what']:>8} {row['rows_us']:10.2f} "
                f"{row['numbers_us']:11.2f} {row['ratio']:7.3f}",
                flush=True,
            )
            rows.append(row)
    if given.json:
        record = {
            "schema": 1,
            "bench": "class_numbers",
            "backend": given.backend,
            "machine": platform.processor() or platform.machine(),
            "versions": {name: version_of(name) for name in ("graphc", "numpy", "llvmlite")},
            "rows": rows,
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
