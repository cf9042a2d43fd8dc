// softmax, log_softmax, their gradients and running sums, against their definitions in float64.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/reduce/reduce.h"

namespace tessera::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Rows of n elements with `pad` more between them, walked along dimension 1, or columns of n along dimension 0.
template <class T>
struct Matrix {
  int64_t lines, n;
  int dim;
  int64_t pad;
  std::vector<T> data;
  int64_t shape[2], strides[2];
  Matrix(int64_t lines, int64_t n, int dim, int64_t pad) : lines(lines), n(n), dim(dim), pad(pad) {
    shape[dim] = n;
    shape[1 - dim] = lines;
    data.resize(shape[0] * (shape[1] + pad));
    strides[0] = (shape[1] + pad) * static_cast<int64_t>(sizeof(T));
    strides[1] = sizeof(T);
  }
  T& at(int64_t line, int64_t i) { return data[dim == 1 ? line * (n + pad) + i : i * (lines + pad) + line]; }
  Operand operand() { return {data.data(), sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32, strides}; }
};

template <class T>
std::vector<double> reference(bool log, Matrix<T>& x, int64_t line) {
  double max = -kInf, sum = 0;
  for (int64_t i = 0; i < x.n; ++i) max = std::max(max, static_cast<double>(x.at(line, i)));
  for (int64_t i = 0; i < x.n; ++i) sum += std::exp(static_cast<double>(x.at(line, i)) - max);
  std::vector<double> y(x.n);
  for (int64_t i = 0; i < x.n; ++i) {
    const double v = static_cast<double>(x.at(line, i)) - max;
    y[i] = log ? v - std::log(sum) : std::exp(v) / sum;
  }
  return y;
}

template <class T>
void check(int64_t lines, int64_t n, int dim, int64_t pad, bool specials) {
  const double tolerance = sizeof(T) == 8 ? 1e-14 : 2e-6;
  std::mt19937 rng(static_cast<unsigned>(lines * 1000 + n));
  std::uniform_real_distribution<double> uniform(-20, 5);
  Matrix<T> x(lines, n, dim, pad), y(lines, n, dim, pad), g(lines, n, dim, 0), dx(lines, n, dim, pad);
  for (int64_t l = 0; l < lines; ++l) {
    for (int64_t i = 0; i < n; ++i)
      x.at(l, i) = static_cast<T>(uniform(rng)), g.at(l, i) = static_cast<T>(uniform(rng) * .1);
    if (!specials) continue;
    if (l % 4 == 0) x.at(l, n / 2) = static_cast<T>(l % 8 ? kInf : std::nan(""));  // all NaN
    if (l % 4 == 1)
      for (int64_t i = 0; i < n - 1; ++i) x.at(l, i) = static_cast<T>(-kInf);  // one is left
    if (l % 4 == 2)
      for (int64_t i = 0; i < n; ++i)
        x.at(l, i) = static_cast<T>(l % 8 == 2 ? -kInf : -1e30 * static_cast<double>(i % 2));
  }
  for (bool log : {false, true}) {
    std::fill(y.data.begin(), y.data.end(), T{7});
    run_softmax(log, x.shape, dim, y.operand(), x.operand());
    run_softmax_backward(log, x.shape, dim, dx.operand(), g.operand(), y.operand());
    for (int64_t l = 0; l < lines; ++l) {
      const std::vector<double> want = reference(log, x, l);
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(g.at(l, i)) * (log ? 1 : want[i]);
      for (int64_t i = 0; i < n; ++i) {
        const double got = static_cast<double>(y.at(l, i));
        if (std::isnan(want[i])) {
          ASSERT_TRUE(std::isnan(got)) << lines << ' ' << n << ' ' << dim << ' ' << l << ' ' << i;
          continue;
        }
        if (std::isinf(want[i])) {
          ASSERT_EQ(got, want[i]);
          continue;
        }
        ASSERT_NEAR(got, want[i], tolerance * ((log ? 1 : 1e-30) + std::abs(want[i])))
            << lines << ' ' << n << ' ' << dim << ' ' << l << ' ' << i;
        const double grad =
            log ? g.at(l, i) - std::exp(want[i]) * sum : want[i] * (static_cast<double>(g.at(l, i)) - sum);
        ASSERT_NEAR(static_cast<double>(dx.at(l, i)), grad, 20 * tolerance * (1 + std::abs(sum)));
      }
    }
    // What lies between the lines is left alone.
    for (size_t i = 0; i < y.data.size() && pad > 0; ++i) {
      const int64_t row = y.shape[1] + pad;
      if (static_cast<int64_t>(i) % row >= y.shape[1]) { ASSERT_EQ(y.data[i], T{7}); }
    }
  }
}

