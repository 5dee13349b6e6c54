"""Edits of a network: nodes copied, renamed and taken out, inputs set anew, properties changed.

Every edit is checked before it changes anything. An input can be left without a node for a while
(`Model.unset`): then its node reads itself there, and the network is refused by whoever wants to
compute or save it. Sizes are not looked at here. `GraphBuilder.edited` makes of any number of edits
one that happens as a whole, infers sizes again and puts the old network back after an error.

The meaning is that of the toolkit's model editor (book 4.2.2): copies have no tags, and copying
over a node leaves the tags that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

from graphc.ir.clone import clone_shallow
from graphc.ir.core import Operation, Value
from graphc.ir.types import MatrixType
from graphc.model.container import MAX_NAME_BYTES
from graphc.model.model import Model
from graphc.model.patterns import by_name
from graphc.ops.nodes.layout import TAGS, NodeParams, display_name, node_params
from graphc.ops.nodes.leaves import ConstantParams, ParameterParams
from graphc.ops.nodes.normalisation import BatchNormalizationParams
from graphc.ops.nodes.statistics import StatisticParams
from graphc.support.diagnostics import GraphcError, fail, suggestion
from graphc.support.graphs import reachable
from graphc.support.source import UNKNOWN, Location

MAX_NODES = 100_000
"""Of a network that is edited: copies of copies would fill any memory."""

Outside = Literal["keep", "unset"]
"""What copies read where the originals read what is not copied: the same, or nothing yet."""

Pairs = Sequence[tuple[Operation, str]]
"""Nodes, each with the name that it or its copy is to have."""


# ---------------------------------------------------------------- copies


def copy_nodes(
    source: Model, target: Model, pairs: Pairs, *, outside: Outside, where: Location = UNKNOWN
) -> list[Operation]:
    """Copy nodes with their settings and values; copies of nodes that read each other do so too.

    A node of `target` that has the new name is overwritten if it is of the same kind: it keeps its
    tags and whoever reads it. `outside` "keep" needs one network. GraphcError `duplicate-name` for
    two copies of one name or a copy of a node onto itself, `argument-type` for another kind.
    """
    old = _check_copies(source, target, pairs, where)
    copies: dict[Value, Value] = {}
    made: list[Operation] = []
    for op, name in pairs:
        place = old.get(name.lower())
        copy = _fresh_copy(op, name, target, where) if place is None else place
        if place is not None:
            tags = node_params(place).tags
            copy.params = _with_tags(node_params(op), tags)
            copy.result.type = op.result.type
        copies[op.result] = copy.result
        made.append(copy)
    for (op, _), copy in zip(pairs, made, strict=True):
        _link_copy(source, target, op, copy, copies, outside)
    _copy_held(source, target, [(op, copy) for (op, _), copy in zip(pairs, made, strict=True)])
    return made


def copy_values(source: Model, target: Model, pairs: Pairs, where: Location = UNKNOWN) -> None:
    """Give existing nodes the values, and so the sizes, of others; links and settings stay.

    GraphcError `missing-node` where no node has the name, `argument-type` where it is of another
    kind.
    """
    old = by_name(target.graph.block)
    taken: list[tuple[Operation, Operation]] = []
    for op, name in pairs:
        place = old.get(name.lower())
        if place is None:
            message = f"a copy of values requires the node `{name}`, which the network has not"
            raise fail("missing-node", message, where)
        _check_kind(op, place, where)
        if place is op:
            raise _onto_itself(op, where)
        if isinstance(op.params, ParameterParams) and op.result.name not in source.values:
            message = f"`{op.result.name}` has no value yet: its size does not follow from anything"
            raise fail("missing-node", message, where)
        taken.append((op, place))
    for op, place in taken:
        if isinstance(op.params, ConstantParams):
            place.params = _with_tags(op.params, node_params(place).tags)
            place.result.type = op.result.type
        if isinstance(op.params, ParameterParams) and isinstance(place.params, ParameterParams):
            sizes = op.params
            place.params = replace(
                place.params,
                rows=sizes.rows,
                cols=sizes.cols,
                width=sizes.width,
                height=sizes.height,
                channels=sizes.channels,
            )
            place.result.type = op.result.type
    _copy_held(source, target, taken)


def below(roots: Iterable[Operation]) -> list[Operation]:
    """The nodes and all that they are computed from, in the order of the network."""
    found = reachable(roots, lambda op: [v.op for v in op.operands if v.op is not None])
    members = set(found)
    block = next((op.block for op in found), None)
    return [op for op in block or () if op in members]


def _check_copies(
    source: Model, target: Model, pairs: Pairs, where: Location
) -> Mapping[str, Operation]:
    """The nodes of the target by name, after a look at what the copies are to be called."""
    old = by_name(target.graph.block)
    taken: dict[str, Operation] = {}
    for op, name in pairs:
        check_name(name, where)
        first = taken.setdefault(name.lower(), op)
        if first is not op:
            message = f"`{first.result.name}` and `{op.result.name}` cannot both be `{name}`"
            raise fail("duplicate-name", message, where)
        place = old.get(name.lower())
        if place is op:
            raise _onto_itself(op, where)
        if place is not None:
            _check_kind(op, place, where)
    copied = {op for op, _ in pairs}
    for op, name in pairs if source is target else ():
        if old.get(name.lower()) in copied:
            message = f"`{name}` is copied itself, so `{op.result.name}` cannot be copied over it"
            raise fail("duplicate-name", message, where)
    fresh = sum(name not in old for name in taken)
    if len(old) + fresh > MAX_NODES:
        message = f"a network that is edited has at most {MAX_NODES} nodes, this makes it more"
        raise fail("limit", message, where)
    return old


def _check_kind(op: Operation, place: Operation, where: Location) -> None:
    if op.opdef is not place.opdef:
        message = (
            f"`{op.result.name}` is a {display_name(op.opdef)} and cannot be copied over "
            f"`{place.result.name}`, a {display_name(place.opdef)}"
        )
        raise fail("argument-type", message, where)


def _onto_itself(op: Operation, where: Location) -> GraphcError:
    return fail("duplicate-name", f"`{op.result.name}` cannot be copied onto itself", where)


def _fresh_copy(op: Operation, name: str, target: Model, where: Location) -> Operation:
    """A node like this one at the end of the target, without operands and tags."""
    copy = clone_shallow(op)
    copy.params = _with_tags(node_params(op), ())
    copy.result.name = name
    copy.location = where if where.is_known else op.location
    return target.graph.block.append(copy)


def _link_copy(
    source: Model,
    target: Model,
    op: Operation,
    copy: Operation,
    copies: Mapping[Value, Value],
    outside: Outside,
) -> None:
    """Let a copy read the copies of what the original reads, and else what `outside` says."""
    operands: list[Value] = []
    unset: list[int] = []
    for index, value in enumerate(op.operands):
        is_waiting = (op, index) in source.unset
        if value in copies and not is_waiting:
            operands.append(copies[value])
        elif outside == "keep" and not is_waiting:
            operands.append(value)
        else:
            operands.append(copy.result)
            unset.append(index)
    copy.set_operands(operands)
    _forget_unset(target, copy)
    target.unset.update((copy, index) for index in unset)


def _copy_held(source: Model, target: Model, pairs: Iterable[tuple[Operation, Operation]]) -> None:
    """Copies of what nodes hold; one that holds nothing yet is drawn anew where it is copied to."""
    values: dict[str, np.ndarray] = {}
    dropped: list[str] = []
    for op, copy in pairs:
        name, new = op.result.name or "", copy.result.name or ""
        if name in source.values:
            values[new] = np.array(source.exactly(name))
        elif new in target.values:
            dropped.append(new)
        if isinstance(op.params, StatisticParams) and isinstance(copy.params, StatisticParams):
            copy.params = replace(copy.params, computed=op.params.computed)
    target.drop_values(dropped)
    target.replace_values(values)


# ---------------------------------------------------------------- names and removal


def check_name(name: str, where: Location) -> None:
    """GraphcError `bad-value` unless a node can be called so."""
    if not name.strip():
        raise fail("bad-value", "a name of at least one character is required", where)
    if not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
        message = f"a node's name is printable and has at most {MAX_NAME_BYTES} bytes"
        raise fail("bad-value", f"{message}, got {name[:40]!r}", where)


def rename_nodes(model: Model, pairs: Pairs, where: Location = UNKNOWN) -> None:
    """Give nodes other names, which no other node may have; their values go with them."""
    renamed = {op for op, _ in pairs}
    taken = by_name(op for op in model.graph.block if op not in renamed)
    for op, name in pairs:
        check_name(name, where)
        other = taken.setdefault(name.lower(), op)
        if other is not op:
            message = f"the name `{name}` for `{op.result.name}` is taken by another node"
            raise fail("duplicate-name", message, where)
    model.rename_values({op.result.name or "": name for op, name in pairs})
    for op, name in pairs:
        op.result.name = name


def remove_nodes(model: Model, nodes: Sequence[Operation]) -> None:
    """Take nodes out; the inputs of others that read them wait for a node."""
    gone = dict.fromkeys(nodes)
    for op in gone:
        for reader, index in op.result.uses:
            if reader not in gone:
                reader.set_operand(index, reader.result)
                model.unset.add((reader, index))
    for op in gone:
        _forget_unset(model, op)
        op.drop_references()
    model.drop_values({op.result.name or "" for op in gone})
    for op in gone:
        op.erase()


def readers_outside(nodes: Sequence[Operation]) -> list[tuple[Operation, Operation]]:
    """(node, reader) for each of these nodes that one that is not among them reads."""
    gone = set(nodes)
    return [(op, r) for op in nodes for r in op.result.users() if r not in gone]


# ---------------------------------------------------------------- inputs


def set_input(
    model: Model, op: Operation, index: int, source: Operation, where: Location = UNKNOWN
) -> None:
    """Let a node read `source` as its input `index`, counted from 0."""
    count = len(op.operands)
    if not 0 <= index < count:
        message = f"`{op.result.name}`, a {display_name(op.opdef)}, has {count} inputs"
        raise fail("bad-value", f"{message}, counted from 0, got {index}", where)
    op.set_operand(index, source.result)
    model.unset.discard((op, index))


def set_inputs(
    model: Model, op: Operation, sources: Sequence[Operation], where: Location = UNKNOWN
) -> None:
    """Let a node read these nodes, as many as it takes."""
    _check_count(op, len(sources), where)
    op.set_operands(s.result for s in sources)
    _forget_unset(model, op)


def copy_inputs(model: Model, source: Operation, op: Operation, where: Location = UNKNOWN) -> None:
    """Let a node read what `source` reads, which takes as many inputs."""
    _check_count(op, len(source.operands), where)
    op.set_operands([op.result if (source, i) in model.unset else v for i, v in _operands(source)])
    _forget_unset(model, op)
    model.unset.update((op, i) for i, _ in _operands(source) if (source, i) in model.unset)


def _operands(op: Operation) -> list[tuple[int, Value]]:
    return [*enumerate(op.operands)]


def _check_count(op: Operation, given: int, where: Location) -> None:
    if not op.opdef.accepts_count(given):
        takes = ", ".join(op.opdef.operands) or "none"
        message = f"`{op.result.name}`, a {display_name(op.opdef)}, takes the inputs {takes}"
        raise fail("argument-count", f"{message}; got {given}", where)


def _forget_unset(model: Model, op: Operation) -> None:
    model.unset -= {(op, index) for index in range(len(op.operands))}


def missing_input(op: Operation, index: int) -> str:
    """The message for an input that no node was given for."""
    what = f"{display_name(op.opdef)} `{op.result.name}`"
    return f"{what} has no node as its input {index} ({op.opdef.operand_name(index)})"


# ---------------------------------------------------------------- properties


@dataclass(frozen=True)
class Property:
    """What can be set of nodes: `tag` is in the node's tags, or `setting` in its settings."""

    names: tuple[str, ...]
    tag: str = ""
    setting: Literal["", "need_gradient", "eval_mode"] = ""
    of_subtree: bool = False


