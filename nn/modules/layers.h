// The layers. Defaults are those of the Python modules; what Python takes by keyword stands in an options struct:
// Conv2d(1, 16, 3, {.padding = 1}).
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nn/modules/module.h"

namespace tessera::nn {

// A height and a width; one number stands for both.
struct Size2d {
  int64_t v[2];
  Size2d(int64_t both) : v{both, both} {}
  Size2d(int64_t h, int64_t w) : v{h, w} {}
  operator IntList() const { return v; }
  bool is(int64_t both) const { return v[0] == both && v[1] == both; }
};

// y = x W^T + b: input (*, in_features), output (*, out_features).
class Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, bool bias = true, DType dtype = default_dtype());
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "Linear"; }
  std::string extra_repr() const override;

  const int64_t in_features, out_features;
  Tensor weight, bias;
};

struct Conv2dOptions {
  Size2d stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  DType dtype = default_dtype();
};

// Cross-correlation of (N, C, H, W) or (C, H, W) with weight (out_channels, in_channels / groups, kh, kw). ValueError
// for sizes that fit nothing.
class Conv2d : public Module {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, Size2d kernel_size, Conv2dOptions options = {});
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "Conv2d"; }
  std::string extra_repr() const override;

  const int64_t in_channels, out_channels;
  const Size2d kernel_size;
  const Conv2dOptions options;
  Tensor weight, bias;
};

struct BatchNormOptions {
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: the plain average of all batches
  bool affine = true, track_running_stats = true;
  DType dtype = default_dtype();
};

// Ioffe and Szegedy 2015: each channel normalised with the statistics of the batch, in evaluation with the running
// ones.
class BatchNorm : public Module {
 public:
  Tensor forward(const Tensor& input) override;
  std::string extra_repr() const override;
  void reset_running_stats();

  const int64_t num_features;
  const BatchNormOptions options;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 protected:
  BatchNorm(int64_t num_features, BatchNormOptions options);
  virtual void check_input(const Tensor& input) const = 0;
};

// (N, C) or (N, C, L).
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(int64_t num_features, BatchNormOptions options = {}) : BatchNorm(num_features, options) {}
  const char* name() const override { return "BatchNorm1d"; }

 protected:
  void check_input(const Tensor& input) const override;
};

// (N, C, H, W).
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(int64_t num_features, BatchNormOptions options = {}) : BatchNorm(num_features, options) {}
  const char* name() const override { return "BatchNorm2d"; }

 protected:
  void check_input(const Tensor& input) const override;
};

struct LayerNormOptions {
  double eps = 1e-5;
  bool elementwise_affine = true, bias = true;
  DType dtype = default_dtype();
};

// Ba, Kiros and Hinton 2016, over the last dimensions, which must be normalized_shape.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(IntVector normalized_shape, LayerNormOptions options = {});
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "LayerNorm"; }
  std::string extra_repr() const override;

  const IntVector normalized_shape;
  const LayerNormOptions options;
  Tensor weight, bias;
};

struct MaxPool2dOptions {
  std::optional<Size2d> stride;  // default: the kernel's size
  Size2d padding = 0, dilation = 1;
  bool ceil_mode = false;
};

class MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Size2d kernel_size, MaxPool2dOptions options = {}) : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "MaxPool2d"; }
  std::string extra_repr() const override;

  const Size2d kernel_size;
  const MaxPool2dOptions options;
};

struct AvgPool2dOptions {
  std::optional<Size2d> stride;
  Size2d padding = 0;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override;
};

class AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Size2d kernel_size, AvgPool2dOptions options = {}) : kernel_size(kernel_size), options(options) {}
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "AvgPool2d"; }
  std::string extra_repr() const override;

  const Size2d kernel_size;
  const AvgPool2dOptions options;
};

class Identity : public Module {
 public:
  Tensor forward(const Tensor& input) override { return input; }
  const char* name() const override { return "Identity"; }
};

class ReLU : public Module {
 public:
  explicit ReLU(bool inplace = false) : inplace(inplace) {}
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "ReLU"; }
  std::string extra_repr() const override { return inplace ? "inplace=True" : ""; }

  const bool inplace;
};

class GELU : public Module {
 public:
  explicit GELU(std::string approximate = "none") : approximate(std::move(approximate)) {}  // or "tanh"
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "GELU"; }
  std::string extra_repr() const override { return "approximate='" + approximate + "'"; }

  const std::string approximate;
};

class Tanh : public Module {
 public:
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "Tanh"; }
};

class Sigmoid : public Module {
 public:
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "Sigmoid"; }
};

// In training zeroes each element with probability p and scales the others by 1 / (1 - p). ValueError for a p outside
// [0, 1].
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "Dropout"; }
  std::string extra_repr() const override;

  const double p;
};

struct EmbeddingOptions {
  std::optional<int64_t> padding_idx;  // this row starts as zeros and gets no gradient; negative: from the end
  bool scale_grad_by_freq = false;
  DType dtype = default_dtype();
};

// Rows of a table: indices (*) of an integer dtype give (*, embedding_dim).
class Embedding : public Module {
 public:
  Embedding(int64_t num_embeddings, int64_t embedding_dim, EmbeddingOptions options = {});
  void reset_parameters();
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "Embedding"; }
  std::string extra_repr() const override;

  const int64_t num_embeddings, embedding_dim;
  const EmbeddingOptions options;
  Tensor weight;

 private:
  int64_t padding_row() const;  // -1: none
};

class Flatten : public Module {
 public:
  explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1) : start_dim(start_dim), end_dim(end_dim) {}
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "Flatten"; }
  std::string extra_repr() const override;

  const int64_t start_dim, end_dim;
};

// One module after the other, named "0", "1", ...
//   const auto net = nn::Sequential::make({std::make_shared<nn::Linear>(64, 10), std::make_shared<nn::ReLU>()});
class Sequential : public Module {
 public:
  Sequential() = default;
  // A list in braces is made from left to right, so that the modules draw their weights in this order; arguments in
  // parentheses may be made in any.
  using List = std::initializer_list<std::shared_ptr<Module>>;
  explicit Sequential(List modules) {
    for (const auto& m : modules) append(m);
  }
  static std::shared_ptr<Sequential> make(List modules) { return std::make_shared<Sequential>(modules); }
  Sequential& append(std::shared_ptr<Module> module);
  size_t size() const { return named_children().size(); }
  Module& operator[](size_t i) const;  // IndexError
  Tensor forward(const Tensor& input) override;
  const char* name() const override { return "Sequential"; }
};

}  // namespace tessera::nn
