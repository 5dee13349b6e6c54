"""`graphc bench`: how fast a network computes, or trains, on random data."""

from __future__ import annotations

import json
import math
import statistics
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click
import numpy as np

from graphc.backends import BACKENDS
from graphc.backends.base import MachinePeak
from graphc.cli.command import Command, RecordOption
from graphc.cli.network import open_network
from graphc.cli.options import (
    Definitions,
    Wanted,
    backend_option,
    check_reports,
    contraction_option,
    definition_options,
    json_option,
    launch_option,
    machine_option,
    no_cache_option,
    nodes_option,
    precision_option,
    program_options,
    sequence_options,
    threads_option,
    train_option,
)
from graphc.cli.profiling import (
    measured_peak,
    peak_flops,
    profile_record,
    profile_table,
    trace_record,
    write_json,
)
from graphc.cli.programs import MODEL_FILE, open_program
from graphc.cli.terminal import Terminal, common_options
from graphc.cli.values import FiniteRange
from graphc.driver.compile import (
    bind,
    bounds_for,
    default_outputs,
    evaluation_passes,
    node_names,
)
from graphc.driver.options import DEFAULT_BATCH, MOST_SAMPLES, CompileOptions
from graphc.driver.prepare import infer
from graphc.driver.profile import Profile
from graphc.driver.program import compile_program, program_passes
from graphc.ir.types import DType
from graphc.learn.sgd import SGD
from graphc.learn.step import compile_training_step, training_outputs
from graphc.model.model import Model
from graphc.model.program import Program
from graphc.ops.nodes.layout import node_type
from graphc.ops.nodes.statistics import MEAN, StatisticParams
from graphc.passes.analysis.costs import Cost
from graphc.runtime.signature import NUMPY_DTYPES, ROLES_OF_MODEL, Role, Signature
from graphc.runtime.threads import thread_count
from graphc.support.aligned import aligned_copy
from graphc.support.diagnostics import fail

SCHEMA = 1
PARAMETER_SCALE = 0.05
"""Of a program's parameters: with larger ones functions saturate, and gradients of a softmax are
denormal numbers, which take twenty times as long."""
NOISY = 0.3
"""A spread from which a machine is called busy."""
CODE_PHASES = frozenset({"codegen", "nvrtc"})
"""What is measured where code is made, and not where it is loaded."""
ENTRIES = 4
"""Numbers in a sample of a sparse input."""

EPILOG = """\b
Examples:
  graphc bench net.safetensors                  inference of a minibatch
  graphc bench net.ndl --train --minibatch 32   a training step (SGD with momentum)
  graphc bench net.ndl --kernels                and where its time goes
  graphc bench edited.gir                       a function as `graphc dump` prints it

The smallest time is what the machine can do, the median what it did. Inputs are normal random
numbers, labels one of their classes. Nodes that are normalised by Mean and InvStdDev have that mean
and deviation; where these have no values yet they are 0 and 1.
"""


@dataclass(frozen=True)
class Timing:
    """Seconds of a call: over rounds, in each of which it was called so many times, and of the
    shortest single call."""

    rounds: tuple[float, ...]
    calls: int
    least: float

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """The slowest round against the fastest, as a share of the median."""
        return (max(self.rounds) - min(self.rounds)) / self.median


@dataclass(frozen=True)
class Setup:
    """What was timed. compiling: the seconds until the code was there, is_cached: as it was kept;
    threads: as many at most; backend: whose code."""

    precision: DType
    threads: int
    compiling: float
    is_cached: bool = False
    backend: str = CompileOptions.backend


Prepare = Callable[[CompileOptions], tuple[Callable[[], object], int]]
"""Compiles what is timed: a call, and the samples (of sequences the steps) in it."""


@dataclass(frozen=True)
class Rounds:
    """How often calls are timed, and what all rounds take together, about."""

    rounds: int
    seconds: float


class RoundsOption(RecordOption):
    parameter, make = "rounds", Rounds


