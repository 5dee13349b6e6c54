"""The commands of a configuration, from the command line to the files they leave."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.backends.cuda.platform import NVIDIA, using
from graphc.config.assemble import assemble
from graphc.config.lookup import Scope
from graphc.driver.options import CompileOptions
from graphc.model.model import load_model
from graphc.toolkit.action import Session
from graphc.toolkit.configuration import plan_commands, read_settings, run_commands
from graphc.toolkit.log import LogReport
from tests.support.commands import Done, graphc
from tests.support.cuda.building import missing
from tests.support.cuda.emulator import EmulatedDevice, emulated_platform
from tests.support.model_bytes import dbn_file

CV_READER = (
    "cvReader=[readerType=UCIFastReader;file=data.txt;features=[dim=2;start=0];"
    "labels=[start=2;labelDim=2;labelMappingFile=map.txt]]"
)


def cntk(*words: str) -> Done:
    return graphc("cntk", "configFile=a.config", "--backend", "numpy", *words)


def finished(text: str) -> list[float]:
    """The training criteria of the log's epochs."""
    found = re.findall(r"Finished Epoch\[\d+\]: \[Training Set\] TrainLossPerSample = (\S+);", text)
    return [float(value) for value in found]


def test_a_network_is_trained_and_measured(folder: Path) -> None:
    done = cntk()
    assert done.code == 0, done.err
    losses = finished(done.err)
    assert len(losses) == 3
    assert losses[-1] < losses[0]
    assert sorted(p.name for p in (folder / "models").iterdir()) == [
        "net.dnn",
        "net.dnn.0",
        "net.dnn.1",
        "net.dnn.2",
        "net.dnn.ckp",
    ]
    lines = done.err.splitlines()
    assert "Starting Epoch 1: learning rate per sample = 0.025  momentum = 0.500000 " in lines
    assert "Starting Epoch 2: learning rate per sample = 0.01  momentum = 0.500000 " in lines
    assert lines[-1] == "COMPLETED"
    assert sum(line.startswith(" Epoch[") for line in lines) == 6
    first = next(line for line in lines if line.startswith(" Epoch["))
    assert re.match(
        r" Epoch\[1 of 3\]-Minibatch\[ 1- 5 of 10\]: SamplesSeen = 100; TrainLossPerSample = +\S+; "
        r"EvalErr\[0\]PerSample = \S+; TotalTime = \S+s; TotalTimePerSample = \S+ms; "
        r"SamplesPerSecond = \d+$",
        first,
    )
    final = next(line for line in lines if line.startswith("Final Results: "))
    assert re.match(
        r"Final Results: Minibatch\[1-1\]: Samples Seen = 200    CE: CrossEntropyWithSoftmax/Sample"
        r" = \S+    Perplexity = \S+    Err: ErrorPrediction/Sample = \S+    $",
        final,
    )
    measured = gc.evaluate(
        load_model(folder / "models" / "net.dnn"), _data(folder), backend="numpy"
    )
    shown = re.search(r"CE: CrossEntropyWithSoftmax/Sample = (\S+)", final)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(measured["CE"], rel=1e-6)


def test_it_is_the_training_that_python_does(folder: Path) -> None:
    assert cntk("command=Train").code == 0
    given = gc.load(folder / "net.ndl", defines={"Hidden": 5})
    gc.train(
        given,
        _data(folder),
        epochs=3,
        minibatch=20,
        learning_rate="0.5:0.2*2:0.1",
        momentum=0.5,
        backend="numpy",
    )
    trained = load_model(folder / "models" / "net.dnn")
    for name, value in given.parameters.items():
        assert np.array_equal(value, trained.values[name]), name


def test_what_is_trained_is_left_alone_or_trained_anew(folder: Path) -> None:
    assert cntk("command=Train").code == 0
    before = (folder / "models" / "net.dnn").read_bytes()
    again = cntk("command=Train")
    assert "Final model exists. No further training is necessary." in again.err
    assert finished(again.err) == []
    anew = cntk("command=Train", "makeMode=false")
    assert len(finished(anew.err)) == 3
    assert (folder / "models" / "net.dnn").read_bytes() == before


