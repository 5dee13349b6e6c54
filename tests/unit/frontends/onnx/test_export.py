"""Files that `export_onnx` writes: read again they mean the same, and what is in them.

ONNX Runtime judges them too (tests/torch/test_onnx_export.py), and each operation the evaluator of
the onnx package (tests/conformance/test_onnx_export.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphc as gc
from graphc.artifacts.onnx import saving
from graphc.artifacts.onnx.model import IR_VERSION, OPSET
from graphc.driver.onnx_export import export_model
from graphc.driver.options import CompileOptions
from graphc.driver.program import read_function
from graphc.ir.evaluate import evaluate
from graphc.ir.parser import parse_module
from graphc.ir.types import DType
from graphc.model.program import Program
from graphc.ops import default_context
from graphc.support.diagnostics import GraphcError
from tests.support import recurrent_networks
from tests.support.onnx_cells import KINDS, cell_cases
from tests.support.onnx_exports import (
    FILES,
    example_cases,
    network_cases,
    random_case,
    random_program,
)

Array = np.ndarray

MLP = """
x = Input(4, tag=feature)
t = Input(3, tag=label)
W = Parameter(5, 4)
b = Parameter(5, 1)
V = Parameter(3, 5)
h = Tanh(Plus(Times(W, x), b))
z = Times(V, h, tag=output)
y = Softmax(z)
ce = CrossEntropyWithSoftmax(t, z, tag=criterion)
"""

IMAGES = """
x = ImageInput(6, 5, 2, 1, tag=feature)
K = Parameter(3, 18)
c = Convolution(K, x, 3, 3, 3, 1, 1, zeroPadding=true)
r = RectifiedLinear(c)
m = MaxPooling(r, 2, 2, 2, 1)
a = AveragePooling(r, 2, 2, 2, 2, tag=output)
"""

SUMS = """
x = Input(2, tag=feature)
p = PastValue(2, s, defaultHiddenActivity=0.5)
s = Plus(x, p, tag=output)
f = FutureValue(2, g, defaultHiddenActivity=-1)
g = Plus(s, f, tag=output)
"""


def nodes_of(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


# --- networks ------------------------------------------------------------------------------------


def test_a_file_is_valid_and_says_what_it_computes(tmp_path: Path) -> None:
    net = gc.loads(MLP)
    assert net.export_onnx(tmp_path / "net.onnx", ["y", "z"], batch=40) == [tmp_path / "net.onnx"]
    model = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert (model.producer_name, model.producer_version) == ("graphc", gc.__version__)
    assert (model.opset_import[0].version, model.ir_version) == (OPSET, IR_VERSION)
    assert {p.key: p.value for p in model.metadata_props} == {"graphc.bounds": "N=40"}
    assert [v.name for v in model.graph.input] == ["x"]
    assert [v.name for v in model.graph.output] == ["y", "z"]
    held = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    assert held.keys() == {"W", "b", "V"}
    assert all(np.array_equal(held[n], net.parameters[n]) for n in held)


def test_the_same_network_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        gc.export_onnx(gc.loads(MLP), tmp_path / f"{name}.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_network_read_again_has_its_values_and_gradients(tmp_path: Path) -> None:
    net, rng = gc.loads(MLP, seed=3), np.random.default_rng(0)
    net.export_onnx(tmp_path / "net.onnx", "ce", precision="f64")
    again = gc.load_program(tmp_path / "net.onnx")
    names = ["W", "b", "V"]
    first = gc.compile(net, "ce", gradients=names, precision="f64", backend="numpy")
    second = gc.compile(again, gradients=names, backend="numpy")
    for samples in (1, 7):
        given = {"x": rng.standard_normal((samples, 4)), "t": np.eye(3)[[samples % 3] * samples]}
        want, got = first(**given), second(**given)
        np.testing.assert_allclose(np.squeeze(got["ce"]), want["ce"], rtol=1e-12)
        for name in names:
            slopes = got[f"gradient.{name}"], want[f"gradient.{name}"]
            np.testing.assert_allclose(*slopes, rtol=1e-11, atol=1e-13)


def read_again(path: Path, given: Mapping[str, Array]) -> dict[str, Array]:
    """What the file gives, as graphc reads it."""
    function = (program := gc.load_program(path)).function
    arguments = {a.name or "": a.tensor.dims for a in function.arguments}
    held = {n: program.values[n] if n in program.values else given[n] for n in arguments}
    sizes = {
        str(d): n for a, dims in arguments.items() for d, n in zip(dims, held[a].shape, strict=True)
    }
    return evaluate(function, held, sizes)


def test_random_networks_read_again(tmp_path: Path) -> None:
    judged = 0
    for seed in range(60):
        case = random_case(seed, DType.F64, tmp_path / "net.onnx")
        if case is None:
            continue
        inputs = onnx.load(tmp_path / "net.onnx").graph.input
        if case.packing is not None and not any("T" in dims_of(i) for i in inputs):
            continue  # the number of steps is the largest length, which is no size
        judged += 1
        assert case.problem(read_again(tmp_path / "net.onnx", case.given)) == ""
    assert judged >= 45


def test_random_programs_read_again(tmp_path: Path) -> None:
    for seed in range(80):
        case = random_program(seed, tmp_path / "f.onnx")
        if case is not None:
            given, check = case
            check(read_again(tmp_path / "f.onnx", given))


def dims_of(port: Any) -> list[int | str]:
    return [d.dim_param or d.dim_value for d in port.type.tensor_type.shape.dim]


@pytest.mark.parametrize("name", FILES)
def test_examples_read_again(name: str, tmp_path: Path) -> None:
    for given, check in example_cases(name, tmp_path / "net.onnx"):
        check(read_again(tmp_path / "net.onnx", given))


# --- cells ---------------------------------------------------------------------------------------

CELLS = {
    "rnn": ["RNN"],
    "future": ["RNN"],
    "lstm": ["LSTM"],
    "gru": ["GRU"],
    "bidirectional": ["RNN", "RNN"],
    "stacked": ["LSTM", "RNN", "RNN"],
    "time step 2": ["Scan"],
    "highway": ["RNN", "RNN", "Scan"],
    "projection": ["Scan"],
    "several delays": ["Scan", "Scan"],
}
"""What the loops of `recurrent_networks` are in a file."""


def loops_of(path: Path) -> list[str]:
    return [name for name in nodes_of(path) if name in ("LSTM", "GRU", "RNN", "Scan")]


@pytest.mark.parametrize("name", recurrent_networks.NETWORKS)
def test_cells_of_networks(name: str, tmp_path: Path) -> None:
    net, path = recurrent_networks.network(name), tmp_path / "net.onnx"
    for given, check in network_cases(net, path, is_recurrent=True):
        check(read_again(path, given))
    assert loops_of(path) == CELLS[name]
    net.export_onnx(path, "z", precision="f64")  # which ONNX Runtime's cells do not compute
    assert {*loops_of(path)} == {"Scan"}


@pytest.mark.parametrize("change", KINDS)
def test_cells_of_programs(change: str, tmp_path: Path) -> None:
    for given, expected in cell_cases(change, tmp_path / "f.onnx"):
        got = read_again(tmp_path / "f.onnx", given)
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, atol=1e-5, err_msg=name)
    assert loops_of(tmp_path / "f.onnx") == [KINDS[change]]


# --- what is in files ----------------------------------------------------------------------------


def test_windows_are_convolutions_and_pooling(tmp_path: Path) -> None:
    net = gc.loads(IMAGES)
    gc.export_onnx(net, tmp_path / "f32.onnx", ["m", "a"])
    assert {"Conv", "MaxPool", "AveragePool"} <= {*nodes_of(tmp_path / "f32.onnx")}
    assert "Gather" not in nodes_of(tmp_path / "f32.onnx")
    # ONNX Runtime convolves f32 alone
    gc.export_onnx(net, tmp_path / "f64.onnx", ["m", "a"], precision="f64")
    assert "Conv" not in nodes_of(tmp_path / "f64.onnx")
    x = np.random.default_rng(0).standard_normal((3, 60))
    want = gc.compile(net, ["m", "a"], precision="f64", backend="numpy")(x=x)
    for kind, tolerance in (("f32", 1e-5), ("f64", 1e-12)):
        call = gc.compile(gc.load_program(tmp_path / f"{kind}.onnx"), backend="numpy")
        got = call(x=x.astype(kind.replace("f", "float")))
        for name in ("m", "a"):
            np.testing.assert_allclose(got[name], want[name], rtol=0, atol=tolerance)


def test_sequences_are_a_scan_and_take_lengths(tmp_path: Path) -> None:
    gc.export_onnx(gc.loads(SUMS), tmp_path / "net.onnx", ["s", "g"], time=9, sequences=3)
    model = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    inputs = {v.name: dims_of(v) for v in model.graph.input}
    assert inputs == {"x": ["T", "S", 2], "lengths": ["S"]}
    assert nodes_of(tmp_path / "net.onnx").count("Scan") == 2
    assert {p.key: p.value for p in model.metadata_props} == {"graphc.bounds": "T=9,S=3"}


def test_a_run_forwards_by_the_evaluator_of_onnx(tmp_path: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    gc.export_onnx(gc.loads(SUMS), tmp_path / "net.onnx", ["s"])
    x = np.array([[[1.0], [5]], [[2], [6]], [[3], [np.nan]]], np.float32).repeat(2, axis=2)
    given = {"x": x, "lengths": np.array([3, 2])}
    (s,) = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, given)
    assert s[:, 0, 0].tolist() == [1.5, 3.5, 6.5]
    assert s[:, 1, 1].tolist() == [5.5, 11.5, 0]


def test_an_input_that_is_called_lengths_keeps_its_name(tmp_path: Path) -> None:
    gc.export_onnx(gc.loads(SUMS.replace("x", "lengths")), tmp_path / "net.onnx", "s")
    inputs = [v.name for v in onnx.load(tmp_path / "net.onnx").graph.input]
    assert inputs == ["lengths", "sequence.lengths"]


# --- programs ------------------------------------------------------------------------------------


def attention(x: Any, w: Any) -> Any:
    q, k, v = (x @ w[i] for i in range(3))
    return gc.softmax(q @ gc.transpose(k, (0, 2, 1)) * 0.5) @ v


def test_programs_of_any_rank_with_open_sizes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((3, 4, 4)).astype(np.float32)
    program = gc.program(attention, {"x": "BxTx4"}, parameters={"w": w}, bounds={"T": 12})
    gc.export_onnx(program, tmp_path / "a.onnx")
    again = gc.load_program(tmp_path / "a.onnx")
    first, second = gc.compile(program, backend="numpy"), gc.compile(again, backend="numpy")
    for shape in ((1, 1, 4), (2, 7, 4), (3, 12, 4)):
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(second(x=x)["result"], first(x=x)["result"], atol=1e-6)
    gc.export_onnx(again, tmp_path / "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_sizes_that_are_cut_and_joined(tmp_path: Path) -> None:
    def f(x: Any, y: Any) -> Any:
        joined = gc.concatenate([x[1:], y], axis=0)
        return {"ends": joined[:-1], "halves": joined[::2], "whole": gc.reshape(x, (-1,))}

    program = gc.program(f, {"x": "Tx2", "y": "Ux2"}, bounds={"T": 9, "U": 5})
    gc.export_onnx(program, tmp_path / "f.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "f.onnx"), full_check=True)
    from onnx.reference import ReferenceEvaluator

    run = ReferenceEvaluator(str(tmp_path / "f.onnx"))
    for t, u in ((1, 1), (5, 2), (9, 5)):
        x, y = (np.arange(2 * n, dtype=np.float32).reshape(n, 2) for n in (t, u))
        joined = np.concatenate([x[1:], y])
        found = run.run(["ends", "halves", "whole"], {"x": x, "y": y})
        for got, want in zip(found, (joined[:-1], joined[::2], x.reshape(-1)), strict=True):
            assert np.array_equal(got, want)


def test_loops_of_programs_either_way(tmp_path: Path) -> None:
    def f(x: Any, a: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = gc.tanh(h * a + row)
            return h, h * 2

        forth = gc.scan(step, x[0], x)
        back = gc.scan(step, x[0], x, reverse=True)
        return {"forth": forth[1], "back": back[1], "last": back[0]}

    a = np.array([0.5, 2.0], np.float32)
    program = gc.program(f, {"x": "6x2"}, parameters={"a": a})
    gc.export_onnx(program, tmp_path / "f.onnx")
    again = gc.load_program(tmp_path / "f.onnx")
    x = np.random.default_rng(0).standard_normal((6, 2)).astype(np.float32)
    h, ways = x[0], {}
    for name, order in (("forth", range(6)), ("back", range(5, -1, -1))):
        h, rows = x[0], np.zeros((6, 2), np.float32)
        for t in order:
            h = np.tanh(h * a + x[t])
            rows[t] = h * 2
        ways[name] = rows
    ways["last"] = h
    got = gc.compile(again, backend="numpy")(x=x)
    for name, want in ways.items():
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6)


IR = """
dim N <= 8

