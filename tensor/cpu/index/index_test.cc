#include "tensor/cpu/index/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <typeinfo>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/pointwise.h"

namespace tessera::cpu {
namespace {

using Shape = std::vector<int64_t>;

// A strided array with access by coordinates.
struct Array {
  DType dtype;
  Shape shape, strides;
  std::vector<char> bytes;
  Operand operand() { return {bytes.data(), dtype, strides.data()}; }
  int64_t count() const { return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()); }
  char* at(const Shape& c) {
    char* p = bytes.data();
    for (size_t d = 0; d < c.size(); ++d) p += c[d] * strides[d];
    return p;
  }
  double get(const Shape& c) {
    double v;
    convert(DType::kFloat64, &v, dtype, at(c), 1);
    return v;
  }
  void set(const Shape& c, double v) { convert(dtype, at(c), DType::kFloat64, &v, 1); }
  int64_t& index(const Shape& c) { return *reinterpret_cast<int64_t*>(at(c)); }
};

Array make(DType dtype, Shape shape, bool shuffled, std::mt19937& rng) {
  Array a{dtype, shape, Shape(shape.size()), {}};
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

// f(coordinates) in row-major order.
template <class F>
void each(const Shape& shape, F&& f) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  Shape c(shape.size());
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) c[d] = rest % shape[d];
    f(c);
  }
}

void fill(Array& a, std::mt19937& rng) {
  each(a.shape, [&](const Shape& c) {
    a.set(c, a.dtype == DType::kBool ? static_cast<double>(rng() % 2)
                                     : static_cast<double>(static_cast<int>(rng() % 4) + 1));
  });
}
void fill_index(Array& a, int64_t size, std::mt19937& rng, bool negative = false) {
  each(a.shape,
       [&](const Shape& c) { a.index(c) = static_cast<int64_t>(rng() % size) - (negative && rng() % 2 ? size : 0); });
}
void expect_equal(Array& a, Array& b) {
  each(a.shape, [&](const Shape& c) { ASSERT_EQ(a.get(c), b.get(c)) << name_of(a.dtype); });
}

Shape with(Shape c, int dim, int64_t v) {
  if (!c.empty()) c[dim] = v;
  return c;
}

const std::vector<DType> kAll = {DType::kBool,    DType::kUInt8,     DType::kInt8,      DType::kInt16,
                                 DType::kInt32,   DType::kInt64,     DType::kUInt16,    DType::kUInt32,
                                 DType::kUInt64,  DType::kFloat16,   DType::kBFloat16,  DType::kFloat32,
                                 DType::kFloat64, DType::kComplex32, DType::kComplex64, DType::kComplex128};
const std::vector<Shape> kShapes = {{}, {6}, {3, 5}, {20, 70}, {4, 3, 9}, {2, 3, 2, 5}, {3, 0}};

TEST(Gather, MatchesTheDefinition) {
  std::mt19937 rng(1);
  for (DType t : kAll) {
    for (const Shape& shape : kShapes) {
      for (int round = 0; round < 3; ++round) {
        const int dim = shape.empty() ? 0 : static_cast<int>(rng() % shape.size());
        const int64_t size = shape.empty() ? 1 : std::max<int64_t>(1, shape[dim] + static_cast<int>(rng() % 3) - 1);
        Array self = make(t, with(shape, dim, size), rng() % 2, rng), out = make(t, shape, rng() % 2, rng),
              index = make(DType::kInt64, shape, rng() % 2, rng);
        fill(self, rng);
        fill_index(index, size, rng);
        run_gather(shape, dim, size, out.operand(), self.operand(), index.operand());
        each(shape, [&](const Shape& c) { ASSERT_EQ(out.get(c), self.get(with(c, dim, index.index(c)))); });
      }
    }
  }
}

template <class Expected = IndexError, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Expected& e) { return typeid(e) == typeid(Expected) ? e.what() : "another error"; }
  return "no error";
}

