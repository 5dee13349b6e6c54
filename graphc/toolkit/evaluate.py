"""The actions `test` and `eval`: averages of criteria and evaluation nodes over a data set."""

from __future__ import annotations

from graphc.config.keys import Key, integer, texts
from graphc.config.lookup import Scope
from graphc.data.reader import EpochRequest
from graphc.driver.compile import node_names
from graphc.learn.evaluate import measured_nodes, require_sums
from graphc.model.model import Model
from graphc.toolkit.action import Action, Run, Session
from graphc.toolkit.measuring import Measured, computed, measured, measured_text
from graphc.toolkit.networks import MODEL_PATH, planned_model
from graphc.toolkit.readers import check_columns, planned_reader
from graphc.toolkit.top import TRACE_LEVEL

MINIBATCH_SIZE = integer("minibatchSize", "samples that are computed at once", 40960, least=1)
EPOCH_SIZE = integer("epochSize", "samples to measure, 0 for all of the data", 0)
EVAL_NODES = texts("evalNodeNames", "nodes to measure; all criteria and evaluation nodes", ())
SHOW_EVERY = integer("numMBsToShowResult", "minibatches from one line of the log to the next", 100)


def plan_evaluation(scope: Scope, session: Session) -> Run:
    """Check the block of `test` or `eval`."""
    model = planned_model(scope, session)
    names = wanted_nodes(model.network, scope)
    reader = planned_reader(scope, "reader", session, in_order=True, keep=False)
    check_columns(model.network, names, reader, scope.require("reader"))
    request = EpochRequest(size=EPOCH_SIZE.of(scope), minibatch=MINIBATCH_SIZE.of(scope))
    every = SHOW_EVERY.of(scope) if TRACE_LEVEL.of(scope) > 0 else 0

    def run() -> None:
        loaded = model.load()

        def show(found: Measured) -> None:
            session.report.line(measured_text(found, loaded))

        minibatches = computed(loaded, names, reader, request, session.options)
        found = measured(minibatches, names, every, show)
        session.report.line(measured_text(found, loaded, is_final=True))

    return run


def wanted_nodes(model: Model, scope: Scope, key: Key[tuple[str, ...]] = EVAL_NODES) -> list[str]:
    """The nodes to measure, as the network spells them; each is a sum over the samples."""
    value = scope.find(key.name)
    if value is None:
        names = measured_nodes(model)
        require_sums(model, names)
        return names
    with value.blamed():
        names = node_names(model, key.of(scope))
        require_sums(model, names)
        return names


EVALUATE = Action(
    ("test", "eval"),
    "measure a model on data",
    (MODEL_PATH, MINIBATCH_SIZE, EPOCH_SIZE, EVAL_NODES, SHOW_EVERY),
    plan_evaluation,
)
