// Tensors whose elements are named: the members of sparse layouts, and how such tensors are made. What operators do to
// them is in //sparse; without that library no such tensor can be made.
#pragma once

#include "tensor/core/tensor.h"

namespace tessera::sparse {

// The members of a sparse tensor. Never changed: an operator that writes gives the tensor others. COO: `compressed` are
// the indices, int64 of (sparse_dim, nnz). Compressed layouts: crow or ccol indices of (batch..., n + 1), `plain` of
// (batch..., nnz), and values of (batch..., nnz, [block, block,] dense...).
struct Members final : public RefCounted {
  Tensor compressed;
  Tensor plain;
  Tensor values;
  int64_t sparse_dim = 0;
  bool coalesced = false;  // COO: in order, no duplicates
};

// What stands in the place of a tensor's members and knows them: of a fake tensor.
struct MembersKeeper : RefCounted {
  IntrusivePtr<RefCounted> kept;
};

inline bool is_coo(const Tensor& t) { return t.layout() == Layout::kSparseCoo; }
inline bool is_compressed(Layout l) { return l >= Layout::kSparseCsr && l <= Layout::kSparseBsc; }
inline bool is_compressed(const Tensor& t) { return is_compressed(t.layout()); }
inline bool is_sparse(const Tensor& t) { return t.layout() >= Layout::kSparseCoo && t.layout() <= Layout::kSparseBsc; }
inline bool has_blocks(Layout l) { return l == Layout::kSparseBsr || l == Layout::kSparseBsc; }
inline bool by_rows(Layout l) { return l == Layout::kSparseCsr || l == Layout::kSparseBsr; }

// Error unless t has the members of its layout.
const Members& members(const Tensor& t);

// Nothing is checked; the members lose their history. Error where //sparse is not linked.
Tensor make_coo(IntList sizes, const Tensor& indices, const Tensor& values, bool coalesced);
Tensor make_compressed(Layout layout, IntList sizes, const Tensor& compressed, const Tensor& plain,
                       const Tensor& values);
// t becomes what `other`, of the same layout, is: sizes, dtype and members. Counts no version.
void take_members(const Tensor& t, const Tensor& other);
// Without elements; null where //sparse is not linked. Error for layouts with blocks.
[[gnu::weak]] Tensor empty_of(Layout layout, IntList sizes, DType dtype, Device device);
// A twin with the same members and the version of its own or t's.
Tensor twin(const Tensor& t, bool shares_version);

}  // namespace tessera::sparse
