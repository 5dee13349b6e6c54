"""What a reader is told besides its settings: by the command that it reads for."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from graphc.data.plain_rows import NativeRows


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """The precision, and how the samples are used.

    dtype     of numbers: float32 or float64
    seed      of the order of samples
    in_order  the order of the data is kept, whatever the settings say (as for writing outputs)
    keep      samples will be visited many times: it pays to keep them ready
    native    native code that reads text, if it is to be used
    """

    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))
    seed: int = 0
    in_order: bool = False
    keep: bool = True
    native: NativeRows | None = None
