// Products of vectors and matrices: shapes, dtypes (integers keep theirs), strides, what may overlap, errors.
#include <cstdint>
#include <limits>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

using Tensors = std::vector<Tensor>;
const auto kA = [] { return of<float>({1, 2, 3, 4, 5, 6}, {2, 3}); };
const auto kB = [] { return of<float>({1, 0, 0, 1, 1, 1}, {3, 2}); };

TEST(Matmul, Products) {
  const Tensor a = kA(), b = kB(), v = of<float>({1, 0, -1});
  expect<float>(mm(a, b), {4, 5, 10, 11}, {2, 2});
  expect<float>(mv(a, v), {-2, -2});
  expect<float>(dot(v, of<float>({5, 6, 7})), {-2}, {});
  expect<float>(outer(v, of<float>({1, 2})), {1, 2, 0, 0, -1, -2}, {3, 2});
  expect<float>(inner(a, v), {-2, -2});
  expect<float>(bmm(stack(Tensors{a, -a}), stack(Tensors{b, b})), {4, 5, 10, 11, -4, -5, -10, -11}, {2, 2, 2});
}

TEST(Matmul, ShapesOfMatmul) {
  const Tensor a = kA(), b = kB(), v = of<float>({1, 0, -1});
  expect<float>(matmul(v, v), {2}, {});
  expect<float>(matmul(a, v), {-2, -2});
  expect<float>(matmul(v, b), {0, -1});
  expect<float>(matmul(reshape(a, {2, 1, 1, 3}), b), {4, 5, 10, 11}, {2, 1, 1, 2});
  EXPECT_EQ(shape(matmul(zeros({5, 1, 2, 3}), zeros({4, 3, 6}))), (IntVector{5, 4, 2, 6}));
}

TEST(Matmul, IntegersKeepTheirDtype) {
  const Tensor a = of<int64_t>({1, 2, 3, 4}, {2, 2});
  expect<int64_t>(mm(a, a), {7, 10, 15, 22}, {2, 2});
  expect<int32_t>(matmul(to(a, DType::kInt32), to(a, DType::kInt32)), {7, 10, 15, 22}, {2, 2});
  expect<int8_t>(mm(of<int8_t>({100, 1}, {1, 2}), of<int8_t>({2, 3}, {2, 1})), {-53}, {1, 1});  // 203 modulo 256
  expect<uint8_t>(dot(of<uint8_t>({200, 1}), of<uint8_t>({2, 5})), {149}, {});                  // 405 modulo 256
  // More than a double could hold.
  expect<int64_t>(mm(of<int64_t>({(int64_t{1} << 53) + 1, 1}, {1, 2}), of<int64_t>({1, 1}, {2, 1})),
                  {(int64_t{1} << 53) + 2}, {1, 1});
  expect<int32_t>(_int_mm(of<int8_t>({100, 127}, {1, 2}), of<int8_t>({100, 127}, {2, 1})), {26129}, {1, 1});
  expect_error<NotImplementedError>(
      [] {
        mm(zeros({1, 1}, DType::kBool), zeros({1, 1}, DType::kBool));
      },
      "not implemented for 'Bool'");
}

TEST(Matmul, HalfTypes) {
  for (DType t : {DType::kFloat16, DType::kBFloat16}) {
    const Tensor r = mm(to(kA(), t), to(kB(), t));
    EXPECT_EQ(r.dtype(), t);
    expect<float>(to(r, DType::kFloat32), {4, 5, 10, 11}, {2, 2});
  }
}

TEST(Matmul, Layouts) {
  const Tensor a = kA(), b = kB(), wide = zeros({4, 6});
  expect<float>(mm(transpose(b, 0, 1), transpose(a, 0, 1)), {4, 10, 5, 11}, {2, 2});
  const Tensor gaps = slice(slice(wide, 0, 0, 4, 2), 1, 0, 6, 2);
  copy_(gaps, a);
  expect<float>(mm(gaps, b), {4, 5, 10, 11}, {2, 2});
  expect<float>(mm(expand(of<float>({1, 2, 3}, {1, 3}), {2, 3}), b), {4, 5, 4, 5}, {2, 2});
}

TEST(Matmul, Empty) {
  expect<float>(mm(zeros({2, 0}), zeros({0, 3})), {0, 0, 0, 0, 0, 0}, {2, 3});
  expect<float>(mm(zeros({0, 2}), zeros({2, 3})), {}, {0, 3});
  expect<float>(dot(zeros({0}), zeros({0})), {0}, {});
  expect<float>(addmm(of<float>({5}), zeros({1, 0}), zeros({0, 2})), {5, 5}, {1, 2});
}

TEST(Matmul, Added) {
  const Tensor a = kA(), b = kB(), c = of<float>({10, 20});
  expect<float>(addmm(c, a, b), {14, 25, 20, 31}, {2, 2});
  expect<float>(addmm(c, a, b, 2, -1), {16, 35, 10, 29}, {2, 2});
  // With beta 0 the summand is not read.
  expect<float>(addmm(full({2, 2}, std::numeric_limits<double>::quiet_NaN()), a, b, 0), {4, 5, 10, 11}, {2, 2});
  expect<float>(addmv(c, a, of<float>({1, 0, -1}), 1, 3), {4, 14});
  expect<float>(addr(zeros({2, 2}), c, c), {100, 200, 200, 400}, {2, 2});
  expect<float>(baddbmm(ones({1, 1, 1}), ones({2, 1, 3}), ones({2, 3, 1})), {4, 4}, {2, 1, 1});
  expect<float>(addbmm(ones({1, 1}), ones({2, 1, 3}), ones({2, 3, 1})), {7}, {1, 1});
  expect<float>(linear(a, transpose(b, 0, 1), c), {14, 25, 20, 31}, {2, 2});
  const Tensor whole = of<int64_t>({1, 2});
  expect_error<Error>(
      [&] {
        addr(zeros({2, 2}, DType::kInt64), whole, whole, 0.5);
      },
      "For integral input tensors, argument beta must not be a floating point number.");
}

