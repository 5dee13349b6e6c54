"""What a training by members over MPI loses where it is killed at random moments: nothing.

    python -m bench.kills [--kills 100] [--members 4,2] [--mpirun mpirun] [--seed 0] [--json FILE]

A training that writes checkpoints, with `--comm-shards`, is started with `--resume` again and
again, by the next one of these numbers of members, and after a random time one of its members is
killed (SIGKILL), or now and then mpirun. One that comes to its end has to have the bits of a
training by one member that nobody disturbed; then another one begins. What is printed: how long it
takes from the kill to the end of all processes, and from the next start to its first line about an
epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

NET = """
x = Input(64, tag=feature)
y = Input(10, tag=label)
n = PerDimMeanVarNormalization(x, Mean(x), InvStdDev(x))
W = Parameter(96, 64)
V = Parameter(10, 96)
ce = CrossEntropyWithSoftmax(y, Times(V, Tanh(Times(W, n))), tag=criteria)
"""
SAMPLES, SHARDS = 500, 4
OPTIONS = (
    "--data rows.txt --features 0:64 --labels 64 --classes 10 --minibatch 30 --learning-rate 0.3 "
    f"--momentum 0.9 --comm mpi --comm-shards {SHARDS} --checkpoint-minutes 0.001 --resume"
)
CALL = "import sys; from graphc.cli.main import console; console()"
ROOT = Path(__file__).parents[1]
SETTINGS = {
    # More members than cores, in a container, and on the loopback alone.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl": "self,vader",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "frontends"), *sys.path[1:]]),
}
LAUNCHER_EVERY = 8
"""One kill of so many is of mpirun."""
GIVE_UP = 120.0


@dataclass(frozen=True)
class Kill:
    """One kill: of which of how many members (-1: mpirun), how long after the start of the job,
    whether its training had begun, how long until all processes were gone, and the last words."""

    members: int
    victim: int
    moment: float
    in_training: bool
    ended: float
    said: str


@dataclass
class Outcome:
    """kills, trainings that came to their end, those of them with other bits, and how long starts
    took until the first line about an epoch."""

    kills: list[Kill] = field(default_factory=list[Kill])
    trainings: int = 0
    differing: int = 0
    starts: list[float] = field(default_factory=list[float])


class Job:
    """A training, started."""

    def __init__(self, folder: Path, mpirun: str, members: int, epochs: int, output: str) -> None:
        command = [
            *shlex.split(mpirun),
            *("-n", str(members), sys.executable, "-c", CALL, "train", "net.ndl"),
            *OPTIONS.split(),
            *("--epochs", str(epochs), "--checkpoint", f"{output}.ckpt"),
            *("-o", f"{output}.safetensors"),
        ]
        self.began = time.monotonic()
        self.first_epoch: float | None = None
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **SETTINGS},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if self.first_epoch is None and re.match(r" *\d+/\d+ ", line):
                self.first_epoch = time.monotonic() - self.began
            self.lines.append(line.rstrip())

    def wait(self, seconds: float) -> int | None:
        """Its exit code; None if it goes on after so many seconds."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join()
        return code

    def kill(self, members: int, chance: random.Random) -> Kill:
        """Kill a member, or mpirun, and wait until all processes are gone."""
        processes = members_of(self.process.pid)
        victim = chance.randrange(len(processes)) if processes else -1
        if chance.randrange(LAUNCHER_EVERY) == 0:
            victim = -1
        moment, in_training = time.monotonic() - self.began, self.first_epoch is not None
        began = time.monotonic()
        try:
            os.kill(processes[victim] if victim >= 0 else self.process.pid, signal.SIGKILL)
        except ProcessLookupError:  # it came to its end meanwhile
            pass
        if self.wait(GIVE_UP) is None:
            raise SystemExit(f"mpirun goes on {GIVE_UP:g} s after a kill: {self.lines[-5:]}")
        while any(map(is_there, processes)):
            if time.monotonic() - began > GIVE_UP:
                raise SystemExit(f"members go on {GIVE_UP:g} s after a kill: {self.lines[-5:]}")
            time.sleep(0.01)
        ended = time.monotonic() - began
        words = [line for line in self.lines if "exited on signal" in line or "error" in line]
        return Kill(members, victim, moment, in_training, ended, words[-1] if words else "")


