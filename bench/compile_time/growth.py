"""Compile time of growing networks: is it in proportion to the nodes?

    python -m bench.compile_time.growth [--case chain|deep|train] [--largest N] [--json FILE]

chain  elementwise operations one after the other, fused into kernels
deep   inference of a network of many layers: five nodes each
train  a training step of it

There is no rival here. Times are of the processor, not of the clock: the machine may be busy. What
is printed last is the time per node at the largest size over that at the smallest; 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import graphc as gc
from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.learn.step import compile_training_step
from graphc.model.model import Model

STEPS = (
    "Plus(h{0}, x)",
    "ElementTimes(h{0}, x)",
    "Minus(h{0}, b)",
    "RectifiedLinear(h{0})",
    "Sigmoid(h{0})",
)


def chain(nodes: int) -> str:
    lines = ["x = Input(64)", "b = Parameter(64, 1)", "h0 = Plus(x, b)"]
    lines += [f"h{i + 1} = {STEPS[i % len(STEPS)].format(i)}" for i in range(nodes)]
    return "\n".join([*lines, f"z = Plus(h{nodes}, x, tag=output)"])


def deep(nodes: int) -> str:
    lines, before = ["x = Input(16)", "labels = Input(16, tag=label)"], "x"
    for i in range(nodes // 5):
        lines += [f"W{i} = Parameter(16, 16)", f"B{i} = Parameter(16, 1)"]
        lines += [f"t{i} = Times(W{i}, {before})", f"p{i} = Plus(t{i}, B{i})"]
        lines.append(f"h{i} = Sigmoid(p{i})")
        before = f"h{i}"
    lines.append(f"z = Plus({before}, x, tag=output)")
    return "\n".join([*lines, "ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)"])


def evaluate(model: Model, options: CompileOptions) -> None:
    bind(model, lambda m, o: evaluation_passes(m, ["z"], (), o), options)


def train(model: Model, options: CompileOptions) -> None:
    compile_training_step(model, gc.SGD(0.1), options)


Case = tuple[Callable[[int], str], Callable[[Model, CompileOptions], None], tuple[int, ...]]
CASES: dict[str, Case] = {
    "chain": (chain, evaluate, (1000, 2000, 5000, 10_000)),
    "deep": (deep, evaluate, (1000, 2000, 10_000, 50_000)),
    "train": (deep, train, (500, 1000, 2000)),
}


def measured(case: str, nodes: int) -> dict[str, object]:
    """Seconds of reading and of compiling, and the phases of it."""
    text, compile_it, _ = CASES[case]
    source = text(nodes)
    start = time.process_time()
    model = gc.loads(source).model
    read = time.process_time()
    options = CompileOptions(batch=32)
    compile_it(model, options)
    done = time.process_time()
    phases = dict(options.phases.seconds)
    return {"nodes": nodes, "read_s": read - start, "compile_s": done - read, "phases": phases}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--case", choices=sorted(CASES))
    parser.add_argument("--largest", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, object]] = []
    for case in [given.case] if given.case else CASES:
        measured(case, 20)  # what is imported when it is first needed
        print(f"\n{case:>8} {'nodes':>7} {'read':>8} {'compile':>8} {'ms/node':>8}  longest phases")
        each: list[float] = []
        for nodes in (n for n in CASES[case][2] if n <= given.largest):
            row = measured(case, nodes)
            phases: dict[str, float] = row["phases"]  # type: ignore[assignment]  # of `measured`
            longest = sorted(phases, key=phases.__getitem__, reverse=True)[:3]
            seconds = float(row["compile_s"])  # type: ignore[arg-type]  # likewise
            each.append(seconds / nodes)
            print(
                f"{'':>8} {nodes:>7} {row['read_s']:>6.2f} s {seconds:>6.2f} s "
                f"{each[-1] * 1e3:>8.3f}  {', '.join(longest)}",
                flush=True,
            )
            rows.append({"case": case, **row})
        print(f"{'':>8} time per node grows by {each[-1] / each[0]:.2f}")
    if given.json:
        record = {
            "schema": 1,
            "bench": "compile_time.growth",
            "machine": platform.processor() or platform.machine(),
            "versions": {name: version(name) for name in ("graphc", "numpy", "llvmlite")},
            "rows": rows,
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
