"""Operations, values and blocks: uses stay exact under every edit, and wrong edits are refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from graphc.ir.core import (
    Block,
    Function,
    IRBuilder,
    Module,
    OpDef,
    Operation,
    Region,
    RegionKind,
    Value,
)
from graphc.ir.params import NoParams
from graphc.ir.types import SAMPLES, DType, MatrixType, TensorType, TypeRuleError
from graphc.ops.control import RETURN, YIELD
from graphc.ops.elementwise import ADD, CAST, NEG, CastParams
from graphc.ops.kernel import KERNEL
from graphc.support.diagnostics import InternalError
from graphc.support.source import UNKNOWN, Location, Span

F32 = TensorType((2,), DType.F32)
F64 = TensorType((2,), DType.F64)


def block_with_argument() -> tuple[Block, Value]:
    block = Block([F32], ["x"])
    return block, block.arguments[0]


def names(block: Block) -> list[str | None]:
    return [op.result.name for op in block]


def chain(length: int) -> tuple[Block, list[Operation]]:
    """`length` negations `n0`, `n1`, … of one argument, each of the one before."""
    block, value = block_with_argument()
    made: list[Operation] = []
    for index in range(length):
        op = block.append(Operation(NEG, [value], [F32], names=[f"n{index}"]))
        value = op.result
        made.append(op)
    return block, made


# --- what is known of its class ---


def test_what_has_the_class_that_is_asked_for_is_given_as_that() -> None:
    block, x = block_with_argument()
    op = block.append(Operation(CAST, [x], [F64], CastParams(DType.F64)))
    end = block.append(Operation(RETURN, [op.result], []))
    assert x.tensor is F32
    assert op.params_as(CastParams) is op.params
    assert op.schedule_as(NoParams) is op.schedule
    assert op.result.definition is op
    assert block.end is end


def test_what_has_another_class_is_named_in_the_error() -> None:
    matrix = MatrixType(3, SAMPLES)
    block = Block([matrix], ["x"])
    op = block.append(Operation(NEG, block.arguments, [matrix], names=["y"]))
    for ask, message in (
        (lambda: op.result.tensor, "%y, result 0 of neg, is a matrix<3x*>, a tensor is required"),
        (lambda: block.arguments[0].tensor, "%x, a block argument, is a matrix<3x*>, a tensor"),
        (lambda: block.arguments[0].definition, "%x, a block argument, is made by no operation"),
        (lambda: op.params_as(CastParams), "neg that makes %y has params NoParams, CastParams is"),
        (lambda: op.schedule_as(CastParams), "%y has a schedule NoParams, CastParams is required"),
        (lambda: block.end, "the block has no terminator"),
    ):
        with pytest.raises(InternalError, match=re.escape(message)):
            ask()


# --- uses ---


def test_a_new_operation_is_a_use_of_its_operands() -> None:
    block, x = block_with_argument()
    op = block.append(Operation(ADD, [x, x], [F32]))
    assert x.uses == ((op, 0), (op, 1))
    assert x.users() == (op,)


def test_another_operand_moves_the_use() -> None:
    block, x = block_with_argument()
    y = block.add_argument(F32)
    op = block.append(Operation(ADD, [x, x], [F32]))
    op.set_operand(1, y)
    assert x.uses == ((op, 0),)
    assert y.uses == ((op, 1),)


def test_an_operand_list_can_be_replaced_by_one_made_of_itself() -> None:
    block, x = block_with_argument()
    y = block.add_argument(F32)
    op = block.append(Operation(ADD, [x, y], [F32]))
    op.set_operands(reversed(op.operands))
    assert op.operands == (y, x)
    assert (x.uses, y.uses) == (((op, 1),), ((op, 0),))


def test_all_uses_of_a_value_can_be_replaced_at_once() -> None:
    block, ops = chain(3)
    x = block.arguments[0]
    ops[0].result.replace_all_uses(x)
    assert not ops[0].result.has_uses
    assert ops[1].operands == (x,)


def test_a_value_replaced_by_itself_keeps_its_uses() -> None:
    _, ops = chain(2)
    value = ops[0].result
    value.replace_all_uses(value)
    assert value.uses == ((ops[1], 0),)


class Edits(RuleBasedStateMachine):
    """Random edits of one block; after each the uses are exactly the operands."""

    values = Bundle("values")
    operations = Bundle("operations")

    def __init__(self) -> None:
        super().__init__()
        self.block, self.x = block_with_argument()

    @rule(target=values)
    def argument(self) -> Value:
        return self.block.add_argument(F32)

    @rule(target=operations, a=values, b=values)
    def append(self, a: Value, b: Value) -> Operation:
        return self.block.append(Operation(ADD, [a, b], [F32]))

    @rule(target=values, op=operations)
    def result(self, op: Operation) -> Value:
        return op.result

    @rule(op=operations, index=st.integers(0, 1), value=values)
    def set_operand(self, op: Operation, index: int, value: Value) -> None:
        if op.block is not None:
            op.set_operand(index, value)

    @rule(old=values, new=values)
    def replace_all_uses(self, old: Value, new: Value) -> None:
        old.replace_all_uses(new)
        assert old is new or not old.has_uses

    @rule(op=consumes(operations))
    def erase(self, op: Operation) -> None:
        if op.block is None:
            return
        if op.result.has_uses:
            with pytest.raises(ValueError, match="still used"):
                op.erase()
        else:
            op.erase()
            assert op.block is None

    @invariant()
    def uses_are_exact(self) -> None:
        read: dict[Value, list[tuple[Operation, int]]] = {}
        for op in self.block:
            for index, value in enumerate(op.operands):
                read.setdefault(value, []).append((op, index))
        for value in [*self.block.arguments, *(op.result for op in self.block)]:
            assert set(value.uses) == set(read.get(value, []))

    @invariant()
    def the_list_is_linked_both_ways(self) -> None:
        forward = list(self.block)
        backward: list[Operation] = []
        op = self.block.last
        while op is not None:
            backward.append(op)
            op = op.previous
        assert forward == backward[::-1]
        assert len(self.block) == len(forward)


TestEdits = Edits.TestCase
TestEdits.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


# --- erasing and replacing ---


def test_an_operation_that_is_still_used_cannot_be_erased() -> None:
    block, ops = chain(2)
    with pytest.raises(ValueError, match="neg is still used"):
        ops[0].erase()
    assert list(block) == ops


def test_erasing_takes_the_operation_out_and_ends_its_uses() -> None:
    block, ops = chain(2)
    ops[1].erase()
    assert list(block) == [ops[0]]
    assert not ops[0].result.has_uses


def test_operations_that_read_each_other_can_be_erased_after_dropping_their_references() -> None:
    block, x = block_with_argument()
    a = block.append(Operation(NEG, [x], [F32]))
    b = block.append(Operation(NEG, [a.result], [F32]))
    a.set_operand(0, b.result)
    a.drop_references()
    b.erase()
    a.erase()
    assert len(block) == 0


def test_dropping_references_reaches_into_regions() -> None:
    block, x = block_with_argument()
    inner = Block([F32])
    terminator = inner.append(Operation(YIELD, [inner.arguments[0]], []))
    kernel = block.append(Operation(KERNEL, [x], [F32], regions=[Region([inner])]))
    kernel.drop_references()
    assert terminator.operands == ()
    assert not x.has_uses


def test_a_replacement_takes_over_readers_and_name() -> None:
    block, ops = chain(2)
    new = block.insert_before(ops[0], Operation(NEG, [block.arguments[0]], [F32]))
    ops[0].replace_with([new.result])
    assert ops[1].operands == (new.result,)
    assert new.result.name == "n0"
    assert list(block) == [new, ops[1]]


def test_a_replacement_with_a_name_of_its_own_keeps_it() -> None:
    block, ops = chain(2)
    ops[0].replace_with([block.arguments[0]])
    assert block.arguments[0].name == "x"


def test_a_replacement_needs_a_value_for_each_result() -> None:
    _, ops = chain(1)
    with pytest.raises(ValueError, match="zip"):
        ops[0].replace_with([])


# --- blocks ---


def test_operations_can_be_put_first_between_and_last() -> None:
    block, ops = chain(2)
    x = block.arguments[0]
    for anchor, name in ((ops[0], "first"), (ops[1], "between"), (None, "last")):
        block.insert_before(anchor, Operation(NEG, [x], [F32], names=[name]))
    assert names(block) == ["first", "n0", "between", "n1", "last"]
    assert (block.first, block.last) == (ops[0].previous, ops[1].next)


def test_an_operation_stands_in_one_block_only() -> None:
    _, ops = chain(1)
    with pytest.raises(ValueError, match="already in a block"):
        Block().append(ops[0])


def test_an_anchor_of_another_block_is_refused() -> None:
    block, x = block_with_argument()
    _, elsewhere = chain(1)
    with pytest.raises(ValueError, match="not in this block"):
        block.insert_before(elsewhere[0], Operation(NEG, [x], [F32]))
    assert len(block) == 0


def test_an_operation_of_another_block_cannot_be_taken_out() -> None:
    block, _ = block_with_argument()
    other, ops = chain(1)
    with pytest.raises(ValueError, match="not in this block"):
        block.unlink(ops[0])
    assert len(other) == 1


def test_the_current_operation_may_be_erased_while_iterating() -> None:
    block, _ = block_with_argument()
    for index in range(5):
        block.append(Operation(NEG, [block.arguments[0]], [F32], names=[f"n{index}"]))
    for op in block:
        if op.result.name in ("n0", "n2", "n4"):
            op.erase()
    assert names(block) == ["n1", "n3"]


def test_a_block_can_be_reordered() -> None:
    block, _ = block_with_argument()
    ops = [block.append(Operation(NEG, [block.arguments[0]], [F32])) for _ in range(4)]
    block.reorder(ops[::-1])
    assert list(block) == ops[::-1]


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 1, 1], [0, 2]])
def test_a_new_order_has_exactly_the_operations_of_the_block(order: list[int]) -> None:
    block, ops = chain(2)
    _, elsewhere = chain(1)
    candidates = [*ops, elsewhere[0]]
    with pytest.raises(ValueError, match="exactly the block's operations"):
        block.reorder([candidates[i] for i in order])
    assert list(block) == ops


def test_only_a_terminator_at_the_end_is_the_terminator() -> None:
    block, x = block_with_argument()
    terminator = block.append(Operation(RETURN, [x], []))
    assert block.terminator is terminator
    block.append(Operation(NEG, [x], [F32]))
    assert block.terminator is None


def test_a_chain_of_100000_operations_can_be_built_and_dropped() -> None:
    block, ops = chain(100_000)
    assert len(block) == 100_000
    for op in reversed(ops):
        op.erase()
    assert len(block) == 0


# --- op definitions ---


@pytest.mark.parametrize(
    ("opdef", "counts"), [(NEG, [1]), (ADD, [2]), (KERNEL, [0, 1, 2, 3]), (RETURN, [0, 1, 2, 3])]
)
def test_an_operation_takes_as_many_operands_as_it_names(opdef: OpDef, counts: list[int]) -> None:
    assert [n for n in range(4) if opdef.accepts_count(n)] == counts


def test_operands_are_named_for_messages() -> None:
    assert [ADD.operand_name(i) for i in (0, 1)] == ["x", "y"]
    assert [KERNEL.operand_name(i) for i in (0, 1)] == ["inputs0", "inputs1"]


def test_an_operand_too_many_is_named_by_its_number() -> None:
    assert ADD.operand_name(2) == "2"


# --- the builder ---


def test_the_builder_infers_result_types() -> None:
    block, x = block_with_argument()
    assert IRBuilder(block).emit_one(NEG, x).type == F32


def test_the_builder_refuses_operands_that_do_not_fit_and_inserts_nothing() -> None:
    block, x = block_with_argument()
    y = block.add_argument(F64)
    with pytest.raises(TypeRuleError, match="operands of one type"):
        IRBuilder(block).emit(ADD, [x, y])
    assert len(block) == 0
    assert not x.has_uses


def test_a_builder_before_an_operation_inserts_there_with_its_location() -> None:
    block, x = block_with_argument()
    place = Location(Span("t", 1, 1, 2))
    last = block.append(Operation(NEG, [x], [F32], location=place))
    builder = IRBuilder.before(last)
    made = [builder.emit_one(NEG, x, name=name) for name in ("a", "b")]
    assert [v.op for v in made] == list(block)[:2]
    assert all(v.op is not None and v.op.location == place for v in made)


def test_there_is_no_builder_before_an_operation_in_no_block() -> None:
    with pytest.raises(ValueError, match="is in no block"):
        IRBuilder.before(Operation(NEG, [], [F32]))


def test_a_location_holds_inside_its_with_block_even_after_an_exception() -> None:
    block, _ = block_with_argument()
    builder = IRBuilder(block)
    place = Location(Span("t", 1, 1, 2))
    with pytest.raises(KeyError), builder.at(place):
        assert builder.location == place
        raise KeyError
    assert builder.location == UNKNOWN


# --- functions and modules ---


def test_arguments_and_functions_are_found_by_name() -> None:
    function = Function("f", RegionKind.SSA)
    x = function.add_argument("x", F32, "input")
    assert function.argument("x") is x
    assert function.argument("y") is None
    assert Module([function]).function("f") is function
    assert Module().function("f") is None


def test_a_function_without_terminator_returns_nothing() -> None:
    assert Function("f", RegionKind.SSA).returned == ()


def test_a_module_prints_itself() -> None:
    assert str(Module([Function("net", RegionKind.GRAPH)])) == "graph @net {\n}\n"
