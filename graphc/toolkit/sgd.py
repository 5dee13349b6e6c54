"""The block `SGD`: everything that a training is told, as a plan of graphc's own training.

Rates of the toolkit are per minibatch or per sample, and so are graphc's; its learners, controls
and schedules are records of `graphc.learn`, which this only fills in.
"""

from __future__ import annotations

import math
from dataclasses import replace

from graphc.config.keys import Key, integer, number, one_of, optional, text, truth
from graphc.config.lookup import Scope
from graphc.learn.adaptive import AdaGrad, RmsProp
from graphc.learn.clipping import ClipElements, ClipNorm
from graphc.learn.learner import Learner
from graphc.learn.minibatch_search import AdaptiveMinibatch
from graphc.learn.plan import Controls, TrainingPlan
from graphc.learn.rate_control import AdjustAfterEpoch
from graphc.learn.rate_search import LEAST_RATE, SearchBeforeEpoch
from graphc.learn.schedule import Schedule
from graphc.learn.sgd import SGD
from graphc.toolkit.action import Block
from graphc.toolkit.top import CONVOLUTION_MEMORY, ENGINE
from graphc.toolkit.values import read_schedule, schedule

_OVER_EPOCHS = "list over epochs"
_UPDATE = {
    **dict.fromkeys(("none", "normal", "simple"), "sgd"),
    "adagrad": "adagrad",
    "rmsprop": "rmsprop",
}
_ADJUST = {
    **dict.fromkeys(("none", "false"), "none"),
    **dict.fromkeys(("searchbeforeepoch", "beforeepoch", "before"), "before"),
    **dict.fromkeys(("adjustafterepoch", "afterepoch", "after"), "after"),
}

MAX_EPOCHS = integer("maxEpochs", "epochs to train")
EPOCH_SIZE = integer("epochSize", "samples of an epoch, 0 for all of the data", 0)
MINIBATCH_SIZE = schedule("minibatchSize", "samples of an update", "256")
RATES_PER_MB = optional(
    Key("learningRatesPerMB", _OVER_EPOCHS, "rates for a whole minibatch", read_schedule)
)
RATES_PER_SAMPLE = optional(
    Key("learningRatesPerSample", _OVER_EPOCHS, "rates for a sample", read_schedule)
)
MOMENTUM_PER_MB = schedule("momentumPerMB", "momentum from one minibatch to the next", "0.9")
MOMENTUM_PER_SAMPLE = optional(
    Key("momentumPerSample", _OVER_EPOCHS, "momentum from one sample to the next", read_schedule)
)
DROPOUT = schedule("dropoutRate", "share of elements that Dropout nodes set to zero", "0")
UPDATE = one_of("gradUpdateType", "the update rule", _UPDATE, "sgd")
USE_ADAGRAD = truth("useAdagrad", "an older way to say gradUpdateType=adagrad", False)
NORMALISE = truth("normWithAveMultiplier", "AdaGrad and RmsProp keep the length of a step", True)
RMS_GROW = number("rms_wgt_inc", "RmsProp: what the size of a step grows by", 1.2)
RMS_SHRINK = number("rms_wgt_dec", "RmsProp: what it shrinks by", 0.75)
RMS_LEAST = number("rms_wgt_min", "RmsProp: its lower limit", 0.1)
RMS_MOST = number("rms_wgt_max", "RmsProp: its upper limit", 10.0)
RMS_GAMMA = number("rms_gamma", "RmsProp: weight of the mean of squares that there is", 0.99)
NOISE = schedule("gaussianNoiseInjectStd", "deviation of noise, added to parameters", "0")
L1 = number("L1RegWeight", "weight of L1 regularisation, per sample", 0.0)
L2 = number("L2RegWeight", "weight of L2 regularisation, per sample", 0.0)
CLIP = number("clippingThresholdPerSample", "what gradients are clipped at, per sample", math.inf)
TRUNCATE = truth("gradientClippingWithTruncation", "clip elements; else scale the norm", True)
CRITERION = optional(text("trainCriterionNodeName", "what to minimise; the first criterion"))
EVALUATION = optional(text("evalCriterionNodeName", "what UseEvalCriterionControlLR looks at"))
SHOW_EVERY = integer("numMBsToShowResult", "minibatches from one line of the log to the next", 10)
KEEP_CHECKPOINTS = truth("keepCheckPointFiles", "keep the checkpoints of all epochs", False)
GRADIENT_CHECK = truth("gradientcheck", "compare gradients with differences before training", False)
DIGITS = integer("sigFigs", "gradientcheck: digits that have to agree", 6, least=1)
ADAPT_TYPE = one_of("adaptationRegType", "adaptation", {"none": "none", "kl": "kl"}, "none")
ADAPT_WEIGHT = number("adaptationRegWeight", "adaptation: share of the original model", 0.0)

