"""Recurrent networks of nodes, and scans, against PyTorch's layers and cells written in it.

What is judged is the whole way from NDL to machine code for sequences of different lengths: the
outputs, the criterion, and the gradients of every parameter and of the features.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.ir.types import DType
from graphc.model.model import Model
from tests.support.recurrent_networks import FEATURES, LABELS, ROWS, network
from tests.support.sequences import Packing, compiled_for_sequences
from tests.torch.conftest import Tally
from tests.torch.tensor_functions import Tensor, torch

Array = np.ndarray
FLOATS = (DType.F32, DType.F64)
PACKINGS = {
    "alone": Packing(7, (((0, 7),),)),
    "one step": Packing(1, (((0, 1),),) * 5),
    "ragged": Packing(7, tuple(((0, n),) for n in (7, 3, 1, 5, 2))),
    "long": Packing(64, tuple(((0, n),) for n in (64, 40, 17, 64, 2))),
}
# Times the largest element: both sides round, in sums over all steps.
TOLERANCE = {DType.F32: 3e-5, DType.F64: 1e-12}
GATES = ("i", "f", "c", "o")  # in the order of torch.nn.LSTM

Parameters = Mapping[str, Tensor]
Layer = Callable[[Parameters, Tensor], Tensor]
"""(parameters, features [T, rows]) -> what stands below `z`, [T, rows], of one sequence."""


# --- in PyTorch -----------------------------------------------------------------------------------


def peephole_lstm(p: Parameters, x: Tensor) -> Tensor:
    """Equations 2.183 to 2.199 of the book, with diagonal peepholes, step by step."""
    h = c = torch.zeros(ROWS, dtype=x.dtype)
    made: list[Tensor] = []

    def gate(k: str, seen: Tensor) -> Tensor:
        above = p[f"top.Wx{k}"] @ x_t + p[f"top.Wh{k}"] @ h + p[f"top.b{k}"].squeeze(1)
        return torch.sigmoid(above + p[f"top.wc{k}"].squeeze(1) * seen)

    for x_t in x:
        i, f = gate("i", c), gate("f", c)
        new = p["top.Wxc"] @ x_t + p["top.Whc"] @ h + p["top.bc"].squeeze(1)
        c = f * c + i * torch.tanh(new)
        h = gate("o", c) * torch.tanh(c)
        made.append(h)
    return torch.stack(made)


def torch_lstm(p: Parameters, x: Tensor) -> Tensor:
    """`torch.nn.LSTM`, which has no peepholes."""
    layer = torch.nn.LSTM(FEATURES, ROWS, bias=True, dtype=x.dtype)
    weights = {
        "weight_ih_l0": torch.cat([p[f"top.Wx{k}"] for k in GATES]),
        "weight_hh_l0": torch.cat([p[f"top.Wh{k}"] for k in GATES]),
        "bias_ih_l0": torch.cat([p[f"top.b{k}"].squeeze(1) for k in GATES]),
        "bias_hh_l0": torch.zeros(4 * ROWS, dtype=x.dtype),
    }
    return torch.func.functional_call(layer, weights, (x,))[0]


def torch_rnn(p: Parameters, x: Tensor) -> Tensor:
    """`torch.nn.RNN` from the default value 0.1."""
    layer = torch.nn.RNN(FEATURES, ROWS, dtype=x.dtype)
    return torch.func.functional_call(
        layer, _direction(p, "top", ""), (x, torch.full((1, ROWS), 0.1, dtype=x.dtype))
    )[0]


def torch_bidirectional(p: Parameters, x: Tensor) -> Tensor:
    """`torch.nn.RNN` in both directions, from default values of their own."""
    layer = torch.nn.RNN(FEATURES, ROWS, bidirectional=True, dtype=x.dtype)
    start = torch.tensor([[0.1] * ROWS, [-0.2] * ROWS], dtype=x.dtype)
    weights = {**_direction(p, "there", ""), **_direction(p, "back", "_reverse")}
    return torch.func.functional_call(layer, weights, (x, start))[0]


def _direction(p: Parameters, macro: str, suffix: str) -> dict[str, Tensor]:
    bias = p[f"{macro}.b"].squeeze(1)
    return {
        f"weight_ih_l0{suffix}": p[f"{macro}.W"],
        f"weight_hh_l0{suffix}": p[f"{macro}.R"],
        f"bias_ih_l0{suffix}": bias,
        f"bias_hh_l0{suffix}": torch.zeros_like(bias),
    }


def gru(p: Parameters, x: Tensor) -> Tensor:
    """A gated recurrent unit that resets before the product, step by step."""
    h = torch.full((ROWS,), 0.3, dtype=x.dtype)
    made: list[Tensor] = []
    for x_t in x:
        r, u = (
            torch.sigmoid(p[f"W{k}"] @ x_t + p[f"R{k}"] @ h + p[f"b{k}"].squeeze(1)) for k in "ru"
        )
        candidate = torch.tanh(p["Wc"] @ x_t + p["Rc"] @ (r * h) + p["bc"].squeeze(1))
        h = u * h + (1 - u) * candidate
        made.append(h)
    return torch.stack(made)


def in_torch(
    layer: Layer, leaves: Mapping[str, Array], wrt: tuple[str, ...], lengths: list[int]
) -> dict[str, Array]:
    """Criterion, outputs and gradients, sequence after sequence; matrices are rows x columns."""
    p = {n: torch.tensor(x, requires_grad=n in wrt) for n, x in leaves.items()}
    parts = torch.split(p["features"].T, lengths)
    z = torch.cat([layer(p, x) for x in parts]) @ p["Wo"].T
    ce = -torch.sum(p["labels"].T * torch.log_softmax(z, dim=1))
    slopes = torch.autograd.grad(ce, [p[n] for n in wrt])
    found = {f"gradient.{n}": g.numpy() for n, g in zip(wrt, slopes, strict=True)}
    return {"z": z.detach().numpy().T, "ce": ce.detach().numpy().reshape(1, 1), **found}


# --- networks -------------------------------------------------------------------------------------

JUDGES: tuple[tuple[str, str, Layer], ...] = (
    ("a peephole LSTM", "lstm", peephole_lstm),
    ("torch.nn.LSTM", "lstm", torch_lstm),
    ("torch.nn.RNN", "rnn", torch_rnn),
    ("torch.nn.RNN in both directions", "bidirectional", torch_bidirectional),
    ("a GRU", "gru", gru),
)


def leaves_of(model: Model, packing: Packing, dtype: DType, without: str) -> dict[str, Array]:
    """Matrices rows x columns; parameters whose names begin with `without` are zero."""
    rng = np.random.default_rng(zlib.crc32(str(packing).encode()))
    columns = sum(packing.lengths)
    found = {
        **{n: x * (not without or not n.startswith(without)) for n, x in model.values.items()},
        "features": rng.normal(size=(FEATURES, columns)),
        "labels": np.eye(LABELS)[:, rng.integers(0, LABELS, columns)],
    }
    return {n: np.array(x, dtype.numpy) for n, x in found.items()}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("title", "name", "layer"), JUDGES, ids=[j[0] for j in JUDGES])
def test_a_recurrent_network_has_the_value_and_the_gradients_that_pytorch_finds(
    title: str, name: str, layer: Layer, dtype: DType, tally: Tally
) -> None:
    model = network(name).model
    without = "top.wc" if layer is torch_lstm else ""
    parameters = [n for n in model.values if not without or not n.startswith(without)]
    wrt = ("features", *parameters)
    call = compiled_for_sequences(model, ("ce", "z"), wrt, dtype=dtype, bounds=(64, 8))
    for where, packing in PACKINGS.items():
        leaves = leaves_of(model, packing, dtype, without)
        wanted = in_torch(layer, leaves, wrt, packing.lengths)
        got = call(packing, leaves)
        for result, value in wanted.items():
            _require_near(got[result], value, dtype, f"{result}, {where}")
        tally.add(title, f"values {dtype}", 2)
        tally.add(title, f"gradients {dtype}", len(wrt))


def _require_near(got: Any, wanted: Array, dtype: DType, what: str) -> None:
    assert np.shape(got) == wanted.shape, what
    assert np.asarray(got).dtype == wanted.dtype, what
    largest = max(1.0, float(np.abs(wanted).max(initial=0.0)))
    error = float(np.abs(np.asarray(got) - wanted).max(initial=0.0))
    assert error <= TOLERANCE[dtype] * largest, (what, error, largest)


# --- scans ----------------------------------------------------------------------------------------


def scanned(w: dict[str, Any], x: Any) -> Any:
    """`torch.nn.LSTM` for sequences side by side, [T, S, FEATURES], as a scan."""

    def step(carry: Any, element: Any) -> Any:
        h, c = carry
        above = element @ w["ih"].T + h @ w["hh"].T + w["b"]
        i, f, g, o = (above[:, k * ROWS : (k + 1) * ROWS] for k in range(4))
        c = gc.sigmoid(f) * c + gc.sigmoid(i) * gc.tanh(g)
        h = gc.sigmoid(o) * gc.tanh(c)
        return (h, c), h

    start = gc.zeros((x.shape[1], ROWS))
    return gc.scan(step, (start, start), x)[1]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_scan_has_the_derivatives_that_pytorch_finds(dtype: DType, tally: Tally) -> None:
    rng = np.random.default_rng(5)
    w = {
        n: rng.normal(size=s).astype(dtype.numpy) / 2
        for n, s in {"ih": (4 * ROWS, FEATURES), "hh": (4 * ROWS, ROWS), "b": 4 * ROWS}.items()
    }
    x = rng.normal(size=(20, 5, FEATURES)).astype(dtype.numpy)
    u = rng.normal(size=(20, 5, ROWS)).astype(dtype.numpy)
    layer = torch.nn.LSTM(FEATURES, ROWS, dtype=getattr(torch, np.dtype(dtype.numpy).name))

    def judge(ih: Tensor, hh: Tensor, b: Tensor, given: Tensor) -> Tensor:
        weights = {"weight_ih_l0": ih, "weight_hh_l0": hh, "bias_ih_l0": b}
        weights["bias_hh_l0"] = torch.zeros_like(b)
        return torch.func.functional_call(layer, weights, (given,))[0]

    given = [torch.tensor(a, requires_grad=True) for a in (*w.values(), x)]
    wanted = judge(*given)
    slopes = torch.autograd.grad(torch.sum(wanted * torch.tensor(u)), given)
    f = gc.function(scanned)
    got, pullback = gc.vjp(f, w, x)
    _require_near(got, wanted.detach().numpy(), dtype, "value")
    to_w, to_x = pullback(u)
    for found, slope in zip((*to_w.values(), to_x), slopes, strict=True):
        _require_near(found, slope.numpy(), dtype, "gradient")
    _, tangent = gc.jvp(f, (w, x), (w, x))
    # Forward mode along v is what reverse mode says of u · J v.
    terms = [(s * g.detach()).numpy() for s, g in zip(slopes, given, strict=True)]
    expected = sum(float(t.sum()) for t in terms)
    scale = max(1.0, *(float(np.abs(t).sum()) for t in terms))
    assert abs(float(np.sum(u * tangent)) - expected) <= TOLERANCE[dtype] * scale
    tally.add("gc.scan of an LSTM", f"values {dtype}")
    tally.add("gc.scan of an LSTM", f"gradients {dtype}", len(slopes))
    tally.add("gc.scan of an LSTM", f"forward {dtype}")
