// Convolution: checks, sizes, memory formats; the arithmetic is in tensor/cpu (conv_*.cc).
#include <algorithm>

#include "nn/conv_extra.h"
#include "nn/conv_kernels.h"
#include "nn/nn_ops.h"
#include "nn/spatial.h"
#include "tensor/core/warning.h"
#include "nn/cpu/conv/conv.h"
#include "nn/engine/conv.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

// The arguments with one value for each spatial dimension.
struct ConvArgs {
  IntVector stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
  int64_t spatial() const { return static_cast<int64_t>(stride.size()); }
};

std::string list_string(IntList l) { return shape_string(l); }

IntVector conv_list(IntList values, int64_t n, const char* what) {
  TESSERA_CHECK(values.size() == 1 || static_cast<int64_t>(values.size()) == n, "expected ", what,
                " to be a single integer value or a list of ", n,
                " values to match the convolution dimensions, but got ", what, "=", list_string(values));
  return values.size() == 1 ? IntVector(static_cast<size_t>(n), values[0]) : to_vector(values);
}
bool any_below(IntList l, int64_t low) {
  return std::ranges::any_of(l, [low](int64_t v) { return v < low; });
}

ConvArgs conv_args(const Tensor& weight, IntList stride, IntList padding, IntList dilation, bool transposed,
                   IntList output_padding, int64_t groups) {
  TESSERA_CHECK(weight.dim() > 2 && weight.dim() <= 5,
                "weight should have at least three dimensions and at most five, but got weight of size ",
                shape_string(weight.sizes()));
  const int64_t n = weight.dim() - 2;
  ConvArgs a{conv_list(stride, n, "stride"),
             conv_list(padding, n, "padding"),
             conv_list(dilation, n, "dilation"),
             conv_list(output_padding, n, "output_padding"),
             transposed,
             groups};
  TESSERA_CHECK(!any_below(a.padding, 0), "negative padding is not supported");
  TESSERA_CHECK(!any_below(a.output_padding, 0), "negative output_padding is not supported");
  TESSERA_CHECK(!any_below(a.stride, 1), "non-positive stride is not supported");
  TESSERA_CHECK(!any_below(a.dilation, 1), "dilation should be greater than zero");
  TESSERA_CHECK(groups > 0, "non-positive groups is not supported");
  const IntList kernel = weight.sizes().subspan(2);
  TESSERA_CHECK(!any_below(kernel, 1), "kernel size should be greater than zero, but got weight of size ",
                shape_string(weight.sizes()));
  check_extents(kernel, "convolution", "kernel size");
  check_extents(a.stride, "convolution", "stride");
  check_extents(a.padding, "convolution", "padding");
  check_extents(a.dilation, "convolution", "dilation");
  check_extents(a.output_padding, "convolution", "output_padding");
  return a;
}

void check_channels(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvArgs& a) {
  const IntList in = input.sizes(), w = weight.sizes();
  const std::string input_size = shape_string(in), weight_size = shape_string(w);
  TESSERA_CHECK(input.dim() == weight.dim(), "Expected ", weight.dim(), "-dimensional input for ", weight.dim(),
                "-dimensional weight ", weight_size, ", but got ", input.dim(), "-dimensional input of size ",
                input_size, " instead");
  TESSERA_CHECK(w[0] >= a.groups, "Given groups=", a.groups, ", expected weight to be at least ", a.groups,
                " at dimension 0, but got weight of size ", weight_size, " instead");
  TESSERA_CHECK(w[0] % a.groups == 0, "Given groups=", a.groups, ", expected weight to be divisible by ", a.groups,
                " at dimension 0, but got weight of size ", weight_size, " instead");
  const int64_t in_channels = a.transposed ? w[0] : w[1] * a.groups,
                out_channels = a.transposed ? w[1] * a.groups : w[0];
  TESSERA_CHECK(in[1] == in_channels, "Given ", a.transposed ? "transposed=1" : str_cat("groups=", a.groups),
                ", weight of size ", weight_size, ", expected input", input_size, " to have ", in_channels,
                " channels, but got ", in[1], " channels instead");
  TESSERA_CHECK(!bias.defined() || (bias.dim() == 1 && bias.sizes()[0] == out_channels), "Given ",
                a.transposed ? "transposed=1, " : "", "weight of size ", weight_size,
                ", expected bias to be 1-dimensional with ", out_channels, " elements, but got bias of size ",
                bias.defined() ? shape_string(bias.sizes()) : "", " instead");
}

