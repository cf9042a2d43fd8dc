// Pooling as functions.
#pragma once

#include <torch/nn/functional/activation.h>

namespace torch::nn::functional {

namespace detail {

template <size_t D>
Sizes open_sizes(const ExpandingArrayWithOptionalElem<D>& wanted, const Tensor& input) {
  Sizes sizes;
  for (size_t d = 0; d < D; ++d)
    sizes.push_back((*wanted)[d] ? *(*wanted)[d] : input.size(static_cast<int64_t>(d) - static_cast<int64_t>(D)));
  return sizes;
}
inline Sizes open_sizes(const ExpandingArray<1>& wanted, const Tensor&) { return wanted.vec(); }

template <size_t D>
Raw lp_pooled(const Raw& mean, const LPPoolOptions<D>& o) {
  double count = 1;
  for (int64_t k : *o.kernel_size()) count *= static_cast<double>(k);
  const Raw positive = at::mul(at::sign(mean), at::relu(at::abs(mean)));
  return at::pow(at::mul(positive, count), 1. / o.norm_type());
}

// The sizes that max_unpool makes: `wanted`, all of them or the spatial ones, if it is within a stride of what the
// pooling's arithmetic gives.
template <size_t D>
Sizes unpooled_sizes(const Tensor& input, const MaxUnpoolFuncOptions<D>& o) {
  Sizes usual, wanted;
  for (size_t d = 0; d < D; ++d)
    usual.push_back((input.size(static_cast<int64_t>(d) - static_cast<int64_t>(D)) - 1) * (*o.stride())[d] +
                    (*o.kernel_size())[d] - 2 * (*o.padding())[d]);
  if (!o.output_size()) return usual;
  wanted = *o.output_size();
  if (wanted.size() == D + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  TORCH_CHECK(wanted.size() == D, "output_size should be a sequence containing ", D, " or ", D + 2,
              " elements, but it has a length of ", wanted.size());
  for (size_t d = 0; d < D; ++d) {
    const int64_t low = usual[d] - (*o.stride())[d], high = usual[d] + (*o.stride())[d];
    TORCH_CHECK(wanted[d] > low && wanted[d] < high, "invalid output_size (dim ", d, " must be between ", low, " and ",
                high, ")");
  }
  return wanted;
}

// Maxima over windows at random places (Graham 2014), (maxima, their places in the plane): with alpha = (in - k) /
// (out - 1) window i starts at floor((i + u) alpha) - floor(u alpha), the last one at in - k.
template <size_t D>
std::tuple<Tensor, Tensor> fractional_max_pool(const Tensor& input, const FractionalMaxPoolOptions<D>& o) {
  TORCH_CHECK(o.output_size() || o.output_ratio(), "fractional_max_pool", D,
              "d requires specifying either an output_size or an output_ratio");
  constexpr auto n = static_cast<int64_t>(D);
  const int64_t dims = input.dim();
  TORCH_CHECK(dims == n + 1 || dims == n + 2, "fractional_max_pool", D, "d takes inputs of ", n + 1, " or ", n + 2,
              " dimensions, but got ", dims);
  Sizes lead, outs;
  for (int64_t d = 0; d < dims - n; ++d) lead.push_back(input.size(d));
  for (size_t d = 0; d < D; ++d) {
    const int64_t size = input.size(dims - n + static_cast<int64_t>(d)), kernel = (*o.kernel_size())[d];
    outs.push_back(o.output_size() ? (**o.output_size())[d]
                                   : static_cast<int64_t>(static_cast<double>(size) * (**o.output_ratio())[d]));
    TORCH_CHECK(outs[d] + kernel - 1 <= size, "fractional_max_pool", D, "d(): pool size ", kernel,
                " too large relative to input size ", size);
  }
  Raw samples = o._random_samples();
  if (!samples.defined())
    samples = at::rand({dims == n + 1 ? 1 : input.size(0), input.size(-n - 1), n}, input.options());
  lead.push_back(n);
  samples = at::to(at::reshape(samples, ints(lead)), at::kDouble);
  lead.pop_back();
  Raw index;  // (*lead, windows, places in a window)
  for (size_t d = 0; d < D; ++d) {
    const int64_t out = outs[d], kernel = (*o.kernel_size())[d], size = input.size(dims - n + static_cast<int64_t>(d));
    const Raw u =
        at::unsqueeze(at::select(samples, -1, n == 2 ? 1 - static_cast<int64_t>(d) : static_cast<int64_t>(d)), -1);
    const double alpha = out > 1 ? static_cast<double>(size - kernel) / static_cast<double>(out - 1) : 0;
    const Raw place = at::arange(out, input.options().dtype(at::kDouble));
    const Raw drawn = at::sub(at::trunc(at::mul(at::add(place, u), alpha)), at::trunc(at::mul(u, alpha)));
    const Raw start = at::where(at::eq(place, out - 1), at::full_like(drawn, size - kernel), drawn);
    const Raw rows =
        at::add(at::unsqueeze(at::to(start, at::kLong), -1), at::arange(kernel, input.options().dtype(at::kLong)));
    if (!index.defined()) {
      index = rows;
      continue;
    }
    const Raw outer = at::mul(at::unsqueeze(at::unsqueeze(index, -2), -1), size);
    Sizes shape = lead;
    shape.insert(shape.end(), {index.size(-2) * out, index.size(-1) * kernel});
    index = at::reshape(at::add(outer, at::unsqueeze(at::unsqueeze(rows, -3), -2)), ints(shape));
  }
  const Raw flat = at::flatten(input, -n);
  const Raw windows = at::reshape(at::gather(flat, -1, at::flatten(index, -2)), index.sizes());
  const auto [best, which] = at::max(windows, -1);
  const Raw places = at::squeeze(at::gather(index, -1, at::unsqueeze(which, -1)), -1);
  lead.insert(lead.end(), outs.begin(), outs.end());
  return {at::reshape(best, ints(lead)), at::reshape(places, ints(lead))};
}

}  // namespace detail

#define TESSERA_POOL(D)                                                                                               \
  inline std::tuple<Tensor, Tensor> max_pool##D##d_with_indices(const Tensor& input,                                  \
                                                                const MaxPool##D##dFuncOptions& o) {                  \
    auto r = at::max_pool##D##d_with_indices(input, detail::ints(o.kernel_size()), detail::ints(o.stride()),          \
                                             detail::ints(o.padding()), detail::ints(o.dilation()), o.ceil_mode());   \
    return {std::get<0>(r), std::get<1>(r)};                                                                          \
  }                                                                                                                   \
  inline Tensor max_pool##D##d(const Tensor& input, const MaxPool##D##dFuncOptions& o) {                              \
    return at::max_pool##D##d(input, detail::ints(o.kernel_size()), detail::ints(o.stride()),                         \
                              detail::ints(o.padding()), detail::ints(o.dilation()), o.ceil_mode());                  \
  }                                                                                                                   \
  inline std::tuple<Tensor, Tensor> adaptive_max_pool##D##d_with_indices(const Tensor& input,                         \
                                                                         const AdaptiveMaxPool##D##dFuncOptions& o) { \
    auto r = at::adaptive_max_pool##D##d(input, detail::ints(detail::open_sizes(o.output_size(), input)));            \
    return {std::get<0>(r), std::get<1>(r)};                                                                          \
  }                                                                                                                   \
  inline Tensor adaptive_max_pool##D##d(const Tensor& input, const AdaptiveMaxPool##D##dFuncOptions& o) {             \
    return std::get<0>(adaptive_max_pool##D##d_with_indices(input, o));                                               \
  }                                                                                                                   \
  inline Tensor adaptive_avg_pool##D##d(const Tensor& input, const AdaptiveAvgPool##D##dFuncOptions& o) {             \
    return at::adaptive_avg_pool##D##d(input, detail::ints(detail::open_sizes(o.output_size(), input)));              \
  }                                                                                                                   \
  inline Tensor lp_pool##D##d(const Tensor& input, const LPPool##D##dFuncOptions& o) {                                \
    const int64_t none[] = {0, 0, 0};                                                                                 \
    return detail::lp_pooled(at::avg_pool##D##d(at::pow(input, o.norm_type()), detail::ints(o.kernel_size()),         \
                                                detail::ints(o.stride()), at::IntArrayRef(none, D), o.ceil_mode()),   \
                             o);                                                                                      \
  }
