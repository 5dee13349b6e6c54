"""What people have to know who call a compiled network from C: the page that opens its header."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from graphc.artifacts.classes import class_statuses
from graphc.artifacts.interface import (
    C_TYPES,
    Port,
    comment_text,
    counts,
    has_samples,
    number_names,
    place_names,
    ports,
)
from graphc.artifacts.members import (
    member_documentation,
    member_example,
    member_statuses,
    takes_members,
)
from graphc.artifacts.numbers import (
    Changing,
    LearnerNumber,
    StepNumbers,
    changing_arguments,
)
from graphc.runtime.signature import ABI_VERSION, Signature
from graphc.support.short_types import SHORT_TYPES


def documentation(signature: Signature, info: str, numbers: StepNumbers | None = None) -> list[str]:
    """What people have to know who call the functions, in lines."""
    numbers = numbers or StepNumbers()
    return [
        f"{signature.name}: a network compiled by graphc. C interface, version {ABI_VERSION}.",
        "",
        *_port_lines(signature),
        "",
        *_layout(signature),
        f"The arena is {signature.arena_bytes} bytes of the caller, aligned to 64; it needs no",
        "initial value and keeps nothing between calls.",
        "",
        *_state_documentation(signature, numbers),
        *member_documentation(signature),
        f"Statuses: 0 done, 1 {' or '.join(counts(signature))} is negative or above its bound"
        + "".join(f" or no multiple of {m}" for m in _multiples(signature))
        + ", "
        "2 a pointer is NULL, 3 the arena is",
        "not aligned to 64 bytes, 4 an array is not aligned to its element type"
        + (", 5 the system" if NEEDS_AMX in info else "," if _has_more(signature) else "."),
        *_more_statuses(signature, info),
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


def _has_more(signature: Signature) -> bool:
    return takes_members(signature) or bool(signature.classes)


def _more_statuses(signature: Signature, info: str) -> list[str]:
    amx = ["does not lend the registers of AMX"] if NEEDS_AMX in info else []
    more = ",\n".join([*amx, *member_statuses(signature), *class_statuses(signature)])
    return f"{more}.".splitlines() if more else []


def _state_documentation(signature: Signature, numbers: StepNumbers) -> list[str]:
    if not signature.state_places:
        return []
    of_all = " of all members" if takes_members(signature) else ""
    return [
        f"The state is {signature.state_bytes} bytes of the caller, aligned to 64: a copy of what",
        f"{signature.name}_start() gives, which every call changes. In it are, C order:",
        *(
            f"  {macro}  "
            f"{C_TYPES[a.dtype]}[{comment_text(', '.join(map(str, a.shape)))}]  "
            f"{'of the learner' if a.role == 'state' else 'parameter'} {comment_text(a.name)}"
            for macro, a in zip(place_names(signature), signature.state_places, strict=True)
        ),
        "The numbers of the learner are those of this call. The macros have them for a minibatch",
        f"of {numbers.nominal} samples{of_all}; docs/c.md of graphc says what they are for others.",
        *_changing_documentation(signature, changing_arguments(numbers.by_name)),
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


def _layout(signature: Signature) -> list[str]:
    sizes = [
        f"{comment_text(d.name)} is the {name} of the call, 0 <= {name} <= {d.bound}."
        for d, name in zip(signature.call_dims, counts(signature), strict=False)
    ]
    if not signature.call_dims:
        sizes.append("All sizes are fixed: n, which is at least 0, changes nothing.")
    sizes += [f"{d.name} is {d.formula}." for d in signature.derived_dims]
    told = {d.name for d in signature.derived_dims}
    sizes += [
        f"{formula.total_text({})} is at least 0."
        for name, formula in signature.formulas.items()
        if formula.may_be_negative and name not in told
    ]
    if signature.sequences is None and not has_samples(signature):
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


def _example(signature: Signature, numbers: StepNumbers) -> list[str]:
    name, found = signature.name, ports(signature)
    arrays = [f"static {p.ctype} {p.identifier}[{_example_size(p, signature)}];" for p in found]
    given = [p.identifier for p in found if p.is_input]
    named = zip(signature.numbers, number_names(signature), strict=True)
    given += [_number_given(name, n, numbers.by_name.get(a.name, 0.0)) for a, n in named]
    given += [p.identifier for p in found if not p.is_input]
    given += ["state"] if signature.state_places else []
    given += ["arena", *(["&members"] if takes_members(signature) else [])]
    arguments = ", ".join([*counts(signature), *given])
    return [
        f"  int64_t {', '.join(f'{n} = {size}' for n, size in _example_sizes(signature).items())};",
        *[f"  {line}" for line in arrays],
        *_example_tables(signature, found),
        *_example_state(signature),
        *[f"  int64_t {count} = 0;" for count in changing_arguments(numbers.by_name)],
        *member_example(signature),
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
