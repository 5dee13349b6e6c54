"""Programs and libraries of networks for a GPU, over an emulated driver."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import find_compiler
from graphc.backends.cuda import host
from graphc.backends.cuda.compiler import Image
from graphc.driver.artifact import ArtifactRequest, emit
from graphc.driver.options import CompileOptions
from graphc.support.phases import Phases
from tests.support.cuda.building import emulated_image, missing
from tests.support.cuda.hosts import environment

NETWORK = """
x = Input(3, tag=feature)
W = LearnableParameter(2, 3)
z = Times(W, x)
OutputNodes = (z)
"""
W = np.array([[1.5, -2, 0.25], [4, 0, -1]])
X = np.array([[1, 2, 4], [0, -1, 3], [8, 0.5, 0]])

pytestmark = [
    pytest.mark.skipif(missing() != "", reason=missing() or "all is there"),
    pytest.mark.skipif(find_compiler() is None, reason="no C compiler"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of the network are, whose kernels are for the emulator."""

    def compiled(text: str, arch: str, phases: Phases) -> Image:
        return emulated_image(text, arch, phases)

    monkeypatch.setattr(host, "compile_text", compiled)
    monkeypatch.setattr(host, "newest_release", lambda: 12)
    network = gc.loads(NETWORK)
    network.parameters["W"] = W
    kinds = ("exe", "so", "header", "host")
    request = ArtifactRequest(kinds, tmp_path / "net", target="sm_80,sm_90", version="1")
    paths = emit(network.model, request, CompileOptions())
    assert {path.name for path in paths.values()} == {"net", "net.so", "net.h", "net.cuda.c"}
    return tmp_path


def run(folder: Path, settings: str = "") -> subprocess.CompletedProcess[str]:
    rows = "".join(" ".join(map(str, row)) + "\n" for row in X)
    command = [str(folder / "net")]
    return subprocess.run(
        command, input=rows, env=environment(settings), capture_output=True, text=True, check=False
    )


def test_a_program_for_a_gpu_reads_samples_and_writes_outputs(folder: Path) -> None:
    done = run(folder)
    assert done.stderr == ""
    got = [[float(number) for number in line.split()] for line in done.stdout.splitlines()]
    np.testing.assert_array_equal(got, X @ W.T)


def test_the_header_says_how_a_network_on_a_gpu_behaves(folder: Path) -> None:
    header = (folder / "net.h").read_text("ascii")
    assert "It runs on a GPU" in header
    assert "allocate nothing" not in header
    assert '"isa":"sm_80,sm_90"' in header
    assert "It runs on a GPU" in (folder / "net.cuda.c").read_text("ascii")


def test_a_program_says_why_it_cannot_use_the_gpu(folder: Path) -> None:
    done = run(folder, "capability=75")
    assert done.returncode != 0
    assert "code for sm_80, sm_90, the GPU Emulated is sm_75" in done.stderr
