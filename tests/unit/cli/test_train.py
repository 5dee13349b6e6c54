"""`graphc train`: what it writes, prints and refuses, and what an interrupt does."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.learn.step import TrainingStep
from graphc.runtime.executable import Executable
from tests.support.commands import COLUMNS, NETWORK, graphc, train, write_data, write_network


def test_training_lowers_the_criterion_and_writes_a_model(tmp_path: Path) -> None:
    done = train(tmp_path, "--epochs", "8", "--json")
    epochs = json.loads(done.out)["epochs"]
    assert done.code == 0
    assert [e["epoch"] for e in epochs] == list(range(1, 9))
    assert epochs[-1]["criterion"] < 0.5 * epochs[0]["criterion"]
    assert set(gc.load(tmp_path / "net.safetensors").parameters) == {"W", "b"}


def test_each_epoch_has_a_line_with_criterion_and_error(tmp_path: Path) -> None:
    done = train(tmp_path, "--epochs", "2")
    lines = done.err.splitlines()
    assert lines[0].split() == ["epoch", "CE", "Err", "rate", "time"]
    assert [line.split()[0] for line in lines[1:3]] == ["1/2", "2/2"]
    assert f"saved to {tmp_path / 'net.safetensors'}" in done.err
    assert done.out == ""


def test_the_most_memory_that_was_resident_is_told(tmp_path: Path) -> None:
    done = train(tmp_path, "--json")
    peak = json.loads(done.out)["peak_memory_bytes"]
    assert peak > 2**20
    assert re.search(r"s in all, at most [\d,]+ MiB resident", done.err)


def test_quiet_says_nothing(tmp_path: Path) -> None:
    done = train(tmp_path, "-q")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_equal_seeds_give_equal_files_and_other_seeds_others(tmp_path: Path) -> None:
    contents: list[bytes] = []
    for seed in ("1", "1", "2"):
        assert train(tmp_path, "--seed", seed).code == 0
        contents.append((tmp_path / "net.safetensors").read_bytes())
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]


def test_rates_and_sizes_follow_their_lists(tmp_path: Path) -> None:
    done = train(
        tmp_path,
        *("--epochs", "4", "--json", "--minibatch", "10:20", "--shuffle"),
        *("--learning-rate", "4:2*2:1"),
    )
    rates = [e["learning_rate_per_sample"] for e in json.loads(done.out)["epochs"]]
    assert rates == pytest.approx([0.4, 0.1, 0.1, 0.05])


def test_rates_per_sample_are_used_as_they_are(tmp_path: Path) -> None:
    done = train(tmp_path, "--learning-rate-per-sample", "0.25", "--json")
    assert json.loads(done.out)["epochs"][0]["learning_rate_per_sample"] == 0.25


def test_the_stepping_heuristic_chooses_its_own_rates(tmp_path: Path) -> None:
    options = ("--learner", "stepping-heuristic", "--beta", "0.3", "--history", "3")
    done = train(tmp_path, "--epochs", "8", *options, "--json")
    epochs = json.loads(done.out)["epochs"]
    assert epochs[-1]["criterion"] < 0.7 * epochs[0]["criterion"]
    assert epochs[-1]["learning_rate_per_sample"] not in (
        0.4,
        epochs[0]["learning_rate_per_sample"],
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--learner", "adamax"), "is not one of"),
        (("--beta", "0.5"), "is for --learner stepping-heuristic, got --learner sgd"),
        (("--history", "5"), "is for --learner stepping-heuristic"),
        (("--beta1", "0.5"), "is for --learner adam and adamw"),
        (("--learner", "adam", "--momentum", "0.5"), "--momentum is for --learner sgd"),
        (("--learner", "adam", "--decay", "0.5"), "--decay is for --learner adamw"),
        (("--learner", "adagrad", "--no-lazy"), "--lazy is for --learner adam and adamw"),
        (("--learner", "stepping-heuristic", "--momentum", "0.9"), "is for --learner sgd"),
        (("--learner", "stepping-heuristic", "--warmup", "9"), "and no other rates"),
        (("--learner", "stepping-heuristic", "--l1", "0.1"), "takes no clipping, L1 and noise"),
        (("--learner", "stepping-heuristic", "--clip-norm", "1"), "takes no clipping"),
        (("--clip-norm", "1", "--clip-elements", "1"), "exclude each other"),
        (("--cosine", "10", "--step-decay", "10"), "exclude each other"),
        (("--warmup", "10", "--learning-rate", "1:0.5"), "require one rate"),
        (("--cosine", "10:x"), "--cosine"),
        (("--step-decay", "10:2"), "--step-decay"),
        (("--learner", "stepping-heuristic", "--learning-rate", "2:1"), "its first step size"),
        (("--learner", "stepping-heuristic", "--beta", "0"), "--beta"),
        (("--dropout", "1"), "a value below 1 is required, got 1"),
        (("--dropout", "0.5:-1"), "--dropout"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = train(tmp_path, *options)
    assert done.code == 2
    assert message in " ".join(done.err.split())


def test_dropout_follows_its_list(tmp_path: Path) -> None:
    text = NETWORK.replace("t = Times(W, features)", "d = Dropout(features)\nt = Times(W, d)")
    criteria: list[list[float]] = []
    for rates in ("0", "0:0.9"):
        done = graphc(
            *("train", write_network(tmp_path, text), "--data", write_data(tmp_path), *COLUMNS),
            *("--epochs", "2", "--learning-rate", "4", "--minibatch", "10", "--dropout", rates),
            *("--backend", "reference", "--json", "-o", tmp_path / "net.safetensors"),
        )
        criteria.append([e["criterion"] for e in json.loads(done.out)["epochs"]])
    assert criteria[0][0] == criteria[1][0]
    assert criteria[1][1] > 1.5 * criteria[0][1]


def test_a_model_file_is_trained_further(tmp_path: Path) -> None:
    first = json.loads(train(tmp_path, "--epochs", "3", "--json").out)["epochs"]
    model = tmp_path / "net.safetensors"
    done = graphc(
        *("train", model, "--data", tmp_path / "data.txt", *COLUMNS, "--minibatch", "10"),
        *("--learning-rate", "4", "--backend", "reference", "-o", tmp_path / "more.safetensors"),
        "--json",
    )
    assert json.loads(done.out)["epochs"][0]["criterion"] < first[0]["criterion"]


def test_a_define_changes_a_size(tmp_path: Path) -> None:
    network = write_network(tmp_path, NETWORK.replace("Dim = 2", "Dim = 1"))
    done = graphc(
        *("train", network, "-D", "Dim=2", "--data", write_data(tmp_path), *COLUMNS),
        *("--learning-rate", "1", "--backend", "reference", "-o", tmp_path / "net.safetensors"),
    )
    assert done.code == 0
    assert gc.load(tmp_path / "net.safetensors").parameters["W"].shape == (2, 2)


def test_statistics_are_computed_before_training(tmp_path: Path) -> None:
    text = NETWORK.replace("Times(W, features)", "Times(W, n)") + (
        "m = Mean(features)\ns = InvStdDev(features)\n"
        "n = PerDimMeanVarNormalization(features, m, s)\n"
    )
    data = write_data(tmp_path)
    done = graphc(
        *("train", write_network(tmp_path, text), "--data", data, *COLUMNS, "--learning-rate", "1"),
        *("--backend", "reference", "-o", tmp_path / "net.safetensors"),
    )
    assert done.code == 0
    mean = gc.load(tmp_path / "net.safetensors").parameters["m"]
    np.testing.assert_allclose(mean[:, 0], np.loadtxt(data)[:, :2].mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize(
    "more",
    [
        ("--learning-rate-per-sample", "0.1", "--learning-rate", "1"),
        ("--momentum", "0.9", "--momentum-per-sample", "0.9"),
        ("--minibatch", "0"),
        ("--minibatch", "2.5"),
        ("--learning-rate", "fast"),
        ("--momentum", "1"),
        ("--momentum", "0.5:1.5"),
        ("--momentum-per-sample", "1"),
        ("--l2", "nan"),
        ("--l2", "inf"),
        ("--learning-rate", "0.5:x"),
        ("--features", "zero"),
        ("--epochs", "0"),
    ],
)
def test_wrong_options_are_usage_errors(tmp_path: Path, more: tuple[str, ...]) -> None:
    done = train(tmp_path, *more)
    assert done.code == 2
    assert more[0] in done.err
    assert not (tmp_path / "net.safetensors").exists()


def test_a_minibatch_larger_than_the_data_is_told_once(tmp_path: Path) -> None:
    done = train(tmp_path, "--epochs", "3", "--minibatch", "100000000")
    assert done.code == 0
    assert done.err.count("warning[training]") == 1
    assert "at most the 60 samples of the data, got 100000000" in done.err
    assert train(tmp_path, "--minibatch", "100000000", "-q").err == ""


def test_few_samples_are_a_minibatch_unless_another_is_asked_for(tmp_path: Path) -> None:
    data = ("--data", write_data(tmp_path), "--learning-rate", "4", "--backend", "reference")
    options = (*data, *COLUMNS, "--json", "-o", tmp_path / "net.safetensors")
    done = graphc("train", write_network(tmp_path), *options)
    assert "warning" not in done.err
    assert json.loads(done.out)["epochs"][0]["learning_rate_per_sample"] == pytest.approx(4 / 60)


def test_a_criterion_that_grows_is_told(tmp_path: Path) -> None:
    network = write_network(
        tmp_path,
        "features = Input(2, tag=feature)\nlabels = Input(1, tag=label)\n"
        "W = LearnableParameter(1, 2)\nz = Times(W, features)\n"
        "J = SquareError(labels, z, tag=criteria)\nOutputNodes = (z)\n",
    )
    columns = ("--features", "0:2", "--labels", "2")
    done = graphc(
        *("train", network, "--data", write_data(tmp_path), *columns, "--epochs", "6"),
        *("--learning-rate", "9", "--backend", "reference", "-o", tmp_path / "net.safetensors"),
    )
    assert done.code == 0
    assert done.err.count("warning[training]: the criterion `J` has grown") == 1


def test_a_bad_schedule_says_where(tmp_path: Path) -> None:
    done = train(tmp_path, "--learning-rate", "0.5:x")
    assert "'--learning-rate'" in done.err
    assert "column 5" in done.err


def test_a_rate_is_required(tmp_path: Path) -> None:
    done = graphc(
        *("train", write_network(tmp_path), "--data", write_data(tmp_path), *COLUMNS),
        *("-o", tmp_path / "net.safetensors"),
    )
    assert done.code == 2
    assert "--learning-rate" in done.err


def test_a_folder_that_does_not_exist_is_refused_before_training(tmp_path: Path) -> None:
    done = train(tmp_path, "-o", tmp_path / "missing" / "net.safetensors")
    assert done.code == 3
    assert "does not exist" in done.err
    assert "epoch" not in done.err


def test_a_wrong_network_is_reported_with_its_place(tmp_path: Path) -> None:
    network = write_network(tmp_path, NETWORK.replace("Plus(t, b)", "Pluss(t, b)"))
    done = graphc(
        *("train", network, "--data", write_data(tmp_path), *COLUMNS, "--learning-rate", "1"),
        *("-o", tmp_path / "net.safetensors"),
    )
    assert done.code == 3
    assert f"{network}:8:5" in done.err
    assert "did you mean `Plus`" in done.err


def test_wrong_data_are_reported_with_their_place(tmp_path: Path) -> None:
    data = write_data(tmp_path)
    data.write_text(data.read_text() + "0.5 zero 1\n")
    done = graphc(
        *("train", write_network(tmp_path), "--data", data, *COLUMNS, "--learning-rate", "1"),
        *("-o", tmp_path / "net.safetensors"),
    )
    assert done.code == 3
    assert f"{data}:61:5" in done.err


def test_a_criterion_that_is_no_number_keeps_the_last_good_epoch(tmp_path: Path) -> None:
    text = NETWORK.replace("CE = CrossEntropyWithSoftmax(labels, z", "CE = SquareError(labels, z")
    done = graphc(
        *("train", write_network(tmp_path, text), "--data", write_data(tmp_path), *COLUMNS),
        *("--learning-rate", "1:1e30", "--epochs", "5", "--minibatch", "10"),
        *("--backend", "reference", "-o", tmp_path / "net.safetensors"),
    )
    assert done.code == 3
    assert "error[not-a-number]" in done.err
    assert "saved the parameters of epoch 1" in done.err
    weights = gc.load(tmp_path / "net.safetensors").parameters["W"]
    assert np.isfinite(weights).all()


def interrupt_after(monkeypatch: pytest.MonkeyPatch, minibatches: int) -> None:
    """Send SIGINT to this process in the minibatch of that number."""
    step = TrainingStep.__call__
    seen = 0

    def call(self: TrainingStep, **inputs: np.ndarray) -> object:
        nonlocal seen
        seen += 1
        if seen == minibatches:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self, **inputs)

    monkeypatch.setattr(TrainingStep, "__call__", call)


def test_an_interrupt_finishes_the_minibatch_saves_and_exits_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_after(monkeypatch, 9)
    done = train(tmp_path, "--epochs", "50", "--json")
    record = json.loads(done.out)
    assert done.code == 130
    assert record["interrupted"] is True
    assert [e["samples"] for e in record["epochs"]] == [60, 30]
    assert gc.load(tmp_path / "net.safetensors").parameters["W"].any()


@pytest.mark.parametrize("call", [1, 2, 5])
def test_an_interrupt_in_native_code_is_heard_after_its_call(
    call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many minibatches and epochs were still to come."""
    run, calls = Executable.run_minibatches, 0

    def interrupted(self: Executable, *arguments: object) -> object:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGINT)
        return run(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Executable, "run_minibatches", interrupted)
    done = train(tmp_path, "--epochs", "500", "--backend", "llvm", "--json")
    assert done.code == 130
    assert json.loads(done.out)["interrupted"] is True
    assert calls == call
    assert gc.load(tmp_path / "net.safetensors").parameters["W"].any()