TEST(Softmax, LinesOfEveryLength) {
  for (int64_t n : {1, 2, 5, 16, 17, 31, 32, 33, 64, 79, 1023, 1024, 1025, 5000}) {
    for (int64_t lines : {1, 3, 18}) {
      check<float>(lines, n, 1, 0, false);
      check<double>(lines, n, 1, 3, false);
      check<float>(lines, n, 1, 5, n > 1);
    }
  }
}
TEST(Softmax, Columns) {
  for (int64_t n : {2, 15, 16, 17, 100, 1000}) {
    for (int64_t lines : {8, 9, 16, 31, 127, 513}) {
      check<float>(lines, n, 0, 0, false);
      check<double>(lines, n, 0, 3, true);
      check<float>(lines, n, 0, 7, true);
    }
  }
}
// Few columns at a time stay in cache, or none.
TEST(Softmax, LongColumns) {
  check<float>(200, 3000, 0, 3, true);
  check<double>(70, 2100, 0, 1, true);
  check<float>(20, 9000, 0, 0, false);
}
// Results past the caches.
TEST(Softmax, Large) {
  check<float>(1500, 3001, 1, 0, true);
  check<float>(3001, 1500, 0, 1, true);
  check<float>(62, 70001, 1, 1, false);
  check<double>(1100, 2003, 1, 1, true);
}

TEST(Softmax, SameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  std::mt19937 rng(3);
  for (auto [lines, n] : {std::pair<int64_t, int64_t>{400, 317}, {70, 3000}, {2111, 2501}}) {
    for (int dim : {0, 1}) {
      Matrix<float> x(lines, n, dim, 0), first(lines, n, dim, 0);
      for (float& v : x.data) v = std::normal_distribution<float>()(rng);
      for (int threads : {1, 2}) {
        set_num_threads(threads);
        Matrix<float> y(lines, n, dim, 0);
        run_softmax(dim == 0, x.shape, dim, y.operand(), x.operand());
        if (threads == 1) first.data = y.data;
        EXPECT_EQ(std::memcmp(first.data.data(), y.data.data(), y.data.size() * sizeof(float)), 0);
      }
    }
  }
  set_num_threads(before);
}

TEST(Softmax, InPlace) {
  for (int dim : {0, 1}) {
    for (bool log : {false, true}) {
      Matrix<float> x(70, 333, dim, 2), y(70, 333, dim, 2);
      std::mt19937 rng(4);
      for (float& v : x.data) v = std::normal_distribution<float>()(rng);
      run_softmax(log, x.shape, dim, y.operand(), x.operand());
      run_softmax(log, x.shape, dim, x.operand(), x.operand());
      for (int64_t l = 0; l < 70; ++l) {
        for (int64_t i = 0; i < 333; ++i)
          ASSERT_EQ(x.at(l, i), y.at(l, i)) << dim << ' ' << log << ' ' << l << ' ' << i;
      }
    }
  }
}

template <class T, class Sum>
void check_sums(DType dtype, int64_t lines, int64_t n, int dim) {
  std::mt19937 rng(9);
  Matrix<T> x(lines, n, dim, 1), y(lines, n, dim, 2);
  for (T& v : x.data) v = static_cast<T>(static_cast<int64_t>(rng() % 2001) - 1000);
  const Operand in{x.data.data(), dtype, x.strides}, out{y.data.data(), dtype, y.strides},
      none{nullptr, DType::kInt64, nullptr};
  for (Operand to : {out, in}) {  // the last one in place
    const bool in_place = to.data == in.data;
    Matrix<T> want = x;
    for (int64_t l = 0; l < lines; ++l) {
      Sum s = 0;
      for (int64_t i = 0; i < n; ++i) want.at(l, i) = static_cast<T>(s += static_cast<Sum>(x.at(l, i)));
    }
    run_scan(ScanKind::kCumSum, dtype, x.shape, dim, to, none, in);
    Matrix<T>& got = in_place ? x : y;
    for (int64_t l = 0; l < lines; ++l) {
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(got.at(l, i), want.at(l, i)) << lines << ' ' << n << ' ' << dim << ' ' << l << ' ' << i;
    }
  }
}
TEST(Scan, Sums) {
  for (int dim : {0, 1}) {
    for (int64_t n : {2, 7, 8, 9, 33, 1000}) {
      for (int64_t lines : {1, 5, 37}) {
        check_sums<float, double>(DType::kFloat32, lines, n, dim);
        check_sums<double, double>(DType::kFloat64, lines, n, dim);
        check_sums<int64_t, int64_t>(DType::kInt64, lines, n, dim);
        check_sums<int32_t, int32_t>(DType::kInt32, lines, n, dim);
      }
    }
    check_sums<float, double>(DType::kFloat32, 2111, 2201, dim);
  }
}
// Infinities and NaN reach what follows them, and nothing else.
TEST(Scan, SpecialValues) {
  Matrix<float> x(1, 40, 1, 0), y(1, 40, 1, 0);
  for (float& v : x.data) v = 1;
  x.data[11] = static_cast<float>(kInf);
  x.data[29] = static_cast<float>(-kInf);
  run_scan(ScanKind::kCumSum, DType::kFloat32, x.shape, 1, y.operand(), {nullptr, DType::kInt64, nullptr}, x.operand());
  for (int64_t i = 0; i < 40; ++i) {
    if (i < 11)
      EXPECT_EQ(y.data[i], static_cast<float>(i + 1));
    else if (i < 29)
      EXPECT_EQ(y.data[i], static_cast<float>(kInf));
    else
      EXPECT_TRUE(std::isnan(y.data[i]));
  }
}

}  // namespace
}  // namespace tessera::cpu
