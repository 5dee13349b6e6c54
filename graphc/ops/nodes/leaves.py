"""Nodes without inputs: data, parameters, constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphc.ir.core import Array, IRBuilder, Operation, Value
from graphc.ir.types import (
    SAMPLES,
    DType,
    Image,
    MatrixType,
    TensorType,
    Type,
    TypeRuleError,
    fixed_size,
)
from graphc.ops.constant import constant
from graphc.ops.nodes.layout import MAX_ROWS, NodeParams, node_def, node_type, per_sample

Init = Literal["uniform", "gaussian", "fixed_value", "from_file"]


@dataclass(frozen=True)
class InputParams(NodeParams):
    """`rows` numbers a sample; or an image, `rows` 0: then they follow from its sizes."""

    rows: int = 0
    width: int = 0
    height: int = 0
    channels: int = 0
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParameterParams(NodeParams):
    """`rows` or `cols` 0: taken from the node it meets (`infer-shapes` writes the size here).

    Or an image, `rows` 0: then its one column has the rows that follow from the image's sizes.
    """

    rows: int = 0
    cols: int = 1
    width: int = 0
    height: int = 0
    channels: int = 0
    init: Init = "uniform"
    init_value_scale: float = 1.0
    value: float = 0.0
    init_from_file_path: str = ""
    need_gradient: bool = True
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConstantParams(NodeParams):
    value: float
    rows: int = 1
    cols: int = 1
    tags: tuple[str, ...] = ()


def _require_size(name: str, value: int, least: int) -> None:
    if value < least or value > 2**31 - 1:
        raise TypeRuleError(f"requires {name} from {least} to 2147483647, got {value}")


def _infer_input(_types: Sequence[Type], params: InputParams) -> Sequence[Type]:
    return [input_type(params)]


def input_type(params: InputParams) -> MatrixType:
    """Columns of `rows` numbers, or of images."""
    image = _declared_image(params)
    if image is None:
        _require_size("rows", params.rows, 1)
        return per_sample(params.rows)
    return MatrixType(image.rows, SAMPLES, image)


def _declared_image(params: InputParams | ParameterParams) -> Image | None:
    """What the sizes say that a column is an image of."""
    if not (params.width or params.height or params.channels):
        return None
    for name in ("width", "height", "channels"):
        _require_size(name, getattr(params, name), 1)
    image = Image(params.width, params.height, params.channels)
    if image.rows > MAX_ROWS:
        raise TypeRuleError(f"requires an image of at most {MAX_ROWS} rows, got {image}")
    if params.rows not in (0, image.rows):
        raise TypeRuleError(f"requires the {image.rows} rows of {image}, got {params.rows}")
    return image


def _infer_parameter(_types: Sequence[Type], params: ParameterParams) -> Sequence[Type]:
    return [parameter_type(params)]


def parameter_type(params: ParameterParams) -> MatrixType:
    """The size that a parameter declares, and what its column is an image of."""
    _require_size("rows", params.rows, 0)
    _require_size("cols", params.cols, 0)
    image = _declared_image(params)
    if image is None:
        return MatrixType(params.rows or None, params.cols or None)
    if params.cols != 1:
        raise TypeRuleError(f"requires one column for an image, got {params.cols}")
    return MatrixType(image.rows, 1, image)


def parameter_shape(op: Operation) -> tuple[int, int]:
    """Rows and columns of a parameter's value, once they are known."""
    type = node_type(op)
    return fixed_size(type.rows), fixed_size(type.cols)


def _infer_constant(_types: Sequence[Type], params: ConstantParams) -> Sequence[Type]:
    _require_size("rows", params.rows, 1)
    _require_size("cols", params.cols, 1)
    return [MatrixType(params.rows, params.cols)]


def _expand_constant(
    b: IRBuilder, op: Operation, _operands: Sequence[Value], dtype: DType
) -> Value:
    params = op.params_as(ConstantParams)
    return constant(b, params.value, TensorType((params.rows, params.cols), dtype))


def _constant_reference(params: ConstantParams) -> Array:
    return np.full((params.rows, params.cols), params.value)


INPUT = node_def(
    "input",
    "data given at every call, one column per sample, which may be an image",
    (),
    params=InputParams,
    infer=_infer_input,
    source="book 4.1.1.2; images: book 4.1.4.2",
)
SPARSE_INPUT = node_def(
    "sparse_input",
    "data given at every call of which most numbers are zero; products with it look up rows",
    (),
    params=InputParams,
    infer=_infer_input,
    source="toolkit, beyond the book",
)
PARAMETER = node_def(
    "parameter",
    "a matrix that training changes",
    (),
    params=ParameterParams,
    infer=_infer_parameter,
    source="book 4.1.1.3; initial values: book 4.1.4",
)
CONSTANT = node_def(
    "constant",
    "a matrix with one value everywhere",
    (),
    params=ConstantParams,
    infer=_infer_constant,
    reference=_constant_reference,
    expand=_expand_constant,
    source="book 4.1.4",
)

OPS = (INPUT, SPARSE_INPUT, PARAMETER, CONSTANT)
