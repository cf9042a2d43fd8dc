#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/conv/conv_depthwise.cc"
#include "nn/cpu/conv/conv_depthwise.h"

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "nn/cpu/conv/conv_im2col.h"
#include "nn/cpu/conv/conv_implicit.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

// to[i * to_step] += w * from[i * from_step]; the compiler vectorises the case of steps 1.
template <class T>
__attribute__((optimize("O3"))) void add_scaled(T* __restrict to, int64_t to_step, const T* __restrict from,
                                                int64_t from_step, T w, int64_t n) {
  if (to_step == 1 && from_step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] += w * from[i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] += w * from[i * from_step];
  }
}

// Calls fn(kernel tap, input row, output row, first output column, count) for every tap and output row that meets the
// input; columns start at ow * stride + w0, which is passed too.
template <class F>
HWY_INLINE void for_tap_rows(const ConvGeometry& g, F&& fn) {
  int64_t tap = 0;
  for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
    for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
      for (int64_t kw = 0; kw < g.kernel[2]; ++kw, ++tap) {
        const int64_t w0 = kw * g.dilation[2] - g.padding[2];
        const Range cols = valid_outputs(0, g.out_size[2], g.stride[2], w0, g.in_size[2]);
        const Range rows =
            valid_outputs(0, g.out_size[1], g.stride[1], kh * g.dilation[1] - g.padding[1], g.in_size[1]);
        const Range slices =
            valid_outputs(0, g.out_size[0], g.stride[0], kd * g.dilation[0] - g.padding[0], g.in_size[0]);
        if (cols.last == cols.first) continue;
        for (int64_t od = slices.first; od < slices.last; ++od)
          for (int64_t oh = rows.first; oh < rows.last; ++oh) {
            const int64_t id = od * g.stride[0] + kd * g.dilation[0] - g.padding[0],
                          ih = oh * g.stride[1] + kh * g.dilation[1] - g.padding[1];
            fn(tap, (id * g.in_size[1] + ih) * g.in_size[2] + cols.first * g.stride[2] + w0,
               (od * g.out_size[1] + oh) * g.out_size[2] + cols.first, cols.last - cols.first);
          }
      }
}

namespace hn = hwy::HWY_NAMESPACE;

// One output row from padded images: every vector of it is summed in a register. from: the row's first window; to: n
// elements.
template <class T>
HWY_INLINE void depthwise_row(const T* HWY_RESTRICT from, const T* HWY_RESTRICT w, const int64_t* HWY_RESTRICT offsets,
                              int64_t taps, T start, int64_t n, T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(T);
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    auto a = hn::Set(d, start), b = a;
    for (int64_t t = 0; t < taps; ++t) {
      const auto x = hn::Set(d, w[t]);
      a = hn::MulAdd(x, hn::LoadU(d, from + offsets[t] + i), a);
      b = hn::MulAdd(x, hn::LoadU(d, from + offsets[t] + i + kLanes), b);
    }
    hn::StoreU(a, d, to + i);
    hn::StoreU(b, d, to + i + kLanes);
  }
  for (; i < n; i += kLanes) {
    auto a = hn::Set(d, start);
    for (int64_t t = 0; t < taps; ++t) a = hn::MulAdd(hn::Set(d, w[t]), hn::LoadU(d, from + offsets[t] + i), a);
    if (i + kLanes <= n) {
      hn::StoreU(a, d, to + i);
    } else {
      HWY_ALIGN T rest[kLanes];
      hn::Store(a, d, rest);
      for (int64_t k = i; k < n; ++k) to[k] = rest[k - i];
    }
  }
}

template <class DV, class T, class VT>
HWY_INLINE void store_first(DV d, VT v, int64_t n, T* to) {
  constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(T);
  if (n >= kLanes) {
    hn::StoreU(v, d, to);
    return;
  }
  HWY_ALIGN T rest[kLanes];
  hn::Store(v, d, rest);
  for (int64_t k = 0; k < n; ++k) to[k] = rest[k];
}

