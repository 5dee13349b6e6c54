"""The action `plot`: a network as a drawing.

`outputDotFile` is text for Graphviz. `outputFile` is a picture: SVG is drawn by graphc itself, or
by Graphviz where it is installed; other kinds, by their suffix, take Graphviz. `RenderCmd` names a
program to run instead, which a configuration may only do where the command line allows it; it never
goes through a shell.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from graphc.config.keys import optional, path, text
from graphc.config.lookup import Scope
from graphc.model.drawing import Drawing, dot_text
from graphc.model.picture import network_drawing
from graphc.model.svg import svg
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.files import move_into_place, temporary_folder, write_atomically
from graphc.toolkit.action import Action, Run, Session
from graphc.toolkit.networks import MODEL_PATH, planned_model

DOT_FILE = optional(path("outputDotFile", "the drawing as text for Graphviz"))
PICTURE = optional(path("outputFile", "the drawing as a picture"))
RENDER = optional(text("RenderCmd", "a program that makes <OUT> of <IN>; needs --allow-exec"))

RENDER_SECONDS = 600


def plan_plot(scope: Scope, session: Session) -> Run:
    """Check the block of `plot`."""
    model = planned_model(scope, session)
    dot_file, picture, command = DOT_FILE.of(scope), PICTURE.of(scope), RENDER.of(scope)
    if dot_file is None and picture is None:
        raise scope.missing(DOT_FILE.name)
    render = _renderer(scope, session, command, picture)

    def run() -> None:
        loaded = model.load()
        drawing = network_drawing(loaded.graph)
        if dot_file is not None:
            dot_file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(dot_file, dot_text(drawing).encode())
            session.report.line(f"written to {dot_file}")
        if picture is not None:
            picture.parent.mkdir(parents=True, exist_ok=True)
            render(drawing, picture)
            session.report.line(f"written to {picture}")

    for file in (dot_file, picture):
        if file is not None:
            session.will_write(file)
    return run


def _renderer(
    scope: Scope, session: Session, command: str | None, picture: Path | None
) -> Callable[[Drawing, Path], None]:
    """What makes the picture. GraphcError for a program that is not allowed or not there."""
    if command is not None and picture is not None:
        value = scope.require(RENDER.name)
        if not session.allow_exec:
            raise value.fail("`RenderCmd` runs a program: allow that with --allow-exec")
        with value.blamed():
            arguments = _arguments(command)
        return lambda drawing, out: _rendered(drawing, out, arguments)
    if picture is None or picture.suffix.lower() == ".svg":
        return _drawn
    value = scope.require(PICTURE.name)
    dot = shutil.which("dot")
    if dot is None:
        message = f"a picture {picture.suffix or 'without a suffix'} requires Graphviz"
        raise value.fail(f"{message} (`dot`), which is not installed: name an .svg", "toolchain")
    kind = picture.suffix[1:].lower()
    if not (kind.isascii() and kind.isalnum()):
        raise value.fail(f"a suffix such as .svg or .png is required, got {picture.suffix}")
    return lambda drawing, out: _rendered(drawing, out, [dot, f"-T{kind}", "<IN>", "-o<OUT>"])


def _drawn(drawing: Drawing, picture: Path) -> None:
    write_atomically(picture, svg(drawing).encode())


def _arguments(command: str) -> list[str]:
    try:
        arguments = shlex.split(command)
    except ValueError as error:
        raise fail("parse", f"`RenderCmd` requires words as a shell takes them: {error}") from None
    if not arguments or shutil.which(arguments[0]) is None:
        got = arguments[0] if arguments else "nothing"
        raise fail("toolchain", f"`RenderCmd` requires a program, there is no `{got}`")
    return arguments


def _rendered(drawing: Drawing, picture: Path, arguments: list[str]) -> None:
    """Run a program on the drawing; <IN> and <OUT> in its arguments are files."""
    with temporary_folder(picture) as folder:
        given, made = folder / "drawing.dot", folder / f"picture{picture.suffix}"
        given.write_bytes(dot_text(drawing).encode())
        words = [a.replace("<IN>", str(given)).replace("<OUT>", str(made)) for a in arguments]
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, capture_output=True, timeout=RENDER_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _failed(arguments[0], str(error)) from error
        if done.returncode or not made.is_file():
            said = done.stderr.decode(errors="replace").strip()[:400]
            raise _failed(arguments[0], said or f"exit code {done.returncode}, no <OUT>")
        move_into_place(made, picture)


def _failed(program: str, why: str) -> GraphcError:
    return fail("toolchain", f"{program} made no picture: {why}")


PLOT = Action(
    ("plot",),
    "draw a network",
    (MODEL_PATH, DOT_FILE, PICTURE, RENDER),
    plan_plot,
)
