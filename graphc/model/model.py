"""A network and the values of its parameters: what is compiled, trained, saved and loaded.

The network is a module with one graph at node level. Values are numpy arrays by node name: every
parameter's, and every computed statistic's. A fresh parameter's value is drawn when it is first
needed, from the seed and its place in the script, so the order of use does not matter.

Values are held in one element type, f32 until a training in f64, and f32 functions work on them
where they lie. What somebody wrote, assigned or computed in more digits is kept beside them, so
that a function in f64 has those digits whatever was compiled before: one text, one model.
"""

from __future__ import annotations

import json
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
    Set,
)
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from graphc.ir.clone import clone_module
from graphc.ir.context import Context
from graphc.ir.core import Function, Module, Operation, RegionKind
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.types import DType, MatrixType
from graphc.ir.verifier import verify_module
from graphc.model.container import KIND, PROGRAM, container_writer, read_container
from graphc.model.initialise import initial_value, read_matrix
from graphc.ops import default_context
from graphc.ops.nodes.layout import find_node, node_params, node_type
from graphc.ops.nodes.leaves import ParameterParams, parameter_shape
from graphc.ops.nodes.statistics import StatisticParams
from graphc.runtime.residency import come_home, some_are_away
from graphc.support.diagnostics import DiagnosticSink, GraphcError, fail, printable, suggestion
from graphc.support.files import write_atomically

GRAPH = "network"
PLUG_INS = "plug-ins"
"""The entry of a model file's metadata that says which distribution a node is of."""
_SHOWN = 100  # characters of a file's own text in a message
TRAINING, TRAINING_ARRAY = "training", "@"
"""The metadata of a checkpoint, and how the names of its arrays begin that are no parameters."""


