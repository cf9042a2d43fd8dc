// Linear layers, embeddings, changes of shape, padding, resizing, distances.
#pragma once

#include <torch/nn/modules/common.h>

namespace torch::nn {

class IdentityImpl : public Cloneable<IdentityImpl> {
 public:
  IdentityImpl() = default;
  template <class... A>
  explicit IdentityImpl(A&&...) {}  // whatever the layer was given whose place it takes
  IdentityImpl(const IdentityImpl&) = default;
  IdentityImpl(IdentityImpl& other) : IdentityImpl(std::as_const(other)) {}
  void reset() override {}
  Tensor forward(const Tensor& input) { return input; }
  TESSERA_PRINTS(Identity, )
};
TORCH_MODULE(Identity);

class LinearImpl : public detail::WithOptions<LinearImpl, LinearOptions> {
 public:
  TESSERA_MADE(LinearImpl, LinearOptions)
  void reset() override {
    weight = register_parameter("weight", detail::made({options.out_features(), options.in_features()}));
    bias = options.bias() ? register_parameter("bias", detail::made({options.out_features()}))
                          : register_parameter("bias", {}, false);
    reset_parameters();
  }
  void reset_parameters() { tessera::nn::init::linear_defaults_(weight, bias); }
  Tensor forward(const Tensor& input) { return functional::linear(input, weight, bias); }
  TESSERA_PRINTS(Linear, << std::boolalpha << "in_features=" << options.in_features()
                         << ", out_features=" << options.out_features() << ", bias=" << options.bias())
  Tensor weight, bias;
};
TORCH_MODULE(Linear);

class BilinearImpl : public detail::WithOptions<BilinearImpl, BilinearOptions> {
 public:
  TESSERA_MADE(BilinearImpl, BilinearOptions)
  void reset() override {
    weight = register_parameter("weight",
                                detail::made({options.out_features(), options.in1_features(), options.in2_features()}));
    bias = options.bias() ? register_parameter("bias", detail::made({options.out_features()}))
                          : register_parameter("bias", {}, false);
    reset_parameters();
  }
  void reset_parameters() {
    const double bound = 1. / std::sqrt(static_cast<double>(options.in1_features()));
    tessera::nn::init::uniform_(weight, -bound, bound);
    if (bias.defined()) tessera::nn::init::uniform_(bias, -bound, bound);
  }
  Tensor forward(const Tensor& input1, const Tensor& input2) {
    return functional::bilinear(input1, input2, weight, bias);
  }
  TESSERA_PRINTS(Bilinear, << std::boolalpha << "in1_features=" << options.in1_features()
                           << ", in2_features=" << options.in2_features() << ", out_features=" << options.out_features()
                           << ", bias=" << options.bias())
  Tensor weight, bias;
};
TORCH_MODULE(Bilinear);

class FlattenImpl : public detail::WithOptions<FlattenImpl, FlattenOptions> {
 public:
  using detail::WithOptions<FlattenImpl, FlattenOptions>::WithOptions;
  Tensor forward(const Tensor& input) { return at::flatten(input, options.start_dim(), options.end_dim()); }
  TESSERA_PRINTS(Flatten, << "start_dim=" << options.start_dim() << ", end_dim=" << options.end_dim())
};
TORCH_MODULE(Flatten);

class UnflattenImpl : public detail::WithOptions<UnflattenImpl, UnflattenOptions> {
 public:
  using detail::WithOptions<UnflattenImpl, UnflattenOptions>::WithOptions;
  Tensor forward(const Tensor& input) {
    if (!options.namedshape().empty())
      return at::unflatten_by_name(input, at::Dimname(options.dimname()), options.namedshape());
    return at::unflatten(input, options.dim(), detail_ints(options.sizes()));
  }
  void pretty_print(std::ostream& s) const override {
    s << "torch::nn::Unflatten(dim=";
    if (options.namedshape().empty()) {
      s << options.dim() << ", unflattened_size={";
      for (size_t i = 0; i < options.sizes().size(); ++i) s << (i ? ", " : "") << options.sizes()[i];
    } else {
      s << '"' << options.dimname() << "\", unflattened_size={";
      const char* comma = "";
      for (const auto& [name, size] : options.namedshape()) {
        s << comma << "{\"" << name << "\", " << size << '}';
        comma = ", ";
      }
    }
    s << "})";
  }

