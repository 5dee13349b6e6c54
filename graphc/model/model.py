"""A network and the values of its parameters: what is compiled, trained, saved and loaded.

The network is a module with one graph at node level. Values are numpy arrays by node name: every
parameter's, and every computed statistic's. A fresh parameter's value is drawn when it is first
needed, from the seed and its place in the script, so the order of use does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from graphc.ir.clone import clone_module
from graphc.ir.core import Function, Module, Operation, RegionKind
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.types import DType, MatrixType
from graphc.ir.verifier import verify_module
from graphc.model.container import read_container, write_container
from graphc.model.initialise import initial_value, read_matrix
from graphc.ops import default_context
from graphc.ops.nodes.layout import find_node, node_params, node_type
from graphc.ops.nodes.leaves import PARAMETER, ParameterParams, parameter_shape
from graphc.ops.nodes.statistics import STATISTICS, StatisticParams
from graphc.support.diagnostics import DiagnosticSink, GraphcError, fail, suggestion

GRAPH = "network"


class Model:
    """A graph of nodes and the values of its parameters.

    module  one graph function, at node level
    folder  where relative paths of `init=fromFile` start
    seed    of the initial values
    """

    def __init__(
        self, module: Module | None = None, *, folder: Path | None = None, seed: int = 0
    ) -> None:
        self.module = module or Module([Function(GRAPH, RegionKind.GRAPH)])
        self.folder = folder or Path()
        self.seed = seed
        self.values: dict[str, np.ndarray] = {}

    def snapshot(self) -> Model:
        """This network as it is now; its values stay the live ones of this model."""
        copy = Model(clone_module(self.module), folder=self.folder, seed=self.seed)
        copy.values = self.values
        return copy

    @property
    def graph(self) -> Function:
        """The network's only function."""
        (function,) = self.module.functions
        return function

    def find(self, name: str) -> Operation | None:
        """The node of that name; case does not distinguish, an exact match wins."""
        return find_node(self.graph, name)

    def tagged(self, tag: str) -> list[str]:
        """Names of the nodes with this tag, in the order of the network."""
        return [op.result.name or "" for op in self.graph.block if tag in node_params(op).tags]

    def parameter_nodes(self) -> list[Operation]:
        """The nodes that have a value: parameters and computed statistics, of a known size (others
        are of no use to any result)."""
        return [op for op in self.graph.block if _has_value(op) and node_type(op).is_known]

    def has_missing_values(self) -> bool:
        """Whether some parameter was not drawn or read yet."""
        return any(
            isinstance(op.params, ParameterParams) and op.result.name not in self.values
            for op in self.graph.block
        )

    def load_matrices(self, sink: DiagnosticSink) -> None:
        """Read the files of `init=fromFile`; the file's shape replaces the declared one."""
        for op in self.graph.block:
            params = op.params
            if not isinstance(params, ParameterParams) or params.init != "from_file":
                continue
            name = op.result.name or ""
            if name in self.values:
                continue
            try:
                matrix = read_matrix(self.folder, params.init_from_file_path, allow_absolute=True)
            except GraphcError as error:
                sink.error("file", f"`{name}` has no initial value", op.location)
                sink.diagnostics.extend(error.diagnostics)
                continue
            rows, cols = matrix.shape
            op.params = replace(params, rows=rows, cols=cols)
            op.result.type = MatrixType(rows, cols)
            self.values[name] = matrix

    def initialise(self) -> None:
        """Draw the value of every parameter that has none; sizes must be known."""
        index = -1
        for op in self.graph.block:
            if not isinstance(op.params, ParameterParams):
                continue
            index += 1
            name = op.result.name or ""
            if name in self.values or not node_type(op).is_known:
                continue
            p = op.params
            self.values[name] = initial_value(
                p.init,
                *parameter_shape(op),
                scale=p.init_value_scale,
                value=p.value,
                folder=self.folder,
                seed=self.seed,
                index=index,
            )

    @property
    def dtype(self) -> np.dtype:
        """The element type that the values are held in; f32 until something converts them."""
        return next((v.dtype for v in self.values.values()), np.dtype(np.float32))

    def convert(self, dtype: DType) -> None:
        """Hold all values in this element type from now on."""
        for name, value in self.values.items():
            self.values[name] = np.ascontiguousarray(value, dtype.numpy)

    def set_statistic(self, name: str, value: np.ndarray) -> None:
        """Give a Mean or InvStdDev node its value, (rows, 1), and mark it computed."""
        op = self.find(name)
        if op is None or not isinstance(op.params, StatisticParams):
            raise fail("missing-node", f"`{name}` is no Mean or InvStdDev node")
        op.params = replace(op.params, computed=True)
        self.values[op.result.name or ""] = value

    # --- files -----------------------------------------------------------------------------

    def save(self, path: Path | str) -> None:
        """Write a model file (safetensors; `docs/model-file.md`), atomically."""
        metadata = {"ir": print_module(self.module, locations=True), "seed": str(self.seed)}
        names = [op.result.name or "" for op in self.parameter_nodes()]
        tensors = {name: self.values[name] for name in names if name in self.values}
        write_container(Path(path), tensors, metadata)


