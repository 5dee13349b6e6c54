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
from graphc.ir.types import DType
from graphc.ops import functions
from tests.conformance.test_onnx_export import one_operation
from tests.e2e.conftest import EXAMPLES
from tests.e2e.conftest import load as load
from tests.support import recurrent_networks
from tests.support.onnx_cells import KINDS, cell_cases
from tests.support.onnx_exports import (
    FILES,
    MACROS,
    as_fed,
    assert_near,
    data_of,
    example_cases,
    network_cases,
    random_case,
    random_program,
)
from tests.support.op_table import ROWS, Row

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
    dtype = DType.F32 if seed % 4 else DType.F64
    case = random_case(seed, dtype, path)
    if case is None:
        return None
    if case.network.lengths is not None and not case.network.samples:
        return None  # ONNX Runtime runs no Scan over nothing
    if dtype is DType.F64 and "GELU" in str(case.network.builder).upper():
        return None
    problem = case.problem(run(path, case.given))
    return problem and f"{problem}; python -m {__name__} {seed}"


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_networks(chunk: int, tmp_path: Path) -> None:
    found = [judge(seed, tmp_path / "net.onnx") for seed in range(chunk, NETWORKS, CHUNKS)]
    assert [problem for problem in found if problem] == []
    assert found.count(None) <= MOST_DISCARDED * len(found)


# --- random programs, and operations -------------------------------------------------------------


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk: int, tmp_path: Path) -> None:
    for seed in range(chunk, FUNCTIONS, CHUNKS):
        case = random_program(seed, tmp_path / "f.onnx")
        if case is not None:
            given, check = case
            check(run(tmp_path / "f.onnx", given))


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


@pytest.mark.parametrize("name", FILES)
def test_examples(name: str, tmp_path: Path) -> None:
    for given, check in example_cases(name, tmp_path / "net.onnx"):
        check(run(tmp_path / "net.onnx", given))


@pytest.mark.parametrize("name", recurrent_networks.NETWORKS)
def test_recurrent_networks(name: str, tmp_path: Path) -> None:
    net = recurrent_networks.network(name)
    for given, check in network_cases(net, tmp_path / "net.onnx", is_recurrent=True):
        check(run(tmp_path / "net.onnx", given))


@pytest.mark.parametrize("change", KINDS)
def test_cells_of_programs(change: str, tmp_path: Path) -> None:
    for given, expected in cell_cases(change, tmp_path / "f.onnx"):
        got = run(tmp_path / "f.onnx", given)
        for name, value in expected.items():
            assert_near(got[name], value, name)


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
