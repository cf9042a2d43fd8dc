// Means and variances, and logsumexp: reductions whose accumulators are small structs.
#include <cmath>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cuda/reduce/engines.h"
#include "tensor/cuda/support/math.h"
#include "tensor/cuda/reduce/reduce_engine.h"
#include "tensor/cuda/reduce/reduce_input.h"
#include "tensor/cuda/reduce/reduce_kinds.h"
#include "tensor/cuda/reduce/reduce_log_sum_exp.h"

namespace tessera::cuda {
namespace reduction {
namespace {

// A thread sums x - shift and its square for a shift that is one of its own elements, so that at most the digits of its
// number of elements are lost; Chan's formula merges the threads' moments.
template <class V>
struct Moments {
  using Value = V;
  struct Local {
    double count, shift, sum, squares;
  };
  struct Acc {
    double count, mean, deviations;
  };
  double correction;
  bool take_sqrt;

  __device__ Local start() const { return {0, 0, 0, 0}; }
  __device__ void add(Local& a, V x, int64_t) const {
    if (a.count == 0) a.shift = math::is_finite(x) ? x : V(0);
    const double d = static_cast<double>(x) - a.shift;
    a.count += 1;
    a.sum += d;
    a.squares += d * d;
  }
  __device__ void add(Local& a, const V (&x)[kBatch], int64_t) const {
    if (a.count == 0) a.shift = math::is_finite(x[0]) ? x[0] : V(0);
    double sum[4] = {}, squares[4] = {};
    for (int j = 0; j < kBatch; ++j) {
      const double d = static_cast<double>(x[j]) - a.shift;
      sum[j % 4] += d;
      squares[j % 4] += d * d;
    }
    a.count += kBatch;
    a.sum += (sum[0] + sum[1]) + (sum[2] + sum[3]);
    a.squares += (squares[0] + squares[1]) + (squares[2] + squares[3]);
  }
  __device__ Acc close(const Local& a) const {
    if (a.count == 0) return {0, 0, 0};
    const double mean = a.sum / a.count;
    return {a.count, a.shift + mean, math::at_least(a.squares - a.sum * mean, 0.0)};
  }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const double n = a.count + b.count, delta = b.mean - a.mean;
    return {n, a.mean + delta * (b.count / n), a.deviations + b.deviations + delta * delta * (a.count * b.count / n)};
  }
  // Results leave in float64, so that the parts of a complex variance are added before they are rounded.
  __device__ void finish(const Acc& a, int64_t count, const Result (&r)[2]) const {
    const double nan = std::numeric_limits<double>::quiet_NaN(), divisor = static_cast<double>(count) - correction;
    const double variance = a.count == 0 ? nan : a.deviations / (divisor > 0 ? divisor : 0);
    if (r[0].data != nullptr) store_any<double>(r[0].dtype, r[0].data, take_sqrt ? std::sqrt(variance) : variance);
    if (r[1].data != nullptr) store_any<double>(r[1].dtype, r[1].data, a.count == 0 ? nan : a.mean);
  }
};

// The real or imaginary part of a complex operand.
Operand part_of(const Operand& x, int part) {
  const DType real = to_real(x.dtype);
  return {static_cast<char*>(x.data) + part * item_size(real), real, x.strides};
}

// Var(x) = Var(Re x) + Var(Im x); the parts of the mean go where they belong.
void complex_var_mean(DType real, std::span<const int64_t> shape, uint64_t mask, double correction, bool take_sqrt,
                      const Operand& var_out, const Operand& mean_out, const Operand& in) {
  int64_t kept[64], dense[64];
  TESSERA_CHECK(shape.size() <= 64, "tensors of more than 64 dimensions are not supported");
  int64_t n = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    kept[d] = mask >> d & 1 ? 1 : shape[d];
    dense[d] = mask >> d & 1 ? 0 : n * static_cast<int64_t>(sizeof(double));
    n *= kept[d];
  }
  if (n == 0) return;
  const Buffer parts(2 * n * sizeof(double));
  double *re = parts.as<double>(), *im = re + n;
  for (int k = 0; k < 2; ++k) {
    const Operand part_var{var_out.data ? (k ? im : re) : nullptr, DType::kFloat64, dense};
    const Operand part_mean = mean_out.data && is_complex(mean_out.dtype) ? part_of(mean_out, k) : kNoResult;
    cuda::run_var_mean(real, shape, mask, correction, false, part_var, part_mean, part_of(in, k));
  }
  if (var_out.data == nullptr) return;
  const Walk<2> walk = make_walk<2>(std::span<const int64_t>(kept, shape.size()), {dense, var_out.strides}, true);
  const Result to{static_cast<char*>(var_out.data), var_out.dtype};
  for_each(n, [=] __device__(int64_t i) {
    int64_t o[2];
    walk.offsets(i, o);
    const double v = re[o[0] / sizeof(double)] + im[o[0] / sizeof(double)];
    store_any<double>(to.dtype, to.data + o[1], take_sqrt ? std::sqrt(v) : v);
  });
}
}  // namespace

bool log_sum_exp(DType dtype, const Problem& c) {
  switch (dtype) {
    case DType::kFloat32:
      run(LogSumExp<float>{LogSumExpResult::kValue}, c.shape, c.mask, c.in, c.out);
      return true;
    case DType::kFloat64:
      run(LogSumExp<double>{LogSumExpResult::kValue}, c.shape, c.mask, c.in, c.out);
      return true;
    case DType::kComplex64:
      run(ComplexLogSumExp<float>(), c.shape, c.mask, c.in, c.out);
      return true;
    case DType::kComplex128:
      run(ComplexLogSumExp<double>(), c.shape, c.mask, c.in, c.out);
      return true;
    default:
      return false;
  }
}

}  // namespace reduction

void run_var_mean(DType compute, std::span<const int64_t> shape, uint64_t reduce_mask, double correction,
                  bool take_sqrt, const Operand& var_out, const Operand& mean_out, const Operand& in) {
  using namespace reduction;
  if (is_complex(compute)) {
    TESSERA_CHECK_NOT_IMPLEMENTED(is_complex(in.dtype), "\"var\" not implemented for '", type_name_of(compute),
                                  "' of a real tensor");
    return complex_var_mean(compute == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32, shape, reduce_mask,
                            correction, take_sqrt, var_out, mean_out, in);
  }
  const DType dtype = cpu::accumulation_dtype(compute);
  TESSERA_CHECK_NOT_IMPLEMENTED(dtype == DType::kFloat32 || dtype == DType::kFloat64, "\"var\" not implemented for '",
                                type_name_of(compute), "'");
  if (dtype == DType::kFloat32)
    run(Moments<float>{correction, take_sqrt}, shape, reduce_mask, in, var_out, mean_out);
  else
    run(Moments<double>{correction, take_sqrt}, shape, reduce_mask, in, var_out, mean_out);
}

}  // namespace tessera::cuda
