// Transforms on the device against those of the CPU.
#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "fft/cpu/fft.h"
#include "fft/cuda/engines.h"
#include "fft/cuda/plans.h"
#include "tensor/core/error.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using cpu::FftDim;
using cpu::FftKind;
using cpu::FftLines;
using testing::Mirror;

class Fft : public testing::DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    set_fft_plan_limit(0, 4096);
    clear_fft_plans(0);
  }
};

struct Case {
  FftKind kind;
  DType real;
  int64_t n, in_stride, out_stride;
  std::vector<FftDim> dims;
  bool forward = true;
  double scale = 1;
  int64_t offset = 0;  // of the first number, in elements
};

int64_t extent(int64_t length, int64_t stride, const std::vector<FftDim>& dims, int64_t FftDim::*step) {
  int64_t last = (length - 1) * stride;
  for (const FftDim& d : dims) last += (d.size - 1) * (d.*step);
  return last + 1;
}

void check(const Case& c, const std::string& what) {
  const int64_t half = c.n / 2 + 1, n_in = c.kind == FftKind::kHalfToReal ? half : c.n,
                n_out = c.kind == FftKind::kRealToHalf ? half : c.n;
  const DType in = c.kind == FftKind::kRealToHalf ? c.real : to_complex(c.real),
              out = c.kind == FftKind::kHalfToReal ? c.real : to_complex(c.real);
  Mirror x(testing::random_elements(in, c.offset + extent(n_in, c.in_stride, c.dims, &FftDim::in_stride), 7));
  Mirror y(testing::random_elements(out, c.offset + extent(n_out, c.out_stride, c.dims, &FftDim::out_stride), 8));
  const FftLines lines{c.real, c.kind, c.forward, c.scale, c.n, c.in_stride, c.out_stride, c.dims};
  const auto at = [&](void* p, DType t) { return static_cast<char*>(p) + c.offset * item_size(t); };
  (c.kind == FftKind::kHalfToReal ? cpu::run_fft_to_real : cpu::run_fft)(lines, at(x.host(), in), at(y.host(), out));
  cuda::run_fft(lines, at(x.device(), in), at(y.device(), out));
  const double tolerance = (c.real == DType::kFloat64 ? 1e-15 : 5e-7) * std::sqrt(static_cast<double>(c.n)) * 16;
  testing::expect_close(out, y.host_bytes(), y.device_bytes(), tolerance, tolerance, what);
  EXPECT_EQ(x.host_bytes(), x.device_bytes()) << what << ": the input is left alone";
}

std::vector<Case> of_all_kinds(int64_t n, const std::vector<FftDim>& dims, int64_t in_stride, int64_t out_stride) {
  std::vector<Case> cases;
  for (const DType t : {DType::kFloat32, DType::kFloat64}) {
    for (const bool forward : {true, false})
      cases.push_back({FftKind::kComplex, t, n, in_stride, out_stride, dims, forward, 0.25});
    cases.push_back({FftKind::kRealToHalf, t, n, in_stride, out_stride, dims, true, 0.5});
    cases.push_back({FftKind::kHalfToReal, t, n, in_stride, out_stride, dims, false, 1.0 / static_cast<double>(n)});
  }
  return cases;
}

TEST_F(Fft, Lengths) {
  for (const int64_t n : {1, 2, 3, 4, 5, 8, 13, 16, 30, 37, 64, 97, 100, 243})
    for (const Case& c : of_all_kinds(n, {}, 1, 1)) check(c, "length " + std::to_string(n));
}

TEST_F(Fft, Batches) {
  for (const int64_t n : {2, 7, 12})
    for (const int64_t count : {1, 3, 20}) {
      const std::string what = std::to_string(count) + " of " + std::to_string(n);
      for (const Case& c : of_all_kinds(n, {{count, n, n}}, 1, 1)) check(c, what + " in rows");
      for (const Case& c : of_all_kinds(n, {{count, 1, 1}}, count, count)) check(c, what + " in columns");
      for (const Case& c : of_all_kinds(n, {{count, n + 5, n + 2}}, 1, 1)) check(c, what + " with gaps");
    }
}

