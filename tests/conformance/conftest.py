"""Everything in this folder runs native code in guarded memory."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support.guarded import guarded_buffers


@pytest.fixture(autouse=True)
def memory_is_guarded() -> Generator[None]:
    with guarded_buffers():
        yield
