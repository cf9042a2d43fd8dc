// Reading images at given places: checks and memory; the arithmetic is the engines'.
#include "nn/cpu/resample/grid_sample.h"

#include <algorithm>

#include "nn/engine/resample.h"
#include "nn/nn_ops.h"
#include "nn/resample_extra.h"
#include "nn/resample_kernels.h"
#include "nn/spatial.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kMostOrder = 1000;

void check_modes(const Tensor& input, int64_t mode, int64_t padding) {
  TESSERA_CHECK(mode >= 0 && mode <= 2,
                "grid_sampler(): interpolation_mode is 0 (linear), 1 (nearest) or 2 (cubic), but got ", mode);
  TESSERA_CHECK(padding >= 0 && padding <= 2,
                "grid_sampler(): padding_mode is 0 (zeros), 1 (border) or 2 (reflection), but got ", padding);
  TESSERA_CHECK(mode != 2 || input.dim() == 4, "grid_sampler(): bicubic interpolation only supports 4D input, but got ",
                input.dim(), "D");
}

void check_grid(const Tensor& input, const Tensor& grid, int64_t mode, int64_t padding) {
  TESSERA_CHECK((input.dim() == 4 || input.dim() == 5) && grid.dim() == input.dim(),
                "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
                "sizes ",
                shape_string(input.sizes()), " and grid with sizes ", shape_string(grid.sizes()));
  TESSERA_CHECK(input.size(0) == grid.size(0),
                "grid_sampler(): expected grid and input to have same batch size, but got input with sizes ",
                shape_string(input.sizes()), " and grid with sizes ", shape_string(grid.sizes()));
  TESSERA_CHECK(grid.size(-1) == input.dim() - 2, "grid_sampler(): expected grid to have size ", input.dim() - 2,
                " in last dimension, but got grid with sizes ", shape_string(grid.sizes()));
  for (int64_t d = 2; d < input.dim(); ++d)
    TESSERA_CHECK(input.size(d) > 0,
                  "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes ",
                  shape_string(input.sizes()), " with dimension ", d, " being empty");
  TESSERA_CHECK_NOT_IMPLEMENTED(is_floating_point(input.dtype()) && item_size(input.dtype()) > 1,
                                "\"grid_sampler\" not implemented for '", type_name_of(input.dtype()), "'");
  TESSERA_CHECK(grid.dtype() == input.dtype(), "grid_sampler(): expected input and grid to have one dtype, but got ",
                name_of(input.dtype()), " and ", name_of(grid.dtype()));
  TESSERA_CHECK(grid.device() == input.device(),
                "grid_sampler(): expected input and grid to be on one device, but got ", input.device().str(), " and ",
                grid.device().str());
  check_modes(input, mode, padding);
}

void check_order(const Tensor& input, IntList order) {
  TESSERA_CHECK(static_cast<int64_t>(order.size()) == input.dim() - 2, "_grid_sample: expected an order for each of ",
                input.dim() - 2, " coordinates, but got ", shape_string(order));
  for (int64_t n : order) TESSERA_CHECK(n >= 0 && n < kMostOrder, "_grid_sample: there is no derivative of order ", n);
}

// (n, c, places...).
IntVector sampled_sizes(const Tensor& input, const Tensor& grid) {
  IntVector sizes = to_vector(grid.sizes());
  sizes.pop_back();
  sizes.insert(sizes.begin() + 1, input.size(1));
  return sizes;
}

cpu::GridSample sample_of(const Tensor& input, const Tensor& grid, int64_t mode, int64_t padding, bool align_corners,
                          IntList order) {
  cpu::GridSample g{static_cast<cpu::GridMode>(mode),
                    static_cast<cpu::GridPadding>(padding),
                    align_corners,
                    static_cast<int>(input.dim() - 2),
                    input.size(0),
                    input.size(1),
                    {},
                    1,
                    {}};
  fill_dims(input.sizes().subspan(2), 1, g.in);
  for (int64_t s : grid.sizes().subspan(1, static_cast<size_t>(grid.dim() - 2))) g.positions *= s;
  std::ranges::copy(order, g.order);
  return g;
}

const void* address(const Tensor& t) { return t.numel() ? t.data_ptr() : nullptr; }

}  // namespace

OutputSpec _grid_sample_meta(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                             bool, IntList order) {
  check_grid(input, grid, interpolation_mode, padding_mode);
  check_order(input, order);
  return OutputSpec(input, sampled_sizes(input, grid));
}
void _grid_sample_kernel(const Tensor& input, const Tensor& grid, int64_t interpolation_mode, int64_t padding_mode,
                         bool align_corners, IntList order, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor x = contiguous(input), places = contiguous(grid);
  const ResultMemory y(out);
  TESSERA_ON(x.device(), grid_sample_forward)
  (x.dtype(), sample_of(x, places, interpolation_mode, padding_mode, align_corners, order), x.data_ptr(),
   places.data_ptr(), y.data());
  y.finish();
}

std::tuple<Tensor, Tensor> _grid_sample_backward_meta(const Tensor& grad_output, const Tensor& input,
                                                      const Tensor& grid, int64_t interpolation_mode,
                                                      int64_t padding_mode, bool, IntList order,
                                                      std::span<const bool> mask) {
  check_grid(input, grid, interpolation_mode, padding_mode);
  check_order(input, order);
  TESSERA_CHECK(mask.size() == 2, "_grid_sample_backward: expected an output_mask of 2 values, but got ", mask.size());
  const IntVector sizes = sampled_sizes(input, grid);
  TESSERA_CHECK(to_vector(grad_output.sizes()) == sizes, "_grid_sample_backward: expected grad_output of shape ",
                shape_string(sizes), ", but got ", shape_string(grad_output.sizes()));
  same_dtype(grad_output, input, "_grid_sample_backward");
  return {mask[0] ? empty_from(OutputSpec(input, input.sizes())) : Tensor(),
          mask[1] ? empty_from(OutputSpec(grid, grid.sizes())) : Tensor()};
}
std::tuple<Tensor, Tensor> _grid_sample_backward_kernel(const Tensor& grad_output, const Tensor& input,
                                                        const Tensor& grid, int64_t interpolation_mode,
                                                        int64_t padding_mode, bool align_corners, IntList order,
                                                        std::span<const bool> mask) {
  auto results = _grid_sample_backward_meta(grad_output, input, grid, interpolation_mode, padding_mode, align_corners,
                                            order, mask);
  auto& [dx, dgrid] = results;
  const Tensor dy = contiguous(grad_output), x = contiguous(input), places = contiguous(grid);
  const auto memory = [](const Tensor& t) { return t.defined() && t.numel() ? t.data_ptr() : nullptr; };
  TESSERA_ON(x.device(), grid_sample_backward)
  (x.dtype(), sample_of(x, places, interpolation_mode, padding_mode, align_corners, order), address(dy), address(x),
   address(places), memory(dx), memory(dgrid));
  return results;
}

Tensor grid_sampler_nd(const char* op, int64_t n, const Tensor& input, const Tensor& grid, int64_t interpolation_mode,
                       int64_t padding_mode, bool align_corners) {
  TESSERA_CHECK(n == 0 || input.dim() == n + 2, op, ": expected ", n + 2, "D input, but got input with sizes ",
                shape_string(input.sizes()));
  const IntVector order(static_cast<size_t>(std::max<int64_t>(input.dim() - 2, 0)), 0);
  return _grid_sample(input, grid, interpolation_mode, padding_mode, align_corners, order);
}

}  // namespace tessera::kernels
