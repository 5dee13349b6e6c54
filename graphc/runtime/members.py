"""A function that waits for other members in its middle: two functions, and a sum between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from graphc.runtime.communicator import Communicator
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.signature import NUMPY_DTYPES, Result, Signature

Array = np.ndarray
ALIGNMENT = 64
"""Bytes that each array of a sum starts at a multiple of."""


@dataclass(frozen=True, slots=True)
class Half:
    """What comes before or after the sum."""

    compiled: CompiledFunction
    signature: Signature


class MemberFunction(CompiledFunction):
    """The function of `signature`: `before` gives what is added, in one array so that members meet
    once, and `after` takes the sums as further arguments of these names."""

    def __init__(
        self, signature: Signature, before: Half, after: Half, communicator: Communicator
    ) -> None:
        self.keeps_arrays = before.compiled.keeps_arrays and after.compiled.keeps_arrays
        self._names = [a.name for a in signature.arguments]
        self._before, self._after = before, after
        self._communicator = communicator
        self._buffer, self._summands = _side_by_side(before.signature.fresh_results)

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        """See `CompiledFunction`."""
        arrays = {**dict(zip(self._names, arguments, strict=True)), **self._summands}
        before, after = self._before, self._after
        given = [arrays[a.name] for a in before.signature.arguments]
        before.compiled(given, list(self._summands.values()), sizes)
        self._communicator.all_reduce(self._buffer)
        after.compiled([arrays[a.name] for a in after.signature.arguments], results, sizes)

    def use_threads(self, threads: int) -> None:
        """See `CompiledFunction`."""
        self._before.compiled.use_threads(threads)
        self._after.compiled.use_threads(threads)


def _side_by_side(results: Sequence[Result]) -> tuple[Array, dict[str, Array]]:
    """One array of zeros, and the results of fixed shapes in it by name."""
    shapes = [tuple(d for d in r.shape if isinstance(d, int)) for r in results]
    dtype = NUMPY_DTYPES[results[0].dtype]
    unit = ALIGNMENT // dtype.itemsize
    counts = [math.prod(shape) for shape in shapes]
    starts = list(accumulate((-(-count // unit) * unit for count in counts), initial=0))
    buffer = np.zeros(starts[-1], dtype)
    parts = {
        r.name: buffer[start : start + count].reshape(shape)
        for r, start, count, shape in zip(results, starts, counts, shapes, strict=False)
    }
    return buffer, parts
