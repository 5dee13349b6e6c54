"""Folders that nobody but the user can put files into: what is loaded as code has to lie in one.

A folder is trusted if neither it nor anything on the way to it can be changed by others: every
part belongs to the user or to root and is writable by no one else (a sticky folder of root, as
/tmp is one, may be on the way). Symbolic links on the way are followed, each step checked.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST_LINKS = 40


def make_private_folder(path: Path) -> str:
    """Make the folder if it is missing, for the user alone, and say what is wrong with it.

    The empty text: it can be trusted and written to.
    """
    if os.getuid() != os.geteuid():
        return "the process runs with the rights of another user"
    try:
        problem = _problem(path.absolute(), may_be_missing=True)
        if problem:
            return problem
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder_problem(path)
    except OSError as error:
        return f"{error.filename or path}: {error.strerror}"


def folder_problem(path: Path) -> str:
    """Why the folder cannot be trusted, or the empty text."""
    try:
        problem = _problem(path.absolute(), may_be_missing=False)
        if problem:
            return problem
        status = path.stat()
    except OSError as error:
        return f"{error.filename or path}: {error.strerror}"
    if status.st_uid != os.geteuid():
        return f"{path} belongs to another user"
    if not os.access(path, os.W_OK | os.X_OK):
        return f"{path} cannot be written"
    return ""


def _problem(path: Path, *, may_be_missing: bool) -> str:
    """What is wrong with a part of an absolute path. Raises OSError for one that is missing."""
    done, left, links = Path("/"), [*reversed(path.parts[1:])], 0
    while left:
        name = left.pop()
        if name == "..":
            done = done.parent
            continue
        part = done / name
        try:
            status = part.lstat()
        except FileNotFoundError:
            if may_be_missing:
                return ""
            raise
        if status.st_uid not in (0, os.geteuid()):
            return f"{part} belongs to another user"
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > MOST_LINKS:
                return f"{path} goes through too many links"
            target = part.readlink()
            done = Path("/") if target.is_absolute() else done
            left += [p for p in reversed(target.parts) if p != "/"]
            continue
        if not stat.S_ISDIR(status.st_mode):
            return f"{part} is no folder"
        others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if others and not (left and status.st_mode & stat.S_ISVTX):
            return f"others may write to {part}"
        done = part
    return ""
