// Sparse tensors from C++: made, brought together, multiplied, differentiated, refused.
#include "gtest/gtest.h"

#include "autograd/autograd.h"
#include "sparse/all_ops.h"
#include "sparse/kernels.h"
#include "tensor/core/layouts/sparse.h"

namespace tessera {
namespace {

Tensor numbers(std::initializer_list<int64_t> v) {
  const Tensor t = empty_kernel(IntVector{static_cast<int64_t>(v.size())}, DType::kInt64);
  std::copy(v.begin(), v.end(), t.data<int64_t>());
  return t;
}
Tensor values(std::initializer_list<float> v) {
  const Tensor t = empty_kernel(IntVector{static_cast<int64_t>(v.size())}, DType::kFloat32);
  std::copy(v.begin(), v.end(), t.data<float>());
  return t;
}
Tensor matrix() {  // [[0, 0, 3], [4, 0, 5 + 1]]
  return sparse_coo_tensor(reshape(numbers({0, 1, 1, 1, 2, 0, 2, 2}), {2, 4}), values({3, 4, 5, 1}), IntVector{2, 3});
}

TEST(Sparse, CoalesceAddsDuplicates) {
  const Tensor c = coalesce(matrix());
  EXPECT_EQ(_nnz(c), 3);
  EXPECT_EQ(to_dense(c).sum().item<float>(), 13);
  EXPECT_TRUE(equal(to_dense(to_sparse_csr(c)), to_dense(matrix())));
}

TEST(Sparse, ProductsAndTheirGradients) {
  const Tensor v = values({3, 4, 5, 1});
  v.requires_grad_();
  const Tensor s = sparse_coo_tensor(reshape(numbers({0, 1, 1, 1, 2, 0, 2, 2}), {2, 4}), v, IntVector{2, 3});
  const Tensor d = ones(IntVector{3, 2});
  _sparse_mm(s, d).sum().backward();
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(v.grad()[i].item<float>(), 2);
}

TEST(Sparse, WhatHasNoRuleIsRefused) {
  EXPECT_THROW(exp(matrix()), NotImplementedError);
  EXPECT_THROW(reshape(matrix(), {6}), Error);
  EXPECT_THROW(matrix().data_ptr(), Error);
  EXPECT_THROW(crow_indices(matrix()), Error);
}

TEST(Sparse, WrongIndicesAreFoundBeforeTheyAreUsed) {
  const Tensor s = sparse_coo_tensor(reshape(numbers({0, 9}), {1, 2}), values({1, 2}), IntVector{3});
  EXPECT_THROW(to_dense(s), IndexError);
  EXPECT_THROW(coalesce(s), IndexError);
}

}  // namespace
}  // namespace tessera
