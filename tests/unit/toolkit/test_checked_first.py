"""The whole configuration is checked before the first command runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Done, graphc

WRITE = "Write=[action=write;outputPath=out/x;{}]"


def cntk(*words: str) -> Done:
    return graphc("cntk", "configFile=a.config", "--backend", "numpy", *words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["Test=[action=tset]"], "there is no action `tset`; did you mean `test`?"),
        (["Test=[action=beamSearch]"], "the action `beamSearch` is not there"),
        (["command=Train:Tst"], "the key `Tst` is required; searched in the top level"),
        (["Test=[minibatchSize=many]"], "`minibatchSize` requires a whole number, got `many`"),
        (["Test=[minibatchSize=0]"], "`minibatchSize` requires at least 1"),
        (["Test=[evalNodeNames=Er]"], "the network has no node `Er`; did you mean `Err`?"),
        (["Test=[evalNodeNames=z]"], "sums over the samples"),
        (["Test=[modelPath=other.dnn]"], "other.dnn"),
        (["reader=[file=none.txt]"], "there is no file none.txt"),
        (["reader=[labels=[labelMappingFile=none.txt]]"], "there is no file none.txt"),
        (["reader=[features=[dim=3]]"], "`features` requires 2 numbers a sample, got 3"),
        (["reader=[readerType=HTKMLFReader]"], "`HTKMLFReader` is not there yet"),
        (["reader=[readerType=UCIReader]"], "there is no reader `UCIReader`"),
        (["command=Train:Write", WRITE.format("outputNodeNames=zz")], "no node `zz`"),
        (["command=Train:Write", "Write=[action=write]"], "`outputPath` is required"),
        (["Train=[SGD=[learningRatesPerSample=0.1]]"], "one of learningRatesPerMB and"),
        (
            ["Train=[SGD=[maxEpochs=default]]"],
            "the key `maxEpochs` is required; searched in Train.SGD",
        ),
        (["Train=[SGD=[momentumPerMB=1.5]]"], "momentum"),
        (["Train=[SGD=[gradUpdateType=adam]]"], "requires one of none, normal, simple, adagrad"),
        (["Train=[SGD=[trainCriterionNodeName=C]]"], "`C`"),
        (["Train=[SGD=[learningRatesPerMB=0.1:x]]"], "requires a number, got `x`"),
        (["Train=[SGD=[evalCriterionNodeName=E]]"], "no node `E`"),
        (["type=half"], "`type` requires one of float, double"),
        (["numCPUThreads=many"], "`numCPUThreads` requires a whole number"),
        (["precision=half"], "`precision` requires one of float, double, got `half`"),
        (["Train=[NDLNetworkBuilder=[networkDescription=no.ndl]]"], "no.ndl"),
        (["parallelTrain=perhaps"], "`parallelTrain` requires true or false"),
        (["Hidden=-3"], "W0"),
        (
            ["CV=[action=cv;crossValidationInterval=5:1]", "command=Train:CV"],
            "START:STEP:END",
        ),
    ],
)
def test_a_mistake_is_found_before_anything_runs(
    folder: Path, words: list[str], message: str
) -> None:
    before = sorted(folder.rglob("*"))
    done = cntk(*words)
    assert done.code == 3, done.err
    assert message in done.err
    assert "COMPLETED" not in done.err
    assert sorted(folder.rglob("*")) == before


def test_the_mistakes_of_all_commands_are_told_at_once(folder: Path) -> None:
    done = cntk("Train=[SGD=[maxEpochs=x]]", "Test=[minibatchSize=y]")
    assert done.code == 3
    assert "got `x`" in done.err
    assert "got `y`" in done.err


def test_an_error_says_where_the_key_was_looked_for(folder: Path) -> None:
    done = cntk("minibatchSize=x")
    assert "<command line>:2:15" in done.err
    assert "`minibatchSize` stands in the top level, looked for in Test, the top level" in done.err


def test_keys_that_nothing_takes_are_warnings_with_a_near_name(folder: Path) -> None:
    done = cntk("--check", "Train=[SGD=[momentumPerMb2=0.5;maxEpoch=3]]", "Test=[evalNodeName=CE]")
    assert done.code == 0, done.err
    assert "nothing here takes the key `maxEpoch`; did you mean `maxepochs`?" in done.err.replace(
        "maxEpochs", "maxepochs"
    )
    assert "nothing here takes the key `evalNodeName`" in done.err
    assert "a.config" not in done.err
    assert done.err.count("nothing here takes") == 3


def test_a_whole_configuration_has_no_warnings(folder: Path) -> None:
    done = cntk("--check")
    assert done.code == 0
    assert "warning" not in done.err
    assert not (folder / "models").exists()


def test_keys_that_nothing_follows_from_are_noted(folder: Path) -> None:
    done = cntk("command=Test:Test", "executionEngine=synchronous", "LockGPU=false", "--check")
    assert done.code == 3  # there is no model to test
    done = cntk("executionEngine=synchronous", "LockGPU=false", "maxTempMemSizeInSamplesForCNN=9")
    assert done.code == 0, done.err
    assert "note: nothing follows from `executionEngine`" in done.err
    assert "note: nothing follows from `LockGPU`" in done.err


def test_a_file_alone_is_likely_a_configuration(folder: Path) -> None:
    done = graphc("cntk", "a.config")
    assert done.code == 2
    assert "configFile=a.config" in done.err
