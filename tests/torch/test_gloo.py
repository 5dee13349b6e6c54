"""Members over gloo: sums, and what is said where one of them is gone."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.driver import members as driver
from graphc.passes.overlap_sums import OverlapSums
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.communicators.sums import tree_sum
from graphc.runtime.communicators.wire import adder
from graphc.support.diagnostics import GraphcError

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")

PATIENCE = 20.0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def by_threads(
    size: int, work: Callable[[Communicator], object], **options: object
) -> list[object]:
    """What members that are threads, each with a communicator of its own, make."""
    port, found = free_port(), dict[int, object]()

    def member(rank: int) -> None:
        given = {"port": port, "patience": PATIENCE, **options}
        found[rank] = work(gc.comm.gloo(rank, size, **given))  # type: ignore[arg-type]

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(size)]


@pytest.mark.parametrize("order", ["any", "fixed"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_sums_are_the_same_bits_for_all(size: int, order: str) -> None:
    arrays = [
        np.random.default_rng(rank).standard_normal(5000).astype(dtype)
        for dtype in (np.float32, np.float64)
        for rank in range(size)
    ]
    summands = [arrays[:size], arrays[size:], [np.array([rank, 7]) for rank in range(size)]]
    summands.append([np.empty(0, np.float32) for _ in range(size)])

    def work(member: Communicator) -> list[np.ndarray]:
        mine = [of_all[member.rank].copy() for of_all in summands]
        for array in mine:
            member.all_reduce(array)
        return mine

    made = by_threads(size, work, order=order)
    for number, of_all in enumerate(summands):
        expected = tree_sum(of_all)
        for member in made:
            got = member[number]  # type: ignore[index]
            assert np.array_equal(got, made[0][number])  # type: ignore[index]
            if order == "fixed":
                assert np.array_equal(got, expected)
            np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_sums_beside_the_backward_pass_have_the_bits_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(driver, "OverlapSums", lambda: OverlapSums(1))
    text = """
        x = Input(6)
        y = Input(2)
        W = Parameter(30, 6)
        V = Parameter(2, 30)
        e = SquareError(y, Times(V, Tanh(Times(W, x))), tag=criteria)
    """
    rng = np.random.default_rng(0)
    data = {"x": rng.random((24, 6)), "y": rng.random((24, 2))}

    def work(member: Communicator) -> np.ndarray:
        net = gc.loads(text)
        gc.train(net, data, learning_rate=0.1, epochs=2, minibatch=8, comm=member)
        return net.parameters["W"]

    with ThreadPoolExecutor(2) as pool:
        expected, _ = pool.map(work, gc.comm.threads(2, PATIENCE))
    for overlap in (True, False, None):
        for made in by_threads(2, work, order="fixed", overlap=overlap):
            assert np.array_equal(made, expected)  # type: ignore[arg-type]


def test_members_measure_the_same_link() -> None:
    found = by_threads(3, lambda member: (member.overlap, member.idle))  # type: ignore[attr-defined]
    assert len({*found}) == 1
    ((overlap, idle),) = {*found}  # type: ignore[misc]
    assert overlap is None
    assert 0 <= idle < 1e-6
    ((_, alone),) = by_threads(1, lambda member: (member.rank, member.idle))  # type: ignore
    assert alone == 0


def test_shards_have_the_bits_of_threads() -> None:
    text = """
        x = Input(6)
        y = Input(2)
        W = Parameter(2, 6)
        e = SquareError(y, Times(W, x), tag=criteria)
    """
    rng = np.random.default_rng(0)
    data = {"x": rng.random((24, 6)), "y": rng.random((24, 2))}

    def work(member: Communicator) -> np.ndarray:
        net = gc.loads(text)
        gc.train(net, data, learning_rate=0.1, epochs=2, minibatch=8, comm=member)
        return net.parameters["W"]

    expected = work(gc.comm.alone(shards=4))
    for made in by_threads(2, work, shards=4):
        assert np.array_equal(made, expected)  # type: ignore[arg-type]


def test_members_split_an_output_layer() -> None:
    text = """
        x = Input(6)
        y = Input(5, tag=label)
        U = Parameter(4, 6)
        W = Parameter(5, 4)
        b = Parameter(5, 1)
        z = Plus(Times(W, Tanh(Times(U, x))), b)
        e = CrossEntropyWithSoftmax(y, z, tag=criteria)
    """
    rng = np.random.default_rng(0)
    data = {"x": rng.random((23, 6)), "y": rng.integers(0, 5, 23)}

    def parameters(member: Communicator | None) -> dict[str, np.ndarray]:
        net = gc.loads(text)
        split = () if member is None else "W"
        gc.train(
            *(net, data),
            learning_rate=0.5,
            epochs=2,
            minibatch=8,
            precision="f64",
            comm=member,
            split=split,
        )
        return dict(net.parameters)

    expected = parameters(None)
    for made in by_threads(2, parameters):
        for name, value in expected.items():
            np.testing.assert_allclose(made[name], value, 1e-11, 1e-12)  # type: ignore[index]


def test_members_that_do_not_come_are_counted() -> None:
    with pytest.raises(GraphcError, match="2 members have not found each other at"):
        gc.comm.gloo(0, 2, port=free_port(), patience=0.2)


LOST = """
import os, signal, sys, time, numpy as np, graphc as gc
rank, port, victim, number, patience = map(int, sys.argv[1:])
member = gc.comm.gloo(rank, 3, port=port, patience=patience)
member.all_reduce(np.ones(3))
if rank == victim:
    os.kill(os.getpid(), number)
