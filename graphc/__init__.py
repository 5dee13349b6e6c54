"""graphc: a static graph compiler for neural networks.

    import graphc as gc
    net = gc.load("model.ndl", defines={"HDim": 64})
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.1, momentum=0.9), batch=64)
    step(features=x, labels=t)
    z = gc.compile(net, outputs=["z"])(features=x)["z"]

Names are imported when they are first used, so that `graphc --help` starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from graphc.support.version import VERSION as __version__

if TYPE_CHECKING:
    from frontends.network import Network as Network
    from graphc.api import compile as compile
    from graphc.api import compile_training as compile_training
    from graphc.api import evaluate as evaluate
    from graphc.api import load as load
    from graphc.api import loads as loads
    from graphc.api import train as train
    from graphc.learn.loop import EpochRecord as EpochRecord
    from graphc.learn.loop import Progress as Progress
    from graphc.learn.sgd import SGD as SGD
    from graphc.support.diagnostics import BackendUnavailable as BackendUnavailable
    from graphc.support.diagnostics import GraphcError as GraphcError
    from graphc.support.diagnostics import InternalError as InternalError

_HOMES = {
    "compile": "graphc.api",
    "compile_training": "graphc.api",
    "evaluate": "graphc.api",
    "load": "graphc.api",
    "loads": "graphc.api",
    "train": "graphc.api",
    "EpochRecord": "graphc.learn.loop",
    "Progress": "graphc.learn.loop",
    "SGD": "graphc.learn.sgd",
    "BackendUnavailable": "graphc.support.diagnostics",
    "GraphcError": "graphc.support.diagnostics",
    "InternalError": "graphc.support.diagnostics",
}

__all__ = [
    "SGD",
    "BackendUnavailable",
    "EpochRecord",
    "GraphcError",
    "InternalError",
    "Network",
    "Progress",
    "__version__",
    "compile",
    "compile_training",
    "evaluate",
    "load",
    "loads",
    "train",
]


def __getattr__(name: str) -> object:
    if name == "Network":
        return import_module("graphc.frontend").network_class()
    if name not in _HOMES:
        raise AttributeError(f"module 'graphc' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
