"""Entry points of other distributions that cannot be loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphc as gc


def test_a_front_end_that_cannot_be_loaded_is_named_with_its_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "onnx_reader-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: onnx_reader\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[graphc.frontends]\nonnx = no_such_module\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    message = r"`onnx` of onnx_reader 2.0 \(no_such_module\) cannot be loaded: ModuleNotFoundError"
    with pytest.raises(gc.GraphcError, match=message):
        gc.loads("", language="onnx")
    assert gc.loads("x = Input(2)\n").model.find("x") is not None
