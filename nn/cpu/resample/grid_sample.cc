// Places are worked on in blocks: the pixels of a block's places and their weights are found for a vector of places at
// once, then each place is a sum over vectors of channels, which lie side by side in a copy of the image. Where a place
// reaches beyond the image it gets a row of zeros behind the last pixel.
#include "nn/cpu/resample/grid_sample.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "nn/cpu/resample/grid_axis.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"
#include "tensor/cpu/support/simd_move.h"
#include "tensor/cpu/support/types.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/resample/grid_sample.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_GRID_SAMPLE_
#define TESSERA_GRID_SAMPLE_
namespace tessera::cpu::internal {

constexpr int64_t kGridBlock = 128;  // places
constexpr int kMostTaps = 16;
constexpr int64_t kFewChannels = 4;

template <class A>
struct AxisBlock {
  alignas(64) hwy::MakeSigned<A> place[4][kGridBlock];  // -1: outside
  alignas(64) A weight[4][kGridBlock], slope[4][kGridBlock];
};

// Of a block's places: rows of the image and weights, and the weights' derivatives by x, y, z.
template <class A>
struct GridTaps {
  int count;
  alignas(64) hwy::MakeSigned<A> row[kMostTaps][kGridBlock];
  alignas(64) A weight[kMostTaps][kGridBlock];
  alignas(64) A slope[3][kMostTaps][kGridBlock];
};

// The image with channels side by side, `stride` of them for a pixel, and `outside` rows before the one of zeros.
template <class A>
struct GridRows {
  int64_t stride, outside;
  const A* x;  // null: not wanted
  A* dx;       // null: not wanted
};

}  // namespace tessera::cpu::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V Cubic(D d, const double (&c)[4], V t) {
  using A = hn::TFromD<D>;
  V r = hn::Set(d, static_cast<A>(c[3]));
  for (int k = 2; k >= 0; --k) r = hn::MulAdd(r, t, hn::Set(d, static_cast<A>(c[k])));
  return r;
}

// A coordinate brought into the image, and what its derivative is multiplied with.
template <class D, class V>
HWY_INLINE V Padded(D d, const GridAxis& axis, V u, V* factor) {
  using A = hn::TFromD<D>;
  const V zero = hn::Zero(d), last = hn::Set(d, static_cast<A>(axis.size - 1));
  if (axis.padding == GridPadding::kReflection) {
    if (axis.span == 0) {
      *factor = zero;
      return zero;
    }
    const V low = hn::Set(d, static_cast<A>(axis.low)), span = hn::Set(d, static_cast<A>(axis.span));
    const V from = hn::Sub(u, low), away = hn::Abs(from), flips = hn::Floor(hn::Div(away, span)),
            extra = hn::NegMulAdd(flips, span, away), half = hn::Set(d, A(0.5));
    const auto odd = hn::Ne(hn::Floor(hn::Mul(flips, half)), hn::Mul(flips, half));
    u = hn::Add(hn::IfThenElse(odd, hn::Sub(span, extra), extra), low);
    *factor = hn::IfThenElse(hn::Xor(odd, hn::Lt(from, zero)), hn::Neg(*factor), *factor);
  }
  if (axis.padding != GridPadding::kZeros) {
    *factor = hn::IfThenElseZero(hn::And(hn::Gt(u, zero), hn::Lt(u, last)), *factor);
    u = hn::Min(hn::Max(u, zero), last);
  }
  return u;
}

