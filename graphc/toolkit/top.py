"""Keys of the top level: what runs, how it computes, where the log goes."""

from __future__ import annotations

from collections.abc import Mapping

from graphc.backends import BACKENDS
from graphc.config.keys import Key, ignored, integer, one_of, optional, path, text, texts, truth
from graphc.config.lookup import Scope, Value
from graphc.driver.options import DEFAULT_BACKEND, CompileOptions
from graphc.ir.types import DType
from graphc.runtime.communicators.mpi import started
from graphc.runtime.threads import MAX_THREADS
from graphc.support.diagnostics import fail

GPU = "cuda"
"""The backend for `deviceId`s that are no processor."""

PRECISIONS: Mapping[str, DType] = {"float": DType.F32, "double": DType.F64}

COMMAND = texts("command", "the command blocks to run, in their order", ("train",))
ACTION = texts("action", "what a command block does: one action or several")
PRECISION = one_of("precision", "of all numbers", dict(PRECISIONS), DType.F32)
TYPE = one_of("type", "the older name of `precision`", dict(PRECISIONS), DType.F32)
DEVICE = text(
    "deviceId",
    "what computes: `cpu` and -1 the processor, 0 the GPU, `auto` it if there is one",
    "auto",
)
STDERR = optional(path("stderr", "the log goes to this path and `_COMMAND….log`"))
THREADS = integer("numCPUThreads", "threads that compute; 0 is one for each core", 0)
DONE_FILE = optional(path("DoneFile", "a file that is written when all commands are done"))
TRACE_LEVEL = integer("traceLevel", "above 0: a line of the log for stretches of minibatches", 0)
PARALLEL = optional(
    truth("parallelTrain", "the processes of mpirun train together; true if there are several")
)
MAKE_MODE = truth("makeMode", "leave alone what is trained already, go on with what is not", True)

_NO_LOCK = "no graphics card is shared here"
_NO_BLOCKS = "memory of convolutions is planned when they are compiled"
_NO_ENGINE = "networks are compiled"
LOCK_GPU = ignored(truth("LockGPU", "keep other processes from the graphics card", True), _NO_LOCK)
CONVOLUTION_MEMORY = ignored(
    text("maxTempMemSizeInSamplesForCNN", "memory of convolutions", "0"), _NO_BLOCKS
)
ENGINE = ignored(text("executionEngine", "how a network is computed", "synchronous"), _NO_ENGINE)

TOP_KEYS: tuple[Key[object], ...] = (
    COMMAND,
    PRECISION,
    TYPE,
    DEVICE,
    STDERR,
    THREADS,
    DONE_FILE,
    TRACE_LEVEL,
    PARALLEL,
    MAKE_MODE,
    LOCK_GPU,
    CONVOLUTION_MEMORY,
    ENGINE,
)


def computing_options(top: Scope, given: CompileOptions) -> CompileOptions:
    """The options that the keys of the top level change. GraphcError for a device that is none."""
    key = PRECISION if top.find(PRECISION.name) is not None else TYPE
    threads = THREADS.of(top)
    if threads > MAX_THREADS:
        raise top.require(THREADS.name).fail(f"at most {MAX_THREADS} threads, got {threads}")
    return CompileOptions(
        backend=_backend(top.find(DEVICE.name), given.backend),
        precision=key.of(top),
        threads=threads or given.threads,
        cache=given.cache,
        contraction=given.contraction,
        launch=given.launch,
    )


def asks_for_members(top: Scope) -> bool:
    """Whether all processes that were started run the commands together. By default they do, as
    those of later versions: several would write the same files."""
    asked = PARALLEL.of(top)
    return started() > 1 if asked is None else asked


def _backend(device: Value | None, given: str) -> str:
    """What computes on the device. GraphcError for one that is none, or that is not there."""
    word = "auto" if device is None else device.text().lower()
    if word in ("cpu", "-1"):
        return given
    missing = BACKENDS[GPU]().missing()
    if word == "auto":
        return given if missing or given != DEFAULT_BACKEND else GPU
    assert device is not None
    if not word.isdecimal() and word != "*":
        raise device.fail(f"`deviceId` requires auto, cpu or a number, got `{word}`")
    if missing:
        message = f"`deviceId={word}` requires a GPU: {missing}; write deviceId=cpu"
        raise fail("backend", message, device.span)
    if word != "0":
        message = f"the first GPU computes, got `deviceId={word}`: CUDA_VISIBLE_DEVICES says which"
        raise fail("not-supported", f"{message} is the first", device.span)
    return GPU
