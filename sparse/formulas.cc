#include "sparse/formulas.h"

#include "sparse/kernels.h"

namespace tessera::autograd::formulas {

using sparse::is_coo;
using sparse::is_sparse;

namespace {
// The members of a sparse tensor; those of one that Python's layers handle, as a fake one, are asked from it.
struct Seen {
  Tensor compressed, plain, values;
  int64_t sparse_dim;
  bool coalesced;
};
Seen seen(const Tensor& t) {
  const sparse::Members& m = sparse::members(t);
  if (!t.keys().has(DispatchKey::kPython)) return {m.compressed, m.plain, m.values, m.sparse_dim, m.coalesced};
  if (is_coo(t)) return {_indices(t), Tensor(), _values(t), m.sparse_dim, m.coalesced};
  const bool rows = sparse::by_rows(t.layout());
  return {rows ? crow_indices(t) : ccol_indices(t), rows ? col_indices(t) : row_indices(t), values(t), 2, false};
}
}  // namespace

Tensor with_values(const Tensor& pattern, const Tensor& given) {
  const auto m = seen(pattern);
  const Tensor v = is_sparse(given) ? to_dense(given) : given;
  return is_coo(pattern) ? _sparse_coo_of(m.compressed, v, pattern.sizes(), m.coalesced)
                         : _sparse_compressed_of(m.compressed, m.plain, v, pattern.sizes(), pattern.layout());
}

Tensor values_at(const Tensor& grad, const Tensor& pattern) {
  const Tensor masked = sparse_mask(grad, pattern);
  return is_coo(pattern) && !seen(masked).coalesced ? values(_coalesced_(masked, true)) : values(masked);
}

Tensor coo_values_gradient(const Tensor& grad, const Tensor& indices, IntList shape) {
  const Tensor zero = kernels::make_filled(shape, Scalar(0), grad.dtype(), grad.device());
  // The flag says only that values() may be asked for: each value gets the gradient of its element.
  return values_at(grad, _sparse_coo_of(indices, zero, grad.sizes(), true));
}

namespace {
// Where the gradient of t has elements: an element that t names twice has one gradient, which is not to be counted
// twice.
Tensor pattern_of(const Tensor& t) {
  if (!is_coo(t) || sparse::members(t).coalesced) return t;
  return t.keys().has(DispatchKey::kPython) ? coalesce(t) : kernels::coalesced(t);
}
}  // namespace

Tensor in_layout_of(const Tensor& grad, const Tensor& like) {
  if (!is_sparse(like)) return is_sparse(grad) ? to_dense(grad) : grad;
  return sparse_mask(grad, pattern_of(like));
}

Tensor to_dense_gradient(const Tensor& grad, const Tensor& self, bool masked) {
  if (!is_sparse(self)) return grad;
  if (masked) return sparse_mask(grad, pattern_of(self));
  if (is_sparse(grad)) return grad;
  if (is_coo(self)) return to_sparse(grad, seen(self).sparse_dim);
  const auto blocks = kernels::blocks_of(self);
  const bool has = sparse::has_blocks(self.layout());
  const auto in_layout = [&](const Tensor& t) {
    return _to_sparse_layout(t, self.layout(), has ? std::optional<IntList>(blocks) : std::nullopt,
                             kernels::dense_dim_of(self), std::nullopt);
  };
  const int64_t batches = kernels::batch_dims(self);
  if (batches == 0) return in_layout(grad);
  // The matrices of a batch hold equally many elements: those that are not zero in any of them.
  IntVector over;
  for (int64_t d = 0; d < batches; ++d) over.push_back(d);
  return sparse_mask(grad, in_layout(expand(any(ne(grad, Scalar(0)), over, true), grad.sizes())));
}

Tensor sparse_mask_gradient(const Tensor& grad, const Tensor& self, const Tensor& mask) {
  const Tensor at = sparse_mask(grad, pattern_of(mask));
  return is_sparse(self) ? sparse_mask(at, pattern_of(self)) : to_dense(at);
}

Tensor factor_gradient(const Tensor& grad, const Tensor& mat1, const Tensor& mat2, bool second) {
  const Tensor wanted = pattern_of(second ? mat2 : mat1);
  const auto adjoint = [](const Tensor& m) { return conj(transpose(m, 0, 1)); };
  const Tensor full_grad = is_sparse(grad) ? to_dense(grad) : grad;
  if (!is_sparse(wanted)) return second ? mm(adjoint(mat1), full_grad) : mm(full_grad, adjoint(mat2));
  // Only the products that stand at elements.
  const Tensor a = second ? adjoint(mat1) : full_grad, b = second ? full_grad : adjoint(mat2);
  if (wanted.layout() == Layout::kSparseCsr && !is_sparse(a) && !is_sparse(b))
    return sparse_sampled_addmm(wanted, a, b, Scalar(0), Scalar(1));
  if (is_coo(wanted) && seen(wanted).sparse_dim == 2 && !is_sparse(a) && !is_sparse(b)) {
    const Tensor n = seen(wanted).compressed;
    const Tensor rows = index_select(a, 0, select(n, 0, 0)),
                 columns = index_select(transpose(b, 0, 1), 0, select(n, 0, 1));
    return with_values(wanted, sum(mul(rows, columns), IntVector{1}));
  }
  return sparse_mask(mm(a, b), wanted);
}

Tensor product_pattern_gradient(const Tensor& grad, const Tensor& a, const Tensor& b, bool second) {
  const auto adjoint = [](const Tensor& m) { return conj(transpose(m, 0, 1)); };
  const Tensor wanted = pattern_of(second ? b : a);
  const Tensor r = second ? mm(adjoint(a), grad) : mm(grad, adjoint(b));
  return sparse_mask(r, wanted);
}

std::tuple<Tensor, Tensor> mm_reduce_gradient(const Tensor& grad, const Tensor& self, const Tensor& other,
                                              std::string_view reduce, const Tensor& chosen) {
  const auto m = seen(self);
  const Tensor rows = kernels::expanded_pointers(kernels::numbers(m.compressed), m.plain.numel());
  const Tensor columns = kernels::numbers(m.plain), v = values(self);
  if (reduce == "sum" || reduce == "mean") {
    Tensor g = grad;
    if (reduce == "mean") {
      const Tensor counts = clamp_min(diff(m.compressed), Scalar(1));
      g = div(grad, unsqueeze(to(counts, grad.dtype()), 1));
    }
    const Tensor at = sum(mul(index_select(g, 0, rows), index_select(other, 0, columns)), IntVector{1});
    return {with_values(self, at), mm(transpose(self, 0, 1), g)};
  }
  // Each result came from one element, or from none.
  const Tensor there = lt(chosen, Scalar(m.plain.numel())),
               k = reshape(masked_fill(chosen, logical_not(there), 0), {-1});
  if (m.plain.numel() == 0) return {with_values(self, zeros_like(v)), zeros_like(other)};
  const Tensor g = mul(grad, to(there, grad.dtype()));
  const Tensor source = reshape(index_select(columns, 0, k), chosen.sizes());
  const Tensor at = index_add(zeros_like(v), 0, k, reshape(mul(g, gather(other, 0, source)), {-1}));
  const Tensor back = mul(g, reshape(index_select(v, 0, k), chosen.sizes()));
  return {with_values(self, at), scatter_add(zeros_like(other), 0, source, back)};
}

Tensor sparse_sum_gradient(const Tensor& grad, const Tensor& input, IntList dims) {
  // The gradient of each element is that of the sum it went into.
  const Tensor self = pattern_of(input);
  const auto m = seen(self);
  uint64_t gone = 0;
  for (int64_t d : dims) gone |= uint64_t{1} << wrap_dim(d, self.dim());
  Tensor full = is_sparse(grad) ? Tensor() : grad;
  IntVector kept, keep_sizes;
  for (int64_t d = 0; d < m.sparse_dim; ++d)
    if (!(gone >> d & 1)) {
      kept.push_back(d);
      keep_sizes.push_back(self.size(d));
    }
  const int64_t nnz = m.values.size(0);
  Tensor v;
  if (!full.defined()) {
    std::vector<Tensor> rows;
    for (int64_t d : kept) rows.push_back(select(m.compressed, 0, d));
    const Tensor places = stack(rows);
    IntVector shape{nnz};
    for (int64_t s : grad.sizes().subspan(kept.size())) shape.push_back(s);
    v = coo_values_gradient(grad, places, shape);
  } else if (kept.empty()) {
    v = unsqueeze(full, 0);
  } else {
    std::vector<Tensor> lists;
    for (int64_t d : kept) lists.push_back(select(m.compressed, 0, d));
    v = index(full, lists);
  }
  for (int64_t d = m.sparse_dim; d < self.dim(); ++d)
    if (gone >> d & 1) v = unsqueeze(v, d - m.sparse_dim + 1);
  return with_values(self, contiguous(expand(v, m.values.sizes())));
}

Tensor softmax_gradient(const Tensor& grad, const Tensor& result, int64_t dim, bool log) {
  return _sparse_softmax_gradient(grad, result, dim, log);
}

}  // namespace tessera::autograd::formulas
