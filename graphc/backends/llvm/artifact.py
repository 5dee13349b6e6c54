"""The C interface of an artifact (`backends/abi.py`): wrappers around `graphc.entry`.

Where work is split there are besides, and these do need a C library and its threads:

    int32_t NAME_run_with(…as NAME_run…, void *pool)
    void *NAME_pool_create(int32_t threads)
    void NAME_pool_destroy(void *pool)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphc.artifacts.members import BAD_RANK, FIELD_OF, WORDS, takes_members
from graphc.backends.abi import (
    ARENA_ALIGNMENT,
    UNKNOWN_STATUS,
    check_signature,
    first_state,
    statuses,
)
from graphc.backends.base import EmitRequest
from graphc.backends.llvm.emit import add_entry
from graphc.backends.llvm.entries import ENTRY
from graphc.backends.llvm.large_data import LARGE, reserve
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import Code, Module
from graphc.backends.llvm.thread_pool import pool_text
from graphc.backends.loops.control import add, mul, offset
from graphc.backends.loops.memory import stack_array
from graphc.backends.loops.values import I1, I64, PTR, Val, element_of, index, lane_type
from graphc.ir.core import Function
from graphc.ir.types import DType
from graphc.runtime.signature import NUMPY_DTYPES, Argument, Result, Signature


def emit_artifact(
    function: Function,
    signature: Signature,
    target: Target,
    request: EmitRequest,
    *,
    reserved: bool = False,
) -> str:
    """The module of an artifact; `reserved`: with places for large parameters (`large_arrays`).

    Reports functions that an artifact cannot hold.
    """
    check_signature(signature, takes_steps=True)
    module = Module(target.triple)
    add_entry(module, function, signature, target, linkage="internal")
    _add_run(module, signature, request, reserved=reserved)
    _add_number(module, f"{request.name}_arena_bytes", signature.arena_bytes)
    if signature.state_places:
        _add_state(module, signature, request)
    _add_status(module, request.name, statuses(signature, has_amx=target.machine.has_amx))
    _add_info(module, request)
    if not signature.is_split:
        return module.text()
    create, destroy = (f"{request.name}_pool_{what}" for what in ("create", "destroy"))
    return module.text(pool_text(target, create, destroy))


def _add_run(module: Module, signature: Signature, request: EmitRequest, *, reserved: bool) -> None:
    code = Code(module)
    inputs, outputs = signature.with_role("input"), signature.fresh_results
    pointers = [Val(f"%x{i}", PTR) for i in range(len(inputs))]
    results = [Val(f"%y{i}", PTR) for i in range(len(outputs))]
    arena = Val("%arena", PTR)
    places, numbers = signature.state_places, signature.numbers
    state = [Val("%state", PTR)] if places else []
    floats = [a.dtype in ("f32", "f64") for a in numbers]
    given_numbers = [
        Val(f"%h{i}", lane_type("double" if is_float else "i64"))
        for i, is_float in enumerate(floats)
    ]
    on_stack = [stack_array(code, element_of(DType(a.dtype)), 1, 8) for a in numbers]
    members = [Val("%members", PTR)] if takes_members(signature) else []
    count = len(signature.arguments) + len(outputs) + len(members)
    buffers = stack_array(code, "ptr", max(count, 1), 8)
    counts = {d.name: Val(f"%n{i}", I64) for i, d in enumerate(signature.call_dims)}
    dims = stack_array(code, "i64", max(len(signature.dims), 1), 8)
    _check_counts(code, signature, counts)
    found = _add_sizes(code, signature, counts)
    _check_arrays(code, signature, [*pointers, *results, *state], arena)
    for table in members:
        _check_members(code, table)
    for number, argument, place in zip(given_numbers, numbers, on_stack, strict=True):
        narrow = number
        if argument.dtype == "f32":
            narrow = code.value(lane_type("float"), f"fptrunc {number} to float")
        elif argument.dtype == "i32":
            narrow = code.value(lane_type("i32"), f"trunc {number} to i32")
        code.store(narrow, place, 8)

    given = {"input": iter(pointers), "hyperparameter": iter(on_stack)}
    values = [
        offset(code, state[0], "i8", index(places[a]))
        if a in places
        else _field(code, members[0], FIELD_OF[a.name])
        if a.role == "hyperparameter" and a not in numbers
        else next(given[a.role])
        if a.role in given
        else _embedded(module, i, a, request.parameters, reserved=reserved)
        for i, a in enumerate(signature.arguments)
    ]
    for i, value in enumerate([*values, *results, *members]):
        code.do(f"store {value}, ptr {offset(code, buffers, 'ptr', index(i)).ref}, align 8")
    for i, dim in enumerate(signature.dims):
        size = found[dim.name]
        code.do(f"store {size}, ptr {offset(code, dims, 'i64', index(i)).ref}, align 8")
    status = code.value(I64, f"call i32 @{ENTRY}({buffers}, {dims}, {arena}, ptr %pool)")
    code.do(f"ret i32 {status.ref}")
    # A function of no dims takes a number of samples too, and does not look at it.
    sizes = [*map(str, counts.values())] or ["i64 %n0"]
    taken = [*pointers, *given_numbers, *results, *state, arena, *members]
    parameters = ", ".join([*sizes, *map(str, taken)])
    linkage = "" if signature.is_split else "internal "
    header = f"define {linkage}i32 @{request.name}_run_with({parameters}, ptr %pool) nounwind"
    module.add_function(header, code)
    alone = Code(module)
    call = f"call i32 @{request.name}_run_with({parameters}, ptr null)"
    alone.do(f"ret i32 {alone.value(I64, call).ref}")
    module.add_function(f"define i32 @{request.name}_run({parameters}) nounwind", alone)


def _add_sizes(code: Code, signature: Signature, counts: Mapping[str, Val]) -> dict[str, Val]:
    """All dims; leaves with a status where there is no size for one that follows from others."""
    sizes, bad = dict(counts), list[Val]()
    for name, formula in signature.formulas.items():
        total = index(formula.constant)
        for term in formula.terms:
            product = index(term.times)
            for factor in term.factors:
                product = mul(code, product, sizes[factor])
            total = add(code, total, product)
        divided = formula.divisor != 1
        sizes[name] = code.value(I64, f"sdiv {total}, {formula.divisor}") if divided else total
        if formula.may_be_negative:
            bad.append(code.value(I1, f"icmp slt {total}, 0"))
        if formula.exact:
            rest = code.value(I64, f"srem {total}, {formula.divisor}")
            bad.append(code.value(I1, f"icmp ne i64 {rest.ref}, 0"))
    _leave_if(code, bad, 1)
    return sizes


def _check_counts(code: Code, signature: Signature, counts: Mapping[str, Val]) -> None:
    """Leaves with a status when a dim of the call is out of its range."""
    bounds = {counts[d.name]: d.bound for d in signature.call_dims} or {Val("%n0", I64): 2**63 - 1}
    bad_counts: list[Val] = []
    for count, bound in bounds.items():
        bad_counts.append(code.value(I1, f"icmp slt {count}, 0"))
        bad_counts.append(code.value(I1, f"icmp sgt {count}, {bound}"))
    _leave_if(code, bad_counts, 1)


def _check_arrays(code: Code, signature: Signature, data: Sequence[Val], arena: Val) -> None:
    """Leaves with a status when an array or the arena is not where it must be."""
    needed = [*data, arena] if signature.arena_bytes else data
    _leave_if(code, [code.value(I1, f"icmp eq {p}, null") for p in needed], 2)
    if signature.arena_bytes:
        _leave_if(code, [_is_misaligned(code, arena, ARENA_ALIGNMENT)], 3)
    ports: list[Argument | Result] = [*signature.with_role("input"), *signature.fresh_results]
    sizes = [NUMPY_DTYPES[p.dtype].itemsize for p in ports]
    sizes += [ARENA_ALIGNMENT] * bool(signature.state_places)
    wrong = [_is_misaligned(code, p, size) for p, size in zip(data, sizes, strict=True) if size > 1]
    _leave_if(code, wrong, 4)


def _check_members(code: Code, table: Val) -> None:
    """Leaves with a status when the table of the sums is not there or not filled."""
    _leave_if(code, [code.value(I1, f"icmp eq {table}, null")], 2)
    add = code.load(PTR, _field(code, table, "all_reduce"), 8)
    _leave_if(code, [code.value(I1, f"icmp eq {add}, null")], 2)
    rank, size = (code.load(I64, _field(code, table, name), 8) for name in ("rank", "size"))
    wrong = [code.value(I1, f"icmp slt {rank}, 0")]
    wrong.append(code.value(I1, f"icmp sge {rank}, {size.ref}"))
    _leave_if(code, wrong, BAD_RANK)


def _field(code: Code, table: Val, name: str) -> Val:
    """Where a field of the table stands."""
    return offset(code, table, "i64", index(WORDS[name]))


def _is_misaligned(code: Code, pointer: Val, alignment: int) -> Val:
    address = code.value(I64, f"ptrtoint {pointer} to i64")
    low = code.value(I64, f"and i64 {address.ref}, {alignment - 1}")
    return code.value(I1, f"icmp ne i64 {low.ref}, 0")


def _leave_if(code: Code, conditions: Sequence[Val], status: int) -> None:
    if not conditions:
        return
    bad, *others = conditions
    for other in others:
        bad = code.binary("or", bad, other)
    leave, go_on = code.fresh_label("leave"), code.fresh_label("fine")
    code.do(f"br {bad}, label %{leave}, label %{go_on}")
    code.enter(leave)
    code.do(f"ret i32 {status}")
    code.enter(go_on)


def large_arrays(signature: Signature, request: EmitRequest) -> dict[int, np.ndarray]:
    """The parameters that places are reserved for, by the numbers of their arguments."""
    places = signature.state_places
    held = (
        (i, _array(a, request.parameters))
        for i, a in enumerate(signature.arguments)
        if a.name in request.parameters and a not in places
    )
    return {i: array for i, array in held if array.nbytes >= LARGE}


def _array(argument: Argument, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """The parameter's data, row-major."""
    return np.ascontiguousarray(parameters[argument.name], NUMPY_DTYPES[argument.dtype])


