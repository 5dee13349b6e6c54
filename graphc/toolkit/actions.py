"""All actions by name, and those of the toolkit that are not there."""

from __future__ import annotations

from graphc.config.lookup import Value
from graphc.support.diagnostics import GraphcError, suggestion
from graphc.toolkit.action import Action
from graphc.toolkit.checks import SELF_TEST
from graphc.toolkit.edit import EDIT
from graphc.toolkit.evaluate import CROSS_VALIDATE, EVALUATE
from graphc.toolkit.models import CONVERT, DUMP, SVD
from graphc.toolkit.plot import PLOT
from graphc.toolkit.texts import LABEL_MAP, WORD_CLASSES
from graphc.toolkit.train import ADAPT, TRAIN
from graphc.toolkit.write import WRITE

ACTIONS: tuple[Action, ...] = (
    *(TRAIN, ADAPT, EVALUATE, CROSS_VALIDATE, WRITE),
    *(EDIT, SVD, DUMP, CONVERT, PLOT),
    *(LABEL_MAP, WORD_CLASSES, SELF_TEST),
)

BY_NAME = {name.lower(): action for action in ACTIONS for name in action.names}

BEYOND = (
    "trainSequence",
    "trainSequenceRNN",
    "trainEncoderDecoder",
    "trainBidirectionEncoderDecoder",
    "testEncoderDecoder",
    "beamSearch",
    "testunroll",
)
"""Actions that the book does not describe."""


def unknown(name: str, value: Value) -> GraphcError:
    """The error for an action that is none."""
    if name.lower() in {other.lower() for other in BEYOND}:
        return value.fail(f"the action `{name}` is not there", "not-supported")
    known = [name for action in ACTIONS for name in action.names]
    near = suggestion(name, known) or f"; there are {', '.join(known)}"
    return value.fail(f"there is no action `{name}`{near}", "undefined-name")
