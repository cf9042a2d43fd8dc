// Pooling: checks, output sizes, memory formats; the arithmetic is in nn/cpu/pool.cc.
#include <algorithm>

#include "nn/nn_ops.h"
#include "nn/pool_extra.h"
#include "nn/pool_kernels.h"
#include "nn/spatial.h"
#include "nn/cpu/pool.h"
#include "nn/cpu/pool_channels.h"
#include "nn/engine/pool.h"
#include "tensor/core/transforms.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

// A pooling of given tensors: windows with one value for each dimension, and the sizes of the result.
struct Pool {
  IntVector kernel, stride, padding, dilation;
  IntVector out_sizes;
};

std::string pool_name(const char* kind, int64_t n) { return str_cat(kind, n, "d"); }

// (planes..., spatial...) or without a batch; only the batch may be empty.
void check_image(const std::string& op, int64_t n, const Tensor& self) {
  const IntList s = self.sizes();
  const bool rank = self.dim() == n + 1 || self.dim() == n + 2;
  const bool filled =
      rank && std::ranges::all_of(s.subspan(static_cast<size_t>(self.dim() - n - 1)), [](int64_t v) { return v != 0; });
  TESSERA_CHECK(rank && filled, op, ": Expected ", n + 1, "D or ", n + 2,
                "D (batch mode) tensor with optional 0 dim batch size for input, but got: ", shape_string(s));
}

int64_t window_count(int64_t size, int64_t kernel, int64_t pad, int64_t stride, int64_t dilation, bool ceil_mode) {
  const int64_t room = size + 2 * pad - dilation * (kernel - 1) - 1;
  const int64_t raised = room + (ceil_mode ? stride - 1 : 0);
  int64_t out = (raised >= 0 ? raised / stride : -((-raised + stride - 1) / stride)) + 1;
  // A window may stick out on the right, but must start in the input or the padding on its left.
  if (ceil_mode && (out - 1) * stride >= size + pad) --out;
  return out;
}

void check_windows(const std::string& op, const Pool& p) {
  for (size_t i = 0; i < p.kernel.size(); ++i) {
    TESSERA_CHECK(p.kernel[i] > 0, op, ": kernel size should be greater than zero, but got ", shape_string(p.kernel));
    TESSERA_CHECK(p.stride[i] > 0, op, ": stride should be greater than zero, but got ", shape_string(p.stride));
    TESSERA_CHECK(p.dilation[i] > 0, op, ": dilation should be greater than zero, but got ", shape_string(p.dilation));
    TESSERA_CHECK(p.padding[i] >= 0, "pad must be non-negative, but got pad: ", p.padding[i]);
    TESSERA_CHECK(p.padding[i] <= ((p.kernel[i] - 1) * p.dilation[i] + 1) / 2,
                  "pad should be at most half of effective kernel size, but got pad=", p.padding[i],
                  ", kernel_size=", p.kernel[i], " and dilation=", p.dilation[i]);
  }
}

Pool make_pool(const char* kind, int64_t n, const Tensor& self, const PoolWindows& w) {
  const std::string op = pool_name(kind, n);
  const char* const name = op.c_str();
  Pool p;
  p.kernel = per_dimension(w.kernel, n, name, "kernel_size");
  p.stride = w.stride.empty() ? p.kernel : per_dimension(w.stride, n, name, "stride");
  p.padding = per_dimension(w.padding, n, name, "padding");
  p.dilation = per_dimension(w.dilation, n, name, "dilation");
  check_extents(p.kernel, name, "kernel_size");
  check_extents(p.stride, name, "stride");
  check_extents(p.dilation, name, "dilation");
  check_windows(op, p);
  check_image(op, n, self);
  p.out_sizes = to_vector(self.sizes());
  const size_t first = p.out_sizes.size() - static_cast<size_t>(n);
  bool fits = true;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    int64_t& s = p.out_sizes[first + i];
    s = window_count(s, p.kernel[i], p.padding[i], p.stride[i], p.dilation[i], w.ceil_mode);
    fits = fits && s >= 1;
  }
  const IntList in = self.sizes();
  TESSERA_CHECK(fits, "Given input size: ", times_string(in.subspan(first - 1)),
                ". Calculated output size: ", times_string(IntList(p.out_sizes).subspan(first - 1)),
                ". Output size is too small");
  return p;
}

