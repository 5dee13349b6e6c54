"""Statements of a script: calls, numbers, other names, lists, forward references, sections."""

from __future__ import annotations

import pytest

from tests.support.ndl import load, network, node, problem, problems

X = "x = Input(3)\n"


def test_a_call_makes_a_node_of_the_name_on_the_left() -> None:
    assert network("Features = Input(3)") == "Features = input() rows=3"


def test_a_variable_stands_for_its_number() -> None:
    assert network("HDim=256\nb=Parameter(hdim)") == "b = parameter() rows=256"


def test_another_name_of_a_number_is_that_number() -> None:
    assert network("A=256\nB=A\nb1=Parameter(B)") == "b1 = parameter() rows=256"


def test_another_name_of_a_node_renames_it() -> None:
    assert network(f"{X}a=Tanh(x)\nb=a\nc=Log(a)") == (
        "x = input() rows=3\nb = tanh(x)\nc = log(b)"
    )


def test_the_last_alias_gives_the_name() -> None:
    assert "\nd = tanh(x)" in network(f"{X}a=Tanh(x)\nb=a\nc=b\nd=a")


def test_a_special_list_is_no_alias() -> None:
    assert network(f"{X}a=Tanh(x)\nOutputNodes=a").endswith("a = tanh(x) #output")


def test_an_alias_may_come_before_its_node() -> None:
    assert network(f"{X}y=Tanh(b)\nb=a\na=Log(x)").endswith("y = tanh(b)\nb = log(x)")


def test_nested_calls_are_made_from_the_innermost_out() -> None:
    assert network(f"{X}y=Plus(Tanh(Log(x)), x)").splitlines()[1:] == [
        "unnamed1 = log(x)",
        "unnamed2 = tanh(unnamed1)",
        "y = plus(unnamed2, x)",
    ]


def test_unnamed_nodes_leave_the_names_of_the_script_free() -> None:
    text = f"{X}y=Tanh(Log(x))\nunnamed1=Exp(x)"
    assert network(text).splitlines()[1:] == [
        "unnamed2 = log(x)",
        "y = tanh(unnamed2)",
        "unnamed1 = exp(x)",
    ]


def test_a_number_as_a_node_becomes_a_constant() -> None:
    assert network(f"{X}y=Scale(0.5, x)").splitlines()[1:] == [
        "unnamed1 = constant() value=0.5",
        "y = scale(unnamed1, x)",
    ]


def test_a_variable_as_a_node_becomes_a_constant() -> None:
    assert "constant() value=0.5\ny = scale(" in network(f"{X}c=0.5\ny=Scale(c, x)")


def test_a_later_number_as_a_node_becomes_a_constant() -> None:
    assert node(f"{X}y=Scale(c, x)\nc=0.5", "y").operands[0].settings == {"value": 0.5}  # type: ignore[union-attr]


def test_a_node_may_be_used_before_it_is_defined() -> None:
    text = f"{X}h=Plus(x, p)\np=PastValue(3, h)"
    assert network(text).splitlines()[1:] == ["h = plus(x, p)", "p = past_value(h) rows=3"]


def test_a_number_has_to_be_defined_before_it_is_used() -> None:
    found = load("b=Parameter(H)\nH=3").sink.diagnostics
    assert [d.message for d in found] == ["`H` has to be a number defined before it is used here"]
    assert [(n.message, str(n.span)) for n in found[0].notes] == [
        ("it is defined here", "net.ndl:2:1")
    ]


def test_a_name_is_defined_once() -> None:
    (found,) = load(f"{X}X = Tanh(x)").sink.diagnostics
    assert (found.slug, found.message) == ("duplicate-name", "`X` is already defined")
    assert [str(note.span) for note in found.notes] == ["net.ndl:1:1"]


def test_an_undefined_name_is_reported_where_it_stands() -> None:
    text = "hidden=Input(3)\ny=Plus(hiden, hidden)"
    assert problem(text) == (
        "2:8-13 undefined-name: `hiden` is not defined; did you mean `hidden`?"
    )


def test_an_alias_of_nothing_is_reported_even_if_nobody_uses_it() -> None:
    assert problem("a = b") == "1:5-6 undefined-name: `b` is not defined"
    assert problem(f"{X}a = (x, b)") == "2:9-10 undefined-name: `b` is not defined"


def test_names_that_only_stand_for_each_other_are_reported() -> None:
    message = "stands for names that only stand for each other"
    assert problem("a=b\nb=a") == f"1:3-4 cycle: `b` {message}"


def test_a_name_may_stand_for_another_one_however_far_away() -> None:
    lines = [f"x{i} = x{i + 1}" for i in range(5_000)]
    text = "\n".join(["y = Tanh(x0)", *lines, "x5000 = Input(3)"])
    assert network(text) == "y = tanh(x4999)\nx4999 = input() rows=3"


