// Public C++ API of forward-mode differentiation: dual tensors, which carry a tangent beside their value (the primal).
// Operators on duals give duals; programs link the *_forward libraries of the operators that they use.
//
//   forward_ad::DualLevel level;
//   Tensor y = f(forward_ad::make_dual(x, v));
//   Tensor product = forward_ad::unpack_dual(y).tangent;   // the Jacobian of f at x, times v
#pragma once

#include <cstdint>
#include <optional>

#include "autograd/tangent.h"
#include "tensor/core/tensor.h"

namespace tessera::autograd::forward_ad {

// Opens this thread's level and returns its number (0). Error if one is open: they do not nest.
int64_t enter_dual_level();
// Closes it: all its tangents vanish. Error if none is open, or if `level` is not it.
void exit_dual_level(std::optional<int64_t> level = std::nullopt);
// The open level, -1 if none.
int64_t current_dual_level();

class DualLevel {
 public:
  DualLevel() : level_(enter_dual_level()) {}
  ~DualLevel() {
    if (current_dual_level() == level_) exit_dual_level(level_);
  }
  DualLevel(const DualLevel&) = delete;

 private:
  int64_t level_;
};

// A view of `tensor` with a tangent of the same shape, dtype and device. The tangent is kept as it is if its memory has
// the tensor's layout, else copied when that matters. Errors: no open level, not a float or complex tensor
// (ValueError), another shape, dtype or device, a tensor that is a dual already.
Tensor make_dual(const Tensor& tensor, const Tensor& tangent, std::optional<int64_t> level = std::nullopt);

struct UnpackedDual {
  Tensor primal;   // the same memory without the tangent
  Tensor tangent;  // undefined if there is none
};
UnpackedDual unpack_dual(const Tensor& tensor, std::optional<int64_t> level = std::nullopt);

// Defined by //func; null in programs without it. The innermost level is a vmap, and a tensor is batched there: the
// dual is one of values outside, with a batch, as results of the level are. Undefined tensors: no such case.
namespace internal {
[[gnu::weak]] Tensor make_batched_dual(const Tensor& tensor, const Tensor& tangent, std::optional<int64_t> level);
[[gnu::weak]] UnpackedDual unpack_batched_dual(const Tensor& tensor, std::optional<int64_t> level);
}  // namespace internal

// Whether forward mode is on in this thread.
class ForwardGradMode {
 public:
  explicit ForwardGradMode(bool enabled) : saved_(thread_state.forward_grad_enabled) {
    thread_state.forward_grad_enabled = enabled;
  }
  ~ForwardGradMode() { thread_state.forward_grad_enabled = saved_; }
  ForwardGradMode(const ForwardGradMode&) = delete;

 private:
  bool saved_;
};

// What make_dual refuses of a pair, for transforms that keep levels of their own.
void check_tangent(const Tensor& tensor, const Tensor& tangent);

}  // namespace tessera::autograd::forward_ad
