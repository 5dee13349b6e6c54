"""Texts changed at random: a reader gives samples, or clean errors."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from graphc.data.label_map import create_label_map
from graphc.data.order import Order
from graphc.data.reader import EpochRequest
from graphc.data.uci import Columns, FeatureBlock, LabelBlock
from graphc.data.uci_reader import uci
from graphc.data.word_classes import write_word_and_class
from graphc.support.diagnostics import GraphcError

BLOCKS = [LabelBlock("t", Columns(0, 1), 3, ("a", "b", "c")), FeatureBlock("x", Columns(1, 2))]
ODD = b"\0 \t\n\r,;\"'abc.+-e0123456789\xff\xc3\xa9nif"


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The text with some bytes changed, left out, put in or doubled."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(changed))
        kind = rng.randrange(4)
        if kind == 0:
            changed[at] = rng.choice(ODD)
        elif kind == 1:
            del changed[at : at + rng.randint(1, 5)]
        elif kind == 2:
            changed[at:at] = bytes(rng.choices(ODD, k=rng.randint(1, 5)))
        else:
            changed[at:at] = changed[at : at + rng.randint(1, 20)]
    return bytes(changed)


@pytest.mark.filterwarnings("ignore::graphc.support.diagnostics.GraphcWarning")
@pytest.mark.parametrize("seed", range(6))
def test_changed_texts_are_read_or_refused_cleanly(tmp_path: Path, seed: int) -> None:
    rng, path = random.Random(seed), tmp_path / "data"
    separator = rng.choice([" ", ",", ";", "\t"])
    rows = [("abc"[i % 3], f"{i / 7:.4g}", f"-{i}e{i % 5}") for i in range(40)]
    content = "".join(separator.join(row) + "\n" for row in rows).encode()
    read = refused = 0
    for _ in range(80):
        path.write_bytes(mutated(content, rng))
        keep = rng.random() < 0.5
        order = Order(rng.choice([None, 7, "auto"] if keep else [None, 7]))
        reader = uci(path, BLOCKS, order=order, keep=keep, block_bytes=200)
        try:
            for block in reader.blocks(EpochRequest(1, rng.choice([0, 11]), 3)):
                t, x = np.asarray(block["t"]), np.asarray(block["x"])
                assert (t.sum(axis=1) == 1).all()
                assert len(t) == len(x) > 0
                read += 1
        except GraphcError as error:
            refused += 1
            assert {d.slug for d in error.diagnostics} <= {"bad-data", "label"}
        for other in (
            lambda: create_label_map(path, 0, tmp_path / "map"),
            lambda: write_word_and_class(path, tmp_path / "vocabulary", size=9, cutoff=0),
        ):
            try:
                other()
            except GraphcError:
                refused += 1
    assert read
    assert refused
