// Convolutions, padding, folding, resizing and sampling as functions.
#pragma once

#include <array>
#include <cmath>

#include <torch/nn/functional/pooling.h>

namespace torch::nn::functional {

#define TESSERA_CONV(D)                                                                                                \
  inline Tensor conv##D##d(const Tensor& input, const Tensor& weight, const Conv##D##dFuncOptions& o = {}) {           \
    const auto* numbers = std::get_if<ExpandingArray<D>>(&o.padding());                                                \
    if (!numbers)                                                                                                      \
      return at::conv##D##d(input, weight, o.bias(), detail::ints(o.stride()),                                         \
                            std::string_view(o.padding().index() == 1 ? "valid" : "same"), detail::ints(o.dilation()), \
                            o.groups());                                                                               \
    return at::conv##D##d(input, weight, o.bias(), detail::ints(o.stride()), detail::ints(*numbers),                   \
                          detail::ints(o.dilation()), o.groups());                                                     \
  }                                                                                                                    \
  inline Tensor conv_transpose##D##d(const Tensor& input, const Tensor& weight,                                        \
                                     const ConvTranspose##D##dFuncOptions& o = {}) {                                   \
    return at::conv_transpose##D##d(input, weight, o.bias(), detail::ints(o.stride()), detail::ints(o.padding()),      \
                                    detail::ints(o.output_padding()), o.groups(), detail::ints(o.dilation()));         \
  }
TESSERA_CONV(1)
TESSERA_CONV(2)
TESSERA_CONV(3)
#undef TESSERA_CONV

// (N, C * kh * kw, L) added up into (N, C, *output_size); and the windows of (N, C, H, W) as such columns.
inline Tensor fold(const Tensor& input, const FoldFuncOptions& o) {
  return at::col2im(input, detail::ints(o.output_size()), detail::ints(o.kernel_size()), detail::ints(o.dilation()),
                    detail::ints(o.padding()), detail::ints(o.stride()));
}
inline Tensor unfold(const Tensor& input, const UnfoldFuncOptions& o) {
  return at::im2col(input, detail::ints(o.kernel_size()), detail::ints(o.dilation()), detail::ints(o.padding()),
                    detail::ints(o.stride()));
}

inline Tensor pad(const Tensor& input, const PadFuncOptions& o) {
  static constexpr const char* kModes[] = {"constant", "reflect", "replicate", "circular"};
  const std::optional<double> value = o.mode().index() == 0 ? std::optional(o.value()) : std::nullopt;
  return at::pad(input, detail::ints(o.pad()), kModes[o.mode().index()], value);
}

inline Tensor pixel_shuffle(const Tensor& input, const PixelShuffleFuncOptions& o) {
  return at::pixel_shuffle(input, o.upscale_factor());
}
inline Tensor pixel_unshuffle(const Tensor& input, const PixelUnshuffleFuncOptions& o) {
  return at::pixel_unshuffle(input, o.downscale_factor());
}

inline Tensor channel_shuffle(const Tensor& input, const ChannelShuffleOptions& o) {
  return at::channel_shuffle(input, o.groups());
}

// ---- resizing ----

