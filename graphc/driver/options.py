"""What a compilation can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from graphc.backends import BACKENDS
from graphc.driver.begun import Begun
from graphc.driver.cache import Cache
from graphc.driver.profile import Profile
from graphc.ir.core import CONTRACTION_MODES, LAUNCH_MODES, ContractionMode, LaunchMode, Module
from graphc.ir.machine import AnyMachine
from graphc.ir.types import DType
from graphc.ops.nodes.sequence_columns import SEQUENCES_DIM, TIME_DIM
from graphc.passes.expand_nodes import DEFAULT_ENTRIES, ENTRIES_DIM, SAMPLES_DIM
from graphc.passes.loop_gradient import RECOMPUTE, Recompute
from graphc.passes.manager import Pass
from graphc.runtime.threads import checked_threads
from graphc.support.arguments import text, truth
from graphc.support.diagnostics import fail, suggestion
from graphc.support.phases import Phases

DEFAULT_BATCH = 256
DEFAULT_TIME = 64
MOST_SAMPLES = 2**31 - 1
MOST_COLUMNS = 2**30
"""Steps of a sequence and sequences side by side: each, and their product, at most."""
DEFAULT_BACKEND = "llvm"

PRECISIONS: Mapping[str, DType] = {
    "f32": DType.F32,
    "f64": DType.F64,
    "float": DType.F32,
    "double": DType.F64,
}


Part = Literal["frozen", "seldom", "rest"]

_NOT_IN_CODE = frozenset({"verify", "after", "cache", "profile", "phases", "begun", "threads"})


@dataclass(frozen=True)
class CompileOptions:
    """backend    a name of `BACKENDS`
    precision  element type of all floating-point values
    batch      bound on the number of samples in a call
    verify     check the IR after every pass
    after      called after every pass (printing)
    entries    bound on the numbers that a sample of a sparse input has
    time       bound on the steps of sequences; 0: as the network needs it, `DEFAULT_TIME` where it
               looks along time and none where it does not
    sequences  bound on the number of sequences side by side
    carry      sequences go on from one call to the next
    recompute  what gradients of loops compute again to save memory: a name of `RECOMPUTE`
    cache      where compiled code is kept and looked for; None: it is made anew
    profile    where the times of each operation are collected; None: they are not taken
    phases     where the time of compiling is counted, of all compilations with these options
    begun      where one part of a function leaves what its first passes made for the other; None:
               nowhere
    freeze     the parameters as they are now belong to the code, which may turn matrices
    seldom     inputs that need not be given to every call
    part       what is compiled: what depends on frozen parameters alone, on these and inputs that
               are given seldom, or the rest
    contraction  of native code: "fma" rounds a product and the sum it goes to together, in the
               functions and sums of products where the target can; "off" rounds each by itself;
               "tf32" is "fma", but a GPU may round the factors of matrix products of f32 to 10 bits
               of fraction; "bf16" rounds these to bf16 on every backend
    threads    how many compute a call; None: as `graphc.runtime.threads` says
    target     the instruction set that code is made for: `native`, `x86-64-v3`, …
    machine    what schedules are made for; None: the target
    numbered   inputs of labels that calls give as class numbers instead of one-hot rows
    launch     how a GPU runs a function: "graph", many kernels; "grid", one kernel whose blocks
               wait for each other; "block", one block; "auto", what takes least time by estimate
    """

    backend: str = DEFAULT_BACKEND
    precision: DType = DType.F32
    batch: int = DEFAULT_BATCH
    verify: bool = False
    after: Callable[[Pass, Module], None] | None = None
    entries: int = DEFAULT_ENTRIES
    time: int = 0
    sequences: int = 1
    carry: bool = False
    recompute: Recompute = "auto"
    cache: Cache | None = None
    profile: Profile | None = None
    phases: Phases = field(default_factory=Phases, compare=False)
    begun: Begun | None = field(default=None, compare=False)
    contraction: ContractionMode = "fma"
    threads: int | None = None
    freeze: bool = False
    seldom: tuple[str, ...] = ()
    part: Part = "rest"
    target: str = "native"
    machine: AnyMachine | None = None
    launch: LaunchMode = "auto"
    numbered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("backend", "recompute", "contraction", "launch"):
            text(getattr(self, name), name)
        for name in ("verify", "carry", "freeze"):
            truth(getattr(self, name), name)
        if self.backend not in BACKENDS:
            near = suggestion(self.backend, BACKENDS)
            raise fail(
                "bad-option",
                f"a backend is one of {', '.join(BACKENDS)}, got `{self.backend}`{near}",
            )
        if not _is_whole(self.batch) or not 1 <= self.batch <= MOST_SAMPLES:
            message = f"batch requires 1 to {MOST_SAMPLES} samples, got {self.batch!r}"
            raise fail("bad-option", message)
        if not _is_whole(self.time) or not 0 <= self.time <= MOST_COLUMNS:
            message = f"time requires 0 to {MOST_COLUMNS} steps, got {self.time!r}"
            raise fail("bad-option", message)
        if not _is_whole(self.sequences) or not 1 <= self.sequences <= MOST_COLUMNS:
            message = f"sequences requires 1 to {MOST_COLUMNS}, got {self.sequences!r}"
            raise fail("bad-option", message)
        if self.recompute not in RECOMPUTE:
            modes = ", ".join(RECOMPUTE)
            raise fail("bad-option", f"recompute is one of {modes}, got {self.recompute!r}")
        if self.contraction not in CONTRACTION_MODES:
            modes = ", ".join(CONTRACTION_MODES)
            raise fail("bad-option", f"contraction is one of {modes}, got {self.contraction!r}")
        if self.launch not in LAUNCH_MODES:
            modes = ", ".join(LAUNCH_MODES)
            raise fail("bad-option", f"launch is one of {modes}, got {self.launch!r}")
        if self.threads is not None:
            checked_threads(self.threads)
        if self.time * self.sequences > MOST_COLUMNS:
            message = f"at most {MOST_COLUMNS} columns, got {self.time} steps x {self.sequences}"
            raise fail("bad-option", message)

    def deciding(self) -> str:
        """What of the options decides the code, as lines of text: all but those that are known not
        to, so that one that is added later counts."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _NOT_IN_CODE}
        return "\n".join(f"{name} = {value}" for name, value in given.items())

    def widened(self, bounds: Mapping[str, int]) -> CompileOptions:
        """For calls of up to these sizes, by the names of dims."""
        entries = [b for name, b in bounds.items() if name.startswith(ENTRIES_DIM)]
        return replace(
            self,
            batch=bounds.get(SAMPLES_DIM, self.batch),
            time=bounds.get(TIME_DIM, self.time),
            sequences=bounds.get(SEQUENCES_DIM, self.sequences),
            entries=max(entries, default=self.entries),
        )


def parse_precision(name: str) -> DType:
    """f32 or f64 (also as the toolkit's `float` and `double`)."""
    dtype = PRECISIONS.get(text(name, "precision"))
    if dtype is None:
        raise fail("bad-option", f"a precision is f32 or f64, got `{name}`")
    return dtype


def parse_arithmetic(precision: str, contraction: ContractionMode) -> tuple[DType, ContractionMode]:
    """What to compute in, and how to round: `tf32` and `bf16` are the precision f32 with that
    contraction."""
    if text(precision, "precision") not in ("tf32", "bf16"):
        return parse_precision(precision), contraction
    named: ContractionMode = "tf32" if precision == "tf32" else "bf16"
    if contraction not in ("fma", named):
        message = (
            f"precision {precision} is a contraction of its own: contraction {contraction} is not "
            "possible"
        )
        raise fail("bad-option", message)
    return DType.F32, named


def _is_whole(value: object) -> bool:
    """For callers without a type checker."""
    return isinstance(value, int) and not isinstance(value, bool)
