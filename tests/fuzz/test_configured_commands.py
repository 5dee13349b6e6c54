"""Damaged configurations of whole commands: checking them ends in exit code 0, 2 or 3."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.commands import graphc
from tests.unit.toolkit.conftest import CONFIG, write_files

SEEDS = 150

COMMANDS = """
command=Train:Test:Write:CV:Dump:Svd:Plot:Adapt:Map:Words:Dev
Write=[action=write;outputPath=out/x;outputNodeNames=z:p]
CV=[action=cv;crossValidationInterval=1:1:3]
Dump=[action=dumpnode;nodeName=W*;outputFile=w.txt]
Svd=[action=SVD;outputmodelPath=small.dnn;KeepRatio=0.5;NodeNameRegex=W.*]
Plot=[action=plot;outputDotFile=net.dot;outputFile=net.svg]
Adapt=[action=adapt;origModelFileName=models/net.dnn;modelPath=models/a.dnn;refNodeName=p;
  SGD=[learningRatesPerMB=0.1;maxEpochs=1;adaptationRegType=KL;adaptationRegWeight=0.5]]
Map=[action=createLabelMap;section=Train]
Words=[action=writeWordAndClass;inputFile=data.txt;outputVocabFile=v.txt;vocabSize=5]
Dev=[action=devtest]
"""
BITS = ["[", "]", "{", "}", "(", ")", '"', "$", "=", ";", ":", "*9", "\n", " #", "default", "-1"]
BITS += ["$Hidden$", "include=net.ndl\n", "\0", "é", "1e999", "0", "999999999999", "inf", "true"]
BITS += ["Train", "action=train", "modelPath", "NDLNetworkBuilder=[", "a.config", ".", "/", "\\"]


def damaged(seed: int) -> str:
    generator = random.Random(seed)
    text = CONFIG + COMMANDS
    for _ in range(generator.randint(1, 4)):
        at = generator.randrange(len(text))
        to = min(len(text), at + generator.randint(1, 12))
        bit = generator.choice(BITS)
        text = text[:at] + generator.choice((bit + text[at:], text[to:], bit + text[to:]))
    return text


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_every_damaged_configuration_is_checked_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    codes: list[int] = []
    for seed in range(first, first + 50):
        (tmp_path / "a.config").write_text(damaged(seed), encoding="utf-8")
        done = graphc("cntk", "configFile=a.config", "--check")
        assert done.code in (0, 2, 3), f"seed {seed}: {done.err}"
        codes.append(done.code)
    assert sorted(tmp_path.rglob("*")) == before
    assert {0, 3} <= set(codes)


def test_the_undamaged_configuration_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    (tmp_path / "a.config").write_text(CONFIG + COMMANDS, encoding="utf-8")
    done = graphc("cntk", "configFile=a.config", "--check")
    assert done.code == 0, done.err
    assert "warning" not in done.err
