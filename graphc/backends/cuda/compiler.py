"""From the text of kernels to code of a GPU, and what each kernel takes of a multiprocessor."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from graphc.backends.cuda.nvrtc import MAJORS, Nvrtc, require_nvrtc
from graphc.support.diagnostics import fail
from graphc.support.phases import Phases

OPTIONS = ("--std=c++17", "--fmad=false")
"""A product and a sum are rounded together only where the text says so."""

_OWN_OPTIONS = (*OPTIONS, "--device-int128")
"""Of NVRTC, which has to be told of what nvcc allows."""

_log = logging.getLogger(__name__)

_ENTRY = re.compile(r"Compiling entry function '(\w+)'")
_NUMBERS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "stack": re.compile(r"(\d+) bytes stack frame"),
    "stored": re.compile(r"(\d+) bytes spill stores"),
    "loaded": re.compile(r"(\d+) bytes spill loads"),
    "shared": re.compile(r"(\d+) bytes smem"),
}
_REMARKS = ("ptxas", "info")


@dataclass(frozen=True, slots=True)
class Resources:
    """What a kernel takes, as the assembler says.

    registers  of a thread
    stack      bytes of memory of its own that a thread has in one function, because registers
               cannot be indexed or a function keeps those of its caller
    spills     bytes that are stored and loaded because they found no register
    shared     bytes of shared memory of a block, without what a launch adds
    """

    registers: int
    stack: int = 0
    spills: int = 0
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Image:
    """Code of kernels for one architecture: a file `.cubin`.

    resources  by the name of a kernel
    """

    arch: str
    code: bytes
    resources: Mapping[str, Resources] = field(default_factory=dict)

    @property
    def capability(self) -> int:
        """90 of sm_90."""
        return int(self.arch.removeprefix("sm_"))


def compile_text(
    text: str, arch: str, phases: Phases | None = None, newest: int = MAJORS[0]
) -> Image:
    """The image of a text for `arch`, such as sm_90.

    newest  release of CUDA that may be used, for a driver that takes no later one
    Raises BackendUnavailable without NVRTC, GraphcError for an architecture that it does not know,
    InternalError for text that it refuses.
    """
    with (phases or Phases()).measure("nvrtc"):
        nvrtc = require_nvrtc(newest)
        _check_arch(nvrtc, arch)
        options = (f"--gpu-architecture={arch}", *_OWN_OPTIONS, "--ptxas-options=-v")
        with nvrtc.compiled(text, options) as compiled:
            log = compiled.log
            if warned := [line for line in log.splitlines() if not _is_remark(line)]:
                _log.debug("NVRTC warns:\n%s", "\n".join(warned))
            return Image(arch, compiled.cubin, resources_in(log))


def portable_text(text: str, arch: str, phases: Phases | None = None) -> str:
    """The PTX of a text, from which a driver makes code of `arch` and of any later one."""
    with (phases or Phases()).measure("nvrtc"):
        nvrtc = require_nvrtc()
        _check_arch(nvrtc, arch)
        options = (f"--gpu-architecture={arch.replace('sm_', 'compute_')}", *_OWN_OPTIONS)
        with nvrtc.compiled(text, options) as compiled:
            return compiled.ptx


def resources_in(log: str) -> dict[str, Resources]:
    """What each kernel takes, out of the assembler's remarks."""
    _, *parts = _ENTRY.split(log)
    return {name: _resources(said) for name, said in zip(parts[::2], parts[1::2], strict=True)}


def newest_release() -> int:
    """The release of CUDA whose compiler makes images: a driver has to be of it or a later one."""
    return require_nvrtc().version[0]


def compiler_version() -> str:
    """What decides images besides the text."""
    nvrtc = require_nvrtc()
    return f"NVRTC {nvrtc.shown_version} {' '.join(_OWN_OPTIONS)}"


def _resources(said: str) -> Resources:
    """Out of the remarks on a kernel and on the functions that it calls."""
    numbers = {name: [*map(int, found.findall(said))] or [0] for name, found in _NUMBERS.items()}
    spills = sum(numbers["stored"]) + sum(numbers["loaded"])
    stack = max(numbers["stack"])
    return Resources(max(numbers["registers"]), stack, spills, max(numbers["shared"]))


def _is_remark(line: str) -> bool:
    return not line.strip() or line.startswith(_REMARKS)


def _check_arch(nvrtc: Nvrtc, arch: str) -> None:
    number = re.fullmatch(r"sm_(\d+)[af]?", arch)
    if number is None or int(number[1]) not in nvrtc.architectures:
        known = ", ".join(f"sm_{n}" for n in nvrtc.architectures)
        message = f"NVRTC {nvrtc.shown_version} makes code for {known}, not for {arch}"
        raise fail("not-supported", message)
