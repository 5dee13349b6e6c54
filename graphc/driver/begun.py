"""What the first passes made of a module, for another function that begins with the same ones.

A function with frozen parameters is compiled in two parts, of which each is what `split-early`
leaves of the whole one. All passes before it do the same for both, and are run once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.passes.manager import Pass
from graphc.passes.split_early import SplitEarly


@dataclass
class Begun:
    """The last module that the shared passes made, of which source; None: none."""

    source: Module | None = None
    passes: Sequence[Pass] = ()
    made: Module | None = None

    def keep(self, source: Module, passes: Sequence[Pass], made: Module) -> None:
        """A copy of what `passes` have made of `source`."""
        self.source, self.passes, self.made = source, passes, clone_module(made)

    def take(self, source: Module, passes: Sequence[Pass]) -> Module | None:
        """What the same passes made of the same module, only once; None if that is not here."""
        if source is not self.source or passes != self.passes:
            return None
        made, self.made = self.made, None
        return made


def shared_passes(passes: Sequence[Pass]) -> int:
    """How many passes come before the function is taken apart; 0 where it is not."""
    return next((i for i, p in enumerate(passes) if isinstance(p, SplitEarly)), 0)
