// Padding.
#include <algorithm>
#include <cstring>

#include "nn/nn_ops.h"
#include "nn/pad_extra.h"
#include "nn/pad_kernels.h"
#include "nn/spatial.h"
#include "tensor/core/parallel.h"
#include "tensor/core/visit.h"
#include "tensor/cpu/support/types.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {

// --- Constants ---

OutputSpec constant_pad_nd_meta(const Tensor& self, SymIntList pad_, const Scalar& value) {
  const IntList pad = pad_.ints();
  TESSERA_CHECK(pad.size() % 2 == 0, "Length of pad must be even but instead it equals ", pad.size());
  TESSERA_CHECK(static_cast<int64_t>(pad.size()) <= 2 * self.dim(),
                "Length of pad should be no more than twice the number of dimensions of the input. Pad length is ",
                pad.size(), " while the input has ", self.dim(), " dimensions.");
  TESSERA_CHECK(!value.is_complex() || self.is_complex(), "value cannot be converted to type ", name_of(self.dtype()),
                " without overflow");
  IntVector sizes = to_vector(self.sizes());
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    int64_t& s = sizes[sizes.size() - 1 - i];
    const int64_t padded = s + pad[2 * i] + pad[2 * i + 1];
    TESSERA_CHECK(padded >= 0, "The input size ", s, ", plus negative padding ", pad[2 * i], " and ", pad[2 * i + 1],
                  " resulted in a negative output size, which is invalid. Check dimension ", sizes.size() - 1 - i,
                  " of your input.");
    s = padded;
  }
  return spec_like(self, std::move(sizes));
}

void constant_pad_nd_kernel(const Tensor& self, SymIntList pad_, const Scalar& value, const Tensor& out) {
  const IntList pad = pad_.ints();
  Tensor from = self;
  // An alias of the result's memory, to write a part of it without counting versions.
  Tensor to = tensor_from_storage(out.storage(), out.sizes(), out.strides(), out.storage_offset(), out.dtype());
  bool grows = false;
  const Tensor whole = to;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const int64_t d = self.dim() - 1 - static_cast<int64_t>(i), left = pad[2 * i], right = pad[2 * i + 1];
    grows = grows || left > 0 || right > 0;
    const int64_t skip = std::min(std::max<int64_t>(-left, 0), from.size(d)),
                  kept = std::max<int64_t>(from.size(d) - skip - std::max<int64_t>(-right, 0), 0);
    from = narrow(from, d, skip, kept);
    to = narrow(to, d, std::min(std::max<int64_t>(left, 0), to.size(d) - std::min(kept, to.size(d))),
                std::min(kept, to.size(d)));
    if (kept > to.size(d)) from = narrow(from, d, 0, to.size(d));
  }
  if (grows) fill_(whole, value);
  if (to.numel() > 0) copy__kernel(to, from, false);
}

// --- Mirrors and repetitions ---

namespace {

const char* pad_name(bool reflect) { return reflect ? "reflection_pad" : "replication_pad"; }

// (planes..., spatial...) as planes of three dimensions, and for each result the element that it comes from, in each
// dimension.
struct PadMap {
  int64_t planes = 1, in_plane = 1, out_plane = 1;
  int64_t in[3], out[3];
  IntVector from[3];
};

int64_t mapped(bool reflect, int64_t i, int64_t size) {
  if (!reflect) return std::clamp<int64_t>(i, 0, size - 1);
  if (i < 0) i = -i;
  return i >= size ? 2 * (size - 1) - i : i;
}

PadMap pad_map(bool reflect, int64_t n, IntList in, IntList padding) {
  PadMap m;
  for (size_t d = 0; d + static_cast<size_t>(n) < in.size(); ++d) m.planes *= in[d];
  fill_dims(in.last(static_cast<size_t>(n)), 1, m.in);
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t pair = 2 - d;  // pairs count from the last dimension
    const int64_t left = pair < n ? padding[static_cast<size_t>(2 * pair)] : 0,
                  right = pair < n ? padding[static_cast<size_t>(2 * pair + 1)] : 0;
    m.out[d] = m.in[d] + left + right;
    for (int64_t i = 0; i < m.out[d]; ++i) m.from[d].push_back(mapped(reflect, i - left, m.in[d]));
    m.in_plane *= m.in[d];
    m.out_plane *= m.out[d];
  }
  return m;
}

// Calls fn(result index, source index) within a plane, in order.
template <class F>
void for_each_pair(const PadMap& m, F&& fn) {
  int64_t to = 0;
  for (int64_t d = 0; d < m.out[0]; ++d)
    for (int64_t h = 0; h < m.out[1]; ++h) {
      const int64_t row = (m.from[0][static_cast<size_t>(d)] * m.in[1] + m.from[1][static_cast<size_t>(h)]) * m.in[2];
      const int64_t* const columns = m.from[2].data();
      for (int64_t w = 0; w < m.out[2]; ++w, ++to) fn(to, row + columns[w]);
    }
}
template <class F>
void for_each_plane(const PadMap& m, F&& fn) {
  parallel_for(m.planes, 1 + 32768 / (m.out_plane + 1), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) fn(p);
  });
}

