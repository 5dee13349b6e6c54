"""The rules between epochs, apart from any training: traces that were worked out by hand."""

from __future__ import annotations

import math

import pytest

import graphc as gc
from graphc.learn.minibatch_search import SizeTrial, search_minibatch
from graphc.learn.rate_control import RateOutcome, RateState, after_epoch
from graphc.learn.rate_search import RateTrial, SearchState, search_rate
from graphc.learn.stopping import Patience

INF, NAN = math.inf, math.nan


def trace(
    rule: gc.AdjustAfterEpoch, criteria: list[float], *, rate: float = 1.0, listed: int = 1
) -> list[RateOutcome]:
    """The outcome of each epoch, as far as the rule lets it come."""
    found: list[RateOutcome] = []
    state = RateState(rate)
    for epoch, criterion in enumerate(criteria):
        found.append(after_epoch(rule, state, epoch, criterion, listed))
        state = found[-1].state
        if found[-1].finished:
            break
    return found


def rates(outcomes: list[RateOutcome]) -> list[float]:
    return [outcome.state.rate for outcome in outcomes]


def test_the_rate_falls_where_the_criterion_does_not() -> None:
    rule = gc.AdjustAfterEpoch(decrease=0.5)
    found = trace(rule, [4.0, 3.0, 3.0, 3.5, 2.0])
    assert rates(found) == [1, 1, 0.5, 0.25, 0.25]
    assert [o.undo for o in found] == [False, False, False, True, False]
    assert [o.change for o in found] == ["", "", "reduced", "reduced", ""]


def test_an_epoch_that_is_undone_leaves_what_the_next_is_compared_with() -> None:
    found = trace(gc.AdjustAfterEpoch(decrease=0.5), [4.0, 5.0, 4.5, 3.9])
    assert [o.undo for o in found] == [False, True, True, False]
    assert [o.state.previous for o in found] == [4.0, 4.0, 4.0, 3.9]
    kept = trace(gc.AdjustAfterEpoch(decrease=0.5, load_best=False), [4.0, 5.0, 4.5])
    assert [o.state.previous for o in kept] == [4.0, 5.0, 4.5]
    assert rates(kept) == [1, 0.5, 0.5]


def test_improvements_are_shares_of_the_criterion_before() -> None:
    """From 4 to 3.9 it is 2.5 %, from 3.9 to 2 it is 49 %, from 2 to 1.9 it is 5 %."""
    rule = gc.AdjustAfterEpoch(
        reduce_if_improves_less_than=0.03,
        increase_if_improves_more_than=0.4,
        decrease=0.5,
        increase=3.0,
    )
    found = trace(rule, [4.0, 3.9, 2.0, 1.9])
    assert rates(found) == [1, 0.5, 1.5, 1.5]
    assert [o.change for o in found] == ["", "reduced", "increased", ""]
    exactly = trace(gc.AdjustAfterEpoch(reduce_if_improves_less_than=0.25), [4.0, 3.0])
    assert exactly[-1].change == "reduced"


def test_epochs_with_rates_of_their_own_adjust_nothing_but_are_compared_with() -> None:
    found = trace(gc.AdjustAfterEpoch(decrease=0.5), [4.0, 5.0, 6.0, 5.5], listed=3)
    assert rates(found) == [1, 1, 1, 1]
    assert not any(o.undo for o in found)
    later = trace(gc.AdjustAfterEpoch(decrease=0.5), [4.0, 5.0, 5.5], listed=2)
    assert [o.undo for o in later] == [False, False, True]


def test_an_interval_compares_averages() -> None:
    """Averages of pairs: 4.5, then 4.5 (no improvement), then 2."""
    rule = gc.AdjustAfterEpoch(interval=2, decrease=0.5)
    found = trace(rule, [5.0, 4.0, 6.0, 3.0, 2.0, 2.0])
    assert rates(found) == [1, 1, 1, 0.5, 0.5, 0.5]
    assert [o.state.previous for o in found] == [INF, 4.5, 4.5, 4.5, 4.5, 2.0]
    assert [o.state.average for o in found] == [5.0, 4.5, 6.0, 4.5, 2.0, 2.0]


