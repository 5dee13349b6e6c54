"""Programs in C over an emulated driver: how they are built and called, each in a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from graphc.artifacts.link import link_shared
from graphc.backends.base import EmitRequest
from graphc.backends.cuda.compiler import Image
from graphc.backends.cuda.host import host_text
from graphc.backends.cuda.source import write_source
from graphc.ir.core import Function
from graphc.runtime.signature import Signature
from tests.support.cuda.building import compile_kernels, temporary_folder
from tests.support.cuda.emulator import emulated_machine

HERE = Path(__file__).parent

_CALL = """
import ctypes, json, sys
import numpy as np
library, name, arrays, out = sys.argv[1:5]
called = json.loads(sys.argv[5])
library = ctypes.CDLL(library)
status = getattr(library, name + "_status")
status.restype = ctypes.c_char_p
given = [*np.load(arrays).values()]
for counts in called:
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in given]
    counts = [ctypes.c_int64(n) for n in counts]
    code = getattr(library, name + "_run")(*counts, *pointers, None)
    if code:
        sys.exit(f"{code}: {status(code).decode()}")
np.savez(out, *given)
"""


@cache
def driver_folder() -> Path:
    """Where the emulated `libcuda.so.1` is."""
    folder = Path(temporary_folder())
    sources = [str(HERE / name) for name in ("driver.cpp", "emulator.cpp")]
    options = ["-std=c++17", "-O1", "-shared", "-fPIC", f"-I{HERE}"]
    library = str(folder / "libcuda.so.1")
    done = subprocess.run(
        ["g++", *options, "-o", library, *sources], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def environment(settings: str = "", driver: Path | None = None) -> dict[str, str]:
    """Of a process that finds the emulated driver; `settings` as in `driver.cpp`."""
    folder = str(driver or driver_folder())
    return {**os.environ, "LD_LIBRARY_PATH": folder, "STUB_DRIVER": settings}


def emulated_host(
    function: Function,
    signature: Signature,
    parameters: Mapping[str, np.ndarray],
    archs: Sequence[str] = ("sm_90",),
) -> str:
    """The program in C; its images are shared objects for the emulator."""
    source = write_source([(function, signature)], emulated_machine("sm_90"))
    code = compile_kernels(source.text)
    images = [Image(arch, code) for arch in archs]
    (program,) = source.programs
    request = EmitRequest(signature.name, parameters, "{}")
    return host_text(program, images, 12, signature, request)


def built(text: str, folder: Path, name: str) -> Path:
    """The library of a program in C; every warning is an error."""
    source, library = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(text, encoding="ascii")
    strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
    compiled = folder / f"{name}.o"
    command = ["cc", *strict, "-fPIC", "-c", "-o", str(compiled), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    exports = [f"{name}_{part}" for part in ("run", "arena_bytes", "status", "info")]
    link_shared([compiled], library, exports=exports)
    return library


def call(
    library: Path,
    name: str,
    arrays: Sequence[np.ndarray],
    counts: Sequence[Sequence[int]],
    settings: str = "",
    driver: Path | None = None,
) -> list[np.ndarray] | str:
    """The arrays after calls of NAME_run with these counts, or what the last says that went wrong.

    driver  the folder with `libcuda.so.1`, if it is not the emulated one
    """
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "before.npz", Path(folder) / "after.npz"
        np.savez(before, *arrays)
        command = [sys.executable, "-c", _CALL, str(library), name, str(before)]
        command += [str(after), json.dumps([list(c) for c in counts])]
        done = subprocess.run(
            command, env=environment(settings, driver), capture_output=True, text=True
        )
        if done.returncode:
            return done.stderr.strip()
        with np.load(after) as found:
            return list(found.values())
