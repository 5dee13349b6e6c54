"""Says who is missing where members of MPI wait for each other too long, and ends the job.

A member that was stopped, or whose link is cut, is waited for without end by MPI itself. So a
thread of each member looks how long the sum at hand has taken, and answers when another one asks
whether it is there.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

LONGEST_LOOK = 0.5
"""Seconds from look to look, at most."""
ANSWERS = 2.0
"""Seconds in which an answer has to come."""
ASK, ANSWER = 1, 2  # tags of messages
SILENT = ("does not answer", "do not answer")
BUSY = ("has not come yet", "have not come yet")  # one, or several


@dataclass
class Watchdog:
    """A context: the time inside of it is watched.

    world     a communicator of mpi4py that nobody else uses
    patience  seconds until the job is ended
    """

    world: Any
    patience: float
    _since: float | None = None
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)

    def __enter__(self) -> None:
        self._since = time.monotonic()
        if self._thread is None and self.world.Get_size() > 1:
            self._thread = threading.Thread(target=self._watch, name="graphc-watchdog", daemon=True)
            self._thread.start()
            atexit.register(self._join)  # MPI ends after that

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._since = None

    def _join(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        look = min(self.patience / 4, LONGEST_LOOK)
        while not self._stop.wait(look):
            self._answer()
            since = self._since
            if since is not None and time.monotonic() - since > self.patience:
                self._end()
                return

    def _answer(self) -> None:
        """Tell those who ask whether this member waits too."""
        for source in self._senders(ASK):
            self.world.recv(source=source, tag=ASK)
            self.world.send(self._since is not None, dest=source, tag=ANSWER)

    def _senders(self, tag: int) -> list[int]:
        others = (r for r in range(self.world.Get_size()) if r != self.world.Get_rank())
        return [r for r in others if self.world.iprobe(source=r, tag=tag)]

    def _end(self) -> None:
        rank, size = self.world.Get_rank(), self.world.Get_size()
        waiting = self._asked()
        silent = [r for r in range(size) if r not in waiting]
        busy = [r for r, waits in waiting.items() if not waits]
        if rank == min(r for r, waits in waiting.items() if waits):  # one speaks for all that wait
            said = [members_said(ranks, size, w) for ranks, w in ((silent, SILENT), (busy, BUSY))]
            what = f"member {rank} waited {self.patience:g} s for a sum"
            message = f"{what}: {'; '.join(filter(None, said)) or 'all are there'}"
            sys.stderr.write(f"graphc: error[training]: {message}\n")
            sys.stderr.flush()
        else:
            time.sleep(ANSWERS)  # the speaker ends the job
        # The launcher may be where no message comes to: it sees members that leave. This ends the
        # process although mpi4py's `Abort` keeps the interpreter.
        with Path(os.devnull).open("w") as nowhere:
            faulthandler.dump_traceback_later(ANSWERS, exit=True, file=nowhere)
            self.world.Abort(1)

    def _asked(self) -> dict[int, bool]:
        """Of those that answer, this one too, whether they wait."""
        rank, size = self.world.Get_rank(), self.world.Get_size()
        for other in range(size):
            if other != rank:
                self.world.isend(None, dest=other, tag=ASK)
        found = {rank: True}
        end = time.monotonic() + ANSWERS
        while time.monotonic() < end and len(found) < size:
            self._answer()
            for source in self._senders(ANSWER):
                found[source] = self.world.recv(source=source, tag=ANSWER)
            time.sleep(0.01)
        return found


def members_said(ranks: Sequence[int], size: int, words: tuple[str, str] = SILENT) -> str:
    """`member 1 of 4 does not answer`, `members 1, 2 of 4 do not answer`; '' for none of them.

    words  what is said of one, and of several
    """
    if not ranks:
        return ""
    is_several = len(ranks) > 1
    return f"member{'s' * is_several} {', '.join(map(str, ranks))} of {size} {words[is_several]}"


__all__ = ["ANSWERS", "Watchdog", "members_said"]
