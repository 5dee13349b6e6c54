"""What `graphc --version` prints: graphc, Python, numpy, and LLVM where llvmlite is installed."""

from __future__ import annotations

import platform
from importlib import metadata


def version_text() -> str:
    """Three lines at most; reads the packages' metadata and imports none of them but LLVM's."""
    lines = [f"graphc {_version('graphc')}", f"Python {platform.python_version()}"]
    lines[1] += f", numpy {_version('numpy')}"
    lines.append(_llvm_line())
    return "\n".join(lines)


def _llvm_line() -> str:
    version = _version("llvmlite")
    return f"LLVM from llvmlite {version}" if version != "unknown" else "no LLVM: llvmlite missing"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
