"""How graphc is asked to compile, and what all of its networks have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import graphc as gc
from bench.peers import Case
from bench.workloads.record import MOMENTUM, Array, Values, Workload
from graphc.runtime.device_arrays import device_array

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder

CRITERION, SCORES = "ce", "z"
"""The nodes' names in every network here."""


@dataclass(frozen=True)
class How:
    """`contraction`: "tf32" may round the factors of products on a GPU, "bf16" does everywhere.
    `comm`: one of several members that train together, who split the outputs of parameter
    `split`."""

    backend: str
    precision: str
    contraction: Literal["fma", "tf32", "bf16"] = "fma"
    comm: gc.comm.Communicator | None = None
    split: str = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64 if self.precision == "f64" else np.float32)


def put(net: GraphBuilder, values: Values) -> None:
    """Start values by node name; of a bias one number a row."""
    stored = net.parameters
    for name, value in values.items():
        stored[name][...] = value.reshape(stored[name].shape)


def got(net: GraphBuilder, like: Values) -> Values:
    return {name: np.array(net.parameters[name]).reshape(v.shape) for name, v in like.items()}


def one_hot(classes: Array, count: int, how: How) -> Array:
    rows = np.zeros((classes.size, count), how.dtype)
    rows[np.arange(classes.size), classes.ravel()] = 1
    return rows.reshape(*classes.shape, count)


def training_step(net: GraphBuilder, work: Workload, how: How, **bounds: int) -> Any:
    return gc.compile_training(
        net,
        learner=gc.SGD(learning_rate=work.learning_rate, momentum=MOMENTUM),
        backend=how.backend,
        precision=how.precision,
        contraction=how.contraction,
        comm=how.comm,
        split=how.split or (),
        **bounds,
    )


def inference(net: GraphBuilder, how: How, **bounds: int) -> Any:
    """The scores; the parameters stay as they are, as those in a file of ONNX do."""
    return gc.compile(
        net,
        SCORES,
        backend=how.backend,
        precision=how.precision,
        contraction=how.contraction,
        freeze=True,
        **bounds,
    )


def calls(
    function: Any,
    data: Mapping[str, object],
    how: How,
    read: Callable[[Any], Any],
    parameters: Callable[[], Values] = dict,
) -> Case:
    """Calls of a compiled function; `read` makes what is compared of its results.

    On a GPU inputs lie there before anything is timed, and results stay there.
    """
    if how.backend != "cuda" or not has_gpu():
        return Case(lambda: read(function(**data)), parameters)
    import cupy

    from graphc.backends.cuda.platform import platform

    there = {n: cupy.asarray(v) if isinstance(v, np.ndarray) else v for n, v in data.items()}
    return Case(
        lambda: read(function(**data)),
        parameters,
        lambda: function(**there, out="device"),
        platform().device().wait,
    )


def array_calls(python: Callable[..., object], arguments: Sequence[object], how: How) -> Case:
    """Calls of a function of arrays, which on a GPU lie there before anything is timed."""
    precision = how.precision if how.contraction == "fma" else how.contraction
    function = gc.function(python, backend=how.backend, precision=precision)
    if how.backend != "cuda" or not has_gpu():
        return Case(lambda: function(*arguments))
    import cupy

    from graphc.backends.cuda.platform import platform

    call, arrays = function.compiled_for(*arguments)
    there = [device_array(cupy.asarray(a)) for a in (*arrays, *call.frozen)]

    def begin() -> None:
        results = [call.compiled.new_array(shape, dtype) for shape, dtype in call.results]
        call.compiled(there, results, {})

    return Case(lambda: function(*arguments), begin=begin, wait=platform().device().wait)


def loss(results: Any) -> float:
    return float(results[CRITERION])


def scores(results: Any) -> Array:
    return results[SCORES]


def has_gpu() -> bool:
    """Whether CuPy is here and sees one."""
    if find_spec("cupy") is None:
        return False
    import cupy

    return bool(cupy.cuda.is_available())
