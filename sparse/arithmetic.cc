// Sums, elementwise products, masks, and changes of shape.
#include <algorithm>
#include <numeric>

#include "sparse/all_ops.h"
#include "sparse/cpu/group.h"
#include "sparse/kernels.h"
#include "sparse/sparse_kernels.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

Tensor cast(const Tensor& t, DType d) {
  return t.dtype() == d ? t : is_sparse(t) ? with_values(t, to(members(t).values, d)) : to(t, d);
}

DType common_dtype(const Tensor& a, const Tensor& b) { return result_type(a, b); }

bool same_pattern(const Tensor& a, const Tensor& b) {
  const Members &x = members(a), &y = members(b);
  return std::ranges::equal(x.values.sizes(), y.values.sizes()) &&
         (!a.is_meta() || x.compressed.is_same(y.compressed)) &&
         (x.compressed.is_same(y.compressed) || equal(x.compressed, y.compressed)) &&
         (!x.plain.defined() || x.plain.is_same(y.plain) || equal(x.plain, y.plain));
}

IntList outer_sizes(const Tensor& coo) { return coo.sizes().first(static_cast<size_t>(members(coo).sparse_dim)); }
Tensor keys_of(const Tensor& coo) { return flat_places(members(coo).compressed, outer_sizes(coo)); }
Tensor number_list(const IntVector& v) {
  const Tensor t = empty_kernel(IntVector{static_cast<int64_t>(v.size())}, DType::kInt64);
  std::copy(v.begin(), v.end(), t.data<int64_t>());
  return t;
}
// Rows of a matrix of indices, wherever it lies.
Tensor rows_of(const Tensor& indices, const IntVector& rows) {
  return index_select(indices, 0, to(number_list(rows), indices.device(), DType::kInt64));
}

void check_same_size(const char* name, const Tensor& a, const Tensor& b) {
  TESSERA_CHECK(std::ranges::equal(a.sizes(), b.sizes()), name, ": expected sizes of 'self' and 'other' to match, but ",
                shape_string(a.sizes()), " != ", shape_string(b.sizes()));
}

Tensor coo_sum(const Tensor& a, const Tensor& b) {
  const Members &x = members(a), &y = members(b);
  if (nnz_of(b) == 0) return a;
  if (nnz_of(a) == 0) return b;
  const std::vector<Tensor> indices{x.compressed, y.compressed}, values{x.values, y.values};
  if (same_pattern(a, b)) return with_values(x.coalesced ? b : a, add(x.values, y.values));
  const Tensor both = make_coo(a.sizes(), cat(indices, 1), cat(values), false);
  return x.coalesced && y.coalesced ? coalesced(both) : both;
}

// The places of equal keys in two ascending lists.
void intersect(const Tensor& a, const Tensor& b, IntVector& in_a, IntVector& in_b) {
  const int64_t *p = a.data<int64_t>(), *q = b.data<int64_t>();
  for (int64_t i = 0, j = 0; i < a.numel() && j < b.numel();) {
    if (p[i] == q[j]) {
      in_a.push_back(i++);
      in_b.push_back(j++);
    } else if (p[i] < q[j]) {
      ++i;
    } else {
      ++j;
    }
  }
}

Tensor coo_intersection(const Tensor& a, const Tensor& b) {
  TESSERA_CHECK(
      a.dim() == b.dim() && members(a).sparse_dim == members(b).sparse_dim &&
          std::ranges::equal(outer_sizes(a), outer_sizes(b)),
      "mul: expects sparse inputs with equal dimensionality, number of sparse dimensions, and shape of sparse "
      "dimensions, but got shapes ",
      shape_string(a.sizes()), " and ", shape_string(b.sizes()));
  if (a.is_meta())
    return empty_sparse(Layout::kSparseCoo, a.sizes(), common_dtype(a, b), a.device(), members(a).sparse_dim);
  const Tensor x = coalesced(a), y = coalesced(b);
  IntVector in_a, in_b;
  intersect(keys_of(x), keys_of(y), in_a, in_b);
  const Tensor at = number_list(in_a), other = number_list(in_b);
  const Tensor values = mul(index_select(members(x).values, 0, at), index_select(members(y).values, 0, other));
  const IntVector sizes = joined_sizes(outer_sizes(a), values.sizes().subspan(1));
  return make_coo(sizes, index_select(members(x).compressed, 1, at), values, true);
}

}  // namespace

