"""Schedules on the command line: printed for a machine, edited, compiled and timed."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphc.backends.base import MachinePeak
from graphc.cli import bench
from graphc.driver.machines import read_machine
from graphc.ir.machine import MACHINES, Machine
from tests.support.commands import graphc, train, write_network

DOCS = (Path(__file__).parents[3] / "docs" / "schedules.md").read_text(encoding="utf-8")

NETWORK = """
features = Input(20, tag=feature)
labels = Input(3, tag=label)
W = LearnableParameter(40, 20)
b = LearnableParameter(40, 1)
h = Sigmoid(Plus(Times(W, features), b))
V = LearnableParameter(3, 40)
t = Times(V, h)
z = Softmax(t)
CE = CrossEntropyWithSoftmax(labels, t, tag=criteria)
OutputNodes = (z)
"""
RECURRENT = """
x = Input(2, tag=feature)
W = LearnableParameter(2, 2)
p = PastValue(2, 1, h)
s = Plus(x, Times(W, p))
h = Sigmoid(s)
OutputNodes = (h)
"""
SMALL = "vector_bits = 128\nhas_fma = false\nmasks_memory = false\n"
TILE = "rows = 6, vectors = 2, lanes = 8, depth = 32"
EDITS = {
    TILE: "rows = 3, vectors = 1, lanes = 16, depth = 256",
    "loops = [[0], [1]], lanes = 8, vectors = 4": "loops = [[0], [1]], lanes = 4, vectors = 2",
}


def dump(network: Path, *options: str | Path) -> str:
    done = graphc("dump", network, "--stage", "schedule", *options)
    assert done.code == 0, done.err
    return done.out


def edited(folder: Path, *options: str) -> Path:
    """The outputs of the network with two schedules changed."""
    text = dump(folder / "net.ndl", "--nodes", "z", "--machine", "x86-64-v3", *options)
    for before, after in EDITS.items():
        assert before in text
        text = text.replace(before, after)
    path = folder / "edited.gir"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return write_network(tmp_path, NETWORK)


# --- the machine ---


def test_schedules_are_those_of_the_machine_that_is_named(network: Path) -> None:
    assert f"tile = {{{TILE}" in dump(network, "--machine", "x86-64-v3")
    assert "rows = 12, vectors = 2, lanes = 16" in dump(network, "--machine", "x86-64-v4")


@pytest.mark.llvm
def test_without_a_machine_it_is_this_one(network: Path) -> None:
    assert dump(network) == dump(network, "--machine", "native")


def test_a_file_describes_a_machine(network: Path, tmp_path: Path) -> None:
    machine = tmp_path / "small.toml"
    machine.write_text(SMALL, encoding="utf-8")
    assert dump(network, "--machine", machine) == dump(network, "--machine", "x86-64")
    machine.write_text(SMALL + "l1 = 4096\nl2 = 4096\n", encoding="utf-8")
    assert "block = " in dump(network, "--machine", machine)


def test_the_file_of_the_documentation_describes_a_machine(tmp_path: Path) -> None:
    (text,) = re.findall(r"^    # laptop.toml\n((?:    .*\n)+)", DOCS, re.MULTILINE)
    machine = tmp_path / "laptop.toml"
    machine.write_text(textwrap.dedent(text), encoding="utf-8")
    made = read_machine(machine)
    assert all(name in text for name in Machine.__dataclass_fields__)
    assert isinstance(made, Machine)
    assert made == replace(MACHINES["x86-64-v3"], l1=made.l1, l2=made.l2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vector_bits =", "error[parse]: {} requires TOML, such as `vector_bits = 256`: "),
        (SMALL + "vectors = 2\n", "error[bad-value]: {}: no parameter `vectors`; the parameters"),
        ("vector_bits = 128\n", "error[bad-value]: {}: parameter `has_fma` is required"),
        (
            SMALL.replace("128", '"wide"'),
            "error[bad-value]: {}: parameter `vector_bits` requires an integer, got",
        ),
        (
            SMALL.replace("128", "100"),
            "error[bad-value]: {} requires vector_bits of 128, 256 or 512, got 100",
        ),
        (SMALL + "registers = 4\n", "error[bad-value]: {} requires 8 to 128 registers, got 4"),
        (
            SMALL + "l1 = 65536\nl2 = 32768\n",
            "error[bad-value]: {} requires caches of 4096 bytes or more, l1 no larger than l2, got",
        ),
    ],
)
def test_a_wrong_file_is_told_what_is_required(
    network: Path, tmp_path: Path, text: str, message: str
) -> None:
    machine = tmp_path / "machine.toml"
    machine.write_text(text, encoding="utf-8")
    done = graphc("dump", network, "--stage", "schedule", "--machine", machine)
    assert done.code == 3
    assert done.err.startswith(message.replace("{}", str(machine)))


def test_a_wrong_name_is_told_a_near_one(network: Path) -> None:
    done = graphc("dump", network, "--stage", "schedule", "--machine", "x86-64-v5")
    assert done.code == 2
    assert "error[bad-option]: a machine is one of native, x86-64, " in done.err
    assert "got x86-64-v5; did you mean `x86-64-v4`?" in done.err


def test_schedules_are_compared(network: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.gir"
    first.write_text(dump(network, "--nodes", "z", "--machine", "x86-64-v3"), encoding="utf-8")
    same = graphc("diff", first, first)
    assert (same.code, same.out) == (0, "")
    found = graphc("diff", first, edited(tmp_path))
    assert found.code == 1
    assert EDITS[TILE] in found.out
    options = ("--stage", "schedule", "--machine", "x86-64-v3")
    assert graphc("diff", network, network, *options).code == 0


# --- functions in files ---


def outputs(program: Path, samples: np.ndarray) -> np.ndarray:
    text = "\n".join(" ".join(map(repr, row)) for row in samples.tolist())
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=True)
    return np.loadtxt(done.stdout.splitlines())


@pytest.mark.llvm
@pytest.mark.parametrize("precision", ["float", "double"])
def test_an_edited_function_computes_what_the_network_does(
    network: Path, tmp_path: Path, precision: str
) -> None:
    options = ("--precision", precision)
    text = dump(network, "--nodes", "z", "--machine", "x86-64-v3", *options)
    text = text.replace("rows = 6, vectors = 2", "rows = 3, vectors = 1")
    assert "rows = 3" in text
    function = tmp_path / "edited.gir"
    function.write_text(text, encoding="utf-8")
    files = {"net": (network, *options), "edited": (function, "--parameters", network)}
    for name, arguments in files.items():
        done = graphc("compile", *arguments, "-o", tmp_path / name)
        assert done.code == 0, done.err
    samples = np.random.default_rng(1).standard_normal((5, 20))
    first, second = (outputs(tmp_path / name, samples) for name in files)
    assert first.shape == (5, 3)
    tolerance = 1e-6 if precision == "float" else 1e-14
    np.testing.assert_allclose(first, second, rtol=tolerance)


@pytest.mark.llvm
def test_a_function_of_tensor_operations_is_compiled(network: Path, tmp_path: Path) -> None:
    assert graphc("compile", network, "-o", tmp_path / "net.gir").code == 0
    for name, arguments in {
        "net": (network,),
        "again": (tmp_path / "net.gir", "--parameters", network),
    }.items():
        assert graphc("compile", *arguments, "-o", tmp_path / name).code == 0
    samples = np.random.default_rng(1).standard_normal((5, 20))
    first, second = (outputs(tmp_path / name, samples) for name in ("net", "again"))
    np.testing.assert_allclose(first, second, rtol=1e-6)


@pytest.mark.llvm
def test_a_function_with_sequences_is_compiled(tmp_path: Path) -> None:
    network = write_network(tmp_path, RECURRENT)
    function = tmp_path / "step.gir"
    function.write_text(dump(network), encoding="utf-8")
    for name, arguments in {
        "net": (network,),
        "again": (function, "--parameters", network),
    }.items():
        assert graphc("compile", *arguments, "-o", tmp_path / f"{name}.py").code == 0
        # A library has no text to run here: that it can be made is something.
        assert graphc("compile", *arguments, "-o", tmp_path / f"{name}.so").code == 0
    x = np.random.default_rng(1).standard_normal((7, 1, 2)).astype(np.float32)
    begin, end = np.zeros((7, 1), np.int32), np.full((7, 1), 7, np.int32)
    first, second = (
        runpy.run_path(str(tmp_path / f"{name}.py"))["run"](begin, end, x)["h"]
        for name in ("net", "again")
    )
    np.testing.assert_allclose(first, second, rtol=1e-6)


@pytest.mark.llvm
def test_a_machine_without_masks_computes_the_rest_one_by_one(
    network: Path, tmp_path: Path
) -> None:
    function = edited(tmp_path)
    assert 'tail = "masked"' in function.read_text()
    for kind in ("c", "ll"):
        options = ("--parameters", network, "--target", "x86-64", "--emit", kind)
        done = graphc("compile", function, *options, "-o", tmp_path / f"made.{kind}")
        assert done.code == 0, done.err
    assert "llvm.masked" not in (tmp_path / "made.ll").read_text()


def problems(tmp_path: Path) -> Iterator[tuple[str, Path, tuple[str | Path, ...], str]]:
    """What is wrong with a file or its parameters, the file, the options, the message."""
    network, function = tmp_path / "net.ndl", edited(tmp_path)
    given = ("--parameters", network)
    yield "no parameters", function, (), "error[missing-node]: the function takes the parameter `V`"
    other = tmp_path / "other.ndl"
    other.write_text(NETWORK.replace("20", "21"), encoding="utf-8")
    shape = "error[shape-mismatch]: the parameter `W` requires 40x20 elements, got 40x21"
    yield "another shape", function, ("--parameters", other), shape
    nodes = tmp_path / "nodes.gir"
    nodes.write_text(graphc("dump", network).out, encoding="utf-8")
    yield "nodes", nodes, given, "holds a network's nodes: print it with `--stage tensor`"
    two = tmp_path / "two.gir"
    text = function.read_text()
    body = text[text.index("func") :].replace("@main", "@other")
    two.write_text(text + body, encoding="utf-8")
    yield "two functions", two, given, "requires one function, it has 2"
    step = tmp_path / "step.gir"
    step.write_text(dump(network, "--train"), encoding="utf-8")
    yield "a training step", step, given, "error[not-supported]: a file computes and keeps nothing"
    wrong = tmp_path / "wrong.gir"
    wrong.write_text(text.replace("depth = 256", "depth = 3"), encoding="utf-8")
    fits = "error[bad-schedule]: `tile` of `gemm` requires a depth of all 20 steps or a multiple"
    yield "a wrong schedule", wrong, given, fits


def test_what_cannot_be_compiled_is_told_why(network: Path, tmp_path: Path) -> None:
    assert network.exists()
    messages: list[str] = []
    for name, path, options, message in problems(tmp_path):
        done = graphc("compile", path, *options, "-o", tmp_path / "out", "--emit", "ll")
        assert (done.code, message in done.err) == (3, True), f"{name}: {done.err}"
        assert not (tmp_path / "out").exists()
        messages.append(done.err)
    assert "wrong.gir:" in messages[-1]  # where it is


@pytest.mark.parametrize(
    "option",
    [
        ("--nodes", "z"),
        ("--bound", "3"),
        ("--time", "3"),
        ("--sequences", "3"),
        ("--precision", "double"),
        ("--contraction", "off"),
    ],
)
def test_what_the_function_says_cannot_be_given(
    network: Path, tmp_path: Path, option: tuple[str, str]
) -> None:
    function = edited(tmp_path)
    done = graphc("compile", function, "--parameters", network, "-o", tmp_path / "out", *option)
    assert done.code == 2
    assert f"{option[0]} cannot be given with IR: {function} says it" in done.err


def test_parameters_are_for_functions(network: Path, tmp_path: Path) -> None:
    done = graphc("compile", network, "--parameters", network, "-o", tmp_path / "out")
    assert done.code == 2
    assert "--parameters is for a MODEL that is a program or IR (.gir)" in done.err


# --- timed ---

SHORT = ("--rounds", "2", "--seconds", "0.01")


@pytest.mark.llvm
@pytest.mark.parametrize("options", [("--nodes", "z"), ("--train",)])
def test_a_function_is_timed_as_it_is_written(
    network: Path, tmp_path: Path, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "measured_peak", lambda: MachinePeak(100e9, 10e9))
    function = tmp_path / "step.gir"
    function.write_text(dump(network, *options), encoding="utf-8")
    done = graphc("bench", function, *SHORT, "--json")
    assert done.code == 0, done.err
    record = json.loads(done.out)
    assert (record["samples"], len(record["rounds"])) == (256, 2)
    of_network = graphc("bench", network, *SHORT, "--json", *options)
    assert record["flops"] == json.loads(of_network.out)["flops"] > 0
    shown = graphc("bench", function, *SHORT, "--kernels")
    assert "gemm" in shown.out
    assert "step.gir:" in shown.out


@pytest.mark.llvm
def test_the_commands_of_the_documentation_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "measured_peak", lambda: MachinePeak(100e9, 10e9))
    assert train(tmp_path).code == 0
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"^```sh\n(.*?)^```", DOCS, re.MULTILINE | re.DOTALL)
    for line in block.splitlines():
        command, *file = re.sub(r" *#.*", "", line).split(" > ")
        program, *arguments = command.split()
        if program == "cp":
            shutil.copy(*arguments)
            continue
        done = graphc(*arguments, *(SHORT if arguments[0] == "bench" else ()))
        assert (program, done.code) == ("graphc", 0), done.err
        if file:
            Path(*file).write_text(done.out, encoding="utf-8")
    assert (tmp_path / "net").exists()


def test_a_function_says_itself_whether_it_is_a_step(network: Path, tmp_path: Path) -> None:
    done = graphc("bench", edited(tmp_path), "--train")
    assert done.code == 2
    assert "--train cannot be given with IR" in done.err