TEST(Gather, BadIndicesAreFound) {
  std::vector<float> self = {1, 2, 3, 4, 5, 6}, out(4, -1), src(4, 9);
  std::vector<int64_t> index = {0, 1, 2, 3};
  const int64_t shape[2] = {2, 2}, s4[2] = {12, 4}, o4[2] = {8, 4}, s8[2] = {16, 8};
  const Operand self_op{self.data(), DType::kFloat32, s4}, out_op{out.data(), DType::kFloat32, o4},
      src_op{src.data(), DType::kFloat32, o4}, index_op{index.data(), DType::kInt64, s8};
  EXPECT_EQ(message_of<Error>([&] { run_gather(shape, 1, 3, out_op, self_op, index_op); }),
            "index 3 is out of bounds for dimension 1 with size 3");
  index[3] = -1;  // no counting from the end here
  EXPECT_EQ(message_of<Error>([&] { run_scatter(ScatterMode::kAssign, shape, 1, 3, self_op, src_op, index_op); }),
            "index -1 is out of bounds for dimension 1 with size 3");
  EXPECT_EQ(self, (std::vector<float>{1, 2, 3, 4, 5, 6})) << "scatter checks before it writes";
}

double meet(ScatterMode mode, DType t, double a, double b) {
  if (t == DType::kBool) {
    if (mode == ScatterMode::kAssign) return b;
    return mode == ScatterMode::kMultiply || mode == ScatterMode::kMin ? a * b : std::max(a, b);
  }
  switch (mode) {
    case ScatterMode::kAssign:
      return b;
    case ScatterMode::kAdd:
      return a + b;
    case ScatterMode::kMultiply:
      return a * b;
    case ScatterMode::kMax:
      return std::max(a, b);
    case ScatterMode::kMin:
      return std::min(a, b);
    default:
      return 0;
  }
}

void check_scatter(ScatterMode mode, DType t, const Shape& shape, std::mt19937& rng) {
  const int dim = shape.empty() ? 0 : static_cast<int>(rng() % shape.size());
  // Few repeats, so that products stay small; one repeat where the line is longer than self.
  const int64_t size =
      shape.empty() ? 1 : std::max<int64_t>(1, mode == ScatterMode::kMultiply ? shape[dim] * 2 : shape[dim] / 2);
  Array self = make(t, with(shape, dim, size), rng() % 2, rng), src = make(t, shape, rng() % 2, rng),
        index = make(DType::kInt64, shape, rng() % 2, rng);
  fill(self, rng);
  fill(src, rng);
  if (rng() % 3 == 0) std::fill(src.strides.begin(), src.strides.end(), 0);  // a scalar
  if (mode == ScatterMode::kMultiply && shape.size() > 0) {
    each(shape, [&](const Shape& c) { index.index(c) = (c[dim] * 3) % size; });
  } else {
    fill_index(index, size, rng);
  }
  Array want = self;
  each(shape, [&](const Shape& c) {
    const Shape to = with(c, dim, index.index(c));
    want.set(to, meet(mode, t, want.get(to), src.get(c)));
  });
  run_scatter(mode, shape, dim, size, self.operand(), src.operand(), index.operand());
  expect_equal(self, want);
}
TEST(Scatter, EveryModeAndDtype) {
  std::mt19937 rng(2);
  for (ScatterMode mode :
       {ScatterMode::kAssign, ScatterMode::kAdd, ScatterMode::kMultiply, ScatterMode::kMax, ScatterMode::kMin}) {
    for (DType t : kAll) {
      if (is_complex(t) && (mode == ScatterMode::kMax || mode == ScatterMode::kMin)) continue;
      for (const Shape& shape : kShapes) {
        for (int round = 0; round < 3; ++round) check_scatter(mode, t, shape, rng);
      }
    }
  }
}
TEST(Scatter, MeanDividesBySelfAndSources) {
  std::vector<float> self = {10, 20, 30};
  std::vector<float> src = {1, 2, 3};
  std::vector<int64_t> index = {0, 0, 2};
  const int64_t shape[1] = {3}, s4[1] = {4}, s8[1] = {8};
  run_scatter(ScatterMode::kMean, shape, 0, 3, {self.data(), DType::kFloat32, s4}, {src.data(), DType::kFloat32, s4},
              {index.data(), DType::kInt64, s8});
  EXPECT_FLOAT_EQ(self[0], 13.0f / 3);
  EXPECT_FLOAT_EQ(self[1], 20);
  EXPECT_FLOAT_EQ(self[2], 16.5f);
  std::vector<int32_t> ints = {-8, 0, 0}, more = {1, 1, 1};
  run_scatter(ScatterMode::kMean, shape, 0, 3, {ints.data(), DType::kInt32, s4}, {more.data(), DType::kInt32, s4},
              {index.data(), DType::kInt64, s8});
  EXPECT_EQ(ints, (std::vector<int32_t>{-2, 0, 0}));
}
TEST(Scatter, ExtremaKeepNan) {
  std::vector<float> self = {1, std::nanf("")}, src = {std::nanf(""), 5};
  std::vector<int64_t> index = {0, 1};
  const int64_t shape[1] = {2}, s4[1] = {4}, s8[1] = {8};
  run_scatter(ScatterMode::kMax, shape, 0, 2, {self.data(), DType::kFloat32, s4}, {src.data(), DType::kFloat32, s4},
              {index.data(), DType::kInt64, s8});
  EXPECT_TRUE(std::isnan(self[0]) && std::isnan(self[1]));
}
TEST(Scatter, ComplexHasNoMaximum) {
  std::complex<float> x;
  int64_t i = 0;
  EXPECT_THROW(run_scatter(ScatterMode::kMax, {}, 0, 1, {&x, DType::kComplex64, nullptr},
                           {&x, DType::kComplex64, nullptr}, {&i, DType::kInt64, nullptr}),
               NotImplementedError);
}

