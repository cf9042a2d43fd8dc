// The CUDA library as the core sees it: tables of functions.
#pragma once

#include "tensor/core/device_hooks.h"
#include "tensor/engine/engines.h"

namespace tessera::cuda {

// Fills the tables of DeviceType::kCUDA. False, and nothing is changed, if there is no device or no driver. `default_generator` gives the core's generator of a device.
bool connect(Engines& engines, DeviceHooks& hooks, const Generator& (*default_generator)(Device device));

}  // namespace tessera::cuda
