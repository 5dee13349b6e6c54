"""Products of matrices, sums over several axes, determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import dtype_of, fixed, is_float, mistake, of, rank_of, shape_of


@operator("MatMul")
def matmul(x: Any, y: Any) -> object:
    if not is_float(x) and of(x, y) is not np:
        return gc.cast(gc.cast(x, "f64") @ gc.cast(y, "f64"), dtype_of(x))
    return of(x, y).matmul(x, y)


@operator("Gemm", 7)
def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float,
    beta: float,
    transA: int,  # ONNX's names
    transB: int,
) -> object:
    product: Any = matmul(
        of(a).transpose(a) if transA else a,
        of(b).transpose(b) if transB else b,
    )
    if alpha != 1:
        product = product * np.asarray(alpha, dtype_of(product))
    if c is None:
        return product
    return product + (c if beta == 1 else c * np.asarray(beta, dtype_of(c)))


@operator("Det")
def det(x: Any) -> object:
    """By elimination with the largest element of each column, all matrices at once."""
    rows, size = fixed(shape_of(x)[-2:], "a determinant")
    if rows != size:
        raise mistake("shape-mismatch", f"requires square matrices, got {shape_of(x)}")
    one = gc.ones(shape_of(x)[:-2], dtype_of(x))
    numbers = np.arange(size)

    def step(before: tuple[Any, Any], column: Any) -> tuple[tuple[Any, Any], None]:
        matrix, total = before
        here = numbers == column
        below = gc.where(numbers >= column, gc.abs(gc.sum(gc.where(here, matrix, 0), -1)), -1.0)
        best = gc.max(below, -1, keepdims=True)
        first = gc.min(gc.where(below == best, numbers, size), -1, keepdims=True)
        chosen = gc.expand_dims(first == numbers, -1)
        top = gc.sum(gc.where(chosen, matrix, 0), -2, keepdims=True)
        away = gc.sum(gc.where(gc.expand_dims(here, -1), matrix, 0), -2, keepdims=True)
        matrix = gc.where(chosen, away, matrix)
        pivot = gc.sum(gc.where(here, top, 0), (-2, -1))
        safe = gc.reshape(gc.where(pivot == 0, 1, pivot), (*shape_of(pivot), 1, 1))
        factors = gc.sum(gc.where(here, matrix, 0), -1, keepdims=True) / safe
        is_below = gc.expand_dims(numbers > column, -1)
        matrix = gc.where(is_below, matrix - factors * top, matrix)
        total = total * pivot
        return (matrix, gc.where(gc.squeeze(first, -1) == column, total, -total)), None

    (_, made), _ = gc.scan(step, (x, one), numbers)
    return made


@operator("Einsum")
def einsum(*inputs: Any, equation: str) -> object:
    """By products of two operands at a time, from the left."""
    if of(*inputs) is np:
        return np.einsum(equation, *inputs)
    terms, result = _terms(equation, [rank_of(x) for x in inputs])
    made, axes = _diagonal(inputs[0], terms[0])
    for i, (x, term) in enumerate(zip(inputs[1:], terms[1:], strict=True), start=2):
        later = {letter for t in terms[i:] for letter in t} | set(result)
        made, axes = _contracted(made, axes, *_diagonal(x, term), later)
    made, axes = _summed(made, axes, set(result))
    return gc.transpose(made, [axes.index(letter) for letter in result])


def _terms(equation: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand and of the result; those that `...` stands for are digits."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(ranks):
        raise mistake("shape-mismatch", f"requires {len(texts)} operands, got {len(ranks)}")
    dots = max(
        (rank - len(text.replace("...", "")) for text, rank in zip(texts, ranks, strict=True)
         if "..." in text),
        default=0,
    )  # fmt: skip
    terms = [
        _letters(text, rank - len(text.replace("...", "")))
        for text, rank in zip(texts, ranks, strict=True)
    ]
    if arrow:
        return terms, _letters(right, dots)
    every = [letter for term in terms for letter in term]
    once = sorted({x for x in every if every.count(x) == 1 and x.isalpha()})
    return terms, [*_letters("..." if dots else "", dots), *once]


def _letters(text: str, dots: int) -> list[str]:
    before, _, after = text.partition("...")
    middle = [str(dots - 1 - i) for i in range(dots)] if "..." in text else []
    return [*before, *middle, *after]


def _diagonal(x: Any, axes: list[str]) -> tuple[Any, list[str]]:
    """The operand with every letter once."""
    for letter in [a for i, a in enumerate(axes) if a in axes[:i]]:
        first, second = (i for i, a in enumerate(axes) if a == letter)
        size = fixed(shape_of(x), "a diagonal")[first]
        shape = [1] * len(axes)
        shape[first] = shape[second] = size
        x = gc.sum(gc.where(np.eye(size, dtype=bool).reshape(shape), x, 0), second)
        axes = [a for i, a in enumerate(axes) if i != second]
    return x, axes


def _summed(x: Any, axes: list[str], kept: set[str]) -> tuple[Any, list[str]]:
    away = tuple(i for i, letter in enumerate(axes) if letter not in kept)
    return (gc.sum(x, away) if away else x), [a for a in axes if a in kept]


def _contracted(
    x: Any, xs: list[str], y: Any, ys: list[str], later: set[str]
) -> tuple[Any, list[str]]:
    """One product: shared letters that are read later are a batch, the others are summed over."""
    x, xs = _summed(x, xs, later | {*ys})
    y, ys = _summed(y, ys, later | {*xs})
    shared = [a for a in xs if a in ys]
    batch, inner = [a for a in shared if a in later], [a for a in shared if a not in later]
    rows, cols = [a for a in xs if a not in shared], [a for a in ys if a not in shared]
    left = gc.transpose(x, [xs.index(a) for a in (*batch, *rows, *inner)])
    right = gc.transpose(y, [ys.index(a) for a in (*batch, *inner, *cols)])
    sizes: dict[str, Any] = {
        **dict(zip(ys, shape_of(y), strict=True)),
        **_larger(xs, shape_of(x), ys, shape_of(y)),
    }
    left = gc.broadcast_to(left, [sizes[a] for a in (*batch, *rows, *inner)])
    right = gc.broadcast_to(right, [sizes[a] for a in (*batch, *inner, *cols)])
    lead = [sizes[a] for a in batch]
    left = gc.reshape(left, (*lead, _product(sizes, rows), _product(sizes, inner)))
    right = gc.reshape(right, (*lead, _product(sizes, inner), _product(sizes, cols)))
    made = gc.reshape(left @ right, [sizes[a] for a in (*batch, *rows, *cols)])
    return made, [*batch, *rows, *cols]


def _larger(xs: list[str], x: Any, ys: list[str], y: Any) -> dict[str, Any]:
    """The sizes of x's letters, that of y where x has 1."""
    of_y = dict(zip(ys, y, strict=True))
    return {a: of_y.get(a, n) if n == 1 else n for a, n in zip(xs, x, strict=True)}


def _product(sizes: dict[str, Any], letters: list[str]) -> Any:
    total: Any = 1
    for letter in letters:
        total = total * sizes[letter]
    return total
