"""`Tensor`: a value of the function that is being traced, with numpy's operators and methods.

An operation on tensors appends to the function. Without any tensor among its operands it computes
at once, by the operations' references, and gives a numpy array. What needs a number (an `if`, a
loop over a tensor, `int(x)`) is an error that says what to use instead, at the user's line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from inspect import Parameter, Signature
from typing import Any, NoReturn

import numpy as np

from graphc.ir.core import IRBuilder, OpDef, Value
from graphc.ir.dims import size_product
from graphc.ir.params import NoParams
from graphc.ir.types import Dim, DType, Symbol, TensorType, TypeRuleError
from graphc.ops import elementwise as ops
from graphc.ops import functions
from graphc.ops.bits import RIGHT_SHIFT
from graphc.support.diagnostics import GraphcError, fail
from graphc.tensor import numeric
from graphc.tensor.caller import caller_location
from graphc.tensor.indexing import indexed
from graphc.tensor.names import in_place_of, numpy_name
from graphc.tensor.numeric import elementwise
from graphc.tensor.promotion import is_number, named_type
from graphc.tensor.shapes import Axes, Shape, full_shape
from graphc.tensor.stored_types import (
    as_computed,
    as_stored,
    quotient_of_u64,
    right_shift_of_u64,
)
from graphc.tensor.tracing import Trace, Traced, innermost

Rule = Callable[..., Value]
"""(builder, *values) -> value."""


@dataclass(frozen=True, eq=False, repr=False)
class Tensor(Traced):
    """A traced value; immutable. Shapes and element types are known, elements are not."""

    __array_priority__ = 1000

    @property
    def shape(self) -> Shape:
        return numeric.shape_of(self.value)

    @property
    def dtype(self) -> np.dtype:
        return self.value.tensor.dtype.numpy

    @property
    def ndim(self) -> int:
        return self.value.tensor.rank

    @property
    def size(self) -> Dim:
        return size_product(self.shape)

    @property
    def T(self) -> Any:
        """The axes in reverse order."""
        return self.transpose()

    def __len__(self) -> int:
        if not self.shape:
            raise _refused("a single number has no length")
        first = self.shape[0]
        if isinstance(first, Symbol):
            message = f"the length {first} is known at the call only: use gc.scan for a loop, or"
            raise _refused(f"{message} x.shape[0] as a size or a number")
        return first

    def __repr__(self) -> str:
        return f"Tensor({self.value.tensor})"

    # --- operators -------------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:
        return binary(add, self, other)

    def __radd__(self, other: object) -> Any:
        return binary(add, other, self)

    def __sub__(self, other: object) -> Any:
        return binary(subtract, self, other)

    def __rsub__(self, other: object) -> Any:
        return binary(subtract, other, self)

    def __mul__(self, other: object) -> Any:
        return binary(multiply, self, other)

    def __rmul__(self, other: object) -> Any:
        return binary(multiply, other, self)

    def __truediv__(self, other: object) -> Any:
        return binary(divide, self, other)

    def __rtruediv__(self, other: object) -> Any:
        return binary(divide, other, self)

    def __pow__(self, other: object) -> Any:
        return binary(power, self, other)

    def __rpow__(self, other: object) -> Any:
        return binary(power, other, self)

    def __matmul__(self, other: object) -> Any:
        return binary(matmul, self, other)

    def __rmatmul__(self, other: object) -> Any:
        return binary(matmul, other, self)

    def __neg__(self) -> Any:
        return negative(self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return absolute(self)

    def __and__(self, other: object) -> Any:
        return binary(of_elements(ops.LOGICAL_AND), self, other)

    __rand__ = __and__

    def __or__(self, other: object) -> Any:
        return binary(of_elements(ops.LOGICAL_OR), self, other)

    __ror__ = __or__

    def __invert__(self) -> Any:
        return of_elements(ops.LOGICAL_NOT)(self)

    def __lt__(self, other: object) -> Any:
        return binary(of_elements(ops.LESS), self, other)

    def __le__(self, other: object) -> Any:
        return binary(of_elements(ops.LESS_EQUAL), self, other)

    def __gt__(self, other: object) -> Any:
        return binary(of_elements(ops.GREATER), self, other)

    def __ge__(self, other: object) -> Any:
        return binary(of_elements(ops.GREATER_EQUAL), self, other)

    def __eq__(self, other: object) -> Any:
        return binary(of_elements(ops.EQUAL), self, other)

    def __ne__(self, other: object) -> Any:
        return binary(of_elements(ops.NOT_EQUAL), self, other)

    __hash__ = None  # type: ignore[assignment]  # `==` gives a tensor

    def __getitem__(self, index: object) -> Any:
        return apply(lambda b, x: indexed(b, x, index), self)

    # --- methods ---------------------------------------------------------------------------------

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return total(self, axis, keepdims)

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return average(self, axis, keepdims)

    def max(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return largest(self, axis, keepdims)

    def min(self, axis: Axes = None, keepdims: bool = False) -> Any:
        return smallest(self, axis, keepdims)

    def reshape(self, *shape: Any) -> Any:
        """`reshape(2, 3)` or `reshape((2, 3))`; one size may be -1."""
        return reshape(self, shape[0] if len(shape) == 1 else shape)

    def ravel(self) -> Any:
        return self.reshape(-1)

    def transpose(self, *axes: Any) -> Any:
        """Without axes: all of them reversed."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return transpose(self, order)

    def astype(self, dtype: object) -> Any:
        """Elements of another type."""
        return cast(self, dtype)

    # --- what a traced value cannot do -----------------------------------------------------------

    def __bool__(self) -> NoReturn:
        raise _refused(
            "a traced value is neither true nor false while the function is traced: use "
            "gc.where(condition, x, y) in place of `if`, and & | ~ in place of and, or, not; a "
            "`while` needs a number of steps that is known"
        )

    def __iter__(self) -> Iterator[Any]:
        raise _refused(
            "a traced value cannot be looped over or unpacked: use gc.scan, or range(len(x)) and "
            "x[i], or compute on the whole array"
        )

    def __contains__(self, item: object) -> NoReturn:
        raise _refused("`in` needs the elements of a traced value: use gc.sum(x == item) > 0")

    def __float__(self) -> NoReturn:
        raise _no_number("float")

    def __int__(self) -> NoReturn:
        raise _no_number("int")

    def __index__(self) -> NoReturn:
        raise _refused(
            "a traced value cannot be an index, a size or a count: these have to be known while "
            "the function is traced; pass an int, or choose elements with gc.where"
        )

    def item(self) -> NoReturn:
        raise _no_number("item")

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise _unchanging()

    def __delitem__(self, index: object) -> NoReturn:
        raise _unchanging()

    def __floordiv__(self, other: object) -> NoReturn:
        raise _no_operator("//", "floor_divide")

    def __mod__(self, other: object) -> NoReturn:
        raise _no_operator("%", "remainder")

    __rfloordiv__ = __floordiv__
    __rmod__ = __mod__

    def __array__(self, *_given: object, **_named: object) -> NoReturn:
        raise _refused(
            "a traced value is not a numpy array: use the function of graphc in place of numpy's "
            "(gc.exp for np.exp, gc.stack for np.array of values)"
        )

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **named: object
    ) -> Any:
        """numpy's operators with an array on the left; its functions are an error."""
        if named.get("out") is not None:
            raise _refused(
                "numpy cannot write a traced value into an array: in place of `a += x` and out=a "
                "use a = a + x"
            )
        rule = _UFUNCS.get(ufunc.__name__) if method == "__call__" and not named else None
        if rule is None:
            name = ufunc.__name__
            called = name if method == "__call__" else f"{name}.{method}"
            raise _refused(f"np.{called} cannot take a traced value: {in_place_of(name, method)}")
        return rule(*inputs)

    def __array_function__(
        self, function: object, _types: object, _inputs: object, _named: object
    ) -> NoReturn:
        name = numpy_name(function)
        raise _refused(f"np.{name} cannot take a traced value: {in_place_of(name)}")


