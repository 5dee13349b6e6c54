"""What the functions of this package are given: a network, or a program and how it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from graphc.builder import GraphBuilder
from graphc.model.model import Model
from graphc.support import arguments
from graphc.support.diagnostics import fail

if TYPE_CHECKING:
    from graphc.learn.losses import Loss
    from graphc.learn.program_loss import Measures, Objective


def model_of(network: GraphBuilder | Model) -> Model:
    if isinstance(network, GraphBuilder):
        return network.model
    if not isinstance(network, Model):  # pyright: ignore[reportUnnecessaryIsInstance]
        got = arguments.kind_of(network)
        raise fail("argument-type", f"a network is required, got {got}")
    return network


def objective_of(
    loss: str | Loss | None,
    output: str | None,
    labels: object,
    train: str | Sequence[str],
    measure: Measures,
) -> Objective:
    """What a program is trained by. Networks import no functions of arrays."""
    from graphc.learn.program_loss import Objective, read_measures

    patterns = arguments.texts(train, "train")
    return Objective(loss, output, labels, tuple(patterns), read_measures(measure))


def refuse_of_programs(
    loss: object, output: object, labels: object, train: str | Sequence[str], measure: Measures
) -> None:
    """GraphcError for options of programs that are given with a network."""
    is_given = any(given is not None for given in (loss, output, labels))
    measured = measure if isinstance(measure, Mapping) else arguments.texts(measure, "measure")
    if is_given or measured or arguments.texts(train, "train"):
        names = "loss=, output=, labels=, train= and measure="
        raise fail("bad-option", f"{names} are for programs: a network has criteria")


def refuse_of_networks(**given: bool) -> None:
    """GraphcError for options of networks that are given with a program."""
    for name, is_given in given.items():
        if is_given:
            raise fail("not-supported", f"{name}= is for networks, got a program")
