"""What a compiled function takes and gives: names, element types, shapes, bounds.

One record serves every backend, the call checks in Python, the C header and `--info`. A shape
holds integers and names of dims; a dim is bounded and its value is given by the call.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphc.runtime.layouts import in_pairs, in_panels, transformed
from graphc.support.adjacent import adjacent
from graphc.support.aligned import aligned_copy
from graphc.support.diagnostics import fail
from graphc.support.element_types import NUMPY_DTYPES as NUMPY_DTYPES
from graphc.support.matrix_sizes import matrix_sizes
from graphc.support.member_place import SHARD, SHARDS
from graphc.support.size_formula import SizeFormula

Role = Literal["input", "parameter", "transposed", "state", "hyperparameter", "carried", "kept"]
Shape = tuple[int | str, ...]

ABI_VERSION = 1
GRADIENT = "gradient."
"""Results whose name starts so are gradients of what the rest names."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A size between 0 and `bound`: decided by the call, or by a formula of dims before it."""

    name: str
    bound: int
    formula: SizeFormula | None = None

    @property
    def multiple(self) -> int:
        """What a product of sizes has to be a multiple of, in a formula that divides it."""
        return self.formula.multiple if self.formula is not None else 1


@dataclass(frozen=True, slots=True)
class Argument:
    """One array handed to the function.

    input      given by the caller at every call
    parameter  part of the model (weights, computed statistics)
    transposed a matrix of the model, `NAME.transposed`: its shape is (columns, rows)
    state             kept by the learner between calls, starts as zeros
    hyperparameter    a number of the call such as the learning rate, shape ()-like (1, 1)
    carried           what the call before left in the fresh result of the same name, [S, rows]
    kept              made of inputs that are given seldom (`runtime/seldom.py`)

    panel  a matrix [k, n] of the model lies in panels of so many columns: its shape is
           (panels, k, panel), see `in_panels`; 0: it lies by rows
    pairs  these hold two numbers of bf16 in each element, see `in_pairs`
    dims, permutation  a parameter lies as that of `dims`, transposed; empty: as it is
    windows  (blocks, channels, columns) of weights [blocks, 3, 3, channels, columns] that lie
             transformed for Winograd's algorithm, see `transformed`
    """

    name: str
    dtype: str
    shape: Shape
    role: Role
    panel: int = 0
    pairs: bool = False
    dims: tuple[int, ...] = ()
    permutation: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()

    @property
    def layout(self) -> str:
        """What ends the name of an array that lies otherwise: two functions may want it each in
        another way."""
        if self.panel:
            return f".panels.{self.panel}{'.pairs' * self.pairs}"
        made = ""
        if self.permutation:
            made = f".laid.{_joined(self.dims, 'x')}.{_joined(self.permutation, '_')}"
        return f"{made}.transformed.{_joined(self.windows, 'x')}" if self.windows else made

    @property
    def parameter(self) -> str:
        """What the network calls an array of the model."""
        name = self.name.removesuffix(self.layout)
        return name.removesuffix(TRANSPOSED) if self.role == "transposed" else name


def _joined(numbers: Iterable[int], between: str) -> str:
    return between.join(map(str, numbers))


ROLES_OF_MODEL: tuple[Role, ...] = ("parameter", "transposed")
TRANSPOSED = ".transposed"
"""Behind the name of the parameter that a transposed argument is made of."""


@dataclass(frozen=True, slots=True)
class Result:
    """One array the function makes. `updates` names the argument whose memory it overwrites."""

    name: str
    dtype: str
    shape: Shape
    updates: str | None = None


@dataclass(frozen=True, slots=True)
class SparseInput:
    """One input of `rows` numbers a sample that is handed over as two arguments.

    `indices` i32[N, K] says where in a sample the `values` [N, K] stand.
    """

    name: str
    rows: int

    @property
    def indices(self) -> str:
        return f"{self.name}.indices"

    @property
    def values(self) -> str:
        return f"{self.name}.values"


@dataclass(frozen=True, slots=True)
class LabelInput:
    """One input of labels, which callers may give as one-hot rows or as class numbers.

    dtype        of its rows
    is_numbered  the function takes class numbers: i64, without the axis of the rows
    """

    name: str
    classes: int
    dtype: str
    is_numbered: bool


