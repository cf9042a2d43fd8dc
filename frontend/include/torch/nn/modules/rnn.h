// Recurrent layers and cells.
#pragma once

#include <torch/nn/modules/recurrent.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/utils/rnn.h>

namespace torch::nn {

namespace detail {
using RecurrentKind = recurrent::Kind;

// What RNN, LSTM and GRU share. Of layer k there are weight_ih_l{k}, weight_hh_l{k}, bias_ih_l{k}, bias_hh_l{k}, with
// proj_size weight_hr_l{k}; names of the backward direction end in _reverse.
template <class Derived, class O>
class RNNImplBase : public WithOptions<Derived, O> {
 public:
  template <class... A>
  requires std::is_constructible_v<O, A...>
  explicit RNNImplBase(A&&... a)
      : WithOptions<Derived, O>(std::forward<A>(a)...),
        options_base(mode(), this->options.input_size(), this->options.hidden_size(), this->options.num_layers(),
                     this->options.bias(), this->options.batch_first(), this->options.dropout(),
                     this->options.bidirectional(), projection()) {
    make();
  }
  void reset() override { make(); }
  // Uniform in +-1 / sqrt(hidden_size).
  void reset_parameters() {
    const double bound = 1. / std::sqrt(static_cast<double>(this->options.hidden_size()));
    for (const Tensor& w : this->parameters()) tessera::nn::init::uniform_(w, -bound, bound);
  }
  void flatten_parameters() {}  // nothing to do: kernels take the weights as they lie
  std::vector<Tensor> all_weights() const { return this->parameters(); }
  void pretty_print(std::ostream& s) const override {
    const O& o = this->options;
    s << std::boolalpha << "torch::nn::" << Derived::kName << "(input_size=" << o.input_size()
      << ", hidden_size=" << o.hidden_size() << ", num_layers=" << o.num_layers() << ", bias=" << o.bias()
      << ", batch_first=" << o.batch_first() << ", dropout=" << o.dropout() << ", bidirectional=" << o.bidirectional();
    if (projection()) s << ", proj_size=" << projection();
    s << ")";
  }
  RNNOptionsBase options_base;  // the options as all of them have them

 protected:
  using PackedSequence = utils::rnn::PackedSequence;
  using State = recurrent::State;

  int64_t projection() const {
    if constexpr (requires(const O& o) { o.proj_size(); })
      return this->options.proj_size();
    else
      return 0;
  }
  int64_t directions() const { return this->options.bidirectional() ? 2 : 1; }
  RecurrentKind kind() const {
    if constexpr (requires(const O& o) { o.nonlinearity(); })
      return this->options.nonlinearity().index() == 0 ? RecurrentKind::kTanh : RecurrentKind::kRelu;
    else
      return Derived::kKind;
  }
  RNNOptionsBase::rnn_options_base_mode_t mode() const {
    switch (kind()) {
      case RecurrentKind::kLstm:
        return kLSTM;
      case RecurrentKind::kGru:
        return kGRU;
      case RecurrentKind::kRelu:
        return kRNN_RELU;
      default:
        return kRNN_TANH;
    }
  }

