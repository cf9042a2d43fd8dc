// The elementwise engine, below the Tensor: raw pointers, dtypes and byte strides.
//
// An op is a table of *block kernels*, one per compute dtype, each a function over contiguous blocks. The engine cuts
// the output into blocks, brings strided, broadcast or differently typed inputs into L1 scratch, calls the kernel and
// stores. So mixed dtypes and float16/bfloat16 need no kernels of their own: their compute dtype is float32 (the
// table's entry for kFloat16/kBFloat16 is null and falls back to kFloat32).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "tensor/core/dtype.h"
#include "tensor/cpu/support/operand.h"

namespace tessera {

// outs[k], ins[k]: n contiguous elements; an input may be exactly an output (same address), never overlap one
// otherwise. Inputs have the op's compute dtype; outputs have the compute dtype, or bool / the real dtype where the
// op's result kind says so.
using BlockKernel = void (*)(int64_t n, void* const* outs, const void* const* ins, const KernelParam* params);

// How result dtypes follow from the compute dtype (the common dtype of the inputs).
enum class ResultKind : uint8_t {
  kSame,  // compute dtype
  kBool,  // comparisons and predicates
  kReal,  // abs, angle, real, imag of complex: the real counterpart
};
// How the compute dtype follows from the promoted dtype of the inputs.
enum class PromoteKind : uint8_t {
  kDefault,     // as promoted
  kIntToFloat,  // integers and bool compute in the default floating dtype (sqrt, true division)
};

struct PointwiseOp {
  const char* name;     // "add": for messages, as in '"add" not implemented for ...'
  uint8_t num_inputs;   // tensor inputs, 1..4
  uint8_t num_outputs;  // 1..2
  uint8_t num_params;
  PromoteKind promote;
  ResultKind result;
  // By compute dtype; null where the op has no kernel for it. float16/bfloat16/complex32 entries may be null although
  // the op supports them through float32/complex64: see half_via_float.
  BlockKernel kernels[kNumComputeDTypes];
  bool half_via_float;  // compute float16 and bfloat16 in float32 (complex32 in complex64), rounding once at the end
  // Inputs whose dtype is bool and stays so, whatever the compute dtype (where's condition): bit k for input k.
  uint8_t bool_inputs = 0;
};

// The dtype whose kernel serves elements of dtype t: t itself, or the one that its halves are computed in; nothing
// where the op has no kernel for it.
inline std::optional<DType> kernel_dtype(const PointwiseOp& op, DType t) {
  if (static_cast<int>(t) >= kNumComputeDTypes) return std::nullopt;
  if (op.kernels[static_cast<int>(t)]) return t;
  const DType wide = is_reduced_float(t) ? DType::kFloat32 : t == DType::kComplex32 ? DType::kComplex64 : t;
  if (op.half_via_float && op.kernels[static_cast<int>(wide)]) return wide;
  return std::nullopt;
}
// The dtype of the result for inputs of dtype t.
inline DType result_dtype(const PointwiseOp& op, DType t) {
  if (op.result == ResultKind::kBool) return DType::kBool;
  return op.result == ResultKind::kReal ? to_real(t) : t;
}

namespace cpu {

// Runs op over `shape`. Outputs come first. Every operand may have any dtype that the engine can convert to/from the
// compute dtype (all real and complex dtypes, and float8). The caller has checked overlaps: an output's memory is
// disjoint from the inputs', or exactly the same operand (same data, strides and dtype). Deterministic at any thread
// count.
void run_pointwise(const PointwiseOp& op, DType compute, std::span<const int64_t> shape, std::span<const Operand> outs,
                   std::span<const Operand> ins, const KernelParam* params);

// dst[i] = (dst dtype) src[i] over `shape`, byte strides; C conversion rules, complex -> real drops the imaginary part,
// x -> bool is x != 0. conj: conjugate on the way (complex source), neg: negate. Fast paths: same-dtype contiguous
// (memcpy), 2-d transposes (blocked), casts (SIMD).
void copy_strided(std::span<const int64_t> shape, const Operand& dst, const Operand& src, bool conj = false,
                  bool neg = false);
// Contiguous conversion of n elements.
void convert(DType to, void* dst, DType from, const void* src, int64_t n);
// dst[...] = value (one element of dst's dtype at `value`).
void fill_strided(std::span<const int64_t> shape, const Operand& dst, const void* value);
// Throws Error("ZeroDivisionError") if an element of an integer divisor is 0. For the ops div_trunc, div_floor,
// remainder and fmod, before they run.
void check_integer_divisor(std::span<const int64_t> shape, const Operand& divisor);

}  // namespace cpu
}  // namespace tessera