template <class E>
void copy_planes(const PadMap& m, const void* x, void* y) {
  for_each_plane(m, [&](int64_t p) {
    const E* const from = static_cast<const E*>(x) + p * m.in_plane;
    E* const to = static_cast<E*>(y) + p * m.out_plane;
    for_each_pair(m, [&](int64_t t, int64_t f) { to[t] = from[f]; });
  });
}

template <class T>
void add_planes(const PadMap& m, const void* dy, void* dx) {
  using A = cpu::internal::Acc<T>;
  for_each_plane(m, [&](int64_t p) {
    const T* const grad = static_cast<const T*>(dy) + p * m.out_plane;
    T* const out = static_cast<T*>(dx) + p * m.in_plane;
    std::vector<A> sums(static_cast<size_t>(m.in_plane));
    for_each_pair(m, [&](int64_t t, int64_t f) {
      sums[static_cast<size_t>(f)] = static_cast<A>(sums[static_cast<size_t>(f)] + static_cast<A>(grad[t]));
    });
    for (int64_t i = 0; i < m.in_plane; ++i) out[i] = static_cast<T>(sums[static_cast<size_t>(i)]);
  });
}

// On devices: a selection along each dimension. Calls f(dimension of the image, the source index of each result index).
template <class F>
void for_each_padded_dim(const PadMap& m, int64_t n, const Tensor& image, F&& f) {
  for (int64_t d = 3 - n; d < 3; ++d) {
    const IntVector& from = m.from[d];
    const Tensor index = empty_kernel(IntVector{static_cast<int64_t>(from.size())}, DType::kInt64);
    std::copy(from.begin(), from.end(), index.data<int64_t>());
    f(image.dim() - 3 + d, to(index, image.device(), DType::kInt64));
  }
}

IntVector padded_sizes(bool reflect, int64_t n, const Tensor& self, IntList padding) {
  const char* const name = pad_name(reflect);
  TESSERA_CHECK(static_cast<int64_t>(padding.size()) == 2 * n, "padding size is expected to be ", 2 * n, " for ", name,
                n, "d, but got ", padding.size());
  const IntList in = self.sizes();
  const bool rank = self.dim() == n + 1 || self.dim() == n + 2;
  // Only the batch may be empty.
  const bool filled =
      rank && std::ranges::all_of(in.last(static_cast<size_t>(n) + (self.dim() == n + 2 || !reflect ? 1 : 0)),
                                  [](int64_t v) { return v != 0; });
  TESSERA_CHECK(rank && filled, "Expected ", n + 1, "D or ", n + 2,
                "D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: ",
                shape_string(in));
  IntVector out = to_vector(in);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = self.dim() - 1 - i, size = in[static_cast<size_t>(d)], left = padding[static_cast<size_t>(2 * i)],
                  right = padding[static_cast<size_t>(2 * i + 1)];
    TESSERA_CHECK(!reflect || (left < size && right < size), "Argument #", 4 + 2 * i,
                  ": Padding size should be less than the corresponding input dimension, but got: padding (", left,
                  ", ", right, ") at dimension ", d, " of input ", shape_string(in));
    int64_t& s = out[static_cast<size_t>(d)];
    s += left + right;
    TESSERA_CHECK(s >= 1, "input (",
                  i == 0   ? "W"
                  : i == 1 ? "H"
                           : "D",
                  ": ", size, ") is too small. Calculated output ",
                  i == 0   ? "W"
                  : i == 1 ? "H"
                           : "D",
                  ": ", s);
  }
  return out;
}

}  // namespace

