// What kernels see of the emulator: CUDA's words as plain C++, and the functions of `device.cuh` that
// are not. A program's text stands behind this, in a namespace without a name.

#define GRAPHC_EMULATED
#define __device__
#define __global__
#define __forceinline__ inline
#define __noinline__
#define __launch_bounds__(...)
#define __restrict__
#define __align__(bytes) alignas(bytes)

// --- C's functions and CUDA's types: including headers would take longer than most kernels

extern "C" {
float fmaf(float, float, float) noexcept;
float sqrtf(float) noexcept;
float fabsf(float) noexcept;
float floorf(float) noexcept;
float ceilf(float) noexcept;
float rintf(float) noexcept;
float truncf(float) noexcept;
float fmodf(float, float) noexcept;
float fminf(float, float) noexcept;
float fmaxf(float, float) noexcept;
float copysignf(float, float) noexcept;
float ldexpf(float, int) noexcept;
float expf(float) noexcept;
float exp2f(float) noexcept;
float expm1f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float log1pf(float) noexcept;
float sinf(float) noexcept;
float cosf(float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float powf(float, float) noexcept;
double fma(double, double, double) noexcept;
double sqrt(double) noexcept;
double fabs(double) noexcept;
double floor(double) noexcept;
double ceil(double) noexcept;
double rint(double) noexcept;
double trunc(double) noexcept;
double fmod(double, double) noexcept;
double fmin(double, double) noexcept;
double fmax(double, double) noexcept;
double copysign(double, double) noexcept;
double ldexp(double, int) noexcept;
double exp(double) noexcept;
double exp2(double) noexcept;
double expm1(double) noexcept;
double log(double) noexcept;
double log2(double) noexcept;
double log1p(double) noexcept;
double sin(double) noexcept;
double cos(double) noexcept;
double tanh(double) noexcept;
double erf(double) noexcept;
double pow(double, double) noexcept;
void *memcpy(void *, const void *, unsigned long) noexcept;
}

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) longlong2 { long long x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }

template <class To, class From> inline To same_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From));
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

inline float __int_as_float(int x) { return same_bits<float>(x); }
inline int __float_as_int(float x) { return same_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }

// --- what `emulator.cpp` does

// The thread that runs.
struct EmulatedThread {
    int index;
    long long block, blocks;
    char *shared;
};

// What a warp brings along to a meeting: as many bytes a lane.
constexpr int EMULATED_SLOT = 64;
struct EmulatedSlots {
    alignas(16) char lane[32][EMULATED_SLOT];
};

extern "C" {
extern EmulatedThread emulated_thread;
void emulated_meet();
void emulated_meet_all(unsigned *arrived);
// Until all threads of the warp are in the function `which`: what each of them brought.
const EmulatedSlots *emulated_exchange(const char *which, const void *brought, int bytes);
void emulated_copy(void *to, const void *from, int bytes, bool is_there);
void emulated_group_copies();
void emulated_wait_for_copies(int later);
}

// --- the functions of `device.cuh`

// Becomes the program's own `Block`, which stands in its text.
struct EmulatedBlock {
    long long index, count;
    char *shared;
    template <class Block> operator Block() const { return Block{index, count, shared}; }
};
inline EmulatedBlock grid_block()
{
    return {emulated_thread.block, emulated_thread.blocks, emulated_thread.shared};
}

inline int thread_index() { return emulated_thread.index; }
inline char *own_shared(char *shared) { return shared; }
inline void meet() { emulated_meet(); }
template <class Block> inline void meet_all(Block, unsigned *arrived)
{
    emulated_meet_all(arrived);
}
inline void meet_warp() { emulated_exchange("meet_warp", "", 1); }
inline void fence() {}

template <class T> inline T emulated_value(const EmulatedSlots *slots, int lane)
{
    T value;
    memcpy(&value, slots->lane[lane], sizeof value);
    return value;
}

template <class T> inline T shuffle_xor(T value, int mask)
{
    const EmulatedSlots *slots = emulated_exchange("shuffle_xor", &value, sizeof value);
    return emulated_value<T>(slots, (thread_index() ^ mask) & 31);
}

template <class T> inline T shuffle_down(T value, int by)
{
    const EmulatedSlots *slots = emulated_exchange("shuffle_down", &value, sizeof value);
    const int lane = (thread_index() & 31) + by;
    return lane < 32 ? emulated_value<T>(slots, lane) : value;
}

template <class T> inline T shuffle_from(T value, int lane)
{
    return emulated_value<T>(emulated_exchange("shuffle_from", &value, sizeof value), lane & 31);
}

inline unsigned lanes_where(bool is_so)
{
    const EmulatedSlots *slots = emulated_exchange("lanes_where", &is_so, sizeof is_so);
    unsigned lanes = 0;
    for (int lane = 0; lane < 32; lane++)
        lanes |= (unsigned)emulated_value<bool>(slots, lane) << lane;
    return lanes;
}
inline bool any_lane(bool is_so) { return lanes_where(is_so) != 0; }
inline bool every_lane(bool is_so) { return lanes_where(is_so) == ~0u; }

template <int BYTES> inline void copy_ahead(void *to, const void *from, bool is_there)
{
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16);
    emulated_copy(to, from, BYTES, is_there);
}
inline void group_copies() { emulated_group_copies(); }
template <int LATER> inline void wait_for_copies() { emulated_wait_for_copies(LATER); }

inline unsigned to_tf32(float x)
{
    const unsigned bits = same_bits<unsigned>(x);
    const bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
    return is_finite ? (bits + 0x1000u) & ~0x1fffu : bits;
}

// The sums are those of numbers twice as long, rounded once; a tensor core's own order is unknown.
inline void multiply_warp(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    for (unsigned &bits : mine)
        bits &= ~0x1fffu;
    const EmulatedSlots *slots = emulated_exchange("multiply_warp", mine, sizeof mine);
    const int group = (thread_index() & 31) / 4, quad = thread_index() & 3;
    for (int i = 0; i < 4; i++) {
        double sum = c[i];
        for (int k = 0; k < 8; k++) {
            float left[6], right[6];
            memcpy(left, slots->lane[group * 4 + k % 4], sizeof left);
            memcpy(right, slots->lane[(2 * quad + i % 2) * 4 + k % 4], sizeof right);
            sum += (double)left[i / 2 + k / 4 * 2] * right[4 + k / 4];
        }
        c[i] = (float)sum;
    }
}

// --- how kernels are found and called: with 64-bit words for arguments

struct EmulatedKernel {
    const char *name;
    void (*call)(const unsigned long long *words);
};

template <int... I> struct EmulatedPlaces {};
template <int N, int... I> struct EmulatedCount : EmulatedCount<N - 1, N - 1, I...> {};
template <int... I> struct EmulatedCount<0, I...> {
    using Places = EmulatedPlaces<I...>;
};

template <class... A, int... I>
inline void emulated_call(
    void (*kernel)(A...), const unsigned long long *words, EmulatedPlaces<I...>)
{
    kernel((A)words[I]...);
}

template <class... A> constexpr int emulated_arity(void (*)(A...)) { return sizeof...(A); }

#define EMULATED_KERNEL(name)                                                                      \
    {                                                                                              \
        #name, [](const unsigned long long *words) {                                               \
            using Places = EmulatedCount<emulated_arity(name)>::Places;                            \
            emulated_call(name, words, Places{});                                                  \
        }                                                                                          \
    }