def members_of(launcher: int) -> list[int]:
    """The processes of a job, from what Linux says of all processes."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, after = stat.read_text().rpartition(")")
        except OSError:  # it is gone
            continue
        children.setdefault(int(after.split()[1]), []).append(int(stat.parent.name))
    found, left = list[int](), [launcher]
    while left:
        mine = sorted(children.get(left.pop(), []))
        found += [pid for pid in mine if CALL.encode() in _command_of(pid)]
        left += mine
    return found


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_there(pid: int) -> bool:
    """Whether a process of a job still runs."""
    return CALL.encode() in _command_of(pid)


def write_inputs(folder: Path) -> None:
    chance = np.random.default_rng(7)
    rows = [chance.random((SAMPLES, 64)).round(3), chance.integers(0, 10, (SAMPLES, 1))]
    (folder / "net.ndl").write_text(NET, encoding="utf-8")
    np.savetxt(folder / "rows.txt", np.hstack(rows), "%g")


def run_kills(
    folder: Path,
    kills: int,
    members: Sequence[int],
    epochs: int = 100,
    mpirun: str = "mpirun",
    seed: int = 0,
) -> Outcome:
    """Kill a training so many times, and whatever trainings follow; SystemExit where one fails by
    itself or does not end."""
    write_inputs(folder)
    whole = Job(folder, mpirun, 1, epochs, "whole")
    _require_success(whole)
    expected = (folder / "whole.safetensors").read_bytes()
    seconds = {count: _seconds_of(folder, mpirun, count, epochs) for count in members}
    outcome, chance, turn = Outcome(), random.Random(seed), 0
    while True:
        count = members[turn % len(members)]
        turn += 1
        job = Job(folder, mpirun, count, epochs, "killed")
        enough = len(outcome.kills) >= kills
        if enough or job.wait(chance.uniform(0, seconds[count])) is not None:
            _require_success(job)
            outcome.trainings += 1
            outcome.differing += (folder / "killed.safetensors").read_bytes() != expected
            for path in folder.glob("killed.*"):
                path.unlink()
        else:
            outcome.kills.append(job.kill(count, chance))
        if job.first_epoch is not None:
            outcome.starts.append(job.first_epoch)
        if enough:
            return outcome


def _seconds_of(folder: Path, mpirun: str, members: int, epochs: int) -> float:
    """From start to end, if nobody is killed."""
    job = Job(folder, mpirun, members, epochs, f"by{members}")
    _require_success(job)
    return time.monotonic() - job.began


def _require_success(job: Job) -> None:
    if job.wait(GIVE_UP) != 0:
        raise SystemExit("\n".join(["a training failed that nobody killed:", *job.lines[-20:]]))


def report(outcome: Outcome) -> str:
    """The table."""
    begun = [kill for kill in outcome.kills if kill.in_training]
    same = outcome.trainings - outcome.differing
    lines = [
        f"{len(outcome.kills)} kills, {len(begun)} of them while the training was on its way",
        f"{outcome.trainings} trainings came to their end, {same} with the same bits",
    ]
    for what, seconds in (
        ("kill to the end of all processes", [kill.ended for kill in outcome.kills]),
        ("start to the first epoch's line", outcome.starts),
    ):
        if seconds:
            middle = statistics.median(seconds)
            lines.append(f"{what}: median {middle:.2f} s, most {max(seconds):.2f} s")
    said = Counter(re.sub(r"\d+", "#", kill.said) for kill in outcome.kills)
    lines += [f"{times:4} x {words or '(nothing)'}" for words, times in said.most_common()]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--members", default="4,2", help="in turn, divisors of 4")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--mpirun", default="mpirun", help="with its options")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    members = [int(count) for count in args.members.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_kills(Path(folder), args.kills, members, args.epochs, args.mpirun, args.seed)
    print(report(outcome))
    if args.json is not None:
        args.json.write_text(json.dumps(asdict(outcome), indent=1), encoding="utf-8")
    return 1 if outcome.differing else 0


if __name__ == "__main__":
    sys.exit(main())
