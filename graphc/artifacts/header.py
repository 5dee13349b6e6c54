"""The C header of a compiled network: prototypes, sizes and a page of documentation.

Also the rules by which names of networks and nodes become C identifiers and harmless C text; the
executable's table (`program.py`) uses the same ones. Nothing here runs a compiler.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from graphc.artifacts.numbers import (
    OPENING,
    Changing,
    LearnerNumber,
    changing_arguments,
    function_lines,
    number_literal,
)
from graphc.runtime.signature import ABI_VERSION, Argument, Dimension, Result, Signature
from graphc.support.diagnostics import fail
from graphc.support.short_types import SHORT_TYPES

C_TYPES = {
    "f32": "float",
    "f64": "double",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "i8": "int8_t",
    "i16": "int16_t",
    "i32": "int32_t",
    "i64": "int64_t",
    "u8": "uint8_t",
    "u16": "uint16_t",
    "u32": "uint32_t",
    "u64": "uint64_t",
    "i1": "uint8_t",
    **dict.fromkeys(SHORT_TYPES, "uint8_t"),
}
"""Elements of f16, bf16 and types of 8 bits and fewer are the bits of the numbers: C11 has no types
for them."""

# NAME_info would be a function of the C library.
_TAKEN_NAMES = frozenset({"malloc"})


@dataclass(frozen=True, slots=True)
class Port:
    """One pointer parameter of NAME_run: its name in C and the array that it points to."""

    identifier: str
    ctype: str
    source: Argument | Result

    @property
    def is_input(self) -> bool:
        return isinstance(self.source, Argument)


def artifact_name(path: str | os.PathLike[str]) -> str:
    """The C identifier for what is written to `path`: `out/libdigits-2.so` gives `digits_2`.

    Folder, ending and a library's `lib` are dropped; what C does not allow becomes `_`.
    """
    name = PurePath(path).name
    shared = re.fullmatch(r"(?:lib)?(.+)\.(?:so(?:\.\d+)*|a|dylib)", name)
    stem = shared[1] if shared else PurePath(name).stem
    identifier = re.sub(r"[^A-Za-z0-9_]", "_", stem)
    if not re.match(r"[A-Za-z]", identifier) or identifier in _TAKEN_NAMES:
        return f"model_{identifier.strip('_')}".rstrip("_")
    return identifier


def exported_symbols(name: str) -> tuple[str, ...]:
    """The functions of version 1 of the C interface that the artifact `name` defines."""
    return tuple(f"{name}_{part}" for part in ("run", "arena_bytes", "status", "info"))


def thread_symbols(signature: Signature) -> tuple[str, ...]:
    """The functions besides of an artifact that several threads can compute."""
    parts = ("run_with", "pool_create", "pool_destroy") if signature.is_split else ()
    return tuple(f"{signature.name}_{part}" for part in parts)


def ports(signature: Signature) -> tuple[Port, ...]:
    """The pointers of NAME_run in their order: inputs, then the results with memory of their own.

    The identifiers begin with `in_` and `out_`, so that no node name can be a C keyword or meet
    a macro such as `linux` or `errno`.
    """
    found: list[Port] = []
    taken: set[str] = set()
    sources: list[Argument | Result] = [
        *signature.with_role("input"),
        *signature.fresh_results,
    ]
    for source in sources:
        prefix = "in_" if isinstance(source, Argument) else "out_"
        identifier = _fresh(prefix + re.sub(r"[^A-Za-z0-9_]", "_", source.name), taken)
        taken.add(identifier)
        found.append(Port(identifier, C_TYPES[source.dtype], source))
    return tuple(found)


def number_names(signature: Signature) -> tuple[str, ...]:
    """The numbers that a training step takes, as C has them."""
    numbers = signature.with_role("hyperparameter")
    return tuple(re.sub(r"[^A-Za-z0-9_]", "_", f"num_{a.name}") for a in numbers)


def numbers_taken(signature: Signature) -> list[str]:
    """Those as parameters: `double` for any type of floats, `int64_t` for one of integers."""
    numbers = zip(signature.with_role("hyperparameter"), number_names(signature), strict=True)
    return [f"{'double' if a.dtype in ('f32', 'f64') else 'int64_t'} {name}" for a, name in numbers]


def state_symbols(signature: Signature) -> tuple[str, ...]:
    """The functions besides of a training step."""
    parts = ("start", "state_bytes") if signature.state_places else ()
    return tuple(f"{signature.name}_{part}" for part in parts)


def _fresh(wanted: str, taken: set[str]) -> str:
    candidate, number = wanted, 2
    while candidate in taken:
        candidate, number = f"{wanted}_{number}", number + 1
    return candidate


def comment_text(text: str) -> str:
    """`text` for the inside of a C comment: what could end it or is not ASCII becomes <U+XXXX>."""
    return "".join(
        c if 32 <= ord(c) < 127 and c not in "*\\?" else f"<U+{ord(c):04X}>" for c in text
    )


def string_literal(text: str) -> str:
    """`text` as a C string literal in UTF-8; lines of at most 60 bytes, joined by the compiler."""
    pieces = [_literal_byte(b) for b in text.encode("utf-8", "backslashreplace")]
    rows = ["".join(pieces[i : i + 60]) for i in range(0, len(pieces), 60)] or [""]
    return "\n    ".join(f'"{row}"' for row in rows)


def _literal_byte(byte: int) -> str:
    # Three octal digits end by themselves; `?` could begin a trigraph.
    if 32 <= byte < 127 and byte not in b'"\\?':
        return chr(byte)
    return f"\\{byte:03o}"


def counts(signature: Signature) -> tuple[str, ...]:
    """The leading size parameters of NAME_run: n samples, t steps of s sequences, or of a program
    of several dims each one, `t` for T and `size_width` for WIDTH."""
    dims = signature.call_dims
    if signature.sequences is None and len(dims) < 2:
        return ("n",)
    return tuple(d.name.lower() if len(d.name) == 1 else f"size_{d.name.lower()}" for d in dims)


def size_texts(signature: Signature) -> dict[str, str]:
    """Every dim as C has it, out of the parameters that `counts` names."""
    names = dict(zip((d.name for d in signature.call_dims), counts(signature), strict=False))
    for name, formula in signature.formulas.items():
        names[name] = f"({formula.text(names)})"
    return names


def misfits(signature: Signature, names: Mapping[str, str]) -> Iterator[str]:
    """Conditions in C that hold where there is no size for a dim; `names` are those of all dims."""
    for formula in signature.formulas.values():
        total = formula.total_text(names)
        if formula.may_be_negative:
            yield f"{total} < 0"
        if formula.multiple != 1:
            (term,) = formula.terms
            yield f"{' * '.join(names[f] for f in term.factors)} % {formula.multiple}"


def _has_samples(signature: Signature) -> bool:
    """Whether what calls give and take is samples, along the first axis of each array, if any."""
    dims = {d.name for d in signature.call_dims}
    found = [p.source.shape for p in ports(signature)]
    return len(dims) < 2 and not any(d in dims for shape in found for d in shape[1:])


def run_prototype(signature: Signature, *, with_pool: bool = False) -> str:
    """The declaration of NAME_run or NAME_run_with, without the semicolon."""
    parameters = [f"int64_t {count}" for count in counts(signature)]
    found = ports(signature)
    parameters += [f"const {p.ctype} *{p.identifier}" for p in found if p.is_input]
    parameters += numbers_taken(signature)
    parameters += [f"{p.ctype} *{p.identifier}" for p in found if not p.is_input]
    parameters += ["void *state"] if signature.state_places else []
    parameters += ["void *arena", *(["void *pool"] if with_pool else [])]
    opening = f"int32_t {signature.name}_run{'_with' if with_pool else ''}("
    line = opening + ", ".join(parameters) + ")"
    return line if len(line) <= 100 else opening + "\n    " + ",\n    ".join(parameters) + ")"


def header_text(
    signature: Signature, *, info: str, numbers: Mapping[str, LearnerNumber] | None = None
) -> str:
    """The header of the artifact `signature.name`; `info` is the text of its NAME_info.

    numbers  what a training step is given for a minibatch of as many samples as its bound says

    It stands alone (`stdint.h` apart, and `math.h` where numbers change) and is accepted by C from
    C89 on, given a `stdint.h`, and by C++. GraphcError `bad-value` if the signature's name is no
    C identifier.
    """
    check_name(signature.name)
    numbers = numbers or {}
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
        *_number_functions(signature, numbers),
        "",
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


def check_name(name: str) -> None:
    """Raise GraphcError `bad-value` unless `name` can begin the names of C functions."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in _TAKEN_NAMES:
        raise fail("bad-value", f"an artifact's name has to be a C identifier, got `{name}`")


