#include "autograd/forward_ad.h"

#include <algorithm>
#include <utility>

#include "autograd/variable.h"
#include "tensor/core/transforms.h"
#include "tensor/ops/api.h"

namespace tessera::autograd::forward_ad {
namespace {

thread_local IntrusivePtr<TangentLevel> t_level;

// The open level that a call is for.
const IntrusivePtr<TangentLevel>& checked_level(std::optional<int64_t> level, const char* name) {
  TESSERA_CHECK(t_level && (!level || *level >= 0), "Trying to ", name,
                " outside of a dual level: no level exists. Enter one first, with forward_ad.dual_level().");
  TESSERA_CHECK(!level || *level == 0, "Trying to ", name, " at level ", level.value_or(0),
                ", but only level 0 is open: forward mode does not nest.");
  return t_level;
}

}  // namespace

int64_t enter_dual_level() {
  TESSERA_CHECK(!t_level,
                "Nested forward mode AD is not supported at the moment: a dual level is open in this thread. Exit it "
                "first, or use torch.func.jvp, which nests.");
  t_level = make_intrusive<TangentLevel>();
  return 0;
}

void exit_dual_level(std::optional<int64_t> level) {
  TESSERA_CHECK(t_level, "Trying to exit a forward AD level, but no level is open.");
  TESSERA_CHECK(!level || *level == 0,
                "Trying to exit a forward AD level that was not the last one that was created: "
                "level ",
                level.value_or(0), " was given, but level 0 is open.");
  std::exchange(t_level, nullptr)->close();
}

int64_t current_dual_level() { return t_level ? 0 : -1; }

void check_tangent(const Tensor& tensor, const Tensor& tangent) {
  if (!tensor.is_floating_point() && !tensor.is_complex())
    throw ValueError(str_cat("Expected primal to be floating point or complex, but got: ", name_of(tensor.dtype())));
  if (!tangent.is_floating_point() && !tangent.is_complex())
    throw ValueError(str_cat("Expected tangent to be floating point or complex, but got: ", name_of(tangent.dtype())));
  TESSERA_CHECK(std::ranges::equal(tensor.sizes(), tangent.sizes()),
                "Trying to set a forward gradient that has a different size than that of the original Tensor, this is "
                "not supported. Tensor is of size ",
                shape_string(tensor.sizes()), " while the given forward gradient is of size ",
                shape_string(tangent.sizes()), ".");
  TESSERA_CHECK(tensor.dtype() == tangent.dtype(), "Expected the tangent to have the dtype of the primal, ",
                name_of(tensor.dtype()), ", but got ", name_of(tangent.dtype()),
                ". Convert it first, with tangent.to(primal.dtype).");
  TESSERA_CHECK(tensor.device() == tangent.device(),
                "Expected the tangent to be on the device of the primal: move it there first.");
}

Tensor make_dual(const Tensor& tensor, const Tensor& tangent, std::optional<int64_t> at) {
  const IntrusivePtr<TangentLevel>& level = checked_level(at, "create a dual Tensor");
  check_tangent(tensor, tangent);
  if ((is_transformed(tensor) || is_transformed(tangent)) && &internal::make_batched_dual)
    if (const Tensor dual = internal::make_batched_dual(tensor, tangent, at); dual.defined()) return dual;
  TESSERA_CHECK(tangent_level(tensor).get() != level.get(),
                "make_dual: this tensor has a tangent of the same level. Give it a new one from its primal, "
                "unpack_dual(tensor).primal.");
  TESSERA_CHECK(!tensor.is_inference() || thread_state.inference_mode,
                "make_dual: an inference tensor cannot have a tangent outside inference mode; clone it first.");
  const ExcludeKeys off(DispatchKey::kForward);
  const Tensor dual = tessera::alias(tensor);
  set_tangent(dual, tangent, level, std::ranges::equal(tensor.strides(), tangent.strides()));
  return dual;
}

UnpackedDual unpack_dual(const Tensor& tensor, std::optional<int64_t> at) {
  if (!t_level && !at) return {tensor, Tensor()};
  const IntrusivePtr<TangentLevel>& level = checked_level(at, "unpack a dual Tensor");
  if (!tensor.is_floating_point() && !tensor.is_complex()) return {tensor, Tensor()};
  if (is_transformed(tensor) && &internal::unpack_batched_dual)
    if (UnpackedDual parts = internal::unpack_batched_dual(tensor, at); parts.primal.defined()) return parts;
  if (tangent_level(tensor).get() != level.get()) return {tensor, Tensor()};
  // Not a view of the dual, whose views have tangents.
  const Tensor primal = detached(tensor);
  if (tensor.requires_grad()) {
    const ExcludeKeys off(DispatchKey::kForward);
    set_gradient_edge(primal, gradient_edge(tessera::alias(tensor)));
  }
  return {primal, tangent_of(tensor)};
}

}  // namespace tessera::autograd::forward_ad
