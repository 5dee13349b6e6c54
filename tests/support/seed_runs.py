"""Seeds of random programs judged in a child process with guarded memory.

A child that dies (an access outside of a buffer does that) is a problem of the seed that it was
at; another child goes on with the rest.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tests.support.guarded import guarded_buffers

ROOT = Path(__file__).parents[2]


class Verdict(NamedTuple):
    """What is wrong with a seed's results, '' if nothing, None if the seed is discarded."""

    seed: int
    problem: str | None


def judged(module: str, seeds: Sequence[int], backends: Sequence[str]) -> Generator[Verdict]:
    """Verdicts of `module.judge(seed, backends)` in the order of the seeds, as they are found."""
    rest = list(seeds)
    while rest:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.support.seed_runs"]
        command += [module, ",".join(backends)]
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as errors:
            given.write("\n".join(map(str, rest)))
            given.seek(0)
            child = subprocess.Popen(
                command, stdin=given, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT
            )
            assert child.stdout is not None
            try:
                for line in child.stdout:
                    yield Verdict(*json.loads(line))
                    rest.pop(0)
            finally:
                child.kill()
                child.stdout.close()
                status = child.wait()
            if rest:
                errors.seek(0)
                yield Verdict(rest.pop(0), _death(status, errors.read()))


def _death(status: int, errors: str) -> str:
    name = signal.Signals(-status).name if status < 0 else f"status {status}"
    return f"the process ended with {name}\n{errors}"


def main(module: str, backends: str) -> None:
    """The child: seeds from standard input, a verdict a line on standard output."""
    judge = import_module(module).judge
    with guarded_buffers():
        for line in sys.stdin:
            verdict = Verdict(int(line), judge(int(line), backends.split(",")))
            sys.stdout.write(json.dumps(verdict) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
