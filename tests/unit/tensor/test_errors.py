"""What a traced function cannot do: one clear error, at the user's line, that says what to do."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc

X = np.arange(6.0).reshape(2, 3)


def an_if(x: Any) -> Any:
    return x if x[0, 0] > 0 else -x  # HERE


def a_while(x: Any) -> Any:
    while gc.sum(x) < 10:  # HERE
        x = x * 2
    return x


def an_and(x: Any) -> Any:
    return x > 0 and x < 1  # HERE


def a_chain(x: Any) -> Any:
    return 0 < x < 1  # HERE


def a_loop(x: Any) -> Any:
    return sum(row for row in x)  # HERE


def unpacking(x: Any) -> Any:
    first, second = x  # HERE
    return first + second


def a_float(x: Any) -> Any:
    return x * float(x[0, 0])  # HERE


def an_int(x: Any) -> Any:
    return x * int(x[0, 0])  # HERE


def an_item(x: Any) -> Any:
    return x[0, 0].item()  # HERE


def a_range(x: Any) -> Any:
    return [x for _ in range(x[0, 0])]  # HERE


def an_assignment(x: Any) -> Any:
    x[0] = 1.0  # HERE
    return x


def membership(x: Any) -> Any:
    return 3.0 in x  # HERE


def a_floor_division(x: Any) -> Any:
    return x // 2  # HERE


def a_remainder(x: Any) -> Any:
    return 7 % x  # HERE


def numpy_function(x: Any) -> Any:
    return np.exp(x)  # HERE


def numpy_sine(x: Any) -> Any:
    return np.sin(x)  # HERE


def numpy_name_of_a_product(x: Any) -> Any:
    return np.dot(x, x)  # HERE


def numpy_inside_a_namespace(x: Any) -> Any:
    return np.linalg.norm(x)  # HERE


def numpy_without_counterpart(x: Any) -> Any:
    return np.cumsum(x)  # HERE


def numpy_method_of_a_function(x: Any) -> Any:
    return np.add.reduce(x)  # HERE


def numpy_constructor(x: Any) -> Any:
    return np.full((2,), x[0, 0])  # HERE


def addition_in_place(x: Any) -> Any:
    a = np.zeros((2, 3))
    a += x  # HERE
    return a


def an_element_of_an_array(x: Any) -> Any:
    a = np.zeros(3)
    a[0] = x[0, 0]  # HERE
    return a


def a_deletion(x: Any) -> Any:
    del x[0]  # HERE
    return x


def list_as_operand(x: Any) -> Any:
    return x * [1.0, 2.0, 3.0]  # HERE


def numpy_reduction(x: Any) -> Any:
    return np.sum(x)  # HERE


def numpy_array(x: Any) -> Any:
    return np.asarray(x)  # HERE


def a_math_function(x: Any) -> Any:
    return math.exp(x[0, 0])  # HERE


def shapes_apart(x: Any) -> Any:
    return x + np.zeros(4)  # HERE


def product_apart(x: Any) -> Any:
    return x @ np.zeros((2, 2))  # HERE


def product_of_number(x: Any) -> Any:
    return x @ 2.0  # HERE


def wrong_reshape(x: Any) -> Any:
    return x.reshape(4, -1)  # HERE


def wrong_axis(x: Any) -> Any:
    return gc.sum(x, axis=2)  # HERE


def axis_twice(x: Any) -> Any:
    return gc.sum(x, axis=(0, -2))  # HERE


def index_outside(x: Any) -> Any:
    return x[2]  # HERE


def too_many_indices(x: Any) -> Any:
    return x[0, 0, 0]  # HERE


def index_array(x: Any) -> Any:
    return x[np.array([0, 1])]  # HERE


def index_mask(x: Any) -> Any:
    return x[x > 0]  # HERE


def step_of_zero(x: Any) -> Any:
    return x[::0]  # HERE


def joining_apart(x: Any) -> Any:
    return gc.concatenate([x, np.zeros((2, 2))])  # HERE


def stacking_apart(x: Any) -> Any:
    return gc.stack([x, np.zeros(3)])  # HERE


def joining_one(x: Any) -> Any:
    return gc.concatenate(x)  # HERE


def a_list(x: Any) -> Any:
    return gc.exp([x, x])  # HERE


def maximum_of_nothing(x: Any) -> Any:
    return gc.max(x[:0])  # HERE


def bad_permutation(x: Any) -> Any:
    return gc.transpose(x, (0, 0))  # HERE


def bad_width(x: Any) -> Any:
    return gc.pad(x, ((1, 1),) * 3)  # HERE


def negative_size(x: Any) -> Any:
    return gc.broadcast_to(x, (-1, 2, 3))  # HERE


def negative_width(x: Any) -> Any:
    return gc.pad(x, -1)  # HERE


def bad_type(x: Any) -> Any:
    return gc.cast(x, "f7")  # HERE


def pool_apart(x: Any) -> Any:
    return gc.maxpool(x, 2)  # HERE


def long_kernel(x: Any) -> Any:
    return gc.cross_correlate(x, np.zeros(4))  # HERE


CASES: list[tuple[Callable[..., Any], str, str]] = [
    (an_if, "argument-type", "gc.where"),
    (a_while, "argument-type", "number of steps"),
    (an_and, "argument-type", "& | ~"),
    (a_chain, "argument-type", "& | ~"),
    (a_loop, "argument-type", "range(len(x))"),
    (unpacking, "argument-type", "x[i]"),
    (a_float, "argument-type", "float()"),
    (an_int, "argument-type", "int()"),
    (an_item, "argument-type", "item()"),
    (a_range, "argument-type", "pass an int"),
    (an_assignment, "argument-type", "gc.where, gc.concatenate"),
    (membership, "argument-type", "gc.sum(x == item)"),
    (a_floor_division, "argument-type", "use gc.floor(x / y)"),
    (a_remainder, "argument-type", "use x - y * gc.floor(x / y)"),
    (numpy_function, "argument-type", "gc.exp"),
    (numpy_sine, "argument-type", "np.sin cannot take a traced value: use gc.sin"),
    (numpy_name_of_a_product, "argument-type", "use x @ y"),
    (numpy_inside_a_namespace, "argument-type", "np.linalg.norm cannot take"),
    (numpy_without_counterpart, "argument-type", "docs/tensor.md"),
    (numpy_method_of_a_function, "argument-type", "np.add.reduce cannot take"),
    (numpy_constructor, "argument-type", "not a numpy array"),
    (addition_in_place, "argument-type", "a = a + x"),
    (an_element_of_an_array, "argument-type", "gc.stack"),
    (a_deletion, "argument-type", "gc.concatenate"),
    (list_as_operand, "argument-type", "np.array"),
    (numpy_reduction, "argument-type", "gc.sum"),
    (numpy_array, "argument-type", "gc.stack"),
    (a_math_function, "argument-type", "float()"),
    (shapes_apart, "shape-mismatch", "(2, 3) and (4,)"),
    (product_apart, "shape-mismatch", "(2, 3) and (2, 2)"),
    (product_of_number, "shape-mismatch", "use * for a number"),
    (wrong_reshape, "shape-mismatch", "6 elements, got (4, -1)"),
    (wrong_axis, "bad-value", "an axis from -2 to 1, got 2"),
    (axis_twice, "bad-value", "every axis once"),
    (index_outside, "bad-value", "an index from -2 to 1 for axis 0, got 2"),
    (too_many_indices, "bad-value", "at most 2 indices"),
    (index_array, "argument-type", "got an array; use gc.where"),
    (index_mask, "argument-type", "got an array; use gc.where"),
    (step_of_zero, "bad-value", "other than 0"),
    (joining_apart, "shape-mismatch", "(2, 3) and (2, 2)"),
    (stacking_apart, "shape-mismatch", "(2, 3) and (3,)"),
    (joining_one, "argument-type", "a list of at least one array"),
    (a_list, "argument-type", "gc.stack"),
    (maximum_of_nothing, "bad-value", "elements to compare"),
    (bad_permutation, "bad-value", "each of the 2 axes once"),
    (bad_width, "bad-value", "a pair for each of 2 axes"),
    (negative_size, "bad-value", "sizes of at least 0"),
    (negative_width, "bad-value", "at least 0"),
    (bad_type, "bad-value", "an element type, one of f32, f64"),
    (pool_apart, "shape-mismatch", "that 2 divides"),
    (long_kernel, "shape-mismatch", "no larger than the signal"),
]


def marked_line(function: Callable[..., Any]) -> int:
    """The line of the function's `# HERE`."""
    first = function.__code__.co_firstlineno
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i in range(first, len(lines)) if lines[i - 1].endswith("# HERE"))


