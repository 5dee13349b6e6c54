"""A planned function as the text of a Python function that needs numpy only.

    def forward(N, arena, features, W, z):
        h = np.ndarray((N, 10), np.float32, arena, 0)
        with np.errstate(all="ignore"):
            np.matmul(features, W.T, out=h)
            ...

Buffers are views into one array by the offsets in `at`; every call writes with `out=`. Kernels are
written by `kernel_text.py`, rearrangements by `moves.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from graphc.backends.numpy.helpers import HELPERS
from graphc.backends.numpy.kernel_text import Buffer, KernelText, shape_text
from graphc.backends.numpy.moves import MoveText
from graphc.backends.numpy.names import Names
from graphc.backends.numpy.text import Constants, Lines, dtype_text
from graphc.backends.numpy.update_rows import UpdateText
from graphc.backends.walk import Walker
from graphc.ir.codegen import (
    ChannelProduct,
    Collective,
    Contraction,
    Copy,
    Folding,
    FusedProduct,
    IndexedSum,
    Kernel,
    Role,
    RowUpdate,
    Selection,
    StridedCopy,
    WindowProduct,
    WindowReduction,
)
from graphc.ir.core import Function, Operation, Value
from graphc.ir.placement import Address
from graphc.ir.types import Dim, Symbol
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.convolution import conv_shape
from graphc.ops.depthwise import depthwise_shape
from graphc.ops.pooling import PoolParams, pool_shape
from graphc.ops.update_rows import row_update
from graphc.support.adjacent import adjacent
from graphc.support.diagnostics import InternalError

Dims = tuple[Dim, ...]

ALL_REDUCE = "all_reduce"
"""The parameter that puts sums over members into an array, of functions that have such sums."""
RESERVED = {
    *HELPERS,
    *("np", "argparse", "base64", "json", "sys", "arena", "start", "stop", "new_arena"),
    *(ALL_REDUCE, "run", "info", "main", "checked", "read", "run_blocks", "write"),
    *("array", "arrays", "d", "dim", "dtype", "name", "outputs", "shape", "sizes"),  # in `run`
    *("ARENA_BYTES", "BOUNDS", "INFO", "INPUTS", "OUTPUTS", "PARAMETERS"),
    *("OSError", "ValueError", "float", "isinstance", "iter", "len"),
    *("list", "map", "max", "min", "next", "open", "range", "str", "tuple", "zip"),
}
"""Names that emitted modules use for themselves, Python's own among them.

Of Python's only what is used: an input called `input` or `sum` keeps its name in `run`, and the
text is the same under every version of Python.
"""


@dataclass(frozen=True)
class Emitted:
    """The text of a function and what it needs around it.

    name         of the function; its parameters are the dims, the arena, arguments, fresh results
    helpers      names out of `HELPERS` that it calls
    constants    lines that define the constants it reads
    arena_bytes  size of the scratch array, temporaries of kernels included
    """

    name: str
    text: str
    helpers: tuple[str, ...]
    constants: tuple[str, ...]
    arena_bytes: int


def emit_function(function: Function, dims: Sequence[str], name: str) -> Emitted:
    """The Python text of `function`. `dims` are the module's dims in signature order."""
    return _FunctionText(function, dims, name).emit()