def test_reducing_goes_on_and_the_second_failure_is_the_end() -> None:
    rule = gc.AdjustAfterEpoch(
        continue_reducing=True, decrease=0.5, increase_if_improves_more_than=0.0
    )
    found = trace(rule, [4.0, 3.0, 3.0, 2.0, 1.0, 1.0, 0.5])
    assert rates(found) == [1, 1, 0.5, 0.25, 0.125, 0.125]
    assert [o.finished for o in found] == [False] * 5 + [True]


def test_a_criterion_that_is_no_number_is_undone_and_reduces_the_rate() -> None:
    found = trace(gc.AdjustAfterEpoch(decrease=0.5), [4.0, NAN, 3.0])
    assert rates(found) == [1, 0.5, 0.5]
    assert found[1].undo and found[1].state.previous == 4.0
    assert found[2].state.previous == 3.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"decrease": 0},
        {"decrease": 1.5},
        {"increase": 0.9},
        {"interval": 0},
        {"interval": 1.5},
        {"reduce_if_improves_less_than": NAN},
        {"listed": -1},
    ],
)
def test_wrong_numbers_of_the_rule_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(gc.GraphcError):
        gc.AdjustAfterEpoch(**wrong)  # pyright: ignore[reportArgumentType]


# --- the search for a rate -----------------------------------------------------------------------


def search(
    criterion: dict[float, float] | None = None,
    *,
    rule: gc.SearchBeforeEpoch | None = None,
    state: SearchState | None = None,
    epoch: int = 3,
    previous: float = INF,
    share: float | None = None,
    limit: float = 0.1,
) -> tuple[float, float, list[RateTrial]]:
    """A search in which rates above `limit` reach 9 and those below 2; without a rate it is 5."""
    seen: list[RateTrial] = []

    def trial(asked: RateTrial) -> float:
        seen.append(asked)
        if criterion is not None and asked.rate in criterion:
            return criterion[asked.rate]
        return 5.0 if asked.rate == 0 else 9.0 if asked.rate > limit else 2.0

    rule = rule or gc.SearchBeforeEpoch(refined_epochs=0)
    state = state or SearchState()
    found, base = search_rate(rule, state, epoch, previous, share, 16, trial)
    return found, base, seen


def test_the_first_search_goes_down_from_an_eighth_over_the_root_of_the_minibatch() -> None:
    found, base, seen = search(limit=0.012)
    assert [t.rate for t in seen] == pytest.approx([0, 1 / 32, 0.618 / 32, 0.618**2 / 32])
    assert found == pytest.approx(0.618**2 / 32) and base == 5.0
    assert [t.purpose for t in seen] == ["base", *["downwards"] * 3]


def test_later_searches_begin_above_the_largest_of_the_last_rates() -> None:
    state = SearchState((0.01, 0.04, 0.02))
    found, _, seen = search(state=state, limit=1)
    assert [t.rate for t in seen] == pytest.approx([0, 0.04 / 0.618])
    rule = gc.SearchBeforeEpoch(previous_rates=2)
    after = state.after(found, 0.02, rule)
    assert after.rates == (0.02, found) and after.factor == pytest.approx(0.04 / 0.618 / 0.02)


def test_what_the_epoch_before_reached_makes_the_base_larger() -> None:
    assert search(previous=7.0)[1] == pytest.approx(0.3 * 7 + 0.7 * 5)
    assert search(previous=7.0, share=0.25)[1] == pytest.approx(0.5 * 7 + 0.5 * 5)
    assert search(previous=3.0)[1] == 5.0


def test_a_search_that_finds_nothing_ends_at_a_rate_that_ends_the_training() -> None:
    found, _, seen = search(limit=0)
    assert found <= 0.3e-9 < seen[-2].rate
    with_nan, _, _ = search({1 / 32 * 1.0: NAN}, limit=1)
    assert with_nan < 1 / 32


