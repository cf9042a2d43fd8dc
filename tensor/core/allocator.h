// CPU memory: 64-byte aligned, cached by size class, so that a fresh result does not cost fresh pages. At most 1 GiB
// stays cached (environment TESSERA_CPU_CACHE_MB).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera {

// At least n bytes, aligned to 64; never null (n == 0 gives a valid address). Throws OutOfMemoryError ("not enough
// memory: you tried to allocate ... bytes").
void* cpu_allocate(size_t n);
// n as given to cpu_allocate. Any thread may free.
void cpu_free(void* p, size_t n) noexcept;

}  // namespace tessera
