// Rows of keys in tiles, one for each block, and digits of keys: what radix sort and selection share.
#pragma once

#include <cstdint>

#include "tensor/cuda/runtime/launch.h"

namespace tessera::cuda {

inline constexpr int kDigitBits = 8;
inline constexpr int kDigits = 1 << kDigitBits;
inline constexpr int kTileThreads = kDigits;  // a thread for each digit
inline constexpr int kTileWarps = kTileThreads / 32;
inline constexpr int kTileItems = 16;
inline constexpr int kTile = kTileThreads * kTileItems;

template <class Key>
__device__ inline unsigned digit_of(Key key, int shift) {
  return static_cast<unsigned>(key >> shift) & (kDigits - 1);
}

// The part of a row that a block works on.
struct Tile {
  int64_t row, number;          // of the tile in its row
  int64_t first, first_of_row;  // its first key, counted from the start of all rows and of its own
  int n;
};
struct Tiles {
  int64_t rows, n, of_row;  // of_row: tiles of a row
  Tiles(int64_t rows_, int64_t n_) : rows(rows_), n(n_), of_row((n_ + kTile - 1) / kTile) {}
  dim3 blocks() const { return dim3(static_cast<unsigned>(rows * of_row)); }
  __device__ Tile tile() const {
    Tile t;
    t.row = blockIdx.x / of_row;
    t.number = blockIdx.x - t.row * of_row;
    t.first_of_row = t.number * kTile;
    t.first = t.row * n + t.first_of_row;
    t.n = static_cast<int>(n - t.first_of_row < kTile ? n - t.first_of_row : kTile);
    return t;
  }
};

}  // namespace tessera::cuda