PROPERTIES = (
    Property(("ComputeGradient", "NeedsGradient"), setting="need_gradient", of_subtree=True),
    Property(("Feature",), tag="feature"),
    Property(("Label",), tag="label"),
    Property(("FinalCriterion", "Criteria", "Criterion"), tag="criterion"),
    Property(("MultiSeq", "ReqMultiSeqHandling"), tag="multiseq"),
    Property(("Evaluation", "Eval"), tag="evaluation"),
    Property(("Output",), tag="output"),
    Property(("BatchNormEvalMode",), setting="eval_mode", of_subtree=True),
    Property(("Recurrent",)),  # of the toolkit: it finds loops by itself, and so does graphc
)

HOLDERS: Mapping[str, tuple[type[NodeParams], str]] = MappingProxyType(
    {
        "need_gradient": (ParameterParams, "parameters"),
        "eval_mode": (BatchNormalizationParams, "BatchNormalization nodes"),
    }
)
"""Whose settings they are."""


def property_named(text: str, where: Location = UNKNOWN, *, subtree: bool = False) -> Property:
    """The property that a name means: any case and underscores, or the first half of a name."""
    key = text.replace("_", "").lower()
    rows = [row for row in PROPERTIES if row.of_subtree or not subtree]
    for row in rows:
        if key in [name.lower() for name in row.names]:
            return row
    started = [row for row in rows if any(is_abbreviation(key, name) for name in row.names)]
    if len(started) == 1:
        return started[0]
    names = [name for row in rows for name in row.names]
    if started:
        possible = ", ".join(row.names[0] for row in started)
        raise fail("bad-option", f"the property `{text}` may be {possible}", where)
    near = suggestion(text, names)
    message = f"a property is one of {', '.join(names)}, got `{text[:80]}`{near}"
    raise fail("bad-option", message, where)


