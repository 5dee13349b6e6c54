"""The options of a compilation and of a training: one place for the defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields

import pytest

import graphc as gc
from graphc.driver.options import CompileOptions, parse_arithmetic
from graphc.ir.types import DType
from graphc.learn.loop import TrainingPlan
from graphc.learn.schedule import Schedule
from graphc.learn.sgd import SGD
from graphc.support.diagnostics import GraphcError

CALLS: tuple[Callable[..., object], ...] = (
    gc.compile,
    gc.compile_training,
    gc.train,
    gc.evaluate,
    gc.to_networkx,
    gc.function,
)
OTHERS = {("evaluate", "sequences")}  # many of them are measured side by side


def plain(value: object) -> object:
    """A default as callers write it."""
    if isinstance(value, DType):
        return value.value
    return value.at(0) if isinstance(value, Schedule) else value


def default_of(record: type[CompileOptions | TrainingPlan], name: str) -> object:
    for f in fields(record):
        if f.name == name:
            return plain(f.default if f.default_factory is MISSING else f.default_factory())
    return MISSING


def shared() -> Iterator[tuple[str, str, object, object]]:
    """Function, argument, its default, that of the record which has a field of this name."""
    for function in CALLS:
        for p in inspect.signature(function).parameters.values():
            for record in (CompileOptions, TrainingPlan):
                default = default_of(record, p.name)
                is_other = (function.__name__, p.name) in OTHERS
                if default is not MISSING and p.default is not p.empty and not is_other:
                    yield function.__name__, p.name, p.default, default


def test_what_is_not_said_is_what_the_records_say() -> None:
    found = list(shared())
    assert len(found) > 25
    wrong = [each for each in found if each[2] != each[3]]
    # Of a function None stands for the precision of its arguments, and `freeze` names some of them;
    # of `train` an empty list for a record of no controls; of `compile_training` with a program the
    # bound of its samples' dim.
    meant = {("function", "precision"), ("function", "freeze")}
    meant |= {("train", "control"), ("compile_training", "batch")}
    assert {w[:2] for w in wrong} <= meant


@pytest.mark.parametrize("epochs", [-1, 1.5, "2"])
def test_a_plan_requires_a_number_of_epochs(epochs: object) -> None:
    with pytest.raises(GraphcError, match="epochs requires a whole number of at least 0"):
        TrainingPlan(SGD(0.1), epochs=epochs)  # type: ignore[arg-type]


def test_a_plan_requires_a_truth_value_for_shuffle() -> None:
    with pytest.raises(GraphcError, match="shuffle requires True or False, got str"):
        TrainingPlan(SGD(0.1), shuffle="no")  # type: ignore[arg-type]


def test_tf32_is_a_precision_of_f32_with_that_contraction() -> None:
    assert parse_arithmetic("tf32", "fma") == (DType.F32, "tf32")
    assert parse_arithmetic("tf32", "tf32") == (DType.F32, "tf32")
    assert parse_arithmetic("f64", "off") == (DType.F64, "off")
    with pytest.raises(GraphcError, match="contraction off is not possible"):
        parse_arithmetic("tf32", "off")


def test_bf16_is_a_precision_of_f32_with_that_contraction() -> None:
    assert parse_arithmetic("bf16", "fma") == (DType.F32, "bf16")
    assert parse_arithmetic("bf16", "bf16") == (DType.F32, "bf16")
    for other in ("off", "tf32"):
        with pytest.raises(GraphcError, match=f"contraction {other} is not possible"):
            parse_arithmetic("bf16", other)