int64_t volume_of(IntList sizes) {
  int64_t v = 1;
  for (int64_t s : sizes) v *= s;
  return v;
}
int64_t planes_of(const Tensor& t, int64_t n) { return volume_of(t.sizes().first(static_cast<size_t>(t.dim() - n))); }
IntList image_of(const Tensor& t, int64_t n) { return t.sizes().last(static_cast<size_t>(n)); }

cpu::PoolGeometry pool_geometry(const Pool& p, const Tensor& self, int64_t n) {
  cpu::PoolGeometry g{};
  g.planes = planes_of(self, n);
  fill_dims(image_of(self, n), 1, g.in_size);
  fill_dims(p.kernel, 1, g.kernel);
  fill_dims(p.stride, 1, g.stride);
  fill_dims(p.padding, 0, g.padding);
  fill_dims(p.dilation, 1, g.dilation);
  fill_dims(IntList(p.out_sizes).last(static_cast<size_t>(n)), 1, g.out_size);
  return g;
}

void same_shape(const std::string& op, const char* what, const Tensor& t, IntList expected) {
  TESSERA_CHECK(std::ranges::equal(t.sizes(), expected), op, ": expected ", what, " of size ", shape_string(expected),
                ", but got ", shape_string(t.sizes()));
}
void int64_indices(const std::string& op, const Tensor& indices) {
  TESSERA_CHECK(indices.dtype() == DType::kInt64, op,
                ": elements in indices should be type int64 but got: ", type_name_of(indices.dtype()));
}
void real_values(const std::string& op, const Tensor& self) {
  TESSERA_CHECK_NOT_IMPLEMENTED(!self.is_complex() && self.dtype() != DType::kBool, "\"", op,
                                "\" not implemented for '", type_name_of(self.dtype()), "'");
}

}  // namespace

// --- Maximum ---

std::array<OutputSpec, 2> max_pool_spec(int64_t n, const Tensor& self, const PoolWindows& w) {
  real_values(pool_name("max_pool", n), self);
  OutputSpec values = spec_like(self, make_pool("max_pool", n, self, w).out_sizes), indices = values;
  indices.dtype = DType::kInt64;
  return {values, indices};
}
namespace {

// Images with channels side by side, for kernels that take them so.
struct ChannelImages {
  ChannelImages(const Tensor& self, int64_t n)
      : taken(self.dim() == n + 2 && self.is_cpu() && !strides_of_format(self, self.sizes()).empty() &&
              cpu::max_pool_takes_channels(self.dtype(), volume_of(image_of(self, n)), self.size(1))),
        format(self.suggest_memory_format()) {}

  Tensor dense(const Tensor& t) const { return contiguous(t, format); }
  // Memory of that form for a result.
  ResultMemory memory(const Tensor& out) const {
    return ResultMemory(out, out.is_contiguous(format), channels_last_strides(out.sizes()), out.dtype());
  }

  bool taken;
  MemoryFormat format;
};

}  // namespace

void max_pool_into(int64_t n, const Tensor& self, const PoolWindows& w, const Tensor& out, const Tensor& indices) {
  if (out.numel() == 0) return;
  const ChannelImages images(self, n);
  if (images.taken) {
    const Tensor x = images.dense(self);
    const ResultMemory y = images.memory(out), i = images.memory(indices);
    cpu::PoolGeometry g = pool_geometry(make_pool("max_pool", n, self, w), self, n);
    g.planes = self.size(0);
    cpu::max_pool_forward_channels(x.dtype(), g, self.size(1), x.data_ptr(), y.data(), i.tensor().data_ptr<int64_t>());
    y.finish();
    i.finish();
    return;
  }
  const Tensor x = contiguous(self);
  const ResultMemory y(out), i(indices);
  TESSERA_ON(x.device(), max_pool_forward)
  (x.dtype(), pool_geometry(make_pool("max_pool", n, self, w), self, n), x.data_ptr(), y.data(),
   i.tensor().data_ptr<int64_t>());
  y.finish();
  i.finish();
}
OutputSpec max_pool_backward_spec(int64_t n, const Tensor& grad, const Tensor& self, const PoolWindows& w,
                                  const Tensor& indices) {
  const std::string op = str_cat("max_pool", n, "d_with_indices_backward");
  const Pool p = make_pool("max_pool", n, self, w);
  same_shape(op, "grad_output", grad, p.out_sizes);
  same_shape(op, "indices", indices, p.out_sizes);
  same_dtype(grad, self, op.c_str());
  int64_indices(op, indices);
  return spec_like(self, to_vector(self.sizes()));
}
void max_pool_backward_into(int64_t n, const Tensor& grad, const Tensor& self, const Tensor& indices,
                            const PoolWindows* w, const Tensor& out) {
  if (out.numel() == 0) return;
  const ChannelImages images(self, n);
  if (images.taken) {
    const Tensor g = images.dense(grad), i = images.dense(indices);
    const ResultMemory x = images.memory(out);
    cpu::max_pool_backward_channels(g.dtype(), self.size(0), volume_of(image_of(self, n)), volume_of(image_of(g, n)),
                                    self.size(1), g.data_ptr(), i.data_ptr<int64_t>(), x.data());
    x.finish();
    return;
  }
  const Tensor g = contiguous(grad), i = contiguous(indices);
  const ResultMemory x(out);
  if (const auto by_windows = nn::PoolEngines::of(g.device().type).max_pool_backward_windows; by_windows && w) {
    internal::select_device(g.device(), "max_pool_backward");
    if (by_windows(g.dtype(), pool_geometry(make_pool("max_pool", n, self, *w), self, n), g.data_ptr(),
                   i.data_ptr<int64_t>(), x.data())) {
      x.finish();
      return;
    }
  }
  TESSERA_ON(g.device(), max_pool_backward)
  (g.dtype(), planes_of(self, n), volume_of(image_of(self, n)), volume_of(image_of(g, n)), g.data_ptr(),
   i.data_ptr<int64_t>(), x.data());
  x.finish();
}