 private:
  static at::IntArrayRef detail_ints(const std::vector<int64_t>& v) { return {v.data(), v.size()}; }
};
TORCH_MODULE(Unflatten);

// ---- embeddings ----

namespace detail {
// A table of numbers of N(0, 1), or the given one; the row of the padding starts as zeros.
template <class M>
void reset_table(M* m) {
  auto& o = m->options;
  if (o.padding_idx()) {
    int64_t& row = *o.padding_idx();
    TORCH_CHECK(row >= -o.num_embeddings() && row < o.num_embeddings(), "Padding_idx must be within num_embeddings");
    if (row < 0) row += o.num_embeddings();
  }
  if (o._weight().defined()) {
    TORCH_CHECK(
        o._weight().dim() == 2 && o._weight().size(0) == o.num_embeddings() && o._weight().size(1) == o.embedding_dim(),
        "Shape of weight does not match num_embeddings and embedding_dim");
    m->weight = m->register_parameter("weight", o._weight());
    return;
  }
  m->weight = m->register_parameter("weight", made({o.num_embeddings(), o.embedding_dim()}));
  m->reset_parameters();
}
template <class M>
void draw_table(M* m) {
  tessera::nn::init::normal_(m->weight);
  if (!m->options.padding_idx()) return;
  at::NoGradGuard no_grad;
  at::select(m->weight, 0, *m->options.padding_idx()).zero_();
}
template <class O>
void print_table(std::ostream& s, const O& o) {
  s << "num_embeddings=" << o.num_embeddings() << ", embedding_dim=" << o.embedding_dim();
}
template <class O>
void print_norm(std::ostream& s, const O& o) {
  if (o.max_norm()) s << ", max_norm=" << *o.max_norm();
  if (o.norm_type() != 2) s << ", norm_type=" << o.norm_type();
  if (o.scale_grad_by_freq()) s << ", scale_grad_by_freq=" << std::boolalpha << true;
  if (o.sparse()) s << ", sparse=" << std::boolalpha << true;
}
// A holder of a layer with a given table.
template <class Holder, class O, class P>
Holder from_table(const Tensor& table, const P& p, O o) {
  o._weight(table)
      .padding_idx(p.padding_idx())
      .max_norm(p.max_norm())
      .norm_type(p.norm_type())
      .scale_grad_by_freq(p.scale_grad_by_freq())
      .sparse(p.sparse());
  Holder made(o);
  made->weight.requires_grad_(!p.freeze());
  return made;
}
}  // namespace detail

class EmbeddingImpl : public detail::WithOptions<EmbeddingImpl, EmbeddingOptions> {
 public:
  TESSERA_MADE(EmbeddingImpl, EmbeddingOptions)
  void reset() override { detail::reset_table(this); }
  void reset_parameters() { detail::draw_table(this); }
  Tensor forward(const Tensor& input) {
    return functional::embedding(input, weight,
                                 functional::EmbeddingFuncOptions()
                                     .padding_idx(options.padding_idx())
                                     .max_norm(options.max_norm())
                                     .norm_type(options.norm_type())
                                     .scale_grad_by_freq(options.scale_grad_by_freq())
                                     .sparse(options.sparse()));
  }
  void pretty_print(std::ostream& s) const override {
    s << "torch::nn::Embedding(";
    detail::print_table(s, options);
    if (options.padding_idx()) s << ", padding_idx=" << *options.padding_idx();
    detail::print_norm(s, options);
    s << ")";
  }
  Tensor weight;
};

class Embedding : public ModuleHolder<EmbeddingImpl> {
 public:
  using ModuleHolder<EmbeddingImpl>::ModuleHolder;
  // A layer whose table (V, D) is given, and frozen unless the options say otherwise.
  static Embedding from_pretrained(const Tensor& embeddings, const EmbeddingFromPretrainedOptions& o = {}) {
    TORCH_CHECK(embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional");
    return detail::from_table<Embedding>(embeddings, o, EmbeddingOptions(embeddings.size(0), embeddings.size(1)));
  }
};

class EmbeddingBagImpl : public detail::WithOptions<EmbeddingBagImpl, EmbeddingBagOptions> {
 public:
  TESSERA_MADE(EmbeddingBagImpl, EmbeddingBagOptions)
  void reset() override { detail::reset_table(this); }
  void reset_parameters() { detail::draw_table(this); }
  Tensor forward(const Tensor& input, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) {
    return functional::embedding_bag(input, weight,
                                     functional::EmbeddingBagFuncOptions()
                                         .offsets(offsets)
                                         .max_norm(options.max_norm())
                                         .norm_type(options.norm_type())
                                         .scale_grad_by_freq(options.scale_grad_by_freq())
                                         .mode(options.mode())
                                         .sparse(options.sparse())
                                         .per_sample_weights(per_sample_weights)
                                         .include_last_offset(options.include_last_offset())
                                         .padding_idx(options.padding_idx()));
  }
  void pretty_print(std::ostream& s) const override {
    s << "torch::nn::EmbeddingBag(";
    detail::print_table(s, options);
    detail::print_norm(s, options);
    if (options.mode().index() != 1) s << ", mode=" << enumtype::get_enum_name(options.mode());
    if (options.include_last_offset()) s << ", include_last_offset=" << std::boolalpha << true;
    if (options.padding_idx()) s << ", padding_idx=" << *options.padding_idx();
    s << ")";
  }
  Tensor weight;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())}, {2, AnyValue(Tensor())})
};