AUTO = one_of("autoAdjustLR", "what chooses rates", _ADJUST, "none")
REDUCE_IF = number("reduceLearnRateIfImproveLessThan", "AdjustAfterEpoch: share of the loss", 0.0)
INCREASE_IF = number(
    "increaseLearnRateIfImproveMoreThan", "AdjustAfterEpoch: share of the loss", math.inf
)
CONTINUE_REDUCE = truth("continueReduce", "AdjustAfterEpoch: go on reducing, then end", False)
INTERVAL = integer("learnRateAdjustInterval", "AdjustAfterEpoch: epochs between", 1, least=1)
DECREASE = number("learnRateDecreaseFactor", "AdjustAfterEpoch: factor of a reduced rate", 0.618)
INCREASE = number("learnRateIncreaseFactor", "AdjustAfterEpoch: factor of a larger rate", 1.382)
LOAD_BEST = truth("loadBestModel", "AdjustAfterEpoch: undo epochs that made it worse", True)
SEARCH_MINIBATCHES = schedule("numMiniBatch4LRSearch", "minibatches of a trial", "500")
PREVIOUS_RATES = integer("numPrevLearnRates", "SearchBeforeEpoch: rates remembered", 5, least=1)
BEST_SEARCH = integer("numBestSearchEpoch", "SearchBeforeEpoch: epochs of a finer search", 1)
USE_CV = truth("UseCVSetControlLRIfCVExists", "judge by the validation data, if any", True)
USE_EVAL = truth("UseEvalCriterionControlLR", "judge by the evaluation node", False)
AUTO_MINIBATCH = truth("autoAdjustMinibatch", "choose the minibatch size by trials", False)
TUNING_INTERVAL = integer("minibatchSizeTuningFrequency", "epochs between two searches", 1, least=1)
TUNING_MOST = integer("minibatchSizeTuningMax", "the largest minibatch", 1 << 20, least=1)
MARGIN = number("minibatchSearchCriterionErrorMargin", "per cent of the criterion", 1.0)

KEYS: tuple[Key[object], ...] = (
    *(MAX_EPOCHS, EPOCH_SIZE, MINIBATCH_SIZE, RATES_PER_MB, RATES_PER_SAMPLE),
    *(MOMENTUM_PER_MB, MOMENTUM_PER_SAMPLE, DROPOUT, UPDATE, USE_ADAGRAD, NORMALISE),
    *(RMS_GROW, RMS_SHRINK, RMS_LEAST, RMS_MOST, RMS_GAMMA, NOISE, L1, L2, CLIP, TRUNCATE),
    *(CRITERION, EVALUATION, SHOW_EVERY, KEEP_CHECKPOINTS, GRADIENT_CHECK, DIGITS),
    *(ADAPT_TYPE, ADAPT_WEIGHT, CONVOLUTION_MEMORY, ENGINE),
)
AUTO_KEYS: tuple[Key[object], ...] = (
    *(AUTO, REDUCE_IF, INCREASE_IF, CONTINUE_REDUCE, INTERVAL, DECREASE, INCREASE, LOAD_BEST),
    *(SEARCH_MINIBATCHES, PREVIOUS_RATES, BEST_SEARCH, USE_CV, USE_EVAL),
    *(AUTO_MINIBATCH, TUNING_INTERVAL, TUNING_MOST, MARGIN),
)
SGD_BLOCK = Block("SGD", KEYS, "how to train")
AUTO_BLOCK = Block("AutoAdjust", AUTO_KEYS, "in SGD: what chooses rates and minibatch sizes")

NO_EFFECT = (
    "validateAfterModelReloading",
    "UseAllDataForPreComputedNode",
    "unittest",
    "traceLevel",
)
"""Keys that ask for what is always so here, or for more lines of the log."""


def training_plan(block: Scope, evaluation: str | None) -> TrainingPlan:
    """The plan that the block asks for. `evaluation`: the node that UseEvalCriterionControlLR looks
    at. GraphcError at the place of the set for a value that is out of range."""
    block.ask(*(key.name for key in KEYS), *NO_EFFECT)
    with block.blamed():
        return TrainingPlan(
            _learner(block),
            epochs=MAX_EPOCHS.of(block),
            epoch_size=EPOCH_SIZE.of(block),
            minibatch=_sizes(block),
            dropout=DROPOUT.of(block),
            criterion=CRITERION.of(block),
            control=_controls(block, evaluation),
            minimum_rate=LEAST_RATE,
        )