def test_a_second_interrupt_leaves_at_once_without_saving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = TrainingStep.__call__

    def call(self: TrainingStep, **inputs: np.ndarray) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        return step(self, **inputs)

    monkeypatch.setattr(TrainingStep, "__call__", call)
    done = train(tmp_path)
    assert done.code == 130
    assert "interrupted" in done.err
    assert not (tmp_path / "net.safetensors").exists()


def test_the_handlers_of_before_are_back_afterwards(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    train(tmp_path)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize("name", ["x.txt", "net", "net.ndl"])
def test_a_name_that_could_not_be_read_back_is_refused(tmp_path: Path, name: str) -> None:
    done = train(tmp_path, "-o", tmp_path / name)
    assert done.code == 2
    assert ".safetensors is required" in done.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.txt", "net.ndl"]


def test_a_training_that_cannot_start_prints_no_head(tmp_path: Path) -> None:
    text = NETWORK.replace("(2, Dim)", "(2, Dim, needGradient=false)")
    text = text.replace("value=0)", "value=0, needGradient=false)")
    done = graphc(
        *("train", write_network(tmp_path, text), "--data", write_data(tmp_path), *COLUMNS),
        *("--learning-rate", "1", "-o", tmp_path / "net.safetensors"),
    )
    assert done.code == 3
    assert done.err.startswith("error[missing-node]")


def test_a_file_of_samples_does_not_train_a_network_that_looks_along_time(tmp_path: Path) -> None:
    text = NETWORK + "\nlater = PastValue(2, 1, z, tag=output)\n"
    path, data = write_network(tmp_path, text), write_data(tmp_path)
    out = tmp_path / "net.safetensors"
    done = graphc("train", path, "--data", data, *COLUMNS, "--learning-rate", "1", "-o", out)
    assert done.code == 3
    assert "PastValue `later` looks along time" in done.err
