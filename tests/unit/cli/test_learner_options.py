"""The learners of `graphc train`: each set of options is a learner of Python."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.learn.learner import Learner
from tests.support.commands import train

LEARNERS: dict[str, tuple[tuple[str, ...], Learner]] = {
    "sgd": (
        ("--learning-rate", "2:1", "--momentum", "0.5", "--l2", "0.01:0", "--l1", "0:0.001"),
        gc.SGD("2:1", 0.5, l2="0.01:0", l1="0:0.001"),
    ),
    "adagrad": (
        ("--learner", "adagrad", "--learning-rate", "0.5", "--no-normalise"),
        gc.AdaGrad(0.5, normalise=False),
    ),
    "normalised adagrad": (
        ("--learner", "adagrad", "--learning-rate-per-sample", "0.1:0.05"),
        gc.AdaGrad(learning_rate_per_sample="0.1:0.05"),
    ),
    "rmsprop": (
        (
            "--learner",
            "rmsprop",
            "--learning-rate",
            "0.5",
            "--gamma",
            "0.9",
            "--grow",
            "1.5",
            "--shrink",
            "0.5",
            "--least",
            "0.2",
            "--most",
            "2",
        ),
        gc.RmsProp(0.5, gamma=0.9, grow=1.5, shrink=0.5, least=0.2, most=2),
    ),
    "adam": (
        (
            "--learner",
            "adam",
            "--learning-rate",
            "0.1",
            "--beta1",
            "0.5",
            "--beta2",
            "0.75",
            "--epsilon",
            "0.01",
            "--clip-global-norm",
            "0.2",
        ),
        gc.Adam(0.1, beta1=0.5, beta2=0.75, epsilon=0.01, clip=gc.ClipGlobalNorm(0.2)),
    ),
    "adamw": (
        ("--learner", "adamw", "--learning-rate", "0.1", "--decay", "0.5:0.1", "--lazy"),
        gc.AdamW(0.1, decay="0.5:0.1", lazy=True),
    ),
    "warm-up and cosine": (
        (
            "--learning-rate",
            "2",
            "--warmup",
            "4",
            "--cosine",
            "9:0.5",
            "--noise",
            "0.01",
            "--clip-norm",
            "0.3:0.2",
        ),
        gc.SGD(gc.Warmup(4, gc.Cosine(2, 9, 0.5)), noise=0.01, clip=gc.ClipNorm("0.3:0.2")),
    ),
    "step decay": (
        ("--learning-rate-per-sample", "0.2", "--step-decay", "5:0.5", "--clip-elements", "0.1"),
        gc.SGD(learning_rate_per_sample=gc.StepDecay(0.2, 5, 0.5), clip=gc.ClipElements(0.1)),
    ),
    "step decay to nothing": (
        ("--learning-rate", "2", "--step-decay", "3:0"),
        gc.SGD(gc.StepDecay(2.0, 3, 0.0)),
    ),
    "warm-up alone": (("--learning-rate", "2", "--warmup", "4"), gc.SGD(gc.Warmup(4, 2.0))),
    "cosine alone": (("--learning-rate", "2", "--cosine", "10"), gc.SGD(gc.Cosine(2.0, 10))),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_options_make_the_learner_that_python_has(tmp_path: Path, name: str) -> None:
    options, learner = LEARNERS[name]
    done = train(tmp_path, *options, "--epochs", "3", "--seed", "4", "--json")
    assert done.code == 0, done.err
    table = np.loadtxt(tmp_path / "data.txt")
    data = {"features": table[:, :2], "labels": np.eye(2)[table[:, 2].astype(int)]}
    net = gc.load(tmp_path / "net.ndl", seed=4)
    records = gc.train(
        net, data, epochs=3, minibatch=10, seed=4, learner=learner, backend="reference"
    )
    epochs = json.loads(done.out)["epochs"]
    for key in ("criterion", "learning_rate_per_sample"):
        assert [e[key] for e in epochs] == [getattr(r, key) for r in records]
    trained = gc.load(tmp_path / "net.safetensors").parameters
    for parameter, value in net.parameters.items():
        assert np.array_equal(value, trained[parameter])


def test_a_threshold_of_nothing_is_an_error_that_writes_nothing(tmp_path: Path) -> None:
    done = train(tmp_path, "--clip-norm", "0")
    assert done.code != 0
    assert "ClipNorm: the threshold requires a finite number above 0, got 0.0" in done.err
    assert not (tmp_path / "net.safetensors").exists()
