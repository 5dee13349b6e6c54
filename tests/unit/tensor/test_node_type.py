"""Nodes of other distributions: written as functions of one column, used like graphc's own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.model.container import read_container, write_container
from tests.support.commands import graphc
from tests.support.compiling import load_backend
from tests.support.distributions import write_distribution

MODULE = """
import numpy as np
import graphc as gc
from graphc.ir.types import MatrixType
from graphc.ops.nodes.layout import node_def, unary

def maxout(x, y, *, leak=0.25):
    return gc.maximum(x, y) + leak * gc.minimum(x, y)

def huber(target, x, *, width=1.0):
    d = abs(target - x)
    return gc.sum(gc.where(d < width, 0.5 * d * d, width * (d - 0.5 * width)))

def bilinear(x, w, y):
    return x @ w @ y

TABLE = np.arange(90.0).reshape(30, 3) / 90

def ends(x, *, count=1, reverse=False):
    parts = [x[-count:], x[:count]] if reverse else [x[:count], x[-count:]]
    return gc.concatenate(parts)

def unused(*_args, **_settings):
    raise NotImplementedError

MAXOUT = gc.NodeType("Maxout", maxout, unused, "the larger of two", equal_rows=True)
HUBER = gc.NodeType("Huber", huber, unused, "a distance", criterion=True)
BILINEAR = gc.NodeType("Bilinear", bilinear, unused, "a product", matrices="w")
PROJECTION = gc.NodeType("FixedProjection", lambda x: TABLE @ x, unused, "a product")
ENDS = gc.NodeType("Ends", ends, unused, "both ends")
ORDER = gc.NodeType("RunningSum", lambda x: gc.scan(lambda s, v: (s + v, s + v), 0.0, x)[1],
                    unused, "sums so far")

RAISES = gc.NodeType("Raises", lambda x: x / [][0], unused, "broken")
SEVERAL = gc.NodeType("Several", lambda x: (x, x), unused, "broken")
SQUARE = gc.NodeType("Square", lambda x: gc.stack([x, x]), unused, "broken")
NUMBERS = gc.NodeType("Numbers", lambda x: x, unused, "broken", criterion=True)
OPTIONAL = gc.NodeType("Optional", lambda x, y=1: x, unused, "broken")
CAPITAL = gc.NodeType("Capital", lambda X: X, unused, "broken")
TEXTUAL = gc.NodeType("Textual", lambda x, *, mode="a": x, unused, "broken")
NOTHING = gc.NodeType("Nothing", lambda *, rate=1.0: rate, unused, "broken")
NO_FUNCTION = gc.NodeType("NoFunction", 3, unused, "broken")
NO_REFERENCE = gc.NodeType("NoReference", lambda x: x, None, "broken")
ABSENT_MATRIX = gc.NodeType("AbsentMatrix", lambda x: x, unused, "broken", matrices=("w",))
LARGE = np.arange(2.0**17).reshape(2**16, 2)
HOLDS = gc.NodeType("Holds", lambda x: LARGE @ x, unused, "broken")
NUMBER = 3

def total(b, op, operands, dtype):
    from graphc.ops.movement import transpose
    from graphc.ops.reduction import reduce_sum
    return transpose(b, reduce_sum(b, operands[0], (0,)), (1, 0))

TOTAL = node_def("row_total", "the sum of each row over all samples", ("x",),
                 infer=lambda types, p: [MatrixType(types[0].rows, 1)], expand=total,
                 reference=lambda p, x: x.sum(axis=1, keepdims=True), ndl=("RowTotal",))

def narrow(b, op, operands, dtype):
    from graphc.ops.movement import reshape
    return reshape(b, operands[0], (operands[0].tensor.dims[0], 1, op.result.type.rows))

SHAPE = node_def("wrong_shape", "broken", ("x",), infer=unary, expand=narrow,
                 reference=lambda p, x: x, ndl=("WrongShape",))
TYPES = node_def("bad_rule", "broken", ("x",), infer=lambda types, p: types[3], expand=narrow,
                 reference=lambda p, x: x, ndl=("BadRule",))
FAILS = node_def("bad_expansion", "broken", ("x",), infer=unary,
                 expand=lambda b, op, operands, dtype: operands[3],
                 reference=lambda p, x: x, ndl=("BadExpansion",))
