"""The option type of per-epoch lists such as `0.5:0.2*20:0.1`."""

from __future__ import annotations

import click

from graphc.learn.schedule import Schedule
from graphc.support.diagnostics import GraphcError


class ScheduleType(click.ParamType):
    """A value, or one for each epoch; the last one holds for ever."""

    name = "schedule"

    def __init__(
        self, *, minimum: float | None = None, below: float | None = None, whole: bool = False
    ) -> None:
        self.minimum = minimum
        self.below = below
        self.whole = whole

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Schedule:
        if isinstance(value, Schedule):
            return value
        option = param.opts[0] if param is not None and param.opts else "schedule"
        try:
            schedule = Schedule.parse(
                str(value), option=option, minimum=self.minimum, whole=self.whole
            )
        except GraphcError as error:
            problem = error.diagnostics[0]
            place = f" at column {problem.span.column}" if problem.span is not None else ""
            self.fail(f"{problem.message}{place} of {str(value)!r}", param, ctx)
        if self.below is not None:
            for number, _ in schedule.values:
                if number >= self.below:
                    self.fail(
                        f"a value below {self.below:g} is required, got {number:g}", param, ctx
                    )
        return schedule
