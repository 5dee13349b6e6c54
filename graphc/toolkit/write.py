"""The action `write`: outputs of a model for each sample, as text.

One file for each node, `<outputPath>.<node>`: a line for each sample, its numbers in the order of
the rows with six digits, a blank behind each.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np

from graphc.config.keys import integer, path, texts
from graphc.config.lookup import Scope
from graphc.data.reader import EpochRequest
from graphc.driver.compile import default_outputs, node_names
from graphc.model.model import Model
from graphc.support.files import write_atomically
from graphc.toolkit.action import Action, Run, Session
from graphc.toolkit.measuring import computed
from graphc.toolkit.networks import MODEL_PATH, planned_model
from graphc.toolkit.readers import check_columns, planned_reader

MINIBATCH_SIZE = integer("minibatchSize", "samples that are computed at once", 2048, least=1)
EPOCH_SIZE = integer("epochSize", "samples to write, 0 for all of the data", 0)
OUTPUT_NODES = texts("outputNodeNames", "nodes to write; all output nodes", ())
OUTPUT_PATH = path("outputPath", "what the names of the files begin with; `.` and a node follow")


def plan_write(scope: Scope, session: Session) -> Run:
    """Check the block of `write`."""
    model = planned_model(scope, session)
    names = _output_nodes(model.network, scope)
    if scope.find(OUTPUT_PATH.name) is None and scope.find("writer") is not None:
        raise scope.require("writer").fail(
            "a block `writer` is not there yet: name an outputPath", "not-supported"
        )
    output = OUTPUT_PATH.of(scope)
    reader = planned_reader(scope, "reader", session, in_order=True, keep=False)
    check_columns(model.network, names, reader, scope.require("reader"))
    request = EpochRequest(size=EPOCH_SIZE.of(scope), minibatch=MINIBATCH_SIZE.of(scope))
    files = {name: output.with_name(f"{output.name}.{name}") for name in names}
    for file in files.values():
        session.will_write(file)

    def run() -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        loaded = model.load()
        with ExitStack() as stack:
            streams: dict[str, BinaryIO] = {
                name: stack.enter_context(tempfile.TemporaryFile()) for name in names
            }
            rows = 0
            for size, results in computed(loaded, names, reader, request, session.options):
                rows += size
                for name, stream in streams.items():
                    stream.write(as_text(np.asarray(results[name]), size))
            for name, stream in streams.items():
                _put(stream, files[name])
                session.report.line(f"{rows} lines written to {files[name]}")

    return run


def as_text(values: np.ndarray, samples: int) -> bytes:
    """The rows of a minibatch as lines; what has one value for all samples is one line."""
    table = np.asarray(values, np.float64)
    table = table.reshape(samples, -1) if table.ndim else table.reshape(1, 1)
    line = "%g " * table.shape[1] + "\n"
    return "".join(line % tuple(row) for row in table.tolist()).encode()


def _put(stream: BinaryIO, file: Path) -> None:
    """The file with what a temporary one holds, in one step."""
    stream.seek(0)
    write_atomically(file, lambda target: shutil.copyfileobj(stream, target))


def _output_nodes(model: Model, scope: Scope) -> list[str]:
    value = scope.find(OUTPUT_NODES.name)
    if value is None:
        return default_outputs(model)
    with value.blamed():
        return node_names(model, OUTPUT_NODES.of(scope))


WRITE = Action(
    ("write",),
    "write a model's outputs for each sample",
    (MODEL_PATH, MINIBATCH_SIZE, EPOCH_SIZE, OUTPUT_NODES, OUTPUT_PATH),
    plan_write,
)
