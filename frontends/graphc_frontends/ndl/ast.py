"""The syntax of an NDL text as data: what the parser makes and the expansion reads.

Nested calls are flattened. A statement carries its calls innermost first, and an argument that was
a call is a `Result`, the number of that call in its statement. So nothing that walks a statement
has to recurse, however deep its calls were nested.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphc.support.diagnostics import Diagnostic
from graphc.support.source import Span


@dataclass(frozen=True, slots=True)
class Name:
    """A name, perhaps dotted: `W0`, `CE.F`. One that was quoted may have any other sign in it, and
    is never a special list."""

    text: str
    span: Span
    is_quoted: bool = False

    @property
    def key(self) -> str:
        """What names are compared by: NDL knows no case."""
        return self.text.lower()


@dataclass(frozen=True, slots=True)
class Literal:
    """A number as written."""

    value: float
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Word:
    """Text that is neither name nor number, or was quoted: the value of an option.

    In the place of a node, where the parser takes quoted text alone, it is that node's name.
    """

    text: str
    span: Span

    @property
    def as_name(self) -> Name:
        return Name(self.text, self.span, is_quoted=True)


@dataclass(frozen=True, slots=True)
class Result:
    """What call number `index` of the same statement gives."""

    index: int
    span: Span


Operand = Name | Literal | Word | Result


@dataclass(frozen=True, slots=True)
class Option:
    """An argument `name=value`; `span` covers the name."""

    name: Name
    value: Name | Literal | Word


@dataclass(frozen=True, slots=True)
class Call:
    """`function(arguments, options)`; `span` reaches from the name to the closing bracket."""

    function: Name
    arguments: tuple[Operand, ...]
    options: tuple[Option, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Array:
    """`(a, b, c)`."""

    elements: tuple[Name | Literal, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Statement:
    """`target = value`, or a call alone (no target). `calls` are evaluated in their order."""

    target: Name | None
    calls: tuple[Call, ...]
    value: Operand | Array


@dataclass(frozen=True, slots=True)
class Macro:
    """`name(formals) { body }`. `name = call` of a one-line macro is the body's only statement."""

    name: Name
    formals: tuple[Name, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Statements and macros, in the order of each: a section, or what is outside of all."""

    statements: tuple[Statement, ...]
    macros: tuple[Macro, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """`name = [ … ]` at the top of a file, from its name to the closing bracket.

    problems  the mistakes in it, which matter if it is run
    """

    name: Name
    block: Block
    end: Span
    problems: tuple[Diagnostic, ...] = ()

    def encloses(self, place: Span) -> bool:
        """Whether the place is between the brackets, or where they are."""
        first, last = self.name.span, self.end
        at = (place.line, place.column)
        return (first.line, first.column) <= at <= (last.line, last.column)


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed file. `load` and `run` are the sections it names, None without such a key;
    `problems` the mistakes that are in no section."""

    block: Block
    sections: tuple[Section, ...]
    load: tuple[Name, ...] | None
    run: tuple[Name, ...] | None
    problems: tuple[Diagnostic, ...] = ()


def names_in(body: Iterable[Statement]) -> Iterator[Name]:
    """Every name that the statements mention, defined or used, options' names left out."""
    for statement in body:
        if statement.target is not None:
            yield statement.target
        operands: list[Operand] = [a for call in statement.calls for a in call.arguments]
        operands += [option.value for call in statement.calls for option in call.options]
        if isinstance(statement.value, Array):
            operands += statement.value.elements
        else:
            operands.append(statement.value)
        yield from (operand for operand in operands if isinstance(operand, Name))
