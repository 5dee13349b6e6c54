"""What each predefined network is made of: names, functions, operands, sizes, tags.

The tables are written from the description of the toolkit's networks, not from the code. A line is
`name = op(operands) rows x cols #tags`; `*` are samples.
"""

from __future__ import annotations

from typing import Any

import pytest

import graphc as gc
from graphc.driver.prepare import prepare
from graphc.ops.nodes.layout import node_type

CLASSES: dict[str, Any] = {
    "training_criterion": "ClassCrossEntropyWithSoftmax",
    "eval_criterion": "classBasedCrossEntropyWithSoftmax",
}


def shown(network: gc.Network) -> dict[str, str]:
    prepare(network.model)
    lines: dict[str, str] = {}
    for node in network.nodes:
        operands = ", ".join(value.name or "" for value in node.operation.operands)
        type = node_type(node.operation)
        size = f"{type.rows}x{'*' if type.has_samples else type.cols}"
        tags = "".join(f" #{tag}" for tag in node.tags)
        lines[node.name] = f"{node.op}({operands}) {size}{tags}"
    return lines


def require(network: gc.Network, table: str) -> None:
    """All nodes are those of the table, in its order."""
    expected = dict(line.strip().split(" = ", 1) for line in table.strip().splitlines())
    found = shown(network)
    assert found == expected
    assert list(found) == list(expected)


def test_simplenet_with_everything() -> None:
    network = gc.simple_network(
        [2, 5, 4, 3], apply_mean_var_norm=True, need_prior=True, add_dropout_nodes=True
    )
    require(
        network,
        """
        features = input() 2x* #feature
        MeanOfFeatures = mean(features) 2x1
        InvStdOfFeatures = inv_std_dev(features) 2x1
        MVNormalizedFeatures = per_dim_mean_var_normalization(features, MeanOfFeatures, InvStdOfFeatures) 2x*
        W0 = parameter() 5x2
        B0 = parameter() 5x1
        W0*features = times(W0, MVNormalizedFeatures) 5x*
        W0*features+B0 = plus(W0*features, B0) 5x*
        H1 = sigmoid(W0*features+B0) 5x*
        DropH1 = dropout(H1) 5x*
        W1 = parameter() 4x5
        B1 = parameter() 4x1
        W1*H1 = times(W1, DropH1) 4x*
        W1*H1+B1 = plus(W1*H1, B1) 4x*
        H2 = sigmoid(W1*H1+B1) 4x*
        DropH2 = dropout(H2) 4x*
        W2 = parameter() 3x4
        B2 = parameter() 3x1
        W2*H1 = times(W2, DropH2) 3x*
        HLast = plus(W2*H1, B2) 3x*
        labels = input() 3x* #label
        CrossEntropyWithSoftmax = cross_entropy_with_softmax(labels, HLast) 1x1 #criterion
        EvalErrorPrediction = error_prediction(labels, HLast) 1x1 #evaluation
        Prior = mean(labels) 3x1
        LogOfPrior = log(Prior) 3x1
        ScaledLogLikelihood = minus(HLast, LogOfPrior) 3x* #output
        PosteriorProb = softmax(HLast) 3x*
        """,  # noqa: E501  # names of the toolkit
    )


def test_simplenet_without_hidden_layers_and_one_node_for_both_criteria() -> None:
    network = gc.simple_network(
        [4, 2], training_criterion="squareError", eval_criterion="SquareError"
    )
    require(
        network,
        """
        features = input() 4x* #feature
        W0 = parameter() 2x4
        B0 = parameter() 2x1
        W0*H-1 = times(W0, features) 2x*
        HLast = plus(W0*H-1, B0) 2x* #output
        labels = input() 2x* #label
        SquareError = square_error(labels, HLast) 1x1 #criterion #evaluation
        PosteriorProb = softmax(HLast) 2x*
        """,
    )


def test_a_linear_layer_is_its_sum_and_the_last_type_holds_on() -> None:
    network = gc.simple_network([2, 3, 3, 3, 2], layer_types=["None", "rectifiedLinear"])
    found = shown(network)
    assert found["H1"] == "plus(W0*features, B0) 3x*"
    assert "W0*features+B0" not in found
    assert found["H2"] == "rectified_linear(W1*H1+B1) 3x*"
    assert found["H3"] == "rectified_linear(W2*H2+B2) 3x*"


