"""`graphc opt --list`: the operations, passes and backends of this version, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.ir.core import OpDef

SCHEMA = 1

Row = Mapping[str, object]


def listing(kind: str, *, as_json: bool) -> str:
    """The list called `ops`, `passes` or `backends`."""
    rows = {"ops": op_rows, "passes": pass_rows, "backends": backend_rows}[kind]()
    if as_json:
        return json.dumps({"schema": SCHEMA, kind: rows}, indent=1)
    return aligned([(str(row["name"]), str(row["summary"])) for row in rows])


def op_rows() -> list[Row]:
    """Every operation: name, level, operands, settings, summary; of plug-ins also their origin."""
    from graphc.ops import ALL_OPS
    from graphc.ops.nodes.plugged import plugged_names

    own = [_op_row(op) for op in sorted(ALL_OPS, key=lambda op: op.name)]
    return [*own, *map(_plugged_op_row, plugged_names())]


def _op_row(op: OpDef) -> Row:
    return {
        "name": op.name,
        "level": op.level.value,
        "operands": list(op.operands),
        "settings": [f.name for f in fields(op.params)],
        "summary": op.summary,
    }


def _plugged_op_row(name: str) -> Row:
    from graphc.ops import default_context
    from graphc.ops.nodes.plugged import origin_of
    from graphc.support.diagnostics import GraphcError

    where = origin_of(name)
    try:
        op = default_context().ops[name]
    except GraphcError as error:
        summary = f"broken: {error.diagnostics[0].message}"
        no_use: Row = {"level": "node", "operands": [], "settings": []}
        return {"name": name, **no_use, "summary": summary, "origin": where}
    return {**_op_row(op), "summary": f"{op.summary}, from {where}", "origin": where}


def pass_rows() -> list[Row]:
    """Every pass and named pipeline: name, options, summary; of plug-ins also their origin."""
    from graphc.driver.pipelines import PIPELINES
    from graphc.passes import PASSES
    from graphc.passes.manager import describe_options
    from graphc.passes.plugins import plugged_names

    passes: list[Row] = [
        {"name": name, "options": describe_options(cls), "summary": cls.summary}
        for name, cls in PASSES.items()
    ]
    pipelines = [
        {"name": name, "options": [], "summary": f"stands for {text}"}
        for name, text in PIPELINES.items()
    ]
    return [*passes, *pipelines, *(_plugin_row(name) for name in plugged_names(PASSES))]


def _plugin_row(name: str) -> Row:
    from graphc.passes.manager import describe_options
    from graphc.passes.plugins import origin_of, plugged
    from graphc.support.diagnostics import GraphcError

    where = origin_of(name)
    try:
        cls = plugged(name)
    except GraphcError as error:
        summary = f"broken: {error.diagnostics[0].message}"
        return {"name": name, "options": [], "summary": summary, "origin": where}
    summary = f"{cls.summary}, from {where}"
    return {"name": name, "options": describe_options(cls), "summary": summary, "origin": where}


def backend_rows() -> list[Row]:
    """Every backend: name, what it emits, summary with what its functions lack to be run here."""
    from graphc.backends import BACKENDS
    from graphc.support.diagnostics import BackendUnavailable

    rows: list[Row] = []
    for name, load in BACKENDS.items():
        try:
            backend = load()
        except BackendUnavailable as missing:
            message = missing.diagnostics[0].message
            rows.append({"name": name, "emits": [], "summary": f"not available: {message}"})
        else:
            missing = backend.missing()
            summary = backend.summary + (f" (not run here: {missing})" if missing else "")
            rows.append({"name": name, "emits": list(backend.emit), "summary": summary})
    return rows


def aligned(rows: Iterable[Sequence[str]]) -> str:
    """Two columns, the first as wide as its widest cell."""
    table = list(rows)
    width = max((len(name) for name, _ in table), default=0)
    return "\n".join(f"{name:<{width}}  {text}".rstrip() for name, text in table)
