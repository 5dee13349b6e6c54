"""ONNX Runtime computes of exported files what graphc says: random networks, programs, examples.

python -m tests.torch.test_onnx_export 1234          judge this random network again
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.onnx.model import make_model
from graphc.artifacts.onnx.walk import WRITERS
from graphc.driver.onnx_export import export_model
from graphc.driver.options import CompileOptions
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType, TensorType
from graphc.model.program import Program
from graphc.ops import functions
from graphc.runtime.sparse import sparse_rows
from tests.conformance.test_onnx_export import one_operation
from tests.e2e.conftest import EXAMPLES
from tests.e2e.conftest import load as load
from tests.support.network_judge import expectations
from tests.support.op_table import ROWS, Row
from tests.support.random_functions import make_function
from tests.support.random_networks import RandomNetwork, random_network
from tests.support.sequences import Packing

ort: Any = pytest.importorskip("onnxruntime")

Array = np.ndarray
Load = Callable[[str], ModuleType]
NETWORKS, FUNCTIONS, CHUNKS = 300, 200, 10
MOST_DISCARDED = 0.3
WRITTEN = [row for row in ROWS if row.op in WRITERS]
NO_KERNEL = {(op, DType.F64) for op in (functions.ERF, functions.GELU, functions.ARCTAN)}
"""What ONNX Runtime does not compute on a processor, by its own list of kernels."""


def run(model: Path | bytes, given: Mapping[str, Array]) -> dict[str, Array]:
    """The model's outputs by name; of what is given it takes its inputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    source = str(model) if isinstance(model, Path) else model
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: np.array(given[i.name], order="C") for i in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds), strict=True))


# --- random networks -----------------------------------------------------------------------------


def judge(seed: int, path: Path) -> str | None:
    """What is wrong with a network's results, '' if nothing, None if it says nothing."""
    network = random_network(seed)
    if network is None or (network.lengths is not None and not network.samples):
        return None  # ONNX Runtime runs no Scan over nothing
    dtype = DType.F32 if seed % 4 else DType.F64
    expected = expectations(network, dtype)
    if expected is None or (dtype is DType.F64 and "GELU" in str(network.builder).upper()):
        return None
    time = 0 if network.lengths is None else network.batch
    options = CompileOptions(precision=dtype, batch=network.batch, time=time)
    export_model(network.builder.model, path, network.outputs, options)
    packing = None
    if network.lengths is not None:
        slots = tuple(((0, n),) for n in network.lengths)
        packing = Packing(max(network.lengths), slots)
    for name, value in run(path, _given(network, packing, dtype.numpy)).items():
        result = name.removesuffix(".result")
        if packing is not None and result in network.with_samples:
            value = packing.unpack(value).T
        if problem := expected[result].problem(value):
            return f"`{result}` {dtype}: {problem}; python -m {__name__} {seed}"
    return ""


def _given(network: RandomNetwork, packing: Packing | None, dtype: np.dtype) -> dict[str, Array]:
    """Every leaf as the file takes it; gaps hold nan, or an index of nothing."""
    given: dict[str, Array] = {"lengths": np.array(network.lengths or (), np.int64)}
    sparse = {n.name for n in network.builder.nodes if n.op == "sparse_input"}
    for name, matrix in network.leaves.items():
        x = matrix.astype(dtype)
        if name in sparse:
            indices, values = sparse_rows(name, x.T, len(x)).padded(dtype)
            if packing is not None:
                indices, values = packing.pack(indices.T, -1), packing.pack(values.T)
            given |= {f"{name}.indices": indices, f"{name}.values": values}
        elif name in network.with_samples:
            given[name] = packing.pack(x) if packing is not None else x.T
        else:
            given[name] = x
    return given


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_networks(chunk: int, tmp_path: Path) -> None:
    found = [judge(seed, tmp_path / "net.onnx") for seed in range(chunk, NETWORKS, CHUNKS)]
    assert [problem for problem in found if problem] == []
    assert found.count(None) <= MOST_DISCARDED * len(found)


# --- random programs, and operations -------------------------------------------------------------


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk: int, tmp_path: Path) -> None:
    for seed in range(chunk, FUNCTIONS, CHUNKS):
        made = make_function(seed, exact=True)
        expected = evaluate(made.function, made.arguments, made.sizes)
        given = dict(made.arguments)
        for dim in made.module.dims:  # an input for every size
            if not dim.is_made:
                name = f"size.{dim}"
                made.function.add_argument(name, TensorType((dim,), DType.F32), "input")
                given[name] = np.zeros(made.sizes[dim.name], np.float32)
        held = zip(made.function.arguments, made.function.roles, strict=True)
        values = {a.name or "": given[a.name or ""] for a, role in held if role == "parameter"}
        open_ones = [n for n in values if made.function.argument(n).tensor.symbols()]
        if open_ones:
            continue  # a parameter has one size
        gc.export_onnx(Program(made.module, values), tmp_path / "f.onnx")
        for name, got in run(tmp_path / "f.onnx", given).items():
            want = expected[name.removesuffix(".result")]
            assert (got.shape, got.dtype) == (want.shape, want.dtype), (seed, name)
            size = np.max(np.abs(want), initial=1) if want.dtype.kind == "f" else 0
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * size, err_msg=str(seed))