def test_a_training_goes_on_after_its_last_epoch(folder: Path) -> None:
    whole = cntk("command=Train")
    expected = (folder / "models" / "net.dnn").read_bytes()
    for file in (folder / "models").iterdir():
        file.unlink()
    assert cntk("command=Train", "Train=[SGD=[maxEpochs=2;keepCheckPointFiles=true]]").code == 0
    (folder / "models" / "net.dnn").rename(folder / "models" / "net.dnn.2")
    (folder / "models" / "net.dnn.ckp").rename(folder / "models" / "net.dnn.2.ckp")
    rest = cntk("command=Train")
    assert "Starting from checkpoint. Load Network From File models/net.dnn.2." in rest.err
    assert finished(rest.err) == finished(whole.err)[2:], rest.err
    assert (folder / "models" / "net.dnn").read_bytes() == expected


def test_a_command_may_do_several_things(folder: Path) -> None:
    done = cntk("command=Train", "Train=[action=train:eval]")
    assert done.code == 0, done.err
    said = [line for line in done.err.splitlines() if line.startswith("CNTK command")]
    assert said == ["CNTK command: Train, action train", "CNTK command: Train, action eval"]


@pytest.mark.parametrize("questions", [1, 4, 13, 25])
def test_a_stopped_training_goes_on_bit_for_bit(folder: Path, questions: int) -> None:
    assert cntk("command=Train").code == 0
    expected = (folder / "models" / "net.dnn").read_bytes()
    for file in (folder / "models").iterdir():
        file.unlink()
    top = Scope.top(assemble(["configFile=a.config", "command=Train"]))
    settings = read_settings(top, CompileOptions(backend="numpy"))
    log = io.StringIO()
    left = iter(range(questions))
    session = Session(
        top, settings.options, LogReport(log), should_stop=lambda: next(left, None) is None
    )
    run_commands(plan_commands(top, settings.commands, session), session, settings)
    assert "COMPLETED" not in log.getvalue()
    assert not (folder / "models" / "net.dnn").exists()
    done = cntk("command=Train")
    assert done.code == 0, done.err
    assert (folder / "models" / "net.dnn").read_bytes() == expected


def test_an_initial_model_that_is_there_is_trained(folder: Path) -> None:
    net = gc.load(folder / "net.ndl", defines={"Hidden": 3})
    net.parameters["W1"] = np.zeros((2, 3))
    (folder / "models").mkdir()
    net.model.save(folder / "models" / "net.dnn.0")
    done = cntk("command=Train")
    assert "Load Network From File models/net.dnn.0." in done.err
    assert load_model(folder / "models" / "net.dnn").values["W0"].shape == (3, 2)


def test_outputs_are_written_as_text(folder: Path) -> None:
    done = cntk(
        "command=Train:Write",
        "Write=[action=write;outputPath=out/x;outputNodeNames=z:p;minibatchSize=64]",
    )
    assert done.code == 0, done.err
    trained = load_model(folder / "models" / "net.dnn")
    expected = gc.compile(trained, ["z", "p"], backend="numpy")(features=_data(folder)["features"])
    for name in ("z", "p"):
        text = (folder / "out" / f"x.{name}").read_text(encoding="utf-8")
        assert all(line.endswith(" ") for line in text.splitlines())
        assert text.splitlines()[0] == "".join(f"{v:g} " for v in expected[name][0])
        assert np.allclose(np.loadtxt(text.splitlines()), expected[name], rtol=1e-5)


def test_models_of_several_epochs_are_measured(folder: Path) -> None:
    cross = "CV=[action=cv;crossValidationInterval=1:1:5;sleepTimeBetweenRuns=0]"
    done = cntk("command=Train:CV", cross)
    assert done.code == 0, done.err
    names = re.findall(r"^model (\S+)$", done.err, re.MULTILINE)
    assert names == ["models/net.dnn.1", "models/net.dnn.2", "models/net.dnn"]
    values = [float(v) for v in re.findall(r"CE: CrossEntropyWithSoftmax/Sample = (\S+)", done.err)]
    best = re.search(r"Based on Err\[0\] \(CE\): Best model = (\S+) with min err (\S+)", done.err)
    assert best is not None
    assert float(best[2]) == min(values)
    assert best[1] == names[values.index(min(values))]


