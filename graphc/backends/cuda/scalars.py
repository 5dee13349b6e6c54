"""The scalar vocabulary of one thread: the formulas of the loops on processors, as CUDA C.

Mathematical functions are functions of the module, written once for each type by the code that
writes them for processors: no library is called, and a GPU gives the same bits. Those of f32 are
f32 throughout, but for `sin`, `cos` and `power`, which are computed in f64 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.text import CudaCode, text_of
from graphc.backends.loops import mathfunctions
from graphc.backends.loops.arithmetic import Arithmetic
from graphc.backends.loops.conversions import Conversions
from graphc.backends.loops.values import LaneType, Val, lane_type

_SHORT = {"float": "f32", "double": "f64"}
_FUNCTIONS: dict[str, Callable[..., Val]] = {
    name: getattr(mathfunctions, name) for name in mathfunctions.__all__
}


class DeviceScalars(Conversions):
    """`graphc.ir.scalar.Scalars` over values of one thread."""

    def __init__(self, code: CudaCode, *, contraction: str) -> None:
        super().__init__(code, has_fma=contraction != "off")
        self.thread = code
        self._at_most_zero: set[Val] = set()

    def note_at_most_zero(self, a: Val) -> None:
        """Says that a value is not above 0 (nan is not): its functions have less to do."""
        self._at_most_zero.add(a)

    def exp(self, a: Val) -> Val:
        return self._call("exp_of_at_most_zero" if a in self._at_most_zero else "exp", a)

    def _call(self, word: str, *arguments: Val) -> Val:
        type_ = arguments[0].type
        module = self.thread.module.cuda
        name = _function(module, word, type_, len(arguments), has_fma=self.has_fma)
        return self.thread.call(name, arguments, type_)

    def floor(self, a: Val) -> Val:
        return self.thread.value(a.type, f"floor{_suffix(a)}({self.thread.use(a)})")

    def random_uniform(self, counter: Val, key: Val) -> Val:
        return self.thread.call("random_uniform", (counter, key), lane_type("float"))

    def expm1(self, a: Val) -> Val:
        return self._call("expm1", a)

    def log(self, a: Val) -> Val:
        return self._call("log", a)

    def log1p(self, a: Val) -> Val:
        return self._call("log1p", a)

    def tanh(self, a: Val) -> Val:
        return self._call("tanh", a)

    def sigmoid(self, a: Val) -> Val:
        return self._call("sigmoid", a)

    def erf(self, a: Val) -> Val:
        return self._call("erf", a)

    def sin(self, a: Val) -> Val:
        return self._call("sin", a)

    def cos(self, a: Val) -> Val:
        return self._call("cos", a)

    def arctan(self, a: Val) -> Val:
        return self._call("arctan", a)

    def power(self, a: Val, b: Val) -> Val:
        return self._call("power", a, b)


def _suffix(a: Val) -> str:
    return "f" if a.type.element == "float" else ""


def _function(
    module: CudaModule, word: str, type_: LaneType, arguments: int, *, has_fma: bool
) -> str:
    """The name of a mathematical function of the module."""

    def make(name: str) -> str:
        code = CudaCode(module)
        given = [Val(f"a{i}", type_) for i in range(arguments)]
        made = _FUNCTIONS[word](Arithmetic(code, has_fma=has_fma), *given)
        code.leave([made])
        return text_of(name, given, code, [type_])

    rounded = "" if has_fma else "_rounded_twice"
    return module.function((word, type_, has_fma), f"{word}_{_SHORT[type_.element]}{rounded}", make)
