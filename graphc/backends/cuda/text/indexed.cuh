// Sums of lookups: index[n, k] says which element i of an axis stands for n and k. An index outside
// of the axis reads nothing and adds nothing. Every sum is made by one thread, from 0 on in the order
// of n and k, but for sums over d, which are cut into a fixed number of parts.

template <bool FUSED> __device__ inline float plus_product(float sum, float a, float b)
{
    return FUSED ? fmaf(a, b, sum) : sum + a * b;
}
template <bool FUSED> __device__ inline double plus_product(double sum, double a, double b)
{
    return FUSED ? fma(a, b, sum) : sum + a * b;
}

__device__ inline bool is_inside(int i, i64 size) { return i >= 0 && i < size; }

template <class T> __device__ inline void clear(T *y, i64 count, Block block)
{
    for (i64 at = block.index * 256 + thread_index(); at < count; at += block.count * 256)
        y[at] = 0;
}

// y[n, k] = x[n, i], an element a thread.
template <class T, class Place>
__device__ inline void take(const T *x, const int *index, T *y, i64 rows, i64 k, i64 size, Block block)
{
    const i64 count = rows * k;
    for (i64 tile = block.index; tile * 256 < count; tile += block.count) {
        const i64 at = tile * 256 + thread_index();
        if (at < count) {
            const int i = index[at];
            const Place n = (Place)at / (Place)k;
            y[at] = is_inside(i, size) ? (T)0 + x[n * (Place)size + i] : (T)0;
        }
    }
}

// y[n, i] = sum of x[n, k] over index[n, k] = i: a warp clears and fills PART elements of a row. 32
// entries are added together; of those that meet, the first comes first.
template <int PART, class T>
__device__ inline void put(const T *x, const int *index, T *y, i64 rows, i64 k, i64 size, Block block)
{
    const int lane = thread_index() % 32, warp = thread_index() / 32;
    const i64 parts = (size + PART - 1) / PART, tiles = (rows + 7) / 8 * parts;
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const i64 n = tile / parts * 8 + warp, begin = tile % parts * PART;
        const i64 end = begin + PART < size ? begin + PART : size;
        if (n >= rows)
            continue;
        for (i64 i = begin + lane; i < end; i += 32)
            y[n * size + i] = 0;
        for (i64 first = 0; first < k; first += 32) {
            meet_warp();
            const i64 at = first + lane;
            const int i = at < k ? index[n * k + at] : -1;
            int turn = 0;
            for (int other = 0; other < 31; ++other)
                if (shuffle_from(i, other) == i && other < lane)
                    ++turn;
            const bool is_mine = i >= begin && i < end;
            for (int now = 0; any_lane(is_mine && turn >= now); ++now) {
                if (is_mine && turn == now)
                    y[n * size + i] += x[n * k + at];
                meet_warp();
            }
        }
    }
}

// y[n, d] = sum over k of x[n, k] t[i, d]: LANES neighbouring d a thread, which reads what AHEAD
// entries look up before it adds the first of them. With COLUMNS the table is t[d, i].
template <class T, class Place, bool COLUMNS, bool FUSED, int LANES>
__device__ inline void sum_rows(const T *x, const T *table, const int *index, T *y, i64 rows,
                                i64 entries, i64 size, i64 width, Block block)
{
    constexpr int AHEAD = 8;
    const Place k = (Place)entries, groups = (Place)(width / LANES);
    const i64 count = rows * groups;
    for (i64 tile = block.index; tile * 256 < count; tile += block.count) {
        const i64 at = tile * 256 + thread_index();
        if (at >= count)
            continue;
        const Place n = (Place)at / groups, d = (Place)at % groups * LANES;
        Lanes<T, LANES> sum = {};
        for (Place first = 0; first < k; first += AHEAD) {
            T factor[AHEAD];
            Lanes<T, LANES> found[AHEAD];
            bool is_there[AHEAD];
            for (int j = 0; j < AHEAD; ++j) {
                const int i = first + j < k ? index[n * k + first + j] : -1;
                is_there[j] = is_inside(i, size);
                if (is_there[j]) {
                    const Place there = COLUMNS ? d * (Place)size + i : i * (Place)width + d;
                    factor[j] = x[n * k + first + j];
                    found[j] = *(const Lanes<T, LANES> *)(table + there);
                }
            }
            for (int j = 0; j < AHEAD; ++j)
                if (is_there[j])
                    for (int l = 0; l < LANES; ++l)
                        sum.at[l] = plus_product<FUSED>(sum.at[l], factor[j], found[j].at[l]);
        }
        *(Lanes<T, LANES> *)(y + (i64)at * LANES) = sum;
    }
}

