// Elements that lie side by side, loaded and stored at once.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "tensor/cuda/support/types.h"

namespace tessera::cuda::internal {

// Elements that a thread loads at once.
template <class T>
inline constexpr int kVector = sizeof(T) >= 8 ? 16 / sizeof(T) : 4;
template <class T, int V>
struct alignas(V * sizeof(T)) Elements {
  T v[V];
};

template <int V, class T>
__device__ inline void load_elements(const T* p, Compute<T> (&out)[V]) {
  const Elements<T, V> e = *reinterpret_cast<const Elements<T, V>*>(p);
  for (int k = 0; k < V; ++k) out[k] = load(&e.v[k]);
}
template <int V, class T>
__device__ inline void store_elements(T* p, const Compute<T> (&in)[V]) {
  Elements<T, V> e;
  for (int k = 0; k < V; ++k) store(&e.v[k], in[k]);
  *reinterpret_cast<Elements<T, V>*>(p) = e;
}
// True if all addresses (or null) are multiples of `bytes`.
inline bool aligned(std::initializer_list<const void*> pointers, size_t bytes) {
  for (const void* p : pointers)
    if (reinterpret_cast<uintptr_t>(p) % bytes != 0) return false;
  return true;
}

}  // namespace tessera::cuda::internal
