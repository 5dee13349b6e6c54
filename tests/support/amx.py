"""AMX's registers for products of bf16, emulated: code that is written for them runs anywhere.

Calls of the instructions in LLVM IR become calls of the functions here. They follow Intel's
description, step by step: 16 rows of 64 bytes as configured; a product of f32 numbers that are the
upper halves of pairs, rounded to nearest after each multiply-add, denormals taken and given as 0,
even and odd places of 16 pairs added up apart. An instruction on registers that are not configured,
or on ones of another shape, is an error, which is kept: an exception cannot leave a callback.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

Array = np.ndarray
_SMALLEST = 2.0**-126


def without_denormals(x: Array) -> Array:
    return np.where(np.abs(x) < _SMALLEST, np.copysign(0.0, x), x)


def rounded(x: Array) -> Array:
    """f64 numbers to f32, denormal results to 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        return without_denormals(x.astype(np.float32).astype(np.float64))


@dataclass
class Amx:
    """The registers of one thread.

    permitted  what the system answers when it is asked for them
    calls      how often each instruction was executed
    problems   what a processor would have refused
    """

    permitted: bool = True
    calls: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    row_bytes: list[int] = field(default_factory=list)
    registers: list[Array] = field(default_factory=list)
    _kept: list[object] = field(default_factory=list)

    def emulated(self, text: str) -> str:
        """LLVM IR whose instructions on registers are calls of this object."""
        text = re.sub(
            r"^declare .*@(llvm\.x86\.(tile|ldtile|tdp)|syscall).*\n", "", text, flags=re.M
        )
        for name, types, work in self._instructions():
            kind = ctypes.CFUNCTYPE(None, *types)
            made = kind(self._checked(name, work))
            self._kept.append(made)
            address = ctypes.cast(made, ctypes.c_void_p).value
            text = text.replace(f"@llvm.x86.{name}(", f"inttoptr (i64 {address} to ptr)(")
        asked = ctypes.CFUNCTYPE(ctypes.c_long, *[ctypes.c_long] * 3)(self._asked)
        self._kept.append(asked)
        address = ctypes.cast(asked, ctypes.c_void_p).value
        text = text.replace("(i64, ...) @syscall(", f"inttoptr (i64 {address} to ptr)(")
        assert "llvm.x86.t" not in text and "syscall" not in text
        return text

    def _instructions(self) -> list[tuple[str, list[type], Callable[..., None]]]:
        number, address, pitch = ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64
        return [
            ("ldtilecfg", [address], self._configure),
            ("tilerelease", [], self._release),
            ("tilezero", [number], self._zero),
            ("tileloadd64", [number, address, pitch], self._load),
            ("tilestored64", [number, address, pitch], self._store),
            ("tdpbf16ps", [number, number, number], self._dot),
        ]

    def _checked(self, name: str, work: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: int) -> None:
            self.calls[name] = self.calls.get(name, 0) + 1
            try:
                if name != "ldtilecfg" and not self.registers:
                    raise ValueError("registers that are not configured")
                work(*arguments)
            except Exception as problem:  # none may leave a callback
                self.problems.append(f"{name}{arguments}: {problem}")

        return call

    def _asked(self, number: int, request: int, component: int) -> int:
        self.calls["arch_prctl"] = self.calls.get("arch_prctl", 0) + 1
        if (number, request, component) != (158, 0x1023, 18):
            self.problems.append(f"another system call: {(number, request, component)}")
        return 0 if self.permitted else -95

    def _configure(self, address: int) -> None:
        if address % 64:
            raise ValueError("a configuration that may lie across lines")
        given = bytes((ctypes.c_uint8 * 64).from_address(address))
        palette, start = given[0], given[1]
        row_bytes = [int.from_bytes(given[16 + 2 * i : 18 + 2 * i], "little") for i in range(16)]
        rows = list(given[48:64])
        if palette != 1 or start or any(given[2:16]) or any(row_bytes[8:]) or any(rows[8:]):
            raise ValueError(f"reserved bytes: {given.hex()}")
        if max(row_bytes) > 64 or max(rows) > 16:
            raise ValueError(f"no such shape: {rows}, {row_bytes}")
        self.rows, self.row_bytes = rows, row_bytes
        self.registers = [np.zeros((16, 16), np.uint32) for _ in range(8)]

    def _release(self) -> None:
        self.registers = []

    def _shape(self, number: int) -> tuple[int, int]:
        return self.rows[number], self.row_bytes[number]

    def _zero(self, number: int) -> None:
        self.registers[number][:] = 0

    def _load(self, number: int, address: int, pitch: int) -> None:
        rows, length = self._shape(number)
        self.registers[number][:] = 0
        for r in range(rows):
            row = (ctypes.c_uint8 * length).from_address(address + r * pitch)
            self.registers[number][r, : length // 4] = np.frombuffer(bytes(row), np.uint32)

    def _store(self, number: int, address: int, pitch: int) -> None:
        rows, length = self._shape(number)
        for r in range(rows):
            row = self.registers[number][r, : length // 4].tobytes()
            ctypes.memmove(address + r * pitch, row, length)

    def _dot(self, sums: int, a: int, b: int) -> None:
        (m, sum_bytes), (a_rows, a_bytes), (b_rows, b_bytes) = map(self._shape, (sums, a, b))
        if (m, sum_bytes) != (a_rows, b_bytes) or b_rows != a_bytes // 4:
            raise ValueError("registers that do not fit each other")
        k, n = b_rows, sum_bytes // 4
        left, right = self.registers[a][:m, :k], self.registers[b][:k, :n]
        parts: list[Array] = []
        # Rows beyond a matrix hold whatever was in memory, signalling NaN too.
        with np.errstate(invalid="ignore", over="ignore"):
            total = self.registers[sums][:m, :n].view(np.float32).astype(np.float64)
            for half in (_lower, _upper):
                x, y = half(left), half(right)
                part = np.zeros((m, n))
                for step in range(k):
                    part = rounded(part + np.outer(x[:, step], y[step]))
                parts.append(part)
            total = rounded(without_denormals(total) + rounded(parts[0] + parts[1]))
            self.registers[sums][:m, :n] = total.astype(np.float32).view(np.uint32)


def _lower(pairs: Array) -> Array:
    return _number(pairs << np.uint32(16))


def _upper(pairs: Array) -> Array:
    return _number(pairs & np.uint32(0xFFFF0000))


def _number(bits: Array) -> Array:
    return without_denormals(np.ascontiguousarray(bits).view(np.float32).astype(np.float64))
