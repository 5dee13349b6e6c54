"""An executable around a network's object file: its table in C, and the build.

The program itself is the fixed C code in the folder `csource/`; what differs between networks is
one table of names, shapes and function pointers, written here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from graphc.artifacts.header import header_text
from graphc.artifacts.interface import (
    Port,
    check_name,
    exported_symbols,
    ports,
    string_literal,
    thread_symbols,
)
from graphc.artifacts.link import Compiler, link_program, require_compiler
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail
from graphc.support.files import temporary_folder

# What the processor must have, by the names of the compilers' __builtin_cpu_supports.
_X86_64_V2 = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt")
_X86_64_V3 = (*_X86_64_V2, "avx", "avx2", "bmi", "bmi2", "fma")
_X86_64_V4 = (*_X86_64_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_FEATURES = {
    "x86-64-v2": _X86_64_V2,
    "x86-64-v3": _X86_64_V3,
    "x86-64-v4": _X86_64_V4,
    # That there are registers of AMX the system says, when it is asked for them.
    "sapphirerapids": (*_X86_64_V4, "avx512bf16"),
}

_ELEMENT_TYPES = {"f32": "GCP_F32", "f64": "GCP_F64"}
_HEADER_FILE = "artifact.h"


def program_sources(signature: Signature, *, info: str) -> dict[str, str]:
    """File name to text of every C and H file of the executable, the network's header included.

    `info` is the text of NAME_info. Raises GraphcError `not-supported` for a signature that a
    table of samples cannot serve: element types other than f32 and f64, samples not in the first
    dimension, no output.
    """
    check_name(signature.name)
    _check(signature)
    folder = files("graphc.artifacts") / "csource"
    sources = {
        entry.name: entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith((".c", ".h"))
    }
    sources[_HEADER_FILE] = header_text(signature, info=info)
    sources["table.c"] = table_text(signature, info=info)
    return dict(sorted(sources.items()))


def build_program(
    object_file: Path,
    out: Path,
    signature: Signature,
    *,
    info: str,
    compiler: Compiler | None = None,
    static: bool = False,
) -> None:
    """Link the network's object and the program to the executable `out`.

    Raises GraphcError `toolchain` without a C compiler or if it fails, `file` if `out` cannot be
    written, and what `program_sources` raises.
    """
    sources = program_sources(signature, info=info)
    compiler = require_compiler() if compiler is None else compiler
    with temporary_folder(out) as folder:
        for name, text in sources.items():
            (folder / name).write_text(text, encoding="utf-8")
        units = [folder / name for name in sources if name.endswith(".c")]
        link_program([*units, object_file], out, compiler=compiler, static=static)


def table_text(signature: Signature, *, info: str) -> str:
    """The C source that describes the network to the program."""
    record = json.loads(info)
    found = ports(signature)
    inputs = [p for p in found if p.is_input]
    outputs = [p for p in found if not p.is_input]
    run, arena_bytes, status, info_symbol = exported_symbols(signature.name)
    isa = str(record.get("isa", "unknown"))
    run_with, *pool = thread_symbols(signature) or ("", "NULL", "NULL")
    return "\n".join(
        [
            '#include "program.h"',
            f'#include "{_HEADER_FILE}"',
            "",
            _call_text(run_with or run, inputs, outputs, has_pool=bool(run_with)),
            _processor_text(isa),
            _ports_text("inputs", inputs),
            _ports_text("outputs", outputs),
            "const Model gcp_model = {",
            f"    {string_literal(signature.name)},",
            f"    {string_literal(str(record.get('graphc', 'unknown')))},",
            f"    {string_literal(isa)},",
            f"    {string_literal(str(record.get('hash', 'unknown')))},",
            f"    {_bound(signature)}, {len(inputs)}, {len(outputs)}, inputs, outputs,",
            f"    call, {arena_bytes}, {status}, {info_symbol}, processor_fits,",
            f"    {', '.join(pool)},",
            "};",
            "",
        ]
    )


def _check(signature: Signature) -> None:
    found = ports(signature)
    if all(p.is_input for p in found):
        raise fail("not-supported", f"`{signature.name}` has no output, so a program has no use")
    if signature.sequences is not None:
        raise fail(
            "not-supported",
            "a program reads samples one after another, not sequences: make a library (`so`, "
            "`obj`) or a Python source (`py`)",
        )
    if len(signature.call_dims) > 1:
        names = ", ".join(d.name for d in signature.call_dims)
        raise fail("not-supported", f"a program needs one dimension of samples, got {names}")
    if signature.derived_dims or any(d.multiple != 1 for d in signature.dims):
        made = next(d for d in signature.dims if d.formula is not None)
        raise fail(
            "not-supported",
            f"a program needs as many columns as samples everywhere, got {made.formula}: make a "
            "library (`so`, `obj`) or a Python source (`py`)",
        )
    for port in found:
        shape, what = port.source.shape, f"`{port.source.name}`"
        if port.source.dtype not in _ELEMENT_TYPES:
            raise fail(
                "not-supported", f"a program needs f32 or f64, got {port.source.dtype} {what}"
            )
        if any(isinstance(d, str) for d in shape[1:]):
            raise fail("not-supported", f"a program needs samples first, got {what} {list(shape)}")
        if 0 in shape:
            raise fail(
                "not-supported", f"a program needs numbers to read and write, {what} has none"
            )


def _bound(signature: Signature) -> int:
    return signature.call_dims[0].bound if signature.call_dims else 1


def _sizes(port: Port) -> tuple[bool, int, int]:
    """Whether the port has samples, its rows without them, and its columns."""
    shape = port.source.shape
    fixed = [d for d in shape if isinstance(d, int)]
    if len(fixed) < len(shape):
        return True, 1, math.prod(fixed)
    return False, math.prod(fixed[:-1]), fixed[-1] if fixed else 1


def _ports_text(table: str, found: Sequence[Port]) -> str:
    lines = [f"static const Port {table}[] = {{"]
    for port in found:
        samples, rows, columns = _sizes(port)
        element = _ELEMENT_TYPES[port.source.dtype]
        name = string_literal(port.source.name)
        lines.append(f"    {{{name}, {element}, {int(samples)}, {rows}, {columns}}},")
    if not found:  # C has no empty arrays
        lines.append('    {"", GCP_F32, 0, 0, 0},')
    return "\n".join([*lines, "};", ""])


def _call_text(run: str, inputs: Sequence[Port], outputs: Sequence[Port], *, has_pool: bool) -> str:
    arguments = ["n"]
    arguments += [f"(const {p.ctype} *)in[{i}]" for i, p in enumerate(inputs)]
    arguments += [f"({p.ctype} *)out[{i}]" for i, p in enumerate(outputs)]
    arguments += ["arena", "pool"] if has_pool else ["arena"]
    return "\n".join(
        [
            "static int32_t call(int64_t n, void *const *in, void *const *out, void *arena,",
            "                    void *pool) {",
            "  (void)in;",
            "  (void)pool;",
            f"  return {run}({', '.join(arguments)});",
            "}",
            "",
        ]
    )


def _processor_text(isa: str) -> str:
    features = _FEATURES.get(isa, ())
    checks = " && ".join(f'__builtin_cpu_supports("{f}")' for f in features)
    body = ["  return 1;"]
    if checks:
        body = [
            "#if defined(__x86_64__) && defined(__GNUC__)",
            f"  return {checks};",
            "#else",
            *body,
            "#endif",
        ]
    return "\n".join(["static int processor_fits(void) {", *body, "}", ""])
