"""What an epoch in native code needs besides the step: how long a call may take, which samples.

Members go through it together: each through its own samples, and so many minibatches in a call as
all of them take.

`TrainingStep.run_epoch` and `gc.train` go through a data set in parts. Where one native call can
run many minibatches (dense samples, a learner that does not follow the losses), a part is as many
as take about `CALL_SECONDS`, so that Ctrl-C, progress and requests to stop are seen in between;
elsewhere a part is one call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from graphc.learn.dataset import WHOLE, Share
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.communicators.sums import gather_rows
from graphc.runtime.signature import Signature
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

    def note(
        self, minibatches: int, seconds: float, communicator: Communicator | None = None
    ) -> None:
        """So many took so long; of members what they took on average."""
        if communicator is not None and communicator.size > 1:
            total = np.array([seconds])
            communicator.all_reduce(total)
            seconds = float(total[0]) / communicator.size
        fitting = int(minibatches * CALL_SECONDS / max(seconds, 1e-9))
        self.minibatches = max(1, min(fitting, GROWTH * self.minibatches))


@dataclass(frozen=True, slots=True)
class Stride:
    """Units that native calls go through, `size` in each minibatch, the last of which may have
    fewer; it has `samples` of all members together.

    taken  units of the order that was given that are in these minibatches
    """

    order: Array
    size: int
    samples: int
    taken: int

    def samples_of(self, units: int) -> int:
        """Of all members, in a minibatch with so many units here."""
        return self.samples if units == self.size else units


def stride_of(order: Array, size: int, share: Share, communicator: Communicator | None) -> Stride:
    """What this member computes of the minibatches of `size` units of an order: all of it, or its
    share of those minibatches in which each member has as many units as in the first."""
    if communicator is None or communicator.size == 1:
        return Stride(order, size, size, len(order))
    if share == WHOLE:  # members with data of their own
        given = np.array([[len(order), size]])
        own = slice(communicator.rank, communicator.rank + 1)
        sizes = gather_rows(communicator, given, own, communicator.size)
        count = int((sizes[:, 0] // sizes[:, 1]).min())
        return Stride(order[: count * size], size, int(sizes[:, 1].sum()), count * size)
    places = share.of(np.arange(size))
    count = len(order) // size if size >= communicator.size else 0
    mine = order[: count * size].reshape(count, size)[:, places]
    return Stride(mine.reshape(-1), len(places), size, count * size)


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


def require_samples(signature: Signature, who: str, *, is_fixed: bool = False) -> None:
    """GraphcError unless the first axis of each input counts the samples.

    is_fixed  each call has as many
    """
    if signature.sequences is not None or signature.sparse:
        return
    counted = next((d.name for d in signature.call_dims), None)
    for argument in signature.with_role("input"):
        if is_fixed or argument.shape[:1] != (counted,):
            sizes = "x".join(map(str, argument.shape)) or "one number"
            message = f"{who} requires a dim of samples as the first axis of each input"
            raise fail(
                "not-supported",
                f"{message}, `{argument.name}` is {sizes}: call the step for each minibatch",
            )


def no_samples() -> GraphcError:
    """The error for a call without samples."""
    return fail("input", "a training step requires at least one sample, got none")
