// Gather, scatter, indexing and masks: the same bits as on the CPU.
#include <cmath>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cpu/index/index.h"
#include "tensor/cuda/index/engines.h"
#include "tensor/cuda/support/index_testing.h"

namespace tessera::cuda::testing {
namespace {

using cpu::ScatterMode;

class IndexTest : public DeviceTest {
 protected:
  Array values(DType t, const Shape& shape, bool scattered) {
    Array a = make(t, shape, scattered, rng);
    std::normal_distribution<double> normal(0, 3);
    // Complex products are small integers, so that they are exact in whatever order their parts are added.
    fill(a, [&](size_t) -> double {
      if (is_complex(t)) return static_cast<int>(rng() % 3) - 1;
      if (is_integral(t, true)) return rng() % (t == DType::kBool ? 2 : 100);
      return normal(rng);
    });
    return a;
  }
  Array index(const Shape& shape, int64_t size, bool scattered, bool negative = false) {
    Array a = make(DType::kInt64, shape, scattered, rng);
    fill(a, [&](size_t) {
      return static_cast<double>(static_cast<int64_t>(rng() % size) - (negative && rng() % 2 ? size : 0));
    });
    return a;
  }
};

Shape with(Shape s, int dim, int64_t n) {
  if (!s.empty()) s[dim] = n;
  return s;
}
const std::vector<Shape> kShapes = {{},           {6},    {3, 5}, {20, 70}, {4, 3, 9},
                                    {2, 3, 2, 5}, {3, 0}, {0},    {1, 1},   {6, 8, 32}};

TEST_F(IndexTest, Gather) {
  for (DType t :
       {DType::kBool, DType::kInt16, DType::kFloat32, DType::kFloat64, DType::kComplex128, DType::kFloat8_e4m3fn}) {
    for (const Shape& shape : kShapes) {
      for (int round = 0; round < 4; ++round) {
        const int dim = shape.empty() ? 0 : static_cast<int>(rng() % shape.size());
        const int64_t size = shape.empty() ? 1 : std::max<int64_t>(1, shape[dim] + static_cast<int>(rng() % 3) - 1);
        Array self = make(t, with(shape, dim, size), round & 1, rng), out = make(t, shape, round & 2, rng),
              x = index(shape, size, rng() % 2);
        if (!shape.empty() && rng() % 2) x.strides[(dim + 1) % shape.size()] = 0;
        const OnDevice device_self(self), device_out(out), device_x(x);
        cpu::run_gather(shape, dim, size, out.operand(), self.operand(), x.operand());
        cuda::run_gather(shape, dim, size, device_out.operand(), device_self.operand(), device_x.operand());
        synchronize_stream();
        ASSERT_EQ(device_out.bytes(), out.bytes);
      }
    }
  }
}

TEST_F(IndexTest, BadIndicesAreReportedAndSkipped) {
  Array self = values(DType::kFloat32, {2, 3}, false), out = make(DType::kFloat32, {2, 2}, false, rng),
        x = make(DType::kInt64, {2, 2}, false, rng);
  fill(x, [](size_t i) { return i == 3 ? 3.0 : 1.0; });
  const OnDevice device_self(self), device_out(out), device_x(x);
  cuda::run_gather(x.shape, 1, 3, device_out.operand(), device_self.operand(), device_x.operand());
  try {
    synchronize_stream();
    FAIL();
  } catch (const IndexError&) { FAIL(); } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "index 3 is out of bounds for dimension 1 with size 3");
  }
  std::copy_n(self.bytes.data() + 4, 4, out.bytes.data());
  std::copy_n(self.bytes.data() + 4, 4, out.bytes.data() + 4);
  std::copy_n(self.bytes.data() + 16, 4, out.bytes.data() + 8);
  EXPECT_EQ(device_out.bytes(), out.bytes);

  for (int64_t bad : {int64_t{3}, int64_t{-4}}) {
    const int64_t i[2] = {bad, -3}, shape[1] = {2}, none[1] = {0}, s8[1] = {8}, s4[1] = {4}, sizes[1] = {3},
                  numbers[1] = {5};
    Array to = values(DType::kFloat32, {3}, false), from = values(DType::kFloat32, {2}, false);
    const OnDevice device_to(to), device_from(from);
    const Buffer device_i(16);
    copy_to_device(device_i.get(), i, 16);
    const Operand indices[1] = {{device_i.get(), DType::kInt64, s8}};
    cuda::run_index_put(shape, {device_to.as<void>(), DType::kFloat32, none}, device_from.operand(), indices, sizes, s4,
                        false, numbers);
    EXPECT_THROW(synchronize_stream(), IndexError);
    std::copy_n(from.bytes.data() + 4, 4, to.bytes.data());
    EXPECT_EQ(device_to.bytes(), to.bytes);
  }
}

