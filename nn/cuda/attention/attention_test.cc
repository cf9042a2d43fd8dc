// Attention on the device against its definition in double precision.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tensor/cuda/libraries/blas.h"
#include "nn/cuda/attention/attention_engines.h"
#include "tensor/core/generator/philox.h"
#include "tensor/cuda/support/data_testing.h"

namespace tessera::cuda {
namespace {

using cpu::AttentionMask;
using cpu::AttentionOperand;
using cpu::AttentionShape;
using testing::Data;
using testing::OnDevice;

class Attention : public testing::DeviceTest {};

// Where the elements of [batch, heads, positions, features] lie.
enum class Layout { kDense, kPositionsFirst, kPadded, kOdd };
struct Array {
  Data data;
  std::vector<double> values;  // of data
  int64_t batch, heads, positions, features, offset;
  int64_t strides[3];
  int64_t index(int64_t b, int64_t h, int64_t p, int64_t f) const {
    return offset + b * strides[0] + h * strides[1] + p * strides[2] + f;
  }
  double value(int64_t b, int64_t h, int64_t p, int64_t f) const {
    return values[static_cast<size_t>(index(b, h, p, f))];
  }
  void set(Data d) {
    data = std::move(d);
    values.resize(static_cast<size_t>(data.size()));
    for (int64_t i = 0; i < data.size(); ++i) values[static_cast<size_t>(i)] = data.value(i);
  }
};
Array make_array(DType t, int64_t batch, int64_t heads, int64_t positions, int64_t features, Layout layout,
                 uint64_t seed) {
  const int64_t row = layout == Layout::kPadded ? features + 16
                      : layout == Layout::kOdd  ? features + 3
                                                : features,
                offset = layout == Layout::kOdd ? 1 : 0;
  Array a{Data(t, 0), {}, batch, heads, positions, features, offset, {heads * positions * row, positions * row, row}};
  a.set(testing::random_data(t, batch * heads * positions * row + offset, seed));
  if (layout == Layout::kPositionsFirst) {
    a.strides[1] = row;
    a.strides[2] = heads * row;
  }
  return a;
}
// An array on the device.
struct Uploaded {
  const Array& array;
  OnDevice memory;
  explicit Uploaded(const Array& a) : array(a), memory(a.data) {}
  operator AttentionOperand() const {
    return {memory.at(array.offset), array.strides[0], array.strides[1], array.strides[2]};
  }
};

struct Case {
  DType dtype = DType::kFloat32;
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, dim = 16, value_dim = 16;
  bool causal = false;
  enum Mask { kNone, kBool, kFloat, kOwn, kKeysOnly, kLastRowsHidden } mask = kNone;
  Layout layout = Layout::kDense;
  double scale = 0;  // 0: 1 / sqrt(dim)
  bool backward = true;
  double tolerance = 1;
  double dropout = 0;
  std::string name() const {
    std::string s = name_of(dtype);
    for (int64_t n : {batch, heads, kv_heads, queries, keys, dim, value_dim}) s += " " + std::to_string(n);
    return s + (causal ? " causal" : "") + " mask " + std::to_string(mask) + " layout " +
           std::to_string(static_cast<int>(layout));
  }
};

struct Masks {
  Data data;
  int64_t strides[4];
};
Masks make_mask(const Case& c, uint64_t seed) {
  const DType t = c.mask == Case::kFloat ? DType::kFloat32 : c.mask == Case::kOwn ? c.dtype : DType::kBool;
  if (c.mask == Case::kKeysOnly) {
    Masks m{Data(t, c.batch * c.keys, 1), {c.keys, 0, 0, 1}};
    std::mt19937 rng(static_cast<unsigned>(seed));
    for (uint8_t& b : m.data.bytes) b = rng() % 3 != 0;
    return m;
  }
  Masks m{testing::random_data(t, c.batch * c.heads * c.queries * c.keys, seed),
          {c.heads * c.queries * c.keys, c.queries * c.keys, c.keys, 1}};
  std::mt19937 rng(static_cast<unsigned>(seed));
  for (int64_t i = 0; i < m.data.size(); ++i) {
    const int64_t query = i / c.keys % c.queries;
    if (t == DType::kBool)
      m.data.bytes[i] = c.mask == Case::kLastRowsHidden ? query * 2 < c.queries : rng() % 3 != 0;
    else if (rng() % 5 == 0)
      m.data.set(i, -INFINITY);
  }
  return m;
}

struct Expected {
  std::vector<double> out, logsumexp, query, key, value;  // dense
};

// What the weights are multiplied by: the numbers of the generator's streams, one for each row.
std::vector<double> drop_factors(const Case& c, const uint64_t words[2]) {
  std::vector<double> f;
  for (int64_t row = 0; row < c.batch * c.heads * c.queries; ++row)
    for (int64_t k = 0; k < c.keys; ++k) {
      const PhiloxWords w = philox_at(words[0], static_cast<uint64_t>(row), words[1] + static_cast<uint64_t>(k / 4));
      const uint32_t x[4] = {w.x, w.y, w.z, w.w};
      const float u = static_cast<float>(x[k % 4]) * 0x1p-32f + 0x1p-33f;
      f.push_back(u <= static_cast<float>(1 - c.dropout) ? 1 / (1 - c.dropout) : 0);
    }
  return f;
}

// Row by row: weights, then the result and the gradients. factors: of the weights; empty: none.
Expected reference(const Case& c, double scale, const Array& q, const Array& k, const Array& v, const Masks* mask,
                   const Array& g, const std::vector<double>& factors) {
  Expected e;
  e.out.resize(c.batch * c.heads * c.queries * c.value_dim);
  e.logsumexp.resize(c.batch * c.heads * c.queries);
  e.query.resize(c.batch * c.heads * c.queries * c.dim);
  e.key.resize(c.batch * c.kv_heads * c.keys * c.dim);
  e.value.resize(c.batch * c.kv_heads * c.keys * c.value_dim);
  const int64_t group = c.heads / c.kv_heads;
  std::vector<double> s(c.keys), ds(c.keys);
  for (int64_t b = 0; b < c.batch; ++b)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) {
        const int64_t kh = h / group, row = (b * c.heads + h) * c.queries + i;
        double max = -INFINITY, sum = 0, delta = 0;
        for (int64_t j = 0; j < c.keys; ++j) {
          s[j] = 0;
          for (int64_t d = 0; d < c.dim; ++d) s[j] += q.value(b, h, i, d) * k.value(b, kh, j, d);
          s[j] *= scale;
          if (mask) {
            const int64_t at =
                b * mask->strides[0] + h * mask->strides[1] + i * mask->strides[2] + j * mask->strides[3];
            if (mask->data.dtype == DType::kBool)
              s[j] = mask->data.bytes[at] ? s[j] : -INFINITY;
            else
              s[j] += mask->data.value(at);
          }
          if (c.causal && j > i) s[j] = -INFINITY;
          max = std::fmax(max, s[j]);
        }
        for (int64_t j = 0; j < c.keys; ++j) sum += s[j] = max == -INFINITY ? 0 : std::exp(s[j] - max);
        e.logsumexp[row] = sum == 0 ? -INFINITY : max + std::log(sum);
        for (int64_t j = 0; j < c.keys; ++j) {
          s[j] = sum == 0 ? 0 : s[j] / sum;
          ds[j] = 0;
          const double f = factors.empty() ? 1 : factors[row * c.keys + j];
          for (int64_t d = 0; d < c.value_dim; ++d) {
            e.out[row * c.value_dim + d] += s[j] * f * v.value(b, kh, j, d);
            ds[j] += f * g.value(b, h, i, d) * v.value(b, kh, j, d);
            e.value[((b * c.kv_heads + kh) * c.keys + j) * c.value_dim + d] += s[j] * f * g.value(b, h, i, d);
          }
          delta += s[j] * ds[j];
        }
        for (int64_t j = 0; j < c.keys; ++j) {
          const double x = scale * s[j] * (ds[j] - delta);
          for (int64_t d = 0; d < c.dim; ++d) {
            e.query[row * c.dim + d] += x * k.value(b, kh, j, d);
            e.key[((b * c.kv_heads + kh) * c.keys + j) * c.dim + d] += x * q.value(b, h, i, d);
          }
        }
      }
  return e;
}

// Errors are measured against the largest expected number; what lies between the rows must not have been touched.
void compare(const Array& actual, const std::vector<double>& expected, double tolerance, const std::string& what) {
  double largest = 0;
  for (double e : expected) largest = std::fmax(largest, std::fabs(e));
  int shown = 0;
  size_t at = 0;
  for (int64_t row = 0; row < actual.batch * actual.heads * actual.positions; ++row)
    for (int64_t f = 0; f < actual.features; ++f) {
      const int64_t p = row % actual.positions, h = row / actual.positions % actual.heads,
                    b = row / actual.positions / actual.heads;
      const double a = actual.value(b, h, p, f), e = expected[at++];
      if (std::fabs(a - e) <= tolerance * largest || shown >= 4) continue;
      ++shown;
      ADD_FAILURE() << what << " [" << b << ", " << h << ", " << p << ", " << f << "]: expected " << e << ", got " << a
                    << ", largest " << largest;
    }
}
void expect_gaps_untouched(const Array& before, const Array& after, const std::string& what) {
  std::vector<bool> inside(static_cast<size_t>(before.data.size()), false);
  for (int64_t b = 0; b < before.batch; ++b)
    for (int64_t h = 0; h < before.heads; ++h)
      for (int64_t p = 0; p < before.positions; ++p)
        for (int64_t f = 0; f < before.features; ++f) inside[static_cast<size_t>(before.index(b, h, p, f))] = true;
  for (int64_t i = 0; i < before.data.size(); ++i)
    if (!inside[static_cast<size_t>(i)]) {
      ASSERT_EQ(before.values[static_cast<size_t>(i)], after.values[static_cast<size_t>(i)]) << what << " at " << i;
    }
}

void check(const Case& c) {
  SCOPED_TRACE(c.name());
  const DType wide = c.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const double scale = c.scale != 0 ? c.scale : 1 / std::sqrt(static_cast<double>(c.dim));
  const AttentionShape shape{c.dtype, c.batch, c.heads,     c.kv_heads, c.queries,
                             c.keys,  c.dim,   c.value_dim, scale,      c.causal};
  const Array q = make_array(c.dtype, c.batch, c.heads, c.queries, c.dim, c.layout, 1),
              k = make_array(c.dtype, c.batch, c.kv_heads, c.keys, c.dim, c.layout, 2);
  const Array v = make_array(c.dtype, c.batch, c.kv_heads, c.keys, c.value_dim, c.layout, 3),
              g = make_array(c.dtype, c.batch, c.heads, c.queries, c.value_dim, c.layout, 4);
  Array out = make_array(c.dtype, c.batch, c.heads, c.queries, c.value_dim, c.layout, 5);
  const Uploaded query(q), key(k), value(v), grad(g), result(out);
  AttentionMask mask{};
  Masks masks{Data(DType::kBool, 0), {}};
  if (c.mask != Case::kNone) masks = make_mask(c, 6);
  const OnDevice mask_memory(masks.data);
  if (c.mask != Case::kNone)
    mask = {mask_memory.get(), masks.data.dtype, masks.strides[0],
            masks.strides[1],  masks.strides[2], masks.strides[3]};
  const OnDevice logsumexp(Data(wide, c.batch * c.heads * c.queries, 0xEE));
  const OnDevice words(Data(DType::kInt64, 2));
  const Generator gen(make_intrusive<PhiloxGeneratorImpl>(Device(DeviceType::kCUDA, 0), 7));
  if (c.dropout > 0)
    cuda::attention_dropout_forward(shape, query, key, value, mask, c.dropout, gen, result, logsumexp.get(),
                                    static_cast<uint64_t*>(words.get()));
  else
    cuda::attention_forward(shape, query, key, value, mask, result, logsumexp.get());
  const Data drawn = words.read();
  const std::vector<double> factors =
      c.dropout > 0 ? drop_factors(c, reinterpret_cast<const uint64_t*>(drawn.bytes.data())) : std::vector<double>();
  const Array before = out;
  out.set(result.memory.read());
  const Expected e = reference(c, shape.scale, q, k, v, c.mask != Case::kNone ? &masks : nullptr, g, factors);
  const double tolerance = c.tolerance * (c.dtype == DType::kFloat64   ? 1e-13
                                          : c.dtype == DType::kFloat32 ? 3e-6
                                          : c.dtype == DType::kFloat16 ? 2e-3
                                                                       : 1.6e-2);
  compare(out, e.out, tolerance, "out");
  expect_gaps_untouched(before, out, "out");
  const Data sums = logsumexp.read();
  for (int64_t i = 0; i < sums.size(); ++i) {
    if (e.logsumexp[i] == -INFINITY)
      ASSERT_EQ(sums.value(i), -INFINITY);
    else
      ASSERT_NEAR(sums.value(i), e.logsumexp[i], tolerance * 2 + 1e-15) << "logsumexp " << i;
  }
  if (!c.backward) return;
  Array dq = make_array(c.dtype, c.batch, c.heads, c.queries, c.dim, c.layout, 7),
        dk = make_array(c.dtype, c.batch, c.kv_heads, c.keys, c.dim, c.layout, 8);
  Array dv = make_array(c.dtype, c.batch, c.kv_heads, c.keys, c.value_dim, c.layout, 9);
  const Uploaded grad_query(dq), grad_key(dk), grad_value(dv);
  if (c.dropout > 0)
    cuda::attention_dropout_backward(shape, query, key, value, mask, c.dropout,
                                     static_cast<const uint64_t*>(words.get()), result, logsumexp.get(), grad,
                                     grad_query, grad_key, grad_value);
  else
    cuda::attention_backward(shape, query, key, value, mask, result, logsumexp.get(), grad, grad_query, grad_key,
                             grad_value);
  const Array dq_before = dq, dk_before = dk, dv_before = dv;
  dq.set(grad_query.memory.read());
  dk.set(grad_key.memory.read());
  dv.set(grad_value.memory.read());
  compare(dq, e.query, 3 * tolerance, "grad_query");
  compare(dk, e.key, 3 * tolerance, "grad_key");
  compare(dv, e.value, 3 * tolerance, "grad_value");
  expect_gaps_untouched(dq_before, dq, "grad_query");
  expect_gaps_untouched(dk_before, dk, "grad_key");
  expect_gaps_untouched(dv_before, dv, "grad_value");
}

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64};

