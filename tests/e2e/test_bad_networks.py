"""Networks and model files that are wrong, through the functions that users call.

Every mistake is one diagnostic with its exact place, all of a file are reported at once, and
nothing but GraphcError comes out.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.model.container import write_container
from graphc.support.diagnostics import Diagnostic
from tests.support.networks import classifier


def report(text: str, outputs: list[str] | None = None, **options: object) -> list[Diagnostic]:
    """What loading and then compiling the text report."""
    with pytest.raises(gc.GraphcError) as raised:
        network = gc.loads(textwrap.dedent(text), **options)  # type: ignore[arg-type]
        gc.compile(network, outputs or [], backend="reference")
    return list(raised.value.diagnostics)


def lines(found: list[Diagnostic]) -> list[str]:
    """`line:column slug: message` of each, by place."""
    by_place = sorted(found, key=lambda d: (d.span.line, d.span.column) if d.span else (0, 0))
    return [
        f"{d.span.line}:{d.span.column} {d.slug}: {d.message}"
        if d.span
        else f"{d.slug}: {d.message}"
        for d in by_place
    ]


def notes(diagnostic: Diagnostic) -> list[str]:
    return [f"{n.message}, {n.span.line}:{n.span.column}" for n in diagnostic.notes if n.span]


# --- one mistake each ----------------------------------------------------------------------------

MISTAKES = {
    "undefined name": (
        """\
        features = Input(3)
        y = Sigmoid(feature)
        """,
        "2:13 undefined-name: `feature` is not defined; did you mean `features`?",
    ),
    "doubly defined name": (
        """\
        x = Input(3)
        y = Sigmoid(x)
        Y = Tanh(x)
        """,
        "3:1 duplicate-name: `Y` is already defined",
    ),
    "doubly defined macro": (
        """\
        M(a) { y = Sigmoid(a) }
        x = Input(3)
        m(a) { y = Tanh(a) }
        z = M(x)
        """,
        "3:1 duplicate-name: the macro `m` is already defined",
    ),
    "unknown function": (
        """\
        x = Input(3)
        y = Sigmoyd(x)
        """,
        "2:5 unknown-function: `Sigmoyd` is no function and no macro; did you mean `Sigmoid`?",
    ),
    "unknown function near a macro": (
        """\
        DNNLayer(x) { y = Sigmoid(x) }
        x = Input(3)
        y = DNLayer(x)
        """,
        "3:5 unknown-function: `DNLayer` is no function and no macro; did you mean `DNNLayer`?",
    ),
    "too many arguments": (
        """\
        x = Input(3)
        y = Sigmoid(x, x)
        """,
        "2:5 argument-count: `Sigmoid(x)` takes 1 argument, got 2",
    ),
    "too few arguments": (
        """\
        x = Input(3)
        y = Plus(x)
        """,
        "2:5 argument-count: `Plus(a, b)` takes 2 arguments, got 1",
    ),
    "wrong count for a macro": (
        """\
        M(a, b) { y = Plus(a, b) }
        x = Input(3)
        y = M(x)
        """,
        "3:5 argument-count: the macro `M(a, b)` takes 2 arguments, got 1",
    ),
    "macro that calls itself": (
        """\
        A(x) { y = B(x) }
        B(x) { y = A(x) }
        x = Input(3)
        z = A(x)
        """,
        "1:12 recursion: a macro cannot call itself, got A -> B -> A",
    ),
    "a name in quotes that no node has": (
        """\
        x = Input(3)
        y = Plus(x, "abc")
        """,
        "2:13 undefined-name: `abc` is not defined",
    ),
    "node where a number is needed": (
        """\
        x = Input(3)
        W = LearnableParameter(x, 3)
        """,
        "2:24 argument-type: a number is required, got the node `x`",
    ),
    "fraction of a row": ("x = Input(2.5)\n", "1:11 bad-value: "),
    "unknown initializer": (
        "W = LearnableParameter(3, 3, init=unifrom)\n",
        "1:35 bad-option: init is one of uniform, gaussian, fixedValue, fromFile, zero, got "
        "`unifrom`; did you mean `uniform`?",
    ),
    "unknown tag": ("x = Input(3, tag=features)\n", "1:18 unknown-tag: "),
    "open bracket": (
        """\
        x = Input(3
        y = Sigmoid(x)
        """,
        "1:10 parse: ",
    ),
    "function of a later version": (
        """\
        x = Input(3)
        y = PairNetwork(x)
        """,
        "2:5 not-supported: `PairNetwork` is not supported yet",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_error_at_its_place(name: str) -> None:
    text, expected = MISTAKES[name]
    (found,) = lines(report(text))
    assert found == expected if not expected.endswith(": ") else found.startswith(expected)


def test_a_number_where_a_node_is_needed_is_a_constant() -> None:
    net = gc.loads("x = Input(3)\ny = Plus(x, 2)\nOutputNodes = (y)\n")
    y = gc.compile(net, backend="reference")(x=np.ones((2, 3)))["y"]
    assert np.all(y == 3)


def test_all_mistakes_of_a_text_are_reported_at_once() -> None:
    found = lines(
        report("""\
            features = Input(3, tag=feature)
            features = Input(4)
            a = Sigmoyd(features)
            b = Plus(features)
            c = Tanh(nowhere)
            d = Plus(a, c)
            OutputNodes = (d, e)
            """)
    )
    assert [line.split(":", 2)[:2] for line in found] == [
        ["2", "1 duplicate-name"],
        ["3", "5 unknown-function"],
        ["4", "5 argument-count"],
        ["5", "10 undefined-name"],
        ["7", "19 undefined-name"],
    ]


def test_places_name_the_file_that_the_mistake_is_in(tmp_path: Path) -> None:
    macros, network = tmp_path / "m.ndl", tmp_path / "net.ndl"
    macros.write_text("M(a)\n{\n    y = Sigmoyd(a)\n}\n")
    network.write_text("x = Input(3)\ny = M(x)\nz = Tanh(q)\n")
    with pytest.raises(gc.GraphcError) as raised:
        gc.load(network, macros=[macros])
    places = {d.slug: str(d.span) for d in raised.value.diagnostics}
    assert places == {
        "unknown-function": f"{macros}:3:9",
        "undefined-name": f"{network}:3:10",
    }
    assert f"  --> {macros}:3:9\n" in str(raised.value)


# --- sizes ---------------------------------------------------------------------------------------

TOO_SMALL = """\
Layer(x, outDim, inDim)
{
    W = LearnableParameter(outDim, inDim)
    t = Times(W, x)
    y = Sigmoid(t)
}
Two(x)
{
    a = Layer(x, 32, 128)
}
features = Input(784, tag=feature)
h = Two(features)
OutputNodes = (h)
"""


def test_sizes_that_do_not_fit_name_both_sizes_both_places_and_the_calls() -> None:
    (found,) = report(TOO_SMALL)
    assert lines([found]) == [
        "4:9 shape-mismatch: Times requires the columns of A to match the rows of B, got 128 and "
        "784 (matrix<32x128> times matrix<784x*>)"
    ]
    assert notes(found) == [
        "A is `h.a.W`, matrix<32x128>, 3:9",
        "B is `features`, matrix<784x*>, 11:12",
        "in the macro called here, 9:9",
        "in the macro called here, 12:5",
    ]


def test_the_text_of_the_line_is_shown_with_a_mark() -> None:
    with pytest.raises(gc.GraphcError) as raised:
        gc.compile(gc.loads(TOO_SMALL), backend="reference")
    assert "4 |     t = Times(W, x)\n  |         ^^^^^^^^^^^ `features` is matrix<784x*>" in (
        str(raised.value)
    )


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("z = Plus(x, y)", "Plus requires equal sizes, or one operand a row vector"),
        ("z = Minus(x, y)", "Minus requires equal sizes, or one operand a row vector"),
        ("z = ElementTimes(x, y)", "ElementTimes requires operands of one size"),
        ("z = SquareError(x, y)", "SquareError requires target and prediction of one size"),
        ("z = CrossEntropy(x, y)", "CrossEntropy requires label and probability of one size"),
        (
            "z = CrossEntropyWithSoftmax(x, y)",
            "CrossEntropyWithSoftmax requires label and prediction of one size",
        ),
        ("z = ErrorPrediction(x, y)", "ErrorPrediction requires label and prediction of one size"),
        ("z = Scale(x, y)", "Scale requires a 1x1 first operand, got matrix<5x*>"),
        ("z = Times(x, y)", "Times requires a left operand whose columns are not samples"),
        ("z = Times(W, y)", "got 5 and 7 (matrix<3x5> times matrix<7x*>)"),
        ("z = Mean(W)", "Mean requires a node with one column per sample, got matrix<3x5>"),
        (
            "m = Mean(y)\ns = InvStdDev(x)\nz = PerDimMeanVarNormalization(x, m, s)",
            "requires a mean and a deviation of size 5x1 for matrix<5x*>, got matrix<7x1>",
        ),
        ("z = PastValue(4, x)", "PastValue requires the 4 rows it declares, got matrix<5x*>"),
    ],
)
def test_every_size_rule_says_what_it_requires_and_got(statement: str, message: str) -> None:
    text = f"x = Input(5)\ny = Input(7)\nW = Parameter(3, 5)\n{statement}\n"
    (found,) = report(text, outputs=["z"])
    assert found.slug in ("shape-mismatch", "ill-typed")
    assert message in found.message
    assert found.span is not None
    assert found.span.line == 3 + len(statement.splitlines())


def test_a_size_that_nothing_says_is_an_error() -> None:
    (found,) = lines(report("x = Input(3)\nW = Parameter(0, 0)\nz = Times(W, x)\n", ["z"]))
    assert found == "2:5 shape-mismatch: the size of `W` cannot be inferred, it is matrix<?x3>"


# --- nodes that are missing ----------------------------------------------------------------------


def test_without_output_nodes_there_is_nothing_to_compile() -> None:
    (found,) = report("x = Input(3)\ny = Sigmoid(x)\n")
    assert found.slug == "missing-node"
    assert found.message.startswith("no output nodes are specified: ")


def test_without_criterion_nodes_there_is_nothing_to_train() -> None:
    net = gc.loads("x = Input(3)\nW = Parameter(2, 3)\nz = Times(W, x)\n")
    for call in (
        lambda: gc.compile_training(net, learner=gc.SGD(learning_rate=1)),
        lambda: gc.train(net, {"x": np.ones((4, 3))}, learning_rate=1),
    ):
        with pytest.raises(gc.GraphcError) as raised:
            call()
        (found,) = raised.value.diagnostics
        assert found.slug == "missing-node"
        assert found.message.startswith("no criterion nodes are specified: ")


def test_an_output_that_is_not_there_suggests_a_near_one() -> None:
    (found,) = report("x = Input(3)\nscores = Sigmoid(x)\n", ["score"])
    assert lines([found]) == [
        "missing-node: the network has no node `score`; did you mean `scores`?"
    ]


# --- cycles --------------------------------------------------------------------------------------


def test_a_cycle_that_no_output_needs_is_left_alone() -> None:
    net = gc.loads("x = Input(3)\nz = Sigmoid(x)\np = PastValue(3, h)\nh = Plus(p, x)\n")
    z = gc.compile(net, ["z"], backend="reference")(x=np.zeros((2, 3)))["z"]
    assert np.all(z == 0.5)


# --- the Python builder --------------------------------------------------------------------------


def test_the_builder_raises_at_the_line_of_the_mistake() -> None:
    net = gc.Network()
    x = net.input("x", 3)
    with pytest.raises(gc.GraphcError) as raised:
        net.input("X", 4)
    (found,) = raised.value.diagnostics
    assert found.slug == "duplicate-name"
    assert found.span is not None
    assert found.span.file == __file__
    assert "net.input(" in (found.span.line_text() or "")
    net.sigmoid(x, name="after")  # the network can still be used
    assert [n.name for n in net.nodes] == ["x", "after"]


def test_sizes_that_do_not_fit_point_at_the_python_expressions() -> None:
    net = gc.Network()
    x = net.input("x", 784)
    w = net.parameter("W", 32, 128)
    net.times(w, x, name="t")
    with pytest.raises(gc.GraphcError) as raised:
        gc.compile(net, ["t"])
    (found,) = raised.value.diagnostics
    assert found.slug == "shape-mismatch"
    places = [found.span, *(n.span for n in found.notes)]
    assert [span.line_text() for span in places if span] == [
        '    net.times(w, x, name="t")',
        '    w = net.parameter("W", 32, 128)',
        '    x = net.input("x", 784)',
    ]


@pytest.mark.parametrize(
    ("make", "slug"),
    [
        (lambda net, x: net.sigmoid("3"), "argument-type"),
        (lambda net, x: net.sigmoid(gc.Network().input("y", 3)), "argument-type"),
        (lambda net, x: net.sigmoid(x, tag="outputs"), "unknown-tag"),
        (lambda net, x: net.parameter("W", "3", 3), "bad-value"),
        (lambda net, x: net.parameter("W", 3.5, 3), "bad-value"),
        (lambda net, x: net.parameter("W", 3, 3, init="unifrom"), "bad-value"),
        (lambda net, x: x @ [3], "argument-type"),
        (lambda net, x: net.input("y", None), "bad-value"),
    ],
)
def test_a_bad_argument_of_the_builder_is_one_error(make: object, slug: str) -> None:
    assert callable(make)
    net = gc.Network()
    x = net.input("x", 3)
    with pytest.raises(gc.GraphcError) as raised:
        make(net, x)
    assert [d.slug for d in raised.value.diagnostics] == [slug]
    assert [n.name for n in net.nodes] == ["x"]


def test_a_node_is_no_condition() -> None:
    with pytest.raises(TypeError, match="has no value while the network is built"):
        bool(gc.Network().input("x", 3))


# --- model files ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("model") / "net.safetensors"
    classifier(4, 2, 2).save(path)
    return path.read_bytes()


def load_bytes(path: Path, content: bytes) -> gc.GraphcError | None:
    path.write_bytes(content)
    try:
        gc.load(path)
    except gc.GraphcError as error:
        return error
    return None


def test_a_model_file_cut_short_anywhere_is_refused(tmp_path: Path, model_bytes: bytes) -> None:
    path = tmp_path / "net.safetensors"
    assert load_bytes(path, model_bytes) is None
    for length in [*range(0, len(model_bytes), 7), len(model_bytes) - 1]:
        error = load_bytes(path, model_bytes[:length])
        assert error is not None, length
        assert [d.slug for d in error.diagnostics] == ["bad-model-file"]
        assert str(path) in str(error)


def test_a_model_file_with_a_flipped_bit_is_refused(tmp_path: Path, model_bytes: bytes) -> None:
    path = tmp_path / "net.safetensors"
    for place in range(0, len(model_bytes), 5):
        damaged = bytearray(model_bytes)
        damaged[place] ^= 1 << place % 8
        error = load_bytes(path, bytes(damaged))
        assert error is not None, place
        assert [d.slug for d in error.diagnostics] == ["bad-model-file"]


def test_a_model_file_without_the_value_of_a_parameter_is_refused(tmp_path: Path) -> None:
    """Drawing it would take whatever the text claims: here 8 GB for a file of some bytes."""
    ir = """
graph @network {
  %x = node.input {rows = 50000} : matrix<50000x*>
  %W = node.parameter {rows = 40000, cols = 50000} : matrix<40000x50000>
  %y = node.times %W, %x {tags = ["output"]} : matrix<40000x*>
}
"""
    path = tmp_path / "net.safetensors"
    write_container(path, {}, {"ir": ir})
    with pytest.raises(gc.GraphcError, match=r"net\.safetensors: `W` has no value in the file"):
        gc.load(path)


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"x = Input(3)\n", b"\xff" * 64])
def test_what_is_no_model_file_is_refused(tmp_path: Path, content: bytes) -> None:
    error = load_bytes(tmp_path / "net.safetensors", content)
    assert error is not None
    assert [d.slug for d in error.diagnostics] == ["bad-model-file"]


def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    binary = tmp_path / "binary.ndl"
    binary.write_bytes(b"x = Input(3)\n\xff\xfe")
    other = tmp_path / "net.tflite"
    other.write_bytes(b"")
    for path in (tmp_path / "none.ndl", tmp_path, binary, other):
        with pytest.raises(gc.GraphcError) as raised:
            gc.load(path)
        assert [d.slug for d in raised.value.diagnostics] == ["file"]


def test_a_model_file_takes_no_macros_and_no_defines(tmp_path: Path, model_bytes: bytes) -> None:
    path = tmp_path / "net.safetensors"
    path.write_bytes(model_bytes)
    with pytest.raises(gc.GraphcError, match="takes no macros and no defines"):
        gc.load(path, defines={"HDim": 3})