// Shapes of all ways to scatter: short lines, few long lines with few and with many places.
struct ScatterCase {
  Shape shape;
  int dim;
  int64_t size;
};
const std::vector<ScatterCase> kScatterCases = {
    {{}, 0, 1},           {{6}, 0, 4},         {{3, 5}, 1, 2},        {{20, 70}, 0, 5}, {{4, 3, 9}, 1, 2},
    {{2, 3, 2, 5}, 3, 7}, {{3, 0}, 0, 2},      {{1, 8}, 0, 3},        {{1500}, 0, 40},  {{1500}, 0, 200000},
    {{2, 1300}, 1, 7},    {{1200, 3}, 0, 100}, {{2, 1100, 2}, 1, 30}, {{5000}, 0, 3}};

TEST_F(IndexTest, Scatter) {
  for (ScatterMode mode : {ScatterMode::kAssign, ScatterMode::kAdd, ScatterMode::kMultiply, ScatterMode::kMean,
                           ScatterMode::kMax, ScatterMode::kMin}) {
    for (DType t : kAll) {
      if (is_complex(t) && (mode == ScatterMode::kMax || mode == ScatterMode::kMin)) continue;
      for (const ScatterCase& c : kScatterCases) {
        if (c.size > 1000 && t != DType::kFloat32 && t != DType::kInt8) continue;
        const bool once =
            c.shape.size() > 0 && c.shape[c.dim] > 1000 && mode != ScatterMode::kAssign && t != DType::kFloat32;
        for (int round = once ? 1 : 0; round < 2; ++round) {
          Array self = values(t, with(c.shape, c.dim, c.size), round), src = values(t, c.shape, round),
                x = index(c.shape, c.size, round);
          if (rng() % 4 == 0) std::fill(src.strides.begin(), src.strides.end(), 0);
          const OnDevice device_self(self), device_src(src), device_x(x);
          cpu::run_scatter(mode, c.shape, c.dim, c.size, self.operand(), src.operand(), x.operand());
          cuda::run_scatter(mode, c.shape, c.dim, c.size, device_self.operand(), device_src.operand(),
                            device_x.operand());
          synchronize_stream();
          ASSERT_EQ(device_self.bytes(), self.bytes) << name_of(t) << " mode " << static_cast<int>(mode) << " case "
                                                     << &c - kScatterCases.data() << " round " << round;
        }
      }
    }
  }
}

TEST_F(IndexTest, ExtremaKeepNan) {
  for (int64_t n : {4, 2000}) {
    Array self = values(DType::kFloat32, {3}, false), src = values(DType::kFloat32, {n}, false),
          x = index({n}, 3, false);
    fill(src,
         [&](size_t i) { return i == 1 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(rng() % 9); });
    const OnDevice device_self(self), device_src(src), device_x(x);
    cpu::run_scatter(ScatterMode::kMax, x.shape, 0, 3, self.operand(), src.operand(), x.operand());
    cuda::run_scatter(ScatterMode::kMax, x.shape, 0, 3, device_self.operand(), device_src.operand(),
                      device_x.operand());
    EXPECT_EQ(device_self.bytes(), self.bytes);
  }
  const Operand complex{nullptr, DType::kComplex64, nullptr}, no_index{nullptr, DType::kInt64, nullptr};
  EXPECT_THROW(cuda::run_scatter(ScatterMode::kMax, {}, 0, 1, complex, complex, no_index), NotImplementedError);
}

TEST_F(IndexTest, Select) {
  for (DType t : {DType::kBool, DType::kBFloat16, DType::kFloat32, DType::kComplex64, DType::kComplex128}) {
    for (const Shape& shape : kShapes) {
      for (int dim = 0; dim < std::max<int>(1, static_cast<int>(shape.size())); ++dim) {
        const int64_t size = shape.empty() ? 1 : shape[dim], n = shape.empty() ? 1 : size == 0 ? 0 : 7;
        Array self = make(t, shape, rng() % 2, rng), out = make(t, with(shape, dim, n), rng() % 2, rng),
              x = index({n}, std::max<int64_t>(1, size), false);
        const OnDevice device_self(self), device_out(out), device_x(x);
        cpu::run_index_select(shape, dim, out.operand(), self.operand(), reinterpret_cast<int64_t*>(x.bytes.data()), n);
        cuda::run_index_select(shape, dim, device_out.operand(), device_self.operand(), device_x.as<int64_t>(), n);
        ASSERT_EQ(device_out.bytes(), out.bytes);
      }
    }
  }
  Array self = values(DType::kFloat32, {2}, false), out = self, x = make(DType::kInt64, {1}, false, rng);
  fill(x, [](size_t) { return -1.0; });
  const OnDevice device_self(self), device_out(out), device_x(x);
  cuda::run_index_select(self.shape, 0, device_out.operand(), device_self.operand(), device_x.as<int64_t>(), 1);
  EXPECT_THROW(synchronize_stream(), IndexError);
}

