"""The action `write`: outputs of a model for each sample, as text or by a writer.

With `outputPath` there is one file for each node, `<outputPath>.<node>`, as `graphc.data` writes
text; a block `writer` names another kind of file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphc.config.keys import integer, optional, path, text, texts
from graphc.config.lookup import Scope, Value
from graphc.data.reader import EpochRequest
from graphc.data.text_writer import TextWriter
from graphc.data.writer import Writer, WriterOptions
from graphc.data.writer_types import make
from graphc.driver.compile import default_outputs, node_names
from graphc.model.model import Model
from graphc.ops.nodes.layout import node_type
from graphc.toolkit.action import Action, Block, Run, Session
from graphc.toolkit.measuring import computed
from graphc.toolkit.networks import MODEL_PATH, planned_model
from graphc.toolkit.readers import READER, planned_reader

MINIBATCH_SIZE = integer("minibatchSize", "samples that are computed at once", 2048, least=1)
EPOCH_SIZE = integer("epochSize", "samples to write, 0 for all of the data", 0)
OUTPUT_NODES = texts("outputNodeNames", "nodes to write; all output nodes", ())
OUTPUT_PATH = optional(path("outputPath", "the files' names begin so; `.` and a node follow"))
WRITER_TYPE = text("writerType", "the kind of writer")
WRITER = Block("writer", (WRITER_TYPE,), "in place of outputPath: another kind of file")


def plan_write(scope: Scope, session: Session) -> Run:
    """Check the block of `write`."""
    model = planned_model(scope, session)
    wanted = scope.find(OUTPUT_NODES.name)
    output = OUTPUT_PATH.of(scope)
    writer, name = _writer(scope, output, session)
    reader = planned_reader(scope, READER, session, in_order=True, keep=False)
    request = EpochRequest(size=EPOCH_SIZE.of(scope), minibatch=MINIBATCH_SIZE.of(scope))

    def nodes(network: Model) -> list[str]:
        names = _nodes(network, wanted)
        reader.check(network, names)
        return names

    if model.network is not None:
        for node in nodes(model.network):
            session.will_write(Path(f"{name}.{node}"))

    def run() -> None:
        loaded = model.load()
        names = nodes(loaded)
        rows = 0
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
        with writer.open({node: _width(loaded, node) for node in names}) as sink:
            for size, results in computed(loaded, names, reader.reader, request, session.options):
                rows += size
                sink.write({node: np.asarray(results[node]).reshape(size, -1) for node in names})
        session.report.line(f"{rows} samples of {', '.join(names)} written to {name}")

    return run


def _writer(scope: Scope, output: Path | None, session: Session) -> tuple[Writer, str]:
    """The writer, and what messages call its files."""
    if output is not None:
        scope.ask(WRITER.name)
        return TextWriter(output), str(output)
    block = scope.find_section(WRITER.name)
    if block is None:
        raise scope.missing(OUTPUT_PATH.name)
    kind = block.require(WRITER_TYPE.name)
    with kind.blamed():
        options = WriterOptions(np.dtype(session.options.precision.numpy))
        return make(kind.text(), block, options), f"the files of {block.path}"


def _nodes(model: Model, wanted: Value | None) -> list[str]:
    """The nodes to write, as the network spells them."""
    if wanted is None:
        return default_outputs(model)
    with wanted.blamed():
        return node_names(model, wanted.texts())


def _width(model: Model, name: str) -> int:
    op = model.find(name)
    assert op is not None
    return node_type(op).rows or 1


WRITE = Action(
    ("write",),
    "write a model's outputs for each sample",
    (MODEL_PATH, MINIBATCH_SIZE, EPOCH_SIZE, OUTPUT_NODES, OUTPUT_PATH),
    plan_write,
    (READER, WRITER),
)
