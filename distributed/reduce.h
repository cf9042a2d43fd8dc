#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::distributed {

// Element types of reductions; the numbers are in python/tessera/distributed/_buffers.py.
enum class Kind : uint8_t { kF32, kF64, kF16, kBF16, kI8, kU8, kI16, kU16, kI32, kU32, kI64, kU64, kBool, kBytes };
enum class Fold : uint8_t { kSum, kProduct, kMin, kMax, kAnd, kOr, kXor };

size_t size_of(Kind kind);

// Whether there is such a reduction: bitwise ones are for integers.
bool can_fold(Kind kind, Fold fold);

// out = sources[0] (fold) sources[1] (fold) ..., always from the first to the last, so that whoever computes it gets
// the same bits. Half types are folded in f32 and rounded once. `out` may be one of the sources only if it is the
// first.
void fold_all(Kind kind, Fold fold, void* out, const void* const* sources, int n, size_t count);

// to = from * scale, of f32 and f64 where the scale is not 1. They are the same memory or apart.
void copy_scaled(Kind kind, void* to, const void* from, size_t bytes, double scale);

}  // namespace tessera::distributed
