// Ranges, windows, counts and orders on the device against those of the CPU.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tensor/cpu/functions/create.h"
#include "tensor/cpu/functions/special.h"
#include "tensor/cpu/functions/statistics.h"
#include "tensor/cuda/functions/engines.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using cpu::Sequence;
using cpu::SequenceKind;
using testing::Mirror;

class Functions : public testing::DeviceTest {};

Mirror zeros(DType t, int64_t n) { return Mirror(std::vector<uint8_t>(static_cast<size_t>(n * item_size(t)), 0x55)); }

void check_sequence(const Sequence& s, DType t, double tolerance) {
  Mirror out = zeros(t, s.count);
  cpu::run_sequence(s, t, out.host());
  cuda::run_sequence(s, t, out.device());
  const std::string what = "kind " + std::to_string(static_cast<int>(s.kind)) + " of " + std::to_string(s.count);
  if (tolerance == 0)
    testing::expect_same(t, out.host_bytes(), out.device_bytes(), what);
  else
    testing::expect_close(t, out.host_bytes(), out.device_bytes(), tolerance, tolerance, what);
}

TEST_F(Functions, Sequences) {
  for (const int64_t n : {0, 1, 2, 7, 1000, 40000}) {
    for (const DType t : {DType::kUInt8, DType::kInt16, DType::kInt32, DType::kInt64, DType::kFloat16, DType::kBFloat16,
                          DType::kFloat32, DType::kFloat64})
      check_sequence({.kind = SequenceKind::kIntegers, .count = n, .first = -17, .step = 3}, t, 0);
    for (const DType t : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64, DType::kFloat8_e4m3fn,
                          DType::kComplex64}) {
      // One unit of rounding where the device fuses products.
      const double unit = t == DType::kFloat64 ? 1e-14 : -1;
      check_sequence({.kind = SequenceKind::kSteps, .count = n, .a = 0.3, .b = 0.7 / 64}, t, unit);
      check_sequence({.kind = SequenceKind::kBetween, .count = n, .a = -1, .b = 2.0 / static_cast<double>(n), .end = 1},
                     t, unit);
      if (t == DType::kFloat8_e4m3fn) continue;
      check_sequence({.kind = SequenceKind::kPowers,
                      .count = n,
                      .a = -1,
                      .b = 2.0 / static_cast<double>(n),
                      .end = 1,
                      .base = 2.5},
                     t, unit);
      for (const int64_t first : {0, 3})
        check_sequence({.kind = SequenceKind::kCosine,
                        .count = n,
                        .first = first,
                        .span = static_cast<double>(n + 1),
                        .num_terms = 4,
                        .terms = {0.36, 0.49, 0.14, 0.01}},
                       t, unit);
      check_sequence({.kind = SequenceKind::kTriangle, .count = n, .span = static_cast<double>(n + 1)}, t, unit);
      check_sequence({.kind = SequenceKind::kBessel, .count = n, .a = 12, .span = static_cast<double>(n + 1)}, t,
                     t == DType::kFloat64 ? 1e-12 : -1);
    }
    check_sequence({.kind = SequenceKind::kFloats, .count = n, .a = -3, .b = 6.0f / static_cast<float>(n), .end = 3},
                   DType::kFloat32, 0);
    check_sequence({.kind = SequenceKind::kBetween,
                    .count = n,
                    .a = 1,
                    .b = 0.25,
                    .end = 9,
                    .a_imag = -1,
                    .b_imag = 0.5,
                    .end_imag = 4},
                   DType::kComplex128, 1e-14);
    check_sequence({.kind = SequenceKind::kBetween, .count = n, .a = -100, .b = 200.0 / 256, .end = 100}, DType::kInt32,
                   0);
  }
}

TEST_F(Functions, TriangleIndices) {
  for (const bool upper : {false, true})
    for (const int64_t rows : {1, 3, 40})
      for (const int64_t cols : {1, 5, 33})
        for (int64_t offset = -rows - 1; offset <= cols + 1; ++offset) {
          // Rows that have an element, and how many there are.
          cpu::TriangleRows t{rows, 0, cols, offset, 0, upper};
          for (int64_t r = 0; r < rows; ++r) {
            const int64_t width = upper ? cols - std::max<int64_t>(0, r + offset) : std::min(cols, r + offset + 1);
            if (width <= 0) continue;
            t.first_row = std::min(t.first_row, r);
            t.end_row = r + 1;
            t.count += width;
          }
          for (const DType dtype : {DType::kInt64, DType::kInt32}) {
            Mirror out = zeros(dtype, 2 * t.count);
            cpu::run_triangle_indices(t, dtype, out.host());
            cuda::run_triangle_indices(t, dtype, out.device());
            testing::expect_same(
                dtype, out.host_bytes(), out.device_bytes(),
                std::to_string(rows) + " x " + std::to_string(cols) + " offset " + std::to_string(offset));
          }
        }
}

