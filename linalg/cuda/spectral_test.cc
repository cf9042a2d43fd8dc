// Orthogonal factorizations, eigenvalues, singular values and exponentials on the device: against the CPU's where they
// are determined, else by what they have to fulfil.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "linalg/cpu/eigen/eig.h"
#include "linalg/cpu/factor/factor.h"
#include "linalg/cpu/matrix_exp.h"
#include "linalg/cpu/orthogonal/householder.h"
#include "linalg/cpu/orthogonal/least_squares.h"
#include "linalg/cpu/spectral/spectral.h"
#include "linalg/cuda/engines.h"
#include "linalg/cuda/solver.h"
#include "linalg/cuda/testing.h"
#if TESSERA_CUDA_EMULATED
#include "linalg/cuda/emulation/libraries.h"
#endif

namespace tessera::cuda {
namespace {

using cpu::MatrixBatch;
using linalg::SvdDriver;
using testing::adjoint;
using testing::identity;
using testing::Layout;
using testing::Matrices;
using testing::Mirror;
using testing::product;
using Values = std::vector<std::complex<double>>;

class Spectral : public testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    set_host_engines({&cpu::run_eig, &cpu::run_ldl_factor, &cpu::run_ldl_solve});
    set_linalg_library(LinalgLibrary::kDefault);
  }
};

std::string name(DType t, int64_t count, int64_t m, int64_t n) {
  return std::string(name_of(t)) + " " + std::to_string(count) + " of " + std::to_string(m) + " x " + std::to_string(n);
}
Mirror numbers(int64_t n) { return Mirror::of(std::vector<int32_t>(static_cast<size_t>(n), 77)); }
std::vector<int32_t> on_device(const Mirror& m) {
  std::vector<int32_t> v(m.size() / sizeof(int32_t));
  const auto bytes = m.device_bytes();
  std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}
std::vector<int32_t> zeros(int64_t n) { return std::vector<int32_t>(static_cast<size_t>(n)); }
Values elements(DType t, const Mirror& m) {
  const auto bytes = m.device_bytes();
  Values v;
  for (int64_t i = 0; i < static_cast<int64_t>(bytes.size()) / item_size(t); ++i)
    v.push_back(testing::element(t, bytes.data(), i));
  return v;
}
// The columns of each m x n matrix times n numbers of it.
Values scaled(Values a, const Values& by, int64_t m, int64_t n) {
  for (size_t i = 0; i < a.size(); ++i) {
    const auto z = static_cast<int64_t>(i);
    a[i] *= by[static_cast<size_t>(z / (m * n) * n + z % n)];
  }
  return a;
}
Values first_columns(const Values& a, int64_t m, int64_t n, int64_t kept) {
  Values r;
  for (size_t i = 0; i < a.size(); ++i)
    if (static_cast<int64_t>(i) % n < kept) r.push_back(a[i]);
  return r;
}

// Of matrices of m rows and `cols` columns.
Values first_rows(const Values& a, int64_t count, int64_t m, int64_t kept, int64_t cols) {
  Values r;
  for (int64_t i = 0; i < count * m * cols; ++i)
    if (i / cols % m < kept) r.push_back(a[static_cast<size_t>(i)]);
  return r;
}

void check_eig(DType t, int64_t count, int64_t n) {
  const std::string what = name(t, count, n, n);
  const DType complex = to_complex(t);
  Matrices a(t, count, n, n, Layout::kRows, 8), v(complex, count, n, n, Layout::kRows);
  const Values before = a.device_values();
  Mirror w(testing::random_elements(complex, count * n, 1)), alone(w.host_bytes()), info = numbers(count);
  const MatrixBatch vectors = v.device();
  cuda::run_eig(t, a.device(), w.device(), &vectors, info.device_as<int32_t>());
  EXPECT_EQ(on_device(info), zeros(count)) << what;
  const double tolerance = 1000 * static_cast<double>(n + 1) * testing::unit_of(t);
  const Values columns = v.device_values(), values = elements(complex, w);
  testing::expect_near(product(before, columns, count, n, n, n), scaled(columns, values, n, n), tolerance, what);
  const Values squares = product(adjoint(columns, count, n, n), columns, count, n, n, n);
  for (int64_t z = 0; z < count; ++z)
    for (int64_t i = 0; i < n; ++i) EXPECT_NEAR(squares[(z * n + i) * n + i].real(), 1, tolerance) << what;
  cuda::run_eig(t, a.device(), alone.device(), nullptr, info.device_as<int32_t>());
  testing::expect_close(complex, w.device_bytes(), alone.device_bytes(), 10 * tolerance, 10 * tolerance, what);
  EXPECT_EQ(before, a.device_values()) << what << ": the input is left alone";
}

