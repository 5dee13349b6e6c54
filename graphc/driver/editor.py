"""Edits of a network by the names of its nodes, each of them whole or not at all.

`Editor` says what to edit, `transaction` when it counts: at its end names, sizes and links are
checked, and after any error the network is what it was, values included. What each edit means is
`graphc/model/editing.py`; which nodes a pattern means, `patterns.py` there.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from graphc.driver.prepare import draw, infer
from graphc.ir.core import Operation
from graphc.ir.verifier import verify_module
from graphc.model import editing
from graphc.model.editing import Outside, property_named
from graphc.model.factorise import Factorised, factorise
from graphc.model.listing import listing
from graphc.model.model import Model
from graphc.model.patterns import WILDCARD, carried_over, matching
from graphc.model.saved_state import SavedModel, restore_state, save_state
from graphc.ops.nodes.leaves import PARAMETER
from graphc.passes.analysis.cycles import report_without_delay
from graphc.passes.expand_nodes import inputs_of
from graphc.passes.infer_shapes import infer_shapes
from graphc.support.diagnostics import DiagnosticSink, fail
from graphc.support.source import UNKNOWN, Location


@contextmanager
def atomic(model: Model) -> Generator[SavedModel]:
    """What is raised inside comes through, with nothing changed. O(nodes)."""
    saved = save_state(model)
    model.has_old_sizes = True
    try:
        yield saved
    except BaseException:
        restore_state(model, saved)
        raise


@contextmanager
def transaction(model: Model, *, complete: bool, where: Location = UNKNOWN) -> Generator[None]:
    """Edits that happen together, as `atomic`; sizes are inferred again at the end.

    complete  refuse then what leaves an input without a node that had one, sizes that do not fit
              where they did before, and a cycle without a delay where there was none
    """
    with atomic(model) as saved:
        did_fit = complete and not _mistakes(model).has_errors
        yield
        editing.forget_sizes(model)
        found = _mistakes(model)
        if complete:
            _require_links(model, saved, where)
            if did_fit:
                found.raise_if_errors()
            verify_module(model.module, checked := DiagnosticSink())
            checked.raise_if_errors()


def _mistakes(model: Model) -> DiagnosticSink:
    """Find all sizes that can be found, and what is wrong with them or with cycles."""
    sink = DiagnosticSink()
    infer_shapes(model.graph, sink)
    if not sink.has_errors:
        report_without_delay([*model.graph.block], inputs_of, sink)
    return sink


def _require_links(model: Model, saved: SavedModel, where: Location) -> None:
    """Refuse inputs that wait for a node and did not before."""
    sink = DiagnosticSink()
    for op, index in model.unset_inputs():
        if (op, index) not in saved.unset:
            sink.error(
                "missing-node",
                f"{editing.missing_input(op, index)} after this edit; set it in the same one",
                where if where.is_known else op.location,
            )
    sink.raise_if_errors()


def draw_known(model: Model) -> None:
    """Draw the missing values whose sizes are known, so that copies get them: as saving would."""
    if not model.missing_values():
        return
    sink = DiagnosticSink()
    model.load_matrices(sink)
    sink.raise_if_errors()
    _infer_again(model)
    draw(model)


def _infer_again(model: Model) -> None:
    """Find the sizes after edits, as far as they can be found."""
    editing.forget_sizes(model)
    infer_shapes(model.graph, DiagnosticSink())


@dataclass(frozen=True)
class Editor:
    """Edits of one network, to be made inside of a `transaction`.

    Nodes are given by name or by a pattern with one `*` (`L1.*`). GraphcError `missing-node` for
    what means no node, and what each edit in `graphc/model/editing.py` says; at `where`.
    """

    model: Model
    where: Location = UNKNOWN

    def nodes(self, *patterns: str) -> list[Operation]:
        """The nodes that patterns mean, each once."""
        found = [op for text in patterns for op in matching(self.model, text, self.where)]
        return [*dict.fromkeys(found)]

    def node(self, name: str) -> Operation:
        """The one node that a name means."""
        found = matching(self.model, name, self.where)
        if len(found) > 1:
            message = f"`{name}` has to mean one node, it means {len(found)}"
            raise fail("bad-value", message, self.where)
        return found[0]

    def copy(
        self,
        old: str,
        new: str,
        *,
        source: Model | None = None,
        values_only: bool = False,
        outside: Outside = "unset",
    ) -> None:
        """Copy nodes of `source`, by default of this network; see `copy_nodes`, `copy_values`.

        A node by name can be copied over all that a pattern means, if they are there.
        """
        source = source or self.model
        draw_known(source)
        pairs: list[tuple[Operation, str]]
        one = source.find(old)
        if one is not None and WILDCARD in new and WILDCARD not in old:
            pairs = [(one, op.result.name or "") for op in self.nodes(new)]
        else:
            pairs = carried_over(source, old, new, self.where)
        self._copy(source, pairs, values_only=values_only, outside=outside)

    def copy_subtree(
        self, root: str, prefix: str, *, source: Model | None = None, values_only: bool = False
    ) -> None:
        """Copy a node of `source`, or several, and all below, each as `prefix` and its old name."""
        source = source or self.model
        draw_known(source)
        nodes = editing.below(Editor(source, self.where).nodes(root))
        pairs = [(op, prefix + (op.result.name or "")) for op in nodes]
        self._copy(source, pairs, values_only=values_only, outside="unset")

    def _copy(
        self, source: Model, pairs: editing.Pairs, *, values_only: bool, outside: Outside
    ) -> None:
        if values_only:
            editing.copy_values(source, self.model, pairs, self.where)
            return
        several: dict[Operation, int] = {}
        for op, _ in pairs:
            several[op] = several.get(op, 0) + 1
        if max(several.values(), default=0) <= 1:
            editing.copy_nodes(source, self.model, pairs, outside=outside, where=self.where)
            return
        for pair in pairs:  # one node over several: each is a copy by itself
            editing.copy_nodes(source, self.model, [pair], outside=outside, where=self.where)

    def rename(self, old: str, new: str) -> None:
        """Give nodes other names."""
        pairs = carried_over(self.model, old, new, self.where)
        editing.rename_nodes(self.model, pairs, self.where)

    def remove(self, *patterns: str, only_unread: bool = False) -> None:
        """Take nodes out; inputs of others that read them wait for a node from then on.

        only_unread  GraphcError `bad-value` if there are such others
        """
        nodes = self.nodes(*patterns)
        readers = editing.readers_outside(nodes) if only_unread else []
        if readers:
            first = readers[0][0].result.name
            names = ", ".join(f"`{r.result.name}`" for op, r in readers[:3] if op is readers[0][0])
            message = f"remove requires a node that nobody reads, `{first}` is read by {names}"
            raise fail("bad-value", message, self.where)
        editing.remove_nodes(self.model, nodes)

    def set_input(self, pattern: str, index: int, source: str) -> None:
        """Let nodes read `source` as their input `index`, counted from 0."""
        read = self.node(source)
        for op in self.nodes(pattern):
            editing.set_input(self.model, op, index, read, self.where)

    def set_inputs(self, pattern: str, sources: Sequence[str]) -> None:
        """Let nodes read `sources`, as many as they take."""
        read = [self.node(name) for name in sources]
        for op in self.nodes(pattern):
            editing.set_inputs(self.model, op, read, self.where)

    def copy_inputs(self, old: str, new: str) -> None:
        """Let nodes read what others read."""
        for op, name in carried_over(self.model, old, new, self.where):
            editing.copy_inputs(self.model, op, self.node(name), self.where)

    def set_property(self, pattern: str, name: str, value: bool, *, subtree: bool = False) -> int:
        """Set a property of nodes, or of all below them too; the number of nodes that have it."""
        row = property_named(name, self.where, subtree=subtree)
        nodes = self.nodes(pattern)
        if subtree:
            nodes = editing.below(nodes)
        editing.set_property(self.model, nodes, row, value)
        return len(editing.holders(nodes, row))

    def factorise(self, pattern: str | re.Pattern[str], keep_ratio: float) -> list[Factorised]:
        """Replace parameters by products of two smaller ones; see `graphc/model/factorise.py`.

        An expression of Python's `re` means all parameters whose whole name it matches.
        """
        draw_known(self.model)
        nodes = self._matched(pattern) if isinstance(pattern, re.Pattern) else self.nodes(pattern)
        return factorise(self.model, nodes, keep_ratio, self.where)

    def _matched(self, pattern: re.Pattern[str]) -> list[Operation]:
        parameters = (op for op in self.model.graph.block if op.opdef is PARAMETER)
        found = [op for op in parameters if pattern.fullmatch(op.result.name or "")]
        if not found:
            message = f"no parameter of the network is called as `{pattern.pattern}` says"
            raise fail("missing-node", message, self.where)
        return found

    def require_complete(self) -> None:
        """GraphcError for a network that could not be saved as it is; draws nothing."""
        infer(self.model)

    def listing(self, *patterns: str, include_values: bool = False) -> Iterator[str]:
        """The lines of DumpModel's text, by default of all nodes."""
        _infer_again(self.model)
        if include_values:
            draw_known(self.model)
        nodes = self.nodes(*patterns) if patterns else [*self.model.graph.block]
        yield from listing(self.model, nodes, include_values=include_values)
