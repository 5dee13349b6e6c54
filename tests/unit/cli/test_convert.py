"""`graphc convert`: what is written, what is refused, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.support.commands import graphc
from tests.support.model_bytes import classifier, dbn_file
from tests.support.model_bytes import model_formats as model_formats

pytestmark = pytest.mark.usefixtures("model_formats")


def test_a_model_of_the_toolkit_becomes_one_of_graphc_and_ndl(tmp_path: Path) -> None:
    (tmp_path / "simple.dnn.3").write_bytes(classifier())
    model, text = tmp_path / "simple.safetensors", tmp_path / "simple.ndl"
    done = graphc("convert", tmp_path / "simple.dnn.3", "-o", model)
    assert (done.code, done.out) == (0, "")
    done = graphc("convert", model, "-o", text, "--values")
    assert (done.code, done.out) == (0, "")
    assert "11 nodes; statistics are to be computed from data again" in done.err
    x = np.random.default_rng(0).standard_normal((4, 3))
    first, second = gc.load(tmp_path / "simple.dnn.3"), gc.load(model)
    a, b = (gc.compile(net, "z", precision="f64")(features=x)["z"] for net in (first, second))
    assert np.array_equal(a, b)
    again = gc.load(text)
    for name in ("b", "L1.W"):
        assert np.array_equal(again.parameters[name], first.parameters[name])


def test_a_stack_of_layers_and_ndl_are_read_too(tmp_path: Path) -> None:
    layer = ("rbm", np.ones((2, 3)), np.ones((2, 1)))
    (tmp_path / "stack").write_bytes(dbn_file(np.ones((3, 1)), np.ones((3, 1)), [layer]))
    assert graphc("convert", tmp_path / "stack", "-o", tmp_path / "a.safetensors").code == 0
    (tmp_path / "net.ndl").write_text("x = Input(N)\nw = Parameter(2, N)\ny = Times(w, x)\n")
    made = tmp_path / "b.ndl"
    done = graphc("convert", tmp_path / "net.ndl", "-o", made, "-D", "N=3", "--seed", "4")
    assert done.code == 0
    assert "3 nodes; no values, parameters are to be drawn again\n" in done.err
    assert made.read_text().splitlines()[0] == "x = InputValue(3)"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["-o", "out.pb"], "requires a name that ends in .safetensors, .ndl or .onnx"),
        (["-o", "out.ndl", "--nodes", "y"], "--nodes goes with .onnx"),
        (["-o", "out.safetensors", "--precision", "double"], "--precision goes with .onnx"),
        (["-o", "out.onnx", "--values"], "--values goes with .ndl"),
        (["-o", "out.onnx", "--dim", "N=4"], "--dim is for ONNX files"),
        (["-o", "out.onnx", "--parameters", "in.ndl"], "--parameters is for a MODEL that is"),
        (["-o", "out.safetensors", "--values"], "--values goes with .ndl"),
        (["-o", "in.ndl"], "another file than the one that is read"),
        ([], "Missing option '-o'"),
    ],
)
def test_wrong_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], part: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.ndl").write_text("x = Input(2)\ny = Tanh(x)\n")
    done = graphc("convert", "in.ndl", *arguments)
    assert done.code == 2
    assert part in done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.ndl"]


def test_a_damaged_model_leaves_the_output_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "bad.dnn").write_bytes(classifier()[:-9])
    (tmp_path / "out.safetensors").write_bytes(b"before")
    done = graphc("convert", tmp_path / "bad.dnn", "-o", tmp_path / "out.safetensors")
    assert done.code == 3
    assert "error[bad-model-file]" in done.err
    assert (tmp_path / "out.safetensors").read_bytes() == b"before"


def test_a_network_is_dumped_as_ndl(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(classifier())
    done = graphc("dump", tmp_path / "m", "--format", "ndl")
    assert done.code == 0
    assert '"L1.t" = Times("L1.W", n)' in done.out.splitlines()
    done = graphc("dump", tmp_path / "m", "--format", "ndl", "--stage", "kernels")
    assert done.code == 2
    assert "goes with --stage nodes" in done.err


# --- ONNX ----------------------------------------------------------------------------------------

NET = """
x = Input(2, tag=feature)
W = Parameter(3, 2)
z = Times(W, x, tag=output)
y = Softmax(z)
"""

PROGRAM = """
import numpy as np
import graphc as gc
w = np.arange(6, dtype=np.float32).reshape(2, 3)
net = gc.program(lambda x, w: x @ w, {"x": "Nx2"}, parameters={"w": w})
"""


def test_a_network_becomes_an_onnx_file(tmp_path: Path) -> None:
    net, made = tmp_path / "net.ndl", tmp_path / "net.onnx"
    net.write_text(NET)
    options = ("--nodes", "y,z", "--precision", "double", "--bound", "8", "--seed", "2")
    done = graphc("convert", net, "-o", made, *options)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{made}: {made.stat().st_size:,} bytes\n"
    x = np.random.default_rng(0).standard_normal((4, 2))
    program = gc.load_program(made)
    got, want = gc.compile(program)(x=x), gc.compile(gc.load(net, seed=2), ["y", "z"])(x=x)
    assert got["y"].dtype == np.float64
    for name in ("y", "z"):
        np.testing.assert_allclose(got[name], want[name], atol=1e-6)


def test_programs_become_onnx_files_and_model_files(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(PROGRAM)
    first, second = tmp_path / "f.onnx", tmp_path / "g.onnx"
    assert graphc("convert", f"{tmp_path / 'f.py'}:net", "-o", first).code == 0
    assert graphc("convert", first, "-o", tmp_path / "f.safetensors").code == 0
    assert graphc("convert", tmp_path / "f.safetensors", "-o", second).code == 0
    assert first.read_bytes() == second.read_bytes()
    assert graphc("convert", first, "-o", second, "--dim", "N=3!").code == 0
    assert gc.load_program(second).function.arguments[0].tensor.dims == (3, 2)


def test_ir_becomes_an_onnx_file_with_the_parameters_of_a_network(tmp_path: Path) -> None:
    net, ir, made = (tmp_path / name for name in ("net.ndl", "net.gir", "net.onnx"))
    net.write_text(NET)
    ir.write_text(graphc("dump", net, "--stage", "tensor").out)
    done = graphc("convert", ir, "-o", made)
    assert done.code == 3
    assert "the parameter `W`, which has no value" in done.err
    assert graphc("convert", ir, "-o", made, "--parameters", net).code == 0
    assert graphc("convert", net, "-o", tmp_path / "same.onnx").code == 0
    assert made.read_bytes() == (tmp_path / "same.onnx").read_bytes()
    done = graphc("convert", ir, "-o", tmp_path / "net.safetensors")
    assert done.code == 2
    assert "IR can be written as .onnx alone" in done.err
    ir.write_text(graphc("dump", net, "--stage", "kernels").out)
    made.write_bytes(b"before")
    done = graphc("convert", ir, "-o", made, "--parameters", net)
    assert done.code == 3
    assert "ONNX has nothing for `gemm`" in done.err
    assert f"{ir}:4" in done.err
    assert made.read_bytes() == b"before"


def test_a_program_is_no_ndl(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(PROGRAM)
    done = graphc("convert", f"{tmp_path / 'f.py'}:net", "-o", tmp_path / "f.ndl")
    assert done.code == 2
    assert ".ndl is for networks" in done.err