@pytest.mark.parametrize("row", WRITTEN, ids=[r.op.name for r in WRITTEN])
def test_operations_have_a_kernel_for_each_type(row: Row) -> None:
    """Values are judged by the evaluator of ONNX (tests/conformance/test_onnx_export.py)."""
    for dtype in row.dtypes:
        case = next(c for c in row.cases(dtype) if c.name != "rank 0")
        model = make_model(one_operation(row, case), ()).SerializeToString()
        if (row.op, dtype) in NO_KERNEL:
            with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
                ort.InferenceSession(model, providers=["CPUExecutionProvider"])
        else:
            ort.InferenceSession(model, providers=["CPUExecutionProvider"])


# --- examples ------------------------------------------------------------------------------------

MACROS = EXAMPLES / "lstm.ndl"
WORDS = {"VocabDim": 12, "ClassDim": 3, "Largest": 6, "HiddenDim": 5}
SPEECH = {"FeatDim": 4, "Cells": 3, "BothCells": 6, "StateDim": 5}
TAGS = {"VocabDim": 7, "WindowRows": 21, "VectorDim": 4, "WindowCells": 12, "Cells": 5}
FILES: dict[str, tuple[bool, dict[str, int]]] = {
    "adding/adding": (True, {}),
    "chain/chain": (False, {}),
    "digits/digits": (False, {}),
    "images/autoencoder": (False, {}),
    "images/convolution": (False, {"Width": 16, "Height": 16, "Kernel": 5}),
    "images/one-hidden": (False, {}),
    "images/two-criteria": (False, {}),
    "images/two-inputs": (False, {}),
    "language-model/lstm": (True, WORDS),
    "language-model/rnn": (True, WORDS),
    "mixture/mixture": (False, {}),
    "speech/speech": (True, SPEECH),
    "tagging/tagging": (True, {**TAGS, "TagDim": 6}),
}
"""Whether it is of sequences, and its sizes."""
CLASSES = np.array([[0, 2], [2, 6], [6, 12]])
"""Where the words of a class begin and end."""


def example(name: str) -> gc.Network:
    is_recurrent, sizes = FILES[name]
    macros = MACROS if is_recurrent else ()
    return gc.load(EXAMPLES / f"{name}.ndl", macros=macros, defines=sizes, seed=1)


def data_of(net: gc.Network, samples: int, rng: np.random.Generator) -> dict[str, Array]:
    """(samples, rows) for each input: numbers, and one 1 in what is sparse or a label."""
    made: dict[str, Array] = {}
    for node in net.nodes:
        if node.op not in ("input", "sparse_input"):
            continue
        rows = node.operation.result.type.rows
        if node.name == "next":
            word = rng.integers(0, 12, samples)
            kind = np.searchsorted(CLASSES[:, 1], word, side="right")
            made[node.name] = np.column_stack([word, kind, CLASSES[kind]]).astype(np.float64)
        elif node.op == "sparse_input" or "label" in node.tags:
            made[node.name] = np.eye(rows)[rng.integers(0, rows, samples)]
        else:
            made[node.name] = rng.standard_normal((samples, rows))
    return made


def as_fed(net: gc.Network, data: Mapping[str, Array]) -> dict[str, Array]:
    """The same for the file, (N, rows) or (T, S, rows)."""
    given: dict[str, Array] = {}
    for node in net.nodes:
        if node.name not in data:
            continue
        x = data[node.name].astype(np.float32)
        given[node.name] = x
        if node.op == "sparse_input":
            matrix = x.reshape(-1, x.shape[-1])
            names = (f"{node.name}.indices", f"{node.name}.values")
            padded = sparse_rows(node.name, matrix, x.shape[-1]).padded(np.dtype(np.float32))
            given |= dict(zip(names, padded, strict=True))
    return given


def wanted(net: gc.Network) -> list[str]:
    tags = ("output", "criterion", "evaluation")
    return [node.name for node in net.nodes if set(tags) & set(node.tags)]


def assert_near(got: Array, expected: Array, name: str) -> None:
    size = float(np.max(np.abs(expected), initial=1))
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * size, err_msg=name)


