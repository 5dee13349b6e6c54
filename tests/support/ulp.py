"""Distances in units in the last place, and the samples on which functions are judged."""

from __future__ import annotations

import numpy as np

from graphc.ir.types import DType
from tests.support.libm import library_function

FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "arctan"),
    "power",
)

WORST: dict[str, tuple[float, ...]] = {
    "exp": (
        5.2443366050720215,
        -60.649658203125,
        5.227226257324219,
        -38.44715118408203,
        80.79826354980469,
        -81.43424224853516,
        -59.91357421875,
        70.4033203125,
        59.32179641723633,
        5.209968566894531,
        -5.866123676300049,
    ),
    "expm1": (
        15.656112670898438,
        70.42041015625,
        15.655333518981934,
        -0.34678247570991516,
        0.35674095153808594,
        -12.997909545898438,
        -0.27942609786987305,
        -0.0019279137486591935,
        -0.38411715626716614,
    ),
    "log": (
        1.3976421356201172,
        1.27606201171875,
        0.6987519264221191,
        1.2716920375823975,
        2.7164649963378906,
        2851.415771484375,
        713.1300048828125,
        3072604504064.0,
    ),
    "log1p": (
        0.45007386803627014,
        0.41476210951805115,
        0.3976421356201172,
        0.27606201171875,
        -0.3011970520019531,
        -0.30032819509506226,
        -0.3001546859741211,
        4.5991973876953125,
    ),
    "tanh": (
        0.5708406567573547,
        -0.5743754506111145,
        0.5765275955200195,
        -0.5765275955200195,
        2.006366729736328,
        -2.006366729736328,
        -0.0018625216325744987,
        2.9168162996029423e-08,
        0.5664228200912476,
        0.565440833568573,
    ),
    "sigmoid": (
        -5.542755126953125,
        -1.95547616481781,
        -15.537652969360352,
        6.930586338043213,
        8.317645072937012,
        1.9509000778198242,
        -0.49679994583129883,
        -4.157293796539307,
    ),
    "erf": (
        -1.0800029039382935,
        1.0675163269042969,
        -1.0675163269042969,
        1.059000015258789,
        -1.059000015258789,
        -1.0673308372497559,
        1.0660308599472046,
        4.137048411551686e-38,
        0.9945770502090454,
        0.9983187913894653,
    ),
    "sin": (
        -6.674996136476343e23,
        2.3998882574963552e24,
        1.7734574260297447e31,
        -1.7734574260297447e31,
        2.239579704015192e18,
        -17847.62109375,
        141.609130859375,
        -141.609130859375,
    ),
    "cos": (
        2.373402457201925e20,
        -4.8215713532488974e20,
        2879573708505088.0,
        -2879573708505088.0,
        -40488169472.0,
        -7.593538103623448e29,
        2.618219004572187e29,
        -2.618219004572187e29,
    ),
    "arctan": (
        0.6951062083244324,
        0.7220023274421692,
        -0.7105013728141785,
        0.6910499930381775,
        -0.12532596290111542,
    ),
}
"""Operands of f32 at which the bench found the largest errors, on targets with and without FMA."""

LIMITS = {
    "exp": (1.0, 1.0),
    "expm1": (2.0, 2.0),
    "log": (0.9, 0.9),
    "log1p": (1.5, 1.5),
    "tanh": (1.5, 1.5),
    "sigmoid": (2.5, 2.5),
    "erf": (1.5, 1.5),
    "sin": (0.51, 0.85),
    "cos": (0.51, 0.85),
    "arctan": (0.9, 0.9),
    "power": (0.51, 1.15),
}
"""The largest error, in units in the last place, that is allowed in f32 and in f64."""


def limit_of(name: str, dtype: DType) -> float:
    return LIMITS[name][dtype is DType.F64]


def exact(name: str, *operands: np.ndarray) -> np.ndarray:
    """The function in the next wider type: f64 for f32, the 80-bit type for f64."""
    wide = np.float64 if operands[0].dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        wider = [x.astype(wide) for x in operands]
        if name == "sigmoid":
            return 1 / (1 + library_function("exp", -wider[0]))
        return library_function(name, *wider)