TEST_F(Attention, Sizes) {
  for (DType t : kTypes) {
    for (bool causal : {false, true}) {
      check({.dtype = t,
             .batch = 2,
             .heads = 1,
             .kv_heads = 1,
             .queries = 70,
             .keys = 70,
             .dim = 64,
             .value_dim = 64,
             .causal = causal});
      check(
          {.dtype = t, .heads = 2, .kv_heads = 2, .queries = 1, .keys = 1, .dim = 1, .value_dim = 1, .causal = causal});
      check({.dtype = t,
             .heads = 2,
             .kv_heads = 1,
             .queries = 5,
             .keys = 129,
             .dim = 24,
             .value_dim = 40,
             .causal = causal});
      check({.dtype = t, .queries = 134, .keys = 21, .dim = 7, .value_dim = 9, .causal = causal});
      check({.dtype = t, .queries = 64, .keys = 128, .dim = 32, .value_dim = 16, .causal = causal, .scale = -0.7});
      check({.dtype = t, .queries = 37, .keys = 65, .dim = 128, .value_dim = 96, .causal = causal});
      if (HasFailure()) return;
    }
  }
}

TEST_F(Attention, Dropout) {
  for (DType t : kTypes) {
    for (bool causal : {false, true})
      check({.dtype = t,
             .batch = 2,
             .heads = 2,
             .kv_heads = 1,
             .queries = 70,
             .keys = 66,
             .dim = 32,
             .value_dim = 24,
             .causal = causal,
             .dropout = 0.3});
    check({.dtype = t, .queries = 3, .keys = 700, .dim = 16, .value_dim = 16, .dropout = 0.5});
    check({.dtype = t, .queries = 2, .keys = 37, .dim = 8, .value_dim = 8, .mask = Case::kBool, .dropout = 0.1});
    check({.dtype = t, .queries = 5, .keys = 9, .dim = 300, .value_dim = 600, .causal = true, .dropout = 0.4});
    if (HasFailure()) return;
  }
}

