"""Training steps by members in files: threads in C that add by themselves train what one member
trains in Python."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import require_compiler
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

static int32_t add(void *context, void *array, int64_t count, int32_t bytes)
{
    int64_t rank = *(int64_t *)context;
    T *total = calloc(count, bytes);
    if (bytes != sizeof(T) || count * bytes != STEP_SUM_BYTES)
        return 1;
    arrays[rank] = array;
    pthread_barrier_wait(&all_here);
    for (int i = 0; i < size; i++)
        for (int64_t j = 0; j < count; j++)
            total[j] += ((T *)arrays[i])[j];
    pthread_barrier_wait(&all_here);
    memcpy(array, total, count * bytes);
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
        int32_t code = step_run(n, x[0], labels[0], NUMBERS, &loss, &wrong, state, arena, &members);
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
TRAINED = ("--train", "--members", "--learning-rate", "0.4", "--momentum", "0.6", "--bound", "8")
RULE = gc.SGD(0.4, momentum=0.6)


def compiled(folder: Path, text: str, dtype: str, *options: str) -> None:
    """A step of the network as a library, C and header."""
    (folder / "net.ndl").write_text(text)
    precision = ("--precision", "f64") if dtype == "f8" else ()
    made = graphc(
        *("compile", folder / "net.ndl", *TRAINED, *precision, *options),
        *("-o", folder / "step", "--emit", "so,c,header"),
    )
    assert made.code == 0, made.err


def programs(folder: Path, dtype: str, rate: float) -> list[Path]:
    """What trains by threads: with the library, and with the C file."""
    library = ctypes.CDLL(str(folder / "step.so"))
    library.step_info.restype = ctypes.c_char_p
    named = json.loads(library.step_info())["numbers"]
    given = ", ".join(NUMBERS[number["name"]] for number in named)
    text = THREADS.replace("NUMBERS", given).replace("RATE", str(rate))
    (folder / "threads.c").write_text(text)
    kind = "double" if dtype == "f8" else "float"
    flags = [f"-DT={kind}", "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-march=native"]
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
    results: list[list[float]] = []
    for first, size in zip(np.cumsum([0, *sizes]), sizes, strict=False):
        part = rows[first : first + size]
        made = step(x=part[:, :ROWS], labels=part[:, ROWS:])
        results.append([float(made["loss"]), float(made["wrong"])])
    return np.array(results), {**net.parameters, **step.learner_state}


def compare(
    folder: Path, found: tuple[Array, bytes], wanted: tuple[Array, Mapping[str, Array]], dtype: str
) -> None:
    tolerance = 1e-12 if dtype == "f8" else 1e-6
    np.testing.assert_allclose(found[0], wanted[0], 2 * tolerance, 2 * tolerance)
    library = ctypes.CDLL(str(folder / "step.so"))
    library.step_info.restype = ctypes.c_char_p
    held = json.loads(library.step_info())["state"]
    assert {s["name"] for s in held} >= {"kernel", "w", "velocity.kernel"}
    for said in held:
        array = np.ndarray(said["shape"], dtype, found[1], said["offset"])
        np.testing.assert_allclose(array, wanted[1][said["name"]], 0, tolerance)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_threads_in_c_drop_and_train_what_one_member_does_in_python(
    dtype: str, tmp_path: Path
) -> None:
    """As one, two and three, also where some have no samples: the library is the same."""
    sizes = [8, 8, 5, 1, 2, 8]
    rows = samples(dtype, sum(sizes))
    compiled(tmp_path, DROPOUT, dtype)
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
    compiled(tmp_path, NORMALISED, dtype)
    wanted = alone(tmp_path, rows, sizes, 0.0)
    for program in programs(tmp_path, dtype, 0.0):
        compare(tmp_path, by_threads(program, 2, rows, sizes), wanted, dtype)


# --- the table -----------------------------------------------------------------------------------

ADD = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
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


@pytest.mark.parametrize("kind", ["so", "c"])
def test_a_step_without_a_sum_changes_nothing(kind: str, tmp_path: Path) -> None:
    compiled(tmp_path, DROPOUT, "f4")
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
    assert "#define STEP_NO_SUM 6\n#define STEP_BAD_RANK 7\n" in header
    assert call(ctypes.byref(Table(works, None, 0, 1))) == 0
    assert (state != before).any()
