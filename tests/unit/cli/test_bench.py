"""`graphc bench`: times of a network on random data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.backends.base import MachinePeak
from graphc.cli import bench
from graphc.cli.bench import Setup, Timing, bench_text, measure
from graphc.driver import cache_key
from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import infer
from graphc.ir.types import DType
from graphc.model.program import Program
from graphc.passes.analysis.costs import Cost
from tests.support.commands import graphc, write_network
from tests.support.compiling import parse

pytestmark = pytest.mark.llvm

PEAK = MachinePeak(100e9, 10e9)
SETUP = Setup(DType.F32, 2, 0.1234)
SHORT = ("--rounds", "2", "--seconds", "0.01")
RECURRENT = """x = SparseInput(7)
t = Input(4, tag=label)
W = Parameter(4, 7)
R = Parameter(4, 4)
p = PastValue(4, 1, h)
h = Tanh(Plus(Times(W, x), Times(R, p)))
c = CrossEntropyWithSoftmax(t, h, tag=criterion)
OutputNodes = (h)
"""


@pytest.fixture(autouse=True)
def peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "measured_peak", lambda: PEAK)


def test_the_text_has_time_throughput_and_rates() -> None:
    timing = Timing((2e-3, 1e-3, 3e-3), 5, 0.9e-3)
    lines = bench_text(timing, 256, SETUP, Cost(20_000_000, 1_000_000, 1_000_000), PEAK)
    compiled, computed, call, samples, arithmetic, memory, note = lines.splitlines()
    assert compiled == "compiled in  123.4 ms"
    assert computed == "computed     in f32 with 2 threads at most"
    assert "2.000 ms (median of 3 rounds of 5), 900.00 us the shortest, spread 100%" in call
    assert samples.endswith("256 in a call, 128,000 a second")
    assert "10.00 GFLOP/s, 10% of 100" in arithmetic
    assert "1.00 GB/s read and written, 10% of 10.0" in memory
    assert "busy" in note


def test_a_steady_machine_gets_no_note() -> None:
    assert "note" not in bench_text(Timing((1e-6, 1e-6), 1, 1e-6), 1, SETUP, Cost(), PEAK)


def test_the_share_of_the_peak_is_that_of_the_element_type() -> None:
    timing, double = Timing((2e-3,), 5, 2e-3), Setup(DType.F64, 1, 0.1)
    text = bench_text(timing, 256, double, Cost(20_000_000), PEAK)
    assert "10.00 GFLOP/s, 20% of 50 (multiply-adds of f64 on one core)" in text
    assert "in f64 with 1 thread at most" in text


def test_every_round_makes_as_many_calls() -> None:
    calls = []
    timing = measure(lambda: calls.append(1), 3, 0.001)
    assert len(timing.rounds) == 3
    assert len(calls) == 2 + 3 * timing.calls + max(3 * timing.calls // 10, 1)
    assert timing.least > 0


def test_the_shortest_call_is_no_longer_than_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    lasts = iter([*[1.0] * 4, *[2.0] * 10])  # the calls behind the rounds are disturbed
    monkeypatch.setattr(bench.clock, "perf_counter", lambda: now[0])

    def call() -> None:
        now[0] += next(lasts)

    timing = measure(call, 2, 0.001)
    assert timing.rounds == (1.0, 1.0) and timing.least == 1.0


def test_parameters_of_a_function_saturate_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    module = parse("""
func @f(%x: tensor<300x200xf32> input, %W: tensor<200x500xf32> parameter
       ) -> (y: tensor<300x500xf32>) {
  %y = matmul %x, %W : tensor<300x500xf32>
  return %y
}
""")
    given: list[np.ndarray] = []
    compiled = bench.compile_program

    def watched(*arguments: Any) -> Any:
        function, signature = compiled(*arguments)

        def call(arrays: list[np.ndarray], results: list[np.ndarray], sizes: Any) -> None:
            function(arrays, results, sizes)
            given[:] = [*arrays, *results]

        return call, signature

    monkeypatch.setattr(bench, "compile_program", watched)
    run, _ = bench.call_of_program(Program(module), CompileOptions())
    run()
    x, w, y = given
    assert 0.9 < x.std() < 1.1 and 0.04 < w.std() < 0.06 and y.std() < 1
    assert w.ctypes.data % 64 == 0


def test_inference_is_timed(tmp_path: Path) -> None:
    done = graphc("bench", write_network(tmp_path), "--minibatch", "10", *SHORT)
    assert (done.code, done.err) == (0, "")
    assert "10 in a call" in done.out


def test_a_share_above_all_is_explained() -> None:
    work = Cost(1_000_000_000, 30_000_000, 30_000_000)
    *_, arithmetic, memory = bench_text(Timing((5e-3,), 1, 5e-3), 1, SETUP, work, PEAK).splitlines()
    assert "200% of 100 (multiply-adds of f32 on one core; several have more)" in arithmetic
    assert "120% of 10.0 (a copy from memory to memory; caches have more)" in memory


NORMALISED = """x = Input(2)
m = Mean(x)
i = InvStdDev(x)
z = PerDimMeanVarNormalization(x, m, i)
OutputNodes = (z)
"""


def test_random_inputs_have_the_statistics_of_the_network() -> None:
    model = gc.loads(NORMALISED).model
    infer(model)
    bench.make_up_statistics(model)
    assert bench.statistics_of_inputs(model)["x"][1].tolist() == [[1, 1]]
    model.set_statistic("m", np.array([[100.0], [-7.0]]))
    model.set_statistic("i", np.array([[0.5], [0.0]]))
    executable = bind(model, lambda m, o: evaluation_passes(m, (), (), o), CompileOptions())
    given, _ = bench.random_inputs(model, executable.signature, CompileOptions(batch=1000))
    x = np.asarray(given["x"])
    assert abs(x[:, 0].mean() - 100) < 1 and abs(x[:, 0].std() - 2) < 0.5
    assert (x[:, 1] == -7).all()


def test_a_training_step_is_timed_with_its_kernels(tmp_path: Path) -> None:
    words = ("--train", "--minibatch", "10", "--kernels", *SHORT)
    done = graphc("bench", write_network(tmp_path), *words)
    assert (done.code, done.err) == (0, "")
    assert "update of W" in done.out


def test_sparse_sequences_are_timed(tmp_path: Path) -> None:
    words = ("--time", "5", "--sequences", "2", "--train", *SHORT)
    done = graphc("bench", write_network(tmp_path, RECURRENT), *words)
    assert (done.code, done.err) == (0, "")
    assert "10 in a call" in done.out


def test_json_and_trace_have_the_numbers(tmp_path: Path) -> None:
    words = ("--minibatch", "10", "--json", "--kernels", "--trace", tmp_path / "t.json", *SHORT)
    done = graphc("bench", write_network(tmp_path), *words)
    record = json.loads(done.out)
    assert (record["precision"], record["from_cache"]) == ("f32", False)
    assert record["threads"] >= 1
    assert (record["samples"], len(record["rounds"])) == (10, 2)
    # Times of 2x2 and Plus for ten samples.
    assert record["flops"] == 10 * 2 * 2 * 2 + 10 * 2
    assert record["flops_per_second"] == record["flops"] / record["median"]
    assert [k["runs"] for k in record["profile"]["kernels"]] == [10, 10]
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_training_and_nodes_exclude_each_other(tmp_path: Path) -> None:
    done = graphc("bench", write_network(tmp_path), "--train", "--nodes", "z")
    assert done.code == 2


def test_a_batch_is_refused_where_samples_are_steps(tmp_path: Path) -> None:
    for more in ((), ("--train",)):
        network = write_network(tmp_path, RECURRENT)
        done = graphc("bench", network, "--minibatch", "10", *more, *SHORT)
        assert done.code == 2
        assert "--minibatch is for samples without time" in " ".join(done.err.split())


def test_a_call_beyond_memory_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(bench, "random_inputs", full)
    done = graphc("bench", write_network(tmp_path), *SHORT)
    assert done.code == 3
    assert "error[limit]: a call takes more memory than there is" in " ".join(done.err.split())


def test_code_from_the_cache_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHC_CACHE", "on")
    monkeypatch.setenv("GRAPHC_CACHE_DIR", str(tmp_path / "cache"))
    # Sources that were edited a moment ago would switch it off.
    monkeypatch.setattr(cache_key, "SOURCES", "0123456789abcdef")
    monkeypatch.setattr(cache_key, "source_stamp", lambda: "0123456789abcdef")
    words = ("bench", write_network(tmp_path), *SHORT)
    assert graphc(*words).out.startswith("compiled in ")
    assert graphc(*words).out.startswith("loaded from the cache in ")
    assert graphc(*words, "--no-cache").out.startswith("compiled in ")


def test_products_and_sums_may_be_rounded_each_by_itself(tmp_path: Path) -> None:
    words = ("--contraction", "off", "--profile", "--precision", "double", *SHORT)
    done = graphc("bench", write_network(tmp_path), *words)
    assert (done.code, done.err) == (0, "")
    assert "in f64" in done.out and "share" in done.out