template <class A>
void LocateAxis(const GridAxis& axis, const A* HWY_RESTRICT coordinates, bool slopes, AxisBlock<A>* HWY_RESTRICT to) {
  const hn::ScalableTag<A> d;
  const hn::RebindToSigned<decltype(d)> di;
  using V = hn::Vec<decltype(d)>;
  const V one = hn::Set(d, A(1)), zero = hn::Zero(d), size = hn::Set(d, static_cast<A>(axis.size));
  // Places that far away are all the same, or (reflected) beyond what a number of pixels can say.
  const A far = axis.padding == GridPadding::kReflection ? A(1e7) : static_cast<A>(axis.size + 4);
  for (int64_t i = 0; i < kGridBlock; i += HWY_LANES(A)) {
    V u = hn::Load(d, coordinates + i), factor = hn::Set(d, static_cast<A>(axis.scale));
    u = hn::IfThenElse(hn::IsNaN(u), hn::Neg(one), u);
    u = hn::MulAdd(hn::Add(u, one), factor, hn::Set(d, static_cast<A>(axis.shift)));
    u = hn::Min(hn::Max(u, hn::Set(d, -far)), hn::Set(d, far));
    if (axis.mode != GridMode::kCubic) u = Padded(d, axis, u, &factor);
    const V below = axis.mode == GridMode::kNearest ? hn::Round(u) : hn::Floor(u), t = hn::Sub(u, below);
    V factors = one;
    for (int k = 0; k < axis.order; ++k) factors = hn::Mul(factors, factor);
    for (int k = 0; k < axis.taps; ++k) {
      V p = hn::Add(below, hn::Set(d, static_cast<A>(axis.first + k)));
      V unused = zero;
      if (axis.mode == GridMode::kCubic) p = Padded(d, axis, p, &unused);
      const auto inside = hn::And(hn::Ge(p, zero), hn::Lt(p, size));
      hn::Store(
          hn::IfThenElse(hn::RebindMask(di, inside), hn::ConvertTo(di, hn::IfThenElseZero(inside, p)), hn::Set(di, -1)),
          di, to->place[k] + i);
      hn::Store(hn::Mul(factors, Cubic(d, axis.weight[k], t)), d, to->weight[k] + i);
      if (slopes) hn::Store(hn::Mul(hn::Mul(factors, factor), Cubic(d, axis.slope[k], t)), d, to->slope[k] + i);
    }
  }
}

// The product of one tap of each dimension. axes: x, y, z.
template <class A>
void CombineTaps(const GridAxis* axes, const AxisBlock<A>* blocks, int dims, int64_t outside, bool slopes,
                 GridTaps<A>* HWY_RESTRICT to) {
  const hn::ScalableTag<A> d;
  const hn::RebindToSigned<decltype(d)> di;
  using I = hn::TFromD<decltype(di)>;
  const auto width = hn::Set(di, static_cast<I>(axes[0].size)), height = hn::Set(di, static_cast<I>(axes[1].size)),
             nowhere = hn::Set(di, static_cast<I>(outside));
  const int depth_taps = dims == 3 ? axes[2].taps : 1;
  int tap = 0;
  for (int z = 0; z < depth_taps; ++z)
    for (int y = 0; y < axes[1].taps; ++y)
      for (int x = 0; x < axes[0].taps; ++x, ++tap)
        for (int64_t i = 0; i < kGridBlock; i += HWY_LANES(A)) {
          const auto px = hn::Load(di, blocks[0].place[x] + i), py = hn::Load(di, blocks[1].place[y] + i);
          const auto wx = hn::Load(d, blocks[0].weight[x] + i), wy = hn::Load(d, blocks[1].weight[y] + i);
          auto sign = hn::Or(px, py), line = py;
          auto wz = hn::Set(d, A(1));
          if (dims == 3) {
            const auto pz = hn::Load(di, blocks[2].place[z] + i);
            wz = hn::Load(d, blocks[2].weight[z] + i);
            sign = hn::Or(sign, pz);
            line = hn::Add(hn::Mul(pz, height), py);
          }
          const auto row = hn::Add(hn::Mul(line, width), px), plane = hn::Mul(wx, wy);
          hn::Store(hn::IfThenElse(hn::Lt(sign, hn::Zero(di)), nowhere, row), di, to->row[tap] + i);
          hn::Store(hn::Mul(plane, wz), d, to->weight[tap] + i);
          if (!slopes) continue;
          hn::Store(hn::Mul(hn::Mul(hn::Load(d, blocks[0].slope[x] + i), wy), wz), d, to->slope[0][tap] + i);
          hn::Store(hn::Mul(hn::Mul(wx, hn::Load(d, blocks[1].slope[y] + i)), wz), d, to->slope[1][tap] + i);
          if (dims == 3) hn::Store(hn::Mul(plane, hn::Load(d, blocks[2].slope[z] + i)), d, to->slope[2][tap] + i);
        }
  to->count = tap;
}

