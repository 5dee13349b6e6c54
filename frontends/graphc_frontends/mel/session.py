"""Carries the steps of a plan out: the models that there are, and what each command does to them.

Every command is one edit: after an error in it the script ends there. Networks that were given by
the caller are then as they were, and files are only written by a script that succeeds (`Outbox`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from graphc.support.diagnostics import Diagnostic, GraphcError, Severity, fail
from graphc.support.source import Location, Span
from graphc_frontends.mel.outbox import Outbox
from graphc_frontends.mel.plan import (
    ALL,
    CommandStep,
    InlineStep,
    ModelStep,
    Plan,
    Reference,
    Step,
)
from graphc_frontends.ndl.ast import Block
from graphc_frontends.ndl.expand import expand
from graphc_frontends.ndl.inline import InlineScript
from graphc_frontends.ndl.scopes import Value

if TYPE_CHECKING:
    from graphc.builder import Editor, GraphBuilder, Workshop


class Session:
    """The models of a script while it is carried out; `written` are the files, at the end."""

    def __init__(self, plan: Plan, workshop: Workshop, variables: Mapping[str, Value]) -> None:
        self.plan = plan
        self.workshop = workshop
        self.variables = variables
        self.networks: dict[int, GraphBuilder] = dict(enumerate(workshop.models.values()))
        self._edits = ExitStack()
        self.warnings: list[Diagnostic] = []
        self.written: list[Path] = []
        self._inline: dict[int, InlineScript] = {}

    def run(self) -> dict[str, GraphBuilder]:
        """Carry all steps out; the models at the end, by name.

        Files are put into their places when nothing can be wrong any more with the networks; if
        that fails, networks that were given are put back.
        """
        given = [*dict.fromkeys(self.workshop.models.values())]
        with ExitStack() as kept:
            for network in given:
                kept.enter_context(network.kept_on_error())
            self.outbox = Outbox(kept)
            with self._edits:
                for network in given:
                    self._edits.enter_context(network.edited())
                for step in self.plan.steps:
                    with _placed(step.span):
                        self._step(step)
                for number in self._inline:
                    self.finish(number)
            self.written = self.outbox.send()
        return {name: self.networks[number] for name, number in self.plan.names.items()}

    def _step(self, step: Step) -> None:
        match step:
            case CommandStep():
                ACTIONS[step.command.names[0]](self, step)
            case InlineStep():
                self._run_inline(step)
            case ModelStep():
                self.build(self.add(step.makes, self.workshop.new()), step.block)

    def add(self, number: int, network: GraphBuilder) -> GraphBuilder:
        """A model of the script. All edits of it are one, so that sizes are inferred at the end."""
        self._edits.enter_context(network.edited(complete=False))
        self.networks[number] = network
        return network

    # ---- NDL ------------------------------------------------------------------------------

    def _run_inline(self, step: InlineStep) -> None:
        network = self.networks[step.model]
        if step.model not in self._inline:
            statements = self.plan.inline[step.model]
            self._inline[step.model] = InlineScript(
                network, statements, self.plan.table, self.variables
            )
        self._inline[step.model].run(step.statement)
        self._raise_mistakes(network)

    def build(self, network: GraphBuilder, block: Block) -> None:
        """Build NDL into a network, with all its names defined in itself or in the network."""
        expand(network, block.statements, self.plan.table, self.variables)
        self._raise_mistakes(network)

    def finish(self, number: int) -> None:
        """Require that every name of the NDL of a model has a value by now."""
        if number in self._inline:
            self._inline[number].finish()
            self._raise_mistakes(self.networks[number])

    def _raise_mistakes(self, network: GraphBuilder) -> None:
        found = [*network.sink.diagnostics]
        network.sink.diagnostics.clear()
        if any(d.severity is Severity.ERROR for d in found):
            raise GraphcError(found)
        self.warnings += found

    # ---- what commands need ---------------------------------------------------------------

    def network(self, number: int) -> GraphBuilder:
        """A model, with what its NDL says bound as far as it is known."""
        network = self.networks[number]
        if number in self._inline:
            self._inline[number].bind_known()
            self._raise_mistakes(network)
        return network

    def unload(self, number: int) -> None:
        """Forget a model, which may be incomplete; its name may have been given twice."""
        self.networks.pop(number, None)
        self._inline.pop(number, None)

    @contextmanager
    def editor(self, number: int, span: Span) -> Generator[Editor]:
        """Edits of a model."""
        with self.network(number).edited(where=Location(span)) as editor:
            yield editor

    def name(self, reference: Reference) -> str:
        """The name or pattern of a reference, or the node's that it is a name of in the NDL."""
        if reference.text == ALL or reference.model not in self._inline:
            return reference.text
        if self.networks[reference.model].find(reference.text) is not None:
            return reference.text
        node = self._inline[reference.model].find(reference.text, reference.span)
        return reference.text if node is None else node.name

    def open(self, path: str) -> GraphBuilder:
        """The network in a model file, perhaps in one that this script has written."""
        saved = self.outbox.saved(Path(path))
        return self.workshop.open(Path(path)) if saved is None else saved

    def warn(self, slug: str, message: str, span: Span) -> None:
        self.warnings.append(Diagnostic(Severity.WARNING, slug, message, span))


