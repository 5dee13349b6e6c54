"""Learners of other distributions on the command line: their names, and settings of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from graphc.learn.learner import Learner
from graphc.learn.learner_types import LEARNERS, named_learner
from graphc.support.diagnostics import suggestion


class LearnerName(click.ParamType):
    """One of the command's own learners, or that of a plug-in, which is not loaded yet."""

    name = "learner"

    def __init__(self, own: Sequence[str]) -> None:
        self.own = tuple(own)

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        known = {name.lower(): name for name in (*self.own, *LEARNERS.plugged_names())}
        given = str(value)
        if given.lower() not in known:
            listed = ", ".join(map(repr, known.values()))
            near = suggestion(given, known.values())
            self.fail(f"{given!r} is not one of {listed}{near}", param, ctx)
        return known[given.lower()]

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        return f"[{'|'.join(self.own)}|NAME]"


class LearnerSetting(click.ParamType):
    """`name=value`; the value is a number or a list over epochs, as rates are."""

    name = "setting"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, object]:
        if isinstance(value, tuple):
            return value
        name, sign, given = str(value).partition("=")
        if not sign or not name.isidentifier() or not given:
            self.fail(f"NAME=VALUE is required, got {str(value)!r}", param, ctx)
        try:
            return name, float(given)
        except ValueError:
            return name, given


def plugged_learner(
    name: str, settings: Sequence[tuple[str, object]], common: Mapping[str, object]
) -> Learner:
    """The learner of a plug-in with its own settings, and those of the common ones that are
    given."""
    for key, _ in settings:
        if key in common or [k for k, _ in settings].count(key) > 1:
            raise click.UsageError(f"{key} is given twice")
    return named_learner(name, **common, **dict(settings))
