"""Networks as ONNX files, exported by PyTorch for training: graphc's step next to PyTorch's own.

    python -m bench.onnx_training [NAMES] [--threads 1,2] [--rounds 15]

A minibatch in f32, forward and backward pass and an update of every parameter; batch normalisation
takes the statistics of the minibatch. The loss is the squared error of the output. A line for each
network and number of threads: the minibatch, the time to compile the step, the times of a step
(least of all rounds, in turns), their ratio, and how far the losses of two steps are apart. Needs
torch and onnx.
"""

from __future__ import annotations

import argparse
import os
import warnings
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import graphc as gc
from bench.onnx_files import NETWORKS, Network, in_turns

MINIBATCHES = {"mobile": 16, "residual": 8, "u-net": 8, "lstm": 16, "transformer": 8, "mlp": 128}
RATE = 1e-4


def exported(module: Any, x: Any, path: Path) -> None:
    """The file, with an open number of samples."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (x,),
            str(path),
            dynamo=False,
            opset_version=17,
            training=torch.onnx.TrainingMode.TRAINING,
            do_constant_folding=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "n"}, "y": {0: "n"}},
        )


def line(name: str, folder: Path, threads: int, rounds: int) -> str:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    samples = MINIBATCHES[name]
    network: Network = replace(NETWORKS[name], shape=(samples, *NETWORKS[name].shape[1:]))
    module, path = network.make(torch.nn).train(), folder / f"{name}.onnx"
    x = torch.randn(*network.shape)
    exported(module, x, path)
    program = gc.load_program(path, bounds={"n": samples})
    start = perf_counter()
    learner = gc.SGD(learning_rate=RATE * samples)  # graphc's rates are of the mean over samples
    step = gc.compile_training(
        program, loss="squared_error", output="y", learner=learner, threads=threads
    )
    compiled = perf_counter() - start
    optimizer = torch.optim.SGD(module.parameters(), RATE, fused=True)
    target = torch.zeros_like(module(x).detach())
    given = {"x": x.numpy(), "labels": target.numpy()}

    def ours() -> float:
        return float(step(**given)["loss"])

    def theirs() -> float:
        optimizer.zero_grad()
        loss = (module(x) - target).square().sum() / 2
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    losses = [(ours(), theirs()) for _ in range(2)]
    apart = max(abs(a - b) / abs(b) for a, b in losses)
    times = in_turns([ours, theirs], rounds)
    return (
        f"{name:12} {threads:7} {samples:9} {compiled:9.2f} {times[0] * 1e3:10.3f} "
        f"{times[1] * 1e3:10.3f} {times[0] / times[1]:6.2f} {apart:9.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="?", default=",".join(MINIBATCHES))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    os.environ["GRAPHC_CACHE"] = "off"  # so that every network is compiled
    print("network      threads minibatch compile s  graphc ms   torch ms  ratio     apart")
    with TemporaryDirectory() as folder:
        for name in given.names.split(","):
            for threads in map(int, given.threads.split(",")):
                print(line(name, Path(folder), threads, given.rounds), flush=True)


if __name__ == "__main__":
    main()
