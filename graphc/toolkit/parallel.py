"""The block `ParallelTrain` in `SGD`: how members train, where `parallelTrain` asks for them.

Names and values are those of the toolkit, later ones too. What the sums of gradients and the
averages of parameters are is graphc's own (docs/members.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from graphc.config.keys import Key, ignored, integer, number, optional, truth
from graphc.config.lookup import Scope, Value
from graphc.ir.types import DType
from graphc.learn.averaging import Averaging, BlockMomentum, ModelAveraging
from graphc.runtime.communicators.communicator import Communicator, Wire, sending
from graphc.support.diagnostics import GraphcError
from graphc.toolkit.action import Block, Session

Method = Literal["none", "DataParallelSGD", "ModelAveragingSGD", "BlockMomentumSGD"]
METHODS: tuple[Method, ...] = ("none", "DataParallelSGD", "ModelAveragingSGD", "BlockMomentumSGD")


def _read_method(value: Value) -> Method:
    word = value.text()
    for method in METHODS:
        if method.lower() == word.lower():
            return method
    if word.lower() == "dataparallelasgd":
        raise value.fail("members that do not wait for each other are not there", "not-supported")
    raise value.fail(f"`{value.key}` requires one of {', '.join(METHODS)}, got `{word}`")


METHOD = optional(
    Key(
        "parallelizationMethod",
        f"one of {', '.join(METHODS)}",
        "what members do; that of the set which is there, otherwise DataParallelSGD",
        _read_method,
    )
)
START_EPOCH = integer("parallelizationStartEpoch", "before it each trains alone", 1, least=1)
READING = ignored(
    truth("distributedMBReading", "each member reads its part of the data", False),
    "every member reads all of the data, and takes its part",
)
STATS = integer("syncPerfStats", "lines of the log on every so many sums or averages", 0)

GRADIENT_BITS = optional(
    integer("gradientBits", "1, or as they are: 32, with precision=double 64", least=1)
)
ZERO_THRESHOLD = truth("useZeroThresholdFor1BitQuantization", "1 bit says what is negative", True)
BUFFERED = truth("useBufferedAsyncGradientAggregation", "sums of the minibatch before", False)

PERIOD = optional(integer("syncPeriod", "samples of a member from average to average", least=1))
FREQUENCY = optional(integer("syncFrequencyInFrames", "an older name of syncPeriod", least=1))
BLOCK_PER_WORKER = optional(integer("blockSizePerWorker", "a later name of syncPeriod", least=1))
BLOCK_SIZE = optional(integer("blockSize", "the same as samples of all members", least=1))
OLD_STATS = integer("MAPerfStats", "an older name of syncPerfStats", 0)

RESET = truth("resetSGDMomentum", "the momentum of SGD begins anew after an average", True)
NESTEROV = truth("useNesterovMomentum", "blocks begin where their momentum would lead", True)
BLOCK_RATE = number("blockLearningRate", "factor of the way to an average", 1.0)
PER_SYNC = optional(number("blockMomentumPerSync", "momentum from block to block; 1 - 1/members"))
TIME_CONSTANT = optional(
    number("blockMomentumAsTimeConstant", "the same, as samples after which it is 1/e")
)

_PERIODS = (PERIOD, FREQUENCY, BLOCK_PER_WORKER, BLOCK_SIZE)
PARALLEL_BLOCK = Block(
    "ParallelTrain",
    (METHOD, START_EPOCH, READING, STATS),
    "in SGD: how members train, where parallelTrain=true",
)
DATA_PARALLEL = Block(
    "DataParallelSGD",
    (GRADIENT_BITS, ZERO_THRESHOLD, BUFFERED),
    "in ParallelTrain: members add their gradients",
)
MODEL_AVERAGING = Block(
    "ModelAveragingSGD",
    (*_PERIODS, OLD_STATS),
    "in ParallelTrain: each member trains by itself, and parameters are averaged now and then",
)
BLOCK_MOMENTUM = Block(
    "BlockMomentumSGD",
    (*_PERIODS, RESET, NESTEROV, BLOCK_RATE, PER_SYNC, TIME_CONSTANT),
    "in ParallelTrain: the same, with a momentum over averages",
)
BLOCKS = (PARALLEL_BLOCK, DATA_PARALLEL, MODEL_AVERAGING, BLOCK_MOMENTUM)
AVERAGED_EVERY, BLOCKS_EVERY = 40_000, 120_000


@dataclass(frozen=True)
class Parallel:
    """How a training goes on by members.

    member     this one of them, its gradients travelling as asked for
    averaging  where each trains by itself
    alone      epochs at the beginning that each trains as if it were the only one
    stats      lines of the log on every so many sums or averages; 0: none
    """

    member: Communicator
    averaging: Averaging | None = None
    alone: int = 0
    stats: int = 0


def planned_parallel(sgd: Scope, session: Session, epochs: int) -> Parallel | None:
    """What the block in a set `SGD` asks for, of a training of so many epochs; None where
    `parallelTrain` does not ask for members, and the block is left alone, as the toolkit did.

    GraphcError at the place of a value that cannot be, or that asks for what is not there.
    """
    block = sgd.own_section(PARALLEL_BLOCK.name)
    if session.member is None:
        if block is not None:
            _ask_all(block)
        return None
    if block is None:
        return Parallel(session.member)
    block.ask(*(key.name for key in PARALLEL_BLOCK.keys))
    READING.of(block)
    method, alone, stats = _method(block), START_EPOCH.of(block) - 1, STATS.of(block)
    if method == "none":
        return Parallel(session.member, alone=epochs, stats=stats)
    its = block.find_section(method)
    _ask_all(block)
    if its is None:
        its = block
    if method == "DataParallelSGD":
        member = sending(session.member, _wire(its, session.options.precision))
        return Parallel(member, None, alone, stats)
    size = session.member.size
    averaging = (
        ModelAveraging(_period(its, size) or AVERAGED_EVERY)
        if method == "ModelAveragingSGD"
        else _block_momentum(its, size)
    )
    if method == "ModelAveragingSGD":
        stats = stats or OLD_STATS.of(its)
    return Parallel(session.member, averaging, alone, stats)


def ignored_block(sgd: Scope, session: Session) -> str:
    """What is said where the block is there and nobody asks for members, otherwise ''."""
    if session.member is not None or sgd.own_section(PARALLEL_BLOCK.name) is None:
        return ""
    return "parallelTrain option is not enabled. ParallelTrain config will be ignored."


def _ask_all(block: Scope) -> None:
    """Note all keys of a block and of the sets in it, of which one alone is read."""
    block.ask(*(key.name for key in PARALLEL_BLOCK.keys))
    for other in BLOCKS[1:]:
        its = block.own_section(other.name)
        if its is not None:
            its.ask(*(key.name for key in other.keys))


def _method(block: Scope) -> Method:
    """The method that is named, or whose set is there."""
    method = METHOD.of(block)
    if method is not None:
        return method
    there: list[Method] = [name for name in METHODS if block.own_section(name) is not None]
    if len(there) > 1:
        raise block.missing(METHOD.name)
    return there[0] if there else "DataParallelSGD"


def _wire(block: Scope, precision: DType) -> Wire:
    """What gradients travel as."""
    if BUFFERED.of(block):
        raise _not_there(block, BUFFERED, "sums of gradients are waited for")
    bits, all_of = GRADIENT_BITS.of(block), 64 if precision is DType.F64 else 32
    if bits is None or bits in (32, all_of):
        return "full"
    if bits != 1:
        message = f"`{GRADIENT_BITS.name}` requires 1 or {all_of}, got {bits}"
        slug = "not-supported" if bits < all_of else "bad-value"
        raise block.require(GRADIENT_BITS.name).fail(message, slug)
    if not ZERO_THRESHOLD.of(block):
        raise _not_there(block, ZERO_THRESHOLD, "1 bit says whether a number is negative")
    return "1bit"


def _not_there(block: Scope, key: Key[object], instead: str) -> GraphcError:
    value = block.require(key.name)
    return value.fail(f"`{key.name}={value.text()}` is not there: {instead}", "not-supported")


def _period(block: Scope, members: int) -> int | None:
    """The samples that a member trains from average to average; None: nothing says how many."""
    given = [key for key in _PERIODS if block.find(key.name) is not None]
    if len(given) > 1:
        names = ", ".join(key.name for key in given)
        raise block.require(given[1].name).fail(f"one of {names} is required")
    if not given:
        return None
    samples = given[0].of(block)
    if samples is None or given[0] is not BLOCK_SIZE:
        return samples
    if samples < members:
        message = f"`{BLOCK_SIZE.name}` requires a sample of each of {members} members"
        raise block.require(BLOCK_SIZE.name).fail(f"{message}, got {samples}")
    return samples // members


def _block_momentum(block: Scope, members: int) -> BlockMomentum:
    period = _period(block, members) or BLOCKS_EVERY
    rate = BLOCK_RATE.of(block)
    if not 0 < rate < math.inf:
        value = block.require(BLOCK_RATE.name)
        raise value.fail(f"`{BLOCK_RATE.name}` requires a number above 0, got {rate:g}")
    momentum = PER_SYNC.of(block)
    if momentum is not None and not 0 <= momentum < 1:
        value = block.require(PER_SYNC.name)
        raise value.fail(f"`{PER_SYNC.name}` requires a number from 0 to below 1, got {momentum:g}")
    constant = TIME_CONSTANT.of(block)
    if constant is not None:
        value = block.require(TIME_CONSTANT.name)
        if momentum is not None:
            raise value.fail(f"one of {PER_SYNC.name} and {TIME_CONSTANT.name} is required")
        if not 0 <= constant < math.inf:
            message = f"`{TIME_CONSTANT.name}` requires a number of at least 0, got {constant:g}"
            raise value.fail(message)
        momentum = _faded(constant, block, period, members)
    return BlockMomentum(period, momentum, rate, nesterov=NESTEROV.of(block), reset=RESET.of(block))


def _faded(constant: float, block: Scope, period: int, members: int) -> float:
    """The momentum after a block that is 1/e after so many samples: of one member, or where the
    block's size is said in later words, of all."""
    is_later = any(block.find(key.name) is not None for key in (BLOCK_PER_WORKER, BLOCK_SIZE))
    samples = period * members if is_later else period
    return math.exp(-samples / constant) if constant else 0.0
