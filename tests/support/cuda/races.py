"""Data races in programs of kernels, found by ThreadSanitizer in a process of its own.

A program's first call is written down launch by launch, with what the device's memory holds before;
the process repeats it with threads that the sanitizer knows one by one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from graphc.backends.cuda.runtime import CudaFunction
from graphc.backends.cuda.source import write_source
from graphc.ir.core import Function
from graphc.runtime.signature import NUMPY_DTYPES, Signature, concrete_shape
from tests.support.cuda.building import HERE, compile_kernels, temporary_folder, whole_text
from tests.support.cuda.emulator import EmulatedDevice, Launched, Running

Array = np.ndarray
BLOCKS = 2
"""Of a grid: races between blocks need no more, and each thread takes long to begin."""

_SANITIZED = ("-fsanitize=thread", "-g1")
_COMMON = ("g++", "-std=c++17", "-Og", "-mfma", "-ffp-contract=off", "-w", f"-I{HERE}")
_OPTIONS = "report_bugs=1 history_size=2 exitcode=66 report_signal_unsafe=0 halt_on_error=0"


@cache
def missing() -> str:
    """What there has to be for races to be found; "" if all is there."""
    if not shutil.which("g++"):
        return "ThreadSanitizer requires g++"
    folder = Path(temporary_folder())
    source, program = folder / "probe.cpp", folder / "probe"
    source.write_text("int main() { return 0; }\n", "ascii")
    built = subprocess.run(
        [*_COMMON, *_SANITIZED, "-o", str(program), str(source)], capture_output=True, check=False
    )
    if built.returncode or _ran([str(program)]).returncode:
        return "ThreadSanitizer does not run here"
    return ""


def races(
    function: Function,
    signature: Signature,
    arguments: Sequence[Array],
    sizes: Mapping[str, int],
    *,
    without: str = "",
) -> str:
    """What the sanitizer says of a call; "" if it finds no race.

    without  the first line with this is taken out of the kernel of a whole function
    """
    device = EmulatedDevice(running=Running(blocks=BLOCKS))
    source = write_source([(function, signature)], device.machine)
    (program,) = source.programs
    call = CudaFunction(device, device.load(compile_kernels(source.text)), program, signature)
    results = [
        np.empty(concrete_shape(r.shape, dict(sizes)), NUMPY_DTYPES[r.dtype])
        for r in signature.fresh_results
    ]
    device.written_down = []
    call(arguments, results, sizes)
    text = _without(source.text, without) if without else source.text
    return _repeated(text, device.written_down)


def _without(text: str, part: str) -> str:
    """The text without the first line of a whole function's kernel that has this part."""
    lines = text.splitlines()
    whole = next(i for i, line in enumerate(lines) if "void whole" in line)
    found = next(i for i, line in enumerate(lines) if part in line and i > whole)
    return "\n".join([*lines[:found], *lines[found + 1 :]])


def _repeated(text: str, launched: Sequence[Launched]) -> str:
    with tempfile.TemporaryDirectory(dir=temporary_folder()) as name:
        folder = Path(name)
        program, tape = _program(text, folder), folder / "tape"
        held = launched[0].held
        lines: list[str] = []
        for number, (_, content) in enumerate(held):
            file = folder / f"memory{number}"
            file.write_bytes(content)
            lines.append(f"memory {len(content)} {file}")
        for one in launched:
            words = " ".join(_word(word, held) for word in one.arguments)
            lines.append(f"launch {one.kernel} {one.grid} {one.threads} {one.shared} {words}")
        tape.write_text("\n".join(lines) + "\n", "ascii")
        done = _ran([str(program), str(tape)])
    return done.stderr if done.returncode else ""


def _program(text: str, folder: Path) -> Path:
    kernels, program = folder / "kernels.cpp", folder / "program"
    kernels.write_text(whole_text(text), "utf-8")
    _build("-include", HERE / "emulator.h", *_SANITIZED, "-c", "-o", folder / "k.o", kernels)
    objects = [folder / "k.o", _engine()]
    _build(*_SANITIZED, "-o", program, HERE / "races.cpp", *objects)
    return program


@cache
def _engine() -> Path:
    """The emulator, which is not looked at itself."""
    built = Path(temporary_folder()) / "racing.o"
    _build("-DEMULATED_RACES", "-c", "-o", built, HERE / "emulator.cpp")
    return built


def _build(*arguments: str | Path) -> None:
    command = [*_COMMON, *map(str, arguments)]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def _ran(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Where memory lies at random the sanitizer may not find room for its own."""
    fixed = ["setarch", os.uname().machine, "-R"] if shutil.which("setarch") else []
    environment = {**os.environ, "TSAN_OPTIONS": _OPTIONS}
    return subprocess.run(
        [*fixed, *command], env=environment, text=True, capture_output=True, check=False
    )


def _word(word: int, held: Sequence[tuple[int, bytes]]) -> str:
    for number, (address, content) in enumerate(held):
        if address <= word <= address + len(content):
            return f"{number}+{word - address}"
    return str(word)