def _macro(dim: Dimension) -> str:
    return re.sub(r"[^A-Z0-9_]", "_", dim.name.upper())


def documentation(
    signature: Signature, info: str, numbers: Mapping[str, LearnerNumber] | None = None
) -> list[str]:
    """What people have to know who call the functions, in lines."""
    numbers = numbers or {}
    return [
        f"{signature.name}: a network compiled by graphc. C interface, version {ABI_VERSION}.",
        "",
        *_port_lines(signature),
        "",
        *_layout(signature),
        f"The arena is {signature.arena_bytes} bytes of the caller, aligned to 64; it needs no",
        "initial value and keeps nothing between calls.",
        "",
        *_state_documentation(signature, changing_arguments(numbers)),
        f"Statuses: 0 done, 1 {' or '.join(counts(signature))} is negative or above its bound"
        + "".join(f" or no multiple of {m}" for m in _multiples(signature))
        + ", "
        "2 a pointer is NULL, 3 the arena is",
        "not aligned to 64 bytes, 4 an array is not aligned to its element type"
        + (", 5 the system" if NEEDS_AMX in info else "."),
        *(["does not lend the registers of AMX."] if NEEDS_AMX in info else []),
        "",
        *(_conduct_on_gpu(signature) if is_for_gpu(info) else _conduct(signature)),
        "",
        "Example:",
        *_example(signature, numbers),
        "",
        *_wrapped(f"Info: {comment_text(info)}", 96),
    ]