  // Outputs and last states; hx may be empty.
  std::pair<Tensor, State> run(const Tensor& input, State hx) {
    const O& o = this->options;
    TORCH_CHECK(input.dim() == 2 || input.dim() == 3, Derived::kName, ": Expected input to be 2D or 3D, got ",
                input.dim(), "D instead");
    const bool batched = input.dim() == 3;
    Tensor x = input;
    if (!batched) x = at::unsqueeze(x, o.batch_first() ? 0 : 1);
    if (o.batch_first()) x = at::transpose(x, 0, 1);
    for (auto& h : hx) {
      TORCH_CHECK(h.dim() == (batched ? 3 : 2), "For ", batched ? "batched 3-D" : "unbatched 2-D",
                  " input, hx should also be ", batched ? 3 : 2, "-D but got ", h.dim(), "-D tensor");
      if (!batched) h = at::unsqueeze(h, 1);
    }
    const int64_t steps = x.size(0), n = x.size(1);
    TORCH_CHECK(steps > 0, "Expected sequence length to be larger than 0 in RNN");
    check_width(x);
    auto [out, last] = run_layers(x, n, {}, std::move(hx));
    if (o.batch_first()) out = at::transpose(out, 0, 1);
    if (!batched) {
      out = at::squeeze(out, o.batch_first() ? 0 : 1);
      for (auto& s : last) s = at::squeeze(s, 1);
    }
    return {out, last};
  }
  std::pair<PackedSequence, State> run(const PackedSequence& input, State hx) {
    if (input.sorted_indices().defined())
      for (auto& h : hx) h = at::index_select(h, 1, input.sorted_indices());
    check_width(input.data());
    const auto sizes = utils::rnn::detail::numbers(input.batch_sizes());
    auto [out, last] = run_layers(input.data(), sizes.at(0), sizes, std::move(hx));
    if (input.unsorted_indices().defined())
      for (auto& s : last) s = at::index_select(s, 1, input.unsorted_indices());
    return {PackedSequence(out, input.batch_sizes(), input.sorted_indices(), input.unsorted_indices()), last};
  }

 private:
  void check_width(const Tensor& x) const {
    TORCH_CHECK(x.size(-1) == this->options.input_size(), "input.size(-1) must be equal to input_size. Expected ",
                this->options.input_size(), ", got ", x.size(-1));
  }
  std::pair<Tensor, State> run_layers(const Tensor& x, int64_t n, const std::vector<int64_t>& sizes, State hx) {
    const O& o = this->options;
    const int64_t out = projection() ? projection() : o.hidden_size(), groups = o.num_layers() * directions();
    const size_t count = kind() == RecurrentKind::kLstm ? 2 : 1;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<int64_t> shape = {groups, n, i == 0 ? out : o.hidden_size()};
      if (hx.size() <= i)
        hx.push_back(at::zeros(shape, x.options()));
      else
        TORCH_CHECK(std::ranges::equal(hx[i].sizes(), shape), "Expected hidden[", i, "] size ", at::IntArrayRef(shape),
                    ", got ", at::IntArrayRef(hx[i].sizes().data(), hx[i].sizes().size()));
    }
    std::vector<Tensor> weights;
    for (const std::string& tag : tags())
      for (const char* part : {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"})
        if (const Tensor* t = this->parameters_.find(part + tag)) weights.push_back(*t);
    return recurrent::run_layers(kind(), x, sizes, hx, weights, o.bias(), o.bidirectional(),
                                 this->is_training() ? o.dropout() : 0.0);
  }
  std::vector<std::string> tags() const {
    std::vector<std::string> list;
    for (int64_t k = 0; k < this->options.num_layers(); ++k)
      for (int64_t d = 0; d < directions(); ++d) list.push_back("_l" + std::to_string(k) + (d ? "_reverse" : ""));
    return list;
  }
  void make() {
    const O& o = this->options;
    TORCH_CHECK(o.dropout() >= 0 && o.dropout() <= 1,
                "dropout should be a number in range [0, 1] representing the "
                "probability of an element being zeroed");
    TORCH_CHECK(o.hidden_size() > 0 && o.num_layers() > 0, "hidden_size and num_layers must be greater than zero");
    TORCH_CHECK(projection() >= 0 && projection() < o.hidden_size(), "proj_size has to be smaller than hidden_size");
    if (o.dropout() > 0 && o.num_layers() == 1)
      TORCH_WARN(
          "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
          "num_layers greater than 1, but got dropout=",
          o.dropout(), " and num_layers=", o.num_layers());
    const int64_t rows = recurrent::gates_of(kind()) * o.hidden_size();
    const int64_t out = projection() ? projection() : o.hidden_size();
    size_t i = 0;
    for (const std::string& tag : tags()) {
      const bool first = i++ < static_cast<size_t>(directions());
      this->register_parameter("weight_ih" + tag, made({rows, first ? o.input_size() : out * directions()}));
      this->register_parameter("weight_hh" + tag, made({rows, out}));
      if (o.bias()) {
        this->register_parameter("bias_ih" + tag, made({rows}));
        this->register_parameter("bias_hh" + tag, made({rows}));
      }
      if (projection()) this->register_parameter("weight_hr" + tag, made({out, o.hidden_size()}));
    }
    reset_parameters();
  }
};

template <class Derived, class O>
class SingleStateRNN : public RNNImplBase<Derived, O> {
 public:
  using RNNImplBase<Derived, O>::RNNImplBase;
  // input (L, N, H_in), or (N, L, H_in) with batch_first; hx (layers * directions, N, H). Output and last hidden state.
  std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {}) {
    auto [out, last] = this->run(input, given(hx));
    return {out, last[0]};
  }
  std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(const utils::rnn::PackedSequence& input,
                                                                           Tensor hx = {}) {
    auto [out, last] = this->run(input, given(hx));
    return {out, last[0]};
  }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())})

 private:
  static std::vector<Tensor> given(const Tensor& hx) {
    return hx.defined() ? std::vector<Tensor>{hx} : std::vector<Tensor>{};
  }
};
}  // namespace detail

