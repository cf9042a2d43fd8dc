// Views: sizes, strides and offsets, the shared memory, what is no view, errors.
#include <cstdint>

#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

using Tensors = std::vector<Tensor>;
const auto cube = [] { return reshape(arange(24), {2, 3, 4}); };

// A view of t with this geometry.
void expect_view(const Tensor& v, const Tensor& t, IntVector sizes, IntVector wanted_strides, int64_t offset = 0) {
  EXPECT_TRUE(v.storage() == t.storage());
  EXPECT_TRUE(v.is_view());
  EXPECT_EQ(shape(v), sizes);
  EXPECT_EQ(strides(v), wanted_strides);
  EXPECT_EQ(v.storage_offset(), offset);
}

TEST(View, Shapes) {
  const Tensor t = contiguous(clone(cube()));
  expect_view(view(t, {6, 4}), t, {6, 4}, {4, 1});
  expect_view(view(t, {-1}), t, {24}, {1});
  expect_view(flatten(t, 1), t, {2, 12}, {12, 1});
  expect_view(unflatten(t, 2, {2, -1}), t, {2, 3, 2, 2}, {12, 4, 2, 1});
  expect_view(reshape(transpose(t, 0, 1), {3, 2, 2, 2}), t, {3, 2, 2, 2}, {4, 12, 2, 1});  // splits need no copy
  const Tensor joined = reshape(transpose(t, 0, 1), {6, 4});
  EXPECT_FALSE(joined.storage() == t.storage());  // joins may
  expect<int64_t>(select(joined, 0, 1), {12, 13, 14, 15});
  expect_error<Error>([&] { view(t, {5, 5}); }, "shape '[5, 5]' is invalid for input of size 24");
  expect_error<Error>(
      [&] {
        view(transpose(t, 0, 1), {6, 4});
      },
      "view size is not compatible with input tensor's size and stride");
  expect_error<Error>([&] { flatten(t, 2, 1); }, "flatten() has invalid args: start_dim cannot come after end_dim");
}

TEST(View, Orders) {
  const Tensor t = clone(cube());
  expect_view(permute(t, IntVector{2, 0, 1}), t, {4, 2, 3}, {1, 12, 4});
  expect_view(transpose(t, 0, -1), t, {4, 3, 2}, {1, 4, 12});
  expect_view(movedim(t, 0, 2), t, {3, 4, 2}, {4, 1, 12});
  expect_view(mT(t), t, {2, 4, 3}, {12, 1, 4});
  expect_error<Error>([&] { permute(t, IntVector{0, 0, 1}); }, "permute(): duplicate dims are not allowed.");
  expect_error<Error>([&] { tessera::t(t); }, "t() expects a tensor with <= 2 dimensions, but self is 3D");
  expect_error<IndexError>([&] { transpose(t, 0, 3); },
                           "Dimension out of range (expected to be in range of [-3, 2], but got 3)");
}

TEST(View, SizesOfOne) {
  const Tensor t = zeros({2, 1, 3, 1});
  expect_view(squeeze(t), t, {2, 3}, {3, 1});
  expect_view(squeeze(t, 1), t, {2, 3, 1}, {3, 1, 1});
  EXPECT_EQ(shape(squeeze(t, 0)), shape(t));  // size 2 stays
  expect_view(unsqueeze(t, -1), t, {2, 1, 3, 1, 1}, {3, 3, 1, 1, 1});
  const Tensor own = zeros({2, 3});
  EXPECT_TRUE(own.unsqueeze_(0).is_same(own));
  EXPECT_EQ(shape(own), (IntVector{1, 2, 3}));
  EXPECT_EQ(shape(atleast_3d(zeros({2}))), (IntVector{1, 2, 1}));
}

TEST(View, Broadcasting) {
  const Tensor t = of<float>({1, 2}, {2, 1});
  expect_view(expand(t, {3, 2, 4}), t, {3, 2, 4}, {0, 1, 0});
  expect_view(expand(t, {-1, 2}), t, {2, 2}, {1, 0});
  expect<float>(sum_to_size(ones({3, 2, 4}), {2, 1}), {12, 12}, {2, 1});
  EXPECT_EQ(shape(broadcast_tensors(Tensors{t, zeros({4})})[1]), (IntVector{2, 4}));
  expect_error<Error>(
      [&] {
        expand(t, {3, 1});
      },
      "The expanded size of the tensor (3) must match the existing size (2) at non-singleton dimension 0. "
      " Target sizes: [3, 1].  Tensor sizes: [2, 1]");
  expect_error<Error>([&] { expand(t, {2}); },
                      "must be greater or equal to the number of dimensions in the tensor (2)");
}

TEST(View, Parts) {
  const Tensor t = clone(cube());
  expect_view(select(t, 1, -1), t, {2, 4}, {12, 1}, 8);
  expect_view(slice(t, 2, 1, 4, 2), t, {2, 3, 2}, {12, 4, 2}, 1);
  expect_view(slice(t, 0, 5, 9), t, {0, 3, 4}, {12, 4, 1}, 24);  // ends are clipped
  expect_view(narrow(t, 1, 1, 2), t, {2, 2, 4}, {12, 4, 1}, 4);
  expect_view(diagonal(t, 1, 1, 2), t, {2, 3}, {12, 5}, 1);
  expect_view(t.unfold(2, 2, 1), t, {2, 3, 3, 2}, {12, 4, 1, 1});
  expect_error<IndexError>([&] { select(t, 0, 2); },
                           "select(): index 2 out of range for tensor of size [2, 3, 4] at dimension 0");
  expect_error<Error>([&] { slice(t, 0, 0, 2, 0); }, "slice step must be positive");
  expect_error<Error>([&] { narrow(t, 1, 2, 2); }, "start (2) + length (2) exceeds dimension size (3).");
  expect_error<IndexError>([] { select(number<float>(1), 0, 0); }, "select() cannot be applied to a 0-dim tensor.");
}

