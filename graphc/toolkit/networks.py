"""Networks out of builder blocks, and model files that are there or will be."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from graphc import api
from graphc.config.keys import Key, integer, optional, path, texts
from graphc.config.lookup import Scope, Value
from graphc.config.records import VARIABLE
from graphc.config.text import joined
from graphc.driver.prepare import infer
from graphc.frontend import frontend_for, network_class, simple_networks
from graphc.model.model import Model
from graphc.support.diagnostics import fail, warn
from graphc.support.files import read_text
from graphc.toolkit.action import Block, Session
from graphc.toolkit.values import path_list

MODEL_PATH = path("modelPath", "the model file")

NETWORK_DESCRIPTION = optional(path("networkDescription", "file of the network in NDL"))
RUN = texts("run", "sections to run: of that file, or without a file of the configuration", ())
LOAD = texts("load", "sections to read before, likewise", ())
NDL_MACROS = path_list("ndlMacros", "files of macros, read before the network")
RANDOM_SEED_OFFSET = integer("randomSeedOffset", "added to the seed of the initial values", 0)

NDL_BUILDER = Block(
    "NDLNetworkBuilder",
    (NETWORK_DESCRIPTION, RUN, LOAD, NDL_MACROS, RANDOM_SEED_OFFSET),
    "a network written in NDL",
)
SIMPLE_BUILDER = Block(
    "SimpleNetworkBuilder", (RANDOM_SEED_OFFSET,), "a predefined network (docs/simple-networks.md)"
)


@dataclass(frozen=True, slots=True)
class _Source:
    """One text in NDL: its name for messages, and what it says."""

    name: str
    text: str


def build_network(scope: Scope) -> Model:
    """The network that a command's builder block describes. GraphcError with every mistake."""
    ndl = scope.find_section(NDL_BUILDER.name)
    if ndl is not None:
        model = _ndl_network(ndl)
    else:
        simple = scope.find_section(SIMPLE_BUILDER.name)
        if simple is None:
            raise scope.missing(NDL_BUILDER.name)
        model = _simple_network(simple)
    infer(model)
    return model


def _simple_network(block: Scope) -> Model:
    """One of the predefined networks; the front end that has them says what their keys are."""
    predefined = simple_networks()
    options: dict[str, object] = {}
    for name, key in predefined.SIMPLE_KEYS.items():
        value = block.require(name) if key.required else block.find(name)
        if value is not None and key.option is not None:
            options[key.option] = _READ[key.kind](value)
    options["seed"] = RANDOM_SEED_OFFSET.of(block)
    with block.blamed():
        return predefined.simple_network(**options).model


_READ: Mapping[str, Callable[[Value], object]] = MappingProxyType(
    {
        "integers": Value.integers,
        "words": Value.texts,
        "word": Value.text,
        "number": Value.number,
        "integer": Value.integer,
        "flag": Value.truth,
    }
)


def _ndl_network(block: Scope) -> Model:
    block.ask(*(key.name for key in NDL_BUILDER.keys), "deviceId", "dumpFileName")
    macros = [_file_source(p, block.require(NDL_MACROS.name)) for p in NDL_MACROS.of(block)]
    description = NETWORK_DESCRIPTION.of(block)
    run, load = RUN.of(block), LOAD.of(block)
    defines: dict[str, object] = {}
    if description is not None:
        main = _file_source(description, block.require(NETWORK_DESCRIPTION.name))
        if run:
            defines["run"] = ":".join(run)
        if load:
            defines["load"] = ":".join(load)
    else:
        block.require(RUN.name)
        macros += [_section_source(block, name) for name in load]
        sections = [_section_source(block, name) for name in run]
        *before, main = sections
        macros += before
    for source in (*macros, main):
        defines |= _variables(block, source)
    builder = network_class()(Model(folder=Path(), seed=RANDOM_SEED_OFFSET.of(block)))
    given = [(source.name, source.text) for source in macros]
    frontend_for("ndl").load(builder, main.text, file=main.name, macros=given, defines=defines)
    builder.sink.raise_if_errors()
    warn(builder.sink.diagnostics)
    return builder.model


def _file_source(file: Path, value: Value) -> _Source:
    with value.blamed():
        return _Source(str(file), read_text(file))


def _section_source(block: Scope, name: str) -> _Source:
    """NDL between brackets of the configuration. What precedes it in its file is blanked out, so
    that places in the text are places in the file."""
    value = block.require(name)
    parts = value.entry.parts
    if any(not part.chars.startswith("[") for part in parts):
        raise value.fail(f"`{name}` requires a section in NDL between brackets")
    body = joined([part.part(1, len(part.chars) - 1) for part in parts], "\n")
    piece = body.pieces[0]
    if len(body.pieces) > 1:
        return _Source(f"{name} of {piece.source.name}", body.chars)
    before = re.sub(r"[^\n]", " ", piece.source.text[: piece.origin])
    return _Source(piece.source.name, before + body.chars)


def _variables(block: Scope, source: _Source) -> dict[str, object]:
    """The values of the `$name$` in a text, as they are found from the builder's block."""
    found: dict[str, object] = {}
    for match in VARIABLE.finditer(source.text):
        value = block.find(match[1])
        if value is not None:  # the front end says which one has none, at its place
            found[match[1]] = value.text()
    return found


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model file. `network`: as it is now or as an earlier command will write it, None where that
    does not show. What is computed with it is read when the command runs."""

    path: Path
    network: Model | None

    def load(self) -> Model:
        return open_model(self.path)


def open_model(path: Path) -> Model:
    """The network in a model file, whatever it is called. GraphcError `file` if there is none."""
    if not path.is_file():
        raise fail("file", f"there is no model file {path}")
    model = api.load(path).model
    infer(model)
    return model


def planned_model(scope: Scope, session: Session, key: Key[Path] = MODEL_PATH) -> PlannedModel:
    """The model file of a command. GraphcError `file` if there is none and no earlier command
    writes one."""
    path = key.of(scope)
    return PlannedModel(path, planned_file(path, scope.require(key.name), session))


def planned_file(path: Path, value: Value, session: Session) -> Model | None:
    """The network of a model file, as far as it is known before anything runs."""
    planned = session.models.get(path.absolute())
    if planned is not None or (session.has_edits and not path.exists()):
        return planned
    with value.blamed():
        return open_model(path)
