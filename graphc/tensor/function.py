"""`ArrayFunction`: a Python function of arrays, traced and compiled for each kind of arguments.

Called with arrays it compiles for their shapes and element types, or finds what it compiled before,
and computes. Called with traced values it puts its own trace into theirs, so functions of arrays
call each other, and derivatives of derivatives are functions like any other.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

import numpy as np

from graphc.backends.base import CompiledFunction
from graphc.backends.signature import make_signature
from graphc.driver.begun import Begun
from graphc.driver.cache_key import default_cache
from graphc.driver.compile import all_passes, compile_kept, computed_early, passed, run_passes
from graphc.driver.options import DEFAULT_BACKEND, CompileOptions, Part, parse_arithmetic
from graphc.driver.pipelines import OPTIMISE, early_parts, folding, kernels, rounding
from graphc.ir.clone import clone_function
from graphc.ir.core import Function, Module, Value
from graphc.ir.elements import DTYPES, as_array, lacking_name
from graphc.ir.printer import print_module
from graphc.ir.types import DType, Symbol, TensorType, TypeRuleError
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import Pass
from graphc.passes.merge_products import MergeProducts
from graphc.runtime.signature import ROLES_OF_MODEL, Signature
from graphc.runtime.threads import checked_threads, thread_count
from graphc.support.aligned import result_array
from graphc.support.arguments import texts
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.source import Location
from graphc.tensor.caller import caller_location, definition_location
from graphc.tensor.frozen import FrozenArguments
from graphc.tensor.promotion import Array, PlainArray, element_type, is_number
from graphc.tensor.tensor import Tensor
from graphc.tensor.tracing import Held, Trace, Traced, innermost
from graphc.tensor.trees import Structure, assembler, flatten, unflatten

FUNCTION = "main"
MakePython = Callable[["ArrayFunction"], Callable[..., object]]


@dataclass(frozen=True, slots=True)
class Static:
    """An argument that is no array: an int, a bool, a text, None. Another value traces again."""

    value: object
    kind: type  # 1, 1.0 and True are equal


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a function is traced for: its arguments' structure, their types, the default type."""

    structure: Structure
    leaves: tuple[TensorType | Static, ...]
    default: DType


@dataclass(frozen=True, eq=False)
class TracedFunction:
    """A function in the IR: arguments `x0`, `x1`, … by leaf, then `held0`, …

    outputs  the structure of the results; `places` has the result of each leaf, None for None
    """

    function: Function
    held: tuple[Held, ...]
    outputs: Structure
    places: tuple[int | None, ...]

    @property
    def held_arrays(self) -> dict[str, Array]:
        """By the names that they have as arguments; without values of another trace."""
        names = [a.name or "" for a in self.function.arguments[-len(self.held) :]]
        found = zip(names, self.held, strict=True) if self.held else ()
        return {name: h for name, h in found if isinstance(h, np.ndarray)}

    @property
    def result_types(self) -> list[TensorType]:
        return [v.type for v in self.function.returned if isinstance(v.type, TensorType)]


