"""Products that share a factor and become one: values, bits, gradients, names."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc as gc
from graphc.driver.compile import lower
from graphc.driver.options import CompileOptions
from graphc.ir.clone import clone_module
from graphc.ir.core import Module, Operation
from graphc.ir.evaluate import evaluate
from graphc.ir.traversal import walk
from graphc.learn.step import training_passes
from graphc.ops import default_context
from graphc.ops.contraction import MATMUL
from graphc.ops.loop import LOOP, loop_parts
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.passes.merge_products import MOST_COPIED_BYTES, merge_products
from tests.support.compiling import JUDGED, RUN_HERE, call, compile_for, load_backend, parse
from tests.unit.passes.test_gradients_kept import gradients

Array = np.ndarray
SEEDS = st.integers(0, 2**32)


# --- random programs --------------------------------------------------------------------------


def _program(seed: int) -> str:
    """Products of a few matrices with a few arrays, in a loop in a loop too, some transposed."""
    rng = random.Random(seed)
    lines: list[str] = []
    widths = {m: rng.randint(1, 4) for m in "ABCD"}
    turned = {m: rng.random() < 0.5 for m in "ABCD"}
    sizes = {m: f"{widths[m]}x3" if turned[m] else f"3x{widths[m]}" for m in "ABCD"}
    results: list[tuple[str, str]] = []
    for i in range(rng.randint(2, 5)):
        m, x = rng.choice("ABCD"), rng.choice("xy")
        flag = " {transpose_b = true}" if turned[m] else ""
        lines.append(f"%p{i} = matmul %{x}, %{m}{flag} : tensor<Nx{widths[m]}xf64>")
        results.append((f"p{i}", f"tensor<Nx{widths[m]}xf64>"))
    reads = [rng.choice("RSU") for _ in range(rng.randint(2, 4))]
    step: list[str] = []
    for i, m in enumerate(reads):
        flag = " {transpose_b = true}" if m == "U" or rng.random() < 0.5 else ""
        step.append(f"%q{i} = matmul %h, %{m.lower()}{flag} : tensor<Nx3xf64>")
        step.append(f"%t{i} = tanh %q{i} : tensor<Nx3xf64>")
    total = "t0"
    for i in range(1, len(reads)):
        step.append(f"%s{i} = add %{total}, %t{i} : tensor<Nx3xf64>")
        total = f"s{i}"
    types = ", ".join(f"%{m}: tensor<3x3xf64>" for m in ("r", "s", "u"))
    inner = "\n".join(step)
    lines.append(f"""
  %last = loop %R, %S, %U, %x {{count = 2, sequences = 0, carried = 1}} : tensor<Nx3xf64> {{
  ^({types}, %g: tensor<Nx3xf64>):
    %k = loop %r, %s, %u, %g {{count = 3, sequences = 0, carried = 1}} : tensor<Nx3xf64> {{
    ^({types}, %h: tensor<Nx3xf64>):
      {inner}
      yield %{total}
    }}
    yield %k
  }}""")
    results.append(("last", "tensor<Nx3xf64>"))
    arguments = ", ".join(f"%{m}: tensor<{sizes[m]}xf64> parameter" for m in "ABCD")
    square = ", ".join(
        f"%{m}: tensor<3x3xf64> {r}" for m, r in zip("RSU", _roles(rng), strict=True)
    )
    given = ", ".join(f"{name}: {type}" for name, type in results)
    body = "\n".join(lines)
    handed = ", ".join(f"%{name}" for name, _ in results)
    return f"""dim N <= 4
