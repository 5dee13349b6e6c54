"""A network as one C file: the functions of the C interface (`backends/abi.py`) around the entry.

The file needs `stdint.h` and a compiler for the processor it is written for, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from graphc.artifacts.documentation import documentation
from graphc.artifacts.interface import (
    C_TYPES,
    comment_text,
    counts,
    misfits,
    number_names,
    ports,
    run_prototype,
    size_texts,
    string_literal,
)
from graphc.artifacts.members import BAD_RANK, FIELD_OF, TABLE, takes_members
from graphc.backends.abi import (
    ARENA_ALIGNMENT,
    UNKNOWN_STATUS,
    check_signature,
    first_state,
    statuses,
)
from graphc.backends.base import EmitRequest
from graphc.backends.c.emit import ENTRY, OPENING, add_entry
from graphc.backends.c.large_data import LARGE, WARNING_OFF, declaration
from graphc.backends.c.types import literal
from graphc.backends.c.wide import WideModule
from graphc.backends.llvm.target import Target
from graphc.backends.loops.values import element_of, memory_element
from graphc.ir.core import Function
from graphc.ir.types import DType
from graphc.runtime.signature import (
    NUMPY_DTYPES,
    ROLES_OF_MODEL,
    Argument,
    Signature,
)

_ROW = 8
"""Numbers of a parameter in a line."""

_FIRST_STATE = "first_state"


def emit_artifact(
    function: Function, signature: Signature, target: Target, request: EmitRequest
) -> str:
    """The file, with places for `large_arrays`. Reports functions that an artifact cannot hold."""
    check_signature(signature, takes_steps=True)
    module = WideModule(target)
    add_entry(module, function, signature, target, linkage="static ")
    parameters = _embedded(signature)
    arrays = [
        _array(parameters[a.name], a, request.parameters[a.name])
        for a in signature.arguments
        if a.name in parameters
    ]
    parts = [
        _comment(
            [*documentation(signature, request.info, request.numbers), "", *_how_to_compile(target)]
        ),
        OPENING,
        _target_check(target),
        module.text(),
        *([f"{TABLE}\n"] if takes_members(signature) else []),
        *([WARNING_OFF] if large_arrays(signature, request) else []),
        *arrays,
        *_state(signature, request),
        _run(signature, parameters),
        _small_functions(signature, request),
    ]
    return "\n".join(parts)


def large_arrays(signature: Signature, request: EmitRequest) -> dict[str, np.ndarray]:
    """The arrays that are no lists of numbers, by their names in the file."""
    names, given = _embedded(signature), request.parameters
    found = {
        names[a.name]: _contiguous(a, given[a.name]) for a in signature.arguments if a.name in names
    }
    if signature.state_places:
        found[_FIRST_STATE] = np.frombuffer(first_state(signature, given), np.uint8)
    return {name: array for name, array in found.items() if _is_large(array)}


def _embedded(signature: Signature) -> dict[str, str]:
    """The parameters that are in the file, and their names in it."""
    held = [a for a in signature.arguments if a.role in ROLES_OF_MODEL]
    return {a.name: f"parameter{i}" for i, a in enumerate(held) if a not in signature.state_places}


def _contiguous(argument: Argument, values: np.ndarray) -> np.ndarray:
    """A parameter's data, row-major."""
    return np.ascontiguousarray(values, NUMPY_DTYPES[argument.dtype])


def _is_large(array: np.ndarray) -> bool:
    """Or has nans, whose bits no number says."""
    return array.nbytes >= LARGE or bool(array.dtype.kind == "f" and np.isnan(array).any())


def _comment(lines: Sequence[str]) -> str:
    return "\n".join(["/*", *[f" * {line}".rstrip() for line in lines], " */", ""])


def _how_to_compile(target: Target) -> list[str]:
    return [
        f"Written for {target.isa}. To compile it with GCC:",
        f"  cc -std=c11 -O3 {_march(target)} -ffp-contract=off -fno-math-errno -c FILE.c",
        "Results do not depend on how far it is optimised, as long as no option lets the compiler",
        "change the arithmetic of floats.",
    ]


def _march(target: Target) -> str:
    return "-march=armv8-a" if target.triple.startswith("aarch64") else f"-march={target.isa}"


def _target_check(target: Target) -> str:
    """An error for a compiler that is not told of the processor."""
    machine = target.machine
    needed = ["__aarch64__"]
    if target.triple.startswith("x86_64"):
        needed = ["__x86_64__"]
        needed += ["__FMA__"] if machine.has_fma else []
        needed += ["__AVX2__"] if machine.vector_bits >= 256 else []
        needed += ["__AVX512F__"] if machine.vector_bits >= 512 else []
    missing = " || ".join(f"!defined({name})" for name in needed)
    message = f"this file is written for {target.isa}: compile it with {_march(target)}"
    return f'#if {missing}\n#error "{message}"\n#endif\n'


