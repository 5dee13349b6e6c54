"""The book's Simple demo through a configuration: its numbers, what it costs, how soon it starts.

    python bench/toolkit/simple.py FOLDER [--seeds 5] [--runs 5]

FOLDER has the toolkit's SimpleDataTrain.txt and SimpleMapping.txt. Prints

* the training criterion after epochs 1, 2 and 50 for each seed of the initial values, beside the
  toolkit's log;
* the time of a training with checkpoints through `graphc cntk` and through `gc.train`, both in one
  process that has compiled the step before, so that reading the configuration and writing the log
  are all that differs;
* the time from the start of `graphc cntk` to its first epoch, with an empty and a warm cache.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import graphc as gc
from graphc.cli.main import main as graphc_main
from graphc.data.uci import Columns, FeatureBlock, LabelBlock
from graphc.data.uci_reader import uci
from graphc.toolkit.model_files import ModelFiles

TOOLKIT = {1: 0.679, 2: 0.166, 50: 0.1529}
NETWORK = """layerSizes=2:50*2:2;trainingCriterion=CrossEntropyWithSoftmax;
evalCriterion=ErrorPrediction;layerTypes=Sigmoid;applyMeanVarNorm=true;needPrior=true"""
CONFIG = f"""
command=Train
modelPath=models/simple.dnn
deviceId=cpu
Train=[
  action=train
  SimpleNetworkBuilder=[{NETWORK}]
  SGD=[minibatchSize=25; learningRatesPerMB=0.5:0.2*20:0.1; momentumPerMB=0.9; maxEpochs=50]
  reader=[
    readerType=UCIFastReader
    file=SimpleDataTrain.txt
    features=[dim=2; start=0]
    labels=[start=2; labelDim=2; labelMappingFile=SimpleMapping.txt]
  ]
]
"""


def log_of(*words: str) -> str:
    """The log of a run in this process."""
    log = io.StringIO()
    code = graphc_main(["cntk", "configFile=simple.config", *words], None, io.StringIO(), log)
    if code:
        raise SystemExit(log.getvalue())
    return log.getvalue()


def criteria(log: str) -> dict[int, float]:
    found = re.findall(r"Finished Epoch\[(\d+)\]: .Training Set. TrainLossPerSample = (\S+);", log)
    return {int(epoch): float(value) for epoch, value in found}


def forget_models() -> None:
    shutil.rmtree("models", ignore_errors=True)


def numbers(seeds: int) -> None:
    runs: list[dict[int, float]] = []
    print("seed    epoch 1   epoch 2   epoch 50")
    for seed in range(seeds):
        forget_models()
        builder = f"Train=[SimpleNetworkBuilder=[randomSeedOffset={seed}]]"
        run = criteria(log_of(builder))
        runs.append(run)
        print(f"{seed:>4} {run[1]:>10.4f} {run[2]:>9.4f} {run[50]:>10.4f}")
    for name, choose in (("median", statistics.median), ("lowest", min), ("highest", max)):
        cells = [choose([run[epoch] for run in runs]) for epoch in TOOLKIT]
        print(f"{name:<7}{cells[0]:>8.4f} {cells[1]:>9.4f} {cells[2]:>10.4f}")
    print("toolkit" + "".join(f"{value:>9.4f} " for value in TOOLKIT.values()))


def trained_in_python() -> None:
    """The same training through Python: network, reader, checkpoints in the same files."""
    net = gc.simple_network(
        [2, 50, 50, 2],
        training_criterion="CrossEntropyWithSoftmax",
        eval_criterion="ErrorPrediction",
        apply_mean_var_norm=True,
        need_prior=True,
    )
    mapping = tuple(Path("SimpleMapping.txt").read_text(encoding="utf-8").split())
    blocks = [
        FeatureBlock("features", Columns(0, 2)),
        LabelBlock("labels", Columns(2, 1), 2, mapping),
    ]
    Path("models").mkdir()
    gc.train(
        net,
        uci("SimpleDataTrain.txt", blocks),
        epochs=50,
        minibatch=25,
        learning_rate="0.5:0.2*20:0.1",
        momentum=0.9,
        checkpoints=gc.Checkpoints(ModelFiles(Path("models/simple.dnn"), 50)),
    )


def costs(runs: int) -> None:
    times: dict[str, list[float]] = {"python": [], "configuration": []}
    for run in range(runs + 1):  # the first one compiles
        for name, train in (("python", trained_in_python), ("configuration", log_of)):
            forget_models()
            start = time.perf_counter()
            train()
            if run:
                times[name].append(time.perf_counter() - start)
    for name, seconds in times.items():
        spread = f"{min(seconds):.3f} to {max(seconds):.3f}"
        print(f"{name:<14} {statistics.median(seconds):.3f} s  ({spread}, {runs} runs)")
    cost = min(times["configuration"]) / min(times["python"]) - 1
    print(f"configuration over Python, fastest runs: {100 * cost:+.1f} %")


def starts(runs: int, cache: Path) -> None:
    program = [sys.executable, "-c", "from graphc.cli.main import console; console()"]
    words = [*program, "cntk", "configFile=simple.config", "traceLevel=1"]
    for name in ("empty cache", "warm cache"):
        found: list[float] = []
        for _ in range(runs):
            if name == "empty cache":
                shutil.rmtree(cache, ignore_errors=True)
            forget_models()
            start = time.perf_counter()
            # As for users: modules are compiled once and kept.
            kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            environment = {**kept, "GRAPHC_CACHE": "on", "XDG_CACHE_HOME": str(cache)}
            with subprocess.Popen(
                words, stderr=subprocess.PIPE, text=True, env=environment
            ) as child:
                assert child.stderr is not None
                for line in child.stderr:
                    if line.startswith(" Epoch["):
                        found.append(time.perf_counter() - start)
                        break
                child.kill()
        text = f"{min(found):.2f} to {max(found):.2f}"
        print(f"start to first minibatches, {name}: {statistics.median(found):.2f} s ({text})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("SimpleDataTrain.txt", "SimpleMapping.txt"):
            shutil.copy(given.folder / name, folder)
        with contextlib.chdir(folder):
            Path("simple.config").write_text(CONFIG, encoding="utf-8")
            numbers(given.seeds)
            costs(given.runs)
            starts(given.runs, Path(folder) / "cache")


if __name__ == "__main__":
    main()
