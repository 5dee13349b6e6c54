"""What a backend offers: compile a function for calls from Python, emit it as text or bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np

from graphc.artifacts.numbers import StepNumbers
from graphc.data.plain_rows import ReadRows
from graphc.ir.core import Function, Operation
from graphc.ir.machine import AnyMachine
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.signature import Dimension, Signature
from graphc.support.aligned import aligned_empty
from graphc.support.diagnostics import BackendUnavailable, InternalError, Severity, fail, make
from graphc.support.phases import Phases

Stage = Literal["tensor", "kernels"]


def aligned_bytes(size: int, dims: Sequence[Dimension]) -> np.ndarray:
    """At least `size` bytes of uninitialised memory, from a multiple of `ALIGNMENT` on.

    They are the scratch memory of a function compiled for `dims`; GraphcError `limit` names their
    bounds where the machine has not that much.
    """
    try:
        return aligned_empty((max(size, 1),), np.uint8)  # an empty array has no address
    except (MemoryError, OverflowError, ValueError):  # the last two: more than numpy can count
        bounds = ", ".join(f"{d.name} up to {d.bound}" for d in dims)
        raise fail(
            "limit",
            f"{size} bytes of scratch memory are required{bounds and ' for '}{bounds}, "
            "this machine does not give them; compile for a smaller bound",
        ) from None


@dataclass(frozen=True)
class EmitRequest:
    """What to emit: embedded parameter values by name, the artifact's C name, target, info JSON.

    phases   where the time that it takes is counted
    numbers  what a training step is given
    """

    name: str
    parameters: Mapping[str, np.ndarray]
    info: str
    target: str = "native"
    phases: Phases = field(default_factory=Phases, compare=False)
    numbers: StepNumbers = field(default_factory=StepNumbers)


Emitter = Callable[[Function, Signature, EmitRequest], bytes]
"""(function, signature, request) -> the content of a file."""

Content = Iterable[bytes | memoryview]
"""Of a file, in pieces: large arrays are not copied to be written. May be gone through again."""


@dataclass(frozen=True)
class FileKind:
    """A kind of file that is made of a function.

    suffix       what its name ends in
    summary      a line for those who choose one
    emitter      what makes its content; None: it is linked, or made of another level
    is_text      people can read it
    is_compiled  it defines the functions of the C header
    linked_of    the kind that it is linked of, if it is
    one_target   it is for one target: of several there is a file for each
    fill         puts into the content what is not kept with it: large arrays
    """

    suffix: str
    summary: str
    emitter: Emitter | None = None
    is_text: bool = True
    is_compiled: bool = True
    linked_of: str | None = None
    one_target: bool = False
    fill: Callable[[bytes, Signature, EmitRequest], Content] | None = None

    def make(self, function: Function, signature: Signature, request: EmitRequest) -> bytes:
        """Its content, of a kind with an emitter."""
        if self.emitter is None:
            raise InternalError(f"{self.summary} has no emitter")
        return self.emitter(function, signature, request)


@dataclass(frozen=True)
class KeptCode:
    """The two halves of `compile` of a backend whose code can be kept in a file.

    make      function -> code
    load      code -> callable
    versions  target -> what decides the code besides the function and graphc's own sources
    """

    make: Callable[[Function, Signature, Phases], bytes]
    load: Callable[[bytes, Signature, Phases], CompiledFunction]
    versions: Callable[[str], Mapping[str, str]]


@dataclass(frozen=True)
class TableRows:
    """Native code that reads plain rows of text tables (`graphc/data/plain_rows.py`), for the
    machine that asks.

    make  () -> code
    load  code -> callable
    """

    make: Callable[[], bytes]
    load: Callable[[bytes], ReadRows]


Keep = Callable[[str, Callable[[], bytes]], bytes]
"""(what it does in words, what makes it): bytes that are kept from process to process."""

GRAIN_KEPT_AS = "says what work threads are woken for"
"""The name of what is kept: nanoseconds, and those after a long pause, in digits; 0 where they
could not be measured."""


@dataclass(frozen=True)
class PoolCode:
    """The threads that compiled functions of a process share.

    kept_by  says what keeps their code and what is measured of them, when threads are first needed;
             without it, nothing does
    """

    kept_by: Callable[[Keep], None]


@dataclass(frozen=True, slots=True)
class MachinePeak:
    """What one core of this machine does at most: f32 operations and bytes copied, a second."""

    flops: float
    bytes: float


class Recorder(Protocol):
    """Reads the times of a profiled function, in ticks of a counter that runs evenly."""

    @property
    def operations(self) -> Sequence[Operation]:
        """Those that have a time, loops included, whose time is that of all their steps."""
        ...

    def reset(self) -> None:
        """Forget what was noted so far."""
        ...

    def ticks(self) -> int:
        """The counter now."""
        ...

    def seconds_per_tick(self) -> float: ...

    def totals(self) -> tuple[np.ndarray, np.ndarray]:
        """The ticks of each operation, and how often it ran."""
        ...

    def events(self) -> np.ndarray:
        """i64[count, 3]: operation, ticks before and after, in the order in which they ended."""
        ...


@dataclass(frozen=True)
class Profiling:
    """What a backend offers for profiles.

    compile  (function, signature, phases, whether to keep events) -> callable, reader of its times
    peak     measures the machine, in a fraction of a second
    """

    compile: Callable[[Function, Signature, Phases, bool], tuple[CompiledFunction, Recorder]]
    peak: Callable[[], MachinePeak]


@dataclass(frozen=True)
class Backend:
    """A backend as data.

    stage    the IR it takes: `tensor` (before fusion) or `kernels` (fused and planned)
    compile  function -> callable
    emit     the kinds of files that it makes, by the name that people ask for them with; no other
             backend has the same name
    isa      request.target -> the instruction set level written into `info`
    machine  request.target -> what schedules are made for; None for a backend that asks for none
    has_threads  request.target -> whether what is emitted can compute with several threads
    code     the halves of `compile`, for a backend whose code is worth keeping
    profile  for a backend that can take the time of each operation
    table_rows  for a backend that can read text tables
    pool     for a backend whose functions share threads
    adds     its functions have sums over members made where they stand (`add_over`); others are cut
             in two there
    missing  what its functions need to be run here and there is not, for people; "" if nothing
    """

    name: str
    summary: str
    stage: Stage
    compile: Callable[[Function, Signature], CompiledFunction]
    emit: Mapping[str, FileKind] = field(default_factory=dict)
    isa: Callable[[str], str] = lambda target: "none"
    machine: Callable[[str], AnyMachine] | None = None
    has_threads: Callable[[str], bool] = lambda target: False
    code: KeptCode | None = None
    profile: Profiling | None = None
    table_rows: TableRows | None = None
    pool: PoolCode | None = None
    adds: bool = False
    missing: Callable[[], str] = lambda: ""

    @property
    def source(self) -> FileKind | None:
        """The first kind of file that it makes."""
        return next(iter(self.emit.values()), None)

    def require_here(self) -> None:
        """Raises BackendUnavailable where its functions cannot be run."""
        if what := self.missing():
            message = f"the backend {self.name} cannot run functions here: {what}"
            raise BackendUnavailable([make(Severity.ERROR, "backend", message, None, "", ())])
