// The options of modules and of torch::nn::functional. What must be given stands in the constructor, the rest has
// defaults: Conv2dOptions(1, 16, 3).stride(2).
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <torch/arg.h>
#include <torch/enum.h>
#include <torch/expanding_array.h>

#include <ATen/ATen.h>

namespace torch::nn {

using at::Tensor;
class AnyModule;

namespace detail {
using Sizes = std::vector<int64_t>;
using Reduction = std::variant<enumtype::kNone, enumtype::kMean, enumtype::kSum>;
using PadMode = std::variant<enumtype::kZeros, enumtype::kReflect, enumtype::kReplicate, enumtype::kCircular>;
using Nonlinearity = std::variant<enumtype::kTanh, enumtype::kReLU>;
using BagMode = std::variant<enumtype::kSum, enumtype::kMean, enumtype::kMax>;
using Activation = std::variant<enumtype::kReLU, enumtype::kGELU, std::function<Tensor(const Tensor&)>>;
using TensorFunction = std::function<Tensor(const Tensor&, const Tensor&)>;
template <size_t D>
using ConvPadding = std::variant<ExpandingArray<D>, enumtype::kValid, enumtype::kSame>;
}  // namespace detail

// Families whose options are one class under several names.
#define TESSERA_SAME_1_2_3(Name)            \
  using Name##1dOptions = Name##Options<1>; \
  using Name##2dOptions = Name##Options<2>; \
  using Name##3dOptions = Name##Options<3>
// A constructor that takes one of the values of a variant.
#define TESSERA_FROM(Options, Variant, field)                                                                 \
  Options() = default;                                                                                        \
  template <class E>                                                                                          \
  requires(std::is_constructible_v<Variant, E> && !std::is_same_v<std::decay_t<E>, Options>) Options(E value) \
      : field##_(value) {}
// Options that are one number or flag.
#define TESSERA_ONE_OPTION(Options, T, field, value) \
  struct Options {                                   \
    Options(T field = value) : field##_(field) {}    \
    TORCH_ARG(T, field);                             \
  }

// ---- linear, containers of shape ----

struct LinearOptions {
  LinearOptions(int64_t in, int64_t out) : in_features_(in), out_features_(out) {}
  TORCH_ARG(int64_t, in_features);
  TORCH_ARG(int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
};

struct BilinearOptions {
  BilinearOptions(int64_t in1, int64_t in2, int64_t out) : in1_features_(in1), in2_features_(in2), out_features_(out) {}
  TORCH_ARG(int64_t, in1_features);
  TORCH_ARG(int64_t, in2_features);
  TORCH_ARG(int64_t, out_features);
  TORCH_ARG(bool, bias) = true;
};

struct FlattenOptions {
  TORCH_ARG(int64_t, start_dim) = 1;
  TORCH_ARG(int64_t, end_dim) = -1;
};

struct UnflattenOptions {
  using namedshape_t = std::vector<std::pair<std::string, int64_t>>;
  UnflattenOptions(int64_t dim, std::vector<int64_t> sizes) : dim_(dim), sizes_(std::move(sizes)) {}
  UnflattenOptions(const char* dimname, namedshape_t shape) : dimname_(dimname), namedshape_(std::move(shape)) {}
  UnflattenOptions(std::string dimname, namedshape_t shape)
      : dimname_(std::move(dimname)), namedshape_(std::move(shape)) {}
  TORCH_ARG(int64_t, dim) = 0;
  TORCH_ARG(std::string, dimname);
  TORCH_ARG(std::vector<int64_t>, sizes);
  TORCH_ARG(namedshape_t, namedshape);
};

// ---- convolutions ----

// The setters of a convolution's padding: numbers, kValid or kSame.
#define TESSERA_CONV_PADDING(Options, D)                                                               \
 public:                                                                                               \
  using padding_t = detail::ConvPadding<D>;                                                            \
  Options& padding(padding_t value) {                                                                  \
    padding_ = std::move(value);                                                                       \
    return *this;                                                                                      \
  }                                                                                                    \
  Options& padding(std::initializer_list<int64_t> value) { return padding(ExpandingArray<D>(value)); } \
  Options& padding(int64_t value) { return padding(ExpandingArray<D>(value)); }                        \
  const padding_t& padding() const { return padding_; }                                                \
  padding_t& padding() { return padding_; }                                                            \
                                                                                                       \
 private:                                                                                              \
  padding_t padding_ = ExpandingArray<D>(0)

template <size_t D>
struct ConvOptions {
  using padding_mode_t = detail::PadMode;
  ConvOptions(int64_t in, int64_t out, ExpandingArray<D> kernel)
      : in_channels_(in), out_channels_(out), kernel_size_(kernel) {}
  TORCH_ARG(int64_t, in_channels);
  TORCH_ARG(int64_t, out_channels);
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride) = 1;
  TESSERA_CONV_PADDING(ConvOptions, D);
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
  TORCH_ARG(int64_t, groups) = 1;
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(padding_mode_t, padding_mode) = enumtype::kZeros();
};
TESSERA_SAME_1_2_3(Conv);

template <size_t D>
struct ConvTransposeOptions {
  using padding_mode_t = detail::PadMode;
  ConvTransposeOptions(int64_t in, int64_t out, ExpandingArray<D> kernel)
      : in_channels_(in), out_channels_(out), kernel_size_(kernel) {}
  TORCH_ARG(int64_t, in_channels);
  TORCH_ARG(int64_t, out_channels);
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride) = 1;
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
  TORCH_ARG(ExpandingArray<D>, output_padding) = 0;
  TORCH_ARG(int64_t, groups) = 1;
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
  TORCH_ARG(padding_mode_t, padding_mode) = enumtype::kZeros();
};
TESSERA_SAME_1_2_3(ConvTranspose);

