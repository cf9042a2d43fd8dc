// Running sums over the whole device: how many hits, keys or elements lie before a place.
#pragma once

#include <cstdint>

#include "tensor/cuda/support/block.h"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::cuda {
namespace internal {
inline constexpr int kSumThreads = 512;
inline constexpr int kSumItems = 16;  // of a thread, one behind the other
inline constexpr int64_t kSumTile = int64_t{kSumThreads} * kSumItems;

// Each tile of `counts` by itself; its total goes to totals[tile], if totals is not null.
template <class T>
__global__ void sum_tiles(T* counts, int64_t n, T* totals) {
  const int64_t first = blockIdx.x * kSumTile + threadIdx.x * kSumItems;
  T items[kSumItems];
  T sum = 0;
  for (int i = 0; i < kSumItems; ++i) {
    const T c = first + i < n ? counts[first + i] : T{0};
    items[i] = sum;
    sum += c;
  }
  const Scanned<T> scanned = block_scan(
      sum, [](T a, T b) { return a + b; }, T{0});
  for (int i = 0; i < kSumItems; ++i) {
    if (first + i < n) counts[first + i] = scanned.before + items[i];
  }
  if (threadIdx.x == 0 && totals) totals[blockIdx.x] = scanned.total;
}

template <class T>
struct AddTileStart {
  T* counts;
  const T* starts;
  __device__ void operator()(int64_t i) const { counts[i] += starts[i / kSumTile]; }
};
}  // namespace internal

// counts[i] <- counts[0] + ... + counts[i - 1], in place; *total (on the device, may be null) <- the sum of all. T: an
// integer type, sums wrap.
template <class T>
void exclusive_sums(T* counts, int64_t n, T* total = nullptr) {
  const int64_t tiles = n <= internal::kSumTile ? 1 : (n + internal::kSumTile - 1) / internal::kSumTile;
  if (tiles == 1) {
    launch_blocks(internal::sum_tiles<T>, dim3(1), dim3(internal::kSumThreads), 0, counts, n, total);
    return;
  }
  const Buffer starts(tiles * sizeof(T));
  launch_blocks(internal::sum_tiles<T>, dim3(static_cast<unsigned>(tiles)), dim3(internal::kSumThreads), 0, counts, n,
                starts.as<T>());
  exclusive_sums(starts.as<T>(), tiles, total);
  for_each(n, internal::AddTileStart<T>{counts, starts.as<T>()});
}

}  // namespace tessera::cuda
