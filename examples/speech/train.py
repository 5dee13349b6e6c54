"""Trains an LSTM in both directions to say which state each frame of speech is in.

python examples/speech/train.py                                # on made sounds
python examples/speech/train.py --an4 WAV.tar.xz STATES.mlf.gz # on AN4
"""

from __future__ import annotations

import argparse
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from utterances import Corpus, Utterance, make_corpus, read_an4

import graphc as gc
from graphc.builder import GraphBuilder

HERE = Path(__file__).parent
SIDE_BY_SIDE = 10  # utterances in a minibatch


def network(corpus: Corpus, cells: int) -> GraphBuilder:
    """speech.ndl in the sizes of the data."""
    bands = corpus.training[0].features.shape[1]
    sizes = {"FeatDim": bands, "Cells": cells, "BothCells": 2 * cells, "StateDim": corpus.states}
    macros = HERE.parent / "lstm.ndl"
    return gc.load(HERE / "speech.ndl", macros=macros, defines=sizes, seed=1)


def data(utterances: Sequence[Utterance]) -> dict[str, list[object]]:
    return {
        "features": [u.features for u in utterances],
        "states": [(u.states, np.arange(len(u.states) + 1)) for u in utterances],
    }


def commonest(corpus: Corpus) -> float:
    """The share of held-out frames that are wrong if the state is always the commonest."""
    learnt = np.concatenate([u.states for u in corpus.training])
    held_out = np.concatenate([u.states for u in corpus.held_out])
    return float(np.mean(held_out != np.bincount(learnt).argmax()))


class Measure:
    """The network, compiled to measure utterances of up to `longest` frames."""

    def __init__(self, net: GraphBuilder, utterances: Sequence[Utterance], longest: int) -> None:
        self._utterances = utterances
        self._sums = gc.compile(net, ["CE", "Err"], time=longest, sequences=SIDE_BY_SIDE)

    def __call__(self) -> dict[str, float]:
        """Loss and share of wrong states, averages over all frames."""
        totals = {"CE": 0.0, "Err": 0.0}
        for start in range(0, len(self._utterances), SIDE_BY_SIDE):
            found = self._sums(**data(self._utterances[start : start + SIDE_BY_SIDE]))
            for name in totals:
                totals[name] += float(found[name])
        frames = sum(len(u.states) for u in self._utterances)
        return {name: total / frames for name, total in totals.items()}


def run(corpus: Corpus, cells: int, epochs: int, rate: str) -> float:
    """Train and report; the share of held-out frames with a wrong state at the end."""
    frames = [sum(len(u.states) for u in some) for some in (corpus.training, corpus.held_out)]
    print(
        f"{frames[0]} frames of {len(corpus.training)} utterances to learn from, {frames[1]} of "
        f"{len(corpus.held_out)} held out, {corpus.states} states"
    )
    print(f"always the commonest state: {commonest(corpus):.2%} of the held-out frames wrong")
    net = network(corpus, cells)
    training = data(corpus.training)
    net.precompute(**training)
    longest = max(len(u.states) for u in (*corpus.training, *corpus.held_out))
    held_out = Measure(net, corpus.held_out, longest)
    reached = [1.0]
    print("epoch seconds  loss a frame: train  held out   wrong: train  held out", flush=True)

    def report(record: gc.EpochRecord) -> None:
        measured = held_out()
        reached.append(measured["Err"])
        print(
            f"{record.epoch:5} {record.seconds:7.1f} {record.criterion:20.4f} {measured['CE']:9.4f}"
            f" {record.evaluations['Err']:14.2%} {measured['Err']:9.2%}",
            flush=True,
        )

    gc.train(
        net,
        training,
        epochs=epochs,
        minibatch=SIDE_BY_SIDE,
        learning_rate_per_sample=rate,
        momentum=0.9,
        time=longest,
        seed=1,
        progress=gc.Progress(epoch=report),
    )
    return reached[-1]


def main() -> int:
    arguments = _parse()
    try:
        corpus = read_an4(*arguments.an4) if arguments.an4 else make_corpus()
    except (OSError, EOFError, ValueError, tarfile.TarError) as error:
        print(f"the recordings cannot be read: {error}", file=sys.stderr)
        return 3
    cells = arguments.cells or (100 if arguments.an4 else 30)
    epochs = arguments.epochs or (15 if arguments.an4 else 12)
    rate = arguments.rate or ("0.0005*8:0.0002*4:0.0001" if arguments.an4 else "0.004*8:0.001")
    reached = run(corpus, cells, epochs, rate)
    print(f"{reached:.2%} of the held-out frames are given a wrong state")
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument(
        "--an4",
        type=Path,
        nargs=2,
        metavar=("WAV", "STATES"),
        help="the recordings (.tar.xz of .wav) and the states of their frames (.mlf.gz)",
    )
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--cells", type=int, help="of the LSTM, in each direction")
    parser.add_argument("--rate", help="learning rate for a frame, by epochs")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