// ---- pooling ----

template <size_t D>
struct MaxPoolOptions {
  MaxPoolOptions(ExpandingArray<D> kernel) : kernel_size_(kernel), stride_(kernel) {}
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride);
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
  TORCH_ARG(bool, ceil_mode) = false;
};
TESSERA_SAME_1_2_3(MaxPool);

template <size_t D>
struct AvgPoolOptions {
  AvgPoolOptions(ExpandingArray<D> kernel) : kernel_size_(kernel), stride_(kernel) {}
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride);
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
  TORCH_ARG(bool, ceil_mode) = false;
  TORCH_ARG(bool, count_include_pad) = true;
  TORCH_ARG(std::optional<int64_t>, divisor_override) = std::nullopt;
};
TESSERA_SAME_1_2_3(AvgPool);

namespace detail {
template <size_t D>
using OpenSizes = std::conditional_t<D == 1, ExpandingArray<1>, ExpandingArrayWithOptionalElem<D>>;
}
template <size_t D>
struct AdaptiveMaxPoolOptions {
  using output_size_t = detail::OpenSizes<D>;
  AdaptiveMaxPoolOptions(output_size_t size) : output_size_(size) {}
  TORCH_ARG(output_size_t, output_size);
};
template <size_t D>
using AdaptiveAvgPoolOptions = AdaptiveMaxPoolOptions<D>;
TESSERA_SAME_1_2_3(AdaptiveMaxPool);
TESSERA_SAME_1_2_3(AdaptiveAvgPool);

template <size_t D>
struct MaxUnpoolOptions {
  MaxUnpoolOptions(ExpandingArray<D> kernel) : kernel_size_(kernel), stride_(kernel) {}
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride);
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
};
TESSERA_SAME_1_2_3(MaxUnpool);

template <size_t D>
struct FractionalMaxPoolOptions {
  using ratio_t = ExpandingArray<D, double>;
  FractionalMaxPoolOptions(ExpandingArray<D> kernel) : kernel_size_(kernel) {}
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(std::optional<ExpandingArray<D>>, output_size) = std::nullopt;
  TORCH_ARG(std::optional<ratio_t>, output_ratio) = std::nullopt;
  TORCH_ARG(Tensor, _random_samples) = Tensor();
};
using FractionalMaxPool2dOptions = FractionalMaxPoolOptions<2>;
using FractionalMaxPool3dOptions = FractionalMaxPoolOptions<3>;

