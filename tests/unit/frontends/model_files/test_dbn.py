"""DBN files, from bytes written by hand: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from tests.support.model_bytes import dbn_file, integer

Array = np.ndarray

RNG = np.random.default_rng(4)
MEAN, DEVIATION = RNG.standard_normal((2, 1)), RNG.random((2, 1)) + 0.5
HIDDEN = ("rbmgaussbernoulli", RNG.standard_normal((4, 6)), RNG.standard_normal((4, 1)))
LINEAR = ("rbmisalinearbernoulli", RNG.standard_normal((5, 4)), RNG.standard_normal((5, 1)))
OUTPUT = ("perceptron", RNG.standard_normal((3, 5)), RNG.standard_normal((3, 1)))
PRIOR = np.array([[0.2], [0.3], [0.5]])


def load(folder: Path, data: bytes, name: str = "stack.dbn") -> gc.Network:
    (folder / name).write_bytes(data)
    network = gc.load(folder / name, seed=3)
    assert isinstance(network, gc.Network)
    return network


def single(value: Array) -> Array:
    return value.astype(np.float32).astype(np.float64)


def test_a_complete_stack(tmp_path: Path) -> None:
    data = dbn_file(MEAN, DEVIATION, [HIDDEN, LINEAR, OUTPUT], PRIOR)
    network = load(tmp_path, data)
    x = np.random.default_rng(1).standard_normal((7, 6))
    mean, deviation = np.tile(single(MEAN).T, 3), np.tile(single(DEVIATION).T, 3)
    normal = (x - mean) * single(1 / deviation)
    (_, w0, b0), (_, w1, b1), (_, w2, b2) = [
        (kind, single(w), single(b)) for kind, w, b in (HIDDEN, LINEAR, OUTPUT)
    ]
    hidden = 1 / (1 + np.exp(-(normal @ w0.T + b0.T)))
    expected = (hidden @ w1.T + b1.T) @ w2.T + b2.T - np.log(single(PRIOR).T)
    got = gc.compile(network, precision="f64")(features=x)
    assert list(got) == ["ScaledLogLikelihood"]
    assert np.allclose(got["ScaledLogLikelihood"], expected, rtol=0, atol=1e-6)
    assert [n.name for n in network.nodes if n.op != "parameter"] == [
        "features",
        "MeanOfFeatures",
        "InvStdOfFeatures",
        "MVNormalizedFeatures",
        "W0*H0",
        "W0*H0+B0",
        "H1",
        "W1*H1",
        "W1*H1+B1",
        "W2*H2",
        "HLast",
        "labels",
        "CrossEntropyWithSoftmax",
        "EvalErrorPrediction",
        "Prior",
        "LogOfPrior",
        "ScaledLogLikelihood",
    ]


def test_a_pretrained_stack_gets_an_output_layer_that_is_drawn(tmp_path: Path) -> None:
    network = load(tmp_path, dbn_file(MEAN, DEVIATION, [HIDDEN, LINEAR]), "any.name")
    assert network.parameters["W2"].shape == (5, 5)
    assert 0 < abs(network.parameters["W2"]).max() <= 0.05
    assert network.parameters["B2"].tolist() == [[0.0]] * 5
    assert np.array_equal(network.parameters["W0"], HIDDEN[1].astype(np.float32))
    last = network.find("HLast")
    assert last is not None
    assert last.tags == ("output",)
    x = np.zeros((2, 6))
    t = np.eye(5)[:2]
    gc.train(network, {"features": x, "labels": t}, epochs=1, learning_rate=0.1)


def test_what_a_file_does_not_say_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "stack").write_bytes(dbn_file(MEAN, DEVIATION, [HIDDEN, LINEAR]))
    network = gc.load_dbn(
        tmp_path / "stack",
        layer_types="Tanh",
        training_criterion="SquareError",
        eval_criterion="SquareError",
        need_prior=True,
        add_dropout_nodes=True,
        output_layer_size=2,
    )
    assert network.parameters["W2"].shape == (2, 5)
    tags = {n.name: n.tags for n in network.nodes if n.tags}
    assert tags["SquareError"] == ("criterion", "evaluation")
    assert tags["ScaledLogLikelihood"] == ("output",)
    hidden, dropped = network.find("H1"), network.find("DropH1")
    assert hidden is not None
    assert hidden.op == "tanh"
    assert dropped is not None
    x, t = np.zeros((4, 6)), np.eye(2)[[0, 0, 0, 1]]
    gc.train(network, {"features": x, "labels": t}, epochs=1, learning_rate=0.1)
    assert network.parameters["Prior"].tolist() == [[0.75], [0.25]]


@pytest.mark.parametrize("options", [{"output_layer_size": 0}, {"layer_types": "Sin"}])
def test_a_wrong_choice_is_an_error(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "stack").write_bytes(dbn_file(MEAN, DEVIATION, [HIDDEN, LINEAR]))
    with pytest.raises(gc.GraphcError, match="bad-option"):
        gc.load_dbn(tmp_path / "stack", **options)


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (b"DBN\n", "the comment requires at most 4096 characters"),
        (b"DBN\n\0BDBX", "the mark BDBN is required"),
        (b"DBN\n\0BDBN" + integer(1) + integer(0), "one layer or more is required, got 0"),
        (b"DBN\n\0BDBN" + integer(1) + integer(2**31 - 1), "one layer or more"),
        (dbn_file(MEAN, DEVIATION, [HIDDEN])[:-4], "the mark EDBN requires 4 bytes, 0 are left"),
        (dbn_file(MEAN, DEVIATION[:1], [HIDDEN]), "gstddev requires (2, 1), got (1, 1)"),
        (dbn_file(MEAN, DEVIATION, [LINEAR, HIDDEN]), "W of layer 1 requires (4, 5)"),
        (dbn_file(np.ones((4, 1)), np.ones((4, 1)), [HIDDEN]), "frames of 4 numbers, got 6"),
        (dbn_file(MEAN, DEVIATION, [HIDDEN]).replace(b"BMATW\0", b"BMATV\0"), "got `V`"),
        (
            dbn_file(MEAN, DEVIATION, [HIDDEN]).replace(
                integer(6) + integer(4), integer(2**30) + integer(2**30)
            ),
            "bytes",
        ),
        (
            dbn_file(MEAN, DEVIATION, [HIDDEN]).replace(
                integer(6) + integer(4), integer(-6) + integer(-4)
            ),
            "at least one row and column, got -6x-4",
        ),
        (dbn_file(MEAN, DEVIATION, [OUTPUT], PRIOR[:2]), "Pu requires (3, 1)"),
    ],
)
def test_damage_is_one_error_that_says_where(tmp_path: Path, data: bytes, part: str) -> None:
    with pytest.raises(gc.GraphcError) as caught:
        load(tmp_path, data, "stack")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.slug == "bad-model-file"
    assert part in diagnostic.message