class ArrayFunction:
    """A function of arrays; `gc.function` and the transforms make it.

    backend    a name of `BACKENDS`
    precision  "f32", "f64", or f32 whose products round their factors: "tf32" (on a GPU, where it
               is faster) or "bf16" (everywhere); all floating-point arrays are converted to it;
               None: as they come
    threads    how many compute a call, `threads` from then on; None: as `runtime/threads.py` says
    freeze     names of arguments whose arrays stay as they are (`tensor/frozen.py`)
    """

    def __init__(
        self,
        python: Callable[..., object],
        backend: str,
        precision: str | None,
        threads: int | None = None,
        freeze: Sequence[str] = (),
    ) -> None:
        if not callable(python):
            raise fail(
                "argument-type",
                f"requires a function, got {type(python).__name__}",
                caller_location(),
            )
        functools.update_wrapper(self, python)
        self.python = python
        self.backend = backend
        self._precision_name = precision
        self.precision = None
        self._options = CompileOptions(backend, threads=threads)
        if precision is not None:
            self.precision, contraction = parse_arithmetic(precision, "fma")
            self._options = replace(self._options, contraction=contraction)
        self._frozen = FrozenArguments.of(python, freeze, caller_location()) if freeze else None
        self._traced: dict[Arguments, TracedFunction] = {}
        self._compiled: dict[object, Call] = {}
        self._derived: dict[object, ArrayFunction] = {}
        self._made_of: tuple[ArrayFunction, object, MakePython] | None = None
        known = python.location if isinstance(python, ArrayFunction) else None
        self.location = known or definition_location(python)

    def __copy__(self) -> ArrayFunction:
        """Itself, as of any function."""
        return self

    def __deepcopy__(self, _memo: dict[int, object]) -> ArrayFunction:
        return self

    def __reduce__(self) -> str:
        """For `pickle`: the name that it has in its module, as of any function."""
        name = getattr(self, "__qualname__", "")
        module = sys.modules.get(getattr(self, "__module__", ""))
        if functools.reduce(_attribute, name.split("."), module) is not self:
            raise fail(
                "not-supported",
                f"{self!r} cannot be pickled, its module does not have it under its own name: "
                "decorate a function of a module with @gc.function, and pickle that",
                self.location,
            )
        return name

    def __repr__(self) -> str:
        return f"<gc.function {getattr(self.python, '__name__', 'function')}>"

    def __call__(self, *arguments: object) -> Any:
        """The results for these arguments: arrays, plain floats, and containers of them."""
        if self._frozen is not None:
            given, rest = self._frozen.split(arguments)
            bound = self._frozen.bound(given, self._with_frozen)
            if bound is not None:
                return bound(*rest)
        fast = _fast_key(arguments)
        call = fast and self._compiled.get(fast[0])
        if fast and call:
            return call(fast[1])
        leaves, structure = flatten(arguments)
        trace = innermost(leaves)
        if trace is not None:
            return self._inlined(leaves, structure, trace)
        found, arrays = self._described(arguments)
        key = fast[0] if fast else found
        call = self._compiled.get(key)
        if call is None:
            made = self.traced(found)
            around = innermost(made.held)
            if around is not None:  # it uses values of a function that is being traced
                return self._inlined(leaves, structure, around)
            call = self._compiled[key] = self._compile(found, made)
        return call(arrays)

    @property
    def threads(self) -> int:
        """How many compute a call; results have the same bits for any number. May be set between
        calls: nothing is compiled again."""
        return thread_count(self._options.threads)

    @threads.setter
    def threads(self, threads: int) -> None:
        self._options = replace(self._options, threads=checked_threads(threads))
        for call in self._compiled.values():
            call.compiled.use_threads(threads)
        bound = self._frozen.functions if self._frozen is not None else ()
        for function in (*bound, *self._derived.values()):
            function.threads = threads

    def _with_frozen(self, python: Callable[..., object]) -> ArrayFunction:
        """A function that closes over the arrays of frozen arguments, with the same options."""
        made = ArrayFunction(python, self.backend, self._precision_name, self._options.threads)
        made.location = self.location
        return made

    def compiled_for(self, *arguments: object) -> tuple[Call, list[Array]]:
        """What a call with these arguments runs, and the arrays among them."""
        found, arrays = self._described(arguments)
        fast = _fast_key(arguments)
        key = fast[0] if fast else found
        if key not in self._compiled:
            self._compiled[key] = self._compile(found, self.traced(found))
        return self._compiled[key], arrays

    def ir(self, *arguments: object) -> str:
        """The text of the function in the IR, as it is traced for these arguments."""
        found, _ = self._described(arguments)
        return print_module(Module([self.traced(found).function]))

    def module_at(
        self, stage: Literal["tensor", "kernels", "schedule"], *arguments: object
    ) -> Module:
        """The function for these arguments: optimised, as the kernels that native code runs, or
        with their schedules for this machine."""
        found, _ = self._described(arguments)
        made = self.traced(found)
        module = Module([clone_function(made.function)])
        options = replace(self._options, backend=DEFAULT_BACKEND, freeze=bool(made.held))
        passes = self._optimising(options)
        if stage == "schedule":
            passes = all_passes(passes, options)
        elif stage == "kernels":
            passes = [*passes, *kernels()]
        run_passes(module, passes, default_context(), options)
        return module

    def derive(self, key: object, make: MakePython) -> ArrayFunction:
        """Another function made of this one, with its options; the same one for the same key."""
        if key not in self._derived:
            threads = self._options.threads
            made = ArrayFunction(make(self), self.backend, self._precision_name, threads)
            made.location = self.location
            made._made_of = (self, key, make)
            self._derived[key] = made
        return self._derived[key]

    def with_precision(self, precision: str) -> ArrayFunction:
        """This function in another precision, and with it those that it is made of."""
        if self._made_of is not None:
            base, key, make = self._made_of
            return base.with_precision(precision).derive(key, make)
        return ArrayFunction(self.python, self.backend, precision, self._options.threads)

    # --- tracing ---------------------------------------------------------------------------------

    def describe(self, leaves: Sequence[object], structure: Structure, default: DType) -> Arguments:
        """What to trace for."""
        try:
            found = tuple(self._leaf(x, default) for x in leaves)
        except TypeRuleError as problem:
            raise fail(problem.slug, problem.message, caller_location()) from None
        return Arguments(structure, found, default)

    def settled(self, arguments: Sequence[object]) -> tuple[Any, ...]:
        """The arguments with plain floats as arrays, of the type that they are traced with."""
        leaves, structure = flatten(tuple(arguments))
        if innermost(leaves) is None:
            dtype = (self.precision or default_type(leaves)).numpy
            leaves = [np.asarray(x, dtype) if _is_plain(x) else x for x in leaves]
        given = unflatten(structure, leaves)
        assert isinstance(given, tuple)
        return given

    def traced(self, arguments: Arguments) -> TracedFunction:
        """The function in the IR, from the cache if nothing of another trace is held by it."""
        made = self._traced.get(arguments)
        if made is None:
            made = self._trace(arguments)
            if not any(isinstance(h, Traced) for h in made.held):
                self._traced[arguments] = made
        return made

    def _leaf(self, given: object, default: DType) -> TensorType | Static:
        if isinstance(given, Traced):
            return self._in_precision(given.value.tensor)
        if _is_plain(given):
            return TensorType(np.shape(given), default)
        if isinstance(given, np.ndarray):
            return self._in_precision(TensorType(given.shape, element_type(given.dtype)))
        if given is None or isinstance(given, bool | int | str | np.integer | np.bool_):
            return Static(given, type(given))
        raise TypeRuleError(
            "requires arrays, numbers, texts, and tuples, lists and dicts of them, "
            f"got {type(given).__name__}",
            slug="argument-type",
        )

    def _in_precision(self, type: TensorType) -> TensorType:
        if self.precision is None or not type.dtype.is_float:
            return type
        return type.with_dtype(self.precision)

    def _trace(self, arguments: Arguments) -> TracedFunction:
        trace = Trace(FUNCTION, arguments.default, self.precision, self.location)
        leaves = [
            given.value
            if isinstance(given, Static)
            else Tensor(trace, trace.argument(f"x{i}", given))
            for i, given in enumerate(arguments.leaves)
        ]
        given = unflatten(arguments.structure, leaves)
        assert isinstance(given, tuple)
        try:
            results, outputs = flatten(run_traced(lambda: self.python(*given)))
            values = [lifted_result(r, trace, self.location) for r in results if r is not None]
        finally:
            trace.is_open = False
        if not values:
            raise fail("argument-type", "a function of arrays requires a result", self.location)
        count = iter(range(len(results)))
        places = tuple(None if r is None else next(count) for r in results)
        return TracedFunction(trace.finish(values), tuple(trace.held), outputs, places)

    def _inlined(self, leaves: Sequence[object], structure: Structure, trace: Trace) -> Any:
        found = self.describe(leaves, structure, trace.default)
        made = self.traced(found)
        given = [x for x, t in zip(leaves, found.leaves, strict=True) if isinstance(t, TensorType)]
        with trace.builder.at(caller_location()):
            values = trace.inline(made.function, [*given, *made.held])  # type: ignore[list-item]
        results = [None if p is None else Tensor(trace, values[p]) for p in made.places]
        return unflatten(made.outputs, results)

    # --- compiling -------------------------------------------------------------------------------

    def _described(self, arguments: Sequence[object]) -> tuple[Arguments, list[Array]]:
        """What to compile for, and the arrays among the leaves."""
        leaves, structure = flatten(tuple(arguments))
        found = self.describe(leaves, structure, self.precision or default_type(leaves))
        chosen = zip(leaves, found.leaves, strict=True)
        return found, [np.asarray(x) for x, t in chosen if isinstance(t, TensorType)]

    def _optimising(self, options: CompileOptions) -> list[Pass]:
        merge = MergeProducts(frozen=options.freeze)
        passes = [merge, *folding((), freeze=options.freeze), *pipeline(OPTIMISE)]
        passes += rounding(options.contraction)
        return [*passes, *early_parts(options.part, (), freeze=options.freeze)]

    def _compile(self, arguments: Arguments, made: TracedFunction) -> Call:
        held, source, begun = made.held_arrays, Module([made.function]), Begun()
        compiled, signature = self._compile_part(source, begun, "rest", freeze=bool(made.held))
        if any(name not in held for name in signature.model_names):
            early = self._compile_part(source, begun, "frozen", freeze=True)
            held = {**held, **computed_early(*early, held)}
        frozen = signature.model_arrays(held)
        types = [t for t in arguments.leaves if isinstance(t, TensorType)]
        return Call(
            compiled,
            [t.dtype.numpy for t in types],
            [frozen[a.name] for a in signature.arguments if a.role in ROLES_OF_MODEL],
            [(t.shape({}), t.dtype.numpy) for t in made.result_types],
            made.places,
            assembler(made.outputs),
        )

    def _compile_part(
        self, source: Module, begun: Begun, part: Part, *, freeze: bool
    ) -> tuple[CompiledFunction, Signature]:
        """What runs in a call, or ("frozen") once before all: what depends on held arrays alone,
        which nothing outside can change."""
        cache = default_cache()
        options = replace(self._options, cache=cache, begun=begun, freeze=freeze, part=part)
        passes = all_passes(self._optimising(options), options)

        def lowered() -> tuple[Function, Signature]:
            module, _ = passed(source, passes, options)
            (function,) = module.functions
            function.contraction = options.contraction
            return function, make_signature(module, function)

        return compile_kept(source, passes, lowered, options)


