"""`Trace`: a function of the IR while a Python function runs on traced values.

Operations are appended as they are called. What a trace does not make itself becomes a constant
(numbers, small arrays) or is held: arrays that the Python function closes over, and values of a
trace around this one, are further arguments, filled in at the call or where the function is put
into the other trace.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field

import numpy as np

from graphc.ir.clone import clone_operations
from graphc.ir.core import ArgumentRole, Function, IRBuilder, RegionKind, ResultInfo, Value
from graphc.ir.elements import as_array, as_numbers, converted
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops.constant import CONSTANT, ConstantParams, constant, extent
from graphc.ops.control import RETURN
from graphc.support.diagnostics import fail
from graphc.support.source import Location
from graphc.tensor.numeric import convert
from graphc.tensor.promotion import (
    Array,
    Number,
    PlainArray,
    common_type,
    element_type,
    number_as,
)

MAX_CONSTANT = 64
"""Elements up to which an array is written into the function."""

PROGRAM: ContextVar[Trace | None] = ContextVar("PROGRAM", default=None)
"""The program that is being traced, to which its sizes belong."""

_ORDER = itertools.count()  # a later trace lies inside the earlier ones that are still open


@dataclass(frozen=True, eq=False)
class Traced:
    """A traced value: which trace made it, and what it is there. `Tensor` is the user's side."""

    trace: Trace
    value: Value


Operand = Traced | Array | Number | Symbol
"""A symbol is a size that the call decides, as a number."""
Held = Traced | Array


