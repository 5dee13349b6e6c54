"""Kinds of values that only the toolkit's blocks have: numbers over epochs, lists of files."""

from __future__ import annotations

import math
from pathlib import Path

from graphc.config.keys import Key
from graphc.config.lookup import Value
from graphc.learn.schedule import Schedule


def schedule(name: str, doc: str, default: str) -> Key[Schedule]:
    """Numbers over epochs: `0.8*10:3.2` is 0.8 for ten epochs, then 3.2."""
    return Key(name, "list over epochs", doc, read_schedule, Schedule.parse(default))


def read_schedule(value: Value) -> Schedule:
    runs = value.numbers()
    if not runs or any(not math.isfinite(number) for number, _ in runs):
        raise value.fail(f"`{value.key}` requires finite numbers, one for each epoch")
    return Schedule(tuple(runs))


def path_list(name: str, doc: str) -> Key[tuple[Path, ...]]:
    """Paths joined by `+`."""

    def read(value: Value) -> tuple[Path, ...]:
        names = (part.strip() for part in value.text().split("+"))
        return tuple(Path(part.replace("\\", "/")) for part in names if part)

    return Key(name, "paths joined by +", doc, read, ())
