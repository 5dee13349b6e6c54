"""The settings of UCIFastReader, which become a reader of text.

file              one or several, in the block of the reader or in one of its blocks
randomize         Auto, None or a number (`order.py`)
minibatchMode     Partial or Full
a block with dim  features: start, dim
a block with labelDim, labelType or labelMappingFile, or sectionType=labels:
                  start, dim (1), labelType (Category, Regression, None), labelDim,
                  labelMappingFile
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from graphc.data.order import Order
from graphc.data.reader import Reader
from graphc.data.reader_options import ReaderOptions
from graphc.data.settings import Settings, file_path, file_paths, integer, one_of
from graphc.data.uci import Block, Columns, FeatureBlock, LabelBlock
from graphc.data.uci_reader import uci
from graphc.support.diagnostics import fail

LABEL_KEYS = ("labelDim", "labelType", "labelMappingFile")
LabelType = Literal["category", "regression", "none"]
LABEL_TYPES: dict[str, LabelType] = {
    "category": "category",
    "regression": "regression",
    "none": "none",
}


@dataclass(frozen=True, slots=True)
class UciSettings:
    """What the settings say. mappings: label mapping files by block; they may be missing yet."""

    files: tuple[Path, ...]
    blocks: tuple[Block, ...]
    mappings: dict[str, Path]
    order: Order


def make_uci(settings: Settings, options: ReaderOptions) -> Reader:
    """The reader; no file is looked at before samples are asked for."""
    found = read_uci_settings(settings, options)
    return uci(
        found.files,
        found.blocks,
        order=found.order,
        mappings=found.mappings,
        dtype=options.dtype,
        keep=options.keep or found.order.randomize == "auto",
        native=options.native,
    )


def read_uci_settings(settings: Settings, options: ReaderOptions) -> UciSettings:
    """The settings, checked. GraphcError `bad-value` with the place of what is wrong."""
    files: dict[tuple[Path, ...], str] = {}
    blocks: list[Block] = []
    mappings: dict[str, Path] = {}
    for name in settings.own_sections():
        section = settings.section(name)
        block = _block(section, name)
        if block is None:
            continue
        blocks.append(block)
        if isinstance(block, LabelBlock) and block.kind == "category":
            mapping = section.find("labelMappingFile")
            if mapping is not None:
                mappings[name] = file_path(mapping)
        files.setdefault(_files(section), name)
    if not blocks:
        raise fail(
            "bad-value",
            f"{settings.path} requires a block with `dim` for features, or with `labelDim` for "
            f"labels; it has {', '.join(settings.own_sections()) or 'none'}",
        )
    if len(files) > 1:
        one, other = list(files.values())[:2]
        message = f"all blocks are required to have the same `file`, `{one}` and `{other}` do not"
        raise fail("bad-value", f"{settings.path}: {message}")
    return UciSettings(next(iter(files)), tuple(blocks), mappings, read_order(settings, options))


def read_order(settings: Settings, options: ReaderOptions) -> Order:
    """`randomize` and `minibatchMode`."""
    is_full = one_of(settings, "minibatchMode", {"partial": False, "full": True}, False)
    order = Order("auto", options.seed, "full" if is_full else "partial")
    found = settings.find("randomize")
    word = "auto" if found is None else found.text().lower()
    if options.in_order or word in ("none", "false"):
        return replace(order, randomize=None)
    if found is None or word in ("auto", "true"):
        return order
    if not word.isdecimal() or int(word) < 1:
        wanted = "Auto, None or a number of samples"
        raise found.fail(f"`randomize` requires {wanted}, got `{found.text()}`")
    return replace(order, randomize=int(word))


def _block(section: Settings, name: str) -> Block | None:
    """The columns of a block; None for one that is none of features and labels."""
    kind = section.own("sectionType")
    said = "" if kind is None else kind.text().lower()
    if said == "labels" or (not said and any(section.own(key) for key in LABEL_KEYS)):
        return _labels(section, name)
    if section.own("dim") is None:
        return None
    return FeatureBlock(name, Columns(integer(section, "start", 0), _own_dim(section)))


def _labels(section: Settings, name: str) -> LabelBlock | None:
    kind: LabelType = one_of(section, "labelType", LABEL_TYPES, "category")
    if kind == "none":
        return None
    columns = Columns(integer(section, "start", 0), _own_dim(section, 1))
    if kind == "regression":
        return LabelBlock(name, columns, 0, kind="regression")
    return LabelBlock(name, columns, integer(section, "labelDim", least=1))


def _own_dim(section: Settings, default: int | None = None) -> int:
    """The number of columns: of this block and not of one around it."""
    found = section.own("dim")
    if found is None:
        if default is None:
            raise section.missing("dim")
        return default
    if (number := found.integer()) < 1:
        raise found.fail(f"`dim` requires at least 1, got {number}")
    return number


def _files(section: Settings) -> tuple[Path, ...]:
    found = section.find("file")
    if found is None:
        raise section.missing("file")
    return tuple(file_paths(found))
