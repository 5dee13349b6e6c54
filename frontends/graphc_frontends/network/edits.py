"""Methods that change a network that is there: copies, other names, other inputs, other settings.

    with net.edit():
        net.copy_nodes("L1.*", "L2.*")
        net.set_input("L2.T", 1, "L1.S")
        net.set_input("CE.T", 1, "L2.S")

Nodes are given by name, by handle, or by a pattern with one `*`, in which letters count as they are
written. Every edit is checked and happens as a whole: after an error the network is what it was,
values included. An executable or training step that was compiled before goes on with the network
as it was; parameters that both have are the same arrays.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TextIO

from graphc.builder import Factorised, Node
from graphc.support import arguments
from graphc.support.diagnostics import fail
from graphc.support.files import write_atomically
from graphc.support.source import UNKNOWN, Location
from graphc_frontends.network.base import NetworkBase, require_name
from graphc_frontends.network.caller import caller_location

Nodes = Node | str
"""A node, by its handle or its name, or all that a pattern such as `L1.*` means."""


class Edits(NetworkBase):
    """Edits of a network."""

    def edit(self) -> AbstractContextManager[None]:
        """Several edits that are one: after an error in any of them the network is what it was.

        In between a node may have no input where it had one, and sizes may not fit; at the end
        GraphcError `missing-node` or `shape-mismatch` says where that is still so.
        """
        return self._edit(caller_location())

    @contextmanager
    def _edit(self, where: Location) -> Generator[None]:
        with self.edited(where=where):
            yield

    def copy_nodes(
        self,
        old: Nodes,
        new: str,
        *,
        source: NetworkBase | None = None,
        values_only: bool = False,
    ) -> None:
        """Copy nodes with their settings and values, of `source` or of this network.

        A copy reads the copies of what its original reads. What is not copied itself it reads as
        its original does; of another network's nodes such inputs have to be set in the same `edit`.
        Where a node of the new name and kind is already, it becomes the copy: its readers and tags
        stay. Copies get no tags.

        values_only  copy nothing but the values, and so the sizes, into nodes that are there
        """
        where = caller_location()
        other = self if source is None else _network(source, "source", where)
        text = _text(other, "copy_nodes", old, where)
        with self.edited(where=where) as editor:
            editor.copy(
                text,
                arguments.text(new, "the name of the copies"),
                source=other.model,
                values_only=arguments.truth(values_only, "values_only"),
                outside="keep" if other is self else "unset",
            )

    def copy_subtree(
        self, node: Nodes, network: NetworkBase, prefix: str, *, values_only: bool = False
    ) -> None:
        """Copy a node, or several, and all that they are computed from, into `network`.

        Each copy is called `prefix` and the name of its original; else as `copy_nodes`.
        """
        where = caller_location()
        target = _network(network, "network", where)
        text = _text(self, "copy_subtree", node, where)
        prefix = arguments.text(prefix, "prefix")
        with target.edited(where=where) as editor:
            editor.copy_subtree(text, prefix, source=self.model, values_only=values_only)

    def rename(self, node: Nodes, name: str, location: Location = UNKNOWN) -> None:
        """Give a node another name, which no other node may have; or nodes (`L1.*` to `L2.*`)."""
        if location.is_known and isinstance(node, Node):
            super().rename(node, name, location)
            return
        where = caller_location()
        text = _text(self, "rename", node, where)
        require_name("rename", name, where)
        with self.edited(where=where) as editor:
            editor.rename(text, name)

    def remove(self, *nodes: Nodes) -> None:
        """Take out nodes that no other node reads; in an `edit` others may read them.

        What read them then has to get another input in the same `edit`.
        """
        where = caller_location()
        texts = [_text(self, "remove", node, where) for node in nodes]
        is_alone = not self._is_edited
        with self.edited(where=where) as editor:
            editor.remove(*texts, only_unread=is_alone)

    def set_input(self, node: Nodes, index: int, source: Nodes) -> None:
        """Let a node, or all that a pattern means, read `source` as its input `index`, from 0."""
        where = caller_location()
        text, read = (_text(self, "set_input", given, where) for given in (node, source))
        index = arguments.whole(index, "index")
        with self.edited(where=where) as editor:
            editor.set_input(text, index, read)

    def set_inputs(self, node: Nodes, *sources: Nodes) -> None:
        """Let a node, or all that a pattern means, read these nodes, as many as it takes."""
        where = caller_location()
        text = _text(self, "set_inputs", node, where)
        read = [_text(self, "set_inputs", given, where) for given in sources]
        with self.edited(where=where) as editor:
            editor.set_inputs(text, read)

    def copy_inputs(self, old: Nodes, new: str) -> None:
        """Let the node `new` read what `old` reads; or nodes what others do (`L1.*`, `L2.*`)."""
        where = caller_location()
        text = _text(self, "copy_inputs", old, where)
        with self.edited(where=where) as editor:
            editor.copy_inputs(text, _text(self, "copy_inputs", new, where))

    def set_property(self, nodes: Nodes, name: str, value: bool) -> None:
        """Set a property of nodes.

        name  needs_gradient, of parameters: whether training changes them; a role: feature, label,
              criterion, evaluation, output, multiseq; batch_norm_eval_mode, of BatchNormalization
              nodes: whether they compute in training as they do else. Also MEL's names of them
        """
        self._set_property("set_property", nodes, name, value, subtree=False)

    def set_property_for_subtree(self, nodes: Nodes, name: str, value: bool) -> None:
        """Set needs_gradient or batch_norm_eval_mode of nodes and all they are computed from."""
        self._set_property("set_property_for_subtree", nodes, name, value, subtree=True)

    def _set_property(
        self, what: str, nodes: Nodes, name: str, value: bool, *, subtree: bool
    ) -> None:
        where = caller_location()
        text = _text(self, what, nodes, where)
        name, value = arguments.text(name, "the property"), arguments.truth(value, name)
        with self.edited(where=where) as editor:
            if not editor.set_property(text, name, value, subtree=subtree):
                message = f"{what} requires a node that has `{name}`, none of `{text}` has it"
                raise fail("argument-type", message, where)

    def factorise(
        self, nodes: Nodes | re.Pattern[str], keep_ratio: float = 0.4
    ) -> list[Factorised]:
        """Replace parameters by products of two smaller ones; gives what became of each.

        W, rows x cols, becomes the node `W-SVD`, Times of `W-U`, rows x r, and `W-V`, r x cols. The
        rank r is the least whose singular values have more than the share `keep_ratio` of the sum
        of all, rounded up to a multiple of 8, and at most all. Vectors stay as they are. An
        expression of `re` means all parameters whose whole name it matches.
        """
        where = caller_location()
        pattern = nodes if isinstance(nodes, re.Pattern) else _text(self, "factorise", nodes, where)
        ratio = arguments.number(keep_ratio, "keep_ratio")
        with self.edited(where=where) as editor:
            return editor.factorise(pattern, ratio)

    def dump(
        self,
        target: str | Path | TextIO,
        *,
        include_values: bool = False,
        nodes: Nodes = "*",
    ) -> None:
        """Write a line for each node, as the toolkit's DumpModel does, into a file or a stream.

        include_values  also the values of parameters, constants and statistics, row by row
        """
        where = caller_location()
        with self.edited(complete=False, where=where) as editor:
            patterns = () if nodes == "*" else (_text(self, "dump", nodes, where),)
            lines = [*editor.listing(*patterns, include_values=include_values)]
        if isinstance(target, str | Path):
            write_atomically(
                Path(target), lambda stream: stream.writelines(line.encode() for line in lines)
            )
        else:
            target.writelines(lines)


def _text(network: NetworkBase, what: str, node: object, where: Location) -> str:
    """The name of a node of the network, or the pattern; GraphcError for anything else."""
    if isinstance(node, str):
        return node
    network._checked(what, where, node)
    assert isinstance(node, Node), "what is checked is a node"
    return node.name


def _network(given: object, what: str, where: Location) -> NetworkBase:
    if not isinstance(given, NetworkBase):
        message = f"{what} requires a network, got {arguments.kind_of(given)}"
        raise fail("argument-type", message, where)
    return given
