// Sums and products in Highway.
#include "tensor/cpu/reduce/reduce_kernels.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce/reduce_sum.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/reduce/reduce_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T, DType kType>
const ReduceKernel* SumOfFloats(RowOp op) {
  switch (op) {
    case RowOp::kSum:
      return &kReal<AddOp<T, T, double>, T, kType>;
    case RowOp::kNanSum:
      return &kReal<NanSumOp<T, T>, T, kType>;
    case RowOp::kAbsSum:
      return &kReal<AbsSumOp<T>, T, kType>;
    case RowOp::kSumSquares:
      return &kReal<SumSquaresOp<T, T>, T, kType>;
    case RowOp::kProd:
      return &kReal<ProdOp<T>, T, kType>;
    default:
      return nullptr;
  }
}

}  // namespace

const ReduceKernel* FindSum(RowOp op, DType block) {
  const bool sum = op == RowOp::kSum;
  switch (block) {
    case DType::kFloat32:
      return SumOfFloats<float, DType::kFloat32>(op);
    case DType::kFloat64:
      return SumOfFloats<double, DType::kFloat64>(op);
    case DType::kComplex64:
      return sum ? &kComplex<AddOp<float, float, double>, float, DType::kComplex64> : nullptr;
    case DType::kComplex128:
      return sum ? &kComplex<AddOp<double, double, double>, double, DType::kComplex128> : nullptr;
    case DType::kInt64:
      return sum ? &kReal<AddOp<uint64_t, uint64_t, uint64_t>, uint64_t, DType::kInt64> : nullptr;
    case DType::kInt32:
      return sum ? &kReal<AddOp<int32_t, int64_t, int64_t>, int32_t, DType::kInt32> : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
TESSERA_SIMD_TABLE(FindSum);
const ReduceKernel* find_sum_kernel(RowOp op, DType block) { return TESSERA_SIMD(FindSum)(op, block); }
}  // namespace tessera::cpu
#endif
