"""The node tests of the `onnx` package: each is compiled and compared with the outputs it expects.

A test whose operator has to know the value of an input is compiled for the values it gives.

    python -m tests.support.onnx_suite [--backend llvm] [--write]

prints what fails, by reason; `--write` writes the names of those that pass into the list that the
tests compare with.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc
from graphc.support.diagnostics import GraphcError
from graphc_frontends.onnx.model import element_name, program_of
from graphc_frontends.onnx.reading import bfloat16

LIST = Path(__file__).parents[1] / "conformance" / "onnx_suite.txt"
"""The names of the tests that pass, a line each."""

NEEDED = re.compile(r"computed from (.*?):")


@cache
def suite() -> Mapping[str, Any]:
    """The cases by name; each has `model`, `data_sets`, `rtol` and `atol`."""
    from onnx.backend.test.loader import load_model_tests

    with np.errstate(all="ignore"):
        cases = load_model_tests(kind="node")
    return {case.name: case for case in cases}


def problem_of(case: Any, backend: str) -> str | None:
    """What is wrong with a case, None if nothing is. GraphcError is among what can be wrong."""
    try:
        for inputs, expected in case.data_sets:
            given = dict(zip(_names(case.model), map(_plain, inputs), strict=False))
            _check(case, given, [*map(_plain, expected)], backend)
    except GraphcError as error:
        return f"{error.diagnostics[0].slug}: {error.diagnostics[0].message}"
    except AssertionError as error:
        return f"wrong: {str(error).strip()[:200]}"
    return None


def _names(model: Any) -> list[str]:
    weights = {t.name for t in model.graph.initializer}
    return [given.name for given in model.graph.input if given.name not in weights]


def _check(case: Any, given: dict[str, Any], expected: Any, backend: str) -> None:
    program, values = _program(case.model, given)
    call = gc.compile(program, backend=backend)
    asked = {a.name: a.tensor for a in program.function.arguments}
    inputs = {n: np.asarray(v) for n, v in given.items() if n not in values and n in asked}
    made = call(**inputs)
    flat = [*_flat(expected)]
    assert len(made) == len(flat), f"{len(made)} results, {len(flat)} expected"
    for found, wanted in zip(made.values(), flat, strict=True):
        wanted = np.asarray(wanted)
        if found.dtype.names:  # of bf16
            found = found.view(bfloat16())
        assert found.dtype == wanted.dtype, f"{found.dtype}, expected {wanted.dtype}"
        assert found.shape == wanted.shape, f"{found.shape}, expected {wanted.shape}"
        if found.dtype == bfloat16():
            found, wanted = (x.astype(np.float32) for x in (found, wanted))
        np.testing.assert_allclose(found, wanted, case.rtol, case.atol)


def _plain(value: Any) -> Any:
    """An array also where the suite has the message of one."""
    from onnx import TensorProto
    from onnx.numpy_helper import to_array

    return to_array(value) if isinstance(value, TensorProto) else value


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def _program(model: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The program, and the inputs whose values it was made for."""
    values = {n: v for n, v in given.items() if not _takes(v)}
    while True:
        try:
            sizes = _sizes(model, given) if values else {}
            return program_of(model, "test.onnx", {}, sizes, values), values
        except GraphcError as error:
            found = NEEDED.search(error.diagnostics[0].message)
            names = re.findall("`(.*?)`", found[1]) if found else []
            if not names or names[0] in values:
                raise
            values[names[0]] = given[names[0]]


def _sizes(model: Any, given: Mapping[str, Any]) -> dict[str, int]:
    """The sizes that inputs which are not fixed leave open."""
    found: dict[str, int] = {}
    for one in model.graph.input:
        array = given.get(one.name)
        if array is not None and _takes(array):
            for axis, dim in enumerate(one.type.tensor_type.shape.dim):
                if dim.dim_param:
                    found[dim.dim_param] = array.shape[axis]
    return found


def _takes(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic) and element_name(value.dtype) is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = {name: problem_of(case, given.backend) for name, case in suite().items()}
    passing = sorted(name for name, problem in found.items() if problem is None)
    failing = (problem.split("\n")[0] for problem in found.values() if problem)
    reasons = Counter(re.sub(r"`[^`]*`|\d+", "_", line)[:100] for line in failing)
    lines = [f"{count:5} {reason}\n" for reason, count in reasons.most_common()]
    sys.stdout.writelines([*lines, f"{len(passing)} of {len(found)} pass with {given.backend}\n"])
    if given.write:
        LIST.write_text("".join(f"{name}\n" for name in passing))


if __name__ == "__main__":
    main()
