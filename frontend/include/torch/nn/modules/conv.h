// Convolutions.
#pragma once

#include <torch/nn/modules/linear.h>

namespace torch::nn {

namespace detail {

template <size_t D>
bool all_are(const ExpandingArray<D>& a, int64_t value) {
  return std::all_of(a->begin(), a->end(), [&](int64_t v) { return v == value; });
}

// What convolutions share: weight, bias, checks, print.
template <class Derived, class O, size_t D, bool kTransposed>
class ConvLayer : public WithOptions<Derived, O> {
 public:
  template <class... A>
  requires std::is_constructible_v<O, A...>
  explicit ConvLayer(A&&... a) : WithOptions<Derived, O>(std::forward<A>(a)...) { make(); }
  void reset() override { make(); }
  void reset_parameters() { tessera::nn::init::linear_defaults_(weight, bias); }

  void pretty_print(std::ostream& s) const override {
    const O& o = this->options;
    s << "torch::nn::Conv" << (kTransposed ? "Transpose" : "") << D << "d(" << o.in_channels() << ", "
      << o.out_channels() << ", kernel_size=" << o.kernel_size() << ", stride=" << o.stride();
    if (const auto* padding = numbers(o.padding())) {
      if (!all_are(*padding, 0)) s << ", padding=" << *padding;
    } else {
      s << ", padding=" << (same() ? "'same'" : "'valid'");
    }
    if (!all_are(o.dilation(), 1)) s << ", dilation=" << o.dilation();
    if constexpr (kTransposed)
      if (!all_are(o.output_padding(), 0)) s << ", output_padding=" << o.output_padding();
    if (o.groups() != 1) s << ", groups=" << o.groups();
    if (!o.bias()) s << ", bias=" << std::boolalpha << false;
    if (o.padding_mode().index() != 0) s << ", padding_mode=" << enumtype::get_enum_name(o.padding_mode());
    s << ")";
  }

  Tensor weight, bias;

 protected:
  static const ExpandingArray<D>* numbers(const ExpandingArray<D>& padding) { return &padding; }
  static const ExpandingArray<D>* numbers(const ConvPadding<D>& padding) {
    return std::get_if<ExpandingArray<D>>(&padding);
  }
  bool same() const {
    if constexpr (kTransposed)
      return false;
    else
      return std::holds_alternative<enumtype::kSame>(this->options.padding());
  }
  // The amounts by which the other modes than zeros pad, last dimension first.
  Sizes around() const {
    const O& o = this->options;
    Sizes list;
    for (size_t k = D; k-- > 0;) {
      const int64_t total = (*o.dilation())[k] * ((*o.kernel_size())[k] - 1);
      const auto* given = numbers(o.padding());
      const int64_t left = given ? (**given)[k] : same() ? total / 2 : 0;
      list.insert(list.end(), {left, given || !same() ? left : total - left});
    }
    return list;
  }

