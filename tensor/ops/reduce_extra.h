// What the callees and expressions of reduce.textproto refer to.
#pragma once

#include <optional>
#include <string_view>

#include "tensor/core/tensor.h"
#include "tensor/cpu/reduce/reduce.h"

namespace tessera::kernels {

// Reduces the dimensions of `mask` into out, whichever of its shapes (kept dimensions or not) it has.
void reduce_into(cpu::ReduceKind kind, DType compute, const Tensor& self, uint64_t mask, bool keepdim,
                 const Tensor& out, const KernelParam* params = nullptr);
// The set of dims; all of them for an empty or missing list. IndexError / Error on bad or repeated ones.
uint64_t reduce_mask(const Tensor& self, std::optional<IntList> dims);
inline uint64_t all_dims(const Tensor& self) { return self.dim() == 0 ? 0 : (uint64_t{2} << (self.dim() - 1)) - 1; }
std::optional<IntList> dim_or_all(IntList dim);

template <cpu::ReduceKind kKind>
void sum_all_kernel(const Tensor& self, std::optional<DType>, const Tensor& out) {
  reduce_into(kKind, out.dtype(), self, all_dims(self), false, out);
}
template <cpu::ReduceKind kKind>
void sum_dim_kernel(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType>,
                    const Tensor& out) {
  reduce_into(kKind, out.dtype(), self, reduce_mask(self, dim), keepdim, out);
}
template <cpu::ReduceKind kKind>
void extreme_dims_kernel(const Tensor& self, IntList dim, bool keepdim, const Tensor& out) {
  reduce_into(kKind, self.dtype(), self, reduce_mask(self, dim), keepdim, out);
}
template <cpu::ReduceKind kKind>
void extreme_all_kernel(const Tensor& self, const Tensor& out) {
  reduce_into(kKind, self.dtype(), self, all_dims(self), false, out);
}
template <cpu::ReduceKind kKind>
void truth_all_kernel(const Tensor& self, const Tensor& out) {
  reduce_into(kKind, self.dtype(), self, all_dims(self), false, out);
}
template <cpu::ReduceKind kKind>
void truth_dim_kernel(const Tensor& self, int64_t dim, bool keepdim, const Tensor& out) {
  reduce_into(kKind, self.dtype(), self, reduce_mask(self, IntList(&dim, 1)), keepdim, out);
}
// all and any over no dimensions leave them all, unlike sums.
inline uint64_t truth_mask(const Tensor& self, std::optional<IntList> dim) {
  return dim && dim->empty() ? 0 : reduce_mask(self, dim);
}
template <cpu::ReduceKind kKind>
void truth_dims_kernel(const Tensor& self, std::optional<IntList> dim, bool keepdim, const Tensor& out) {
  reduce_into(kKind, self.dtype(), self, truth_mask(self, dim), keepdim, out);
}

void extreme_dim_into(bool largest, const Tensor& self, int64_t dim, bool keepdim, const Tensor& values,
                      const Tensor& indices);
template <bool kLargest>
void extreme_dim_kernel(const Tensor& self, int64_t dim, bool keepdim, const Tensor& values, const Tensor& indices) {
  extreme_dim_into(kLargest, self, dim, keepdim, values, indices);
}
void arg_into(bool largest, const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Tensor& out);
template <bool kLargest>
void arg_kernel(const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Tensor& out) {
  arg_into(kLargest, self, dim, keepdim, out);
}

void spread_into(bool sqrt, const Tensor& self, std::optional<IntList> dim, const std::optional<Scalar>& correction,
                 bool keepdim, const Tensor& spread, const Tensor& mean);
template <bool kSqrt>
void spread_kernel(const Tensor& self, std::optional<IntList> dim, const std::optional<Scalar>& correction,
                   bool keepdim, const Tensor& out) {
  spread_into(kSqrt, self, dim, correction, keepdim, out, Tensor());
}
template <bool kSqrt>
void spread_mean_kernel(const Tensor& self, std::optional<IntList> dim, const std::optional<Scalar>& correction,
                        bool keepdim, const Tensor& spread, const Tensor& mean) {
  spread_into(kSqrt, self, dim, correction, keepdim, spread, mean);
}

void scan_into(cpu::ScanKind kind, const Tensor& self, int64_t dim, const Tensor& out, const Tensor& indices);
template <cpu::ScanKind kKind>
void scan_kernel(const Tensor& self, int64_t dim, std::optional<DType>, const Tensor& out) {
  scan_into(kKind, self, dim, out, Tensor());
}
template <cpu::ScanKind kKind>
void cumextreme_kernel(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices) {
  scan_into(kKind, self, dim, values, indices);
}

void softmax_into(bool log, const Tensor& self, int64_t dim, const Tensor& out);
template <bool kLog>
void softmax_kernel(const Tensor& self, int64_t dim, bool, const Tensor& out) {
  softmax_into(kLog, self, dim, out);
}
void softmax_backward_into(bool log, const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out);
template <bool kLog>
void softmax_backward_kernel(const Tensor& grad, const Tensor& output, int64_t dim, DType, const Tensor& out) {
  softmax_backward_into(kLog, grad, output, dim, out);
}
Tensor softmax_composite(const Tensor& self, int64_t dim, std::optional<DType> dtype);
Tensor log_softmax_composite(const Tensor& self, int64_t dim, std::optional<DType> dtype);

Tensor scalar_like(const Scalar& s, const Tensor& boundaries);
// searchsorted of a number, which lies on the CPU, in a sequence that may lie elsewhere.
Tensor searchsorted_number(const Tensor& sequence, const Tensor& number, bool out_int32, bool right,
                           std::optional<std::string_view> side, const Tensor& sorter);
Tensor bucketize_impl(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right);

}  // namespace tessera::kernels
