"""A network as one Python file that needs numpy only: parameters inside, `run`, `info`, a command.

import digits; digits.run(features)["z"]
python digits.py < samples.txt
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import starmap

from graphc.backends.base import EmitRequest
from graphc.backends.numpy.emit import RESERVED, Emitted, emit_function
from graphc.backends.numpy.helpers import HELPERS
from graphc.backends.numpy.names import Names
from graphc.backends.numpy.text import decode_text
from graphc.ir.core import Function
from graphc.runtime.signature import NUMPY_DTYPES, ROLES_OF_MODEL, Argument, Result, Signature
from graphc.support.diagnostics import fail
from graphc.support.size_formula import SizeFormula

_HEAD = '''"""{title}: a network compiled by graphc to numpy source.

As a library:   import {module}
                {module}.run({example})   -> {{name: array}}
{usage}
inputs   {inputs}
outputs  {outputs}
"""

{imports}

import numpy as np

INFO = {info}
BOUNDS = {bounds}
INPUTS = {input_table}
OUTPUTS = {output_table}
ARENA_BYTES = json.loads(INFO)["arena_bytes"]
'''

_PROGRAM = """As a program:   python {module}.py < samples.txt
                python {module}.py --help
"""
_SEQUENCES = """
T steps of S slots with sequences in them, by the tables {tables}: the steps
of a sequence are begin to end - 1, and say so in each of them. For one sequence of length l in a
slot that is 0 and l; in the other steps of the slot, where outputs mean nothing, it is T and 0.
"""

_TAIL = '''

def info():
    """What the network takes and gives: names, element types, shapes, bounds."""
    return json.loads(INFO)


def run({parameters}):
    """The network's outputs by name, for arrays of one row per sample.

    Raises ValueError when an array does not fit.
    """
    sizes = {{}}
    arrays = [
        checked(name, array, sizes) for name, array in zip(INPUTS, ({tuple_of_inputs}), strict=True)
    ]
    for dim in BOUNDS:
        sizes.setdefault(dim, 1)  # no input has it
{derived}    outputs = {{
        name: np.empty([sizes.get(d, d) for d in shape], dtype)
        for name, (dtype, shape) in OUTPUTS.items()
    }}
    {function}({call})
    return outputs


def checked(name, array, sizes):
    """`array` as the contiguous array that input `name` needs; notes its sizes in `sizes`."""
    dtype, shape = INPUTS[name]
    given = np.asarray(array)
    if given.dtype.kind not in "fiub":
        raise ValueError(f"input {{name}} requires numbers, got elements of {{given.dtype}}")
    wanted = f"[{{', '.join(map(str, shape))}}]"
    if given.ndim != len(shape):
        hint = f"; one sample is {{name}}[None, :]" if given.ndim == 1 else ""
        raise ValueError(f"input {{name}} requires {{wanted}}, got {{list(given.shape)}}{{hint}}")
    for dim, size in zip(shape, given.shape, strict=True):
        if size != sizes.setdefault(dim, size) if isinstance(dim, str) else size != dim:
            known = f" where {{dim}} is {{sizes[dim]}}" if isinstance(dim, str) else ""
            found = list(given.shape)
            raise ValueError(f"input {{name}} requires {{wanted}}{{known}}, got {{found}}")
        if size > BOUNDS.get(dim, size):
            raise ValueError(f"{{dim}} is at most {{BOUNDS[dim]}}, got {{size}}")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(given, dtype).reshape(given.shape)


def new_arena():
    """Scratch memory for one call, at a multiple of 64 bytes."""
    raw = np.empty(ARENA_BYTES + 63, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + ARENA_BYTES]
'''

_COMMAND = '''

def main():
    """The command: samples from files or standard input, one output as text or .npy."""
    parser = argparse.ArgumentParser(description="Runs the network on samples, one per line.")
    parser.add_argument("files", nargs="*", help="one per input, text or .npy; - or none: stdin")
    parser.add_argument("--output", choices=list(OUTPUTS), default=next(iter(OUTPUTS)))
    parser.add_argument("-o", dest="to", default="-", help="where to write; - is standard output")
    parser.add_argument("--info", action="store_true", help="print what it takes and gives")
    options = parser.parse_args()
    if options.info:
        sys.stdout.write(INFO + "\\n")
        return 0
    files = options.files or ["-"]
    if len(files) != len(INPUTS) and INPUTS:
        parser.error(f"requires one file per input: {', '.join(INPUTS)}")
    try:
        write(options.to, run_blocks([read(f) for f in files[: len(INPUTS)]], options.output))
    except (ValueError, OSError) as problem:
        sys.stderr.write(f"{parser.prog}: {problem}\\n")
        return 3
    return 0


def read(name):
    """The rows of a text file, or the array of a .npy file."""
    if name.endswith(".npy"):
        return np.load(name, allow_pickle=False)
    if name == "-":
        lines = sys.stdin.read().splitlines()
    else:
        with open(name, encoding="utf-8") as file:
            lines = file.read().splitlines()
    rows = [line.split() for line in lines if line.strip()]
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"{name}: requires the same number of values on every line")
    width = len(rows[0]) if rows else next(iter(INPUTS.values()))[1][-1]
    return np.array([[float(cell) for cell in row] for row in rows]).reshape(len(rows), width)


def run_blocks(arrays, output):
    """Output `output` for any number of samples, at most the bound of them at a time."""
    dtype, shape = OUTPUTS[output]
    bound = min(BOUNDS.values(), default=1)
    samples = max((len(a) for a in arrays), default=1)
    if not BOUNDS or not isinstance(shape[0], str) or samples <= bound:
        return run(*arrays)[output]
    split = [isinstance(shape[0], str) for _, shape in INPUTS.values()]
    parts = []
    for start in range(0, samples, bound):
        pairs = zip(arrays, split, strict=True)
        parts.append(run(*[a[start : start + bound] if s else a for a, s in pairs])[output])
    return np.concatenate(parts)


def write(name, array):
    """As .npy for such a name, else as text with as many digits as the numbers have."""
    if name.endswith(".npy"):
        np.save(name, array)
        return
    digits = "%.9g" if array.dtype == np.float32 else "%.17g"
    rows = array if array.ndim == 2 else array.reshape(max(len(array), 1), -1)
    np.savetxt(sys.stdout if name == "-" else name, rows, fmt=digits)
'''


def emit_py(function: Function, signature: Signature, request: EmitRequest) -> bytes:
    """The file. Raises GraphcError `not-supported` for a function that learns."""
    _check(signature)
    has_command = _has_command(signature)
    emitted = emit_function(function, [d.name for d in signature.dims], request.name)
    parts = [
        _head(signature, request, emitted),
        "\n".join(emitted.constants) + "\n" if emitted.constants else "",
        helper_text(emitted),
        "\n\n" + emitted.text,
        _calls(signature, emitted),
        _COMMAND if has_command else "",
        "\n\n" + _parameters(signature, request),
        '\n\nif __name__ == "__main__":\n    sys.exit(main())\n' if has_command else "",
    ]
    return "".join(parts).encode("utf-8")


def helper_text(emitted: Emitted) -> str:
    """The definitions of the helpers that the function calls."""
    return "".join(f"\n{HELPERS[name]}" for name in emitted.helpers)


def _check(signature: Signature) -> None:
    learns = [a.name for a in signature.arguments if a.role in ("state", "hyperparameter")]
    learns += [r.name for r in signature.results if r.updates is not None]
    if learns:
        raise fail(
            "not-supported",
            f"a Python file can hold a network but not its training; {learns[0]} belongs to that",
        )


def _head(signature: Signature, request: EmitRequest, emitted: Emitted) -> str:
    inputs = signature.with_role("input")
    names = _input_names(signature, emitted.name)
    tables = signature.sequences
    if tables is None:
        usage = _PROGRAM.format(module=request.name)
    else:
        usage = _SEQUENCES.format(tables=f"{tables.begin} and {tables.end}")
    imports = ("argparse", "base64", "json", "sys")
    used = imports if _has_command(signature) else ("base64", "json")
    return _HEAD.format(
        usage=usage,
        imports="\n".join(f"import {name}" for name in used),
        title=request.name,
        module=request.name,
        example=", ".join(names),
        inputs=_listing(inputs),
        outputs=_listing(signature.fresh_results),
        info=repr(_info(request, emitted)),
        bounds=repr({d.name: d.bound for d in signature.call_dims}),
        input_table=_table(inputs),
        output_table=_table(signature.fresh_results),
    )


def _info(request: EmitRequest, emitted: Emitted) -> str:
    """The request's, with the arena that this file needs: kernels in numpy have temporaries."""
    record = json.loads(request.info) | {"arena_bytes": emitted.arena_bytes}
    return json.dumps(record, separators=(",", ":"))


