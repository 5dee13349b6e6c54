"""Trains an LSTM to tag words, and says after each epoch how well it does on held-out sentences.

python examples/tagging/train.py                  # on sentences made by a few rules
python examples/tagging/train.py --atis FOLDER    # on ATIS: train, dev and test .seq.in, .seq.out
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from chunks import Score, score
from sentences import WINDOW, Corpus, Numbering, Sentence, make_corpus, read_atis

import graphc as gc
from graphc.builder import GraphBuilder

HERE = Path(__file__).parent
VECTORS, CELLS = 50, 300
SIDE_BY_SIDE = 10  # sentences in a minibatch


def network(numbering: Numbering, cells: int = CELLS, vectors: int = VECTORS) -> GraphBuilder:
    """tagging.ndl in the sizes of the data."""
    sizes = {
        "VocabDim": len(numbering.words),
        "WindowRows": WINDOW * len(numbering.words),
        "VectorDim": vectors,
        "WindowCells": WINDOW * vectors,
        "Cells": cells,
        "TagDim": len(numbering.tags),
    }
    macros = HERE.parent / "lstm.ndl"
    return gc.load(HERE / "tagging.ndl", macros=macros, defines=sizes, seed=1)


def data(numbering: Numbering, sentences: Sequence[Sentence]) -> dict[str, list[object]]:
    return {
        "words": [numbering.windows(s) for s in sentences],
        "tags": [numbering.targets(s) for s in sentences],
    }


class Tagger:
    """The network, compiled to tag sentences of up to `longest` words."""

    def __init__(self, net: GraphBuilder, numbering: Numbering, longest: int) -> None:
        self._numbering = numbering
        self._names = list(numbering.tags)
        self._scores = gc.compile(net, outputs=["z"], time=longest, sequences=32)

    def __call__(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        """The likeliest tag of each word."""
        tagged: list[list[str]] = []
        for start in range(0, len(sentences), 32):
            part = sentences[start : start + 32]
            scores = self._scores(words=[self._numbering.windows(s) for s in part])["z"]
            tagged += [[self._names[i] for i in np.argmax(z, axis=1)] for z in scores]
        return tagged

    def measure(self, sentences: Sequence[Sentence]) -> tuple[float, Score]:
        """The share of words with a wrong tag, and how well chunks were found."""
        found = self(sentences)
        pairs = [
            (a, b)
            for s, f in zip(sentences, found, strict=True)
            for a, b in zip(s.tags, f, strict=True)
        ]
        wrong = sum(a != b for a, b in pairs) / len(pairs)
        return wrong, score([s.tags for s in sentences], found)


def run(corpus: Corpus, epochs: int, cells: int, rate: str, dropout: float) -> Score:
    """Train and report; the score on the test sentences at the end."""
    numbering = Numbering.of(corpus)
    net = network(numbering, cells)
    every = (*corpus.training, *corpus.development, *corpus.test)
    tag = Tagger(net, numbering, max(len(s.words) for s in every))
    print(
        f"{len(corpus.training)} sentences to learn from, {len(numbering.words)} words, "
        f"{len(numbering.tags)} tags"
    )
    print("epoch seconds  loss a word |  dev: error      F1 | test: error      F1", flush=True)

    def report(record: gc.EpochRecord) -> None:
        measured = [tag.measure(s) for s in (corpus.development, corpus.test)]
        columns = " | ".join(f"{error:11.2%} {100 * s.f1:7.2f}" for error, s in measured)
        print(
            f"{record.epoch:5} {record.seconds:7.1f} {record.criterion:12.4f} | {columns}",
            flush=True,
        )

    gc.train(
        net,
        data(numbering, corpus.training),
        epochs=epochs,
        minibatch=SIDE_BY_SIDE,
        learning_rate_per_sample=rate,
        momentum=0.9,
        dropout=dropout,
        seed=1,
        progress=gc.Progress(epoch=report),
    )
    return tag.measure(corpus.test)[1]


def main() -> int:
    arguments = _parse()
    try:
        corpus = read_atis(arguments.atis) if arguments.atis else make_corpus()
    except (OSError, ValueError) as error:
        print(f"the sentences cannot be read: {error}", file=sys.stderr)
        return 3
    cells = arguments.cells or (CELLS if arguments.atis else 40)
    reached = run(corpus, arguments.epochs, cells, arguments.rate, arguments.dropout)
    print(f"test: F1 {100 * reached.f1:.2f}, {reached.right} of {reached.true} chunks found")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument(
        "--atis", type=Path, help="folder with train, dev and test .seq.in, .seq.out"
    )
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--cells", type=int, help="of the LSTM")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--rate", default="0.01*11:0.003", help="learning rate for a word")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
