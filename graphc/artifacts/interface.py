"""The C interface of a compiled network: its functions' names and parameters, in order.

Also the rules by which names of networks and nodes become C identifiers and harmless C text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from graphc.artifacts.members import TABLE_TYPE, takes_members
from graphc.runtime.signature import Argument, Result, Signature
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


def check_name(name: str) -> None:
    """Raise GraphcError `bad-value` unless `name` can begin the names of C functions."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in _TAKEN_NAMES:
        raise fail("bad-value", f"an artifact's name has to be a C identifier, got `{name}`")


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
    return tuple(re.sub(r"[^A-Za-z0-9_]", "_", f"num_{a.name}") for a in signature.numbers)


def numbers_taken(signature: Signature) -> list[str]:
    """Those as parameters: `double` for any type of floats, `int64_t` for one of integers."""
    numbers = zip(signature.numbers, number_names(signature), strict=True)
    return [f"{'double' if a.dtype in ('f32', 'f64') else 'int64_t'} {name}" for a, name in numbers]


def state_symbols(signature: Signature) -> tuple[str, ...]:
    """The functions besides of a training step."""
    parts = ("start", "state_bytes") if signature.state_places else ()
    return tuple(f"{signature.name}_{part}" for part in parts)


def place_names(signature: Signature) -> list[str]:
    """Macros for where each array of the state begins."""
    taken: list[str] = []
    for argument in signature.state_places:
        name = re.sub(r"[^A-Za-z0-9_]", "_", argument.name)
        taken.append(_fresh(f"{signature.name.upper()}_AT_{name}", set(taken)))
    return taken


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


def has_samples(signature: Signature) -> bool:
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
    parameters += ["void *arena"]
    parameters += [f"const {TABLE_TYPE} *members"] if takes_members(signature) else []
    parameters += ["void *pool"] if with_pool else []
    opening = f"int32_t {signature.name}_run{'_with' if with_pool else ''}("
    line = opening + ", ".join(parameters) + ")"
    return line if len(line) <= 100 else opening + "\n    " + ",\n    ".join(parameters) + ")"


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


def _fresh(wanted: str, taken: set[str]) -> str:
    candidate, number = wanted, 2
    while candidate in taken:
        candidate, number = f"{wanted}_{number}", number + 1
    return candidate
