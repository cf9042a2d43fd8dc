// Factories, copies, conversions, comparison of whole tensors.
#include <cmath>
#include <complex>
#include <cstdint>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

const Device kMetaDevice = Device(DeviceType::kMeta);

TEST(Create, Filled) {
  expect<float>(zeros({2, 1}), {0, 0}, {2, 1});
  expect<int16_t>(ones({2}, DType::kInt16), {1, 1});
  expect<int64_t>(full({2}, 7), {7, 7});  // the dtype of the number
  expect<float>(full({2}, 0.5), {0.5f, 0.5f});
  expect<bool>(full({1}, true), {true});
  EXPECT_EQ(full({1}, Scalar(std::complex<double>(1, 2))).dtype(), DType::kComplex64);
  expect<float>(zeros({0, 3}), {}, {0, 3});
  expect<double>(scalar_tensor(3, DType::kFloat64), {3}, {});
  expect_error<Error>([] { zeros({2, -1}); }, "negative dimension");
}

TEST(Create, Like) {
  const Tensor t = transpose(of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3}), 0, 1);
  const Tensor z = zeros_like(t);
  expect<int32_t>(z, {0, 0, 0, 0, 0, 0}, {3, 2});
  EXPECT_EQ(strides(z), (IntVector{1, 3}));  // the order of the dimensions in memory
  EXPECT_EQ(strides(ones_like(t, std::nullopt, std::nullopt, std::nullopt, std::nullopt, MemoryFormat::kContiguous)),
            (IntVector{2, 1}));
  EXPECT_EQ(strides(ones_like(slice(t, 0, 0, 3, 2))), (IntVector{2, 1}));  // with gaps: row-major
  expect<float>(full_like(t, 2, DType::kFloat32), {2, 2, 2, 2, 2, 2}, {3, 2});
  expect<int32_t>(new_ones(t, {2}), {1, 1});
  expect<double>(new_full(t, {1}, 0.5, DType::kFloat64), {0.5});
}

TEST(Create, Layouts) {
  EXPECT_EQ(strides(empty_strided({2, 3}, {1, 2})), (IntVector{1, 2}));
  EXPECT_EQ(strides(empty_permuted({2, 3, 4}, IntVector{2, 0, 1})), (IntVector{3, 1, 6}));
  const Tensor last =
      empty({2, 3, 4, 5}, DType::kFloat32, std::nullopt, std::nullopt, std::nullopt, MemoryFormat::kChannelsLast);
  EXPECT_EQ(strides(last), (IntVector{60, 1, 15, 3}));
  expect_error<Error>([] { empty_strided({2, 3}, {1}); }, "mismatch in length of strides and shape: 1 and 2");
  expect_error<Error>([] { empty_permuted({2, 3}, IntVector{0, 0}); }, "Duplicate dim not allowed");
  expect_error<Error>(
      [] { empty({2}, std::nullopt, std::nullopt, std::nullopt, std::nullopt, MemoryFormat::kChannelsLast); },
      "required rank 4 tensor to use channels_last format");
}

TEST(Create, Ranges) {
  expect<int64_t>(arange(4), {0, 1, 2, 3});
  expect<int64_t>(arange(5, -1, -2), {5, 3, 1});
  expect<float>(arange(0.5, 2.5, 0.5), {0.5f, 1, 1.5f, 2});
  expect<double>(arange(3, DType::kFloat64), {0, 1, 2});
  expect<int64_t>(arange(2, 2), {}, {0});
  expect<int64_t>(arange(INT64_MAX - 2, INT64_MAX), {INT64_MAX - 2, INT64_MAX - 1});
  expect_error<Error>([] { arange(0, 4, 0); }, "step must be nonzero");
  expect_error<Error>([] { arange(0, 4, -1); }, "upper bound and lower bound inconsistent with step sign");
  expect_error<Error>([] { arange(0, INFINITY, 1); }, "unsupported range: 0 -> inf");
  Warnings warnings;
  expect<float>(range(1, 2, 0.5), {1, 1.5f, 2});  // with its end
  EXPECT_TRUE(warnings.has("torch.range is deprecated"));
}

