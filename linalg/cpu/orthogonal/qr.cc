// Q and R themselves.
#include "linalg/cpu/orthogonal/householder.h"
#include "linalg/cpu/orthogonal/small.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {

using namespace numbers;

void run_qr(DType dtype, MatrixBatch q, MatrixBatch r) {
  const int64_t n = q.cols;
  if (n == 0) return;
  visit_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto& small = orthogonal::small_kernels<T>();
    if (goes_by_groups(small.lanes(), q.count, q.rows, n)) {
      for_groups(small.lanes(), q.count, q.rows, 2 * n, [&](int64_t first, int64_t count) {
        small.factors(count, q.rows, n, source_of<T>(q, first), group_of<T>(q, first), group_of<T>(r, first));
      });
      return;
    }
    const internal::ScratchArray<T> tau(q.count * n);
    run_geqrf(dtype, q, tau.get());
    q.from = nullptr;
    run_upper_triangle(dtype, q, r);
    run_householder_product(dtype, q, tau.get(), n, n);
  });
}

}  // namespace tessera::cpu
