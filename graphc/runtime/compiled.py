"""What a backend makes of a function: something to call, and what else it can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.device_arrays import DeviceArray
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import InternalError, fail

Array = np.ndarray

RunMinibatches = Callable[[Sequence[Array], Sequence[Array], Array, int, Array], None]
"""(arguments, fresh results, order i64[samples], size, done i64[1]): runs the function on `size`
rows of the inputs at a time, in this order, the last time on those that are left.

Inputs are all data [any, row]; hyperparameters and results hold a number for each minibatch. What
the rest is, and what is required of arrays, is as in a single call. `done` is 0 before and counts
the minibatches that are through, so it is right even where an interrupt ends the call in Python.
"""

Prepared = Callable[[int, Sequence[Array]], None]
"""(samples, arrays that change): runs a function whose other arrays were said before."""


Fixed = Callable[[], None]
"""Runs a function whose arrays and sizes were said before."""


class CompiledFunction(ABC):
    """A compiled function. Shapes and element types are checked by the caller, not here.

    run_minibatches  of a function that can do it by itself
    keeps_arrays  parameters and state live in memory of its own (`graphc.runtime.residency`)
    stream  of a GPU's function the handle of CUDA's stream that its work is on
    is_shared  others compute with it: of what all of them have, a call may have nothing
    adds_beside  sums over members are made beside what is computed; None where none could be
    same_for_all  those who compute with it have to have the same function
    checks_classes  it raises `NoSuchClass` before it does anything where class numbers are outside;
               otherwise they have to be looked at before the call
    """

    run_minibatches: RunMinibatches | None = None
    keeps_arrays: bool = False
    stream: int | None = None
    is_shared: bool = False
    adds_beside: bool | None = None
    same_for_all: bool = False
    checks_classes: bool = False

    @abstractmethod
    def __call__(
        self,
        arguments: Sequence[Array],
        results: Sequence[Array],
        sizes: Mapping[str, int],
    ) -> None:
        """Run once.

        arguments  in signature order, C-contiguous, of the declared dtype and shape; those that a
                   result `updates` are overwritten
        results    one array per `signature.fresh_results`, filled here
                   Where the function `takes` them, either may be a `DeviceArray`.
        sizes      the value of every dim
        """

    def taken(self, value: object) -> object:
        """An input as the function takes it: itself, or of a device's memory a `DeviceArray`.
        GraphcError `input` for one that cannot be taken."""
        return value

    def new_array(self, shape: tuple[int, ...], dtype: np.dtype) -> DeviceArray:
        """Memory for a result that stays on the device. GraphcError where there is none."""
        message = 'out="device" is for functions of a GPU, this one computes on the processor'
        raise fail("input", message)

    def forget_data(self) -> None:  # noqa: B027  # most keep none
        """What `run_minibatches` was given before may have changed since."""

    def use_threads(self, threads: int) -> None:  # noqa: B027  # most share no work
        """Have calls computed by so many threads, where the work of one is shared at all."""

    def add_over(self, communicator: Communicator) -> None:
        """Add `signature.sums` over all members by this communicator, in every call: of a function
        that has such sums, before its first call."""
        raise InternalError("a function without sums over members")

    def prepare(
        self, signature: Signature, arrays: Sequence[Array | None], changing: Sequence[int]
    ) -> Prepared:
        """The function, of at most one dim, with these arguments and fresh results; the places
        that are `changing` are filled at each call. For one thread, one call at a time."""
        count, dims = len(signature.arguments), [d.name for d in signature.dims]

        def run(samples: int, given: Sequence[Array]) -> None:
            filled = list(arrays)
            for i, array in zip(changing, given, strict=True):
                filled[i] = array
            # Only what is changing had no array before.
            self(filled[:count], filled[count:], dict.fromkeys(dims, samples))  # type: ignore[arg-type]

        return run

    def fixed(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> Fixed:
        """The function with all that a call is given. For one thread, one call at a time."""
        return lambda: self(arguments, results, sizes)
