"""graphc: a static graph compiler for neural networks.

    import graphc as gc
    net = gc.load("model.ndl", defines={"HDim": 64})
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.1, momentum=0.9), batch=64)
    step(features=x, labels=t)
    z = gc.compile(net, outputs=["z"])(features=x)["z"]

Names are imported when they are first used, so that `graphc --help` starts at once. What type
checkers and editors read is __init__.pyi, which `docs/generate.py` writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from graphc.support.version import VERSION

__version__ = VERSION

_HOMES = {
    **dict.fromkeys(("ArrayFunction", "function"), "graphc.tensor.function"),
    **dict.fromkeys(("GradientReport", "check_gradient"), "graphc.tensor.gradient_check"),
    **dict.fromkeys(("grad", "jvp", "value_and_grad", "vjp"), "graphc.tensor.transforms"),
    **dict.fromkeys(("hessian", "jacobian"), "graphc.tensor.jacobian"),
    "program": "graphc.tensor.program",
    "Program": "graphc.model.program",
    "NodeType": "graphc.tensor.node_type",
    "named_learner": "graphc.learn.learner_types",
    "scan": "graphc.tensor.scan",
    "Tensor": "graphc.tensor.tensor",
    **dict.fromkeys(("edit", "edits"), "graphc.api"),
    "check_training_gradient": "graphc.api",
    "compile": "graphc.api",
    "compile_training": "graphc.api",
    "evaluate": "graphc.api",
    "export_onnx": "graphc.api",
    "gradients": "graphc.api",
    "load": "graphc.api",
    "loads": "graphc.api",
    "load_program": "graphc.api",
    "to_networkx": "graphc.api",
    "train": "graphc.api",
    "Adaptation": "graphc.learn.adaptation",
    **dict.fromkeys(("BlockMomentum", "ModelAveraging"), "graphc.learn.averaging"),
    **dict.fromkeys(("Checkpoint", "read_checkpoint"), "graphc.learn.checkpoint"),
    **dict.fromkeys(("CheckpointFiles", "Checkpoints"), "graphc.learn.checkpoints"),
    "AdaptiveMinibatch": "graphc.learn.minibatch_search",
    "AdjustAfterEpoch": "graphc.learn.rate_control",
    "SearchBeforeEpoch": "graphc.learn.rate_search",
    **dict.fromkeys(
        ("EpochRecord", "EpochStart", "Event", "Progress", "Validation"), "graphc.learn.records"
    ),
    **dict.fromkeys(("EarlyStopping", "KeepBest"), "graphc.learn.stopping"),
    "Minimum": "graphc.learn.minimize",
    "minimize": "graphc.learn.minimize",
    **dict.fromkeys(("AdaGrad", "Adam", "AdamW", "RmsProp"), "graphc.learn.adaptive"),
    **dict.fromkeys(("ClipElements", "ClipGlobalNorm", "ClipNorm"), "graphc.learn.clipping"),
    **dict.fromkeys(("Cosine", "StepDecay", "Warmup"), "graphc.learn.curves"),
    "learner": "graphc.learn.traced_learner",
    "SGD": "graphc.learn.sgd",
    "SteppingHeuristic": "graphc.learn.stepping",
    "check_node": "graphc.testing.node",
    "self_test": "graphc.testing.selftest",
    "BackendUnavailable": "graphc.support.diagnostics",
    "GraphcError": "graphc.support.diagnostics",
    "GraphcWarning": "graphc.support.diagnostics",
    "InternalError": "graphc.support.diagnostics",
}

_MODULES = ("comm", "readers", "writers")

_PREDEFINED = ("load_dbn", "simple_network")
"""Of the Python builder."""


def __getattr__(name: str) -> object:
    if name == "Network":
        return import_module("graphc.frontend").network_class()
    if name in _MODULES:
        return import_module(f"graphc.{name}")
    if name in _PREDEFINED:
        return getattr(import_module("graphc.frontend").simple_networks(), name)
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "__all__":
        return __dir__()
    if not name.startswith("_") and name in (functions := _functions()):
        return functions[name]
    raise AttributeError(f"module 'graphc' has no attribute {name!r}")


def __dir__() -> list[str]:
    names = {*_HOMES, *_MODULES, *_functions(), "Network", *_PREDEFINED, "__version__"}
    return sorted(names)


def _functions() -> Mapping[str, object]:
    """The functions of arrays, by name."""
    return import_module("graphc.tensor.functions").FUNCTIONS
