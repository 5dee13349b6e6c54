// Values as other values: bits, saturating conversions, lanes of several elements, random numbers.

typedef unsigned __int128 u128;

// The same bits as a value of another type.
template <class To, class From> __device__ inline To same_bits(From value)
{
    union {
        From from;
        To to;
    } both{value};
    return both.to;
}
__device__ inline float float_of(int bits) { return same_bits<float>(bits); }
__device__ inline double double_of(i64 bits) { return same_bits<double>(bits); }
__device__ inline int int_of(float value) { return same_bits<int>(value); }
__device__ inline i64 i64_of(double value) { return same_bits<i64>(value); }

// Towards zero; the nearest integer where there is none, and nan as 0. LIMIT: the largest plus one.
template <class To, class From> __device__ inline To saturated(From value, From limit, To largest)
{
    if (value >= -limit)
        return value < limit ? (To)value : largest;
    return value < -limit ? -largest - 1 : 0;
}
template <class From> __device__ inline int saturated_int(From value)
{
    return saturated<int, From>(value, (From)2147483648.0, 2147483647);
}
template <class From> __device__ inline i64 saturated_i64(From value)
{
    return saturated<i64, From>(value, (From)9223372036854775808.0, 9223372036854775807LL);
}

__device__ inline i64 leading_zeros(i64 value)
{
    int count = 0;
    u64 bits = (u64)value;
    for (int half = 32; half > 0; half /= 2)
        if (bits >> (64 - half) == 0) {
            count += half;
            bits <<= half;
        }
    return value == 0 ? 64 : count;
}

// The upper half of a pair shifted left by `places` modulo 64.
__device__ inline i64 shifted_pair(i64 high, i64 low, i64 places)
{
    const int n = (int)places & 63;
    return (i64)(((u64)high << n) | (((u64)low >> 1) >> (63 - n)));
}

// k / 2^24 in [0, 1): the upper bits of Philox2x32-10 of a counter and the low half of a key.
__device__ inline float random_uniform(i64 counter, i64 key)
{
    u32 low = (u32)counter, high = (u32)((u64)counter >> 32), round_key = (u32)key;
    for (int round = 0; round < 10; round++) {
        const u64 product = (u64)low * 0xD256D193u;
        low = (u32)(product >> 32) ^ round_key ^ high;
        high = (u32)product;
        round_key += 0x9E3779B9u;
    }
    return (float)(int)(high >> 8) * (1.0f / 16777216.0f);
}

// N neighbouring elements, moved as one.
template <class T, int N> struct alignas(sizeof(T) * N) Lanes {
    T at[N];
};

template <int N, class T> __device__ inline Lanes<T, N> load(const T *from)
{
    return *(const Lanes<T, N> *)from;
}

// The first `left` of them, if they are fewer.
template <int N, class T, class I> __device__ inline Lanes<T, N> load(const T *from, I left)
{
    if (left >= N)
        return load<N>(from);
    Lanes<T, N> lanes;
    for (int i = 0; i < N; i++)
        lanes.at[i] = i < left ? from[i] : T();
    return lanes;
}

template <class T, int N> __device__ inline void store(T *to, Lanes<T, N> lanes)
{
    *(Lanes<T, N> *)to = lanes;
}

template <class T, int N, class I> __device__ inline void store(T *to, Lanes<T, N> lanes, I left)
{
    if (left >= N) {
        store(to, lanes);
        return;
    }
    for (int i = 0; i < N; i++)
        if (i < left)
            to[i] = lanes.at[i];
}
