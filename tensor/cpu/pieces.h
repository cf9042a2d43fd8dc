// How elementwise work is cut for the thread pool: by its size alone.
#pragma once

#include <cstdint>

namespace tessera::cpu {

// Elements of a piece of n. Up to kWhole are not worth waking a thread; above, eight pieces (even shares for 2, 4 or 8 threads) until they are kWhole large. A
// multiple of 64, so that pieces begin at a line of the cache as the whole does.
inline int64_t piece_elements(int64_t n) {
  constexpr int64_t kWhole = 32768;
  if (n <= kWhole) return kWhole;
  const int64_t eighth = (n / 8 + 64) / 64 * 64;
  return eighth < kWhole ? eighth : kWhole;
}

}  // namespace tessera::cpu
