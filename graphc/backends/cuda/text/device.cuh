// What every program begins with: sizes, and the block that a device function works as.

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

// Waits until all threads of the block are here; what they wrote is seen by all.
__device__ inline void meet() { __syncthreads(); }

// Waits until all threads of all blocks are here; what they wrote is seen by all. Together the blocks
// add 2^31 to the word, so its highest bit turns over each time, however many they are.
__device__ inline void meet_all(Block block, u32 *arrived)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        const u32 all = 0x80000000u, rest = (u32)block.count - 1;
        __threadfence();
        const u32 before = atomicAdd(arrived, block.index == 0 ? all - rest : 1u);
        u32 now;
        do
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(arrived) : "memory");
        while (((now ^ before) & all) == 0);
        __threadfence();
    }
    __syncthreads();
}

#endif
