"""What a program is trained or measured by, as the command line says it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import click

from graphc.cli.command import RecordOption
from graphc.cli.options import refuse_given, split_names, stack
from graphc.learn.losses import LOSSES, MEASURES
from graphc.learn.program_loss import Objective, read_measures

F = TypeVar("F", bound=Callable[..., object])

OF_PROGRAMS = ("loss", "of", "measures", "label_type", "trained")
"""Options, by their names in Python, that networks do without."""

OF_NETWORKS = ("criterion", "dropout", "precision", "nodes")
"""And those that programs do without."""


@dataclass(frozen=True, slots=True)
class ObjectiveRequest:
    """The options of an `Objective`; `of` is the output."""

    loss: str | None
    of: str | None
    measures: Sequence[str]
    label_type: str | None
    trained: Sequence[str] = ()

    def objective(self) -> Objective:
        measures = read_measures(self.measures)
        return Objective(self.loss, self.of, self.label_type, tuple(self.trained), measures)


class ObjectiveOption(RecordOption):
    parameter, make = "objective", ObjectiveRequest


objective_options = stack(
    click.option(
        "--loss",
        cls=ObjectiveOption,
        type=click.Choice(list(LOSSES)),
        help="The loss of a program's output, if the output is not the loss itself.",
    ),
    click.option(
        "--of",
        cls=ObjectiveOption,
        metavar="OUTPUT",
        help="The output of a program that the loss is of, if there are several.",
    ),
    click.option(
        "--measure",
        "measures",
        cls=ObjectiveOption,
        type=click.Choice(list(MEASURES)),
        multiple=True,
        help="What to measure of a program besides the loss; can be repeated.",
    ),
    click.option(
        "--label-type",
        cls=ObjectiveOption,
        metavar="TYPE",
        help="Sizes and type of a program's labels, as Nxi32 for numbers of classes.  "
        "[default: those of the output]",
    ),
)

trained_option = click.option(
    "--only",
    "trained",
    cls=ObjectiveOption,
    multiple=True,
    callback=split_names,
    metavar="NAME,…",
    help="The parameters of a program to train, with * and ?.  [default: all of floating point]",
)


def refuse_objective() -> None:
    """A usage error where a network is given with options of programs."""
    refuse_given(OF_PROGRAMS, "is for programs: a network has criteria")
