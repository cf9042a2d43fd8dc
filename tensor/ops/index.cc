// Gather, scatter, index tensors and masks: checks and geometry; the moves are done by tensor/cpu/index/index.h.
#include "tensor/core/warning.h"
#include "tensor/cpu/index/index.h"
#include "tensor/core/transforms.h"

#include <algorithm>

#include "tensor/engine/index.h"
#include "tensor/ops/dual.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/index_extra.h"
#include "tensor/ops/index_kernels.h"
#include "tensor/ops/plain.h"
#include "tensor/ops/options.h"
#include "tensor/ops/promotion.h"
#include "tensor/ops/strided.h"
#include "tensor/ops/structured.h"

namespace tessera::kernels {
namespace {

OutputSpec like(const Tensor& self) { return OutputSpec(self, self.sizes()); }  // row-major, whatever self's layout

Tensor int64_index(const Tensor& index) {
  TESSERA_CHECK(index.dtype() == DType::kInt64 || index.dtype() == DType::kInt32,
                "Expected dtype int64 for index, but got ", name_of(index.dtype()));
  return index.dtype() == DType::kInt64 ? index : to(index, DType::kInt64);
}
// A list of indices along a dimension: contiguous int64, 0-dim counts as one.
Tensor index_vector(const Tensor& index, const char* name) {
  TESSERA_CHECK_INDEX(index.dim() <= 1, name, "(): Index is supposed to be a vector, but got dim: ", index.dim(),
                      " with type: ", type_name_of(index.dtype()), " and size: ", shape_string(index.sizes()));
  TESSERA_CHECK(index.dtype() == DType::kInt64 || index.dtype() == DType::kInt32, name,
                "(): Expected dtype int32/int64 for index but got: ", type_name_of(index.dtype()));
  return contiguous(int64_index(index));
}

void check_gather(const char* name, const Tensor& self, int64_t dim, const Tensor& index, bool scatter) {
  const int64_t d = wrap_dim(dim, self.dim());
  if (index.numel() == 0) return;
  TESSERA_CHECK(index.dtype() == DType::kInt64 || index.dtype() == DType::kInt32, name,
                "(): Expected dtype int32/int64 for index");
  const int64_t rank = std::max<int64_t>(self.dim(), 1);
  TESSERA_CHECK(std::max<int64_t>(index.dim(), 1) == rank, "Index tensor must have the same number of dimensions as ",
                scatter ? "self" : "input", " tensor");
  for (int64_t i = 0; i < self.dim() && i < index.dim(); ++i)
    TESSERA_CHECK(
        i == d || index.sizes()[i] <= self.sizes()[i],
        scatter ? "Expected index " : "Size does not match at dimension ",
        scatter ? shape_string(index.sizes()) : std::to_string(i),
        scatter ? " to be no larger than self " : " expected index ",
        scatter ? shape_string(self.sizes()) : shape_string(index.sizes()),
        scatter ? str_cat(" apart from dimension ", d)
                : str_cat(" to be no larger than self ", shape_string(self.sizes()), " apart from dimension ", d));
}
void check_source(const Tensor& self, const Tensor& index, const Tensor& src) {
  TESSERA_CHECK(self.dtype() == src.dtype(), "scatter(): Expected self.dtype to be equal to src.dtype");
  if (index.numel() == 0) return;
  TESSERA_CHECK(std::max<int64_t>(src.dim(), 1) == std::max<int64_t>(index.dim(), 1),
                "Index tensor must have the same number of dimensions as src tensor");
  for (int64_t i = 0; i < src.dim() && i < index.dim(); ++i)
    TESSERA_CHECK(index.sizes()[i] <= src.sizes()[i], "Expected index ", shape_string(index.sizes()),
                  " to be no larger than src ", shape_string(src.sizes()));
}

void scatter_into(cpu::ScatterMode mode, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                  const Tensor& out) {
  copy__kernel(out, self, false);  // nothing to do for the in-place form, whose result is self
  if (index.numel() == 0) return;
  const Tensor i64 = int64_index(index);
  const int d = static_cast<int>(wrap_dim(dim, self.dim()));
  Strided to(out), from(src), where(i64);
  if (src.dim() == 0 && index.dim() > 0) std::fill(from.strides, from.strides + index.dim(), 0);
  TESSERA_ON(self.device(), run_scatter)
  (mode, at_least_1d(index.sizes()), d, self.dim() ? self.sizes()[d] : 1, to, from, where);
}

}  // namespace

// --- gather and scatter ---

OutputSpec gather_meta(const Tensor& self, int64_t dim, const Tensor& index, bool) {
  check_gather("gather", self, dim, index, false);
  return OutputSpec(index.sizes(), self.dtype(), self.device());
}
void gather_kernel(const Tensor& self, int64_t dim, const Tensor& index, bool, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor i64 = int64_index(index);
  const int d = static_cast<int>(wrap_dim(dim, self.dim()));
  Strided to(out), from(self), where(i64);
  TESSERA_ON(self.device(), run_gather)
  (at_least_1d(index.sizes()), d, self.dim() ? self.sizes()[d] : 1, to, from, where);
}

OutputSpec scatter_src_meta(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  check_gather("scatter", self, dim, index, true);
  check_source(self, index, src);
  return like(self);
}
void scatter_src_kernel(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  scatter_into(cpu::ScatterMode::kAssign, self, dim, index, src, out);
}
OutputSpec scatter_value_meta(const Tensor& self, int64_t dim, const Tensor& index, const Scalar&) {
  check_gather("scatter", self, dim, index, true);
  return like(self);
}
void scatter_value_kernel(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                          const Tensor& out) {
  scatter_into(cpu::ScatterMode::kAssign, self, dim, index, scalar_to_tensor(value, self.dtype()), out);
}
OutputSpec scatter_add_meta(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  return scatter_src_meta(self, dim, index, src);
}
void scatter_add_kernel(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  scatter_into(cpu::ScatterMode::kAdd, self, dim, index, src, out);
}
OutputSpec _scatter_reduced_meta(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                                 int64_t mode) {
  TESSERA_CHECK(mode >= 0 && mode <= static_cast<int64_t>(cpu::ScatterMode::kMin), "scatter: there is no mode ", mode);
  return scatter_src_meta(self, dim, index, src);
}
void _scatter_reduced_kernel(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, int64_t mode,
                             const Tensor& out) {
  scatter_into(static_cast<cpu::ScatterMode>(mode), self, dim, index, src, out);
}

namespace {
int64_t mode_of(std::string_view reduce) {
  TESSERA_CHECK(reduce == "add" || reduce == "multiply", "reduce argument must be either add or multiply.");
  return static_cast<int64_t>(reduce == "add" ? cpu::ScatterMode::kAdd : cpu::ScatterMode::kMultiply);
}
}  // namespace
Tensor scatter_named(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce) {
  const int64_t mode = mode_of(reduce);
  if (self.requires_grad() || src.requires_grad() || any_dual(self, src))
    return scatter_reduce(self, dim, index, src, reduce == "add" ? "sum" : "prod", true);
  return _scatter_reduced(self, dim, index, src, mode);
}
const Tensor& scatter_named_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                             std::string_view reduce) {
  if (self.requires_grad() || src.requires_grad() || any_dual(self, src))
    return structured::store_inplace(self, scatter_named(structured::before_write(self, src), dim, index, src, reduce)),
           self;
  return _scatter_reduced_(self, dim, index, src, mode_of(reduce));
}
Tensor value_of(const Tensor& self, const Tensor& index, const Scalar& value) {
  return full(index.sizes(), value, self.dtype(), std::nullopt, self.device());
}

