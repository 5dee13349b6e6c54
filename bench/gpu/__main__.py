"""graphc on a GPU, in one command: is it right, what can the device do, who is faster.

    python -m bench.gpu [WORKLOAD ...] [--seconds 460] [--json FILE] [--markdown FILE]
                        [--peers torch.graph,jax] [--without correctness,sanitizer]

In this order: correctness of the operation table and of every network, against the reference; what
the device can do, measured alone; every workload next to the peers that are installed; NVIDIA's
compute-sanitizer on a sample, where it is there. It needs no network and ends in time: what did not
fit is reported, and the record is written as far as it goes. A mistake in one part does not stop
the others, nor does a kernel that faults or never ends: all that is on the device runs in processes
of its own.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.gpu.apart import got, run_apart
from bench.gpu.budget import Budget
from bench.gpu.table import markdown, row, text
from bench.runner import Plan
from bench.workloads import WORKLOADS
from graphc.backends.cuda.platform import platform

SECONDS = 460.0
PARTS = ("correctness", "constants", "workloads", "sanitizer")


def main(arguments: Sequence[str] | None = None) -> int:
    given = _arguments(arguments)
    if what := platform().missing():
        print(f"bench.gpu requires a GPU: {what}", file=sys.stderr)
        return 2
    run = _Run(given)
    parts: dict[str, Callable[[], None]] = {
        "correctness": run.correctness,
        "constants": run.constants,
        "workloads": run.workloads,
        "sanitizer": run.sanitizer,
    }
    for name, part in parts.items():
        if name in given.without.split(","):
            continue
        try:
            part()
        except Exception:  # whatever it is, the other parts are worth having
            run.failed(name, traceback.format_exc(limit=-4))
        run.write()
    print(text(run.record))
    return 1 if run.is_wrong else 0


class _Run:
    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.budget = Budget(given.seconds)
        self.record: dict[str, Any] = {
            "schema": 1,
            "bench": "gpu",
            "date": time.strftime("%Y-%m-%d", time.gmtime()),
            "command": " ".join(["python -m bench.gpu", *sys.argv[1:]]),
            "device": _device(),
            "constants": [],
            "correctness": [],
            "rows": [],
            "problems": [],
            "failures": [],
        }

    @property
    def is_wrong(self) -> bool:
        wrong = any(c["right"] < c["cases"] for c in self.record["correctness"])
        failed = any(p["kind"] == "failed" for p in self.record["problems"])
        return wrong or failed

    def correctness(self) -> None:
        from bench.gpu.correctness import check_apart

        with tempfile.TemporaryDirectory(prefix="graphc-bench-") as folder:
            found = check_apart(self.budget.part(0.5, 200.0), self.say, Path(folder))
        for judged in found:
            self.record["correctness"].append(
                {"what": judged.what, "cases": judged.cases, "right": judged.right}
            )
            self.record["failures"] += judged.failures
            if judged.left:
                reason = f"no time was left for {len(judged.left)}: {', '.join(judged.left)}"
                self.failed(judged.what, reason, kind="unsaid")

    def constants(self) -> None:
        self.say("what the device can do")
        with tempfile.TemporaryDirectory(prefix="graphc-bench-") as folder:
            file = Path(folder) / "constants.json"
            seconds = min(self.budget.left, 60.0)
            why = run_apart(["bench.gpu.constants", str(file)], file, seconds, seconds)
            self.record["constants"] = got(file) or []
        if why:
            self.failed("constants", why)

    def workloads(self) -> None:
        from bench.gpu.workloads import entries_asked, measure

        names = self.given.workload or list(WORKLOADS)
        entries = entries_asked(self.given.peers.split(",") if self.given.peers else [])
        plan = Plan(self.given.rounds, self.given.round_seconds)
        budget = Budget(self.budget.left * 0.85)
        with tempfile.TemporaryDirectory(prefix="graphc-bench-") as folder:
            for batch in measure(names, entries, plan, budget, Path(folder), self.say):
                self.record["rows"] += [row(name, timing) for name, timing in batch.timings]
                self.record["problems"] += [asdict(p) for p in batch.problems]
                self.write()

    def sanitizer(self) -> None:
        """Memory errors and races of a sample of the table."""
        tool = shutil.which("compute-sanitizer")
        if tool is None:
            self.failed("sanitizer", "compute-sanitizer is not installed", kind="absent")
            return
        command = [sys.executable, "-m", "bench.gpu.correctness", "--sample"]
        for kind in ("memcheck", "racecheck"):
            self.say(f"compute-sanitizer, {kind}")
            if self.budget.left < 5:
                self.failed(f"sanitizer {kind}", "no time was left", kind="unsaid")
                continue
            seconds = self.budget.left / (2 if kind == "memcheck" else 1)
            try:
                ended = subprocess.run(
                    [tool, "--tool", kind, "--error-exitcode", "9", *command],
                    capture_output=True,
                    text=True,
                    timeout=seconds,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                reason = f"nothing was found in {seconds:.0f} seconds, which it did not end in"
                self.failed(f"sanitizer {kind}", reason, kind="unsaid")
                continue
            if ended.returncode:
                self.failed(f"sanitizer {kind}", (ended.stdout + ended.stderr)[-1500:])
            else:
                said = {"what": f"compute-sanitizer {kind}", "cases": 1, "right": 1}
                self.record["correctness"].append(said)

    def failed(self, part: str, reason: str, kind: str = "failed") -> None:
        self.record["problems"].append(
            {"workload": part, "entry": "", "threads": 0, "kind": kind, "reason": reason}
        )

    def say(self, what: str) -> None:
        print(f"{self.budget.used:5.0f} s  {what}", file=sys.stderr, flush=True)

    def write(self) -> None:
        if self.given.json:
            self.given.json.parent.mkdir(parents=True, exist_ok=True)
            self.given.json.write_text(json.dumps(self.record, indent=1) + "\n", encoding="utf-8")
        if self.given.markdown:
            self.given.markdown.write_text(markdown(self.record), encoding="utf-8")


def _device() -> dict[str, Any]:
    """What the GPU calls itself; the driver where NVIDIA's tool says it."""
    machine = platform().machine()
    name, driver = "GPU", "unknown"
    if tool := shutil.which("nvidia-smi"):
        query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
        try:
            ended = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20)
            said = ended.stdout
        except subprocess.TimeoutExpired:
            said = ""
        first = said.splitlines()[0].split(", ") if said.strip() else []
        name, driver = first if len(first) == 2 else (name, driver)
    return {"name": name, "driver": driver, **(asdict(machine) if machine else {})}


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("workload", nargs="*", choices=[[], *WORKLOADS], help="default: all")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that the run may take")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--round-seconds", type=float, default=0.1, help="of an entry in a round")
    parser.add_argument("--peers", default="", help="default: all that are installed")
    parser.add_argument("--without", default="", help=f"parts to leave out of {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, help="where the record goes")
    parser.add_argument("--markdown", type=Path, help="where the tables go")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
