"""`scan`: a function of one step, traced once and run over the first axis of arrays.

The step becomes the body of a `loop`; what it closes over is read by every step. The derivatives
are those of the loop, so their cost does not depend on how the steps are written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.driver.options import DEFAULT_BACKEND
from graphc.ir.clone import clone_operations
from graphc.ir.core import IRBuilder, Operation, Value
from graphc.ir.types import Dim, DType, Symbol, TensorType, TypeRuleError
from graphc.ops.loop import loop
from graphc.support.diagnostics import GraphcError, Note, fail
from graphc.support.source import Location
from graphc.tensor.caller import caller_location, definition_location
from graphc.tensor.function import (
    Arguments,
    ArrayFunction,
    Static,
    TracedFunction,
    default_type,
)
from graphc.tensor.promotion import PlainArray, common_type, element_type, is_number
from graphc.tensor.tensor import Tensor
from graphc.tensor.tracing import Trace, Traced, innermost
from graphc.tensor.trees import Node, Structure, flatten, unflatten

_RETRIES = 3  # plain numbers in the carry take the type that the steps give; types only rise


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    initial: Any,
    xs: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Carry a value through `f`, step by step: (the last carry, the ys stacked along a first axis).

        h, hs = gc.scan(lambda h, x: (step := gc.tanh(h @ W + x), step), h0, xs)

    f        (carry, x) -> (carry, y), traced once; the carry keeps structure, shapes and types, but
             that plain numbers and `gc.zeros` take the type that `f` gives for them
    initial  the first carry: arrays and numbers, alone or in tuples, lists and dicts; None for none
    xs       arrays, alone or in containers, of one size along the first axis: a step for each
             element; None for steps that read none
    length   the number of steps, required where there are no xs
    reverse  go from the last element to the first; the ys stay at the places of their xs

    GraphcError at the caller's line for a carry that changes and for sizes that do not fit.
    """
    location = caller_location()
    carry_leaves, carry = flatten(initial)
    x_leaves, x = flatten(xs)
    count = _count(x_leaves, length, location)
    given = _Given(f, carry_leaves, x_leaves, carry, x, location)
    body = given.traced()
    target = body.around or Trace("immediate", given.default(None))
    with target.builder.at(location):
        try:
            made = _emit(target, given, body, count, reverse)
        except TypeRuleError as problem:
            raise fail(problem.slug, problem.message, location) from None
    if body.around is None:
        results = target.compute_all(made.results)
    else:
        results = [Tensor(target, v) for v in made.results]
    leaves = iter(results)
    filled = [None if p is None else next(leaves) for p in body.made.places]
    final, ys = unflatten(body.made.outputs, filled)  # type: ignore[misc]  # two, as was checked
    return final, ys


def _count(leaves: Sequence[object], length: object, location: Location) -> Dim:
    """How many steps there are."""
    sizes: set[Dim] = set()
    for leaf in leaves:
        if leaf is None:
            continue
        shape = leaf.shape if isinstance(leaf, Tensor | np.ndarray) else ()
        if not shape:
            raise fail(
                "argument-type",
                f"scan requires arrays with a first axis as xs, got {leaf!r}",
                location,
            )
        sizes.add(shape[0])
    if length is not None:
        sizes.add(length if isinstance(length, Symbol) else _length(length, location))
    if len(sizes) > 1:
        found = ", ".join(sorted(map(str, sizes)))
        given = "xs and a length" if length is not None else "xs"
        message = f"scan requires {given} of one number of steps, got {found}"
        raise fail("shape-mismatch", message, location)
    if not sizes:
        raise fail("argument-type", "scan requires arrays as xs, or a length", location)
    return sizes.pop()


def _length(given: object, location: Location) -> int:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
        message = f"length requires an int of at least 0, got {given!r}"
        raise fail("argument-type", message, location)
    return int(given)


# --- the step ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Body:
    """The traced step, and the trace that the loop belongs to; None: it is computed at once."""

    made: TracedFunction
    around: Trace | None


