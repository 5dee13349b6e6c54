"""Small networks written by hand in C, with the interface that the LLVM backend emits."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from graphc.artifacts.header import header_text
from graphc.artifacts.interface import ports, run_prototype, string_literal
from graphc.artifacts.link import require_compiler
from graphc.artifacts.program import build_program, program_sources
from graphc.runtime.signature import Argument, Dimension, Result, Shape, Signature, info_json

BOUND = 4

Tool = Callable[[str], str]
"""Finds a program of the system by its name, or skips the test."""


@dataclass(frozen=True)
class Network:
    """A signature and the C statements that compute it."""

    signature: Signature
    body: str
    isa: str = "x86-64"

    @property
    def info(self) -> str:
        return info_json(self.signature, version="0.1.0", isa=self.isa, content_hash="ab" * 32)

    @property
    def source(self) -> str:
        name = self.signature.name
        pointers = [p.identifier for p in ports(self.signature)] + ["arena"]
        bound = self.signature.dims[0].bound if self.signature.dims else 1 << 60
        return "\n".join(
            [
                header_text(self.signature, info=self.info),
                f"{run_prototype(self.signature)} {{",
                "  int64_t i;",
                f"  if (n < 0 || n > {bound}) return 1;",
                *[f"  if ({p} == 0) return 2;" for p in pointers],
                "  if ((uintptr_t)arena % 64 != 0) return 3;",
                "  for (i = 0; i < 64; i++) ((unsigned char *)arena)[i] = 255;",
                self.body,
                "  return 0;",
                "}",
                f"int64_t {name}_arena_bytes(void) {{ return {self.signature.arena_bytes}; }}",
                f'const char *{name}_status(int32_t code) {{ return code ? "not done" : "done"; }}',
                f"const char *{name}_info(void) {{ return {string_literal(self.info)}; }}",
                "int fake_helper(int x); int fake_helper(int x) { return x; }",
            ]
        )


def network(
    name: str,
    inputs: Sequence[tuple[str, str, Shape]],
    outputs: Sequence[tuple[str, str, Shape]],
    body: str,
    *,
    bound: int = BOUND,
    isa: str = "x86-64",
) -> Network:
    signature = Signature(
        name=name,
        dims=(Dimension("N", bound),),
        arguments=tuple(Argument(n, d, s, "input") for n, d, s in inputs),
        results=tuple(Result(n, d, s) for n, d, s in outputs),
        arena_bytes=64,
    )
    return Network(signature, body, isa)


def affine(name: str = "fake", dtype: str = "f32", columns: int = 3, bound: int = BOUND) -> Network:
    """z = 2 x + 1, number by number."""
    return network(
        name,
        [("features", dtype, ("N", columns))],
        [("z", dtype, ("N", columns))],
        f"for (i = 0; i < n * {columns}; i++) out_z[i] = 2 * in_features[i] + 1;",
        bound=bound,
    )


@dataclass
class Workshop:
    """Compiles networks once for the whole test run."""

    folder: Path
    made: dict[object, Path] = field(default_factory=dict[object, Path])

    def compile_object(self, fake: Network, *flags: str) -> Path:
        return self._once((fake, flags), lambda place: self._compile(fake, flags, place))

    def program(self, fake: Network) -> Path:
        def build(place: Path) -> Path:
            out = place / fake.signature.name
            build_program(self.compile_object(fake), out, fake.signature, info=fake.info)
            return out

        return self._once((fake, "program"), build)

    def sanitized_program(self, fake: Network) -> Path:
        """The same program with the address and undefined-behaviour sanitizers built in."""
        return self._once((fake, "sanitized"), lambda place: self._sanitize(fake, place))

    def _once(self, key: object, make: Callable[[Path], Path]) -> Path:
        if key not in self.made:
            place = self.folder / str(len(self.made))
            place.mkdir()
            self.made[key] = place  # nested makes get a folder of their own
            self.made[key] = make(place)
        return self.made[key]

    def _compile(self, fake: Network, flags: Sequence[str], place: Path) -> Path:
        (place / "fake.c").write_text(fake.source, encoding="utf-8")
        command = [require_compiler().path, "-std=c99", "-O2", "-fPIC", *flags]
        subprocess.run([*command, "-c", "fake.c", "-o", "fake.o"], cwd=place, check=True)
        return place / "fake.o"

    def _sanitize(self, fake: Network, place: Path) -> Path:
        for name, text in program_sources(fake.signature, info=fake.info).items():
            (place / name).write_text(text, encoding="utf-8")
        (place / "fake.c").write_text(fake.source, encoding="utf-8")
        flags = ["-std=c99", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover"]
        units = sorted(p.name for p in place.glob("*.c"))
        command = [require_compiler().path, *flags, *units, "-o", "sanitized"]
        done = subprocess.run(command, cwd=place, capture_output=True, check=False)
        if done.returncode != 0 and b"san" in done.stderr:
            pytest.skip("the C compiler has no sanitizers")
        assert done.returncode == 0, done.stderr.decode()
        return place / "sanitized"