def test_simplernn() -> None:
    network = gc.simple_network(
        [4, 5, 6, 3],
        rnn_type="SimpleRNN",
        recurrent_layer=[1],
        layer_types=["Tanh", "Sigmoid"],
        default_hidden_activity=0.5,
    )
    require(
        network,
        """
        features = input() 4x* #feature
        U0 = parameter() 5x4
        W0 = parameter() 5x5
        AutoName0 = past_value(AutoName4) 5x*
        AutoName1 = times(U0, features) 5x*
        AutoName2 = times(W0, AutoName0) 5x*
        AutoName3 = plus(AutoName1, AutoName2) 5x*
        AutoName4 = tanh(AutoName3) 5x*
        U1 = parameter() 6x5
        AutoName5 = times(U1, AutoName4) 6x*
        AutoName6 = sigmoid(AutoName5) 6x*
        W2 = parameter() 3x6
        labels = input() 3x* #label
        AutoName7 = times(W2, AutoName6) 3x*
        criterion = cross_entropy_with_softmax(labels, AutoName7) 1x1 #criterion
        eval = error_prediction(labels, AutoName7) 1x1 #evaluation
        outputs = times(W2, AutoName6) 3x* #output
        """,
    )
    past = network.find("AutoName0")
    assert past is not None
    assert "default_hidden_activity = 0.5" in str(network)


def test_a_simplernn_without_recurrent_layers_is_a_simplenet() -> None:
    assert "HLast" in shown(gc.simple_network([2, 3, 2], rnn_type="SIMPLERNN"))


def test_classlm() -> None:
    network = gc.simple_network(
        [7, 5, 4, 7], rnn_type="CLASSLM", recurrent_layer=[2], nbr_class=2, vocab_size=7, **CLASSES
    )
    require(
        network,
        """
        features = sparse_input() 7x* #feature
        U0 = parameter() 5x7
        AutoName0 = times(U0, features) 5x*
        B0 = parameter() 5x1
        AutoName1 = plus(AutoName0, B0) 5x*
        AutoName2 = sigmoid(AutoName1) 5x*
        U1 = parameter() 4x5
        W1 = parameter() 4x4
        AutoName3 = past_value(AutoName7) 4x*
        AutoName4 = times(U1, AutoName2) 4x*
        AutoName5 = times(W1, AutoName3) 4x*
        AutoName6 = plus(AutoName4, AutoName5) 4x*
        AutoName7 = sigmoid(AutoName6) 4x*
        W2 = parameter() 4x7
        labels = input() 4x* #label
        WeightForClassPostProb = parameter() 2x4
        ClassPostProb = times(WeightForClassPostProb, AutoName7) 2x*
        TrainNodeClassBasedCrossEntropy = class_based_cross_entropy_with_softmax(labels, AutoName7, W2, ClassPostProb) 1x1 #criterion #evaluation #output
        """,  # noqa: E501  # names of the toolkit
    )


def test_lstm_with_a_table_a_prior_and_layers_of_both_kinds() -> None:
    found = shown(
        gc.simple_network(
            [6, 2, 5, 4, 3, 3],
            rnn_type="LSTM",
            lookup_table_order=3,
            recurrent_layer=[2, 4],
            need_prior=True,
            layer_types="Tanh",
        )
    )
    sizes = {name: line.split(" ")[1] for name, line in found.items() if "parameter" in line}
    assert sizes == {
        "E0": "2x2",
        # bias, 6 looked up, 5 of the layer itself, a peephole
        "WINPUTGATE0": "5x13",
        "WFORGETGATE0": "5x13",
        "WOUTPUTGATE0": "5x13",
        "WMEMORYCELLWEIGHT0": "5x12",
        "U2": "4x5",
        "B2": "4x1",
        "WINPUTGATE3": "3x9",
        "WFORGETGATE3": "3x9",
        "WOUTPUTGATE3": "3x9",
        "WMEMORYCELLWEIGHT3": "3x8",
        "W4": "3x3",
    }
    assert found["LookupTable"] == "lookup_table(E0, features) 6x*"
    assert found["outputs"] == "times(W4, LSTM3) 3x*"
    assert found["ScaledLogLikelihood"] == "minus(outputs, LogOfPrior) 3x* #output"
    assert found["PosteriorProb"] == "softmax(outputs) 3x*"
    assert found["CrossEntropyWithSoftmax"].endswith("#criterion")
    assert found["EvalErrorPrediction"].endswith("#evaluation")


@pytest.mark.parametrize("value", [-1.0, 2.5])
def test_biases_of_an_lstm_start_as_asked(value: float) -> None:
    network = gc.simple_network([3, 4, 2], rnn_type="LSTM", forget_gate_init_val=value)
    parameters = network.parameters
    assert parameters["WFORGETGATE0"][:, 0].tolist() == [value] * 4
    assert parameters["WINPUTGATE0"][:, 0].tolist() == [-1] * 4
    assert parameters["WMEMORYCELLWEIGHT0"][:, 0].tolist() == [0] * 4
    rest = parameters["WFORGETGATE0"][:, 1:]
    assert 0 < abs(rest).max() <= 0.05
    assert len(set(rest.ravel().tolist())) == rest.size


