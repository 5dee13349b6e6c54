"""The actions `train` and `trainRNN`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphc.config.lookup import Scope
from graphc.data.reader import EpochRequest, Reader
from graphc.learn.loop import run_training
from graphc.learn.step import training_outputs
from graphc.toolkit.action import Action, Run, Session, Showing
from graphc.toolkit.networks import MODEL_PATH, NDL_BUILDER, build_network
from graphc.toolkit.readers import check_columns, planned_reader
from graphc.toolkit.sgd import SGD_BLOCK, SHOW_EVERY, training_plan
from graphc.toolkit.top import MAKE_MODE, TRACE_LEVEL


def plan_training(scope: Scope, session: Session) -> Run:
    """Check the block of `train`: the network is built, the reader made, every key read."""
    model = build_network(scope)
    sgd = scope.section(SGD_BLOCK.name)
    plan = training_plan(sgd)
    path = MODEL_PATH.of(sgd)
    names = training_outputs(model, plan.criterion)
    reader = planned_reader(scope, "reader", session)
    check_columns(model, names, reader, scope.require("reader"))
    make_mode = MAKE_MODE.of(scope)
    session.will_write(path, model)
    every = SHOW_EVERY.of(sgd) if TRACE_LEVEL.of(scope) > 0 else 0
    showing = Showing(plan.epochs, names, minibatch_lines=every)

    def run() -> None:
        if make_mode and path.exists():
            session.report.line("Final model exists. No further training is necessary.")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with session.report.training(showing) as progress:
            run_training(model, _in_memory(reader), plan, session.options, progress)
        model.save(path)

    return run


def _in_memory(reader: Reader) -> dict[str, object]:
    blocks = list(reader.blocks(EpochRequest()))
    return {name: np.concatenate([np.asarray(b[name]) for b in blocks]) for name in blocks[0]}


def step_path(path: Path, epoch: int) -> Path:
    """The model file after an epoch, counted from 1; 0 is the initial model."""
    return path.with_name(f"{path.name}.{epoch}")


TRAIN = Action(
    ("train", "trainRNN"),
    "train a network",
    (MAKE_MODE, MODEL_PATH),
    plan_training,
    (NDL_BUILDER, SGD_BLOCK),
)
