#include "tensor/ops/promotion.h"

#include <algorithm>
#include <string_view>

#include "tensor/core/warning.h"
#include "tensor/cpu/pointwise/pointwise.h"

namespace tessera {
namespace {
DType default_of(Category c, DType raw) {
  return c == Category::kFloat ? default_dtype() : c == Category::kComplex ? default_complex_dtype() : raw;
}

void join(std::optional<DType>& slot, DType t) { slot = slot ? (*slot == t ? t : promote_types(*slot, t)) : t; }

// `high` decides unless `low` has a higher category.
std::optional<DType> combine(std::optional<DType> high, std::optional<DType> low) {
  if (!high) return low;
  if (!low || category_of(*low) <= category_of(*high)) return high;
  // A float scalar beside complex has no say; complex beside float takes the float's precision.
  if (category_of(*low) == Category::kComplex && category_of(*high) == Category::kFloat)
    return *high == DType::kBFloat16 ? DType::kComplex64 : promote_types(*high, to_complex(*high));
  return promote_types(*high, *low);
}
}  // namespace

void ResultType::add(const Tensor& t) {
  if (t.impl()->is_wrapped_number())
    join(wrapped_, default_of(category_of(t.dtype()), t.dtype()));
  else
    join(t.dim() > 0 ? dim_ : zero_, t.dtype());
}
void ResultType::add(const Scalar& s) { join(wrapped_, default_of(s.category(), s.raw_dtype())); }

DType ResultType::get() const {
  const auto r = combine(combine(dim_, zero_), wrapped_);
  TESSERA_CHECK(r.has_value(), "result_type: at least one tensor or number is needed");
  return *r;
}

DType result_type(TensorList tensors) {
  ResultType r;
  for (const Tensor& t : tensors) r.add(t);
  return r.get();
}
DType result_type(const Tensor& a, const Tensor& b) {
  ResultType r;
  r.add(a);
  r.add(b);
  return r.get();
}
DType result_type(const Tensor& a, const Scalar& b) {
  ResultType r;
  r.add(a);
  r.add(b);
  return r.get();
}

DType sum_dtype(DType t) { return is_integral(t, true) ? DType::kInt64 : t; }
DType fraction_dtype(DType t) { return is_integral(t, true) ? default_dtype() : t; }

namespace {
DType promoted_for(const PointwiseOp& op, DType t) {
  return op.promote == PromoteKind::kIntToFloat ? fraction_dtype(t) : t;
}
}  // namespace

DType pointwise_compute_dtype(const PointwiseOp& op, DType promoted) {
  // Numbers of 8 bits have no arithmetic, but are told apart, by what they stand for. (By the names of the ops: what
  // names an op links it.)
  if (is_float8(promoted))
    for (const std::string_view name : {"eq_cpu", "ne_cpu", "isnan_cpu"})
      if (name == op.name) return DType::kFloat32;
  const auto compute = kernel_dtype(op, promoted_for(op, promoted));
  TESSERA_CHECK_NOT_IMPLEMENTED(compute.has_value(), "\"", op.name, "\" not implemented for '", type_name_of(promoted),
                                "'");
  return *compute;
}
DType pointwise_result_dtype(const PointwiseOp& op, DType promoted) {
  return result_dtype(op, promoted_for(op, promoted));
}

namespace {
template <class Each>
Device find_device(Each&& each) {
  const Tensor* first = nullptr;
  each([&](const Tensor& t) {
    if (!t.defined()) return;
    const bool floating_along = t.dim() == 0 && t.is_cpu();
    if (!first || (first->dim() == 0 && first->is_cpu() && !floating_along)) {
      first = &t;
      return;
    }
    if (floating_along || t.device() == first->device()) return;
    throw Error(str_cat("Expected all tensors to be on the same device, but found at least two devices, ",
                        first->device().str(), " and ", t.device().str(), "!"));
  });
  return first ? first->device() : Device();
}
}  // namespace

Device common_device(std::initializer_list<const Tensor*> tensors) {
  return find_device([&](auto&& f) {
    for (const Tensor* t : tensors) f(*t);
  });
}
Device common_device(TensorList tensors) {
  return find_device([&](auto&& f) {
    for (const Tensor& t : tensors) f(t);
  });
}

void check_can_cast(DType from, DType to) {
  TESSERA_CHECK(from == to || can_cast(from, to), "result type ", type_name_of(from),
                " can't be cast to the desired output type ", type_name_of(to));
}

void check_out_dtype(const Tensor& out, DType result, OutDtype accepted) {
  if (out.dtype() == result || (accepted == OutDtype::kSameOrByte && out.dtype() == DType::kUInt8)) return;
  if (accepted == OutDtype::kCast) return check_can_cast(result, out.dtype());
  throw Error(
      str_cat("Expected out tensor to have dtype ", name_of(result), ", but got ", name_of(out.dtype()), " instead"));
}
void check_out_device(const Tensor& out, Device device) {
  TESSERA_CHECK(out.device() == device, "Expected out tensor to have device ", device.str(), ", but got ",
                out.device().str(), " instead");
}

// Every kernel asks this before it writes to an argument, so what else forbids writing is said here, too.
void check_no_internal_overlap(const Tensor& t) {
  TESSERA_CHECK(!t.is_inference() || inference_mode_enabled(),
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get "
                "a normal tensor before doing "
                "inplace update.");
  TESSERA_CHECK(internal_overlap(t) != Overlap::kYes,
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the "
                "tensor before performing the operation.");
}

void check_no_partial_overlap(const Tensor& written, const Tensor& read) {
  TESSERA_CHECK(
      memory_sharing(written, read) != Sharing::kPartial,
      "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
      "location. Please clone() the tensor before performing the operation.");
}

bool writes_over(const Tensor& written, IntList sizes, const Tensor& read) {
  if (!read.defined()) return false;
  if (std::ranges::equal(written.sizes(), sizes)) return memory_sharing(written, read) != Sharing::kNone;
  return written.impl() == read.impl() || (written.storage() && written.storage() == read.storage());
}

void resize_tensor(const Tensor& t, IntList sizes) {
  const int64_t n = checked_numel(sizes);
  TensorImpl& impl = *t.impl();
  int64_t bytes;
  TESSERA_CHECK(!__builtin_mul_overflow(n + impl.storage_offset(), t.item_size(), &bytes),
                "Storage size calculation overflowed with sizes=", shape_string(sizes));
  if (n > 0 && static_cast<size_t>(bytes) > impl.storage()->nbytes())
    impl.mutable_storage()->resize(static_cast<size_t>(bytes));
  impl.set_sizes_contiguous(sizes);
}

void resize_output(const Tensor& out, IntList sizes, IntList strides) {
  if (std::ranges::equal(out.sizes(), sizes)) return;
  if (out.numel() != 0) {
    warn(str_cat("An output with one or more elements was resized since it had shape ", shape_string(out.sizes()),
                 ", which does not match the required output shape ", shape_string(sizes),
                 ". This behavior is deprecated, and in a future release outputs will not be resized unless they have "
                 "zero elements. You can explicitly reuse an "
                 "out tensor t by resizing it, inplace, to zero elements with t.resize_(0)."));
  }
  resize_tensor(out, sizes);
  if (!strides.empty()) out.impl()->set_sizes_and_strides(sizes, strides);
}

IntVector broadcast_shapes(std::initializer_list<const Tensor*> tensors) {
  IntVector r;
  bool any = false;
  for (const Tensor* t : tensors) {
    if (!t->defined()) continue;
    if (!any)
      r.assign(t->sizes().begin(), t->sizes().end());
    else if (!std::ranges::equal(r, t->sizes()))
      r = infer_broadcast(r, t->sizes());
    any = true;
  }
  return r;
}

}  // namespace tessera
