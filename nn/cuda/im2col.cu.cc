// Sliding blocks as columns, and back.
#include "nn/cuda/conv_engines.h"
#include "nn/cuda/nn_kernels.h"
#include "nn/cuda/nn_vector.h"
#include "nn/cuda/sliding.h"

namespace tessera::cuda {
namespace {

using cpu::ConvGeometry;
using internal::position_of;
using internal::quotient;
using internal::Sliding;
using internal::sliding_of;
using internal::split;

// Thread: one position of one channel, all taps of it. Neighbours write side by side.
template <class E>
void run_im2col(const Sliding& s, const E* x, E* cols) {
  for_each(s.planes * s.positions, [=] __device__(int64_t i) {
    int64_t c = i;
    const int64_t p = split(c, s.positions);
    int64_t o = p;
    const int64_t w0 = split(o, s.out[2]) * s.stride[2] - s.padding[2],
                  h0 = split(o, s.out[1]) * s.stride[1] - s.padding[1], d0 = o * s.stride[0] - s.padding[0];
    const E* const from = x + c * s.plane;
    E* to = cols + c * s.taps * s.positions + p;
    for (int kd = 0; kd < s.kernel[0]; ++kd)
      for (int kh = 0; kh < s.kernel[1]; ++kh) {
        const int64_t d = d0 + int64_t{kd} * s.dilation[0], h = h0 + int64_t{kh} * s.dilation[1];
        const bool row_in = d >= 0 && d < s.in[0] && h >= 0 && h < s.in[1];
        for (int kw = 0; kw < s.kernel[2]; ++kw, to += s.positions) {
          const int64_t w = w0 + int64_t{kw} * s.dilation[2];
          *to = row_in && w >= 0 && w < s.in[2] ? from[(d * s.in[1] + h) * s.in[2] + w] : E{};
        }
      }
  });
}

// Thread: one element of x, which adds what the columns hold of it in the order of the taps.
template <class T>
void run_col2im(const Sliding& s, const T* cols, T* x) {
  for_each(s.planes * s.plane, [=] __device__(int64_t i) {
    int64_t c = i;
    int64_t d = split(c, s.plane);
    const int64_t w = split(d, s.in[2]), h = split(d, s.in[1]);
    const T* const from = cols + c * s.taps * s.positions;
    Compute<T> sum{};
    for (int kd = 0; kd < s.kernel[0]; ++kd) {
      const int64_t od = position_of(s, 0, d, kd);
      if (od < 0) continue;
      for (int kh = 0; kh < s.kernel[1]; ++kh) {
        const int64_t oh = position_of(s, 1, h, kh);
        if (oh < 0) continue;
        for (int kw = 0; kw < s.kernel[2]; ++kw) {
          const int64_t ow = position_of(s, 2, w, kw);
          if (ow < 0) continue;
          const int64_t tap = (int64_t{kd} * s.kernel[1] + kh) * s.kernel[2] + kw;
          sum = sum + load(from + tap * s.positions + (od * s.out[1] + oh) * s.out[2] + ow);
        }
      }
    }
    store(x + i, sum);
  });
}

// Dtypes that differ only in how they add: integers by size, floats, complex numbers.
template <class F>
void visit_addable(const char* name, DType t, F&& f) {
  switch (t) {
    case DType::kUInt8:
    case DType::kInt8:
      return f(Tag<uint8_t>());
    case DType::kUInt16:
    case DType::kInt16:
      return f(Tag<uint16_t>());
    case DType::kUInt32:
    case DType::kInt32:
      return f(Tag<uint32_t>());
    case DType::kUInt64:
    case DType::kInt64:
      return f(Tag<uint64_t>());
    default:
      return visit<kAllFloats | kComplexes | kComplexHalves>(t, name, f);
  }
}

template <class T, int V>
void run_add_bias(int64_t n, int64_t channels, int64_t inner, const T* bias, T* y) {
  for_each(n / V, [=] __device__(int64_t i) {
    int64_t run = quotient(i * V, inner);
    const Compute<T> b = load(bias + split(run, channels));
    Compute<T> v[V];
    internal::load_elements<V>(y + i * V, v);
    for (int k = 0; k < V; ++k) v[k] = static_cast<Compute<T>>(v[k] + b);
    internal::store_elements<V>(y + i * V, v);
  });
}

}  // namespace

void im2col(DType dtype, const ConvGeometry& g, const void* x, void* cols) {
  const Sliding s = sliding_of(g);
  visit_size(item_size(dtype), [&](auto tag) {
    using E = typename decltype(tag)::type;
    run_im2col(s, static_cast<const E*>(x), static_cast<E*>(cols));
  });
}

void col2im(DType dtype, const ConvGeometry& g, const void* cols, void* x) {
  const Sliding s = sliding_of(g);
  visit_addable("col2im", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_col2im(s, static_cast<const T*>(cols), static_cast<T*>(x));
  });
}

namespace internal {
void add_bias(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* bias, void* y) {
  visit_addable("slow_conv2d_cuda", dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int V = kVector<T>;
    const bool vectors = inner % V == 0 && aligned({y}, V * sizeof(T));
    (vectors ? run_add_bias<T, V> : run_add_bias<T, 1>)(batch * channels * inner, channels, inner,
                                                        static_cast<const T*>(bias), static_cast<T*>(y));
  });
}
}  // namespace internal

}  // namespace tessera::cuda