def _no_operator(operator: str, name: str) -> GraphcError:
    return _refused(f"`{operator}` cannot take a traced value: {in_place_of(name)}")


def _refused(message: str) -> GraphcError:
    return fail("argument-type", message, caller_location())


def _no_number(how: str) -> GraphcError:
    return _refused(
        f"{how}() of a traced value: its elements are not known while the function is traced; "
        "return it from the function, or go on with arrays (to fill one by elements: gc.stack)"
    )


def _unchanging() -> GraphcError:
    return _refused(
        "a traced value does not change: make a new one with gc.where, gc.concatenate, "
        "gc.stack or gc.pad"
    )


# --- applying rules ------------------------------------------------------------------------------


def apply(rule: Rule, *operands: Any, to: DType | None = None) -> Any:
    """`rule` on operands that are converted to one element type: the common one, or `to`."""
    return emit(operands, lambda trace: rule(trace.builder, *trace.lift(operands, to)))


def emit(operands: Sequence[Any], make: Callable[[Trace], Value]) -> Any:
    """What `make` emits into the trace of the operands, as a tensor.

    Without a tensor among them the result is computed at once. Raises GraphcError at the user's
    line for operands that do not fit.
    """
    location = caller_location()
    for operand in operands:
        if not isinstance(operand, Traced | np.ndarray | Symbol) and not is_number(operand):
            raise fail(
                "argument-type",
                f"requires arrays and numbers, got {type(operand).__name__}"
                + (
                    "; make one of it with np.array, of traced values with gc.stack"
                    if isinstance(operand, tuple | list)
                    else ""
                ),
                location,
            )
    trace = innermost(operands)
    target = trace or Trace("immediate", DType.F64)
    try:
        with target.builder.at(location):
            value = make(target)
    except TypeRuleError as problem:
        raise fail(problem.slug, problem.message, location) from None
    return target.compute(value) if trace is None else Tensor(trace, value)


