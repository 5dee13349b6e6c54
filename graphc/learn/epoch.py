"""What an epoch in native code needs besides the step: how long a call may take, which samples.

`TrainingStep.run_epoch` and `gc.train` go through a data set in parts. Where one native call can
run many minibatches (dense samples, a learner that does not follow the losses), a part is as many
as take about `CALL_SECONDS`, so that Ctrl-C, progress and requests to stop are seen in between;
elsewhere a part is one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from graphc.support.diagnostics import GraphcError, fail

Array = np.ndarray

CALL_SECONDS = 0.1
GROWTH = 8
"""A call takes at most this many times the minibatches of the call before: the first are short, and
what was measured on them says little."""


@dataclass(frozen=True, slots=True)
class Part:
    """Minibatches that have been trained: the samples of all, and a number of each by result."""

    samples: int
    values: Mapping[str, Array]


@dataclass(slots=True)
class Pace:
    """How many minibatches of `size` the next call takes."""

    size: int
    minibatches: int = 1

    def note(self, minibatches: int, seconds: float) -> None:
        """So many took so long."""
        fitting = int(minibatches * CALL_SECONDS / max(seconds, 1e-9))
        self.minibatches = max(1, min(fitting, GROWTH * self.minibatches))


def read_order(order: object, units: int) -> Array:
    """The numbers of samples or sequences in the order asked for, i64[any]; by default all.

    GraphcError `input` for anything but whole numbers from 0 to `units` - 1.
    """
    if order is None:
        return np.arange(units)
    try:
        array = np.asarray(order)
    except (ValueError, TypeError) as problem:
        raise _bad_order(units, f"no array: {problem}") from None
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise _bad_order(units, f"{array.dtype} of shape {array.shape}")
    outside = np.flatnonzero((array < 0) | (array >= units))
    if len(outside):
        raise _bad_order(units, f"{array[outside[0]]} at place {outside[0]}")
    return np.ascontiguousarray(array, np.int64)


def _bad_order(units: int, got: str) -> GraphcError:
    wanted = f"whole numbers from 0 to {units - 1} in one dimension"
    return fail("input", f"order requires {wanted}, got {got}")


def number_tables(
    whole: Mapping[str, float | Array], last: Mapping[str, float], minibatches: int
) -> dict[str, Array]:
    """The hyperparameters of a call of many minibatches, of which `whole` has one number or all:
    those of the last may be others."""
    tables = {name: np.full(minibatches, value) for name, value in whole.items()}
    for name, table in tables.items():
        table[-1] = last[name]
    return tables