// y[n, k] = sum over d of x[n, d] t[i, d]: an entry a warp.
template <class T, class Place, bool FUSED, int LANES>
__device__ inline void multiply_rows(const T *x, const T *table, const int *index, T *y, i64 rows,
                                     i64 k, i64 size, i64 width, Block block)
{
    const int lane = thread_index() % 32, warp = thread_index() / 32;
    const i64 count = rows * k;
    for (i64 tile = block.index; tile * 8 < count; tile += block.count) {
        const i64 at = tile * 8 + warp;
        if (at >= count)
            continue;
        const int i = index[at];
        const Place n = (Place)at / (Place)k;
        T sum = 0;
        if (is_inside(i, size))
            for (Place d = lane * LANES; d < (Place)width; d += 32 * LANES) {
                const auto a = *(const Lanes<T, LANES> *)(x + n * (Place)width + d);
                const auto b = *(const Lanes<T, LANES> *)(table + i * (Place)width + d);
                for (int l = 0; l < LANES; ++l)
                    sum = plus_product<FUSED>(sum, a.at[l], b.at[l]);
            }
        for (int apart = 16; apart > 0; apart /= 2)
            sum += shuffle_xor(sum, apart);
        if (lane == 0)
            y[at] = sum;
    }
}

// y[n, k] = sum over d of x[n, d] t[d, i]: 32 entries a block, so that neighbouring columns are read
// together; each warp takes every eighth d.
template <class T, class Place, bool FUSED>
__device__ inline void multiply_columns(const T *x, const T *table, const int *index, T *y, i64 rows,
                                        i64 k, i64 size, i64 width, Block block)
{
    T(*parts)[32] = (T(*)[32])block.shared;
    const int lane = thread_index() % 32, warp = thread_index() / 32;
    const i64 count = rows * k;
    for (i64 tile = block.index; tile * 32 < count; tile += block.count) {
        const i64 at = tile * 32 + lane;
        const int i = at < count ? index[at] : -1;
        const Place n = (Place)at / (Place)k;
        T sum = 0;
        if (is_inside(i, size))
            for (Place d = warp; d < (Place)width; d += 8)
                sum = plus_product<FUSED>(sum, x[n * (Place)width + d], table[d * (Place)size + i]);
        meet();
        parts[warp][lane] = sum;
        meet();
        if (warp == 0 && at < count) {
            T total = parts[0][lane];
            for (int part = 1; part < 8; ++part)
                total += parts[part][lane];
            y[at] = total;
        }
    }
}

// --- sums for each row of a table -----------------------------------------------------------------

// x[n, k] y[n, d] at row index[n, k]: `count` entries, numbered in the order of n and k.
template <class T> struct Lookup {
    const T *x, *y;
    const int *index;
    int k, count;
};

// Some lookups into a table of `size` rows of `width` numbers; entries are numbered through.
template <class T, int COUNT> struct Lookups {
    Lookup<T> of[COUNT];
    i64 size, width;

    __device__ int entries() const
    {
        int sum = 0;
        for (int i = 0; i < COUNT; ++i)
            sum += of[i].count;
        return sum;
    }

    // The row that an entry points at, `size` for none.
    __device__ int row(int entry) const
    {
        int found = -1;
        for (int i = 0; i < COUNT; ++i) {
            if (entry >= 0 && entry < of[i].count)
                found = of[i].index[entry];
            entry -= of[i].count;
        }
        return is_inside(found, size) ? found : (int)size;
    }

    // What an entry adds to its row: x times the numbers from y on.
    __device__ void factors(int entry, T &x, u64 &y) const
    {
        for (int i = 0; i < COUNT; ++i) {
            if (entry >= 0 && entry < of[i].count) {
                x = of[i].x[entry];
                y = (u64)(of[i].y + (i64)(entry / of[i].k) * width);
            }
            entry -= of[i].count;
        }
    }
};

// Calls rule(row, d, sum) for every number of every row that is looked up. A row belongs to its first
// entry. A warp adds up ROW_PART numbers of it, by ballots over the entries from there on; with SORTED
// these are at `order`, by their `rows`, and those of one row are neighbours.
constexpr int ROW_PART = 128;

