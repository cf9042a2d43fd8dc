// Views: new sizes, strides and offsets over the same storage.
#include <algorithm>
#include <numeric>

#include "tensor/ops/api.h"
#include "tensor/ops/view_extra.h"
#include "tensor/ops/view_kernels.h"

namespace tessera::kernels {
namespace {

// Geometry to be changed and made a view, or put into a tensor itself.
struct Geometry {
  IntVector sizes, strides;
  int64_t offset;
  explicit Geometry(const Tensor& t)
      : sizes(to_vector(t.sizes())), strides(to_vector(t.strides())), offset(t.storage_offset()) {}
  Tensor view_of(const Tensor& t) const { return make_view(t, sizes, strides, offset); }
  const Tensor& put_into(const Tensor& t) const {
    t.impl()->set_sizes_and_strides(sizes, strides);
    t.impl()->set_storage_offset(offset);
    return t;
  }
};

Geometry transposed(const Tensor& t, int64_t a, int64_t b) {
  Geometry g(t);
  a = wrap_dim(a, t.dim());
  b = wrap_dim(b, t.dim());
  if (t.dim() == 0) return g;
  std::swap(g.sizes[a], g.sizes[b]);
  std::swap(g.strides[a], g.strides[b]);
  return g;
}

Geometry t_geometry(const Tensor& t) {
  TESSERA_CHECK(t.dim() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", t.dim(), "D");
  return t.dim() < 2 ? Geometry(t) : transposed(t, 0, 1);
}

Geometry unsqueezed(const Tensor& t, int64_t dim) {
  Geometry g(t);
  dim = wrap_dim(dim, t.dim() + 1);
  const int64_t stride = dim < t.dim() ? g.sizes[dim] * g.strides[dim] : 1;
  g.sizes.insert(g.sizes.begin() + dim, 1);
  g.strides.insert(g.strides.begin() + dim, stride);
  return g;
}

Geometry squeezed(const Tensor& t, uint64_t mask) {
  Geometry g(t);
  g.sizes.clear();
  g.strides.clear();
  for (int64_t i = 0; i < t.dim(); ++i) {
    if ((mask >> i & 1) && t.sizes()[i] == 1) continue;
    g.sizes.push_back(t.sizes()[i]);
    g.strides.push_back(t.strides()[i]);
  }
  return g;
}
uint64_t dim_mask(const Tensor& t, IntList dims) {
  uint64_t mask = 0;
  for (int64_t d : dims) {
    const int64_t w = wrap_dim(d, t.dim());
    TESSERA_CHECK(!(mask >> w & 1), "dim ", w, " appears multiple times in the list of dims");
    mask |= uint64_t{1} << w;
  }
  return mask;
}

// Bytes [0, limit) that a geometry may reach.
void check_in_storage(const Tensor& t, IntList sizes, IntList strides, int64_t offset) {
  TESSERA_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape");
  TESSERA_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  int64_t last = offset;
  bool empty = false, overflow = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    TESSERA_CHECK(sizes[i] >= 0, "as_strided: sizes must not be negative, got ", shape_string(sizes));
    TESSERA_CHECK(strides[i] >= 0,
                  "as_strided: Negative strides are not supported at the moment, got strides: ", shape_string(strides));
    empty |= sizes[i] == 0;
    int64_t reach = 0;
    overflow |= sizes[i] > 0 && (__builtin_mul_overflow(sizes[i] - 1, strides[i], &reach) ||
                                 __builtin_add_overflow(last, reach, &last));
  }
  if (empty) return;
  int64_t bytes = 0;
  const int64_t have = t.storage() ? static_cast<int64_t>(t.storage()->nbytes()) : 0;
  overflow = overflow || __builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, t.item_size(), &bytes);
  TESSERA_CHECK(!overflow && bytes <= have, "setStorage: sizes ", shape_string(sizes), ", strides ",
                shape_string(strides), ", storage offset ", offset, ", and itemsize ", t.item_size(),
                " requiring a storage size of ", bytes, " are out of bounds for storage of size ", have);
  checked_numel(sizes);
}

Tensor as_view(const Tensor& self, IntList sizes) {
  const IntVector wanted = infer_size(sizes, self.numel());
  if (self.is_contiguous()) return make_view(self, wanted, contiguous_strides(wanted), self.storage_offset());
  const auto strides = compute_view_strides(self.sizes(), self.strides(), wanted);
  TESSERA_CHECK(strides,
                "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
                "two contiguous subspaces). Use .reshape(...) instead.");
  return make_view(self, wanted, *strides, self.storage_offset());
}

Tensor zeros_of(const Tensor& like, IntList sizes) {
  Tensor r = empty_tensor(sizes, {}, like.dtype(), like.device());
  zero_(r);
  return r;
}

}  // namespace

// --- aliases ---

Tensor alias_view(const Tensor& self) { return Geometry(self).view_of(self); }