Tensor copied(const Tensor& self) {
  const Members& m = members(self);
  return is_coo(self)
             ? make_coo(self.sizes(), clone(m.compressed), clone(m.values), m.coalesced)
             : make_compressed(self.layout(), self.sizes(), clone(m.compressed), clone(m.plain), clone(m.values));
}

void write_sparse(const Tensor& target, const Tensor& result) {
  check_can_cast(result.dtype(), target.dtype());
  if (!is_sparse(target)) {
    TESSERA_CHECK(!is_sparse(result), "the result has layout torch.", layout_name(result.layout()),
                  ", which a strided tensor cannot take");
    if (!std::ranges::equal(target.sizes(), result.sizes())) resize_(target, result.sizes());
    ExcludeKeys no_history(kAutogradKeys);
    copy_(target, result);
    return;
  }
  TESSERA_CHECK(is_sparse(result), "the result is strided, which a tensor of layout torch.",
                layout_name(target.layout()), " cannot take");
  sparse::take_members(target, cast(in_layout(result, target.layout()), target.dtype()));
}

const Tensor& add_to_dense(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  TESSERA_CHECK(std::ranges::equal(self.sizes(), other.sizes()),
                "add: expected 'self' and 'other' to have same size, "
                "but self has size ",
                shape_string(self.sizes()), " while other has size ", shape_string(other.sizes()),
                " (FYI: dense-sparse addition does not currently support broadcasting)");
  check_can_cast(common_dtype(self, other), self.dtype());
  const bool one = alpha.equals(1.0);
  if (!is_coo(other) || self.is_meta() || !self.is_contiguous() || self.dtype() == DType::kBool ||
      members(other).sparse_dim == 0) {
    const Tensor d = dense_of(other);
    add_(self, to(one ? d : mul(d, alpha), self.dtype()));
    return self;
  }
  const Tensor places = keys_of(other), values = to(members(other).values, self.dtype());
  IntVector rows{product(outer_sizes(other))};
  for (int64_t s : values.sizes().subspan(1)) rows.push_back(s);
  index_add_(view(self, IntList(rows)), 0, places, values, alpha);
  return self;
}

