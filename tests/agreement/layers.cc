#include "tests/agreement/told.h"

namespace tessera::agreement {
namespace {

using namespace nn;

template <class M>
std::shared_ptr<Module> plain(Told&) {
  return std::make_shared<M>();
}

std::shared_ptr<Module> linear(Told& t) {
  const int64_t in = t.integer("in_features", 1), out = t.integer("out_features", 1);
  return std::make_shared<Linear>(in, out, t.truth("bias", true), t.dtype(default_dtype()));
}

std::shared_ptr<Module> conv2d(Told& t) {
  Conv2dOptions o;
  o.stride = t.size("stride", o.stride);
  o.padding = t.size("padding", o.padding);
  o.dilation = t.size("dilation", o.dilation);
  o.groups = t.integer("groups", o.groups);
  o.bias = t.truth("bias", o.bias);
  o.dtype = t.dtype(o.dtype);
  const int64_t in = t.integer("in_channels", 1), out = t.integer("out_channels", 1);
  return std::make_shared<Conv2d>(in, out, t.size("kernel_size", 1), o);
}

template <class M>
std::shared_ptr<Module> batch_norm(Told& t) {
  BatchNormOptions o;
  o.eps = t.real("eps", o.eps);
  o.momentum = t.is_none("momentum") ? std::nullopt : std::optional(t.real("momentum", *o.momentum));
  o.affine = t.truth("affine", o.affine);
  o.track_running_stats = t.truth("track_running_stats", o.track_running_stats);
  o.dtype = t.dtype(o.dtype);
  return std::make_shared<M>(t.integer("num_features", 1), o);
}

std::shared_ptr<Module> layer_norm(Told& t) {
  LayerNormOptions o;
  o.eps = t.real("eps", o.eps);
  o.elementwise_affine = t.truth("elementwise_affine", o.elementwise_affine);
  o.bias = t.truth("bias", o.bias);
  o.dtype = t.dtype(o.dtype);
  return std::make_shared<LayerNorm>(t.integers("normalized_shape", IntVector{1}), o);
}

std::shared_ptr<Module> max_pool2d(Told& t) {
  MaxPool2dOptions o;
  if (t.given("stride")) o.stride = t.size("stride", 1);
  o.padding = t.size("padding", o.padding);
  o.dilation = t.size("dilation", o.dilation);
  o.ceil_mode = t.truth("ceil_mode", o.ceil_mode);
  return std::make_shared<MaxPool2d>(t.size("kernel_size", 1), o);
}

std::shared_ptr<Module> avg_pool2d(Told& t) {
  AvgPool2dOptions o;
  if (t.given("stride")) o.stride = t.size("stride", 1);
  o.padding = t.size("padding", o.padding);
  o.ceil_mode = t.truth("ceil_mode", o.ceil_mode);
  o.count_include_pad = t.truth("count_include_pad", o.count_include_pad);
  if (t.given("divisor_override")) o.divisor_override = t.integer("divisor_override", 1);
  return std::make_shared<AvgPool2d>(t.size("kernel_size", 1), o);
}

std::shared_ptr<Module> embedding(Told& t) {
  EmbeddingOptions o;
  if (t.given("padding_idx")) o.padding_idx = t.integer("padding_idx", 0);
  o.scale_grad_by_freq = t.truth("scale_grad_by_freq", o.scale_grad_by_freq);
  o.dtype = t.dtype(o.dtype);
  const int64_t rows = t.integer("num_embeddings", 1), width = t.integer("embedding_dim", 1);
  return std::make_shared<Embedding>(rows, width, o);
}

Reduction reduction(Told& t) {
  const std::string name = t.word("reduction", "mean");
  return name == "none" ? Reduction::kNone : name == "sum" ? Reduction::kSum : Reduction::kMean;
}

template <class M>
std::shared_ptr<Module> class_loss(Told& t) {
  ClassLossOptions o;
  o.ignore_index = t.integer("ignore_index", o.ignore_index);
  o.reduction = reduction(t);
  if (std::is_same_v<M, CrossEntropyLoss>) o.label_smoothing = t.real("label_smoothing", o.label_smoothing);
  const std::vector<double> weight = t.numbers("weight", {});
  if (!weight.empty()) {
    o.weight = empty_kernel(IntVector{static_cast<int64_t>(weight.size())}, DType::kFloat32);
    std::copy(weight.begin(), weight.end(), o.weight.data<float>());
  }
  return std::make_shared<M>(o);
}

}  // namespace

const std::map<std::string, std::function<std::shared_ptr<nn::Module>(Told&)>>& layers() {
  static const std::map<std::string, std::function<std::shared_ptr<nn::Module>(Told&)>> all = {
      {"Linear", linear},
      {"Conv2d", conv2d},
      {"BatchNorm1d", batch_norm<BatchNorm1d>},
      {"BatchNorm2d", batch_norm<BatchNorm2d>},
      {"LayerNorm", layer_norm},
      {"MaxPool2d", max_pool2d},
      {"AvgPool2d", avg_pool2d},
      {"Identity", plain<Identity>},
      {"ReLU", [](Told& t) { return std::make_shared<ReLU>(t.truth("inplace", false)); }},
      {"GELU", [](Told& t) { return std::make_shared<GELU>(t.word("approximate", "none")); }},
      {"Tanh", plain<Tanh>},
      {"Sigmoid", plain<Sigmoid>},
      {"Dropout", [](Told& t) { return std::make_shared<Dropout>(t.real("p", 0.5)); }},
      {"Embedding", embedding},
      {"Flatten",
       [](Told& t) { return std::make_shared<Flatten>(t.integer("start_dim", 1), t.integer("end_dim", -1)); }},
      {"CrossEntropyLoss", class_loss<CrossEntropyLoss>},
      {"NLLLoss", class_loss<NLLLoss>},
      {"MSELoss", [](Told& t) { return std::make_shared<MSELoss>(reduction(t)); }},
  };
  return all;
}

}  // namespace tessera::agreement
