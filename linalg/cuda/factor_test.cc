// Factorizations on the device against those of the CPU.
#include <string>
#include <vector>

#include "linalg/cpu/factor/factor.h"
#include "linalg/cuda/engines.h"
#include "linalg/cuda/solver.h"
#include "linalg/cuda/testing.h"
#if TESSERA_CUDA_EMULATED
#include "linalg/cuda/emulation/libraries.h"
#endif

namespace tessera::cuda {
namespace {

using cpu::MatrixBatch;
using testing::Layout;
using testing::Matrices;
using testing::Mirror;

class Factor : public testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    set_host_engines({nullptr, &cpu::run_ldl_factor, &cpu::run_ldl_solve});
    set_linalg_library(LinalgLibrary::kDefault);
  }
};

Mirror numbers(int64_t n) { return Mirror::of(std::vector<int32_t>(static_cast<size_t>(n), 77)); }
std::vector<int32_t> on_device(const Mirror& m) {
  std::vector<int32_t> v(m.size() / sizeof(int32_t));
  const auto bytes = m.device_bytes();
  std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}
std::string name(DType t, int64_t count, int64_t m, int64_t n, Layout l) {
  return std::string(name_of(t)) + " " + std::to_string(count) + " of " + std::to_string(m) + " x " +
         std::to_string(n) + (l == Layout::kRows ? " by rows" : " by columns");
}

void check_lu(DType t, int64_t count, int64_t m, int64_t n, Layout layout) {
  const std::string what = name(t, count, m, n, layout);
  const int64_t k = std::min(m, n);
  Matrices a(t, count, m, n, layout, 5);
  Mirror pivots = numbers(count * k), info = numbers(count);
  cpu::run_lu_factor(t, a.host(), pivots.host_as<int32_t>(), info.host_as<int32_t>());
  cuda::run_lu_factor(t, a.device(), pivots.device_as<int32_t>(), info.device_as<int32_t>());
  testing::expect_alike(a, 200 * static_cast<double>(k), what);
  EXPECT_EQ(pivots.host_bytes(), pivots.device_bytes()) << what;
  EXPECT_EQ(info.host_bytes(), info.device_bytes()) << what;
  if (m != n || n == 0) return;
  // What is solved and computed by the factors.
  Mirror value(testing::random_elements(t, count, 1)), sign(testing::random_elements(t, count, 1)),
      logabs(testing::random_elements(to_real(t), count, 1));
  cpu::run_determinant(t, a.host(), pivots.host_as<int32_t>(), {value.host(), sign.host(), logabs.host()});
  cuda::run_determinant(t, a.device(), pivots.device_as<int32_t>(), {value.device(), sign.device(), logabs.device()});
  const double rtol = 1e5 * testing::unit_of(t);
  if (n < 100)  // else it overflows
    testing::expect_close(t, value.host_bytes(), value.device_bytes(), rtol, 1e-12, what);
  testing::expect_close(t, sign.host_bytes(), sign.device_bytes(), rtol, rtol, what);
  testing::expect_close(to_real(t), logabs.host_bytes(), logabs.device_bytes(), rtol, rtol, what);
  for (const bool transposed : {false, true})
    for (const bool conj : {false, true})
      for (const Layout of_b : testing::kDense) {
        Matrices b(t, count, n, 3, of_b, 9);
        cpu::run_lu_solve(t, a.host(), pivots.host_as<int32_t>(), {transposed, conj}, b.host());
        cuda::run_lu_solve(t, a.device(), pivots.device_as<int32_t>(), {transposed, conj}, b.device());
        testing::expect_alike(b, 1e5 * static_cast<double>(n), what + " solution");
      }
}

TEST_F(Factor, Lu) {
  for (const DType t : testing::kMatrixTypes)
    for (const Layout layout : testing::kDense) {
      for (const int64_t count : {1, 3})
        for (const int64_t n : {1, 7}) check_lu(t, count, n, n, layout);
      check_lu(t, 2, 7, 4, layout);
      check_lu(t, 1, 4, 7, layout);
      check_lu(t, 2, 0, 3, layout);
      check_lu(t, 0, 3, 3, layout);
    }
  check_lu(DType::kFloat64, 3, 40, 40, Layout::kRows);
  check_lu(DType::kComplex64, 2, 260, 260, Layout::kRows);
}

TEST_F(Factor, OneFactorizationForAll) {
  for (const int64_t n : {5, 260}) {
    Matrices a(DType::kFloat64, 1, n, n), b(DType::kFloat64, 4, n, 2);
    std::vector<int32_t> first(static_cast<size_t>(n)), all;
    Mirror info = numbers(1);
    cpu::run_lu_factor(a.dtype, a.host(), first.data(), info.host_as<int32_t>());
    Mirror one = numbers(n);
    cuda::run_lu_factor(a.dtype, a.device(), one.device_as<int32_t>(), info.device_as<int32_t>());
    for (int i = 0; i < 4; ++i) all.insert(all.end(), first.begin(), first.end());
    Mirror pivots = Mirror::of(all);
    MatrixBatch on_host = a.host(), on_device = a.device();
    for (MatrixBatch* m : {&on_host, &on_device}) {
      m->count = 4;
      m->batch_stride = 0;
    }
    cpu::run_lu_solve(a.dtype, on_host, pivots.host_as<int32_t>(), {}, b.host());
    cuda::run_lu_solve(a.dtype, on_device, pivots.device_as<int32_t>(), {}, b.device());
    testing::expect_alike(b, 1e6, "one for all");
  }
}