template <bool FUSED, bool SORTED, class T, int COUNT, class Rule>
__device__ inline void sum_by_row(const Lookups<T, COUNT> lookups, const int *rows,
                                  const int *order, const Rule rule, Block block)
{
    constexpr int NUMBERS = ROW_PART / 32, AHEAD = 4;
    const int lane = thread_index() % 32, warp = thread_index() / 32, entries = lookups.entries();
    const i64 parts = (lookups.width + ROW_PART - 1) / ROW_PART;
    const i64 tiles = ((i64)entries + 7) / 8 * parts;
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const int begin = (int)(tile / parts) * 8 + warp;
        if (begin >= entries)
            continue;
        const int row = SORTED ? rows[begin] : lookups.row(begin);
        bool is_first = row < lookups.size;
        if (SORTED)
            is_first = is_first && (begin == 0 || rows[begin - 1] != row);
        else
            for (int at = lane; is_first && at - lane < begin; at += 32)
                is_first = !any_lane(at < begin && lookups.row(at) == row);
        if (!is_first)
            continue;
        const i64 d = tile % parts * ROW_PART + lane;
        T sum[NUMBERS] = {};
        u32 hits = ~0u;
        for (int first = begin; first < entries && (!SORTED || hits == ~0u); first += 32) {
            const int at = first + lane;
            T x = 0;
            u64 y = 0;
            const bool is_hit = at < entries && (SORTED ? rows[at] : lookups.row(at)) == row;
            if (is_hit)
                lookups.factors(SORTED ? order[at] : at, x, y);
            hits = lanes_where(is_hit);
            for (u32 left = hits; left != 0;) {
                T factor[AHEAD], number[AHEAD][NUMBERS];
                bool is_there[AHEAD];
                for (int j = 0; j < AHEAD; ++j) {
                    is_there[j] = left != 0;
                    const int hit = is_there[j] ? __ffs((int)left) - 1 : 0;
                    left &= left - 1;
                    factor[j] = shuffle_from(x, hit);
                    const T *from = (const T *)shuffle_from(y, hit);
                    for (int i = 0; i < NUMBERS; ++i)
                        if (is_there[j] && d + 32 * i < lookups.width)
                            number[j][i] = from[d + 32 * i];
                }
                for (int j = 0; j < AHEAD; ++j)
                    for (int i = 0; i < NUMBERS; ++i)
                        if (is_there[j] && d + 32 * i < lookups.width)
                            sum[i] = plus_product<FUSED>(sum[i], factor[j], number[j][i]);
            }
        }
        for (int i = 0; i < NUMBERS; ++i)
            if (d + 32 * i < lookups.width)
                rule(row, d + 32 * i, sum[i]);
    }
}

// --- entries in the order of their rows -----------------------------------------------------------
//
// Eight bits of the row at a time, from the lowest: count how often a tile has each value, make places
// of these numbers, move. Entries that agree keep their order, so the order is that of the entries
// within each row.

constexpr int SORT_TILE = 2048;

template <class T, int COUNT>
__device__ inline void list_rows(const Lookups<T, COUNT> lookups, int *rows, int *order, Block block)
{
    const int entries = lookups.entries();
    for (i64 tile = block.index; tile * 256 < entries; tile += block.count) {
        const int at = (int)tile * 256 + thread_index();
        if (at < entries) {
            rows[at] = lookups.row(at);
            order[at] = at;
        }
    }
}

// The eight entries of a thread of a tile, which are 32 apart; those of a warp are neighbours.
struct SortPart {
    int digit[8], before[8]; // -1 for no entry; how many of this digit the warp has before it
};

// Counts the digits of a tile: a row of `counts` for each warp.
__device__ inline SortPart count_digits(const int *rows, int first, int entries, int shift,
                                        int (*counts)[256])
{
    const int lane = thread_index() % 32, warp = thread_index() / 32;
    SortPart part;
    meet();
    for (int i = lane; i < 256; i += 32)
        counts[warp][i] = 0;
    meet_warp(); // ballots do not make other lanes' zeros seen
    for (int i = 0; i < 8; ++i) {
        const int at = first + warp * 256 + i * 32 + lane;
        const int digit = at < entries ? rows[at] >> shift & 255 : -1;
        u32 same = lanes_where(digit >= 0);
        for (int bit = 0; bit < 8; ++bit) {
            const u32 ones = lanes_where((digit >> bit & 1) != 0);
            same &= (digit >> bit & 1) != 0 ? ones : ~ones;
        }
        const int earlier = __popc(same & ((1u << lane) - 1));
        part.digit[i] = digit;
        part.before[i] = digit >= 0 ? counts[warp][digit] + earlier : 0;
        meet_warp();
        if (digit >= 0 && earlier == 0)
            counts[warp][digit] += __popc(same);
        meet_warp();
    }
    meet();
    return part;
}

