"""The C header: names, text that cannot break out, what C and C++ compilers say to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from graphc.artifacts.header import header_text
from graphc.artifacts.interface import artifact_name, comment_text, ports, string_literal
from graphc.runtime.signature import Argument, Dimension, Result, Signature
from graphc.support.diagnostics import GraphcError
from tests.support.c_networks import Tool, Workshop, affine

STRANGE = [
    "memcpy",
    "main",
    "int",
    'x*/system("a")/*',
    "L1.W",
    "L1_W",
    "linux",
    "a\\",
    "??/",
    "é\n",
]
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def strange_signature() -> Signature:
    return Signature(
        name="strange",
        dims=(Dimension("N", 8),),
        arguments=tuple(Argument(n, "f32", ("N", 2), "input") for n in STRANGE),
        results=tuple(Result(n, "f64", ("N", 2)) for n in STRANGE),
        arena_bytes=128,
        sums=((Result("sum.0", "f32", (2, 5)),),),  # so it takes a table of members
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("out/digits", "digits"),
        ("digits.o", "digits"),
        ("libdigits.so", "digits"),
        ("lib/libdigits-2.so.1.2", "digits_2"),
        ("liberty.o", "liberty"),
        ("my net.v2.h", "my_net_v2"),
        ("3d.o", "model_3d"),
        ("_x.o", "model_x"),
        ("netz-ä.o", "netz__"),
        ("malloc.so", "model_malloc"),
        ("", "model"),
    ],
)
def test_the_artifact_name_is_made_from_the_output_path(path: str, name: str) -> None:
    assert artifact_name(path) == name


def test_identifiers_of_ports_are_unique_and_cannot_be_keywords() -> None:
    names = [p.identifier for p in ports(strange_signature())]
    assert len(set(names)) == 2 * len(STRANGE)
    assert names[:3] == ["in_memcpy", "in_main", "in_int"]
    assert {"in_L1_W", "in_L1_W_2"} <= set(names)


def test_only_inputs_and_fresh_results_are_parameters_and_what_is_updated_is_one() -> None:
    signature = Signature(
        "net",
        (),
        (Argument("x", "f32", (1, 1), "input"), Argument("w", "f32", (1, 1), "parameter")),
        (Result("w2", "f32", (1, 1), updates="w"), Result("z", "i1", (1, 1))),
        0,
    )
    text = header_text(signature, info="{}")
    run = "int32_t net_run(int64_t n, const float *in_x, uint8_t *out_z, void *state, void *arena);"
    assert run in text
    assert "#define NET_AT_w 0\n" in text and "#define NET_STATE_BYTES 64\n" in text


def test_a_comment_cannot_be_ended_from_inside() -> None:
    assert comment_text("a*/b\\\n?") == "a<U+002A>/b<U+005C><U+000A><U+003F>"


def test_a_string_literal_holds_no_character_that_c_would_read_otherwise() -> None:
    assert string_literal('a"\\?é1') == '"a\\042\\134\\077\\303\\2511"'


def test_the_original_names_and_bounds_are_documented() -> None:
    text = header_text(strange_signature(), info="{}")
    assert "input L1.W" in text
    assert "0 <= n <= 8" in text
    assert "#define STRANGE_N_BOUND 8" in text


def test_a_number_of_samples_that_decides_nothing_is_documented() -> None:
    told = "All sizes are fixed: n, which is at least 0, changes nothing."
    signature = Signature("net", (), (), (Result("z", "f32", (3, 1)),), 0)
    assert told in header_text(signature, info="{}")
    assert told not in header_text(strange_signature(), info="{}")


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "_a", "malloc", "é"])
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    signature = Signature(name, (), (), (Result("z", "f32", (1, 1)),), 0)
    with pytest.raises(GraphcError, match="C identifier"):
        header_text(signature, info="{}")


@pytest.mark.parametrize(
    ("compiler", "standard", "suffix"),
    [
        ("gcc", "c89", "c"),
        ("gcc", "c11", "c"),
        ("gcc", "gnu17", "c"),
        ("g++", "c++98", "cc"),
        ("g++", "c++17", "cc"),
    ],
)
def test_the_header_compiles_without_warnings(
    compiler: str, standard: str, suffix: str, tool: Tool, tmp_path: Path
) -> None:
    text = header_text(strange_signature(), info='{"name":"*/ ??/ \\"}')
    (tmp_path / "strange.h").write_text(text, encoding="utf-8")
    source = tmp_path / f"use.{suffix}"
    source.write_text('#include "strange.h"\n#include "strange.h"\nint used = STRANGE_ABI;\n')
    command = [tool(compiler), f"-std={standard}", *WARNINGS, "-c", source.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_in_the_header_compiles_and_runs(
    workshop: Workshop, tool: Tool, tmp_path: Path
) -> None:
    fake = affine()
    text = header_text(fake.signature, info=fake.info)
    (tmp_path / "fake.h").write_text(text, encoding="utf-8")
    example = text.split("Example:\n")[1].split(" *\n")[0].replace(" * ", "", 1)
    lines = [line.removeprefix(" *") for line in example.splitlines()]
    check = '  puts(out_z[0] == 1 ? "right" : "wrong");'
    (tmp_path / "use.c").write_text(
        '#include <stdio.h>\n#include <stdlib.h>\n#include "fake.h"\nint main(void) {\n'
        + "\n".join(lines[:-1])
        + f"\n{check}\n{lines[-1]}\n  return code;\n}}\n"
    )
    command = [tool("gcc"), "-std=c11", *WARNINGS, "use.c", str(workshop.compile_object(fake))]
    subprocess.run([*command, "-o", "use"], cwd=tmp_path, check=True)
    done = subprocess.run([str(tmp_path / "use")], capture_output=True, text=True, check=True)
    assert done.stdout == "right\n"
