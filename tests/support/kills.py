"""Kills a training with SIGKILL at random moments, again and again, and lets it go on.

    python -m tests.support.kills --kills 200 FOLDER

A child process trains with a checkpoint after every minibatch. After each kill a checkpoint has to
be there that can be read and is not older than the one found before; a training that came to its
end has to have the bits of one that nobody interrupted. `--plain` writes checkpoints as one would
without thinking, which shows that this would be seen. Prints what was counted as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import graphc as gc
from graphc.learn.checkpoints import CheckpointSeries
from tests.support.networks import classes, classifier
from tests.support.training import values

EPOCHS = 6


@dataclass(frozen=True)
class PlainFile:
    """Writes over the only checkpoint there is."""

    path: Path

    def newest(self) -> gc.Checkpoint | None:
        return gc.read_checkpoint(self.path) if self.path.exists() else None

    def write(self, checkpoint: gc.Checkpoint) -> None:
        with self.path.open("wb") as stream:
            checkpoint.writer()(stream)


def train(files: gc.CheckpointFiles | None) -> dict[str, bytes]:
    """The final bits of a training, which goes on from what the files have."""
    net = classifier(hidden=600)
    checkpoints = None if files is None else gc.Checkpoints(files, minutes=0, resume=True)
    gc.train(
        net,
        classes(48),
        epochs=EPOCHS,
        minibatch=8,
        learning_rate=0.02,
        momentum=0.9,
        backend="numpy",
        checkpoints=checkpoints,
    )
    return values(net)


def digest(bits: dict[str, bytes]) -> str:
    return "".join(f"{name}{bits[name].hex()}" for name in sorted(bits))


@dataclass
class Harness:
    """What was counted, and where the training stands."""

    folder: Path
    is_plain: bool
    expected: str
    seconds: float
    random: random.Random
    counts: Counter[str] = field(default_factory=Counter[str])
    reached: tuple[int, int] = (-1, 0)
    run: int = 0

    @property
    def files(self) -> PlainFile | CheckpointSeries:
        path = self.folder / f"run{self.run}"
        return PlainFile(path) if self.is_plain else CheckpointSeries(path)

    def once(self) -> None:
        """Start the training and kill it, unless it comes to its end before."""
        result = self.folder / f"result{self.run}"
        child = os.fork()
        if child == 0:
            try:
                result.write_text(digest(train(self.files)))
            finally:
                os._exit(0)
        time.sleep(self.random.uniform(0, self.seconds))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            self.counts["kills"] += 1
            self.look()
        else:
            self.counts["finished"] += 1
            self.counts["other bits"] += result.read_text() != self.expected
            self.begin()

    def look(self) -> None:
        """What a kill left."""
        try:
            found = self.files.newest()
        except gc.GraphcError:
            self.counts["unreadable"] += 1
            self.begin()
            return
        if found is None:
            self.counts["without a checkpoint"] += 1
            self.counts["lost"] += self.reached != (-1, 0)
            return
        place = (found.standing.epoch, found.standing.units)
        self.counts["inside of an epoch"] += place[1] > 0
        self.counts["lost"] += place < self.reached
        self.reached = place

    def begin(self) -> None:
        """Another training, from its beginning."""
        self.run += 1
        self.reached = (-1, 0)


def count(folder: Path, kills: int, seed: int, *, is_plain: bool = False) -> dict[str, int]:
    """Kill so many times."""
    expected = digest(train(None))
    began = time.perf_counter()
    train(CheckpointSeries(folder / "timed"))
    seconds = time.perf_counter() - began
    harness = Harness(folder, is_plain, expected, seconds, random.Random(seed))
    while harness.counts["kills"] < kills:
        harness.once()
    names = ("kills", "finished", "unreadable", "lost", "other bits", "inside of an epoch")
    return {name: harness.counts[name] for name in names}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    counts = count(given.folder, given.kills, given.seed, is_plain=given.plain)
    sys.stdout.write(json.dumps(counts) + "\n")


if __name__ == "__main__":
    main()
