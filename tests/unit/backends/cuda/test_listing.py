"""Programs as text for people."""

from __future__ import annotations

import pytest

from graphc.backends.cuda.kernel import Kernel, Tiles
from graphc.backends.cuda.listing import program_lines
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import Either, Launch, Number, Part, Place, Turns, Where
from graphc.passes.analysis.loopnest import Size
from graphc.runtime.signature import Argument, Dimension, Result, Signature

T, ROW = Size(1, ("T",)), Size(3)
SIGNATURE = Signature(
    "main",
    (Dimension("T", 8),),
    (Argument("x", "f32", ("T", 3), "input"), Argument("W", "f32", (3, 3), "parameter")),
    (Result("y", "f32", ("T", 3)),),
    64,
)
X, W, Y = (Place("buffer", i, 96) for i in range(3))
ARENA = Place("arena", 64, 12)


def lines(where: Where, tiles: Tiles = Tiles()) -> list[str]:  # noqa: B008
    kernel = Kernel("k0", ("const float *", "float *"), (), tiles, "")
    launch = Launch("k0", (where, Y), "`y` = add", frozenset({1}))
    return program_lines(Program({"k0": kernel}, (launch,)), SIGNATURE)


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        (X, "x"),
        (ARENA, "arena + 64"),
        (Part(X, Number(Size(0), 1), ROW, 4), "x[t]"),
        (Part(ARENA, Number(T, -1, 1, -1), ROW, 4), "(arena + 64)[T - u - 1]"),
        (Part(X, Number(Size(0), -1), ROW, 4), "x[-t]"),
        (Part(X, Number(Size(2), 1, 0, -1), ROW, 4), "x[t + 1]"),
        (Part(X, Number(Size(0)), ROW, 4), "x[0]"),
        (Either(Number(Size(0), 1), Part(X, Number(Size(0), 1, 0, -1), ROW, 4), W),
         "(t > 0 ? x[t - 1] : W)"),
    ],
)  # fmt: skip
def test_an_array_is_shown_as_people_write_it(where: Where, shown: str) -> None:
    assert lines(where) == [f"k0  1 tile  ({shown} -> y)  `y` = add"]


@pytest.mark.parametrize(
    ("tiles", "shown"),
    [
        (Tiles(((Size(1025), 1024),)), "2 tiles"),
        (
            Tiles(((Size(3, ("N", "T")), 64), (Size(1, ("T",)), 1))),
            "ceil(3 * N * T / 64) * T tiles",
        ),
        (Tiles(((Size(64), 64),), (Tiles(((T, 2),)),)), "1 + ceil(T / 2) tiles"),
    ],
)
def test_tiles_are_counted_as_far_as_they_are_known(tiles: Tiles, shown: str) -> None:
    (line,) = lines(X, tiles)
    assert line.split("  ")[1] == shown


def test_loops_are_indented_and_turns_have_names() -> None:
    kernel = Kernel("k0", ("float *",), (), Tiles(), "")
    launch = Launch("k0", (Y,), "fill", frozenset({0}))
    inner = Turns(1, Number(Size(2)), (launch,))
    program = Program({"k0": kernel}, (Turns(0, Number(T), (inner, launch)),))
    assert program_lines(program, SIGNATURE) == [
        "for t = 0 .. T - 1",
        "  for u = 0 .. 1",
        "    k0  1 tile  (-> y)  fill",
        "  k0  1 tile  (-> y)  fill",
    ]


def test_blocks_that_wait_for_each_other_run_at_once() -> None:
    kernel = Kernel("k0", ("float *",), (), Tiles(((Size(6), 1),)), "", together=True)
    program = Program({"k0": kernel}, (Launch("k0", (Y,), "all", frozenset({0})),))
    assert program_lines(program, SIGNATURE) == ["k0  6 blocks at once  (-> y)  all"]
