// Which dtype, device and shape a call's tensors combine to.
#pragma once

#include <initializer_list>

#include "tensor/core/tensor.h"

namespace tessera {

struct PointwiseOp;  // tensor/cpu/pointwise/pointwise.h

// The documented result type of tensors: dimensioned tensors first, then 0-dim ones, then Python numbers; a lower class
// matters only by a higher category.
class ResultType {
 public:
  void add(const Tensor& t);
  void add(const Scalar& s);
  DType get() const;  // Error if nothing was added

 private:
  std::optional<DType> dim_, zero_, wrapped_;
};
DType result_type(TensorList tensors);
DType result_type(const Tensor& a, const Tensor& b);
DType result_type(const Tensor& a, const Scalar& b);

// The result of adding up, or multiplying, elements of dtype t where the call names none: integers and bool give int64.
DType sum_dtype(DType t);
// The dtype of functions whose results are fractions: integers and bool give the default floating dtype.
DType fraction_dtype(DType t);

// The dtype in which an elementwise op computes inputs that promote to `promoted`, and that of its result. Throws
// NotImplementedError with the documented text ('"name" not implemented for 'Bool'') where the op has no kernel.
DType pointwise_compute_dtype(const PointwiseOp& op, DType promoted);
DType pointwise_result_dtype(const PointwiseOp& op, DType promoted);

// The device of a call: the tensors' common one; 0-dim CPU tensors go along with any. Error "Expected all tensors to be
// on the same device, but found at least two devices, cuda:0 and cpu!".
Device common_device(std::initializer_list<const Tensor*> tensors);
Device common_device(TensorList tensors);

// Error unless results of dtype `from` may be written to `to`: "result type Float can't be cast to the desired output
// type Long".
void check_can_cast(DType from, DType to);
// Which out= a result is written to: of its own dtype, of any that it converts to, of its own or uint8 (truth values).
enum class OutDtype { kSame, kCast, kSameOrByte };
// Error unless results of dtype `result` may be written to out.
void check_out_dtype(const Tensor& out, DType result, OutDtype accepted);
// Error if out is on another device than the result.
void check_out_device(const Tensor& out, Device device);
// Error if two elements of t share memory (an expanded tensor): nothing may be written to it.
void check_no_internal_overlap(const Tensor& t);
// Error if `written` shares memory with `read` in another way than being the same elements.
void check_no_partial_overlap(const Tensor& written, const Tensor& read);
// Whether writing a result of shape `sizes` to `written`, which is resized to it, would change what is read: shared
// memory, now or then.
bool writes_over(const Tensor& written, IntList sizes, const Tensor& read);
// Gives an out= tensor the shape of the result: resized if needed, with the documented warning if it had elements.
// strides: empty for row-major.
void resize_output(const Tensor& out, IntList sizes, IntList strides = {});
// Changes sizes to row-major `sizes`, growing the storage if it is too small.
void resize_tensor(const Tensor& t, IntList sizes);

// Broadcast of all shapes.
IntVector broadcast_shapes(std::initializer_list<const Tensor*> tensors);

}  // namespace tessera