NEEDS_AMX = '"isa":"sapphirerapids"'
"""In the information of an artifact that may ask the system for them."""


def is_for_gpu(info: str) -> bool:
    """Whether the artifact with this information computes on a GPU."""
    return '"isa":"sm_' in info


def _conduct(signature: Signature) -> list[str]:
    state, own = (", state", " and a state") if signature.state_places else ("", "")
    return [
        f"The functions allocate nothing, write to outputs{state} and arena only, and may be called"
        " from",
        f"several threads at once, each with an arena{own} of its own."
        + (" Those of a pool are the exception." if signature.is_split else ""),
    ]


def _conduct_on_gpu(signature: Signature) -> list[str]:
    name = signature.name
    return [
        "It runs on a GPU, in memory that the first call takes there: the arena is not used and",
        "may be NULL. Calls of several threads wait for each other. Statuses from 5 on are what",
        f"the GPU or its driver refuse; {name}_status says the last of them.",
    ]


def _state_macros(
    signature: Signature, upper: str, numbers: Mapping[str, LearnerNumber]
) -> list[str]:
    """The size of the state, where its arrays begin, and numbers for a whole minibatch."""
    if not signature.state_places:
        return []
    lines = [f"#define {upper}_STATE_BYTES {signature.state_bytes}"]
    places = signature.state_places.values()
    lines += [f"#define {n} {p}" for n, p in zip(_place_names(signature), places, strict=True)]
    names = zip(signature.with_role("hyperparameter"), number_names(signature), strict=True)
    for argument, name in names:
        value = numbers.get(argument.name, 0.0)
        if isinstance(value, Changing):
            continue
        is_float = argument.dtype in ("f32", "f64")
        shown = number_literal(value) if is_float else str(int(value))
        lines.append(f"#define {upper}_{name.upper()} {shown}")
    return lines


def _number_functions(signature: Signature, numbers: Mapping[str, LearnerNumber]) -> list[str]:
    """Functions for the numbers that change."""
    named = zip(signature.with_role("hyperparameter"), number_names(signature), strict=True)
    changing = [(n, numbers[a.name]) for a, n in named if a.name in numbers]
    lines: list[str] = []
    for name, number in changing:
        if isinstance(number, Changing):
            lines += ["", *function_lines(f"{signature.name}_{name}", number)]
    return ["", *OPENING.format(signature.name.upper()).splitlines(), *lines] if lines else []


