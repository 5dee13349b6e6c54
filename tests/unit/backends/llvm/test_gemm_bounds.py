"""Products touch nothing outside their matrices: these lie between pages without any access."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("isa", ["x86-64", "native"])
def test_nothing_outside_the_matrices_is_read_or_written(isa: str, dtype: str) -> None:
    command = [sys.executable, "-m", "tests.support.guarded_products", isa, dtype]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