TEST_F(IndexTest, AddSlices) {
  struct Case {
    Shape shape;
    int dim;
    int64_t n;
  };
  for (DType t : kAll) {
    if (t == DType::kBool) continue;
    for (const Case& c : {Case{{}, 0, 3}, Case{{6}, 0, 5}, Case{{3, 5}, 1, 7}, Case{{4, 3, 9}, 1, 6},
                          Case{{3, 0}, 0, 2}, Case{{50, 6}, 0, 900}, Case{{3, 20, 2}, 1, 800}}) {
      for (double alpha : {1.0, 2.5}) {
        Shape src_shape = c.shape.empty() ? Shape{} : with(c.shape, c.dim, c.n);
        Array self = values(t, c.shape, rng() % 2), src = values(t, src_shape, rng() % 2),
              x = index({c.n}, c.shape.empty() ? 1 : std::max<int64_t>(1, c.shape[c.dim]), false);
        KernelParam p = {};
        if (is_complex(t))
          p.c[0] = std::floor(alpha), p.c[1] = 0;
        else if (is_floating_point(t))
          p.f = alpha;
        else
          p.i = static_cast<int64_t>(alpha);
        const OnDevice device_self(self), device_src(src), device_x(x);
        cpu::run_index_add(c.shape, c.dim, self.operand(), src.operand(), reinterpret_cast<int64_t*>(x.bytes.data()),
                           c.n, p);
        cuda::run_index_add(c.shape, c.dim, device_self.operand(), device_src.operand(), device_x.as<int64_t>(), c.n,
                            p);
        synchronize_stream();
        ASSERT_EQ(device_self.bytes(), self.bytes) << name_of(t) << " " << alpha;
      }
    }
  }
}

// Most values go to one place, in a run that is brought together by segments. Small integers: any order gives the same
// bits as on the CPU. Other numbers: near to it, and the same bits each time.
TEST_F(IndexTest, LongRuns) {
  constexpr int64_t kCount = 9000, kPlaces = 5;
  for (DType t :
       {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kInt8}) {
    for (ScatterMode mode : {ScatterMode::kAdd, ScatterMode::kMultiply, ScatterMode::kMean, ScatterMode::kMax}) {
      if (is_complex(t) && mode == ScatterMode::kMax) continue;
      Array self = values(t, {kPlaces, 2}, false), src = make(t, {kCount, 2}, true, rng),
            x = index({kCount, 2}, kPlaces, false);
      fill(src, [&](size_t i) -> double {
        return mode == ScatterMode::kMultiply ? (i % 3 ? 1 : -1)
               : i % 3                        ? 0
               : i / 6 % 2                    ? 1
                                              : -1;  // alternating in each column
      });
      fill(self, [&](size_t i) -> double { return static_cast<double>(i % 7); });
      fill(x, [&](size_t) -> double { return rng() % 10 ? 2 : static_cast<double>(rng() % kPlaces); });
      const OnDevice device_self(self), device_src(src), device_x(x);
      cpu::run_scatter(mode, x.shape, 0, kPlaces, self.operand(), src.operand(), x.operand());
      cuda::run_scatter(mode, x.shape, 0, kPlaces, device_self.operand(), device_src.operand(), device_x.operand());
      synchronize_stream();
      ASSERT_EQ(device_self.bytes(), self.bytes) << name_of(t) << " mode " << static_cast<int>(mode);
    }
  }
  Array self = values(DType::kFloat32, {kPlaces, 2}, false), src = values(DType::kFloat32, {2 * kCount, 2}, false),
        x = index({2 * kCount}, kPlaces, false);
  fill(x, [&](size_t) -> double { return rng() % 20 ? 3 : static_cast<double>(rng() % kPlaces); });
  KernelParam one = {};
  one.f = 1;
  std::vector<char> first;
  for (int round = 0; round < 2; ++round) {
    const OnDevice device_self(self), device_src(src), device_x(x);
    cuda::run_index_add(self.shape, 0, device_self.operand(), device_src.operand(), device_x.as<int64_t>(), 2 * kCount,
                        one);
    synchronize_stream();
    if (round == 0) first = device_self.bytes();
    ASSERT_EQ(device_self.bytes(), first);
  }
  cpu::run_index_add(self.shape, 0, self.operand(), src.operand(), reinterpret_cast<int64_t*>(x.bytes.data()),
                     2 * kCount, one);
  for (size_t i = 0; i < self.bytes.size() / sizeof(float); ++i)
    ASSERT_NEAR(reinterpret_cast<const float*>(first.data())[i], reinterpret_cast<const float*>(self.bytes.data())[i],
                2e-2);
}

