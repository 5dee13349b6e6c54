"""graphc itself, by backend; and the reference that everyone is compared with."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from bench.ours import FORMS, How
from bench.peers import CannotSay, Case
from bench.workloads.record import Workload

HOW = {
    "llvm": How("llvm", "f32"),
    "numpy": How("numpy", "f32"),
    "cuda": How("cuda", "f32"),
    "cuda.tf32": How("cuda", "f32", "tf32"),
    "reference": How("numpy", "f64"),
}

IMPORTED = (
    "graphc.api",
    "graphc.backends.llvm.emit",
    "graphc.backends.llvm.epoch",
    "graphc.backends.llvm.profile",
    "graphc.backends.llvm.runtime",
    "graphc.backends.numpy",
    "graphc.tensor.function",
    "graphc.tensor.functions",
    "graphc_frontends.ndl",
    "graphc_frontends.network",
    "graphc.passes.analysis.schedules",
)
"""What graphc imports when it is first needed, in the midst of the first compilation. Here it is
imported with this file, as the other packages are with theirs: imports are not timed."""

for name in IMPORTED:
    import_module(name)


def case(work: Workload, threads: int, variant: str) -> Case:
    """The number of threads is in GRAPHC_NUM_THREADS."""
    form = FORMS.get(type(work.spec))
    if form is None:
        raise CannotSay(f"no form of {type(work.spec).__name__}")
    how = HOW[variant]
    if work.bf16 and how.precision == "f32":
        how = replace(how, contraction="bf16")
    return form(work, how)