def _place_names(signature: Signature) -> list[str]:
    """Macros for where each array of the state begins."""
    taken: list[str] = []
    for argument in signature.state_places:
        name = re.sub(r"[^A-Za-z0-9_]", "_", argument.name)
        taken.append(_fresh(f"{signature.name.upper()}_AT_{name}", set(taken)))
    return taken


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


def _state_documentation(signature: Signature, changing: Sequence[str]) -> list[str]:
    if not signature.state_places:
        return []
    bound = next((d.bound for d in signature.call_dims), 0)
    return [
        f"The state is {signature.state_bytes} bytes of the caller, aligned to 64: a copy of what",
        f"{signature.name}_start() gives, which every call changes. In it are, C order:",
        *(
            f"  {macro}  "
            f"{C_TYPES[a.dtype]}[{comment_text(', '.join(map(str, a.shape)))}]  "
            f"{'of the learner' if a.role == 'state' else 'parameter'} {comment_text(a.name)}"
            for macro, a in zip(_place_names(signature), signature.state_places, strict=True)
        ),
        "The numbers of the learner are those of this call. The macros have them for a minibatch",
        f"of {bound} samples; docs/c.md of graphc says what they are for others.",
        *_changing_documentation(signature, changing),
        "",
    ]


def _changing_documentation(signature: Signature, changing: Sequence[str]) -> list[str]:
    if not changing:
        return []
    said = {
        "epoch": "Epochs are counted from 0.",
        "steps": "steps is how many steps this state has made: keep it with the state.",
    }
    return [
        f"{signature.name}_num_...({', '.join(changing)}) are those that change, for as many.",
        *(said[name] for name in changing),
        "These functions call pow, cos and floor of the C library: link with -lm.",
    ]


def _deed(signature: Signature) -> str:
    if signature.state_places:
        return "Makes a training step, the update included, of"
    return "Computes the network for"


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


def _what(signature: Signature) -> str:
    if signature.sequences is not None:
        return "s sequences of up to t steps"
    return "n samples" if _has_samples(signature) else "arrays of these sizes"


def _layout(signature: Signature) -> list[str]:
    sizes = [
        f"{comment_text(d.name)} is the {name} of the call, 0 <= {name} <= {d.bound}."
        for d, name in zip(signature.call_dims, counts(signature), strict=False)
    ]
    sizes += [f"{d.name} is {d.formula}." for d in signature.derived_dims]
    told = {d.name for d in signature.derived_dims}
    sizes += [
        f"{formula.total_text({})} is at least 0."
        for name, formula in signature.formulas.items()
        if formula.may_be_negative and name not in told
    ]
    if signature.sequences is None and not _has_samples(signature):
        dense = (
            "Arrays are dense, C order. They have to be aligned to their element type and may not"
        )
        return [dense, "overlap.", *sizes]
    if signature.sequences is None:
        return [
            "Arrays are dense, C order: one sample after another, each contiguous. They have to be",
            "aligned to their element type and may not overlap.",
            *sizes,
        ]
    tables = signature.sequences
    return [
        "Arrays are dense, C order: one step after another, in each the slots with a sequence in",
        "it, each contiguous. They have to be aligned to their element type and may not overlap.",
        *sizes,
        f"{comment_text(tables.begin)} and {comment_text(tables.end)} say for each step of each",
        "slot which sequence it belongs to: its steps are begin to end - 1. For one sequence of",
        "length l in a slot they are 0 and l in its steps. In the other steps of the slot, which",
        "hold nothing, they are T and 0; outputs are undefined there. A slot may hold several",
        "sequences one after another.",
    ]


def _port_lines(signature: Signature) -> list[str]:
    found = ports(signature)
    width = max((len(p.identifier) for p in found), default=0)
    return [
        f"{p.identifier:<{width}}  {p.ctype}[{comment_text(', '.join(map(str, p.source.shape)))}]  "
        f"{'input' if p.is_input else 'output'} {comment_text(p.source.name)}{_bits_of(p)}"
        for p in found
    ]


