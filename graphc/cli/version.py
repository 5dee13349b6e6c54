"""What `graphc --version` prints: graphc, Python, numpy, LLVM from llvmlite, CuPy."""

from __future__ import annotations

import platform
from importlib import metadata

CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
"""The packages that CuPy comes in."""


def version_text() -> str:
    """A few lines; reads the packages' metadata and imports none of them."""
    lines = [f"graphc {_version('graphc')}", f"Python {platform.python_version()}"]
    lines[1] += f", numpy {_version('numpy')}"
    lines += [_llvm_line(), _gpu_line()]
    return "\n".join(lines)


def _llvm_line() -> str:
    version = _version("llvmlite")
    return f"LLVM from llvmlite {version}" if version != "unknown" else "no LLVM: llvmlite missing"


def _gpu_line() -> str:
    found = {name: version for name in CUPY if (version := _version(name)) != "unknown"}
    listed = ", ".join(f"{name} {version}" for name, version in found.items())
    return f"GPUs by {listed}" if found else "no GPUs: CuPy missing"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