def _attribute(of: object, name: str) -> object:
    return getattr(of, name, None)


def run_traced(call: Callable[[], object]) -> object:
    """Make the call; `array[i] = traced` is our error, which numpy hides behind its own."""
    try:
        return call()
    except ValueError as problem:
        if isinstance(problem.__cause__, GraphcError):
            raise problem.__cause__ from None
        raise


def lifted_result(result: object, trace: Trace, location: Location) -> Value:
    """What a function of arrays gives, as a value of its trace."""
    if isinstance(result, Traced | np.ndarray | Symbol) or is_number(result):
        with trace.builder.at(location):
            try:
                return trace.lift_one(result)
            except TypeRuleError as problem:
                raise fail(problem.slug, problem.message, location) from None
    raise fail(
        "argument-type",
        f"a function of arrays requires arrays and numbers as results, alone or in tuples, "
        f"lists and dicts, got {type(result).__name__}",
        location,
    )


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """A compiled function with all that a call needs to know.

    frozen    arrays that it closes over, as its code reads them, and what was computed of them
    together  puts the leaves of the results into their structure
    """

    compiled: CompiledFunction
    dtypes: list[np.dtype]
    frozen: list[Array]
    results: list[tuple[tuple[int, ...], np.dtype]]
    places: tuple[int | None, ...]
    together: Callable[[list[Any]], object]

    def __call__(self, leaves: Sequence[object]) -> Any:
        """Run on the leaves that are arrays or plain floats."""
        arguments = [_ready(x, dtype) for x, dtype in zip(leaves, self.dtypes, strict=True)]
        results = [result_array(shape, dtype) for shape, dtype in self.results]
        self.compiled([*arguments, *self.frozen], results, {})
        made = [None if p is None else _number_or_array(results[p]) for p in self.places]
        return self.together(made)


