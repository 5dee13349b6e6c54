"""Targets by name and the classification of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.backends.llvm import target as target_module
from graphc.backends.llvm.target import (
    TARGETS,
    cache_bytes,
    host_target,
    native_target,
    target_named,
)
from graphc.ir.types import DType
from graphc.support.diagnostics import GraphcError

V3 = {"avx2": True, "fma": True, "bmi2": True, "f16c": True, "sse4.2": True}
V4 = V3 | dict.fromkeys(("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"), True)


@pytest.mark.parametrize(
    ("features", "isa", "bits"),
    [
        ({}, "x86-64", 128),
        ({"sse4.2": True}, "x86-64-v2", 128),
        (V3, "x86-64-v3", 256),
        (V3 | {"fma": False}, "x86-64-v2", 128),
        (V4, "x86-64-v4", 512),
    ],
)
def test_features_decide_the_level_and_the_width(
    features: dict[str, bool], isa: str, bits: int
) -> None:
    target = native_target("x86_64-unknown-linux-gnu", "some-cpu", "", features)
    assert (target.isa, target.machine.vector_bits) == (isa, bits)


@pytest.mark.parametrize("lends", [True, False])
def test_registers_of_amx_are_used_where_the_system_lends_them(
    lends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_module, "lends_amx", lambda: lends)
    features = V4 | dict.fromkeys(("avx512bf16", "amx-bf16", "amx-tile"), True)
    target = native_target("x86_64-unknown-linux-gnu", "sapphirerapids", "", features)
    assert target.isa == ("sapphirerapids" if lends else "x86-64-v4")
    assert (target.machine.has_amx, target.machine.dots_bf16) == (lends, True)
    without = native_target(
        "x86_64-unknown-linux-gnu", "znver4", "", features | {"amx-tile": False}
    )
    assert (without.machine.has_amx, without.machine.dots_bf16) == (False, True)


def test_another_architecture_gets_128_bits_and_its_own_name() -> None:
    target = native_target("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon", {})
    assert (target.isa, target.machine.vector_bits, target.machine.has_fma) == (
        "neoverse-n1",
        128,
        True,
    )


@pytest.mark.parametrize("name", TARGETS)
def test_a_named_target_states_its_name_as_level(name: str) -> None:
    assert target_named(name).isa == name


def test_native_is_the_host() -> None:
    assert target_named("native") == host_target()


def test_caches_of_data_are_read_from_the_system(tmp_path: Path) -> None:
    described = [("1", "Instruction", "64K"), ("1", "Data", "48K"), ("2", "Unified", "2M")]
    for number, texts in enumerate(described):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in zip(("level", "type", "size"), texts, strict=True):
            (folder / name).write_text(text + "\n", encoding="ascii")
    (tmp_path / "index3").mkdir()  # a container may hide what is in it
    assert [cache_bytes(level, tmp_path) for level in (1, 2, 3)] == [48 << 10, 2 << 20, 0]


def test_an_unknown_target_is_reported_with_a_near_name() -> None:
    with pytest.raises(GraphcError, match="x86-64-v3"):
        target_named("x86-64-v33")


def test_lanes_follow_the_width_and_the_size_of_elements() -> None:
    target = TARGETS["x86-64-v3"]
    assert [target.machine.lanes(d) for d in (DType.F32, DType.F64, DType.I64)] == [8, 4, 4]
