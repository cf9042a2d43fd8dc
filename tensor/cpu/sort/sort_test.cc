// Sorting, selection, search, argmax, scans and softmax: everything that works along lines of one dimension.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cpu/sort/sort.h"

namespace tessera::cpu {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Array {
  DType dtype;
  std::vector<int64_t> shape, strides;
  std::vector<char> bytes;
  Operand operand() { return {bytes.data(), dtype, strides.data()}; }
  int64_t count() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()); }
};

// Dense, or with shuffled dimensions and gaps.
Array make(DType dtype, std::vector<int64_t> shape, bool shuffled, std::mt19937& rng) {
  Array a{dtype, shape, std::vector<int64_t>(shape.size()), {}};
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (shuffled) std::shuffle(order.begin(), order.end(), rng);
  int64_t bytes = item_size(dtype);
  for (size_t i = order.size(); i-- > 0;) {
    if (shuffled && rng() % 2) bytes *= 2;
    a.strides[order[i]] = bytes;
    bytes *= std::max<int64_t>(1, shape[order[i]]);
  }
  a.bytes.resize(bytes + 16);
  return a;
}

std::vector<double> read(Array& a) {
  std::vector<double> v(a.count());
  std::vector<int64_t> dense(a.shape.size());
  int64_t s = 8;
  for (size_t d = dense.size(); d-- > 0; s *= a.shape[d]) dense[d] = s;
  copy_strided(a.shape, {v.data(), DType::kFloat64, dense.data()}, a.operand());
  return v;
}
void write(Array& a, std::vector<double>& v) {
  std::vector<int64_t> dense(a.shape.size());
  int64_t s = 8;
  for (size_t d = dense.size(); d-- > 0; s *= a.shape[d]) dense[d] = s;
  copy_strided(a.shape, a.operand(), {v.data(), DType::kFloat64, dense.data()});
}

void fill(Array& a, std::mt19937& rng, bool specials, bool few_values) {
  std::vector<double> v(a.count());
  for (double& x : v) {
    if (is_integral(a.dtype, true)) {
      const int64_t span = a.dtype == DType::kBool ? 2 : few_values ? 5 : item_size(a.dtype) == 1 ? 100 : 30000;
      x = static_cast<double>(static_cast<int64_t>(rng() % span) - (dtype_info(a.dtype).is_signed ? span / 2 : 0));
      continue;
    }
    x = few_values ? static_cast<double>(rng() % 5) - 2 : std::normal_distribution<double>(0, 3)(rng);
    if (x == 0 && rng() % 2) x = -0.0;
    if (specials && rng() % 10 == 0) x = rng() % 3 == 0 ? kNan : rng() % 2 ? kInf : -kInf;
  }
  write(a, v);
}

// Row-major positions of the elements of every line along dim.
std::vector<std::vector<int64_t>> lines_of(const std::vector<int64_t>& shape, int dim) {
  int64_t outer = 1, inner = 1;
  const int64_t n = shape.empty() ? 1 : shape[dim];
  for (int d = 0; d < static_cast<int>(shape.size()); ++d)
    (d < dim ? outer : d > dim ? inner : outer) *= d == dim ? 1 : shape[d];
  std::vector<std::vector<int64_t>> lines;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      lines.emplace_back();
      for (int64_t k = 0; k < n; ++k) lines.back().push_back((o * n + k) * inner + i);
    }
  }
  return lines;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

const std::vector<DType> kReal = {DType::kBool,     DType::kUInt8,   DType::kInt8,   DType::kInt16,  DType::kInt32,
                                  DType::kInt64,    DType::kUInt16,  DType::kUInt32, DType::kUInt64, DType::kFloat16,
                                  DType::kBFloat16, DType::kFloat32, DType::kFloat64};
const std::vector<DType> kFloats = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
const std::vector<std::vector<int64_t>> kShapes = {{},       {1},      {5},      {40},      {700},      {9, 33},
                                                   {3, 300}, {300, 3}, {90, 23}, {2, 5, 7}, {4, 1, 70}, {2, 0, 3}};

int pick_dim(const std::vector<int64_t>& shape, std::mt19937& rng) {
  return shape.empty() ? 0 : static_cast<int>(rng() % shape.size());
}