@pytest.mark.parametrize("name", [n for n, (recurrent, _) in FILES.items() if not recurrent])
def test_examples(name: str, tmp_path: Path) -> None:
    net, rng = example(name), np.random.default_rng(0)
    if any(node.op == "mean" for node in net.nodes):
        net.precompute(**data_of(net, 20, rng))
    time = 16 if name == "chain/chain" else 0
    net.export_onnx(tmp_path / "net.onnx", wanted(net), time=time)
    exact = gc.compile(net, wanted(net), backend="numpy", precision="f64", time=time)
    for samples in (1, 7):
        data = data_of(net, samples, rng)
        given = as_fed(net, data)
        if time:
            given = {n: x[:, None] for n, x in given.items()} | {"lengths": np.array([samples])}
        got = run(tmp_path / "net.onnx", given)
        for node, expected in exact(**data).items():
            assert_near(got[node].reshape(np.shape(expected)), np.asarray(expected), node)


@pytest.mark.parametrize("name", [n for n, (recurrent, _) in FILES.items() if recurrent])
def test_recurrent_examples(name: str, tmp_path: Path) -> None:
    net, rng = example(name), np.random.default_rng(0)
    if any(node.op == "mean" for node in net.nodes):
        net.precompute(**{n: [x] for n, x in data_of(net, 20, rng).items()})
    net.export_onnx(tmp_path / "net.onnx", wanted(net), time=16, sequences=4)
    exact = gc.compile(net, wanted(net), backend="numpy", precision="f64", time=16, sequences=4)
    for lengths in ([9], [3, 8, 1]):
        time, slots = max(lengths), len(lengths)
        flat = data_of(net, time * slots, rng)
        data = {n: x.reshape(time, slots, -1) for n, x in flat.items()}
        given = {**as_fed(net, data), "lengths": np.array(lengths)}
        cut = {n: [x[:t, s] for s, t in enumerate(lengths)] for n, x in data.items()}
        got = run(tmp_path / "net.onnx", given)
        for node, expected in exact(**cut).items():
            if isinstance(expected, list):
                for s, one in enumerate(expected):
                    assert_near(got[node][: len(one), s], one, node)
                    assert not got[node][len(one) :, s].any()
            else:
                assert_near(got[node].reshape(np.shape(expected)), np.asarray(expected), node)


def test_the_table_has_every_network_of_the_examples() -> None:
    files = [p for p in EXAMPLES.rglob("*.ndl") if "cntk" not in p.parts and p != MACROS]
    assert {p.relative_to(EXAMPLES).with_suffix("").as_posix() for p in files} == FILES.keys()


def test_networks_built_in_python(
    load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = load("adding/built.py").built(5)
    built.export_onnx(tmp_path / "adding.onnx", "z", time=8)
    data = data_of(built, 6, np.random.default_rng(0))
    given = {n: x[:, None] for n, x in as_fed(built, data).items()} | {"lengths": np.array([6])}
    call = gc.compile(built, "z", backend="numpy", precision="f64", time=8)
    exact = call(features=data["features"])["z"]
    assert_near(run(tmp_path / "adding.onnx", given)["z"][:, 0], exact, "z")
    nets: list[gc.Network] = []
    monkeypatch.setattr(gc, "train", lambda net, *_, **__: nets.append(net))
    load("adaline/adaline.py").train(np.ones((2, 3)), np.ones((2, 1)), 1)
    nets[0].export_onnx(tmp_path / "adaline.onnx", "loss")
    data = data_of(nets[0], 5, np.random.default_rng(0))
    exact = gc.compile(nets[0], "loss", backend="numpy", precision="f64")(**data)["loss"]
    got = run(tmp_path / "adaline.onnx", as_fed(nets[0], data))["loss"]
    assert_near(got.reshape(()), np.asarray(exact), "loss")


def test_functions_of_arrays(load: Load, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    histogram = load("histogram/histogram.py")
    weights = {n: x.astype(np.float32) for n, x in histogram.initial(rng).items()}
    x = rng.standard_normal((6, histogram.BINS)).astype(np.float32)
    labels = np.array([0, 1, 1, 0, 1, 0], np.float32)
    monkeypatch.setattr(gc, "minimize", lambda loss, start, **_: (loss, start))
    rope, start = load("catenary/catenary.py").solve(12, 1.2)
    loss = load("boundary_value/boundary_value.py").loss_of(14, "f64")
    y = rng.standard_normal(14)
    uses: list[tuple[Callable[..., Any], dict[str, Array], dict[str, Any]]] = [
        (lambda x, p: histogram.model(x, p), {"x": x}, {"p": weights}),
        (lambda x, t, p: histogram.loss(p, x, t), {"x": x, "t": labels}, {"p": weights}),
        (lambda x, p: histogram.single(x, p), {"x": x[0]}, {"p": weights}),
        (lambda y: rope(y), {"y": start}, {}),
        (lambda y: loss(y), {"y": y}, {}),
    ]
    for function, inputs, parameters in uses:
        program = gc.program(function, inputs, parameters=parameters)
        gc.export_onnx(program, tmp_path / "f.onnx")
        (got,) = run(tmp_path / "f.onnx", inputs).values()
        assert_near(got, np.asarray(function(**inputs, **parameters)), str(function))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument), Path('net.onnx')) or 'fine'}\n")
