// Products with a bias in their epilogue, and of 8-bit floats, against loops on the host.
#include "tensor/cuda/gemm/engines.h"

#include <cmath>
#include <string>
#include <vector>

#include "tensor/cpu/gemm/gemm_scaled.h"
#include "tensor/cuda/libraries/blas.h"
#include "tensor/cuda/libraries/blas_lt.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using cpu::MatrixRef;
using cpu::ScaledProduct;
using testing::Mirror;

class Products : public testing::DeviceTest {};

double at(DType t, const std::vector<uint8_t>& bytes, int64_t i) { return testing::element(t, bytes.data(), i).real(); }
Mirror random_matrix(DType t, int64_t n, uint64_t seed) { return Mirror(testing::random_elements(t, n, seed, -1, 1)); }

TEST_F(Products, BiasInTheEpilogue) {
  if (!find_blas_lt() || !find_blas()) GTEST_SKIP() << "cuBLASLt is missing";
  for (const DType t : {DType::kFloat32, DType::kFloat16, DType::kBFloat16})
    for (const auto& [m, n, k] : {std::array<int64_t, 3>{5, 7, 3}, {1, 16, 8}, {33, 2, 9}, {16, 32, 64}})
      for (int layout = 0; layout < 4; ++layout)
        for (const GemmActivation f : {GemmActivation::kNone, GemmActivation::kRelu, GemmActivation::kTanhGelu}) {
          const Mirror a = random_matrix(t, m * k, 1), b = random_matrix(t, k * n, 2), bias = random_matrix(t, n, 3);
          const MatrixRef left{a.device(), layout & 1 ? 1 : k, layout & 1 ? m : 1},
              right{b.device(), layout & 2 ? 1 : n, layout & 2 ? k : 1};
          const testing::DeviceBytes c(static_cast<size_t>(m * n * item_size(t)));
          KernelParam alpha{};
          alpha.f = 0.5;
          ASSERT_TRUE(gemm_bias(t, m, n, k, alpha, left, right, bias.device(), f, {c.get(), n, 1}));
          const std::vector<uint8_t> result = c.read();
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (int64_t l = 0; l < k; ++l)
                sum += at(t, a.host_bytes(), i * left.row_stride + l * left.col_stride) *
                       at(t, b.host_bytes(), l * right.row_stride + j * right.col_stride);
              sum = 0.5 * sum + at(t, bias.host_bytes(), j);
              if (f == GemmActivation::kRelu) sum = sum < 0 ? 0 : sum;
              if (f == GemmActivation::kTanhGelu)
                sum = 0.5 * sum * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
              ASSERT_NEAR(at(t, result, i * n + j), sum,
                          t == DType::kFloat32   ? 1e-4
                          : t == DType::kFloat16 ? 1e-2
                                                 : 6e-2)
                  << name_of(t) << " " << m << " x " << n << " x " << k << " layout " << layout << " at " << i << ", "
                  << j;
            }
        }
}

// By tensor cores, exactly: all layouts, sizes beside those of tiles, numbers at the ends of their range.
TEST_F(Products, OfBytesInInt32) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{5, 7, 3}, {64, 64, 64}, {70, 130, 80}, {1, 9, 1000}, {3, 2, 0}})
    for (const bool is_unsigned : {false, true})
      for (int layout = 0; layout < 4; ++layout) {
        const DType t = is_unsigned ? DType::kUInt8 : DType::kInt8;
        const auto bytes = [](DType type, int64_t count, uint64_t seed) {
          const bool u = type == DType::kUInt8;
          return Mirror(testing::random_elements(type, std::max<int64_t>(1, count), seed, u ? 0 : -128, u ? 256 : 128));
        };
        const Mirror a = bytes(t, m * k, 1), b = bytes(DType::kInt8, k * n, 2);
        const MatrixRef left{a.device(), layout & 1 ? 1 : k, layout & 1 ? m : 1},
            right{b.device(), layout & 2 ? 1 : n, layout & 2 ? k : 1};
        const testing::DeviceBytes c(static_cast<size_t>(m * n) * 4);
        gemm_int8(m, n, k, left, is_unsigned, right, {c.get(), n, 1});
        const std::vector<uint8_t> result = c.read();
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t l = 0; l < k; ++l)
              sum += at(t, a.host_bytes(), i * left.row_stride + l * left.col_stride) *
                     at(DType::kInt8, b.host_bytes(), l * right.row_stride + j * right.col_stride);
            ASSERT_EQ(at(DType::kInt32, result, i * n + j), sum)
                << m << " x " << n << " x " << k << " layout " << layout << " at " << i << ", " << j;
          }
      }
}

