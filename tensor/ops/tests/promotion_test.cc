// The rules that kernels share: dtypes of results, memory for results.
#include "tensor/ops/promotion.h"

#include <string>

#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/ops/result_memory.h"
#include "tensor/ops/tests/testing.h"

namespace tessera {
namespace {

std::string message(const PointwiseOp& op, DType t) {
  try {
    pointwise_compute_dtype(op, t);
  } catch (const NotImplementedError& e) { return e.what(); }
  return "";
}

TEST(Promotion, ElementwiseOps) {
  EXPECT_EQ(pointwise_compute_dtype(pw::exp, DType::kInt32), DType::kFloat32);
  EXPECT_EQ(pointwise_compute_dtype(pw::exp, DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(pointwise_compute_dtype(pw::add, DType::kInt16), DType::kInt16);
  EXPECT_EQ(pointwise_result_dtype(pw::exp, DType::kInt32), DType::kFloat32);
  EXPECT_EQ(pointwise_result_dtype(pw::exp, DType::kBFloat16), DType::kBFloat16);
  EXPECT_EQ(pointwise_result_dtype(pw::abs, DType::kComplex128), DType::kFloat64);
  EXPECT_EQ(pointwise_result_dtype(pw::eq, DType::kInt8), DType::kBool);
  set_default_dtype(DType::kFloat64);
  EXPECT_EQ(pointwise_compute_dtype(pw::exp, DType::kInt32), DType::kFloat64);
  EXPECT_EQ(pointwise_result_dtype(pw::exp, DType::kBool), DType::kFloat64);
  set_default_dtype(DType::kFloat32);
}

TEST(Promotion, MissingKernelsAreReported) {
  EXPECT_EQ(message(pw::lt, DType::kComplex64), "\"lt_cpu\" not implemented for 'ComplexFloat'");
  EXPECT_EQ(message(pw::sub, DType::kBool), "\"sub_stub\" not implemented for 'Bool'");
  EXPECT_EQ(message(pw::bitwise_and, DType::kFloat32), "\"bitwise_and_cpu\" not implemented for 'Float'");
  EXPECT_EQ(message(pw::add, DType::kUInt32), "\"add_stub\" not implemented for 'UInt32'");
  EXPECT_EQ(message(pw::exp, DType::kFloat8_e4m3fn), "\"exp_cpu\" not implemented for 'Float8_e4m3fn'");
}

TEST(Promotion, SumsAndFractions) {
  for (const DType t : {DType::kBool, DType::kUInt8, DType::kInt32, DType::kInt64}) {
    EXPECT_EQ(sum_dtype(t), DType::kInt64);
    EXPECT_EQ(fraction_dtype(t), DType::kFloat32);
  }
  for (const DType t : {DType::kFloat16, DType::kFloat64, DType::kComplex64}) {
    EXPECT_EQ(sum_dtype(t), t);
    EXPECT_EQ(fraction_dtype(t), t);
  }
}

TEST(ResultMemory, IsTheResultWhereThatFits) {
  const Tensor out = zeros({2, 3});
  const kernels::ResultMemory memory(out);
  EXPECT_TRUE(memory.tensor().is_same(out));
  EXPECT_EQ(memory.data(), out.data_ptr());
  memory.load();
  memory.finish();
  const Tensor none;
  const kernels::ResultMemory absent(none);
  EXPECT_EQ(absent.data(), nullptr);
  absent.finish();
}

TEST(ResultMemory, ATemporaryIsCopied) {
  const Tensor whole = arange(Scalar(6)), out = transpose(reshape(whole, {2, 3}), 0, 1);
  const kernels::ResultMemory memory(out, DType::kFloat64);
  EXPECT_EQ(memory.tensor().dtype(), DType::kFloat64);
  EXPECT_TRUE(memory.tensor().is_contiguous());
  EXPECT_FALSE(memory.tensor().is_same(out));
  memory.load();
  const double* const values = memory.tensor().data<double>();
  EXPECT_EQ(values[1], 3);  // out[0, 1]
  memory.tensor().data<double>()[1] = 30;
  EXPECT_EQ(whole.data<int64_t>()[3], 3);
  memory.finish();
  EXPECT_EQ(whole.data<int64_t>()[3], 30);
  EXPECT_EQ(whole.data<int64_t>()[1], 1);
}

}  // namespace
}  // namespace tessera
