#include "nn/cpu/attention/attention.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/core/half.h"
#include "tensor/core/parallel.h"

namespace tessera::cpu {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// [batch, heads, positions, features] in memory of a chosen layout; numbers of any of the dtypes.
struct Array {
  DType dtype;
  int64_t sizes[4], strides[4];
  std::vector<char> bytes;

  enum Layout { kDense, kHeadsInside, kSpaced };
  Array(DType t, int64_t b, int64_t h, int64_t n, int64_t f, Layout layout = kDense) : dtype(t), sizes{b, h, n, f} {
    const int64_t width = layout == kSpaced ? f + 3 : f;
    strides[3] = 1;
    if (layout == kHeadsInside) {
      strides[1] = width;
      strides[2] = width * h;
      strides[0] = width * h * n;
    } else {
      strides[2] = width;
      strides[1] = width * n;
      strides[0] = width * n * h;
    }
    bytes.assign((b * h * n * width + 8) * item_size(t), 0);
  }
  int64_t at(int64_t b, int64_t h, int64_t i, int64_t p) const {
    return b * strides[0] + h * strides[1] + i * strides[2] + p * strides[3];
  }
  double get(int64_t b, int64_t h, int64_t i, int64_t p) const { return read(at(b, h, i, p)); }
  double read(int64_t n) const {
    switch (dtype) {
      case DType::kFloat64:
        return value<double>(n);
      case DType::kFloat16:
        return static_cast<float>(value<Half>(n));
      case DType::kBFloat16:
        return static_cast<float>(value<BFloat16>(n));
      case DType::kBool:
        return value<uint8_t>(n);
      default:
        return value<float>(n);
    }
  }
  void set(int64_t b, int64_t h, int64_t i, int64_t p, double x) { write(at(b, h, i, p), x); }
  void write(int64_t n, double x) {
    switch (dtype) {
      case DType::kFloat64:
        return put(n, x);
      case DType::kFloat16:
        return put(n, static_cast<Half>(static_cast<float>(x)));
      case DType::kBFloat16:
        return put(n, static_cast<BFloat16>(static_cast<float>(x)));
      case DType::kBool:
        return put(n, static_cast<uint8_t>(x));
      default:
        return put(n, static_cast<float>(x));
    }
  }
  void fill(int seed, double scale = 1) {
    std::mt19937 rng(seed);
    std::normal_distribution<double> normal;
    for (int64_t b = 0; b < sizes[0]; ++b)
      for (int64_t h = 0; h < sizes[1]; ++h)
        for (int64_t i = 0; i < sizes[2]; ++i)
          for (int64_t p = 0; p < sizes[3]; ++p) set(b, h, i, p, scale * normal(rng));
  }
  AttentionOperand operand() { return {bytes.data(), strides[0], strides[1], strides[2]}; }

 private:
  template <class X>
  X value(int64_t n) const {
    X x;
    std::memcpy(&x, bytes.data() + n * sizeof(X), sizeof(X));
    return x;
  }
  template <class X>
  void put(int64_t n, X x) {
    std::memcpy(bytes.data() + n * sizeof(X), &x, sizeof(X));
  }
};

struct Case {
  AttentionShape shape;
  Array::Layout layout = Array::kDense;
  std::optional<DType> mask_dtype;
  bool mask_batch = true, mask_heads = true, mask_queries = true;  // else broadcast
  double mask_share = 0.3;                                         // of what a mask takes away
};

// A call: operands, results, and what the definition gives, in double precision.
struct Attempt {
  Case c;
  Array query, key, value, out, grad_out, grad_query, grad_key, grad_value, mask;
  std::vector<double> expected_out, expected_lse, expected_dq, expected_dk, expected_dv;
  std::vector<char> lse;

