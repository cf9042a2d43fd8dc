// The SIMD part of random_normal.cc.
#pragma once

#include <cstdint>

namespace tessera::cpu::random_internal {

// Turns blocks of 16 uniform numbers into normal ones: numbers j and j + 8 of a block are a pair.
void box_muller_blocks(float* data, int64_t blocks, float mean, float std);

}  // namespace tessera::cpu::random_internal
