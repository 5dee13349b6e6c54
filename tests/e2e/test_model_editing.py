"""Trained models that are edited and trained on, from the first file to the last."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.support.commands import graphc

MACROS = """
SBFF(x, rows, cols) {
  W = Parameter(rows, cols, init=gaussian)
  B = Parameter(rows, init=fixedValue, value=0)
  T = Times(W, x)  P = Plus(T, B)  S = Sigmoid(P)
}
SMBFF(x, rows, cols, labels) {
  W = Parameter(rows, cols, init=gaussian)
  B = Parameter(rows, init=fixedValue, value=0)
  T = Times(W, x)  F = Plus(T, B)
  CE = CrossEntropyWithSoftmax(labels, F)
}
"""
ONE_LAYER = """
features = Input(6, tag=feature)
labels = Input(3, tag=label)
L1 = SBFF(features, 16, 6)
CE = SMBFF(L1.S, 3, 16, labels, tag=criteria)
Err = ErrorPrediction(labels, CE.F, tag=eval)
OutputNodes = (CE.F)
"""
ADD_LAYER = """
m1=LoadModel($CurrModel$, format=cntk)
SetDefaultModel(m1)
HDim=16
L$NewLayer$=SBFF(L$CurrLayer$.S, HDim, HDim)
SetInput(CE.*T, 1, L$NewLayer$.S)
SetInput(L$NewLayer$.*T, 1, L$CurrLayer$.S)
SaveModel(m1,$NewModel$, format=cntk)
"""


def samples() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(400, 6)).astype(np.float32)
    label = (x[:, 0] * x[:, 1] > 0).astype(int) + (x[:, 2] > 1)
    return {"features": x, "labels": np.eye(3, dtype=np.float32)[label]}


def forward(parameters: dict[str, np.ndarray], layers: int, x: np.ndarray) -> np.ndarray:
    """The network of so many layers, from its formula."""
    h = x.astype(np.float64).T
    for n in range(1, layers + 1):
        h = 1 / (1 + np.exp(-(parameters[f"L{n}.W"] @ h + parameters[f"L{n}.B"])))
    return (parameters["CE.W"] @ h + parameters["CE.B"]).T


def test_layers_are_trained_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Discriminative pre-training: train one layer, let MEL add one, train on, and once more."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "macros.ndl").write_text(MACROS, encoding="utf-8")
    (tmp_path / "add_layer.mel").write_text(ADD_LAYER, encoding="utf-8")
    data = samples()
    net = gc.loads(ONE_LAYER, macros=MACROS)
    losses: list[float] = []
    for layers in (1, 2, 3):
        if layers > 1:
            values = {name: value.copy() for name, value in net.parameters.items()}
            done = graphc(
                "edit", "add_layer.mel", "--macros", "macros.ndl",
                "-D", f"CurrLayer={layers - 1}", "-D", f"NewLayer={layers}",
                "-D", f"CurrModel=dptmodel{layers - 1}/net.dnn",
                "-D", f"NewModel=dptmodel{layers}/net.dnn.0",
            )  # fmt: skip
            assert done.code == 0, done.err
            net = gc.load(f"dptmodel{layers}/net.dnn.0")
            assert all(np.array_equal(net.parameters[n], v) for n, v in values.items())
            assert net.parameters[f"L{layers}.W"].shape == (16, 16)
            assert net.parameters[f"L{layers}.W"].std() > 0
        records = gc.train(
            net, data, epochs=30, minibatch=20, learning_rate=1.0, momentum=0.5, backend="numpy"
        )
        losses += [records[0].criterion, records[-1].criterion]
        (tmp_path / f"dptmodel{layers}").mkdir(exist_ok=True)
        net.save(f"dptmodel{layers}/net.dnn")
        parameters = {n: v.astype(np.float64) for n, v in net.parameters.items()}
        found = gc.compile(net, backend="numpy")(features=data["features"])["CE.F"]
        assert np.allclose(found, forward(parameters, layers, data["features"]), atol=1e-4)
    for start, end in zip(losses[::2], losses[1::2], strict=True):
        assert end < start
    assert losses[-1] < losses[1]
    assert len(net.parameters) == 8


BOOK_MACROS = """
FF(X1, W1, B1) { T = Times(W1, X1)  P = Plus(T, B1) }
BFF(X1, rows, cols) { B = Parameter(rows)  W = Parameter(rows, cols)  FF = FF(X1, W, B) }
RBFF(input, rowCount, colCount) { BFF = BFF(input, rowCount, colCount)  RL = RectifiedLinear(BFF) }
SMBFF(X, rows, cols, labels) {
  BFF = BFF(X, rows, cols); SM = CrossEntropyWithSoftmax(labels, BFF)
}
"""
THREE_LAYERS = """
SDim = 20; HDim = 8; LDim = 4
features = Input(SDim, tag=feature)
labels = Input(LDim, tag=label)
L1 = RBFF(features, HDim, SDim)
L2 = RBFF(L1, HDim, HDim)
L3 = RBFF(L2, HDim, HDim)
CE = SMBFF(L3, LDim, HDim, labels, tag=Criteria)
Err = ErrorPrediction(labels, CE.BFF, tag=Eval)
OutputNodes = (CE.BFF)
"""


def test_a_layer_is_copied_and_the_input_normalised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps of the book's own example of MEL, with a network of its form."""
    monkeypatch.chdir(tmp_path)
    net = gc.loads(THREE_LAYERS, macros=BOOK_MACROS)
    net.save("mymodel.dnn")
    gc.edits(
        """
        model1 = LoadModel("mymodel.dnn", format=cntk)
        SetDefaultModel(model1)
        DumpModel(model1, "original.dmp", includeData = true)
        #create another hidden layer
        Copy(L3.*, L4.*, copy=all)
        SetInput(L4.*.T, 1, L3.RL) # Layer 3 output to Layer 4 input
        SetInput(CE.*.T, 1, L4.RL) # Layer 4 output to Top layer input
        meanVal = Mean(features)
        invstdVal = InvStdDev(features)
        inputVal = PerDimMeanVarNormalization(features, meanVal,
            invstdVal)
        SetInput(L1.BFF.FF.T, 1, inputVal)
        SaveModel("mymodel4HiddenWithMeanVarNorm.cn")
        """
    )
    new = gc.load("mymodel4HiddenWithMeanVarNorm.cn")
    x = np.random.default_rng(1).normal(3, 2, (50, 20))
    new.precompute(features=x)
    found = gc.compile(new, ["CE.BFF.FF.P"], backend="numpy")(features=x)["CE.BFF.FF.P"]
    parameters = {n: v.astype(np.float64) for n, v in net.parameters.items()}
    h = ((x - x.mean(axis=0)) / x.std(axis=0)).T
    for layer in ("L1", "L2", "L3", "L3"):
        h = np.maximum(parameters[f"{layer}.BFF.W"] @ h + parameters[f"{layer}.BFF.B"], 0)
    expected = (parameters["CE.BFF.W"] @ h + parameters["CE.BFF.B"]).T
    assert np.allclose(found, expected, atol=1e-5)
    listing = (tmp_path / "original.dmp").read_text(encoding="utf-8")
    assert "\nL3.BFF.FF.T=Times(L3.BFF.W,L2.RL)\n" in listing
    assert listing.count("#" * 68) == 8