TEST(IndexSelect, TakesSlices) {
  std::mt19937 rng(3);
  for (DType t : kAll) {
    for (const Shape& shape : kShapes) {
      for (int dim = 0; dim < std::max<int>(1, static_cast<int>(shape.size())); ++dim) {
        const int64_t size = shape.empty() ? 1 : shape[dim], n = shape.empty() ? 1 : size == 0 ? 0 : 7;
        Array self = make(t, shape, rng() % 2, rng), out = make(t, with(shape, dim, n), rng() % 2, rng);
        fill(self, rng);
        Shape index(n);
        for (int64_t& i : index) i = static_cast<int64_t>(rng() % size);
        run_index_select(shape, dim, out.operand(), self.operand(), index.data(), n);
        each(out.shape,
             [&](const Shape& c) { ASSERT_EQ(out.get(c), self.get(shape.empty() ? c : with(c, dim, index[c[dim]]))); });
      }
    }
  }
  float x[2] = {}, y[2];
  const int64_t shape[1] = {2}, s4[1] = {4}, bad[1] = {2}, negative[1] = {-1};
  EXPECT_EQ(message_of([&] {
              run_index_select(shape, 0, {y, DType::kFloat32, s4}, {x, DType::kFloat32, s4}, bad, 1);
            }),
            "index out of range in self");
  EXPECT_EQ(message_of([&] {
              run_index_select(shape, 0, {y, DType::kFloat32, s4}, {x, DType::kFloat32, s4}, negative, 1);
            }),
            "index out of range in self");
}
TEST(IndexAdd, AddsScaledSlices) {
  std::mt19937 rng(4);
  for (DType t : kAll) {
    for (const Shape& shape : kShapes) {
      if (shape.empty() || t == DType::kBool) continue;
      for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
        const int64_t n = shape[dim] == 0 ? 0 : 5;
        Array self = make(t, shape, rng() % 2, rng), src = make(t, with(shape, dim, n), rng() % 2, rng);
        fill(self, rng);
        fill(src, rng);
        Shape index(n);
        for (int64_t& i : index) i = static_cast<int64_t>(rng() % shape[dim]);
        Array want = self;
        each(src.shape, [&](const Shape& c) {
          want.set(with(c, dim, index[c[dim]]), want.get(with(c, dim, index[c[dim]])) + 2 * src.get(c));
        });
        KernelParam alpha;
        if (is_complex(t))
          alpha.c[0] = 2, alpha.c[1] = 0;
        else if (is_floating_point(t))
          alpha.f = 2;
        else
          alpha.i = 2;
        run_index_add(shape, dim, self.operand(), src.operand(), index.data(), n, alpha);
        expect_equal(self, want);
      }
    }
  }
}

