// What the callees and expressions of pool.textproto refer to. N is the number of spatial dimensions, 2 or 3.
#pragma once

#include <array>
#include <optional>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

struct PoolWindows {
  IntList kernel, stride, padding, dilation;
  bool ceil_mode;
};

std::array<OutputSpec, 2> max_pool_spec(int64_t n, const Tensor& self, const PoolWindows& w);
void max_pool_into(int64_t n, const Tensor& self, const PoolWindows& w, const Tensor& out, const Tensor& indices);
OutputSpec max_pool_backward_spec(int64_t n, const Tensor& grad, const Tensor& self, const PoolWindows& w,
                                  const Tensor& indices);
// For adaptive pooling, too: gradients go to where the indices say.
// w: the windows that gave the indices, where they are known.
void max_pool_backward_into(int64_t n, const Tensor& grad, const Tensor& self, const Tensor& indices,
                            const PoolWindows* w, const Tensor& out);
OutputSpec avg_pool_spec(int64_t n, const Tensor& self, const PoolWindows& w, std::optional<int64_t> divisor);
void avg_pool_into(int64_t n, const Tensor& self, const PoolWindows& w, bool include_pad,
                   std::optional<int64_t> divisor, const Tensor& out);
OutputSpec avg_pool_backward_spec(int64_t n, const Tensor& grad, const Tensor& self, const PoolWindows& w,
                                  std::optional<int64_t> divisor);
void avg_pool_backward_into(int64_t n, const Tensor& grad, const Tensor& self, const PoolWindows& w, bool include_pad,
                            std::optional<int64_t> divisor, const Tensor& out);
OutputSpec adaptive_spec(const char* op, int64_t n, const Tensor& self, IntList output_size);
OutputSpec adaptive_backward_spec(const char* op, int64_t n, const Tensor& grad, const Tensor& self);
OutputSpec adaptive_max_backward_spec(const char* op, int64_t n, const Tensor& grad, const Tensor& self,
                                      const Tensor& indices);
void adaptive_avg_into(int64_t n, const Tensor& self, const Tensor& out);
void adaptive_avg_backward_into(int64_t n, const Tensor& grad, const Tensor& out);
void adaptive_max_into(int64_t n, const Tensor& self, const Tensor& out, const Tensor& indices);

Tensor adaptive_avg_pool_of(const Tensor& self, IntList output_size, int64_t n);
Tensor max_unpool(const Tensor& self, const Tensor& indices, IntList output_size, int64_t n);

template <int N>
std::array<OutputSpec, 2> max_pool_meta(const Tensor& self, IntList kernel, IntList stride, IntList padding,
                                        IntList dilation, bool ceil_mode) {
  return max_pool_spec(N, self, {kernel, stride, padding, dilation, ceil_mode});
}
template <int N>
void max_pool_kernel(const Tensor& self, IntList kernel, IntList stride, IntList padding, IntList dilation,
                     bool ceil_mode, const Tensor& out, const Tensor& indices) {
  max_pool_into(N, self, {kernel, stride, padding, dilation, ceil_mode}, out, indices);
}
template <int N>
OutputSpec max_pool_backward_meta(const Tensor& grad, const Tensor& self, IntList kernel, IntList stride,
                                  IntList padding, IntList dilation, bool ceil_mode, const Tensor& indices) {
  return max_pool_backward_spec(N, grad, self, {kernel, stride, padding, dilation, ceil_mode}, indices);
}
template <int N>
void max_pool_backward_kernel(const Tensor& grad, const Tensor& self, IntList kernel, IntList stride, IntList padding,
                              IntList dilation, bool ceil_mode, const Tensor& indices, const Tensor& out) {
  const PoolWindows w{kernel, stride, padding, dilation, ceil_mode};
  max_pool_backward_into(N, grad, self, indices, &w, out);
}

inline constexpr int64_t kNoDilation = 1;
template <int N>
OutputSpec avg_pool_meta(const Tensor& self, IntList kernel, IntList stride, IntList padding, bool ceil_mode, bool,
                         std::optional<int64_t> divisor) {
  return avg_pool_spec(N, self, {kernel, stride, padding, IntList(&kNoDilation, 1), ceil_mode}, divisor);
}
template <int N>
void avg_pool_kernel(const Tensor& self, IntList kernel, IntList stride, IntList padding, bool ceil_mode,
                     bool include_pad, std::optional<int64_t> divisor, const Tensor& out) {
  avg_pool_into(N, self, {kernel, stride, padding, IntList(&kNoDilation, 1), ceil_mode}, include_pad, divisor, out);
}
template <int N>
OutputSpec avg_pool_backward_meta(const Tensor& grad, const Tensor& self, IntList kernel, IntList stride,
                                  IntList padding, bool ceil_mode, bool, std::optional<int64_t> divisor) {
  return avg_pool_backward_spec(N, grad, self, {kernel, stride, padding, IntList(&kNoDilation, 1), ceil_mode}, divisor);
}
template <int N>
void avg_pool_backward_kernel(const Tensor& grad, const Tensor& self, IntList kernel, IntList stride, IntList padding,
                              bool ceil_mode, bool include_pad, std::optional<int64_t> divisor, const Tensor& out) {
  avg_pool_backward_into(N, grad, self, {kernel, stride, padding, IntList(&kNoDilation, 1), ceil_mode}, include_pad,
                         divisor, out);
}

template <int N>
OutputSpec adaptive_avg_pool_meta(const Tensor& self, SymIntList output_size) {
  return adaptive_spec(N == 2 ? "adaptive_avg_pool2d" : "adaptive_avg_pool3d", N, self, output_size.ints());
}
template <int N>
void adaptive_avg_pool_kernel(const Tensor& self, SymIntList, const Tensor& out) {
  adaptive_avg_into(N, self, out);
}
template <int N>
OutputSpec adaptive_avg_pool_backward_meta(const Tensor& grad, const Tensor& self) {
  return adaptive_backward_spec(N == 2 ? "adaptive_avg_pool2d_backward" : "adaptive_avg_pool3d_backward", N, grad,
                                self);
}
template <int N>
void adaptive_avg_pool_backward_kernel(const Tensor& grad, const Tensor&, const Tensor& out) {
  adaptive_avg_backward_into(N, grad, out);
}
template <int N>
std::array<OutputSpec, 2> adaptive_max_pool_meta(const Tensor& self, IntList output_size) {
  OutputSpec values = adaptive_spec(N == 2 ? "adaptive_max_pool2d" : "adaptive_max_pool3d", N, self, output_size),
             indices = values;
  indices.dtype = DType::kInt64;
  return {values, indices};
}
template <int N>
void adaptive_max_pool_kernel(const Tensor& self, IntList, const Tensor& out, const Tensor& indices) {
  adaptive_max_into(N, self, out, indices);
}
template <int N>
OutputSpec adaptive_max_pool_backward_meta(const Tensor& grad, const Tensor& self, const Tensor& indices) {
  return adaptive_max_backward_spec(N == 2 ? "adaptive_max_pool2d_backward" : "adaptive_max_pool3d_backward", N, grad,
                                    self, indices);
}
template <int N>
void adaptive_max_pool_backward_kernel(const Tensor& grad, const Tensor& self, const Tensor& indices,
                                       const Tensor& out) {
  max_pool_backward_into(N, grad, self, indices, nullptr, out);
}

}  // namespace tessera::kernels
