"""Mutated model files of the toolkit and of DBN: read, or refused by one GraphcError.

python -m tests.fuzz --kinds model-files --count 50000        a long run
"""

from __future__ import annotations

import struct
import traceback
from collections.abc import Sequence

import numpy as np

from graphc.driver.prepare import infer
from graphc.support.diagnostics import GraphcError
from graphc_frontends import cntk_model, dbn
from graphc_frontends.network import Network
from tests.support.model_bytes import (
    classifier,
    count,
    dbn_file,
    flag,
    lstm_file,
    node,
    toolkit_model,
)

SEEDS = 4000


def _stack() -> bytes:
    rng = np.random.default_rng(2)
    layers = [
        ("rbmgaussbernoulli", rng.standard_normal((4, 6)), rng.standard_normal((4, 1))),
        ("perceptron", rng.standard_normal((3, 4)), rng.standard_normal((3, 1))),
    ]
    prior = np.full((3, 1), 1 / 3)
    return dbn_file(rng.standard_normal((2, 1)), np.ones((2, 1)), layers, prior)


def _settings() -> bytes:
    """A file of many fields."""
    sizes = [count(n) for n in (2, 2, 1, 1, 3)]
    image = [count(n) for n in (16, 1, 4, 4, 1)]
    nodes = {
        "c": node("Convolution", "c", b"".join(sizes) + flag(True) + count(0)),
        "i": node("InputValue", "i", b"".join(image)),
        "p": node("AveragePooling", "p", b"".join(sizes[:4])),
        "r": node("RowSlice", "r", count(1) + count(2)),
        "s": node("Reshape", "s", b"".join(sizes[:4])),
    }
    return toolkit_model(nodes, {"p": ["i"], "r": ["i"], "s": ["i"], "c": ["i", "i"]}, {})


WHOLE = (classifier(), classifier("f8"), _settings(), lstm_file(2), _stack())


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """The bytes with one to three changes."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, len(changed) + 1))
        match int(rng.integers(5)):
            case 0:
                changed[at : at + 1] = bytes([rng.integers(256)])
            case 1:
                large = int(rng.integers(2**63 - 1)) >> int(rng.integers(63))
                changed[at : at + 8] = struct.pack("<Q", large)
            case 2:
                del changed[at : at + int(rng.integers(1, 40))]
            case 3:
                start = int(rng.integers(len(changed) + 1))
                changed[at:at] = changed[start : start + int(rng.integers(1, 60))]
            case _:
                del changed[at + int(rng.integers(0, 40)) :]
    return bytes(changed)


def read(data: bytes, *, is_stack: bool) -> bool:
    """Whether a file is read; False where a GraphcError says what is wrong."""
    network = Network()
    try:
        (dbn if is_stack else cntk_model).load_bytes(network, data, file="model")
        infer(network.model)
    except GraphcError as error:
        assert all(d.slug != "internal" for d in error.diagnostics)
        return False
    assert network.nodes
    return True


def judge(seed: int, backends: Sequence[str] = ()) -> str:
    """What is wrong with a seed's file, '' if it is read or cleanly refused."""
    del backends
    rng = np.random.default_rng(seed)
    kind = seed % len(WHOLE)
    try:
        read(mutated(WHOLE[kind], rng), is_stack=kind == len(WHOLE) - 1)
    except Exception:
        return traceback.format_exc()
    return ""


def test_whole_files_are_read() -> None:
    assert read(WHOLE[0], is_stack=False)
    assert read(WHOLE[1], is_stack=False)
    assert read(WHOLE[3], is_stack=False)
    assert read(WHOLE[4], is_stack=True)


def test_mutated_files_are_read_or_refused() -> None:
    problems = {seed: found for seed in range(SEEDS) if (found := judge(seed))}
    assert not problems