TEST_F(Attention, ManyFeatures) {
  for (DType t : kTypes) {
    check({.dtype = t, .queries = 19, .keys = 40, .dim = 256, .value_dim = 256});
    check({.dtype = t, .queries = 9, .keys = 33, .dim = 160, .value_dim = 200, .causal = true});
    check({.dtype = t, .queries = 17, .keys = 34, .dim = 200, .value_dim = 20});
    check({.dtype = t, .queries = 5, .keys = 9, .dim = 300, .value_dim = 600, .causal = true});  // wider than tiles
    if (HasFailure()) return;
  }
}

TEST_F(Attention, Masks) {
  for (DType t : kTypes) {
    for (Case::Mask mask : {Case::kBool, Case::kFloat, Case::kOwn, Case::kKeysOnly, Case::kLastRowsHidden}) {
      check({.dtype = t,
             .batch = 1,
             .heads = 2,
             .kv_heads = 1,
             .queries = 35,
             .keys = 38,
             .dim = 24,
             .value_dim = 24,
             .mask = mask});
      check({.dtype = t,
             .batch = 2,
             .heads = 1,
             .kv_heads = 1,
             .queries = 3,
             .keys = 10,
             .dim = 72,
             .value_dim = 80,
             .mask = mask});
      if (HasFailure()) return;
    }
  }
}