_OPERANDS = (Traced, np.ndarray, Symbol, tuple, list)


def binary(function: Callable[[Any, Any], Any], x: object, y: object) -> Any:
    """`function`, or Python's own error where an operand is nothing to compute with."""
    for operand in (x, y):
        # A list is refused by `function`, with what to write: Python would try to repeat it.
        if not isinstance(operand, _OPERANDS) and not is_number(operand):
            return NotImplemented
    return function(x, y)


def floats(rule: Rule, *operands: Any) -> Any:
    """`rule` on floating-point numbers: integers and truth values are converted."""

    def make(trace: Trace) -> Value:
        dtype = trace.common(operands)
        return _computed(trace, rule, operands, dtype if dtype.is_float else trace.default)

    return emit(operands, make)


def numbers(rule: Rule, *operands: Any, is_ordered: bool = False) -> Any:
    """`rule` on numbers: truth values become whole numbers.

    is_ordered  the rule compares them, and what it gives is one of them or a truth value
    """

    def make(trace: Trace) -> Value:
        dtype = trace.common(operands)
        dtype = DType.I64 if dtype is DType.I1 else dtype
        return _computed(trace, rule, operands, dtype, is_ordered=is_ordered)

    return emit(operands, make)


def elements(rule: Rule, *operands: Any) -> Any:
    """`rule`, which compares elements or gives them back, on any elements."""

    def make(trace: Trace) -> Value:
        return _computed(trace, rule, operands, trace.common(operands), is_ordered=True)

    return emit(operands, make)


def _computed(
    trace: Trace, rule: Rule, operands: Sequence[Any], dtype: DType, *, is_ordered: bool = False
) -> Value:
    """`rule` on elements of `dtype`, as those that it is computed with."""
    b = trace.builder
    lifted = trace.lift(operands, dtype)
    made = rule(b, *(as_computed(b, v, is_ordered=is_ordered) for v in lifted))
    return as_stored(b, made, dtype, is_ordered=is_ordered)


def truths(rule: Rule, *operands: Any) -> Any:
    """`rule` on truth values; numbers count as whether they are not 0."""
    return apply(rule, *operands, to=DType.I1)


# --- what operators share with functions ---------------------------------------------------------


@cache
def of_elements(op: OpDef) -> Callable[..., Any]:
    """The function of arrays that an element-wise operation is, with its operands by name.

    Operands of an element type that the operation does not take are converted to one that it does.
    """
    rule, convert = elementwise(op), _conversion(op)
    parameters = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation="Any") for name in op.operands
    ]
    signature = Signature(parameters, return_annotation="Any")

    def function(*given: Any, **named: Any) -> Any:
        try:
            operands = signature.bind(*given, **named).args
        except TypeError as problem:
            raise TypeError(f"{op.array}(): {problem}") from None
        return convert(rule, *operands)

    function.__name__ = function.__qualname__ = op.array
    function.__doc__ = f"{op.summary[:1].upper()}{op.summary[1:]}.\n\n{op.equation}"
    setattr(function, "__signature__", signature)  # noqa: B010  # no attribute of every callable
    return function


def _conversion(op: OpDef) -> Callable[..., Any]:
    """By what operands are brought to one element type, which follows from what `op` takes."""
    if not _takes(op, DType.I32):
        return truths if _takes(op, DType.I1) else floats
    if _takes(op, DType.I1):
        return elements
    return partial(numbers, is_ordered=True) if op in _ORDERED else numbers


_ORDERED = (ops.MAXIMUM, ops.MINIMUM, ops.CLIP)
"""What compares numbers and gives one of them back."""


def _takes(op: OpDef, dtype: DType) -> bool:
    try:
        op.infer([TensorType((), dtype)] * len(op.operands), NoParams())
    except TypeRuleError:
        return False
    return True


add = of_elements(ops.ADD)
subtract = of_elements(ops.SUB)
multiply = of_elements(ops.MUL)
negative = of_elements(ops.NEG)
_magnitude = of_elements(ops.ABS)


