"""Who is measured: graphc's backends and the peers, each in a file of its own.

Such a file has `case(work, threads)`, which makes a `Case` of a workload or raises `CannotSay`. It
is imported only in the process that measures it. Peers know nothing of graphc.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from bench.workloads.record import Values


class CannotSay(Exception):
    """The peer, or this file of it, has no form for the workload. The text says why."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Case:
    """A workload ready to be run.

    run         one call, as users would write it; its loss, the losses of its steps, or its outputs
    parameters  as they are now, by the workload's names; of a training workload
    begin       one call that leaves its results on a device, if that is another thing
    wait        until what was begun is done
    """

    run: Callable[[], Any]
    parameters: Callable[[], Values] = dict
    begin: Callable[[], object] | None = None
    wait: Callable[[], None] = _nothing


@dataclass(frozen=True)
class Entry:
    """module    in this package
    packages  without which it is absent; the first one's version is reported
    variant   which of the module's forms
    ours      a backend of graphc
    bf16      it has forms of workloads in bf16
    """

    module: str
    packages: tuple[str, ...]
    variant: str = ""
    ours: bool = False
    bf16: bool = False

    def missing(self) -> str:
        """Which of its packages this interpreter does not have, as a sentence; or nothing."""
        names = [p for p in self.packages if find_spec(p) is None]
        return f"{', '.join(names)} is not installed" if names else ""


ENTRIES: dict[str, Entry] = {
    "graphc-llvm": Entry("graphc", ("graphc", "llvmlite"), "llvm", ours=True, bf16=True),
    "graphc-numpy": Entry("graphc", ("graphc", "numpy"), "numpy", ours=True, bf16=True),
    "torch": Entry("torch", ("torch",), bf16=True),
    "torch.nn": Entry("torch", ("torch",), "nn"),
    "torch.compile": Entry("torch", ("torch",), "compile"),
    "jax": Entry("jax", ("jax",)),
    "onnxruntime": Entry("onnx", ("onnxruntime", "onnx")),
    "openvino": Entry("openvino", ("openvino", "onnx")),
    "tensorflow": Entry("tensorflow", ("tensorflow",)),
    "pytensor": Entry("pytensor", ("pytensor", "numba")),
    "numpy": Entry("numpy", ("numpy",)),
}
GPU_ENTRIES: dict[str, Entry] = {
    "graphc-cuda": Entry("graphc", ("graphc", "cupy"), "cuda", ours=True),
    "graphc-cuda.tf32": Entry("graphc", ("graphc", "cupy"), "cuda.tf32", ours=True),
    "torch": Entry("torch_cuda", ("torch",), "eager"),
    "torch.graph": Entry("torch_cuda", ("torch",), "graph"),
    "torch.graph.tf32": Entry("torch_cuda", ("torch",), "graph.tf32"),
    "torch.compile": Entry("torch_cuda", ("torch",), "compile"),
    "torch.compile.tf32": Entry("torch_cuda", ("torch",), "compile.tf32"),
    "jax": Entry("jax", ("jax",)),
    "jax.tf32": Entry("jax", ("jax",), "tf32"),
    "cupy": Entry("numpy", ("cupy",), "cupy"),
}
"""Who is measured on a GPU (`bench/gpu`). Names with tf32 may round the factors of products."""
REFERENCE = Entry("graphc", ("graphc",), "reference", ours=True, bf16=True)
"""graphc's numpy backend in f64: everyone's results are compared with its."""
