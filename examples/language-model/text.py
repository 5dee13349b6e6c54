"""Text as numbers of words, from files or from a chain of words whose perplexity is known."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Array = np.ndarray

END, UNKNOWN = "</s>", "<unk>"
PARTS = ("train", "valid", "test")
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|\d+|[^\sa-z\d]")


@dataclass(frozen=True)
class Vocabulary:
    """Words by falling frequency, cut into classes of neighbours.

    numbers  the place of each word
    starts   the first word of each class, and at the end the number of words
    """

    numbers: Mapping[str, int]
    starts: Array

    @property
    def largest(self) -> int:
        """The number of words in the largest class."""
        return int(np.diff(self.starts).max())

    @property
    def classes(self) -> int:
        return len(self.starts) - 1

    def encode(self, words: Sequence[str]) -> Array:
        """Their numbers; words that are not there become <unk>."""
        unknown = self.numbers[UNKNOWN]
        return np.array([self.numbers.get(w, unknown) for w in words], np.int64)

    def targets(self, words: Array) -> Array:
        """(n, 4): word, class, first word of the class, first word after it."""
        classes = np.searchsorted(self.starts, words, side="right") - 1
        columns = (words, classes, self.starts[classes], self.starts[classes + 1])
        return np.stack(columns, axis=1).astype(np.float32)


def make_vocabulary(words: Sequence[str], size: int, classes: int) -> Vocabulary:
    """The `size` - 1 most frequent words and <unk>, which counts all others."""
    counts = Counter(words)
    unknown = counts.pop(UNKNOWN, 0)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kept = dict(ordered[: size - 1])
    kept[UNKNOWN] = unknown + sum(n for _, n in ordered[size - 1 :])
    ordered = sorted(kept.items(), key=lambda item: (-item[1], item[0]))
    starts = class_starts(np.array([n for _, n in ordered]), classes)
    return Vocabulary({w: i for i, (w, _) in enumerate(ordered)}, starts)


def class_starts(counts: Array, classes: int) -> Array:
    """Where the classes of words with these falling counts begin, and where the last one ends.

    Each class gets about the same share of the sum of the square roots: few frequent words, many
    rare ones.
    """
    roots = np.sqrt(counts)
    share = np.minimum(np.cumsum(roots / roots.sum()), 1)
    starts = [0]
    for word in range(len(counts)):
        if share[word] > len(starts) / classes and len(starts) < classes and word:
            starts.append(word)
    return np.array([*starts, len(counts)])


# --- files ---------------------------------------------------------------------------------------


def read_text(folder: Path) -> dict[str, list[str]]:
    """The words of the folder's files *train.txt, *valid.txt and *test.txt, or the same with .gz.

    A line is a sentence, </s> stands after it. A text in which <unk> occurs has been made into
    words already, which stand between blanks; any other is cut into words, numbers and marks here,
    small letters only. Raises OSError, or ValueError where a file is not there or not one.
    """
    lines = {part: _lines(folder, part) for part in PARTS}
    is_cut = any(UNKNOWN in line for line in lines["train"])
    texts: dict[str, list[str]] = {}
    for part, found in lines.items():
        words = ((line.split() if is_cut else WORD.findall(line.lower())) for line in found)
        texts[part] = [w for sentence in words if sentence for w in (*sentence, END)]
    return texts


def _lines(folder: Path, part: str) -> list[str]:
    files = sorted([*folder.glob(f"*{part}.txt"), *folder.glob(f"*{part}.txt.gz")])
    if len(files) != 1:
        raise ValueError(
            f"{folder} requires one file *{part}.txt or *{part}.txt.gz, has {len(files)}"
        )
    data = files[0].read_bytes()
    return (
        (gzip.decompress(data) if files[0].suffix == ".gz" else data).decode("utf-8").splitlines()
    )


# --- made ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chain:
    """Words of which each depends on the two before: on the last by `moves`, and now and then it is
    the one before the last again.

    moves   (words, words): probabilities of the next word
    echo    the probability that the next word is the one before the last
    """

    moves: Array
    echo: float

    def probabilities(self, last: Array, before: Array) -> Array:
        """(n, words): of the next word."""
        found = (1 - self.echo) * self.moves[last]
        found[np.arange(len(last)), before] += self.echo
        return found

    def text(self, length: int, rng: np.random.Generator) -> Array:
        words = [0, 0]
        cumulative = np.cumsum(self.moves, axis=1)
        echoes, draws = rng.random(length) < self.echo, rng.random(length)
        for again, draw in zip(echoes, draws, strict=True):
            next_one = int(np.searchsorted(cumulative[words[-1]], draw * cumulative[words[-1], -1]))
            words.append(words[-2] if again else next_one)
        return np.array(words[2:])

    def perplexity(self, words: Array) -> float:
        """Of the text from its third word on: no model can be better in the long run."""
        found = self.probabilities(words[1:-1], words[:-2])
        return float(np.exp(-np.mean(np.log(found[np.arange(len(words) - 2), words[2:]]))))


def make_chain(words: int = 120, choices: int = 6, echo: float = 0.3, seed: int = 0) -> Chain:
    """Each word is followed by one of `choices`, frequent words more often than rare ones."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, words + 1)
    moves = np.zeros((words, words))
    for word in range(words):
        others = rng.choice(words, choices, replace=False, p=weights / weights.sum())
        moves[word, others] = rng.dirichlet(np.ones(choices))
    return Chain(moves, echo)


def chain_texts(chain: Chain, length: int, seed: int = 1) -> dict[str, list[str]]:
    """Three texts of it, as words; those held out have a quarter of the length."""
    rng = np.random.default_rng(seed)
    lengths = {"train": length, "valid": length // 4, "test": length // 4}
    return {part: [f"w{i}" for i in chain.text(n, rng)] for part, n in lengths.items()}
