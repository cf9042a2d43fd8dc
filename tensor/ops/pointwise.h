// Elementwise operators at the level of tensors: what every table entry with `rule: POINTWISE` calls.
#pragma once

#include <initializer_list>

#include "tensor/core/tensor.h"
#include "tensor/ops/promotion.h"

namespace tessera {
struct PointwiseOp;  // tensor/cpu/pointwise/pointwise.h
union KernelParam;   // tensor/cpu/support/operand.h
}  // namespace tessera

namespace tessera::pointwise {

using Inputs = std::initializer_list<const Tensor*>;
using Params = std::initializer_list<Scalar>;

// Promotes, broadcasts, allocates (keeping the inputs' dimension order) and computes. On Meta only the metadata.
Tensor functional(const PointwiseOp& op, Inputs inputs, Params params = {});
// Writes to self, one of the inputs. Errors: result not castable to self's dtype, self would have to grow, overlapping
// memory. Counts a version.
const Tensor& inplace(const PointwiseOp& op, const Tensor& self, Inputs inputs, Params params = {});
// Writes to out, resized if its shape differs. Errors: as above; out is an input and would be resized.
const Tensor& out(const PointwiseOp& op, const Tensor& out, OutDtype accepted, Inputs inputs, Params params = {});

// Metadata of the result alone.
OutputSpec spec(const PointwiseOp& op, Inputs inputs);
// A scalar argument for kernels of a compute dtype.
KernelParam to_param(const Scalar& s, DType compute);
// Byte strides of t for iteration over `shape` (t broadcasts to it).
void broadcast_strides(const Tensor& t, IntList shape, int64_t* out);
// Strides of a result over `shape` that follows the inputs' order of dimensions. Empty: row-major.
IntVector result_strides(Inputs inputs, IntList shape);

}  // namespace tessera::pointwise
