// Whole-number arithmetic of shapes and blocks. Always inlined: a copy compiled for one SIMD target must not serve
// another.
#pragma once

#include <cstdint>

namespace tessera::cpu {

[[gnu::always_inline]] constexpr int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
[[gnu::always_inline]] constexpr int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// The number of blocks of b >= 1 elements that hold a >= 0 elements.
[[gnu::always_inline]] constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tessera::cpu