func @f(%x: tensor<Nx3xf64> input, %y: tensor<Nx3xf64> input, {arguments}, {square})
    -> ({given}) {{
{body}
return {handed}
}}"""


def _roles(rng: random.Random) -> list[str]:
    return [rng.choice(["parameter", "input"]) for _ in range(3)]


def _numbers(module: Module, n: int, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        a.name or "": rng.standard_normal(a.tensor.shape({"N": n}))
        for a in module.functions[0].arguments
    }


def _merged(module: Module, options: str) -> Module:
    made = clone_module(module)
    passes = pipeline(f"merge-products{{{options}}}")
    PassManager(passes, verify=True, check_claim=True).run(made, default_context())
    return made


OPTIONS = ["", "frozen = true", 'trained = ["A", "C", "R", "U"]']


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, options=st.sampled_from(OPTIONS), n=st.integers(0, 4))
def test_values_and_gradients_are_kept(seed: int, options: str, n: int) -> None:
    module = parse(_program(seed))
    numbers, sizes = _numbers(module, n, seed), {"N": n}
    merged = _merged(module, options)
    before = evaluate(module.functions[0], numbers, sizes)
    after = evaluate(merged.functions[0], numbers, sizes)
    slopes = gradients(module, numbers, sizes)
    new_slopes = gradients(merged, numbers, sizes)
    assert before.keys() == after.keys()
    assert slopes.keys() == new_slopes.keys()
    for name, wanted in (before | slopes).items():
        np.testing.assert_allclose((after | new_slopes)[name], wanted, rtol=1e-11, atol=1e-11)


def test_programs_have_something_to_merge() -> None:
    """And none has anything left for a second run."""
    counts: list[int] = []
    for seed in range(30):
        module = parse(_program(seed))
        counts.append(merge_products(module.functions[0], frozen=True)["products"])
        assert merge_products(module.functions[0], frozen=True) == {"products": 0, "reads": 0}
    assert min(counts) >= 0
    assert sum(counts) > 60


def test_a_loop_that_reads_some_parts_alone_reads_these() -> None:
    """What flows back to the others would be zeros of every step."""
    text = """dim T <= 4
func @f(%x: tensor<Tx6xf64> input, %a: tensor<2xf64> input) -> (s: tensor<2xf64>) {
  %0 = slice %x {starts = [0, 0], stops = [T, 2], steps = [1, 1]} : tensor<Tx2xf64>
  %1 = slice %x {starts = [0, 4], stops = [T, 6], steps = [1, 1]} : tensor<Tx2xf64>
  %s = loop %0, %1, %a {count = T, sequences = 2, carried = 1} : tensor<2xf64> {
  ^(%p: tensor<2xf64>, %q: tensor<2xf64>, %c: tensor<2xf64>):
    %2 = mul %p, %q : tensor<2xf64>
    %3 = add %2, %c : tensor<2xf64>
    yield %3
  }
  return %s
}"""
    assert merge_products(parse(text).functions[0]) == {"products": 0, "reads": 0}
    all_parts = text.replace("Tx6xf64", "Tx4xf64").replace("[0, 4]", "[0, 2]")
    all_parts = all_parts.replace("[T, 6]", "[T, 4]")
    assert merge_products(parse(all_parts).functions[0]) == {"products": 0, "reads": 2}


@pytest.mark.parametrize("columns", [64, 65])
def test_what_each_call_copies_has_a_limit(columns: int) -> None:
    rows = MOST_COPIED_BYTES // 2 // 64 // 4
    text = f"""dim N <= 4