def is_abbreviation(text: str, name: str) -> bool:
    """Whether a text is the start of a name, at least half of it (the toolkit's rule)."""
    return 2 * len(text) >= len(name) and name.lower().startswith(text.lower())


def holders(nodes: Iterable[Operation], row: Property) -> list[Operation]:
    """The nodes among these that have a property."""
    if not row.setting:
        return [*nodes]
    kind, _ = HOLDERS[row.setting]
    return [op for op in nodes if isinstance(op.params, kind)]


def set_property(model: Model, nodes: Iterable[Operation], row: Property, value: bool) -> None:
    """Set a property of those of the nodes that have it."""
    for op in holders(nodes, row):
        params = op.params
        if isinstance(params, ParameterParams) and row.setting:
            op.params = replace(params, need_gradient=value)
        elif isinstance(params, BatchNormalizationParams) and row.setting:
            op.params = replace(params, eval_mode=value)
        elif row.tag:
            set_tag(model, op, row.tag, value)


def set_tag(model: Model, op: Operation, tag: str, value: bool) -> None:
    """Give a node one of `TAGS` or take it away."""
    params = node_params(op)
    if (tag in params.tags) == value:
        return
    if value:
        _keep_order(model, op, tag)
    op.params = _with_tags(params, [t for t in TAGS if (t in params.tags) != (t == tag)])


def _with_tags(params: NodeParams, tags: Sequence[str]) -> NodeParams:
    # Every subclass of NodeParams is a dataclass; the base is none, so that `tags` is last.
    return replace(params, tags=tuple(tags))  # type: ignore[type-var]


def _keep_order(model: Model, operation: Operation, tag: str) -> None:
    """Let nodes with a tag stand in the order in which they got it: the first criterion is the
    one that is trained. A graph has no other order, so a node may move to its end."""
    after = operation.next
    while after is not None:
        if tag in node_params(after).tags:
            model.graph.block.append(model.graph.block.unlink(operation))
            return
        after = after.next


# ---------------------------------------------------------------- sizes


def forget_sizes(model: Model) -> None:
    """Let every size that follows from other nodes be inferred again."""
    model.has_old_sizes = False
    for op in model.graph.block:
        if op.operands:
            op.result.type = MatrixType(None, None)
