"""Each rule of the verifier, broken alone."""

from __future__ import annotations

import pytest

from graphc.ir.core import Block, Function, IRBuilder, Module, Operation, Region, RegionKind
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops.constant import EXTENT, ExtentParams
from graphc.ops.control import RETURN, YIELD
from graphc.ops.elementwise import NEG
from graphc.ops.kernel import KERNEL
from tests.support.text_form import broken_rules, legal, parsed

F32 = TensorType((2,), DType.F32)
N = Symbol("N", 8)


def in_function(*lines: str) -> list[str]:
    """The rules that these lines break in a function of `%x` and `%w`, both tensor<2xf32>."""
    text = "".join(f"  {line}\n" for line in lines)
    return broken_rules(
        parsed(
            "dim N <= 8\nfunc @f(%x: tensor<2xf32> input, %w: tensor<2xf32> parameter) "
            f"-> (y: tensor<2xf32>) {{\n{text}}}\n"
        )
    )


def negation() -> tuple[Module, Operation]:
    """`y = -x` and its operation, to be broken by hand."""
    function = Function("f", RegionKind.SSA)
    x = function.add_argument("x", F32, "input")
    builder = IRBuilder(function.block)
    op = builder.emit(NEG, [x])
    builder.emit(RETURN)
    return Module([function]), op


def test_a_legal_function_breaks_no_rule() -> None:
    assert in_function("%y = add %x, %w : tensor<2xf32>", "return %y") == []


def test_v1_the_number_of_operands_is_the_opdefs() -> None:
    assert in_function("%y = add %x : tensor<2xf32>", "return %y") == [
        "graph-structure: add: requires the operands (x, y), got 1"
    ]


def test_v1_an_operand_too_many_that_is_not_defined_yet_is_no_crash() -> None:
    found = in_function(
        "%y = neg %x, %z : tensor<2xf32>", "%z = neg %x : tensor<2xf32>", "return %y"
    )
    assert found == [
        "graph-structure: neg: requires the operands (x), got 2",
        "graph-structure: neg: operand 1 is not defined before its use in this region",
    ]


def test_v2_a_kernels_body_sees_nothing_outside() -> None:
    found = in_function(
        "%y = kernel %x : tensor<2xf32> {",
        "^(%a: tensor<2xf32>):",
        "  %b = add %a, %w : tensor<2xf32>",
        "  yield %b",
        "}",
        "return %y",
    )
    assert found == ["graph-structure: add: operand y is not defined before its use in this region"]


def test_v2_a_value_of_another_function_is_not_seen() -> None:
    module, op = negation()
    other, _ = negation()
    op.set_operand(0, other.functions[0].arguments[0])
    assert broken_rules(module) == [
        "graph-structure: neg: operand x is not defined before its use in this region"
    ]


def test_v3_a_value_is_defined_before_its_use() -> None:
    found = in_function("%y = neg %z : tensor<2xf32>", "%z = neg %x : tensor<2xf32>", "return %y")
    assert found == ["graph-structure: neg: operand x is not defined before its use in this region"]


def test_v4_the_marked_type_is_what_the_rule_gives() -> None:
    assert in_function("%z = neg %x : tensor<3xf32>", "return %x") == [
        "graph-structure: neg: gives tensor<2xf32>, but is marked tensor<3xf32>"
    ]


def test_v4_the_type_rule_accepts_the_operands() -> None:
    found = in_function(
        "%z = cast %x {dtype = f64} : tensor<2xf64>", "%a = add %x, %z : tensor<2xf32>", "return %x"
    )
    assert found == [
        "ill-typed: add: requires operands of one type, got tensor<2xf32> and tensor<2xf64>"
    ]


def test_v4_a_node_of_another_size_than_its_rule_gives_is_refused() -> None:
    text = "graph @g {\n  %x = node.input {rows = 2} : matrix<3x*>\n}\n"
    assert broken_rules(parsed(text)) == [
        "graph-structure: node.input: gives matrix<2x*>, but is marked matrix<3x*>"
    ]


def test_v4_sizes_that_are_not_inferred_yet_agree_with_any() -> None:
    legal("graph @g {\n  %x = node.input {rows = 2} : matrix<?x?>\n}\n")


IMAGE = "node.input {width = 2, height = 3, channels = 1}"