// Dimensions that cannot be joined: a call for each number of the shorter ones, or copies where there are many.
TEST_F(Fft, SeveralDimensions) {
  const int64_t n = 6;
  for (const int64_t outer : {2, 5, 40}) {
    const std::vector<FftDim> dims{{outer, 500, 400}, {3, 100, 90}, {41, 2, 2}};
    for (const Case& c : of_all_kinds(n, dims, 500 * outer, 400 * outer)) check(c, "outer " + std::to_string(outer));
  }
}

TEST_F(Fft, InputsThatRepeat) {
  for (const Case& c : of_all_kinds(6, {{4, 0, 6}}, 1, 1)) check(c, "the same line");
  for (const Case& c : of_all_kinds(6, {{4, 1, 6}}, 0, 1)) check(c, "the same number");
}

// Real numbers need not begin where a complex one may.
TEST_F(Fft, RealNumbersAnywhere) {
  for (const int64_t n : {5, 6})
    for (Case c : of_all_kinds(n, {{3, 2 * n + 1, 2 * n + 1}, {2, n, n}}, 1, 1)) {
      c.offset = 1;
      check(c, "length " + std::to_string(n));
    }
}

TEST_F(Fft, InPlace) {
  const FftDim dim{5, 12, 12};
  const FftLines lines{DType::kFloat32, FftKind::kComplex, true, 0.5, 12, 1, 1, {&dim, 1}};
  Mirror x(testing::random_elements(DType::kComplex64, 60, 3));
  cpu::run_fft(lines, x.host(), x.host());
  cuda::run_fft(lines, x.device(), x.device());
  testing::expect_close(DType::kComplex64, x.host_bytes(), x.device_bytes(), 1e-5, 1e-5);
}

TEST_F(Fft, EmptyBatches) {
  const FftDim dim{0, 12, 12};
  cuda::run_fft({DType::kFloat32, FftKind::kComplex, true, 1, 12, 1, 1, {&dim, 1}}, nullptr, nullptr);
  EXPECT_EQ(fft_plan_count(0), 0);
}

TEST_F(Fft, PlansAreKept) {
  const auto transform = [](int64_t n) { check({FftKind::kComplex, DType::kFloat32, n, 1, 1, {}}, "kept"); };
  EXPECT_EQ(fft_plan_limit(0), 4096);
  for (const int64_t n : {4, 5, 6, 4, 5}) transform(n);
  EXPECT_EQ(fft_plan_count(0), 3);
  set_fft_plan_limit(0, 2);
  EXPECT_EQ(fft_plan_count(0), 2);
  transform(7);  // 5 and 7 are left
  EXPECT_EQ(fft_plan_count(0), 2);
  set_fft_plan_limit(0, 0);
  EXPECT_EQ(fft_plan_count(0), 0);
  transform(7);
  EXPECT_EQ(fft_plan_count(0), 0);
  set_fft_plan_limit(0, 3);
  transform(8);
  clear_fft_plans(0);
  EXPECT_EQ(fft_plan_count(0), 0);
  EXPECT_THROW(set_fft_plan_limit(0, -1), Error);
  EXPECT_THROW(fft_plan_count(-1), Error);
  EXPECT_THROW(fft_plan_limit(device_count()), Error);
}

TEST_F(Fft, OtherTypesAreRefused) {
  EXPECT_THROW(cuda::run_fft({DType::kFloat16, FftKind::kComplex, true, 1, 4, 1, 1, {}}, nullptr, nullptr),
               NotImplementedError);
  EXPECT_THROW(cuda::run_fft({DType::kFloat32, FftKind::kComplex, true, 1, 0, 1, 1, {}}, nullptr, nullptr), Error);
}

}  // namespace
}  // namespace tessera::cuda