void check_sort(DType t, const std::vector<int64_t>& shape, std::mt19937& rng) {
  const int dim = pick_dim(shape, rng);
  const bool descending = rng() % 2;
  Array in = make(t, shape, rng() % 2, rng), values = make(t, shape, rng() % 2, rng),
        indices = make(DType::kInt64, shape, rng() % 2, rng);
  fill(in, rng, rng() % 2, rng() % 2);
  run_sort(shape, dim, descending, values.operand(), indices.operand(), in.operand());
  const auto x = read(in), v = read(values), at = read(indices);
  for (const auto& line : lines_of(shape, dim)) {
    std::vector<int64_t> order(line.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return descending ? less(x[line[b]], x[line[a]]) : less(x[line[a]], x[line[b]]);
    });
    for (size_t i = 0; i < line.size(); ++i) {
      ASSERT_EQ(at[line[i]], static_cast<double>(order[i])) << name_of(t) << " at " << i << " of " << line.size();
      ASSERT_TRUE(same(v[line[i]], x[line[order[i]]]));
      ASSERT_EQ(std::signbit(v[line[i]]), std::signbit(x[line[order[i]]]));  // -0 stays -0
    }
  }
}
TEST(Sort, StableForEveryDtypeAndDimension) {
  std::mt19937 rng(1);
  for (DType t : kReal) {
    for (const auto& shape : kShapes) {
      for (int i = 0; i < 4; ++i) check_sort(t, shape, rng);
    }
  }
}
TEST(Sort, ComplexIsATypeError) {
  std::complex<float> x;
  int64_t i;
  EXPECT_THROW(run_sort({}, 0, false, {&x, DType::kComplex64, nullptr}, {&i, DType::kInt64, nullptr},
                        {&x, DType::kComplex64, nullptr}),
               TypeError);
}
TEST(Sort, LongLines) {
  std::mt19937 rng(2);
  for (DType t : {DType::kUInt8, DType::kInt32, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kInt64})
    check_sort(t, {50000}, rng);
}

void check_topk(DType t, const std::vector<int64_t>& shape, int64_t k, std::mt19937& rng) {
  const int dim = pick_dim(shape, rng);
  const int64_t n = shape.empty() ? 1 : shape[dim];
  k = std::min(k, n);
  const bool largest = rng() % 2;
  std::vector<int64_t> out_shape = shape;
  if (!shape.empty()) out_shape[dim] = k;
  Array in = make(t, shape, rng() % 2, rng), values = make(t, out_shape, rng() % 2, rng),
        indices = make(DType::kInt64, out_shape, rng() % 2, rng);
  fill(in, rng, rng() % 2, rng() % 2);
  run_topk(shape, dim, k, largest, true, values.operand(), indices.operand(), in.operand());
  const auto x = read(in), v = read(values), at = read(indices);
  const auto lines = lines_of(shape, dim), out_lines = lines_of(out_shape, dim);
  for (size_t l = 0; l < lines.size(); ++l) {
    std::vector<double> sorted;
    for (int64_t p : lines[l]) sorted.push_back(x[p]);
    std::sort(sorted.begin(), sorted.end(), [&](double a, double b) { return largest ? less(b, a) : less(a, b); });
    std::vector<bool> used(lines[l].size());
    for (int64_t i = 0; i < (shape.empty() ? 1 : k); ++i) {
      const int64_t p = out_lines[l][i], from = static_cast<int64_t>(at[p]);
      ASSERT_TRUE(same(v[p], sorted[i])) << name_of(t) << ": " << v[p] << " instead of " << sorted[i];
      ASSERT_TRUE(same(v[p], x[lines[l][from]]));
      ASSERT_FALSE(used[from]);
      used[from] = true;
    }
  }
}
TEST(Topk, FindsTheExtremes) {
  std::mt19937 rng(3);
  for (DType t : kReal) {
    for (const auto& shape : kShapes) {
      for (int64_t k : {1, 3, 10, 200}) check_topk(t, shape, k, rng);
    }
  }
  for (int64_t k : {1, 50, 3000, 20000}) check_topk(DType::kFloat32, {20000}, k, rng);
}
TEST(Topk, KOutOfRange) {
  float x[3] = {};
  int64_t i[3];
  const int64_t shape[1] = {3}, s4[1] = {4}, s8[1] = {8};
  EXPECT_THROW(
      run_topk(shape, 0, 4, true, true, {x, DType::kFloat32, s4}, {i, DType::kInt64, s8}, {x, DType::kFloat32, s4}),
      Error);
}