// x[:, i, :, j] with i of shape (4, 1) and j of shape (3): result (4, 3, A, C) for x of shape (A, B, C, D).
struct Advanced {
  Array x, i, j;
  Shape result, self_strides, i_strides, j_strides, sizes, steps;
  Advanced(DType t, std::mt19937& rng)
      : x(make(t, {5, 6, 8, 7}, rng() % 2, rng)),
        i(make(DType::kInt64, {4}, rng() % 2, rng)),
        j(make(DType::kInt64, {3}, rng() % 2, rng)) {
    fill(x, rng);
    fill_index(i, 6, rng, true);
    fill_index(j, 7, rng, true);
    result = {4, 3, 5, 8};
    self_strides = {0, 0, x.strides[0], x.strides[2]};
    i_strides = {i.strides[0], 0, 0, 0};
    j_strides = {0, j.strides[0], 0, 0};
    sizes = {6, 7};
    steps = {x.strides[1], x.strides[3]};
  }
  Shape source(const Shape& c) {
    const int64_t a = i.index({c[0]}), b = j.index({c[1]});
    return {c[2], a < 0 ? a + 6 : a, c[3], b < 0 ? b + 7 : b};
  }
  Operand self() { return {x.bytes.data(), x.dtype, self_strides.data()}; }
  std::vector<Operand> indices() {
    return {{i.bytes.data(), DType::kInt64, i_strides.data()}, {j.bytes.data(), DType::kInt64, j_strides.data()}};
  }
};

TEST(Index, GetsByTwoTensors) {
  std::mt19937 rng(5);
  for (DType t : kAll) {
    for (int round = 0; round < 4; ++round) {
      Advanced a(t, rng);
      Array out = make(t, a.result, rng() % 2, rng);
      run_index_get(a.result, out.operand(), a.self(), a.indices(), a.sizes, a.steps);
      each(a.result, [&](const Shape& c) { ASSERT_EQ(out.get(c), a.x.get(a.source(c))); });
    }
  }
}
TEST(Index, PutsByTwoTensors) {
  std::mt19937 rng(6);
  for (DType t : kAll) {
    for (int round = 0; round < 6; ++round) {
      Advanced a(t, rng);
      const bool accumulate = round % 2;
      Array values = make(t, a.result, rng() % 2, rng), want = a.x;
      fill(values, rng);
      each(a.result, [&](const Shape& c) {
        const Shape to = a.source(c);
        want.set(to, accumulate ? meet(ScatterMode::kAdd, t, want.get(to), values.get(c)) : values.get(c));
      });
      run_index_put(a.result, a.self(), values.operand(), a.indices(), a.sizes, a.steps, accumulate);
      expect_equal(a.x, want);
    }
  }
}
TEST(Index, BadIndexNamesItsDimension) {
  std::mt19937 rng(7);
  Advanced a(DType::kFloat32, rng);
  a.j.index({2}) = -8;
  Array out = make(DType::kFloat32, a.result, false, rng), before = a.x;
  const Shape numbers = {1, 3};
  EXPECT_EQ(
      message_of([&] { run_index_get(a.result, out.operand(), a.self(), a.indices(), a.sizes, a.steps, numbers); }),
      "index -8 is out of bounds for dimension 3 with size 7");
  EXPECT_EQ(message_of([&] { run_index_put(a.result, a.self(), out.operand(), a.indices(), a.sizes, a.steps, false); }),
            "index -8 is out of bounds for dimension 1 with size 7");
  EXPECT_EQ(a.x.bytes, before.bytes);
}
TEST(Index, LastOfDuplicatesWins) {
  std::vector<float> self(3, 0), values(1000);
  std::iota(values.begin(), values.end(), 1);
  std::vector<int64_t> index(1000);
  for (int k = 0; k < 1000; ++k) index[k] = k % 3;
  const Shape shape = {1000}, s0 = {0}, s4 = {4}, s8 = {8}, sizes = {3};
  const Operand indices[1] = {{index.data(), DType::kInt64, s8.data()}};
  run_index_put(shape, {self.data(), DType::kFloat32, s0.data()}, {values.data(), DType::kFloat32, s4.data()}, indices,
                sizes, s4, false);
  EXPECT_EQ(self, (std::vector<float>{1000, 998, 999}));
}

