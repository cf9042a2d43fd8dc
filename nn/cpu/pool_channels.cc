#include "nn/cpu/pool_channels.h"

#include <algorithm>

#include "nn/cpu/pool_lines.h"
#include "nn/cpu/pool_windows.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/support/types.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/pool_channels.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_POOL_CHANNELS_
#define TESSERA_POOL_CHANNELS_
namespace tessera::cpu::internal {

// The pixels of a window, in order, and the one that counts where none is greater than -inf.
struct PoolPixels {
  const int64_t* at;
  int64_t count, first;
};

}  // namespace tessera::cpu::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class DI, class V>
HWY_INLINE void StoreIndices(DI di, V v, int64_t* to) {
  if constexpr (sizeof(hn::TFromD<DI>) == 8) {
    hn::StoreU(v, di, to);
  } else {
    const hn::Half<DI> half;
    const hn::Rebind<int64_t, decltype(half)> wide;
    hn::StoreU(hn::PromoteTo(wide, hn::LowerHalf(half, v)), wide, to);
    hn::StoreU(hn::PromoteTo(wide, hn::UpperHalf(half, v)), wide, to + hn::MaxLanes(half));
  }
}

// The maxima of one window in all channels.
template <class A>
void MaxOfPixels(const PoolPixels& pixels, const A* HWY_RESTRICT image, int64_t channels, A* HWY_RESTRICT y,
                 int64_t* HWY_RESTRICT indices) {
  const hn::ScalableTag<A> d;
  const hn::RebindToSigned<decltype(d)> di;
  using I = hn::TFromD<decltype(di)>;
  int64_t c = 0;
  for (; c + HWY_LANES(A) <= channels; c += HWY_LANES(A)) {
    auto most = hn::Set(d, lowest_number<A>());
    auto where = hn::Set(di, static_cast<I>(pixels.first));
    for (int64_t k = 0; k < pixels.count; ++k) {
      const auto x = hn::LoadU(d, image + pixels.at[k] * channels + c);
      const auto wins = hn::Or(hn::Gt(x, most), hn::IsNaN(x));
      most = hn::IfThenElse(wins, x, most);
      where = hn::IfThenElse(hn::RebindMask(di, wins), hn::Set(di, static_cast<I>(pixels.at[k])), where);
    }
    hn::StoreU(most, d, y + c);
    StoreIndices(di, where, indices + c);
  }
  for (; c < channels; ++c) {
    A most = lowest_number<A>();
    int64_t where = pixels.first;
    for (int64_t k = 0; k < pixels.count; ++k) {
      const A x = image[pixels.at[k] * channels + c];
      if (!replaces_maximum(x, most)) continue;
      most = x;
      where = pixels.at[k];
    }
    y[c] = most;
    indices[c] = where;
  }
}

}  // namespace

void MaxOfPixelsF(const PoolPixels& pixels, const float* image, int64_t channels, float* y, int64_t* indices) {
  MaxOfPixels(pixels, image, channels, y, indices);
}
void MaxOfPixelsD(const PoolPixels& pixels, const double* image, int64_t channels, double* y, int64_t* indices) {
  MaxOfPixels(pixels, image, channels, y, indices);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace internal {

TESSERA_SIMD_TABLE(MaxOfPixelsF);
TESSERA_SIMD_TABLE(MaxOfPixelsD);

}  // namespace internal

namespace {

using namespace internal;  // NOLINT: helpers of these kernels

constexpr int64_t kFewestChannels = 8, kPieceElements = 16384;

auto max_of_pixels(float) { return TESSERA_SIMD(MaxOfPixelsF); }
auto max_of_pixels(double) { return TESSERA_SIMD(MaxOfPixelsD); }

int64_t volume_of(const int64_t (&s)[3]) { return s[0] * s[1] * s[2]; }

// fn(place, pixels) for the windows of a row of the output.
template <class F>
void for_windows(const PoolGeometry& g, int64_t row, int64_t* pixels, F&& fn) {
  const PoolWindow d = window(g, 0, row / g.out_size[1]), h = window(g, 1, row % g.out_size[1]);
  const int64_t height = g.in_size[1], width = g.in_size[2];
  const int64_t corner = (nearest_place(d.begin, g.in_size[0]) * height + nearest_place(h.begin, height)) * width;
  for (int64_t ow = 0; ow < g.out_size[2]; ++ow) {
    const PoolWindow w = window(g, 2, ow);
    int64_t count = 0;
    for (int64_t id = d.begin; id < d.end; id += g.dilation[0])
      for (int64_t ih = h.begin; ih < h.end; ih += g.dilation[1])
        for (int64_t iw = w.begin; iw < w.end; iw += g.dilation[2]) pixels[count++] = (id * height + ih) * width + iw;
    fn(ow, PoolPixels{pixels, count, corner + nearest_place(w.begin, width)});
  }
}

template <class A>
void forward(const PoolGeometry& g, int64_t channels, const A* x, A* y, int64_t* indices) {
  const int64_t rows = g.out_size[0] * g.out_size[1], width = g.out_size[2], in = volume_of(g.in_size) * channels,
                taps = volume_of(g.kernel), work = width * channels * taps;
  const auto kernel = max_of_pixels(A());
  parallel_for(g.planes * rows, std::max<int64_t>(1, kPieceElements / work), [&](int64_t begin, int64_t end) {
    ScratchArray<int64_t> pixels(taps);
    for (int64_t i = begin; i < end; ++i)
      for_windows(g, i % rows, pixels.get(), [&](int64_t ow, const PoolPixels& p) {
        const int64_t to = (i * width + ow) * channels;
        kernel(p, x + i / rows * in, channels, y + to, indices + to);
      });
  });
}

template <class A>
void backward(int64_t images, int64_t in, int64_t out, int64_t channels, const A* dy, const int64_t* indices, A* dx) {
  parallel_for(images, 1, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      A* const sums = dx + n * in * channels;
      std::fill_n(sums, in * channels, A(0));
      for (int64_t i = n * out * channels; i < (n + 1) * out * channels; i += channels)
        for (int64_t c = 0; c < channels; ++c)
          if (const int64_t at = indices[i + c]; at >= 0 && at < in) sums[at * channels + c] += dy[i + c];
    }
  });
}

template <class F>
void visit_arithmetic(const char* name, DType dtype, F&& fn) {
  if (dtype == DType::kFloat32) return fn(float{});
  if (dtype == DType::kFloat64) return fn(double{});
  raise_not_implemented(name, dtype);
}

}  // namespace

bool max_pool_takes_channels(DType dtype, int64_t in_plane, int64_t channels) {
  return (dtype == DType::kFloat32 || dtype == DType::kFloat64) && channels >= kFewestChannels && in_plane < INT32_MAX;
}

void max_pool_forward_channels(DType dtype, const PoolGeometry& g, int64_t channels, const void* x, void* y,
                               int64_t* indices) {
  visit_arithmetic("max_pool2d", dtype, [&](auto tag) {
    using A = decltype(tag);
    forward(g, channels, static_cast<const A*>(x), static_cast<A*>(y), indices);
  });
}

void max_pool_backward_channels(DType dtype, int64_t images, int64_t in_plane, int64_t out_plane, int64_t channels,
                                const void* dy, const int64_t* indices, void* dx) {
  visit_arithmetic("max_pool2d_backward", dtype, [&](auto tag) {
    using A = decltype(tag);
    backward(images, in_plane, out_plane, channels, static_cast<const A*>(dy), indices, static_cast<A*>(dx));
  });
}

}  // namespace tessera::cpu
#endif