TEST(ArgReduce, FirstOfEqualsAndNan) {
  std::mt19937 rng(4);
  for (DType t : kReal) {
    for (const auto& shape : kShapes) {
      for (int round = 0; round < 3; ++round) {
        const int dim = pick_dim(shape, rng);
        if (!shape.empty() && shape[dim] == 0) continue;
        const bool largest = rng() % 2;
        std::vector<int64_t> out_shape = shape;
        if (!shape.empty()) out_shape[dim] = 1;
        Array in = make(t, shape, rng() % 2, rng), values = make(t, out_shape, rng() % 2, rng),
              indices = make(DType::kInt64, out_shape, rng() % 2, rng);
        fill(in, rng, rng() % 2, rng() % 2);
        run_arg_reduce(largest, shape, dim, rng() % 4 ? values.operand() : Operand{nullptr, t, nullptr},
                       indices.operand(), in.operand());
        const auto x = read(in), at = read(indices);
        const auto lines = lines_of(shape, dim);
        for (size_t l = 0; l < lines.size(); ++l) {
          size_t best = 0;
          for (size_t i = 0; i < lines[l].size(); ++i) {
            const double b = x[lines[l][best]], v = x[lines[l][i]];
            if (!std::isnan(b) && (std::isnan(v) || (largest ? v > b : v < b))) best = i;
          }
          ASSERT_EQ(at[l], static_cast<double>(best)) << name_of(t);
        }
      }
    }
  }
}
TEST(ArgReduce, ValuesComeWithTheIndices) {
  std::vector<float> x(5000, 1.0f);
  x[4321] = 2.0f;
  float value;
  int64_t index;
  const int64_t shape[1] = {5000}, s4[1] = {4}, zero[1] = {0};
  run_arg_reduce(true, shape, 0, {&value, DType::kFloat32, zero}, {&index, DType::kInt64, zero},
                 {x.data(), DType::kFloat32, s4});
  EXPECT_EQ(index, 4321);
  EXPECT_EQ(value, 2.0f);
  x[2000] = x[4000] = std::nanf("");
  run_arg_reduce(false, shape, 0, {&value, DType::kFloat32, zero}, {&index, DType::kInt64, zero},
                 {x.data(), DType::kFloat32, s4});
  EXPECT_EQ(index, 2000);
  EXPECT_TRUE(std::isnan(value));
}

TEST(Searchsorted, MatchesTheDefinition) {
  std::mt19937 rng(5);
  for (DType t : kReal) {
    for (int round = 0; round < 8; ++round) {
      const bool shared = round & 1, right = round & 2, narrow = round & 4;
      const int64_t rows = 3, m = 20, n = 15;
      Array b = make(t, {shared ? 1 : rows, m}, false, rng), v = make(t, {rows, n}, false, rng);
      fill(b, rng, false, true);
      fill(v, rng, false, rng() % 2);
      // The boundaries are sorted through the sorter half of the time.
      auto bv = read(b);
      std::vector<int64_t> sorter;
      for (int64_t r = 0; r < (shared ? 1 : rows); ++r) {
        std::vector<int64_t> order(m);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t p, int64_t q) { return bv[r * m + p] < bv[r * m + q]; });
        sorter.insert(sorter.end(), order.begin(), order.end());
      }
      std::vector<int64_t> out(rows * n);
      run_searchsorted(t, b.bytes.data(), m, shared, sorter.data(), v.bytes.data(), rows, n, right, narrow, out.data());
      const auto vv = read(v);
      for (int64_t i = 0; i < rows * n; ++i) {
        const int64_t row = shared ? 0 : i / n;
        int64_t want = 0;
        for (int64_t k = 0; k < m; ++k) want += right ? bv[row * m + k] <= vv[i] : bv[row * m + k] < vv[i];
        const int64_t got = narrow ? reinterpret_cast<int32_t*>(out.data())[i] : out[i];
        ASSERT_EQ(got, want) << name_of(t);
      }
    }
  }
  const float boundaries[3] = {1, 2, 3}, value = std::nanf("");
  int64_t out;
  run_searchsorted(DType::kFloat32, boundaries, 3, true, nullptr, &value, 1, 1, false, false, &out);
  EXPECT_EQ(out, 3);
  const int64_t bad[3] = {0, 1, 3};
  EXPECT_THROW(run_searchsorted(DType::kFloat32, boundaries, 3, true, bad, &value, 1, 1, false, false, &out), Error);
}

// ---- scans