def _embedded(
    module: Module,
    number: int,
    argument: Argument,
    parameters: Mapping[str, np.ndarray],
    *,
    reserved: bool,
) -> Val:
    """The parameter's data inside the artifact."""
    array = _array(argument, parameters)
    if reserved and array.nbytes >= LARGE:
        return Val(reserve(module, number, array.nbytes, ARENA_ALIGNMENT), PTR)
    return Val(module.data(array.tobytes(), ARENA_ALIGNMENT), PTR)


def _add_number(module: Module, name: str, number: int) -> None:
    """A function that gives it."""
    code = Code(module)
    code.do(f"ret i64 {number}")
    module.add_function(f"define i64 @{name}() nounwind", code)


def _add_state(module: Module, signature: Signature, request: EmitRequest) -> None:
    """What says how large a training step's state is, and what it begins with."""
    _add_number(module, f"{request.name}_state_bytes", signature.state_bytes)
    code = Code(module)
    code.do(f"ret ptr {module.data(first_state(signature, request.parameters), ARENA_ALIGNMENT)}")
    module.add_function(f"define ptr @{request.name}_start() nounwind", code)


def _add_status(module: Module, name: str, known: Mapping[int, str]) -> None:
    code = Code(module)
    for number, text in known.items():
        same, other = code.fresh_label("is"), code.fresh_label("not")
        is_it = code.value(I1, f"icmp eq i32 %code, {number}")
        code.do(f"br {is_it}, label %{same}, label %{other}")
        code.enter(same)
        code.do(f"ret ptr {_text(module, text)}")
        code.enter(other)
    code.do(f"ret ptr {_text(module, UNKNOWN_STATUS)}")
    module.add_function(f"define ptr @{name}_status(i32 %code) nounwind", code)


def _add_info(module: Module, request: EmitRequest) -> None:
    code = Code(module)
    code.do(f"ret ptr {_text(module, request.info)}")
    module.add_function(f"define ptr @{request.name}_info() nounwind", code)


def _text(module: Module, text: str) -> str:
    return module.data(text.encode() + b"\0", 1)
