// Joining, gathering, scattering, masks, rearranged copies.
#include <cstdint>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

using Tensors = std::vector<Tensor>;

TEST(Index, Joining) {
  const Tensor a = of<int32_t>({1, 2, 3, 4}, {2, 2}), b = of<float>({0.5f, 6}, {1, 2});
  expect<float>(cat(Tensors{a, b}), {1, 2, 3, 4, 0.5f, 6}, {3, 2});  // the common dtype
  expect<int32_t>(cat(Tensors{a, transpose(a, 0, 1)}, -1), {1, 2, 1, 3, 3, 4, 2, 4}, {2, 4});
  expect<int32_t>(cat(Tensors{zeros({0}, DType::kInt32), a}), {1, 2, 3, 4}, {2, 2});  // [0] goes with every shape
  expect<int32_t>(stack(Tensors{a, a}, 2), {1, 1, 2, 2, 3, 3, 4, 4}, {2, 2, 2});
  expect<int32_t>(hstack(Tensors{a, a}), {1, 2, 1, 2, 3, 4, 3, 4}, {2, 4});
  expect<int64_t>(vstack(Tensors{arange(2), arange(2)}), {0, 1, 0, 1}, {2, 2});
  expect<int64_t>(column_stack(Tensors{arange(2), arange(2)}), {0, 0, 1, 1}, {2, 2});
  expect_error<ValueError>([] { cat(Tensors{}); }, "torch.cat(): expected a non-empty list of Tensors");
  expect_error<Error>(
      [&] {
        cat(Tensors{a, zeros({1, 3})});
      },
      "Sizes of tensors must match except in dimension 0. Expected size 2 but got size 3 for tensor "
      "number 1 in the list.");
  expect_error<Error>(
      [&] {
        cat(Tensors{number<int32_t>(1), a});
      },
      "zero-dimensional tensor (at position 0) cannot be concatenated");
  expect_error<Error>(
      [&] {
        stack(Tensors{a, b});
      },
      "stack expects each tensor to be equal size, but got [2, 2] at entry 0 and [1, 2] at entry 1");
}

TEST(Index, JoiningOut) {
  const Tensor a = of<float>({1, 2}), out = zeros({1});
  Warnings warnings;
  cat_out(out, Tensors{a, a});
  expect<float>(out, {1, 2, 1, 2});
  EXPECT_TRUE(warnings.has(kResized));
  const Tensor line = of<float>({1, 2, 3, 4});
  expect_error<Error>([&] { cat_out(line, Tensors{slice(line, 0, 2, 4), slice(line, 0, 0, 2)}); }, kOneMemory);
  expect<float>(line, {1, 2, 3, 4});
}

TEST(Index, Grids) {
  const Tensors list = {arange(2), arange(3)};
  expect<int64_t>(meshgrid(list, "ij")[0], {0, 0, 0, 1, 1, 1}, {2, 3});
  expect<int64_t>(meshgrid(list, "xy")[1], {0, 0, 1, 1, 2, 2}, {3, 2});
  expect_error<Error>([&] { meshgrid(list, "zz"); },
                      "torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: zz");
}

TEST(Index, GatherAndScatter) {
  const Tensor m = of<float>({1, 2, 3, 4, 5, 6}, {2, 3}), index = of<int64_t>({2, 0, 1, 0}, {2, 2});
  expect<float>(gather(m, 1, index), {3, 1, 5, 4}, {2, 2});
  expect<float>(gather(transpose(m, 0, 1), 0, transpose(index, 0, 1)), {3, 5, 1, 4}, {2, 2});
  const Tensor zero = zeros({2, 3}), src = of<float>({7, 8, 9, 10}, {2, 2});
  expect<float>(scatter(zero, 1, index, src), {8, 0, 7, 10, 9, 0}, {2, 3});
  expect<float>(scatter(zero, 1, index, 5), {5, 0, 5, 5, 5, 0}, {2, 3});
  expect<float>(scatter_add(m, 1, index, src), {9, 2, 10, 14, 14, 6}, {2, 3});
  expect<float>(scatter(m, 1, index, src, "multiply"), {8, 2, 21, 40, 45, 6}, {2, 3});
  expect<float>(zero, {0, 0, 0, 0, 0, 0}, {2, 3});
  expect<float>(gather(m, 1, zeros({2, 0}, DType::kInt64)), {}, {2, 0});
  const Tensor far = of<int64_t>({3}, {1, 1});
  expect_error<Error>([&] { gather(m, 1, far); }, "index 3 is out of bounds for dimension 1 with size 3");
  expect_error<Error>([&] { scatter_(zero, 1, far, 1); }, "index 3 is out of bounds for dimension 1 with size 3");
  expect_error<Error>([&] { gather(m, 1, zeros({1, 1})); }, "gather(): Expected dtype int32/int64 for index");
  expect_error<Error>([&] { gather(m, 1, zeros({1}, DType::kInt64)); },
                      "Index tensor must have the same number of dimensions as input tensor");
  expect_error<Error>([&] { scatter(m, 1, index, to(src, DType::kFloat64)); },
                      "scatter(): Expected self.dtype to be equal to src.dtype");
}