// --- one dimension ---

OutputSpec index_select_meta(const Tensor& self, int64_t dim, const Tensor& index) {
  const int64_t d = wrap_dim(dim, self.dim());
  index_vector(index, "index_select");
  IntVector sizes = to_vector(self.sizes());
  if (self.dim() > 0)
    sizes[d] = index.numel();
  else
    TESSERA_CHECK(index.numel() == 1, "index_select(): Index to scalar can have only 1 value, got ", index.numel(),
                  " value(s)");
  return OutputSpec(sizes, {}, self.dtype(), self.device());
}
void index_select_kernel(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& out) {
  const Tensor i = index_vector(index, "index_select");
  Strided to(out), from(self);
  TESSERA_ON(self.device(), run_index_select)
  (at_least_1d(self.sizes()), static_cast<int>(wrap_dim(dim, self.dim())), to, from, i.data_ptr<int64_t>(), i.numel());
}

namespace {
// The places of a source along dim: as many indices it needs.
int64_t places_of(const char* name, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  const int64_t d = wrap_dim(dim, self.dim());
  index_vector(index, name);
  TESSERA_CHECK(self.dtype() == source.dtype(), name, "(): self (", type_name_of(self.dtype()), ") and source (",
                type_name_of(source.dtype()), ") must have the same scalar type");
  if (source.dim() == 0) return 1;
  TESSERA_CHECK_INDEX(d < source.dim(), name, "(): Indexing dim ", d,
                      " is out of bounds of the source tensor with dim ", source.dim());
  return source.sizes()[d];
}
// Whether the two have the same number of dimensions, and the same sizes but along dim.
bool same_slices(const Tensor& self, int64_t dim, const Tensor& source) {
  if (self.dim() != source.dim()) return false;
  const int64_t d = wrap_dim(dim, self.dim());
  for (int64_t i = 0; i < self.dim(); ++i)
    if (i != d && self.sizes()[i] != source.sizes()[i]) return false;
  return true;
}
}  // namespace

