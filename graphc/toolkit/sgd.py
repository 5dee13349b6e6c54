"""The block `SGD`: everything that a training is told, as a plan of graphc's own training."""

from __future__ import annotations

from graphc.config.keys import Key, integer, number, optional, text
from graphc.config.lookup import Scope
from graphc.learn.learner import Learner
from graphc.learn.loop import TrainingPlan
from graphc.learn.sgd import SGD
from graphc.toolkit.action import Block
from graphc.toolkit.values import read_schedule, schedule

MAX_EPOCHS = integer("maxEpochs", "epochs to train")
EPOCH_SIZE = integer("epochSize", "samples of an epoch, 0 for all of the data", 0)
MINIBATCH_SIZE = schedule("minibatchSize", "samples of an update", "256")
RATES_PER_MB = optional(
    Key("learningRatesPerMB", "list over epochs", "rates for a whole minibatch", read_schedule)
)
RATES_PER_SAMPLE = optional(
    Key("learningRatesPerSample", "list over epochs", "rates for a sample", read_schedule)
)
MOMENTUM_PER_MB = schedule("momentumPerMB", "momentum from one minibatch to the next", "0.9")
MOMENTUM_PER_SAMPLE = optional(
    Key(
        "momentumPerSample",
        "list over epochs",
        "momentum from one sample to the next",
        read_schedule,
    )
)
DROPOUT = schedule("dropoutRate", "share of elements that Dropout nodes set to zero", "0")
L2 = number("L2RegWeight", "weight of L2 regularisation, per sample", 0.0)
CRITERION = optional(text("trainCriterionNodeName", "what to minimise; the first criterion"))
SHOW_EVERY = integer("numMBsToShowResult", "minibatches from one line of the log to the next", 10)

KEYS: tuple[Key[object], ...] = (
    MAX_EPOCHS,
    EPOCH_SIZE,
    MINIBATCH_SIZE,
    RATES_PER_MB,
    RATES_PER_SAMPLE,
    MOMENTUM_PER_MB,
    MOMENTUM_PER_SAMPLE,
    DROPOUT,
    L2,
    CRITERION,
    SHOW_EVERY,
)
SGD_BLOCK = Block("SGD", KEYS, "how to train")


def training_plan(block: Scope) -> TrainingPlan:
    """The plan that the block asks for."""
    block.ask(*(key.name for key in KEYS))
    return TrainingPlan(
        _learner(block),
        epochs=MAX_EPOCHS.of(block),
        minibatch=MINIBATCH_SIZE.of(block),
        dropout=DROPOUT.of(block),
        criterion=CRITERION.of(block),
    )


def _learner(block: Scope) -> Learner:
    per_mb, per_sample = RATES_PER_MB.of(block), RATES_PER_SAMPLE.of(block)
    if per_mb is not None and per_sample is not None:
        value = block.require(RATES_PER_SAMPLE.name)
        raise value.fail(f"one of {RATES_PER_MB.name} and {RATES_PER_SAMPLE.name} is required")
    if per_mb is None and per_sample is None:
        raise block.missing(RATES_PER_MB.name)
    momentum = MOMENTUM_PER_SAMPLE.of(block)
    return SGD(
        learning_rate=per_mb,
        learning_rate_per_sample=per_sample,
        momentum=None if momentum is not None else MOMENTUM_PER_MB.of(block),
        momentum_per_sample=momentum,
        l2=L2.of(block),
    )