double scan_step(ScanKind kind, double a, double x) {
  switch (kind) {
    case ScanKind::kCumSum:
      return a + x;
    case ScanKind::kCumProd:
      return a * x;
    case ScanKind::kLogCumSumExp:
      if (std::isnan(a) || std::isnan(x)) return kNan;
      if (std::isinf(std::max(a, x))) return std::max(a, x);
      return std::max(a, x) + std::log(std::exp(a - std::max(a, x)) + std::exp(x - std::max(a, x)));
    default:
      return 0;
  }
}
double tolerance(DType t) {
  return t == DType::kFloat16 ? 1e-3 : t == DType::kBFloat16 ? 8e-3 : t == DType::kFloat32 ? 1e-6 : 1e-12;
}

void expect_close(double got, double want, DType t, double scale) {
  if (std::isnan(want) || std::isinf(want)) {
    EXPECT_TRUE(same(got, want)) << got << " instead of " << want << ' ' << name_of(t);
  } else {
    EXPECT_NEAR(got, want, tolerance(t) * std::max(scale, std::abs(want))) << name_of(t);
  }
}

TEST(Scan, SumsProductsLogs) {
  std::mt19937 rng(6);
  for (ScanKind kind : {ScanKind::kCumSum, ScanKind::kCumProd, ScanKind::kLogCumSumExp}) {
    for (DType t : kFloats) {
      for (const auto& shape : kShapes) {
        const int dim = pick_dim(shape, rng);
        Array in = make(t, shape, rng() % 2, rng), out = make(t, shape, rng() % 2, rng);
        fill(in, rng, kind != ScanKind::kCumProd && rng() % 3 == 0, kind == ScanKind::kCumProd);
        run_scan(kind, t, shape, dim, out.operand(), {nullptr, DType::kInt64, nullptr}, in.operand());
        const auto x = read(in), y = read(out);
        for (const auto& line : lines_of(shape, dim)) {
          double a = kind == ScanKind::kCumSum ? 0 : kind == ScanKind::kCumProd ? 1 : -kInf, scale = 1e-3;
          for (int64_t p : line) {
            a = scan_step(kind, a, x[p]);
            scale += std::isfinite(x[p]) ? std::abs(x[p]) : 0;
            if (std::abs(a) > 6e4 && std::isfinite(a)) break;
            expect_close(y[p], a, t, kind == ScanKind::kCumProd ? 0 : scale);
          }
        }
      }
    }
  }
}
TEST(Scan, IntegersAndBoolSumInInt64) {
  std::mt19937 rng(7);
  for (DType t : {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt32, DType::kInt64}) {
    Array in = make(t, {7, 50}, true, rng), out = make(DType::kInt64, {7, 50}, true, rng);
    fill(in, rng, false, false);
    run_scan(ScanKind::kCumSum, DType::kInt64, in.shape, 1, out.operand(), {nullptr, DType::kInt64, nullptr},
             in.operand());
    const auto x = read(in), y = read(out);
    for (const auto& line : lines_of(in.shape, 1)) {
      double a = 0;
      for (int64_t p : line) EXPECT_EQ(y[p], a += x[p]);
    }
  }
}
TEST(Scan, ComplexSum) {
  const std::vector<std::complex<float>> x = {{1, 2}, {3, -1}, {0, 5}};
  std::vector<std::complex<float>> y(3);
  const int64_t shape[1] = {3}, stride[1] = {8};
  run_scan(ScanKind::kCumSum, DType::kComplex64, shape, 0, {y.data(), DType::kComplex64, stride},
           {nullptr, DType::kInt64, nullptr}, {const_cast<std::complex<float>*>(x.data()), DType::kComplex64, stride});
  EXPECT_EQ(y[2], (std::complex<float>(4, 6)));
}
TEST(Scan, ExtremaTakeTheLastOfEquals) {
  std::mt19937 rng(8);
  for (ScanKind kind : {ScanKind::kCumMax, ScanKind::kCumMin}) {
    for (DType t : kReal) {
      for (const auto& shape : kShapes) {
        const int dim = pick_dim(shape, rng);
        Array in = make(t, shape, rng() % 2, rng), out = make(t, shape, rng() % 2, rng),
              indices = make(DType::kInt64, shape, rng() % 2, rng);
        fill(in, rng, rng() % 2, rng() % 2);
        run_scan(kind, t, shape, dim, out.operand(), indices.operand(), in.operand());
        const auto x = read(in), y = read(out), at = read(indices);
        for (const auto& line : lines_of(shape, dim)) {
          double best = line.empty() ? 0 : x[line[0]];
          size_t index = 0;
          for (size_t i = 0; i < line.size(); ++i) {
            const double v = x[line[i]];
            if (std::isnan(v) || (!std::isnan(best) && (kind == ScanKind::kCumMax ? v >= best : v <= best))) {
              best = v;
              index = i;
            }
            ASSERT_TRUE(same(y[line[i]], best));
            ASSERT_EQ(at[line[i]], static_cast<double>(index));
          }
        }
      }
    }
  }
}

