"""Programs as the command line names them: a model file, IR, or a name in a Python file."""

from __future__ import annotations

import runpy
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from graphc.cli.network import open_network
from graphc.cli.options import (
    FIXED_IN_IR,
    FIXED_IN_PROGRAM,
    IN_PYTHON,
    Definitions,
    refuse_given,
)
from graphc.driver.prepare import prepare
from graphc.driver.program import SUFFIX, read_function
from graphc.frontend import program_format_for
from graphc.model.container import holds_program
from graphc.model.program import Program, read_program
from graphc.support.diagnostics import GraphcError, fail, suggestion
from graphc.support.source import Location, Span
from graphc.tensor.function import ArrayFunction


class ModelPath(click.Path):
    """An existing file, or FILE.py:NAME, which stays as it is."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        found = IN_PYTHON.fullmatch(str(value))
        if found is None:
            return super().convert(value, param, ctx)  # type: ignore[arg-type,return-value]
        super().convert(found["file"], param, ctx)
        return Path(str(value))


MODEL_FILE = ModelPath(exists=True, dir_okay=False, path_type=Path)


def open_program(
    path: Path,
    definitions: Definitions,
    *,
    parameters: Path | None = None,
    taken: Sequence[str] = (),
) -> Program | None:
    """The program that MODEL names; None where it is a network.

    parameters  a model whose parameters it takes, to which `definitions` belong then
    taken       options, by their names in Python, that this command has for programs too

    A Python file is run, as `python FILE.py` runs it, but for its `__name__`.
    """
    found = IN_PYTHON.fullmatch(str(path))
    reader = program_format_for(path) if found is None else None
    if reader is None:
        refuse_given(("dims", "fixed"), f"is for ONNX files, got {path}")
    if found is None and reader is None and path.suffix != SUFFIX and not holds_program(path):
        if parameters is not None:
            message = f"--parameters is for a MODEL that is a program or IR (.gir), got {path}"
            raise click.UsageError(message)
        return None
    if parameters is None and (definitions.macros or definitions.defines):
        raise click.UsageError(f"--define and --macros are for NDL, {path} is a program")
    is_written = found is None and path.suffix == SUFFIX
    fixed = FIXED_IN_IR if is_written else FIXED_IN_PROGRAM
    kind = "IR" if is_written else "a program"
    refused = [name for name in fixed if name not in taken]
    refuse_given(refused, f"cannot be given with {kind}: {path} says it")
    if reader is not None:
        program = reader.load_program(
            path,
            bounds=definitions.bounds,
            multiples=definitions.multiples,
            sizes=definitions.sizes,
            values=dict(definitions.fixed),
        )
    elif found is not None:
        program = _of_python(Path(found["file"]), found["name"])
    else:
        program = read_function(path) if is_written else read_program(path)
    return program if parameters is None else _with_parameters(program, parameters, definitions)


def _with_parameters(program: Program, path: Path, definitions: Definitions) -> Program:
    """The program with those of its parameters that the model in `path` has as they are there.

    GraphcError `missing-node` where it has none of them, `shape-mismatch` for other sizes.
    """
    if holds_program(path):
        found = read_program(path).values
    else:
        network = open_network(path, definitions).model
        prepare(network)
        found = network.values_in(program.precision)
    values = dict(program.values)
    roles = zip(program.function.arguments, program.function.roles, strict=True)
    wanted = {a.name or "": a.tensor for a, role in roles if role == "parameter"}
    if wanted and not wanted.keys() & found.keys():
        message = f"{path} has none of the parameters {', '.join(wanted)}"
        raise fail("missing-node", f"{message}, it has {', '.join(sorted(found)) or 'none'}")
    for name, type in wanted.items():
        if name not in found:
            continue
        if found[name].shape != type.dims:
            size, came = ("x".join(map(str, dims)) for dims in (type.dims, found[name].shape))
            message = f"the parameter `{name}` requires {size} elements, got {came}"
            raise fail("shape-mismatch", f"{message} in {path}")
        values[name] = np.array(found[name], type.dtype.numpy, order="C")
    return replace(program, values=values)


def _of_python(path: Path, name: str) -> Program:
    names = _run(path)
    if name not in names:
        programs = [n for n, value in names.items() if isinstance(value, Program)]
        known = ", ".join(programs) or "none"
        near = suggestion(name, programs)
        raise fail("missing-node", f"{path} has no `{name}`; programs in it: {known}{near}")
    found = names[name]
    if isinstance(found, Program):
        return found
    if isinstance(found, ArrayFunction) or callable(found):
        message = (
            f"`{name}` of {path} is a function, whose types are not known: make a program of it, "
            f'net = gc.program({name}, {{"x": "Nx64xf32"}})'
        )
        raise fail("argument-type", message)
    raise fail("argument-type", f"`{name}` of {path} is no program, but {type(found).__name__}")


def _run(path: Path) -> dict[str, object]:
    """The names of a Python file. GraphcError at its line for what it raises."""
    try:
        return runpy.run_path(str(path), run_name="graphc_program")
    except GraphcError:
        raise
    except Exception as problem:
        frames = [f for f in traceback.extract_tb(problem.__traceback__) if f.filename == str(path)]
        line = frames[-1].lineno or 1 if frames else 1
        place = Location(Span(str(path), line, 1, 2))
        raise fail("file", f"{type(problem).__name__}: {problem}", place) from problem
