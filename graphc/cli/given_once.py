"""A command that refuses an option with two values, of which the parser would keep the last.

What can be given several times says so (`multiple`, `count`), and all of it counts. A plain flag
says the same however often it stands there.
"""

from __future__ import annotations

from collections import Counter

import click


class Command(click.Command):
    """What every command of graphc is made as: `@click.command(cls=Command)`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = list(args)  # parsing takes them out
        rest = super().parse_args(ctx, args)
        _, _, order = self.make_parser(ctx).parse_args(words)
        for parameter, times in Counter(order).items():
            if times > 1 and isinstance(parameter, click.Option) and _takes_one(parameter):
                spelling = "/".join([*parameter.opts, *parameter.secondary_opts])
                ctx.fail(f"{spelling} can be given once, got it {times} times")
        return rest


def _takes_one(option: click.Option) -> bool:
    is_plain_flag = option.is_flag and not option.secondary_opts
    return not (option.multiple or option.count or is_plain_flag)