def test_validation_data_are_measured_after_each_epoch(folder: Path) -> None:
    done = cntk("command=Train", f"Train=[{CV_READER}]")
    found = re.findall(r"Finished Epoch\[(\d)\]: \[Validation Set\] TrainLossPerSample", done.err)
    assert found == ["1", "2", "3"]


def test_a_model_is_adapted_near_to_what_it_was(folder: Path) -> None:
    assert cntk("command=Train").code == 0
    adapt = (
        "Adapt=[action=adapt;origModelFileName=models/net.dnn;modelPath=models/{name}.dnn;"
        "refNodeName=p;SGD=[minibatchSize=20;learningRatesPerMB=0.5;maxEpochs=5;"
        "adaptationRegType=KL;adaptationRegWeight={weight}]]"
    )
    for name, weight in (("free", 0), ("kept", 1)):
        done = cntk("command=Adapt", adapt.format(name=name, weight=weight))
        assert done.code == 0, done.err
    x = _data(folder)["features"]
    before, free, kept = (
        gc.compile(load_model(folder / "models" / file), ["p"], backend="numpy")(features=x)["p"]
        for file in ("net.dnn", "free.dnn", "kept.dnn")
    )
    assert np.abs(kept - before).max() < 0.2 * np.abs(free - before).max()


def test_nodes_are_written_as_text(folder: Path) -> None:
    done = cntk("command=Train:Dump", "Dump=[action=dumpnode;nodeName=W1]")
    assert done.code == 0, done.err
    text = (folder / "models" / "net.dnn.W1.txt").read_text(encoding="utf-8")
    assert "W1=LearnableParameter [2,5]   NeedGradient=true" in text
    rows = [line for line in text.splitlines() if re.match(r"[-0-9]", line)]
    W1 = load_model(folder / "models" / "net.dnn").values["W1"]
    assert np.allclose(np.loadtxt(rows), W1)
    done = cntk("command=Dump", "Dump=[action=dumpnode;outputFile=all.txt;printValues=false]")
    assert done.code == 0, done.err
    assert "CE=CrossEntropyWithSoftmax(labels,z)" in (folder / "all.txt").read_text("utf-8")


def test_a_matrix_becomes_a_product_of_two(folder: Path) -> None:
    svd = "Svd=[action=SVD;outputmodelPath=models/small.dnn;KeepRatio=0.99;NodeNameRegex=W0]"
    test = "Again=[action=test;modelPath=models/small.dnn]"
    done = cntk("command=Train:Test:Svd:Again", svd, test)
    assert done.code == 0, done.err
    small = load_model(folder / "models" / "small.dnn")
    assert {"W0-U", "W0-V", "W1"} <= set(small.values)
    before, after = re.findall(r"CE: CrossEntropyWithSoftmax/Sample = (\S+)", done.err)
    assert float(after) == pytest.approx(float(before), rel=1e-3)


def test_matrices_are_cut_by_the_lines_of_a_file(folder: Path) -> None:
    (folder / "svd.txt").write_text("W0 0.99\nW1 0.9\n", encoding="utf-8")
    svd = "Svd=[action=SVD;outputmodelPath=models/small.dnn;SVDConfig=svd.txt]"
    done = cntk("command=Train:Svd", svd)
    assert done.code == 0, done.err
    assert {"W0-U", "W1-U"} <= set(load_model(folder / "models" / "small.dnn").values)


def test_macros_come_from_files_of_their_own(folder: Path) -> None:
    (folder / "one.ndl").write_text("Affine(x, r, c) { W = Parameter(r, c)\n y = Times(W, x) }\n")
    (folder / "two.ndl").write_text("Score(x, r, c) { s = Affine(x, r, c) }\n")
    text = (folder / "net.ndl").read_text("utf-8")
    text = text.replace("z = Times(W1, h, tag=output)", "z = Score(h, 2, $Hidden$, tag=output)")
    (folder / "net.ndl").write_text(text, encoding="utf-8")
    done = cntk("command=Train", "Train=[NDLNetworkBuilder=[ndlMacros=one.ndl+two.ndl]]")
    assert done.code == 0, done.err


