// What the cost model of launches is made of, each measured alone. All arguments are 64 bits wide.

// Nothing: what a launch costs.
extern "C" __global__ void __launch_bounds__(256) empty(float *x) {}

// One number that depends on the launch before.
extern "C" __global__ void __launch_bounds__(256) one(float *x)
{
    if (thread_index() == 0)
        x[grid_block().index] += 1.0f;
}

// So many meetings of all blocks.
extern "C" __global__ void __launch_bounds__(256) grid_phases(float *x, u32 *arrived, i64 phases)
{
    const Block block = grid_block();
    for (i64 i = 0; i < phases; ++i) {
        if (thread_index() == 0)
            x[block.index] += 1.0f;
        meet_all(block, arrived);
    }
}

// So many meetings of one block.
extern "C" __global__ void __launch_bounds__(256) block_phases(float *x, i64 phases)
{
    for (i64 i = 0; i < phases; ++i) {
        x[thread_index()] += x[(thread_index() + 1) % 256];
        meet();
    }
}

// 16 bytes a thread.
extern "C" __global__ void __launch_bounds__(256) copied(const float4 *from, float4 *to, i64 count)
{
    const i64 step = grid_block().count * 256;
    for (i64 i = grid_block().index * 256 + thread_index(); i < count; i += step)
        to[i] = from[i];
}

// 16 chains of multiply-adds a thread.
extern "C" __global__ void __launch_bounds__(256) multiply_adds(float *x, i64 turns)
{
    float sums[16];
#pragma unroll
    for (int i = 0; i < 16; ++i)
        sums[i] = (float)(thread_index() + i);
    const float a = x[0], b = x[1];
    for (i64 turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int i = 0; i < 16; ++i)
            sums[i] = fmaf(sums[i], a, b);
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; ++i)
        sum += sums[i];
    x[2 + grid_block().index * 256 + thread_index()] = sum;
}

// 8 products of 16 x 8 x 8 a warp, on tensor cores.
extern "C" __global__ void __launch_bounds__(256) tensor_products(float *x, i64 turns)
{
    float sums[8][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j)
            sums[i][j] = 0.0f;
    }
    u32 a[4], b[2];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        a[i] = to_tf32(x[(thread_index() + i) % 32]);
    b[0] = a[0];
    b[1] = a[1];
    for (i64 turn = 0; turn < turns; ++turn) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            multiply_warp(sums[i], a, b);
    }
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 8; ++i)
        sum += sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
    x[32 + grid_block().index * 256 + thread_index()] = sum;
}
