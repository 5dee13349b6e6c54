"""An ONNX network is tuned to images that it does not know: in Python, and from C.

    python examples/fine_tuning/fine_tuning.py

A small convolutional network knows the digits as light strokes on dark ground, and takes dark
strokes on light ground for something else. It is an ONNX file, made here without PyTorch. Its
training step becomes a library with which a C program (`train.c`) learns the same, to the bit.
Needs onnx and a C compiler. What is made stands in `out/` beside this file.
"""

from __future__ import annotations

import ctypes
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphc as gc

HERE = Path(__file__).parent
DIGITS = HERE.parent / "digits"
GRAPHC = shutil.which("graphc", path=str(Path(sys.executable).parent)) or shutil.which("graphc")

MINIBATCH = 20
RATE, LAST = 0.02, 0.001
"""Of Adam; from the first to the second one along a cosine."""
LOSS = "softmax_cross_entropy"
ERROR = "classification_error"

Array = np.ndarray
Data = dict[str, Array]


def main(samples: int = 400, epochs: int = 15, out: Path = HERE / "out") -> int:
    """0 if the tuned network is right about more digits and C learns the same; else 1."""
    out.mkdir(exist_ok=True)
    known, unknown = read(DIGITS / "train.txt"), read(DIGITS / "test.txt")
    write_network(out / "digits.onnx", known)
    tuning, test = dark(first(known, samples)), dark(unknown)

    net = gc.load_program(out / "digits.onnx", bounds={"batch": MINIBATCH})
    before = gc.evaluate(net, test, measure=ERROR)[ERROR]
    print(f"light on dark: {percent(gc.evaluate(net, unknown, measure=ERROR)[ERROR])} wrong")
    print(f"dark on light: {percent(before)} wrong")

    updates = samples // MINIBATCH * epochs
    learner = gc.Adam(gc.Cosine(RATE, updates, LAST))
    records = gc.train(
        net,
        tuning,
        learner=learner,
        loss=LOSS,
        measure=ERROR,
        epochs=epochs,
        minibatch=MINIBATCH,
        shuffle=False,
    )
    net.save(out / "tuned.safetensors")
    after = gc.evaluate(net, test, measure=ERROR)[ERROR]
    print(f"tuned in Python, {samples} digits, {epochs} epochs: {percent(after)} wrong")

    state, said = train_in_c(out, tuning, epochs, updates)
    print(f"tuned from C: {said[-1]}")
    is_same = all(np.array_equal(state[name], value) for name, value in net.parameters.items())
    print(f"the parameters of both are {'the same' if is_same else 'different'}, bit for bit")
    loss = re.search(r"loss ([0-9.]+)", said[-1])
    is_same = is_same and loss is not None and abs(float(loss[1]) - records[-1].criterion) < 1e-4
    return 0 if is_same and after < before else 1


# --- the network ---------------------------------------------------------------------------------


def write_network(path: Path, known: Data) -> None:
    """An ONNX file with a network that was trained on these images."""
    rng = np.random.default_rng(0)
    shapes = {"kernel": (8, 1, 3, 3), "shift": (8,), "weight": (10, 72), "bias": (10,)}
    values = {
        name: rng.normal(0, 1 / math.sqrt(math.prod(shape[1:]) or 1), shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    onnx.save(model(values), path)
    net = gc.load_program(path)
    gc.train(net, known, loss=LOSS, learning_rate=0.3, momentum=0.9, minibatch=32, epochs=10)
    onnx.save(model(dict(net.parameters)), path)


def model(values: dict[str, Array]) -> onnx.ModelProto:
    """Pixels of 0 to 16 in, logits out: a convolution, pooling and a dense layer."""
    nodes = [
        helper.make_node("Mul", ["x", "sixteenth"], ["scaled"]),
        helper.make_node("Conv", ["scaled", "kernel", "shift"], ["found"], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["found"], ["lit"]),
        helper.make_node("MaxPool", ["lit"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight", "bias"], ["logits"], transB=1),
    ]
    nodes.insert(0, helper.make_node("Constant", [], ["sixteenth"], value_float=1 / 16))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 8, 8])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])
    held = [numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = helper.make_graph(nodes, "digits", [x], [logits], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


# --- from C --------------------------------------------------------------------------------------


def train_in_c(
    out: Path, tuning: Data, epochs: int, updates: int
) -> tuple[dict[str, Array], list[str]]:
    """What a C program learns with the library of the training step, and what it prints."""
    rows = np.column_stack([tuning["x"].reshape(-1, 64), tuning["labels"].argmax(1)])
    np.savetxt(out / "tuning.txt", rows, fmt="%d")
    step = [
        *("graphc", "compile", "digits.onnx", "--dim", f"batch={MINIBATCH}", "--train"),
        *("--loss", LOSS, "--measure", ERROR),
        *("--learner", "adam", "--learning-rate", str(RATE), "--cosine", f"{updates}:{LAST}"),
        *("-o", "tune", "--emit", "so,header"),
    ]
    run(step, out)
    program = [
        "cc",
        "-std=c11",
        "-O2",
        "-I.",
        str(HERE / "train.c"),
        "./tune.so",
        "-lm",
        "-o",
        "train",
    ]
    run([*program, "-Wl,-rpath,$ORIGIN"], out)
    said = run(["./train", "tuning.txt", str(epochs), "tuned.state"], out)
    return read_state(out / "tune.so", out / "tuned.state"), said.splitlines()


def read_state(library: Path, path: Path) -> dict[str, Array]:
    """The arrays in a state, which the library says the places of."""
    info = ctypes.CDLL(str(library)).tune_info
    info.restype = ctypes.c_char_p
    content = path.read_bytes()
    return {
        held["name"]: np.ndarray(held["shape"], np.float32, content, held["offset"])
        for held in json.loads(info())["state"]
    }


def run(command: list[str], folder: Path) -> str:
    """Show a command and run it there."""
    print(f"$ {' '.join(command)}", flush=True)
    command = [GRAPHC or "graphc", *command[1:]] if command[0] == "graphc" else command
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


# --- data ----------------------------------------------------------------------------------------


def read(path: Path) -> Data:
    """Images f32[samples, 1, 8, 8] of 0 to 16, and the shares of the classes."""
    rows = np.loadtxt(path, dtype=np.float32)
    images = np.ascontiguousarray(rows[:, :64].reshape(-1, 1, 8, 8))
    return {"x": images, "labels": np.eye(10, dtype=np.float32)[rows[:, 64].astype(int)]}


def dark(data: Data) -> Data:
    """Dark strokes on light ground."""
    return {**data, "x": 16 - data["x"]}


def first(data: Data, samples: int) -> Data:
    return {name: array[:samples] for name, array in data.items()}


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    sys.exit(main())
