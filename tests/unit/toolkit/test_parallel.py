"""`parallelTrain` and the block `ParallelTrain`: what they ask for, and a world of one."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.config.assemble import assemble_text
from graphc.config.lookup import Scope
from graphc.driver.options import CompileOptions
from graphc.ir.types import DType
from graphc.runtime.communicators.communicator import Communicator, wire_of
from graphc.runtime.communicators.mpi import started
from graphc.support.diagnostics import GraphcError
from graphc.toolkit.action import Session
from graphc.toolkit.log import LogReport
from graphc.toolkit.parallel import Parallel, planned_parallel
from tests.support.commands import Done, graphc


def cntk(*words: str) -> Done:
    return graphc("cntk", "configFile=a.config", "--backend", "numpy", *words)


def parallel(block: str) -> str:
    """An argument that puts a block `ParallelTrain` into the configuration."""
    return f"Train=[SGD=[ParallelTrain=[{block}]]]"


def planned(
    block: str, member: Communicator | None, precision: DType = DType.F32
) -> Parallel | None:
    top = Scope.top(assemble_text(f"parallelTrain=true; SGD=[ParallelTrain=[{block}]]"))
    options = CompileOptions(precision=precision)
    session = Session(top, options, LogReport(io.StringIO()), member=member)
    found = planned_parallel(top.section("SGD"), session, 7)
    assert [warning.message for warning in top.section("SGD").unused()] == []
    return found


def asked(block: str, precision: DType = DType.F32, members: int = 2) -> Parallel:
    found = planned(block, gc.comm.threads(members)[1], precision)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("block", "wire"),
    [
        ("", "full"),
        ("parallelizationMethod=DataParallelSGD; distributedMBReading=true", "full"),
        ("DataParallelSGD=[gradientBits=1]", "1bit"),
        ("DataParallelSGD=[gradientBits=1; useZeroThresholdFor1BitQuantization=true]", "1bit"),
        ("DataParallelSGD=[gradientBits=32; useZeroThresholdFor1BitQuantization=false]", "full"),
        ("DataParallelSGD=[useBufferedAsyncGradientAggregation=false]", "full"),
    ],
)
def test_gradients_are_added_with_as_many_bits(block: str, wire: str) -> None:
    found = asked(block)
    assert (wire_of(found.member), found.averaging, found.alone) == (wire, None, 0)
    assert found.member.rank == 1


def test_numbers_of_double_precision_have_64_bits() -> None:
    assert wire_of(asked("DataParallelSGD=[gradientBits=64]", DType.F64).member) == "full"
    with pytest.raises(GraphcError, match="requires 1 or 32, got 64"):
        asked("DataParallelSGD=[gradientBits=64]")


@pytest.mark.parametrize(
    ("block", "averaging"),
    [
        ("ModelAveragingSGD=[]", gc.ModelAveraging(40_000)),
        ("ModelAveragingSGD=[SyncFrequencyInFrames=50]", gc.ModelAveraging(50)),
        ("ModelAveragingSGD=[syncPeriod=50; MAPerfStats=3]", gc.ModelAveraging(50)),
        ("ModelAveragingSGD=[blockSizePerWorker=50]", gc.ModelAveraging(50)),
        ("ModelAveragingSGD=[blockSize=50]", gc.ModelAveraging(25)),
        ("parallelizationMethod=BlockMomentumSGD", gc.BlockMomentum(120_000)),
        (
            "BlockMomentumSGD=[syncPeriod=60; resetSGDMomentum=false; useNesterovMomentum=false;"
            " blockLearningRate=0.5; blockMomentumPerSync=0.75]",
            gc.BlockMomentum(60, 0.75, 0.5, nesterov=False, reset=False),
        ),
        (
            "BlockMomentumSGD=[syncPeriod=60; blockMomentumAsTimeConstant=120]",
            gc.BlockMomentum(60, math.exp(-0.5)),
        ),
        (  # later on the samples of all were counted
            "BlockMomentumSGD=[blockSize=60; blockMomentumAsTimeConstant=120]",
            gc.BlockMomentum(30, math.exp(-0.5)),
        ),
        (
            "ModelAveragingSGD=[syncPeriod=4]; DataParallelSGD=[gradientBits=1];"
            " parallelizationMethod=modelaveragingsgd",
            gc.ModelAveraging(4),
        ),
    ],
)
def test_parameters_are_averaged_after_so_many_samples(block: str, averaging: object) -> None:
    found = asked(block)
    assert found.averaging == averaging
    assert wire_of(found.member) == "full"


def test_members_may_begin_alone_and_say_how_long_sums_take() -> None:
    found = asked("parallelizationStartEpoch=3; syncPerfStats=5")
    assert (found.alone, found.stats) == (2, 5)
    assert asked("parallelizationMethod=none").alone == 7  # of 7 epochs
    assert asked("ModelAveragingSGD=[MAPerfStats=4]").stats == 4


def test_without_members_the_block_is_left_alone() -> None:
    """As the toolkit did, so that a file for many machines runs on one."""
    assert planned("parallelizationMethod=DataParallelASGD; syncPerfStats=x", None) is None


@pytest.mark.parametrize(
    ("block", "place", "message"),
    [
        ("DataParallelSGD=[gradientBits=2]", "2", "`gradientBits` requires 1 or 32, got 2"),
        ("DataParallelSGD=[gradientBits=0]", "0", "`gradientBits` requires at least 1, got 0"),
        ("DataParallelSGD=[gradientBits=x]", "x", "`gradientBits` requires a whole number"),
        (
            "DataParallelSGD=[gradientBits=1;useZeroThresholdFor1BitQuantization=false]",
            "false",
            "`useZeroThresholdFor1BitQuantization=false` is not there",
        ),
        (
            "DataParallelSGD=[useBufferedAsyncGradientAggregation=true]",
            "true",
            "`useBufferedAsyncGradientAggregation=true` is not there",
        ),
        (
            "parallelizationMethod=DataParallelASGD",
            "DataParallelASGD",
            "members that do not wait for each other are not there",
        ),
        (
            "parallelizationMethod=parallel",
            "parallel]",
            "requires one of none, DataParallelSGD, ModelAveragingSGD, BlockMomentumSGD",
        ),
        (
            "DataParallelSGD=[];ModelAveragingSGD=[]",
            "[DataParallelSGD",
            "the key `parallelizationMethod` is required",
        ),
        ("parallelizationStartEpoch=0", "0", "requires at least 1, got 0"),
        ("distributedMBReading=perhaps", "perhaps", "requires true or false"),
        ("ModelAveragingSGD=[syncPeriod=0]", "0", "`syncPeriod` requires at least 1, got 0"),
        (
            "ModelAveragingSGD=[syncPeriod=8;blockSize=9]",
            "9",
            "one of syncPeriod, blockSize is required",
        ),
        ("BlockMomentumSGD=[blockMomentumPerSync=1]", "1]", "from 0 to below 1, got 1"),
        ("BlockMomentumSGD=[blockLearningRate=0]", "0", "a number above 0, got 0"),
        (
            "BlockMomentumSGD=[blockMomentumPerSync=0.5;blockMomentumAsTimeConstant=9]",
            "9",
            "one of blockMomentumPerSync and blockMomentumAsTimeConstant is required",
        ),
        ("BlockMomentumSGD=[blockMomentumAsTimeConstant=-1]", "-1", "at least 0, got -1"),
    ],
)
def test_what_cannot_be_is_told_at_its_place(
    folder: Path, block: str, place: str, message: str
) -> None:
    argument = parallel(block)
    done = cntk("parallelTrain=true", argument)
    assert done.code == 3, done.err
    assert message in done.err
    assert f"<command line>:3:{argument.rindex(place) + 1}\n" in done.err
    assert not (folder / "models").exists()


def test_a_block_for_more_members_than_it_has_samples_is_refused() -> None:
    with pytest.raises(GraphcError, match="requires a sample of each of 2 members, got 1"):
        asked("ModelAveragingSGD=[blockSize=1]")


@pytest.mark.parametrize(
    "block",
    [
        "",
        "DataParallelSGD=[gradientBits=1]",
        "ModelAveragingSGD=[syncPeriod=30]",
        "BlockMomentumSGD=[syncPeriod=30;resetSGDMomentum=false];parallelizationStartEpoch=2",
        "parallelizationMethod=none",
    ],
)
def test_a_world_of_one_trains_what_one_trains(folder: Path, block: str) -> None:
    assert cntk("modelPath=one/net").code == 0
    done = cntk("modelPath=world/net", "parallelTrain=true", parallel(block))
    assert done.code == 0, done.err
    assert done.err.count("Finished Epoch") == 3
    assert sorted(p.name for p in (folder / "world").iterdir()) == sorted(
        p.name for p in (folder / "one").iterdir()
    )
    one, world = (gc.load(folder / name / "net").parameters for name in ("one", "world"))
    for name, value in one.items():
        # The way to an average and back is rounded.
        bits = (0, 0) if "BlockMomentum" not in block else (1e-5, 1e-6)
        np.testing.assert_allclose(world[name], value, *bits)


def test_a_block_of_one_machine_may_stand_in_the_file(folder: Path) -> None:
    text = (folder / "a.config").read_text("utf-8")
    block = "ParallelTrain=[ parallelizationMethod=DataParallelASGD ]\n    maxEpochs=3"
    (folder / "a.config").write_text(text.replace("maxEpochs=3", block), encoding="utf-8")
    done = cntk()
    assert done.code == 0, done.err
    assert "ParallelTrain config will be ignored" in done.err
    assert "warning" not in done.err
    done = cntk("modelPath=other/net", "parallelTrain=true")
    assert done.code == 3
    assert "a.config:16:" in done.err  # the line of the block
    done = cntk(
        "modelPath=other/net",
        "parallelTrain=true",
        parallel("parallelizationMethod=DataParallelSGD"),
    )
    assert done.code == 0, done.err


def test_a_training_goes_on_where_members_have_begun_together(folder: Path) -> None:
    """With epochs alone, then averages: stopped after any epoch it has the bits of one that was
    not."""
    block = "BlockMomentumSGD=[syncPeriod=30;blockMomentumPerSync=0.5];parallelizationStartEpoch=3"
    words = ("parallelTrain=true", parallel(block))
    assert cntk("modelPath=whole/net", *words, "Train=[SGD=[maxEpochs=5]]").code == 0
    for epochs in (1, 2, 3, 4, 5):
        done = cntk("modelPath=parts/net", *words, f"Train=[SGD=[maxEpochs={epochs}]]")
        assert done.code == 0, done.err
        assert done.err.count("Starting Epoch") == 1
        if epochs < 5:  # as if it had been stopped there
            for suffix in ("", ".ckp"):
                last = folder / "parts" / f"net{suffix}"
                last.rename(folder / "parts" / f"net.{epochs}{suffix}")
    whole, parts = (gc.load(folder / name / "net").parameters for name in ("whole", "parts"))
    for name, value in whole.items():
        assert np.array_equal(parts[name], value), name


def test_each_member_has_a_log_of_its_own(folder: Path) -> None:
    done = cntk("parallelTrain=true", "stderr=log/x", "DoneFile=done.txt")
    assert done.code == 0
    assert [p.name for p in (folder / "log").iterdir()] == ["x_Train_Test.logrank0"]
    assert "COMPLETED" in (folder / "log" / "x_Train_Test.logrank0").read_text("utf-8")
    assert (folder / "done.txt").exists()


def test_sums_and_averages_are_timed(folder: Path) -> None:
    block = "syncPerfStats=2;ModelAveragingSGD=[syncPeriod=40]"  # five blocks in an epoch
    done = cntk("parallelTrain=true", parallel(block))
    assert done.code == 0, done.err
    found = re.findall(
        r"\(model aggregation stats\) (\d)-th sync: +\S+ seconds since last report \(\S+ seconds "
        r"on comm\.\); (\d+) samples processed by 1 workers \((\d+) by me\);",
        done.err,
    )
    assert found == 3 * [("2", "80", "80"), ("4", "80", "80")]


def test_processes_of_a_launcher_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(variable, raising=False)
    assert started() == 1
    monkeypatch.setenv("PMI_SIZE", "3")
    assert started() == 3
