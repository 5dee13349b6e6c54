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

OF_PROGRAMS = ("loss", "of", "measures", "label_type", "trained", "as_inference")
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
    as_inference: bool = False

    def objective(self) -> Objective:
        measures = read_measures(self.measures)
        wanted = self.loss, self.of, self.label_type, tuple(self.trained), measures
        return Objective(*wanted, as_inference=self.as_inference)


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

trained_options = stack(
    click.option(
        "--only",
        "trained",
        cls=ObjectiveOption,
        multiple=True,
        callback=split_names,
        metavar="NAME,…",
        help="The parameters of a program to train, with * and ?.  "
        "[default: all of floating point]",
    ),
    click.option(
        "--as-inference",
        cls=ObjectiveOption,
        is_flag=True,
        help="Dropout of a program does nothing, normalisation keeps the statistics that it has.",
    ),
)


def refuse_objective() -> None:
    """A usage error where a network is given with options of programs."""
    refuse_given(OF_PROGRAMS, "is for programs: a network has criteria")
