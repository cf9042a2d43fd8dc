// Batches and orders; the orders are those of PyTorch's loader for the same seeds.
#include <gtest/gtest.h>

#include "data/loader.h"

namespace tessera::data {
namespace {

using Rows = std::vector<std::vector<int64_t>>;

Tensor numbers(int64_t n) {
  const Tensor t = empty_kernel(IntVector{n}, DType::kInt64);
  for (int64_t i = 0; i < n; ++i) t.data<int64_t>()[i] = i;
  return t;
}
Rows batches(const DataLoader& loader) {
  Rows rows;
  for (const Fields& batch : loader)
    rows.emplace_back(batch[0].data<int64_t>(), batch[0].data<int64_t>() + batch[0].numel());
  return rows;
}

TEST(DataLoader, InOrder) {
  const TensorDataset set({numbers(5), empty_kernel(IntVector{5, 2}, DType::kFloat32)});
  const DataLoader loader(set, {.batch_size = 2});
  EXPECT_EQ(batches(loader), (Rows{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(loader.size(), 3);
  const DataLoader dropping(set, {.batch_size = 2, .drop_last = true});
  EXPECT_EQ(batches(dropping), (Rows{{0, 1}, {2, 3}}));
  EXPECT_EQ(dropping.size(), 2);
  EXPECT_EQ((*loader.begin())[1].size(1), 2);
}

TEST(TensorDataset, CopiesRowsOfAnyLayout) {
  const Tensor x = empty_kernel(IntVector{2, 3}, DType::kInt64);
  for (int64_t i = 0; i < 6; ++i) x.data<int64_t>()[i] = i;
  const TensorDataset set({make_view(x, IntVector{3, 2}, IntVector{1, 3}, 0)});
  EXPECT_EQ(batches(DataLoader(set, {.batch_size = 2})), (Rows{{0, 3, 1, 4}, {2, 5}}));
  EXPECT_EQ((*DataLoader(set, {.batch_size = 2}).begin())[0].size(1), 2);
}

TEST(DataLoader, ShufflesAsPythonDoes) {
  const TensorDataset set({numbers(7)});
  default_cpu_generator()->manual_seed(3);
  EXPECT_EQ(batches(DataLoader(set, {.batch_size = 3, .shuffle = true})), (Rows{{3, 2, 5}, {4, 1, 0}, {6}}));
  EXPECT_EQ(batches(DataLoader(set, {.batch_size = 3, .shuffle = true, .drop_last = true})),
            (Rows{{3, 1, 6}, {0, 2, 4}}));
  const Generator generator = make_cpu_generator(5);
  const DataLoader loader(set, {.batch_size = 4, .shuffle = true, .generator = generator});
  EXPECT_EQ(batches(loader), (Rows{{2, 4, 3, 5}, {0, 6, 1}}));
  EXPECT_EQ(batches(loader), (Rows{{4, 1, 0, 2}, {3, 6, 5}}));
}

TEST(Samplers, OrdersAsInPython) {
  const Generator generator = make_cpu_generator(5);
  EXPECT_EQ(RandomSampler(5, generator, 8).indices(), (std::vector<int64_t>{1, 3, 0, 4, 2, 1, 3, 0}));
  EXPECT_EQ(ReplacementSampler(5, generator, 4).indices(), (std::vector<int64_t>{3, 4, 4, 0}));
  EXPECT_EQ(SubsetRandomSampler({10, 20, 30}, generator).indices(), (std::vector<int64_t>{30, 20, 10}));
}

struct Squares : MapDataset {
  int64_t size() const override { return 4; }
  Fields get(int64_t i) const override { return {scalar_to_tensor(i * i, DType::kInt64)}; }
};

TEST(MapDataset, StacksSamples) {
  const Squares set;
  EXPECT_EQ(batches(DataLoader(set, {.batch_size = 3})), (Rows{{0, 1, 4}, {9}}));
  EXPECT_EQ(batches(DataLoader(
                set, {.batch_size = 3, .sampler = std::make_shared<SubsetRandomSampler>(std::vector<int64_t>{3})})),
            (Rows{{9}}));
  const int64_t bad[] = {4};
  EXPECT_THROW(set.get_batch(bad), IndexError);
}

TEST(Errors, SayWhatIsWrong) {
  EXPECT_THROW(TensorDataset({numbers(2), numbers(3)}), AssertionError);
  EXPECT_THROW(TensorDataset({}), ValueError);
  EXPECT_THROW(TensorDataset({scalar_to_tensor(1, DType::kInt64)}), ValueError);
  const TensorDataset set({numbers(2)}), none({numbers(0)});
  const int64_t bad[] = {2};
  EXPECT_THROW(set.get_batch(bad), IndexError);
  EXPECT_THROW(DataLoader(set, {.batch_size = 0}), ValueError);
  EXPECT_THROW(DataLoader(none, {.shuffle = true}), ValueError);
  EXPECT_THROW(DataLoader(set, {.shuffle = true, .sampler = std::make_shared<SequentialSampler>(2)}), ValueError);
  EXPECT_TRUE(batches(DataLoader(none)).empty());
}

}  // namespace
}  // namespace tessera::data
