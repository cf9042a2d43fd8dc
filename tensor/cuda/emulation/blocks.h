// Runs the blocks of a launch on the host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace tessera::cuda::emulation {

// What a device of this kind refuses.
inline constexpr int kMaxThreadsPerBlock = 1024;
// The compute capability is TESSERA_EMULATED_CAPABILITY's ("8.6"), else 9.0, and brings its own limit of shared memory.
struct Capability {
  int major, minor;
  size_t max_shared_bytes;
};
const Capability& capability();
cudaError_t check_launch(dim3 blocks, dim3 threads, size_t shared_bytes);

// Runs body for each thread; the caller has made device memory accessible, and no other thread runs a kernel.
void run_blocks(dim3 blocks, dim3 threads, size_t shared_bytes, bool cooperate, const std::function<void()>& body);

}  // namespace tessera::cuda::emulation
