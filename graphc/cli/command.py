"""What every command of graphc is made as: its options come as records, and each is given once.

An option that several commands share is declared once, with the record that its value goes into:

    class CompileOption(RecordOption):
        parameter, make = "options", CompileOptions

    time_option = click.option("--time", cls=CompileOption, type=int, default=0)

A command with `time_option` takes `options: CompileOptions` instead of `time: int`.

Of an option with two values click's parser would keep the last; here it is refused. What can be
given several times says so (`multiple`, `count`), and all of it counts. A plain flag says the same
however often it stands there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import click


class RecordOption(click.Option):
    """An option whose value goes into a record; a sub-class for each record.

    parameter  what the command calls the record
    make       makes it of the options' values by their names; fields whose options a command does
               not have keep the defaults of the record
    """

    parameter: ClassVar[str]
    make: ClassVar[Callable[..., object]]


class Command(click.Command):
    """`@click.command(cls=Command)`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)  # parsing takes them out
        rest = super().parse_args(ctx, args)
        _, _, order = self.make_parser(ctx).parse_args(words)
        for parameter, times in Counter(order).items():
            if times > 1 and isinstance(parameter, click.Option) and _takes_one(parameter):
                spelling = "/".join([*parameter.opts, *parameter.secondary_opts])
                ctx.fail(f"{spelling} can be given once, got it {times} times")
        return rest

    def invoke(self, ctx: click.Context) -> Any:  # Any is click's own
        fields: dict[type[RecordOption], dict[str, object]] = {}
        for option in self.get_params(ctx):
            if isinstance(option, RecordOption):
                fields.setdefault(type(option), {})[option.name] = ctx.params.pop(option.name)
        for kind, values in fields.items():
            ctx.params[kind.parameter] = kind.make(**values)
        return super().invoke(ctx)


def _takes_one(option: click.Option) -> bool:
    is_plain_flag = option.is_flag and not option.secondary_opts
    return not (option.multiple or option.count or is_plain_flag)
