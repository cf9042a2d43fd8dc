// The CUDA library as the core sees it: tables of functions. Those of engines are filled by `connect` of each family's
// engines.h.
#pragma once

#include "tensor/core/device_hooks.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/engine/device.h"

namespace tessera::cuda {

// Fills the tables of DeviceType::kCUDA. False, and nothing but hooks.problem is changed, if there is no device or no
// driver: then nothing else is to be connected. `default_generator` gives the core's generator of a device.
bool connect(DeviceTable& table, DeviceHooks& hooks, const Generator& (*default_generator)(Device device));
// In a shared object of its own, the library names elementwise ops by stand-ins: own[i] stands for others[i]. Before
// connect.
void set_pointwise_ops(std::span<const PointwiseOp* const> own, std::span<const PointwiseOp* const> others);
// True once a tensor was made on a device.
bool has_been_used();

}  // namespace tessera::cuda