Tensor add_any(const Tensor& a, const Tensor& b, const Scalar& alpha, const char* name) {
  TESSERA_CHECK(!(is_coo(a) && !is_sparse(b)), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  const DType d = common_dtype(a, b);
  if (!is_sparse(a)) {
    TESSERA_CHECK(std::ranges::equal(a.sizes(), b.sizes()), name,
                  ": expected 'self' and 'other' to have same size, but "
                  "self has size ",
                  shape_string(a.sizes()), " while other has size ", shape_string(b.sizes()),
                  " (FYI: op2-sparse addition does not currently support broadcasting)");
    const Tensor r = a.dtype() == d ? clone(a, MemoryFormat::kContiguous) : contiguous(to(a, d));
    return add_to_dense(r, b, alpha);
  }
  const Tensor scaled = alpha.equals(1.0) ? b : mul(b, alpha);
  if (!is_sparse(b)) {
    TESSERA_CHECK(std::ranges::equal(a.sizes(), b.sizes()), name,
                  ": expected 'self' and 'other' to have same size, but "
                  "self has size ",
                  shape_string(a.sizes()), " while other has size ", shape_string(b.sizes()),
                  " (FYI: op2-sparse addition does not currently support broadcasting)");
    return add(dense_of(cast(a, d)), cast(scaled, d));
  }
  check_same_size(name, a, b);
  const Tensor x = cast(a, d);
  const auto blocks = blocks_of(a);
  const Tensor y = cast(in_layout(scaled, a.layout(), has_blocks(a.layout()) ? IntList(blocks) : IntList()), d);
  if (!is_coo(a))
    return same_pattern(x, y) ? with_values(x, add(members(x).values, members(y).values)) : added_compressed(x, y);
  TESSERA_CHECK(members(x).sparse_dim == members(y).sparse_dim || nnz_of(x) == 0 || nnz_of(y) == 0, name,
                ": expected 'self' and 'other' to have same density, but 'self' has ", members(x).sparse_dim,
                " sparse dimensions while 'other' has ", members(y).sparse_dim, " sparse dimensions");
  const Tensor r = coo_sum(x, y);
  return r.is_same(a) || r.is_same(b) ? copied(r) : r;
}

Tensor multiply_any(const Tensor& a, const Tensor& b) {
  // A number that is sparse is no pattern.
  if (is_sparse(a) && is_sparse(b) && (a.dim() == 0 || b.dim() == 0)) {
    const bool scales = b.dim() == 0 && (a.dim() != 0 || nnz_of(a) >= nnz_of(b));
    return scales ? multiply_any(a, dense_of(b)) : multiply_any(dense_of(a), b);
  }
  if (is_sparse(a) && is_sparse(b)) {
    const auto blocks = blocks_of(a);
    const Tensor y = in_layout(b, a.layout(), has_blocks(a.layout()) ? IntList(blocks) : IntList());
    if (std::ranges::equal(a.sizes(), y.sizes()) && (!is_coo(a) || (members(a).coalesced && members(y).coalesced)) &&
        same_pattern(a, y))
      return with_values(a, mul(members(a).values, members(y).values));
    if (is_coo(a)) return coo_intersection(a, y);
    return in_layout(coo_intersection(in_layout(a, Layout::kSparseCoo), in_layout(y, Layout::kSparseCoo)), a.layout(),
                     has_blocks(a.layout()) ? IntList(blocks) : IntList());
  }
  const Tensor &s = is_sparse(a) ? a : b, &d = is_sparse(a) ? b : a;
  if (d.dim() == 0) return with_values(s, mul(members(s).values, d));
  if (d.dim() > s.dim() && is_coo(s)) {  // the sparse one once for each index of the dimensions in front
    const std::vector<Tensor> rows(static_cast<size_t>(d.size(d.dim() - s.dim() - 1)), s);
    if (!rows.empty()) return multiply_any(stack(rows), d);
  }
  TESSERA_CHECK(d.dim() <= s.dim(), "mul(sparse, dense): the dense tensor of shape ", shape_string(d.sizes()),
                " does not broadcast to the size of the sparse one, ", shape_string(s.sizes()));
  return with_values(s, mul(members(s).values, gathered(d, s)));
}

Tensor masked_by(const Tensor& self, const Tensor& mask) {
  TESSERA_CHECK(is_sparse(mask), "sparse_mask(): expected mask to be a sparse tensor, but got layout ",
                shown(mask.layout()));
  TESSERA_CHECK(std::ranges::equal(self.sizes(), mask.sizes()),
                "sparse_mask(): operands have incompatible sizes; self has size ", shape_string(self.sizes()),
                " but mask has size ", shape_string(mask.sizes()));
  if (!is_sparse(self)) return with_values(mask, gathered(self, mask));
  if (self.layout() == mask.layout() && same_pattern(self, mask)) return with_values(mask, members(self).values);
  if (!is_coo(self) || !is_coo(mask) || members(self).sparse_dim != members(mask).sparse_dim)
    return with_values(mask, gathered(dense_of(self), mask));
  if (mask.is_meta())
    return with_values(mask, make_filled(members(mask).values.sizes(), Scalar(0), self.dtype(), mask.device()));
  const Tensor x = coalesced(self), have = keys_of(x), want = keys_of(mask);
  const int64_t *p = have.data<int64_t>(), *end = p + have.numel();
  IntVector from, target;
  for (int64_t k = 0; k < want.numel(); ++k) {
    const int64_t* found = std::lower_bound(p, end, want.data<int64_t>()[k]);
    if (found == end || *found != want.data<int64_t>()[k]) continue;
    from.push_back(found - p);
    target.push_back(k);
  }
  IntVector sizes{want.numel()};
  for (int64_t s : members(x).values.sizes().subspan(1)) sizes.push_back(s);
  return with_values(
      mask, scattered_rows(index_select(members(x).values, 0, number_list(from)), number_list(target), want.numel()));
}
Tensor sparse_mask_kernel(const Tensor& self, const Tensor& mask) { return masked_by(self, mask); }

// --- shapes

namespace {

Tensor swapped_rows(const Tensor& indices, int64_t a, int64_t b) {
  IntVector order(static_cast<size_t>(indices.size(0)));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return rows_of(indices, order);
}

// The elements of a COO tensor whose number along a sparse dimension satisfies a condition.
Tensor kept_elements(const Tensor& self, const Tensor& keep) { return contiguous(reshape(nonzero(keep), {-1})); }

}  // namespace

Tensor transposed_any(const Tensor& self, int64_t first, int64_t second) {
  const int64_t a = wrap_dim(first, self.dim()), b = wrap_dim(second, self.dim());
  if (a == b) return sparse::twin(self, true);
  const Members& m = members(self);
  IntVector sizes(self.sizes().begin(), self.sizes().end());
  std::swap(sizes[static_cast<size_t>(a)], sizes[static_cast<size_t>(b)]);
  const int64_t batch = is_coo(self) ? 0 : batch_dims(self), dense = batch + m.sparse_dim;
  if (a >= dense && b >= dense) {
    const int64_t shift = m.values.dim() - self.dim();
    const Tensor v = transpose(m.values, a + shift, b + shift);
    return is_coo(self) ? make_coo(sizes, m.compressed, v, m.coalesced)
                        : make_compressed(self.layout(), sizes, m.compressed, m.plain, v);
  }
  if (is_coo(self)) {
    TESSERA_CHECK(a < dense && b < dense,
                  "sparse transpose: transposed dimensions must be sparse Got sparse_dim: ", m.sparse_dim, ", d0: ", a,
                  ", d1: ", b);
    return make_coo(sizes, swapped_rows(m.compressed, a, b), m.values, false);
  }
  if (a < batch && b < batch)
    return make_compressed(self.layout(), sizes, transpose(m.compressed, a, b), transpose(m.plain, a, b),
                           transpose(m.values, a, b));
  TESSERA_CHECK(a >= batch && b >= batch && a < dense && b < dense,
                "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got ", a, " and ",
                b);
  constexpr Layout kOther[] = {Layout::kSparseCsc, Layout::kSparseCsr, Layout::kSparseBsc, Layout::kSparseBsr};
  const Layout layout = kOther[static_cast<int>(self.layout()) - static_cast<int>(Layout::kSparseCsr)];
  const Tensor v = has_blocks(layout) ? transpose(m.values, batch + 1, batch + 2) : m.values;
  return make_compressed(layout, sizes, m.compressed, m.plain, v);
}

Tensor permuted(const Tensor& self, IntList dims) {
  TESSERA_CHECK(static_cast<int64_t>(dims.size()) == self.dim(),
                "permute(sparse_coo): number of dimensions in the "
                "tensor input does not match the length of the desired ordering of dimensions i.e. input.dim() = ",
                self.dim(), " is not equal to len(dims) = ", dims.size());
  IntVector order;
  for (int64_t d : dims) order.push_back(wrap_dim(d, self.dim()));
  IntVector sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i)
    TESSERA_CHECK(sorted[i] == static_cast<int64_t>(i), "permute(sparse_coo): duplicate dims are not allowed.");
  if (!is_coo(self)) {  // one exchange after the other
    Tensor t = self;
    IntVector at(order.size());
    std::iota(at.begin(), at.end(), 0);
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t j = static_cast<size_t>(std::find(at.begin(), at.end(), order[i]) - at.begin());
      if (i == j) continue;
      t = transposed_any(t, static_cast<int64_t>(i), static_cast<int64_t>(j));
      std::swap(at[i], at[j]);
    }
    return t.is_same(self) ? sparse::twin(self, true) : t;
  }
  const Members& m = members(self);
  IntVector sizes, rows, inner{0};
  bool same = true;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool sparse = static_cast<int64_t>(i) < m.sparse_dim;
    TESSERA_CHECK(sparse == (order[i] < m.sparse_dim),
                  "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed."
                  "Only transpositions within sparse and dense dimensions are supported.");
    sizes.push_back(self.size(order[i]));
    if (sparse)
      rows.push_back(order[i]);
    else
      inner.push_back(order[i] - m.sparse_dim + 1);
    same = same && (!sparse || order[i] == static_cast<int64_t>(i));
  }
  return make_coo(sizes, same ? m.compressed : rows_of(m.compressed, rows), permute(m.values, IntList(inner)),
                  m.coalesced && same);
}

