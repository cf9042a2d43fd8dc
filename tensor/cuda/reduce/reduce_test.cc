// Reductions on the device against those of the CPU.
#include <algorithm>
#include <complex>
#include <limits>
#include <random>
#include <vector>

#include "tensor/cpu/reduce/reduce.h"
#include "tensor/cuda/reduce/engines.h"
#include "tensor/cuda/reduce/reduce_testing.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using cpu::Operand;
using cpu::ReduceKind;
using testing::Array;
constexpr double kInf = std::numeric_limits<double>::infinity();

class Reduce : public testing::DeviceTest {};

const std::vector<std::vector<int64_t>> kShapes = {{},        {1},       {7},         {33},          {1500},
                                                   {40000},   {5, 3},    {3, 130},    {130, 3},      {2000, 3},
                                                   {90, 300}, {4, 5, 6}, {2, 200, 9}, {3, 1, 40, 5}, {2, 3, 2, 3, 2}};
const std::vector<DType> kInts = {DType::kBool,  DType::kUInt8,  DType::kInt8,   DType::kInt16, DType::kInt32,
                                  DType::kInt64, DType::kUInt16, DType::kUInt32, DType::kUInt64};
const std::vector<DType> kFloats = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
const std::vector<DType> kComplexes = {DType::kComplex64, DType::kComplex128};

bool is_int(DType t) { return is_integral(t, true); }

DType result_dtype(ReduceKind kind, DType in) {
  switch (kind) {
    case ReduceKind::kAll:
    case ReduceKind::kAny:
      return in == DType::kUInt8 ? in : DType::kBool;
    case ReduceKind::kCountNonzero:
      return DType::kInt64;
    case ReduceKind::kNorm:
    case ReduceKind::kSumSquares:
      return is_complex(in) ? to_real(in) : in;
    case ReduceKind::kSum:
    case ReduceKind::kProd:
      return is_int(in) ? DType::kInt64 : in;
    default:
      return in;
  }
}

void check(ReduceKind kind, DType dtype, double p, uint64_t seed, DType in_dtype, const std::vector<int64_t>& shape,
           int layout, bool specials) {
  std::mt19937 rng(static_cast<unsigned>(seed));
  const double range = kind == ReduceKind::kProd ? 1.5 : 4;
  const Array in = testing::make_array(in_dtype, shape, layout, rng, range, specials);
  const uint64_t all = (uint64_t{1} << shape.size()) - 1;
  for (uint64_t mask : {all, uint64_t{rng()} & all}) {
    const DType result = result_dtype(kind, dtype);
    Array out = testing::make_result(result, shape, mask, layout == 3 ? 0 : layout, rng);
    const DType compute =
        kind == ReduceKind::kNorm || kind == ReduceKind::kSumSquares || kind == ReduceKind::kCountNonzero ? dtype
        : is_int(result)                                                                                  ? result
                                                                                                          : dtype;
    const KernelParam param{p};
    cpu::run_reduce(kind, compute, shape, mask, out.host(), in.host(), &param);
    cuda::run_reduce(kind, compute, shape, mask, out.device(), in.device(), &param);
    const bool product = kind == ReduceKind::kProd;
    const double unit = result == DType::kFloat16                                  ? 1e-3
                        : result == DType::kBFloat16                               ? 8e-3
                        : result == DType::kFloat32 || result == DType::kComplex64 ? 1.2e-7
                                                                                   : 1e-13;
    // Sums of the CPU may be in the precision of the dtype.
    const double scale = kind == ReduceKind::kSum || kind == ReduceKind::kNanSum
                             ? 32 + 2.0 * static_cast<double>(testing::numel(shape))
                             : 4;
    testing::expect_close(
        result, out.host_bytes(), out.device_bytes(), unit * (product ? 20 : 4), product ? 0 : unit * scale,
        "kind " + std::to_string(static_cast<int>(kind)) + " of " + name_of(in_dtype) + " layout " +
            std::to_string(layout) + " mask " + std::to_string(mask) + " rank " + std::to_string(shape.size()) +
            " first size " + std::to_string(shape.empty() ? 1 : shape[0]) + " p " + std::to_string(p));
    if (::testing::Test::HasFailure()) return;
  }
}

