"""From the text of kernels to a shared object that the emulator runs."""

from __future__ import annotations

import atexit
import ctypes
import re
import shutil
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

from graphc.backends.cuda.compiler import Image
from graphc.support.phases import Phases
from tests.support.compiled_once import kept

HERE = Path(__file__).parent
_COMMON = ("-std=c++17", "-shared", "-fPIC", "-x", "c++")
_KERNELS = (
    "-Og",  # takes a little longer than -O0, which its code makes up for
    *("-mfma", "-ffp-contract=off", "-fno-strict-aliasing", "-fwrapv"),
    # A vector that does not lie at a multiple of its size is a fault on a GPU.
    *("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"),
    *("-Werror=return-type", "-Wno-psabi"),
    "-nostdlib",  # C's functions are those of the process; to look for libraries takes a third
)
_COMMENT = re.compile(r"//.*")
_ENTRY = re.compile(r"__global__ void __launch_bounds__\([\d, ]+\)\s*(\w+)\(")

_ONE_ENGINE = threading.Lock()


def missing() -> str:
    """What there has to be for kernels to be compiled; "" if all is there."""
    return "" if shutil.which("g++") else "the emulator of CUDA requires g++"


def compile_kernels(text: str) -> bytes:
    """The shared object of a program's text."""
    text = _COMMENT.sub("", text)  # what moves numbers of one width is often the same in all types
    options = (*_KERNELS, "-include", str(HERE / "emulator.h"))
    return kept(lambda: _built(options, whole_text(text)), text, options)


def whole_text(text: str) -> str:
    """The program with a table of its kernels, in C++."""
    entries = "".join(f"    EMULATED_KERNEL({name}),\n" for name in _ENTRY.findall(text))
    listed = f"extern const EmulatedKernel emulated_kernels[] = {{\n{entries}    {{0, 0}},\n}};\n"
    # In a namespace without a name nothing is compiled that is not called.
    return f'namespace {{\n#line 1 "kernels.cu"\n{text}\n}}\nextern "C" {{\n{listed}}}\n'


def emulated_image(text: str, arch: str, phases: Phases) -> Image:
    """What `graphc.backends.cuda.compiler.compile_text` makes for a GPU."""
    with phases.measure("nvrtc"):
        return Image(arch, compile_kernels(text))


def load_object(content: bytes, mode: int = ctypes.DEFAULT_MODE) -> ctypes.CDLL:
    """The library; its file is gone then."""
    with tempfile.NamedTemporaryFile(suffix=".so", dir=temporary_folder()) as file:
        file.write(content)
        file.flush()
        return ctypes.CDLL(file.name, mode)


def engine() -> ctypes.CDLL:
    """`emulator.cpp`, which libraries of kernels find their functions in: one, whichever thread
    asks first."""
    with _ONE_ENGINE:
        return _engine()


@cache
def _engine() -> ctypes.CDLL:
    text = (HERE / "emulator.cpp").read_text("utf-8")
    header, options = (HERE / "emulator.h").read_text("utf-8"), ("-O2", f"-I{HERE}")
    code = kept(lambda: _built(options, text), text, header, options)
    return load_object(code, ctypes.RTLD_GLOBAL)


def _built(options: tuple[str, ...], text: str) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".so", dir=temporary_folder()) as file:
        command = ["g++", *_COMMON, *options, "-o", file.name, "-"]
        done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        assert done.returncode == 0, f"g++ refuses the kernels:\n{done.stderr}"
        return Path(file.name).read_bytes()


@cache
def temporary_folder() -> str:
    folder = tempfile.mkdtemp(prefix="graphc-emulator-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
