"""A planned function as one C file.

    int32_t graphc_entry(void *buffers, void *dims, void *arena, void *pool)

as `loops/entry.py` writes it. The same function and target always give the same text.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.c.wide import WideCode, WideModule
from graphc.backends.llvm.target import Target
from graphc.backends.loops.entry import ENTRY_PARAMETERS, write_entry
from graphc.ir.core import Function
from graphc.runtime.signature import Signature

ENTRY = "graphc_entry"

OPENING = """\
#include <stdint.h>

#ifdef __FAST_MATH__
#error "this file has to be compiled without -ffast-math"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize ("fp-contract=off", "no-math-errno", "no-trapping-math")
#endif
"""


def emit_function(function: Function, signature: Signature, target: Target) -> str:
    """The file of the entry alone."""
    return emit_together([(function, signature)], target)


def emit_together(functions: Sequence[tuple[Function, Signature]], target: Target) -> str:
    """The file of the entries of several functions, which share what they have in common."""
    module = WideModule(target)
    for number, (function, signature) in enumerate(functions):
        add_entry(module, function, signature, target, entry_name(number))
    return f"{OPENING}\n{module.text()}"


def entry_name(number: int) -> str:
    """The entry of one of several functions."""
    return ENTRY if number == 0 else f"{ENTRY}{number}"


def add_entry(
    module: WideModule,
    function: Function,
    signature: Signature,
    target: Target,
    name: str = ENTRY,
    *,
    linkage: str = "",
) -> None:
    """Writes the entry and everything it calls."""
    body = write_entry(module, function, signature, target.machine)
    assert isinstance(body, WideCode)
    module.add_function(f"{linkage}int32_t {name}", body.function_text(ENTRY_PARAMETERS))
