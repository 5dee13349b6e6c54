"""Training steps in files: what they make of the state is what they make in Python, bit for bit."""

from __future__ import annotations

import ctypes
import json
import math
import runpy
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import require_compiler
from graphc.artifacts.numbers import Changing
from graphc.driver.artifact import ArtifactRequest, emit
from graphc.driver.options import CompileOptions
from graphc.learn.program_loss import Objective
from graphc.learn.program_step import Trained
from graphc.learn.step_files import step_of_program
from tests.support.commands import graphc

Array = np.ndarray
PYTHON = """
import numpy as np
import graphc as gc


def pictures(x, kernel, w):
    h = gc.relu(gc.conv(x, kernel))
    return {"logits": gc.reshape(h, (x.shape[0], 18)) @ w}


rng = np.random.default_rng(1)
drawn = {"kernel": rng.normal(size=(2, 2, 1, 2)), "w": rng.normal(size=(18, 3))}
values = {name: value.astype("DTYPE") for name, value in drawn.items()}
net = gc.program(pictures, {"x": "Nx4x4x1xDTYPE"}, parameters=values, bounds={"N": 8})
"""
NETWORK = """
x = Input(16, tag=feature)
labels = Input(3, tag=label)
kernel = Parameter(5, 16, init=uniform, initValueScale=0.7)
w = Parameter(3, 5, init=uniform, initValueScale=0.9)
shift = Parameter(3, 1, needGradient=false, init=fixedValue, value=0.25)
logits = Plus(Times(w, Dropout(Tanh(Times(kernel, x)))), shift)
loss = CrossEntropyWithSoftmax(labels, logits, tag=criteria)
classification_error = ErrorPrediction(labels, logits, tag=eval)
"""
MEASURED = ("--loss", "softmax_cross_entropy", "--measure", "classification_error")
LEARNERS: dict[str, tuple[tuple[str, ...], Any]] = {
    "momentum": (
        ("--learning-rate", "0.2", "--momentum", "0.5"),
        gc.SGD(0.2, momentum=0.5),
    ),
    "adagrad": (
        ("--learner", "adagrad", "--learning-rate", "0.1", "--l2", "0.01"),
        gc.AdaGrad(0.1, l2=0.01),
    ),
}


class Library:
    """A training step behind its C interface."""

    def __init__(self, path: Path, name: str, outputs: int = 2) -> None:
        self.code = ctypes.CDLL(str(path))
        self.name, self.outputs = name, outputs
        for part, kind in (("info", ctypes.c_char_p), ("start", ctypes.c_void_p)):
            self.function(part).restype = kind
        for part in ("state_bytes", "arena_bytes"):
            self.function(part).restype = ctypes.c_int64
        self.info: dict[str, Any] = json.loads(self.function("info")())
        self.state = aligned(self.function("state_bytes")())
        self.arena = aligned(self.function("arena_bytes")())
        start = self.function("start")()
        assert start % 64 == 0
        ctypes.memmove(self.state.ctypes.data, start, len(self.state))

    def function(self, part: str) -> Any:
        return getattr(self.code, f"{self.name}_{part}")

    def step(self, inputs: Mapping[str, Array], numbers: Mapping[str, float]) -> list[float]:
        """The results of a step, after which the state is another."""
        given = [inputs[i["name"]] for i in self.info["inputs"]]
        results = [np.zeros((1, 1), given[0].dtype) for _ in self.info["outputs"]]
        status = self.function("run")(
            ctypes.c_int64(len(given[0])),
            *(ctypes.c_void_p(a.ctypes.data) for a in given),
            *(_number(n["dtype"], numbers[n["name"]]) for n in self.info["numbers"]),
            *(ctypes.c_void_p(a.ctypes.data) for a in (*results, self.state, self.arena)),
        )
        assert status == 0
        return [float(r[0, 0]) for r in results]

    def arrays(self) -> dict[str, Array]:
        """What the state holds, by name."""
        kinds = {"f32": np.float32, "f64": np.float64}
        return {
            s["name"]: np.ndarray(s["shape"], kinds[s["dtype"]], self.state, s["offset"])
            for s in self.info["state"]
        }


def _number(dtype: str, value: float) -> ctypes.c_int64 | ctypes.c_double:
    return ctypes.c_int64(int(value)) if dtype[0] == "i" else ctypes.c_double(value)