void check_dtypes(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const auto type = [](const Tensor& t) {
    return str_cat("torch.", t.is_cuda() ? "cuda." : "", type_name_of(t.dtype()), "Tensor");
  };
  for (const Tensor* t : {&weight, &bias}) {
    if (!t->defined()) continue;
    TESSERA_CHECK(t->dtype() == input.dtype() && t->is_cuda() == input.is_cuda(), "Input type (", type(input), ") and ",
                  t == &bias ? "bias" : "weight", " type (", type(*t), ") should be the same");
  }
  TESSERA_CHECK_NOT_IMPLEMENTED(input.dtype() != DType::kBool, "\"slow_conv2d_cpu\" not implemented for 'Bool'");
}

// Sizes of the result. Errors for kernels that do not fit.
IntVector conv_output_sizes(const Tensor& input, const Tensor& weight, const ConvArgs& a) {
  const IntList in = input.sizes(), w = weight.sizes();
  IntVector out = {in[0], a.transposed ? w[1] * a.groups : w[0]};
  std::string padded, kernel;
  bool fits = true;
  for (int64_t i = 0; i < a.spatial(); ++i) {
    const size_t d = static_cast<size_t>(i);
    const int64_t span = a.dilation[d] * (w[d + 2] - 1) + 1;
    if (a.transposed) {
      TESSERA_CHECK(a.output_padding[d] < std::max(a.stride[d], a.dilation[d]),
                    "output padding must be smaller than either stride or dilation, but got output_padding ",
                    a.output_padding[d], ", stride ", a.stride[d], ", dilation ", a.dilation[d]);
      out.push_back((in[d + 2] - 1) * a.stride[d] - 2 * a.padding[d] + span + a.output_padding[d]);
      fits = fits && out.back() > 0;
    } else {
      const int64_t room = in[d + 2] + 2 * a.padding[d];
      fits = fits && room >= span;
      padded += (i ? " x " : "") + std::to_string(room);
      kernel += (i ? " x " : "") + std::to_string(span);
      out.push_back(room < span ? 0 : (room - span) / a.stride[d] + 1);
    }
  }
  if (a.transposed) {
    TESSERA_CHECK(fits, "Given input size per channel: ", times_string(in.subspan(2)),
                  ". Calculated output size per channel: ", times_string(IntList(out).subspan(2)),
                  ". Output size is too small");
  } else {
    TESSERA_CHECK(fits, "Calculated padded input size per channel: (", padded, "). Kernel size: (", kernel,
                  "). Kernel size can't be greater than actual input size");
  }
  return out;
}

// `image` and `result` are the sizes on the two sides of the direct convolution: for a transposed one, its output is
// the image.
cpu::ConvGeometry geometry(IntList image, IntList result, const Tensor& weight, const ConvArgs& a) {
  cpu::ConvGeometry g{};
  g.batch = image[0];
  g.in_channels = image[1];
  g.out_channels = result[1];
  g.groups = a.groups;
  fill_dims(image.subspan(2), 1, g.in_size);
  fill_dims(weight.sizes().subspan(2), 1, g.kernel);
  fill_dims(a.stride, 1, g.stride);
  fill_dims(a.padding, 0, g.padding);
  fill_dims(a.dilation, 1, g.dilation);
  fill_dims(result.subspan(2), 1, g.out_size);
  return g;
}

