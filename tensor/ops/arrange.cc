// Joining, repeating, turning: other arrangements of the same elements.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/core/parallel.h"
#include "tensor/core/transforms.h"
#include "tensor/core/warning.h"
#include "tensor/cpu/index/distinct.h"
#include "tensor/cpu/index/index.h"
#include "tensor/engine/index.h"
#include "tensor/engine/pointwise.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/index_extra.h"
#include "tensor/ops/index_kernels.h"
#include "tensor/ops/promotion.h"
#include "tensor/ops/strided.h"
#include "tensor/ops/plain.h"

namespace tessera::kernels {

// --- joining ---

namespace {
// Tensors of shape [0] may be joined with anything, for old times' sake.
bool is_skipped(const Tensor& t) { return t.dim() == 1 && t.sizes()[0] == 0; }
const Tensor& cat_model(TensorList tensors) {
  for (const Tensor& t : tensors)
    if (!is_skipped(t)) return t;
  return tensors[0];
}
// Where all are empty, any dimension will do.
int64_t cat_dim(int64_t dim, const Tensor& model) { return is_skipped(model) ? 0 : wrap_dim(dim, model.dim()); }
}  // namespace

OutputSpec cat_meta(TensorList tensors, int64_t dim) {
  TESSERA_CHECK_VALUE(!tensors.empty(), "torch.cat(): expected a non-empty list of Tensors");
  for (size_t i = 0; i < tensors.size(); ++i)
    TESSERA_CHECK(tensors[i].dim() > 0, "zero-dimensional tensor (at position ", i, ") cannot be concatenated");
  const Tensor& model = cat_model(tensors);
  const int64_t d = cat_dim(dim, model);
  IntVector sizes = to_vector(model.sizes());
  sizes[d] = 0;
  bool channels_last = model.dim() == 4 || model.dim() == 5;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    channels_last = channels_last && !is_skipped(t) && t.suggest_memory_format() != MemoryFormat::kContiguous;
    if (is_skipped(t)) continue;
    TESSERA_CHECK(t.dim() == model.dim(), "Tensors must have same number of dimensions: got ", model.dim(), " and ",
                  t.dim());
    for (int64_t k = 0; k < t.dim(); ++k)
      TESSERA_CHECK(k == d || t.sizes()[k] == sizes[k], "Sizes of tensors must match except in dimension ", d,
                    ". Expected size ", sizes[k], " but got size ", t.sizes()[k], " for tensor number ", i,
                    " in the list.");
    sizes[d] += t.sizes()[d];
  }
  OutputSpec s(sizes, {}, result_type(tensors), common_device(tensors));
  if (channels_last) s.strides = channels_last_strides(s.sizes);
  return s;
}
// Dense tensors of one dtype in memory of the CPU, or of a device that joins rows: the parts of each row of the result
// one after the other. False where that is not the case, or copies of whole tensors are better.
static bool cat_rows(TensorList tensors, int64_t d, const Tensor& out) {
  const Device device = out.device();
  const JoinRows* const join = device.is_cpu() ? nullptr : PointwiseEngines::of(device.type).join_rows;
  if (!out.is_contiguous() || (!device.is_cpu() && !join)) return false;
  std::vector<JoinedPart> parts;
  parts.reserve(tensors.size());
  const int64_t size = out.item_size();
  int64_t rows = 1, row_bytes = 0;
  for (int64_t i = 0; i < d; ++i) rows *= out.sizes()[i];
  for (const Tensor& t : tensors) {
    if (t.numel() == 0) continue;
    if (t.device() != device || t.dtype() != out.dtype() || !t.is_contiguous()) return false;
    parts.push_back({t.data_ptr(), t.numel() / rows * size});
    row_bytes += parts.back().bytes;
  }
  if (join) {
    internal::select_device(device, "join_rows");
    join(rows, parts, out.data_ptr());
    return true;
  }
  if (rows == 1 && row_bytes > 65536) return false;
  // Much memory in long parts: copies of whole tensors go past the caches.
  if (rows * row_bytes >= (int64_t{16} << 20) && row_bytes >= 2048 * static_cast<int64_t>(parts.size())) return false;
  char* to = static_cast<char*>(out.data_ptr());
  parallel_for(rows, std::max<int64_t>(1, 65536 / std::max<int64_t>(row_bytes, 1)), [&](int64_t begin, int64_t end) {
    char* at = to + begin * row_bytes;
    for (int64_t r = begin; r < end; ++r) {
      for (const JoinedPart& p : parts) {
        std::memcpy(at, static_cast<const char*>(p.from) + r * p.bytes, static_cast<size_t>(p.bytes));
        at += p.bytes;
      }
    }
  });
  return true;
}