// ---- softmax

TEST(Softmax, ForwardMatchesTheDefinition) {
  std::mt19937 rng(9);
  for (DType t : kFloats) {
    for (const auto& shape : kShapes) {
      for (int round = 0; round < 4; ++round) {
        const int dim = pick_dim(shape, rng);
        const bool log = round & 1;
        Array in = make(t, shape, rng() % 2, rng), out = make(t, shape, rng() % 2, rng);
        fill(in, rng, round & 2, false);
        run_softmax(log, shape, dim, out.operand(), in.operand());
        const auto x = read(in), y = read(out);
        for (const auto& line : lines_of(shape, dim)) {
          double m = -kInf, s = 0;
          bool nan = false;
          for (int64_t p : line) nan |= std::isnan(x[p]), m = std::max(m, x[p]);
          for (int64_t p : line) s += std::exp(x[p] - m);
          for (int64_t p : line) {
            const double want = nan || std::isinf(m) ? kNan : log ? x[p] - m - std::log(s) : std::exp(x[p] - m) / s;
            expect_close(y[p], want, t, log ? std::abs(m) + std::log(s) + 1 : 0.01);
          }
        }
      }
    }
  }
}
TEST(Softmax, LargeNumbersDoNotOverflow) {
  for (int64_t n : {3, 100}) {
    std::vector<float> x(n, 1000.0f), y(n);
    const int64_t shape[1] = {n}, stride[1] = {4};
    run_softmax(false, shape, 0, {y.data(), DType::kFloat32, stride}, {x.data(), DType::kFloat32, stride});
    for (float v : y) EXPECT_FLOAT_EQ(v, 1.0f / static_cast<float>(n));
  }
}
TEST(Softmax, BackwardMatchesTheDefinition) {
  std::mt19937 rng(10);
  for (DType t : kFloats) {
    for (const auto& shape : kShapes) {
      for (bool log : {false, true}) {
        const int dim = pick_dim(shape, rng);
        Array in = make(t, shape, false, rng), y = make(t, shape, rng() % 2, rng), g = make(t, shape, rng() % 2, rng),
              dx = make(t, shape, rng() % 2, rng);
        fill(in, rng, false, false);
        fill(g, rng, false, false);
        run_softmax(log, shape, dim, y.operand(), in.operand());
        run_softmax_backward(log, shape, dim, dx.operand(), g.operand(), y.operand());
        const auto yv = read(y), gv = read(g), d = read(dx);
        for (const auto& line : lines_of(shape, dim)) {
          double s = 0, scale = 1;
          for (int64_t p : line) s += log ? gv[p] : gv[p] * yv[p], scale += std::abs(gv[p]);
          for (int64_t p : line) expect_close(d[p], log ? gv[p] - std::exp(yv[p]) * s : yv[p] * (gv[p] - s), t, scale);
        }
      }
    }
  }
}
TEST(Softmax, IntegersAreRefused) {
  int32_t x = 1;
  float y;
  EXPECT_THROW(run_softmax(false, {}, 0, {&y, DType::kFloat32, nullptr}, {&x, DType::kInt32, nullptr}),
               NotImplementedError);
}

TEST(Lines, SameBitsForAnyNumberOfThreads) {
  std::mt19937 rng(11);
  const int before = num_threads();
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{500, 300}, {40, 100, 50}, {4, 60000}}) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      Array in = make(DType::kFloat32, shape, true, rng);
      fill(in, rng, false, false);
      std::vector<Array> results[2];
      for (int threads = 1; threads <= 2; ++threads) {
        set_num_threads(threads);
        std::mt19937 same_layout(12);
        Array soft = make(DType::kFloat32, shape, true, same_layout),
              sums = make(DType::kFloat32, shape, true, same_layout),
              sorted = make(DType::kFloat32, shape, true, same_layout),
              order = make(DType::kInt64, shape, false, same_layout);
        run_softmax(false, shape, dim, soft.operand(), in.operand());
        run_scan(ScanKind::kCumSum, DType::kFloat32, shape, dim, sums.operand(), {nullptr, DType::kInt64, nullptr},
                 in.operand());
        run_sort(shape, dim, true, sorted.operand(), order.operand(), in.operand());
        results[threads - 1] = {soft, sums, sorted, order};
      }
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(results[0][i].bytes, results[1][i].bytes) << i;
    }
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tessera::cpu
