#include "func/wrapper.h"

namespace tessera::func {
namespace {

// Wrappers have no memory. Asking for its address is an Error: the storage says that it has been larger.
const Storage& no_memory() {
  static const Storage* s = [] {
    Storage made = StorageImpl::without_data(Device(), 1);
    made->resize(0);
    return new Storage(std::move(made));
  }();
  return *s;
}

constexpr DispatchKeySet kLazyBits = DispatchKeySet(DispatchKey::kConjugate) | DispatchKey::kNegative;

}  // namespace

WrapperImpl::WrapperImpl(Tensor value, int64_t level, int64_t batch_dim, DispatchKeySet keys)
    : TensorImpl(no_memory(), value.dtype(), value.device(), keys | (value.keys() & kLazyBits)),
      value_(std::move(value)),
      level_(level),
      batch_dim_(batch_dim) {
  set_layout(value_.layout());
  set_wrapped_number(value_.impl()->is_wrapped_number());
  refresh();
}

void WrapperImpl::refresh() {
  if (!is_batched()) {
    set_shape_of(*value_.impl());
  } else {
    IntVector sizes(value_.sizes().begin(), value_.sizes().end()),
        strides(value_.strides().begin(), value_.strides().end());
    sizes.erase(sizes.begin() + batch_dim_);
    strides.erase(strides.begin() + batch_dim_);
    set_sizes_and_strides(sizes, strides);
  }
  set_storage_offset(value_.storage_offset());
}

void WrapperImpl::set_value(Tensor value, int64_t batch_dim) {
  value_ = std::move(value);
  batch_dim_ = batch_dim;
  set_dtype(value_.dtype());
  refresh();
}

IntrusivePtr<TensorImpl> WrapperImpl::shallow_copy(bool shares_version) const {
  auto copy = make_intrusive<WrapperImpl>(value_, level_, batch_dim_,
                                          keys() - kAutogradKeys - kLazyBits - DispatchKey::kForward);
  copy->number_ = number_;
  copy->part_ = part_;
  copy->set_own_version(shares_version && own_version() ? own_version() : make_intrusive<VersionCounter>());
  return copy;
}

void WrapperImpl::take_contents_of(const TensorImpl& other) {
  const bool wraps = is_transformed(other.keys()) || other.keys().has(DispatchKey::kFunctionalize);
  const auto* w = wraps ? static_cast<const WrapperImpl*>(&other) : nullptr;
  TESSERA_CHECK(w && w->level() == level_ && w->is_batched() == is_batched(),
                "the data of a tensor inside of a function transform can only be set to that of another tensor of the "
                "same transform; return the new value from the function instead");
  part_ = w->part_;
  number_ = w->number_;
  set_value(w->value(), w->batch_dim());
}

Tensor make_batched(const Tensor& value, int64_t batch_dim, int64_t level) {
  TESSERA_CHECK(batch_dim >= 0 && batch_dim < value.dim(), "vmap: a tensor of ", value.dim(),
                " dimensions has no batch in dimension ", batch_dim);
  auto impl = make_intrusive<WrapperImpl>(value, level, batch_dim, DispatchKey::kFuncTorchBatched);
  impl->set_own_version(make_intrusive<VersionCounter>());
  if (has_history(value)) impl->set_requires_grad(true);  // composite operators ask
  return Tensor(std::move(impl));
}
Tensor make_tracked(const Tensor& value, int64_t level) {
  const DispatchKey key = level == kAtKey ? DispatchKey::kFunctionalize : DispatchKey::kFuncTorchGradWrapper;
  auto impl = make_intrusive<WrapperImpl>(value, level, -1, key);
  impl->set_own_version(make_intrusive<VersionCounter>());
  return Tensor(std::move(impl));
}

Tensor without_dead(const Tensor& t) {
  Tensor r = t;
  for (WrapperImpl* w = wrapper_of(r); w && !find_level(w->level()); w = wrapper_of(r)) r = Tensor(w->value());
  return r;
}
Tensor innermost(const Tensor& t) {
  Tensor r = t;
  for (WrapperImpl* w = wrapper_of(r); w; w = wrapper_of(r)) r = Tensor(w->value());
  return r;
}

namespace {
// f(tensor) for it and for what it wraps, until it is true.
template <class F>
bool any_layer(const Tensor& t, F f) {
  for (const Tensor* r = &t; r->defined();) {
    if (f(*r)) return true;
    WrapperImpl* w = wrapper_of(*r);
    if (!w) return false;
    r = &w->value();
  }
  return false;
}
}  // namespace

bool has_history(const Tensor& t) {
  return any_layer(t, [](const Tensor& layer) { return layer.requires_grad(); });
}
bool has_tangent(const Tensor& t) {
  return any_layer(t, [](const Tensor& layer) { return layer.keys().has(DispatchKey::kForward); });
}

}  // namespace tessera::func
