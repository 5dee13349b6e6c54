"""The dims of a module: what its functions are made of is declared, each size by one name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphc.ir.core import Function, Module, Value
from graphc.ir.dims import Symbol, dims_behind
from graphc.ir.params import symbols_in, with_symbols
from graphc.ir.traversal import blocks, walk
from graphc.ir.types import TensorType
from graphc.support.diagnostics import fail
from graphc.support.source import Location


def dims_of(function: Function) -> list[Symbol]:
    """All dims of the function's values and settings, those that others are made of first; a size
    by every name that it has."""
    found = [s for value in _values(function) for s in _symbols(value)]
    found += [s for op in walk(function) for s in symbols_in(op.params)]
    once = {id(s): s for s in found}.values()
    return list({(d.name, d): d for s in once for d in dims_behind(s)}.values())


def require_names(dims: Sequence[Symbol], location: Location) -> None:
    """GraphcError where two dims have one name."""
    names: dict[str, Symbol] = {}
    for dim in dims:
        if names.setdefault(dim.name, dim) != dim:
            message = (
                f"the dim {dim.name} of inputs is called as one that the function makes, "
                "out of others: give it another name"
            )
            raise fail("bad-value", message, location)


def declare_dims(module: Module) -> None:
    """Declare the dims that a pass has made, or give them the name that the size has already."""
    if not any(dim.is_made for dim in module.dims):
        return  # nothing to make others of
    known = {dim: dim for dim in module.dims}
    for function in module.functions:
        dims = dims_of(function)
        for dim in dims:
            if dim not in known:
                known[dim] = dim
                module.dims.append(dim)
                require_names(module.dims, function.location)
        names = {d.name: known[d] for d in dims if known[d].name != d.name}
        if names:
            _rename(function, names)


def _values(function: Function) -> Iterator[Value]:
    for block in blocks(function):
        yield from block.arguments
        for op in block:
            yield from op.results


def _symbols(value: Value) -> tuple[Symbol, ...]:
    return value.type.symbols() if isinstance(value.type, TensorType) else ()


def _rename(function: Function, names: Mapping[str, Symbol]) -> None:
    def name(symbol: Symbol) -> Symbol:
        return names.get(symbol.name, symbol)

    for value in _values(function):
        if any(s.name in names for s in _symbols(value)):
            dims = (name(d) if isinstance(d, Symbol) else d for d in value.tensor.dims)
            value.type = value.tensor.with_dims(dims)
    for op in walk(function):
        op.params = with_symbols(op.params, name)
