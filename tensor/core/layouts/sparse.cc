#include "tensor/core/layouts/sparse.h"

#include <typeinfo>

namespace tessera::sparse {

// Defined by //sparse: from the first call on, operators know sparse tensors.
[[gnu::weak]] void serve_operators();

namespace {

// Sparse tensors have no memory of their own. Asking for its address is an Error: the storage says that it has been
// larger.
const Storage& no_memory() {
  static const auto* s = [] {
    Storage made = StorageImpl::without_data(Device(), 1);
    made->resize(0);
    return new Storage(made);
  }();
  return *s;
}

Tensor plain(const Tensor& t) { return t.defined() ? Tensor(t.impl()->shallow_copy(true)) : t; }

Tensor make(Layout layout, IntList sizes, IntrusivePtr<Members> m) {
  TESSERA_CHECK(&serve_operators, "this program is not linked with //sparse: it has no sparse tensors");
  serve_operators();
  const Device device = m->values.device();
  auto impl = make_tensor_impl(no_memory(), m->values.dtype(), device, backend_key(device.type, layout));
  impl->set_layout(layout);
  impl->set_sizes_contiguous(sizes);
  impl->set_own_version(make_intrusive<VersionCounter>());
  if (inference_mode_enabled()) impl->set_inference(true);
  impl->materialize_extra().backend_meta = std::move(m);
  return Tensor(std::move(impl));
}

}  // namespace

const Members& members(const Tensor& t) {
  const ExtraMeta* extra = t.impl()->extra();
  TESSERA_CHECK(is_sparse(t) && extra && extra->backend_meta, "expected a sparse tensor, but got one of layout ",
                layout_name(t.layout()));
  const RefCounted* m = extra->backend_meta.get();
  if (typeid(*m) != typeid(Members)) {
    const auto* keeper = dynamic_cast<const MembersKeeper*>(m);
    m = keeper ? keeper->kept.get() : nullptr;
    TESSERA_CHECK(m, "expected a sparse tensor with its indices and values, but got one without");
  }
  return static_cast<const Members&>(*m);
}

Tensor make_coo(IntList sizes, const Tensor& indices, const Tensor& values, bool coalesced) {
  auto m = make_intrusive<Members>();
  m->compressed = plain(indices);
  m->values = plain(values);
  m->sparse_dim = indices.sizes()[0];
  m->coalesced = coalesced || values.sizes()[0] <= 1;
  return make(Layout::kSparseCoo, sizes, std::move(m));
}

Tensor make_compressed(Layout layout, IntList sizes, const Tensor& compressed, const Tensor& plain_indices,
                       const Tensor& values) {
  auto m = make_intrusive<Members>();
  m->compressed = plain(compressed);
  m->plain = plain(plain_indices);
  m->values = plain(values);
  m->sparse_dim = 2;
  return make(layout, sizes, std::move(m));
}

void take_members(const Tensor& t, const Tensor& other) {
  const IntrusivePtr<RefCounted> m = other.impl()->extra()->backend_meta;
  t.impl()->set_sizes_contiguous(other.sizes());
  t.impl()->set_dtype(other.dtype());
  t.impl()->materialize_extra().backend_meta = m;
}

Tensor twin(const Tensor& t, bool shares_version) { return Tensor(t.impl()->shallow_copy(shares_version)); }

}  // namespace tessera::sparse