Tensor unsqueezed(const Tensor& self, int64_t dim) {
  check_coo(self, "unsqueeze");
  const int64_t d = wrap_dim(dim, self.dim() + 1);
  const Members& m = members(self);
  IntVector sizes(self.sizes().begin(), self.sizes().end());
  sizes.insert(sizes.begin() + d, 1);
  if (d > m.sparse_dim) return make_coo(sizes, m.compressed, unsqueeze(m.values, d - m.sparse_dim + 1), m.coalesced);
  const Tensor row = make_filled(IntVector{1, m.compressed.size(1)}, Scalar(0), DType::kInt64, self.device());
  const std::vector<Tensor> rows{narrow(m.compressed, 0, 0, d), row, narrow(m.compressed, 0, d, m.sparse_dim - d)};
  return make_coo(sizes, cat(rows), m.values, m.coalesced);
}

Tensor selected(const Tensor& self, int64_t dim, int64_t index) {
  TESSERA_CHECK_INDEX(self.dim() > 0, "select() cannot be applied to a 0-dim tensor.");
  const int64_t d = wrap_dim(dim, self.dim()), size = self.size(d);
  TESSERA_CHECK_INDEX(index >= -size && index < size, "select(): index ", index, " out of range for tensor of size ",
                      shape_string(self.sizes()), " at dimension ", d);
  const int64_t i = index < 0 ? index + size : index;
  const Members& m = members(self);
  IntVector sizes(self.sizes().begin(), self.sizes().end());
  sizes.erase(sizes.begin() + d);
  const int64_t batch = is_coo(self) ? 0 : batch_dims(self), dense = batch + m.sparse_dim;
  if (d >= dense) {
    const Tensor v = select(m.values, d + m.values.dim() - self.dim(), i);
    return is_coo(self) ? make_coo(sizes, m.compressed, v, m.coalesced)
                        : make_compressed(self.layout(), sizes, m.compressed, m.plain, v);
  }
  if (!is_coo(self)) {
    if (d >= batch) {
      const Tensor r = selected(in_layout(self, Layout::kSparseCoo), d, i);
      return is_sparse(r) ? coalesced(r) : r;
    }
    return make_compressed(self.layout(), sizes, select(m.compressed, d, i), select(m.plain, d, i),
                           select(m.values, d, i));
  }
  const Tensor keep = kept_elements(self, eq(select(m.compressed, 0, d), Scalar(i)));
  const Tensor values = index_select(m.values, 0, keep);
  if (m.sparse_dim == 1) return sum(values, IntVector{0}, false, values.dtype());
  const std::vector<Tensor> rows{narrow(m.compressed, 0, 0, d), narrow(m.compressed, 0, d + 1, m.sparse_dim - d - 1)};
  return make_coo(sizes, index_select(cat(rows), 1, keep), values, m.coalesced);
}

