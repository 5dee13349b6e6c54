"""Bytes of foreign model files, put together by hand as their formats are described.

Shares nothing with the readers. The toolkit's: text in UTF-16 with a zero behind it, counts of 8
bytes, flags of one, matrices column after column. DBN: marks of four letters, numbers of 4 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

Array = np.ndarray


def wide(text: str) -> bytes:
    return text.encode("utf-16-le") + b"\0\0"


def count(number: int) -> bytes:
    return struct.pack("<Q", number)


def integer(number: int) -> bytes:
    return struct.pack("<i", number)


def flag(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def number(value: float, dtype: str = "f4") -> bytes:
    return np.array(value, f"<{dtype}").tobytes()


def matrix(value: Array, dtype: str = "f4") -> bytes:
    rows, cols = value.shape
    columns = b"".join(number(value[i, j], dtype) for j in range(cols) for i in range(rows))
    head = wide("BMAT") + count(int(dtype[1])) + wide("unnamed") + integer(0)
    return b"d" + head + count(rows) + count(cols) + columns + wide("EMAT")


def parameter(name: str, value: Array, *, learned: bool = True, dtype: str = "f4") -> bytes:
    rows, cols = value.shape
    own = flag(learned) + count(rows) + count(cols) + matrix(value, dtype)
    return wide("LearnableParameter") + wide(name) + own


def data_input(name: str, rows: int, *sizes: int, kind: str = "InputValue") -> bytes:
    width, height, channels = sizes or (1, rows, 1)
    own = [count(n) for n in (rows, 1, width, height, channels)]
    return wide(kind) + wide(name) + b"".join(own)


def node(kind: str, name: str, own: bytes = b"") -> bytes:
    return wide(kind) + wide(name) + own


def toolkit_model(
    nodes: Mapping[str, bytes],
    inputs: Mapping[str, Sequence[str]],
    roots: Mapping[str, Sequence[str]],
    *,
    version: int | None = 2,
    count_of_nodes: int | None = None,
) -> bytes:
    """A whole file. `nodes` are the records by name; names without inputs read nothing."""
    parts = [wide("BCN")]
    if version is not None:
        parts += [wide("BVersion"), count(version), wide("EVersion")]
    parts += [count(len(nodes) if count_of_nodes is None else count_of_nodes), wide("BNodeList")]
    parts += [*nodes.values(), wide("ENodeList"), wide("BRelation")]
    for name in nodes:
        sources = inputs.get(name, ())
        parts += [wide(name), count(len(sources)), *map(wide, sources)]
    parts += [wide("ERelation"), wide("BRootNodes")]
    for title in (
        "FeatureNodes",
        "LabelNodes",
        "CriteriaNodes",
        "NodesReqMultiSeqHandling",
        "EvalNodes",
        "OutputNodes",
    ):
        names = roots.get(title, ())
        parts += [wide(f"B{title}"), count(len(names)), *map(wide, names), wide(f"E{title}")]
    return b"".join([*parts, wide("ERootNodes"), wide("ECN")])


def classifier(dtype: str = "f4", **options: object) -> bytes:
    """features → W·x + b → criterion, error, output; with a computed mean and deviation."""
    rng = np.random.default_rng(7)
    w, b = rng.standard_normal((2, 3)), rng.standard_normal((2, 1))
    mean, deviation = rng.standard_normal((3, 1)), rng.random((3, 1)) + 0.5
    nodes = {
        "b": parameter("b", b, dtype=dtype),
        "ce": node("CrossEntropyWithSoftmax", "ce"),
        "err": node("ErrorPrediction", "err"),
        "features": data_input("features", 3),
        "L1.t": node("Times", "L1.t"),
        "L1.W": parameter("L1.W", w, dtype=dtype),
        "labels": data_input("labels", 2),
        "m": node("Mean", "m", flag(True) + matrix(mean, dtype)),
        "n": node("PerDimMeanVarNormalization", "n"),
        "s": node("InvStdDev", "s", flag(True) + matrix(deviation, dtype)),
        "z": node("Plus", "z"),
    }
    inputs = {
        "ce": ["labels", "z"],
        "err": ["labels", "z"],
        "L1.t": ["L1.W", "n"],
        "m": ["features"],
        "n": ["features", "m", "s"],
        "s": ["features"],
        "z": ["L1.t", "b"],
    }
    roots = {
        "FeatureNodes": ["features"],
        "LabelNodes": ["labels"],
        "CriteriaNodes": ["ce"],
        "EvalNodes": ["err"],
        "OutputNodes": ["z"],
    }
    return toolkit_model(nodes, inputs, roots, **options)  # type: ignore[arg-type]


def lstm_file(version: int, peepholes: int = 1) -> bytes:
    """x → LSTM of 2 cells with the matrices of `lstm_matrices`."""
    sizes = count(3) + count(2) if version == 2 else b""
    matrices = {name: value[:, : value.shape[1]] for name, value in lstm_matrices().items()}
    matrices["wi"] = matrices["wi"][:, : 6 + peepholes]
    nodes = {
        "lstm": node("LSTM", "lstm", sizes + number(0.25)),
        **{name: parameter(name, value) for name, value in matrices.items()},
        "x": data_input("x", 3),
    }
    inputs = {"lstm": ["x", "wi", "wf", "wo", "wc"]}
    return toolkit_model(nodes, inputs, {"OutputNodes": ["lstm"]}, version=version)


def lstm_matrices() -> dict[str, Array]:
    """Columns: bias, 3 inputs, 2 outputs, a peephole but for the cell."""
    rng = np.random.default_rng(11)
    return {name: rng.standard_normal((2, 7 - (name == "wc"))) for name in ("wc", "wf", "wi", "wo")}


def dbn_matrix(name: str, value: Array) -> bytes:
    """As it is stored: a matrix of more than one column transposed."""
    stored = value.T if value.shape[1] > 1 else value
    rows, cols = stored.shape
    numbers = b"".join(number(stored[i, j]) for i in range(rows) for j in range(cols))
    return b"BMAT" + name.encode() + b"\0" + integer(rows) + integer(cols) + numbers + b"EMAT"


def dbn_file(
    mean: Array,
    deviation: Array,
    layers: Sequence[tuple[str, Array, Array]],
    prior: Array | None = None,
) -> bytes:
    """Layers are (kind, weights outputs x inputs, bias outputs x 1)."""
    parts = [b"DBN\n", b"made by hand\0", b"BDBN", integer(1), integer(len(layers))]
    parts += [dbn_matrix("gmean", mean), dbn_matrix("gstddev", deviation), b"BNET"]
    for kind, weights, bias in layers:
        unused = np.zeros((weights.shape[1], 1))
        parts += [kind.encode() + b"\0", dbn_matrix("W", weights), dbn_matrix("a", bias)]
        parts += [dbn_matrix("b", unused)]
    parts.append(b"ENET")
    if prior is not None:
        parts.append(dbn_matrix("Pu", prior))
    return b"".join([*parts, b"EDBN"])


@pytest.fixture
def model_formats(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The readers of model files as entry points, also where graphc was installed without them."""
    folder: Path = tmp_path_factory.mktemp("site")
    info = folder / "model_formats-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: model_formats\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[graphc.model_formats]\ncntk = graphc_frontends.cntk_model\ndbn = graphc_frontends.dbn\n"
    )
    monkeypatch.syspath_prepend(str(folder))
