"""Training steps by members in files: threads in C that add by themselves train what one member
trains in Python."""

from __future__ import annotations

import ctypes
import json
import runpy
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import require_compiler
from graphc.cli import train
from tests.support.commands import graphc

Array = np.ndarray
ROWS, LABELS = 6, 3
LAYERS = """
x = Input(6, tag=feature)
labels = Input(3, tag=label)
kernel = Parameter(5, 6, init=uniform, initValueScale=0.7)
w = Parameter(3, 5, init=uniform, initValueScale=0.9)
h = HIDDEN
logits = Times(w, h)
loss = CrossEntropyWithSoftmax(labels, logits, tag=criteria)
wrong = ErrorPrediction(labels, logits, tag=eval)
"""
DROPOUT = LAYERS.replace("HIDDEN", "Dropout(Tanh(Times(kernel, x)))")
NORMALISED = """
scale = Parameter(5, 1, init=fixedValue, value=1.5)
bias = Parameter(5, 1, init=fixedValue, value=0.25)
mean = Parameter(5, 1, init=fixedValue, value=0, needGradient=false)
spread = Parameter(5, 1, init=fixedValue, value=1, needGradient=false)
""" + LAYERS.replace(
    "HIDDEN",
    "Tanh(BatchNormalization(Times(kernel, x), scale, bias, mean, spread, "
    "normalizationTimeConstant=20))",
)
NUMBERS = {
    "dropout_rate": "RATE",
    "step": "steps",
    "minibatch_samples": "total",
    "learning_rate": "STEP_NUM_LEARNING_RATE",
    "momentum": "pow(STEP_NUM_MOMENTUM, total / STEP_MINIBATCH)",
    "share": "1 / total",
    **{name: f"STEP_NUM_{name.upper()}" for name in ("beta1", "beta2", "epsilon")},
    **{name: f"step_num_{name}(steps)" for name in ("correction1", "correction2")},
}
"""What the numbers of a call of `total` samples are in C."""