def test_initial_values_follow_a_seed(folder: Path) -> None:
    found: list[bytes] = []
    for seed in (0, 1, 1):
        words = f"Train=[SGD=[maxEpochs=1];NDLNetworkBuilder=[randomSeedOffset={seed}]]"
        assert cntk("command=Train", "makeMode=false", words).code == 0
        found.append(load_model(folder / "models" / "net.dnn.0").values["W0"].tobytes())
    assert found[0] != found[1] == found[2]


def test_a_network_is_drawn(folder: Path) -> None:
    plot = "Plot=[action=plot;outputDotFile=out/net.dot;outputFile=out/net.svg]"
    done = cntk("command=Train:Plot", plot)
    assert done.code == 0, done.err
    assert (folder / "out" / "net.dot").read_text("utf-8").startswith("strict digraph")
    svg = (folder / "out" / "net.svg").read_text("utf-8")
    assert "<svg" in svg
    assert "CrossEntropyWithSoftmax" in svg


def test_a_program_draws_only_where_that_is_allowed(folder: Path) -> None:
    (folder / "draw").write_text('#!/bin/sh\ncp "$1" "$2"\necho "$3" > ran\n', encoding="utf-8")
    (folder / "draw").chmod(0o755)
    plot = 'Plot=[action=plot;outputFile=net.png;RenderCmd="./draw <IN> <OUT> x;ls"]'
    refused = cntk("command=Train:Plot", plot)
    assert refused.code == 3
    assert "--allow-exec" in refused.err
    assert not (folder / "models").exists()
    done = cntk("command=Train:Plot", plot, "--allow-exec")
    assert done.code == 0, done.err
    assert (folder / "net.png").read_text("utf-8").startswith("strict digraph")
    assert (folder / "ran").read_text("utf-8") == "x;ls\n"


def test_the_log_goes_to_a_file_named_after_the_commands(folder: Path) -> None:
    done = cntk("stderr=logs/run", "DoneFile=done.txt")
    assert done.code == 0, done.err
    log = (folder / "logs" / "run_Train_Test.log").read_text("utf-8")
    assert finished(log)
    assert log.endswith("COMPLETED\n")
    assert "Finished Epoch" not in done.err
    assert (folder / "done.txt").is_file()


@pytest.mark.parametrize("device", ["auto", "cpu", "-1", "CPU"])
def test_the_processor_has_several_names(folder: Path, device: str) -> None:
    assert graphc("cntk", "configFile=a.config", f"deviceId={device}", "--check").code == 0


def test_a_gpu_that_is_not_there_is_asked_for_in_vain(folder: Path) -> None:
    with using(replace(NVIDIA, missing=lambda: "the driver was not found")):
        done = cntk("deviceId=0")
        assert done.code == 3
        assert "requires a GPU: the driver was not found; write deviceId=cpu" in done.err
        assert graphc("cntk", "configFile=a.config", "deviceId=auto", "--check").code == 0


@pytest.mark.skipif(bool(missing()), reason=missing())
@pytest.mark.parametrize(("device", "computes"), [("0", True), ("auto", True), ("cpu", False)])
def test_the_gpu_computes_where_there_is_one(folder: Path, device: str, computes: bool) -> None:
    emulated = EmulatedDevice()
    with using(emulated_platform(emulated)):
        done = graphc("cntk", "configFile=a.config", "command=Train", f"deviceId={device}")
    assert done.code == 0, done.err
    assert (emulated.launches > 0) == computes


@pytest.mark.parametrize("device", ["1", "*"])
def test_the_first_gpu_alone_computes(folder: Path, device: str) -> None:
    with using(replace(NVIDIA, missing=lambda: "")):
        done = cntk(f"deviceId={device}")
    assert done.code == 3
    assert f"got `deviceId={device}`: CUDA_VISIBLE_DEVICES" in done.err


def test_precision_is_that_of_all_numbers(folder: Path) -> None:
    assert cntk("command=Train", "precision=double").code == 0
    trained = load_model(folder / "models" / "net.dnn")
    assert trained.values["W0"].dtype == np.float64


