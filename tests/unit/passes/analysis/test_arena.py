"""Layouts of buffers: nothing overlaps that lives at the same time, and little is wasted."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from graphc.passes.analysis.arena import MOST_TRIED, Buffer, lay_out, most_alive

buffers = st.builds(
    lambda size, start, life: Buffer(64 * size, start, start + life),
    st.integers(0, 40),
    st.integers(0, 30),
    st.integers(0, 12),
)


@given(st.lists(buffers, max_size=30))
def test_buffers_that_live_together_do_not_overlap(found: list[Buffer]) -> None:
    layout = lay_out(found)
    placed = list(zip(found, layout.offsets, strict=True))
    for (a, at_a), (b, at_b) in combinations(placed, 2):
        together = a.start <= b.end and b.start <= a.end
        apart = at_a + a.size <= at_b or at_b + b.size <= at_a
        assert apart or not together or 0 in (a.size, b.size)
    assert all(at + b.size <= layout.end for b, at in placed)


@given(st.lists(buffers, max_size=30))
def test_a_layout_needs_at_least_what_lives_at_once(found: list[Buffer]) -> None:
    assert lay_out(found).end >= most_alive(found)


def test_a_small_buffer_in_the_middle_does_not_keep_a_large_one_out() -> None:
    # In the order of time, the second one divides the memory that the third one needs.
    found = [Buffer(64, 0, 1), Buffer(64, 1, 4), Buffer(192, 2, 3), Buffer(64, 0, 0)]
    assert lay_out(found).end == most_alive(found) == 256


def test_many_buffers_are_placed_in_the_order_of_time() -> None:
    found = [Buffer(64, i, i + 1) for i in range(3 * MOST_TRIED)]
    assert lay_out(found).end == most_alive(found) == 128


def test_no_buffers_need_no_memory() -> None:
    assert lay_out([]).end == 0
