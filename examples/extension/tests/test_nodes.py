"""The nodes: judged by their references, and in networks as text, files and programs."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.cli.main import main
from graphc_extension.nodes import GATED, HUBER

NETWORK = """
net = [
    features = Input(2, tag=feature)
    labels = Input(1, tag=label)
    W = Parameter(8, 2, initValueScale=20)
    G = Parameter(8, 2, initValueScale=20)
    h = Gated(Times(W, features), Times(G, features), sharpness=2)
    V = Parameter(1, 8, initValueScale=10)
    z = Times(V, h)
    c = Huber(labels, z, width=0.5, tag=criterion)
    OutputNodes = (z)
]
run = net
"""


def test_the_nodes_are_what_their_references_say() -> None:
    assert gc.check_node(GATED, (3, None), (3, None), settings={"sharpness": 0.5}).passed
    assert gc.check_node(GATED, (2, 3), (2, 1), backends=["llvm"]).passed
    assert gc.check_node(HUBER, (3, None), (3, None)).passed


def data() -> tuple[np.ndarray, np.ndarray]:
    """Points in a square, and a function of them that a plane cannot follow."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, (200, 2))
    return x, np.abs(x[:, :1] + x[:, 1:])


def test_a_network_with_them_learns() -> None:
    net = gc.loads(NETWORK)
    x, t = data()
    records = gc.train(
        net, {"features": x, "labels": t}, epochs=60, minibatch=20, learning_rate=0.2, momentum=0.5
    )
    assert records[-1].criterion < 0.2 * records[0].criterion


def test_the_same_network_in_python_gives_the_same_numbers() -> None:
    """Leaves are drawn in their order, so both have the same parameters."""
    net = gc.Network()
    x, t = net.input("features", 2, tag="feature"), net.input("labels", 1, tag="label")
    w, g = net.parameter("W", 8, 2), net.parameter("G", 8, 2)
    h = net.gated(w @ x, g @ x, sharpness=2.0)
    net.huber(t, net.parameter("V", 1, 8) @ h, width=0.5, name="c", tag="criterion")
    written = gc.loads(NETWORK)
    for name in ("W", "G", "V"):
        net.parameters[name] = written.parameters[name]
    xs, ts = data()
    values = [gc.compile(n, "c")(features=xs, labels=ts)["c"] for n in (net, written)]
    assert values[0] == values[1] > 0


def test_a_network_with_them_is_written_as_ndl_that_reads_back() -> None:
    net = gc.loads(NETWORK)
    text = net.to_ndl()
    assert "Gated(" in text
    assert str(gc.loads(text)) == str(net)


def test_a_model_file_with_them_loads(tmp_path: Path) -> None:
    net = gc.loads(NETWORK)
    net.save(tmp_path / "model.safetensors")
    xs, _ = data()
    loaded = gc.load(tmp_path / "model.safetensors")
    wanted = gc.compile(net, "z")(features=xs)["z"]
    np.testing.assert_array_equal(gc.compile(loaded, "z")(features=xs)["z"], wanted)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_program_of_them_needs_nothing_of_this_package(tmp_path: Path) -> None:
    net = gc.loads(NETWORK)
    net.save(tmp_path / "net.safetensors")
    program = tmp_path / "gated"
    command = ["compile", str(tmp_path / "net.safetensors"), "-o", str(program)]
    assert main(command, sys.stdin, sys.stdout, sys.stderr) == 0
    xs, _ = data()
    np.savetxt(tmp_path / "points.txt", xs[:5])
    shown = subprocess.run([program, tmp_path / "points.txt"], capture_output=True, check=True)
    wanted = gc.compile(net, "z")(features=np.loadtxt(tmp_path / "points.txt"))["z"]
    np.testing.assert_allclose(np.loadtxt(shown.stdout.decode().splitlines()), wanted[:, 0], 1e-5)
