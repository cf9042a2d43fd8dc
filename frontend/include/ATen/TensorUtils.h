// Checks of arguments by their names and positions, with the documented messages.
#pragma once

#include "ATen/ATen.h"

namespace at {

// A function's name, and a tensor among its arguments.
using CheckedFrom = const char*;
struct TensorArg {
  Tensor tensor;
  const char* name;
  int pos;
  TensorArg(Tensor t, const char* n, int p) : tensor(std::move(t)), name(n), pos(p) {}
  const Tensor* operator->() const { return &tensor; }
  const Tensor& operator*() const { return tensor; }
};
inline std::ostream& operator<<(std::ostream& out, const TensorArg& t) {
  return t.pos == 0 ? out << "argument '" << t.name << '\'' : out << "argument #" << t.pos << " '" << t.name << '\'';
}

inline void checkDim(CheckedFrom c, const Tensor& t, const char* name, int pos, int64_t dim) {
  TORCH_CHECK(t.dim() == dim, "Expected ", dim, "-dimensional tensor, but got ", t.dim(), "-dimensional tensor for ",
              TensorArg(t, name, pos), " (while checking arguments for ", c, ")");
}
inline void checkDim(CheckedFrom c, const TensorArg& t, int64_t dim) { checkDim(c, *t, t.name, t.pos, dim); }
// From `from` to below `to` dimensions.
inline void checkDimRange(CheckedFrom c, const TensorArg& t, int64_t from, int64_t to) {
  TORCH_CHECK(t->dim() >= from && t->dim() < to, "Expected ", from, " to ", to - 1, " dimensions, but got ", t->dim(),
              "-dimensional tensor for ", t, " (while checking arguments for ", c, ")");
}
inline void checkSameDim(CheckedFrom c, const TensorArg& a, const TensorArg& b) {
  TORCH_CHECK(a->dim() == b->dim(), "Expected tensor for ", a, " to have the same dimension as tensor for ", b,
              "; but ", a->dim(), " does not equal ", b->dim(), " (while checking arguments for ", c, ")");
}
inline void checkContiguous(CheckedFrom c, const TensorArg& t) {
  TORCH_CHECK(t->is_contiguous(), "Expected contiguous tensor, but got non-contiguous tensor for ", t,
              " (while checking arguments for ", c, ")");
}
inline void checkAllContiguous(CheckedFrom c, ArrayRef<TensorArg> all) {
  for (const TensorArg& t : all)
    if (t->defined()) checkContiguous(c, t);
}
inline void checkSize(CheckedFrom c, const TensorArg& t, IntArrayRef sizes) {
  checkDim(c, t, static_cast<int64_t>(sizes.size()));
  TORCH_CHECK(t->sizes() == sizes, "Expected tensor of size ", sizes, ", but got tensor of size ", t->sizes(), " for ",
              t, " (while checking arguments for ", c, ")");
}
inline void checkSize(CheckedFrom c, const TensorArg& t, int64_t dim, int64_t size) {
  TORCH_CHECK(t->size(dim) == size, "Expected tensor to have size ", size, " at dimension ", dim, ", but got size ",
              t->size(dim), " for ", t, " (while checking arguments for ", c, ")");
}
inline void checkNumel(CheckedFrom c, const TensorArg& t, int64_t numel) {
  TORCH_CHECK(t->numel() == numel, "Expected tensor for ", t, " to have ", numel, " elements; but it actually has ",
              t->numel(), " elements (while checking arguments for ", c, ")");
}
inline void checkScalarType(CheckedFrom c, const TensorArg& t, ScalarType s) {
  TORCH_CHECK(t->scalar_type() == s, "Expected tensor for ", t, " to have scalar type ", s, "; but got ", t->toString(),
              " instead (while checking arguments for ", c, ")");
}
inline void checkScalarTypes(CheckedFrom c, const TensorArg& t, ArrayRef<ScalarType> types) {
  for (const ScalarType s : types)
    if (s == t->scalar_type()) return;
  TORCH_CHECK(false, "Expected tensor for ", t, " to have one of the following scalar types: ", Join(", ", types.vec()),
              "; but got ", t->toString(), " instead (while checking arguments for ", c, ")");
}
inline void checkDefined(CheckedFrom c, const TensorArg& t) {
  TORCH_CHECK(t->defined(), "Expected tensor for ", t, " to be non-null, but it was undefined ",
              " (while checking arguments for ", c, ")");
}
inline void checkAllDefined(CheckedFrom c, ArrayRef<TensorArg> all) {
  for (const TensorArg& t : all) checkDefined(c, t);
}
inline void checkSameSize(CheckedFrom c, const TensorArg& a, const TensorArg& b) {
  TORCH_CHECK(a->sizes() == b->sizes(), "Expected tensor for ", a, " to have same size as tensor for ", b, "; but ",
              a->sizes(), " does not equal ", b->sizes(), " (while checking arguments for ", c, ")");
}
inline void checkSameNumel(CheckedFrom c, const TensorArg& a, const TensorArg& b) {
  TORCH_CHECK(a->numel() == b->numel(), "Expected tensor for ", a, " to have same number of elements as tensor for ", b,
              "; but ", a->numel(), " does not equal ", b->numel(), " (while checking arguments for ", c, ")");
}
inline void checkSameType(CheckedFrom c, const TensorArg& a, const TensorArg& b) {
  TORCH_CHECK(a->options().type_equal(b->options()), "Expected tensor for ", a, " to have the same type as tensor for ",
              b, "; but type ", a->toString(), " does not equal ", b->toString(), " (while checking arguments for ", c,
              ")");
}
inline void checkSameGPU(CheckedFrom c, const TensorArg& a, const TensorArg& b) {
  TORCH_CHECK(a->is_cuda() && b->is_cuda() && a->get_device() == b->get_device(), "Expected tensors for ", a, " and ",
              b, " to be on the same GPU; but they are on ", a->device(), " and ", b->device(),
              " (while checking arguments for ", c, ")");
}
// The same for all that are defined, each beside the first.
#define TESSERA_CHECK_ALL(name, check)                       \
  inline void name(CheckedFrom c, ArrayRef<TensorArg> all) { \
    const TensorArg* first = nullptr;                        \
    for (const TensorArg& t : all) {                         \
      if (!t->defined()) continue;                           \
      if (first)                                             \
        check(c, *first, t);                                 \
      else                                                   \
        first = &t;                                          \
    }                                                        \
  }
TESSERA_CHECK_ALL(checkAllSameSize, checkSameSize)
TESSERA_CHECK_ALL(checkAllSameNumel, checkSameNumel)
TESSERA_CHECK_ALL(checkAllSameType, checkSameType)
TESSERA_CHECK_ALL(checkAllSameGPU, checkSameGPU)
#undef TESSERA_CHECK_ALL
inline void checkDeviceType(CheckedFrom c, const Tensor& t, DeviceType type) {
  TORCH_CHECK(!t.defined() || t.device().type() == type, "Expected tensor to have ", type,
              " DeviceType, but got tensor with ", t.device().type(), " DeviceType (while checking arguments for ", c,
              ")");
}
inline void checkDeviceType(CheckedFrom c, ArrayRef<Tensor> all, DeviceType type) {
  for (const Tensor& t : all) checkDeviceType(c, t, type);
}
inline void checkLayout(CheckedFrom c, const Tensor& t, Layout layout) {
  TORCH_CHECK(!t.defined() || t.layout() == layout, "Expected tensor to have ", layout, " Layout, but got tensor with ",
              t.layout(), " Layout (while checking arguments for ", c, ")");
}
inline void checkLayout(CheckedFrom c, ArrayRef<Tensor> all, Layout layout) {
  for (const Tensor& t : all) checkLayout(c, t, layout);
}
// The address of a tensor's elements; null for an undefined one.
inline void* maybe_data_ptr(const Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; }
inline void* maybe_data_ptr(const TensorArg& t) { return maybe_data_ptr(*t); }

}  // namespace at
