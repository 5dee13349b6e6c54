"""Macros: their forms, what their bodies see, what they give, and what their nodes are called."""

from __future__ import annotations

import pytest

from graphc.support.diagnostics import DiagnosticSink
from graphc.support.source import SourceFile
from graphc_frontends.ndl.lexer import tokenize
from graphc_frontends.ndl.macros import Limits, collect_macros, within_limits
from graphc_frontends.ndl.parser import parse
from graphc_frontends.ndl.preprocess import preprocess
from tests.support.ndl import load, network, node, problem, problems

X = "x = Input(3)\n"


@pytest.mark.parametrize(
    "form",
    [
        "F(a, b) { t=Tanh(a); z=Plus(t, b) }",
        "F(a, b) [ t=Tanh(a); z=Plus(t, b) ]",
        "F(a, b) = { t=Tanh(a); z=Plus(t, b) }",
        "F(a, b) = [ t=Tanh(a); z=Plus(t, b) ]",
        "F(a, b)\n{\n  t=Tanh(a)\n  z=Plus(t, b)\n}",
        "F(a, b) =\n{\n  t=Tanh(a), z=Plus(t, b)\n}",
        "f ( a\n b )\n{ t=Tanh(a) z=Plus(t, b) }",
    ],
)
def test_a_body_stands_in_braces_or_brackets_with_or_without_equals(form: str) -> None:
    assert network(f"{X}{form}\ny=F(x, x)").splitlines()[1:] == [
        "y.t = tanh(x)",
        "y.z = plus(y.t, x)",
    ]


def test_a_macro_of_one_line_gives_its_expression() -> None:
    text = f"{X}RFF(x1, w1, b1)=RectifiedLinear(Plus(Times(w1,x1),b1))\ny=RFF(x, x, x)"
    assert network(text).splitlines()[1:] == [
        "y.unnamed1 = times(x, x)",
        "y.unnamed2 = plus(y.unnamed1, x)",
        "y.RFF = rectified_linear(y.unnamed2)",
    ]


def test_a_macro_without_arguments() -> None:
    assert network("F() = Input(3)\nx=F()") == "x.F = input() rows=3"


def test_a_body_may_call_without_a_name() -> None:
    assert network(f"{X}F(a) = {{ Tanh(a) }}\ny=F(x)").endswith("y.unnamed1 = tanh(x)")


def test_a_macro_may_be_defined_after_its_use() -> None:
    text = f"{X}y=F(x)\nF(a)=G(a)\nG(a)=Tanh(a)"
    assert network(text).endswith("y.F.G = tanh(x)")


def test_several_definitions_may_share_a_line() -> None:
    assert network("F(a)=Tanh(a) G(a)={z=Log(a)} x=Input(3) y=F(x)").endswith("y.F = tanh(x)")


def test_a_macro_returns_what_has_its_own_name() -> None:
    text = f"{X}FF(a) {{ ff=Tanh(a); z=Log(a) }}\ny=Exp(FF(x))"
    assert "y = exp(unnamed1.ff)" in network(text)


def test_a_macro_returns_its_last_statement_otherwise() -> None:
    assert "y = exp(unnamed1.z)" in network(f"{X}F(a) {{ t=Tanh(a); z=Log(a) }}\ny=Exp(F(x))")


def test_a_macro_may_return_its_argument() -> None:
    assert network(f"{X}Same(a) = a\ny=Tanh(Same(x))").endswith("y = tanh(x)")


def test_a_macro_may_return_a_number() -> None:
    assert network("Three() = 3\nn=Three()\nx=Input(n)") == "x = input() rows=3"


def test_nodes_of_nested_calls_carry_the_whole_path() -> None:
    text = f"""{X}
        FF(X1, W1, B1) {{ T=Times(W1, X1); FF=Plus(T, B1) }}
        BFF(in, rows, cols) {{ B=Parameter(rows); W=Parameter(rows, cols); BFF=FF(in, w, b) }}
        L1 = BFF(x, 2, 3)
    """
    assert network(text).splitlines()[1:] == [
        "L1.B = parameter() rows=2",
        "L1.W = parameter() rows=2 cols=3",
        "L1.BFF.T = times(L1.W, x)",
        "L1.BFF.FF = plus(L1.BFF.T, L1.B)",
    ]


def test_a_call_inside_a_call_gets_a_path_of_its_own() -> None:
    assert "z = log(unnamed1.F)" in network(f"{X}F(a)=Tanh(a)\nz=Log(F(x))")


def test_the_name_of_a_call_means_the_node_it_gives() -> None:
    assert network(f"{X}F(a) {{ t=Tanh(a) }}\nL=F(x)\ny=Log(L)").endswith("y = log(L.t)")