// x[:, i, :, j] with i of shape (m, 1) and j of shape (3): result (m, 3, A, C) for x of shape (A, B, C, D); or x[:, i]
// alone.
TEST_F(IndexTest, GetAndPut) {
  for (DType t : {DType::kBool, DType::kInt8, DType::kInt64, DType::kFloat16, DType::kFloat32, DType::kComplex128}) {
    for (int round = 0; round < 12; ++round) {
      const bool both = round % 2, scattered = round & 2;
      const int64_t m = round < 8 ? 4 : 700;
      Array x = values(t, {2, 6, 8, 7}, scattered), i = index({m}, 6, scattered, true),
            j = index({3}, 7, scattered, true);
      const Shape result = both ? Shape{m, 3, 2, 8} : Shape{m, 2, 8, 7};
      const Shape walk =
          both ? Shape{0, 0, x.strides[0], x.strides[2]} : Shape{0, x.strides[0], x.strides[2], x.strides[3]};
      const Shape i_strides = {i.strides[0], 0, 0, 0}, j_strides = {0, j.strides[0], 0, 0}, sizes = {6, 7},
                  steps = {x.strides[1], x.strides[3]};
      const size_t n = both ? 2 : 1;
      Array out = values(t, result, scattered);
      const OnDevice device_x(x), device_i(i), device_j(j), device_out(out), device_values(out);
      const std::vector<Operand> host = {{i.bytes.data(), DType::kInt64, i_strides.data()},
                                         {j.bytes.data(), DType::kInt64, j_strides.data()}};
      const std::vector<Operand> device = {{device_i.as<void>(), DType::kInt64, i_strides.data()},
                                           {device_j.as<void>(), DType::kInt64, j_strides.data()}};
      for (bool accumulate : {false, true}) {
        cpu::run_index_put(result, {x.bytes.data(), t, walk.data()}, out.operand(), {host.data(), n}, {sizes.data(), n},
                           {steps.data(), n}, accumulate);
        cuda::run_index_put(result, {device_x.as<void>(), t, walk.data()}, device_values.operand(), {device.data(), n},
                            {sizes.data(), n}, {steps.data(), n}, accumulate, {});
        synchronize_stream();
        ASSERT_EQ(device_x.bytes(), x.bytes) << name_of(t) << " round " << round << accumulate;
      }
      cpu::run_index_get(result, out.operand(), {x.bytes.data(), t, walk.data()}, {host.data(), n}, {sizes.data(), n},
                         {steps.data(), n});
      cuda::run_index_get(result, device_out.operand(), {device_x.as<void>(), t, walk.data()}, {device.data(), n},
                          {sizes.data(), n}, {steps.data(), n}, {});
      synchronize_stream();
      ASSERT_EQ(device_out.bytes(), out.bytes) << name_of(t) << " round " << round;
    }
  }
}

const std::vector<Shape> kMaskShapes = {{}, {40}, {7, 9}, {3, 4, 5}, {2, 0}, {130, 90}, {4096}, {20000}};

