"""Who called: the first frame outside of graphc."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

_OWN = Path(__file__).parent.parent


def user_frame(*also_own: Path) -> FrameType | None:
    """The innermost frame whose code is neither graphc's nor in one of these folders."""
    own = (_OWN, *also_own)
    frame: FrameType | None = sys._getframe(1)  # the public inspect.stack() reads every source file
    while frame is not None:
        parents = Path(frame.f_code.co_filename).parents
        if not any(folder in parents for folder in own):
            return frame
        frame = frame.f_back
    return None