@contextmanager
def _placed(span: Span) -> Generator[None]:
    """Errors that have no place stand where the command does."""
    try:
        yield
    except GraphcError as error:
        if all(d.span is not None for d in error.diagnostics):
            raise
        placed = [d if d.span is not None else replace(d, span=span) for d in error.diagnostics]
        raise GraphcError(placed) from error


# ---------------------------------------------------------------- commands on models


def _make(session: Session, step: CommandStep) -> None:
    assert step.makes is not None
    session.add(step.makes, session.workshop.new())


def _load(session: Session, step: CommandStep) -> None:
    (path,) = (value for value in step.arguments if isinstance(value, str))
    assert step.makes is not None
    session.add(step.makes, session.open(path))


def _load_snippet(session: Session, step: CommandStep) -> None:
    number = step.arguments[0]
    assert isinstance(number, int)
    assert step.block is not None
    if number == step.makes:
        session.add(number, session.workshop.new())
    session.build(session.networks[number], step.block)


def _save(session: Session, step: CommandStep) -> None:
    number = step.default
    if number is None:
        (number,) = (value for value in step.arguments if isinstance(value, int))
    path = step.arguments[-1]
    assert isinstance(path, str)
    session.finish(number)
    with session.editor(number, step.span) as editor:
        editor.require_complete()
    is_read_later = path in session.plan.loaded
    session.outbox.save(session.networks[number], Path(path), is_read_later=is_read_later)


def _unload(session: Session, step: CommandStep) -> None:
    for number in step.arguments:
        if isinstance(number, int):
            session.unload(number)


def _nothing(_session: Session, _step: CommandStep) -> None:
    """The plan has seen to it."""


def _dump(session: Session, step: CommandStep) -> None:
    nodes, path = step.arguments
    number = nodes.model if isinstance(nodes, Reference) else nodes
    assert isinstance(number, int)
    assert isinstance(path, str)
    session.finish(number)
    with session.editor(number, step.span) as editor:
        editor.require_complete()
        patterns = [session.name(nodes)] if isinstance(nodes, Reference) else []
        include = step.options.get("includeData") is True
        session.outbox.write(Path(path), editor.listing(*patterns, include_values=include))


# ---------------------------------------------------------------- commands on nodes


def _references(step: CommandStep) -> list[Reference]:
    return [value for value in step.arguments if isinstance(value, Reference)]


