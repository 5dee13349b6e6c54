"""The analysis of kernels: merged axes, strides, levels, sweeps, what is kept, where results go."""

from __future__ import annotations

import pytest

from graphc.ir.types import DType, Symbol, TensorType
from graphc.passes.analysis.loopnest import (
    Load,
    Nest,
    Reduce,
    Size,
    constants_of,
    copy_nest,
)
from graphc.passes.analysis.nestplan import nests_of
from tests.support.compiling import parse


def nests(
    body: str, *, inputs: dict[str, str], results: list[str], dims: str = "dim N <= 20\n"
) -> tuple[Nest, ...]:
    """The nests of a kernel with this body; argument %name of type tensor<…> per input."""
    arguments = ", ".join(f"%{n}: tensor<{t}> input" for n, t in inputs.items())
    inside = ", ".join(f"%{n}_: tensor<{t}>" for n, t in inputs.items())
    returned = ", ".join(f"y{i}: tensor<{t}>" for i, t in enumerate(results))
    made = ", ".join(f"%y{i}" for i in range(len(results)))
    types = ", ".join(f"tensor<{t}>" for t in results)
    operands = ", ".join(f"%{n}" for n in inputs)
    module = parse(
        f"{dims}func @f({arguments}) -> ({returned}) {{\n"
        f"  {made} = kernel {operands} : {types} {{\n  ^({inside}):\n{body}\n  }}\n"
        f"  return {made}\n}}\n"
    )
    first = module.functions[0].block.first
    assert first is not None
    return nests_of(first)


ROWS = """
    %m = reduce_max %x_ {axes = [1]} : tensor<Nx1xf32>
    %mb = broadcast %m {dims = [N, 10]} : tensor<Nx10xf32>
    %d = sub %x_, %mb : tensor<Nx10xf32>
    %e = exp %d : tensor<Nx10xf32>
    %s = reduce_sum %e {axes = [1]} : tensor<Nx1xf32>
"""
SOFTMAX = f"""{ROWS}
    %sb = broadcast %s {{dims = [N, 10]}} : tensor<Nx10xf32>
    %p = div %e, %sb : tensor<Nx10xf32>
    yield %p
"""


def test_axes_that_everything_walks_become_one() -> None:
    body = "    %0 = neg %x_ : tensor<Nx4x1x5xf32>\n    yield %0"
    (nest,) = nests(body, inputs={"x": "Nx4x1x5xf32"}, results=["Nx4x1x5xf32"])
    assert nest.dims == (Size(20, ("N",)),)
    assert nest.bound == 400
    assert all(access.strides == (Size(1),) for access in nest.accesses())


def test_a_broadcast_keeps_axes_apart_and_has_no_stride() -> None:
    body = """
    %0 = broadcast %b_ {dims = [N, 5]} : tensor<Nx5xf32>
    %1 = add %x_, %0 : tensor<Nx5xf32>
    yield %1"""
    (nest,) = nests(body, inputs={"x": "Nx5xf32", "b": "1x5xf32"}, results=["Nx5xf32"])
    assert nest.dims == (Size(1, ("N",)), Size(5))
    strides = {
        access.index: access.strides for access in nest.accesses() if access.kind == "operand"
    }
    assert strides == {0: (Size(5), Size(1)), 1: (None, Size(1))}


def test_strides_are_products_of_inner_extents_symbols_too() -> None:
    body = """
    %0 = broadcast %b_ {dims = [3, N, 5]} : tensor<3xNx5xf32>
    %1 = add %x_, %0 : tensor<3xNx5xf32>
    yield %1"""
    inputs = {"x": "3xNx5xf32", "b": "3x1x5xf32"}
    (nest,) = nests(body, inputs=inputs, results=["3xNx5xf32"])
    strides = {
        access.index: access.strides for access in nest.accesses() if access.kind == "operand"
    }
    assert strides[0] == (Size(5, ("N",)), Size(5), Size(1))
    assert strides[1] == (Size(5), None, Size(1))
    assert nest.symbols() == ("N",)


