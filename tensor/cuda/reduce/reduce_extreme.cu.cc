// Largest and smallest elements, with and without their positions. The smallest is found as the largest of the elements
// in reverse order.
#include <cmath>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cuda/reduce/engines.h"
#include "tensor/cuda/reduce/reduce_engine.h"
#include "tensor/cuda/reduce/reduce_input.h"
#include "tensor/cuda/reduce/reduce_kinds.h"

namespace tessera::cuda {
namespace reduction {
namespace {

template <class V>
__device__ V lowest() {
  if constexpr (std::is_floating_point_v<V>)
    return -std::numeric_limits<V>::infinity();
  else
    return std::numeric_limits<V>::lowest();
}
// A bijection that turns the order round.
template <class V>
__device__ V reversed(V x) {
  if constexpr (std::is_floating_point_v<V>)
    return -x;
  else
    return ~x;
}
template <class V>
__device__ void store_value(const Result& r, V v) {
  store_any<V>(r.dtype, r.data, v);
}

// NaN once held stays. absolute: of |x|.
template <class V>
struct Extreme {
  using Value = V;
  using Acc = V;
  using Local = V;
  bool largest, absolute;

  __device__ V of(V x) const {
    if constexpr (std::is_floating_point_v<V>) {
      if (absolute) x = std::fabs(x);
    }
    return largest ? x : reversed(x);
  }
  __device__ V start() const { return lowest<V>(); }
  __device__ V merge(V a, V b) const { return a >= b || a != a ? a : b; }
  __device__ void add(V& a, const V (&x)[kBatch], int64_t) const {
    const V b = merge(merge(merge(of(x[0]), of(x[1])), merge(of(x[2]), of(x[3]))),
                      merge(merge(of(x[4]), of(x[5])), merge(of(x[6]), of(x[7]))));
    a = merge(a, b);
  }
  __device__ void add(V& a, V x, int64_t) const { a = merge(a, of(x)); }
  __device__ V close(V a) const { return a; }
  __device__ void finish(V a, int64_t count, const Result (&r)[2]) const {
    store_value(r[0], absolute && count == 0 ? V(0) : largest ? a : reversed(a));
  }
};

// The first of equal elements; the first NaN wins.
template <class V>
struct ArgExtreme {
  using Value = V;
  struct Acc {
    V value;
    int64_t at;
  };
  using Local = Acc;
  bool largest;

  __device__ Acc start() const { return {lowest<V>(), INT64_MAX}; }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    const bool nan_a = a.value != a.value, nan_b = b.value != b.value, before = a.at < b.at;
    const bool first =
        nan_a || nan_b ? nan_a && (!nan_b || before) : a.value > b.value || (a.value == b.value && before);
    return {first ? a.value : b.value, first ? a.at : b.at};
  }
  // Elements come with rising numbers.
  __device__ void add(Acc& a, V x, int64_t at) const {
    if (!largest) x = reversed(x);
    if (a.at == INT64_MAX || x > a.value || (x != x && a.value == a.value)) a = {x, at};
  }
  __device__ void add(Acc& a, const V (&x)[kBatch], int64_t first) const {
    for (int j = 0; j < kBatch; ++j) add(a, x[j], first + j);
  }
  __device__ Acc close(const Acc& a) const { return a; }
  __device__ void finish(const Acc& a, int64_t, const Result (&r)[2]) const {
    if (r[0].data != nullptr) store_value(r[0], largest ? a.value : reversed(a.value));
    if (r[1].data != nullptr) store_any<int64_t>(r[1].dtype, r[1].data, a.at);
  }
};

template <class V>
bool run_extreme(bool largest, bool absolute, const Problem& c) {
  run(Extreme<V>{largest, absolute}, c.shape, c.mask, c.in, c.out);
  return true;
}
}  // namespace

bool extreme(bool largest, DType dtype, const Problem& c) {
  switch (dtype) {
    case DType::kFloat32:
      return run_extreme<float>(largest, false, c);
    case DType::kFloat64:
      return run_extreme<double>(largest, false, c);
    case DType::kInt64:
      return run_extreme<int64_t>(largest, false, c);
    case DType::kUInt64:
      return run_extreme<uint64_t>(largest, false, c);
    default:
      return false;
  }
}
bool extreme_of_abs(bool largest, DType dtype, const Problem& c) {
  switch (dtype) {
    case DType::kFloat32:
      return run_extreme<float>(largest, true, c);
    case DType::kFloat64:
      return run_extreme<double>(largest, true, c);
    case DType::kComplex64:
    case DType::kComplex128: {
      const Extreme<double> op{largest, true};
      run(op, AbsInput{static_cast<const char*>(c.in.data), c.in.dtype, dtype == DType::kComplex64}, c.shape, c.mask,
          {c.in}, {c.out, kNoResult});
      return true;
    }
    default:
      return false;
  }
}
}  // namespace reduction

void run_arg_reduce(bool largest, std::span<const int64_t> shape, int dim, const Operand& values,
                    const Operand& indices, const Operand& in) {
  using namespace reduction;
  const DType load = has_type(in.dtype) ? cpu::accumulation_dtype(in.dtype, true) : DType::kComplex64;
  const bool known =
      load == DType::kFloat32 || load == DType::kFloat64 || load == DType::kInt64 || load == DType::kUInt64;
  TESSERA_CHECK_NOT_IMPLEMENTED(known, '"', largest ? "argmax_cuda" : "argmin_cuda", "\" not implemented for '",
                                type_name_of(in.dtype), "'");
  const int64_t n = shape.empty() ? 1 : shape[dim];
  TESSERA_CHECK_INDEX(n > 0, largest ? "argmax" : "argmin", "(): Expected reduction dim ", dim,
                      " to have non-zero size.");
  const uint64_t mask = shape.empty() ? 0 : uint64_t{1} << dim;
  switch (load) {
    case DType::kFloat32:
      return run(ArgExtreme<float>{largest}, shape, mask, in, values, indices);
    case DType::kFloat64:
      return run(ArgExtreme<double>{largest}, shape, mask, in, values, indices);
    case DType::kInt64:
      return run(ArgExtreme<int64_t>{largest}, shape, mask, in, values, indices);
    default:
      return run(ArgExtreme<uint64_t>{largest}, shape, mask, in, values, indices);
  }
}

}  // namespace tessera::cuda
