// Products with windows of images: convolutions and their gradients, without a copy of the windows.
//
//     C[row, column] = sum over steps of A[row, step] * B[step, column]
//
// Elements of A are those of images. A `Spot` says where a window begins, a `Tap` which of its
// elements it is; what lies outside of the image is 0. Of a convolution and of the gradient to its
// images rows are spots and steps are taps; of the gradient to its weights it is the other way round.
//
// The record W that a product is written for says, as constants, what the images and windows are
// and how many rows, columns and steps a tile has. Tiles are computed as those of matrices, whose
// stretches their sums have; only their copies differ. A sum may go in parts of PART steps, each of
// which makes a result of its own, which are added up afterwards.

namespace windows {

constexpr int THREADS = PRODUCT_THREADS;
constexpr int NOWHERE = -(1 << 30);

template <class Index> struct Spot {
    Index image;
    int row, column;
};

struct Tap {
    int row, column, channel;
};

// The number of a column in a row of B, whose columns may lie in blocks that are `apart`.
template <class W> __device__ typename W::Index column_of(int column, int apart)
{
    if constexpr (W::BLOCK == 0)
        return column;
    else
        return (typename W::Index)(column / W::BLOCK) * apart + column % W::BLOCK;
}

// Windows over images, and the taps of whole windows.
template <class W> struct Forward {
    typedef typename W::Index Index;

    __device__ Spot<Index> spot(Index number) const
    {
        const Index image = number / (W::SPOTS_0 * W::SPOTS_1);
        const int rest = (int)(number - image * (W::SPOTS_0 * W::SPOTS_1));
        return {image * (W::IMAGE_0 * W::IMAGE_1 * W::CHANNELS),
                rest / W::SPOTS_1 * W::STRIDE_0 - W::LOW_0,
                rest % W::SPOTS_1 * W::STRIDE_1 - W::LOW_1};
    }

    __device__ Tap tap(int number) const
    {
        const int place = number / W::CHANNELS;
        return {place / W::TAPS_1, place % W::TAPS_1, number % W::CHANNELS};
    }
};

// What a tile computes: rows, columns and steps from these on; `rest` see DataGradient.
template <class W> struct Origin {
    typename W::Index row, first_step, steps_end;
    int column, rest;
    i64 part;

    __device__ Origin(i64 tile, i64 rows)
    {
        const i64 row_tiles = (rows + W::ROWS - 1) / W::ROWS;
        column = (int)(tile % W::COLUMN_TILES) * W::COLUMNS;
        tile /= W::COLUMN_TILES;
        rest = (int)(tile % W::RESTS);
        tile /= W::RESTS;
        row = (typename W::Index)(tile % row_tiles * W::ROWS);
        part = tile / row_tiles;
    }
    // The steps of the part, out of so many.
    __device__ void take(typename W::Index steps)
    {
        if (W::IS_EMPTY)
            steps = 0;
        first_step = W::PART ? (typename W::Index)(part * W::PART) : 0;
        steps_end = W::PART && steps - first_step > W::PART ? first_step + W::PART : steps;
    }
};

// A convolution: rows are windows, B are the weights.
template <class W> struct Convolution : Forward<W> {
    typedef typename W::Index Index;
    static constexpr bool SPOTS_ARE_ROWS = true;
    static constexpr int HEIGHT = W::TAPS_0 * W::TAPS_1 * W::CHANNELS;
    Index rows;
    Origin<W> origin;

    __device__ static i64 row_count(i64 images) { return images * (W::SPOTS_0 * W::SPOTS_1); }
    __device__ Convolution(i64 tile, i64 images)
        : rows((Index)row_count(images)), origin(tile, row_count(images))
    {
        origin.take(HEIGHT);
    }
    __device__ Index right_row(Index step) const { return step * (W::BLOCK ? W::BLOCK : W::WIDTH); }
    __device__ Index right_column(int column) const
    {
        return column_of<W>(column, HEIGHT * W::BLOCK);
    }
    __device__ i64 result(Index row) const { return (i64)row * W::WIDTH; }
    __device__ static i64 size(i64 images) { return row_count(images) * W::WIDTH; }
};

// The gradient to the images: a row is an element of an image, its steps are the windows that it is
// in. Elements whose numbers have the same rest by the strides are in windows at the same taps: a
// tile has rows of one rest only, so strides add no steps that are not there.
template <class W> struct DataGradient {
    typedef typename W::Index Index;
    static constexpr bool SPOTS_ARE_ROWS = true;
    Index rows;
    Origin<W> origin;
    int rest_0, rest_1, tap_0, tap_1, taps_1;

    __device__ static i64 row_count(i64 images) { return images * (W::SPOTS_0 * W::SPOTS_1); }
    __device__ DataGradient(i64 tile, i64 images)
        : rows((Index)row_count(images)), origin(tile, row_count(images))
    {
        rest_0 = origin.rest / W::STRIDE_1;
        rest_1 = origin.rest % W::STRIDE_1;
        tap_0 = (rest_0 + W::LOW_0) % W::STRIDE_0;
        tap_1 = (rest_1 + W::LOW_1) % W::STRIDE_1;
        taps_1 = taps(W::TAPS_1, tap_1, W::STRIDE_1);
        origin.take(taps(W::TAPS_0, tap_0, W::STRIDE_0) * taps_1 * W::CHANNELS);
    }
    // How many taps there are from the first on, a stride apart.
    __device__ static int taps(int size, int first, int stride)
    {
        return first < size ? (size - first + stride - 1) / stride : 0;
    }

    __device__ Spot<Index> spot(Index number) const
    {
        const Index image = number / (W::SPOTS_0 * W::SPOTS_1);
        const int inside = (int)(number - image * (W::SPOTS_0 * W::SPOTS_1));
        return {image * (W::IMAGE_0 * W::IMAGE_1 * W::CHANNELS),
                inside / W::SPOTS_1 + (rest_0 + W::LOW_0) / W::STRIDE_0,
                inside % W::SPOTS_1 + (rest_1 + W::LOW_1) / W::STRIDE_1};
    }
    __device__ Tap tap(int number) const
    {
        const int place = number / W::CHANNELS;
        const int row = W::STRIDE_1 == 1 ? place / W::TAPS_1 : place / (taps_1 ? taps_1 : 1);
        return {-row, row * (W::STRIDE_1 == 1 ? W::TAPS_1 : taps_1) - place, number % W::CHANNELS};
    }
    __device__ Index right_row(Index step) const
    {
        const Tap from = tap((int)step);
        const int row = tap_0 - from.row * W::STRIDE_0, column = tap_1 - from.column * W::STRIDE_1;
        if constexpr (W::BLOCK == 0)
            return ((row * W::CHANNELS + from.channel) * W::TAPS_1 + column) * W::WIDTH;
        else
            return (row * W::TAPS_1 + column) * (W::CHANNELS * W::WIDTH) + from.channel * W::BLOCK;
    }
    __device__ Index right_column(int column) const
    {
        return column_of<W>(column, W::CHANNELS * W::BLOCK);
    }
    // -1 for an element behind the end of its image.
    __device__ i64 result(Index row) const
    {
        const Index image = row / (W::SPOTS_0 * W::SPOTS_1);
        const int inside = (int)(row - image * (W::SPOTS_0 * W::SPOTS_1));
        const int across = inside / W::SPOTS_1 * W::STRIDE_0 + rest_0;
        const int down = inside % W::SPOTS_1 * W::STRIDE_1 + rest_1;
        if (across >= W::RESULT_0 || down >= W::RESULT_1)
            return -1;
        return (((i64)image * W::RESULT_0 + across) * W::RESULT_1 + down) * W::WIDTH;
    }
    __device__ static i64 size(i64 images)
    {
        return images * W::RESULT_0 * W::RESULT_1 * W::WIDTH;
    }
};

// The gradient to the weights: rows are taps, steps are windows, B is what they made.
template <class W> struct WeightGradient : Forward<W> {
    typedef typename W::Index Index;
    static constexpr bool SPOTS_ARE_ROWS = false;
    static constexpr int HEIGHT = W::TAPS_0 * W::TAPS_1 * W::CHANNELS;
    Index rows = HEIGHT;
    Origin<W> origin;

    __device__ WeightGradient(i64 tile, i64 images) : origin(tile, HEIGHT)
    {
        origin.take((Index)(images * (W::SPOTS_0 * W::SPOTS_1)));
    }
    __device__ Index right_row(Index step) const { return step * W::WIDTH; }
    __device__ Index right_column(int column) const { return column; }
    __device__ i64 result(Index row) const { return (i64)row * W::WIDTH; }
    __device__ static i64 size(i64) { return HEIGHT * W::WIDTH; }
};

// How the factors of a tile lie in shared memory, and its sums (`product.cuh`).
template <class W, class What> struct Tile {
    typedef typename W::Real T;
    typedef Factor<T, W::ROWS, W::DEPTH, What::SPOTS_ARE_ROWS, W::LEFT_PACK> A;
    typedef Factor<T, W::COLUMNS, W::DEPTH, false, W::RIGHT_PACK> B;
    typedef typename W::template SumsOf<A, B> Sums;
    typedef ::Product<A, B, Sums, W::STAGES, W::IS_LONG> Product;
    static_assert(Product::SHARED == W::SHARED, "");
};

// Where the packs are that a thread copies of a factor: `inner` is the same for all of them.
template <class F, int PACK> struct Packs {
    static constexpr int ACROSS = F::INNER / PACK, ALL = F::OUTER * ACROSS;
    static constexpr int COUNT = (ALL + THREADS - 1) / THREADS;
    static __device__ inline int outer(int i) { return (thread_index() + i * THREADS) / ACROSS; }
    static __device__ inline int inner() { return thread_index() % ACROSS * PACK; }
    static __device__ inline bool has(int i) { return ALL % THREADS == 0 || outer(i) < F::OUTER; }

    static __device__ inline void copy(
        typename F::T *stage, int i, const typename F::T *from, bool is_there)
    {
        copy_ahead<PACK * (int)sizeof(typename F::T)>(stage + outer(i) * F::PITCH + inner(), from,
                                                      is_there);
    }
};

// Copies of A.
template <class W, class What> struct Left {
    typedef typename W::Index Index;
    typedef typename W::Real T;
    typedef Packs<typename Tile<W, What>::A, W::LEFT_PACK> All;
    static constexpr int SPOTS = What::SPOTS_ARE_ROWS ? All::COUNT : 1;

    Spot<Index> spots[SPOTS];
    Tap tap;

    __device__ inline Left(const What &what)
    {
        if constexpr (What::SPOTS_ARE_ROWS) {
#pragma unroll
            for (int i = 0; i < SPOTS; i++) {
                const Index row = what.origin.row + All::outer(i);
                spots[i] = what.spot(row);
                if (row >= what.rows)
                    spots[i].row = NOWHERE;
            }
        } else {
            const Index row = what.origin.row + All::inner();
            tap = what.tap((int)row);
            if (row >= what.rows)
                tap.row = NOWHERE;
        }
    }

    __device__ inline void copy(const What &what, const T *a, Index step, T *stage)
    {
        if constexpr (What::SPOTS_ARE_ROWS) {
            tap = what.tap((int)step + All::inner());
            if (step + All::inner() >= what.origin.steps_end)
                tap.row = NOWHERE;
        }
#pragma unroll
        for (int i = 0; i < All::COUNT; i++) {
            if (!All::has(i))
                continue;
            Spot<Index> spot = spots[What::SPOTS_ARE_ROWS ? i : 0];
            if constexpr (!What::SPOTS_ARE_ROWS) {
                spot = what.spot(step + All::outer(i));
                if (step + All::outer(i) >= what.origin.steps_end)
                    spot.row = NOWHERE;
            }
            const int row = spot.row + tap.row, column = spot.column + tap.column;
            const bool is_there = (u32)row < (u32)W::IMAGE_0 && (u32)column < (u32)W::IMAGE_1;
            const int inside = (row * W::IMAGE_1 + column) * W::CHANNELS + tap.channel;
            All::copy(stage, i, is_there ? a + spot.image + inside : a, is_there);
        }
    }
};

// Copies of B.
template <class W, class What> struct Right {
    typedef typename W::Index Index;
    typedef typename W::Real T;
    typedef Packs<typename Tile<W, What>::B, W::RIGHT_PACK> All;

    Index column;
    bool is_inside;

    __device__ inline Right(const What &what)
    {
        const int first = what.origin.column + All::inner();
        is_inside = first < W::WIDTH;
        column = what.right_column(first);
    }

    __device__ inline void copy(const What &what, const T *b, Index step, T *stage) const
    {
#pragma unroll
        for (int i = 0; i < All::COUNT; i++) {
            if (!All::has(i))
                continue;
            const Index from = step + All::outer(i);
            const bool is_there = is_inside && from < what.origin.steps_end;
            All::copy(stage, i, is_there ? b + what.right_row(from) + column : b, is_there);
        }
    }
};

// The sums of a tile, which stand in shared memory then: as `Product::multiply`, with other copies.
template <class W, class What>
__device__ inline void multiply(
    const typename W::Real *a, const typename W::Real *b, const What &what, char *shared)
{
    typedef typename Tile<W, What>::Product P;
    typedef typename W::Real T;
    typedef typename W::Index Index;
    constexpr int A_SIZE = Tile<W, What>::A::SIZE;
    T *const stages = (T *)own_shared(shared), *const tile = stages + P::BEFORE;
    Left<W, What> left(what);
    Right<W, What> right(what);
    typename Tile<W, What>::Sums sums;
    Index step = what.origin.first_step;
    const Index end = what.origin.steps_end;
    const int chunks = step < end ? (int)((end - step + W::DEPTH - 1) / W::DEPTH) : 0;
    int to = 0, from = 0;
    meet();
    for (int chunk = 1 - W::STAGES; chunk < chunks; chunk++) {
        if (chunk >= 0) {
            wait_for_copies<W::STAGES - 2>();
            meet();
        }
        if (step < end) {
            left.copy(what, a, step, stages + to * P::STAGE);
            right.copy(what, b, step, stages + to * P::STAGE + A_SIZE);
            step += W::DEPTH;
            to = to + 1 < W::STAGES ? to + 1 : 0;
        }
        group_copies();
        if (chunk >= 0) {
            sums.add(stages + from * P::STAGE, stages + from * P::STAGE + A_SIZE);
            from = from + 1 < W::STAGES ? from + 1 : 0;
            if (W::IS_LONG && (chunk + 1) % P::STRETCHES == 0 && chunk + 1 < chunks) {
                sums.put(tile, chunk >= P::STRETCHES);
                sums.clear();
            }
        }
    }
    wait_for_copies<0>();
    if (!W::IS_LONG)
        meet();
    sums.put(tile, W::IS_LONG && chunks > P::STRETCHES);
    meet();
}

template <class W, class What>
__device__ void multiply_tiles(
    const typename W::Real *a, const typename W::Real *b, typename W::Real *c, i64 images,
    i64 tiles, Block block)
{
    typedef Pack<typename W::Real, W::RESULT_PACK> Some;
    typedef typename Tile<W, What>::Product P;
    constexpr int ACROSS = W::COLUMNS / W::RESULT_PACK;
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const What what(tile, images);
        multiply<W>(a, b, what, block.shared);
        const typename W::Real *const sums = P::tile(own_shared(block.shared));
        for (int i = thread_index(); i < W::ROWS * ACROSS; i += THREADS) {
            const int row = i / ACROSS, column = i % ACROSS * W::RESULT_PACK;
            const typename W::Index number = what.origin.row + row;
            const i64 at = number < what.rows ? what.result(number) : -1;
            if (at >= 0 && what.origin.column + column < W::WIDTH)
                *(Some *)(c + what.origin.part * What::size(images) + at + what.origin.column +
                          column) = *(const Some *)(sums + row * P::PITCH + column);
        }
    }
}

// Adds up what the parts of a sum made, 32 elements a tile: eight threads for each, which take
// every eighth part in rising order; then their sums in rising order.
template <class Real>
__device__ void add_parts(
    const Real *from, Real *to, i64 size, i64 parts, i64 tiles, Block block)
{
    constexpr int TOGETHER = 32, GROUPS = THREADS / TOGETHER;
    Real *const sums = (Real *)block.shared;
    const int inside = thread_index() % TOGETHER, group = thread_index() / TOGETHER;
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const i64 at = tile * TOGETHER + inside;
        Real sum = 0;
        if (at < size) {
#pragma unroll 4
            for (i64 part = group; part < parts; part += GROUPS)
                sum += from[part * size + at];
        }
        meet();
        sums[thread_index()] = sum;
        meet();
        if (group == 0 && at < size) {
#pragma unroll
            for (int i = 1; i < GROUPS; i++)
                sum += sums[i * TOGETHER + inside];
            to[at] = sum;
        }
    }
}

}  // namespace windows
