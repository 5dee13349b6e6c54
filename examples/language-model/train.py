"""Trains a class-based language model; after each epoch its perplexity on held-out text.

    python examples/language-model/train.py lstm                   # on a chain of words
    python examples/language-model/train.py lstm --text FOLDER     # train, valid and test .txt

Text is cut into parts that lie side by side, and learnt a few steps at a time: what the network
remembers is carried from one minibatch to the next, gradients are not.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from text import Vocabulary, chain_texts, make_chain, make_vocabulary, read_text

import graphc as gc
from graphc.builder import GraphBuilder

HERE = Path(__file__).parent
SIDE_BY_SIDE = 10  # parts of the text
MEASURED_STEPS = 50  # in one call that measures


@dataclass(frozen=True)
class Settings:
    """Sizes, steps that gradients go back, and the learning rate for a word, by epochs."""

    hidden: int
    steps: int
    rate: str


ON_TEXT = {
    "rnn": Settings(200, 10, "0.02*4:0.01*2:0.003"),
    "lstm": Settings(200, 35, "0.015*4:0.007*2:0.003"),
}
ON_CHAIN = {"rnn": Settings(40, 10, "0.03*4:0.01"), "lstm": Settings(40, 20, "0.03*4:0.01")}


def network(kind: str, vocabulary: Vocabulary, hidden: int) -> GraphBuilder:
    """rnn.ndl or lstm.ndl in the sizes of the data."""
    sizes = {
        "VocabDim": len(vocabulary.numbers),
        "ClassDim": vocabulary.classes,
        "Largest": vocabulary.largest,
        "HiddenDim": hidden,
    }
    macros = HERE.parent / "lstm.ndl"
    return gc.load(HERE / f"{kind}.ndl", macros=macros, defines=sizes, seed=1)


def side_by_side(vocabulary: Vocabulary, words: np.ndarray, parts: int) -> dict[str, list[object]]:
    """A text as `parts` sequences of equal length; a few words at its end may be left over."""
    length = (len(words) - 1) // parts
    data: dict[str, list[object]] = {"word": [], "next": []}
    for start in range(0, length * parts, length):
        now, later = words[start : start + length], words[start + 1 : start + length + 1]
        data["word"].append((now, np.arange(length + 1)))
        data["next"].append(vocabulary.targets(later))
    return data


class Perplexity:
    """The network, compiled to measure texts of any length a few steps at a time."""

    def __init__(self, net: GraphBuilder, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._loss = gc.compile(net, outputs=["CE"], time=MEASURED_STEPS, sequences=SIDE_BY_SIDE)

    def __call__(self, words: np.ndarray) -> float:
        length = (len(words) - 1) // SIDE_BY_SIDE
        parts = words[: length * SIDE_BY_SIDE].reshape(SIDE_BY_SIDE, length).T
        later = words[1 : length * SIDE_BY_SIDE + 1].reshape(SIDE_BY_SIDE, length).T
        self._loss.state = None
        total = 0.0
        for start in range(0, length, MEASURED_STEPS):
            now = parts[start : start + MEASURED_STEPS]
            then = later[start : start + MEASURED_STEPS]
            targets = self._vocabulary.targets(then.reshape(-1)).reshape(*then.shape, 4)
            one_each = (now.reshape(-1), np.arange(now.size + 1))
            total += float(self._loss(word=one_each, next=targets, carry=True)["CE"])
        return math.exp(total / (length * SIDE_BY_SIDE))


def run(
    kind: str, texts: dict[str, list[str]], settings: Settings, epochs: int, size: int, classes: int
) -> dict[str, float]:
    """Train and report; the perplexities of the last epoch."""
    vocabulary = make_vocabulary(texts["train"], size, classes)
    words = {part: vocabulary.encode(text) for part, text in texts.items()}
    print(
        ", ".join(f"{part} {len(w)} words" for part, w in words.items())
        + f"; {len(vocabulary.numbers)} different ones in {vocabulary.classes} classes "
        f"of at most {vocabulary.largest}"
    )
    net = network(kind, vocabulary, settings.hidden)
    perplexity = Perplexity(net, vocabulary)
    reached: dict[str, float] = {}
    print("epoch seconds   perplexity: train     valid      test", flush=True)

    def report(record: gc.EpochRecord) -> None:
        reached.update({part: perplexity(words[part]) for part in ("valid", "test")})
        print(
            f"{record.epoch:5} {record.seconds:7.1f} {math.exp(record.criterion):19.2f}"
            f" {reached['valid']:9.2f} {reached['test']:9.2f}",
            flush=True,
        )

    gc.train(
        net,
        side_by_side(vocabulary, words["train"], SIDE_BY_SIDE),
        epochs=epochs,
        minibatch=SIDE_BY_SIDE,
        truncate=settings.steps,
        learning_rate_per_sample=settings.rate,
        momentum=0,
        shuffle=False,
        progress=gc.Progress(epoch=report),
    )
    return reached


def main() -> int:
    arguments = _parse()
    settings = (ON_TEXT if arguments.text else ON_CHAIN)[arguments.network]
    if arguments.rate:
        settings = replace(settings, rate=arguments.rate)
    if arguments.text is None:
        chain = make_chain(60, 4)
        texts = chain_texts(chain, 60000)
        numbers = np.array([int(w[1:]) for w in texts["test"]])
        print(f"the chain itself has perplexity {chain.perplexity(numbers):.2f} on the test text")
        run(arguments.network, texts, settings, arguments.epochs or 8, 150, 10)
        return 0
    try:
        texts = read_text(arguments.text)
    except (OSError, ValueError) as error:
        print(f"the text cannot be read: {error}", file=sys.stderr)
        return 3
    if arguments.words:
        texts["train"] = texts["train"][: arguments.words]
    run(arguments.network, texts, settings, arguments.epochs or 10, 10000, 50)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("network", choices=("rnn", "lstm"))
    parser.add_argument("--text", type=Path, help="folder with *train.txt, *valid.txt, *test.txt")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--rate", help="learning rate for a word, by epochs")
    parser.add_argument("--words", type=int, help="learn from so many words of the text only")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
