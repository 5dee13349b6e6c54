"""Passes and the manager that runs them.

A pass is a frozen dataclass: `name`, the invariants it needs and makes, and its options as fields.
Pipelines are text, so what the driver runs can be pasted after `graphc opt -p`:

    infer-shapes,expand-nodes{outputs=["z"], precision=f32, batch=256},simplify,cse,dce

The manager owns everything around a pass: verification before and after, invariants, timing,
printing, the check of a pass's `changed` claim, and a reproducer when a pass breaks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Module
from graphc.ir.declared_dims import declare_dims
from graphc.ir.params import Params, ParamsError, make_params, print_params
from graphc.ir.printer import print_module
from graphc.ir.verifier import verify_module
from graphc.passes.invariants import CHECKERS, Invariant
from graphc.support.diagnostics import DiagnosticSink, GraphcError, InternalError, fail, suggestion


@dataclass(frozen=True)
class PassOutcome:
    """Whether the module changed, and counts worth showing (`{"merged": 3}`)."""

    changed: bool
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Pass(Params):
    """Base of every pass. Fields of subclasses are its options; see `params.py` for their types.

    differentiates     makes derivatives of what it finds
    changes_gradients  leaves the values of a function, but may change the gradient that is taken of
                       it: where elements tie, say. It runs after what differentiates.
    origin             the distribution that it comes from, '' for graphc itself (plugins.py)
    """

    name: ClassVar[str] = ""
    summary: ClassVar[str] = ""
    requires: ClassVar[frozenset[Invariant]] = frozenset()
    establishes: ClassVar[frozenset[Invariant]] = frozenset()
    breaks: ClassVar[frozenset[Invariant]] = frozenset()
    differentiates: ClassVar[bool] = False
    changes_gradients: ClassVar[bool] = False
    origin: ClassVar[str] = ""

    def run(self, module: Module, context: Context) -> PassOutcome:
        """Change `module` in place. User errors go to `context.sink`."""
        raise InternalError(f"pass {self.name} does not define run")

    def __str__(self) -> str:
        return self.name + print_params(self).removeprefix(" ")


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What one run of one pass did."""

    name: str
    seconds: float
    changed: bool
    counters: Mapping[str, int]


AfterPass = Callable[[Pass, Module], None]


