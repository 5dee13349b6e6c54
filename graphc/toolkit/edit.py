"""The action `edit`: a file of commands in the model editing language, `docs/mel.md`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from graphc import api
from graphc.config.keys import path
from graphc.config.lookup import Scope
from graphc.config.records import VARIABLE
from graphc.support.files import read_text
from graphc.toolkit.action import Action, Run, Session
from graphc.toolkit.networks import NDL_MACROS

EDIT_PATH = path("editPath", "the file of commands")


def plan_edit(scope: Scope, session: Session) -> Run:
    """Check the block of `edit`, and the whole text of its file."""
    file, macros = EDIT_PATH.of(scope), NDL_MACROS.of(scope)
    value = scope.require(EDIT_PATH.name)
    with value.blamed():
        defines = _variables(scope, [file, *macros])
        _edited(file, macros, defines, check_only=True)
    session.has_edits = True

    def run() -> None:
        for written in _edited(file, macros, defines, check_only=False):
            session.report.line(f"written to {written}")

    return run


def _edited(
    file: Path, macros: tuple[Path, ...], defines: Mapping[str, object], *, check_only: bool
) -> list[Path]:
    return list(api.edit_file(file, macros=macros, defines=defines, check_only=check_only).files)


def _variables(scope: Scope, files: list[Path]) -> dict[str, object]:
    """The values of the `$name$` in these files, as they are found from the command's block."""
    found: dict[str, object] = {}
    for file in files:
        for match in VARIABLE.finditer(read_text(file)):
            value = scope.find(match[1])
            if value is not None:  # the front end says which one has none, at its place
                found[match[1]] = value.text()
    return found


EDIT = Action(("edit",), "change models by a file of commands", (EDIT_PATH, NDL_MACROS), plan_edit)
