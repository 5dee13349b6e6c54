"""Checks that IR is legal. Reports everything it finds; never stops at the first.

Per function
  V1  every operation has as many operands as its OpDef takes
  V2  every operand is an argument or result of the same region (kernel bodies see nothing outside)
  V3  in SSA regions a value is defined before it is used
  V4  asking each operation's type rule again gives its result types; at node level sizes may
      still be unknown, but what is known agrees (a node of unknown size that its rule refuses is
      `infer-shapes`' to report, which shows the operands)
  V5  an SSA block ends in its only terminator, a function in `return`; its results match that
  V6  the uses recorded on values are exactly the operands that read them
  V7  in a graph every operation is a node with a name of its own (case does not distinguish)
  V8  every dimension in a type or parameter is declared in the module with the same bound
  V9  a func holds no node operation, a graph nothing else
  V10 `updates` names an argument of the result's type, and no argument is updated twice
  V11 regions stand only where the OpDef has them, one block in each; the operation's own check
  V12 where results have places, the workspace is what the operation needs by its schedule
Per module
  V13 functions and dimensions have names of their own, dimensions in capital letters and digits;
      what a dimension is made of is declared before it
Not checked here: the memory plan (`passes/analysis/memory.py`), levels (`passes/invariants.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from graphc.ir.codegen import WITH_BODY
from graphc.ir.core import (
    Block,
    Function,
    Level,
    Module,
    Operation,
    RegionKind,
    Trait,
    Value,
)
from graphc.ir.printer import operation_printer
from graphc.ir.traversal import blocks
from graphc.ir.types import DIM_NAME, MatrixType, Symbol, TensorType, Type, TypeRuleError
from graphc.support.diagnostics import DiagnosticSink, Note


def verify_module(module: Module, sink: DiagnosticSink) -> None:
    """Report every broken rule of `module` to `sink`."""
    declared = {d.name: d for d in module.dims}
    for dim in module.dims:
        if not DIM_NAME.fullmatch(dim.name):
            message = f"a dimension name is capital letters and digits, got {dim.name}"
            sink.error("graph-structure", message)
    known = set[str]()
    for dim in module.dims:
        for part in dim.parts:
            if part.name not in known:
                message = f"dimension {dim.name} is made of {part.name}, declared before it"
                sink.error("graph-structure", f"{message} is required")
        known.add(dim.name)
    for name in _repeated(d.name for d in module.dims):
        sink.error("graph-structure", f"dimension {name} is declared twice")
    for name in _repeated(f.name for f in module.functions):
        sink.error("graph-structure", f"two functions are called @{name}")
    for function in module.functions:
        _Verifier(function, declared, sink).run()


class _Verifier:
    def __init__(
        self, function: Function, declared: dict[str, Symbol], sink: DiagnosticSink
    ) -> None:
        self._function = function
        self._declared = declared
        self._sink = sink
        self._is_graph = function.kind is RegionKind.GRAPH
        self._uses_seen: dict[Value, set[tuple[Operation, int]]] = {}
        self._print = operation_printer(function)

    def run(self) -> None:
        for block in blocks(self._function):
            self._block(block)
        self._signature()
        self._use_lists()
        if self._is_graph:
            self._node_names()

    def _error(self, op: Operation, message: str, slug: str = "graph-structure") -> None:
        note = Note(f"in @{self._function.name}: {self._print(op)}")
        self._sink.error(slug, f"{op.opdef.name}: {message}", op.location, notes=[note])

    def _function_error(self, message: str) -> None:
        self._sink.error(
            "graph-structure", f"@{self._function.name}: {message}", self._function.location
        )

    def _block(self, block: Block) -> None:
        visible: set[Value] = set(block.arguments)
        if self._is_graph:
            visible.update(v for op in block for v in op.results)
        for value in block.arguments:
            self._dims(value.type, None)
        for op in block:
            self._operands(op, visible)
            self._types(op)
            self._level(op)
            if op.opdef.has(Trait.TERMINATOR) and op is not block.last:
                self._error(op, "a terminator must be the last operation of its block")
            visible.update(op.results)
        terminator = block.terminator
        if not self._is_graph and terminator is None:
            self._function_error("a block must end in a terminator (`return`, `yield`)")
        elif terminator is not None:
            ends_function = block is self._function.block
            if terminator.opdef.has(Trait.RETURN) != ends_function:
                where = "a function" if ends_function else "a region of an operation"
                self._error(terminator, f"cannot end {where}")

    def _operands(self, op: Operation, visible: set[Value]) -> None:
        operands = op.operands
        if not op.opdef.accepts_count(len(operands)):
            wanted = ", ".join(op.opdef.operands) or "none"
            self._error(op, f"requires the operands ({wanted}), got {len(operands)}")
        for index, value in enumerate(operands):
            self._uses_seen.setdefault(value, set()).add((op, index))
            if value not in visible:
                name = op.opdef.operand_name(index) if op.opdef.operands else str(index)
                self._error(op, f"operand {name} is not defined before its use in this region")

    def _types(self, op: Operation) -> None:
        for value in op.results:
            self._dims(value.type, op)
        for f in fields(op.params):
            self._dims_in_param(getattr(op.params, f.name), op)
        if not self._regions(op) or not op.opdef.accepts_count(len(op.operands)):
            return
        try:
            inferred = op.opdef.result_types([v.type for v in op.operands], op.params, op.regions)
        except TypeRuleError as problem:
            if not any(isinstance(v.type, MatrixType) and not v.type.is_known for v in op.results):
                self._error(op, problem.message, problem.slug)
            return
        found = tuple(v.type for v in op.results)
        if len(inferred) != len(found) or not all(map(_agree, inferred, found)):
            wanted = ", ".join(map(str, inferred)) or "nothing"
            self._error(op, f"gives {wanted}, but is marked {', '.join(map(str, found))}")
        if op.placement and len(op.placement) != len(op.results):
            self._error(op, f"has {len(op.results)} results but {len(op.placement)} places")
        problems = list(op.opdef.check(op)) if op.opdef.check is not None else []
        for message in problems:
            self._error(op, message)
        if not problems:  # otherwise its schedule may say nothing
            self._workspace(op)

    def _workspace(self, op: Operation) -> None:
        """It has a place together with the results."""
        needed = op.needed_workspace() if op.placement else ()
        found = tuple(w.type for w in op.workspace)
        if found != needed:
            wanted = ", ".join(map(str, needed)) or "none"
            given = ", ".join(map(str, found)) or "none"
            where = "" if op.placement else " before memory is planned"
            self._error(op, f"requires a workspace of {wanted}{where}, got {given}")

    def _regions(self, op: Operation) -> bool:
        """Whether the regions of `op` are such that its rules can look at them."""
        if op.regions and not isinstance(op.opdef.codegen, WITH_BODY):
            self._error(op, "takes no region")
            return False
        if any(len(region.blocks) != 1 for region in op.regions):
            self._error(op, "requires one block in each region")
            return False
        return True

    def _dims_in_param(self, value: object, op: Operation) -> None:
        if isinstance(value, TensorType):
            self._dims(value, op)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Symbol):
                self._symbol(item, op)

    def _dims(self, type: Type, op: Operation | None) -> None:
        if isinstance(type, TensorType):
            for symbol in type.symbols():
                self._symbol(symbol, op)

    def _symbol(self, symbol: Symbol, op: Operation | None) -> None:
        if self._declared.get(symbol.name) == symbol:
            return
        message = f"dimension {symbol.name} <= {symbol.bound} is not declared in the module"
        if op is None:
            self._function_error(message)
        else:
            self._error(op, message)

    def _level(self, op: Operation) -> None:
        if self._is_graph != (op.opdef.level is Level.NODE):
            holder = "a graph holds only nodes" if self._is_graph else "a func holds no nodes"
            self._error(op, holder)

    def _signature(self) -> None:
        function = self._function
        if self._is_graph:
            if function.arguments or function.results:
                self._function_error("a graph has no arguments and no results")
            return
        if len(function.results) != len(function.returned):
            self._function_error(
                f"has {len(function.results)} results but returns {len(function.returned)} values"
            )
            return
        arguments = {a.name: a for a in reversed(function.arguments)}
        updated: set[str] = set()
        for info, value in zip(function.results, function.returned, strict=True):
            if info.updates is None:
                continue
            argument = arguments.get(info.updates)
            if argument is None:
                self._function_error(f"result {info.name} updates no argument of that name")
            elif argument.type != value.type:
                self._function_error(
                    f"result {info.name} is {value.type} but updates {argument.type}"
                )
            if info.updates in updated:
                self._function_error(f"argument {info.updates} is updated twice")
            updated.add(info.updates)
        names = [a.name for a in function.arguments]
        for name in _repeated(names):
            self._function_error(f"two arguments are called {name}")
        for name in _repeated(r.name for r in function.results):
            self._function_error(f"two results are called {name}")

    def _use_lists(self) -> None:
        for block in blocks(self._function):
            values = [*block.arguments, *(v for op in block for v in op.results)]
            for value in values:
                if set(value.uses) != self._uses_seen.get(value, set()):
                    self._function_error(f"the recorded uses of %{value.name} are not its readers")

    def _node_names(self) -> None:
        first: dict[str, Operation] = {}
        for op in self._function.block:
            for value in op.results:
                if not value.name:
                    self._error(op, "every node needs a name")
                elif (key := value.name.lower()) in first:
                    self._error(op, f"the name {value.name} is taken by another node")
                else:
                    first[key] = op


def _agree(inferred: Type, found: Type) -> bool:
    """Equal, or nodes that differ in what is not inferred yet."""
    if isinstance(inferred, MatrixType) and isinstance(found, MatrixType):
        rows = inferred.rows is None or found.rows is None or inferred.rows == found.rows
        cols = inferred.cols is None or found.cols is None or inferred.cols == found.cols
        # A layout may be missing where it is not inferred yet, and nothing else invents one.
        image = found.image is None or not inferred.is_known or inferred.image == found.image
        return rows and cols and image
    return inferred == found


def _repeated(names: Iterable[str | None]) -> list[str]:
    seen: set[str | None] = set()
    repeated: list[str] = []
    for name in names:
        if name in seen and name is not None:
            repeated.append(name)
        seen.add(name)
    return repeated
