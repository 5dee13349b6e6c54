"""A training by MPI processes in C, of one library for any number of them.

    python examples/cluster/mpi_train.py [--members 1,2,4] [--epochs 5]

makes the library of a training step of the digits with `graphc compile --train --members`, compiles
mpi_train.c with it (`mpicc`), runs that by so many processes in turn, and compares what they learn
with what one member learns in Python. Needs an MPI (`apt install libopenmpi-dev openmpi-bin`).
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

import graphc as gc

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "digits" / "train.txt"
NETWORK = """
x = Input(64, tag=feature)
labels = Input(10, tag=label)
scaled = Scale(0.0625, x)
kernel = Parameter(50, 64, init=uniform, initValueScale=0.5)
scale = Parameter(50, 1, init=fixedValue, value=1)
shift = Parameter(50, 1, init=fixedValue, value=0)
mean = Parameter(50, 1, init=fixedValue, value=0, needGradient=false)
inverse = Parameter(50, 1, init=fixedValue, value=1, needGradient=false)
seen = BatchNormalization(Times(kernel, scaled), scale, shift, mean, inverse, expAvgFactor=0.1)
h = Dropout(Tanh(seen))
w = Parameter(10, 50, init=uniform, initValueScale=0.5)
bias = Parameter(10, 1, init=fixedValue, value=0)
logits = Plus(Times(w, h), bias)
loss = CrossEntropyWithSoftmax(labels, logits, tag=criteria)
wrong = ErrorPrediction(labels, logits, tag=eval)
"""
RATE, MOMENTUM, MINIBATCH, DROPOUT = 0.5, 0.9, 32, 0.2
MPIRUN = os.environ.get("MPIRUN", "mpirun --oversubscribe")


def main(members: list[int], epochs: int, out: Path) -> int:
    out.mkdir(exist_ok=True)
    (out / "step.ndl").write_text(NETWORK)
    graphc = [sys.executable, "-c", "from graphc.cli.main import console; console()"]
    learner = ["--learning-rate", str(RATE), "--momentum", str(MOMENTUM), "--bound", str(MINIBATCH)]
    step = ["compile", "step.ndl", "--train", "--members", "--comm-sync-batchnorm", *learner]
    run([*graphc, *step, "-o", "step", "--emit", "so,header"], out)
    program = ["mpicc", "-std=c11", "-O2", "-I.", str(HERE / "mpi_train.c"), "./step.so", "-lm"]
    run([*program, "-o", "mpi_train", "-Wl,-rpath,$ORIGIN"], out)
    expected = alone(out, epochs)
    worst = 0.0
    for count in members:
        command = [*shlex.split(MPIRUN), "-n", str(count), "./mpi_train", str(DATA), str(epochs)]
        said = run([*command, "step.state"], out).splitlines()
        found = read_state(out / "step.so", out / "step.state")
        off = max(float(np.abs(found[name] - value).max()) for name, value in expected.items())
        print(f"{count} members: {said[-1]}; parameters within {off:.1e} of one in Python")
        worst = max(worst, off)
    return 0 if worst < 1e-4 else 1


def alone(out: Path, epochs: int) -> dict[str, np.ndarray]:
    """The parameters of one member in Python."""
    rows = np.loadtxt(DATA, dtype=np.float32)
    data = {"x": rows[:, :64], "labels": np.eye(10, dtype=np.float32)[rows[:, 64].astype(int)]}
    net = gc.load(out / "step.ndl")
    learner = gc.SGD(RATE, momentum=MOMENTUM)
    step = gc.compile_training(net, learner=learner, batch=MINIBATCH, dropout=DROPOUT)
    for _ in range(epochs):
        loss = step.run_epoch(data)["loss"].sum() / len(rows)
    print(f"one member in Python: epoch {epochs}: loss {loss:.6f}")
    return dict(net.parameters)


def read_state(library: Path, path: Path) -> dict[str, np.ndarray]:
    """The arrays in a state, which the library says the places of."""
    info = ctypes.CDLL(str(library)).step_info
    info.restype = ctypes.c_char_p
    content = path.read_bytes()
    return {
        held["name"]: np.ndarray(held["shape"], np.float32, content, held["offset"])
        for held in json.loads(info())["state"]
    }


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", default="1,2,4")
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args()
    counts = [int(count) for count in given.members.split(",")]
    sys.exit(main(counts, given.epochs, HERE / "out"))
