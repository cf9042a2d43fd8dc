// Order statistics, moments, distances, histograms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/core/transforms.h"
#include "tensor/core/warning.h"
#include "tensor/cpu/sort/sort.h"
#include "tensor/engine/functions.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/promotion.h"
#include "tensor/ops/reduce_extra.h"
#include "tensor/ops/statistics_extra.h"
#include "tensor/ops/statistics_kernels.h"
#include "tensor/ops/strided.h"

namespace tessera::kernels {
namespace {

// The elements at `indices` (with the dimension kept) along dim: differentiable.
std::tuple<Tensor, Tensor> chosen(const Tensor& self, int64_t dim, const Tensor& indices, bool keepdim) {
  const Tensor values = gather(self, dim, indices);
  if (keepdim || self.dim() == 0) return {values, indices};
  return {squeeze(values, dim), squeeze(indices, dim)};
}
int64_t length_of(const Tensor& self, int64_t dim) {
  return self.dim() == 0 ? 1 : self.sizes()[static_cast<size_t>(dim)];
}
void check_length(const char* name, const Tensor& self, int64_t dim) {
  TESSERA_CHECK_INDEX(length_of(self, dim) > 0, name, "(): Expected reduction dim ", dim, " to have non-zero size.");
}
Tensor int64_tensor(int64_t value, const Tensor& like) {
  return full({}, Scalar(value), DType::kInt64, std::nullopt, like.device());
}

}  // namespace

namespace {
using cpu::SelectKind;

// The place (dimension kept) of the wanted element, by sorting: for devices without an engine that selects. Sorting
// puts NaN last: of n elements with c numbers the median is at (n - 1) / 2, at c if a NaN counts, at (c - 1) / 2 if
// they are left out.
Tensor place_by_sorting(SelectKind kind, const Tensor& self, int64_t k, int64_t d) {
  const Tensor order = std::get<1>(sort(self, std::optional<bool>(true), d, false));
  if (self.dim() == 0) return order;
  if (kind == SelectKind::kNth) return narrow(order, d, SymInt(k), SymInt(1));
  const int64_t n = self.sizes()[static_cast<size_t>(d)];
  if (!is_floating_point(self.dtype())) return narrow(order, d, SymInt((n - 1) / 2), SymInt(1));
  const int64_t dims[1] = {d};
  const Tensor numbers = sum(logical_not(isnan(self)), IntList(dims), true, DType::kInt64);
  const Tensor without = clamp(floor_divide(sub(numbers, Scalar(1)), Scalar(2)), Scalar(0));
  return gather(order, d,
                kind == SelectKind::kNanMedian
                    ? without
                    : where(eq(numbers, Scalar(n)), int64_tensor((n - 1) / 2, self), numbers));
}
std::array<OutputSpec, 2> select_meta(const char* name, const Tensor& self, int64_t dim, bool keepdim) {
  const int64_t d = wrap_dim(dim, self.dim());
  check_length(name, self, d);
  TESSERA_CHECK(!self.is_complex(), "Sort currently does not support complex dtypes on CPU");
  IntVector sizes = to_vector(self.sizes());
  if (self.dim() > 0 && keepdim) sizes[static_cast<size_t>(d)] = 1;
  if (self.dim() > 0 && !keepdim) sizes.erase(sizes.begin() + d);
  return {OutputSpec(sizes, {}, self.dtype(), self.device()), OutputSpec(sizes, {}, DType::kInt64, self.device())};
}
void select_into(SelectKind kind, const Tensor& self, int64_t k, int64_t dim, bool keepdim, const Tensor& values,
                 const Tensor& indices) {
  if (values.numel() == 0) return;
  const int64_t d = wrap_dim(dim, self.dim());
  if (!self.is_cpu()) {
    const auto [v, i] = chosen(self, d, place_by_sorting(kind, self, k, d), keepdim);
    copy__kernel(values, v, false);
    copy__kernel(indices, i, false);
    return;
  }
  const IntVector shape = at_least_1d(self.sizes());
  Strided in(self), v, i;
  const auto result = [&](const Tensor& out, Strided& to) {
    to.strides[0] = 0;
    for (int64_t at = 0, from = 0; at < self.dim(); ++at) {
      to.strides[at] = at == d ? 0 : out.strides()[static_cast<size_t>(from)] * item_size(out.dtype());
      from += at != d || keepdim;
    }
    to.operand = {out.data_ptr(), out.dtype(), to.strides};
  };
  result(values, v);
  result(indices, i);
  cpu::run_select(kind, shape, static_cast<int>(d), k, v, i, in);
}
}  // namespace

std::array<OutputSpec, 2> kthvalue_meta(const Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  const std::array<OutputSpec, 2> specs = select_meta("kthvalue", self, dim, keepdim);
  const int64_t d = wrap_dim(dim, self.dim());
  TESSERA_CHECK(k >= 1 && k <= length_of(self, d), "kthvalue(): selected number k out of range for dimension ", d);
  return specs;
}
void kthvalue_kernel(const Tensor& self, int64_t k, int64_t dim, bool keepdim, const Tensor& values,
                     const Tensor& indices) {
  select_into(SelectKind::kNth, self, k - 1, dim, keepdim, values, indices);
}
std::array<OutputSpec, 2> median_dim_meta(const Tensor& self, int64_t dim, bool keepdim) {
  return select_meta("median", self, dim, keepdim);
}
void median_dim_kernel(const Tensor& self, int64_t dim, bool keepdim, const Tensor& values, const Tensor& indices) {
  select_into(SelectKind::kMedian, self, 0, dim, keepdim, values, indices);
}
std::array<OutputSpec, 2> nanmedian_dim_meta(const Tensor& self, int64_t dim, bool keepdim) {
  return select_meta("median", self, dim, keepdim);
}
void nanmedian_dim_kernel(const Tensor& self, int64_t dim, bool keepdim, const Tensor& values, const Tensor& indices) {
  select_into(SelectKind::kNanMedian, self, 0, dim, keepdim, values, indices);
}
Tensor median_all_impl(const Tensor& self, bool ignore_nan) {
  if (self.numel() == 0) {
    TESSERA_CHECK(is_floating_point(self.dtype()), "median(): an empty tensor of dtype ", name_of(self.dtype()),
                  " has no median");
    return full({}, Scalar(std::numeric_limits<double>::quiet_NaN()), self.dtype(), std::nullopt, self.device());
  }
  const Tensor flat = reshape(self, {-1});
  return std::get<0>(ignore_nan ? nanmedian(flat, 0, false) : median(flat, 0, false));
}

// Sorted values form runs; the longest run, the first of several, is the answer.
std::tuple<Tensor, Tensor> mode_impl(const Tensor& self, int64_t dim, bool keepdim) {
  const int64_t d = wrap_dim(dim, self.dim());
  check_length("mode", self, d);
  const auto [sorted, order] = sort(self.detach(), std::optional<bool>(true), d, false);
  if (self.dim() == 0) return chosen(self, d, order, keepdim);
  const int64_t n = self.sizes()[static_cast<size_t>(d)];
  IntVector shape(static_cast<size_t>(self.dim()), 1);
  shape[static_cast<size_t>(d)] = n;
  const Tensor place = view(arange(Scalar(n), DType::kInt64, std::nullopt, self.device()), IntList(shape));
  const Tensor rest = ne(narrow(sorted, d, SymInt(1), SymInt(n - 1)), narrow(sorted, d, SymInt(0), SymInt(n - 1)));
  const Tensor parts[2] = {ones_like(narrow(sorted, d, SymInt(0), SymInt(1)), DType::kBool), rest};
  const Tensor start = std::get<0>(cummax(where(cat(parts, d), place, Scalar(0)), d));
  const Tensor length = sub(place, start);  // of the run so far, less one
  const Tensor last = argmax(length, d, true);
  return chosen(self, d, gather(order, d, last), keepdim);
}

// --- quantiles ---

Tensor quantile_number(const Tensor& self, double q) {
  TESSERA_CHECK(q >= 0 && q <= 1, "quantile() q must be in the range [0, 1] but got ", q);
  return full({}, Scalar(q), self.dtype(), std::nullopt, self.device());
}

Tensor quantile_impl(const Tensor& self, const Tensor& q, std::optional<int64_t> dim, bool keepdim,
                     std::string_view interpolation, bool ignore_nan) {
  const bool linear = interpolation == "linear", lower = interpolation == "lower", higher = interpolation == "higher",
             midpoint = interpolation == "midpoint", nearest = interpolation == "nearest";
  TESSERA_CHECK(linear || lower || higher || midpoint || nearest,
                "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but got ",
                interpolation);
  const int64_t d = wrap_dim(dim.value_or(0), self.dim());
  TESSERA_CHECK(self.numel() > 0, "quantile() input tensor must be non-empty");
  TESSERA_CHECK(q.dim() <= 1, "quantile() q must be a scalar or 1D tensor");
  TESSERA_CHECK(self.dtype() == DType::kFloat32 || self.dtype() == DType::kFloat64,
                "quantile() input tensor must be either float or double dtype");
  TESSERA_CHECK(self.dtype() == q.dtype(), "quantile() q tensor must be same dtype as the input tensor");
  TESSERA_CHECK(self.device() == q.device(), "quantile() q tensor must be on the same device as the input tensor");
  if (!values_unknown(q) && q.numel() > 0 && !is_transformed(q))
    TESSERA_CHECK(all(logical_and(ge(q, Scalar(0)), le(q, Scalar(1)))).item<bool>(),
                  "quantile() q values must be in the range [0, 1]");
  // Values along the last dimension, quantiles along the last dimension.
  const Tensor lanes = !dim ? reshape(self, {-1}) : self.dim() == 0 ? reshape(self, {1}) : movedim(self, d, -1);
  const int64_t n = lanes.sizes().back();
  const Tensor sorted = std::get<0>(sort(lanes, int64_t{-1}, false));
  const Tensor counts = count_nonzero(logical_not(isnan(sorted.detach())), std::optional<int64_t>(-1));
  const Tensor numbers = unsqueeze(counts, -1);
  Tensor rank;
  if (ignore_nan)
    rank = clamp(mul(q, to(sub(numbers, Scalar(1)), q.dtype())), Scalar(0));
  else
    rank =
        where(eq(numbers, Scalar(n)), mul(q, Scalar(static_cast<double>(n - 1))), Scalar(static_cast<double>(n - 1)));
  if (q.dim() == 0 && rank.dim() < lanes.dim()) rank = unsqueeze(rank, -1);
  if (lower) rank = floor(rank);
  if (higher) rank = ceil(rank);
  if (nearest) rank = round(rank);
  const Tensor below = to(rank, DType::kInt64);
  Tensor result = gather(sorted, -1, below);
  if (linear || midpoint) {
    const Tensor weight = midpoint ? full_like(rank, Scalar(0.5)) : sub(rank, to(below, rank.dtype()));
    result = lerp(result, gather(sorted, -1, to(ceil(rank), DType::kInt64)), weight);
  }
  if (q.dim() == 0)
    result = squeeze(result, -1);
  else
    result = movedim(result, -1, 0);
  if (!keepdim || self.dim() == 0) return result;
  const int64_t lead = q.dim();
  if (dim) return unsqueeze(result, d + lead);
  for (int64_t i = 0; i < self.dim(); ++i) result = unsqueeze(result, lead);
  return result;
}

// --- moments ---

Tensor nanmean_impl(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  TESSERA_CHECK(self.is_floating_point() || self.is_complex(),
                "nanmean(): expected input to have floating point or complex dtype but got ",
                type_name_of(self.dtype()));
  const Tensor numbers = sum(logical_not(isnan(self.detach())), dim, keepdim, std::nullopt);
  return div(nansum(self, dim, keepdim, dtype), numbers);
}

Tensor cov_impl(const Tensor& self, int64_t correction, const Tensor& fweights, const Tensor& aweights) {
  TESSERA_CHECK(self.dim() <= 2, "cov(): expected input to have two or fewer dimensions but got an input with ",
                self.dim(), " dimensions");
  TESSERA_CHECK(self.dtype() != DType::kBool, "cov(): bool dtype is not supported for input");
  const Tensor in = self.dim() < 2 ? reshape(self, {1, -1}) : self;
  const int64_t observations = in.sizes()[1];
  auto check_weights = [&](const char* name, const Tensor& w) {
    TESSERA_CHECK(w.dim() <= 1, "cov(): expected ", name, " to have one or fewer dimensions but got ", name, " with ",
                  w.dim(), " dimensions");
    TESSERA_CHECK(w.numel() == observations, "cov(): expected ", name,
                  " to have the same numel as there are observations in the input but got ", w.numel(),
                  " != ", observations);
    if (w.numel() && !values_unknown(w))
      TESSERA_CHECK(ge(w.min(), Scalar(0)).item<bool>(), "cov(): ", name, " cannot be negative");
  };
  Tensor w;
  if (fweights.defined()) {
    TESSERA_CHECK(is_integral(fweights.dtype(), false),
                  "cov(): expected fweights to have integral dtype but got fweights with ",
                  type_name_of(fweights.dtype()), " dtype");
    check_weights("fweights", fweights);
    w = fweights;
  }
  if (aweights.defined()) {
    TESSERA_CHECK(is_floating_point(aweights.dtype()),
                  "cov(): expected aweights to have floating point dtype but got aweights with ",
                  type_name_of(aweights.dtype()), " dtype");
    check_weights("aweights", aweights);
    w = w.defined() ? mul(w, aweights) : aweights;
  }
  const int64_t dims[1] = {1};
  const Tensor total = w.defined() ? sum(w) : int64_tensor(observations, in);
  TESSERA_CHECK(!w.defined() || values_unknown(w) || total.item_scalar().to_double() != 0,
                "cov(): weights sum to zero, can't be normalized");
  const Tensor average = div(sum(w.defined() ? mul(in, w) : in, IntList(dims)), total);
  Tensor norm_factor;
  if (w.defined() && aweights.defined() && correction != 0)
    norm_factor = sub(total, mul(div(sum(mul(w, aweights)), total), Scalar(correction)));
  else
    norm_factor = sub(total, Scalar(correction));
  if (!values_unknown(norm_factor) && !is_transformed(norm_factor) && norm_factor.item_scalar().to_double() <= 0)
    warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.");
  norm_factor = where(le(norm_factor, Scalar(0)), zeros_like(norm_factor), norm_factor);
  const Tensor centred = sub(in, unsqueeze(average, 1));
  const Tensor weighted = w.defined() ? mul(centred, w) : centred;
  const Tensor product = matmul(centred, conj(transpose(weighted, 0, 1)));
  return squeeze(div(product, norm_factor));
}

Tensor corrcoef_impl(const Tensor& self) {
  TESSERA_CHECK(self.dim() <= 2, "corrcoef(): expected input to have two or fewer dimensions but got an input with ",
                self.dim(), " dimensions");
  Tensor c = cov(self);
  if (c.dim() == 0) return div(c, c);
  const Tensor deviation = sqrt(real(diagonal(c)));
  c = div(div(c, unsqueeze(deviation, 1)), unsqueeze(deviation, 0));
  return c.is_complex() ? make_complex(clamp(real(c), Scalar(-1), Scalar(1)), clamp(imag(c), Scalar(-1), Scalar(1)))
                        : clamp(c, Scalar(-1), Scalar(1));
}

Tensor renorm_impl(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm) {
  TESSERA_CHECK(!p.is_complex(), "renorm: p must be real-valued");
  TESSERA_CHECK(p.to_double() > 0, "renorm: non-positive-norm not supported");
  TESSERA_CHECK(!maxnorm.is_complex(), "renorm: maxnorm must be real-valued");
  TESSERA_CHECK(maxnorm.to_double() >= 0, "renorm: expected maxnorm to be >= 0 but got ", maxnorm.to_double());
  TESSERA_CHECK(self.dim() > 1, "renorm: input needs at least 2 dimensions, got ", self.dim(), " dimensions");
  const int64_t d = wrap_dim(dim, self.dim());
  IntVector others;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (i != d) others.push_back(i);
  const Tensor norms = linalg_vector_norm(self, p, IntList(others), true, std::nullopt);
  const Tensor factor = where(gt(norms, maxnorm), div(full_like(norms, maxnorm), add(norms, Scalar(1e-7))), Scalar(1));
  return contiguous(mul(self, to(factor, norms.dtype())));
}

// --- histograms ---

namespace {

// Where low and high are equal: those of the data, which must be known here, as not all are allowed.
std::pair<double, double> data_range(const char* name, const Tensor& self, double low, double high, double margin) {
  if (low == high && self.numel() > 0) {
    const Tensor ends[2] = {self.min(), self.max()};
    const Tensor both = to(stack(ends), Device(), DType::kFloat64);
    low = both.data<double>()[0];
    high = both.data<double>()[1];
  }
  if (low == high && self.numel() == 0) {
    high += 1;
  } else if (low == high) {
    low -= margin;
    high += margin;
  }
  TESSERA_CHECK(std::isfinite(low) && std::isfinite(high), name, ": range of [", low, ", ", high, "] is not finite");
  TESSERA_CHECK(low < high, name, ": max must be larger than min");
  return {low, high};
}
Tensor flat_doubles(const Tensor& t) { return contiguous(to(reshape(t, {-1}), DType::kFloat64)); }
// Adds up weights (null: 1 each) per bin.
Tensor binned(const Tensor& self, const Tensor& weight, const cpu::HistogramBins& bins) {
  const Tensor x = flat_doubles(self), w = weight.defined() ? flat_doubles(weight) : Tensor();
  const Tensor counts = empty_tensor(IntVector{bins.count}, {}, DType::kFloat64, self.device());
  TESSERA_ON(x.device(), run_histogram)
  (bins, x.numel(), x.data_ptr<double>(), w.defined() ? w.data_ptr<double>() : nullptr, counts.data_ptr<double>());
  return to(counts, self.dtype());
}
Tensor counted_between(const Tensor& self, const Tensor& weight, const Tensor& bin_edges) {
  const Tensor edges = flat_doubles(bin_edges);
  return binned(self, weight, {.count = edges.numel() - 1, .edges = edges.data_ptr<double>()});
}
std::tuple<Tensor, Tensor> finished(Tensor hist, const Tensor& edges, bool density) {
  if (density) hist = div(hist, mul(diff(edges), sum(hist)));
  return {hist, edges};
}
void check_histogram(const Tensor& self, const Tensor& weight) {
  TESSERA_CHECK(self.dtype() == DType::kFloat32 || self.dtype() == DType::kFloat64,
                "\"histogram_cpu\" not implemented for '", type_name_of(self.dtype()), "'");
  if (!weight.defined()) return;
  TESSERA_CHECK(weight.dtype() == self.dtype(),
                "torch.histogram(): if weight tensor is provided, input tensor and weight tensor should have the same "
                "dtype, but got input ",
                name_of(self.dtype()), " and weight ", name_of(weight.dtype()));
  TESSERA_CHECK(std::ranges::equal(weight.sizes(), self.sizes()),
                "torch.histogram(): if weight tensor is provided it should have the same shape as the input tensor");
}

}  // namespace

Tensor histc_kernel(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  TESSERA_CHECK(bins > 0, "torch.histc(): bins must be > 0, but got ", bins);
  TESSERA_CHECK(is_floating_point(self.dtype()), "\"histogram_cpu\" not implemented for '", type_name_of(self.dtype()),
                "'");
  TESSERA_CHECK(!(min.to_double() > max.to_double()), "torch.histc(): max must be larger than min");
  if (self.is_meta()) return empty_tensor(IntVector{bins}, {}, self.dtype(), self.device());
  const auto [low, high] = data_range("torch.histc", self, min.to_double(), max.to_double(), 1);
  return binned(self, Tensor(), {.count = bins, .low = low, .high = high});
}
std::tuple<Tensor, Tensor> histogram_bin_ct_kernel(const Tensor& self, int64_t bins,
                                                   std::optional<std::span<const double>> range, const Tensor& weight,
                                                   bool density) {
  check_histogram(self, weight);
  TESSERA_CHECK(bins > 0, "torch.histogram(): bins must be > 0, but got ", bins);
  TESSERA_CHECK(!range || range->size() == 2, "torch.histogram(): range should have 2 elements, but got ",
                range ? range->size() : 0);
  TESSERA_CHECK(!range || (*range)[0] <= (*range)[1], "torch.histogram(): max must be larger than min");
  if (self.is_meta())
    return {empty_tensor(IntVector{bins}, {}, self.dtype(), self.device()),
            empty_tensor(IntVector{bins + 1}, {}, self.dtype(), self.device())};
  const auto [low, high] = data_range("torch.histogram", self, range ? (*range)[0] : 0, range ? (*range)[1] : 0, 0.5);
  const Tensor edges = linspace(Scalar(low), Scalar(high), bins + 1, self.dtype(), std::nullopt, self.device());
  return finished(counted_between(self, weight, edges), edges, density);
}
std::tuple<Tensor, Tensor> histogram_bins_tensor_kernel(const Tensor& self, const Tensor& bins, const Tensor& weight,
                                                        bool density) {
  check_histogram(self, weight);
  TESSERA_CHECK(bins.dim() == 1 && bins.numel() >= 2,
                "torch.histogram(): bins tensor should have one dimension and at least 2 edges, but got shape ",
                shape_string(bins.sizes()));
  TESSERA_CHECK(
      bins.dtype() == self.dtype(),
      "torch.histogram(): input tensor and bins tensors should have the same dtype, but got input with dtype ",
      name_of(self.dtype()), " and bins with dtype ", name_of(bins.dtype()));
  if (self.is_meta())
    return {empty_tensor(IntVector{bins.numel() - 1}, {}, self.dtype(), self.device()), empty_like(bins)};
  const Tensor rest = slice(bins, 0, SymInt(1), std::nullopt, 1),
               before = slice(bins, 0, SymInt(0), SymInt(bins.numel() - 1), 1);
  TESSERA_CHECK(!any(lt(rest, before)).item<bool>(),
                "torch.histogram(): bins tensor must be sorted in ascending order");
  return finished(counted_between(self, weight, bins), clone(detach(bins)), density);
}

}  // namespace tessera::kernels
