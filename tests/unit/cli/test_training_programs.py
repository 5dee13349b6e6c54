"""`train` and `eval` of programs: the same bits as from Python, whatever file they come from."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.support.commands import graphc

PYTHON = """
import numpy as np
import graphc as gc


def pictures(x, kernel, w):
    h = gc.relu(gc.conv(x, kernel))
    return {"hidden": h, "logits": gc.reshape(h, (x.shape[0], 18)) @ w}


rng = np.random.default_rng(1)
drawn = {"kernel": rng.normal(size=(2, 2, 1, 2)), "w": rng.normal(size=(18, 3))}
values = {name: value.astype("f4") for name, value in drawn.items()}
net = gc.program(pictures, {"x": "Nx4x4x1"}, parameters=values)
steps = gc.program(lambda x, w: x @ w, {"x": "NxTx2xf64"}, parameters={"w": np.ones((2, 3))})
"""
COLUMNS = ("--features", "0:16", "--labels", "16", "--classes", "3")
OBJECTIVE = ("--loss", "softmax_cross_entropy", "--of", "logits")
MEASURED = (*OBJECTIVE, "--measure", "classification_error")
RATES = ("--epochs", "3", "--minibatch", "8", "--learning-rate", "0.2", "--momentum", "0.5")
NETWORK = (
    "x = Input(2, tag=feature)\nt = Input(1, tag=label)\nW = Parameter(1, 2)\nz = Times(W, x)\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(PYTHON)
    (tmp_path / "net.ndl").write_text(NETWORK + "e = SquareError(t, z, tag=criteria)\n")
    x, classes = samples()
    rows = np.column_stack([x.reshape(20, 16), classes])
    np.savetxt(tmp_path / "data.txt", rows, fmt="%.9g")
    np.save(tmp_path / "data.npy", rows)
    np.savez(tmp_path / "data.npz", x=x, labels=classes)
    return tmp_path


def samples() -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(20, 4, 4, 1)).astype(np.float32)
    return x, x.reshape(20, 16)[:, :3].argmax(1)


def program(folder: Path) -> gc.Program:
    return runpy.run_path(str(folder / "net.py"))["net"]


def trained(folder: Path) -> dict[str, np.ndarray]:
    """From Python."""
    net, (x, classes) = program(folder), samples()
    gc.train(
        net,
        {"x": x, "labels": np.eye(3)[classes]},
        loss="softmax_cross_entropy",
        output="logits",
        epochs=3,
        minibatch=8,
        learning_rate=0.2,
        momentum=0.5,
    )
    return dict(net.parameters)


def test_every_door_gives_the_same_bits(folder: Path) -> None:
    program(folder).save(folder / "saved.safetensors")
    dumped = graphc("dump", folder / "saved.safetensors", "--stage", "tensor")
    (folder / "net.gir").write_text(dumped.out)
    wanted, made = trained(folder), folder / "made.safetensors"
    given = ("--parameters", folder / "saved.safetensors")
    doors: list[tuple[str | Path, ...]] = [
        (f"{folder / 'net.py'}:net", "--data", folder / "data.txt", *COLUMNS),
        (folder / "saved.safetensors", "--data", folder / "data.npy", *COLUMNS),
        (folder / "saved.safetensors", "--data", folder / "data.npz"),
        (folder / "net.gir", *given, "--data", folder / "data.txt", *COLUMNS),
    ]
    for door in doors:
        done = graphc("train", *door, *MEASURED, *RATES, "-o", made, "--json")
        assert done.code == 0, done.err
        found = gc.load_program(made).parameters
        assert {n: v.tobytes() for n, v in found.items()} == {
            n: v.tobytes() for n, v in wanted.items()
        }, door
    assert json.loads(done.out)["epochs"][2]["evaluations"].keys() == {"classification_error"}
    x, classes = samples()
    measured = gc.evaluate(
        gc.load_program(made),
        {"x": x, "labels": classes.astype(np.int32)},
        labels="Nxi32",
        loss="softmax_cross_entropy",
        output="logits",
        measure="classification_error",
    )
    done = graphc("eval", made, "--data", folder / "data.txt", *COLUMNS, *MEASURED, "--json")
    assert json.loads(done.out)["averages"] == pytest.approx(measured)
    numbers = ("--features", "0:16", "--labels", "16", "--label-type", "Nxi32")
    done = graphc("eval", made, "--data", folder / "data.npy", *numbers, *MEASURED, "--json")
    assert json.loads(done.out)["averages"] == pytest.approx(measured)
    done = graphc("run", made, "--nodes", "logits", folder / "data.npy")
    assert done.code == 3 and "Nx4x4x1" in done.err.replace(", ", "x")


def test_it_goes_on_from_a_checkpoint_and_trains_what_patterns_name(folder: Path) -> None:
    net, made = f"{folder / 'net.py'}:net", folder / "made.safetensors"
    data = (
        "--data",
        folder / "data.txt",
        *COLUMNS,
        *OBJECTIVE,
        "--validation",
        folder / "data.txt",
    )
    again = ("--checkpoint", folder / "c.safetensors", "-o", made, "--only", "k*", *RATES[2:])
    assert graphc("train", net, *data, *again, "--epochs", "1").code == 0
    done = graphc("train", net, *data, *again, "--epochs", "3", "--resume")
    assert done.code == 0, done.err
    stopped = gc.load_program(made).parameters
    np.testing.assert_array_equal(stopped["w"], program(folder).parameters["w"])
    done = graphc("train", net, *data, "-o", made, "--only", "kernel", *RATES)
    assert np.array_equal(gc.load_program(made).parameters["kernel"], stopped["kernel"])
    for command in ("compile", "dump"):
        out = ("-o", folder / "made.h") if command == "compile" else ()
        assert graphc(command, made, *out).code == 0


TEXT = ("--data", "data.txt", *COLUMNS)
WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "loss": (("net.py:net", *TEXT, "--loss", "mse"), 2, "'softmax_cross_entropy'"),
    "no loss": (("net.py:net", *TEXT, "--of", "logits"), 3, "--loss, is required"),
    "no output": (("net.py:net", *TEXT, "--loss", "squared_error"), 3, "results: hidden, logits"),
    "output": (("net.py:net", *TEXT, *OBJECTIVE[:3], "logit"), 3, "did you mean `logits`"),
    "pattern": (("net.py:net", *TEXT, *OBJECTIVE, "--only", "v"), 3, "`v` fits no parameter"),
    "criterion": (("net.py:net", *TEXT, *OBJECTIVE, "--criterion", "e"), 2, "is for networks"),
    "precision": (("net.py:net", *TEXT, *OBJECTIVE, "--precision", "double"), 2, "says it"),
    "network": (("net.ndl", *TEXT, "--loss", "squared_error"), 2, "is for programs"),
    "parameters": (("net.ndl", *TEXT, "--parameters", "net.ndl"), 2, "a program or IR"),
    "other parameters": (
        ("net.py:net", *TEXT, *OBJECTIVE, "--parameters", "net.ndl"),
        3,
        "has none of the parameters",
    ),
    "columns": (
        ("net.py:net", "--data", "data.txt", "--features", "0:9", *OBJECTIVE),
        2,
        "requires 16 columns",
    ),
    "classes": (("net.py:net", *TEXT[:-1], "4", *OBJECTIVE), 2, "requires 3 classes, got 4"),
    "input": (
        ("net.py:net", "--data", "data.txt", "--features", "y=0:16", *OBJECTIVE),
        2,
        "program has no input",
    ),
    "steps": (("net.py:steps", *TEXT, "--loss", "squared_error"), 3, "a known number of columns"),
    "name": (("net.py:nett", *TEXT, *OBJECTIVE), 3, "did you mean `net`"),
    "dims": (("net.py:net", *TEXT, *OBJECTIVE, "--dim", "N=4"), 2, "is for ONNX files"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_said(case: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    argv, code, message = WRONG[case]
    done = graphc("train", *argv, "--learning-rate", "0.1", "-o", "made.safetensors")
    assert (done.code, message in " ".join(done.err.split())) == (code, True), done.err
    assert not (folder / "made.safetensors").exists()


def test_ir_without_values_says_where_they_come_from(folder: Path) -> None:
    program(folder).save(folder / "saved.safetensors")
    dumped = graphc("dump", folder / "saved.safetensors", "--stage", "tensor")
    (folder / "net.gir").write_text(dumped.out)
    data = ("--data", folder / "data.txt", *COLUMNS, *OBJECTIVE)
    done = graphc("eval", folder / "net.gir", *data)
    assert done.code == 3 and "`kernel` requires a value" in done.err
