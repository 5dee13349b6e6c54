"""Atomic writing under faults and crashes, and reading with checks."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import pytest

from graphc.support.diagnostics import GraphcError
from graphc.support.files import (
    LEFT_OVER_SECONDS,
    SYSTEM_CALLS,
    FileCalls,
    move_into_place,
    open_regular_file,
    read_file_inside,
    read_regular_file,
    remove_left_over,
    staged,
    temporary_folder,
    write_atomically,
)

OLD = b"old" * 1000
ROOT = Path(__file__).parents[3]
NEW = b"new content" * 3000  # more than one buffer of the stream


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    path.write_bytes(OLD)
    return path


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def slug_of(error: pytest.ExceptionInfo[GraphcError]) -> str:
    (diagnostic,) = error.value.diagnostics
    return diagnostic.slug


# Writing


def test_writes_bytes_to_a_new_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", NEW)
    assert (tmp_path / "a").read_bytes() == NEW
    assert names(tmp_path) == ["a"]


def test_replaces_a_file_by_what_a_function_writes(target: Path) -> None:
    def write(stream: BinaryIO) -> None:
        for start in range(0, len(NEW), 100):
            stream.write(NEW[start : start + 100])

    write_atomically(target, write)
    assert target.read_bytes() == NEW
    assert names(target.parent) == ["model"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_an_existing_file_keeps_its_mode(target: Path, mode: int) -> None:
    target.chmod(mode)
    write_atomically(target, NEW)
    assert stat.S_IMODE(target.stat().st_mode) == mode


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_new_file_gets_the_mode_of_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "a", NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode


def test_a_private_file_is_private_while_it_is_written(target: Path) -> None:
    target.chmod(0o600)
    modes: list[int] = []

    def write(stream: BinaryIO) -> None:
        modes.extend(p.stat().st_mode & 0o777 for p in target.parent.iterdir() if p != target)

    write_atomically(target, write)
    assert modes == [0o600]


def test_the_file_behind_a_symbolic_link_is_replaced_and_the_link_stays(target: Path) -> None:
    link = target.with_name("link")
    link.symlink_to(target)
    write_atomically(link, NEW)
    assert link.is_symlink()
    assert target.read_bytes() == NEW


def test_a_fifo_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(GraphcError, match="is a FIFO") as error:
        write_atomically(tmp_path / "fifo", NEW)
    assert slug_of(error) == "file"
    assert names(tmp_path) == ["fifo"]


def test_a_device_is_not_replaced() -> None:
    with pytest.raises(GraphcError, match="is a device"):
        write_atomically(Path("/dev/null"), NEW)


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match="is a folder"):
        write_atomically(tmp_path, NEW)


@pytest.mark.parametrize("name", ["missing/a", "a\0b", "x" * 300])
def test_an_impossible_path_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(GraphcError, match="cannot write") as error:
        write_atomically(tmp_path / name, NEW)
    assert slug_of(error) == "file"


def test_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "a")
    with pytest.raises(GraphcError, match="cannot write"):
        write_atomically(tmp_path / "a", NEW)


def test_a_target_with_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("\N{EURO SIGN}" * 85)  # 255 bytes
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW


def test_what_the_function_raises_comes_through_and_the_old_file_stays(target: Path) -> None:
    def write(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise MemoryError

    with pytest.raises(MemoryError):
        write_atomically(target, write)
    assert target.read_bytes() == OLD
    assert names(target.parent) == ["model"]


@pytest.mark.parametrize(("mode", "asked_for"), [(0o600, 0o600), (0o644, 0o600), (None, 0o666)])
def test_the_temporary_is_created_anew_and_never_with_too_many_rights(
    target: Path, mode: int | None, asked_for: int
) -> None:
    opened: list[tuple[int, int]] = []

    def open_and_note(path: str, flags: int, mode: int) -> int:
        opened.append((flags, mode))
        return os.open(path, flags, mode)

    if mode is None:
        target.unlink()
    else:
        target.chmod(mode)
    write_atomically(target, NEW, calls=replace(SYSTEM_CALLS, open=open_and_note))
    flags, asked = opened[0]
    assert flags & os.O_CREAT and flags & os.O_EXCL
    assert asked == asked_for


def test_temporary_names_do_not_repeat(target: Path) -> None:
    seen: list[str] = []

    def open_and_note(path: str, flags: int, mode: int) -> int:
        seen.append(path)
        return os.open(path, flags, mode)

    for _ in range(20):
        write_atomically(target, NEW, calls=replace(SYSTEM_CALLS, open=open_and_note))
    temporary = [path for path in seen if path != str(target.parent)]
    assert len(set(temporary)) == 20
    assert all(re.fullmatch(r"\.model\.graphc-[0-9a-f]{16}\.tmp", Path(p).name) for p in temporary)


# Several files, and files that somebody else makes


def test_nothing_is_replaced_before_everything_is_written(target: Path) -> None:
    with (
        pytest.raises(GraphcError, match="cannot write"),
        staged(target, NEW) as put_into_place,
        staged(target.parent / "missing" / "b", NEW),
    ):
        put_into_place()
    assert target.read_bytes() == OLD
    assert names(target.parent) == ["model"]


def test_what_is_not_put_into_place_is_removed(target: Path) -> None:
    with staged(target, NEW):
        assert len(names(target.parent)) == 2
    assert target.read_bytes() == OLD
    assert names(target.parent) == ["model"]


def test_what_cannot_be_written_in_a_temporary_folder_is_said_of_what_it_is_for(
    tmp_path: Path,
) -> None:
    out = tmp_path / "net"

    def no_space() -> None:
        raise OSError(errno.ENOSPC, "No space left")

    with (
        pytest.raises(GraphcError, match=re.escape(f"cannot write {out}: No space left")) as error,
        temporary_folder(out) as folder,
        temporary_folder(folder / out.name),
    ):
        no_space()
    assert slug_of(error) == "file"
    assert names(tmp_path) == []


def test_a_finished_file_replaces_another_and_nothing_but_a_file(target: Path) -> None:
    os.mkfifo(target.parent / "fifo")
    with temporary_folder(target) as folder:
        made = folder / "made"
        made.write_bytes(NEW)
        with pytest.raises(GraphcError, match="fifo is a FIFO"):
            move_into_place(made, target.parent / "fifo")
        move_into_place(made, target)
    assert target.read_bytes() == NEW
    assert names(target.parent) == ["fifo", "model"]
    assert (target.parent / "fifo").is_fifo()


# What killed processes left


@pytest.fixture
def left_over(tmp_path: Path) -> list[str]:
    """Names of temporary files and folders, of an hour ago and of now, and of what is none."""
    hour_ago = time.time() - LEFT_OVER_SECONDS - 10
    for age in ("old", "new"):
        (tmp_path / f".{age}.graphc-0123456789abcdef.tmp").write_bytes(b"half")
        folder = tmp_path / f".{age}-folder.graphc-ab_cd012.tmp"
        folder.mkdir()
        (folder / "network.o").write_bytes(b"object")
    others = ["old.graphc-01234567.tmp", ".old.tmp", ".old.graphc-01.tmp.bak", ".x.graphc-.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"mine")
    (tmp_path / ".link.graphc-01.tmp").symlink_to(tmp_path / ".old.tmp")
    for path in tmp_path.iterdir():
        if not path.name.startswith(".new"):
            os.utime(path, (hour_ago, hour_ago), follow_symlinks=False)
    return sorted([*others, ".link.graphc-01.tmp", *(n for n in names(tmp_path) if ".new" in n)])


def test_a_write_removes_what_a_killed_process_left_an_hour_ago(
    tmp_path: Path, left_over: list[str]
) -> None:
    write_atomically(tmp_path / "a", NEW)
    assert names(tmp_path) == sorted([*left_over, "a"])


def test_a_temporary_folder_is_removed_with_what_was_left_before(
    tmp_path: Path, left_over: list[str]
) -> None:
    with temporary_folder(tmp_path / "a") as folder:
        (folder / "b").write_bytes(b"")
    assert names(tmp_path) == left_over


def test_what_another_user_left_stays(
    tmp_path: Path, left_over: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = names(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    write_atomically(tmp_path / "a", NEW)
    assert names(tmp_path) == sorted([*before, "a"])


def test_what_killed_writes_and_folders_leave_is_found_by_its_name(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from graphc.support.files import temporary_folder, write_atomically\n"
        "kill = lambda _stream: os.kill(os.getpid(), signal.SIGKILL)\n"
        "with temporary_folder(Path(sys.argv[1])): write_atomically(Path(sys.argv[1]), kill)\n"
    )
    for name in ("model", "\N{EURO SIGN}" * 85, "a\nb"):
        done = subprocess.run([sys.executable, "-c", program, tmp_path / name], cwd=ROOT)
        assert done.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 6
    remove_left_over(tmp_path)
    assert len(names(tmp_path)) == 6
    remove_left_over(tmp_path, older_than=-1)
    assert names(tmp_path) == []


# Faults at the n-th call


@dataclass
class FailingCalls:
    """Real calls, of which the n-th (from 0) raises; `made` counts, `failed` names it."""

    fail_at: int
    error: OSError
    made: int = 0
    failed: str = ""

    def count(self, name: str) -> None:
        self.made += 1
        if self.made - 1 == self.fail_at:
            self.failed = name
            raise self.error

    def calls(self) -> FileCalls:
        def counted(name: str, call: Callable[..., object]) -> Callable[..., object]:
            def wrapper(*arguments: object) -> object:
                self.count(name)
                return call(*arguments)

            return wrapper

        def close(descriptor: int) -> None:
            os.close(descriptor)  # as in Linux, a close that reports an error has closed
            self.count("close")

        fields = {
            name: counted(name, getattr(SYSTEM_CALLS, name))
            for name in ("open", "write", "fchmod", "fsync", "replace")
        }
        return FileCalls(**fields, close=close)  # pyright: ignore[reportArgumentType]


def write_in_pieces(stream: BinaryIO) -> None:
    for start in range(0, len(NEW), 1000):
        stream.write(NEW[start : start + 1000])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_fault_at_any_call_leaves_a_whole_file_and_no_temporary(
    target: Path, number: int
) -> None:
    failed: list[str] = []
    for fail_at in range(50):
        target.write_bytes(OLD)
        failing = FailingCalls(fail_at, OSError(number, os.strerror(number)))
        try:
            write_atomically(target, write_in_pieces, calls=failing.calls())
        except GraphcError as error:
            assert error.diagnostics[0].slug == "file"
            failed.append(failing.failed)
        else:
            assert not failing.failed
            assert target.read_bytes() == NEW
            break
        renamed = "replace" in failed[:-1] and failed[-1] != "replace"
        assert target.read_bytes() == (NEW if renamed else OLD)
        assert names(target.parent) == ["model"]
    assert failed[:2] == ["open", "fchmod"]
    assert failed[2:-6] == ["write"] * len(failed[2:-6])
    assert failed[-6:] == ["fsync", "close", "replace", "open", "fsync", "close"]


def test_a_write_that_is_interrupted_by_a_signal_is_made_again(target: Path) -> None:
    failing = FailingCalls(2, OSError(errno.EINTR, "interrupted"))
    write_atomically(target, write_in_pieces, calls=failing.calls())
    assert failing.failed == "write"
    assert target.read_bytes() == NEW


def test_short_writes_are_continued(target: Path) -> None:
    def write_little(descriptor: int, data: object) -> int:
        return os.write(descriptor, memoryview(data)[:7])  # pyright: ignore[reportArgumentType]

    write_atomically(target, NEW, calls=replace(SYSTEM_CALLS, write=write_little))
    assert target.read_bytes() == NEW


def test_a_write_that_makes_no_progress_is_an_error(target: Path) -> None:
    with pytest.raises(GraphcError, match="nothing could be written"):
        write_atomically(target, NEW, calls=replace(SYSTEM_CALLS, write=lambda fd, data: 0))
    assert target.read_bytes() == OLD


def test_nothing_more_is_written_after_a_failed_write(target: Path) -> None:
    recorder = Recorder()
    write = recorder.calls().write

    def fail_once(descriptor: int, data: object) -> int:
        written = write(descriptor, data)  # pyright: ignore[reportArgumentType]
        if len(recorder.events) == 2:
            raise OSError(errno.EIO, "bad disk")
        return written

    with pytest.raises(GraphcError, match="bad disk"):
        write_atomically(target, write_in_pieces, calls=replace(SYSTEM_CALLS, write=fail_once))
    assert len(recorder.events) == 2


def test_a_file_system_without_flushing_of_folders_is_fine(target: Path) -> None:
    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not here")
        os.fsync(descriptor)

    write_atomically(target, NEW, calls=replace(SYSTEM_CALLS, fsync=fsync))
    assert target.read_bytes() == NEW


def test_a_temporary_that_cannot_be_removed_does_not_hide_the_first_error(target: Path) -> None:
    def no_space(descriptor: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "the disk is full")

    def no_unlink(path: str) -> None:
        raise OSError(errno.EROFS, "read-only")

    calls = replace(SYSTEM_CALLS, write=no_space, unlink=no_unlink)
    with pytest.raises(GraphcError, match="the disk is full"):
        write_atomically(target, NEW, calls=calls)


# Power cuts: which contents the disk may hold after each call


@dataclass
class Recorder:
    """Real calls, written down. `skips_fsync` makes a writer that forgets to flush the file."""

    skips_fsync: bool = False
    events: list[tuple[str, bytes]] = field(default_factory=list)

    def calls(self) -> FileCalls:
        def write(descriptor: int, data: object) -> int:
            self.events.append(("write", bytes(data)))  # pyright: ignore[reportArgumentType]
            return os.write(descriptor, data)  # pyright: ignore[reportArgumentType]

        def fsync(descriptor: int) -> None:
            is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
            if is_folder or not self.skips_fsync:
                self.events.append(("fsync folder" if is_folder else "fsync", b""))

        def rename(source: str, destination: str) -> None:
            self.events.append(("replace", b""))
            os.replace(source, destination)  # noqa: PTH105

        return replace(SYSTEM_CALLS, write=write, fsync=fsync, replace=rename)


def contents_after_power_cut(events: list[tuple[str, bytes]]) -> set[bytes]:
    """What the target may hold: unflushed data may be lost in part, and so may the rename."""
    done = [kind for kind, _ in events]
    written = b"".join(data for _, data in events)
    if "replace" not in done:
        return {OLD}
    flushed = "fsync" in done and "write" not in done[done.index("fsync") :]
    contents = {written} if flushed else {written, written[: len(written) // 2], b""}
    return contents if "fsync folder" in done else contents | {OLD}


def test_after_a_power_cut_at_any_call_the_file_is_the_old_or_the_new_one(target: Path) -> None:
    recorder = Recorder()
    write_atomically(target, write_in_pieces, calls=recorder.calls())
    for count in range(len(recorder.events) + 1):
        assert contents_after_power_cut(recorder.events[:count]) <= {OLD, NEW}
    assert contents_after_power_cut(recorder.events) == {NEW}


def test_the_power_cut_model_finds_a_writer_that_does_not_flush(target: Path) -> None:
    recorder = Recorder(skips_fsync=True)
    write_atomically(target, write_in_pieces, calls=recorder.calls())
    assert b"" in contents_after_power_cut(recorder.events)


# Kills and limits, in processes of their own

WRITER = """
import os, sys
from pathlib import Path
from graphc.support.files import write_atomically

