"""Functions of emitted numpy modules, for what no ufunc computes.

A helper is written into a module only when used. Its last argument is `out`. Unlike a ufunc, a
helper may read an operand after it has begun to write, so `out` must not share memory with its
operands.
"""

from __future__ import annotations

HELPERS = {
    "sigmoid": '''
def sigmoid(x, out):
    """1 / (1 + e^-x); e^-|x| is at most 1, so nothing overflows and small results survive."""
    e = np.absolute(x, out=np.empty_like(out))
    np.exp(np.negative(e, out=e), out=e)
    np.add(e, 1, out=out)
    np.copyto(e, 1, where=np.greater_equal(x, 0))
    np.divide(e, out, out=out)
''',
    "erf": '''
def erf(x, out):
    """The error function, which numpy lacks, of one element after the other."""
    import math

    np.copyto(out, np.frompyfunc(math.erf, 1, 1)(x), casting="unsafe")
''',
    "round_bf16": '''
def round_bf16(x, out):
    """The nearest number of 8 significant bits, of two the even one."""
    bits = np.asarray(x).view(np.uint32)
    raised = bits + ((bits >> np.uint32(16) & np.uint32(1)) + np.uint32(0x7FFF))
    rounded = (raised & np.uint32(0xFFFF0000)).view(np.float32)
    np.copyto(out, np.where(np.isnan(x), x, rounded))
''',
    "left_shift": '''
def left_shift(x, y, out):
    """Bits moved to higher places; 0 for counts outside of the type's bits."""
    inside = np.greater_equal(y, 0) & np.less(y, 8 * out.dtype.itemsize)
    shifted = np.left_shift(x, np.where(inside, y, 0).astype(out.dtype))
    np.copyto(out, np.where(inside, shifted, 0))
''',
    "right_shift": '''
def right_shift(x, y, out):
    """Bits moved to lower places, the sign's kept; the sign alone for counts outside."""
    last = 8 * out.dtype.itemsize - 1
    inside = np.greater_equal(y, 0) & np.less(y, last)
    np.right_shift(x, np.where(inside, y, last).astype(out.dtype), out=out)
''',
    "bitcast": '''
def bitcast(x, out):
    """The numbers with the same bits in the element type of `out`."""
    np.copyto(out.view(np.asarray(x).dtype), x)
''',
    "select": '''
def select(condition, x, y, out):
    """x where the condition holds, y elsewhere."""
    np.copyto(out, y)
    np.copyto(out, x, where=condition)
''',
    "divide_integers": '''
def divide_integers(x, y, out):
    """Quotient towards zero; 0 for a zero divisor, and the smallest integer over -1 wraps."""
    divisor = np.where((y == 0) | (y == -1), 1, y).astype(out.dtype)
    np.floor_divide(x, divisor, out=out)
    inexact = np.remainder(x, divisor) != 0
    np.add(out, 1, out=out, where=inexact & ((x < 0) != (divisor < 0)))
    np.copyto(out, np.negative(x), where=np.equal(y, -1))
    np.copyto(out, 0, where=np.equal(y, 0))
''',
    "to_integer": '''
def to_integer(x, out):
    """The whole part of a float; saturates, and nan becomes 0."""
    limits = np.iinfo(out.dtype)
    x = np.asarray(x)
    x = x.astype(np.float32) if x.dtype == np.float16 else x
    low, high = np.asarray(x).dtype.type(limits.min), np.asarray(x).dtype.type(limits.max)
    inside = (x > low) & (x < high)
    np.copyto(out, np.where(inside, x, 0), casting="unsafe")
    np.copyto(out, limits.min, where=x <= low)
    np.copyto(out, limits.max, where=x >= high)
''',
    "to_bf16": '''
def to_bf16(x, out):
    """The nearest numbers of bf16, of two the even one, as their bits."""
    x = np.asarray(x)
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    bits = x.astype(np.float32).view(np.uint32)
    if x.dtype == np.float64:
        # Rounded once: towards zero, and then the last digit says that some were lost.
        back = bits.view(np.float32).astype(np.float64)
        odd = bits - (np.abs(back) > np.abs(x)).astype(np.uint32) | np.uint32(1)
        bits = np.where((back != x) & ~np.isnan(x), odd, bits)
    raised = bits + ((bits >> np.uint32(16) & np.uint32(1)) + np.uint32(0x7FFF))
    bits = np.where(np.isnan(x), np.uint32(0x7FC00000), raised) >> np.uint32(16)
    np.copyto(out["bf16"], bits, casting="unsafe")
''',
    "of_bf16": '''
def of_bf16(x, out):
    """Numbers of bf16, which are the upper halves of those of f32."""
    np.copyto(out.view(np.uint32), x["bf16"].astype(np.uint32) << np.uint32(16))
''',
    "to_short_float": '''
def to_short_float(x, of, out):
    """The bits of the nearest numbers of a type of 8 bits or fewer, of two of the even one.

    `of`: bits of its fraction, bias, digits of its largest number, bits for what is beyond and for
    nan, bit of the sign, whether zeros have none.
    """
    fraction, bias, most, beyond, nan, sign, is_unsigned_zero = of
    x = np.asarray(x)
    bits = x.astype(np.float32).view(np.int32)
    if x.dtype == np.float64:
        # Rounded once: towards zero, and then the last digit says that some were lost.
        back = bits.view(np.float32).astype(np.float64)
        odd = bits - (np.abs(back) > np.abs(x)).astype(np.int32) | np.int32(1)
        bits = np.where((back != x) & ~np.isnan(x), odd, bits)
    digits, shift = bits & np.int32(0x7FFFFFFF), 23 - fraction
    moved = digits - np.int32((127 - bias << 23) - (1 << shift - 1) + 1)
    made = moved + (digits >> shift & np.int32(1)) >> shift
    # Denormals are the last digits of a sum, which rounds them.
    far = np.float32(2.0 ** (24 - bias - fraction))
    small = (digits.view(np.float32) + far).view(np.int32) - far.view(np.int32)
    made = np.where(digits < 128 - bias << 23, small, made)
    made = np.where(made > most, beyond, made)
    signed = made | np.where(bits < 0, sign, 0)
    signed = np.where(made == 0, 0, signed) if is_unsigned_zero else signed
    np.copyto(out.view(np.uint8), np.where(np.isnan(x), nan, signed), casting="unsafe")
''',
    "of_short_float": '''
def of_short_float(x, of, out):
    """f32 of the bits of numbers; `of` as in `to_short_float`."""
    fraction, bias, most, beyond, nan, sign, is_unsigned_zero = of
    codes = x.view(np.uint8).astype(np.int32)
    digits, shift = codes & np.int32(sign - 1), 23 - fraction
    moved = digits << shift
    least = np.int32(128 - bias << 23)
    small = (moved + least).view(np.float32) - least.view(np.float32)
    normal = (moved + np.int32(127 - bias << 23)).view(np.float32)
    made = np.where(digits < 1 << fraction, small, normal)
    infinite = np.inf if beyond != nan and beyond > most else np.nan
    made = np.where(digits > most, np.where(digits == beyond, infinite, np.nan), made)
    made = np.where(codes & sign, -made, made)
    is_nan = (codes == sign) & bool(is_unsigned_zero)
    np.copyto(out, np.where(is_nan, np.nan, made), casting="unsafe")
''',
    "to_short_integer": '''
def to_short_integer(x, of, out):
    """The low bits of integers; `of`: how many, and whether one is a sign."""
    np.copyto(out.view(np.uint8), np.asarray(x) & ((1 << of[0]) - 1), casting="unsafe")
''',
    "of_short_integer": '''
def of_short_integer(x, of, out):
    """The numbers that the low bits are."""
    bits, is_signed = of
    low = x.view(np.uint8).astype(out.dtype) & ((1 << bits) - 1)
    np.subtract(low, (low >> bits - 1 << bits) * is_signed, out=out)
''',
    "random_uniform": '''
def random_uniform(counter, key, out):
    """The upper 24 bits of Philox2x32-10 as k / 2^24 in [0, 1)."""
    low, key = np.asarray(counter).astype(np.uint64), np.asarray(key).astype(np.uint64)
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    low, high, key = low & mask, low >> half, key & mask
    for _ in range(10):
        product = low * np.uint64(0xD256D193)
        low = (product >> half) ^ key ^ high
        high = product & mask
        key = (key + np.uint64(0x9E3779B9)) & mask
    np.multiply(high >> np.uint64(8), 2.0**-24, out=out, casting="unsafe")
''',
    "sum_over": '''
def sum_over(x, axes):
    """The sum over axes, whose extents become 1.

    numpy adds up pairs where it goes through memory in order. Along other axes it adds one element
    after the other, so more than 256 are summed in blocks of 128, these again, and so on.
    """
    first = x.ndim
    while first and (first - 1 in axes or x.shape[first - 1] == 1):
        first -= 1
    last = tuple(axis for axis in axes if axis >= first)
    if last and x.flags.c_contiguous:
        x = np.add.reduce(x, last, keepdims=True)
    for axis in reversed(axes):
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        while axis < x.ndim - 1 and x.shape[axis] > 256:
            count = x.shape[axis] // 128
            blocks, rest = np.split(x, [count * 128], axis)
            sums = np.add.reduce(blocks.reshape((*before, count, 128, *after)), axis + 1)
            x = np.concatenate((sums, np.add.reduce(rest, axis, keepdims=True)), axis)
        x = np.add.reduce(x, axis, keepdims=True)
    return x
''',
    "top_indices": '''
def top_indices(x, out):
    """The columns of each row's largest elements, nan first, of equal ones the first first."""
    order = np.lexsort((np.negative(x), ~np.isnan(x)), axis=-1)
    np.copyto(out, order[:, : out.shape[1]], casting="unsafe")
''',
    "pile": '''
def pile(parts, part):
    """Puts a part of a sum on the others: (how many, their sum), no two with as many."""
    count = 1
    while parts and parts[-1][0] == count:
        count, part = 2 * count, parts.pop()[1] + part
    parts.append((count, part))
''',
    "indexed_sum": '''
def indexed_sum(subscripts, operands, index, out):
    """out[...] = sums over n, k, d of the operands' products, by subscripts; i is index[n, k].

    An index outside its axis is left out. What meets at one place is added in rounds, in the order
    of n and k: every place takes part once in each.
    """
    texts = subscripts.split()
    extents = {c: e for t, x in zip(texts, (*operands, out)) for c, e in zip(t, x.shape)}
    made = texts.pop()
    target = out.T if made[0] == "d" else out
    sources = [(t.replace("d", ""), x.T if t[0] == "d" else x) for t, x in zip(texts, operands)]
    out.fill(0)
    n, k = np.nonzero((index >= 0) & (index < extents["i"]))
    if len(n) == 0:
        return
    at = {"n": n, "k": k, "i": index[n, k].astype(np.int64)}
    letters = made.replace("d", "")
    place = at[letters[0]]
    if len(letters) == 2:
        place = place * extents[letters[1]] + at[letters[1]]
    order = np.argsort(place, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(place[order]) != 0))
    turn = np.arange(len(n)) - np.repeat(first, np.diff(np.append(first, len(n))))
    order = order[np.argsort(turn, kind="stable")]
    step = max(1, 1048576 // max(1, extents.get("d", 1)))
    end = 0
    for count in np.bincount(turn):
        start, end = end, end + count
        for begin in range(start, end, step):
            some = order[begin : min(begin + step, end)]
            here = {c: p[some] for c, p in at.items()}
            factors = [x[tuple(here[c] for c in t)] for t, x in sources]
            if "d" in made:
                factors = [f[:, None] if f.ndim == 1 else f for f in factors]
                product = np.multiply(*factors)
            elif "d" in extents:
                product = np.einsum("hd,hd->h", *factors)
            else:
                (product,) = factors
            target[tuple(here[c] for c in letters)] += product
''',
    "conv_result": '''
def conv_result(images, kernel, out, across, down, plane=None, left=0, above=0):
    """out[n, p, q] = sums of windows of images[n] times kernel[columns, rows, channels, features].

    One image at a time, put into `plane`, among zeros, from left, above on; its windows are copied
    by the product.
    """
    columns, rows, channels, features = kernel.shape
    width, height = images.shape[1:3]
    kernel = kernel.reshape(-1, features)
    if plane is not None:
        plane.fill(0)
    for image, places in zip(images, out):
        if plane is not None:
            plane[left : left + width, above : above + height] = image
            image = plane
        patches = np.lib.stride_tricks.sliding_window_view(image, (columns, rows), (0, 1))
        patches = patches[::across, ::down].transpose(0, 1, 3, 4, 2)
        np.matmul(patches.reshape(-1, len(kernel)), kernel, out=places.reshape(-1, features))
''',
    "conv_data_grad": '''
def conv_data_grad(places, kernel, out, across, down, plane=None, left=0, above=0):
    """Adds places[n, p, q] times kernel[columns, features, rows, channels] to windows of out[n].

    With `plane`, out[n] is its part from left, above on, the rest is thrown away.
    """
    columns, features, rows, channels = kernel.shape
    width, height = places.shape[1:3]
    for image, place in zip(out, places):
        whole = image if plane is None else plane
        whole.fill(0)
        place = place.reshape(-1, features)
        for i in range(columns):
            patches = np.matmul(place, kernel[i].reshape(features, -1))
            patches = patches.reshape(width, height, rows, channels)
            part = whole[i : i + across * width : across]
            for j in range(rows):
                part[:, j : j + down * height : down] += patches[:, :, j]
        if plane is not None:
            image[:] = plane[left : left + len(image), above : above + image.shape[1]]
''',
    "conv_weight_grad": '''
def conv_weight_grad(images, places, out, across, down, plane=None, left=0, above=0):
    """out[columns, rows, channels, features] = sums of windows of images times places.

    One image at a time, put into `plane`, among zeros, from left, above on.
    """
    columns, rows, channels, features = out.shape
    width, height = images.shape[1:3]
    parts = []
    if plane is not None:
        plane.fill(0)
    for image, place in zip(images, places):
        if plane is not None:
            plane[left : left + width, above : above + height] = image
            image = plane
        patches = np.lib.stride_tricks.sliding_window_view(image, (columns, rows), (0, 1))
        patches = patches[::across, ::down].transpose(3, 4, 2, 0, 1)
        place = place.reshape(-1, features)
        pile(parts, np.matmul(patches.reshape(-1, len(place)), place))
    out.fill(0)
    while parts:
        out += parts.pop()[1].reshape(out.shape)
''',
    "depthwise": '''
def depthwise(role, x, w, y, strides, low, dilations):
    """y[n, p, q] = sums of windows of x[n] times w[rows, columns]; `role` says what is computed.

    What lies outside of an image is left out.
    """
    {"result": y, "data_grad": x, "weight_grad": w}[role].fill(0)
    for index in np.ndindex(w.shape[:2]):
        here, there = [slice(None)], [slice(None)]
        for axis, element in enumerate(index):
            step, shift = strides[axis], element * dilations[axis] - low[axis]
            first = max(0, -(shift // step))
            count = min(y.shape[axis + 1], (x.shape[axis + 1] - 1 - shift) // step + 1) - first
            start = first * step + shift
            here.append(slice(start, start + max(count, 0) * step, step))
            there.append(slice(first, first + max(count, 0)))
        here, there = tuple(here), tuple(there)
        if role == "result":
            y[there] += x[here] * w[index]
        elif role == "data_grad":
            x[here] += y[there] * w[index]
        else:
            w[index] = (x[here] * y[there]).sum(2).sum(1).sum(0)
''',
    "pool_fold": '''
def pool_fold(fold, x, out, columns, rows, across, down):
    """out[n, p, q] = the elements of a window of x[n] folded, column by column of the window."""
    width, height = out.shape[1:3]
    start = 0 if fold is np.add else np.inf if fold is np.minimum else -np.inf
    out.fill(start)
    for i in range(columns):
        column = np.full_like(out, start)
        for j in range(rows):
            part = x[:, i : i + across * width : across, j : j + down * height : down]
            fold(column, part, out=column)
        fold(out, column, out=out)
''',
    "pool_max_grad": '''
def pool_max_grad(x, y, dy, out, columns, rows, across, down):
    """Adds dy[n, p, q] to those elements of a window of out[n] where x[n] is y[n, p, q]."""
    width, height = y.shape[1:3]
    out.fill(0)
    for i in reversed(range(columns)):
        for j in reversed(range(rows)):
            part = np.s_[:, i : i + across * width : across, j : j + down * height : down]
            out[part] += np.where(x[part] == y, dy, x.dtype.type(0))
''',
    "pool_sum_grad": '''
def pool_sum_grad(y, out, columns, rows, across, down):
    """Adds y[n, p, q] to all elements of a window of out[n]."""
    width, height = y.shape[1:3]
    out.fill(0)
    for i in reversed(range(columns)):
        for j in reversed(range(rows)):
            out[:, i : i + across * width : across, j : j + down * height : down] += y
''',
    "row_sums": '''
def row_sums(size, *lookups):
    """The rows that indices point at, of `size` there are, and the sum of x[n, k] y[n] for each."""
    points = np.concatenate([index.ravel() for _, _, index in lookups])
    rows = np.unique(points[(points >= 0) & (points < size)])
    places = np.append(rows, -1)
    total = np.zeros((len(rows), lookups[0][1].shape[1]), lookups[0][1].dtype)
    part = np.empty_like(total)
    for x, y, index in lookups:
        slots = np.searchsorted(rows, index)
        slots = np.where(places[slots] == index, slots, -1)
        indexed_sum("nk nd id", (x, y), slots, part)
        np.add(total, part, out=total)
    return rows, total
''',
    "convert": '''
def convert(x, out):
    """The same numbers in the element type of `out`."""
    np.copyto(out, x, casting="unsafe")
''',
}
