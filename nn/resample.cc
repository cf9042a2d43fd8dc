// Resizing of (N, C, spatial...): sizes of the whole result or input are given; steps are input positions for an output
// position, one a spatial dimension, or none.
#include "nn/cpu/resample/resample.h"

#include <algorithm>

#include "nn/engine/resample.h"
#include "nn/nn_ops.h"
#include "nn/resample_kernels.h"
#include "nn/spatial.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

constexpr int64_t kModes = 6;

OutputSpec resized(const char* op, const Tensor& from, IntList sizes, std::span<const double> steps, int64_t mode) {
  const int64_t n = from.dim() - 2;
  TESSERA_CHECK(n >= 1 && n <= 3 && static_cast<int64_t>(sizes.size()) == n + 2, op,
                ": expected 3 to 5 dimensions and as many sizes, but got ", shape_string(from.sizes()), " and ",
                shape_string(sizes));
  TESSERA_CHECK(steps.empty() || static_cast<int64_t>(steps.size()) == n, op, ": expected no steps or ", n,
                ", but got ", steps.size());
  TESSERA_CHECK(mode >= 0 && mode < kModes, op, ": there is no mode ", mode);
  TESSERA_CHECK(sizes[0] == from.size(0) && sizes[1] == from.size(1), op, ": batch and channels of ",
                shape_string(from.sizes()), " and ", shape_string(sizes), " differ");
  for (int64_t d = 2; d < n + 2; ++d)
    TESSERA_CHECK(sizes[d] > 0 && from.size(d) > 0, op, ": spatial sizes should be greater than 0, but got ",
                  shape_string(from.sizes()), " and ", shape_string(sizes));
  TESSERA_CHECK_NOT_IMPLEMENTED(is_floating_point(from.dtype()) && item_size(from.dtype()) > 1, '"', op,
                                "\" not implemented for '", type_name_of(from.dtype()), "'");
  return spec_like(from, to_vector(sizes));
}

cpu::ResampleGeometry geometry(const Tensor& in, const Tensor& out, std::span<const double> steps, int64_t mode,
                               bool align_corners) {
  cpu::ResampleGeometry g{static_cast<cpu::ResampleMode>(mode), align_corners, in.size(0) * in.size(1), {}, {}, {}};
  fill_dims(in.sizes().subspan(2), 1, g.in);
  fill_dims(out.sizes().subspan(2), 1, g.out);
  std::copy(steps.begin(), steps.end(), g.step + 3 - static_cast<int64_t>(steps.size()));
  return g;
}

template <class A>
std::tuple<Tensor, Tensor> taps_of(const cpu::ResampleGeometry& g, DType dtype) {
  std::vector<int64_t> index;
  std::vector<A> weight;
  const int64_t sizes[] = {cpu::resample_weights(g, 2, &index, &weight), g.out[2]};
  const Tensor indices = empty_tensor(sizes, {}, DType::kInt64, Device()),
               weights = empty_tensor(sizes, {}, dtype, Device());
  std::ranges::copy(index, indices.data<int64_t>());
  std::ranges::copy(weight, weights.data<A>());
  return {indices, weights};
}

}  // namespace

OutputSpec _resample_meta(const Tensor& self, IntList output_size, std::span<const double> steps, int64_t mode, bool) {
  return resized("interpolate", self, output_size, steps, mode);
}
void _resample_kernel(const Tensor& self, IntList, std::span<const double> steps, int64_t mode, bool align_corners,
                      const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor x = contiguous(self);
  const ResultMemory y(out);
  TESSERA_ON(x.device(), resample_forward)
  (x.dtype(), geometry(x, out, steps, mode, align_corners), x.data_ptr(), y.data());
  y.finish();
}

std::tuple<Tensor, Tensor> _resample_taps_kernel(int64_t input_size, int64_t output_size, double step, int64_t mode,
                                                 bool align_corners, DType dtype) {
  TESSERA_CHECK(input_size > 0 && output_size > 0, "interpolate: sizes should be greater than 0, but got ", input_size,
                " and ", output_size);
  TESSERA_CHECK(mode >= 0 && mode < kModes, "interpolate: there is no mode ", mode);
  TESSERA_CHECK_NOT_IMPLEMENTED(dtype == DType::kFloat32 || dtype == DType::kFloat64,
                                "\"interpolate\" has weights of float32 and float64, but got ", name_of(dtype));
  const cpu::ResampleGeometry g{
      static_cast<cpu::ResampleMode>(mode), align_corners, 1, {1, 1, input_size}, {1, 1, output_size}, {0, 0, step}};
  return dtype == DType::kFloat64 ? taps_of<double>(g, dtype) : taps_of<float>(g, dtype);
}

OutputSpec _resample_backward_meta(const Tensor& grad, IntList input_size, std::span<const double> steps, int64_t mode,
                                   bool) {
  return resized("interpolate_backward", grad, input_size, steps, mode);
}
void _resample_backward_kernel(const Tensor& grad, IntList, std::span<const double> steps, int64_t mode,
                               bool align_corners, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor dy = contiguous(grad);
  const ResultMemory dx(out);
  TESSERA_ON(dy.device(), resample_backward)
  (dy.dtype(), geometry(out, dy, steps, mode, align_corners), dy.data_ptr(), dx.data());
  dx.finish();
}

}  // namespace tessera::kernels