def test_softmax_takes_three_sweeps_and_keeps_the_exponential_in_its_result() -> None:
    (nest,) = nests(SOFTMAX, inputs={"x": "Nx10xf32"}, results=["Nx10xf32"])
    assert len(nest.sweeps) == 3
    (keep,) = nest.keeps
    assert keep.access == nest.stores[0].access
    assert [len(sweep.reduce) for sweep in nest.sweeps] == [1, 1, 0]
    assert [keep.value in sweep.keep for sweep in nest.sweeps] == [False, True, False]
    assert nest.sweeps[2].reload == (keep.value,)


def test_a_light_value_is_computed_again() -> None:
    body = """
    %s = reduce_sum %d_ {axes = [1]} : tensor<Nx1xf32>
    %two = add %d_, %d_ : tensor<Nx10xf32>
    %t = reduce_max %two {axes = [1]} : tensor<Nx1xf32>
    %sb = broadcast %s {dims = [N, 10]} : tensor<Nx10xf32>
    %1 = mul %two, %sb : tensor<Nx10xf32>
    yield %1, %t"""
    (nest,) = nests(body, inputs={"d": "Nx10xf32"}, results=["Nx10xf32", "Nx1xf32"])
    assert nest.keeps == ()
    assert len(nest.sweeps) == 2


def test_a_heavy_value_without_a_free_result_gets_a_buffer() -> None:
    body = f"""{ROWS}
    %sb = broadcast %s {{dims = [N, 10]}} : tensor<Nx10xf32>
    %p = div %e, %sb : tensor<Nx10xf32>
    %q = reduce_max %p {{axes = [1]}} : tensor<Nx1xf32>
    yield %q"""
    (nest,) = nests(body, inputs={"x": "Nx10xf32"}, results=["Nx1xf32"])
    assert [keep.access for keep in nest.keeps] == [None]


def test_a_value_stored_earlier_is_read_back_from_there_and_not_kept_twice() -> None:
    body = f"""{ROWS}
    %sb = broadcast %s {{dims = [N, 10]}} : tensor<Nx10xf32>
    %p = div %e, %sb : tensor<Nx10xf32>
    yield %e, %p"""
    (nest,) = nests(body, inputs={"x": "Nx10xf32"}, results=["Nx10xf32", "Nx10xf32"])
    (keep,) = nest.keeps
    assert keep.access is not None
    assert keep.access.index == 0
    assert all(not sweep.keep for sweep in nest.sweeps)


def test_a_row_value_is_computed_between_sweeps() -> None:
    body = f"""{ROWS}
    %l = log %s : tensor<Nx1xf32>
    yield %l"""
    (nest,) = nests(body, inputs={"x": "Nx10xf32"}, results=["Nx1xf32"])
    assert [len(rows.compute) for rows in nest.rows] == [0, 0, 1]
    assert [rows.store for rows in nest.rows] == [(), (), (0,)]


@pytest.mark.parametrize(
    ("axes", "result", "dims", "lane_reductions"),
    [
        ([0], "1x7x5xf32", 2, 0),
        ([2], "Nx7x1xf32", 2, 1),
        ([1, 2], "Nx1x1xf32", 2, 1),
        ([0, 2], "1x7x1xf32", 3, 1),
        ([0, 1, 2], "1x1x1xf32", 1, 1),
    ],
    ids=str,
)
def test_reductions_fold_lanes_first_and_combine_over_outer_dims(
    axes: list[int], result: str, dims: int, lane_reductions: int
) -> None:
    body = f"    %0 = reduce_sum %x_ {{axes = {axes}}} : tensor<{result}>\n    yield %0"
    (nest,) = nests(body, inputs={"x": "Nx7x5xf32"}, results=[result])
    (store,) = nest.stores
    reduces = [s for s in nest.statements if isinstance(s.work, Reduce)]
    assert (len(nest.dims), len(reduces)) == (dims, lane_reductions)
    assert (store.combine is not None) is (0 in axes and dims > 1)


