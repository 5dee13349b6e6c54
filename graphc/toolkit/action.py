"""What an action is, and what the commands of one configuration share.

An action has two halves. `plan` reads and checks everything in its block and says what is to be
done; that runs when all commands of the file have been planned. So a command knows the files that
those before it will have written only by their plans: `Session` keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from graphc.config.keys import Key
from graphc.config.lookup import Scope
from graphc.driver.options import CompileOptions
from graphc.learn.agreement import any_of, is_first
from graphc.learn.records import Progress
from graphc.model.model import Model
from graphc.runtime.communicators.communicator import Communicator

Run = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Showing:
    """What is said of a training while it runs.

    nodes      the criterion, then everything else that is measured
    samples    says how many an epoch has, None as long as only reading tells
    minibatch_lines  a line after so many minibatches; 0: none
    """

    epochs: int
    nodes: Sequence[str]
    samples: Callable[[], int | None] = lambda: None
    minibatch_lines: int = 0


class Report(Protocol):
    """Where commands talk: a log, or a terminal."""

    def line(self, text: str) -> None:
        """A line of the log."""
        ...

    def training(self, showing: Showing) -> AbstractContextManager[Progress]:
        """What shows the progress of a training, as long as it runs."""
        ...


@dataclass
class Session:
    """What the commands of one configuration share.

    options    precision, backend and threads of all computations
    models     model files that earlier commands will have written, with the networks in them
    files      other files that earlier commands will have written
    has_edits  earlier commands write files whose names do not show before they run
    member     this one of several processes that run the configuration together, or None
    """

    top: Scope
    options: CompileOptions
    report: Report
    allow_exec: bool = False
    should_stop: Callable[[], bool] = lambda: False
    models: dict[Path, Model] = field(default_factory=dict[Path, Model])
    files: set[Path] = field(default_factory=set[Path])
    has_edits: bool = False
    member: Communicator | None = None

    @property
    def is_first(self) -> bool:
        """Whether this member is the one that writes files."""
        return is_first(self.member)

    def stops(self) -> bool:
        """Whether a member is asked to stop. All of them ask at the same places."""
        return any_of(self.member, self.should_stop())

    def will_write(self, path: Path, model: Model | None = None) -> None:
        """Note that this command writes a file, a model file if `model` is given."""
        real = path.absolute()
        if model is None:
            self.files.add(real)
        else:
            self.models[real] = model

    def exists(self, path: Path) -> bool:
        """Whether a file is there, or will be when the command that is planned runs."""
        real = path.absolute()
        return real in self.files or real in self.models or path.is_file()


@dataclass(frozen=True)
class Block:
    """A set that an action reads: its key, and the keys that it takes."""

    name: str
    keys: tuple[Key[object], ...]
    doc: str


@dataclass(frozen=True)
class Action:
    """What one or more names in `action=` stand for.

    keys    of the command's own block, `blocks`: of the sets in it
    plan    reads and checks a command's block; what it gives does the work
    shared  all members do it together; otherwise the first one does it, and the others wait
    """

    names: tuple[str, ...]
    doc: str
    keys: tuple[Key[object], ...]
    plan: Callable[[Scope, Session], Run]
    blocks: tuple[Block, ...] = ()
    shared: bool = False