TEST(Create, Spaces) {
  expect<float>(linspace(0, 1, 5), {0, 0.25f, 0.5f, 0.75f, 1});
  expect<int32_t>(linspace(0, 10, 3, DType::kInt32), {0, 5, 10});
  expect<float>(linspace(3, 7, 1), {3});
  expect<float>(linspace(3, 7, 0), {}, {0});
  expect<double>(linspace(number<double>(-1), Scalar(1), 3, DType::kFloat64), {-1, 0, 1});
  expect<double>(logspace(0, 3, 4, 2.0, DType::kFloat64), {1, 2, 4, 8}, {4}, 1e-14);
  expect_error<Error>([] { linspace(0, 1, -1); }, "number of steps must be non-negative");
}

TEST(Create, Matrices) {
  expect<float>(eye(2, 3), {1, 0, 0, 0, 1, 0}, {2, 3});
  expect<bool>(eye(1, DType::kBool), {true}, {1, 1});
  expect<int64_t>(tril_indices(2, 3), {0, 1, 1, 0, 0, 1}, {2, 3});
  expect<int64_t>(triu_indices(2, 3, 1), {0, 0, 1, 1, 2, 2}, {2, 3});
  expect_error<Error>([] { eye(-1); }, "n must be greater or equal to 0, got -1");
}

TEST(Create, Out) {
  const Tensor out = empty({0}, DType::kFloat64);
  Warnings warnings;
  EXPECT_TRUE(arange_out(out, 3).is_same(out));
  expect<double>(out, {0, 1, 2});
  EXPECT_EQ(warnings.count(), 0u);
  linspace_out(out, 0, 1, 2);
  expect<double>(out, {0, 1});
  EXPECT_TRUE(warnings.has(kResized));
  full_out(out, {2}, 5);
  expect<double>(out, {5, 5});
}

TEST(Create, Copies) {
  const Tensor m = of<float>({1, 2, 3, 4}, {2, 2}), t = transpose(m, 0, 1);
  EXPECT_EQ(strides(clone(t)), (IntVector{1, 2}));
  EXPECT_EQ(strides(clone(t, MemoryFormat::kContiguous)), (IntVector{2, 1}));
  EXPECT_TRUE(contiguous(m).is_same(m));
  EXPECT_NE(clone(m).data_ptr(), m.data_ptr());
  const Tensor into = zeros({2, 2}, DType::kInt32);
  copy_(into, of<float>({1.9f, -1.9f}));  // broadcast, towards zero
  expect<int32_t>(into, {1, -1, 1, -1}, {2, 2});
  copy_(t, of<float>({5, 6, 7, 8}, {2, 2}));
  expect<float>(m, {5, 7, 6, 8}, {2, 2});
  expect_error<Error>([&] { copy_(into, zeros({3})); },
                      "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1");
  expect_error<NotImplementedError>([&] { copy_(m, meta({2, 2})); }, "Cannot copy out of meta tensor; no data!");
  expect_error<Error>([&] { copy_(expand(zeros({1}), {2}), zeros({2})); }, kSelfOverlap);
}

TEST(Create, Conversions) {
  const Tensor a = of<float>({1.5f, -2.5f});
  EXPECT_TRUE(to(a, DType::kFloat32).is_same(a));
  EXPECT_FALSE(to(a, DType::kFloat32, false, true).is_same(a));
  expect<int64_t>(to(a, DType::kInt64), {1, -2});
  expect<bool>(to(of<float>({0, 0.1f}), DType::kBool), {false, true});
  expect<double>(type_as(a, number<double>(0)), {1.5, -2.5});
  expect<float>(to(to(a, DType::kFloat16), DType::kFloat32), {1.5f, -2.5f});
}