class _FunctionText(Walker[Buffer, str]):
    def __init__(self, function: Function, dims: Sequence[str], name: str) -> None:
        if function.arena is None:
            raise InternalError(f"@{function.name} has no memory plan")
        super().__init__({})
        self._function = function
        self._names = Names(RESERVED)
        self._name = self._names.fresh(name)
        self._dims = {dim: self._names.fresh(dim) for dim in dims}
        self._constants = Constants(self._names)
        self._helpers: dict[str, None] = {}
        self._result_names = [self._names.fresh(r.name) for r in function.results]
        self._lines = Lines()
        self._arena = _align(function.arena)
        self._scratch = 0
        self._slots = 0

    def emit(self) -> Emitted:
        function = self._function
        for index, argument in enumerate(function.arguments):
            name = self._names.fresh(argument.name or f"argument{index}")
            self.where[argument] = Buffer(name, "argument", index, argument.tensor)
        fresh = [
            name
            for name, r in zip(self._result_names, function.results, strict=True)
            if r.updates is None
        ]
        arguments = [self.where[a].name for a in function.arguments]
        is_shared = any(isinstance(op.opdef.codegen, Collective) for op in function.block)
        adder = [ALL_REDUCE] * is_shared
        parameters = ", ".join([*self._dims.values(), "arena", *adder, *arguments, *fresh])
        body = self._lines
        body.add(f"def {self._name}({parameters}):")
        body.indent()
        self._docstring()
        body.add('with np.errstate(all="ignore"):')
        body.indent()
        before = len(body)
        for op in function.block:
            self.operation(op)
        if len(body) == before:
            body.add("pass")
        return Emitted(
            self._name,
            body.text(),
            tuple(h for h in HELPERS if h in self._helpers),
            tuple(self._constants.lines),
            self._arena + self._scratch,
        )

    def _docstring(self) -> None:
        given = [f"{self.where[a].name} {self._type(a)}" for a in self._function.arguments]
        made = [
            f"{self.where[a].name} (in place)" if a is not None else f"{name} {self._type(v)}"
            for name, r, v in zip(
                self._result_names, self._function.results, self._function.returned, strict=True
            )
            for a in [self._function.argument(r.updates) if r.updates is not None else None]
        ]
        self._lines.add('"""Writes the results into the arrays given; `arena` is scratch memory.')
        self._lines.blank()
        for label, items in (("reads", given), ("writes", made)):
            for index, item in enumerate(items):
                self._lines.add(f"{label if index == 0 else '':<8}{item}")
        self._lines.add('"""')

    def _type(self, value: Value) -> str:
        t = value.tensor
        return f"{t.dtype}[{', '.join(map(self._extent, t.dims))}]"

    def _extent(self, dim: Dim) -> str:
        return self._dims[dim.name] if isinstance(dim, Symbol) else str(dim)

    def compute(self, op: Operation) -> None:
        match op.opdef.codegen:
            case Kernel():
                self._kernel(op, [self.where[v] for v in op.operands], self._arena)
            case FusedProduct():
                self._fused_product(op)
            case RowUpdate():
                self._update_rows(op)
            case Contraction():
                self._multiply(op, self._name_of(op.result))
            case WindowProduct(role):
                self._convolution(op, role)
            case ChannelProduct(role):
                self._depthwise(op, role)
            case WindowReduction(folding):
                self._pooling(op, folding)
            case IndexedSum(subscripts):
                self._indexed(op, subscripts(op.params))
            case Selection():
                self._helpers["top_indices"] = None
                out = self._name_of(op.result)
                self._lines.add(f"top_indices({self._name_of(op.operands[0])}, {out})")
            case StridedCopy() as how:
                out = self._name_of(op.result)
                operands = [(self._name_of(v), v.tensor) for v in op.operands]
                text = MoveText(self._extent, self._names, self._constants, self._lines)
                text.write(how, op.params, operands, (out, op.result.tensor))
            case Copy():
                self.copy(self.where[op.operands[0]], op.result)
            case Collective():
                self._all_reduce(op)
            case other:
                raise InternalError(f"`{op.opdef.name}` ({other}) is not at kernel level")

    def _all_reduce(self, op: Operation) -> None:
        """What does not lie side by side yet is copied there; then all of it is added."""
        for operand, result in zip(op.operands, op.results, strict=True):
            source, target = self.where[operand], self.where[result]
            if (source.kind, source.index) != (target.kind, target.index):
                self.copy(source, result)
        dtype, first = op.results[0].tensor.dtype, op.placement[0].index
        count = adjacent(v.tensor.bound_bytes for v in op.results)[-1] // dtype.itemsize
        whole = f"np.ndarray({count}, {dtype_text(dtype)}, arena, {first})"
        self._lines.add(f"{ALL_REDUCE}({whole})")

    def _update_rows(self, op: Operation) -> None:
        parts = row_update(op)
        for value, old in zip(parts.updated, parts.tables, strict=True):
            if not self.where[value].overlaps(self.where[old]):
                self.copy(self.where[old], value)
        updated = [self._name_of(v) for v in parts.updated]
        text = UpdateText(self._names, self._constants, self._lines)
        numbers = [self._name_of(v) for v in parts.numbers]
        name = self._name_of
        lookups = [(name(o.x), name(o.y), name(o.index)) for o in parts.lookups]
        text.write(parts, updated, numbers, lookups)
        self._helpers.update(text.helpers)

    def _name_of(self, value: Value) -> str:
        return self.where[value].name

    def view(self, op: Operation) -> Buffer:
        source = self.where[op.operands[0]]
        name = self._reshaped(source.name, op.result, op.result.name or f"{source.name}_view")
        return replace(source, name=name)

    def _reshaped(self, array: str, value: Value, wish: str) -> str:
        """A name for the array in the shape of `value`."""
        return self._named(wish, f"{array}.reshape({shape_text(value.tensor.dims, self._extent)})")

    def _named(self, wish: str, text: str) -> str:
        name = self._names.fresh(wish)
        self._lines.add(f"{name} = {text}")
        return name

    def count(self, dim: Dim) -> str:
        return self._extent(dim)

    def last(self, count: str, *, backward: bool) -> str:
        return "0" if backward else f"{count} - 1"

    def shifted(self, step: str, by: int) -> str:
        return f"{step} {'-' if by < 0 else '+'} {abs(by)}"

    def steps(self, count: str, body: Callable[[str, str], None], *, backward: bool) -> None:
        t = self._names.fresh("t")
        numbers = f"{count} - 1, -1, -1" if backward else count
        self._lines.add(f"for {t} in range({numbers}):")
        self._lines.indent()
        before = len(self._lines)
        body(t, f"{count} - 1 - {t}" if backward else t)
        if len(self._lines) == before:
            self._lines.add("pass")
        self._lines.dedent()

    def element(self, value: Value, outer: Value, step: str, *, is_kept: bool = False) -> Buffer:
        place = self.where[outer]
        name = self._named(value.name or "v1", f"{place.name}[{step}, ...]")
        return self._slot(name, value) if is_kept else replace(place, name=name)

    def kept(self, value: Value, stack: Value, step: str, number: str, otherwise: Buffer) -> Buffer:
        some = f"{self._name_of(stack)}[{step}, ...]"
        text = f"{some} if {number} > 0 else {otherwise.name}"
        return self._slot(self._named(value.name or "v1", text), value)

    def _slot(self, name: str, value: Value) -> Buffer:
        """An element of a stack, by its name: no two that a step uses overlap."""
        self._slots += 1
        return Buffer(name, "stack", self._slots, value.tensor)

    def copy(self, source: Buffer, target: Value) -> None:
        self._lines.add(f"np.copyto({self._name_of(target)}, {source.name})")

    def _fused_product(self, op: Operation) -> None:
        """The whole product behind the arena, then the body as a kernel."""
        type = op.regions[0].block.arguments[0].tensor
        name = self._names.fresh("product")
        shape = shape_text(type.dims, self._extent)
        self._lines.add(
            f"{name} = np.ndarray({shape}, {dtype_text(type.dtype)}, arena, {self._arena})"
        )
        self._multiply(op, name)
        inputs = [Buffer(name, "arena", self._arena, type)]
        inputs += [self.where[v] for v in op.operands[2:]]
        self._kernel(op, inputs, self._arena + _align(type.bound_bytes))

    def _kernel(self, op: Operation, inputs: Sequence[Buffer], scratch: int) -> None:
        """The kernel of `op` on these arrays; scratch memory is free from byte `scratch` on."""
        outputs = [self.where[v] for v in op.results]
        text = KernelText(
            op, inputs, outputs, self._extent, self._names, self._constants, self._lines
        )
        used = text.write(scratch=scratch)
        self._helpers.update(dict.fromkeys(text.helpers))
        self._scratch = max(self._scratch, scratch - self._arena + used)

    def _multiply(self, op: Operation, out: str) -> None:
        """The product of the first two operands into the array `out`."""
        params = op.params_as(MatmulParams)
        ta, tb = params.transpose_a, params.transpose_b
        x, y = op.operands[:2]
        roles = groups(params, x.tensor, y.tensor)
        rows, inner, cols = roles.rows, roles.inner, roles.cols
        left, right = (inner, rows) if ta else (rows, inner), (cols, inner) if tb else (inner, cols)
        a = self._as_matrices(self._name_of(x), roles.batch, *left)
        b = self._as_matrices(self._name_of(y), roles.batch, *right)
        out = self._as_matrices(out, roles.batch, rows, cols)
        exchanged = ".swapaxes(1, 2)" if roles.batch else ".T"
        a, b = a + exchanged * ta, b + exchanged * tb
        self._lines.add(f"np.matmul({a}, {b}, out={out})")

    def _convolution(self, op: Operation, role: Role) -> None:
        """A call of the helper, with everything as [images, columns, rows, channels]."""
        x, y = (v.tensor for v in op.operands)
        shape = conv_shape(op.params, (x, y))
        missing = (1,) * (2 - len(shape.sizes))
        channels, features = math.prod(shape.channels), math.prod(shape.features)
        inner = [e - a - z for e, a, z in zip(shape.extents, shape.low, shape.high, strict=True)]
        images, places = (
            f"{self._count(shape.lead)}, {', '.join(map(str, (*missing, *walked, last)))}"
            for walked, last in ((inner, channels), (shape.output_positions, features))
        )
        sizes = (*missing, *shape.sizes)
        kernel = f"{sizes[0]}, {sizes[1]}, {channels}, {features}"
        if role == "data_grad":
            kernel = f"{sizes[0]}, {features}, {sizes[1]}, {channels}"
        dims = {
            "result": (images, kernel, places),
            "data_grad": (places, kernel, images),
            "weight_grad": (images, places, kernel),
        }[role]
        (out,) = map(self._name_of, op.results)
        names = [*map(self._name_of, op.operands), out]
        if shape.block:
            names[1] += _without_blocks(role, sizes, channels, features, shape.block)
        arrays = [f"{name}.reshape({text})" for name, text in zip(names, dims, strict=True)]
        arguments = [*arrays, *map(str, (*missing, *shape.strides))]
        if shape.is_padded:
            plane = ", ".join(map(str, (*missing, *shape.extents, channels)))
            arguments += [f"np.empty(({plane}), {dtype_text(x.dtype)})"]
            arguments += map(str, (*(0 for _ in missing), *shape.low))
        helper = f"conv_{role}"
        self._helpers[helper] = None
        if role == "weight_grad":
            self._helpers["pile"] = None
        self._lines.add(f"{helper}({', '.join(arguments)})")

    def _depthwise(self, op: Operation, role: Role) -> None:
        """A call of the helper, with everything as [images, rows, columns, channels]."""
        shape = depthwise_shape(op.params, [v.tensor for v in op.operands])
        missing = 2 - len(shape.sizes)
        ones = (1,) * missing
        images, results = (
            f"{self._count(shape.lead)}, {', '.join(map(str, (*ones, *walked, shape.channels)))}"
            for walked in (shape.extents, shape.places)
        )
        weights = ", ".join(map(str, (*ones, *shape.weights)))
        x, w, y = {
            "result": (*op.operands, op.result),
            "data_grad": (op.result, op.operands[1], op.operands[0]),
            "weight_grad": (op.operands[0], op.result, op.operands[1]),
        }[role]
        arrays = [
            f"{self._name_of(value)}.reshape({dims})"
            for value, dims in ((x, images), (w, weights), (y, results))
        ]
        walk = (
            f"({first}, {second})"
            for numbers, of_one in ((shape.strides, 1), (shape.low, 0), (shape.dilations, 1))
            for first, second in [((of_one,) * missing + numbers)]
        )
        self._helpers["depthwise"] = None
        self._lines.add(f'depthwise("{role}", {", ".join(arrays)}, {", ".join(walk)})')

    def _pooling(self, op: Operation, folding: Folding) -> None:
        """A call of the helper, with everything as [images, columns, rows, channels]."""
        shape = pool_shape(op.params, [v.tensor for v in op.operands])
        missing = (1,) * (2 - len(shape.sizes))
        channels = math.prod(shape.channels)
        wide, narrow = (
            f"{self._count(shape.lead)}, {', '.join(map(str, (*missing, *walked, channels)))}"
            for walked in (shape.extents, shape.output_positions)
        )
        kinds = {
            "fold": (wide, narrow),
            "max_grad": (wide, narrow, narrow, wide),
            "sum_grad": (narrow, wide),
        }[folding]
        out = self._name_of(op.result)
        names = [*map(self._name_of, op.operands), out]
        arrays = [f"{name}.reshape({text})" for name, text in zip(names, kinds, strict=True)]
        if isinstance(op.params, PoolParams):
            arrays.insert(0, f"np.{op.params.scalar_op}")
        helper = f"pool_{folding}"
        self._helpers[helper] = None
        walk = ", ".join(map(str, (*missing, *shape.sizes, *missing, *shape.strides)))
        self._lines.add(f"{helper}({', '.join(arrays)}, {walk})")

    def _indexed(self, op: Operation, texts: tuple[str, ...]) -> None:
        *operands, index = map(self._name_of, op.operands)
        out = self._name_of(op.result)
        listed = f"({', '.join(operands)}{',' * (len(operands) == 1)})"
        self._helpers["indexed_sum"] = None
        self._lines.add(f'indexed_sum("{" ".join(texts)}", {listed}, {index}, {out})')

    def _as_matrices(self, name: str, batch: Dims, rows: Dims, cols: Dims) -> str:
        """The array as a matrix, or as one after the other where there is a batch."""
        parts = [rows, cols] if not batch else [batch, rows, cols]
        if all(len(part) == 1 for part in parts):
            return name
        return f"{name}.reshape({', '.join(self._count(part) for part in parts)})"

    def _count(self, dims: Dims) -> str:
        """How many elements these dims have together, as text."""
        number = math.prod(d for d in dims if isinstance(d, int))
        symbols = [self._extent(d) for d in dims if isinstance(d, Symbol)]
        return " * ".join(symbols if symbols and number == 1 else [str(number), *symbols])

    def placed(self, value: Value, place: Address) -> Buffer:
        t = value.tensor
        if place.kind == "arena":
            shape = shape_text(t.dims, self._extent)
            text = f"np.ndarray({shape}, {dtype_text(t.dtype)}, arena, {place.index})"
            return Buffer(self._named(value.name or "v1", text), "arena", place.index, t)
        array = self.in_step(place) or self._array_at(place)
        if array.type.dims == t.dims:
            return array
        # The result is a reshape of what is written into it.
        name = self._reshaped(array.name, value, value.name or f"{array.name}_view")
        return Buffer(name, array.kind, array.index, t)

    def _array_at(self, at: Address) -> Buffer:
        """The result or argument that a value is placed in."""
        function = self._function
        if at.kind == "argument":
            return self.where[function.arguments[at.index]]
        type = function.returned[at.index].tensor
        return Buffer(self._result_names[at.index], "result", at.index, type)


def _without_blocks(
    role: Role, sizes: Sequence[int], channels: int, features: int, block: int
) -> str:
    """What makes weights of whole rows out of those in blocks."""
    if role == "result":
        rows = sizes[0] * sizes[1] * channels
        return f".reshape({features // block}, {rows}, {block}).transpose(1, 0, 2)"
    blocks = channels // block
    dims = f"{sizes[0]}, {sizes[1]}, {blocks}, {features}, {block}"
    return f".reshape({dims}).transpose(0, 3, 1, 2, 4)"


def _align(size: int) -> int:
    return -(-size // 64) * 64
