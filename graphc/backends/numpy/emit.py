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
from collections.abc import Sequence
from dataclasses import dataclass

from graphc.backends.numpy.kernel_text import KernelText, Place, shape_text
from graphc.backends.numpy.moves import MoveText
from graphc.backends.numpy.names import Names
from graphc.backends.numpy.scalars import HELPERS
from graphc.backends.numpy.text import Constants, Lines, dtype_text
from graphc.backends.numpy.update_rows import UpdateText
from graphc.ir.codegen import (
    Contraction,
    Copy,
    Folding,
    IndexedSum,
    Rearrangement,
    Role,
    Selection,
    Structured,
    View,
    WindowProduct,
    WindowReduction,
)
from graphc.ir.core import Function, Operation, Trait, Value
from graphc.ir.placement import Place as PlaceAt
from graphc.ir.types import Dim, Symbol, TensorType
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.convolution import conv_shape
from graphc.ops.epilogue import GEMM_FUSED
from graphc.ops.loop import LOOP, Loop, loop_parts
from graphc.ops.pooling import PoolParams, pool_shape
from graphc.ops.update_rows import UPDATE_ROWS, row_update
from graphc.support.diagnostics import InternalError

Dims = tuple[Dim, ...]

RESERVED = {
    *HELPERS,
    *("np", "argparse", "base64", "json", "sys", "arena", "start", "stop", "new_arena"),
    *("run", "info", "main", "checked", "read", "run_blocks", "write"),
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


@dataclass(frozen=True)
class _Frame:
    """Where the results of a loop are in the step that is being written."""

    carried: list[Place]
    stacks: list[Place]


class _FunctionText:
    def __init__(self, function: Function, dims: Sequence[str], name: str) -> None:
        if function.arena is None:
            raise InternalError(f"@{function.name} has no memory plan")
        self._function = function
        self._names = Names(RESERVED)
        self._name = self._names.fresh(name)
        self._dims = {dim: self._names.fresh(dim) for dim in dims}
        self._constants = Constants(self._names)
        self._helpers: dict[str, None] = {}
        self._places: dict[Value, Place] = {}
        self._result_names = [self._names.fresh(r.name) for r in function.results]
        self._lines = Lines()
        self._arena = _align(function.arena)
        self._scratch = 0
        self._frames: list[_Frame] = []
        self._stack_count = 0

    def emit(self) -> Emitted:
        function = self._function
        for index, argument in enumerate(function.arguments):
            name = self._names.fresh(argument.name or f"argument{index}")
            self._places[argument] = Place(name, "argument", index, _tensor(argument))
        fresh = [
            name
            for name, r in zip(self._result_names, function.results, strict=True)
            if r.updates is None
        ]
        arguments = [self._places[a].name for a in function.arguments]
        parameters = ", ".join([*self._dims.values(), "arena", *arguments, *fresh])
        body = self._lines
        body.add(f"def {self._name}({parameters}):")
        body.indent()
        self._docstring()
        body.add('with np.errstate(all="ignore"):')
        body.indent()
        before = len(body)
        for op in function.block:
            self._operation(op)
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
        given = [f"{self._places[a].name} {self._type(a)}" for a in self._function.arguments]
        made = [
            f"{self._places[a].name} (in place)" if a is not None else f"{name} {self._type(v)}"
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
        t = _tensor(value)
        return f"{t.dtype}[{', '.join(map(self._extent, t.dims))}]"

    def _extent(self, dim: Dim) -> str:
        return self._dims[dim.name] if isinstance(dim, Symbol) else str(dim)

    def _operation(self, op: Operation) -> None:
        if op.opdef.has(Trait.TERMINATOR):
            return
        match op.opdef.codegen:
            case View():
                self._view(op)
            case Structured():
                self._structured(op)
            case Contraction():
                self._product(op)
            case WindowProduct(role):
                self._convolution(op, role)
            case WindowReduction(folding):
                self._pooling(op, folding)
            case IndexedSum(subscripts):
                self._indexed(op, subscripts(op.params))
            case Selection():
                self._helpers["top_indices"] = None
                (out,) = self._targets(op)
                self._lines.add(f"top_indices({self._name_of(op.operands[0])}, {out})")
            case Rearrangement() as how:
                (out,) = self._targets(op)
                operands = [(self._name_of(v), _tensor(v)) for v in op.operands]
                text = MoveText(self._extent, self._names, self._constants, self._lines)
                text.write(how, op.params, operands, (out, _tensor(op.result)))
            case Copy():
                (out,) = self._targets(op)
                self._lines.add(f"np.copyto({out}, {self._name_of(op.operands[0])})")
            case other:
                raise InternalError(f"`{op.opdef.name}` ({other}) is not at kernel level")

    def _update_rows(self, op: Operation) -> None:
        parts = row_update(op)
        updated = self._targets(op)[: len(parts.tables)]
        for value, old, name in zip(parts.updated, parts.tables, updated, strict=True):
            if not self._places[value].overlaps(self._places[old]):
                self._lines.add(f"np.copyto({name}, {self._name_of(old)})")
        text = UpdateText(self._names, self._constants, self._lines)
        numbers = [self._name_of(v) for v in parts.numbers]
        name = self._name_of
        lookups = [(name(o.x), name(o.y), name(o.index)) for o in parts.lookups]
        text.write(parts, updated, numbers, lookups)
        self._helpers.update(text.helpers)

    def _name_of(self, value: Value) -> str:
        return self._places[value].name

    def _view(self, op: Operation) -> None:
        source = self._places[op.operands[0]]
        wish = op.result.name or f"{source.name}_view"
        name = self._names.fresh(wish)
        shape = shape_text(_tensor(op.result).dims, self._extent)
        self._lines.add(f"{name} = {source.name}.reshape({shape})")
        self._places[op.result] = Place(name, source.kind, source.index, source.type)

    def _loop(self, op: Operation) -> None:
        parts = loop_parts(op)
        history = parts.params.history
        finals = self._targets(op)[: len(history)]
        for stack, final, initial in zip(history, finals, parts.initial, strict=True):
            if stack < 0:
                self._lines.add(f"np.copyto({final}, {self._name_of(initial)})")
        backward, count = parts.params.backward, self._extent(parts.params.count)
        t = self._names.fresh("t")
        steps = f"range({count} - 1, -1, -1)" if backward else f"range({count})"
        self._lines.add(f"for {t} in {steps}:")
        self._lines.indent()
        before = len(self._lines)
        self._enter_step(parts, t, finals)
        for inner in parts.block:
            self._operation(inner)
        self._frames.pop()
        if len(self._lines) == before:
            self._lines.add("pass")
        self._lines.dedent()
        for stack, final, value, initial in zip(
            history, finals, parts.final, parts.initial, strict=True
        ):
            if stack >= 0 and value.has_uses:
                last = "0" if backward else f"{count} - 1"
                kept = f"{self._name_of(parts.stacks[stack])}[{last}, ...]"
                self._lines.add(
                    f"np.copyto({final}, {kept} if {count} else {self._name_of(initial)})"
                )

    def _enter_step(self, parts: Loop, t: str, finals: Sequence[str]) -> None:
        """Name the arguments of the body and what it writes in step `t`."""
        backward, count = parts.params.backward, self._extent(parts.params.count)
        for inner, outer in zip(parts.shared, parts.invariants, strict=True):
            self._places[inner] = self._places[outer]
        for inner, outer in zip(parts.elements, parts.sequences, strict=True):
            place = self._places[outer]
            name = self._element(inner, f"{place.name}[{t}, ...]")
            self._places[inner] = Place(name, place.kind, place.index, place.type)
        stacks: list[Place] = []
        for kept, stack in zip(parts.kept, parts.stacks, strict=True):
            name = self._element(kept, f"{self._name_of(stack)}[{t}, ...]")
            self._stack_count += 1  # no two overlap
            stacks.append(Place(name, "stack", self._stack_count, _tensor(kept)))
        carried = [self._places[v] for v in parts.final]
        for i, stack in enumerate(parts.params.history):
            place = carried[i]
            if stack >= 0:
                kept = self._name_of(parts.stacks[stack])
                earlier = f"{kept}[{t} + 1, ...]" if backward else f"{kept}[{t} - 1, ...]"
                later = f"{t} < {count} - 1" if backward else f"{t} > 0"
                first = self._name_of(parts.initial[i])
                name = self._element(parts.before[i], f"{earlier} if {later} else {first}")
                place = Place(name, "stack", -1 - i, _tensor(parts.before[i]))
            self._places[parts.before[i]] = place
        self._frames.append(_Frame(carried, stacks))

    def _element(self, value: Value, text: str) -> str:
        """A name for a part of an array in one step."""
        name = self._names.fresh(value.name or "v1")
        self._lines.add(f"{name} = {text}")
        return name

    def _structured(self, op: Operation) -> None:
        if op.opdef is LOOP:
            self._loop(op)
        elif op.opdef is GEMM_FUSED:
            self._fused_product(op)
        elif op.opdef is UPDATE_ROWS:
            self._update_rows(op)
        else:
            self._kernel(op, [self._places[v] for v in op.operands], self._arena)

    def _fused_product(self, op: Operation) -> None:
        """The whole product behind the arena, then the body as a kernel."""
        type = _tensor(op.regions[0].block.arguments[0])
        name = self._names.fresh("product")
        shape = shape_text(type.dims, self._extent)
        self._lines.add(
            f"{name} = np.ndarray({shape}, {dtype_text(type.dtype)}, arena, {self._arena})"
        )
        self._multiply(op, name)
        inputs = [Place(name, "arena", self._arena, type)]
        inputs += [self._places[v] for v in op.operands[2:]]
        self._kernel(op, inputs, self._arena + _align(type.bound_bytes))

    def _kernel(self, op: Operation, inputs: Sequence[Place], scratch: int) -> None:
        """The kernel of `op` on these arrays; scratch memory is free from byte `scratch` on."""
        self._targets(op)
        outputs = [self._places[v] for v in op.results]
        text = KernelText(
            op, inputs, outputs, self._extent, self._names, self._constants, self._lines
        )
        used = text.write(scratch=scratch)
        self._helpers.update(dict.fromkeys(text.helpers))
        self._scratch = max(self._scratch, scratch - self._arena + used)

    def _product(self, op: Operation) -> None:
        (out,) = self._targets(op)
        self._multiply(op, out)

    def _multiply(self, op: Operation, out: str) -> None:
        """The product of the first two operands into the array `out`."""
        assert isinstance(op.params, MatmulParams)
        ta, tb = op.params.transpose_a, op.params.transpose_b
        x, y = op.operands[:2]
        roles = groups(op.params, _tensor(x), _tensor(y))
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
        x, y = map(_tensor, op.operands)
        shape = conv_shape(op.params, (x, y))
        missing = (1,) * (2 - len(shape.sizes))
        channels, features = math.prod(shape.channels), math.prod(shape.features)
        inner = [e - a - z for e, a, z in zip(shape.extents, shape.low, shape.high, strict=True)]
        images, places = (
            f"{self._count(shape.lead)}, {', '.join(map(str, (*missing, *walked, last)))}"
            for walked, last in ((inner, channels), (shape.places, features))
        )
        sizes = (*missing, *shape.sizes)
        kernel = f"{sizes[0]}, {sizes[1]}, {channels}, {features}"
        if role == "image":
            kernel = f"{sizes[0]}, {features}, {sizes[1]}, {channels}"
        dims = {
            "result": (images, kernel, places),
            "image": (places, kernel, images),
            "weights": (images, places, kernel),
        }[role]
        out, *room = self._targets(op)
        names = [*map(self._name_of, op.operands), out]
        if shape.block:
            names[1] += _without_blocks(role, sizes, channels, features, shape.block)
        arrays = [f"{name}.reshape({text})" for name, text in zip(names, dims, strict=True)]
        arguments = [*arrays, *map(str, (*missing, *shape.strides))]
        if room:
            plane = ", ".join(map(str, (*missing, *shape.extents, channels)))
            arguments += [f"{room[0]}.reshape({plane})"]
            arguments += map(str, (*(0 for _ in missing), *shape.low))
        helper = f"conv_{role}"
        self._helpers[helper] = None
        if role == "weights":
            self._helpers["pile"] = None
        self._lines.add(f"{helper}({', '.join(arguments)})")

    def _pooling(self, op: Operation, folding: Folding) -> None:
        """A call of the helper, with everything as [images, columns, rows, channels]."""
        shape = pool_shape(op.params, [_tensor(v) for v in op.operands])
        missing = (1,) * (2 - len(shape.sizes))
        channels = math.prod(shape.channels)
        wide, narrow = (
            f"{self._count(shape.lead)}, {', '.join(map(str, (*missing, *walked, channels)))}"
            for walked in (shape.extents, shape.places)
        )
        kinds = {
            "windows": (wide, narrow),
            "slope": (wide, narrow, narrow, wide),
            "spread": (narrow, wide),
        }[folding]
        (out,) = self._targets(op)
        names = [*map(self._name_of, op.operands), out]
        arrays = [f"{name}.reshape({text})" for name, text in zip(names, kinds, strict=True)]
        if isinstance(op.params, PoolParams):
            arrays.insert(0, f"np.{op.params.word}")
        helper = f"pool_{folding}"
        self._helpers[helper] = None
        walk = ", ".join(map(str, (*missing, *shape.sizes, *missing, *shape.strides)))
        self._lines.add(f"{helper}({', '.join(arrays)}, {walk})")

    def _indexed(self, op: Operation, texts: tuple[str, ...]) -> None:
        *operands, index = map(self._name_of, op.operands)
        (out,) = self._targets(op)
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

    def _targets(self, op: Operation) -> list[str]:
        """The names of the arrays that the results go to; buffers in the arena get a view."""
        found = op.placement
        if len(found) != len(op.results):
            raise InternalError(f"a `{op.opdef.name}` in @{self._function.name} has no place")
        names: list[str] = []
        for value, at in zip(op.results, found, strict=True):
            t = _tensor(value)
            kind, index = at.kind, at.index
            if at.kind == "arena":
                name = self._names.fresh(value.name or "v1")
                shape = shape_text(t.dims, self._extent)
                self._lines.add(
                    f"{name} = np.ndarray({shape}, {dtype_text(t.dtype)}, arena, {at.index})"
                )
            else:
                if at.kind in ("carried", "stack"):
                    frame = self._frames[-1]
                    place = (frame.carried if at.kind == "carried" else frame.stacks)[at.index]
                    name, array, kind, index = place.name, place.type, place.kind, place.index
                else:
                    name, array = self._array_at(at)
                if array.dims != t.dims:  # the result is a reshape of what is written into it
                    shape = shape_text(t.dims, self._extent)
                    view = self._names.fresh(value.name or f"{name}_view")
                    self._lines.add(f"{view} = {name}.reshape({shape})")
                    name = view
            self._places[value] = Place(name, kind, index, t)
            names.append(name)
        return names

    def _array_at(self, at: PlaceAt) -> tuple[str, TensorType]:
        """The name and type of the result or argument that a value is placed in."""
        if at.kind == "result":
            return self._result_names[at.index], _tensor(self._function.returned[at.index])
        argument = self._function.arguments[at.index]
        return self._name_of(argument), _tensor(argument)


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


def _tensor(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type