@click.command(cls=Command, epilog=EPILOG, short_help="Time a network on random data.")
@click.argument("model", type=MODEL_FILE, metavar="MODEL")
@nodes_option("What to compute, if not the output nodes.")
@train_option("Time a training step.")
@click.option(
    "--minibatch",
    type=click.IntRange(1, MOST_SAMPLES),
    metavar="N",
    help="Samples in a call; of a network that looks along time --time and --sequences say it. "
    f"[default: {DEFAULT_BATCH}]",
)
@sequence_options
@click.option(
    "--rounds",
    cls=RoundsOption,
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="R",
    help="How often calls are timed; median and spread are those of the rounds.",
)
@click.option(
    "--seconds",
    cls=RoundsOption,
    type=FiniteRange(0.001, 3600),
    default=1.0,
    show_default=True,
    metavar="S",
    help="What all rounds take together, about.",
)
@click.option(
    "--kernels",
    "--profile",
    "kernels",
    is_flag=True,
    help="Print the time of every kernel, with its nodes and lines.",
)
@click.option(
    "--trace",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write when each kernel ran, for ui.perfetto.dev.",
)
@backend_option
@precision_option
@contraction_option
@launch_option
@machine_option
@threads_option
@definition_options
@program_options
@no_cache_option
@json_option
@common_options
@click.pass_obj
def command(
    terminal: Terminal,
    /,
    model: Path,
    wanted: Wanted,
    minibatch: int | None,
    options: CompileOptions,
    rounds: Rounds,
    kernels: bool,
    trace: Path | None,
    definitions: Definitions,
    as_json: bool,
) -> None:
    """Time the code of MODEL on random data: rounds of calls, taken one after the other.

    MODEL may be a program, also FILE.py:NAME or a function of graphc's IR (.gir): what is written
    there of schedules and memory is kept.
    """
    check_reports([trace], [model, *definitions.macros])
    options = replace(options, batch=minibatch or options.batch)
    program = open_program(model, definitions)
    if program is not None:
        options = replace(options, precision=program.precision)
        prepare: Prepare = partial(call_of_program, program)
    else:
        network = opened(model, definitions, options, wanted, minibatch)
        prepare = partial(prepared_call, network, wanted)
    try:
        call, samples = prepare(options)
        setup = setup_of(options)
        timing = measure(call, rounds.rounds, rounds.seconds)
        takes_times = BACKENDS[options.backend]().profile is not None
        with_times = takes_times or kernels or trace is not None
        profile = profiled(prepare, options, trace=trace is not None) if with_times else None
    except MemoryError:
        message = "a call takes more memory than there is: see --minibatch, --time and --sequences"
        raise fail("limit", message) from None
    if profile is None:
        record = bench_record(timing, samples, setup)
        text = bench_text(timing, samples, setup)
        terminal.write(json.dumps({"schema": SCHEMA, **record}, indent=1) if as_json else text)
        return
    work, peak = work_of_a_call(profile), measured_peak()
    if as_json:
        record = bench_record(timing, samples, setup) | work_record(timing, setup, work, peak)
        kernel_record = {"profile": profile_record(profile, peak)} if kernels else {}
        terminal.write(json.dumps({"schema": SCHEMA, **record, **kernel_record}, indent=1))
    else:
        terminal.write(bench_text(timing, samples, setup, work, peak))
        if kernels:
            terminal.write("\n" + profile_table(profile, peak))
    if trace is not None:
        write_json(trace, trace_record(profile))


def opened(
    path: Path,
    definitions: Definitions,
    options: CompileOptions,
    wanted: Wanted,
    minibatch: int | None,
) -> Model:
    """The network with its sizes, and with made-up statistics."""
    network = open_network(path, definitions).model
    infer(network)
    make_up_statistics(network)
    if minibatch is not None and has_steps(network, options, wanted):
        raise click.UsageError(
            "--minibatch is for samples without time; the network looks along it: "
            "--time, --sequences"
        )
    return network


def has_steps(model: Model, options: CompileOptions, wanted: Wanted) -> bool:
    """Whether a call takes sequences, which other options than --minibatch limit."""
    of_step = training_outputs(model, None) if wanted.train else ()
    names = of_step or wanted.nodes or default_outputs(model)
    return bool(bounds_for(model, node_names(model, names), options).time)


def setup_of(options: CompileOptions) -> Setup:
    """After the compilation and before any other with these options."""
    phases = options.phases.seconds
    return Setup(
        options.precision,
        thread_count(options.threads),
        sum(phases.values()),
        is_cached="cache" in phases and CODE_PHASES.isdisjoint(phases),
        backend=options.backend,
    )


def make_up_statistics(model: Model) -> None:
    """Give Mean and InvStdDev nodes without values those of the random data."""
    for op in model.graph.block:
        if isinstance(op.params, StatisticParams) and not op.params.computed:
            value = np.full((node_type(op).rows or 0, 1), 0.0 if op.opdef is MEAN else 1.0)
            model.set_statistic(op.result.name or "", value)