Tensor max_unpool(const Tensor& self, const Tensor& indices, IntList output_size, int64_t n) {
  const std::string op = str_cat("max_unpooling", n, "d");
  int64_indices(op, indices);
  TESSERA_CHECK(static_cast<int64_t>(output_size.size()) == n, "There should be exactly ", n,
                " elements in output_size, but got ", output_size.size(), " elements in output_size.");
  TESSERA_CHECK(self.dim() == n + 1 || self.dim() == n + 2, "Input to ", op, " should be a ", n + 1, "d or ", n + 2,
                "d Tensor, but got a tensor with ", self.dim(), " dimensions.");
  TESSERA_CHECK(std::ranges::equal(self.sizes(), indices.sizes()),
                "Expected shape of indices to be same as that of the input tensor (", shape_string(self.sizes()),
                ") but got indices tensor with shape: ", shape_string(indices.sizes()));
  IntVector flat(self.sizes().begin(), self.sizes().end() - n), sizes = flat;
  IntVector target = flat;
  sizes.insert(sizes.end(), output_size.begin(), output_size.end());
  flat.push_back(volume_of(image_of(self, n)));
  target.push_back(checked_numel(output_size));
  // Inside of function transforms there may be no one number to look at, and devices would have to be waited for;
  // scatter checks, too.
  if (indices.numel() > 0 && indices.is_cpu() && !values_unknown(indices) && !is_transformed(indices)) {
    const int64_t low = min(indices).item<int64_t>(), high = max(indices).item<int64_t>();
    TESSERA_CHECK(low >= 0 && high < target.back(), "Found an invalid max index: ", low < 0 ? low : high,
                  " (output volumes are of size ", times_string(output_size), ")");
  }
  return contiguous(reshape(scatter(new_zeros(self, target), -1, reshape(indices, flat), reshape(self, flat)), sizes),
                    self.suggest_memory_format());
}

// --- Mean ---