def _has_command(signature: Signature) -> bool:
    """Whether the file is a program too: where there is an output, of samples one after another."""
    return bool(signature.fresh_results) and signature.sequences is None


def _listing(ports: Sequence[Argument | Result]) -> str:
    texts = [f"{p.name} {p.dtype}[{', '.join(map(str, p.shape))}]" for p in ports]
    # A user's name stands in a docstring here: nothing in it may end or escape the string.
    return ", ".join(texts).replace("\\", "\\\\").replace('"', "'") or "none"


def _table(ports: Sequence[Argument | Result]) -> str:
    return repr({p.name: (_numpy_type(p.dtype), p.shape) for p in ports})


def _numpy_type(dtype: str) -> object:
    """What numpy takes as this element type, in the file."""
    found = NUMPY_DTYPES[dtype]
    return found.descr if found.names else found.name


def _input_names(signature: Signature, function: str) -> list[str]:
    """The parameter names of `run`, which calls `function`."""
    names = Names(RESERVED | {function})
    return [names.fresh(a.name) for a in signature.with_role("input")]


def _calls(signature: Signature, emitted: Emitted) -> str:
    arguments: list[str] = []
    inputs = iter(range(len(signature.with_role("input"))))
    for argument in signature.arguments:
        if argument.role == "input":
            arguments.append(f"arrays[{next(inputs)}]")
        else:
            arguments.append(f"PARAMETERS[{argument.name!r}]")
    results = [f"outputs[{r.name!r}]" for r in signature.fresh_results]
    sizes = [f"sizes[{d.name!r}]" for d in signature.dims]
    names = _input_names(signature, emitted.name)
    return _TAIL.format(
        parameters=", ".join(names),
        tuple_of_inputs="".join(f"{n}, " for n in names).rstrip(),
        function=emitted.name,
        call=", ".join([*sizes, "new_arena()", *arguments, *results]),
        derived="".join(starmap(_derived_size, signature.formulas.items())),
    )


