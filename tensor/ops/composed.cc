// Operators in terms of others: scatters with a reduction, products, integrals, windows.
#include <algorithm>
#include <cmath>

#include "tensor/core/transforms.h"
#include "tensor/core/visit.h"
#include "tensor/core/warning.h"
#include "tensor/cpu/index/index.h"
#include "tensor/engine/functions.h"
#include "tensor/ops/api.h"
#include "tensor/ops/composed_extra.h"
#include "tensor/ops/composed_kernels.h"
#include "tensor/ops/index_extra.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {

Tensor number_beside(const Scalar& number, const Tensor& t) {
  return t.is_cpu() ? wrapped_number(number) : full({}, number, std::nullopt, std::nullopt, t.device());
}
Tensor exponent_for(const Tensor& self, const Tensor& other) {
  const DType t = result_type(self, other);
  return other.dtype() != t && !is_integral(t, true) ? to(other, t) : other;
}

// Sorted test elements are searched, so the cost is n log m.
Tensor isin_impl(const Tensor& elements, const Tensor& test_elements, bool invert) {
  TESSERA_CHECK(!elements.is_complex() && !test_elements.is_complex(),
                "Unsupported input type encountered for isin(): ",
                type_name_of(elements.is_complex() ? elements.dtype() : test_elements.dtype()));
  if (test_elements.numel() == 0) return full_like(elements, Scalar(invert), DType::kBool);
  const DType t = result_type(elements, test_elements);
  const DType work = t == DType::kBool ? DType::kUInt8 : t;
  const Tensor sorted = std::get<0>(sort(to(reshape(test_elements, {-1}), work), int64_t{0}, false)),
               values = to(elements, work);
  const Tensor at = clamp(searchsorted(sorted, contiguous(values)), std::nullopt, Scalar(sorted.numel() - 1));
  const Tensor candidates = view(index_select(sorted, 0, reshape(at, {-1})), values.sizes());
  return invert ? ne(candidates, values) : eq(candidates, values);
}

// --- scatter with a reduction ---

namespace {

enum class Reduce { kSum, kProd, kMean, kMax, kMin };
Reduce reduction(std::string_view name, bool with_sum) {
  if (name == "sum" && with_sum) return Reduce::kSum;
  if (name == "prod") return Reduce::kProd;
  if (name == "mean") return Reduce::kMean;
  if (name == "amax") return Reduce::kMax;
  if (name == "amin") return Reduce::kMin;
  internal::raise<Error>("reduce argument must be either ", with_sum ? "sum, " : "", "prod, mean, amax or amin, got ",
                         name, ".");
}
// The value that changes nothing.
Scalar neutral(Reduce r, DType t) {
  if (r == Reduce::kSum || r == Reduce::kMean) return Scalar(0);
  if (r == Reduce::kProd) return Scalar(1);
  const bool lowest = r == Reduce::kMax;
  if (is_floating_point(t)) return Scalar(lowest ? -INFINITY : INFINITY);
  if (t == DType::kBool) return Scalar(!lowest);
  return visit_dtype(t, [&]<class T>(TypeTag<T>) -> Scalar {
    if constexpr (std::is_integral_v<T>)
      return Scalar(static_cast<int64_t>(lowest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max()));
    return Scalar(0);
  });
}
int64_t mode_of(Reduce r) {
  using M = cpu::ScatterMode;
  switch (r) {
    case Reduce::kProd:
      return static_cast<int64_t>(M::kMultiply);
    case Reduce::kMax:
      return static_cast<int64_t>(M::kMax);
    case Reduce::kMin:
      return static_cast<int64_t>(M::kMin);
    default:
      return static_cast<int64_t>(M::kAdd);
  }
}
// What of src belongs to index: scatters leave out the rest.
Tensor src_window(const Tensor& src, const Tensor& index) {
  if (index.numel() == 0) return reshape(narrow(reshape(src, {-1}), 0, SymInt(0), SymInt(0)), index.sizes());
  TESSERA_CHECK(std::max<int64_t>(src.dim(), 1) == std::max<int64_t>(index.dim(), 1),
                "Index tensor must have the same number of dimensions as src tensor");
  Tensor part = src;
  for (int64_t d = 0; d < src.dim() && d < index.dim(); ++d) {
    const int64_t n = index.sizes()[static_cast<size_t>(d)];
    TESSERA_CHECK(n <= src.sizes()[static_cast<size_t>(d)], "Expected index ", shape_string(index.sizes()),
                  " to be no larger than src ", shape_string(src.sizes()), " in each dimension");
    if (n != src.sizes()[static_cast<size_t>(d)]) part = narrow(part, d, SymInt(0), SymInt(n));
  }
  return part;
}

}  // namespace

