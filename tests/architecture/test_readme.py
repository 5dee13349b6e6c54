"""What the README tells people to type works as it stands there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.support.commands import graphc
from tests.support.model_bytes import classifier
from tests.support.model_bytes import model_formats as model_formats

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS: list[str] = re.findall(r"^\| `graphc (\w+)` \|", README, re.MULTILINE)

BAD_IR = "func @f() {\n  frobnicate // error: unknown-op: no operation\n  return\n}\n"


READER = """[readerType=UCIFastReader;file=train.txt;features=[dim=64];
labels=[start=64;labelDim=10;labelMappingFile=labels.txt]]"""
CONFIGS = {
    "simple.config": f"""modelPath=by-help.dnn
        train=[action=train;NDLNetworkBuilder=[networkDescription=digits.ndl];reader={READER};
        SGD=[maxEpochs=1;learningRatesPerMB=0.1]]""",
    "a.config": f"modelPath=by-help.dnn\ntest=[action=test;reader={READER}]",
    "b.config": f"""train=[action=train;NDLNetworkBuilder=[networkDescription=digits.ndl];
        reader={READER};SGD=[maxEpochs=$Epochs$;learningRatesPerMB=0.1]]\nEpochs=1""",
}


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """The lines of the section on the command line, split into words."""
    (section,) = re.findall(r"^## On the command line\n(.*?)^## ", README, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for line in "".join(blocks("sh", section)).splitlines()]


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, as the current folder."""
    folder = tmp_path / "digits"
    shutil.copytree(ROOT / "examples" / "digits", folder, ignore=shutil.ignore_patterns("out"))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.llvm
@pytest.mark.slow
def test_the_commands_run_one_after_the_other(digits: Path) -> None:
    enter, make_folder, *rest = commands()
    assert (enter, make_folder) == (["cd", "examples/digits"], ["mkdir", "-p", "out"])
    (digits / "out").mkdir()
    for program, *arguments in rest:
        if program == "graphc":
            done = graphc(*arguments)
            assert done.code == 0, done.err
        else:
            subprocess.run([digits / program, *arguments], check=True, capture_output=True)
    assert sorted(p.name for p in (digits / "out").iterdir()) == [
        "digits",
        "digits.h",
        "digits.safetensors",
        "digits.so",
    ]


@pytest.mark.llvm
def test_the_python_examples_run(digits: Path) -> None:
    outputs: list[str] = []
    for example in blocks("python"):
        done = subprocess.run(
            [sys.executable, "-c", example], cwd=digits, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    criterion, classes = outputs[0].splitlines()
    assert float(criterion) < 0.5
    assert re.fullmatch(r"\[\d \d \d \d \d\]", classes)


def examples_of_help(name: str) -> list[str]:
    """The lines under `Example:` of a command's help, or of graphc's own, without remarks."""
    done = graphc(*([name] if name else []), "--help")
    assert done.code == 0
    block = re.search(r"^ *Examples?:\n((?: +.*\n)+)", done.out, re.MULTILINE)
    assert block is not None, f"`graphc {name} --help` has no example"
    lines = re.sub(r"\\\n *", "", block[1]).splitlines()
    return [re.split(r" {3,}", line.strip())[0] for line in lines]


def test_the_help_of_every_command_in_the_table_has_an_example() -> None:
    assert COMMANDS
    for name in COMMANDS:
        assert any(f"graphc {name} " in line for line in examples_of_help(name)), name


def write_edit_example() -> None:
    """The files that `graphc edit --help` speaks of."""
    macros = "Layer(x, rows, cols) { W = Parameter(rows, cols)  T = Times(W, x)  S = Tanh(T) }"
    text = "x = Input(512)\nL1 = Layer(x, 512, 512)\nOut = Layer(L1, 3, 512)\nOutputNodes = (Out)\n"
    gc.loads(text, macros=macros).save("one.dnn")
    Path("layers.ndl").write_text(macros, encoding="utf-8")
    script = graphc("edit", "--help").out.partition("trained one:")[2].partition("The commands")[0]
    Path("add_layer.mel").write_text(script, encoding="utf-8")


def write_onnx_example() -> None:
    """A network of one layer, as `net.onnx`."""
    onnx = pytest.importorskip("onnx")
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", size])
        for name, size in (("x", 64), ("y", 10))
    )
    weights = onnx.numpy_helper.from_array(np.zeros((64, 10), np.float32), "w")
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "dense", [x], [y], [weights])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)]), "net.onnx"
    )


@pytest.mark.llvm
@pytest.mark.slow
@pytest.mark.usefixtures("model_formats")
def test_the_examples_of_every_help_run(digits: Path) -> None:
    shutil.copy("digits.ndl", "net.ndl")
    Path("simple.dnn").write_bytes(classifier())
    Path("bad.gir").write_text(BAD_IR, encoding="utf-8")
    Path("still-fails.sh").write_text('#!/bin/sh\ngrep -q sigmoid "$1"\n', encoding="utf-8")
    Path("still-fails.sh").chmod(0o755)
    for file in ("simple.config", "a.config", "b.config"):
        Path(file).write_text(CONFIGS[file], encoding="utf-8")
    samples = np.loadtxt("test.txt")[:, :64]
    for file in ("samples.npy", "x.npy"):
        np.save(file, samples)
    write_edit_example()
    write_onnx_example()
    dumped = graphc("dump", "net.ndl", "--stage", "schedule", "--nodes", "z")
    Path("edited.gir").write_text(dumped.out, encoding="utf-8")
    for line in (line for name in ("", *COMMANDS) for line in examples_of_help(name)):
        if not line.startswith("graphc ") or ("svg" in line and shutil.which("dot") is None):
            continue  # what begins in the shell, or needs Graphviz
        command, *file = line.removesuffix(" | less").split(" > ")
        done = graphc(*shlex.split(command)[1:])
        assert done.code == 0, f"{line}\n{done.err}"
        if file:
            Path(*file).write_text(done.out, encoding="utf-8")


def test_every_target_of_make_that_is_named_exists() -> None:
    text = README + (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert named
    assert named - targets == set()


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for document in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if not target.startswith("http"):
                assert (ROOT / target).exists(), f"{document}: {target}"
