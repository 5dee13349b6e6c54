"""How members share the sequences of a minibatch, so that none waits long for the others.

What a step costs is its columns, gaps included: the longest of a member's sequences times their
number. So each gets sequences that are about as long, who has short ones more of them. For 4
members, of 32 lengths drawn evenly from 1 to 100, the one with most columns has 1.33 times the mean
of the steps, where it has 1.97 times with each 4th sequence.

Not for truncated sequences, which are computed a stretch of steps at a time: members meet after
each, so there all want equally many.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def dealt(lengths: Array, members: int) -> list[Array]:
    """For each member the places of its sequences, i64[any], in the order of the minibatch: longest
    first to the first one. The most columns are as few as they can be so; a function of the lengths
    alone. Lengths are 1 or more."""
    order = np.argsort(-lengths, kind="stable")
    falling = lengths[order]
    least = int(lengths.max(initial=0))  # a sequence lies on one member
    most = least * len(lengths)
    while least < most:
        middle = (least + most) // 2
        if len(_ends(falling, middle)) <= members:
            most = middle
        else:
            least = middle + 1
    ends = _ends(falling, most)
    ends += [len(order)] * (members - len(ends))
    return [np.sort(part) for part in np.split(order, ends[:-1])]


def _ends(falling: Array, columns: int) -> list[int]:
    """Where groups of at most so many columns end, as long as they can be."""
    ends: list[int] = []
    start = 0
    while start < len(falling):
        start = min(start + columns // int(falling[start]), len(falling))
        ends.append(start)
    return ends