def test_a_dotted_name_reaches_into_a_call() -> None:
    text = f"{X}F(a) {{ t=Tanh(a); z=Log(t) }}\nL=F(x)\ny=Exp(L.T)\nOutputNodes=(L.t)"
    assert network(text).splitlines()[1:] == [
        "L.t = tanh(x) #output",
        "L.z = log(L.t)",
        "y = exp(L.t)",
    ]


def test_dotted_names_reach_several_calls_deep() -> None:
    text = f"{X}F(a) {{ t=Tanh(a); z=Log(t) }}\nG(a) {{ F=F(a); z=Exp(F.t) }}\nL=G(x)\ny=Exp(L.F.t)"
    assert network(text).endswith("L.z = exp(L.F.t)\ny = exp(L.F.t)")


def test_a_dotted_name_may_end_at_a_call_and_means_its_node() -> None:
    text = f"{X}BFF(a) {{ t=Tanh(a); BFF=Log(t) }}\nS(a) {{ BFF=BFF(a); z=Exp(BFF) }}\nCE=S(x)\n"
    assert network(f"{text}y=Negate(CE.BFF)").endswith("y = negate(CE.BFF.BFF)")


def test_a_dotted_name_may_leave_out_the_call_that_was_returned() -> None:
    text = f"{X}FF(a) {{ T=Tanh(a); FF=Log(T) }}\nBFF(a) {{ BFF=FF(a) }}\nL=BFF(x)\n"
    assert network(f"{text}y=Exp(L.T)").endswith("y = exp(L.BFF.T)")


def test_a_dotted_name_may_come_before_the_call() -> None:
    text = f"{X}F(a) {{ t=Tanh(a); z=Log(t) }}\ny=Exp(L.t)\nL=F(x)"
    assert "y = exp(L.t)" in network(text)


def test_a_dotted_number_of_a_call_is_a_number() -> None:
    assert network(f"{X}F(a) {{ n=4; z=Log(a) }}\nL=F(x)\nw=Parameter(L.n)").endswith("rows=4")


def test_a_dotted_name_without_a_meaning_is_reported() -> None:
    text = f"{X}F(a) {{ first=Tanh(a) }}\nL=F(x)\ny=Exp(L.fist)"
    assert problem(text) == (
        "4:7-13 undefined-name: `L.fist` is not defined; did you mean `L.first`?"
    )


def test_a_dotted_name_reaches_through_an_argument() -> None:
    text = f"{X}F(a) {{ t=Tanh(a); z=Log(t) }}\nG(m) = Exp(m.t)\nL=F(x)\ny=G(L)"
    assert network(text).endswith("y.G = exp(L.t)")


def test_a_body_does_not_see_the_numbers_of_the_script() -> None:
    (found,) = load(f"{X}H=3\nF(a) = Parameter(H)\ny=F(x)").sink.diagnostics
    assert found.message == "`H` has to be a number defined before it is used here"


def test_a_body_does_not_see_the_variables_of_its_caller() -> None:
    text = f"{X}F(a) = Tanh(inner)\nG(a) {{ inner=Log(a); z=F(a) }}\ny=G(x)"
    assert problem(text).startswith("2:13-18 undefined-name: `inner` is not defined")


def test_a_body_sees_nodes_of_the_network_by_their_full_name() -> None:
    text = f"{X}F(a) = Plus(a, x)\nG(a) = Plus(a, y.F)\ny=F(x)\nz=G(x)"
    assert network(text).endswith("y.F = plus(x, x)\nz.G = plus(x, y.F)")


def test_a_body_sees_nodes_that_the_script_makes_later() -> None:
    assert network(f"{X}F(a) = Plus(a, w)\ny=F(x)\nw=Tanh(x)").splitlines()[1] == (
        "y.F = plus(x, w)"
    )


def test_a_name_that_the_body_assigns_is_the_bodys_own() -> None:
    text = f"{X}h=Log(x)\nF(a) {{ p=PastValue(3, h); h=Plus(a, p) }}\ny=F(x)"
    assert network(text).splitlines()[2:] == [
        "y.p = past_value(y.h) rows=3",
        "y.h = plus(x, y.p)",
    ]


def test_a_name_of_the_script_that_a_body_cannot_see_is_explained() -> None:
    (found,) = load(f"{X}F(a) {{ t=Tanh(a) }}\nL=F(x)\nG(a)=Log(L)\ny=G(x)").sink.diagnostics
    assert found.message == "`L` is not defined"
    assert [note.message for note in found.notes] == [
        "`L` of the script is not seen in a macro; make it an argument",
        "in the macro called here",
    ]