// --- Orthogonal factorizations

TEST_F(Spectral, QrAndItsReflections) {
  for (const DType t : testing::kMatrixTypes)
    for (const Layout layout : testing::kDense)
      for (const int64_t count : {0, 1, 3})
        for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {7, 4}, {4, 7}, {300, 5}, {0, 3}}) {
          const std::string what = name(t, count, m, n);
          const int64_t k = std::min(m, n);
          const double tolerance = 300 * std::sqrt(static_cast<double>(m + 1));
          Matrices a(t, count, m, n, layout, 3);
          Mirror tau(testing::random_elements(t, count * k, 1));
          cpu::run_geqrf(t, a.host(), tau.host());
          cuda::run_geqrf(t, a.device(), tau.device());
          testing::expect_alike(a, tolerance, what);
          testing::expect_close(t, tau.host_bytes(), tau.device_bytes(), 1e-4, 100 * testing::unit_of(t), what);
          if (k == 0 || count == 0) continue;
          for (const bool left : {true, false})
            for (const bool by_adjoint : {true, false}) {
              Matrices c(t, count, left ? m : 3, left ? 3 : m, layout, 4);
              MatrixBatch on_host = a.host(), v = a.device();
              on_host.cols = v.cols = k;
              cpu::run_apply_reflections(t, on_host, tau.host(), k, k, c.host(), left, by_adjoint);
              cuda::run_apply_reflections(t, v, tau.device(), k, k, c.device(), left, by_adjoint);
              testing::expect_alike(c, tolerance, what + " product");
            }
          Matrices r(t, count, k, n, layout, 1);
          MatrixBatch top_host = a.host(), top = a.device();
          top_host.rows = top.rows = k;
          cpu::run_upper_triangle(t, top_host, r.host());
          cuda::run_upper_triangle(t, top, r.device());
          testing::expect_alike(r, tolerance, what + " R");
          MatrixBatch q_host = a.host(), q = a.device();
          q_host.cols = q.cols = k;
          cpu::run_householder_product(t, q_host, tau.host(), k, k);
          cuda::run_householder_product(t, q, tau.device(), k, k);
          testing::expect_alike(a, tolerance, what + " Q");
          if (m < n) continue;
          Matrices both(t, count, m, n, layout, 3), triangle(t, count, n, n, layout, 1);
          cpu::run_qr(t, both.host(), triangle.host());
          cuda::run_qr(t, both.device(), triangle.device());
          testing::expect_alike(both, tolerance, what + " Q of both");
          testing::expect_alike(triangle, tolerance, what + " R of both");
        }
}

TEST_F(Spectral, NoReflectionsAreTheIdentity) {
  Matrices q(DType::kFloat64, 2, 4, 3);
  Mirror tau = numbers(1);
  cuda::run_householder_product(q.dtype, q.device(), tau.device(), 0, 0);
  const auto values = q.device_values();
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(values[i], i % 12 / 3 == i % 3 ? 1.0 : 0.0);
}

TEST_F(Spectral, LeastSquares) {
  for (const DType t : testing::kMatrixTypes)
    for (const Layout layout : testing::kDense)
      for (const int64_t count : {0, 1, 3})
        for (const auto& [m, n] :
             {std::pair<int64_t, int64_t>{5, 5}, {9, 4}, {4, 9}, {280, 3}, {0, 4}, {4, 0}, {1, 3}}) {
          Matrices a(t, count, m, n, Layout::kRows, 3), b(t, count, std::max(m, n), 2, layout, 4);
          Mirror failed = numbers(count);
          cpu::run_least_squares(t, cpu::LeastSquares::kFullRank, 0, a.host(), b.host(), nullptr,
                                 failed.host_as<int32_t>());
          cuda::run_least_squares(t, cpu::LeastSquares::kFullRank, 0, a.device(), b.device(), nullptr,
                                  failed.device_as<int32_t>());
          testing::expect_near(first_rows(b.host_values(), count, b.shape.rows, n, 2),
                               first_rows(b.device_values(), count, b.shape.rows, n, 2), 1e5 * testing::unit_of(t),
                               name(t, count, m, n));
          EXPECT_EQ(failed.host_bytes(), failed.device_bytes());
        }
}