@pytest.mark.parametrize(
    ("node", "inferred", "marked"),
    [
        (IMAGE, "matrix<6x* image 2x3x1>", "matrix<6x* image 3x2x1>"),
        ("node.input {rows = 6}", "matrix<6x*>", "matrix<6x* image 2x3x1>"),
    ],
)
def test_a_node_marked_with_another_image_is_wrong(node: str, inferred: str, marked: str) -> None:
    text = f"graph @g {{\n  %x = {node} : {marked}\n}}\n"
    (found,) = broken_rules(parsed(text))
    assert f"node.input: gives {inferred}, but is marked {marked}" in found


@pytest.mark.parametrize("type", ["matrix<6x*>", "matrix<?x?>", "matrix<6x* image 2x3x1>"])
def test_an_image_may_be_left_to_be_inferred(type: str) -> None:
    legal(f"graph @g {{\n  %x = {IMAGE} : {type}\n}}\n")


def test_v4_a_node_of_known_size_that_its_rule_refuses_is_reported() -> None:
    text = "graph @g {\n  %x = node.input {rows = 0} : matrix<0x*>\n}\n"
    message = "ill-typed: node.input: requires rows from 1 to 2147483647, got 0"
    assert broken_rules(parsed(text)) == [message]


def test_v4_a_node_of_unknown_size_that_its_rule_refuses_is_left_to_shape_inference() -> None:
    legal("graph @g {\n  %x = node.input {rows = 0} : matrix<?x?>\n}\n")


def test_v5_a_function_ends_in_a_terminator() -> None:
    found = broken_rules(parsed("func @f() {\n}\n"))
    assert found == ["graph-structure: @f: a block must end in a terminator (`return`, `yield`)"]


def test_v5_a_function_ends_in_return_and_nothing_else_does() -> None:
    found = in_function("yield %x")
    assert found == ["graph-structure: yield: cannot end a function"]


def test_v5_a_terminator_is_the_last_operation() -> None:
    found = in_function("return %x", "return %x")
    assert found == [
        "graph-structure: return: a terminator must be the last operation of its block"
    ]


def test_v5_results_match_what_is_returned() -> None:
    module, _ = negation()
    terminator = module.functions[0].block.terminator
    assert terminator is not None
    terminator.set_operands(module.functions[0].arguments)
    assert broken_rules(module) == ["graph-structure: @f: has 0 results but returns 1 values"]


def test_v6_recorded_uses_are_the_readers() -> None:
    module, op = negation()
    op.operands[0]._uses.clear()
    assert broken_rules(module) == [
        "graph-structure: @f: the recorded uses of %x are not its readers"
    ]


def test_v6_a_use_by_an_operation_in_no_block_is_reported() -> None:
    module, op = negation()
    Operation(NEG, op.operands, [F32])
    assert broken_rules(module) == [
        "graph-structure: @f: the recorded uses of %x are not its readers"
    ]


@pytest.mark.parametrize("name", ["X", "x"])
def test_v7_two_nodes_have_two_names_in_any_case(name: str) -> None:
    text = "graph @g {\n  %x = node.input {rows = 2} : matrix<2x*>\n}\n"
    module = parsed(text)
    block = module.functions[0].block
    (first,) = block
    block.append(Operation(first.opdef, [], [first.result.type], first.params, names=[name]))
    found = f"graph-structure: node.input: the name {name} is taken by another node"
    assert broken_rules(module) == [found]


def test_v7_a_node_has_a_name() -> None:
    text = "graph @g {\n  %0 = node.input {rows = 2} : matrix<2x*>\n}\n"
    assert broken_rules(parsed(text)) == ["graph-structure: node.input: every node needs a name"]


def test_v8_a_dimension_of_an_argument_is_declared() -> None:
    module, _ = negation()
    module.functions[0].add_argument("n", TensorType((N,), DType.F32), "input")
    message = "graph-structure: @f: dimension N <= 8 is not declared in the module"
    assert broken_rules(module) == [message]


def test_v8_a_dimension_has_the_declared_bound() -> None:
    module, _ = negation()
    module.dims = [Symbol("N", 9)]
    module.functions[0].add_argument("n", TensorType((N,), DType.F32), "input")
    assert len(broken_rules(module)) == 1


def test_v8_a_dimension_in_a_parameter_is_declared() -> None:
    module, op = negation()
    params = ExtentParams(N, TensorType((1,), DType.F32))
    IRBuilder.before(op).emit(EXTENT, params=params)
    message = "graph-structure: extent: dimension N <= 8 is not declared in the module"
    assert broken_rules(module) == [message]


def test_v9_a_func_holds_no_nodes() -> None:
    found = in_function("%n = node.input {rows = 1} : matrix<1x*>", "return %x")
    assert found == ["graph-structure: node.input: a func holds no nodes"]


