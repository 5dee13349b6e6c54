"""The C header of a compiled network: prototypes, sizes and a page of documentation.

Nothing here runs a compiler.
"""

from __future__ import annotations

import re

from graphc.artifacts.classes import class_macros
from graphc.artifacts.documentation import documentation
from graphc.artifacts.interface import (
    check_name,
    has_samples,
    number_names,
    place_names,
    run_prototype,
)
from graphc.artifacts.members import TABLE, member_macros, takes_members
from graphc.artifacts.numbers import (
    OPENING,
    Changing,
    StepNumbers,
    function_lines,
    number_literal,
)
from graphc.runtime.signature import ABI_VERSION, Dimension, Signature


def header_text(signature: Signature, *, info: str, numbers: StepNumbers | None = None) -> str:
    """The header of the artifact `signature.name`; `info` is the text of its NAME_info.

    numbers  what a training step is given

    It stands alone (`stdint.h` apart, and `math.h` where numbers change) and is accepted by C from
    C89 on, given a `stdint.h`, and by C++. GraphcError `bad-value` if the signature's name is no
    C identifier.
    """
    check_name(signature.name)
    numbers = numbers or StepNumbers()
    name, upper = signature.name, signature.name.upper()
    guard = f"GRAPHC_{upper}_H"
    lines = [
        "/*",
        *[f" * {line}".rstrip() for line in documentation(signature, info, numbers)],
        " */",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stdint.h>",
        "",
        f"#define {upper}_ABI {ABI_VERSION}",
        *[f"#define {upper}_{_macro(d)}_BOUND {d.bound}" for d in signature.call_dims],
        f"#define {upper}_ARENA_BYTES {signature.arena_bytes}",
        *_state_macros(signature, upper, numbers),
        *member_macros(signature, upper),
        *class_macros(signature, upper),
        *_number_functions(signature, numbers),
        "",
        *([*TABLE.splitlines(), ""] if takes_members(signature) else []),
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"/* {_deed(signature)} {_what(signature)}; 0 or one of the statuses above. */",
        f"{run_prototype(signature)};",
        "",
        "/* Bytes of the arena: the macro, for those who load the library at run time. */",
        f"int64_t {name}_arena_bytes(void);",
        "",
        "/* One sentence for a status; never NULL, not to be freed. */",
        f"const char *{name}_status(int32_t code);",
        "",
        "/* What this file says, as JSON; not to be freed. */",
        f"const char *{name}_info(void);",
        "",
        *_state_lines(signature),
        *_thread_lines(signature),
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {guard} */",
    ]
    return "\n".join(lines) + "\n"


def _macro(dim: Dimension) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", dim.name.upper())


def _state_macros(signature: Signature, upper: str, numbers: StepNumbers) -> list[str]:
    """The size of the state, where its arrays begin, and numbers for a whole minibatch."""
    if not signature.state_places:
        return []
    lines = [f"#define {upper}_STATE_BYTES {signature.state_bytes}"]
    places = signature.state_places.values()
    lines += [f"#define {n} {p}" for n, p in zip(place_names(signature), places, strict=True)]
    if numbers.nominal:
        lines.append(f"#define {upper}_MINIBATCH {numbers.nominal}")
    for argument, name in zip(signature.numbers, number_names(signature), strict=True):
        value = numbers.by_name.get(argument.name, 0.0)
        if isinstance(value, Changing):
            continue
        is_float = argument.dtype in ("f32", "f64")
        shown = number_literal(value) if is_float else str(int(value))
        lines.append(f"#define {upper}_{name.upper()} {shown}")
    return lines


def _number_functions(signature: Signature, numbers: StepNumbers) -> list[str]:
    """Functions for the numbers that change."""
    named = zip(signature.numbers, number_names(signature), strict=True)
    changing = [(n, numbers.by_name[a.name]) for a, n in named if a.name in numbers.by_name]
    lines: list[str] = []
    for name, number in changing:
        if isinstance(number, Changing):
            lines += ["", *function_lines(f"{signature.name}_{name}", number)]
    return ["", *OPENING.format(signature.name.upper()).splitlines(), *lines] if lines else []


def _state_lines(signature: Signature) -> list[str]:
    if not signature.state_places:
        return []
    name = signature.name
    return [
        "/* The state before the first step, to be copied; not to be changed or freed. */",
        f"const void *{name}_start(void);",
        "",
        "/* Its bytes: the macro, for those who load the library at run time. */",
        f"int64_t {name}_state_bytes(void);",
        "",
    ]


def _thread_lines(signature: Signature) -> list[str]:
    if not signature.is_split:
        return []
    name = signature.name
    return [
        f"/* As {name}_run, computed by the threads of a pool and this one: the same bits for",
        " * any number. Who finds the pool in use, or is in the child of a fork, computes alone,",
        " * and so does a call with NULL. The pool may be another than one made here: whatever",
        " * begins with a pointer to a function",
        " *   void run(void *pool, void (*task)(void *context, int64_t index), void *context,",
        " *            int64_t count)",
        " * that calls task(context, i) once for every 0 <= i < count and returns when all",
        " * have. */",
        f"{run_prototype(signature, with_pool=True)};",
        "",
        "/* A pool of so many threads, the caller counted in; 0: one for each processor that",
        " * the process may use. NULL for a number below 0 or above 1024, and where there is no",
        " * memory; fewer threads where the system gives no more. They sleep between calls, and",
        " * need those of the C library. */",
        f"void *{name}_pool_create(int32_t threads);",
        "",
        "/* Ends the threads of a pool that no call is using; NULL is let be. */",
        f"void {name}_pool_destroy(void *pool);",
        "",
    ]


def _deed(signature: Signature) -> str:
    if signature.state_places:
        return "Makes a training step, the update included, of"
    return "Computes the network for"


def _what(signature: Signature) -> str:
    if signature.sequences is not None:
        return "s sequences of up to t steps"
    return "n samples" if has_samples(signature) else "arrays of these sizes"
