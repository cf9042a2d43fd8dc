// Requests for memory that a loop will come to: of long runs the processor does not request enough by itself.
#pragma once

#include <cstdint>

namespace tessera::cpu {

// How far ahead, in bytes: in loops that read several arrays or also write, and in those that only read and have little
// to do in between.
constexpr int64_t kRequestAhead = 2048, kRequestFarAhead = 8192;

// The line that lies `bytes` behind `from`; it need not exist.
inline __attribute__((always_inline)) void request_ahead(const void* from, int64_t bytes = kRequestAhead) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(bytes)));
}

}  // namespace tessera::cpu
