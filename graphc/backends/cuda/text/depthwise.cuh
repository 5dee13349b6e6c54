// Depthwise convolutions and their gradients, as maps over results: a thread has one element. The
// record W says what the windows are; what lies outside of an image is left out of the sums.

namespace depthwise {

constexpr int THREADS = 256;

// y[n, p, q, c] = sums of x[n, ..] w[.., c] over the windows.
template <class W>
__device__ void result(
    const typename W::Real *x, const typename W::Real *w, typename W::Real *y, i64 images,
    i64 tiles, Block block)
{
    typedef typename W::Real Real;
    const i64 count = images * W::PLACES_0 * W::PLACES_1 * W::CHANNELS;
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const i64 number = tile * THREADS + thread_index();
        if (number >= count)
            continue;
        const int channel = (int)(number % W::CHANNELS);
        const i64 place = number / W::CHANNELS, line = place / W::PLACES_1;
        const int q = (int)(place % W::PLACES_1), p = (int)(line % W::PLACES_0);
        const i64 image = line / W::PLACES_0;
        Real all = 0;
        for (int i = 0; i < W::SIZE_0; i++) {
            const int row = p * W::STRIDE_0 + i * W::DILATION_0 - W::LOW_0;
            if (row < 0 || row >= W::IMAGE_0)
                continue;
            Real some = 0;
            for (int j = 0; j < W::SIZE_1; j++) {
                const int column = q * W::STRIDE_1 + j * W::DILATION_1 - W::LOW_1;
                if (column < 0 || column >= W::IMAGE_1)
                    continue;
                const i64 at = (image * W::IMAGE_0 + row) * W::IMAGE_1 + column;
                some += x[at * W::CHANNELS + channel]
                    * w[(i * W::SIZE_1 + j) * W::CHANNELS + channel];
            }
            all += some;
        }
        y[number] = all;
    }
}

// x[n, u, v, c] = sums of y[n, ..] w[.., c] over the windows that hold the element.
template <class W>
__device__ void data_grad(
    const typename W::Real *y, const typename W::Real *w, typename W::Real *x, i64 images,
    i64 tiles, Block block)
{
    typedef typename W::Real Real;
    const i64 count = images * W::IMAGE_0 * W::IMAGE_1 * W::CHANNELS;
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const i64 number = tile * THREADS + thread_index();
        if (number >= count)
            continue;
        const int channel = (int)(number % W::CHANNELS);
        const i64 place = number / W::CHANNELS, line = place / W::IMAGE_1;
        const int column = (int)(place % W::IMAGE_1), row = (int)(line % W::IMAGE_0);
        const i64 image = line / W::IMAGE_0;
        Real all = 0;
        for (int i = 0; i < W::SIZE_0; i++) {
            const int up = row + W::LOW_0 - i * W::DILATION_0, p = up / W::STRIDE_0;
            if (up < 0 || up % W::STRIDE_0 || p >= W::PLACES_0)
                continue;
            Real some = 0;
            for (int j = 0; j < W::SIZE_1; j++) {
                const int left = column + W::LOW_1 - j * W::DILATION_1, q = left / W::STRIDE_1;
                if (left < 0 || left % W::STRIDE_1 || q >= W::PLACES_1)
                    continue;
                const i64 at = (image * W::PLACES_0 + p) * W::PLACES_1 + q;
                some += y[at * W::CHANNELS + channel]
                    * w[(i * W::SIZE_1 + j) * W::CHANNELS + channel];
            }
            all += some;
        }
        x[number] = all;
    }
}

// w[i, j, c] = sums of x[..] y[.., c] over all windows.
template <class W>
__device__ void weight_grad(
    const typename W::Real *x, const typename W::Real *y, typename W::Real *w, i64 images,
    i64 tiles, Block block)
{
    typedef typename W::Real Real;
    const i64 count = (i64)W::SIZE_0 * W::SIZE_1 * W::CHANNELS;
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const i64 number = tile * THREADS + thread_index();
        if (number >= count)
            continue;
        const int channel = (int)(number % W::CHANNELS);
        const int j = (int)(number / W::CHANNELS % W::SIZE_1);
        const int i = (int)(number / W::CHANNELS / W::SIZE_1);
        Real all = 0;
        for (i64 image = 0; image < images; image++) {
            Real of_image = 0;
            for (int p = 0; p < W::PLACES_0; p++) {
                const int row = p * W::STRIDE_0 + i * W::DILATION_0 - W::LOW_0;
                if (row < 0 || row >= W::IMAGE_0)
                    continue;
                Real some = 0;
                for (int q = 0; q < W::PLACES_1; q++) {
                    const int column = q * W::STRIDE_1 + j * W::DILATION_1 - W::LOW_1;
                    if (column < 0 || column >= W::IMAGE_1)
                        continue;
                    const i64 from = (image * W::IMAGE_0 + row) * W::IMAGE_1 + column;
                    const i64 at = (image * W::PLACES_0 + p) * W::PLACES_1 + q;
                    some += x[from * W::CHANNELS + channel] * y[at * W::CHANNELS + channel];
                }
                of_image += some;
            }
            all += of_image;
        }
        w[number] = all;
    }
}

}  // namespace depthwise
