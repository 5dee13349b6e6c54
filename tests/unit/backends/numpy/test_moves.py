"""Rearrangements as numpy text. That it computes what references say is the conformance test's."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends.base import EmitRequest
from graphc.backends.numpy import BACKEND
from graphc.backends.numpy.emit import emit_function
from graphc.backends.numpy.moves import MoveText
from graphc.backends.numpy.names import Names
from graphc.backends.numpy.text import Constants, Lines
from graphc.backends.signature import make_signature
from graphc.ir.codegen import AffineCopy, AffineIndex, StridedCopy
from graphc.ir.params import NoParams
from graphc.ir.types import DType, TensorType
from graphc.support.diagnostics import InternalError
from tests.support.compiling import parse
from tests.support.native import fused


def lines(op: str, settings: str, given: str, made: str) -> list[str]:
    """What is written for one rearrangement of `x` into `y`."""
    module = parse(
        fused(f"""
{"dim N <= 8" if "N" in given else ""}
func @f(%x: tensor<{given}xf32> input) -> (y: tensor<{made}xf32>) {{
  %y = {op} %x {{{settings}}} : tensor<{made}xf32>
  return %y
}}
""")
    )
    (function,) = module.functions
    text = emit_function(function, [d.name for d in module.dims], "f").text
    return [line.removeprefix("        ") for line in text.splitlines()[7:] if line]


def test_a_transposition_is_a_view() -> None:
    assert lines("transpose", "permutation = [1, 0]", "Nx3", "3xN") == [
        "np.copyto(y, x.transpose(1, 0))"
    ]


def test_slices_leave_whole_axes_alone() -> None:
    settings = "starts = [0, 1, 2], stops = [N, 6, 4], steps = [1, 2, 1]"
    assert lines("slice", settings, "Nx7x5", "Nx3x2") == ["np.copyto(y, x[:, 1:7:2, 2:4])"]


def test_a_padding_is_filled_first() -> None:
    settings = "low = [0, 2], high = [0, 1], inner = [0, 1], value = 3.0"
    assert lines("pad", settings, "Nx2", "Nx6") == [
        "y.fill(C0)",
        "np.copyto(y[:, 2:6:2], x)",
    ]


def test_backwards_is_a_slice_too() -> None:
    assert lines("reverse", "axes = [1]", "2xN", "2xN") == ["np.copyto(y, x[:, ::-1])"]


def test_windows_are_a_view_with_strides() -> None:
    settings = "axis = 1, sizes = [3], strides = [2]"
    assert lines("patches", settings, "Nx7x4", "Nx3x3x4") == [
        "steps = x.strides",
        "view = np.lib.stride_tricks.as_strided(",
        "    x, (N, 3, 3, 4), (steps[0], steps[1] * 2, steps[1], steps[2])",
        ")",
        "np.copyto(y, view)",
    ]


def test_windows_are_added_offset_by_offset() -> None:
    """The last offset first: where two windows meet, the earlier one has the larger offset."""
    settings = "axis = 1, extents = [7], strides = [2]"
    assert lines("overlap_add", settings, "Nx3x3", "Nx7") == [
        "y.fill(C0)",
        "for offset in range(2, -1, -1):",
        "    y[:, offset:offset + 6:2] += x[:, :, offset]",
    ]


def written(copy: AffineCopy, operand: TensorType, result: TensorType, *, adds: bool) -> str:
    text = Lines()
    names = Names()
    how = StridedCopy(lambda _p, _o, _r: [copy], adds=adds)
    move = MoveText(str, names, Constants(names), text)
    move.write(how, NoParams(), [("x", operand)], ("y", result))
    return text.text()


WHOLE = AffineIndex(0, ((0, 1),))


def test_windows_may_begin_inside_the_operand() -> None:
    copy = AffineCopy(
        0, (3, 2), (AffineIndex(1, ((0, 1), (1, 1))),), (WHOLE, AffineIndex(0, ((1, 1),)))
    )
    text = written(copy, TensorType((6,), DType.F32), TensorType((3, 2), DType.F32), adds=False)
    given = {"np": np, "x": np.arange(6.0), "y": np.empty((3, 2))}
    exec(text, given)  # noqa: S102  # the text that was just written
    np.testing.assert_array_equal(given["y"], [[1, 2], [2, 3], [3, 4]])


@pytest.mark.parametrize(
    ("copy", "adds"),
    [
        (AffineCopy(0, (3, 2), (AffineIndex(0, ((0, 1), (1, 1)), True),), (WHOLE, WHOLE)), False),
        (AffineCopy(0, (3, 2), (WHOLE,), (WHOLE, AffineIndex(0, ((1, 1),)))), False),
        (AffineCopy(0, (3, 2), (WHOLE,), (AffineIndex(0, ((0, 1), (1, 1), (0, 2))),) * 2), True),
    ],
    ids=["windows backwards", "repeated elements", "three terms"],
)
def test_what_no_operation_asks_for_is_refused(copy: AffineCopy, adds: bool) -> None:
    square = TensorType((3, 2), DType.F32)
    with pytest.raises(InternalError):
        written(copy, TensorType((6,), DType.F32), square, adds=adds)


def test_a_standalone_file_moves_elements_without_graphc() -> None:
    module = parse(
        fused("""
dim N <= 4
func @f(%x: tensor<Nx4x4xf32> input) -> (y: tensor<Nx4x4xf32>) {
  %a = patches %x {axis = 1, sizes = [2, 2], strides = [1, 1]} : tensor<Nx3x3x2x2xf32>
  %y = overlap_add %a {axis = 1, extents = [4, 4], strides = [1, 1]} : tensor<Nx4x4xf32>
  return %y
}
""")
    )
    (function,) = module.functions
    request = EmitRequest("moves", {}, "{}")
    text = BACKEND.emit["py"].make(function, make_signature(module, function), request)
    given: dict[str, object] = {"__name__": "moves"}
    exec(compile(text, "moves.py", "exec"), given)  # noqa: S102  # the text that was just written
    times = np.outer([1, 2, 2, 1], [1, 2, 2, 1])
    x = np.ones((2, 4, 4), np.float32)
    np.testing.assert_array_equal(given["run"](x)["y"], [times, times])  # type: ignore[operator]