@dataclass(frozen=True, eq=False)
class _Given:
    """What `scan` was called with, flat."""

    f: Callable[..., object]
    carry_leaves: Sequence[object]
    x_leaves: Sequence[object]
    carry: Structure
    x: Structure
    location: Location

    def default(self, trace: Trace | None) -> DType:
        """The type of plain floats."""
        if trace is not None:
            return trace.default
        return default_type([*self.carry_leaves, *self.x_leaves])

    def traced(self) -> _Body:
        """The step, traced for the types of its arguments.

        It may close over values of a trace that none of the arguments belongs to: then that one is
        where the loop goes, and its settings hold.
        """
        trace = innermost([*self.carry_leaves, *self.x_leaves])
        while True:
            made = self._traced_in(trace)
            around = innermost([*self.carry_leaves, *self.x_leaves, *made.held])
            if around is trace:
                return _Body(made, around)
            trace = around

    def _traced_in(self, trace: Trace | None) -> TracedFunction:
        default = self.default(trace)
        precision = None if trace is None or trace.precision is None else trace.precision.value
        step = ArrayFunction(self.f, DEFAULT_BACKEND, precision)
        carry = [self._type(leaf, trace, default) for leaf in self.carry_leaves]
        elements = [self._type(leaf, trace, default) for leaf in self.x_leaves]
        elements = [t.with_dims(t.dims[1:]) if isinstance(t, TensorType) else t for t in elements]
        structure = Node(tuple, (), (self.carry, self.x))
        before = carry
        for _ in range(_RETRIES):
            made = step.traced(Arguments(structure, (*carry, *elements), default))
            before, carry = carry, self._settled(carry, made)
            if carry == before:
                return made
        raise self._changes(before, carry)

    def _type(self, leaf: object, trace: Trace | None, default: DType) -> TensorType | Static:
        if leaf is None:
            return Static(None, type(None))
        if isinstance(leaf, Traced):
            return leaf.value.tensor
        if is_number(leaf):
            return TensorType((), common_type([], [leaf], default))
        if not isinstance(leaf, np.ndarray):
            message = f"scan requires arrays and numbers, got {type(leaf).__name__}"
            raise fail("argument-type", message, self.location)
        if isinstance(leaf, PlainArray) and leaf.dtype.kind == "f":
            return TensorType(leaf.shape, default)
        try:
            dtype = element_type(leaf.dtype)
        except TypeRuleError as problem:
            raise fail(problem.slug, problem.message, self.location) from None
        chosen = trace.precision if trace is not None and dtype.is_float else None
        return TensorType(leaf.shape, chosen or dtype)

    def _settled(
        self, carry: list[TensorType | Static], made: TracedFunction
    ) -> list[TensorType | Static]:
        """The types of the carry as the step gives them; an error where that is not allowed."""
        outputs = made.outputs
        if not isinstance(outputs, Node) or outputs.kind is dict or len(outputs.children) != 2:
            message = "scan requires a function that gives a pair (carry, y)"
            raise fail("argument-type", message, self.location, notes=self._definition())
        if outputs.children[0] != self.carry:
            message = (
                "scan requires a carry of one structure, the same containers with the same keys in "
                f"the same order: it starts as {_shown(self.carry)}, "
                f"the function gives {_shown(outputs.children[0])}"
            )
            raise fail("argument-type", message, self.location, notes=self._definition())
        found = self._yielded(made)
        for leaf, now, then in zip(self.carry_leaves, carry, found, strict=True):
            if now == then:
                continue
            is_plain = is_number(leaf) or (isinstance(leaf, PlainArray) and leaf.dtype.kind == "f")
            known = isinstance(now, TensorType) and isinstance(then, TensorType)
            if not (is_plain and known and now.dims == then.dims):  # type: ignore[union-attr]
                raise self._changes(carry, found)
        return found

    def _yielded(self, made: TracedFunction) -> list[TensorType | Static]:
        """What the step gives as the carry."""
        types = made.result_types
        places = made.places[: len(self.carry_leaves)]
        return [Static(None, type(None)) if p is None else types[p] for p in places]

    def _changes(
        self, carry: Sequence[TensorType | Static], found: Sequence[TensorType | Static]
    ) -> GraphcError:
        pairs = zip(carry, found, strict=True)
        index, (now, then) = next((i, p) for i, p in enumerate(pairs) if p[0] != p[1])
        which = f"leaf {index} of it" if len(carry) > 1 else "it"
        return fail(
            "ill-typed",
            f"scan requires a carry that keeps its shape and element type: "
            f"{which} starts as {_described(now)}, the function gives {_described(then)}",
            self.location,
            notes=self._definition(),
        )

    def _place(self) -> Location:
        if isinstance(self.f, ArrayFunction):
            return self.f.location
        return definition_location(self.f)

    def _definition(self) -> list[Note]:
        return [Note("the function is defined here", self._place().span)]


def _described(type: TensorType | Static) -> str:
    return str(type) if isinstance(type, TensorType) else "None"


def _shown(structure: Structure) -> str:
    """A structure with `*` for each leaf."""
    return repr(unflatten(structure, _Stars()))


class _Star:
    def __repr__(self) -> str:
        return "*"


class _Stars(Sequence[object]):
    """As many leaves as one asks for."""

    def __getitem__(self, index: Any) -> Any:
        return _Star()

    def __len__(self) -> int:
        return 0


# --- the loop ------------------------------------------------------------------------------------


def _emit(trace: Trace, given: _Given, body: _Body, count: Dim, reverse: bool) -> Operation:
    """The loop, put into `trace`."""
    made = body.made.function
    arguments = made.arguments
    carried = [v for v in given.carry_leaves if v is not None]
    elements = [v for v in given.x_leaves if v is not None]
    operands: list[Any] = [*carried, *elements, *body.made.held]
    values = [
        trace.lift([operand], argument.tensor.dtype)[0]
        for operand, argument in zip(operands, arguments, strict=True)
    ]
    first, second = len(carried), len(carried) + len(elements)
    operations = [op for op in made.block if op is not made.block.terminator]

    def step(
        inner: IRBuilder,
        shared: Sequence[Value],
        elements: Sequence[Value],
        before: Sequence[Value],
    ) -> tuple[list[Value], list[Value]]:
        local = dict(zip(arguments, (*before, *elements, *shared), strict=True))
        clone_operations(operations, inner.block, local)
        yields = [local[v] for v in made.returned]
        return yields[:first], yields[first:]

    return loop(
        trace.builder,
        count,
        step,
        values[second:],
        values[first:second],
        values[:first],
        backward=reverse,
    )
