"""What algorithms write their loops with: one method for each instruction, loop and function.

A `Writer` is the body of one function in the making, a `ModuleWriter` the functions of one module.
An implementation of the two, in whatever language, gets all algorithms of this package:
`backends/llvm/text.py` writes LLVM IR, `backends/c/text.py` writes C.

Values are assigned once. All operands of an instruction have the same number of lanes, and there
are no implicit conversions. No writer may reorder, contract or relax arithmetic on floats: each
instruction is rounded once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, TypeVar

from graphc.backends.loops.values import LaneType, Val
from graphc.support.diagnostics import InternalError

T = TypeVar("T")

Integral = Literal["add", "sub", "mul", "sdiv", "udiv", "urem", "add nsw", "sub nsw", "mul nsw"]
Binary = (
    Integral | Literal["fadd", "fsub", "fmul", "fdiv", "and", "or", "xor", "shl", "lshr", "ashr"]
)
"""Integers wrap around, except with `nsw`, where the writer may assume that they do not."""
IntegerOrder = Literal["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
Order = IntegerOrder | Literal["oeq", "une", "olt", "ole", "ogt", "oge", "uno"]
"""s and u: signed and unsigned integers; o and u of floats: false and true where one is nan."""
Conversion = Literal["sext", "zext", "trunc", "bitcast", "fpext", "fptrunc", "sitofp", "uitofp"]
FunctionName = Literal["fabs", "sqrt", "copysign", "fma", "fshl"]


class Turn:
    """The inside of a loop: its index, and the values that it carries.

    `carried` holds the values of this iteration. The body replaces them by those of the next one;
    after the loop it holds the final values.
    """

    def __init__(self, index: Val, carried: list[Val]) -> None:
        self.index = index
        self.carried = carried


class Writer(ABC):
    """The body of one function."""

    @property
    @abstractmethod
    def module(self) -> ModuleWriter:
        """What the function is a part of."""

    # --- elements

    @abstractmethod
    def binary(self, op: Binary, a: Val, b: Val) -> Val: ...

    @abstractmethod
    def negate(self, a: Val) -> Val:
        """Of floats; the sign of nan and 0 too."""

    @abstractmethod
    def compare(self, order: Order, a: Val, b: Val) -> Val:
        """Truth values, one per lane."""

    @abstractmethod
    def select(self, condition: Val, a: Val, b: Val) -> Val:
        """a where the condition holds, b elsewhere; one condition, or one for each lane."""

    @abstractmethod
    def convert(self, how: Conversion, a: Val, type_: LaneType) -> Val: ...

    @abstractmethod
    def saturate(self, a: Val, type_: LaneType) -> Val:
        """Floats to integers: towards zero, the nearest integer where there is none, nan to 0."""

    @abstractmethod
    def function(self, name: FunctionName, *arguments: Val) -> Val:
        """Of arguments of one type, which is the result's; `fshl` shifts the pair of the first two
        to the left and keeps the upper half."""

    @abstractmethod
    def scale(self, a: Val, exponent: Val) -> Val:
        """a 2^exponent of whole vectors of 512 bits, rounded once; the exponents are whole numbers
        of a's type. Of machines that have an instruction for it."""

    @abstractmethod
    def leading_zeros(self, a: Val) -> Val:
        """Of an i64; 64 for zero."""

    @abstractmethod
    def fold_truth(self, how: Literal["and", "or"], a: Val) -> Val:
        """All lanes of truth values to one."""

    # --- lanes

    @abstractmethod
    def splat(self, a: Val, lanes: int) -> Val:
        """A scalar in every lane."""

    @abstractmethod
    def gather(self, values: Sequence[Val]) -> Val:
        """One vector of several scalars."""

    @abstractmethod
    def extract(self, a: Val, lane: int) -> Val:
        """One lane."""

    @abstractmethod
    def shuffle(self, a: Val, b: Val | None, order: Sequence[int]) -> Val:
        """The lanes with these numbers, counted through a and then b."""

    # --- numbers of bf16, of a machine that `dots_bf16`

    def to_bf16(self, a: Val, b: Val) -> Val:
        """The numbers of two vectors rounded to bf16, as i16: those of a, then those of b."""
        raise InternalError("what is written here has no numbers of bf16")

    def dot_bf16(self, sums: Val, a: Val, b: Val) -> Val:
        """Lanes of a and b are i32 with a number in either half: the product of the upper halves is
        added to the sum, rounded to f32, then that of the lower ones. Denormals are 0."""
        raise InternalError("what is written here has no products of bf16")

    # --- registers of AMX, of a machine that `has_amx`: 16 rows of 64 bytes each, by their numbers

    def amx_permission(self) -> Val:
        """Asks the system for the use of the registers by this process: a truth value."""
        raise InternalError("what is written here has no registers of AMX")

    def amx_configure(self, address: Val) -> None:
        """Sets the shape of all registers, which are 0 then, to the 64 bytes at the address."""
        raise InternalError("what is written here has no registers of AMX")

    def amx_release(self) -> None:
        """Ends their use."""
        raise InternalError("what is written here has no registers of AMX")

    def amx_zero(self, number: int) -> None:
        raise InternalError("what is written here has no registers of AMX")

    def amx_load(self, number: int, address: Val, pitch: Val) -> None:
        """The rows are so many bytes apart."""
        raise InternalError("what is written here has no registers of AMX")

    def amx_store(self, number: int, address: Val, pitch: Val) -> None:
        raise InternalError("what is written here has no registers of AMX")

    def amx_dot(self, sums: int, a: int, b: int) -> None:
        """Adds the sums of products of pairs: rows of a, and rows of b that are one pair of steps
        each. Denormals are 0."""
        raise InternalError("what is written here has no registers of AMX")

    # --- memory

    @abstractmethod
    def offset(self, base: Val, element: str, position: Val, *, inside: bool = True) -> Val:
        """The address of an element of an array; not `inside`: it may lie beyond the array."""

    @abstractmethod
    def load(self, type_: LaneType, address: Val, align: int) -> Val: ...

    @abstractmethod
    def store(self, value: Val, address: Val, align: int) -> None: ...

    @abstractmethod
    def load_masked(self, type_: LaneType, address: Val, align: int, mask: Val) -> Val:
        """Zeros where the mask is false; nothing is read there."""

    @abstractmethod
    def store_masked(self, value: Val, address: Val, align: int, mask: Val) -> None: ...

    @abstractmethod
    def prefetch(self, address: Val, *, writes: bool = False, level: int = 2) -> None:
        """Prefetches the cache line of an address, which need not be valid: to be read into the
        cache of a level, or to be written into the first."""

    @abstractmethod
    def in_register(self, address: Val) -> Val:
        """The same address. Loops behind it find it in a register, where compilers would otherwise
        add it up from another one in every turn."""

    @abstractmethod
    def stack_array(self, element: str, count: int, align: int) -> Val:
        """Memory until the function ends. Before all loops and branches only."""

    @abstractmethod
    def stack_words(self) -> tuple[Val, Callable[[int], None]]:
        """The address of eight-byte words on the stack, and what says at the end how many: none
        are reserved for 0. Before all loops and branches only."""

    # --- control

    @abstractmethod
    def guarded_loop(
        self, start: Val, stop: Val, step: int, carried: Sequence[Val]
    ) -> AbstractContextManager[Turn]:
        """Iterates over start, start + step, … below stop; never if start is not below stop."""

    @abstractmethod
    def when(self, condition: Val, carried: list[Val]) -> AbstractContextManager[list[Val]]:
        """Runs the block if the condition holds; `carried` then holds the merged values."""

    # --- calls

    @abstractmethod
    def remark(self, text: str) -> None:
        """A comment in the output on what the next instructions and functions are for."""

    @abstractmethod
    def invoke(self, function: str | Val, arguments: Iterable[Val]) -> None:
        """A call without a result, of a function of the module or through a pointer."""

    @abstractmethod
    def invoke_for(
        self, function: str | Val, arguments: Iterable[Val], types: Sequence[LaneType]
    ) -> list[Val]:
        """A call of a function that gives values: of the module, or through a pointer."""

    @abstractmethod
    def leave(self, results: Sequence[Val] = ()) -> None:
        """The end of the function, with what it gives."""


class ModuleWriter(ABC):
    """The functions and constants of one module, in order of first use."""

    def __init__(self) -> None:
        self._made: dict[Hashable, object] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of `make`, which is called once for each key: equal operations, most of those
        of a deep network, share one function."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]  # type: ignore[return-value]  # of a key always the same type

    @abstractmethod
    def body(self) -> Writer:
        """A function in the making."""

    @abstractmethod
    def data(self, content: bytes, align: int) -> str:
        """The name of read-only bytes; equal bytes are emitted once."""

    @abstractmethod
    def parallel_for(self) -> str:
        """The name of `void (ptr pool, ptr task, ptr context, i64 count)`, which has the chunks of
        an operation computed (`parallel_for.py`)."""

    @abstractmethod
    def add(
        self,
        hint: str,
        parameters: Sequence[Val],
        body: Writer,
        *,
        results: Sequence[LaneType] = (),
        long_stack: bool = False,
        only_calls: bool = False,
    ) -> str:
        """The name of a function seen only in this module; equal bodies share one function.

        long_stack  its arrays may be longer than the guard page at the end of the stack, so each
                    page is probed
        only_calls  all work is done in its callees, so optimising it gains nothing
        """