Tensor detach_kernel(const Tensor& self) {
  // For autograd a tensor of its own; in place, still the same memory and version.
  return Tensor(self.impl()->shallow_copy(/*shares_version=*/true));
}
const Tensor& detach__kernel(const Tensor& self) {
  TESSERA_CHECK(!self.is_view(),
                "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
                "training, and "
                "gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence detach_() "
                "cannot be called on these gradients.");
  if (AutogradMeta* m = self.impl()->autograd_meta()) {
    m->reset_grad_fn();
    m->requires_grad = false;
  }
  self.impl()->update_autograd_key();
  return self;
}

Tensor as_strided_view(const Tensor& self, SymIntList size, SymIntList stride, std::optional<SymInt> storage_offset) {
  const int64_t offset = storage_offset ? storage_offset->guard_int() : self.storage_offset();
  check_in_storage(self, size.ints(), stride.ints(), offset);
  return make_view(self, size.ints(), stride.ints(), offset);
}
const Tensor& as_strided__kernel(const Tensor& self, SymIntList size, SymIntList stride,
                                 std::optional<SymInt> storage_offset) {
  const int64_t offset = storage_offset ? storage_offset->guard_int() : self.storage_offset();
  check_in_storage(self, size.ints(), stride.ints(), offset);
  self.impl()->set_sizes_and_strides(size.ints(), stride.ints());
  self.impl()->set_storage_offset(offset);
  return self;
}

namespace {
struct Window {
  IntList sizes, strides;
  int64_t offset;
};
// Elements up to the window's last one. Error unless it is a window that a tensor can have.
int64_t reach_of(const Window& w) {
  TESSERA_CHECK(w.sizes.size() == w.strides.size(), "mismatch in length of strides and shape: ", w.strides.size(),
                " and ", w.sizes.size());
  bool sound = w.offset >= 0;
  __int128 reach = w.offset;
  for (size_t i = 0; i < w.sizes.size(); ++i) {
    sound = sound && w.sizes[i] >= 0 && w.strides[i] >= 0;
    reach += static_cast<__int128>(w.sizes[i] > 0 ? w.sizes[i] - 1 : 0) * w.strides[i];
    sound = sound && reach < INT64_MAX / 16;
  }
  TESSERA_CHECK(sound, "as_strided: sizes ", shape_string(w.sizes), ", strides ", shape_string(w.strides),
                " and offset ", w.offset, " (from the lower of the two) must be non-negative and in reach");
  int64_t last = w.offset;
  for (size_t i = 0; i < w.sizes.size(); ++i) {
    if (w.sizes[i] == 0) return 0;
    last += (w.sizes[i] - 1) * w.strides[i];
  }
  return last + 1;
}
Tensor window(const Tensor& buffer, const Window& w) { return make_view(buffer, w.sizes, w.strides, w.offset); }
bool overlaps(const Tensor& t) { return internal_overlap(t) != Overlap::kNo; }
// Adds `values` into a window whose positions may repeat.
void add_into(const Tensor& buffer, const Window& w, const Tensor& values) {
  const Tensor view = window(buffer, w);
  if (!overlaps(view)) {
    add_(view, values);
    return;
  }
  const Tensor positions = window(arange(buffer.numel(), DType::kInt64, std::nullopt, buffer.device()), w);
  index_add_(buffer, 0, reshape(positions, {-1}), reshape(values, {-1}));
}
}  // namespace

Tensor as_strided_backward_kernel(const Tensor& grad, SymIntList base_size, SymIntList base_stride, SymInt base_offset,
                                  SymIntList size, SymIntList stride, SymInt offset) {
  // Both windows on one buffer that starts at the lower of the two offsets.
  TESSERA_CHECK(base_offset.guard_int() >= 0 && offset.guard_int() >= 0,
                "as_strided: offsets must be non-negative, got ", base_offset.guard_int(), " and ", offset.guard_int());
  const int64_t origin = std::min(base_offset.guard_int(), offset.guard_int());
  const Window base{base_size.ints(), base_stride.ints(), base_offset.guard_int() - origin},
      view{size.ints(), stride.ints(), offset.guard_int() - origin};
  const int64_t n[1] = {std::max<int64_t>({reach_of(base), reach_of(view), 1})};
  TESSERA_CHECK(std::ranges::equal(grad.sizes(), view.sizes), "as_strided: the gradient has shape ",
                shape_string(grad.sizes()), ", the view ", shape_string(view.sizes));
  const Tensor buffer = zeros_of(grad, n);
  if (grad.numel()) add_into(buffer, view, grad);
  const Tensor in_base = window(buffer, base);
  Tensor result = clone(in_base, MemoryFormat::kContiguous);
  if (overlaps(in_base) && result.numel()) {
    // Elements of the base that share memory share the gradient.
    const Tensor counts = zeros_of(grad, n);
    add_into(counts, base, ones_like(result));
    result = result / window(counts, base);
  }
  return result;
}