Tensor rows_selected(const Tensor& self, int64_t dim, const Tensor& index) {
  check_coo(self, "index_select");
  const int64_t d = wrap_dim(dim, self.dim()), size = self.size(d);
  TESSERA_CHECK(index.dim() == 1, "index_select() argument index must be 1-D long-tensor, but got ", index.dim(), "-D");
  const Tensor wanted = numbers(index);
  const Members& m = members(self);
  IntVector sizes(self.sizes().begin(), self.sizes().end());
  sizes[static_cast<size_t>(d)] = wanted.numel();
  if (d >= m.sparse_dim)
    return make_coo(sizes, m.compressed, index_select(m.values, d - m.sparse_dim + 1, wanted), m.coalesced);
  const Tensor along = contiguous(select(numbers(m.compressed), 0, d));
  flat_places(unsqueeze(along, 0), IntVector{size});  // checks
  const cpu::Groups g = cpu::group_keys(along.data<int64_t>(), along.numel(), std::max<int64_t>(1, size));
  IntVector from, at;
  for (int64_t k = 0; k < wanted.numel(); ++k) {
    const int64_t given = wanted.data<int64_t>()[k], key = given < 0 ? given + size : given;
    TESSERA_CHECK_INDEX(key >= 0 && key < size, "index_select(): index contains ", given,
                        " that is out of range for tensor of size ", shape_string(self.sizes()), " at dimension ", d);
    const auto found = std::ranges::lower_bound(g.keys, key);
    if (found == g.keys.end() || *found != key) continue;
    const size_t group = static_cast<size_t>(found - g.keys.begin());
    for (int64_t i = g.begins[group]; i < g.begins[group + 1]; ++i) {
      from.push_back(g.ordered ? i : g.order[static_cast<size_t>(i)]);
      at.push_back(k);
    }
  }
  const Tensor picked = number_list(from);
  const Tensor indices = index_select(m.compressed, 1, picked);
  copy_(select(indices, 0, d), number_list(at));
  return make_coo(sizes, indices, index_select(m.values, 0, picked), m.coalesced && d == 0 && wanted.numel() <= 1);
}