  explicit Attempt(const Case& given, int seed = 1)
      : c(given),
        query(make(c.shape.heads, c.shape.queries, c.shape.dim)),
        key(make(c.shape.kv_heads, c.shape.keys, c.shape.dim)),
        value(make(c.shape.kv_heads, c.shape.keys, c.shape.value_dim)),
        out(make(c.shape.heads, c.shape.queries, c.shape.value_dim)),
        grad_out(make(c.shape.heads, c.shape.queries, c.shape.value_dim)),
        grad_query(make(c.shape.heads, c.shape.queries, c.shape.dim)),
        grad_key(make(c.shape.kv_heads, c.shape.keys, c.shape.dim)),
        grad_value(make(c.shape.kv_heads, c.shape.keys, c.shape.value_dim)),
        mask(c.mask_dtype.value_or(DType::kFloat32), c.mask_batch ? c.shape.batch : 1, c.mask_heads ? c.shape.heads : 1,
             c.mask_queries ? c.shape.queries : 1, c.shape.keys) {
    query.fill(seed);
    key.fill(seed + 1);
    value.fill(seed + 2);
    grad_out.fill(seed + 3);
    std::mt19937 rng(seed + 4);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (int64_t i = 0; i < mask.sizes[0] * mask.sizes[1] * mask.sizes[2] * mask.sizes[3]; ++i) {
      const bool hidden = uniform(rng) < c.mask_share;
      mask.write(i, mask.dtype == DType::kBool ? !hidden : hidden ? -kInfinity : uniform(rng));
    }
    lse.assign(c.shape.batch * c.shape.heads * c.shape.queries * lse_size(), 0);
    reference();
  }
  Array make(int64_t heads, int64_t positions, int64_t features) const {
    return Array(c.shape.dtype, c.shape.batch, heads, positions, features, c.layout);
  }
  int64_t lse_size() const { return c.shape.dtype == DType::kFloat64 ? 8 : 4; }
  double lse_at(int64_t i) const {
    if (lse_size() == 4) {
      float x;
      std::memcpy(&x, lse.data() + i * 4, 4);
      return x;
    }
    double x;
    std::memcpy(&x, lse.data() + i * 8, 8);
    return x;
  }
  AttentionMask mask_operand() const {
    if (!c.mask_dtype) return {};
    return {mask.bytes.data(),
            *c.mask_dtype,
            c.mask_batch ? mask.strides[0] : 0,
            c.mask_heads ? mask.strides[1] : 0,
            c.mask_queries ? mask.strides[2] : 0,
            1};
  }
  double mask_at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (c.shape.causal && j > i) return -kInfinity;
    if (!c.mask_dtype) return 0;
    const double m = mask.get(c.mask_batch ? b : 0, c.mask_heads ? h : 0, c.mask_queries ? i : 0, j);
    return c.mask_dtype == DType::kBool ? (m != 0 ? 0 : -kInfinity) : m;
  }