Tensor as_strided_gather_kernel(const Tensor& base, SymIntList base_size, SymIntList base_stride, SymInt base_offset,
                                SymIntList size, SymIntList stride, SymInt offset) {
  TESSERA_CHECK(base_offset.guard_int() >= 0 && offset.guard_int() >= 0,
                "as_strided: offsets must be non-negative, got ", base_offset.guard_int(), " and ", offset.guard_int());
  const int64_t origin = std::min(base_offset.guard_int(), offset.guard_int());
  const Window from{base_size.ints(), base_stride.ints(), base_offset.guard_int() - origin},
      view{size.ints(), stride.ints(), offset.guard_int() - origin};
  const int64_t n[1] = {std::max<int64_t>({reach_of(from), reach_of(view), 1})};
  TESSERA_CHECK(std::ranges::equal(base.sizes(), from.sizes), "as_strided: the base has shape ",
                shape_string(base.sizes()), ", expected ", shape_string(from.sizes));
  const Tensor buffer = zeros_of(base, n);
  if (base.numel()) add_into(buffer, from, base);
  return clone(window(buffer, view), MemoryFormat::kContiguous);
}

// --- shapes ---

Tensor view_view(const Tensor& self, SymIntList size) { return as_view(self, size.ints()); }
Tensor _reshape_alias_view(const Tensor& self, SymIntList size) { return as_view(self, size.ints()); }

namespace {
// Bytes read as another dtype share memory and versions with self, but are no view of it for autograd: there is no
// derivative.
Tensor reinterpreted(const Tensor& self, const Geometry& g, int64_t offset, DType dtype) {
  Tensor r = make_view(self, g.sizes, g.strides, offset, dtype);
  r.impl()->set_view_base({}, ViewCreation::kDefault);
  r.impl()->update_autograd_key();
  return r;
}
}  // namespace

Tensor view_dtype_view(const Tensor& self, DType dtype) {
  const int64_t from = self.item_size(), to_size = item_size(dtype);
  TESSERA_CHECK(!self.is_conj(),
                "torch.Tensor.view is not supported for conjugate view tensors when converting to a different dtype.");
  TESSERA_CHECK(
      !self.is_neg(),
      "torch.Tensor.view is not supported for tensors with negative bit set when converting to a different dtype.");
  Geometry g(self);
  if (from == to_size) return reinterpreted(self, g, g.offset, dtype);
  TESSERA_CHECK(self.dim() > 0, "self.dim() cannot be 0 to view ", type_name_of(self.dtype()), " as ",
                type_name_of(dtype), " (different element sizes)");
  TESSERA_CHECK(g.strides.back() == 1, "self.stride(-1) must be 1 to view ", type_name_of(self.dtype()), " as ",
                type_name_of(dtype), " (different element sizes), but got ", g.strides.back());
  if (from > to_size) {
    const int64_t ratio = from / to_size;
    for (size_t i = 0; i + 1 < g.strides.size(); ++i) g.strides[i] *= ratio;
    g.sizes.back() *= ratio;
    return reinterpreted(self, g, g.offset * ratio, dtype);
  }
  const int64_t ratio = to_size / from;
  TESSERA_CHECK(g.sizes.back() % ratio == 0, "self.size(-1) must be divisible by ", ratio, " to view ",
                type_name_of(self.dtype()), " as ", type_name_of(dtype), " (different element sizes), but got ",
                g.sizes.back());
  TESSERA_CHECK(g.offset % ratio == 0, "self.storage_offset() must be divisible by ", ratio, " to view ",
                type_name_of(self.dtype()), " as ", type_name_of(dtype), " (different element sizes), but got ",
                g.offset);
  for (size_t i = 0; i + 1 < g.strides.size(); ++i) {
    TESSERA_CHECK(g.strides[i] % ratio == 0, "self.stride(", i, ") must be divisible by ", ratio, " to view ",
                  type_name_of(self.dtype()), " as ", type_name_of(dtype), " (different element sizes), but got ",
                  g.strides[i]);
    g.strides[i] /= ratio;
  }
  g.sizes.back() /= ratio;
  return reinterpreted(self, g, g.offset / ratio, dtype);
}

Tensor reshape_composite(const Tensor& self, SymIntList shape) {
  const IntVector wanted = infer_size(shape.ints(), self.numel());
  if (self.is_contiguous() || compute_view_strides(self.sizes(), self.strides(), wanted)) return view(self, wanted);
  return view(clone(self, MemoryFormat::kContiguous), wanted);
}

Tensor flatten_composite(const Tensor& self, int64_t start_dim, int64_t end_dim) {
  const int64_t start = wrap_dim(start_dim, self.dim()), end = wrap_dim(end_dim, self.dim());
  TESSERA_CHECK(start <= end, "flatten() has invalid args: start_dim cannot come after end_dim");
  if (self.dim() == 0) return reshape(self, {1});
  if (start == end) return self;
  IntVector shape(self.sizes().begin(), self.sizes().begin() + start);
  int64_t n = 1;
  for (int64_t i = start; i <= end; ++i) n *= self.sizes()[i];
  shape.push_back(n);
  shape.insert(shape.end(), self.sizes().begin() + end + 1, self.sizes().end());
  return reshape(self, shape);
}