Tensor _scatter_reduce_composite(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                                 int64_t reduce, bool include_self) {
  const Reduce r = static_cast<Reduce>(reduce);
  TESSERA_CHECK(self.dtype() == src.dtype(), "scatter(): Expected self.dtype to be equal to src.dtype");
  if (index.numel() == 0) return clone(self);
  const Tensor base = include_self ? self : scatter(self, dim, index, neutral(r, self.dtype()));
  const Tensor result = _scatter_reduced(base, dim, index, src, mode_of(r));
  if (r != Reduce::kMean) return result;
  const Tensor one = ones_like(index, DType::kInt64),
               start = full_like(self, Scalar(include_self ? 1 : 0), DType::kInt64);
  const Tensor count = clamp(scatter_add(start, dim, index, one), Scalar(1));
  return is_integral(self.dtype(), false)
             ? to(div(result, count, std::optional<std::string_view>("floor")), self.dtype())
             : div(result, to(count, self.dtype()));
}
Tensor scatter_reduce_impl(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                           std::string_view reduce, bool include_self) {
  wrap_dim(dim, self.dim());
  return _scatter_reduce(self, dim, index, src_window(src, index), static_cast<int64_t>(reduction(reduce, true)),
                         include_self);
}
Tensor index_reduce_impl(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                         std::string_view reduce, bool include_self) {
  const Reduce r = reduction(reduce, false);
  const int64_t d = wrap_dim(dim, self.dim());
  check_slices("index_reduce_", self, dim, index, source);
  if (index.is_cpu() && !values_unknown(index) && !is_transformed(index))
    check_places(contiguous(to(index, DType::kInt64)), d, 0, self.dim() ? self.sizes()[static_cast<size_t>(d)] : 1);
  if (self.dim() == 0)
    return _scatter_reduce(self, 0, reshape(index, {}), source, static_cast<int64_t>(r), include_self);
  IntVector shape(static_cast<size_t>(self.dim()), 1);
  shape[static_cast<size_t>(d)] = index.numel();
  return _scatter_reduce(self, d, expand(reshape(index, IntList(shape)), source.sizes()), source,
                         static_cast<int64_t>(r), include_self);
}

// --- copies with a part replaced ---

Tensor with_part(const Tensor& self, const Tensor& src, const char* name,
                 const std::function<Tensor(const Tensor&)>& part) {
  // Inside of function transforms the result has a batch if either of them has one.
  const Tensor result = inside_transform() ? add(self, new_zeros(src, IntVector{}, self.dtype())) : clone(self);
  const Tensor place = part(result);
  TESSERA_CHECK(std::ranges::equal(place.sizes(), src.sizes()), name,
                ": expected src to have a size equal to the slice of self. src size = ", shape_string(src.sizes()),
                ", slice size = ", shape_string(place.sizes()));
  copy_(place, src);
  return result;
}