def test_a_factorised_network_is_trained_on(tmp_path: Path) -> None:
    data = samples()
    net = gc.loads(ONE_LAYER, macros=MACROS)
    settings = {"minibatch": 20, "learning_rate": 1.0, "backend": "numpy"}
    (*_, before) = gc.train(net, data, epochs=15, **settings)  # type: ignore[arg-type]
    assert isinstance(net, gc.Network)
    net.factorise("*.W", 0.5)
    net.save(tmp_path / "small.dnn")
    again = gc.load(tmp_path / "small.dnn")
    (*_, after) = gc.train(again, data, epochs=15, **settings)  # type: ignore[arg-type]
    assert after.criterion < before.criterion
    assert again.parameters["L1.W-U"].shape == (16, 6)


@pytest.mark.parametrize("precision", ["float", "double"])
@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_an_edited_network_computes_on_every_backend(backend: str, precision: str) -> None:
    net = gc.loads(ONE_LAYER, macros=MACROS)
    gc.edits(
        "L2 = SBFF(L1.S, 16, 16)\nSetInput(CE.T, 1, L2.S)\nCopy(L2.*, L3.*)\n"
        "SetInput(L3.T, 1, L2.S)\nSetInput(CE.T, 1, L3.S)",
        macros=MACROS,
        models={"m": net},
    )
    assert isinstance(net, gc.Network)
    net.factorise("L2.W", 0.3)
    exe = gc.compile(net, backend=backend, precision=precision, batch=8)
    parameters = {n: v.astype(np.float64) for n, v in net.parameters.items()}
    parameters["L2.W"] = parameters["L2.W-U"] @ parameters["L2.W-V"]
    for count in (0, 1, 11):
        x = samples()["features"][:count]
        found = exe(features=x)["CE.F"]
        assert found.shape == (count, 3)
        assert np.allclose(found, forward(parameters, 3, x), atol=1e-5)


@pytest.mark.parametrize("how", ["set_operand", "set_input"])
def test_sizes_follow_another_operand_also_before_the_edit_ends(how: str) -> None:
    """A size that a node had before must not decide what is computed."""
    net = gc.Network()
    x, y = net.input("x", 3), net.input("y", 5)
    s = net.sigmoid(x, name="s")
    net.tanh(s, name="t", tag="output")
    assert gc.compile(net, backend="numpy")(x=np.zeros((1, 3)))["t"].shape == (1, 3)
    with net.edit():
        if how == "set_operand":
            net.set_operand(s, 0, y)
        else:
            net.set_input("s", 0, y)
        found = gc.compile(net, backend="numpy")(y=np.zeros((2, 5), np.float32))
    assert found["t"].shape == (2, 5)