Tensor unflatten_composite(const Tensor& self, int64_t dim, SymIntList sizes) {
  dim = wrap_dim(dim, self.dim());
  TESSERA_CHECK(!sizes.empty(), "unflatten: sizes must be non-empty");
  const int64_t n = self.size(dim);
  IntVector inner(sizes.ints().begin(), sizes.ints().end());
  int64_t known = 1, free = -1;
  for (size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] == -1) {
      TESSERA_CHECK(free < 0, "only one dimension can be inferred");
      free = static_cast<int64_t>(i);
    } else {
      known *= inner[i];
    }
  }
  if (free >= 0 && known != 0) inner[free] = n / known;
  int64_t product = 1;
  for (int64_t s : inner) product *= s;
  TESSERA_CHECK(product == n && !(free >= 0 && known == 0), "unflatten: Provided sizes ", shape_string(sizes.ints()),
                " don't multiply up to the size of dim ", dim, " (", n, ") in the input tensor");
  IntVector shape(self.sizes().begin(), self.sizes().begin() + dim);
  shape.insert(shape.end(), inner.begin(), inner.end());
  shape.insert(shape.end(), self.sizes().begin() + dim + 1, self.sizes().end());
  return view(self, shape);
}

// --- order of dimensions ---

Tensor permute_view(const Tensor& self, IntList dims) {
  TESSERA_CHECK(static_cast<int64_t>(dims.size()) == self.dim(),
                "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
                "desired ordering of dimensions i.e. input.dim() = ",
                self.dim(), " is not equal to len(dims) = ", dims.size());
  Geometry g(self);
  uint64_t seen = 0;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t d = wrap_dim(dims[i], self.dim());
    TESSERA_CHECK(!(seen >> d & 1), "permute(): duplicate dims are not allowed.");
    seen |= uint64_t{1} << d;
    g.sizes[i] = self.sizes()[d];
    g.strides[i] = self.strides()[d];
  }
  return g.view_of(self);
}

Tensor transpose_int_view(const Tensor& self, int64_t dim0, int64_t dim1) {
  return transposed(self, dim0, dim1).view_of(self);
}
const Tensor& transpose__kernel(const Tensor& self, int64_t dim0, int64_t dim1) {
  return transposed(self, dim0, dim1).put_into(self);
}
Tensor t_view(const Tensor& self) { return t_geometry(self).view_of(self); }
const Tensor& t__kernel(const Tensor& self) { return t_geometry(self).put_into(self); }

Tensor numpy_t(const Tensor& self) {
  IntVector dims(static_cast<size_t>(self.dim()));
  for (int64_t i = 0; i < self.dim(); ++i) dims[i] = self.dim() - 1 - i;
  return permute(self, dims);
}
Tensor m_t(const Tensor& self) {
  if (self.dim() == 0) return permute(self, {});
  TESSERA_CHECK(self.dim() >= 2, "tensor.mT is only supported on matrices or batches of matrices. Got ", self.dim(),
                "-D tensor.");
  return transpose(self, -2, -1);
}
Tensor matrix_h(const Tensor& self) {
  if (self.dim() == 0) return conj(permute(self, {}));
  TESSERA_CHECK(self.dim() == 2, "tensor.H is only supported on matrices (2-D tensors). Got ", self.dim(), "-D tensor.",
                self.dim() > 2 ? " For batches of matrices, consider using tensor.mH" : "");
  return conj(transpose(self, 0, 1));
}

Tensor movedim_composite(const Tensor& self, IntList source, IntList destination) {
  TESSERA_CHECK(source.size() == destination.size(), "movedim: Invalid source or destination dims: source (",
                shape_string(source), " dims) should contain the same number of dims as destination (",
                shape_string(destination), " dims)");
  const int64_t n = self.dim();
  IntVector order(static_cast<size_t>(n), -1);
  uint64_t from = 0, to_mask = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    const int64_t s = wrap_dim(source[i], n), d = wrap_dim(destination[i], n);
    TESSERA_CHECK(!(from >> s & 1), "movedim: repeated dim in `source` (", shape_string(source), ")");
    TESSERA_CHECK(!(to_mask >> d & 1), "movedim: repeated dim in `destination` (", shape_string(destination), ")");
    from |= uint64_t{1} << s;
    to_mask |= uint64_t{1} << d;
    if (n) order[d] = s;
  }
  int64_t next = 0;
  for (int64_t d = 0; d < n; ++d) {
    if (order[d] >= 0) continue;
    while (from >> next & 1) ++next;
    order[d] = next++;
  }
  return permute(self, order);
}

// --- dimensions of size 1 ---

Tensor unsqueeze_view(const Tensor& self, int64_t dim) { return unsqueezed(self, dim).view_of(self); }
const Tensor& unsqueeze__kernel(const Tensor& self, int64_t dim) { return unsqueezed(self, dim).put_into(self); }
Tensor squeeze_view(const Tensor& self) { return squeezed(self, ~uint64_t{0}).view_of(self); }
Tensor squeeze_dim_view(const Tensor& self, int64_t dim) {
  return squeezed(self, dim_mask(self, {&dim, 1})).view_of(self);
}
Tensor squeeze_dims_view(const Tensor& self, IntList dim) { return squeezed(self, dim_mask(self, dim)).view_of(self); }
const Tensor& squeeze__kernel(const Tensor& self) { return squeezed(self, ~uint64_t{0}).put_into(self); }
const Tensor& squeeze__dim_kernel(const Tensor& self, int64_t dim) {
  return squeezed(self, dim_mask(self, {&dim, 1})).put_into(self);
}
const Tensor& squeeze__dims_kernel(const Tensor& self, IntList dim) {
  return squeezed(self, dim_mask(self, dim)).put_into(self);
}