def call_of_program(program: Program, options: CompileOptions) -> tuple[Callable[[], object], int]:
    """A call of a program at its bounds, and the samples (or steps) in it.

    Inputs are normal random numbers and parameters small ones, which saturate no function, where
    panels of them would lie; settings and states are zeros.
    """
    function, signature = compile_program(program, program_passes(program, options), options)
    rng = np.random.default_rng(0)
    bounds = signature.sizes_at_bounds

    def array(shape: Sequence[int | str], dtype: np.dtype, scale: float = 0.0) -> np.ndarray:
        sizes = [s if isinstance(s, int) else bounds[s] for s in shape]
        if scale and dtype.kind == "f":
            return aligned_copy(scale * rng.standard_normal(sizes, dtype=dtype), dtype)
        return np.zeros(sizes, dtype)

    given = [array(a.shape, NUMPY_DTYPES[a.dtype], _scale(a.role)) for a in signature.arguments]
    results = [array(r.shape, NUMPY_DTYPES[r.dtype]) for r in signature.fresh_results]
    samples = math.prod(d.bound for d in signature.call_dims)
    if (tables := signature.sequences) is not None:
        given[[a.name for a in signature.arguments].index(tables.end)][:] = bounds[tables.time]
        samples = bounds[tables.time] * bounds[tables.slots]
    return lambda: function(given, results, bounds), samples


def _scale(role: Role) -> float:
    """Of random numbers for an argument; 0 for one that is zeros."""
    if role in ("hyperparameter", "state"):
        return 0.0
    return PARAMETER_SCALE if role in ROLES_OF_MODEL else 1.0


def prepared_call(
    model: Model, wanted: Wanted, options: CompileOptions
) -> tuple[Callable[[], object], int]:
    """A call on random inputs, and the samples (of sequences the steps) in it."""
    if wanted.train:
        step = compile_training_step(model, SGD(0.01, momentum=0.9), options)
        inputs, samples = random_inputs(model, step.signature, options)
        return lambda: step(**inputs), samples
    executable = bind(model, lambda m, o: evaluation_passes(m, wanted.nodes, (), o), options)
    inputs, samples = random_inputs(model, executable.signature, options)
    return lambda: executable(**inputs), samples


def random_inputs(
    model: Model, signature: Signature, options: CompileOptions
) -> tuple[dict[str, object], int]:
    """What the function takes at its bounds: normal numbers with the statistics that the network
    has of them, of labels a class for each sample."""
    rng = np.random.default_rng(0)
    statistics = statistics_of_inputs(model)
    tables = signature.sequences
    bounds = {d.name: d.bound for d in signature.call_dims}
    labels = {name.lower() for name in model.tagged("label")}
    rows = {s.name: s.rows for s in signature.sparse}
    shapes = {a.name: a.shape for a in signature.with_role("input")}
    dtype = options.precision.numpy

    def columns(name: str, count: int) -> object:
        if name in rows:
            indices = rng.integers(0, rows[name], count * ENTRIES).astype(np.int32)
            return indices, np.arange(count + 1) * ENTRIES
        width = shapes[name][-1]
        assert isinstance(width, int)
        if name.lower() in labels and width > 1:
            return np.eye(width, dtype=dtype)[rng.integers(0, width, count)]
        mean, deviation = statistics.get(name.lower(), (0.0, 1.0))
        return (mean + deviation * rng.standard_normal((count, width))).astype(dtype)

    if tables is None:
        return {n: columns(n, options.batch) for n in signature.input_names}, options.batch
    steps, slots = bounds[tables.time], bounds[tables.slots]
    given = {n: [columns(n, steps) for _ in range(slots)] for n in signature.input_names}
    return dict(given), steps * slots


