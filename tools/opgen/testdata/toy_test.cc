// What opgen makes of a table, compiled and called: each rule, each form, and a library without autograd.
#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/dispatch/registry.h"
#include "tools/opgen/testdata/toys.h"
#include "tools/opgen/testdata/toys_registry.h"

namespace tessera {
namespace {

Tensor make(IntList sizes, std::vector<float> values) {
  Tensor t = empty_kernel(sizes, DType::kFloat32);
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}
std::vector<float> values(const Tensor& t) { return {t.data<float>(), t.data<float>() + t.numel()}; }
const int64_t k23[] = {2, 3}, k3[] = {3};
using Floats = std::vector<float>;

TEST(Toys, PointwiseFunctionalInplaceOut) {
  Tensor a = make(k3, {1, 2, 3}), b = make(k3, {10, 20, 30});
  EXPECT_EQ(values(toy_add(a, b, 2)), (Floats{21, 42, 63}));
  EXPECT_EQ(values(toy_add(a, 5)), (Floats{6, 7, 8}));
  const uint32_t version = a.version();
  EXPECT_TRUE(toy_add_(a, b).is_same(a));
  EXPECT_EQ(values(a), (Floats{11, 22, 33}));
  EXPECT_EQ(a.version(), version + 1);
  Tensor out = empty_kernel(k3, DType::kFloat32);
  EXPECT_TRUE(toy_add_out(out, a, b).is_same(out));
  EXPECT_EQ(values(out), (Floats{21, 42, 63}));
}

TEST(Toys, StructuredFormsShareMetaAndKernel) {
  Tensor a = make(k3, {1, 2, 3});
  EXPECT_EQ(values(toy_scale(a, 3)), (Floats{3, 6, 9}));
  const uint32_t version = a.version();
  toy_scale_(a, 2);
  EXPECT_EQ(values(a), (Floats{2, 4, 6}));
  EXPECT_EQ(a.version(), version + 1);
  Tensor out = empty_kernel(k3, DType::kFloat32);
  toy_scale_out(out, a, 10);
  EXPECT_EQ(values(out), (Floats{20, 40, 60}));
  toy_scale_out(a, a, 10);  // out is the input: through a temporary
  EXPECT_EQ(values(a), (Floats{20, 40, 60}));
  Tensor small = empty_kernel(IntList(k3, 0), DType::kFloat32);
  toy_scale_out(small, a, 1);
  EXPECT_EQ(values(small), (Floats{20, 40, 60}));
  Tensor wrong = empty_kernel(k3, DType::kInt64);
  EXPECT_THROW(toy_scale_out(wrong, a, 1), Error);  // float results don't go into an integer tensor
  auto [low, high] = toy_minmax(make(k23, {1, 5, 3, 4, 2, 6}));
  EXPECT_EQ(values(low), (Floats{1, 2, 3}));
  EXPECT_EQ(values(high), (Floats{4, 5, 6}));
  EXPECT_THROW(toy_minmax(a), Error);
}

TEST(Toys, MetaTensorsGetShapesOnly) {
  Tensor m = empty_tensor(k23, {}, DType::kFloat32, Device(DeviceType::kMeta));
  EXPECT_TRUE(toy_scale(m, 2).is_meta());
  EXPECT_EQ(std::get<1>(toy_minmax(m)).dim(), 1);
  EXPECT_THROW(toy_join(std::vector<Tensor>{m}), NotImplementedError);  // a CPU kernel only
}

TEST(Toys, ViewsCompositesDirect) {
  Tensor a = make(k23, {1, 2, 3, 4, 5, 6});
  Tensor row = toy_row(a, 1);
  EXPECT_EQ(row.data_ptr(), a.data<float>() + 3);
  EXPECT_EQ(toy_rows(a).size(), 2u);
  EXPECT_EQ(values(toy_twice(row)), (Floats{8, 10, 12}));
  EXPECT_EQ(values(toy_twice(row, row)), (Floats{20, 30, 42}));
  toy_twice_(row);
  EXPECT_EQ(values(a), (Floats{1, 2, 3, 8, 10, 12}));
  EXPECT_EQ(values(toy_join(toy_rows(a))), values(a));
  toy_zero_(row);
  EXPECT_EQ(values(a), (Floats{1, 2, 3, 0, 0, 0}));
  EXPECT_EQ(values(toy_ones({2})), (Floats{1, 1}));
}

TEST(Toys, RegistryListsThemSorted) {
  const OpInfoList ops = registry_toys();
  EXPECT_TRUE(std::is_sorted(ops.begin(), ops.end(), [](const OpInfo* a, const OpInfo* b) {
    return std::string(a->op->name) + "." + a->op->overload < std::string(b->op->name) + "." + b->op->overload;
  }));
  const auto it = std::find_if(ops.begin(), ops.end(), [](const OpInfo* i) { return i->op == &op::toy_add__Tensor; });
  ASSERT_NE(it, ops.end());
  const OpInfo& info = **it;
  EXPECT_STREQ(info.op->name, "toy::toy_add_");
  EXPECT_STREQ(info.schema(), "toy::toy_add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
  EXPECT_EQ(info.op->mutable_args, 1u);
  EXPECT_EQ(info.op->info, &info);
  // A boxed call.
  Tensor a = make(k3, {1, 2, 3});
  const Value args[] = {Value::borrow(a.impl()), Value::borrow(a.impl()), Value::of(Scalar(2.0))};
  Value ret;
  info.adapter->call(*info.op, nullptr, args, &ret);
  EXPECT_TRUE(ret.tensor().is_same(a));
  EXPECT_EQ(values(a), (Floats{3, 6, 9}));
}

}  // namespace
}  // namespace tessera
