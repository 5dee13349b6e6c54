"""Shrinks a module while something holds of it: delta debugging for `graphc opt --reduce`.

Candidates are copies with a part taken out: a function, results, operations (what they gave is
replaced by an operand, an argument or a constant of the type), arguments, the body of a kernel or a
loop in its place, smaller bounds of dims. A candidate counts if it is smaller, legal and holds; the
next ones start from it, until none is left. Parts are tried in halves, then in quarters, down to
single ones (Zeller and Hildebrandt, 2002), so N useless operations take about log N runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from graphc.ir.clone import clone_module, clone_operations
from graphc.ir.core import (
    Block,
    Function,
    IRBuilder,
    Module,
    Operation,
    ResultInfo,
    Trait,
    Value,
)
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.traversal import walk
from graphc.ir.types import DType, MatrixType, Samples, TensorType
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.ops.constant import CONSTANT, ConstantParams
from graphc.ops.nodes.leaves import INPUT, PARAMETER, InputParams, ParameterParams
from graphc.support.diagnostics import DiagnosticSink

Holds = Callable[[str], bool]
"""Whether it still holds of a module with this text."""

Edit = Callable[[Module], Module | None]
"""Changes its own copy of a module and returns it, or another one; None: not possible here."""

StandIn = Callable[[Value, set[Operation]], Value | None]
"""What to read in place of a result when these operations are gone; None if there is nothing."""

Progress = Callable[[str], None]
Size = tuple[int, int, int, int]


def reduce_module(module: Module, holds: Holds, progress: Progress) -> Module:
    """The smallest module found for which `holds` still gives true, as it does for `module`.

    On KeyboardInterrupt the smallest so far.
    """
    search = _Search(module, holds, progress)
    try:
        while sum(step(search) for step in STEPS):
            pass
    except KeyboardInterrupt:
        progress("interrupted: this is the smallest so far")
    return search.best


def size_of(module: Module) -> Size:
    """What makes a module smaller, the most important first; constants weigh least."""
    ops = list(walk(module))
    arguments = sum(len(f.arguments) + len(f.results) for f in module.functions)
    working = sum(op.opdef is not CONSTANT for op in ops)
    bounds = sum(dim.bound for dim in module.dims)
    return working + arguments, len(ops), bounds, len(print_module(module))


class _Search:
    """The smallest module so far; every text is tried once."""

    def __init__(self, module: Module, holds: Holds, progress: Progress) -> None:
        self.best, self.size = module, size_of(module)
        self._holds, self._progress = holds, progress
        self._tried = {print_module(module)}
        self._runs = 0

    def attempt(self, edit: Edit) -> bool:
        """Take what `edit` makes of the best module if that is smaller, legal and holds."""
        made = edit(clone_module(self.best))
        if made is None or not _is_legal(made):
            return False
        size, text = size_of(made), print_module(made)
        if size >= self.size or text in self._tried:
            return False
        self._tried.add(text)
        self._runs += 1
        if not self._holds(text):
            return False
        self.best, self.size = made, size
        count = sum(1 for _ in walk(made))
        self._progress(f"{count} operations, {len(text)} characters after {self._runs} runs")
        return True

    def in_parts(
        self, count: Callable[[Module], int], without: Callable[[Module, int, int], Module | None]
    ) -> bool:
        """Take out parts `begin` to `end` of `count`: halves first, single ones last."""
        found = False
        size = max(count(self.best) // 2, 1)
        while True:
            end = count(self.best)
            while end > 0:
                begin = max(end - size, 0)
                found |= self.attempt(lambda m, b=begin, e=end: without(m, b, e))
                end = min(begin, count(self.best))
            if size == 1:
                return found
            size //= 2


def _is_legal(module: Module) -> bool:
    sink = DiagnosticSink()
    verify_module(module, sink)
    return not sink.has_errors and bool(module.functions)


# ----------------------------------------------------------------------- functions and results


def _functions(search: _Search) -> bool:
    def without(module: Module, begin: int, end: int) -> Module:
        del module.functions[begin:end]
        return module

    return search.in_parts(lambda m: len(m.functions), without)


def _results(search: _Search) -> bool:
    def without(module: Module, begin: int, end: int) -> Module:
        for function, index in reversed(_result_slots(module)[begin:end]):
            terminator = function.block.end
            kept = [v for i, v in enumerate(terminator.operands) if i != index]
            terminator.set_operands(kept)
            del function.results[index]
        return module

    return search.in_parts(lambda m: len(_result_slots(m)), without)


def _updates(search: _Search) -> bool:
    """Results that take over the memory of an argument become plain ones."""

    def without(module: Module, begin: int, end: int) -> Module:
        for function, index in _result_slots(module)[begin:end]:
            function.results[index] = ResultInfo(function.results[index].name)
        return module

    return search.in_parts(lambda m: len(_result_slots(m)), without)


def _result_slots(module: Module) -> list[tuple[Function, int]]:
    return [(f, i) for f in module.functions for i in range(len(f.results))]


# ----------------------------------------------------------------------------------- operations


def _operations(search: _Search) -> bool:
    """What only fed the removed is unused then, stands before it, and so is tried after it."""

    def removed(stand_in: StandIn) -> bool:
        def without(module: Module, begin: int, end: int) -> Module | None:
            return module if _remove(_removable(module)[begin:end], stand_in) else None

        return search.in_parts(lambda m: len(_removable(m)), without)

    return sum([removed(_stand_in), removed(lambda value, _: _constant(value))]) > 0


def _removable(module: Module) -> list[Operation]:
    return [op for op in walk(module) if not op.opdef.has(Trait.TERMINATOR)]


def _remove(ops: Sequence[Operation], stand_in: StandIn) -> bool:
    """Take the operations out; whether there was something for all that reads them."""
    gone = set(ops)
    for op in ops:
        for value in op.results:
            if not value.has_uses:
                continue
            new = stand_in(value, gone)
            if new is None:
                return False
            value.replace_all_uses(new)
    for op in reversed(ops):
        op.erase()
    return True


def _stand_in(value: Value, gone: set[Operation]) -> Value | None:
    """What can be read in place of a result: an operand, an argument, a constant."""
    op = value.definition
    assert op.block is not None
    near: Iterable[Value] = (*op.operands, *op.block.arguments)
    for other in near:
        if other.type == value.type and other.op not in gone:
            return other
    return _constant(value)


def _constant(value: Value) -> Value | None:
    """A new constant of the type, before what makes `value`; of a node a new leaf."""
    op = value.definition
    return _leaf(IRBuilder.before(op), value)


def _leaf(b: IRBuilder, value: Value) -> Value | None:
    type = value.type
    if isinstance(type, TensorType):
        # One, so that quotients and logarithms stay finite; as an index zero, which all have.
        one = 1.0 if type.dtype.is_float else False if type.dtype is DType.I1 else 0
        return b.emit_one(CONSTANT, params=ConstantParams(type, (one,)))
    return _node_leaf(b, type, value.name)


def _node_leaf(b: IRBuilder, type: MatrixType, name: str | None) -> Value | None:
    if type.image is not None or not type.rows:
        return None
    if isinstance(type.cols, Samples):
        return b.emit_one(INPUT, params=InputParams(type.rows), name=name)
    if type.cols is None:
        return None
    return b.emit_one(PARAMETER, params=ParameterParams(type.rows, type.cols), name=name)


# ------------------------------------------------------------------------------------ arguments


def _arguments(search: _Search) -> bool:
    def without(module: Module, begin: int, end: int) -> Module | None:
        slots = [(f, i) for f in module.functions for i in range(len(f.arguments))]
        for function, index in reversed(slots[begin:end]):
            argument = function.arguments[index]
            if argument.has_uses:
                new = _leaf(IRBuilder(function.block, function.block.first), argument)
                if new is None:
                    return None
                argument.replace_all_uses(new)
            del function.roles[index]
            _drop_argument(function.block, index)
            for place, info in enumerate(function.results):
                if info.updates == argument.name:
                    function.results[place] = ResultInfo(info.name)
        return module

    return search.in_parts(lambda m: sum(len(f.arguments) for f in m.functions), without)


def _drop_argument(block: Block, index: int) -> None:
    del block.arguments[index]
    for place, argument in enumerate(block.arguments):
        argument.index = place


# --------------------------------------------------------------------------------------- bodies


def _bodies(search: _Search) -> bool:
    """The body of a kernel or a loop in its place, once."""

    def without(module: Module, begin: int, end: int) -> Module | None:
        done = [_unwrap(op) for op in _with_bodies(module)[begin:end]]
        return module if any(done) else None

    return search.in_parts(lambda m: len(_with_bodies(m)), without)


def _with_bodies(module: Module) -> list[Operation]:
    return [op for op in walk(module) if op.regions]


def _unwrap(op: Operation) -> bool:
    """Put copies of the body's operations before `op` and take it out.

    Arguments and results of other types inside (elements of sequences, stacks) become constants.
    """
    assert op.block is not None
    builder = IRBuilder.before(op)
    body = op.regions[0].block
    values: dict[Value, Value] = {}
    for argument, operand in zip(body.arguments, op.operands, strict=True):
        same = argument.type == operand.type
        new = operand if same else _leaf(builder, argument)
        if new is None:
            return False
        values[argument] = new
    copies = Block()
    clone_operations(body, copies, values)
    given = copies.terminator.operands if copies.terminator is not None else ()
    for inner in list(copies):
        if inner.opdef.has(Trait.TERMINATOR):
            inner.drop_references()
        else:
            op.block.insert_before(op, copies.unlink(inner))
    for index, result in enumerate(op.results):
        fits = index < len(given) and given[index].type == result.type
        new = given[index] if fits else _leaf(builder, result)
        if new is None:
            return False
        result.replace_all_uses(new)
    op.erase()
    return True


def _body_arguments(search: _Search) -> bool:
    """Operands of kernels and loops that their bodies do not read."""

    def slots(module: Module) -> list[tuple[Operation, int]]:
        return [
            (op, i)
            for op in _with_bodies(module)
            for i, argument in enumerate(op.regions[0].block.arguments)
            if not argument.has_uses
        ]

    def without(module: Module, begin: int, end: int) -> Module:
        for op, index in reversed(slots(module)[begin:end]):
            op.set_operands([v for i, v in enumerate(op.operands) if i != index])
            _drop_argument(op.regions[0].block, index)
        return module

    return search.in_parts(lambda m: len(slots(m)), without)


def _body_results(search: _Search) -> bool:
    """Results of kernels and loops that nobody reads."""

    def slots(module: Module) -> list[tuple[Operation, int]]:
        ops = _with_bodies(module)
        return [(op, v.index) for op in ops for v in op.results if not v.has_uses]

    def without(module: Module, begin: int, end: int) -> Module | None:
        for op, index in reversed(slots(module)[begin:end]):
            terminator = op.regions[0].block.terminator
            if terminator is None or index >= len(terminator.operands) or len(op.results) == 1:
                return None
            terminator.set_operands(v for i, v in enumerate(terminator.operands) if i != index)
            op.placement = tuple(p for i, p in enumerate(op.placement) if i != index)
            del op.results[index]
            for place, result in enumerate(op.results):
                result.index = place
        return module

    return search.in_parts(lambda m: len(slots(m)), without)


def _places(search: _Search) -> bool:
    """All places in memory at once: some without others are not legal."""

    def without(module: Module) -> Module:
        for op in walk(module):
            op.placement = op.workspace = ()
        for function in module.functions:
            function.arena = None
        return module

    return search.attempt(without)


# ----------------------------------------------------------------------------------------- dims


def _dims(search: _Search) -> bool:
    """Take dims away that nothing has, and make the bounds of the others smaller."""
    found = False
    for dim in list(search.best.dims):
        found |= search.attempt(lambda m, name=dim.name: _edited(m, rf"dim {name} .*\n", ""))
        bound = dim.bound
        for smaller in (1, 2, 3, bound // 4, bound // 2) if not dim.is_made else ():
            head = f"dim {dim.name} <= "
            edit = f"{head}{smaller}"
            if 0 < smaller < bound and search.attempt(
                lambda m, head=head, edit=edit: _edited(m, rf"{head}\d+", edit)
            ):
                found = True
                break
    return found


def _edited(module: Module, pattern: str, replacement: str) -> Module | None:
    """The module that the text reads as, with one line of its head replaced.

    A dim is part of every type that has it, so this is simpler than to exchange them all.
    """
    context = default_context()
    text = re.sub(rf"^{pattern}", replacement, print_module(module), count=1, flags=re.MULTILINE)
    made = parse_module(text, context)
    return None if context.sink.has_errors else made


STEPS: tuple[Callable[[_Search], bool], ...] = (
    _places,
    _functions,
    _results,
    _operations,
    _bodies,
    _body_arguments,
    _body_results,
    _arguments,
    _updates,
    _dims,
)