void check_places(const Tensor& index, int64_t dim, int64_t low, int64_t size) {
  if (!index.is_cpu()) return;  // a device reports it itself
  const int64_t* const p = index.data_ptr<int64_t>();
  for (int64_t i = 0; i < index.numel(); ++i)
    TESSERA_CHECK_INDEX(p[i] >= low && p[i] < size, "index ", p[i], " is out of bounds for dimension ", dim,
                        " with size ", size);
}
void check_slices(const char* name, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  const int64_t n = places_of(name, self, dim, index, source);
  TESSERA_CHECK(index.numel() == n, name, "(): Number of indices (", index.numel(),
                ") should be equal to source.size(dim): (", n, "), for dim: ", dim);
  TESSERA_CHECK(
      same_slices(self, dim, source),
      "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = ",
      shape_string(self.sizes()), " source.shape = ", shape_string(source.sizes()));
}
OutputSpec index_add_meta(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                          const Scalar& alpha) {
  check_slices("index_add_", self, dim, index, source);
  TESSERA_CHECK(self.is_floating_point() || self.is_complex() || alpha.is_integral(true),
                "For integral input tensors, argument alpha must not be a floating point number.");
  return like(self);
}
void index_add_kernel(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha,
                      const Tensor& out) {
  copy__kernel(out, self, false);  // nothing to do for the in-place form, whose result is self
  const Tensor i = index_vector(index, "index_add");
  const IntVector shape = at_least_1d(self.sizes());
  Strided to(out), from(source);
  TESSERA_ON(self.device(), run_index_add)
  (shape, static_cast<int>(wrap_dim(dim, self.dim())), to, from, i.data_ptr<int64_t>(), i.numel(),
   pointwise::to_param(alpha, self.dtype()));
}
OutputSpec index_copy_meta(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  const int64_t n = places_of("index_copy_", self, dim, index, source);
  TESSERA_CHECK_INDEX(self.dim() == source.dim() || self.dim() == 0 || source.dim() == 0,
                      "index_copy_(): When source and destination are not scalars, their dimensionality must match. "
                      "Source dimensionality (",
                      source.dim(), "), destination dimensionality (", self.dim(), ")");
  TESSERA_CHECK_INDEX(index.numel() == n, "index_copy_(): Number of indices (", index.numel(),
                      ") should be equal to source.size(dim): (", n, "), for dim: ", dim);
  // Slices of 0- and 1-dimensional tensors are numbers.
  TESSERA_CHECK(same_slices(self, dim, source) || (self.dim() <= 1 && source.dim() <= 1),
                "index_copy_(): Source/destination tensor must have same slice shapes. Destination shape: ",
                shape_string(self.sizes()), " at dimension ", dim, " and source shape: ", shape_string(source.sizes()));
  return like(self);
}
namespace {
// index along dim, broadcast to `shape`, for run_scatter.
Tensor index_over(const Tensor& index, int64_t dim, IntList shape) {
  IntVector view_shape(shape.size(), 1);
  view_shape[static_cast<size_t>(dim)] = index.numel();
  return expand(reshape(index, view_shape), shape);
}
void write_slices(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& out) {
  copy__kernel(out, self, false);  // nothing to do for the in-place form, whose result is self
  const Tensor i = index_vector(index, "index_copy_");
  if (i.numel() == 0 || out.numel() == 0) return;
  const int64_t d = wrap_dim(dim, self.dim()), n = self.dim() ? self.sizes()[d] : 1;
  check_places(i, d, -n, n);
  const Tensor wrapped = where(lt(i, 0), add(i, n), i);
  IntVector shape = at_least_1d(self.sizes());
  shape[d] = i.numel();
  const Tensor over = index_over(wrapped, d, shape);
  Strided to(out), where_(over), from(source, shape);
  TESSERA_ON(self.device(), run_scatter)(cpu::ScatterMode::kAssign, shape, static_cast<int>(d), n, to, from, where_);
}
}  // namespace
void index_copy_kernel(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& out) {
  write_slices(self, dim, index, source, out);
}
namespace {
// Error where value would overflow.
void check_fits(const Scalar& value, DType t) {
  alignas(16) char scratch[16];
  store_scalar(value, t, scratch, true);
}
}  // namespace
OutputSpec index_fill_int_Scalar_meta(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  wrap_dim(dim, self.dim());
  index_vector(index, "index_fill_");
  TESSERA_CHECK(self.is_complex() || !value.is_complex(),
                "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  check_fits(value, self.dtype());
  return OutputSpec(to_vector(self.sizes()), preserved_strides(self), self.dtype(), self.device());
}
void index_fill_int_Scalar_kernel(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value,
                                  const Tensor& out) {
  write_slices(self, dim, index, scalar_to_tensor(value, self.dtype()), out);
}
Tensor index_fill_tensor(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  TESSERA_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
  if (!value.requires_grad() && !any_dual(value) && !values_unknown(value) && !is_observed())
    return index_fill(self, dim, index, value.item_scalar());
  // A place that is named twice is filled once: value's gradient counts it once.
  const Tensor filled = index_fill(zeros(self.sizes(), DType::kBool, std::nullopt, self.device()), dim, index, true);
  return where(filled, to(value, self.dtype()), self);
}

Tensor take_impl(const Tensor& self, const Tensor& index) {
  TESSERA_CHECK(index.dtype() == DType::kInt64, "take(): Expected a long tensor for index, but got ",
                type_name_of(index.dtype()));
  TESSERA_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
  const Tensor list[1] = {reshape(index, {-1})};
  return reshape(tessera::index(reshape(self, {-1}), list), index.sizes());
}
Tensor put_impl(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  TESSERA_CHECK(index.dtype() == DType::kInt64, "put_(): Expected a long tensor for index, but got ",
                type_name_of(index.dtype()));
  TESSERA_CHECK(self.dtype() == source.dtype(),
                "put_(): self and source expected to have the same dtype, but got self.dtype = ",
                type_name_of(self.dtype()), " and source.dtype = ", type_name_of(source.dtype()));
  TESSERA_CHECK(index.numel() == source.numel(),
                "put_(): Expected source and index to have the same number of elements, but got source.numel() = ",
                source.numel(), ", index.numel() = ", index.numel());
  TESSERA_CHECK_INDEX(self.numel() > 0 || index.numel() == 0, "put_(): Tried to put elements into an empty tensor");
  const Tensor list[1] = {reshape(index, {-1})};
  return reshape(index_put(reshape(self, {-1}), list, reshape(source, {-1}), accumulate), self.sizes());
}
Tensor take_along_impl(const Tensor& self, const Tensor& indices, std::optional<int64_t> dim) {
  TESSERA_CHECK(indices.dtype() == DType::kInt64, "torch.take_along_dim(): dtype of indices should be Long but got ",
                type_name_of(indices.dtype()));
  if (!dim) return gather(reshape(self, {-1}), 0, reshape(indices, {-1}));
  TESSERA_CHECK(self.dim() == indices.dim(),
                "torch.take_along_dim(): input and indices should have the same number of dimensions, but got ",
                self.dim(), " dimensions for input, and ", indices.dim(), " dimensions for indices");
  const int64_t d = wrap_dim(*dim, self.dim());
  IntVector a = to_vector(self.sizes()), b = to_vector(indices.sizes());
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (i == d) continue;
    TESSERA_CHECK(a[i] == b[i] || a[i] == 1 || b[i] == 1, "The size of tensor a (", a[i],
                  ") must match the size of tensor b (", b[i], ") at non-singleton dimension ", i);
    a[i] = b[i] = a[i] == 1 ? b[i] : a[i];
  }
  return gather(expand(self, a), d, expand(where(lt(indices, 0), add(indices, self.sizes()[d]), indices), b));
}

