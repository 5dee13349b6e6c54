"""The examples, with small settings: each one runs, and prints that it got as near as it should."""

from __future__ import annotations

import gzip
import importlib.util
import re
import struct
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
HAS_MATPLOTLIB = importlib.util.find_spec("matplotlib") is not None


Load = Callable[[str], ModuleType]
Capture = pytest.CaptureFixture[str]


def number(text: str, pattern: str) -> float:
    """The number in place of # in a printed line."""
    found = re.search(re.escape(pattern).replace(r"\#", r"(-?[0-9][0-9.e+-]*)"), text)
    assert found is not None, text
    return float(found[1])


def assert_picture(path: Path, text: str) -> None:
    """Drawn where matplotlib is installed; else the example says that it is not."""
    if HAS_MATPLOTLIB:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert f"picture: {path}" in text
    else:
        assert "no picture: matplotlib is not installed" in text


# --- functions of arrays -------------------------------------------------------------------------


def test_a_hanging_rope_is_a_catenary(load: Load, capsys: Capture, tmp_path: Path) -> None:
    assert load("catenary/catenary.py").main(12, tmp_path) == 0
    text = capsys.readouterr().out
    assert "closed form: a = 0.3094, a rope of 1.0911 hangs 1.4958 long" in text
    assert number(text, "largest distance to the catenary: #") < 1.5e-3
    assert_picture(tmp_path / "catenary.png", text)


def test_a_boundary_value_problem_is_solved_in_both_precisions(
    load: Load, capsys: Capture, tmp_path: Path
) -> None:
    assert load("boundary_value/boundary_value.py").main((12,), tmp_path) == 0
    text = capsys.readouterr().out
    rows = re.findall(r"^ +12 +(f32|f64) .* ([0-9.e-]+)$", text, re.MULTILINE)
    assert [precision for precision, _ in rows] == ["f32", "f64", "f64"]
    assert all(float(error) < 7e-3 for _, error in rows)
    assert_picture(tmp_path / "boundary_value.png", text)


def test_histograms_are_told_apart_and_then_not(
    load: Load, capsys: Capture, tmp_path: Path
) -> None:
    assert load("histogram/histogram.py").main(400, 300, tmp_path) == 0
    text = capsys.readouterr().out
    assert number(text, "reached       #%") > 99
    assert number(text, "class 0: y = #") < 0 < number(text, "following the gradient #\n")
    assert_picture(tmp_path / "histogram.png", text)


def test_an_onnx_network_is_tuned_in_python_and_from_c(
    load: Load, capsys: Capture, tmp_path: Path
) -> None:
    pytest.importorskip("onnx")
    assert load("fine_tuning/fine_tuning.py").main(200, 10, tmp_path) == 0
    text = capsys.readouterr().out
    assert number(text, "dark on light: # %") > 90
    assert number(text, "10 epochs: # %") < 40
    assert "the parameters of both are the same, bit for bit" in text


# --- networks ------------------------------------------------------------------------------------


def test_a_linear_classifier_comes_near_the_best_one(
    load: Load, capsys: Capture, tmp_path: Path
) -> None:
    assert load("adaline/adaline.py").main(400, 5, tmp_path) == 0
    text = capsys.readouterr().out
    assert number(text, "best line of all   #%") == pytest.approx(94.83)
    assert 0 <= number(text, "# below the best answer") < 0.01
    assert_picture(tmp_path / "adaline.png", text)


def test_the_best_line_is_the_best_of_many(load: Load) -> None:
    adaline = load("adaline/adaline.py")
    best = adaline.best_line()
    for i in range(3):
        for change in (-0.05, 0.05):
            w = best.w.copy()
            w[i] *= 1 + change
            assert adaline.Line(w, best.b).accuracy < best.accuracy
    for change in (-0.1, 0.1):
        assert adaline.Line(best.w, best.b + change).accuracy < best.accuracy


def test_a_random_field_comes_near_the_chain_that_made_the_data(
    load: Load, capsys: Capture
) -> None:
    assert load("chain/train.py").main(60, 2) == 0
    assert abs(number(capsys.readouterr().out, "# nats a state above")) < 0.02


def test_a_mixture_comes_near_the_one_that_made_the_data(load: Load, capsys: Capture) -> None:
    assert load("mixture/train.py").main(1000, 12) == 0
    assert abs(number(capsys.readouterr().out, "# nats a point above")) < 0.02


@pytest.mark.parametrize(
    ("name", "measure", "limit"),
    [
        ("one-hidden", "Err", 0.1),
        ("convolution", "Err", 0.2),
        ("autoencoder", "SE", 1.5),
        ("two-inputs", "Err", 0.15),
        ("two-criteria", "Err", 0.15),
    ],
)
def test_networks_over_images_learn_the_digits(
    name: str, measure: str, limit: float, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = load("images/train.py")
    monkeypatch.setattr(train, "draw", lambda name: None)
    training, test = train.load(None)
    measured = train.run(name, training, test, "llvm", "f32", epochs=60, lines=1)
    assert measured[measure] < limit


def write_mnist(folder: Path, count: int) -> None:
    """MNIST's four files with random images of 3x2 pixels, black and white among them."""
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        pixels = rng.integers(0, 256, (count, 3, 2), dtype=np.uint8)
        pixels[0, 0] = (0, 255)
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", pixels)
        write_idx(
            folder / f"{part}-labels-idx1-ubyte.gz", rng.integers(0, 10, count, dtype=np.uint8)
        )


def write_idx(path: Path, values: np.ndarray) -> None:
    header = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes()))


def test_each_range_of_pixels_stands_next_to_the_logs(
    load: Load, capsys: Capture, tmp_path: Path
) -> None:
    write_mnist(tmp_path, 96)
    assert load("images/pixel_ranges.py").main(tmp_path, out=tmp_path) == 0
    text = capsys.readouterr().out
    rows = re.findall(r"^(\S.*?)  ((?: +[0-9.]+){10}) +\S+%$", text, re.MULTILINE)
    assert [name.strip() for name, _ in rows] == [
        *("toolkit, CPU", "toolkit, GPU"),
        *("[-1, 1]", "[0, 1]", "[0, 2]", "[-0.5, 0.5]"),
    ]
    curves = [numbers for _, numbers in rows]
    assert len(set(curves)) == len(curves)  # each range is a training of its own
    assert_picture(tmp_path / "pixel_ranges.png", text)


def test_pixels_reach_both_ends_of_their_range(load: Load) -> None:
    scaled = load("images/pixel_ranges.py").scaled
    pixels = np.array([0, 127.5, 255], np.float32)
    assert scaled(pixels, -1, 1).tolist() == [-1, 0, 1]
    assert scaled(pixels, 0, 2).tolist() == [0, 1, 2]


# --- all of them ---------------------------------------------------------------------------------


def test_the_table_has_a_row_for_every_example() -> None:
    table = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    folders = {p.name for p in EXAMPLES.iterdir() if p.is_dir() and any(p.glob("*.ndl"))}
    beside = [*EXAMPLES.iterdir(), *(EXAMPLES / "cntk").iterdir()]
    folders |= {p.name for p in beside if p.is_dir() and any(p.glob("*.py"))}
    scripts = re.findall(r"^\| `python (\S+?)(?: \S+)*?` \|", table, re.MULTILINE)
    assert {Path(s).parent.name for s in scripts} == folders
    assert [s for s in scripts if not (EXAMPLES.parent / s).is_file()] == []
    networks = re.findall(r"images/train\.py (\S+)`", table)
    assert set(networks) == {p.stem for p in (EXAMPLES / "images").glob("*.ndl")}
