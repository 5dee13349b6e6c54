"""Turns a network into files that work without graphc: programs, libraries, objects, sources.

Everything is made in memory or in a folder beside its place first and moved into place at the end,
so a failure leaves no file behind. The same network, parameters, options and version of graphc
give the same bytes, whatever the folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from graphc.artifacts.header import header_text
from graphc.artifacts.interface import (
    artifact_name,
    check_name,
    exported_symbols,
    state_symbols,
    thread_symbols,
)
from graphc.artifacts.link import Compiler, compile_source, link_shared, require_compiler
from graphc.artifacts.numbers import StepNumbers
from graphc.artifacts.program import build_program
from graphc.backends import BACKENDS
from graphc.backends.base import Backend, Content, EmitRequest, FileKind, KeptCode
from graphc.driver.begun import Begun
from graphc.driver.cache import Cache
from graphc.driver.cache_key import kept, make_key
from graphc.driver.compile import (
    Lowered,
    PassesFor,
    check_machine,
    evaluation_passes,
    frozen_arrays,
    lower,
    lower_by,
    machine_of,
)
from graphc.driver.options import DEFAULT_BACKEND, CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.driver.program import (
    frozen_values,
    lower_program,
    optimised,
    parameter_arrays,
    program_passes,
    with_results,
)
from graphc.ir.core import Function
from graphc.ir.machine import Machine
from graphc.ir.printer import print_module
from graphc.model.model import Model
from graphc.model.program import Program
from graphc.runtime.signature import Signature, info_json
from graphc.support.diagnostics import fail, suggestion
from graphc.support.files import move_into_place, staged, temporary_folder

OBJECT = "obj"
"""What programs and libraries are linked of."""
HOST = "host"
"""And of those for a GPU: C, which is compiled first."""


@dataclass(frozen=True)
class Step:
    """A training step (`learn/step_files.py` makes it).

    lower    the function for a backend, or with False its tensor operations
    values   of its parameters, where they stand before the first step
    numbers  what the function is given for a whole minibatch
    """

    lower: Callable[[CompileOptions, bool], Lowered]
    values: Callable[[], Mapping[str, np.ndarray]]
    numbers: StepNumbers


Source = Model | Program | Step
"""What files are made of."""

STEP_KINDS = ("so", "header", OBJECT, "c", "ll", "asm", "ir")
"""What is made of training steps: what has a C interface, which is given the memory of the state.
Others read data, or are for a GPU, whose memory the caller does not see."""


def _header(_function: Function, signature: Signature, request: EmitRequest) -> bytes:
    text = header_text(signature, info=request.info, numbers=request.numbers)
    return text.encode("utf-8")


def _linked(suffix: str, summary: str) -> FileKind:
    return FileKind(suffix, summary, is_text=False, linked_of=OBJECT)


MADE_BY = {kind: name for name, load in BACKENDS.items() for kind in load().emit}
"""The backend that makes a kind of file; of what is made here none."""


def _kinds() -> dict[str, FileKind]:
    made = {kind: BACKENDS[name]().emit[kind] for kind, name in MADE_BY.items()}
    header = "the C header of all that is compiled"
    return {
        "exe": _linked("", "a program that reads text or .npy"),
        "so": _linked(".so", "a shared library with a C interface"),
        "header": FileKind(".h", header, _header, is_compiled=False),
        **dict(sorted(made.items(), key=lambda item: item[1].is_text)),
        "ir": FileKind(".gir", "graphc's own IR, optimised tensor level", is_compiled=False),
    }


KINDS = _kinds()
"""All kinds of files, by the names that `--emit` takes. What backends make, they say."""


@dataclass(frozen=True)
class ArtifactRequest:
    """What to make: kinds out of `KINDS`, and where.

    out      the file for one kind; for several the stem that suffixes are added to, after one that
             it has itself is taken away
    outputs  nodes to compute, by default the output nodes
    target   instruction set: `native`, `x86-64`, `x86-64-v3`, …; of GPUs several, with commas
    version  of graphc, written into the files
    name     what C names begin with; made from `out` if empty
    """

    kinds: Sequence[str]
    out: Path
    outputs: Sequence[str] = ()
    target: str = "native"
    version: str = ""
    name: str = ""

    def paths(self) -> dict[str, Path]:
        """The file of each kind, in order. GraphcError for an unknown kind or a name not of C.

        A kind that is for one target is, where there are several, one for each: `cubin@sm_80`, in
        `STEM.sm_80.cubin`. A library beside a Python file of the same stem is `libSTEM.so`:
        `import STEM` would take STEM.so for the module.
        """
        if self.name:
            check_name(self.name)
        kinds = list(dict.fromkeys(self.kinds))
        for kind in kinds:
            if kind not in KINDS:
                raise fail(
                    "bad-option",
                    f"one of {', '.join(KINDS)} can be emitted, got `{kind}`"
                    f"{suggestion(kind, KINDS)}",
                )
        each = [one for kind in kinds for one in self._of_targets(kind)]
        if len(each) == 1:
            return {each[0]: self.out}
        stem, own = _split(self.out.name)
        names = {one: f"{stem}{_middle(one)}{kind_in(one).suffix}" for one in each}
        if "so" in names:
            has_python = any(KINDS[kind].suffix == ".py" for kind in kinds)
            library = f"lib{stem}" if has_python else stem
            names["so"] = library + (own if own.startswith(".so") else ".so")
        return {one: self.out.with_name(name) for one, name in names.items()}

    def _of_targets(self, kind: str) -> list[str]:
        targets = list(dict.fromkeys(self.target.split(",")))
        is_split = KINDS[kind].one_target and len(targets) > 1
        return [f"{kind}@{target}" for target in targets] if is_split else [kind]


def kind_in(name: str) -> FileKind:
    """The kind, also of `cubin@sm_80`."""
    return KINDS[name.partition("@")[0]]


def _middle(name: str) -> str:
    """What stands between a file's stem and its suffix: `.sm_80`, or nothing."""
    _, at, target = name.partition("@")
    return f".{target}" if at else ""


