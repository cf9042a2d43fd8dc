// Sorting and selecting in lines of up to kMaxWordLine elements, in vectors (sort_lines.cc). Longer lines: sort.cc.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/cpu/lines.h"
#include "tensor/cpu/select.h"

namespace tessera::cpu {

inline constexpr int64_t kMaxWordLine = INT32_MAX;

// load: float32, int32, int64, uint64 or float64. Operands of the lines: values, indices (may be absent), input.
void sort_word_lines(DType load, const Lines& lines, int64_t n, bool descending);
// load: float32 or int32.
void topk_word_lines(DType load, const Lines& lines, int64_t n, int64_t k, bool largest);
// k counts from 0; it is not used for medians.
void select_word_lines(DType load, SelectKind kind, const Lines& lines, int64_t n, int64_t k);

// Sorts words by their upper halves, stably, digit by digit; differing: the bits of the halves that are not the same in all. The result is in a or b: which one is returned.
int64_t* radix_sort_words(int64_t* a, int64_t* b, int64_t n, uint32_t differing);

}  // namespace tessera::cpu
