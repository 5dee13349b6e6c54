"""Readers by the name of their kind: graphc's own and those of the entry points `graphc.readers`.

    [project.entry-points."graphc.readers"]
    WeatherReader = "my_package.weather:make_reader"

`make_reader(settings, options)` gives a `Reader`; `readerType=WeatherReader` in a configuration
file then makes it of its block. It checks the settings, but looks at no data before they are asked
for: a configuration is checked as a whole before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphc.data.file_settings import make_arrow, make_binary, make_npz
from graphc.data.plugged import KindTable
from graphc.data.reader import Reader
from graphc.data.reader_options import ReaderOptions
from graphc.data.settings import PythonSettings, Settings
from graphc.data.uci_settings import make_uci
from graphc.support.arguments import instance, kind_of, text
from graphc.support.diagnostics import fail

ReaderFactory = Callable[[Settings, ReaderOptions], Reader]

READERS: KindTable[ReaderFactory] = KindTable(
    "reader",
    "graphc.readers",
    {
        "UCIFastReader": make_uci,
        "BinaryReader": make_binary,
        "NpzReader": make_npz,
        "ArrowReader": make_arrow,
    },
    later=("HTKMLFReader", "LMSequenceReader", "SequenceReader", "LUSequenceReader"),
)


def make(
    kind: str, settings: Settings | Mapping[str, object], options: ReaderOptions | None = None
) -> Reader:
    """The reader of a kind by its settings: a dictionary, or a block of a configuration.

    GraphcError as `KindTable` for the kind, those of the kind's own for the settings, `plug-in` if
    what another distribution makes is no reader.
    """
    factory = READERS[text(kind, "the kind of a reader")]
    if isinstance(settings, Mapping):
        settings = PythonSettings(settings, f"the reader {kind}")
    chosen = ReaderOptions() if options is None else options
    made = factory(settings, instance(chosen, ReaderOptions, "options", "ReaderOptions"))
    if not isinstance(made, Reader):
        where = READERS.origin_of(kind)
        wanted = "requires an object with schema, samples and blocks(request)"
        raise fail("plug-in", f"the reader `{kind}` of {where} {wanted}, got {kind_of(made)}")
    return made