template <size_t D>
struct LPPoolOptions {
  LPPoolOptions(double norm, ExpandingArray<D> kernel) : norm_type_(norm), kernel_size_(kernel), stride_(kernel) {}
  TORCH_ARG(double, norm_type);
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride);
  TORCH_ARG(bool, ceil_mode) = false;
};
TESSERA_SAME_1_2_3(LPPool);

// ---- padding, folding, pixels, resizing ----

template <size_t D>
struct ReflectionPadOptions {
  ReflectionPadOptions(ExpandingArray<D * 2> padding) : padding_(padding) {}
  TORCH_ARG(ExpandingArray<D * 2>, padding);
};
template <size_t D>
using ReplicationPadOptions = ReflectionPadOptions<D>;
template <size_t D>
using ZeroPadOptions = ReflectionPadOptions<D>;
template <size_t D>
struct ConstantPadOptions {
  ConstantPadOptions(ExpandingArray<D * 2> padding, double value) : padding_(padding), value_(value) {}
  TORCH_ARG(ExpandingArray<D * 2>, padding);
  TORCH_ARG(double, value);
};
TESSERA_SAME_1_2_3(ReflectionPad);
TESSERA_SAME_1_2_3(ReplicationPad);
TESSERA_SAME_1_2_3(ZeroPad);
TESSERA_SAME_1_2_3(ConstantPad);

struct FoldOptions {
  FoldOptions(ExpandingArray<2> size, ExpandingArray<2> kernel) : output_size_(size), kernel_size_(kernel) {}
  TORCH_ARG(ExpandingArray<2>, output_size);
  TORCH_ARG(ExpandingArray<2>, kernel_size);
  TORCH_ARG(ExpandingArray<2>, dilation) = 1;
  TORCH_ARG(ExpandingArray<2>, padding) = 0;
  TORCH_ARG(ExpandingArray<2>, stride) = 1;
};
struct UnfoldOptions {
  UnfoldOptions(ExpandingArray<2> kernel) : kernel_size_(kernel) {}
  TORCH_ARG(ExpandingArray<2>, kernel_size);
  TORCH_ARG(ExpandingArray<2>, dilation) = 1;
  TORCH_ARG(ExpandingArray<2>, padding) = 0;
  TORCH_ARG(ExpandingArray<2>, stride) = 1;
};
struct PixelShuffleOptions {
  PixelShuffleOptions(int64_t factor) : upscale_factor_(factor) {}
  TORCH_ARG(int64_t, upscale_factor);
};
struct PixelUnshuffleOptions {
  PixelUnshuffleOptions(int64_t factor) : downscale_factor_(factor) {}
  TORCH_ARG(int64_t, downscale_factor);
};
struct ChannelShuffleOptions {
  ChannelShuffleOptions(int64_t groups) : groups_(groups) {}
  TORCH_ARG(int64_t, groups);
};

struct UpsampleOptions {
  using mode_t = std::variant<enumtype::kNearest, enumtype::kLinear, enumtype::kBilinear, enumtype::kBicubic,
                              enumtype::kTrilinear>;
  TORCH_ARG(std::optional<std::vector<int64_t>>, size) = std::nullopt;
  TORCH_ARG(std::optional<std::vector<double>>, scale_factor) = std::nullopt;
  TORCH_ARG(mode_t, mode) = enumtype::kNearest();
  TORCH_ARG(std::optional<bool>, align_corners) = std::nullopt;
};

// ---- normalisation ----

struct BatchNormOptions {
  BatchNormOptions(int64_t num_features) : num_features_(num_features) {}
  TORCH_ARG(int64_t, num_features);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(std::optional<double>, momentum) = 0.1;
  TORCH_ARG(bool, affine) = true;
  TORCH_ARG(bool, track_running_stats) = true;
};
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;
using BatchNorm3dOptions = BatchNormOptions;

struct InstanceNormOptions {
  InstanceNormOptions(int64_t num_features) : num_features_(num_features) {}
  TORCH_ARG(int64_t, num_features);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(double, momentum) = 0.1;
  TORCH_ARG(bool, affine) = false;
  TORCH_ARG(bool, track_running_stats) = false;
};
using InstanceNorm1dOptions = InstanceNormOptions;
using InstanceNorm2dOptions = InstanceNormOptions;
using InstanceNorm3dOptions = InstanceNormOptions;

