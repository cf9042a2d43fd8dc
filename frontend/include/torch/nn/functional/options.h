// The options of functions: mostly those of the modules, with what a module keeps as parameters besides.
#pragma once

#include <algorithm>

#include <torch/nn/options.h>

namespace torch::nn::functional {

// Functions that take what their module takes.
#define TESSERA_SAME(Name) using Name##FuncOptions = Name##Options
#define TESSERA_SAME3(Name)                    \
  using Name##1dFuncOptions = Name##1dOptions; \
  using Name##2dFuncOptions = Name##2dOptions; \
  using Name##3dFuncOptions = Name##3dOptions
TESSERA_SAME(ELU);
TESSERA_SAME(CELU);
TESSERA_SAME(SELU);
TESSERA_SAME(ReLU);
TESSERA_SAME(ReLU6);
TESSERA_SAME(SiLU);
TESSERA_SAME(Mish);
TESSERA_SAME(Hardsigmoid);
TESSERA_SAME(Hardswish);
TESSERA_SAME(GLU);
TESSERA_SAME(GELU);
TESSERA_SAME(Hardshrink);
TESSERA_SAME(Softshrink);
TESSERA_SAME(Hardtanh);
TESSERA_SAME(LeakyReLU);
TESSERA_SAME(Softplus);
TESSERA_SAME(Threshold);
TESSERA_SAME(Fold);
TESSERA_SAME(Unfold);
TESSERA_SAME(PixelShuffle);
TESSERA_SAME(PixelUnshuffle);
TESSERA_SAME(LocalResponseNorm);
TESSERA_SAME(CosineSimilarity);
TESSERA_SAME(PairwiseDistance);
TESSERA_SAME(L1Loss);
TESSERA_SAME(MSELoss);
using KLDivFuncOptions = KLDivLossOptions;
using BinaryCrossEntropyFuncOptions = BCELossOptions;
using BinaryCrossEntropyWithLogitsFuncOptions = BCEWithLogitsLossOptions;
using CrossEntropyFuncOptions = CrossEntropyLossOptions;
TESSERA_SAME(HingeEmbeddingLoss);
TESSERA_SAME(MultiMarginLoss);
TESSERA_SAME(CosineEmbeddingLoss);
TESSERA_SAME(SmoothL1Loss);
TESSERA_SAME(HuberLoss);
TESSERA_SAME(MultiLabelMarginLoss);
using MultilabelMarginLossFuncOptions = MultiLabelMarginLossOptions;
TESSERA_SAME(SoftMarginLoss);
TESSERA_SAME(MultiLabelSoftMarginLoss);
using MultilabelSoftMarginLossFuncOptions = MultiLabelSoftMarginLossOptions;
TESSERA_SAME(TripletMarginLoss);
TESSERA_SAME(TripletMarginWithDistanceLoss);
TESSERA_SAME(CTCLoss);
TESSERA_SAME(PoissonNLLLoss);
TESSERA_SAME(GaussianNLLLoss);
TESSERA_SAME(MarginRankingLoss);
TESSERA_SAME(NLLLoss);
TESSERA_SAME3(MaxPool);
TESSERA_SAME3(AvgPool);
TESSERA_SAME3(AdaptiveMaxPool);
TESSERA_SAME3(AdaptiveAvgPool);
TESSERA_SAME3(LPPool);
using FractionalMaxPool2dFuncOptions = FractionalMaxPool2dOptions;
using FractionalMaxPool3dFuncOptions = FractionalMaxPool3dOptions;
#undef TESSERA_SAME
#undef TESSERA_SAME3

struct SoftmaxFuncOptions {
  SoftmaxFuncOptions(int64_t dim) : dim_(dim) {}
  SoftmaxFuncOptions(const SoftmaxOptions& o) : dim_(o.dim()) {}
  TORCH_ARG(int64_t, dim);
  TORCH_ARG(std::optional<at::ScalarType>, dtype) = std::nullopt;
};
using SoftminFuncOptions = SoftmaxFuncOptions;
using LogSoftmaxFuncOptions = SoftmaxFuncOptions;
struct GumbelSoftmaxFuncOptions {
  TORCH_ARG(double, tau) = 1.0;
  TORCH_ARG(bool, hard) = false;
  TORCH_ARG(int, dim) = -1;
};
struct RReLUFuncOptions {
  TORCH_ARG(double, lower) = 1.0 / 8.0;
  TORCH_ARG(double, upper) = 1.0 / 3.0;
  TORCH_ARG(bool, training) = false;
  TORCH_ARG(bool, inplace) = false;
};
struct DropoutFuncOptions {
  TORCH_ARG(double, p) = 0.5;
  TORCH_ARG(bool, training) = true;
  TORCH_ARG(bool, inplace) = false;
};
using Dropout1dFuncOptions = DropoutFuncOptions;
using Dropout2dFuncOptions = DropoutFuncOptions;
using Dropout3dFuncOptions = DropoutFuncOptions;
struct AlphaDropoutFuncOptions {
  TORCH_ARG(double, p) = 0.5;
  TORCH_ARG(bool, training) = false;
  TORCH_ARG(bool, inplace) = false;
};
using FeatureAlphaDropoutFuncOptions = AlphaDropoutFuncOptions;

template <size_t D>
struct MaxUnpoolFuncOptions {
  MaxUnpoolFuncOptions(ExpandingArray<D> kernel) : kernel_size_(kernel), stride_(kernel) {}
  TORCH_ARG(ExpandingArray<D>, kernel_size);
  TORCH_ARG(ExpandingArray<D>, stride);
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
  TORCH_ARG(std::optional<std::vector<int64_t>>, output_size) = std::nullopt;
};
using MaxUnpool1dFuncOptions = MaxUnpoolFuncOptions<1>;
using MaxUnpool2dFuncOptions = MaxUnpoolFuncOptions<2>;
using MaxUnpool3dFuncOptions = MaxUnpoolFuncOptions<3>;

template <size_t D>
struct ConvFuncOptions {
  TORCH_ARG(Tensor, bias) = Tensor();
  TORCH_ARG(ExpandingArray<D>, stride) = 1;
  TESSERA_CONV_PADDING(ConvFuncOptions, D);
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
  TORCH_ARG(int64_t, groups) = 1;
};
using Conv1dFuncOptions = ConvFuncOptions<1>;
using Conv2dFuncOptions = ConvFuncOptions<2>;
using Conv3dFuncOptions = ConvFuncOptions<3>;
template <size_t D>
struct ConvTransposeFuncOptions {
  TORCH_ARG(Tensor, bias) = Tensor();
  TORCH_ARG(ExpandingArray<D>, stride) = 1;
  TORCH_ARG(ExpandingArray<D>, padding) = 0;
  TORCH_ARG(ExpandingArray<D>, output_padding) = 0;
  TORCH_ARG(int64_t, groups) = 1;
  TORCH_ARG(ExpandingArray<D>, dilation) = 1;
};
using ConvTranspose1dFuncOptions = ConvTransposeFuncOptions<1>;
using ConvTranspose2dFuncOptions = ConvTransposeFuncOptions<2>;
using ConvTranspose3dFuncOptions = ConvTransposeFuncOptions<3>;

struct BatchNormFuncOptions {
  TORCH_ARG(Tensor, weight) = Tensor();
  TORCH_ARG(Tensor, bias) = Tensor();
  TORCH_ARG(bool, training) = false;
  TORCH_ARG(std::optional<double>, momentum) = 0.1;
  TORCH_ARG(double, eps) = 1e-5;
};
struct InstanceNormFuncOptions {
  TORCH_ARG(Tensor, running_mean) = Tensor();
  TORCH_ARG(Tensor, running_var) = Tensor();
  TORCH_ARG(Tensor, weight) = Tensor();
  TORCH_ARG(Tensor, bias) = Tensor();
  TORCH_ARG(bool, use_input_stats) = true;
  TORCH_ARG(double, momentum) = 0.1;
  TORCH_ARG(double, eps) = 1e-5;
};
struct LayerNormFuncOptions {
  LayerNormFuncOptions(std::vector<int64_t> shape) : normalized_shape_(std::move(shape)) {}
  TORCH_ARG(std::vector<int64_t>, normalized_shape);
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(Tensor, bias) = {};
  TORCH_ARG(double, eps) = 1e-5;
};
struct GroupNormFuncOptions {
  GroupNormFuncOptions(int64_t groups) : num_groups_(groups) {}
  TORCH_ARG(int64_t, num_groups);
  TORCH_ARG(Tensor, weight) = {};
  TORCH_ARG(Tensor, bias) = {};
  TORCH_ARG(double, eps) = 1e-5;
};
struct NormalizeFuncOptions {
  TORCH_ARG(double, p) = 2.0;
  TORCH_ARG(int64_t, dim) = 1;
  TORCH_ARG(double, eps) = 1e-12;
  TORCH_ARG(std::optional<Tensor>, out) = std::nullopt;
};

struct EmbeddingFuncOptions {
  TORCH_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
  TORCH_ARG(std::optional<double>, max_norm) = std::nullopt;
  TORCH_ARG(double, norm_type) = 2.;
  TORCH_ARG(bool, scale_grad_by_freq) = false;
  TORCH_ARG(bool, sparse) = false;
};
struct EmbeddingBagFuncOptions {
  using mode_t = nn::detail::BagMode;
  TORCH_ARG(Tensor, offsets) = Tensor();
  TORCH_ARG(std::optional<double>, max_norm) = std::nullopt;
  TORCH_ARG(double, norm_type) = 2.;
  TORCH_ARG(bool, scale_grad_by_freq) = false;
  TORCH_ARG(mode_t, mode) = enumtype::kMean();
  TORCH_ARG(bool, sparse) = false;
  TORCH_ARG(Tensor, per_sample_weights) = Tensor();
  TORCH_ARG(bool, include_last_offset) = false;
  TORCH_ARG(std::optional<int64_t>, padding_idx) = std::nullopt;
};

struct PadFuncOptions {
  using mode_t = std::variant<enumtype::kConstant, enumtype::kReflect, enumtype::kReplicate, enumtype::kCircular>;
  PadFuncOptions(std::vector<int64_t> pad) : pad_(std::move(pad)) {}
  TORCH_ARG(std::vector<int64_t>, pad);
  TORCH_ARG(mode_t, mode) = enumtype::kConstant();
  TORCH_ARG(double, value) = 0;
};
struct InterpolateFuncOptions {
  using mode_t = std::variant<enumtype::kNearest, enumtype::kLinear, enumtype::kBilinear, enumtype::kBicubic,
                              enumtype::kTrilinear, enumtype::kArea, enumtype::kNearestExact>;
  TORCH_ARG(std::optional<std::vector<int64_t>>, size) = std::nullopt;
  TORCH_ARG(std::optional<std::vector<double>>, scale_factor) = std::nullopt;
  TORCH_ARG(mode_t, mode) = enumtype::kNearest();
  TORCH_ARG(std::optional<bool>, align_corners) = std::nullopt;
  TORCH_ARG(std::optional<bool>, recompute_scale_factor) = std::nullopt;
  TORCH_ARG(bool, antialias) = false;
};
struct GridSampleFuncOptions {
  using mode_t = std::variant<enumtype::kBilinear, enumtype::kNearest, enumtype::kBicubic>;
  using padding_mode_t = std::variant<enumtype::kZeros, enumtype::kBorder, enumtype::kReflection>;
  TORCH_ARG(mode_t, mode) = enumtype::kBilinear();
  TORCH_ARG(padding_mode_t, padding_mode) = enumtype::kZeros();
  TORCH_ARG(std::optional<bool>, align_corners) = std::nullopt;
};

struct MultiheadAttentionForwardFuncOptions {
  MultiheadAttentionForwardFuncOptions(int64_t embed_dim, int64_t heads, Tensor in_weight, Tensor in_bias,
                                       Tensor bias_k, Tensor bias_v, bool add_zero_attn, double dropout_p,
                                       Tensor out_weight, Tensor out_bias)
      : embed_dim_to_check_(embed_dim),
        num_heads_(heads),
        in_proj_weight_(std::move(in_weight)),
        in_proj_bias_(std::move(in_bias)),
        bias_k_(std::move(bias_k)),
        bias_v_(std::move(bias_v)),
        add_zero_attn_(add_zero_attn),
        dropout_p_(dropout_p),
        out_proj_weight_(std::move(out_weight)),
        out_proj_bias_(std::move(out_bias)) {}
  TORCH_ARG(int64_t, embed_dim_to_check);
  TORCH_ARG(int64_t, num_heads);
  TORCH_ARG(Tensor, in_proj_weight);
  TORCH_ARG(Tensor, in_proj_bias);
  TORCH_ARG(Tensor, bias_k);
  TORCH_ARG(Tensor, bias_v);
  TORCH_ARG(bool, add_zero_attn);
  TORCH_ARG(double, dropout_p);
  TORCH_ARG(Tensor, out_proj_weight);
  TORCH_ARG(Tensor, out_proj_bias);
  TORCH_ARG(bool, training) = true;
  TORCH_ARG(Tensor, key_padding_mask) = {};
  TORCH_ARG(bool, need_weights) = true;
  TORCH_ARG(Tensor, attn_mask) = {};
  TORCH_ARG(bool, use_separate_proj_weight) = false;
  TORCH_ARG(Tensor, q_proj_weight) = {};
  TORCH_ARG(Tensor, k_proj_weight) = {};
  TORCH_ARG(Tensor, v_proj_weight) = {};
  TORCH_ARG(Tensor, static_k) = {};
  TORCH_ARG(Tensor, static_v) = {};
  TORCH_ARG(bool, average_attn_weights) = true;
};

namespace detail {
using nn::detail::Sizes;
using Raw = at::Tensor;

template <size_t D>
at::IntArrayRef ints(const ExpandingArray<D>& a) {
  return {a->data(), D};
}
inline at::IntArrayRef ints(const std::vector<int64_t>& v) { return {v.data(), v.size()}; }
template <class V>
bool is(const V& variant, const char* name) {
  return enumtype::get_enum_name(variant) == name;
}
template <class V>
int64_t reduction(const V& v) {
  return enumtype::reduction_get_enum(v);
}
inline bool same_sizes(const Raw& a, const Raw& b) { return std::ranges::equal(a.sizes(), b.sizes()); }
inline Tensor reduced(const Raw& loss, int64_t reduction) {
  return reduction == 0 ? loss : reduction == 1 ? at::mean(loss) : at::sum(loss);
}
}  // namespace detail

}  // namespace torch::nn::functional
