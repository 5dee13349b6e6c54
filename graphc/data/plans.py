"""What is done with columns of a table, line by line: made of what the user asked for."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.data.labels import LabelNumbers


@dataclass(frozen=True, slots=True)
class Plan:
    """The columns first to last of each line: numbers, or one column of texts with `labels`, which
    become one-hot rows, or the numbers of their classes.

    width     numbers of a row of the table made of them
    accepted  what a label has to be, for messages
    """

    name: str
    first: int
    last: int
    width: int
    labels: LabelNumbers | None
    accepted: str = ""
    one_hot: bool = True