def test_v9_a_graph_holds_only_nodes() -> None:
    text = "graph @g {\n  %c = constant {type = tensor<f32>, value = [0.0]} : tensor<f32>\n}\n"
    assert broken_rules(parsed(text)) == ["graph-structure: constant: a graph holds only nodes"]


def test_v9_a_graph_has_no_arguments() -> None:
    found = broken_rules(parsed("graph @g(%x: tensor<f32> input) {\n}\n"))
    assert found == ["graph-structure: @g: a graph has no arguments and no results"]


@pytest.mark.parametrize(
    ("results", "returned", "message"),
    [
        ("y: tensor<2xf32> updates %z", "%x", "@f: result y updates no argument of that name"),
        (
            "y: tensor<2xf32> updates %v",
            "%x",
            "@f: result y is tensor<2xf32> but updates tensor<f32>",
        ),
        (
            "y: tensor<2xf32> updates %x, z: tensor<2xf32> updates %x",
            "%x, %x",
            "@f: argument x is updated twice",
        ),
        ("y: tensor<2xf32>, y: tensor<2xf32>", "%x, %x", "@f: two results are called y"),
    ],
)
def test_v10_an_update_takes_over_one_argument_of_its_type(
    results: str, returned: str, message: str
) -> None:
    head = "func @f(%x: tensor<2xf32> state, %v: tensor<f32> state)"
    module = parsed(f"{head} -> ({results}) {{\n  return {returned}\n}}\n")
    assert broken_rules(module) == [f"graph-structure: {message}"]


def test_v10_two_arguments_have_two_names() -> None:
    module, _ = negation()
    module.functions[0].add_argument("x", F32, "input")
    assert broken_rules(module) == ["graph-structure: @f: two arguments are called x"]


def test_v11_a_kernels_block_takes_its_operands() -> None:
    found = in_function("%y = kernel %x : tensor<2xf32> {", "^():", "  yield", "}", "return %x")
    assert "graph-structure: kernel: passes (tensor<2xf32>) but its block takes ()" in found


def test_v11_an_operation_without_regions_takes_none() -> None:
    found = in_function("%y = neg %x : tensor<2xf32> {", "}", "return %y")
    assert found == ["graph-structure: neg: takes no region"]


@pytest.mark.parametrize("blocks", [0, 2])
def test_v11_a_region_has_one_block(blocks: int) -> None:
    module, op = negation()
    inner = [Block() for _ in range(blocks)]
    for block in inner:
        block.append(Operation(YIELD, [], []))
    op.block.insert_before(op, Operation(KERNEL, [], [], regions=[Region(inner)]))  # type: ignore[union-attr]
    assert broken_rules(module) == ["graph-structure: kernel: requires one block in each region"]


def test_v12_functions_have_names_of_their_own() -> None:
    module, _ = negation()
    other, _ = negation()
    assert broken_rules(Module([*module.functions, *other.functions])) == [
        "graph-structure: two functions are called @f"
    ]


def test_v12_a_dimension_is_declared_once() -> None:
    assert broken_rules(Module([], [N, N])) == ["graph-structure: dimension N is declared twice"]


@pytest.mark.parametrize("name", ["n", "Nx", "", "2", "N_1"])
def test_v12_a_dimension_is_written_in_capitals(name: str) -> None:
    found = broken_rules(Module([], [Symbol(name, 8)]))
    message = f"graph-structure: a dimension name is capital letters and digits, got {name}"
    assert found == [message]


def test_every_broken_rule_is_reported_not_only_the_first() -> None:
    found = in_function(
        "%a = add %x : tensor<2xf32>",
        "%b = neg %x : tensor<3xf32>",
        "%c = neg %d : tensor<2xf32>",
        "%d = node.input {rows = 1} : matrix<1x*>",
        "return %x",
    )
    assert len(found) == 5


def test_many_broken_operations_are_reported_in_time() -> None:
    lines = [f"%v{i} = neg %x : tensor<3xf32>" for i in range(20_000)]
    assert len(in_function(*lines, "return %x")) == 20_000


@pytest.mark.parametrize("type", ["tensor<0xf32>", "tensor<2x0xf32>", "tensor<f32>"])
def test_v4_a_constant_holds_a_number_also_where_it_has_no_elements(type: str) -> None:
    (problem,) = in_function(f"%c = constant {{type = {type}, value = []}} : {type}", "return %x")
    assert "requires one value or one per element" in problem
    assert not in_function(f"%c = constant {{type = {type}, value = [1.0]}} : {type}", "return %x")
