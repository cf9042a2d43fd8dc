// The loops of the index engines that are worth vectors.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu {

// Is 0 <= index < size for all?
bool indices_within(const int64_t* index, int64_t n, int64_t size);
// The least and the greatest of n > 0 numbers.
struct IndexRange {
  int64_t least, greatest;
};
IndexRange range_of(const int64_t* x, int64_t n);
// out[i] = from[index[i]], elements of 4 or 8 bytes; size: how many there are to choose from.
void gather_elements(int64_t item_size, void* out, const void* from, const int64_t* index, int64_t n, int64_t size);
// to[i] = last[-i], elements of 1, 2, 4 or 8 bytes.
void reverse_elements(int64_t item_size, void* to, const void* last, int64_t n);
// to[i] += from[i] for float32, float64, int32 and int64; false for other dtypes.
bool add_elements(DType t, void* to, const void* from, int64_t n);

// Masks: bytes, of which those that are not 0 are set.
// How many of n are set.
int64_t count_set(const uint8_t* mask, int64_t n);
// Writes first + i for every set i < n, in order, of which there is room for `room`; returns how many were written.
int64_t write_positions(const uint8_t* mask, int64_t n, int64_t first, int64_t* out, int64_t room);
// Writes from[i] for every set i < n, in order, elements of 1, 2, 4 or 8 bytes; room and result as above.
int64_t select_elements(int64_t item_size, const uint8_t* mask, const void* from, int64_t n, void* out, int64_t room);

}  // namespace tessera::cpu