def test_a_circle_of_names_is_told_from_a_long_way() -> None:
    lines = [f"x{i} = x{(i + 1) % 300}" for i in range(300)]
    found = problems("\n".join([*lines, "y = Tanh(x7)"]))
    assert all(line.endswith("stands for names that only stand for each other") for line in found)
    assert found


def test_a_list_holds_names_and_numbers() -> None:
    assert network(f"{X}both=(x, y)\ny=Tanh(x)\nOutputNodes=both").endswith("y = tanh(x) #output")


def test_a_list_is_no_operand() -> None:
    text = f"{X}l=(x,x)\ny=Tanh(l)"
    assert problem(text) == "3:8-9 argument-type: a node is required, got a list"


def test_a_call_in_a_list_is_refused() -> None:
    assert problem(f"{X}OutputNodes=(Tanh(x))") == (
        "2:14-18 argument-type: a list holds names, got a call of `Tanh`; name it first"
    )


def test_a_call_without_a_name_is_refused_in_the_script() -> None:
    assert problem(f"{X}Tanh(x)") == (
        "2:1-8 parse: a call outside of macros needs a name: `name = Tanh(...)`"
    )


def test_a_dotted_name_cannot_be_assigned() -> None:
    assert problem("a.b = 3") == "1:1-4 parse: a name with dots cannot be defined, got `a.b`"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y=Plus(x, x", "2:7-8 parse: `(` is never closed"),
        ("y=Plus(x, x\nz=Tanh(x)", "2:7-8 parse: `(` is never closed"),
        ("y=Plus(x, x\nOutputNodes=(x)", "2:7-8 parse: `(` is never closed"),
        ("y=Plus(x, x; z=Tanh(x)", "2:7-8 parse: `(` is never closed"),
        ("y=Plus(x, x))", "2:13-14 parse: `)` closes nothing"),
        ("]", "2:1-2 parse: `]` closes nothing"),
        ("M(a) { b=Tanh(a)", "2:6-7 parse: `{` is never closed"),
        ("M(a) { b=Tanh(a) ]", "2:18-19 parse: `}` is required, got `]`"),
        ("OutputNodes=(x", "2:13-14 parse: `(` is never closed"),
        ("s=[ a=3", "2:3-4 parse: `[` is never closed"),
    ],
)
def test_unbalanced_brackets_are_reported_at_the_bracket(text: str, expected: str) -> None:
    assert problem(X + text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("= 3", "1:1-2 parse: a statement `name = ...` is required, got `=`"),
        ("a =", "1:4-5 parse: a name, number or call is required, got the end of the text"),
        ("a = = 3", "1:5-6 parse: a name, number or call is required, got `=`"),
        ("a 3", "1:3-4 parse: `=` after `a` is required, got `3`"),
        ("a = {", "1:5-6 parse: a name, number or call is required, got `{`"),
        ("3 = a", "1:1-2 parse: a statement `name = ...` is required, got `3`"),
    ],
)
def test_stray_tokens_are_reported(text: str, expected: str) -> None:
    assert problem(text) == expected


def test_the_parser_goes_on_after_each_mistake() -> None:
    text = "a = (\nb = Plus(x,,y)\nc = 3 4\nd = Tanh(\ne = Log(x)) f = Exp(x"
    assert [p.split()[0] for p in problems(text)] == [
        "1:5-6",
        "2:12-13",
        "3:7-8",
        "4:9-10",
        "5:11-12",
    ]


def test_calls_may_be_nested_two_hundred_deep_and_no_deeper() -> None:
    deep = "y=" + "Tanh(" * 200 + "x" + ")" * 200
    assert len(network(X + deep).splitlines()) == 201
    deeper = "y=" + "Tanh(" * 201 + "x" + ")" * 201
    assert "limit: calls may be nested 200 deep, got one more" in problem(X + deeper)


def test_a_node_knows_the_place_of_its_call() -> None:
    location = node(f"{X}  y = Plus( x,\n x)", "y").location
    assert location.span is not None
    assert (str(location.span), location.span.end_column) == ("net.ndl:2:7", 15)


def test_nested_calls_and_constants_have_places_of_their_own() -> None:
    plus = node(f"{X}y = Plus(Tanh(x), 5)", "y")
    assert [str(o.location.span) for o in plus.operands if o] == ["net.ndl:2:10", "net.ndl:2:19"]


# --- sections: load= and run= -----------------------------------------------------------------


def test_load_and_run_name_the_sections_that_count() -> None:
    text = """
        load=ndlMacros
        run=create
        ndlMacros=[
            F(a) = Tanh(a)
            H=3
        ]
        other=[ x=Input(4) ]
        create=[
            x=Input(H)
            y=F(x)
        ]
    """
    assert network(text) == "x = input() rows=3\ny.F = tanh(x)"


