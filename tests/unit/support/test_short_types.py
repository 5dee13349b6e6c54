"""Types of 8 bits and fewer: every bit pattern and every rounding, judged by ml_dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.support.element_types import NUMPY_DTYPES, as_numbers, as_type
from graphc.support.short_types import SHORT_FLOATS, SHORT_INTEGERS, SHORT_TYPES

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.mark.parametrize("name", SHORT_TYPES)
def test_every_pattern_is_the_number_that_it_is_elsewhere(name: str) -> None:
    short = SHORT_TYPES[name]
    codes = np.arange(1 << short.bits, dtype=np.uint8)
    wanted = codes.view(getattr(ml_dtypes, short.package)).astype(np.float32)
    found = as_numbers(codes.view(NUMPY_DTYPES[name])).astype(np.float32)
    np.testing.assert_array_equal(found, wanted)
    signs = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[signs]), np.signbit(wanted[signs]))
    again = as_type(found, NUMPY_DTYPES[name]).view(np.uint8)
    np.testing.assert_array_equal(again[signs], codes[signs])


@pytest.mark.parametrize("name", SHORT_FLOATS)
def test_numbers_are_rounded_as_elsewhere(name: str) -> None:
    short = SHORT_FLOATS[name]
    middles = (short.digits[1:] + short.digits[:-1]) / 2
    near = [middles * (1 + d) for d in (-(2.0**-20), 0.0, 2.0**-20)]
    drawn = np.random.default_rng(0).standard_normal(5000) * 2.0 ** np.arange(-24, 26).repeat(100)
    x = np.concatenate([*near, drawn, short.digits, [0, 1e-30, 1e30, np.inf]])
    x = np.concatenate([x, -x]).astype(np.float32)  # ml_dtypes rounds f64 twice
    with np.errstate(all="ignore"):  # which says of infinity that it is invalid
        wanted = x.astype(getattr(ml_dtypes, short.package)).view(np.uint8)
    np.testing.assert_array_equal(short.codes(x), wanted)
    low = np.arange(short.most)
    np.testing.assert_array_equal(short.codes(middles[:-1] * (1 - 2.0**-40)), low)
    np.testing.assert_array_equal(short.codes(middles[:-1] * (1 + 2.0**-40)), low + 1)
    assert short.codes(np.array([np.nan]))[0] == short.nan
    assert short.largest == float(ml_dtypes.finfo(short.package).max)


@pytest.mark.parametrize("name", SHORT_INTEGERS)
def test_integers_keep_their_low_bits_and_floats_stop_at_the_ends(name: str) -> None:
    short, dtype = SHORT_INTEGERS[name], NUMPY_DTYPES[name]
    least, most = short.limits
    info = ml_dtypes.iinfo(short.package)
    assert (least, most) == (int(info.min), int(info.max))
    x = np.arange(-40, 40, dtype=np.int32)
    wanted = x.astype(getattr(ml_dtypes, short.package)).astype(np.int32)
    np.testing.assert_array_equal(as_numbers(as_type(x, dtype)), wanted)
    floats = np.array([-1e30, -2.7, -0.5, 0.5, 1.9, np.nan, 1e30, np.inf], np.float32)
    cut = np.clip([least, -2, 0, 0, 1, 0, most, most], least, most)
    np.testing.assert_array_equal(as_numbers(as_type(floats, dtype)), cut)
