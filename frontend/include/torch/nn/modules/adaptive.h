// AdaptiveLogSoftmaxWithLoss (Grave et al. 2017).
#pragma once

#include <torch/nn/modules/container.h>
#include <torch/nn/modules/linear.h>

namespace torch::nn {

// The log-probability of each target, and the mean of its negative.
struct ASMoutput {
  ASMoutput(Tensor output, double loss) : output(std::move(output)), loss(loss) {}
  Tensor output;
  double loss;
};

// Softmax over many classes: frequent ones in a head, the others in clusters with smaller projections.
class AdaptiveLogSoftmaxWithLossImpl
    : public detail::WithOptions<AdaptiveLogSoftmaxWithLossImpl, AdaptiveLogSoftmaxWithLossOptions> {
 public:
  template <class... A>
  requires std::is_constructible_v<AdaptiveLogSoftmaxWithLossOptions, A...>
  explicit AdaptiveLogSoftmaxWithLossImpl(A&&... a) : WithOptions(std::forward<A>(a)...) { reset(); }
  void reset() override {
    cutoffs = options.cutoffs();
    cutoffs.push_back(options.n_classes());
    TORCH_CHECK(cutoffs.size() > 1, "cutoffs should be a sequence of length larger than 0");
    for (size_t i = 0; i < cutoffs.size(); ++i)
      TORCH_CHECK(cutoffs[i] > (i ? cutoffs[i - 1] : 0),
                  "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                  "value is between 1 and n_classes-1");
    shortlist_size = cutoffs[0];
    n_clusters = static_cast<int64_t>(cutoffs.size()) - 1;
    head_size = shortlist_size + n_clusters;
    head = register_module("head", Linear(LinearOptions(options.in_features(), head_size).bias(options.head_bias())));
    tail = register_module("tail", ModuleList());
    for (size_t i = 0; i + 1 < cutoffs.size(); ++i) {
      const auto hidden = static_cast<int64_t>(static_cast<double>(options.in_features()) /
                                               std::pow(options.div_value(), static_cast<double>(i + 1)));
      // The second draws its weights first, as documented programs show.
      const Linear up(LinearOptions(hidden, cutoffs[i + 1] - cutoffs[i]).bias(false));
      tail->push_back(Sequential(Linear(LinearOptions(options.in_features(), hidden).bias(false)), up));
    }
  }
  void reset_parameters() {
    head->reset_parameters();
    for (const auto& m : *tail)
      for (size_t k = 0; k < 2; ++k) m->as<SequentialImpl>()->at<LinearImpl>(k).reset_parameters();
  }
  // input (N, in_features), target (N).
  ASMoutput forward(const Tensor& input, const Tensor& target) {
    TORCH_CHECK(input.size(0) == target.size(0), "Input and target should have the same size in the batch dimension.");
    TORCH_CHECK(at::ge(target, 0).all().item<bool>() && at::lt(target, options.n_classes()).all().item<bool>(),
                "Target values should be in [0, ", options.n_classes() - 1, "]");
    using Raw = Tensor;
    Raw places = at::clone(target), output = at::zeros({target.size(0)}, Raw(input).dtype());
    for (int64_t i = 0; i < n_clusters; ++i) {
      const int64_t from = cutoffs[static_cast<size_t>(i)], to = cutoffs[static_cast<size_t>(i) + 1];
      const Raw rows = at::squeeze(at::nonzero(at::logical_and(at::ge(target, from), at::lt(target, to))), -1);
      if (rows.numel() == 0) continue;
      const Raw within = at::sub(at::index_select(target, 0, rows), from);
      const Raw scores = cluster(i, at::index_select(input, 0, rows));
      output = at::index_copy(output, 0, rows, at::squeeze(at::gather(scores, 1, at::unsqueeze(within, 1)), 1));
      places = at::index_fill(places, 0, rows, shortlist_size + i);
    }
    const Raw top = at::log_softmax(head(input), 1);
    output = at::add(output, at::squeeze(at::gather(top, 1, at::unsqueeze(places, 1)), 1));
    return ASMoutput(output, at::neg(at::mean(output)).item<double>());
  }
  // (N, n_classes).
  Tensor log_prob(const Tensor& input) { return _get_full_log_prob(input, head(input)); }
  Tensor predict(const Tensor& input) { return at::argmax(log_prob(input), 1); }
  Tensor _get_full_log_prob(const Tensor& input, const Tensor& head_output) {
    const auto top = at::log_softmax(head_output, 1);
    std::vector<Tensor> parts = {at::narrow(top, 1, 0, shortlist_size)};
    for (int64_t i = 0; i < n_clusters; ++i)
      parts.push_back(at::add(cluster(i, input), at::narrow(top, 1, shortlist_size + i, 1)));
    return at::cat(parts, 1);
  }
  void pretty_print(std::ostream& s) const override { s << "torch::nn::AdaptiveLogSoftmaxWithLoss"; }

  std::vector<int64_t> cutoffs;
  int64_t shortlist_size = 0, n_clusters = 0, head_size = 0;
  Linear head = nullptr;
  ModuleList tail = nullptr;

 private:
  Tensor cluster(int64_t i, const Tensor& input) {
    return at::log_softmax((*tail)[static_cast<size_t>(i)]->as<SequentialImpl>()->forward(input), 1);
  }
};
TORCH_MODULE(AdaptiveLogSoftmaxWithLoss);

}  // namespace torch::nn
