"""What the tests of artifacts share: one place to build in, and the programs of the system."""

from __future__ import annotations

import shutil

import pytest

from graphc.artifacts.link import find_compiler
from tests.support.c_networks import Tool, Workshop


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    if find_compiler() is None:
        pytest.skip("no C compiler found")
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture
def tool() -> Tool:
    """The path of a program of the system; skips the test where it is not installed."""

    def find(name: str) -> str:
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not installed")
        return found

    return find