void cat_kernel(TensorList tensors, int64_t dim, const Tensor& out) {
  const int64_t d = cat_dim(dim, cat_model(tensors));
  if (cat_rows(tensors, d, out)) return;
  int64_t at = 0;
  for (const Tensor& t : tensors) {
    if (is_skipped(t) && out.dim() != 1) continue;
    const int64_t n = t.sizes()[d];
    if (n)
      copy__kernel(make_view(
                       out,
                       [&] {
                         IntVector s = to_vector(out.sizes());
                         s[d] = n;
                         return s;
                       }(),
                       out.strides(), out.storage_offset() + at * out.strides()[d]),
                   t, false);
    at += n;
  }
}

Tensor stack_composite(TensorList tensors, int64_t dim) {
  TESSERA_CHECK(!tensors.empty(), "stack expects a non-empty TensorList");
  const int64_t d = wrap_dim(dim, tensors[0].dim() + 1);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TESSERA_CHECK(std::ranges::equal(tensors[i].sizes(), tensors[0].sizes()),
                  "stack expects each tensor to be equal size, but got ", shape_string(tensors[0].sizes()),
                  " at entry 0 and ", shape_string(tensors[i].sizes()), " at entry ", i);
    parts.push_back(unsqueeze(tensors[i], d));
  }
  return cat(parts, d);
}

Tensor stack_impl(TensorList tensors, char kind) {
  TESSERA_CHECK(!tensors.empty(),
                kind == 'h'   ? "hstack"
                : kind == 'v' ? "vstack"
                : kind == 'd' ? "dstack"
                              : "column_stack",
                " expects a non-empty TensorList");
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) {
    if (kind == 'c')
      parts.push_back(t.dim() <= 1 ? reshape(t, {t.numel(), 1}) : t);
    else if (kind == 'h')
      parts.push_back(atleast_1d(t));
    else
      parts.push_back(kind == 'v' ? atleast_2d(t) : atleast_3d(t));
  }
  const int64_t dim = kind == 'v' ? 0 : kind == 'd' ? 2 : kind == 'c' ? 1 : (parts[0].dim() == 1 ? 0 : 1);
  return cat(parts, dim);
}

std::vector<Tensor> meshgrid_impl(TensorList tensors, std::optional<std::string_view> indexing) {
  TESSERA_CHECK(!tensors.empty(), "meshgrid expects a non-empty TensorList");
  if (!indexing)
    warn_once("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.");
  TESSERA_CHECK(!indexing || *indexing == "ij" || *indexing == "xy",
                "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: ", *indexing);
  for (const Tensor& t : tensors) {
    TESSERA_CHECK(t.dim() <= 1, "torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: ", t.dim(),
                  "D of size ", shape_string(t.sizes()));
    TESSERA_CHECK(t.dtype() == tensors[0].dtype(), "torch.meshgrid expects all tensors to have the same dtype");
    TESSERA_CHECK(t.device() == tensors[0].device(), "torch.meshgrid expects all tensors to have the same device");
  }
  std::vector<Tensor> list(tensors.begin(), tensors.end());
  const bool swap = indexing && *indexing == "xy" && list.size() >= 2;
  if (swap) std::swap(list[0], list[1]);
  IntVector shape;
  for (const Tensor& t : list) shape.push_back(t.numel());
  std::vector<Tensor> r;
  for (size_t i = 0; i < list.size(); ++i) {
    IntVector one(list.size(), 1);
    one[i] = shape[i];
    r.push_back(expand(view(list[i].dim() == 0 ? reshape(list[i], {1}) : list[i], one), shape));
  }
  if (swap) std::swap(r[0], r[1]);
  return r;
}

// --- triangles, flips, shifts ---

OutputSpec triangle_meta(const Tensor& self, int64_t) {
  TESSERA_CHECK(self.dim() >= 2, "tril and triu: input tensor must have at least 2 dimensions, got ", self.dim());
  return OutputSpec(self.sizes(), self.dtype(), self.device());
}
void triangle_into(bool upper, const Tensor& self, int64_t diagonal, const Tensor& out) {
  if (out.numel() == 0) return;
  Strided to(out), from(self);
  TESSERA_ON(self.device(), run_tril_triu)(upper, diagonal, self.sizes(), to, from);
}