def _ready(given: object, dtype: np.dtype) -> Array:
    """`given` as the contiguous array that compiled code reads; itself if it is one."""
    if type(given) is np.ndarray and given.dtype == dtype:
        flags = given.flags
        if flags.c_contiguous and flags.aligned:
            return given
    return as_array(np.asarray(given), DTYPES[dtype])  # what is too large for f32 is infinite


def _number_or_array(array: Array) -> Any:
    """numpy's scalar in place of an array without axes."""
    return array if array.ndim else array[()]


_FLOATS = (float, np.float64, np.float32)
_STATICS = (int, bool, str, type(None))


def _fast_key(arguments: Sequence[object]) -> tuple[object, list[object]] | None:
    """What tells kinds of arguments apart, and their arrays and plain floats, left to right.

    The same as `Arguments` at a tenth of the time; None where a leaf is something rarer.
    """
    key: list[object] = []
    arrays: list[object] = []
    rest: list[Any] = [*reversed(arguments)]
    while rest:
        x = rest.pop()
        kind = type(x)
        if kind is np.ndarray:
            key.append((x.shape, x.dtype))
            arrays.append(x)
        elif kind in _FLOATS:
            key.append(float)
            arrays.append(x)
        elif kind is tuple or kind is list:
            key.append((kind, len(x)))
            rest.extend(reversed(x))
        elif kind is dict:
            key.append((kind, *x))
            rest.extend(reversed(x.values()))
        elif kind in _STATICS:
            key.append((kind, x))
        else:
            return None
    return tuple(key), arrays