def _sizes(block: Scope) -> Schedule:
    sizes = MINIBATCH_SIZE.of(block)
    if any(not size.is_integer() or size < 1 for size, _ in sizes.values):
        value = block.require(MINIBATCH_SIZE.name)
        raise value.fail(f"`{value.key}` requires whole numbers of at least 1")
    return sizes


def _learner(block: Scope) -> Learner:
    per_mb, per_sample = RATES_PER_MB.of(block), RATES_PER_SAMPLE.of(block)
    if per_mb is not None and per_sample is not None:
        value = block.require(RATES_PER_SAMPLE.name)
        raise value.fail(f"one of {RATES_PER_MB.name} and {RATES_PER_SAMPLE.name} is required")
    if per_mb is None and per_sample is None:
        if _auto(block)[1] != "before":
            raise block.missing(RATES_PER_MB.name)
        per_sample = Schedule(((0.0, 1),))  # every rate is searched
    rule = UPDATE.of(block)
    if rule == "sgd" and USE_ADAGRAD.of(block):
        rule = "adagrad"
    learner: SGD | AdaGrad | RmsProp
    if rule == "sgd":
        momentum = MOMENTUM_PER_SAMPLE.of(block)
        learner = SGD(
            per_mb,
            MOMENTUM_PER_MB.of(block) if momentum is None else None,
            learning_rate_per_sample=per_sample,
            momentum_per_sample=momentum,
        )
    elif rule == "adagrad":
        learner = AdaGrad(
            per_mb, learning_rate_per_sample=per_sample, normalise=NORMALISE.of(block)
        )
    else:
        learner = RmsProp(
            per_mb,
            learning_rate_per_sample=per_sample,
            normalise=NORMALISE.of(block),
            gamma=RMS_GAMMA.of(block),
            grow=RMS_GROW.of(block),
            shrink=RMS_SHRINK.of(block),
            least=RMS_LEAST.of(block),
            most=RMS_MOST.of(block),
        )
    threshold = CLIP.of(block)
    kind = ClipElements if TRUNCATE.of(block) else ClipNorm
    return replace(
        learner,
        clip=kind(threshold) if math.isfinite(threshold) else None,
        l1=L1.of(block),
        l2=L2.of(block),
        noise=NOISE.of(block),
    )


def _auto(block: Scope) -> tuple[Scope, str]:
    """Where the keys of `AutoAdjust` are read, in that set or in SGD; what chooses rates."""
    inner = block.find_section(AUTO_BLOCK.name)
    scope = block if inner is None else inner
    scope.ask(*(key.name for key in AUTO_KEYS))
    return scope, AUTO.of(scope)


def _controls(block: Scope, evaluation: str | None) -> Controls:
    scope, kind = _auto(block)
    node = evaluation if USE_EVAL.of(scope) else None
    adjust = search = minibatch = None
    if kind == "after":
        adjust = AdjustAfterEpoch(
            reduce_if_improves_less_than=REDUCE_IF.of(scope),
            increase_if_improves_more_than=INCREASE_IF.of(scope),
            decrease=DECREASE.of(scope),
            increase=INCREASE.of(scope),
            continue_reducing=CONTINUE_REDUCE.of(scope),
            interval=INTERVAL.of(scope),
            load_best=LOAD_BEST.of(scope),
            use_validation=USE_CV.of(scope),
            node=node,
        )
    elif kind == "before":
        has_rates = RATES_PER_MB.of(block) or RATES_PER_SAMPLE.of(block)
        search = SearchBeforeEpoch(
            minibatches=SEARCH_MINIBATCHES.of(scope),
            previous_rates=PREVIOUS_RATES.of(scope),
            refined_epochs=BEST_SEARCH.of(scope),
            use_validation=USE_CV.of(scope),
            node=node,
            listed=None if has_rates else 0,
        )
    if AUTO_MINIBATCH.of(scope):
        minibatch = AdaptiveMinibatch(
            interval=TUNING_INTERVAL.of(scope),
            maximum=TUNING_MOST.of(scope),
            margin=MARGIN.of(scope),
            minibatches=SEARCH_MINIBATCHES.of(scope),
        )
    return Controls(adjust=adjust, search=search, minibatch=minibatch)