def test_a_network_may_stand_in_the_configuration(folder: Path) -> None:
    text = (folder / "net.ndl").read_text("utf-8")
    macros = "Macros=[\n Layer(x, R, C)\n {\n  W = Parameter(R, C)\n  z = Times(W, x)\n }\n]\n"
    text = text.replace(
        "z = Times(W1, h, tag=output)", "o = Layer(h, 2, $Hidden$)\nz = Plus(o.z, c, tag=output)"
    )
    text = text.replace("W1 = Parameter(2, $Hidden$)", "c = Parameter(2, 1)")
    (folder / "inline.config").write_text(
        f"{macros}Net=[{text}]\nTrain=[NDLNetworkBuilder=[networkDescription=default;run=Net;load=Macros]]",
        encoding="utf-8",
    )
    done = graphc(
        "cntk", "configFile=a.config+inline.config", "command=Train", "--backend", "numpy"
    )
    assert done.code == 0, done.err
    assert "o.W" in set(load_model(folder / "models" / "net.dnn").values)


def test_a_mistake_in_a_network_in_the_configuration_has_its_place(folder: Path) -> None:
    (folder / "inline.config").write_text(
        "Net=[\n  features = Input(2, tag=feature)\n  z = Sigmod(features)\n]\n"
        "Train=[NDLNetworkBuilder=[networkDescription=default;run=Net]]",
        encoding="utf-8",
    )
    done = graphc("cntk", "configFile=a.config+inline.config", "command=Train")
    assert done.code == 3
    assert "inline.config:3:7" in done.err


def test_labels_are_collected_before_they_are_needed(folder: Path) -> None:
    (folder / "map.txt").unlink()
    done = cntk("command=Map:Train", "Map=[action=createLabelMap;section=Train]")
    assert done.code == 0, done.err
    assert sorted((folder / "map.txt").read_text("utf-8").split()) == ["no", "yes"]


def test_words_are_counted_and_given_classes(folder: Path) -> None:
    (folder / "text.txt").write_text("a b a\na c b a\n", encoding="utf-8")
    words = (
        "Words=[action=writeWordAndClass;inputFile=text.txt;outputVocabFile=v.txt;"
        "outputWord2Cls=w.txt;outputCls2Index=c.txt;vocabSize=3;nbrClass=2;cutoff=0]"
    )
    done = cntk("command=Words", words)
    assert done.code == 0, done.err
    rows = [line.split() for line in (folder / "v.txt").read_text("utf-8").splitlines()]
    assert rows[0][:3] == ["0", "4", "a"]
    assert len((folder / "c.txt").read_text("utf-8").split()) == 2


def test_a_model_is_edited_and_trained_further(folder: Path) -> None:
    (folder / "add.mel").write_text(
        "m = LoadModel($Old$)\nW2 = Parameter($Hidden$, $Hidden$)\nt2 = Times(W2, h)\n"
        "h2 = Tanh(t2)\nSetInput(z, 1, h2)\nSaveModel(m, $New$)\n",
        encoding="utf-8",
    )
    edit = "Edit=[action=edit;editPath=add.mel;Old=models/net.dnn;New=models/deep.dnn.0]"
    deep = "Deep=[modelPath=models/deep.dnn;action=train;NDLNetworkBuilder=$Net$;SGD=$Rule$]"
    extra = [
        "Net=[networkDescription=net.ndl]",
        "Rule=[minibatchSize=20;learningRatesPerMB=0.1;maxEpochs=1]",
    ]
    done = cntk("command=Train:Edit:Deep", edit, deep, *extra)
    assert done.code == 0, done.err
    assert "Load Network From File models/deep.dnn.0." in done.err
    assert load_model(folder / "models" / "deep.dnn").values["W2"].shape == (5, 5)


def test_a_mistake_in_an_editing_file_is_found_first(folder: Path) -> None:
    (folder / "bad.mel").write_text("m = LoadModel(x)\nSetInpu(z, 1, h2)\n", encoding="utf-8")
    done = cntk("command=Train:Edit", "Edit=[action=edit;editPath=bad.mel]")
    assert done.code == 3
    assert "bad.mel:2" in done.err
    assert not (folder / "models").exists()


