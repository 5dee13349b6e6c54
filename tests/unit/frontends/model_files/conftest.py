"""Readers of model files are found as entry points."""

from __future__ import annotations

import pytest

from tests.support.model_bytes import model_formats as model_formats


@pytest.fixture(autouse=True)
def registered(model_formats: None) -> None:
    """For every test here."""
