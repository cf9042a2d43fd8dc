// Runs the blocks of a launch on the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tessera::cuda::emulation {

// What a device of this kind refuses.
inline constexpr int kMaxThreadsPerBlock = 1024;
// The compute capability is TESSERA_EMULATED_CAPABILITY's ("8.6"), else 9.0, and brings its own limit of shared memory,
// unless TESSERA_EMULATED_SHARED says how many KiB a block may have. TESSERA_EMULATED_MULTIPROCESSORS: 4, few, so that
// kernels walk over their data more than once.
struct Capability {
  int major, minor;
  size_t max_shared_bytes;
  int multiprocessors;
};
const Capability& capability();
cudaError_t check_launch(dim3 blocks, dim3 threads, size_t shared_bytes);

// Runs body for each thread; the caller has made device memory accessible, and no other thread runs a kernel. name: of
// the kernel, mangled.
void run_blocks(dim3 blocks, dim3 threads, size_t shared_bytes, bool cooperate, const std::function<void()>& body,
                const char* name);

// Who runs, for the detection of races (races.cc). An epoch grows with each barrier that all threads of a block, or
// lanes of a warp, have passed.
struct Position {
  const char* kernel = nullptr;  // null: none runs
  uint32_t launch = 0, block = 0, block_epoch = 0;
  int threads = 0, thread = 0;            // of a block
  const unsigned char* shared = nullptr;  // dynamic
  size_t shared_bytes = 0;
};
extern Position position;
uint32_t warp_epoch(int thread);

}  // namespace tessera::cuda::emulation
