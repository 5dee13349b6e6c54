"""The machine that schedules are made for, as people name it: this one, a known one, or a file."""

from __future__ import annotations

import tomllib
from pathlib import Path

from graphc.backends import BACKENDS
from graphc.driver.options import DEFAULT_BACKEND
from graphc.ir.machine import GPUS, MACHINES, AnyMachine, GpuMachine, Machine
from graphc.ir.params import ParamsError, make_params
from graphc.support.diagnostics import fail, suggestion
from graphc.support.files import read_text

NATIVE = "native"


def machine_named(text: str) -> AnyMachine:
    """`native`, a name of `MACHINES` or `GPUS`, or the path of a TOML file with a machine's
    fields.

    Raises GraphcError: `bad-option` for what is none of these, `bad-value` for a field.
    """
    if text == NATIVE:
        asked = BACKENDS[DEFAULT_BACKEND]().machine
        assert asked is not None
        return asked(NATIVE)
    known: dict[str, AnyMachine] = {**MACHINES, **GPUS}
    if text in known:
        return known[text]
    path = Path(text)
    if path.suffix == ".toml" or path.is_file():
        return read_machine(path)
    names = (NATIVE, *known)
    near = suggestion(text, names)
    message = f"a machine is one of {', '.join(names)} or a file of TOML, got {text}{near}"
    raise fail("bad-option", message)


def read_machine(path: Path) -> AnyMachine:
    """The machine in a file, of a GPU if it has a `capability`:

    vector_bits = 256
    has_fma = true
    masks_memory = true
    registers = 16
    l1 = 32768
    l2 = 1048576
    """
    try:
        fields = tomllib.loads(read_text(path))
        made = make_params(GpuMachine if "capability" in fields else Machine, fields)
    except tomllib.TOMLDecodeError as problem:
        raise fail(
            "parse", f"{path} requires TOML, such as `vector_bits = 256`: {problem}"
        ) from None
    except ParamsError as problem:
        raise fail("bad-value", f"{path}: {problem}") from None
    assert isinstance(made, Machine | GpuMachine)
    if what := made.misfit():
        raise fail("bad-value", f"{path} requires {what}")
    return made
