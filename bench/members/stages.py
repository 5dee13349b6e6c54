"""What a step of a split layer takes besides computing: `python -m bench.members.stages`.

One member, whose other one has what it has itself, so that nobody waits. Microseconds of a step,
the least of many, of the network of `bench.members.split`: with sums made where they stand in
native code (`added`), and with stages between which Python meets the others (`split`). Of the
latter how much is spent in compiled code, in what members exchange (packing, folding; handing over
is a copy here), in what calls the stages, and before and behind it, where arguments are checked.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from bench.members.split import step_of
from bench.members.ways import keep_to_a_core
from graphc.backends.native import NativeFunction
from graphc.runtime.stages import StagedFunction

SIZES = ((40, 16, 16), (1000, 100, 64))
"""Outputs, numbers that the layer reads, samples of a member."""
CALLS = 1000
PARTS: dict[str, tuple[tuple[type, str], ...]] = {
    "compiled": ((NativeFunction, "__call__"),),
    "exchanged": ((StagedFunction, "_exchanged"), (StagedFunction, "_all_sizes")),
    "staged": ((StagedFunction, "__call__"),),
}


class Twin:
    """A member of two who have the same numbers. Of a table of numbers, whole ones, each member has
    a row; other arrays are added."""

    rank, size, wire = 0, 2, "full"

    def all_reduce(self, array: np.ndarray) -> None:
        array += array[::-1] if array.dtype.kind == "i" and array.ndim == 2 else array

    def exchange(self, rows: np.ndarray) -> np.ndarray:
        return np.stack([rows[0], rows[0]])

    def collect(self, piece: np.ndarray) -> np.ndarray:
        return np.stack([piece, piece])


def main() -> None:
    argparse.ArgumentParser(
        prog="python -m bench.members.stages", description=(__doc__ or "").partition("\n")[0]
    ).parse_args()
    keep_to_a_core(0)
    heads = ("added", "split", "compiled", "exchanged", "calling", "checking")
    print(f"{'outputs, numbers, samples':28}" + "".join(f"{head:>11}" for head in heads) + "   us")
    for sizes in SIZES:
        row = measured(*sizes)
        print(
            f"{', '.join(map(str, sizes)):28}"
            + "".join(f"{seconds * 1e6:11.0f}" for seconds in row),
            flush=True,
        )


def measured(outputs: int, width: int, samples: int) -> list[float]:
    """Seconds of both steps, and of the parts of the second one."""
    given = argparse.Namespace(outputs=outputs, width=width, samples=2 * samples)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, width)).astype(np.float32)
    y = rng.integers(0, outputs, samples)
    calls = [partial(step_of(given, Twin(), is_split), x=x, y=y) for is_split in (False, True)]
    added, split = map(least_of, calls)
    spent = {name: least_in(parts, calls[1]) for name, parts in PARTS.items()}
    compiled, exchanged, staged = (spent[name] for name in PARTS)
    return [added, split, compiled, exchanged, staged - compiled - exchanged, split - staged]


def least_of(call: Callable[[], object]) -> float:
    """Seconds of a call, the least."""
    times: list[float] = []
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def least_in(parts: tuple[tuple[type, str], ...], call: Callable[[], object]) -> float:
    """Seconds of a call that are spent in these methods, the least."""
    spent = [0.0]
    found: list[float] = []
    with timed(parts, spent):
        for _ in range(CALLS):
            spent[0] = 0.0
            call()
            found.append(spent[0])
    return min(found)


@contextmanager
def timed(parts: tuple[tuple[type, str], ...], spent: list[float]) -> Any:
    """Inside of it what calls of these methods take is added to `spent`."""
    kept = [getattr(kind, name) for kind, name in parts]

    def clocked(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: object, **named: object) -> Any:
            start = time.perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                spent[0] += time.perf_counter() - start

        return call

    for (kind, name), method in zip(parts, kept, strict=True):
        setattr(kind, name, clocked(method))
    try:
        yield
    finally:
        for (kind, name), method in zip(parts, kept, strict=True):
            setattr(kind, name, method)


if __name__ == "__main__":
    main()
