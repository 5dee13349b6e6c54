"""Every wrong use of a tensor operation gets the one message that it announces, and no other."""

from __future__ import annotations

import pytest

from graphc.cli.expectations import complaints, expected_diagnostics
from graphc.ir.core import Level
from graphc.ir.parser import parse_module
from graphc.ir.verifier import verify_module
from graphc.ops import ALL_OPS, default_context
from tests.conformance.wrong_ir import LEAST, WRONG_IR, text_of

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
