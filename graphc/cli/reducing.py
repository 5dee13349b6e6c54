"""`graphc opt --reduce CMD`: runs the command on ever smaller modules."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from pathlib import Path

from graphc.cli.terminal import Terminal
from graphc.driver.reduce import reduce_module
from graphc.ir.core import Module
from graphc.ir.printer import print_module
from graphc.support.diagnostics import fail


def reduced(module: Module, command: str, terminal: Terminal) -> Module:
    """The smallest module found for which `command FILE` ends with exit code 0.

    What the command prints is not shown. GraphcError if it cannot be started, or does not end so
    for the module itself.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise fail("bad-option", f"--reduce requires a command, got {command!r}: {error}") from None
    if not words:
        raise fail("bad-option", "--reduce requires a command, got an empty text")
    with tempfile.TemporaryDirectory(prefix="graphc-reduce-") as folder:
        path = Path(folder) / "candidate.gir"

        def code(text: str) -> int:
            path.write_text(text, encoding="utf-8")
            try:
                done = subprocess.run(
                    [*words, str(path)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                )
            except OSError as error:
                raise fail(
                    "toolchain", f"--reduce cannot start `{words[0]}`: {error.strerror}"
                ) from error
            return done.returncode

        found = code(print_module(module))
        if found != 0:
            raise fail(
                "bad-option",
                f"--reduce requires a command with exit code 0 for the whole module, got {found}",
            )
        return reduce_module(module, lambda text: code(text) == 0, terminal.remark)