TEST(Nonzero, CountsAndCoordinates) {
  std::mt19937 rng(8);
  for (DType t : kAll) {
    for (Shape shape : {Shape{}, Shape{40}, Shape{7, 9}, Shape{3, 4, 5}, Shape{2, 0}, Shape{300, 130}}) {
      if (shape.size() == 2 && shape[0] == 300 && t != DType::kFloat32 && t != DType::kBool) continue;
      Array x = make(t, shape, rng() % 2, rng);
      std::vector<Shape> want;
      each(shape, [&](const Shape& c) {
        x.set(c, rng() % 3 == 0 ? 1 : 0);
        if (x.get(c) != 0) want.push_back(c);
      });
      const int64_t n = run_count_nonzero(shape, x.operand()), rank = static_cast<int64_t>(shape.size());
      ASSERT_EQ(n, static_cast<int64_t>(want.size()));
      const bool columns = rng() % 2;
      std::vector<int64_t> out(n * rank + 1, -1);
      run_nonzero(shape, x.operand(), out.data(), columns ? 8 : 8 * rank, columns ? 8 * n : 8);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t d = 0; d < rank; ++d) ASSERT_EQ(out[columns ? d * n + i : i * rank + d], want[i][d]);
      }
    }
  }
}

TEST(Masked, SelectAndScatter) {
  std::mt19937 rng(9);
  for (DType t : kAll) {
    for (Shape shape : {Shape{}, Shape{40}, Shape{7, 9}, Shape{3, 4, 5}, Shape{2, 0}, Shape{400, 170}}) {
      Array self = make(t, shape, rng() % 2, rng), mask = make(DType::kBool, shape, rng() % 2, rng);
      fill(self, rng);
      fill(mask, rng);
      if (shape.size() == 2 && rng() % 2) mask.strides[0] = 0;  // broadcast
      Array out = make(t, {self.count()}, false, rng), src = make(t, {self.count()}, false, rng);
      fill(src, rng);
      int64_t n = 0;
      Array want = self, selected = out;
      each(shape, [&](const Shape& c) {
        if (mask.get(c) == 0) return;
        selected.set({n}, self.get(c));
        want.set(c, src.get({n++}));
      });
      ASSERT_EQ(run_masked_select(shape, out.bytes.data(), self.operand(), mask.operand()), n);
      EXPECT_EQ(out.bytes, selected.bytes);
      if (n > 0) {
        const Array before = self;
        EXPECT_THROW(run_masked_scatter(shape, self.operand(), mask.operand(), src.bytes.data(), n - 1), Error);
        EXPECT_EQ(self.bytes, before.bytes);
      }
      run_masked_scatter(shape, self.operand(), mask.operand(), src.bytes.data(), n);
      expect_equal(self, want);
    }
  }
}