def _bits_of(port: Port) -> str:
    """What C's type does not say."""
    has_type = port.source.dtype not in ("f16", "bf16", *SHORT_TYPES)
    return "" if has_type else f", bits of {port.source.dtype}"


def _example(signature: Signature, numbers: Mapping[str, LearnerNumber]) -> list[str]:
    name, found = signature.name, ports(signature)
    arrays = [f"static {p.ctype} {p.identifier}[{_example_size(p, signature)}];" for p in found]
    given = [p.identifier for p in found if p.is_input]
    named = zip(signature.with_role("hyperparameter"), number_names(signature), strict=True)
    given += [_number_given(signature.name, n, numbers.get(a.name, 0.0)) for a, n in named]
    given += [p.identifier for p in found if not p.is_input]
    given += ["state"] if signature.state_places else []
    arguments = ", ".join([*counts(signature), *given, "arena"])
    return [
        f"  int64_t {', '.join(f'{n} = {size}' for n, size in _example_sizes(signature).items())};",
        *[f"  {line}" for line in arrays],
        *_example_tables(signature, found),
        *_example_state(signature),
        *[f"  int64_t {count} = 0;" for count in changing_arguments(numbers)],
        f"  void *arena = aligned_alloc(64, (size_t)({name}_arena_bytes() / 64 + 1) * 64);",
        f"  int32_t code = {name}_run({arguments});",
        f"  if (code != 0) puts({name}_status(code));",
        "  free(arena);",
        *(["  free(state);"] if signature.state_places else []),
    ]


def _number_given(name: str, number: str, value: LearnerNumber) -> str:
    """The number in a call."""
    if isinstance(value, Changing):
        return f"{name}_{number}({', '.join(value.arguments)})"
    return f"{name}_{number}".upper()


def _example_state(signature: Signature) -> list[str]:
    if not signature.state_places:
        return []
    upper = signature.name.upper()
    return [
        f"  void *state = aligned_alloc(64, {upper}_STATE_BYTES);",
        f"  memcpy(state, {signature.name}_start(), {upper}_STATE_BYTES);",
    ]


def _example_tables(signature: Signature, found: Sequence[Port]) -> list[str]:
    """All slots full: they begin at 0, as the array does, and end at t."""
    if signature.sequences is None:
        return []
    end = next(p.identifier for p in found if p.source.name == signature.sequences.end)
    time, slots = counts(signature)
    return [f"  for (int i = 0; i < {time} * {slots}; i++) {end}[i] = (int32_t){time};"]


def _example_sizes(signature: Signature) -> dict[str, int]:
    """About three of everything, or as many as every size that follows can do with."""
    names = [d.name for d in signature.call_dims] or [""]
    bounds = [d.bound for d in signature.call_dims] or [3]
    step = math.lcm(*_multiples(signature))
    least = step * max(3 // step, 1)
    tries = [
        {n: min(size, bound) for n, bound in zip(names, bounds, strict=True)}
        for size in range(least, max(least, *bounds) + 1, step)
    ]
    sizes = next((s for s in tries if _are_possible(signature, s)), tries[0])
    return dict(zip(counts(signature), sizes.values(), strict=True))


def _are_possible(signature: Signature, sizes: Mapping[str, int]) -> bool:
    """Whether all sizes that follow from these are sizes."""
    found = dict(sizes)
    for name, formula in signature.formulas.items():
        found[name] = formula.value(found)
        if not formula.fits(found):
            return False
    return True


def _multiples(signature: Signature) -> list[int]:
    """What the number of samples has to be a multiple of."""
    return sorted({d.multiple for d in signature.dims} - {1})


def _example_size(port: Port, signature: Signature) -> str:
    sizes = list(_example_sizes(signature).values())
    of = {d.name: size for d, size in zip(signature.call_dims, sizes, strict=False)}
    for name, formula in signature.formulas.items():
        of[name] = formula.value(of)
    factors = [of.get(d, sizes[0]) if isinstance(d, str) else d for d in port.source.shape]
    return " * ".join(map(str, factors)) or "1"


def _wrapped(text: str, width: int) -> Sequence[str]:
    return [text[i : i + width] for i in range(0, len(text), width)]
