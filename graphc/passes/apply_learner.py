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

With `members` gradients, and what is kept of the results, are summed over all who train the same
parameters, each with data of its own; then all make the same step. Of a table's rows only those
change that some member looks up, as if one had looked them all up.

A rule that is in no table comes as text, `bodies`: a function of gradient, parameter, states and
numbers for each type of parameter. What goes with any rule (clipping, regularisation, noise) is in
`ops/learner_terms.py`; a term that touches every element makes every row of a table take a step.
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
from graphc.ir.types import DType, TensorType
from graphc.ops.elementwise import ADD
from graphc.ops.indexed import TRANSPOSED_SPARSE_PRODUCT, OuterParams
from graphc.ops.learner_terms import NO_TERMS, Clipping, Noise, Terms, clip_norms, updated
from graphc.ops.learners import LEARNERS, Rule
from graphc.ops.nodes.training import STEP
from graphc.ops.update_rows import Lookup, update_rows
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.rule_text import rule_of
from graphc.passes.share_gradients import (
    is_common,
    only_where,
    require_shareable,
    samples_of,
    share,
)
from graphc.passes.synthesize_gradient import PREFIX
from graphc.support.diagnostics import suggestion

MAX_LOOKUPS = 64
"""Lookups of a parameter whose gradients are added row by row; of more, as whole tables."""


def apply_learner(
    function: Function, rule: Rule, terms: Terms = NO_TERMS, seed: int = 0, members: int = 1
) -> int:
    """Replace gradients by updates; the number of parameters that are now trained.

    seed     of the noise
    members  who train together, or `ANY_NUMBER`
    """
    builder = IRBuilder.before(function.block.end)
    found = list(zip(function.results, function.returned, strict=True))
    trained = [(p, g) for info, g in found if (p := _trained(function, info)) is not None]
    if not trained:
        return 0
    step = _Step.of(function, builder, rule, terms, seed, trained[0][0])
    kept = [(info, v) for info, v in found if _trained(function, info) is None]
    gradients, touched = [g for _, g in trained], [None] * len(trained)
    if members != 1:
        require_shareable(function)
        is_lazy = rule.lazy and not terms.moves_all
        lookups = [lookups_of(g) if is_lazy else None for g in gradients]
        common = [v for info, v in kept if info.updates is not None and is_common(v, function)]
        samples = samples_of(builder, function)
        shared = share(builder, gradients, lookups, kept, members, samples, common)
        gradients, touched, kept = shared.gradients, shared.touched, shared.kept
    updates: list[tuple[ResultInfo, Value]] = []
    gradients = step.clipped(gradients)
    for (parameter, _), gradient, rows in zip(trained, gradients, touched, strict=True):
        states = [_state(function, s, parameter) for s in rule.states]
        with builder.at(builder.location.within(f"{parameter.name}.new")):
            new = step.updated(parameter, gradient, states)
            if rows is not None:
                new = only_where(builder, rows, new, [parameter, *states])
        for argument, value in zip((parameter, *states), new, strict=True):
            name = argument.name or ""
            value.label = f"{name}.new"
            updates.append((ResultInfo(name, name), value))
    function.results = [info for info, _ in (*kept, *updates)]
    function.block.end.set_operands([value for _, value in (*kept, *updates)])
    return len(trained)


@dataclass(frozen=True)
class _Step:
    """What the updates of all parameters share.

    numbers  of the rule and of the terms
    step     the number of calls before this one, for noise
    """

    b: IRBuilder
    rule: Rule
    terms: Terms
    seed: int
    numbers: Mapping[str, Value]
    step: Value | None

    @staticmethod
    def of(
        function: Function, b: IRBuilder, rule: Rule, terms: Terms, seed: int, parameter: Value
    ) -> _Step:
        one = TensorType((1, 1), parameter.tensor.dtype)
        numbers = {
            name: function.add_argument(name, one, "hyperparameter")
            for name in (*rule.numbers, *terms.numbers)
        }
        step = _call_number(function, one) if terms.noise else None
        return _Step(b, rule, terms, seed, numbers, step)

    def clipped(self, gradients: Sequence[Value]) -> list[Value]:
        with self.b.at(self.b.location.within("clipped")):
            return clip_norms(self.b, self.terms, gradients, self.numbers)

    def updated(self, parameter: Value, gradient: Value, states: Sequence[Value]) -> list[Value]:
        """The new parameter and states."""
        is_lazy = self.rule.lazy and not self.terms.moves_all
        lookups = lookups_of(gradient) if is_lazy else None
        if lookups is not None:
            return self._update_rows(parameter, states, lookups)
        noise = None
        if self.step is not None:
            noise = Noise(self.seed, parameter.name or "", self.step)
        tables = [parameter, *states]
        return updated(self.b, self.rule, self.terms, gradient, tables, self.numbers, noise)

    def _update_rows(
        self, parameter: Value, states: Sequence[Value], lookups: Sequence[Operation]
    ) -> list[Value]:
        """The new parameter and states, by the rule on the rows that are looked up."""

        def rule(
            inner: IRBuilder, rows: Sequence[Value], gradient: Value, given: Sequence[Value]
        ) -> list[Value]:
            numbers = dict(zip(self.numbers, given, strict=True))
            return updated(inner, self.rule, self.terms, gradient, rows, numbers)

        return update_rows(
            self.b,
            [parameter, *states],
            list(self.numbers.values()),
            [Lookup(*op.operands) for op in lookups],
            rule,
            columns=lookups[0].params_as(OuterParams).columns,
        )


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


def _call_number(function: Function, one: TensorType) -> Value:
    """The number of calls before this one, as the network's nodes are given it."""
    found = function.argument(STEP)
    if found is not None and function.roles[found.index] == "hyperparameter":
        return found
    return function.add_argument(STEP, one.with_dtype(DType.I64), "hyperparameter")


def _state(function: Function, kind: str, parameter: Value) -> Value:
    return function.add_argument(f"{kind}.{parameter.name}", parameter.type, "state")


@dataclass(frozen=True)
class ApplyLearner(Pass):
    """`learner`: a name of `ops/learners.py`, or that of the rule in `bodies`, which is `lazy` or
    not; `clip`, `l2`, `noise`, `l1`: the terms that there are, `seed` that of the noise; `members`:
    how many train together, each with its part of a minibatch, 0 for any number."""

    name: ClassVar[str] = "apply-learner"
    summary: ClassVar[str] = "turn gradients into parameter updates"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    learner: str = "sgd"
    clip: Clipping = "none"
    l2: bool = False
    noise: bool = False
    l1: bool = False
    seed: int = 0
    bodies: tuple[str, ...] = ()
    lazy: bool = False
    members: int = 1

    def run(self, module: Module, context: Context) -> PassOutcome:
        rule = LEARNERS.get(self.learner)
        if self.bodies:
            rule = rule_of(self.learner, self.bodies, context, lazy=self.lazy)
        if rule is None:
            near = suggestion(self.learner, LEARNERS)
            context.sink.error("bad-option", f"no learner is called `{self.learner}`{near}")
            return PassOutcome(False)
        terms = Terms(self.clip, self.l2, self.noise, self.l1)
        functions = [f for f in module.functions if f.kind is RegionKind.SSA]
        trained = sum(apply_learner(f, rule, terms, self.seed, self.members) for f in functions)
        for name in dict.fromkeys(n for f in functions for n in _repeated_names(f)):
            message = (
                f"`{name}` names both a node that is computed or given and a value of training"
            )
            context.sink.error("duplicate-name", message)
        return PassOutcome(trained > 0, {"parameters": trained})
