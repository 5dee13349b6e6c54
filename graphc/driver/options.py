"""What a compilation can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from graphc.backends import BACKENDS
from graphc.ir.core import Module
from graphc.ir.types import DType
from graphc.passes.expand_nodes import DEFAULT_ENTRIES, ENTRIES_DIM, SAMPLES_DIM
from graphc.passes.manager import Pass
from graphc.support.diagnostics import fail, suggestion

DEFAULT_BATCH = 256
DEFAULT_BACKEND = "llvm"

PRECISIONS: Mapping[str, DType] = {
    "f32": DType.F32,
    "f64": DType.F64,
    "float": DType.F32,
    "double": DType.F64,
}


@dataclass(frozen=True)
class CompileOptions:
    """backend    a name of `BACKENDS`
    precision  element type of all floating-point values
    batch      bound on the number of samples in a call
    verify     check the IR after every pass
    after      called after every pass (printing)
    entries    bound on the numbers that a sample of a sparse input has
    """

    backend: str = DEFAULT_BACKEND
    precision: DType = DType.F32
    batch: int = DEFAULT_BATCH
    verify: bool = False
    after: Callable[[Pass, Module], None] | None = None
    entries: int = DEFAULT_ENTRIES

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            near = suggestion(self.backend, BACKENDS)
            raise fail(
                "bad-option",
                f"a backend is one of {', '.join(BACKENDS)}, got `{self.backend}`{near}",
            )
        if not _is_whole(self.batch) or not 1 <= self.batch <= 2**31 - 1:
            raise fail("bad-option", f"batch requires 1 to 2147483647 samples, got {self.batch!r}")

    def widened(self, bounds: Mapping[str, int]) -> CompileOptions:
        """For calls of up to these sizes, by the names of dims."""
        entries = [b for name, b in bounds.items() if name.startswith(ENTRIES_DIM)]
        return replace(
            self,
            batch=bounds.get(SAMPLES_DIM, self.batch),
            entries=max(entries, default=self.entries),
        )


def parse_precision(text: str) -> DType:
    """f32 or f64 (also as the toolkit's `float` and `double`)."""
    for name, dtype in PRECISIONS.items():
        if name == text:
            return dtype
    raise fail("bad-option", f"a precision is f32 or f64, got `{text}`")


def _is_whole(value: object) -> bool:
    """For callers without a type checker."""
    return isinstance(value, int) and not isinstance(value, bool)