def statistics_of_inputs(model: Model) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean and deviation by the names of inputs, in lower case, as rows."""
    found: dict[str, list[np.ndarray]] = {}
    for op in model.graph.block:
        if isinstance(op.params, StatisticParams) and op.params.computed:
            value = model.values[op.result.name or ""].reshape(1, -1)
            both = found.setdefault((op.operands[0].name or "").lower(), [value * 0, value * 0 + 1])
            if op.opdef is MEAN:
                both[0] = value
            else:
                # What is the same in all samples has an InvStdDev of 0.
                both[1] = np.divide(1, value, out=value * 0, where=value != 0)
    return {name: (mean, deviation) for name, (mean, deviation) in found.items()}


def measure(call: Callable[[], object], rounds: int, seconds: float) -> Timing:
    """Rounds of calls that take about so many seconds together, then single calls of a tenth of
    these; the first calls do not count."""
    call()
    start = clock.perf_counter()
    call()
    once = max(clock.perf_counter() - start, 1e-7)
    calls = max(1, round(seconds / rounds / once))
    found: list[float] = []
    for _ in range(rounds):
        start = clock.perf_counter()
        for _ in range(calls):
            call()
        found.append((clock.perf_counter() - start) / calls)
    single = [seconds_of(call) for _ in range(max(calls * rounds // 10, 1))]
    # The shortest call of a round took no longer than the round's mean.
    return Timing(tuple(found), calls, min(*found, *single))


def seconds_of(call: Callable[[], object]) -> float:
    start = clock.perf_counter()
    call()
    return clock.perf_counter() - start


def profiled(prepare: Prepare, options: CompileOptions, *, trace: bool) -> Profile:
    """A few calls of the function that notes its times; the first one does not count."""
    profile = Profile(keep_events=trace)
    call, _ = prepare(replace(options, profile=profile))
    call()
    profile.reset()
    for _ in range(10):
        call()
    return profile


def work_of_a_call(profile: Profile) -> Cost:
    """What one call computes and moves, all operations together."""
    total = Cost()
    for row in profile.rows():
        total = total.plus(row.cost)
    count = max(profile.calls, 1)
    return Cost(total.flops // count, total.bytes_read // count, total.bytes_written // count)


def bench_record(timing: Timing, samples: int, setup: Setup) -> dict[str, object]:
    """The numbers for JSON, in seconds."""
    return {
        "median": timing.median,
        "min": timing.least,
        "max": max(timing.rounds),
        "rounds": list(timing.rounds),
        "calls_in_a_round": timing.calls,
        "samples": samples,
        "samples_per_second": samples / timing.median,
        "compile_seconds": setup.compiling,
        "from_cache": setup.is_cached,
        "backend": setup.backend,
        "precision": setup.precision.value,
        "threads": setup.threads,
    }


def work_record(timing: Timing, setup: Setup, work: Cost, peak: MachinePeak) -> dict[str, object]:
    """What a call computes and moves, and what one core of the machine could, for JSON."""
    return {
        "flops": work.flops,
        "bytes": work.bytes,
        "flops_per_second": work.flops / timing.median,
        "bytes_per_second": work.bytes / timing.median,
        "peak_flops": peak_flops(peak, setup.precision.value),
        "copy_bytes": peak.bytes,
    }


def bench_text(
    timing: Timing,
    samples: int,
    setup: Setup,
    work: Cost | None = None,
    peak: MachinePeak | None = None,
) -> str:
    """The same in words."""
    dtype = setup.precision.value
    how = "loaded from the cache in" if setup.is_cached else "compiled in"
    threads = f"with {setup.threads} thread{'s' if setup.threads > 1 else ''} at most"
    by = threads if setup.backend == CompileOptions.backend else f"by {setup.backend}"
    lines = {
        how: f"{setup.compiling * 1e3:.1f} ms",
        "computed": f"in {dtype} {by}",
        "a call": f"{_time(timing.median)} (median of {len(timing.rounds)} rounds of "
        f"{timing.calls}), {_time(timing.least)} the shortest, spread {timing.spread:.0%}",
        "samples": f"{samples:,} in a call, {samples / timing.median:,.0f} a second",
    }
    if work is not None and peak is not None:
        computing, moving = work.flops / timing.median, work.bytes / timing.median
        most = peak_flops(peak, dtype)
        several = " on one core; several have more" if computing > most else " on one core"
        cached = "; caches have more" if moving > peak.bytes else ""
        lines["arithmetic"] = (
            f"{computing / 1e9:.2f} GFLOP/s, {computing / most:.0%} of "
            f"{most / 1e9:.0f} (multiply-adds of {dtype}{several})"
        )
        lines["memory"] = (
            f"{moving / 1e9:.2f} GB/s read and written, {moving / peak.bytes:.0%} of "
            f"{peak.bytes / 1e9:.1f} (a copy from memory to memory{cached})"
        )
    if timing.spread > NOISY:
        lines["note"] = "the rounds differ much: the machine is busy"
    return "\n".join(f"{name:<12} {text}" for name, text in lines.items())


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.2f} us"