TEST(View, Splits) {
  const Tensor t = clone(cube());
  const auto parts = split(t, 2, 1);
  ASSERT_EQ(parts.size(), 2u);
  expect_view(parts[1], t, {2, 1, 4}, {12, 4, 1}, 8);
  EXPECT_EQ(chunk(arange(5), 3).size(), 3u);
  EXPECT_EQ(chunk(arange(5), 4).size(), 3u);  // equal pieces: 2, 2, 1
  expect<int64_t>(tensor_split(arange(5), 3)[0], {0, 1});
  expect<int64_t>(tensor_split(arange(5), 3)[2], {4});
  expect<int64_t>(split_with_sizes(arange(5), {1, 4})[1], {1, 2, 3, 4});
  ASSERT_EQ(unbind(t, 2).size(), 4u);
  expect_view(unbind(t, 2)[3], t, {2, 3}, {12, 4}, 3);
  expect_error<Error>([&] { split(t, -1); }, "split expects split_size be non-negative, but got split_size=-1");
  expect_error<Error>(
      [&] {
        split_with_sizes(t, {1, 2}, 2);
      },
      "split_with_sizes expects split_sizes to sum exactly to 4");
}

TEST(View, Strided) {
  const Tensor t = arange(6);
  expect_view(as_strided(t, {2, 2}, {1, 3}, 1), t, {2, 2}, {1, 3}, 1);
  expect<int64_t>(as_strided(t, {2, 2}, {1, 3}, 1), {1, 4, 2, 5}, {2, 2});
  expect_error<Error>([&] { as_strided(t, {4}, {2}); }, "are out of bounds for storage of size 48");
  expect_error<Error>([&] { as_strided(t, {2}, {-1}, 3); }, "Negative strides are not supported at the moment");
  expect_error<Error>([&] { as_strided(t, {2}, {1, 1}); }, "mismatch in length of strides and shape");
}

TEST(View, WritesGoThrough) {
  const Tensor t = zeros({2, 3}, DType::kInt32), part = select(transpose(t, 0, 1), 0, 2);
  const uint32_t before = t.version();
  fill_(part, 7);
  expect<int32_t>(t, {0, 0, 7, 0, 0, 7}, {2, 3});
  EXPECT_GT(t.version(), before);  // one version for the memory
  EXPECT_TRUE(part.view_base().is_same(t));
  EXPECT_EQ(detach(t).data_ptr(), t.data_ptr());
  const Tensor own = narrow_copy(t, 1, 2, 1);
  fill_(own, 1);
  expect<int32_t>(t, {0, 0, 7, 0, 0, 7}, {2, 3});
}

TEST(View, OtherDtypes) {
  const Tensor f = of<float>({1, -2});
  expect<int32_t>(view(f, DType::kInt32), {0x3f800000, static_cast<int32_t>(0xc0000000u)});
  expect<uint8_t>(view(slice(f, 0, 0, 1), DType::kUInt8), {0, 0, 0x80, 0x3f});
  EXPECT_EQ(view(of<int32_t>({1, 0, 2, 0}), DType::kInt64).numel(), 2);
  expect<int64_t>(view(of<int32_t>({1, 0, 2, 0}), DType::kInt64), {1, 2});
  expect_error<Error>([] { view(zeros({3}), DType::kFloat64); }, "self.size(-1) must be divisible by 2 to view");
  expect_error<Error>([] { view(number<float>(1), DType::kFloat64); }, "self.dim() cannot be 0 to view");
}

TEST(View, Complex) {
  const Tensor parts = of<float>({1, 2, 3, 4}, {2, 2}), z = view_as_complex(parts);
  EXPECT_EQ(z.dtype(), DType::kComplex64);
  expect_view(real(z), parts, {2}, {2});
  expect_view(imag(z), parts, {2}, {2}, 1);
  const Tensor c = conj(z);
  EXPECT_TRUE(c.is_conj());
  EXPECT_EQ(c.data_ptr(), z.data_ptr());
  expect<float>(imag(resolve_conj(c)), {-2, -4});
  expect<float>(view_as_real(resolve_conj(conj(c))), {1, 2, 3, 4}, {2, 2});
  EXPECT_TRUE(conj(parts).is_same(parts));  // real numbers
  expect_error<Error>([] { view_as_complex(zeros({3})); }, "Tensor must have a last dimension of size 2");
}

TEST(View, EmptyAndMeta) {
  EXPECT_EQ(shape(view(zeros({0, 3}), {3, 0})), (IntVector{3, 0}));
  expect_error<Error>([] { view(zeros({0, 3}), {-1, 0}); }, "cannot reshape tensor of 0 elements into shape [-1, 0]");
  const Tensor t = meta({2, 3, 4}), v = permute(t, IntVector{2, 0, 1});
  EXPECT_TRUE(v.is_meta());
  EXPECT_EQ(strides(v), (IntVector{1, 12, 4}));
  EXPECT_EQ(shape(unbind(t, 1)[2]), (IntVector{2, 4}));
}

}  // namespace
}  // namespace tessera
