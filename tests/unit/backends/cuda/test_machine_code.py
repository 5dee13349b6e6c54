"""What kernels become: the instructions that make them fast, and none that need not be there."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from graphc.backends.cuda.compiler import Image, compile_text
from graphc.backends.cuda.source import write_source
from graphc.backends.cuda.steps import launches
from graphc.ir.machine import GPUS
from tests.support.compiling import parse
from tests.support.cuda.sample import planned
from tests.support.cuda.tools import machine_code, needs_nvdisasm

pytestmark = needs_nvdisasm

MACHINE = GPUS["sm_90"]
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")


def product(
    sizes: tuple[int, int, int], dtype: str = "f32", turned: str = "", contraction: str = "fma"
) -> str:
    """A product of m x k by k x n; of `turned` ("a", "b") the columns are given as rows."""
    m, n, k = sizes
    a, b = (k, m) if "a" in turned else (m, k), (n, k) if "b" in turned else (k, n)
    given = f"%a: tensor<{a[0]}x{a[1]}x{dtype}> input, %b: tensor<{b[0]}x{b[1]}x{dtype}> input"
    how = ", ".join(f"transpose_{x} = {str(x in turned).lower()}" for x in "ab")
    result = f"tensor<{m}x{n}x{dtype}>"
    mode = "" if contraction == "fma" else f" contraction {contraction}"
    return (
        f"func @f({given}) -> (y: {result}){mode} {{\n"
        f"  %y = matmul %a, %b {{{how}}} : {result}\n  return %y\n}}\n"
    )


SQUARE = (512, 512, 512)
FUNCTIONS = {
    "product": product(SQUARE),
    "product of turned a": product(SQUARE, turned="a"),
    "product of turned b": product(SQUARE, turned="b"),
    "product in f64": product((1024, 1024, 512), "f64"),
    "product in two roundings": product(SQUARE, contraction="off"),
    "product in TF32": product(SQUARE, contraction="tf32"),
    "map": "func @f(%a: tensor<512x512xf32> input, %b: tensor<512x512xf32> input) "
    "-> (y: tensor<512x512xf32>) {\n  %c = mul %a, %b : tensor<512x512xf32>\n"
    "  %y = add %c, %a : tensor<512x512xf32>\n  return %y\n}\n",
    "sum of rows": "dim N <= 512\n"
    "func @f(%x: tensor<Nx512xf32> input) -> (y: tensor<Nx1xf32>) {\n"
    "  %y = reduce_sum %x {axes = [1]} : tensor<Nx1xf32>\n  return %y\n}\n",
    "transpose": "func @f(%x: tensor<512x256xf32> input) -> (y: tensor<256x512xf32>) {\n"
    "  %y = transpose %x {permutation = [1, 0]} : tensor<256x512xf32>\n  return %y\n}\n",
}


WORDS = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf")
"""Functions of f32 that are computed in f32."""


def mapped(word: str) -> str:
    t = "tensor<65536xf32>"
    return (
        f"func @f(%x: {t} input, %b: tensor<1xf32> input) -> (y: {t}) {{\n"
        f"  %w = {word} %x : {t}\n  %s = broadcast %b {{dims = [65536]}} : {t}\n"
        f"  %y = add %w, %s : {t}\n  return %y\n}}\n"
    )


def softmax(lanes: int) -> str:
    t, r = f"tensor<4096x{lanes}xf32>", "tensor<4096x1xf32>"
    wide = f"{{dims = [4096, {lanes}]}} : {t}"
    return (
        f"func @f(%x: {t} input) -> (y: {t}) {{\n"
        f"  %m = reduce_max %x {{axes = [1]}} : {r}\n  %mb = broadcast %m {wide}\n"
        f"  %d = sub %x, %mb : {t}\n  %e = exp %d : {t}\n"
        f"  %s = reduce_sum %e {{axes = [1]}} : {r}\n  %sb = broadcast %s {wide}\n"
        f"  %y = div %e, %sb : {t}\n  return %y\n}}\n"
    )


SOFTMAXES = (64, 1024, 4096)
FUNCTIONS.update((word, mapped(word)) for word in WORDS)
FUNCTIONS.update((f"softmax {lanes}", softmax(lanes)) for lanes in SOFTMAXES)

Made = dict[str, tuple[Counter[str], Image, str]]


@pytest.fixture(scope="module")
def made() -> Made:
    """Of each function how often its first kernel has an instruction, whatever its predicate."""
    functions = [planned(parse(text), MACHINE) for text in FUNCTIONS.values()]
    for function, _ in functions:
        function.launch = "graph"
    source = write_source(functions, MACHINE)
    image = compile_text(source.text, MACHINE.arch)
    codes = machine_code(image)
    found: Made = {}
    for name, program in zip(FUNCTIONS, source.programs, strict=True):
        launch = next(launches(program.steps))  # what adds up parts comes after it
        kernel = f"run_{launch.kernel}"
        words = [_PREDICATE.sub("", line).split()[0] for line in codes[kernel]]
        found[name] = Counter(words), image, kernel
    return found


def count(words: Counter[str], *starts: str) -> int:
    return sum(n for word, n in words.items() if word.startswith(starts))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_thread_has_memory_of_its_own(made: Made, name: str) -> None:
    words, image, kernel = made[name]
    assert count(words, "LDL", "STL") == 0
    assert image.resources[kernel].stack == image.resources[kernel].spills == 0


@pytest.mark.parametrize(
    ("name", "fused", "alone"),
    [
        ("product", "FFMA", "FMUL"),
        ("product of turned a", "FFMA", "FMUL"),
        ("product of turned b", "FFMA", "FMUL"),
        ("product in f64", "DFMA", "DMUL"),
    ],
)
def test_products_are_fused_with_their_sums(made: Made, name: str, fused: str, alone: str) -> None:
    words, _, _ = made[name]
    assert count(words, fused) >= 64
    assert count(words, alone) == 0


def test_without_contraction_no_product_is_fused_with_a_sum(made: Made) -> None:
    words, _, _ = made["product in two roundings"]
    assert count(words, "FFMA") == 0
    assert count(words, "FMUL") >= 64


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "product" in name])
def test_products_are_copied_ahead_16_bytes_at_a_time(made: Made, name: str) -> None:
    words, _, _ = made[name]
    assert count(words, "LDGSTS.E.BYPASS.128") >= 2
    assert count(words, "LDG.") == 0
    assert count(words, "STG.E.128") == count(words, "STG.") > 0
    assert count(words, "LDS.128") > 0


def test_products_in_tf32_are_computed_by_tensor_cores(made: Made) -> None:
    words, _, _ = made["product in TF32"]
    assert count(words, "HMMA.1688.F32.TF32") >= 4
    assert count(words, "FFMA", "FMUL") == 0
    assert count(made["product"][0], "HMMA") == 0


@pytest.mark.parametrize(("name", "loads", "stores"), [("map", 2, 1), ("sum of rows", 1, 0)])
def test_nests_move_16_bytes_at_a_time(made: Made, name: str, loads: int, stores: int) -> None:
    words, _, _ = made[name]
    assert count(words, "LDG.E.128") == count(words, "LDG.") >= loads
    assert count(words, "STG.E.128") >= stores


def test_a_map_is_as_long_as_its_arithmetic(made: Made) -> None:
    words, _, _ = made["map"]
    assert count(words, "FMUL") == count(words, "FADD") == 4
    assert sum(words.values()) < 100


def test_a_transpose_goes_through_shared_memory(made: Made) -> None:
    words, _, _ = made["transpose"]
    assert count(words, "LDS") > 0
    assert count(words, "STS") > 0


@pytest.mark.parametrize("name", WORDS)
def test_maps_move_16_bytes_a_thread_and_compute_in_their_type(made: Made, name: str) -> None:
    words, _, _ = made[name]
    assert count(words, "LDG.E.128") == count(words, "STG.E.128") == count(words, "STG.") == 1
    assert count(words, "LDG.") == 2  # and the number that is added to all
    assert count(words, "DADD", "DMUL", "DFMA", "F2F") == 0


@pytest.mark.parametrize("lanes", SOFTMAXES)
def test_a_softmax_reads_its_row_once(made: Made, lanes: int) -> None:
    words, image, kernel = made[f"softmax {lanes}"]
    threads = {64: 16, 1024: 32, 4096: 256}[lanes]
    assert count(words, "LDG.") == count(words, "LDG.E.128") == lanes // (4 * threads)
    assert count(words, "STG.") == count(words, "STG.E.128") == lanes // (4 * threads)
    assert image.resources[kernel].registers <= 96