TEST(Matmul, InPlaceAndOut) {
  const Tensor a = kA(), b = kB(), out = zeros({1});
  Warnings warnings;
  EXPECT_TRUE(mm_out(out, a, b).is_same(out));
  expect<float>(out, {4, 5, 10, 11}, {2, 2});
  EXPECT_TRUE(warnings.has(kResized));
  const Tensor columns = transpose(zeros({2, 2}), 0, 1);
  mm_out(columns, a, b);
  expect<float>(columns, {4, 5, 10, 11}, {2, 2});
  EXPECT_EQ(strides(columns), (IntVector{1, 2}));
  addmm_(out, a, b);
  expect<float>(out, {8, 10, 20, 22}, {2, 2});
  expect_error<Error>([&] { mm_out(zeros({2, 2}, DType::kFloat64), a, b); }, "Expected out tensor to have dtype");
  expect_error<Error>([&] { addmm_(zeros({2}), a, b); },
                      "output with shape [2] doesn't match the broadcast shape [2, 2]");
  const Tensor square = of<float>({1, 2, 3, 4}, {2, 2});
  mm_out(square, square, square);  // as if they lay apart
  expect<float>(square, {7, 10, 15, 22}, {2, 2});
}

TEST(Matmul, Chains) {
  const Tensor a = kA(), b = kB();
  expect<float>(linalg_multi_dot(Tensors{a, b, of<float>({1, -1})}), {-1, -1});
  expect<float>(matrix_power(of<float>({1, 1, 0, 1}, {2, 2}), 5), {1, 5, 0, 1}, {2, 2});
  expect<float>(matrix_power(of<float>({1, 1, 0, 1}, {2, 2}), 0), {1, 0, 0, 1}, {2, 2});
  expect<float>(tensordot(a, b, IntVector{1, 0}, IntVector{0, 1}), {15}, {});  // the trace of their product
  expect_error<Error>([&] { matrix_power(a, 2); }, "A must be batches of square matrices, but they are [2, 3]");
}

TEST(Matmul, Einsum) {
  const Tensor a = kA(), b = kB();
  expect<float>(einsum("ij,jk->ik", Tensors{a, b}), {4, 5, 10, 11}, {2, 2});
  expect<float>(einsum("ij->ji", Tensors{a}), {1, 4, 2, 5, 3, 6}, {3, 2});
  expect<float>(einsum("ij->", Tensors{a}), {21}, {});
  expect<float>(einsum("...i,...i", Tensors{a, a}), {14, 77});
  expect<float>(einsum("ii->i", Tensors{of<float>({1, 2, 3, 4}, {2, 2})}), {1, 4});
  expect_error<Error>([&] { einsum("ij,jk->ik", Tensors{a}); },
                      "einsum(): fewer operands were provided than specified in the equation");
  expect_error<Error>([&] { einsum("ij->k", Tensors{a}); },
                      "einsum(): output subscript k does not appear in the equation for any input operand");
  expect_error<Error>([&] { einsum("ijk", Tensors{a}); }, "does not match the number of dimensions (2) for operand 0");
}

TEST(Matmul, Errors) {
  const Tensor a = kA();
  expect_error<Error>([&] { mm(a, a); }, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)");
  expect_error<Error>([&] { mm(a, zeros({3})); }, "mat2 must be a matrix");
  expect_error<Error>([&] { mm(a, to(kB(), DType::kFloat64)); }, "expected m1 and m2 to have the same dtype, but got");
  expect_error<Error>([&] { bmm(a, a); }, "batch1 must be a 3D tensor");
  expect_error<Error>([&] { dot(a, a); }, "1D tensors expected, but got 2D and 2D tensors");
  expect_error<Error>([&] { dot(zeros({2}), zeros({3})); },
                      "inconsistent tensor size, expected tensor [2] and src [3] to have the same number of elements");
  expect_error<Error>([&] { matmul(number<float>(1), a); },
                      "both arguments to matmul need to be at least 1D, but they are 0D and 2D");
}

TEST(Matmul, Meta) {
  const Tensor r = matmul(meta({5, 1, 2, 3}), meta({4, 3, 6}));
  EXPECT_TRUE(r.is_meta());
  EXPECT_EQ(shape(r), (IntVector{5, 4, 2, 6}));
  EXPECT_EQ(addmm(meta({2}), meta({3, 4}), meta({4, 2})).dtype(), DType::kFloat32);
  expect_error<Error>([] { mm(meta({2, 3}), meta({2, 3})); }, "mat1 and mat2 shapes cannot be multiplied");
}

TEST(Matmul, SameBits) {
  const Tensor a = rough({130, 300}), b = rough({300, 170});
  expect_same_bits([&] { return mm(a, b); });
  expect_same_bits([&] { return mv(a, select(b, 1, 0)); });
  expect_same_bits([&] { return mm(to(a, DType::kBFloat16), to(b, DType::kBFloat16)); });
  const Tensor long_one = rough({300000});
  expect_same_bits([&] { return dot(long_one, long_one); });
}

}  // namespace
}  // namespace tessera
