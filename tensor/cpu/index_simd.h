// The loops of the index engines that are worth vectors.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// Is 0 <= index < size for all?
bool indices_within(const int64_t* index, int64_t n, int64_t size);
// The least and the greatest of n > 0 numbers.
struct IndexRange { int64_t least, greatest; };
IndexRange range_of(const int64_t* x, int64_t n);
// out[i] = from[index[i]], elements of 4 or 8 bytes; size: how many there are to choose from.
void gather_elements(int64_t item_size, void* out, const void* from, const int64_t* index, int64_t n, int64_t size);
// to[i] = last[-i], elements of 1, 2, 4 or 8 bytes.
void reverse_elements(int64_t item_size, void* to, const void* last, int64_t n);
// to[i] += from[i] for float32, float64, int32 and int64; false for other dtypes.
bool add_elements(DType t, void* to, const void* from, int64_t n);

}  // namespace tessera::cpu
