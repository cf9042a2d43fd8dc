// How sparse tensors are made and checked, and their members.
#include <algorithm>
#include <atomic>
#include <numeric>

#include "sparse/kernels.h"
#include "sparse/rules.h"
#include "sparse/sparse_kernels.h"
#include "sparse/all_ops.h"
#include "tensor/ops/create_extra.h"
#include "tensor/ops/options.h"

namespace tessera::sparse {
void serve_operators() { install_rules(); }
Tensor empty_of(Layout layout, IntList sizes, DType dtype, Device device) {
  return kernels::empty_sparse(layout, sizes, dtype, device);
}
}  // namespace tessera::sparse

namespace tessera::kernels {

const char* shown(Layout l) {
  constexpr const char* kNames[] = {"Strided", "Sparse", "SparseCsr", "SparseCsc", "SparseBsr", "SparseBsc"};
  return is_compressed(l) || l <= Layout::kSparseCoo ? kNames[static_cast<int>(l)] : layout_name(l);
}

void check_coo(const Tensor& t, const char* function) {
  TESSERA_CHECK(is_coo(t), function, " expected sparse coordinate tensor layout but got ", shown(t.layout()));
}

Tensor numbers(const Tensor& indices) {
  ExcludeKeys no_history(kAutogradKeys);
  TESSERA_CHECK_NOT_IMPLEMENTED(indices.is_cpu(), "sparse tensors on ", indices.device().str(),
                                " are not supported by this operator: move them to the CPU");
  return contiguous(to(indices, DType::kInt64));
}

namespace {

std::atomic<bool> g_check{false};

void check_index_dtype(const Tensor& t, const char* name) {
  TESSERA_CHECK(t.dtype() == DType::kInt64 || t.dtype() == DType::kInt32, name, " must be int32 or int64, but got ",
                name_of(t.dtype()));
}

// What has to fit whatever the numbers in the indices are.
void check_coo_shape(const Tensor& indices, const Tensor& values, IntList size) {
  TESSERA_CHECK(indices.dim() == 2, "indices must be sparse_dim x nnz, but got: ", shape_string(indices.sizes()));
  TESSERA_CHECK(values.layout() == Layout::kStrided, "expected values to be a strided tensor, but got layout ",
                shown(values.layout()));
  TESSERA_CHECK(values.dim() > 0, "values must have a dimension for the specified elements, but got a 0-dim tensor");
  TESSERA_CHECK(indices.size(1) == values.size(0),
                "indices and values must have same nnz, but got nnz from indices: ", indices.size(1),
                ", nnz from values: ", values.size(0));
  const int64_t sparse_dim = indices.size(0), dense_dim = values.dim() - 1;
  TESSERA_CHECK(sparse_dim + dense_dim == static_cast<int64_t>(size.size()),
                "number of dimensions must be sparse_dim (", sparse_dim, ") + dense_dim (", dense_dim, "), but got ",
                size.size());
  const IntVector expected = joined_sizes(IntVector{values.size(0)}, size.subspan(static_cast<size_t>(sparse_dim)));
  TESSERA_CHECK(std::ranges::equal(expected, values.sizes()), "values has incorrect size, expected ",
                shape_string(expected), ", got ", shape_string(values.sizes()));
  TESSERA_CHECK(indices.device() == values.device(), "device of indices (", indices.device().str(),
                ") must match device of values (", values.device().str(), ")");
  checked_numel(size);
}

void check_order(const Tensor& places) {
  const int64_t* p = places.data<int64_t>();
  for (int64_t i = 1; i < places.numel(); ++i)
    TESSERA_CHECK(p[i - 1] < p[i],
                  "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor: element ", i,
                  " is not behind the one before it");
}

struct CompressedShape {
  Layout layout;
  int64_t batch, dense;                  // numbers of dimensions
  int64_t block[2], lines, across, nnz;  // lines: of the compressed dimension, in blocks; across: of the other one
};

const char* compressed_name(Layout l) { return by_rows(l) ? "crow_indices" : "ccol_indices"; }
const char* plain_name(Layout l) { return by_rows(l) ? "col_indices" : "row_indices"; }

CompressedShape check_compressed_shape(const Tensor& compressed, const Tensor& plain, const Tensor& values,
                                       IntList size, Layout layout) {
  TESSERA_CHECK(is_compressed(layout), "expected layout SparseCsr, SparseCsc, SparseBsr, or SparseBsc but got ",
                shown(layout));
  const char *cname = compressed_name(layout), *pname = plain_name(layout);
  const int64_t block_dims = has_blocks(layout) ? 2 : 0;
  for (const Tensor* t : {&compressed, &plain, &values})
    TESSERA_CHECK(t->layout() == Layout::kStrided, "expected members to be strided tensors, but got layout ",
                  shown(t->layout()));
  TESSERA_CHECK(compressed.dim() >= 1, cname, " must have dimensionality >= 1 but got ", compressed.dim());
  TESSERA_CHECK(plain.dim() == compressed.dim(), cname, " and ", pname, " dimensionalities must be equal but got ",
                compressed.dim(), " and ", plain.dim(), ", respectively");
  CompressedShape s{layout, compressed.dim() - 1, 0, {1, 1}, 0, 0, plain.size(-1)};
  s.dense = values.dim() - s.batch - block_dims - 1;
  TESSERA_CHECK(s.dense >= 0, "values must have dimensionality > sum of batch and block dimensionalities (=", s.batch,
                " + ", block_dims, ") but got ", values.dim());
  TESSERA_CHECK(static_cast<int64_t>(size.size()) == s.batch + 2 + s.dense,
                "tensor dimensionality must be sum of batch, base, and dense dimensionalities (=", s.batch, " + 2 + ",
                s.dense, ") but got ", size.size());
  const auto batch = size.first(static_cast<size_t>(s.batch));
  for (const Tensor* t : {&compressed, &plain, &values})
    TESSERA_CHECK(std::ranges::equal(t->sizes().first(static_cast<size_t>(s.batch)), batch), "all batch dimensions of ",
                  cname, " (=", shape_string(compressed.sizes()), "), ", pname, " (=", shape_string(plain.sizes()),
                  "), and values (=", shape_string(values.sizes()),
                  ") must be equal to tensor batch dimensions (=", shape_string(batch), ")");
  TESSERA_CHECK(values.size(s.batch) == s.nnz, pname, " and values must have the same number of elements but got ",
                s.nnz, " and ", values.size(s.batch));
  for (int k = 0; k < 2; ++k) {
    const int64_t n = size[static_cast<size_t>(s.batch + k)];
    if (block_dims) s.block[k] = values.size(s.batch + 1 + k);
    TESSERA_CHECK(s.block[k] > 0 && n % s.block[k] == 0, "tensor shape[", s.batch + k, "] (=", n,
                  ") must be divisible with blocksize[", k, "] (=", s.block[k], ") as defined by values shape");
    (by_rows(layout) == (k == 0) ? s.lines : s.across) = n / s.block[k];
  }
  TESSERA_CHECK(std::ranges::equal(values.sizes().subspan(static_cast<size_t>(s.batch + 1 + block_dims)),
                                   size.subspan(static_cast<size_t>(s.batch + 2))),
                "values dense dimensions ", shape_string(values.sizes()), " must be equal to those of the size ",
                shape_string(size));
  TESSERA_CHECK(compressed.size(-1) == s.lines + 1, cname, ".shape[-1] must be equal to the number of ",
                by_rows(layout) ? "rows" : "columns", " + 1 (=", s.lines + 1, "), but got ", compressed.size(-1));
  TESSERA_CHECK(compressed.device() == values.device() && plain.device() == values.device(),
                "members must be on one device, but got ", compressed.device().str(), ", ", plain.device().str(),
                " and ", values.device().str());
  checked_numel(size);
  return s;
}

void check_compressed_numbers(const Tensor& compressed, const Tensor& plain, const CompressedShape& s) {
  const char *cname = compressed_name(s.layout), *pname = plain_name(s.layout);
  const Tensor c = numbers(compressed), p = numbers(plain);
  const int64_t matrices = s.lines + 1 == 0 ? 0 : c.numel() / (s.lines + 1);
  for (int64_t b = 0; b < matrices; ++b) {
    const int64_t *at = c.data<int64_t>() + b * (s.lines + 1), *place = p.data<int64_t>() + b * s.nnz;
    TESSERA_CHECK(at[0] == 0, "`", cname, "[..., 0] == 0` is not satisfied: it is ", at[0]);
    TESSERA_CHECK(at[s.lines] == s.nnz, "`", cname, "[..., -1] == nnz` is not satisfied: it is ", at[s.lines],
                  ", nnz is ", s.nnz);
    for (int64_t i = 0; i < s.lines; ++i) {
      const int64_t n = at[i + 1] - at[i];
      TESSERA_CHECK(n >= 0 && n <= s.across && at[i + 1] <= s.nnz, "`0 <= ", cname, "[..., 1:] - ", cname,
                    "[..., :-1] <= ", s.across, "` is not satisfied at ", i, ": the difference is ", n);
      for (int64_t k = at[i]; k < at[i + 1]; ++k) {
        TESSERA_CHECK(place[k] >= 0 && place[k] < s.across, "`0 <= ", pname, " < ",
                      by_rows(s.layout) ? "ncols" : "nrows", "` is not satisfied: element ", k, " is ", place[k],
                      " of ", s.across);
        TESSERA_CHECK(k == at[i] || place[k - 1] < place[k], "`", pname, "[..., ", cname, "[..., i - 1]:", cname,
                      "[..., i]] for all i = 1, ..., ", s.lines,
                      " are sorted and distinct along the last dimension values` is not satisfied at element ", k);
      }
    }
  }
}

Tensor as(const Tensor& t, std::optional<DType> dtype, std::optional<Device> device) {
  const DType d = dtype.value_or(t.dtype());
  const Device at = factory_device(device ? *device : t.device());
  return d == t.dtype() && at == t.device() ? t : to(t, at, d);
}
Tensor index_for(const Tensor& t, const Tensor& values, bool keep) {
  const DType d = keep && t.dtype() == DType::kInt32 ? DType::kInt32 : DType::kInt64;
  TESSERA_CHECK(t.layout() == Layout::kStrided, "expected indices to be a strided tensor, but got layout ",
                shown(t.layout()));
  return d == t.dtype() && t.device() == values.device() ? t : to(t, values.device(), d);
}

}  // namespace

bool switch_invariants(std::optional<bool> check) { return check ? g_check.exchange(*check) : g_check.load(); }

void validate_coo(const Tensor& indices, const Tensor& values, IntList size, std::optional<bool> is_coalesced,
                  std::optional<bool>) {
  check_coo_shape(indices, values, size);
  if (indices.is_meta()) return;
  const Tensor n = numbers(indices);
  const int64_t sparse_dim = n.size(0), nnz = n.size(1);
  const int64_t* p = n.data<int64_t>();
  for (int64_t d = 0; d < sparse_dim; ++d)
    for (int64_t k = 0; k < nnz; ++k) {
      const int64_t at = p[d * nnz + k];
      TESSERA_CHECK(at >= 0, "found negative index ", at, " for dim ", d);
      TESSERA_CHECK(at < size[static_cast<size_t>(d)], "size is inconsistent with indices: for dim ", d, ", size is ",
                    size[static_cast<size_t>(d)], " but found index ", at);
    }
  if (is_coalesced.value_or(false)) check_order(flat_places(n, size.first(static_cast<size_t>(sparse_dim))));
}

void validate_compressed(const Tensor& compressed, const Tensor& plain, const Tensor& values, IntList size,
                         Layout layout, std::optional<bool>) {
  const CompressedShape s = check_compressed_shape(compressed, plain, values, size, layout);
  check_index_dtype(compressed, compressed_name(layout));
  TESSERA_CHECK(compressed.dtype() == plain.dtype(), compressed_name(layout), " and ", plain_name(layout),
                " must have the same dtype, but got ", name_of(compressed.dtype()), " and ", name_of(plain.dtype()));
  if (!values.is_meta()) check_compressed_numbers(compressed, plain, s);
}

Tensor _sparse_coo_of_kernel(const Tensor& indices, const Tensor& values, SymIntList size, bool is_coalesced) {
  check_coo_shape(indices, values, size.ints());
  return make_coo(size.ints(), indices, values, is_coalesced);
}
Tensor _sparse_compressed_of_kernel(const Tensor& compressed, const Tensor& plain, const Tensor& values,
                                    SymIntList size, Layout layout) {
  check_compressed_shape(compressed, plain, values, size.ints(), layout);
  return make_compressed(layout, size.ints(), compressed, plain, values);
}

Tensor coo_of_size(SymIntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                   std::optional<Device> device, std::optional<bool> pin) {
  TESSERA_CHECK(layout.value_or(Layout::kSparseCoo) == Layout::kSparseCoo, "sparse_coo_tensor: expected layout ",
                "torch.sparse_coo, but got torch.", layout_name(*layout));
  TESSERA_CHECK(!pin.value_or(false), "sparse_coo_tensor: only tensors with elements can be pinned");
  return empty_sparse(Layout::kSparseCoo, size.ints(), factory_dtype(dtype), factory_device(device));
}

Tensor coo_unchecked(const Tensor& indices, const Tensor& values, SymIntList size, std::optional<DType> dtype,
                     std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin,
                     std::optional<bool> is_coalesced) {
  TESSERA_CHECK(layout.value_or(Layout::kSparseCoo) == Layout::kSparseCoo, "sparse_coo_tensor: expected layout ",
                "torch.sparse_coo, but got torch.", layout_name(*layout));
  const Tensor v = options::pinned(as(values, dtype, device), pin);
  return _sparse_coo_of(options::pinned(index_for(indices, v, false), pin), v, size, is_coalesced.value_or(false));
}
Tensor coo_checked(const Tensor& indices, const Tensor& values, SymIntList size, std::optional<DType> dtype,
                   std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin,
                   std::optional<bool> is_coalesced) {
  if (values.dim() == 0)
    return coo_checked(indices, unsqueeze(values, 0), size, dtype, layout, device, pin, is_coalesced);
  if (g_check) validate_coo(indices, values, size.ints(), is_coalesced, std::nullopt);
  return coo_unchecked(indices, values, size, dtype, layout, device, pin, is_coalesced);
}
Tensor coo_inferred(const Tensor& indices, const Tensor& values, std::optional<DType> dtype,
                    std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin,
                    std::optional<bool> is_coalesced) {
  TESSERA_CHECK(indices.dim() == 2, "indices must be sparse_dim x nnz, but got: ", shape_string(indices.sizes()));
  if (values.dim() == 0) return coo_inferred(indices, unsqueeze(values, 0), dtype, layout, device, pin, is_coalesced);
  const Tensor n = numbers(indices);
  IntVector size;
  const int64_t nnz = n.size(1);
  for (int64_t d = 0; d < n.size(0); ++d) {
    const int64_t* p = n.data<int64_t>() + d * nnz;
    int64_t most = -1;
    for (int64_t k = 0; k < nnz; ++k) {
      TESSERA_CHECK(p[k] >= 0, "found negative index ", p[k], " for dim ", d);
      most = std::max(most, p[k]);
    }
    size.push_back(most + 1);
  }
  for (int64_t s : values.sizes().subspan(1)) size.push_back(s);
  return coo_checked(indices, values, IntList(size), dtype, layout, device, pin, is_coalesced);
}

Tensor compressed_unchecked(const Tensor& compressed, const Tensor& plain, const Tensor& values, SymIntList size,
                            std::optional<DType> dtype, std::optional<Layout> layout, std::optional<Device> device,
                            std::optional<bool> pin) {
  TESSERA_CHECK(layout, "sparse_compressed_tensor expected sparse compressed tensor layout but got none");
  const Tensor v = options::pinned(as(values, dtype, device), pin);
  const bool keep = compressed.dtype() == plain.dtype();
  return _sparse_compressed_of(options::pinned(index_for(compressed, v, keep), pin),
                               options::pinned(index_for(plain, v, keep), pin), v, size, *layout);
}
Tensor compressed_checked(const Tensor& compressed, const Tensor& plain, const Tensor& values, SymIntList size,
                          std::optional<DType> dtype, std::optional<Layout> layout, std::optional<Device> device,
                          std::optional<bool> pin) {
  TESSERA_CHECK(layout, "sparse_compressed_tensor expected sparse compressed tensor layout but got none");
  if (g_check) validate_compressed(compressed, plain, values, size.ints(), *layout, std::nullopt);
  return compressed_unchecked(compressed, plain, values, size, dtype, layout, device, pin);
}
Tensor compressed_inferred(const Tensor& compressed, const Tensor& plain, const Tensor& values,
                           std::optional<DType> dtype, std::optional<Layout> layout, std::optional<Device> device,
                           std::optional<bool> pin) {
  TESSERA_CHECK(layout && is_compressed(*layout),
                "sparse_compressed_tensor expected sparse compressed tensor layout but got ",
                layout ? shown(*layout) : "none");
  const int64_t batch = compressed.dim() - 1, block_dims = has_blocks(*layout) ? 2 : 0;
  TESSERA_CHECK(batch >= 0 && values.dim() > batch + block_dims, "cannot infer the size from members of shapes ",
                shape_string(compressed.sizes()), " and ", shape_string(values.sizes()));
  const Tensor n = numbers(plain);
  int64_t across = 0;
  for (int64_t k = 0; k < n.numel(); ++k) across = std::max(across, n.data<int64_t>()[k] + 1);
  int64_t height = compressed.size(-1) - 1, width = across;
  if (!by_rows(*layout)) std::swap(height, width);
  IntVector size = part(compressed.sizes(), 0, batch);
  size.push_back(height * (block_dims ? values.size(batch + 1) : 1));
  size.push_back(width * (block_dims ? values.size(batch + 2) : 1));
  for (int64_t s : values.sizes().subspan(static_cast<size_t>(batch + 1 + block_dims))) size.push_back(s);
  return compressed_checked(compressed, plain, values, IntList(size), dtype, layout, device, pin);
}

Tensor empty_sparse(Layout layout, IntList sizes, DType dtype, Device device, int64_t sparse_dim, IntList blocks,
                    DType index_dtype) {
  const int64_t rank = static_cast<int64_t>(sizes.size());
  checked_numel(sizes);
  if (layout == Layout::kSparseCoo) {
    const int64_t sparse = sparse_dim < 0 ? rank : sparse_dim;
    return make_coo(
        sizes, make_filled(IntVector{sparse, 0}, Scalar(0), DType::kInt64, device),
        make_filled(joined_sizes(IntVector{0}, sizes.subspan(static_cast<size_t>(sparse))), Scalar(0), dtype, device),
        true);
  }
  TESSERA_CHECK(rank >= 2, "a tensor of layout ", shown(layout), " has two dimensions at least, but the size is ",
                shape_string(sizes));
  TESSERA_CHECK(!has_blocks(layout) || blocks.size() == 2,
                "empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got ", shown(layout));
  const int64_t batch = sparse_dim < 0 ? rank - 2 : sparse_dim;  // here: the number of batch dimensions
  const int64_t line = batch + (by_rows(layout) ? 0 : 1);
  const int64_t block = has_blocks(layout) ? blocks[by_rows(layout) ? 0 : 1] : 1;
  IntVector c = part(sizes, 0, batch), p = c, v = c;
  c.push_back(sizes[static_cast<size_t>(line)] / block + 1);
  p.push_back(0);
  v.push_back(0);
  if (has_blocks(layout)) v.insert(v.end(), blocks.begin(), blocks.end());
  for (int64_t s : sizes.subspan(static_cast<size_t>(batch + 2))) v.push_back(s);
  return make_compressed(layout, sizes, make_filled(c, Scalar(0), index_dtype, device),
                         make_filled(p, Scalar(0), index_dtype, device), make_filled(v, Scalar(0), dtype, device));
}
Tensor coo_zeros(std::initializer_list<int64_t> sizes, const Tensor& like) {
  return empty_sparse(Layout::kSparseCoo, IntVector(sizes), like.dtype(), like.device());
}

Tensor with_values(const Tensor& t, const Tensor& values) {
  const Members& m = members(t);
  return is_coo(t) ? make_coo(t.sizes(), m.compressed, values, m.coalesced)
                   : make_compressed(t.layout(), t.sizes(), m.compressed, m.plain, values);
}

std::array<int64_t, 2> blocks_of(const Tensor& t) {
  if (!has_blocks(t.layout())) return {1, 1};
  const Members& m = members(t);
  const int64_t batch = m.compressed.dim() - 1;
  return {m.values.size(batch + 1), m.values.size(batch + 2)};
}
int64_t batch_dims(const Tensor& compressed) { return members(compressed).compressed.dim() - 1; }

// --- members

int64_t nnz_of(const Tensor& self) {
  TESSERA_CHECK(is_sparse(self), "_nnz expected sparse tensor layout but got ", shown(self.layout()));
  const Members& m = members(self);
  return is_coo(self) ? m.values.size(0) : m.plain.size(-1);
}
int64_t sparse_dim_of(const Tensor& self) { return is_sparse(self) ? members(self).sparse_dim : 0; }
int64_t dense_dim_of(const Tensor& self) {
  if (!is_sparse(self)) return self.dim();
  return self.dim() - members(self).sparse_dim - (is_coo(self) ? 0 : batch_dims(self));
}
bool coalesced_flag(const Tensor& self) {
  check_coo(self, "is_coalesced");
  return members(self).coalesced;
}
const Tensor& _coalesced__kernel(const Tensor& self, bool coalesced) {
  check_coo(self, "_coalesced_");
  const Members& m = members(self);
  const Tensor flagged = make_coo(self.sizes(), m.compressed, m.values, coalesced);
  const_cast<Members&>(members(flagged)).coalesced = coalesced;  // nobody else has these yet; false of one element, too
  sparse::take_members(self, flagged);
  return self;
}

namespace {
// A tensor of its own, so that history can be given to it.
Tensor lent(const Tensor& t) { return Tensor(t.impl()->shallow_copy(true)); }
Tensor compressed_member(const Tensor& self, const char* name, bool rows, bool pointers) {
  TESSERA_CHECK(is_compressed(self) && by_rows(self.layout()) == rows, name, " expected sparse ",
                rows ? "row" : "column", " compressed tensor layout but got ", shown(self.layout()));
  return lent(pointers ? members(self).compressed : members(self).plain);
}
void check_is_coalesced(const Tensor& self, const char* what) {
  TESSERA_CHECK(members(self).coalesced, "Cannot get ", what,
                " on an uncoalesced tensor, please call .coalesce() first");
}
}  // namespace

Tensor _indices_kernel(const Tensor& self) {
  check_coo(self, "_indices");
  return lent(members(self).compressed);
}
Tensor _values_kernel(const Tensor& self) {
  check_coo(self, "_values");
  return lent(members(self).values);
}
Tensor indices_kernel(const Tensor& self) {
  check_coo(self, "indices");
  check_is_coalesced(self, "indices");
  return lent(members(self).compressed);
}
Tensor values_kernel(const Tensor& self) {
  TESSERA_CHECK(is_sparse(self), "values expected sparse tensor layout but got ", shown(self.layout()));
  if (is_coo(self)) check_is_coalesced(self, "values");
  return lent(members(self).values);
}
Tensor crow_indices_kernel(const Tensor& self) { return compressed_member(self, "crow_indices", true, true); }
Tensor col_indices_kernel(const Tensor& self) { return compressed_member(self, "col_indices", true, false); }
Tensor ccol_indices_kernel(const Tensor& self) { return compressed_member(self, "ccol_indices", false, true); }
Tensor row_indices_kernel(const Tensor& self) { return compressed_member(self, "row_indices", false, false); }

// --- in place

namespace {
void check_resize(const Tensor& self, IntList size, int64_t sparse_dim, int64_t dense_dim) {
  check_coo(self, "sparse_resize_");
  TESSERA_CHECK(sparse_dim >= 0 && dense_dim >= 0 && sparse_dim + dense_dim == static_cast<int64_t>(size.size()),
                "number of dimensions must be sparse_dim (", sparse_dim, ") + dense_dim (", dense_dim, "), but got ",
                size.size());
  checked_numel(size);
}
}  // namespace

const Tensor& sparse_resize__kernel(const Tensor& self, IntList size, int64_t sparse_dim, int64_t dense_dim) {
  check_resize(self, size, sparse_dim, dense_dim);
  const Members& m = members(self);
  const int64_t nnz = nnz_of(self), had_dense = self.dim() - m.sparse_dim;
  if (nnz == 0) {
    sparse::take_members(self, empty_sparse(Layout::kSparseCoo, size, self.dtype(), self.device(), sparse_dim));
    return self;
  }
  TESSERA_CHECK(sparse_dim == m.sparse_dim, "changing the number of sparse dimensions (from ", m.sparse_dim, " to ",
                sparse_dim, ") on a non-empty sparse tensor is not supported.");
  TESSERA_CHECK(dense_dim == had_dense, "changing the number of dense dimensions (from ", had_dense, " to ", dense_dim,
                ") on a non-empty sparse tensor is not supported.");
  const IntList old = self.sizes();
  for (int64_t d = 0; d < self.dim(); ++d)
    TESSERA_CHECK(size[static_cast<size_t>(d)] >= old[static_cast<size_t>(d)], "shrinking the size of ",
                  d < sparse_dim ? "sparse" : "dense", " dimensions (from ", shape_string(old), " to ",
                  shape_string(size), ") on a non-empty sparse tensor is not supported.");
  const IntVector rows = joined_sizes(IntVector{nnz}, size.subspan(static_cast<size_t>(sparse_dim)));
  Tensor values = m.values;
  if (!std::ranges::equal(rows, values.sizes())) {
    values = make_filled(rows, Scalar(0), self.dtype(), self.device());
    // In the order of memory, as resize_ of strided tensors.
    copy_(narrow(reshape(values, {-1}), 0, 0, m.values.numel()), reshape(m.values, {-1}));
  }
  sparse::take_members(self, make_coo(size, m.compressed, values, m.coalesced));
  return self;
}
const Tensor& sparse_resize_and_clear__kernel(const Tensor& self, IntList size, int64_t sparse_dim, int64_t dense_dim) {
  check_resize(self, size, sparse_dim, dense_dim);
  sparse::take_members(self, empty_sparse(Layout::kSparseCoo, size, self.dtype(), self.device(), sparse_dim));
  return self;
}
const Tensor& resize_as_sparse__kernel(const Tensor& self, const Tensor& the_template) {
  TESSERA_CHECK(is_sparse(self) && self.layout() == the_template.layout(),
                "resize_as_sparse_: self and src must have the same sparse layout, but got ", shown(self.layout()),
                " and ", shown(the_template.layout()));
  if (is_coo(self)) {
    if (!std::ranges::equal(self.sizes(), the_template.sizes()) || sparse_dim_of(self) != sparse_dim_of(the_template))
      sparse_resize__kernel(self, the_template.sizes(), sparse_dim_of(the_template), dense_dim_of(the_template));
    return self;
  }
  const Tensor like = copied(the_template);
  sparse::take_members(self, with_values(like, to(members(like).values, self.dtype())));
  return self;
}
const Tensor& copy_sparse_to_sparse__kernel(const Tensor& self, const Tensor& src, bool) {
  TESSERA_CHECK(is_sparse(self) && is_sparse(src), "copy_sparse_to_sparse_: expected two sparse tensors, but got ",
                shown(self.layout()), " and ", shown(src.layout()));
  if (!self.is_same(src)) write_sparse(self, copied(src));
  return self;
}

// --- diagonals

Tensor spdiags(const Tensor& diagonals, const Tensor& offsets, SymIntList shape, std::optional<Layout> layout) {
  const Tensor d = diagonals.dim() == 1 ? unsqueeze(diagonals, 0) : diagonals;
  const Tensor o = offsets.dim() == 0 ? unsqueeze(offsets, 0) : offsets;
  const Layout as = layout.value_or(Layout::kSparseCoo);
  TESSERA_CHECK(d.dim() == 2, "Diagonals must be vector or matrix, but got ", diagonals.dim(), " dimensions");
  TESSERA_CHECK(shape.size() == 2, "Output shape must be 2d, but got ", shape.size(), " dimensions");
  TESSERA_CHECK(o.dim() == 1, "Offsets must be scalar or vector, but got ", offsets.dim(), " dimensions");
  TESSERA_CHECK(d.size(0) == o.size(0), "Number of diagonals (", d.size(0), ") does not match the number of offsets (",
                o.size(0), ")");
  TESSERA_CHECK(as == Layout::kSparseCoo || as == Layout::kSparseCsr || as == Layout::kSparseCsc,
                "Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got ", shown(as));
  TESSERA_CHECK(o.dtype() == DType::kInt64, "Offset Tensor must have dtype Long but got ", type_name_of(o.dtype()));
  const Tensor list = numbers(o);
  IntVector seen(list.data<int64_t>(), list.data<int64_t>() + list.numel());
  std::sort(seen.begin(), seen.end());
  TESSERA_CHECK(std::adjacent_find(seen.begin(), seen.end()) == seen.end(), "Offset tensor contains duplicate values");
  const int64_t height = shape.ints()[0], width = shape.ints()[1], length = d.size(1);
  const auto range = [&](int64_t offset) {  // columns of a diagonal
    const bool inside = offset < width && offset > -height;
    const int64_t first = std::max<int64_t>(0, offset);
    return std::pair(first, inside ? std::max(first, std::min({length, width, height + offset})) : first);
  };
  const int64_t count = list.numel();
  std::vector<Tensor> parts{narrow(reshape(d, {-1}), 0, 0, 0)};
  for (int64_t k = 0; k < count; ++k) {
    const auto [first, last] = range(list.data<int64_t>()[k]);
    if (last > first) parts.push_back(narrow(select(d, 0, k), 0, first, last - first));
  }
  const Tensor values = parts.size() == 1 ? parts[0] : cat(parts);
  const int64_t nnz = values.numel();
  const Tensor indices = empty_kernel(IntVector{2, nnz}, DType::kInt64);
  int64_t *rows = indices.data<int64_t>(), *columns = rows + nnz;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t offset = list.data<int64_t>()[k];
    const auto [first, last] = range(offset);
    std::iota(rows, rows + (last - first), first - offset);
    std::iota(columns, columns + (last - first), first);
    rows += last - first;
    columns += last - first;
  }
  const Tensor r = _sparse_coo_of(indices, values, shape, false);
  return as == Layout::kSparseCoo ? r : to_sparse_any(r, as, std::nullopt, std::nullopt);
}

}  // namespace tessera::kernels
