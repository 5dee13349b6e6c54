"""`mpirun … graphc cntk parallelTrain=true`: several processes run a configuration together."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.e2e.test_mpi import MISSING, run_words
from tests.support.commands import graphc
from tests.unit.toolkit.conftest import write_files

pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")

WRITE = "Write=[action=write;outputNodeNames=p;outputPath=out/x]"
ALL = ("command=Train:Test:Write", WRITE, "Test=[minibatchSize=30;numMBsToShowResult=2]")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    return tmp_path


def cntk(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_words(folder, 2, ["cntk", "configFile=a.config", *words])


def sgd(block: str) -> str:
    return f"Train=[SGD=[ParallelTrain=[{block}]]]"


def criteria(log: str) -> list[float]:
    return [float(n) for n in re.findall(r"Set\] TrainLossPerSample = (\S+);", log)]


def lines(log: str, head: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith(head)]


def test_two_train_the_model_of_one(folder: Path) -> None:
    """All commands of the file; each line of the log, and each file, is there once."""
    one = graphc("cntk", "configFile=a.config", "modelPath=one/net", *ALL)
    assert one.code == 0, one.err
    written = np.loadtxt("out/x.p")
    two = cntk(folder, "modelPath=two/net", "parallelTrain=true", *ALL)
    assert two.returncode == 0, two.stderr
    assert lines(two.stderr, "CNTK command") == lines(one.err, "CNTK command")
    assert two.stderr.count("COMPLETED") == 1
    np.testing.assert_allclose(criteria(two.stderr), criteria(one.err), 1e-5)
    assert len(lines(two.stderr, "Minibatch[")) == len(lines(one.err, "Minibatch[")) == 3
    names = sorted(p.name for p in (folder / "one").iterdir())
    assert sorted(p.name for p in (folder / "two").iterdir()) == names
    of_one, of_two = (gc.load(f"{name}/net").parameters for name in ("one", "two"))
    for name, value in of_one.items():
        np.testing.assert_allclose(of_two[name], value, 1e-4, 1e-5)
    np.testing.assert_allclose(np.loadtxt("out/x.p"), written, 1e-3, 1e-4)


def test_one_bit_after_epochs_alone_and_a_log_for_each_member(folder: Path) -> None:
    """Nothing says parallelTrain: several processes would write the same files."""
    block = sgd("DataParallelSGD=[gradientBits=1];parallelizationStartEpoch=3")
    done = cntk(folder, "stderr=log/x", "DoneFile=done.txt", block, "Train=[SGD=[maxEpochs=8]]")
    assert done.returncode == 0, done.stderr
    assert (folder / "done.txt").exists()
    logs = [(folder / "log" / f"x_Train_Test.logrank{k}").read_text("utf-8") for k in (0, 1)]
    losses = criteria(logs[0])
    assert losses == criteria(logs[1])
    assert len(losses) == 8
    assert losses[-1] < 0.5 * losses[0]
    alone = graphc("cntk", "configFile=a.config", "modelPath=one/net")
    assert losses[:2] == criteria(alone.err)[:2]
    assert losses[2] != criteria(alone.err)[2]


@pytest.mark.parametrize("method", ["ModelAveragingSGD", "BlockMomentumSGD"])
def test_averages_train_and_a_training_that_is_over_is_left_alone(
    folder: Path, method: str
) -> None:
    block = sgd(f"{method}=[syncPeriod=30];parallelizationStartEpoch=2;syncPerfStats=1")
    done = cntk(folder, "parallelTrain=true", block)
    assert done.returncode == 0, done.stderr
    losses = criteria(done.stderr)
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    assert "samples processed by 2 workers (30 by me)" in done.stderr
    again = cntk(folder, "parallelTrain=true", block)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("Final model exists") == 1


def test_a_mistake_in_the_configuration_is_told_once(folder: Path) -> None:
    done = cntk(folder, "parallelTrain=true", sgd("DataParallelSGD=[gradientBits=4]"))
    assert done.returncode == 3
    assert done.stderr.count("`gradientBits` requires 1 or 32, got 4") == 1
    assert "<command line>:3:" in done.stderr
    assert " of 2: " not in done.stderr
    assert not (folder / "models").exists()
