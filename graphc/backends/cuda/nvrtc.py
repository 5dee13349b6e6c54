"""NVIDIA's run-time compiler, NVRTC: where its library is found, and calls of it.

It needs neither a GPU nor a driver. Its functions are called through ctypes alone: CuPy's binding
drops the last byte of an image. They lock among themselves, so threads gain nothing.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from graphc.support.diagnostics import BackendUnavailable, InternalError, Note, Severity, make

MAJORS = (13, 12)
"""The releases of CUDA whose compiler is used, the newest first."""

_IN_WHEELS = {13: "cu13/lib", 12: "cuda_nvrtc/lib"}
_IN_CUDA = ("lib64", "lib")
CUDA = "/usr/local/cuda"
"""Where CUDA is installed, if nothing else is said."""

_COMPILATION, _MEMORY = 6, 1
_FIRST_LINES = 12

_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # ctypes' types have no name in common
    "Version": (POINTER(c_int), POINTER(c_int)),
    "GetNumSupportedArchs": (POINTER(c_int),),
    "GetSupportedArchs": (POINTER(c_int),),
    "CreateProgram": (POINTER(c_void_p), c_char_p, c_char_p, c_int, c_void_p, c_void_p),
    "CompileProgram": (c_void_p, c_int, POINTER(c_char_p)),
    "DestroyProgram": (POINTER(c_void_p),),
    **{
        f"Get{what}{part}": (c_void_p, POINTER(c_size_t) if part else c_char_p)
        for what in ("ProgramLog", "CUBIN", "PTX")
        for part in ("", "Size")
    },
}


class Nvrtc:
    """The library that was found.

    version        (13, 0), say
    architectures  that it makes code for: 75, 80, …
    """

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        for name, types in _FUNCTIONS.items():
            self._library[f"nvrtc{name}"].argtypes = types
        self._library["nvrtcGetErrorString"].restype = c_char_p
        self.path = path
        major, minor, count = c_int(), c_int(), c_int()
        self._call("Version", byref(major), byref(minor))
        self.version = major.value, minor.value
        self._call("GetNumSupportedArchs", byref(count))
        numbers = (c_int * count.value)()
        self._call("GetSupportedArchs", numbers)
        self.architectures = tuple(sorted(numbers))

    @property
    def shown_version(self) -> str:
        """`13.0`"""
        return ".".join(map(str, self.version))

    @contextmanager
    def compiled(self, text: str, options: Sequence[str]) -> Generator[Compiled]:
        """The text compiled. InternalError for text that it refuses."""
        program = c_void_p()
        self._call("CreateProgram", byref(program), text.encode(), b"graphc.cu", 0, None, None)
        try:
            given = (c_char_p * len(options))(*(o.encode() for o in options))
            status = self._library["nvrtcCompileProgram"](program, len(options), given)
            compiled = Compiled(self, program)
            if status == _COMPILATION:
                first = "\n".join(compiled.log.splitlines()[:_FIRST_LINES])
                raise InternalError(f"NVRTC {self.shown_version} refuses a text:\n{first}")
            self._check(status)
            yield compiled
        finally:
            self._call("DestroyProgram", byref(program))

    def content(self, what: str, program: c_void_p) -> bytes:
        """All bytes of what a program has become: its CUBIN, PTX or ProgramLog."""
        size = c_size_t()
        self._call(f"Get{what}Size", program, byref(size))
        made = ctypes.create_string_buffer(size.value)
        self._call(f"Get{what}", program, made)
        return made.raw

    def _call(self, name: str, *arguments: object) -> None:
        self._check(self._library[f"nvrtc{name}"](*arguments))

    def _check(self, status: int) -> None:
        if status == 0:
            return
        said: bytes = self._library["nvrtcGetErrorString"](status)
        slug = "limit" if status == _MEMORY else "toolchain"
        message = f"NVRTC {self.path} fails: {said.decode()}"
        raise BackendUnavailable([make(Severity.ERROR, slug, message, None, "", ())])


class Compiled:
    """A text that was compiled, as long as NVRTC keeps it."""

    def __init__(self, nvrtc: Nvrtc, program: c_void_p) -> None:
        self._nvrtc = nvrtc
        self._program = program

    @property
    def log(self) -> str:
        return self._text("ProgramLog")

    @property
    def ptx(self) -> str:
        return self._text("PTX")

    @property
    def cubin(self) -> bytes:
        return self._nvrtc.content("CUBIN", self._program)

    def _text(self, what: str) -> str:
        """Without the zero byte at its end."""
        return self._nvrtc.content(what, self._program).rstrip(b"\0").decode("utf-8", "replace")


def require_nvrtc(newest: int = MAJORS[0]) -> Nvrtc:
    """The library, of no release of CUDA above `newest`: a driver takes images of its own and of
    earlier ones. Raises BackendUnavailable that says where it was looked for."""
    problems: list[str] = []
    for path in _places(newest):
        found = _loaded(path)
        if isinstance(found, Nvrtc):
            return found
        problems.append(found)
    names = " and ".join(f"libnvrtc.so.{major}" for major in _majors(newest))
    message = f"CUDA code needs NVIDIA's compiler NVRTC, and {names} cannot be loaded"
    extras = " or ".join(f"pip install 'graphc[cuda{major}]'" for major in _majors(newest))
    notes = [
        *map(Note, problems),
        Note("it may be in a package of Python, in the loader's path or below CUDA_PATH"),
        Note(f"{extras} brings it; neither a GPU nor a driver is needed"),
    ]
    raise BackendUnavailable([make(Severity.ERROR, "toolchain", message, None, "", notes)])


def _majors(newest: int) -> list[int]:
    return [major for major in MAJORS if major <= max(newest, MAJORS[-1])]


def _places(newest: int) -> Iterator[str]:
    """Files that may be the library: of Python packages, of the loader, of an installed CUDA."""
    majors = _majors(newest)
    wheels = find_spec("nvidia")
    for major in majors:
        for folder in (wheels and wheels.submodule_search_locations) or ():
            path = Path(folder) / _IN_WHEELS[major] / f"libnvrtc.so.{major}"
            if path.exists():
                yield str(path)
    yield from map(_in_loader, majors)
    roots = [os.environ.get(name, "") for name in ("CUDA_PATH", "CUDA_HOME")]
    for root in [*filter(None, roots), CUDA]:
        for path in (Path(root) / lib / f"libnvrtc.so.{m}" for lib in _IN_CUDA for m in majors):
            if path.exists():
                yield str(path)


def _in_loader(major: int) -> str:
    return f"libnvrtc.so.{major}"


@cache
def _loaded(path: str) -> Nvrtc | str:
    """The library in a file, or why it cannot be used."""
    try:
        return Nvrtc(path)
    except (OSError, AttributeError) as problem:  # the second: a function is missing
        said = re.sub(rf"^{re.escape(path)}: ", "", str(problem))
        return f"{path}: {said}"
