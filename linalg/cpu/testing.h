// Matrices for the tests of engines, and LAPACK's measures of what comes out: residuals in units of n |A| eps.
#pragma once

#include <random>
#include <vector>

#include "linalg/cpu/numbers.h"
#include "linalg/cpu/matrix.h"

namespace tessera::cpu::testing {

using namespace numbers;

// In rows.
template <class T>
struct Dense {
  int64_t rows = 0, cols = 0;
  std::vector<T> data;

  Dense(int64_t r, int64_t c) : rows(r), cols(c), data(static_cast<size_t>(r * c)) {}
  T& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(i * cols + j)]; }
  T operator()(int64_t i, int64_t j) const { return data[static_cast<size_t>(i * cols + j)]; }
  MatrixBatch batch() { return {data.data(), 1, rows, cols, cols, 1, 0}; }
  // The same memory, rows and columns exchanged.
  MatrixBatch flipped() { return {data.data(), 1, cols, rows, 1, cols, 0}; }
};

template <class T>
T random_number(std::mt19937& g) {
  std::normal_distribution<double> d;
  if constexpr (kIsComplex<T>) {
    const double re = d(g);
    return T(static_cast<Real<T>>(re), static_cast<Real<T>>(d(g)));
  } else {
    return static_cast<T>(d(g));
  }
}

template <class T>
Dense<T> random_matrix(int64_t m, int64_t n, unsigned seed = 1) {
  std::mt19937 g(seed);
  Dense<T> a(m, n);
  for (T& x : a.data) x = random_number<T>(g);
  return a;
}

template <class T>
Dense<T> adjoint(const Dense<T>& a) {
  Dense<T> r(a.cols, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.cols; ++j) r(j, i) = conjugate(a(i, j));
  return r;
}

// Computed in double precision.
template <class A, class B>
auto product(const Dense<A>& a, const Dense<B>& b) {
  using T = std::conditional_t<kIsComplex<A> || kIsComplex<B>, std::complex<double>, double>;
  Dense<T> r(a.rows, b.cols);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t k = 0; k < a.cols; ++k)
      for (int64_t j = 0; j < b.cols; ++j) r(i, j) += times(T(a(i, k)), T(b(k, j)));
  return r;
}

// Frobenius' norm.
template <class T>
double size(const Dense<T>& a) {
  double s = 0;
  for (const T& x : a.data) s = std::hypot(s, static_cast<double>(std::abs(x)));
  return s;
}
template <class A, class B>
double distance(const Dense<A>& a, const Dense<B>& b) {
  double s = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    const std::complex<double> d = std::complex<double>(a.data[i]) - std::complex<double>(b.data[i]);
    s = std::hypot(s, std::abs(d));
  }
  return s;
}
template <class T>
double units(const Dense<T>& a) {
  return static_cast<double>(std::max(a.rows, a.cols)) * static_cast<double>(kEps<T>) * std::max(size(a), 1e-300);
}
// |I - Q^H Q| / (n eps)
template <class T>
double orthogonality(const Dense<T>& q) {
  Dense<T> one(q.cols, q.cols);
  for (int64_t i = 0; i < q.cols; ++i) one(i, i) = T(1);
  return distance(product(adjoint(q), q), one) / (static_cast<double>(q.rows) * static_cast<double>(kEps<T>));
}

}  // namespace tessera::cpu::testing