OutputSpec mapped_pad_spec(bool reflect, int64_t n, const Tensor& self, IntList padding) {
  return spec_like(self, padded_sizes(reflect, n, self, padding));
}
void mapped_pad_into(bool reflect, int64_t n, const Tensor& self, IntList padding, const Tensor& out) {
  if (out.numel() == 0) return;
  const PadMap m = pad_map(reflect, n, self.sizes(), padding);
  if (!self.is_cpu()) {
    Tensor r = self;
    for_each_padded_dim(m, n, self, [&](int64_t dim, const Tensor& from) { r = index_select(r, dim, from); });
    copy__kernel(out, r, false);
    return;
  }
  const Tensor x = contiguous(self);
  const ResultMemory y(out);
  visit_size(x.item_size(), [&](auto tag) { copy_planes<typename decltype(tag)::type>(m, x.data_ptr(), y.data()); });
  y.finish();
}
OutputSpec mapped_pad_backward_spec(bool reflect, int64_t n, const Tensor& grad, const Tensor& self, IntList padding) {
  const IntVector expected = padded_sizes(reflect, n, self, padding);
  TESSERA_CHECK(std::ranges::equal(grad.sizes(), expected), pad_name(reflect), n,
                "d_backward: expected grad_output of size ", shape_string(expected), ", but got ",
                shape_string(grad.sizes()));
  same_dtype(grad, self, pad_name(reflect));
  return spec_like(self, to_vector(self.sizes()));
}
void mapped_pad_backward_into(bool reflect, int64_t n, const Tensor& grad, IntList padding, const Tensor& out) {
  if (out.numel() == 0) return;
  const PadMap m = pad_map(reflect, n, out.sizes(), padding);
  if (!grad.is_cpu()) {
    Tensor r = grad;
    for_each_padded_dim(m, n, out, [&](int64_t dim, const Tensor& from) {
      IntVector sizes = to_vector(r.sizes());
      sizes[static_cast<size_t>(dim)] = out.size(dim);
      r = index_add(zeros(sizes, r.dtype(), std::nullopt, r.device()), dim, from, r);
    });
    copy__kernel(out, r, false);
    return;
  }
  const Tensor g = contiguous(grad);
  const ResultMemory x(out);
  cpu::internal::visit_addable(pad_name(reflect), g.dtype(),
                               [&](auto tag) { add_planes<decltype(tag)>(m, g.data_ptr(), x.data()); });
  x.finish();
}

// --- By mode ---

Tensor _pad_circular_composite(const Tensor& self, SymIntList pad_) {
  const IntList pad = pad_.ints();
  const int64_t n = static_cast<int64_t>(pad.size()) / 2;
  TESSERA_CHECK(pad.size() % 2 == 0 && (self.dim() == n + 1 || self.dim() == n + 2), "Invalid padding size, expected ",
                2 * (self.dim() - 2), " but got ", pad.size());
  Tensor x = self;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t d = self.dim() - 1 - i, size = self.size(d), left = pad[static_cast<size_t>(2 * i)],
                  right = pad[static_cast<size_t>(2 * i + 1)];
    TESSERA_CHECK(left <= size && right <= size, "Padding value causes wrapping around more than once.");
    TESSERA_CHECK(left + right + size >= 0, "Negative padding value is resulting in an empty dimension");
    // Cropped sides are cut off first; what is left wraps around.
    const int64_t skip = std::max<int64_t>(-left, 0), kept = size - skip - std::max<int64_t>(-right, 0);
    x = narrow(x, d, skip, kept);
    std::vector<Tensor> parts;
    if (left > 0) parts.push_back(narrow(x, d, kept - left, left));
    parts.push_back(x);
    if (right > 0) parts.push_back(narrow(x, d, 0, right));
    if (parts.size() > 1) x = cat(parts, d);
  }
  return x.is_same(self) || x.is_view() ? clone(x, MemoryFormat::kContiguous) : contiguous(x);
}

namespace {
enum PadMode : int64_t { kReflect = 0, kReplicate = 1, kCircular = 2, kConstant = 3 };
}  // namespace

Tensor _pad_enum_composite(const Tensor& self, SymIntList pad, int64_t mode, std::optional<double> value) {
  TESSERA_CHECK(pad.size() % 2 == 0, "Padding length must be divisible by 2");
  TESSERA_CHECK(static_cast<int64_t>(pad.size()) <= self.dim() * 2,
                "Padding length should be less than or equal to two times the input dimension but got padding length ",
                pad.size(), " and input of dimension ", self.dim());
  if (mode == kConstant) return constant_pad_nd(self, pad, value.value_or(0.0));
  TESSERA_CHECK(!value || *value == 0.0, "Padding mode \"",
                mode == kReflect     ? "reflect"
                : mode == kReplicate ? "replicate"
                                     : "circular",
                "\" doesn't take in value argument");
  const int64_t n = static_cast<int64_t>(pad.size()) / 2;
  TESSERA_CHECK_NOT_IMPLEMENTED(
      n >= 1 && n <= 3 && (self.dim() == n + 1 || self.dim() == n + 2) && mode >= kReflect && mode <= kCircular,
      "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now");
  if (mode == kCircular) return _pad_circular(self, pad);
  if (mode == kReflect)
    return n == 1 ? reflection_pad1d(self, pad) : n == 2 ? reflection_pad2d(self, pad) : reflection_pad3d(self, pad);
  return n == 1 ? replication_pad1d(self, pad) : n == 2 ? replication_pad2d(self, pad) : replication_pad3d(self, pad);
}

Tensor pad_composite(const Tensor& self, SymIntList pad, std::string_view mode, std::optional<double> value) {
  static constexpr std::string_view kModes[] = {"reflect", "replicate", "circular", "constant"};
  for (int64_t i = 0; i < 4; ++i)
    if (mode == kModes[i]) return _pad_enum(self, pad, i, value);
  throw NotImplementedError(str_cat("Unrecognised padding mode ", mode));
}

}  // namespace tessera::kernels