@dataclass(eq=False)
class Trace:
    """A function being made.

    default    element type of plain floats where no array decides
    precision  element type that all floating-point arrays are converted to, None: their own
    held       what the arguments behind the function's own stand for
    """

    name: str
    default: DType
    precision: DType | None = None
    location: Location = field(default_factory=Location)
    held: list[Held] = field(default_factory=list)
    is_open: bool = True

    def __post_init__(self) -> None:
        self.order = next(_ORDER)
        self.function = Function(self.name, RegionKind.SSA, location=self.location)
        self.builder = IRBuilder(self.function.block)
        self._known: dict[int, tuple[object, Value]] = {}

    def argument(self, name: str, type: TensorType, role: ArgumentRole = "input") -> Value:
        """One more argument of the function itself; all of them come before the first held one."""
        assert not self.held
        return self.function.add_argument(name, type, role)

    @property
    def sources(self) -> list[object]:
        """What those of `held` were made of: the caller's own arrays, values of other traces."""
        return [key for key, _ in self._known.values()]

    # --- operands --------------------------------------------------------------------------------

    def lift(self, operands: Sequence[Operand], to: DType | None = None) -> list[Value]:
        """The operands as values of this trace, of one element type: the common one, or `to`."""
        dtype = to or self.common(operands)
        return [
            convert(self.builder, self._array(x), dtype)
            if isinstance(x, Traced | np.ndarray)
            else self._number(x, dtype)
            for x in operands
        ]

    def common(self, operands: Sequence[Operand]) -> DType:
        """The element type that these operands meet in."""
        numbers: list[Number] = []
        types: list[DType] = []
        for x in operands:
            if isinstance(x, PlainArray) and x.dtype.kind == "f":
                numbers.append(0.0)
            elif isinstance(x, Traced | np.ndarray):
                types.append(self._type(x))
            else:
                numbers.append(1 if isinstance(x, Symbol) else x)
        return common_type(types, numbers, self.default)

    def _type(self, operand: Traced | Array) -> DType:
        if isinstance(operand, Traced):
            return operand.value.tensor.dtype
        dtype = element_type(operand.dtype)
        return self.precision if dtype.is_float and self.precision is not None else dtype

    def lift_one(self, operand: Operand) -> Value:
        """One operand as it is."""
        (value,) = self.lift([operand])
        return value

    def _number(self, number: Number | Symbol, dtype: DType) -> Value:
        if isinstance(number, Symbol):
            exact = TensorType((), dtype if dtype.is_float else DType.F64)
            return convert(self.builder, extent(self.builder, number, exact), dtype)
        return constant(self.builder, number_as(number, dtype), TensorType((), dtype))

    def _array(self, operand: Traced | Array) -> Value:
        """A traced value or an array, with its own element type."""
        if isinstance(operand, Traced):
            self._require_open(operand)
            if operand.trace is self:
                return operand.value
            return self._hold(operand.value, operand.value.type, operand)
        array, dtype = operand, self._type(operand)
        type = TensorType(array.shape, dtype)
        if array.size <= MAX_CONSTANT or is_one_number(array):
            return self._constant(array, type)
        # A copy: what the function computes does not change when the caller's array does.
        return self._hold(operand, type, as_array(array, dtype))

    def _require_open(self, operand: Traced) -> None:
        if not operand.trace.is_open:
            raise fail(
                "input",
                "a traced value is used after the function that made it has returned; "
                "return it from the function instead of storing it outside",
                self.builder.location,
            )

    def _constant(self, array: Array, type: TensorType) -> Value:
        elements = as_numbers(converted(array, type.dtype)).ravel().tolist()
        if is_one_number(array):
            elements = elements[:1]
        params = ConstantParams(type, tuple(elements or [_zero(type.dtype)]))
        return self.builder.emit_one(CONSTANT, params=params)

    def _hold(self, key: object, type: object, held: Held) -> Value:
        """The argument for something from outside, one for each thing."""
        known = self._known.get(id(key))
        if known is not None:
            return known[1]
        assert isinstance(type, TensorType)
        value = self.function.add_argument(f"held{len(self.held)}", type, "parameter")
        self.held.append(held)
        self._known[id(key)] = (key, value)  # the key is kept, so that its id stays its own
        return value

    # --- whole functions -------------------------------------------------------------------------

    def inline(self, function: Function, arguments: Sequence[Operand]) -> list[Value]:
        """The results of a function, put in here for these arguments."""
        values: dict[Value, Value] = {}
        for parameter, argument in zip(function.arguments, arguments, strict=True):
            (values[parameter],) = self.lift([argument], parameter.tensor.dtype)
            assert values[parameter].type == parameter.type
        terminator = function.block.terminator
        body = [op for op in function.block if op is not terminator]
        clone_operations(body, self.function.block, values)
        return [values[v] for v in function.returned]

    def finish(self, results: Sequence[Value]) -> Function:
        """End the function; no operation can be added any more."""
        self.builder.emit(RETURN, results)
        self.function.results = [ResultInfo(f"result{i}") for i in range(len(results))]
        self.is_open = False
        return self.function

    def compute(self, result: Value) -> object:
        """The value of `result`, for a trace that only holds arrays: by the references."""
        (made,) = self.compute_all([result])
        return made

    def compute_all(self, results: Sequence[Value]) -> list[object]:
        """The values of several results."""
        self.finish(results)
        held = zip(self.function.arguments, self.held, strict=True)
        arguments: Mapping[str, Array] = {
            a.name or "": h for a, h in held if isinstance(h, np.ndarray)
        }
        return [array[()] for array in evaluate(self.function, arguments, {}).values()]


def innermost(operands: Sequence[object]) -> Trace | None:
    """The trace that an operation on these operands belongs to; None: there are only arrays.

    Of sizes that calls decide it is that of the program.
    """
    traces = [x.trace for x in operands if isinstance(x, Traced)]
    if not traces and any(isinstance(x, Symbol) for x in operands):
        return PROGRAM.get()
    open_ones = [t for t in traces if t.is_open]
    return max(open_ones or traces, key=lambda t: t.order, default=None)


def _zero(dtype: DType) -> bool | int | float:
    return False if dtype is DType.I1 else 0.0 if dtype.is_float else 0


def is_one_number(array: Array) -> bool:
    """Whether all elements have the same bits."""
    if array.size < 2:
        return array.size == 1
    first = array.reshape(-1)[:1]
    if array.dtype.kind == "f" and first[0] == 0:
        return not array.any() and bool((np.signbit(array) == np.signbit(first)).all())
    return bool((array == first).all())
