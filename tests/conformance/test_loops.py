"""Recurrent networks as users write them, with nodes: values and gradients of their loops.

Judged by the nodes' own references step by step (values), by the network written out for its steps,
which has no loops (values, gradients), and by central differences (gradients, second order).
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from graphc.ir.clone import clone_module
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.passes.expand_nodes import ExpandNodes
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import Pass, PassManager
from graphc.passes.synthesize_gradient import SynthesizeGradient
from graphc.passes.synthesize_tangent import SynthesizeTangent
from tests.support.compiling import JUDGED
from tests.support.recurrent_networks import FEATURES, LABELS, NETWORKS, network
from tests.support.sequences import (
    Packing,
    compiled_for_sequences,
    evaluate_sequences,
    in_one_slot,
    side_by_side,
)
from tests.support.unrolled import step_inputs, unrolled

Array = np.ndarray
EVERY = pytest.mark.parametrize("name", NETWORKS)
EVERYWHERE = pytest.mark.parametrize("backend", JUDGED)
OUTPUTS = ("ce", "z")
BOUNDS = (64, 5)
TIMES = (1, 2, 7, 64)


def full(time: int, slots: int) -> Packing:
    return Packing(time, (((0, time),),) * slots)


def ragged(time: int, slots: int) -> Packing:
    """One sequence to a slot, the first one of all steps, the others shorter."""
    rng = np.random.default_rng(time)
    lengths = [time, *map(int, rng.integers(1, time + 1, slots - 1))]
    return Packing(time, tuple(((0, n),) for n in lengths))


PACKINGS = (
    *(full(time, slots) for time in TIMES for slots in (1, 5)),
    *(ragged(time, 5) for time in TIMES[1:]),
    side_by_side([4, 1, 7, 2, 5, 3, 1], 3, np.random.default_rng(1)),
)


def leaves_of(model: Model, packing: Packing) -> dict[str, Array]:
    """The matrix of every leaf, rows x columns."""
    rng = np.random.default_rng(zlib.crc32(str(packing).encode()))
    columns = sum(packing.lengths)
    return {
        **{name: value.astype(np.float64) for name, value in model.values.items()},
        "features": rng.normal(size=(FEATURES, columns)),
        "labels": np.eye(LABELS)[:, rng.integers(0, LABELS, columns)],
    }


def close(got: Mapping[str, Array], wanted: Mapping[str, Array], tolerance: float) -> None:
    for name, value in wanted.items():
        largest = float(np.max(np.abs(value), initial=1.0))
        assert got[name].shape == value.shape, name
        error = float(np.max(np.abs(got[name] - value), initial=0.0))
        assert error <= tolerance * largest, (name, error, largest)


# --- values ---------------------------------------------------------------------------------------


@EVERYWHERE
@EVERY
def test_a_loop_gives_what_its_nodes_give_step_by_step(name: str, backend: str) -> None:
    model = network(name).model
    packings = PACKINGS if backend != "reference" else PACKINGS[:4]
    call = compiled_for_sequences(model, OUTPUTS, backend=backend, bounds=BOUNDS)
    for packing in packings:
        leaves = leaves_of(model, packing)
        judged = evaluate_sequences(model.graph, leaves, packing.lengths)
        close(call(packing, leaves), {n: judged[n] for n in OUTPUTS}, 1e-11)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@EVERY
def test_a_loop_in_f32_is_near_the_one_in_f64(name: str, backend: str) -> None:
    model = network(name).model
    call = compiled_for_sequences(
        model, OUTPUTS, ("features", *model.values), backend=backend, dtype=DType.F32, bounds=BOUNDS
    )
    exact = compiled_for_sequences(
        model, OUTPUTS, ("features", *model.values), backend="numpy", bounds=BOUNDS
    )
    for packing in (full(7, 5), ragged(64, 5)):
        leaves = leaves_of(model, packing)
        close(call(packing, leaves), exact(packing, leaves), 2e-5)


# --- gradients ------------------------------------------------------------------------------------


def gradients_by_steps(model: Model, leaves: Mapping[str, Array], steps: int) -> dict[str, Array]:
    """Criterion, outputs and gradients of sequences of one length, by the unrolled network."""
    plain = unrolled(model, steps)
    arrays = {n: _over_time(leaves[n], steps) for n in ("features", "labels")}
    wrt = (*model.values, *(f"features.{t}" for t in range(steps)))
    outputs = ("ce", *(f"z.{t}" for t in range(steps)))
    module = clone_module(plain.module)
    passes: list[Pass] = [
        InferShapes(),
        ExpandNodes(outputs, DType.F64, batch=8),
        SynthesizeGradient("ce", wrt),
    ]
    PassManager(passes).run(module, default_context())
    function = module.function("main")
    assert function is not None
    given = {**leaves, **step_inputs(arrays, plain)}
    made = evaluate(function, given, {"N": arrays["features"].shape[1]})
    found = {n: made[f"gradient.{n}"] for n in model.values}
    found["features"] = _columns([made[f"gradient.features.{t}"] for t in range(steps)])
    return {
        "ce": made["ce"],
        "z": _columns([made[f"z.{t}"] for t in range(steps)]),
        **{f"gradient.{n}": g for n, g in found.items()},
    }


def _over_time(matrix: Array, steps: int) -> Array:
    """[T, S, rows] of rows x columns, sequence after sequence."""
    by_sequence = matrix.T.reshape(-1, steps, matrix.shape[0])
    return np.ascontiguousarray(by_sequence.transpose(1, 0, 2))


def _columns(steps: Sequence[Array]) -> Array:
    """rows x columns, sequence after sequence, of [S, rows] for each step."""
    stacked = np.stack(steps)
    return stacked.transpose(1, 0, 2).reshape(-1, stacked.shape[2]).T


@EVERYWHERE
@EVERY
def test_the_gradient_of_a_loop_is_that_of_its_steps_written_out(name: str, backend: str) -> None:
    model = network(name).model
    wrt = ("features", *model.values)
    call = compiled_for_sequences(model, OUTPUTS, wrt, backend=backend, bounds=BOUNDS)
    for time, slots in ((1, 1), (1, 5), (2, 5), (7, 1), (7, 5)):
        packing = full(time, slots)
        leaves = leaves_of(model, packing)
        got = call(packing, leaves)
        close(got, gradients_by_steps(model, leaves, time), 1e-11)


@pytest.mark.parametrize("name", ["rnn", "lstm", "bidirectional"])
def test_the_gradient_of_64_steps_is_that_of_its_steps_written_out(name: str) -> None:
    model = network(name).model
    wrt = ("features", *model.values)
    call = compiled_for_sequences(model, OUTPUTS, wrt, bounds=BOUNDS)
    leaves = leaves_of(model, full(64, 2))
    close(call(full(64, 2), leaves), gradients_by_steps(model, leaves, 64), 1e-11)


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@EVERY
def test_the_gradient_of_sequences_together_is_the_sum_of_each_alone(
    name: str, backend: str
) -> None:
    model = network(name).model
    wrt = ("features", *model.values)
    call = compiled_for_sequences(model, OUTPUTS, wrt, backend=backend, bounds=BOUNDS)
    for packing in (ragged(7, 5), PACKINGS[-1]):
        leaves = leaves_of(model, packing)
        ends = np.cumsum([0, *packing.lengths])
        alone: list[dict[str, Array]] = []
        for start, end in itertools.pairwise(ends):
            own = {n: leaves[n][:, start:end] for n in ("features", "labels")}
            alone.append(call(in_one_slot([end - start]), {**leaves, **own}))
        wanted = {n: sum(a[n] for a in alone) for n in ("ce", *(f"gradient.{p}" for p in wrt[1:]))}
        for n in ("z", "gradient.features"):
            wanted[n] = np.concatenate([a[n] for a in alone], axis=1)
        close(call(packing, leaves), wanted, 1e-11)  # type: ignore[arg-type]


@EVERY
def test_the_gradient_of_a_loop_is_the_difference(name: str) -> None:
    model = network(name).model
    wrt = ("features", *model.values)
    call = compiled_for_sequences(model, ("ce",), wrt, bounds=BOUNDS)
    value = compiled_for_sequences(model, ("ce",), bounds=BOUNDS)
    for packing in (ragged(7, 5), ragged(64, 2)):
        leaves = leaves_of(model, packing)
        got = call(packing, leaves)
        rng = np.random.default_rng(3)
        for leaf in wrt:
            direction = rng.choice([-1.0, 1.0], leaves[leaf].shape)
            sides = [
                value(packing, {**leaves, leaf: leaves[leaf] + s * direction})["ce"].item()
                for s in (1e-6, -1e-6)
            ]
            difference = (sides[0] - sides[1]) / 2e-6
            found = float(np.sum(got[f"gradient.{leaf}"] * direction))
            assert abs(found - difference) <= 1e-5 + 1e-5 * abs(difference), leaf


# --- forward mode, second order -------------------------------------------------------------------


def derivative(model: Model, *passes: Pass) -> Model:
    module = clone_module(model.module)
    expansion = ExpandNodes(("ce", "z"), DType.F64, time=16, sequences=4)
    PassManager([InferShapes(), expansion, *passes], verify=True).run(module, default_context())
    return Model(module)


def run(made: Model, packing: Packing, leaves: Mapping[str, Array]) -> dict[str, Array]:
    """Evaluated as it stands, without any pass behind those that made it."""
    function = made.module.function("main")
    assert function is not None
    packed = {
        n: packing.pack(x, 0.0) if n.removeprefix("tangent.") in ("features", "labels") else x
        for n, x in leaves.items()
    }
    sizes = {"T": packing.time, "S": len(packing.slots)}
    return evaluate(function, {**packed, **packing.tables}, {**sizes, "N": sizes["T"] * sizes["S"]})


def directions(leaves: Mapping[str, Array], wrt: Sequence[str]) -> dict[str, Array]:
    rng = np.random.default_rng(9)
    return {f"tangent.{n}": rng.normal(size=leaves[n].shape) for n in wrt}


@EVERY
def test_forward_mode_through_a_loop_is_the_transpose_of_reverse_mode(name: str) -> None:
    model = network(name).model
    wrt = ("features", *model.values)
    packing = ragged(7, 4)
    leaves = leaves_of(model, packing)
    vectors = directions(leaves, wrt)
    reverse = run(derivative(model, SynthesizeGradient("ce", wrt)), packing, leaves)
    forward = run(derivative(model, SynthesizeTangent(wrt)), packing, {**leaves, **vectors})
    terms = [
        float(np.sum(reverse[f"gradient.{n}"] * _as_given(vectors[f"tangent.{n}"], n, packing)))
        for n in wrt
    ]
    scale = max(1.0, *(abs(t) for t in terms))
    assert abs(forward["tangent.ce"].item() - sum(terms)) <= 1e-11 * scale


def _as_given(matrix: Array, name: str, packing: Packing) -> Array:
    return packing.pack(matrix, 0.0) if name == "features" else matrix


@EVERY
def test_forward_over_reverse_is_the_difference_of_gradients(name: str) -> None:
    model = network(name).model
    wrt = ("features", *model.values)
    packing = ragged(5, 3)
    leaves = leaves_of(model, packing)
    vectors = directions(leaves, wrt)
    made = derivative(model, SynthesizeGradient("ce", wrt), SynthesizeTangent(wrt))
    got = run(made, packing, {**leaves, **vectors})
    gradient = derivative(model, SynthesizeGradient("ce", wrt))
    sides = [
        run(
            gradient,
            packing,
            {**leaves, **{n: leaves[n] + s * vectors[f"tangent.{n}"] for n in wrt}},
        )
        for s in (1e-6, -1e-6)
    ]
    for leaf in wrt:
        wanted = (sides[0][f"gradient.{leaf}"] - sides[1][f"gradient.{leaf}"]) / 2e-6
        found = got[f"tangent.gradient.{leaf}"]
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6, err_msg=leaf)