// --- index tensors ---

namespace {

// x[indices] brought to engine form: the indexed dimensions, where their indices go in the result, and the walk over
// self.
struct IndexPlan {
  Tensor self;                  // indexed dimensions first if they were apart
  std::vector<Tensor> indices;  // int64, expanded to the common shape
  IntVector result, indexed_sizes, indexed_strides;
  int64_t first = 0, index_rank = 0;  // the index shape's place in the result

  IndexPlan(const Tensor& t, TensorList given);
  void fill_walk(int64_t* strides) const;  // of self over the result's dimensions
  void fill_index(size_t k, int64_t* strides) const;
};

std::vector<Tensor> expand_masks(const Tensor& self, TensorList given) {
  std::vector<Tensor> r;
  for (const Tensor& index : given) {
    Tensor i = index;
    TESSERA_CHECK(!i.defined() || i.device() == self.device() || (i.is_cpu() && !self.is_meta()),
                  "indices should be either on cpu or on the same device as the indexed tensor (", self.device().str(),
                  "), got one on ", i.device().str());
    if (i.defined() && i.device() != self.device()) i = to(i, self.device(), i.dtype());
    if (i.defined() && (i.dtype() == DType::kBool || i.dtype() == DType::kUInt8)) {
      if (i.dtype() == DType::kUInt8)
        warn("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.");
      const int64_t at = static_cast<int64_t>(r.size());
      for (int64_t d = 0; d < i.dim(); ++d) {
        TESSERA_CHECK_INDEX(at + d < self.dim() && i.sizes()[d] == self.sizes()[at + d], "The shape of the mask ",
                            shape_string(i.sizes()), " at index ", d,
                            " does not match the shape of the indexed tensor ", shape_string(self.sizes()),
                            " at index ", at + d);
      }
      const Tensor where = nonzero(i);
      for (int64_t d = 0; d < i.dim(); ++d) r.push_back(select(where, 1, d));
    } else {
      if (i.defined())
        TESSERA_CHECK_INDEX(i.dtype() == DType::kInt64 || i.dtype() == DType::kInt32 || i.dtype() == DType::kInt16 ||
                                i.dtype() == DType::kInt8,
                            "tensors used as indices must be long, int, byte or bool tensors");
      r.push_back(i.defined() && i.dtype() != DType::kInt64 ? to(i, DType::kInt64) : i);
    }
  }
  TESSERA_CHECK_INDEX(static_cast<int64_t>(r.size()) <= self.dim(), "too many indices for tensor of dimension ",
                      self.dim(), " (got ", r.size(), ")");
  return r;
}

IndexPlan::IndexPlan(const Tensor& t, TensorList given) : self(t) {
  std::vector<Tensor> list = expand_masks(t, given);
  list.resize(static_cast<size_t>(t.dim()));
  IntVector shape;
  int64_t begin = -1, end = -1, count = 0;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (!list[d].defined()) continue;
    try {
      shape = infer_broadcast(shape, list[d].sizes());
    } catch (const Error&) {
      std::string shapes;
      for (const Tensor& i : list)
        if (i.defined()) shapes += (shapes.empty() ? "" : ", ") + shape_string(i.sizes());
      throw IndexError("shape mismatch: indexing tensors could not be broadcast together with shapes " + shapes);
    }
    if (begin < 0) begin = d;
    end = d + 1;
    ++count;
  }
  TESSERA_CHECK_INDEX(count > 0, "index: at least one index tensor is needed");
  if (count != end - begin) {  // apart: to the front
    IntVector order;
    for (int64_t d = 0; d < t.dim(); ++d)
      if (list[d].defined()) order.push_back(d);
    for (int64_t d = 0; d < t.dim(); ++d)
      if (!list[d].defined()) order.push_back(d);
    self = permute(t, order);
    std::stable_partition(list.begin(), list.end(), [](const Tensor& i) { return i.defined(); });
    begin = 0;
    end = count;
  }
  first = begin;
  index_rank = static_cast<int64_t>(shape.size());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d == begin) result.insert(result.end(), shape.begin(), shape.end());
    if (d >= begin && d < end) {
      indices.push_back(expand(list[d], shape));
      indexed_sizes.push_back(self.sizes()[d]);
      indexed_strides.push_back(self.strides()[d] * self.item_size());
    } else {
      result.push_back(self.sizes()[d]);
    }
  }
  // Nothing can be taken from a dimension of size 0.
  const bool wants = std::find(shape.begin(), shape.end(), 0) == shape.end();
  for (int64_t s : indexed_sizes)
    TESSERA_CHECK_INDEX(!wants || s != 0 || checked_numel(result) == 0 || indices[0].numel() == 0,
                        "index is out of bounds for dimension with size 0");
}
void IndexPlan::fill_walk(int64_t* strides) const {
  int64_t k = 0;
  const int64_t n = static_cast<int64_t>(indexed_sizes.size());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d == first)
      for (int64_t i = 0; i < index_rank; ++i) strides[k++] = 0;
    if (d < first || d >= first + n) strides[k++] = self.strides()[d] * self.item_size();
  }
}
void IndexPlan::fill_index(size_t which, int64_t* strides) const {
  std::fill(strides, strides + result.size(), 0);
  for (int64_t i = 0; i < index_rank; ++i) strides[first + i] = indices[which].strides()[i] * 8;
}

