// Transformer layers (Vaswani et al. 2017).
#pragma once

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container.h>
#include <torch/nn/modules/normalization.h>

namespace torch::nn {

#define TESSERA_TRANSFORMER_ARGS              \
  TORCH_ARG(int64_t, dim_feedforward) = 2048; \
  TORCH_ARG(double, dropout) = 0.1;           \
  TORCH_ARG(activation_t, activation) = enumtype::kReLU()

struct TransformerEncoderLayerOptions {
  using activation_t = detail::Activation;
  TransformerEncoderLayerOptions(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {}
  TORCH_ARG(int64_t, d_model);
  TORCH_ARG(int64_t, nhead);
  TESSERA_TRANSFORMER_ARGS;
};
struct TransformerDecoderLayerOptions {
  using activation_t = detail::Activation;
  TransformerDecoderLayerOptions(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {}
  TORCH_ARG(int64_t, d_model);
  TORCH_ARG(int64_t, nhead);
  TESSERA_TRANSFORMER_ARGS;
};

namespace detail {
inline Tensor activated(const Activation& f, const Tensor& x) {
  if (f.index() == 0) return at::relu(x);
  if (f.index() == 1) return at::gelu(x);
  return std::get<2>(f)(x);
}
}  // namespace detail

// Self-attention and a two-layer network, each with dropout, what it got added, and a norm: (S, N, E) -> (S, N, E).
class TransformerEncoderLayerImpl
    : public detail::WithOptions<TransformerEncoderLayerImpl, TransformerEncoderLayerOptions> {
 public:
  TESSERA_MADE(TransformerEncoderLayerImpl, TransformerEncoderLayerOptions)
  void reset() override {
    const int64_t e = options.d_model();
    self_attn = register_module(
        "self_attn", MultiheadAttention(MultiheadAttentionOptions(e, options.nhead()).dropout(options.dropout())));
    linear1 = register_module("linear1", Linear(e, options.dim_feedforward()));
    dropout = register_module("dropout", Dropout(options.dropout()));
    linear2 = register_module("linear2", Linear(options.dim_feedforward(), e));
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({e})));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({e})));
    dropout1 = register_module("dropout1", Dropout(options.dropout()));
    dropout2 = register_module("dropout2", Dropout(options.dropout()));
  }
  void reset_parameters() {}  // those of its parts are drawn when these are made
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {}) {
    const Tensor attended = std::get<0>(self_attn(src, src, src, src_key_padding_mask, false, src_mask));
    const Tensor x = norm1(at::add(src, dropout1(attended)));
    const Tensor wide = dropout(detail::activated(options.activation(), linear1(x)));
    return norm2(at::add(x, dropout2(linear2(wide))));
  }

  MultiheadAttention self_attn = nullptr;
  Linear linear1 = nullptr, linear2 = nullptr;
  Dropout dropout = nullptr, dropout1 = nullptr, dropout2 = nullptr;
  LayerNorm norm1 = nullptr, norm2 = nullptr;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())})
};
TORCH_MODULE(TransformerEncoderLayer);

// The same with attention to the encoder's output (S, N, E) between: (T, N, E) -> (T, N, E).
class TransformerDecoderLayerImpl
    : public detail::WithOptions<TransformerDecoderLayerImpl, TransformerDecoderLayerOptions> {
 public:
  TESSERA_MADE(TransformerDecoderLayerImpl, TransformerDecoderLayerOptions)
  void reset() override {
    const int64_t e = options.d_model();
    const auto attention = MultiheadAttentionOptions(e, options.nhead()).dropout(options.dropout());
    self_attn = register_module("self_attn", MultiheadAttention(attention));
    multihead_attn = register_module("multihead_attn", MultiheadAttention(attention));
    linear1 = register_module("linear1", Linear(e, options.dim_feedforward()));
    dropout = register_module("dropout", Dropout(options.dropout()));
    linear2 = register_module("linear2", Linear(options.dim_feedforward(), e));
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({e})));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({e})));
    norm3 = register_module("norm3", LayerNorm(LayerNormOptions({e})));
    dropout1 = register_module("dropout1", Dropout(options.dropout()));
    dropout2 = register_module("dropout2", Dropout(options.dropout()));
    dropout3 = register_module("dropout3", Dropout(options.dropout()));
  }
  void reset_parameters() {}
  Tensor forward(Tensor tgt, const Tensor& memory, const Tensor& tgt_mask = {}, const Tensor& memory_mask = {},
                 const Tensor& tgt_key_padding_mask = {}, const Tensor& memory_key_padding_mask = {}) {
    const Tensor own = std::get<0>(self_attn(tgt, tgt, tgt, tgt_key_padding_mask, false, tgt_mask));
    const Tensor x = norm1(at::add(tgt, dropout1(own)));
    const Tensor other = std::get<0>(multihead_attn(x, memory, memory, memory_key_padding_mask, false, memory_mask));
    const Tensor y = norm2(at::add(x, dropout2(other)));
    const Tensor wide = dropout(detail::activated(options.activation(), linear1(y)));
    return norm3(at::add(y, dropout3(linear2(wide))));
  }

  MultiheadAttention self_attn = nullptr, multihead_attn = nullptr;
  Linear linear1 = nullptr, linear2 = nullptr;
  Dropout dropout = nullptr, dropout1 = nullptr, dropout2 = nullptr, dropout3 = nullptr;
  LayerNorm norm1 = nullptr, norm2 = nullptr, norm3 = nullptr;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(Tensor())}, {3, AnyValue(Tensor())}, {4, AnyValue(Tensor())},
                           {5, AnyValue(Tensor())})
};
TORCH_MODULE(TransformerDecoderLayer);

