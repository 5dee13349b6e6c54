"""A function of the IR as a networkx graph: operations are its nodes, values its edges.

What people ask of a graph (paths, components, layouts, other file formats) is written already; this
is the way there. `docs/graphs.md` lists the attributes. Nothing in the compiler reads these graphs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from graphc.ir.core import Block, Function, Level, Operation, RegionKind, Value
from graphc.ir.params import Params, print_value
from graphc.ir.printer import value_names
from graphc.ir.traversal import walk
from graphc.ir.types import MatrixType, TensorType
from graphc.ops.nodes.layout import display_name, node_params

if TYPE_CHECKING:
    import networkx as nx

PLAIN = (bool, int, float, str, type(None))


def function_graph(function: Function) -> nx.MultiDiGraph[str]:
    """The graph of a function; the body of an operation is a graph of its own, in `body`.

    Nodes are named as the IR text names their first result, without `%`; an operation without
    results by its kind.
    """
    import networkx as nx  # 0.2 s that most calls of graphc do without (docs/decisions/002)

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(
        name=function.name,
        stage="nodes" if function.kind is RegionKind.GRAPH else _stage(function.block),
        dims=_bounds(function),
        arena=function.arena,
        results=[r.name for r in function.results],
    )
    names = node_keys(function)
    roles = dict(zip(function.arguments, function.roles, strict=True))
    _fill(graph, function.block, names, roles)
    return graph


def node_keys(function: Function) -> dict[Value, str]:
    """What the text calls each value, without `%`, and without quotes where that stays unique."""
    printed = {v: name.removeprefix("%") for v, name in value_names(function).items()}
    taken = set(printed.values())
    keys: dict[Value, str] = {}
    for value, text in printed.items():
        bare = value.name or ""
        keys[value] = bare if text.startswith('"') and bare not in taken else text
        taken.add(keys[value])
    return keys


def _bounds(function: Function) -> dict[str, int]:
    """Name and bound of every dim of the function."""
    values = [*function.arguments, *(v for op in walk(function) for v in op.results)]
    types = [v.type for v in values if isinstance(v.type, TensorType)]
    return {dim.name: dim.bound for type in types for dim in type.symbols()}


def _stage(block: Block) -> str:
    kernels = any(op.opdef.level is Level.KERNEL or op.placement for op in block)
    return "kernels" if kernels else "tensor"


def _fill(
    graph: nx.MultiDiGraph[str],
    block: Block,
    names: Mapping[Value, str],
    roles: Mapping[Value, str],
) -> None:
    """Add the arguments and operations of a block, then what reads what."""
    import networkx as nx

    makers: dict[Value, str] = {}
    for argument in block.arguments:
        makers[argument] = names[argument]
        role = roles.get(argument)
        types = (str(argument.type),)
        attributes = {"op": "argument", "name": argument.name, "role": role, "types": types}
        graph.add_node(names[argument], **attributes)
    keys: dict[Operation, str] = {}
    for op in block:
        keys[op] = names[op.results[0]] if op.results else _free(op.opdef.name, graph)
        makers.update(dict.fromkeys(op.results, keys[op]))
        graph.add_node(keys[op], **_attributes(op))
        if op.regions:
            body: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=keys[op], stage=graph.graph["stage"])
            for region in op.regions:
                for inner in region.blocks:
                    _fill(body, inner, names, {})
            graph.nodes[keys[op]]["body"] = body
    for op in block:
        for index, value in enumerate(op.operands):
            graph.add_edge(
                makers[value],
                keys[op],
                operand=index,
                operand_name=op.opdef.operand_name(index),
                result=value.index if value.op is not None else 0,
                type=str(value.type),
            )


def _free(name: str, graph: nx.MultiDiGraph[str]) -> str:
    """`name`, with as many underscores behind it as make it new."""
    while name in graph:
        name += "_"
    return name


def _attributes(op: Operation) -> dict[str, object]:
    shared = {
        "params": _settings(op.params),
        "types": tuple(str(v.type) for v in op.results),
        "location": str(op.location) if op.location.is_known else None,
    }
    if op.opdef.level is Level.NODE:
        return {**_node_attributes(op), **shared}
    return {
        "op": op.opdef.name,
        "name": op.results[0].name if op.results else None,
        "level": op.opdef.level.value,
        "schedule": _settings(op.schedule),
        "placement": tuple(map(str, op.placement)),
        "workspace": tuple(map(str, op.workspace)),
        **shared,
    }


def _node_attributes(op: Operation) -> dict[str, object]:
    type = op.result.type
    rows, cols = type.size if isinstance(type, MatrixType) else (None, None)
    return {
        "op": display_name(op.opdef),
        "name": op.result.name,
        "tags": node_params(op).tags,
        "rows": rows,
        "cols": cols if isinstance(cols, int | None) else str(cols),
    }


def _settings(params: Params) -> dict[str, object]:
    """Every field, defaults too: numbers, texts, truth values, None and tuples of these."""
    return {f.name: _plain(getattr(params, f.name)) for f in fields(params) if f.name != "tags"}


def _plain(value: object) -> object:
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, tuple | list):
        return tuple(_plain(v) for v in value)
    return print_value(value).strip('"')
