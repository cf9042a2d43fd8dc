// Maxima and minima in Highway.
#include "tensor/cpu/reduce_kernels.h"
#include "tensor/cpu/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce_extreme.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/reduce_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

template <class T, DType kType>
const ReduceKernel* Extreme(RowOp op) {
  switch (op) {
    case RowOp::kMax: return &kReal<ExtremeOp<T, true, false>, T, kType>;
    case RowOp::kMin: return &kReal<ExtremeOp<T, false, false>, T, kType>;
    default: break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (op == RowOp::kMaxAbs) return &kReal<ExtremeOp<T, true, true>, T, kType>;
    if (op == RowOp::kMinAbs) return &kReal<ExtremeOp<T, false, true>, T, kType>;
  }
  return nullptr;
}

}  // namespace

const ReduceKernel* FindExtreme(RowOp op, DType block) {
  switch (block) {
    case DType::kFloat32: return Extreme<float, DType::kFloat32>(op);
    case DType::kFloat64: return Extreme<double, DType::kFloat64>(op);
    case DType::kInt64: return Extreme<int64_t, DType::kInt64>(op);
    case DType::kUInt64: return Extreme<uint64_t, DType::kUInt64>(op);
    case DType::kInt32: return Extreme<int32_t, DType::kInt32>(op);
    default: return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
TESSERA_SIMD_TABLE(FindExtreme);
const ReduceKernel* find_extreme_kernel(RowOp op, DType block) { return TESSERA_SIMD(FindExtreme)(op, block); }
}  // namespace tessera::cpu
#endif
