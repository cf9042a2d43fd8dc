// The distributions on the device against the CPU's, whose formulas they share;
// python/tests/distributions/test_fused_accuracy.py holds those against SciPy.
#include <cmath>
#include <limits>
#include <vector>

#include "distributions/cpu/ops.h"
#include "distributions/cuda/pointwise_engines.h"
#include "tensor/cuda/pointwise/pointwise_math_testing.h"

namespace tessera::cuda {
namespace {

using namespace math_testing;

class Distributions : public testing::DeviceTest {
 protected:
  static void SetUpTestSuite() { add_distribution_pointwise_tables(); }
};

const PointwiseOp* const kOps[] = {
#define TESSERA_PW(name) &pw::name,
#include "distributions/cpu/ops.inc"
#undef TESSERA_PW
};

// Values and parameters of all families: some inside, some outside of each one's support.
template <class T>
std::vector<T> numbers(int inputs) {
  using L = std::numeric_limits<T>;
  std::vector<T> v{T(0), T(1), T(-1), T(0.25), T(0.7), T(3), T(17), T(-2.5), L::infinity(), L::quiet_NaN(), T(1e-6)};
  if (inputs > 3) return {T(0), T(1), T(0.25), T(0.7), T(3), T(17), T(-2.5), L::infinity()};
  for (int i = 0; i < 24; ++i) v.push_back(static_cast<T>(0.05 + i * 0.37));
  return v;
}

// Fused products and other orders of the same sums: a few units, or so little beside 1 where a logarithm has zeros.
template <class T>
void check() {
  for (const PointwiseOp* op : kOps) {
    const auto in = combinations(numbers<T>(op->num_inputs), op->num_inputs);
    expect_as_on_cpu<T>({op}, in, [&](T a, T b, size_t) { return a == b || agrees(a, b, 64, 4.0); });
  }
}

TEST_F(Distributions, Floats) { check<float>(); }
TEST_F(Distributions, Doubles) { check<double>(); }

TEST_F(Distributions, HalvesRoundTheFloatResult) {
  check_halves<Half>({&pw::dist_bernoulli_entropy});
  check_halves<BFloat16>({&pw::dist_bernoulli_entropy});
}

}  // namespace
}  // namespace tessera::cuda
