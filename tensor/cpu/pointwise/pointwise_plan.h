// The iteration order of the elementwise and copy engines: dimensions sorted by the output's strides and merged where
// all operands allow it.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "tensor/cpu/pointwise/pointwise.h"

namespace tessera::cpu {

inline constexpr int kMaxPlanDims = 64;
inline constexpr int kMaxPlanOperands = 6;
// Elements of a piece of parallel work. Fixed: it is part of the promise that results do not depend on the number of
// threads.
inline constexpr int64_t kGrain = 16384;

// Dimension 0 is the innermost. Operand 0 is the first output. ndim >= 1 unless numel is 0.
struct Plan {
  int ndim = 0;
  int num_operands = 0;
  int64_t numel = 1;
  int64_t shape[kMaxPlanDims];
  int64_t strides[kMaxPlanOperands][kMaxPlanDims];  // bytes

  // Walking the dimensions in order visits the operand's bytes one element of `size` bytes after the other.
  bool is_flat(int operand, int64_t size) const;
  bool is_scalar(int operand) const;  // every stride is 0: one element for all
  int64_t offset_of(int operand, const int64_t* index) const;
};

// `get_strides(k)` is the stride array of operand k in the order of `shape`. Throws Error beyond kMaxPlanDims
// dimensions.
void make_plan(Plan& plan, std::span<const int64_t> shape, const int64_t* const* strides, int num_operands);

// A position in a plan: element `inner` of the row with index[1...].
struct Cursor {
  int64_t inner = 0;
  int64_t index[kMaxPlanDims];
  int64_t row_offset[kMaxPlanOperands];

  void seek(const Plan& plan, int64_t linear);
  void next_row(const Plan& plan);
  // Moves on by n elements.
  void advance(const Plan& plan, int64_t n);
};

// n elements of `size` bytes, `stride` bytes apart, to (from) contiguous memory. Stride 0 gathers copies of one
// element.
void gather_row(void* dst, const void* src, int64_t stride, int64_t n, int64_t size);
void scatter_row(void* dst, int64_t stride, const void* src, int64_t n, int64_t size);
// The n elements of `operand` from the cursor on, rows after rows, to (from) contiguous memory. The cursor does not
// move.
void gather_block(const Plan& plan, const Cursor& at, int operand, const void* base, int64_t n, int64_t size,
                  void* dst);
void scatter_block(const Plan& plan, const Cursor& at, int operand, void* base, int64_t n, int64_t size,
                   const void* src);
// Copies operand 1 to operand 0, both of elements of `size` bytes.
void copy_plan(const Plan& plan, char* dst, const char* src, int64_t size);
// The dimension along which operand 1 is contiguous while operand 0 is along dimension 0 (a transposition), or -1.
int transposed_dim(const Plan& plan, int64_t size);
// v, -v, conj(v) or -conj(v), in place, n elements of dtype t.
void conj_neg_in_place(DType t, void* data, int64_t n, bool conj, bool neg);

}  // namespace tessera::cpu
