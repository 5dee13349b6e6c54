"""Programs and libraries of networks for a GPU, over an emulated driver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
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
from tests.support.cuda.hosts import call, environment

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


@pytest.fixture(scope="module", autouse=True)
def _emulated() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Kernels are compiled for the emulator."""

    def compiled(text: str, arch: str, phases: Phases) -> Image:
        return emulated_image(text, arch, phases)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host, "compile_text", compiled)
        patch.setattr(host, "newest_release", lambda: 12)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files of the network are."""
    folder = tmp_path_factory.mktemp("net")
    network = gc.loads(NETWORK)
    network.parameters["W"] = W
    kinds = ("exe", "so", "header", "host")
    request = ArtifactRequest(kinds, folder / "net", target="sm_80,sm_90", version="1")
    paths = emit(network.model, request, CompileOptions())
    assert {path.name for path in paths.values()} == {"net", "net.so", "net.h", "net.cuda.c"}
    return folder


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


LAYERS = """
x = ImageInput(8, 8, 2, tag=feature)
K = Parameter(3, 18)
c = Convolution(K, x, 3, 3, 3, 1, 1, zeroPadding=true)
p = MaxPooling(RectifiedLinear(c), 2, 2, 2, 2)
W = Parameter(5, 48)
b = Parameter(5, 1)
z = Softmax(Plus(Times(W, p), b), tag=output)
"""
RECURRENT = """
x = Input(2, tag=feature)
W = Parameter(3, 2)
R = Parameter(3, 3)
past = PastValue(3, h)
h = Tanh(Plus(Times(W, x), Times(R, past)), tag=output)
"""
STEPS, SLOTS, LENGTHS = 5, 2, (5, 2)


@pytest.mark.parametrize("launch", ["graph", "grid", "block"])
def test_a_library_of_layers_gives_what_the_reference_gives(launch: str, tmp_path: Path) -> None:
    network = gc.loads(LAYERS)
    options = CompileOptions(launch=launch)  # type: ignore[arg-type]
    request = ArtifactRequest(["so"], tmp_path / "net.so", target="sm_90", version="1")
    library = emit(network.model, request, options)["so"]
    rng = np.random.default_rng(0)
    for count in (7, 1, 0):
        x = rng.standard_normal((count, 128)).astype(np.float32)
        expected = gc.compile(network, backend="reference")(x=x)["z"]
        got = call(library, "net", [x, np.zeros((count, 5), np.float32)], [[count]])
        assert not isinstance(got, str), got
        np.testing.assert_allclose(got[1], expected, rtol=2e-6)


def test_a_library_of_a_recurrent_network_takes_steps_and_sequences(tmp_path: Path) -> None:
    network = gc.loads(RECURRENT)
    options = CompileOptions(time=STEPS, sequences=SLOTS)
    request = ArtifactRequest(["so"], tmp_path / "net.so", target="sm_90", version="1")
    library = emit(network.model, request, options)["so"]
    rng = np.random.default_rng(0)
    lists = [rng.standard_normal((n, 2)).astype(np.float32) for n in LENGTHS]
    reference = gc.compile(network, time=STEPS, sequences=SLOTS, backend="reference")
    expected = reference(x=lists)["h"]
    real = np.arange(STEPS)[:, None] < np.array(LENGTHS)
    x = np.full((STEPS, SLOTS, 2), np.nan, np.float32)
    for slot, sequence in enumerate(lists):
        x[: len(sequence), slot] = sequence
    begin = np.where(real, 0, STEPS).astype(np.int32)
    end = np.where(real, LENGTHS, 0).astype(np.int32)
    out = np.zeros((STEPS, SLOTS, 3), np.float32)
    got = call(library, "net", [begin, end, x, out], [[STEPS, SLOTS]])
    assert not isinstance(got, str), got
    for slot, sequence in enumerate(expected):
        np.testing.assert_allclose(got[-1][: len(sequence), slot], sequence, rtol=2e-6)