TEST_F(Functions, Frexp) {
  for (const DType t : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    std::vector<uint8_t> x = testing::random_elements(t, 2000, 5, -1000, 1000);
    const double special[] = {
        0.0, -0.0, INFINITY, -INFINITY, NAN, 1.0, -0.5, 1e-7, t == DType::kFloat64 ? 5e-324 : 1e-45};
    for (size_t i = 0; i < std::size(special); ++i)
      x = testing::with_value(std::move(x), t, static_cast<int64_t>(i), special[i]);
    Mirror in(x), mantissa = zeros(t, 2000), exponent = zeros(DType::kInt32, 2000);
    cpu::run_frexp(t, 2000, mantissa.host(), exponent.host_as<int32_t>(), in.host());
    cuda::run_frexp(t, 2000, mantissa.device(), exponent.device_as<int32_t>(), in.device());
    testing::expect_same(t, mantissa.host_bytes(), mantissa.device_bytes());
    testing::expect_same(DType::kInt32, exponent.host_bytes(), exponent.device_bytes());
  }
}

TEST_F(Functions, GammaGradient) {
  std::vector<double> a, x;
  for (const double concentration : {0.01, 0.3, 1.0, 4.5, 70.0, 900.0, 2e5})
    for (const double part : {0.0, 0.1, 0.7, 1.0, 1.2, 2.0}) {
      a.push_back(concentration);
      x.push_back(concentration * part);
    }
  a.push_back(-1);
  x.push_back(1);
  const int64_t n = static_cast<int64_t>(a.size());
  Mirror from_a = Mirror::of(a), from_x = Mirror::of(x), out = zeros(DType::kFloat64, n);
  cpu::run_gamma_gradient(n, out.host_as<double>(), from_a.host_as<double>(), from_x.host_as<double>());
  cuda::run_gamma_gradient(n, out.device_as<double>(), from_a.device_as<double>(), from_x.device_as<double>());
  testing::expect_close(DType::kFloat64, out.host_bytes(), out.device_bytes(), 1e-9, 1e-12);
}

void check_histogram(int64_t n, int64_t bins, bool edges, bool weighted) {
  std::vector<uint8_t> bytes = testing::random_elements(DType::kFloat64, n, 3, -4, 4);
  for (int64_t i = 0; i < n; i += 5)
    bytes = testing::with_value(std::move(bytes), DType::kFloat64, i,
                                i % 2 ? 3.0 : std::floor(std::sin(static_cast<double>(i)) * 4));
  if (n > 3) bytes = testing::with_value(std::move(bytes), DType::kFloat64, 3, NAN);
  Mirror x(bytes), w(testing::random_elements(DType::kFloat64, n, 4, 0, 2)), counts = zeros(DType::kFloat64, bins);
  std::vector<double> at;
  for (int64_t i = 0; i <= bins; ++i)
    at.push_back(-3.5 + 6.5 * std::pow(static_cast<double>(i) / static_cast<double>(bins), 1.5));
  Mirror e = Mirror::of(at);
  cpu::run_histogram({.count = bins, .low = -3, .high = 3, .edges = edges ? e.host_as<double>() : nullptr}, n,
                     x.host_as<double>(), weighted ? w.host_as<double>() : nullptr, counts.host_as<double>());
  cuda::run_histogram({.count = bins, .low = -3, .high = 3, .edges = edges ? e.device_as<double>() : nullptr}, n,
                      x.device_as<double>(), weighted ? w.device_as<double>() : nullptr, counts.device_as<double>());
  const double tolerance = weighted ? 1e-11 : 0;
  testing::expect_close(DType::kFloat64, counts.host_bytes(), counts.device_bytes(), tolerance, tolerance,
                        std::to_string(n) + " in " + std::to_string(bins) + (edges ? " between edges" : "") +
                            (weighted ? " weighted" : ""));
}
TEST_F(Functions, Histograms) {
  for (const int64_t n : {0, 1, 50, 5000})
    for (const int64_t bins : {1, 2, 10, 300, 9000})
      for (const bool edges : {false, true})
        for (const bool weighted : {false, true}) check_histogram(n, bins, edges, weighted);
}

TEST_F(Functions, SortedRows) {
  for (const DType t : {DType::kBool, DType::kUInt8, DType::kInt32, DType::kInt64, DType::kUInt16, DType::kBFloat16,
                        DType::kFloat32, DType::kFloat64})
    for (const int64_t n : {1, 2, 3, 5, 64, 1000})
      for (const int64_t cols : {1, 2, 7}) {
        std::vector<uint8_t> bytes = testing::random_elements(t, n * cols, 11, -2, 2);
        if (is_floating_point(t))
          for (int64_t i = 0; i < n * cols; ++i)
            bytes = testing::with_value(std::move(bytes), t, i,
                                        i % 13 == 4 ? NAN : std::floor(testing::element(t, bytes.data(), i).real()));
        Mirror rows(bytes), order = zeros(DType::kInt64, n);
        cpu::run_sort_rows(t, n, cols, rows.host(), order.host_as<int64_t>());
        cuda::run_sort_rows(t, n, cols, rows.device(), order.device_as<int64_t>());
        testing::expect_same(DType::kInt64, order.host_bytes(), order.device_bytes(),
                             std::string(name_of(t)) + " " + std::to_string(n) + " x " + std::to_string(cols));
      }
}

}  // namespace
}  // namespace tessera::cuda
