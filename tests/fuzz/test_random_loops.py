"""Random loops: backends give what references say, passes change nothing, derivatives agree.

python -m tests.fuzz.test_random_loops 1234          judge this seed again
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from graphc.backends.signature import make_signature
from graphc.driver.pipelines import OPTIMISE
from graphc.ir.clone import clone_function, clone_module
from graphc.ir.core import Array, Function, IRBuilder, Module, ResultInfo
from graphc.ir.evaluate import evaluate
from graphc.ir.types import TensorType
from graphc.ops import default_context
from graphc.ops.elementwise import add, mul
from graphc.ops.movement import reshape
from graphc.ops.reduction import reduce_sum
from graphc.passes import hoist_loops, pipeline
from graphc.passes.loop_gradient import RECOMPUTE, Recompute
from graphc.passes.manager import PassManager
from graphc.passes.synthesize_gradient import synthesize_gradient
from graphc.passes.synthesize_tangent import synthesize_tangent
from graphc.support.diagnostics import DiagnosticSink
from tests.support.compiling import KERNEL_PIPELINE, call, load_backend
from tests.support.random_loops import RandomLoops, make_loops
from tests.support.seed_runs import judged

FUNCTIONS = 30
CHUNKS = 6
BACKENDS = ("numpy", "llvm")
KINDS = ("values", "gradient", "tangent", "tangent of the gradient")
WRT = ("x", "y", "z", "a", "b", "w", "r")


def derived(
    made: RandomLoops, kind: str, recompute: Recompute = "auto"
) -> tuple[Module, dict[str, Array]]:
    """The module that also computes derivatives of the weighted sum of all results."""
    function = clone_function(made.function)
    rng = np.random.default_rng(1)
    given = dict(made.arguments)
    sink = DiagnosticSink()
    if kind != "values":
        _add_total(function, made, given, rng)
    if "gradient" in kind:
        assert synthesize_gradient(function, "total", WRT, sink, recompute), sink.diagnostics
    if "tangent" in kind:
        assert synthesize_tangent(function, WRT, (), sink), sink.diagnostics
        given |= {f"tangent.{n}": rng.normal(size=made.arguments[n].shape) for n in WRT}
    return Module([function], made.module.dims), given


def _add_total(
    function: Function, made: RandomLoops, given: dict[str, Array], rng: np.random.Generator
) -> None:
    terminator = function.block.terminator
    assert terminator is not None
    b = IRBuilder.before(terminator)
    total = None
    for index, value in enumerate(function.returned):
        type = value.type
        assert isinstance(type, TensorType)
        seed = function.add_argument(f"u{index}", type, "input")
        given[f"u{index}"] = rng.normal(size=type.shape(made.sizes))
        term = reshape(b, reduce_sum(b, mul(b, value, seed), range(type.rank)), (1,))
        total = term if total is None else add(b, total, term)
    assert total is not None
    terminator.set_operands([*terminator.operands, total])
    function.results.append(ResultInfo("total"))


def judge(seed: int, backends: Sequence[str] = BACKENDS) -> str:
    """What is wrong with a seed's results, '' if nothing."""
    made = make_loops(seed)
    recompute = RECOMPUTE[seed % len(RECOMPUTE)]
    moved = hoist_loops.KINDS[seed // len(RECOMPUTE) % len(hoist_loops.KINDS)]
    problems: list[str] = []
    found: dict[str, dict[str, Array]] = {}
    for kind in KINDS:
        try:
            module, given = derived(made, kind, recompute)
            expected = found[kind] = evaluate(module.functions[0], given, made.sizes)
        except Exception as error:  # whatever it is, the seed has to be named
            problems.append(f"{kind}: {type(error).__name__}: {error}")
            continue
        for passes in ("", OPTIMISE, f'hoist-loops{{kinds = ["{moved}"]}}'):
            how = f"{kind}, recompute {recompute}, {passes or 'plain'}"
            try:
                for name, got in run(module, passes, backends, given, made.sizes):
                    problems += [
                        f"{how}, {name}, {result}: {got[result]}, not {value}"
                        for result, value in expected.items()
                        if not near(got[result], value)
                    ]
            except Exception as error:
                problems.append(f"{how}: {type(error).__name__}: {error}")
    if not problems:
        problems += disagreements(made, found)
    if not problems:
        return ""
    again = f"repeat with: python -m tests.fuzz.test_random_loops {seed}"
    return "\n".join([*problems, again, f"{made.sizes}", str(made.module)])


def near(got: Array, wanted: Array) -> bool:
    return np.shape(got) == wanted.shape and np.allclose(got, wanted, 1e-9, 1e-9)


def run(
    module: Module,
    passes: str,
    backends: Sequence[str],
    given: Mapping[str, Array],
    sizes: Mapping[str, int],
) -> Iterator[tuple[str, dict[str, Array]]]:
    """What each backend makes of the module after the passes, which run once for all of them."""
    lowered = clone_module(module)
    for text in (passes, KERNEL_PIPELINE):
        if text:
            PassManager(pipeline(text), verify=True, check_claim=True).run(
                lowered, default_context()
            )
    signature = make_signature(lowered, lowered.functions[0])
    for backend in backends:
        target = load_backend(backend)
        assert not isinstance(target, str), target
        (function,) = clone_module(lowered).functions
        yield backend, call(target.compile(function, signature), signature, given, sizes)


def disagreements(made: RandomLoops, found: Mapping[str, dict[str, Array]]) -> list[str]:
    """Where forward mode is not the transpose of reverse mode."""
    _, given = derived(made, "tangent")
    terms = {n: found["gradient"][f"gradient.{n}"] * given[f"tangent.{n}"] for n in WRT}
    reverse = sum(float(t.sum()) for t in terms.values())
    forward = found["tangent"]["tangent.total"].item()
    scale = max(1.0, *(float(np.abs(t).sum()) for t in terms.values()))
    if abs(reverse - forward) > 1e-9 * scale:
        return [f"reverse mode says {reverse}, forward mode {forward}"]
    return []


def test_the_loops_are_of_every_kind() -> None:
    texts = [str(make_loops(seed).module) for seed in range(60)]
    assert any("backward = true" in t for t in texts)
    assert any("\n    %" in t and t.count("= loop") > 1 for t in texts)
    assert any("count = U" in t for t in texts)


@pytest.mark.parametrize("seed", range(6))
def test_a_random_loop_is_right(seed: int) -> None:
    assert judge(seed) == ""


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_backends_and_passes_compute_random_loops_as_the_references_do(chunk: int) -> None:
    found = judged(__name__, range(chunk, FUNCTIONS, CHUNKS), BACKENDS)
    assert [verdict for verdict in found if verdict.problem] == []


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument)) or 'fine'}\n")
