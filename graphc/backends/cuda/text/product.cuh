// Products of matrices, tile by tile. A block copies DEPTH steps of the factors' lines (rows of A,
// columns of B) to shared memory, STAGES - 1 copies ahead, and its threads add up the sums of the
// tile in registers. Then these stand in shared memory, row by row, for whoever goes through them.
//
// A sum is one of stretches: STRETCH steps of k in rising order are one chain of additions from 0,
// and stretches are added up in rising order. So no tile and no split decides bits.

constexpr int PRODUCT_THREADS = 256;
constexpr int STRETCH = 256;

// Neighbours that are read or written at once.
template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) Pack {
    T at[COUNT];
};

__device__ inline float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double multiply_add(double a, double b, double c) { return fma(a, b, c); }

// How DEPTH steps of LINES lines lie in shared memory, which is as they lie in memory: BY_K, each
// line's steps are neighbours, else each step's lines. Copies have PACK elements. Rows are so far
// apart that threads which read together meet no bank twice.
template <class Number, int LINES_, int DEPTH_, bool BY_K_, int PACK> struct Factor {
    typedef Number T;
    static constexpr int LINES = LINES_, DEPTH = DEPTH_;
    static constexpr bool BY_K = BY_K_;
    static constexpr int OUTER = BY_K ? LINES : DEPTH, INNER = BY_K ? DEPTH : LINES;
    static constexpr int PITCH = INNER + (BY_K ? 16 / (int)sizeof(T) : 8);
    static constexpr int SIZE = OUTER * PITCH;

    // Begins to copy what `from` points to, in rows of `stride`; zeros stand for lines and steps
    // beyond those that are left.
    static __device__ inline void copy(T *to, const T *from, i64 stride, int lines, int steps)
    {
        constexpr int ACROSS = INNER / PACK, ROWS = PRODUCT_THREADS / ACROSS;
        constexpr int TURNS = (OUTER + ROWS - 1) / ROWS, UNROLLED = TURNS <= 2 ? TURNS : 1;
        const int outer_left = BY_K ? lines : steps, inner_left = BY_K ? steps : lines;
        const int column = thread_index() % ACROSS * PACK, first = thread_index() / ACROSS;
        const T *place = from + first * stride + column;
#pragma unroll UNROLLED
        for (int turn = 0; turn < TURNS; turn++, place += ROWS * stride) {
            const int row = first + turn * ROWS;
            if (OUTER % ROWS != 0 && row >= OUTER)
                break;
            const bool is_there = row < outer_left && column < inner_left;
            copy_ahead<PACK * (int)sizeof(T)>(to + row * PITCH + column, is_there ? place : from,
                                              is_there);
        }
    }

    static __device__ inline T at(const T *stage, int line, int k)
    {
        return stage[BY_K ? line * PITCH + k : k * PITCH + line];
    }

    // STEPS steps from `k` on of COUNT neighbouring lines; BY_K, of one line.
    template <int COUNT, int STEPS>
    static __device__ inline void read(T (*to)[STEPS], const T *stage, int line, int k)
    {
        static_assert(!BY_K || COUNT == 1, "");
        if constexpr (BY_K) {
            const auto steps = *(const Pack<T, STEPS> *)(stage + line * PITCH + k);
#pragma unroll
            for (int q = 0; q < STEPS; q++)
                to[0][q] = steps.at[q];
        } else {
#pragma unroll
            for (int q = 0; q < STEPS; q++) {
                const auto lines = *(const Pack<T, COUNT> *)(stage + (k + q) * PITCH + line);
#pragma unroll
                for (int i = 0; i < COUNT; i++)
                    to[i][q] = lines.at[i];
            }
        }
    }
};

