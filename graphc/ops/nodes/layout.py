"""How a node's matrix lies in memory, and the pieces that node rules share.

A node with one column per sample is a tensor [N, rows]: one sample contiguous, the book's columns.
Any other node is a tensor [rows, cols].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from graphc.ir.codegen import NodeLevel
from graphc.ir.core import (
    ExpandRule,
    Function,
    InferRule,
    IRBuilder,
    Level,
    NotDifferentiable,
    OpDef,
    Operation,
    Reference,
    RefineRule,
    Trait,
    Value,
)
from graphc.ir.dims import part_of
from graphc.ir.params import Params
from graphc.ir.types import (
    SAMPLES,
    Dim,
    DType,
    MatrixType,
    Samples,
    TensorType,
    Type,
    TypeRuleError,
)
from graphc.ops.movement import reshape, transpose
from graphc.ops.reduction import broadcast
from graphc.support.source import Location

TAGS = ("feature", "label", "criterion", "evaluation", "output", "multiseq")
"""The roles a node can be given, by tag or by special-node array (book 4.1.1.6)."""

RESULT_TAGS = ("output", "criterion", "evaluation")
"""The roles of nodes that somebody wants the value of."""

TAG_SPELLINGS: Mapping[str, str] = MappingProxyType(
    {
        "feature": "feature",
        "label": "label",
        "criteria": "criterion",
        "criterion": "criterion",
        "eval": "evaluation",  # and everything that starts so
        "evaluation": "evaluation",
        "output": "output",
        "multiseq": "multiseq",
    }
)
"""What users may write for each, in any case: the spellings of all versions of the toolkit."""


def tag_of(text: str) -> str | None:
    """The one of `TAGS` that a user's spelling means, None if it means none."""
    lower = text.lower()
    return TAG_SPELLINGS.get("eval" if lower.startswith("eval") else lower)


SCALAR = MatrixType(1, 1)

MAX_ROWS = 2**31 - 1
"""Most rows of a node; declared sizes have this limit too."""


class NodeParams(Params):
    """Base of every node's params; each subclass ends with this field."""

    tags: tuple[str, ...]


@dataclass(frozen=True)
class PlainNode(NodeParams):
    """For nodes without settings."""

    tags: tuple[str, ...] = ()


def node_params(op: Operation) -> NodeParams:
    return op.params_as(NodeParams)


def node_def(
    name: str,
    summary: str,
    operands: tuple[str, ...],
    *,
    infer: InferRule,
    params: type[Params] = PlainNode,
    expand: ExpandRule | None = None,
    expand_training: ExpandRule | None = None,
    draw: ExpandRule | None = None,
    expand_sequences: ExpandRule | None = None,
    gap_values: tuple[float | None, ...] = (),
    refine: RefineRule | None = None,
    reference: Reference | None = None,
    typed_reference: Reference | None = None,
    looks_ahead: bool = False,
    constraints: tuple[str, ...] = (),
    equation: str = "",
    source: str = "",
    ndl: tuple[str, ...] = (),
) -> OpDef:
    """The OpDef of a node; `name` without the `node.`. References take matrices rows x columns."""
    return OpDef(
        name=f"node.{name}",
        summary=summary,
        operands=operands,
        params=params,
        infer=infer,
        expand=expand,
        expand_training=expand_training,
        draw=draw,
        expand_sequences=expand_sequences,
        gap_values=gap_values,
        refine=refine,
        reference=reference,
        typed_reference=typed_reference,
        codegen=NodeLevel(),
        vjp=NotDifferentiable.NONE,
        traits=frozenset({Trait.PURE, Trait.LOOKS_AHEAD} if looks_ahead else {Trait.PURE}),
        level=Level.NODE,
        constraints=constraints,
        equation=equation,
        source=source,
        ndl=ndl,
    )


def find_node(graph: Function, name: str) -> Operation | None:
    """The node of that name; NDL names do not distinguish case, an exact match wins."""
    lower = name.lower()
    near: Operation | None = None
    for op in graph.block:
        if op.result.name == name:
            return op
        if (op.result.name or "").lower() == lower:
            near = op
    return near


def place_of(op: Operation) -> Location:
    """Where a node comes from, for the operations that compute it."""
    return op.location.within(op.result.name or "")


def display_name(opdef: OpDef) -> str:
    """The name as NDL writes it: `node.cross_entropy` is CrossEntropy."""
    if opdef.ndl:
        return opdef.ndl[0]
    return "".join(w.capitalize() for w in opdef.name.removeprefix("node.").split("_"))


def matrix(type: Type) -> MatrixType:
    """`type` as a node's type."""
    if not isinstance(type, MatrixType):
        raise TypeRuleError(f"requires nodes, got {type}")
    return type


def tensor_type(type: MatrixType, samples: Dim, dtype: DType) -> TensorType:
    """The tensor that holds a node of this (known) type; `samples` are all its columns, or those
    that they are so many times as many as."""
    assert type.rows is not None and type.cols is not None
    if isinstance(type.cols, Samples):
        return TensorType((columns_dim(type.cols, samples), type.rows), dtype)
    return TensorType((type.rows, type.cols), dtype)