def _copy(session: Session, step: CommandStep) -> None:
    old, new = _references(step)
    text = session.name(old)
    if ALL in text and new.text == ALL and old.model != new.model:
        new = replace(new, text=text)
    values_only = step.options.get("copy") == "value"
    source = session.network(old.model)
    with session.editor(new.model, step.span) as editor:
        editor.copy(text, session.name(new), source=source.model, values_only=values_only)


def _copy_subtree(session: Session, step: CommandStep) -> None:
    root, target, *rest = step.arguments
    assert isinstance(root, Reference)
    assert isinstance(target, Reference)
    text = session.name(root)
    if rest:
        prefix = rest[0]
        assert isinstance(prefix, str)
        if target.text != ALL:
            message = f"CopySubTree with a prefix requires a model, got `{target.text}`"
            raise fail("argument-type", message, target.span)
    elif target.text == ALL:
        prefix = ""
    elif target.text.endswith(text):
        prefix = target.text.removesuffix(text)
    else:
        message = (
            f"the copy of `{text}` and those below are called by a prefix and their old names, "
            f"got `{target.text}`; write `CopySubTree(node, model, prefix)`"
        )
        raise fail("bad-value", message, target.span)
    values_only = step.options.get("copy") == "value"
    source = session.network(root.model)
    with session.editor(target.model, step.span) as editor:
        editor.copy_subtree(text, prefix, source=source.model, values_only=values_only)


def _copy_inputs(session: Session, step: CommandStep) -> None:
    old, new = _references(step)
    with session.editor(old.model, step.span) as editor:
        editor.copy_inputs(session.name(old), session.name(new))


def _set_input(session: Session, step: CommandStep) -> None:
    nodes, source = _references(step)
    index = step.arguments[1]
    assert isinstance(index, int)
    with session.editor(nodes.model, step.span) as editor:
        editor.set_input(session.name(nodes), index, session.name(source))


def _set_inputs(session: Session, step: CommandStep) -> None:
    nodes, *sources = _references(step)
    with session.editor(nodes.model, step.span) as editor:
        editor.set_inputs(session.name(nodes), [session.name(s) for s in sources])


def _set_property(session: Session, step: CommandStep) -> None:
    nodes, name, value = step.arguments
    assert isinstance(nodes, Reference)
    assert isinstance(name, str)
    subtree = step.command.names[0] == "SetPropertyForSubTree"
    text = session.name(nodes)
    with session.editor(nodes.model, step.span) as editor:
        if not editor.set_property(text, name, value is True, subtree=subtree):
            message = f"none of `{text}` has the property `{name}`, so nothing is set"
            session.warn("bad-option", message, step.span)


def _remove(session: Session, step: CommandStep) -> None:
    references = _references(step)
    for model in dict.fromkeys(r.model for r in references):
        with session.editor(model, step.span) as editor:
            editor.remove(*(session.name(r) for r in references if r.model == model))


def _rename(session: Session, step: CommandStep) -> None:
    old, new = _references(step)
    with session.editor(old.model, step.span) as editor:
        editor.rename(session.name(old), new.text)


ACTIONS: Mapping[str, Callable[[Session, CommandStep], None]] = MappingProxyType(
    {
        "CreateModel": _make,
        "CreateModelWithName": _make,
        "LoadModel": _load,
        "LoadModelWithName": _load,
        "LoadNDLSnippet": _load_snippet,
        "SaveDefaultModel": _save,
        "SaveModel": _save,
        "SetDefaultModel": _nothing,
        "UnloadModel": _unload,
        "DumpModel": _dump,
        "DumpNode": _dump,
        "CopyNode": _copy,
        "CopySubTree": _copy_subtree,
        "CopyNodeInputs": _copy_inputs,
        "SetNodeInput": _set_input,
        "SetNodeInputs": _set_inputs,
        "SetProperty": _set_property,
        "SetPropertyForSubTree": _set_property,
        "RemoveNode": _remove,
        "Rename": _rename,
    }
)