def _split(name: str) -> tuple[str, str]:
    """A file's name without the suffix of a known kind, and the suffix, if it has one."""
    known = "|".join(re.escape(kind.suffix) for kind in KINDS.values() if kind.suffix)
    found = re.search(rf"(?<=.)(\.so(\.[0-9]+)+|{known})$", name)
    return (name[: found.start()], found[0]) if found is not None else (name, "")


def hidden_from_python(made: Iterable[Path]) -> list[tuple[Path, Path]]:
    """Libraries that `import` takes for the Python file beside them, with that file; of these at
    least one was made."""
    modules = [p for p in made if p.suffix in (".so", ".py") and p.stem.isidentifier()]
    pairs = {p.with_suffix(".so"): p.with_suffix(".py") for p in modules}
    return [(so, py) for so, py in pairs.items() if so.exists() and py.exists()]


def kind_of(out: Path) -> str:
    """The kind that a file's name asks for: by its suffix, an executable without one.

    What follows the last dot is a suffix only if it is all letters, so that `net-1.0` and `net.v2`
    are executables; `libnet.so.1` is a library. Of two suffixes that fit the longer one counts.
    GraphcError for another suffix.
    """
    name = re.sub(r"\.so(\.[0-9]+)+$", ".so", out.name)
    suffix = re.search(r"(?<=.)\.[A-Za-z]+$", name)
    if suffix is None:
        return "exe"
    fitting = [k for k, known in KINDS.items() if known.suffix and _ends_in(name, known.suffix)]
    if fitting:
        return max(fitting, key=lambda kind: len(KINDS[kind].suffix))
    raise fail("bad-option", f"what to emit cannot be told from the name `{out}`; use --emit")


