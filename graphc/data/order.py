"""Which samples an epoch visits, in which order: a function of settings and request alone.

The samples of all passes over the data stand in one endless row, and an epoch of `size` samples is
a stretch of it. Every pass has an order of its own:

    None    that of the data
    n       samples are exchanged within each n that follow one another, which are held in memory
    "auto"  all samples of the data are exchanged

Orders are drawn as `gc.train` draws its own: pass p of "auto" is the permutation (seed, p).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from graphc.data.reader import EpochRequest
from graphc.support.arguments import instance, whole
from graphc.support.diagnostics import fail
from graphc.support.randomness import SEED_LIMIT, Purpose, random_words

Rows = range | npt.NDArray[np.int64]
"""Numbers of samples in the data, from 0; a range where they follow one another."""

EVERYTHING = 1 << 62


@dataclass(frozen=True, slots=True)
class Order:
    """How a reader goes through its data.

    randomize       "auto", a number of samples, or None (see above)
    seed            of the permutations
    minibatch_mode  "full": an epoch's last minibatch is left out if it would be short
    """

    randomize: Literal["auto"] | int | None = "auto"
    seed: int = 0
    minibatch_mode: Literal["partial", "full"] = "partial"

    def __post_init__(self) -> None:
        given: object = self.randomize
        is_number = isinstance(given, int) and not isinstance(given, bool) and given >= 1
        if given is not None and given != "auto" and not is_number:
            wanted = '"auto", None or a number of samples'
            raise fail("bad-value", f"randomize requires {wanted}, got {given!r}")
        if not 0 <= whole(self.seed, "seed") < SEED_LIMIT:
            raise fail("bad-value", f"seed requires a number below 2^64, got {self.seed}")
        if self.minibatch_mode not in ("partial", "full"):
            message = f'minibatch_mode requires "partial" or "full", got {self.minibatch_mode!r}'
            raise fail("bad-value", message)

    def span(self, stretch: int) -> int:
        """Samples that are exchanged with one another; `stretch` of them where none are."""
        if self.randomize is None:
            return stretch
        return EVERYTHING if self.randomize == "auto" else self.randomize

    def within(self, number: int, low: int, high: int) -> Rows:
        """The samples low to high - 1, which are stretch `number` of all passes, as visited."""
        if self.randomize is None:
            return range(low, high)
        words = random_words(self.seed, Purpose.SHUFFLE, number, high - low)
        # Equal words keep the order of the data.
        return low + np.argsort(words, kind="stable").astype(np.int64, copy=False)


IN_ORDER = Order(None)


class LastWindow:
    """The samples of the stretch visited last, as they were exchanged: many short epochs may lie in
    one, and exchanging all samples anew for each would take longer than reading them."""

    def __init__(self) -> None:
        self._held: tuple[tuple[int, int, int], Rows] | None = None

    def rows(self, order: Order, number: int, low: int, high: int) -> Rows:
        """As `order.within`; of one order."""
        held, key = self._held, (number, low, high)
        if held is None or held[0] != key:
            held = self._held = key, order.within(number, low, high)
        return held[1]


class Extent(Protocol):
    """Data whose number of samples shows while they are read."""

    def reach(self, stop: int, keep: int = 0) -> int:
        """Make the samples below `stop` available, or all if there are fewer; their number.

        Those below `keep` are not needed before another call with a lower `keep`.
        """
        ...


def visits(
    order: Order, request: EpochRequest, data: Extent, stretch: int, last: LastWindow
) -> Iterator[Rows]:
    """The samples of an epoch as they come, without regard to minibatches. No more of the data is
    made available than these take; where samples keep their order, `stretch` of them at a time.

    last  kept between the epochs of these data in this order

    GraphcError `bad-data` where there are none.
    """
    span = order.span(stretch)
    at_pass, offset, left = _start(request, data, span)
    while left is None or left > 0:
        window = offset // span
        low = window * span
        high = data.reach(low + span, keep=low)
        if offset >= high:
            if left is None:
                return
            at_pass, offset = at_pass + 1, 0
            continue
        # In a later pass all of the data is known, and so is the number of windows of each.
        windows = -(-data.reach(EVERYTHING, keep=low) // span) if at_pass else 0
        window_rows = last.rows(order, at_pass * windows + window, low, high)
        rows = window_rows[offset - low :][:left]
        left = None if left is None else left - len(rows)
        yield rows
        offset = high


def _start(request: EpochRequest, data: Extent, span: int) -> tuple[int, int, int | None]:
    """The pass, the place in it, and how many samples follow (None: to the end of the pass)."""
    first = request.epoch * request.size + request.skip
    counts_all = request.size == 0 and request.epoch > 0
    # Where samples are only counted, none are kept.
    keep = EVERYTHING if counts_all else first // span * span
    found = data.reach(EVERYTHING if counts_all else first + 1, keep=keep)
    if found == 0:
        raise fail("bad-data", "at least one sample is required, the data have none")
    if request.size == 0:
        return request.epoch, request.skip, None
    at_pass, offset = divmod(first, found) if found <= first else (0, first)
    return at_pass, offset, max(0, request.size - request.skip)


def check_order(order: object) -> Order:
    """For callers without a type checker: GraphcError `argument-type` unless it is an Order."""
    return instance(order, Order, "order", "a graphc.readers.Order")
