"""Programs as the command line names them: a model file, IR, or a name in a Python file."""

from __future__ import annotations

import re
import runpy
import traceback
from pathlib import Path

import click

from graphc.cli.network import open_network
from graphc.cli.options import FIXED_IN_IR, FIXED_IN_PROGRAM, Definitions, refuse_given
from graphc.driver.prepare import prepare
from graphc.driver.program import SUFFIX, read_function
from graphc.frontend import program_format_for
from graphc.model.container import holds_program
from graphc.model.program import Program, read_program
from graphc.support.diagnostics import GraphcError, fail, suggestion
from graphc.support.source import Location, Span
from graphc.tensor.function import ArrayFunction

_IN_PYTHON = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")


class ModelPath(click.Path):
    """An existing file, or FILE.py:NAME, which stays as it is."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path:
        found = _IN_PYTHON.fullmatch(str(value))
        if found is None:
            return super().convert(value, param, ctx)  # type: ignore[arg-type,return-value]
        super().convert(found["file"], param, ctx)
        return Path(str(value))


MODEL_FILE = ModelPath(exists=True, dir_okay=False, path_type=Path)


def open_program(path: Path, definitions: Definitions) -> Program | None:
    """The program that MODEL names; None where it is a network.

    A Python file is run, as `python FILE.py` runs it, but for its `__name__`.
    """
    found = _IN_PYTHON.fullmatch(str(path))
    reader = program_format_for(path) if found is None else None
    if reader is None:
        refuse_given(("dims", "fixed"), f"is for ONNX files, got {path}")
    if found is None and reader is None and path.suffix != SUFFIX and not holds_program(path):
        return None
    if definitions.macros or definitions.defines:
        raise click.UsageError(f"--define and --macros are for NDL, {path} is a program")
    is_written = found is None and path.suffix == SUFFIX
    fixed = FIXED_IN_IR if is_written else FIXED_IN_PROGRAM
    kind = "IR" if is_written else "a program"
    refuse_given(fixed, f"cannot be given with {kind}: {path} says it")
    if reader is not None:
        bounds, sizes, values = definitions.bounds, definitions.sizes, dict(definitions.fixed)
        return reader.load_program(path, bounds=bounds, sizes=sizes, values=values)
    if found is not None:
        return _of_python(Path(found["file"]), found["name"])
    return read_function(path) if is_written else read_program(path)


def open_given(path: Path, definitions: Definitions, parameters: Path | None) -> Program | None:
    """As `open_program`; of IR with the parameters of the network in a file."""
    if parameters is None:
        return open_program(path, definitions)
    if path.suffix != SUFFIX:
        raise click.UsageError("--parameters is for a MODEL that is IR (.gir)")
    refuse_given(FIXED_IN_IR, f"cannot be given with IR: {path} says it")
    network = open_network(parameters, definitions).model
    prepare(network)
    return read_function(path, network)


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
