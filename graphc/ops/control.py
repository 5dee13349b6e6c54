"""Terminators."""

from __future__ import annotations

from graphc.ir.codegen import Terminator
from graphc.ir.core import NotDifferentiable, OpDef, Trait

RETURN = OpDef(
    name="return",
    summary="ends a function and hands out its results",
    operands=("values*",),
    infer=lambda _types, _params: [],
    codegen=Terminator(),
    vjp=NotDifferentiable.NONE,
    traits=frozenset({Trait.TERMINATOR, Trait.RETURN}),
)
YIELD = OpDef(
    name="yield",
    summary="ends a region's block and hands values to its operation",
    operands=("values*",),
    infer=lambda _types, _params: [],
    codegen=Terminator(),
    vjp=NotDifferentiable.NONE,
    traits=frozenset({Trait.TERMINATOR}),
)

OPS = (RETURN, YIELD)
