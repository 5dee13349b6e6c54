"""Arithmetic on sizes: one normal form, the numbers that Python gives, and text that reads back."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from itertools import starmap

import pytest

from graphc.ir.core import Module
from graphc.ir.declared_dims import declare_dims, require_names
from graphc.ir.dims import (
    Dim,
    Symbol,
    dims_behind,
    is_never_negative,
    product_of,
    size_ceiling,
    size_difference,
    size_floor,
    size_product,
    size_quotient,
    size_sum,
    sizes_with_made,
)
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.support.diagnostics import DiagnosticSink, GraphcError
from graphc.support.source import UNKNOWN

T, U = Symbol("T", 9), Symbol("U", 5)
HALF = size_floor(T, 2)
EVEN = Symbol("E", 24, step=12)


@pytest.mark.parametrize(
    ("size", "same"),
    [
        ((T - 3) // 2 + 1, (T - 1) // 2),
        (((T - 1) // 2 - 3) // 2 + 1, (T - 3) // 4),
        (2 * (T + 1), T + T + 2),
        (T + U - T, U),
        (size_sum([T - 1, 1]), T),
        (4 * T // 2, 2 * T),
        ((2 * T + 1) // 2, T),
        (T % 2 + 2 * (T // 2), T),
        (T + (T + U) // 3 + T // 2 - T, T // 2 + (T + U) // 3),
        (2 * ((T - 1) // 2) + 2, 2 * ((T + 1) // 2)),
        (((T - 1) // 2 + U // 3) - U // 3, (T - 1) // 2),
        (T // 2 + (T + 1) // 2, T),
        (T - T // 3 - U // 2 + T // 3, T - U // 2),
        ((2 * T - 1) // 3 + (T + 3) // 3, T),
        ((T // 3 + U) // 2, (T + 3 * U) // 6),
        ((3 * (T // 2) - 2) // 2 + 1, T // 2 + T // 4),
        (2 * (T // 5) // 6, T // 15),
        (size_product([T - 1, U, 2]), size_product([2 * T - 2, U])),
        (size_quotient([T - 1, U], [U]), T - 1),
        (size_quotient([4 * T - 4], [2, T - 1]), 2),
        (size_ceiling(T, 2), (T + 1) // 2),
        (product_of("P", (T, U)), product_of("Q", (U, T))),
        (EVEN // 4 * 4, EVEN),
        (EVEN // 2 + EVEN // 2, EVEN),
        ((EVEN - 1) // 2 + 1, EVEN // 2),
        (((EVEN + 1) // 2 - 1) // 3 * 6 + 6, EVEN),
        (EVEN // 2 * 3 // 2, EVEN * 3 // 4),
        ((EVEN * T + 7) // 6 * 6 - 6, EVEN * T),
        (size_quotient([EVEN, U], [U, 4]), EVEN // 4),
    ],
)
def test_the_same_size_is_the_same_symbol(size: Dim, same: Dim) -> None:
    assert size == same
    assert hash(size) == hash(same)


def test_other_sizes_are_others() -> None:
    sizes = [T, U, T - 1, T + 1, 1 - T, T + U, T - U, HALF, (T + 1) // 2, T // 3, 2 * HALF, T % 2]
    for a, b in itertools.combinations(sizes, 2):
        assert a != b
    assert Symbol("T", 8) != T
    assert Symbol("T", 9, step=3) != T


def test_a_name_is_of_one_dim() -> None:
    """Else T / 3 * 3 would be T for the dim that is a multiple of 3, and for the other one too."""
    for other in (Symbol("T", 8), Symbol("T", 9, step=3)):
        with pytest.raises(GraphcError, match="the dim T of inputs is called as one"):
            require_names([T, other], UNKNOWN)


@pytest.mark.parametrize(
    ("size", "bound", "text"),
    [
        (T - 1, 8, "T - 1"),
        (T - 20, 0, "T - 20"),
        (12 - T, 12, "12 - T"),
        (T - U + 2, 11, "T - U + 2"),
        ((T - 1) // 2, 4, "(T - 1) / 2"),
        (T - HALF, 5, "(T + 1) / 2"),
        (2 * HALF, 8, "TQ2 * 2"),
        (HALF * U, 20, "TQ2 * U"),
        ((T + U) * 3 - 1, 41, "T * 3 + U * 3 - 1"),
    ],
)
def test_bounds_and_texts(size: Dim, bound: int, text: str) -> None:
    assert isinstance(size, Symbol)
    assert (size.bound, str(size.formula)) == (bound, text)


@pytest.mark.parametrize(
    ("size", "never"),
    [
        *((T, True), (T + U, True), (T // 2, True), (0, True)),
        *((-1, False), (T - 1, False), (9 - T, False)),
        *(((T + 2) // 3 * 3, True), ((T + 2) // 3 * 3 - 3, False), ((T - 1) // 2 * U, False)),
    ],
)
def test_what_no_call_makes_negative(size: Dim, never: bool) -> None:
    assert is_never_negative(size) is never


Python = Callable[[int, int], int]


def drawn(choose: random.Random, depth: int, first: Symbol) -> tuple[Dim, Python]:
    """A size, and what Python computes for `first` and U."""
    n = choose.randint(1, 5)
    if depth == 0 or choose.random() < 0.2:
        leaf: list[tuple[Dim, Python]] = [
            (first, lambda t, _u: t),
            (U, lambda _t, u: u),
            (n, lambda _t, _u: n),
        ]
        return choose.choice(leaf)
    (a, x), (b, y) = (drawn(choose, depth - 1, first) for _ in range(2))
    made: list[tuple[Dim, Python]] = [
        (size_sum([a, b]), lambda t, u: x(t, u) + y(t, u)),
        (size_difference(a, b), lambda t, u: x(t, u) - y(t, u)),
        (size_product([a, n]), lambda t, u: x(t, u) * n),
        (size_product([a, b]), lambda t, u: x(t, u) * y(t, u)),
        (size_floor(a, n), lambda t, u: x(t, u) // n),
    ]
    return choose.choice(made)


@pytest.mark.parametrize("first", [T, EVEN])
@pytest.mark.parametrize("seed", range(150))
def test_sizes_are_what_python_computes_and_read_back(seed: int, first: Symbol) -> None:
    size, python = drawn(random.Random(seed), 4, first)
    calls = list(itertools.product(range(0, first.bound + 1, first.step), range(6)))
    wanted = list(starmap(python, calls))
    if not isinstance(size, Symbol):
        assert set(wanted) == {size}
        return
    dims = list(dict.fromkeys([first, U, *dims_behind(size)]))
    found = [sizes_with_made({first.name: t, "U": u}, dims) for t, u in calls]
    assert [sizes[size.name] for sizes in found] == wanted
    possible = [sizes[size.name] for sizes in found if min(sizes.values()) >= 0]
    assert max(possible, default=0) <= size.bound
    text = print_module(Module(dims=dims))
    context = default_context()
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    assert print_module(module) == text
    assert module.dims == dims


def test_a_quotient_of_a_sum_of_quotients_reads_back() -> None:
    """Two poolings that follow each other, as a file has them; each is of the form that it has."""
    size = (2 * ((T - 1) // 2) - 3) // 3 + 1
    assert isinstance(size, Symbol)
    assert size == size + 0
    dims = list(dict.fromkeys(dims_behind(size)))
    assert declared(print_module(Module(dims=dims))).dims == dims


def declared(text: str) -> Module:
    context = default_context()
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    return module


def test_a_text_may_write_a_size_in_any_way() -> None:
    module = declared("dim T <= 9\ndim P = (T-3)/2 + 1\ndim Q = 2 + P * 3 - 1\n")
    text = "dim T <= 9\ndim P = (T - 1) / 2\ndim TQ2 = (T) / 2\ndim Q = T * 3 - TQ2 * 3 - 2\n"
    assert print_module(module) == text
    assert print_module(declared(text)) == text


def test_what_a_pass_makes_is_declared_and_a_size_has_one_name() -> None:
    module = declared(
        "dim T <= 9\ndim P = T - 1\n"
        "func @f(%x: tensor<Pxf32> input) -> (y: tensor<Pxf32>) {\n"
        "  %y = neg %x : tensor<Pxf32>\n  return %y\n}\n"
    )
    y = module.functions[0].returned[0]
    y.type = y.tensor.with_dims((T - 1,))
    declare_dims(module)
    assert str(y.type) == "tensor<Pxf32>"
    y.type = y.tensor.with_dims((T // 2 * 2,))
    declare_dims(module)
    assert [str(d) for d in module.dims] == ["T", "P", "TQ2", "TQ2X2"]


def test_a_dim_is_made_of_what_is_declared_before() -> None:
    sink, made = DiagnosticSink(), T - 1
    assert isinstance(made, Symbol)
    verify_module(Module(dims=[made, T]), sink)
    assert "dimension TM1 is made of T, declared before it" in sink.diagnostics[0].message
