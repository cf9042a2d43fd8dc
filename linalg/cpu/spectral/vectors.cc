#include "linalg/cpu/spectral/vectors.h"

#include <algorithm>
#include <cmath>

namespace tessera::cpu::internal {

template <class T>
T make_reflector(T* x, int64_t n, RealOf<T>* beta) {
  using R = RealOf<T>;
  constexpr R kNothing = std::numeric_limits<R>::min() / std::numeric_limits<R>::epsilon();
  if (n <= 0) {
    *beta = 0;
    return T{};
  }
  R norm2 = 0;
  if (n > 1) {
    const R* const rest = reinterpret_cast<const R*>(x + 1);
    R* const sum = &norm2;
    rows_dot({rest, 0, 1, (n - 1) * ElementTraits<T>::kWidth, 1}, &rest, &sum);
  }
  const T alpha = x[0];
  R imag2 = 0;
  if constexpr (ElementTraits<T>::kComplex) imag2 = alpha.imag() * alpha.imag();
  if (!(norm2 > kNothing)) {
    std::fill(x + 1, x + n, T{});
    norm2 = 0;
  }
  x[0] = T{1};
  const R re = real_of(alpha);
  if (norm2 == 0 && !(imag2 > kNothing)) {
    *beta = re;
    return T{};
  }
  const R size = std::sqrt(re * re + (imag2 + norm2));
  *beta = re >= 0 ? -size : size;
  if constexpr (ElementTraits<T>::kComplex) {
    const R re_over = alpha.real() - *beta, im_over = alpha.imag(), square = re_over * re_over + im_over * im_over;
    const T inverse(re_over / square, -im_over / square);
    for (int64_t i = 1; i < n; ++i) x[i] = times(x[i], inverse);
    return {(*beta - alpha.real()) / *beta, -alpha.imag() / *beta};
  } else {
    const R inverse = 1 / (alpha - *beta);
    for (int64_t i = 1; i < n; ++i) x[i] *= inverse;
    return (*beta - alpha) / *beta;
  }
}

namespace {

template <class T>
MatrixRef matrix(const T* data, int64_t row_stride, int64_t col_stride = 1) {
  return {const_cast<T*>(data), row_stride, col_stride};
}

}  // namespace

template <class T>
void block_factor(const T* v, int64_t stride, int64_t count, int64_t n, const T* tau, T* factor) {
  // Products of the vectors: v_i^H v_j in row i, column j.
  ScratchArray<T> products(count * count);
  gemm(ElementTraits<T>::kDType, count, count, n, param<T>(1), matrix(v, stride), matrix(v, 1, stride), param<T>(0),
       matrix(products.get(), count), true, false);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t i = 0; i < j; ++i) {
      T sum{};
      for (int64_t k = i; k < j; ++k) sum += times(factor[i * count + k], products[k * count + j]);
      factor[i * count + j] = -times(tau[j], sum);
    }
    factor[j * count + j] = tau[j];
    for (int64_t i = j + 1; i < count; ++i) factor[i * count + j] = T{};
  }
}

template <class T>
void apply_block(const T* v, int64_t stride, int64_t count, int64_t n, const T* factor, T* z, int64_t z_stride,
                 int64_t rows) {
  constexpr DType kType = ElementTraits<T>::kDType;
  // Z - ((Z V^*) T^T) V^T, V^T being the rows of v.
  ScratchArray<T> first(rows * count), second(rows * count);
  gemm(kType, rows, count, n, param<T>(1), matrix(z, z_stride), matrix(v, 1, stride), param<T>(0),
       matrix(first.get(), count), false, true);
  gemm(kType, rows, count, count, param<T>(1), matrix(first.get(), count), matrix(factor, 1, count), param<T>(0),
       matrix(second.get(), count));
  gemm(kType, rows, n, count, param<T>(-1), matrix(second.get(), count), matrix(v, stride), param<T>(1),
       matrix(z, z_stride));
}

template <class T>
void apply_reflectors(const T* v, int64_t stride, int64_t count, int64_t shift, int64_t n, const T* tau, T* z,
                      int64_t z_stride, int64_t rows) {
  if (rows == 0 || count == 0) return;
  constexpr int64_t kBlock = 32;
  ScratchArray<T> block(kBlock * n), factor(kBlock * kBlock);
  // The last reflectors first.
  for (int64_t begin = (count - 1) / kBlock * kBlock; begin >= 0; begin -= kBlock) {
    const int64_t size = std::min(kBlock, count - begin), column = begin + shift, length = n - column;
    for (int64_t i = 0; i < size; ++i) {
      const T* const from = v + (begin + i) * stride + column;
      T* const to = block.get() + i * length;
      std::fill_n(to, i, T{});
      std::copy(from + i, from + length, to + i);
    }
    block_factor(block.get(), length, size, length, tau + begin, factor.get());
    apply_block(block.get(), length, size, length, factor.get(), z + column, z_stride, rows);
  }
}

#define TESSERA_VECTORS(T)                                                                           \
  template T make_reflector<T>(T*, int64_t, RealOf<T>*);                                             \
  template void block_factor<T>(const T*, int64_t, int64_t, int64_t, const T*, T*);                  \
  template void apply_block<T>(const T*, int64_t, int64_t, int64_t, const T*, T*, int64_t, int64_t); \
  template void apply_reflectors<T>(const T*, int64_t, int64_t, int64_t, int64_t, const T*, T*, int64_t, int64_t)
TESSERA_VECTORS(float);
TESSERA_VECTORS(double);
TESSERA_VECTORS(std::complex<float>);
TESSERA_VECTORS(std::complex<double>);

}  // namespace tessera::cpu::internal
