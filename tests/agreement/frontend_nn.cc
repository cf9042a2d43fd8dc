// Makes modules of torch::nn from lines "NAME OPTION=VALUE ... seed=N inputs=FORM;FORM", and writes what they hold and
// compute, numbers as the bytes that they are; "list" says which there are, with the options that they take. An input's
// FORM is what is drawn and its sizes: n2,3 from the normal distribution, u of (0, 1), a of absolute values, s of signs,
// l of logarithms of shares; 7:2,3 are the numbers from 0 on modulo 7.
#include <torch/nn.h>

#include <cctype>
#include <cstdio>
#include <iostream>
#include <sstream>

#include "tests/agreement/told.h"

namespace {

namespace nn = torch::nn;
using tessera::agreement::Told;
using torch::Tensor;

// Option by option: what is told replaces the default.
void take(Told& t, const char* name, bool& field) { field = t.truth(name, field); }
void take(Told& t, const char* name, int64_t& field) { field = t.integer(name, field); }
void take(Told& t, const char* name, double& field) { field = t.real(name, field); }
void take(Told& t, const char* name, std::string& field) { field = t.word(name, field); }
template <class T>
void take(Told& t, const char* name, std::vector<T>& field) {
  if (!t.given(name)) return;
  const std::vector<double> told = t.numbers(name, {});
  field.assign(told.begin(), told.end());
}
void take(Told& t, const char* name, Tensor& field) {
  if (t.given(name)) field = torch::tensor(t.numbers(name, {}), torch::kFloat);
}
template <size_t D, class T>
void take(Told& t, const char* name, torch::ExpandingArray<D, T>& field) {
  if (!t.given(name)) return;
  const std::vector<double> told = t.numbers(name, {});
  for (size_t i = 0; i < D; ++i) (*field)[i] = static_cast<T>(told[told.size() == 1 ? 0 : i]);
}
template <size_t D>
void take(Told& t, const char* name, torch::ExpandingArrayWithOptionalElem<D>& field) {
  if (!t.given(name)) return;
  std::istringstream words(t.word(name, ""));
  std::string word;
  for (size_t i = 0; i < D; ++i) {
    if (i == 0 || words.peek() != EOF) std::getline(words, word, ',');
    (*field)[i] = word == "None" ? std::nullopt : std::optional<int64_t>(std::stoll(word));
  }
}
template <class T>
void take(Told& t, const char* name, std::optional<T>& field) {
  if (t.is_none(name)) {
    field.reset();
  } else if (t.given(name)) {
    T value(0);
    take(t, name, value);
    field = value;
  }
}
// A variant of names, or of sizes and names: the name that was told; "mean" is kMean.
template <class V, class Variant>
bool take_choice(Told& t, const char* name, Variant& field) {
  const std::string told = t.word(name, "");
  if constexpr (requires { V::id; }) {
    std::string id = std::string(V::id).substr(1);
    for (char& c : id) c = static_cast<char>(std::tolower(c));
    if (id == told) field = V{};
    return id == told;
  } else if constexpr (requires(V v) { v.vec(); }) {
    if (std::isalpha(told[0])) return false;
    V sizes(0);
    take(t, name, sizes);
    field = sizes;
    return true;
  }
  return false;  // a function
}
template <class... T>
void take(Told& t, const char* name, std::variant<T...>& field) {
  if (!t.given(name)) return;
  const bool found = (take_choice<T>(t, name, field) || ...);
  TORCH_CHECK(found, name, " has no choice ", t.word(name, ""));
}

using Outputs = std::vector<Tensor>;
void add(Outputs& out, const Tensor& t) {
  if (t.defined()) out.push_back(t);
}
template <class... T>
void add(Outputs& out, const std::tuple<T...>& all) {
  std::apply([&](const auto&... one) { (add(out, one), ...); }, all);
}
void add(Outputs& out, const nn::ASMoutput& all) {
  add(out, all.output);
  out.push_back(torch::tensor(all.loss));
}

struct Made {
  std::shared_ptr<nn::Module> module;
  std::function<Outputs(const std::vector<Tensor>&)> call;
};

template <class Holder>
Made made(Holder m) {
  return {m.ptr(), [m](const std::vector<Tensor>& x) mutable -> Outputs {
            Outputs out;
            if constexpr (requires { m->forward(x[0]); })
              if (x.size() == 1) return add(out, m->forward(x[0])), out;
            if constexpr (requires { m->forward(x[0], x[1]); })
              if (x.size() == 2) return add(out, m->forward(x[0], x[1])), out;
            if constexpr (requires { m->forward(x[0], x[1], x[2]); })
              if (x.size() == 3) return add(out, m->forward(x[0], x[1], x[2])), out;
            if constexpr (requires { m->forward(x[0], x[1], x[2], x[3]); })
              if (x.size() == 4) return add(out, m->forward(x[0], x[1], x[2], x[3])), out;
            TORCH_CHECK(false, "forward takes another number of inputs than ", x.size());
          }};
}

using Makers = std::map<std::string, std::function<Made(Told&)>>;

// LAYER(Name, (what the options' constructor is given), options): its options are told by name.
#define ARGUMENTS(...) __VA_ARGS__
#define TAKE(name) take(t, #name, o.name());
#define TAKE_AS(name, python) take(t, python, o.name());
#define LAYER(Name, given, options)              \
  {#Name, [](Told& t) {                          \
     [[maybe_unused]] nn::Name##Options o given; \
     options;                                    \
     return made(nn::Name(o));                   \
   }}
