"""A network on a GPU as one C file: the functions of the C interface (`backends/abi.py`).

It holds the images of its kernels for one or several architectures and the parameters, and calls
NVIDIA's driver, which `text/host.c` finds when the first call needs it. Neither CUDA nor a GPU is
needed to compile it, and no C++. The arena of the interface is on the GPU: the caller's is unused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files

import numpy as np

from graphc.artifacts.documentation import documentation
from graphc.artifacts.interface import (
    comment_text,
    counts,
    misfits,
    ports,
    run_prototype,
    string_literal,
)
from graphc.backends.abi import STATUS, UNKNOWN_STATUS, check_signature
from graphc.backends.base import EmitRequest
from graphc.backends.cuda.compiler import Image, compile_text, newest_release
from graphc.backends.cuda.host_steps import Layout, dim_names, layout_of, steps_text
from graphc.backends.cuda.kernel import Kernel
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.source import write_source
from graphc.backends.cuda.target import gpus_named
from graphc.ir.core import Function
from graphc.runtime.signature import NUMPY_DTYPES, ROLES_OF_MODEL, Argument, Result, Signature

_ROW = 6
"""Words of embedded bytes in a line."""
_INCLUDES = ("dlfcn.h", "pthread.h", "stdarg.h", "stdint.h", "stdio.h", "string.h")


def emit_host(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    """The file, with an image for each GPU of the target; kernels are written for the first."""
    check_signature(signature)
    machines = gpus_named(request.target)
    with request.phases.measure("emit"):
        source = write_source([(function, signature)], machines[0])
    images = [compile_text(source.text, m.arch, request.phases) for m in machines]
    with request.phases.measure("emit"):
        (program,) = source.programs
        return host_text(program, images, newest_release(), signature, request).encode("ascii")


def host_text(
    program: Program,
    images: Sequence[Image],
    release: int,
    signature: Signature,
    request: EmitRequest,
) -> str:
    """The file of a program; `release`: of CUDA, which a driver has to have to load the images."""
    parameters = [a for a in signature.arguments if a.role in ROLES_OF_MODEL]
    arrays = [request.parameters[a.name] for a in parameters]
    layout = layout_of(program, signature)
    architectures = ", ".join(image.arch for image in images)
    parts = [
        "\n".join(["/*", *[f" * {x}".rstrip() for x in _documentation(signature, request)], " */"]),
        "\n".join(f"#include <{name}>" for name in _INCLUDES),
        f'#define ARCHITECTURES "{architectures}"',
        _statuses(),
        files("graphc.backends.cuda").joinpath("text", "host.c").read_text("utf-8"),
        *(_words(f"image_{image.arch}", image.code) for image in images),
        *(
            f"/* {comment_text(argument.name)} */\n{_words(f'parameter{i}', _content(argument, x))}"
            for i, (argument, x) in enumerate(zip(parameters, arrays, strict=True))
        ),
        *_tables(program, images, parameters, release, layout),
        steps_text(program, signature, layout),
        _run(signature, layout),
        _small_functions(signature, request),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def _documentation(signature: Signature, request: EmitRequest) -> list[str]:
    name = request.name
    return [
        *documentation(signature, request.info),
        "",
        "To compile it with GCC or Clang, without CUDA (where libc has no dlopen, with -ldl):",
        f"  cc -std=c99 -O2 -pthread -c {name}.cuda.c",
    ]


def _content(argument: Argument, values: np.ndarray) -> bytes:
    """A parameter's data, row-major, little-endian."""
    dtype = NUMPY_DTYPES[argument.dtype].newbyteorder("<")
    return np.ascontiguousarray(values, dtype).tobytes()


def _words(name: str, content: bytes) -> str:
    """Bytes as words, which compile sooner."""
    padded = content + bytes(-len(content) % 8)
    numbers = np.frombuffer(padded, "<u8").tolist() or [0]
    rows = [
        ", ".join(f"0x{x:016x}" for x in numbers[i : i + _ROW])
        for i in range(0, len(numbers), _ROW)
    ]
    listed = ",\n    ".join(rows)
    return f"static const uint64_t {name}[] = {{\n    {listed}}};"


def _statuses() -> str:
    """Sentences of the interface, by their numbers."""
    rows = "".join(f"    {string_literal(text)},\n" for text in STATUS)
    unknown = f"#define UNKNOWN_STATUS {string_literal(UNKNOWN_STATUS)}"
    return f"static const char *const statuses[] = {{\n{rows}}};\n{unknown}"


# --- tables


