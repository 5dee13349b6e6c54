"""Staging: where a call's arrays wait on their way to the device and back, on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

import numpy as np

from graphc.backends.cuda.device import Memory
from graphc.runtime.signature import NUMPY_DTYPES, Argument, Result, Signature

Array = np.ndarray

ALIGNMENT = 256
"""Of arrays in staging."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Arrays one behind the other: where each starts, and behind them where the next would.

    In staging these are the arguments that are not held, then the fresh results.
    """

    starts: tuple[int, ...]

    @staticmethod
    def of(sizes: Sequence[int]) -> Layout:
        """For arrays of so many bytes."""
        rounded = (-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)
        return Layout(tuple(accumulate(rounded, initial=0)))

    @property
    def size(self) -> int:
        return self.starts[-1]


@dataclass(frozen=True, slots=True)
class FunctionMemory:
    """What a function has on the device, and `host`, which copies to and from staging."""

    arena: Memory
    scratch: Memory
    staging: Memory
    host: Array


@dataclass(frozen=True, slots=True)
class Frame:
    """How the arrays of calls of some sizes are staged: arguments that are not held, then results.

    places   on the device
    inputs, results  their memory on the host's side
    given, made      all bytes of those
    """

    places: Sequence[int]
    inputs: Sequence[Array]
    results: Sequence[Array]
    given: Array
    made: Array

    @staticmethod
    def of(memory: FunctionMemory, inputs: Sequence[Array], results: Sequence[Array]) -> Frame:
        """For arrays of these shapes and element types."""
        arrays = [*inputs, *results]
        layout = Layout.of([a.nbytes for a in arrays])
        views = [
            memory.host[start : start + a.nbytes].view(a.dtype).reshape(a.shape)
            for start, a in zip(layout.starts, arrays, strict=False)
        ]
        middle, base = layout.starts[len(inputs)], memory.staging.address
        return Frame(
            [base + start for start in layout.starts[:-1]],
            views[: len(inputs)],
            views[len(inputs) :],
            memory.host[:middle],
            memory.host[middle : layout.size],
        )


def bound_bytes(spec: Argument | Result, signature: Signature) -> int:
    """The bytes of an array with every dim at its bound."""
    bounds = {d.name: d.bound for d in signature.dims}
    elements = prod(bounds[d] if isinstance(d, str) else d for d in spec.shape)
    return elements * NUMPY_DTYPES[spec.dtype].itemsize
