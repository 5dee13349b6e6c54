"""Compiled kernels with the programs that launch them, as bytes: what is kept and loaded.

    graphc-cuda-1 HASH          SHA-256 of the rest, in hexadecimal
    {"programs": …, "images": …}     one line of JSON
    the images' bytes, one after another

The text of kernels is left out. Nothing in it is executed before the hash was found right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from graphc.backends.cuda.compiler import Image, Resources
from graphc.backends.cuda.program import Program
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.records import read_record, record_of

FORMAT = "graphc-cuda-1"


@dataclass(frozen=True)
class CudaCode:
    """What a GPU needs to run some functions.

    programs  one for each function
    images    of the kernels of all, for one architecture each
    """

    programs: tuple[Program, ...]
    images: tuple[Image, ...]


@dataclass(frozen=True, slots=True)
class _ImageEntry:
    arch: str
    size: int
    resources: Mapping[str, Resources]


@dataclass(frozen=True, slots=True)
class _Header:
    programs: tuple[Program, ...]
    images: tuple[_ImageEntry, ...]


def code_bytes(code: CudaCode) -> bytes:
    """The same code gives the same bytes."""
    entries = tuple(_ImageEntry(i.arch, len(i.code), i.resources) for i in code.images)
    header = _Header(tuple(map(_without_text, code.programs)), entries)
    line = json.dumps(record_of(header), separators=(",", ":")).encode("ascii")
    body = b"\n".join([line, b"".join(i.code for i in code.images)])
    return f"{FORMAT} {hashlib.sha256(body).hexdigest()}\n".encode("ascii") + body


def read_code(content: bytes) -> CudaCode:
    """The inverse of `code_bytes`, but for the text of kernels. GraphcError `file` for damage."""
    head, _, body = content.partition(b"\n")
    name, _, stated = head.partition(b" ")
    if name != FORMAT.encode("ascii"):
        shown = name[:20].decode("ascii", "replace")
        raise _damaged(f"it begins with {shown!r} and not with {FORMAT}")
    if stated != hashlib.sha256(body).hexdigest().encode("ascii"):
        raise _damaged("it does not have the hash that it states")
    line, _, images = body.partition(b"\n")
    try:
        header = read_record(_Header, json.loads(line))
    except (ValueError, RecursionError) as problem:
        raise _damaged(str(problem)) from None
    return CudaCode(header.programs, _images(header.images, images))


def _images(entries: tuple[_ImageEntry, ...], content: bytes) -> tuple[Image, ...]:
    found: list[Image] = []
    at = 0
    for entry in entries:
        code = content[at : at + entry.size]
        found.append(Image(entry.arch, code, entry.resources))
        at += entry.size
    if at != len(content) or any(entry.size < 0 for entry in entries):
        raise _damaged(f"its images need {at} bytes, it has {len(content)}")
    return tuple(found)


def _without_text(program: Program) -> Program:
    kernels = {name: replace(kernel, text="") for name, kernel in program.kernels.items()}
    return replace(program, kernels=kernels)


def _damaged(problem: str) -> GraphcError:
    return fail("file", f"compiled CUDA code is damaged or of another version: {problem}")
