"""From files and texts to networks and programs: load, loads, load_program, edit, edits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphc.builder import Edited, GraphBuilder, Workshop
from graphc.frontend import (
    EditingFrontend,
    editing_frontend,
    frontend_for,
    languages,
    model_format_of,
    network_class,
    program_format_for,
)
from graphc.model.container import MAX_FILE_BYTES, looks_like_container
from graphc.model.model import Model, load_model
from graphc.model.program import Program, read_program
from graphc.support import arguments
from graphc.support.diagnostics import fail, warn
from graphc.support.files import open_regular_file, read_regular_file

if TYPE_CHECKING:
    pass

MODEL_SUFFIX = "safetensors"
MAX_SOURCE_BYTES = 16 * 2**20
HEAD_BYTES = 64
"""Of a file, to see what it is."""


def load(
    path: str | Path,
    *,
    macros: str | Path | Sequence[str | Path] = (),
    defines: Mapping[str, object] | None = None,
    seed: int = 0,
) -> GraphBuilder:
    """The network in a file: a language by its suffix (.ndl), or a model file, by its content: of
    graphc (.safetensors), of the toolkit (versions 1 and 2), or a DBN file.

    macros   files of macros, read before it
    defines  values of variables: they replace `$name$` and the variable `name` of the text
    seed     of the initial values

    Raises GraphcError with every mistake found, each with its place in the text. What may not be
    meant is a GraphcWarning, which Python's `warnings` can show, silence or make an error.
    """
    path = arguments.path(path, "load")
    files = arguments.paths(macros, "macros")
    suffix = path.suffix.removeprefix(".").lower()
    model = _load_model_file(path, suffix, seed)
    if model is not None:
        if files or defines:
            raise fail("bad-option", "a model file takes no macros and no defines")
        return model
    if program_format_for(path) is not None:
        message = f"{path} holds a program, a network is required: gc.load_program reads programs"
        raise fail("bad-model-file", message)
    frontend_for(suffix, [MODEL_SUFFIX])
    sources = [(str(m), _read_text(m)) for m in files]
    text = _read_text(path)
    return _read(text, str(path), sources, defines, suffix, path.parent, seed)


def load_program(
    path: str | Path,
    *,
    bounds: Mapping[str, int] | None = None,
    sizes: Mapping[str, int | str] | None = None,
    multiples: Mapping[str, int] | None = None,
    values: Mapping[str, object] | None = None,
) -> Program:
    """The program in a file: what `Program.save` wrote, or an ONNX model (.onnx, docs/onnx.md).

    Of an ONNX model the sizes that the file leaves open are decided by each call, unless they are
    given here, by the names that they have in the file:

    bounds     the largest sizes that need no new compilation
    sizes      sizes that are the same in every call; a name where one is always that of another dim
    multiples  numbers of which a size is a multiple in every call, as images' are that a network
               halves and doubles
    values     inputs that are the same in every call, arrays by name

    Raises GraphcError for any other file, and for what cannot be read of this one.
    """
    path = arguments.path(path, "load_program")
    reader = program_format_for(path)
    if reader is not None:
        return reader.load_program(
            path,
            bounds=bounds or {},
            multiples=multiples or {},
            sizes=sizes or {},
            values=values or {},
        )
    options = {"bounds": bounds, "sizes": sizes, "multiples": multiples, "values": values}
    for name, given in options.items():
        if given:
            raise fail("bad-option", f"{path} says its own sizes and values: it takes no {name}=")
    return read_program(path)


def _load_model_file(path: Path, suffix: str, seed: int) -> GraphBuilder | None:
    """The network in a model file of any kind and name, None for a file of another kind."""
    with open_regular_file(path, MAX_FILE_BYTES) as (stream, _):
        head = stream.read(HEAD_BYTES)
    if suffix == MODEL_SUFFIX or looks_like_container(head):
        return network_class()(load_model(path))
    if suffix in languages() and b"\0" not in head:
        return None  # no need to load readers of binary files
    model_format = model_format_of(head)
    if model_format is None:
        return None
    builder = network_class()(Model(folder=path.parent, seed=seed))
    data = read_regular_file(path, MAX_FILE_BYTES)
    model_format.load_bytes(builder, data, file=str(path))
    return builder


def loads(
    text: str,
    *,
    macros: str | Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    language: str = "ndl",
    seed: int = 0,
) -> GraphBuilder:
    """The network in a text; `macros` are texts too. As `load` otherwise."""
    text, language = arguments.text(text, "loads"), arguments.text(language, "language")
    texts = arguments.texts(macros, "macros")
    sources = [(f"<macros {i}>", m) for i, m in enumerate(texts, start=1)]
    return _read(text, "<text>", sources, defines, language, Path(), seed)


def edit(
    path: str | Path,
    *,
    macros: str | Path | Sequence[str | Path] = (),
    defines: Mapping[str, object] | None = None,
    models: Mapping[str, GraphBuilder] | None = None,
    check_only: bool = False,
) -> dict[str, GraphBuilder]:
    """Edit networks by the commands in a file, a language by its suffix (.mel, docs/mel.md).

    macros      files of NDL, read before it for their macros
    defines     values of variables: they replace `$name$`, also in the macros
    models      networks that are there from the start, by the names that they have in the file; the
                first is the default model. They are changed themselves
    check_only  read the texts and report every mistake that shows without the model files; gives {}

    Gives the networks that there are at the end, by name. Model files are read and written by the
    file's own commands, paths from the current folder on. After any error (GraphcError) no file is
    written and `models` are what they were.
    """
    return edit_file(
        path, macros=macros, defines=defines, models=models, check_only=check_only
    ).networks


def edit_file(
    path: str | Path,
    *,
    macros: str | Path | Sequence[str | Path] = (),
    defines: Mapping[str, object] | None = None,
    models: Mapping[str, GraphBuilder] | None = None,
    check_only: bool = False,
) -> Edited:
    """As `edit`, with the files written too."""
    path = arguments.path(path, "edit")
    files = arguments.paths(macros, "macros")
    frontend = editing_frontend(path.suffix.removeprefix("."))
    sources = [(str(m), _read_text(m)) for m in files]
    text = _read_text(path)
    return _edit(frontend, text, str(path), sources, defines, models, check_only)


def edits(
    text: str,
    *,
    macros: str | Sequence[str] = (),
    defines: Mapping[str, object] | None = None,
    models: Mapping[str, GraphBuilder] | None = None,
    check_only: bool = False,
    language: str = "mel",
) -> dict[str, GraphBuilder]:
    """Edit networks by the commands in a text; `macros` are texts too. As `edit` otherwise."""
    text, language = arguments.text(text, "edits"), arguments.text(language, "language")
    texts = arguments.texts(macros, "macros")
    sources = [(f"<macros {i}>", m) for i, m in enumerate(texts, start=1)]
    frontend = editing_frontend(language)
    return _edit(frontend, text, "<text>", sources, defines, models, check_only).networks


def _edit(
    frontend: EditingFrontend,
    text: str,
    file: str,
    macros: Sequence[tuple[str, str]],
    defines: Mapping[str, object] | None,
    models: Mapping[str, GraphBuilder] | None,
    check_only: bool,
) -> Edited:
    given = dict(arguments.table(models or {}, "models", "networks"))
    workshop = Workshop(
        new=network_class(),
        open=load,
        models={
            name: arguments.instance(net, GraphBuilder, f"the model {name}", "a network")
            for name, net in given.items()
        },
        only_check=arguments.truth(check_only, "check_only"),
    )
    if defines is not None:
        defines = arguments.table(defines, "defines", "values")
    found = frontend.edit(text, file=file, workshop=workshop, macros=macros, defines=defines)
    warn(found.warnings)
    return found


def _read(
    text: str,
    file: str,
    macros: Sequence[tuple[str, str]],
    defines: Mapping[str, object] | None,
    language: str,
    folder: Path,
    seed: int,
) -> GraphBuilder:
    if defines is not None:
        defines = arguments.table(defines, "defines", "values")
    frontend = frontend_for(language)
    builder = network_class()(Model(folder=folder, seed=seed))
    frontend.load(builder, text, file=file, macros=macros, defines=defines)
    builder.sink.raise_if_errors()
    warn(builder.sink.diagnostics)
    return builder


def _read_text(path: Path) -> str:
    data = read_regular_file(path, MAX_SOURCE_BYTES)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail(
            "file", f"{path} requires UTF-8 text: {error.reason} at byte {error.start}"
        ) from None