TEST_F(Attention, Layouts) {
  for (DType t : kTypes) {
    for (Layout layout : {Layout::kPositionsFirst, Layout::kPadded, Layout::kOdd}) {
      check({.dtype = t,
             .batch = 2,
             .heads = 3,
             .kv_heads = 3,
             .queries = 33,
             .keys = 40,
             .dim = 32,
             .value_dim = 24,
             .causal = true,
             .layout = layout});
      check({.dtype = t,
             .batch = 1,
             .heads = 2,
             .kv_heads = 1,
             .queries = 20,
             .keys = 70,
             .dim = 20,
             .value_dim = 70,
             .layout = layout});
      if (HasFailure()) return;
    }
  }
}

TEST_F(Attention, SharedHeads) {
  for (DType t : kTypes) {
    check({.dtype = t, .batch = 2, .heads = 4, .kv_heads = 2, .queries = 30, .keys = 41, .dim = 32, .value_dim = 32});
    check(
        {.dtype = t, .heads = 4, .kv_heads = 1, .queries = 3, .keys = 300, .dim = 64, .value_dim = 64, .causal = true});
    check(
        {.dtype = t, .heads = 4, .kv_heads = 2, .queries = 40, .keys = 50, .dim = 16, .value_dim = 16, .causal = true});
    check({.dtype = t,
           .batch = 2,
           .heads = 4,
           .kv_heads = 2,
           .queries = 7,
           .keys = 30,
           .dim = 16,
           .value_dim = 16,
           .mask = Case::kFloat});
    if (HasFailure()) return;
  }
}

