"""Arguments of the wrong kind: whatever comes, a call works or raises one GraphcError."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.support.networks import classes, classifier

NETWORK = """
x = Input(2, tag=feature)
y = Input(1, tag=label)
W = Parameter(1, 2)
z = Times(W, x, tag=output)
e = SquareError(y, z, tag=criteria)
"""

Arguments = dict[str, object]


class Strange:
    """Nothing that any argument can be."""


WRONG: Mapping[str, object] = {
    "None": None,
    "an integer": 3,
    "a negative integer": -1,
    "a float": 1.5,
    "nan": float("nan"),
    "True": True,
    "a text": "abc",
    "no text": "",
    "bytes": b"x",
    "an object": Strange(),
    "no list": [],
    "no dict": {},
    "a dict": {"a": 1},
    "a dict of numbers": {1: 2},
    "a pair": ("a", 3),
    "a list of None": [None],
    "a list of numbers": [3],
    "an array": np.ones(3),
    "an array of nothing": np.ones(0),
    "arrays of several shapes": (np.ones((2, 2)), np.ones((2, 2, 3))),
    "an array of records": np.zeros(2, [("a", "f4")]),
    "an array without a dimension": np.array(2.5),
    "an array of text": np.array(["x"]),
    "a complex number": 1j,
    "a number of numpy": np.int64(3),
    "an iterator": iter([1]),
    "a range": range(3),
}


def samples() -> dict[str, np.ndarray]:
    return {"x": np.ones((4, 2)), "y": np.ones((4, 1))}


def network() -> gc.Network:
    net = gc.loads(NETWORK)
    assert isinstance(net, gc.Network)
    return net


def learner() -> gc.SGD:
    return gc.SGD(learning_rate=0.1)


def stop_soon(**callbacks: object) -> object:
    progress = gc.Progress(**callbacks)  # type: ignore[arg-type]
    return gc.train(network(), samples(), learning_rate=0.1, backend="numpy", progress=progress)


def set_on_step(**values: object) -> None:
    step = gc.compile_training(network(), learner=learner(), backend="numpy")
    for name, value in values.items():
        setattr(step, name, value)
    step(**samples())


def call(**given: object) -> object:
    return gc.compile(network(), backend="numpy")(**given)


def call_with_sequences(**given: object) -> object:
    net = gc.loads("x = Input(2)\nz = Plus(x, PastValue(2, z), tag=output)")
    return gc.compile(net, backend="numpy", time=4, sequences=3)(**given)


def find(name: object) -> object:
    return network().find(name)  # type: ignore[arg-type]


def run_epoch(data: object, **more: object) -> object:
    step = gc.compile_training(network(), learner=learner(), backend="numpy")
    return step.run_epoch(data, **more)  # type: ignore[arg-type]


def point_of(**values: object) -> object:
    slopes = gc.gradients(network(), backend="numpy")
    return slopes.at(values["point"], **samples())


def node_type(**values: object) -> object:
    return gc.NodeType(**values).opdef  # type: ignore[arg-type]


def check_own_node(sizes: object, **values: object) -> object:
    own = gc.NodeType("Own", gc.tanh, lambda x: np.tanh(x), "own")
    return gc.check_node(own, sizes, **values)  # type: ignore[arg-type]


def squares(v: object) -> object:
    return gc.sum(gc.square(v))


SQUARES = gc.function(squares, backend="numpy")

# A function, arguments that it works with, and further ones to get wrong.
CALLS: dict[str, tuple[Callable[..., object], Callable[[], Arguments], tuple[str, ...]]] = {
    "loads": (gc.loads, lambda: {"text": NETWORK}, ()),
    "compile": (gc.compile, lambda: {"network": network(), "backend": "numpy"}, ()),
    "compile_training": (
        gc.compile_training,
        lambda: {"network": network(), "learner": learner(), "backend": "numpy"},
        (),
    ),
    "gradients": (gc.gradients, lambda: {"network": network(), "backend": "numpy"}, ()),
    "at": (point_of, lambda: {"point": np.zeros(2)}, ()),
    "NodeType": (
        node_type,
        lambda: {"name": "Own", "compute": gc.tanh, "reference": np.tanh, "summary": "own"},
        ("criterion", "matrices", "equal_rows", "equation", "source"),
    ),
    "check_node": (
        check_own_node,
        lambda: {"sizes": (2, None), "backends": ["numpy"], "gradient": False},
        ("settings", "draw", "seed"),
    ),
    "self_test": (gc.self_test, lambda: {"backends": ["numpy"], "cases": ()}, ()),
    "named_learner": (gc.named_learner, lambda: {"name": "sgd", "learning_rate": 0.1}, ()),
    "train": (
        gc.train,
        lambda: {
            "network": network(),
            "data": samples(),
            "learning_rate": 0.1,
            "backend": "numpy",
        },
        (),
    ),
    "check_training_gradient": (
        gc.check_training_gradient,
        lambda: {"network": network(), "minibatch": samples(), "backend": "numpy"},
        (),
    ),
    "evaluate": (
        gc.evaluate,
        lambda: {"network": network(), "data": samples(), "backend": "numpy"},
        (),
    ),
    "SGD": (gc.SGD, lambda: {"learning_rate": 0.1}, ()),
    **{
        kind.__name__: (kind, lambda: {"learning_rate": 0.1}, ())
        for kind in (gc.AdaGrad, gc.RmsProp, gc.Adam, gc.AdamW)
    },
    **{
        kind.__name__: (kind, lambda: {"threshold": 0.1}, ())
        for kind in (gc.ClipElements, gc.ClipNorm, gc.ClipGlobalNorm)
    },
    "Warmup": (gc.Warmup, lambda: {"updates": 3, "then": 0.1}, ()),
    "Cosine": (gc.Cosine, lambda: {"start": 0.1, "updates": 3}, ()),
    "StepDecay": (gc.StepDecay, lambda: {"start": 0.1, "every": 3}, ()),
    "learner": (
        gc.learner,
        lambda: {"function": lambda g, w, s, n: (w, s), "learning_rate": 0.1},
        (),
    ),
    "SteppingHeuristic": (gc.SteppingHeuristic, dict, ()),
    "minimize": (
        gc.minimize,
        lambda: {"f": SQUARES, "x0": np.ones(3), "learner": learner(), "steps": 2},
        (),
    ),
    "check_gradient": (
        lambda **given: gc.check_gradient(SQUARES, np.ones(3), **given),
        dict,
        ("step", "atol", "rtol", "seed"),
    ),
    "jacobian": (lambda **given: gc.jacobian(SQUARES, **given)(np.ones(3)), dict, ("mode",)),
    "Progress": (stop_soon, dict, ("minibatch", "epoch", "should_stop")),
    "step": (
        set_on_step,
        dict,
        ("learner", "nominal", "dropout_rate", "steps", "threads", "state"),
    ),
    "run_epoch": (run_epoch, lambda: {"data": samples()}, ("order", "minibatch")),
    "call": (call, lambda: {"x": np.ones((3, 2))}, ("out",)),
    "call with sequences": (
        call_with_sequences,
        lambda: {"x": np.ones((2, 3, 2))},
        ("lengths", "flags", "carry", "out"),
    ),
    "find": (find, lambda: {"name": "z"}, ()),
}


def cases() -> Iterator[tuple[str, str]]:
    """Every argument of every function above."""
    for name, (function, base, more) in CALLS.items():
        own = inspect.signature(function).parameters.values()
        named = [p.name for p in own if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        yield from ((name, argument) for argument in dict.fromkeys([*named, *base(), *more]))


@pytest.mark.parametrize(("name", "argument"), list(cases()))
def test_a_call_works_or_raises_one_error(name: str, argument: str) -> None:
    function, base, _ = CALLS[name]
    others: list[str] = []
    for kind, wrong in WRONG.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", gc.GraphcWarning)
                function(**(base() | {argument: wrong}))
        except gc.GraphcError:
            pass
        except Exception as error:  # every kind of these is the failure that is looked for
            if not is_from_the_caller(error):
                others.append(f"{kind}: {type(error).__name__}: {error}")
    assert others == []


def is_from_the_caller(error: Exception) -> bool:
    """Whether a function that was handed over cannot be called with what it is given."""
    return "positional argument" in str(error)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gc.loads(NETWORK, defines=3), "defines requires values by name, got int"),  # type: ignore[arg-type]
        (
            lambda: gc.loads(NETWORK, defines={3: 4}),  # type: ignore[dict-item]
            "defines requires names that are texts, got 3",
        ),
        (lambda: gc.loads(None), "loads requires a text, got None"),  # type: ignore[arg-type]
        (
            lambda: gc.loads(NETWORK, macros=[3]),  # type: ignore[list-item]
            "each of macros requires a text, got int",
        ),
        (lambda: gc.loads(NETWORK, language=3), "language requires a text, got int"),  # type: ignore[arg-type]
        (lambda: gc.load(3), "load requires a path (text or pathlib.Path), got int"),  # type: ignore[arg-type]
        (
            lambda: gc.load("net.ndl", macros=[b"m.ndl"]),  # type: ignore[list-item]
            "each of macros requires a path (text or pathlib.Path), got bytes",
        ),
        (
            lambda: gc.load("net.ndl", macros=3),  # type: ignore[arg-type]
            "macros requires a path or a list of them, got int",
        ),
        (
            lambda: gc.train(classifier(), classes(4), learning_rate=1, progress=print),  # type: ignore[arg-type]
            "progress requires a gc.Progress, got builtin_function_or_method",
        ),
        (
            lambda: gc.train(classifier(), classes(4), learning_rate=1, progress=gc.Progress),  # type: ignore[arg-type]
            "progress requires a gc.Progress, got the class Progress",
        ),
        (
            lambda: gc.train(classifier(), classes(4), learning_rate=1, criterion=["ce"]),  # type: ignore[arg-type]
            "criterion requires a text, got list",
        ),
        (lambda: gc.Progress(epoch=3), "epoch of a Progress requires a function, got int"),  # type: ignore[arg-type]
        (
            lambda: gc.compile(network(), outputs=3),  # type: ignore[arg-type]
            "outputs requires a text or a list of them, got int",
        ),
        (
            lambda: gc.compile(network(), gradients=[None]),  # type: ignore[list-item]
            "each of gradients requires a text, got None",
        ),
        (lambda: gc.compile(network(), backend=None), "backend requires a text, got None"),  # type: ignore[arg-type]
        (lambda: gc.compile(network(), freeze="no"), "freeze requires True or False, got str"),  # type: ignore[arg-type]
        (lambda: gc.compile(network), "a network is required, got function"),  # type: ignore[arg-type]
        (
            lambda: gc.minimize(squares, np.ones(3), learner=learner(), arguments=np.ones(3)),  # type: ignore[arg-type]
            "arguments requires a list or tuple of arguments, got ndarray",
        ),
        (
            lambda: call(x=np.ones((3, 2)), out=np.ones(3)),
            "out requires a text, got ndarray",
        ),
        (
            lambda: call_with_sequences(x=np.ones((2, 3, 2)), carry="no"),
            "carry requires True or False, got str",
        ),
        (lambda: network().save(None), "save requires a path"),  # type: ignore[arg-type]
    ],
)
def test_the_error_says_what_is_required_and_what_came(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(gc.GraphcError) as caught:
        call()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.slug == "argument-type"
    assert message in diagnostic.message


def test_a_number_that_no_float_has() -> None:
    with pytest.raises(gc.GraphcError, match="minimum_rate requires a smaller number"):
        gc.train(network(), samples(), learning_rate=0.1, minimum_rate=10**400)


def test_a_path_may_be_a_text_or_a_path(tmp_path: Path) -> None:
    path = tmp_path / "net.ndl"
    path.write_text(NETWORK)
    none = tmp_path / "none.ndl"
    none.write_text("# no macros\n")
    assert gc.load(str(path)).find("z") is not None
    assert gc.load(path, macros=[none, str(none)]).find("z") is not None


def test_a_training_of_very_many_epochs_begins_at_once() -> None:
    seen: list[gc.EpochRecord] = []
    progress = gc.Progress(epoch=seen.append, should_stop=lambda: len(seen) >= 2)
    gc.train(
        network(),
        samples(),
        epochs=10**18,
        learning_rate="0.1:0.2",
        backend="numpy",
        progress=progress,
    )
    assert [r.learning_rate_per_sample for r in seen] == [0.025, 0.05]
