"""Random edits of networks against a plain dictionary that is edited by rules of its own.

The dictionary says of each edit whether it can be made and what the network is afterwards. The
network has to agree, refuse what the dictionary refuses without any change, and stay one that
verifies, prints and parses back, and computes what the dictionary computes with numpy.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc as gc
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.support.diagnostics import DiagnosticSink
from graphc_frontends.network import Network

SIZE = 3
KINDS = {"times": 2, "plus": 2, "tanh": 1, "sigmoid": 1}

Node = tuple[str, tuple[str, ...]]  # kind and inputs


@dataclass
class Table:
    """What a network is: nodes in order, values of parameters, names of outputs."""

    nodes: dict[str, Node]
    values: dict[str, np.ndarray]
    outputs: set[str]
    frozen: set[str] = field(default_factory=set[str])

    def matching(self, pattern: str) -> list[str]:
        lower = {name.lower(): name for name in self.nodes}
        if pattern.lower() in lower:
            return [lower[pattern.lower()]]
        if "*" not in pattern:
            return []
        head, tail = pattern.split("*")
        long = len(head) + len(tail)
        return [
            n for n in self.nodes
            if n.startswith(head) and n.endswith(tail) and len(n) >= long
        ]  # fmt: skip

    def pairs(self, old: str, new: str) -> list[tuple[str, str]] | None:
        names = self.matching(old)
        if not names or ("*" in old) != ("*" in new):
            return None
        if "*" not in old:
            return [(names[0], new)]
        head, tail = old.split("*")
        return [(n, new.replace("*", n[len(head) : len(n) - len(tail)])) for n in names]

    def is_sound(self) -> bool:
        """Every input is there and of the right size, and no node is computed from itself."""
        for kind, inputs in self.nodes.values():
            if any(name not in self.nodes for name in inputs):
                return False
            flat = [self.nodes[name][0] != "parameter" for name in inputs]
            if kind == "times" and flat != [False, True]:
                return False
            if kind in ("plus", "tanh", "sigmoid") and not all(flat):
                return False
        done: set[str] = set()
        while True:
            ready = {n for n, (_, ins) in self.nodes.items() if n not in done and set(ins) <= done}
            if not ready:
                return len(done) == len(self.nodes)
            done |= ready

    def compute(self, name: str, x: np.ndarray) -> np.ndarray:
        kind, inputs = self.nodes[name]
        if kind == "input":
            return x
        if kind == "parameter":
            return self.values[name]
        a, *rest = (self.compute(i, x) for i in inputs)
        match kind:
            case "times":
                return a @ rest[0]
            case "plus":
                return a + rest[0]
            case "tanh":
                return np.tanh(a)
            case _:
                return 1 / (1 + np.exp(-a))


@dataclass(frozen=True)
class Edit:
    kind: Literal[
        "copy", "values", "rename", "remove", "input", "inputs", "like", "output", "freeze"
    ]
    old: str
    new: str
    index: int = 0
    other: str = ""
    flag: bool = True


def expected(table: Table, edit: Edit) -> Table | None:
    """The table after an edit, None if it has to be refused."""
    after = deepcopy(table)
    match edit.kind:
        case "copy" | "values":
            pairs = table.pairs(edit.old, edit.new)
            if "*" in edit.new and "*" not in edit.old:  # one node over all of these
                names = table.matching(edit.old)
                pairs = [(names[0], new) for new in table.matching(edit.new)] if names else []
            if not pairs:
                return None
            return _copied(table, after, pairs, values_only=edit.kind == "values")
        case "rename":
            return _renamed(table, edit)
        case "remove":
            gone = set(table.matching(edit.old))
            if not gone:
                return None
            after.nodes = {n: node for n, node in table.nodes.items() if n not in gone}
            after.values = {n: v for n, v in table.values.items() if n not in gone}
            after.outputs -= gone
            after.frozen -= gone
        case "input" | "inputs" | "like":
            _relink(table, after, edit)
            if after.nodes == {}:
                return None
        case "output":
            names = table.matching(edit.old)
            if not names:
                return None
            after.outputs = after.outputs | set(names) if edit.flag else after.outputs - set(names)
        case "freeze":
            names = [n for n in table.matching(edit.old) if table.nodes[n][0] == "parameter"]
            if not names:
                return None
            after.frozen = after.frozen - set(names) if edit.flag else after.frozen | set(names)
    return after if after.is_sound() else None


def _copied(
    table: Table, after: Table, pairs: list[tuple[str, str]], *, values_only: bool
) -> Table | None:
    lower = {name.lower(): name for name in table.nodes}
    pairs = [(n, lower.get(new.lower(), new)) for n, new in pairs]
    news = [new for _, new in pairs]
    sources = {n for n, _ in pairs}
    if any(n == new for n, new in pairs) or len({new.lower() for new in news}) < len(news):
        return None
    if not values_only and sources & set(news):
        return None
    for n, new in pairs:
        if new in table.nodes and table.nodes[new][0] != table.nodes[n][0]:
            return None
        if new not in table.nodes and values_only:
            return None
    copies = dict(pairs)
    for n, new in pairs:
        kind, inputs = table.nodes[n]
        if not values_only:
            after.nodes[new] = (kind, tuple(copies.get(i, i) for i in inputs))
            after.frozen = after.frozen - {new} | ({new} if n in table.frozen else set())
        if kind == "parameter":
            after.values[new] = table.values[n].copy()
    return after if after.is_sound() else None


def _renamed(table: Table, edit: Edit) -> Table | None:
    pairs = table.pairs(edit.old, edit.new)
    if pairs is None:
        return None
    names = {n: n for n in table.nodes} | dict(pairs)
    if len({new.lower() for new in names.values()}) < len(names):
        return None
    return Table(
        {names[n]: (kind, tuple(names[i] for i in ins)) for n, (kind, ins) in table.nodes.items()},
        {names[n]: v for n, v in table.values.items()},
        {names[n] for n in table.outputs},
        {names[n] for n in table.frozen},
    )


def _relink(table: Table, after: Table, edit: Edit) -> None:
    """Set inputs; what cannot be done leaves no nodes."""
    names, others = table.matching(edit.old), table.matching(edit.other)
    is_good = bool(names) and len(others) == 1
    for name in names if is_good else ():
        kind, inputs = table.nodes[name]
        given = list(inputs)
        if edit.kind == "input":
            is_good = is_good and edit.index < len(inputs)
            given[edit.index : edit.index + 1] = others
        elif edit.kind == "inputs":
            given = others * (edit.index + 1)
            is_good = is_good and len(given) == len(inputs)
        else:
            given = list(table.nodes[others[0]][1])
            is_good = is_good and len(given) == len(inputs) and "*" not in edit.old
        after.nodes[name] = (kind, tuple(given))
    if not is_good:
        after.nodes = {}


def apply(net: Network, edit: Edit) -> None:
    """The same edit of the network."""
    match edit.kind:
        case "copy" | "values":
            net.copy_nodes(edit.old, edit.new, values_only=edit.kind == "values")
        case "rename":
            net.rename(edit.old, edit.new)
        case "remove":
            net.remove(edit.old)
        case "input":
            net.set_input(edit.old, edit.index, edit.other)
        case "inputs":
            net.set_inputs(edit.old, *([edit.other] * (edit.index + 1)))
        case "like":
            net.copy_inputs(edit.other, edit.old)
        case "output":
            net.set_property(edit.old, "output", edit.flag)
        case "freeze":
            net.set_property(edit.old, "needs_gradient", edit.flag)


def start() -> tuple[Network, Table]:
    """Two layers whose nodes all have one size."""
    net = Network()
    x = net.input("x", SIZE, tag="feature")
    for layer in ("A", "B"):
        w = net.parameter(f"{layer}.W", SIZE, SIZE)
        t = net.times(w, x, name=f"{layer}.T")
        s = net.tanh(t, name=f"{layer}.S")
        x = net.plus(s, x, name=f"{layer}.P")
    net.add_tag(x, "output")
    return net, seen(net)


def seen(net: Network) -> Table:
    """The network as a table, by looking at its nodes."""
    nodes = {n.name: (n.op, tuple(v.name or "" for v in n.operation.operands)) for n in net.nodes}
    text = {line.split(" = ")[0].strip(" %"): line for line in str(net).splitlines()}
    return Table(
        nodes,
        {name: np.array(value) for name, value in net.parameters.items()},
        set(net.model.tagged("output")),
        {n for n, (kind, _) in nodes.items() if kind == "parameter" and "= false" in text[n]},
    )


def assert_same(found: Table, wanted: Table) -> None:
    assert found.nodes == wanted.nodes
    assert found.outputs == wanted.outputs
    assert found.frozen == wanted.frozen
    assert found.values.keys() == wanted.values.keys()
    assert all(np.array_equal(v, wanted.values[n]) for n, v in found.values.items())


def edits(names: list[str]) -> st.SearchStrategy[Edit]:
    prefixes = sorted({n.split(".")[0] for n in names if "." in n}) or ["A"]
    name = st.sampled_from([*names, "nobody"])
    pattern = st.one_of(name, st.sampled_from([f"{p}.*" for p in prefixes] + ["*.W", "*.T", "*"]))
    new = st.sampled_from(["C.*", "D.*", "A.*", "*.V", "q*", "new", "C.W", "b.t", *names])
    return st.builds(
        Edit,
        st.sampled_from(
            ["copy", "copy", "values", "rename", "remove", "input", "input", "inputs", "like",
             "output", "freeze"]
        ),
        pattern,
        new,
        st.integers(0, 2),
        name,
        st.booleans(),
    )  # fmt: skip


@settings(max_examples=60)
@given(st.data())
def test_edits_are_those_of_a_plain_dictionary(data: st.DataObject) -> None:
    net, table = start()
    for _ in range(data.draw(st.integers(1, 6), label="edits")):
        edit = data.draw(edits([*table.nodes]))
        if edit.kind == "like":  # of one node, by its name
            edit = replace(edit, old=edit.old if "*" not in edit.old else "A.S")
        wanted = expected(table, edit)
        try:
            apply(net, edit)
        except gc.GraphcError:
            assert wanted is None, edit
        else:
            assert wanted is not None, edit
            table = wanted
        assert_same(seen(net), table)
    verify_module(net.model.module, sink := DiagnosticSink())
    sink.raise_if_errors()
    text = print_module(net.model.module)
    context = default_context()
    assert print_module(parse_module(text, context)) == text
    x = np.linspace(-1, 1, 2 * SIZE).reshape(SIZE, 2)
    outputs = sorted(n for n in table.outputs if table.nodes[n][0] not in ("input", "parameter"))
    if outputs:
        exe = gc.compile(net, outputs, backend="numpy", precision="double")
        inputs = {a.name: x.T.astype(np.float32) for a in exe.signature.with_role("input")}
        found = exe(**inputs)
        for name in outputs:
            exact = table.compute(name, x.astype(np.float32).astype(float))
            assert np.allclose(found[name].T, exact, atol=1e-6)


@settings(max_examples=30)
@given(st.data())
def test_edits_that_end_in_an_error_together_change_nothing(data: st.DataObject) -> None:
    net, table = start()
    handles = {n.name: n for n in net.nodes}
    try:
        with net.edit():
            for _ in range(data.draw(st.integers(1, 5), label="edits")):
                try:
                    apply(net, data.draw(edits([n.name for n in net.nodes])))
                except gc.GraphcError:
                    continue  # this one has changed nothing; those before may have
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert_same(seen(net), table)
    assert all(net.find(name) is handle for name, handle in handles.items())
