// Stable sorting of unsigned keys on the device.
#pragma once

#include <cstdint>

#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda {

template <class Key, class Pos>
struct Sorted {
  Buffer keys;       // Key, row after row
  Buffer positions;  // Pos: where in its row each key stood
};

// Sorts each of `rows` rows of n keys by their lowest `bits` bits (the others are 0); equal keys stay in order. Key,
// Pos: uint32_t, uint32_t, or uint64_t, uint32_t, or uint64_t, uint64_t. rows * n must be a number of Pos.
template <class Key, class Pos>
Sorted<Key, Pos> radix_sort(Buffer keys, int64_t rows, int64_t n, int bits);

}  // namespace tessera::cuda