TEST_F(Spectral, LeastSquaresTellsWhatHasNoFullRank) {
  Matrices a(DType::kFloat32, 2, 3, 2, Layout::kRows,
             [](int64_t b, int64_t i, int64_t j) { return b == 1 && j == 1 ? 0.0 : static_cast<double>(i + j * j); }),
      b(DType::kFloat32, 2, 3, 1);
  Mirror failed = numbers(2);
  cuda::run_least_squares(a.dtype, cpu::LeastSquares::kFullRank, 0, a.device(), b.device(), nullptr,
                          failed.device_as<int32_t>());
  EXPECT_EQ(on_device(failed), (std::vector<int32_t>{0, 2}));
  EXPECT_THROW(cuda::run_least_squares(a.dtype, cpu::LeastSquares::kPivoted, 0, a.device(), b.device(), nullptr,
                                       failed.device_as<int32_t>()),
               NotImplementedError);
}

// --- Hermitian matrices

void check_eigh(DType t, int64_t count, int64_t n, Layout layout, bool lower) {
  const std::string what = name(t, count, n, n) + (lower ? " lower" : " upper");
  Matrices a = testing::hermitian(t, count, n, layout), vectors(t, count, n, n, Layout::kColumns),
           unused(t, count, n, n, Layout::kColumns);
  const Values full = a.host_values();
  Mirror w(testing::random_elements(to_real(t), count * n, 1)), alone(w.host_bytes()), info = numbers(count);
  const MatrixBatch host_vectors = unused.host(), device_vectors = vectors.device();
  cpu::run_eigh(t, a.host(), lower, w.host(), &host_vectors, info.host_as<int32_t>());
  cuda::run_eigh(t, a.device(), lower, w.device(), &device_vectors, info.device_as<int32_t>());
  EXPECT_EQ(on_device(info), zeros(count)) << what;
  const double tolerance = 100 * static_cast<double>(n + 1) * testing::unit_of(t);
  testing::expect_close(to_real(t), w.host_bytes(), w.device_bytes(), tolerance, tolerance, what);
  const Values v = vectors.device_values();
  testing::expect_near(product(full, v, count, n, n, n), scaled(v, elements(to_real(t), w), n, n), tolerance, what);
  testing::expect_near(identity(count, n), product(adjoint(v, count, n, n), v, count, n, n, n), tolerance, what);
  cuda::run_eigh(t, a.device(), lower, alone.device(), nullptr, info.device_as<int32_t>());
  testing::expect_close(to_real(t), w.host_bytes(), alone.device_bytes(), tolerance, tolerance, what);
  EXPECT_EQ(full, a.device_values()) << what << ": the input is left alone";
}

TEST_F(Spectral, Eigh) {
  for (const DType t : testing::kMatrixTypes)
    for (const bool lower : {false, true})
      for (const int64_t count : {0, 1, 3})
        for (const int64_t n : {0, 1, 5, 32, 33}) check_eigh(t, count, n, Layout::kRows, lower);
  check_eigh(DType::kComplex128, 2, 6, Layout::kColumns, true);
}

// What the first element of the second matrix is.
Matrices with_element(Matrices m, double value) {
  const Values all = m.host_values();
  const int64_t rows = m.shape.rows, cols = m.shape.cols;
  return Matrices(m.dtype, m.shape.count, rows, cols, Layout::kRows, [&](int64_t b, int64_t i, int64_t j) {
    return b == 1 && i == 0 && j == 0 ? std::complex<double>(value) : all[(b * rows + i) * cols + j];
  });
}