def test_a_loop_may_be_closed_through_an_argument() -> None:
    text = f"{X}Cell(a, past) {{ s=Plus(a, past); Cell=Tanh(s) }}\n"
    text += "h=Cell(x, p)\np=PastValue(3, h)"
    assert network(text).splitlines()[1:] == [
        "h.s = plus(x, p)",
        "h.Cell = tanh(h.s)",
        "p = past_value(h.Cell) rows=3",
    ]


def test_arguments_may_be_named_like_functions() -> None:
    text = f"{X}RBFF(input, log) {{ t=Log(input); Tanh=Plus(t, log) }}\ny=RBFF(x, x)"
    assert network(text).endswith("y.t = log(x)\ny.Tanh = plus(y.t, x)")


def test_a_variable_may_have_the_name_of_a_macro() -> None:
    assert network(f"{X}F(a)=Tanh(a)\nF=F(x)\ny=Log(F)").endswith("F.F = tanh(x)\ny = log(F.F)")


def test_a_named_argument_becomes_a_variable_of_the_body() -> None:
    text = "F(r) = Parameter(r, init=how, value=v)\nw=F(3, how=fixedValue, v=2)"
    assert network(text) == "w.F = parameter() rows=3 init=fixed_value value=2.0"


def test_a_named_argument_wins_over_the_assignment_in_the_body() -> None:
    text = "F(r) { how=uniform; w=Parameter(r, init=how) }\n"
    assert network(f"{text}a=F(3)") == "a.w = parameter() rows=3 init=uniform"
    assert network(f"{text}a=F(3, how=gaussian)") == "a.w = parameter() rows=3 init=gaussian"


def test_a_named_argument_may_share_a_node() -> None:
    text = f"{X}F(a) {{ W=Parameter(3, 3); z=Times(W, a) }}\nV=Parameter(3, 3)\ny=F(x, W=V)"
    assert network(text).endswith("y.z = times(V, x)")


def test_a_named_argument_that_the_body_does_not_use_is_reported() -> None:
    assert problem("F(rows) = Parameter(rows)\nw=F(3, row=2)") == (
        "2:8-11 bad-option: the macro `F` takes no `row`, it is ignored; did you mean `rows`?"
    )


def test_a_tag_on_a_macro_call_goes_to_the_node_it_gives() -> None:
    text = f"{X}F(a) {{ t=Tanh(a); F=Log(t); u=Exp(a) }}\ny=F(x, tag=criteria)"
    assert network(text).splitlines()[1:] == [
        "y.t = tanh(x)",
        "y.F = log(y.t) #criterion",
        "y.u = exp(x)",
    ]


def test_a_tag_may_come_from_an_argument() -> None:
    assert network("F(r) = Input(r, tag=role)\nx=F(3, role=label)").endswith("#label")


def test_an_alias_inside_a_body_does_not_rename_the_argument() -> None:
    assert network(f"{X}F(a) {{ b=a; z=Tanh(b) }}\ny=F(x)").endswith("y.z = tanh(x)")


def test_an_alias_of_a_call_keeps_the_dotted_names() -> None:
    text = f"{X}F(a) {{ t=Tanh(a); z=Log(t) }}\nL=F(x)\nM=L\ny=Exp(M.t)"
    assert network(text).endswith("L.t = tanh(x)\nL.z = log(L.t)\ny = exp(L.t)")


@pytest.mark.parametrize(
    ("call", "got"), [("F(x)", 1), ("F(x, x, x)", 3), ("F()", 0), ("F(x, b=x)", 1)]
)
def test_a_call_has_as_many_arguments_as_the_macro(call: str, got: int) -> None:
    text = f"{X}F(a, b) = Plus(a, b)\ny={call}"
    assert problem(text) == (
        f"3:3-{3 + len(call)} argument-count: the macro `F(a, b)` takes 2 arguments, got {got}"
    )


def test_a_macro_that_calls_itself_is_refused() -> None:
    assert problem(f"{X}F(a) = Tanh(F(a))\ny=F(x)") == (
        "2:13-17 recursion: a macro cannot call itself, got F -> F"
    )


def test_macros_that_call_each_other_in_a_circle_are_refused() -> None:
    text = "A(x) = B(x)\nB(x) { u=C(x); t=D(x) }\nC(x) = Tanh(x)\nD(x) = Log(A(x))"
    assert problem(text) == "1:8-12 recursion: a macro cannot call itself, got A -> B -> D -> A"


def test_the_shortest_circle_is_named() -> None:
    text = "A(x) { t=B(x); u=C(x) }\nB(x) = C(x)\nC(x) = A(x)"
    assert problem(text) == "1:18-22 recursion: a macro cannot call itself, got A -> C -> A"


def test_a_macro_is_defined_once() -> None:
    (found,) = load("F(a)=Tanh(a)\nf(a, b)=Plus(a, b)").sink.diagnostics
    assert (found.slug, found.message) == (
        "duplicate-name",
        "the macro `f` is already defined",
    )
    assert [str(note.span) for note in found.notes] == ["net.ndl:1:1"]


