"""Options that several commands share, and the records they come in; `values.py` has the kinds of
values that they take.

A wrong value is a mistake of the command line (exit code 2) and is told before any work starts.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click
from click.core import ParameterSource

from graphc.backends import BACKENDS
from graphc.cli.command import RecordOption
from graphc.cli.values import (
    Block,
    BlockType,
    DefineType,
    DimType,
    FixedType,
    GivenDim,
)
from graphc.data.arrays import DASH
from graphc.driver.cache import Cache
from graphc.driver.cache_key import default_cache
from graphc.driver.machines import machine_named
from graphc.driver.options import (
    DEFAULT_TIME,
    MOST_COLUMNS,
    MOST_SAMPLES,
    CompileOptions,
    parse_precision,
)
from graphc.ir.core import CONTRACTION_MODES, LAUNCH_MODES
from graphc.ir.machine import AnyMachine
from graphc.ir.types import DType
from graphc.passes.loop_gradient import RECOMPUTE
from graphc.runtime.threads import MAX_THREADS, VARIABLE
from graphc.support.diagnostics import fail

F = TypeVar("F", bound=Callable[..., object])

IN_PYTHON = re.compile(r"(?P<file>.+\.py):(?P<name>[A-Za-z_]\w*)")
"""FILE.py:NAME, a program in a Python file."""


def refuse_overwriting(model: Path, outputs: Iterable[Path]) -> None:
    """A usage error where an output is the file of the network itself, under whatever name."""
    if found := IN_PYTHON.fullmatch(str(model)):
        model = Path(found["file"])
    for output in outputs:
        if output.exists() and output.samefile(model):
            raise click.UsageError(f"{output} is the network; name another file to write")


def require_writable(output: Path) -> None:
    """Refuse a place that cannot be written before hours of training, not after."""
    folder = output.absolute().parent
    if not folder.is_dir():
        raise fail("file", f"{output}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise fail("file", f"{output}: the folder {folder} cannot be written")


def check_reports(reports: Iterable[Path | None], others: Iterable[Path]) -> None:
    """Refuse, before any work, reports that cannot be written or would replace another file.

    others  every file that the command reads or writes besides
    Raises click.UsageError for a file with two uses, GraphcError `file` for a folder that is
    missing or cannot be written.
    """
    taken = list(others)
    for report in reports:
        if report is None:
            continue
        if str(report) == DASH:
            raise click.UsageError("a report goes to a file, `-` is none; name a file")
        if any(_same_file(report, other) for other in taken):
            raise click.UsageError(f"{report} is used for something else; name another file")
        if report.exists() and not report.is_file():
            raise click.UsageError(f"{report} is no regular file; name another one")
        require_writable(report)
        taken.append(report)


def _same_file(a: Path, b: Path) -> bool:
    """Whether two names are one file, by links too; it need not exist yet."""
    if a.exists() and b.exists():
        return a.samefile(b)
    return os.path.realpath(a) == os.path.realpath(b)


def stack(*options: Callable[[F], F]) -> Callable[[F], F]:
    """One decorator out of several; the first one is the first in the help."""
    return lambda function: functools.reduce(
        lambda f, option: option(f), reversed(options), function
    )


EXISTING_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DATA_FILE = click.Path(exists=True, dir_okay=False, path_type=Path, allow_dash=True)


def each_name_once(
    _: click.Context, param: click.Parameter, pairs: Sequence[tuple[str, object]]
) -> Sequence[tuple[str, object]]:
    """The pairs; a usage error for a name that is there twice: a table would keep the last."""
    values: dict[str, object] = {}
    for name, value in pairs:
        if name in values:
            got = f"{values[name]} and {value}"
            raise click.BadParameter(f"one value for {name} is required, got {got}", param=param)
        values[name] = value
    return pairs


def split_names(_: click.Context, _param: click.Parameter, texts: Sequence[str]) -> list[str]:
    """The names in `a,b,c`, of each text in turn."""
    return [name for text in texts for name in re.split(r"[,\s]+", text) if name]


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON on stdout."
)


# ---------------------------------------------------------------- definitions: Definitions


@dataclass(frozen=True, slots=True)
class Definitions:
    """What is read with a network or a program.

    defines, macros  values of a network's variables, files of macros
    dims             a program file's open sizes, by their names there
    fixed            inputs of a program file that every call has
    """

    defines: Sequence[tuple[str, object]]
    macros: Sequence[Path]
    dims: Sequence[tuple[str, GivenDim]] = ()
    fixed: Sequence[tuple[str, object]] = ()

    @property
    def bounds(self) -> dict[str, int]:
        return {name: given.bound for name, given in self.dims if given.bound is not None}

    @property
    def multiples(self) -> dict[str, int]:
        return {name: given.multiple for name, given in self.dims if given.multiple != 1}

    @property
    def sizes(self) -> dict[str, int | str]:
        return {name: given.size for name, given in self.dims if given.size is not None}


class DefinitionOption(RecordOption):
    parameter, make = "definitions", Definitions


definition_options = stack(
    click.option(
        "-D",
        "defines",
        cls=DefinitionOption,
        type=DefineType(),
        multiple=True,
        callback=each_name_once,
        metavar="NAME=VALUE",
        help="Give a variable of the NDL text another value, as in `-D HiddenDim=128`.",
    ),
    click.option(
        "--macros",
        cls=DefinitionOption,
        type=EXISTING_FILE,
        multiple=True,
        metavar="FILE",
        help="NDL macros to read before the network; can be repeated.",
    ),
)


program_options = stack(
    click.option(
        "--dim",
        "dims",
        cls=DefinitionOption,
        type=DimType(),
        multiple=True,
        callback=each_name_once,
        metavar="NAME=SIZE[!]",
        help="The largest size that a dim of an ONNX file has, as in `--dim batch=64`; with `!` "
        "its size in every call. `height=512/32`: every size is a multiple of 32. `mask=batch`: it "
        "is always that of the dim `batch`.",
    ),
    click.option(
        "--fix",
        "fixed",
        cls=DefinitionOption,
        type=FixedType(),
        multiple=True,
        callback=each_name_once,
        metavar="INPUT=NUMBERS",
        help="An input of an ONNX file that is the same in every call, as in `--fix axes=0,1`.",
    ),
)


parameters_option = click.option(
    "--parameters",
    type=EXISTING_FILE,
    metavar="FILE",
    help="A model (.safetensors, .ndl) whose parameters a MODEL that is a program takes, or IR.",
)


# ---------------------------------------------------------------- wanted: Wanted


@dataclass(frozen=True, slots=True)
class Wanted:
    """What of a network is compiled: a training step, some nodes, or else what the command says."""

    nodes: Sequence[str]
    train: bool = False

    def __post_init__(self) -> None:
        if self.train and self.nodes:
            raise click.UsageError("--train decides what is computed: leave out --nodes")


class WantedOption(RecordOption):
    parameter, make = "wanted", Wanted


FIXED_IN_PROGRAM = ("train", "batch", "time", "sequences", "precision", "minibatch")
"""Options, by their names in Python, of what a program decides."""

FIXED_IN_IR = (*FIXED_IN_PROGRAM, "nodes", "contraction", "launch")
"""And of what is decided where a function of the IR is written."""


def refuse_given(names: Iterable[str], why: str) -> None:
    """A usage error if one of these options, by their names in Python, is on the command line."""
    context = click.get_current_context()
    for option in context.command.get_params(context):
        if option.name in names and (
            context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        ):
            raise click.UsageError(f"{option.opts[-1]} {why}")


def nodes_option(help: str) -> Callable[[F], F]:
    """`--nodes`."""
    return click.option(
        "--nodes",
        cls=WantedOption,
        multiple=True,
        callback=split_names,
        metavar="A,B,…",
        help=help,
    )


def train_option(help: str) -> Callable[[F], F]:
    """`--train`."""
    return click.option("--train", cls=WantedOption, is_flag=True, help=help)


# ---------------------------------------------------------------- options: CompileOptions


class CompileOption(RecordOption):
    """Its name in Python is that of a field of `CompileOptions`, which also has the default."""

    parameter, make = "options", CompileOptions


def _dtype(_: click.Context, _param: click.Parameter, precision: str) -> DType:
    return parse_precision(precision)


def _machine(_: click.Context, _param: click.Parameter, text: str | None) -> AnyMachine | None:
    return None if text is None else machine_named(text)


def _cache(_: click.Context, _param: click.Parameter, no_cache: bool) -> Cache | None:
    """Where compiled code is kept, by the environment and `--no-cache`."""
    return None if no_cache else default_cache()


backend_option = click.option(
    "--backend",
    cls=CompileOption,
    type=click.Choice(list(BACKENDS)),
    default=CompileOptions.backend,
    show_default=True,
    help="What computes: native code (llvm, or c by the system's C compiler), a GPU (cuda), "
    "generated numpy code, or the plain reference.",
)
precision_option = click.option(
    "--precision",
    cls=CompileOption,
    type=click.Choice(["float", "double"]),
    default="float",
    callback=_dtype,
    show_default=True,
    help="What to compute in: 32-bit or 64-bit floating point.",
)
bound_option = click.option(
    "--bound",
    "batch",
    cls=CompileOption,
    type=click.IntRange(1, MOST_SAMPLES),
    default=CompileOptions.batch,
    show_default=True,
    metavar="N",
    help="The largest number of samples in a call; memory is planned for it.",
)
sequence_options = stack(
    click.option(
        "--time",
        cls=CompileOption,
        type=click.IntRange(0, MOST_COLUMNS),
        default=CompileOptions.time,
        metavar="T",
        help="The most steps of a sequence; memory is planned for it. "
        f"[default: {DEFAULT_TIME} if the network looks along time]",
    ),
    click.option(
        "--sequences",
        cls=CompileOption,
        type=click.IntRange(1, MOST_COLUMNS),
        default=CompileOptions.sequences,
        show_default=True,
        metavar="S",
        help="The most sequences side by side in a call.",
    ),
)
recompute_option = click.option(
    "--recompute",
    cls=CompileOption,
    type=click.Choice(RECOMPUTE),
    default=CompileOptions.recompute,
    show_default=True,
    help="What gradients of recurrent networks compute again to save memory: what costs next to "
    "nothing (auto), nothing, all, or segments of the root of T steps (sqrt).",
)
contraction_option = click.option(
    "--contraction",
    cls=CompileOption,
    type=click.Choice(CONTRACTION_MODES),
    default=CompileOptions.contraction,
    show_default=True,
    help="Whether native code may round a product and the sum it goes to together (fma), "
    "rounds each by itself (off), or rounds factors of products too on a GPU (tf32) or "
    "everywhere (bf16).",
)
launch_option = click.option(
    "--launch",
    cls=CompileOption,
    type=click.Choice(LAUNCH_MODES),
    default=CompileOptions.launch,
    show_default=True,
    help="How a GPU runs a function: as many kernels (graph), as one of many blocks (grid), as one "
    "block, or as takes least time by estimate (auto).",
)
machine_option = click.option(
    "--machine",
    cls=CompileOption,
    callback=_machine,
    metavar="NAME|FILE",
    help="What schedules are chosen for: native, an instruction set as of --target, or a file of "
    "TOML (docs/schedules.md). [default: what code is made for]",
)
threads_option = click.option(
    "--threads",
    cls=CompileOption,
    type=click.IntRange(1, MAX_THREADS),
    envvar=VARIABLE,
    show_envvar=True,
    metavar="N",
    help="Threads that native code computes with; results do not depend on it. "
    "[default: one for each core]",
)
no_cache_option = click.option(
    "--no-cache",
    "cache",
    cls=CompileOption,
    is_flag=True,
    callback=_cache,
    help="Compile anew and keep nothing: see `graphc cache --help`.",
)
stage_options = stack(
    nodes_option("What to compute, if not all outputs and criteria."),
    bound_option,
    sequence_options,
    recompute_option,
    machine_option,
)
"""What is compiled for those who look at it, after `train_option`."""


# ---------------------------------------------------------------- data: DataFile


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of samples, and which of its columns are what.

    classes        of the labels; None: numbers to be met, unless the mapping says how many
    label_mapping  a file with the labels' spellings
    """

    data: Path
    features: Sequence[Block]
    labels: Sequence[Block]
    classes: int | None
    label_mapping: Path | None

    @property
    def files(self) -> list[Path]:
        """What is read."""
        return [self.data, *([self.label_mapping] if self.label_mapping else [])]