def plainly(path, data):
    with open(path, "wb") as stream:
        stream.write(data)

path, write = Path(sys.argv[1]), {"atomic": write_atomically, "plain": plainly}[sys.argv[2]]
repeats = int(sys.argv[3])
version = int.from_bytes(path.read_bytes()[:8], "little")
while True:
    version += 1
    data = version.to_bytes(8, "little") * repeats
    # Reported only now, so that the next write begins when the other side hears of the last one.
    os.write(1, (version - 1).to_bytes(8, "little"))
    write(path, data)
"""
REPEATS = (100, 1000, 10_000, 50_000, 100_000)
KILLS = 40
MOST_KILLS = 400  # where none of the first came during a write


def run_and_kill(path: Path, kind: str, kill: int) -> tuple[int, bool]:
    """Start a writer and kill it; the last version it reported, and if the file was ever damaged.

    The file's size and the number of looks at it between a report and the kill depend on `kill`,
    so that the kills come while the writer opens, writes, flushes and renames.
    """
    repeats, looks = REPEATS[kill % len(REPEATS)], kill % 7
    command = [sys.executable, "-c", WRITER, str(path), kind, str(repeats)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, cwd=ROOT) as process:
        assert process.stdout is not None
        reported = b""
        while len(reported) < 16:
            reported += process.stdout.read(8)
        damaged = any(version_in(path) is None for _ in range(looks))
        process.kill()
        reported += process.stdout.read()
    return int.from_bytes(reported[-8:], "little"), damaged


def version_in(path: Path) -> int | None:
    """The version of which the file is full, None if it is damaged."""
    data = path.read_bytes()
    whole = data[:8] * (len(data) // 8)
    is_whole = data == whole and len(data) in {8 * repeats for repeats in REPEATS}
    return int.from_bytes(data[:8], "little") if is_whole else None


def is_lost_or_damaged(path: Path, kind: str, kill: int) -> bool:
    last, was_damaged = run_and_kill(path, kind, kill)
    version = version_in(path)
    return was_damaged or version is None or version < last


def test_a_kill_while_writing_never_loses_or_damages_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, bytes(8) * REPEATS[0])
    for kill in range(MOST_KILLS):
        assert not is_lost_or_damaged(path, "atomic", kill)
        came_during_a_write = any(name.endswith(".tmp") for name in names(tmp_path))
        if came_during_a_write and kill >= KILLS:
            return
    pytest.fail("no kill came during a write, so this test has shown nothing")


def test_the_kill_test_finds_a_plain_writer(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(8) * REPEATS[0])
    assert any(is_lost_or_damaged(path, "plain", kill) for kill in range(MOST_KILLS))


OVER_LIMIT = """
import resource, sys
from pathlib import Path
from graphc.support.diagnostics import GraphcError
from graphc.support.files import write_atomically

resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    write_atomically(Path(sys.argv[1]), bytes(200_000))
except GraphcError as error:
    sys.exit(error.diagnostics[0].slug)
"""


def test_a_limit_on_file_size_keeps_the_old_file(target: Path) -> None:
    command = [sys.executable, "-c", OVER_LIMIT, str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (1, "file\n")
    assert target.read_bytes() == OLD
    assert names(target.parent) == ["model"]


# Reading


def test_reads_a_regular_file(target: Path) -> None:
    assert read_regular_file(target, len(OLD)) == OLD


def test_reads_through_a_symbolic_link_that_the_user_names(target: Path) -> None:
    link = target.with_name("link")
    link.symlink_to(target)
    assert read_regular_file(link, len(OLD)) == OLD


def test_a_file_above_the_limit_is_refused(target: Path) -> None:
    with pytest.raises(GraphcError, match="at most 2999 bytes here, it has 3000") as error:
        read_regular_file(target, len(OLD) - 1)
    assert slug_of(error) == "limit"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(GraphcError, match=r"cannot read .*gone: No such file") as error:
        read_regular_file(tmp_path / "gone", 10)
    assert slug_of(error) == "file"


def test_a_folder_is_refused_and_no_descriptor_stays_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(GraphcError, match="is a folder"):
        read_regular_file(tmp_path, 10)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(GraphcError, match="is a FIFO"):
        read_regular_file(tmp_path / "fifo", 10)


def test_a_device_is_refused() -> None:
    with pytest.raises(GraphcError, match="is a device"):
        read_regular_file(Path("/dev/zero"), 10)


def test_a_socket_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(GraphcError, match="cannot read"):
            read_regular_file(tmp_path / "s", 10)


def test_a_file_that_states_no_size_is_refused() -> None:
    with pytest.raises(GraphcError, match="changed while it was read"):
        read_regular_file(Path("/proc/self/status"), 10_000)


def test_a_path_with_nul_is_refused() -> None:
    with pytest.raises(GraphcError, match="without NUL"):
        read_regular_file(Path("a\0b"), 10)


def test_an_error_in_the_body_of_a_reader_is_not_hidden(target: Path) -> None:
    with pytest.raises(ValueError, match="mine"), open_regular_file(target, 10_000):
        raise ValueError("mine")


# Reading what a model names


def test_a_relative_name_is_read_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "w.txt").write_bytes(OLD)
    assert read_file_inside(tmp_path, "a/b/w.txt", 10_000) == OLD
    assert read_file_inside(tmp_path, "./a//b/w.txt", 10_000) == OLD


def test_reading_below_a_folder_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "w.txt").write_bytes(OLD)
    before = len(list(Path("/proc/self/fd").iterdir()))
    read_file_inside(tmp_path, "a/b/w.txt", 10_000)
    with pytest.raises(GraphcError):
        read_file_inside(tmp_path, "a/x/w.txt", 10_000)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("name", ["../model", "a/../model", "..", "", ".", "a\0", "a/../../x"])
def test_a_name_that_could_leave_the_folder_is_refused(target: Path, name: str) -> None:
    (target.parent / "a").mkdir()
    with pytest.raises(GraphcError, match="a file name without") as error:
        read_file_inside(target.parent, name, 10_000)
    assert slug_of(error) == "file"


def test_an_absolute_name_needs_permission(target: Path) -> None:
    with pytest.raises(GraphcError, match="got the absolute"):
        read_file_inside(target.parent, str(target), 10_000)
    assert read_file_inside(Path("/"), str(target), 10_000, allow_absolute=True) == OLD


def test_permission_for_absolute_names_does_not_allow_parents(target: Path) -> None:
    with pytest.raises(GraphcError, match="a file name without"):
        read_file_inside(target.parent / "a", "../model", 10_000, allow_absolute=True)


def test_a_link_in_the_place_of_the_file_is_not_followed(target: Path) -> None:
    target.with_name("link").symlink_to(target)
    with pytest.raises(GraphcError, match="symbolic links are not followed"):
        read_file_inside(target.parent, "link", 10_000)


def test_a_link_in_the_place_of_a_folder_is_not_followed(target: Path) -> None:
    target.with_name("up").symlink_to(target.parent)
    with pytest.raises(GraphcError, match="cannot read"):
        read_file_inside(target.parent, "up/model", 10_000)


def test_a_folder_below_the_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(GraphcError, match="is a folder"):
        read_file_inside(tmp_path, "a", 10_000)


def test_a_large_file_below_the_folder_is_refused(target: Path) -> None:
    with pytest.raises(GraphcError) as error:
        read_file_inside(target.parent, "model", 10)
    assert slug_of(error) == "limit"