class EmbeddingBag : public ModuleHolder<EmbeddingBagImpl> {
 public:
  using ModuleHolder<EmbeddingBagImpl>::ModuleHolder;
  static EmbeddingBag from_pretrained(const Tensor& embeddings, const EmbeddingBagFromPretrainedOptions& o = {}) {
    TORCH_CHECK(embeddings.dim() == 2, "Embeddings parameter is expected to be 2-dimensional");
    EmbeddingBagOptions made(embeddings.size(0), embeddings.size(1));
    made.mode(o.mode()).include_last_offset(o.include_last_offset());
    return detail::from_table<EmbeddingBag>(embeddings, o, made);
  }
};

// ---- folding, pixels, resizing, padding ----

TESSERA_LAYER(Fold, fold, << "output_size=" << options.output_size() << ", kernel_size=" << options.kernel_size()
                          << ", dilation=" << options.dilation() << ", padding=" << options.padding()
                          << ", stride=" << options.stride());
TESSERA_LAYER(Unfold, unfold, << "kernel_size=" << options.kernel_size() << ", dilation=" << options.dilation()
                              << ", padding=" << options.padding() << ", stride=" << options.stride());
TESSERA_LAYER(PixelShuffle, pixel_shuffle, << "upscale_factor=" << options.upscale_factor());
TESSERA_LAYER(PixelUnshuffle, pixel_unshuffle, << "downscale_factor=" << options.downscale_factor());
TESSERA_LAYER(ChannelShuffle, channel_shuffle, << "groups=" << options.groups());

namespace detail {
inline void print_resizing(std::ostream& s, const UpsampleOptions& o) {
  if (o.scale_factor())
    s << "scale_factor=" << at::ArrayRef<double>(*o.scale_factor());
  else if (o.size())
    s << "size=" << at::ArrayRef<int64_t>(*o.size());
  s << ", mode=" << enumtype::get_enum_name(o.mode());
}
inline Tensor resized(const Tensor& input, const UpsampleOptions& options) {
  functional::InterpolateFuncOptions o;
  std::visit([&](auto mode) { o.mode(mode); }, options.mode());
  return functional::interpolate(
      input, o.size(options.size()).scale_factor(options.scale_factor()).align_corners(options.align_corners()));
}
}  // namespace detail

