"""Finds front ends by entry point (group `graphc.frontends`), never by name.

An entry's key is a file suffix without its dot (its module has `load(builder, text, file=…,
macros=…, defines=…)`) or `network`, the Python builder, whose module has the class `Network`.
Languages that edit networks are those of the group `graphc.editors`, by suffix too; their modules
have `edit(text, file=…, workshop=…, macros=…, defines=…)`.

Readers of files that hold programs are those of the group `graphc.programs`, by suffix; their
modules have `load_program(path, bounds=…, multiples=…, sizes=…, values=…)`.

Readers of binary model files are entries of the group `graphc.model_formats`; which of them reads a
file, the file's first bytes say, whatever it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from graphc.support.diagnostics import fail, suggestion
from graphc.support.plugins import load, plugins

if TYPE_CHECKING:
    from graphc.builder import Edited, GraphBuilder, Workshop
    from graphc.model.program import Program

GROUP = "graphc.frontends"
EDITORS = "graphc.editors"
FORMATS = "graphc.model_formats"
PROGRAMS = "graphc.programs"
NETWORK = "network"


class Frontend(Protocol):
    """What a module that reads a language offers."""

    def load(
        self,
        builder: GraphBuilder,
        text: str,
        *,
        file: str,
        macros: Sequence[tuple[str, str]] = (),
        defines: Mapping[str, object] | None = None,
    ) -> None: ...


class Writer(Protocol):
    """What a front end offers besides whose language networks can be written in."""

    def write(self, builder: GraphBuilder) -> str: ...

    def save(self, builder: GraphBuilder, path: Path, *, values: bool = False) -> None: ...


class ModelFormat(Protocol):
    """What a module that reads a binary model format offers: the first bytes of its files, and a
    reader that builds the network with its values, or raises GraphcError."""

    @property
    def MAGIC(self) -> bytes: ...

    def load_bytes(self, builder: GraphBuilder, data: bytes, *, file: str) -> None: ...


class ProgramFormat(Protocol):
    """What a module that reads files of programs offers.

    By the names that open sizes and inputs have in the file:

    bounds     the largest sizes without compiling again
    multiples  numbers that every size is a multiple of
    sizes      those of every call, or the name of the dim that is equal in every call
    values     inputs that every call has
    """

    def load_program(
        self,
        path: Path,
        *,
        bounds: Mapping[str, int],
        multiples: Mapping[str, int],
        sizes: Mapping[str, int | str],
        values: Mapping[str, object],
    ) -> Program: ...


class SimpleKey(Protocol):
    """A key of the toolkit: the option of `simple_network` or `load_dbn` that it sets, if any, and
    what its value is: integers, words, word, number, integer, flag."""

    @property
    def option(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def required(self) -> bool: ...


class SimpleNetworks(Protocol):
    """What the Python builder offers of predefined networks."""

    @property
    def SIMPLE_KEYS(self) -> Mapping[str, SimpleKey]: ...

    @property
    def DBN_KEYS(self) -> Mapping[str, SimpleKey]: ...

    def simple_network(self, **options: object) -> GraphBuilder: ...

    def load_dbn(self, path: Path, **options: object) -> GraphBuilder: ...


class EditingFrontend(Protocol):
    """What a module that edits networks offers."""

    def edit(
        self,
        text: str,
        *,
        file: str,
        workshop: Workshop,
        macros: Sequence[tuple[str, str]] = (),
        defines: Mapping[str, object] | None = None,
    ) -> Edited: ...


def _entry(key: str, group: str = GROUP) -> ModuleType | None:
    for entry in plugins(group):
        if entry.name == key:
            return cast(ModuleType, load(entry))
    return None


def languages() -> list[str]:
    """The file suffixes, without their dots, that some installed front end reads."""
    return sorted({e.name for e in plugins(GROUP)} - {NETWORK})


def frontend_for(suffix: str, others: Sequence[str] = ()) -> Frontend:
    """The front end for files ending in `.suffix`; `others` are suffixes that the caller reads."""
    module = _entry(suffix.lower()) if suffix != NETWORK else None
    if module is None:
        suffixes = [*languages(), *others]
        known = ", ".join(f".{s}" for s in suffixes) or "none"
        got = f"`.{suffix}`" if suffix else "none"
        near = suggestion(suffix, suffixes)
        raise fail("file", f"a network requires one of the suffixes {known}, got {got}{near}")
    return cast(Frontend, module)


def model_format_of(head: bytes) -> ModelFormat | None:
    """The reader of binary model files that begin like this, if there is one."""
    for entry in plugins(FORMATS):
        module = cast(ModelFormat, load(entry))
        if head.startswith(module.MAGIC):
            return module
    return None


def program_format_for(path: Path) -> ProgramFormat | None:
    """The reader of programs in files that end like this one, if there is one."""
    return cast("ProgramFormat | None", _entry(path.suffix.removeprefix(".").lower(), PROGRAMS))


def writer_for(suffix: str) -> Writer:
    """The front end that writes files ending in `.suffix`."""
    module = _entry(suffix)
    if module is None or not hasattr(module, "write"):
        raise fail("backend", f"graphc is not installed whole: nothing here writes .{suffix}")
    return cast(Writer, module)


def simple_networks() -> SimpleNetworks:
    """The toolkit's predefined networks, and its keys for them."""
    return cast("SimpleNetworks", _python_builder())


def editing_frontend(language: str) -> EditingFrontend:
    """The front end that edits networks by texts of this language, which files have as suffix."""
    module = _entry(language.lower(), EDITORS)
    if module is None:
        known = sorted({e.name for e in plugins(EDITORS)})
        names = ", ".join(f".{name}" for name in known) or "none"
        got = f"`.{language}`" if language else "none"
        message = f"edits require one of the suffixes {names}, got {got}"
        raise fail("file", message + suggestion(language, known))
    return cast(EditingFrontend, module)


def network_class() -> type[GraphBuilder]:
    """The Python builder's `Network`."""
    return cast("type[GraphBuilder]", _python_builder().Network)


def _python_builder() -> ModuleType:
    module = _entry(NETWORK)
    if module is None:
        raise fail("backend", "graphc is not installed whole: the Python builder is missing")
    return module
