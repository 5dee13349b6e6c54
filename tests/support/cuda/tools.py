"""NVIDIA's compiler and disassembler, which tests without a GPU use where they are installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from graphc.backends.cuda.compiler import Image
from graphc.backends.cuda.nvrtc import require_nvrtc
from graphc.support.diagnostics import BackendUnavailable

_IN_WHEELS = ("cu13/bin/nvdisasm", "cuda_nvdisasm/bin/nvdisasm")
_FUNCTION = re.compile(r"^\.text\.(\w+):$", re.MULTILINE)
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")


def _missing_nvrtc() -> str:
    try:
        require_nvrtc()
    except BackendUnavailable as problem:
        return problem.diagnostics[0].message
    return ""


def disassembler() -> str | None:
    """The path of nvdisasm, of a Python package or on the PATH."""
    spec = find_spec("nvidia")
    folders = (spec and spec.submodule_search_locations) or ()
    found = [Path(folder) / path for folder in folders for path in _IN_WHEELS]
    return next((str(p) for p in found if p.exists()), shutil.which("nvdisasm"))


needs_nvrtc = pytest.mark.skipif(_missing_nvrtc() != "", reason=_missing_nvrtc() or "it is there")
needs_nvdisasm = pytest.mark.skipif(
    disassembler() is None or _missing_nvrtc() != "",
    reason="no nvdisasm: pip install nvidia-cuda-nvdisasm",
)


def machine_code(image: Image) -> dict[str, list[str]]:
    """The instructions of each kernel of an image, without addresses."""
    tool = disassembler()
    assert tool is not None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "image.cubin"
        file.write_bytes(image.code)
        done = subprocess.run([tool, "-c", str(file)], capture_output=True, text=True, check=True)
    _, *parts = _FUNCTION.split(done.stdout)
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: _INSTRUCTION.findall(text) for name, text in pairs}
