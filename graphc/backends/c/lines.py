"""The lines of one function of C, from the instructions in order to readable text.

What nothing reads is left out. What is read once and can be written where it is read, addresses
and counts above all, is written there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

ANY, SUM, PRODUCT, UNARY, ATOM, THERE = range(6)
"""How tightly the operator of an expression binds; what is asked of an operand. `THERE` asks for
what lies at an address."""

LONGEST = 72
"""Characters of an expression that is written inside another one."""

_MARK = re.compile(r"\$(\d+)(?::(\d))?")
_ASSIGNED = re.compile(r"\$\d+:\d = \$(\d+)(?::\d)?;")
_KEYWORDS = frozenset({"if", "do", "for", "int", "char", "long"})


def mark(number: int, binding: int = ATOM) -> str:
    """Where a value is read, in an instruction's text."""
    return f"${number}:{binding}"


@dataclass(slots=True)
class Variable:
    """What a function computes.

    ctype    its type in C
    prefix   what its name begins with
    binding  how tightly the operator of its expression binds, if it may be written where it is
             read, else -1
    element  of an address in an array: (base, position), for `base[position]`
    """

    ctype: str
    prefix: str
    binding: int = -1
    element: tuple[str, str] | None = None


@dataclass(slots=True)
class Line:
    """An instruction.

    made    the variable that it declares
    sets    the variable that it gives a new value
    needed  it does more than that
    indent  what it adds to the indentation of those that follow: 1, 0 or, before itself, -1
    """

    text: str
    made: int = -1
    sets: int = -1
    needed: bool = False
    indent: int = 0

    def reads(self) -> Iterable[int]:
        return (int(found[1]) for found in _MARK.finditer(self.text))


@dataclass(slots=True)
class Lines:
    """A function's body in the making."""

    variables: list[Variable] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def new(self, variable: Variable) -> int:
        self.variables.append(variable)
        return len(self.variables) - 1

    def render(self, taken: Iterable[str], indent: int = 1) -> list[str]:
        """The text; no name is one of `taken`."""
        live = _live(_set_directly(self.lines, self.variables))
        counts = Counter(n for line in live for n in line.reads())
        return _Renderer(self.variables, counts, frozenset(taken)).render(live, indent)


def _live(lines: Sequence[Line]) -> list[Line]:
    """The live lines: those with effects, and those that define values which live lines read."""
    givers: dict[int, list[Line]] = {}
    for line in lines:
        for variable in {line.made, line.sets} - {-1}:
            givers.setdefault(variable, []).append(line)
    wanted = [line for line in lines if line.needed]
    seen: set[int] = set()
    while wanted:
        for variable in wanted.pop().reads():
            if variable not in seen:
                seen.add(variable)
                wanted += givers.get(variable, [])
    return [x for x in lines if x.needed or x.made in seen or x.sets in seen]


def _set_directly(lines: Sequence[Line], variables: Sequence[Variable]) -> list[Line]:
    """A value that is made only for a variable to get it becomes the variable's at once.

        t = s + x;  …  s = t;     ->     s = s + x;

    if nothing between the two reads the variable.
    """
    readings: dict[int, list[int]] = {}
    made: dict[int, int] = {}
    for place, line in enumerate(lines):
        for variable in line.reads():
            readings.setdefault(variable, []).append(place)
        if line.made >= 0:
            made[line.made] = place
    moved: dict[int, Line] = {}
    gone: set[int] = set()
    for place, line in enumerate(lines):
        source = _ASSIGNED.fullmatch(line.text) if line.sets >= 0 else None
        value = int(source[1]) if source else -1
        start = made.get(value, -1)
        if start < 0 or variables[value].binding >= 0 or len(readings[value]) > 1:
            continue
        between = [r for r in readings[line.sets] if start < r < place]
        early = [r for r in readings[line.sets] if r <= start and _may_move(lines[r], variables)]
        if not between and not early and _in_one_block(lines[start:place]):
            text = f"{mark(line.sets)} = {lines[start].text};"
            moved[start] = Line(text, sets=line.sets, needed=lines[start].needed)
            gone.add(place)
    return [moved.get(i, x) for i, x in enumerate(lines) if i not in gone]


def _may_move(line: Line, variables: Sequence[Variable]) -> bool:
    """Whether the line may be written later than it stands."""
    return line.made >= 0 and variables[line.made].binding >= 0


def _in_one_block(lines: Sequence[Line]) -> bool:
    """Whether all that begins in these lines ends in them, and nothing else does."""
    depth = 0
    for line in lines:
        depth += line.indent
        if depth < 0:
            return False
    return depth == 0


class _Renderer:
    """Gives names, and writes expressions where they are read."""

    def __init__(
        self, variables: Sequence[Variable], counts: Counter[int], taken: frozenset[str]
    ) -> None:
        self._variables = variables
        self._counts = counts
        self._taken = taken | _KEYWORDS
        self._names: dict[int, str] = {}
        self._inside: dict[int, str] = {}
        self._used: Counter[str] = Counter()

    def render(self, lines: Sequence[Line], indent: int) -> list[str]:
        texts: list[str] = []
        # Several variables that get new values one after the other may be read in between.
        late = (line for line in lines if line.sets >= 0 and _ASSIGNED.fullmatch(line.text))
        settled = {n for line in late for n in line.reads()}
        for line in lines:
            indent += min(line.indent, 0)
            text = self._line(line, settled)
            if text is not None:
                texts.append("    " * indent + text)
            indent += max(line.indent, 0)
        return texts

    def _line(self, line: Line, settled: set[int]) -> str | None:
        made = line.made
        if made < 0:
            return self._filled(line.text)
        variable, text = self._variables[made], self._filled(line.text)
        if (
            variable.binding >= 0
            and self._counts[made] == 1
            and made not in settled
            and len(text) <= LONGEST
        ):
            self._inside[made] = text
            return None
        if not self._counts[made] and line.needed:
            return f"{text};"
        name = self._names[made] = self._fresh(variable.prefix)
        if "@" in variable.ctype:  # an array
            return variable.ctype.replace("@", name)
        given = f" = {text}" if text else ""
        return f"{declared(variable.ctype, name)}{given};"

    def _fresh(self, prefix: str) -> str:
        while True:
            self._used[prefix] += 1
            name = f"{prefix}{self._used[prefix]}"
            if name not in self._taken:
                return name

    def _filled(self, text: str) -> str:
        return _MARK.sub(self._operand, text) if "$" in text else text

    def _operand(self, found: re.Match[str]) -> str:
        number, asked = int(found[1]), int(found[2] or ATOM)
        inside = self._inside.get(number)
        if inside is None:
            name = self._names.get(number) or self._named(number)
            return f"*{name}" if asked == THERE else name
        if asked == THERE:
            element = self._variables[number].element
            return (
                f"*({inside})" if element is None else "{}[{}]".format(*map(self._filled, element))
            )
        if self._variables[number].binding >= asked:
            return inside
        return f"({inside})"

    def _named(self, number: int) -> str:
        """The name of a variable that its own line declares, such as a loop's counter."""
        name = self._names[number] = self._fresh(self._variables[number].prefix)
        return name


def declared(ctype: str, name: str) -> str:
    """A declaration without its end."""
    return f"{ctype}{name}" if ctype.endswith("*") else f"{ctype} {name}"