func @step(%x: tensor<Nx2xf32> input, %w: tensor<2xf32> state, %rate: tensor<f32> hyperparameter)
    -> (w: tensor<2xf32> updates %w, x: tensor<Nx2xf32>, one: tensor<3xf32>) {
  %one = constant {type = tensor<3xf32>, value = [1.0]} : tensor<3xf32>
  %w.new = add %w, %w : tensor<2xf32>
  return %w.new, %x, %one
}
"""


def test_a_result_that_is_called_as_an_input(tmp_path: Path) -> None:
    (tmp_path / "f.gir").write_text(IR)
    gc.export_onnx(read_function(tmp_path / "f.gir"), tmp_path / "f.onnx")
    model = onnx.load(tmp_path / "f.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [v.name for v in model.graph.input] == ["x", "w", "rate"]
    assert [v.name for v in model.graph.output] == ["w.result", "x.result", "one"]


# --- large files ---------------------------------------------------------------------------------


def test_parameters_of_large_models_lie_beside_the_message(tmp_path: Path) -> None:
    net = gc.loads(MLP)
    options = CompileOptions()
    path = tmp_path / "net.onnx"
    files = export_model(net.model, path, ["z"], options, outside_bytes=100)
    assert files == [path, tmp_path / "net.onnx.data"]
    message = onnx.load(path, load_external_data=False)
    places = [{e.key: e.value for e in t.external_data} for t in message.graph.initializer]
    assert {place["location"] for place in places} == {"net.onnx.data"}
    assert all(int(place["offset"]) % saving.ALIGNMENT == 0 for place in places)
    onnx.checker.check_model(path, full_check=True)
    (tmp_path / "elsewhere").mkdir()
    for file in files:
        file.rename(tmp_path / "elsewhere" / file.name)
    again = gc.load_program(tmp_path / "elsewhere" / "net.onnx")
    assert all(np.array_equal(again.parameters[n], net.parameters[n]) for n in ("W", "b", "V"))


def test_a_message_above_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "MESSAGE_BYTES", 50)
    with pytest.raises(GraphcError, match="less than 2 GB besides its parameters"):
        gc.loads(MLP).export_onnx(tmp_path / "net.onnx")
    assert [*tmp_path.iterdir()] == []


# --- bad input -----------------------------------------------------------------------------------


def test_all_operations_that_onnx_has_nothing_for_are_told_at_once(tmp_path: Path) -> None:
    text = """
    func @f(%x: tensor<2xf32> input, %w: tensor<4xf32> input)
      -> (y: tensor<2xf32>, z: tensor<4xf32>) {
      %y = all_reduce %x {members = 2} : tensor<2xf32>
      %z = copy %w at result:1 : tensor<4xf32>
      return %y, %z
    }
    """
    context = default_context()
    module = parse_module(text, context, file="f.gir")
    context.sink.raise_if_errors()
    with pytest.raises(GraphcError) as raised:
        gc.export_onnx(Program(module, is_written=True), tmp_path / "f.onnx")
    found = [(d.slug, d.span.line if d.span else 0) for d in raised.value.diagnostics]
    assert found == [("not-supported", 4), ("not-supported", 5)]
    assert "ONNX has nothing for `all_reduce`" in str(raised.value)
    assert "`graphc dump --stage tensor` prints what can be written" in str(raised.value)
    assert [*tmp_path.iterdir()] == []


def test_a_size_that_no_input_has(tmp_path: Path) -> None:
    text = """
    dim N <= 8
    func @f() -> (y: tensor<Nxf32>) {
      %y = constant {type = tensor<Nxf32>, value = [1.0]} : tensor<Nxf32>
      return %y
    }
    """
    context = default_context()
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    with pytest.raises(GraphcError, match=r"none of this function's has N"):
        gc.export_onnx(Program(module, is_written=True), tmp_path / "f.onnx")


@pytest.mark.parametrize(
    ("change", "slug", "part"),
    [
        ({"path": "net.pb"}, "bad-option", "requires a name that ends in .onnx, got net.pb"),
        ({"outputs": "nothing"}, "missing-node", "no node `nothing`"),
        ({"outputs": 3}, "argument-type", "outputs"),
        ({"precision": "f16"}, "bad-option", "f16"),
        ({"batch": 0}, "bad-option", "batch"),
        ({"path": "no/such/folder/net.onnx"}, "file", "no/such/folder"),
    ],
)
def test_wrong_arguments(
    change: dict[str, Any],
    slug: str,
    part: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"path": "net.onnx", **change}
    with pytest.raises(GraphcError) as raised:
        gc.loads(MLP).export_onnx(**given)
    assert raised.value.diagnostics[0].slug == slug
    assert part in str(raised.value)
    assert [*tmp_path.iterdir()] == []


def test_neither_a_network_nor_a_program(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="a network is required, got"):
        gc.export_onnx(attention, tmp_path / "net.onnx")  # type: ignore[arg-type]


def test_the_package_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n == "onnx" or n.startswith("onnx.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(GraphcError, match=r'pip install "graphc\[onnx\]"') as raised:
        gc.loads(MLP).export_onnx(tmp_path / "net.onnx")
    assert raised.value.diagnostics[0].slug == "toolchain"
    assert [*tmp_path.iterdir()] == []
