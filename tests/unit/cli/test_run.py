"""`graphc run`: inputs and outputs as files and streams, text and .npy."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.cli.run import require_shareable, run_by_members
from graphc.support.diagnostics import GraphcError
from tests.support.commands import NETWORK, Done, graphc, write_network

SAMPLES = np.array([[0.5, -1.0], [2.0, 0.25], [0.0, 0.0]])

TWO = """
x = Input(2, tag=feature)
y = Input(2, tag=feature)
z = Minus(x, y)
h = Plus(x, y)
s = SumElements(h)
OutputNodes = (z, h)
"""


def run(model: Path, *more: str | Path, stdin: bytes = b"") -> Done:
    return graphc("run", model, "--backend", "reference", *more, stdin=stdin)


def numbers(text: str) -> np.ndarray:
    return np.loadtxt(io.StringIO(text), ndmin=2)


def expected(model: Path) -> np.ndarray:
    parameters = gc.load(model).parameters
    return SAMPLES @ parameters["W"].T + parameters["b"].T


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_network(tmp_path)


@pytest.fixture
def two(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", SAMPLES)
    np.save(tmp_path / "y.npy", np.ones((3, 2)))
    return write_network(tmp_path, TWO)


def test_text_from_stdin_gives_text_on_stdout(model: Path) -> None:
    done = run(model, stdin=b"0.5 -1\n2 .25\n0 0\n")
    assert done.code == 0
    np.testing.assert_allclose(numbers(done.out), expected(model), rtol=1e-6)


def test_npy_from_stdin_is_told_by_its_content(model: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, SAMPLES.astype(np.float32))
    done = run(model, "-", stdin=buffer.getvalue())
    np.testing.assert_allclose(numbers(done.out), expected(model), rtol=1e-6)


def test_an_output_file_that_ends_in_npy_is_written_as_such(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", SAMPLES)
    done = run(model, tmp_path / "in.npy", "-o", tmp_path / "out.npy")
    assert (done.code, done.out) == (0, "")
    found = np.load(tmp_path / "out.npy")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected(model), rtol=1e-6)


def test_double_precision_is_kept(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", SAMPLES)
    run(model, tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--precision", "double")
    assert np.load(tmp_path / "out.npy").dtype == np.float64


def test_more_samples_than_fit_in_one_call_come_out_in_order(model: Path, tmp_path: Path) -> None:
    samples = np.arange(1400.0).reshape(700, 2)
    np.save(tmp_path / "in.npy", samples)
    run(model, tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--precision", "double")
    parameters = gc.load(model).parameters
    wanted = samples @ parameters["W"].T.astype(np.float64)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), wanted, rtol=1e-6)


def test_several_inputs_are_named(two: Path, tmp_path: Path) -> None:
    done = run(two, "--input", f"x={tmp_path / 'x.npy'}", "--input", f"Y={tmp_path / 'y.npy'}")
    np.testing.assert_allclose(numbers(done.out), SAMPLES - 1)


def test_the_input_left_over_comes_from_the_file(two: Path, tmp_path: Path) -> None:
    done = run(two, tmp_path / "y.npy", "--input", f"x={tmp_path / 'x.npy'}")
    np.testing.assert_allclose(numbers(done.out), SAMPLES - 1)


def test_several_outputs_go_where_they_are_told(two: Path, tmp_path: Path) -> None:
    inputs = ("--input", f"x={tmp_path / 'x.npy'}", "--input", f"y={tmp_path / 'y.npy'}")
    done = run(two, *inputs, "-o", f"h={tmp_path / 'h.npy'}", "-o", "z=-")
    np.testing.assert_allclose(numbers(done.out), SAMPLES - 1)
    np.testing.assert_allclose(np.load(tmp_path / "h.npy"), SAMPLES + 1)


def test_a_value_summed_over_samples_counts_all_of_them(two: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((1000, 2)))
    np.save(tmp_path / "y.npy", np.ones((1000, 2)))
    inputs = ("--input", f"x={tmp_path / 'x.npy'}", "--input", f"y={tmp_path / 'y.npy'}")
    assert numbers(run(two, *inputs, "--nodes", "s").out) == pytest.approx(4000)


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        ((), 2, "x, y are required"),
        (("--input", "q=-"), 2, "one of x, y"),
        (("--input", "x=-", "--input", "y=-"), 2, "only one input can come from stdin"),
        (("--input", "x=-", "--input", "y=a", "b"), 2, "named already"),
        (("--nodes", "nothing"), 3, "no node `nothing`"),
        (("--input", "x=-", "-o", "h=-", "-o", "h=a"), 2, "two files"),
        (("--input", "x=-", "-o", "q=-"), 3, "no node `q`"),
    ],
)
def test_what_does_not_fit_is_refused(
    two: Path, more: tuple[str, ...], code: int, message: str
) -> None:
    done = run(two, *more)
    assert done.code == code
    assert message in done.err


def test_a_wrong_number_of_columns_says_what_is_required(model: Path) -> None:
    done = run(model, stdin=b"1 2 3\n")
    assert done.code == 3
    assert "error[input]" in done.err


def test_a_missing_file_is_named(model: Path, tmp_path: Path) -> None:
    done = run(model, tmp_path / "missing.npy")
    assert done.code == 3
    assert "missing.npy" in done.err


def test_the_network_itself_is_not_overwritten(tmp_path: Path) -> None:
    network = write_network(tmp_path)
    done = graphc("run", network, "--backend", "reference", "-o", network, stdin=b"1 2\n")
    assert done.code == 2
    assert "is the network" in done.err
    assert network.read_text() == NETWORK


def test_samples_are_the_steps_of_one_sequence_where_time_matters(tmp_path: Path) -> None:
    text = "x = Input(1)\np = PastValue(1, s, defaultHiddenActivity=0)\ns = Plus(x, p, tag=output)"
    done = run(write_network(tmp_path, text), stdin=b"1\n" * 70)
    assert done.code == 0
    assert numbers(done.out)[:, 0].tolist() == list(range(1, 71))


# --- members -------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [1, 11])
def test_members_compute_their_part_and_have_all_rows(samples: int) -> None:
    given = {"x": -np.arange(2.0 * samples, dtype=np.float32).reshape(samples, 2)}  # -0.0 too
    network = gc.loads("x = Input(2)\nz = Scale(1, x)\nOutputNodes = (z)")
    executable = gc.compile(network, backend="reference")

    def rows(member: gc.comm.Communicator) -> np.ndarray:
        return run_by_members(executable, given, member, {})["z"]

    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(rows, gc.comm.threads(3, 20.0)):
            assert found.tobytes() == given["x"].tobytes()


@pytest.mark.parametrize(
    ("text", "files", "said"),
    [
        ("x = Input(2)\nz = SumElements(x)\nOutputNodes = (z)", ["x"], "of all samples together"),
        (
            "x = Input(2)\nz = Plus(x, PastValue(2, 1, z))\nOutputNodes = (z)",
            ["x"],
            "steps of a sequence",
        ),
        ("x = Input(2)\nz = Scale(2, x)\nOutputNodes = (z)", [None], "standard input is none"),
        ("x = Input(2)\nz = Scale(2, x)\nOutputNodes = (z)", ["-"], "standard input is none"),
    ],
)
def test_what_members_cannot_share_is_refused(
    text: str, files: list[str | None], said: str
) -> None:
    network = gc.loads(text)
    with pytest.raises(GraphcError, match=said):
        require_shareable(network, gc.compile(network, backend="reference"), files)
