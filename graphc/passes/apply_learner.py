"""Turns a function that returns gradients into a training step that updates its parameters.

    func @main(%x: … input, %W: tensor<10x64xf32> parameter)
        -> (ce: …, gradient.W: tensor<10x64xf32>) { … return %ce, %g }
becomes, for `apply-learner{learner = "sgd"}`,
    func @main(%x: … input, %W: … parameter, %velocity.W: … state,
               %learning_rate: tensor<1x1xf32> hyperparameter,
               %momentum: tensor<1x1xf32> hyperparameter)
        -> (ce: …, W: … updates %W, velocity.W: … updates %velocity.W) { … }

Every result `gradient.NAME` with a parameter NAME is replaced by the new parameter and the
learner's new state, which take over the old ones' memory. Where the gradient is a sum of lookups
and the learner's rule is lazy, only the rows that are looked up change:
    %g = transposed_sparse_product %x, %y, %index
 => %W.new, %velocity.new = update_rows %W, %velocity, …

L2 regularisation, `l2`, adds l2·N·w to the gradient first, N the number of samples of the call (the
toolkit's order: L2, then the update); of a minibatch of sequences the number of steps, without the
gaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import (
    Function,
    IRBuilder,
    Module,
    Operation,
    RegionKind,
    ResultInfo,
    Value,
)
from graphc.ir.types import Symbol, TensorType
from graphc.ops.constant import extent, full_like
from graphc.ops.elementwise import ADD, add, mul
from graphc.ops.indexed import TRANSPOSED_SPARSE_PRODUCT, OuterParams
from graphc.ops.learners import LEARNERS, Learner
from graphc.ops.nodes.sequence_columns import END, count_columns
from graphc.ops.reduction import broadcast
from graphc.ops.update_rows import Lookup, update_rows
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.synthesize_gradient import PREFIX
from graphc.support.diagnostics import suggestion

MAX_LOOKUPS = 64
"""Lookups of a parameter whose gradients are added row by row; of more, as whole tables."""


def apply_learner(function: Function, learner: Learner, l2: float, samples: Symbol | None) -> int:
    """Replace gradients by updates; the number of parameters that are now trained."""
    terminator = function.block.end
    builder = IRBuilder.before(terminator)
    hyperparameters: dict[str, Value] = {}
    kept: list[tuple[ResultInfo, Value]] = []
    updates: list[tuple[ResultInfo, Value]] = []
    for info, gradient in zip(function.results, function.returned, strict=True):
        parameter = _trained(function, info)
        if parameter is None:
            kept.append((info, gradient))
            continue
        if not hyperparameters:
            scalar = TensorType((1,) * parameter.tensor.rank, parameter.tensor.dtype)
            hyperparameters = {
                s: function.add_argument(s, scalar, "hyperparameter")
                for s in learner.hyperparameters
            }
        states = [_state(function, s, parameter) for s in learner.states]
        lookups = lookups_of(gradient) if learner.lazy and not l2 else None
        with builder.at(builder.location.within(f"{parameter.name}.new")):
            if lookups is not None:
                made = _update_rows(builder, learner, parameter, states, hyperparameters, lookups)
                new, *new_states = made
            else:
                if l2:
                    gradient = _regularised(function, builder, gradient, parameter, l2, samples)
                new, new_states = learner.update(
                    builder, parameter, gradient, states, hyperparameters
                )
        for argument, value in ((parameter, new), *zip(states, new_states, strict=True)):
            name = argument.name or ""
            value.label = f"{name}.new"
            updates.append((ResultInfo(name, name), value))
    function.results = [info for info, _ in (*kept, *updates)]
    terminator.set_operands([value for _, value in (*kept, *updates)])
    return len(updates) // (1 + len(learner.states))


def lookups_of(gradient: Value) -> list[Operation] | None:
    """The `transposed_sparse_product` operations that the gradient is the sum of, all along one
    axis."""
    found: list[Operation] = []
    work = [gradient]
    while work:
        op = work.pop().op
        if op is not None and op.opdef is ADD:
            work.extend(reversed(op.operands))
        elif op is None or op.opdef is not TRANSPOSED_SPARSE_PRODUCT or len(found) == MAX_LOOKUPS:
            return None
        else:
            found.append(op)
    is_one_axis = len({op.params_as(OuterParams).columns for op in found}) == 1
    return found if is_one_axis else None


def _update_rows(
    b: IRBuilder,
    learner: Learner,
    parameter: Value,
    states: Sequence[Value],
    hyperparameters: Mapping[str, Value],
    lookups: Sequence[Operation],
) -> list[Value]:
    """The new parameter and states, by the rule on the rows that are looked up."""

    def rule(
        inner: IRBuilder, rows: Sequence[Value], gradient: Value, numbers: Sequence[Value]
    ) -> list[Value]:
        named = dict(zip(hyperparameters, numbers, strict=True))
        new, new_states = learner.update(inner, rows[0], gradient, rows[1:], named)
        return [new, *new_states]

    return update_rows(
        b,
        [parameter, *states],
        list(hyperparameters.values()),
        [Lookup(*op.operands) for op in lookups],
        rule,
        columns=lookups[0].params_as(OuterParams).columns,
    )


def _repeated_names(function: Function) -> list[str]:
    """Names that two arguments or two results have: a node is called as a hyperparameter or a
    state."""
    arguments = Counter(a.name or "" for a in function.arguments)
    results = Counter(r.name for r in function.results)
    return [name for count in (arguments, results) for name, times in count.items() if times > 1]


def _trained(function: Function, info: ResultInfo) -> Value | None:
    """The parameter whose gradient this result is."""
    if not info.name.startswith(PREFIX):
        return None
    argument = function.argument(info.name.removeprefix(PREFIX))
    if argument is None or function.roles[argument.index] != "parameter":
        return None
    return argument


def _state(function: Function, kind: str, parameter: Value) -> Value:
    return function.add_argument(f"{kind}.{parameter.name}", parameter.type, "state")


def _regularised(
    function: Function,
    b: IRBuilder,
    gradient: Value,
    parameter: Value,
    l2: float,
    samples: Symbol | None,
) -> Value:
    one = TensorType((1,) * parameter.tensor.rank, parameter.tensor.dtype)
    end = function.argument(END)
    if end is not None:
        count = count_columns(b, end, one)
    else:
        count = extent(b, samples if samples is not None else 1, one)
    weight = mul(b, count, full_like(b, l2, count))
    return add(b, gradient, mul(b, broadcast(b, weight, parameter.tensor.dims), parameter))


@dataclass(frozen=True)
class ApplyLearner(Pass):
    """`learner`: a name of `ops/learners.py`; `l2`: weight of L2 regularisation per sample."""

    name: ClassVar[str] = "apply-learner"
    summary: ClassVar[str] = "turn gradients into parameter updates"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    learner: str = "sgd"
    l2: float = 0.0

    def run(self, module: Module, context: Context) -> PassOutcome:
        learner = LEARNERS.get(self.learner)
        if learner is None:
            near = suggestion(self.learner, LEARNERS)
            context.sink.error("bad-option", f"no learner is called `{self.learner}`{near}")
            return PassOutcome(False)
        samples = next((d for d in module.dims if d.name == "N"), None)
        functions = [f for f in module.functions if f.kind is RegionKind.SSA]
        trained = sum(apply_learner(f, learner, self.l2, samples) for f in functions)
        for name in dict.fromkeys(n for f in functions for n in _repeated_names(f)):
            message = (
                f"`{name}` names both a node that is computed or given and a value of training"
            )
            context.sink.error("duplicate-name", message)
        return PassOutcome(trained > 0, {"parameters": trained})
