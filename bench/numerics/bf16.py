"""What training in bf16 loses on MNIST next to f32: the loss, and images not seen that are read.

    python -m bench.numerics.bf16 FOLDER [--epochs 10] [--rate 0.5] [--seeds 1,2,3]

The folder holds the four files of MNIST, `train-images-idx3-ubyte.gz` and so on. The network has
two layers of 512, as W2b of the workloads.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import numpy as np

import graphc as gc

NETWORK = """
features = Input(784, tag=feature)
labels = Input(10, tag=label)
W1 = Parameter(512, 784)
b1 = Parameter(512, 1)
h1 = RectifiedLinear(Plus(Times(W1, features), b1))
W2 = Parameter(512, 512)
b2 = Parameter(512, 1)
h2 = RectifiedLinear(Plus(Times(W2, h1), b2))
W3 = Parameter(10, 512)
b3 = Parameter(10, 1)
z = Plus(Times(W3, h2), b3, tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
err = ErrorPrediction(labels, z, tag=evaluation)
"""
PRECISIONS = ("f32", "bf16")


def read(folder: Path, which: str) -> dict[str, np.ndarray]:
    """Images as numbers from 0 to 1, labels one-hot; of `train` or of `t10k`."""
    images = gzip.decompress((folder / f"{which}-images-idx3-ubyte.gz").read_bytes())
    labels = gzip.decompress((folder / f"{which}-labels-idx1-ubyte.gz").read_bytes())
    pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784)
    classes = np.frombuffer(labels, np.uint8, offset=8)
    return {
        "features": pixels.astype(np.float32) / 255,
        "labels": np.eye(10, dtype=np.float32)[classes],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--rate", type=float, default=0.5, help="of a minibatch of 256 samples")
    parser.add_argument("--seeds", default="1,2,3")
    given = parser.parse_args()
    seen, unseen = read(given.folder, "train"), read(given.folder, "t10k")
    for seed in map(int, given.seeds.split(",")):
        for precision in PRECISIONS:
            net = gc.loads(NETWORK, seed=seed)
            records = gc.train(
                net,
                seen,
                epochs=given.epochs,
                minibatch=256,
                learner=gc.SGD(given.rate, momentum=0.9),
                precision=precision,
                seed=seed,
            )
            measured = gc.evaluate(net, unseen, precision=precision)
            right = 1 - measured["err"]
            seconds = sum(record.seconds for record in records)
            print(
                f"seed {seed} {precision:>4}: loss {records[-1].criterion:.4f}, "
                f"read right {right:.2%}, {seconds:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
