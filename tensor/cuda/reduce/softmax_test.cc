// softmax and log_softmax on the device against those of the CPU.
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
using testing::Array;

class Softmax : public testing::DeviceTest {};

void check(DType t, DType result, const std::vector<int64_t>& shape, int dim, int layout, std::mt19937& rng,
           bool specials) {
  const Array x = testing::make_array(t, shape, layout, rng, 5, specials);
  for (bool log : {false, true}) {
    const std::string what = std::string(log ? "log_" : "") + "softmax of " + name_of(t) + " layout " +
                             std::to_string(layout) + " dim " + std::to_string(dim) + " rank " +
                             std::to_string(shape.size()) + " first size " +
                             std::to_string(shape.empty() ? 1 : shape[0]);
    Array y = testing::make_array(result, shape, layout == 3 ? 1 : layout, rng, 1, false);
    cpu::run_softmax(log, shape, dim, y.host(), x.host());
    cuda::run_softmax(log, shape, dim, y.device(), x.device());
    testing::expect_close(result, y.host_bytes(), y.device_bytes(), -1, -1, what);
    const Array g = testing::make_array(t, shape, (layout + 1) % 4, rng, 1, false),
                saved = testing::make_array(t, shape, layout, rng, 1, false);
    Array dx = testing::make_array(t, shape, layout == 3 ? 0 : layout, rng, 1, false);
    cpu::run_softmax_backward(log, shape, dim, dx.host(), g.host(), saved.host());
    cuda::run_softmax_backward(log, shape, dim, dx.device(), g.device(), saved.device());
    // The sums of long lines have rounding errors of many terms.
    const double n = shape.empty() ? 1 : static_cast<double>(shape[dim]);
    const double unit = t == DType::kFloat16    ? 1e-3
                        : t == DType::kBFloat16 ? 8e-3
                        : t == DType::kFloat32  ? 2e-7
                                                : 1e-14;
    testing::expect_close(t, dx.host_bytes(), dx.device_bytes(), 8 * unit, unit * (16 + 0.1 * n), "backward " + what);
  }
}

TEST_F(Softmax, MatchesTheCpu) {
  std::mt19937 rng(1);
  for (DType t : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{{},
                                                                               {1},
                                                                               {7},
                                                                               {8},
                                                                               {0, 3},
                                                                               {3, 0},
                                                                               {900},
                                                                               {40, 10},
                                                                               {10, 40},
                                                                               {3, 600},
                                                                               {600, 3},
                                                                               {300, 40},
                                                                               {3, 20, 4},
                                                                               {2, 1, 17, 3}}) {
      for (int layout = 0; layout < 4; ++layout) {
        const int dims = shape.empty() ? 1 : static_cast<int>(shape.size());
        for (int dim = 0; dim < dims; ++dim) check(t, t, shape, dim, layout, rng, rng() % 4 == 0);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_F(Softmax, LongLines) {
  std::mt19937 rng(2);
  for (DType t : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{2, 8192}, {2, 9001}, {40001}, {1000, 40}}) {
      for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) check(t, t, shape, dim, 0, rng, shape[0] == 2);
      if (HasFailure()) return;
    }
  }
}

TEST_F(Softmax, ResultsOfAnotherDtype) {
  std::mt19937 rng(3);
  for (DType t : {DType::kFloat16, DType::kBFloat16}) check(t, DType::kFloat32, {5, 33}, 1, 0, rng, false);
}

TEST_F(Softmax, InfiniteAndNan) {
  const float inf = INFINITY;
  const std::vector<float> x = {1, inf, 2, -inf, -inf, -inf, NAN, 1, 2, -inf, 0, 0};
  const testing::Mirror in = testing::Mirror::of(x);
  const testing::DeviceBytes out(in.size());
  const int64_t shape[2] = {4, 3}, strides[2] = {12, 4};
  cuda::run_softmax(false, shape, 1, {out.get(), DType::kFloat32, strides}, {in.device(), DType::kFloat32, strides});
  const std::vector<uint8_t> bytes = out.read();
  const float* y = reinterpret_cast<const float*>(bytes.data());
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
  EXPECT_EQ(y[9], 0);
  EXPECT_EQ(y[10], 0.5f);
}

TEST_F(Softmax, IntegersAreAnError) {
  const testing::DeviceBytes x(16);
  const int64_t shape[1] = {1}, stride[1] = {8};
  const Operand o{x.get(), DType::kInt64, stride};
  EXPECT_THROW(cuda::run_softmax(false, shape, 0, o, o), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cuda
