"""Networks written as ONNX and run by ONNX Runtime: random ones, against values in f64 or wider."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.driver.onnx_export import export_model
from graphc.driver.options import CompileOptions
from graphc.ir.types import DType
from tests.support.network_judge import _sparse_arguments, expectations, one_row_per_sample
from tests.support.random_networks import RandomNetwork, random_network
from tests.support.sequences import Packing

Array = np.ndarray
ort: Any = pytest.importorskip("onnxruntime")


def session(path: Path) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def judge(seed: int, path: Path) -> str | None:
    network = random_network(seed)
    if network is None:
        return None
    dtype = DType.F32 if seed % 4 else DType.F64
    expected = expectations(network, dtype)
    if expected is None:
        return None
    time = 0 if network.lengths is None else network.batch
    options = CompileOptions(precision=dtype, batch=network.batch, time=time)
    try:
        export_model(network.builder.model, path, network.outputs, options)
        made = session(path)
    except Exception as e:
        if "Erf" in str(e) and dtype is DType.F64:
            return None
        return f"{type(e)} {e}"
    packing = None
    if network.lengths is not None:
        slots = tuple(((0, n),) for n in network.lengths)
        packing = Packing(max(network.lengths, default=0), slots)
    feeds: dict[str, Array] = {}
    sparse = _sparse_arguments(network)
    for given in made.get_inputs():
        name = given.name
        if name == "lengths":
            feeds[name] = np.array(network.lengths, np.int64)
            continue
        if name in sparse:
            x = sparse[name]
            x = x.astype(dtype.numpy) if x.dtype.kind == "f" else x
            if packing is not None:
                gap = -1 if x.dtype.kind == "i" else np.nan
                x = packing.pack(x.T, gap).reshape(-1, x.shape[1])
        else:
            x = network.leaves[name].astype(dtype.numpy)
            if name in network.with_samples:
                x = packing.pack(x) if packing is not None else x.T
        feeds[name] = np.ascontiguousarray(x)
    try:
        got = made.run(None, feeds)
    except Exception as e:
        if "dim0_offset" in str(e) and max(network.lengths or [0], default=0) == 0:
            return None
        return f"{type(e)} {e}"
    for output, value in zip(made.get_outputs(), got, strict=True):
        name = output.name.removesuffix(".result")
        if packing is not None and name in network.with_samples:
            value = packing.unpack(value).T
        problem = expected[name].problem(value)
        if problem:
            return f"{name} {dtype}: {problem}"
    return ""


if __name__ == "__main__":
    import collections, re
    counts = collections.Counter()
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        said = judge(seed, Path("/tmp/export/r.onnx"))
        counts[said if said in ("", None) else re.sub(r"[0-9.]+", "#", said)[:90]] += 1
        if said:
            print(seed, said[:400])
    for k, n in counts.most_common(): print(n, repr(k))