TEST_F(Spectral, NumbersThatAreNotFiniteAreTold) {
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    for (const int64_t n : {4, 40}) {
      const Matrices a = with_element(testing::hermitian(DType::kFloat64, 3, n, Layout::kRows), bad);
      Mirror info = numbers(3);
      const testing::DeviceBytes room(static_cast<size_t>(3 * n * n) * 16);
      cuda::run_eigh(a.dtype, a.device(), true, room.get(), nullptr, info.device_as<int32_t>());
      EXPECT_EQ(on_device(info), (std::vector<int32_t>{0, -1, 0}));
      for (const SvdDriver driver : {SvdDriver::kAny, SvdDriver::kGesvd, SvdDriver::kGesvdj, SvdDriver::kGesvda}) {
        cuda::run_svd_by(driver, a.dtype, a.device(), nullptr, room.get(), nullptr, info.device_as<int32_t>());
        EXPECT_EQ(on_device(info), (std::vector<int32_t>{0, -1, 0}));
      }
      cuda::run_eig(a.dtype, a.device(), room.get(), nullptr, info.device_as<int32_t>());
      EXPECT_EQ(on_device(info), (std::vector<int32_t>{0, -1, 0}));
    }
}

// --- Singular values

void check_svd(SvdDriver driver, DType t, int64_t count, int64_t m, int64_t n, bool full) {
  const std::string what = name(t, count, m, n) + " driver " + std::to_string(static_cast<int>(driver));
  const int64_t k = std::min(m, n), u_cols = full ? m : k, vh_rows = full ? n : k;
  Matrices a(t, count, m, n, m % 2 ? Layout::kRows : Layout::kColumns, 6), u(t, count, m, u_cols, Layout::kColumns),
      vh(t, count, vh_rows, n, Layout::kRows);
  const Values before = a.device_values();
  Mirror s(testing::random_elements(to_real(t), count * k, 1)), alone(s.host_bytes()), info = numbers(count),
                                                                                       cpu_info = numbers(count);
  cpu::run_svd(t, a.host(), nullptr, s.host(), nullptr, cpu_info.host_as<int32_t>());
  const MatrixBatch left = u.device(), right = vh.device();
  cuda::run_svd_by(driver, t, a.device(), &left, s.device(), &right, info.device_as<int32_t>());
  EXPECT_EQ(on_device(info), zeros(count)) << what;
  // Squares lose half of the digits.
  const double tolerance = driver == SvdDriver::kGesvda ? 10 * std::sqrt(testing::unit_of(t))
                                                        : 100 * static_cast<double>(m + n) * testing::unit_of(t);
  testing::expect_close(to_real(t), s.host_bytes(), s.device_bytes(), tolerance, tolerance, what);
  const Values uv = u.device_values(), vv = vh.device_values(), values = elements(to_real(t), s);
  const Values thin = first_columns(uv, m, u_cols, k);
  testing::expect_near(before,
                       product(scaled(thin, values, m, k), first_rows(vv, count, vh_rows, k, n), count, m, k, n),
                       tolerance, what);
  testing::expect_near(identity(count, u_cols), product(adjoint(uv, count, m, u_cols), uv, count, u_cols, m, u_cols),
                       tolerance, what + " U");
  testing::expect_near(identity(count, vh_rows),
                       product(vv, adjoint(vv, count, vh_rows, n), count, vh_rows, n, vh_rows), tolerance,
                       what + " Vh");
  cuda::run_svd_by(driver, t, a.device(), nullptr, alone.device(), nullptr, info.device_as<int32_t>());
  testing::expect_close(to_real(t), s.host_bytes(), alone.device_bytes(), tolerance, tolerance, what);
  EXPECT_EQ(before, a.device_values()) << what << ": the input is left alone";
}

TEST_F(Spectral, Svd) {
  for (const SvdDriver driver : {SvdDriver::kAny, SvdDriver::kGesvd, SvdDriver::kGesvdj, SvdDriver::kGesvda})
    for (const DType t : testing::kMatrixTypes)
      for (const bool full : {false, true})
        for (const int64_t count : {1, 3})
          for (const auto& [m, n] : {std::pair<int64_t, int64_t>{1, 1}, {7, 4}, {4, 6}, {3, 35}, {0, 3}})
            check_svd(driver, t, count, m, n, full);
  check_svd(SvdDriver::kAny, DType::kFloat32, 0, 3, 2, true);
}