MemoryFormat format_of(const Tensor& t, const cpu::ConvGeometry& g) {
  return !g.channels_last ? MemoryFormat::kContiguous
         : t.dim() == 5   ? MemoryFormat::kChannelsLast3d
                          : MemoryFormat::kChannelsLast;
}
Tensor laid_out(const Tensor& t, const cpu::ConvGeometry& g) { return contiguous(t, format_of(t, g)); }
// Memory in the layout of the geometry for what a kernel writes.
ResultMemory result_memory(const Tensor& out, const cpu::ConvGeometry& g) {
  return {out, out.is_contiguous(format_of(out, g)), g.channels_last ? channels_last_strides(out.sizes()) : IntVector(),
          out.dtype()};
}

IntVector conv_strides(const Tensor& input, const Tensor& weight, IntList sizes) {
  IntVector s = strides_of_format(input, sizes);
  return s.empty() ? strides_of_format(weight, sizes) : s;
}
// Channels last, where the tensors have them so and the device's kernels take them.
void choose_layout(cpu::ConvGeometry& g, const Tensor& input, const Tensor& weight) {
  g.channels_last = !conv_strides(input, weight, input.sizes()).empty() &&
                    TESSERA_ON(input.device(), conv_channels_last)(input.dtype(), g);
}
OutputSpec conv_spec(const Tensor& input, const Tensor& weight, IntVector sizes) {
  IntVector strides = conv_strides(input, weight, sizes);
  return OutputSpec(std::move(sizes), std::move(strides), input.dtype(), input.device());
}

// to += bias along dimension 1. An alias of the memory: the version of a result that is being made does not count.
void add_bias(const Tensor& to, const Tensor& bias) {
  IntVector shape(static_cast<size_t>(to.dim()), 1);
  shape[1] = bias.numel();
  const Tensor alias = tensor_from_storage(to.storage(), to.sizes(), to.strides(), to.storage_offset(), to.dtype());
  add_(alias, reshape(bias, shape));
}

void sum_channels(const Tensor& grad, const Tensor& out) {
  IntVector dims;
  for (int64_t d = 0; d < grad.dim(); ++d)
    if (d != 1) dims.push_back(d);
  copy__kernel(out, sum(grad, dims, false), false);
}

// fn(geometry, input, weight, bias, memory of the result): the tensors as the device's kernels want them.
template <class F>
void run_convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvArgs& a,
                     const Tensor& out, F fn) {
  cpu::ConvGeometry g =
      a.transposed ? geometry(out.sizes(), input.sizes(), weight, a) : geometry(input.sizes(), out.sizes(), weight, a);
  choose_layout(g, input, weight);
  const Tensor x = laid_out(input, g), w = laid_out(weight, g), b = bias.defined() ? contiguous(bias) : Tensor();
  const ResultMemory y = result_memory(out, g);
  fn(g, x, w, b, y.tensor());
  y.finish();
}

}  // namespace

OutputSpec convolution_meta(const Tensor& input, const Tensor& weight, const Tensor& bias, SymIntList stride,
                            SymIntList padding, SymIntList dilation, bool transposed, SymIntList output_padding,
                            SymInt groups) {
  const ConvArgs a = conv_args(weight, stride.ints(), padding.ints(), dilation.ints(), transposed,
                               output_padding.ints(), groups.guard_int());
  check_channels(input, weight, bias, a);
  check_dtypes(input, weight, bias);
  return conv_spec(input, weight, conv_output_sizes(input, weight, a));
}