def columns_dim(cols: Samples, samples: Dim) -> Dim:
    """The number of columns of a node, where there are so many samples."""
    if cols == SAMPLES:
        return samples
    if isinstance(samples, int):
        return samples * cols.times // cols.each
    name = f"{samples.name}{cols.times}" + (f"P{cols.each}" if cols.each != 1 else "")
    return part_of(name, samples, cols.each, cols.times)


def row_axis(type: MatrixType) -> int:
    """The tensor axis that runs over the node's rows."""
    return 1 if type.has_samples else 0


def node_type(op: Operation) -> MatrixType:
    """The type of a node's value."""
    return matrix(op.result.type)


def operand_types(op: Operation) -> list[MatrixType]:
    return [matrix(v.type) for v in op.operands]


def unary(types: Sequence[Type], _params: Params) -> Sequence[Type]:
    """One node; a node of the same size."""
    return [matrix(types[0])]


def equal_sizes(what: str) -> InferRule:
    """Two nodes of equal size; `what` names them in the message, the result has that size."""

    def infer(types: Sequence[Type], _params: Params) -> Sequence[Type]:
        a, b = matrix(types[0]), matrix(types[1])
        require_equal_sizes(a, b, what)
        require_equal_images(a, b, what)
        return [merged(a, b)]

    return infer


def require_no_samples(type: MatrixType, what: str, operand: int = 0) -> None:
    """`what` names the operand in the message: its columns may not be samples."""
    if type.has_samples:
        raise TypeRuleError(
            f"requires {what} whose columns are not samples, got {type}",
            operand=operand,
            slug="shape-mismatch",
        )


def counted_rows(a: int | None, b: int | None) -> int | None:
    """a·b rows, None if either is unknown."""
    if a is None or b is None:
        return None
    if a * b > MAX_ROWS:
        raise TypeRuleError(f"requires a result of at most {MAX_ROWS} rows, got {a * b}")
    return a * b


def require_equal_sizes(a: MatrixType, b: MatrixType, what: str) -> None:
    rows = None in (a.rows, b.rows) or a.rows == b.rows
    cols = None in (a.cols, b.cols) or a.cols == b.cols
    if not (rows and cols):
        raise TypeRuleError(
            f"requires {what} of one size, got {a} and {b}", operand=1, slug="shape-mismatch"
        )


def require_equal_images(a: MatrixType, b: MatrixType, what: str) -> None:
    """Columns of one length that are images have to be images of one shape."""
    if a.rows == b.rows and None not in (a.image, b.image) and a.image != b.image:
        raise TypeRuleError(
            f"requires {what} that are images of one shape, got {a} and {b}; Reshape without image "
            "sizes makes plain columns of one",
            operand=1,
            slug="shape-mismatch",
        )


def merged(a: MatrixType, b: MatrixType) -> MatrixType:
    """What is known of a size, and of what its columns are images of, from two that agree."""
    rows = b.rows if a.rows is None else a.rows
    images = [t.image for t in (a, b) if t.image is not None and t.image.rows == rows]
    return MatrixType(rows, b.cols if a.cols is None else a.cols, images[0] if images else None)


def refine_equal(types: Sequence[MatrixType], _params: Params) -> Sequence[MatrixType]:
    """Each operand has the size of the other."""
    both = merged(types[0], types[1])
    return [merged(t, both) for t in types]


def spread(
    b: IRBuilder, x: Value, source: MatrixType, target: MatrixType, dims: Sequence[Dim]
) -> Value:
    """`x`, a node of size `source`, repeated to the size `target` that its tensor `dims` has.

    A row vector is repeated over the rows; a column vector whose length divides the rows is tiled
    downwards and repeated over the columns; fewer columns are repeated consecutively.
    """
    if source.size == target.size:
        return x
    assert isinstance(source.rows, int) and isinstance(target.rows, int)
    assert source.cols is not None
    count = target.rows // source.rows
    if target.has_samples:
        if not source.has_samples:
            x = reshape(b, x, (1, source.rows))
        if source.rows in (1, target.rows):
            return broadcast(b, x, dims)
        folded = (dims[0], count, source.rows)
        return reshape(b, broadcast(b, reshape(b, x, (1, 1, source.rows)), folded), dims)
    assert isinstance(source.cols, int) and isinstance(target.cols, int)
    if source.rows not in (1, target.rows):
        folded = (count, source.rows, target.cols)
        return reshape(b, broadcast(b, reshape(b, x, (1, source.rows, 1)), folded), dims)
    if source.cols not in (1, target.cols):
        folded = (target.rows, source.cols, target.cols // source.cols)
        return reshape(b, broadcast(b, reshape(b, x, (source.rows, source.cols, 1)), folded), dims)
    return broadcast(b, x, dims)


def by_column(b: IRBuilder, x: Value, type: MatrixType) -> Value:
    """A node as [columns, rows], whether its columns are samples or not."""
    return x if type.has_samples else transpose(b, x, (1, 0))


def from_columns(b: IRBuilder, x: Value, type: MatrixType) -> Value:
    """A tensor [columns, rows] as it lies in memory for a node of this type."""
    return x if type.has_samples else transpose(b, x, (1, 0))


def per_sample(rows: int | None) -> MatrixType:
    return MatrixType(rows, SAMPLES)
