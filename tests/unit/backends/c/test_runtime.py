"""The compilation of C for calls from Python: what is called, what is left, what is reported."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.artifacts.link import find_compiler
from graphc.support.diagnostics import BackendUnavailable, GraphcError

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
TEXT = "x = Input(300)\nW = LearnableParameter(40, 300)\nz = Tanh(Times(W, x), tag=output)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@needs_compiler
def test_no_file_is_left(folder: Path) -> None:
    compiled = gc.compile(gc.loads(TEXT), backend="c")
    assert list(folder.iterdir()) == []
    x = np.random.default_rng(0).standard_normal((5, 300)).astype(np.float32)
    wanted = gc.compile(gc.loads(TEXT), backend="numpy")(x=x)["z"]
    np.testing.assert_allclose(compiled(x=x)["z"], wanted, rtol=1e-5, atol=1e-6)


@needs_compiler
def test_threads_share_the_work_with_the_same_bits() -> None:
    text = TEXT.replace("40", "400")
    alone, shared = (gc.compile(gc.loads(text), backend="c", threads=n) for n in (1, 2))
    x = np.random.default_rng(0).standard_normal((256, 300)).astype(np.float32)
    np.testing.assert_array_equal(alone(x=x)["z"], shared(x=x)["z"])


def test_without_a_compiler_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "nosuchcc")
    wanted = "calls through the c backend need a C compiler, and CC names `nosuchcc`"
    with pytest.raises(BackendUnavailable, match=wanted):
        gc.compile(gc.loads(TEXT), backend="c")


@needs_compiler
def test_options_that_change_arithmetic_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHC_CFLAGS", "-O1 -ffast-math")
    with pytest.raises(GraphcError, match="without -ffast-math"):
        gc.compile(gc.loads(TEXT), backend="c")
