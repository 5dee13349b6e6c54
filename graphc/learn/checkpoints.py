"""Where checkpoints are written, when, and what is gone on from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from graphc.learn.checkpoint import Checkpoint, read_checkpoint
from graphc.support import arguments
from graphc.support.diagnostics import GraphcError, Note, Severity, fail, make, warn
from graphc.support.files import SYSTEM_CALLS, FileCalls, staged
from graphc.support.locks import sole_writer


@runtime_checkable
class CheckpointFiles(Protocol):
    """Where checkpoints are kept, under whatever names."""

    def newest(self) -> Checkpoint | None:
        """What to go on from; None where there is nothing. GraphcError for what is damaged."""
        ...

    def write(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint: at every moment `newest` has to find it or the one before."""
        ...


@dataclass(frozen=True)
class CheckpointSeries:
    """The newest checkpoint in `path`, those before it in `path` with `.1`, `.2` and so on.

    keep   how many there are at most
    calls  the system calls of writing, for tests that let them fail
    """

    path: Path
    keep: int = 2
    calls: FileCalls = SYSTEM_CALLS

    def newest(self) -> Checkpoint | None:
        """The newest that can be read; a damaged one is warned of where an older one serves."""
        damaged: list[GraphcError] = []
        for path in self.paths():
            if not path.exists():
                continue
            try:
                found = read_checkpoint(path)
            except GraphcError as error:
                damaged.append(error)
                continue
            for error in damaged:
                said = error.diagnostics[0].message
                note = Note(f"training goes on from {path}, which is older")
                warn([make(Severity.WARNING, "training", said, None, "", (note,))])
            return found
        if damaged:
            raise damaged[0]
        return None

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the newest, after everything is on the disk."""
        with staged(self.path, checkpoint.writer(), calls=self.calls) as put_into_place:
            for old, older in reversed(list(zip(self.paths(), self.paths()[1:], strict=False))):
                # One that is missing has nothing to become older.
                with suppress(FileNotFoundError):
                    self._rename(old, older)
            put_into_place()

    def _rename(self, old: Path, older: Path) -> None:
        try:
            self.calls.replace(str(old), str(older))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise fail("file", f"cannot rename {old} to {older}: {error.strerror}") from error

    def paths(self) -> list[Path]:
        """The newest first."""
        path = Path(os.path.realpath(self.path))  # of a link the file it leads to
        return [path, *(path.with_name(f"{path.name}.{n}") for n in range(1, self.keep))]


@dataclass(frozen=True)
class Checkpoints:
    """Asks a training to write checkpoints, and to go on from one.

    files        the path of the newest one, or something of your own with the methods of
                 `CheckpointFiles`
    every_epoch  write one after each epoch
    minutes      write one as soon as so many have passed since the last; None: not inside of
                 epochs. When a stop is asked for, and at the end, one is written in any case
    keep         how many there are at most, older ones named `path.1` and so on
    resume       go on from the newest, if there is one. Without it, one that is there is an error
    """

    files: str | Path | CheckpointFiles
    every_epoch: bool = True
    minutes: float | None = None
    keep: int = 2
    resume: bool = False

    def __post_init__(self) -> None:
        for name in ("every_epoch", "resume"):
            arguments.truth(getattr(self, name), name)
        _require_files(self.files)
        if self.minutes is not None and not self.minutes >= 0:
            raise fail("bad-value", f"minutes requires at least 0, got {self.minutes}")
        if arguments.whole(self.keep, "keep") < 1:
            raise fail("bad-value", f"keep requires at least 1, got {self.keep}")

    def series(self) -> CheckpointFiles:
        """Where they are kept."""
        if isinstance(self.files, str | Path):
            return CheckpointSeries(Path(self.files), self.keep)
        return self.files

    def sole_writer(self) -> AbstractContextManager[None]:
        """For the time of a training. GraphcError `file` where another process trains into the same
        path; of files of your own nothing is known."""
        if not isinstance(self.files, str | Path):
            return nullcontext()
        return sole_writer(Path(self.files))

    def found(self) -> Checkpoint | None:
        """What to go on from, if that is asked for and there is one.

        GraphcError `bad-option` where there is one and nobody asks for it.
        """
        if self.resume:
            return self.series().newest()
        self._refuse_replacing()
        return None

    def _refuse_replacing(self) -> None:
        if not isinstance(self.files, str | Path):
            return
        for path in CheckpointSeries(Path(self.files), self.keep).paths():
            if path.exists():
                message = f"{path} is a checkpoint that this training would replace"
                note = Note("go on from it with resume=True (--resume), or remove it first")
                raise fail("bad-option", message, notes=(note,))


def _require_files(given: object) -> None:
    if not isinstance(given, str | Path | CheckpointFiles):
        required = "a path, or something with `newest` and `write`"
        raise arguments.kind_error("Checkpoints", required, given)


def require_same(then: Mapping[str, str], now: Mapping[str, str]) -> None:
    """GraphcError `bad-option` unless what decides a training is what it was, with all that is
    not."""
    differences = [
        Note(
            f"{name}: {then.get(name, 'nothing')} in the checkpoint, {now.get(name, 'nothing')} now"
        )
        for name in sorted({*then, *now})
        if then.get(name) != now.get(name)
    ]
    if differences:
        names = ", ".join(note.message.partition(":")[0] for note in differences)
        message = f"a checkpoint requires the same training to go on, other is: {names}"
        raise fail("bad-option", message, notes=tuple(differences))