OutputSpec avg_pool_spec(int64_t n, const Tensor& self, const PoolWindows& w, std::optional<int64_t> divisor) {
  // Means of small integers would be rounded: int64 is the only one that is documented.
  TESSERA_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.dtype() == DType::kInt64, "\"",
                                pool_name("avg_pool", n), "\" not implemented for '", type_name_of(self.dtype()), "'");
  TESSERA_CHECK(!divisor || *divisor != 0, "divisor must be not zero");
  return spec_like(self, make_pool("avg_pool", n, self, w).out_sizes);
}
void avg_pool_into(int64_t n, const Tensor& self, const PoolWindows& w, bool include_pad,
                   std::optional<int64_t> divisor, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor x = contiguous(self);
  const ResultMemory y(out);
  TESSERA_ON(x.device(), avg_pool_forward)
  (x.dtype(), pool_geometry(make_pool("avg_pool", n, self, w), self, n), include_pad, divisor.value_or(0), x.data_ptr(),
   y.data());
  y.finish();
}
OutputSpec avg_pool_backward_spec(int64_t n, const Tensor& grad, const Tensor& self, const PoolWindows& w,
                                  std::optional<int64_t> divisor) {
  const std::string op = str_cat("avg_pool", n, "d_backward");
  TESSERA_CHECK(!divisor || *divisor != 0, "divisor must be not zero");
  same_shape(op, "grad_output", grad, make_pool("avg_pool", n, self, w).out_sizes);
  same_dtype(grad, self, op.c_str());
  return spec_like(self, to_vector(self.sizes()));
}
void avg_pool_backward_into(int64_t n, const Tensor& grad, const Tensor& self, const PoolWindows& w, bool include_pad,
                            std::optional<int64_t> divisor, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor g = contiguous(grad);
  const ResultMemory x(out);
  TESSERA_ON(g.device(), avg_pool_backward)
  (g.dtype(), pool_geometry(make_pool("avg_pool", n, self, w), self, n), include_pad, divisor.value_or(0), g.data_ptr(),
   x.data());
  x.finish();
}

// --- A given number of windows ---

namespace {
void check_adaptive_image(const char* op, int64_t n, const Tensor& self) {
  TESSERA_CHECK(self.dim() == n + 1 || self.dim() == n + 2, op, "(): Expected ", n + 1, "D or ", n + 2,
                "D tensor, but got ", shape_string(self.sizes()));
  for (int64_t d = self.dim() - n; d < self.dim(); ++d)
    TESSERA_CHECK(self.sizes()[static_cast<size_t>(d)] > 0, op,
                  "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
                  shape_string(self.sizes()), " with dimension ", d, " being empty");
}
struct Image {
  explicit Image(const Tensor& t, int64_t n) { fill_dims(image_of(t, n), 1, size); }
  int64_t size[3];
};
}  // namespace

OutputSpec adaptive_spec(const char* op, int64_t n, const Tensor& self, IntList output_size) {
  TESSERA_CHECK(static_cast<int64_t>(output_size.size()) == n || output_size.size() == 1, op,
                ": output_size must have ", n, " elements, but got ", output_size.size());
  const IntVector windows = per_dimension(output_size, n, op, "output_size");
  TESSERA_CHECK(std::ranges::all_of(windows, [](int64_t v) { return v >= 0; }), op,
                ": elements of output_size must be greater than or equal to 0, but received ",
                shape_string(output_size));
  check_adaptive_image(op, n, self);
  real_values(op, self);
  IntVector sizes(self.sizes().begin(), self.sizes().end() - n);
  sizes.insert(sizes.end(), windows.begin(), windows.end());
  return n == 2 ? spec_like(self, std::move(sizes)) : OutputSpec(self, sizes);
}
OutputSpec adaptive_backward_spec(const char* op, int64_t n, const Tensor& grad, const Tensor& self) {
  check_adaptive_image(op, n, self);
  const size_t lead = static_cast<size_t>(self.dim() - n);
  TESSERA_CHECK(grad.dim() == self.dim() && std::ranges::equal(grad.sizes().first(lead), self.sizes().first(lead)), op,
                "(): expected grad_output to have the planes of input ", shape_string(self.sizes()), ", but got ",
                shape_string(grad.sizes()));
  same_dtype(grad, self, op);
  return spec_like(self, to_vector(self.sizes()));
}
OutputSpec adaptive_max_backward_spec(const char* op, int64_t n, const Tensor& grad, const Tensor& self,
                                      const Tensor& indices) {
  OutputSpec s = adaptive_backward_spec(op, n, grad, self);
  same_shape(op, "indices", indices, grad.sizes());
  int64_indices(op, indices);
  return s;
}
void adaptive_avg_into(int64_t n, const Tensor& self, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor x = contiguous(self);
  const ResultMemory y(out);
  TESSERA_ON(x.device(), adaptive_avg_pool_forward)
  (x.dtype(), planes_of(x, n), Image(x, n).size, Image(out, n).size, x.data_ptr(), y.data());
  y.finish();
}
void adaptive_avg_backward_into(int64_t n, const Tensor& grad, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor g = contiguous(grad);
  const ResultMemory x(out);
  TESSERA_ON(g.device(), adaptive_avg_pool_backward)
  (g.dtype(), planes_of(out, n), Image(out, n).size, Image(g, n).size, g.data_ptr(), x.data());
  x.finish();
}
void adaptive_max_into(int64_t n, const Tensor& self, const Tensor& out, const Tensor& indices) {
  if (out.numel() == 0) return;
  const Tensor x = contiguous(self);
  const ResultMemory y(out), i(indices);
  TESSERA_ON(x.device(), adaptive_max_pool_forward)
  (x.dtype(), planes_of(x, n), Image(x, n).size, Image(out, n).size, x.data_ptr(), y.data(),
   i.tensor().data_ptr<int64_t>());
  y.finish();
  i.finish();
}

