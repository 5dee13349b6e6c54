// What every program begins with: sizes, and the block that a device function works as.

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;

// 16 bytes that are moved at once.
struct alignas(16) Quad {
    u64 low, high;
};

// Block `index` of `count`, with shared memory of its own, aligned to 16 bytes.
struct Block {
    i64 index, count;
    char *shared;
};

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

#endif
