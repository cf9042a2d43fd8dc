// The reduction and scan engines, below the Tensor: raw pointers, dtypes and byte strides.
//
// Sums are pairwise / multi-accumulator in an order that depends on the shape alone; the result has the same bits for
// any number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/core/dtype.h"
#include "tensor/cpu/support/operand.h"

namespace tessera::cpu {

enum class ReduceKind : uint8_t {
  kSum,
  kNanSum,
  kProd,
  kMean,
  kMax,
  kMin,  // kMax/kMin propagate NaN (amax, amin)
  kAll,
  kAny,           // bool result (uint8 in, uint8 out where the dtype is uint8)
  kSumSquares,    // sum |x|^2
  kNorm,          // param[0].f = p: (sum |x|^p)^(1/p); inf, -inf, 0 as documented
  kCountNonzero,  // int64 result
  kLogSumExp,     // stable
};

// Reduces the dimensions of `shape` whose bit is set in reduce_mask. `in` is read in its own dtype, converted to
// `compute` (the accumulation is in float64/int64/complex128-safe form: float32 for reduced floats, wider partial sums
// where that is exact or more accurate), and `out` (strides of the full rank, 0 at the reduced dimensions) is written
// in its own dtype. Empty reductions give the identity (caller rejects max/min).
void run_reduce(ReduceKind kind, DType compute, std::span<const int64_t> shape, uint64_t reduce_mask,
                const Operand& out, const Operand& in, const KernelParam* params);

// Mean and variance (divisor max(0, n - correction)) in one pass of Welford/blocked form; var_out or mean_out may have
// null data. take_sqrt: std.
void run_var_mean(DType compute, std::span<const int64_t> shape, uint64_t reduce_mask, double correction,
                  bool take_sqrt, const Operand& var_out, const Operand& mean_out, const Operand& in);

// The same of the elements for which `mask` (bool, over the same shape) holds; one element at `fill` stands for each of
// the others, with no copy of the input: it is put in where blocks are brought to cache.
void run_masked_reduce(ReduceKind kind, DType compute, std::span<const int64_t> shape, uint64_t reduce_mask,
                       const Operand& out, const Operand& in, const Operand& mask, DType fill_dtype, const void* fill,
                       const KernelParam* params);
// Variance of the elements for which `mask` holds, in real floats; NaN where there are none.
void run_masked_var(DType compute, std::span<const int64_t> shape, uint64_t reduce_mask, double correction,
                    const Operand& out, const Operand& in, const Operand& mask);

// Index (int64) and, if values.data is not null, value of the largest / smallest element along `dim`; NaN wins; the
// first of equals. outputs have stride 0 at dim.
void run_arg_reduce(bool largest, std::span<const int64_t> shape, int dim, const Operand& values,
                    const Operand& indices, const Operand& in);

enum class ScanKind : uint8_t { kCumSum, kCumProd, kCumMax, kCumMin, kLogCumSumExp };
// Running reduction along dim; indices (int64) only for kCumMax/kCumMin.
void run_scan(ScanKind kind, DType compute, std::span<const int64_t> shape, int dim, const Operand& out,
              const Operand& indices, const Operand& in);

// softmax / log_softmax along dim, any float dtype (float32 arithmetic for reduced floats), any strides; one pass in
// cache when the row is contiguous.
void run_softmax(bool log, std::span<const int64_t> shape, int dim, const Operand& out, const Operand& in);
// The elements for which `mask` holds, as if the others were -inf.
void run_masked_softmax(bool log, std::span<const int64_t> shape, int dim, const Operand& out, const Operand& in,
                        const Operand& mask);
// grad_in = out * (grad - sum(grad * out))  (softmax), grad - exp(out) * sum(grad)  (log_softmax).
void run_softmax_backward(bool log, std::span<const int64_t> shape, int dim, const Operand& grad_in,
                          const Operand& grad, const Operand& out);

}  // namespace tessera::cpu
