// What CUDA devices do, as CUPTI tells it: the tracer that the profiler asks.
#pragma once

#include "tensor/core/rare/device_tracer.h"

namespace tessera::cuda {

const DeviceTracer& tracer();

}  // namespace tessera::cuda