// The sums of a tile of A's lines by B's, some of them in each thread. Threads are in rows of WIDE,
// those of a warp in a square. CONTRACTED: a product and its sum are rounded once.
template <class A, class B, bool CONTRACTED> struct Sums {
    typedef typename A::T T;
    static constexpr int ROWS = A::LINES, COLS = B::LINES, PITCH = COLS + 8;
    __device__ static constexpr int least(int a, int b) { return a < b ? a : b; }
    static constexpr int WIDE = least(COLS, ROWS < 16 ? PRODUCT_THREADS / ROWS : 16);
    static constexpr int HIGH = least(ROWS, PRODUCT_THREADS / WIDE);
    static constexpr int M = ROWS / HIGH, N = COLS / WIDE;
    static constexpr int WARP_WIDE = least(WIDE, 8), WARP_HIGH = 32 / WARP_WIDE;
    // Lines of a thread that are neighbours, and steps that it reads of a line at once.
    static constexpr int MOST = 16 / (int)sizeof(T);
    static constexpr int M_PACK = A::BY_K ? 1 : least(M, MOST);
    static constexpr int N_PACK = B::BY_K ? 1 : least(N, MOST);
    static constexpr int STEPS = !A::BY_K && !B::BY_K ? 1 : M * N >= 32 ? 2 : MOST;
    static constexpr int UNROLLED = (M * N >= 32 ? 8 : 16) / STEPS;
    static_assert(HIGH % WARP_HIGH == 0 && WIDE % WARP_WIDE == 0 && A::DEPTH % STEPS == 0, "");

    T sum[M][N];
    int high, wide;

    __device__ inline Sums()
    {
        const int lane = thread_index() % 32, warp = thread_index() / 32;
        wide = warp % (WIDE / WARP_WIDE) * WARP_WIDE + lane % WARP_WIDE;
        high = warp / (WIDE / WARP_WIDE) * WARP_HIGH + lane / WARP_WIDE;
        clear();
    }

    __device__ inline void clear()
    {
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[i][j] = 0;
    }

    // The rows and columns of this thread's sums.
    __device__ inline int row(int i) const
    {
        return (i / M_PACK * HIGH + high) * M_PACK + i % M_PACK;
    }
    __device__ inline int col(int j) const
    {
        return (j / N_PACK * WIDE + wide) * N_PACK + j % N_PACK;
    }

    // Adds DEPTH steps of both factors, which are in shared memory.
    __device__ inline void add(const T *a, const T *b)
    {
        if (high >= HIGH)
            return;
#pragma unroll UNROLLED
        for (int k = 0; k < A::DEPTH; k += STEPS) {
            T x[M][STEPS], y[N][STEPS];
#pragma unroll
            for (int i = 0; i < M; i += M_PACK)
                A::template read<M_PACK, STEPS>(x + i, a, row(i), k);
#pragma unroll
            for (int j = 0; j < N; j += N_PACK)
                B::template read<N_PACK, STEPS>(y + j, b, col(j), k);
#pragma unroll
            for (int q = 0; q < STEPS; q++)
#pragma unroll
                for (int i = 0; i < M; i++)
#pragma unroll
                    for (int j = 0; j < N; j++)
                        if constexpr (CONTRACTED)
                            sum[i][j] = multiply_add(x[i][q], y[j][q], sum[i][j]);
                        else
                            sum[i][j] = sum[i][j] + x[i][q] * y[j][q];
        }
    }

    // Puts the sums to the tile, or adds them to what is there.
    __device__ inline void put(T *tile, bool adds)
    {
        if (high >= HIGH)
            return;
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < N; j += N_PACK) {
                auto &to = *(Pack<T, N_PACK> *)(tile + row(i) * PITCH + col(j));
                auto sums = to;
#pragma unroll
                for (int c = 0; c < N_PACK; c++)
                    sums.at[c] = adds ? sums.at[c] + sum[i][j + c] : sum[i][j + c];
                to = sums;
            }
    }
};

