// Inputs of reductions that are computed from elements as they are read.
#pragma once

#include <cmath>
#include <cstdint>

#include "tensor/cuda/reduce/reduce_engine.h"

namespace tessera::cuda::reduction {

inline constexpr Operand kNoResult{nullptr, DType::kInt64, nullptr};

// The absolute values of complex numbers, rounded to float32 if asked.
struct AbsInput {
  static constexpr int kOperands = 1;
  const char* data;
  DType dtype;
  bool narrow;

  __device__ double load(const int64_t (&offsets)[1]) const {
    const Complex<double> z = load_any<Complex<double>>(dtype, data + offsets[0]);
    const double a = hypot(z.real(), z.imag());
    return narrow ? static_cast<double>(static_cast<float>(a)) : a;
  }
  __device__ void load(const Walk<1>& walk, const int64_t (&first)[1], bool, const int64_t (&)[1], double (&x)[kBatch],
                       double (&)[kBatch]) const {
    for (int j = 0; j < kBatch; ++j) x[j] = load({first[0] + j * walk.strides[0][0]});
  }
};

// grad * out, or grad alone, of two tensors: V is the type of the arithmetic.
template <class V>
struct ProductInput {
  static constexpr int kOperands = 2;
  const char *grad, *out;
  DType grad_dtype, out_dtype;
  bool grad_alone;

  __device__ void load(const Walk<2>& walk, const int64_t (&first)[2], bool two, const int64_t (&second)[2],
                       V (&x)[kBatch], V (&y)[kBatch]) const {
    batch(walk, first, x);
    if (two) batch(walk, second, y);
  }
  __device__ V load(const int64_t (&offsets)[2]) const {
    const V g = load_any<V>(grad_dtype, grad + offsets[0]);
    return grad_alone ? g : g * load_any<V>(out_dtype, out + offsets[1]);
  }

 private:
  __device__ void batch(const Walk<2>& walk, const int64_t (&offsets)[2], V (&x)[kBatch]) const {
    load_usual<V>(grad_dtype, grad + offsets[0], walk.strides[0][0], x);
    if (grad_alone) return;
    V y[kBatch];
    load_usual<V>(out_dtype, out + offsets[1], walk.strides[0][1], y);
    for (int j = 0; j < kBatch; ++j) x[j] *= y[j];
  }
};

}  // namespace tessera::cuda::reduction