struct LayerNormOptions {
  LayerNormOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}
  TORCH_ARG(std::vector<int64_t>, normalized_shape);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(bool, elementwise_affine) = true;
};
struct RMSNormOptions {
  RMSNormOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}
  TORCH_ARG(std::vector<int64_t>, normalized_shape);
  TORCH_ARG(std::optional<double>, eps) = std::nullopt;
  TORCH_ARG(bool, elementwise_affine) = true;
};
struct GroupNormOptions {
  GroupNormOptions(int64_t groups, int64_t channels) : num_groups_(groups), num_channels_(channels) {}
  TORCH_ARG(int64_t, num_groups);
  TORCH_ARG(int64_t, num_channels);
  TORCH_ARG(double, eps) = 1e-5;
  TORCH_ARG(bool, affine) = true;
};
struct LocalResponseNormOptions {
  LocalResponseNormOptions(int64_t size) : size_(size) {}
  TORCH_ARG(int64_t, size);
  TORCH_ARG(double, alpha) = 1e-4;
  TORCH_ARG(double, beta) = 0.75;
  TORCH_ARG(double, k) = 1.;
};
struct CrossMapLRN2dOptions {
  CrossMapLRN2dOptions(int64_t size) : size_(size) {}
  TORCH_ARG(int64_t, size);
  TORCH_ARG(double, alpha) = 1e-4;
  TORCH_ARG(double, beta) = 0.75;
  TORCH_ARG(int64_t, k) = 1;
};

// ---- dropout ----

struct DropoutOptions {
  DropoutOptions(double p = 0.5) : p_(p) {}
  TORCH_ARG(double, p);
  TORCH_ARG(bool, inplace) = false;
};
using Dropout1dOptions = DropoutOptions;
using Dropout2dOptions = DropoutOptions;
using Dropout3dOptions = DropoutOptions;
using AlphaDropoutOptions = DropoutOptions;
using FeatureAlphaDropoutOptions = DropoutOptions;

// ---- activations ----

struct ELUOptions {
  TORCH_ARG(double, alpha) = 1.0;
  TORCH_ARG(bool, inplace) = false;
};
struct CELUOptions {
  TORCH_ARG(double, alpha) = 1.0;
  TORCH_ARG(bool, inplace) = false;
};
TESSERA_ONE_OPTION(SELUOptions, bool, inplace, false);
TESSERA_ONE_OPTION(ReLUOptions, bool, inplace, false);
TESSERA_ONE_OPTION(ReLU6Options, bool, inplace, false);
TESSERA_ONE_OPTION(SiLUOptions, bool, inplace, false);
TESSERA_ONE_OPTION(MishOptions, bool, inplace, false);
TESSERA_ONE_OPTION(HardsigmoidOptions, bool, inplace, false);
TESSERA_ONE_OPTION(HardswishOptions, bool, inplace, false);
TESSERA_ONE_OPTION(GLUOptions, int64_t, dim, -1);
TESSERA_ONE_OPTION(HardshrinkOptions, double, lambda, 0.5);
TESSERA_ONE_OPTION(SoftshrinkOptions, double, lambda, 0.5);
struct GELUOptions {
  TORCH_ARG(std::string, approximate) = "none";
};
struct HardtanhOptions {
  TORCH_ARG(double, min_val) = -1.0;
  TORCH_ARG(double, max_val) = 1.0;
  TORCH_ARG(bool, inplace) = false;
};
struct LeakyReLUOptions {
  TORCH_ARG(double, negative_slope) = 1e-2;
  TORCH_ARG(bool, inplace) = false;
};
struct SoftmaxOptions {
  SoftmaxOptions(int64_t dim) : dim_(dim) {}
  TORCH_ARG(int64_t, dim);
};
using SoftminOptions = SoftmaxOptions;
using LogSoftmaxOptions = SoftmaxOptions;
struct PReLUOptions {
  TORCH_ARG(int64_t, num_parameters) = 1;
  TORCH_ARG(double, init) = 0.25;
};
struct RReLUOptions {
  TORCH_ARG(double, lower) = 1.0 / 8.0;
  TORCH_ARG(double, upper) = 1.0 / 3.0;
  TORCH_ARG(bool, inplace) = false;
};
struct SoftplusOptions {
  TORCH_ARG(double, beta) = 1.0;
  TORCH_ARG(double, threshold) = 20.0;
};
struct ThresholdOptions {
  ThresholdOptions(double threshold, double value) : threshold_(threshold), value_(value) {}
  TORCH_ARG(double, threshold);
  TORCH_ARG(double, value);
  TORCH_ARG(bool, inplace) = false;
};
struct MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t embed_dim, int64_t heads)
      : embed_dim_(embed_dim), num_heads_(heads), kdim_(embed_dim), vdim_(embed_dim) {}
  TORCH_ARG(int64_t, embed_dim);
  TORCH_ARG(int64_t, num_heads);
  TORCH_ARG(double, dropout) = 0.0;
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(bool, add_bias_kv) = false;
  TORCH_ARG(bool, add_zero_attn) = false;
  TORCH_ARG(int64_t, kdim);
  TORCH_ARG(int64_t, vdim);
};

