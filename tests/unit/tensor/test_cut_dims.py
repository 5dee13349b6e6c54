"""Axes whose size a call decides, cut, padded, joined and walked over by windows: one compilation,
judged by numpy at every size up to the bounds, and refused where there is too little."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.driver.artifact import ArtifactRequest, emit
from graphc.driver.options import CompileOptions
from tests.support.commands import graphc
from tests.support.compiling import JUDGED, RUN_HERE

Array = np.ndarray
KERNEL = np.array([0.5, -1.0, 2.0])


def cut(x: Any) -> dict[str, Any]:
    t = x.shape[0]
    return {
        "from": x[1:],
        "to": x[:-2],
        "inside": x[1:-1] * 2,
        "stepped": x[::2],
        "later": x[1::3],
        "backward": x[::-1],
        "some": x[3::-2],
        "rest": x[:1:-1],
        "last two": x[-2:],
        "first two": x[:2],
        "two": x[None, -3:-1, 0],
        "third": x[2],
        "last": x[-1],
        "slopes": x[1:] - x[:-1],
        "half": x[t // 2 :],
        "but two": x[: t - 2],
        "far": x[: 2**31 - 1],
        "none": x[-1:-2],
    }


def test_half_of_three_halves_beyond_the_bound_and_from_a_file(tmp_path: Path) -> None:
    """The text of a program is read then, and its sizes were in another form."""

    def three_halves(x: Any) -> Any:
        half = x[x.shape[0] - x.shape[0] // 2 :]
        joined = gc.concatenate([half, half, half])[1::2]
        return gc.concatenate([joined, x[:1]])

    program = gc.program(three_halves, {"x": "Wxf64"}, bounds={"W": 4})
    program.save(tmp_path / "p.safetensors")
    calls = gc.compile(program), gc.compile(gc.load_program(tmp_path / "p.safetensors"))
    for w in (4, 9, 17):
        x = np.arange(float(w))
        wanted = [*np.tile(x[w - w // 2 :], 3)[1::2], 0]
        for call in calls:
            np.testing.assert_array_equal(call(x=x)["result"], wanted)


@pytest.mark.parametrize("backend", RUN_HERE)
def test_slices_at_every_size(backend: str) -> None:
    call = gc.compile(gc.program(cut, {"x": "Tx3xf64"}, bounds={"T": 9}), backend=backend)
    for t in range(10):
        x = np.random.default_rng(t).normal(size=(t, 3))
        if t < 4:
            with pytest.raises(gc.GraphcError, match=rf"T - \d to be at least 0.* T = {t}"):
                call(x=x)
            continue
        got, wanted = call(x=x), cut(x)
        for name, array in wanted.items():
            np.testing.assert_array_equal(got[name], array, err_msg=f"{name} {t}")


@pytest.mark.parametrize("backend", RUN_HERE)
def test_what_needs_nothing_takes_no_elements_too(backend: str) -> None:
    def f(x: Any, u: Any) -> Any:
        joined = gc.concatenate([u, gc.ones((2,)), x[::-1], u])
        return {"a": x[::3], "b": gc.pad(x[::-2], (1, 2)), "c": joined, "d": gc.sum(x[::2])}

    call = gc.compile(
        gc.program(f, {"x": "Txf64", "u": "Uxf64"}, bounds={"T": 5, "U": 2}), backend=backend
    )
    for t, u in itertools.product(range(6), range(3)):
        x, y = np.arange(1.0, t + 1), np.arange(9.0, u + 9)
        got = call(x=x, u=y)
        np.testing.assert_array_equal(got["a"], x[::3])
        np.testing.assert_array_equal(got["b"], np.pad(x[::-2], (1, 2)))
        np.testing.assert_array_equal(got["c"], np.concatenate([y, np.ones(2), x[::-1], y]))
        assert got["d"] == x[::2].sum()


@pytest.mark.parametrize("backend", RUN_HERE)
def test_what_is_filled_up_to_a_multiple_may_be_nothing(backend: str) -> None:
    """It was taken for never negative what is left of (T + 2) / 3 * 3 without 3: calls with nothing
    read memory behind the array."""

    def f(x: Any) -> Any:
        t = x.shape[0]
        filled = gc.pad(x, [(0, (t + 2) // 3 * 3 - t)])
        return {"first": filled[:3], "pairs": gc.windows(filled, 3, 3)}

    call = gc.compile(gc.program(f, {"x": "Txf64"}, bounds={"T": 9}), backend=backend)
    for t in (1, 3, 4, 9):
        wanted = np.append(np.ones(t), np.zeros(-t % 3)).reshape(-1, 3)
        made = call(x=np.ones(t))
        np.testing.assert_array_equal(made["first"], wanted[0])
        np.testing.assert_array_equal(made["pairs"], wanted)
    with pytest.raises(gc.GraphcError, match="T - 1 to be at least 0, got -1 for T = 0"):
        call(x=np.ones(0))


def mixed(x: Any, u: Any) -> dict[str, Any]:
    on = gc if not isinstance(x, np.ndarray) else np
    joined = on.concatenate([x, u], axis=1)
    seen = gc.cross_correlate(joined, KERNEL)
    parts: dict[str, Any] = {
        "joined": joined,
        "padded": on.pad(x, [(0, 0), (1, 2)]),
        "seen": seen,
        "twice": gc.cross_correlate(gc.tanh(seen)[:, ::2], KERNEL[:2]),
        "slopes": x[:, 1:] * x[:, :-1],
        "stepped": x[:, ::-3],
        "few": u[:, :2] + x[:, 2:4] * x[:, -1:],
        "flat": x[:, 1:].reshape(-1),
    }
    made = {name: gc.tanh(part) for name, part in parts.items()}
    return {**made, "loss": sum(gc.sum(part) for part in made.values())}


def program(n: int, t: int, u: int) -> gc.Program:
    return gc.program(mixed, {"x": "NxTxf64", "u": "NxUxf64"}, bounds={"N": n, "T": t, "U": u})


def judge(backend: str, sizes: list[tuple[int, int, int]]) -> None:
    net = program(2, 6, 3)
    call = gc.compile(net, backend=backend)
    slopes = gc.compile(net, "loss", gradients=["x", "u"], backend=backend)
    for n, t, u in sizes:
        rng = np.random.default_rng(t * 10 + u)
        given = {"x": rng.normal(size=(n, t)), "u": rng.normal(size=(n, u))}
        if t < 4 or u < 2:
            for compiled in (call, slopes):
                with pytest.raises(gc.GraphcError, match="to be at least 0, got -"):
                    compiled(**given)
            continue
        got, wanted = call(**given), mixed(**given)
        for name, array in wanted.items():
            np.testing.assert_allclose(got[name], array, 1e-12, 1e-12, err_msg=f"{name} {n, t, u}")
        found = slopes(**given)
        for name, array in given.items():
            change = np.zeros_like(array)
            for place in np.ndindex(array.shape):
                step = np.zeros_like(array)
                step[place] = 1e-6
                up, down = (mixed(**{**given, name: array + s})["loss"] for s in (step, -step))
                change[place] = (up - down) / 2e-6
            np.testing.assert_allclose(found[f"gradient.{name}"], change, 1e-6, 1e-6)


@pytest.mark.parametrize("backend", RUN_HERE)
def test_pads_joins_windows_and_their_gradients_at_every_size(backend: str) -> None:
    judge(backend, [*itertools.product((1,), range(7), range(4)), (0, 5, 2), (2, 6, 3)])


@pytest.mark.parametrize("backend", [b for b in JUDGED if b not in RUN_HERE])
def test_the_same_on_an_emulated_gpu(backend: str) -> None:
    judge(backend, [(2, 5, 2), (1, 4, 3), (0, 6, 2), (1, 3, 2)])


WEIGHTS = np.random.default_rng(5).normal(size=(3, 2, 2, 3))


def halved(x: Any, w: Any) -> dict[str, Any]:
    """A convolution of stride 2 with a border, the largest of each 2 x 2, and that put back."""
    y = gc.conv(gc.pad(x, [(0, 0), (1, 1), (0, 1), (0, 0)]), w, (2, 1))
    n, rows, cols, features = y.shape
    pooled = gc.max(gc.windows(y, (2, 2), 2, axis=1), axis=(3, 4))
    wide = (n, pooled.shape[1], 2, pooled.shape[2], features)
    spread = gc.broadcast_to(gc.expand_dims(pooled, 2), wide)
    rest = y[:, : rows // 2 * 2, : cols // 2]
    joined = gc.tanh(rest) + spread.reshape(rest.shape)
    return {"pooled": pooled, "joined": joined, "loss": gc.sum(joined * joined)}


def halved_by_numpy(x: Array, w: Array) -> dict[str, Array]:
    padded = np.pad(x, [(0, 0), (1, 1), (0, 1), (0, 0)])
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), (1, 2))[:, ::2]
    y = np.einsum("npqcst,stcf->npqf", seen, w)
    n, rows, cols, features = y.shape
    p, q = rows // 2, cols // 2
    pooled = y[:, : 2 * p, : 2 * q].reshape(n, p, 2, q, 2, features).max((2, 4))
    joined = np.tanh(y[:, : 2 * p, :q]) + np.repeat(pooled, 2, 1)
    return {"pooled": pooled, "joined": joined, "loss": (joined * joined).sum()}


@pytest.mark.parametrize("backend", RUN_HERE)
def test_convolutions_and_poolings_of_images_of_any_size(backend: str) -> None:
    net = gc.program(
        halved, {"x": "NxHxWx2xf64"}, parameters={"w": WEIGHTS}, bounds={"N": 2, "H": 6, "W": 4}
    )
    call = gc.compile(net, backend=backend)
    slopes = gc.compile(net, "loss", gradients=["x", "w"], backend=backend)
    for n, h, w in [*itertools.product((1,), range(7), range(5)), (2, 5, 3)]:
        x = np.random.default_rng(h * 9 + w).normal(size=(n, h, w, 2))
        if h < 3 or w < 2:  # no window of 2 x 2
            with pytest.raises(gc.GraphcError, match=r"to be at least 0, got -\d for N = 1, H = "):
                call(x=x)
            continue
        got, wanted = call(x=x), halved_by_numpy(x, WEIGHTS)
        for name, array in wanted.items():
            np.testing.assert_allclose(got[name], array, 1e-12, 1e-12, err_msg=f"{name} {h, w}")
        found, rng = slopes(x=x), np.random.default_rng(1)
        for name in ("x", "w"):
            given = {"x": x, "w": WEIGHTS}
            way = rng.normal(size=given[name].shape) * 1e-6
            up, down = (
                halved_by_numpy(**{**given, name: given[name] + s})["loss"] for s in (way, -way)
            )
            along = (found[f"gradient.{name}"] * way).sum()
            np.testing.assert_allclose(along, (up - down) / 2, 1e-5, 1e-12)


def test_a_loop_over_less_steps_than_there_are() -> None:
    def f(xs: Any) -> Any:
        last, kept = gc.scan(lambda h, x: (h + x, h * x), xs[0], xs[1:])
        return {"last": last, "kept": kept, "mean": gc.mean(kept), "left": xs.shape[0] - 1}

    call = gc.compile(gc.program(f, {"xs": "Txf64"}))
    xs = np.arange(1.0, 6)
    got = call(xs=xs)
    assert got["last"] == 15
    assert got["kept"].tolist() == [2, 9, 24, 50]
    assert (got["mean"], got["left"]) == (85 / 4, 4)


def test_a_size_that_calls_have_to_be_asked_for_is_in_no_result() -> None:
    def f(table: Any, x: Any) -> Any:
        return {"y": table[: x.shape[0]] * x}

    net = gc.program(f, {"table": "5xf64", "x": "Txf64"}, bounds={"T": 4})
    assert "dim MTA5 = 5 - T" in str(net.module)
    call, table = gc.compile(net), np.arange(5.0)
    for t in (0, 1, 5):  # 5 is beyond the bound: compiled again
        assert call(table=table, x=np.ones(t))["y"].tolist() == table[:t].tolist()
    with pytest.raises(gc.GraphcError, match="requires 5 - T to be at least 0, got -1 for T = 6"):
        call(table=table, x=np.ones(6))


def test_the_largest_call_is_timed(tmp_path: Path) -> None:
    def f(table: Any, x: Any) -> Any:
        return gc.concatenate([table[: x.shape[0]] * x, table[x.shape[0] :]])[1:]

    types = {"table": "9xf64", "x": "Txf64"}
    gc.program(f, types, bounds={"T": 7}).save(tmp_path / "net")
    brief = ("--rounds", "2", "--seconds", "0.01", "--backend", "numpy")
    done = graphc("bench", tmp_path / "net", *brief)
    assert done.code == 0, done.err
    gc.program(f, types, bounds={"T": 10}).save(tmp_path / "net")
    done = graphc("bench", tmp_path / "net", *brief)
    assert done.code
    assert "9 - T is less than 0 where all dims are at their bounds, T = 10" in done.err


@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_a_library_refuses_what_is_too_little(backend: str, tmp_path: Path) -> None:
    net = gc.program(lambda x: {"y": x[3:] - x[:-3], "z": x[::2]}, {"x": "Txf64"}, bounds={"T": 8})
    options = CompileOptions(backend=backend)
    emit(net, ArtifactRequest(["so", "header"], tmp_path / "net.so"), options)
    header = (tmp_path / "net.h").read_text()
    assert "TM3 is T - 3." in header
    assert "TA1Q2 is (T + 1) / 2." in header
    library = ctypes.CDLL(str(tmp_path / "net.so"))
    library.net_arena_bytes.restype = ctypes.c_int64
    memory = np.empty(library.net_arena_bytes() + 64, np.uint8)
    arena = ctypes.c_void_p(memory.ctypes.data + -memory.ctypes.data % 64)
    for t in range(-1, 10):
        x = np.arange(float(max(t, 0))) ** 2
        y, z = np.full(9, -7.0), np.full(9, -7.0)
        arrays = [ctypes.c_void_p(a.ctypes.data) for a in (x, y, z)]
        status = library.net_run(ctypes.c_int64(t), *arrays, arena)
        assert status == (0 if 3 <= t <= 8 else 1)
        if status:
            assert (y == -7).all()
            continue
        np.testing.assert_array_equal(y[: t - 3], x[3:] - x[:-3])
        np.testing.assert_array_equal(z[: (t + 1) // 2], x[::2])
        assert (y[t - 3 :] == -7).all()


def test_sizes_that_are_not_shown_to_be_equal_are_told_apart() -> None:
    def f(x: Any) -> Any:
        t = x.shape[0]
        return x[: t // 3 + (t + 1) // 3 + (t + 2) // 3] + x

    with pytest.raises(gc.GraphcError, match=r"equal in every call by what they are made of.*"):
        gc.program(f, {"x": "T"})
