// Products with windows of images: convolutions and their gradients, without a copy of the windows.
//
//     C[row, column] = sum over steps of A[row, step] * B[step, column]
//
// Elements of A are those of images. A `Spot` says where a window begins, a `Tap` which of its
// elements it is; what lies outside of the image is 0. Of a convolution and of the gradient to its
// images rows are spots and steps are taps; of the gradient to its weights it is the other way round.
//
// The record W that a product is written for says, as constants, what the images and windows are
// and how many rows, columns and steps a tile has. Sums are chains of CHAIN products in rising
// order, which are added up in rising order. A sum may go in parts of PART steps, each of which makes
// a result of its own, which are added up afterwards.

namespace windows {

constexpr int THREADS = 256, CHAIN = 256;
constexpr int NOWHERE = -(1 << 30);

// Neighbours that are loaded and stored together.
template <class Real, int N> struct alignas(sizeof(Real) * N) Pack {
    Real at[N];
};

__device__ inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double fused(double a, double b, double c) { return fma(a, b, c); }

template <class Index> struct Spot {
    Index image;
    int row, column;
};

struct Tap {
    int row, column, channel;
};

// The elements of A from the tap on.
template <class W, int N>
__device__ Pack<typename W::Real, N> read(
    const typename W::Real *a, const Spot<typename W::Index> &spot, const Tap &tap)
{
    const int row = spot.row + tap.row, column = spot.column + tap.column;
    Pack<typename W::Real, N> found = {};
    if ((u32)row < (u32)W::IMAGE_0 && (u32)column < (u32)W::IMAGE_1) {
        const int inside = (row * W::IMAGE_1 + column) * W::CHANNELS + tap.channel;
        found = *(const Pack<typename W::Real, N> *)(a + spot.image + inside);
    }
    return found;
}

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

// What of A a thread copies from memory to shared memory, DEPTH steps at a time.
template <class W, class Product> struct Left {
    typedef typename W::Real Real;
    typedef typename W::Index Index;
    static constexpr int N = W::LEFT_PACK;
    static constexpr int LINE = (Product::SPOTS_ARE_ROWS ? W::DEPTH : W::ROWS) / N;
    static constexpr int COUNT = (W::ROWS * W::DEPTH / N + THREADS - 1) / THREADS;
    static constexpr int SPOTS = Product::SPOTS_ARE_ROWS ? COUNT : 1;

    Spot<Index> spots[SPOTS];
    Tap tap;
    Pack<Real, N> held[COUNT];

    __device__ Left(const Product &product)
    {
        if constexpr (Product::SPOTS_ARE_ROWS) {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                const Index row = product.origin.row + line(i);
                spots[i] = product.spot(row);
                if (row >= product.rows)
                    spots[i].row = NOWHERE;
            }
        } else {
            const Index row = product.origin.row + along();
            tap = product.tap((int)row);
            if (row >= product.rows)
                tap.row = NOWHERE;
        }
    }
    // Packs of a line lie together in memory: its number, and what comes before the pack in it.
    __device__ static int line(int i) { return (thread_index() + i * THREADS) / LINE; }
    __device__ static int along() { return thread_index() % LINE * N; }

    __device__ void fetch(const Product &product, const Real *a, Index step)
    {
        if constexpr (Product::SPOTS_ARE_ROWS) {
            tap = product.tap((int)step + along());
            const bool is_there = step + along() < product.origin.steps_end;
#pragma unroll
            for (int i = 0; i < COUNT; i++)
                held[i] = is_there ? read<W, N>(a, spots[i], tap) : Pack<Real, N>{};
        } else {
#pragma unroll
            for (int i = 0; i < COUNT; i++) {
                const Index from = step + line(i);
                const bool is_there = from < product.origin.steps_end;
                held[i] = is_there ? read<W, N>(a, product.spot(from), tap) : Pack<Real, N>{};
            }
        }
    }
    __device__ void put(Real (*to)[W::ROWS + W::GAP]) const
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            if (W::ROWS * W::DEPTH / N % THREADS && thread_index() + i * THREADS >= W::ROWS * W::DEPTH / N)
                break;
            if constexpr (Product::SPOTS_ARE_ROWS) {
#pragma unroll
                for (int j = 0; j < N; j++)
                    to[along() + j][line(i)] = held[i].at[j];
            } else
                *(Pack<Real, N> *)&to[line(i)][along()] = held[i];
        }
    }
};

// What of B a thread copies.
template <class W, class Product> struct Right {
    typedef typename W::Real Real;
    typedef typename W::Index Index;
    static constexpr int N = W::RIGHT_PACK;
    static constexpr int LINE = W::COLUMNS / N;
    static constexpr int COUNT = (W::DEPTH * LINE + THREADS - 1) / THREADS;

    Index column;
    bool is_inside;
    Pack<Real, N> held[COUNT];

    __device__ Right(const Product &product)
    {
        const int first = product.origin.column + along();
        is_inside = first < W::WIDTH;
        column = product.right_column(first);
    }
    __device__ static int line(int i) { return (thread_index() + i * THREADS) / LINE; }
    __device__ static int along() { return thread_index() % LINE * N; }

    __device__ void fetch(const Product &product, const Real *b, Index step)
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const Index from = step + line(i);
            held[i] = {};
            if (is_inside && line(i) < W::DEPTH && from < product.origin.steps_end)
                held[i] = *(const Pack<Real, N> *)(b + product.right_row(from) + column);
        }
    }
    __device__ void put(Real (*to)[W::COLUMNS]) const
    {
#pragma unroll
        for (int i = 0; i < COUNT; i++)
            if (W::DEPTH * LINE % THREADS == 0 || line(i) < W::DEPTH)
                *(Pack<Real, N> *)&to[line(i)][along()] = held[i];
    }
};

