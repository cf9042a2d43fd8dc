// For tests of linear algebra on devices: matrices of any layout in both memories, products in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <concepts>
#include <string>
#include <vector>

#include "linalg/cpu/matrix.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda::testing {

using cpu::MatrixBatch;

inline constexpr DType kMatrixTypes[] = {DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128};
inline double unit_of(DType t) { return to_real(t) == DType::kFloat32 ? 1.2e-7 : 2.3e-16; }

enum class Layout { kRows, kColumns, kScattered };  // scattered: neither rows nor columns are dense
inline constexpr Layout kDense[] = {Layout::kRows, Layout::kColumns};

// A batch of matrices, the same in both memories.
class Matrices {
 public:
  Matrices(DType t, int64_t count, int64_t rows, int64_t cols, Layout layout = Layout::kRows, uint64_t seed = 1)
      : dtype(t), shape(laid_out(count, rows, cols, layout)), mirror(random_elements(t, size(), seed, -1, 1)) {}
  // With element (b, i, j) = f(b, i, j).
  template <std::invocable<int64_t, int64_t, int64_t> F>
  Matrices(DType t, int64_t count, int64_t rows, int64_t cols, Layout layout, F f)
      : dtype(t), shape(laid_out(count, rows, cols, layout)), mirror(filled(f)) {}

  MatrixBatch host() { return with(mirror.host()); }
  MatrixBatch device() const { return with(mirror.device()); }
  // What stands there, in one batch after the other, by rows.
  std::vector<std::complex<double>> host_values() { return values(mirror.host_bytes()); }
  std::vector<std::complex<double>> device_values() const { return values(mirror.device_bytes()); }

  DType dtype;
  MatrixBatch shape;
  Mirror mirror;

 private:
  static MatrixBatch laid_out(int64_t count, int64_t rows, int64_t cols, Layout layout) {
    if (layout == Layout::kRows) return {nullptr, count, rows, cols, cols + 1, 1, rows * (cols + 1)};
    if (layout == Layout::kColumns) return {nullptr, count, rows, cols, 1, rows + 2, cols * (rows + 2)};
    return {nullptr, count, rows, cols, 2 * cols, 2, 2 * rows * cols};
  }
  int64_t size() const { return std::max<int64_t>(1, shape.count * shape.batch_stride); }
  int64_t place(int64_t b, int64_t i, int64_t j) const {
    return b * shape.batch_stride + i * shape.row_stride + j * shape.col_stride;
  }
  MatrixBatch with(void* data) const {
    MatrixBatch m = shape;
    m.data = data;
    return m;
  }
  template <class F>
  std::vector<uint8_t> filled(F f) {
    std::vector<uint8_t> bytes(static_cast<size_t>(size() * item_size(dtype)));
    for (int64_t b = 0; b < shape.count; ++b)
      for (int64_t i = 0; i < shape.rows; ++i)
        for (int64_t j = 0; j < shape.cols; ++j) {
          const std::complex<double> z = f(b, i, j);
          const double parts[2] = {z.real(), z.imag()};
          const int n = is_complex(dtype) ? 2 : 1;
          for (int k = 0; k < n; ++k) {
            if (to_real(dtype) == DType::kFloat32)
              reinterpret_cast<float*>(bytes.data())[place(b, i, j) * n + k] = static_cast<float>(parts[k]);
            else
              reinterpret_cast<double*>(bytes.data())[place(b, i, j) * n + k] = parts[k];
          }
        }
    return bytes;
  }
  std::vector<std::complex<double>> values(const std::vector<uint8_t>& bytes) const {
    std::vector<std::complex<double>> v;
    for (int64_t b = 0; b < shape.count; ++b)
      for (int64_t i = 0; i < shape.rows; ++i)
        for (int64_t j = 0; j < shape.cols; ++j) v.push_back(element(dtype, bytes.data(), place(b, i, j)));
    return v;
  }
};

// Symmetric or Hermitian ones with a shift of their diagonals.
inline Matrices hermitian(DType t, int64_t count, int64_t n, Layout layout, double shift = 0, bool transpose = false) {
  return Matrices(t, count, n, n, layout, [=](int64_t b, int64_t i, int64_t j) {
    const auto entry = [&](int64_t r, int64_t c) {
      const double x = std::sin(static_cast<double>(1 + b + 3 * r + 7 * c * c));
      return std::complex<double>(x, is_complex(t) ? std::cos(static_cast<double>(r * 5 - c + b)) : 0);
    };
    const std::complex<double> other = entry(j, i);
    return entry(i, j) + (transpose ? other : std::conj(other)) + (i == j ? shift : 0.0);
  });
}

inline void expect_near(const std::vector<std::complex<double>>& expected,
                        const std::vector<std::complex<double>>& actual, double tolerance, const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool nans = std::isnan(std::abs(expected[i])) && std::isnan(std::abs(actual[i]));
    if (!nans && !(std::abs(expected[i] - actual[i]) <= worst)) worst = std::abs(expected[i] - actual[i]);
  }
  EXPECT_LE(worst, tolerance) << what;
}
// What the device made of a problem is what the CPU did.
inline void expect_alike(Matrices& m, double tolerance, const std::string& what) {
  expect_near(m.host_values(), m.device_values(), tolerance * unit_of(m.dtype), what);
}

// a b for each matrix of a batch, m x k and k x n.
inline std::vector<std::complex<double>> product(const std::vector<std::complex<double>>& a,
                                                 const std::vector<std::complex<double>>& b, int64_t count, int64_t m,
                                                 int64_t k, int64_t n) {
  std::vector<std::complex<double>> c(static_cast<size_t>(count * m * n));
  for (int64_t z = 0; z < count; ++z)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < n; ++j) c[(z * m + i) * n + j] += a[(z * m + i) * k + l] * b[(z * k + l) * n + j];
  return c;
}
inline std::vector<std::complex<double>> adjoint(const std::vector<std::complex<double>>& a, int64_t count, int64_t m,
                                                 int64_t n) {
  std::vector<std::complex<double>> r(a.size());
  for (int64_t z = 0; z < count; ++z)
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) r[(z * n + j) * m + i] = std::conj(a[(z * m + i) * n + j]);
  return r;
}
inline std::vector<std::complex<double>> identity(int64_t count, int64_t n) {
  std::vector<std::complex<double>> r(static_cast<size_t>(count * n * n));
  for (int64_t z = 0; z < count; ++z)
    for (int64_t i = 0; i < n; ++i) r[(z * n + i) * n + i] = 1;
  return r;
}

}  // namespace tessera::cuda::testing
