// Reading images at given places. A thread finds the pixels of a place and their weights once for a few channels. In
// the gradient of the image the pixels are brought into order by a stable sort, and each adds up what came to it, in
// the order of the places.
#include <algorithm>
#include <limits>

#include "nn/cpu/resample/grid_axis.h"
#include "nn/cuda/nn_kernels.h"
#include "nn/cuda/resample_engines.h"
#include "tensor/cuda/sort/engines.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

using cpu::GridAxis;
using cpu::GridMode;
using cpu::GridPadding;
using cpu::GridSample;
using internal::quotient;
using internal::split;

constexpr int kChannels = 4;  // of a thread
constexpr int kMostTaps = 16;

struct Grid {
  GridAxis axis[3];  // x, y, z
  int dims;
  int64_t batch, channels, volume, positions;
  int taps() const { return axis[0].taps * axis[1].taps * (dims == 3 ? axis[2].taps : 1); }
};
Grid grid_of(const GridSample& g) {
  Grid r{{}, g.dims, g.batch, g.channels, g.in[0] * g.in[1] * g.in[2], g.positions};
  for (int e = 0; e < g.dims; ++e) r.axis[e] = cpu::axis_of(g, e);
  return r;
}

template <class A>
__device__ A polynomial(const double (&c)[4], A t) {
  A r = static_cast<A>(c[3]);
  for (int k = 2; k >= 0; --k) r = r * t + static_cast<A>(c[k]);
  return r;
}

// A coordinate brought into the image, and what its derivative is multiplied with.
template <class A>
__device__ A padded(const GridAxis& axis, A u, A& factor) {
  const A last = static_cast<A>(axis.size - 1);
  if (axis.padding == GridPadding::kReflection) {
    if (axis.span == 0) {
      factor = 0;
      return 0;
    }
    const A low = static_cast<A>(axis.low), span = static_cast<A>(axis.span), from = u - low, away = fabs(from),
            flips = floor(away / span), extra = away - flips * span;
    const bool odd = floor(flips * A(0.5)) != flips * A(0.5);
    u = (odd ? span - extra : extra) + low;
    if (odd != (from < 0)) factor = -factor;
  }
  if (axis.padding != GridPadding::kZeros) {
    if (!(u > 0 && u < last)) factor = 0;
    u = u > 0 ? u : A(0);
    u = u < last ? u : last;
  }
  return u;
}

// The pixels of a coordinate along one dimension, -1: outside.
template <class A>
struct AxisTaps {
  int64_t place[4];
  A weight[4], slope[4];

  __device__ void locate(const GridAxis& axis, A u, bool slopes) {
    // Places that far away are all the same, or (reflected) beyond what a number of pixels can say.
    const A far = axis.padding == GridPadding::kReflection ? A(1e7) : static_cast<A>(axis.size + 4);
    A factor = static_cast<A>(axis.scale);
    if (u != u) u = A(-1);
    u = (u + 1) * factor + static_cast<A>(axis.shift);
    u = u > -far ? u : -far;
    u = u < far ? u : far;
    if (axis.mode != GridMode::kCubic) u = padded(axis, u, factor);
    const A below = axis.mode == GridMode::kNearest ? rint(u) : floor(u), t = u - below;
    A factors = 1;
    for (int k = 0; k < axis.order; ++k) factors *= factor;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k >= axis.taps) break;
      A p = below + static_cast<A>(axis.first + k), unused = 0;
      if (axis.mode == GridMode::kCubic) p = padded(axis, p, unused);
      place[k] = p >= 0 && p < static_cast<A>(axis.size) ? static_cast<int64_t>(p) : -1;
      weight[k] = factors * polynomial(axis.weight[k], t);
      slope[k] = slopes ? factors * factor * polynomial(axis.slope[k], t) : A(0);
    }
  }
};

template <class A>
struct PlaceTaps {
  AxisTaps<A> axis[3];

  template <class T>
  __device__ PlaceTaps(const Grid& g, const T* coordinates, bool slopes) {
#pragma unroll
    for (int e = 0; e < 3; ++e)
      if (e < g.dims) axis[e].locate(g.axis[e], static_cast<A>(load(coordinates + e)), slopes);
  }
  // f(number, pixel or -1, weight, its derivatives by x, y, z) for each.
  template <class F>
  __device__ void each(const Grid& g, F&& f) const {
    int tap = 0;
    const int depth = g.dims == 3 ? g.axis[2].taps : 1;
    for (int z = 0; z < depth; ++z) {
      const int64_t pz = g.dims == 3 ? axis[2].place[z] : 0;
      const A wz = g.dims == 3 ? axis[2].weight[z] : A(1), sz = g.dims == 3 ? axis[2].slope[z] : A(0);
      for (int y = 0; y < g.axis[1].taps; ++y)
        for (int x = 0; x < g.axis[0].taps; ++x, ++tap) {
          const int64_t px = axis[0].place[x], py = axis[1].place[y];
          const A wx = axis[0].weight[x], wy = axis[1].weight[y];
          const bool inside = px >= 0 && py >= 0 && pz >= 0;
          const A slopes[3] = {axis[0].slope[x] * wy * wz, wx * axis[1].slope[y] * wz, wx * wy * sz};
          f(tap, inside ? (pz * g.axis[1].size + py) * g.axis[0].size + px : int64_t{-1}, wx * wy * wz, slopes);
        }
    }
  }
};