class Model:
    """A graph of nodes and the values of its parameters.

    module  one graph function, at node level
    folder  where relative paths of `init=fromFile` start
    seed    of the initial values
    unset   (node, index) of inputs that wait for a node: until then the node reads itself there
    has_old_sizes  sizes of nodes may be those of inputs that they had before an edit

    What is compiled keeps the table `values` that there was. So an edit that gives values to other
    names makes another table, of the same arrays, and what was compiled before goes on.
    """

    def __init__(
        self, module: Module | None = None, *, folder: Path | None = None, seed: int = 0
    ) -> None:
        self.module = module or Module([Function(GRAPH, RegionKind.GRAPH)])
        self.folder = folder or Path()
        self.seed = seed
        self._values: dict[str, np.ndarray] = {}
        self._exact: dict[str, np.ndarray] = {}  # f64: what values were before they were rounded
        self.unset: set[tuple[Operation, int]] = set()
        self.has_old_sizes = False

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The table of values, live, with what they are now: those that a device works on are
        fetched from it. What is compiled keeps the table, and reads it so by itself."""
        if some_are_away():
            come_home(self._values.values())
        return self._values

    @values.setter
    def values(self, values: dict[str, np.ndarray]) -> None:
        self._values = values

    def value(self, name: str) -> np.ndarray:
        """One of them; others stay where they are."""
        array = self._values[name]
        come_home((array,))
        return array

    @property
    def names_of_values(self) -> Set[str]:
        return self._values.keys()

    def snapshot(self) -> Model:
        """This network as it is now; its values stay the live ones of this model."""
        copy = Model(clone_module(self.module), folder=self.folder, seed=self.seed)
        copy.values, copy._exact = self._values, self._exact
        return copy

    def frozen(self) -> Model:
        """This network with its values as they are now."""
        copy = self.snapshot()
        copy.values = {name: array.copy() for name, array in self.values.items()}
        copy._exact = dict(self._exact)
        return copy

    def __deepcopy__(self, _memo: dict[int, object]) -> Model:
        copy = self.frozen()
        copy._set_marks(*self._marks())
        return copy

    def __reduce__(self) -> tuple[object, ...]:
        """For `pickle`: the graph goes as text."""
        text = print_module(self.module, locations=True)
        return (_unpickled, (text, self.folder, self.seed, self.values, self._exact, self._marks()))

    def _marks(self) -> tuple[list[tuple[int, int]], bool]:
        """The inputs that wait for a node, by the node's place, and whether sizes may be old."""
        numbers = {op: number for number, op in enumerate(self.graph.block)}
        return [(numbers[op], index) for op, index in self.unset_inputs()], self.has_old_sizes

    def _set_marks(self, unset: Sequence[tuple[int, int]], has_old_sizes: bool) -> None:
        nodes = list(self.graph.block)
        self.unset = {(nodes[number], index) for number, index in unset}
        self.has_old_sizes = has_old_sizes

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

    def missing_values(self) -> Set[str]:
        """The parameters that were not drawn or read yet."""
        parameters = [op for op in self.graph.block if isinstance(op.params, ParameterParams)]
        return {op.result.name or "" for op in parameters} - self._values.keys()

    def load_matrices(self, sink: DiagnosticSink) -> None:
        """Read the files of `init=fromFile`; the file's shape replaces the declared one."""
        for op in self.graph.block:
            params = op.params
            if not isinstance(params, ParameterParams) or params.init != "from_file":
                continue
            name = op.result.name or ""
            if name in self._values:
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
            self.hold(name, matrix)

    def initialise(self, names: Set[str]) -> None:
        """Draw the values of these parameters; their sizes must be known."""
        index = -1
        for op in self.graph.block:
            if not isinstance(op.params, ParameterParams):
                continue
            index += 1
            name = op.result.name or ""
            if name not in names or not node_type(op).is_known:
                continue
            p = op.params
            value = initial_value(
                p.init,
                *parameter_shape(op),
                scale=p.init_value_scale,
                value=p.value,
                folder=self.folder,
                seed=self.seed,
                index=index,
            )
            self.hold(name, value)

    @property
    def dtype(self) -> np.dtype:
        """The element type that the values are held in; f32 until something converts them."""
        return next((v.dtype for v in self._values.values()), np.dtype(np.float32))

    def hold(self, name: str, value: np.ndarray) -> None:
        """Give a node its value, which belongs to the model from then on."""
        with np.errstate(over="ignore"):
            self._values[name] = np.require(value, self.dtype, ["C", "W"])
        self.note_exact(name, value)

    def note_exact(self, name: str, value: np.ndarray) -> None:
        """Keep what the held value was rounded from, if f64 has more digits of it."""
        held = self.value(name)
        fits = np.can_cast(value.dtype, held.dtype)
        if fits or np.array_equal(held, exact := np.asarray(value, np.float64), equal_nan=True):
            self._exact.pop(name, None)
        else:
            self._exact[name] = exact

    def values_in(self, dtype: DType) -> Mapping[str, np.ndarray]:
        """The values for a function of this element type, live; it rounds or widens them itself.

        For f64, an element that still equals its rounded value is given in full precision.
        """
        return _Exact(self) if dtype is DType.F64 else self._values

    def exactly(self, name: str) -> np.ndarray:
        """The held value, or an f64 array with the digits that the held one has not."""
        held = self.value(name)
        if name not in self._exact:
            return held
        exact = self._exact[name]
        if held.dtype != np.float32 or held.shape != exact.shape:
            return held
        with np.errstate(over="ignore"):
            rounded = exact.astype(np.float32, order="C")
        same = rounded.view(np.uint32) == np.ascontiguousarray(held).view(np.uint32)
        return np.where(same, exact, held)

    def exactly_where_it_is(self, name: str) -> np.ndarray:
        """As `exactly`; an array without further digits may be away (`runtime/residency.py`)."""
        return self.exactly(name) if name in self._exact else self._values[name]

    def convert(self, dtype: DType) -> None:
        """Hold all values in this element type from now on."""
        for name, held in [*self.values.items()]:
            value = self.exactly(name) if dtype is DType.F64 else held
            with np.errstate(over="ignore"):
                self.values[name] = np.ascontiguousarray(value, dtype.numpy)
            if held.dtype != dtype.numpy:
                self.note_exact(name, value)

    def forget_exact(self, names: Iterable[str]) -> None:
        """These are f32 numbers from now on: functions in f32 update them."""
        for name in names:
            self._exact.pop(name, None)

    def rename_values(self, names: Mapping[str, str]) -> None:
        """The nodes of these names, which may have values, have others now."""
        self.values = {names.get(name, name): v for name, v in self._values.items()}
        self._exact = {names.get(name, name): v for name, v in self._exact.items()}

    def drop_values(self, names: Collection[str]) -> None:
        """Forget the values of nodes that are taken out."""
        self.values = {name: v for name, v in self._values.items() if name not in names}
        self._exact = {name: v for name, v in self._exact.items() if name not in names}

    def replace_values(self, values: Mapping[str, np.ndarray]) -> None:
        """Give nodes other values, which belong to the model from then on."""
        self.drop_values(values.keys())
        for name, value in values.items():
            self.hold(name, value)

    def tables(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The values and their further digits, for `use_tables`."""
        return self._values, self._exact

    def use_tables(self, tables: tuple[dict[str, np.ndarray], dict[str, np.ndarray]]) -> None:
        """Put back the values that there were."""
        self.values, self._exact = tables

    def unset_inputs(self) -> list[tuple[Operation, int]]:
        """The inputs that wait for a node, in the order of the network."""
        nodes = self.graph.block if self.unset else ()
        pairs = ((op, index) for op in nodes for index in range(len(op.operands)))
        return [pair for pair in pairs if pair in self.unset]

    def set_statistic(self, name: str, value: np.ndarray) -> None:
        """Give a Mean or InvStdDev node its value, (rows, 1), and mark it computed."""
        op = self.find(name)
        if op is None or not isinstance(op.params, StatisticParams):
            raise fail("missing-node", f"`{name}` is no Mean or InvStdDev node")
        op.params = replace(op.params, computed=True)
        self.hold(op.result.name or "", value)

    def adopt(self, values: Mapping[str, np.ndarray]) -> None:
        """Take the values of a file, (rows, cols) each, in the element type that they have there.

        Mean and InvStdDev nodes among them are computed from then on.
        """
        for name, value in values.items():
            op = self.find(name)
            assert op is not None, name
            if isinstance(op.params, StatisticParams):
                op.params = replace(op.params, computed=True)
            self.values[op.result.name or ""] = np.require(value, None, ["C", "W"])

    # --- files -----------------------------------------------------------------------------

    def save(self, path: Path | str) -> None:
        """Write a model file (safetensors; `docs/model-file.md`), atomically.

        Every parameter has its value by now.
        """
        write_atomically(Path(path), self.writer(Path(path)))

    def writer(self, path: Path) -> Callable[[BinaryIO], None]:
        """What writes the model file into a stream; messages call it `path`."""
        metadata = {"ir": print_module(self.module, locations=True), "seed": str(self.seed)}
        plugged = {op.opdef.name: op.opdef.origin for op in self.graph.block if op.opdef.origin}
        if plugged:
            metadata[PLUG_INS] = json.dumps(plugged, sort_keys=True)
        names = [op.result.name or "" for op in self.parameter_nodes()]
        tensors = {name: self.values[name] for name in names}
        return container_writer(tensors, metadata, str(path))


def _unpickled(
    text: str,
    folder: Path,
    seed: int,
    values: dict[str, np.ndarray],
    exact: dict[str, np.ndarray],
    marks: tuple[list[tuple[int, int]], bool],
) -> Model:
    """The model of `Model.__reduce__`."""
    context = default_context()
    module = parse_module(text, context, file="a pickled network")
    context.sink.raise_if_errors()
    model = Model(module, folder=folder, seed=seed)
    model.values, model._exact = values, exact
    model._set_marks(*marks)
    return model


def load_model(path: Path | str) -> Model:
    """Read a model file; nothing in it is executed. GraphcError `bad-model-file` if damaged."""
    path = Path(path)
    container = read_container(path)
    if container.metadata.get(KIND) == PROGRAM:
        message = f"{path} holds a program, a network is required: gc.load_program reads programs"
        raise fail("bad-model-file", message)
    context = default_context()
    _require_plug_ins(container.metadata, context, path)
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
    values = container.tensors
    if TRAINING in container.metadata:
        values = {n: a for n, a in values.items() if not n.startswith(TRAINING_ARRAY)}
    _check_values(model, values, path)
    model.values = dict(values)
    return model


def _require_plug_ins(metadata: Mapping[str, str], context: Context, path: Path) -> None:
    """Refuse a network with nodes of other distributions that are not installed."""
    try:
        named: object = json.loads(metadata.get(PLUG_INS, "{}"))
    except (ValueError, RecursionError):
        named = None
    if not isinstance(named, dict):
        raise fail("bad-model-file", f"{path}: the metadata `{PLUG_INS}` is no table")
    known = {*context.ops} if named else set[str]()
    for name, origin in cast("dict[str, object]", named).items():
        if name not in known:
            node = printable(name[:_SHOWN])
            message = f"has the node `{node}` of {printable(str(origin)[:_SHOWN])}"
            raise fail("plug-in", f"{path} {message}, which is not installed here")


def _check_values(model: Model, tensors: Mapping[str, np.ndarray], path: Path) -> None:
    expected = {op.result.name or "": op for op in model.parameter_nodes()}
    for name in tensors:
        if name not in expected:
            raise fail("bad-model-file", f"{path}: the network has no parameter `{name}`")
    for name, op in expected.items():
        type = node_type(op)
        if name not in tensors:
            # Drawing it would set aside memory for any size that the text claims, and reading it
            # from the file that the text names would read one of ours.
            raise fail("bad-model-file", f"{path}: `{name}` has no value in the file")
        found = tensors[name]
        is_float = found.dtype in (DType.F32.numpy, DType.F64.numpy)
        if not is_float or (type.is_known and found.shape != (type.rows, type.cols)):
            raise fail(
                "bad-model-file",
                f"{path}: `{name}` is {type}, its value is {found.dtype}{list(found.shape)}",
            )


def _has_value(op: Operation) -> bool:
    if isinstance(op.params, StatisticParams):
        return op.params.computed
    return isinstance(op.params, ParameterParams)


class _Exact(Mapping[str, np.ndarray]):
    """The values of a model for functions in f64."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getitem__(self, name: str) -> np.ndarray:
        return self._model.exactly_where_it_is(name)

    def __contains__(self, name: object) -> bool:
        return name in self._model.names_of_values

    def __iter__(self) -> Iterator[str]:
        return iter(self._model.names_of_values)

    def __len__(self) -> int:
        return len(self._model.names_of_values)


class Parameters(MutableMapping[str, np.ndarray]):
    """`net.parameters`: the values by node name (case does not distinguish), (rows, cols) each.

    Reading gives the live array: changing it in place changes the network. Assigning copies into
    it, after checking the shape. The array is f32 until the network was trained in f64; of what is
    assigned f64 functions take all digits.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def __getitem__(self, name: str) -> np.ndarray:
        return self._model.value(self._key(name))

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
        self._model.note_exact(self._key(name), np.array(new, np.float64))

    def __delitem__(self, name: str) -> None:
        raise TypeError("parameters cannot be removed from a network")

    def __iter__(self) -> Iterator[str]:
        return iter([op.result.name or "" for op in self._model.parameter_nodes()])

    def __len__(self) -> int:
        return len(self._model.parameter_nodes())

    def _key(self, name: str) -> str:
        lower = name.lower()
        names = self._model.names_of_values
        if name in names:
            return name
        for known in names:
            if known.lower() == lower:
                return known
        near = suggestion(name, names)
        raise KeyError(f"the network has no parameter `{name}`{near}")