def aligned(size: int) -> Array:
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def libraries(folder: Path, *options: str | Path) -> list[Library]:
    """The same step as a library of the compiler and as one of the C file."""
    made = graphc("compile", *options, "--train", "-o", folder / "step", "--emit", "so,c,header")
    assert made.code == 0, made.err
    header = (folder / "step.h").read_text()
    (folder / "check.c").write_text(f"{header}\nint main(void) {{ return 0; }}\n")
    compiler = require_compiler().path
    flags = ["-std=c11", "-O1", "-march=native", "-ffp-contract=off", "-Werror"]
    for command in (
        ["-std=c99", "-Wall", "-Wextra", "-fsyntax-only", "check.c"],
        [*flags, "-fno-math-errno", "-shared", "-fPIC", "step.c", "-o", "of_c.so", "-lm"],
    ):
        subprocess.run([compiler, *command], cwd=folder, check=True)
    return [Library(folder / name, "step") for name in ("step.so", "of_c.so")]


def minibatches(dtype: str, *sizes: int) -> list[dict[str, Array]]:
    """Whole ones of 8 samples, and a shorter one."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(21, *sizes)).astype(dtype)
    labels = np.eye(3, dtype=dtype)[x.reshape(21, 16)[:, :3].argmax(1)]
    return [{"x": x[p], "labels": labels[p]} for p in (slice(8), slice(8, 16), slice(16, 21))]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_steps_of_a_program_are_those_in_python(learner: str, dtype: str, tmp_path: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text(PYTHON.replace("xDTYPE", f"xf{int(dtype[1]) * 8}").replace("DTYPE", dtype))
    options, rule = LEARNERS[learner]
    built = libraries(tmp_path, f"{source}:net", *MEASURED, *options)
    for backend, library in zip(("llvm", "c"), built, strict=True):
        net = runpy.run_path(str(source))["net"]
        step = gc.compile_training(
            net,
            learner=rule,
            loss="softmax_cross_entropy",
            measure="classification_error",
            backend=backend,
        )
        _compare(library, step, dict(net.parameters), rule, minibatches(dtype, 4, 4, 1))


def test_steps_of_a_network_are_those_in_python(tmp_path: Path) -> None:
    source = tmp_path / "net.ndl"
    source.write_text(NETWORK)
    options, rule = LEARNERS["momentum"]
    built = libraries(tmp_path, source, *options, "--bound", "8")
    for backend, library in zip(("llvm", "c"), built, strict=True):
        net = gc.load(source)
        step = gc.compile_training(net, learner=rule, batch=8, dropout=0.5, backend=backend)
        values = {name: net.model.values[name] for name in ("kernel", "w")}
        _compare(library, step, values, rule, minibatches("f4", 16))


def test_a_large_state_begins_the_same_in_c(tmp_path: Path) -> None:
    """Which is then no list of numbers, and in which the learner's arrays are zeros."""
    source = tmp_path / "net.ndl"
    source.write_text(NETWORK.replace("Parameter(5,", "Parameter(900,").replace("(3, 5", "(3, 900"))
    options, _ = LEARNERS["momentum"]
    of_object, of_c = libraries(tmp_path, source, *options, "--bound", "8")
    assert len(of_c.state) > 1 << 16
    np.testing.assert_array_equal(of_c.state, of_object.state)
    assert '"",\n' in (tmp_path / "step.c").read_text()


def _compare(
    library: Library,
    step: Any,
    values: dict[str, Array],
    rule: Any,
    parts: list[dict[str, Array]],
) -> None:
    arrays = library.arrays()
    assert arrays.keys() == values.keys() | step.learner_state.keys()
    for name, array in arrays.items():
        wanted = values[name] if name in values else np.zeros_like(array)
        np.testing.assert_array_equal(array, wanted)
    for number, part in enumerate(parts):
        own = {"dropout_rate": 0.5, "step": number}
        numbers = rule.hyperparameters(len(part["x"]), 8) | own
        made = [float(value) for value in step(**part).values()]
        assert library.step(part, numbers) == made
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, {**values, **step.learner_state}[name])