func @f(%x: tensor<Nx{columns}xf32> input, %A: tensor<{rows}x{columns}xf32> parameter,
        %B: tensor<{rows}x{columns}xf32> parameter)
    -> (a: tensor<Nx{rows}xf32>, b: tensor<Nx{rows}xf32>) {{
  %a = matmul %x, %A {{transpose_b = true}} : tensor<Nx{rows}xf32>
  %b = matmul %x, %B {{transpose_b = true}} : tensor<Nx{rows}xf32>
  return %a, %b
}}"""
    expected = 2 if columns == 64 else 0
    assert merge_products(parse(text).functions[0], ["A", "B"])["products"] == expected
    assert merge_products(parse(text).functions[0], frozen=True)["products"] == 2
    assert merge_products(parse(text).functions[0])["products"] == 0


# --- native code ------------------------------------------------------------------------------

HEADS = """dim N <= 20
func @f(%x: tensor<Nx300xTYPE> input, %A: tensor<1x300xTYPE> parameter,
        %B: tensor<47x300xTYPE> parameter, %C: tensor<300x5xTYPE> parameter,
        %D: tensor<300x40xTYPE> parameter)
    -> (a: tensor<Nx1xTYPE>, b: tensor<Nx47xTYPE>, c: tensor<Nx5xTYPE>, d: tensor<Nx40xTYPE>) {
  %a = matmul %x, %A {transpose_b = true} : tensor<Nx1xTYPE>
  %b = matmul %x, %B {transpose_b = true} : tensor<Nx47xTYPE>
  %c = matmul %x, %C : tensor<Nx5xTYPE>
  %d = matmul %x, %D : tensor<Nx40xTYPE>
  return %a, %b, %c, %d
}"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("backend", [name for name in RUN_HERE if name != "reference"])
def test_products_have_the_bits_that_they_had(backend: str, dtype: str) -> None:
    loaded = load_backend(backend)
    assert not isinstance(loaded, str)
    text = HEADS.replace("TYPE", dtype)
    functions = [
        compile_for(loaded, module) for module in (parse(text), _merged(parse(text), OPTIONS[1]))
    ]
    for n in (0, 1, 7, 20):
        rng = np.random.default_rng(n)
        given = {
            a.name or "": rng.standard_normal(a.tensor.shape({"N": n})).astype(a.tensor.dtype.numpy)
            for a in parse(text).functions[0].arguments
        }
        apart, merged = (call(*made, given, {"N": n}) for made in functions)
        x = given["x"].astype(np.float64)
        matrices = (given["A"].T, given["B"].T, given["C"], given["D"])
        for name, matrix in zip("abcd", matrices, strict=True):
            np.testing.assert_allclose(merged[name], x @ matrix, rtol=2e-4, atol=2e-4)
            if backend != "numpy":  # the library adds up as it likes
                assert merged[name].tobytes() == apart[name].tobytes()


# --- networks ---------------------------------------------------------------------------------

TWO_HEADS = """
x = Input(5, tag=feature)
one = Input(2, tag=label)
two = Input(3, tag=label)
W = Parameter(4, 5)
h = Tanh(Times(W, x))
A = Parameter(2, 4)
B = Parameter(3, 4{frozen})
y = Times(A, h, tag=output)
z = Times(B, h, tag=output)
first = SquareError(one, y)
second = SquareError(two, z)
loss = Plus(first, second, tag=criterion)
"""


def _two_heads(frozen: str = "") -> gc.Network:
    network = gc.loads(TWO_HEADS.format(frozen=frozen), seed=3)
    assert isinstance(network, gc.Network)
    return network


def _data(n: int) -> dict[str, Array]:
    rng = np.random.default_rng(n)
    return {name: rng.standard_normal((n, k)) for name, k in (("x", 5), ("one", 2), ("two", 3))}


def _by_hand(p: Mapping[str, Array], given: Mapping[str, Array], steps: int) -> dict[str, Array]:
    """Momentum 0.5 and a rate of 0.1 for a sample, in f64."""
    p = {name: value.astype(np.float64) for name, value in p.items()}
    velocity = {name: np.zeros_like(value) for name, value in p.items()}
    x = given["x"]
    for _ in range(steps):
        h = np.tanh(x @ p["W"].T)
        a, b = h @ p["A"].T - given["one"], h @ p["B"].T - given["two"]
        back = (a @ p["A"] + b @ p["B"]) * (1 - h * h)
        slopes = {"W": back.T @ x, "A": a.T @ h, "B": b.T @ h}
        for name, slope in slopes.items():
            velocity[name] = 0.5 * velocity[name] + 0.5 * 0.1 / len(x) * slope
            p[name] -= velocity[name]
    return p


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("backend", JUDGED)
def test_two_heads_are_trained_as_by_hand(backend: str, precision: str, tmp_path: Path) -> None:
    net, given = _two_heads(), _data(6)
    before = {name: np.array(v) for name, v in net.parameters.items()}
    learner = gc.SGD(learning_rate=0.1, momentum=0.5)
    step = gc.compile_training(net, learner=learner, backend=backend, precision=precision, batch=6)
    for _ in range(3):
        step(**given)
    close = {"f32": 1e-5, "f64": 1e-12}[precision]
    wanted = _by_hand(before, given, 3)
    for name, value in wanted.items():
        np.testing.assert_allclose(net.parameters[name], value, rtol=close, atol=close)
    assert sorted(step.learner_state) == ["velocity.A", "velocity.B", "velocity.W"]
    net.save(tmp_path / "m.gcm")
    loaded = gc.load(tmp_path / "m.gcm")
    assert isinstance(loaded, gc.Network)
    assert sorted(loaded.parameters) == ["A", "B", "W"]
    for freeze in (False, True):
        run: Any = gc.compile(loaded, backend=backend, precision=precision, freeze=freeze)
        for n in (1, 6):
            h = np.tanh(given["x"][:n] @ wanted["W"].T)
            found = run(x=given["x"][:n])
            np.testing.assert_allclose(found["y"], h @ wanted["A"].T, rtol=close * 9, atol=close)
            np.testing.assert_allclose(found["z"], h @ wanted["B"].T, rtol=close * 9, atol=close)


