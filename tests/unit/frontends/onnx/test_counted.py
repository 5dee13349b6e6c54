"""Results whose size values decide, with the size that the user gives, judged by ONNX itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import helper
from onnx.reference import ReferenceEvaluator

import graphc as gc
from graphc_frontends.onnx.model import GivenDims, program_of
from tests.support.compiling import JUDGED
from tests.support.onnx_models import model

ROOM = 40
BOXES = 7


def boxes_kept(limit: int, classes: int = 3, **attributes: int) -> Any:
    weights = {"limit": np.array([limit]), "share": np.float32([0.3]), "least": np.float32([0.2])}
    names = ["boxes", "scores", *weights]
    nodes = [helper.make_node("NonMaxSuppression", names, ["kept"], **attributes)]
    inputs = {"boxes": ["n", BOXES, 4], "scores": ["n", classes, BOXES]}
    return model(nodes, inputs, ["kept"], weights)


@pytest.mark.parametrize("backend", JUDGED)
@pytest.mark.parametrize(("limit", "center"), [(2, 0), (10**9, 1), (0, 0)])
def test_boxes_are_kept_as_onnx_keeps_them(limit: int, center: int, backend: str) -> None:
    """Scores that tie, samples whose number each call decides, and less room than there are."""
    made = boxes_kept(limit, center_point_box=center)
    program = program_of(made, "x.onnx", GivenDims({"n": 4}, sizes={"kept.0": ROOM}))
    call, judge = gc.compile(program, backend=backend), ReferenceEvaluator(made)
    rng = np.random.default_rng(3)
    for n in (4, 1):
        boxes = rng.uniform(0, 2, (n, BOXES, 4)).astype(np.float32)
        scores = (rng.integers(0, 6, (n, 3, BOXES)) / 5).astype(np.float32)
        scores[0, 0, 2] = np.nan
        found = call(boxes=boxes, scores=scores)["kept"]
        wanted = judge.run(None, {"boxes": boxes, "scores": scores})[0][:ROOM]
        assert len(wanted) == ROOM or (n, limit) != (4, 10**9)
        np.testing.assert_array_equal(found[: len(wanted)], wanted)
        np.testing.assert_array_equal(found[len(wanted) :], -1)


@pytest.mark.parametrize("backend", JUDGED)
@pytest.mark.parametrize("sizes", [["n"], ["n", 2, 3], ["n", 0], []])
def test_places_of_what_is_not_zero(sizes: list[Any], backend: str) -> None:
    made = model([helper.make_node("NonZero", ["x"], ["y"])], {"x": sizes}, ["y"])
    program = program_of(made, "x.onnx", GivenDims({"n": 5} if sizes else {}, sizes={"y.1": 8}))
    call = gc.compile(program, backend=backend)
    for n in (0, 1, 5):
        shape = [n, *sizes[1:]] if sizes else []
        x = np.random.default_rng(n).integers(0, 2, shape).astype(np.float32)
        wanted = np.stack(np.nonzero(x))[:, :8] if sizes else np.zeros((0, 8))
        found = call(x=x)["y"]
        assert found.shape == (len(sizes), 8) and found.dtype == np.int64
        np.testing.assert_array_equal(found[:, : wanted.shape[1]], wanted)
        np.testing.assert_array_equal(found[:, wanted.shape[1] :], -1)


def test_a_size_is_asked_for() -> None:
    with pytest.raises(gc.GraphcError, match=r"input.*how many rows the result `kept` has.*--dim"):
        program_of(boxes_kept(3), "x.onnx", GivenDims({"n": 4}))
    with pytest.raises(
        gc.GraphcError, match=r"no `kept.1`; it has n, kept\.0; did you mean `kept\.0`"
    ):
        program_of(boxes_kept(3), "x.onnx", GivenDims({"n": 4}, sizes={"kept.1": 3}))
    made = model([helper.make_node("NonZero", ["x"], ["y"])], {"x": ["n"]}, ["y"])
    with pytest.raises(gc.GraphcError, match=r"or the size of the result, `--dim y\.1=…!`"):
        program_of(made, "x.onnx")