void convolution_kernel(const Tensor& input, const Tensor& weight, const Tensor& bias, SymIntList stride,
                        SymIntList padding, SymIntList dilation, bool transposed, SymIntList output_padding,
                        SymInt groups, const Tensor& out) {
  if (out.numel() == 0) return;
  const ConvArgs a = conv_args(weight, stride.ints(), padding.ints(), dilation.ints(), transposed,
                               output_padding.ints(), groups.guard_int());
  if (transposed && bias.defined() && is_reduced_float(input.dtype())) {
    // Rounded once, after the bias.
    const DType t = DType::kFloat32;
    copy__kernel(
        out,
        convolution(to(input, t), to(weight, t), to(bias, t), stride, padding, dilation, true, output_padding, groups),
        false);
    return;
  }
  run_convolution(input, weight, bias, a, out,
                  [&](const cpu::ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
                    if (transposed) {
                      TESSERA_ON(w.device(), conv_backward_input)
                      (x.dtype(), g, x.data_ptr(), w.data_ptr(), y.data_ptr());
                      if (b.defined()) add_bias(y, b);
                    } else {
                      TESSERA_ON(w.device(), conv_forward)
                      (x.dtype(), g, x.data_ptr(), w.data_ptr(), b.defined() ? b.data_ptr() : nullptr, y.data_ptr());
                    }
                  });
}

// --- With what follows it: max(0, convolution + alpha z) ---

namespace {

bool without_batch(const Tensor& input, const Tensor& weight) { return input.dim() == weight.dim() - 1; }

// What a call with activation is given; fn(the same with a batch) makes its result.
struct Activated {
  Tensor input, weight, z, bias;
  double alpha;
  template <class F>
  Tensor call(F fn) const {
    if (!without_batch(input, weight)) return fn(*this);
    return squeeze(fn({unsqueeze(input, 0), weight, z.defined() ? unsqueeze(z, 0) : z, bias, alpha}), 0);
  }
};

Tensor activated_meta(const char* name, const Activated& given, SymIntList stride, SymIntList padding,
                      SymIntList dilation, SymInt groups) {
  return given.call([&](const Activated& c) {
    TESSERA_CHECK_NOT_IMPLEMENTED(is_floating_point(c.input.dtype()) && !is_float8(c.input.dtype()), "\"", name,
                                  "\" not implemented for '", type_name_of(c.input.dtype()), "'");
    const Tensor y =
        empty_from(convolution_meta(c.input, c.weight, c.bias, stride, padding, dilation, false, IntVector{0}, groups));
    TESSERA_CHECK(!c.z.defined() || (std::ranges::equal(c.z.sizes(), y.sizes()) && c.z.dtype() == y.dtype()), name,
                  ": expected z of the result's size ", shape_string(y.sizes()), " and dtype ", name_of(y.dtype()),
                  ", but got ", c.z.defined() ? shape_string(c.z.sizes()) : "", " and ",
                  c.z.defined() ? name_of(c.z.dtype()) : "");
    return y;
  });
}

Tensor activated_convolution(const char* name, const Activated& given, SymIntList stride, SymIntList padding,
                             SymIntList dilation, SymInt groups) {
  return given.call([&](const Activated& c) {
    const Tensor out = activated_meta(name, c, stride, padding, dilation, groups);
    if (out.numel() == 0) return out;
    const ConvArgs a =
        conv_args(c.weight, stride.ints(), padding.ints(), dilation.ints(), false, IntVector{0}, groups.guard_int());
    const auto device_does = nn::ConvEngines::of(c.weight.device().type).conv_relu;
    run_convolution(
        c.input, c.weight, c.bias, a, out,
        [&](const cpu::ConvGeometry& g, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
          const Tensor z = c.z.defined() ? laid_out(c.z, g) : Tensor();
          const void* const bias = b.defined() ? b.data_ptr() : nullptr;
          if (device_does) {
            internal::select_device(w.device(), name);
            if (device_does(x.dtype(), g, x.data_ptr(), w.data_ptr(), bias, z.defined() ? z.data_ptr() : nullptr,
                            c.alpha, y.data_ptr()))
              return;
          }
          TESSERA_ON(w.device(), conv_forward)(x.dtype(), g, x.data_ptr(), w.data_ptr(), bias, y.data_ptr());
          const Tensor alias = tensor_from_storage(y.storage(), y.sizes(), y.strides(), y.storage_offset(), y.dtype());
          if (z.defined()) add_(alias, c.z, Scalar(c.alpha));
          relu_(alias);
        });
    return out;
  });
}
double number_or_one(const std::optional<Scalar>& alpha) {
  TESSERA_CHECK(!alpha || !alpha->is_complex(), "cudnn_convolution_add_relu: expected a real alpha, but got a complex");
  return alpha ? alpha->to_double() : 1;
}

}  // namespace

