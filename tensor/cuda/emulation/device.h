// What CUDA C++ offers to kernels, for the host's compiler: the emulated device runs the same kernel sources as
// functions of the host.
//
// The blocks of a grid run one after another. Threads that do not work together are calls in a loop; threads of a
// cooperating block are fibers, which take turns at
// __syncthreads and at the warp functions. What a real device leaves undefined in them (a barrier that not all threads
// of a block reach, lanes that name each other and call different functions) ends the program with a message. Shared
// memory and fresh device memory hold garbage; device memory cannot be reached by host code.
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>
#include <vector_functions.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "tensor/cuda/emulation/device_math.h"

#undef __shared__
#define __shared__ static
#define __launch_bounds__(...)

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace tessera::cuda::emulation {

// Runs body once for each thread of the grid, or records it where `stream` is being captured. Errors are those of a
// real launch.
cudaError_t run(cudaStream_t stream, dim3 blocks, dim3 threads, size_t shared_bytes, bool cooperate,
                std::function<void()> body);
// The shared memory of the block that runs.
void* dynamic_shared();

enum class Barrier { kPlain, kAnd, kOr, kCount };
// Waits for all threads of the block; returns the and, or or number of their predicates.
int block_barrier(Barrier kind, bool predicate);

enum class WarpOp {
  kSync,
  kShuffle,
  kBallot,
  kMatch,
  kAdd,
  kMinSigned,
  kMaxSigned,
  kMinUnsigned,
  kMaxUnsigned,
  kAnd,
  kOr,
  kXor
};
// Waits for the lanes of `mask`. Returns, by op: the value of lane `source`, the lanes whose value is not 0, those with
// an equal value, or the values' combination.
uint64_t warp_exchange(WarpOp op, unsigned mask, uint64_t value, int source);
unsigned live_lanes();  // those of this thread's warp that have not ended
int lane();
[[noreturn]] void fail(const char* message);

template <class T>
concept Shuffled = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, long> ||
    std::is_same_v<T, unsigned long> || std::is_same_v<T, long long> || std::is_same_v<T, unsigned long long> ||
    std::is_same_v<T, float> || std::is_same_v<T, double>;

template <Shuffled T>
T shuffle(unsigned mask, T value, int source) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  bits = warp_exchange(WarpOp::kShuffle, mask, bits, source);
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

#if TESSERA_EMULATED_RACES  // races.cc
void begin_atomic();
void end_atomic();
void note_write(const void* p, size_t n);
#else
inline void begin_atomic() {}
inline void end_atomic() {}
inline void note_write(const void*, size_t) {}
#endif

template <class T, class F>
T atomic(T* p, F&& next) {
  begin_atomic();
  const T old = *p;
  *p = next(old);
  end_atomic();
  return old;
}
}  // namespace tessera::cuda::emulation

// Barriers.
inline void __syncthreads() {
  tessera::cuda::emulation::block_barrier(tessera::cuda::emulation::Barrier::kPlain, false);
}
inline int __syncthreads_and(int p) {
  return tessera::cuda::emulation::block_barrier(tessera::cuda::emulation::Barrier::kAnd, p != 0);
}
inline int __syncthreads_or(int p) {
  return tessera::cuda::emulation::block_barrier(tessera::cuda::emulation::Barrier::kOr, p != 0);
}
inline int __syncthreads_count(int p) {
  return tessera::cuda::emulation::block_barrier(tessera::cuda::emulation::Barrier::kCount, p != 0);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kSync, mask, 0, 0);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

// Shuffles. `width`: a power of two; the warp's groups of that many lanes.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize) {
  const int lane = tessera::cuda::emulation::lane();
  return tessera::cuda::emulation::shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = tessera::cuda::emulation::lane(), source = lane - static_cast<int>(delta);
  return tessera::cuda::emulation::shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize) {
  const int lane = tessera::cuda::emulation::lane(), source = lane + static_cast<int>(delta);
  return tessera::cuda::emulation::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize) {
  const int lane = tessera::cuda::emulation::lane(), source = lane ^ lane_mask;
  return tessera::cuda::emulation::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}

// Votes.
inline unsigned __ballot_sync(unsigned mask, int p) {
  return static_cast<unsigned>(
      tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kBallot, mask, p != 0, 0));
}
inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }
inline unsigned __activemask() { return tessera::cuda::emulation::live_lanes(); }
template <tessera::cuda::emulation::Shuffled T>
unsigned __match_any_sync(unsigned mask, T value) {
  uint64_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof value);
  return static_cast<unsigned>(
      tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kMatch, mask, bits, 0));
}

