// What the calling thread has selected. For the sources of the runtime alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kMaxDevices = 64;

struct ThreadState {
  int selected = 0;      // by the user
  int op = -1;           // of the operator at work; -1: the selected one
  uint64_t reached = 1;  // bits of the devices that the CUDA runtime has selected for this thread; it begins with 0
  cudaStream_t streams[kMaxDevices] = {};
};
inline ThreadState& thread_state() {
  constinit thread_local static ThreadState state;
  return state;
}

namespace internal {
void watch_forks();  // called before the first use of a device
[[noreturn]] void raise_error(cudaError_t e);
}  // namespace internal

}  // namespace tessera::cuda