def absolute(x: Any) -> Any:
    """Absolute value; slope 0 at 0. Unsigned numbers stay what they are."""
    is_unsigned = isinstance(x, Tensor | np.ndarray) and x.dtype.kind == "u"
    return x if is_unsigned else _magnitude(x)


def divide(x: Any, y: Any) -> Any:
    """True division: integers are converted first."""
    return floats(elementwise(ops.DIV), x, y)


def quotient(x: Any, y: Any) -> Any:
    """Division of integers, cut towards 0; by 0 it gives 0. Of floats it is that of `divide`."""

    def make(trace: Trace) -> Value:
        dtype = trace.common([x, y])
        rule = quotient_of_u64 if dtype is DType.U64 else elementwise(ops.DIV)
        dtype = DType.I64 if dtype is DType.I1 else dtype
        return _computed(trace, rule, [x, y], dtype)

    return emit([x, y], make)


def right_shift(x: Any, y: Any) -> Any:
    """Bits moved to lower places, the sign's kept; 0 or -1 for a count outside of the type's bits.

    z = ⌊x / 2^y⌋"""

    def make(trace: Trace) -> Value:
        dtype = trace.common([x, y])
        rule = right_shift_of_u64 if dtype is DType.U64 else elementwise(RIGHT_SHIFT)
        return _computed(trace, rule, [x, y], DType.I64 if dtype is DType.I1 else dtype)

    return emit([x, y], make)


def power(x: Any, exponent: Any) -> Any:
    """x to a power; whole constant exponents are products, 0.5 is a square root."""
    if is_number(exponent) and exponent == 0.5:
        return floats(elementwise(functions.SQRT), x)
    whole = _products(exponent) if is_number(exponent) else None
    if whole is None:
        return floats(numeric.general_power, x, exponent)
    kind = numbers if isinstance(exponent, int | np.integer) and whole >= 0 else floats
    return kind(lambda b, v: numeric.whole_power(b, v, whole), x)


def _products(exponent: Any) -> int | None:
    """A plain number as the exponent of a power by products; None for any other power."""
    is_small = -numeric.MAX_PRODUCTS <= exponent <= numeric.MAX_PRODUCTS
    return int(exponent) if is_small and exponent % 1 == 0 else None


def cast(x: Any, dtype: Any) -> Any:
    """Elements of another type: "f32", "f16", "bf16", "u8", … or a numpy type.

    A float becomes an integer by cutting off, within the integer's range, and nan 0; an integer
    another by its low bits; what becomes a float the nearest one.
    """
    return apply(lambda b, v: numeric.convert(b, v, named_type(dtype)), x)


def matmul(x: Any, y: Any) -> Any:
    """numpy's `@`, of floating-point numbers."""
    return floats(numeric.matmul, x, y)


def total(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """The sum over axes; integers add up as i64, unsigned ones as u64."""

    def make(trace: Trace) -> Value:
        dtype = trace.common([x])
        if not dtype.is_float:
            dtype = DType.U64 if dtype.is_unsigned else DType.I64
        rule = lambda b, v: numeric.total(b, v, axis, keepdims)  # noqa: E731
        return _computed(trace, rule, [x], dtype)

    return emit([x], make)


def average(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    return floats(lambda b, v: numeric.average(b, v, axis, keepdims), x)


def largest(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    return numbers(
        lambda b, v: numeric.extremum(b, v, axis, keepdims, largest=True), x, is_ordered=True
    )


def smallest(x: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    return numbers(
        lambda b, v: numeric.extremum(b, v, axis, keepdims, largest=False), x, is_ordered=True
    )


def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """The axes in this order; reversed for None."""
    return apply(lambda b, v: numeric.permuted(b, v, axes), x)


def reshape(x: Any, shape: Any) -> Any:
    """The elements in row-major order under another shape; one size may be -1."""

    def rule(b: IRBuilder, value: Value) -> Value:
        return numeric.reshape(b, value, full_shape(shape, numeric.shape_of(value)))

    return apply(rule, x)


_UFUNCS: dict[str, Callable[..., Any]] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": divide,
    "true_divide": divide,
    "power": power,
    "matmul": matmul,
    "less": of_elements(ops.LESS),
    "less_equal": of_elements(ops.LESS_EQUAL),
    "greater": of_elements(ops.GREATER),
    "greater_equal": of_elements(ops.GREATER_EQUAL),
    "equal": of_elements(ops.EQUAL),
    "not_equal": of_elements(ops.NOT_EQUAL),
    "bitwise_and": of_elements(ops.LOGICAL_AND),
    "bitwise_or": of_elements(ops.LOGICAL_OR),
}
"""numpy's operators, which it calls by these when an array or its number is on the left."""
