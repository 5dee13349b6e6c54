"""The actions `test`, `eval` and `cv`: averages of criteria and evaluation nodes over data."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

from graphc.config.keys import Key, integer, number, texts
from graphc.config.lookup import Scope, Value
from graphc.data.reader import EpochRequest
from graphc.driver.compile import node_names
from graphc.learn.evaluate import measured_nodes, require_sums
from graphc.model.model import Model
from graphc.support.diagnostics import fail
from graphc.toolkit.action import Action, Run, Session
from graphc.toolkit.measuring import Measured, measured, measured_text, summed
from graphc.toolkit.model_files import epoch_path
from graphc.toolkit.networks import MODEL_PATH, open_model, planned_file, planned_model
from graphc.toolkit.readers import READER, PlannedReader, planned_reader
from graphc.toolkit.top import TRACE_LEVEL

MINIBATCH_SIZE = integer("minibatchSize", "samples that are computed at once", 40960, least=1)
EPOCH_SIZE = integer("epochSize", "samples to measure, 0 for all of the data", 0)
EVAL_NODES = texts("evalNodeNames", "nodes to measure; all criteria and evaluation nodes", ())
SHOW_EVERY = integer("numMBsToShowResult", "minibatches from one line of the log to the next", 100)
SLEEP = number("sleepTimeBetweenRuns", "seconds between two models", 0.0)

MOST_MODELS = 1 << 16


@dataclass(frozen=True)
class _Measuring:
    """What is measured, checked as far as it is known."""

    wanted: Value | None
    reader: PlannedReader
    request: EpochRequest
    every: int

    def nodes(self, model: Model) -> list[str]:
        """The nodes to measure, as the network spells them; each is a sum over the samples."""
        if self.wanted is None:
            names = measured_nodes(model)
            require_sums(model, names)
        else:
            with self.wanted.blamed():
                names = node_names(model, self.wanted.texts())
                require_sums(model, names)
        self.reader.check(model, names)
        return names

    def run(self, model: Model, session: Session) -> Measured:
        """Measure; a line of the log for the stretches on the way and one at the end."""
        names = self.nodes(model)

        def show(found: Measured) -> None:
            session.report.line(measured_text(found, model))

        sums = summed(
            model, names, self.reader.reader, self.request, session.options, session.member
        )
        found = measured(sums, names, self.every, show)
        session.report.line(measured_text(found, model, is_final=True))
        return found


def _measuring(scope: Scope, session: Session, *, keep: bool) -> _Measuring:
    return _Measuring(
        scope.find(EVAL_NODES.name),
        planned_reader(scope, READER, session, in_order=True, keep=keep),
        EpochRequest(size=EPOCH_SIZE.of(scope), minibatch=MINIBATCH_SIZE.of(scope)),
        SHOW_EVERY.of(scope) if TRACE_LEVEL.of(scope) > 0 else 0,
    )


def plan_evaluation(scope: Scope, session: Session) -> Run:
    """Check the block of `test` or `eval`."""
    model = planned_model(scope, session)
    measuring = _measuring(scope, session, keep=False)
    if model.network is not None:
        measuring.nodes(model.network)

    def run() -> None:
        measuring.run(model.load(), session)

    return run


def _interval(value: Value) -> range:
    """The epochs that `start:step:end` stands for."""
    numbers = value.integers()
    if len(numbers) != 3 or numbers[0] < 0 or numbers[1] < 1 or numbers[2] < numbers[0]:
        raise value.fail(f"`{value.key}` requires START:STEP:END, such as 0:2:10")
    start, step, end = numbers
    epochs = range(start, end + 1, step)
    if len(epochs) > MOST_MODELS:
        raise value.fail(f"`{value.key}` may stand for {MOST_MODELS} models at most", "limit")
    return epochs


INTERVAL = Key("crossValidationInterval", "START:STEP:END", "the epochs to measure", _interval)


def plan_cross_validation(scope: Scope, session: Session) -> Run:
    """Check the block of `cv`: the models of some epochs, measured one after the other."""
    epochs, path, sleep = INTERVAL.of(scope), MODEL_PATH.of(scope), SLEEP.of(scope)
    value = scope.require(MODEL_PATH.name)
    measuring = _measuring(scope, session, keep=True)
    candidates = [epoch_path(path, k) for k in epochs] + [path]
    there = [file for file in candidates if session.exists(file)]
    if not there and not session.has_edits:
        raise value.fail(f"there is none of the models {candidates[0]} to {path}", "file")
    known = planned_file(there[0], value, session) if there else None
    if known is not None:
        measuring.nodes(known)

    def run() -> None:
        found: dict[Path, Measured] = {}
        for file in _existing(path, epochs):
            if session.stops():
                return
            if found and sleep > 0:
                time.sleep(sleep)
            session.report.line(f"model {file}")
            found[file] = measuring.run(open_model(file), session)
        if not found:
            raise fail("file", f"there is none of the models {candidates[0]} to {path}")
        for text in best_lines(found):
            session.report.line(text)

    return run


def _existing(path: Path, epochs: range) -> list[Path]:
    """The models of these epochs; the first that is not there stands for the final one, which ends
    the list."""
    files: list[Path] = []
    for epoch in epochs:
        file = epoch_path(path, epoch)
        if not file.is_file():
            return [*files, path] if path.is_file() else files
        files.append(file)
    return files


def best_lines(found: dict[Path, Measured]) -> list[str]:
    """For each node the model that it is lowest with."""
    lines = ["Best models:", "------------"]
    names = list(next(iter(found.values())).averages)
    for i, name in enumerate(names):
        values = {file: measured.averages[name] for file, measured in found.items()}
        finite = {file: value for file, value in values.items() if not math.isnan(value)} or values
        best = min(finite, key=lambda file: finite[file])
        lines.append(
            f"Based on Err[{i}] ({name}): Best model = {best} with min err {finite[best]:.8g}"
        )
    return lines


_KEYS = (MODEL_PATH, MINIBATCH_SIZE, EPOCH_SIZE, EVAL_NODES, SHOW_EVERY)

EVALUATE = Action(
    ("test", "eval"), "measure a model on data", _KEYS, plan_evaluation, (READER,), shared=True
)
CROSS_VALIDATE = Action(
    ("cv",),
    "measure the models of several epochs",
    (*_KEYS, INTERVAL, SLEEP),
    plan_cross_validation,
    (READER,),
    shared=True,
)