def test_a_macro_may_not_replace_a_function_of_the_book() -> None:
    assert problem("Relu(a)=Tanh(a)") == (
        "1:1-5 duplicate-name: `Relu` is a function of NDL, a macro needs another name"
    )


def test_a_macro_may_take_the_name_of_a_function_that_came_later() -> None:
    assert network(f"{X}Logistic(a)=Sigmoid(a)\ny=Logistic(x)").endswith("sigmoid(x)")


def test_an_argument_is_named_once() -> None:
    assert problem("F(a, A) = Tanh(a)") == "1:6-7 duplicate-name: `A` is already defined"


def test_an_argument_is_not_assigned_in_the_body() -> None:
    assert problem(f"{X}F(a) {{ a=Tanh(a) }}\ny=F(x)") == (
        "2:8-9 duplicate-name: `a` is already defined"
    )


def test_a_macro_in_a_macro_is_refused() -> None:
    assert problem("F(a) { G(b) = Tanh(b) \n z=Log(a) }") == (
        "1:8-9 parse: `F` cannot contain a macro, got `G`"
    )


def test_an_empty_body_is_refused() -> None:
    assert problem("F(a) { }") == "1:1-2 parse: the macro `F` needs a statement to return"


def test_a_special_list_in_a_macro_is_refused() -> None:
    assert problem(f"{X}F(a) {{ z=Tanh(a); OutputNodes=(z); F=z }}\ny=F(x)") == (
        "2:19-30 unknown-tag: `OutputNodes` belongs to the script, got it in a macro"
    )


def test_a_mistake_in_a_macro_is_reported_once_with_the_way_to_it() -> None:
    text = f"{X}F(a) = Tanh(b)\nG(a) = F(a)\ny=G(x)\nz=G(x)"
    (found,) = load(text).sink.diagnostics
    assert (found.slug, str(found.span)) == ("undefined-name", "net.ndl:2:13")
    assert [str(note.span) for note in found.notes] == ["net.ndl:3:8", "net.ndl:4:3"]


def test_a_macro_that_is_never_called_may_use_what_is_not_supported() -> None:
    assert network(f"{X}F(a) = PairNetwork(a)") == "x = input() rows=3"


def test_what_a_broken_call_gives_is_not_complained_about() -> None:
    text = (
        f"{X}F(a) {{ t=PairNetwork(a); z=Tanh(t) }}\nL=F(x)\ny=Plus(L, L.t)\nOutputNodes=(y, L.z)"
    )
    assert [p.split(":")[1] for p in problems(text)] == ["10-24 not-supported"]


def test_a_node_of_a_macro_knows_the_calls_that_led_to_it() -> None:
    location = node(f"{X}F(a) = Tanh(a)\nG(a) = F(a)\ny=G(x)", "y.G.F").location
    assert str(location) == "net.ndl:2:8"
    assert [str(span) for span in location.call_path()] == ["net.ndl:3:8", "net.ndl:4:3"]


# --- limits ----------------------------------------------------------------------------------


def chain(length: int) -> str:
    """Macros M0, M1, … each of which calls the next one, `length` in all."""
    links = "".join(f"M{i}(x)=M{i + 1}(x)\n" for i in range(length - 1))
    return f"{links}M{length - 1}(x)=Tanh(x)\n"


def test_macros_may_call_each_other_sixty_four_deep_and_no_deeper() -> None:
    assert network(f"{X}{chain(64)}y=M0(x)").endswith(".M63 = tanh(x)")
    found = problem(f"{X}{chain(65)}y=M0(x)")
    assert "limit: macros may call each other 64 deep, got 65" in found


def test_an_exploding_expansion_is_refused_before_it_starts() -> None:
    doubling = "M0(x)=Tanh(x)\n" + "".join(f"M{i}(x)=M{i - 1}(M{i - 1}(x))\n" for i in range(1, 40))
    assert "limit: macros may expand to 1000000 calls in all" in problem(f"{X}{doubling}y=M39(x)")


@pytest.mark.parametrize(("calls", "fits"), [(7, True), (6, False)])
def test_the_calls_of_an_expansion_are_counted_exactly(calls: int, fits: bool) -> None:
    sink = DiagnosticSink()
    source = "F(a)=Tanh(Log(a))\nx=Input(3)\ny=F(x)\nz=F(x)"
    plain = preprocess(SourceFile("net.ndl", source), {}, sink)
    block = parse(tokenize(plain, sink), plain, sink).block
    table = collect_macros(block.macros, sink)
    # Input, and twice: the call of F, Tanh and Log.
    assert within_limits(block.statements, table, Limits(calls=calls), sink) is fits
    assert sink.has_errors is not fits