void check_shapes(ReduceKind kind, DType dtype, double p = 0) {
  uint64_t seed = static_cast<uint64_t>(kind) * 100 + static_cast<uint64_t>(dtype);
  for (const auto& shape : kShapes) {
    for (int layout = 0; layout < 4; ++layout) {
      const bool large_too = (dtype == DType::kFloat32 || dtype == DType::kInt64) && layout < 2;
      ++seed;
      if (testing::numel(shape) > 3000 && !large_too) continue;
      check(kind, dtype, p, seed, dtype, shape, layout, seed % 3 == 0 && kind != ReduceKind::kProd);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST_F(Reduce, SumsAndProductsOfEveryDtype) {
  for (ReduceKind kind : {ReduceKind::kSum, ReduceKind::kProd}) {
    for (const auto& list : {kInts, kFloats, kComplexes}) {
      for (DType t : list) check_shapes(kind, t);
    }
  }
  for (DType t : kFloats) check_shapes(ReduceKind::kNanSum, t);
  for (DType t : kFloats) check_shapes(ReduceKind::kMean, t);
  for (DType t : kComplexes) check_shapes(ReduceKind::kMean, t);
}

TEST_F(Reduce, Extrema) {
  for (ReduceKind kind : {ReduceKind::kMax, ReduceKind::kMin}) {
    for (const auto& list : {kInts, kFloats}) {
      for (DType t : list) check_shapes(kind, t);
    }
  }
}

TEST_F(Reduce, AnyAllCount) {
  for (ReduceKind kind : {ReduceKind::kAny, ReduceKind::kAll, ReduceKind::kCountNonzero}) {
    for (const auto& list : {kInts, kFloats, kComplexes}) {
      for (DType t : list) check_shapes(kind, t);
    }
  }
}

TEST_F(Reduce, NormsOfEveryOrder) {
  for (double p : {0.0, 1.0, 2.0, 3.0, 2.5, -1.0, kInf, -kInf}) {
    for (DType t :
         {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16, DType::kComplex64, DType::kComplex128})
      check_shapes(ReduceKind::kNorm, t, p);
  }
  for (DType t : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kComplex64})
    check_shapes(ReduceKind::kSumSquares, t);
}

TEST_F(Reduce, LogSumExp) {
  for (DType t : kFloats) check_shapes(ReduceKind::kLogSumExp, t);
  uint64_t seed = 70;
  for (DType t : kComplexes) {
    for (int layout = 0; layout < 3; ++layout) check(ReduceKind::kLogSumExp, t, 0, ++seed, t, {7, 40}, layout, false);
  }
  const testing::Mirror x = testing::Mirror::of<float>({1000, 1000, -1000});
  const testing::DeviceBytes out(4);
  const int64_t shape[1] = {3}, stride[1] = {4}, zero[1] = {0};
  cuda::run_reduce(ReduceKind::kLogSumExp, DType::kFloat32, shape, 1, {out.get(), DType::kFloat32, zero},
                   {x.device(), DType::kFloat32, stride}, nullptr);
  EXPECT_FLOAT_EQ(read(out.as<float>()), 1000 + std::log(2.0f));
}

TEST_F(Reduce, ReadsAnyDtype) {
  uint64_t seed = 1000;
  for (DType in : {DType::kBool, DType::kUInt8, DType::kInt16, DType::kInt32, DType::kUInt64, DType::kFloat16,
                   DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kFloat8_e5m2, DType::kFloat8_e4m3fn}) {
    for (DType compute : {DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
      for (int layout = 0; layout < 3; ++layout)
        check(ReduceKind::kSum, compute, 0, ++seed, in, {30, 50}, layout, false);
    }
  }
  for (DType in : {DType::kFloat32, DType::kComplex32})
    check(ReduceKind::kSum, DType::kComplex64, 0, ++seed, in, {30, 50}, 1, false);
}

double reduce_empty(ReduceKind kind) {
  const testing::DeviceBytes out(8);
  const KernelParam param{2};
  const int64_t shape[2] = {3, 0}, stride[2] = {8, 8}, zero[2] = {0, 0};
  cuda::run_reduce(kind, DType::kFloat64, shape, 3, {out.get(), DType::kFloat64, zero},
                   {nullptr, DType::kFloat64, stride}, &param);
  return read(out.as<double>());
}
TEST_F(Reduce, EmptyReductionsGiveTheIdentity) {
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
TEST_F(Reduce, EmptyOutputsAreNotTouched) {
  const int64_t shape[2] = {0, 3}, stride[2] = {12, 4}, zero[2] = {4, 0};
  cuda::run_reduce(ReduceKind::kSum, DType::kFloat32, shape, 2, {nullptr, DType::kFloat32, zero},
                   {nullptr, DType::kFloat32, stride}, nullptr);
}

TEST_F(Reduce, LongRowsAndColumnsInPieces) {
  const int64_t n = 1 << 20;
  const testing::Mirror x = testing::Mirror::of(std::vector<float>(n, 0.1f));
  const double want = static_cast<double>(0.1f) * n;
  const testing::DeviceBytes out(12);
  const int64_t shape[1] = {n}, stride[1] = {4}, zero[1] = {0};
  cuda::run_reduce(ReduceKind::kSum, DType::kFloat32, shape, 1, {out.get(), DType::kFloat32, zero},
                   {x.device(), DType::kFloat32, stride}, nullptr);
  EXPECT_NEAR(read(out.as<float>()), want, 4e-7 * want);
  const int64_t shape2[2] = {n / 2, 2}, stride2[2] = {8, 4}, out2[2] = {0, 4};
  cuda::run_reduce(ReduceKind::kSum, DType::kFloat32, shape2, 1, {out.get(), DType::kFloat32, out2},
                   {x.device(), DType::kFloat32, stride2}, nullptr);
  EXPECT_NEAR(read(out.as<float>() + 1), want / 2, 4e-7 * want);
  // Rows that are not a multiple of a batch, at addresses that are not those of vector loads.
  const int64_t rows[2] = {3, 300001}, row_stride[2] = {300001 * 4, 4}, out3[2] = {4, 0};
  cuda::run_reduce(ReduceKind::kSum, DType::kFloat32, rows, 2, {out.get(), DType::kFloat32, out3},
                   {x.device_as<float>() + 1, DType::kFloat32, row_stride}, nullptr);
  EXPECT_NEAR(read(out.as<float>() + 2), static_cast<double>(0.1f) * 300001, 4e-2);
}

TEST_F(Reduce, AddressesDoNotChangeTheBits) {
  std::vector<float> values(20001);
  std::mt19937 rng(5);
  std::uniform_real_distribution<float> next(-1, 1);
  for (float& v : values) v = next(rng);
  std::vector<float> moved(values.size() + 1);
  std::copy(values.begin(), values.end(), moved.begin() + 1);
  const testing::Mirror x = testing::Mirror::of(values), y = testing::Mirror::of(moved);
  const testing::DeviceBytes a(4), b(4);
  const int64_t shape[1] = {20001}, stride[1] = {4}, zero[1] = {0};
  for (ReduceKind kind : {ReduceKind::kSum, ReduceKind::kLogSumExp}) {
    cuda::run_reduce(kind, DType::kFloat32, shape, 1, {a.get(), DType::kFloat32, zero},
                     {x.device(), DType::kFloat32, stride}, nullptr);
    cuda::run_reduce(kind, DType::kFloat32, shape, 1, {b.get(), DType::kFloat32, zero},
                     {y.device_as<float>() + 1, DType::kFloat32, stride}, nullptr);
    EXPECT_EQ(a.read(), b.read());
  }
}

void check_var(DType dtype, const std::vector<int64_t>& shape, int layout, std::mt19937& rng) {
  const Array in = testing::make_array(dtype, shape, layout, rng, 3, false);
  const uint64_t mask = rng() & ((uint64_t{1} << shape.size()) - 1);
  const bool root = rng() % 2, no_mean = rng() % 4 == 0;
  const double correction = static_cast<double>(rng() % 2);
  const DType real = is_complex(dtype) ? to_real(dtype) : dtype;
  Array var = testing::make_result(real, shape, mask, 0, rng), mean = testing::make_result(dtype, shape, mask, 1, rng);
  const Operand nothing{nullptr, dtype, nullptr};
  cpu::run_var_mean(dtype, shape, mask, correction, root, var.host(), no_mean ? nothing : mean.host(), in.host());
  cuda::run_var_mean(dtype, shape, mask, correction, root, var.device(), no_mean ? nothing : mean.device(),
                     in.device());
  testing::expect_close(real, var.host_bytes(), var.device_bytes(), -1, -1, "variance");
  testing::expect_close(dtype, mean.host_bytes(), mean.device_bytes(), -1, -1, "mean");
}
TEST_F(Reduce, VarAndMean) {
  std::mt19937 rng(7);
  for (DType t :
       {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex64, DType::kComplex128}) {
    for (const auto& shape : kShapes) {
      for (int layout = 0; layout < 4; ++layout) check_var(t, shape, layout, rng);
    }
  }
}
TEST_F(Reduce, VarianceOfLargeNumbersKeepsItsDigits) {
  std::vector<float> x(100000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1e6f + static_cast<float>(i % 2);
  const testing::Mirror in = testing::Mirror::of(x);
  const testing::DeviceBytes out(8);
  const int64_t shape[1] = {100000}, stride[1] = {4}, zero[1] = {0};
  cuda::run_var_mean(DType::kFloat32, shape, 1, 0, false, {out.get(), DType::kFloat32, zero},
                     {out.as<float>() + 1, DType::kFloat32, zero}, {in.device(), DType::kFloat32, stride});
  EXPECT_FLOAT_EQ(read(out.as<float>()), 0.25f);
  EXPECT_FLOAT_EQ(read(out.as<float>() + 1), 1000000.5f);
}

TEST_F(Reduce, PositionsOfExtrema) {
  std::mt19937 rng(9);
  for (const auto& list : {kInts, kFloats}) {
    for (DType t : list) {
      for (const std::vector<int64_t>& shape :
           std::vector<std::vector<int64_t>>{{}, {1}, {9}, {3000}, {5, 30}, {30, 5}, {40, 300}, {3, 20, 4}}) {
        for (int layout = 0; layout < 4; ++layout) {
          const Array in = testing::make_array(t, shape, layout, rng, 3, layout % 2 == 1);
          const int dim = shape.empty() ? 0 : static_cast<int>(rng() % shape.size());
          const uint64_t mask = shape.empty() ? 0 : uint64_t{1} << dim;
          Array values = testing::make_result(t, shape, mask, 0, rng),
                indices = testing::make_result(DType::kInt64, shape, mask, 1, rng);
          for (bool largest : {true, false}) {
            cpu::run_arg_reduce(largest, shape, dim, values.host(), indices.host(), in.host());
            cuda::run_arg_reduce(largest, shape, dim, values.device(), indices.device(), in.device());
            testing::expect_same(DType::kInt64, indices.host_bytes(), indices.device_bytes(),
                                 std::string("positions in ") + name_of(t));
            testing::expect_close(t, values.host_bytes(), values.device_bytes(), 0, 0, "values");
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST_F(Reduce, UnknownCombinationIsAnError) {
  const int64_t shape[1] = {1}, stride[1] = {8}, zero[1] = {0};
  const testing::DeviceBytes x(16);
  const Operand in{x.get(), DType::kComplex64, stride}, out{x.as<char>() + 8, DType::kComplex64, zero};
  EXPECT_THROW(cuda::run_reduce(ReduceKind::kMax, DType::kComplex64, shape, 1, out, in, nullptr), NotImplementedError);
  EXPECT_THROW(cuda::run_reduce(ReduceKind::kMean, DType::kInt64, shape, 1, out, in, nullptr), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cuda