// --- broadcasting ---

Tensor expand_view(const Tensor& self, SymIntList size, bool) {
  const IntList wanted = size.ints();
  const int64_t lead = static_cast<int64_t>(wanted.size()) - self.dim();
  TESSERA_CHECK(lead >= 0, "expand(torch.", type_name_of(self.dtype()), "Tensor{", shape_string(self.sizes()),
                "}, size=", shape_string(wanted), "): the number of sizes provided (", wanted.size(),
                ") must be greater or equal to the number of dimensions in the tensor (", self.dim(), ")");
  IntVector sizes(wanted.size()), strides(wanted.size());
  for (int64_t i = static_cast<int64_t>(wanted.size()) - 1; i >= 0; --i) {
    int64_t want = wanted[i];
    if (i < lead) {
      TESSERA_CHECK(want >= 0, "The expanded size of the tensor (", want,
                    ") isn't allowed in a leading, non-existing dimension ", i);
      sizes[i] = want;
      strides[i] = i + 1 < static_cast<int64_t>(wanted.size()) ? sizes[i + 1] * strides[i + 1] : 1;
      if (want != 1) strides[i] = 0;
      continue;
    }
    const int64_t have = self.sizes()[i - lead];
    if (want == -1) want = have;
    TESSERA_CHECK(want == have || (have == 1 && want >= 0), "The expanded size of the tensor (", want,
                  ") must match the existing size (", have, ") at non-singleton dimension ", i,
                  ".  Target sizes: ", shape_string(wanted), ".  Tensor sizes: ", shape_string(self.sizes()));
    sizes[i] = want;
    strides[i] = want == have ? self.strides()[i - lead] : 0;
  }
  checked_numel(sizes);
  return make_view(self, sizes, strides, self.storage_offset());
}

std::vector<Tensor> broadcast_tensors_composite(TensorList tensors) {
  IntVector shape;
  for (const Tensor& t : tensors) shape = infer_broadcast(shape, t.sizes());
  std::vector<Tensor> r;
  for (const Tensor& t : tensors) r.push_back(std::ranges::equal(t.sizes(), shape) ? t : expand(t, shape));
  return r;
}

Tensor sum_to_size_composite(const Tensor& self, SymIntList size) {
  const IntList wanted = size.ints();
  const int64_t lead = self.dim() - static_cast<int64_t>(wanted.size());
  bool expandable = lead >= 0;
  IntVector dims;
  for (int64_t i = 0; expandable && i < self.dim(); ++i) {
    if (i < lead)
      dims.push_back(i);
    else if (wanted[i - lead] != self.sizes()[i]) {
      expandable = wanted[i - lead] == 1;
      dims.push_back(i);
    }
  }
  TESSERA_CHECK(expandable, "size {", shape_string(wanted), "} is not expandable to size {", shape_string(self.sizes()),
                "}.");
  if (dims.empty() && wanted.empty() && is_integral(self.dtype(), true))
    return sum(self);  // a number, in the dtype of sums
  if (dims.empty()) return self;
  const Tensor s = sum(self, dims, /*keepdim=*/true);
  return lead > 0 ? view(s, wanted) : s;
}

// --- parts ---

Tensor select_int_view(const Tensor& self, int64_t dim, SymInt index) {
  TESSERA_CHECK_INDEX(self.dim() > 0, "select() cannot be applied to a 0-dim tensor.");
  dim = wrap_dim(dim, self.dim());
  const int64_t n = self.sizes()[dim];
  int64_t i = index.guard_int();
  TESSERA_CHECK_INDEX(i >= -n && i < n, "select(): index ", i, " out of range for tensor of size ",
                      shape_string(self.sizes()), " at dimension ", dim);
  if (i < 0) i += n;
  Geometry g(self);
  g.offset += i * g.strides[dim];
  g.sizes.erase(g.sizes.begin() + dim);
  g.strides.erase(g.strides.begin() + dim);
  return g.view_of(self);
}
Tensor select_backward_kernel(const Tensor& grad_output, SymIntList input_sizes, int64_t dim, SymInt index) {
  const Tensor r = zeros_of(grad_output, input_sizes.ints());
  copy_(select(r, dim, index), grad_output);
  return r;
}