Tensor narrowed(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  check_coo(self, "narrow_copy");
  const int64_t d = wrap_dim(dim, self.dim()), size = self.size(d);
  const int64_t begin = start < 0 ? start + size : start;
  TESSERA_CHECK(length >= 0 && begin >= 0 && begin <= size && length <= size - begin,
                "Invalid range to narrow. range(start, start+length) must be a subset of range(0, ", size,
                "), but got start ", start, " and length ", length);
  const Members& m = members(self);
  IntVector sizes(self.sizes().begin(), self.sizes().end());
  sizes[static_cast<size_t>(d)] = length;
  if (d >= m.sparse_dim)
    return make_coo(sizes, clone(m.compressed), clone(narrow(m.values, d - m.sparse_dim + 1, begin, length)),
                    m.coalesced);
  const Tensor along = select(m.compressed, 0, d);
  const Tensor keep = kept_elements(self, logical_and(ge(along, Scalar(begin)), lt(along, Scalar(begin + length))));
  const Tensor indices = index_select(m.compressed, 1, keep);
  sub_(select(indices, 0, d), Scalar(begin));
  return make_coo(sizes, indices, index_select(m.values, 0, keep), m.coalesced);
}

Tensor joined(TensorList tensors, int64_t dim) {
  TESSERA_CHECK(!tensors.empty(), "torch.cat(): expected a non-empty list of Tensors");
  for (size_t i = 0; i < tensors.size(); ++i)
    TESSERA_CHECK(is_coo(tensors[i]), "Concatenating sparse tensors, but a ",
                  is_sparse(tensors[i]) ? shown(tensors[i].layout()) : "dense", " tensor was found at position ", i,
                  ".");
  const Tensor& first = tensors[0];
  const int64_t d = wrap_dim(dim, first.dim()), sparse_dim = members(first).sparse_dim;
  IntVector sizes(first.sizes().begin(), first.sizes().end());
  sizes[static_cast<size_t>(d)] = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    bool fits = t.dim() == first.dim() && members(t).sparse_dim == sparse_dim;
    for (int64_t k = 0; fits && k < t.dim(); ++k) fits = k == d || t.size(k) == first.size(k);
    TESSERA_CHECK(t.dim() != first.dim() || members(t).sparse_dim == sparse_dim,
                  "All tensors must have the same number of sparse and dense dimensions: ", sparse_dim, ", ",
                  first.dim() - sparse_dim, ", but tensor at position ", i, " has ", members(t).sparse_dim, ", ",
                  t.dim() - members(t).sparse_dim, ".");
    TESSERA_CHECK(fits, "All tensors must have the same shape: ", shape_string(first.sizes()),
                  " (except in the concatenating dimension), and the same number of sparse dimensions. Found ",
                  shape_string(t.sizes()), " at position ", i);
    sizes[static_cast<size_t>(d)] += t.size(d);
  }
  std::vector<Tensor> indices, values;
  int64_t at = 0;
  for (const Tensor& t : tensors) {
    const Members& m = members(t);
    Tensor n = m.compressed, v = m.values;
    if (d < sparse_dim) {
      n = clone(n);
      add_(select(n, 0, d), Scalar(at));
    } else {
      IntVector wide(v.sizes().begin(), v.sizes().end());
      wide[static_cast<size_t>(d - sparse_dim + 1)] = sizes[static_cast<size_t>(d)];
      const Tensor all = make_filled(wide, Scalar(0), v.dtype(), v.device());
      copy_(narrow(all, d - sparse_dim + 1, at, t.size(d)), v);
      v = all;
    }
    at += t.size(d);
    indices.push_back(n);
    values.push_back(v);
  }
  return make_coo(sizes, cat(indices, 1), cat(values), tensors.size() == 1 && members(first).coalesced);
}

