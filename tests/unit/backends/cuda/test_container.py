"""Compiled programs as bytes: what was written is read, and damage is one clear error."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from graphc.backends.cuda.compiler import Image, Resources
from graphc.backends.cuda.container import FORMAT, CudaCode, code_bytes, read_code
from graphc.backends.cuda.kernel import Kernel, Tiles
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.steps import Either, Launch, Number, Part, Place, Turns
from graphc.passes.analysis.loopnest import Size
from graphc.support.diagnostics import GraphcError

N = Size(3, ("N",))
KERNEL = Kernel("map0", ("const float *", "float *"), ("N",), Tiles(((N, 1024),)), "text", 16)
EARLIER = Part(Place("arena", 64, 12), Number(Size(), -1, 0, -1), N, 4)
STEPS = (
    Launch("map0", (Place("buffer", 0, 40), Place("arena", 0, 40)), "`h` = kernel", frozenset({1})),
    Turns(
        0,
        Number(Size(1, ("T",))),
        (
            Launch(
                "map0", (Either(Number(Size(0), 1, 0), EARLIER, Place("scratch", 0, 40)), EARLIER)
            ),
        ),
    ),
)
CODE = CudaCode(
    (Program({"map0": KERNEL}, STEPS, 256), Program({}, ())),
    (
        Image("sm_80", b"\x7fELF\n\0first", {"run_map0": Resources(32, 0, 0, 16)}),
        Image("sm_90", b"\n" * 40),
    ),
)


def test_code_comes_back_as_it_was_but_for_the_text() -> None:
    content = code_bytes(CODE)
    read = read_code(content)
    assert read.images == CODE.images
    first, second = read.programs
    assert second == CODE.programs[1]
    assert first == replace(CODE.programs[0], kernels={"map0": replace(KERNEL, text="")})
    assert code_bytes(read) == content


def with_hash(body: bytes) -> bytes:
    return f"{FORMAT} {hashlib.sha256(body).hexdigest()}\n".encode() + body


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"graphc-cuda-0 0123\n{}\n",
        code_bytes(CODE)[:-1],
        code_bytes(CODE) + b"\0",
        code_bytes(CODE).replace(b"map0", b"map1"),
        with_hash(b""),
        with_hash(b"[" * 100_000),
        with_hash(b"\xff\n"),
        with_hash(b'{"programs": [], "images": []}\nmore'),
        with_hash(b'{"programs": [], "images": [{"arch": "a", "size": -1, "resources": {}}]}\n'),
        with_hash(b'{"programs": [3], "images": []}\n'),
    ],
)
def test_damage_is_one_clear_error(content: bytes) -> None:
    with pytest.raises(GraphcError, match=r"CUDA code is damaged or of another version: .+"):
        read_code(content)