def test_several_sections_are_separated_by_colons() -> None:
    text = "run=a:b\nb[ y=Tanh(x) ]\na[ x=Input(3) ]"
    assert network(text) == "x = input() rows=3\ny = tanh(x)"


def test_a_define_chooses_another_section() -> None:
    text = "run=a\na=[ x=Input(3) ]\nb=[ z=Input(4) ]"
    assert network(text, defines={"run": "b"}) == "z = input() rows=4"


def test_a_section_that_does_not_exist_is_reported() -> None:
    assert problem("run=creat\ncreate=[ x=Input(3) ]") == (
        "1:5-10 undefined-name: the file has no section `creat`; did you mean `create`?"
    )


def test_sections_need_a_key_that_runs_them() -> None:
    assert problem("create=[ x=Input(3) ]") == (
        "1:1-7 parse: a file with sections names those to run, as in `run=create`"
    )


def test_a_section_is_defined_once() -> None:
    text = "run=a\na=[ x=Input(3) ]\nA=[ x=Input(4) ]"
    assert problem(text) == "3:1-2 duplicate-name: `A` is already defined"


def test_statements_outside_of_the_sections_are_left_out_with_a_warning() -> None:
    builder = load("z=3\nrun=a\na=[ x=Input(3) ]")
    assert str(builder) == "x = input() rows=3"
    assert [(d.severity.value, d.message) for d in builder.sink.diagnostics] == [
        ("warning", "`z` is in no section, so it is left out")
    ]


@pytest.mark.parametrize(
    ("broken", "mistake"),
    [
        ("w = = 3", "1:14-15 parse: {}a name, number or call is required, got `=`"),
        ("F(x) { y = ( }", "1:21-22 parse: {}`(` is never closed"),
        ("a = Tanh(x", "1:18-19 parse: {}`(` is never closed"),
        ("x = 1.2.3", "1:14-19 lexical: {}a number is written like 12, -0.5 or 1e-3"),
        ("x = Input($n$)", "1:20-23 undefined-name: {}`$n$` is given no value by any define"),
        ("a = [ b = ( ]", "1:14-15 parse: {}a name, number or call is required, got `[`"),
    ],
)
def test_a_mistake_in_a_section_matters_only_where_it_is_run(broken: str, mistake: str) -> None:
    text = f"other = [{broken} ]\nrun = net\nnet = [ x = Input(3); F(a) = Tanh(a); y = F(x) ]\n"
    builder = load(text)
    assert str(builder) == "x = input() rows=3\ny.F = tanh(x)"
    assert [d.severity.value for d in builder.sink.diagnostics] == ["warning"]
    warned = "the section `other`, which is not run, cannot be read: "
    assert problem(text).startswith(mistake.format(warned))
    of_run = problems(text, defines={"run": "other"})
    assert any(line.startswith(mistake.format("")) for line in of_run)
    assert load(text, defines={"run": "other"}).sink.has_errors


def test_many_mistakes_of_a_section_that_is_not_run_are_one_warning() -> None:
    text = "run=net\nother=[\n" + "a b\n" * 3_000 + "]\nnet=[ x=Input(3) ]"
    assert problem(text).endswith("`=` after `a` is required, got `b` (and 1000 more)")


def test_sections_of_a_macro_file_are_not_run() -> None:
    macros = [("a.ndl", "broken=[ a b ]\nF(x)=Tanh(x)")]
    builder = load("x=Input(3)\ny=F(x)", macros=macros)
    assert [d.severity.value for d in builder.sink.diagnostics] == ["warning"]
    assert builder.find("y.F") is not None


def test_a_section_that_is_never_closed_is_a_mistake_wherever_it_is() -> None:
    assert "3:6-7 parse: `[` is never closed" in problems("run=net\nnet=[ x=Input(3) ]\nbad= [ y=3")


# --- texts without nodes ------------------------------------------------------------------------


def test_a_text_of_macros_alone_says_what_it_is_for() -> None:
    text = "A(x) = Tanh(x)\nB(x) = A(x)\nDim = 3"
    builder = load(text)
    assert [d.severity.value for d in builder.sink.diagnostics] == ["warning"]
    assert problem(text) == (
        "1:1-2 missing-node: net.ndl makes no nodes, it only defines macros (`A`, `B`): give it "
        "beside a network that calls them, by `--macros` or, in Python, `macros=`"
    )
    assert not load("y = B(Input(3))", macros=[("a.ndl", text)]).sink.diagnostics


@pytest.mark.parametrize("text", ["", "# nothing", "Dim = 3"])
def test_a_text_without_nodes_is_warned_of(text: str) -> None:
    assert problem(text) == "0:0-0 missing-node: net.ndl makes no nodes"


