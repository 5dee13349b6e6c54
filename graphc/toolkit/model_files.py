"""The files of a training: `modelPath`, `modelPath.k` after epoch k, and checkpoints beside them.

    modelPath.0      the network before the first epoch
    modelPath.k      the network after epoch k (from 1), but not after the last one
    modelPath        the network when training is over
    ….ckp            beside each: all that it takes to go on, bit for bit

The checkpoint of an epoch replaces that of the one before unless all are kept. It is written before
the network, so that a network of an epoch always has its checkpoint; one of a training that was
stopped inside an epoch stands beside the network of the epoch before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from graphc.learn.checkpoint import Checkpoint, read_checkpoint
from graphc.model.container import container_writer
from graphc.support.files import SYSTEM_CALLS, FileCalls, write_atomically

SUFFIX = ".ckp"


def epoch_path(path: Path, epoch: int) -> Path:
    """The network after an epoch, counted from 1; 0 is the initial one."""
    return path.with_name(f"{path.name}.{epoch}")


def checkpoint_path(path: Path) -> Path:
    """The checkpoint beside a network."""
    return path.with_name(path.name + SUFFIX)


@dataclass
class ModelFiles:
    """Keeps checkpoints as the toolkit's files.

    epochs    after so many a training is over
    keep_all  checkpoints of earlier epochs stay
    resume    a training goes on from the last epoch that is there
    """

    path: Path
    epochs: int
    keep_all: bool = False
    resume: bool = True
    calls: FileCalls = field(default=SYSTEM_CALLS)

    def last_epoch(self) -> int | None:
        """The epoch to go on after: the last one whose network is there and no older than those
        before it; None if there is not even the initial one."""
        found: int | None = None
        newest = 0
        for epoch in range(self.epochs):
            file = epoch_path(self.path, epoch)
            if not file.is_file():
                continue
            changed = file.stat().st_mtime_ns
            if changed < newest:
                break
            newest, found = changed, epoch
        return found

    def newest(self) -> Checkpoint | None:
        """The checkpoint of the last epoch; None if it has none."""
        epoch = self.last_epoch() if self.resume else None
        if epoch is None:
            return None
        file = checkpoint_path(epoch_path(self.path, epoch))
        return read_checkpoint(file) if file.is_file() else None

    def write(self, checkpoint: Checkpoint) -> None:
        """Write the checkpoint, and the network unless an epoch is going on."""
        standing = checkpoint.standing
        is_over = standing.epoch >= self.epochs or bool(standing.finished)
        file = self.path if is_over else epoch_path(self.path, standing.epoch)
        write_atomically(checkpoint_path(file), checkpoint.writer(), calls=self.calls)
        if not standing.is_inside:
            metadata = {"ir": checkpoint.ir, "seed": str(checkpoint.seed)}
            writer = container_writer(checkpoint.values, metadata, str(file))
            write_atomically(file, writer, calls=self.calls)
        if not self.keep_all:
            for older in self._older(standing.epoch, is_over=is_over):
                older.unlink(missing_ok=True)

    def _older(self, epoch: int, *, is_over: bool) -> Iterator[Path]:
        """Checkpoints of epochs before one: of a training that is over, those of all."""
        for k in range(max(0, epoch - 1) if not is_over else 0, epoch + is_over):
            if k != epoch or is_over:
                yield checkpoint_path(epoch_path(self.path, k))