def load_model(path: Path | str) -> Model:
    """Read a model file; nothing in it is executed. GraphcError `bad-model-file` if damaged."""
    path = Path(path)
    container = read_container(path)
    context = default_context()
    module = parse_module(container.metadata["ir"], context, file=f"{path} (network)")
    verify_module(module, context.sink)
    context.sink.raise_if_errors()
    if len(module.functions) != 1 or module.functions[0].kind is not RegionKind.GRAPH:
        raise fail(
            "bad-model-file",
            f"{path}: one graph is required, got {len(module.functions)} functions",
        )
    seed = container.metadata.get("seed", "0")
    if not (seed.isascii() and seed.isdigit() and len(seed) <= 19):
        raise fail("bad-model-file", f"{path}: the seed is an integer, got `{seed[:40]}`")
    model = Model(module, folder=path.parent, seed=int(seed))
    _check_values(model, container.tensors, path)
    model.values = dict(container.tensors)
    return model


def _check_values(model: Model, tensors: Mapping[str, np.ndarray], path: Path) -> None:
    expected = {op.result.name or "": op for op in model.parameter_nodes()}
    for name in tensors:
        if name not in expected:
            raise fail("bad-model-file", f"{path}: the network has no parameter `{name}`")
    for name, op in expected.items():
        type = node_type(op)
        if name not in tensors:
            # A parameter without a value is drawn from the seed when it is needed. It must not
            # name a file: a model from elsewhere may not make us read our own files.
            if isinstance(op.params, ParameterParams) and op.params.init != "from_file":
                continue
            raise fail("bad-model-file", f"{path}: `{name}` has no value in the file")
        found = tensors[name]
        if found.dtype.kind != "f" or (type.is_known and found.shape != (type.rows, type.cols)):
            raise fail(
                "bad-model-file",
                f"{path}: `{name}` is {type}, its value is {found.dtype}{list(found.shape)}",
            )


def _has_value(op: Operation) -> bool:
    if op.opdef is PARAMETER:
        return True
    return op.opdef in STATISTICS and isinstance(op.params, StatisticParams) and op.params.computed


class Parameters(MutableMapping[str, np.ndarray]):
    """`net.parameters`: the values by node name (case does not distinguish), (rows, cols) each.

    Reading gives the live array: changing it in place changes the network. Assigning copies into
    it, after checking the shape.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getitem__(self, name: str) -> np.ndarray:
        return self._model.values[self._key(name)]

    def __setitem__(self, name: str, value: object) -> None:
        array = self[name]
        try:
            new = np.asarray(value)
        except ValueError as problem:
            raise fail("input", f"parameter `{name}` requires an array: {problem}") from None
        if new.dtype.kind not in "fiub" or new.shape != array.shape:
            raise fail(
                "input",
                f"parameter `{name}` requires numbers of shape {array.shape}, "
                f"got {new.dtype}{list(new.shape)}",
            )
        with np.errstate(over="ignore"):  # too large for f32 is infinite, as in any input
            array[...] = new

    def __delitem__(self, name: str) -> None:
        raise TypeError("parameters cannot be removed from a network")

    def __iter__(self) -> Iterator[str]:
        return iter([op.result.name or "" for op in self._model.parameter_nodes()])

    def __len__(self) -> int:
        return len(self._model.parameter_nodes())

    def _key(self, name: str) -> str:
        lower = name.lower()
        if name in self._model.values:
            return name
        for known in self._model.values:
            if known.lower() == lower:
                return known
        near = suggestion(name, self._model.values)
        raise KeyError(f"the network has no parameter `{name}`{near}")
