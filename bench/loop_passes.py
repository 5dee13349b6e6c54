"""What each pass does for an LSTM's loops: the gradient step with and without it.

    python -m bench.loop_passes [--time 20] [--sequences 10] [--rounds 15] [--json FILE]

The network is that of `examples/lstm.ndl` as people write it, one product per gate: 150 inputs, 300
cells with peepholes, 127 outputs, softmax; the criterion and the gradients of all parameters, in
f32 on the LLVM backend. Every variant computes the same numbers (compared first), rounds are taken
in turn; times are of the processor, the ratio is that of the medians to the full pipeline's.
`arena` is scratch memory.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from pathlib import Path

import numpy as np

import graphc as gc
from graphc.driver.compile import bind, bounds_for
from graphc.driver.options import CompileOptions
from graphc.driver.pipelines import OPTIMISE, expansion
from graphc.driver.prepare import prepare
from graphc.model.model import Model
from graphc.passes import pipeline
from graphc.passes.loop_gradient import Recompute
from graphc.passes.manager import Pass
from graphc.passes.synthesize_gradient import SynthesizeGradient
from graphc.runtime.executable import Executable

MACROS = Path(__file__).parents[1] / "examples" / "lstm.ndl"
NETWORK = """
features = Input(150, tag=feature)
labels   = Input(127, tag=label)
layer = LSTM(features, 150, 300)
W = Weights(127, 300)
b = Bias(127)
z = Plus(Times(W, layer.step.h), b)
CE = CrossEntropyWithSoftmax(labels, z, tag=criteria)
OutputNodes = (z)
"""

HOIST = "hoist-loops"
VARIANTS: dict[str, tuple[str, Recompute]] = {
    "all passes": (OPTIMISE, "auto"),
    "no hoist-loops": (OPTIMISE.replace(f"{HOIST},", ""), "auto"),
    "sums in the loop": (
        OPTIMISE.replace(HOIST, f'{HOIST}{{kinds = ["invariant", "transposed", "products"]}}'),
        "auto",
    ),
    "matrices not transposed before": (
        OPTIMISE.replace(HOIST, f'{HOIST}{{kinds = ["invariant", "products", "sums"]}}'),
        "auto",
    ),
    "at most 2 operations a kernel": (f"{OPTIMISE},fuse-kernels{{max_operations = 2}}", "auto"),
    "recompute none": (OPTIMISE, "none"),
    "recompute all": (OPTIMISE, "all"),
    "recompute sqrt": (OPTIMISE, "sqrt"),
}


def compiled(model: Model, passes: str, recompute: Recompute, t: int, s: int) -> Executable:
    """The criterion and all gradients, by this pipeline."""
    options = CompileOptions(time=t, sequences=s)
    prepare(model)
    trained = tuple(model.values)

    def all_passes(network: Model, wider: CompileOptions) -> list[Pass]:
        bounds = bounds_for(network, ["CE"], wider)
        before = expansion(["CE"], wider.precision, bounds, recompute)
        gradient = SynthesizeGradient("CE", trained, recompute)
        return [*before, gradient, *pipeline(passes)]

    return bind(model, all_passes, options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--time", type=int, default=20)
    parser.add_argument("--sequences", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    t, s = given.time, given.sequences
    net = gc.loads(MACROS.read_text(encoding="utf-8") + NETWORK, seed=1)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(t, s, 150)).astype(np.float32)
    labels = np.eye(127, dtype=np.float32)[rng.integers(0, 127, (t, s))]
    runs = {name: compiled(net.model, *how, t, s) for name, how in VARIANTS.items()}
    first = runs["all passes"](features=x, labels=labels)
    for name, run in runs.items():
        found = run(features=x, labels=labels)
        for key, value in first.items():
            scale = float(np.max(np.abs(value)))
            np.testing.assert_allclose(
                found[key], value, rtol=0, atol=2e-5 * scale, err_msg=f"{name}: {key}"
            )
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(given.rounds):
        for name, run in runs.items():
            start = time.process_time()  # one thread: what else the machine does is left out
            run(features=x, labels=labels)
            times[name].append((time.process_time() - start) * 1e3)
    base = statistics.median(times["all passes"])
    print(f"T = {t}, S = {s}; milliseconds over {given.rounds} rounds")
    print(f"{'variant':34} {'median':>8} {'min':>8} {'max':>8} {'ratio':>6} {'arena MB':>9}")
    rows: list[dict[str, object]] = []
    for name, found in times.items():
        median = statistics.median(found)
        arena = runs[name].signature.arena_bytes / 1e6
        print(
            f"{name:34} {median:8.2f} {min(found):8.2f} {max(found):8.2f} {median / base:6.2f} "
            f"{arena:9.2f}"
        )
        rows.append({"variant": name, "ms": found, "arena_bytes": int(arena * 1e6)})
    if given.json:
        record = {
            "schema": 1,
            "bench": "loop_passes",
            "machine": platform.processor() or platform.machine(),
            "versions": {"python": platform.python_version(), "numpy": np.__version__},
            "rows": rows,
        }
        given.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
