"""From LLVM text to an object, and from an object to callable addresses. One path for both uses.

An artifact's `.o` and the code that Python calls are the same bytes: text is parsed, verified and
compiled to an object once; a call from Python loads that object. The only file that runs LLVM.
"""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphc.backends.llvm.scarcity import require_memory, require_room_for_library, unavailable
from graphc.backends.llvm.target import Target
from graphc.support.phases import Phases

try:
    require_room_for_library()
    import llvmlite
    import llvmlite.binding as llvm
except (ImportError, OSError) as error:
    raise unavailable(error) from error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CODE_LEVEL = 2
"""The code generation level. The emitters write optimised code, so no LLVM passes run."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Functions of a loaded object; they live as long as this does."""

    addresses: dict[str, int]
    keep: tuple[object, ...]


def object_code(text: str, target: Target, phases: Phases | None = None) -> bytes:
    """A relocatable, position independent object file."""
    phases = phases or Phases()
    with phases.measure("parse"):
        module, machine = _parsed(text, target)
    with phases.measure("codegen"):
        return machine.emit_object(module)


def assembly(text: str, target: Target) -> str:
    module, machine = _parsed(text, target)
    return machine.emit_assembly(module)


def load(
    code: bytes, names: Sequence[str], target: Target, *, from_process: bool = False
) -> Loaded:
    """Loads an object into this process and looks the names up.

    from_process  the object may call functions of the C library
    """
    require_memory(len(code))
    _initialize(target)
    jit = llvm.create_lljit_compiler(_machine(target))
    library = llvm.JITLibraryBuilder().add_object_img(code)
    if from_process:
        library.add_current_process()
    for name in names:
        library.export_symbol(name)
    unique = "graphc_" + hashlib.sha256(code).hexdigest()[:16]
    tracker = library.link(jit, unique)
    return Loaded({name: tracker[name] for name in names}, (jit, tracker))


def function(
    loaded: Loaded, name: str, result: type | None, *arguments: type
) -> Callable[..., Any]:
    """The loaded function as a ctypes callable."""
    return ctypes.CFUNCTYPE(result, *arguments)(loaded.addresses[name])


def version() -> str:
    """Of llvmlite and of the LLVM in it."""
    return f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


def _parsed(text: str, target: Target) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    require_memory(len(text))
    _initialize(target)
    module = llvm.parse_assembly(text, llvm.create_context())
    module.verify()
    machine = _machine(target)
    module.data_layout = str(machine.target_data)
    return module, machine


def _machine(target: Target) -> llvm.TargetMachine:
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=CODE_LEVEL,
        reloc="pic",
        codemodel="default",
    )


def _initialize(target: Target) -> None:
    """What LLVM needs for this machine's processor, and for all others if `target` is another."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if _architecture(target.triple) != _architecture(llvm.get_process_triple()):
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


def _architecture(triple: str) -> str:
    return triple.split("-", 1)[0]
