"""The functions of an executable: one for each form of calls, made when the first such call comes.

Calls differ in what they give for labels, one-hot rows or class numbers, and in whether sequences
go on from the call before. Each form has a function of its own, which is made again where a call is
larger than its bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.plan import Plan
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError, fail

Recompile = Callable[[Mapping[str, int]], tuple[CompiledFunction, Signature]]
"""A function for these bounds of its dims, by their names."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A form of calls.

    carry     sequences go on from the call before
    numbered  the inputs of labels that are given as class numbers
    """

    carry: bool = False
    numbered: frozenset[str] = frozenset()

    @staticmethod
    def of(plan: Plan) -> Variant:
        """The calls that a function is for."""
        return Variant(bool(plan.carried), plan.numbered)


Variants = Callable[[Variant], Recompile]
"""What makes the functions for a form of calls."""


class Plans:
    """Those that are made, each the latest of its form.

    recompile  makes the first one for larger calls; without it these are an error
    variants   makes functions for other forms too; without it class numbers become rows, and where
               members have to have the same function

    current    what the last call took that did not go on from another
    carrying   what the last call took that did, unless `current` is for such calls too
    """

    def __init__(
        self, first: Plan, threads: int, recompile: Recompile | None, variants: Variants | None
    ) -> None:
        self._recompile = recompile
        self._variants = variants
        self.current = first
        self.carrying: Plan | None = None
        self._made = {Variant.of(first): first}
        self._threads = threads
        first.compiled.use_threads(threads)

    def __iter__(self) -> Iterator[Plan]:
        return iter(list(self._made.values()))

    @property
    def threads(self) -> int:
        """How many compute a call."""
        return self._threads

    @threads.setter
    def threads(self, threads: int) -> None:
        self._threads = threads
        for plan in self:
            plan.compiled.use_threads(threads)

    def for_call(self, inputs: Mapping[str, object], *, carry: bool = False) -> Plan:
        """The function for a call with these inputs. GraphcError `input` where there is none."""
        current = self.current
        carry = carry and not current.carried
        plan = self.carrying if carry else current
        may_vary = self._variants is not None and not current.compiled.same_for_all
        numbered = current.numbered_in(inputs) if may_vary else current.numbered
        if plan is None or plan.numbered != numbered:
            plan = self._of(Variant(carry or bool(current.carried), numbered))
        self._use(plan, carry=carry)
        return plan

    def widened(self, plan: Plan, sizes: Mapping[str, int], *, carry: bool) -> Plan:
        """`plan`, of a call that is `carry`, made again for the next powers of two of these dims.
        GraphcError `input` where it cannot be."""
        made_for = (variant for variant, made in self._made.items() if made is plan)
        variant = next(made_for, Variant.of(plan))
        recompile = self._recompile if self._variants is None else self._variants(variant)
        for dim, size in sizes.items():
            if recompile is None:
                message = f"requires at most {plan.bounds[dim]} {plan.noun(dim)} ({dim}) in a call"
                raise fail("input", f"{message}, got {size}")
        assert recompile is not None
        bounds = {dim: 1 << (size - 1).bit_length() for dim, size in sizes.items()}
        wider = self._add(variant, recompile, {**plan.bounds, **bounds})
        for dim, size in sizes.items():
            if wider.bounds[dim] < size:
                message = f"requires at most {wider.bounds[dim]} {plan.noun(dim)} in a call"
                raise fail("input", f"{message}, got {size}")
        self._use(wider, carry=carry and not self.current.carried)
        return wider

    def _use(self, plan: Plan, *, carry: bool) -> None:
        if carry:
            self.carrying = plan
        else:
            self.current = plan

    def _of(self, variant: Variant) -> Plan:
        made = self._made.get(variant)
        if made is not None:
            return made
        if self._variants is None or (variant.carry and self.current.tables is None):
            raise no_sequences("carry=")
        return self._add(variant, self._variants(variant), self.current.bounds)

    def _add(self, variant: Variant, recompile: Recompile, bounds: Mapping[str, int]) -> Plan:
        compiled, signature = recompile(bounds)
        compiled.use_threads(self._threads)
        plan = self._made[variant] = Plan.of(compiled, signature)
        return plan


def no_sequences(what: str) -> GraphcError:
    """The error for what only functions of sequences have."""
    return fail(
        "input",
        f"{what} is for functions of sequences; this one has no time: compile it with time=",
    )
