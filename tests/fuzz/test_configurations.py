"""Damaged configurations: reading, listing and resolving them ends in a value or a GraphcError."""

from __future__ import annotations

import random

from graphc.config.assemble import assemble_text
from graphc.config.listing import as_text
from graphc.config.lookup import Scope
from graphc.support.diagnostics import GraphcError

SEEDS = 1000

CONFIG = """# a comment
DeviceNumber=-1
root=.
command=Train:Test
deviceId=$DeviceNumber$
Train=[
  action=train
  modelPath=$root$/models/simple.dnn
  NDLNetworkBuilder=[ networkDescription="net.ndl" ]
  SGD=[ epochSize=0; minibatchSize=25; learningRatesPerMB=0.5:0.2*20:0.1
        clippingThresholdPerSample=1#INF ]
  reader=[
    readerType=UCIFastReader
    file={|a.txt|b.txt*2}
    features=[ dim=2; start=0 ]
    labels=[ start=2
      labelMappingFile=$root$\\map.txt ]
  ]
]
"""
BITS = ["[", "]", "{", "}", "(", ")", '"', "$", "=", ";", ":", "*9", "\n", " #", "|", "default"]
BITS += ["$root$", "include=x", "\0", "é", "1e999", "99999999999999999999", "[[", "-", "\\", ","]


def damaged(seed: int) -> str:
    generator = random.Random(seed)
    text = CONFIG
    for _ in range(generator.randint(1, 6)):
        at, to = sorted(generator.randrange(len(text) + 1) for _ in range(2))
        match generator.randrange(4):
            case 0:
                text = text[:at] + generator.choice(BITS) + text[at:]
            case 1:
                text = text[:at] + text[min(to, at + 8) :]
            case 2:
                text = text[:at] + text[at:to] + text[at:]
            case _:
                text = text[:at] + generator.choice(BITS) + text[at + 1 :]
    return text


def read_all(text: str) -> int:
    """Ask for every value as everything that it may be; how many values there are."""
    count = 0
    todo = [Scope.top(assemble_text(text))]
    while todo:
        scope = todo.pop()
        for entry in scope.entries.values():
            count += 1
            value = scope.own(entry.key.chars)
            if value is None:
                continue
            for read in (value.number, value.integer, value.truth, value.text, value.integers):
                try:
                    read()
                except GraphcError as error:
                    assert error.diagnostics[0].span is not None
            if entry.is_set:
                try:
                    todo.append(value.section())
                except GraphcError as error:
                    assert error.diagnostics[0].span is not None
    return count


def test_every_damaged_configuration_is_read_or_refused() -> None:
    read = refused = 0
    for seed in range(SEEDS):
        text = damaged(seed)
        try:
            read += read_all(text) > 0
            as_text(Scope.top(assemble_text(text)), resolve=seed % 2 == 0)
        except GraphcError as error:
            refused += 1
            assert error.diagnostics[0].span is not None, seed
    assert read > SEEDS // 10
    assert refused > SEEDS // 10


def test_the_undamaged_configuration_is_read() -> None:
    assert read_all(CONFIG) > 15
