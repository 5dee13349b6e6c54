"""Cycles of nodes that cannot be computed: each is one error that names the cycle node by node."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import pytest

import graphc as gc
from graphc.support.diagnostics import Diagnostic


@dataclass(frozen=True)
class Wrong:
    """`place` is line:column of the error; `notes` are all the nodes that it names."""

    text: str
    message: str
    place: str
    notes: tuple[str, ...]


WRONG = {
    "no delay": Wrong(
        """\
        x = Input(3)
        a = Plus(c, x)
        b = Sigmoid(a)
        c = Tanh(b)
        """,
        "cycle: a cycle requires a PastValue or FutureValue on every way round; "
        "the cycle is `a` -> `b` -> `c` -> `a`",
        "2:5",
        ("`a` is a Plus, 2:5", "`b` is a Sigmoid, 3:5", "`c` is a Tanh, 4:5"),
    ),
    "no delay, and so no size": Wrong(
        """\
        x = Input(1)
        b = Sigmoid(c)
        c = Plus(x, b)
        """,
        "cycle: a cycle requires a PastValue or FutureValue on every way round; "
        "the cycle is `b` -> `c` -> `b`",
        "2:5",
        ("`b` is a Sigmoid, 2:5", "`c` is a Plus, 3:5"),
    ),
    "a node that reads itself": Wrong(
        """\
        x = Input(3)
        c = Plus(c, x)
        """,
        "cycle: a cycle requires a PastValue or FutureValue on every way round; "
        "the cycle is `c` -> `c`",
        "2:5",
        ("`c` is a Plus, 2:5",),
    ),
    "a way round without a delay beside one with": Wrong(
        """\
        x = Input(3)
        p = PastValue(3, c)
        a = Plus(p, b)
        b = Sigmoid(c)
        d = Plus(a, x)
        c = Tanh(d)
        """,
        "cycle: a cycle requires a PastValue or FutureValue on every way round; "
        "the cycle is `a` -> `d` -> `c` -> `b` -> `a`",
        "3:5",
        (
            "`a` is a Plus, 3:5",
            "`d` is a Plus, 5:5",
            "`c` is a Tanh, 6:5",
            "`b` is a Sigmoid, 4:5",
        ),
    ),
    "both directions": Wrong(
        """\
        x = Input(3)
        p = PastValue(3, c)
        f = FutureValue(3, c)
        a = Plus(p, f)
        c = Plus(a, x)
        """,
        "cycle: a cycle looks either back or ahead in time, got FutureValue `f` and PastValue `p`; "
        "the cycle is `f` -> `a` -> `c` -> `p` -> `a` -> `c` -> `f`",
        "3:5",
        (
            "`f` is a FutureValue, 3:5",
            "`a` is a Plus, 4:5",
            "`c` is a Plus, 5:5",
            "`p` is a PastValue, 2:5",
        ),
    ),
    "rows that disagree": Wrong(
        """\
        x = Input(3)
        p = PastValue(4, c)
        t = RowSlice(0, 3, p)
        c = Plus(t, x)
        """,
        "shape-mismatch: PastValue requires the 4 rows it declares, got matrix<3x*>; "
        "the cycle is `p` -> `t` -> `c` -> `p`",
        "2:5",
        ("`p` is a PastValue, 2:5", "`t` is a RowSlice, 3:5", "`c` is a Plus, 4:5"),
    ),
    "a criterion": Wrong(
        """\
        x = Input(3)
        s = SumElements(c)
        a = Scale(s, p)
        c = Plus(a, x)
        p = PastValue(3, c)
        """,
        "cycle: a cycle requires nodes with one column per step, got SumElements `s`, which is "
        "matrix<1x1> for all steps together; the cycle is `s` -> `a` -> `c` -> `s`",
        "2:5",
        ("`s` is a SumElements, 2:5", "`a` is a Scale, 3:5", "`c` is a Plus, 4:5"),
    ),
    "a node that looks at other steps": Wrong(
        """\
        x = Input(3)
        p = PastValue(3, c)
        r = TimeReverse(p)
        c = Plus(r, x)
        """,
        "cycle: a cycle is computed step by step, got TimeReverse `r`, which looks at other steps; "
        "the cycle is `r` -> `c` -> `p` -> `r`",
        "3:5",
        ("`r` is a TimeReverse, 3:5", "`c` is a Plus, 4:5", "`p` is a PastValue, 2:5"),
    ),
}


def report(text: str, training: bool = False) -> Diagnostic:
    """The only error of a network whose output, or criterion, is `c`."""
    with pytest.raises(gc.GraphcError) as raised:
        network = gc.loads(textwrap.dedent(text))
        if training:
            gc.compile_training(network, learner=gc.SGD(0.1), backend="reference")
        else:
            gc.compile(network, ["c"], backend="reference")
    (found,) = raised.value.diagnostics
    return found


def notes(found: Diagnostic) -> tuple[str, ...]:
    return tuple(f"{n.message}, {n.span.line}:{n.span.column}" for n in found.notes if n.span)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_cycle_is_named_node_by_node(name: str) -> None:
    wrong = WRONG[name]
    found = report(wrong.text)
    assert f"{found.slug}: {found.message}" == wrong.message
    assert found.span is not None
    assert f"{found.span.line}:{found.span.column}" == wrong.place
    assert notes(found) == wrong.notes


def test_the_nodes_of_a_macro_are_named_with_the_calls_that_made_them() -> None:
    found = report("""\
        Cell(x, s) {
            a = Plus(x, s)
            y = Sigmoid(a)
        }
        x = Input(3)
        h = Cell(x, c)
        c = Tanh(h)
        """)
    assert found.message.endswith("the cycle is `h.a` -> `h.y` -> `c` -> `h.a`")
    assert [n.span.line for n in found.notes if n.span] == [2, 3, 7, 6]


def test_a_cycle_cannot_train_a_node_that_normalises_by_the_minibatch() -> None:
    text = """\
        x = Input(3)
        l = Input(3)
        s = Parameter(3)
        p = PastValue(3, h)
        n = BatchNormalization(p, s, s0, m, v)
        s0 = Parameter(3)
        m = Parameter(3)
        v = Parameter(3)
        h = Plus(n, x)
        c = SquareError(l, h, tag=criterion)
        """
    found = report(text, training=True)
    assert (found.slug, found.message) == (
        "cycle",
        "training computes a cycle step by step, which requires `eval=true` of BatchNormalization, "
        "got BatchNormalization `n`, which needs all columns of the minibatch; "
        "the cycle is `n` -> `h` -> `p` -> `n`",
    )
    assert notes(found)[0] == "`n` is a BatchNormalization, 5:5"


def test_a_long_cycle_is_named_without_deep_recursion() -> None:
    lines = ["x = Input(2)", "n0 = Plus(c, x)"]
    lines += [f"n{i} = Sigmoid(n{i - 1})" for i in range(1, 3000)]
    found = report("\n".join([*lines, "c = Tanh(n2999)"]))
    assert len(notes(found)) == 3001


def test_a_product_that_reads_itself_is_an_error_too() -> None:
    net = gc.loads("x = Input(3)\nc = Times(c, x)\ny = Tanh(c, tag=output)")
    with pytest.raises(gc.GraphcError, match="Times requires a left operand"):
        gc.compile(net)
