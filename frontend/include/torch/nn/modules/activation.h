// Activations, dropout, multi-head attention.
#pragma once

#include <torch/nn/modules/linear.h>

namespace torch::nn {

TESSERA_LAYER(ELU, elu, << "alpha=" << options.alpha() << detail::inplace(options));
TESSERA_LAYER(CELU, celu, << "alpha=" << options.alpha() << detail::inplace(options));
TESSERA_LAYER(SELU, selu, << detail::inplace(options, ""));
TESSERA_LAYER(ReLU, relu, << detail::inplace(options, ""));
TESSERA_LAYER(ReLU6, relu6, << detail::inplace(options, ""));
TESSERA_LAYER(LeakyReLU, leaky_relu, << std::boolalpha << "negative_slope=" << options.negative_slope()
                                     << detail::inplace(options));
TESSERA_LAYER(Threshold, threshold, << "threshold=" << options.threshold() << ", value=" << options.value()
                                    << detail::inplace(options));
TESSERA_LAYER(Hardshrink, hardshrink, << std::boolalpha << options.lambda());
TESSERA_LAYER(Softshrink, softshrink, << std::boolalpha << options.lambda());
TESSERA_LAYER(Softplus, softplus, << "beta=" << options.beta() << ", threshold=" << options.threshold());
TESSERA_LAYER(GLU, glu, << "dim=" << options.dim());
TESSERA_LAYER(GELU, gelu, );
TESSERA_LAYER(Hardsigmoid, hardsigmoid, );
TESSERA_LAYER(Hardswish, hardswish, );
TESSERA_LAYER(Softmax, softmax, << "dim=" << options.dim());
TESSERA_LAYER(Softmin, softmin, << "dim=" << options.dim());
TESSERA_LAYER(LogSoftmax, log_softmax, << "dim=" << options.dim());
TESSERA_PLAIN_LAYER(SiLU, at::silu(input), "()");
TESSERA_PLAIN_LAYER(Mish, at::mish(input), "()");
TESSERA_PLAIN_LAYER(Sigmoid, at::sigmoid(input), "()");
TESSERA_PLAIN_LAYER(Tanh, at::tanh(input), "()");
TESSERA_PLAIN_LAYER(LogSigmoid, functional::logsigmoid(input), "()");
TESSERA_PLAIN_LAYER(Softsign, functional::softsign(input), "()");
TESSERA_PLAIN_LAYER(Tanhshrink, functional::tanhshrink(input), "()");

class HardtanhImpl : public detail::WithOptions<HardtanhImpl, HardtanhOptions> {
 public:
  TESSERA_MADE(HardtanhImpl, HardtanhOptions)
  void reset() override {
    TORCH_CHECK(options.max_val() > options.min_val(), "max_val must be greater than min_val, got ", options.max_val(),
                " and ", options.min_val());
  }
  Tensor forward(Tensor input) { return functional::hardtanh(input, options); }
  TESSERA_PRINTS(Hardtanh, << std::boolalpha << "min_val=" << options.min_val() << ", max_val=" << options.max_val()
                           << detail::inplace(options))
};
TORCH_MODULE(Hardtanh);

class Softmax2dImpl : public Cloneable<Softmax2dImpl> {
 public:
  void reset() override {}
  // (N, C, H, W) or (C, H, W).
  Tensor forward(const Tensor& input) {
    TORCH_CHECK(input.dim() == 4 || input.dim() == 3, "Softmax2d requires a 3D or 4D tensor as input");
    return at::softmax(input, -3);
  }
  TESSERA_PRINTS(Softmax2d, )
};
TORCH_MODULE(Softmax2d);

class PReLUImpl : public detail::WithOptions<PReLUImpl, PReLUOptions> {
 public:
  TESSERA_MADE(PReLUImpl, PReLUOptions)
  void reset() override { weight = register_parameter("weight", at::full({options.num_parameters()}, options.init())); }
  Tensor forward(const Tensor& input) { return functional::prelu(input, weight); }
  TESSERA_PRINTS(PReLU, << "num_parameters=" << options.num_parameters())
  Tensor weight;
};
TORCH_MODULE(PReLU);

class RReLUImpl : public detail::WithOptions<RReLUImpl, RReLUOptions> {
 public:
  using detail::WithOptions<RReLUImpl, RReLUOptions>::WithOptions;
  Tensor forward(const Tensor& input) {
    return functional::rrelu(input, functional::RReLUFuncOptions()
                                        .lower(options.lower())
                                        .upper(options.upper())
                                        .training(is_training())
                                        .inplace(options.inplace()));
  }
  TESSERA_PRINTS(RReLU, << "lower=" << options.lower() << ", upper=" << options.upper() << detail::inplace(options))
};
TORCH_MODULE(RReLU);

// ---- dropout ----

namespace detail {
template <class Derived>
class DropoutLayer : public WithOptions<Derived, DropoutOptions> {
 public:
  template <class... A>
  requires std::is_constructible_v<DropoutOptions, A...>
  explicit DropoutLayer(A&&... a) : WithOptions<Derived, DropoutOptions>(std::forward<A>(a)...) { check(); }
  void reset() override { check(); }

