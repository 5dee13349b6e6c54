"""What the tests of single commands share: a small network, its data, and running a command."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphc.cli.main import main

NETWORK = """
Dim = 2
features = Input(Dim, tag=feature)
labels = Input(2, tag=label)
W = LearnableParameter(2, Dim)
b = LearnableParameter(2, 1, init=fixedValue, value=0)
t = Times(W, features)
z = Plus(t, b)
CE = CrossEntropyWithSoftmax(labels, z, tag=criteria)
Err = ErrorPrediction(labels, z, tag=eval)
OutputNodes = (z)
"""

COLUMNS = ("--features", "0:2", "--labels", "2", "--classes", "2")


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


def graphc(*argv: str | Path, stdin: bytes = b"") -> Done:
    """Run one command line in this process."""
    standard_in = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    standard_out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    standard_error = io.StringIO()
    code = main([str(a) for a in argv], standard_in, standard_out, standard_error)
    standard_out.flush()
    out = standard_out.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]
    return Done(code, out, standard_error.getvalue())


def write_network(folder: Path, text: str = NETWORK) -> Path:
    """The network as a file."""
    path = folder / "net.ndl"
    path.write_text(text, encoding="utf-8")
    return path


def write_data(folder: Path, samples: int = 60) -> Path:
    """Two features and a label that tells which one is larger."""
    features = np.random.default_rng(3).uniform(-1, 1, (samples, 2))
    label = (features[:, 1] > features[:, 0]).astype(int)
    rows = [f"{a:.6f} {b:.6f} {c}" for (a, b), c in zip(features, label, strict=True)]
    path = folder / "data.txt"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def train(folder: Path, *more: str | Path) -> Done:
    """Train the network on the data with the plain reference backend, into `net.safetensors`.

    `more` are further options; one that is among the usual ones replaces it.
    """
    usual: dict[str, tuple[str | Path, ...]] = {
        "--data": (write_data(folder),),
        **{COLUMNS[i]: (COLUMNS[i + 1],) for i in range(0, len(COLUMNS), 2)},
        "--minibatch": ("10",),
        "--backend": ("reference",),
        "-o": (folder / "net.safetensors",),
        "--learning-rate": ("4",) if "--learning-rate-per-sample" not in more else (),
    }
    options = [
        part for name, rest in usual.items() if rest and name not in more for part in (name, *rest)
    ]
    return graphc("train", write_network(folder), *options, *more)