class RNNImpl : public detail::SingleStateRNN<RNNImpl, RNNOptions> {
 public:
  static constexpr const char* kName = "RNN";
  using detail::SingleStateRNN<RNNImpl, RNNOptions>::SingleStateRNN;
};
TORCH_MODULE(RNN);

class GRUImpl : public detail::SingleStateRNN<GRUImpl, GRUOptions> {
 public:
  static constexpr const char* kName = "GRU";
  static constexpr auto kKind = detail::RecurrentKind::kGru;
  using detail::SingleStateRNN<GRUImpl, GRUOptions>::SingleStateRNN;
};
TORCH_MODULE(GRU);

class LSTMImpl : public detail::RNNImplBase<LSTMImpl, LSTMOptions> {
 public:
  using Pair = std::tuple<Tensor, Tensor>;
  static constexpr const char* kName = "LSTM";
  static constexpr auto kKind = detail::RecurrentKind::kLstm;
  using detail::RNNImplBase<LSTMImpl, LSTMOptions>::RNNImplBase;
  // hx: the hidden and the cell states (layers * directions, N, .).
  std::tuple<Tensor, Pair> forward(const Tensor& input, const std::optional<Pair>& hx = {}) {
    auto [out, last] = run(input, given(hx));
    return {out, Pair(last[0], last[1])};
  }
  std::tuple<utils::rnn::PackedSequence, Pair> forward_with_packed_input(const utils::rnn::PackedSequence& input,
                                                                         const std::optional<Pair>& hx = {}) {
    auto [out, last] = run(input, given(hx));
    return {out, Pair(last[0], last[1])};
  }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(std::optional<std::tuple<Tensor, Tensor>>())})

 private:
  static std::vector<Tensor> given(const std::optional<Pair>& hx) {
    if (!hx) return {};
    return {std::get<0>(*hx), std::get<1>(*hx)};
  }
};
TORCH_MODULE(LSTM);

// ---- cells ----