def _tables(
    program: Program,
    images: Sequence[Image],
    parameters: Sequence[Argument],
    release: int,
    layout: Layout,
) -> Iterator[str]:
    """What `text/host.c` has to know of the network."""
    kernels = list(program.kernels.values())
    names = ", ".join(f"K_{kernel.name}" for kernel in kernels) or "K_none"
    yield f"enum {{ {names} }};"
    yield _table("Image", "images", [_image_row(image) for image in images])
    yield _table("Kernel", "kernels", [_kernel_row(kernel) for kernel in kernels])
    sizes = [layout.sizes[argument] for argument in parameters]
    rows = [f"{{parameter{i}, {size}}}" for i, size in enumerate(sizes)]
    yield _table("Parameter", "parameters", rows)
    numbers = f"{len(images)}, {len(kernels)}, {len(parameters)}, {release}, {layout.bytes}"
    yield f"static const Network network = {{images, kernels, parameters, {numbers}}};"
    yield (
        f"static void *functions[{max(len(kernels), 1)}];\n"
        f"static int most_blocks[{max(len(kernels), 1)}];\n"
        "static Gpu gpu = {.functions = functions, .most_blocks = most_blocks};"
    )


def _table(type: str, name: str, rows: Sequence[str]) -> str:
    listed = "".join(f"    {row},\n" for row in rows or ["{0}"])
    return f"static const {type} {name}[] = {{\n{listed}}};"


def _image_row(image: Image) -> str:
    capability = image.capability
    return f"{{{capability // 10}, {capability % 10}, image_{image.arch}}}"


def _kernel_row(kernel: Kernel) -> str:
    numbers = f"{kernel.threads}, {kernel.shared}, {int(kernel.together)}"
    return f'{{"run_{kernel.name}", {numbers}}}'


# --- the functions that are seen


def _run(signature: Signature, layout: Layout) -> str:
    """NAME_run: the checks of a call, then inputs to the GPU, the steps, and results back."""
    names = dim_names(signature)
    lines = [
        "    (void)arena;",
        *_sizes(signature, names),
        *_checks(signature, names),
        "    pthread_mutex_lock(&lock);",
        "    int32_t status = enter(&gpu, &network);",
        "    if (!status) {",
        *(f"        status = status ? status : {call};" for call in _calls(signature, layout)),
        "        leave();",
        "    }",
        "    pthread_mutex_unlock(&lock);",
        "    return status;",
    ]
    return "\n".join([run_prototype(signature), "{", *lines, "}"])


def _sizes(signature: Signature, names: Mapping[str, str]) -> Iterator[str]:
    """The dims, out of what the call says."""
    given = {d.name: n for d, n in zip(signature.call_dims, counts(signature), strict=False)}
    if not given:
        yield f"    (void){counts(signature)[0]};"
    for dim in signature.dims:
        size = dim.formula.text(names) if dim.formula is not None else given[dim.name]
        yield f"    const i64 {names[dim.name]} = {size}; /* {comment_text(dim.name)} */"


def _checks(signature: Signature, names: Mapping[str, str]) -> Iterator[str]:
    """Leaves with a status when the call is not as it must be, in the order of the statuses."""
    sizes = [f"{n} < 0" for n in counts(signature)]
    sizes += [f"{names[d.name]} > {d.bound}" for d in signature.call_dims]
    sizes += misfits(signature, names)
    found = ports(signature)
    wide = [p for p in found if NUMPY_DTYPES[p.source.dtype].itemsize > 1]
    for status, conditions in (
        ("BAD_COUNT", sizes),
        ("NO_POINTER", [f"!{p.identifier}" for p in found]),
        ("BAD_POINTER", [f"(uintptr_t){p.identifier} % sizeof *{p.identifier}" for p in wide]),
    ):
        if conditions:
            yield f"    if ({' || '.join(conditions)})"
            yield f"        return {status};"


def _calls(signature: Signature, layout: Layout) -> Iterator[str]:
    """What is done on the GPU, one after the other."""
    places = dict(zip(layout.specs, layout.buffers, strict=True))
    names = dim_names(signature)
    found = ports(signature)
    for port in (p for p in found if p.is_input):
        size = _bytes_text(port.source, names)
        yield f"upload(gpu.start + {places[port.source]}, {port.identifier}, {size})"
    yield f"run_steps({', '.join(names.values())})"
    for port in (p for p in found if not p.is_input):
        size = _bytes_text(port.source, names)
        yield f"download({port.identifier}, gpu.start + {places[port.source]}, {size})"


def _bytes_text(spec: Argument | Result, names: Mapping[str, str]) -> str:
    factors = [names[d] if isinstance(d, str) else str(d) for d in spec.shape]
    return " * ".join([*factors, str(NUMPY_DTYPES[spec.dtype].itemsize)])


def _small_functions(signature: Signature, request: EmitRequest) -> str:
    name = request.name
    return "\n\n".join(
        [
            f"int64_t {name}_arena_bytes(void)\n{{\n    return {signature.arena_bytes};\n}}",
            f"const char *{name}_status(int32_t code)\n{{\n    return status_text(code);\n}}",
            f"const char *{name}_info(void)\n{{\n    return {string_literal(request.info)};\n}}",
        ]
    )