def _array(name: str, argument: Argument, values: np.ndarray) -> str:
    """A parameter's data; of a large one its place."""
    array = _contiguous(argument, values)
    shape = "x".join(map(str, argument.shape))
    comment = f"/* {comment_text(argument.name)}, {shape} */\n"
    if _is_large(array):
        return comment + declaration(name, array.nbytes, ARENA_ALIGNMENT)
    element = memory_element(element_of(DType(argument.dtype)))
    listed = [literal(x, element) for x in array.reshape(-1).tolist()] or ["0"]
    rows = [", ".join(listed[i : i + _ROW]) for i in range(0, len(listed), _ROW)]
    return (
        f"{comment}static const _Alignas({ARENA_ALIGNMENT}) {C_TYPES[argument.dtype]} {name}[] = "
        "{\n    " + ",\n    ".join(rows) + "};\n"
    )


def _run(signature: Signature, parameters: dict[str, str]) -> str:
    """NAME_run: the checks of a call, and the tables that the entry takes."""
    given = {p.source.name: p.identifier for p in ports(signature) if p.is_input}
    given |= {a.name: f"((char *)state + {place})" for a, place in signature.state_places.items()}
    numbers = [*zip(signature.numbers, number_names(signature), strict=True)]
    given |= {a.name: f"&given_{name}" for a, name in numbers}
    given |= {name: f"&members->{field}" for name, field in FIELD_OF.items() if name not in given}
    buffers = [f"(void *){given.get(a.name) or parameters[a.name]}" for a in signature.arguments]
    buffers += [p.identifier for p in ports(signature) if not p.is_input]
    buffers += ["(void *)members"] if takes_members(signature) else []
    sizes = size_texts(signature)
    dims = [sizes[dim.name] for dim in signature.dims]
    lines = [
        *_checks(signature),
        *(f"    {C_TYPES[a.dtype]} given_{n} = ({C_TYPES[a.dtype]}){n};" for a, n in numbers),
        f"    void *buffers[] = {{{', '.join(buffers) or '0'}}};",
        f"    int64_t dims[] = {{{', '.join(dims) or '0'}}};",
        f"    return {ENTRY}(buffers, dims, arena, 0);",
    ]
    return f"{run_prototype(signature)}\n{{\n" + "\n".join(lines) + "\n}\n"


def _state(signature: Signature, request: EmitRequest) -> list[str]:
    """What a training step begins with, and how large that is."""
    if not signature.state_places:
        return []
    content = first_state(signature, request.parameters)
    if _is_large(np.frombuffer(content, np.uint8)):
        array = declaration(_FIRST_STATE, len(content), ARENA_ALIGNMENT)
    else:
        rows = [", ".join(map(str, content[i : i + 32])) for i in range(0, len(content), 32)]
        kind = f"static const _Alignas({ARENA_ALIGNMENT}) unsigned char {_FIRST_STATE}[]"
        array = f"{kind} = {{\n    " + ",\n    ".join(rows) + "};\n"
    return [
        array,
        f"const void *{request.name}_start(void)\n{{\n    return {_FIRST_STATE};\n}}\n",
        f"int64_t {request.name}_state_bytes(void)\n{{\n    return {signature.state_bytes};\n}}\n",
    ]


def _checks(signature: Signature) -> Iterator[str]:
    """Leaves with a status when the call is not as it must be, in the order of the statuses."""
    bounds = [d.bound for d in signature.call_dims]
    sizes = [f"{n} < 0" for n in counts(signature)]
    sizes += [f"{n} > {b}" for n, b in zip(counts(signature), bounds, strict=False)]
    sizes += misfits(signature, size_texts(signature))
    found = ports(signature)
    pointers = [f"!{p.identifier}" for p in found]
    wide = [p for p in found if NUMPY_DTYPES[p.source.dtype].itemsize > 1]
    aligned = [f"(uintptr_t){p.identifier} % sizeof *{p.identifier}" for p in wide]
    if signature.state_places:
        pointers.append("!state")
        aligned.append(f"(uintptr_t)state % {ARENA_ALIGNMENT}")
    members: list[str] = []
    if takes_members(signature):
        pointers += ["!members", "!members->all_reduce"]
        members = ["members->rank < 0", "members->rank >= members->size"]
    arena: list[str] = []
    if signature.arena_bytes:
        pointers.append("!arena")
        arena = [f"(uintptr_t)arena % {ARENA_ALIGNMENT}"]
    checked = {1: sizes, 2: pointers, 3: arena, 4: aligned, BAD_RANK: members}
    for status, conditions in checked.items():
        if conditions:
            yield f"    if ({' || '.join(conditions)}) {{"
            yield f"        return {status};"
            yield "    }"


def _small_functions(signature: Signature, request: EmitRequest) -> str:
    name, known = request.name, statuses(signature)
    cases = [f"    case {i}:\n        return {string_literal(s)};" for i, s in known.items()]
    return "\n".join(
        [
            f"int64_t {name}_arena_bytes(void)\n{{\n    return {signature.arena_bytes};\n}}\n",
            f"const char *{name}_status(int32_t code)\n{{\n    switch (code) {{",
            *cases,
            f"    default:\n        return {string_literal(UNKNOWN_STATUS)};\n    }}\n}}\n",
            f"const char *{name}_info(void)\n{{\n    return {string_literal(request.info)};\n}}\n",
        ]
    )
