"""A function for one of several members, with a sum of what all of them have in its middle.

Native code calls for the sum where it stands. Other functions are cut there, those with several
sums by `stages.py`, and so is native code that computes several shards of a minibatch, which are
added before members are:

    func @main(%x, %W) -> (ce, W updates %W) {       func @main(%x, %W) -> (sum.0, sum.1)
      … %g, %ce …                               =>   func @main(%W, %sum.0, %sum.1)
      %g1, %ce1 = all_reduce %g, %ce                     -> (ce, W updates %W)
      … }

Both halves are compiled by any backend, which then knows nothing of members. What each member has
for itself, the state of its sequences, is a result of the first.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace

from graphc.backends import BACKENDS
from graphc.driver.compile import Lowered, compile_operations, lower_by, run_passes
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import infer
from graphc.driver.stages import compile_stages
from graphc.ir.clone import clone_operations, empty_like
from graphc.ir.core import Function, Module, Operation, ResultInfo, Value
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.ops.communication import ALL_REDUCE
from graphc.passes import pipeline
from graphc.passes.manager import Pass
from graphc.passes.overlap_sums import OverlapSums, overlap_pays
from graphc.passes.share_gradients import is_own
from graphc.runtime.communicators.communicator import (
    Communicator,
    chooses,
    has_own_shards,
    overlap_of,
    shards_of,
)
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.members import MemberFunction
from graphc.runtime.shards import Shards
from graphc.runtime.signature import Signature
from graphc.runtime.stages import Stage
from graphc.support.diagnostics import InternalError, fail
from graphc.support.member_place import SHARD

_log = logging.getLogger(__name__)


def compile_for_members(
    communicator: Communicator, model: Model, passes: Sequence[Pass], options: CompileOptions
) -> tuple[CompiledFunction, Signature]:
    """What `passes`, for a shard of a minibatch, make of a network, an `all_reduce` in it done by
    the communicator."""
    infer(model)
    return function_for_members(communicator, lower_by(model, passes, options), options)


def function_for_members(
    communicator: Communicator, lowered: Lowered, options: CompileOptions
) -> tuple[CompiledFunction, Signature]:
    """The same of tensor operations, of a network or a program."""
    shards = shards_of(communicator) // communicator.size
    is_staged = sum(op.opdef is ALL_REDUCE for op in lowered.function.block) > 1
    # What the code of a whole function rounds once, that of stages may not: not for shards, which
    # have the same bits however many of them a member has.
    is_whole = shards == 1 and not (is_staged and has_own_shards(communicator))
    if is_whole and BACKENDS[options.backend]().adds:
        apart = OverlapSums()
        is_apart = _adds_beside(communicator, lowered.function, apart)
        compiled, signature = compile_operations(
            lowered.module, options, (apart,) if is_apart else (), like=lowered.signature
        )
        compiled.add_over(communicator)
        compiled.adds_beside = is_apart
        return compiled, signature
    if overlap_of(communicator):
        message = "sums beside the backward pass require llvm, c or numpy and a shard each"
        raise fail("not-supported", f"{message}, got {options.backend} and {shards}")
    signature = _of_shards(lowered.signature, shards)
    its = Shards(signature, shards, SHARD)
    if is_staged:
        lowered = replace(lowered, signature=signature)
        return compile_stages(communicator, lowered, options, its), signature
    before, after = (
        Stage(*compile_operations(half, options)) for half in cut(lowered.module, lowered.function)
    )
    return MemberFunction(signature, before, after, communicator, its), signature


def _adds_beside(communicator: Communicator, function: Function, apart: OverlapSums) -> bool | None:
    """Whether sums are made beside the backward pass, None where nothing can be. All members say
    the same, by what all of them have measured and arrays that are the same for all."""
    if chooses(communicator):
        pays = overlap_pays(function, communicator.idle, apart.bucket_bytes)
        if pays is not None:
            how, idle = "beside" if pays else "behind", communicator.idle * 1e9
            _log.info("sums %s the backward pass: %.2g ns a byte are waited for", how, idle)
        return pays
    if not overlap_of(communicator):
        return False
    return overlap_pays(function, math.inf, apart.bucket_bytes)


def for_shard(options: CompileOptions, parts: int) -> CompileOptions:
    """With bounds for one of so many parts of a minibatch."""
    sequences, batch = -(-options.sequences // parts), -(-options.batch // parts)
    return replace(options, batch=batch, sequences=sequences)


def _of_shards(signature: Signature, shards: int) -> Signature:
    """With so many times as many samples, or sequences."""
    dims = [
        replace(dim, bound=dim.bound * shards) if dim.name == signature.unit or dim.formula else dim
        for dim in signature.dims
    ]
    return replace(signature, dims=tuple(dims))


def cut(module: Module, function: Function) -> tuple[Module, Module]:
    """What comes before the only `all_reduce`, giving its operands, and what comes after it."""
    found = [op for op in function.block if op.opdef is ALL_REDUCE]
    if len(found) != 1:
        raise InternalError(f"@{function.name} has {len(found)} all_reduce, one is required")
    (op,) = found
    names = [f"sum.{i}" for i in range(len(op.operands))]
    before, after = _copied(function, {}), _copied(function, {op: names})
    twin = next(o for o in before.block if o.opdef is ALL_REDUCE)
    summed = [(ResultInfo(name), value) for name, value in zip(names, twin.operands, strict=True)]
    _give(before, summed + [r for r in _given(before) if is_own(r[1])])
    _give(after, [r for r in _given(after) if not is_own(r[1])])
    return _cleaned(module, before), _cleaned(module, after)


def _given(function: Function) -> list[tuple[ResultInfo, Value]]:
    return list(zip(function.results, function.returned, strict=True))


def _give(function: Function, results: Sequence[tuple[ResultInfo, Value]]) -> None:
    function.results = [info for info, _ in results]
    function.block.end.set_operands([value for _, value in results])


def _copied(function: Function, given: dict[Operation, list[str]]) -> Function:
    """A copy in which the results of some operations are arguments of these names."""
    made = empty_like(function)
    values: dict[Value, Value] = {}
    for argument, role in zip(function.arguments, function.roles, strict=True):
        values[argument] = made.add_argument(argument.name or "", argument.type, role)
    for op, names in given.items():
        for result, name in zip(op.results, names, strict=True):
            values[result] = made.add_argument(name, result.type, "input")
    clone_operations((op for op in function.block if op not in given), made.block, values)
    return made


def _cleaned(module: Module, function: Function) -> Module:
    """Without what its results do not depend on, arguments too."""
    whole = Module([function], module.dims)
    run_passes(whole, pipeline("dce"), default_context(), CompileOptions())
    made = empty_like(function)
    values: dict[Value, Value] = {}
    updated = {info.updates for info in function.results}
    for argument, role in zip(function.arguments, function.roles, strict=True):
        if argument.has_uses or argument.name in updated:
            values[argument] = made.add_argument(argument.name or "", argument.type, role)
    clone_operations(function.block, made.block, values)
    return Module([made], module.dims)