// (N, C, ...) with other spatial sizes, given or as multiples of the input's.
inline Tensor interpolate(const Tensor& input, const InterpolateFuncOptions& o = {}) {
  struct Mode {
    const char* name;
    int64_t kernel;
    int64_t least, most;  // dimensions of the input
    bool corners;         // whether it takes align_corners
  };
  static constexpr Mode kModes[] = {{"nearest", 0, 3, 5, false},      {"linear", 2, 3, 3, true},
                                    {"bilinear", 2, 4, 4, true},      {"bicubic", 3, 4, 4, true},
                                    {"trilinear", 2, 5, 5, true},     {"area", -1, 3, 5, false},
                                    {"nearest-exact", 1, 3, 5, false}};
  const Mode& mode = kModes[o.mode().index()];
  const int64_t dims = input.dim(), n = dims - 2;
  TORCH_CHECK_NOT_IMPLEMENTED(dims >= mode.least && dims <= mode.most, "Got ", dims, "D input, but mode ", mode.name,
                              " needs ", mode.least, "D", mode.most > mode.least ? " to 5D" : "", " input");
  TORCH_CHECK(mode.corners || !o.align_corners(),
              "align_corners option can only be set with the interpolating modes: "
              "linear | bilinear | bicubic | trilinear");
  TORCH_CHECK(!o.antialias() || (dims == 4 && mode.corners),
              "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input");
  TORCH_CHECK(o.size().has_value() != o.scale_factor().has_value(), o.size() ? "only one of" : "either",
              " size or scale_factor should be defined");
  const bool recompute = o.recompute_scale_factor().value_or(false);
  std::vector<double> steps;
  detail::Sizes sizes;
  if (o.size()) {
    TORCH_CHECK(!recompute, "recompute_scale_factor is not meaningful with an explicit size.");
    sizes = *o.size();
  } else {
    const auto& factors = *o.scale_factor();
    for (size_t d = 0; d < factors.size() && static_cast<int64_t>(d) < n; ++d) {
      sizes.push_back(static_cast<int64_t>(std::floor(static_cast<double>(input.size(2 + d)) * factors[d])));
      if (!recompute) steps.push_back(1 / factors[d]);
    }
    TORCH_CHECK(static_cast<int64_t>(factors.size()) == n, "scale_factor must have ", n, " numbers, but got ",
                factors.size());
  }
  TORCH_CHECK(static_cast<int64_t>(sizes.size()) == n,
              "Input and output must have the same number of spatial "
              "dimensions, but got input of ",
              n, " and output size of ", sizes.size());
  for (int64_t s : sizes) TORCH_CHECK(s > 0, "Input and output sizes should be greater than 0");
  if (mode.kernel < 0)
    return n == 1   ? at::adaptive_avg_pool1d(input, detail::ints(sizes))
           : n == 2 ? at::adaptive_avg_pool2d(input, detail::ints(sizes))
                    : at::adaptive_avg_pool3d(input, detail::ints(sizes));
  sizes.insert(sizes.begin(), {input.size(0), input.size(1)});
  return at::_resample(input, detail::ints(sizes), steps, mode.kernel + (o.antialias() ? 2 : 0),
                       o.align_corners().value_or(false));
}

// ---- sampling at given places ----

// Where affine maps theta (N, 2, 3) or (N, 3, 4) take the pixels of an image of sizes (N, C, H, W) or (N, C, D, H, W).
inline Tensor affine_grid(const Tensor& theta, at::IntArrayRef size, bool align_corners = false) {
  const auto n = static_cast<int64_t>(size.size()) - 2;
  TORCH_CHECK(theta.is_floating_point(), "Expected theta to have floating point type");
  TORCH_CHECK(n == 2 || n == 3, "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms");
  TORCH_CHECK(theta.dim() == 3 && theta.size(-2) == n && theta.size(-1) == n + 1, "Expected a batch of ", n,
              "D affine matrices of shape Nx", n, "x", n + 1, " for size of ", n + 2, " dimensions");
  for (int64_t s : size) TORCH_CHECK(s > 0, "Expected non-zero, positive output size. Got ", size);
  detail::Sizes space(size.begin() + 2, size.end()), rows = space;
  std::vector<detail::Raw> columns;
  for (int64_t d = n - 1; d >= 0; --d) {  // x before y before z
    const int64_t count = space[static_cast<size_t>(d)];
    const double end = align_corners && count > 1 ? 1 : align_corners ? 0 : (count - 1) / static_cast<double>(count);
    detail::Sizes shape(static_cast<size_t>(n), 1);
    shape[static_cast<size_t>(d)] = count;
    const auto line = at::linspace(-end, end, count, theta.options());
    columns.push_back(at::expand(at::view(line, detail::ints(shape)), detail::ints(space)));
  }
  columns.push_back(at::ones_like(columns[0]));
  const auto places = at::view(at::stack(columns, -1), {1, -1, n + 1});
  const auto all = at::matmul(places, at::transpose(theta, 1, 2));
  rows.insert(rows.begin(), size[0]);
  rows.push_back(n);
  return at::view(all, detail::ints(rows));
}

inline Tensor grid_sample(const Tensor& input, const Tensor& grid, const GridSampleFuncOptions& o = {}) {
  static constexpr int64_t kModes[] = {0, 1, 2};  // bilinear, nearest, bicubic; zeros, border, reflection
  if (!o.align_corners())
    TORCH_WARN(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
        "specify align_corners=True if the old behavior is desired.");
  return at::grid_sampler(input, grid, kModes[o.mode().index()], kModes[o.padding_mode().index()],
                          o.align_corners().value_or(false));
}

}  // namespace torch::nn::functional
