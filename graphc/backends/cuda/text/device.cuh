// What every program begins with: sizes, the block that a device function works as, and all that is
// not plain C++, as functions. An emulator has its own of the second half.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

// Block `index` of `count`, with shared memory of its own, aligned to 16 bytes.
struct Block {
    i64 index, count;
    char *shared;
};

// The same block as it counts tiles that come behind `before` others: over both kinds together every
// tile goes to the block that its number says.
__device__ inline Block behind(Block block, i64 before)
{
    const i64 index = (block.index - before) % block.count;
    return Block{index < 0 ? index + block.count : index, block.count, block.shared};
}

#ifndef GRAPHC_EMULATED

extern __shared__ __align__(16) char shared_memory[];

// This block of the grid.
__device__ inline Block grid_block()
{
    return Block{(i64)blockIdx.x, (i64)gridDim.x, shared_memory};
}

__device__ inline int thread_index() { return (int)threadIdx.x; }

// The same address, of which the compiler knows then that it is in shared memory.
__device__ inline char *own_shared(char *shared)
{
    return (char *)__cvta_shared_to_generic(__cvta_generic_to_shared(shared));
}

// Waits until all threads of the block are here; what they wrote is seen by all.
__device__ inline void meet() { __syncthreads(); }

// Waits until all threads of all blocks are here; what they wrote is seen by all. Together the blocks
// add 2^31 to the word, so its highest bit turns over each time, however many they are.
__device__ inline void meet_all(Block block, u32 *arrived)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const u32 all = 0x80000000u, rest = (u32)block.count - 1;
        const u32 mine = block.index == 0 ? all - rest : 1u;
        u32 before, now;
        asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                     : "=r"(before)
                     : "l"(arrived), "r"(mine)
                     : "memory");
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(now)
                         : "l"(arrived)
                         : "memory");
        while (((now ^ before) & all) == 0);
    }
    __syncthreads();
}

// What follows with `warp`, `shuffle` or `any` is called by all 32 threads of a warp together; `lane`
// is a thread's number in its warp.

__device__ inline void meet_warp() { __syncwarp(); }

// The value of the lane whose number differs by `mask`.
template <class T> __device__ inline T shuffle_xor(T value, int mask)
{
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

// The value of the lane `by` further; a lane that has none keeps its own.
template <class T> __device__ inline T shuffle_down(T value, int by)
{
    return __shfl_down_sync(0xffffffffu, value, by);
}

template <class T> __device__ inline T shuffle_from(T value, int lane)
{
    return __shfl_sync(0xffffffffu, value, lane);
}

// A bit for each lane.
__device__ inline u32 lanes_where(bool is_so) { return __ballot_sync(0xffffffffu, is_so); }
__device__ inline bool any_lane(bool is_so) { return __any_sync(0xffffffffu, is_so); }
__device__ inline bool every_lane(bool is_so) { return __all_sync(0xffffffffu, is_so); }

// What this thread wrote before is seen before what it writes afterwards, by the whole device.
__device__ inline void fence() { __threadfence(); }

// Copies from global to shared memory that are under way until they are waited for; both addresses
// are multiples of BYTES, which is 4, 8 or 16. Zeros are written where it is not there.
template <int BYTES> __device__ inline void copy_ahead(void *to, const void *from, bool is_there)
{
    const u32 shared = (u32)__cvta_generic_to_shared(to);
    const int bytes = is_there ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from),
                     "r"(bytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared), "l"(from),
                     "n"(BYTES), "r"(bytes)
                     : "memory");
}

// The copies since the last call are a group.
__device__ inline void group_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for this thread's groups but the LATER last ones. Other threads see them after `meet`.
template <int LATER> __device__ inline void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

// The nearest number with 10 bits of fraction, as tensor cores take it.
__device__ inline u32 to_tf32(float x)
{
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// c[16, 8] += a[16, 8] b[8, 8] by a warp. With g = lane / 4, q = lane % 4 a thread holds
//     a  [g, q], [g + 8, q], [g, q + 4], [g + 8, q + 4]
//     b  [q, g], [q + 4, g]
//     c  [g, 2q], [g, 2q + 1], [g + 8, 2q], [g + 8, 2q + 1]
__device__ inline void multiply_warp(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2])
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