// y: n rows of channels.
template <int kTaps, class D, class A = hn::TFromD<D>>
void SampleRows(D d, const GridTaps<A>& taps, const GridRows<A>& rows, int64_t n, A* HWY_RESTRICT y) {
  const int64_t lanes = hn::MaxLanes(d);
  for (int64_t i = 0; i < n; ++i, y += rows.stride)
    for (int64_t v = 0; v < rows.stride; v += lanes) {
      auto sum = hn::Zero(d);
#pragma GCC unroll 16
      for (int k = 0; k < kTaps; ++k)
        sum = hn::MulAdd(hn::LoadU(d, rows.x + taps.row[k][i] * rows.stride + v), hn::Set(d, taps.weight[k][i]), sum);
      hn::StoreU(sum, d, y + v);
    }
}

// dy: n rows of channels; dgrid: kDims numbers for each.
template <int kTaps, int kDims, class D, class A = hn::TFromD<D>>
void SpreadRows(D d, const GridTaps<A>& taps, const GridRows<A>& rows, int64_t n, const A* HWY_RESTRICT dy,
                A* HWY_RESTRICT dgrid) {
  const int64_t lanes = hn::MaxLanes(d);
  for (int64_t i = 0; i < n; ++i, dy += rows.stride) {
    hn::Vec<D> sums[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
    for (int64_t v = 0; v < rows.stride; v += lanes) {
      const auto grad = hn::LoadU(d, dy + v);
      hn::Vec<D> moved[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
#pragma GCC unroll 16
      for (int k = 0; k < kTaps; ++k) {
        const int64_t at = taps.row[k][i] * rows.stride + v;
        if (rows.dx)
          hn::StoreU(hn::MulAdd(grad, hn::Set(d, taps.weight[k][i]), hn::LoadU(d, rows.dx + at)), d, rows.dx + at);
        if (!rows.x) continue;
        const auto x = hn::LoadU(d, rows.x + at);
#pragma GCC unroll 3
        for (int e = 0; e < kDims; ++e) moved[e] = hn::MulAdd(x, hn::Set(d, taps.slope[e][k][i]), moved[e]);
      }
#pragma GCC unroll 3
      for (int e = 0; e < kDims; ++e) sums[e] = hn::MulAdd(moved[e], grad, sums[e]);
    }
    if (rows.x)
#pragma GCC unroll 3
      for (int e = 0; e < kDims; ++e) dgrid[i * kDims + e] = hn::GetLane(hn::SumOfLanes(d, sums[e]));
  }
}

template <class A>
void Locate(const GridAxis* axes, int dims, const A* coordinates, int64_t outside, bool slopes, GridTaps<A>* to) {
  AxisBlock<A> blocks[3];
  for (int e = 0; e < dims; ++e) LocateAxis(axes[e], coordinates + e * kGridBlock, slopes, &blocks[e]);
  CombineTaps(axes, blocks, dims, outside, slopes, to);
}

template <class D, class A = hn::TFromD<D>>
void SampleWith(D d, const GridTaps<A>& taps, const GridRows<A>& rows, int64_t n, A* y) {
  switch (taps.count) {
    case 1:
      return SampleRows<1>(d, taps, rows, n, y);
    case 4:
      return SampleRows<4>(d, taps, rows, n, y);
    case 8:
      return SampleRows<8>(d, taps, rows, n, y);
    default:
      return SampleRows<kMostTaps>(d, taps, rows, n, y);
  }
}
template <class D, class A = hn::TFromD<D>>
void SpreadWith(D d, int dims, const GridTaps<A>& taps, const GridRows<A>& rows, int64_t n, const A* dy, A* dgrid) {
  switch (taps.count) {
    case 1:
      return dims == 3 ? SpreadRows<1, 3>(d, taps, rows, n, dy, dgrid) : SpreadRows<1, 2>(d, taps, rows, n, dy, dgrid);
    case 4:
      return SpreadRows<4, 2>(d, taps, rows, n, dy, dgrid);
    case 8:
      return SpreadRows<8, 3>(d, taps, rows, n, dy, dgrid);
    default:
      return SpreadRows<kMostTaps, 2>(d, taps, rows, n, dy, dgrid);
  }
}
template <class A>
void Sample(const GridTaps<A>& taps, const GridRows<A>& rows, int64_t n, A* y) {
  rows.stride <= kFewChannels ? SampleWith(hn::CappedTag<A, kFewChannels>(), taps, rows, n, y)
                              : SampleWith(hn::ScalableTag<A>(), taps, rows, n, y);
}
template <class A>
void Spread(int dims, const GridTaps<A>& taps, const GridRows<A>& rows, int64_t n, const A* dy, A* dgrid) {
  rows.stride <= kFewChannels ? SpreadWith(hn::CappedTag<A, kFewChannels>(), dims, taps, rows, n, dy, dgrid)
                              : SpreadWith(hn::ScalableTag<A>(), dims, taps, rows, n, dy, dgrid);
}

}  // namespace

void LocateF(const GridAxis* axes, int dims, const float* coordinates, int64_t outside, bool slopes,
             GridTaps<float>* to) {
  Locate(axes, dims, coordinates, outside, slopes, to);
}
void LocateD(const GridAxis* axes, int dims, const double* coordinates, int64_t outside, bool slopes,
             GridTaps<double>* to) {
  Locate(axes, dims, coordinates, outside, slopes, to);
}
void SampleF(const GridTaps<float>& taps, const GridRows<float>& rows, int64_t n, float* y) {
  Sample(taps, rows, n, y);
}
void SampleD(const GridTaps<double>& taps, const GridRows<double>& rows, int64_t n, double* y) {
  Sample(taps, rows, n, y);
}
void SpreadF(int dims, const GridTaps<float>& taps, const GridRows<float>& rows, int64_t n, const float* dy,
             float* dgrid) {
  Spread(dims, taps, rows, n, dy, dgrid);
}
void SpreadD(int dims, const GridTaps<double>& taps, const GridRows<double>& rows, int64_t n, const double* dy,
             double* dgrid) {
  Spread(dims, taps, rows, n, dy, dgrid);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace internal {

TESSERA_SIMD_TABLE(LocateF);
TESSERA_SIMD_TABLE(LocateD);
TESSERA_SIMD_TABLE(SampleF);
TESSERA_SIMD_TABLE(SampleD);
TESSERA_SIMD_TABLE(SpreadF);
TESSERA_SIMD_TABLE(SpreadD);

template <class A>
struct GridKernels;
template <>
struct GridKernels<float> {
  static auto locate() { return TESSERA_SIMD(LocateF); }
  static auto sample() { return TESSERA_SIMD(SampleF); }
  static auto spread() { return TESSERA_SIMD(SpreadF); }
};
template <>
struct GridKernels<double> {
  static auto locate() { return TESSERA_SIMD(LocateD); }
  static auto sample() { return TESSERA_SIMD(SampleD); }
  static auto spread() { return TESSERA_SIMD(SpreadD); }
};

}  // namespace internal

namespace {

using namespace internal;  // NOLINT: helpers of these kernels

constexpr int64_t kMostChannels = 64;  // of which a thread copies an image at once

// to[j * to_stride + i] = from[i * from_stride + j].
template <class A>
void transpose(const A* from, int64_t from_stride, int64_t rows, int64_t columns, A* to, int64_t to_stride) {
  constexpr int64_t kTile = 64 / sizeof(A), kBytes = sizeof(A);
  const int64_t whole_rows = rows / kTile * kTile, whole_columns = columns / kTile * kTile;
  constexpr auto tiles = sizeof(A) == 4 ? transpose_tiles4 : transpose_tiles8;
  if (whole_rows)
    for (int64_t j = 0; j < whole_columns; j += kTile)
      tiles(reinterpret_cast<char*>(to + j * to_stride), to_stride * kBytes, reinterpret_cast<const char*>(from + j),
            from_stride * kBytes, whole_rows / kTile);
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = j < whole_columns ? whole_rows : 0; i < rows; ++i)
      to[j * to_stride + i] = from[i * from_stride + j];
}

template <class A>
class GridWork {
 public:
  GridWork(DType dtype, const GridSample& g)
      : dtype_(dtype), item_(item_size(dtype)), g_(g), volume_(g.in[0] * g.in[1] * g.in[2]) {
    for (int e = 0; e < g.dims; ++e) axes_[e] = axis_of(g, e);
    chunk_ = std::min(g.channels, kMostChannels);
    chunks_ = (g.channels + chunk_ - 1) / chunk_;
    constexpr int64_t kVector = 64 / sizeof(A);
    stride_ = chunk_ <= kFewChannels ? kFewChannels : (chunk_ + kVector - 1) / kVector * kVector;
  }

  void forward(const char* x, const char* grid, char* y) const {
    for_units([&](int64_t image, int64_t channel, int64_t channels) {
      ScratchArray<A> pixels((volume_ + 1) * stride_), tile(kGridBlock * stride_);
      gather(x + (image * g_.channels + channel) * volume_ * item_, channels, pixels.get());
      const GridRows<A> rows{stride_, volume_, pixels.get(), nullptr};
      char* const to = y + (image * g_.channels + channel) * g_.positions * item_;
      for_blocks(image, grid, false, [&](const GridTaps<A>& taps, int64_t begin, int64_t n) {
        GridKernels<A>::sample()(taps, rows, n, tile.get());
        scatter(tile.get(), channels, n, to + begin * item_, g_.positions);
      });
    });
  }

  void backward(const char* dy, const char* x, const char* grid, char* dx, char* dgrid) const {
    const int64_t numbers = g_.batch * g_.positions * g_.dims;  // of the grid
    ScratchArray<A> parts(dgrid ? chunks_ * numbers : 0);
    for_units([&](int64_t image, int64_t channel, int64_t channels) {
      const int64_t size = (volume_ + 1) * stride_;
      ScratchArray<A> pixels(dgrid ? size : 0), sums(dx ? size : 0), tile(kGridBlock * stride_);
      const int64_t plane = image * g_.channels + channel;
      if (dgrid) gather(x + plane * volume_ * item_, channels, pixels.get());
      if (dx) std::fill_n(sums.get(), size, A(0));
      std::fill_n(tile.get(), kGridBlock * stride_, A(0));
      const GridRows<A> rows{stride_, volume_, dgrid ? pixels.get() : nullptr, dx ? sums.get() : nullptr};
      const char* const from = dy + plane * g_.positions * item_;
      A* const moved = parts.get() + channel / chunk_ * numbers + image * g_.positions * g_.dims;
      for_blocks(image, grid, dgrid != nullptr, [&](const GridTaps<A>& taps, int64_t begin, int64_t n) {
        take(from + begin * item_, g_.positions, channels, n, tile.get());
        GridKernels<A>::spread()(g_.dims, taps, rows, n, tile.get(), dgrid ? moved + begin * g_.dims : nullptr);
      });
      if (dx) scatter(sums.get(), channels, volume_, dx + plane * volume_ * item_, volume_);
    });
    if (!dgrid) return;
    for (int64_t c = 1; c < chunks_; ++c)
      for (int64_t i = 0; i < numbers; ++i) parts[i] += parts[c * numbers + i];
    convert(dtype_, dgrid, DTypeOf<A>::value, parts.get(), numbers);
  }

 private:
  // fn(image, first channel, channels): an image's chunk of channels is one thread's.
  template <class F>
  void for_units(F&& fn) const {
    parallel_for(g_.batch * chunks_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t channel = i % chunks_ * chunk_;
        fn(i / chunks_, channel, std::min(chunk_, g_.channels - channel));
      }
    });
  }

  // fn(taps, first place, places).
  template <class F>
  void for_blocks(int64_t image, const char* grid, bool slopes, F&& fn) const {
    ScratchArray<GridTaps<A>> taps(1);
    alignas(64) A places[3 * kGridBlock], coordinates[3 * kGridBlock] = {};
    for (int64_t begin = 0; begin < g_.positions; begin += kGridBlock) {
      const int64_t n = std::min(kGridBlock, g_.positions - begin);
      convert(DTypeOf<A>::value, places, dtype_, grid + (image * g_.positions + begin) * g_.dims * item_, n * g_.dims);
      for (int64_t i = 0; i < n; ++i)
        for (int e = 0; e < g_.dims; ++e) coordinates[e * kGridBlock + i] = places[i * g_.dims + e];
      GridKernels<A>::locate()(axes_, g_.dims, coordinates, volume_, slopes, taps.get());
      fn(taps[0], begin, n);
    }
  }

  // Planes of an image, side by side with zeros between them and behind the last pixel.
  void gather(const char* planes, int64_t channels, A* to) const {
    if (channels < stride_) std::fill_n(to, volume_ * stride_, A(0));
    std::fill_n(to + volume_ * stride_, stride_, A(0));
    take(planes, volume_, channels, volume_, to);
  }

  // n numbers of each channel, whose rows lie `row` numbers apart, to stand side by side.
  void take(const char* from, int64_t row, int64_t channels, int64_t n, A* to) const {
    if (dtype_ == DTypeOf<A>::value) return transpose(reinterpret_cast<const A*>(from), row, channels, n, to, stride_);
    ScratchArray<A> tile(channels * kGridBlock);
    for (int64_t begin = 0; begin < n; begin += kGridBlock) {
      const int64_t part = std::min(kGridBlock, n - begin);
      for (int64_t c = 0; c < channels; ++c)
        convert(DTypeOf<A>::value, tile.get() + c * kGridBlock, dtype_, from + (c * row + begin) * item_, part);
      transpose(tile.get(), kGridBlock, channels, part, to + begin * stride_, stride_);
    }
  }

  // The way back.
  void scatter(const A* from, int64_t channels, int64_t n, char* to, int64_t row) const {
    if (dtype_ == DTypeOf<A>::value) return transpose(from, stride_, n, channels, reinterpret_cast<A*>(to), row);
    ScratchArray<A> tile(channels * kGridBlock);
    for (int64_t begin = 0; begin < n; begin += kGridBlock) {
      const int64_t part = std::min(kGridBlock, n - begin);
      transpose(from + begin * stride_, stride_, part, channels, tile.get(), kGridBlock);
      for (int64_t c = 0; c < channels; ++c)
        convert(dtype_, to + (c * row + begin) * item_, DTypeOf<A>::value, tile.get() + c * kGridBlock, part);
    }
  }

  DType dtype_;
  int64_t item_;
  const GridSample& g_;
  int64_t volume_, chunk_, chunks_, stride_;
  GridAxis axes_[3];
};