struct IndexOperands {
  std::vector<IntVector> strides;
  std::vector<cpu::Operand> operands;
  explicit IndexOperands(const IndexPlan& p) {
    strides.resize(p.indices.size());
    for (size_t k = 0; k < p.indices.size(); ++k) {
      strides[k].resize(std::max<size_t>(p.result.size(), 1));
      p.fill_index(k, strides[k].data());
      operands.push_back({p.indices[k].data_ptr(), DType::kInt64, strides[k].data()});
    }
  }
};

}  // namespace

Tensor index_tensor_meta(const Tensor& self, TensorList indices) {
  for (const Tensor& i : indices)
    TESSERA_CHECK_NOT_IMPLEMENTED(!i.defined() || (i.dtype() != DType::kBool && i.dtype() != DType::kUInt8),
                                  "index: the size of a result selected by a mask is not known on the meta device");
  const IndexPlan plan(self, indices);
  return empty_tensor(plan.result, {}, self.dtype(), self.device());
}
namespace {
// A single mask over all of self: x[mask] is then a selection, and no positions need be known.
bool is_whole_mask(const Tensor& self, TensorList indices) {
  return indices.size() == 1 && indices[0].defined() && indices[0].dtype() == DType::kBool &&
         indices[0].device() == self.device() && self.dim() > 0 && indices[0].dim() == self.dim() &&
         std::ranges::equal(indices[0].sizes(), self.sizes());
}
}  // namespace
Tensor index_Tensor_kernel(const Tensor& self, TensorList indices) {
  if (is_whole_mask(self, indices)) return masked_select(self, indices[0]);
  const IndexPlan plan(self, indices);
  const Tensor out = empty_tensor(plan.result, {}, self.dtype(), self.device());
  if (out.numel() == 0) return out;
  const IndexOperands idx(plan);
  int64_t walk[64];
  plan.fill_walk(walk);
  Strided to(out);
  TESSERA_ON(self.device(), run_index_get)
  (plan.result, to, {plan.self.data_ptr(), self.dtype(), walk}, idx.operands, plan.indexed_sizes, plan.indexed_strides,
   {});
  return out;
}
namespace {
void same_device(const Tensor& self, const Tensor& other) {
  TESSERA_CHECK(self.device() == other.device() || (other.dim() == 0 && other.is_cpu()),
                "Expected all tensors to be on the same device, but found at least two devices, ", self.device().str(),
                " and ", other.device().str(), "!");
}
}  // namespace
namespace {
bool is_mask(const Tensor& index) {
  return index.defined() && (index.dtype() == DType::kBool || index.dtype() == DType::kUInt8);
}
// values in self's dtype and with dimensions that broadcast, where they may have others: one number without dimensions,
// or that goes where one mask says; it has to fit.
Tensor converted_values(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  if (accumulate || values.numel() != 1 || (self.dtype() == values.dtype() && values.dim() <= 1)) return values;
  const auto given = std::ranges::count_if(indices, [](const Tensor& i) { return i.defined(); });
  if (values.dim() > 0 && !(given == 1 && std::ranges::any_of(indices, is_mask))) return values;
  if (values.is_cpu() && !values_unknown(values)) check_fits(values.item_scalar(), self.dtype());
  return to(reshape(values, {}), self.dtype());
}
// x[mask] = one number, or as many as are set. False if values have another shape.
bool put_by_mask(const Tensor& self, const Tensor& mask, const Tensor& values) {
  if (values.numel() == 1 && values.dim() <= 1 && self.dtype() != DType::kUInt64) {
    // An alias with versions of its own: those of self are counted by the caller.
    _masked_fill_(Tensor(self.impl()->shallow_copy(/*shares_version=*/false)), mask, values.item_scalar());
    return true;
  }
  if (values.dim() != 1) return false;
  Strided m(mask);
  if (cpu::run_count_nonzero(mask.sizes(), m) != values.numel()) return false;
  masked_scatter_inplace(self, mask, values);
  return true;
}
}  // namespace