"""

ENTRIES = """
Maxout = columnwise:MAXOUT
Huber = columnwise:HUBER
Bilinear = columnwise:BILINEAR
FixedProjection = columnwise:PROJECTION
Ends = columnwise:ENDS
RunningSum = columnwise:ORDER
RowTotal = columnwise:TOTAL
Raises = columnwise:RAISES
Several = columnwise:SEVERAL
Square = columnwise:SQUARE
Numbers = columnwise:NUMBERS
Optional = columnwise:OPTIONAL
Capital = columnwise:CAPITAL
Textual = columnwise:TEXTUAL
Nothing = columnwise:NOTHING
NoFunction = columnwise:NO_FUNCTION
NoReference = columnwise:NO_REFERENCE
AbsentMatrix = columnwise:ABSENT_MATRIX
Holds = columnwise:HOLDS
WrongShape = columnwise:SHAPE
BadRule = columnwise:TYPES
BadExpansion = columnwise:FAILS
Renamed = columnwise:MAXOUT
Plain = columnwise:NUMBER
Missing = columnwise:ABSENT
Nowhere = no_such_module:X
"""

NETWORK = """
features = Input(4, tag=feature)
labels = Input(3, tag=label)
W = Parameter(3, 4)
M = Parameter(3, 3)
b = Parameter(0, 1)
a = Times(W, features)
h = Maxout(a, b, leak=0.5)
q = Bilinear(h, M, a, tag=output)
c = huber(labels, h, width=0.3, tag=criterion)
"""

EDITORS = {"graphc.editors": "mel = graphc_frontends.mel"}
"""graphc's own, for an installation that is older than this entry point."""
FLOATS = ("f32", "f64")
BACKENDS = ("reference", "numpy", "llvm", "c")


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a distribution of nodes is installed."""
    site = tmp_path / "site"
    write_distribution(
        site, "columnwise", {"graphc.nodes": ENTRIES, **EDITORS}, {"columnwise": MODULE}
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "columnwise", raising=False)
    return site


def backend_or_skip(backend: str) -> None:
    problem = load_backend(backend)
    if isinstance(problem, str):
        pytest.skip(problem)


def network(text: str = NETWORK) -> gc.Network:
    return gc.loads(f"net = [\n{text}\n]\nrun = net", seed=3)


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape)


def expected(net: gc.Network, x: np.ndarray, t: np.ndarray) -> dict[str, np.ndarray]:
    """The network in plain numpy, a sample in each row; derivatives by hand."""
    w, m, b = (np.asarray(net.parameters[n], np.float64) for n in ("W", "M", "b"))
    a = x @ w.T
    h = np.maximum(a, b.T) + 0.5 * np.minimum(a, b.T)
    d = h - t
    c = np.sum(np.where(abs(d) < 0.3, 0.5 * d * d, 0.3 * (abs(d) - 0.15)))
    dh = np.where(abs(d) < 0.3, d, 0.3 * np.sign(d))
    da, db = dh * np.where(a > b.T, 1, 0.5), dh * np.where(a > b.T, 0.5, 1)
    return {
        "c": c,
        "q": np.sum((h @ m) * a, axis=1, keepdims=True),
        "gradient.W": da.T @ x,
        "gradient.b": db.sum(axis=0).reshape(3, 1),
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("precision", FLOATS)
def test_a_node_and_its_gradient_on_every_backend(backend: str, precision: str) -> None:
    backend_or_skip(backend)
    net = network()
    exe = gc.compile(
        net, ["c", "q"], gradients=["W", "b"], backend=backend, precision=precision, batch=8
    )
    rng = np.random.default_rng(1)
    tolerance = 1e-5 if precision == "f32" else 1e-12
    for samples in (0, 1, 5, 8, 21):  # the last one beyond the bound
        x, t = numbers(rng, samples, 4), numbers(rng, samples, 3)
        got = exe(features=x, labels=t)
        for name, value in expected(net, x, t).items():
            np.testing.assert_allclose(got[name], value, rtol=tolerance, atol=tolerance)


def test_the_same_network_in_python_is_trained_as_numpy_says() -> None:
    net = gc.Network()
    x, t = net.input("features", 4, tag="feature"), net.input("labels", 3, tag="label")
    w, b = net.parameter("W", 3, 4), net.parameter("b", 0, 1)
    h = net.maxout(w @ x, b, leak=0.5, name="h")
    net.bilinear(h, net.parameter("M", 3, 3), h, name="q", tag="output")
    net.huber(t, h, width=0.3, name="c", tag="criterion")
    rng = np.random.default_rng(2)
    xs, ts = numbers(rng, 6, 4), numbers(rng, 6, 3)
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.5), batch=6, precision="f64")
    before = np.array(net.parameters["W"], np.float64)
    gradient = expected(net, xs, ts)["gradient.W"]
    step(features=xs, labels=ts)
    np.testing.assert_allclose(net.parameters["W"], before - 0.5 / 6 * gradient, rtol=1e-9)
    assert "maxout" in dir(net)


def test_a_number_goes_with_columns_of_any_rows() -> None:
    net = gc.Network()
    x = net.input("x", 3)
    net.maxout(x, 0.0, leak=0.0, name="h", tag="output")
    xs = np.array([[-1.0, 0.5, 2.0]])
    np.testing.assert_array_equal(gc.compile(net)(x=xs)["h"], [[0, 0.5, 2]])


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("Ends(x)", lambda x: x[[0, -1]]),
        ("Ends(x, count=2, reverse=true)", lambda x: x[[-2, -1, 0, 1]]),
        ("FixedProjection(x)", lambda x: np.arange(90.0).reshape(30, 3) / 90 @ x),
        ("RunningSum(x)", lambda x: np.cumsum(x, axis=0)),
    ],
)
@pytest.mark.parametrize("columns", ["samples", "parameter"])
def test_sizes_and_values_follow_from_the_function(call: str, value: Any, columns: str) -> None:
    """Settings that change the size, an array that is closed over, a loop over the rows; of nodes
    whose columns are samples and of those whose columns are not."""
    leaf = "x = Input(3)" if columns == "samples" else "x = Parameter(3, 5)"
    net = network(f"{leaf}\ny = {call}\nOutputNodes = (y)")
    x = numbers(np.random.default_rng(3), 3, 5)
    if columns == "samples":
        got = gc.compile(net, precision="f64")(x=x.T)["y"].T
    else:
        net.parameters["x"] = x
        got = gc.compile(net, precision="f64")()["y"]
    np.testing.assert_allclose(got, value(x), rtol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_operation_with_rules_of_its_own_over_all_columns(backend: str) -> None:
    """What no function of one column can say; over sequences it leaves out the gaps by itself."""
    backend_or_skip(backend)
    net = network("x = Input(3, tag=feature)\ny = RowTotal(Tanh(x))\nOutputNodes = (y)")
    x = numbers(np.random.default_rng(3), 5, 3)
    exe = gc.compile(net, "y", gradients="x", backend=backend, precision="f64")
    got = exe(x=x)
    np.testing.assert_allclose(got["y"], np.tanh(x).sum(axis=0).reshape(3, 1), rtol=1e-12)
    np.testing.assert_allclose(got["gradient.x"], 1 - np.tanh(x) ** 2, rtol=1e-12)
    exe = gc.compile(net, "y", backend=backend, precision="f64", time=3, sequences=2)
    parts = [x[:3], x[3:]]
    np.testing.assert_allclose(exe(x=parts)["y"], got["y"], rtol=1e-12)


RECURRENT = """
features = Input(2, tag=feature)
labels = Input(3, tag=label)
W = Parameter(3, 2)
R = Parameter(3, 3)
before = PastValue(3, 1, h, defaultHiddenActivity=0.0)
h = Maxout(Times(W, features), Times(R, before), leak=0.5)
c = Huber(labels, h, width=0.3, tag=criterion)
OutputNodes = (h)
"""


def unrolled(w: np.ndarray, r: np.ndarray, xs: Sequence[Any], ts: Sequence[Any]) -> float:
    """The criterion of the recurrent network over all sequences, step by step."""
    total = 0.0
    for x, t in zip(xs, ts, strict=True):
        h = np.zeros(3)
        for step in range(len(x)):
            a, b = w @ x[step], r @ h
            h = np.maximum(a, b) + 0.5 * np.minimum(a, b)
            d = abs(t[step] - h)
            total += float(np.sum(np.where(d < 0.3, 0.5 * d * d, 0.3 * (d - 0.15))))
    return total


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_node_in_a_cycle_and_a_criterion_that_leaves_out_gaps(backend: str) -> None:
    backend_or_skip(backend)
    net = network(RECURRENT)
    exe = gc.compile(
        net, ["c"], gradients=["R"], backend=backend, precision="f64", time=4, sequences=3
    )
    rng = np.random.default_rng(4)
    xs = [numbers(rng, steps, 2) for steps in (4, 1, 2)]
    ts = [numbers(rng, steps, 3) for steps in (4, 1, 2)]
    got = exe(features=xs, labels=ts)
    w, r = (np.asarray(net.parameters[n], np.float64) for n in ("W", "R"))
    assert got["c"] == pytest.approx(unrolled(w, r, xs, ts), rel=1e-12)
    differences = np.zeros((3, 3))
    for index in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[index] = 1e-6
        sides = unrolled(w, r + step, xs, ts) - unrolled(w, r - step, xs, ts)
        differences[index] = sides / 2e-6
    np.testing.assert_allclose(got["gradient.R"], differences, atol=1e-7)


# --- files and caches ----------------------------------------------------------------------------


def test_a_model_file_names_the_distribution_that_it_needs(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, file = network(), tmp_path / "model.safetensors"
    net.save(file)
    x, t = np.ones((2, 4)), np.ones((2, 3))
    wanted = gc.compile(net, "c")(features=x, labels=t)["c"]
    assert gc.compile(gc.load(file), "c")(features=x, labels=t)["c"] == wanted
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(site)])
    with pytest.raises(gc.GraphcError, match=r"node\.bilinear.*columnwise 1\.5.*not installed"):
        gc.load(file)


def test_a_network_with_them_is_written_as_ndl_that_reads_back() -> None:
    net = network()
    again = gc.loads(net.to_ndl())
    assert str(again) == str(net)
    assert "Maxout(a, b, leak=0.5)" in net.to_ndl()


def test_they_are_nodes_in_mel() -> None:
    models = {"m": network()}
    gc.edits("g = Maxout(a, a, leak=1)\nSetProperty(g, output, true)", models=models)
    got = gc.compile(models["m"], ["a", "g"])(features=np.ones((1, 4)))
    np.testing.assert_allclose(got["g"], 2 * got["a"])
    with pytest.raises(gc.GraphcError, match="did you mean `Maxout`") as caught:
        gc.edits("g2 = Maxot(a, a)", models=models)
    assert caught.value.diagnostics[0].slug == "unknown-function"
    with pytest.raises(gc.GraphcError, match=r"`Plain` of columnwise 1\.5") as caught:
        gc.edits("SetProperty(h, output, true)\ng2 = Plain(a)", models=models)
    assert caught.value.diagnostics[0].slug == "plug-in"
    h = models["m"].find("h")
    assert h is not None
    assert "output" not in h.tags


@pytest.mark.parametrize("table", ["[1]", "{", "[" * 100_000])
def test_a_damaged_table_of_plug_ins_is_refused(tmp_path: Path, table: str) -> None:
    file = tmp_path / "model.safetensors"
    network().save(file)
    container = read_container(file)
    write_container(file, container.tensors, {**container.metadata, "plug-ins": table})
    with pytest.raises(gc.GraphcError, match="`plug-ins` is no table"):
        gc.load(file)


def test_a_name_in_a_model_file_is_shown_safely(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    network().save(file)
    container = read_container(file)
    table = json.dumps({"node.x\x1b[31m" + "y" * 500: ["z"]})
    write_container(file, container.tensors, {**container.metadata, "plug-ins": table})
    with pytest.raises(gc.GraphcError) as caught:
        gc.load(file)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_changed_plug_in_is_compiled_again(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHC_CACHE", "on")
    monkeypatch.setenv("GRAPHC_CACHE_DIR", str(tmp_path / "cache"))
    text = "x = Input(2)\ny = Maxout(x, x, leak=1)\nOutputNodes = (y)"
    x = np.ones((1, 2))
    assert gc.compile(network(text))(x=x)["y"].tolist() == [[2, 2]]
    changed = MODULE.replace("leak * gc.minimum", "3 * leak * gc.minimum")
    (site / "columnwise.py").write_text(changed, encoding="utf-8")
    monkeypatch.delitem(sys.modules, "columnwise")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert gc.compile(network(text))(x=x)["y"].tolist() == [[4, 4]]


# --- mistakes ------------------------------------------------------------------------------------

BROKEN = [
    ("Raises", "its function, traced for columns of 2, raises IndexError: list index out of range"),
    ("Several", "requires one array of its function, got several"),
    ("Square", "requires one column, (rows,), of its function for each column, got shape (2, 2)"),
    ("Numbers", "requires one number of its function for each column, got shape (2,)"),
    ("Optional", "requires operands by place without defaults, then settings by name alone"),
    ("Capital", "requires arguments in lower case, other than name and tag, got X"),
    ("Textual", "with a number as default, got `mode='a'`"),
    ("Nothing", "requires an operand, got (*, rate=1.0)"),
    ("NoFunction", "requires a function to compute it: 3 is not a callable object"),
    ("NoReference", "requires a function as its reference, got None"),
    ("AbsentMatrix", "requires an operand `w`, as `matrices` says, got (x)"),
    ("Holds", "closes over arrays of at most 65536 numbers, got 131072 numbers"),
    ("WrongShape", "its expansion of matrix<2x*> gives tensor<Nx1x2xf32>"),
    ("BadRule", "its type rule raises IndexError: list index out of range"),
    ("BadExpansion", "its expansion raises IndexError: list index out of range"),
    ("Renamed", "requires the name Renamed as in its entry point, got Maxout"),
    ("Plain", "requires a gc.NodeType or an OpDef, got int"),
    ("Missing", "cannot be loaded: AttributeError"),
    ("Nowhere", "cannot be loaded: ModuleNotFoundError"),
]


@pytest.mark.parametrize(("name", "message"), BROKEN)
@pytest.mark.parametrize("language", ["ndl", "python"])
def test_a_broken_node_is_one_error_that_names_the_distribution(
    name: str, message: str, language: str
) -> None:
    with pytest.raises(gc.GraphcError) as caught:
        if language == "ndl":
            net = network(f"x = Input(2)\ny = {name}(x)\nOutputNodes = (y)")
        else:
            net = gc.Network()
            x = net.input("x", 2)
            method = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
            getattr(net, method)(x, tag="output")
        gc.compile(net)
    (problem,) = caught.value.diagnostics
    assert problem.slug == "plug-in"
    assert message in problem.message
    assert "columnwise 1.5" in problem.message


def test_every_entry_point_of_these_tests_is_tried() -> None:
    names = {line.split(" = ")[0] for line in ENTRIES.strip().splitlines()}
    tried = {name for name, _ in BROKEN}
    used = {name for name in names if f"{name}(" in NETWORK + RECURRENT or name == "Huber"}
    assert names - tried - used == {"FixedProjection", "Ends", "RunningSum", "RowTotal"}


def test_two_distributions_with_one_name_are_an_error_that_names_both(site: Path) -> None:
    write_distribution(site, "other", {"graphc.nodes": "maxout = columnwise:MAXOUT"})
    with pytest.raises(gc.GraphcError) as caught:
        network("x = Input(2)\ny = Maxout(x, x)")
    (problem,) = caught.value.diagnostics
    assert problem.slug == "plug-in"
    assert "columnwise 1.5" in problem.message
    assert "other 1.5" in problem.message


@pytest.mark.parametrize(
    ("text", "slug", "message"),
    [
        ("x = Input(2)\nz = Input(3)\ny = Maxout(x, z)", "shape-mismatch", "equally many rows"),
        ("x = Input(2)\nW = Parameter(3, 3)\ny = Bilinear(x, W, x)", "shape-mismatch", "last size"),
        (
            "x = Input(2)\ny = Bilinear(x, x, x)",
            "shape-mismatch",
            "w whose columns are not samples",
        ),
        ("x = Input(2)\nP = Parameter(2, 3)\ny = Maxout(x, P)", "shape-mismatch", "same columns"),
        ("x = Input(2)\ny = Maxot(x, x)", "unknown-function", "did you mean `Maxout`"),
        ("x = Input(2)\ny = Maxout(x)", "argument-count", "takes 2"),
    ],
)
def test_wrong_uses(text: str, slug: str, message: str) -> None:
    with pytest.raises(gc.GraphcError) as caught:
        gc.compile(network(f"{text}\nOutputNodes = (y)"))
    (problem,) = caught.value.diagnostics
    assert problem.slug == slug
    assert message in problem.message
    assert problem.span is not None
    assert problem.span.file == "<text>"


def test_a_macro_and_graphc_itself_come_before_a_plug_in(site: Path) -> None:
    write_distribution(site, "other", {"graphc.nodes": "Tanh = no_such_module:X"})
    net = gc.loads(
        "Maxout(a, b) = [\nm = Tanh(Plus(a, b))\n]\nnet = [\nx = Input(2)\ny = Maxout(x, x)\n"
        "OutputNodes = (y)\n]\nrun = net"
    )
    got = gc.compile(net)(x=np.ones((1, 2)))
    np.testing.assert_allclose(got["y.m"], np.tanh([[2, 2]]), 1e-6)


def test_an_attribute_that_nothing_has_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'maxot'"):
        gc.Network().maxot  # noqa: B018


def test_the_listing_shows_nodes_of_plug_ins_and_those_that_are_broken() -> None:
    done = graphc("opt", "--list", "ops", "--json")
    assert (done.code, done.err) == (0, "")
    rows = {row["name"]: row for row in json.loads(done.out)["ops"]}
    assert rows["node.maxout"]["settings"] == ["leak", "tags"]
    assert "columnwise 1.5" in rows["node.maxout"]["origin"]
    assert rows["node.plain"]["summary"].startswith("broken: ")
