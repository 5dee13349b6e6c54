"""What the training loop needs of a program with a loss (`trainee.py`), and its measuring.

Data of files have two axes, (samples, columns): what a reader gives is brought into the shapes of
the program's inputs, images such as (samples, 1, 8, 8) among them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from graphc.backends.base import CompiledFunction
from graphc.data.reader import Block, Column, EpochRequest, Reader, fingerprint_of
from graphc.driver.options import DEFAULT_BATCH, CompileOptions
from graphc.driver.program import compile_program, program_passes
from graphc.ir.printer import print_module
from graphc.ir.types import Symbol, TensorType
from graphc.learn.adaptation import Adaptation
from graphc.learn.checkpoint import Checkpoint
from graphc.learn.epoch import require_samples
from graphc.learn.evaluate import Evaluation, Evaluator
from graphc.learn.plan import TrainingPlan
from graphc.learn.program_loss import Objective, sample_dim, with_loss
from graphc.learn.program_step import Trained, compile_step
from graphc.learn.source import Data, is_reader, samples_of
from graphc.learn.step import TrainingStep
from graphc.learn.trainee import Held
from graphc.model.container import PROGRAM
from graphc.model.program import Program
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.executable import Executable
from graphc.runtime.signature import Signature
from graphc.runtime.threads import thread_count
from graphc.support.diagnostics import fail

Array = np.ndarray


class ProgramTrainee:
    """A program that is trained by an objective. Raises GraphcError for one that does not fit."""

    def __init__(self, program: Program, objective: Objective) -> None:
        self._program = program
        self._trained = Trained.of(program, objective)
        self._text = ""

    @property
    def program(self) -> Program:
        """With its loss, as it is trained."""
        return self._trained.program

    @property
    def values(self) -> Mapping[str, Array]:
        return self._program.parameters

    def outputs(self, criterion: str | None) -> Sequence[str]:
        if criterion is not None:
            raise fail("bad-option", "a criterion is for networks: a program has a loss")
        return self._trained.results

    def identity(self) -> str:
        text = f"{print_module(self.program.module)}{[*self._trained.parameters]}"
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def made_ready(
        self,
        data: Data,
        plan: TrainingPlan,
        options: CompileOptions,
        adaptation: Adaptation | None,
        found: Checkpoint | None,
        communicator: Communicator | None,
    ) -> Data:
        wrong = {
            "truncate": bool(plan.truncate),
            "dropout": any(rate for rate, _ in plan.dropout.values),
            "adaptation": adaptation is not None,
        }
        if said := ", ".join(name for name, is_given in wrong.items() if is_given):
            raise fail("not-supported", f"{said}: for networks, got a program")
        return _read(self.program, data)

    def fitted(
        self, data: Data, plan: TrainingPlan, options: CompileOptions
    ) -> tuple[CompileOptions, int]:
        samples = sample_dim(self.program)
        default = DEFAULT_BATCH if isinstance(samples, Symbol) else samples
        batch = plan.largest(default, samples_of(data))
        return replace(options, batch=batch), default

    def step(
        self,
        plan: TrainingPlan,
        options: CompileOptions,
        communicator: Communicator | None,
        split: Sequence[str] = (),
        sync_batchnorm: bool = False,
    ) -> TrainingStep:
        if split:
            raise fail("not-supported", "members split layers of networks, got a program")
        made = compile_step(
            self._trained,
            plan.learner,
            options,
            batch=options.batch,
            seed=plan.seed,
            communicator=communicator,
            sync_batchnorm=sync_batchnorm,
        )
        is_open = isinstance(sample_dim(self.program), Symbol)
        require_samples(made.signature, "training by epochs", is_fixed=not is_open)
        return made

    def evaluator(
        self, data: Data, names: Sequence[str], plan: TrainingPlan, options: CompileOptions
    ) -> Evaluator:
        return _evaluator(self.program, names, replace(options, batch=DEFAULT_BATCH))

    def held(self) -> Held:
        self._text = self._text or print_module(self._program.module, locations=True)
        values = {name: self.values[name] for name in self.values}
        return Held(self._text, 0, values, kind=PROGRAM)


# --- measuring -----------------------------------------------------------------------------------


def evaluate_program(
    program: Program,
    objective: Objective,
    data: Data,
    options: CompileOptions,
    communicator: Communicator | None = None,
) -> Evaluation:
    """Averages per sample of the loss and the measures, over arrays by name or what a reader gives;
    `options.batch` samples in a call.

    communicator  as in `Evaluator.measure`

    GraphcError for an objective or data that do not fit, `input` for no sample.
    """
    return measure_program(with_loss(program, objective), data, options, communicator)


def measure_program(
    held: Program, data: Data, options: CompileOptions, communicator: Communicator | None = None
) -> Evaluation:
    """The same, of a program that has its loss and measures."""
    names = [r.name for r in held.function.results]
    return _evaluator(held, names, options).measure(data, communicator)


def _evaluator(held: Program, names: Sequence[str], options: CompileOptions) -> Evaluator:
    samples = sample_dim(held)
    if isinstance(samples, Symbol):
        held = held.with_bounds({samples.name: options.batch})

    def compiled(bounds: Mapping[str, int]) -> tuple[CompiledFunction, Signature]:
        wider = held.with_bounds(bounds)
        return compile_program(wider, program_passes(wider, options), options)

    function, signature = compiled({})
    require_samples(signature, "measuring", is_fixed=not isinstance(samples, Symbol))
    threads = thread_count(options.threads)
    executable = Executable(function, signature, held.values, recompile=compiled, threads=threads)
    return Evaluator(executable, names, options.batch, read=lambda data: _read(held, data))


# --- data of files -------------------------------------------------------------------------------


def shaped(program: Program, data: Data) -> Data:
    """The data with arrays (samples, columns) in the shapes of the program's inputs, where these
    have as many numbers a sample; one column of whole numbers for an input of integers."""
    roles = zip(program.function.arguments, program.function.roles, strict=True)
    types = {(a.name or "").lower(): a.tensor for a, role in roles if role == "input"}
    if is_reader(data):
        return ShapedReader(data, types)
    assert isinstance(data, Mapping)
    return _shaped(types, data)


def _read(program: Program, data: Data) -> Data:
    """What a reader gives in the shapes of the program's inputs; arrays have them."""
    return shaped(program, data) if is_reader(data) else data


