"""The derivatives of a traced function, as functions of the IR, put where another is being traced.

A transform traces the function it is given for the arguments of the trace that is going on, makes a
copy that computes derivatives too, by the passes, and puts that copy into the trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphc.ir.clone import clone_function
from graphc.ir.core import Function, IRBuilder, ResultInfo, Value
from graphc.ir.types import DType, TensorType
from graphc.ops.constant import constant
from graphc.ops.elementwise import add, mul
from graphc.ops.reduction import reduce_sum
from graphc.passes.eliminate_common_subexpressions import merge_duplicates
from graphc.passes.synthesize_gradient import synthesize_gradient
from graphc.passes.synthesize_tangent import synthesize_tangent
from graphc.support.diagnostics import DiagnosticSink, GraphcError, fail
from graphc.tensor.caller import caller_location
from graphc.tensor.function import ArrayFunction, TracedFunction
from graphc.tensor.numeric import convert, reshape
from graphc.tensor.tensor import Tensor
from graphc.tensor.tracing import Trace, Traced, innermost
from graphc.tensor.trees import Node, Structure, flatten, leaf_count, unflatten

Argnums = int | Sequence[int]
"""The arguments to differentiate with respect to: one number, or several."""


@dataclass(frozen=True, eq=False)
class Inside:
    """A function traced for the arguments of the trace that is going on.

    tensors  its arguments that are arrays, by leaf
    """

    base: ArrayFunction
    trace: Trace
    made: TracedFunction
    leaves: Sequence[object]
    structure: Structure

    @staticmethod
    def of(base: ArrayFunction, arguments: Sequence[object]) -> Inside:
        leaves, structure = flatten(tuple(arguments))
        trace = innermost(leaves)
        if trace is None:
            raise not_differentiable(
                base, "it has no argument that is an array or a float (2.0 in place of 2)"
            )
        made = base.traced(base.describe(leaves, structure, trace.default))
        return Inside(base, trace, made, leaves, structure)

    def place(self, function: Function, more: Sequence[object] = ()) -> list[Tensor]:
        """The results of a function made of `made`, whose further arguments are `more`."""
        given = [x for x in self.leaves if isinstance(x, Traced)]
        operands: list[Any] = [*given, *self.made.held, *more]
        return [Tensor(self.trace, v) for v in self.trace.inline(function, operands)]

    def zeros(self, type: TensorType) -> Tensor:
        """A traced array of zeros."""
        return Tensor(self.trace, constant(self.trace.builder, 0.0, type))

    def outputs(self, results: Sequence[Tensor]) -> object:
        """The results as the function itself gives them."""
        places = self.made.places
        return unflatten(self.made.outputs, [None if p is None else results[p] for p in places])

    @property
    def children(self) -> tuple[Structure, ...]:
        """The structure of each argument."""
        assert isinstance(self.structure, Node)
        return self.structure.children

    def argument_leaves(self, argnums: Argnums) -> list[range]:
        """The leaves of each chosen argument, all of them floating-point arrays or floats."""
        counts = [leaf_count(child) for child in self.children]
        found: list[range] = []
        for number in as_numbers(argnums):
            if not -len(counts) <= number < len(counts):
                raise fail(
                    "bad-value",
                    f"argnums requires numbers of the {len(counts)} arguments, got {number!r}",
                    self.base.location,
                )
            start = sum(counts[: number % len(counts)])
            found.append(range(start, start + counts[number % len(counts)]))
        for leaf in (i for chosen in found for i in chosen):
            if not is_float(self.leaves[leaf]):
                raise not_differentiable(
                    self.base,
                    f"argument {self._argument_of(leaf)} is {_described(self.leaves[leaf])}; "
                    "a derivative is with respect to floats and arrays of floats "
                    "(2.0 in place of 2)",
                )
        return found

    def _argument_of(self, leaf: int) -> int:
        ends = 0
        for index, child in enumerate(self.children):
            ends += leaf_count(child)
            if leaf < ends:
                return index
        raise AssertionError(leaf)

    def tree(self, number: int, leaves: Sequence[object]) -> object:
        """Leaves in the structure of an argument."""
        return unflatten(self.children[number], leaves)


def is_float(leaf: object) -> bool:
    """Whether a leaf is a traced value of floating-point numbers."""
    return isinstance(leaf, Traced) and leaf.value.tensor.dtype.is_float


def checked_argnums(argnums: Argnums) -> int | tuple[int, ...]:
    """`argnums` as it is kept; GraphcError where it is something else."""
    given = tuple(argnums) if isinstance(argnums, tuple | list) else (argnums,)
    for number in given:
        if isinstance(number, bool) or not isinstance(number, int):
            raise fail(
                "argument-type",
                f"argnums requires an int or a tuple of ints, got {argnums!r}",
                caller_location(),
            )
    return argnums if isinstance(argnums, int) else tuple(argnums)


def as_numbers(argnums: Argnums) -> Sequence[int]:
    """The numbers of the chosen arguments, also of a single one."""
    return (argnums,) if isinstance(argnums, int) else argnums


def _described(leaf: object) -> str:
    if isinstance(leaf, Traced):
        return f"an array of {leaf.value.tensor.dtype}"
    return f"{leaf!r} ({type(leaf).__name__})"


def not_differentiable(base: ArrayFunction, why: str) -> GraphcError:
    """The error that `base` has no derivative, at its definition."""
    name = getattr(base.python, "__name__", "the function")
    return fail("not-differentiable", f"`{name}` has no derivative: {why}", base.location)


# --- functions of the IR -------------------------------------------------------------------------


def with_gradients(made: TracedFunction, of: str, leaves: Sequence[int], seeds: bool) -> Function:
    """A copy whose last results are the gradients with respect to these leaves. What is computed
    twice is so once before: what flows back to it is one sum then.

    seeds  the derivative is of Σ seed · result over all floating-point results, and the seeds are
           further arguments; else of the result `of`
    """
    function = clone_function(made.function)
    merge_duplicates(function)
    if seeds:
        _append_weighted_sum(function, of)
    sink = DiagnosticSink()
    synthesize_gradient(function, of, [f"x{i}" for i in leaves], sink)
    sink.raise_if_errors()
    return function


def _append_weighted_sum(function: Function, name: str) -> None:
    """The result `name`: Σ seed · result, with a new argument for the seed of each result."""
    terminator = function.block.end
    b = IRBuilder.before(terminator)
    total: Value | None = None
    for index, value in enumerate(function.returned):
        type = value.tensor
        if not type.dtype.is_float:
            continue
        seed = function.add_argument(f"seed{index}", type, "input")
        term = reduce_sum(b, mul(b, seed, value), range(type.rank))
        term = convert(b, reshape(b, term, ()), DType.F64)
        total = term if total is None else add(b, total, term)
    if total is not None:
        terminator.set_operands([*terminator.operands, total])
        function.results.append(ResultInfo(name))


def with_tangents(made: TracedFunction, leaves: Sequence[int]) -> Function:
    """A copy with further arguments, the tangents of these leaves, and as results of all floats."""
    function = clone_function(made.function)
    merge_duplicates(function)
    sink = DiagnosticSink()
    synthesize_tangent(function, [f"x{i}" for i in leaves], (), sink)
    sink.raise_if_errors()
    return function