def _derived_size(name: str, formula: SizeFormula) -> str:
    """The lines of `run` that find a dim which follows from others."""
    names = {n: f"sizes[{n!r}]" for n in formula.names}
    total = formula.total_text(names)
    whole = f"({total})" if " + " in total or " - " in total else total
    lines = [
        f"sizes[{name!r}] = {total if formula.divisor == 1 else f'{whole} // {formula.divisor}'}"
    ]
    if formula.multiple != 1:
        product = " * ".join(names.values())
        message = f'f"{formula.names[0]} is a multiple of {formula.multiple}, got {{{product}}}"'
        lines = [f"if {product} % {formula.multiple}:", f"    raise ValueError({message})", *lines]
    if formula.may_be_negative:
        message = f'f"{formula.total_text({})} is at least 0, got {{{total}}}"'
        lines = [f"if {total} < 0:", f"    raise ValueError({message})", *lines]
    return "".join(f"    {line}\n" for line in lines)


def _parameters(signature: Signature, request: EmitRequest) -> str:
    lines = ["PARAMETERS = {"]
    for argument in (a for a in signature.arguments if a.role in ROLES_OF_MODEL):
        first, *middle, last = decode_text(request.parameters[argument.name])
        lines.append(f"    {argument.name!r}: {first}")
        lines += [f"    {line}" for line in middle]
        lines.append(f"    {last},")
    return "\n".join([*lines, "}"]) + "\n"