OutputSpec flip_meta(const Tensor& self, IntList dims) {
  uint64_t mask = 0;
  for (int64_t d : dims) {
    const int64_t w = wrap_dim(d, self.dim());
    TESSERA_CHECK(!(mask >> w & 1), "dim ", w, " appears multiple times in the list of dims");
    mask |= uint64_t{1} << w;
  }
  return OutputSpec(to_vector(self.sizes()), self.is_contiguous() ? IntVector() : preserved_strides(self), self.dtype(),
                    self.device());
}
void flip_kernel(const Tensor& self, IntList dims, const Tensor& out) {
  if (out.numel() == 0) return;
  uint64_t mask = 0;
  for (int64_t d : dims) mask |= uint64_t{1} << wrap_dim(d, self.dim());
  Strided to(out), from(self);
  TESSERA_ON(self.device(), run_flip)(self.sizes(), self.dim() ? mask : 0, to, from);
}
Tensor flip_checked(const Tensor& self, int64_t dim) {
  TESSERA_CHECK(self.dim() > dim, "Input must be >= ", dim + 1, "-d.");
  return flip(self, IntVector{dim});
}

Tensor roll_impl(const Tensor& self, IntList shifts, IntList dims) {
  TESSERA_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty()) {
    TESSERA_CHECK(shifts.size() == 1, "shifts and dimensions must align. shifts: ", shifts.size(),
                  ", dims:", dims.size());
    return view(roll_impl(reshape(contiguous(self), {-1}), shifts, IntVector{0}), self.sizes());
  }
  TESSERA_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
                ", dims:", dims.size());
  if (self.numel() == 0) return clone(self);
  Tensor r = self;
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t d = wrap_dim(dims[k], self.dim()), n = self.size(d);
    const int64_t by = ((shifts[k] % n) + n) % n;
    if (by == 0) {
      r = r.is_same(self) ? clone(self) : r;
      continue;
    }
    const Tensor parts[2] = {narrow(r, d, n - by, by), narrow(r, d, 0, n - by)};
    r = cat(parts, d);
  }
  return r;
}

Tensor rot90_impl(const Tensor& self, int64_t k, IntList dims) {
  TESSERA_CHECK(dims.size() == 2, "expected total rotation dims == 2, but got dims = ", dims.size());
  TESSERA_CHECK(self.dim() >= 2, "expected total dims >= 2, but got total dims = ", self.dim());
  TESSERA_CHECK(dims[0] != dims[1] && std::abs(dims[0] - dims[1]) != self.dim(),
                "expected rotation dims to be different, but got dim0 = ", dims[0], " and dim1 = ", dims[1]);
  for (const int d : {0, 1})
    TESSERA_CHECK(-self.dim() <= dims[d] && dims[d] < self.dim(), "Rotation dim", d, " out of range, dim", d, " = ",
                  dims[d]);
  const int64_t a = wrap_dim(dims[0], self.dim()), b = wrap_dim(dims[1], self.dim());
  switch (((k % 4) + 4) % 4) {
    case 1:
      return transpose(flip(self, IntVector{b}), a, b);
    case 2:
      return flip(self, dims);
    case 3:
      return transpose(flip(self, IntVector{a}), a, b);
    default:
      return clone(self, MemoryFormat::kContiguous);
  }
}

// --- repeating ---