// ---- embeddings ----

struct EmbeddingOptions {
  EmbeddingOptions(int64_t count, int64_t dim) : num_embeddings_(count), embedding_dim_(dim) {}
  TORCH_ARG(int64_t, num_embeddings);
  TORCH_ARG(int64_t, embedding_dim);
  TORCH_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
  TORCH_ARG(std::optional<double>, max_norm) = std::nullopt;
  TORCH_ARG(double, norm_type) = 2.;
  TORCH_ARG(bool, scale_grad_by_freq) = false;
  TORCH_ARG(bool, sparse) = false;
  TORCH_ARG(Tensor, _weight) = Tensor();
};
struct EmbeddingFromPretrainedOptions {
  TORCH_ARG(bool, freeze) = true;
  TORCH_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
  TORCH_ARG(std::optional<double>, max_norm) = std::nullopt;
  TORCH_ARG(double, norm_type) = 2.;
  TORCH_ARG(bool, scale_grad_by_freq) = false;
  TORCH_ARG(bool, sparse) = false;
};
struct EmbeddingBagOptions {
  using mode_t = detail::BagMode;
  EmbeddingBagOptions(int64_t count, int64_t dim) : num_embeddings_(count), embedding_dim_(dim) {}
  TORCH_ARG(int64_t, num_embeddings);
  TORCH_ARG(int64_t, embedding_dim);
  TORCH_ARG(std::optional<double>, max_norm) = std::nullopt;
  TORCH_ARG(double, norm_type) = 2.;
  TORCH_ARG(bool, scale_grad_by_freq) = false;
  TORCH_ARG(mode_t, mode) = enumtype::kMean();
  TORCH_ARG(bool, sparse) = false;
  TORCH_ARG(Tensor, _weight) = Tensor();
  TORCH_ARG(bool, include_last_offset) = false;
  TORCH_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
};
struct EmbeddingBagFromPretrainedOptions {
  using mode_t = detail::BagMode;
  TORCH_ARG(bool, freeze) = true;
  TORCH_ARG(std::optional<double>, max_norm) = std::nullopt;
  TORCH_ARG(double, norm_type) = 2.;
  TORCH_ARG(bool, scale_grad_by_freq) = false;
  TORCH_ARG(mode_t, mode) = enumtype::kMean();
  TORCH_ARG(bool, sparse) = false;
  TORCH_ARG(bool, include_last_offset) = false;
  TORCH_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
};

// ---- recurrent layers ----

