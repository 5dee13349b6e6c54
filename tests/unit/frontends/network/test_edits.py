"""Edits of a network: what each one does, what it refuses, and that refusing changes nothing."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.ir.verifier import verify_module
from graphc.support.diagnostics import DiagnosticSink, GraphcError
from graphc_frontends.network import Network

TEXT = """
Layer(x, rows, cols) { W = Parameter(rows, cols)  B = Parameter(rows)  T = Times(W, x)
                       P = Plus(T, B)  S = Sigmoid(P) }
features = Input(4, tag=feature)
labels = Input(3, tag=label)
L1 = Layer(features, 5, 4)
L2 = Layer(L1, 5, 5)
CE = Layer(L2, 3, 5)
criterion = SquareError(labels, CE, tag=criteria)
OutputNodes = (CE)
"""

Edit = Callable[[Network], object]


def network(text: str = TEXT) -> Network:
    net = gc.loads(text)
    assert isinstance(net, Network)
    assert len(net.parameters) == len([n for n in net.nodes if n.op == "parameter"])
    return net


def inputs(net: Network, name: str) -> list[str]:
    node = net.find(name)
    assert node is not None, f"no {name}"
    return [v.name or "" for v in node.operation.operands]


def state(net: Network) -> tuple[str, dict[str, bytes]]:
    return str(net), {name: value.tobytes() for name, value in net.parameters.items()}


def check_sound(net: Network) -> None:
    verify_module(net.model.module, sink := DiagnosticSink())
    sink.raise_if_errors()
    for node in net.nodes:
        assert net.find(node.name) is node


def test_copies_read_each_other_and_else_what_their_originals_read() -> None:
    net = network()
    net.copy_nodes("L2.*", "L3.*")
    assert inputs(net, "L3.T") == ["L3.W", "L1.S"]
    assert inputs(net, "L3.S") == ["L3.P"]
    assert np.array_equal(net.parameters["L3.W"], net.parameters["L2.W"])
    assert net.parameters["L3.W"] is not net.parameters["L2.W"]
    check_sound(net)


def test_a_copy_over_a_node_keeps_readers_and_tags_and_drops_those_of_the_original() -> None:
    net = Network()
    x = net.input("x", 3)
    net.tanh(net.sigmoid(x, name="a", tag="evaluation"), name="b", tag="output")
    net.sigmoid(net.exp(x, name="e"), name="c", tag="output")
    net.copy_nodes("c", "a")
    assert (inputs(net, "a"), inputs(net, "b")) == (["e"], ["a"])
    net.copy_nodes("c", "d")
    assert [n.tags for n in net.nodes if n.name in "acd"] == [("evaluation",), ("output",), ()]


def test_values_alone_are_copied_into_nodes_that_stay_as_they_are() -> None:
    net, other = network(), network(TEXT.replace("rows, cols)  B", "rows, cols, init=gaussian)  B"))
    before = inputs(net, "L2.T")
    net.copy_nodes("L2.*", "L2.*", source=other, values_only=True)
    assert np.array_equal(net.parameters["L2.W"], other.parameters["L2.W"])
    assert inputs(net, "L2.T") == before
    check_sound(net)


def test_one_node_is_copied_over_several_that_are_there() -> None:
    net = network()
    net.parameters["L1.B"] = np.arange(5.0)[:, None]
    net.copy_nodes("L1.B", "L2.*B", values_only=True)
    assert np.array_equal(net.parameters["L2.B"], net.parameters["L1.B"])


def test_nodes_of_another_network_need_their_inputs_in_the_same_edit() -> None:
    net, other = network(), network()
    before = state(net)
    with pytest.raises(GraphcError, match=r"Times `X\.T` has no node as its input 1 \(B\)"):
        net.copy_nodes("L1.*", "X.*", source=other)
    assert state(net) == before
    with net.edit():
        net.copy_nodes("L1.*", "X.*", source=other)
        net.set_input("X.T", 1, "features")
    assert inputs(net, "X.T") == ["X.W", "features"]
    check_sound(net)


def test_a_subtree_is_copied_into_another_network() -> None:
    net, other = network(), Network()
    net.copy_subtree("L2.S", other, "")
    assert [n.name for n in other.nodes] == [
        n.name for n in net.nodes if n.name.startswith(("f", "L1", "L2"))
    ]
    exe, copy = gc.compile(net, ["L2.S"], backend="numpy"), other
    x = np.ones((2, 4), np.float32)
    again = gc.compile(copy, ["L2.S"], backend="numpy")
    assert np.array_equal(exe(features=x)["L2.S"], again(features=x)["L2.S"])


def test_a_subtree_is_copied_beside_the_original() -> None:
    net = network()
    net.copy_subtree("L1.S", net, "second.")
    assert inputs(net, "second.L1.T") == ["second.L1.W", "second.features"]
    check_sound(net)


def test_parameters_keep_their_values_under_other_names() -> None:
    net = network()
    values = {name: value.copy() for name, value in net.parameters.items()}
    net.rename("L2.*", "Top.*")
    assert net.find("L2.W") is None
    assert np.array_equal(net.parameters["Top.W"], values["L2.W"])
    net.rename("Top.W", "top.w")
    assert np.array_equal(net.parameters["top.w"], values["L2.W"])
    check_sound(net)


def test_names_can_be_exchanged_in_one_rename_of_a_pattern() -> None:
    net = Network()
    for name in ("aa", "aaa"):
        net.parameter(name, 1, init="fixedValue", value=float(len(name)))
    assert net.parameters["aa"].item() == 2
    net.rename("a*", "aa*")
    assert [n.name for n in net.nodes] == ["aaa", "aaaa"]
    assert net.parameters["aaa"].item() == 2


def test_a_name_with_a_star_means_its_node() -> None:
    net = Network()
    x = net.input("x", 2)
    net.times(net.parameter("W", 2, 2), x, name="W*x")
    net.sigmoid(x, name="Wax")
    net.rename("W*x", "W*y")
    assert [n.name for n in net.nodes] == ["x", "W", "W*y", "Wax"]


def test_what_nobody_reads_can_go_and_the_rest_together_with_its_readers() -> None:
    net = network()
    net.remove("criterion")
    with net.edit():
        net.remove("L2.*")
        net.set_input("CE.T", 1, "L1.S")
    assert inputs(net, "CE.T") == ["CE.W", "L1.S"]
    assert "L2.W" not in net.parameters
    net.remove("L1.*", "CE.*")
    assert [n.name for n in net.nodes] == ["features", "labels"]


def test_inputs_are_set_one_or_all_or_as_those_of_another_node() -> None:
    net = network()
    net.set_input("CE.T", 1, "L1.S")
    net.set_inputs("CE.P", "CE.B", "CE.T")
    assert inputs(net, "CE.T") == ["CE.W", "L1.S"]
    assert inputs(net, "CE.P") == ["CE.B", "CE.T"]
    net.copy_inputs("L1.S", "L2.S")
    assert inputs(net, "L2.S") == ["L1.P"]


def test_sizes_follow_new_inputs() -> None:
    net = Network()
    x, y = net.input("x", 3), net.input("y", 5)
    net.tanh(net.sigmoid(x, name="s"), name="t", tag="output")
    net.set_input("s", 0, y)
    exe = gc.compile(net, ["t"], backend="numpy")
    assert exe(y=np.zeros((2, 5), np.float32))["t"].shape == (2, 5)


def test_properties() -> None:
    net = network()
    net.set_property_for_subtree("L2.S", "NeedsGradient", False)
    frozen = [n.name for n in net.nodes if "need_gradient = false" in str_of(net, n.name)]
    assert frozen == ["L1.W", "L1.B", "L2.W", "L2.B"]
    net.set_property("L1.W", "needs_gradient", True)
    assert "need_gradient" not in str_of(net, "L1.W")
    net.set_property("L2.S", "output", True)
    net.set_property("CE.S", "Output", False)
    assert net.model.tagged("output") == ["L2.S"]


def test_the_first_criterion_is_the_one_that_got_the_tag_first() -> None:
    net = network()
    net.set_property("L1.S", "criterion", True)
    assert net.model.tagged("criterion") == ["criterion", "L1.S"]


def str_of(net: Network, name: str) -> str:
    return next(line for line in str(net).splitlines() if f"{name} =" in line.replace('"', ""))


def test_edits_inside_of_an_edit_count_together() -> None:
    net = network()
    before = state(net)
    handle = net.find("L2.S")
    with pytest.raises(ZeroDivisionError), net.edit():
        net.remove("L2.*")
        net.rename("L1.*", "L7.*")
        net.factorise("CE.W", 0.5)
        raise ZeroDivisionError
    assert state(net) == before
    assert net.find("L2.S") is handle
    check_sound(net)


REFUSED: dict[str, tuple[Edit, str, str]] = {
    "copy of nothing": (lambda n: n.copy_nodes("X.*", "Y.*"), "missing-node", "`X.*`"),
    "copy of no node": (lambda n: n.copy_nodes("L1.V", "V"), "missing-node", "mean `L1.W`"),
    "copy onto itself": (lambda n: n.copy_nodes("L1.*", "L1.*"), "duplicate-name", "onto itself"),
    "copy onto itself, in another case": (
        lambda n: n.copy_nodes("L1.*", "l1.*"),
        "duplicate-name",
        "onto itself",
    ),
    "copy over another kind": (
        lambda n: n.copy_nodes("L1.W", "L1.T"),
        "argument-type",
        "is a Parameter and cannot be copied over `L1.T`, a Times",
    ),
    "many to one": (lambda n: n.copy_nodes("L1.*", "X"), "bad-value", "need a `*`"),
    "two stars": (lambda n: n.copy_nodes("L*.*", "X*"), "bad-value", "one `*` at most, got 2"),
    "values for no node": (
        lambda n: n.copy_nodes("L1.W", "L9.W", values_only=True),
        "missing-node",
        "requires the node `L9.W`",
    ),
    "values of another size": (
        lambda n: n.copy_nodes("L1.W", "L2.W", values_only=True),
        "shape-mismatch",
        "Times requires",
    ),
    "a name in use": (lambda n: n.rename("L1.W", "l2.w"), "duplicate-name", "is taken"),
    "a name for several": (lambda n: n.rename("L1.*", "X"), "bad-value", "need a `*`"),
    "a star for one": (lambda n: n.rename("L1.W", "X.*"), "bad-value", "has a `*`"),
    "a name of blanks": (lambda n: n.rename("L1.W", " "), "bad-value", "at least one character"),
    "a name that is none": (lambda n: n.rename("L1.W", "a\nb"), "bad-value", "printable"),
    "a very long name": (lambda n: n.rename("L1.W", "a" * 5000), "bad-value", "4096 bytes"),
    "removal of what is read": (lambda n: n.remove("L2.*"), "bad-value", "read by `CE.T`"),
    "no such input": (lambda n: n.set_input("L1.S", 1, "L1.P"), "bad-value", "has 1 inputs"),
    "several as an input": (lambda n: n.set_input("L1.S", 0, "L*"), "bad-value", "it means 10"),
    "too many inputs": (
        lambda n: n.set_inputs("L1.S", "L1.P", "L1.T"),
        "argument-count",
        "takes the inputs x; got 2",
    ),
    "inputs of another kind": (
        lambda n: n.copy_inputs("L1.P", "L1.S"),
        "argument-count",
        "takes the inputs x; got 2",
    ),
    "a wrong size": (
        lambda n: n.set_input("CE.T", 1, "features"),
        "shape-mismatch",
        "Times requires the columns of A",
    ),
    "a cycle": (lambda n: n.set_input("L2.T", 1, "L2.S"), "cycle", "`L2.T` -> `L2.P` -> `L2.S`"),
    "an unknown property": (
        lambda n: n.set_property("L1.W", "gradients", True),
        "bad-option",
        "a property is one of",
    ),
    "a property of a subtree only": (
        lambda n: n.set_property_for_subtree("L1.W", "output", True),
        "bad-option",
        "a property is one of ComputeGradient, NeedsGradient, BatchNormEvalMode",
    ),
    "a property that no node has": (
        lambda n: n.set_property("L1.T", "needs_gradient", True),
        "argument-type",
        "none of `L1.T` has it",
    ),
    "factors of a vector": (lambda n: n.factorise("L1.B", 0.5), "argument-type", "several rows"),
    "a ratio of 0": (lambda n: n.factorise("L1.W", 0), "bad-value", "over 0 and at most 1"),
    "a ratio that is no number": (
        lambda n: n.factorise("L1.W", float("nan")),
        "bad-value",
        "over 0 and at most 1, got nan",
    ),
    "no parameter of such a name": (
        lambda n: n.factorise(re.compile("L1"), 0.5),
        "missing-node",
        "no parameter",
    ),
    "no network": (
        lambda n: n.copy_nodes("L1.*", "X.*", source=3),  # type: ignore[arg-type]
        "argument-type",
        "source requires a network, got int",
    ),
    "no node": (lambda n: n.remove(3), "argument-type", "requires nodes"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_changes_nothing(name: str) -> None:
    edit, slug, message = REFUSED[name]
    net = network()
    before = state(net)
    with pytest.raises(GraphcError) as caught:
        edit(net)
    problem = caught.value.diagnostics[0]
    assert (problem.slug, message in problem.message) == (slug, True), problem
    assert state(net) == before
    check_sound(net)


def test_a_network_with_an_open_input_is_neither_compiled_nor_saved(tmp_path: Path) -> None:
    net = network()
    message = r"Times `CE\.T` has no node as its input 1 \(B\)"
    with pytest.raises(GraphcError, match=message), net.edit():
        net.remove("L2.*")
        with pytest.raises(GraphcError, match=message):
            gc.compile(net, ["CE.S"], backend="numpy")
        with pytest.raises(GraphcError, match=message):
            net.save(tmp_path / "m.safetensors")
    assert not [*tmp_path.iterdir()]
    check_sound(net)


def test_what_was_compiled_before_goes_on_with_the_network_as_it_was() -> None:
    net = network()
    x = np.ones((2, 4), np.float32)
    data = {"features": x, "labels": np.ones((2, 3), np.float32)}
    for precision in ("float", "double"):
        net = network()
        step = gc.compile_training(
            net, learner=gc.SGD(learning_rate=0.1), batch=2, backend="numpy", precision=precision
        )
        exe = gc.compile(net, ["CE.S"], backend="numpy", precision=precision)
        before = exe(features=x)["CE.S"]
        net.rename("L1.*", "K.*")
        with net.edit():
            net.remove("L2.*")
            net.set_input("CE.T", 1, "K.S")
        net.copy_nodes("CE.W", "CE.V")
        assert np.array_equal(exe(features=x)["CE.S"], before)
        old = net.parameters["K.W"].copy()
        step(**data)  # type: ignore[arg-type]
        assert not np.array_equal(exe(features=x)["CE.S"], before)
        assert not np.array_equal(net.parameters["K.W"], old)  # one array, under two names


@pytest.mark.parametrize(("ratio", "rank"), [(0.05, 8), (0.5, 8), (0.8, 16), (0.99, 20), (1.0, 20)])
def test_a_factorised_parameter_has_the_rank_that_its_singular_values_say(
    ratio: float, rank: int
) -> None:
    net = Network()
    x = net.input("x", 24, tag="feature")
    net.times(net.parameter("W", 20, 24, need_gradient=False), x, name="y", tag="output")
    rng = np.random.default_rng(3)
    net.parameters["W"] = rng.normal(size=(20, 24))
    value = net.parameters["W"].astype(np.float64)
    left, singular, right = np.linalg.svd(value, full_matrices=False)
    (found,) = net.factorise("W", ratio)
    assert (found.name, found.rows, found.cols, found.rank) == ("W", 20, 24, rank)
    kept = next((i for i in range(20) if singular[: i + 1].sum() > ratio * singular.sum()), 19) + 1
    assert rank == min(-(-kept // 8) * 8, 20)
    assert [n.name for n in net.nodes] == ["x", "W-U", "W-V", "W-SVD", "y"]
    assert inputs(net, "y") == ["W-SVD", "x"]
    expected = (left[:, :rank] * singular[:rank]) @ right[:rank]
    product = net.parameters["W-U"].astype(np.float64) @ net.parameters["W-V"]
    assert np.allclose(product, expected, rtol=0, atol=1e-5)
    assert np.allclose((net.parameters["W-U"] ** 2).sum(0), singular[:rank], rtol=1e-5)
    assert "need_gradient = false" in str_of(net, "W-U")
    given = rng.normal(size=(3, 24)).astype(np.float32)
    y = gc.compile(net, backend="numpy")(x=given)["y"]
    assert np.allclose(y, given @ expected.T, rtol=0, atol=1e-4)


def test_a_listing_has_a_line_for_each_node_and_the_values_if_asked_for(tmp_path: Path) -> None:
    net = Network()
    x = net.input("x", 2)
    w = net.parameter("W", 2, 2, init="fixedValue", value=0.1)
    net.plus(net.times(w, x, name="t"), net.constant(2.0, name="Half"), name="B")
    stream = io.StringIO()
    net.dump(stream)
    assert stream.getvalue().split("\n\n") == [
        "\nB=Plus(t,Half)",
        "Half=LearnableParameter [1,1]   NeedGradient=false",
        "t=Times(W,x)",
        "W=LearnableParameter [2,2]   NeedGradient=true",
        "x=InputValue [2,*]\n",
    ]
    net.dump(tmp_path / "w.txt", include_values=True, nodes="W")
    row = "0.100000001 0.100000001"
    line = "W=LearnableParameter [2,2]   NeedGradient=true"
    assert (tmp_path / "w.txt").read_text() == f"\n{line}\n{row}\n{row}\n{'#' * 68}\n"
    net.dump(str(tmp_path / "h.txt"), include_values=True, nodes="Half")
    assert "\n2\n#" in (tmp_path / "h.txt").read_text()


def test_a_parameter_that_was_not_drawn_yet_is_copied_with_its_value() -> None:
    net = Network()
    x = net.input("x", 3)
    net.times(net.parameter("W", 2, 0), x, name="t")
    net.copy_nodes("W", "V")
    assert np.array_equal(net.parameters["V"], net.parameters["W"])


def test_statistics_are_copied_with_what_they_have_computed() -> None:
    net, other = Network(), Network()
    net.mean(net.input("x", 2), name="m")
    net.precompute(x=np.array([[1.0, 5.0], [3.0, 7.0]]))
    net.copy_nodes("m", "m2")
    other.copy_nodes("*", "*", source=net)
    for found in (net.parameters["m2"], other.parameters["m"]):
        assert found.tolist() == [[2], [6]]
    other.mean(other.find("x"), name="open")  # type: ignore[arg-type]
    net.copy_nodes("open", "m", source=other, values_only=True)
    assert "m" not in net.parameters  # there is no value to have yet
    net.precompute(x=np.zeros((1, 2)))
    assert net.parameters["m"].tolist() == [[0], [0]]


def test_copies_have_all_digits_that_the_original_has() -> None:
    exact, plain = Network(), Network()
    exact.parameter("W", 1, init="fixedValue", value=0.1)
    assert exact.parameters["W"].dtype == np.float32
    plain.input("x", 1)
    plain.copy_nodes("W", "V", source=exact)
    plain.times(plain.find("V"), plain.find("x"), name="y", tag="output")  # type: ignore[arg-type]
    y = gc.compile(plain, backend="numpy", precision="double")(x=np.ones((1, 1)))["y"]
    assert y.item() == 0.1
