// Threads of a block that work together: reductions and scans over groups of threads. For kernels started by
// launch_blocks().
//
// All threads of the block must call these functions (all lanes of the warp for warp_*), in the same order. The block
// has a multiple of 32 threads, at most 1024, numbered by thread_rank(). A *group* is a power of two of consecutive
// threads that divides the block. Operators take two values of T and need not commute: the left one is always that of
// the lower threads. T is any trivially copyable type. Combination orders depend on the group's size alone.
#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/cuda/runtime/launch.h"

namespace tessera::cuda {

__device__ inline int thread_rank() {
  return static_cast<int>(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}
__device__ inline int block_threads() { return static_cast<int>(blockDim.x * blockDim.y * blockDim.z); }

namespace internal {
inline constexpr unsigned kAllLanes = 0xffffffffu;

// Shuffles of a value of any size, word by word: f(word) is the shuffle of 32 bits.
template <class T, class F>
__device__ inline T shuffle_words(const T& v, F f) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  unsigned words[kWords] = {};
  memcpy(words, &v, sizeof(T));
  for (int i = 0; i < kWords; ++i) words[i] = f(words[i]);
  T r = v;
  memcpy(static_cast<void*>(&r), words, sizeof(T));
  return r;
}
}  // namespace internal

// The value of the lane `delta` below, of the lane whose number differs by the bits `mask`, of lane `lane`,
// inside groups of `width` lanes. Where there is no such lane: the own value.
template <class T>
__device__ T shuffle_up(const T& v, int delta, int width = 32) {
  return internal::shuffle_words(v, [=](unsigned w) { return __shfl_up_sync(internal::kAllLanes, w, delta, width); });
}
template <class T>
__device__ T shuffle_xor(const T& v, int mask, int width = 32) {
  return internal::shuffle_words(v, [=](unsigned w) { return __shfl_xor_sync(internal::kAllLanes, w, mask, width); });
}
template <class T>
__device__ T shuffle(const T& v, int lane, int width = 32) {
  return internal::shuffle_words(v, [=](unsigned w) { return __shfl_sync(internal::kAllLanes, w, lane, width); });
}

// The values of a group of `width` <= 32 lanes combined; every lane gets the result.
template <class T, class Op>
__device__ T warp_reduce(T v, Op op, int width = 32) {
  const int lane = thread_rank() & 31;
  for (int d = 1; d < width; d *= 2) {
    const T other = shuffle_xor(v, d);
    v = lane & d ? op(other, v) : op(v, other);
  }
  return v;
}

// The same for groups of any size.
template <class T, class Op>
__device__ T group_reduce(T v, Op op, int group) {
  if (group <= 32) return warp_reduce(v, op, group);
  alignas(16) __shared__ unsigned char scratch[32 * sizeof(T)];
  T* totals = reinterpret_cast<T*>(scratch);
  const int t = thread_rank();
  v = warp_reduce(v, op);
  __syncthreads();  // an earlier call may still be reading
  if ((t & 31) == 0) totals[t / 32] = v;
  __syncthreads();
  const T* mine = totals + t / group * (group / 32);
  v = mine[0];
  for (int i = 1; i < group / 32; ++i) v = op(v, mine[i]);
  return v;
}
template <class T, class Op>
__device__ T block_reduce(T v, Op op) {
  return group_reduce(v, op, block_threads());
}

// Inclusive scan in groups of `width` <= 32 lanes.
template <class T, class Op>
__device__ T warp_scan(T v, Op op, int width = 32) {
  const int lane = thread_rank() & (width - 1);
  for (int d = 1; d < width; d *= 2) {
    const T lower = shuffle_up(v, d, width);
    if (lane >= d) v = op(lower, v);
  }
  return v;
}

template <class T>
struct Scanned {
  T before;  // the values of the group's lower threads combined; `identity` for the first
  T total;   // of the whole group
};
// Exclusive scan in groups of any size, with the group's total.
template <class T, class Op>
__device__ Scanned<T> group_scan(T v, Op op, T identity, int group) {
  const int t = thread_rank(), width = group < 32 ? group : 32;
  const T inclusive = warp_scan(v, op, width);
  T before = shuffle_up(inclusive, 1, width);
  if ((t & (width - 1)) == 0) before = identity;
  if (group <= 32) return {before, shuffle(inclusive, width - 1, width)};
  alignas(16) __shared__ unsigned char scratch[32 * sizeof(T)];
  T* totals = reinterpret_cast<T*>(scratch);
  __syncthreads();  // an earlier call may still be reading
  if ((t & 31) == 31) totals[t / 32] = inclusive;
  __syncthreads();
  const int warps = group / 32, warp = (t & (group - 1)) / 32;
  const T* mine = totals + t / group * warps;
  T lower = identity, total = mine[0];  // of the warps below this one, of all
  for (int i = 1; i < warps; ++i) {
    if (i == warp) lower = total;
    total = op(total, mine[i]);
  }
  if (warp > 0) before = (t & 31) == 0 ? lower : op(lower, before);
  return {before, total};
}
template <class T, class Op>
__device__ Scanned<T> block_scan(T v, Op op, T identity) {
  return group_scan(v, op, identity, block_threads());
}

}  // namespace tessera::cuda
