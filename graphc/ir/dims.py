"""Sizes of axes: numbers, and symbols that calls decide or that are made of others.

    dim T <= 64            decided by each call
    dim N = T * S          a product
    dim C = T / 8          a part: every call has a multiple of 8
    dim P = (T - 1) / 2    a sum, and what stands in parentheses divided and rounded down

Arithmetic on sizes gives sizes in one normal form, so that two ways to the same size meet:

    product   number · Π atoms, where an atom is a dim of a call, a quotient, or a sum without a
              common factor
    sum       constant + Σ number · Π atoms, as one quotient where a quotient is among its terms
    quotient  sum / number, the number without a factor that all terms have

    (T - 3) / 2 + 1  =  (T - 1) / 2          ((T - 1) / 2 - 3) / 2 + 1  =  (T - 3) / 4
    2 * (T + 1)      =  T * 2 + 2            T + U - T  =  U

A dim may be known to be a multiple of a number, its step. What is divided by a part of that number
then is a part, not a quotient, and calls of other sizes are refused:

    dim H <= 64 step 4      (H) / 2 * 2  =  H          (H - 1) / 2 + 1  =  H / 2

Sizes of the same form are equal in every call, whatever they are called. Products of sums are not
multiplied out, and sums of several quotients stay sums of some with nothing whole in them: where
such sizes are equal in another way, that cannot be shown, and what requires it refuses them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import TypeGuard

from graphc.support.size_formula import SizeFormula, SizeTerm

DIM_NAME = re.compile(r"[A-Z][A-Z0-9]*")
"""What the name of a dimension has to match in full: no small `x`, which separates sizes."""


@dataclass(frozen=True, slots=True)
class Term:
    """A whole number times the product of some dims."""

    times: int
    factors: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Symbol:
    """A dimension known at the call, at most `bound`. Memory is planned for the bound.

    Without terms the call decides it; else it is (Σ terms + constant) / divisor, rounded down. A
    call in which the sum is negative is an error.

    exact  the division leaves no remainder, as steps do that are cut into segments: a call where it
           does is an error. There is one term then
    step   of a dim without terms: its sizes are multiples of it
    """

    name: str
    bound: int
    terms: tuple[Term, ...] = ()
    constant: int = 0
    divisor: int = 1
    exact: bool = False
    step: int = 1

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @property
    def is_made(self) -> bool:
        """Whether it follows from others."""
        return bool(self.terms)

    @property
    def factors(self) -> tuple[Symbol, ...]:
        """The dims that it is the product of, as the columns of a minibatch of sequences are, or a
        multiple or part of their product; none where it is no product."""
        return self.terms[0].factors if self.is_product else ()

    @property
    def is_product(self) -> bool:
        single = len(self.terms) == 1 and not self.constant
        return single and (self.exact or self.divisor == 1)

    @property
    def parts(self) -> tuple[Symbol, ...]:
        """The dims that it is made of, each once."""
        return tuple(dict.fromkeys(f for term in self.terms for f in term.factors))

    @property
    def formula(self) -> SizeFormula | None:
        """How it follows from others, by name."""
        if not self.terms:
            return None
        terms = (SizeTerm(t.times, tuple(f.name for f in t.factors)) for t in self.terms)
        return SizeFormula(tuple(terms), self.constant, self.divisor, self.exact)

    # --- the same size by another name is the same ------------------------------------------------

    def _form(self) -> tuple[object, ...]:
        if not self.terms:
            return (self.name, self.bound, self.step)
        terms = frozenset((t.times, frozenset(Counter(t.factors).items())) for t in self.terms)
        return (terms, self.constant, self.divisor, self.exact)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Symbol) and self._form() == other._form()

    def __hash__(self) -> int:
        return hash(self._form())

    # --- arithmetic, with sizes alone -------------------------------------------------------------

    def __add__(self, other: object) -> Dim:
        return size_sum([self, other]) if _is_size(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: object) -> Dim:
        return size_difference(self, other) if _is_size(other) else NotImplemented

    def __rsub__(self, other: object) -> Dim:
        return size_difference(other, self) if _is_size(other) else NotImplemented

    def __mul__(self, other: object) -> Dim:
        return size_product([self, other]) if _is_size(other) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> Dim:
        if isinstance(other, Symbol):
            whole = size_quotient([self], [other])
            return NotImplemented if whole is None else whole
        return size_floor(self, other) if _is_number(other) and other > 0 else NotImplemented

    def __mod__(self, other: object) -> Dim:
        if not _is_number(other) or other < 1:
            return NotImplemented
        return size_difference(self, size_product([other, size_floor(self, other)]))


Dim = int | Symbol


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral)


def _is_size(value: object) -> TypeGuard[Dim]:
    return isinstance(value, Symbol) or _is_number(value)


def bound_of(dim: Dim) -> int:
    """The largest value that the dimension can take."""
    return dim.bound if isinstance(dim, Symbol) else dim


def bound_elements(dims: Iterable[Dim]) -> int:
    """Number of elements of an array with these dims, every symbol at its bound."""
    return math.prod(map(bound_of, dims))


def size_text(dim: Dim) -> str:
    """The size as a message shows it: what it is made of."""
    formula = dim.formula if isinstance(dim, Symbol) else None
    return str(dim) if formula is None else str(formula)


def is_never_negative(dim: Dim) -> bool:
    """Whether that holds for all sizes at all, so that no call has to be looked at."""
    if isinstance(dim, int):
        return dim >= 0
    adds = all(term.times > 0 for term in dim.terms)
    return adds and dim.constant >= 0 and all(map(is_never_negative, dim.parts))


def dims_behind(symbol: Symbol) -> list[Symbol]:
    """The dim and all that it is made of, those that others are made of first."""
    return [*(d for part in symbol.parts for d in dims_behind(part)), symbol]


# --- dims of the text form -----------------------------------------------------------------------


def product_of(name: str, factors: Iterable[Symbol], divisor: int = 1, times: int = 1) -> Symbol:
    """The dim whose size is always the product of theirs · `times` / `divisor`."""
    parts = tuple(factors)
    bound = math.prod(f.bound for f in parts) * times // divisor
    return Symbol(name, bound, (Term(times, parts),), 0, divisor, divisor != 1)


def part_of(name: str, whole: Symbol, divisor: int, times: int = 1) -> Symbol:
    """The dim whose size is always that of `whole` · `times` / `divisor`."""
    return product_of(name, (whole,), divisor, times)


def sizes_with_made(sizes: Mapping[str, int], dims: Iterable[Symbol]) -> dict[str, int]:
    """`sizes` and those of the dims that follow from them; less than 0 where there is no such
    size."""
    found = dict(sizes)
    for dim in dims:
        if (formula := dim.formula) is not None:
            found[dim.name] = formula.value(found)
    return found


# --- products ------------------------------------------------------------------------------------


def size_product(dims: Iterable[Dim]) -> Dim:
    """The product of sizes; where symbols are among them a symbol that is made of them."""
    return _product(*_factorised(dims))


def size_quotient(whole: Iterable[Dim], part: Iterable[Dim]) -> Dim | None:
    """The product of `whole` divided by that of `part`, where that is whole for all sizes: of
    symbols only those that `whole` has; None where it is not."""
    (count, symbols), (divisor, others) = _factorised(whole), _factorised(part)
    if not divisor or not count:
        return 0 if divisor else None
    for symbol in others:
        if symbol not in symbols:
            return None
        symbols.remove(symbol)
    rest = count / divisor
    is_whole = rest.denominator == 1 or (rest > 0 and _is_whole(rest, symbols))
    return _product(rest, symbols) if is_whole else None


def _factorised(dims: Iterable[Dim]) -> tuple[Fraction, list[Symbol]]:
    """A number and atoms whose product the dims have."""
    number, atoms, rest = Fraction(1), list[Symbol](), [*dims]
    while rest:
        dim = rest.pop()
        if not isinstance(dim, Symbol):
            number *= int(dim)
        elif dim.is_product:
            number *= Fraction(dim.terms[0].times, dim.divisor)
            rest.extend(dim.factors)
        elif dim.is_made and dim.divisor == 1:
            common = math.gcd(dim.constant, *(term.times for term in dim.terms))
            number *= common
            atoms.append(_scaled(dim, Fraction(1, common)))
        else:
            atoms.append(dim)
    return number, sorted(atoms, key=lambda atom: atom.name)


def _scaled(total: Symbol, number: Fraction) -> Symbol:
    """A sum times a number that leaves its terms whole."""
    if number == 1:
        return total
    terms = {t.factors: int(t.times * number) for t in total.terms}
    made = _total(int(total.constant * number), terms)
    assert isinstance(made, Symbol)
    return made


def _product(number: Fraction, atoms: Sequence[Symbol]) -> Dim:
    if not atoms or not number:
        return int(number)
    if number == 1 and len(atoms) == 1:
        return atoms[0]
    times, divisor = number.as_integer_ratio()
    if number < 0 and divisor != 1:
        return _combination([(times, _product(Fraction(1, divisor), atoms))])
    if number < 0:
        return (
            _combination([(times, atoms[0])])
            if len(atoms) == 1
            else _total(0, {tuple(atoms): times})
        )
    if len(atoms) == 1 and atoms[0].is_made and atoms[0].divisor == divisor == 1:
        return _scaled(atoms[0], number)
    name = _term_name(times, atoms) + (f"P{divisor}" if divisor != 1 else "")
    return product_of(name, atoms, divisor, times)


# --- sums and quotients --------------------------------------------------------------------------

_Terms = Mapping[tuple[Symbol, ...], int]
"""What each product of dims is multiplied by."""


def size_sum(dims: Iterable[Dim]) -> Dim:
    """The sum of sizes."""
    return _combination([(1, dim) for dim in dims])


def size_difference(whole: Dim, part: Dim) -> Dim:
    """What is left of a size without another; a number below 0 where that is more."""
    return _combination([(1, whole), (-1, part)])


def size_floor(dim: Dim, divisor: int) -> Dim:
    """A size divided by a number above 0, rounded down."""
    if not isinstance(dim, Symbol):
        return dim // divisor
    if dim.is_product:
        number, atoms = _factorised([dim])
        if number > 0 and _is_whole(number / divisor, atoms):
            return _product(number / divisor, atoms)
    constant, terms, inner = _linear(dim)
    return _combination([(1, _quotient(constant, terms, inner * divisor))])


def size_ceiling(dim: Dim, divisor: int) -> Dim:
    """A size divided by a number above 0, rounded up."""
    return size_floor(size_sum([dim, divisor - 1]), divisor)


def _is_whole(number: Fraction, factors: Sequence[Symbol]) -> bool:
    """Whether a number times dims of a call is whole, by what they are multiples of."""
    (more, atoms) = _factorised(factors)
    if any(atom.is_made for atom in atoms):
        return False
    return (number * more * math.prod(atom.step for atom in atoms)).denominator == 1


def _linear(dim: Dim) -> tuple[int, _Terms, int]:
    """Constant, terms and divisor."""
    if not isinstance(dim, Symbol):
        return int(dim), {}, 1
    if not dim.is_made or dim.exact:
        return 0, {(dim,): 1}, 1
    return dim.constant, {_sorted(t.factors): t.times for t in dim.terms}, dim.divisor


def _sorted(factors: Iterable[Symbol]) -> tuple[Symbol, ...]:
    return tuple(sorted(factors, key=lambda f: f.name))


def _is_quotient(factors: Sequence[Symbol]) -> bool:
    return len(factors) == 1 and factors[0].divisor != 1 and not factors[0].exact


def _combination(parts: Iterable[tuple[int, Dim]]) -> Dim:
    """The sum of sizes, each so many times."""
    constant, terms = 0, Counter[tuple[Symbol, ...]]()
    todo = [*parts]
    while todo:
        times, dim = todo.pop()
        own, those, divisor = _linear(dim)
        if divisor != 1:
            own, those, rest, sign = _without_whole(own, those, divisor)
            if isinstance(rest, Symbol) and rest.divisor == divisor:
                terms[(rest,)] += times * sign
            else:
                todo.append((times * sign, rest))
        constant += times * own
        for factors, count in those.items():
            if _is_quotient(factors):
                todo.append((times * count, factors[0]))
            else:
                terms[factors] += times * count
    return _total(constant, terms)


def _gathered(terms: _Terms) -> _Terms:
    """The same sum, in which parts of one product are one term: H / 2 + H / 2 is H."""
    if not any(f.exact for factors in terms for f in factors):
        return terms
    sums: dict[tuple[Symbol, ...], Fraction] = {}
    for factors, times in terms.items():
        number, atoms = _factorised(factors)
        sums[tuple(atoms)] = sums.get(tuple(atoms), Fraction(0)) + number * times
    made: dict[tuple[Symbol, ...], int] = {}
    for atoms, number in sums.items():
        unit = _product(Fraction(1, number.denominator), atoms)
        parts = (unit,) if number.denominator != 1 and isinstance(unit, Symbol) else atoms
        made[parts] = number.numerator
    return made


def _without_whole(constant: int, terms: _Terms, divisor: int) -> tuple[int, _Terms, Dim, int]:
    """A quotient as whole constant and terms, and ± a quotient of what is left: of the two that
    differ in the sign, ⌊a / d⌋ = -⌊(d - 1 - a) / d⌋, always the same one."""
    own, whole = constant // divisor, {f: n // divisor for f, n in terms.items()}
    least, left = constant % divisor, {f: n % divisor for f, n in terms.items() if n % divisor}
    other = {f: divisor - n for f, n in left.items()}
    order = [n for _, n in sorted(left.items(), key=_order)], least
    turned = [n for _, n in sorted(other.items(), key=_order)], divisor - 1 - least
    if order <= turned:
        return own, whole, _quotient(least, left, divisor), 1
    whole = {f: n + (f in left) for f, n in whole.items()}
    return own, whole, _quotient(divisor - 1 - least, other, divisor), -1


def _total(constant: int, terms: _Terms) -> Dim:
    """constant + Σ terms, where quotients among these have nothing whole; one alone takes in what
    is added to it, as far as its own number divides that, unless it is made of quotients itself:
    what it would take in could then have another form inside of it."""
    quotients = [factors for factors, n in terms.items() if n and _is_quotient(factors)]
    if len(quotients) != 1:
        return _quotient(constant, terms, 1)
    (quotient,), times = quotients[0], terms[quotients[0]]
    sign, each = (1, times) if times > 0 else (-1, -times)
    others = {f: n for f, n in terms.items() if f != (quotient,)}
    is_nested = any(map(_is_quotient, (t.factors for t in quotient.terms)))
    if is_nested or any(n % each for n in (constant, *others.values())):
        return _quotient(constant, terms, 1)
    divisor = quotient.divisor
    # -⌊a / d⌋ = ⌊(d - 1 - a) / d⌋
    inside = constant // each * divisor + sign * quotient.constant
    inside += divisor - 1 if sign < 0 else 0
    made = Counter({f: n // each * divisor for f, n in others.items()})
    for term in quotient.terms:
        made[_sorted(term.factors)] += sign * term.times
    return _times(each, _quotient(inside, made, divisor))


def _times(number: int, dim: Dim) -> Dim:
    return _product(Fraction(number), [dim]) if isinstance(dim, Symbol) else number * dim


def _quotient(constant: int, terms: _Terms, divisor: int) -> Dim:
    """(constant + Σ terms) / divisor, rounded down, in its normal form."""
    terms = {factors: times for factors, times in _gathered(terms).items() if times}
    common = math.gcd(divisor, *terms.values())
    constant, divisor = constant // common, divisor // common
    terms = {factors: times // common for factors, times in terms.items()}
    if not terms:
        return constant // divisor
    inner = [factors for factors in terms if _is_quotient(factors)]
    if divisor > 1 and len(inner) == 1 and terms[inner[0]] == 1:  # ⌊(⌊a / d⌋ + b) / e⌋
        return _quotient(*_with_inside(constant, terms, divisor, inner[0][0]))
    if divisor > 1 and all(_is_whole(Fraction(n, divisor), f) for f, n in terms.items()):
        parts = [(1 if n > 0 else -1, _part(abs(n), divisor, f)) for f, n in terms.items()]
        return _combination([(constant // divisor, 1), *parts])
    made = tuple(Term(n, f) for f, n in sorted(terms.items(), key=_order))
    if divisor == 1 and not constant and len(made) == 1 and made[0].times > 0:
        return size_product([made[0].times, *made[0].factors])
    most = constant + sum(max(t.times, 0) * bound_elements(t.factors) for t in made)
    return Symbol(_name(made, constant, divisor), max(most // divisor, 0), made, constant, divisor)


def _with_inside(
    constant: int, terms: _Terms, divisor: int, quotient: Symbol
) -> tuple[int, _Terms, int]:
    """Constant, terms and divisor of ⌊(quotient + rest) / divisor⌋ as one quotient."""
    each = quotient.divisor
    made = Counter({f: n * each for f, n in terms.items() if f != (quotient,)})
    for term in quotient.terms:
        made[_sorted(term.factors)] += term.times
    return constant * each + quotient.constant, made, divisor * each


def _part(times: int, divisor: int, factors: Sequence[Symbol]) -> Dim:
    """Dims times a number divided by another, which is whole."""
    number, atoms = _factorised(factors)
    return _product(number * Fraction(times, divisor), atoms)


def _order(term: tuple[tuple[Symbol, ...], int]) -> tuple[bool, tuple[str, ...]]:
    """What is added comes first, then by name."""
    factors, times = term
    return times < 0, tuple(f.name for f in factors)


def _name(terms: Sequence[Term], constant: int, divisor: int) -> str:
    """`TA1` for T + 1, `TM1Q2` for (T - 1) / 2, `MTA9` for 9 - T."""
    name = ""
    for term in terms:
        sign = "M" if term.times < 0 else "A" if name else ""
        name += sign + _term_name(abs(term.times), term.factors)
    if constant:
        name += f"{'M' if constant < 0 else 'A'}{abs(constant)}"
    return name + (f"Q{divisor}" if divisor != 1 else "")


def _term_name(times: int, factors: Sequence[Symbol]) -> str:
    name = "".join(f.name for f in factors)
    if times == 1:
        return name
    return f"{name}X{times}" if name[-1].isdigit() else f"{name}{times}"