// The sums of a thread: DOWN rows and ACROSS columns that lie together.
template <class W> struct Sums {
    typedef typename W::Real Real;
    static constexpr int TOTALS = W::IS_LONG ? W::DOWN : 1;

    Real chain[W::DOWN][W::ACROSS], total[TOTALS][W::ACROSS];

    __device__ Sums()
    {
        clear();
#pragma unroll
        for (int i = 0; i < TOTALS; i++)
#pragma unroll
            for (int j = 0; j < W::ACROSS; j++)
                total[i][j] = 0;
    }
    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < W::DOWN; i++)
#pragma unroll
            for (int j = 0; j < W::ACROSS; j++)
                chain[i][j] = 0;
    }
    __device__ static int row() { return thread_index() / (W::COLUMNS / W::ACROSS) * W::DOWN; }
    __device__ static int column() { return thread_index() % (W::COLUMNS / W::ACROSS) * W::ACROSS; }

    __device__ void add(const Real (*a)[W::ROWS + W::GAP], const Real (*b)[W::COLUMNS])
    {
#pragma unroll
        for (int step = 0; step < W::DEPTH; step++) {
            Real left[W::DOWN], right[W::ACROSS];
            copy<W::DOWN>(left, &a[step][row()]);
            copy<W::ACROSS>(right, &b[step][column()]);
#pragma unroll
            for (int i = 0; i < W::DOWN; i++)
#pragma unroll
                for (int j = 0; j < W::ACROSS; j++)
                    chain[i][j] = W::IS_FUSED ? fused(left[i], right[j], chain[i][j])
                                              : chain[i][j] + left[i] * right[j];
        }
    }
    template <int COUNT> __device__ static void copy(Real *to, const Real *from)
    {
        constexpr int MOST = 16 / sizeof(Real), N = COUNT < MOST ? COUNT : MOST;
#pragma unroll
        for (int i = 0; i < COUNT; i += N) {
            const Pack<Real, N> found = *(const Pack<Real, N> *)(from + i);
#pragma unroll
            for (int j = 0; j < N; j++)
                to[i + j] = found.at[j];
        }
    }
    __device__ void end_chain()
    {
        if constexpr (W::IS_LONG) {
#pragma unroll
            for (int i = 0; i < W::DOWN; i++)
#pragma unroll
                for (int j = 0; j < W::ACROSS; j++)
                    total[i][j] += chain[i][j];
            clear();
        }
    }
    template <class Product> __device__ void write(const Product &product, Real *c) const
    {
        const int first = product.origin.column + column();
#pragma unroll
        for (int i = 0; i < W::DOWN; i++) {
            const typename W::Index number = product.origin.row + row() + i;
            const i64 at = number < product.rows ? product.result(number) : -1;
            if (at < 0)
                continue;
#pragma unroll
            for (int j = 0; j < W::ACROSS; j += W::RESULT_PACK) {
                Pack<Real, W::RESULT_PACK> made;
#pragma unroll
                for (int k = 0; k < W::RESULT_PACK; k++)
                    made.at[k] = W::IS_LONG ? total[i % TOTALS][j + k] : chain[i][j + k];
                if (first + j < W::WIDTH)
                    *(Pack<Real, W::RESULT_PACK> *)(c + at + first + j) = made;
            }
        }
    }
};

// One tile.
template <class W, class Product>
__device__ void multiply(
    const typename W::Real *a, const typename W::Real *b, typename W::Real *c,
    const Product &product, char *shared)
{
    typedef typename W::Real Real;
    typedef typename W::Index Index;
    typedef Real LeftTile[W::DEPTH][W::ROWS + W::GAP];
    typedef Real RightTile[W::DEPTH][W::COLUMNS];
    LeftTile *const lefts = (LeftTile *)shared;
    RightTile *const rights = (RightTile *)(shared + 2 * sizeof(LeftTile));
    Left<W, Product> left(product);
    Right<W, Product> right(product);
    Sums<W> sums;
    Index step = product.origin.first_step;
    left.fetch(product, a, step);
    right.fetch(product, b, step);
    meet();
    left.put(lefts[0]);
    right.put(rights[0]);
    int now = 0, steps = 0;
    // While one pair of tiles is multiplied, the next is on its way to the other.
    for (; step < product.origin.steps_end; step += W::DEPTH) {
        meet();
        const bool is_last = step + W::DEPTH >= product.origin.steps_end;
        if (!is_last) {
            left.fetch(product, a, step + W::DEPTH);
            right.fetch(product, b, step + W::DEPTH);
        }
        sums.add(lefts[now], rights[now]);
        now ^= 1;
        if (!is_last) {
            left.put(lefts[now]);
            right.put(rights[now]);
        }
        steps += W::DEPTH;
        if (is_last || steps % CHAIN == 0)
            sums.end_chain();
    }
    sums.write(product, c);
}

template <class W, class Product>
__device__ void multiply_tiles(
    const typename W::Real *a, const typename W::Real *b, typename W::Real *c, i64 images,
    i64 tiles, Block block)
{
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const Product product(tile, images);
        multiply<W>(a, b, c + product.origin.part * Product::size(images), product, block.shared);
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