TEST(Masked, LongMasksOfAnyDensity) {
  std::mt19937 rng(21);
  for (const int64_t n : {1, 31, 64, 1000, 32768, 70003}) {
    for (const uint32_t share : {0u, 1u, 300u, 900u, 1000u}) {
      std::vector<uint8_t> mask(n);
      for (uint8_t& m : mask) m = rng() % 1000 < share ? 1 + rng() % 255 : 0;  // whatever is not 0 is set
      std::vector<int64_t> want;
      for (int64_t i = 0; i < n; ++i)
        if (mask[i]) want.push_back(i);
      const int64_t hits = static_cast<int64_t>(want.size()), shape[1] = {n}, ones[1] = {1};
      const Operand mask_op{mask.data(), DType::kBool, ones};
      std::vector<int64_t> found(hits + 1, -7);
      run_nonzero(shape, mask_op, found.data(), 8, 8 * hits);
      EXPECT_EQ(found.back(), -7);
      found.pop_back();
      EXPECT_EQ(found, want);
      for (const auto& [t, size] : {std::pair{DType::kUInt8, 1},
                                    {DType::kInt16, 2},
                                    {DType::kFloat32, 4},
                                    {DType::kInt64, 8},
                                    {DType::kComplex128, 16}}) {
        std::vector<uint8_t> from(n * size), to((hits + 1) * size, 77), back(n * size, 5);
        for (uint8_t& b : from) b = rng();
        const int64_t strides[1] = {size};
        EXPECT_EQ(run_masked_select(shape, to.data(), {from.data(), t, strides}, mask_op), hits);
        for (int64_t i = 0; i < hits; ++i) ASSERT_EQ(std::memcmp(&to[i * size], &from[want[i] * size], size), 0);
        for (int i = 0; i < size; ++i) ASSERT_EQ(to[hits * size + i], 77);
        run_masked_scatter(shape, {back.data(), t, strides}, mask_op, to.data(), hits);
        for (int64_t i = 0; i < n; ++i)
          for (int k = 0; k < size; ++k) ASSERT_EQ(back[i * size + k], mask[i] ? from[i * size + k] : 5);
      }
    }
  }
}

TEST(Nonzero, LongLinesOfSeveralDimensions) {
  std::mt19937 rng(22);
  for (const Shape& shape : {Shape{3, 20000}, Shape{1200, 33}, Shape{5000, 7}, Shape{30, 20, 64}}) {
    Array x = make(DType::kBool, shape, false, rng);
    std::vector<int64_t> want;
    int64_t n = 0;
    each(shape, [&](const Shape& c) {
      const bool set = rng() % 3 == 0;
      x.set(c, set);
      if (!set) return;
      want.insert(want.end(), c.begin(), c.end());
      ++n;
    });
    const int64_t rank = static_cast<int64_t>(shape.size());
    std::vector<int64_t> out(n * rank);
    run_nonzero(shape, x.operand(), out.data(), 8, 8 * n);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t d = 0; d < rank; ++d) ASSERT_EQ(out[d * n + i], want[i * rank + d]);
  }
}

TEST(Index, GetsElementsFromAfar) {
  const int64_t n = 400000, m = 20011;
  std::mt19937 rng(23);
  std::vector<float> x(n), out(m);
  std::iota(x.begin(), x.end(), 0.0f);
  std::vector<int64_t> index(m);
  for (int64_t& i : index) i = static_cast<int64_t>(rng() % n) - (rng() % 2 ? n : 0);
  const int64_t shape[1] = {m}, s4[1] = {4}, s8[1] = {8}, none[1] = {0}, sizes[1] = {n}, strides[1] = {4};
  const Operand indices[1] = {{index.data(), DType::kInt64, s8}}, self{x.data(), DType::kFloat32, none},
                to{out.data(), DType::kFloat32, s4};
  run_index_get(shape, to, self, indices, sizes, strides);
  for (int64_t i = 0; i < m; ++i) ASSERT_EQ(out[i], x[index[i] < 0 ? index[i] + n : index[i]]);
  for (const int64_t bad : {n, -n - 1, INT64_MAX, INT64_MIN}) {
    index[m - 3] = bad;
    EXPECT_THROW(run_index_get(shape, to, self, indices, sizes, strides), IndexError);
  }
}

