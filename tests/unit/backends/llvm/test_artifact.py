"""The C ABI of artifacts: statuses, info, embedded parameters, symbols; called as C would."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from graphc.backends.abi import AMX_STATUS, STATUS, UNKNOWN_STATUS, check_signature
from graphc.backends.base import EmitRequest
from graphc.backends.llvm import BACKEND, engine
from graphc.backends.llvm.artifact import emit_artifact
from graphc.backends.llvm.large_data import filled, reserve
from graphc.backends.llvm.target import TARGETS, host_target
from graphc.backends.llvm.text import Module
from graphc.backends.signature import make_signature
from graphc.ir.core import Function
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError, InternalError
from tests.support.compiling import parse
from tests.support.native import fused

NETWORK = """
dim N <= 16
func @f(%x: tensor<Nx3xf32> input, %w: tensor<5x3xf32> parameter, %b: tensor<5x1xf32> parameter)
    -> (y: tensor<Nx5xf32>) {
  %0 = matmul %x, %w {transpose_b = true} : tensor<Nx5xf32>
  %1 = reshape %b {dims = [1, 5]} : tensor<1x5xf32>
  %2 = broadcast %1 {dims = [N, 5]} : tensor<Nx5xf32>
  %3 = add %0, %2 : tensor<Nx5xf32>
  %y = sigmoid %3 : tensor<Nx5xf32>
  return %y
}
"""
INFO = '{"abi":1,"name":"né\\u0001t"}'
PARAMETERS = {
    "w": np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3),
    "b": np.linspace(0, 1, 5, dtype=np.float32).reshape(5, 1),
}
FUNCTIONS = ("net_run", "net_arena_bytes", "net_status", "net_info")


def planned(text: str) -> tuple[Function, Signature]:
    module = parse(fused(text))
    return module.functions[0], make_signature(module, module.functions[0])


def request() -> EmitRequest:
    return EmitRequest("net", PARAMETERS, INFO)


class Library:
    """The artifact's functions in this process."""

    def __init__(self) -> None:
        function, signature = planned(NETWORK)
        code = BACKEND.emit["obj"].make(function, signature, request())
        self.loaded = engine.load(code, FUNCTIONS, host_target())
        pointer = ctypes.c_void_p
        self.run = self._function("net_run", ctypes.c_int32, ctypes.c_int64, *[pointer] * 3)
        self.arena_bytes = self._function("net_arena_bytes", ctypes.c_int64)
        self.status = self._function("net_status", ctypes.c_char_p, ctypes.c_int32)
        self.info = self._function("net_info", ctypes.c_char_p)

    def _function(self, name: str, result: type, *arguments: type) -> Callable[..., object]:
        return engine.function(self.loaded, name, result, *arguments)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library()


def aligned(size: int) -> tuple[np.ndarray, int]:
    memory = np.full(size + 64, 0xFF, np.uint8)
    return memory, -(-memory.ctypes.data // 64) * 64


@pytest.mark.parametrize("count", [0, 1, 7, 16])
def test_run_computes_with_the_embedded_parameters(library: Library, count: int) -> None:
    x = np.linspace(-2, 2, 48, dtype=np.float32).reshape(16, 3)
    y = np.full((16, 5), 7, np.float32)
    _memory, arena = aligned(int(str(library.arena_bytes())))
    assert library.run(count, x.ctypes.data, y.ctypes.data, arena) == 0
    z = x @ PARAMETERS["w"].T + PARAMETERS["b"].T
    np.testing.assert_allclose(y[:count], (1 / (1 + np.exp(-z)))[:count], rtol=1e-6)
    assert (y[count:] == 7).all()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"n": -1}, 1),
        ({"n": 17}, 1),
        ({"x": 0}, 2),
        ({"y": 0}, 2),
        ({"arena": 0}, 2),
        ({"arena": 32}, 3),
        ({"x": 2}, 4),
        ({"y": 1}, 4),
        ({"n": -1, "x": 0, "arena": 1}, 1),
        ({"x": 0, "arena": 1}, 2),
    ],
    ids=str,
)
def test_a_wrong_call_gives_its_status_and_writes_nothing(
    library: Library, change: dict[str, int], status: int
) -> None:
    """Pointers in `change` are null for 0, else that many bytes off."""
    x, y = np.zeros((17, 3), np.float32), np.full((17, 5), 7, np.float32)
    _memory, arena = aligned(4096)
    at = {"x": x.ctypes.data, "y": y.ctypes.data, "arena": arena}
    for name, off in change.items():
        if name != "n":
            at[name] = at[name] + off if off else 0
    assert library.run(change.get("n", 4), at["x"], at["y"], at["arena"]) == status
    assert (y == 7).all()


@pytest.mark.parametrize("code", range(len(STATUS)))
def test_every_status_has_its_text(library: Library, code: int) -> None:
    assert library.status(code) == STATUS[code].encode()


@pytest.mark.parametrize("code", [-1, max(AMX_STATUS) + 1, 2**31 - 1])
def test_an_unknown_status_has_a_text_too(library: Library, code: int) -> None:
    assert library.status(code) == UNKNOWN_STATUS.encode()


def test_info_is_given_as_it_came(library: Library) -> None:
    assert library.info() == INFO.encode()


def test_arena_bytes_is_that_of_the_signature(library: Library) -> None:
    assert library.arena_bytes() == planned(NETWORK)[1].arena_bytes


