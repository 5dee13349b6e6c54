"""Loops run at the same time where they do not wait for each other, and change no bit by that."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends.llvm.runtime import compile_function
from graphc.backends.signature import make_signature
from graphc.ir.clone import clone_module
from graphc.ir.core import Module, Operation
from graphc.ir.evaluate import evaluate
from graphc.ops import default_context
from graphc.ops.schedules import is_beside
from graphc.passes import pipeline, schedule_loops
from graphc.passes.manager import PassManager
from tests.fuzz.test_random_loops import derived
from tests.support.compiling import KERNEL_PIPELINE, call, parse
from tests.support.guarded import GuardedFunction
from tests.support.native import runnable_targets
from tests.support.random_loops import make_loops

SEEDS = range(40)
TOGETHER = KERNEL_PIPELINE.replace("plan-memory", "schedule-loops,split-work,plan-memory")

LOOP = """  %{name}, %{name}s = loop %w, %x, %{initial} {{count = T, sequences = 1, carried = 1}}
      : tensor<1xSIZExf32>, tensor<Tx1xSIZExf32> {{
  ^(%v: tensor<SIZExSIZExf32>, %e: tensor<1xSIZExf32>, %h: tensor<1xSIZExf32>):
    %p = gemm %h, %v : tensor<1xSIZExf32>
    %k = kernel %p, %e : tensor<1xSIZExf32> {{
    ^(%q: tensor<1xSIZExf32>, %d: tensor<1xSIZExf32>):
      %s = add %q, %d : tensor<1xSIZExf32>
      yield %s
    }}
    yield %k, %k
  }}
"""
HEADER = (
    "dim T <= {steps}\n"
    "func @main(%x: tensor<Tx1xSIZExf32> input, %w: tensor<SIZExSIZExf32> parameter, "
    "%h0: tensor<1xSIZExf32> input) "
    "-> (y: tensor<Tx1xSIZExf32>, z: tensor<Tx1xSIZExf32>{more}) {{\n"
)


def two_loops(size: int, steps: int, *, chained: bool = False) -> Module:
    second = LOOP.format(name="b", initial="a" if chained else "h0")
    text = HEADER.format(steps=steps, more="") + LOOP.format(name="a", initial="h0")
    return parse(f"{text}{second}  return %as, %bs\n}}\n".replace("SIZE", str(size)))


def beside(module: Module) -> list[Operation]:
    return [op for op in module.functions[0].block if op.opdef.name == "loop" and is_beside(op)]


def scheduled(module: Module, text: str = "schedule-loops,split-work") -> Module:
    made = clone_module(module)
    PassManager(pipeline(text), verify=True, check_claim=True).run(made, default_context())
    return made


@pytest.mark.parametrize(
    ("size", "steps", "chained", "count"),
    [(120, 60, False, 1), (120, 60, True, 0), (4, 2, False, 0), (700, 50, False, 0)],
    ids=["independent", "chained", "too short", "cut themselves"],
)
def test_loops_of_some_work_that_is_not_cut_run_together(
    size: int, steps: int, chained: bool, count: int
) -> None:
    assert len(beside(scheduled(two_loops(size, steps, chained=chained)))) == count


def test_their_steps_stay_in_one_piece() -> None:
    alone, together = two_loops(512, 50, chained=True), two_loops(512, 50)

    def schedules(module: Module) -> set[str]:
        loops = [op for op in module.functions[0].block if op.opdef.name == "loop"]
        return {
            str(inner.schedule.parallel)  # type: ignore[attr-defined]
            for loop in loops
            for inner in loop.regions[0].block
            if inner.opdef.name == "gemm"
        }

    assert schedules(scheduled(alone)) == {"cols"}
    assert schedules(scheduled(together)) == {"None"}


def test_twice_is_as_once() -> None:
    once = scheduled(two_loops(120, 60))
    assert str(scheduled(once)) == str(once)


@pytest.fixture
def any_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """However short it is."""
    monkeypatch.setattr(schedule_loops, "GRAIN_NS", 0.0)


@pytest.mark.usefixtures("any_loop")
@pytest.mark.parametrize("kind", ["values", "gradient"])
def test_random_loops_compute_the_same_bits_together(kind: str) -> None:
    """The plan of memory is checked after the pass, and guards stand around the arena."""
    count = 0
    for seed in SEEDS:
        made = make_loops(seed)
        module, given = derived(made, kind)
        expected = evaluate(module.functions[0], given, made.sizes)
        alone, together = scheduled(module, KERNEL_PIPELINE), scheduled(module, TOGETHER)
        count += len(beside(together))
        for target in runnable_targets()[-1:]:
            found = []
            for planned, threads in ((alone, 1), (together, 1), (together, 2), (together, 3)):
                function = planned.functions[0]
                signature = make_signature(planned, function)
                compiled = compile_function(function, signature, target)
                compiled.threads = threads
                found.append(call(GuardedFunction(compiled), signature, given, made.sizes))
            for name, value in expected.items():
                np.testing.assert_allclose(found[0][name], value, 1e-9, 1e-9, err_msg=str(seed))
                for other in found[1:]:
                    np.testing.assert_array_equal(other[name], found[0][name], err_msg=str(seed))
    assert count >= 2


@pytest.mark.usefixtures("any_loop")
def test_what_an_earlier_loop_reads_is_not_written_by_one_beside_it() -> None:
    """The second loop's last value is the new state, which the first one starts from."""
    text = HEADER.format(steps=50, more=", h: tensor<1xSIZExf32> updates %h0")
    text += LOOP.format(name="a", initial="h0") + LOOP.format(name="b", initial="h0")
    module = parse(f"{text}  return %as, %bs, %b\n}}\n".replace("SIZE", "120"))
    planned = scheduled(module, "schedule-loops,split-work,plan-memory")
    (loop,) = beside(planned)
    assert loop.placement[0].kind == "arena"
