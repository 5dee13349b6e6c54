"""Random programs on an emulated GPU, in every way of running, against the pass-free reference.

Functions, loops, networks and their training steps, products, windows and updates of rows, as they
are planned for a GPU or with schedules changed at random. Launched as a graph, as a grid and as a
block, each with threads and blocks in several orders, all give the same bits.

python -m tests.fuzz.test_random_cuda 1234          judge this seed again
python -m tests.fuzz --kinds cuda --count 1000      a long run
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from graphc.backends.cuda.ways import WAYS
from graphc.backends.signature import make_signature
from graphc.driver.pipelines import GPU_FUSED, GPU_PLAN, OPTIMISE
from graphc.ir.clone import clone_function, clone_module
from graphc.ir.core import Function, Module, Operation, RegionKind
from graphc.ir.evaluate import evaluate
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import DType
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.ops.learners import LEARNERS
from graphc.ops.schedules import ConvSchedule, WeightGradSchedule
from graphc.passes import pipeline
from graphc.passes.analysis.gpu_schedules import complete_gpu_schedule
from graphc.passes.analysis.window_products import product_of
from graphc.passes.analysis.window_tiles import shared_of
from graphc.passes.apply_learner import ApplyLearner
from graphc.passes.choose_schedule import choose_schedules
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import Pass, PassManager
from graphc.passes.synthesize_gradient import SynthesizeGradient
from graphc.support.diagnostics import GraphcError
from tests.fuzz import test_random_loops
from tests.support import row_updates
from tests.support.compiling import call, parse
from tests.support.cuda.building import missing
from tests.support.cuda.emulator import emulated_machine
from tests.support.cuda.functions import CheckedFunction, compile_together
from tests.support.network_judge import arguments_of, expansion, expectations, sizes_of
from tests.support.random_functions import make_function
from tests.support.random_loops import make_loops
from tests.support.random_networks import RandomNetwork, random_network
from tests.support.random_schedules import random_gpu_schedule
from tests.unit.backends.cuda.test_windows import Windows, poolings, products

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Array = np.ndarray
Sizes = Mapping[str, int]

MACHINE = emulated_machine("sm_90")
FEW = 18
TRIES = 8
EXTENTS = (0, 1, 2, 3, 5, 8, 17, 33, 40, 65, 300, 515)
SAMPLES = (0, 1, 2, 3, 7, 20, 33)
ROUNDED = {DType.F32: 1e-5, DType.F64: 1e-12}
"""How far off products may be, and what is rounded a few times."""
FAR = {DType.F32: 1e-3, DType.F64: 1e-9}
"""The same of networks and of loops."""


@dataclass(frozen=True)
class Called:
    """A call, and what it gives."""

    arguments: Mapping[str, Array]
    sizes: Sizes
    expected: Mapping[str, Array]


@dataclass(frozen=True)
class Case:
    """A planned function and its calls. `tolerance`: 0 where each bit is defined."""

    seed: int
    module: Module
    calls: Sequence[Called]
    tolerance: float

    @property
    def function(self) -> Function:
        return self.module.functions[0]


# --- programs


def function_case(seed: int) -> Case:
    """Of every second seed operations whose every bit is defined."""
    choose = random.Random(seed)
    is_exact = choose.random() < 0.5
    made = make_function(seed, exact=is_exact)
    expected = evaluate(made.function, made.arguments, made.sizes)
    module = clone_module(made.module)
    if choose.random() < 0.3:
        run(module, OPTIMISE)
    plan(module, choose)
    calls = [Called(made.arguments, made.sizes, expected)]
    return Case(seed, module, calls, 0.0 if is_exact else FAR[DType.F32])


def loop_case(seed: int) -> Case:
    choose = random.Random(seed)
    made = make_loops(seed)
    module, given = test_random_loops.derived(made, choose.choice(test_random_loops.KINDS))
    expected = evaluate(module.functions[0], given, made.sizes)
    if choose.random() < 0.7:
        run(module, OPTIMISE)
    plan(module, choose)
    return Case(seed, module, [Called(given, made.sizes, expected)], FAR[DType.F64])


def network_case(seed: int) -> Case | None:
    """Outputs and gradients, or a training step; None for a network that says nothing."""
    choose = random.Random(seed)
    network, dtype = random_network(seed), choose.choice((DType.F32, DType.F64))
    if network is None or expectations(network, dtype) is None:
        return None
    wrt = network.wrt
    passes: list[Pass] = [InferShapes(), expansion(network, dtype)]
    passes.append(SynthesizeGradient(network.outputs[0], wrt))
    kinds = {node.name: node.op for node in network.builder.nodes}
    if all(kinds[name] == "parameter" for name in wrt) and choose.random() < 0.7:
        passes.append(ApplyLearner(choose.choice(sorted(LEARNERS))))
    module = clone_module(network.builder.model.module)
    PassManager(passes).run(module, default_context())
    (function,) = module.functions
    sizes = sizes_of(network, function)
    given = _network_arguments(network, function, dtype, sizes)
    expected = evaluate(function, given, sizes)
    run(module, OPTIMISE)
    plan(module, choose)
    return Case(seed, module, [Called(given, sizes, expected)], FAR[dtype])


def _network_arguments(
    network: RandomNetwork, function: Function, dtype: DType, sizes: Sizes
) -> dict[str, Array]:
    """States and numbers of a learner are small and positive."""
    rng = np.random.default_rng(network.seed)
    own = Function(function.name, RegionKind.SSA)
    made: dict[str, Array] = {}
    for argument, role in zip(function.arguments, function.roles, strict=True):
        name, type = argument.name or "", argument.tensor
        if role in ("state", "hyperparameter") and name not in network.leaves:
            made[name] = rng.uniform(0.1, 0.5, type.shape(sizes)).astype(type.dtype.numpy)
        else:
            own.add_argument(name, type, role)
    made |= arguments_of(network, own, dtype.numpy.type)
    return {name: np.ascontiguousarray(x) for name, x in made.items()}


def product_case(seed: int) -> Case:
    """A product, half of them with something for each of its elements."""
    choose = random.Random(seed)
    m, n, k = (str(choose.choice((*EXTENTS, name, name))) for name in "MNK")
    dtype = choose.choice((DType.F32, DType.F64))
    a_turned, b_turned = (choose.random() < 0.5 for _ in "AB")
    a, b = f"{k}x{m}" if a_turned else f"{m}x{k}", f"{n}x{k}" if b_turned else f"{k}x{n}"
    batch = choose.choice(("", "", "", "3x"))
    flags = f"transpose_a = {str(a_turned).lower()}, transpose_b = {str(b_turned).lower()}"
    c = f"tensor<{batch}{m}x{n}x{dtype}>"
    ones = "1x1x1" if batch else "1x1"
    dims = "\n".join(f"dim {name} <= {max(SAMPLES)}" for name in "MNK")
    spread = f"{{dims = [{c[7:-5].replace('x', ', ')}]}}"
    result = choose.choice("pt")
    module = parse(f"""{dims}