def test_the_header_says_the_numbers_of_a_whole_minibatch_and_where_arrays_are(
    tmp_path: Path,
) -> None:
    source = tmp_path / "net.py"
    source.write_text(PYTHON.replace("xDTYPE", "").replace("DTYPE", "f4"))
    out = ("--train", *MEASURED, *LEARNERS["momentum"][0], "--only", "w", "-o", tmp_path / "s.h")
    for _ in range(2):  # over what is there
        assert graphc("compile", f"{source}:net", *out).code == 0
    text = (tmp_path / "s.h").read_text()
    for line in ("NUM_LEARNING_RATE 0.025", "NUM_MOMENTUM 0.5", "AT_w 0", "AT_velocity_w 256"):
        assert f"#define S_{line}\n" in text
    assert "S_AT_kernel" not in text


CHANGING: dict[str, Any] = {
    "adam": gc.Adam(0.1, beta2=0.99),
    "curves": gc.AdamW(gc.Warmup(3, gc.Cosine(0.1, 7, 0.01)), l1=0.01),
    "epochs": gc.SGD("0.3:0.2*2:0.1", momentum=0.5, clip=gc.ClipNorm([1.0, 2.0])),
    "both": gc.Adam(learning_rate_per_sample=gc.StepDecay(0.1, 2, 0.3), beta1="0.9:0.8"),
    "nothing": gc.SGD(gc.StepDecay(0.1, 1, 0.0)),
}


def test_numbers_that_change_are_those_of_python(tmp_path: Path) -> None:
    """Bit for bit, from C89 on, however the compiler contracts."""
    source = tmp_path / "net.py"
    source.write_text(PYTHON.replace("xDTYPE", "").replace("DTYPE", "f4"))
    net = runpy.run_path(str(source))["net"]
    trained = Trained.of(net, Objective("softmax_cross_entropy"))
    places = [(epoch, steps) for epoch in range(4) for steps in (0, 1, 2, 3, 9, 10, 10**5)]
    lines, wanted = [], []
    for name, learner in CHANGING.items():
        step = step_of_program(trained, learner)
        request = ArtifactRequest(["header"], tmp_path / f"{name}.h")
        emit(step, request, CompileOptions())
        for number, value in step.numbers.by_name.items():
            if not isinstance(value, Changing):
                continue
            for epoch, steps in places:
                given = {"epoch": epoch, "steps": steps}
                call = ", ".join(str(given[a]) for a in value.arguments)
                lines.append(f'    printf("%a\\n", {name}_num_{number}({call}));')
                wanted.append(learner.at(epoch).hyperparameters(8, 8, steps)[number])
    included = [f'#include "{name}.h"' for name in CHANGING]
    main = ["#include <stdio.h>", *included, "int main(void) {", *lines, "    return 0;", "}"]
    (tmp_path / "check.c").write_text("\n".join(main))
    flags = ["-std=gnu89", "-Wall", "-Wextra", "-Werror", "-march=native", "-ffp-contract=fast"]
    compiler = require_compiler().path
    made = [compiler, *flags, "check.c", "-o", "check", "-lm"]
    subprocess.run(made, cwd=tmp_path, check=True)
    said = subprocess.run([tmp_path / "check"], capture_output=True, text=True, check=True).stdout
    assert [float.fromhex(line) for line in said.split()] == wanted
    assert {type(n) for n in step_of_program(trained, gc.SGD(0.1)).numbers.by_name.values()} == {
        float
    }


@dataclass(frozen=True)
class Own:
    """A curve that asks for the number itself."""

    def at_update(self, update: int) -> float:
        return 0.1 / math.sqrt(update + 1)


def test_a_curve_that_is_no_formula_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text(PYTHON.replace("xDTYPE", "").replace("DTYPE", "f4"))
    trained = Trained.of(runpy.run_path(str(source))["net"], Objective("softmax_cross_entropy"))
    with pytest.raises(gc.GraphcError, match="those of SGD with these settings are no formula"):
        step_of_program(trained, gc.SGD(Own()))


