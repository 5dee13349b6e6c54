"""Update rules as the text of functions, one for each type of parameter.

    func @rule(%gradient: tensor<3x4xf32> input, %parameter: … input, %state.velocity: … input,
                %learning_rate: tensor<1x1xf32> input)
        -> (parameter: tensor<3x4xf32>, state.velocity: tensor<3x4xf32>) { … }

So a rule that is in no table is an option of the pass `apply-learner` like any other: it is printed
with it, and a cache of compiled code tells it from others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.ir.clone import clone_shallow
from graphc.ir.codegen import Broadcast, Elementwise, Fill
from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, RegionKind, ResultInfo, Value
from graphc.ir.parser import parse_module
from graphc.ir.types import TensorType
from graphc.ops.control import RETURN
from graphc.ops.learners import Rule
from graphc.support.diagnostics import fail

STATE = "state."
ROW_BY_ROW = (Elementwise, Broadcast, Fill)
"""What `update_rows` takes in its body."""


def body_of(rule: Rule, type: TensorType) -> Module:
    """The rule for parameters of this type as a function."""
    function = Function("rule", RegionKind.SSA)
    one = TensorType((1,) * type.rank, type.dtype)
    gradient, parameter, *rest = [
        *(function.add_argument(name, type, "input") for name in ("gradient", "parameter")),
        *(function.add_argument(STATE + name, type, "input") for name in rule.states),
        *(function.add_argument(name, one, "input") for name in rule.numbers),
    ]
    count = len(rule.states)
    b = IRBuilder(function.block)
    numbers = dict(zip(rule.numbers, rest[count:], strict=True))
    new, states = rule.update(b, gradient, parameter, rest[:count], numbers)
    b.emit(RETURN, [new, *states])
    function.results = [ResultInfo("parameter"), *(ResultInfo(STATE + s) for s in rule.states)]
    return Module([function])


def require_rows(body: Module) -> None:
    """GraphcError for what cannot be done row by row."""
    for op in body.functions[0].block:
        if op.opdef is not RETURN and not isinstance(op.opdef.codegen, ROW_BY_ROW):
            message = f"a lazy rule has to be element by element, got `{op.opdef.name}`"
            raise fail("bad-value", message, op.location)


def rule_of(name: str, bodies: Sequence[str], context: Context, *, lazy: bool = False) -> Rule:
    """The rule of functions as `body_of` makes them, from texts. GraphcError for texts that do
    not fit."""
    functions = [f for text in bodies for f in parse_module(text, context, file=name).functions]
    context.sink.raise_if_errors()
    names = [[a.name or "" for a in f.arguments] for f in functions]
    if any(n != names[0] or n[:2] != ["gradient", "parameter"] for n in names):
        message = f"the bodies of `{name}` require gradient, parameter, and then the same arguments"
        raise fail("bad-option", message)
    states = tuple(n.removeprefix(STATE) for n in names[0] if n.startswith(STATE))
    by_type = {f.arguments[1].tensor: f for f in functions}

    def update(
        b: IRBuilder,
        gradient: Value,
        parameter: Value,
        given: Sequence[Value],
        numbers: Mapping[str, Value],
    ) -> tuple[Value, list[Value]]:
        body = by_type.get(parameter.tensor)
        if body is None:
            message = f"`{name}` has no body for {parameter.tensor}, the type of `{parameter.name}`"
            raise fail("bad-option", message)
        arguments = [gradient, parameter, *given, *numbers.values()]
        new, *new_states = inlined(b, body, arguments)
        return new, new_states

    return Rule(name, "", states, tuple(names[0][2 + len(states) :]), update, lazy)


def inlined(b: IRBuilder, function: Function, arguments: Sequence[Value]) -> list[Value]:
    """The results of a function, put in at the builder, at its location."""
    values = dict(zip(function.arguments, arguments, strict=True))
    for op in function.block:
        if op is not function.block.terminator:
            copy = clone_shallow(op)
            copy.location = b.location
            copy.set_operands([values[v] for v in op.operands])
            b.block.insert_before(b.anchor, copy)
            values.update(zip(op.results, copy.results, strict=True))
    return [values[v] for v in function.returned]