// Four output rows whose windows are a row apart, kernels of kHeight rows: every vector of the input serves all rows
// whose windows it lies in.
constexpr int64_t kRows = 4;
template <int kHeight, class T>
HWY_INLINE void depthwise_rows(const T* HWY_RESTRICT from, int64_t pitch, const T* HWY_RESTRICT w,
                               const int64_t* HWY_RESTRICT offsets, int64_t columns, T start, int64_t n,
                               T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(T);
  using V = hn::Vec<hn::ScalableTag<T>>;
  for (int64_t i = 0; i < n; i += kLanes) {
    V sum[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Set(d, start);
    for (int64_t kw = 0; kw < columns; ++kw) {
      V ws[kHeight];
#pragma GCC unroll 8
      for (int kh = 0; kh < kHeight; ++kh) ws[kh] = hn::Set(d, w[kh * columns + kw]);
      const T* HWY_RESTRICT x = from + offsets[kw] + i;
#pragma GCC unroll 16
      for (int h = 0; h < kRows + kHeight - 1; ++h, x += pitch) {
        const V v = hn::LoadU(d, x);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r)
          if (h >= r && h - r < kHeight) sum[r] = hn::MulAdd(v, ws[h - r], sum[r]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) store_first(d, sum[r], n - i, to + r * n + i);
  }
}
template <class T>
using RowsFn = void (*)(const T*, int64_t, const T*, const int64_t*, int64_t, T, int64_t, T*);
// Null where rows are worked on one by one.
template <class T>
RowsFn<T> rows_function(const ConvGeometry& g) {
  if (g.kernel[0] != 1 || g.stride[1] != 1 || g.dilation[1] != 1) return nullptr;
  return g.kernel[1] == 3   ? depthwise_rows<3, T>
         : g.kernel[1] == 5 ? depthwise_rows<5, T>
         : g.kernel[1] == 7 ? depthwise_rows<7, T>
                            : nullptr;
}

template <class T>
void Forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y) {
  using Padded = PaddedImages<T>;
  const int64_t per_group = g.out_channels / g.groups, in_plane = g.in_size[0] * g.in_size[1] * g.in_size[2];
  const int64_t rows = g.out_size[0] * g.out_size[1], width = g.out_size[2],
                taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  if (rows * width == 0) return;
  ScratchArray<int64_t> offsets(taps);
  Padded::tap_offsets(g, 1, offsets.get());
  const RowsFn<T> several = rows_function<T>(g);
  parallel_for(g.batch * g.in_channels, 1 + 65536 / (rows * width * taps * per_group),
               [&](int64_t begin, int64_t end) HWY_ATTR {
                 ScratchArray<T> padded(Padded::plane(g) + Padded::kSlack);
                 for (int64_t i = begin; i < end; ++i) {
                   Padded::fill(g, x + i * in_plane, 0, 1, 1, padded.get());
                   const int64_t n = i / g.in_channels, c = i % g.in_channels;
                   for (int64_t o = c * per_group; o < (c + 1) * per_group; ++o)
                     for (int64_t r = 0; r < rows; ++r) {
                       const T* const from = padded.get() + Padded::window(g, r / g.out_size[1], r % g.out_size[1], 0);
                       if (several && r % g.out_size[1] + kRows <= g.out_size[1]) {
                         several(from, Padded::row(g), w + o * taps, offsets.get(), g.kernel[2], bias ? bias[o] : T{0},
                                 width, y + ((n * g.out_channels + o) * rows + r) * width);
                         r += kRows - 1;
                         continue;
                       }
                       depthwise_row(from, w + o * taps, offsets.get(), taps, bias ? bias[o] : T{0}, width,
                                     y + ((n * g.out_channels + o) * rows + r) * width);
                     }
                 }
               });
}

template <class T>
void BackwardInput(const ConvGeometry& g, const T* dy, const T* w, T* dx) {
  if (g.out_channels == g.groups && has_implicit_backward(g)) {
    ScratchArray<T> weights(g.groups * g.kernel[0] * g.kernel[1] * g.kernel[2]);
    mirror_weights(g, w, weights.get());
    return Forward<T>(mirrored_geometry(g), dy, weights.get(), nullptr, dx);
  }
  const int64_t per_group = g.out_channels / g.groups, in_plane = g.in_size[0] * g.in_size[1] * g.in_size[2];
  const int64_t out_plane = g.out_size[0] * g.out_size[1] * g.out_size[2],
                taps = g.kernel[0] * g.kernel[1] * g.kernel[2];
  parallel_for(g.batch * g.in_channels, 1 + 65536 / (out_plane * taps * per_group + 1),
               [&](int64_t begin, int64_t end) HWY_ATTR {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t c = i % g.in_channels, n = i / g.in_channels;
                   T* const in = dx + i * in_plane;
                   for (int64_t p = 0; p < in_plane; ++p) in[p] = T{0};
                   for (int64_t o = c * per_group; o < (c + 1) * per_group; ++o) {
                     const T* const out = dy + (n * g.out_channels + o) * out_plane;
                     for_tap_rows(g, [&](int64_t tap, int64_t from, int64_t to, int64_t count) HWY_ATTR {
                       add_scaled(in + from, g.stride[2], out + to, 1, w[o * taps + tap], count);
                     });
                   }
                 }
               });
}