TEST(IndexAdd, RowsByBlocksOfTheDestination) {
  std::mt19937 rng(24);
  const int before = num_threads();
  for (const auto& [rows, n, len] : {std::array<int64_t, 3>{40, 700, 129}, {9, 60, 3000}, {3000, 2000, 256}}) {
    std::vector<double> src(n * len), want(rows * len, 1.0);
    std::vector<int64_t> index(n);
    for (double& v : src) v = static_cast<double>(rng()) / 7;
    for (int64_t& i : index) i = rng() % rows;
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < len; ++k) want[index[j] * len + k] += src[j * len + k];
    const int64_t shape[2] = {rows, len}, strides[2] = {8 * len, 8};
    KernelParam one;
    one.f = 1;
    for (int threads = 1; threads <= 2; ++threads) {
      set_num_threads(threads);
      std::vector<double> self(rows * len, 1.0);
      run_index_add(shape, 0, {self.data(), DType::kFloat64, strides}, {src.data(), DType::kFloat64, strides},
                    index.data(), n, one);
      EXPECT_EQ(self, want);
    }
  }
  set_num_threads(before);
}

TEST(Triangles, KeepTheirSideOfTheDiagonal) {
  std::mt19937 rng(10);
  for (DType t : {DType::kBool, DType::kFloat16, DType::kFloat32, DType::kInt64, DType::kComplex128}) {
    for (Shape shape : {Shape{4, 4}, Shape{3, 7}, Shape{7, 3}, Shape{2, 3, 5, 6}, Shape{0, 3}, Shape{3, 0}}) {
      for (int64_t diagonal : {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{100}, INT64_MIN, INT64_MAX}) {
        for (bool upper : {false, true}) {
          Array x = make(t, shape, rng() % 2, rng), out = make(t, shape, rng() % 2, rng);
          fill(x, rng);
          fill(out, rng);
          run_tril_triu(upper, diagonal, shape, out.operand(), x.operand());
          each(shape, [&](const Shape& c) {
            const int64_t d = c[c.size() - 1] - c[c.size() - 2];
            ASSERT_EQ(out.get(c), (upper ? d >= diagonal : d <= diagonal) ? x.get(c) : 0);
          });
          run_tril_triu(upper, diagonal, shape, x.operand(), x.operand());
          expect_equal(x, out);
        }
      }
    }
  }
}

TEST(Flip, ReversesDimensions) {
  std::mt19937 rng(11);
  for (DType t : kAll) {
    for (const Shape& shape : kShapes) {
      const uint64_t mask = rng() % (uint64_t{1} << shape.size());
      Array x = make(t, shape, rng() % 2, rng), out = make(t, shape, rng() % 2, rng);
      fill(x, rng);
      run_flip(shape, mask, out.operand(), x.operand());
      each(shape, [&](const Shape& c) {
        Shape from = c;
        for (size_t d = 0; d < c.size(); ++d)
          if (mask >> d & 1) from[d] = shape[d] - 1 - c[d];
        ASSERT_EQ(out.get(c), x.get(from));
      });
    }
  }
}