Tensor cudnn_convolution_relu_meta(const Tensor& self, const Tensor& weight, const Tensor& bias, SymIntList stride,
                                   SymIntList padding, SymIntList dilation, SymInt groups) {
  return activated_meta("cudnn_convolution_relu", {self, weight, Tensor(), bias, 0}, stride, padding, dilation, groups);
}
Tensor cudnn_convolution_relu_kernel(const Tensor& self, const Tensor& weight, const Tensor& bias, SymIntList stride,
                                     SymIntList padding, SymIntList dilation, SymInt groups) {
  return activated_convolution("cudnn_convolution_relu", {self, weight, Tensor(), bias, 0}, stride, padding, dilation,
                               groups);
}
Tensor cudnn_convolution_add_relu_meta(const Tensor& self, const Tensor& weight, const Tensor& z,
                                       const std::optional<Scalar>& alpha, const Tensor& bias, SymIntList stride,
                                       SymIntList padding, SymIntList dilation, SymInt groups) {
  return activated_meta("cudnn_convolution_add_relu", {self, weight, z, bias, number_or_one(alpha)}, stride, padding,
                        dilation, groups);
}
Tensor cudnn_convolution_add_relu_kernel(const Tensor& self, const Tensor& weight, const Tensor& z,
                                         const std::optional<Scalar>& alpha, const Tensor& bias, SymIntList stride,
                                         SymIntList padding, SymIntList dilation, SymInt groups) {
  return activated_convolution("cudnn_convolution_add_relu", {self, weight, z, bias, number_or_one(alpha)}, stride,
                               padding, dilation, groups);
}

namespace {
struct BackwardSpecs {
  ConvArgs args;
  OutputSpec input, weight, bias;
};
BackwardSpecs backward_specs(const Tensor& grad, const Tensor& input, const Tensor& weight,
                             std::optional<SymIntList> bias_sizes, SymIntList stride, SymIntList padding,
                             SymIntList dilation, bool transposed, SymIntList output_padding, SymInt groups,
                             std::span<const bool> mask) {
  TESSERA_CHECK(mask.size() == 3, "convolution_backward: expected an output_mask of 3 values, but got ", mask.size());
  BackwardSpecs s{conv_args(weight, stride.ints(), padding.ints(), dilation.ints(), transposed, output_padding.ints(),
                            groups.guard_int()),
                  {},
                  {},
                  {}};
  check_channels(input, weight, Tensor(), s.args);
  check_dtypes(grad, input, weight);
  const IntVector out = conv_output_sizes(input, weight, s.args);
  TESSERA_CHECK(std::ranges::equal(grad.sizes(), out), "convolution_backward: expected grad_output of size ",
                shape_string(out), ", but got ", shape_string(grad.sizes()));
  TESSERA_CHECK(!bias_sizes || (bias_sizes->size() == 1 && bias_sizes->ints()[0] == out[1]),
                "convolution_backward: expected bias_sizes [", out[1], "], but got ",
                bias_sizes ? shape_string(bias_sizes->ints()) : "");
  s.input = conv_spec(input, weight, to_vector(input.sizes()));
  s.weight = OutputSpec(to_vector(weight.sizes()), conv_strides(weight, input, weight.sizes()), weight.dtype(),
                        weight.device());
  s.bias = OutputSpec(grad, IntList(&out[1], 1));
  return s;
}
}  // namespace