// The same by tensor cores, of factors with 10 bits of fraction. Warps are in rows of WIDE; each
// has M x N pieces of 16 x 8 sums, whose places are those of `multiply_warp`.
template <class A, class B> struct TensorSums {
    typedef float T;
    static constexpr int ROWS = A::LINES, COLS = B::LINES, PITCH = COLS + 8;
    static constexpr int HIGH = ROWS > COLS ? 4 : 2, WIDE = 8 / HIGH;
    static constexpr int M = ROWS / HIGH / 16, N = COLS / WIDE / 8;
    static_assert(M * HIGH * 16 == ROWS && N * WIDE * 8 == COLS && A::DEPTH % 8 == 0, "");

    float sum[M][N][4];
    int row, col, eighth, quarter;

    __device__ inline TensorSums()
    {
        const int lane = thread_index() % 32, warp = thread_index() / 32;
        row = warp / WIDE * (M * 16), col = warp % WIDE * (N * 8);
        eighth = lane / 4, quarter = lane % 4;
        clear();
    }

    __device__ inline void clear()
    {
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < N; j++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    sum[i][j][c] = 0;
    }

    __device__ inline void add(const float *a, const float *b)
    {
#pragma unroll
        for (int k = 0; k < A::DEPTH; k += 8) {
            u32 x[M][4], y[N][2];
#pragma unroll
            for (int i = 0; i < M; i++)
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    const int line = row + i * 16 + c % 2 * 8 + eighth;
                    x[i][c] = to_tf32(A::at(a, line, k + c / 2 * 4 + quarter));
                }
#pragma unroll
            for (int j = 0; j < N; j++)
#pragma unroll
                for (int c = 0; c < 2; c++)
                    y[j][c] = to_tf32(B::at(b, col + j * 8 + eighth, k + c * 4 + quarter));
#pragma unroll
            for (int i = 0; i < M; i++)
#pragma unroll
                for (int j = 0; j < N; j++)
                    multiply_warp(sum[i][j], x[i], y[j]);
        }
    }

    __device__ inline void put(float *tile, bool adds)
    {
#pragma unroll
        for (int i = 0; i < M; i++)
#pragma unroll
            for (int j = 0; j < N; j++)
#pragma unroll
                for (int c = 0; c < 4; c += 2) {
                    const int line = row + i * 16 + c / 2 * 8 + eighth;
                    auto &to = *(Pack<float, 2> *)(tile + line * PITCH + col + j * 8 + quarter * 2);
                    auto sums = to;
                    sums.at[0] = adds ? sums.at[0] + sum[i][j][c] : sum[i][j][c];
                    sums.at[1] = adds ? sums.at[1] + sum[i][j][c + 1] : sum[i][j][c + 1];
                    to = sums;
                }
    }
};

// A product by tiles with these sums. LONG: k may be longer than a stretch.
template <class A, class B, class Tile, int STAGES, bool LONG> struct Product {
    typedef typename A::T T;
    static constexpr int ROWS = A::LINES, COLS = B::LINES, DEPTH = A::DEPTH, PITCH = Tile::PITCH;
    static constexpr bool A_BY_K = A::BY_K, B_BY_K = B::BY_K;
    static constexpr int STAGE = A::SIZE + B::SIZE, STRETCHES = STRETCH / DEPTH;
    static constexpr int TILE = ROWS * PITCH, BEFORE = LONG ? STAGES * STAGE : 0;
    // Bytes: the tile lies behind the stages, or over them if it is written at last only.
    static constexpr int SHARED =
        (int)sizeof(T) * (BEFORE + TILE > STAGES * STAGE ? BEFORE + TILE : STAGES * STAGE);

    // The sums of a tile, row by row, PITCH apart. A thread finds what others wrote.
    static __device__ inline const T *tile(const char *shared)
    {
        return (const T *)shared + BEFORE;
    }

    // Multiplies lines of A and B, which lie in memory as their factors say, in rows of these
    // strides; `rows` and `cols` are how many there are.
    static __device__ inline void multiply(const T *a, i64 stride_a, const T *b, i64 stride_b,
                                           i64 rows, i64 cols, i64 k, char *shared)
    {
        T *const stages = (T *)own_shared(shared), *const tile = stages + BEFORE;
        const int high = (int)(rows < ROWS ? rows : ROWS), wide = (int)(cols < COLS ? cols : COLS);
        const int chunks = (int)((k + DEPTH - 1) / DEPTH);
        const int last = (int)(k - (i64)(chunks - 1) * DEPTH);
        int copied = 0, to = 0, from = 0;
        Tile sums;
        meet();
        for (int chunk = 1 - STAGES; chunk < chunks; chunk++) {
            if (chunk >= 0) {
                wait_for_copies<STAGES - 2>();
                meet();
            }
            if (copied < chunks) {
                const int steps = copied + 1 < chunks ? DEPTH : last;
                A::copy(stages + to * STAGE, a, stride_a, high, steps);
                B::copy(stages + to * STAGE + A::SIZE, b, stride_b, wide, steps);
                a += A::BY_K ? DEPTH : DEPTH * stride_a;
                b += B::BY_K ? DEPTH : DEPTH * stride_b;
                copied++;
                to = to + 1 < STAGES ? to + 1 : 0;
            }
            group_copies();
            if (chunk >= 0) {
                sums.add(stages + from * STAGE, stages + from * STAGE + A::SIZE);
                from = from + 1 < STAGES ? from + 1 : 0;
                if (LONG && (chunk + 1) % STRETCHES == 0 && chunk + 1 < chunks) {
                    sums.put(tile, chunk >= STRETCHES);
                    sums.clear();
                }
            }
        }
        wait_for_copies<0>();
        if (!LONG)
            meet();
        sums.put(tile, LONG && chunks > STRETCHES);
        meet();
    }
};