THREADS = r"""
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "step.h"

enum { MOST = 16, MINIBATCHES = 64, WIDTH = 9 };
static int size, count, sizes[MINIBATCHES];
static T data[4096][WIDTH];
static const char *out;
static pthread_barrier_t all_here;
static void *arrays[MOST];
static int64_t sums[MOST];

#define ADD(type) \
    for (int i = 0; i < size; i++) \
        for (int64_t j = 0; j < count; j++) \
            ((type *)total)[j] += ((type *)arrays[i])[j];

static int32_t add(void *context, int64_t sum, void *array, int64_t count, int32_t bytes)
{
    int64_t rank = *(int64_t *)context, length = count * bytes;
    void *total = calloc(count, bytes);
    if (sum < 0 || sum >= STEP_SUMS || (bytes != 4 && bytes != 8) || length > STEP_SUM_BYTES)
        return 1;
    if (sum == STEP_SUMS - 1 && bytes != sizeof(T)) /* of the gradients */
        return 1;
    arrays[rank] = array, sums[rank] = sum;
    pthread_barrier_wait(&all_here);
    if (sums[0] != sum)
        return 1;
    if (bytes == 8)
        ADD(double)
    else
        ADD(float)
    pthread_barrier_wait(&all_here);
    memcpy(array, total, length);
    free(total);
    return 0;
}

static void *member(void *given)
{
    int64_t rank = *(int64_t *)given, steps = 0;
    graphc_members members = {add, given, rank, size};
    void *state = aligned_alloc(64, STEP_STATE_BYTES);
    void *arena = aligned_alloc(64, (STEP_ARENA_BYTES / 64 + 1) * 64);
    memcpy(state, step_start(), STEP_STATE_BYTES);
    memset(arena, 255, STEP_ARENA_BYTES); /* nans */
    for (int first = 0; steps < count; first += sizes[steps++]) {
        T x[STEP_N_BOUND][6], labels[STEP_N_BOUND][3], loss, wrong;
        double total = sizes[steps];
        int64_t n = 0;
        for (int i = rank; i < total; i += size, n++) {
            memcpy(x[n], data[first + i], sizeof x[n]);
            memcpy(labels[n], data[first + i] + 6, sizeof labels[n]);
        }
        int32_t code = step_run(n, INPUTS, NUMBERS, &loss, &wrong, state, arena, &members);
        if (code)
            fprintf(stderr, "%s\n", step_status(code)), exit(1);
        if (!rank)
            printf("%.17g %.17g\n", (double)loss, (double)wrong);
    }
    char name[512];
    snprintf(name, sizeof name, "%s.%d", out, (int)rank);
    FILE *file = fopen(name, "wb");
    fwrite(state, 1, STEP_STATE_BYTES, file);
    fclose(file);
    return 0;
}

int main(int argc, char **argv)
{
    static int64_t ranks[MOST];
    pthread_t threads[MOST];
    FILE *file = fopen(argv[2], "rb");
    size = atoi(argv[1]), out = argv[3];
    if (!file || !fread(data, sizeof *data, 4096, file))
        return 2;
    for (int i = 4; i < argc; i++)
        sizes[count++] = atoi(argv[i]);
    pthread_barrier_init(&all_here, 0, size);
    for (int i = 0; i < size; i++) {
        ranks[i] = i;
        pthread_create(&threads[i], 0, member, &ranks[i]);
    }
    for (int i = 0; i < size; i++)
        pthread_join(threads[i], 0);
    return 0;
}
"""
TRAINED = ("--learning-rate", "0.4", "--momentum", "0.6", "--bound", "8")
RULE = gc.SGD(0.4, momentum=0.6)
PROGRAM = """
import numpy as np
import graphc as gc


def layers(x, kernel, w):
    h = gc.dropout(gc.tanh(x @ kernel), 0.5)
    return {"logits": gc.transpose(gc.dropout(gc.transpose(h @ w), 0.25))}


rng = np.random.default_rng(1)
drawn = {"kernel": rng.normal(size=(6, 5)), "w": rng.normal(size=(5, 3))}
values = {name: value.astype("DTYPE") for name, value in drawn.items()}
net = gc.program(layers, {"x": "Nx6xTYPE"}, parameters=values, bounds={"N": BOUND})
fixed = gc.program(layers, {"x": "4x6xTYPE"}, parameters=values)
"""
MEASURED = {"loss": "softmax_cross_entropy", "measure": "classification_error"}


def program_text(dtype: str, bound: int, text: str = PROGRAM) -> str:
    kinds = {"TYPE": f"f{int(dtype[1]) * 8}", "DTYPE": dtype, "BOUND": str(bound)}
    for name in ("DTYPE", "TYPE", "BOUND"):
        text = text.replace(name, kinds[name])
    return text


def compiled(folder: Path, source: str, *options: str) -> None:
    """A step of the network or program as a library, C and header."""
    made = graphc(
        *("compile", f"{folder}/{source}", "--train", "--members", *options),
        *("-o", folder / "step", "--emit", "so,c,header"),
    )
    assert made.code == 0, made.err


def compiled_network(folder: Path, text: str, dtype: str, *options: str) -> None:
    (folder / "net.ndl").write_text(text)
    precise = ("--precision", "double") if dtype == "f8" else ()
    compiled(folder, "net.ndl", *TRAINED, *precise, *options)


def programs(folder: Path, dtype: str, rate: float) -> list[Path]:
    """What trains by threads: with the library, and with the C file."""
    library = ctypes.CDLL(str(folder / "step.so"))
    library.step_info.restype = ctypes.c_char_p
    info = json.loads(library.step_info())
    given = {
        "INPUTS": [f"{said['name']}[0]" for said in info["inputs"]],
        "NUMBERS": [NUMBERS[said["name"]] for said in info["numbers"]],
    }
    text = THREADS
    for word, arguments in given.items():
        text = text.replace(word, ", ".join(arguments))
    (folder / "threads.c").write_text(text)
    kind = "double" if dtype == "f8" else "float"
    flags = [
        f"-DT={kind}",
        f"-DRATE={rate}",
        "-std=c11",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-march=native",
    ]
    flags += ["-ffp-contract=off", "-fno-math-errno", "threads.c", "-pthread"]
    made: list[Path] = []
    for name, linked in (("with_so", "step.so"), ("with_c", "step.c")):
        command = [*flags, linked, "-o", name, "-lm", "-Wl,-rpath,$ORIGIN"]
        subprocess.run([require_compiler().path, *command], cwd=folder, check=True)
        made.append(folder / name)
    return made