def _is_plain(leaf: object) -> TypeGuard[float | PlainArray]:
    """Whether a leaf is of floats whose type is that of what they meet."""
    if isinstance(leaf, PlainArray):
        return leaf.dtype.kind == "f"
    return isinstance(leaf, float | np.floating)


def _has_floats(array: Array) -> bool:
    name = lacking_name(array.dtype)
    return array.dtype.kind == "f" if name is None else DType(name).is_float


def default_type(leaves: Sequence[object]) -> DType:
    """The type of plain floats: f32 where all floating-point arrays are of it, else f64."""
    found = {
        x.dtype.itemsize
        for x in leaves
        if isinstance(x, np.ndarray) and _has_floats(x) and not _is_plain(x)
    }
    return DType.F32 if found and max(found) <= 4 else DType.F64


def function(
    python: Callable[..., object] | None = None,
    *,
    backend: str = DEFAULT_BACKEND,
    precision: str | None = None,
    threads: int | None = None,
    freeze: str | Sequence[str] = (),
) -> Any:
    """Make a compiled function of arrays out of a Python function; a decorator, also with options.

    Arguments are numpy arrays, plain floats (numbers without axes), and tuples, lists and dicts of
    them; ints, bools and texts are known while it is traced, so another value compiles again. It
    is compiled once for every combination of shapes and element types. Raises GraphcError at the
    user's line for what cannot be traced.

    threads  how many compute a call, `f.threads` from then on; by default what the variable
             GRAPHC_NUM_THREADS says, else one for each core (docs/threads.md)
    freeze   names of arguments whose arrays are given again and again and not written to: products
             find them in the form that they read fastest, and what depends on them alone is
             computed once. Another array, not another content, is looked at anew
    """
    names = texts(freeze, "freeze")
    if python is None:
        return lambda f: ArrayFunction(f, backend, precision, threads, names)
    return ArrayFunction(python, backend, precision, threads, names)


def as_function(given: object) -> ArrayFunction:
    """`given`, or the function of arrays that it makes."""
    if isinstance(given, ArrayFunction):
        return given
    if not callable(given):
        raise fail(
            "argument-type", f"requires a function, got {type(given).__name__}", caller_location()
        )
    return ArrayFunction(given, DEFAULT_BACKEND, None)