namespace detail {
struct RNNOptionsBase {
  using rnn_options_base_mode_t =
      std::variant<enumtype::kLSTM, enumtype::kGRU, enumtype::kRNN_TANH, enumtype::kRNN_RELU>;
  RNNOptionsBase(rnn_options_base_mode_t mode, int64_t input, int64_t hidden, int64_t layers = 1, bool bias = true,
                 bool batch_first = false, double dropout = 0.0, bool bidirectional = false, int64_t proj_size = 0)
      : mode_(mode),
        input_size_(input),
        hidden_size_(hidden),
        num_layers_(layers),
        bias_(bias),
        batch_first_(batch_first),
        dropout_(dropout),
        bidirectional_(bidirectional),
        proj_size_(proj_size) {}
  TORCH_ARG(rnn_options_base_mode_t, mode);
  TORCH_ARG(int64_t, input_size);
  TORCH_ARG(int64_t, hidden_size);
  TORCH_ARG(int64_t, num_layers);
  TORCH_ARG(bool, bias);
  TORCH_ARG(bool, batch_first);
  TORCH_ARG(double, dropout);
  TORCH_ARG(bool, bidirectional);
  TORCH_ARG(int64_t, proj_size);
};
struct RNNCellOptionsBase {
  RNNCellOptionsBase(int64_t input, int64_t hidden, bool bias, int64_t chunks)
      : input_size_(input), hidden_size_(hidden), bias_(bias), num_chunks_(chunks) {}
  TORCH_ARG(int64_t, input_size);
  TORCH_ARG(int64_t, hidden_size);
  TORCH_ARG(bool, bias);
  TORCH_ARG(int64_t, num_chunks);
};
}  // namespace detail

#define TESSERA_RECURRENT_ARGS(Options)                                                \
  Options(int64_t input, int64_t hidden) : input_size_(input), hidden_size_(hidden) {} \
  TORCH_ARG(int64_t, input_size);                                                      \
  TORCH_ARG(int64_t, hidden_size);                                                     \
  TORCH_ARG(bool, bias) = true
struct RNNOptions {
  using nonlinearity_t = detail::Nonlinearity;
  TESSERA_RECURRENT_ARGS(RNNOptions);
  TORCH_ARG(int64_t, num_layers) = 1;
  TORCH_ARG(nonlinearity_t, nonlinearity) = enumtype::kTanh();
  TORCH_ARG(bool, batch_first) = false;
  TORCH_ARG(double, dropout) = 0.0;
  TORCH_ARG(bool, bidirectional) = false;
};
struct LSTMOptions {
  TESSERA_RECURRENT_ARGS(LSTMOptions);
  TORCH_ARG(int64_t, num_layers) = 1;
  TORCH_ARG(bool, batch_first) = false;
  TORCH_ARG(double, dropout) = 0.0;
  TORCH_ARG(bool, bidirectional) = false;
  TORCH_ARG(int64_t, proj_size) = 0;
};
struct GRUOptions {
  TESSERA_RECURRENT_ARGS(GRUOptions);
  TORCH_ARG(int64_t, num_layers) = 1;
  TORCH_ARG(bool, batch_first) = false;
  TORCH_ARG(double, dropout) = 0.0;
  TORCH_ARG(bool, bidirectional) = false;
};
struct RNNCellOptions {
  using nonlinearity_t = detail::Nonlinearity;
  TESSERA_RECURRENT_ARGS(RNNCellOptions);
  TORCH_ARG(nonlinearity_t, nonlinearity) = enumtype::kTanh();
};
struct LSTMCellOptions {
  TESSERA_RECURRENT_ARGS(LSTMCellOptions);
};
struct GRUCellOptions {
  TESSERA_RECURRENT_ARGS(GRUCellOptions);
};
#undef TESSERA_RECURRENT_ARGS

// ---- distances, losses ----

struct CosineSimilarityOptions {
  TORCH_ARG(int64_t, dim) = 1;
  TORCH_ARG(double, eps) = 1e-8;
};
struct PairwiseDistanceOptions {
  TORCH_ARG(double, p) = 2.0;
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(bool, keepdim) = false;
};

#define TESSERA_REDUCTION(Options)              \
  using reduction_t = detail::Reduction;        \
  TESSERA_FROM(Options, reduction_t, reduction) \
  TORCH_ARG(reduction_t, reduction) = enumtype::kMean()
