// Linear maps, embeddings, normalisation and distances as functions.
#pragma once

#include <cmath>

#include <torch/nn/functional/options.h>

namespace torch::nn::functional {

inline Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias = {}) {
  return at::linear(input, weight, bias);
}
inline Tensor bilinear(const Tensor& input1, const Tensor& input2, const Tensor& weight, const Tensor& bias = {}) {
  return at::bilinear(input1, input2, weight, bias);
}

// ---- embeddings ----

inline Tensor one_hot(const Tensor& tensor, int64_t num_classes = -1) { return at::one_hot(tensor, num_classes); }

namespace detail {
inline int64_t row_of(const std::optional<int64_t>& index, const Tensor& weight) {
  if (!index) return -1;
  TORCH_CHECK(*index >= -weight.size(0) && *index < weight.size(0), "Padding_idx must be within num_embeddings");
  return *index < 0 ? *index + weight.size(0) : *index;
}
inline void renorm(const Tensor& weight, const Tensor& input, const std::optional<double>& max, double norm) {
  if (!max) return;
  at::NoGradGuard no_grad;
  Tensor rows = weight;
  at::embedding_renorm_(rows, at::contiguous(input), *max, norm);
}
}  // namespace detail

inline Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFuncOptions& o = {}) {
  const int64_t row = detail::row_of(o.padding_idx(), weight);
  detail::renorm(weight, input, o.max_norm(), o.norm_type());
  return at::embedding(weight, input, row, o.scale_grad_by_freq(), o.sparse());
}

inline Tensor embedding_bag(const Tensor& input, const Tensor& weight, const EmbeddingBagFuncOptions& o = {}) {
  Tensor bags = input, offsets = o.offsets(), scales = o.per_sample_weights();
  TORCH_CHECK(!scales.defined() || detail::same_sizes(input, scales),
              "embedding_bag: If per_sample_weights is not null, then it must have the same shape as the input");
  if (input.dim() == 2) {
    TORCH_CHECK(!offsets.defined(),
                "If input is 2D, then offsets has to be null, as input is treated is a mini-batch "
                "of fixed length sequences.");
    offsets = at::arange(0, input.numel(), input.size(1), input.options());
    bags = at::reshape(input, {-1});
    if (scales.defined()) scales = at::reshape(scales, {-1});
  } else {
    TORCH_CHECK(input.dim() == 1, "input has to be 1D or 2D Tensor, but got Tensor of dimension ", input.dim());
    TORCH_CHECK(offsets.defined() && offsets.dim() == 1, "offsets has to be a 1D Tensor");
  }
  const std::string name = enumtype::get_enum_name(o.mode());
  const int64_t mode = name == "kSum" ? 0 : name == "kMean" ? 1 : 2;
  TORCH_CHECK(mode != 2 || !o.scale_grad_by_freq(), "max mode does not support scaling the gradient by the frequency");
  TORCH_CHECK(mode != 2 || !o.sparse(), "max mode does not support sparse weights");
  TORCH_CHECK(mode == 0 || !scales.defined(), "embedding_bag: per_sample_weights is only supported for mode=kSum");
  detail::renorm(weight, bags, o.max_norm(), o.norm_type());
  return std::get<0>(at::embedding_bag(weight, bags, offsets, o.scale_grad_by_freq(), mode, o.sparse(), scales,
                                       o.include_last_offset(), o.padding_idx()));
}

// ---- normalisation ----

namespace detail {
// Statistics need more than one value a channel.
inline void check_batch(const Tensor& input) {
  int64_t count = input.size(0);
  for (int64_t d = 2; d < input.dim(); ++d) count *= input.size(d);
  TORCH_CHECK(count != 1, "Expected more than 1 value per channel when training, got input size ", input.sizes());
}
}  // namespace detail

inline Tensor batch_norm(const Tensor& input, const Tensor& running_mean, const Tensor& running_var,
                         const BatchNormFuncOptions& o = {}) {
  if (o.training()) detail::check_batch(input);
  return at::batch_norm(input, o.weight(), o.bias(), running_mean, running_var, o.training(), o.momentum().value_or(0),
                        o.eps(), true);
}
inline Tensor instance_norm(const Tensor& input, const InstanceNormFuncOptions& o = {}) {
  return at::instance_norm(input, o.weight(), o.bias(), o.running_mean(), o.running_var(), o.use_input_stats(),
                           o.momentum(), o.eps(), true);
}
inline Tensor layer_norm(const Tensor& input, const LayerNormFuncOptions& o) {
  return at::layer_norm(input, detail::ints(o.normalized_shape()), o.weight(), o.bias(), o.eps());
}
inline Tensor group_norm(const Tensor& input, const GroupNormFuncOptions& o) {
  return at::group_norm(input, o.num_groups(), o.weight(), o.bias(), o.eps());
}
inline Tensor local_response_norm(const Tensor& input, const LocalResponseNormFuncOptions& o) {
  TORCH_CHECK(input.dim() >= 3, "Expected 3D or higher dimensionality input (got ", input.dim(), " dimensions)");
  // The mean of squares over neighbouring channels, which lie where a pooling has its height.
  const int64_t pad[] = {0, 0, o.size() / 2, (o.size() - 1) / 2}, window[] = {o.size(), 1}, step[] = {1, 1};
  detail::Raw squares = at::reshape(at::mul(input, input), {input.size(0), 1, input.size(1), -1});
  squares = at::avg_pool2d(at::constant_pad_nd(squares, at::IntArrayRef(pad)), window, step);
  squares = at::reshape(squares, input.sizes());
  return at::div(input, at::pow(at::add(at::mul(squares, o.alpha()), o.k()), o.beta()));
}
inline Tensor normalize(const Tensor& input, NormalizeFuncOptions o = {}) {
  const int64_t dim[] = {o.dim()};
  const detail::Raw norm = at::clamp_min(at::norm(input, o.p(), at::IntArrayRef(dim), true), o.eps());
  if (!o.out()) return at::div(input, norm);
  return at::div_out(*o.out(), input, norm);
}

// ---- distances ----

inline Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, const CosineSimilarityFuncOptions& o = {}) {
  return at::cosine_similarity(x1, x2, o.dim(), o.eps());
}
inline Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, const PairwiseDistanceFuncOptions& o = {}) {
  return at::pairwise_distance(x1, x2, o.p(), o.eps(), o.keepdim());
}
// Distances of the rows (N, M) of each other: (N (N - 1) / 2).
inline Tensor pdist(const Tensor& input, double p = 2.0) { return at::pdist(input, p); }

}  // namespace torch::nn::functional
