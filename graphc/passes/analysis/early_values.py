"""Which values of a function are known before its calls: they depend on parameters that do not
change, on constants, and on inputs that are given seldom."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.core import Function, Trait, Value
from graphc.ir.types import Symbol


def early_values(
    function: Function, inputs: Sequence[str] = (), *, frozen: bool = True
) -> dict[Value, bool]:
    """The values that are known early, and whether they depend on what the caller asked for.

    inputs  names of inputs that are known early; without them parameters are what is asked for
    frozen  parameters that the function does not update are known
    """
    asked = {name for i in inputs for name in (i, f"{i}.indices", f"{i}.values")}
    updated = {result.updates for result in function.results}
    known: dict[Value, bool] = {}
    sizes: set[Symbol] = set()  # that a call of the early part knows
    for argument, role in zip(function.arguments, function.roles, strict=True):
        if role == "input" and argument.name in asked:
            known[argument] = True
            sizes.update(argument.tensor.symbols())
        elif role in ("parameter", "transposed") and frozen and argument.name not in updated:
            known[argument] = not inputs
    for op in function.block:
        if not op.opdef.has(Trait.PURE) or op.opdef.has(Trait.TERMINATOR) or op.regions:
            continue
        if all(v in known for v in op.operands):
            depends = any(known[v] for v in op.operands)
            if all(sizes.issuperset(v.tensor.symbols()) for v in op.results):
                known.update(dict.fromkeys(op.results, depends))
    return known
