"""Any iterable of minibatches as a reader."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from graphc.data.order import IN_ORDER, Order, check_order
from graphc.data.reader import Column
from graphc.data.table_reader import BLOCK_BYTES, TableReader
from graphc.data.tables import Arrays, Spool, Stream
from graphc.support.arguments import function, instance, table, truth
from graphc.support.diagnostics import GraphcError, fail


def from_iterable(
    schema: Mapping[str, Column],
    factory: Callable[[], Iterable[Mapping[str, object]]],
    *,
    order: Order = IN_ORDER,
    keep: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> TableReader:
    """A reader of what `factory()` gives: dictionaries of arrays (any number of samples, width) by
    name, the columns of the schema.

    Every pass over the data calls the factory anew, and it has to give the same samples each time;
    with `keep` the first pass is kept in a temporary file, and its samples can then be exchanged
    over the whole data (`order=Order()`). How many samples a dictionary holds does not matter.

    GraphcError `argument-type` for arguments of another kind, and while reading `input` for
    columns that the schema does not have or of another width.
    """
    for name, given in table(schema, "schema", "columns").items():
        column = instance(given, Column, f"column `{name}`", "a Column")
        if column.kind != "dense":
            message = f"dense columns are required, `{name}` is {column.kind}"
            raise fail("not-supported", f"{message}: write a reader of your own for it")
    called = function(factory, "factory")

    def pieces() -> Iterator[Arrays]:
        items: object = called()
        if not isinstance(items, Iterable):
            message = "the factory is required to give an iterable of dictionaries"
            raise fail("argument-type", f"{message}, got {type(items).__name__}")
        for number, item in enumerate(items):
            piece = _piece(schema, item, number)
            if len(next(iter(piece.values()))):
                yield piece

    source = Spool(pieces) if truth(keep, "keep") else Stream(pieces)
    return TableReader(source, dict(schema), check_order(order), block_bytes=block_bytes)


def _piece(schema: Mapping[str, Column], item: object, number: int) -> Arrays:
    """The arrays of one minibatch, checked."""
    place = f"minibatch {number} (counted from 0)"
    given = table(item, place, "arrays")
    if missing := [name for name in schema if name not in given]:
        got = ", ".join(f"`{name}`" for name in given) or "none"
        raise fail("input", f"{place} requires the column `{missing[0]}`, got {got}")
    piece = {name: _array(given[name], name, schema[name].width, place) for name in schema}
    counts = {name: len(array) for name, array in piece.items()}
    if len(set(counts.values())) != 1:
        found = ", ".join(f"{count} of `{name}`" for name, count in counts.items())
        raise fail("input", f"{place} requires equally many samples of all columns, got {found}")
    return piece


def _array(value: object, name: str, width: int, place: str) -> np.ndarray:
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as problem:
        raise _unlike(name, width, place, str(problem)) from problem
    if array.dtype.kind not in "fiub" or array.ndim != 2 or array.shape[1] != width:
        raise _unlike(name, width, place, f"{array.dtype} of shape {array.shape}")
    return array


def _unlike(name: str, width: int, place: str, got: str) -> GraphcError:
    return fail("input", f"`{name}` of {place} requires numbers (samples, {width}), got {got}")
