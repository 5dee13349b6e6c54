"""Tagged sentences: those of ATIS from a folder, or sentences made by a few rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Array = np.ndarray
Sparse = tuple[Array, Array]

EDGE, UNKNOWN = "<edge>", "<unk>"
WINDOW = 3


@dataclass(frozen=True)
class Sentence:
    """Words and the tag of each."""

    words: Sequence[str]
    tags: Sequence[str]


@dataclass(frozen=True)
class Corpus:
    """What is learnt from and what is held out."""

    training: Sequence[Sentence]
    development: Sequence[Sentence]
    test: Sequence[Sentence]


# --- ATIS ----------------------------------------------------------------------------------------


def read_atis(folder: Path) -> Corpus:
    """`train`, `dev` and `test` of a folder: words in NAME.seq.in, tags in NAME.seq.out, a line for
    each sentence. Raises OSError, or ValueError where the two do not fit together."""
    return Corpus(*(_read(folder, name) for name in ("train", "dev", "test")))


def _read(folder: Path, name: str) -> list[Sentence]:
    words = (folder / f"{name}.seq.in").read_text(encoding="utf-8").splitlines()
    tags = (folder / f"{name}.seq.out").read_text(encoding="utf-8").splitlines()
    sentences: list[Sentence] = []
    if len(words) != len(tags):
        raise ValueError(f"{folder}/{name}: {len(words)} sentences, tags of {len(tags)}")
    for number, (a, b) in enumerate(zip(words, tags, strict=True), start=1):
        sentence = Sentence([_plain(w) for w in a.split()], b.split())
        if len(sentence.words) != len(sentence.tags):
            raise ValueError(f"{folder}/{name}, line {number}: a tag for each word is required")
        sentences.append(sentence)
    return sentences


def _plain(word: str) -> str:
    """Every digit as 0: flight numbers and times differ in all but their form."""
    return "".join("0" if c.isdigit() else c for c in word.lower())


# --- made ----------------------------------------------------------------------------------------

CITIES = (
    "boston", "denver", "dallas", "atlanta", "oakland", "pittsburgh", "baltimore", "seattle",
    "san francisco", "san diego", "new york", "las vegas", "salt lake city", "fort worth",
)  # fmt: skip
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
TIMES = ("morning", "afternoon", "evening", "night")
STARTS = (
    "show me flights", "i want to fly", "list all flights", "i need a ticket", "what are the fares",
    "is there a flight", "please find me a flight",
)  # fmt: skip


def make_corpus(training: int = 600, held_out: int = 150, seed: int = 0) -> Corpus:
    """Questions about flights. What tag a city gets is said by words before it, some of them far
    before: a city alone is where a flight leaves from or goes to, depending on the verb."""
    rng = np.random.default_rng(seed)
    sizes = (training, held_out, held_out)
    return Corpus(*([_make(rng) for _ in range(size)] for size in sizes))


def _make(rng: np.random.Generator) -> Sentence:
    parts: list[tuple[str, str]] = [(_any(rng, STARTS), "")]
    start, goal, stop = (CITIES[i] for i in rng.choice(len(CITIES), 3, replace=False))
    if rng.random() < 0.3:
        verb, kinds = ("leaving", "fromloc") if rng.random() < 0.5 else ("arriving", "toloc")
        gap = "on any airline at all" if rng.random() < 0.5 else "early"
        parts += [(f"{verb} {gap}", ""), (start, kinds)]
    else:
        parts += [("from", ""), (start, "fromloc"), ("to", ""), (goal, "toloc")]
    if rng.random() < 0.3:
        parts += [("with a stop in", ""), (stop, "stoploc")]
    if rng.random() < 0.5:
        parts += [("on", ""), (_any(rng, DAYS), "day")]
        if rng.random() < 0.5:
            parts += [(_any(rng, TIMES), "period")]
    words: list[str] = []
    tags: list[str] = []
    for text, kind in parts:
        split = text.split()
        words += split
        tags += [f"{'I' if i else 'B'}-{kind}" if kind else "O" for i in range(len(split))]
    return Sentence(words, tags)


def _any(rng: np.random.Generator, choices: Sequence[str]) -> str:
    return choices[int(rng.integers(len(choices)))]


# --- numbers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Numbering:
    """Places of words and tags in the network's inputs."""

    words: dict[str, int]
    tags: dict[str, int]

    @classmethod
    def of(cls, corpus: Corpus) -> Numbering:
        """Words that occur once in the training sentences count as unknown, so that there is
        something to learn about unknown words."""
        counts = Counter(w for s in corpus.training for w in s.words)
        words = [EDGE, UNKNOWN, *sorted(w for w, n in counts.items() if n > 1)]
        everything = (*corpus.training, *corpus.development, *corpus.test)
        tags = sorted({t for s in everything for t in s.tags})
        return cls({w: i for i, w in enumerate(words)}, {t: i for i, t in enumerate(tags)})

    def windows(self, sentence: Sentence) -> Sparse:
        """The network's `words`: for each word of the sentence three places, one in each block."""
        unknown, edge = self.words[UNKNOWN], self.words[EDGE]
        ids = [edge, *(self.words.get(w, unknown) for w in sentence.words), edge]
        count = len(sentence.words)
        indices = [ids[t + k] + k * len(self.words) for t in range(count) for k in range(WINDOW)]
        return np.array(indices), np.arange(count + 1) * WINDOW

    def targets(self, sentence: Sentence) -> Array:
        """(words, tags): one hot."""
        return np.eye(len(self.tags), dtype=np.float32)[[self.tags[t] for t in sentence.tags]]
