// Sorting, selection, searching, distinct elements.
#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "tensor/core/visit.h"
#include "tensor/cpu/index/distinct.h"
#include "tensor/engine/functions.h"
#include "tensor/engine/sort.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"
#include "tensor/ops/reduce_extra.h"
#include "tensor/ops/result_memory.h"
#include "tensor/ops/reduce_kernels.h"
#include "tensor/ops/strided.h"

namespace tessera::kernels {
namespace {
void sortable(const Tensor& self) {
  TESSERA_CHECK(!self.is_complex(), "Sort currently does not support complex dtypes on CPU");
}
OutputSpec shaped(const Tensor& self, IntVector sizes, DType dtype) {
  return OutputSpec(std::move(sizes), {}, dtype, self.device());
}
}  // namespace

std::array<OutputSpec, 2> sort_meta(const Tensor& self, int64_t dim, bool) {
  sortable(self);
  wrap_dim(dim, self.dim());
  OutputSpec v(to_vector(self.sizes()), self.is_contiguous() ? IntVector() : preserved_strides(self), self.dtype(),
               self.device());
  OutputSpec i = v;
  i.dtype = DType::kInt64;
  return {v, i};
}
std::array<OutputSpec, 2> sort_stable_meta(const Tensor& self, std::optional<bool>, int64_t dim, bool descending) {
  return sort_meta(self, dim, descending);
}
void sort_kernel(const Tensor& self, int64_t dim, bool descending, const Tensor& values, const Tensor& indices) {
  if (values.numel() == 0) return;
  const IntVector shape = at_least_1d(self.sizes());
  Strided in(self), v(values), i(indices);
  TESSERA_ON(self.device(), run_sort)(shape, static_cast<int>(wrap_dim(dim, self.dim())), descending, v, i, in);
}
void sort_stable_kernel(const Tensor& self, std::optional<bool>, int64_t dim, bool descending, const Tensor& values,
                        const Tensor& indices) {
  sort_kernel(self, dim, descending, values, indices);
}

std::array<OutputSpec, 2> topk_meta(const Tensor& self, SymInt k, int64_t dim, bool, bool) {
  TESSERA_CHECK(!self.is_complex(), "topk does not support complex dtypes on CPU");
  TESSERA_CHECK_NOT_IMPLEMENTED(self.dtype() != DType::kBool, "\"topk_impl_loop\" not implemented for 'Bool'");
  const int64_t d = wrap_dim(dim, self.dim());
  const int64_t n = self.dim() == 0 ? 1 : self.sizes()[d], count = k.guard_int();
  TESSERA_CHECK(count >= 0 && count <= n, "selected index k out of range");
  IntVector sizes = to_vector(self.sizes());
  if (self.dim() > 0) sizes[d] = count;
  return {shaped(self, sizes, self.dtype()), shaped(self, sizes, DType::kInt64)};
}
void topk_kernel(const Tensor& self, SymInt k, int64_t dim, bool largest, bool sorted, const Tensor& values,
                 const Tensor& indices) {
  if (values.numel() == 0) return;
  const IntVector shape = at_least_1d(self.sizes());
  const int64_t count = self.dim() == 0 ? 1 : k.guard_int();  // a number without dimensions is what there is, for k = 0
  Strided in(self), v(values), i(indices);
  TESSERA_ON(self.device(), run_topk)
  (shape, static_cast<int>(wrap_dim(dim, self.dim())), count, largest, sorted, v, i, in);
}

// --- searching ---

Tensor scalar_like(const Scalar& s, const Tensor&) { return wrapped_number(s); }

OutputSpec searchsorted_meta(const Tensor& sequence, const Tensor& self, bool out_int32, bool right,
                             std::optional<std::string_view> side, const Tensor& sorter) {
  TESSERA_CHECK(!side || *side == "left" || *side == "right",
                "torch.searchsorted(): side can only be 'left' or 'right' but got ", *side);
  TESSERA_CHECK(
      !(side && *side == "left" && right),
      "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True");
  TESSERA_CHECK(!sequence.is_complex() && !self.is_complex(), "torch.searchsorted(): complex dtypes have no order");
  TESSERA_CHECK(sequence.dim() != 0,
                "torch.searchsorted(): input value can not be a scalar when boundaries tensor dimension is 0; "
                "boundaries tensor should have positive dimension, but got 0 dimension");
  TESSERA_CHECK(self.impl()->is_wrapped_number() || self.dtype() == sequence.dtype(),
                "torch.searchsorted(): input value tensor and boundary tensor should have the same dtype, but got "
                "boundary tensor dtype ",
                name_of(sequence.dtype()), " and input value tensor dtype ", name_of(self.dtype()));
  TESSERA_CHECK(self.dim() > 0 || sequence.dim() == 1,
                "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we "
                "got boundaries tensor dim(",
                sequence.dim(), ") and input value's dim(", self.dim(), ") numel(", self.numel(), ")");
  if (sequence.dim() > 1) {
    bool same = sequence.dim() == self.dim();
    for (int64_t i = 0; same && i + 1 < self.dim(); ++i) same = sequence.sizes()[i] == self.sizes()[i];
    TESSERA_CHECK(same,
                  "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                  "boundaries tensor and input value tensor must match, but we got boundaries tensor ",
                  shape_string(sequence.sizes()), " and input value tensor ", shape_string(self.sizes()));
  }
  if (sorter.defined()) {
    TESSERA_CHECK(std::ranges::equal(sorter.sizes(), sequence.sizes()),
                  "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor ",
                  shape_string(sequence.sizes()), "and got sorter tensor ", shape_string(sorter.sizes()));
    TESSERA_CHECK(sorter.dtype() == DType::kInt64,
                  "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype ",
                  name_of(sorter.dtype()));
    if (!sorter.is_meta() && sorter.numel() > 0) {
      const Tensor lo = sorter.min(), hi = sorter.max();
      TESSERA_CHECK(lo.item<int64_t>() >= 0 && hi.item<int64_t>() < sequence.sizes().back(),
                    "torch.searchsorted(): sorter index out of range");
    }
  }
  return shaped(sequence, to_vector(self.sizes()), out_int32 ? DType::kInt32 : DType::kInt64);
}
void searchsorted_kernel(const Tensor& sequence, const Tensor& self, bool out_int32, bool right,
                         std::optional<std::string_view> side, const Tensor& sorter, const Tensor& out) {
  if (out.numel() == 0) return;
  const DType t = result_type(sequence, self);
  const Tensor b = contiguous(to(sequence, t)), v = contiguous(to(self, t));
  const Tensor order = sorter.defined() ? contiguous(sorter) : Tensor();
  const ResultMemory target(out);
  const bool shared = b.dim() == 1;
  const int64_t n = shared ? v.numel() : v.sizes().back(), rows = n ? v.numel() / n : 0;
  TESSERA_ON(b.device(), run_searchsorted)
  (t, b.data_ptr(), b.sizes().back(), shared, order.defined() ? order.data_ptr<int64_t>() : nullptr, v.data_ptr(), rows,
   n, right || (side && *side == "right"), out_int32, target.data());
  target.finish();
}
Tensor searchsorted_number(const Tensor& sequence, const Tensor& number, bool out_int32, bool right,
                           std::optional<std::string_view> side, const Tensor& sorter) {
  if (number.device() == sequence.device()) return searchsorted(sequence, number, out_int32, right, side, sorter);
  const DType t = result_type(sequence, number);
  return searchsorted(to(sequence, t), to(number, sequence.device(), t), out_int32, right, side, sorter);
}
Tensor bucketize_impl(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
  TESSERA_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(", boundaries.dim(), ")");
  if (self.impl()->is_wrapped_number())
    return searchsorted_number(boundaries, self, out_int32, right, std::nullopt, Tensor());
  if (self.dtype() == boundaries.dtype())
    return searchsorted(boundaries, self, out_int32, right, std::nullopt, Tensor());
  const DType t = promote_types(self.dtype(), boundaries.dtype());
  return searchsorted(to(boundaries, t), to(self, t), out_int32, right, std::nullopt, Tensor());
}

// --- distinct elements ---

namespace {
Tensor int64_zeros(IntList sizes, const Tensor& like) {
  return zeros(sizes, DType::kInt64, std::nullopt, like.device());
}

// Given where new groups start among n ordered items: each item's group, and the groups' sizes.
Tensor groups_of(const Tensor& starts) { return sub(cumsum(to(starts, DType::kInt64), 0), 1); }
Tensor counts_of(const Tensor& starts) {
  const Tensor at = reshape(nonzero(starts), {-1});
  const Tensor end = full({1}, Scalar(starts.numel()), DType::kInt64, std::nullopt, starts.device());
  const Tensor bounds[2] = {at, end};
  const Tensor all_bounds = cat(bounds, 0);
  return sub(slice(all_bounds, 0, SymInt(1), std::nullopt, 1), slice(all_bounds, 0, SymInt(0), SymInt(at.numel()), 1));
}
Tensor starts_of(const Tensor& ordered) {
  const int64_t n = ordered.numel();
  const Tensor first = ones({1}, DType::kBool, std::nullopt, ordered.device());
  const Tensor rest = ne(slice(ordered, 0, SymInt(1), std::nullopt, 1), slice(ordered, 0, SymInt(0), SymInt(n - 1), 1));
  const Tensor parts[2] = {first, rest};
  return cat(parts, 0);
}
std::tuple<Tensor, Tensor, Tensor> nothing(const Tensor& self, bool inverse, bool counts) {
  const int64_t zero[1] = {0};
  return {empty_tensor(zero, {}, self.dtype(), self.device()),
          inverse ? int64_zeros(self.sizes(), self) : int64_zeros(zero, self), int64_zeros(zero, self)};
  (void)counts;
}
Tensor array_of(const std::vector<int64_t>& v) {
  const int64_t n[1] = {static_cast<int64_t>(v.size())};
  const Tensor t = empty_kernel(n, DType::kInt64);
  std::copy(v.begin(), v.end(), t.data<int64_t>());
  return t;
}
// Integers in memory of the CPU that lie close together.
std::optional<std::tuple<Tensor, Tensor, Tensor>> distinct_by_table(const Tensor& self, bool return_inverse,
                                                                    bool return_counts) {
  if (!self.is_cpu() || !is_integral(self.dtype(), true) || self.dtype() == DType::kUInt64) return std::nullopt;
  const Tensor x = contiguous(to(self, DType::kInt64));
  const Tensor inverse = empty_kernel(return_inverse ? self.sizes() : IntList(IntVector{0}), DType::kInt64);
  cpu::Distinct found;
  if (!cpu::distinct_integers(x.data<int64_t>(), x.numel(), return_inverse ? inverse.data<int64_t>() : nullptr,
                              return_counts, found))
    return std::nullopt;
  return std::tuple{to(array_of(found.values), self.dtype()), inverse, array_of(found.counts)};
}
}  // namespace

std::tuple<Tensor, Tensor, Tensor> _unique2_kernel(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  if (self.numel() == 0) return nothing(self, return_inverse, return_counts);
  if (auto found = distinct_by_table(self, return_inverse, return_counts)) return *found;
  const auto [ordered, from] = sort(reshape(self, {-1}), 0, false);
  const Tensor starts = starts_of(ordered);
  const int64_t zero[1] = {0};
  Tensor inverse = int64_zeros(zero, self), counts = int64_zeros(zero, self);
  if (return_inverse) {
    inverse = int64_zeros(from.sizes(), self);
    index_copy_(inverse, 0, from, groups_of(starts));
    inverse = view(inverse, self.sizes());
  }
  if (return_counts) counts = counts_of(starts);
  return {masked_select(ordered, starts), inverse, counts};
}

namespace {
// Distinct neighbours among the slices of `rows` (2-d) taken in `order`.
std::tuple<Tensor, Tensor, Tensor> distinct_rows(const Tensor& self, int64_t dim, const Tensor& rows,
                                                 const Tensor& order) {
  const Tensor ordered = index_select(rows, 0, order);
  const int64_t n = order.numel();
  const Tensor differ =
      any(ne(slice(ordered, 0, SymInt(1), std::nullopt, 1), slice(ordered, 0, SymInt(0), SymInt(n - 1), 1)), int64_t{1},
          false);
  const Tensor parts[2] = {ones({1}, DType::kBool, std::nullopt, self.device()), differ};
  const Tensor starts = cat(parts, 0);
  Tensor inverse = int64_zeros(order.sizes(), self);
  index_copy_(inverse, 0, order, groups_of(starts));
  return {index_select(self, dim, masked_select(order, starts)), inverse, counts_of(starts)};
}
std::tuple<Tensor, Tensor, Tensor> unique_along(const Tensor& self, int64_t dim, bool consecutive) {
  dim = wrap_dim(dim, self.dim());
  const int64_t n = self.dim() ? self.sizes()[dim] : 1;
  if (n == 0) {
    TESSERA_CHECK(self.numel() == 0,
                  "There are 0 sized dimensions, and they aren't selected by `dim`, so unique cannot be applied");
    const int64_t zero[1] = {0};
    return {clone(self), int64_zeros(zero, self), int64_zeros(zero, self)};
  }
  TESSERA_CHECK(self.numel() != 0,
                "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const Tensor rows = contiguous(reshape(movedim(self.dim() ? self : reshape(self, {1}), dim, 0), {n, -1}));
  Tensor order = arange(Scalar(n), DType::kInt64, std::nullopt, self.device());
  if (!consecutive) TESSERA_ON(rows.device(), run_sort_rows)
  (rows.dtype(), n, rows.numel() / n, rows.data_ptr(), order.data_ptr<int64_t>());
  return distinct_rows(self.dim() ? self : reshape(self, {1}), dim, rows, order);
}
}  // namespace

std::tuple<Tensor, Tensor, Tensor> unique_dim_kernel(const Tensor& self, int64_t dim, bool, bool, bool) {
  return unique_along(self, dim, false);
}
std::tuple<Tensor, Tensor, Tensor> unique_consecutive_kernel(const Tensor& self, bool return_inverse,
                                                             bool return_counts, std::optional<int64_t> dim) {
  if (dim) return unique_along(self, *dim, true);
  if (self.numel() == 0) return nothing(self, return_inverse, return_counts);
  const Tensor flat = reshape(self, {-1});
  const Tensor starts = starts_of(flat);
  return {masked_select(flat, starts), view(groups_of(starts), self.sizes()), counts_of(starts)};
}

}  // namespace tessera::kernels
