"""The reference backend: each operation's numpy meaning, no pass, no fusion. The judge in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.backends.base import Backend, CompiledFunction
from graphc.ir.core import Function
from graphc.ir.evaluate import evaluate
from graphc.runtime.signature import Signature


@dataclass(frozen=True)
class ReferenceFunction(CompiledFunction):
    """Evaluates a function operation by operation. Holds nothing between calls: thread-safe."""

    function: Function
    signature: Signature

    def __call__(
        self,
        arguments: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        sizes: Mapping[str, int],
    ) -> None:
        """See `CompiledFunction`."""
        given = {a.name: x for a, x in zip(self.signature.arguments, arguments, strict=True)}
        made = evaluate(self.function, given, sizes)
        # Copies first: a result may be an argument that another result overwrites.
        values = {name: np.array(value) for name, value in made.items()}
        fresh = iter(results)
        for result in self.signature.results:
            target = next(fresh) if result.updates is None else given[result.updates]
            np.copyto(target, values[result.name])


def _compile(function: Function, signature: Signature) -> CompiledFunction:
    return ReferenceFunction(function, signature)


BACKEND = Backend(
    name="reference",
    summary="evaluates each operation by its numpy meaning; slow, and what tests compare with",
    stage="tensor",
    compile=_compile,
)