def test_a_predefined_network_is_trained(folder: Path) -> None:
    simple = (
        "Train=[NDLNetworkBuilder=default;SimpleNetworkBuilder=[layerSizes=2:7*2:2;"
        "trainingCriterion=CrossEntropyWithSoftmax;evalCriterion=ErrorPrediction;"
        "applyMeanVarNorm=true;needPrior=true]]"
    )
    done = cntk(simple)
    assert done.code == 0, done.err
    assert load_model(folder / "models" / "net.dnn").values["W1"].shape == (7, 7)


def test_gradients_are_compared_with_differences(folder: Path) -> None:
    done = cntk("command=Train", "Train=[SGD=[gradientcheck=true;sigFigs=4;maxEpochs=1]]")
    assert done.code == 0, done.err
    assert "Gradient check passed: " in done.err
    done = cntk("command=Train", "Train=[SGD=[gradientcheck=true;sigFigs=12]]", "makeMode=false")
    assert done.code == 3
    assert "error[not-differentiable]" in done.err
    done = cntk("command=Dev", "Dev=[action=devtest]")
    assert done.code == 0, done.err


def test_checkpoints_of_all_epochs_are_kept_if_asked_for(folder: Path) -> None:
    assert cntk("command=Train", "Train=[SGD=[keepCheckPointFiles=true]]").code == 0
    kept = sorted(p.name for p in (folder / "models").glob("*.ckp"))
    assert kept == ["net.dnn.1.ckp", "net.dnn.2.ckp", "net.dnn.ckp"]


def test_a_rate_that_made_it_worse_is_reduced(folder: Path) -> None:
    auto = "AutoAdjust=[autoAdjustLR=AdjustAfterEpoch;UseEvalCriterionControlLR=true]"
    done = cntk(
        "command=Train",
        f"Train=[SGD=[maxEpochs=6;learningRatesPerMB=20;evalCriterionNodeName=Err;{auto}]]",
    )
    assert done.code == 0, done.err
    assert re.search(r"^learningRatePerSample reduced to \S+$", done.err, re.MULTILINE)
    assert "Loaded the previous model which has better training criterion." in done.err


def test_rates_are_searched(folder: Path) -> None:
    done = cntk(
        "command=Train",
        "Train=[SGD=[maxEpochs=2;learningRatesPerMB=default;autoAdjustLR=SearchBeforeEpoch;"
        "numMiniBatch4LRSearch=5]]",
    )
    assert done.code == 0, done.err
    assert re.search(r"^BaseAdaptiveLearnRateSearch: ", done.err, re.MULTILINE)
    assert len(re.findall(r"^Best Learn Rate Per Sample for Epoch\[", done.err, re.MULTILINE)) == 2


def test_data_are_written_by_a_writer_and_read_again(folder: Path) -> None:
    write = "Write=[action=write;outputNodeNames=z;writer=[writerType=BinaryWriter;wfile=z.bin]]"
    done = cntk("command=Train:Write", write)
    assert done.code == 0, done.err
    assert (folder / "z.bin").is_file()


def test_a_dbn_file_becomes_a_model(folder: Path) -> None:
    weights, bias = np.arange(6.0).reshape(3, 2), np.ones((3, 1))
    one = np.ones((2, 1))
    (folder / "a.dbn").write_bytes(dbn_file(0 * one, one, [("rbmgaussbernoulli", weights, bias)]))
    done = cntk("command=Convert", "Convert=[action=convertdbn;dbnModelPath=a.dbn]")
    assert done.code == 0, done.err
    values = load_model(folder / "models" / "net.dnn").values
    assert any(np.array_equal(value, weights) for value in values.values())
    done = cntk("command=Convert", "Convert=[action=convertdbn;dbnModelPath=none.dbn]")
    assert done.code == 3
    assert "there is no model file none.dbn" in done.err


def _data(folder: Path) -> dict[str, np.ndarray]:
    rows = [line.split() for line in (folder / "data.txt").read_text("utf-8").splitlines()]
    features = np.array([[float(a), float(b)] for a, b, _ in rows], np.float32)
    yes = np.array([word == "yes" for *_, word in rows])
    return {"features": features, "labels": np.stack([~yes, yes], 1).astype(np.float32)}
