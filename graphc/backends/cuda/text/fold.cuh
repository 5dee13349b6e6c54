// Sums and extremes over threads, always in the same order. Blocks have 256 threads.

template <class T> __device__ inline T largest(T a, T b)
{
    return a != a ? a : a > b ? a : b;
}

template <class T> __device__ inline T smallest(T a, T b)
{
    return a != a ? a : a < b ? a : b;
}

template <class T, int N> __device__ inline Lanes<T, N> operator+(Lanes<T, N> a, Lanes<T, N> b)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        a.at[i] = a.at[i] + b.at[i];
    return a;
}

template <class T, int N> __device__ inline Lanes<T, N> largest(Lanes<T, N> a, Lanes<T, N> b)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        a.at[i] = largest(a.at[i], b.at[i]);
    return a;
}

template <class T, int N> __device__ inline Lanes<T, N> smallest(Lanes<T, N> a, Lanes<T, N> b)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        a.at[i] = smallest(a.at[i], b.at[i]);
    return a;
}

template <class T, int M> __device__ inline void fill(T (&values)[M], T value)
{
#pragma unroll
    for (int i = 0; i < M; i++)
        values[i] = value;
}

template <class T, int N, int M>
__device__ inline void fill(Lanes<T, N> (&vectors)[M], T value)
{
#pragma unroll
    for (int i = 0; i < M; i++)
        fill(vectors[i].at, value);
}

struct Add {
    template <class T> __device__ T operator()(T a, T b) const { return a + b; }
};
struct Largest {
    template <class T> __device__ T operator()(T a, T b) const { return largest(a, b); }
};
struct Smallest {
    template <class T> __device__ T operator()(T a, T b) const { return smallest(a, b); }
};

// The values of WIDTH neighbouring threads folded; each of them gets the result. A power of two up to
// 32, all threads of a warp together; or 256, all threads of the block, with its shared memory.
template <int WIDTH, class T, class Op>
__device__ inline T fold_threads(T value, Op op, char *shared)
{
    constexpr int near = WIDTH < 32 ? WIDTH : 32;
#pragma unroll
    for (int mask = near / 2; mask > 0; mask /= 2) {
        const T other = shuffle_xor(value, mask);
        value = (thread_index() & mask) == 0 ? op(value, other) : op(other, value);
    }
    if (WIDTH > 32) {
        T *warps = (T *)shared;
        meet();
        if (thread_index() % 32 == 0)
            warps[thread_index() / 32] = value;
        meet();
        value = warps[0];
#pragma unroll
        for (int warp = 1; warp < WIDTH / 32; warp++)
            value = op(value, warps[warp]);
    }
    return value;
}

// The block's threads are groups of WIDTH; the values of those with the same number in each group
// folded in the order of the groups. By all threads of the block, with shared memory for a value each.
template <int WIDTH, class T, class Op>
__device__ inline T fold_groups(T value, Op op, char *shared)
{
    if (WIDTH == 256)
        return value;
    T *all = (T *)shared;
    meet();
    all[thread_index()] = value;
    meet();
    value = all[thread_index() % WIDTH];
#pragma unroll 8
    for (int group = 1; group < 256 / WIDTH; group++)
        value = op(value, all[group * WIDTH + thread_index() % WIDTH]);
    return value;
}

// result[i] = parts[0, i] op parts[1, i] op …, WIDTH elements of `count` a tile. No thread adds more
// than 128 one after the other.
template <int WIDTH, class T, class Op>
__device__ inline void fold_parts(
    const T *parts, i64 number, T *result, i64 count, T identity, Op op, Block block)
{
    constexpr int groups = 256 / WIDTH, chain = 128 * groups;
    const int me = thread_index() % WIDTH, group = thread_index() / WIDTH;
    for (i64 tile = block.index; tile * WIDTH < count; tile += block.count) {
        const i64 i = tile * WIDTH + me;
        T total = identity;
        for (i64 begin = 0; i < count && begin < number; begin += chain) {
            T sum = identity;
            for (i64 part = begin + group; part < begin + chain && part < number; part += groups)
                sum = op(sum, parts[part * count + i]);
            total = op(total, sum);
        }
        total = fold_groups<WIDTH>(total, op, block.shared);
        if (group == 0 && i < count)
            result[i] = total;
    }
}
