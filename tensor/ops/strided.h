// From tensors to the operands of engines: byte strides over an iteration shape.
#pragma once

#include "tensor/core/tensor.h"
#include "tensor/cpu/support/operand.h"
#include "tensor/ops/pointwise.h"

namespace tessera {

// A tensor as an engine's operand, with room for its strides. Must not move: the operand points into it. A tensor
// without memory (of the meta device, among others that have some) is refused here, before anything is written.
struct Strided {
  int64_t strides[64];
  cpu::Operand operand{nullptr, DType::kFloat32, nullptr};

  Strided() = default;
  // t broadcast to `shape`.
  Strided(const Tensor& t, IntList shape) {
    pointwise::broadcast_strides(t, shape, strides);
    operand = {memory(t), t.dtype(), strides};
  }
  // t over its own shape; 0-dim tensors count as shape [1] for engines that take a dimension.
  explicit Strided(const Tensor& t) {
    for (int64_t i = 0; i < t.dim(); ++i) strides[i] = t.strides()[i] * t.item_size();
    if (t.dim() == 0) strides[0] = t.item_size();
    operand = {memory(t), t.dtype(), strides};
  }
  Strided(const Strided&) = delete;
  operator const cpu::Operand&() const { return operand; }

 private:
  static void* memory(const Tensor& t) {
    void* data = t.data_ptr();
    TESSERA_CHECK(data || !t.is_meta() || t.numel() == 0,
                  "Expected all tensors to be on the same device, but found at least two devices, meta and one that "
                  "holds data; move one of them");
    return data;
  }
};

// Sizes as engines with a dimension argument want them: at least one dimension.
inline IntVector at_least_1d(IntList sizes) { return sizes.empty() ? IntVector{1} : to_vector(sizes); }

}  // namespace tessera