def test_a_text_with_mistakes_is_not_warned_of_besides() -> None:
    assert problem("a = b") == "1:5-6 undefined-name: `b` is not defined"


# --- other texts and defines ------------------------------------------------------------------


def test_macro_texts_are_read_before_the_script() -> None:
    macros = [("a.ndl", "F(x) = Tanh(x)"), ("b.ndl", "H = 3\nG(x) = F(x)")]
    assert network("x=Input(H)\ny=G(x)", macros=macros) == "x = input() rows=3\ny.G.F = tanh(x)"


def test_a_define_replaces_the_name_between_dollars() -> None:
    assert network("x=Input($HDim$)", defines={"hdim": 64}) == "x = input() rows=64"


def test_a_define_may_hold_more_than_one_argument() -> None:
    text = "w=Parameter($shape$)"
    assert network(text, defines={"shape": "2, 3"}) == "w = parameter() rows=2 cols=3"


def test_defines_may_use_each_other() -> None:
    text = "x=Input($a$)"
    assert network(text, defines={"a": "1$b$", "b": 2}) == "x = input() rows=12"


def test_defines_that_use_each_other_in_a_circle_are_refused() -> None:
    assert "limit: " in problem("a=$a$ b=$a$"[:5], defines={"a": "$b$", "b": "$a$"})


def test_a_define_reaches_into_quotes_but_not_into_comments() -> None:
    text = 'w=Parameter(2, init=fromFile, initFromFilePath="$Dir$/w.txt") # $Unknown$'
    assert "init_from_file_path=/data/w.txt" in network(text, defines={"Dir": "/data"})


def test_an_unknown_define_is_reported_with_the_near_name() -> None:
    assert problem("x=Input($HDin$) # HDim", defines={"HDim": 3}) == (
        "1:9-15 undefined-name: `$HDin$` is given no value by any define; did you mean `hdim`?"
    )


def test_a_dollar_alone_is_reported() -> None:
    assert "lexical: a variable is written `$name$`, got a `$` alone" in problem("x=Input(3)$")


def test_mistakes_in_replaced_text_are_reported_at_the_dollars() -> None:
    assert problem("x=Input($n$)", defines={"n": "y"}).startswith("1:9-12 undefined-name: `y`")


def test_places_after_a_replacement_are_those_of_the_file() -> None:
    assert problem("x=Input($n$) y=Tanh(z)", defines={"n": 1000}).startswith("1:21-22 ")


def test_a_define_is_a_variable_that_the_script_need_not_assign() -> None:
    assert network("x=Input(HDim)", defines={"HDim": 64}) == "x = input() rows=64"


def test_a_define_wins_over_the_assignment_of_the_script() -> None:
    text = "HDim=256\nHalf=HDim\nx=Input(Half)"
    assert network(text, defines={"hdim": 64}) == "x = input() rows=64"


def test_a_define_cannot_replace_a_node() -> None:
    assert problem("x=Input(3)", defines={"x": 64}) == (
        "1:1-2 argument-type: a define can only replace a number, `x` is given by a call"
    )


def test_a_define_does_not_replace_a_special_list() -> None:
    assert network(f"{X}OutputNodes=(x)", defines={"OutputNodes": "y"}).endswith("#output")


def test_a_define_is_not_seen_in_a_macro() -> None:
    text = "M(a) = Parameter(H)\ny=M(1)"
    assert problem(text, defines={"H": 3}).startswith("1:18-19 undefined-name")


def test_a_define_may_be_a_word_for_an_option() -> None:
    text = "w=Parameter(3, init=how)"
    assert network(text, defines={"how": "Gaussian"}) == "w = parameter() rows=3 init=gaussian"


def test_a_define_of_a_keyword_does_not_change_the_keyword() -> None:
    text = "w=Parameter(3, init=gaussian, tag=output)"
    assert network(text, defines={"output": "/out", "gaussian": 3}).endswith("#output")


def test_a_define_that_is_used_nowhere_is_warned_of() -> None:
    builder = load("HDim=3\nx=Input(HDim)", defines={"HDmi": 64})
    assert [(d.severity.value, d.message) for d in builder.sink.diagnostics] == [
        ("warning", "the define `hdmi` is used nowhere; did you mean `HDim`?")
    ]


def test_a_define_is_a_number_or_text() -> None:
    assert "bad-value: the define `H` has to be a number or text, got a list" in problem(
        "x=Input(3)", defines={"H": [1]}
    )


def test_a_define_has_one_line() -> None:
    assert "bad-value: the define `h` has to be one line, got several" in problem(
        "x=Input($h$)", defines={"h": "1\n2"}
    )