TEST_F(Factor, LuWithoutPivots) {
  for (const DType t : testing::kMatrixTypes)
    for (const int64_t count : {1, 3}) {
      Matrices a = testing::hermitian(t, count, 6, Layout::kRows, 20);
      const auto before = a.device_values();
      Mirror info = numbers(count);
      cuda::run_lu_factor(t, a.device(), nullptr, info.device_as<int32_t>());
      auto l = a.device_values(), u = l;
      for (int64_t z = 0; z < count * 36; ++z) {
        const int64_t i = z / 6 % 6, j = z % 6;
        if (i == j) l[z] = 1;
        if (i < j) l[z] = 0;
        if (i > j) u[z] = 0;
      }
      testing::expect_near(before, testing::product(l, u, count, 6, 6, 6), 1e3 * testing::unit_of(t), "L U");
      EXPECT_EQ(on_device(info), std::vector<int32_t>(static_cast<size_t>(count), 0));
    }
}

TEST_F(Factor, SingularMatricesAreTold) {
  for (const int64_t count : {1, 3}) {
    Matrices a(DType::kFloat32, count, 4, 4, Layout::kRows, [](int64_t, int64_t i, int64_t j) {
      return i == j && i != 2 ? std::complex<double>(2) : std::complex<double>(0);
    });
    Mirror pivots = numbers(4 * count), info = numbers(count);
    cuda::run_lu_factor(a.dtype, a.device(), pivots.device_as<int32_t>(), info.device_as<int32_t>());
    EXPECT_EQ(on_device(info), std::vector<int32_t>(static_cast<size_t>(count), 3));
    Mirror inverse_info = numbers(count);  // L is the identity: the factors have the inverse's zeros
    cuda::run_inverse(a.dtype, a.device(), inverse_info.device_as<int32_t>());
    EXPECT_EQ(on_device(inverse_info), std::vector<int32_t>(static_cast<size_t>(count), 3));
  }
}

TEST_F(Factor, Inverse) {
  for (const DType t : testing::kMatrixTypes)
    for (const Layout layout : testing::kDense)
      for (const int64_t count : {0, 1, 3})
        for (const int64_t n : {0, 1, 6, 50}) {
          Matrices a = testing::hermitian(t, count, n, layout, 30);
          Mirror info = numbers(count);
          cpu::run_inverse(t, a.host(), info.host_as<int32_t>());
          cuda::run_inverse(t, a.device(), info.device_as<int32_t>());
          testing::expect_alike(a, 100, name(t, count, n, n, layout));
          EXPECT_EQ(info.host_bytes(), info.device_bytes());
        }
}

TEST_F(Factor, UnpackPivots) {
  Mirror pivots = Mirror::of(std::vector<int32_t>{3, 3, 4, 1, 2, 4});
  std::vector<int64_t> to(8);
  Mirror order = Mirror::of(to);
  cpu::run_unpack_pivots(pivots.host_as<int32_t>(), 2, 3, 4, order.host_as<int64_t>());
  cuda::run_unpack_pivots(pivots.device_as<int32_t>(), 2, 3, 4, order.device_as<int64_t>());
  EXPECT_EQ(order.host_bytes(), order.device_bytes());
}

TEST_F(Factor, Cholesky) {
  for (const DType t : testing::kMatrixTypes)
    for (const Layout layout : testing::kDense)
      for (const bool upper : {false, true})
        for (const int64_t count : {0, 1, 3})
          for (const int64_t n : {0, 6, 50, 260}) {
            if (n == 260 && t != DType::kFloat64) continue;
            Matrices a = testing::hermitian(t, count, n, layout, 2 * static_cast<double>(n) + 1);
            Mirror info = numbers(count);
            cpu::run_cholesky(t, a.host(), upper, info.host_as<int32_t>());
            cuda::run_cholesky(t, a.device(), upper, info.device_as<int32_t>());
            testing::expect_alike(a, 400 * std::sqrt(static_cast<double>(n + 1)), name(t, count, n, n, layout));
            EXPECT_EQ(info.host_bytes(), info.device_bytes());
          }
}

TEST_F(Factor, CholeskyTellsWhatIsNotPositiveDefinite) {
  for (const int64_t count : {1, 2}) {
    Matrices a(DType::kComplex128, count, 4, 4, Layout::kRows, [](int64_t, int64_t i, int64_t j) {
      return i != j ? 0.0 : i == 2 ? std::complex<double>(-1, 3) : std::complex<double>(1, 5);
    });
    Mirror info = numbers(count);
    cuda::run_cholesky(a.dtype, a.device(), false, info.device_as<int32_t>());
    EXPECT_EQ(on_device(info), std::vector<int32_t>(static_cast<size_t>(count), 3));
  }
}

