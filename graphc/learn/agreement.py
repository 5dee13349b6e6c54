"""What the members of a training agree on, so that each goes the same way as the others.

They read the same data and start from the same numbers, which is checked once; criteria come out of
the step the same for all, so that whatever follows from them does too. What only one of them knows,
that it was asked to stop, it tells the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from graphc.learn.dataset import WHOLE, Share
from graphc.runtime.communicators.communicator import Communicator, shards_of
from graphc.runtime.communicators.rows import counts_of
from graphc.support.diagnostics import fail
from graphc.support.version import VERSION

MOST_NAMED = 4
"""Members that a message lists for one thing."""

DIGEST_BYTES = 7
"""Of a digest: those that fit into an i64 that is not negative."""


def share_of(communicator: Communicator | None) -> Share:
    """What this member takes of every minibatch."""
    if communicator is None:
        return WHOLE
    size = communicator.size
    return Share(communicator.rank, size, shards_of(communicator) // size)


def is_first(communicator: Communicator | None) -> bool:
    """Whether this member is the one that writes files."""
    return communicator is None or communicator.rank == 0


def any_of(communicator: Communicator | None, is_asked: bool) -> bool:
    """Whether a member is asked for something."""
    if communicator is None or communicator.size == 1:
        return is_asked
    asked = np.array([int(is_asked)])
    communicator.all_reduce(asked)
    return bool(asked[0])


def digest_of(arrays: Mapping[str, np.ndarray]) -> bytes:
    """What differs between arrays of other names, types, shapes or values."""
    digest = hashlib.sha256()
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def require_agreement(
    communicator: Communicator, said: Mapping[str, bytes], what: str = "training"
) -> None:
    """GraphcError `training` on all members unless they say the same: all that is other on some of
    them, and on which. `what` they have in common is for the message.

    Members of another version of graphc, which may say other things, are told apart first.
    """
    program = {
        f"graphc (here {VERSION})": VERSION.encode(),
        f"settings (here {', '.join(said)})": ", ".join(said).encode(),
    }
    for texts in (program, said):
        digests = np.zeros((len(texts), communicator.size), np.int64)
        for row, text in zip(digests, texts.values(), strict=True):
            digest = hashlib.sha256(text).digest()[:DIGEST_BYTES]
            row[communicator.rank] = int.from_bytes(digest, "little")
        communicator.all_reduce(digests)
        found = [
            f"{name} ({_members(np.flatnonzero(row != row[0]))})"
            for name, row in zip(texts, digests, strict=True)
            if (row != row[0]).any()
        ]
        if found:
            message = f"members require the same {what}, other than on member 0 are"
            raise fail("training", f"{message}: {'; '.join(found)}")


def require_as_many(minibatches: int, communicator: Communicator | None) -> None:
    """GraphcError `input` on all members unless each goes through as many minibatches: who has more
    would wait for the others."""
    if communicator is None or communicator.size == 1:
        return
    counts = counts_of(communicator, minibatches)[:, 0]
    others = np.flatnonzero(counts != counts[0])
    if len(others):
        message = f"members require as many minibatches each: member 0 has {counts[0]}"
        raise fail("input", f"{message}, {_members(others)} another number")


def _members(ranks: np.ndarray) -> str:
    """`member 1`, `members 1, 3 and 8 more`."""
    listed = ", ".join(str(r) for r in ranks[:MOST_NAMED])
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return f"member{'s' if len(ranks) > 1 else ''} {listed}{more}"
