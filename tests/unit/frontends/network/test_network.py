"""The methods of `Network`: one for each node, with the operands and settings that it has."""

from __future__ import annotations

import inspect

import pytest

from frontends.network import Network, NetworkNode
from graphc.ir.core import OpDef
from graphc.ops.nodes import OPS
from graphc.support.diagnostics import GraphcError

LEAVES = ("node.input", "node.parameter", "node.constant")
FUNCTIONS = [op for op in OPS if op.name not in LEAVES]
# Two operands of one size do for most; these nodes want others.
SIZES = {
    "times": ((2, 3), (3, 4)),
    "scale": ((1, 1), (3, 4)),
    "diag_times": ((3, 1), (3, 4)),
    "row_element_times": ((3, 4), (1, 4)),
    "column_element_times": ((3, 4), (3, 1)),
    "diagonal": ((3, 3),),
    "per_dim_mean_var_normalization": ((3, 4), (3, 1), (3, 1)),
    "per_dim_mean_var_de_normalization": ((3, 4), (3, 1), (3, 1)),
}
OF_SAMPLES = ("mean", "inv_std_dev", "past_value", "future_value")
SETTINGS = {"row_repeat": {"num_repeats": 2}}


def made(op: OpDef) -> NetworkNode:
    """The node of a method called with the operands of its op, `name` and no tag."""
    net = Network()
    name = op.name.removeprefix("node.")
    sizes = SIZES.get(name, ((3, 4),) * len(op.operands))
    operands = [
        net.input(f"x{i}", 3) if name in OF_SAMPLES else net.parameter(f"p{i}", *size)
        for i, size in enumerate(sizes)
    ]
    return getattr(net, name)(*operands, name="y", **SETTINGS.get(name, {}))


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_every_node_has_a_method_of_its_name(op: OpDef) -> None:
    node = made(op)
    assert node.name == "y"
    assert node.operation.opdef is op
    assert len(node.operation.operands) == len(op.operands)


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_every_method_says_what_it_does(op: OpDef) -> None:
    method = getattr(Network, op.name.removeprefix("node."))
    assert inspect.getdoc(method)


def test_a_setting_of_row_repeat_reaches_the_node() -> None:
    net = Network()
    node = net.row_repeat(net.input("x", 3), 2)
    assert node.operation.params.num_repeats == 2  # type: ignore[attr-defined]


def test_a_method_takes_tags() -> None:
    net = Network()
    node = net.matrix_l2_reg(net.parameter("w", 2, 2), tag="criterion")
    assert node.operation.params.tags == ("criterion",)  # type: ignore[attr-defined]


def test_a_number_in_place_of_a_node_is_refused() -> None:
    with pytest.raises(GraphcError, match="transpose requires nodes of this network") as caught:
        Network().transpose(2.0)  # type: ignore[arg-type]
    assert caught.value.diagnostics[0].slug == "argument-type"
