"""Hypothesis strategies for whole modules: graphs with cycles, functions, kernels, any names.

Modules made here print and parse; not all of them are legal (a graph's types need not fit), so they
test the text form and not the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

from hypothesis import strategies as st

from graphc.ir.core import (
    Block,
    Function,
    Level,
    Module,
    Operation,
    Region,
    RegionKind,
    ResultInfo,
    Value,
)
from graphc.ir.params import Params, field_types
from graphc.ir.placement import ADDRESS_KINDS, Address, Workspace
from graphc.ir.types import SAMPLES, Dim, DType, Image, MatrixType, Symbol, TensorType
from graphc.ops import ALL_OPS
from graphc.ops.control import RETURN, YIELD
from graphc.ops.kernel import KERNEL
from graphc.support.source import Location, Span

NODE_OPS = [op for op in ALL_OPS if op.level is Level.NODE]
PLAIN_OPS = [
    op for op in ALL_OPS if op.level is not Level.NODE and op not in (RETURN, YIELD, KERNEL)
]

plain_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,5}", fullmatch=True)
words = st.sampled_from(["inf", "nan", "func", "updates", "x", "x_1", "0", "loc", "tensor", "true"])
names = st.one_of(plain_names, words, st.text(min_size=1, max_size=4))
symbols = st.builds(
    Symbol, st.from_regex(r"[A-Z][A-Z0-9]{0,2}", fullmatch=True), st.integers(0, 2**63 - 1)
)
columns = st.one_of(st.none(), st.integers(0, 2**40), st.just(SAMPLES))
images = st.builds(Image, *[st.integers(0, 2**20)] * 3)
matrix_types = st.one_of(
    st.builds(MatrixType, st.one_of(st.none(), st.integers(0, 2**40)), columns),
    st.builds(lambda image, cols: MatrixType(image.rows, cols, image), images, columns),
)
places = st.builds(Address, st.sampled_from(ADDRESS_KINDS), st.integers(0, 2**63 - 1))
spans = st.builds(
    lambda file, line, column, width: Span(file, line, column, column + width),
    st.one_of(plain_names, st.text(max_size=4)),
    st.integers(1, 10**6),
    st.integers(1, 10**4),
    st.integers(1, 100),
)


@st.composite
def locations(draw: st.DrawFn) -> Location:
    """A known location, with macro calls and merged places."""
    return Location(*_chain(draw), merged=tuple(Location(*_chain(draw)) for _ in _few(draw)))


def _chain(draw: st.DrawFn) -> tuple[Span, Location | None]:
    caller: Location | None = None
    for _ in _few(draw):
        caller = Location(draw(spans), caller)
    return draw(spans), caller


def _few(draw: st.DrawFn) -> range:
    return range(draw(st.sampled_from([0, 0, 0, 1, 2])))


def dims(declared: Sequence[Symbol]) -> st.SearchStrategy[Dim]:
    plain = st.integers(0, 2**60)
    return st.one_of(plain, st.sampled_from(declared)) if declared else plain


def tensor_types(declared: Sequence[Symbol]) -> st.SearchStrategy[TensorType]:
    return st.builds(
        TensorType,
        st.lists(dims(declared), max_size=3).map(tuple),
        st.sampled_from(list(DType)),
    )


def values_of(annotation: Any, declared: Sequence[Symbol]) -> st.SearchStrategy[Any]:
    """Values that a params field of this type can hold."""
    origin = get_origin(annotation)
    if origin is Literal:
        return st.sampled_from(get_args(annotation))
    if origin is tuple:
        return st.lists(values_of(get_args(annotation)[0], declared), max_size=3).map(tuple)
    if isinstance(annotation, type) and issubclass(annotation, Params):
        return params_of(annotation, declared)
    if origin is not None and get_args(annotation):
        return st.one_of([values_of(a, declared) for a in get_args(annotation)])
    if isinstance(annotation, type) and issubclass(annotation, Params):
        fields = field_types(annotation)
        return st.builds(annotation, **{n: values_of(a, declared) for n, a in fields.items()})
    simple: dict[Any, st.SearchStrategy[Any]] = {
        bool: st.booleans(),
        int: st.integers(-(10**30), 10**30),
        float: st.floats(),
        str: st.text(max_size=6),
        DType: st.sampled_from(list(DType)),
        Symbol: st.sampled_from(declared) if declared else st.nothing(),
        TensorType: tensor_types(declared),
        type(None): st.none(),
    }
    return simple[annotation]


@st.composite
def params_of(draw: st.DrawFn, cls: type[Params], declared: Sequence[Symbol]) -> Params:
    """Any params of this class, each field often at its default."""
    chosen: dict[str, Any] = {}
    types = field_types(cls)
    for f in fields(cls):
        required = f.default is f.default_factory  # both MISSING
        if required or draw(st.booleans()):
            chosen[f.name] = draw(values_of(types[f.name], declared))
    return cls(**chosen)


@st.composite
def graphs(draw: st.DrawFn, name: str) -> Function:
    """A graph of nodes that read any others, themselves included."""
    function = Function(name, RegionKind.GRAPH)
    taken = draw(st.lists(names, max_size=6, unique_by=str.lower))
    for node_name in taken:
        opdef = draw(st.sampled_from(NODE_OPS))
        op = Operation(
            opdef,
            (),
            [draw(matrix_types)],
            draw(params_of(opdef.params, ())),
            location=draw(locations()),
            names=[node_name],
        )
        function.block.append(op)
    nodes = list(function.block)
    for op in nodes:
        op.set_operands(draw(st.sampled_from(nodes)).result for _ in op.opdef.operands)
    return function


@st.composite
def functions(draw: st.DrawFn, name: str, declared: Sequence[Symbol]) -> Function:
    """A function of operations on values defined before, with kernels inside."""
    function = Function(name, RegionKind.SSA)
    for argument in draw(st.lists(names, max_size=3, unique=True)):
        role = draw(st.sampled_from(["input", "parameter", "state", "hyperparameter"]))
        function.add_argument(argument, draw(tensor_types(declared)), role)
    body = _fill(draw, function.block, declared, depth=0)
    returned = [draw(st.sampled_from(body)) for _ in _few(draw) if body]
    function.block.append(Operation(RETURN, returned, [], location=draw(locations())))
    result_names = draw(
        st.lists(names, min_size=len(returned), max_size=len(returned), unique=True)
    )
    for result in result_names:
        arguments = [a.name for a in function.arguments]
        updates = draw(st.sampled_from([None, *arguments]))
        function.results.append(ResultInfo(result, updates))
    function.arena = draw(st.one_of(st.none(), st.integers(0, 2**63 - 1)))
    return function


def _fill(draw: st.DrawFn, block: Block, declared: Sequence[Symbol], depth: int) -> list[Value]:
    """Append a few operations; every value of the block."""
    values = list(block.arguments)
    for _ in range(draw(st.integers(0, 4))):
        nested = depth < 2 and draw(st.integers(0, 4)) == 0
        opdef = KERNEL if nested else draw(st.sampled_from(PLAIN_OPS))
        operands = [draw(st.sampled_from(values)) for _ in opdef.operands if values]
        regions: list[Region] = []
        if nested:
            inner = Block([v.type for v in operands], [draw(_value_names) for _ in operands])
            found = _fill(draw, inner, declared, depth + 1)
            inner.append(Operation(YIELD, found[-1:], [], location=draw(locations())))
            regions = [Region([inner])]
        types = [draw(tensor_types(declared)) for _ in range(draw(st.integers(0, 2)))]
        op = Operation(
            opdef,
            operands,
            types,
            draw(params_of(opdef.params, declared)),
            regions=regions,
            schedule=draw(params_of(opdef.schedule, declared)),
            placement=[draw(places) for _ in _few(draw)],
            workspace=[Workspace(draw(tensor_types(declared)), draw(places)) for _ in _few(draw)],
            location=draw(locations()),
            names=[draw(_value_names) for _ in types],
        )
        block.append(op)
        values.extend(op.results)
    return values


_value_names: st.SearchStrategy[str | None] = st.one_of(st.none(), names)


@st.composite
def modules(draw: st.DrawFn) -> Module:
    """Dims, graphs and functions of any names."""
    declared = draw(st.lists(symbols, max_size=2, unique_by=lambda s: s.name))
    made: list[Function] = []
    for name in draw(st.lists(names, max_size=3, unique=True)):
        kind = draw(st.booleans())
        made.append(draw(graphs(name)) if kind else draw(functions(name, declared)))
    return Module(made, declared)
