"""Recurrent networks against PyTorch and JAX: training steps, inference, and what T costs.

    python -m bench.recurrent [--only W4,W5class] [--rounds 7] [--threads 1] [--long] [--json FILE]

W4       tagger: three words of a window through a 2832x50 table (rows summed), LSTM of 300 with
         peepholes, 127 outputs, 10 sequences of 20 steps; W4np without peepholes; W4i the scores of
         one sequence
W5full   language model: 10000 words, sigmoid recurrence of 200, softmax over all words, 10 x 10
W5class  the same with 50 classes of 200 words
W6       language model: vectors of 200, LSTM of 200, softmax over all words, 10 x 35

A training step is forward, backward and momentum on every parameter, in f32. Parameters are the
same everywhere, and so is the loss, before anything is timed. `torch` is a cell written by hand,
all four gates as one product and the inputs projected once for all steps; `nn.LSTM` is PyTorch's
own, where it can say the network; `jax` is a scan, the whole step compiled; `onnx` is ONNX
Runtime's LSTM. With one thread, the process keeps to one core.

Then: time a step of the sequence for T of 1 to 2000, the arena and the time to compile, and what it
costs to save memory by computing values again. `--long` adds W6, which takes longer than a minute.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc
from graphc.driver.options import RECOMPUTE, Recompute
from graphc.learn.step import TrainingStep

Array = np.ndarray
Values = dict[str, Array]
Run = Callable[[], float]
"""One step or one inference; the loss, or the sum of all scores."""
Row = dict[str, Any]
"""A line of a table, with names."""

MACROS = Path(__file__).parents[1] / "examples" / "lstm.ndl"
RATE, MOMENTUM = 0.01, 0.9
WINDOW, WORDS, CLASSES = 3, 10000, 50

PLAIN_LSTM = """
Plain(x, cols, rows)
{
  hPast = PastValue(rows, h, defaultHiddenActivity=0)
  cPast = PastValue(rows, c, defaultHiddenActivity=0)
  ai = Affine(x, cols, hPast, rows)
  af = Affine(x, cols, hPast, rows)
  ag = Affine(x, cols, hPast, rows)
  ao = Affine(x, cols, hPast, rows)
  c = Plus(ElementTimes(Sigmoid(af), cPast), ElementTimes(Sigmoid(ai), Tanh(ag)))
  h = ElementTimes(Sigmoid(ao), Tanh(c))
}
"""
TAGGER = """
words = SparseInput(2832, tag=feature)
tags  = Input(127, tag=label)
E = Parameter(50, 2832)
hidden = {layer}(Times(E, words), 50, 300)
V = Parameter(127, 300)
a = Bias(127)
z = Plus(Times(V, hidden), a, tag=output)
CE = CrossEntropyWithSoftmax(tags, z, tag=criterion)
"""
SIGMOID = """
words = SparseInput(10000, tag=feature)
E = Parameter(200, 10000)
U = Weights(200, 200)
b = Bias(200)
past = PastValue(200, h, defaultHiddenActivity=0)
h = Sigmoid(Plus(Plus(Times(E, words), Times(U, past)), b))
"""
FULL = """
tags = Input(10000, tag=label)
V = Parameter(10000, 200)
z = Times(V, h)
CE = CrossEntropyWithSoftmax(tags, z, tag=criterion)
"""
BY_CLASS = """
next = Input(4, tag=label)
W = Parameter(200, 10000)
C = Parameter(50, 200)
q = Times(C, h)
CE = ClassBasedCrossEntropyWithSoftmax(next, h, W, q, maxClassSize=200, tag=criterion)
"""
LANGUAGE_LSTM = """
words = SparseInput(10000, tag=feature)
E = Parameter(200, 10000)
h = Plain(LookupTable(E, words), 200, 200)
"""


@dataclass(frozen=True)
class Workload:
    """A network and one minibatch of it.

    words    i64[T, S, k]: the places of the ones in a column
    targets  i64[T, S]: tag or word to be given
    cell     lstm, peepholes or sigmoid
    output   full or class
    trains   or is asked for its scores
    """

    name: str
    text: str
    time: int
    sequences: int
    cell: str
    words: Array = field(repr=False)
    targets: Array = field(repr=False)
    output: str = "full"
    trains: bool = True

    @property
    def outputs(self) -> int:
        return 127 if "127" in self.text else WORDS


def workloads(rng: np.random.Generator) -> list[Workload]:
    def window(steps: int, slots: int) -> Array:
        size = 2832 // WINDOW
        return rng.integers(0, size, (steps, slots, WINDOW)) + size * np.arange(WINDOW)

    def tagger(name: str, layer: str, cell: str, steps: int, slots: int, trains: bool) -> Workload:
        text, tags = TAGGER.format(layer=layer), rng.integers(0, 127, (steps, slots))
        return Workload(name, text, steps, slots, cell, window(steps, slots), tags, trains=trains)

    def language(name: str, text: str, cell: str, steps: int, output: str) -> Workload:
        words, targets = rng.integers(0, WORDS, (2, steps, 10))
        return Workload(name, text, steps, 10, cell, words[..., None], targets, output)

    return [
        tagger("W4", "LSTM", "peepholes", 20, 10, True),
        tagger("W4np", "Plain", "lstm", 20, 10, True),
        tagger("W4i", "LSTM", "peepholes", 20, 1, False),
        language("W5full", SIGMOID + FULL, "sigmoid", 10, "full"),
        language("W5class", SIGMOID + BY_CLASS, "sigmoid", 10, "class"),
        language("W6", LANGUAGE_LSTM + FULL, "lstm", 35, "full"),
    ]


# --- graphc --------------------------------------------------------------------------------------


def network(work: Workload) -> gc.Network:
    net = gc.loads(work.text, macros=[MACROS.read_text(encoding="utf-8"), PLAIN_LSTM], seed=1)
    assert isinstance(net, gc.Network)
    return net


def inputs(work: Workload, net: gc.Network) -> dict[str, object]:
    count, ones = work.targets.size, work.words.shape[-1]
    data: dict[str, object] = {"words": (work.words.reshape(-1), ones * np.arange(count + 1))}
    if not work.trains:
        return data
    if work.output == "class":
        size = WORDS // CLASSES
        classes = work.targets // size
        columns = (work.targets, classes, classes * size, (classes + 1) * size)
        return {**data, "next": np.stack(columns, axis=-1).astype(np.float32)}
    return {**data, "tags": np.eye(work.outputs, dtype=np.float32)[work.targets]}


def ours(work: Workload, net: gc.Network) -> Run:
    """A call as users write it: inputs are checked every time."""
    data = inputs(work, net)
    lengths = np.full(work.sequences, work.time)
    steps, slots = work.time, work.sequences
    if work.trains:
        learner = gc.SGD(learning_rate=RATE * work.targets.size, momentum=MOMENTUM)
        step = gc.compile_training(net, learner=learner, time=steps, sequences=slots)
        return lambda: float(step(lengths=lengths, **data)["CE"])
    scores = gc.compile(net, outputs=["z"], time=steps, sequences=slots)
    return lambda: float(np.sum(scores(lengths=lengths, **data)["z"]))


# --- the same parameters for others --------------------------------------------------------------


def parameters(work: Workload, net: gc.Network) -> Values:
    """As others keep them: gates stacked i, f, g, o; tables one row for each word."""
    values = {name: np.array(net.parameters[name], np.float32) for name in net.parameters}
    made = {"E": values["E"].T.copy()}
    if work.cell == "sigmoid":
        made |= {"R": values["U.W"], "b": values["b.b"][:, 0]}
    else:
        layer = next(n.removesuffix("ai.Wx.W") for n in values if n.endswith("ai.Wx.W"))
        gates = [f"{layer}a{g}" for g in "ifgo"]
        made |= {
            "Wx": np.concatenate([values[f"{g}.Wx.W"] for g in gates]),
            "R": np.concatenate([values[f"{g}.Rh.W"] for g in gates]),
            "b": np.concatenate([values[f"{g}.b.b"][:, 0] for g in gates]),
        }
        if work.cell == "peepholes":
            made |= {f"d{g}": values[f"{layer}d{g}.d"][:, 0] for g in "ifo"}
    if work.output == "class":
        return {**made, "W": values["W"].T.copy(), "C": values["C"]}
    made["V"] = values["V"]
    return {**made, "a": values["a.b"][:, 0]} if "a.b" in values else made


# --- PyTorch -------------------------------------------------------------------------------------


def torch_hidden(work: Workload, p: Mapping[str, Any], torch: Any, layer: Any) -> Any:
    """[T, S, rows]: the hidden states; by nn.LSTM if `layer` is one."""
    table = torch.nn.functional.embedding
    x = table(torch.from_numpy(work.words), p["E"]).sum(dim=2)
    if layer is not None:
        return layer(x)[0]
    h = x.new_zeros(work.sequences, p["R"].shape[1])
    states = []
    if work.cell == "sigmoid":
        for now in (x + p["b"]).unbind(0):
            h = torch.sigmoid(now + h @ p["R"].T)
            states.append(h)
        return torch.stack(states)
    c = h
    for now in (x @ p["Wx"].T + p["b"]).unbind(0):
        i, f, g, o = (now + h @ p["R"].T).chunk(4, dim=1)
        if work.cell == "peepholes":
            i, f = i + p["di"] * c, f + p["df"] * c
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        o = o + p["do"] * c if work.cell == "peepholes" else o
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(h)
    return torch.stack(states)


def torch_loss(work: Workload, p: Mapping[str, Any], torch: Any, layer: Any) -> Any:
    h = torch_hidden(work, p, torch, layer).flatten(0, 1)
    targets = torch.from_numpy(work.targets.reshape(-1))
    cross_entropy = torch.nn.functional.cross_entropy
    if work.output == "class":
        size = WORDS // CLASSES
        classes = targets // size
        columns = p["W"].view(CLASSES, size, -1)[classes]
        scores = torch.bmm(columns, h[:, :, None])[:, :, 0]
        inside = cross_entropy(scores, targets % size, reduction="sum")
        return inside + cross_entropy(h @ p["C"].T, classes, reduction="sum")
    return cross_entropy(torch_scores(p, h), targets, reduction="sum")


def torch_scores(p: Mapping[str, Any], h: Any) -> Any:
    z = h @ p["V"].T
    return z + p["a"] if "a" in p else z


def torch_run(work: Workload, values: Values, threads: int, library: bool) -> Run | None:
    import torch

    torch.set_num_threads(threads)
    p = {name: torch.from_numpy(v.copy()).requires_grad_() for name, v in values.items()}
    layer: Any = None
    if library:
        if work.cell != "lstm":
            return None
        layer = torch.nn.LSTM(p["Wx"].shape[1], p["R"].shape[1])
        with torch.no_grad():
            layer.weight_ih_l0.copy_(p.pop("Wx"))
            layer.weight_hh_l0.copy_(p.pop("R"))
            layer.bias_ih_l0.copy_(p.pop("b"))
            layer.bias_hh_l0.zero_()
    if not work.trains:

        def infer() -> float:
            with torch.inference_mode():
                return float(torch_scores(p, torch_hidden(work, p, torch, layer)).sum())

        return infer
    every = [*p.values(), *(layer.parameters() if layer is not None else ())]
    learner = torch.optim.SGD(every, lr=RATE, momentum=MOMENTUM, dampening=1 - MOMENTUM, fused=True)

    def step() -> float:
        learner.zero_grad(set_to_none=True)
        loss = torch_loss(work, p, torch, layer)
        loss.backward()
        learner.step()
        return float(loss.detach())

    return step


# --- JAX -----------------------------------------------------------------------------------------


def jax_run(work: Workload, values: Values) -> Run:
    import jax  # pyright: ignore[reportMissingImports]
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

    words, targets = jnp.asarray(work.words), jnp.asarray(work.targets.reshape(-1))

    def hidden(p: Any) -> Any:
        x = p["E"][words].sum(axis=2)
        h = jnp.zeros((work.sequences, p["R"].shape[1]), jnp.float32)
        if work.cell == "sigmoid":

            def simple(h: Any, now: Any) -> Any:
                h = jax.nn.sigmoid(now + h @ p["R"].T)
                return h, h

            return jax.lax.scan(simple, h, x + p["b"])[1]

        def lstm(state: Any, now: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(now + h @ p["R"].T, 4, axis=1)
            if work.cell == "peepholes":
                i, f = i + p["di"] * c, f + p["df"] * c
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            o = o + p["do"] * c if work.cell == "peepholes" else o
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return jax.lax.scan(lstm, (h, h), x @ p["Wx"].T + p["b"])[1]

    def cross_entropy(z: Any, wanted: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(z), wanted[:, None], axis=1).sum()

    def loss(p: Any) -> Any:
        h = hidden(p).reshape(-1, p["R"].shape[1])
        if work.output == "class":
            size = WORDS // CLASSES
            columns = p["W"].reshape(CLASSES, size, -1)[targets // size]
            scores = jnp.einsum("nsh,nh->ns", columns, h)
            inside = cross_entropy(scores, targets % size)
            return inside + cross_entropy(h @ p["C"].T, targets // size)
        return cross_entropy(scores_of(p, h), targets)

    def scores_of(p: Any, h: Any) -> Any:
        z = h @ p["V"].T
        return z + p["a"] if "a" in p else z

    def infer(p: Any) -> Any:
        return scores_of(p, hidden(p)).sum()

    def update(p: Any, m: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(p)
        m = {n: MOMENTUM * m[n] + (1 - MOMENTUM) * RATE * gradient[n] for n in p}
        return value, {n: p[n] - m[n] for n in p}, m

    compiled = jax.jit(update, donate_argnums=(0, 1))
    state = [{n: jnp.asarray(v) for n, v in values.items()}]
    if not work.trains:
        asked = jax.jit(infer)
        return lambda: float(asked(state[0]))
    state.append({n: jnp.zeros_like(v) for n, v in state[0].items()})

    def step() -> float:
        value, state[0], state[1] = compiled(*state)
        return float(value)

    return step


# --- ONNX Runtime --------------------------------------------------------------------------------


def onnx_run(work: Workload, values: Values, threads: int) -> Run | None:
    """The tagger's inference: ONNX's LSTM has peepholes, and gates in the order i, o, f, c."""
    if work.trains or importlib.util.find_spec("onnx") is None:
        return None
    import onnx  # pyright: ignore[reportMissingImports]
    import onnxruntime  # pyright: ignore[reportMissingImports]
    from onnx import helper, numpy_helper  # pyright: ignore[reportMissingImports]

    def gates(a: Array) -> Array:
        i, f, g, o = np.split(a, 4)
        return np.concatenate([i, o, f, g])[None]

    rows = values["R"].shape[1]
    peepholes = np.concatenate([values["di"], values["do"], values["df"]])[None]
    constants = {
        "E": values["E"],
        "W": gates(values["Wx"]),
        "R": gates(values["R"]),
        "B": np.concatenate([gates(values["b"]), np.zeros((1, 4 * rows), np.float32)], axis=1),
        "P": peepholes,
        "V": values["V"].T.copy(),
        "a": values["a"],
        "two": np.array([2]),
        "one": np.array([1]),
    }
    nodes = [
        helper.make_node("Gather", ["E", "words"], ["each"]),
        helper.make_node("ReduceSum", ["each", "two"], ["x"], keepdims=0),
        helper.make_node("LSTM", ["x", "W", "R", "B", "", "", "", "P"], ["y"], hidden_size=rows),
        helper.make_node("Squeeze", ["y", "one"], ["h"]),
        helper.make_node("MatMul", ["h", "V"], ["product"]),
        helper.make_node("Add", ["product", "a"], ["z"]),
    ]
    kinds = onnx.TensorProto
    graph = helper.make_graph(
        nodes,
        "tagger",
        [helper.make_tensor_value_info("words", kinds.INT64, work.words.shape)],
        [helper.make_tensor_value_info("z", kinds.FLOAT, None)],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda: float(np.sum(session.run(["z"], {"words": work.words})[0]))


# --- measuring -----------------------------------------------------------------------------------


def entries(work: Workload, net: gc.Network, threads: int) -> Iterator[tuple[str, Run | None]]:
    run = ours(work, net)
    values = parameters(work, net)  # before the first step changes them
    yield "graphc", run
    if has("torch"):
        yield "torch", torch_run(work, values, threads, library=False)
        yield "nn.LSTM", torch_run(work, values, threads, library=True)
    if has("jax"):
        yield "jax", jax_run(work, values)
    if has("onnxruntime"):
        yield "onnx", onnx_run(work, values, threads)


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def measure(work: Workload, rounds: int, threads: int) -> list[Row]:
    """A row for each entry; they are timed in turn."""
    net = network(work)
    runs: dict[str, Run] = {}
    compiled: dict[str, float] = {}
    expected = 0.0
    for name, run in entries(work, net, threads):
        if run is None:
            continue
        start = time.perf_counter()
        first = run()
        compiled[name] = time.perf_counter() - start
        expected = expected or first
        if abs(first - expected) > 2e-4 * abs(expected) + 1e-2:
            raise ValueError(f"{work.name}: {name} gives {first}, graphc {expected}")
        runs[name] = run
    for run in runs.values():
        run()
    once = {name: seconds(run, 1) for name, run in runs.items()}
    repeats = {name: max(1, min(50, int(0.05 / once[name]))) for name in runs}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds(run, repeats[name]) * 1e3)
    own = times["graphc"]
    return [
        {
            "workload": work.name,
            "entry": name,
            "median_ms": statistics.median(found),
            "min_ms": min(found),
            "max_ms": max(found),
            "ratio": statistics.median(a / b for a, b in zip(found, own, strict=True)),
        }
        for name, found in times.items()
    ]


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Of one call, on average."""
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def show(rows: Sequence[Row]) -> None:
    for row in rows:
        print(
            f"{row['workload']:8} {row['entry']:8} {row['median_ms']:9.2f} {row['min_ms']:9.2f} "
            f"{row['max_ms']:9.2f} {row['ratio']:8.2f}",
            flush=True,
        )