TEST_F(Factor, Triangles) {
  const Layout layouts[] = {Layout::kRows, Layout::kColumns, Layout::kScattered};
  for (const DType t : {DType::kFloat32, DType::kComplex128})
    for (const Layout of_a : layouts)
      for (const Layout of_b : testing::kDense)
        for (int form = 0; form < 8; ++form)
          for (const int64_t count : {1, 3}) {
            Matrices a = testing::hermitian(t, count, 9, of_a, 20);
            Matrices b(t, count, 9, 4, of_b);
            const cpu::TriangularForm f{(form & 1) != 0, (form & 2) != 0, (form & 4) != 0};
            cpu::run_triangular_solve(t, a.host(), f, b.host());
            cuda::run_triangular_solve(t, a.device(), f, b.device());
            testing::expect_alike(b, f.unit ? 1e9 : 100, std::string(name_of(t)) + " form " + std::to_string(form));
          }
}

TEST_F(Factor, ColumnsAndNumbers) {
  for (const int64_t n : {1, 4, 300}) {
    Matrices a = testing::hermitian(DType::kFloat64, 2, n, Layout::kRows, 2 * static_cast<double>(n) + 3);
    Matrices b(DType::kFloat64, 2, n, 1, Layout::kRows);
    cpu::run_triangular_solve(a.dtype, a.host(), {false, false, false}, b.host());
    cuda::run_triangular_solve(a.dtype, a.device(), {false, false, false}, b.device());
    testing::expect_alike(b, 100, "a column");
  }
}

TEST_F(Factor, Ldl) {
  for (const DType t : testing::kMatrixTypes)
    for (const Layout layout : testing::kDense)
      for (const bool hermitian : {false, true})
        for (const int64_t count : {0, 1, 3})
          for (const int64_t n : {0, 1, 2, 9}) {
            const std::string what = name(t, count, n, n, layout) + (hermitian ? " Hermitian" : "");
            Matrices a = testing::hermitian(t, count, n, layout, 0, !hermitian), b(t, count, n, 2, layout);
            Mirror pivots = numbers(count * n), info = numbers(count);
            cpu::run_ldl_factor(t, a.host(), hermitian, pivots.host_as<int32_t>(), info.host_as<int32_t>());
            cuda::run_ldl_factor(t, a.device(), hermitian, pivots.device_as<int32_t>(), info.device_as<int32_t>());
            EXPECT_EQ(pivots.host_bytes(), pivots.device_bytes()) << what;
            EXPECT_EQ(info.host_bytes(), info.device_bytes()) << what;
            cpu::run_ldl_solve(t, a.host(), pivots.host_as<int32_t>(), hermitian, b.host());
            cuda::run_ldl_solve(t, a.device(), pivots.device_as<int32_t>(), hermitian, b.device());
            testing::expect_alike(b, 1e4, what);
          }
}

TEST_F(Factor, OtherTypesAreRefused) {
  Matrices a(DType::kFloat32, 1, 2, 2);
  EXPECT_THROW(cuda::run_triangular_solve(DType::kFloat16, a.device(), {false, false, false}, a.device()),
               NotImplementedError);
}

#if TESSERA_CUDA_EMULATED
TEST_F(Factor, ThePreferredLibraryIsCalled) {
  const auto calls = [](const char* name, LinalgLibrary preferred) {
    set_linalg_library(preferred);
    const int before = emulation::solver_calls(name);
    Matrices a(DType::kFloat32, 3, 4, 4);
    Mirror pivots = numbers(12), info = numbers(3);
    cuda::run_lu_factor(a.dtype, a.device(), pivots.device_as<int32_t>(), info.device_as<int32_t>());
    set_linalg_library(LinalgLibrary::kDefault);
    return emulation::solver_calls(name) - before;
  };
  EXPECT_EQ(calls("getrfBatched", LinalgLibrary::kDefault), 1);
  EXPECT_EQ(calls("getrfBatched", LinalgLibrary::kCusolver), 0);
  EXPECT_EQ(calls("Xgetrf", LinalgLibrary::kCusolver), 3);
}
#endif

// The work is the current stream's.
TEST_F(Factor, Streams) {
  const Stream side = stream_from_pool(0);
  Matrices a = testing::hermitian(DType::kFloat32, 1, 20, Layout::kRows, 50);
  Mirror info = numbers(1);
  cpu::run_cholesky(a.dtype, a.host(), false, info.host_as<int32_t>());
  {
    const StreamGuard guard(side);
    cuda::run_cholesky(a.dtype, a.device(), false, info.device_as<int32_t>());
    synchronize(side);
  }
  testing::expect_alike(a, 1000, "on a stream");
}

}  // namespace
}  // namespace tessera::cuda