@dataclass(frozen=True)
class PassManager:
    """Runs passes in order.

    verify       verify the module and the pass's invariants before the first and after every pass
    check_claim  compare the printed module when a pass says that it changed nothing
    after        called after every pass, for printing
    """

    passes: Sequence[Pass]
    verify: bool = False
    check_claim: bool = False
    after: AfterPass | None = None

    def run(self, module: Module, context: Context) -> list[PassRecord]:
        """Run all passes; returns what each did.

        Raises GraphcError when a pass reports errors, InternalError when a pass breaks the IR
        (GraphcError `plug-in` if it is not one of graphc's own).
        """
        if self.verify:
            self._verify(module, "the input")
        self._require_gradients_first()
        records: list[PassRecord] = []
        printed = self._printed(module)
        for p in self.passes:
            self._require(p, module, [r.name for r in records])
            try:
                records.append(self._run_one(p, module, context, [r.name for r in records]))
                before, printed = printed, self._printed(module)
                if not records[-1].changed and printed != before:
                    raise InternalError(
                        f"`{p.name}` says it changed nothing, but the module differs"
                    )
            except InternalError as error:
                if not p.origin:
                    raise
                message = f"the pass `{p.name}` of {p.origin} is broken: {error}"
                raise fail("plug-in", message) from error
            if self.after is not None:
                self.after(p, module)
        return records

    def _run_one(
        self, p: Pass, module: Module, context: Context, earlier: Sequence[str]
    ) -> PassRecord:
        start = time.perf_counter()
        try:
            outcome = p.run(module, context)
        except (GraphcError, InternalError):
            raise
        except Exception as error:
            raise InternalError(
                f"in `{p}`{_after(earlier)}: {type(error).__name__}: {error}"
            ) from error
        seconds = time.perf_counter() - start
        context.sink.raise_if_errors()
        if outcome.changed:
            declare_dims(module)
        if self.verify:
            self._verify(module, f"`{p}`{_after(earlier)}")
            for invariant in p.establishes:
                self._check(invariant, module, f"`{p}` promises it but")
        return PassRecord(p.name, seconds, outcome.changed, outcome.counters)

    def _printed(self, module: Module) -> str:
        """The module's text where it is compared."""
        return print_module(module) if self.check_claim else ""

    def _require_gradients_first(self) -> None:
        """Refuse to differentiate what a pass has left that changes gradients."""
        changer: Pass | None = None
        for p in self.passes:
            if p.differentiates and changer is not None:
                raise fail(
                    "invariant",
                    f"`{p.name}` requires a function with the gradient that it was given, but "
                    f"`{changer.name}` before it may change it; run `{changer.name}` after it",
                )
            changer = p if p.changes_gradients else changer

    def _require(self, p: Pass, module: Module, earlier: Sequence[str]) -> None:
        for invariant in sorted(p.requires, key=lambda i: i.value):
            problems = CHECKERS[invariant](module)
            if problems:
                raise fail(
                    "invariant",
                    f"`{p.name}` requires {invariant.value}: {problems[0]}; "
                    f"run `{invariant.made_by}` first{_after(earlier)}",
                )

    @staticmethod
    def _check(invariant: Invariant, module: Module, who: str) -> None:
        problems = CHECKERS[invariant](module)
        if problems:
            raise InternalError(f"{invariant.value}: {who} {problems[0]}")

    @staticmethod
    def _verify(module: Module, what: str) -> None:
        sink = DiagnosticSink()
        verify_module(module, sink)
        if sink.has_errors:
            broken = GraphcError(sink.diagnostics)
            if what == "the input":
                raise broken
            raise InternalError(f"after {what} the IR is not legal:\n{broken}")


def _after(earlier: Sequence[str]) -> str:
    return f" (after {', '.join(earlier)})" if earlier else ""


def parse_pipeline(
    text: str,
    passes: Mapping[str, type[Pass]],
    read_options: Callable[[str], Mapping[str, object]],
    pipelines: Mapping[str, str] | None = None,
) -> list[Pass]:
    """The passes that `text` names: `name` or `name{option = value, …}`, separated by commas.

    `read_options` parses the inside of the braces; `pipelines` names whole pipelines. Raises
    GraphcError (bad-option) with the near name for an unknown pass.
    """
    found: list[Pass] = []
    for item in split_pipeline(text):
        name, brace, rest = item.partition("{")
        name = name.strip()
        if not brace and pipelines is not None and name in pipelines:
            found.extend(parse_pipeline(pipelines[name], passes, read_options))
            continue
        cls = passes.get(name)
        if cls is None:
            near = suggestion(name, [*passes, *(pipelines or {})])
            raise fail("bad-option", f"no pass is called `{name}`{near}")
        options = read_options(rest[:-1]) if brace else {}
        try:
            made = make_params(cls, options)
        except ParamsError as problem:
            raise fail("bad-option", f"pass `{name}`: {problem}") from None
        assert isinstance(made, Pass)
        found.append(made)
    return found


def split_pipeline(text: str) -> list[str]:
    """The items between top-level commas; braces, brackets and strings protect commas."""
    items, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"' and (i == 0 or text[i - 1] != "\\"):
            quoted = not quoted
        elif quoted:
            continue
        elif c in "{[":
            depth += 1
        elif c in "}]":
            depth -= 1
        elif c == "," and depth == 0:
            items.append(text[start:i])
            start = i + 1
    items.append(text[start:])
    if depth != 0 or quoted:
        raise fail("bad-option", f"unbalanced brackets or quotes in the pipeline `{text}`")
    return [item.strip() for item in items if item.strip()]


def describe_options(cls: type[Pass]) -> list[str]:
    """`name = default` of each option, for `--list passes`."""
    return [f.name for f in fields(cls)]