template <class T>
void sample(const Grid& g, const T* x, const T* grid, T* y) {
  using A = Compute<T>;
  const int64_t groups = (g.channels + kChannels - 1) / kChannels;
  for_each(g.batch * groups * g.positions, [=] __device__(int64_t i) {
    int64_t image = i;
    const int64_t place = split(image, g.positions), first = split(image, groups) * kChannels;
    const PlaceTaps<A> taps(g, grid + (image * g.positions + place) * g.dims, false);
    const int64_t count = min(int64_t{kChannels}, g.channels - first), plane = image * g.channels + first;
    A sum[kChannels] = {};
    taps.each(g, [&](int, int64_t pixel, A weight, const A(&)[3]) {
      if (pixel < 0) return;
      for (int c = 0; c < kChannels; ++c)
        if (c < count) sum[c] += weight * static_cast<A>(load(x + (plane + c) * g.volume + pixel));
    });
    for (int c = 0; c < kChannels; ++c)
      if (c < count) store(y + (plane + c) * g.positions + place, sum[c]);
  });
}

template <class T>
void move_places(const Grid& g, const T* dy, const T* x, const T* grid, T* dgrid) {
  using A = Compute<T>;
  for_each(g.batch * g.positions, [=] __device__(int64_t i) {
    int64_t image = i;
    const int64_t place = split(image, g.positions);
    const PlaceTaps<A> taps(g, grid + i * g.dims, true);
    A moved[3] = {};
    taps.each(g, [&](int, int64_t pixel, A, const A(&slopes)[3]) {
      if (pixel < 0) return;
      A sum = 0;
      for (int64_t c = 0; c < g.channels; ++c) {
        const int64_t plane = image * g.channels + c;
        sum +=
            static_cast<A>(load(dy + plane * g.positions + place)) * static_cast<A>(load(x + plane * g.volume + pixel));
      }
      for (int e = 0; e < 3; ++e) moved[e] += slopes[e] * sum;
    });
    for (int e = 0; e < g.dims; ++e) store(dgrid + i * g.dims + e, moved[e]);
  });
}

// Each tap of each place as the number of its pixel in all images, and its weight.
template <class K, class T>
void number_taps(const Grid& g, const T* grid, K* keys, Compute<T>* weights) {
  using A = Compute<T>;
  for_each(g.batch * g.positions, [=, taps_of_place = g.taps()] __device__(int64_t i) {
    const int64_t image = quotient(i, g.positions);
    const PlaceTaps<A> taps(g, grid + i * g.dims, false);
    taps.each(g, [&](int tap, int64_t pixel, A weight, const A(&)[3]) {
      keys[i * taps_of_place + tap] = pixel < 0 ? K{-1} : static_cast<K>(image * g.volume + pixel);
      weights[i * taps_of_place + tap] = weight;
    });
  });
}

template <class K, class T>
void spread(const Grid& g, const T* dy, const T* grid, T* dx) {
  using A = Compute<T>;
  const int taps = g.taps();
  const int64_t n = g.batch * g.positions * taps;
  fill_bytes(dx, 0, static_cast<size_t>(g.batch * g.channels * g.volume) * sizeof(T));
  if (n == 0) return;
  const size_t count = static_cast<size_t>(n);
  const Buffer unsorted(count * sizeof(K)), sorted(count * sizeof(K)), order(count * sizeof(int64_t)),
      weights(count * sizeof(A));
  number_taps(g, grid, unsorted.as<K>(), weights.as<A>());
  const int64_t key_stride = sizeof(K), order_stride = sizeof(int64_t);
  cuda::run_sort({&n, 1}, 0, false, {sorted.get(), DTypeOf<K>::value, &key_stride},
                 {order.get(), DType::kInt64, &order_stride}, {unsorted.get(), DTypeOf<K>::value, &key_stride});
  const K* const keys = sorted.as<K>();
  const int64_t* const from = order.as<int64_t>();
  const A* const weight = weights.as<A>();
  const int64_t groups = (g.channels + kChannels - 1) / kChannels;
  for_each(n * groups, [=] __device__(int64_t i) {
    const int64_t group = quotient(i, n), place = i - group * n;
    const K pixel = keys[place];
    if (pixel < 0 || (place > 0 && keys[place - 1] == pixel)) return;
    int64_t image = pixel;
    const int64_t within = split(image, g.volume), first = group * kChannels,
                  width = min(int64_t{kChannels}, g.channels - first), plane = image * g.channels + first;
    A sum[kChannels] = {};
    for (int64_t k = place; k < n && keys[k] == pixel; ++k) {
      int64_t at = quotient(from[k], taps);
      const A w = weight[from[k]];
      at = split(at, g.positions);
      for (int c = 0; c < kChannels; ++c)
        if (c < width) sum[c] += w * static_cast<A>(load(dy + (plane + c) * g.positions + at));
    }
    for (int c = 0; c < kChannels; ++c)
      if (c < width) store(dx + (plane + c) * g.volume + within, sum[c]);
  });
}

}  // namespace

void grid_sample_forward(DType dtype, const GridSample& g, const void* x, const void* grid, void* y) {
  visit<kAllFloats>(dtype, "grid_sample", [&]<class T>(Tag<T>) {
    sample(grid_of(g), static_cast<const T*>(x), static_cast<const T*>(grid), static_cast<T*>(y));
  });
}

void grid_sample_backward(DType dtype, const GridSample& g, const void* dy, const void* x, const void* grid, void* dx,
                          void* dgrid) {
  visit<kAllFloats>(dtype, "grid_sample_backward", [&]<class T>(Tag<T>) {
    const Grid all = grid_of(g);
    const T *const grad = static_cast<const T*>(dy), *const places = static_cast<const T*>(grid);
    if (dgrid) move_places(all, grad, static_cast<const T*>(x), places, static_cast<T*>(dgrid));
    if (!dx) return;
    const bool narrow = all.batch * all.volume <= std::numeric_limits<int32_t>::max();
    (narrow ? spread<int32_t, T> : spread<int64_t, T>)(all, grad, places, static_cast<T*>(dx));
  });
}

}  // namespace tessera::cuda