// Results past the caches: of every element size, rows that begin anywhere within a line.
TEST(Flip, AndSlicesOfLargeTensors) {
  for (const auto& [size, t] :
       {std::pair<int64_t, DType>{1, DType::kUInt8}, {2, DType::kInt16}, {4, DType::kFloat32}, {8, DType::kFloat64}}) {
    const int64_t rows = 701, cols = (int64_t{17} << 20) / size / 700 + 3;
    std::vector<char> x(rows * cols * size), out(x.size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<char>(i * 131 >> 5);
    const int64_t shape[2] = {rows, cols}, strides[2] = {cols * size, size};
    run_flip(shape, 2, {out.data(), t, strides}, {x.data(), t, strides});
    for (int64_t i = 0; i < rows * cols; ++i) {
      ASSERT_EQ(std::memcmp(&out[i * size], &x[(i / cols * cols + cols - 1 - i % cols) * size], size), 0)
          << size << " at " << i;
    }
    std::vector<int64_t> index(rows);
    for (int64_t i = 0; i < rows; ++i) index[i] = i * 37 % rows;
    run_index_select(shape, 0, {out.data(), t, strides}, {x.data(), t, strides}, index.data(), rows);
    for (int64_t i = 0; i < rows; ++i)
      ASSERT_EQ(std::memcmp(&out[i * cols * size], &x[index[i] * cols * size], cols * size), 0) << size << " at " << i;
  }
}

// More than a million elements: in parts, with requests ahead.
TEST(Gather, AndScatterOfFarLines) {
  std::mt19937 rng(31);
  const int before = num_threads();
  for (const auto& [rows, n, size] :
       {std::array<int64_t, 3>{1100, 1001, 1001}, {700, 1601, 333}, {300, 3600, 9000}, {150, 7400, 50000}}) {
    std::vector<float> x(rows * size), src(rows * n), sums(rows * size);
    std::vector<int64_t> index(rows * n);
    std::iota(x.begin(), x.end(), 0.0f);
    for (int64_t& i : index) i = static_cast<int64_t>(rng() % static_cast<uint64_t>(size));
    for (int64_t i = 0; i < rows * n; ++i)
      src[i] = static_cast<float>(rng() % 64), sums[i / n * size + index[i]] += src[i];
    const int64_t shape[2] = {rows, n}, strides[2] = {4 * n, 4}, lines[2] = {4 * size, 4}, places[2] = {8 * n, 8};
    const Operand i{index.data(), DType::kInt64, places};
    for (int threads : {1, 2}) {
      set_num_threads(threads);
      std::vector<float> out(rows * n), to(rows * size);
      run_gather(shape, 1, size, {out.data(), DType::kFloat32, strides}, {x.data(), DType::kFloat32, lines}, i);
      for (int64_t k = 0; k < rows * n; ++k) ASSERT_EQ(out[k], x[k / n * size + index[k]]);
      run_scatter(ScatterMode::kAdd, shape, 1, size, {to.data(), DType::kFloat32, lines},
                  {src.data(), DType::kFloat32, strides}, i);
      EXPECT_EQ(to, sums);
    }
    for (const int64_t bad : {size, int64_t{-1}}) {
      index[rows * n - 5] = bad;
      EXPECT_THROW(
          run_gather(shape, 1, size, {src.data(), DType::kFloat32, strides}, {x.data(), DType::kFloat32, lines}, i),
          Error);
    }
  }
  set_num_threads(before);
}

TEST(Scatter, SameBitsForAnyNumberOfThreads) {
  std::mt19937 rng(12);
  const int before = num_threads();
  std::normal_distribution<double> normal;
  for (int dim = 0; dim < 3; ++dim) {
    const Shape shape = {60, 50, 70};
    Array src = make(DType::kFloat32, shape, false, rng), index = make(DType::kInt64, shape, false, rng);
    each(shape, [&](const Shape& c) { src.set(c, normal(rng)); });
    fill_index(index, 9, rng);
    Array results[2] = {make(DType::kFloat32, with(shape, dim, 9), false, rng),
                        make(DType::kFloat32, with(shape, dim, 9), false, rng)};
    for (int threads = 1; threads <= 2; ++threads) {
      set_num_threads(threads);
      run_scatter(ScatterMode::kAdd, shape, dim, 9, results[threads - 1].operand(), src.operand(), index.operand());
    }
    EXPECT_EQ(results[0].bytes, results[1].bytes);
  }
  set_num_threads(before);
}

}  // namespace
}  // namespace tessera::cpu
