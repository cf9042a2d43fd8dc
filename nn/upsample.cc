// The documented operators of resizing, upsample_*: by _resample, and where it has no kernel by sums of what lies at
// its places, dimension after dimension.
#include <algorithm>
#include <cmath>
#include <vector>

#include "nn/nn_ops.h"
#include "nn/resample_extra.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kLinear = 2, kCubic = 3;  // modes; those that follow shrink by averages

// What is asked for of every dimension.
struct Resizing {
  int64_t mode;
  bool align_corners;
  bool weighted() const { return mode >= kLinear; }
};

bool has_kernel(const Tensor& x) { return x.is_floating_point() && item_size(x.dtype()) > 1; }

// x with `out` positions in one dimension, `step` input positions apart (0: from the sizes).
Tensor resized_along(const Tensor& x, int64_t dim, int64_t out, double step, Resizing how) {
  if (has_kernel(x)) {
    IntVector sizes = to_vector(x.sizes());
    std::vector<double> steps(static_cast<size_t>(x.dim() - 2));
    sizes[static_cast<size_t>(dim)] = out;
    steps[static_cast<size_t>(dim - 2)] = step;
    return _resample(x, sizes, steps, how.mode, how.align_corners);
  }
  const DType compute = x.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  auto [places, weights] = _resample_taps(x.size(dim), out, step, how.mode, how.align_corners, compute);
  places = to(places, x.device(), DType::kInt64);
  const int64_t taps = places.size(0);
  if (taps == 1) return index_select(x, dim, select(places, 0, 0));
  // One weight for each element behind dim: products of whole planes are faster than those of many short rows with a
  // number each.
  IntVector shape{taps, out}, spread = shape;
  for (int64_t size : x.sizes().subspan(static_cast<size_t>(dim + 1))) {
    shape.push_back(1);
    spread.push_back(size);
  }
  weights = contiguous(expand(reshape(to(weights, x.device(), compute), shape), spread));
  Tensor total = mul(index_select(x, dim, select(places, 0, 0)), select(weights, 0, 0));
  for (int64_t k = 1; k < taps; ++k)
    total = addcmul(total, index_select(x, dim, select(places, 0, k)), select(weights, 0, k));
  return total;
}

// Without a kernel for the whole: last dimension first. Half types are computed in float32 and rounded once, bytes are
// rounded after each dimension.
Tensor resized_by_dimensions(const char* op, const Tensor& input, IntList size, std::span<const double> steps,
                             Resizing how) {
  const bool bytes = input.dtype() == DType::kUInt8;
  TESSERA_CHECK_NOT_IMPLEMENTED(
      how.weighted() ? bytes || input.is_floating_point() : !input.is_complex(), op, " is for floating point tensors, ",
      how.weighted() ? "whose elements are weighted, and uint8" : "and integers", ", but got ", name_of(input.dtype()));
  const bool widens = how.weighted() && (bytes || is_reduced_float(input.dtype()));
  Tensor x = widens ? to(input, DType::kFloat32) : input;
  for (int64_t dim = input.dim() - 1; dim >= 2; --dim) {
    const int64_t out = size[static_cast<size_t>(dim - 2)];
    const double step = steps[static_cast<size_t>(dim - 2)];
    const bool stays = out == x.size(dim) && (how.align_corners || step == 0 || step == 1);
    if (!stays || how.mode >= kCubic || !how.weighted()) x = resized_along(x, dim, out, step, how);
    if (bytes && how.weighted()) x = clamp(floor(add(x, Scalar(0.5))), Scalar(0), Scalar(255));
  }
  if (widens) x = to(x, input.dtype());
  const MemoryFormat format = input.dim() == 4 ? input.suggest_memory_format() : MemoryFormat::kContiguous;
  return x.impl() == input.impl() ? clone(x, format) : contiguous(x, format);
}

Tensor resized_to(const char* op, int64_t mode, const Tensor& input, SymIntList size, bool align_corners,
                  std::span<const double> steps) {
  const auto n = static_cast<int64_t>(size.size());
  TESSERA_CHECK(input.dim() == n + 2, op, ": expected an input (N, C, and ", n, " sizes), but got ",
                shape_string(input.sizes()));
  IntVector sizes{input.size(0), input.size(1)};
  for (int64_t s : size.ints()) sizes.push_back(s);
  for (int64_t d = 1; d < input.dim(); ++d)
    TESSERA_CHECK(input.size(d) > 0 && sizes[static_cast<size_t>(d)] > 0,
                  "Input and output sizes should be greater than 0, but got input ", shape_string(input.sizes()),
                  " and output size ", shape_string(IntList(sizes).subspan(2)));
  if (has_kernel(input)) return _resample(input, sizes, steps, mode, align_corners);
  return resized_by_dimensions(op, input, IntList(sizes).subspan(2), steps, {mode, align_corners});
}

double step_of(std::optional<double> scale) { return scale && *scale > 0 ? 1 / *scale : 0; }

}  // namespace

Tensor upsampled(const char* op, int64_t mode, const Tensor& input, SymIntList size, bool align_corners,
                 std::initializer_list<std::optional<double>> scales) {
  TESSERA_CHECK(size.size() == scales.size(), op, ": It is expected output_size equals to ", scales.size(),
                ", but got size ", size.size());
  std::vector<double> steps(scales.size());
  std::ranges::transform(scales, steps.begin(), step_of);
  return resized_to(op, mode, input, size, align_corners, steps);
}

Tensor upsampled_by(const char* op, int64_t mode, int64_t n, const Tensor& input, std::optional<SymIntList> size,
                    bool align_corners, std::optional<std::span<const double>> scales) {
  TESSERA_CHECK(size.has_value() != scales.has_value(), op,
                ": Must specify exactly one of output_size and scale_factors");
  const auto given = static_cast<int64_t>(size ? size->size() : scales->size());
  TESSERA_CHECK(input.dim() == n + 2 && given == n, op, ": expected an input with ", n,
                " spatial dimensions and a number for each, but got an input of ", shape_string(input.sizes()), " and ",
                given, " numbers");
  std::vector<double> steps(static_cast<size_t>(n));
  if (size) return resized_to(op, mode, input, *size, align_corners, steps);
  IntVector sizes;
  for (int64_t d = 0; d < n; ++d) {
    const double scale = (*scales)[static_cast<size_t>(d)];
    sizes.push_back(static_cast<int64_t>(std::floor(static_cast<double>(input.size(d + 2)) * scale)));
    steps[static_cast<size_t>(d)] = step_of(scale);
  }
  return resized_to(op, mode, input, sizes, align_corners, steps);
}

}  // namespace tessera::kernels
