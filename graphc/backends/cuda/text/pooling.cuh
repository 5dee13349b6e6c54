// Windows of images folded to one element, and the gradients of that, as maps over results: a
// thread has PACK neighbouring channels of one place. The record W says what the windows are.

namespace pooling {

constexpr int THREADS = 256;

template <class W> struct alignas(sizeof(typename W::Real) * W::PACK) Pack {
    typename W::Real at[W::PACK];
};

template <class W> __device__ const Pack<W> &packs(const typename W::Real *from, i64 element)
{
    return *(const Pack<W> *)(from + element);
}

// A place in an image or in what was made of it, EXTENT_0 x EXTENT_1 places in all.
struct Place {
    i64 image;
    int row, column, channel;
};

template <class W, int EXTENT_0, int EXTENT_1>
__device__ Place place_of(i64 pack)
{
    typedef typename W::Index Index;
    constexpr int OF_PLACE = W::CHANNELS / W::PACK;
    const Index number = (Index)pack, place = number / OF_PLACE, line = place / EXTENT_1;
    const Index image = line / EXTENT_0;
    return {(i64)image, (int)(line - image * EXTENT_0), (int)(place - line * EXTENT_1),
            (int)(number - place * OF_PLACE) * W::PACK};
}

// The larger or the smaller one; a nan, if there is one.
template <int FOLD, class Real> __device__ Real folded(Real a, Real b)
{
    if constexpr (FOLD == 0)
        return a + b;
    else
        return b != b || (FOLD == 1 ? b > a : b < a) ? b : a;
}

// FOLD: 0 the sum, 1 the maximum, 2 the minimum. Sums are taken by columns of the window first, so
// that rounding errors do not grow with the area.
template <class W>
__device__ void fold(
    const typename W::Real *x, typename W::Real *y, i64 images, i64 tiles, Block block)
{
    typedef typename W::Real Real;
    const i64 count = images * W::PLACES_0 * W::PLACES_1 * (W::CHANNELS / W::PACK);
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const i64 pack = tile * THREADS + thread_index();
        if (pack >= count)
            continue;
        const Place to = place_of<W, W::PLACES_0, W::PLACES_1>(pack);
        const i64 line = to.image * W::IMAGE_0 + to.row * W::STRIDE_0;
        const i64 first =
            (line * W::IMAGE_1 + to.column * W::STRIDE_1) * W::CHANNELS + to.channel;
        Pack<W> all = {};
        for (int i = 0; i < W::SIZE_0; i++) {
            Pack<W> some = packs<W>(x, first + (i64)i * (W::IMAGE_1 * W::CHANNELS));
            for (int j = 1; j < W::SIZE_1; j++) {
                const i64 at = first + (i64)(i * W::IMAGE_1 + j) * W::CHANNELS;
                const Pack<W> next = packs<W>(x, at);
#pragma unroll
                for (int k = 0; k < W::PACK; k++)
                    some.at[k] = folded<W::FOLD, Real>(some.at[k], next.at[k]);
            }
#pragma unroll
            for (int k = 0; k < W::PACK; k++)
                all.at[k] = i == 0 ? some.at[k] : folded<W::FOLD, Real>(all.at[k], some.at[k]);
        }
        *(Pack<W> *)(y + pack * W::PACK) = all;
    }
}

// The windows along one axis that a place is in: from `first` on, before `end`.
struct Range {
    int first, end;
};

template <int SIZE, int STRIDE, int PLACES> __device__ Range windows_over(int at)
{
    const int first = at < SIZE ? 0 : (at - SIZE) / STRIDE + 1, end = at / STRIDE + 1;
    return {first, end < PLACES ? end : PLACES};
}

// The slopes dy of the windows that an element is in, added up in their order; of extremes y, those
// that the element attains. `x` and `y` are not read of a sum.
template <class W, bool IS_EXTREME>
__device__ void gradient(
    const typename W::Real *x, const typename W::Real *y, const typename W::Real *dy,
    typename W::Real *dx, i64 images, i64 tiles, Block block)
{
    const i64 count = images * W::IMAGE_0 * W::IMAGE_1 * (W::CHANNELS / W::PACK);
    for (i64 tile = block.index; tile < tiles; tile += block.count) {
        const i64 pack = tile * THREADS + thread_index();
        if (pack >= count)
            continue;
        const Place to = place_of<W, W::IMAGE_0, W::IMAGE_1>(pack);
        const Range across = windows_over<W::SIZE_0, W::STRIDE_0, W::PLACES_0>(to.row);
        const Range down = windows_over<W::SIZE_1, W::STRIDE_1, W::PLACES_1>(to.column);
        Pack<W> own = {}, sum = {};
        if (IS_EXTREME)
            own = packs<W>(x, pack * W::PACK);
        for (int p = across.first; p < across.end; p++)
            for (int q = down.first; q < down.end; q++) {
                const i64 window = (to.image * W::PLACES_0 + p) * W::PLACES_1 + q;
                const i64 at = window * W::CHANNELS + to.channel;
                const Pack<W> slope = packs<W>(dy, at);
                Pack<W> extreme = {};
                if (IS_EXTREME)
                    extreme = packs<W>(y, at);
#pragma unroll
                for (int k = 0; k < W::PACK; k++)
                    if (!IS_EXTREME || own.at[k] == extreme.at[k])
                        sum.at[k] += slope.at[k];
            }
        *(Pack<W> *)(dx + pack * W::PACK) = sum;
    }
}

}  // namespace pooling