@dataclass(frozen=True, slots=True)
class ClassNumbers:
    """One input of whole numbers that have to be from 0 to `classes` - 1, as labels of programs."""

    name: str
    classes: int


@dataclass(frozen=True, slots=True)
class SequenceTables:
    """The function's columns are steps of sequences: the two inputs that say which.

    Both i32[T, S]: step t of slot s is one of the steps `begin` to `end` - 1 of its sequence,
    which goes on from the call before if `begin` < 0. In a gap begin is T and end is 0.
    multiple  T is a multiple of it: gaps fill up what is missing
    """

    begin: str
    end: str
    time: str = "T"
    slots: str = "S"
    multiple: int = 1


@dataclass(frozen=True, slots=True)
class Signature:
    """Arguments and results in the order of the function's IR, and the arena it needs.

    sparse     the inputs that are two arguments each
    sequences  of a function of sequences: where it is told how they lie
    is_split   some of its work is cut into chunks that threads can share
    labels     inputs that callers may give as one-hot rows or as class numbers
    classes    inputs that are class numbers
    gives_numbers  a result of one row and one column is given as a number, as costs of networks are
    sums       what the members of a training add up, each sum's side by side in this order
               (`all_reduce`, `all_reduce_start`)
    """

    name: str
    dims: tuple[Dimension, ...]
    arguments: tuple[Argument, ...]
    results: tuple[Result, ...]
    arena_bytes: int
    sparse: tuple[SparseInput, ...] = ()
    sequences: SequenceTables | None = None
    is_split: bool = False
    gives_numbers: bool = True
    labels: tuple[LabelInput, ...] = ()
    classes: tuple[ClassNumbers, ...] = ()
    sums: tuple[tuple[Result, ...], ...] = ()

    @property
    def unit(self) -> str:
        """The dim of samples, or of the sequences that lie side by side."""
        return self.dims[0].name if self.sequences is None else self.sequences.slots

    def with_role(self, role: Role) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == role)

    @property
    def numbers(self) -> tuple[Argument, ...]:
        """Of a training step in a file: those that a call is given by themselves. Which member it
        is of stands in the table of its sums."""
        places = (SHARD, SHARDS) if self.sums else ()
        return tuple(a for a in self.with_role("hyperparameter") if a.name not in places)

    @property
    def model_names(self) -> frozenset[str]:
        """The parameters of the model that the function takes, as the network calls them, and what
        is computed of parameters alone."""
        return frozenset(a.parameter for a in self.arguments if a.role in ROLES_OF_MODEL)

    def model_arrays(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The model's arrays in the form and element type that the function takes: themselves, or
        copies that begin at a multiple of a cache line."""
        made: dict[str, np.ndarray] = {}
        for argument in (a for a in self.arguments if a.role in ROLES_OF_MODEL):
            array = values[argument.parameter]
            if argument.role == "transposed":
                array = array.T
            if argument.panel:
                array = in_panels(array.reshape(matrix_sizes(array.shape)), argument.panel)
            if argument.pairs:
                array = in_pairs(array)
            if argument.permutation:
                array = array.reshape(argument.dims).transpose(argument.permutation)
            dtype, given = NUMPY_DTYPES[argument.dtype], values[argument.parameter]
            if argument.windows:
                blocks, channels, columns = argument.windows
                windows = np.ascontiguousarray(array, dtype)
                array = transformed(windows.reshape(blocks, 3, 3, channels, columns))
            is_shared = array is given and array.dtype == dtype and array.flags.c_contiguous
            made[argument.name] = array if is_shared else aligned_copy(array, dtype)
        return made

    @property
    def input_names(self) -> tuple[str, ...]:
        """What a caller has to give: an input of two arguments counts as one.

        Without the tables of sequences, which are made of the inputs' lengths.
        """
        by_indices = {s.indices: s.name for s in self.sparse}
        left_out = {s.values for s in self.sparse}
        if self.sequences is not None:
            left_out |= {self.sequences.begin, self.sequences.end}
        names = [a.name for a in self.with_role("input") if a.name not in left_out]
        return tuple(by_indices.get(name, name) for name in names)

    @property
    def call_dims(self) -> tuple[Dimension, ...]:
        """The dims that a call decides: those that do not follow from others."""
        return tuple(d for d in self.dims if d.formula is None)

    @property
    def formulas(self) -> dict[str, SizeFormula]:
        """Of the other dims, each behind those that it is made of."""
        return {d.name: d.formula for d in self.dims if d.formula is not None}

    @property
    def sizes_at_bounds(self) -> dict[str, int]:
        """Of every dim in the largest call. GraphcError where there is no such call."""
        sizes = {d.name: d.bound for d in self.call_dims}
        for name, formula in self.formulas.items():
            sizes[name] = formula.value(sizes)
            if sizes[name] < 0:
                told = ", ".join(f"{d.name} = {d.bound}" for d in self.call_dims)
                message = f"{formula} is less than 0 where all dims are at their bounds, {told}"
                raise fail("not-supported", f"{message}: give other bounds")
        return sizes

    @property
    def derived_dims(self) -> tuple[Dimension, ...]:
        """Those of inputs and outputs that follow from others."""
        specs = (*self.with_role("input"), *self.fresh_results)
        used = {d for spec in specs for d in spec.shape}
        return tuple(d for d in self.dims if d.formula is not None and d.name in used)

    @property
    def state_places(self) -> dict[Argument, int]:
        """Of a training step in a file: the arguments that it updates, and the byte at which each
        begins in the memory that holds them all."""
        updated = {r.updates for r in self.results}
        arguments = [a for a in self.arguments if a.name in updated]
        return dict(zip(arguments, adjacent(map(_bytes_of, arguments)), strict=False))

    @property
    def state_bytes(self) -> int:
        """Of that memory; 0 for a function that updates nothing."""
        return adjacent(map(_bytes_of, self.state_places))[-1]

    @property
    def fresh_results(self) -> tuple[Result, ...]:
        """Results with memory of their own: those that overwrite no argument."""
        return tuple(r for r in self.results if r.updates is None)


def _bytes_of(spec: Argument | Result) -> int:
    """Those of an array of fixed sizes."""
    size = NUMPY_DTYPES[spec.dtype].itemsize
    return size * math.prod(d for d in spec.shape if isinstance(d, int))


def runs_epochs(signature: Signature) -> bool:
    """Whether a compiled function can go through a data set by itself: a training step on dense
    samples.

    Sequences and sparse inputs need a new layout for every call, which Python makes.
    """
    if (
        signature.sequences is not None
        or signature.sparse
        or not signature.with_role("hyperparameter")
    ):
        return False
    dims = signature.dims
    if len(dims) != 1 or dims[0].formula is not None:
        return False
    inputs, hyperparameters = signature.with_role("input"), signature.with_role("hyperparameter")
    return (
        bool(inputs)
        and all(i.shape[:1] == (dims[0].name,) for i in inputs)
        and all(isinstance(d, int) for i in inputs for d in i.shape[1:])
        and signature.gives_numbers
        and all(_is_number(p) for p in (*hyperparameters, *signature.fresh_results))
    )


def _is_number(spec: Argument | Result) -> bool:
    return spec.shape == (1, 1)


def concrete_shape(shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """`shape` with every dim name replaced by its size."""
    return tuple(sizes[d] if isinstance(d, str) else d for d in shape)


def info_json(signature: Signature, *, version: str, isa: str, content_hash: str) -> str:
    """The text that an artifact gives for `--info` and `NAME_info()`: inputs and outputs only."""
    dims = [{"name": d.name, "bound": d.bound} for d in signature.call_dims]
    inputs = [_spec(a) for a in signature.with_role("input")]
    outputs = [_spec(r) for r in signature.fresh_results]
    record: dict[str, object] = {
        "abi": ABI_VERSION,
        "name": signature.name,
        "graphc": version,
        "dims": dims,
        "inputs": inputs,
        "outputs": outputs,
        "arena_bytes": signature.arena_bytes,
        "isa": isa,
        "hash": content_hash,
    }
    if signature.state_places:
        places = signature.state_places.items()
        numbers = signature.numbers
        record["numbers"] = [{"name": a.name, "dtype": a.dtype} for a in numbers]
        record["state"] = [{**_spec(a), "offset": place} for a, place in places]
        record["state_bytes"] = signature.state_bytes
    if signature.sums:
        record["members"] = True
    if signature.derived_dims:
        record["derived"] = {d.name: str(d.formula) for d in signature.derived_dims}
    return json.dumps(record, separators=(",", ":"))


def _spec(spec: Argument | Result) -> dict[str, object]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