func @f(%a: tensor<{batch}{a}x{dtype}> input, %b: tensor<{batch}{b}x{dtype}> input,
        %v: tensor<{ones}x{dtype}> input) -> (y: {c}) {{
  %p = matmul %a, %b {{{flags}, batch = {len(batch) // 2}}} : {c}
  %w = broadcast %v {spread} : {c}
  %s = add %p, %w : {c}
  %t = tanh %s : {c}
  return %{result}
}}
""")
    sizes = [{name: choose.choice(SAMPLES) for name in "MNK"} for _ in range(3)]
    calls = [_called(module, size, seed) for size in sizes]
    run(module, "dce")
    plan(module, choose)
    return Case(seed, module, calls, ROUNDED[dtype])


def windows_case(seed: int) -> Case:
    """A convolution with its gradients, or a pooling."""
    choose = random.Random(seed)
    image = (choose.randint(1, 10), choose.randint(1, 10), choose.choice((1, 2, 3, 4, 8, 17, 32)))
    width, height = choose.randint(1, min(image[0], 5)), choose.randint(1, min(image[1], 5))
    windows = Windows(
        *(image, (width, height), (choose.randint(1, 3), choose.randint(1, 3))),
        features=choose.choice((1, 2, 3, 4, 5, 16, 17, 48)),
    )
    dtype = choose.choice((DType.F32, DType.F64))
    if choose.random() < 0.3:
        text = poolings(windows, choose.choice(("add", "maximum", "minimum")))
    else:
        low, high = (
            (choose.randrange(width), choose.choice((0, height - 1))) for _ in ("low", "high")
        )
        text = products(replace(windows, low=low, high=high))
    module = parse(text.replace("f32", str(dtype)))
    calls = [_called(module, {"N": n}, seed) for n in choose.sample(range(5), 2)]
    reschedule(choose, module)
    run(module, GPU_PLAN)
    return Case(seed, module, calls, ROUNDED[dtype])


def update_case(seed: int) -> Case:
    """A learner's step on rows of a table."""
    choose = random.Random(seed)
    dtype = choose.choice((DType.F32, DType.F64))
    rows, width = choose.choice((1, 2, 7, 53, 300)), choose.choice((1, 2, 3, 5, 16, 17, 40, 67))
    made = row_updates.step(
        *(rows, width, dtype), columns=choose.random() < 0.5, lookups=choose.choice((1, 1, 2, 3))
    )
    bounds = choose.choice(((24, 40), (80, 64), (300, 20)))
    text = str(made)
    for dim, bound in zip(made.dims, bounds, strict=True):
        text = text.replace(f"dim {dim.name} <= {dim.bound}", f"dim {dim.name} <= {bound}")
    module = parse(text)
    places = choose.choice(((-2, rows + 2), (0, rows), (rows // 2, rows // 2 + 1)))
    calls: list[Called] = []
    for _ in range(3):
        n, k = (choose.choice((0, 1, 7, bound - 1, bound)) for bound in bounds)
        calls.append(_called(module, {"N": n, "K": k}, seed, places))
    plan(module, choose)
    return Case(seed, module, calls, FAR[dtype])


def _called(module: Module, sizes: Sizes, seed: int, places: tuple[int, int] = (0, 1)) -> Called:
    """With random numbers; `places`: the bounds of indices."""
    rng = np.random.default_rng(seed)
    (function,) = module.functions
    given: dict[str, Array] = {}
    for argument in function.arguments:
        shape, dtype = argument.tensor.shape(sizes), argument.tensor.dtype
        is_index = not dtype.is_float
        numbers = rng.integers(*places, shape) if is_index else rng.standard_normal(shape)
        given[argument.name or ""] = numbers.astype(dtype.numpy)
    return Called(given, sizes, evaluate(function, given, sizes))


KINDS = (function_case, loop_case, network_case, product_case, windows_case, update_case)


def make_case(seed: int) -> Case | None:
    """The kinds in turn."""
    return KINDS[seed % len(KINDS)](seed)


# --- schedules


def run(module: Module, text: str) -> None:
    PassManager(pipeline(text), verify=True).run(module, default_context())


def plan(module: Module, choose: random.Random) -> None:
    """As for a GPU; in half of all cases with other schedules."""
    run(module, GPU_FUSED)
    if choose.random() < 0.5:
        reschedule(choose, module)
    run(module, GPU_PLAN)


def reschedule(choose: random.Random, module: Module) -> int:
    """Change each schedule until another is admitted; how many are changed."""
    (function,) = module.functions
    choose_schedules(function, MACHINE)
    changed = 0
    for op in [op for block in straight_blocks(function) for op in block]:
        before = op.schedule
        for _ in range(TRIES):
            op.schedule = random_gpu_schedule(choose, before)
            if op.schedule != before and is_admitted(module, op):
                changed += 1
                break
            op.schedule = before
    return changed


def is_admitted(module: Module, op: Operation) -> bool:
    """Whether verifier and backend take the schedule."""
    context = default_context()
    verify_module(module, context.sink)
    if context.sink.has_errors:
        return False
    try:
        complete_gpu_schedule(op, MACHINE)
    except GraphcError as error:
        assert {d.slug for d in error.diagnostics} == {"bad-schedule"}
        return False
    grid = op.schedule.grid if isinstance(op.schedule, ConvSchedule | WeightGradSchedule) else None
    return grid is None or shared_of(product_of(op), grid) <= MACHINE.shared


# --- judging


def problems_of(cases: Sequence[Case]) -> Iterator[str]:
    """What is wrong with results; all cases are compiled together."""
    functions = []
    for case in cases:
        for way in WAYS:
            function = clone_function(case.function)
            function.launch = way
            functions.append((function, make_signature(case.module, case.function)))
    compiled = iter(compile_together(functions, MACHINE))
    for case in cases:
        problems = list(_problems(case, [next(compiled) for _ in WAYS]))
        if problems:
            yield "\n".join([f"seed {case.seed}", *problems, str(case.module)])


def _problems(case: Case, ways: Sequence[CheckedFunction]) -> Iterator[str]:
    for given in case.calls:
        first: dict[str, Array] = {}
        for way, compiled in zip(WAYS, ways, strict=True):
            what = f"{way}, {dict(given.sizes)}"
            try:
                got = call(compiled, compiled.signature, given.arguments, given.sizes)
            except (AssertionError, GraphcError) as error:
                yield f"{what}: {error}"
                continue
            first = first or got
            for name, expected in given.expected.items():
                if not agree(got[name], expected, case.tolerance):
                    yield f"{what}, {name}: {got[name]}, not {expected}"
                elif got[name].tobytes() != first[name].tobytes():
                    yield f"{what}, {name}: {got[name]}, another way gives {first[name]}"


def agree(got: Array, expected: Array, tolerance: float) -> bool:
    if not tolerance or got.dtype.kind != "f":
        return np.array_equal(got, expected, equal_nan=True)
    largest = float(np.max(np.abs(expected), initial=1.0, where=np.isfinite(expected)))
    return got.shape == expected.shape and np.allclose(
        got, expected, rtol=tolerance, atol=tolerance * largest, equal_nan=True
    )


def judge(seed: int, backends: Sequence[str] = ()) -> str | None:
    """What is wrong with a seed's results, '' if nothing, None if it is discarded."""
    del backends
    case = None if missing() else make_case(seed)
    return None if case is None else "\n".join(problems_of([case]))


def test_a_few_random_programs() -> None:
    cases = [case for seed in range(FEW) if (case := make_case(seed)) is not None]
    assert len(cases) > FEW // 2
    assert list(problems_of(cases)) == []


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument)) or 'fine'}\n")