def test_calls_that_are_wrong_give_a_status_and_change_nothing(tmp_path: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text(PYTHON.replace("xDTYPE", "").replace("DTYPE", "f4"))
    for library in libraries(tmp_path, f"{source}:net", *MEASURED, *LEARNERS["momentum"][0]):
        before = library.state.copy()
        x, out = np.ones((9, 16), np.float32), np.zeros(2, np.float32)
        state, arena = library.state.ctypes.data, library.arena.ctypes.data

        def call(
            n: int, state: int, arena: int, library: Library = library, x: Any = x, out: Any = out
        ) -> int:
            data, result = x.ctypes.data, out.ctypes.data
            pointers = [ctypes.c_void_p(p) for p in (data, data)]
            results = [ctypes.c_void_p(p) for p in (result, result + 4, state, arena)]
            numbers = [ctypes.c_double(0.1)] * 2
            return int(library.function("run")(ctypes.c_int64(n), *pointers, *numbers, *results))

        calls = [(9, state, arena), (-1, state, arena), (1, 0, arena), (1, state + 8, arena)]
        assert [call(*given) for given in calls] == [1, 1, 2, 4]
        assert call(1, state, arena + 8) == 3
        np.testing.assert_array_equal(library.state, before)


def test_a_label_of_no_class_gives_a_status_and_changes_nothing(tmp_path: Path) -> None:
    source = tmp_path / "net.py"
    source.write_text(PYTHON.replace("xDTYPE", "").replace("DTYPE", "f4"))
    options = (*MEASURED, *LEARNERS["momentum"][0], "--label-type", "Nxi32")
    for library in libraries(tmp_path, f"{source}:net", *options):
        library.function("status").restype = ctypes.c_char_p
        before, out = library.state.copy(), np.zeros(2, np.float32)
        x, statuses = np.ones((4, 16), np.float32), list[int]()
        for labels in ([0, 1, 2, 3], [0, -1, 2, 1], [0, 1, 2, 0]):
            numbers = np.array(labels, np.int32)
            given = [a["name"] for a in library.info["inputs"]]
            inputs = [{"x": x, "labels": numbers}[name].ctypes.data for name in given]
            ends = (out.ctypes.data, out.ctypes.data + 4, library.state.ctypes.data)
            statuses.append(
                library.function("run")(
                    ctypes.c_int64(4),
                    *map(ctypes.c_void_p, inputs),
                    *[ctypes.c_double(0.1)] * 2,
                    *map(ctypes.c_void_p, (*ends, library.arena.ctypes.data)),
                )
            )
            assert np.array_equal(library.state, before) == (len(statuses) < 3)
        assert statuses == [8, 8, 0]
        assert library.function("status")(8) == b"a class number is outside of the classes"
    header = (tmp_path / "step.h").read_text()
    assert "#define STEP_NO_CLASS 8\n#define STEP_LABELS_CLASSES 3\n" in header
    assert "8 (STEP_NO_CLASS) a number of labels is not from 0 to 2." in header


RATE = ("--learning-rate", "0.1")
WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "program": (("--train", *MEASURED, *RATE, "-o", "step"), 3, "got `exe`"),
    "numpy": (("--train", *MEASURED, *RATE, "-o", "step.py"), 3, "got `py`"),
    "gpu": (("--train", *MEASURED, *RATE, "-o", "s.so", "--target", "sm_90"), 3, "for sm_90"),
    "losses": (
        ("--train", *MEASURED, *RATE, "--learner", "stepping-heuristic", "-o", "step.so"),
        3,
        "those of SteppingHeuristic with these settings follow the losses",
    ),
    "no rate": (("--train", *MEASURED, "-o", "step.so"), 2, "--learning-rate"),
    "no loss": (("--train", *RATE, "-o", "step.so"), 3, "--loss, is required"),
    "no step": ((*RATE, "-o", "step.so"), 2, "--learning-rate is for --train"),
    "no step, loss": ((*MEASURED, "-o", "step.so"), 2, "is for --train"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_said(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(PYTHON.replace("xDTYPE", "").replace("DTYPE", "f4"))
    argv, code, message = WRONG[case]
    done = graphc("compile", "net.py:net", *argv)
    assert (done.code, message in " ".join(done.err.split())) == (code, True), done.err
    assert not [*tmp_path.glob("s*")]


def test_a_network_takes_no_loss(tmp_path: Path) -> None:
    (tmp_path / "net.ndl").write_text(NETWORK)
    done = graphc(
        "compile", tmp_path / "net.ndl", "--train", *MEASURED, *RATE, "-o", tmp_path / "s.so"
    )
    assert done.code == 2 and "is for programs" in done.err
