"""Values that change from epoch to epoch, such as learning rates and minibatch sizes.

The text form is CNTK's: values separated by `:`, `v*n` for n epochs of v, and the last value holds
for ever. So `0.5:0.2*20:0.1` is 0.5 in the first epoch, 0.2 in the next twenty, then 0.1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from graphc.support.diagnostics import GraphcError, fail
from graphc.support.source import SourceFile

MAX_EPOCHS = 2**31  # in one `v*n`
_MAX_NUMBER_LENGTH = 64
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_COUNT = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class Schedule:
    """Runs of equal values: (value, number of epochs), in order. The last one never ends.

    ValueError unless there is at least one run, values are finite and counts at least 1.
    """

    values: tuple[tuple[float, int], ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a schedule needs at least one value")
        for value, count in self.values:
            if not math.isfinite(value) or count < 1:
                raise ValueError(f"a finite value and a count >= 1 are required: {value}*{count}")

    @staticmethod
    def parse(
        given: Rates,
        *,
        option: str = "schedule",
        minimum: float | None = None,
        whole: bool = False,
    ) -> Schedule:
        """A schedule from its text, from one number, from one number per epoch, or as it is.

        `option` is what messages call the text; values below `minimum` are refused, and with
        `whole` also fractions. GraphcError `parse` or `bad-value`, at the place in the text.
        """
        if isinstance(given, str):
            return _Text(SourceFile(option, given), minimum, whole).schedule()
        if isinstance(given, Schedule):
            for number, _ in given.values:
                if problem := _problem(number, minimum, whole):
                    raise fail("bad-value", f"{option}: {problem}")
            return given
        numbers = _numbers(given, option)
        if not numbers:
            raise fail("bad-value", f"{option}: at least one value is required, got none")
        for number in numbers:
            if problem := _problem(number, minimum, whole):
                raise fail("bad-value", f"{option}: {problem}")
        return Schedule(tuple((number, 1) for number in numbers))

    def at(self, epoch: int) -> float:
        """The value in an epoch, counted from 0. ValueError if `epoch` is negative."""
        if epoch < 0:
            raise ValueError(f"epochs count from 0, got {epoch}")
        first = 0
        for value, count in self.values:
            first += count
            if epoch < first:
                return value
        return self.values[-1][0]

    def changes(self) -> list[int]:
        """The first epoch of each run."""
        return list(accumulate((count for _, count in self.values[:-1]), initial=0))

    def __str__(self) -> str:
        """The text form; `Schedule.parse(str(s)) == s`."""
        return ":".join(_print(value, count) for value, count in self.values)


Rates = str | float | Sequence[float] | Schedule
"""A number, one per epoch, or text such as `0.5:0.2*20:0.1`; the last value holds for ever."""


@dataclass(frozen=True, slots=True)
class _Text:
    source: SourceFile
    minimum: float | None
    whole: bool

    def schedule(self) -> Schedule:
        items = self.source.text.split(":")
        if len(items) > 1 and not items[-1].strip():
            items.pop()  # one trailing colon is tolerated
        runs: list[tuple[float, int]] = []
        offset = 0
        for item in items:
            runs.append(self._run(item, offset))
            offset += len(item) + 1
        return Schedule(tuple(runs))

    def _run(self, item: str, offset: int) -> tuple[float, int]:
        value_text, star, count_text = item.partition("*")
        value = self._value(value_text, offset)
        return value, self._count(count_text, offset + len(value_text) + 1) if star else 1

    def _value(self, text: str, offset: int) -> float:
        token = text.strip()
        if len(token) > _MAX_NUMBER_LENGTH or not _NUMBER.fullmatch(token):
            raise self._fail("parse", f"a number is required, got {_shown(token)}", text, offset)
        value = float(token)
        if problem := _problem(value, self.minimum, self.whole):
            raise self._fail("bad-value", problem, text, offset)
        return value

    def _count(self, text: str, offset: int) -> int:
        token = text.strip()
        if len(token) > _MAX_NUMBER_LENGTH or not _COUNT.fullmatch(token):
            message = f"a number of epochs is required after `*`, got {_shown(token)}"
            raise self._fail("parse", message, text, offset)
        count = int(token)
        if not 1 <= count <= MAX_EPOCHS:
            message = f"a number of epochs from 1 to {MAX_EPOCHS} is required, got {count}"
            raise self._fail("bad-value", message, text, offset)
        return count

    def _fail(self, slug: str, message: str, text: str, offset: int) -> GraphcError:
        """An error at `text`, which stands at `offset`, without the blanks around it."""
        start = offset + len(text) - len(text.lstrip())
        span = self.source.span(start, start + len(text.strip()))
        return fail(slug, message, span)


def _numbers(given: object, option: str) -> list[float]:
    """One number or several; GraphcError `bad-value` for what is neither."""
    try:
        array = np.asarray(given, dtype=object)  # refuses lists of arrays of several shapes
        if array.ndim < 2 and not any(isinstance(n, str) for n in array.flat):
            return [float(n) for n in array.flat]
    except (TypeError, ValueError, OverflowError):
        pass
    message = f"{option}: a number, one number per epoch, or text is required, got {given!r}"
    raise fail("bad-value", message)


def _problem(value: float, minimum: float | None, whole: bool) -> str:
    """What is wrong with a value, or ''."""
    if not math.isfinite(value):
        return f"a finite number is required, got {value}"
    if minimum is not None and value < minimum:
        return f"a value of at least {_print(minimum, 1)} is required, got {_print(value, 1)}"
    if whole and not value.is_integer():
        return f"a whole number is required, got {value}"
    return ""


def _shown(token: str) -> str:
    return f"`{token[:_MAX_NUMBER_LENGTH]}`" if token else "nothing"


def _print(value: float, count: int) -> str:
    text = repr(float(value)).removesuffix(".0")
    return text if count == 1 else f"{text}*{count}"
