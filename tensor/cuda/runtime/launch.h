// Starting kernels. The same kernel sources are compiled twice: by nvcc for a device, and by the host's compiler for
// the emulated device (emulation/), on which they are tested where there is no GPU. So kernels are started by these
// functions, never by <<<>>>.
#pragma once

#include <cstdint>
#include <tuple>
#include <utility>

#include "tensor/cuda/runtime/runtime.h"

#if TESSERA_CUDA_EMULATED
#include "tensor/cuda/emulation/device.h"
#endif

namespace tessera::cuda {

namespace internal {
#if TESSERA_CUDA_EMULATED
template <class... P>
void start(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared_bytes, bool cooperate,
           std::tuple<P...> args) {
  check(emulation::run(current_stream(), blocks, threads, shared_bytes, cooperate,
                       [kernel, args = std::move(args)] { std::apply(kernel, args); }),
        "kernel launch");
  after_launch();
}
#else
template <class... P>
void start(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared_bytes, bool, std::tuple<P...> args) {
  if (shared_bytes > 48 * 1024)
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "kernel launch");
  std::apply(
      [&](auto&... a) {
        void* pointers[] = {static_cast<void*>(&a)..., nullptr};
        check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), blocks, threads, pointers, shared_bytes,
                               current_stream()),
              "kernel launch");
      },
      args);
  after_launch();
}
#endif
template <class T>
struct Identity {
  using type = T;
};
}  // namespace internal

// Starts a kernel whose threads do not talk to each other: no shared memory, no __syncthreads, no warp functions. On
// the current stream of the current device.
template <class... P>
void launch(void (*kernel)(P...), dim3 blocks, dim3 threads, typename internal::Identity<P>::type... args) {
  internal::start(kernel, blocks, threads, 0, false, std::tuple<P...>(std::move(args)...));
}

// Starts a kernel whose threads of a block work together (__shared__, __syncthreads, __shfl_*_sync ...). shared_bytes:
// dynamic shared memory, see dynamic_shared().
template <class... P>
void launch_blocks(void (*kernel)(P...), dim3 blocks, dim3 threads, size_t shared_bytes,
                   typename internal::Identity<P>::type... args) {
  internal::start(kernel, blocks, threads, shared_bytes, true, std::tuple<P...>(std::move(args)...));
}

inline constexpr int kThreads = 256;

// Blocks of kThreads for n items, a few waves of them at most: kernels walk on by the grid's size.
inline dim3 blocks_for(int64_t n, int64_t per_block = kThreads) {
  const int64_t most = int64_t{properties().multi_processor_count} * 32;
  const int64_t wanted = (n + per_block - 1) / per_block;
  return dim3(static_cast<unsigned>(wanted < 1 ? 1 : wanted < most ? wanted : most));
}

#if defined(__CUDACC__) || TESSERA_CUDA_EMULATED  // what only files with kernels can use

// The block's dynamic shared memory, 16-byte aligned.
__device__ inline void* dynamic_shared() {
#if TESSERA_CUDA_EMULATED
  return emulation::dynamic_shared();
#else
  extern __shared__ __align__(16) unsigned char tessera_dynamic_shared[];
  return tessera_dynamic_shared;
#endif
}

template <class F>
__global__ void for_each_kernel(int64_t n, F f) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) f(i);
}

// f(i) for i in [0, n): f is a __device__ lambda that captures by value.
template <class F>
void for_each(int64_t n, F f) {
  if (n > 0) launch(for_each_kernel<F>, blocks_for(n), dim3(kThreads), n, f);
}

#endif

}  // namespace tessera::cuda