Tensor repeat_impl(const Tensor& self, IntList repeats) {
  TESSERA_CHECK(static_cast<int64_t>(repeats.size()) >= self.dim(),
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  for (int64_t r : repeats) TESSERA_CHECK(r >= 0, "repeat: repeats must not be negative, got ", shape_string(repeats));
  const int64_t lead = static_cast<int64_t>(repeats.size()) - self.dim();
  // [a, b] repeated (r, s): [1, a, 1, b] expanded to [r, a, s, b], then joined.
  IntVector split, wide, joined;
  for (size_t i = 0; i < repeats.size(); ++i) {
    const int64_t n = static_cast<int64_t>(i) < lead ? 1 : self.sizes()[i - lead];
    int64_t total;
    TESSERA_CHECK(!__builtin_mul_overflow(n, repeats[i], &total), "repeat: size overflows");
    split.insert(split.end(), {1, n});
    wide.insert(wide.end(), {repeats[i], n});
    joined.push_back(total);
  }
  checked_numel(joined);
  const Tensor spread = expand(reshape(self, split), wide);
  return reshape(clone(spread, MemoryFormat::kContiguous), joined);
}
Tensor tile_impl(const Tensor& self, IntList dims) {
  IntVector full(dims.begin(), dims.end());
  while (static_cast<int64_t>(full.size()) < self.dim()) full.insert(full.begin(), 1);
  return repeat_impl(self, full);
}

namespace {
// The sum of the counts, which is the result's size and so must be known here.
int64_t checked_total(const Tensor& counts) {
  if (counts.numel() == 0) return 0;
  const Tensor parts[2] = {to(counts.min(), DType::kFloat64), sum(counts, DType::kFloat64)};
  const Tensor known = with_one_value(to(stack(parts), Device(), DType::kFloat64));
  TESSERA_CHECK(known.data<double>()[0] >= 0, "repeats can not be negative");
  TESSERA_CHECK(known.data<double>()[1] < 0x1p53, "repeat_interleave: the result is too large");
  return static_cast<int64_t>(known.data<double>()[1]);
}
}  // namespace

Tensor interleave_indices(const Tensor& repeats, std::optional<SymInt> output_size) {
  TESSERA_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TESSERA_CHECK(repeats.dtype() == DType::kInt64 || repeats.dtype() == DType::kInt32,
                "repeats has to be Long or Int tensor");
  TESSERA_CHECK_NOT_IMPLEMENTED(!repeats.is_meta() || output_size,
                                "repeat_interleave: the size of the result is not known on the meta device; give "
                                "output_size, or repeats as an int");
  if (repeats.is_meta())
    return empty_tensor(IntVector{output_size->guard_int()}, {}, repeats.dtype(), repeats.device());
  // With output_size nobody waits for a device.
  const int64_t total = output_size && !repeats.is_cpu() ? output_size->guard_int() : checked_total(repeats);
  TESSERA_CHECK(!output_size || output_size->guard_int() == total, "allocated size does not match required size");
  if (!repeats.is_cpu()) {
    const Tensor ends = cumsum(to(repeats, DType::kInt64), 0),
                 places = arange(Scalar(total), DType::kInt64, std::nullopt, repeats.device());
    return to(searchsorted(ends, places, false, true, std::nullopt, Tensor()), repeats.dtype());
  }
  const Tensor counts = with_one_value(contiguous(to(repeats, DType::kInt64))),
               out = empty_kernel(IntVector{total}, DType::kInt64);
  int64_t* p = out.data<int64_t>();
  for (int64_t i = 0; i < counts.numel(); ++i) p = std::fill_n(p, counts.data<int64_t>()[i], i);
  return to(out, repeats.dtype());
}
Tensor interleave(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                  std::optional<SymInt> output_size) {
  const Tensor t = dim ? self : reshape(self, {-1});
  const int64_t d = dim ? wrap_dim(*dim, self.dim()) : 0;
  if (repeats.dim() == 0 || (repeats.dim() == 1 && repeats.numel() == 1)) {
    if (!is_observed() || t.dim() == 0) return interleave_fixed(self, item(repeats).to_int(), dim, output_size);
    const Tensor counts = expand(reshape(repeats, {1}), IntVector{t.size(d)});
    return index_select(t, d, repeat_interleave(counts, output_size));
  }
  TESSERA_CHECK(repeats.dim() == 1, "repeats must be 0-dim or 1-dim tensor");
  TESSERA_CHECK(repeats.numel() == t.size(d),
                "repeats must have the same size as input along dim, but got repeats.size(0) = ", repeats.numel(),
                " and input.size(", d, ") = ", t.size(d));
  return index_select(t, d, repeat_interleave(repeats, output_size));
}
Tensor interleave_fixed(const Tensor& self, int64_t repeats, std::optional<int64_t> dim,
                        const std::optional<SymInt>& output_size) {
  TESSERA_CHECK(repeats >= 0, "Repeats must be non-negative");
  if (dim) wrap_dim(*dim, self.dim());
  if (output_size) {
    const int64_t length = !dim         ? self.numel()
                           : self.dim() ? self.sizes()[static_cast<size_t>(wrap_dim(*dim, self.dim()))]
                                        : 1;
    int64_t size = 0;
    TESSERA_CHECK(!__builtin_mul_overflow(repeats, length, &size) && output_size->guard_int() == size,
                  "repeat_interleave: Invalid output_size, expected ", size, " but got ", output_size->guard_int());
  }
  const Tensor t = dim ? self : reshape(self, {-1});
  if (t.dim() == 0) return expand(reshape(t, {1}), {repeats}).clone();
  const int64_t d = dim ? wrap_dim(*dim, self.dim()) : 0;
  IntVector wide = to_vector(t.sizes());
  wide.insert(wide.begin() + d + 1, repeats);
  return flatten(clone(expand(unsqueeze(t, d + 1), wide), MemoryFormat::kContiguous), d, d + 1);
}

// --- diagonals ---

Tensor diag_impl(const Tensor& self, int64_t diagonal) {
  TESSERA_CHECK(self.dim() == 1 || self.dim() == 2, "diag(): Supports 1D or 2D tensors. Got ", self.dim(), "D");
  return self.dim() == 1 ? diag_embed(self, diagonal)
                         : clone(tessera::diagonal(self, diagonal, 0, 1), MemoryFormat::kContiguous);
}
Tensor diag_embed_impl(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t rank = self.dim() + 1;
  const int64_t a = wrap_dim(dim1, rank), b = wrap_dim(dim2, rank);
  TESSERA_CHECK(a != b, "diagonal dimensions cannot be identical ", dim1, ", ", dim2);
  TESSERA_CHECK(self.dim() > 0, "diag_embed needs at least one dimension");
  const int64_t n = std::abs(offset) + self.size(-1);
  IntVector sizes(self.sizes().begin(), self.sizes().end() - 1);
  sizes.insert(sizes.begin() + std::min(a, b), n);
  sizes.insert(sizes.begin() + std::max(a, b), n);
  const Tensor r = new_zeros(self, IntList(sizes));
  copy_(tessera::diagonal(r, offset, a, b), self);
  return r;
}
Tensor trace_impl(const Tensor& self) {
  TESSERA_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return sum(tessera::diagonal(self, 0, 0, 1));
}

Tensor diff_impl(const Tensor& self, int64_t n, int64_t dim, const Tensor& prepend, const Tensor& append) {
  TESSERA_CHECK(self.dim() >= 1, "diff expects input to be at least one-dimensional");
  TESSERA_CHECK(n >= 0, "order must be non-negative but got ", n);
  const int64_t d = wrap_dim(dim, self.dim());
  if (n == 0) return clone(self);
  std::vector<Tensor> parts;
  if (prepend.defined()) parts.push_back(prepend);
  parts.push_back(self);
  if (append.defined()) parts.push_back(append);
  Tensor r = parts.size() > 1 ? cat(parts, d) : self;
  n = std::min(n, std::max<int64_t>(r.size(d), 1));  // nothing is left by then
  for (int64_t k = 0; k < n; ++k) {
    const int64_t m = r.size(d);
    const int64_t len = std::max<int64_t>(m - 1, 0);
    const Tensor hi = narrow(r, d, m > 0 ? 1 : 0, len), lo = narrow(r, d, 0, len);
    r = r.dtype() == DType::kBool ? logical_xor(hi, lo) : sub(hi, lo);
  }
  return r;
}

Tensor bincount_kernel(const Tensor& self, const Tensor& weights, SymInt least) {
  const int64_t minlength = least.guard_int();
  TESSERA_CHECK(minlength >= 0, "minlength should be >= 0");
  TESSERA_CHECK(self.dim() == 1 && is_integral(self.dtype(), false),
                "bincount only supports 1-d non-negative integral inputs.");
  TESSERA_CHECK(!weights.defined() || (weights.dim() == 1 && weights.numel() == self.numel()),
                "weights should be 1-d and have the same length as input");
  const DType t = !weights.defined()                   ? DType::kInt64
                  : weights.dtype() == DType::kFloat32 ? DType::kFloat32
                                                       : DType::kFloat64;
  if (self.numel() == 0) return zeros({minlength}, t, std::nullopt, self.device());
  if (self.is_cpu() && !weights.defined()) {
    const bool bytes = self.dtype() == DType::kUInt8;
    const Tensor x = contiguous(bytes ? self : to(self, DType::kInt64));
    const std::vector<int64_t> counts =
        bytes ? cpu::count_bytes(x.data<uint8_t>(), x.numel())
              : cpu::count_integers(x.data<int64_t>(), x.numel(),
                                    "bincount only supports 1-d non-negative integral inputs.");
    const int64_t found = static_cast<int64_t>(counts.size());
    const Tensor out = empty_tensor(IntVector{std::max(minlength, found)}, {}, t, self.device());
    std::copy(counts.begin(), counts.end(), out.data<int64_t>());
    std::fill(out.data<int64_t>() + found, out.data<int64_t>() + out.numel(), int64_t{0});
    return out;
  }
  int64_t n = minlength;
  if (!is_transformed(self) ||
      minlength == 0) {  // else there is no one number to look at: adding refuses what is larger
    TESSERA_CHECK(min(self).item<int64_t>() >= 0, "bincount only supports 1-d non-negative integral inputs.");
    n = std::max(minlength, max(self).item<int64_t>() + 1);
  }
  const Tensor source = weights.defined() ? to(weights, t) : ones_like(self, DType::kInt64);
  return scatter_add(zeros({n}, t, std::nullopt, self.device()), 0, to(self, DType::kInt64), source);
}

}  // namespace tessera::kernels
