"""The benchmark's workloads as planned functions, each with what one call of it is given."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from bench.ours import FORMS, How
from bench.workloads import workload
from graphc.backends import BACKENDS
from graphc.backends.base import Backend
from graphc.ir.core import Function
from graphc.ir.machine import GpuMachine
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.residency import come_home
from graphc.runtime.signature import NUMPY_DTYPES, Signature, concrete_shape

Array = np.ndarray


@dataclass(frozen=True)
class Recorded:
    """A function, and the arrays and sizes of one call."""

    function: Function
    signature: Signature
    arguments: tuple[Array, ...]
    sizes: Mapping[str, int]

    def call(self, compiled: CompiledFunction) -> list[bytes]:
        """What fresh results and updated arguments are then."""
        given, results = [array.copy() for array in self.arguments], self._results()
        compiled(given, results, self.sizes)
        come_home(given)
        return [array.tobytes() for array in (*given, *results)]

    def before(self) -> list[bytes]:
        """The same where nothing is computed."""
        return [array.tobytes() for array in (*self.arguments, *self._results())]

    def _results(self) -> list[Array]:
        return [
            np.zeros(concrete_shape(r.shape, self.sizes), NUMPY_DTYPES[r.dtype])
            for r in self.signature.fresh_results
        ]


class _Stop(Exception):
    pass


class _Recorder(CompiledFunction):
    def __init__(self, found: list[Recorded], function: Function, signature: Signature) -> None:
        self._found = found
        self._made = function, signature

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        copies = tuple(np.array(array) for array in arguments)
        self._found.append(Recorded(*self._made, copies, dict(sizes)))
        raise _Stop


def recorded(name: str, machine: GpuMachine, *, small: bool) -> Recorded:
    """The workload, planned for the machine."""
    work = workload(name, small=small)
    with _recording(machine) as found, suppress(_Stop):
        FORMS[type(work.spec)](work, How("recording", "f32")).run()
    return found[0]


@contextmanager
def _recording(machine: GpuMachine) -> Generator[list[Recorded]]:
    """A backend that remembers the first call."""
    found: list[Recorded] = []
    BACKENDS["recording"] = lambda: Backend(
        "recording",
        "remembers a call",
        "kernels",
        lambda function, signature: _Recorder(found, function, signature),
        machine=lambda _: machine,
    )
    try:
        yield found
    finally:
        del BACKENDS["recording"]
