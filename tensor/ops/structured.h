// What generated in-place and out= forms share: where a kernel may write, and how a result gets to where the caller
// wants it.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "tensor/core/tensor.h"
#include "tensor/dispatch/op.h"
#include "tensor/ops/promotion.h"

namespace tessera::structured {

// Whether the kernel runs: not for a Meta result. Error if a Meta tensor is among the arguments of a call whose result
// has memory.
bool computes(CallContext ctx, const Tensor& result);

// An out= argument for a result with these metadata. Errors (dtype, device, overlapping elements) come from the
// constructor, before anything is changed; the tensor is resized (with the documented warning) when the kernel asks for
// it. A temporary stands in where the dtype differs, or where memory is, or after resizing would be, shared with an
// input.
class OutGuard {
 public:
  OutGuard(const Tensor& out, const OutputSpec& spec, OutDtype accepted);
  void reads(const Tensor& input);
  void reads(TensorList inputs);
  void reads(const std::optional<TensorList>& inputs);
  const Tensor& tensor();  // where the kernel writes
  void finish();           // copies from the temporary, if there is one; counts a version

 private:
  const Tensor& out_;
  const OutputSpec& spec_;
  bool temporary_ = false;
  Tensor target_;
};

// The self argument of an in-place form. The result must have its shape and a dtype that converts to its dtype. `safe`:
// the kernel may read and write self; a temporary stands in where another input shares its memory.
class InplaceGuard {
 public:
  InplaceGuard(const Tensor& self, const OutputSpec& spec, bool safe);
  void reads(const Tensor& input);
  void reads(TensorList inputs);
  void reads(const std::optional<TensorList>& inputs);
  const Tensor& tensor() const { return target_; }
  void finish();

 private:
  const Tensor& self_;
  const OutputSpec& spec_;
  Tensor target_;
};

// Error if an out= tensor shares memory with an input.
void check_apart(const Tensor& out, const Tensor& input);
void check_apart(const Tensor& out, TensorList inputs);

// Error if the out= of a factory requires grad.
void check_factory_out(const char* name, const Tensor& out);

// In-place and out= forms that compute first and copy then. Errors as above.
void store_inplace(const Tensor& self, const Tensor& value);
inline bool has_history(const Tensor& t) { return t.defined() && t.requires_grad(); }
inline bool has_history(TensorList list) {
  return std::any_of(list.begin(), list.end(), [](const Tensor& t) { return has_history(t); });
}
template <class T>
bool has_history(const std::optional<T>& t) {
  return t && has_history(*t);
}
Tensor copy_before_write(const Tensor& self);
// What an in-place form that computes first and writes then computes from: self, or a copy of it where the operators
// that it calls save what it will overwrite.
template <class... Others>
Tensor before_write(const Tensor& self, const Others&... others) {
  return has_history(self) || (has_history(others) || ...) ? copy_before_write(self) : self;
}
void check_out(const Tensor& out, const Tensor& value, OutDtype accepted);
void store_out(const Tensor& out, const Tensor& value, OutDtype accepted);

// Views that one call made together may not be written in place under autograd: marks them.
std::vector<Tensor> multi_output_views(std::vector<Tensor> views);

inline void bump_version(const Tensor& t) {
  if (t.defined()) t.bump_version();
}
inline void bump_version(TensorList l) {
  for (const Tensor& t : l) bump_version(t);
}

}  // namespace tessera::structured