TEST(Index, Slices) {
  const Tensor m = of<int32_t>({1, 2, 3, 4, 5, 6}, {3, 2}), index = of<int64_t>({2, 0});
  expect<int32_t>(index_select(m, 0, index), {5, 6, 1, 2}, {2, 2});
  expect<int32_t>(index_select(m, 1, of<int32_t>({1})), {2, 4, 6}, {3, 1});
  const Tensor rows = of<int32_t>({10, 20, 30, 40}, {2, 2});
  expect<int32_t>(index_add(m, 0, index, rows, 2), {61, 82, 3, 4, 25, 46}, {3, 2});
  expect<int32_t>(index_copy(m, 0, index, rows), {30, 40, 3, 4, 10, 20}, {3, 2});
  expect<int32_t>(index_fill(m, 0, index, 0), {0, 0, 3, 4, 0, 0}, {3, 2});
  const Tensor twice = zeros({2});
  index_add_(twice, 0, of<int64_t>({1, 1}), of<float>({3, 4}));  // every one counts
  expect<float>(twice, {0, 7});
  expect_error<IndexError>([&] { index_select(m, 0, of<int64_t>({3})); }, "index out of range in self");
  expect_error<IndexError>(
      [&] {
        index_select(m, 0, zeros({1, 1}, DType::kInt64));
      },
      "index_select(): Index is supposed to be a vector, but got dim: 2");
  expect_error<Error>(
      [&] {
        index_add(m, 0, index, zeros({2, 2}));
      },
      "index_add_(): self (Int) and source (Float) must have the same scalar type");
  expect_error<Error>([&] { index_add(m, 0, index, rows, 0.5); },
                      "For integral input tensors, argument alpha must not be a floating point number.");
}

TEST(Index, TakeAndPut) {
  const Tensor m = of<float>({1, 2, 3, 4}, {2, 2}), index = of<int64_t>({3, -4}, {1, 2});
  expect<float>(take(transpose(m, 0, 1), of<int64_t>({1})), {3});
  expect<float>(take(m, index), {4, 1}, {1, 2});
  expect<float>(put(m, index, of<float>({8, 9})), {9, 2, 3, 8}, {2, 2});
  expect<float>(put(m, of<int64_t>({0, 0}), of<float>({8, 9}), true), {18, 2, 3, 4}, {2, 2});
  expect<float>(take_along_dim(m, of<int64_t>({1, 0}, {2, 1}), 1), {2, 3}, {2, 1});
  expect_error<Error>([&] { take(m, zeros({1})); }, "take(): Expected a long tensor for index, but got Float");
  expect_error<IndexError>([] { take(zeros({0}), of<int64_t>({0})); }, "take(): tried to take from an empty tensor");
}

TEST(Index, Tensors) {
  const Tensor m = of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  expect<int32_t>(index(m, Tensors{of<int64_t>({1, -2}), of<int64_t>({0, 2})}), {4, 3});
  expect<int32_t>(index(m, Tensors{Tensor(), of<int64_t>({2, 2})}), {3, 3, 6, 6}, {2, 2});
  expect<int32_t>(index(m, Tensors{gt(m, 3)}), {4, 5, 6});
  expect<int32_t>(index_put(m, Tensors{of<int64_t>({0, 0}), of<int64_t>({1, 1})}, of<int32_t>({10, 20}), true),
                  {1, 32, 3, 4, 5, 6}, {2, 3});
  const Tensor part = clone(m);
  index_put_(part, Tensors{of<bool>({false, true})}, number<int32_t>(0));
  expect<int32_t>(part, {1, 2, 3, 0, 0, 0}, {2, 3});
  expect_error<IndexError>([&] { index(m, Tensors{of<int64_t>({2})}); },
                           "index 2 is out of bounds for dimension 0 with size 2");
  expect_error<Error>([&] { index_put(m, Tensors{of<int64_t>({0})}, of<float>({1})); },
                      "Index put requires the source and destination dtypes match, got Int for the destination and "
                      "Float for the source.");
}

