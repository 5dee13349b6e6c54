"""Results of everyone against those of the reference, before anything is timed.

A training workload is run for `CHECKED` calls: their losses, and how far every parameter has moved,
have to be those of the reference. Otherwise the outputs of one call have to be.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.peers import Case
from bench.workloads.record import Array, Values, Workload

CHECKED = 3
LOSSES, OUTPUTS = "losses", "outputs"
MOST_OFF = 2e-4
"""Of losses and outputs, relative to the largest."""
MOST_MOVED_OFF = 1e-2
"""Of a parameter's way, as a norm, relative to its length. Steps are small next to f32 parameters,
so the difference has few digits."""
TF32_SLACK = 10.0
"""So many times as far off may be what rounds the factors of products to 10 bits of fraction."""

BF16_SLACK = 50.0
"""The same of 8 significant bits."""


def results(work: Workload, case: Case, first: object) -> Values:
    """What is compared; `first` is what the first call has given."""
    if not work.trains:
        return {OUTPUTS: np.asarray(first)}
    losses = [first, *(case.run() for _ in range(1, 1 if work.steps > 1 else CHECKED))]
    moved = case.parameters()
    return {
        LOSSES: np.concatenate([np.atleast_1d(np.asarray(v, np.float64)) for v in losses]),
        **{n: moved[n].astype(np.float64) - work.parameters[n] for n in work.parameters},
    }


def difference(found: Values, expected: Values, slack: float = 1.0) -> str:
    """Why the results are not those expected, or nothing. With slack they may be further off."""
    if found.keys() != expected.keys():
        return f"results are {sorted(found)}, expected {sorted(expected)}"
    for name, value in expected.items():
        got = found[name]
        if got.shape != value.shape:
            return f"{name} has shape {got.shape}, expected {value.shape}"
        if name in (LOSSES, OUTPUTS):
            off, most = _largest(got - value) / (_largest(value) or 1.0), MOST_OFF
        else:
            length = float(np.linalg.norm(value))
            off = float(np.linalg.norm(got - value)) / length if length else _largest(got)
            most = MOST_MOVED_OFF
        if not off <= most * slack:  # also where it is no number
            return f"{name} is off by {off:.2g} of its size, at most {most * slack:g} is allowed"
    return ""


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def save(path: Path, values: Values) -> None:
    with path.open("wb") as file:
        np.savez(file, **values)


def load(path: Path) -> Values:
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}
