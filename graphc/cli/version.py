"""What `graphc --version` prints: graphc, Python, numpy, LLVM from llvmlite, the GPU."""

from __future__ import annotations

import platform
from importlib import metadata


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
    from graphc.backends import BACKENDS

    backend = BACKENDS["cuda"]()
    missing = backend.missing()
    return f"no GPU: {missing}" if missing else f"GPU of {backend.isa('native')}"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
