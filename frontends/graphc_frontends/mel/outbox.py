"""The files that a script writes: all of them, at its end, or none.

Each is written beside its place when its command comes and put there when the last command has
succeeded. So a script that fails leaves every file as it was; only a failure of these last renames
can leave some of them replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from graphc.support.diagnostics import fail
from graphc.support.files import staged

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder


class Outbox:
    """Files written so far and not put into their places yet."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._waiting: dict[Path, Callable[[], None]] = {}
        self._networks: dict[Path, GraphBuilder] = {}
        self._folders: list[Path] = []
        stack.push(self._remove_folders)

    def save(self, network: GraphBuilder, path: Path, *, is_read_later: bool) -> None:
        """Write a model file; a later command of the script may read it."""
        self._make_folder(path)
        self._put(path, self._stack.enter_context(network.staged_save(path)))
        self._networks.pop(path.absolute(), None)
        if is_read_later:
            self._networks[path.absolute()] = copy_of(network)

    def write(self, path: Path, lines: Iterable[str]) -> None:
        """Write a text."""

        def write(stream: BinaryIO) -> None:
            for line in lines:
                stream.write(line.encode())

        self._make_folder(path)
        self._put(path, self._stack.enter_context(staged(path, write)))
        self._networks.pop(path.absolute(), None)

    def saved(self, path: Path) -> GraphBuilder | None:
        """The network in a file that this script has saved, as it was then."""
        network = self._networks.get(path.absolute())
        return copy_of(network) if network is not None else None

    def send(self) -> list[Path]:
        """Put all files into their places; these."""
        for put_into_place in self._waiting.values():
            put_into_place()
        sent = [*self._waiting]
        self._folders.clear()
        self._waiting.clear()
        return sent

    def _put(self, path: Path, put_into_place: Callable[[], None]) -> None:
        """Of two files for one place the later one counts."""
        self._waiting.pop(path, None)
        self._waiting[path] = put_into_place

    def _make_folder(self, path: Path) -> None:
        """As the toolkit, make the folders that are not there."""
        missing = [p for p in path.absolute().parents if not p.exists()]
        for folder in reversed(missing):
            try:
                folder.mkdir()
            except OSError as error:
                message = f"cannot make the folder {folder}: {error.strerror}"
                raise fail("file", message) from error
            self._folders.append(folder)

    def _remove_folders(self, *_: object) -> bool:
        """Folders made for files that were not put there go again."""
        for folder in reversed(self._folders):
            with suppress(OSError):
                folder.rmdir()
        return False


def copy_of(network: GraphBuilder) -> GraphBuilder:
    """A network of its own with the same nodes and values."""
    return type(network)(network.model.frozen())
