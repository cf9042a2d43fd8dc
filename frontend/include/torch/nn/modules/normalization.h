// Normalisation layers.
#pragma once

#include <torch/nn/modules/linear.h>

namespace torch::nn {

namespace detail {

// Parameters and running statistics of batch and instance norm.
template <class Derived, class O>
class NormLayer : public WithOptions<Derived, O> {
 public:
  template <class... A>
  requires std::is_constructible_v<O, A...>
  explicit NormLayer(A&&... a) : WithOptions<Derived, O>(std::forward<A>(a)...) { make(); }
  void reset() override { make(); }
  void reset_running_stats() {
    if (!this->options.track_running_stats()) return;
    tessera::nn::init::zeros_(running_mean);
    tessera::nn::init::ones_(running_var);
    at::NoGradGuard no_grad;
    at::zero_(num_batches_tracked);
  }
  void reset_parameters() {
    reset_running_stats();
    if (!this->options.affine()) return;
    tessera::nn::init::ones_(weight);
    tessera::nn::init::zeros_(bias);
  }
  void pretty_print(std::ostream& s) const override {
    const O& o = this->options;
    s << std::boolalpha << "torch::nn::" << Derived::kName << "(" << o.num_features() << ", eps=" << o.eps()
      << ", momentum=";
    const std::optional<double> momentum = o.momentum();
    momentum ? s << *momentum : s << "None";
    s << ", affine=" << o.affine() << ", track_running_stats=" << o.track_running_stats() << ")";
  }

  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  static void check_dims(const Tensor& input, int64_t least, int64_t most) {
    const int64_t n = input.dim();
    TORCH_CHECK(n >= least && n <= most, "expected ", least, least == most ? "D" : "D or ",
                least == most ? "" : std::to_string(most) + "D", " input (got ", n, "D input)");
  }

 private:
  void make() {
    const O& o = this->options;
    const auto one = [&](bool on) { return on ? made({o.num_features()}) : Tensor(); };
    weight = this->register_parameter("weight", one(o.affine()), o.affine());
    bias = this->register_parameter("bias", one(o.affine()), o.affine());
    const bool track = o.track_running_stats();
    running_mean = this->register_buffer("running_mean", one(track));
    running_var = this->register_buffer("running_var", one(track));
    num_batches_tracked = this->register_buffer("num_batches_tracked",
                                                track ? Tensor(at::zeros(at::IntArrayRef(), at::kLong)) : Tensor());
    reset_parameters();
  }
};

template <class Derived>
class BatchNormLayer : public NormLayer<Derived, BatchNormOptions> {
 public:
  using NormLayer<Derived, BatchNormOptions>::NormLayer;
  Tensor forward(const Tensor& input) {
    this->check_dims(input, Derived::kLeast, Derived::kMost);
    const std::optional<double> momentum = this->options.momentum();
    const bool counts = this->is_training() && this->num_batches_tracked.defined();
    if (counts) {
      at::NoGradGuard no_grad;
      at::add_(this->num_batches_tracked, 1);
    }
    if (!counts || momentum) return normalized(input, this->running_mean, this->running_var, momentum);
    // The mean over all batches: a device that counts them is not waited for.
    const Tensor mean = at::zeros_like(this->running_mean), var = at::zeros_like(this->running_var);
    const Tensor result = normalized(input, mean, var, 1);
    at::NoGradGuard no_grad;
    const Tensor factor = at::reciprocal(this->num_batches_tracked.to(mean.scalar_type()));
    at::lerp_(this->running_mean, mean, factor);
    at::lerp_(this->running_var, var, factor);
    return result;
  }