const Tensor& fill_diagonal_impl(const Tensor& self, const Scalar& value, bool wrap) {
  TESSERA_CHECK(self.dim() >= 2, "dimensions must larger than 1");
  for (int64_t i = 1; self.dim() > 2 && i < self.dim(); ++i)
    TESSERA_CHECK(self.sizes()[static_cast<size_t>(i)] == self.sizes()[0],
                  "all dimensions of input must be of equal length");
  int64_t step = 0, shortest = self.sizes()[0];
  for (int64_t i = 0; i < self.dim(); ++i) {
    step += self.strides()[static_cast<size_t>(i)];
    shortest = std::min(shortest, self.sizes()[static_cast<size_t>(i)]);
  }
  if (self.numel() == 0) return self;
  fill_(as_strided(self, {shortest}, {step}, SymInt(self.storage_offset())), value);
  const int64_t rows = self.sizes()[0], columns = self.sizes()[1];
  // In a tall matrix the diagonal begins again below each square, one row left out.
  if (wrap && self.dim() == 2 && rows > columns + 1) {
    for (int64_t first = columns + 1; first < rows; first += columns + 1)
      fill_(as_strided(self, {std::min(rows - first, columns)}, {step},
                       SymInt(self.storage_offset() + first * self.strides()[0])),
            value);
  }
  return self;
}

// --- products ---

Tensor kron_impl(const Tensor& self, const Tensor& other) {
  const int64_t rank = std::max(self.dim(), other.dim());
  IntVector a, b, shape;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t x = i < rank - self.dim() ? 1 : self.sizes()[static_cast<size_t>(i - rank + self.dim())],
                  y = i < rank - other.dim() ? 1 : other.sizes()[static_cast<size_t>(i - rank + other.dim())];
    a.insert(a.end(), {x, 1});
    b.insert(b.end(), {1, y});
    shape.push_back(x * y);
  }
  return reshape(mul(reshape(self, IntList(a)), reshape(other, IntList(b))), IntList(shape));
}

int64_t first_of_size_3(const Tensor& self, const Tensor& other) {
  warn_once(
      "Using torch.cross without specifying the dim arg is deprecated.\n"
      "Please either pass the dim explicitly or simply use torch.linalg.cross.\n"
      "The default value of dim will change to agree with that of linalg.cross in a future release.");
  const IntVector shape = infer_broadcast(self.sizes(), other.sizes());
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 3) return static_cast<int64_t>(i);
  internal::raise<Error>("no dimension of size 3 in input");
}
Tensor cross_impl(const Tensor& self, const Tensor& other, int64_t dim) {
  TESSERA_CHECK(self.dim() == other.dim(), "linalg.cross: inputs must have the same number of dimensions, got ",
                self.dim(), " and ", other.dim());
  const int64_t d = wrap_dim(dim, self.dim());
  TESSERA_CHECK(
      self.dim() > 0 && self.sizes()[static_cast<size_t>(d)] == 3 && other.sizes()[static_cast<size_t>(d)] == 3,
      "linalg.cross: inputs dimension ", dim, " must have length 3. Got ",
      self.dim() ? self.sizes()[static_cast<size_t>(d)] : 0, " and ",
      self.dim() ? other.sizes()[static_cast<size_t>(d)] : 0);
  const int64_t back[1] = {1}, ahead[1] = {2}, dims[1] = {d};
  auto turned = [&](const Tensor& t, IntList by) { return roll(t, by, IntList(dims)); };
  // roll by 2 puts element i + 1 in place i, roll by 1 element i - 1.
  return sub(mul(turned(self, ahead), turned(other, back)), mul(turned(self, back), turned(other, ahead)));
}
Tensor vecdot_impl(const Tensor& x, const Tensor& y, int64_t dim) {
  TESSERA_CHECK(x.dtype() == y.dtype(), "linalg.vecdot: Expected x and y to have the same dtype, but found x of type ",
                name_of(x.dtype()), " and y of type ", name_of(y.dtype()), " instead");
  TESSERA_CHECK(x.is_floating_point() || x.is_complex(),
                "linalg.vecdot: Expected a floating point or complex tensor as input. Got ", type_name_of(x.dtype()));
  const int64_t dims[1] = {dim};
  return sum(mul(conj(x), y), IntList(dims));
}