// Pixels are counted in integers of the arithmetic's width.
template <class F>
void with_arithmetic(DType dtype, const GridSample& g, F&& fn) {
  if (!is_floating_point(dtype) || item_size(dtype) == 1) raise_not_implemented("grid_sampler", dtype);
  if (dtype == DType::kFloat64 || g.in[0] * g.in[1] * g.in[2] >= INT32_MAX)
    fn(GridWork<double>(dtype, g));
  else
    fn(GridWork<float>(dtype, g));
}

}  // namespace

void grid_sample_forward(DType dtype, const GridSample& g, const void* x, const void* grid, void* y) {
  if (g.batch * g.channels * g.positions == 0) return;
  with_arithmetic(dtype, g, [&](const auto& work) {
    work.forward(static_cast<const char*>(x), static_cast<const char*>(grid), static_cast<char*>(y));
  });
}

void grid_sample_backward(DType dtype, const GridSample& g, const void* dy, const void* x, const void* grid, void* dx,
                          void* dgrid) {
  const int64_t size = item_size(dtype), pixels = g.in[0] * g.in[1] * g.in[2];
  if (g.batch * g.channels * g.positions == 0) {
    if (dx) std::memset(dx, 0, static_cast<size_t>(g.batch * g.channels * pixels * size));
    if (dgrid) std::memset(dgrid, 0, static_cast<size_t>(g.batch * g.positions * g.dims * size));
    return;
  }
  with_arithmetic(dtype, g, [&](const auto& work) {
    work.backward(static_cast<const char*>(dy), static_cast<const char*>(x), static_cast<const char*>(grid),
                  static_cast<char*>(dx), static_cast<char*>(dgrid));
  });
}

}  // namespace tessera::cpu
#endif