def test_only_the_four_functions_are_visible() -> None:
    text = BACKEND.emit["ll"].make(*planned(NETWORK), request()).decode()
    visible = [
        line.split("@")[1].split("(")[0]
        for line in text.splitlines()
        if line.startswith("define") and "internal" not in line
    ]
    assert sorted(visible) == sorted(FUNCTIONS)


def test_data_are_constant() -> None:
    text = BACKEND.emit["ll"].make(*planned(NETWORK), request()).decode()
    data = [line for line in text.splitlines() if line.startswith("@")]
    assert data
    assert all("private unnamed_addr constant" in line for line in data)


def test_emitted_text_assembly_and_object_are_the_same_every_time() -> None:
    function, signature = planned(NETWORK)
    for kind in ("ll", "asm", "obj"):
        first = BACKEND.emit[kind].make(function, signature, request())
        assert BACKEND.emit[kind].make(function, signature, request()) == first, kind


def test_a_named_target_decides_the_instructions() -> None:
    function, signature = planned(NETWORK)
    wide = EmitRequest("net", PARAMETERS, INFO, target="x86-64-v3")
    assert b"ymm" in BACKEND.emit["asm"].make(function, signature, wide)
    narrow = EmitRequest("net", PARAMETERS, INFO, target="x86-64")
    assert b"ymm" not in BACKEND.emit["asm"].make(function, signature, narrow)


@pytest.mark.parametrize("name", TARGETS)
def test_the_stated_level_is_that_of_the_target(name: str) -> None:
    assert BACKEND.isa(name) == name


def test_an_artifact_without_a_dimension_ignores_the_count() -> None:
    text = """
func @f(%w: tensor<5xf64> parameter) -> (y: tensor<5xf64>) {
  %y = exp %w : tensor<5xf64>
  return %y
}
"""
    function, signature = planned(text)
    w = np.linspace(0, 1, 5)
    made = emit_artifact(function, signature, host_target(), EmitRequest("net", {"w": w}, "{}"))
    loaded = engine.load(engine.object_code(made, host_target()), ["net_run"], host_target())
    types = [ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
    run = engine.function(loaded, "net_run", ctypes.c_int32, *types)
    y = np.zeros(5)
    assert run(10**12, y.ctypes.data, None) == 0
    np.testing.assert_allclose(y, np.exp(w), rtol=1e-15)


def test_large_parameters_are_put_into_the_object() -> None:
    text = """
func @f(%w: tensor<20000xf32> parameter, %v: tensor<9000xf64> parameter)
    -> (y: tensor<20000xf32>, z: tensor<9000xf64>) {
  %y = neg %w : tensor<20000xf32>
  %z = neg %v : tensor<9000xf64>
  return %y, %z
}
"""
    function, signature = planned(text)
    given = {"w": np.arange(20000, dtype=np.float32), "v": np.arange(9000) / 7}
    kind, request = BACKEND.emit["obj"], EmitRequest("net", given, "{}")
    made = kind.make(function, signature, request)
    assert len(made) < min(array.nbytes for array in given.values())
    assert kind.fill is not None
    emitted = b"".join(kind.fill(made, signature, request))
    assert all(array.tobytes() in emitted for array in given.values())
    loaded = engine.load(emitted, ["net_run"], host_target())
    types = [ctypes.c_int64, *[ctypes.c_void_p] * 3]
    run = engine.function(loaded, "net_run", ctypes.c_int32, *types)
    y, z = np.zeros(20000, np.float32), np.zeros(9000)
    assert run(0, y.ctypes.data, z.ctypes.data, None) == 0
    assert np.array_equal(y, -given["w"])
    assert np.array_equal(z, -given["v"])
    # As text they are in the module itself
    assert b"externally_initialized" not in BACKEND.emit["ll"].make(function, signature, request)


def test_large_parameters_fill_the_places_that_an_object_has() -> None:
    module = Module(host_target().triple)
    module.data(b"something", 64)
    reserve(module, 3, 80000, 64)
    code = engine.object_code(module.text(), host_target())
    assert filled(code, {}) == [code]
    for arrays in ({3: np.zeros(9999)}, {3: np.zeros(10000), 4: np.zeros(10000)}):
        with pytest.raises(InternalError):
            filled(code, arrays)
    with pytest.raises(InternalError, match="ELF"):
        filled(b"MZ" + code[2:], {3: np.zeros(10000)})


UPDATE = """
func @f(%w: tensor<5xf32> input) -> (y: tensor<5xf32> updates %w) {
  %y = exp %w : tensor<5xf32>
  return %y
}
"""


def with_role(role: str) -> str:
    return NETWORK.replace("%x: tensor<Nx3xf32> input", f"%x: tensor<Nx3xf32> {role}")


@pytest.mark.parametrize(
    ("text", "message"),
    [(with_role("kept"), "got kept `x`"), (UPDATE, "updates no inputs, got `w`")],
    ids=["kept", "update"],
)
def test_what_an_artifact_cannot_hold_is_reported(text: str, message: str) -> None:
    function, signature = planned(text)
    with pytest.raises(GraphcError, match=message):
        emit_artifact(function, signature, host_target(), request())


@pytest.mark.parametrize(
    ("text", "message"),
    [(with_role("hyperparameter"), "got hyperparameter `x`"), (UPDATE, "updates nothing")],
    ids=["hyperparameter", "update"],
)
def test_what_takes_no_training_steps_reports_them(text: str, message: str) -> None:
    with pytest.raises(GraphcError, match=message):
        check_signature(planned(text)[1])
