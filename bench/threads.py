"""What threads bring: calls with 1 and with more threads in turns, and the same bits.

    python -m bench.threads [--threads N]

Least and median time of many calls. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable

import numpy as np

import graphc as gc
from graphc.learn.step import TrainingStep
from graphc.runtime.executable import Executable

ROUNDS = 40
SECONDS = 0.02  # of one round

Call = Callable[[], object]


def layers(sizes: list[int], activation: str) -> str:
    """A network of dense layers with softmax cross entropy."""
    text = f"features = Input({sizes[0]}, tag=feature)\nlabels = Input({sizes[-1]}, tag=label)\n"
    h = "features"
    for i, (rows, width) in enumerate(itertools.pairwise(sizes)):
        text += f"W{i} = Parameter({width}, {rows})\nB{i} = Parameter({width}, 1)\n"
        text += f"s{i} = Plus(Times(W{i}, {h}), B{i})\nh{i} = {activation}(s{i})\n"
        h = f"h{i}"
    return text + f"ce = CrossEntropyWithSoftmax(labels, s{len(sizes) - 2}, tag=criterion)\n"


def training(sizes: list[int], activation: str, samples: int) -> tuple[TrainingStep, Call]:
    """A momentum step on a minibatch of this size."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, sizes[0])).astype(np.float32)
    y = np.eye(sizes[-1], dtype=np.float32)[rng.integers(0, sizes[-1], samples)]
    network = gc.loads(layers(sizes, activation))
    step = gc.compile_training(network, batch=samples, learner=gc.SGD(0.001, momentum=0.9))
    return step, lambda: step(features=x, labels=y)


def inference(text: str, rows: int, samples: int) -> tuple[Executable, Call]:
    """The output node for so many samples."""
    x = np.random.default_rng(0).standard_normal((samples, rows)).astype(np.float32)
    executable = gc.compile(gc.loads(text), batch=samples)
    return executable, lambda: executable(features=x)


PRODUCT = """
features = Input(512, tag=feature)
W = Parameter(512, 512)
z = Times(W, features, tag=output)
"""
CHAIN = """
features = Input(1024, tag=feature)
a = Parameter(1024, 1)
b = Parameter(1024, 1)
t = Tanh(Plus(DiagTimes(a, features), b))
z = Plus(ElementTimes(t, Sigmoid(Minus(features, b))), ElementTimes(features, features), tag=output)
"""
SOFTMAX = """
features = Input(1024, tag=feature)
z = Softmax(features, tag=output)
"""

WORKLOADS: dict[str, Callable[[], tuple[Executable | TrainingStep, Call]]] = {
    "product 256x512x512": lambda: inference(PRODUCT, 512, 256),
    "W1, minibatch 25": lambda: training([2, 50, 50, 2], "Sigmoid", 25),
    "W2a": lambda: training([784, 256, 10], "RectifiedLinear", 32),
    "W2b": lambda: training([784, 512, 512, 10], "RectifiedLinear", 256),
    "W3a": lambda: training([792, 512, 512, 512, 183], "Sigmoid", 256),
    "W8 chain": lambda: inference(CHAIN, 1024, 4096),
    "W8 softmax": lambda: inference(SOFTMAX, 1024, 4096),
}


def in_turns(compiled: Executable | TrainingStep, call: Call, threads: int) -> list[float]:
    """Least and median milliseconds with 1 thread, then with `threads`."""
    counts = (1, threads)
    times: dict[int, list[float]] = {n: [] for n in counts}
    start = time.perf_counter()
    call()
    calls = max(int(SECONDS / max(time.perf_counter() - start, 1e-6)), 1)
    for _ in range(ROUNDS):
        for n in counts:
            compiled.threads = n
            call()
            start = time.perf_counter()
            for _ in range(calls):
                call()
            times[n].append((time.perf_counter() - start) / calls * 1e3)
    return [f(times[n]) for n in counts for f in (min, statistics.median)]


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--threads", type=int, default=2)
    threads: int = options.parse_args().threads
    print(f"{'ms, least (median)':22} {'1 thread':>20} {f'{threads} threads':>20}  ratio of least")
    for name, make in WORKLOADS.items():
        compiled, call = make()
        one, middle_of_one, more, middle = in_turns(compiled, call, threads)
        columns = f"{one:9.3f} ({middle_of_one:8.3f}) {more:9.3f} ({middle:8.3f})"
        print(f"{name:22} {columns}  {one / more:6.2f}", flush=True)


if __name__ == "__main__":
    main()
