// Normalisation: checks, dtypes, memory formats; the arithmetic is in tensor/cpu (norm_*.cc).
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "nn/nn_ops.h"
#include "nn/norm_kernels.h"
#include "nn/spatial.h"
#include "nn/cpu/norm.h"
#include "nn/engine/norm.h"
#include "tensor/ops/api.h"
#include "tensor/ops/plain.h"

namespace tessera::kernels {
namespace {

// Statistics of float16 and bfloat16 inputs are float32.
DType stat_dtype(DType t) { return is_reduced_float(t) ? DType::kFloat32 : t; }

void floating_input(const char* op, const Tensor& input) {
  TESSERA_CHECK_NOT_IMPLEMENTED(input.is_floating_point() && !is_float8(input.dtype()), "\"", op,
                                "\" not implemented for '", type_name_of(input.dtype()), "'");
}
// Parameters have the input's dtype, or are float32 for float16 and bfloat16 inputs.
void check_param_dtype(const char* op, const char* what, const Tensor& param, const Tensor& input) {
  TESSERA_CHECK(!param.defined() || param.dtype() == input.dtype() ||
                    (is_reduced_float(input.dtype()) && param.dtype() == DType::kFloat32),
                op, ": expected ", what, " of dtype ", name_of(input.dtype()),
                is_reduced_float(input.dtype()) ? " or float32" : "", " for an input of dtype ", name_of(input.dtype()),
                ", but got ", param.defined() ? name_of(param.dtype()) : "");
  TESSERA_CHECK(!param.defined() || param.device() == input.device(), "Expected all tensors to be on the same device, ",
                "but found at least two devices, ", input.device().str(), " and ",
                param.defined() ? param.device().str() : "", "! (", op, ": ", what, ")");
}
const void* data_or_null(const Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; }
Tensor dense_as(const Tensor& t, DType dtype) { return t.defined() ? contiguous(to(t, dtype)) : Tensor(); }

// --- Batch norm ---

void check_channels(const char* what, const Tensor& t, int64_t channels) {
  TESSERA_CHECK(!t.defined() || t.numel() == channels, what, " should contain ", channels, " elements not ",
                t.defined() ? t.numel() : 0);
}

// How the kernels see an image: (batch, channels, inner) in dense memory. In channels-last memory all pixels are the
// batch.
struct BatchImage {
  int64_t batch, channels, inner;
  bool channels_last;
  explicit BatchImage(const Tensor& x) : channels(x.size(1)) {
    const MemoryFormat f = x.dim() >= 4 ? x.suggest_memory_format() : MemoryFormat::kContiguous;
    channels_last = f != MemoryFormat::kContiguous;
    batch = x.size(0);
    inner = 1;
    for (int64_t d = 2; d < x.dim(); ++d) inner *= x.size(d);
    if (channels_last) {
      batch *= inner;
      inner = 1;
    }
  }
  Tensor dense(const Tensor& t) const {
    if (!channels_last) return contiguous(t);
    return contiguous(t, t.dim() == 4 ? MemoryFormat::kChannelsLast : MemoryFormat::kChannelsLast3d);
  }
  OutputSpec spec(const Tensor& x) const {
    return OutputSpec(to_vector(x.sizes()), channels_last ? channels_last_strides(x.sizes()) : IntVector(), x.dtype(),
                      x.device());
  }
};

// The dtype that parameters and running statistics are brought to.
DType common_param_dtype(const Tensor& input, std::initializer_list<const Tensor*> params) {
  for (const Tensor* p : params)
    if (p->defined() && p->dtype() == DType::kFloat32) return DType::kFloat32;
  return input.dtype();
}

// Statistics in double precision: dense, on the device of the input.
Tensor wide(const Tensor& t) { return contiguous(to(t, DType::kFloat64)); }
Tensor inverse_root(const Tensor& var, double eps) { return reciprocal(sqrt(add(var, Scalar(eps)))); }

// running = (1 - momentum) running + momentum now; a change like any other to those who look at versions.
void update_running(const Tensor& running, const Tensor& now, double scale, double momentum) {
  if (!running.defined()) return;
  copy__kernel(
      running,
      add(mul(to(running, DType::kFloat64), Scalar(1 - momentum)), mul(mul(now, Scalar(scale)), Scalar(momentum))),
      false);
  running.bump_version();
}

void check_batch_norm(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                      const Tensor& var, bool training) {
  TESSERA_CHECK(input.dim() >= 2, "batch_norm: expected an input of at least 2 dimensions, but got ", input.dim(),
                "-dimensional input of size ", shape_string(input.sizes()));
  floating_input("batch_norm", input);
  const int64_t channels = input.size(1);
  TESSERA_CHECK(training || mean.defined(), "running_mean must be defined in evaluation mode");
  TESSERA_CHECK(training || var.defined(), "running_var must be defined in evaluation mode");
  const std::pair<const char*, const Tensor*> params[] = {
      {"running_mean", &mean}, {"running_var", &var}, {"weight", &weight}, {"bias", &bias}};
  for (const auto& [what, t] : params) {
    check_channels(what, *t, channels);
    check_param_dtype("batch_norm", what, *t, input);
  }
}

OutputSpec stat_spec(const Tensor& input, int64_t n) {
  return OutputSpec(IntList(&n, 1), stat_dtype(input.dtype()), input.device());
}

// For devices that do all in one call: numbers of the channels where they lie. Undefined: none.
nn::ChannelNumbers channel_numbers(const Tensor& t) {
  return t.defined() ? nn::ChannelNumbers{t.data_ptr(), t.dtype()} : nn::ChannelNumbers{};
}
bool lie_dense(std::initializer_list<const Tensor*> tensors) {
  return std::ranges::all_of(tensors, [](const Tensor* t) { return !t->defined() || t->is_contiguous(); });
}
const nn::NormEngines& norm_engines(const Tensor& t) { return nn::NormEngines::of(t.device().type); }

// False: there is no such call, nothing was done.
bool normalize_whole(nn::BatchNormCall call, const BatchImage& b, const Tensor& x, const Tensor& weight,
                     const Tensor& bias, const Tensor& running_mean, const Tensor& running_var) {
  if (!norm_engines(x).batch_norm || !lie_dense({&weight, &bias, &running_mean, &running_var})) return false;
  internal::select_device(x.device(), "batch_norm");
  call.dtype = x.dtype();
  call.batch = b.batch;
  call.channels = b.channels;
  call.inner = b.inner;
  call.x = x.data_ptr();
  call.weight = channel_numbers(weight);
  call.bias = channel_numbers(bias);
  call.running_mean = channel_numbers(running_mean);
  call.running_var = channel_numbers(running_var);
  norm_engines(x).batch_norm(call);
  if (call.training)
    for (const Tensor* t : {&running_mean, &running_var})
      if (t->defined()) t->bump_version();
  return true;
}

struct Statistics {
  Tensor mean, invstd;
};

// mean and 1 / sqrt(var + eps) of the batch; updates what runs along.
Statistics batch_statistics(const BatchImage& b, const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                            double momentum, double eps) {
  const OutputSpec spec(IntList(&b.channels, 1), DType::kFloat64, x.device());
  const Tensor mean = empty_from(spec), var = empty_from(spec);
  TESSERA_ON(x.device(), batch_norm_stats)
  (x.dtype(), b.batch, b.channels, b.inner, x.data_ptr(), mean.data_ptr<double>(), var.data_ptr<double>());
  const double n = static_cast<double>(b.batch * b.inner);
  update_running(running_mean, mean, 1, momentum);
  update_running(running_var, var, n / (n - 1), momentum);
  return {mean, inverse_root(var, eps)};
}

}  // namespace

namespace {
std::tuple<Tensor, Tensor, Tensor> batch_norm_of(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                                 const Tensor& running_mean, const Tensor& running_var, bool training,
                                                 double momentum, double eps) {
  return training
             ? _batch_norm(input, weight, bias, Tensor(), Tensor(), running_mean, running_var, true, momentum, eps)
             : _batch_norm(input, weight, bias, running_mean, running_var, Tensor(), Tensor(), false, momentum, eps);
}
// The statistics as their operators give them to callers: in the dtype of the input, unless parameters are float32.
// Inside they are kept as they are computed.
Tensor public_stat(const Tensor& stat, const Tensor& input, std::initializer_list<const Tensor*> params) {
  return to(stat, common_param_dtype(input, params));
}
}  // namespace

Tensor batch_norm_composite(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                            const Tensor& running_var, bool training, double momentum, double eps, bool) {
  // Nothing to normalise, and no channels to speak of.
  if (input.dim() == 1 && input.numel() == 0 && !weight.defined() && !bias.defined()) return clone(input);
  return std::get<0>(batch_norm_of(input, weight, bias, running_mean, running_var, training, momentum, eps));
}
std::tuple<Tensor, Tensor, Tensor> native_batch_norm_composite(const Tensor& input, const Tensor& weight,
                                                               const Tensor& bias, const Tensor& running_mean,
                                                               const Tensor& running_var, bool training,
                                                               double momentum, double eps) {
  auto [y, mean, invstd] = batch_norm_of(input, weight, bias, running_mean, running_var, training, momentum, eps);
  const auto params = {&weight, &bias, &running_mean, &running_var};
  return {y, public_stat(mean, input, params), public_stat(invstd, input, params)};
}

std::tuple<Tensor, Tensor, Tensor> native_batch_norm_without_stats(const Tensor& input, const Tensor& weight,
                                                                   const Tensor& bias, bool training, double momentum,
                                                                   double eps) {
  return native_batch_norm_composite(input, weight, bias, Tensor(), Tensor(), training, momentum, eps);
}
std::tuple<Tensor, Tensor, Tensor> native_batch_norm_of_running(const Tensor& input, const Tensor& weight,
                                                                const Tensor& bias, const Tensor& running_mean,
                                                                const Tensor& running_var, double momentum,
                                                                double eps) {
  return native_batch_norm_composite(input, weight, bias, running_mean, running_var, false, momentum, eps);
}
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> native_batch_norm_functional(
    const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
    const Tensor& running_var, bool training, double momentum, double eps) {
  const Tensor mean = clone(running_mean), var = clone(running_var);
  auto [y, save_mean, save_invstd] =
      native_batch_norm_composite(input, weight, bias, mean, var, training, momentum, eps);
  return {y, save_mean, save_invstd, mean, var};
}

std::tuple<Tensor, Tensor, Tensor> _batch_norm_meta(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                                    const Tensor& mean, const Tensor& var, const Tensor& running_mean,
                                                    const Tensor& running_var, bool training, double, double) {
  check_batch_norm(input, weight, bias, training ? running_mean : mean, training ? running_var : var, training);
  if (training && input.is_meta() && input.numel() != 0)
    for (const Tensor* t : {&running_mean, &running_var})
      if (t->defined()) t->bump_version();  // as an update does
  const OutputSpec stat = stat_spec(input, training ? input.size(1) : 0);
  return {empty_from(BatchImage(input).spec(input)), empty_from(stat), empty_from(stat)};
}

std::tuple<Tensor, Tensor, Tensor> _batch_norm_kernel(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                                      const Tensor& mean, const Tensor& var, const Tensor& running_mean,
                                                      const Tensor& running_var, bool training, double momentum,
                                                      double eps) {
  auto [y, save_mean, save_invstd] =
      _batch_norm_meta(input, weight, bias, mean, var, running_mean, running_var, training, momentum, eps);
  if (input.numel() == 0) {
    if (training) {
      zero_(save_mean);
      zero_(save_invstd);
    }
    return {y, save_mean, save_invstd};
  }
  const BatchImage b(input);
  const Tensor x = b.dense(input);
  nn::BatchNormCall call{};
  call.training = training;
  call.momentum = momentum;
  call.eps = eps;
  call.y = y.data_ptr();
  if (training) {
    call.save_mean = channel_numbers(save_mean);
    call.save_invstd = channel_numbers(save_invstd);
  }
  if (normalize_whole(call, b, x, weight, bias, training ? running_mean : mean, training ? running_var : var))
    return {y, save_mean, save_invstd};
  Statistics stats;
  if (training) {
    stats = batch_statistics(b, x, running_mean, running_var, momentum, eps);
    copy__kernel(save_mean, stats.mean, false);
    copy__kernel(save_invstd, stats.invstd, false);
  } else {
    stats = {wide(mean), inverse_root(wide(var), eps)};
  }
  const DType t = common_param_dtype(input, {&weight, &bias});
  const Tensor w = dense_as(weight, t), shift = dense_as(bias, t);
  TESSERA_ON(x.device(), batch_norm_apply)
  (x.dtype(), t, b.batch, b.channels, b.inner, x.data_ptr(), stats.mean.data_ptr<double>(),
   stats.invstd.data_ptr<double>(), data_or_null(w), data_or_null(shift), y.data_ptr());
  return {y, save_mean, save_invstd};
}

std::tuple<Tensor, Tensor, Tensor> native_batch_norm_backward_meta(const Tensor& grad_out, const Tensor& input,
                                                                   const Tensor& weight, const Tensor& running_mean,
                                                                   const Tensor& running_var, const Tensor& save_mean,
                                                                   const Tensor& save_invstd, bool train, double,
                                                                   std::span<const bool> mask) {
  TESSERA_CHECK(mask.size() == 3, "native_batch_norm_backward: expected an output_mask of 3 values, but got ",
                mask.size());
  check_batch_norm(input, weight, Tensor(), train ? save_mean : running_mean, train ? save_invstd : running_var, false);
  TESSERA_CHECK(std::ranges::equal(grad_out.sizes(), input.sizes()),
                "native_batch_norm_backward: expected grad_out of size ", shape_string(input.sizes()), ", but got ",
                shape_string(grad_out.sizes()));
  OutputSpec param = stat_spec(input, input.size(1));
  if (weight.defined()) param.dtype = weight.dtype();
  return {mask[0] ? empty_from(BatchImage(input).spec(input)) : Tensor(), mask[1] ? empty_from(param) : Tensor(),
          mask[2] ? empty_from(param) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> native_batch_norm_backward_kernel(const Tensor& grad_out, const Tensor& input,
                                                                     const Tensor& weight, const Tensor& running_mean,
                                                                     const Tensor& running_var, const Tensor& save_mean,
                                                                     const Tensor& save_invstd, bool train, double eps,
                                                                     std::span<const bool> mask) {
  auto [dx, dw, db] = native_batch_norm_backward_meta(grad_out, input, weight, running_mean, running_var, save_mean,
                                                      save_invstd, train, eps, mask);
  if (input.numel() == 0) {
    for (const Tensor& t : {dw, db})
      if (t.defined()) zero_(t);
    return {dx, dw, db};
  }
  const BatchImage b(input);
  const Tensor x = b.dense(input), g = b.dense(to(grad_out, input.dtype()));
  const Tensor &mean = train ? save_mean : running_mean, &spread = train ? save_invstd : running_var;
  if (norm_engines(x).batch_norm_gradient && lie_dense({&weight, &mean, &spread})) {
    internal::select_device(x.device(), "batch_norm_backward");
    norm_engines(x).batch_norm_gradient({x.dtype(), b.batch, b.channels, b.inner, train, eps, g.data_ptr(),
                                         x.data_ptr(), dx.defined() ? dx.data_ptr() : nullptr, channel_numbers(weight),
                                         channel_numbers(mean), channel_numbers(spread), channel_numbers(dw),
                                         channel_numbers(db)});
    return {dx, dw, db};
  }
  const Tensor m = wide(train ? save_mean : running_mean),
               invstd = train ? wide(save_invstd) : inverse_root(wide(running_var), eps);
  const DType t = weight.defined() ? weight.dtype() : stat_dtype(input.dtype());
  const Tensor w = dense_as(weight, t);
  TESSERA_ON(x.device(), batch_norm_backward)
  (x.dtype(), t, b.batch, b.channels, b.inner, train, g.data_ptr(), x.data_ptr(), m.data_ptr<double>(),
   invstd.data_ptr<double>(), data_or_null(w), dx.defined() ? dx.data_ptr() : nullptr,
   dw.defined() ? dw.data_ptr() : nullptr, db.defined() ? db.data_ptr() : nullptr);
  return {dx, dw, db};
}

Tensor instance_norm_composite(const Tensor& input, const Tensor& weight, const Tensor& bias,
                               const Tensor& running_mean, const Tensor& running_var, bool use_input_stats,
                               double momentum, double eps, bool cudnn_enabled) {
  TESSERA_CHECK(use_input_stats || (running_mean.defined() && running_var.defined()),
                "Expected running_mean and running_var to be defined when use_input_stats is false");
  TESSERA_CHECK(input.dim() >= 2, "instance_norm: expected an input of at least 2 dimensions, but got size ",
                shape_string(input.sizes()));
  const int64_t batch = input.size(0), channels = input.size(1);
  // Samples become channels.
  IntVector shape = to_vector(input.sizes());
  shape[0] = 1;
  shape[1] = batch * channels;
  auto repeated = [batch](const Tensor& t) { return t.defined() ? repeat(t, IntVector{batch}) : Tensor(); };
  const Tensor w = repeated(weight), b = repeated(bias), m = repeated(running_mean), v = repeated(running_var);
  const Tensor x = reshape(contiguous(input), shape);
  const Tensor y = batch_norm(x, w, b, m, v, use_input_stats, momentum, eps, cudnn_enabled);
  // The running statistics follow the mean over samples.
  if (use_input_stats && batch > 0) {
    if (running_mean.defined()) copy_(detach(running_mean), mean(reshape(m, {batch, channels}), IntVector{0}, false));
    if (running_var.defined()) copy_(detach(running_var), mean(reshape(v, {batch, channels}), IntVector{0}, false));
  }
  return reshape(y, input.sizes());
}

// --- Layer norm ---

namespace {

struct Rows {
  int64_t rows, size;
};

Rows check_normalized(const Tensor& input, IntList shape, const Tensor& weight, const Tensor& bias) {
  TESSERA_CHECK(!shape.empty(),
                "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but "
                "got normalized_shape = ",
                shape_string(shape));
  TESSERA_CHECK(!weight.defined() || std::ranges::equal(weight.sizes(), shape),
                "Expected weight to be of same shape as normalized_shape, but got weight of shape ",
                weight.defined() ? shape_string(weight.sizes()) : "", " and normalized_shape = ", shape_string(shape));
  TESSERA_CHECK(!bias.defined() || std::ranges::equal(bias.sizes(), shape),
                "Expected bias to be of same shape as normalized_shape, but got bias of shape ",
                bias.defined() ? shape_string(bias.sizes()) : "", " and normalized_shape = ", shape_string(shape));
  const bool fits =
      input.dim() >= static_cast<int64_t>(shape.size()) && std::ranges::equal(input.sizes().last(shape.size()), shape);
  if (!fits) {
    std::string wanted = "[*";
    for (int64_t s : shape) wanted += ", " + std::to_string(s);
    throw Error(str_cat("Given normalized_shape=", shape_string(shape), ", expected input with shape ", wanted,
                        "], but got input of size", shape_string(input.sizes())));
  }
  const int64_t size = checked_numel(shape);
  Rows r{1, size};
  for (int64_t s : input.sizes().first(static_cast<size_t>(input.dim()) - shape.size())) r.rows *= s;
  return r;
}

// float32 parameters of a float16 or bfloat16 input: all of it in float32.
DType working_dtype(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  return common_param_dtype(input, {&weight, &bias});
}

}  // namespace

std::array<OutputSpec, 3> _native_layer_norm_meta(const Tensor& input, SymIntList normalized_shape,
                                                  const Tensor& weight, const Tensor& bias, double) {
  check_normalized(input, normalized_shape.ints(), weight, bias);
  floating_input("LayerNormKernelImpl", input);
  check_param_dtype("layer_norm", "weight", weight, input);
  check_param_dtype("layer_norm", "bias", bias, input);
  IntVector sizes = to_vector(input.sizes());
  for (size_t i = 0; i < normalized_shape.size(); ++i) sizes[sizes.size() - 1 - i] = 1;
  const OutputSpec stat(sizes, stat_dtype(input.dtype()), input.device());
  return {OutputSpec(input, input.sizes()), stat, stat};
}

void _native_layer_norm_kernel(const Tensor& input, SymIntList normalized_shape, const Tensor& weight,
                               const Tensor& bias, double eps, const Tensor& out, const Tensor& mean,
                               const Tensor& rstd) {
  const Rows r = check_normalized(input, normalized_shape.ints(), weight, bias);
  if (r.rows == 0) return;
  const DType t = working_dtype(input, weight, bias);
  const Tensor x = dense_as(input, t), w = dense_as(weight, t), b = dense_as(bias, t);
  const ResultMemory y(out, t), m(mean), s(rstd);
  TESSERA_ON(x.device(), layer_norm_forward)
  (t, r.rows, r.size, eps, x.data_ptr(), data_or_null(w), data_or_null(b), y.data(), m.data(), s.data());
  y.finish();
  m.finish();
  s.finish();
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_composite(const Tensor& input, SymIntList normalized_shape,
                                                               const Tensor& weight, const Tensor& bias, double eps) {
  auto [y, mean, rstd] = _native_layer_norm(input, normalized_shape, weight, bias, eps);
  return {y, public_stat(mean, input, {&weight, &bias}), public_stat(rstd, input, {&weight, &bias})};
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward_meta(const Tensor& grad_out, const Tensor& input,
                                                                   SymIntList normalized_shape, const Tensor& mean,
                                                                   const Tensor& rstd, const Tensor& weight,
                                                                   const Tensor& bias, std::span<const bool> mask) {
  TESSERA_CHECK(mask.size() == 3, "native_layer_norm_backward: expected an output_mask of 3 values, but got ",
                mask.size());
  const Rows r = check_normalized(input, normalized_shape.ints(), weight, bias);
  floating_input("LayerNormBackwardKernelImpl", input);
  TESSERA_CHECK(std::ranges::equal(grad_out.sizes(), input.sizes()),
                "native_layer_norm_backward: expected grad_out of size ", shape_string(input.sizes()), ", but got ",
                shape_string(grad_out.sizes()));
  TESSERA_CHECK(mean.numel() == r.rows && rstd.numel() == r.rows,
                "native_layer_norm_backward: expected a mean and a rstd for each of ", r.rows, " rows, but got ",
                mean.numel(), " and ", rstd.numel());
  const OutputSpec param(normalized_shape.ints(),
                         weight.defined() ? weight.dtype()
                         : bias.defined() ? bias.dtype()
                                          : input.dtype(),
                         input.device());
  return {mask[0] ? empty_from(OutputSpec(input, input.sizes())) : Tensor(), mask[1] ? empty_from(param) : Tensor(),
          mask[2] ? empty_from(param) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> native_layer_norm_backward_kernel(const Tensor& grad_out, const Tensor& input,
                                                                     SymIntList normalized_shape, const Tensor& mean,
                                                                     const Tensor& rstd, const Tensor& weight,
                                                                     const Tensor& bias, std::span<const bool> mask) {
  auto [dx, dw, db] =
      native_layer_norm_backward_meta(grad_out, input, normalized_shape, mean, rstd, weight, bias, mask);
  const Rows r = check_normalized(input, normalized_shape.ints(), weight, bias);
  if (input.numel() == 0) {
    for (const Tensor& t : {dw, db})
      if (t.defined()) zero_(t);
    return {dx, dw, db};
  }
  const DType t = working_dtype(input, weight, bias);
  const Tensor x = dense_as(input, t), g = dense_as(grad_out, t), w = dense_as(weight, t),
               m = dense_as(mean, stat_dtype(t)), s = dense_as(rstd, stat_dtype(t));
  const ResultMemory to_x(dx, t), to_w(dw, t), to_b(db, t);
  TESSERA_ON(x.device(), layer_norm_backward)
  (t, r.rows, r.size, g.data_ptr(), x.data_ptr(), m.data_ptr(), s.data_ptr(), data_or_null(w), to_x.data(), to_w.data(),
   to_b.data());
  for (const ResultMemory* r : {&to_x, &to_w, &to_b}) r->finish();
  return {dx, dw, db};
}

// Rows by their root mean squares: y and 1 / root.
std::tuple<Tensor, Tensor> _rms_norm_meta(const Tensor& input, SymIntList normalized_shape, const Tensor& weight,
                                          double) {
  check_normalized(input, normalized_shape.ints(), weight, Tensor());
  floating_input("rms_norm", input);
  TESSERA_CHECK(!weight.defined() || weight.dtype() == input.dtype(), "_rms_norm: expected a weight of dtype ",
                name_of(input.dtype()), " as the input's, but got ", weight.defined() ? name_of(weight.dtype()) : "");
  IntVector sizes = to_vector(input.sizes());
  for (size_t i = 0; i < normalized_shape.size(); ++i) sizes[sizes.size() - 1 - i] = 1;
  return {empty_from(OutputSpec(input, input.sizes())),
          empty_from(OutputSpec(sizes, stat_dtype(input.dtype()), input.device()))};
}
std::tuple<Tensor, Tensor> _rms_norm_kernel(const Tensor& input, SymIntList normalized_shape, const Tensor& weight,
                                            double eps) {
  auto [y, rstd] = _rms_norm_meta(input, normalized_shape, weight, eps);
  if (input.numel() == 0) return {y, rstd};
  const Rows r = check_normalized(input, normalized_shape.ints(), weight, Tensor());
  const Tensor x = contiguous(input), w = dense_as(weight, input.dtype());
  if (r.size <= norm_engines(x).rms_norm_longest) {
    internal::select_device(x.device(), "rms_norm");
    norm_engines(x).rms_norm_forward(x.dtype(), r.rows, r.size, eps, x.data_ptr(), data_or_null(w), y.data_ptr(),
                                     rstd.data_ptr());
    return {y, rstd};
  }
  IntVector dims;
  for (size_t i = 0; i < normalized_shape.size(); ++i) dims.push_back(-1 - static_cast<int64_t>(i));
  const Tensor wide_x = to(x, rstd.dtype());
  copy__kernel(rstd, rsqrt(mean(wide_x * wide_x, dims, true) + eps), false);
  copy__kernel(y, weight.defined() ? wide_x * rstd * weight : wide_x * rstd, false);
  return {y, rstd};
}
std::tuple<Tensor, Tensor> rms_norm_gradient(const Tensor& grad, const Tensor& input, SymIntList normalized_shape,
                                             const Tensor& rstd, const Tensor& weight, std::span<const bool> mask) {
  const int64_t size = checked_numel(normalized_shape.ints());
  if (input.numel() == 0 || !plain_on_device({&input, &grad, &rstd, &weight}) ||
      size > norm_engines(input).rms_norm_longest)
    return {};
  const Tensor dx = mask[0] ? empty_from(OutputSpec(input, input.sizes())) : Tensor(),
               dw = mask[1] ? empty_from(OutputSpec(input, normalized_shape.ints())) : Tensor(), x = contiguous(input),
               g = dense_as(grad, x.dtype()), s = contiguous(rstd), w = dense_as(weight, x.dtype());
  internal::select_device(x.device(), "rms_norm_backward");
  norm_engines(x).rms_norm_backward(x.dtype(), x.numel() / size, size, g.data_ptr(), x.data_ptr(), s.data_ptr(),
                                    data_or_null(w), dx.defined() ? dx.data_ptr() : nullptr,
                                    dw.defined() ? dw.data_ptr() : nullptr);
  return {dx, dw};
}

Tensor rms_norm_composite(const Tensor& input, SymIntList normalized_shape, const Tensor& weight,
                          std::optional<double> eps) {
  check_normalized(input, normalized_shape.ints(), weight, Tensor());
  TESSERA_CHECK(input.is_floating_point() || input.is_complex(),
                "rms_norm: expected an input of a floating point or complex dtype, but got ", name_of(input.dtype()));
  const DType t = to_real(input.dtype());
  const double machine =
      t == DType::kFloat64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  IntVector dims;
  for (size_t i = 0; i < normalized_shape.size(); ++i) dims.push_back(-1 - static_cast<int64_t>(i));
  const double e = eps.value_or(machine);
  // A device takes rows as one call.
  const int64_t size = checked_numel(normalized_shape.ints());
  if (input.numel() > 0 && plain_on_device({&input, &weight}) && is_floating_point(input.dtype()) &&
      item_size(input.dtype()) > 1 && size <= norm_engines(input).rms_norm_longest &&
      (!weight.defined() || weight.dtype() == input.dtype()))
    return std::get<0>(_rms_norm(input, normalized_shape, weight, e));
  const Tensor x = is_reduced_float(input.dtype()) ? to(input, DType::kFloat32) : input;
  Tensor y = x * rsqrt(mean(x * x, dims, true) + e);
  if (weight.defined()) y = y * weight;
  return y.dtype() == input.dtype() ? y : to(y, input.dtype());
}

// --- Group norm ---

Tensor group_norm_composite(const Tensor& input, int64_t num_groups, const Tensor& weight, const Tensor& bias,
                            double eps, bool) {
  TESSERA_CHECK(input.dim() >= 2, "Expected at least 2 dimensions for input tensor but received ", input.dim());
  TESSERA_CHECK(num_groups > 0, "Expected num groups to be greater than 0, got ", num_groups);
  int64_t inner = 1;
  for (int64_t d = 2; d < input.dim(); ++d) inner *= input.size(d);
  return std::get<0>(native_group_norm(input, weight, bias, input.size(0), input.size(1), inner, num_groups, eps));
}

namespace {
void check_groups(const Tensor& input, const Tensor& weight, const Tensor& bias, int64_t n, int64_t c, int64_t hxw,
                  int64_t group) {
  TESSERA_CHECK(group > 0, "Expected num groups to be greater than 0, got ", group);
  TESSERA_CHECK(c % group == 0,
                "Expected number of channels in input to be divisible by num_groups, but got input of shape ",
                shape_string(input.sizes()), " and num_groups=", group);
  TESSERA_CHECK(input.dim() >= 2 && input.size(0) == n && input.size(1) == c && input.numel() == n * c * hxw,
                "native_group_norm: expected an input of ", n, " samples with ", c, " channels of ", hxw,
                " elements, but got size ", shape_string(input.sizes()));
  const std::pair<const char*, const Tensor*> params[] = {{"weight", &weight}, {"bias", &bias}};
  for (const auto& [what, t] : params) {
    TESSERA_CHECK(!t->defined() || (t->dim() == 1 && t->numel() == c), "Expected ", what,
                  " to be a vector of size equal to the number of channels in input, but got ", what, " of shape ",
                  t->defined() ? shape_string(t->sizes()) : "", " and input of shape ", shape_string(input.sizes()));
    check_param_dtype("group_norm", what, *t, input);
  }
  floating_input("GroupNormKernelImpl", input);
}
}  // namespace

std::array<OutputSpec, 3> native_group_norm_meta(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                                 SymInt n, SymInt c, SymInt hxw, int64_t group, double) {
  check_groups(input, weight, bias, n.guard_int(), c.guard_int(), hxw.guard_int(), group);
  const int64_t sizes[2] = {n.guard_int(), group};
  const OutputSpec stat(IntList(sizes), stat_dtype(input.dtype()), input.device());
  return {spec_like(input, to_vector(input.sizes())), stat, stat};
}

void native_group_norm_kernel(const Tensor& input, const Tensor& weight, const Tensor& bias, SymInt n, SymInt c,
                              SymInt hxw, int64_t group, double eps, const Tensor& out, const Tensor& mean,
                              const Tensor& rstd) {
  if (mean.numel() == 0) return;
  if (input.numel() == 0) {
    fill_(mean, 0);
    fill_(rstd, std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const DType t = working_dtype(input, weight, bias);
  const Tensor x = dense_as(input, t), w = dense_as(weight, t), b = dense_as(bias, t);
  const ResultMemory y(out, t), m(mean), s(rstd);
  TESSERA_ON(x.device(), group_norm_forward)
  (t, n.guard_int(), c.guard_int(), hxw.guard_int(), group, eps, x.data_ptr(), data_or_null(w), data_or_null(b),
   y.data(), m.data(), s.data());
  y.finish();
  m.finish();
  s.finish();
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm_backward_meta(const Tensor& grad_out, const Tensor& input,
                                                                   const Tensor& mean, const Tensor& rstd,
                                                                   const Tensor& weight, SymInt n, SymInt c, SymInt hxw,
                                                                   int64_t group, std::span<const bool> mask) {
  TESSERA_CHECK(mask.size() == 3, "native_group_norm_backward: expected an output_mask of 3 values, but got ",
                mask.size());
  check_groups(input, weight, Tensor(), n.guard_int(), c.guard_int(), hxw.guard_int(), group);
  TESSERA_CHECK(std::ranges::equal(grad_out.sizes(), input.sizes()),
                "native_group_norm_backward: expected grad_out of size ", shape_string(input.sizes()), ", but got ",
                shape_string(grad_out.sizes()));
  const int64_t count = n.guard_int() * group, channels = c.guard_int();
  TESSERA_CHECK(mean.numel() == count && rstd.numel() == count,
                "native_group_norm_backward: expected a mean and a rstd for each of ", count, " groups, but got ",
                mean.numel(), " and ", rstd.numel());
  const OutputSpec param(IntList(&channels, 1), weight.defined() ? weight.dtype() : input.dtype(), input.device());
  return {mask[0] ? empty_from(spec_like(input, to_vector(input.sizes()))) : Tensor(),
          mask[1] ? empty_from(param) : Tensor(), mask[2] ? empty_from(param) : Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm_backward_kernel(const Tensor& grad_out, const Tensor& input,
                                                                     const Tensor& mean, const Tensor& rstd,
                                                                     const Tensor& weight, SymInt n, SymInt c,
                                                                     SymInt hxw, int64_t group,
                                                                     std::span<const bool> mask) {
  auto [dx, dw, db] = native_group_norm_backward_meta(grad_out, input, mean, rstd, weight, n, c, hxw, group, mask);
  if (input.numel() == 0) {
    for (const Tensor& t : {dw, db})
      if (t.defined()) zero_(t);
    return {dx, dw, db};
  }
  const DType t = working_dtype(input, weight, Tensor());
  const Tensor x = dense_as(input, t), g = dense_as(grad_out, t), w = dense_as(weight, t),
               m = dense_as(mean, stat_dtype(t)), s = dense_as(rstd, stat_dtype(t));
  const ResultMemory to_x(dx, t), to_w(dw, t), to_b(db, t);
  TESSERA_ON(x.device(), group_norm_backward)
  (t, n.guard_int(), c.guard_int(), hxw.guard_int(), group, g.data_ptr(), x.data_ptr(), m.data_ptr(), s.data_ptr(),
   data_or_null(w), to_x.data(), to_w.data(), to_b.data());
  for (const ResultMemory* r : {&to_x, &to_w, &to_b}) r->finish();
  return {dx, dw, db};
}

}  // namespace tessera::kernels