// Sums of dy times the input under kTaps taps of a row of the kernel, added to sums; from: a padded image whose windows
// begin there, offsets: of the taps.
template <int kTaps, class T>
HWY_INLINE void tap_sums(const ConvGeometry& g, const T* HWY_RESTRICT dy, const T* HWY_RESTRICT from,
                         const int64_t* offsets, double* sums) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(T);
  using V = hn::Vec<hn::ScalableTag<T>>;
  const int64_t width = g.out_size[2], whole = width / kLanes * kLanes;
  const auto rest = hn::FirstN(d, static_cast<size_t>(width - whole));
  V sum[kTaps];
#pragma GCC unroll 8
  for (int t = 0; t < kTaps; ++t) sum[t] = hn::Zero(d);
  for (int64_t od = 0; od < g.out_size[0]; ++od)
    for (int64_t oh = 0; oh < g.out_size[1]; ++oh, dy += width) {
      const T* const x = from + PaddedImages<T>::window(g, od, oh, 0);
      for (int64_t i = 0; i < whole; i += kLanes) {
        const V v = hn::LoadU(d, dy + i);
#pragma GCC unroll 8
        for (int t = 0; t < kTaps; ++t) sum[t] = hn::MulAdd(v, hn::LoadU(d, x + offsets[t] + i), sum[t]);
      }
      if (whole == width) continue;
      HWY_ALIGN T tail[kLanes] = {};
      for (int64_t i = whole; i < width; ++i) tail[i - whole] = dy[i];
      const V v = hn::Load(d, tail);
      // An infinity beyond the row must not meet a zero.
#pragma GCC unroll 8
      for (int t = 0; t < kTaps; ++t)
        sum[t] = hn::MulAdd(v, hn::IfThenElseZero(rest, hn::LoadU(d, x + offsets[t] + whole)), sum[t]);
    }
#pragma GCC unroll 8
  for (int t = 0; t < kTaps; ++t) sums[t] += hn::GetLane(hn::SumOfLanes(d, sum[t]));
}
// All taps of the kernel, as many of a row at a time as there are.
template <class T>
void all_tap_sums(const ConvGeometry& g, const T* dy, const T* from, const int64_t* offsets, double* sums) {
  const int64_t taps = g.kernel[0] * g.kernel[1] * g.kernel[2], width = g.kernel[2];
  if (width == 3 || width == 5 || width == 7) {
    const auto row = width == 3 ? tap_sums<3, T> : width == 5 ? tap_sums<5, T> : tap_sums<7, T>;
    for (int64_t t = 0; t < taps; t += width) row(g, dy, from, offsets + t, sums + t);
  } else {
    for (int64_t t = 0; t < taps; ++t) tap_sums<1>(g, dy, from, offsets + t, sums + t);
  }
}

