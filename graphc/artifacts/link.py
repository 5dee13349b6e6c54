"""Linking with the system's C compiler: shared libraries and executables, for ELF systems.

The compiler is found once and called with an argument list, never through a shell. Results are
made in a folder beside their place and renamed into it, so a failed link leaves nothing behind;
the same objects give the same bytes in any folder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphc.support.diagnostics import BackendUnavailable, Note, Severity, fail, make
from graphc.support.files import move_into_place, temporary_folder

_TIMEOUT_SECONDS = 600
_SHOWN_LINES = 20
_WRONG_FORMAT = "file in wrong format"
_OTHER_PROCESSOR = "code for another processor needs its compiler, such as CC=aarch64-linux-gnu-gcc"

# -z defs and -z text turn a missing function and code that is not position independent into errors.
_HARDENED = ("-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,-z,defs", "-Wl,-z,text")
_REPRODUCIBLE = ("-Wl,--build-id=none",)
# No -ffast-math here or anywhere: it would change the rounding of the whole host process.
# -Os: the program around a network spends its time in libc; measured as fast as -O2, 8 kB smaller.
_HIDDEN = "-fvisibility=hidden"
_COMPILED = ("-std=c99", "-Os", "-fPIC", _HIDDEN, "-g0")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: an absolute path, and the words that follow it where CC holds more than one."""

    path: str
    extra: tuple[str, ...] = ()

    def version(self) -> str:
        """The first line of what `--version` prints."""
        shown = run_compiler([self.path, *self.extra, "--version"], Path.cwd())
        return shown.splitlines()[0] if shown else "unknown"


def find_compiler(environment: Mapping[str, str] | None = None) -> Compiler | None:
    """The C compiler named by CC, else the first of cc, gcc and clang on the PATH, else None.

    A CC that cannot be found is not replaced by another compiler. `environment` defaults to that
    of the process.
    """
    environment = os.environ if environment is None else environment
    chosen = environment.get("CC", "").strip()
    search = environment.get("PATH", os.defpath)
    for candidate in [chosen] if chosen else ["cc", "gcc", "clang"]:
        compiler = _resolve(candidate, search)
        if compiler is not None:
            return compiler
    return None


def require_compiler(
    environment: Mapping[str, str] | None = None, *, use: str = "executables and libraries"
) -> Compiler:
    """`find_compiler`, or BackendUnavailable that says what is missing, for what `use`, and what
    works without."""
    compiler = find_compiler(environment)
    if compiler is not None:
        return compiler
    environment = os.environ if environment is None else environment
    chosen = environment.get("CC", "").strip()
    message = (
        f"{use} need a C compiler, and CC names `{chosen}`, which is not found"
        if chosen
        else f"{use} need a C compiler, and cc, gcc and clang are not found"
    )
    notes = (
        Note("install gcc or clang, or set CC to a compiler"),
        Note("object files, headers, sources and the other backends need none"),
    )
    raise BackendUnavailable([make(Severity.ERROR, "toolchain", message, None, "", notes)])


def link_shared(
    objects: Sequence[Path],
    out: Path,
    *,
    exports: Sequence[str],
    compiler: Compiler | None = None,
) -> None:
    """Link objects (`.o`, position independent, or `.c`) to a shared library.

    Exactly the functions `exports` can be seen from outside. Raises GraphcError: `toolchain` if
    the compiler is missing or fails, `file` if `out` cannot be written.
    """
    _check_exports(exports)
    compiler = require_compiler() if compiler is None else compiler
    with temporary_folder(out) as folder:
        script = folder / "exports.map"
        globals_text = " ".join(f"{name};" for name in exports)
        script.write_text(f"{{ global: {globals_text} local: *; }};\n", encoding="ascii")
        # No start files: the library has nothing to start and takes no hook in its host.
        flags = [
            "-shared",
            "-nostartfiles",
            f"-Wl,--version-script={script.name}",
            f"-Wl,-soname,{out.name}",
            "-Wl,--as-needed",
            "-Wl,--strip-debug",
        ]
        _link(compiler, folder, objects, out, flags)


