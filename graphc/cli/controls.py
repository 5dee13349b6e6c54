"""Options of `graphc train` about what happens between epochs: rates, stopping, checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from graphc import api
from graphc.cli.command import RecordOption
from graphc.cli.options import DATA_FILE, EXISTING_FILE, stack
from graphc.cli.values import FiniteRange
from graphc.learn.adaptation import Adaptation
from graphc.learn.checkpoints import Checkpoints
from graphc.learn.minibatch_search import AdaptiveMinibatch
from graphc.learn.plan import Controls
from graphc.learn.rate_control import AdjustAfterEpoch
from graphc.learn.rate_search import SearchBeforeEpoch
from graphc.learn.stopping import EarlyStopping, KeepBest

RATE_CONTROLS = ("none", "adjust", "search")


DECREASE, INCREASE = AdjustAfterEpoch().decrease, AdjustAfterEpoch().increase


@dataclass(frozen=True, slots=True)
class ControlRequest:
    """What is asked of the time between epochs.

    validation  data to measure after each epoch, with the columns of the training data
    """

    epoch_size: int
    validation: Path | None
    rate_control: str
    rate_decrease: float | None
    rate_increase: float | None
    rate_reduce_below: float | None
    rate_increase_above: float | None
    adapt_minibatch: bool
    patience: int | None
    min_improvement: float | None
    keep_best: bool
    checkpoint: Path | None
    checkpoint_minutes: float | None
    checkpoint_keep: int | None
    resume: bool
    adapt_node: str | None
    adapt_weight: float | None
    adapt_reference: Path | None

    def __post_init__(self) -> None:
        """click.UsageError for options that do not go together."""
        of_adjust = (
            self.rate_decrease,
            self.rate_increase,
            self.rate_reduce_below,
            self.rate_increase_above,
        )
        if self.rate_control != "adjust" and any(n is not None for n in of_adjust):
            raise click.UsageError(
                "--rate-decrease, --rate-increase, --rate-reduce-below and --rate-increase-above "
                "are for --rate-control adjust"
            )
        if self.min_improvement is not None and self.patience is None:
            raise click.UsageError("--min-improvement is for --patience")
        of_checkpoint = (self.checkpoint_minutes, self.checkpoint_keep)
        if self.checkpoint is None and (self.resume or any(n is not None for n in of_checkpoint)):
            raise click.UsageError(
                "--checkpoint-minutes, --checkpoint-keep and --resume are for --checkpoint"
            )
        if (self.adapt_node is None) != (self.adapt_weight is None):
            raise click.UsageError("--adapt-node and --adapt-weight are required together")
        if self.adapt_reference is not None and self.adapt_node is None:
            raise click.UsageError("--adapt-reference is for --adapt-node")

    def controls(self) -> Controls:
        """The rules between epochs."""
        stopping = None
        if self.patience is not None:
            stopping = EarlyStopping(self.patience, self.min_improvement or 0.0)
        return Controls(
            adjust=self._adjust() if self.rate_control == "adjust" else None,
            search=SearchBeforeEpoch() if self.rate_control == "search" else None,
            minibatch=AdaptiveMinibatch() if self.adapt_minibatch else None,
            stopping=stopping,
            best=KeepBest() if self.keep_best else None,
        )

    def _adjust(self) -> AdjustAfterEpoch:
        own = AdjustAfterEpoch()
        below, above = own.reduce_if_improves_less_than, own.increase_if_improves_more_than
        return AdjustAfterEpoch(
            decrease=_or(self.rate_decrease, own.decrease),
            increase=_or(self.rate_increase, own.increase),
            reduce_if_improves_less_than=_or(self.rate_reduce_below, below),
            increase_if_improves_more_than=_or(self.rate_increase_above, above),
        )

    def checkpoints(self) -> Checkpoints | None:
        """Where checkpoints are written, if anywhere."""
        if self.checkpoint is None:
            return None
        keep = Checkpoints.keep if self.checkpoint_keep is None else self.checkpoint_keep
        return Checkpoints(
            self.checkpoint, minutes=self.checkpoint_minutes, keep=keep, resume=self.resume
        )

    def adaptation(self) -> Adaptation | None:
        """What keeps the network near another one, if anything."""
        if self.adapt_node is None or self.adapt_weight is None:
            return None
        reference = None if self.adapt_reference is None else api.load(self.adapt_reference)
        return Adaptation(self.adapt_node, self.adapt_weight, reference=reference)

    @property
    def files(self) -> list[Path]:
        """What is read or written."""
        named = (self.validation, self.checkpoint, self.adapt_reference)
        return [path for path in named if path is not None]


def _or(given: float | None, default: float) -> float:
    return default if given is None else given


class ControlOption(RecordOption):
    parameter, make = "control", ControlRequest


control_options = stack(
    click.option(
        "--epoch-size",
        cls=ControlOption,
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Samples of an epoch; the next one goes on behind them.  [default: all]",
    ),
    click.option(
        "--validation",
        cls=ControlOption,
        type=DATA_FILE,
        metavar="FILE",
        help="Data to measure after each epoch, with the columns of --data. What follows looks at "
        "it in place of the training data.",
    ),
    click.option(
        "--rate-control",
        cls=ControlOption,
        type=click.Choice(RATE_CONTROLS),
        default=RATE_CONTROLS[0],
        show_default=True,
        help="adjust: an epoch that makes the criterion worse is undone, and the rate is lowered; "
        "search: the rate of each epoch is found by trials. Both begin after the rates listed.",
    ),
    click.option(
        "--rate-decrease",
        cls=ControlOption,
        type=FiniteRange(min=0, min_open=True, max=1),
        metavar="F",
        help=f"The rate is lowered by this factor.  [default: {DECREASE}]",
    ),
    click.option(
        "--rate-increase",
        cls=ControlOption,
        type=FiniteRange(min=0, min_open=True),
        metavar="F",
        help=f"The rate is raised by this factor.  [default: {INCREASE}]",
    ),
    click.option(
        "--rate-reduce-below",
        cls=ControlOption,
        type=FiniteRange(),
        metavar="S",
        help="Lower the rate if the criterion falls by less than this share of it.  [default: 0]",
    ),
    click.option(
        "--rate-increase-above",
        cls=ControlOption,
        type=FiniteRange(),
        metavar="S",
        help="Raise the rate if the criterion falls by more than this share of it.  "
        "[default: never]",
    ),
    click.option(
        "--adapt-minibatch",
        cls=ControlOption,
        is_flag=True,
        help="Find minibatches by trials: as large as harms the criterion by no more than 1 %.",
    ),
    click.option(
        "--patience",
        cls=ControlOption,
        type=click.IntRange(min=1),
        metavar="E",
        help="Stop after so many epochs without an improvement.",
    ),
    click.option(
        "--min-improvement",
        cls=ControlOption,
        type=FiniteRange(min=0),
        metavar="X",
        help="What counts as an improvement for --patience.  [default: anything]",
    ),
    click.option(
        "--keep-best",
        cls=ControlOption,
        is_flag=True,
        help="Save the parameters of the best epoch, not of the last.",
    ),
    click.option(
        "--checkpoint",
        cls=ControlOption,
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Write all that is needed to go on after each epoch, and when Ctrl-C stops it.",
    ),
    click.option(
        "--checkpoint-minutes",
        cls=ControlOption,
        type=FiniteRange(min=0),
        metavar="M",
        help="Write it also inside of epochs, when so many minutes have passed.",
    ),
    click.option(
        "--checkpoint-keep",
        cls=ControlOption,
        type=click.IntRange(min=1),
        metavar="K",
        help=f"Keep so many, the older ones as FILE.1, FILE.2, …  [default: {Checkpoints.keep}]",
    ),
    click.option(
        "--resume",
        cls=ControlOption,
        is_flag=True,
        help="Go on from the checkpoint, bit for bit; begin if there is none.",
    ),
    click.option(
        "--adapt-node",
        cls=ControlOption,
        metavar="NODE",
        help="Mix the labels with what NODE says before training, which keeps the network near it.",
    ),
    click.option(
        "--adapt-weight",
        cls=ControlOption,
        type=FiniteRange(min=0, max=1),
        metavar="W",
        help="Share of NODE in the labels.",
    ),
    click.option(
        "--adapt-reference",
        cls=ControlOption,
        type=EXISTING_FILE,
        metavar="FILE",
        help="The network whose NODE that is, if not the one that is trained.",
    ),
)
