// Integers to floats where both lie side by side, as images and masks do: several elements at a time, the dtypes known
// to the compiler. Everything else is converted one by one (support/convert.h).
#include <algorithm>

#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/pointwise/pointwise.h"

namespace tessera::cuda {
namespace {

constexpr int kAtOnce = 4;

// is_bool: anything but 0 is 1.
template <class From, class To>
__global__ void convert_kernel(int64_t n, bool is_bool, bool vectors, const From* from, To* to) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x * kAtOnce;
  for (int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * kAtOnce; i < n; i += step) {
    From in[kAtOnce];
    To out[kAtOnce];
    const int64_t left = n - i;
    const int count = static_cast<int>(left < kAtOnce ? left : kAtOnce);
    const bool whole = vectors && count == kAtOnce;
    if (whole)
      load_vector(in, from + i);
    else
      for (int k = 0; k < count; ++k) in[k] = from[i + k];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (k < count) store(&out[k], static_cast<Compute<To>>(is_bool ? in[k] != 0 : in[k]));
    if (whole)
      store_vector(to + i, out);
    else
      for (int k = 0; k < count; ++k) to[i + k] = out[k];
  }
}

template <class From>
void start(DType to, int64_t n, bool is_bool, void* dst, const void* src) {
  visit<kAllFloats>(to, "copy_", [&]<class To>(Tag<To>) {
    const auto fits = [](const void* p, size_t bytes) {
      return reinterpret_cast<uintptr_t>(p) % std::min<size_t>(16, kAtOnce * bytes) == 0;
    };
    launch(convert_kernel<From, To>, blocks_for(n, int64_t{kThreads} * kAtOnce), dim3(kThreads), n, is_bool,
           fits(src, sizeof(From)) && fits(dst, sizeof(To)), static_cast<const From*>(src), static_cast<To*>(dst));
  });
}

}  // namespace

bool convert_dense(DType to, DType from, int64_t n, void* dst, const void* src) {
  if (to != DType::kFloat32 && to != DType::kFloat64 && !is_reduced_float(to)) return false;
  switch (from) {
    case DType::kBool:
    case DType::kUInt8:
      start<uint8_t>(to, n, from == DType::kBool, dst, src);
      return true;
    case DType::kInt32:
      start<int32_t>(to, n, false, dst, src);
      return true;
    case DType::kInt64:
      start<int64_t>(to, n, false, dst, src);
      return true;
    default:
      return false;
  }
}

}  // namespace tessera::cuda
