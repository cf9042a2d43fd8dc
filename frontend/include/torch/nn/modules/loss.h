// Losses.
#pragma once

#include <torch/nn/modules/linear.h>

namespace torch::nn {

// reset() registers tensors that are given: the body says which.
#define TESSERA_LOSS_CLASS(Name, Options, printed, body, ...)                               \
  class Name##Impl : public detail::WithOptions<Name##Impl, Options> {                      \
   public:                                                                                  \
    TESSERA_MADE(Name##Impl, Options)                                                       \
    void reset() override { body; }                                                         \
    void pretty_print(std::ostream& s) const override { s << "torch::nn::" #Name printed; } \
    __VA_ARGS__                                                                             \
  };                                                                                        \
  TORCH_MODULE(Name)
#define TESSERA_LOSS(Name, fn, printed) \
  TESSERA_LOSS_CLASS(                   \
      Name, Name##Options, printed, ,   \
      Tensor forward(const Tensor& input, const Tensor& target) { return functional::fn(input, target, options); })
#define TESSERA_LOSS3(Name, fn, printed) \
  TESSERA_LOSS_CLASS(                    \
      Name, Name##Options, printed, ,    \
      Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) { return functional::fn(a, b, c, options); })
#define TESSERA_WEIGHTED_LOSS(Name, fn, printed)                                          \
  TESSERA_LOSS_CLASS(                                                                     \
      Name, Name##Options, printed, weight = register_buffer("weight", options.weight()), \
      Tensor forward(const Tensor& input, const Tensor& target) {                         \
        return functional::fn(input, target, Name##Options(options).weight(weight));      \
      } Tensor weight;)

TESSERA_LOSS(L1Loss, l1_loss, "()");
TESSERA_LOSS(MSELoss, mse_loss, "()");
TESSERA_LOSS(KLDivLoss, kl_div, "()");
TESSERA_LOSS(SmoothL1Loss, smooth_l1_loss, );
TESSERA_LOSS(HuberLoss, huber_loss, );
TESSERA_LOSS(HingeEmbeddingLoss, hinge_embedding_loss, "(margin=" << options.margin() << ")");
TESSERA_LOSS(MultiLabelMarginLoss, multilabel_margin_loss, "()");
TESSERA_LOSS(SoftMarginLoss, soft_margin_loss, "()");
TESSERA_LOSS(PoissonNLLLoss, poisson_nll_loss, "()");
TESSERA_WEIGHTED_LOSS(BCELoss, binary_cross_entropy, "()");
TESSERA_WEIGHTED_LOSS(NLLLoss, nll_loss, "()");
TESSERA_WEIGHTED_LOSS(CrossEntropyLoss, cross_entropy, "()");
TESSERA_WEIGHTED_LOSS(MultiLabelSoftMarginLoss, multilabel_soft_margin_loss, "()");
TESSERA_WEIGHTED_LOSS(MultiMarginLoss, multi_margin_loss,
                      "(p=" << options.p() << ", margin=" << options.margin() << ", weight=" << options.weight()
                            << ", reduction=" << enumtype::get_enum_name(options.reduction()) << ")");
TESSERA_LOSS3(CosineEmbeddingLoss, cosine_embedding_loss, "(margin=" << options.margin() << ")");
TESSERA_LOSS3(MarginRankingLoss, margin_ranking_loss, "()");
TESSERA_LOSS3(GaussianNLLLoss, gaussian_nll_loss, "()");
TESSERA_LOSS3(TripletMarginLoss, triplet_margin_loss,
              "(margin=" << options.margin() << ", p=" << options.p() << ", eps=" << options.eps() << std::boolalpha
                         << ", swap=" << options.swap() << ")");
TESSERA_LOSS3(TripletMarginWithDistanceLoss, triplet_margin_with_distance_loss,
              "(margin=" << options.margin() << std::boolalpha << ", swap=" << options.swap() << ")");
TESSERA_LOSS_CLASS(
    BCEWithLogitsLoss, BCEWithLogitsLossOptions, "()", weight = register_buffer("weight", options.weight());
    pos_weight = register_buffer("pos_weight", options.pos_weight()),
    Tensor forward(const Tensor& input, const Tensor& target) {
      return functional::binary_cross_entropy_with_logits(
          input, target, BCEWithLogitsLossOptions(options).weight(weight).pos_weight(pos_weight));
    } Tensor weight;
    Tensor pos_weight;);
TESSERA_LOSS_CLASS(
    CTCLoss, CTCLossOptions, "()", ,
    Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                   const Tensor& target_lengths) {
      return functional::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
    });
#undef TESSERA_LOSS
#undef TESSERA_LOSS3
#undef TESSERA_WEIGHTED_LOSS
#undef TESSERA_LOSS_CLASS

}  // namespace torch::nn