namespace detail {
template <class Derived, class O>
class RNNCellImplBase : public WithOptions<Derived, O> {
 public:
  template <class... A>
  requires std::is_constructible_v<O, A...>
  explicit RNNCellImplBase(A&&... a) : WithOptions<Derived, O>(std::forward<A>(a)...) { make(); }
  void reset() override { make(); }
  void reset_parameters() {
    const double bound = 1. / std::sqrt(static_cast<double>(this->options.hidden_size()));
    for (const Tensor& w : this->parameters()) tessera::nn::init::uniform_(w, -bound, bound);
  }
  void pretty_print(std::ostream& s) const override {
    const O& o = this->options;
    s << "torch::nn::" << Derived::kName << "(" << o.input_size() << ", " << o.hidden_size();
    if (!o.bias()) s << ", bias=" << std::boolalpha << false;
    if constexpr (requires { o.nonlinearity(); })
      if (o.nonlinearity().index() != 0) s << ", nonlinearity=" << enumtype::get_enum_name(o.nonlinearity());
    s << ")";
  }
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  // One step of (N, input) or (input); hx: the states, or undefined ones for zeros.
  recurrent::State step(RecurrentKind kind, const Tensor& input, std::vector<Tensor> hx) {
    const O& o = this->options;
    TORCH_CHECK(input.dim() == 1 || input.dim() == 2, Derived::kName, ": Expected input to be 1D or 2D, got ",
                input.dim(), "D instead");
    const bool batched = input.dim() == 2;
    const Tensor x = batched ? Tensor(input) : at::unsqueeze(input, 0);
    TORCH_CHECK(x.size(1) == o.input_size(), "input has inconsistent input_size: got ", x.size(1), " expected ",
                o.input_size());
    recurrent::State state;
    for (const Tensor& h : hx) {
      state.push_back(!h.defined() ? at::zeros({x.size(0), o.hidden_size()}, x.options())
                      : batched    ? Tensor(h)
                                   : at::unsqueeze(h, 0));
      TORCH_CHECK(state.back().dim() == 2 && state.back().size(0) == x.size(0), "Input batch size ", x.size(0),
                  " doesn't match hidden batch size ", state.back().size(0));
      TORCH_CHECK(state.back().size(1) == o.hidden_size(), "hidden has inconsistent hidden_size: got ",
                  state.back().size(1), ", expected ", o.hidden_size());
    }
    auto next = recurrent::step(kind, x, state, weight_ih, weight_hh, bias_ih, bias_hh);
    if (!batched)
      for (auto& t : next) t = at::squeeze(t, 0);
    return next;
  }

 private:
  void make() {
    const O& o = this->options;
    const int64_t rows = Derived::kGates * o.hidden_size();
    const auto bias = [&](const char* name) {
      return this->register_parameter(name, o.bias() ? made({rows}) : Tensor(), o.bias());
    };
    weight_ih = this->register_parameter("weight_ih", made({rows, o.input_size()}));
    weight_hh = this->register_parameter("weight_hh", made({rows, o.hidden_size()}));
    bias_ih = bias("bias_ih");
    bias_hh = bias("bias_hh");
    reset_parameters();
  }
};
}  // namespace detail

#define TESSERA_CELL(Name, gates, kind)                                                               \
  class Name##Impl : public detail::RNNCellImplBase<Name##Impl, Name##Options> {                      \
   public:                                                                                            \
    static constexpr const char* kName = #Name;                                                       \
    static constexpr int64_t kGates = gates;                                                          \
    using detail::RNNCellImplBase<Name##Impl, Name##Options>::RNNCellImplBase;                        \
    Tensor forward(const Tensor& input, const Tensor& hx = {}) { return step(kind, input, {hx})[0]; } \
                                                                                                      \
   protected:                                                                                         \
    FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())})                                                 \
  };                                                                                                  \
  TORCH_MODULE(Name)
TESSERA_CELL(RNNCell, 1,
             options.nonlinearity().index() == 0 ? detail::RecurrentKind::kTanh : detail::RecurrentKind::kRelu);
TESSERA_CELL(GRUCell, 3, detail::RecurrentKind::kGru);
#undef TESSERA_CELL

class LSTMCellImpl : public detail::RNNCellImplBase<LSTMCellImpl, LSTMCellOptions> {
 public:
  using Pair = std::tuple<Tensor, Tensor>;
  static constexpr const char* kName = "LSTMCell";
  static constexpr int64_t kGates = 4;
  using detail::RNNCellImplBase<LSTMCellImpl, LSTMCellOptions>::RNNCellImplBase;
  Pair forward(const Tensor& input, const std::optional<Pair>& hx = {}) {
    const auto next =
        step(detail::RecurrentKind::kLstm, input, {hx ? std::get<0>(*hx) : Tensor(), hx ? std::get<1>(*hx) : Tensor()});
    return {next[0], next[1]};
  }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(std::optional<std::tuple<Tensor, Tensor>>())})
};
TORCH_MODULE(LSTMCell);

}  // namespace torch::nn