  void reference() {
    const AttentionShape& s = c.shape;
    const int64_t group = s.heads / s.kv_heads;
    expected_out.assign(s.batch * s.heads * s.queries * s.value_dim, 0);
    expected_lse.assign(s.batch * s.heads * s.queries, -kInfinity);
    expected_dq.assign(s.batch * s.heads * s.queries * s.dim, 0);
    expected_dk.assign(s.batch * s.kv_heads * s.keys * s.dim, 0);
    expected_dv.assign(s.batch * s.kv_heads * s.keys * s.value_dim, 0);
    std::vector<double> w(s.keys), dp(s.keys);
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.queries; ++i) {
          const int64_t at = (b * s.heads + h) * s.queries + i, kv = h / group;
          double max = -kInfinity, sum = 0, delta = 0;
          for (int64_t j = 0; j < s.keys; ++j) {
            double x = 0;
            for (int64_t p = 0; p < s.dim; ++p) x += query.get(b, h, i, p) * key.get(b, kv, j, p);
            w[j] = x * s.scale + mask_at(b, h, i, j);
            max = std::max(max, w[j]);
          }
          if (max == -kInfinity) continue;
          for (double& x : w) sum += x = std::exp(x - max);
          expected_lse[at] = max + std::log(sum);
          for (int64_t j = 0; j < s.keys; ++j) {
            w[j] /= sum;
            dp[j] = 0;
            for (int64_t p = 0; p < s.value_dim; ++p) {
              const double g = grad_out.get(b, h, i, p), v = value.get(b, kv, j, p);
              expected_out[at * s.value_dim + p] += w[j] * v;
              expected_dv[((b * s.kv_heads + kv) * s.keys + j) * s.value_dim + p] += w[j] * g;
              dp[j] += g * v;
            }
            delta += w[j] * dp[j];
          }
          for (int64_t j = 0; j < s.keys; ++j)
            for (int64_t p = 0; p < s.dim; ++p) {
              const double ds = w[j] * (dp[j] - delta) * s.scale;
              expected_dq[at * s.dim + p] += ds * key.get(b, kv, j, p);
              expected_dk[((b * s.kv_heads + kv) * s.keys + j) * s.dim + p] += ds * query.get(b, h, i, p);
            }
        }
  }
  double tolerance() const {
    switch (c.shape.dtype) {
      case DType::kFloat64:
        return 1e-13;
      case DType::kFloat16:
        return 2e-3;
      case DType::kBFloat16:
        return 1.5e-2;
      default:
        return 4e-6;
    }
  }
  // Differences relative to the largest number expected (or 1).
  void compare(const char* what, const Array& a, const std::vector<double>& expected) const {
    double largest = 1, worst = 0;
    for (double x : expected) largest = std::max(largest, std::abs(x));
    int64_t n = 0;
    for (int64_t b = 0; b < a.sizes[0]; ++b)
      for (int64_t h = 0; h < a.sizes[1]; ++h)
        for (int64_t i = 0; i < a.sizes[2]; ++i)
          for (int64_t p = 0; p < a.sizes[3]; ++p, ++n) {
            const double e = std::abs(a.get(b, h, i, p) - expected[n]);
            worst = e > worst || e != e ? e : worst;
          }
    EXPECT_LE(worst, largest * tolerance()) << what;
  }
  void forward() {
    attention_forward(c.shape, query.operand(), key.operand(), value.operand(), mask_operand(), out.operand(),
                      lse.data());
  }
  void backward() {
    attention_backward(c.shape, query.operand(), key.operand(), value.operand(), mask_operand(), out.operand(),
                       lse.data(), grad_out.operand(), grad_query.operand(), grad_key.operand(), grad_value.operand());
  }
  void check() {
    const AttentionShape& s = c.shape;
    SCOPED_TRACE(testing::Message() << name_of(s.dtype) << " batch " << s.batch << " heads " << s.heads << "/"
                                    << s.kv_heads << " queries " << s.queries << " keys " << s.keys << " dim " << s.dim
                                    << "/" << s.value_dim << " causal " << s.causal << " mask "
                                    << (c.mask_dtype ? name_of(*c.mask_dtype) : "none") << c.mask_batch << c.mask_heads
                                    << c.mask_queries << " layout " << c.layout);
    forward();
    compare("out", out, expected_out);
    for (size_t i = 0; i < expected_lse.size(); ++i) {
      if (expected_lse[i] == -kInfinity)
        EXPECT_EQ(lse_at(i), -kInfinity) << i;
      else
        EXPECT_NEAR(lse_at(i), expected_lse[i],
                    std::max(1.0, std::abs(expected_lse[i])) * std::max(tolerance() / 10, 2e-14))
            << i;
    }
    backward();
    compare("grad_query", grad_query, expected_dq);
    compare("grad_key", grad_key, expected_dk);
    compare("grad_value", grad_value, expected_dv);
  }
};

AttentionShape shape(DType t, int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys,
                     int64_t dim, int64_t value_dim, bool causal = false) {
  return {t, batch, heads, kv_heads, queries, keys, dim, value_dim, 1 / std::sqrt(static_cast<double>(dim)), causal};
}
constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};