def test_what_is_not_trained_stays_apart_and_as_it_is() -> None:
    net = _two_heads(", needGradient=false")
    before = np.array(net.parameters["B"])
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.1), batch=6)
    step(**_data(6))
    assert net.parameters["B"].tobytes() == before.tobytes()
    assert not any(op.opdef.name == "concat" for op in _step(net))


def _step(net: gc.Network, **options: Any) -> list[Operation]:
    """The operations of a training step, optimised."""
    chosen = CompileOptions(backend="reference", **options)
    _, passes = training_passes(net.model, gc.SGD(learning_rate=0.1), chosen)
    return list(walk(lower(net.model, passes, chosen).function))


LSTM = """
x = Input(3, tag=feature)
labels = Input(2, tag=label)
past = PastValue(4, h, defaultHiddenActivity=0)
was = PastValue(4, c, defaultHiddenActivity=0)
{gates}
c = Plus(ElementTimes(Sigmoid(sf), was), ElementTimes(Sigmoid(si), Tanh(sg)))
h = ElementTimes(Sigmoid(so), Tanh(c))
V = Parameter(2, 4)
ce = CrossEntropyWithSoftmax(labels, Times(V, h), tag=criterion)
"""
GATE = (
    "W{g} = Parameter(4, 3)\nR{g} = Parameter(4, 4)\ns{g} = Plus(Times(W{g}, x), Times(R{g}, past))"
)


def test_gates_of_a_cell_are_one_product_forward_back_and_to_the_weights() -> None:
    """By structure: nothing here is called as a cell or a gate is."""
    net = gc.loads(LSTM.format(gates="\n".join(GATE.format(g=g) for g in "ifgo")))
    assert isinstance(net, gc.Network)
    operations = _step(net, time=5, sequences=2)
    forward, backward = (op for op in operations if op.opdef is LOOP)
    for loop, dims in ((forward, (4, 16)), (backward, (16, 4))):
        (product,) = (op for op in loop.regions[0].block if op.opdef is MATMUL)
        matrix = product.operands[1].tensor.dims
        assert matrix == dims
    assert len(loop_parts(backward).stacks) == 1  # what all weights and inputs need, side by side
    outside = [op for op in operations if op.opdef is MATMUL and op.block is forward.block]
    shapes = sorted(str(op.result.tensor) for op in outside)
    # The inputs' product, the output's three, and the gradients of the gates' matrices.
    assert shapes == sorted(
        f"tensor<{dims}xf32>" for dims in ("Nx16", "Nx2", "Nx4", "2x4", "16x3", "16x4")
    )


def test_products_stay_apart_on_a_gpu() -> None:
    """Its kernels take no parts: each would be moved by a launch of its own."""
    net = gc.loads(LSTM.format(gates="\n".join(GATE.format(g=g) for g in "ifgo")))
    options = CompileOptions(backend="cuda", time=5, sequences=2, target="sm_90")
    _, passes = training_passes(net.model, gc.SGD(learning_rate=0.1), options)
    operations = walk(lower(net.model, passes, options).function)
    assert not [op for op in operations if op.opdef.name.startswith(("move.slice", "move.concat"))]