def compile_source(source: Path, out: Path, *, compiler: Compiler | None = None) -> None:
    """Compile a C file to an object (`.o`, position independent) whose functions can be seen.

    Raises GraphcError `toolchain` if the compiler is missing or fails.
    """
    compiler = require_compiler() if compiler is None else compiler
    flags = [flag for flag in _COMPILED if flag != _HIDDEN]
    maps = f"-ffile-prefix-map={source.parent.absolute()}=."
    command = [compiler.path, *compiler.extra, *flags, maps, "-pthread", "-c"]
    run_compiler([*command, "-o", str(out.absolute()), str(source.absolute())], source.parent)


def link_program(
    objects: Sequence[Path],
    out: Path,
    *,
    compiler: Compiler | None = None,
    static: bool = False,
) -> None:
    """Link objects (`.o`, position independent, or `.c`) to a stripped executable.

    It needs the C library at run time unless `static` (about 800 kB more, and a C library that
    can be linked so). Raises GraphcError: `toolchain`, `file`, as `link_shared`.
    """
    compiler = require_compiler() if compiler is None else compiler
    with temporary_folder(out) as folder:
        flags = ["-static-pie" if static else "-pie", "-s", "-Wl,--as-needed", "-Wl,--gc-sections"]
        _link(compiler, folder, objects, out, flags)


def _resolve(command: str, search: str) -> Compiler | None:
    try:
        words = shlex.split(command)
    except ValueError:
        words = [command]
    # The whole value first: a path may hold blanks.
    for name, extra in [(command, []), (words[0], words[1:])]:
        found = shutil.which(name, path=search)
        if found is not None:
            return Compiler(str(Path(found).absolute()), tuple(extra))
    return None


def _check_exports(exports: Sequence[str]) -> None:
    for name in exports:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise fail("bad-value", f"an exported name has to be a C identifier, got `{name}`")
    if not exports:
        raise fail("bad-value", "a shared library without exported functions has no use")


def _link(
    compiler: Compiler, folder: Path, objects: Sequence[Path], out: Path, flags: Sequence[str]
) -> None:
    sources = [p.absolute() for p in objects]
    # Absolute paths of sources reach the object only through __FILE__ and debug information.
    maps = [f"-ffile-prefix-map={p}=." for p in sorted({str(s.parent) for s in sources})]
    command = [
        *[compiler.path, *compiler.extra, *_COMPILED, *maps, *flags],
        *[*_HARDENED, *_REPRODUCIBLE, "-pthread", "-o", "linked"],
        *[str(s) for s in sources],
    ]
    run_compiler(command, folder)
    linked = folder / "linked"
    if not linked.is_file():
        message = "the C compiler says that all is well, but made no file"
        raise fail("toolchain", message, notes=[Note(f"command: {shlex.join(command)}")])
    move_into_place(linked, out)


def run_compiler(command: Sequence[str], folder: Path) -> str:
    """The standard output of a call of a compiler, made in `folder`. Raises GraphcError `toolchain`
    with its complaint."""
    environment = {**os.environ, "LC_ALL": "C", "TMPDIR": str(folder)}
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise fail("toolchain", f"the C compiler cannot be run: {error}") from error
    if done.returncode != 0:
        complaint = done.stderr.decode("utf-8", "replace").splitlines()
        hints = [Note(_OTHER_PROCESSOR)] if any(_WRONG_FORMAT in x for x in complaint) else []
        raise fail(
            "toolchain",
            f"the C compiler {_ending(done.returncode)}",
            notes=[
                Note(f"command: {shlex.join(command)}"),
                *[Note(line) for line in complaint[:_SHOWN_LINES]],
                *hints,
            ],
        )
    return done.stdout.decode("utf-8", "replace")


def _ending(code: int) -> str:
    """How a process failed, by what `subprocess` makes of its exit code."""
    if code >= 0:
        return f"failed with exit code {code}"
    known = {s.value: s.name for s in signal.Signals}
    return f"was ended by signal {known.get(-code, -code)}"