# --- what T costs --------------------------------------------------------------------------------

LENGTHS = (1, 10, 100, 1000, 2000)
SAVED_LENGTHS = (100, 2000)
LAYER = """
x = Input(32, tag=feature)
t = Input(8, tag=label)
h = LSTM(x, 32, 64)
V = Parameter(8, 64)
z = Times(V, h)
CE = CrossEntropyWithSoftmax(t, z, tag=criterion)
"""


def layer_step(steps: int, recompute: Recompute = "auto") -> TrainingStep:
    """A training step of one LSTM of 64 over ten sequences, compiled for so many steps."""
    net = gc.loads(LAYER, macros=[MACROS.read_text(encoding="utf-8")], seed=1)
    learner = gc.SGD(learning_rate=0.01, momentum=MOMENTUM)
    return gc.compile_training(net, learner=learner, time=steps, sequences=10, recompute=recompute)


def layer_data(steps: int) -> Values:
    rng = np.random.default_rng(0)
    return {
        "x": rng.normal(size=(steps, 10, 32)).astype(np.float32),
        "t": np.eye(8, dtype=np.float32)[rng.integers(0, 8, (steps, 10))],
    }


def along_time(rounds: int) -> list[Row]:
    """One compilation for 2000 steps, called with fewer; and what compiling for each takes."""
    longest = layer_step(LENGTHS[-1])
    rows: list[Row] = []
    for steps in LENGTHS:
        start = time.perf_counter()
        arena = layer_step(steps).signature.arena_bytes
        compiling = time.perf_counter() - start
        data = layer_data(steps)
        longest(**data)
        found = [seconds(lambda d=data: longest(**d), max(1, 100 // steps)) for _ in range(rounds)]
        rows.append(
            {
                "T": steps,
                "us_per_step": statistics.median(found) / steps * 1e6,
                "min_us_per_step": min(found) / steps * 1e6,
                "arena_kB": arena / 1e3,
                "arena_kB_per_step": arena / 1e3 / steps,
                "compile_ms": compiling * 1e3,
            }
        )
    return rows


def memory(rounds: int) -> list[Row]:
    """Memory and time of each way to get the values that gradients need: saved or computed again;
    rounds in turn, times as ratios to those of `none`."""
    rows: list[Row] = []
    for steps in SAVED_LENGTHS:
        data = layer_data(steps)
        modes = sorted(RECOMPUTE, key=lambda mode: mode != "none")
        made = {mode: layer_step(steps, mode) for mode in modes}
        times: dict[str, list[float]] = {mode: [] for mode in modes}
        for step in made.values():
            step(**data)
        for _ in range(rounds):
            for mode, step in made.items():
                times[mode].append(seconds(lambda s=step, d=data: s(**d), max(1, 200 // steps)))
        for mode, step in made.items():
            ratios = [a / b for a, b in zip(times[mode], times["none"], strict=True)]
            rows.append(
                {
                    "T": steps,
                    "recompute": mode,
                    "arena_kB": step.signature.arena_bytes / 1e3,
                    "median_ms": statistics.median(times[mode]) * 1e3,
                    "ratio": statistics.median(ratios),
                }
            )
    return rows


def show_time(rows: Sequence[Row]) -> None:
    print("\nLSTM of 64, 10 sequences, training: one compilation for 2000 steps, called with T")
    print(
        f"{'T':>5} {'us a step':>10} {'min':>9} {'arena kB':>10} {'a step':>8} {'compile ms':>11}"
    )
    for row in rows:
        print(
            f"{row['T']:5} {row['us_per_step']:10.1f} {row['min_us_per_step']:9.1f} "
            f"{row['arena_kB']:10.1f} {row['arena_kB_per_step']:8.2f} {row['compile_ms']:11.0f}",
            flush=True,
        )


def show_memory(rows: Sequence[Row]) -> None:
    print("\nthe same, by what the gradient computes again; time as a ratio to `none`")
    print(f"{'T':>5} {'recompute':>10} {'arena kB':>10} {'median ms':>10} {'ratio':>8}")
    for row in rows:
        print(
            f"{row['T']:5} {row['recompute']:>10} {row['arena_kB']:10.1f} "
            f"{row['median_ms']:10.2f} {row['ratio']:8.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", help="workloads, with commas between them")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--long", action="store_true", help="W6 as well")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.threads == 1:  # JAX would take all cores that it finds
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    known = {w.name: w for w in workloads(np.random.default_rng(0))}
    chosen = given.only.split(",") if given.only else [n for n in known if given.long or n != "W6"]
    absent = [p for p in ("torch", "jax", "onnxruntime") if not has(p)]
    if absent:
        print(f"not installed, left out: {', '.join(absent)}")
    print(f"milliseconds, {given.rounds} rounds in turn, {given.threads} thread; theirs / ours")
    print(f"{'':8} {'':8} {'median':>9} {'min':>9} {'max':>9} {'ratio':>8}")
    rows: list[Row] = []
    for name in chosen:
        found = measure(known[name], given.rounds, given.threads)
        show(found)
        rows.extend(found)
    steps = along_time(given.rounds)
    show_time(steps)
    saved = memory(given.rounds)
    show_memory(saved)
    if given.json:
        record = {
            "schema": 1,
            "bench": "recurrent",
            "machine": platform.processor() or platform.machine(),
            "versions": versions(("graphc", "numpy", "llvmlite", "torch", "jax", "onnxruntime")),
            "rows": [*rows, *steps, *saved],
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def versions(packages: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
