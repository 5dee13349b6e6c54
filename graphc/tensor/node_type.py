"""`NodeType`: a kind of node as a function of arrays, which another distribution adds to graphc.

    MAXOUT = gc.NodeType("Maxout", maxout, reference, summary="the larger of two, …")

The function is written for one column: it gets a vector of each operand and gives one. It is traced
for the rows that the operands have, and what was traced is emitted for all columns at once, whether
these are samples, steps of sequences, or what else. Sizes follow from the trace, the gradient from
the operations in it. A node whose columns depend on each other, or that is random, is an `OpDef`
made by `graphc.ops.nodes.layout.node_def` instead.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from graphc.driver.options import DEFAULT_BACKEND
from graphc.ir.clone import clone_function
from graphc.ir.core import Array, Function, IRBuilder, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.traversal import walk
from graphc.ir.types import DType, MatrixDim, MatrixType, TensorType, Type, TypeRuleError
from graphc.ops.constant import CONSTANT, ConstantParams
from graphc.ops.movement import reshape
from graphc.ops.nodes.layout import (
    SCALAR,
    NodeParams,
    by_column,
    from_columns,
    matrix,
    merged,
    node_def,
    node_params,
    node_type,
    operand_types,
)
from graphc.ops.nodes.plugged import described, op_name
from graphc.ops.reduction import reduce_sum
from graphc.support import arguments
from graphc.support.diagnostics import GraphcError, fail
from graphc.tensor.batching import emit_batched
from graphc.tensor.function import Arguments, ArrayFunction, TracedFunction
from graphc.tensor.numeric import convert
from graphc.tensor.trees import flatten

Shape = tuple[int, ...]

MAX_HELD = 2**16
"""Elements of an array that the function of a node closes over: they are written into the IR."""

_RESERVED = {"name", "tag", "tags", "self"}


@dataclass(frozen=True, eq=False)
class NodeType:
    """A kind of node that a function of arrays computes, column by column.

    name        what NDL calls it, as RowMaximum; the method is then `net.row_maximum`
    compute     the function. Its arguments by place are the operands; those by name alone are the
                settings, with bools, whole numbers or floats as defaults. It gets a column of each
                operand, (rows,), and gives a column or a number; what `gc.function` can trace
    reference   the same in numpy on whole matrices (rows, columns): what `gc.check_node` judges by
    summary     what it computes, in one sentence without a stop
    criterion   the node is 1x1, the sum of the numbers that `compute` gives for the columns
    matrices    operands that are no columns: `compute` gets them whole, (rows, columns)
    equal_rows  all operands that are columns have equally many rows, but for single numbers;
                parameters whose rows are to be inferred get them
    equation, source  for people

    An operand of one column is taken with every column of the others. A column with as many rows as
    that of the first operand is an image of the same shape, if that is one. In the gaps of a
    minibatch of sequences the columns are 0, and no gradient flows there.

    GraphcError `plug-in`, when `opdef` is made, for what cannot be a node.
    """

    name: str
    compute: Callable[..., Any]
    reference: Callable[..., Array]
    summary: str
    criterion: bool = False
    matrices: str | Sequence[str] = ()
    equal_rows: bool = False
    equation: str = ""
    source: str = ""
    _traces: dict[object, TracedFunction] = field(
        default_factory=dict[object, TracedFunction], init=False, repr=False
    )

    @cached_property
    def opdef(self) -> OpDef:
        """The record that the compiler works with."""
        operands, settings = _signature(self)
        return node_def(
            op_name(self.name).removeprefix("node."),
            self.summary,
            operands,
            params=_params_class(self.name, settings),
            infer=partial(_infer, self, operands),
            refine=partial(_refine, self, operands) if self.equal_rows else None,
            expand=partial(_expand, self, operands),
            reference=partial(_reference, self),
            gap_values=tuple(None if self.takes_whole(o) else 0.0 for o in operands),
            equation=self.equation,
            source=self.source,
            ndl=(self.name,),
        )

    def takes_whole(self, operand: str) -> bool:
        """Whether `compute` gets all of an operand, and not a column."""
        return operand in arguments.texts(self.matrices, "matrices")


def _signature(record: NodeType) -> tuple[tuple[str, ...], Mapping[str, bool | int | float]]:
    """The operands and the settings of a record that is in order."""
    for name in ("name", "summary", "equation", "source"):
        arguments.text(getattr(record, name), name)
    for name in ("criterion", "equal_rows"):
        arguments.truth(getattr(record, name), name)
    if not re.fullmatch("[A-Za-z][A-Za-z0-9]*", record.name):
        raise fail("plug-in", f"requires a name of letters and digits, got {record.name!r}")
    if not callable(record.reference):
        raise fail("plug-in", f"requires a function as its reference, got {record.reference!r}")
    try:
        parameters = inspect.signature(record.compute).parameters.values()
    except (TypeError, ValueError) as error:
        raise fail("plug-in", f"requires a function to compute it: {error}") from error
    operands: list[str] = []
    settings: dict[str, bool | int | float] = {}
    for p in parameters:
        if p.name in _RESERVED or not re.fullmatch("[a-z][a-z0-9_]*", p.name):
            message = "requires arguments in lower case, other than name and tag"
            raise fail("plug-in", f"{message}, got {p.name}")
        by_place = p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        if by_place and p.default is p.empty:
            operands.append(p.name)
        elif p.kind is p.KEYWORD_ONLY and isinstance(p.default, bool | int | float):
            settings[p.name] = p.default
        else:
            message = (
                "requires operands by place without defaults, then settings by name alone with a "
                f"number as default, got `{p}`"
            )
            raise fail("plug-in", message)
    unknown = [n for n in arguments.texts(record.matrices, "matrices") if n not in operands]
    if not operands or unknown:
        what = f"an operand `{unknown[0]}`, as `matrices` says" if unknown else "an operand"
        raise fail("plug-in", f"requires {what}, got {inspect.signature(record.compute)}")
    return tuple(operands), settings


def _params_class(name: str, settings: Mapping[str, bool | int | float]) -> type[NodeParams]:
    """The class of the node's settings, in the form of every node's."""
    fields = [(n, type(value), field(default=value)) for n, value in settings.items()]
    tags = ("tags", tuple[str, ...], field(default=()))
    made = make_dataclass(f"{name}Params", [*fields, tags], bases=(NodeParams,), frozen=True)
    made.__doc__ = ""
    return made


def _settings(params: Params) -> dict[str, Any]:
    """The settings by name, as the function takes them."""
    return {name: value for name, value in vars(params).items() if name != "tags"}


def _reference(record: NodeType, params: Params, *operands: Array) -> Array:
    return np.asarray(record.reference(*operands, **_settings(params)))


# --- sizes ---------------------------------------------------------------------------------------


def _infer(
    record: NodeType, operands: Sequence[str], given: Sequence[Type], params: Params
) -> Sequence[Type]:
    types = [matrix(t) for t in given]
    whole = [record.takes_whole(name) for name in operands]
    columns = [t for t, w in zip(types, whole, strict=True) if not w]
    for i, (t, w) in enumerate(zip(types, whole, strict=True)):
        if w and t.has_samples:
            message = f"requires {operands[i]} whose columns are not samples, got {t}"
            raise TypeRuleError(message, operand=i, slug="shape-mismatch")
    cols = _common_columns(columns)
    if record.equal_rows and len({t.rows for t in map(_without_number, columns)} - {None}) > 1:
        got = " and ".join(map(str, columns))
        raise TypeRuleError(
            f"requires equally many rows, got {got}", operand=0, slug="shape-mismatch"
        )
    shapes = [_shape(t, w) for t, w in zip(types, whole, strict=True)]
    known = [s for s in shapes if s is not None]
    if len(known) < len(shapes):
        return [SCALAR if record.criterion else MatrixType(None, cols)]
    (result,) = _traced(record, known, params, DType.F32).result_types
    rows = _rows(record, result.shape({}))
    if record.criterion:
        return [SCALAR]
    image = columns[0].image if columns and columns[0].rows == rows else None
    return [MatrixType(rows, cols, image)]


def _common_columns(types: Sequence[MatrixType]) -> MatrixDim:
    """The columns of the node; an operand of one column goes with every other."""
    several = [t for t in types if t.cols not in (1, None)]
    for other in several[1:]:
        if other.cols != several[0].cols:
            raise TypeRuleError(
                f"requires operands with the same columns, or one, got {several[0]} and {other}",
                operand=types.index(other),
                slug="shape-mismatch",
            )
    if several:
        return several[0].cols
    return None if any(t.cols is None for t in types) else 1


def _shape(type: MatrixType, whole: bool) -> Shape | None:
    """What the function gets of an operand; None while that is not known."""
    if type.rows is None or (whole and type.cols is None):
        return None
    return (type.rows, type.cols) if whole and isinstance(type.cols, int) else (type.rows,)


def _rows(record: NodeType, shape: Shape) -> int:
    """The rows of a column that the function gives."""
    most = 0 if record.criterion else 1
    if len(shape) > most and shape != (1,):
        what = "one number" if record.criterion else "one column, (rows,),"
        message = f"requires {what} of its function for each column, got shape {shape}"
        raise TypeRuleError(message, slug="plug-in")
    return shape[0] if shape else 1


def _without_number(type: MatrixType) -> MatrixType:
    """`type`, unknown for a single number, which goes with columns of any rows."""
    return MatrixType(None, None) if type.size == (1, 1) else type


def _refine(
    record: NodeType, operands: Sequence[str], types: Sequence[MatrixType], _params: Params
) -> Sequence[MatrixType]:
    columns = [t for t, o in zip(types, operands, strict=True) if not record.takes_whole(o)]
    rows = next((t.rows for t in map(_without_number, columns) if t.rows is not None), None)
    return [
        t if record.takes_whole(name) else merged(t, MatrixType(rows, None))
        for t, name in zip(types, operands, strict=True)
    ]


# --- what it computes ----------------------------------------------------------------------------


def _traced(
    record: NodeType, shapes: Sequence[Shape], params: Params, dtype: DType
) -> TracedFunction:
    """The function for columns of these shapes."""
    settings = _settings(params)
    key = (tuple(shapes), tuple(map(repr, settings.values())), dtype)
    if key not in record._traces:
        record._traces[key] = _trace(record, shapes, settings, dtype)
    return record._traces[key]


def _trace(
    record: NodeType, shapes: Sequence[Shape], settings: Mapping[str, object], dtype: DType
) -> TracedFunction:
    function = ArrayFunction(partial(record.compute, **settings), DEFAULT_BACKEND, dtype.value)
    _, structure = flatten(tuple(shapes and [None] * len(shapes)))
    leaves = tuple(TensorType(shape, dtype) for shape in shapes)
    sizes = " and ".join("x".join(map(str, shape)) for shape in shapes)
    try:
        made = function.traced(Arguments(structure, leaves, dtype))
    except GraphcError as error:
        slug = error.diagnostics[0].slug
        slug = slug if slug == "shape-mismatch" else "plug-in"
        message = f"cannot be computed for columns of {sizes}: {described(error)}"
        raise TypeRuleError(message, slug=slug) from error
    except Exception as error:
        message = f"is broken: its function, traced for columns of {sizes}, raises"
        raise TypeRuleError(f"{message} {described(error)}", slug="plug-in") from error
    if len(made.places) != 1:
        raise TypeRuleError("requires one array of its function, got several", slug="plug-in")
    for held in made.held:
        if not isinstance(held, np.ndarray) or held.size > MAX_HELD:
            got = f"{held.size} numbers" if isinstance(held, np.ndarray) else "a traced value"
            message = f"requires a function that closes over arrays of at most {MAX_HELD} numbers"
            raise TypeRuleError(f"{message}, got {got}", slug="plug-in")
    return made


def _expand(
    record: NodeType,
    names: Sequence[str],
    b: IRBuilder,
    op: Operation,
    operands: Sequence[Value],
    dtype: DType,
) -> Value:
    """The function of all columns: what has one column is the same for each."""
    types = operand_types(op)
    shapes = [_shape(t, record.takes_whole(o)) for t, o in zip(types, names, strict=True)]
    made = _traced(record, [s for s in shapes if s is not None], node_params(op), dtype)
    function = _placed_at(made.function, b)
    values: dict[Value, Value] = {}
    many: set[Value] = set()
    for argument, x, type, name in zip(function.arguments, operands, types, names, strict=False):
        if record.takes_whole(name):
            values[argument] = x
        elif type.cols == 1:
            values[argument] = reshape(b, x, argument.tensor.dims)
        else:
            values[argument] = by_column(b, x, type)
            many.add(argument)
    values |= zip(function.arguments[len(names) :], _held(b, made, len(names)), strict=True)
    count = next((values[v].tensor.dims[0] for v in function.arguments if v in many), 1)
    (result,) = emit_batched(b, function, function.returned, values, many, count)
    rows = _rows(record, made.result_types[0].shape({}))
    result = convert(b, reshape(b, result, (count, rows)), dtype)
    if record.criterion:
        return reduce_sum(b, result, (0, 1))
    return from_columns(b, result, node_type(op))


def _placed_at(function: Function, b: IRBuilder) -> Function:
    """A copy whose operations are where the node is, for messages and profiles."""
    copy = clone_function(function)
    for op in walk(copy):
        op.location = b.location
    return copy


def _held(b: IRBuilder, made: TracedFunction, own: int) -> list[Value]:
    """The arrays that the function closes over, as constants."""
    values: list[Value] = []
    for array, argument in zip(made.held, made.function.arguments[own:], strict=True):
        assert isinstance(array, np.ndarray)
        params = ConstantParams(argument.tensor, tuple(array.ravel().tolist()))
        values.append(b.emit_one(CONSTANT, params=params))
    return values
