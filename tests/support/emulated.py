"""Code for a processor that this machine does not have, run by an emulator of user programs.

Needs a C compiler for 64-bit ARM and qemu's `qemu-aarch64`, as Debian has them in
`gcc-aarch64-linux-gnu` with `libc6-dev-arm64-cross`, and in `qemu-user` or `qemu-user-static`.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.entries import ENTRY
from graphc.backends.llvm.target import AARCH64
from graphc.ir.core import Function
from graphc.runtime.signature import NUMPY_DTYPES, Signature, concrete_shape

PROGRAM = f"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int32_t entry(void **buffers, int64_t *dims, void *arena, void *pool) __asm__("{ENTRY}");

static void *block(int64_t bytes) {{
    return aligned_alloc(64, (bytes / 64 + 1) * 64);
}}

static int64_t number(void) {{
    int64_t value;
    if (fread(&value, 8, 1, stdin) != 1) exit(2);
    return value;
}}

int main(void) {{
    int64_t count = number(), extents = number(), scratch = number();
    int64_t *dims = block(8 * extents), *sizes = block(8 * count);
    void **buffers = block(8 * count), *arena = block(scratch);
    for (int64_t i = 0; i < extents; i++) dims[i] = number();
    for (int64_t i = 0; i < count; i++) {{
        buffers[i] = block(sizes[i] = number());
        if (fread(buffers[i], 1, sizes[i], stdin) != (size_t)sizes[i]) exit(2);
    }}
    if (entry(buffers, dims, arena, 0)) exit(3);
    for (int64_t i = 0; i < count; i++) fwrite(buffers[i], 1, sizes[i], stdout);
    return 0;
}}
"""


@dataclass(frozen=True)
class Emulator:
    """The programs that are needed, by their paths."""

    compiler: str
    runner: str


def find_emulator() -> Emulator | None:
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    runner = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    return Emulator(compiler, runner) if compiler and runner else None


def call_emulated(
    emulator: Emulator,
    folder: Path,
    function: Function,
    signature: Signature,
    arguments: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
) -> dict[str, np.ndarray]:
    """The results by name, of one call in an emulated process; CalledProcessError if that ends."""
    code = engine.object_code(emit_function(function, signature, AARCH64), AARCH64)
    (folder / "code.o").write_bytes(code)
    (folder / "main.c").write_text(PROGRAM, encoding="ascii")
    parts = [folder / "main.c", folder / "code.o"]
    command = [emulator.compiler, "-O1", "-static", *parts, "-o", folder / "program"]
    subprocess.run(command, check=True, capture_output=True)
    held = {a.name: np.array(arguments[a.name], order="C") for a in signature.arguments}
    for r in signature.fresh_results:
        held[r.name] = np.full(concrete_shape(r.shape, dict(sizes)), 77, NUMPY_DTYPES[r.dtype])
    dims = [sizes[d.name] for d in signature.dims]
    given = struct.pack(f"<{3 + len(dims)}q", len(held), len(dims), signature.arena_bytes, *dims)
    given += b"".join(struct.pack("<q", x.nbytes) + x.tobytes() for x in held.values())
    command = [emulator.runner, folder / "program"]
    left = subprocess.run(command, input=given, capture_output=True, check=True).stdout
    found: dict[str, np.ndarray] = {}
    for name, array in held.items():
        found[name] = np.frombuffer(left[: array.nbytes], array.dtype).reshape(array.shape)
        left = left[array.nbytes :]
    return {r.name: found[r.updates or r.name] for r in signature.results}