TEST(Index, Masks) {
  const Tensor m = of<float>({1, 0, 3, 4}, {2, 2}), mask = gt(m, 2);
  expect<float>(masked_select(m, mask), {3, 4});
  expect<float>(masked_select(m, of<bool>({true, false})), {1, 3});
  expect<float>(masked_scatter(m, mask, of<float>({7, 8, 9})), {1, 0, 7, 8}, {2, 2});
  expect<int64_t>(nonzero(m), {0, 0, 1, 0, 1, 1}, {3, 2});
  expect<int64_t>(nonzero(zeros({3})), {}, {0, 1});
  expect<int64_t>(nonzero(number<float>(5)), {}, {1, 0});
}

TEST(Index, Triangles) {
  const Tensor m = of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  expect<int32_t>(tril(m), {1, 0, 0, 4, 5, 0}, {2, 3});
  expect<int32_t>(triu(m, 1), {0, 2, 3, 0, 0, 6}, {2, 3});
  expect<int32_t>(diag(m, 1), {2, 6});
  expect<int32_t>(diag(of<int32_t>({1, 2}), -1), {0, 0, 0, 1, 0, 0, 0, 2, 0}, {3, 3});
  expect<int32_t>(diagflat(m), {1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0,
                                0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 6},
                  {6, 6});
  expect<int64_t>(trace(m), {6}, {});
  const Tensor t = transpose(of<int32_t>({1, 2, 3, 4}, {2, 2}), 0, 1);
  tril_(t);
  expect<int32_t>(t, {1, 0, 2, 4}, {2, 2});
  expect_error<Error>([] { tril(zeros({2})); }, "input tensor must have at least 2 dimensions");
}

TEST(Index, Rearranged) {
  const Tensor m = of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  expect<int32_t>(flip(m, IntVector{0, 1}), {6, 5, 4, 3, 2, 1}, {2, 3});
  expect<int32_t>(fliplr(m), {3, 2, 1, 6, 5, 4}, {2, 3});
  expect<int32_t>(roll(m, {1}), {6, 1, 2, 3, 4, 5}, {2, 3});
  expect<int32_t>(roll(m, {-1}, IntVector{1}), {2, 3, 1, 5, 6, 4}, {2, 3});
  expect<int32_t>(rot90(m), {3, 6, 2, 5, 1, 4}, {3, 2});
  expect<int64_t>(repeat(arange(2), {2, 2}), {0, 1, 0, 1, 0, 1, 0, 1}, {2, 4});
  expect<int64_t>(tile(arange(2), {2}), {0, 1, 0, 1});
  expect<int64_t>(repeat_interleave(arange(3), of<int64_t>({1, 0, 2})), {0, 2, 2});
  expect<int32_t>(repeat_interleave(m, 2, 0), {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}, {4, 3});
  expect<int64_t>(repeat(arange(2), {0}), {}, {0});
  expect_error<Error>([&] { flip(m, IntVector{0, 0}); }, "dim 0 appears multiple times in the list of dims");
  expect_error<Error>([&] { repeat(m, {2}); },
                      "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  expect_error<Error>([&] { repeat_interleave(m, -1, 0); }, "Repeats must be non-negative");
}

TEST(Index, DifferencesAndCounts) {
  expect<int32_t>(diff(of<int32_t>({1, 4, 9, 16})), {3, 5, 7});
  expect<int32_t>(diff(of<int32_t>({1, 4, 9, 16}), 2), {2, 2});
  expect<int64_t>(bincount(of<int64_t>({1, 3, 1})), {0, 2, 0, 1});
  expect<double>(bincount(of<int64_t>({1, 0}), of<double>({0.5, 2}), 3), {2, 0.5, 0});
  expect_error<Error>([] { bincount(of<int64_t>({-1})); }, "bincount only supports 1-d non-negative integral inputs.");
}

TEST(Index, Meta) {
  EXPECT_EQ(shape(cat(Tensors{meta({2, 3}), meta({4, 3})})), (IntVector{6, 3}));
  EXPECT_EQ(shape(gather(meta({2, 3}), 1, meta({2, 5}, DType::kInt64))), (IntVector{2, 5}));
  EXPECT_EQ(index_select(meta({2, 3}, DType::kInt8), 0, meta({7}, DType::kInt64)).dtype(), DType::kInt8);
  EXPECT_TRUE(tril(meta({2, 3})).is_meta());
}

TEST(Index, ManyElementsSameBits) {
  const Tensor source = rough({200000}), places = remainder(arange(200000), 7);
  expect_same_bits([&] { return scatter_add(zeros({7}), 0, places, source); });
  expect_same_bits([&] { return index_add(zeros({7}), 0, places, source); });
  expect_same_bits([&] { return index_put(zeros({7}), Tensors{places}, source, true); });
}

}  // namespace
}  // namespace tessera
