// What the reduction engine (reduce.cc) asks of a kernel. A reduction is a map of elements into an accumulator (a small
// struct) and a merge of two accumulators; kernels do the first for many elements at a time.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

struct ReduceKernel {
  DType block;        // the engine brings the input to this dtype
  int64_t acc_bytes;  // of one accumulator
  // acc[r] = reduction of n contiguous elements at x + r * row_stride_bytes.
  void (*rows)(int64_t rows, int64_t n, const void* x, int64_t row_stride_bytes, void* acc);
  // acc[c] = merge(acc[c], reduction of x[0..rows)[c]).
  void (*cols)(int64_t rows, int64_t cols, const void* x, int64_t row_stride_bytes, void* acc);
  void (*init)(int64_t n, void* acc);
  void (*merge)(int64_t n, void* acc, const void* more);
};

// Accumulators that are more than a number.
struct VarState {
  double n, mean, m2;
};  // count, mean, sum of squared deviations
struct LogSumExpState {
  double max, sum;
};  // sum of exp(x - max); sum is 0 while max is -inf

struct ComplexLogSumExpState {
  double max, re, im;
};  // of the real parts; sum of exp(x - max)

// Merges of the two, written so that empty states change nothing.
inline void merge_var(VarState& a, const VarState& b) {
  if (b.n == 0) return;
  if (a.n == 0) {
    a = b;
    return;
  }
  const double n = a.n + b.n, delta = b.mean - a.mean;
  a.mean += delta * (b.n / n);
  a.m2 += b.m2 + delta * delta * (a.n * b.n / n);
  a.n = n;
}

// Null where there is none. Accumulators: double for sums of float32/float64 (std::complex<double> for complex),
// int64_t for counts and sums of int64, the block dtype for extrema.
enum class RowOp : uint8_t {
  kSum,
  kNanSum,
  kAbsSum,
  kSumSquares,
  kMax,
  kMin,
  kMaxAbs,
  kMinAbs,
  kVar,
  kLogSumExp,
  kProd,
  kCount
};
const ReduceKernel* find_reduce_kernel(RowOp op, DType block);
// The parts of the table.
const ReduceKernel* find_sum_kernel(RowOp op, DType block);
const ReduceKernel* find_extreme_kernel(RowOp op, DType block);
const ReduceKernel* find_moments_kernel(RowOp op, DType block);
const ReduceKernel* find_plain_kernel(RowOp op, DType block);

// Sums in a binary tree whose form depends on the number of pushes alone, so that rounding errors grow with its
// logarithm.
template <class T, class Merge>
class PairwiseStack {
 public:
  explicit PairwiseStack(Merge merge) : merge_(merge) {}
  void push(T value) {
    for (uint64_t bits = count_++; bits & 1; bits >>= 1) value = merge_(stack_[--top_], value);
    stack_[top_++] = value;
  }
  // At least one push.
  T total() const {
    T t = stack_[top_ - 1];
    for (int i = top_ - 2; i >= 0; --i) t = merge_(stack_[i], t);
    return t;
  }

 private:
  Merge merge_;
  uint64_t count_ = 0;
  int top_ = 0;
  T stack_[64];
};

}  // namespace tessera::cpu
