"""The machine that code is made for: triple, processor, features and the width of a vector.

Width is stated here and nowhere else; the emitters ask the target for it. Only `host_target`
needs llvmlite, and imports it when called.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from graphc.backends.llvm.scarcity import require_room_for_library, unavailable
from graphc.ir.machine import MACHINES, Machine
from graphc.support.diagnostics import fail, suggestion

LINUX_X86 = "x86_64-unknown-linux-gnu"
LINUX_ARM = "aarch64-unknown-linux-gnu"


@dataclass(frozen=True, slots=True)
class Target:
    """The machine as LLVM sees it, and as the emitters see it.

    isa      the level an artifact states, such as x86-64-v3
    machine  what the algorithms know of it: vectors, caches
    """

    triple: str
    cpu: str
    features: str
    isa: str
    machine: Machine


X86_64 = Target(LINUX_X86, "x86-64", "", "x86-64", MACHINES["x86-64"])
X86_64_V2 = Target(LINUX_X86, "x86-64-v2", "", "x86-64-v2", MACHINES["x86-64-v2"])
X86_64_V3 = Target(LINUX_X86, "x86-64-v3", "", "x86-64-v3", MACHINES["x86-64-v3"])
X86_64_V4 = Target(LINUX_X86, "x86-64-v4", "", "x86-64-v4", MACHINES["x86-64-v4"])
SAPPHIRE_RAPIDS = Target(
    LINUX_X86,
    "x86-64-v4",
    "+avx512bf16,+amx-bf16,+amx-tile",
    "sapphirerapids",
    MACHINES["sapphirerapids"],
)
AARCH64 = Target(LINUX_ARM, "generic", "+neon", "aarch64", MACHINES["aarch64"])

_ALL = (X86_64, X86_64_V2, X86_64_V3, X86_64_V4, SAPPHIRE_RAPIDS, AARCH64)

TARGETS: dict[str, Target] = {t.isa: t for t in _ALL}

TARGET_NAMES = (*TARGETS, "native")

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""Where Linux describes the caches of a core."""
_UNITS = {"K": 10, "M": 20, "G": 30}

_QUICK_WITH_DENORMALS = ("znver", "btver", "bdver")
"""AMD's names. Products and sums of denormals take as long as others there, or nearly."""

_V4_FEATURES = ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_AMX_FEATURES = ("avx512bf16", "amx-bf16", "amx-tile")
AMX_REQUEST = (158, 0x1023, 18)
"""Linux on x86-64: the number of `arch_prctl`, ARCH_REQ_XCOMP_PERM, and the registers."""
_V3_FEATURES = ("avx2", "fma", "bmi2", "f16c")


def target_named(name: str) -> Target:
    """The target of this name; `native` is the machine that asks. Reports an unknown name."""
    if name == "native":
        return host_target()
    if name in TARGETS:
        return TARGETS[name]
    known = ", ".join(TARGET_NAMES)
    hint = suggestion(name, TARGET_NAMES)
    raise fail("bad-option", f"a target is one of {known}, got {name}{hint}")


@cache
def host_target() -> Target:
    """The machine that asks."""
    try:
        require_room_for_library()
        import llvmlite.binding as llvm
    except (ImportError, OSError) as error:
        raise unavailable(error) from error

    features: Mapping[str, bool] = llvm.get_host_cpu_features()
    text = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features.items()))
    found = native_target(llvm.get_process_triple(), llvm.get_host_cpu_name(), text, features)
    machine = replace(
        found.machine,
        l1=cache_bytes(1) or found.machine.l1,
        l2=cache_bytes(2) or found.machine.l2,
    )
    return replace(found, machine=machine)


def cache_bytes(level: int, folder: Path = CACHES) -> int:
    """Of a core's cache of data; 0 if the system does not report it, as `os.sysconf` never does."""
    for place in folder.glob("index*"):
        try:
            found, kind, size = (
                (place / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size")
            )
        except OSError:
            continue
        if found == str(level) and kind != "Instruction":
            return int(size[:-1]) << _UNITS[size[-1]]
    return 0


def native_target(triple: str, cpu: str, text: str, features: Mapping[str, bool]) -> Target:
    """The target with exactly these features; `text` is their form for LLVM."""
    if not triple.startswith("x86_64"):
        return Target(triple, cpu, text, cpu, AARCH64.machine)
    level = _level(features)
    machine = replace(
        level.machine,
        has_fma=features.get("fma", False),
        slow_denormals=not cpu.startswith(_QUICK_WITH_DENORMALS),
        dots_bf16=level.machine.vector_bits == 512 and features.get("avx512bf16", False),
    )
    return Target(triple, cpu, text, level.isa, machine)


def _level(features: Mapping[str, bool]) -> Target:
    """The highest level of x86-64 whose features are all there."""
    if not all(features.get(f, False) for f in _V3_FEATURES):
        return X86_64_V2 if features.get("sse4.2", False) else X86_64
    if not all(features.get(f, False) for f in _V4_FEATURES):
        return X86_64_V3
    has_amx = all(features.get(f, False) for f in _AMX_FEATURES) and lends_amx()
    return SAPPHIRE_RAPIDS if has_amx else X86_64_V4


@cache
def lends_amx() -> bool:
    """Whether the system lends this process the registers of AMX, for which it must be asked."""
    if not sys.platform.startswith("linux"):
        return False
    call = ctypes.CDLL(None).syscall
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long] * 3
    return call(*AMX_REQUEST) == 0
