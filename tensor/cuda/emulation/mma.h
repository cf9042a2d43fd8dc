// Tensor cores and asynchronous copies on the emulated device: the exchange between the lanes of a warp that the
// instructions' definitions (PTX ISA, "matrix fragments") lay down.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "tensor/core/half.h"
#include "tensor/cuda/emulation/device.h"

namespace tessera::cuda::emulation {

inline constexpr int kMostThreads = 1024;
// What the lanes of a warp show each other. Two of each, taken in turn: a lane may be one call ahead of another, never
// two.
struct Fragments {
  float a[4][2], b[2][2];
};
inline Fragments fragments[2][kMostThreads];
inline unsigned byte_fragments[2][kMostThreads][6];  // the same for bytes: a, then b
inline const void* rows_of_matrices[2][kMostThreads];
inline unsigned char turns[kMostThreads];

inline int rank_in_block() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
inline int next_turn(int rank) { return turns[rank] ^= 1; }

// Lane 8 i + r names row r of the matrix i, of eight rows of 16 bytes. Each lane gets word lane % 4 of row lane / 4 of
// each; transposed: the elements of rows 2 (lane % 4) and the next in column lane / 4.
inline void load_matrices(unsigned (&r)[4], const void* row, bool transposed) {
  const int rank = rank_in_block(), first = rank & ~31, lane = rank & 31, turn = next_turn(rank);
  rows_of_matrices[turn][rank] = row;
  __syncwarp();
  for (int i = 0; i < 4; ++i) {
    const void* const* rows = rows_of_matrices[turn] + first + 8 * i;
    if (!transposed) {
      std::memcpy(&r[i], static_cast<const char*>(rows[lane / 4]) + 4 * (lane % 4), 4);
    } else {
      uint16_t pair[2];
      for (int e = 0; e < 2; ++e)
        std::memcpy(&pair[e], static_cast<const char*>(rows[2 * (lane % 4) + e]) + 2 * (lane / 4), 2);
      std::memcpy(&r[i], pair, 4);
    }
  }
}

// c += a b for a tile of 16 x 8 and a depth of 16 (elements of 16 bits) or 8 (32 bits). Lane 4 g + t holds columns 2 t
// and 2 t + 1 of rows g and g + 8 of c. element(word, i): element i of a word as a number.
template <int kDepth, class F>
void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, F element) {
  constexpr int kPerWord = kDepth / 8;
  const int rank = rank_in_block(), first = rank & ~31, lane = rank & 31, turn = next_turn(rank);
  Fragments& mine = fragments[turn][rank];
  for (int part = 0; part < kPerWord; ++part) {
    for (int i = 0; i < 4; ++i) mine.a[i][part] = element(a[i], part);
    mine.b[0][part] = element(b0, part);
    mine.b[1][part] = element(b1, part);
  }
  __syncwarp();
  const Fragments* warp = fragments[turn] + first;
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
    float sum = c[i];
    for (int upper = 0; upper < 2; ++upper) {
      for (int quad = 0; quad < 4; ++quad) {
        for (int part = 0; part < kPerWord; ++part)
          sum += warp[row % 8 * 4 + quad].a[(row >= 8) + 2 * upper][part] * warp[column * 4 + quad].b[upper][part];
      }
    }
    c[i] = sum;
  }
}

// The same for bytes, a depth of 32: lane 4 g + t holds bytes 4 t to 4 t + 3 of rows g and g + 8 of a and of column g
// of b, then those 16 further on.
inline void multiply_bytes(int (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, bool a_unsigned) {
  const int rank = rank_in_block(), first = rank & ~31, lane = rank & 31, turn = next_turn(rank);
  unsigned(&mine)[6] = byte_fragments[turn][rank];
  std::memcpy(mine, a, sizeof a);
  mine[4] = b0;
  mine[5] = b1;
  __syncwarp();
  const auto* const warp = byte_fragments[turn] + first;
  const auto byte = [](unsigned word, int i) { return static_cast<uint8_t>(word >> 8 * i); };
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
    for (int k = 0; k < 32; ++k) {
      const int upper = k / 16, quad = k % 16 / 4;
      const uint8_t x = byte(warp[row % 8 * 4 + quad][(row >= 8) + 2 * upper], k % 4),
                    y = byte(warp[column * 4 + quad][4 + upper], k % 4);
      const int product = (a_unsigned ? int{x} : int{static_cast<int8_t>(x)}) * static_cast<int8_t>(y);
      c[i] = static_cast<int>(static_cast<unsigned>(c[i]) + static_cast<unsigned>(product));
    }
  }
}

inline uint16_t half_of(unsigned word, int part) { return static_cast<uint16_t>(word >> 16 * part); }

// Copies that a thread has asked for are done as late as it may notice: when it waits for them.
struct PendingCopy {
  void* to;
  const void* from;
  int bytes;  // of 16; the others become zero
};
inline std::vector<std::vector<PendingCopy>> pending_copies[kMostThreads];

inline void copy_later(void* to, const void* from, int bytes) {
  auto& groups = pending_copies[rank_in_block()];
  if (groups.empty()) groups.emplace_back();
  groups.back().push_back({to, from, bytes});
}
inline void commit_copies() {
  auto& groups = pending_copies[rank_in_block()];
  if (groups.empty()) groups.emplace_back();
  groups.emplace_back();
}
inline void finish_copies(size_t groups_left) {
  auto& groups = pending_copies[rank_in_block()];
  while (groups.size() > groups_left + 1) {
    for (const PendingCopy& c : groups.front()) {
      std::memcpy(c.to, c.from, static_cast<size_t>(c.bytes));
      std::memset(static_cast<char*>(c.to) + c.bytes, 0, static_cast<size_t>(16 - c.bytes));
      note_write(c.to, 16);
    }
    groups.erase(groups.begin());
  }
}

}  // namespace tessera::cuda::emulation