def _shaped(types: Mapping[str, TensorType], block: Block) -> dict[str, object]:
    found = dict(block)
    for name, value in block.items():
        type = types.get(name.lower())
        if type is not None and isinstance(value, np.ndarray) and value.ndim == 2:
            found[name] = _as_input(type, value)
    return found


def _as_input(type: TensorType, array: Array) -> Array:
    sizes = [d for d in type.dims[1:] if isinstance(d, int)]
    fits = len(sizes) == len(type.dims) - 1 and prod(sizes) == array.shape[1]
    made = array.reshape(len(array), *sizes) if fits else array
    is_whole = type.dtype.is_float or made.dtype.kind != "f" or not (made % 1 != 0).any()
    return made if type.dtype.is_float or not is_whole else made.astype(type.dtype.numpy)


@dataclass(frozen=True, eq=False)
class ShapedReader:
    """A reader whose blocks have the shapes of a program's inputs."""

    reader: Reader
    types: Mapping[str, TensorType]

    @property
    def schema(self) -> Mapping[str, Column]:
        return self.reader.schema

    @property
    def samples(self) -> int | None:
        return self.reader.samples

    @property
    def order(self) -> object:
        return getattr(self.reader, "order", "")

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.reader)

    def blocks(self, request: EpochRequest) -> Iterator[Block]:
        return (_shaped(self.types, block) for block in self.reader.blocks(request))
