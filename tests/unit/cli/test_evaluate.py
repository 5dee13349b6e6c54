"""`graphc eval`: averages per sample, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.api import training
from graphc.cli import evaluate as command
from graphc.driver.options import CompileOptions
from graphc.learn.evaluate import Evaluation
from graphc.model.model import Model
from tests.support.commands import COLUMNS, NETWORK, Done, graphc, train, write_data, write_network


def evaluate(folder: Path, *more: str) -> Done:
    model = folder / "net.safetensors"
    data = folder / "data.txt"
    return graphc("eval", model, "--data", data, *COLUMNS, "--backend", "reference", *more)


def test_the_averages_are_those_of_the_plain_formulas(tmp_path: Path) -> None:
    train(tmp_path, "--epochs", "2")
    parameters = gc.load(tmp_path / "net.safetensors").parameters
    table = np.loadtxt(tmp_path / "data.txt")
    scores = table[:, :2] @ parameters["W"].T + parameters["b"].T
    label = table[:, 2].astype(int)
    chosen = scores[np.arange(len(scores)), label]
    entropy = np.mean(np.log(np.exp(scores).sum(axis=1)) - chosen)
    errors = np.mean(scores.argmax(axis=1) != label)
    record = json.loads(evaluate(tmp_path, "--json").out)
    assert record["samples"] == 60
    assert record["averages"]["CE"] == pytest.approx(entropy, rel=1e-5)
    assert record["averages"]["Err"] == pytest.approx(errors)


def test_one_line_for_each_node(tmp_path: Path) -> None:
    train(tmp_path)
    done = evaluate(tmp_path)
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == ["CE", "Err"]


def test_samples_beyond_one_call_are_added_up(tmp_path: Path) -> None:
    train(tmp_path)
    once = json.loads(evaluate(tmp_path, "--json").out)["averages"]
    data = tmp_path / "data.txt"
    data.write_text(data.read_text() * 10)
    many = json.loads(evaluate(tmp_path, "--json").out)
    assert many["samples"] == 600
    assert many["averages"] == pytest.approx(once, rel=1e-5)


def test_how_products_and_sums_are_rounded_reaches_the_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    def noted(
        model: Model, data: object, options: CompileOptions, *_: object, **__: object
    ) -> Evaluation:
        given.append(options.contraction)
        return Evaluation(1, {"CE": 0.0})

    monkeypatch.setattr(command, "evaluate_dataset", noted)
    monkeypatch.setattr(training, "evaluate_dataset", noted)
    train(tmp_path)
    assert evaluate(tmp_path, "--contraction", "off").code == 0
    gc.evaluate(gc.loads(NETWORK), {}, contraction="off")
    gc.evaluate(gc.loads(NETWORK), {})
    assert given == ["off", "off", "fma"]


def test_nodes_can_be_chosen(tmp_path: Path) -> None:
    train(tmp_path)
    assert evaluate(tmp_path, "--nodes", "err").out.split()[0] == "Err"


def test_an_unknown_node_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    train(tmp_path)
    done = evaluate(tmp_path, "--nodes", "Erro")
    assert done.code == 3
    assert "did you mean `Err`" in done.err


def test_a_node_that_does_not_sum_over_samples_is_refused(tmp_path: Path) -> None:
    train(tmp_path)
    done = evaluate(tmp_path, "--nodes", "z")
    assert (done.code, "error[shape-mismatch]" in done.err) == (3, True)


def test_a_network_without_anything_to_measure_is_refused(tmp_path: Path) -> None:
    text = NETWORK.replace(", tag=criteria", "").replace(", tag=eval", "")
    done = graphc("eval", write_network(tmp_path, text), "--data", write_data(tmp_path), *COLUMNS)
    assert done.code == 3
    assert "no criterion" in done.err


def test_an_input_that_the_network_lacks_is_a_usage_error(tmp_path: Path) -> None:
    done = graphc(
        *("eval", write_network(tmp_path), "--data", write_data(tmp_path)),
        *("--features", "pixels=0:2", "--labels", "2", "--classes", "2"),
    )
    assert done.code == 2
    assert "pixels" in done.err


def test_labels_may_be_spelled_by_a_mapping(tmp_path: Path) -> None:
    data = write_data(tmp_path)
    numbers = np.loadtxt(data)
    words = ["yes" if row[2] == 0 else "no" for row in numbers]
    rows = [f"{row[0]} {row[1]} {word}" for row, word in zip(numbers, words, strict=True)]
    data.write_text("\n".join(rows) + "\n")
    mapping = tmp_path / "labels.txt"
    mapping.write_text("yes\nno\n")
    done = graphc(
        *("eval", write_network(tmp_path), "--data", data, "--features", "0:2", "--labels", "2"),
        *("--label-mapping", mapping, "--backend", "reference"),
    )
    assert (done.code, done.err) == (0, done.err)
    assert done.out.split()[0] == "CE"
