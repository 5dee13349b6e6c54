"""The options of `graphc train` that say how parameters are updated: learner, rates, clipping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import click

from graphc.cli.command import RecordOption
from graphc.cli.options import stack
from graphc.cli.plugged_learners import LearnerName, LearnerSetting, plugged_learner
from graphc.cli.schedules import ScheduleType
from graphc.cli.values import FiniteRange
from graphc.learn.adaptive import AdaGrad, Adam, AdamW, RmsProp
from graphc.learn.clipping import Clip, ClipElements, ClipGlobalNorm, ClipNorm
from graphc.learn.curves import Cosine, Curve, StepDecay, Warmup
from graphc.learn.learner import Learner
from graphc.learn.schedule import Schedule
from graphc.learn.sgd import SGD
from graphc.learn.stepping import BETA, HISTORY, SteppingHeuristic

_ADAM = ("beta1", "beta2", "epsilon", "lazy")
OPTIONS_OF: Mapping[str, tuple[str, ...]] = {
    "sgd": ("momentum", "momentum_per_sample"),
    "adagrad": ("normalise",),
    "rmsprop": ("gamma", "grow", "shrink", "least", "most", "normalise"),
    "adam": _ADAM,
    "adamw": (*_ADAM, "decay"),
    "stepping-heuristic": ("beta", "history"),
}
"""Learners, and the options that are theirs alone."""

MAKERS: Mapping[str, Callable[..., Learner]] = {
    "sgd": SGD,
    "adagrad": AdaGrad,
    "rmsprop": RmsProp,
    "adam": Adam,
    "adamw": AdamW,
}

_ZERO = Schedule.parse(0.0)


@dataclass(frozen=True, slots=True)
class Steps:
    """`1000` or `1000:0.1`: a number of updates, and a number."""

    updates: int
    number: float | None = None


@dataclass(frozen=True, slots=True)
class LearnerRequest:
    """What is asked of a learner; None for what is not said."""

    learner: str
    learner_setting: Sequence[tuple[str, object]]
    learning_rate: Schedule | None
    learning_rate_per_sample: Schedule | None
    warmup: int | None
    cosine: Steps | None
    step_decay: Steps | None
    momentum: Schedule | None
    momentum_per_sample: Schedule | None
    clip_elements: Schedule | None
    clip_norm: Schedule | None
    clip_global_norm: Schedule | None
    l2: Schedule
    l1: Schedule
    noise: Schedule
    beta1: Schedule | None
    beta2: Schedule | None
    epsilon: Schedule | None
    decay: Schedule | None
    lazy: bool | None
    gamma: Schedule | None
    grow: Schedule | None
    shrink: Schedule | None
    least: Schedule | None
    most: Schedule | None
    normalise: bool | None
    beta: float | None
    history: int | None

    def made(self) -> Learner:
        """click.UsageError for options that do not go together."""
        self._check_owners()
        if self.learner not in OPTIONS_OF:
            return self._plugged()
        if self.learner_setting:
            raise click.UsageError("--learner-setting is for learners of other distributions")
        if self.learner == "stepping-heuristic":
            return self._stepping_heuristic()
        if (self.learning_rate is None) == (self.learning_rate_per_sample is None):
            raise click.UsageError(
                "one of --learning-rate and --learning-rate-per-sample is required"
            )
        if self.momentum is not None and self.momentum_per_sample is not None:
            raise click.UsageError("--momentum and --momentum-per-sample exclude each other")
        own = {name: getattr(self, name) for name in OPTIONS_OF[self.learner]}
        return MAKERS[self.learner](
            self._along(self.learning_rate),
            learning_rate_per_sample=self._along(self.learning_rate_per_sample),
            clip=self._clip(),
            l2=self.l2,
            l1=self.l1,
            noise=self.noise,
            **{name: given for name, given in own.items() if given is not None},
        )

    def _check_owners(self) -> None:
        for name in dict.fromkeys(name for names in OPTIONS_OF.values() for name in names):
            owners = [learner for learner, names in OPTIONS_OF.items() if name in names]
            if getattr(self, name) is not None and self.learner not in owners:
                is_for = f"is for --learner {' and '.join(owners)}"
                message = f"{_spelled(name)} {is_for}, got --learner {self.learner}"
                raise click.UsageError(message)

    def _plugged(self) -> Learner:
        terms = {
            "learning_rate": self._along(self.learning_rate),
            "learning_rate_per_sample": self._along(self.learning_rate_per_sample),
            "clip": self._clip(),
            "l2": self.l2,
            "l1": self.l1,
            "noise": self.noise,
        }
        given = {name: term for name, term in terms.items() if term not in (None, _ZERO)}
        return plugged_learner(self.learner, self.learner_setting, given)

    def _along(self, rate: Schedule | None) -> Schedule | Curve | None:
        """The rate, along the curve that is asked for."""
        if rate is None or not (self.warmup or self.cosine or self.step_decay):
            return rate
        if len(rate.values) != 1:
            message = "--warmup, --cosine and --step-decay require one rate, got a list over epochs"
            raise click.UsageError(message)
        if self.cosine is not None and self.step_decay is not None:
            raise click.UsageError("--cosine and --step-decay exclude each other")
        curve: float | Curve = rate.at(0)
        if self.cosine is not None:
            curve = Cosine(rate.at(0), self.cosine.updates, self.cosine.number or 0.0)
        if self.step_decay is not None:
            factor = self.step_decay.number
            factor = StepDecay.factor if factor is None else factor
            curve = StepDecay(rate.at(0), self.step_decay.updates, factor)
        if self.warmup:
            return Warmup(self.warmup, curve)
        assert isinstance(curve, Curve)
        return curve

    def _clip(self) -> Clip | None:
        kinds = (
            (ClipElements, self.clip_elements),
            (ClipNorm, self.clip_norm),
            (ClipGlobalNorm, self.clip_global_norm),
        )
        found = [kind(threshold) for kind, threshold in kinds if threshold is not None]
        if len(found) > 1:
            message = "--clip-elements, --clip-norm and --clip-global-norm exclude each other"
            raise click.UsageError(message)
        return found[0] if found else None

    def _stepping_heuristic(self) -> SteppingHeuristic:
        others = (self.learning_rate_per_sample, self.warmup, self.cosine, self.step_decay)
        if any(other is not None for other in others):
            raise click.UsageError(
                "--learner stepping-heuristic takes --learning-rate, its first step size, --beta "
                "and --history, and no other rates"
            )
        terms = (self.l1, self.noise)
        if self._clip() is not None or any(v for s in terms for v, _ in s.values):
            raise click.UsageError("--learner stepping-heuristic takes no clipping, L1 and noise")
        if self.learning_rate is None or len(self.learning_rate.values) != 1:
            raise click.UsageError(
                "--learner stepping-heuristic requires one --learning-rate: its first step size"
            )
        if len(self.l2.values) != 1:
            raise click.UsageError("--learner stepping-heuristic requires one --l2 for all epochs")
        return SteppingHeuristic(
            self.learning_rate.at(0),
            beta=BETA if self.beta is None else self.beta,
            history=HISTORY if self.history is None else self.history,
            l2=self.l2.at(0),
        )


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")


class StepsType(click.ParamType):
    """Updates, and with a colon a number between 0 and 1 or any rate."""

    name = "steps"

    def __init__(self, below: float | None = None) -> None:
        self.below = below

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Steps:
        if isinstance(value, Steps):
            return value
        updates, colon, number = str(value).partition(":")
        count = int(click.IntRange(min=1).convert(updates, param, ctx))  # type: ignore[arg-type]  # as click calls it
        if not colon:
            return Steps(count)
        return Steps(count, FiniteRange(min=0, max=self.below).convert(number, param, ctx))


class LearnerOption(RecordOption):
    parameter, make = "learner", LearnerRequest


def _numbers(
    name: str, metavar: str, help: str, *, below: float | None = None, default: str | None = None
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """An option for a number, or a list of them over epochs."""
    return click.option(
        name,
        cls=LearnerOption,
        type=ScheduleType(minimum=0, below=below),
        default=default,
        show_default=default is not None,
        metavar=metavar,
        help=help,
    )


learner_options = stack(
    click.option(
        "--learner",
        cls=LearnerOption,
        type=LearnerName(tuple(OPTIONS_OF)),
        default="sgd",
        show_default=True,
        help="What updates the parameters. sgd: against the gradient, with momentum. adagrad and "
        "rmsprop, as in CNTK: each element in steps that fit the size of its gradients. adam and "
        "adamw: the same with averages of both, usually at rates about 0.001. stepping-heuristic: "
        "the step size starts at --learning-rate and follows the losses. Or the learner of a "
        "plug-in.",
    ),
    click.option(
        "--learner-setting",
        cls=LearnerOption,
        type=LearnerSetting(),
        multiple=True,
        metavar="NAME=VALUE",
        help="A setting of a plug-in's learner; may be given again.",
    ),
    _numbers("--learning-rate", "R", "Rate for a whole minibatch."),
    _numbers(
        "--learning-rate-per-sample", "R", "Rate for each sample, in place of --learning-rate."
    ),
    click.option(
        "--warmup",
        cls=LearnerOption,
        type=click.IntRange(min=1),
        metavar="U",
        help="Let the rate grow from 0 in the first U updates.",
    ),
    click.option(
        "--cosine",
        cls=LearnerOption,
        type=StepsType(),
        metavar="U[:END]",
        help="After that let it fall to END, by default 0, in U updates, along half a cosine.",
    ),
    click.option(
        "--step-decay",
        cls=LearnerOption,
        type=StepsType(below=1),
        metavar="U[:F]",
        help=f"Or take it times F, by default {StepDecay.factor:g}, after every U updates.",
    ),
    _numbers(
        "--momentum",
        "M",
        "sgd: momentum from one minibatch to the next, from 0 to below 1.",
        below=1,
    ),
    _numbers(
        "--momentum-per-sample",
        "M",
        "sgd: momentum from one sample to the next, in place of --momentum.",
        below=1,
    ),
    _numbers(
        "--clip-elements", "C", "Cut off elements of the gradient of the mean at C and at -C."
    ),
    _numbers(
        "--clip-norm", "C", "Scale down each parameter's gradient whose norm is above C instead."
    ),
    _numbers(
        "--clip-global-norm",
        "C",
        "Scale down all gradients where the norm of all together is above C instead: what keeps "
        "recurrent networks from jumping away.",
    ),
    _numbers(
        "--l2",
        "W",
        "Weight of L2 regularisation, for each sample: keeps parameters small.",
        default="0",
    ),
    _numbers(
        "--l1",
        "W",
        "Weight of L1 regularisation, for each sample: makes parameters 0 that do little.",
        default="0",
    ),
    _numbers(
        "--noise",
        "S",
        "Standard deviation of noise that is added to the parameters after each update.",
        default="0",
    ),
    _numbers(
        "--beta1",
        "B",
        f"adam, adamw: weight of the average of gradients there is.  [default: {Adam.beta1}]",
        below=1,
    ),
    _numbers(
        "--beta2",
        "B",
        f"adam, adamw: weight of the average of squares there is.  [default: {Adam.beta2}]",
        below=1,
    ),
    _numbers("--epsilon", "E", f"adam, adamw: added to the root.  [default: {Adam.epsilon}]"),
    _numbers(
        "--decay",
        "D",
        "adamw: parameters shrink by the rate times D, whatever their gradients.  "
        f"[default: {AdamW.decay}]",
    ),
    click.option(
        "--lazy/--no-lazy",
        cls=LearnerOption,
        default=None,
        help="adam, adamw: of tables that are looked up in, move what is looked up, and no more.",
    ),
    _numbers(
        "--gamma",
        "G",
        f"rmsprop: weight of the average of squares there is.  [default: {RmsProp.gamma}]",
        below=1,
    ),
    _numbers(
        "--grow",
        "F",
        "rmsprop: what an element's step is taken times while its gradient keeps its sign.  "
        f"[default: {RmsProp.grow}]",
    ),
    _numbers("--shrink", "F", f"rmsprop: and where the sign turns.  [default: {RmsProp.shrink}]"),
    _numbers("--least", "S", f"rmsprop: the smallest step.  [default: {RmsProp.least}]"),
    _numbers("--most", "S", f"rmsprop: the largest step.  [default: {RmsProp.most:g}]"),
    click.option(
        "--normalise/--no-normalise",
        cls=LearnerOption,
        default=None,
        help="adagrad, rmsprop: scale so that steps have about the length of sgd.  "
        "[default: normalise]",
    ),
    click.option(
        "--beta",
        cls=LearnerOption,
        type=FiniteRange(min=0, min_open=True, max=1),
        metavar="W",
        help=f"stepping-heuristic: weight of a new gradient in its direction.  [default: {BETA}]",
    ),
    click.option(
        "--history",
        cls=LearnerOption,
        type=click.IntRange(min=1),
        metavar="M",
        help=f"stepping-heuristic: minibatches whose losses it averages.  [default: {HISTORY}]",
    ),
)