def by_threads(
    program: Path, members: int, rows: Array, sizes: Sequence[int]
) -> tuple[Array, bytes]:
    """The results of each step, and the state that all members end with."""
    folder = program.parent
    rows.tofile(folder / "rows.bin")
    command = [program, str(members), "rows.bin", "state", *map(str, sizes)]
    done = subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=60
    )
    states = {(folder / f"state.{rank}").read_bytes() for rank in range(members)}
    assert len(states) == 1
    return np.array([line.split() for line in done.stdout.splitlines()], float), states.pop()


def samples(dtype: str, count: int) -> Array:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(count, ROWS))
    return np.column_stack([x, np.eye(LABELS)[x[:, :LABELS].argmax(1)]]).astype(dtype)


def alone(
    folder: Path, rows: Array, sizes: Sequence[int], rate: float
) -> tuple[Array, Mapping[str, Array]]:
    """One member in Python with whole minibatches: its results, and the parameters."""
    net = gc.load(folder / "net.ndl")
    precision = "f64" if rows.dtype == np.float64 else "f32"
    step = gc.compile_training(net, learner=RULE, batch=8, dropout=rate, precision=precision)
    results = results_of(step, rows, sizes)
    return results, {**net.parameters, **step.learner_state}


def results_of(step: gc.TrainingStep, rows: Array, sizes: Sequence[int]) -> Array:
    results: list[list[float]] = []
    for first, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
        part = rows[first : first + size]
        made = step(x=part[:, :ROWS], labels=part[:, ROWS:])
        results.append([float(value) for value in made.values()])
    return np.array(results)


def compare(
    folder: Path, found: tuple[Array, bytes], wanted: tuple[Array, Mapping[str, Array]], dtype: str
) -> None:
    tolerance = 1e-12 if dtype == "f8" else 1e-6
    np.testing.assert_allclose(found[0], wanted[0], 2 * tolerance, 2 * tolerance)
    library = ctypes.CDLL(str(folder / "step.so"))
    library.step_info.restype = ctypes.c_char_p
    held = json.loads(library.step_info())["state"]
    assert len(held) > 2
    for said in held:
        array = np.ndarray(said["shape"], dtype, found[1], said["offset"])
        np.testing.assert_allclose(array, wanted[1][said["name"]], tolerance, tolerance)


ADD = ctypes.CFUNCTYPE(
    *(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64),
    *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32),
)


