"""What files that `export_onnx` writes are given: leaves of random networks, data of examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc
from graphc.driver.onnx_export import export_model
from graphc.driver.options import CompileOptions
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType, TensorType
from graphc.model.program import Program
from graphc.runtime.sparse import sparse_rows
from tests.e2e.conftest import EXAMPLES
from tests.support.network_judge import Expected, expectations
from tests.support.random_functions import make_function
from tests.support.random_networks import RandomNetwork, random_network
from tests.support.sequences import Packing

Array = np.ndarray

Check = Callable[[Mapping[str, Array]], None]
"""Fails where results of the file are not what they have to be."""


@dataclass(frozen=True)
class RandomCase:
    """A random network whose file was written: what that is given, and what it has to give.

    packing  one sequence in each slot; None without sequences
    """

    seed: int
    network: RandomNetwork
    dtype: DType
    packing: Packing | None
    expected: Mapping[str, Expected]

    @property
    def given(self) -> dict[str, Array]:
        return given_to_file(self.network, self.packing, self.dtype.numpy)

    def problem(self, found: Mapping[str, Array]) -> str:
        """What is wrong with results of the file, '' if nothing."""
        for name, value in found.items():
            result = name.removesuffix(".result")
            if self.packing is not None and result in self.network.with_samples:
                value = self.packing.unpack(value).T
            if problem := self.expected[result].problem(value):
                return f"seed {self.seed}, `{result}` {self.dtype}: {problem}"
        return ""


def random_case(seed: int, dtype: DType, path: Path) -> RandomCase | None:
    """Writes the file of a random network; None without one whose results can be judged."""
    network = random_network(seed)
    expected = None if network is None else expectations(network, dtype)
    if network is None or expected is None:
        return None
    packing, time = None, 0
    if network.lengths is not None:
        slots = tuple(((0, n),) for n in network.lengths)
        packing, time = Packing(max(network.lengths, default=0), slots), network.batch
    options = CompileOptions(precision=dtype, batch=network.batch, time=time)
    export_model(network.builder.model, path, network.outputs, options)
    return RandomCase(seed, network, dtype, packing, expected)


def given_to_file(
    network: RandomNetwork, packing: Packing | None, dtype: np.dtype
) -> dict[str, Array]:
    """Every leaf as the file takes it; gaps hold nan, or an index of nothing."""
    given: dict[str, Array] = {"lengths": np.array(network.lengths or (), np.int64)}
    sparse = {n.name for n in network.builder.nodes if n.op == "sparse_input"}
    for name, matrix in network.leaves.items():
        x = matrix.astype(dtype)
        if name in sparse:
            indices, values = sparse_rows(name, x.T, len(x)).padded(dtype)
            if packing is not None:
                indices, values = packing.pack(indices.T, -1), packing.pack(values.T)
            given |= {f"{name}.indices": indices, f"{name}.values": values}
        elif name in network.with_samples:
            given[name] = np.ascontiguousarray(x.T) if packing is None else packing.pack(x)
        else:
            given[name] = x
    return given


def random_program(seed: int, path: Path) -> tuple[dict[str, Array], Check] | None:
    """Writes the file of a random program, with an input for every size; None where a parameter has
    a size that calls decide."""
    made = make_function(seed, exact=True)
    expected = evaluate(made.function, made.arguments, made.sizes)
    given = dict(made.arguments)
    for dim in made.module.dims:
        if not dim.is_made:
            name = f"size.{dim}"
            made.function.add_argument(name, TensorType((dim,), DType.F32), "input")
            given[name] = np.zeros(made.sizes[dim.name], np.float32)
    held = zip(made.function.arguments, made.function.roles, strict=True)
    parameters = [a for a, role in held if role == "parameter"]
    if any(a.tensor.symbols() for a in parameters):
        return None
    values = {a.name or "": given[a.name or ""] for a in parameters}
    gc.export_onnx(Program(made.module, values), path)

    def check(found: Mapping[str, Array]) -> None:
        for name, got in found.items():
            want = expected[name.removesuffix(".result")]
            assert (got.shape, got.dtype) == (want.shape, want.dtype), (seed, name)
            size = np.max(np.abs(want), initial=1) if want.dtype.kind == "f" else 0
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * size, err_msg=str(seed))

    return given, check


# --- examples ------------------------------------------------------------------------------------

MACROS = EXAMPLES / "lstm.ndl"
WORDS = {"VocabDim": 12, "ClassDim": 3, "Largest": 6, "HiddenDim": 5}
SPEECH = {"FeatDim": 4, "Cells": 3, "BothCells": 6, "StateDim": 5}
TAGS = {"VocabDim": 7, "WindowRows": 21, "VectorDim": 4, "WindowCells": 12, "Cells": 5}
FILES: dict[str, tuple[bool, dict[str, int]]] = {
    "adding/adding": (True, {}),
    "chain/chain": (False, {}),
    "digits/digits": (False, {}),
    "images/autoencoder": (False, {}),
    "images/convolution": (False, {"Width": 16, "Height": 16, "Kernel": 5}),
    "images/one-hidden": (False, {}),
    "images/two-criteria": (False, {}),
    "images/two-inputs": (False, {}),
    "language-model/lstm": (True, WORDS),
    "language-model/rnn": (True, WORDS),
    "mixture/mixture": (False, {}),
    "speech/speech": (True, SPEECH),
    "tagging/tagging": (True, {**TAGS, "TagDim": 6}),
}
"""Whether it is of sequences, and its sizes."""
CLASSES = np.array([[0, 2], [2, 6], [6, 12]])
"""Where the words of a class begin and end."""


def example(name: str) -> gc.Network:
    is_recurrent, sizes = FILES[name]
    macros = MACROS if is_recurrent else ()
    return gc.load(EXAMPLES / f"{name}.ndl", macros=macros, defines=sizes, seed=1)


def data_of(net: gc.Network, samples: int, rng: np.random.Generator) -> dict[str, Array]:
    """(samples, rows) for each input: numbers, and one 1 in what is sparse or a label."""
    made: dict[str, Array] = {}
    for node in net.nodes:
        if node.op not in ("input", "sparse_input"):
            continue
        rows = node.operation.result.type.rows
        if node.name == "next":
            word = rng.integers(0, 12, samples)
            kind = np.searchsorted(CLASSES[:, 1], word, side="right")
            made[node.name] = np.column_stack([word, kind, CLASSES[kind]]).astype(np.float64)
        elif node.op == "sparse_input" or "label" in node.tags:
            made[node.name] = np.eye(rows)[rng.integers(0, rows, samples)]
        else:
            made[node.name] = rng.standard_normal((samples, rows))
    return made


def as_fed(net: gc.Network, data: Mapping[str, Array]) -> dict[str, Array]:
    """The same for the file, (N, rows) or (T, S, rows)."""
    given: dict[str, Array] = {}
    for node in net.nodes:
        if node.name not in data:
            continue
        x = data[node.name].astype(np.float32)
        given[node.name] = x
        if node.op == "sparse_input":
            matrix = x.reshape(-1, x.shape[-1])
            names = (f"{node.name}.indices", f"{node.name}.values")
            padded = sparse_rows(node.name, matrix, x.shape[-1]).padded(np.dtype(np.float32))
            given |= {n: p.reshape(*x.shape[:-1], -1) for n, p in zip(names, padded, strict=True)}
    return given


def wanted(net: gc.Network) -> list[str]:
    tags = ("output", "criterion", "evaluation")
    return [node.name for node in net.nodes if set(tags) & set(node.tags)]


def assert_near(got: Array, expected: Array, name: str) -> None:
    size = float(np.max(np.abs(expected), initial=1))
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5 * size, err_msg=name)


def example_cases(name: str, path: Path) -> Iterator[tuple[dict[str, Array], Check]]:
    """Writes the file of an example; what to give to it, and how to look at what it gives."""
    return network_cases(example(name), path, is_recurrent=FILES[name][0])


def network_cases(
    net: gc.Network, path: Path, *, is_recurrent: bool
) -> Iterator[tuple[dict[str, Array], Check]]:
    """The same of any network."""
    rng = np.random.default_rng(0)
    if any(node.op == "mean" for node in net.nodes):
        samples = data_of(net, 20, rng)
        net.precompute(**{n: [x] if is_recurrent else x for n, x in samples.items()})
    time = 16 if is_recurrent or any(node.op == "crf" for node in net.nodes) else 0
    options = {"time": time, "sequences": 4 if is_recurrent else 1}
    net.export_onnx(path, wanted(net), **options)
    exact = gc.compile(net, wanted(net), backend="numpy", precision="f64", **options)
    for lengths in ([9], [3, 8, 1]) if is_recurrent else ([1], [7]):
        steps, slots = max(lengths), len(lengths)
        flat = data_of(net, steps * slots, rng)
        data = {n: x.reshape(steps, slots, -1) for n, x in flat.items()}
        cut = {n: [x[:t, s] for s, t in enumerate(lengths)] for n, x in data.items()}
        if is_recurrent:
            given, expected = as_fed(net, data), exact(**cut)
        else:
            given, expected = as_fed(net, data if time else flat), exact(**flat)
        if time:
            given["lengths"] = np.array(lengths)

        def check(got: Mapping[str, Array], expected: Any = expected) -> None:
            assert got.keys() == expected.keys()
            for node, value in expected.items():
                if isinstance(value, list):
                    for s, one in enumerate(value):
                        assert_near(got[node][: len(one), s], one, node)
                        assert not got[node][len(one) :, s].any()
                else:
                    assert_near(got[node].reshape(np.shape(value)), np.asarray(value), node)

        yield given, check