TESSERA_POOL(1)
TESSERA_POOL(2)
TESSERA_POOL(3)
#undef TESSERA_POOL

inline Tensor avg_pool1d(const Tensor& input, const AvgPool1dFuncOptions& o) {
  return at::avg_pool1d(input, detail::ints(o.kernel_size()), detail::ints(o.stride()), detail::ints(o.padding()),
                        o.ceil_mode(), o.count_include_pad());
}
inline Tensor avg_pool2d(const Tensor& input, const AvgPool2dFuncOptions& o) {
  return at::avg_pool2d(input, detail::ints(o.kernel_size()), detail::ints(o.stride()), detail::ints(o.padding()),
                        o.ceil_mode(), o.count_include_pad(), o.divisor_override());
}
inline Tensor avg_pool3d(const Tensor& input, const AvgPool3dFuncOptions& o) {
  return at::avg_pool3d(input, detail::ints(o.kernel_size()), detail::ints(o.stride()), detail::ints(o.padding()),
                        o.ceil_mode(), o.count_include_pad(), o.divisor_override());
}

inline Tensor max_unpool1d(const Tensor& input, const Tensor& indices, const MaxUnpool1dFuncOptions& o) {
  auto sizes = detail::unpooled_sizes(input, o);
  sizes.push_back(1);
  return at::squeeze(at::max_unpool2d(at::unsqueeze(input, -1), at::unsqueeze(indices, -1), detail::ints(sizes)), -1);
}
inline Tensor max_unpool2d(const Tensor& input, const Tensor& indices, const MaxUnpool2dFuncOptions& o) {
  return at::max_unpool2d(input, indices, detail::ints(detail::unpooled_sizes(input, o)));
}
inline Tensor max_unpool3d(const Tensor& input, const Tensor& indices, const MaxUnpool3dFuncOptions& o) {
  return at::max_unpool3d(input, indices, detail::ints(detail::unpooled_sizes(input, o)), detail::ints(o.stride()),
                          detail::ints(o.padding()));
}

inline std::tuple<Tensor, Tensor> fractional_max_pool2d_with_indices(const Tensor& input,
                                                                     const FractionalMaxPool2dFuncOptions& o) {
  return detail::fractional_max_pool(input, o);
}
inline std::tuple<Tensor, Tensor> fractional_max_pool3d_with_indices(const Tensor& input,
                                                                     const FractionalMaxPool3dFuncOptions& o) {
  return detail::fractional_max_pool(input, o);
}
inline Tensor fractional_max_pool2d(const Tensor& input, const FractionalMaxPool2dFuncOptions& o) {
  return std::get<0>(detail::fractional_max_pool(input, o));
}
inline Tensor fractional_max_pool3d(const Tensor& input, const FractionalMaxPool3dFuncOptions& o) {
  return std::get<0>(detail::fractional_max_pool(input, o));
}

}  // namespace torch::nn::functional
