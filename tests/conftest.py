"""Markers, options and the collector of golden files; fixtures stand beside their tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.distributions import add_new_entry_points
from tests.support.golden import GoldenFile, collect_golden

GOLDEN = Path(__file__).parent / "golden"

# What one test compiles may not be what another one finds; tests of the cache give it a folder.
os.environ["GRAPHC_CACHE"] = "off"
# C that runs once; how far it is optimised changes no bit of what it computes.
os.environ["GRAPHC_CFLAGS"] = "-O1"

add_new_entry_points()

# No test may fail because the machine is busy.
settings.register_profile("graphc", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("graphc")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless",
        action="store_true",
        help="rewrite the exact output in golden files that carry a BLESS marker",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> GoldenFile | None:
    return collect_golden(file_path, parent, GOLDEN)
