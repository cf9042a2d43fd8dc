// Pooling layers.
#pragma once

#include <torch/nn/modules/linear.h>

namespace torch::nn {

#define TESSERA_WINDOW << "kernel_size=" << options.kernel_size() << ", stride=" << options.stride()
#define TESSERA_POOL_LAYERS(D)                                                                                     \
  class MaxPool##D##dImpl : public detail::WithOptions<MaxPool##D##dImpl, MaxPool##D##dOptions> {                  \
   public:                                                                                                         \
    using detail::WithOptions<MaxPool##D##dImpl, MaxPool##D##dOptions>::WithOptions;                               \
    Tensor forward(const Tensor& input) { return functional::max_pool##D##d(input, options); }                     \
    std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input) {                                         \
      return functional::max_pool##D##d_with_indices(input, options);                                              \
    }                                                                                                              \
    TESSERA_PRINTS(MaxPool##D##d, << std::boolalpha TESSERA_WINDOW << ", padding=" << options.padding()            \
                                  << ", dilation=" << options.dilation() << ", ceil_mode=" << options.ceil_mode()) \
  };                                                                                                               \
  TORCH_MODULE(MaxPool##D##d);                                                                                     \
  TESSERA_LAYER(AvgPool##D##d, avg_pool##D##d, TESSERA_WINDOW << ", padding=" << options.padding());               \
  TESSERA_LAYER(AdaptiveAvgPool##D##d, adaptive_avg_pool##D##d, << "output_size=" << options.output_size());       \
  class AdaptiveMaxPool##D##dImpl                                                                                  \
      : public detail::WithOptions<AdaptiveMaxPool##D##dImpl, AdaptiveMaxPool##D##dOptions> {                      \
   public:                                                                                                         \
    using detail::WithOptions<AdaptiveMaxPool##D##dImpl, AdaptiveMaxPool##D##dOptions>::WithOptions;               \
    Tensor forward(const Tensor& input) { return functional::adaptive_max_pool##D##d(input, options); }            \
    std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input) {                                         \
      return functional::adaptive_max_pool##D##d_with_indices(input, options);                                     \
    }                                                                                                              \
    TESSERA_PRINTS(AdaptiveMaxPool##D##d, << "output_size=" << options.output_size())                              \
  };                                                                                                               \
  TORCH_MODULE(AdaptiveMaxPool##D##d);                                                                             \
  TESSERA_LAYER(LPPool##D##d, lp_pool##D##d, << std::boolalpha << "norm_type=" << options.norm_type()              \
                                             << ", " TESSERA_WINDOW << ", ceil_mode=" << options.ceil_mode());     \
  class MaxUnpool##D##dImpl : public detail::WithOptions<MaxUnpool##D##dImpl, MaxUnpool##D##dOptions> {            \
   public:                                                                                                         \
    using detail::WithOptions<MaxUnpool##D##dImpl, MaxUnpool##D##dOptions>::WithOptions;                           \
    Tensor forward(const Tensor& input, const Tensor& indices,                                                     \
                   const std::optional<std::vector<int64_t>>& output_size = std::nullopt) {                        \
      return functional::max_unpool##D##d(input, indices,                                                          \
                                          functional::MaxUnpool##D##dFuncOptions(options.kernel_size())            \
                                              .stride(options.stride())                                            \
                                              .padding(options.padding())                                          \
                                              .output_size(output_size));                                          \
    }                                                                                                              \
    TESSERA_PRINTS(MaxUnpool##D##d, << std::boolalpha TESSERA_WINDOW << ", padding=" << options.padding())         \
                                                                                                                   \
   protected:                                                                                                      \
    FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(std::optional<std::vector<int64_t>>())})                                 \
  };                                                                                                               \
  TORCH_MODULE(MaxUnpool##D##d)
TESSERA_POOL_LAYERS(1);
TESSERA_POOL_LAYERS(2);
TESSERA_POOL_LAYERS(3);
#undef TESSERA_POOL_LAYERS
#undef TESSERA_WINDOW

#define TESSERA_FRACTIONAL(D)                                                                                \
  class FractionalMaxPool##D##dImpl                                                                          \
      : public detail::WithOptions<FractionalMaxPool##D##dImpl, FractionalMaxPool##D##dOptions> {            \
   public:                                                                                                   \
    TESSERA_MADE(FractionalMaxPool##D##dImpl, FractionalMaxPool##D##dOptions)                                \
    void reset() override {                                                                                  \
      _random_samples = register_buffer("_random_samples", options._random_samples());                       \
      TORCH_CHECK(options.output_size() || options.output_ratio(),                                           \
                  "FractionalMaxPool" #D "d requires specifying either an output size, or a pooling ratio"); \
      TORCH_CHECK(!options.output_size() || !options.output_ratio(),                                         \
                  "only one of output_size and output_ratio may be specified");                              \
      if (options.output_ratio())                                                                            \
        for (double ratio : **options.output_ratio())                                                        \
          TORCH_CHECK(ratio > 0 && ratio < 1, "output_ratio must be between 0 and 1, but got ", ratio);      \
    }                                                                                                        \
    Tensor forward(const Tensor& input) { return std::get<0>(forward_with_indices(input)); }                 \
    std::tuple<Tensor, Tensor> forward_with_indices(const Tensor& input) {                                   \
      return functional::fractional_max_pool##D##d_with_indices(input, options);                             \
    }                                                                                                        \
    TESSERA_PRINTS(FractionalMaxPool##D##d, )                                                                \
    Tensor _random_samples;                                                                                  \
  };                                                                                                         \
  TORCH_MODULE(FractionalMaxPool##D##d)
TESSERA_FRACTIONAL(2);
TESSERA_FRACTIONAL(3);
#undef TESSERA_FRACTIONAL

}  // namespace torch::nn
