"""Transposed convolutions over axes whose size a call decides: one compilation, judged by numpy at
every size up to the bounds, with gradients, and refused where there is nothing to put back."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphc as gc
from tests.support.compiling import JUDGED, RUN_HERE

Array = np.ndarray
RANDOM = np.random.default_rng(3)
W, D, ONE = (RANDOM.normal(size=sizes) for sizes in ((3, 2, 2, 3), (2, 3, 3), (1, 1, 2, 3)))


def put_back(x: Array, w: Array, strides: tuple[int, int], apart: tuple[int, int]) -> Array:
    """Each place of x [N, P, Q, F] times w [S, T, C, F], added where its window lies."""
    n, rows, cols, _ = x.shape
    s, t, channels, _ = w.shape
    high = (rows - 1) * strides[0] + (s - 1) * apart[0] + 1
    wide = (cols - 1) * strides[1] + (t - 1) * apart[1] + 1
    made = np.zeros((n, high, wide, channels))
    for p, q, i, j in np.ndindex(rows, cols, s, t):
        place = (p * strides[0] + i * apart[0], q * strides[1] + j * apart[1])
        made[:, *place] += x[:, p, q] @ w[i, j].T
    return made


def windows_of(x: Array, w: Array, strides: tuple[int, int]) -> Array:
    seen = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    return np.einsum("npqcst,stcf->npqf", seen[:, :: strides[0], :: strides[1]], w)


def grown(x: Any, w: Any, d: Any) -> dict[str, Any]:
    """The last has as many windows as there are places, so it meets x again."""
    wide = gc.conv_transpose(x, w, (2, 3))
    made = {
        "wide": wide,
        "apart": gc.conv_transpose(x, ONE, (3, 2)),
        "each": gc.depthwise_conv_transpose(x, d, (2, 1)),
        "gaps": gc.depthwise_conv_transpose(x, d, (2, 3), (3, 2)),
        "again": x * gc.conv(gc.tanh(wide), w, (2, 3)),
        "cropped": wide[:, 1:, :-1],
    }
    return {**made, "loss": sum(gc.sum(v * v) for v in made.values())}


def grown_by_numpy(x: Array, w: Array, d: Array) -> dict[str, Array]:
    each = np.einsum("stc,cf->stcf", d, np.eye(3))
    wide = put_back(x, w, (2, 3), (1, 1))
    made = {
        "wide": wide,
        "apart": put_back(x, ONE, (3, 2), (1, 1)),
        "each": put_back(x, each, (2, 1), (1, 1)),
        "gaps": put_back(x, each, (2, 3), (3, 2)),
        "again": x * windows_of(np.tanh(wide), w, (2, 3)),
        "cropped": wide[:, 1:, :-1],
    }
    return {**made, "loss": np.array(sum((v * v).sum() for v in made.values()))}


def judge(backend: str, sizes: list[tuple[int, int, int]]) -> None:
    types, bounds = {"x": "NxHxWx3xf64"}, {"N": 2, "H": 4, "W": 5}
    net = gc.program(grown, types, parameters={"w": W, "d": D}, bounds=bounds)
    call = gc.compile(net, backend=backend)
    slopes = gc.compile(net, "loss", gradients=["x", "w", "d"], backend=backend)
    for n, h, w in sizes:
        given = {"x": np.random.default_rng(h * 9 + w).normal(size=(n, h, w, 3)), "w": W, "d": D}
        if not h or not w:
            for compiled in (call, slopes):
                with pytest.raises(gc.GraphcError, match=r"to be at least 0, got -\d for N = "):
                    compiled(x=given["x"])
            continue
        got, wanted = call(x=given["x"]), grown_by_numpy(**given)
        for name, array in wanted.items():
            assert got[name].shape == array.shape
            np.testing.assert_allclose(got[name], array, 1e-12, 1e-12, err_msg=f"{name} {n, h, w}")
        found, rng = slopes(x=given["x"]), np.random.default_rng(1)
        for name, array in given.items():
            way = rng.normal(size=array.shape) * 1e-6
            up, down = (grown_by_numpy(**{**given, name: array + s})["loss"] for s in (way, -way))
            along = (found[f"gradient.{name}"] * way).sum()
            np.testing.assert_allclose(along, (up - down) / 2, 1e-5, 1e-12)


@pytest.mark.parametrize("backend", RUN_HERE)
def test_transposed_convolutions_and_their_gradients_at_every_size(backend: str) -> None:
    judge(backend, [*itertools.product((1,), range(5), range(6)), (0, 3, 2), (2, 4, 5)])


@pytest.mark.parametrize("backend", [b for b in JUDGED if b not in RUN_HERE])
def test_the_same_on_an_emulated_gpu(backend: str) -> None:
    judge(backend, [(1, 1, 1), (2, 3, 4), (1, 0, 2)])


@pytest.mark.parametrize("backend", RUN_HERE)
def test_images_that_were_halved_are_doubled_again(backend: str) -> None:
    """What is put back lies over what it came from: the sizes are shown to be what they are."""

    def halved(x: Any, w: Any) -> dict[str, Any]:
        small = gc.conv(x, w, 2)
        large = gc.conv_transpose(small, w, 2)
        same = x[:, : large.shape[1], : large.shape[2]] + large
        return {"same": same, "few": gc.conv(large, w, 2) * small}

    net = gc.program(
        halved,
        {"x": "NxHxWx2xf64"},
        parameters={"w": W},
        bounds={"N": 1, "H": 8, "W": 6},
    )
    call = gc.compile(net, backend=backend)
    for h, w in itertools.product(range(3, 9), range(2, 7)):
        x = np.random.default_rng(h).normal(size=(1, h, w, 2))
        small = windows_of(x, W, (2, 2))
        large = put_back(small, W, (2, 2), (1, 1))
        got = call(x=x)
        same = x[:, : large.shape[1], : large.shape[2]] + large
        np.testing.assert_allclose(got["same"], same, 1e-12, 1e-12)
        np.testing.assert_allclose(got["few"], windows_of(large, W, (2, 2)) * small, 1e-12, 1e-12)


@pytest.mark.parametrize("backend", RUN_HERE)
def test_gaps_hold_nothing(backend: str) -> None:
    """An infinity is not multiplied with the zeros between the elements of a window."""
    d = np.ones((3, 1))
    net = gc.program(
        lambda x: gc.depthwise_conv_transpose(x, d, 1, 2), {"x": "Tx1xf64"}, bounds={"T": 3}
    )
    (made,) = gc.compile(net, backend=backend)(x=[[1], [np.inf]]).values()
    assert made[:, 0].tolist() == [1, np.inf, 1, np.inf, 1, np.inf]
