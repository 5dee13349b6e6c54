"""Learners by name: graphc's own, and those of other distributions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.learn.learner_types import LEARNERS, named_learner
from tests.support.commands import Done, graphc
from tests.support.distributions import write_distribution

MODULE = """
import graphc as gc

def _down(gradient, parameter, state, settings):
    return parameter - settings["learning_rate"] * settings["factor"] * gradient, {}

def scaled(learning_rate=None, *, factor=1.0, **common):
    return gc.learner(_down, settings={"factor": factor}, learning_rate=learning_rate, **common)

def exact(learning_rate=None, *, learning_rate_per_sample=None, factor=1.0):
    return scaled(learning_rate, learning_rate_per_sample=learning_rate_per_sample, factor=factor)

def raises(**_settings):
    raise KeyError("oops")

def _misspelt(gradient, parameter, state, settings):
    return parameter - settings["lerning_rate"] * gradient, {}

def misspelt(learning_rate=None):
    return gc.learner(_misspelt, learning_rate=learning_rate)

def no_learner(**_settings):
    return 3

NUMBER = 3
"""

ENTRIES = """
scaled = downhill:scaled
exact = downhill:exact
raises = downhill:raises
misspelt = downhill:misspelt
no-learner = downhill:no_learner
number = downhill:NUMBER
absent = downhill:absent
sgd = downhill:NUMBER
"""

NETWORK = """
net = [
x = Input(2, tag=feature)
W = Parameter(1, 2)
c = SumElements(Times(W, x), tag=criterion)
]
run = net
"""


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    site = tmp_path / "site"
    write_distribution(site, "downhill", {"graphc.learners": ENTRIES}, {"downhill": MODULE})
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "downhill", raising=False)
    return site


def test_a_rule_of_another_distribution_is_compiled_into_the_step() -> None:
    net = gc.loads(NETWORK)
    learner = gc.named_learner("Scaled", learning_rate=0.5, factor=3.0)
    step = gc.compile_training(net, learner=learner, batch=2, precision="f64")
    before = np.array(net.parameters["W"], np.float64)
    step(x=np.array([[1.0, 2], [3, 4]]))
    np.testing.assert_allclose(net.parameters["W"], before - 0.5 / 2 * 3 * np.array([[4.0, 6]]))


def test_graphcs_own_come_first_and_have_their_settings() -> None:
    assert named_learner("sgd", learning_rate=0.1, momentum=0.9) == gc.SGD(0.1, 0.9)
    assert named_learner("ADAM", learning_rate=0.1).rule.name == "adam"
    with pytest.raises(gc.GraphcError, match="has no setting `momntum`; did you mean `momentum`"):
        named_learner("sgd", learning_rate=0.1, momntum=0.9)
    with pytest.raises(gc.GraphcError, match="requires one of learning_rate"):
        named_learner("adam")


@pytest.mark.parametrize(
    ("name", "slug", "message"),
    [
        ("raises", "plug-in", "`raises` of downhill 1.5 .* is broken: KeyError: 'oops'"),
        (
            "no-learner",
            "plug-in",
            "`no-learner` of downhill 1.5 .*: a learner is required, got int",
        ),
        ("number", "plug-in", "downhill 1.5 .* requires a function .learning_rate, ….*got int"),
        ("absent", "plug-in", "cannot be loaded: AttributeError"),
        ("scald", "undefined-name", "there is no learner `scald`; did you mean `scaled`"),
    ],
)
def test_what_is_broken_or_unknown_is_one_error(name: str, slug: str, message: str) -> None:
    with pytest.raises(gc.GraphcError, match=message) as caught:
        named_learner(name, learning_rate=0.1)
    (problem,) = caught.value.diagnostics
    assert problem.slug == slug


def test_a_setting_of_anothers_learner_is_checked_by_its_signature() -> None:
    with pytest.raises(gc.GraphcError, match="`exact` has no setting `l2`; it has learning_rate"):
        named_learner("exact", learning_rate=0.1, l2=1.0)


def test_two_distributions_with_one_name(site: Path) -> None:
    write_distribution(site, "other", {"graphc.learners": "Scaled = downhill:scaled"})
    with pytest.raises(gc.GraphcError, match=r"`scaled` is other 1.5 .* and downhill"):
        named_learner("scaled", learning_rate=0.1)
    assert "exact" in LEARNERS.names()


# --- on the command line -------------------------------------------------------------------------


def train(folder: Path, *options: str) -> Done:
    """A training of one update of the network, whose gradient is the sum of the samples."""
    (folder / "net.ndl").write_text(NETWORK, encoding="utf-8")
    (folder / "data.txt").write_text("1 2\n3 4\n", encoding="utf-8")
    model = folder / "net.safetensors"
    data = ("--data", str(folder / "data.txt"), "--features", "0:2", "--epochs", "1", "-q")
    return graphc("train", folder / "net.ndl", *data, *options, "-o", model)


def test_a_command_trains_with_it(tmp_path: Path) -> None:
    start = np.array(gc.loads(NETWORK).parameters["W"], np.float64)
    options = ("--learning-rate", "0.5", "--learner-setting", "factor=3")
    done = train(tmp_path, "--learner", "SCALED", *options)
    assert (done.code, done.err) == (0, "")
    trained = gc.load(tmp_path / "net.safetensors").parameters["W"]
    np.testing.assert_allclose(trained, start - 0.5 / 2 * 3 * np.array([[4.0, 6]]), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--learner", "scald"), 2, "is not one of 'sgd'"),
        (("--learner", "scald"), 2, "did you mean `scaled`"),
        (("--learner", "exact", "--learner-setting", "factr=2"), 2, "did you mean `factor`"),
        (("--learner", "scaled", "--learner-setting", "factor"), 2, "NAME=VALUE is required"),
        (("--learner", "scaled", "--learner-setting", "factor=high"), 3, "got `high`"),
        (("--learner", "scaled", "--momentum", "0.9"), 2, "is for --learner sgd"),
        (("--learner", "scaled", "--beta", "0.5"), 2, "is for --learner stepping-heuristic"),
        (("--learner-setting", "factor=2"), 2, "for learners of other distributions"),
        (("--learner", "misspelt"), 3, "`_misspelt` raises KeyError: 'lerning_rate', at "),
        (("--learner", "raises"), 3, "`raises` of downhill 1.5"),
    ],
)
def test_wrong_options(tmp_path: Path, options: tuple[str, ...], code: int, message: str) -> None:
    done = train(tmp_path, "--learning-rate", "0.5", *options)
    assert done.code == code
    assert message in " ".join(done.err.split())
    assert not (tmp_path / "net.safetensors").exists()


def test_a_setting_given_twice_is_refused(tmp_path: Path) -> None:
    twice = ("--learner-setting", "factor=2", "--learner-setting", "factor=3")
    done = train(tmp_path, "--learning-rate", "0.5", "--learner", "scaled", *twice)
    assert (done.code, "factor is given twice" in done.err) == (2, True)