std::tuple<Tensor, Tensor, Tensor> convolution_backward_meta(const Tensor& grad, const Tensor& input,
                                                             const Tensor& weight, std::optional<SymIntList> bias_sizes,
                                                             SymIntList stride, SymIntList padding, SymIntList dilation,
                                                             bool transposed, SymIntList output_padding, SymInt groups,
                                                             std::span<const bool> mask) {
  const BackwardSpecs s = backward_specs(grad, input, weight, bias_sizes, stride, padding, dilation, transposed,
                                         output_padding, groups, mask);
  return {mask[0] ? empty_from(s.input) : Tensor(), mask[1] ? empty_from(s.weight) : Tensor(),
          mask[2] ? empty_from(s.bias) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward_kernel(const Tensor& grad, const Tensor& input,
                                                               const Tensor& weight,
                                                               std::optional<SymIntList> bias_sizes, SymIntList stride,
                                                               SymIntList padding, SymIntList dilation, bool transposed,
                                                               SymIntList output_padding, SymInt groups,
                                                               std::span<const bool> mask) {
  const BackwardSpecs s = backward_specs(grad, input, weight, bias_sizes, stride, padding, dilation, transposed,
                                         output_padding, groups, mask);
  Tensor to_input, to_weight, to_bias;
  cpu::ConvGeometry geo = transposed ? geometry(grad.sizes(), input.sizes(), weight, s.args)
                                     : geometry(input.sizes(), grad.sizes(), weight, s.args);
  choose_layout(geo, input, weight);
  const Tensor g = laid_out(grad, geo), w = laid_out(weight, geo);
  const DType t = g.dtype();
  if (mask[0]) {
    to_input = empty_from(s.input);
    const ResultMemory r = result_memory(to_input, geo);
    if (g.numel() == 0)
      zero_(r.tensor());
    else if (transposed)
      TESSERA_ON(w.device(), conv_forward)(t, geo, g.data_ptr(), w.data_ptr(), nullptr, r.data());
    else
      TESSERA_ON(w.device(), conv_backward_input)(t, geo, g.data_ptr(), w.data_ptr(), r.data());
    r.finish();
  }
  if (mask[1]) {
    to_weight = empty_from(s.weight);
    const ResultMemory r = result_memory(to_weight, geo);
    const Tensor x = laid_out(input, geo);
    if (g.numel() == 0 || x.numel() == 0)
      zero_(r.tensor());
    else if (transposed)
      TESSERA_ON(g.device(), conv_backward_weight)(t, geo, x.data_ptr(), g.data_ptr(), r.data());
    else
      TESSERA_ON(g.device(), conv_backward_weight)(t, geo, g.data_ptr(), x.data_ptr(), r.data());
    r.finish();
  }
  if (mask[2]) {
    to_bias = empty_from(s.bias);
    sum_channels(g, to_bias);
  }
  return {to_input, to_weight, to_bias};
}

// --- By number of dimensions ---

namespace {

// The input with a batch dimension; true if it had none.
std::pair<Tensor, bool> with_batch(const Tensor& input, int64_t n, const char* name) {
  TESSERA_CHECK(input.dim() == n + 1 || input.dim() == n + 2, "Expected ", n + 1, "D (unbatched) or ", n + 2,
                "D (batched) input to ", name, ", but got input of size: ", shape_string(input.sizes()));
  return input.dim() == n + 1 ? std::pair(unsqueeze(input, 0), true) : std::pair(input, false);
}
void check_rank(const Tensor& weight, int64_t n, const Tensor& input) {
  TESSERA_CHECK(weight.dim() == n + 2, "Expected ", weight.dim(), "-dimensional input for ", weight.dim(),
                "-dimensional weight ", shape_string(weight.sizes()), ", but got ", input.dim(),
                "-dimensional input of size ", shape_string(input.sizes()), " instead");
}

// Rows of zeros at the end of dimensions where an even span needs one more on the right than on the left.
Tensor conv_same(int64_t n, const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                 IntList dilation, SymInt groups) {
  const IntVector d = conv_list(dilation, n, "dilation"), s = conv_list(stride, n, "stride");
  TESSERA_CHECK(std::ranges::all_of(s, [](int64_t v) { return v == 1; }),
                "padding='same' is not supported for strided convolutions");
  IntVector left, extra(static_cast<size_t>(2 * n), 0);
  bool uneven = false;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t total = d[static_cast<size_t>(i)] * (weight.size(i + 2) - 1);
    left.push_back(total / 2);
    extra[static_cast<size_t>(2 * (n - 1 - i) + 1)] = total % 2;
    uneven = uneven || total % 2;
  }
  const IntVector none(static_cast<size_t>(n), 0);
  if (!uneven) return convolution(input, weight, bias, s, left, d, false, none, groups);
  warn_once(
      "Using padding='same' with even kernel lengths and odd dilation may require a zero-padded copy of the input be "
      "created");
  return convolution(constant_pad_nd(input, extra, 0), weight, bias, s, left, d, false, none, groups);
}

}  // namespace

Tensor conv_nd(int64_t n, const char* name, const Tensor& input, const Tensor& weight, const Tensor& bias,
               IntList stride, IntList padding, IntList dilation, SymInt groups) {
  const auto [x, unbatched] = with_batch(input, n, name);
  check_rank(weight, n, x);
  const IntVector none(static_cast<size_t>(n), 0);
  const Tensor y = convolution(x, weight, bias, conv_list(stride, n, "stride"), conv_list(padding, n, "padding"),
                               conv_list(dilation, n, "dilation"), false, none, groups);
  return unbatched ? squeeze(y, 0) : y;
}

Tensor conv_nd_named_padding(int64_t n, const char* name, const Tensor& input, const Tensor& weight, const Tensor& bias,
                             IntList stride, std::string_view padding, IntList dilation, SymInt groups) {
  if (padding == "valid") {
    const int64_t zero = 0;
    return conv_nd(n, name, input, weight, bias, stride, IntList(&zero, 1), dilation, groups);
  }
  TESSERA_CHECK(padding == "same", "Invalid padding string: '", padding, "'");
  const auto [x, unbatched] = with_batch(input, n, name);
  check_rank(weight, n, x);
  const Tensor y = conv_same(n, x, weight, bias, stride, dilation, groups);
  return unbatched ? squeeze(y, 0) : y;
}

Tensor conv_transpose_nd(int64_t n, const char* name, const Tensor& input, const Tensor& weight, const Tensor& bias,
                         IntList stride, IntList padding, IntList output_padding, SymInt groups, IntList dilation) {
  const auto [x, unbatched] = with_batch(input, n, name);
  check_rank(weight, n, x);
  const Tensor y =
      convolution(x, weight, bias, conv_list(stride, n, "stride"), conv_list(padding, n, "padding"),
                  conv_list(dilation, n, "dilation"), true, conv_list(output_padding, n, "output_padding"), groups);
  return unbatched ? squeeze(y, 0) : y;
}

Tensor conv_tbc_composite(const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t pad) {
  TESSERA_CHECK(self.dim() == 3, "Input must have 3 dims: time, batch, in_channel");
  TESSERA_CHECK(weight.dim() == 3, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
  TESSERA_CHECK(bias.dim() == 1, "Bias must be 1-D");
  TESSERA_CHECK(self.size(2) == weight.size(1),
                "Input dim 2 (input channels) is not == dim 1 in the weight tensor: ", self.size(2), " and ",
                weight.size(1));
  TESSERA_CHECK(weight.size(2) == bias.size(0),
                "Bias size must equal dim 2 in the weight tensor (output channels): ", bias.size(0), " and ",
                weight.size(2));
  const Tensor x = permute(self, IntVector{1, 2, 0}), w = permute(weight, IntVector{2, 1, 0});
  return contiguous(permute(conv1d(x, w, bias, IntVector{1}, IntVector{pad}, IntVector{1}, 1), IntVector{2, 0, 1}));
}

}  // namespace tessera::kernels