#define NO_OPTIONS(Name) \
  {#Name, [](Told&) { return made(nn::Name()); }}
#define IN_1_2_3(Name, given, options) \
  LAYER(Name##1d, given, options), LAYER(Name##2d, given, options), LAYER(Name##3d, given, options)
#define WINDOW TAKE(kernel_size) o.stride() = o.kernel_size(); TAKE(stride)
#define LOSS(Name, options) LAYER(Name, , TAKE(reduction) options)

#define CONVOLUTION \
  TAKE(in_channels) TAKE(out_channels) TAKE(kernel_size) TAKE(stride) TAKE(padding) TAKE(dilation) TAKE(groups) TAKE(bias)
#define RECURRENT TAKE(input_size) TAKE(hidden_size) TAKE(bias)
#define SEQUENCE RECURRENT TAKE(num_layers) TAKE(batch_first) TAKE(dropout) TAKE(bidirectional)

Makers activations() {
  return {
      NO_OPTIONS(Identity),
      NO_OPTIONS(Tanh),
      NO_OPTIONS(Sigmoid),
      NO_OPTIONS(Softsign),
      NO_OPTIONS(Tanhshrink),
      NO_OPTIONS(LogSigmoid),
      NO_OPTIONS(Softmax2d),
      LAYER(ELU, , TAKE(alpha) TAKE(inplace)),
      LAYER(CELU, , TAKE(alpha) TAKE(inplace)),
      LAYER(SELU, , TAKE(inplace)),
      LAYER(ReLU, , TAKE(inplace)),
      LAYER(ReLU6, , TAKE(inplace)),
      NO_OPTIONS(SiLU),
      NO_OPTIONS(Mish),
      LAYER(Hardsigmoid, , TAKE(inplace)),
      LAYER(Hardswish, , TAKE(inplace)),
      LAYER(GLU, , TAKE(dim)),
      LAYER(Hardshrink, , TAKE_AS(lambda, "lambd")),
      LAYER(Softshrink, , TAKE_AS(lambda, "lambd")),
      LAYER(GELU, , TAKE(approximate)),
      LAYER(Hardtanh, , TAKE(min_val) TAKE(max_val) TAKE(inplace)),
      LAYER(LeakyReLU, , TAKE(negative_slope) TAKE(inplace)),
      LAYER(Softmax, (0), TAKE(dim)),
      LAYER(Softmin, (0), TAKE(dim)),
      LAYER(LogSoftmax, (0), TAKE(dim)),
      LAYER(PReLU, , TAKE(num_parameters) TAKE(init)),
      LAYER(RReLU, , TAKE(lower) TAKE(upper) TAKE(inplace)),
      LAYER(Softplus, , TAKE(beta) TAKE(threshold)),
      LAYER(Threshold, (0, 0), TAKE(threshold) TAKE(value) TAKE(inplace)),
      LAYER(Dropout, , TAKE(p) TAKE(inplace)),
      LAYER(Dropout1d, , TAKE(p) TAKE(inplace)),
      LAYER(Dropout2d, , TAKE(p) TAKE(inplace)),
      LAYER(Dropout3d, , TAKE(p) TAKE(inplace)),
      LAYER(AlphaDropout, , TAKE(p) TAKE(inplace)),
      LAYER(FeatureAlphaDropout, , TAKE(p) TAKE(inplace)),
      LAYER(Flatten, , TAKE(start_dim) TAKE(end_dim)),
      LAYER(Unflatten, (0, std::vector<int64_t>()), TAKE(dim) TAKE_AS(sizes, "unflattened_size")),
  };
}

Makers linear_and_norms() {
  return {
      LAYER(Linear, (1, 1), TAKE(in_features) TAKE(out_features) TAKE(bias)),
      LAYER(Bilinear, (1, 1, 1), TAKE(in1_features) TAKE(in2_features) TAKE(out_features) TAKE(bias)),
      LAYER(Embedding, (1, 1), TAKE(num_embeddings) TAKE(embedding_dim) TAKE(padding_idx) TAKE(max_norm) TAKE(norm_type) TAKE(scale_grad_by_freq)),
      LAYER(EmbeddingBag, (1, 1), TAKE(num_embeddings) TAKE(embedding_dim) TAKE(max_norm) TAKE(norm_type) TAKE(scale_grad_by_freq) TAKE(mode) TAKE(include_last_offset) TAKE(padding_idx)),
      LAYER(CosineSimilarity, , TAKE(dim) TAKE(eps)),
      LAYER(PairwiseDistance, , TAKE(p) TAKE(eps) TAKE(keepdim)),
      LAYER(AdaptiveLogSoftmaxWithLoss, (1, 3, {1}), TAKE(in_features) TAKE(n_classes) TAKE(cutoffs) TAKE(div_value) TAKE(head_bias)),
      IN_1_2_3(BatchNorm, (1), TAKE(num_features) TAKE(eps) TAKE(momentum) TAKE(affine) TAKE(track_running_stats)),
      IN_1_2_3(InstanceNorm, (1), TAKE(num_features) TAKE(eps) TAKE(momentum) TAKE(affine) TAKE(track_running_stats)),
      LAYER(LayerNorm, ({1}), TAKE(normalized_shape) TAKE(eps) TAKE(elementwise_affine)),
      LAYER(RMSNorm, ({1}), TAKE(normalized_shape) TAKE(eps) TAKE(elementwise_affine)),
      LAYER(GroupNorm, (1, 1), TAKE(num_groups) TAKE(num_channels) TAKE(eps) TAKE(affine)),
      LAYER(LocalResponseNorm, (1), TAKE(size) TAKE(alpha) TAKE(beta) TAKE(k)),
      LAYER(CrossMapLRN2d, (1), TAKE(size) TAKE(alpha) TAKE(beta) TAKE(k)),
  };
}

Makers spatial() {
  return {
      IN_1_2_3(Conv, (1, 1, 1), CONVOLUTION TAKE(padding_mode)),
      IN_1_2_3(ConvTranspose, (1, 1, 1), CONVOLUTION TAKE(output_padding)),
      IN_1_2_3(MaxPool, (1), WINDOW TAKE(padding) TAKE(dilation) TAKE(ceil_mode)),
      LAYER(AvgPool1d, (1), WINDOW TAKE(padding) TAKE(ceil_mode) TAKE(count_include_pad)),
      LAYER(AvgPool2d, (1), WINDOW TAKE(padding) TAKE(ceil_mode) TAKE(count_include_pad) TAKE(divisor_override)),
      LAYER(AvgPool3d, (1), WINDOW TAKE(padding) TAKE(ceil_mode) TAKE(count_include_pad) TAKE(divisor_override)),
      IN_1_2_3(LPPool, (1, 1), TAKE(norm_type) WINDOW TAKE(ceil_mode)),
      IN_1_2_3(AdaptiveAvgPool, (1), TAKE(output_size)),
      IN_1_2_3(AdaptiveMaxPool, (1), TAKE(output_size)),
      IN_1_2_3(MaxUnpool, (1), WINDOW TAKE(padding)),
      LAYER(FractionalMaxPool2d, (1), TAKE(kernel_size) TAKE(output_size) TAKE(output_ratio)),
      LAYER(FractionalMaxPool3d, (1), TAKE(kernel_size) TAKE(output_size) TAKE(output_ratio)),
      IN_1_2_3(ReflectionPad, (0), TAKE(padding)),
      IN_1_2_3(ReplicationPad, (0), TAKE(padding)),
      IN_1_2_3(CircularPad, (0), TAKE(padding)),
      IN_1_2_3(ZeroPad, (0), TAKE(padding)),
      IN_1_2_3(ConstantPad, (0, 0), TAKE(padding) TAKE(value)),
      LAYER(Fold, (1, 1), TAKE(output_size) TAKE(kernel_size) TAKE(dilation) TAKE(padding) TAKE(stride)),
      LAYER(Unfold, (1), TAKE(kernel_size) TAKE(dilation) TAKE(padding) TAKE(stride)),
      LAYER(PixelShuffle, (1), TAKE(upscale_factor)),
      LAYER(PixelUnshuffle, (1), TAKE(downscale_factor)),
      LAYER(ChannelShuffle, (1), TAKE(groups)),
      LAYER(Upsample, , TAKE(size) TAKE(scale_factor) TAKE(mode) TAKE(align_corners)),
  };
}

Makers sequences() {
  return {
      LAYER(RNN, (1, 1), SEQUENCE TAKE(nonlinearity)),
      LAYER(LSTM, (1, 1), SEQUENCE TAKE(proj_size)),
      LAYER(GRU, (1, 1), SEQUENCE),
      LAYER(RNNCell, (1, 1), RECURRENT TAKE(nonlinearity)),
      LAYER(LSTMCell, (1, 1), RECURRENT),
      LAYER(GRUCell, (1, 1), RECURRENT),
      LAYER(MultiheadAttention, (1, 1), TAKE(embed_dim) o.kdim(o.embed_dim()).vdim(o.embed_dim()); TAKE(num_heads) TAKE(dropout) TAKE(bias) TAKE(add_bias_kv) TAKE(add_zero_attn) TAKE(kdim) TAKE(vdim)),
      LAYER(TransformerEncoderLayer, (1, 1), TAKE(d_model) TAKE(nhead) TAKE(dim_feedforward) TAKE(dropout) TAKE(activation)),
      LAYER(TransformerDecoderLayer, (1, 1), TAKE(d_model) TAKE(nhead) TAKE(dim_feedforward) TAKE(dropout) TAKE(activation)),
      LAYER(Transformer, , TAKE(d_model) TAKE(nhead) TAKE(num_encoder_layers) TAKE(num_decoder_layers) TAKE(dim_feedforward) TAKE(dropout) TAKE(activation)),
  };
}

Makers losses() {
  return {
      LOSS(L1Loss, ),
      LOSS(MSELoss, ),
      LOSS(MultiLabelMarginLoss, ),
      LOSS(SoftMarginLoss, ),
      LOSS(KLDivLoss, TAKE(log_target)),
      LOSS(BCELoss, TAKE(weight)),
      LOSS(BCEWithLogitsLoss, TAKE(weight) TAKE(pos_weight)),
      LOSS(HingeEmbeddingLoss, TAKE(margin)),
      LOSS(MultiMarginLoss, TAKE(p) TAKE(margin) TAKE(weight)),
      LOSS(CosineEmbeddingLoss, TAKE(margin)),
      LOSS(MultiLabelSoftMarginLoss, TAKE(weight)),
      LOSS(TripletMarginLoss, TAKE(margin) TAKE(p) TAKE(eps) TAKE(swap)),
      LOSS(TripletMarginWithDistanceLoss, TAKE(margin) TAKE(swap)),
      LOSS(CTCLoss, TAKE(blank) TAKE(zero_infinity)),
      LOSS(SmoothL1Loss, TAKE(beta)),
      LOSS(HuberLoss, TAKE(delta)),
      LOSS(PoissonNLLLoss, TAKE(log_input) TAKE(full) TAKE(eps)),
      LOSS(GaussianNLLLoss, TAKE(full) TAKE(eps)),
      LOSS(MarginRankingLoss, TAKE(margin)),
      LOSS(NLLLoss, TAKE(weight) TAKE(ignore_index)),
      LOSS(CrossEntropyLoss, TAKE(weight) TAKE(ignore_index) TAKE(label_smoothing)),
  };
}

Makers all_makers() {
  Makers all;
  for (Makers part : {activations(), linear_and_norms(), spatial(), sequences(), losses()}) all.merge(part);
  return all;
}

Tensor example(const std::string& form) {
  const size_t colon = form.find(':'), begin = colon == std::string::npos ? 1 : colon + 1;
  Told sizes({{"sizes", form.substr(begin)}});
  std::vector<int64_t> shape;
  take(sizes, "sizes", shape);
  if (colon != std::string::npos) {
    int64_t n = 1;
    for (const int64_t s : shape) n *= s;
    return torch::arange(n).remainder(std::stoll(form.substr(0, colon))).reshape(shape);
  }
  const Tensor t = torch::randn(shape);
  switch (form[0]) {
    case 'u': return t.sigmoid();
    case 'a': return t.abs();
    case 's': return t.sign();
    case 'l': return t.log_softmax(-1);
    default: return t;
  }
}

void show(const std::string& what, const Tensor& tensor) {
  const Tensor t = tensor.detach().contiguous();
  std::printf("%s ", what.c_str());
  for (int64_t i = 0; i < t.dim(); ++i) std::printf(i ? ",%lld" : "%lld", static_cast<long long>(t.size(i)));
  std::printf(" ");
  const auto* bytes = static_cast<const unsigned char*>(t.data_ptr());
  for (size_t i = 0; i < t.nbytes(); ++i) std::printf("%02x", bytes[i]);
  std::printf("\n");
}

void run(const std::string& name, Told& told) {
  static const Makers makers = all_makers();
  torch::manual_seed(static_cast<uint64_t>(told.integer("seed", 0)));
  const Made one = makers.at(name)(told);
  for (const auto& p : one.module->named_parameters()) show("parameter " + p.key(), *p);
  for (const auto& b : one.module->named_buffers()) show("buffer " + b.key(), *b);
  std::vector<Tensor> inputs;
  std::istringstream forms(told.word("inputs", ""));
  for (std::string form; std::getline(forms, form, ';');) inputs.push_back(example(form));
  const auto fresh = [&] {  // what works in place may not write to leaves
    std::vector<Tensor> copies;
    for (const Tensor& t : inputs) copies.push_back(t.is_floating_point() ? t.clone() : t);
    return copies;
  };
  for (Tensor& t : inputs)
    if (t.is_floating_point()) t.requires_grad_();
  const Outputs out = one.call(fresh());
  for (const Tensor& t : out) show("training", t);
  if (out[0].requires_grad()) {
    out[0].sum().backward();
    for (const Tensor& t : inputs)
      if (t.grad().defined()) show("gradient", t.grad());
    for (const auto& p : one.module->named_parameters())
      if (p->grad().defined()) show("gradient " + p.key(), p->grad());
  }
  one.module->eval();
  for (const Tensor& t : one.call(fresh())) show("evaluation", t);
  for (const auto& b : one.module->named_buffers()) show("then " + b.key(), *b);
}

void follow(const std::string& line) {
  std::istringstream words(line);
  std::string name, word;
  words >> name;
  std::map<std::string, std::string> options;
  while (words >> word) options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  Told told(options);
  if (name != "list") return run(name, told);
  for (const auto& [layer, make] : all_makers()) {
    Told nothing({});
    try {
      make(nothing);
    } catch (const std::exception&) {}  // what defaults alone cannot make has asked for its options before
    std::string text = layer;
    for (const std::string& option : nothing.asked()) text += " " + option;
    std::printf("%s\n", text.c_str());
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      follow(line);
    } catch (const std::exception& error) {
      std::printf("error %s\n", std::string(error.what()).substr(0, 200).c_str());
    }
    std::printf("end\n");
  }
}