def test_results_of_different_spaces_get_nests_of_their_own_the_largest_first() -> None:
    body = """
    %0 = broadcast %b_ {dims = [N, 5]} : tensor<Nx5xf32>
    %1 = add %x_, %0 : tensor<Nx5xf32>
    %2 = add %b_, %b_ : tensor<1x5xf32>
    yield %2, %1"""
    inputs = {"x": "Nx5xf32", "b": "1x5xf32"}
    made = nests(body, inputs=inputs, results=["1x5xf32", "Nx5xf32"])
    assert [len(nest.dims) for nest in made] == [2, 1]
    assert [[s.access.index for s in nest.stores] for nest in made] == [[1], [0]]
    loads = [s.work.access.index for s in made[1].statements if isinstance(s.work, Load)]
    assert loads == [1]


def test_extents_of_one_leave_no_loops() -> None:
    body = "    %0 = neg %x_ : tensor<1x1xf32>\n    yield %0"
    (nest,) = nests(body, inputs={"x": "1x1xf32"}, results=["1x1xf32"])
    assert (nest.dims, nest.lane, nest.sweeps) == ((), -1, ())
    assert nest.rows[0].store == (0,)


def test_a_reduction_over_an_extent_of_one_is_its_operand() -> None:
    body = "    %0 = reduce_sum %x_ {axes = [1]} : tensor<Nx1xf32>\n    yield %0"
    (nest,) = nests(body, inputs={"x": "Nx1xf32"}, results=["Nx1xf32"])
    assert not [s for s in nest.statements if isinstance(s.work, Reduce)]


def test_a_sum_over_what_does_not_vary_still_walks_the_extent() -> None:
    body = """
    %0 = broadcast %x_ {dims = [N, 5]} : tensor<Nx5xf32>
    %1 = reduce_sum %0 {axes = [1]} : tensor<Nx1xf32>
    yield %1"""
    (nest,) = nests(body, inputs={"x": "Nx1xf32"}, results=["Nx1xf32"])
    assert nest.dims == (Size(1, ("N",)), Size(5))


def test_constants_of_several_elements_are_ports() -> None:
    module = parse(
        "func @f(%x: tensor<3xf32> input) -> (y: tensor<3xf32>) {\n"
        "  %y = kernel %x : tensor<3xf32> {\n  ^(%a: tensor<3xf32>):\n"
        "    %c = constant {type = tensor<3xf32>, value = [1.0, 2.0, 3.0]} : tensor<3xf32>\n"
        "    %d = constant {type = tensor<3xf32>, value = [2.0]} : tensor<3xf32>\n"
        "    %0 = mul %a, %c : tensor<3xf32>\n    %1 = add %0, %d : tensor<3xf32>\n"
        "    yield %1\n  }\n  return %y\n}\n"
    )
    kernel = module.functions[0].block.first
    assert kernel is not None
    assert [p.value for p in constants_of(kernel)] == [(1.0, 2.0, 3.0)]
    (nest,) = nests_of(kernel)
    assert [p.index for p in nest.accesses() if p.kind == "constant"] == [0]


def test_an_index_keeps_its_axis_apart() -> None:
    body = """
    %0 = iota {type = tensor<4x5xf32>, axis = 0} : tensor<4x5xf32>
    %1 = add %x_, %0 : tensor<4x5xf32>
    yield %1"""
    (nest,) = nests(body, inputs={"x": "4x5xf32"}, results=["4x5xf32"])
    assert nest.dims == (Size(4), Size(5))


def test_a_copy_is_a_nest_of_one_dim() -> None:
    nest = copy_nest(TensorType((Symbol("N", 6), 3), DType.I1))
    assert (nest.dims, nest.bound) == ((Size(3, ("N",)),), 18)