Tensor vander_rows(const Tensor& x, std::optional<SymInt> n) {
  const Tensor base = x.dim() == 0 ? reshape(x, {1}) : x;
  const int64_t columns = n ? n->guard_int() : base.sizes().back();
  TESSERA_CHECK(columns > 1, "N must be greater than 1.");
  IntVector shape = to_vector(base.sizes());
  shape.push_back(columns - 1);
  const Tensor repeated = expand(unsqueeze(base, -1), IntList(shape));
  const Tensor powers = cumprod(to(repeated, sum_dtype(base.dtype())), -1);
  const Tensor parts[2] = {ones_like(narrow(powers, -1, SymInt(0), SymInt(1))), powers};
  return cat(parts, -1);
}
Tensor vander_impl(const Tensor& x, std::optional<int64_t> n, bool increasing) {
  TESSERA_CHECK(x.dim() == 1, "x must be a one-dimensional tensor.");
  const int64_t columns = n.value_or(x.numel());
  TESSERA_CHECK(columns >= 0, "N must be non-negative.");
  const DType t = sum_dtype(x.dtype());
  const Tensor exponents = arange(Scalar(columns), DType::kInt64, std::nullopt, x.device());
  const int64_t dims[1] = {1};
  Tensor result =
      columns == 0 ? zeros({x.numel(), 0}, t, std::nullopt, x.device()) : pow(unsqueeze(to(x, t), 1), exponents);
  return increasing ? result : flip(result, dims);
}

// --- integrals ---

namespace {
// Sums of neighbours along dim.
Tensor neighbour_sums(const Tensor& y, int64_t dim) {
  const int64_t n = y.sizes()[static_cast<size_t>(dim)], between = std::max<int64_t>(n - 1, 0);
  return add(narrow(y, dim, SymInt(0), SymInt(between)), narrow(y, dim, SymInt(n - between), SymInt(between)));
}
Tensor summed(const Tensor& areas, int64_t dim, bool running) {
  const int64_t dims[1] = {dim};
  return div(running ? cumsum(areas, dim) : sum(areas, IntList(dims)), Scalar(2.0));
}
Tensor empty_integral(const Tensor& y, int64_t dim) {
  IntVector shape = to_vector(y.sizes());
  shape.erase(shape.begin() + dim);
  return zeros(IntList(shape), y.dtype(), std::nullopt, y.device());
}
}  // namespace

Tensor trapezoid_impl(const Tensor& y, const Tensor& x, int64_t dim, bool running) {
  TESSERA_CHECK_INDEX(y.dim() > 0, "trapezoid: y needs at least one dimension; it has no dimensions");
  const int64_t d = wrap_dim(dim, y.dim());
  TESSERA_CHECK(y.dtype() != DType::kBool && x.dtype() != DType::kBool,
                "trapezoid: received a bool input for `x` or `y`, but bool is not supported");
  const int64_t n = y.sizes()[static_cast<size_t>(d)];
  if (n == 0 && !running) return empty_integral(y, d);
  Tensor steps;
  if (x.dim() == 1) {
    TESSERA_CHECK(x.sizes()[0] == n, "trapezoid: There must be one `x` value for each sample point. Got ", x.sizes()[0],
                  " values for ", n, " points");
    IntVector shape(static_cast<size_t>(y.dim()), 1);
    shape[static_cast<size_t>(d)] = std::max<int64_t>(n - 1, 0);
    steps = reshape(diff(x), IntList(shape));
  } else {
    Tensor wide = x;
    while (wide.dim() < y.dim()) wide = unsqueeze(wide, 0);
    TESSERA_CHECK(wide.dim() == y.dim(), "trapezoid: x has more dimensions (", x.dim(), ") than y (", y.dim(), ")");
    const int64_t m = wide.sizes()[static_cast<size_t>(d)];
    TESSERA_CHECK(m == n || n == 1 || m == 1, "trapezoid: There must be one `x` value for each sample point. Got ", m,
                  " values for ", n, " points");
    steps = diff(wide, 1, d);
  }
  return summed(mul(neighbour_sums(y, d), steps), d, running);
}
Tensor trapezoid_impl(const Tensor& y, const Scalar& dx, int64_t dim, bool running) {
  TESSERA_CHECK_INDEX(y.dim() > 0, "trapezoid: y needs at least one dimension; it has no dimensions");
  const int64_t d = wrap_dim(dim, y.dim());
  TESSERA_CHECK(y.dtype() != DType::kBool, "trapezoid: received a bool input for `y`, but bool is not supported");
  TESSERA_CHECK(!dx.is_complex(), "trapezoid: Currently, we only support dx as a real number.");
  if (y.sizes()[static_cast<size_t>(d)] == 0 && !running) return empty_integral(y, d);
  return mul(summed(neighbour_sums(y, d), d, running), dx);
}

