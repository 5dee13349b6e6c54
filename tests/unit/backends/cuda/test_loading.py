"""Which of several images a GPU is given."""

from __future__ import annotations

import pytest

from graphc.backends.cuda.compiler import Image
from graphc.backends.cuda.loading import runs_on


@pytest.mark.parametrize(
    ("arch", "capability", "is_taken"),
    [
        ("sm_90", 90, True),
        ("sm_80", 86, True),
        ("sm_86", 80, False),
        ("sm_80", 90, False),
        ("sm_120", 120, True),
        ("sm_100", 120, False),
    ],
)
def test_code_runs_on_later_gpus_of_its_series(arch: str, capability: int, is_taken: bool) -> None:
    assert runs_on(Image(arch, b""), capability) is is_taken