// Images are cut into at most 16 fixed chunks; the chunks' sums, in float64, are added in order.
template <class T>
void BackwardWeight(const ConvGeometry& g, const T* dy, const T* x, T* dw) {
  using Padded = PaddedImages<T>;
  const int64_t per_group = g.out_channels / g.groups, in_plane = g.in_size[0] * g.in_size[1] * g.in_size[2];
  const int64_t out_plane = g.out_size[0] * g.out_size[1] * g.out_size[2],
                taps = g.kernel[0] * g.kernel[1] * g.kernel[2], size = g.out_channels * taps;
  if (g.batch == 0 || out_plane == 0) {
    for (int64_t i = 0; i < size; ++i) dw[i] = T{0};
    return;
  }
  const int64_t images = (g.batch + 15) / 16, chunks = (g.batch + images - 1) / images;
  ScratchArray<int64_t> offsets(taps);
  Padded::tap_offsets(g, 1, offsets.get());
  ScratchArray<double> sums(chunks * size);
  parallel_for(chunks * g.in_channels, 1 + 65536 / (images * out_plane * taps * per_group),
               [&](int64_t begin, int64_t end) HWY_ATTR {
                 ScratchArray<T> padded(Padded::plane(g) + Padded::kSlack);
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t chunk = i / g.in_channels, c = i % g.in_channels,
                                 last = (chunk + 1) * images < g.batch ? (chunk + 1) * images : g.batch;
                   double* const sum = sums.get() + chunk * size + c * per_group * taps;
                   for (int64_t k = 0; k < per_group * taps; ++k) sum[k] = 0;
                   for (int64_t n = chunk * images; n < last; ++n) {
                     Padded::fill(g, x + (n * g.in_channels + c) * in_plane, 0, 1, 1, padded.get());
                     for (int64_t o = 0; o < per_group; ++o)
                       all_tap_sums(g, dy + (n * g.out_channels + c * per_group + o) * out_plane, padded.get(),
                                    offsets.get(), sum + o * taps);
                   }
                 }
               });
  for (int64_t i = 0; i < size; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < chunks; ++k) sum += sums[k * size + i];
    dw[i] = static_cast<T>(sum);
  }
}

}  // namespace

void BackwardWeightF32(const ConvGeometry& g, const float* dy, const float* x, float* dw) {
  BackwardWeight(g, dy, x, dw);
}
void BackwardWeightF64(const ConvGeometry& g, const double* dy, const double* x, double* dw) {
  BackwardWeight(g, dy, x, dw);
}
void ForwardF32(const ConvGeometry& g, const float* x, const float* w, const float* bias, float* y) {
  Forward(g, x, w, bias, y);
}
void ForwardF64(const ConvGeometry& g, const double* x, const double* w, const double* bias, double* y) {
  Forward(g, x, w, bias, y);
}
void BackwardInputF32(const ConvGeometry& g, const float* dy, const float* w, float* dx) {
  BackwardInput(g, dy, w, dx);
}
void BackwardInputF64(const ConvGeometry& g, const double* dy, const double* w, double* dx) {
  BackwardInput(g, dy, w, dx);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(ForwardF32);
TESSERA_SIMD_TABLE(ForwardF64);
TESSERA_SIMD_TABLE(BackwardInputF32);
TESSERA_SIMD_TABLE(BackwardInputF64);
TESSERA_SIMD_TABLE(BackwardWeightF32);
TESSERA_SIMD_TABLE(BackwardWeightF64);
void depthwise_forward(const ConvGeometry& g, const float* x, const float* w, const float* bias, float* y) {
  TESSERA_SIMD(ForwardF32)(g, x, w, bias, y);
}
void depthwise_forward(const ConvGeometry& g, const double* x, const double* w, const double* bias, double* y) {
  TESSERA_SIMD(ForwardF64)(g, x, w, bias, y);
}
void depthwise_backward_input(const ConvGeometry& g, const float* dy, const float* w, float* dx) {
  TESSERA_SIMD(BackwardInputF32)(g, dy, w, dx);
}
void depthwise_backward_input(const ConvGeometry& g, const double* dy, const double* w, double* dx) {
  TESSERA_SIMD(BackwardInputF64)(g, dy, w, dx);
}
void depthwise_backward_weight(const ConvGeometry& g, const float* dy, const float* x, float* dw) {
  TESSERA_SIMD(BackwardWeightF32)(g, dy, x, dw);
}
void depthwise_backward_weight(const ConvGeometry& g, const double* dy, const double* x, double* dw) {
  TESSERA_SIMD(BackwardWeightF64)(g, dy, x, dw);
}

}  // namespace tessera::cpu::internal
#endif
