#include "tensor/cpu/reduce/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/pointwise.h"

namespace tessera::cpu {
namespace {

using Complex = std::complex<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A strided array: a permuted, padded or broadcast view of a buffer.
struct Array {
  DType dtype;
  std::vector<int64_t> shape, strides;  // bytes
  std::vector<char> bytes;
  Operand operand() { return {bytes.data(), dtype, strides.data()}; }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  int64_t offset(int64_t linear) const {
    int64_t o = 0;
    for (size_t d = shape.size(); d-- > 0;) {
      o += linear % shape[d] * strides[d];
      linear /= shape[d];
    }
    return o;
  }
  Complex get(int64_t i) const {
    Complex c;
    convert(DType::kComplex128, &c, dtype, bytes.data() + offset(i), 1);
    return c;
  }
  void set(int64_t i, Complex v) { convert(dtype, bytes.data() + offset(i), DType::kComplex128, &v, 1); }
};

// layout 0: dense; 1: random permutation; 2: permutation with gaps; 3: some dimensions broadcast.
Array make(DType dtype, std::vector<int64_t> shape, int layout, std::mt19937& rng) {
  Array a{dtype, shape, std::vector<int64_t>(shape.size()), {}};
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (layout > 0) std::shuffle(order.begin(), order.end(), rng);
  int64_t bytes = item_size(dtype);
  for (size_t i = order.size(); i-- > 0;) {
    if (layout == 2 && rng() % 2) bytes *= 2;
    if (layout == 3 && rng() % 3 == 0) continue;
    a.strides[order[i]] = bytes;
    bytes *= std::max<int64_t>(1, shape[order[i]]);
  }
  a.bytes.resize(bytes + 16);
  return a;
}

Array make_out(DType dtype, std::vector<int64_t> shape, uint64_t mask, int layout, std::mt19937& rng) {
  std::vector<int64_t> kept = shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (mask >> d & 1) kept[d] = 1;
  Array a = make(dtype, kept, layout, rng);
  for (size_t d = 0; d < shape.size(); ++d)
    if (mask >> d & 1) a.strides[d] = 0;
  return a;
}

bool is_int(DType t) { return is_integral(t, true); }

void fill(Array& a, std::mt19937& rng, bool specials = false) {
  std::uniform_real_distribution<double> u(-2, 2);
  for (int64_t i = 0; i < a.count(); ++i) {
    Complex v(u(rng), u(rng));
    if (a.dtype == DType::kBool)
      v = static_cast<double>(rng() % 2);
    else if (is_int(a.dtype))
      v = static_cast<double>(static_cast<int64_t>(rng() % 7) - (dtype_info(a.dtype).is_signed ? 3 : 0));
    else if (specials && rng() % 20 == 0)
      v = rng() % 2 ? kNan : rng() % 2 ? kInf : -kInf;
    a.set(i, v);
  }
}

// For each output element, in row-major order of the kept shape, the input elements it reduces.
std::vector<std::vector<Complex>> groups(const Array& in, const Array& out, uint64_t mask) {
  std::vector<std::vector<Complex>> g(out.count());
  for (int64_t i = 0; i < in.count(); ++i) {
    int64_t rest = i, index = 0, scale = 1;
    for (size_t d = in.shape.size(); d-- > 0;) {
      const int64_t c = rest % in.shape[d];
      rest /= in.shape[d];
      if (!(mask >> d & 1)) index += c * scale;
      scale *= out.shape[d];
    }
    g[index].push_back(in.get(i));
  }
  return g;
}

Complex reference(ReduceKind kind, const std::vector<Complex>& x, double p, bool complex) {
  const double n = static_cast<double>(x.size());
  std::complex<long double> sum = 0;  // the order of the plain sum must not show
  Complex prod = 1;
  double ext = kind == ReduceKind::kMin ? kInf : -kInf, nansum = 0, squares = 0, count = 0, powers = 0, maxabs = 0,
         minabs = kInf;
  bool nan = false;
  for (Complex v : x) {
    sum += std::complex<long double>(v.real(), v.imag());
    prod = complex ? prod * v : prod.real() * v.real();
    const double r = v.real(), a = std::abs(v);
    if (std::isnan(r))
      nan = true;
    else
      nansum += r;
    ext = kind == ReduceKind::kMin ? std::min(ext, r) : std::max(ext, r);
    squares += a * a;
    count += v != Complex(0);
    powers += std::pow(a, p);
    maxabs = std::max(maxabs, a);
    minabs = std::min(minabs, a);
  }
  switch (kind) {
    case ReduceKind::kSum:
      return Complex(sum);
    case ReduceKind::kNanSum:
      return nansum;
    case ReduceKind::kProd:
      return prod;
    case ReduceKind::kMean:
      return Complex(sum) / n;
    case ReduceKind::kMax:
    case ReduceKind::kMin:
      return nan ? kNan : ext;
    case ReduceKind::kAll:
      return count == n;
    case ReduceKind::kAny:
      return count > 0;
    case ReduceKind::kSumSquares:
      return squares;
    case ReduceKind::kNorm:
      return p == 0 ? count : nan ? kNan : p == kInf ? maxabs : p == -kInf ? minabs : std::pow(powers, 1 / p);
    case ReduceKind::kCountNonzero:
      return count;
    case ReduceKind::kLogSumExp: {
      double m = -kInf, s = 0;
      for (Complex v : x) m = std::max(m, v.real());
      if (std::isinf(m)) return nan ? kNan : m;
      for (Complex v : x) s += std::exp(v.real() - m);
      return m + std::log(s);
    }
  }
  return 0;
}

double tolerance(DType t) {
  switch (t) {
    case DType::kFloat16:
      return 2e-3;
    case DType::kBFloat16:
      return 1e-2;
    case DType::kComplex32:
      return 4e-3;
    case DType::kFloat32:
    case DType::kComplex64:
      return 2e-6;
    default:
      return 1e-12;
  }
}

void expect_close(Complex got, Complex want, double tol, double scale) {
  auto close = [&](double g, double w) {
    if (std::isnan(w)) return std::isnan(g);
    if (std::isinf(w)) return g == w;
    return std::abs(g - w) <= tol * std::max(scale, std::abs(w));
  };
  EXPECT_TRUE(close(got.real(), want.real()) && close(got.imag(), want.imag())) << got << " instead of " << want;
}

const std::vector<std::vector<int64_t>> kShapes = {{},         {1},       {7},         {33},          {1500},
                                                   {70000},    {5, 3},    {3, 130},    {130, 3},      {2000, 3},
                                                   {300, 300}, {4, 5, 6}, {2, 200, 9}, {3, 1, 40, 5}, {2, 3, 2, 3, 2}};

DType result_dtype(ReduceKind kind, DType in) {
  switch (kind) {
    case ReduceKind::kAll:
    case ReduceKind::kAny:
      return DType::kBool;
    case ReduceKind::kCountNonzero:
      return DType::kInt64;
    case ReduceKind::kNorm:
    case ReduceKind::kSumSquares:
      return in == DType::kComplex64 ? DType::kFloat32 : in == DType::kComplex128 ? DType::kFloat64 : in;
    case ReduceKind::kSum:
    case ReduceKind::kProd:
      return is_int(in) ? DType::kInt64 : in;
    default:
      return in;
  }
}

void check(ReduceKind kind, DType dtype, double p, std::mt19937& rng) {
  for (const auto& shape : kShapes) {
    for (int layout = 0; layout < 4; ++layout) {
      Array in = make(dtype, shape, layout, rng);
      const bool large_too = dtype == DType::kFloat32 || dtype == DType::kInt64;
      if (in.count() > 3000 && !(large_too && layout < 2)) continue;
      fill(in, rng, kind != ReduceKind::kProd && rng() % 3 == 0);
      const uint64_t all = (uint64_t{1} << shape.size()) - 1;
      for (uint64_t mask : {all, uint64_t{rng()} & all}) {
        const DType result = result_dtype(kind, dtype);
        Array out = make_out(result, shape, mask, layout == 3 ? 0 : layout, rng);
        const DType compute = kind == ReduceKind::kNorm || kind == ReduceKind::kSumSquares ? dtype
                              : is_int(result)                                             ? result
                                                                                           : dtype;
        const KernelParam param{p};
        run_reduce(kind, compute, shape, mask, out.operand(), in.operand(), &param);
        const auto g = groups(in, out, mask);
        for (int64_t i = 0; i < out.count(); ++i) {
          double scale = 0;
          for (Complex v : g[i]) scale += std::isfinite(v.real()) ? std::abs(v) : 0;
          if (kind == ReduceKind::kMean) scale /= static_cast<double>(g[i].size());
          if (kind == ReduceKind::kMax || kind == ReduceKind::kMin || kind == ReduceKind::kProd) scale = 0;
          const Complex want = reference(kind, g[i], p, is_complex(dtype));
          if (std::abs(want) > 1e30 || (std::abs(want) > 6e4 && result == DType::kFloat16)) continue;
          if (kind == ReduceKind::kProd && is_int(dtype) && std::abs(want) > 1e15) continue;
          if (kind == ReduceKind::kProd && std::abs(want) < 1e-3) continue;
          const double tol = tolerance(result) * (kind == ReduceKind::kProd && is_complex(dtype) ? 10 : 1);
          expect_close(out.get(i), want, tol, scale);
          if (::testing::Test::HasFailure()) {
            FAIL() << "kind " << static_cast<int>(kind) << " dtype " << name_of(dtype) << " layout " << layout
                   << " mask " << mask << " rank " << shape.size() << " first size " << (shape.empty() ? 1 : shape[0])
                   << " at " << i << " p " << p;
          }
        }
      }
    }
  }
}

const std::vector<DType> kInts = {DType::kBool,  DType::kUInt8,  DType::kInt8,   DType::kInt16, DType::kInt32,
                                  DType::kInt64, DType::kUInt16, DType::kUInt32, DType::kUInt64};
const std::vector<DType> kFloats = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
const std::vector<DType> kComplexes = {DType::kComplex64, DType::kComplex128};

TEST(Reduce, SumsAndProductsOfEveryDtype) {
  std::mt19937 rng(1);
  for (ReduceKind kind : {ReduceKind::kSum, ReduceKind::kProd}) {
    for (const auto& list : {kInts, kFloats, kComplexes}) {
      for (DType t : list) check(kind, t, 0, rng);
    }
  }
  for (DType t : kFloats) check(ReduceKind::kNanSum, t, 0, rng);
  for (DType t : kFloats) check(ReduceKind::kMean, t, 0, rng);
  for (DType t : kComplexes) check(ReduceKind::kMean, t, 0, rng);
}

TEST(Reduce, ExtremaPropagateNan) {
  std::mt19937 rng(2);
  for (ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
    for (const auto& list : {kInts, kFloats}) {
      for (DType t : list) check(kind, t, 0, rng);
    }
  }
}

TEST(Reduce, AnyAllCount) {
  std::mt19937 rng(3);
  for (ReduceKind kind : {ReduceKind::kAny, ReduceKind::kAll, ReduceKind::kCountNonzero}) {
    for (const auto& list : {kInts, kFloats, kComplexes}) {
      for (DType t : list) check(kind, t, 0, rng);
    }
  }
}

TEST(Reduce, NormsOfEveryOrder) {
  std::mt19937 rng(4);
  for (double p : {0.0, 1.0, 2.0, 3.0, 2.5, -1.0, kInf, -kInf}) {
    for (DType t : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kComplex64, DType::kComplex128})
      check(ReduceKind::kNorm, t, p, rng);
  }
  for (DType t : kFloats) check(ReduceKind::kSumSquares, t, 2, rng);
}

TEST(Reduce, ComplexLogSumExp) {
  std::mt19937 rng(8);
  for (DType t : kComplexes) {
    for (uint64_t mask : {1, 2, 3}) {
      Array in = make(t, {7, 40}, 0, rng), out = make_out(t, in.shape, mask, 0, rng);
      fill(in, rng);
      for (int64_t i = 0; i < in.count(); ++i) in.set(i, in.get(i) + 500.0);
      run_reduce(ReduceKind::kLogSumExp, t, in.shape, mask, out.operand(), in.operand(), nullptr);
      const auto g = groups(in, out, mask);
      for (int64_t i = 0; i < out.count(); ++i) {
        Complex s = 0;
        for (Complex v : g[i]) s += std::exp(v - 500.0);
        expect_close(out.get(i), std::log(s) + 500.0, tolerance(t), 500);
      }
    }
  }
  std::complex<double> x[3] = {{-kInf, 0}, {1, 2}, {-kInf, 1}}, out;
  const int64_t shape[1] = {3}, stride[1] = {16}, zero[1] = {0};
  run_reduce(ReduceKind::kLogSumExp, DType::kComplex128, shape, 1, {&out, DType::kComplex128, zero},
             {x, DType::kComplex128, stride}, nullptr);
  EXPECT_NEAR(std::abs(out - Complex(1, 2)), 0, 1e-14);
}

TEST(Reduce, LogSumExpIsStable) {
  std::mt19937 rng(5);
  for (DType t : kFloats) check(ReduceKind::kLogSumExp, t, 0, rng);
  std::vector<float> x = {1000, 1000, -1000};
  float out;
  const int64_t shape[1] = {3}, stride[1] = {4}, zero[1] = {0};
  run_reduce(ReduceKind::kLogSumExp, DType::kFloat32, shape, 1, {&out, DType::kFloat32, zero},
             {x.data(), DType::kFloat32, stride}, nullptr);
  EXPECT_FLOAT_EQ(out, 1000 + std::log(2.0f));
}

double reduce_empty(ReduceKind kind) {
  double out = -7, param_storage = 2;
  KernelParam param{param_storage};
  const int64_t shape[2] = {3, 0}, stride[2] = {8, 8}, zero[2] = {0, 0};
  run_reduce(kind, DType::kFloat64, shape, 3, {&out, DType::kFloat64, zero}, {nullptr, DType::kFloat64, stride},
             &param);
  return out;
}
TEST(Reduce, EmptyReductionsGiveTheIdentity) {
  EXPECT_EQ(reduce_empty(ReduceKind::kSum), 0);
  EXPECT_EQ(reduce_empty(ReduceKind::kNanSum), 0);
  EXPECT_EQ(reduce_empty(ReduceKind::kProd), 1);
  EXPECT_TRUE(std::isnan(reduce_empty(ReduceKind::kMean)));
  EXPECT_EQ(reduce_empty(ReduceKind::kAll), 1);
  EXPECT_EQ(reduce_empty(ReduceKind::kAny), 0);
  EXPECT_EQ(reduce_empty(ReduceKind::kNorm), 0);
  EXPECT_EQ(reduce_empty(ReduceKind::kCountNonzero), 0);
  EXPECT_EQ(reduce_empty(ReduceKind::kLogSumExp), -kInf);
}
TEST(Reduce, EmptyOutputsAreNotTouched) {
  const int64_t shape[2] = {0, 3}, stride[2] = {12, 4}, zero[2] = {4, 0};
  run_reduce(ReduceKind::kSum, DType::kFloat32, shape, 2, {nullptr, DType::kFloat32, zero},
             {nullptr, DType::kFloat32, stride}, nullptr);
}

TEST(Reduce, ErrorOfLongSumsDoesNotGrow) {
  const int64_t n = 1 << 22;
  std::vector<float> x(n, 0.1f);
  float out;
  const int64_t shape[1] = {n}, stride[1] = {4}, zero[1] = {0};
  run_reduce(ReduceKind::kSum, DType::kFloat32, shape, 1, {&out, DType::kFloat32, zero},
             {x.data(), DType::kFloat32, stride}, nullptr);
  const double want = static_cast<double>(0.1f) * n;
  EXPECT_NEAR(out, want, 4e-7 * want);
  // And down columns.
  std::vector<float> sums(2);
  const int64_t shape2[2] = {n / 2, 2}, stride2[2] = {8, 4}, out2[2] = {0, 4};
  run_reduce(ReduceKind::kSum, DType::kFloat32, shape2, 1, {sums.data(), DType::kFloat32, out2},
             {x.data(), DType::kFloat32, stride2}, nullptr);
  EXPECT_NEAR(sums[0], want / 2, 4e-7 * want);
}

// Squares that float32 cannot hold, between others.
TEST(Reduce, NormsOfTheLargestAndSmallestNumbers) {
  for (float scale : {1e-30f, 1e-20f, 1.f, 1e25f}) {
    for (int64_t rows : {1, 3, 70}) {
      const int64_t n = 5000;
      std::vector<float> x(rows * n), out(n);
      for (size_t i = 0; i < x.size(); ++i) x[i] = scale * static_cast<float>(1 + i % 7);
      const int64_t shape[2] = {rows, n}, stride[2] = {4 * n, 4}, along[2] = {4, 0}, down[2] = {0, 4};
      KernelParam p[1];
      p[0].f = 2;
      run_reduce(ReduceKind::kNorm, DType::kFloat32, shape, 2, {out.data(), DType::kFloat32, along},
                 {x.data(), DType::kFloat32, stride}, p);
      double want = 0;
      for (int64_t i = 0; i < n; ++i) want += static_cast<double>(x[i]) * x[i];
      EXPECT_NEAR(out[0] / std::sqrt(want), 1, 3e-7);
      run_reduce(ReduceKind::kNorm, DType::kFloat32, shape, 1, {out.data(), DType::kFloat32, down},
                 {x.data(), DType::kFloat32, stride}, p);
      for (int64_t i = 0; i < n; ++i) {
        want = 0;
        for (int64_t r = 0; r < rows; ++r) want += static_cast<double>(x[r * n + i]) * x[r * n + i];
        ASSERT_NEAR(out[i] / std::sqrt(want), 1, 3e-7);
      }
    }
  }
}

template <class T>
void check_extremes(DType dtype) {
  std::mt19937 rng(11);
  for (int64_t rows : {1, 4, 5, 9}) {
    for (int64_t n : {1, 3, 8, 15, 16, 31, 100, 4099}) {
      std::vector<T> x(rows * n), out(std::max(rows, n));
      for (T& v : x)
        v = static_cast<T>(static_cast<int64_t>(rng()) * (rng() % 2 ? 1 : -1)) + static_cast<T>(uint64_t{rng()} << 32);
      const int64_t size = sizeof(T), shape[2] = {rows, n}, stride[2] = {size * n, size}, along[2] = {size, 0},
                    down[2] = {0, size};
      for (ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
        auto better = [&](T a, T b) { return kind == ReduceKind::kMax ? std::max(a, b) : std::min(a, b); };
        run_reduce(kind, dtype, shape, 2, {out.data(), dtype, along}, {x.data(), dtype, stride}, nullptr);
        for (int64_t r = 0; r < rows; ++r) {
          T want = x[r * n];
          for (int64_t i = 0; i < n; ++i) want = better(want, x[r * n + i]);
          ASSERT_EQ(out[r], want);
        }
        run_reduce(kind, dtype, shape, 1, {out.data(), dtype, down}, {x.data(), dtype, stride}, nullptr);
        for (int64_t i = 0; i < n; ++i) {
          T want = x[i];
          for (int64_t r = 0; r < rows; ++r) want = better(want, x[r * n + i]);
          ASSERT_EQ(out[i], want);
        }
      }
    }
  }
}
TEST(Reduce, ExtremaOfAllTypes) {
  check_extremes<float>(DType::kFloat32);
  check_extremes<double>(DType::kFloat64);
  check_extremes<int32_t>(DType::kInt32);
  check_extremes<int64_t>(DType::kInt64);
  check_extremes<uint64_t>(DType::kUInt64);
}
TEST(Reduce, OrdersOfInfinity) {
  for (bool smallest : {false, true}) {
    for (int64_t n : {1, 7, 40, 1000}) {
      std::vector<float> x(n, -3.f);
      x[n / 2] = smallest ? -2.f : -5.f;
      float out;
      const int64_t shape[1] = {n}, stride[1] = {4}, zero[1] = {0};
      KernelParam p[1];
      p[0].f = smallest ? -kInf : kInf;
      run_reduce(ReduceKind::kNorm, DType::kFloat32, shape, 1, {&out, DType::kFloat32, zero},
                 {x.data(), DType::kFloat32, stride}, p);
      EXPECT_EQ(out, smallest ? 2.f : 5.f);
      x[0] = static_cast<float>(kNan);
      run_reduce(ReduceKind::kNorm, DType::kFloat32, shape, 1, {&out, DType::kFloat32, zero},
                 {x.data(), DType::kFloat32, stride}, p);
      EXPECT_TRUE(std::isnan(out));
    }
  }
}

TEST(Reduce, SameBitsForAnyNumberOfThreads) {
  std::mt19937 rng(6);
  const int before = num_threads();
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{300000}, {1000, 300}, {70000, 5}, {40, 100, 100}}) {
    Array in = make(DType::kFloat32, shape, 0, rng);
    fill(in, rng);
    for (uint64_t mask = 1; mask < (uint64_t{1} << shape.size()); ++mask) {
      for (ReduceKind kind : {ReduceKind::kSum, ReduceKind::kProd, ReduceKind::kLogSumExp, ReduceKind::kSumSquares}) {
        Array one = make_out(DType::kFloat32, shape, mask, 0, rng), two = one;
        set_num_threads(1);
        run_reduce(kind, DType::kFloat32, shape, mask, one.operand(), in.operand(), nullptr);
        run_var_mean(DType::kFloat32, shape, mask, 1, true, one.operand(), {nullptr, DType::kFloat32, nullptr},
                     in.operand());
        set_num_threads(2);
        run_reduce(kind, DType::kFloat32, shape, mask, two.operand(), in.operand(), nullptr);
        run_var_mean(DType::kFloat32, shape, mask, 1, true, two.operand(), {nullptr, DType::kFloat32, nullptr},
                     in.operand());
        EXPECT_EQ(std::memcmp(one.bytes.data(), two.bytes.data(), one.bytes.size()), 0);
      }
    }
  }
  set_num_threads(before);
}