const Tensor& index_put_inplace(const Tensor& self, TensorList indices, const Tensor& given, bool accumulate) {
  check_no_internal_overlap(self);
  same_device(self, given);
  const Tensor values = converted_values(self, indices, given, accumulate);
  if (!accumulate && self.dtype() == values.dtype() && self.is_cpu() && values.is_cpu() &&
      is_whole_mask(self, indices) && !values_unknown(self) && put_by_mask(self, indices[0], values))
    return self;
  if (self.is_meta() && std::ranges::any_of(indices, is_mask))
    return self;  // how many elements the mask selects is not known
  const IndexPlan plan(self, indices);
  const IntVector broadcast = [&] {
    try {
      return infer_broadcast(plan.result, values.sizes());
    } catch (const Error&) { return IntVector{-1}; }
  }();
  TESSERA_CHECK(std::ranges::equal(broadcast, plan.result), "shape mismatch: value tensor of shape ",
                shape_string(values.sizes()), " cannot be broadcast to indexing result of shape ",
                shape_string(plan.result));
  TESSERA_CHECK(self.dtype() == values.dtype(), "Index put requires the source and destination dtypes match, got ",
                type_name_of(self.dtype()), " for the destination and ", type_name_of(values.dtype()),
                " for the source.");
  if (self.is_meta() || checked_numel(plan.result) == 0) return self;
  const Tensor source = memory_sharing(self, values) == Sharing::kNone ? values : clone(values);
  const IndexOperands idx(plan);
  int64_t walk[64];
  plan.fill_walk(walk);
  Strided from(source, plan.result);
  TESSERA_ON(self.device(), run_index_put)
  (plan.result, {plan.self.data_ptr(), self.dtype(), walk}, from, idx.operands, plan.indexed_sizes,
   plan.indexed_strides, accumulate, {});
  return self;
}
Tensor index_put_copy(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  const Tensor r = clone_kernel(self, MemoryFormat::kPreserve);
  index_put_inplace(r, indices, values, accumulate);
  return r;
}

