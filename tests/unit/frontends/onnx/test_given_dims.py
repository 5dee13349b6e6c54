"""What is said of a file's open sizes: that they are multiples of a number, or another's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import helper
from onnx.reference import ReferenceEvaluator

import graphc as gc
from tests.support.commands import graphc
from tests.support.compiling import RUN_HERE
from tests.support.onnx_models import model, saved

node = helper.make_node
POOL = {"kernel_shape": [2, 2], "strides": [2, 2]}


def halves_and_doubles(folder: Path) -> Path:
    """Twice half as large, twice doubled, each time with what there was before beside it: as
    networks for segmentation are. Between, the statistics of groups, by a reshape."""
    nodes = [
        node("MaxPool", ["x"], ["a"], **POOL),
        node("Conv", ["a", "w"], ["b"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Reshape", ["b", "groups"], ["c"]),
        node("ReduceMean", ["c", "last"], ["d"], keepdims=1),
        node("Sub", ["c", "d"], ["e"]),
        node("Shape", ["b"], ["of b"]),
        node("Reshape", ["e", "of b"], ["f"]),
        node("Resize", ["f", "", "twice"], ["g"], mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
        node("Concat", ["g", "a"], ["h"], axis=1),
        node("ConvTranspose", ["h", "v"], ["i"], strides=[2, 2]),
        node("Add", ["i", "x"], ["y"]),
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.normal(size=(2, 2, 3, 3)).astype(np.float32),
        "v": rng.normal(size=(4, 2, 2, 2)).astype(np.float32),
        "twice": np.array([1, 1, 2, 2], np.float32),
        "groups": np.array([0, 2, -1]),
        "last": np.array([-1]),
    }
    return saved(model(nodes, {"x": ["n", 2, "h", "w:0"]}, ["y"], weights), folder)


HOW: dict[str, Any] = {
    "bounds": {"h": 24, "w:0": 16, "n": 3},
    "multiples": {"h": 4, "w:0": 4},
}


@pytest.mark.parametrize("backend", RUN_HERE)
def test_multiples(backend: str, tmp_path: Path) -> None:
    path = halves_and_doubles(tmp_path)
    with pytest.raises(gc.GraphcError, match=r"--dim height=512/32"):
        gc.load_program(path, bounds={"h": 24, "w:0": 16})
    net = gc.load_program(path, **HOW)
    call, judge = gc.compile(net, backend=backend), ReferenceEvaluator(str(path))
    for n, h, w in ((1, 4, 4), (3, 24, 16), (2, 8, 12)):
        x = np.random.default_rng(h).normal(size=(n, 2, h, w)).astype(np.float32)
        wanted = judge.run(None, {"x": x})
        assert isinstance(wanted, list)
        np.testing.assert_allclose(call(x=x)["y"], wanted[0], 1e-4, 1e-5)
    with pytest.raises(gc.GraphcError, match=r"multiple of [24], got 6"):
        call(x=np.zeros((1, 2, 6, 4), np.float32))


def test_files_that_are_written_say_so_again(tmp_path: Path) -> None:
    net = gc.load_program(halves_and_doubles(tmp_path), **HOW)
    net.save(tmp_path / "net.safetensors")
    gc.export_onnx(net, tmp_path / "again.onnx")
    x = np.random.default_rng(1).normal(size=(2, 2, 12, 8)).astype(np.float32)
    wanted = gc.compile(net)(x=x)["y"]
    for name in ("net.safetensors", "again.onnx"):
        found = gc.compile(gc.load_program(tmp_path / name))
        np.testing.assert_allclose(found(x=x)["y"], wanted, 1e-5, 1e-5)
        with pytest.raises(gc.GraphcError, match=r"multiple of [24], got 10"):
            found(x=np.zeros((1, 2, 10, 8), np.float32))


def two_names(folder: Path) -> Path:
    inputs: dict[str, Any] = {"x": ["n", 3], "mask": ["m", 3], "far": ["k", 3]}
    nodes = [node("Mul", ["x", "mask"], ["z"]), node("Add", ["z", "far"], ["y"])]
    return saved(model(nodes, inputs, ["y"]), folder)


def test_two_names_of_one_size(tmp_path: Path) -> None:
    path = two_names(tmp_path)
    with pytest.raises(gc.GraphcError, match=r"--dim mask=batch"):
        gc.load_program(path)
    call = gc.compile(gc.load_program(path, sizes={"n": "m", "k": "m"}, bounds={"m": 4}))
    for n in (1, 4):
        x = np.full((n, 3), 2, np.float32)
        np.testing.assert_array_equal(call(x=x, mask=x, far=x)["y"], np.full((n, 3), 6))
    with pytest.raises(gc.GraphcError, match="is 2 in another input"):
        call(x=x[:2], mask=x[:1], far=x[:2])
    fixed = gc.load_program(path, sizes={"n": "m", "k": "m", "m": 2})
    assert [a.tensor.dims for a in fixed.function.arguments] == [(2, 3)] * 3


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"sizes": {"n": "no"}}, "`n` is to be that of `no`; .* has k, m"),
        ({"sizes": {"n": "m", "m": "n"}}, "`n` is to be that of `m`"),
        ({"multiples": {"no": 2}}, "multiples: .* has no `no`"),
        ({"multiples": {"n": 3}, "bounds": {"n": 8}}, "a bound that is a multiple of 3"),
        ({"multiples": {"n": 0}, "bounds": {"n": 8}}, "a bound that is a multiple of 0"),
        ({"bounds": {"n": 0}}, "the dim `n` requires a whole number from 1 to"),
        ({"bounds": {"n": "8"}}, "bounds of `n` requires a whole number, got str"),
        ({"bounds": 8}, "bounds requires whole numbers by name, got int"),
        ({"multiples": {"n": 1.5}}, "multiples of `n` requires a whole number, got float"),
        ({"sizes": {"n": -1}}, "sizes of `n` requires a whole number of at least 0, got -1"),
        ({"sizes": {"n": True}}, "sizes of `n` requires a whole number, got bool"),
        ({"sizes": {"n": "m"}, "bounds": {"n": 8}}, "sizes says what `n` is, so that it has no"),
        ({"sizes": {"n": 4}, "multiples": {"n": 8}}, "sizes says what `n` is, so that it has no"),
    ],
)
def test_what_cannot_be(how: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(gc.GraphcError, match=message):
        gc.load_program(two_names(tmp_path), **how)


def test_the_commands_take_both(tmp_path: Path) -> None:
    path = two_names(tmp_path)
    done = graphc("dump", path, "--dim", "n=m", "--dim", "k=m", "--dim", "m=16/8")
    assert done.code == 0, done.err
    assert "dim M <= 16" in done.out
    for given, message in (
        (("n=8/",), "NAME=SIZE/MULTIPLE"),
        (("n=-1",), "NAME=SIZE/MULTIPLE"),
        (("n=8/2", "n=9!"), "one value for n is required, got 8/2 and 9!"),
        (("n=4", "n=m"), "one value for n is required, got 4 and m"),
    ):
        wrong = graphc("dump", path, *(part for dim in given for part in ("--dim", dim)))
        assert (wrong.code, message in " ".join(wrong.err.split())) == (2, True), wrong.err
