// Functions of namespace at over the engines of modules and functionals: recurrent layers by their flat weights, CTC,
// padded lists.
#pragma once

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/recurrent.h>
#include <torch/nn/utils/rnn.h>
#include <torch/types.h>

namespace at {

namespace recurrent_detail {
using torch::nn::recurrent::Kind;
// (outputs, states): of whole sequences, or with batch_sizes of packed rows.
inline std::pair<Tensor, std::vector<Tensor>> layers(Kind kind, const Tensor& input, const Tensor& batch_sizes,
                                                     TensorList hx, TensorList params, bool has_biases,
                                                     int64_t num_layers, double dropout, bool train, bool bidirectional,
                                                     bool batch_first) {
  const size_t each = (has_biases ? 4 : 2) + (kind == Kind::kLstm && hx[0].size(2) != hx[1].size(2) ? 1 : 0);
  TORCH_CHECK(params.size() == each * static_cast<size_t>(num_layers) * (bidirectional ? 2 : 1), "expected ",
              each * static_cast<size_t>(num_layers) * (bidirectional ? 2 : 1), " weights, but got ", params.size());
  std::vector<int64_t> sizes;
  if (batch_sizes.defined()) sizes = torch::nn::utils::rnn::detail::numbers(batch_sizes);
  auto [out, last] =
      torch::nn::recurrent::run_layers(kind, batch_first ? input.transpose(0, 1) : input, sizes, hx.vec(), params.vec(),
                                       has_biases, bidirectional, train ? dropout : 0.0);
  return {batch_first ? out.transpose(0, 1) : out, std::move(last)};
}
}  // namespace recurrent_detail

inline std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                                               int64_t num_layers, double dropout, bool train, bool bidirectional,
                                               bool batch_first) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  auto [out, s] = recurrent_detail::layers(recurrent_detail::Kind::kLstm, input, {}, hx, params, has_biases, num_layers,
                                           dropout, train, bidirectional, batch_first);
  return {out, s[0], s[1]};
}
inline std::tuple<Tensor, Tensor, Tensor> lstm(const Tensor& data, const Tensor& batch_sizes, TensorList hx,
                                               TensorList params, bool has_biases, int64_t num_layers, double dropout,
                                               bool train, bool bidirectional) {
  TORCH_CHECK(hx.size() == 2, "lstm expects two hidden states");
  auto [out, s] = recurrent_detail::layers(recurrent_detail::Kind::kLstm, data, batch_sizes, hx, params, has_biases,
                                           num_layers, dropout, train, bidirectional, false);
  return {out, s[0], s[1]};
}
inline std::tuple<Tensor, Tensor> lstm_cell(const Tensor& input, TensorList hx, const Tensor& w_ih, const Tensor& w_hh,
                                            const std::optional<Tensor>& b_ih = {},
                                            const std::optional<Tensor>& b_hh = {}) {
  TORCH_CHECK(hx.size() == 2, "lstm_cell expects two hidden states");
  auto s = torch::nn::recurrent::step(recurrent_detail::Kind::kLstm, input, hx.vec(), w_ih, w_hh, fe::in(b_ih),
                                      fe::in(b_hh));
  return {s[0], s[1]};
}
#define TESSERA_RECURRENT(name, kind)                                                                                 \
  inline std::tuple<Tensor, Tensor> name(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases,   \
                                         int64_t num_layers, double dropout, bool train, bool bidirectional,          \
                                         bool batch_first) {                                                          \
    auto [out, s] = recurrent_detail::layers(recurrent_detail::Kind::kind, input, {}, hx, params, has_biases,         \
                                             num_layers, dropout, train, bidirectional, batch_first);                 \
    return {out, s[0]};                                                                                               \
  }                                                                                                                   \
  inline std::tuple<Tensor, Tensor> name(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,             \
                                         TensorList params, bool has_biases, int64_t num_layers, double dropout,      \
                                         bool train, bool bidirectional) {                                            \
    auto [out, s] = recurrent_detail::layers(recurrent_detail::Kind::kind, data, batch_sizes, hx, params, has_biases, \
                                             num_layers, dropout, train, bidirectional, false);                       \
    return {out, s[0]};                                                                                               \
  }                                                                                                                   \
  inline Tensor name##_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,            \
                            const std::optional<Tensor>& b_ih = {}, const std::optional<Tensor>& b_hh = {}) {         \
    return torch::nn::recurrent::step(recurrent_detail::Kind::kind, input, {hx}, w_ih, w_hh, fe::in(b_ih),            \
                                      fe::in(b_hh))[0];                                                               \
  }
TESSERA_RECURRENT(gru, kGru)
TESSERA_RECURRENT(rnn_tanh, kTanh)
TESSERA_RECURRENT(rnn_relu, kRelu)
#undef TESSERA_RECURRENT

inline Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, int64_t blank = 0, int64_t reduction = Reduction::Mean,
                       bool zero_infinity = false) {
  auto options = torch::nn::functional::CTCLossFuncOptions().blank(blank).zero_infinity(zero_infinity);
  if (reduction == Reduction::None) options.reduction(torch::kNone);
  if (reduction == Reduction::Sum) options.reduction(torch::kSum);
  return torch::nn::functional::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
}
inline Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                       IntArrayRef target_lengths, int64_t blank = 0, int64_t reduction = Reduction::Mean,
                       bool zero_infinity = false) {
  return ctc_loss(log_probs, targets, at::tensor(input_lengths), at::tensor(target_lengths), blank, reduction,
                  zero_infinity);
}
using torch::nn::utils::rnn::pad_sequence;

}  // namespace at
namespace torch {
using at::pad_sequence;
}
