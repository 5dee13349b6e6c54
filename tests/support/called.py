"""A plain Python function as a compiled one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graphc.runtime.compiled import CompiledFunction

Array = np.ndarray


class Called(CompiledFunction):
    """Calls `function(arguments, results, sizes)`."""

    def __init__(
        self, function: Callable[[Sequence[Array], Sequence[Array], Mapping[str, int]], object]
    ) -> None:
        self._function = function

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        self._function(arguments, results, sizes)