def ulp_distance(got: np.ndarray, exact_value: np.ndarray) -> np.ndarray:
    """abs(got - exact) in units in the last place of the rounded exact value.

    Zero where both are the same infinity or both nan, nan where only one of them is.
    """
    with np.errstate(all="ignore"):
        rounded = exact_value.astype(got.dtype)
        unit = np.spacing(np.abs(rounded)).astype(exact_value.dtype)
        distance = np.abs(got.astype(exact_value.dtype) - exact_value) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(rounded), 0, distance)


def largest_ulp(got: np.ndarray, exact_value: np.ndarray, size: np.ndarray | None = None) -> float:
    """The largest distance among elements that are finite, 0 if there are none.

    size  of each element, the sum of the absolute values of its terms: where terms cancel, the
          distance is counted in units in the last place of that, since no order of additions could
          be nearer to what is left
    """
    with np.errstate(all="ignore"):
        finite = np.isfinite(got) & np.isfinite(exact_value.astype(got.dtype))
        distance = ulp_distance(got, exact_value)
        if size is not None:
            scale = np.maximum(np.abs(exact_value), np.abs(size))
            unit = np.spacing(scale.astype(got.dtype)).astype(exact_value.dtype)
            distance = np.abs(got.astype(exact_value.dtype) - exact_value) / unit
    return float(np.max(distance, where=finite, initial=0.0))


def samples(name: str, dtype: DType, *, stride: int = 257, seed: int = 1) -> tuple[np.ndarray, ...]:
    """The operands on which a function is judged, an array for each."""
    if name == "power":
        return _power_sample(dtype, stride, seed)
    return (sample(dtype, stride=stride, seed=seed),)


def sample(dtype: DType, *, stride: int = 257, seed: int = 1) -> np.ndarray:
    """f32: every `stride`-th bit pattern. f64: random patterns, and where the functions bend."""
    if dtype is DType.F32:
        patterns = np.arange(0, 2**32, stride, dtype=np.uint64).astype(np.uint32)
        return patterns.view(np.float32)
    rng = np.random.default_rng(seed)
    count = 514_000_000 // stride
    parts = [
        rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64),
        rng.uniform(-750, 750, count),
        rng.uniform(-2, 2, count),
        np.exp(rng.uniform(-40, 5, count)) * rng.choice([-1.0, 1.0], count),
        rng.uniform(0.6, 1.6, count),
        np.rint(rng.uniform(0, 2**22, count)) * (np.pi / 2),
    ]
    return np.concatenate(parts)


def _power_sample(dtype: DType, stride: int, seed: int) -> tuple[np.ndarray, ...]:
    """Random patterns, results over the whole range, bases next to 1, whole exponents."""
    rng = np.random.default_rng(seed)
    count = 514_000_000 // stride
    bits = np.uint32 if dtype is DType.F32 else np.uint64
    low, high = (-104.0, 89.0) if dtype is DType.F32 else (-745.0, 710.0)
    patterns = [
        rng.integers(0, np.iinfo(bits).max, count, dtype=bits, endpoint=True).view(dtype.numpy)
        for _ in range(2)
    ]
    spread = np.exp(rng.uniform(0.8 * low, 0.8 * high, count))
    near_one = rng.uniform(0.9, 1.1, count)
    plain = np.exp(rng.uniform(-3, 3, count))
    bases = [spread, near_one, plain, -plain]
    exponents = [
        rng.uniform(low, high, count) / np.log(spread),
        rng.uniform(low, high, count) / np.log(near_one),
        rng.uniform(-20, 20, count),
        np.rint(rng.uniform(-20, 20, count)),
    ]
    x, y = np.concatenate(bases).astype(dtype.numpy), np.concatenate(exponents).astype(dtype.numpy)
    return np.concatenate([patterns[0], x]), np.concatenate([patterns[1], y])