Tensor adaptive_avg_pool_of(const Tensor& self, IntList output_size, int64_t n) {
  const std::string op = pool_name("adaptive_avg_pool", n);
  TESSERA_CHECK(static_cast<int64_t>(output_size.size()) == n, op, ": output_size must be ", n, ", but got ",
                output_size.size(), " elements");
  const bool quantized = is_quantized(self.dtype());  // Python's, which are asked for the operator below
  TESSERA_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || quantized, "\"", op, "\" not implemented for '",
                                type_name_of(self.dtype()), "'");
  const bool one = !quantized && std::ranges::all_of(output_size, [](int64_t v) { return v == 1; });
  // One window is a mean, which is faster; the checks are those of the general case.
  if (!one) return n == 2 ? _adaptive_avg_pool2d(self, output_size) : _adaptive_avg_pool3d(self, output_size);
  adaptive_spec(op.c_str(), n, self, output_size);
  const Tensor y = n == 2 ? mean(self, IntVector{-2, -1}, true) : mean(self, IntVector{-3, -2, -1}, true);
  const IntVector strides = strides_of_format(self, y.sizes());
  return strides.empty() ? y : as_strided(y, y.sizes(), strides);
}

// --- One dimension, as the second of two ---

namespace {
void check_line(const char* op, const Tensor& self) {
  TESSERA_CHECK(self.dim() == 2 || self.dim() == 3, op, "() Expected 2D or 3D input tensor, but got ",
                shape_string(self.sizes()));
}
// {one, the value of a list with one element}.
IntVector flat_pair(IntList l, int64_t one, const char* op, const char* what) {
  TESSERA_CHECK(l.size() == 1, op, "() argument '", what, "' should contain one int, but got ", l.size());
  return {one, l[0]};
}
}  // namespace

std::tuple<Tensor, Tensor> max_pool1d_with_indices_composite(const Tensor& self, IntList kernel_size, IntList stride,
                                                             IntList padding, IntList dilation, bool ceil_mode) {
  constexpr const char* kOp = "max_pool1d";
  check_line(kOp, self);
  const IntList step = stride.empty() ? kernel_size : stride;
  auto [y, i] = max_pool2d_with_indices(unsqueeze(self, -2), flat_pair(kernel_size, 1, kOp, "kernel_size"),
                                        flat_pair(step, 1, kOp, "stride"), flat_pair(padding, 0, kOp, "padding"),
                                        flat_pair(dilation, 1, kOp, "dilation"), ceil_mode);
  return {squeeze(y, -2), squeeze(i, -2)};
}
Tensor avg_pool1d_composite(const Tensor& self, IntList kernel_size, IntList stride, IntList padding, bool ceil_mode,
                            bool count_include_pad) {
  constexpr const char* kOp = "avg_pool1d";
  check_line(kOp, self);
  const IntList step = stride.empty() ? kernel_size : stride;
  return squeeze(
      avg_pool2d(unsqueeze(self, -2), flat_pair(kernel_size, 1, kOp, "kernel_size"), flat_pair(step, 1, kOp, "stride"),
                 flat_pair(padding, 0, kOp, "padding"), ceil_mode, count_include_pad, std::nullopt),
      -2);
}
Tensor adaptive_avg_pool1d_composite(const Tensor& self, IntList output_size) {
  check_line("adaptive_avg_pool1d", self);
  return squeeze(
      adaptive_avg_pool2d(unsqueeze(self, -2), flat_pair(output_size, 1, "adaptive_avg_pool1d", "output_size")), -2);
}
std::tuple<Tensor, Tensor> adaptive_max_pool1d_composite(const Tensor& self, IntList output_size) {
  check_line("adaptive_max_pool1d", self);
  auto [y, i] =
      adaptive_max_pool2d(unsqueeze(self, -2), flat_pair(output_size, 1, "adaptive_max_pool1d", "output_size"));
  return {squeeze(y, -2), squeeze(i, -2)};
}

}  // namespace tessera::kernels
