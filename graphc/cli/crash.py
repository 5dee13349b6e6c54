"""The report of an internal error: a fresh folder with what is needed to see it happen again.

It holds the command line, the traceback, the versions, and copies of the network files that the
command line names. Data files and weights are not copied.
"""

from __future__ import annotations

import shlex
import shutil
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

COPIED_SUFFIXES = (".ndl", ".gir", ".mel", ".config")
LARGEST_COPY = 16 << 20  # bytes; the limit on network text


def write_report(argv: Sequence[str], error: BaseException) -> Path | None:
    """Write the report; its folder, or None where temporary files cannot be made."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="graphc-error-"))
        _fill(folder, argv, error)
    except OSError:
        return None
    return folder


def _fill(folder: Path, argv: Sequence[str], error: BaseException) -> None:
    from graphc.cli.version import version_text

    copies = [Path(word) for word in argv if _is_network_text(Path(word))]
    for path in copies:
        shutil.copyfile(path, folder / path.name)
    words = [Path(word).name if Path(word) in copies else word for word in argv]
    (folder / "command.txt").write_text(f"graphc {shlex.join(words)}\n", encoding="utf-8")
    trace = "".join(traceback.format_exception(error))
    (folder / "traceback.txt").write_text(trace, encoding="utf-8")
    (folder / "version.txt").write_text(version_text() + "\n", encoding="utf-8")


def _is_network_text(path: Path) -> bool:
    return path.suffix in COPIED_SUFFIXES and path.is_file() and path.stat().st_size <= LARGEST_COPY