start = time.monotonic()
try:
    member.all_reduce(np.ones(3))
except gc.GraphcError as error:
    sys.stderr.write(f"{time.monotonic() - start:.1f} s: {error}")
    sys.stderr.flush()
    os._exit(5)
"""


def test_a_process_ends_when_pytorch_has_let_go_of_its_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its threads do so behind a sum, with Python: where that had ended they aborted the process,
    after all was done, and torchrun ended the others."""
    at_exit: list[tuple[Callable[..., None], object]] = []
    monkeypatch.setattr(atexit, "register", lambda *call: at_exit.append(call))

    def work(member: Communicator) -> None:
        (settle,) = {call for call, lent in at_exit if lent is member.lent}  # type: ignore[attr-defined]
        for _ in range(20):
            member.all_reduce(np.ones(100_000))
            settle(member.lent)  # type: ignore[attr-defined]
            assert all(view() is None for view in member.lent)  # type: ignore[attr-defined]

    by_threads(2, work)


@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_who_is_gone_is_named_by_all_others(number: signal.Signals, victim: int) -> None:
    port = free_port()
    patience = 60 if number == signal.SIGKILL else 2
    members = [
        subprocess.Popen(
            [sys.executable, "-c", LOST, *map(str, (rank, port, victim, int(number), patience))],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        for rank, member in enumerate(members):
            if rank != victim:
                _, said = member.communicate(timeout=60)
                assert member.returncode == 5, said
                assert f"member {rank} has no sum: member {victim} of 3 does not answer" in said
    finally:
        members[victim].kill()
        members[victim].communicate()


def test_torchrun_starts_members_of_the_command(tmp_path: Path) -> None:
    """And starts them again from the checkpoint where one is killed."""
    rng = np.random.default_rng(2)
    (tmp_path / "net.ndl").write_text(NET, encoding="utf-8")
    rows = np.column_stack([rng.random((40, 6)).round(3), rng.integers(0, 3, 40)])
    np.savetxt(tmp_path / "rows.txt", rows, "%g")
    (tmp_path / "member.py").write_text(MEMBER, encoding="utf-8")
    start = [sys.executable, "-m", "torch.distributed.run"]
    ways = {
        "alone": ["--nproc-per-node", "1"],
        "killed": ["--nproc-per-node", "2", "--max-restarts", "1"],
    }
    for name, way in ways.items():
        files = [f"{name}.ckpt", "-o", f"{name}.safetensors"]
        done = subprocess.run(
            [
                *start,
                "--master-port",
                str(free_port()),
                *way,
                "member.py",
                *OPTIONS.split(),
                *files,
            ],
            cwd=tmp_path,
            env={**os.environ, "KILLS": str(int(name == "killed"))},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "killed").exists()
    one, two = (tmp_path / f"{name}.safetensors" for name in ways)
    assert one.read_bytes() == two.read_bytes()


OPTIONS = (
    "train net.ndl --data rows.txt --features 0:6 --labels 6 --classes 3 --minibatch 8 "
    "--epochs 40 --learning-rate 0.5 --comm gloo --comm-shards 2 --resume --checkpoint"
)
NET = """
x = Input(6, tag=feature)
y = Input(3, tag=label)
W = Parameter(5, 6)
V = Parameter(3, 5)
ce = CrossEntropyWithSoftmax(y, Times(V, Tanh(Times(W, x))), tag=criteria)
"""
MEMBER = """
import os, signal, threading, time
from pathlib import Path
from graphc.cli.main import console

def kill():
    while not Path("killed.ckpt").exists():
        time.sleep(0.001)
    Path("killed").touch()
    os.kill(os.getpid(), signal.SIGKILL)

if os.environ["KILLS"] == "1" and os.environ["RANK"] == "1" and not Path("killed").exists():
    threading.Thread(target=kill, daemon=True).start()
console()
"""


@pytest.mark.parametrize("wire", ["bf16", "1bit"])
def test_gradients_travel_in_fewer_bits_as_between_threads(wire: str) -> None:
    rows = [np.random.default_rng(r).standard_normal((7, 90)).astype("f4") for r in range(3)]

    def added(member: Communicator) -> np.ndarray:
        array = rows[member.rank].copy().reshape(-1)
        adder(member, array, {0: rows[0].shape})()
        return array

    found = by_threads(3, added, wire=wire)
    with ThreadPoolExecutor(3) as pool:
        expected = list(pool.map(added, gc.comm.threads(3, PATIENCE, wire=wire)))
    for mine, its in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, its)
