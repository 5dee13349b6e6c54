"""The actions on models alone: `dumpnode`, `SVD`, `convertdbn`."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

from graphc.config.keys import number, optional, path, text, truth
from graphc.config.lookup import Scope, Value
from graphc.driver.prepare import draw
from graphc.ir.core import Operation
from graphc.model.factorise import factorise
from graphc.model.listing import listing
from graphc.model.model import Model
from graphc.model.patterns import matching
from graphc.ops.nodes.leaves import PARAMETER
from graphc.support.diagnostics import fail
from graphc.support.files import read_text, write_atomically
from graphc.toolkit.action import Action, Run, Session
from graphc.toolkit.networks import MODEL_PATH, open_model, planned_model

ALL_NODES = "__AllNodes__"
MAX_PATTERN = 1000  # characters

NODE_NAME = text("nodeName", f"the node, a pattern with `*`, or {ALL_NODES}", ALL_NODES)
OUTPUT_FILE = optional(path("outputFile", "what to write; `<modelPath>.<nodeName>.txt`"))
PRINT_VALUES = truth("printValues", "with the values of parameters", True)

OUTPUT_MODEL = path("outputmodelPath", "the model to write")
KEEP_RATIO = number("KeepRatio", "share of the sum of singular values to keep", 0.4)
NODE_REGEX = optional(text("NodeNameRegex", "which parameters, by a regular expression"))
DBN_PATH = path("dbnModelPath", "the DBN file to read")
SVD_CONFIG = optional(path("SVDConfig", "a file of lines: a regular expression and a KeepRatio"))


def plan_dump(scope: Scope, session: Session) -> Run:
    """Check the block of `dumpnode`."""
    model = planned_model(scope, session)
    wanted = scope.find(NODE_NAME.name)
    name, with_values = NODE_NAME.of(scope), PRINT_VALUES.of(scope)
    file = OUTPUT_FILE.of(scope) or model.path.with_name(f"{model.path.name}.{name}.txt")
    if model.network is not None:
        _nodes(model.network, name, wanted)
    session.will_write(file)

    def run() -> None:
        loaded = model.load()
        lines = listing(loaded, _nodes(loaded, name, wanted), include_values=with_values)
        stream = io.StringIO()
        stream.writelines(lines)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, stream.getvalue().encode())
        session.report.line(f"written to {file}")

    return run


def _nodes(model: Model, name: str, value: Value | None) -> Sequence[Operation]:
    """The nodes to list."""
    if name.lower() == ALL_NODES.lower() or value is None:
        return list(model.graph.block)
    with value.blamed():
        return matching(model, name)


def plan_svd(scope: Scope, session: Session) -> Run:
    """Check the block of `SVD`."""
    model = planned_model(scope, session)
    output = OUTPUT_MODEL.of(scope)
    rules = _rules(scope)
    if model.network is not None:
        _chosen(model.network, rules)
        session.will_write(output, model.network)
    else:
        session.has_edits = True

    def run() -> None:
        loaded = model.load()
        for ratio, nodes in _chosen(loaded, rules):
            for done in factorise(loaded, nodes, ratio):
                session.report.line(
                    f"{done.name} [{done.rows}, {done.cols}]: rank {done.rank} kept"
                )
        output.parent.mkdir(parents=True, exist_ok=True)
        loaded.save(output)
        session.report.line(f"written to {output}")

    return run


def plan_conversion(scope: Scope, session: Session) -> Run:
    """Check the block of `convertdbn`."""
    source, output = DBN_PATH.of(scope), MODEL_PATH.of(scope)
    with scope.require(DBN_PATH.name).blamed():
        session.will_write(output, open_model(source))

    def run() -> None:
        output.parent.mkdir(parents=True, exist_ok=True)
        model = open_model(source)
        draw(model)  # a pretrained stack has an output layer that nobody has trained
        model.save(output)
        session.report.line(f"written to {output}")

    return run


Rule = tuple["re.Pattern[str]", float]


def _rules(scope: Scope) -> list[Rule]:
    """Which parameters keep how much."""
    file = SVD_CONFIG.of(scope)
    ratio = KEEP_RATIO.of(scope)
    if file is not None:
        with scope.require(SVD_CONFIG.name).blamed():
            lines = [line.split() for line in read_text(file).splitlines() if line.strip()]
            return [_rule(words, ratio) for words in lines]
    value = scope.find(NODE_REGEX.name)
    if value is None:
        return [(re.compile(".*"), ratio)]
    with value.blamed():
        return [_rule([value.text()], ratio)]


def _rule(words: Sequence[str], ratio: float) -> Rule:
    if len(words) > 2:
        raise fail("parse", f"a regular expression and a KeepRatio are required, got {words}")
    try:
        pattern = re.compile(words[0][:MAX_PATTERN])
        return pattern, float(words[1]) if len(words) == 2 else ratio
    except (re.error, ValueError) as error:
        raise fail("parse", f"`{' '.join(words)}`: {error}") from None


def _chosen(model: Model, rules: Sequence[Rule]) -> list[tuple[float, list[Operation]]]:
    """The parameters that each rule is for; the first that fits counts. GraphcError if none is."""
    chosen: list[tuple[float, list[Operation]]] = [(ratio, []) for _, ratio in rules]
    for op in model.graph.block:
        name = op.result.name or ""
        if op.opdef is not PARAMETER:
            continue
        for (pattern, _), (_, nodes) in zip(rules, chosen, strict=True):
            if pattern.fullmatch(name):
                nodes.append(op)
                break
    found = [(ratio, nodes) for ratio, nodes in chosen if nodes]
    if not found:
        raise fail("missing-node", "no parameter has a name that the expressions match")
    return found


DUMP = Action(
    ("dumpnode",),
    "write nodes of a model as text",
    (MODEL_PATH, NODE_NAME, OUTPUT_FILE, PRINT_VALUES),
    plan_dump,
)
SVD = Action(
    ("SVD",),
    "put products of smaller matrices in place of large ones",
    (MODEL_PATH, OUTPUT_MODEL, KEEP_RATIO, NODE_REGEX, SVD_CONFIG),
    plan_svd,
)
CONVERT = Action(
    ("convertdbn",), "make a model of a DBN file", (DBN_PATH, MODEL_PATH), plan_conversion
)
