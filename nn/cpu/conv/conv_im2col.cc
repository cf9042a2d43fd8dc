#include "nn/cpu/conv/conv_im2col.h"

#include <cstring>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/core/visit.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {
namespace internal {
namespace {

template <class E>
void gather_row(E* to, const E* from, int64_t n, int64_t stride) {
  if (stride == 1) {
    std::memcpy(to, from, n * sizeof(E));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

template <class E>
void im2col_elements(const ConvGeometry& g, const E* x, int64_t channels, int64_t p0, int64_t p1, E* cols,
                     int64_t cols_stride) {
  const int64_t height = g.in_size[1], width = g.in_size[2], plane = g.in_size[0] * height * width;
  for_taps(g, channels, [&](int64_t row, int64_t c, int64_t d0, int64_t h0, int64_t w0) {
    E* const out = cols + row * cols_stride - p0;
    for_output_rows(g, p0, p1, [&](int64_t od, int64_t oh, int64_t begin, int64_t end, int64_t p) {
      const int64_t id = od * g.stride[0] + d0, ih = oh * g.stride[1] + h0;
      if (id < 0 || id >= g.in_size[0] || ih < 0 || ih >= height) {
        std::memset(static_cast<void*>(out + p), 0, (end - begin) * sizeof(E));
        return;
      }
      const Range r = valid_outputs(begin, end, g.stride[2], w0, width);
      const E* const in = x + c * plane + (id * height + ih) * width + w0;
      if (r.first > begin) std::memset(static_cast<void*>(out + p), 0, (r.first - begin) * sizeof(E));
      if (r.last > r.first)
        gather_row(out + p + (r.first - begin), in + r.first * g.stride[2], r.last - r.first, g.stride[2]);
      if (end > r.last) std::memset(static_cast<void*>(out + p + (r.last - begin)), 0, (end - r.last) * sizeof(E));
    });
  });
}

template <class T, class A>
__attribute__((optimize("O3"))) void add_contiguous(A* __restrict to, const T* __restrict from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<A>(to[i] + static_cast<A>(from[i]));
}

}  // namespace

void im2col_block(int64_t item, const ConvGeometry& g, const void* x, int64_t channels, int64_t p0, int64_t p1,
                  void* cols, int64_t cols_stride) {
  visit_size(item, [&](auto tag) {
    using E = typename decltype(tag)::type;
    im2col_elements(g, static_cast<const E*>(x), channels, p0, p1, static_cast<E*>(cols), cols_stride);
  });
}

template <class T, class A>
void col2im_block(const ConvGeometry& g, const T* cols, int64_t cols_stride, int64_t channels, int64_t p0, int64_t p1,
                  A* x) {
  const int64_t height = g.in_size[1], width = g.in_size[2], plane = g.in_size[0] * height * width,
                stride = g.stride[2];
  for_taps(g, channels, [&](int64_t row, int64_t c, int64_t d0, int64_t h0, int64_t w0) {
    const T* const in = cols + row * cols_stride - p0;
    for_output_rows(g, p0, p1, [&](int64_t od, int64_t oh, int64_t begin, int64_t end, int64_t p) {
      const int64_t id = od * g.stride[0] + d0, ih = oh * g.stride[1] + h0;
      if (id < 0 || id >= g.in_size[0] || ih < 0 || ih >= height) return;
      const Range r = valid_outputs(begin, end, stride, w0, width);
      if (r.last == r.first) return;
      A* const to = x + c * plane + (id * height + ih) * width + w0;
      const T* const from = in + p - begin;
      if (stride == 1) return add_contiguous(to + r.first, from + r.first, r.last - r.first);
      for (int64_t o = r.first; o < r.last; ++o)
        to[o * stride] = static_cast<A>(to[o * stride] + static_cast<A>(from[o]));
    });
  });
}

#define TESSERA_COL2IM(T, A) \
  template void col2im_block<T, A>(const ConvGeometry&, const T*, int64_t, int64_t, int64_t, int64_t, A*);
// clang-format off
TESSERA_COL2IM(uint8_t, uint8_t)
TESSERA_COL2IM(uint16_t, uint16_t)
TESSERA_COL2IM(uint32_t, uint32_t)
TESSERA_COL2IM(uint64_t, uint64_t)
TESSERA_COL2IM(float, float)
TESSERA_COL2IM(double, double)
TESSERA_COL2IM(std::complex<float>, std::complex<float>)
TESSERA_COL2IM(std::complex<double>, std::complex<double>)
TESSERA_COL2IM(Half, float)
TESSERA_COL2IM(BFloat16, float)
TESSERA_COL2IM(ComplexHalf, std::complex<float>)
// clang-format on
#undef TESSERA_COL2IM

}  // namespace internal

using namespace internal;  // NOLINT: the public names of this file follow

void im2col(DType dtype, const ConvGeometry& g, const void* x, void* cols) {
  const int64_t item = item_size(dtype), positions = volume(g.out_size), taps = volume(g.kernel),
                plane = volume(g.in_size);
  if (positions == 0) return;
  const int64_t work = taps * positions;
  parallel_for(g.batch * g.in_channels, work >= 32768 ? 1 : 32768 / (work + 1) + 1, [&](int64_t begin, int64_t end) {
    im2col_block(item, g, static_cast<const char*>(x) + begin * plane * item, end - begin, 0, positions,
                 static_cast<char*>(cols) + begin * work * item, positions);
  });
}

void col2im(DType dtype, const ConvGeometry& g, const void* cols, void* x) {
  const int64_t positions = volume(g.out_size), taps = volume(g.kernel), plane = volume(g.in_size),
                work = taps * positions + plane;
  visit_addable("col2im", dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = Acc<T>;
    parallel_for(g.batch * g.in_channels, work >= 32768 ? 1 : 32768 / (work + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        T* const out = static_cast<T*>(x) + c * plane;
        const T* const in = static_cast<const T*>(cols) + c * taps * positions;
        if constexpr (kIsReduced<T>) {
          ScratchArray<A> sum(plane);
          for (int64_t i = 0; i < plane; ++i) sum[i] = A{};
          col2im_block(g, in, positions, 1, 0, positions, sum.get());
          for (int64_t i = 0; i < plane; ++i) out[i] = static_cast<T>(sum[i]);
        } else {
          for (int64_t i = 0; i < plane; ++i) out[i] = T{};
          col2im_block(g, in, positions, 1, 0, positions, out);
        }
      }
    });
  });
}

}  // namespace tessera::cpu