// Reductions over a warp: 32-bit integers, as on the device.
inline unsigned __reduce_add_sync(unsigned mask, unsigned v) {
  return static_cast<unsigned>(
      tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kAdd, mask, v, 0));
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned v) {
  return static_cast<unsigned>(
      tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kMinUnsigned, mask, v, 0));
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned v) {
  return static_cast<unsigned>(
      tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kMaxUnsigned, mask, v, 0));
}
inline int __reduce_add_sync(unsigned mask, int v) {
  return static_cast<int>(__reduce_add_sync(mask, static_cast<unsigned>(v)));
}
inline int __reduce_min_sync(unsigned mask, int v) {
  return static_cast<int>(tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kMinSigned, mask,
                                                                  static_cast<int64_t>(v), 0));
}
inline int __reduce_max_sync(unsigned mask, int v) {
  return static_cast<int>(tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kMaxSigned, mask,
                                                                  static_cast<int64_t>(v), 0));
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned v) {
  return static_cast<unsigned>(
      tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kAnd, mask, v, 0));
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned v) {
  return static_cast<unsigned>(
      tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kOr, mask, v, 0));
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned v) {
  return static_cast<unsigned>(
      tessera::cuda::emulation::warp_exchange(tessera::cuda::emulation::WarpOp::kXor, mask, v, 0));
}

// Atomic functions. One thread runs at a time, so that plain memory accesses do. The overloads are those of the device.
inline int atomicAdd(int* p, int v) {
  return tessera::cuda::emulation::atomic(
      p, [v](int o) { return static_cast<int>(static_cast<unsigned>(o) + static_cast<unsigned>(v)); });
}
inline unsigned atomicAdd(unsigned* p, unsigned v) {
  return tessera::cuda::emulation::atomic(p, [v](unsigned o) { return o + v; });
}
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) {
  return tessera::cuda::emulation::atomic(p, [v](unsigned long long o) { return o + v; });
}
inline float atomicAdd(float* p, float v) {
  return tessera::cuda::emulation::atomic(p, [v](float o) { return o + v; });
}
inline double atomicAdd(double* p, double v) {
  return tessera::cuda::emulation::atomic(p, [v](double o) { return o + v; });
}
inline int atomicSub(int* p, int v) {
  return tessera::cuda::emulation::atomic(
      p, [v](int o) { return static_cast<int>(static_cast<unsigned>(o) - static_cast<unsigned>(v)); });
}
inline unsigned atomicSub(unsigned* p, unsigned v) {
  return tessera::cuda::emulation::atomic(p, [v](unsigned o) { return o - v; });
}
inline unsigned atomicInc(unsigned* p, unsigned last) {
  return tessera::cuda::emulation::atomic(p, [last](unsigned o) { return o >= last ? 0 : o + 1; });
}
inline unsigned atomicDec(unsigned* p, unsigned last) {
  return tessera::cuda::emulation::atomic(p, [last](unsigned o) { return o == 0 || o > last ? last : o - 1; });
}

namespace tessera::cuda::emulation {
template <class T>
concept AtomicInt = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long>;
template <class T>
concept AtomicOrdered = AtomicInt<T> || std::is_same_v<T, long long>;
template <class T>
concept AtomicExchanged = AtomicInt<T> || std::is_same_v<T, float>;
template <class T>
concept AtomicCompared = AtomicInt<T> || std::is_same_v<T, unsigned short>;
}  // namespace tessera::cuda::emulation
template <tessera::cuda::emulation::AtomicExchanged T>
T atomicExch(T* p, std::type_identity_t<T> v) {
  return tessera::cuda::emulation::atomic(p, [v](T) { return v; });
}
template <tessera::cuda::emulation::AtomicOrdered T>
T atomicMin(T* p, std::type_identity_t<T> v) {
  return tessera::cuda::emulation::atomic(p, [v](T o) { return v < o ? v : o; });
}
template <tessera::cuda::emulation::AtomicOrdered T>
T atomicMax(T* p, std::type_identity_t<T> v) {
  return tessera::cuda::emulation::atomic(p, [v](T o) { return v > o ? v : o; });
}
template <tessera::cuda::emulation::AtomicInt T>
T atomicAnd(T* p, std::type_identity_t<T> v) {
  return tessera::cuda::emulation::atomic(p, [v](T o) { return o & v; });
}
template <tessera::cuda::emulation::AtomicInt T>
T atomicOr(T* p, std::type_identity_t<T> v) {
  return tessera::cuda::emulation::atomic(p, [v](T o) { return o | v; });
}
template <tessera::cuda::emulation::AtomicInt T>
T atomicXor(T* p, std::type_identity_t<T> v) {
  return tessera::cuda::emulation::atomic(p, [v](T o) { return o ^ v; });
}
template <tessera::cuda::emulation::AtomicCompared T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  return tessera::cuda::emulation::atomic(p, [=](T o) { return o == expected ? v : o; });
}

// Loads and stores with cache hints.
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldca(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
T __ldlu(const T* p) {
  return *p;
}
template <class T>
T __ldcv(const T* p) {
  return *p;
}
template <class T>
void __stcg(T* p, std::type_identity_t<T> v) {
  *p = v;
}
template <class T>
void __stcs(T* p, std::type_identity_t<T> v) {
  *p = v;
}
template <class T>
void __stwb(T* p, std::type_identity_t<T> v) {
  *p = v;
}
template <class T>
void __stwt(T* p, std::type_identity_t<T> v) {
  *p = v;
}

inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { tessera::cuda::emulation::fail("__trap()"); }