def test_classlstm() -> None:
    network = gc.simple_network(
        [7, 3, 5, 7], rnn_type="CLASSLSTM", lookup_table_order=1, nbr_class=2, **CLASSES
    )
    found = shown(network)
    sizes = {name: line.split(" ")[1] for name, line in found.items() if "parameter" in line}
    assert sizes == {
        "E0": "3x7",
        **dict.fromkeys(["WXO0", "WXI0", "WXF0", "WXC0"], "5x3"),
        **dict.fromkeys(["bo0", "bc0", "bi0", "bf0"], "5x1"),
        **dict.fromkeys(["WHI0", "WHF0", "WHO0", "WHC0"], "5x5"),
        **dict.fromkeys(["WCI0", "WCF0", "WCO0"], "5x1"),
        "W2": "5x7",
        "WeightForClassPostProb": "2x5",
    }
    order = "WXO0 WXI0 WXF0 WXC0 bo0 bc0 bi0 bf0 WHI0 WCI0 WHF0 WCF0 WHO0 WCO0 WHC0"
    assert [node.name for node in network.nodes if node.name in order.split()] == order.split()
    assert found["features"] == "sparse_input() 7x* #feature"
    assert found["outputs"].endswith("7x* #output")
    assert found["PosteriorProb"] == "softmax(outputs) 7x*"
    ops = [line.split("(")[0] for line in found.values()]
    assert ops.count("past_value") == 7
    assert ops.count("diag_times") == 3
    assert ops.count("sigmoid") == 3


def test_constant_gates_are_not_there() -> None:
    network = gc.simple_network(
        [7, 3, 5, 7],
        rnn_type="CLASSLSTM",
        lookup_table_order=1,
        nbr_class=2,
        const_forget_gate_value=True,
        const_input_gate_value=True,
        const_output_gate_value=True,
        **CLASSES,
    )
    ops = [line.split("(")[0] for line in shown(network).values()]
    assert ops.count("sigmoid") == 0
    assert ops.count("element_times") == 0


def test_direct_connections() -> None:
    found = shown(
        gc.simple_network([6, 5, 4, 3], rnn_type="LSTM", direct_connect=[0, 1], layer_types="Tanh")
    )
    assert found["D0"] == "parameter() 4x6"
    assert found["D1"] == "parameter() 4x5"
    assert found["SV1"] == "parameter() 1x1"
    assert found["S0"].startswith("scale(SV0, ")
    assert found["S1"].startswith("scale(SV1, ")
    table = shown(
        gc.simple_network([6, 5, 4, 3], rnn_type="LSTM", lookup_table_order=2, direct_connect=[1])
    )
    assert table["D0"] == "parameter() 4x10"


def test_lblm() -> None:
    network = gc.simple_network([7, 5, 7], rnn_type="LBLM", ma_order=2, recurrent_layer=[1])
    require(
        network,
        """
        features = input() 7x* #feature
        pastValue1 = past_value(features) 7x*
        DD1 = parameter() 7x7
        AutoName0 = times(DD1, pastValue1) 7x*
        AutoName1 = plus(features, AutoName0) 7x*
        pastValue2 = past_value(features) 7x*
        DD2 = parameter() 7x7
        AutoName2 = times(DD2, pastValue2) 7x*
        AutoName3 = plus(AutoName1, AutoName2) 7x*
        U0 = parameter() 5x7
        AutoName4 = times(U0, AutoName3) 5x*
        R1 = parameter() 5x5
        AutoName5 = past_value(AutoName7) 5x*
        AutoName6 = times(R1, AutoName5) 5x*
        AutoName7 = plus(AutoName6, AutoName4) 5x*
        bi0 = parameter() 5x1
        AutoName8 = plus(AutoName7, bi0) 5x*
        W1 = parameter() 7x5
        labels = input() 7x* #label
        AutoName9 = times(W1, AutoName8) 7x*
        CrossEntropyWithSoftmax = cross_entropy_with_softmax(labels, AutoName9) 1x1 #criterion
        EvalErrorPrediction = error_prediction(labels, AutoName9) 1x1 #evaluation
        outputs = times(W1, AutoName8) 7x* #output
        """,
    )
    with_table = shown(
        gc.simple_network([6, 5, 4, 7], rnn_type="LBLM", ma_order=1, lookup_table_order=2)
    )
    assert with_table["Lookuptatble"] == "lookup_table(E0, features) 10x*"
    assert with_table["DD1"] == "parameter() 10x10"
    assert with_table["U1"] == "parameter() 4x10"


def test_initial_values_follow_the_choices_and_the_seed() -> None:
    wide = gc.simple_network([50, 40, 3], init_value_scale=4, seed=3).parameters["W0"]
    assert 0.19 < abs(wide).max() <= 0.2
    again = gc.simple_network([50, 40, 3], init_value_scale=4, seed=3).parameters["W0"]
    assert (wide == again).all()
    other = gc.simple_network([50, 40, 3], init_value_scale=4, seed=4).parameters["W0"]
    assert (wide != other).any()
    normal = gc.simple_network([400, 40, 3], uniform_init=False).parameters["W0"]
    assert abs(normal.std() - 0.2 / 400**0.5) < 0.0005
    assert abs(normal).max() > 0.025