// --- sums

Tensor sum_all_values(const Tensor& self, std::optional<DType> dtype) {
  return sum(values(is_coo(self) ? coalesced_or_self(self) : self), dtype);
}

Tensor sum_dims(const Tensor& self, IntList given, bool keepdim, std::optional<DType> dtype) {
  uint64_t summed = 0;
  for (int64_t g : given) {
    const uint64_t bit = uint64_t{1} << wrap_dim(g, self.dim());
    TESSERA_CHECK(!(summed & bit), "dim ", g, " appears multiple times in the list of dims");
    summed |= bit;
  }
  if (given.empty()) summed = self.dim() == 64 ? ~uint64_t{0} : (uint64_t{1} << self.dim()) - 1;
  if (is_compressed(self)) {
    TESSERA_CHECK(keepdim, "reduction operations on CSR tensors with keepdim=False is unsupported");
    TESSERA_CHECK(self.layout() == Layout::kSparseCsr,
                  "Currently the only compressed sparse format supported for sum.dim_IntList is CSR, but got layout ",
                  shown(self.layout()));
    const Tensor r = sum_dims(in_layout(self, Layout::kSparseCoo), given, true, dtype);
    return in_layout(is_sparse(r) ? r : to_sparse_any(r, std::nullopt, std::nullopt, std::nullopt), self.layout());
  }
  const Members& m = members(self);
  IntVector inner, rows, kept, sizes;
  for (int64_t d = 0; d < self.dim(); ++d) {
    const bool gone = summed >> d & 1;
    if (d >= m.sparse_dim && gone) inner.push_back(d - m.sparse_dim + 1);
    if (gone) {
      if (keepdim) sizes.push_back(1);
      continue;
    }
    if (d < m.sparse_dim) {
      rows.push_back(d);
      kept.push_back(self.size(d));
    }
    sizes.push_back(self.size(d));
  }
  Tensor v = m.values;
  const DType out = dtype.value_or(is_floating_point(v.dtype()) || v.is_complex() ? v.dtype() : DType::kInt64);
  v = inner.empty() ? to(v, out) : sum(v, IntList(inner), keepdim, out);
  if (rows.empty()) return reshape(sum(v, IntVector{0}, false, out), IntList(sizes));
  if (self.is_meta())
    return empty_sparse(Layout::kSparseCoo, sizes, out, self.device(),
                        keepdim ? m.sparse_dim : static_cast<int64_t>(rows.size()));
  if (static_cast<int64_t>(rows.size()) == m.sparse_dim)
    return coalesced(make_coo(sizes, m.compressed, v, m.coalesced));
  const IntVector values_of(v.sizes().begin() + 1, v.sizes().end());
  const Tensor r = coalesced(make_coo(joined_sizes(kept, values_of), rows_of(m.compressed, rows), v, false));
  if (!keepdim) return r;
  Tensor indices = members(r).compressed;
  std::vector<Tensor> all;
  int64_t next = 0;
  for (int64_t d = 0; d < m.sparse_dim; ++d)
    all.push_back(summed >> d & 1 ? make_filled(IntVector{1, indices.size(1)}, Scalar(0), DType::kInt64, self.device())
                                  : narrow(indices, 0, next++, 1));
  return make_coo(sizes, cat(all), members(r).values, true);
}
Tensor _sparse_sum_dim_kernel(const Tensor& self, IntList dim) {
  check_coo(self, "_sparse_sum");
  TESSERA_CHECK(!dim.empty(), "_sparse_sum: expected dims to be summed");
  return sum_dims(self, dim, false, self.dtype());
}

}  // namespace tessera::kernels