def _ends_in(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and name != suffix


def emit(source: Source, request: ArtifactRequest, options: CompileOptions) -> dict[str, Path]:
    """Make the files of the request; their paths by kind.

    `options.backend` does not matter: each kind has its own. GraphcError for a bad network or
    option, `toolchain` without a C compiler where one is needed, `file` where nothing can be
    written. Until everything is made, nothing is in its place.
    """
    paths = request.paths()
    _require_step_kinds(source, list(paths), request.target)
    compiler = require_compiler() if any(kind_in(kind).linked_of for kind in paths) else None
    made, native = contents(source, list(paths), request, options)
    with temporary_folder(request.out) as folder, ExitStack() as open_files:
        finished: list[Callable[[], None]] = []
        for kind, path in paths.items():
            if kind_in(kind).linked_of is not None:
                assert native is not None
                part = _object_kind(request.target)
                with options.phases.measure("link"):
                    linked = native.link(kind, part, made[part], path, folder, compiler)
                finished.append(partial(move_into_place, linked, path))
            else:
                write = partial(_write_to, made[kind])
                finished.append(open_files.enter_context(staged(path, write)))
        for put_into_place in finished:
            put_into_place()
    return paths


def contents(
    source: Source, kinds: Sequence[str], request: ArtifactRequest, options: CompileOptions
) -> tuple[dict[str, Content], Prepared | None]:
    """The content of each kind, of those that are linked that of their source, and what an object
    is made from."""
    made: dict[str, Content] = {}
    prepared: dict[tuple[str, str], Prepared] = {}
    part = _object_kind(request.target)
    sources = list(dict.fromkeys(part if kind_in(kind).linked_of else kind for kind in kinds))
    # The header says what the compiled kinds beside it offer; alone it is that of an object.
    compiled = [k for k in sources if kind_in(k).is_compiled]
    first = part if part in sources or not compiled else compiled[0]
    for name in sources:
        kind, _, target = name.partition("@")
        if KINDS[kind].emitter is None:
            made[name] = [_ir_text(source, request, options)]
            continue
        backend, target = MADE_BY.get(kind) or MADE_BY[first], target or request.target
        if (backend, target) not in prepared:
            asked = replace(request, target=target)
            prepared[backend, target] = prepare_emission(source, backend, asked, options)
        made[name] = prepared[backend, target].emit(kind)
    return made, prepared.get((MADE_BY[part], request.target))


def _write_to(content: Content, stream: BinaryIO) -> None:
    stream.writelines(content)


def _write(file: Path, content: Content) -> None:
    with file.open("wb") as stream:
        _write_to(content, stream)


def _object_kind(target: str) -> str:
    """What programs and libraries for the target are linked of."""
    return HOST if target.startswith("sm_") else OBJECT


@dataclass(frozen=True)
class Prepared:
    """A lowered network with all that one backend needs to emit it.

    cache  where objects are kept, if anywhere
    """

    backend: Backend
    lowered: Lowered
    signature: Signature
    request: EmitRequest
    cache: Cache | None = None

    def emit(self, kind: str) -> Content:
        """The content of a kind that the backend makes, or of the header of one."""
        of_kind = KINDS[kind]
        make = partial(of_kind.make, self.lowered.function, self.signature, self.request)
        if of_kind.is_text or self.cache is None or self.backend.code is None:
            content = make()
        else:
            content = self._kept(make, self.cache, self.backend.code)
        if of_kind.fill is None:
            return [content]
        return of_kind.fill(content, self.signature, self.request)

    def _kept(self, make: Callable[[], bytes], cache: Cache, code: KeptCode) -> bytes:
        """Compiled content, from the cache if it is there."""
        parts = {**code.versions(self.request.target), "artifact": self.request.info}
        text = print_module(self.lowered.module)
        key = make_key(text, (), f"{self.backend.name} artifact", parts)
        return kept(cache, key, self.signature, make, self.request.phases)

    def link(
        self,
        kind: str,
        part: str,
        content: Content,
        out: Path,
        folder: Path,
        compiler: Compiler | None,
    ) -> Path:
        """Link content of the kind `part` to a program or library inside `folder`; the file made.

        It has the name of `out`, which a library carries in itself.
        """
        place = folder / kind
        place.mkdir()
        object_file = folder / "network.o"
        if KINDS[part].is_text:
            source = object_file.with_suffix(".c")
            _write(source, content)
            compile_source(source, object_file, compiler=compiler)
        else:
            _write(object_file, content)
        made = place / out.name
        if kind == "so":
            exports = exported_symbols(self.signature.name) + thread_symbols(self.signature)
            exports += state_symbols(self.signature)
            link_shared([object_file], made, exports=exports, compiler=compiler)
        else:
            info = self.request.info
            build_program(object_file, made, self.signature, info=info, compiler=compiler)
        return made


def _require_dense(model: Model, signature: Signature) -> None:
    """GraphcError `not-supported` for a sparse input: its entries are a dim besides the samples."""
    for name in (s.name for s in signature.sparse):
        op = model.find(name)
        raise fail(
            "not-supported",
            f"a file takes arrays of one dimension of samples, `{name}` is a sparse input: "
            "declare it as Input, or call the network from Python",
            op.location.span if op is not None else None,
        )


def _of_model(
    model: Model, request: ArtifactRequest, options: CompileOptions
) -> tuple[Lowered, dict[str, np.ndarray]]:
    """The network for a backend, and the parameters' values."""
    with options.phases.measure("sizes"):
        infer(model)
    passes_for: PassesFor = lambda m, o: evaluation_passes(m, request.outputs, (), o)  # noqa: E731
    lowered = lower(model, passes_for(model, options), options)
    _require_dense(model, lowered.signature)
    with options.phases.measure("initial values"):
        draw(model, lowered.signature.model_names)
    return lowered, frozen_arrays(model, lowered.signature, passes_for, _here(options))


def _here(options: CompileOptions) -> CompileOptions:
    """What computes the part of a file that depends on parameters alone, where the file is made:
    the code that is in it, if that can run here, else the operations' numpy meaning."""
    backend = BACKENDS[options.backend]()
    runs_here = options.target == "native" and isinstance(machine_of(options), Machine)
    name = DEFAULT_BACKEND if runs_here and backend.stage == "kernels" else "reference"
    return replace(options, backend=name, machine=options.machine if runs_here else None)


def _of_program(
    program: Program, request: ArtifactRequest, options: CompileOptions
) -> tuple[Lowered, dict[str, np.ndarray]]:
    """A program for a backend, and the parameters' values."""
    program = with_results(program, request.outputs)
    lowered = lower_program(program, options, program_passes(program, options))
    if kept := [r.updates for r in lowered.signature.results if r.updates is not None]:
        raise fail(
            "not-supported",
            f"a file computes and keeps nothing, the function updates `{kept[0]}`: "
            "`graphc bench` can time it",
        )
    if program.is_written:
        return lowered, parameter_arrays(lowered.signature, program.parameters)
    return lowered, frozen_values(program, lowered.signature, _here(options))


def _require_step_kinds(source: Source, kinds: Sequence[str], target: str) -> None:
    """GraphcError `not-supported` for files of a training step that there are not."""
    if not isinstance(source, Step):
        return
    for kind in kinds:
        if kind.partition("@")[0] not in STEP_KINDS or target.startswith("sm_"):
            what = f"`{kind}`" if not target.startswith("sm_") else f"`{kind}` for {target}"
            made = ", ".join(STEP_KINDS)
            message = f"of a training step these are made, for processors: {made}; got {what}"
            raise fail("not-supported", message)


def _of_step(step: Step, options: CompileOptions) -> tuple[Lowered, dict[str, np.ndarray]]:
    """A training step for a backend, and the values of its parameters: none is frozen."""
    lowered = step.lower(replace(options, freeze=False), True)
    if sparse := [s.name for s in lowered.signature.sparse]:
        message = (
            f"a file takes arrays of one dimension of samples, `{sparse[0]}` is a sparse input"
        )
        raise fail("not-supported", message)
    return lowered, parameter_arrays(lowered.signature, step.values())


def prepare_emission(
    source: Source, backend: str, request: ArtifactRequest, options: CompileOptions
) -> Prepared:
    """Lower the source for a backend and gather what is written into every file."""
    used = BACKENDS[backend]()
    options = replace(options, backend=backend, freeze=True, begun=Begun(), target=request.target)
    check_machine(options)
    numbers = StepNumbers()
    if isinstance(source, Step):
        lowered, parameters = _of_step(source, options)
        numbers = source.numbers
    elif isinstance(source, Program):
        lowered, parameters = _of_program(source, request, options)
    else:
        lowered, parameters = _of_model(source, request, options)
    name = request.name or artifact_name(request.out)
    is_split = lowered.signature.is_split and used.has_threads(request.target)
    signature = replace(lowered.signature, name=name, is_split=is_split)
    isa = used.isa(request.target)
    info = info_json(
        signature,
        version=request.version,
        isa=isa,
        content_hash=content_hash(lowered, parameters, isa, request.version),
    )
    emission = EmitRequest(name, parameters, info, request.target, options.phases, numbers)
    return Prepared(used, lowered, signature, emission, options.cache)


def content_hash(
    lowered: Lowered, parameters: Mapping[str, np.ndarray], isa: str, version: str
) -> str:
    """SHA-256 over everything that decides what the artifact computes."""
    digest = hashlib.sha256()
    for text in (version, isa, print_module(lowered.module)):
        digest.update(text.encode("utf-8") + b"\0")
    for name, value in sorted(parameters.items()):
        digest.update(f"{name}\0{value.dtype.str}\0{value.shape}\0".encode())
        digest.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _ir_text(source: Source, request: ArtifactRequest, options: CompileOptions) -> bytes:
    """The tensor level, optimised: no backend asks for further passes. Of what somebody wrote: that
    itself."""
    if isinstance(source, Step):
        return print_module(source.lower(options, False).module).encode("utf-8")
    if isinstance(source, Program):
        return print_module(optimised(source, options)).encode("utf-8")
    model = source
    lowered = lower_by(model, evaluation_passes(model, request.outputs, (), options), options)
    return print_module(lowered.module).encode("utf-8")
