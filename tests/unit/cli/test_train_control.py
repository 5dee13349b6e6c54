"""`graphc train` between epochs: validation, rates, stopping, checkpoints, going on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.learn.step import TrainingStep
from tests.support.commands import COLUMNS, NETWORK, graphc, train, write_data, write_network

ROOT = Path(__file__).parents[3]


def epochs(out: str) -> list[dict[str, object]]:
    """The epochs of the JSON, without what the clock said."""
    found = json.loads(out)["epochs"]
    for epoch in found:
        del epoch["seconds"]
    return found


def model(folder: Path) -> bytes:
    return (folder / "net.safetensors").read_bytes()


def test_validation_has_columns_and_is_in_the_json(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    data = write_data(other, 30)
    done = train(tmp_path, "--epochs", "2", "--json", "--validation", data)
    assert done.code == 0
    assert "CE (validation)" in done.err and "Err (validation)" in done.err
    measured = graphc(
        *("eval", tmp_path / "net.safetensors", "--data", data, *COLUMNS),
        *("--backend", "reference", "--json"),
    )
    said = json.loads(measured.out)["averages"]
    last = json.loads(done.out)["epochs"][-1]["validation"]
    assert last["samples"] == 30
    assert last["criterion"] == pytest.approx(said["CE"], rel=1e-5)
    assert last["evaluations"] == {"Err": pytest.approx(said["Err"])}


def test_windows_have_so_many_samples(tmp_path: Path) -> None:
    done = train(tmp_path, "--epochs", "4", "--epoch-size", "25", "--json")
    assert [e["samples"] for e in json.loads(done.out)["epochs"]] == [25] * 4


def test_an_epoch_without_improvement_ends_the_training(tmp_path: Path) -> None:
    done = train(tmp_path, "--epochs", "9", "--patience", "2", "--learning-rate", "0", "--json")
    assert len(json.loads(done.out)["epochs"]) == 3
    assert "training ends: no improvement in 2 epochs" in done.err


def test_the_best_epoch_is_saved(tmp_path: Path) -> None:
    rates = ("--learning-rate", "4:4:900", "--epochs", "4", "--json", "--validation")
    data = write_data(tmp_path)
    done = train(tmp_path, *rates, data, "--keep-best")
    found = [e["validation"]["criterion"] for e in json.loads(done.out)["epochs"]]
    measured = gc.evaluate(gc.load(tmp_path / "net.safetensors"), read(data), backend="numpy")
    assert measured["CE"] == pytest.approx(min(found), rel=1e-4)
    assert min(found) < found[-1]


def read(path: Path) -> dict[str, np.ndarray]:
    table = np.loadtxt(path)
    return {"features": table[:, :2], "labels": np.eye(2)[table[:, 2].astype(int)]}


def test_a_controlled_rate_is_told(tmp_path: Path) -> None:
    done = train(
        tmp_path,
        *("--epochs", "5", "--rate-control", "adjust", "--rate-reduce-below", "0.9", "--json"),
        *("--rate-decrease", "0.5"),
    )
    rates = [e["learning_rate_per_sample"] for e in json.loads(done.out)["epochs"]]
    assert rates == pytest.approx([0.4, 0.4, 0.2, 0.1, 0.05])
    assert "rate reduced to 0.2 per sample" in done.err


def test_trials_are_told_with_v(tmp_path: Path) -> None:
    options = ("--epochs", "2", "--rate-control", "search")
    quiet, loud = train(tmp_path, *options), train(tmp_path, *options, "-v")
    assert "per sample found" in quiet.err and "reaches" not in quiet.err
    assert "rate 0 per sample reaches" in loud.err


def test_the_minibatch_is_found(tmp_path: Path) -> None:
    done = train(tmp_path, "--epochs", "3", "--adapt-minibatch", "--json", "--minibatch", "10")
    found = [e["minibatch"] for e in json.loads(done.out)["epochs"]]
    assert found[0] == 10 and all(size % 64 == 0 for size in found[1:])


def test_labels_are_mixed_with_a_reference(tmp_path: Path) -> None:
    path = write_network(tmp_path, NETWORK + "p = Softmax(z)\n")
    options = ("--data", write_data(tmp_path), *COLUMNS, "--backend", "reference", "--no-shuffle")
    done = graphc(
        *("train", path, *options, "-o", tmp_path / "out.safetensors", "--learning-rate", "0"),
        *("--adapt-weight", "1", "--adapt-node", "p", "--json"),
    )
    assert done.code == 0, done.err
    net = gc.load(path)
    p = gc.compile(net, "p", backend="numpy")(features=read(tmp_path / "data.txt")["features"])
    said = json.loads(done.out)["epochs"][0]["criterion"]
    assert said == pytest.approx(-np.mean(np.sum(p["p"] * np.log(p["p"]), axis=1)), rel=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--rate-decrease", "0.5"),
        ("--min-improvement", "1"),
        ("--resume",),
        ("--checkpoint-minutes", "3"),
        ("--adapt-node", "z"),
        ("--adapt-reference", "net.ndl"),
        ("--rate-control", "sometimes"),
        ("--epoch-size", "-1"),
    ],
)
def test_options_that_do_not_go_together_are_usage_errors(
    tmp_path: Path, wrong: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_network(tmp_path)
    done = train(tmp_path, *wrong)
    assert done.code == 2 and "Error" in done.err
    assert not (tmp_path / "net.safetensors").exists()


# --- checkpoints ---------------------------------------------------------------------------------


def test_an_interrupted_training_goes_on_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--epochs", "4", "--json", "--keep-best", "--checkpoint", tmp_path / "run")
    whole = train(tmp_path, *options[:4])
    expected = model(tmp_path)
    call = TrainingStep.__call__
    calls: list[int] = []

    def interrupted(step: TrainingStep, /, **inputs: object) -> object:
        calls.append(0)
        if len(calls) == 9:
            os.kill(os.getpid(), signal.SIGINT)
        return call(step, **inputs)

    monkeypatch.setattr(TrainingStep, "__call__", interrupted)
    first = train(tmp_path, *options)
    assert first.code == 130
    assert "--resume goes on from there" in first.err
    second = train(tmp_path, *options, "--resume")
    assert second.code == 0
    assert epochs(second.out) == epochs(whole.out)
    assert model(tmp_path) == expected
    assert "2/4" in second.err and "1/4" not in second.err


def test_a_checkpoint_is_not_replaced_by_accident(tmp_path: Path) -> None:
    options = ("--checkpoint", tmp_path / "run")
    assert train(tmp_path, *options).code == 0
    before = (tmp_path / "run").read_bytes()
    again = train(tmp_path, *options)
    assert again.code == 2 and "--resume" in again.err
    assert (tmp_path / "run").read_bytes() == before


def test_another_training_does_not_go_on(tmp_path: Path) -> None:
    options = ("--checkpoint", tmp_path / "run")
    assert train(tmp_path, *options).code == 0
    done = train(tmp_path, *options, "--resume", "--learning-rate", "3")
    assert done.code == 2 and "learner" in done.err


@pytest.mark.parametrize("place", ["missing/run", "net.safetensors", "data.txt"])
def test_a_place_that_cannot_hold_checkpoints_is_refused_first(tmp_path: Path, place: str) -> None:
    write_data(tmp_path)
    done = train(tmp_path, "--checkpoint", tmp_path / place, "--epochs", "1000000")
    assert done.code in (2, 3)


def test_a_checkpoint_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    call = TrainingStep.__call__

    def vanish(step: TrainingStep, /, **inputs: object) -> object:
        if folder.exists():
            shutil.rmtree(folder)
        return call(step, **inputs)

    monkeypatch.setattr(TrainingStep, "__call__", vanish)
    done = train(tmp_path, "--checkpoint", folder / "run")
    assert done.code == 3 and "cannot write" in done.err
    assert "saved the parameters of epoch 1" in done.err
    assert model(tmp_path)


@pytest.mark.parametrize("option", [("--comm-split", "W"), ("--comm-shards", "2")])
def test_what_members_are_told_requires_members(tmp_path: Path, option: tuple[str, str]) -> None:
    done = train(tmp_path, "--epochs", "1", *option)
    assert done.code != 0
    assert f"error[bad-option]: {option[0]} is for members: give --comm too" in done.err
    assert not (tmp_path / "net.safetensors").exists()


def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    """A process of its own, killed as soon as it has written a checkpoint, three times."""
    data, path = write_data(tmp_path), write_network(tmp_path)
    command = [
        *(sys.executable, "-c", "from graphc.cli.main import console; console()"),
        *("train", str(path), "--data", str(data), *COLUMNS),
        *("--epochs", "25", "--minibatch", "30", "--learning-rate", "0.1", "--momentum", "0.9"),
        *("--backend", "numpy", "-o", str(tmp_path / "net.safetensors")),
    ]
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0
    expected = model(tmp_path)
    (tmp_path / "net.safetensors").unlink()
    run = tmp_path / "run"
    going_on = [*command, "--checkpoint", str(run), "--checkpoint-minutes", "0", "--resume"]
    reached: list[int] = []
    for _ in range(3):
        with subprocess.Popen(going_on, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
            before = run.read_bytes() if run.exists() else b""
            while (not run.exists() or run.read_bytes() == before) and process.poll() is None:
                time.sleep(0.001)
            process.kill()
        found = gc.read_checkpoint(run if run.exists() else tmp_path / "run.1")
        reached.append(found.standing.epoch)
    assert reached == sorted(reached) and reached[0] < 25
    assert not (tmp_path / "net.safetensors").exists()
    assert subprocess.run(going_on, cwd=ROOT, capture_output=True).returncode == 0
    assert model(tmp_path) == expected
