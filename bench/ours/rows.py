"""Work on rows, as functions of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import graphc as gc
from bench.ours.how import How, array_calls
from bench.peers import Case
from bench.workloads.record import Workload
from bench.workloads.rows import EPSILON, RowFunction


def chain(x: Any, a: Any, b: Any, c: Any) -> Any:
    return gc.tanh(x * a + b) * gc.sigmoid(x - c) + x * x


def softmax(x: Any) -> Any:
    return gc.softmax(x, axis=1)


def norm(x: Any) -> Any:
    centred = x - gc.mean(x, axis=1, keepdims=True)
    return centred / gc.sqrt(gc.mean(centred * centred, axis=1, keepdims=True) + EPSILON)


FUNCTIONS: dict[RowFunction, Callable[..., Any]] = {
    "chain": chain,
    "softmax": softmax,
    "norm": norm,
}


def rows(work: Workload, how: How) -> Case:
    return array_calls(FUNCTIONS[work.spec.function], list(work.inputs.values()), how)
