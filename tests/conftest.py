"""Markers, options and the collector of golden files; fixtures stand beside their tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

from graphc.backends.cuda.platform import NVIDIA, using
from tests.support.compiled_once import code_kept
from tests.support.cuda.emulator import emulated_platform
from tests.support.distributions import add_new_entry_points
from tests.support.golden import GoldenFile, collect_golden

GOLDEN = Path(__file__).parent / "golden"

BETWEEN_COLLECTIONS = (50_000, 10, 50)
"""What `gc.set_threshold` takes: new objects, collections of these, and of those."""

# What one test compiles may not be what another one finds; tests of the cache give it a folder.
os.environ["GRAPHC_CACHE"] = "off"
# C that runs a few times, compiled about as fast as by -O0; how far it is optimised changes no bit.
os.environ["GRAPHC_CFLAGS"] = "-Og"

add_new_entry_points()

# No test may fail because the machine is busy.
settings.register_profile("graphc", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("graphc")


@pytest.fixture(autouse=True)
def gpus_are_emulated(request: pytest.FixtureRequest) -> Generator[None]:
    """A test that is given the name `cuda` runs on an emulated GPU where there is none."""
    callspec = getattr(request.node, "callspec", None)
    given = callspec.params.values() if callspec else ()
    is_asked = any(isinstance(value, str) and value == "cuda" for value in given)
    if is_asked and NVIDIA.missing():
        with using(emulated_platform()):
            yield
    else:
        yield


def pytest_configure(config: pytest.Config) -> None:
    """One folder for xdist's processes: the first one makes it, those that it starts inherit it.

    A shell has what it starts in the background ignore Ctrl-C, which tests send to themselves.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    keeping = ExitStack()
    keeping.enter_context(code_kept())
    if sys.dont_write_bytecode:
        keeping.enter_context(bytecode_kept())
    config.add_cleanup(keeping.close)


@contextmanager
def bytecode_kept() -> Generator[None]:
    """Processes that are started leave Python's code of graphc in a folder that goes with the run,
    where Python is told to leave none elsewhere: each would take a second to compile it again."""
    with tempfile.TemporaryDirectory(prefix="graphc-tests-") as folder:
        own = {"PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        with patch.dict(os.environ, own):
            yield


def pytest_collection_finish() -> None:
    """Nothing of what was collected is ever garbage: it need not be looked at each time.

    Nor is what tests leave looked at as often as Python would, which took a sixth of their time.
    """
    gc.freeze()
    gc.set_threshold(*BETWEEN_COLLECTIONS)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--bless",
        action="store_true",
        help="rewrite the exact output in golden files that carry a BLESS marker",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> GoldenFile | None:
    return collect_golden(file_path, parent, GOLDEN)