TEST(Create, Fill) {
  const Tensor m = zeros({2, 2}, DType::kInt32);
  fill_(select(m, 1, 1), 3);
  expect<int32_t>(m, {0, 3, 0, 3}, {2, 2});
  zero_(m);
  expect<int32_t>(m, {0, 0, 0, 0}, {2, 2});
  expect_error<Error>(
      [&] {
        fill_(m, of<int32_t>({1, 2}));
      },
      "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions.");
  expect_error<Error>([&] { fill_(m, Scalar(std::complex<double>(0, 1))); }, "value cannot be converted to type");
}

TEST(Create, Complex) {
  const Tensor z = make_complex(of<float>({1, 2}), of<float>({3, 4}));
  EXPECT_EQ(z.dtype(), DType::kComplex64);
  expect<float>(real(z), {1, 2});
  expect<float>(imag(z), {3, 4});
  const Tensor p = polar(of<double>({2}), of<double>({std::acos(-1.0) / 2}));
  expect<double>(real(p), {0}, {1}, 1e-15);
  expect<double>(imag(p), {2}, {1}, 1e-15);
  expect_error<Error>([] { make_complex(of<float>({1}), of<double>({1})); },
                      "Expected object of scalar type Float but got scalar type Double for second argument");
}

TEST(Create, OneNumber) {
  EXPECT_EQ(item(of<int64_t>({7})).to_int(), 7);
  EXPECT_TRUE(is_nonzero(of<float>({0.5f})));
  expect_error<Error>([] { item(zeros({2})); }, "a Tensor with 2 elements cannot be converted to Scalar");
  expect_error<Error>([] { item(meta({1})); }, "Tensor.item() cannot be called on meta tensors");
  expect_error<Error>([] { is_nonzero(zeros({0})); }, "Boolean value of Tensor with no values is ambiguous");
}

TEST(Create, Equality) {
  const Tensor a = of<float>({1, 2}), b = of<float>({1, 2.0001f}), nan = of<float>({NAN});
  EXPECT_TRUE(equal(a, a));
  EXPECT_FALSE(equal(a, b));
  EXPECT_FALSE(equal(a, of<float>({1, 2}, {2, 1})));
  EXPECT_FALSE(allclose(a, b));
  EXPECT_TRUE(allclose(a, b, 1e-3));
  EXPECT_FALSE(allclose(nan, nan));
  expect<bool>(isclose(nan, nan, 0, 0, true), {true});
  expect_error<Error>([&] { isclose(a, to(b, DType::kFloat64)); }, "Float did not match Double");
  expect_error<Error>([&] { isclose(a, b, -1); }, "rtol must be greater than or equal to zero, but got -1");
}

TEST(Create, Resize) {
  const Tensor a = of<float>({1, 2, 3, 4});
  resize_(a, {2, 1});
  expect<float>(a, {1, 2}, {2, 1});
  resize_(a, {4});  // the memory is still there
  expect<float>(a, {1, 2, 3, 4});
  const Tensor b = zeros({0});
  set_(b, a);
  EXPECT_EQ(b.data_ptr(), a.data_ptr());
  expect_error<Error>([&] { set_(b, zeros({1}, DType::kInt32)); }, "Could not set tensor of type");
}

TEST(Create, Meta) {
  for (const Tensor& t :
       {zeros({2, 3}, DType::kInt8, std::nullopt, kMetaDevice), zeros_like(meta({2, 3}, DType::kInt8)),
        to(meta({2, 3}), DType::kInt8), clone(meta({2, 3}, DType::kInt8))}) {
    EXPECT_TRUE(t.is_meta());
    EXPECT_EQ(t.dtype(), DType::kInt8);
    EXPECT_EQ(shape(t), (IntVector{2, 3}));
  }
  EXPECT_EQ(shape(arange(5, std::nullopt, std::nullopt, kMetaDevice)), (IntVector{5}));
}

}  // namespace
}  // namespace tessera
