"""The tests of the `onnx` package: each is compiled and compared with the outputs it expects.

They are of single operators, and of small models, most of which PyTorch exported. A test whose
operator has to know the value of an input is compiled for the values it gives, and one that has to
know a size for the sizes, of its outputs too where values decide them.

    python -m tests.support.onnx_suite [--backend llvm] [--write]

prints what fails, by reason; `--write` writes the names of those that pass into the list that the
tests compare with.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc
from graphc.support.diagnostics import GraphcError
from graphc.support.element_types import as_numbers
from graphc_frontends.onnx.model import STEP, GivenDims, element_name, program_of
from graphc_frontends.onnx.reading import brought_types

LIST = Path(__file__).parents[1] / "conformance" / "onnx_suite.txt"
"""The names of the tests that pass, a line each."""

NEEDED = re.compile(r"computed from (.*?):")
OPEN_SIZE = "which each call decides"
COUNTED = re.compile(r"the result `(.*?)` has, `--dim .*\.(\d+)=")

MODELS = ("simple", "pytorch-converted", "pytorch-operator")
"""Kinds of tests whose models and data are files of the package."""


@dataclass(frozen=True)
class Case:
    """A model, pairs of inputs and outputs, and how near outputs have to be."""

    model: Any
    data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


@cache
def suite() -> Mapping[str, Case]:
    """The cases by name, those of models behind their kind: `simple/test_shrink`."""
    from onnx.backend.test.loader import load_model_tests

    with np.errstate(all="ignore"):
        nodes = load_model_tests(kind="node")
    found = {c.name: Case(c.model, c.data_sets, c.rtol, c.atol) for c in nodes}
    for kind in MODELS:
        for c in load_model_tests(kind=kind):
            model, data_sets = _read(Path(c.model_dir))
            found[f"{kind}/{c.name}"] = Case(model, data_sets, c.rtol, c.atol)
    return found


def _read(folder: Path) -> tuple[Any, list[tuple[list[Any], list[Any]]]]:
    """The model of a folder, and its inputs and outputs."""
    import onnx

    model = onnx.load(folder / "model.onnx")
    return model, [
        (
            _read_values(data, "input", model.graph.input),
            _read_values(data, "output", model.graph.output),
        )
        for data in sorted(folder.glob("test_data_set_*"))
    ]


def _read_values(folder: Path, what: str, ports: Any) -> list[Any]:
    """The values of the graph's inputs or outputs, of which a folder has the first ones."""
    from onnx import SequenceProto, TensorProto
    from onnx.numpy_helper import to_list

    made: list[Any] = []
    for number, port in enumerate(ports):
        path = folder / f"{what}_{number}.pb"
        if not path.exists():
            break
        is_list = port.type.HasField("sequence_type")
        message: Any = SequenceProto() if is_list else TensorProto()
        message.ParseFromString(path.read_bytes())
        made.append(to_list(message) if is_list else message)
    return made


def problem_of(case: Case, backend: str) -> str | None:
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


def _check(case: Case, given: dict[str, Any], expected: Any, backend: str) -> None:
    program, values = _program(case.model, given, expected)
    call = gc.compile(program, backend=backend)
    asked = {a.name: a.tensor for a in program.function.arguments}
    inputs = {n: np.asarray(v) for n, v in given.items() if n not in values and n in asked}
    inputs |= {STEP: np.int64(0)} if STEP in asked else {}
    made = call(**inputs)
    flat = [*_flat(expected)]
    assert len(made) == len(flat), f"{len(made)} results, {len(flat)} expected"
    for found, wanted in zip(made.values(), flat, strict=True):
        wanted = np.asarray(wanted)
        if found.dtype.names:  # of a type that numpy lacks
            found = found.view(brought_types()[found.dtype.names[0]])
        assert found.dtype == wanted.dtype, f"{found.dtype}, expected {wanted.dtype}"
        assert found.shape == wanted.shape, f"{found.shape}, expected {wanted.shape}"
        found, wanted = as_numbers(found), as_numbers(wanted)
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


def _program(
    model: Any, given: Mapping[str, Any], expected: Sequence[Any]
) -> tuple[Any, dict[str, Any]]:
    """The program, and the inputs whose values it was made for."""
    values = {n: v for n, v in given.items() if not _takes(v)}
    sizes = _sizes(model, given) if values else {}
    while True:
        try:
            return program_of(model, "test.onnx", GivenDims(sizes=sizes), values), values
        except GraphcError as error:
            counted = COUNTED.search(error.diagnostics[0].message)
            if counted is not None:
                outputs = [output.name for output in model.graph.output]
                size = expected[outputs.index(counted[1])].shape[int(counted[2])]
                sizes[f"{counted[1]}.{counted[2]}"] = size
                continue
            if OPEN_SIZE in error.diagnostics[0].message and not sizes:
                sizes = _sizes(model, given)
                continue
            found = NEEDED.search(error.diagnostics[0].message)
            names = re.findall("`(.*?)`", found[1]) if found else []
            if not names or names[0] in values:
                raise
            values[names[0]] = given[names[0]]
            sizes = _sizes(model, given)


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