 private:
  void make() {
    const O& o = this->options;
    TORCH_CHECK(o.in_channels() > 0 && o.groups() > 0 && o.out_channels() > 0,
                "in_channels, groups and out_channels must be positive integers.");
    TORCH_CHECK(o.in_channels() % o.groups() == 0, "in_channels must be divisible by groups");
    TORCH_CHECK(o.out_channels() % o.groups() == 0, "out_channels must be divisible by groups");
    TORCH_CHECK(!same() || all_are(o.stride(), 1), "padding='same' is not supported for strided convolutions");
    Sizes sizes = {kTransposed ? o.in_channels() : o.out_channels(),
                   (kTransposed ? o.out_channels() : o.in_channels()) / o.groups()};
    sizes.insert(sizes.end(), o.kernel_size()->begin(), o.kernel_size()->end());
    weight = this->register_parameter("weight", made(sizes));
    bias = o.bias() ? this->register_parameter("bias", made({o.out_channels()}))
                    : this->register_parameter("bias", Tensor(), false);
    reset_parameters();
  }
};

}  // namespace detail

#define TESSERA_CONV_LAYERS(D)                                                                                         \
  class Conv##D##dImpl : public detail::ConvLayer<Conv##D##dImpl, Conv##D##dOptions, D, false> {                       \
   public:                                                                                                             \
    using detail::ConvLayer<Conv##D##dImpl, Conv##D##dOptions, D, false>::ConvLayer;                                   \
    Tensor forward(const Tensor& input) {                                                                              \
      functional::Conv##D##dFuncOptions o;                                                                             \
      o.bias(bias).stride(options.stride()).dilation(options.dilation()).groups(options.groups());                     \
      if (options.padding_mode().index() == 0)                                                                         \
        return functional::conv##D##d(input, weight, o.padding(options.padding()));                                    \
      functional::PadFuncOptions pad(around());                                                                        \
      options.padding_mode().index() == 1   ? pad.mode(kReflect)                                                       \
      : options.padding_mode().index() == 2 ? pad.mode(kReplicate)                                                     \
                                            : pad.mode(kCircular);                                                     \
      return functional::conv##D##d(functional::pad(input, pad), weight, o);                                           \
    }                                                                                                                  \
  };                                                                                                                   \
  TORCH_MODULE(Conv##D##d);                                                                                            \
  class ConvTranspose##D##dImpl                                                                                        \
      : public detail::ConvLayer<ConvTranspose##D##dImpl, ConvTranspose##D##dOptions, D, true> {                       \
   public:                                                                                                             \
    using detail::ConvLayer<ConvTranspose##D##dImpl, ConvTranspose##D##dOptions, D, true>::ConvLayer;                  \
    Tensor forward(const Tensor& input, const std::optional<at::IntArrayRef>& output_size = std::nullopt) {            \
      TORCH_CHECK(options.padding_mode().index() == 0,                                                                 \
                  "Only `zeros` padding mode is supported for ConvTranspose" #D "d");                                  \
      return functional::conv_transpose##D##d(input, weight,                                                           \
                                              functional::ConvTranspose##D##dFuncOptions()                             \
                                                  .bias(bias)                                                          \
                                                  .stride(options.stride())                                            \
                                                  .padding(options.padding())                                          \
                                                  .output_padding(detail::output_padding(input, output_size, options)) \
                                                  .groups(options.groups())                                            \
                                                  .dilation(options.dilation()));                                      \
    }                                                                                                                  \
                                                                                                                       \
   protected:                                                                                                          \
    FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(std::optional<at::IntArrayRef>())})                                          \
  };                                                                                                                   \
  TORCH_MODULE(ConvTranspose##D##d)

namespace detail {
// What has to be added on one side for the output to get the wanted size.
template <size_t D>
ExpandingArray<D> output_padding(const Tensor& input, const std::optional<at::IntArrayRef>& wanted,
                                 const ConvTransposeOptions<D>& o) {
  if (!wanted) return o.output_padding();
  Sizes sizes(wanted->begin(), wanted->end());
  if (sizes.size() == D + 2) sizes.erase(sizes.begin(), sizes.begin() + 2);
  TORCH_CHECK(sizes.size() == D, "output_size must have ", D, " or ", D + 2, " elements (got ", sizes.size(), ")");
  ExpandingArray<D> result(0);
  for (size_t d = 0; d < D; ++d) {
    const int64_t stride = (*o.stride())[d];
    const int64_t least = (input.size(static_cast<int64_t>(d) - static_cast<int64_t>(D)) - 1) * stride -
                          2 * (*o.padding())[d] + (*o.dilation())[d] * ((*o.kernel_size())[d] - 1) + 1;
    TORCH_CHECK(sizes[d] >= least && sizes[d] < least + stride, "requested an output size of ", sizes[d],
                " in dimension ", d, ", but valid sizes range from ", least, " to ", least + stride - 1);
    (*result)[d] = sizes[d] - least;
  }
  return result;
}
}  // namespace detail

TESSERA_CONV_LAYERS(1);
TESSERA_CONV_LAYERS(2);
TESSERA_CONV_LAYERS(3);
#undef TESSERA_CONV_LAYERS

}  // namespace torch::nn