// counts[tile, digit] of the digit above the lowest `shift` bits
__device__ __attribute__((noinline)) void sort_count(const int *rows, int *counts, i64 total,
                                                     i64 shift, Block block)
{
    int(*of_warps)[256] = (int(*)[256])block.shared;
    const int entries = (int)total;
    for (i64 tile = block.index; tile * SORT_TILE < entries; tile += block.count) {
        count_digits(rows, (int)tile * SORT_TILE, entries, (int)shift, of_warps);
        int sum = 0;
        for (int warp = 0; warp < 8; ++warp)
            sum += of_warps[warp][thread_index()];
        counts[tile * 256 + thread_index()] = sum;
    }
}

// Makes of the counts where the entries of a tile with a digit begin: digits first, then tiles. One
// block does it.
__device__ __attribute__((noinline)) void sort_places(int *counts, i64 total, Block block)
{
    int *totals = (int *)block.shared;
    const int tiles = (int)((total + SORT_TILE - 1) / SORT_TILE), digit = thread_index();
    if (block.index != 0)
        return;
    int sum = 0;
    for (int tile = 0; tile < tiles; ++tile)
        sum += counts[tile * 256 + digit];
    meet();
    totals[digit] = sum;
    meet();
    int place = 0;
    for (int other = 0; other < digit; ++other)
        place += totals[other];
    for (int tile = 0; tile < tiles; ++tile) {
        const int count = counts[tile * 256 + digit];
        counts[tile * 256 + digit] = place;
        place += count;
    }
}

__device__ __attribute__((noinline)) void sort_move(const int *rows, const int *order,
                                                    const int *places, int *sorted_rows,
                                                    int *sorted_order, i64 total, i64 shift,
                                                    Block block)
{
    int(*of_warps)[256] = (int(*)[256])block.shared;
    const int lane = thread_index() % 32, warp = thread_index() / 32, entries = (int)total;
    for (i64 tile = block.index; tile * SORT_TILE < entries; tile += block.count) {
        const int first = (int)tile * SORT_TILE;
        const SortPart part = count_digits(rows, first, entries, (int)shift, of_warps);
        int place = places[tile * 256 + thread_index()];
        for (int i = 0; i < 8; ++i) {
            const int count = of_warps[i][thread_index()];
            of_warps[i][thread_index()] = place;
            place += count;
        }
        meet();
        for (int i = 0; i < 8; ++i)
            if (part.digit[i] >= 0) {
                const int at = first + warp * 256 + i * 32 + lane;
                const int to = of_warps[warp][part.digit[i]] + part.before[i];
                sorted_rows[to] = rows[at];
                sorted_order[to] = order[at];
            }
    }
}

// --- the largest elements of rows -----------------------------------------------------------------

// Whether an element comes before another one: nan is the largest, equal ones go by their places. A
// place of -1 is after everything.
template <class T> __device__ inline bool comes_before(T a, int at, T b, int bt)
{
    if (at < 0 || bt < 0)
        return at >= 0;
    if (a != a || b != b)
        return a != a && (b == b || at < bt);
    return a > b || (a == b && at < bt);
}

// An element and its place, of which `take_first` keeps what comes first.
template <class T> struct Candidate {
    T value;
    int at;

    __device__ void take_first(T other, int other_at)
    {
        if (comes_before(other, other_at, value, at)) {
            value = other;
            at = other_at;
        }
    }
};

// The places of the `count` largest of `columns` elements, a row by WARPS warps, 1 or all 8 of a
// block: each turn finds the first that comes after the one of the turn before.
template <int WARPS, class T>
__device__ inline void select_largest(const T *x, int *y, i64 rows, int columns, int count,
                                      Block block)
{
    constexpr int TOGETHER = 8 / WARPS;
    Candidate<T> *of_warps = (Candidate<T> *)block.shared;
    const int warp = thread_index() / 32, lane = thread_index() % (32 * WARPS);
    for (i64 tile = block.index; tile * TOGETHER < rows; tile += block.count) {
        const i64 n = tile * TOGETHER + warp / WARPS;
        if (n >= rows)
            continue;
        Candidate<T> last = {0, -1};
        for (int turn = 0; turn < count; ++turn) {
            Candidate<T> best = {0, -1};
            for (int at = lane; at < columns; at += 32 * WARPS) {
                const T value = x[n * columns + at];
                if (turn == 0 || comes_before(last.value, last.at, value, at))
                    best.take_first(value, at);
            }
            for (int apart = 16; apart > 0; apart /= 2) {
                const T other = shuffle_xor(best.value, apart);
                best.take_first(other, shuffle_xor(best.at, apart));
            }
            if (WARPS > 1) {
                meet();
                of_warps[warp] = best;
                meet();
                for (int other = 0; other < WARPS; ++other)
                    best.take_first(of_warps[other].value, of_warps[other].at);
            }
            last = best;
            if (lane == 0)
                y[n * count + turn] = best.at;
        }
    }
}
