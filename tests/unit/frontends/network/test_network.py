"""The methods of `Network`: one for each node, with the operands and settings that it has."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

import pytest

import graphc as gc
from graphc.ir.core import OpDef
from graphc.ops.nodes import OPS
from graphc.support.diagnostics import GraphcError
from graphc.support.source import Location, Span
from graphc_frontends.network import Network, NetworkNode

LEAVES = ("node.input", "node.sparse_input", "node.parameter", "node.constant")
FUNCTIONS = [op for op in OPS if op.name not in LEAVES]
# Two operands of one size do for most; these nodes want others.
SIZES = {
    "times": ((2, 3), (3, 4)),
    "scale": ((1, 1), (3, 4)),
    "diag_times": ((3, 1), (3, 4)),
    "row_element_times": ((3, 4), (1, 4)),
    "column_element_times": ((3, 4), (3, 1)),
    "diagonal": ((3, 3),),
    "row_stack": ((3, 4), (1, 4), (2, 4)),
    "gmm_log_likelihood": ((2, 1), (6, 1), (2, 1), (3, 4)),
    "class_based_cross_entropy_with_softmax": ((4, 4), (3, 4), (3, 9), (2, 4)),
    "lookup_table": ((2, 3), (6, 4)),
    "batch_normalization": ((3, 0), (3, 1), (3, 1), (3, 1), (3, 1)),
    "layer_normalization": ((3, 4), (3, 1), (3, 1)),
    "per_dim_mean_var_normalization": ((3, 4), (3, 1), (3, 1)),
    "per_dim_mean_var_de_normalization": ((3, 4), (3, 1), (3, 1)),
}
OF_SAMPLES = ("mean", "inv_std_dev", "past_value", "future_value")
IMAGES = {"convolution": 1, "max_pooling": 0, "average_pooling": 0}  # the operand that is one
WINDOW = {"window_width": 2, "window_height": 1, "step_width": 1, "step_height": 2}
SETTINGS = {
    "row_repeat": {"num_repeats": 2},
    "row_slice": {"start_row": 1, "num_rows": 2},
    "convolution": {"kernel_width": 2, "kernel_height": 1, "output_channels": 3},
    "max_pooling": WINDOW,
    "average_pooling": WINDOW,
    "cos_distance_with_negative_samples": {"shift": 1, "negatives": 2},
}


def made(op: OpDef) -> NetworkNode:
    """The node of a method called with the operands of its op, `name` and no tag."""
    net = Network()
    name = op.name.removeprefix("node.")
    sizes = SIZES.get(name, ((3, 4),) * len(op.operands))
    operands = [
        net.input(f"x{i}", 3)
        if name in OF_SAMPLES or not cols
        else net.parameter(f"p{i}", rows, cols)
        for i, (rows, cols) in enumerate(sizes)
    ]
    if name in IMAGES:
        operands[IMAGES[name]] = net.image_input("image", 3, 2, 2)
    return getattr(net, name)(*operands, name="y", **SETTINGS.get(name, {}))


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_every_node_has_a_method_of_its_name(op: OpDef) -> None:
    node = made(op)
    assert node.name == "y"
    assert node.operation.opdef is op
    assert len(node.operation.operands) == len(SIZES.get(node.op, op.operands))


@pytest.mark.parametrize("op", FUNCTIONS, ids=lambda op: op.name)
def test_every_method_says_what_it_does(op: OpDef) -> None:
    method = getattr(Network, op.name.removeprefix("node."))
    assert inspect.getdoc(method)


def test_a_setting_of_row_repeat_reaches_the_node() -> None:
    net = Network()
    node = net.row_repeat(net.input("x", 3), 2)
    assert node.operation.params.num_repeats == 2  # type: ignore[attr-defined]


def test_an_image_input_says_what_its_columns_are() -> None:
    node = Network().image_input("x", 3, 2, 4)
    assert str(node.operation.result.type) == "matrix<24x* image 3x2x4>"


def test_the_settings_of_images_reach_their_nodes() -> None:
    net = Network()
    image = net.image_input("x", 6, 5, 2)
    weight = net.parameter("w", 4, 0)
    layer = net.convolution(weight, image, 2, 3, 4, 2, 1, zero_padding=True, groups=2)
    assert str(layer.operation.params) == (
        "ConvolutionParams(kernel_width=2, kernel_height=3, output_channels=4, "
        "horizontal_subsample=2, vertical_subsample=1, zero_padding=True, groups=2, tags=())"
    )
    for pool in (net.max_pooling, net.average_pooling):
        assert str(pool(image, 1, 2, 3, 4).operation.params) == (
            "PoolingParams(window_width=1, window_height=2, step_width=3, step_height=4, tags=())"
        )


def test_the_settings_of_shapes_reach_their_nodes() -> None:
    net = Network()
    x = net.input("x", 12)
    assert str(net.row_slice(x, 1, 3).operation.params) == (
        "RowSliceParams(start_row=1, num_rows=3, tags=())"
    )
    image = net.reshape(x, image_width=2, image_height=3, image_channels=2)
    assert str(image.operation.result.type) == "matrix<12x* image 2x3x2>"
    assert str(net.reshape(image, 12).operation.result.type) == "matrix<12x*>"
    assert str(net.row_stack(x, image).operation.result.type) == "matrix<24x*>"


def test_a_method_takes_tags() -> None:
    net = Network()
    node = net.matrix_l2_reg(net.parameter("w", 2, 2), tag="criterion")
    assert node.operation.params.tags == ("criterion",)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("spelling", "tag"),
    [
        ("eval", "evaluation"),
        ("Evaluation", "evaluation"),
        ("evals", "evaluation"),
        ("criteria", "criterion"),
        ("CRITERION", "criterion"),
        ("Output", "output"),
        ("multiSeq", "multiseq"),
    ],
)
def test_tags_are_spelled_as_in_ndl(spelling: str, tag: str) -> None:
    net = Network()
    x = net.input("x", 3, tag=[spelling, tag])
    y = net.tanh(x)
    net.add_tag(y, spelling)
    net.add_tag(y, tag)
    assert x.tags == y.tags == (tag,)
    of_ndl = gc.loads(f"x = Input(3, tag={spelling})").find("x")
    assert of_ndl is not None
    assert of_ndl.tags == (tag,)


def test_a_tag_that_is_none_gets_the_near_name() -> None:
    with pytest.raises(GraphcError, match="no tag is called `featrue`; did you mean `feature`"):
        Network().input("x", 3, tag="featrue")


Call = Callable[[Network, NetworkNode, NetworkNode], object]


@pytest.mark.parametrize(
    ("call", "slug", "message"),
    [
        (lambda n, a, s: n.input(3, 3), "argument-type", "a name in text, got 3"),
        (lambda n, a, s: n.input("", 3), "bad-value", "at least one character"),
        (lambda n, a, s: n.input("c", 0), "bad-value", "rows from 1 to 2147483647, got 0"),
        (lambda n, a, s: n.input("c", -1), "bad-value", "got -1"),
        (lambda n, a, s: n.input("c", 10**12), "bad-value", "got 1000000000000"),
        (lambda n, a, s: n.input("c", 2.5), "bad-value", "requires an integer, got 2.5"),
        (lambda n, a, s: n.parameter("p", 2, -2), "bad-value", "cols from 0"),
        (lambda n, a, s: n.parameter("p", 2, init=3), "bad-value", "`init` requires"),
        (lambda n, a, s: n.row_repeat(a, 0), "bad-value", "at least 1 repeat"),
        (lambda n, a, s: n.row_slice(a, 0, 0), "bad-value", "at least 1 row"),
        (lambda n, a, s: n.row_stack(a), "bad-value", "at least 2 nodes"),
        (lambda n, a, s: n.reshape(a, image_width=3), "bad-value", "at least two of imageWidth"),
        (lambda n, a, s: n.image_input("c", 2, 0, 1), "bad-value", "height from 1"),
        (lambda n, a, s: n.max_pooling(a, 0, 1, 1, 1), "bad-value", "a window width from 1"),
        (lambda n, a, s: n.convolution(a, s, 1, 1, 1, 2, 1), "bad-value", "subsampling by at most"),
        (lambda n, a, s: n.sigmoid(a, name=3), "argument-type", "a name in text, got 3"),
        (lambda n, a, s: n.sigmoid(a, tag=3), "argument-type", "a list of tags, got 3"),
        (lambda n, a, s: n.rename(s, "A"), "duplicate-name", "`A` is taken"),
        (lambda n, a, s: n.rename(s, ""), "bad-value", "at least one character"),
        (lambda n, a, s: n.rename(3, "t"), "argument-type", "rename requires nodes"),
        (lambda n, a, s: n.add_tag(s, "ouput"), "unknown-tag", "did you mean `output`"),
        (lambda n, a, s: n.add_tag(s, 3), "argument-type", "a list of tags"),
        (lambda n, a, s: n.set_operand(s, 1, a), "bad-value", "has 1 operands"),
        (lambda n, a, s: n.set_operand(s, 0, 2.0), "argument-type", "set_operand requires"),
        (lambda n, a, s: n.remove(a), "bad-value", "`a` is read by `s`"),
    ],
)
def test_a_mistake_is_raised_at_once_and_changes_nothing(
    call: Call, slug: str, message: str
) -> None:
    net = Network()
    a = net.input("a", 3)
    s = net.sigmoid(a, name="s")
    before = str(net)
    with pytest.raises(GraphcError, match=re.escape(message)) as caught:
        call(net, a, s)
    (problem,) = caught.value.diagnostics
    assert problem.slug == slug
    assert problem.span is not None
    assert problem.span.file == __file__
    assert str(net) == before
    net.input("next", 2)  # and no later call hears of it


def test_edits_without_a_mistake_are_done() -> None:
    net = Network()
    s = net.sigmoid(net.input("a", 3), name="s")
    net.rename(s, "t")
    net.add_tag(s, "output")
    net.set_operand(s, 0, net.input("b", 4))
    assert (s.name, s.tags) == ("t", ("output",))
    assert s.operation.operands[0].name == "b"
    net.remove(s)
    assert net.find("t") is None


def test_a_removed_node_is_none_of_the_network_s() -> None:
    net = Network()
    a = net.input("a", 3)
    net.remove(a)
    with pytest.raises(
        GraphcError, match="sigmoid requires a node of this network or a number as x, got <Node a"
    ):
        net.sigmoid(a)


def test_a_parameter_that_is_added_later_has_a_value_too() -> None:
    net = Network()
    net.parameter("W", 3, 2)
    first = net.parameters["W"]
    net.parameter("V", 2, 2)
    assert net.parameters["V"].shape == (2, 2)
    assert net.parameters["W"] is first


def test_a_node_that_waits_for_its_operand_can_be_removed() -> None:
    net = Network()
    net.remove(net.past_value(rows=2, name="p"))
    assert net.find("p") is None


def test_a_front_end_finds_its_mistakes_in_the_sink() -> None:
    net = Network()
    a, b = net.input("a", 3), net.input("b", 3)
    where = Location(Span("net.ndl", 1, 1, 2))
    net.rename(b, "a", where)
    net.add_tag(a, "ouput", where)
    assert [d.slug for d in net.sink.diagnostics] == ["duplicate-name", "unknown-tag"]
