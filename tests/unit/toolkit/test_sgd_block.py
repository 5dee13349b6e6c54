"""Every key of the block SGD: what it makes of the plan that graphc trains by."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import graphc as gc
from graphc.config.assemble import assemble_text
from graphc.config.lookup import Scope
from graphc.learn.plan import TrainingPlan
from graphc.support.diagnostics import GraphcError
from graphc.toolkit.sgd import AUTO_KEYS, KEYS, training_plan

BASE = "maxEpochs=4; learningRatesPerMB=0.5:0.2*2:0.1"


def plan(text: str, base: str = BASE) -> TrainingPlan:
    top = Scope.top(assemble_text(f"SGD=[{base}; {text}]"))
    return training_plan(top.section("SGD"), "Err")


def learner(text: str, base: str = BASE) -> object:
    return plan(text, base).learner


def numbers(text: str, base: str = BASE) -> dict[str, float]:
    """What a minibatch of 10 of a nominal 20 samples is given."""
    at = plan(text, base).learner.at(0)
    return dict(at.hyperparameters(10, 20))


Read = Callable[[], object]

CASES: dict[str, tuple[Read, object]] = {
    "maxEpochs": (lambda: plan("").epochs, 4),
    "epochSize": (lambda: plan("epochSize=300").epoch_size, 300),
    "minibatchSize": (lambda: str(plan("minibatchSize=8*2:16").minibatch), "8*2:16"),
    "learningRatesPerMB": (lambda: numbers("")["learning_rate"], 0.5 / 20),
    "learningRatesPerSample": (
        lambda: numbers("learningRatesPerSample=0.01", "maxEpochs=1")["learning_rate"],
        0.01,
    ),
    "momentumPerMB": (lambda: numbers("momentumPerMB=0.81")["momentum"], 0.81**0.5),
    "momentumPerSample": (lambda: numbers("momentumPerSample=0.9")["momentum"], 0.9**10),
    "dropoutRate": (lambda: str(plan("dropoutRate=0.5:0").dropout), "0.5:0"),
    "gradUpdateType": (lambda: type(learner("gradUpdateType=RmsProp")), gc.RmsProp),
    "useAdagrad": (lambda: type(learner("useAdagrad=true")), gc.AdaGrad),
    "normWithAveMultiplier": (
        lambda: learner("gradUpdateType=adagrad;normWithAveMultiplier=false"),
        gc.AdaGrad("0.5:0.2*2:0.1", normalise=False),
    ),
    "rms_wgt_inc": (lambda: numbers("gradUpdateType=rmsprop;rms_wgt_inc=1.5")["grow"], 1.5),
    "rms_wgt_dec": (lambda: numbers("gradUpdateType=rmsprop;rms_wgt_dec=0.5")["shrink"], 0.5),
    "rms_wgt_min": (lambda: numbers("gradUpdateType=rmsprop;rms_wgt_min=0.2")["least"], 0.2),
    "rms_wgt_max": (lambda: numbers("gradUpdateType=rmsprop;rms_wgt_max=5")["most"], 5.0),
    "rms_gamma": (lambda: numbers("gradUpdateType=rmsprop;rms_gamma=0.9")["gamma"], 0.9),
    "gaussianNoiseInjectStd": (
        lambda: numbers("gaussianNoiseInjectStd=0.01:0")["noise_deviation"],
        0.01,
    ),
    "L1RegWeight": (lambda: numbers("L1RegWeight=0.3")["l1_threshold"], 0.5 / 20 * 0.3 * 10),
    "L2RegWeight": (lambda: numbers("L2RegWeight=0.3")["l2_weight"], 3.0),
    "clippingThresholdPerSample": (
        lambda: numbers("clippingThresholdPerSample=2")["clip_threshold"],
        20.0,
    ),
    "gradientClippingWithTruncation": (
        lambda: learner("clippingThresholdPerSample=2;gradientClippingWithTruncation=false"),
        gc.SGD("0.5:0.2*2:0.1", "0.9", clip=gc.ClipNorm(2.0)),
    ),
    "trainCriterionNodeName": (lambda: plan("trainCriterionNodeName=CE2").criterion, "CE2"),
    "autoAdjustLR": (
        lambda: plan("AutoAdjust=[autoAdjustLR=AdjustAfterEpoch]").control.adjust,
        gc.AdjustAfterEpoch(),
    ),
    "reduceLearnRateIfImproveLessThan": (
        lambda: adjust("reduceLearnRateIfImproveLessThan=0.1").reduce_if_improves_less_than,
        0.1,
    ),
    "increaseLearnRateIfImproveMoreThan": (
        lambda: adjust("increaseLearnRateIfImproveMoreThan=0.4").increase_if_improves_more_than,
        0.4,
    ),
    "continueReduce": (lambda: adjust("continueReduce=true").continue_reducing, True),
    "learnRateAdjustInterval": (lambda: adjust("learnRateAdjustInterval=3").interval, 3),
    "learnRateDecreaseFactor": (lambda: adjust("learnRateDecreaseFactor=0.5").decrease, 0.5),
    "learnRateIncreaseFactor": (lambda: adjust("learnRateIncreaseFactor=2").increase, 2.0),
    "loadBestModel": (lambda: adjust("loadBestModel=false").load_best, False),
    "UseCVSetControlLRIfCVExists": (
        lambda: adjust("UseCVSetControlLRIfCVExists=false").use_validation,
        False,
    ),
    "UseEvalCriterionControlLR": (lambda: adjust("UseEvalCriterionControlLR=true").node, "Err"),
    "numMiniBatch4LRSearch": (
        lambda: str(search("numMiniBatch4LRSearch=50:20").minibatches),
        "50:20",
    ),
    "numPrevLearnRates": (lambda: search("numPrevLearnRates=2").previous_rates, 2),
    "numBestSearchEpoch": (lambda: search("numBestSearchEpoch=0").refined_epochs, 0),
    "autoAdjustMinibatch": (
        lambda: plan("autoAdjustMinibatch=true").control.minibatch is None,
        False,
    ),
    "minibatchSizeTuningFrequency": (lambda: sizes("minibatchSizeTuningFrequency=2").interval, 2),
    "minibatchSizeTuningMax": (lambda: sizes("minibatchSizeTuningMax=512").maximum, 512),
    "minibatchSearchCriterionErrorMargin": (
        lambda: sizes("minibatchSearchCriterionErrorMargin=5").margin,
        5.0,
    ),
}

ELSEWHERE = {
    *("evalCriterionNodeName", "numMBsToShowResult", "keepCheckPointFiles", "gradientcheck"),
    *("sigFigs", "adaptationRegType", "adaptationRegWeight"),
    *("maxTempMemSizeInSamplesForCNN", "executionEngine"),
}
"""Keys that are no part of the plan: tests of whole commands have them."""


def adjust(text: str) -> gc.AdjustAfterEpoch:
    found = plan(f"AutoAdjust=[autoAdjustLR=after;{text}]").control.adjust
    assert found is not None
    return found


def search(text: str) -> gc.SearchBeforeEpoch:
    found = plan(f"autoAdjustLR=SearchBeforeEpoch;{text}").control.search
    assert found is not None
    return found


def sizes(text: str) -> gc.AdaptiveMinibatch:
    found = plan(f"AutoAdjust=[autoAdjustMinibatch=true;{text}]").control.minibatch
    assert found is not None
    return found


@pytest.mark.parametrize("key", CASES)
def test_a_key_makes_its_part_of_the_plan(key: str) -> None:
    read, expected = CASES[key]
    found = read()
    assert found == (pytest.approx(expected) if isinstance(expected, float) else expected)


def test_every_key_has_a_case() -> None:
    keys = {key.name for key in (*KEYS, *AUTO_KEYS)}
    assert keys == CASES.keys() | ELSEWHERE
    assert not CASES.keys() & ELSEWHERE


def test_without_keys_the_plan_is_the_toolkits() -> None:
    found = plan("")
    assert str(found.minibatch) == "256"
    assert found.learner == gc.SGD("0.5:0.2*2:0.1", "0.9")
    assert found.control.adjust is found.control.search is found.control.minibatch is None
    assert found.minimum_rate == 1e-9
    assert "clip_threshold" not in numbers("clippingThresholdPerSample=1#INF")


def test_where_all_rates_are_searched_none_is_listed() -> None:
    found = plan("autoAdjustLR=before", "maxEpochs=2")
    assert found.control.search is not None
    assert found.control.search.listed == 0
    with pytest.raises(GraphcError, match="`learningRatesPerMB` is required"):
        plan("", "maxEpochs=2")


def test_infinity_is_no_rate() -> None:
    with pytest.raises(GraphcError, match="requires finite numbers"):
        plan("", "maxEpochs=2;learningRatesPerMB=1#INF")
