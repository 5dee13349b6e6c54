"""How well chunks of words are found: precision, recall and F1 as conlleval counts them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Chunk = tuple[int, int, str]


@dataclass(frozen=True)
class Score:
    """Chunks of the true tags, chunks found, and those of them that are right in every way."""

    true: int
    found: int
    right: int

    @property
    def precision(self) -> float:
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        return 2 * self.right / (self.true + self.found) if self.true + self.found else 0.0


def chunks(tags: Sequence[str]) -> set[Chunk]:
    """The chunks (first word, word after the last, type) of one sentence's tags.

    `B-type` begins a chunk, `I-type` goes on with it; after `O` or another type `I` begins one too.
    """
    found: set[Chunk] = set()
    start, kind = 0, ""
    for place, tag in enumerate([*tags, "O"]):
        mark, _, this = tag.partition("-")
        if kind and (mark != "I" or this != kind):
            found.add((start, place, kind))
            kind = ""
        if mark in ("B", "I") and not kind:
            start, kind = place, this
    return found


def score(true: Iterable[Sequence[str]], found: Iterable[Sequence[str]]) -> Score:
    """Over all sentences; `found` has as many as `true`, each as long."""
    totals = [0, 0, 0]
    for a, b in zip(true, found, strict=True):
        if len(a) != len(b):
            raise ValueError(f"a sentence of {len(a)} words has {len(b)} tags")
        wanted, got = chunks(a), chunks(b)
        for i, some in enumerate((wanted, got, wanted & got)):
            totals[i] += len(some)
    return Score(*totals)
