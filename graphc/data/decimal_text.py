"""Decimal numbers out of bytes, many at a time, in numpy alone; every value correctly rounded.

A cell such as `-12.75` is read as one machine word: its characters are bytes of a 32- or 64-bit
integer, and neighbouring digits are joined in pairs, fours and eights by multiplication. Then
12.75 is 1275 / 10**2. Integers below 2**53 and powers of ten up to 10**22 are exact in a double,
and IEEE division rounds once, so the quotient is what `float("12.75")` gives, bit for bit.

Covered: an optional sign, up to 16 characters of digits with at most one point, value of the
digits below 2**53, and an exponent of up to four characters as long as the power of ten is one of
those. All else (`nan`, longer numbers, what is no number at all) is left to the caller, who is told
which cells those are. Nothing here reads files or reports errors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.intp]
Words = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

PADDING = 16
"""Bytes that must follow the last cell in a buffer: words are read past the end of a cell."""

LONGEST = 16
MAX_EXACT = 2**53
POWERS_OF_TEN: npt.NDArray[np.float64] = np.array([float(10**k) for k in range(23)])
MINUS, PLUS = ord("-"), ord("+")


@dataclass(frozen=True, slots=True)
class WordForm:
    """Constants for cells held in words of `size` characters.

    zeros        `0` in every byte
    points       bit 4 in every byte
    past_nine    what lifts a byte above 9, and none below, into its high bit
    high_bits    bit 7 in every byte
    bytes_above  byte k holds k
    merges       for pairs, fours and eights: factor, shift and mask that join two neighbours
    """

    size: int
    dtype: np.dtype
    zeros: np.unsignedinteger
    points: np.unsignedinteger
    past_nine: np.unsignedinteger
    high_bits: np.unsignedinteger
    bytes_above: np.unsignedinteger
    merges: tuple[tuple[np.unsignedinteger, np.unsignedinteger, np.unsignedinteger], ...]


def make_word_form(size: int) -> WordForm:
    """The constants for words of `size` (4 or 8) characters."""
    dtype = np.dtype(f"<u{size}")

    def every(byte: int) -> np.unsignedinteger:
        return dtype.type(int.from_bytes(bytes([byte]) * size, "little"))

    # Step k joins fields of `bits` bits: low field * 10**digits + high field, kept in the low one.
    merges: list[tuple[np.unsignedinteger, np.unsignedinteger, np.unsignedinteger]] = []
    bits = 8
    while bits < 8 * size:
        keep = sum(((1 << bits) - 1) << at for at in range(0, 8 * size, 2 * bits))
        merges.append((dtype.type(10 ** (bits // 8)), dtype.type(bits), dtype.type(keep)))
        bits *= 2
    return WordForm(
        size,
        dtype,
        zeros=every(ord("0")),
        points=every(0x10),
        past_nine=every(0x80 - 10),
        high_bits=every(0x80),
        bytes_above=dtype.type(int.from_bytes(bytes(range(size)), "little")),
        merges=tuple(merges),
    )


FOUR, EIGHT = make_word_form(4), make_word_form(8)


@dataclass(frozen=True, slots=True)
class Mantissas:
    """Cells read as sign, digits and at most one point: the value is integer / 10**after_point.

    after_point and pointed are None when no cell has a point. What is said about a doubtful cell,
    one that is not of that form or too long, means nothing.
    """

    integers: npt.NDArray[np.float64]
    after_point: Indices | None
    pointed: Flags | None
    doubtful: Flags


def parse_decimals(
    buffer: Bytes, starts: Indices, ends: Indices
) -> tuple[npt.NDArray[np.float64], Indices]:
    """The values of the cells buffer[starts[i]:ends[i]], and the indices i not covered here.

    Values at those indices, which empty cells are among, mean nothing. `buffer` must go on for
    `PADDING` bytes after the last cell.
    """
    plain = _mantissas(buffer, starts, ends - starts)
    values = plain.integers
    if plain.after_point is not None:
        values /= POWERS_OF_TEN.take(plain.after_point, mode="clip")
    left_over = np.flatnonzero(plain.doubtful)
    if len(left_over):
        found, scaled = _parse_exponents(buffer, starts[left_over], ends[left_over])
        values[left_over[found]] = scaled
        left_over = np.delete(left_over, found)
    return values, left_over


def _parse_exponents(
    buffer: Bytes, starts: Indices, ends: Indices
) -> tuple[Indices, npt.NDArray[np.float64]]:
    """Which cells are decimals with an exponent that is covered, and their values."""
    marks = np.zeros_like(ends)
    for back in range(2, 6):  # `e` and one to four characters of sign and digits
        is_mark = (buffer[np.maximum(ends - back, 0)] | 0x20) == ord("e")
        marks = np.where(is_mark & (ends - back > starts) & (marks == 0), ends - back, marks)
    found = np.flatnonzero(marks)
    if not len(found):
        return found, np.empty(0)
    starts, marks, ends = starts[found], marks[found], ends[found]
    mantissa = _mantissas(buffer, starts, marks - starts)
    exponent = _mantissas(buffer, marks + 1, ends - marks - 1)
    bad = mantissa.doubtful | exponent.doubtful
    if exponent.pointed is not None:
        bad |= exponent.pointed
    scale = exponent.integers.astype(np.intp)
    if mantissa.after_point is not None:
        scale = scale - mantissa.after_point
    covered = np.flatnonzero(~bad & (np.abs(scale) < len(POWERS_OF_TEN)))
    values, scale = mantissa.integers[covered], scale[covered]
    power = POWERS_OF_TEN[np.abs(scale)]
    return found[covered], np.where(scale < 0, values / power, values * power)


def words_at(form: WordForm, buffer: Bytes, starts: Indices) -> Words:
    """The `form.size` bytes from each start on, as little-endian words."""
    count = len(buffer) - form.size + 1
    overlapping = np.ndarray((count,), form.dtype, buffer, strides=(1,))
    return overlapping[starts]


def _mantissas(buffer: Bytes, starts: Indices, lengths: Indices) -> Mantissas:
    longest = int(lengths.max(initial=0))
    if longest <= FOUR.size:
        return _short_mantissas(FOUR, buffer, starts, lengths)
    if longest <= EIGHT.size:
        return _short_mantissas(EIGHT, buffer, starts, lengths)
    is_long = lengths > EIGHT.size
    if 4 * np.count_nonzero(is_long) > len(lengths):
        return _long_mantissas(buffer, starts, lengths)
    long, short = np.flatnonzero(is_long), np.flatnonzero(~is_long)
    parts = [
        (long, _long_mantissas(buffer, starts[long], lengths[long])),
        (short, _short_mantissas(EIGHT, buffer, starts[short], lengths[short])),
    ]
    count = len(lengths)
    integers, after = np.empty(count), np.zeros(count, np.intp)
    pointed, doubtful = np.zeros(count, np.bool_), np.empty(count, np.bool_)
    for indices, part in parts:
        integers[indices] = part.integers
        doubtful[indices] = part.doubtful
        if part.after_point is not None and part.pointed is not None:
            after[indices] = part.after_point
            pointed[indices] = part.pointed
    return Mantissas(integers, after, pointed, doubtful)


def _short_mantissas(form: WordForm, buffer: Bytes, starts: Indices, lengths: Indices) -> Mantissas:
    """The cells, all of at most `form.size` characters, as one word each."""
    words = words_at(form, buffer, starts)
    sizes = lengths.astype(form.dtype)
    negative, signed = _signs(words.astype(np.uint8))
    if signed is not None:
        words >>= signed.astype(form.dtype) << form.dtype.type(3)
        sizes -= signed.astype(form.dtype)
    digits, after_point, pointed, bad = _digits(form, words, sizes)
    bad |= sizes == (0 if pointed is None else pointed)
    after = None if after_point is None else after_point.astype(np.intp)
    return Mantissas(_with_signs(digits, negative), after, pointed, bad)


def _long_mantissas(buffer: Bytes, starts: Indices, lengths: Indices) -> Mantissas:
    """The cells as two words each: the last 8 characters, and what comes before them."""
    negative, signed = _signs(buffer[starts])
    if signed is not None:
        starts = starts + signed
        lengths = lengths - signed
    bad = (lengths > LONGEST) | (lengths == 0)
    head_sizes = np.clip(lengths - EIGHT.size, 0, EIGHT.size)
    tail_sizes = np.minimum(lengths, EIGHT.size)
    head, head_after, head_pointed, head_bad = _digits(
        EIGHT, words_at(EIGHT, buffer, starts), head_sizes.astype(np.uint64)
    )
    tail, tail_after, tail_pointed, tail_bad = _digits(
        EIGHT, words_at(EIGHT, buffer, starts + head_sizes), tail_sizes.astype(np.uint64)
    )
    bad |= head_bad | tail_bad
    pointed = after = None
    if tail_pointed is None:
        head *= np.uint64(10**8)
    else:
        head *= np.where(tail_pointed, np.uint64(10**7), np.uint64(10**8))
        pointed, after = tail_pointed, tail_after
        bad |= lengths == tail_pointed
    if head_pointed is not None and head_after is not None:
        after_head = np.where(head_pointed, head_after + np.uint64(EIGHT.size), np.uint64(0))
        bad |= False if pointed is None else pointed & head_pointed
        after = after_head if after is None else after + after_head
        pointed = head_pointed if pointed is None else pointed | head_pointed
    head += tail
    bad |= head >= MAX_EXACT
    after = None if after is None else after.astype(np.intp)
    return Mantissas(_with_signs(head, negative), after, pointed, bad)


def _with_signs(digits: Words, negative: Flags | None) -> npt.NDArray[np.float64]:
    values = digits.astype(np.float64)
    if negative is not None:
        # A product and not `np.negative(…, where=…)`, which is slow where signs alternate.
        values *= 1.0 - 2.0 * negative
    return values


def _signs(first: Bytes) -> tuple[Flags | None, Flags | None]:
    """Which cells start with `-`, and which with any sign; None where no cell does."""
    negative = first == MINUS
    signed = negative | (first == PLUS)
    if not signed.any():
        return None, None
    return negative, signed


def _digits(
    form: WordForm, words: Words, sizes: Words
) -> tuple[Words, Words | None, Flags | None, Flags]:
    """The first `sizes` characters of each word as an unsigned integer, a point left out.

    Returns the integers, the number of digits after the point and whether there is one (both None
    when no word has one), and which words hold something other than digits and one point.
    """
    bits = sizes << form.dtype.type(3)
    # Characters to the top of the word (the last one most significant), zeros before them; what
    # follows the cell is shifted out. A shift by the whole width gives 0 in numpy.
    words = words << (form.dtype.type(8 * form.size) - bits)
    words |= form.zeros >> bits
    words ^= form.zeros
    # '0' to '9' are now 0 to 9, and '.' is 0x1e, the only character allowed with bit 4 set.
    points = words & form.points
    if points.any():
        words, after_point, pointed, bad = _without_point(form, words, points)
        bad |= ((words + form.past_nine) | words) & form.high_bits
    else:
        after_point, pointed = None, None
        bad = ((words + form.past_nine) | words) & form.high_bits
    for scale, shift, keep in form.merges:
        joined = words >> shift
        words *= scale
        words += joined
        words &= keep
    return words, after_point, pointed, bad != 0


def _without_point(
    form: WordForm, words: Words, points: Words
) -> tuple[Words, Words, Flags, Words]:
    """Words with the byte of the point taken out and the bytes below it moved up.

    Returns the words, the number of bytes that were above the point (0 without a point), which
    words have one, and a word that is not 0 where there are two or it is not a point after all.
    """
    pointed = points != 0
    one = pointed.astype(form.dtype)
    bit = points >> form.dtype.type(4)
    words = words ^ bit * form.dtype.type(ord(".") ^ ord("0"))
    below = bit - one
    through = (bit << form.dtype.type(8)) - one
    bad = (bit & below) | (words & (through ^ below))
    words += (words & below) * form.dtype.type(255)
    # `bit` is 0 or 256**k, so the product moves byte 7 - k (or 3 - k) of the table to the top.
    after_point = (bit * form.bytes_above) >> form.dtype.type(8 * (form.size - 1))
    return words, after_point, pointed, bad