// ---- stacks of layers ----

struct TransformerEncoderOptions {
  TransformerEncoderOptions(TransformerEncoderLayer layer, int64_t count)
      : encoder_layer_(std::move(layer)), num_layers_(count) {}
  TransformerEncoderOptions(const TransformerEncoderLayerOptions& layer, int64_t count)
      : TransformerEncoderOptions(TransformerEncoderLayer(layer), count) {}
  TORCH_ARG(TransformerEncoderLayer, encoder_layer) = nullptr;
  TORCH_ARG(int64_t, num_layers);
  TORCH_ARG(AnyModule, norm);
};
struct TransformerDecoderOptions {
  TransformerDecoderOptions(TransformerDecoderLayer layer, int64_t count)
      : decoder_layer_(std::move(layer)), num_layers_(count) {}
  TransformerDecoderOptions(const TransformerDecoderLayerOptions& layer, int64_t count)
      : TransformerDecoderOptions(TransformerDecoderLayer(layer), count) {}
  TORCH_ARG(TransformerDecoderLayer, decoder_layer) = nullptr;
  TORCH_ARG(int64_t, num_layers);
  TORCH_ARG(AnyModule, norm);
};

namespace detail {
// Deep copies of a layer, and a norm at the end if there is one.
template <class Derived, class O, class Layer>
class TransformerStack : public WithOptions<Derived, O> {
 public:
  ModuleList layers = nullptr;
  AnyModule norm;
  void reset_parameters() {}

 protected:
  using WithOptions<Derived, O>::WithOptions;
  void make(const Layer& layer) {
    layers = this->register_module("layers", ModuleList());
    for (int64_t i = 0; i < this->options.num_layers(); ++i) layers->push_back(layer->clone());
    if (this->options.norm().is_empty()) return;
    // A copy of this object must not share the norm with it.
    norm = norm.is_empty() ? this->options.norm() : this->options.norm().clone();
    this->register_module("norm", norm.ptr());
  }
  template <class... A>
  Tensor through(Tensor x, const A&... arguments) {
    for (const auto& layer : *layers) x = layer->template as<Layer>()->forward(x, arguments...);
    return norm.is_empty() ? x : norm.forward<Tensor>(x);
  }
};
}  // namespace detail

class TransformerEncoderImpl
    : public detail::TransformerStack<TransformerEncoderImpl, TransformerEncoderOptions, TransformerEncoderLayer> {
 public:
  template <class... A>
  requires std::is_constructible_v<TransformerEncoderOptions, A...>
  explicit TransformerEncoderImpl(A&&... a) : TransformerStack(std::forward<A>(a)...) { reset(); }
  void reset() override { make(options.encoder_layer()); }
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {}) {
    return through(src, src_mask, src_key_padding_mask);
  }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())})
};
TORCH_MODULE(TransformerEncoder);

class TransformerDecoderImpl
    : public detail::TransformerStack<TransformerDecoderImpl, TransformerDecoderOptions, TransformerDecoderLayer> {
 public:
  template <class... A>
  requires std::is_constructible_v<TransformerDecoderOptions, A...>
  explicit TransformerDecoderImpl(A&&... a) : TransformerStack(std::forward<A>(a)...) { reset(); }
  void reset() override { make(options.decoder_layer()); }
  Tensor forward(const Tensor& tgt, const Tensor& memory, const Tensor& tgt_mask = {}, const Tensor& memory_mask = {},
                 const Tensor& tgt_key_padding_mask = {}, const Tensor& memory_key_padding_mask = {}) {
    return through(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask);
  }

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(Tensor())}, {3, AnyValue(Tensor())}, {4, AnyValue(Tensor())},
                           {5, AnyValue(Tensor())})
};
TORCH_MODULE(TransformerDecoder);

