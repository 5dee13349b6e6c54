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
from graphc.tensor.names import FUNCTIONS

if TYPE_CHECKING:
    from graphc.api import compile as compile
    from graphc.api import compile_training as compile_training
    from graphc.api import evaluate as evaluate
    from graphc.api import load as load
    from graphc.api import loads as loads
    from graphc.api import to_networkx as to_networkx
    from graphc.api import train as train
    from graphc.learn.loop import EpochRecord as EpochRecord
    from graphc.learn.loop import Progress as Progress
    from graphc.learn.minimize import Minimum as Minimum
    from graphc.learn.minimize import minimize as minimize
    from graphc.learn.sgd import SGD as SGD
    from graphc.learn.stepping import SteppingHeuristic as SteppingHeuristic
    from graphc.support.diagnostics import BackendUnavailable as BackendUnavailable
    from graphc.support.diagnostics import GraphcError as GraphcError
    from graphc.support.diagnostics import GraphcWarning as GraphcWarning
    from graphc.support.diagnostics import InternalError as InternalError
    from graphc.tensor.function import ArrayFunction as ArrayFunction
    from graphc.tensor.function import function as function
    from graphc.tensor.functions import abs as abs
    from graphc.tensor.functions import absolute as absolute
    from graphc.tensor.functions import add as add
    from graphc.tensor.functions import arange as arange
    from graphc.tensor.functions import broadcast_to as broadcast_to
    from graphc.tensor.functions import cast as cast
    from graphc.tensor.functions import concatenate as concatenate
    from graphc.tensor.functions import cos as cos
    from graphc.tensor.functions import cross_correlate as cross_correlate
    from graphc.tensor.functions import divide as divide
    from graphc.tensor.functions import equal as equal
    from graphc.tensor.functions import erf as erf
    from graphc.tensor.functions import exp as exp
    from graphc.tensor.functions import expand_dims as expand_dims
    from graphc.tensor.functions import expm1 as expm1
    from graphc.tensor.functions import eye as eye
    from graphc.tensor.functions import flip as flip
    from graphc.tensor.functions import floor as floor
    from graphc.tensor.functions import full as full
    from graphc.tensor.functions import greater as greater
    from graphc.tensor.functions import greater_equal as greater_equal
    from graphc.tensor.functions import less as less
    from graphc.tensor.functions import less_equal as less_equal
    from graphc.tensor.functions import log as log
    from graphc.tensor.functions import log1p as log1p
    from graphc.tensor.functions import log_softmax as log_softmax
    from graphc.tensor.functions import logical_and as logical_and
    from graphc.tensor.functions import logical_not as logical_not
    from graphc.tensor.functions import logical_or as logical_or
    from graphc.tensor.functions import matmul as matmul
    from graphc.tensor.functions import max as max
    from graphc.tensor.functions import maximum as maximum
    from graphc.tensor.functions import maxpool as maxpool
    from graphc.tensor.functions import mean as mean
    from graphc.tensor.functions import min as min
    from graphc.tensor.functions import minimum as minimum
    from graphc.tensor.functions import multiply as multiply
    from graphc.tensor.functions import negative as negative
    from graphc.tensor.functions import not_equal as not_equal
    from graphc.tensor.functions import ones as ones
    from graphc.tensor.functions import pad as pad
    from graphc.tensor.functions import power as power
    from graphc.tensor.functions import relu as relu
    from graphc.tensor.functions import reshape as reshape
    from graphc.tensor.functions import sigmoid as sigmoid
    from graphc.tensor.functions import sin as sin
    from graphc.tensor.functions import softmax as softmax
    from graphc.tensor.functions import sqrt as sqrt
    from graphc.tensor.functions import square as square
    from graphc.tensor.functions import squeeze as squeeze
    from graphc.tensor.functions import stack as stack
    from graphc.tensor.functions import stop_gradient as stop_gradient
    from graphc.tensor.functions import subtract as subtract
    from graphc.tensor.functions import sum as sum
    from graphc.tensor.functions import tanh as tanh
    from graphc.tensor.functions import transpose as transpose
    from graphc.tensor.functions import where as where
    from graphc.tensor.functions import zeros as zeros
    from graphc.tensor.gradient_check import GradientReport as GradientReport
    from graphc.tensor.gradient_check import check_gradient as check_gradient
    from graphc.tensor.jacobian import hessian as hessian
    from graphc.tensor.jacobian import jacobian as jacobian
    from graphc.tensor.scan import scan as scan
    from graphc.tensor.tensor import Tensor as Tensor
    from graphc.tensor.transforms import grad as grad
    from graphc.tensor.transforms import jvp as jvp
    from graphc.tensor.transforms import value_and_grad as value_and_grad
    from graphc.tensor.transforms import vjp as vjp
    from graphc_frontends.network import Network as Network

_HOMES = {
    **dict.fromkeys(FUNCTIONS, "graphc.tensor.functions"),
    **dict.fromkeys(("ArrayFunction", "function"), "graphc.tensor.function"),
    **dict.fromkeys(("GradientReport", "check_gradient"), "graphc.tensor.gradient_check"),
    **dict.fromkeys(("grad", "jvp", "value_and_grad", "vjp"), "graphc.tensor.transforms"),
    **dict.fromkeys(("hessian", "jacobian"), "graphc.tensor.jacobian"),
    "scan": "graphc.tensor.scan",
    "Tensor": "graphc.tensor.tensor",
    "compile": "graphc.api",
    "compile_training": "graphc.api",
    "evaluate": "graphc.api",
    "load": "graphc.api",
    "loads": "graphc.api",
    "to_networkx": "graphc.api",
    "train": "graphc.api",
    "EpochRecord": "graphc.learn.loop",
    "Progress": "graphc.learn.loop",
    "Minimum": "graphc.learn.minimize",
    "minimize": "graphc.learn.minimize",
    "SGD": "graphc.learn.sgd",
    "SteppingHeuristic": "graphc.learn.stepping",
    "BackendUnavailable": "graphc.support.diagnostics",
    "GraphcError": "graphc.support.diagnostics",
    "GraphcWarning": "graphc.support.diagnostics",
    "InternalError": "graphc.support.diagnostics",
}

__all__ = [
    "SGD",
    "ArrayFunction",
    "BackendUnavailable",
    "EpochRecord",
    "GradientReport",
    "GraphcError",
    "GraphcWarning",
    "InternalError",
    "Minimum",
    "Network",
    "Progress",
    "SteppingHeuristic",
    "Tensor",
    "__version__",
    "abs",
    "absolute",
    "add",
    "arange",
    "broadcast_to",
    "cast",
    "check_gradient",
    "compile",
    "compile_training",
    "concatenate",
    "cos",
    "cross_correlate",
    "divide",
    "equal",
    "erf",
    "evaluate",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "flip",
    "floor",
    "full",
    "function",
    "grad",
    "greater",
    "greater_equal",
    "hessian",
    "jacobian",
    "jvp",
    "less",
    "less_equal",
    "load",
    "loads",
    "log",
    "log1p",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "max",
    "maximum",
    "maxpool",
    "mean",
    "min",
    "minimize",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "ones",
    "pad",
    "power",
    "relu",
    "reshape",
    "scan",
    "sigmoid",
    "sin",
    "softmax",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "subtract",
    "sum",
    "tanh",
    "to_networkx",
    "train",
    "transpose",
    "value_and_grad",
    "vjp",
    "where",
    "zeros",
]


def __getattr__(name: str) -> object:
    if name == "Network":
        return import_module("graphc.frontend").network_class()
    if name not in _HOMES:
        raise AttributeError(f"module 'graphc' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