#if TESSERA_CUDA_EMULATED
TEST_F(Spectral, WhatJacobisMethodLeavesIsDoneByQr) {
  for (const int64_t n : {6, 40}) {
    const int before = emulation::solver_calls("Xgesvd");
    emulation::fail_next_jacobi(2);
    check_svd(SvdDriver::kAny, DType::kFloat64, 3, n, n + 1, false);
    EXPECT_EQ(emulation::solver_calls("Xgesvd") - before, 2);
    Matrices a(DType::kFloat64, 2, n, n);
    Mirror info = numbers(2), s(testing::random_elements(a.dtype, 2 * n, 1));
    emulation::fail_next_jacobi(1);
    cuda::run_svd_by(SvdDriver::kGesvdj, a.dtype, a.device(), nullptr, s.device(), nullptr, info.device_as<int32_t>());
    EXPECT_EQ(on_device(info), (std::vector<int32_t>{static_cast<int32_t>(n + 1), 0})) << "the driver alone";
  }
}

// Libraries before 12.8 of the toolkit.
TEST_F(Spectral, OlderLibraries) {
  auto& functions = const_cast<Solver&>(solver());
  const Solver saved = functions;
  functions.geev = nullptr;
  functions.syev_batched = nullptr;
  for (const DType t : testing::kMatrixTypes) check_eigh(t, 3, 40, Layout::kRows, true);
  for (const DType t : testing::kMatrixTypes) check_eig(t, 2, 7);
  functions = saved;
}

TEST_F(Spectral, BatchesAreOneCall) {
  const int jacobi = emulation::solver_calls("syevjBatched"), batched = emulation::solver_calls("XsyevBatched"),
            each = emulation::solver_calls("Xsyevd");
  check_eigh(DType::kFloat64, 5, 8, Layout::kRows, true);
  check_eigh(DType::kFloat64, 5, 50, Layout::kRows, true);
  check_eigh(DType::kFloat64, 1, 50, Layout::kRows, true);
  EXPECT_EQ(emulation::solver_calls("syevjBatched") - jacobi, 2);
  EXPECT_EQ(emulation::solver_calls("XsyevBatched") - batched, 2);
  EXPECT_EQ(emulation::solver_calls("Xsyevd") - each, 2);
}
#endif

// --- General matrices

TEST_F(Spectral, Eig) {
  for (const DType t : testing::kMatrixTypes)
    for (const int64_t count : {0, 1, 3})
      for (const int64_t n : {0, 1, 2, 9, 30}) check_eig(t, count, n);
}

// --- Exponentials

TEST_F(Spectral, Exponentials) {
  for (const DType t : testing::kMatrixTypes)
    for (const Layout layout : testing::kDense)
      for (const int64_t n : {0, 1, 2, 9, 33}) {
        // A matrix for each polynomial, some with squarings.
        Matrices a(t, 9, n, n, layout, [&](int64_t b, int64_t i, int64_t j) {
          const double size = std::pow(10.0, static_cast<double>(b) - 7);
          return size * std::complex<double>(std::sin(static_cast<double>(b + 3 * i + 5 * j)), 0.1) /
                 static_cast<double>(n);
        });
        cpu::run_matrix_exp(t, a.host());
        cuda::run_matrix_exp(t, a.device());
        testing::expect_alike(a, 1e6, name(t, 9, n, n));
      }
}

TEST_F(Spectral, ExponentialsOfWhatIsNotFinite) {
  Matrices a = with_element(Matrices(DType::kFloat64, 3, 3, 3), std::numeric_limits<double>::infinity());
  cpu::run_matrix_exp(a.dtype, a.host());
  cuda::run_matrix_exp(a.dtype, a.device());
  testing::expect_alike(a, 1e3, "infinite");
  EXPECT_TRUE(std::isnan(a.device_values()[9].real()));
  EXPECT_FALSE(std::isnan(a.device_values()[0].real()));
}

}  // namespace
}  // namespace tessera::cuda
