// Scans on the device against those of the CPU.
#include <random>
#include <string>
#include <vector>

#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cuda/reduce/engines.h"
#include "tensor/cuda/reduce/reduce_testing.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using cpu::Operand;
using cpu::ScanKind;
using testing::Array;

class Scan : public testing::DeviceTest {};

const std::vector<std::vector<int64_t>> kShapes = {{},      {1},     {9},      {0},      {100},      {3000},
                                                   {5, 30}, {30, 5}, {3, 700}, {700, 3}, {3, 20, 4}, {2, 1, 17, 3}};

void check(ScanKind kind, DType t, const std::vector<int64_t>& shape, int dim, int layout, std::mt19937& rng) {
  const bool extreme = kind == ScanKind::kCumMax || kind == ScanKind::kCumMin;
  const DType result = !extreme && is_integral(t, true) ? DType::kInt64 : t;
  const double range = kind == ScanKind::kCumProd ? (is_complex(t) ? 0.9 : 1.2) : 3;
  const Array in = testing::make_array(t, shape, layout, rng, range, kind != ScanKind::kCumProd && rng() % 3 == 0);
  Array out = testing::make_array(result, shape, layout == 3 ? 0 : layout, rng, 1, false),
        indices = testing::make_array(DType::kInt64, shape, rng() % 2, rng, 1, false);
  const Operand absent{nullptr, DType::kInt64, nullptr};
  cpu::run_scan(kind, result, shape, dim, out.host(), extreme ? indices.host() : absent, in.host());
  cuda::run_scan(kind, result, shape, dim, out.device(), extreme ? indices.device() : absent, in.device());
  const std::string what = "kind " + std::to_string(static_cast<int>(kind)) + " of " + name_of(t) + " layout " +
                           std::to_string(layout) + " dim " + std::to_string(dim) + " rank " +
                           std::to_string(shape.size()) + " first size " + std::to_string(shape.empty() ? 1 : shape[0]);
  if (extreme) {
    testing::expect_close(result, out.host_bytes(), out.device_bytes(), 0, 0, what);
    testing::expect_same(DType::kInt64, indices.host_bytes(), indices.device_bytes(), what);
  } else if (kind == ScanKind::kLogCumSumExp && is_complex(t)) {
    // Logarithms of the same number may differ by a turn.
    const std::vector<uint8_t> want = out.host_bytes(), got = out.device_bytes();
    for (int64_t i = 0; i < static_cast<int64_t>(want.size()) / item_size(result); ++i) {
      EXPECT_LE(std::abs(std::exp(testing::element(result, want.data(), i)) -
                         std::exp(testing::element(result, got.data(), i))),
                2e-3)
          << what << " element " << i;
    }
  } else {
    const double tolerance = result == DType::kFloat64 || result == DType::kComplex128 ? 1e-11 : -1;
    testing::expect_close(result, out.host_bytes(), out.device_bytes(), tolerance, tolerance, what);
  }
}

void check_all(ScanKind kind, const std::vector<DType>& dtypes, unsigned seed) {
  std::mt19937 rng(seed);
  for (DType t : dtypes) {
    for (const auto& shape : kShapes) {
      for (int layout = 0; layout < 4; ++layout) {
        const int dims = shape.empty() ? 1 : static_cast<int>(shape.size());
        for (int dim = 0; dim < dims; ++dim) check(kind, t, shape, dim, layout, rng);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

const std::vector<DType> kIntegers = {DType::kBool,  DType::kUInt8,  DType::kInt8,   DType::kInt16, DType::kInt32,
                                      DType::kInt64, DType::kUInt16, DType::kUInt32, DType::kUInt64};
const std::vector<DType> kFloats = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
const std::vector<DType> kComplexes = {DType::kComplex64, DType::kComplex128};

TEST_F(Scan, Sums) {
  for (const auto& list : {kIntegers, kFloats, kComplexes}) check_all(ScanKind::kCumSum, list, 1);
}
TEST_F(Scan, Products) {
  for (const auto& list : {kIntegers, kFloats, kComplexes}) check_all(ScanKind::kCumProd, list, 2);
}
TEST_F(Scan, Extrema) {
  for (ScanKind kind : {ScanKind::kCumMax, ScanKind::kCumMin}) {
    for (const auto& list : {kIntegers, kFloats}) check_all(kind, list, 3);
  }
}
TEST_F(Scan, LogSumExp) {
  for (const auto& list : {kFloats, kComplexes}) check_all(ScanKind::kLogCumSumExp, list, 4);
}

TEST_F(Scan, LongLinesInPieces) {
  std::mt19937 rng(5);
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{100001}, {3, 30011}, {30011, 3}}) {
    for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
      check(ScanKind::kCumSum, DType::kInt32, shape, dim, 0, rng);
      check(ScanKind::kCumSum, DType::kFloat32, shape, dim, 0, rng);
      check(ScanKind::kCumMax, DType::kFloat32, shape, dim, 0, rng);
    }
  }
}

TEST_F(Scan, InPlace) {
  const testing::Mirror x = testing::Mirror::of(std::vector<int64_t>(50000, 1));
  const int64_t shape[1] = {50000}, stride[1] = {8};
  const Operand o{x.device(), DType::kInt64, stride};
  cuda::run_scan(ScanKind::kCumSum, DType::kInt64, shape, 0, o, {nullptr, DType::kInt64, nullptr}, o);
  const std::vector<uint8_t> bytes = x.device_bytes();
  for (int64_t i = 0; i < 50000; ++i) ASSERT_EQ(reinterpret_cast<const int64_t*>(bytes.data())[i], i + 1);
}

TEST_F(Scan, UnknownCombinationIsAnError) {
  const testing::DeviceBytes x(16);
  const int64_t shape[1] = {1}, stride[1] = {8};
  const Operand o{x.get(), DType::kComplex64, stride};
  EXPECT_THROW(cuda::run_scan(ScanKind::kCumMax, DType::kComplex64, shape, 0, o, o, o), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cuda
