#include "tensor/cpu/gemm/gemm.h"

#include <array>
#include <cmath>

#include "tensor/core/error.h"
#include "tensor/cuda/libraries/blas.h"
#include "tensor/cuda/gemm/engines.h"
#include "tensor/cuda/support/data_testing.h"

namespace tessera::cuda {
namespace {

using cpu::MatrixRef;
using testing::Data;
using testing::expect_near;
using testing::OnDevice;
using testing::random_data;

enum class Order { kRows, kCols, kPaddedRows, kPaddedCols, kBothStrided, kReversed };

// Matrices one behind the other, as large as their elements' reach.
struct Layout {
  int64_t row, col, offset, size;
  Layout(int64_t rows, int64_t cols, Order order) : offset(0) {
    switch (order) {
      case Order::kRows:
        row = cols, col = 1;
        break;
      case Order::kCols:
        row = 1, col = rows;
        break;
      case Order::kPaddedRows:
        row = cols + 3, col = 1;
        break;
      case Order::kPaddedCols:
        row = 1, col = rows + 5;
        break;
      case Order::kBothStrided:
        row = 2 * cols + 1, col = 2;
        break;
      default:
        row = -cols, col = -1, offset = rows * cols > 0 ? rows * cols - 1 : 0;
    }
    size = rows > 0 && cols > 0 ? 1 + (rows - 1) * std::abs(row) + (cols - 1) * std::abs(col) : 0;
  }
};

KernelParam param(DType t, double re, double im) {
  KernelParam p{};
  if (is_complex(t)) {
    p.c[0] = re;
    p.c[1] = im;
  } else if (is_floating_point(t)) {
    p.f = re;
  } else {
    p.i = static_cast<int64_t>(re);
  }
  return p;
}

struct Case {
  int64_t m, n, k;
  Order a = Order::kRows, b = Order::kRows, c = Order::kRows;
  double alpha = 1, beta = 0, alpha_im = 0, beta_im = 0;
  bool conj_a = false, conj_b = false;
  int64_t batch = 1;
  bool same_a = false, same_b = false;  // one matrix for the whole batch
};

void check_case(DType t, const Case& s) {
  const Layout la(s.m, s.k, s.a), lb(s.k, s.n, s.b), lc(s.m, s.n, s.c);
  const auto matrices = [&](const Layout& l, bool one, unsigned seed) {
    return random_data(t, l.size * (one ? 1 : s.batch), seed);
  };
  Data a = matrices(la, s.same_a, 1), b = matrices(lb, s.same_b, 2), c = matrices(lc, false, 3);
  if (s.beta == 0 && s.beta_im == 0 && (is_floating_point(t) || is_complex(t)))
    for (int64_t i = 0; i < s.m && s.n > 0; ++i) c.set(lc.offset + i * lc.row, NAN);  // must not be read
  const OnDevice da(a), db(b), dc(c);
  const KernelParam alpha = param(t, s.alpha, s.alpha_im), beta = param(t, s.beta, s.beta_im);
  const int64_t step_a = s.same_a ? 0 : la.size, step_b = s.same_b ? 0 : lb.size, step_c = lc.size;
  if (s.batch == 1) {
    cpu::gemm(t, s.m, s.n, s.k, alpha, {a.at(la.offset), la.row, la.col}, {b.at(lb.offset), lb.row, lb.col}, beta,
              {c.at(lc.offset), lc.row, lc.col}, s.conj_a, s.conj_b);
    cuda::gemm(t, s.m, s.n, s.k, alpha, {da.at(la.offset), la.row, la.col}, {db.at(lb.offset), lb.row, lb.col}, beta,
               {dc.at(lc.offset), lc.row, lc.col}, s.conj_a, s.conj_b);
  } else {
    cpu::gemm_batched(t, s.batch, s.m, s.n, s.k, alpha, {a.at(la.offset), la.row, la.col}, step_a,
                      {b.at(lb.offset), lb.row, lb.col}, step_b, beta, {c.at(lc.offset), lc.row, lc.col}, step_c,
                      s.conj_a, s.conj_b);
    cuda::gemm_batched(t, s.batch, s.m, s.n, s.k, alpha, {da.at(la.offset), la.row, la.col}, step_a,
                       {db.at(lb.offset), lb.row, lb.col}, step_b, beta, {dc.at(lc.offset), lc.row, lc.col}, step_c,
                       s.conj_a, s.conj_b);
  }
  const std::string what = str_cat(s.m, " x ", s.n, " x ", s.k, " batch ", s.batch, " orders ", static_cast<int>(s.a),
                                   " ", static_cast<int>(s.b), " ", static_cast<int>(s.c), " alpha ", s.alpha, " beta ",
                                   s.beta, " conj ", s.conj_a, s.conj_b);
  expect_near(dc.read(), c, 16 + 4 * std::sqrt(static_cast<double>(s.k)), what);
}

class GemmTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_P(GemmTest, Sizes) {
  for (const auto [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                               {3, 4, 5},
                               {1, 9, 7},
                               {9, 1, 7},
                               {17, 33, 65},
                               {64, 64, 16},
                               {70, 5, 130},
                               {0, 3, 2},
                               {3, 0, 2},
                               {3, 2, 0},
                               {1, 1, 300}})
    check_case(GetParam(), {m, n, k});
}
TEST_P(GemmTest, Orders) {
  for (int a = 0; a <= 5; ++a)
    for (int b = 0; b <= 5; ++b) {
      const auto oa = static_cast<Order>(a), ob = static_cast<Order>(b), oc = static_cast<Order>((a + 2 * b) % 5);
      check_case(GetParam(), {5, 6, 7, oa, ob, oc, 1, a % 2 ? 1.0 : 0.0});
      if (b < 2) check_case(GetParam(), {1, 6, 7, oa, ob, oc});
      if (a < 2) check_case(GetParam(), {5, 1, 7, oa, ob, oc});
    }
}
TEST_P(GemmTest, Factors) {
  for (const double alpha : {0.0, 1.0, 2.0, -3.0})
    for (const double beta : {0.0, 1.0, -2.0})
      for (const Order c : {Order::kRows, Order::kCols, Order::kBothStrided}) {
        check_case(GetParam(), {4, 6, 5, Order::kCols, Order::kRows, c, alpha, beta});
        check_case(GetParam(), {4, 6, 0, Order::kCols, Order::kRows, c, alpha, beta});
        if (is_complex(GetParam()))
          check_case(GetParam(), {4, 6, 5, Order::kCols, Order::kRows, c, alpha, beta, 0.5, -1.5});
      }
}
TEST_P(GemmTest, Conjugates) {
  for (const Order o : {Order::kRows, Order::kCols, Order::kBothStrided, Order::kPaddedRows})
    for (int conj = 1; conj < 4; ++conj)
      for (const Order c : {Order::kRows, Order::kCols})
        check_case(GetParam(), {4, 6, 5, o, Order::kRows, c, 1, 0, 0, 0, (conj & 1) != 0, (conj & 2) != 0});
}
TEST_P(GemmTest, Batches) {
  for (const Order o : {Order::kRows, Order::kCols, Order::kBothStrided, Order::kReversed})
    for (int same = 0; same < 4; ++same)
      for (const Order c : {Order::kRows, Order::kCols, Order::kPaddedRows, Order::kBothStrided})
        check_case(GetParam(),
                   {4, 6, 5, o, Order::kRows, c, 2, 1, 0, 0, false, false, 3, (same & 1) != 0, (same & 2) != 0});
  check_case(GetParam(), {4, 6, 5, Order::kRows, Order::kRows, Order::kRows, 1, 0, 0, 0, true, true, 2});
}

TEST_P(GemmTest, Dot) {
  const DType t = GetParam();
  for (const int64_t n : {0, 1, 5, 1000, 40000})
    for (const auto [xs, ys] : {std::array<int64_t, 2>{1, 1}, {2, 3}, {0, 1}}) {
      Data x = random_data(t, n * 3 + 1, 7), y = random_data(t, n * 3 + 1, 8), out(t, 1);
      const OnDevice dx(x), dy(y), dout(out);
      for (const bool conj : {false, true}) {
        cpu::dot(t, n, x.get(), xs, y.get(), ys, conj, out.get());
        cuda::dot(t, n, dx.get(), xs, dy.get(), ys, conj, dout.get());
        expect_near(dout.read(), out, 16 + 4 * std::sqrt(static_cast<double>(n)),
                    str_cat("dot of ", n, " strides ", xs, " ", ys));
      }
    }
}

constexpr DType kTypes[] = {DType::kBool,    DType::kUInt8,     DType::kInt8,      DType::kInt16,
                            DType::kInt32,   DType::kInt64,     DType::kUInt16,    DType::kUInt32,
                            DType::kUInt64,  DType::kFloat16,   DType::kBFloat16,  DType::kFloat32,
                            DType::kFloat64, DType::kComplex32, DType::kComplex64, DType::kComplex128};
INSTANTIATE_TEST_SUITE_P(Types, GemmTest, ::testing::ValuesIn(kTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Gemm, Errors) {
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const KernelParam one = param(DType::kFloat32, 1, 0);
  EXPECT_THROW(cuda::gemm(DType::kFloat32, -1, 2, 2, one, {}, {}, one, {}, false, false), Error);
  EXPECT_THROW(cuda::gemm(DType::kFloat8_e5m2, 2, 2, 2, one, {}, {}, one, {}, false, false), NotImplementedError);
  EXPECT_THROW(cuda::dot(DType::kFloat8_e5m2, 2, nullptr, 1, nullptr, 1, false, nullptr), NotImplementedError);
}

TEST(Gemm, SettingsStay) {
  const BlasSettings before = blas_settings();
  EXPECT_FALSE(before.allow_tf32);
  EXPECT_TRUE(before.allow_fp16_reduced_precision && before.allow_bf16_reduced_precision);
  set_blas_settings({true, false, true});
  EXPECT_TRUE(blas_settings().allow_tf32);
  EXPECT_FALSE(blas_settings().allow_fp16_reduced_precision);
  set_blas_settings(before);
}

TEST(Gemm, WorkspacesComeAgain) {
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  check_case(DType::kFloat32, {5, 6, 7});
  release_blas_workspaces();
  check_case(DType::kFloat32, {5, 6, 7});
}

}  // namespace
}  // namespace tessera::cuda
