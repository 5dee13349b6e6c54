"""Every wrong use of a tensor operation gets the one message that it announces, and no other."""

from __future__ import annotations

import pytest

from graphc.cli.expectations import complaints, expected_diagnostics
from graphc.ir.core import Level
from graphc.ir.parser import parse_module
from graphc.ir.verifier import verify_module
from graphc.ops import ALL_OPS, default_context
from graphc.ops.kernel import FORMS
from tests.conformance.wrong_collective_ir import WRONG_COLLECTIVE_IR
from tests.conformance.wrong_ir_forms import text_of
from tests.conformance.wrong_kernel_ir import WRONG_KERNEL_IR
from tests.conformance.wrong_tensor_ir import WRONG_TENSOR_IR

LEAST = 5
"""Uses of every operation."""


_OWN = {**WRONG_TENSOR_IR, **WRONG_COLLECTIVE_IR, **WRONG_KERNEL_IR}


def _of_form(op: str, form: str) -> tuple[str, ...]:
    """At kernel level the same rules hold, and results may have places."""
    return tuple(use.replace(f"= {op} ", f"= {form} ") for use in _OWN[op])


WRONG_IR = {**_OWN, **{form.name: _of_form(op.name, form.name) for op, form in FORMS.items()}}
ALL = [(op, use) for op, uses in WRONG_IR.items() for use in uses]


def test_every_tensor_operation_has_enough_wrong_uses() -> None:
    names = {op.name for op in ALL_OPS if op.level is not Level.NODE}
    few = [op for op in sorted(names) if len(WRONG_IR.get(op, ())) < LEAST]
    assert few == []
    assert sorted(set(WRONG_IR) - names) == []


def test_no_wrong_use_stands_there_twice() -> None:
    assert len({use for _, use in ALL}) == len(ALL)


@pytest.mark.parametrize(("op", "use"), ALL, ids=[f"{op}-{i}" for i, (op, _) in enumerate(ALL)])
def test_a_wrong_use_gets_the_message_that_it_announces(op: str, use: str) -> None:
    text = text_of(use)
    context = default_context()
    module = parse_module(text, context, file="wrong.gir")
    if not context.sink.diagnostics:
        verify_module(module, context.sink)
    expected = expected_diagnostics(text, "//")
    assert len(expected) == 1
    assert complaints(expected, context.sink.diagnostics, "wrong.gir") == []
