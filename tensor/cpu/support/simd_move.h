// Data movement that wants SIMD instructions, by the size of an element.
#pragma once

#include <cstdint>

namespace tessera::cpu {

// n copies of the element of `size` (1, 2, 4, 8 or 16) bytes at `value`.
void fill_elements(void* dst, const void* value, int64_t n, int64_t size);
// Rows of n elements one after the other: row r repeats the element at value + r * step.
void fill_rows(void* dst, const void* value, int64_t step, int64_t rows, int64_t n, int64_t size);

// From so many bytes read and written on, results go past the caches: they would push out what is there and be gone
// when they are read.
inline constexpr int64_t kStreamBytes = int64_t{32} << 20;
// Copies past the caches; memory must not overlap. After the last one on a thread, before others may read:
// stream_fence().
void stream_copy(void* dst, const void* src, int64_t bytes);
// The same of the element of `size` bytes at `value`, n times.
void stream_fill(void* dst, const void* value, int64_t n, int64_t size);
void stream_fence();

// Transposes `tiles` neighbouring tiles of 16 x 16 elements of 4 bytes, 8 x 8 of 8 bytes or 4 x 4 of 16 bytes: column j
// of the source rows becomes row j of dst. The tiles follow each other along dst's rows (down the source's rows).
void transpose_tiles4(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t tiles);
void transpose_tiles8(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t tiles);
void transpose_tiles16(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t tiles);

}  // namespace tessera::cpu