void check_var(DType dtype, const std::vector<int64_t>& shape, int layout, std::mt19937& rng) {
  Array in = make(dtype, shape, layout, rng);
  fill(in, rng);
  const uint64_t mask = rng() & ((uint64_t{1} << shape.size()) - 1);
  const bool root = rng() % 2;
  const double correction = static_cast<double>(rng() % 2);
  const DType real = dtype == DType::kComplex64    ? DType::kFloat32
                     : dtype == DType::kComplex128 ? DType::kFloat64
                                                   : dtype;
  Array var = make_out(real, shape, mask, 0, rng), mean = make_out(dtype, shape, mask, 1, rng);
  run_var_mean(dtype, shape, mask, correction, root, var.operand(), mean.operand(), in.operand());
  const auto g = groups(in, var, mask);
  for (int64_t i = 0; i < var.count(); ++i) {
    Complex m = 0;
    double v = 0;
    for (Complex x : g[i]) m += x / static_cast<double>(g[i].size());
    for (Complex x : g[i]) v += std::norm(x - m);
    v /= std::max(0.0, static_cast<double>(g[i].size()) - correction);
    if (root) v = std::sqrt(v);
    expect_close(var.get(i), v, tolerance(real), 1);
    expect_close(mean.get(i), m, tolerance(dtype), 1);
  }
}
TEST(VarMean, MatchesTwoPasses) {
  std::mt19937 rng(7);
  for (DType t :
       {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128}) {
    for (const auto& shape : kShapes) {
      for (int layout = 0; layout < 4; ++layout) check_var(t, shape, layout, rng);
    }
  }
}
TEST(VarMean, LargeOffsetKeepsItsDigits) {
  std::vector<float> x(10000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1e6f + static_cast<float>(i % 2);
  float var, mean;
  const int64_t shape[1] = {10000}, stride[1] = {4}, zero[1] = {0};
  run_var_mean(DType::kFloat32, shape, 1, 0, false, {&var, DType::kFloat32, zero}, {&mean, DType::kFloat32, zero},
               {x.data(), DType::kFloat32, stride});
  EXPECT_FLOAT_EQ(var, 0.25f);
  EXPECT_FLOAT_EQ(mean, 1000000.5f);
}

// The first element tells nothing about the others.
TEST(VarMean, AnOutlierComesFirst) {
  for (float first : {3e9f, 3e4f, static_cast<float>(kInf)}) {
    std::vector<float> x(2000, 1.f);
    for (size_t i = 0; i < x.size(); i += 2) x[i] = -1.f;
    x[0] = first;
    float var, mean;
    const int64_t shape[1] = {2000}, stride[1] = {4}, zero[1] = {0};
    run_var_mean(DType::kFloat32, shape, 1, 0, false, {&var, DType::kFloat32, zero}, {&mean, DType::kFloat32, zero},
                 {x.data(), DType::kFloat32, stride});
    const double m = (first + 1.0) / 2000, v = (static_cast<double>(first) * first + 1999) / 2000 - m * m;
    EXPECT_FLOAT_EQ(mean, static_cast<float>(m));
    if (std::isinf(first))
      EXPECT_TRUE(std::isnan(var));
    else
      EXPECT_NEAR(var / v, 1, 2e-7);
  }
}

TEST(Reduce, UnknownCombinationIsAnError) {
  const int64_t shape[1] = {1}, stride[1] = {8}, zero[1] = {0};
  std::complex<float> x, out;
  EXPECT_THROW(run_reduce(ReduceKind::kMax, DType::kComplex64, shape, 1, {&out, DType::kComplex64, zero},
                          {&x, DType::kComplex64, stride}, nullptr),
               NotImplementedError);
}

}  // namespace
}  // namespace tessera::cpu
