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

// A row that has most of very many places: whole segments of them are added first. Small integers: any order gives the
// same bits, but for the product with the frequency.
TEST_F(Embedding, PopularRows) {
  constexpr int64_t kCount = 9000, kRows = 6;
  std::mt19937 rng(5);
  std::vector<int64_t> indices(kCount);
  for (auto& i : indices) i = rng() % 10 ? 4 : static_cast<int64_t>(rng() % kRows);
  for (DType t : {DType::kFloat16, DType::kFloat32})
    for (int64_t dim : {t == DType::kFloat16 ? 8 : 3})
      for (bool scale : {false, true}) {
        std::vector<uint8_t> numbers(static_cast<size_t>(kCount * dim * item_size(t)));
        for (int64_t i = 0; i < kCount * dim; ++i)
          numbers = testing::with_value(std::move(numbers), t, i, static_cast<double>(rng() % 3) - 1);
        Mirror dy(numbers), index = Mirror::of(indices), dw(random_elements(t, kRows * dim, 2));
        cpu::embedding_backward(t, dy.host(), index.host_as<int64_t>(), kCount, dim, kRows, 1, scale, dw.host());
        cuda::embedding_backward(t, dy.device(), index.device_as<int64_t>(), kCount, dim, kRows, 1, scale, dw.device());
        if (scale)
          testing::expect_close(t, dw.host_bytes(), dw.device_bytes(), 1e-3, 1e-6, "popular rows");
        else
          testing::expect_same(t, dw.host_bytes(), dw.device_bytes());
      }
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

struct Bags {
  DType dtype;
  cpu::BagMode mode;
  bool scaled = false;
  std::vector<int64_t> index, begin;  // begin: with the end of the last one
  int64_t padding = -1;
};
void check_bags(const Bags& c, int64_t dim) {
  constexpr int64_t kRows = 9;
  const DType t = c.dtype;
  const int64_t n = static_cast<int64_t>(c.index.size()), bags = static_cast<int64_t>(c.begin.size()) - 1,
                places = c.mode == cpu::BagMode::kMax ? bags * dim : bags;
  Mirror table(random_elements(t, kRows * dim, 1)), scale(random_elements(t, n, 2)), index = Mirror::of(c.index),
                                                                                     begin = Mirror::of(c.begin);
  Mirror out(random_elements(t, bags * dim, 3)), sizes = Mirror::of(std::vector<int64_t>(bags, 7)),
                                                 at = Mirror::of(std::vector<int64_t>(places)),
                                                 of = Mirror::of(std::vector<int64_t>(n, 7));
  cpu::embedding_bag_forward(t, c.mode, {bags, index.host_as<int64_t>(), begin.host_as<int64_t>(), c.padding}, dim,
                             table.host(), c.scaled ? scale.host() : nullptr, out.host(), sizes.host_as<int64_t>(),
                             c.mode == cpu::BagMode::kMax ? at.host_as<int64_t>() : nullptr);
  for (int64_t i = 0; i < n; ++i) {
    int64_t b = 0;
    while (b < bags && !(i >= c.begin[b] && i < c.begin[b + 1])) ++b;
    of.host_as<int64_t>()[i] = b < bags ? b : -1;
  }
  cuda::embedding_bag({t, c.mode, bags, n, dim, kRows, c.padding, true, index.device_as<int64_t>(),
                       begin.device_as<int64_t>(), table.device(), c.scaled ? scale.device() : nullptr, out.device(),
                       of.device_as<int64_t>(), sizes.device_as<int64_t>(), at.device_as<int64_t>()});
  testing::expect_close(t, out.host_bytes(), out.device_bytes(), -1, -1, "bags");
  testing::expect_same(DType::kInt64, sizes.host_bytes(), sizes.device_bytes());
  testing::expect_same(DType::kInt64, at.host_bytes(), at.device_bytes());
  testing::expect_same(DType::kInt64, of.host_bytes(), of.device_bytes());
}
TEST_F(Embedding, BagsLikeTheCpu) {
  const std::vector<int64_t> index = {3, 0, 8, 3, 2, 2, 5, 1, 0, 7};
  for (DType t : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64})
    for (const cpu::BagMode mode : {cpu::BagMode::kSum, cpu::BagMode::kMean, cpu::BagMode::kMax})
      for (const int64_t dim : {1, 33, 70})
        for (const int64_t padding : {-1, 3, 2}) {
          check_bags({t, mode, false, index, {0, 3, 3, 4, 10}, padding}, dim);
          check_bags({t, mode, mode == cpu::BagMode::kSum, index, {0, 6, 8}, padding}, dim);
        }
}
TEST_F(Embedding, WrongBagsAreReported) {
  const auto message = [](std::vector<int64_t> index, std::vector<int64_t> begin) -> std::string {
    const int64_t n = static_cast<int64_t>(index.size()), bags = static_cast<int64_t>(begin.size());
    Mirror table(random_elements(DType::kFloat32, 5, 1)), i = Mirror::of(index), b = Mirror::of(begin),
                                                          out(random_elements(DType::kFloat32, bags, 3)),
                                                          numbers = Mirror::of(std::vector<int64_t>(3 * (n + bags)));
    int64_t* const to = numbers.device_as<int64_t>();
    cuda::embedding_bag({DType::kFloat32, cpu::BagMode::kSum, bags, n, 1, 5, -1, false, i.device_as<int64_t>(),
                         b.device_as<int64_t>(), table.device(), nullptr, out.device(), to, to + n, to + n + bags});
    try {
      synchronize_stream();
    } catch (const std::exception& e) { return e.what(); }
    return "";
  };
  EXPECT_EQ(message({1, 2, 3}, {0, 2}), "");
  EXPECT_NE(message({1, 5, 3}, {0, 2}).find("index 5 is out of bounds"), std::string::npos);
  EXPECT_NE(message({1, -1, 3}, {0, 2}).find("index -1 is out of bounds"), std::string::npos);
  EXPECT_NE(message({1, 2, 3}, {1, 2}).find("offsets[0] has to be 0"), std::string::npos);
  EXPECT_NE(message({1, 2, 3}, {0, 2, 1}).find("non-decreasing"), std::string::npos);
  EXPECT_NE(message({1, 2, 3}, {0, 4}).find("can not be greater than input's length 3"), std::string::npos);
}

TEST_F(Embedding, OnlyFloats) {
  EXPECT_THROW(cuda::embedding_backward(DType::kInt32, nullptr, nullptr, 0, 1, 1, -1, false, nullptr),
               NotImplementedError);
}

}  // namespace
}  // namespace tessera::cuda
