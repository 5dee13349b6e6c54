"""Writers by the name of their kind: graphc's own and those of the entry points `graphc.writers`.

    [project.entry-points."graphc.writers"]
    WeatherWriter = "my_package.weather:make_writer"

`make_writer(settings, options)` gives a `Writer`; `writerType=WeatherWriter` in a configuration
file then makes it of its block. It checks the settings and writes nothing before `open`.

    TextWriter     outputPath: text in outputPath.NAME
    NumpyWriter    file: all in one `.npz`, or `.npy` in file.NAME.npy
    ParquetWriter  file
    BinaryWriter   wfile, and a block for each output that is labels: sectionType=labels, labelDim,
                   labelMappingFile
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from graphc.data.array_writer import NpyWriter
from graphc.data.arrow import ParquetWriter
from graphc.data.binary_writer import BinaryWriter
from graphc.data.plugged import KindTable
from graphc.data.settings import PythonSettings, Settings, file_path, integer, one_of, required
from graphc.data.text_writer import TextWriter
from graphc.data.writer import Writer, WriterOptions
from graphc.support.arguments import instance, kind_of, text
from graphc.support.diagnostics import fail

WriterFactory = Callable[[Settings, WriterOptions], Writer]
SECTION_TYPES = {"data": False, "labels": True, "categorylabels": True}


def _make_text(settings: Settings, options: WriterOptions) -> Writer:
    return TextWriter(file_path(required(settings, "outputPath")))


def _make_numpy(settings: Settings, options: WriterOptions) -> Writer:
    return NpyWriter(file_path(required(settings, "file")), options.dtype)


def _make_parquet(settings: Settings, options: WriterOptions) -> Writer:
    return ParquetWriter(file_path(required(settings, "file")), options.dtype)


def _make_binary(settings: Settings, options: WriterOptions) -> Writer:
    labels: dict[str, int] = {}
    mappings: dict[str, tuple[str, ...] | Path] = {}
    for key in ("wsize", "wrecords", "windowSize"):
        settings.find(key)  # sizes that the toolkit took before it wrote; here files grow
    for name in settings.own_sections():
        section = settings.section(name)
        if not one_of(section, "sectionType", SECTION_TYPES, False):
            continue
        labels[name] = integer(section, "labelDim", least=1)
        if (mapping := section.find("labelMappingFile")) is not None:
            mappings[name] = file_path(mapping)
    return BinaryWriter(file_path(required(settings, "wfile")), options.dtype, labels, mappings)


WRITERS: KindTable[WriterFactory] = KindTable(
    "writer",
    "graphc.writers",
    {
        "TextWriter": _make_text,
        "BinaryWriter": _make_binary,
        "NumpyWriter": _make_numpy,
        "ParquetWriter": _make_parquet,
    },
    later=("HTKMLFWriter", "LUSequenceWriter"),
)


def make(
    kind: str, settings: Settings | Mapping[str, object], options: WriterOptions | None = None
) -> Writer:
    """The writer of a kind by its settings: a dictionary, or a block of a configuration.

    GraphcError as `KindTable` for the kind, those of the kind's own for the settings, `plug-in` if
    what another distribution makes is no writer.
    """
    factory = WRITERS[text(kind, "the kind of a writer")]
    if isinstance(settings, Mapping):
        settings = PythonSettings(settings, f"the writer {kind}")
    chosen = WriterOptions() if options is None else options
    made = factory(settings, instance(chosen, WriterOptions, "options", "WriterOptions"))
    if not isinstance(made, Writer):
        where = WRITERS.origin_of(kind)
        wanted = "requires an object with open(outputs)"
        raise fail("plug-in", f"the writer `{kind}` of {where} {wanted}, got {kind_of(made)}")
    return made
