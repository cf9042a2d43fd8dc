// What programs ask before they use a GPU. The front end's programs have the CPU.
#pragma once

#include "torch/types.h"

namespace torch::cuda {

inline bool is_available() { return false; }
inline bool cudnn_is_available() { return false; }
inline c10::DeviceIndex device_count() { return 0; }
inline void manual_seed(uint64_t) {}
inline void manual_seed_all(uint64_t) {}
inline void synchronize(int64_t = -1) { AT_ERROR("No CUDA GPUs are available"); }

}  // namespace torch::cuda