class Table(ctypes.Structure):
    _fields_ = (
        ("all_reduce", ADD),
        ("context", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("size", ctypes.c_int64),
    )


def aligned(size: int) -> Array:
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_threads_in_c_drop_and_train_what_one_member_does_in_python(
    dtype: str, tmp_path: Path
) -> None:
    """As one, two and three, also where some have no samples: the library is the same."""
    sizes = [8, 8, 5, 1, 2, 8]
    rows = samples(dtype, sum(sizes))
    compiled_network(tmp_path, DROPOUT, dtype)
    wanted = alone(tmp_path, rows, sizes, 0.5)
    for program in programs(tmp_path, dtype, 0.5):
        for members in (1, 2, 3):
            compare(tmp_path, by_threads(program, members, rows, sizes), wanted, dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_threads_in_c_normalise_by_their_own_samples(dtype: str, tmp_path: Path) -> None:
    """Two with the same samples have the statistics of one with all of them twice; so has one
    whose companion has none."""
    sizes = [8, 6, 1, 8]
    rows = np.concatenate([np.repeat(samples(dtype, 7), 2, axis=0), samples(dtype, 9)[8:]])
    rows = np.concatenate([rows, np.repeat(samples(dtype, 4), 2, axis=0)])
    compiled_network(tmp_path, NORMALISED, dtype)
    wanted = alone(tmp_path, rows, sizes, 0.0)
    for program in programs(tmp_path, dtype, 0.0):
        compare(tmp_path, by_threads(program, 2, rows, sizes), wanted, dtype)


SYNC = "--comm-sync-batchnorm"


@pytest.mark.parametrize(("dtype", "sums"), [("f4", 1 + 2), ("f8", 1 + 3)])
def test_threads_in_c_normalise_by_the_samples_of_all(
    dtype: str, sums: int, tmp_path: Path
) -> None:
    """As one member with the whole minibatch, also where some have no samples."""
    sizes = [8, 8, 5, 1, 2, 8]
    rows = samples(dtype, sum(sizes))
    compiled_network(tmp_path, NORMALISED, dtype, SYNC)
    assert f"#define STEP_SUMS {sums}\n" in (tmp_path / "step.h").read_text()
    wanted = alone(tmp_path, rows, sizes, 0.0)
    for program in programs(tmp_path, dtype, 0.0):
        for members in (1, 2, 3):
            compare(tmp_path, by_threads(program, members, rows, sizes), wanted, dtype)


NORMALISED_PROGRAM = """
import numpy as np
import graphc as gc


def layers(x, kernel, w, scale, bias, mean, variance):
    h = gc.batch_normalization(x @ kernel, scale, bias, mean, variance, momentum=0.75)
    return {"logits": gc.tanh(h) @ w}


rng = np.random.default_rng(1)
drawn = {"kernel": rng.normal(size=(6, 5)), "w": rng.normal(size=(5, 3))}
drawn |= {name: 1 + rng.random(5) for name in ("scale", "bias", "mean", "variance")}
values = {name: value.astype("DTYPE") for name, value in drawn.items()}
net = gc.program(layers, {"x": "Nx6xTYPE"}, parameters=values, bounds={"N": BOUND})
"""


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_members_of_a_program_normalise_by_the_samples_of_all(dtype: str, tmp_path: Path) -> None:
    sizes = [8, 8, 5, 1, 8]
    rows = samples(dtype, sum(sizes))
    (tmp_path / "net.py").write_text(program_text(dtype, 8, NORMALISED_PROGRAM))
    measured = [part for name, value in MEASURED.items() for part in (f"--{name}", value)]
    compiled(tmp_path, "net.py:net", *measured, *TRAINED[:4], SYNC)
    net = runpy.run_path(str(tmp_path / "net.py"))["net"]
    step = gc.compile_training(net, learner=RULE, **MEASURED)
    results = results_of(step, rows, sizes)
    wanted = results, {**net.parameters, **step.learner_state}
    for program in programs(tmp_path, dtype, 0.0):
        for members in (2, 3):
            compare(tmp_path, by_threads(program, members, rows, sizes), wanted, dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_members_of_a_program_have_the_numbers_of_the_minibatch_of_all(
    dtype: str, tmp_path: Path
) -> None:
    """Which is larger than what a call of one takes. It drops elements along both axes."""
    sizes = [8, 8, 5, 1, 8]
    rows = samples(dtype, sum(sizes))
    (tmp_path / "net.py").write_text(program_text(dtype, 5))
    measured = [part for name, value in MEASURED.items() for part in (f"--{name}", value)]
    learner = ("--learner", "adam", "--learning-rate", "0.01", "--minibatch", "8")
    compiled(tmp_path, "net.py:net", *measured, *learner)
    assert "#define STEP_MINIBATCH 8\n" in (tmp_path / "step.h").read_text()
    (tmp_path / "alone.py").write_text(program_text(dtype, 8))
    net = runpy.run_path(str(tmp_path / "alone.py"))["net"]
    step = gc.compile_training(net, learner=gc.Adam(0.01), **MEASURED)
    results = results_of(step, rows, sizes)
    wanted = results, {**net.parameters, **step.learner_state}
    for program in programs(tmp_path, dtype, 0.0):
        for members in (2, 3):
            compare(tmp_path, by_threads(program, members, rows, sizes), wanted, dtype)


def test_calls_of_a_fixed_size_have_their_part(tmp_path: Path) -> None:
    """Two of 4 samples each are one of 8."""
    rows = samples("f8", 16)
    (tmp_path / "net.py").write_text(program_text("f8", 8))
    options = ("--loss", MEASURED["loss"], "--measure", MEASURED["measure"])
    learner = ("--learner", "adam", "--learning-rate", "0.01", "--minibatch", "8")
    compiled(tmp_path, "net.py:fixed", *options, *learner)
    header = tmp_path / "step.h"
    header.write_text(header.read_text() + "\n#define STEP_N_BOUND 4\n")
    net = runpy.run_path(str(tmp_path / "net.py"))["net"]
    step = gc.compile_training(net, learner=gc.Adam(0.01), **MEASURED)
    results = results_of(step, rows, [8, 8])
    wanted = results, {**net.parameters, **step.learner_state}
    for program in programs(tmp_path, "f8", 0.0):
        compare(tmp_path, by_threads(program, 2, rows, [8, 8]), wanted, "f8")


RECURRENT = """
x = Input(6, tag=feature)
labels = Input(3, tag=label)
kernel = Parameter(3, 6, init=uniform, initValueScale=0.7)
w = Parameter(3, 3, init=uniform, initValueScale=0.9)
h = Tanh(Plus(Times(kernel, x), Times(w, PastValue(3, 1, h))))
loss = SquareError(labels, h, tag=criteria)
"""


def test_members_of_sequences_take_their_own(tmp_path: Path) -> None:
    """Of 4 steps and of 3; in a second minibatch one member has no sequence at all."""
    rows = samples("f8", 12)
    (tmp_path / "net.ndl").write_text(RECURRENT)
    bounds = ("--time", "5", "--sequences", "2")
    options = ("--learning-rate", "0.2", "--momentum", "0.5", *bounds, "--precision", "double")
    compiled(tmp_path, "net.ndl", *options)
    assert "#define STEP_MINIBATCH 10\n" in (tmp_path / "step.h").read_text()
    net = gc.load(tmp_path / "net.ndl")
    learner = gc.SGD(0.2, momentum=0.5)
    step = gc.compile_training(net, learner=learner, time=5, sequences=2, precision="f64")
    minibatches = [[rows[:4], rows[4:7]], [rows[7:]]]
    wanted = [
        float(step(x=[s[:, :ROWS] for s in given], labels=[s[:, ROWS:] for s in given])["loss"])
        for given in minibatches
    ]
    library: Any = ctypes.CDLL(str(tmp_path / "step.so"))
    library.step_info.restype, library.step_start.restype = ctypes.c_char_p, ctypes.c_void_p
    info = json.loads(library.step_info())
    assert [s["name"] for s in info["numbers"]] == ["learning_rate", "momentum"]
    together, arrays = threading.Barrier(2), [np.zeros(0)] * 2
    found: list[list[float]] = [[], []]
    states = [aligned(info["state_bytes"]) for _ in range(2)]

    def member(rank: int) -> None:
        def add(_context: object, _sum: int, data: int, count: int, width: int) -> int:
            memory = (ctypes.c_uint8 * (count * width)).from_address(data)
            arrays[rank] = np.frombuffer(memory, np.float64)
            together.wait(30)
            total = arrays[0] + arrays[1]
            together.wait(30)
            arrays[rank][:] = total
            return 0

        table, arena = Table(ADD(add), None, rank, 2), aligned(info["arena_bytes"])
        ctypes.memmove(states[rank].ctypes.data, library.step_start(), info["state_bytes"])
        for given in minibatches:
            own = given[rank] if rank < len(given) else rows[:0]
            steps, total, out = len(own), sum(map(len, given)), np.zeros(1)
            arrays_given = {
                "x": own[:, :ROWS].copy(),
                "labels": own[:, ROWS:].copy(),
                "sequence.begin": np.zeros(steps + 1, np.int32),
                "sequence.end": np.full(steps + 1, steps, np.int32),
            }
            inputs = [arrays_given[s["name"]] for s in info["inputs"]]
            status = library.step_run(
                *(ctypes.c_int64(steps), ctypes.c_int64(1 if steps else 0)),
                *(ctypes.c_void_p(a.ctypes.data) for a in inputs),
                *(ctypes.c_double(0.02), ctypes.c_double(0.5 ** (total / 10))),
                *(ctypes.c_void_p(a.ctypes.data) for a in (out, states[rank], arena)),
                ctypes.byref(table),
            )
            assert status == 0
            found[rank].append(float(out[0]))

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in range(2):
        np.testing.assert_allclose(found[rank], wanted, 1e-12)
        for said in info["state"]:
            array = np.ndarray(said["shape"], "f8", states[rank], said["offset"])
            expected = {**net.parameters, **step.learner_state}[said["name"]]
            np.testing.assert_allclose(array, expected, 1e-12, 1e-12)


# --- mistakes ------------------------------------------------------------------------------------

RATE = ("--learning-rate", "0.1")
LOSS = ("--loss", "softmax_cross_entropy")
WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no step": (("net.ndl", "--members", "-o", "s.so"), 2, "--members is for --train"),
    "no step, statistics": (
        ("net.ndl", "--comm-sync-batchnorm", "-o", "s.so"),
        2,
        "--comm-sync-batchnorm is for --train",
    ),
    "no members": (
        ("net.ndl", "--train", *RATE, "--comm-sync-batchnorm", "-o", "s.so"),
        2,
        "--comm-sync-batchnorm is for --train --members",
    ),
    "no step, minibatch": (("net.ndl", "--minibatch", "8", "-o", "s.so"), 2, "is for --train"),
    "shards": (
        ("net.ndl", "--train", "--comm-shards", "2", *RATE, "-o", "s.so"),
        2,
        "say how `graphc train` adds over members. A step in a file is given the function that "
        "adds: --train --members",
    ),
    "no minibatch": (
        ("net.py:fixed", "--train", "--members", *RATE, *LOSS, "-o", "s.so"),
        2,
        "every call of this program has 4 samples, so a minibatch of all members has several "
        "times as many: give --minibatch, how many it has",
    ),
    "numbers": (
        ("noise.py:net", "--train", "--members", *RATE, *LOSS, "-o", "s.so"),
        3,
        "members cannot share a program's random numbers",
    ),
    "program": (
        ("net.ndl", "--train", "--members", *RATE, "-o", "s"),
        3,
        "of a training step these are made, for processors: so, header, obj, c, ll, asm, ir; got "
        "`exe`",
    ),
    "gpu": (
        ("net.ndl", "--train", "--members", *RATE, "-o", "s.so", "--target", "sm_90"),
        3,
        "for sm_90",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_said(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.ndl").write_text(DROPOUT)
    Path("net.py").write_text(program_text("f4", 8))
    noise = "gc.random_uniform(x.shape, 7)"
    Path("noise.py").write_text(
        program_text("f4", 8).replace("(x @ kernel)", f"((x + {noise}) @ kernel)")
    )
    argv, code, message = WRONG[case]
    done = graphc("compile", *argv)
    assert (done.code, message in " ".join(done.err.split())) == (code, True), done.err
    assert not [*tmp_path.glob("s*")]


def test_options_of_communicators_are_refused(tmp_path: Path) -> None:
    """All those that `graphc train` has, but the one that a step in a file has too."""
    (tmp_path / "net.ndl").write_text(DROPOUT)
    step = (str(tmp_path / "net.ndl"), "--train", *RATE, "-o", str(tmp_path / "s.so"))
    options = [o for o in train.command.params if o.opts[0].startswith("--comm")]
    others = [o for o in options if o.opts != ["--comm-sync-batchnorm"]]
    assert 6 < len(others) == len(options) - 1
    for option in others:
        assert isinstance(option, click.Option)
        name, value = option.opts[0], () if option.is_flag else ("2",)
        done = graphc("compile", *step, name, *value)
        said = " ".join(done.err.split())
        assert (done.code, name in said, "that adds: --train --members" in said) == (2, True, True)


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["so", "c"])
def test_a_step_without_a_sum_changes_nothing(kind: str, tmp_path: Path) -> None:
    compiled_network(tmp_path, DROPOUT, "f4")
    name = "step.so"
    if kind == "c":
        name = "of_c.so"
        flags = ["-march=native", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC"]
        made = [require_compiler().path, *flags, "step.c", "-o", name]
        subprocess.run(made, cwd=tmp_path, check=True)
    library: Any = ctypes.CDLL(str(tmp_path / name))
    for part in ("status", "info"):
        getattr(library, f"step_{part}").restype = ctypes.c_char_p
    library.step_start.restype = ctypes.c_void_p
    info = json.loads(library.step_info())
    state, arena = aligned(info["state_bytes"]), aligned(info["arena_bytes"])
    ctypes.memmove(state.ctypes.data, library.step_start(), len(state))
    rows, out = samples("f4", 4), np.zeros(2, np.float32)
    x, labels = rows[:, :ROWS].copy(), rows[:, ROWS:].copy()

    def call(table: Any) -> int:
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, labels)]
        numbers = [ctypes.c_double(0.5), ctypes.c_int64(0), ctypes.c_double(0.1)]
        results = [out.ctypes.data, out.ctypes.data + 4, state.ctypes.data, arena.ctypes.data]
        return int(
            library.step_run(
                *(ctypes.c_int64(4), *pointers, *numbers, ctypes.c_double(0.5)),
                *(map(ctypes.c_void_p, results)),
                table,
            )
        )

    before = state.copy()
    works, fails = ADD(lambda *_: 0), ADD(lambda *_: -1)
    wrong = {2: Table(ADD(), None, 0, 1), 6: Table(fails, None, 0, 1), 7: Table(works, None, 2, 2)}
    assert call(None) == 2
    for status, table in wrong.items():
        assert call(ctypes.byref(table)) == status
    assert call(ctypes.byref(Table(works, None, -1, 2))) == 7
    np.testing.assert_array_equal(state, before)
    assert b"all_reduce" in library.step_status(6) and b"rank" in library.step_status(7)
    header = (tmp_path / "step.h").read_text()
    assert b"MPI_" not in (tmp_path / name).read_bytes()
    assert "#define STEP_NO_SUM 6\n#define STEP_BAD_RANK 7\n" in header
    assert call(ctypes.byref(Table(works, None, 0, 1))) == 0
    assert (state != before).any()


def test_the_threads_of_a_pool_make_the_same_step(tmp_path: Path) -> None:
    wide = DROPOUT.replace("Parameter(5,", "Parameter(900,").replace("(3, 5", "(3, 900")
    (tmp_path / "net.ndl").write_text(wide)
    compiled(tmp_path, "net.ndl", "--learning-rate", "0.1", "--bound", "400")
    library: Any = ctypes.CDLL(str(tmp_path / "step.so"))
    library.step_info.restype = ctypes.c_char_p
    library.step_start.restype = library.step_pool_create.restype = ctypes.c_void_p
    info = json.loads(library.step_info())
    rows, arena = samples("f4", 400), aligned(info["arena_bytes"])
    x, labels = rows[:, :ROWS].copy(), rows[:, ROWS:].copy()
    pool = ctypes.c_void_p(library.step_pool_create(2))
    callers: set[int] = set()

    def add(*_: object) -> int:
        callers.add(threading.get_native_id())
        return 0

    table, states = Table(ADD(add), None, 0, 1), []
    for part, more in (("run", ()), ("run_with", (pool,))):
        state, out = aligned(info["state_bytes"]), np.zeros(2, np.float32)
        ctypes.memmove(state.ctypes.data, library.step_start(), len(state))
        places = [out.ctypes.data, out.ctypes.data + 4, state.ctypes.data, arena.ctypes.data]
        status = getattr(library, f"step_{part}")(
            *(ctypes.c_int64(400), *(ctypes.c_void_p(a.ctypes.data) for a in (x, labels))),
            *(ctypes.c_double(0.5), ctypes.c_int64(0), ctypes.c_double(0.1), ctypes.c_double(0)),
            *(*map(ctypes.c_void_p, places), ctypes.byref(table), *more),
        )
        assert status == 0
        states.append(state)
    library.step_pool_destroy(pool)
    np.testing.assert_array_equal(*states)
    assert callers == {threading.get_native_id()}
