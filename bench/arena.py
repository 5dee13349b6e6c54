"""Scratch memory of every workload and example, next to the bytes that live at once.

    python -m bench.arena [NAME...] [--json FILE]

Nothing can need less than the second number with this order of operations. Examples are the NDL
files of `examples/`, as training steps with the bounds that `gc.compile_training` takes by itself.
Status 1 if anything takes more than `LIMIT` times what lives at once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest.mock import patch

import graphc as gc
from bench.ours import FORMS, How
from bench.workloads import WORKLOADS, workload
from graphc.cli.bench import make_up_statistics
from graphc.driver.cache_key import SWITCH
from graphc.driver.prepare import infer
from graphc.ir.context import Context
from graphc.ir.core import Module
from graphc.passes.manager import PassOutcome
from graphc.passes.plan_memory import PlanMemory

EXAMPLES = Path(__file__).parents[1] / "examples"
MACROS = EXAMPLES / "lstm.ndl"
LIMIT = 1.05


@dataclass(frozen=True)
class Row:
    name: str
    arena_bytes: int
    alive_bytes: int

    @property
    def ratio(self) -> float:
        return self.arena_bytes / self.alive_bytes if self.alive_bytes else 1.0


def planned(name: str) -> Row:
    """The largest plan that is made until the workload was run once, or the example compiled."""
    plans: list[Row] = []
    run = PlanMemory.run

    def recorded(self: PlanMemory, module: Module, context: Context) -> PassOutcome:
        outcome = run(self, module, context)
        counters = outcome.counters
        plans.append(Row(name, counters["arena bytes"], counters["lower bound bytes"]))
        return outcome

    with patch.object(PlanMemory, "run", recorded):
        if name in WORKLOADS:
            work = workload(name)
            FORMS[type(work.spec)](work, How("llvm", "f32")).run()
        else:
            step_of(EXAMPLES / name)
    return max(plans, key=lambda row: row.arena_bytes)


def step_of(path: Path) -> None:
    """Compiles an example's training step, its statistics given."""
    macros = [MACROS] if "LSTM(" in path.read_text(encoding="utf-8") else []
    network = gc.load(path, macros=macros)
    infer(network.model)
    make_up_statistics(network.model)
    gc.compile_training(network, learner=gc.SGD(learning_rate=0.1, momentum=0.9))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.arena", description=__doc__)
    examples = [
        str(p.relative_to(EXAMPLES)) for p in sorted(EXAMPLES.rglob("*.ndl")) if p != MACROS
    ]
    parser.add_argument("names", nargs="*", default=[*WORKLOADS, *examples])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    os.environ[SWITCH] = "off"  # what is kept is not planned again
    sys.stdout.write(f"{'':28}{'arena bytes':>14}{'alive at once':>15}{'ratio':>8}\n")
    rows: list[Row] = []
    for name in options.names:
        row = planned(name)
        rows.append(row)
        numbers = f"{row.arena_bytes:14,}{row.alive_bytes:15,}{row.ratio:8.3f}"
        sys.stdout.write(f"{name:28}{numbers}\n")
        sys.stdout.flush()
    if options.json:
        record = [{**asdict(row), "ratio": row.ratio} for row in rows]
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="ascii")
    return int(any(row.ratio > LIMIT for row in rows))


if __name__ == "__main__":
    sys.exit(main())