std::tuple<Tensor, Tensor> frexp_Tensor_kernel(const Tensor& self) {
  TESSERA_CHECK(is_floating_point(self.dtype()), "torch.frexp() only supports floating-point dtypes");
  if (self.is_meta())
    return {empty_tensor(self.sizes(), {}, self.dtype(), self.device()),
            empty_tensor(self.sizes(), {}, DType::kInt32, self.device())};
  const Tensor x = contiguous(self), mantissa = empty_tensor(self.sizes(), {}, self.dtype(), self.device()),
               exponent = empty_tensor(self.sizes(), {}, DType::kInt32, self.device());
  if (x.numel()) TESSERA_ON(x.device(), run_frexp)
  (x.dtype(), x.numel(), mantissa.data_ptr(), exponent.data_ptr<int32_t>(), x.data_ptr());
  return {mantissa, exponent};
}

// --- windows ---

namespace {
DType window_dtype(const char* name, int64_t length, std::optional<DType> dtype) {
  const DType t = dtype.value_or(default_dtype());
  TESSERA_CHECK(length >= 0, name, " requires non-negative window_length, got window_length=", length);
  TESSERA_CHECK(is_floating_point(t), name, " expects floating point dtypes, got: ", name_of(t));
  return t;
}
// A periodic window is a symmetric one of one point more without its last.
Tensor window(const char* name, int64_t length, bool periodic, cpu::Sequence s, std::optional<DType> dtype,
              std::optional<Device> device) {
  const DType t = window_dtype(name, length, dtype);
  if (length <= 1) return ones({length}, t, std::nullopt, device);
  const Tensor r = empty(IntVector{length}, t, std::nullopt, device);
  s.count = length;
  s.span = static_cast<double>(periodic ? length : length - 1);
  if (!values_unknown(r)) TESSERA_ON(r.device(), run_sequence)(s, t, r.data_ptr());
  return r;
}
}  // namespace

Tensor cosine_window(int64_t length, bool periodic, std::span<const double> a, std::optional<DType> dtype,
                     std::optional<Device> device) {
  constexpr auto kMost = static_cast<size_t>(cpu::Sequence::kMostTerms);
  const auto some = [&](size_t first, std::optional<DType> t) {
    cpu::Sequence s{.kind = cpu::SequenceKind::kCosine, .first = static_cast<int64_t>(first)};
    s.num_terms = static_cast<int>(std::min(a.size() - first, kMost));
    std::copy_n(a.begin() + static_cast<std::ptrdiff_t>(first), s.num_terms, s.terms);
    return window("window", length, periodic, s, t, device);
  };
  if (a.size() <= kMost || length <= 1) return some(0, dtype);
  const Tensor sum = some(0, DType::kFloat64);
  for (size_t first = kMost; first < a.size(); first += kMost) sum.add_(some(first, DType::kFloat64));
  return sum.to(window_dtype("window", length, dtype));
}
Tensor triangle_window(int64_t length, bool periodic, std::optional<DType> dtype, std::optional<Device> device) {
  return window("bartlett_window", length, periodic, {.kind = cpu::SequenceKind::kTriangle}, dtype, device);
}
Tensor kaiser_impl(int64_t length, bool periodic, double beta, std::optional<DType> dtype,
                   std::optional<Device> device) {
  return window("kaiser_window", length, periodic, {.kind = cpu::SequenceKind::kBessel, .a = std::abs(beta)}, dtype,
                device);
}

}  // namespace tessera::kernels