#define TESSERA_UPSAMPLE(Name, fixed)                                               \
  class Name##Impl : public detail::WithOptions<Name##Impl, UpsampleOptions> {      \
   public:                                                                          \
    TESSERA_MADE(Name##Impl, UpsampleOptions)                                       \
    void reset() override { fixed; }                                                \
    Tensor forward(const Tensor& input) { return detail::resized(input, options); } \
    void pretty_print(std::ostream& s) const override {                             \
      detail::print_resizing(s << "torch::nn::" #Name "(", options);                \
      s << ")";                                                                     \
    }                                                                               \
  };                                                                                \
  TORCH_MODULE(Name)
TESSERA_UPSAMPLE(Upsample, );
TESSERA_UPSAMPLE(UpsamplingNearest2d, options.mode(kNearest));
TESSERA_UPSAMPLE(UpsamplingBilinear2d, options.mode(kBilinear).align_corners(true));
#undef TESSERA_UPSAMPLE

#define TESSERA_PADDING(Name, D, kind, filling, printed)                                                            \
  class Name##D##dImpl : public detail::WithOptions<Name##D##dImpl, Name##D##dOptions> {                            \
   public:                                                                                                          \
    using detail::WithOptions<Name##D##dImpl, Name##D##dOptions>::WithOptions;                                      \
    Tensor forward(const Tensor& input) {                                                                           \
      return functional::pad(input, functional::PadFuncOptions(options.padding().vec()).mode(kind).value(filling)); \
    }                                                                                                               \
    TESSERA_PRINTS(Name##D##d, << "padding=" << options.padding() printed)                                          \
  };                                                                                                                \
  TORCH_MODULE(Name##D##d)
#define TESSERA_PADDINGS(Name, kind, filling, printed) \
  TESSERA_PADDING(Name, 1, kind, filling, printed);    \
  TESSERA_PADDING(Name, 2, kind, filling, printed);    \
  TESSERA_PADDING(Name, 3, kind, filling, printed)
TESSERA_PADDINGS(ReflectionPad, kReflect, 0, );
TESSERA_PADDINGS(ReplicationPad, kReplicate, 0, );
TESSERA_PADDINGS(CircularPad, kCircular, 0, );
TESSERA_PADDINGS(ZeroPad, kConstant, 0, );
TESSERA_PADDINGS(ConstantPad, kConstant, options.value(), << ", value=" << options.value());
#undef TESSERA_PADDING
#undef TESSERA_PADDINGS

// ---- distances ----

class CosineSimilarityImpl : public detail::WithOptions<CosineSimilarityImpl, CosineSimilarityOptions> {
 public:
  using detail::WithOptions<CosineSimilarityImpl, CosineSimilarityOptions>::WithOptions;
  Tensor forward(const Tensor& x1, const Tensor& x2) { return functional::cosine_similarity(x1, x2, options); }
  TESSERA_PRINTS(CosineSimilarity, << std::boolalpha << "dim=" << options.dim() << ", eps=" << options.eps())
};
TORCH_MODULE(CosineSimilarity);

class PairwiseDistanceImpl : public detail::WithOptions<PairwiseDistanceImpl, PairwiseDistanceOptions> {
 public:
  using detail::WithOptions<PairwiseDistanceImpl, PairwiseDistanceOptions>::WithOptions;
  Tensor forward(const Tensor& x1, const Tensor& x2) { return functional::pairwise_distance(x1, x2, options); }
  TESSERA_PRINTS(PairwiseDistance, << std::boolalpha << "p=" << options.p() << ", eps=" << options.eps()
                                   << ", keepdim=" << options.keepdim())
};
TORCH_MODULE(PairwiseDistance);

}  // namespace torch::nn