Tensor slice_Tensor_view(const Tensor& self, int64_t dim, std::optional<SymInt> start, std::optional<SymInt> end,
                         SymInt step) {
  TESSERA_CHECK(self.dim() > 0, "slice() cannot be applied to a 0-dim tensor.");
  dim = wrap_dim(dim, self.dim());
  const int64_t n = self.sizes()[dim], by = step.guard_int();
  TESSERA_CHECK(by > 0, "slice step must be positive");
  auto clip = [n](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
  const int64_t from = start ? clip(start->guard_int()) : 0;
  const int64_t until = std::max(from, end ? clip(end->guard_int()) : n);
  Geometry g(self);
  g.offset += from * g.strides[dim];
  g.sizes[dim] = (until - from + by - 1) / by;
  if (__builtin_mul_overflow(g.strides[dim], by, &g.strides[dim]))
    g.strides[dim] = 0;  // at most one element is left then
  return g.view_of(self);
}
Tensor slice_backward_kernel(const Tensor& grad_output, SymIntList input_sizes, int64_t dim,
                             std::optional<SymInt> start, std::optional<SymInt> end, SymInt step) {
  const Tensor r = zeros_of(grad_output, input_sizes.ints());
  copy_(slice(r, dim, start, end, step), grad_output);
  return r;
}

SymInt narrow_start(const Tensor& start) {
  TESSERA_CHECK(start.dim() == 0 && is_integral(start.dtype(), false), "start must be an 0-dim integral Tensor.");
  return start.item<int64_t>();
}
Tensor narrow_composite(const Tensor& self, int64_t dim, SymInt start, SymInt length) {
  TESSERA_CHECK(self.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  const int64_t len = length.guard_int();
  TESSERA_CHECK(len >= 0, "narrow(): length must be non-negative.");
  const int64_t n = self.size(dim);
  int64_t from = start.guard_int();
  TESSERA_CHECK_INDEX(from >= -n && from <= n, "start out of range (expected to be in range of [", -n, ", ", n,
                      "], but got ", from, ")");
  if (from < 0) from += n;
  TESSERA_CHECK(from <= n - len, "start (", from, ") + length (", len, ") exceeds dimension size (", n, ").");
  return slice(self, dim, from, from + len, 1);
}

namespace {
Tensor piece(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  Geometry g(self);
  g.offset += start * g.strides[dim];
  g.sizes[dim] = length;
  return g.view_of(self);
}
}  // namespace

std::vector<Tensor> split_Tensor_view(const Tensor& self, SymInt split_size, int64_t dim) {
  TESSERA_CHECK(self.dim() != 0, "split expects at least a 1-dimensional tensor");
  dim = wrap_dim(dim, self.dim());
  const int64_t size = split_size.guard_int(), n = self.sizes()[dim];
  TESSERA_CHECK(size >= 0, "split expects split_size be non-negative, but got split_size=", size);
  TESSERA_CHECK(size > 0 || n == 0, "split_size can only be 0 if dimension size is 0, but got dimension size of ", n);
  std::vector<Tensor> r;
  if (n == 0) return {piece(self, dim, 0, 0)};
  for (int64_t at = 0; at < n; at += size) r.push_back(piece(self, dim, at, std::min(size, n - at)));
  return r;
}
std::vector<Tensor> split_with_sizes_view(const Tensor& self, SymIntList split_sizes, int64_t dim) {
  TESSERA_CHECK(self.dim() != 0, "split expects at least a 1-dimensional tensor");
  dim = wrap_dim(dim, self.dim());
  const int64_t n = self.sizes()[dim];
  int64_t total = 0;
  for (int64_t s : split_sizes.ints()) {
    TESSERA_CHECK(s >= 0, "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=",
                  shape_string(split_sizes.ints()));
    total += s;
  }
  TESSERA_CHECK(total == n, "split_with_sizes expects split_sizes to sum exactly to ", n,
                " (input tensor's size at dimension ", dim,
                "), but got split_sizes=", shape_string(split_sizes.ints()));
  std::vector<Tensor> r;
  int64_t at = 0;
  for (int64_t s : split_sizes.ints()) {
    r.push_back(piece(self, dim, at, s));
    at += s;
  }
  return r;
}
std::vector<Tensor> chunk_composite(const Tensor& self, int64_t chunks, int64_t dim) {
  TESSERA_CHECK(self.dim() > 0, "chunk expects at least a 1-dimensional tensor");
  TESSERA_CHECK(chunks > 0, "chunk expects `chunks` to be greater than 0, got: ", chunks);
  const int64_t n = self.size(dim), size = (n + chunks - 1) / chunks;
  if (size == 0) return split_with_sizes(self, IntVector(static_cast<size_t>(chunks), 0), dim);
  return split(self, SymInt(size), dim);
}
std::vector<Tensor> own_pieces(std::vector<Tensor> pieces) {
  for (Tensor& t : pieces) t = clone(t);
  return pieces;
}
std::vector<Tensor> unbind_int_view(const Tensor& self, int64_t dim) {
  TESSERA_CHECK_INDEX(self.dim() > 0, "Dimension specified as ", dim, " but tensor has no dimensions");
  dim = wrap_dim(dim, self.dim());
  std::vector<Tensor> r;
  r.reserve(static_cast<size_t>(self.sizes()[dim]));
  for (int64_t i = 0; i < self.sizes()[dim]; ++i) r.push_back(select_int_view(self, dim, i));
  return r;
}

std::vector<Tensor> tensor_split_sections(const Tensor& self, SymInt sections, int64_t dim) {
  TESSERA_CHECK(self.dim() > 0, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with ",
                self.dim(), " dims");
  const int64_t k = sections.guard_int(), n = self.size(dim);
  TESSERA_CHECK(k > 0, "number of sections must be larger than 0, got ", k);
  std::vector<Tensor> r;
  r.reserve(static_cast<size_t>(k));  // more than memory holds: said at once
  int64_t at = 0;
  for (int64_t i = 0; i < k; ++i) {
    const int64_t len = n / k + (i < n % k);
    r.push_back(slice(self, dim, at, at + len, 1));
    at += len;
  }
  return r;
}
std::vector<Tensor> tensor_split_indices(const Tensor& self, SymIntList indices, int64_t dim) {
  TESSERA_CHECK(self.dim() > 0, "tensor_split expected at least a 1-dimensional tensor, but got a tensor with ",
                self.dim(), " dims");
  std::vector<Tensor> r;
  int64_t at = 0;
  for (int64_t i : indices.ints()) {
    r.push_back(slice(self, dim, at, i, 1));
    at = i;
  }
  r.push_back(slice(self, dim, at, std::nullopt, 1));
  return r;
}
std::vector<Tensor> tensor_split_tensor(const Tensor& self, const Tensor& spec, int64_t dim) {
  TESSERA_CHECK(spec.is_cpu(), "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on ",
                spec.device().str());
  TESSERA_CHECK(spec.dtype() == DType::kInt64,
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got ",
                type_name_of(spec.dtype()));
  TESSERA_CHECK(spec.dim() <= 1,
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, "
                "but got a tensor with ",
                spec.dim(), " dims");
  if (spec.dim() == 0) return tensor_split_sections(self, spec.item<int64_t>(), dim);
  const Tensor c = contiguous(spec);
  return tensor_split_indices(self, IntList(c.data<int64_t>(), static_cast<size_t>(c.numel())), dim);
}

namespace {
int64_t split_dim(const Tensor& self, char kind) {
  const int64_t least = kind == 'h' ? 1 : kind == 'v' ? 2 : 3;
  TESSERA_CHECK(self.dim() >= least, "torch.", std::string(1, kind), "split requires a tensor with at least ", least,
                " dimension", least > 1 ? "s" : "", ", but got a tensor with ", self.dim(), " dimensions!");
  return kind == 'h' ? (self.dim() == 1 ? 0 : 1) : kind == 'v' ? 0 : 2;
}
}  // namespace
std::vector<Tensor> even_split(const Tensor& self, int64_t sections, char kind) {
  const int64_t d = split_dim(self, kind);
  TESSERA_CHECK(sections != 0 && self.sizes()[d] % sections == 0, "torch.", std::string(1, kind),
                "split attempted to split along dimension ", d, ", but the size of the dimension ", self.sizes()[d],
                " is not divisible by the split_size ", sections, "!");
  return tensor_split_sections(self, sections, d);
}
std::vector<Tensor> even_split(const Tensor& self, IntList indices, char kind) {
  return tensor_split_indices(self, indices, split_dim(self, kind));
}

Tensor diagonal_view(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t a = wrap_dim(dim1, self.dim()), b = wrap_dim(dim2, self.dim());
  TESSERA_CHECK(a != b, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  TESSERA_CHECK(self.dim() >= 2, "diagonal needs a tensor of at least two dimensions, got ", self.dim());
  Geometry g(self);
  const int64_t rows = g.sizes[a], cols = g.sizes[b];
  const int64_t n = offset >= 0 ? std::max<int64_t>(std::min(rows, offset > cols ? 0 : cols - offset), 0)
                                : std::max<int64_t>(std::min(offset < -rows ? 0 : rows + offset, cols), 0);
  if (n > 0) g.offset += offset >= 0 ? offset * g.strides[b] : -offset * g.strides[a];
  const int64_t stride = g.strides[a] + g.strides[b];
  for (int64_t d : {std::max(a, b), std::min(a, b)}) {
    g.sizes.erase(g.sizes.begin() + d);
    g.strides.erase(g.strides.begin() + d);
  }
  g.sizes.push_back(n);
  g.strides.push_back(stride);
  return g.view_of(self);
}
Tensor diagonal_backward_kernel(const Tensor& grad_output, SymIntList input_sizes, int64_t offset, int64_t dim1,
                                int64_t dim2) {
  const Tensor r = zeros_of(grad_output, input_sizes.ints());
  copy_(diagonal(r, offset, dim1, dim2), grad_output);
  return r;
}

Tensor unfold_view(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  const int64_t d = wrap_dim(dimension, self.dim());
  const int64_t n = self.dim() == 0 ? 1 : self.sizes()[d];
  TESSERA_CHECK(size >= 0, "size is ", size, " but must be >= 0");
  TESSERA_CHECK(size <= n, "maximum size for tensor at dimension ", d, " is ", n, " but size is ", size);
  TESSERA_CHECK(step > 0, "step is ", step, " but must be > 0");
  Geometry g(self);
  g.sizes.push_back(size);
  g.strides.push_back(self.dim() == 0 ? 1 : g.strides[d]);
  if (self.dim() > 0) {
    g.sizes[d] = (n - size) / step + 1;
    if (__builtin_mul_overflow(g.strides[d], step, &g.strides[d])) g.strides[d] = 0;
  }
  return g.view_of(self);
}
Tensor unfold_backward_kernel(const Tensor& grad_in, SymIntList input_sizes, int64_t dim, int64_t size, int64_t step) {
  const Tensor r = zeros_of(grad_in, input_sizes.ints());
  if (r.numel() == 0 || grad_in.numel() == 0) return r;
  if (r.dim() == 0) {
    copy_(r, reshape(grad_in, {}));
    return r;
  }
  // Windows overlap where step < size: every few windows one that does not meet the others, or one position of all
  // windows at a time.
  const Tensor windows = unfold(r, dim, size, step);
  const int64_t d = wrap_dim(dim, r.dim()), overlap = (size + step - 1) / step;
  if (overlap < size) {
    for (int64_t first = 0; first < std::min(overlap, windows.size(d)); ++first)
      add_(slice(windows, d, first, std::nullopt, overlap), slice(grad_in, d, first, std::nullopt, overlap));
  } else {
    for (int64_t i = 0; i < size; ++i) add_(select(windows, -1, i), select(grad_in, -1, i));
  }
  return r;
}

Tensor atleast_one(const Tensor& self, int64_t rank) {
  if (rank == 1 || self.dim() == 0)
    return self.dim() == 0 ? reshape(self, IntVector(static_cast<size_t>(rank), 1)) : self;
  if (self.dim() >= rank) return self;
  if (rank == 2) return unsqueeze(self, 0);
  return self.dim() == 1 ? unsqueeze(unsqueeze(self, 0), -1) : unsqueeze(self, -1);
}
std::vector<Tensor> atleast(TensorList tensors, int64_t rank) {
  std::vector<Tensor> r;
  for (const Tensor& t : tensors) r.push_back(atleast_one(t, rank));
  return r;
}

// --- complex ---

Tensor _view_as_real_physical_view(const Tensor& self) {
  TESSERA_CHECK(self.is_complex(), "view_as_real is only supported for complex tensors");
  Geometry g(self);
  for (int64_t& s : g.strides) s *= 2;
  g.sizes.push_back(2);
  g.strides.push_back(1);
  Tensor r = make_view(self, g.sizes, g.strides, g.offset * 2, to_real(self.dtype()));
  r.impl()->set_conj(false);
  return r;
}
Tensor view_as_real_view(const Tensor& self) {
  TESSERA_CHECK(self.is_complex(), "view_as_real is only supported for complex tensors");
  TESSERA_CHECK(!self.is_conj(),
                "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate tensor so you "
                "can view it as real, use self.resolve_conj(); however, be warned "
                "that the resulting tensor will NOT alias the original.");
  return _view_as_real_physical_view(self);
}
Tensor view_as_complex_view(const Tensor& self) {
  const DType t = self.dtype();
  TESSERA_CHECK(
      t == DType::kFloat32 || t == DType::kFloat64 || t == DType::kFloat16,
      "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: ",
      type_name_of(t));
  TESSERA_CHECK(self.dim() != 0, "Input tensor must have one or more dimensions");
  TESSERA_CHECK(self.sizes().back() == 2, "Tensor must have a last dimension of size 2");
  Geometry g(self);
  TESSERA_CHECK(g.strides.back() == 1, "Tensor must have a last dimension with stride 1");
  g.sizes.pop_back();
  g.strides.pop_back();
  for (int64_t& s : g.strides) {
    TESSERA_CHECK(s % 2 == 0, "Tensor must have a stride divisible by 2 for all but last dimension");
    s /= 2;
  }
  TESSERA_CHECK(g.offset % 2 == 0, "Tensor must have a storage_offset divisible by 2");
  return make_view(self, g.sizes, g.strides, g.offset / 2, to_complex(t));
}
Tensor _conj_view(const Tensor& self) {
  TESSERA_CHECK(self.is_complex(), "_conj is only defined for complex tensors");
  Tensor r = alias_view(self);
  r.impl()->set_conj(!self.is_conj());
  return r;
}
Tensor _neg_view_view(const Tensor& self) {
  Tensor r = alias_view(self);
  r.impl()->set_neg(!self.is_neg());
  return r;
}
Tensor real_composite(const Tensor& self) {
  return self.is_complex() ? select(_view_as_real_physical(self), -1, 0) : self;
}
Tensor imag_composite(const Tensor& self) {
  TESSERA_CHECK(self.is_complex(), "imag is not implemented for tensors with non-complex dtypes.");
  // Of a lazy conjugate: minus the imaginary part of what it conjugates, so that gradients pass through both.
  if (self.is_conj()) return _neg_view(select(_view_as_real_physical(_conj(self)), -1, 1));
  return select(_view_as_real_physical(self), -1, 1);
}

}  // namespace tessera::kernels