// --- masks ---

namespace {
void check_mask(const Tensor& mask, const char* name) {
  TESSERA_CHECK(mask.dtype() == DType::kBool, name, ": expected BoolTensor for mask, but got ",
                type_name_of(mask.dtype()));
}
}  // namespace

Tensor masked_select_kernel(const Tensor& self, const Tensor& mask) {
  check_mask(mask, "masked_select");
  TESSERA_CHECK(mask.device() == self.device(), "masked_select: expected self and mask to be on the same device, but ",
                "got ", self.device().str(), " and ", mask.device().str());
  const IntVector shape = infer_broadcast(self.sizes(), mask.sizes());
  Strided from(self, shape), m(mask, shape);
  const int64_t n[1] = {TESSERA_ON(self.device(), run_count_nonzero)(shape, m)};
  const Tensor out = empty_tensor(n, {}, self.dtype(), self.device());
  TESSERA_ON(self.device(), run_masked_select)(shape, out.data_ptr(), from, m);
  return out;
}
const Tensor& masked_scatter_inplace(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check_mask(mask, "masked_scatter_");
  same_device(self, mask);
  same_device(self, source);
  TESSERA_CHECK(self.dtype() == source.dtype(), "masked_scatter: expected self and source to have same dtypes but got ",
                type_name_of(self.dtype()), " and ", type_name_of(source.dtype()));
  const IntVector shape = infer_broadcast(self.sizes(), mask.sizes());
  TESSERA_CHECK(std::ranges::equal(shape, self.sizes()), "output with shape ", shape_string(self.sizes()),
                " doesn't match the broadcast shape ", shape_string(shape));
  check_no_internal_overlap(self);
  if (self.is_meta()) return self;
  const Tensor src =
      memory_sharing(self, source) == Sharing::kNone ? contiguous(source) : clone(source, MemoryFormat::kContiguous);
  Strided to(self), m(mask, shape);
  TESSERA_ON(self.device(), run_masked_scatter)(shape, to, m, src.data_ptr(), src.numel());
  return self;
}
Tensor masked_scatter_copy(const Tensor& self, const Tensor& mask, const Tensor& source) {
  const IntVector shape = infer_broadcast(self.sizes(), mask.sizes());
  const Tensor r = clone_kernel(expand(self, shape), MemoryFormat::kContiguous);
  masked_scatter_inplace(r, mask, source);
  return r;
}
Tensor nonzero_static_meta(const Tensor& self, SymInt size, int64_t) {
  TESSERA_CHECK(size.guard_int() >= 0, "nonzero_static: 'size' must be a non-negative integer, got ", size.guard_int());
  const int64_t sizes[2] = {size.guard_int(), self.dim()};
  return empty_tensor(sizes, {}, DType::kInt64, self.device());
}
Tensor nonzero_static_kernel(const Tensor& self, SymInt size, int64_t fill_value) {
  const Tensor out = nonzero_static_meta(self, size, fill_value), found = nonzero(self);
  const int64_t n = std::min(found.size(0), out.size(0));
  fill_(out, fill_value);
  copy_(narrow(out, 0, 0, n), narrow(found, 0, 0, n));
  return out;
}
Tensor nonzero_kernel(const Tensor& self) {
  Strided in(self);
  const int64_t n = TESSERA_ON(self.device(), run_count_nonzero)(self.sizes(), in), rank = self.dim();
  // One column per dimension, as documented; the columns lie apart in memory, so that each is contiguous.
  const int64_t sizes[2] = {n, rank}, strides[2] = {1, n};
  const Tensor out = n > 0 && rank > 0 ? empty_tensor(sizes, strides, DType::kInt64, self.device())
                                       : empty_tensor(sizes, {}, DType::kInt64, self.device());
  if (n > 0 && rank > 0) TESSERA_ON(self.device(), run_nonzero)(self.sizes(), in, out.data_ptr<int64_t>(), 8, 8 * n);
  return out;
}

}  // namespace tessera::kernels
