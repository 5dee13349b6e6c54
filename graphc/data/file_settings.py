"""The settings of readers of files that say themselves what they hold.

    BinaryReader   file (one or several)
    NpzReader      file; a block for each input may name the array and say what it is:
                   column, labelDim
    ArrowReader    file; a block for each input: column (one or several), labelDim,
                   labelMappingFile

All have randomize and minibatchMode (`order.py`).
"""

from __future__ import annotations

from graphc.data.array_reader import npz
from graphc.data.arrow import arrow
from graphc.data.binary_reader import binary
from graphc.data.deferred import Deferred
from graphc.data.labels import read_label_mapping
from graphc.data.reader import Reader
from graphc.data.reader_options import ReaderOptions
from graphc.data.settings import Settings, file_path, file_paths, integer, required
from graphc.data.uci_settings import read_order


def make_binary(settings: Settings, options: ReaderOptions) -> Reader:
    files = file_paths(required(settings, "file"))
    settings.find("windowSize")  # how much the toolkit mapped at once
    order = read_order(settings, options)
    return Deferred(lambda: binary(files, order=order, dtype=options.dtype))


def make_npz(settings: Settings, options: ReaderOptions) -> Reader:
    file = file_path(required(settings, "file"))
    order = read_order(settings, options)
    columns, classes = _columns(settings)
    named = {name: found[0] for name, found in columns.items()} or None
    return Deferred(lambda: npz(file, named, classes=classes, order=order, dtype=options.dtype))


def make_arrow(settings: Settings, options: ReaderOptions) -> Reader:
    file = file_path(required(settings, "file"))
    order = read_order(settings, options)
    columns, classes = _columns(settings)
    if not columns:
        raise settings.missing("a block for each input")
    found = {n: settings.section(n).find("labelMappingFile") for n in settings.own_sections()}
    files = {name: file_path(each) for name, each in found.items() if each is not None}

    def open() -> Reader:
        return arrow(
            file,
            columns,
            classes=classes,
            mappings={name: read_label_mapping(path) for name, path in files.items()},
            order=order,
            dtype=options.dtype,
            keep=options.keep or order.randomize == "auto",
        )

    return Deferred(open)


def _columns(settings: Settings) -> tuple[dict[str, list[str]], dict[str, int]]:
    """The columns of each input, by default one of its name; the classes of labels."""
    columns: dict[str, list[str]] = {}
    classes: dict[str, int] = {}
    for name in settings.own_sections():
        section = settings.section(name)
        column = section.own("column")
        columns[name] = [name] if column is None else column.texts()
        if section.own("labelDim") is not None:
            classes[name] = integer(section, "labelDim", least=1)
    return columns, classes
