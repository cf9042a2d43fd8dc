// How elementwise work is cut for the thread pool: by its size alone.
#pragma once

#include <cstdint>

namespace tessera::cpu {

// Elements of a piece where results go past the caches: every piece ends with waiting for them.
inline constexpr int64_t kStreamedPiece = int64_t{1} << 18;

// Elements of a piece of n. Up to kWhole are not worth waking a thread; above, eight pieces (even shares for 2, 4 or 8
// threads) until they are kWhole large, or kStreamedPiece where results go past the caches. A multiple of 64, so that
// pieces begin at a line of the cache as the whole does.
inline int64_t piece_elements(int64_t n, bool stream) {
  constexpr int64_t kWhole = 32768;
  if (n <= kWhole) return kWhole;
  const int64_t eighth = (n / 8 + 64) / 64 * 64, most = stream ? kStreamedPiece : kWhole;
  return eighth < most ? eighth : most;
}

}  // namespace tessera::cpu
