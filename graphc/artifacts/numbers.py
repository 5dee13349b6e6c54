"""The numbers of a learner in C: macros for those that never change, functions for the others.

    #define STEP_NUM_BETA1 0.9

    double step_num_correction1(int64_t steps)
    {
        {
            volatile double t0 = (double)steps + 1.0;
            volatile double t1 = pow(0.9, t0);
            …

The functions are in the header, so a library needs no more than before. Each operation is rounded
by itself, as Python does, whatever the compiler may contract: hence `volatile`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graphc.support.formulas import UPDATES, Formula

OPENING = "\n".join(
    (
        "#include <math.h>",
        "",
        "#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L)",
        "#define {0}_INLINE static inline",
        "#elif defined(__GNUC__)",
        "#define {0}_INLINE static __inline__",
        "#else",
        "#define {0}_INLINE static",
        "#endif",
    )
)


@dataclass(frozen=True)
class Changing:
    """A number that is another one in another update or epoch.

    runs          (first epoch, its number from then on), the first of epoch 0
    takes_epoch   whether the function is given the epoch, as all of one learner are
    takes_steps   and how many updates came before
    """

    runs: Sequence[tuple[int, float | Formula]]
    takes_epoch: bool
    takes_steps: bool

    @property
    def arguments(self) -> list[str]:
        given = (("epoch", self.takes_epoch), ("steps", self.takes_steps))
        return [name for name, is_taken in given if is_taken]


LearnerNumber = float | Changing
"""A number of whole minibatches."""


@dataclass(frozen=True)
class StepNumbers:
    """What a training step is given for a minibatch of so many samples, by name."""

    by_name: Mapping[str, LearnerNumber] = field(default_factory=dict[str, LearnerNumber])
    nominal: int = 0


def changing_arguments(numbers: Mapping[str, LearnerNumber]) -> list[str]:
    """What the functions of these numbers are given; nothing where none changes."""
    found = [n.arguments for n in numbers.values() if isinstance(n, Changing)]
    return found[0] if found else []


def function_lines(name: str, number: Changing) -> list[str]:
    """The definition of the function of a number."""
    upper = name[: name.index("_num_")].upper()
    taken = ", ".join(f"int64_t {argument}" for argument in number.arguments)
    ends = [start for start, _ in number.runs[1:]]
    has_steps = any(isinstance(value, Formula) for _, value in number.runs)
    used = {"epoch": bool(ends), "steps": has_steps}
    lines = [f"(void){argument};" for argument in number.arguments if not used[argument]]
    for (_, value), end in zip(number.runs, [*ends, None], strict=True):
        opening = f"if (epoch < {end}) {{" if end is not None else "{"  # C89: a block begins anew
        lines += [opening, *(f"    {line}" for line in _body(value)), "}"]
    return [
        f"{upper}_INLINE double {name}({taken})",
        "{",
        *(f"    {line}" for line in lines),
        "}",
    ]


def number_literal(value: float) -> str:
    """A double in C; infinity stands for a threshold that nothing reaches."""
    return repr(float(value)) if math.isfinite(value) else "1.0e308"


def _body(value: float | Formula) -> list[str]:
    lines: list[str] = []
    found = _written(value, lines)
    return [*lines, f"return {found};"]


def _written(value: object, lines: list[str]) -> str:
    """What stands for the value in C, after these lines, to which its own are added."""
    if not isinstance(value, Formula):
        assert isinstance(value, int | float)
        return number_literal(value)
    if value is UPDATES:
        return "(double)steps"
    operands = [_written(operand, lines) for operand in value.operands]
    match value.operator:
        case "+" | "-" | "*" | "/" | ">=" as operator:
            made = f" {operator} ".join(operands)
        case "//":
            made = f"floor({operands[0]} / {operands[1]})"
        case "**":
            made = f"pow({operands[0]}, {operands[1]})"
        case "choose":
            made = f"{operands[0]} ? {operands[1]} : {operands[2]}"
        case _:
            made = f"cos({operands[0]})"
    name = f"t{len(lines)}"
    lines.append(f"volatile double {name} = {made};")
    return name
