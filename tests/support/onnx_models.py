"""Small ONNX models for tests, written with the package's own helper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save_model

Sizes = Sequence[int | str | None]


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sizes],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    kind: int = TensorProto.FLOAT,
    opset: int = 21,
    **fields: Any,
) -> Any:
    """A model of these nodes; sizes are numbers, names, or None for one without a name."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, kind, list(s)) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, kind, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], **fields)


def saved(made: Any, folder: Path) -> Path:
    """The model in a file."""
    path = folder / "x.onnx"
    save_model(made, path)
    return path
