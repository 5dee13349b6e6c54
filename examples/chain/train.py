"""A conditional random field on sequences of a known hidden Markov chain, next to the exact answer.

    python examples/chain/train.py

No model can tell the hidden states better than the chain's own conditional probabilities. They are
a conditional random field too, with the logarithms of the chain's probabilities as scores, so the
loss to be reached is known: the exact one, on the same held-out sequences.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import graphc as gc
from graphc.builder import GraphBuilder

HERE = Path(__file__).parent
SYMBOLS, STATES, STEPS = 6, 3, 40

MOVES = np.array([[0.8, 0.15, 0.05], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]])
EMITS = np.array(
    [
        [0.5, 0.2, 0.1, 0.1, 0.05, 0.05],
        [0.1, 0.1, 0.4, 0.2, 0.1, 0.1],
        [0.05, 0.15, 0.1, 0.1, 0.3, 0.3],
    ]
)

Sequence = dict[str, np.ndarray]


def sample(rng: np.random.Generator) -> Sequence:
    """One sequence: symbols seen and states behind them, one hot; it starts in any state."""
    states = [int(rng.integers(STATES))]
    for _ in range(STEPS - 1):
        states.append(int(rng.choice(STATES, p=MOVES[states[-1]])))
    symbols = [int(rng.choice(SYMBOLS, p=EMITS[s])) for s in states]
    return {"observed": np.eye(SYMBOLS)[symbols], "states": np.eye(STATES)[states]}


def average_loss(network: GraphBuilder, sequences: list[Sequence]) -> float:
    """Minus the log likelihood of a state, averaged."""
    loss = gc.compile(network, outputs=["NLL"], batch=STEPS, precision="f64")
    return float(np.mean([loss(**s)["NLL"] for s in sequences])) / STEPS


def main(training: int = 400, epochs: int = 12) -> int:
    rng = np.random.default_rng(0)
    seen = [sample(rng) for _ in range(training)]
    unseen = [sample(rng) for _ in range(200)]

    exact = gc.load(HERE / "chain.ndl")
    exact.parameters["W"] = np.log(EMITS)
    exact.parameters["A"] = np.log(MOVES)
    best = average_loss(exact, unseen)
    print(f"exact conditional probabilities: {best:.4f} nats a state")

    network = gc.load(HERE / "chain.ndl")
    print(f"before training                  {average_loss(network, unseen):.4f}", flush=True)
    learner = gc.SGD(learning_rate_per_sample=0.01)
    step = gc.compile_training(network, learner=learner, batch=STEPS, precision="f64")
    for epoch in range(epochs):
        step.learner = gc.SGD(learning_rate_per_sample=0.01 / (1 + epoch))
        for index in rng.permutation(training):
            step(**seen[index])
        print(f"epoch {epoch + 1:2}                         {average_loss(network, unseen):.4f}")
    reached = average_loss(network, unseen)
    print(f"{reached - best:.4f} nats a state above the exact answer")
    return 0


if __name__ == "__main__":
    sys.exit(main())
