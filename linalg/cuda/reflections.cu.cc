// Products of reflections with many small matrices: a thread for each column (or row) of them. Of cuSOLVER's functions
// each would serve one matrix.
#include "linalg/cuda/kernels.h"
#include "linalg/cuda/view.h"

namespace tessera::cuda {
namespace {

template <class T>
struct Reflect {
  View<T> v;
  const T* tau;
  int64_t tau_stride, reflections;
  View<T> c;
  bool left, adjoint;

  // With H = I - t v v^H: H times a column, or a row times H.
  __device__ void reflect(int64_t b, int64_t k, int64_t line, T t) const {
    const int64_t length = left ? c.rows : c.cols;
    const auto at = [&](int64_t i) -> T& { return left ? c(b, i, line) : c(b, line, i); };
    const auto vector = [&](int64_t i) { return i == k ? T(1) : v(b, i, k); };
    T sum(0);
    for (int64_t i = k; i < length; ++i) sum += (left ? conjugate(vector(i)) : vector(i)) * at(i);
    sum *= t;
    for (int64_t i = k; i < length; ++i) at(i) -= sum * (left ? vector(i) : conjugate(vector(i)));
  }
  __device__ void operator()(int64_t n) const {
    const int64_t lines = left ? c.cols : c.rows, b = n / lines, line = n % lines;
    const bool last_first = left != adjoint;
    for (int64_t s = 0; s < reflections; ++s) {
      const int64_t k = last_first ? reflections - 1 - s : s;
      const T t = tau[b * tau_stride + k];
      reflect(b, k, line, adjoint ? conjugate(t) : t);
    }
  }
};

}  // namespace

void multiply_small_q(DType dtype, const MatrixBatch& v, const void* tau, int64_t tau_stride, int64_t reflections,
                      const MatrixBatch& c, bool left, bool adjoint) {
  visit<kFloats | kComplexes>(dtype, "reflections", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each(c.count * (left ? c.cols : c.rows),
             Reflect<T>{View<T>(v), static_cast<const T*>(tau), tau_stride, reflections, View<T>(c), left, adjoint});
  });
}

}  // namespace tessera::cuda