// ---- encoder and decoder ----

struct TransformerOptions {
  using activation_t = detail::Activation;
  TransformerOptions() = default;
  TransformerOptions(int64_t d_model, int64_t nhead) : d_model_(d_model), nhead_(nhead) {}
  TransformerOptions(int64_t d_model, int64_t nhead, int64_t encoder_layers, int64_t decoder_layers)
      : d_model_(d_model), nhead_(nhead), num_encoder_layers_(encoder_layers), num_decoder_layers_(decoder_layers) {}
  TORCH_ARG(int64_t, d_model) = 512;
  TORCH_ARG(int64_t, nhead) = 8;
  TORCH_ARG(int64_t, num_encoder_layers) = 6;
  TORCH_ARG(int64_t, num_decoder_layers) = 6;
  TESSERA_TRANSFORMER_ARGS;
  TORCH_ARG(AnyModule, custom_encoder);
  TORCH_ARG(AnyModule, custom_decoder);
};
#undef TESSERA_TRANSFORMER_ARGS

class TransformerImpl : public detail::WithOptions<TransformerImpl, TransformerOptions> {
 public:
  TESSERA_MADE(TransformerImpl, TransformerOptions)
  void reset() override {
    const auto& o = options;
    if (o.custom_encoder().is_empty()) {
      const LayerNorm norm(LayerNormOptions({o.d_model()}));
      encoder = AnyModule(
          TransformerEncoder(TransformerEncoderOptions(layer<TransformerEncoderLayerOptions>(), o.num_encoder_layers())
                                 .norm(AnyModule(norm))));
    } else {
      encoder = o.custom_encoder().clone();
    }
    register_module("encoder", encoder.ptr());
    if (o.custom_decoder().is_empty()) {
      const LayerNorm norm(LayerNormOptions({o.d_model()}));
      decoder = AnyModule(
          TransformerDecoder(TransformerDecoderOptions(layer<TransformerDecoderLayerOptions>(), o.num_decoder_layers())
                                 .norm(AnyModule(norm))));
    } else {
      decoder = o.custom_decoder().clone();
    }
    register_module("decoder", decoder.ptr());
    reset_parameters();
  }
  void reset_parameters() {
    for (const Tensor& p : parameters())
      if (p.dim() > 1) tessera::nn::init::xavier_uniform_(p);
  }
  // src (S, N, E), tgt (T, N, E) -> (T, N, E).
  Tensor forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask = {}, const Tensor& tgt_mask = {},
                 const Tensor& memory_mask = {}, const Tensor& src_key_padding_mask = {},
                 const Tensor& tgt_key_padding_mask = {}, const Tensor& memory_key_padding_mask = {}) {
    TORCH_CHECK(src.dim() == 3 && tgt.dim() == 3, "src and tgt should have 3 dimensions, but got ", src.dim(), " and ",
                tgt.dim());
    TORCH_CHECK(src.size(1) == tgt.size(1), "src and tgt should have equal batch size (at dim 1), but got ",
                src.size(1), " and ", tgt.size(1));
    TORCH_CHECK(src.size(2) == options.d_model() && tgt.size(2) == options.d_model(),
                "src and tgt should have same feature size as d_model (at dim 2), but got ", src.size(2), " and ",
                tgt.size(2), " while d_model is ", options.d_model());
    const Tensor memory = encoder.forward<Tensor>(src, src_mask, src_key_padding_mask);
    return decoder.forward<Tensor>(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask);
  }
  // (sz, sz): 0 on and below the diagonal, -inf above.
  static Tensor generate_square_subsequent_mask(int64_t sz) {
    return at::triu(at::full({sz, sz}, -std::numeric_limits<double>::infinity()), 1);
  }

  AnyModule encoder, decoder;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, AnyValue(Tensor())}, {3, AnyValue(Tensor())}, {4, AnyValue(Tensor())},
                           {5, AnyValue(Tensor())}, {6, AnyValue(Tensor())}, {7, AnyValue(Tensor())})

 private:
  template <class O>
  O layer() const {
    return O(options.d_model(), options.nhead())
        .dim_feedforward(options.dim_feedforward())
        .dropout(options.dropout())
        .activation(options.activation());
  }
};
TORCH_MODULE(Transformer);

}  // namespace torch::nn