TEST_F(IndexTest, Nonzero) {
  std::vector<DType> types = kAll;
  types.insert(types.end(),
               {DType::kFloat8_e4m3fn, DType::kFloat8_e5m2, DType::kFloat8_e4m3fnuz, DType::kFloat8_e5m2fnuz});
  for (DType t : types) {
    for (const Shape& shape : kMaskShapes) {
      Array x = make(t, shape, rng() % 2, rng);
      fill(x, [&](size_t i) {
        if (rng() % 3 == 0) return 1.0;
        if (!is_floating_point(t)) return 0.0;
        return i % 5 == 0 ? -0.0 : i % 7 == 0 ? std::numeric_limits<double>::quiet_NaN() : 0.0;
      });
      const OnDevice device(x);
      const int64_t n = cpu::run_count_nonzero(shape, x.operand()), rank = static_cast<int64_t>(shape.size());
      ASSERT_EQ(cuda::run_count_nonzero(shape, device.operand()), n) << name_of(t);
      if (n == 0 || rank == 0) continue;
      const bool columns = rng() % 2;
      Array out = make(DType::kInt64, {n, rank}, false, rng);
      const OnDevice device_out(out);
      cpu::run_nonzero(shape, x.operand(), reinterpret_cast<int64_t*>(out.bytes.data()), columns ? 8 : 8 * rank,
                       columns ? 8 * n : 8);
      cuda::run_nonzero(shape, device.operand(), device_out.as<int64_t>(), columns ? 8 : 8 * rank, columns ? 8 * n : 8);
      ASSERT_EQ(device_out.bytes(), out.bytes) << name_of(t);
    }
  }
}

TEST_F(IndexTest, MaskedSelectAndScatter) {
  for (DType t : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    for (const Shape& shape : kMaskShapes) {
      Array self = make(t, shape, rng() % 2, rng), mask = make(DType::kBool, shape, rng() % 2, rng);
      fill(mask, [&](size_t) { return static_cast<double>(rng() % 2); });
      if (shape.size() > 1 && rng() % 2) mask.strides[0] = 0;
      const OnDevice device_self(self), device_mask(mask);
      const int64_t n = cpu::run_count_nonzero(shape, mask.operand());
      ASSERT_EQ(cuda::run_count_nonzero(shape, device_mask.operand()), n);
      Array out = make(t, {n}, false, rng), src = make(t, {n}, false, rng);
      const OnDevice device_out(out), device_src(src);
      EXPECT_EQ(cpu::run_masked_select(shape, out.bytes.data(), self.operand(), mask.operand()), n);
      EXPECT_EQ(cuda::run_masked_select(shape, device_out.as<void>(), device_self.operand(), device_mask.operand()), n);
      ASSERT_EQ(device_out.bytes(), out.bytes);
      if (n > 0) {
        cuda::run_masked_scatter(shape, device_self.operand(), device_mask.operand(), device_src.as<void>(), n - 1);
        EXPECT_THROW(synchronize_stream(), Error);
        ASSERT_EQ(device_self.bytes(), self.bytes);
      }
      cpu::run_masked_scatter(shape, self.operand(), mask.operand(), src.bytes.data(), n);
      cuda::run_masked_scatter(shape, device_self.operand(), device_mask.operand(), device_src.as<void>(), n);
      synchronize_stream();
      ASSERT_EQ(device_self.bytes(), self.bytes);
    }
  }
}

TEST_F(IndexTest, Triangles) {
  for (DType t : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    for (const Shape& shape : {Shape{4, 6}, Shape{7, 3}, Shape{2, 3, 5, 5}, Shape{3, 0}, Shape{40, 50}}) {
      for (int64_t diagonal : {int64_t{-3}, int64_t{0}, int64_t{2}, INT64_MAX, INT64_MIN}) {
        for (bool upper : {false, true}) {
          Array self = make(t, shape, rng() % 2, rng), out = make(t, shape, rng() % 2, rng);
          const OnDevice device_self(self), device_out(out);
          cpu::run_tril_triu(upper, diagonal, shape, out.operand(), self.operand());
          cuda::run_tril_triu(upper, diagonal, shape, device_out.operand(), device_self.operand());
          ASSERT_EQ(device_out.bytes(), out.bytes);
          cpu::run_tril_triu(upper, diagonal, shape, self.operand(), self.operand());
          cuda::run_tril_triu(upper, diagonal, shape, device_self.operand(), device_self.operand());
          ASSERT_EQ(device_self.bytes(), self.bytes);
        }
      }
    }
  }
}

TEST_F(IndexTest, Flip) {
  for (DType t : {DType::kInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex128}) {
    for (const Shape& shape : kShapes) {
      const uint64_t mask = rng() % (uint64_t{1} << shape.size());
      Array self = make(t, shape, rng() % 2, rng), out = make(t, shape, rng() % 2, rng);
      const OnDevice device_self(self), device_out(out);
      cpu::run_flip(shape, mask, out.operand(), self.operand());
      cuda::run_flip(shape, mask, device_out.operand(), device_self.operand());
      ASSERT_EQ(device_out.bytes(), out.bytes);
    }
  }
}

}  // namespace
}  // namespace tessera::cuda::testing
