"""What the functions of this package are given: a network, or a program and how it is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphc.builder import GraphBuilder
from graphc.learn.network_training import NetworkTrainee
from graphc.learn.trainee import Trainee
from graphc.model.model import Model
from graphc.model.program import Program
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


@dataclass(frozen=True)
class OfProgram:
    """What is given with a program alone, as users give it (docs/tensor.md)."""

    loss: str | Loss | None
    output: str | None
    labels: object
    train: str | Sequence[str]
    measure: Measures
    as_inference: bool = False

    def objective(self) -> Objective:
        """What a program is trained by. Networks import no functions of arrays."""
        from graphc.learn.program_loss import Objective, read_measures

        patterns = tuple(arguments.texts(self.train, "train"))
        measures = read_measures(self.measure)
        wanted = self.loss, self.output, self.labels, patterns, measures
        return Objective(*wanted, as_inference=arguments.truth(self.as_inference, "as_inference"))

    def refuse(self) -> None:
        """GraphcError for any of these, which came with a network."""
        measure = self.measure
        measured = measure if isinstance(measure, Mapping) else arguments.texts(measure, "measure")
        is_given = any(given is not None for given in (self.loss, self.output, self.labels))
        is_given = is_given or arguments.truth(self.as_inference, "as_inference")
        if is_given or measured or arguments.texts(self.train, "train"):
            names = "loss=, output=, labels=, train=, measure= and as_inference="
            raise fail("bad-option", f"{names} are for programs: a network has criteria")


def trainee_of(network: GraphBuilder | Model | Program, given: OfProgram, *, time: int) -> Trainee:
    """What the training loop trains; a program by what is given with it, a network by itself."""
    if not isinstance(network, Program):
        given.refuse()
        return NetworkTrainee(model_of(network))
    from graphc.learn.program_training import ProgramTrainee

    refuse_of_networks(time=bool(time))
    return ProgramTrainee(network, given.objective())


def refuse_of_networks(**given: bool) -> None:
    """GraphcError for options of networks that are given with a program."""
    for name, is_given in given.items():
        if is_given:
            raise fail("not-supported", f"{name}= is for networks, got a program")
