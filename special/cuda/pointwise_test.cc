// Special functions on the device against the CPU's, whose mathematics they share; special_test.cc and
// benchmarks/math_ulp hold those against true values.
#include <cmath>
#include <limits>
#include <vector>

#include "special/cpu/ops.h"
#include "special/cuda/pointwise_engines.h"
#include "tensor/cuda/pointwise/pointwise_math_testing.h"

namespace tessera::cuda {
namespace {

using namespace math_testing;

class SpecialFunctions : public testing::DeviceTest {
 protected:
  static void SetUpTestSuite() { add_special_pointwise_tables(); }
};

const PointwiseOp* const kOps[] = {
#define TESSERA_PW(name) &pw::name,
#include "special/cpu/ops.inc"
#undef TESSERA_PW
};

// The ends of their ranges, the borders between methods, and what lies between.
template <class T>
std::vector<T> numbers(int inputs) {
  using L = std::numeric_limits<T>;
  std::vector<T> v{T(0),           -T(0),          T(1),     T(-1),           T(2),     T(0.5),    L::infinity(),
                   -L::infinity(), L::quiet_NaN(), L::min(), L::denorm_min(), L::max(), -L::max(), L::epsilon(),
                   T(1e-30),       T(8),           T(16),    T(18),           T(-10),   T(20.5),   T(700),
                   T(1e6),         T(-1e6),        T(1e15)};
  const int steps = inputs == 1 ? 4001 : 61;
  for (int i = 0; i < steps; ++i) v.push_back(static_cast<T>(-30 + 60.0 * i / (steps - 1)));
  for (int i = 0; i < steps; ++i) v.push_back(static_cast<T>((i + 0.5) / steps));
  return v;
}

// Fused products and other orders of the same sums: a few units, or so little beside 1 where a function has zeros.
template <class T>
void check() {
  for (const PointwiseOp* op : kOps) {
    const auto in = combinations(numbers<T>(op->num_inputs), op->num_inputs);
    expect_as_on_cpu<T>({op}, in, [&](T a, T b, size_t i) {
      if (a == b) return true;
      double size = 0.1;
      for (const auto& x : in)
        if (std::isfinite(x[i])) size = std::max(size, std::min(1e3, std::fabs(static_cast<double>(x[i]))) / 4);
      // Polynomials grow with their order, and so do the terms that cancel in them.
      if (op->num_inputs == 2) size = std::max(size, 0.01 * std::fabs(static_cast<double>(b)));
      return agrees(a, b, 64, std::min(size, sizeof(T) == 4 ? 1.0 : 16.0));
    });
  }
}

TEST_F(SpecialFunctions, Floats) { check<float>(); }
TEST_F(SpecialFunctions, Doubles) { check<double>(); }

TEST_F(SpecialFunctions, HalvesRoundTheFloatResult) {
  check_halves<Half>({&pw::i0e, &pw::i1e, &pw::ndtr});
  check_halves<BFloat16>({&pw::i0e, &pw::i1e, &pw::ndtr});
}

}  // namespace
}  // namespace tessera::cuda