def test_first_epochs_are_searched_between_two_ends() -> None:
    """Criterion (rate - 0.01)²: the ends 0.01/16 and 1/32 move towards 0.01."""
    seen: list[RateTrial] = []

    def trial(asked: RateTrial) -> float:
        seen.append(asked)
        return 1.0 if asked.rate == 0 else (asked.rate - 0.01) ** 2

    found, _ = search_rate(gc.SearchBeforeEpoch(), SearchState(), 0, INF, None, 16, trial)
    left, right, expected = 0.01 / 16, 1 / 32, ["base", "downwards", "ends"]
    while right > 1.2 * left:
        if (right - 0.01) ** 2 > (left - 0.01) ** 2:
            right *= 0.618
            expected.append("right")
        else:
            left /= 0.618
            expected.append("left")
    assert [t.purpose for t in seen] == expected
    assert found in (pytest.approx(left), pytest.approx(right))
    assert abs(found - 0.01) == pytest.approx(min(abs(left - 0.01), abs(right - 0.01)))


# --- the search for a minibatch ------------------------------------------------------------------


def sizes(
    *,
    rule: gc.AdaptiveMinibatch | None = None,
    epoch: int = 4,
    previous: int = 0,
    listed: int = 64,
    rate_change: float = 1.0,
    limit: float = INF,
) -> tuple[int, list[int]]:
    """The size found, and those tried, where sizes above `limit` are 2 % worse than the first."""
    seen: list[int] = []

    def trial(asked: SizeTrial) -> float:
        seen.append(asked.size)
        return 1.02 if asked.size > limit else 1.0

    rule = rule or gc.AdaptiveMinibatch()
    return search_minibatch(rule, epoch, previous, listed, rate_change, trial), seen


def test_sizes_grow_by_the_root_of_two_in_multiples_of_64() -> None:
    found, seen = sizes(rule=gc.AdaptiveMinibatch(maximum=300), listed=64)
    assert seen == [64, 64, 128, 192, 256] and found == 256


def test_the_last_size_within_the_margin_is_kept() -> None:
    assert sizes(limit=130)[0] == 128
    assert sizes(limit=130, rule=gc.AdaptiveMinibatch(margin=3, maximum=512))[0] == 512


def test_a_size_is_at_least_half_and_at_most_twice_the_one_before() -> None:
    found, seen = sizes(previous=1024, listed=64)
    assert seen[0] == 512 and found == 2048 and max(seen) == 2048
    assert sizes(epoch=1, previous=1024, rule=gc.AdaptiveMinibatch(maximum=128))[1][0] == 64


def test_a_smaller_rate_makes_the_smallest_size_larger() -> None:
    assert sizes(rate_change=0.25)[1][0] == 128
    assert sizes(rate_change=0.25, rule=gc.AdaptiveMinibatch(maximum=100)) == (100, [])


def test_between_searches_the_size_stays() -> None:
    rule = gc.AdaptiveMinibatch(interval=3)
    assert sizes(rule=rule, epoch=6, previous=192) == (192, [])
    assert sizes(rule=rule, epoch=8, previous=192)[1] != []


def test_a_criterion_that_is_no_number_ends_the_search() -> None:
    assert search_minibatch(gc.AdaptiveMinibatch(), 4, 0, 64, 1.0, lambda _: NAN) == 64


# --- patience ------------------------------------------------------------------------------------


def test_patience_counts_epochs_since_the_lowest_value() -> None:
    state, counts = Patience(), list[int]()
    for value in [3.0, 2.0, 2.5, NAN, 1.95, 1.0]:
        state = state.after(value, 0.1)
        counts.append(state.epochs)
    assert counts == [0, 0, 1, 2, 3, 0] and state.lowest == 1.0


def test_a_first_value_that_is_no_number_is_no_lowest() -> None:
    assert Patience().after(NAN) == Patience(INF, 1)
    assert Patience().after(NAN).after(5.0) == Patience(5.0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gc.SearchBeforeEpoch(minibatches=0),
        lambda: gc.SearchBeforeEpoch(previous_rates=0),
        lambda: gc.AdaptiveMinibatch(maximum=0),
        lambda: gc.AdaptiveMinibatch(margin=-1),
        lambda: gc.EarlyStopping(patience=0),
        lambda: gc.EarlyStopping(min_improvement=-1),
    ],
)
def test_wrong_numbers_of_other_records_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(gc.GraphcError):
        make()
