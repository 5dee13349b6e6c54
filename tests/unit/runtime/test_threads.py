"""How many threads: what is asked for, the environment, the cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.runtime.threads import MAX_THREADS, said_grain, thread_count, usable_cores
from graphc.support.diagnostics import GraphcError


def test_what_is_asked_for_goes_before_the_environment() -> None:
    assert thread_count(3, {"GRAPHC_NUM_THREADS": "5"}) == 3
    assert thread_count(None, {"GRAPHC_NUM_THREADS": " 5 "}) == 5
    assert thread_count(None, {"GRAPHC_NUM_THREADS": ""}) == usable_cores()
    assert thread_count(None, {}) == usable_cores() >= 1


@pytest.mark.parametrize("threads", [0, -1, MAX_THREADS + 1, 10000, 1.5, "2", True])
def test_a_wrong_number_is_one_clear_error(threads: object) -> None:
    with pytest.raises(GraphcError, match="threads requires a whole number from 1 to 1024") as e:
        thread_count(threads, {})  # type: ignore[arg-type]
    assert [d.slug for d in e.value.diagnostics] == ["bad-option"]


@pytest.mark.parametrize("text", ["0", "-1", "10000", "1.5", "two", "٢", "1e1"])
def test_a_wrong_variable_names_itself(text: str) -> None:
    with pytest.raises(GraphcError, match="GRAPHC_NUM_THREADS requires a whole number"):
        thread_count(None, {"GRAPHC_NUM_THREADS": text})


def test_the_grain_is_said_in_microseconds() -> None:
    assert said_grain({}) is said_grain({"GRAPHC_GRAIN": ""}) is None
    assert said_grain({"GRAPHC_GRAIN": " 25 "}) == 25_000
    assert said_grain({"GRAPHC_GRAIN": "0"}) == 0
    for text in ("-1", "2.5", "1000001", "much"):
        with pytest.raises(GraphcError, match="GRAPHC_GRAIN requires whole microseconds"):
            said_grain({"GRAPHC_GRAIN": text})


def _machine(folder: Path, siblings: dict[int, str]) -> Path:
    for processor, text in siblings.items():
        topology = folder / f"cpu{processor}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(text + "\n")
    return folder


def test_two_processors_of_one_core_count_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processors = _machine(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert usable_cores(processors, tmp_path / "none") == 2


def test_processors_without_a_known_core_count_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 4, 5}, raising=False)
    assert usable_cores(tmp_path, tmp_path / "none") == 3


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 4), ("150000 100000", 2), ("1000 100000", 1), ("x y", 4)]
)
def test_a_quota_of_the_group_is_a_limit(
    quota: str, cores: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert usable_cores(tmp_path, tmp_path / "cpu.max") == cores