struct L1LossOptions {
  TESSERA_REDUCTION(L1LossOptions);
};
struct MSELossOptions {
  TESSERA_REDUCTION(MSELossOptions);
};
struct MultiLabelMarginLossOptions {
  TESSERA_REDUCTION(MultiLabelMarginLossOptions);
};
struct SoftMarginLossOptions {
  TESSERA_REDUCTION(SoftMarginLossOptions);
};
struct KLDivLossOptions {
  using reduction_t = std::variant<enumtype::kNone, enumtype::kBatchMean, enumtype::kSum, enumtype::kMean>;
  TESSERA_FROM(KLDivLossOptions, reduction_t, reduction)
  TORCH_ARG(reduction_t, reduction) = enumtype::kMean();
  TORCH_ARG(bool, log_target) = false;
};
struct BCELossOptions {
  TESSERA_REDUCTION(BCELossOptions);
  TORCH_ARG(Tensor, weight) = {};
};
struct BCEWithLogitsLossOptions {
  TESSERA_REDUCTION(BCEWithLogitsLossOptions);
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(Tensor, pos_weight) = {};
};
struct HingeEmbeddingLossOptions {
  TESSERA_REDUCTION(HingeEmbeddingLossOptions);
  TORCH_ARG(double, margin) = 1.0;
};
struct MultiMarginLossOptions {
  TESSERA_REDUCTION(MultiMarginLossOptions);
  TORCH_ARG(int64_t, p) = 1;
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(Tensor, weight) = {};
};
struct CosineEmbeddingLossOptions {
  TESSERA_REDUCTION(CosineEmbeddingLossOptions);
  TORCH_ARG(double, margin) = 0.0;
};
struct MultiLabelSoftMarginLossOptions {
  TESSERA_REDUCTION(MultiLabelSoftMarginLossOptions);
  TORCH_ARG(Tensor, weight) = {};
};
struct TripletMarginLossOptions {
  TESSERA_REDUCTION(TripletMarginLossOptions);
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(double, p) = 2.0;
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(bool, swap) = false;
};
struct TripletMarginWithDistanceLossOptions {
  using distance_function_t = detail::TensorFunction;
  TESSERA_REDUCTION(TripletMarginWithDistanceLossOptions);
  TORCH_ARG(std::optional<distance_function_t>, distance_function) = std::nullopt;
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(bool, swap) = false;
};
struct CTCLossOptions {
  TESSERA_REDUCTION(CTCLossOptions);
  TORCH_ARG(int64_t, blank) = 0;
  TORCH_ARG(bool, zero_infinity) = false;
};
struct SmoothL1LossOptions {
  TESSERA_REDUCTION(SmoothL1LossOptions);
  TORCH_ARG(std::optional<double>, beta) = std::nullopt;
};
struct HuberLossOptions {
  TESSERA_REDUCTION(HuberLossOptions);
  TORCH_ARG(double, delta) = 1.0;
};
struct PoissonNLLLossOptions {
  TESSERA_REDUCTION(PoissonNLLLossOptions);
  TORCH_ARG(bool, log_input) = true;
  TORCH_ARG(bool, full) = false;
  TORCH_ARG(double, eps) = 1e-8;
};
struct GaussianNLLLossOptions {
  TESSERA_REDUCTION(GaussianNLLLossOptions);
  TORCH_ARG(bool, full) = false;
  TORCH_ARG(double, eps) = 1e-6;
};
struct MarginRankingLossOptions {
  TESSERA_REDUCTION(MarginRankingLossOptions);
  TORCH_ARG(double, margin) = 0;
};
struct NLLLossOptions {
  TESSERA_REDUCTION(NLLLossOptions);
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(int64_t, ignore_index) = -100;
};
struct CrossEntropyLossOptions {
  TESSERA_REDUCTION(CrossEntropyLossOptions);
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(int64_t, ignore_index) = -100;
  TORCH_ARG(double, label_smoothing) = 0.0;
};

struct AdaptiveLogSoftmaxWithLossOptions {
  AdaptiveLogSoftmaxWithLossOptions(int64_t in, int64_t classes, std::vector<int64_t> cutoffs)
      : in_features_(in), n_classes_(classes), cutoffs_(std::move(cutoffs)) {}
  TORCH_ARG(int64_t, in_features);
  TORCH_ARG(int64_t, n_classes);
  TORCH_ARG(std::vector<int64_t>, cutoffs);
  TORCH_ARG(double, div_value) = 4.;
  TORCH_ARG(bool, head_bias) = false;
};

}  // namespace torch::nn