 private:
  void check() const {
    const double p = this->options.p();
    TORCH_CHECK(p >= 0. && p <= 1., "dropout probability has to be between 0 and 1, but got ", p);
  }
};
}  // namespace detail

#define TESSERA_DROPOUT_LAYER(Name, fn)                                                                              \
  class Name##Impl : public detail::DropoutLayer<Name##Impl> {                                                       \
   public:                                                                                                           \
    using detail::DropoutLayer<Name##Impl>::DropoutLayer;                                                            \
    Tensor forward(const Tensor& input) {                                                                            \
      return functional::fn(                                                                                         \
          input, functional::Name##FuncOptions().p(options.p()).training(is_training()).inplace(options.inplace())); \
    }                                                                                                                \
    TESSERA_PRINTS(Name, << std::boolalpha << "p=" << options.p() << ", inplace=" << options.inplace())              \
  };                                                                                                                 \
  TORCH_MODULE(Name)
TESSERA_DROPOUT_LAYER(Dropout, dropout);
TESSERA_DROPOUT_LAYER(Dropout1d, dropout1d);
TESSERA_DROPOUT_LAYER(Dropout2d, dropout2d);
TESSERA_DROPOUT_LAYER(Dropout3d, dropout3d);
TESSERA_DROPOUT_LAYER(AlphaDropout, alpha_dropout);
TESSERA_DROPOUT_LAYER(FeatureAlphaDropout, feature_alpha_dropout);
#undef TESSERA_DROPOUT_LAYER

// ---- attention ----

class MultiheadAttentionImpl : public detail::WithOptions<MultiheadAttentionImpl, MultiheadAttentionOptions> {
 public:
  TESSERA_MADE(MultiheadAttentionImpl, MultiheadAttentionOptions)
  void reset() override {
    const int64_t e = options.embed_dim();
    _qkv_same_embed_dim = options.kdim() == e && options.vdim() == e;
    head_dim = e / options.num_heads();
    TORCH_CHECK(head_dim * options.num_heads() == e, "embed_dim must be divisible by num_heads");
    if (_qkv_same_embed_dim) {
      in_proj_weight = register_parameter("in_proj_weight", detail::made({3 * e, e}));
    } else {
      q_proj_weight = register_parameter("q_proj_weight", detail::made({e, e}));
      k_proj_weight = register_parameter("k_proj_weight", detail::made({e, options.kdim()}));
      v_proj_weight = register_parameter("v_proj_weight", detail::made({e, options.vdim()}));
    }
    in_proj_bias =
        register_parameter("in_proj_bias", options.bias() ? detail::made({3 * e}) : Tensor(), options.bias());
    out_proj = register_module("out_proj", Linear(LinearOptions(e, e).bias(options.bias())));
    if (options.add_bias_kv()) {
      bias_k = register_parameter("bias_k", detail::made({1, 1, e}));
      bias_v = register_parameter("bias_v", detail::made({1, 1, e}));
    } else {
      bias_k = bias_v = Tensor();
    }
    _reset_parameters();
  }
  void _reset_parameters() {
    namespace init = tessera::nn::init;
    for (const Tensor* w : {&in_proj_weight, &q_proj_weight, &k_proj_weight, &v_proj_weight})
      if (w->defined()) init::xavier_uniform_(*w);
    if (in_proj_bias.defined()) {
      init::zeros_(in_proj_bias);
      init::zeros_(out_proj->bias);
    }
    if (bias_k.defined()) init::xavier_normal_(bias_k);
    if (bias_v.defined()) init::xavier_normal_(bias_v);
  }
  // The output (L, N, E), and the weights of the attention or an undefined tensor.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {}, bool average_attn_weights = true) {
    functional::MultiheadAttentionForwardFuncOptions o(options.embed_dim(), options.num_heads(), in_proj_weight,
                                                       in_proj_bias, bias_k, bias_v, options.add_zero_attn(),
                                                       options.dropout(), out_proj->weight, out_proj->bias);
    o.training(is_training())
        .key_padding_mask(key_padding_mask)
        .need_weights(need_weights)
        .attn_mask(attn_mask)
        .average_attn_weights(average_attn_weights)
        .use_separate_proj_weight(!_qkv_same_embed_dim)
        .q_proj_weight(q_proj_weight)
        .k_proj_weight(k_proj_weight)
        .v_proj_weight(v_proj_weight);
    return functional::multi_head_attention_forward(query, key, value, o);
  }
  void pretty_print(std::ostream& s) const override { s << "torch::nn::MultiheadAttention"; }

  bool _qkv_same_embed_dim = true;
  Tensor in_proj_weight, in_proj_bias, bias_k, bias_v, q_proj_weight, k_proj_weight, v_proj_weight;
  Linear out_proj = nullptr;
  int64_t head_dim = 0;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({3, AnyValue(Tensor())}, {4, AnyValue(true)}, {5, AnyValue(Tensor())}, {6, AnyValue(true)})
};
TORCH_MODULE(MultiheadAttention);

}  // namespace torch::nn
