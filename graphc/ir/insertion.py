"""IRBuilder: emits operations at a point, with the current location and types inferred."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from graphc.ir.core import Block, OpDef, Operation, Region, Value
from graphc.ir.params import Params
from graphc.support.source import UNKNOWN, Location


class IRBuilder:
    """Inserts before `anchor`, or at the end of `block` when there is none."""

    def __init__(self, block: Block, anchor: Operation | None = None) -> None:
        self.block = block
        self.anchor = anchor
        self.location: Location = UNKNOWN

    @staticmethod
    def before(op: Operation) -> IRBuilder:
        """A builder that inserts before `op` and uses its location."""
        if op.block is None:
            raise ValueError(f"{op.opdef.name} is in no block")
        builder = IRBuilder(op.block, op)
        builder.location = op.location
        return builder

    @contextmanager
    def at(self, location: Location) -> Iterator[None]:
        """Operations emitted inside get this location."""
        saved, self.location = self.location, location
        try:
            yield
        finally:
            self.location = saved

    def emit(
        self,
        opdef: OpDef,
        operands: Iterable[Value] = (),
        params: Params | None = None,
        *,
        regions: Sequence[Region] = (),
        names: Sequence[str | None] = (),
    ) -> Operation:
        """Insert an operation. Raises TypeRuleError when its type rule refuses the operands."""
        values = list(operands)
        settings = params if params is not None else opdef.params()
        types = opdef.result_types([v.type for v in values], settings, regions)
        op = Operation(
            opdef, values, types, settings, regions=regions, location=self.location, names=names
        )
        return self.block.insert_before(self.anchor, op)

    def emit_one(
        self, opdef: OpDef, *operands: Value, params: Params | None = None, name: str | None = None
    ) -> Value:
        """Insert an operation with one result and return that."""
        return self.emit(opdef, operands, params, names=(name,)).result
