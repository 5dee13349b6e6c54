"""A folder with a network, data and a configuration of several commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

NETWORK = """
features = Input(2, tag=feature)
labels = Input(2, tag=label)
m = Mean(features)
s = InvStdDev(features)
n = PerDimMeanVarNormalization(features, m, s)
W0 = Parameter($Hidden$, 2)
b0 = Parameter($Hidden$, 1, init=fixedValue, value=0)
t0 = Times(W0, n)
p0 = Plus(t0, b0)
h = Tanh(p0)
W1 = Parameter(2, $Hidden$)
z = Times(W1, h, tag=output)
CE = CrossEntropyWithSoftmax(labels, z, tag=criteria)
Err = ErrorPrediction(labels, z, tag=eval)
p = Softmax(z)
"""

CONFIG = """
# a whole life of a model
command=Train:Test
modelPath=models/net.dnn
Hidden=5
traceLevel=1
deviceId=-1
Train=[
  action=train
  NDLNetworkBuilder=[ networkDescription=net.ndl ]
  SGD=[
    epochSize=0
    minibatchSize=20
    learningRatesPerMB=0.5:0.2*2:0.1
    momentumPerMB=0.5
    maxEpochs=3
    numMBsToShowResult=5
  ]
]
Test=[ action=test ]
reader=[
  readerType=UCIFastReader
  file=data.txt
  randomize=Auto
  features=[ dim=2; start=0 ]
  labels=[ start=2; dim=1; labelDim=2; labelMappingFile=map.txt ]
]
"""


def write_files(folder: Path) -> None:
    """Samples whose label says on which side of a line they lie."""
    points = np.random.default_rng(5).uniform(-1, 1, (200, 2))
    side = points @ [1.0, -0.5] > 0.1
    lines = [
        f"{a:.5f} {b:.5f} {'yes' if s else 'no'}\n" for (a, b), s in zip(points, side, strict=True)
    ]
    (folder / "data.txt").write_text("".join(lines), encoding="utf-8")
    (folder / "map.txt").write_text("no\nyes\n", encoding="utf-8")
    (folder / "net.ndl").write_text(NETWORK, encoding="utf-8")
    (folder / "a.config").write_text(CONFIG, encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files in it."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    return tmp_path