TEST_F(Products, NoBiasForDoublesAndVectors) {
  const Mirror a = random_matrix(DType::kFloat64, 4, 1);
  KernelParam alpha{};
  alpha.f = 1;
  EXPECT_FALSE(gemm_bias(DType::kFloat64, 2, 2, 2, alpha, {a.device(), 2, 1}, {a.device(), 2, 1}, a.device(),
                         GemmActivation::kNone, {a.device(), 2, 1}));
  EXPECT_FALSE(gemm_bias(DType::kFloat32, 2, 1, 2, alpha, {a.device(), 2, 1}, {a.device(), 1, 1}, a.device(),
                         GemmActivation::kNone, {a.device(), 1, 1}));
}

struct Scaled {
  int64_t m, n, k;
  DType a, b, c;
  bool by_lines = false;
  int bias = -1;  // a dtype
  bool result_scale = false, swapped = false;
};
void check_scaled(const Scaled& s) {
  const Mirror a = random_matrix(s.a, s.m * s.k, 1), b = random_matrix(s.b, s.k * s.n, 2),
               scale_a = random_matrix(DType::kFloat32, s.m, 4), scale_b = random_matrix(DType::kFloat32, s.n, 5);
  const DType bias_type = s.bias < 0 ? DType::kFloat32 : static_cast<DType>(s.bias);
  const Mirror bias = random_matrix(bias_type, s.n, 3), scale_c = random_matrix(DType::kFloat32, 1, 6);
  Mirror c(std::vector<uint8_t>(static_cast<size_t>(s.m * s.n * item_size(s.c)), 0x11));
  // Row-major times column-major, as the library wants it, or the other way round.
  const int64_t strides[4] = {s.swapped ? 1 : s.k, s.swapped ? s.m : 1, s.swapped ? s.n : 1, s.swapped ? 1 : s.k};
  const auto product = [&](bool host) {
    const auto address = [host](const Mirror& x) {
      return host ? const_cast<uint8_t*>(x.host_bytes().data()) : static_cast<uint8_t*>(x.device());
    };
    const auto floats = [&](const Mirror& x) { return reinterpret_cast<const float*>(address(x)); };
    ScaledProduct p{.m = s.m,
                    .n = s.n,
                    .k = s.k,
                    .a_type = s.a,
                    .b_type = s.b,
                    .c_type = s.c,
                    .a = {address(a), strides[0], strides[1]},
                    .b = {address(b), strides[2], strides[3]},
                    .c = address(c),
                    .scale_a = floats(scale_a),
                    .scale_b = floats(scale_b),
                    .by_lines = s.by_lines};
    if (s.bias >= 0) p.bias = address(bias), p.bias_type = bias_type;
    if (s.result_scale) p.scale_result = floats(scale_c);
    return p;
  };
  cpu::gemm_scaled(product(true));
  cuda::gemm_scaled(product(false));
  const double tolerance = s.c == DType::kFloat32 ? 1e-5 : -1;
  testing::expect_close(s.c, c.host_bytes(), c.device_bytes(), tolerance, is_float8(s.c) ? 0.02 : tolerance,
                        std::string(name_of(s.a)) + " " + name_of(s.b) + " to " + name_of(s.c) + " " +
                            std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k));
}

TEST_F(Products, Scaled) {
  constexpr DType e4 = DType::kFloat8_e4m3fn, e5 = DType::kFloat8_e5m2, f32 = DType::kFloat32, f16 = DType::kFloat16,
                  bf16 = DType::kBFloat16;
  for (const auto& [m, n, k] :
       {std::array<int64_t, 3>{16, 32, 48}, {3, 16, 16}, {5, 7, 17}, {1, 1, 1}, {4, 16, 0}, {0, 16, 16}})
    for (const DType a : {e4, e5})
      for (const DType b : {e4, e5})
        for (const DType c : {f32, f16, bf16, e4}) {
          check_scaled({m, n, k, a, b, c});
          check_scaled({.m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .swapped = true});
          check_scaled(
              {.m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .by_lines = true, .bias = static_cast<int>(bf16)});
          check_scaled(
              {.m = m, .n = n, .k = k, .a = a, .b = b, .c = c, .bias = static_cast<int>(f16), .result_scale = true});
        }
}

}  // namespace
}  // namespace tessera::cuda
