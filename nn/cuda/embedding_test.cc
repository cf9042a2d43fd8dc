#include <random>
#include <vector>

#include "tensor/core/error.h"
#include "nn/cuda/embedding_engines.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using testing::Mirror;
using testing::random_elements;
using Embedding = testing::DeviceTest;

// The same bits as on the CPU: rows are added in the same order.
void check(DType t, int64_t n, int64_t dim, int64_t rows, int64_t padding_idx, bool scale_by_freq,
           int64_t popular = 0) {
  std::vector<int64_t> indices(static_cast<size_t>(n));
  std::mt19937 rng(3);
  for (auto& i : indices)
    i = static_cast<int64_t>(rng()) % 100 < popular ? rows / 2
                                                    : static_cast<int64_t>(rng() % static_cast<uint64_t>(rows));
  Mirror dy(random_elements(t, n * dim, 1)), index = Mirror::of(indices), dw(random_elements(t, rows * dim, 2));
  cpu::embedding_backward(t, dy.host(), index.host_as<int64_t>(), n, dim, rows, padding_idx, scale_by_freq, dw.host());
  cuda::embedding_backward(t, dy.device(), index.device_as<int64_t>(), n, dim, rows, padding_idx, scale_by_freq,
                           dw.device());
  testing::expect_same(t, dw.host_bytes(), dw.device_bytes());
}

TEST_F(Embedding, LikeTheCpu) {
  for (DType t : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (bool scale : {false, true}) {
      check(t, 0, 5, 7, -1, scale);
      check(t, 1, 1, 1, -1, scale);
      check(t, 300, 64, 50, 3, scale);
      check(t, 100, 33, 1000, -1, scale);
      check(t, 700, 20, 9, 0, scale, 60);
    }
    check(t, 4, 600, 5, -1, false);
    check(t, 10, 0, 5, -1, false);
  }
  check(DType::kFloat32, 5000, 8, 3, 1, true, 90);
}

TEST_F(Embedding, WrongIndicesAreReported) {
  for (int64_t wrong : {-1, 5}) {
    Mirror dy(random_elements(DType::kFloat32, 8, 1)), index = Mirror::of(std::vector<int64_t>{2, wrong}),
                                                       dw(random_elements(DType::kFloat32, 20, 2));
    cuda::embedding_backward(DType::kFloat32, dy.device(), index.device_as<int64_t>(), 2, 4, 5, -1, false, dw.device());
    EXPECT_THROW(synchronize_stream(), IndexError);
    std::vector<uint8_t> expected(80);
    std::copy(dy.host_bytes().begin(), dy.host_bytes().begin() + 16, expected.begin() + 32);
    testing::expect_same(DType::kFloat32, expected, dw.device_bytes());
  }
}

TEST_F(Embedding, OnlyFloats) {
  EXPECT_THROW(cuda::embedding_backward(DType::kInt32, nullptr, nullptr, 0, 1, 1, -1, false, nullptr),
               NotImplementedError);
}

}  // namespace
}  // namespace tessera::cuda