// The sums of rows from `row` and columns from `col` on, over `part` steps of k from `from` on; the
// arrays are as P says.
template <class P>
__device__ inline void multiply_part(const typename P::T *a, const typename P::T *b, i64 m, i64 n,
                                     i64 k, i64 row, i64 col, i64 from, i64 part, char *shared)
{
    P::multiply(P::A_BY_K ? a + row * k + from : a + from * m + row, P::A_BY_K ? k : m,
                P::B_BY_K ? b + col * k + from : b + from * n + col, P::B_BY_K ? k : n, m - row,
                n - col, part < k - from ? part : k - from, shared);
}

// The sums of rows from `row` and columns from `col` on. Products of one kind share its code, which
// takes long to be compiled.
template <class P>
__device__ __attribute__((noinline)) void multiply_tile(const typename P::T *a,
                                                        const typename P::T *b, i64 m, i64 n,
                                                        i64 k, i64 row, i64 col, char *shared)
{
    multiply_part<P>(a, b, m, n, k, row, col, 0, k, shared);
}

// The sums of stretches, `size` elements apart, from the first to the last.
template <class T> __device__ inline T add_stretches(const T *sums, i64 size, i64 parts)
{
    T sum = parts > 0 ? *sums : (T)0;
#pragma unroll 8
    for (i64 part = 1; part < parts; part++)
        sum = sum + sums[part * size];
    return sum;
}

// c[part, batch, m, n]: sums over parts of `part` steps of k; all of k is one part.
template <class P, int PACK>
__device__ __attribute__((noinline)) void multiply_all(const typename P::T *a,
                                                       const typename P::T *b, typename P::T *c,
                                                       i64 batch, i64 m, i64 n, i64 k, i64 part,
                                                       Block block)
{
    typedef typename P::T T;
    const i64 high = (m + P::ROWS - 1) / P::ROWS, wide = (n + P::COLS - 1) / P::COLS;
    const i64 parts = part < k ? (k + part - 1) / part : 1;
    for (i64 at = block.index; at < parts * batch * high * wide; at += block.count) {
        const i64 matrix = at / (high * wide), from = matrix / batch * part;
        const i64 row = at / wide % high * P::ROWS, col = at % wide * P::COLS;
        multiply_part<P>(a + matrix % batch * m * k, b + matrix % batch * k * n, m, n, k, row, col,
                         from, part, block.shared);
        const T *const tile = P::tile(block.shared);
        T *const place = c + (matrix * m + row) * n + col;
        for (int i = thread_index() * PACK; i < P::ROWS * P::COLS; i += PRODUCT_THREADS * PACK) {
            const int r = i / P::COLS, j = i % P::COLS;
            if (r < m - row && j < n - col)
                *(Pack<T, PACK> *)(place + r * n + j) =
                    *(const Pack<T, PACK> *)(tile + r * P::PITCH + j);
        }
    }
}
