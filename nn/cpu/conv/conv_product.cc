#include "nn/cpu/conv/conv_product.h"

#include <type_traits>

#include "nn/cpu/conv/choose.h"
#include "nn/cpu/conv/conv_direct.h"
#include "nn/cpu/conv/conv_matrix.h"
#include "nn/cpu/conv/conv_sizes.h"
#include "tensor/cpu/gemm/gemm.h"

namespace tessera::cpu::internal {

template <class T>
void pointwise_product(const ConvGeometry& g, bool transposed, const T* x, const T* w, const T* bias, T* y) {
  constexpr DType kType = DTypeOf<T>::value;
  const ConvSizes s(g);
  const int64_t m = transposed ? s.in_c : s.out_c, k = transposed ? s.out_c : s.in_c, plane = s.plane;
  const int64_t w_row = transposed ? 1 : s.in_c, w_col = transposed ? s.in_c : 1, x_image = g.groups * k * plane,
                y_image = g.groups * m * plane;
  const KernelParam one = whole_number(kType, 1), beta = whole_number(kType, bias != nullptr);
  for (int64_t group = 0; group < g.groups; ++group, w += s.out_c * s.in_c, x += k * plane, y += m * plane) {
    const T* const b = bias ? bias + group * m : nullptr;
    if constexpr (std::is_same_v<T, float>) {
      const PointwiseConv strips{g.batch, k, m, plane, x, x_image, w, w_row, w_col, b, y, y_image};
      if (suits_strips(strips, conv_machine(kType))) {
        pointwise_conv(strips);
        continue;
      }
    }
    for (int64_t n = 0; b && n < g.batch; ++n) broadcast_rows(sizeof(T), y + n * y_image, plane, b, m, plane);
    gemm_batched(kType, g.batch, m, plane, k, one, matrix(w, w_row, w_col), 0, matrix(x, plane, 1), x_image, beta,
                 matrix(y, plane, 1), y_image);
  }
}

template void pointwise_product(const ConvGeometry&, bool, const float*, const float*, const float*, float*);
template void pointwise_product(const ConvGeometry&, bool, const double*, const double*, const double*, double*);

}  // namespace tessera::cpu::internal