class DataOption(RecordOption):
    parameter, make = "data", DataFile


data_options = stack(
    click.option(
        "--data",
        cls=DataOption,
        type=DATA_FILE,
        required=True,
        metavar="FILE",
        help="Text with one sample a line: columns separated by blanks or tabs, or CSV with commas "
        "or semicolons. A file, a pipe, or `-` for stdin. Or an array (.npy), or columns with the "
        "names of the inputs (.npz, .parquet).",
    ),
    click.option(
        "--features",
        cls=DataOption,
        type=BlockType(),
        multiple=True,
        metavar="[NAME=]START:DIM",
        help="Columns of the features, from 0; required for text and .npy. NAME is needed if there "
        "are several inputs.",
    ),
    click.option(
        "--labels",
        cls=DataOption,
        type=BlockType(),
        multiple=True,
        metavar="[NAME=]START[:DIM]",
        help="Columns of the labels; one column unless DIM is given.",
    ),
    click.option(
        "--classes",
        cls=DataOption,
        type=click.IntRange(min=1),
        metavar="K",
        help="Labels are one of K classes. Without it labels are numbers to be met (regression).",
    ),
    click.option(
        "--label-mapping",
        cls=DataOption,
        type=EXISTING_FILE,
        metavar="FILE",
        help="The labels' spellings, one a line: line n is class n. Without it: 0 to K-1.",
    ),
)
