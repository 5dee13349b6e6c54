"""Learners by name: graphc's own, and those of the entry points `graphc.learners`.

    [project.entry-points."graphc.learners"]
    lion = "my_package:lion"

The key is what `graphc train --learner` and `gc.named_learner` call it. It names a class of
learners, or a function that makes one: called with `learning_rate` or `learning_rate_per_sample`,
with those of `clip`, `l2`, `l1` and `noise` that were asked for, and with settings of its own, all
by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping

from graphc.data.plugged import KindTable
from graphc.learn.adaptive import AdaGrad, Adam, AdamW, RmsProp
from graphc.learn.learner import Learner, require_learner
from graphc.learn.sgd import SGD
from graphc.learn.stepping import SteppingHeuristic
from graphc.support.arguments import text
from graphc.support.diagnostics import GraphcError, fail, suggestion

LearnerFactory = Callable[..., Learner]

LEARNERS: KindTable[LearnerFactory] = KindTable(
    "learner",
    "graphc.learners",
    {
        "sgd": SGD,
        "adagrad": AdaGrad,
        "rmsprop": RmsProp,
        "adam": Adam,
        "adamw": AdamW,
        "stepping-heuristic": SteppingHeuristic,
    },
    called_with="(learning_rate, …)",
)


def named_learner(name: str, /, **settings: object) -> Learner:
    """The learner of a name, made with these settings, such as `named_learner("adam", beta1=0.8,
    learning_rate=0.01)`.

    GraphcError `undefined-name` for an unknown name, `bad-option` for a setting that the learner
    does not have, `plug-in` if another distribution's is broken, and what the learner says of the
    values.
    """
    factory = LEARNERS[text(name, "the name of a learner")]
    _require_settings(name, factory, settings)
    origin = LEARNERS.origin_of(name)
    if not origin:
        return require_learner(factory(**settings))
    try:
        return require_learner(factory(**settings))
    except GraphcError as error:
        first = error.diagnostics[0]
        slug = "plug-in" if first.slug == "argument-type" else first.slug
        raise fail(slug, f"the learner `{name}` of {origin}: {first.message}") from error
    except Exception as error:
        message = f"the learner `{name}` of {origin} is broken: {type(error).__name__}: {error}"
        raise fail("plug-in", message) from error


def _require_settings(
    name: str, factory: Callable[..., object], settings: Mapping[str, object]
) -> None:
    """Refuse settings that the factory has no argument for, as far as its signature says."""
    parameters = inspect.signature(factory).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    for setting in settings:
        if setting not in parameters:
            near = suggestion(setting, parameters) or f"; it has {', '.join(parameters)}"
            raise fail("bad-option", f"the learner `{name}` has no setting `{setting}`{near}")
