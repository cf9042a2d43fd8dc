// Where kernels write results that they cannot write where the caller wants them.
#pragma once

#include "tensor/core/tensor.h"
#include "tensor/ops/create_kernels.h"

namespace tessera::kernels {

// Memory of the form that a kernel wants for a result: the result itself if it has that form, else a temporary, which
// finish() copies to it. The result may be absent (undefined: no memory); it must outlive this.
class ResultMemory {
 public:
  // Row-major, of the result's dtype.
  explicit ResultMemory(const Tensor& out) : ResultMemory(out, dtype_of(out)) {}
  // Row-major, of that dtype.
  ResultMemory(const Tensor& out, DType dtype)
      : ResultMemory(out, !out.defined() || (out.is_contiguous() && out.dtype() == dtype), {}, dtype) {}
  // fits: whether the result has the form that the kernel wants. A temporary gets these strides (empty: row-major).
  ResultMemory(const Tensor& out, bool fits, IntList strides, DType dtype)
      : out_(out), memory_(fits ? out : empty_tensor(out.sizes(), strides, dtype, out.device())) {}

  const Tensor& tensor() const { return memory_; }
  void* data() const { return memory_.defined() ? memory_.data_ptr() : nullptr; }
  // For kernels that read what they write to: a temporary gets the result's elements.
  void load() const { copy__kernel(memory_, out_, false); }  // does nothing where both are one tensor
  void finish() const { copy__kernel(out_, memory_, false); }

 private:
  static DType dtype_of(const Tensor& t) { return t.defined() ? t.dtype() : DType::kFloat32; }

  const Tensor& out_;
  Tensor memory_;
};

}  // namespace tessera::kernels