TEST(Attention, SizesAroundBlockEdges) {
  for (DType t : kTypes)
    for (int64_t queries : {1, 2, 5, 16, 17, 33, 64, 100})
      for (int64_t keys : {1, 3, 8, 63, 64, 65, 130})
        for (bool causal : {false, true}) Attempt({shape(t, 1, 2, 2, queries, keys, 24, 24, causal)}).check();
}
TEST(Attention, ManyQueries) {
  for (DType t : kTypes)
    for (int64_t queries : {256, 273, 300, 340, 1034}) {
      Attempt({shape(t, 1, 1, 1, queries, 70, 8, 8)}).check();
      Attempt({shape(t, 1, 1, 1, queries, queries - 20, 8, 8, true)}).check();
      Case c{shape(t, 1, 1, 1, queries, 70, 8, 8)};
      c.mask_dtype = DType::kBool;
      Attempt(c).check();
    }
}
TEST(Attention, Features) {
  for (DType t : kTypes)
    for (int64_t dim : {1, 3, 4, 7, 8, 16, 31, 32, 33, 64, 80, 128, 256, 300})
      for (int64_t value_dim : {dim, int64_t{1}, dim + 5}) {
        Attempt({shape(t, 1, 1, 1, 40, 70, dim, value_dim)}).check();
        Attempt({shape(t, 1, 2, 1, 1, 70, dim, value_dim)}).check();
      }
}
TEST(Attention, SharedHeadsAndLayouts) {
  for (DType t : kTypes)
    for (auto layout : {Array::kDense, Array::kHeadsInside, Array::kSpaced})
      for (int64_t kv_heads : {1, 2, 6})
        for (int64_t queries : {1, 3, 37}) Attempt({shape(t, 2, 6, kv_heads, queries, 90, 32, 16), layout}).check();
}
TEST(Attention, Masks) {
  for (DType t : kTypes)
    for (DType mask : {DType::kBool, DType::kFloat32, t})
      for (int broadcast = 0; broadcast < 8; ++broadcast)
        for (int64_t queries : {1, 40}) {
          Case c{shape(t, 2, 2, 1, queries, 75, 16, 16)};
          c.mask_dtype = mask;
          c.mask_batch = broadcast & 1;
          c.mask_heads = broadcast & 2;
          c.mask_queries = broadcast & 4;
          Attempt(c).check();
          c.mask_share = 0.98;  // many rows see nothing
          Attempt(c).check();
          c.mask_share = 1;
          Attempt(c).check();
        }
}
TEST(Attention, LargeScoresAndScales) {
  for (DType t : {DType::kFloat32, DType::kFloat64})
    for (double scale : {0.0, -2.0, 30.0}) {
      Case c{shape(t, 1, 1, 1, 50, 200, 16, 16)};
      c.shape.scale = scale;
      Attempt r(c);
      r.forward();
      double worst = 0;
      for (size_t i = 0; i < r.expected_out.size(); ++i)
        worst = std::max(worst, std::abs(r.out.get(0, 0, i / 16, i % 16) - r.expected_out[i]));
      EXPECT_LE(worst, t == DType::kFloat32 ? 2e-3 : 1e-11) << scale;
    }
}
TEST(Attention, NoKeys) {
  Attempt r({shape(DType::kFloat32, 1, 2, 1, 5, 0, 8, 8)});
  r.out.fill(3);
  r.forward();
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 5; ++i) {
      for (int64_t p = 0; p < 8; ++p) EXPECT_EQ(r.out.get(0, h, i, p), 0);
      EXPECT_EQ(r.lse_at(h * 5 + i), -kInfinity);
    }
  r.grad_query.fill(4);
  r.backward();
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(r.grad_query.get(0, 1, i, 3), 0);
}
TEST(Attention, NanStaysInItsRows) {
  for (DType t : kTypes)
    for (int64_t queries : {3, 40}) {
      Attempt r({shape(t, 1, 1, 1, queries, 70, 16, 16)});
      r.query.set(0, 0, 1, 2, std::nan(""));
      r.forward();
      EXPECT_TRUE(std::isnan(r.out.get(0, 0, 1, 0)));
      EXPECT_FALSE(std::isnan(r.out.get(0, 0, 0, 0)));
      EXPECT_FALSE(std::isnan(r.out.get(0, 0, 2, 0)));
      r.query.set(0, 0, 1, 2, 0);
      r.key.set(0, 0, 69, 0, kInfinity);  // scores of +-infinity: nan where it is the greatest
      r.forward();
      for (int64_t i = 0; i < queries; ++i)
        EXPECT_EQ(std::isnan(r.out.get(0, 0, i, 0)),
                  r.query.get(0, 0, i, 0) >= 0 || std::isnan(r.query.get(0, 0, i, 0)))
            << i;
    }
}
TEST(Attention, SameBitsForAnyNumberOfThreads) {
  const int before = num_threads();
  for (DType t : kTypes)
    for (int64_t queries : {1, 150})
      for (bool causal : {false, true}) {
        Attempt a({shape(t, 1, 2, 1, queries, 1100, 64, 64, causal)}), b = a;
        set_num_threads(1);
        a.check();
        set_num_threads(2);
        b.check();
        EXPECT_EQ(a.out.bytes, b.out.bytes);
        EXPECT_EQ(a.lse, b.lse);
        EXPECT_EQ(a.grad_query.bytes, b.grad_query.bytes);
        EXPECT_EQ(a.grad_key.bytes, b.grad_key.bytes);
        EXPECT_EQ(a.grad_value.bytes, b.grad_value.bytes);
      }
  set_num_threads(before);
}

}  // namespace
}  // namespace tessera::cpu
