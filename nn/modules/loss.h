// Losses: modules of two tensors, and what they share.
#pragma once

#include <cstdint>

#include "nn/modules/module.h"

namespace tessera::nn {

enum class Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

class Loss : public Module {
 public:
  virtual Tensor forward(const Tensor& input, const Tensor& target) = 0;
  Tensor operator()(const Tensor& input, const Tensor& target) { return forward(input, target); }
  using Module::forward;

  const Reduction reduction;

 protected:
  explicit Loss(Reduction reduction) : reduction(reduction) {}
};

struct ClassLossOptions {
  Tensor weight;  // (classes), undefined: all ones
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::kMean;
  double label_smoothing = 0;  // CrossEntropyLoss only
};

// Scores (N, C, ...) against class numbers (N, ...) of int64, or probabilities of the input's shape.
class CrossEntropyLoss : public Loss {
 public:
  explicit CrossEntropyLoss(ClassLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) override;
  const char* name() const override { return "CrossEntropyLoss"; }

  const int64_t ignore_index;
  const double label_smoothing;
  Tensor weight;
};

// Log-probabilities (N, C, ...) against class numbers (N, ...) of int64.
class NLLLoss : public Loss {
 public:
  explicit NLLLoss(ClassLossOptions options = {});
  Tensor forward(const Tensor& input, const Tensor& target) override;
  const char* name() const override { return "NLLLoss"; }

  const int64_t ignore_index;
  Tensor weight;
};

class MSELoss : public Loss {
 public:
  explicit MSELoss(Reduction reduction = Reduction::kMean) : Loss(reduction) {}
  Tensor forward(const Tensor& input, const Tensor& target) override;
  const char* name() const override { return "MSELoss"; }
};

}  // namespace tessera::nn
