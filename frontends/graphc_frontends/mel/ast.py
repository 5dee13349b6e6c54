"""The syntax of a MEL text as data: commands, in-line NDL and models, in the order of the text."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.support.source import Span
from graphc_frontends.ndl.ast import Block, Macro, Name, Option, Statement, Word


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments, options)`, perhaps after `target =`; names are not understood yet."""

    target: Name | None
    function: Name
    arguments: tuple[Word, ...]
    options: tuple[Option, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Inline:
    """A statement of NDL for the default model."""

    statement: Statement
    span: Span


@dataclass(frozen=True, slots=True)
class NewModel:
    """`name = [ NDL ]`."""

    name: Name
    block: Block


Item = Call | Inline | NewModel


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed file: what is to be done, and the macros of its sections to load."""

    items: tuple[Item, ...]
    macros: tuple[Macro, ...]