@pytest.mark.parametrize(
    ("function", "slug", "words"), CASES, ids=lambda c: getattr(c, "__name__", "")
)
def test_the_error_is_at_the_line_and_says_what_to_do(
    function: Callable[..., Any], slug: str, words: str
) -> None:
    with pytest.raises(gc.GraphcError) as raised:
        gc.function(function)(X)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.slug == slug
    assert words in diagnostic.message
    assert diagnostic.span is not None
    assert Path(diagnostic.span.file).name == Path(__file__).name
    assert diagnostic.span.line == marked_line(function)


def test_a_broken_function_can_be_called_again() -> None:
    f = gc.function(an_if)
    for _ in range(2):
        with pytest.raises(gc.GraphcError, match=r"gc\.where"):
            f(X)


def test_a_value_that_leaves_its_function_is_an_error() -> None:
    kept: list[Any] = []

    def leak(x: Any) -> Any:
        kept.append(x)
        return x

    gc.function(leak, backend="reference")(X)
    with pytest.raises(gc.GraphcError, match="has returned"):
        _ = kept[0] + 1
    with pytest.raises(gc.GraphcError, match="has returned"):
        gc.function(lambda y: y + kept[0])(X)


def test_an_error_of_the_function_itself_stays_what_it_is() -> None:
    def broken(x: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        gc.function(broken)(X)


@pytest.mark.parametrize("result", ["text", object(), ()])
def test_results_have_to_be_arrays(result: object) -> None:
    with pytest.raises(gc.GraphcError, match="argument-type"):
        gc.function(lambda x: result)(X)


@pytest.mark.parametrize("argument", [object(), {1, 2}, lambda: 1])
def test_arguments_have_to_be_arrays(argument: object) -> None:
    with pytest.raises(gc.GraphcError, match="argument-type"):
        gc.function(lambda x, y: x)(X, argument)


def test_only_functions_can_be_traced() -> None:
    with pytest.raises(gc.GraphcError, match="requires a function, got int"):
        gc.function(3)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(gc.GraphcError, match="requires a function, got ndarray"):
        gc.grad(X)  # type: ignore[arg-type]  # that is the mistake


def test_unknown_backends_and_precisions_are_errors() -> None:
    with pytest.raises(gc.GraphcError, match="did you mean `numpy`"):
        gc.function(lambda x: x, backend="numpi")
    with pytest.raises(gc.GraphcError, match="bad-option"):
        gc.function(lambda x: x, precision="f16")


TEXT: Any = "text"
FRACTION: Any = 2.5
ONE_AXIS: Any = 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + 10**400,
        lambda x: x ** (10**400),
        lambda x: gc.transpose(x, ONE_AXIS),
        lambda x: gc.pad(x, 1, TEXT),
        lambda _x: gc.zeros(-1),
        lambda _x: gc.ones(TEXT),
        lambda _x: gc.full(3, TEXT),
        lambda _x: gc.eye(FRACTION),
        lambda _x: gc.arange(0, 10, 0),
    ],
)
def test_a_bad_number_or_shape_is_our_error_and_not_pythons(call: Callable[[Any], Any]) -> None:
    with pytest.raises(gc.GraphcError):
        gc.function(call)(X)