// One query of each head: the keys are cut into parts.
TEST_F(Attention, Decoding) {
  for (DType t : kTypes) {
    check({.dtype = t, .batch = 2, .heads = 4, .kv_heads = 2, .queries = 1, .keys = 1100, .dim = 64, .value_dim = 64});
    check({.dtype = t,
           .batch = 1,
           .heads = 2,
           .kv_heads = 2,
           .queries = 1,
           .keys = 777,
           .dim = 128,
           .value_dim = 72,
           .mask = Case::kKeysOnly});
    check({.dtype = t,
           .batch = 1,
           .heads = 2,
           .kv_heads = 1,
           .queries = 3,
           .keys = 1030,
           .dim = 32,
           .value_dim = 32,
           .mask = Case::kOwn,
           .backward = false});
    check({.dtype = t,
           .batch = 1,
           .heads = 1,
           .kv_heads = 1,
           .queries = 10,
           .keys = 900,
           .dim = 16,
           .value_dim = 16,
           .mask = Case::kLastRowsHidden});
    if (HasFailure()) return;
  }
}

TEST_F(Attention, NothingToSee) {
  for (DType t : kTypes) {
    check({.dtype = t, .batch = 2, .queries = 5, .keys = 0});
    check({.dtype = t, .batch = 0, .queries = 5, .keys = 3});
    check({.dtype = t, .queries = 0, .keys = 3});
  }
}

TEST_F(Attention, Tf32) {
  BlasSettings settings = blas_settings();
  settings.allow_tf32 = true;
  set_blas_settings(settings);
  for (bool causal : {false, true}) {
    check({.queries = 70, .keys = 75, .dim = 64, .value_dim = 64, .causal = causal, .tolerance = 600});
    check({.heads = 2, .queries = 40, .keys = 100, .dim = 100, .value_dim = 120, .causal = causal, .tolerance = 600});
    check({.queries = 33, .keys = 40, .dim = 140, .value_dim = 256, .causal = causal, .tolerance = 600});
  }
  settings.allow_tf32 = false;
  set_blas_settings(settings);
}

TEST_F(Attention, NanAndInfinity) {
  for (DType t : {DType::kFloat32, DType::kFloat16, DType::kFloat64}) {
    const AttentionShape shape{t, 1, 1, 1, 3, 4, 16, 16, 1, false};
    Data q = testing::random_data(t, 3 * 16, 1), k = testing::random_data(t, 4 * 16, 2),
         v = testing::random_data(t, 4 * 16, 3);
    q.set(16, NAN);
    q.set(32, INFINITY);
    const OnDevice query(q), key(k), value(v), out(Data(t, 3 * 16));
    cuda::attention_forward(shape, {query.get(), 0, 0, 16}, {key.get(), 0, 0, 16}, {value.get(), 0, 0, 16}, {},
                            {out.get(), 0, 0, 16}, nullptr);
    const Data r = out.read();
    for (int i = 0; i < 16; ++i) {
      EXPECT_TRUE(std::isfinite(r.value(i)));
      EXPECT_TRUE(std::isnan(r.value(16 + i)));
      EXPECT_TRUE(std::isnan(r.value(32 + i)));
    }
  }
}

}  // namespace
}  // namespace tessera::cuda
