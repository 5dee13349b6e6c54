"""What the functions share: the constants of the two float formats, and helpers over values."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from graphc.backends.loops.arithmetic import Arithmetic
from graphc.backends.loops.values import Val


@dataclass(frozen=True, slots=True)
class Format:
    """Constants of one float type.

    fraction_bits   stored bits of the significand
    bias            of the exponent
    magic           1.5 * 2^fraction_bits: adding it rounds to an integer, kept in the low bits
    ln2_high        ln 2 with enough trailing zeros that its product with an exponent is exact
    exp_range       outside, exp is 0 or infinity; a little wider than needed
    exp_terms       (e^r - 1 - r) / r^2, lowest order first, for abs r <= ln 2 / 2
    log_terms       f32: (log(1+f) - f + f^2/2) / f^3; f64: (2 atanh(s)/s - 2) / s^2 in s^2
    tanh_terms      (tanh(a)/a - 1) / a^2 in a^2, for a <= tanh_small
    tanh_one        from here on tanh is 1
    expm1_least     from here down e^x - 1 is -1
    erf_terms       erf(a)/a - 1 in a^2, for a <= 1
    erfc_log_terms  log(1 - erf(a)) in a, for a from 1 to erf_one
    erf_one         from here on erf is 1
    """

    fraction_bits: int
    bias: int
    magic: float
    ln2_high: float
    ln2_low: float
    exp_range: tuple[float, float]
    exp_terms: tuple[float, ...]
    log_terms: tuple[float, ...]
    tanh_terms: tuple[float, ...]
    tanh_small: float
    tanh_one: float
    expm1_least: float
    erf_terms: tuple[float, ...]
    erfc_log_terms: tuple[float, ...]
    erf_one: float


F32 = Format(
    fraction_bits=23,
    bias=127,
    magic=1.5 * 2.0**23,
    ln2_high=355 / 512,
    ln2_low=-2.1219444005469057e-4,
    exp_range=(-104.0, 89.0),
    exp_terms=(
        0.49999967217445374,
        0.1666652113199234,
        0.041674885898828506,
        0.008368715643882751,
        0.0013448193203657866,
    ),
    log_terms=(
        0.3333333134651184,
        -0.250008225440979,
        0.2000124603509903,
        -0.16623321175575256,
        0.14201419055461884,
        -0.13160233199596405,
        0.127635657787323,
        -0.07636546343564987,
    ),
    tanh_terms=(
        -0.3333331346511841,
        0.13332433998584747,
        -0.053835202008485794,
        0.02099732682108879,
        -0.006164469290524721,
    ),
    tanh_small=0.5625,
    tanh_one=10.0,
    expm1_least=-20.0,
    erf_terms=(
        0.12837916612625122,
        -0.3761262595653534,
        0.1128358319401741,
        -0.026853691786527634,
        0.005188073962926865,
        -0.0008007878204807639,
        7.846108201192692e-05,
    ),
    erfc_log_terms=(
        -0.0003534904099069536,
        -1.127040982246399,
        -0.6382240653038025,
        -0.10303881764411926,
        0.02180604264140129,
        -0.0029397981707006693,
        0.00018559471936896443,
    ),
    erf_one=4.0,
)

F64 = Format(
    fraction_bits=52,
    bias=1023,
    magic=1.5 * 2.0**52,
    ln2_high=6.93147180369123816490e-01,
    ln2_low=1.90821492927058770002e-10,
    exp_range=(-746.0, 710.0),
    exp_terms=(
        0.5,
        0.16666666666666682,
        0.04166666666666639,
        0.00833333333331729,
        0.0013888888889043779,
        0.00019841269896559327,
        2.4801587011348847e-05,
        2.7557234127709943e-06,
        2.755753234215532e-07,
        2.5112435783858457e-08,
        2.0838354399647915e-09,
    ),
    log_terms=(
        0.6666666666666735,
        0.39999999999409347,
        0.28571428743688737,
        0.22222198428698312,
        0.1818357236929971,
        0.15313831864250568,
        0.1479826052721947,
    ),
    tanh_terms=(
        -0.33333333333333276,
        0.1333333333332291,
        -0.05396825396162552,
        0.02186948832499508,
        -0.008863231606053772,
        0.00359208198194724,
        -0.0014554781445129338,
        0.0005881782332775056,
        -0.00023270397973818076,
        8.234521750493871e-05,
        -1.889521641330342e-05,
    ),
    tanh_small=0.5625,
    tanh_one=22.0,
    expm1_least=-40.0,
    erf_terms=(
        0.12837916709551256,
        -0.3761263890318346,
        0.11283791670942667,
        -0.026866170642932865,
        0.005223977604946496,
        -0.0008548325882207728,
        0.00012055292358631816,
        -1.4924691619583252e-05,
        1.644690237935005e-06,
        -1.6204717512713305e-07,
        1.37046384111151e-08,
        -7.768505780163688e-10,
    ),
    erfc_log_terms=(
        -3.002083013544502e-08,
        -1.1283788929145122,
        -0.6366208438310531,
        -0.10277048806402375,
        0.01912736254432723,
        0.0002033559742971095,
        -0.0016762082892659107,
        0.0005535144405373963,
        2.1155242657799694e-05,
        -0.0001102770409270421,
        6.451817757576226e-05,
        -2.418621207630796e-05,
        6.75488110908043e-06,
        -1.4624483637466572e-06,
        2.467261966531027e-07,
        -3.198369677208771e-08,
        3.0848661316400297e-09,
        -2.0873312896953453e-10,
        8.843176244179232e-12,
        -1.764770106690784e-13,
    ),
    erf_one=6.0,
)


def horner(s: Arithmetic, terms: tuple[float, ...], x: Val) -> Val:
    """The polynomial with these coefficients, lowest order first."""
    y = s.const(terms[-1], x)
    for term in reversed(terms[:-1]):
        y = s.fma(y, x, s.const(term, x))
    return y


def paired(s: Arithmetic, terms: tuple[float, ...], x: Val, square: Val) -> Val:
    """The same in half as many steps after each other: pairs of terms, then Horner in x^2."""
    pairs = [horner(s, terms[i : i + 2], x) for i in range(0, len(terms), 2)]
    y = pairs.pop()
    for pair in reversed(pairs):
        y = s.fma(y, square, pair)
    return y


def at_most(s: Arithmetic, limit: float, x: Val) -> Val:
    """The smaller of the two; nan stays nan. One instruction in this operand order."""
    bound = s.const(limit, x)
    return s.select(s.less(bound, x), bound, x)


def at_least(s: Arithmetic, limit: float, x: Val) -> Val:
    bound = s.const(limit, x)
    return s.select(s.greater(bound, x), bound, x)


def constants(s: Arithmetic, x: Val) -> Callable[[float], Val]:
    """A short name for constants of x's type."""

    def c(value: float) -> Val:
        return s.const(value, x)

    return c


def format_of(x: Val) -> Format:
    return F32 if x.type.element == "float" else F64


def bit_pattern(f: Format, value: float) -> int:
    if f is F32:
        return struct.unpack("<i", struct.pack("<f", value))[0]
    return struct.unpack("<q", struct.pack("<d", value))[0]


def wrapped(f: Format, value: int) -> int:
    """`value` as a signed integer of the format's size."""
    bits = 32 if f is F32 else 64
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
