// S(order), the images at the places with weights that were differentiated, is linear in the images; its derivative by
// coordinate e of the places is S(order + e), of one more order.
#include "nn/formulas/resample_formulas.h"

#include "tensor/ops/api.h"

namespace tessera::autograd::formulas {
namespace {

Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : !b.defined() ? a : a + b; }

IntVector once_more(IntList order, size_t e) {
  IntVector more(order.begin(), order.end());
  ++more[e];
  return more;
}
Tensor sample(const Tensor& input, const Tensor& grid, const GridOptions& o, IntList order) {
  return _grid_sample(input, grid, o.interpolation_mode, o.padding_mode, o.align_corners, order);
}
std::tuple<Tensor, Tensor> spread(const Tensor& grad, const Tensor& input, const Tensor& grid, const GridOptions& o,
                                  IntList order, bool to_input, bool to_grid) {
  const bool mask[2] = {to_input, to_grid};
  return _grid_sample_backward(grad, input, grid, o.interpolation_mode, o.padding_mode, o.align_corners, order, mask);
}
// Coordinate e of all places, to be multiplied with what lies there.
Tensor coordinate(const Tensor& places, size_t e) { return unsqueeze(select(places, -1, static_cast<int64_t>(e)), 1); }

}  // namespace

Tensor grid_sample_tangent(const Tensor& input_t, const Tensor& grid_t, const Tensor& input, const Tensor& grid,
                           const GridOptions& options) {
  Tensor t = input_t.defined() ? sample(input_t, grid, options, options.order) : Tensor();
  if (grid_t.defined())
    for (size_t e = 0; e < options.order.size(); ++e)
      t = plus(t, coordinate(grid_t, e) * sample(input, grid, options, once_more(options.order, e)));
  return t;
}

std::tuple<Tensor, Tensor, Tensor> grid_sample_double_backward(const Tensor& to_input, const Tensor& to_grid,
                                                               const Tensor& grad, const Tensor& input,
                                                               const Tensor& grid, const GridOptions& options,
                                                               std::array<bool, 3> mask) {
  Tensor of_grad = mask[0] ? grid_sample_tangent(to_input, to_grid, input, grid, options) : Tensor(), of_input, of_grid;
  if (to_input.defined() && mask[2])
    of_grid = std::get<1>(spread(grad, to_input, grid, options, options.order, false, true));
  if (to_grid.defined() && (mask[1] || mask[2]))
    for (size_t e = 0; e < options.order.size(); ++e) {
      const auto [x, g] =
          spread(coordinate(to_grid, e) * grad, input, grid, options, once_more(options.order, e), mask[1], mask[2]);
      of_input = plus(of_input, x);
      of_grid = plus(of_grid, g);
    }
  return {of_grad, of_input, of_grid};
}

}  // namespace tessera::autograd::formulas
