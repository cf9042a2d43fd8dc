// Sorting, selection and search: the same values and positions as on the CPU.
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cpu/sort/sort.h"
#include "tensor/cuda/sort/engines.h"
#include "tensor/cuda/support/index_testing.h"
#include "tensor/cuda/sort/sort_radix.h"

namespace tessera::cuda::testing {
namespace {

const std::vector<DType> kSortable = {
    DType::kBool,   DType::kUInt8,  DType::kInt8,    DType::kInt16,    DType::kInt32,   DType::kInt64,  DType::kUInt16,
    DType::kUInt32, DType::kUInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

class SortTest : public DeviceTest {
 protected:
  // few: many equal elements. Floats have NaN, both zeros and infinities among them.
  Array values(DType t, const Shape& shape, bool scattered, bool few) {
    Array a = make(t, shape, scattered, rng);
    std::normal_distribution<double> normal(0, 100);
    constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
    const double special[5] = {0.0, -0.0, kInf, -kInf, kNan};
    fill(a, [&](size_t) -> double {
      if (is_integral(t, true)) {
        const double v = few ? rng() % 3 : item_size(t) == 1 ? rng() % 128 : item_size(t) == 2 ? rng() % 32768 : rng();
        return t == DType::kBool ? static_cast<int>(v) % 2 : is_signed(t) && rng() % 2 ? -v / 2 : v;
      }
      if (rng() % 8 == 0) return special[rng() % 5];
      return few ? static_cast<double>(static_cast<int>(rng() % 5) - 2) : normal(rng);
    });
    return a;
  }

  void check_sort(DType t, const Shape& shape, int dim) {
    const bool descending = rng() % 2;
    Array in = values(t, shape, rng() % 2, rng() % 2), v = make(t, shape, rng() % 2, rng),
          i = make(DType::kInt64, shape, rng() % 2, rng);
    const OnDevice device_in(in), device_v(v), device_i(i);
    cpu::run_sort(shape, dim, descending, v.operand(), i.operand(), in.operand());
    cuda::run_sort(shape, dim, descending, device_v.operand(), device_i.operand(), device_in.operand());
    ASSERT_EQ(device_i.bytes(), i.bytes) << name_of(t);
    ASSERT_EQ(device_v.bytes(), v.bytes) << name_of(t);
  }
  void check_topk(DType t, const Shape& shape, int dim, int64_t k) {
    const bool largest = rng() % 2;
    Shape out = shape;
    if (!out.empty()) out[dim] = k;
    Array in = values(t, shape, rng() % 2, rng() % 2), v = make(t, out, rng() % 2, rng),
          i = make(DType::kInt64, out, rng() % 2, rng);
    const OnDevice device_in(in), device_v(v), device_i(i);
    cpu::run_topk(shape, dim, k, largest, true, v.operand(), i.operand(), in.operand());
    cuda::run_topk(shape, dim, k, largest, true, device_v.operand(), device_i.operand(), device_in.operand());
    ASSERT_EQ(device_i.bytes(), i.bytes) << name_of(t) << " k " << k;
    ASSERT_EQ(device_v.bytes(), v.bytes) << name_of(t);
  }
};

TEST_F(SortTest, ShortRows) {
  for (DType t : kSortable) {
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{2}, Shape{33}, Shape{5, 7}, Shape{3, 64, 5}, Shape{700, 3}, Shape{2, 513},
          Shape{1, 2048}, Shape{1030, 2}, Shape{1, 4096}, Shape{0, 4}, Shape{4, 0}}) {
      for (int dim = 0; dim < std::max<int>(1, static_cast<int>(shape.size())); ++dim) check_sort(t, shape, dim);
    }
  }
}
TEST_F(SortTest, LongRows) {
  for (DType t : kSortable) {
    for (const auto& [shape, dim] : {std::pair<Shape, int>{{4097}, 0}, {{3, 8193}, 1}, {{5000, 2}, 0}})
      check_sort(t, shape, dim);
  }
}
TEST_F(SortTest, ValuesOrIndicesAlone) {
  for (const Shape& shape : {Shape{4, 50}, Shape{2, 5000}}) {
    Array in = values(DType::kFloat32, shape, true, false), v = make(DType::kFloat32, shape, true, rng),
          i = make(DType::kInt64, shape, true, rng);
    const OnDevice device_in(in), device_v(v), device_i(i);
    const Operand none_v{nullptr, DType::kFloat32, nullptr}, none_i{nullptr, DType::kInt64, nullptr};
    cpu::run_sort(shape, 1, false, v.operand(), i.operand(), in.operand());
    cuda::run_sort(shape, 1, false, none_v, device_i.operand(), device_in.operand());
    cuda::run_sort(shape, 1, false, device_v.operand(), none_i, device_in.operand());
    EXPECT_EQ(device_i.bytes(), i.bytes);
    EXPECT_EQ(device_v.bytes(), v.bytes);
  }
}
TEST_F(SortTest, DtypesWithoutOrder) {
  const int64_t shape[1] = {1}, s[1] = {8};
  const Operand x{nullptr, DType::kComplex64, s};
  EXPECT_THROW(cuda::run_sort(shape, 0, false, x, x, x), TypeError);
  EXPECT_THROW(cuda::run_topk(shape, 0, 1, false, true, x, x, x), TypeError);
}

TEST_F(SortTest, TopkOfShortRows) {
  for (DType t : kSortable) {
    for (const Shape& shape : {Shape{}, Shape{33}, Shape{5, 7}, Shape{3, 64, 5}, Shape{2, 1000}}) {
      for (int dim = 0; dim < std::max<int>(1, static_cast<int>(shape.size())); ++dim) {
        const int64_t n = shape.empty() ? 1 : shape[dim];
        for (int64_t k : {int64_t{0}, int64_t{1}, n / 2, n}) check_topk(t, shape, dim, k);
      }
    }
  }
}
TEST_F(SortTest, TopkOfLongRows) {
  for (DType t : kSortable) {
    for (int64_t k : {int64_t{1}, int64_t{100}, int64_t{500}, int64_t{4000}, int64_t{5000}})
      check_topk(t, {3, 5000}, 1, k);
    check_topk(t, {4200, 2}, 0, 17);
  }
  check_topk(DType::kFloat32, {40000}, 0, 4300);  // more than a short row of results
  check_topk(DType::kFloat64, {40000}, 0, 4400);
}

TEST_F(SortTest, RadixSortIsStable) {
  struct Case {
    int bits;
    int64_t rows, n;
  };
  // The last one has more tiles than one block sums the counts of.
  for (const auto& [bits, rows, n] :
       {Case{0, 2, 5000}, Case{1, 2, 1}, Case{8, 3, 4096}, Case{13, 2, 9000}, Case{32, 1, 9000}, Case{7, 2, 140000}}) {
    std::vector<uint32_t> keys(rows * n), positions(rows * n);
    for (uint32_t& k : keys) k = bits == 0 ? 0 : static_cast<uint32_t>(rng() >> (32 - bits));
    Buffer memory(keys.size() * 4);
    copy_to_device(memory.get(), keys.data(), keys.size() * 4);
    const Sorted<uint32_t, uint32_t> sorted = radix_sort<uint32_t, uint32_t>(std::move(memory), rows, n, bits);
    std::vector<uint32_t> want(rows * n);
    for (int64_t r = 0; r < rows; ++r) {
      const uint32_t* row = keys.data() + r * n;
      std::iota(want.begin() + r * n, want.begin() + (r + 1) * n, 0);
      std::stable_sort(want.begin() + r * n, want.begin() + (r + 1) * n,
                       [row](uint32_t a, uint32_t b) { return row[a] < row[b]; });
    }
    copy_to_host(positions.data(), sorted.positions.get(), positions.size() * 4);
    EXPECT_EQ(positions, want) << bits;
  }
}

TEST_F(SortTest, WidePositions) {
  const int64_t n = 5000;
  std::vector<uint64_t> keys(n), positions(n), want(n);
  for (uint64_t& k : keys) k = uint64_t{rng() % 50} << 50 | rng() % 3;
  Buffer memory(n * 8);
  copy_to_device(memory.get(), keys.data(), n * 8);
  const Sorted<uint64_t, uint64_t> sorted = radix_sort<uint64_t, uint64_t>(std::move(memory), 1, n, 56);
  std::iota(want.begin(), want.end(), 0);
  std::stable_sort(want.begin(), want.end(), [&](uint64_t a, uint64_t b) { return keys[a] < keys[b]; });
  copy_to_host(positions.data(), sorted.positions.get(), n * 8);
  EXPECT_EQ(positions, want);
}

TEST_F(SortTest, Search) {
  for (DType t : kSortable) {
    for (int64_t m : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{100}}) {
      for (int round = 0; round < 8; ++round) {
        const bool shared = round & 1, right = round & 2, narrow = round & 4;
        const int64_t rows = 3, n = 40, boundary_rows = shared ? 1 : rows;
        Array raw = values(t, {boundary_rows, m}, false, false), boundaries = make(t, {boundary_rows, m}, false, rng),
              order = make(DType::kInt64, {boundary_rows, m}, false, rng);
        if (m > 0) cpu::run_sort(raw.shape, 1, false, boundaries.operand(), order.operand(), raw.operand());
        Array v = values(t, {rows, n}, false, false),
              out = make(narrow ? DType::kInt32 : DType::kInt64, {rows, n}, false, rng);
        const OnDevice device_raw(raw), device_boundaries(boundaries), device_order(order), device_v(v);
        for (bool through_order : {false, true}) {
          const OnDevice device_out(out);
          cpu::run_searchsorted(t, through_order ? raw.bytes.data() : boundaries.bytes.data(), m, shared,
                                through_order ? reinterpret_cast<int64_t*>(order.bytes.data()) : nullptr,
                                v.bytes.data(), rows, n, right, narrow, out.bytes.data());
          cuda::run_searchsorted(t, through_order ? device_raw.as<void>() : device_boundaries.as<void>(), m, shared,
                                 through_order ? device_order.as<int64_t>() : nullptr, device_v.as<void>(), rows, n,
                                 right, narrow, device_out.as<void>());
          ASSERT_EQ(device_out.bytes(), out.bytes) << name_of(t) << " m " << m << " round " << round << through_order;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::cuda::testing