 private:
  Tensor normalized(const Tensor& input, const Tensor& mean, const Tensor& var, std::optional<double> momentum) const {
    return functional::batch_norm(input, mean, var,
                                  functional::BatchNormFuncOptions()
                                      .weight(this->weight)
                                      .bias(this->bias)
                                      .training(this->is_training() || !this->running_mean.defined())
                                      .momentum(momentum)
                                      .eps(this->options.eps()));
  }
};

template <class Derived>
class InstanceNormLayer : public NormLayer<Derived, InstanceNormOptions> {
 public:
  using NormLayer<Derived, InstanceNormOptions>::NormLayer;
  Tensor forward(const Tensor& input) {
    this->check_dims(input, Derived::kMost - 1, Derived::kMost);
    const bool batched = input.dim() == Derived::kMost;
    const Tensor result =
        functional::instance_norm(batched ? input : Tensor(at::unsqueeze(input, 0)),
                                  functional::InstanceNormFuncOptions()
                                      .running_mean(this->running_mean)
                                      .running_var(this->running_var)
                                      .weight(this->weight)
                                      .bias(this->bias)
                                      .use_input_stats(this->is_training() || !this->options.track_running_stats())
                                      .momentum(this->options.momentum())
                                      .eps(this->options.eps()));
    return batched ? result : Tensor(at::squeeze(result, 0));
  }
};

}  // namespace detail

#define TESSERA_NORM(Kind, D, least, most)                                            \
  class Kind##Norm##D##dImpl : public detail::Kind##NormLayer<Kind##Norm##D##dImpl> { \
   public:                                                                            \
    static constexpr const char* kName = #Kind "Norm" #D "d";                         \
    static constexpr int64_t kLeast = least, kMost = most;                            \
    using detail::Kind##NormLayer<Kind##Norm##D##dImpl>::Kind##NormLayer;             \
  };                                                                                  \
  TORCH_MODULE(Kind##Norm##D##d)
TESSERA_NORM(Batch, 1, 2, 3);
TESSERA_NORM(Batch, 2, 4, 4);
TESSERA_NORM(Batch, 3, 5, 5);
TESSERA_NORM(Instance, 1, 2, 3);
TESSERA_NORM(Instance, 2, 3, 4);
TESSERA_NORM(Instance, 3, 4, 5);
#undef TESSERA_NORM

class LayerNormImpl : public detail::WithOptions<LayerNormImpl, LayerNormOptions> {
 public:
  TESSERA_MADE(LayerNormImpl, LayerNormOptions)
  void reset() override {
    const bool on = options.elementwise_affine();
    const auto one = [&] { return on ? detail::made(options.normalized_shape()) : Tensor(); };
    weight = register_parameter("weight", one(), on);
    bias = register_parameter("bias", one(), on);
    reset_parameters();
  }
  void reset_parameters() {
    if (!options.elementwise_affine()) return;
    tessera::nn::init::ones_(weight);
    tessera::nn::init::zeros_(bias);
  }
  Tensor forward(const Tensor& input) {
    return functional::layer_norm(
        input,
        functional::LayerNormFuncOptions(options.normalized_shape()).weight(weight).bias(bias).eps(options.eps()));
  }
  TESSERA_PRINTS(LayerNorm, << std::boolalpha << at::IntArrayRef(options.normalized_shape())
                            << ", eps=" << options.eps() << ", elementwise_affine=" << options.elementwise_affine())
  Tensor weight, bias;
};
TORCH_MODULE(LayerNorm);

class RMSNormImpl : public detail::WithOptions<RMSNormImpl, RMSNormOptions> {
 public:
  TESSERA_MADE(RMSNormImpl, RMSNormOptions)
  void reset() override {
    const bool on = options.elementwise_affine();
    weight = register_parameter("weight", on ? detail::made(options.normalized_shape()) : Tensor(), on);
    reset_parameters();
  }
  void reset_parameters() {
    if (weight.defined()) tessera::nn::init::ones_(weight);
  }
  Tensor forward(const Tensor& input) {
    const auto& shape = options.normalized_shape();
    return at::rms_norm(input, at::IntArrayRef(shape.data(), shape.size()), weight, options.eps());
  }
  void pretty_print(std::ostream& s) const override {
    s << std::boolalpha << "torch::nn::RMSNorm(" << at::IntArrayRef(options.normalized_shape()) << ", eps=";
    options.eps() ? s << *options.eps() : s << "None";
    s << ", elementwise_affine=" << options.elementwise_affine() << ")";
  }
  Tensor weight;
};
TORCH_MODULE(RMSNorm);

class GroupNormImpl : public detail::WithOptions<GroupNormImpl, GroupNormOptions> {
 public:
  TESSERA_MADE(GroupNormImpl, GroupNormOptions)
  void reset() override {
    const auto one = [&] { return options.affine() ? detail::made({options.num_channels()}) : Tensor(); };
    weight = register_parameter("weight", one(), options.affine());
    bias = register_parameter("bias", one(), options.affine());
    reset_parameters();
  }
  void reset_parameters() {
    if (!options.affine()) return;
    tessera::nn::init::ones_(weight);
    tessera::nn::init::zeros_(bias);
  }
  Tensor forward(const Tensor& input) {
    return functional::group_norm(
        input, functional::GroupNormFuncOptions(options.num_groups()).weight(weight).bias(bias).eps(options.eps()));
  }
  TESSERA_PRINTS(GroupNorm, << std::boolalpha << options.num_groups() << ", " << options.num_channels()
                            << ", eps=" << options.eps() << ", affine=" << options.affine())
  Tensor weight, bias;
};
TORCH_MODULE(GroupNorm);

TESSERA_LAYER(LocalResponseNorm, local_response_norm, << std::boolalpha << options.size()
                                                      << ", alpha=" << options.alpha() << ", beta=" << options.beta()
                                                      << ", k=" << options.k());

class CrossMapLRN2dImpl : public detail::WithOptions<CrossMapLRN2dImpl, CrossMapLRN2dOptions> {
 public:
  using detail::WithOptions<CrossMapLRN2dImpl, CrossMapLRN2dOptions>::WithOptions;
  // (N, C, H, W). As documented programs show, the square of channel 0 stays in the sum of all channels behind it.
  Tensor forward(const Tensor& input) {
    const int64_t half = (options.size() - 1) / 2, width = 2 * half + 1, channels = input.size(1);
    const int64_t pad[] = {0, 0, half, half}, window[] = {width, 1}, step[] = {1, 1};
    const Tensor squares = at::reshape(at::mul(input, input), {input.size(0), 1, channels, -1});
    Tensor sums = at::mul(at::avg_pool2d(at::constant_pad_nd(squares, pad), window, step), width);
    if (channels > half + 1) {
      const Tensor first = at::narrow(squares, 2, 0, 1).expand({-1, -1, channels - half - 1, -1});
      sums = at::add(sums, at::constant_pad_nd(first, at::IntArrayRef({0, 0, half + 1, 0})));
    }
    const Tensor scale = at::add(at::mul(sums, options.alpha() / static_cast<double>(options.size())), options.k());
    return at::div(input, at::reshape(at::pow(scale, options.beta()), input.sizes()));
  }
  TESSERA_PRINTS(CrossMapLRN2d, << std::boolalpha << options.size() << ", alpha=" << options.alpha()
                                << ", beta=" << options.beta() << ", k=" << options.k())
};
TORCH_MODULE(CrossMapLRN2d);

}  // namespace torch::nn
