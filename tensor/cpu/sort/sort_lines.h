// Sorting and selecting in lines of up to kMaxWordLine elements, in vectors (sort_lines.cc). Longer lines: sort.cc.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/cpu/reduce/lines.h"
#include "tensor/cpu/sort/sort.h"

namespace tessera::cpu {

inline constexpr int64_t kMaxWordLine = INT32_MAX;

// load: float32, int32, int64, uint64 or float64. Operands of the lines: values, indices (may be absent), input.
void sort_word_lines(DType load, const Lines& lines, int64_t n, bool descending);
// load: float32 or int32.
void topk_word_lines(DType load, const Lines& lines, int64_t n, int64_t k, bool largest);
// k counts from 0; it is not used for medians.
void select_word_lines(DType load, SelectKind kind, const Lines& lines, int64_t n, int64_t k);

}  // namespace tessera::cpu
